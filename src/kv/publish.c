/* publish.c - making written blocks known to the cache. */
#include "kv/internal.h"

/* What a caller says is written: the tokens of blocks [first, whole). */
typedef struct written {
    const uint32_t *tokens;
    uint32_t first, whole;
} written;

static const uint32_t *tokens_at(const impmem_kv *kv, const written *w, uint32_t block)
{
    return w->tokens + (uint64_t)(block - w->first) * kv->block_tokens;
}

/* Compares the tokens with what is published of the chain, then notes the hashes of what is new. A mistaken caller is told by
 * the chain's hash: this is a courtesy, and no hit depends on it. */
static impmem_status follow_chain(const impmem_kv *kv, const impmem__kv_sequence *s, const written *w)
{
    uint64_t *chain = kv->chain + impmem__kv_row(kv, s);
    uint64_t hash = w->first ? chain[w->first - 1] : kv->root[s->root].hash;
    uint32_t known = w->whole < s->published ? w->whole : s->published;
    for (uint32_t i = w->first; i < known; i++) hash = impmem__kv_chain(kv, hash, tokens_at(kv, w, i));
    if (known > w->first && hash != chain[known - 1]) return IMPMEM_ERR_INVALID_ARGUMENT;
    for (uint32_t i = known; i < w->whole; i++) {
        hash = impmem__kv_chain(kv, hash, tokens_at(kv, w, i));
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
    uint32_t probes;
    uint32_t entry = impmem__kv_find(kv, parent, kv->chain[at], tokens, &probes, &kv->collisions);
    impmem_block_ref ref = kv->group[0].refs[at];
    uint32_t block = kv->group[0].ids[at];
    if (!entry) return impmem__kv_insert(kv, parent, kv->chain[at], tokens, probes, ref, block);
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

/* The chain goes on where it was, or begins again: the caller has made sure that the tokens for that are told. */
static void bind_blocks(impmem_kv *kv, impmem__kv_sequence *s, const written *w)
{
    if (!can_continue(kv, s)) {
        s->bound = 0;
        s->last = 0;
    }
    while (s->bound < w->whole) {
        uint32_t parent = s->bound ? s->last : s->root | IMPMEM__KV_AT_ROOT;
        uint32_t entry = bind_block(kv, s, s->bound, parent, tokens_at(kv, w, s->bound));
        if (!entry) {
            s->stopped = s->bound + 1;
            kv->uncached += w->whole - (s->bound > s->published ? s->bound : s->published);
            break;
        }
        s->last = entry;
        s->bound++;
    }
    s->last_generation = s->last ? kv->entry[s->last].generation : 0;
    s->published = w->whole;
}

impmem_status impmem_kv_publish_from(impmem_kv *kv, impmem_sequence seq, uint32_t from, const uint32_t *tokens,
                                     uint32_t n_tokens)
{
    if (!kv || n_tokens < from || (!tokens && n_tokens > from)) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem__kv_sequence *s = impmem__kv_find_sequence(kv, seq);
    if (!s) return IMPMEM_ERR_STALE;
    if (n_tokens > s->tokens || from % kv->block_tokens) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (kv->unsupported) return IMPMEM_OK;
    const written w = {tokens, from / kv->block_tokens, n_tokens / kv->block_tokens};
    if (w.first > s->published) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem_status st = follow_chain(kv, s, &w);
    if (st || w.whole <= s->published) return st;
    if (s->stopped) {
        kv->uncached += w.whole - s->published;
        s->published = w.whole;
        return IMPMEM_OK;
    }
    if (w.first && !can_continue(kv, s)) return IMPMEM_ERR_NOT_FOUND;
    bind_blocks(kv, s, &w);
    return IMPMEM_OK;
}

impmem_status impmem_kv_publish(impmem_kv *kv, impmem_sequence seq, const uint32_t *tokens, uint32_t n_tokens)
{
    return impmem_kv_publish_from(kv, seq, 0, tokens, n_tokens);
}

uint32_t impmem_kv_evict(impmem_kv *kv, uint32_t n)
{
    uint32_t evicted = 0;
    if (!kv) return 0;
    for (; evicted < n && kv->oldest; evicted++) impmem__kv_evict_oldest(kv);
    return evicted;
}
