/* kv.c - opening and closing a KV manager. */
#include "kv/internal.h"

#include "alloc/internal.h"
#include "impmem/size.h"

#define SUBJECT "KV manager"

static const char *why_no_reuse(const impmem_kv_options *o)
{
    if (o->no_prefix_cache) return "the prefix cache is switched off";
    if (o->recurrent_layers)
        return "the model has recurrent layers: a hit would need their state at its end too, and that is not kept";
    for (uint32_t g = 0; g < o->n_groups; g++) {
        if (o->group[g].window_tokens)
            return "the layout has sliding-window layers: a hit would need their blocks too, and those are not kept";
    }
    if (o->n_groups > 1) return "the layout has several block groups: a hit would need a cached block of each";
    return NULL;
}

static void *table(impmem_kv *kv, uint64_t at)
{
    return (char *)kv + at;
}

static void attach(impmem_kv *kv, const impmem_kv_options *o, const impmem__kv_layout *l)
{
    kv->n_groups = l->n_groups;
    kv->block_tokens = l->block_tokens;
    kv->max_sequences = l->max_sequences;
    kv->max_seq_tokens = l->max_seq_tokens;
    kv->max_blocks = l->max_blocks;
    kv->sequence = table(kv, l->sequences_at);
    for (uint32_t g = 0; g < l->n_groups; g++) {
        kv->group[g].kv = kv;
        kv->group[g].pool = o->group[g].pool;
        kv->group[g].refs = table(kv, l->refs_at[g]);
        kv->group[g].ids = table(kv, l->ids_at[g]);
        kv->group[g].window = o->group[g].window_tokens;
        kv->group[g].in_flight = o->group[g].in_flight_tokens;
        kv->group[g].number = g;
    }
    kv->unsupported = why_no_reuse(o);
    if (!l->entries) return;
    kv->chain = table(kv, l->chains_at);
    kv->hit = table(kv, l->hits_at);
    kv->entry = table(kv, l->entries_at);
    kv->tokens = table(kv, l->tokens_at);
    kv->bucket = table(kv, l->buckets_at);
    kv->binding = table(kv, l->bindings_at);
    kv->mark = table(kv, l->marks_at);
    kv->root = table(kv, l->roots_at);
    kv->root_bucket = table(kv, l->root_buckets_at);
    kv->bucket_mask = l->buckets - 1;
    kv->root_bucket_mask = l->root_buckets - 1;
    kv->n_entries = l->entries;
    kv->n_roots = l->roots;
    kv->max_cached_roots = l->cached_roots;
    kv->chain_cap = o->chain_cap ? o->chain_cap : IMPMEM__KV_CHAIN_CAP;
    kv->hash_mask = o->index_hash_bits && o->index_hash_bits < 64 ? ((uint64_t)1 << o->index_hash_bits) - 1 : UINT64_MAX;
}

/* A sequence longer than this could not have all its blocks even alone in the pools. */
static impmem_status find_most_tokens(impmem_kv *kv)
{
    uint64_t most = kv->max_seq_tokens;
    for (uint32_t g = 0; g < kv->n_groups; g++) {
        impmem_block_pool_stats pool;
        uint64_t need = 0;
        impmem_block_pool_query(kv->group[g].pool, &pool);
        impmem_status st = impmem_size_blocks_per_sequence(kv->max_seq_tokens, kv->block_tokens, kv->group[g].window,
                                                           kv->group[g].in_flight, &need);
        if (st) return st;
        uint64_t usable = pool.max_blocks - pool.reserved_blocks;
        if (need > usable && usable * kv->block_tokens < most) most = usable * kv->block_tokens;
    }
    kv->most_tokens = (uint32_t)most;
    return IMPMEM_OK;
}

/* Handles of one manager start at a generation of its own, so that another manager's are stale here. */
static void number_sequences(impmem_kv *kv, uint32_t first_generation)
{
    for (uint32_t i = kv->max_sequences; i-- > 0;) {
        kv->sequence[i].generation = first_generation;
        kv->sequence[i].next_free = kv->free_sequence;
        kv->free_sequence = i + 1;
    }
}

