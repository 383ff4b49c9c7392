/* kv/live.h - what the floor above may ask of a sequence handle. */
#ifndef IMPMEM__KV_LIVE_H
#define IMPMEM__KV_LIVE_H

#include "impmem/kv.h"

/* True while the handle names an admitted sequence; its slot_ is then below max_sequences and its own. */
bool impmem__kv_is_live(const impmem_kv *kv, impmem_sequence sequence);

#endif
