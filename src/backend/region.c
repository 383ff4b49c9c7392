/* Growing and shrinking a region inside its reservation: bit i of the region's map says that granule i is committed. */
#include <string.h>

#include "backend/internal.h"

/* A half-open range of granules. */
typedef struct span_of_granules {
    uint64_t begin;
    uint64_t end;
} span_of_granules;

static bool bit_at(const impmem_region *region, uint64_t i)
{
    return (region->granules[i / 64] >> (i % 64) & 1u) != 0;
}

static void set_bits(impmem_region *region, span_of_granules g, bool value)
{
    for (uint64_t i = g.begin; i < g.end; i++) {
        uint64_t bit = (uint64_t)1 << (i % 64);
        if (value) region->granules[i / 64] |= bit;
        else region->granules[i / 64] &= ~bit;
    }
}

/* First granule at or after `from` whose bit is `value`, or `end`. Whole words of the other value are skipped at once. */
static uint64_t find_bit(const impmem_region *region, uint64_t from, uint64_t end, bool value)
{
    uint64_t other = value ? 0 : UINT64_MAX;
    while (from < end) {
        if (from % 64 == 0 && end - from >= 64 && region->granules[from / 64] == other) from += 64;
        else if (bit_at(region, from) == value) return from;
        else from++;
    }
    return end;
}

static uint64_t count_bits(const impmem_region *region, span_of_granules g, bool value)
{
    uint64_t count = 0;
    for (uint64_t at = find_bit(region, g.begin, g.end, value); at < g.end;) {
        uint64_t run_end = find_bit(region, at, g.end, !value);
        count += run_end - at;
        at = find_bit(region, run_end, g.end, value);
    }
    return count;
}

static uint64_t n_granules(const impmem_region *region)
{
    return region->reserved / region->granule;
}

static void publish_committed(impmem_region *region, uint64_t committed)
{
    uint64_t prefix = find_bit(region, 0, n_granules(region), false) * region->granule;
    atomic_store_explicit(&region->committed, committed, memory_order_release);
    atomic_store_explicit(&region->prefix, prefix, memory_order_release);
}

/* Commits every uncommitted granule of `g`, run by run, until one fails. *out_done: bytes now backed that were not. */
static impmem_status commit_runs(impmem_region *region, span_of_granules g, uint64_t *out_done, impmem_error *why)
{
    const impmem_backend *backend = region->backend;
    impmem_status st = IMPMEM_OK;
    impmem_error cause = IMPMEM_ERROR_INIT;
    for (uint64_t at = find_bit(region, g.begin, g.end, false); at < g.end && !st;) {
        uint64_t run_end = find_bit(region, at, g.end, true);
        uint64_t length = (run_end - at) * region->granule;
        uint64_t achieved = 0;
        st = backend->ops.commit(backend->self, region->base, at * region->granule, length, &achieved, &cause);
        if (!st || achieved > length) achieved = length;
        span_of_granules backed = {at, at + achieved / region->granule};
        set_bits(region, backed, true);
        *out_done += (backed.end - backed.begin) * region->granule;
        at = find_bit(region, run_end, g.end, false);
    }
    if (st) impmem__backend_error(backend, st, impmem__region_subject(region), &cause, why);
    return st;
}

static impmem_status decommit_runs(impmem_region *region, span_of_granules g, uint64_t *out_done, impmem_error *why)
{
    const impmem_backend *backend = region->backend;
    for (uint64_t at = find_bit(region, g.begin, g.end, true); at < g.end;) {
        uint64_t run_end = find_bit(region, at, g.end, false);
        uint64_t length = (run_end - at) * region->granule;
        impmem_status st = backend->ops.decommit(backend->self, region->base, at * region->granule, length);
        if (st)
            return impmem__error_set(why, st, impmem_tag_name(region->tag), "backend %s could not decommit: %s",
                                     backend->properties.name, impmem_status_message(st));
        span_of_granules gone = {at, run_end};
        set_bits(region, gone, false);
        *out_done += length;
        at = find_bit(region, run_end, g.end, true);
    }
    return IMPMEM_OK;
}

/* Growth on a plan line is growth as planned; outside the plan it is an acquisition like any other. */
static impmem__act growth_act(const impmem_region *region)
{
    return region->line == IMPMEM_NO_LINE ? IMPMEM__ACT_ACQUIRE : IMPMEM__ACT_GROW;
}

