/* blocks.c - the one place where a KV manager takes blocks: promises, growth, and the order free, grown, reclaimed. */
#include "kv/internal.h"

uint64_t impmem__kv_free_blocks(const impmem_kv *kv, uint32_t group)
{
    impmem_block_pool_stats pool;
    impmem_block_pool_query(kv->group[group].pool, &pool);
    return pool.free_blocks - pool.reserved_blocks;
}

static uint64_t growable_blocks(const impmem_kv *kv, uint32_t group)
{
    impmem_block_pool_stats pool;
    impmem_block_pool_query(kv->group[group].pool, &pool);
    return pool.max_blocks - pool.total_blocks;
}

/* At least `want` more blocks if the pool may have them; a sixty-fourth of its ceiling at a time, so that a pool that grows
 * under decode does not ask the driver for every block. */
static void grow(impmem_kv *kv, uint32_t group, uint64_t want)
{
    impmem__kv_group *g = &kv->group[group];
    impmem_block_pool_stats before, after;
    impmem_block_pool_query(g->pool, &before);
    uint64_t room = before.max_blocks - before.total_blocks;
    if (!room) {
        g->growth_refused = 1;
        return;
    }
    uint64_t step = before.max_blocks / 64 > want ? before.max_blocks / 64 : want;
    if (step > room) step = room;
    impmem_status st = impmem_block_pool_grow(g->pool, (uint32_t)(before.total_blocks + step), NULL);
    impmem_block_pool_query(g->pool, &after);
    if (!group && after.total_blocks > before.total_blocks) kv->growths++;
    /* Under a grower CAPACITY means not yet: it has been told, so the next block asks again. */
    g->growth_refused = st != IMPMEM_OK && st != IMPMEM_ERR_CAPACITY;
}

/* Blocks that can be had without growing and are promised to nobody. Never negative. */
static uint64_t unpromised(const impmem_kv *kv, uint32_t group)
{
    uint64_t at_hand = impmem__kv_free_blocks(kv, group) + (group ? 0 : kv->reclaimable);
    uint64_t promised = kv->group[group].promised;
    return at_hand > promised ? at_hand - promised : 0;
}

uint64_t impmem__kv_available(const impmem_kv *kv, uint32_t group)
{
    return unpromised(kv, group) + growable_blocks(kv, group);
}

impmem_status impmem__kv_ensure(impmem_kv *kv, uint32_t group, uint64_t gain, uint64_t spend)
{
    uint64_t at_hand = unpromised(kv, group) + gain;
    if (at_hand >= spend) return IMPMEM_OK;
    uint64_t missing = spend - at_hand;
    if (missing > growable_blocks(kv, group)) return IMPMEM_ERR_CAPACITY;
    grow(kv, group, missing);
    return unpromised(kv, group) + gain >= spend ? IMPMEM_OK : IMPMEM_ERR_CAPACITY;
}

/* Asks the pool, and makes it have a free block if it has none. */
static void find_free(impmem_kv *kv, uint32_t group)
{
    impmem__kv_group *g = &kv->group[group];
    g->known_free = impmem__kv_free_blocks(kv, group);
    if (g->known_free) return;
    if (!g->growth_refused) {
        grow(kv, group, 1);
        g->known_free = impmem__kv_free_blocks(kv, group);
    }
    if (!g->known_free && !group && kv->oldest) {
        impmem__kv_evict_oldest(kv);
        g->known_free = 1;
    }
}

impmem_status impmem__kv_take(impmem_kv *kv, uint32_t group, uint64_t owner, impmem_block_ref *out)
{
    impmem__kv_group *g = &kv->group[group];
    if (!g->known_free) find_free(kv, group);
    impmem_status st = impmem_block_take(g->pool, IMPMEM_HOLDER_SEQUENCE, owner, out);
    g->known_free = st ? 0 : g->known_free - (g->known_free > 0);
    return st;
}

void impmem__kv_drop(impmem_kv *kv, uint32_t group, impmem_block_ref *ref)
{
    if (impmem_block_drop(kv->group[group].pool, ref)) kv->broken++;
}

static impmem_status reserve(void *self, uint64_t amount)
{
    impmem__kv_group *g = self;
    impmem_status st = impmem__kv_ensure(g->kv, g->number, 0, amount);
    if (!st) g->promised += amount;
    return st;
}

static void undo(void *self, uint64_t amount)
{
    impmem__kv_group *g = self;
    g->promised -= amount;
}

impmem_resource impmem__kv_promise(impmem_kv *kv, uint32_t group)
{
    return (impmem_resource){reserve, NULL, undo, &kv->group[group], "KV blocks"};
}
