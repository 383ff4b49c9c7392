/* check.c - walking every table of a KV manager and comparing each figure with what can be counted. */
#include "kv/internal.h"

#include <string.h>

static impmem_status wrong(impmem_error *why, const char *what, uint64_t at, uint64_t found, uint64_t expected)
{
    return impmem__error_set(why, IMPMEM_ERR_STATE, "KV manager", "%s %llu: found %llu, expected %llu", what,
                             (unsigned long long)at, (unsigned long long)found, (unsigned long long)expected);
}

/* What the walks count. */
typedef struct census {
    uint64_t promised[IMPMEM_KV_MAX_GROUPS];
    uint64_t references[IMPMEM_KV_MAX_GROUPS]; /* of sequences */
    uint64_t uncached;                         /* blocks of group 0 that sequences hold and the cache does not know */
    uint64_t sequences;
    uint64_t in_use, first_entries, roots;
} census;

static impmem_status check_positions(const impmem_kv *kv, const impmem__kv_sequence *s, uint32_t group, census *seen,
                                     impmem_error *why)
{
    const impmem__kv_group *g = &kv->group[group];
    uint64_t row = impmem__kv_row(kv, s);
    if (s->first[group] > s->blocks) return wrong(why, "first position in group", group, s->first[group], s->blocks);
    for (uint32_t i = 0; i < s->blocks; i++) {
        bool passed = i < s->first[group];
        uint32_t id = impmem_block_id(g->pool, g->refs[row + i]);
        if (id != g->ids[row + i] || passed != (id == IMPMEM_NO_BLOCK))
            return wrong(why, "block in the table of the sequence with owner", s->owner, id, g->ids[row + i]);
        if (passed) continue;
        seen->references[group]++;
        if (!group && (!kv->n_entries || !kv->binding[id])) seen->uncached++;
    }
    seen->promised[group] += impmem__kv_left(s->promise[group], impmem__kv_held(s, group));
    return IMPMEM_OK;
}

static impmem_status check_sequences(const impmem_kv *kv, census *seen, impmem_error *why)
{
    for (uint32_t i = 0; i < kv->max_sequences; i++) {
        const impmem__kv_sequence *s = &kv->sequence[i];
        if (!s->live) continue;
        seen->sequences++;
        if (s->blocks != impmem__kv_blocks_of(kv, s->tokens))
            return wrong(why, "blocks of the sequence with owner", s->owner, s->blocks,
                         impmem__kv_blocks_of(kv, s->tokens));
        if (s->published > s->tokens / kv->block_tokens || s->bound > s->published)
            return wrong(why, "published blocks of the sequence with owner", s->owner, s->published,
                         s->tokens / kv->block_tokens);
        for (uint32_t g = 0; g < kv->n_groups; g++) {
            impmem_status st = check_positions(kv, s, g, seen, why);
            if (st) return st;
        }
    }
    if (seen->sequences != kv->live_sequences)
        return wrong(why, "live sequences of", 0, seen->sequences, kv->live_sequences);
    uint64_t free_slots = 0;
    for (uint32_t at = kv->free_sequence; at && free_slots <= kv->max_sequences; at = kv->sequence[at - 1].next_free) {
        if (kv->sequence[at - 1].live) return wrong(why, "a live sequence is in the list of free ones: slot", at - 1, 1, 0);
        free_slots++;
    }
    if (free_slots + seen->sequences != kv->max_sequences)
        return wrong(why, "free sequence slots", 0, free_slots, kv->max_sequences - seen->sequences);
    return IMPMEM_OK;
}

/* The first disagreement about block conservation in a pool, with the sign of the difference: references that nobody here
 * knows are a leak, fewer than are known are a double free. */