/* Budget, vtable, books. The phase guard has been passed already. With the region's `grow` mutex held. */
static impmem_status commit_missing(impmem_region *region, span_of_granules g, impmem_error *why)
{
    impmem_ledger *ledger = region->backend->ledger;
    impmem__subject subject = impmem__region_subject(region);
    uint64_t missing = count_bits(region, g, false) * region->granule;
    if (missing == 0) return IMPMEM_OK;
    impmem_status st = impmem__enter(ledger, growth_act(region), subject, missing, 0, why);
    if (st) return st;
    uint64_t done = 0;
    st = commit_runs(region, g, &done, why);
    impmem__lock(ledger);
    impmem__leave_locked(ledger, subject, missing, 0);
    if (done) {
        impmem__tally_take(ledger, subject, done);
        impmem__journal_append(ledger, IMPMEM_JOURNAL_COMMIT, subject, done, IMPMEM_OK, 0);
        if (growth_act(region) == IMPMEM__ACT_GROW && impmem_ledger_phase(ledger) == IMPMEM_PHASE_SERVING)
            ledger->serving_commits++;
    }
    if (st) impmem__journal_append(ledger, IMPMEM_JOURNAL_REFUSED, subject, missing - done, st, 0);
    publish_committed(region, impmem_region_committed_bytes(region) + done);
    impmem__unlock(ledger);
    if (st) impmem__error_bytes(why, missing, done);
    return st;
}

static impmem_status decommit_present(impmem_region *region, span_of_granules g, impmem_error *why)
{
    impmem_ledger *ledger = region->backend->ledger;
    impmem__subject subject = impmem__region_subject(region);
    if (count_bits(region, g, true) == 0) return IMPMEM_OK;
    impmem_status st = impmem__enter(ledger, IMPMEM__ACT_GIVE_BACK, subject, 0, 0, why);
    if (st) return st;
    uint64_t done = 0;
    st = decommit_runs(region, g, &done, why);
    impmem__lock(ledger);
    impmem__leave_locked(ledger, subject, 0, 0);
    if (done) {
        impmem__tally_give(ledger, subject, done);
        impmem__journal_append(ledger, IMPMEM_JOURNAL_DECOMMIT, subject, done, IMPMEM_OK, 0);
    }
    publish_committed(region, impmem_region_committed_bytes(region) - done);
    impmem__unlock(ledger);
    return st;
}

/* The guards in front of a growth by `missing` bytes; with nothing missing only the capture guard. */
static impmem_status guard_growth(impmem_region *region, uint64_t missing, impmem_error *why)
{
    impmem__act act = missing ? growth_act(region) : IMPMEM__ACT_GIVE_BACK;
    return impmem__guard(region->backend->ledger, act, impmem__region_subject(region), missing, why);
}

static impmem_status not_growable(const impmem_region *region, impmem_error *why)
{
    return impmem__error_set(why, IMPMEM_ERR_NOT_GROWABLE, impmem_tag_name(region->tag), "this %s region is of fixed size",
                             impmem_tag_name(region->tag));
}

/* Rounds target up to a granule inside the reservation. */
static impmem_status target_granules(const impmem_region *region, uint64_t target, uint64_t *out, impmem_error *why)
{
    if (!region->growable) return not_growable(region, why);
    if (target > region->reserved)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "target",
                                 "%llu bytes are more than the reservation of %llu", (unsigned long long)target,
                                 (unsigned long long)region->reserved);
    *out = target / region->granule + (target % region->granule != 0);
    return IMPMEM_OK;
}

static impmem_status commit_target(impmem_region *region, uint64_t target_bytes, impmem_error *why)
{
    uint64_t target = 0;
    impmem_status range = target_granules(region, target_bytes, &target, why);
    span_of_granules below = {0, target};
    span_of_granules above = {target, range ? 0 : n_granules(region)};
    uint64_t missing = range ? 0 : count_bits(region, below, false) * region->granule;
    uint64_t islands = range ? 0 : count_bits(region, above, true) * region->granule;
    impmem_status st = guard_growth(region, missing, why);
    if (st) return st;
    if (range) return target_granules(region, target_bytes, &target, why);
    if (missing && islands)
        st = impmem__would_fit(region->backend->ledger, impmem__region_subject(region), missing, islands, why);
    if (!st) st = decommit_present(region, above, why);
    if (!st) st = commit_missing(region, below, why);
    return st;
}

