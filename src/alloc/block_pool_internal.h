/* block_pool_internal.h - the tables of a block pool, shared by block_pool.c, block_ref.c and block_inspect.c.
 *
 * Slots are fungible: any slot can hold any reference. A free block always owns exactly one free slot, the one through
 * which it hangs in the stack of free blocks, so a take finds block and slot in the same 32-byte row and touches no other.
 * The slots beyond one per block are the extra ones, in a stack of their own. Two invariants follow, both exact:
 *
 *     free blocks       = total - live        (their slots hang in the free stack, or are fresh)
 *     free extra slots  = extra - (references - live)
 *
 * The references of one block form a ring through next and prev; a slot that is its own neighbour holds the last reference.
 * Fresh blocks and fresh extra slots come from two counters, so opening a pool over zeroed memory writes no row.
 */
#ifndef IMPMEM_ALLOC_BLOCK_POOL_INTERNAL_H
#define IMPMEM_ALLOC_BLOCK_POOL_INTERNAL_H

#include <stdatomic.h>

#include "alloc/internal.h"
#include "impmem/block_pool.h"

#define IMPMEM__NO_SLOT UINT32_MAX

typedef struct impmem__block_slot {
    uint64_t generation; /* of the reference that lives here; 0 = free */
    uint64_t owner;
    uint32_t block;
    uint32_t next; /* live: the next holder in the block's ring. Free: the slot below it in its stack */
    uint32_t prev; /* live: the previous holder */
    uint8_t holder;
    uint8_t marked; /* set within one impmem_block_drop_many only: listed already */
    uint8_t unused[2];
} impmem__block_slot;

/* Zeroed memory is right for a block that was never taken: its slot has its own number. */
typedef struct impmem__block_entry {
    uint32_t
        slot_less_block; /* one slot of the block's ring (of its free slot while free), minus the block's id, mod 2^32 */
    uint32_t shares;     /* references - 1; 0 while free */
} impmem__block_entry;

#define IMPMEM__BLOCK_STATS_WORDS (sizeof(impmem_block_pool_stats) / sizeof(uint64_t))

struct impmem_block_pool {
    impmem__block_slot *slot;
    impmem__block_entry *entry;
    uint64_t next_generation;
    uint32_t tag; /* what references carry in pool_ */
    uint32_t n_slots;
    uint32_t free_head;   /* stack of dropped blocks, by slot */
    uint32_t extra_head;  /* stack of dropped extra slots */
    uint32_t fresh_block; /* blocks from here on were never taken */
    uint32_t fresh_extra; /* slots from here on were never taken; starts at max_blocks */
    uint32_t total;
    uint32_t max;
    uint32_t live;
    uint32_t live_peak;
    uint32_t reserved;
    bool unshared;
    uint64_t references_by[IMPMEM_N_HOLDERS];
    uint64_t takes;
    uint64_t exhausted;
    uint64_t growths;
    uint64_t stride;
    impmem__line_counter *live_bytes; /* the region's, or `no_bytes` */

    const impmem_track *track; /* NULL: none, or ids only */
    char *base;                /* NULL: ids only */
    uint64_t first_generation;
    uint64_t table_bytes;
    impmem_region *region;
    impmem_ledger *ledger;
    uint64_t region_id;
    impmem_line_id control_line;
    bool tier_open;
    impmem__line_counter no_bytes; /* ids only: stride is 0 and so is this */

    _Alignas(64) _Atomic uint64_t published[IMPMEM__BLOCK_STATS_WORDS];
};

static inline uint32_t impmem__block_pool_free(const impmem_block_pool *pool)
{
    return pool->total - pool->live;
}

static inline uint32_t impmem__block_head(const impmem_block_pool *pool, uint32_t block)
{
    return pool->entry[block].slot_less_block + block;
}

/* The slot of a valid reference. */
static inline impmem_status impmem__block_find(const impmem_block_pool *pool, impmem_block_ref ref,
                                               impmem__block_slot **out)
{
    if (!ref.generation_) return IMPMEM_ERR_STALE;
    if (ref.pool_ != pool->tag) return IMPMEM_ERR_FOREIGN;
    if (ref.slot_ >= pool->n_slots) return IMPMEM_ERR_STALE;
    impmem__block_slot *slot = &pool->slot[ref.slot_];
    if (slot->generation != ref.generation_) return IMPMEM_ERR_STALE;
    *out = slot;
    return IMPMEM_OK;
}

/* impmem_span_check's question to a pool. */
impmem_status impmem__block_check_span(void *self, uint64_t generation, const void *data, uint64_t bytes);

#endif
