/* layout.c - which tables a KV manager has, how large they are and where they lie: one pure function for the planner and for
 * impmem_kv_open.
 */
#include "kv/internal.h"

#include "impmem/bytes.h"

#define SUBJECT "KV manager"

static impmem_status invalid(impmem_error *why, const char *what)
{
    return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "%s", what);
}

/* Reserves a table behind what is laid out so far, on a cache line of its own. */
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

static impmem_status check_groups(const impmem_kv_options *o, impmem_error *why)
{
    if (!o->n_groups || o->n_groups > IMPMEM_KV_MAX_GROUPS) return invalid(why, "n_groups must be 1 to 16");
    for (uint32_t g = 0; g < o->n_groups; g++) {
        if (g && !o->group[g].window_tokens && o->group[0].window_tokens)
            return invalid(why, "group 0 must be the one with full attention");
        for (uint32_t other = 0; other < g; other++) {
            if (o->group[g].pool && o->group[g].pool == o->group[other].pool)
                return invalid(why, "two groups have the same pool");
        }
    }
    return IMPMEM_OK;
}

static impmem_status settle(const impmem_kv_options *o, impmem__kv_layout *l, impmem_error *why)
{
    impmem_status st = impmem__options_check(o->size, o->version, sizeof *o, 1);
    if (st) return impmem__error_set(why, st, SUBJECT, "options version %u is not one that this library knows", o->version);
    st = check_groups(o, why);
    if (st) return st;
    if (!o->block_tokens || !o->max_sequences || !o->max_seq_tokens)
        return invalid(why, "block_tokens, max_sequences and max_seq_tokens must not be 0");
    if (o->index_hash_bits > 64) return invalid(why, "index_hash_bits must be at most 64");
    if (o->max_sequences > IMPMEM__KV_MAX_ROWS) return invalid(why, "max_sequences is more than can be numbered");

    *l = (impmem__kv_layout){
        .n_groups = o->n_groups,
        .block_tokens = o->block_tokens,
        .max_sequences = o->max_sequences,
        .max_seq_tokens = o->max_seq_tokens,
        .max_blocks = o->max_seq_tokens / o->block_tokens + (o->max_seq_tokens % o->block_tokens != 0),
    };
    l->pool_blocks = o->cache_entries;
    if (o->group[0].pool) {
        impmem_block_pool_stats pool;
        impmem_block_pool_query(o->group[0].pool, &pool);
        l->pool_blocks = (uint32_t)pool.max_blocks;
    }
    bool cache = !o->no_prefix_cache && o->n_groups == 1 && !o->group[0].window_tokens;
    if (!cache) return IMPMEM_OK;
    if (!l->pool_blocks) return invalid(why, "without a pool, cache_entries must say how many blocks it will have");
    l->entries = o->cache_entries && o->cache_entries < l->pool_blocks ? o->cache_entries : l->pool_blocks;
    if (l->entries > IMPMEM__KV_MAX_ROWS) return invalid(why, "cache_entries is more than can be numbered");
    l->cached_roots = l->entries < IMPMEM__KV_CACHED_ROOTS ? l->entries : IMPMEM__KV_CACHED_ROOTS;
    l->roots = l->cached_roots + l->max_sequences;
    l->buckets = power_of_two_from(2 * (uint64_t)l->entries);
    l->root_buckets = power_of_two_from(2 * (uint64_t)l->roots);
    return IMPMEM_OK;
}

impmem_status impmem__kv_lay_out(const impmem_kv_options *o, impmem__kv_layout *l, impmem_error *why)
{
    impmem_status st = settle(o, l, why);
    if (st) return st;

    uint64_t tables = 0;
    uint64_t positions = (uint64_t)l->max_sequences * l->max_blocks;
    bool cache = l->entries != 0;
    uint64_t entry_rows = cache ? (uint64_t)l->entries + 1 : 0;
    st = place(l, &tables, 1, sizeof(impmem_kv));
    if (!st) st = place(l, &l->sequences_at, l->max_sequences, sizeof(impmem__kv_sequence));
    for (uint32_t g = 0; g < l->n_groups && !st; g++) {
        st = place(l, &l->refs_at[g], positions, sizeof(impmem_block_ref));
        if (!st) st = place(l, &l->ids_at[g], positions, sizeof(uint32_t));
    }
    uint64_t token_bytes = sizeof(uint32_t) * (uint64_t)l->block_tokens;
    if (!st) st = place(l, &l->chains_at, cache ? positions : 0, sizeof(uint64_t));
    if (!st) st = place(l, &l->hits_at, cache ? l->max_blocks : 0, sizeof(uint32_t));
    if (!st) st = place(l, &l->entries_at, entry_rows, sizeof(impmem__kv_entry));
    if (!st) st = place(l, &l->tokens_at, entry_rows, token_bytes);
    if (!st) st = place(l, &l->buckets_at, l->buckets, sizeof(uint32_t));
    if (!st) st = place(l, &l->bindings_at, cache ? l->pool_blocks : 0, sizeof(uint32_t));
    if (!st) st = place(l, &l->marks_at, (entry_rows + 63) / 64, sizeof(uint64_t));
    if (!st) st = place(l, &l->roots_at, cache ? (uint64_t)l->roots + 1 : 0, sizeof(impmem__kv_root));
    if (!st) st = place(l, &l->root_buckets_at, l->root_buckets, sizeof(uint32_t));
    return st ? impmem__error_set(why, st, SUBJECT, "the tables would be larger than 64 bits can say") : IMPMEM_OK;
}

impmem_status impmem_kv_control_bytes(const impmem_kv_options *options, uint64_t *out_bytes)
{
    if (!options || !out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem__kv_layout layout;
    impmem_status st = impmem__kv_lay_out(options, &layout, NULL);
    if (!st) *out_bytes = layout.bytes;
    return st;
}