/* Blocks that no sequence may count on stay reserved in the pool while the manager is open. */
static impmem_status set_apart(impmem_kv *kv, const impmem_kv_options *options)
{
    for (uint32_t g = 0; g < kv->n_groups; g++) {
        impmem_status st = impmem_block_pool_reserve(kv->group[g].pool, options->group[g].reserved_blocks);
        if (st) return st;
        kv->group[g].set_apart = options->group[g].reserved_blocks;
    }
    return IMPMEM_OK;
}

static void destroy(impmem_kv *kv)
{
    for (uint32_t g = 0; g < kv->n_groups; g++)
        if (impmem_block_pool_unreserve(kv->group[g].pool, kv->group[g].set_apart)) kv->broken++;
    impmem_ledger_host_free(kv->ledger, kv->control_line, IMPMEM_TAG_HOST_CONTROL, kv, kv->table_bytes);
}

impmem_status impmem_kv_open(impmem_ledger *ledger, const impmem_kv_options *options, impmem_kv **out, impmem_error *why)
{
    if (!ledger || !options || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "ledger, options and out must not be NULL");
    impmem__kv_layout layout;
    impmem_status st = impmem__kv_lay_out(options, &layout, why);
    if (st) return st;
    for (uint32_t g = 0; g < layout.n_groups; g++) {
        if (!options->group[g].pool)
            return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "group %u has no pool", g);
        impmem_block_pool_stats pool;
        impmem_block_pool_query(options->group[g].pool, &pool);
        if (pool.live_blocks || pool.reserved_blocks)
            return impmem__error_set(why, IMPMEM_ERR_BUSY, SUBJECT,
                                     "the pool of group %u is in use: %llu blocks live, %llu reserved", g,
                                     (unsigned long long)pool.live_blocks, (unsigned long long)pool.reserved_blocks);
    }

    impmem_line_id line = impmem__control_line(options->control_line);
    void *memory = NULL;
    st = impmem_ledger_host_allocate(ledger, line, IMPMEM_TAG_HOST_CONTROL, layout.bytes, &memory, why);
    if (st) return st;
    impmem_kv *kv = memory;
    kv->ledger = ledger;
    kv->control_line = line;
    kv->table_bytes = layout.bytes;
    uint32_t id = impmem__ledger_pool_id(ledger);
    kv->seed = impmem_ledger_seed(ledger);
    kv->next_generation = impmem__seal_start(ledger, id);
    attach(kv, options, &layout);
    st = set_apart(kv, options);
    if (st) {
        destroy(kv);
        return impmem__error_set(why, st, SUBJECT, "a pool has fewer blocks than are to be set apart");
    }
    st = find_most_tokens(kv);
    if (st) {
        destroy(kv);
        return impmem__error_set(why, st, SUBJECT, "the blocks of a sequence can't be counted");
    }
    number_sequences(kv, (uint32_t)kv->next_generation | 1u);
    impmem_kv_publish_stats(kv);
    *out = kv;
    return IMPMEM_OK;
}

static impmem_status still_held(const impmem_kv *kv, impmem_error *why)
{
    uint64_t holds = 0;
    for (uint32_t g = 0; g < kv->n_groups; g++) holds += kv->group[g].holds;
    if (kv->live_sequences) {
        uint32_t first = 0;
        while (!kv->sequence[first].live) first++;
        return impmem__error_set(why, IMPMEM_ERR_LIVE_HOLDERS, SUBJECT,
                                 "%u sequences live; the first has owner %llu, %u tokens", kv->live_sequences,
                                 (unsigned long long)kv->sequence[first].owner, kv->sequence[first].tokens);
    }
    if (holds)
        return impmem__error_set(why, IMPMEM_ERR_LIVE_HOLDERS, SUBJECT, "%llu blocks are held by impmem_kv_hold",
                                 (unsigned long long)holds);
    return IMPMEM_OK;
}

impmem_status impmem_kv_close(impmem_kv **handle, impmem_error *why)
{
    if (!handle || !*handle) return IMPMEM_OK;
    impmem_kv *kv = *handle;
    impmem_status st = still_held(kv, why);
    if (st) return st;
    while (kv->oldest) impmem__kv_evict_oldest(kv);
    destroy(kv);
    *handle = NULL;
    return IMPMEM_OK;
}
