/* block_ref.c - taking, sharing and dropping references to blocks: the hot paths of the block pool. */
#include "alloc/block_pool_internal.h"

const char *impmem_holder_name(impmem_holder holder)
{
    static const char *const name[IMPMEM_N_HOLDERS] = {
#define HOLDER_NAME(id, value, text) [value] = text,
        IMPMEM_HOLDER_MAP(HOLDER_NAME)
#undef HOLDER_NAME
    };
    return (unsigned)holder < IMPMEM_N_HOLDERS ? name[(unsigned)holder] : "?";
}

static inline bool is_holder(impmem_holder holder)
{
    return (unsigned)holder < IMPMEM_N_HOLDERS;
}

/* Fills a free slot as a reference of `holder`; the caller links it. */
static inline impmem_block_ref seat(impmem_block_pool *pool, uint32_t index, impmem_holder holder, uint64_t owner)
{
    impmem__block_slot *slot = &pool->slot[index];
    uint64_t generation = pool->next_generation++;
    slot->generation = generation;
    slot->owner = owner;
    slot->holder = (uint8_t)holder;
    pool->references_by[holder]++;
    return (impmem_block_ref){generation, index, pool->tag};
}

/* The caller has made sure that a block is free. */
static inline impmem_block_ref take_one(impmem_block_pool *pool, impmem_holder holder, uint64_t owner)
{
    uint32_t index = pool->free_head;
    impmem__block_slot *slot;
    if (index != IMPMEM__NO_SLOT) {
        slot = &pool->slot[index];
        pool->free_head = slot->next;
    } else {
        index = pool->fresh_block++;
        slot = &pool->slot[index];
        slot->block = index;
    }
    slot->next = index;
    slot->prev = index;
    pool->takes++;
    if (++pool->live > pool->live_peak) pool->live_peak = pool->live;
    impmem__line_counter_add_owned(pool->live_bytes, pool->stride);
    if (__builtin_expect(pool->track != NULL, 0))
        impmem__track_take(pool->track, pool->region, pool->base + slot->block * pool->stride, pool->stride);
    return seat(pool, index, holder, owner);
}

impmem_status impmem_block_take(impmem_block_pool *pool, impmem_holder holder, uint64_t owner, impmem_block_ref *out)
{
    if (!pool || !out || !is_holder(holder)) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (impmem__block_pool_free(pool) <= pool->reserved) {
        pool->exhausted++;
        return IMPMEM_ERR_EXHAUSTED;
    }
    *out = take_one(pool, holder, owner);
    return IMPMEM_OK;
}

impmem_status impmem_block_take_many(impmem_block_pool *pool, impmem_holder holder, uint64_t owner, uint32_t n,
                                     impmem_block_ref *out)
{
    if (!pool || (!out && n) || !is_holder(holder)) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (impmem__block_pool_free(pool) - pool->reserved < n) {
        pool->exhausted++;
        return IMPMEM_ERR_EXHAUSTED;
    }
    for (uint32_t i = 0; i < n; i++) out[i] = take_one(pool, holder, owner);
    return IMPMEM_OK;
}

impmem_status impmem_block_take_reserved(impmem_block_pool *pool, impmem_holder holder, uint64_t owner,
                                         impmem_block_ref *out)
{
    if (!pool || !out || !is_holder(holder)) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (!pool->reserved) {
        pool->exhausted++;
        return IMPMEM_ERR_EXHAUSTED;
    }
    pool->reserved--;
    *out = take_one(pool, holder, owner);
    return IMPMEM_OK;
}

impmem_status impmem_block_share(impmem_block_pool *pool, impmem_block_ref ref, impmem_holder holder, uint64_t owner,
                                 impmem_block_ref *out)
{
    if (!pool || !out || !is_holder(holder)) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem__block_slot *of;
    impmem_status st = impmem__block_find(pool, ref, &of);
    if (st) return st;
    if (pool->unshared) return IMPMEM_ERR_UNSUPPORTED;

    uint32_t index = pool->extra_head;
    if (index != IMPMEM__NO_SLOT) {
        pool->extra_head = pool->slot[index].next;
    } else {
        if (pool->fresh_extra == pool->n_slots) return IMPMEM_ERR_EXHAUSTED;
        index = pool->fresh_extra++;
    }
    impmem__block_slot *slot = &pool->slot[index];
    slot->block = of->block;
    slot->prev = ref.slot_;
    slot->next = of->next;
    pool->slot[of->next].prev = index;
    of->next = index;
    pool->entry[of->block].shares++;
    *out = seat(pool, index, holder, owner);
    return IMPMEM_OK;
}