impmem_status impmem_region_commit(impmem_region *region, uint64_t target_bytes, uint64_t *out_committed, impmem_error *why)
{
    if (out_committed) *out_committed = 0;
    if (!region) return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "region", "no region");
    (void)pthread_mutex_lock(&region->grow);
    impmem_status st = commit_target(region, target_bytes, why);
    if (out_committed) *out_committed = impmem_region_committed_bytes(region);
    (void)pthread_mutex_unlock(&region->grow);
    return st;
}

/* The byte range must lie in the reservation. */
static impmem_status check_range(const impmem_region *region, uint64_t offset, uint64_t length, impmem_error *why)
{
    uint64_t end;
    if (!region->growable) return not_growable(region, why);
    if (impmem_add(&end, offset, length))
        return impmem__error_set(why, IMPMEM_ERR_OVERFLOW, "range", "offset + length overflows");
    if (end > region->reserved)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "range",
                                 "[%llu, %llu) leaves the reservation of %llu bytes", (unsigned long long)offset,
                                 (unsigned long long)end, (unsigned long long)region->reserved);
    return IMPMEM_OK;
}

static span_of_granules round_out(const impmem_region *region, uint64_t offset, uint64_t length)
{
    uint64_t end = offset + length;
    span_of_granules g = {offset / region->granule, end / region->granule + (end % region->granule != 0)};
    if (length == 0) g.end = g.begin;
    return g;
}

static span_of_granules round_in(const impmem_region *region, uint64_t offset, uint64_t length)
{
    span_of_granules g = {offset / region->granule + (offset % region->granule != 0), (offset + length) / region->granule};
    if (g.end < g.begin) g.end = g.begin;
    return g;
}

static impmem_status commit_range(impmem_region *region, uint64_t offset, uint64_t length, impmem_error *why)
{
    impmem_status range = check_range(region, offset, length, why);
    span_of_granules g = {0, 0};
    if (!range) g = round_out(region, offset, length);
    impmem_status st = guard_growth(region, range ? 0 : count_bits(region, g, false) * region->granule, why);
    if (st) return st;
    return range ? check_range(region, offset, length, why) : commit_missing(region, g, why);
}

impmem_status impmem_region_commit_range(impmem_region *region, uint64_t offset, uint64_t length, uint64_t *out_committed,
                                         impmem_error *why)
{
    if (out_committed) *out_committed = 0;
    if (!region) return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "region", "no region");
    (void)pthread_mutex_lock(&region->grow);
    impmem_status st = commit_range(region, offset, length, why);
    if (out_committed) *out_committed = impmem_region_committed_bytes(region);
    (void)pthread_mutex_unlock(&region->grow);
    return st;
}

impmem_status impmem_region_decommit_range(impmem_region *region, uint64_t offset, uint64_t length, uint64_t *out_committed,
                                           impmem_error *why)
{
    if (out_committed) *out_committed = 0;
    if (!region) return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "region", "no region");
    (void)pthread_mutex_lock(&region->grow);
    impmem_status st = guard_growth(region, 0, why);
    if (!st) st = check_range(region, offset, length, why);
    if (!st) st = decommit_present(region, round_in(region, offset, length), why);
    if (out_committed) *out_committed = impmem_region_committed_bytes(region);
    (void)pthread_mutex_unlock(&region->grow);
    return st;
}

/* ---- cheap queries ----------------------------------------------------------------------------------------------- */

void *impmem_region_base(const impmem_region *region)
{
    return region->base;
}

uint64_t impmem_region_reserved_bytes(const impmem_region *region)
{
    return region->reserved;
}

uint64_t impmem_region_committed_bytes(const impmem_region *region)
{
    return atomic_load_explicit(&region->committed, memory_order_acquire);
}

uint64_t impmem_region_committed_prefix(const impmem_region *region)
{
    return atomic_load_explicit(&region->prefix, memory_order_acquire);
}

bool impmem_region_growable(const impmem_region *region)
{
    return region->growable;
}

uint64_t impmem_region_id(const impmem_region *region)
{
    return region->id;
}

impmem_tag impmem_region_tag(const impmem_region *region)
{
    return region->tag;
}

impmem_backend *impmem_region_backend(const impmem_region *region)
{
    return region->backend;
}
