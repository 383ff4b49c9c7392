/* block_pool.c - opening, growing, reserving in and closing a block pool. The references are in block_ref.c. */
#include "alloc/block_pool_internal.h"

#include <string.h>

#include "impmem/bytes.h"
#include "impmem/control.h"

#define SUBJECT "block pool"

_Static_assert(sizeof(impmem__block_slot) == IMPMEM__BLOCK_POOL_SLOT_BYTES,
               "impmem_control_block_pool_bytes counts slots of this size");
_Static_assert(sizeof(impmem__block_entry) == IMPMEM__BLOCK_POOL_BLOCK_BYTES,
               "impmem_control_block_pool_bytes counts entries of this size");
_Static_assert(sizeof(impmem_block_pool) <= IMPMEM__BLOCK_POOL_HEADER_BYTES,
               "impmem_control_block_pool_bytes counts a header of this size");

static const impmem__tier_ops tier_ops = {impmem__block_check_span};

/* Options with their defaults put in. */
typedef struct settings {
    impmem_region *region;
    uint64_t stride;
    uint32_t blocks;
    uint32_t max;
    uint32_t extra;
    impmem_line_id control_line;
    bool unshared;
} settings;

static impmem_status settle(const impmem_block_pool_options *o, settings *out, impmem_error *why)
{
    impmem_status st = impmem__options_check(o->size, o->version, sizeof *o, 1);
    if (st) return impmem__error_set(why, st, SUBJECT, "options version %u is not one that this library knows", o->version);
    if (!o->blocks) return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "0 blocks were asked for");

    *out = (settings){
        .region = o->region,
        .stride = o->stride_bytes,
        .blocks = o->blocks,
        .max = o->max_blocks ? o->max_blocks : o->blocks,
        .control_line = o->control_line,
        .unshared = o->unshared,
    };
    if (out->max < out->blocks)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "max_blocks %u is below blocks %u", out->max,
                                 out->blocks);
    if (!o->unshared) out->extra = o->extra_refs ? o->extra_refs : out->max;
    if (out->extra > IMPMEM__NO_SLOT - 1 - out->max || out->max == IMPMEM_NO_BLOCK)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT,
                                 "%u blocks and %u extra references are more than a pool can number", out->max, out->extra);

    if (!o->region) {
        if (o->stride_bytes)
            return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "a stride was given but no region");
        return IMPMEM_OK;
    }
    uint64_t bytes = 0;
    uint64_t room = impmem_region_reserved_bytes(o->region);
    if (!o->stride_bytes)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "a region was given but the stride is 0");
    if (impmem_mul(&bytes, out->max, o->stride_bytes) || bytes > room) {
        st = impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT,
                               "%u blocks of %llu bytes do not fit the region of %llu bytes", out->max,
                               (unsigned long long)o->stride_bytes, (unsigned long long)room);
        impmem__error_bytes(why, bytes, room);
        return st;
    }
    return IMPMEM_OK;
}

/* Unwinds whatever of the pool is open. */
static void destroy(impmem_block_pool *pool)
{
    if (pool->tier_open) impmem__region_close_tier(pool->region);
    impmem_ledger_host_free(pool->ledger, pool->control_line, IMPMEM_TAG_HOST_CONTROL, pool, pool->table_bytes);
}

/* Backs the first `blocks` blocks with memory, as far as that goes: *backed is how many are. */
static impmem_status back(impmem_block_pool *pool, uint32_t blocks, uint32_t *backed, impmem_error *why)
{
    *backed = blocks;
    if (!pool->region || !impmem_region_growable(pool->region)) return IMPMEM_OK;
    uint64_t need = blocks * pool->stride;
    impmem_status st = impmem__region_back(pool->region, need, why);
    if (st) {
        uint64_t whole = impmem__region_ready_bytes(pool->region) / pool->stride;
        if (whole < blocks) *backed = (uint32_t)whole;
    }
    return st;
}

/* Lays the tables out behind the header: slots, then entries, each from a multiple of 64 bytes on. */
static void lay_out(impmem_block_pool *pool, const settings *s)
{
    char *memory = (char *)pool + IMPMEM__BLOCK_POOL_HEADER_BYTES;
    pool->n_slots = s->max + s->extra;
    pool->slot = (impmem__block_slot *)(void *)memory;
    uint64_t slot_bytes = (uint64_t)pool->n_slots * sizeof(impmem__block_slot);
    slot_bytes = (slot_bytes + 63) & ~(uint64_t)63;
    pool->entry = (impmem__block_entry *)(void *)(memory + slot_bytes);
    pool->free_head = IMPMEM__NO_SLOT;
    pool->extra_head = IMPMEM__NO_SLOT;
    pool->fresh_extra = s->max;
    pool->total = s->blocks;
    pool->max = s->max;
    pool->stride = s->stride;
    pool->unshared = s->unshared;
}