impmem_status impmem_block_transfer(impmem_block_pool *pool, impmem_block_ref *ref, impmem_holder holder, uint64_t owner)
{
    if (!pool || !ref || !is_holder(holder)) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem__block_slot *slot;
    impmem_status st = impmem__block_find(pool, *ref, &slot);
    if (st) return st;
    pool->references_by[slot->holder]--;
    *ref = seat(pool, ref->slot_, holder, owner);
    return IMPMEM_OK;
}

/* Ends the reference in slot `index`, which is valid. */
static inline void drop_one(impmem_block_pool *pool, impmem__block_slot *slot, uint32_t index)
{
    slot->generation = 0;
    pool->references_by[slot->holder]--;
    if (slot->next == index) {
        slot->next = pool->free_head;
        pool->free_head = index;
        pool->live--;
        impmem__line_counter_sub_owned(pool->live_bytes, pool->stride);
        if (__builtin_expect(pool->track != NULL, 0))
            impmem__track_drop(pool->track, pool->region, pool->base + slot->block * pool->stride, pool->stride);
        return;
    }
    pool->slot[slot->prev].next = slot->next;
    pool->slot[slot->next].prev = slot->prev;
    impmem__block_entry *entry = &pool->entry[slot->block];
    entry->slot_less_block = slot->next - slot->block;
    entry->shares--;
    slot->next = pool->extra_head;
    pool->extra_head = index;
}

impmem_status impmem_block_drop(impmem_block_pool *pool, impmem_block_ref *ref)
{
    if (!pool || !ref) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (impmem_block_ref_is_none(*ref)) return IMPMEM_OK;
    impmem__block_slot *slot;
    impmem_status st = impmem__block_find(pool, *ref, &slot);
    if (st) return st;
    drop_one(pool, slot, ref->slot_);
    *ref = (impmem_block_ref)IMPMEM_BLOCK_REF_NONE;
    return IMPMEM_OK;
}

/* Takes the marks off the first `n` references again. */
static void unmark(impmem_block_pool *pool, const impmem_block_ref *refs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!impmem_block_ref_is_none(refs[i])) pool->slot[refs[i].slot_].marked = 0;
    }
}

impmem_status impmem_block_drop_many(impmem_block_pool *pool, impmem_block_ref *refs, uint32_t n, uint32_t *first_bad)
{
    if (!pool || (!refs && n)) return IMPMEM_ERR_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < n; i++) {
        if (impmem_block_ref_is_none(refs[i])) continue;
        impmem__block_slot *slot;
        impmem_status st = impmem__block_find(pool, refs[i], &slot);
        if (!st && slot->marked) st = IMPMEM_ERR_STALE;
        if (st) {
            unmark(pool, refs, i);
            if (first_bad) *first_bad = i;
            return st;
        }
        slot->marked = 1;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (impmem_block_ref_is_none(refs[i])) continue;
        impmem__block_slot *slot = &pool->slot[refs[i].slot_];
        slot->marked = 0;
        drop_one(pool, slot, refs[i].slot_);
        refs[i] = (impmem_block_ref)IMPMEM_BLOCK_REF_NONE;
    }
    return IMPMEM_OK;
}

uint32_t impmem_block_id(const impmem_block_pool *pool, impmem_block_ref ref)
{
    impmem__block_slot *slot;
    return pool && !impmem__block_find(pool, ref, &slot) ? slot->block : IMPMEM_NO_BLOCK;
}

uint32_t impmem_block_count(const impmem_block_pool *pool, impmem_block_ref ref)
{
    impmem__block_slot *slot;
    return pool && !impmem__block_find(pool, ref, &slot) ? pool->entry[slot->block].shares + 1 : 0;
}

impmem_status impmem_block_address(const impmem_block_pool *pool, impmem_block_ref ref, impmem_block_span *out)
{
    if (!pool || !out) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem__block_slot *slot;
    impmem_status st = impmem__block_find(pool, ref, &slot);
    if (st) return st;
    if (!pool->base) return IMPMEM_ERR_UNSUPPORTED;
    /* block < max and max * stride fits the region: no overflow. */
    out->span_ = (impmem_stable_span){pool->base + slot->block * pool->stride, pool->stride, pool->region_id,
                                      ref.generation_};
    return IMPMEM_OK;
}
