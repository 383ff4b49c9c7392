/* backend/hooks.h - what the tier allocators and the engine need of regions and ledger and no user sees.
 *
 *   impmem_status st = impmem__region_open_tier(region, &arena_ops, arena);      BUSY: open already
 *   impmem__line_counter *live = impmem__region_counter(region, share);          once, at open
 *   impmem__line_counter_add_owned(live, bytes);                                 per take, owner thread: no lock, no fence
 *   impmem__region_close_tier(region);
 */
#ifndef IMPMEM__BACKEND_HOOKS_H
#define IMPMEM__BACKEND_HOOKS_H

#include <stdatomic.h>
#include <stdint.h>

#include "impmem/backend.h"
#include "impmem/ledger.h"
#include "impmem/track.h"

/* ---- live bytes -------------------------------------------------------------------------------------------------- */

typedef struct impmem__line_counter {
    _Atomic uint64_t live; /* bytes now */
    _Atomic uint64_t peak; /* the most so far */
} impmem__line_counter;

/* For counters that several threads change (impmem__ledger_line_counter). */
static inline void impmem__line_counter_add(impmem__line_counter *counter, uint64_t bytes)
{
    uint64_t live = atomic_fetch_add_explicit(&counter->live, bytes, memory_order_relaxed) + bytes;
    uint64_t peak = atomic_load_explicit(&counter->peak, memory_order_relaxed);
    while (live > peak && !atomic_compare_exchange_weak_explicit(&counter->peak, &peak, live, memory_order_relaxed,
                                                                 memory_order_relaxed)) {}
}

static inline void impmem__line_counter_sub(impmem__line_counter *counter, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&counter->live, bytes, memory_order_relaxed);
}

/* For counters with one writing thread (impmem__region_counter): plain loads and stores that any thread may read. */
static inline void impmem__line_counter_add_owned(impmem__line_counter *counter, uint64_t bytes)
{
    uint64_t live = atomic_load_explicit(&counter->live, memory_order_relaxed) + bytes;
    atomic_store_explicit(&counter->live, live, memory_order_relaxed);
    if (live > atomic_load_explicit(&counter->peak, memory_order_relaxed))
        atomic_store_explicit(&counter->peak, live, memory_order_relaxed);
}

static inline void impmem__line_counter_sub_owned(impmem__line_counter *counter, uint64_t bytes)
{
    uint64_t live = atomic_load_explicit(&counter->live, memory_order_relaxed);
    atomic_store_explicit(&counter->live, live - bytes, memory_order_relaxed);
}

/* The region's own counter for share `share` (0 for a region without shares); NULL above that. Its bytes count for the
 * share's line, the region's tag and its backend's account. Written by the region's owner thread only. */
impmem__line_counter *impmem__region_counter(impmem_region *region, uint32_t share);

/* How much of a region its allocator may use, from the start on: what is committed or, while a grower is open over it, what
 * that has published. Committed memory above may still be waiting to be zeroed. */
uint64_t impmem__region_ready_bytes(const impmem_region *region);
bool impmem__region_has_grower(const impmem_region *region);
/* Tells the grower that `bytes` were wanted; a store, sometimes a wake-up. False: there is none, commit yourself. */
bool impmem__region_ask_grower(impmem_region *region, uint64_t bytes);

/* The line's counter that lies in no region, for whoever holds memory outside one. For an id that the plan doesn't have:
 * the one of unplanned device bytes tagged OTHER. Lives as long as the ledger; never NULL. Shared: not with the _owned
 * functions. */
impmem__line_counter *impmem__ledger_line_counter(impmem_ledger *ledger, impmem_line_id line);
/* Looks the counter up on every call: for calls that are not hot. Unplanned lines count by tag and account. */
void impmem__ledger_live_add(impmem_ledger *ledger, impmem_line_id line, impmem_tag tag, impmem_account account,
                             uint64_t bytes);
void impmem__ledger_live_sub(impmem_ledger *ledger, impmem_line_id line, impmem_tag tag, impmem_account account,
                             uint64_t bytes);

/* ---- tiers over regions ------------------------------------------------------------------------------------------ */

