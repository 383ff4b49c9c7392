/* Exact host bytes of the library's own tables. See core/layout.h for the constants. */
#include "impmem/control.h"

#include "core/layout.h"
#include "impmem/bytes.h"

/* *total += count * each, rounded up to whole cache lines. */
static impmem_status add_table(uint64_t *total, uint64_t count, uint64_t each)
{
    uint64_t bytes;
    if (impmem_mul(&bytes, count, each) || impmem_align_up(&bytes, bytes, IMPMEM__TABLE_ALIGNMENT))
        return IMPMEM_ERR_OVERFLOW;
    return impmem_add(total, *total, bytes);
}

impmem_status impmem_control_ledger_bytes(uint32_t n_lines, uint32_t journal_records, uint64_t *out_bytes)
{
    if (!out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (journal_records == 0) journal_records = IMPMEM__JOURNAL_DEFAULT_RECORDS;
    uint64_t bytes = IMPMEM__LEDGER_HEADER_BYTES;
    if (add_table(&bytes, n_lines, IMPMEM__LEDGER_LINE_BYTES) ||
        add_table(&bytes, journal_records, IMPMEM__JOURNAL_RECORD_BYTES))
        return IMPMEM_ERR_OVERFLOW;
    *out_bytes = bytes;
    return IMPMEM_OK;
}

impmem_status impmem_control_backend_bytes(uint64_t *out_bytes)
{
    if (!out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    *out_bytes = IMPMEM__BACKEND_BYTES;
    return IMPMEM_OK;
}

impmem_status impmem_control_region_bytes(uint32_t n_shares, uint64_t reserved_bytes, uint64_t granule_bytes, int growable,
                                          uint64_t *out_bytes)
{
    if (!out_bytes || (growable && granule_bytes == 0)) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint64_t bytes = IMPMEM__REGION_HEADER_BYTES;
    if (add_table(&bytes, n_shares ? n_shares : 1, IMPMEM__REGION_SHARE_BYTES)) return IMPMEM_ERR_OVERFLOW;
    if (growable) {
        uint64_t granules, words;
        if (impmem_div_up(&granules, reserved_bytes, granule_bytes) || impmem_div_up(&words, granules, 64) ||
            add_table(&bytes, words, sizeof(uint64_t)))
            return IMPMEM_ERR_OVERFLOW;
    }
    *out_bytes = bytes;
    return IMPMEM_OK;
}

impmem_status impmem_control_arena_bytes(uint32_t n_shares, uint64_t *out_bytes)
{
    if (!out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    *out_bytes = IMPMEM__ARENA_HEADER_BYTES + (uint64_t)IMPMEM__ARENA_SHARE_BYTES * n_shares;
    return IMPMEM_OK;
}

impmem_status impmem_control_scratch_bytes(uint64_t *out_bytes)
{
    if (!out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    *out_bytes = IMPMEM__SCRATCH_BYTES;
    return IMPMEM_OK;
}

impmem_status impmem_control_pinned_bytes(uint64_t *out_bytes)
{
    if (!out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    *out_bytes = IMPMEM__PINNED_BYTES;
    return IMPMEM_OK;
}

impmem_status impmem_control_staging_bytes(uint64_t *out_bytes)
{
    if (!out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    *out_bytes = IMPMEM__STAGING_BYTES;
    return IMPMEM_OK;
}

impmem_status impmem_control_block_pool_bytes(uint32_t max_blocks, uint32_t extra_refs, uint64_t *out_bytes)
{
    if (!out_bytes || max_blocks == 0) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint64_t slots = (uint64_t)max_blocks + extra_refs;
    if (slots > UINT32_MAX) return IMPMEM_ERR_OVERFLOW;
    uint64_t bytes = IMPMEM__BLOCK_POOL_HEADER_BYTES;
    if (add_table(&bytes, slots, IMPMEM__BLOCK_POOL_SLOT_BYTES) ||
        add_table(&bytes, max_blocks, IMPMEM__BLOCK_POOL_BLOCK_BYTES))
        return IMPMEM_ERR_OVERFLOW;
    *out_bytes = bytes;
    return IMPMEM_OK;
}

impmem_status impmem_control_engine_bytes(uint32_t max_batch, uint32_t n_state_pools, uint64_t *out_bytes)
{
    if (!out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint64_t bytes = IMPMEM__ENGINE_OBJECT_BYTES, slots = (uint64_t)max_batch * n_state_pools;
    impmem_status st = add_table(&bytes, slots, IMPMEM__ENGINE_SLOT_BYTES);
    if (!st) *out_bytes = bytes;
    return st;
}
