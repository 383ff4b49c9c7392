/* core/kv_layout.h - which tables a KV manager has, how large they are and where they lie in its one allocation: for the planner,
 * which adds the bytes up before anything exists, and for the manager, which lays them out.
 */
#ifndef IMPMEM__CORE_KV_LAYOUT_H
#define IMPMEM__CORE_KV_LAYOUT_H

#include <stdint.h>

#include "core/layout.h"
#include "impmem/control.h"

#define IMPMEM__KV_LAYOUT_GROUPS 16u

typedef struct impmem__kv_layout {
    uint32_t n_groups, block_tokens, max_sequences, max_seq_tokens;
    uint32_t max_blocks;  /* of one sequence */
    uint32_t pool_blocks; /* ceiling of group 0's pool */
    uint32_t entries;     /* 0 = no prefix cache */
    uint32_t cached_roots, roots;
    uint64_t buckets, root_buckets;
    uint64_t sequences_at, chains_at, entries_at, tokens_at, buckets_at, bindings_at, marks_at, roots_at, root_buckets_at,
        hits_at;
    uint64_t refs_at[IMPMEM__KV_LAYOUT_GROUPS], ids_at[IMPMEM__KV_LAYOUT_GROUPS];
    uint64_t bytes;
} impmem__kv_layout;

/* INVALID_ARGUMENT: a count is 0 or above what rows can be numbered; OVERFLOW. */
IMPMEM_NODISCARD impmem_status impmem__kv_layout_of(const impmem_control_kv *shape, impmem__kv_layout *out);

#endif
