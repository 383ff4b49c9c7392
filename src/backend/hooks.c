/* What the tier allocators need of regions and ledger: see hooks.h. */
#include "backend/hooks.h"

#include "backend/internal.h"

impmem__line_counter *impmem__region_counter(impmem_region *region, uint32_t share)
{
    return share < region->n_counters ? &region->counter[share] : NULL;
}

impmem__line_counter *impmem__ledger_line_counter(impmem_ledger *ledger, impmem_line_id line)
{
    impmem__ledger_line *known = impmem__find_line(ledger, line);
    return known ? &known->counter : &ledger->unplanned[IMPMEM_TAG_OTHER][IMPMEM_ACCOUNT_DEVICE];
}

static impmem__line_counter *counter_of(impmem_ledger *ledger, impmem_line_id line, impmem_tag tag, impmem_account account)
{
    impmem__ledger_line *known = impmem__find_line(ledger, line);
    return known ? &known->counter : &ledger->unplanned[tag][account];
}

void impmem__ledger_live_add(impmem_ledger *ledger, impmem_line_id line, impmem_tag tag, impmem_account account,
                             uint64_t bytes)
{
    impmem__line_counter_add(counter_of(ledger, line, tag, account), bytes);
}

void impmem__ledger_live_sub(impmem_ledger *ledger, impmem_line_id line, impmem_tag tag, impmem_account account,
                             uint64_t bytes)
{
    impmem__line_counter_sub(counter_of(ledger, line, tag, account), bytes);
}

impmem_status impmem__region_open_tier(impmem_region *region, const impmem__tier_ops *ops, void *self)
{
    if (!region || !ops) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem_ledger *ledger = region->backend->ledger;
    impmem_status st = IMPMEM_ERR_BUSY;
    impmem__lock(ledger);
    if (!region->open && !region->releasing) {
        region->open = true;
        region->tier = ops;
        region->tier_self = self;
        st = IMPMEM_OK;
    }
    impmem__unlock(ledger);
    const impmem_track *track = impmem__region_track(region);
    if (!st && track && track->open)
        track->open(track->self, region->id, region->base, region->reserved, impmem_tag_name(region->tag));
    return st;
}

void impmem__region_close_tier(impmem_region *region)
{
    impmem_ledger *ledger = region->backend->ledger;
    const impmem_track *track = impmem__region_track(region);
    if (track && track->close && region->open) track->close(track->self, region->id, region->base, region->reserved);
    impmem__lock(ledger);
    region->open = false;
    region->tier = NULL;
    region->tier_self = NULL;
    impmem__unlock(ledger);
}

const impmem_track *impmem__region_track(const impmem_region *region)
{
    return region->backend->track.size ? &region->backend->track : NULL;
}

void impmem__track_take(const impmem_track *track, const impmem_region *region, void *address, uint64_t bytes)
{
    if (track->take) track->take(track->self, region->id, address, bytes, impmem_tag_name(region->tag));
}

void impmem__track_drop(const impmem_track *track, const impmem_region *region, void *address, uint64_t bytes)
{
    if (track->drop) track->drop(track->self, region->id, address, bytes);
}

void impmem__track_rewind(const impmem_track *track, const impmem_region *region, void *address, uint64_t bytes)
{
    if (track->rewind && bytes) track->rewind(track->self, region->id, address, bytes);
}

const impmem_line_share *impmem__region_shares(const impmem_region *region, uint32_t *out_n)
{
    *out_n = region->n_shares;
    return region->n_shares ? region->share : NULL;
}

impmem_line_id impmem__region_line(const impmem_region *region)
{
    return region->line;
}

impmem_ledger *impmem__region_ledger(const impmem_region *region)
{
    return region->backend->ledger;
}

uint64_t impmem__region_granule_bytes(const impmem_region *region)
{
    return region->granule;
}

static impmem_status check_span_locked(const impmem_ledger *ledger, uint64_t region_id, uint64_t generation,
                                       const void *data, uint64_t bytes)
{
    const impmem_region *region = ledger->regions;
    while (region && region->id != region_id) region = region->next;
    if (!region) return region_id != 0 && region_id <= ledger->last_region_id ? IMPMEM_ERR_STALE : IMPMEM_ERR_FORGED;
    uintptr_t base = (uintptr_t)region->base;
    uintptr_t at = (uintptr_t)data;
    if (at < base || at - base > region->reserved || bytes > region->reserved - (at - base)) return IMPMEM_ERR_FORGED;
    if (!region->tier || !region->tier->check_span) return IMPMEM_ERR_FORGED;
    return region->tier->check_span(region->tier_self, generation, data, bytes);
}

impmem_status impmem__ledger_check_span(const impmem_ledger *ledger, uint64_t region_id, uint64_t generation,
                                        const void *data, uint64_t bytes)
{
    if (!ledger) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem__lock(ledger);
    impmem_status st = check_span_locked(ledger, region_id, generation, data, bytes);
    impmem__unlock(ledger);
    return st;
}

impmem_status impmem__ledger_staging_add(impmem_ledger *ledger, impmem__staging_link *link)
{
    if (!ledger || !link) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem_status st = IMPMEM_ERR_PHASE_ORDER;
    impmem__lock(ledger);
    if (impmem_ledger_phase(ledger) == IMPMEM_PHASE_LOADING) {
        link->next = ledger->staging;
        ledger->staging = link;
        st = IMPMEM_OK;
    }
    impmem__unlock(ledger);
    return st;
}

void impmem__ledger_staging_remove(impmem_ledger *ledger, impmem__staging_link *link)
{
    impmem__lock(ledger);
    for (impmem__staging_link **at = &ledger->staging; *at; at = &(*at)->next) {
        if (*at == link) {
            *at = link->next;
            link->next = NULL;
            break;
        }
    }
    impmem__unlock(ledger);
}

uint32_t impmem__ledger_pool_id(impmem_ledger *ledger)
{
    return atomic_fetch_add_explicit(&ledger->last_pool_id, 1, memory_order_relaxed) + 1;
}

bool impmem__ledger_is_capturing(const impmem_ledger *ledger)
{
    impmem__lock(ledger);
    bool capturing = ledger->capture_depth > 0;
    impmem__unlock(ledger);
    return capturing;
}

bool impmem__ledger_has_line(const impmem_ledger *ledger, impmem_line_id line, uint64_t *out_planned_bytes)
{
    const impmem__ledger_line *known = impmem__find_line(ledger, line);
    if (known && out_planned_bytes) *out_planned_bytes = known->planned;
    return known != NULL;
}

void impmem__ledger_pinned_degradation_add(impmem_ledger *ledger)
{
    atomic_fetch_add_explicit(&ledger->pinned_degradations, 1, memory_order_relaxed);
}

uint64_t impmem__ledger_pinned_degradation_count(const impmem_ledger *ledger)
{
    return atomic_load_explicit(&ledger->pinned_degradations, memory_order_relaxed);
}
