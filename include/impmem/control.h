/* impmem/control.h - exact host bytes of the library's own tables: one function per table, used by the planner and by the
 * code that takes the bytes. Floor 0, implemented by src/core/control.c. Pure; any thread. OVERFLOW, INVALID_ARGUMENT.
 */
#ifndef IMPMEM_CONTROL_H
#define IMPMEM_CONTROL_H

#include <stdint.h>

#include "impmem/status.h"

#ifdef __cplusplus
extern "C" {
#endif

IMPMEM_NODISCARD impmem_status impmem_control_ledger_bytes(uint32_t n_lines, uint32_t journal_records, uint64_t *out_bytes);
IMPMEM_NODISCARD impmem_status impmem_control_backend_bytes(uint64_t *out_bytes);
IMPMEM_NODISCARD impmem_status impmem_control_region_bytes(uint32_t n_shares, uint64_t reserved_bytes,
                                                           uint64_t granule_bytes, int growable, uint64_t *out_bytes);
IMPMEM_NODISCARD impmem_status impmem_control_arena_bytes(uint32_t n_shares, uint64_t *out_bytes);
IMPMEM_NODISCARD impmem_status impmem_control_scratch_bytes(uint64_t *out_bytes);
/* The objects of one impmem_pinned and one impmem_staging; their memory is on their own line. */
IMPMEM_NODISCARD impmem_status impmem_control_pinned_bytes(uint64_t *out_bytes);
IMPMEM_NODISCARD impmem_status impmem_control_staging_bytes(uint64_t *out_bytes);
/* `extra_refs` as it is: 0 = none, an unshared pool. */
IMPMEM_NODISCARD impmem_status impmem_control_block_pool_bytes(uint32_t max_blocks, uint32_t extra_refs,
                                                               uint64_t *out_bytes);
/* What the tables of a KV manager (impmem/kv.h) depend on. */
typedef struct impmem_control_kv {
    uint32_t n_groups; /* 1 to 16 */
    uint32_t block_tokens;
    uint32_t max_sequences;
    uint32_t max_seq_tokens;
    uint32_t pool_blocks;   /* max_blocks of group 0's pool */
    uint32_t cache_entries; /* blocks that the prefix cache can name; 0 = no prefix cache */
} impmem_control_kv;
IMPMEM_NODISCARD impmem_status impmem_control_kv_bytes(const impmem_control_kv *shape, uint64_t *out_bytes);
IMPMEM_NODISCARD impmem_status impmem_control_engine_bytes(uint32_t max_batch, uint32_t n_state_pools, uint64_t *out_bytes);

#ifdef __cplusplus
}
#endif
#endif
