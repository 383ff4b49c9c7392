/* publish.c - making written blocks known to the cache. */
#include "kv/internal.h"

/* Compares the tokens with what is published of the chain, then notes the hashes of what is new. A mistaken caller is told by
 * the chain's hash: this is a courtesy, and no hit depends on it. */
static impmem_status follow_chain(const impmem_kv *kv, const impmem__kv_sequence *s, const uint32_t *tokens, uint32_t whole)
{
    uint64_t *chain = kv->chain + impmem__kv_row(kv, s);
    uint64_t hash = kv->root[s->root].hash;
    uint32_t known = whole < s->published ? whole : s->published;
    for (uint32_t i = 0; i < known; i++) hash = impmem__kv_chain(kv, hash, tokens + (uint64_t)i * kv->block_tokens);
    if (known && hash != chain[known - 1]) return IMPMEM_ERR_INVALID_ARGUMENT;
    for (uint32_t i = known; i < whole; i++) {
        hash = impmem__kv_chain(kv, hash, tokens + (uint64_t)i * kv->block_tokens);
        chain[i] = hash;
    }
    return IMPMEM_OK;
}

/* Block i of the sequence below the entry `parent`: the entry that has this key already, or a new one; 0 when neither can be.
 * An entry whose block no sequence holds takes over this sequence's block: the copy that it had is freed at once, and the
 * chain on which this sequence builds can't be evicted from under it. */
static uint32_t bind_block(impmem_kv *kv, const impmem__kv_sequence *s, uint32_t i, uint32_t parent, const uint32_t *tokens)
{
    uint64_t at = impmem__kv_row(kv, s) + i;
    const uint32_t *block_tokens = tokens + (uint64_t)i * kv->block_tokens;
    uint32_t probes;
    uint32_t entry = impmem__kv_find(kv, parent, kv->chain[at], block_tokens, &probes, &kv->collisions);
    impmem_block_ref ref = kv->group[0].refs[at];
    uint32_t block = kv->group[0].ids[at];
    if (!entry) return impmem__kv_insert(kv, parent, kv->chain[at], block_tokens, probes, ref, block);
    if (!kv->entry[entry].users && !impmem__kv_rebind(kv, entry, ref, block)) return 0;
    return entry;
}

/* Whether the chain can go on below the sequence's last entry: it is there still, and locked, so that locking it once more
 * takes no reclaimable block from those that back promises. */
static bool can_continue(const impmem_kv *kv, const impmem__kv_sequence *s)
{
    const impmem__kv_entry *last = &kv->entry[s->last];
    return s->bound && last->generation == s->last_generation && impmem__kv_locked(last);
}

static void bind_blocks(impmem_kv *kv, impmem__kv_sequence *s, const uint32_t *tokens, uint32_t whole)
{
    if (!can_continue(kv, s)) {
        s->bound = 0;
        s->last = 0;
    }
    while (s->bound < whole) {
        uint32_t parent = s->bound ? s->last : s->root | IMPMEM__KV_AT_ROOT;
        uint32_t entry = bind_block(kv, s, s->bound, parent, tokens);
        if (!entry) {
            s->stopped = s->bound + 1;
            kv->uncached += whole - (s->bound > s->published ? s->bound : s->published);
            break;
        }
        s->last = entry;
        s->bound++;
    }
    s->last_generation = s->last ? kv->entry[s->last].generation : 0;
    s->published = whole;
}

impmem_status impmem_kv_publish(impmem_kv *kv, impmem_sequence seq, const uint32_t *tokens, uint32_t n_tokens)
{
    if (!kv || (!tokens && n_tokens)) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem__kv_sequence *s = impmem__kv_find_sequence(kv, seq);
    if (!s) return IMPMEM_ERR_STALE;
    if (n_tokens > s->tokens) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (kv->unsupported) return IMPMEM_OK;
    uint32_t whole = n_tokens / kv->block_tokens;
    impmem_status st = follow_chain(kv, s, tokens, whole);
    if (st || whole <= s->published) return st;
    if (s->stopped) {
        kv->uncached += whole - s->published;
        s->published = whole;
        return IMPMEM_OK;
    }
    bind_blocks(kv, s, tokens, whole);
    return IMPMEM_OK;
}

uint32_t impmem_kv_evict(impmem_kv *kv, uint32_t n)
{
    uint32_t evicted = 0;
    if (!kv) return 0;
    for (; evicted < n && kv->oldest; evicted++) impmem__kv_evict_oldest(kv);
    return evicted;
}
