/* block_inspect.c - looking into a block pool: statistics, holders, the span check and the walk over every table. */
#include "alloc/block_pool_internal.h"

#include <string.h>

#define SUBJECT "block pool"

/* Every member is a 64-bit number, so that publishing can copy word by word. */
_Static_assert(sizeof(impmem_block_pool_stats) == 16 * sizeof(uint64_t), "a member was added: all of them are uint64_t");

void impmem_block_pool_query(const impmem_block_pool *pool, impmem_block_pool_stats *out)
{
    if (!out) return;
    memset(out, 0, sizeof *out);
    if (!pool) return;
    out->total_blocks = pool->total;
    out->max_blocks = pool->max;
    out->free_blocks = impmem__block_pool_free(pool);
    out->reserved_blocks = pool->reserved;
    out->live_blocks = pool->live;
    out->live_peak_blocks = pool->live_peak;
    for (unsigned h = 0; h < IMPMEM_N_HOLDERS; h++) {
        out->references_by[h] = pool->references_by[h];
        out->references += pool->references_by[h];
    }
    out->takes = pool->takes;
    out->exhausted = pool->exhausted;
    out->growths = pool->growths;
    out->stride_bytes = pool->stride;
}

void impmem_block_pool_publish_stats(impmem_block_pool *pool)
{
    if (!pool) return;
    impmem_block_pool_stats stats;
    uint64_t word[IMPMEM__BLOCK_STATS_WORDS];
    impmem_block_pool_query(pool, &stats);
    memcpy(word, &stats, sizeof word);
    for (size_t i = 0; i < IMPMEM__BLOCK_STATS_WORDS; i++)
        atomic_store_explicit(&pool->published[i], word[i], memory_order_relaxed);
}

void impmem_block_pool_read_stats(const impmem_block_pool *pool, impmem_block_pool_stats *out)
{
    if (!out) return;
    memset(out, 0, sizeof *out);
    if (!pool) return;
    uint64_t word[IMPMEM__BLOCK_STATS_WORDS];
    for (size_t i = 0; i < IMPMEM__BLOCK_STATS_WORDS; i++)
        word[i] = atomic_load_explicit(&pool->published[i], memory_order_relaxed);
    memcpy(out, word, sizeof word);
}

impmem_status impmem_block_holders(const impmem_block_pool *pool, uint32_t block, impmem_block_holder *out,
                                   uint32_t capacity, uint32_t *out_n)
{
    if (!pool || !out_n || (!out && capacity)) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (block >= pool->total) return IMPMEM_ERR_NOT_FOUND;
    uint32_t n = 0;
    uint32_t head = impmem__block_head(pool, block);
    if (pool->slot[head].generation) {
        uint32_t at = head;
        do {
            const impmem__block_slot *slot = &pool->slot[at];
            if (n < capacity) out[n] = (impmem_block_holder){(impmem_holder)slot->holder, slot->owner};
            n++;
            at = slot->next;
        } while (at != head);
    }
    *out_n = n;
    return IMPMEM_OK;
}

impmem_status impmem__block_check_span(void *self, uint64_t generation, const void *data, uint64_t bytes)
{
    const impmem_block_pool *pool = self;
    uint64_t offset = (uint64_t)((uintptr_t)data - (uintptr_t)pool->base);
    uint64_t block = offset / pool->stride;
    if (bytes != pool->stride || offset % pool->stride || block >= pool->total) return IMPMEM_ERR_FORGED;
    if (generation < pool->first_generation || generation >= pool->next_generation) return IMPMEM_ERR_FORGED;
    uint32_t head = impmem__block_head(pool, (uint32_t)block);
    uint32_t at = head;
    if (!pool->slot[head].generation) return IMPMEM_ERR_STALE;
    do {
        if (pool->slot[at].generation == generation) return IMPMEM_OK;
        at = pool->slot[at].next;
    } while (at != head);
    return IMPMEM_ERR_STALE;
}

static impmem_status wrong(impmem_error *why, const char *what, uint64_t at, uint64_t found, uint64_t expected)
{
    return impmem__error_set(why, IMPMEM_ERR_STATE, SUBJECT, "%s %llu: found %llu, expected %llu", what,
                             (unsigned long long)at, (unsigned long long)found, (unsigned long long)expected);
}

/* A stack of free slots has `expected` entries, none of them live. A stack that ends after as many steps repeats none. */
static impmem_status check_stack(const impmem_block_pool *pool, const char *name, uint32_t head, uint64_t expected,
                                 impmem_error *why)
{
    uint64_t n = 0;
    for (uint32_t at = head; at != IMPMEM__NO_SLOT; at = pool->slot[at].next) {
        if (at >= pool->n_slots) return wrong(why, name, n, at, pool->n_slots);
        if (pool->slot[at].generation) return wrong(why, "a slot in a free stack holds a reference: slot", at, 1, 0);
        if (++n > expected) break;
    }
    return n == expected ? IMPMEM_OK : wrong(why, name, 0, n, expected);
}

