/* kv_layout.c - the tables of a KV manager, one behind the other, each from a cache line on. */
#include "core/kv_layout.h"

#include <stdbool.h>

#include "impmem/bytes.h"

/* Reserves a table behind what is laid out so far. */
static impmem_status place(impmem__kv_layout *l, uint64_t *at, uint64_t rows, uint64_t row_bytes)
{
    uint64_t bytes;
    *at = l->bytes;
    if (impmem_mul(&bytes, rows, row_bytes) || impmem_align_up(&bytes, bytes, IMPMEM__TABLE_ALIGNMENT) ||
        impmem_add(&bytes, l->bytes, bytes))
        return IMPMEM_ERR_OVERFLOW;
    l->bytes = bytes;
    return IMPMEM_OK;
}

static uint64_t power_of_two_from(uint64_t n)
{
    uint64_t power = 1;
    while (power < n) power *= 2;
    return power;
}

static impmem_status count_rows(const impmem_control_kv *shape, impmem__kv_layout *l)
{
    if (!shape->n_groups || shape->n_groups > IMPMEM__KV_LAYOUT_GROUPS || !shape->block_tokens || !shape->max_sequences ||
        !shape->max_seq_tokens || shape->max_sequences > IMPMEM__KV_MAX_ROWS || shape->cache_entries > IMPMEM__KV_MAX_ROWS)
        return IMPMEM_ERR_INVALID_ARGUMENT;
    *l = (impmem__kv_layout){
        .n_groups = shape->n_groups,
        .block_tokens = shape->block_tokens,
        .max_sequences = shape->max_sequences,
        .max_seq_tokens = shape->max_seq_tokens,
        .max_blocks = shape->max_seq_tokens / shape->block_tokens + (shape->max_seq_tokens % shape->block_tokens != 0),
        .pool_blocks = shape->pool_blocks,
        .entries = shape->cache_entries,
    };
    if (!l->entries) return IMPMEM_OK;
    l->cached_roots = l->entries < IMPMEM__KV_CACHED_ROOTS ? l->entries : IMPMEM__KV_CACHED_ROOTS;
    l->roots = l->cached_roots + l->max_sequences;
    l->buckets = power_of_two_from(2 * (uint64_t)l->entries);
    l->root_buckets = power_of_two_from(2 * (uint64_t)l->roots);
    return IMPMEM_OK;
}

impmem_status impmem__kv_layout_of(const impmem_control_kv *shape, impmem__kv_layout *l)
{
    if (!shape || !l) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem_status st = count_rows(shape, l);
    if (st) return st;

    uint64_t header = 0;
    uint64_t positions = (uint64_t)l->max_sequences * l->max_blocks;
    bool cache = l->entries != 0;
    uint64_t entry_rows = cache ? (uint64_t)l->entries + 1 : 0;
    uint64_t token_bytes = sizeof(uint32_t) * (uint64_t)l->block_tokens;
    st = place(l, &header, 1, IMPMEM__KV_HEADER_BYTES);
    if (!st) st = place(l, &l->sequences_at, l->max_sequences, IMPMEM__KV_SEQUENCE_BYTES);
    for (uint32_t g = 0; g < l->n_groups && !st; g++) {
        st = place(l, &l->refs_at[g], positions, IMPMEM__KV_REF_BYTES);
        if (!st) st = place(l, &l->ids_at[g], positions, IMPMEM__KV_ID_BYTES);
    }
    if (!st) st = place(l, &l->chains_at, cache ? positions : 0, IMPMEM__KV_CHAIN_BYTES);
    if (!st) st = place(l, &l->hits_at, cache ? l->max_blocks : 0, sizeof(uint32_t));
    if (!st) st = place(l, &l->entries_at, entry_rows, IMPMEM__KV_ENTRY_BYTES);
    if (!st) st = place(l, &l->tokens_at, entry_rows, token_bytes);
    if (!st) st = place(l, &l->buckets_at, l->buckets, sizeof(uint32_t));
    if (!st) st = place(l, &l->bindings_at, cache ? l->pool_blocks : 0, sizeof(uint32_t));
    if (!st) st = place(l, &l->marks_at, (entry_rows + 63) / 64, sizeof(uint64_t));
    if (!st) st = place(l, &l->roots_at, cache ? (uint64_t)l->roots + 1 : 0, IMPMEM__KV_ROOT_BYTES);
    if (!st) st = place(l, &l->root_buckets_at, l->root_buckets, sizeof(uint32_t));
    return st;
}

impmem_status impmem_control_kv_bytes(const impmem_control_kv *shape, uint64_t *out_bytes)
{
    if (!out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem__kv_layout layout;
    impmem_status st = impmem__kv_layout_of(shape, &layout);
    if (!st) *out_bytes = layout.bytes;
    return st;
}
