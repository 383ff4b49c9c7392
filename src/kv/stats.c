/* stats.c - what a KV manager says about itself. */
#include "kv/internal.h"

#include <string.h>

/* Every member is a 64-bit number, so that publishing can copy word by word. */
#define COUNT_FIELD(name, text) +1
_Static_assert(sizeof(impmem_kv_stats) == (0 IMPMEM_KV_STATS_MAP(COUNT_FIELD)) * sizeof(uint64_t),
               "all members are uint64_t");

void impmem_kv_query(const impmem_kv *kv, impmem_kv_stats *out)
{
    if (!out) return;
    memset(out, 0, sizeof *out);
    if (!kv) return;
    impmem_block_pool_stats pool;
    impmem_block_pool_query(kv->group[0].pool, &pool);
    out->sequences = kv->live_sequences;
    out->total_blocks = pool.total_blocks;
    out->free_blocks = pool.free_blocks;
    out->sequence_blocks = pool.live_blocks - (kv->cached - kv->in_use);
    out->cached_blocks = kv->cached;
    out->reclaimable_blocks = kv->reclaimable;
    out->promised_blocks = kv->group[0].promised;
    out->admissions = kv->admissions;
    out->refused_never = kv->refused_never;
    out->refused_now = kv->refused_now;
    out->prompt_tokens = kv->prompt_tokens;
    out->hit_tokens = kv->hit_tokens;
    out->lookup_blocks = kv->lookup_blocks;
    out->hit_blocks = kv->hit_blocks;
    out->collisions = kv->collisions;
    out->evictions = kv->evictions;
    out->uncached = kv->uncached;
    out->growths = kv->growths;
}

void impmem_kv_publish_stats(impmem_kv *kv)
{
    if (!kv) return;
    impmem_kv_stats stats;
    uint64_t word[IMPMEM__KV_STATS_WORDS];
    impmem_kv_query(kv, &stats);
    memcpy(word, &stats, sizeof word);
    for (size_t i = 0; i < IMPMEM__KV_STATS_WORDS; i++) atomic_store_explicit(&kv->shown[i], word[i], memory_order_relaxed);
}

void impmem_kv_read_stats(const impmem_kv *kv, impmem_kv_stats *out)
{
    if (!out) return;
    memset(out, 0, sizeof *out);
    if (!kv) return;
    uint64_t word[IMPMEM__KV_STATS_WORDS];
    for (size_t i = 0; i < IMPMEM__KV_STATS_WORDS; i++) word[i] = atomic_load_explicit(&kv->shown[i], memory_order_relaxed);
    memcpy(out, word, sizeof word);
}

const char *impmem_kv_reuse_unsupported(const impmem_kv *kv)
{
    return kv ? kv->unsupported : "there is no KV manager";
}