static impmem_status check_pool(const impmem_kv *kv, uint32_t group, const census *seen, impmem_error *why)
{
    const impmem__kv_group *g = &kv->group[group];
    impmem_block_pool_stats pool;
    impmem_status st = impmem_block_pool_check(g->pool, why);
    if (st) return st;
    impmem_block_pool_query(g->pool, &pool);
    uint64_t cached = group ? 0 : kv->cached;
    if (pool.free_blocks + pool.live_blocks != pool.total_blocks)
        return wrong(why, "free + live blocks of group", group, pool.free_blocks + pool.live_blocks, pool.total_blocks);
    if (pool.references_by[IMPMEM_HOLDER_SEQUENCE] != seen->references[group])
        return wrong(why, "references of sequences in group", group, pool.references_by[IMPMEM_HOLDER_SEQUENCE],
                     seen->references[group]);
    if (pool.references_by[IMPMEM_HOLDER_CACHE] != cached)
        return wrong(why, "references of the cache in group", group, pool.references_by[IMPMEM_HOLDER_CACHE], cached);
    uint64_t others = pool.references - seen->references[group] - cached;
    if (others != g->holds) return wrong(why, "references of holds in group", group, others, g->holds);
    if (!group && !g->holds && pool.live_blocks != seen->uncached + cached)
        return wrong(why, "live blocks of group", group, pool.live_blocks, seen->uncached + cached);
    if (g->promised != seen->promised[group])
        return wrong(why, "promised blocks of group", group, g->promised, seen->promised[group]);
    uint64_t at_hand = pool.free_blocks - pool.reserved_blocks + (group ? 0 : kv->reclaimable);
    if (g->promised > at_hand)
        return wrong(why, "promised blocks are more than free + reclaimable in group", group, g->promised, at_hand);
    return IMPMEM_OK;
}

static bool marked(const impmem_kv *kv, uint32_t entry)
{
    return kv->mark[entry / 64] >> entry % 64 & 1;
}

static void mark(const impmem_kv *kv, uint32_t entry)
{
    kv->mark[entry / 64] |= (uint64_t)1 << entry % 64;
}

static impmem_status check_entry(const impmem_kv *kv, uint32_t at, census *seen, impmem_error *why)
{
    const impmem__kv_entry *entry = &kv->entry[at];
    uint32_t block = impmem_block_id(kv->group[0].pool, entry->ref);
    if (block == IMPMEM_NO_BLOCK) return wrong(why, "the cache's reference is stale: entry", at, 0, 1);
    if (kv->binding[block] != at) return wrong(why, "entry of block", block, kv->binding[block], at);
    uint32_t users = impmem_block_count(kv->group[0].pool, entry->ref) - 1;
    if (users != entry->users) return wrong(why, "users of entry", at, entry->users, users);
    if (users) seen->in_use++;
    uint32_t row = entry->parent & ~IMPMEM__KV_AT_ROOT;
    bool at_root = row != entry->parent;
    if (row > (at_root ? kv->fresh_root : kv->fresh_entry)) return wrong(why, "parent of entry", at, row, kv->fresh_entry);
    uint64_t generation = at_root ? kv->root[row].generation : kv->entry[row].generation;
    if (!generation || generation != entry->parent_generation)
        return wrong(why, "the parent is gone: entry", at, generation, entry->parent_generation);
    if (at_root) seen->first_entries++;
    if (!at_root && impmem__kv_locked(entry) && !kv->entry[row].locked_children)
        return wrong(why, "locked children of entry", row, 0, 1);
    uint32_t found = kv->bucket[entry->hash & kv->bucket_mask];
    uint32_t probes = 1;
    for (; found && found != at && probes < kv->chain_cap; probes++) found = kv->entry[found].next;
    return found == at ? IMPMEM_OK : wrong(why, "the index does not find entry", at, found, at);
}