/* What the walk over the slots counts. */
typedef struct census {
    uint64_t references_by[IMPMEM_N_HOLDERS];
    uint64_t references;
    uint64_t heads; /* slots that their block's entry points at: one per live block */
} census;

static impmem_status check_slot(const impmem_block_pool *pool, uint32_t index, census *seen, impmem_error *why)
{
    const impmem__block_slot *slot = &pool->slot[index];
    if (slot->marked) return wrong(why, "a mark was left on slot", index, 1, 0);
    if (!slot->generation) return IMPMEM_OK;
    if (slot->generation < pool->first_generation || slot->generation >= pool->next_generation)
        return wrong(why, "generation of slot", index, slot->generation, pool->next_generation);
    if (slot->block >= pool->fresh_block) return wrong(why, "block of slot", index, slot->block, pool->fresh_block);
    if (slot->holder >= IMPMEM_N_HOLDERS) return wrong(why, "holder class of slot", index, slot->holder, IMPMEM_N_HOLDERS);
    if (slot->next >= pool->n_slots) return wrong(why, "next holder of slot", index, slot->next, pool->n_slots);
    const impmem__block_slot *next = &pool->slot[slot->next];
    if (!next->generation) return wrong(why, "a dropped slot is in the ring of slot", index, slot->next, index);
    if (next->block != slot->block) return wrong(why, "block of the next holder of slot", index, next->block, slot->block);
    if (next->prev != index) return wrong(why, "previous holder of slot", slot->next, next->prev, index);
    seen->references_by[slot->holder]++;
    seen->references++;
    if (impmem__block_head(pool, slot->block) == index) seen->heads++;
    return IMPMEM_OK;
}

/* The ring of a block has as many members as its entry says; a free block's slot is free and its own. */
static impmem_status check_block(const impmem_block_pool *pool, uint32_t block, impmem_error *why)
{
    const impmem__block_entry *entry = &pool->entry[block];
    uint32_t head = impmem__block_head(pool, block);
    if (head >= pool->n_slots) return wrong(why, "slot of block", block, head, pool->n_slots);
    if (pool->slot[head].block != block)
        return wrong(why, "block of the slot of block", block, pool->slot[head].block, block);
    uint64_t n = 0;
    if (pool->slot[head].generation) {
        uint32_t at = head;
        do {
            at = pool->slot[at].next;
        } while (++n <= entry->shares && at != head);
        if (at != head || n != (uint64_t)entry->shares + 1)
            return wrong(why, "references of block", block, n, (uint64_t)entry->shares + 1);
        return IMPMEM_OK;
    }
    return entry->shares ? wrong(why, "references of the free block", block, entry->shares, 0) : IMPMEM_OK;
}

impmem_status impmem_block_pool_check(const impmem_block_pool *pool, impmem_error *why)
{
    if (!pool) return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "pool is NULL");
    if (pool->total > pool->max) return wrong(why, "total blocks of pool", pool->tag, pool->total, pool->max);
    if (pool->fresh_block > pool->total)
        return wrong(why, "fresh blocks of pool", pool->tag, pool->fresh_block, pool->total);
    if (pool->live > pool->fresh_block) return wrong(why, "live blocks of pool", pool->tag, pool->live, pool->fresh_block);
    if (pool->reserved > impmem__block_pool_free(pool))
        return wrong(why, "reserved blocks of pool", pool->tag, pool->reserved, impmem__block_pool_free(pool));

    census seen = {{0}, 0, 0};
    impmem_status st = IMPMEM_OK;
    for (uint32_t i = 0; i < pool->n_slots && !st; i++) st = check_slot(pool, i, &seen, why);
    for (uint32_t b = 0; b < pool->fresh_block && !st; b++) st = check_block(pool, b, why);
    if (st) return st;
    for (unsigned h = 0; h < IMPMEM_N_HOLDERS; h++) {
        if (seen.references_by[h] != pool->references_by[h])
            return wrong(why, "references of holder class", h, seen.references_by[h], pool->references_by[h]);
    }
    if (seen.heads != pool->live) return wrong(why, "live blocks of pool", pool->tag, seen.heads, pool->live);
    st = check_stack(pool, "length of the free stack of pool", pool->free_head, pool->fresh_block - pool->live, why);
    if (st) return st;
    uint64_t shares = seen.references - seen.heads;
    uint64_t used_extra = pool->fresh_extra - pool->max;
    if (used_extra < shares) return wrong(why, "extra references of pool", pool->tag, shares, used_extra);
    st = check_stack(pool, "length of the extra stack of pool", pool->extra_head, used_extra - shares, why);
    if (!st && impmem__live_bytes(pool->live_bytes) != pool->live * pool->stride)
        st = wrong(why, "live bytes of pool", pool->tag, impmem__live_bytes(pool->live_bytes), pool->live * pool->stride);
    return st;
}
