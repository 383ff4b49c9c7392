/* kv/live.h - what the floor above may ask beyond the public header. */
#ifndef IMPMEM__KV_LIVE_H
#define IMPMEM__KV_LIVE_H

#include "impmem/kv.h"

/* True while the handle names an admitted sequence; its slot_ is then below max_sequences and its own. */
bool impmem__kv_is_live(const impmem_kv *kv, impmem_sequence sequence);

/* Whether the request is well formed and can be admitted at some time, and the figures that a refusal is to show. No
 * counter moves: where it is false impmem_kv_admit says why. */
bool impmem__kv_is_possible(const impmem_kv *kv, const impmem_kv_request *request, impmem_kv_admission *out);

#endif
