/* cache.c - entries of the prefix cache: locking, the eviction list, making, rebinding and evicting. */
#include "kv/internal.h"

#include <string.h>

static void list_add_newest(impmem_kv *kv, uint32_t at)
{
    impmem__kv_entry *entry = &kv->entry[at];
    entry->newer = 0;
    entry->older = kv->newest;
    if (kv->newest) kv->entry[kv->newest].newer = at;
    else kv->oldest = at;
    kv->newest = at;
    kv->reclaimable++;
}

static void list_remove(impmem_kv *kv, uint32_t at)
{
    impmem__kv_entry *entry = &kv->entry[at];
    if (entry->newer) kv->entry[entry->newer].older = entry->older;
    else kv->newest = entry->older;
    if (entry->older) kv->entry[entry->older].newer = entry->newer;
    else kv->oldest = entry->newer;
    kv->reclaimable--;
}

/* A child of `at` became locked. Its ancestors are locked with it; the walk ends at the first that was locked before. */
static void lock_ancestors(impmem_kv *kv, uint32_t at)
{
    while (!(at & IMPMEM__KV_AT_ROOT)) {
        impmem__kv_entry *entry = &kv->entry[at];
        bool was_locked = impmem__kv_locked(entry);
        entry->locked_children++;
        if (was_locked) return;
        list_remove(kv, at);
        at = entry->parent;
    }
}

void impmem__kv_add_user(impmem_kv *kv, uint32_t at)
{
    impmem__kv_entry *entry = &kv->entry[at];
    bool was_locked = impmem__kv_locked(entry);
    if (!entry->users++) kv->in_use++;
    if (was_locked) return;
    list_remove(kv, at);
    lock_ancestors(kv, entry->parent);
}

void impmem__kv_remove_user(impmem_kv *kv, uint32_t at)
{
    impmem__kv_entry *entry = &kv->entry[at];
    if (!--entry->users) kv->in_use--;
    while (!impmem__kv_locked(entry)) {
        list_add_newest(kv, at);
        at = entry->parent;
        if (at & IMPMEM__KV_AT_ROOT) return;
        entry = &kv->entry[at];
        entry->locked_children--;
    }
}

void impmem__kv_evict_oldest(impmem_kv *kv)
{
    uint32_t at = kv->oldest;
    impmem__kv_entry *entry = &kv->entry[at];
    uint32_t block = impmem_block_id(kv->group[0].pool, entry->ref);
    list_remove(kv, at);
    __builtin_prefetch(&kv->entry[kv->oldest]);
    uint32_t *link = &kv->bucket[entry->hash & kv->bucket_mask];
    while (*link != at) link = &kv->entry[*link].next;
    *link = entry->next;

    kv->binding[block] = 0;
    impmem__kv_drop(kv, 0, &entry->ref);
    entry->generation = 0;
    entry->next = kv->free_entry;
    kv->free_entry = at;
    kv->cached--;
    kv->evictions++;
    if (entry->parent & IMPMEM__KV_AT_ROOT) {
        uint32_t root = entry->parent & ~IMPMEM__KV_AT_ROOT;
        if (!--kv->root[root].entries) {
            kv->cached_roots--;
            impmem__kv_free_root_if_unused(kv, root);
        }
    }
}

/* Room for a first entry of a root that has none. Old entries go so that a few namespaces that nobody uses any more can't
 * keep new ones out. */
static bool make_root_room(impmem_kv *kv)
{
    for (uint32_t i = 0; i < IMPMEM__KV_ROOT_EVICTIONS && kv->cached_roots >= kv->max_cached_roots && kv->oldest; i++)
        impmem__kv_evict_oldest(kv);
    return kv->cached_roots < kv->max_cached_roots;
}

/* A free row; the oldest reclaimable entry makes place when there is none. */
static uint32_t free_row(impmem_kv *kv)
{
    if (!kv->free_entry && kv->fresh_entry == kv->n_entries && kv->oldest) impmem__kv_evict_oldest(kv);
    uint32_t at = kv->free_entry;
    if (at) {
        kv->free_entry = kv->entry[at].next;
        return at;
    }
    return kv->fresh_entry < kv->n_entries ? ++kv->fresh_entry : 0;
}

static void give_row_back(impmem_kv *kv, uint32_t at)
{
    kv->entry[at].next = kv->free_entry;
    kv->free_entry = at;
}

/* The cache's own reference to the block of `ref`. */
static bool share(impmem_kv *kv, impmem_block_ref ref, uint32_t owner, impmem_block_ref *out)
{
    impmem_status st = impmem_block_share(kv->group[0].pool, ref, IMPMEM_HOLDER_CACHE, owner, out);
    if (st == IMPMEM_ERR_UNSUPPORTED) kv->unsupported = "the block pool was opened without sharing";
    return st == IMPMEM_OK;
}

uint32_t impmem__kv_insert(impmem_kv *kv, uint32_t parent, uint64_t chain, const uint32_t *tokens, uint32_t probes,
                           impmem_block_ref ref, uint32_t block)
{
    bool at_root = (parent & IMPMEM__KV_AT_ROOT) != 0;
    impmem__kv_root *root = at_root ? &kv->root[parent & ~IMPMEM__KV_AT_ROOT] : NULL;
    if (probes >= kv->chain_cap || kv->binding[block]) return 0;
    if (root && !root->entries && !make_root_room(kv)) return 0;
    uint32_t at = free_row(kv);
    if (!at) return 0;
    impmem__kv_entry *entry = &kv->entry[at];
    uint32_t users = impmem_block_count(kv->group[0].pool, ref);
    if (!share(kv, ref, at, &entry->ref)) {
        give_row_back(kv, at);
        return 0;
    }

    uint64_t hash = chain & kv->hash_mask;
    uint32_t *bucket = &kv->bucket[hash & kv->bucket_mask];
    entry->hash = hash;
    entry->generation = kv->next_generation++;
    entry->parent = parent;
    entry->parent_generation = root ? root->generation : kv->entry[parent].generation;
    entry->users = users;
    entry->locked_children = 0;
    entry->next = *bucket;
    *bucket = at;
    memcpy(kv->tokens + (uint64_t)at * kv->block_tokens, tokens, (size_t)kv->block_tokens * sizeof *tokens);
    kv->binding[block] = at;
    kv->cached++;
    kv->in_use++;
    if (root && !root->entries++) kv->cached_roots++;
    lock_ancestors(kv, parent);
    return at;
}

bool impmem__kv_rebind(impmem_kv *kv, uint32_t at, impmem_block_ref ref, uint32_t block)
{
    impmem__kv_entry *entry = &kv->entry[at];
    if (kv->binding[block]) return false;
    uint32_t users = impmem_block_count(kv->group[0].pool, ref);
    impmem_block_ref mine;
    if (!share(kv, ref, at, &mine)) return false;
    kv->binding[impmem_block_id(kv->group[0].pool, entry->ref)] = 0;
    impmem__kv_drop(kv, 0, &entry->ref);
    entry->ref = mine;
    kv->binding[block] = at;
    impmem__kv_add_user(kv, at);
    entry->users = users;
    return true;
}