/* Oldest first: every entry is unlocked and comes before its parent. */
static impmem_status check_list(const impmem_kv *kv, impmem_error *why)
{
    memset(kv->mark, 0, ((size_t)kv->n_entries / 64 + 1) * sizeof(uint64_t));
    uint64_t n = 0;
    uint32_t before = 0;
    for (uint32_t at = kv->oldest; at; at = kv->entry[at].newer) {
        const impmem__kv_entry *entry = &kv->entry[at];
        if (n++ > kv->n_entries) break;
        if (!entry->generation || impmem__kv_locked(entry))
            return wrong(why, "a locked entry is in the eviction list:", at, 1, 0);
        if (entry->older != before) return wrong(why, "older neighbour of entry", at, entry->older, before);
        if (!(entry->parent & IMPMEM__KV_AT_ROOT) && marked(kv, entry->parent))
            return wrong(why, "an entry is younger than its parent: entry", at, entry->parent, 0);
        mark(kv, at);
        before = at;
    }
    if (before != kv->newest) return wrong(why, "newest entry of list", 0, kv->newest, before);
    return n == kv->reclaimable ? IMPMEM_OK : wrong(why, "entries in list", 0, n, kv->reclaimable);
}

static impmem_status check_cache(const impmem_kv *kv, census *seen, impmem_error *why)
{
    uint64_t live = 0, free_rows = 0, locked_children = 0, locked = 0;
    for (uint32_t at = 1; at <= kv->fresh_entry; at++) {
        if (!kv->entry[at].generation) continue;
        impmem_status st = check_entry(kv, at, seen, why);
        if (st) return st;
        live++;
        locked_children += kv->entry[at].locked_children;
        locked += impmem__kv_locked(&kv->entry[at]) && !(kv->entry[at].parent & IMPMEM__KV_AT_ROOT);
    }
    if (locked_children != locked) return wrong(why, "locked children in all", 0, locked_children, locked);
    if (live != kv->cached) return wrong(why, "cached blocks", 0, kv->cached, live);
    if (seen->in_use != kv->in_use) return wrong(why, "cached blocks in use", 0, kv->in_use, seen->in_use);
    for (uint32_t at = kv->free_entry; at && free_rows <= kv->fresh_entry; at = kv->entry[at].next) free_rows++;
    if (free_rows + live != kv->fresh_entry) return wrong(why, "free entries", 0, free_rows, kv->fresh_entry - live);
    return check_list(kv, why);
}

static impmem_status check_roots(const impmem_kv *kv, const census *seen, impmem_error *why)
{
    uint64_t sequences = 0, entries = 0, live = 0, cached = 0;
    for (uint32_t at = 1; at <= kv->fresh_root; at++) {
        const impmem__kv_root *root = &kv->root[at];
        if (!root->generation) continue;
        if (!root->sequences && !root->entries) return wrong(why, "users of namespace", at, 0, 1);
        sequences += root->sequences;
        entries += root->entries;
        live++;
        cached += root->entries != 0;
    }
    if (sequences != seen->sequences) return wrong(why, "sequences of all namespaces", 0, sequences, seen->sequences);
    if (entries != seen->first_entries)
        return wrong(why, "first entries of all namespaces", 0, entries, seen->first_entries);
    if (live != kv->live_roots) return wrong(why, "namespaces", 0, kv->live_roots, live);
    return cached == kv->cached_roots ? IMPMEM_OK : wrong(why, "namespaces with entries", 0, kv->cached_roots, cached);
}

impmem_status impmem_kv_check(const impmem_kv *kv, impmem_error *why)
{
    if (!kv) return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "KV manager", "kv is NULL");
    census seen;
    memset(&seen, 0, sizeof seen);
    if (kv->broken) return wrong(why, "references that the pool refused to drop", 0, kv->broken, 0);
    impmem_status st = check_sequences(kv, &seen, why);
    if (!st && kv->n_entries) st = check_cache(kv, &seen, why);
    if (!st && kv->n_entries) st = check_roots(kv, &seen, why);
    for (uint32_t g = 0; g < kv->n_groups && !st; g++) st = check_pool(kv, g, &seen, why);
    return st;
}