impmem_status impmem_block_pool_open(impmem_ledger *ledger, const impmem_block_pool_options *options,
                                     impmem_block_pool **out, impmem_error *why)
{
    if (!ledger || !options || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "ledger, options and out must not be NULL");
    settings s = {0};
    uint64_t bytes = 0;
    impmem_status st = settle(options, &s, why);
    if (st) return st;
    if (s.region && impmem__region_ledger(s.region) != ledger)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "the region belongs to another ledger");
    st = impmem_control_block_pool_bytes(s.max, s.extra, &bytes);
    if (st) return impmem__error_set(why, st, SUBJECT, "the tables of %u blocks are too large", s.max);

    impmem_line_id line = impmem__control_line(s.control_line);
    void *memory = NULL;
    st = impmem_ledger_host_allocate(ledger, line, IMPMEM_TAG_HOST_CONTROL, bytes, &memory, why);
    if (st) return st;

    impmem_block_pool *pool = memory;
    pool->ledger = ledger;
    pool->control_line = line;
    pool->table_bytes = bytes;
    pool->region = s.region;
    pool->live_bytes = &pool->no_bytes;
    lay_out(pool, &s);

    uint32_t id = impmem__ledger_pool_id(ledger);
    pool->tag = impmem__object_tag(ledger, id);
    pool->first_generation = impmem__seal_start(ledger, id);
    pool->next_generation = pool->first_generation;

    if (s.region) {
        st = impmem__region_open_tier(s.region, &tier_ops, pool);
        if (st) {
            st = impmem__error_set(why, st, SUBJECT, "the region is open in another allocator");
            destroy(pool);
            return st;
        }
        pool->tier_open = true;
        pool->base = impmem_region_base(s.region);
        pool->track = impmem__region_track(s.region);
        pool->region_id = impmem_region_id(s.region);
        st = impmem__region_back_all(s.region, s.blocks * s.stride, why);
        if (st) {
            destroy(pool);
            return st;
        }
        pool->live_bytes = impmem__region_counter(s.region, 0);
    }
    impmem_block_pool_publish_stats(pool);
    *out = pool;
    return IMPMEM_OK;
}

/* The lowest block that is alive, or IMPMEM_NO_BLOCK. */
static uint32_t first_live(const impmem_block_pool *pool)
{
    for (uint32_t b = 0; b < pool->fresh_block; b++) {
        if (pool->slot[impmem__block_head(pool, b)].generation) return b;
    }
    return IMPMEM_NO_BLOCK;
}

impmem_status impmem_block_pool_close(impmem_block_pool **handle, impmem_error *why)
{
    if (!handle || !*handle) return IMPMEM_OK;
    impmem_block_pool *pool = *handle;
    if (pool->live) {
        uint64_t references = 0;
        for (unsigned h = 0; h < IMPMEM_N_HOLDERS; h++) references += pool->references_by[h];
        uint32_t block = first_live(pool);
        const impmem__block_slot *slot = &pool->slot[impmem__block_head(pool, block)];
        impmem_status st = impmem__error_set(
            why, IMPMEM_ERR_LIVE_HOLDERS, SUBJECT,
            "%llu references to %u blocks are held; the first is block %u, held by %s, owner %llu",
            (unsigned long long)references, pool->live, block, impmem_holder_name((impmem_holder)slot->holder),
            (unsigned long long)slot->owner);
        impmem__error_hint(why, "impmem_block_holders lists who holds a block");
        return st;
    }
    if (pool->reserved)
        return impmem__error_set(why, IMPMEM_ERR_LIVE_HOLDERS, SUBJECT, "%u blocks are still reserved by a claim",
                                 pool->reserved);
    destroy(pool);
    *handle = NULL;
    return IMPMEM_OK;
}

impmem_status impmem_block_pool_grow(impmem_block_pool *pool, uint32_t blocks, impmem_error *why)
{
    if (!pool) return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "pool is NULL");
    if (blocks < pool->total || blocks > pool->max)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT,
                                 "%u blocks asked; the pool has %u and may have %u", blocks, pool->total, pool->max);
    if (blocks == pool->total) return IMPMEM_OK;
    uint32_t backed;
    impmem_status st = back(pool, blocks, &backed, why);
    if (backed > pool->total) {
        pool->total = backed;
        pool->growths++;
    }
    return st;
}

impmem_status impmem_block_pool_reserve(impmem_block_pool *pool, uint32_t n)
{
    if (!pool) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (impmem__block_pool_free(pool) - pool->reserved < n) return IMPMEM_ERR_CAPACITY;
    pool->reserved += n;
    return IMPMEM_OK;
}

impmem_status impmem_block_pool_unreserve(impmem_block_pool *pool, uint32_t n)
{
    if (!pool || n > pool->reserved) return IMPMEM_ERR_INVALID_ARGUMENT;
    pool->reserved -= n;
    return IMPMEM_OK;
}
