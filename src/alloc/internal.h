/* alloc/internal.h - what the tier allocators share: identity, commitment and live bytes. */
#ifndef IMPMEM__ALLOC_INTERNAL_H
#define IMPMEM__ALLOC_INTERNAL_H

#include <stdint.h>

#include "backend/hooks.h"
#include "core/internal.h"
#include "core/layout.h"
#include "impmem/backend.h"
#include "impmem/bytes.h"

/* ---- identity ---------------------------------------------------------------------------------------------------- */

/* The plan line that an allocator's host tables are charged to. */
static inline impmem_line_id impmem__control_line(impmem_line_id wanted)
{
    return wanted ? wanted : IMPMEM_LINE_HOST_CONTROL;
}

/* What handles carry to name their object: differs between the objects of one ledger, and very likely between ledgers. */
uint32_t impmem__object_tag(const impmem_ledger *ledger, uint32_t pool_id);

/* Where an object's 64-bit numbers start, in [1, 2^63): far from those of every other object, so that a number of another
 * object's is not taken for one of its own, and too low to wrap. */
uint64_t impmem__seal_start(const impmem_ledger *ledger, uint32_t pool_id);

/* ---- objects ------------------------------------------------------------------------------------------------------ */

/* Zeroed host control memory of the size that the planner counts, and back. */
impmem_status impmem__object_take(impmem_ledger *ledger, impmem_status (*size)(uint64_t *out_bytes), void **out,
                                  impmem_error *why);
void impmem__object_give(impmem_ledger *ledger, impmem_status (*size)(uint64_t *out_bytes), void *object);

/* An object of `bytes` with the region's tier, which no other allocator can have then: BUSY. */
impmem_status impmem__tier_take(impmem_region *region, const impmem__tier_ops *ops, uint64_t bytes, const char *subject,
                                void **out, impmem_error *why);
void impmem__tier_give(impmem_region *region, void *object, uint64_t bytes);

/* ---- commitment -------------------------------------------------------------------------------------------------- */

/* Makes the first `bytes` of a region committed; what is committed above them stays. Nothing to do for a fixed region. Under
 * a grower nothing is committed from here: what it has not published yet is CAPACITY, and it is told how much was wanted. */
impmem_status impmem__region_back(impmem_region *region, uint64_t bytes, impmem_error *why);

/* The same, all or nothing as far as that can be done: with islands above the prefix nothing is given back after a failure,
 * since they can't be told from what was added. */
impmem_status impmem__region_back_all(impmem_region *region, uint64_t bytes, impmem_error *why);

/* ---- live bytes -------------------------------------------------------------------------------------------------- */

/* Of a region's own counter, whose one writer is the allocator that is open over the region. */
static inline uint64_t impmem__live_bytes(const impmem__line_counter *counter)
{
    return atomic_load_explicit(&counter->live, memory_order_relaxed);
}

static inline void impmem__live_set(impmem__line_counter *counter, uint64_t bytes)
{
    atomic_store_explicit(&counter->live, bytes, memory_order_relaxed);
    if (bytes > atomic_load_explicit(&counter->peak, memory_order_relaxed))
        atomic_store_explicit(&counter->peak, bytes, memory_order_relaxed);
}

#endif
