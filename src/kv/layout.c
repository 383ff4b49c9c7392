/* layout.c - from options to the tables that they ask for; core/kv_layout.c says how large those are and where they lie. */
#include "kv/internal.h"

_Static_assert(sizeof(impmem_kv) <= IMPMEM__KV_HEADER_BYTES, "impmem_control_kv_bytes counts a header of this size");
_Static_assert(sizeof(impmem__kv_sequence) == IMPMEM__KV_SEQUENCE_BYTES,
               "impmem_control_kv_bytes counts rows of this size");
_Static_assert(sizeof(impmem__kv_entry) == IMPMEM__KV_ENTRY_BYTES, "impmem_control_kv_bytes counts rows of this size");
_Static_assert(sizeof(impmem__kv_root) == IMPMEM__KV_ROOT_BYTES, "impmem_control_kv_bytes counts rows of this size");
_Static_assert(sizeof(impmem_block_ref) == IMPMEM__KV_REF_BYTES, "impmem_control_kv_bytes counts rows of this size");
_Static_assert(IMPMEM_KV_MAX_GROUPS == IMPMEM__KV_LAYOUT_GROUPS, "the layout has a table for each group");

#define SUBJECT "KV manager"

static impmem_status invalid(impmem_error *why, const char *what)
{
    return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "%s", what);
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

static impmem_status settle(const impmem_kv_options *o, impmem_control_kv *out, impmem_error *why)
{
    impmem_status st = impmem__options_check(o->size, o->version, sizeof *o, 1);
    if (st) return impmem__error_set(why, st, SUBJECT, "options version %u is not one that this library knows", o->version);
    st = check_groups(o, why);
    if (st) return st;
    if (!o->block_tokens || !o->max_sequences || !o->max_seq_tokens)
        return invalid(why, "block_tokens, max_sequences and max_seq_tokens must not be 0");
    if (o->index_hash_bits > 64) return invalid(why, "index_hash_bits must be at most 64");
    if (o->max_sequences > IMPMEM__KV_MAX_ROWS) return invalid(why, "max_sequences is more than can be numbered");

    impmem_control_kv shape = {
        .n_groups = o->n_groups,
        .block_tokens = o->block_tokens,
        .max_sequences = o->max_sequences,
        .max_seq_tokens = o->max_seq_tokens,
        .pool_blocks = o->cache_entries,
    };
    if (o->group[0].pool) {
        impmem_block_pool_stats pool;
        impmem_block_pool_query(o->group[0].pool, &pool);
        shape.pool_blocks = (uint32_t)pool.max_blocks;
    }
    if (!o->no_prefix_cache && !o->recurrent_layers && o->n_groups == 1 && !o->group[0].window_tokens) {
        if (!shape.pool_blocks) return invalid(why, "without a pool, cache_entries must say how many blocks it will have");
        shape.cache_entries = o->cache_entries && o->cache_entries < shape.pool_blocks ? o->cache_entries
                                                                                       : shape.pool_blocks;
        if (shape.cache_entries > IMPMEM__KV_MAX_ROWS) return invalid(why, "cache_entries is more than can be numbered");
    }
    *out = shape;
    return IMPMEM_OK;
}

impmem_status impmem__kv_lay_out(const impmem_kv_options *o, impmem__kv_layout *l, impmem_error *why)
{
    impmem_control_kv shape;
    impmem_status st = settle(o, &shape, why);
    if (st) return st;
    st = impmem__kv_layout_of(&shape, l);
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