typedef struct impmem__tier_ops {
    /* IMPMEM_OK, STALE or FORGED for a span inside the region. Called with the ledger's lock held: must call no ledger,
     * backend or region function. NULL = this tier mints no spans: every one is FORGED. */
    impmem_status (*check_span)(void *self, uint64_t generation, const void *data, uint64_t bytes);
} impmem__tier_ops;

/* From here on a second open and a release of the region are IMPMEM_ERR_BUSY. `ops` must stay valid until close. */
impmem_status impmem__region_open_tier(impmem_region *region, const impmem__tier_ops *ops, void *self);
void impmem__region_close_tier(impmem_region *region); /* not open: does nothing */

/* The tracker of the region's backend, which open and close have told of the tier; NULL: none. Valid while the region lives. */
const impmem_track *impmem__region_track(const impmem_region *region);
/* Each out of line, for a tier that has a tracker: none of it is on the usual path. */
void impmem__track_take(const impmem_track *track, const impmem_region *region, void *address, uint64_t bytes);
void impmem__track_drop(const impmem_track *track, const impmem_region *region, void *address, uint64_t bytes);
void impmem__track_rewind(const impmem_track *track, const impmem_region *region, void *address, uint64_t bytes);

/* The line shares that the region was acquired with; NULL and 0 when all of it is one line's. Lines that the plan doesn't
 * have read IMPMEM_NO_LINE. */
const impmem_line_share *impmem__region_shares(const impmem_region *region, uint32_t *out_n);
impmem_line_id impmem__region_line(const impmem_region *region); /* IMPMEM_NO_LINE when unplanned */
impmem_ledger *impmem__region_ledger(const impmem_region *region);
uint64_t impmem__region_granule_bytes(const impmem_region *region);

/* What impmem_span_check asks. FORGED: no such region, outside of it, or open in no tier; STALE: the region was
 * released. */
impmem_status impmem__ledger_check_span(const impmem_ledger *ledger, uint64_t region_id, uint64_t generation,
                                        const void *data, uint64_t bytes);

/* ---- staging, numbers, counts ------------------------------------------------------------------------------------ */

/* Embedded in a staging object; zero it and set `name`. */
typedef struct impmem__staging_link {
    struct impmem__staging_link *next;
    char name[40];
} impmem__staging_link;

/* Registers a live staging; PHASE_ORDER outside Loading. Until removed, impmem_ledger_set_phase is STAGING_LIVE. */
impmem_status impmem__ledger_staging_add(impmem_ledger *ledger, impmem__staging_link *link);
void impmem__ledger_staging_remove(impmem_ledger *ledger, impmem__staging_link *link);

/* 1, 2, 3 ...: tells apart the pools, stacks and backends of one ledger. */
uint32_t impmem__ledger_pool_id(impmem_ledger *ledger);

/* A graph is being captured: nothing can be acquired or given back now. */
bool impmem__ledger_is_capturing(const impmem_ledger *ledger);

/* Is the line in the plan? If so and `out` is not NULL: its planned bytes. */
bool impmem__ledger_has_line(const impmem_ledger *ledger, impmem_line_id line, uint64_t *out_planned_bytes);

/* Embedded in a page-locked allocation's object. */
typedef struct impmem__pinned_link {
    struct impmem__pinned_link *next;
    uint64_t number; /* 1, 2, 3 ..., never reused within the ledger */
} impmem__pinned_link;

void impmem__ledger_pinned_add(impmem_ledger *ledger, impmem__pinned_link *link);              /* sets the number */
impmem__pinned_link *impmem__ledger_pinned_find(const impmem_ledger *ledger, uint64_t number); /* NULL: closed, or none */
void impmem__ledger_pinned_remove(impmem_ledger *ledger, impmem__pinned_link *link);

/* Page-locked memory that fell back to pageable. */
void impmem__ledger_pinned_degradation_add(impmem_ledger *ledger);
uint64_t impmem__ledger_pinned_degradation_count(const impmem_ledger *ledger);

/* One line of text to the ledger's log callback, if there is one. Not with a lock held that the callback could want. */
void impmem__ledger_log(const impmem_ledger *ledger, const char *fmt, ...) IMPMEM_PRINTF(2, 3);

#endif
