/* The front of every backend: acquire, reserve and release with guard, budget, journal and counters round the vtable. */
#include "impmem/backend.h"

#include <string.h>

#include "backend/internal.h"
#include "impmem/control.h"

#define MIN_ALIGNMENT 256u

/* ---- life -------------------------------------------------------------------------------------------------------- */

static impmem_status check_ops(const impmem_backend_ops *ops, impmem_error *why)
{
    impmem_status st = ops->size == 0 && ops->version == 0 ? IMPMEM_ERR_INVALID_ARGUMENT
                                                           : impmem__options_check(ops->size, ops->version, sizeof *ops, 1);
    if (st)
        return impmem__error_set(why, st, "backend", "the vtable's size %u or version %u is not one of this library",
                                 ops->size, ops->version);
    if (!ops->acquire || !ops->release || !ops->query)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "backend", "a vtable needs acquire, release and query");
    int growing = (ops->reserve != NULL) + (ops->commit != NULL) + (ops->decommit != NULL);
    if (growing != 0 && growing != 3)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "backend",
                                 "reserve, commit and decommit come together or not at all");
    return IMPMEM_OK;
}

static impmem_status read_properties(const impmem_backend_ops *ops, void *self, impmem_backend_properties *out,
                                     impmem_error *why)
{
    impmem_backend_properties p;
    memset(&p, 0, sizeof p);
    p.size = sizeof p;
    p.version = 1;
    impmem_status st = ops->query(self, &p);
    if (st) return impmem__error_set(why, st, "backend", "the backend's query failed: %s", impmem_status_message(st));
    if (p.granule_bytes == 0 || (unsigned)p.account >= IMPMEM_N_ACCOUNTS || (p.growable && !ops->reserve))
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "backend",
                                 "the backend's properties have no granule, no such account, or growth without functions");
    p.name[sizeof p.name - 1] = '\0';
    *out = p;
    return IMPMEM_OK;
}

impmem_status impmem_backend_create(impmem_ledger *ledger, const impmem_backend_ops *ops, void *self, impmem_backend **out,
                                    impmem_error *why)
{
    if (!ledger || !ops || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "backend",
                                 "no ledger, no vtable or no place for the result");
    impmem_backend_properties properties;
    impmem_status st = check_ops(ops, why);
    if (!st) st = read_properties(ops, self, &properties, why);
    if (st) return st;
    uint64_t bytes;
    void *memory;
    st = impmem_control_backend_bytes(&bytes);
    if (!st) st = impmem_ledger_host_allocate(ledger, ledger->host_line, IMPMEM_TAG_HOST_CONTROL, bytes, &memory, why);
    if (st) return st;
    impmem_backend *backend = memory;
    backend->ledger = ledger;
    backend->ops = *ops;
    backend->self = self;
    backend->properties = properties;
    *out = backend;
    return IMPMEM_OK;
}

static const impmem_region *first_region_of(const impmem_backend *backend)
{
    const impmem_region *region = backend->ledger->regions;
    while (region && region->backend != backend) region = region->next;
    return region;
}

impmem_status impmem_backend_destroy(impmem_backend *backend, impmem_error *why)
{
    if (!backend) return IMPMEM_OK;
    impmem_ledger *ledger = backend->ledger;
    impmem_status st = IMPMEM_OK;
    impmem__lock(ledger);
    const impmem_region *region = first_region_of(backend);
    if (region) {
        st = impmem__error_set(why, IMPMEM_ERR_LIVE_HOLDERS, impmem_tag_name(region->tag),
                               "%u regions of backend %s are live; one of %llu bytes tagged %s", backend->live_regions,
                               backend->properties.name, (unsigned long long)region->reserved,
                               impmem_tag_name(region->tag));
        impmem__error_line(why, region->line);
    }
    impmem__unlock(ledger);
    if (st) return st;
    if (backend->track.destroy) backend->track.destroy(backend->track.self);
    if (backend->ops.destroy) backend->ops.destroy(backend->self);
    impmem_ledger_host_free(ledger, ledger->host_line, IMPMEM_TAG_HOST_CONTROL, backend, IMPMEM__BACKEND_BYTES);
    return IMPMEM_OK;
}

impmem_ledger *impmem_backend_ledger(const impmem_backend *backend)
{
    return backend->ledger;
}

void impmem_backend_query(const impmem_backend *backend, impmem_backend_properties *out)
{
    *out = backend->properties;
}

uint32_t impmem_backend_live_regions(const impmem_backend *backend)
{
    impmem__lock(backend->ledger);
    uint32_t live = backend->live_regions;
    impmem__unlock(backend->ledger);
    return live;
}

/* ---- opening a region -------------------------------------------------------------------------------------------- */

/* One acquisition or reservation on its way through the front. */
typedef struct opening {
    impmem_backend *backend;
    const impmem_acquire_info *info;
    bool growable;
    uint64_t bytes; /* rounded up to the granule */
    uint64_t alignment;
    uint64_t object_bytes;
    impmem__subject subject;
} opening;

static impmem_status check_shares(const opening *o, impmem_error *why)
{
    const impmem_acquire_info *info = o->info;
    if (info->n_shares == 0 && !info->shares) return IMPMEM_OK;
    if (o->growable || !info->shares || info->n_shares == 0)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "shares",
                                 "shares are an array of lines, for acquire only");
    uint64_t sum = 0;
    for (uint32_t i = 0; i < info->n_shares; i++) {
        if (impmem_add(&sum, sum, info->shares[i].bytes))
            return impmem__error_set(why, IMPMEM_ERR_OVERFLOW, "shares", "the shares' sum overflows");
        for (uint32_t j = 0; j < i; j++) {
            if (info->shares[j].line == info->shares[i].line)
                return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "shares", "line %u has two shares",
                                         info->shares[i].line);
        }
    }
    if (sum == o->bytes) return IMPMEM_OK;
    impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "shares", "the shares add up to %llu bytes, the region has %llu",
                      (unsigned long long)sum, (unsigned long long)o->bytes);
    impmem__error_hint(why, "give the rounding to the granule a share of its own");
    return IMPMEM_ERR_INVALID_ARGUMENT;
}

/* The caller's figures: rounded, aligned, and shares that add up. */
static impmem_status size_opening(opening *o, impmem_error *why)
{
    const impmem_acquire_info *info = o->info;
    const impmem_backend_properties *p = &o->backend->properties;
    o->alignment = info->alignment ? info->alignment : MIN_ALIGNMENT;
    if (info->bytes == 0) return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "bytes", "0 bytes were asked for");
    if (o->alignment < MIN_ALIGNMENT || (o->alignment & (o->alignment - 1)))
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "alignment", "%llu is not a power of two of at least %u",
                                 (unsigned long long)o->alignment, MIN_ALIGNMENT);
    if (impmem_align_up(&o->bytes, info->bytes, p->granule_bytes))
        return impmem__error_set(why, IMPMEM_ERR_OVERFLOW, "bytes", "rounding %llu bytes up to the granule overflows",
                                 (unsigned long long)info->bytes);
    impmem_status st = check_shares(o, why);
    if (st) return st;
    st = impmem_control_region_bytes(info->n_shares, o->bytes, p->granule_bytes, o->growable, &o->object_bytes);
    return st ? impmem__error_set(why, st, "region", "the region's own tables can't be sized") : IMPMEM_OK;
}

/* Lays the object's tables out behind its header. NULL: the host allocator refused. */
static impmem_region *make_object(const opening *o)
{
    impmem_ledger *ledger = o->backend->ledger;
    unsigned char *memory = impmem__allocate_zeroed(&ledger->allocator, o->object_bytes, IMPMEM__TABLE_ALIGNMENT);
    if (!memory) return NULL;
    impmem_region *region = (impmem_region *)(void *)memory;
    if (pthread_mutex_init(&region->grow, NULL) != 0) {
        impmem__release(&ledger->allocator, memory, o->object_bytes);
        return NULL;
    }
    const impmem_acquire_info *info = o->info;
    uint32_t n_counters = info->n_shares ? info->n_shares : 1;
    uint64_t share_bytes = ((uint64_t)n_counters * IMPMEM__REGION_SHARE_BYTES + IMPMEM__TABLE_ALIGNMENT - 1) /
                           IMPMEM__TABLE_ALIGNMENT * IMPMEM__TABLE_ALIGNMENT;
    unsigned char *tables = memory + IMPMEM__REGION_HEADER_BYTES;
    region->backend = o->backend;
    region->reserved = o->bytes;
    region->granule = o->backend->properties.granule_bytes;
    region->object_bytes = o->object_bytes;
    region->tag = info->tag;
    region->line = o->subject.line;
    region->n_shares = info->n_shares;
    region->n_counters = n_counters;
    region->counter = (impmem__line_counter *)(void *)tables;
    region->share = (impmem_line_share *)(void *)(tables + n_counters * sizeof(impmem__line_counter));
    region->growable = o->growable;
    if (o->growable) region->granules = (uint64_t *)(void *)(tables + share_bytes);
    for (uint32_t i = 0; i < info->n_shares; i++) {
        region->share[i].line = impmem__known_line(ledger, info->shares[i].line);
        region->share[i].bytes = info->shares[i].bytes;
    }
    return region;
}

static void free_object(impmem_ledger *ledger, impmem_region *region)
{
    (void)pthread_mutex_destroy(&region->grow);
    impmem__release(&ledger->allocator, region, region->object_bytes);
}

void impmem__backend_error(const impmem_backend *backend, impmem_status st, impmem__subject subject,
                           const impmem_error *cause, impmem_error *why)
{
    if (!why) return;
    if (cause->message[0] != '\0') {
        *why = *cause;
        why->status = st;
    } else {
        (void)impmem__error_set(why, st, impmem_tag_name(subject.tag), "backend %s: %s", backend->properties.name,
                                impmem_status_message(st));
        why->driver_code = cause->driver_code;
    }
    why->line = subject.line;
}

/* The vtable's acquire or reserve; an address that breaks the contract goes back and is the driver's error. */
static impmem_status reach_backend(const opening *o, void **out_base, impmem_error *why)
{
    const impmem_backend *backend = o->backend;
    void *base = NULL;
    impmem_error cause = IMPMEM_ERROR_INIT;
    impmem_status st = (o->growable ? backend->ops.reserve : backend->ops.acquire)(backend->self, o->bytes, o->alignment,
                                                                                   &base, &cause);
    if (st) {
        impmem__backend_error(backend, st, o->subject, &cause, why);
        impmem__error_bytes(why, o->bytes, cause.available_bytes);
        return st;
    }
    if (base && ((uintptr_t)base & (o->alignment - 1)) == 0) {
        *out_base = base;
        return IMPMEM_OK;
    }
    if (base) (void)backend->ops.release(backend->self, base, o->bytes);
    return impmem__error_set(why, IMPMEM_ERR_DRIVER, backend->properties.name,
                             "the backend returned an address that is not aligned to %llu",
                             (unsigned long long)o->alignment);
}

static impmem__subject share_subject(const impmem_region *region, uint32_t i)
{
    impmem__subject subject = {region->share[i].line, region->tag, region->backend->properties.account, region->id,
                               region->base};
    return subject;
}

static impmem__subject region_subject(const impmem_region *region)
{
    impmem__subject subject = {region->line, region->tag, region->backend->properties.account, region->id, region->base};
    return subject;
}

impmem__subject impmem__region_subject(const impmem_region *region)
{
    return region_subject(region);
}

/* Books a fixed region's bytes, or takes them off the books, line by line. */
static void book_part(impmem_ledger *ledger, impmem__subject subject, uint64_t bytes, bool taking)
{
    if (bytes == 0) return;
    if (taking) {
        impmem__tally_take(ledger, subject, bytes);
        impmem__tally_reserve(ledger, subject, bytes);
    } else {
        impmem__tally_give(ledger, subject, bytes);
        impmem__tally_unreserve(ledger, subject, bytes);
    }
    impmem__journal_append(ledger, taking ? IMPMEM_JOURNAL_ACQUIRE : IMPMEM_JOURNAL_RELEASE, subject, bytes, IMPMEM_OK, 0);
}

static void book_fixed_locked(impmem_ledger *ledger, const impmem_region *region, bool taking)
{
    if (region->n_shares == 0) book_part(ledger, region_subject(region), region->reserved, taking);
    for (uint32_t i = 0; i < region->n_shares; i++)
        book_part(ledger, share_subject(region, i), region->share[i].bytes, taking);
}

static void publish_locked(impmem_region *region)
{
    impmem_backend *backend = region->backend;
    impmem_ledger *ledger = backend->ledger;
    impmem__subject host = impmem__host_subject(ledger, ledger->host_line, IMPMEM_TAG_HOST_CONTROL);
    region->id = ++ledger->last_region_id;
    host.region = region->id;
    host.base = region;
    impmem__host_book_locked(ledger, host, region->object_bytes);
    if (region->growable) {
        impmem__tally_reserve(ledger, region_subject(region), region->reserved);
        impmem__journal_append(ledger, IMPMEM_JOURNAL_RESERVE, region_subject(region), region->reserved, IMPMEM_OK, 0);
    } else {
        book_fixed_locked(ledger, region, true);
        atomic_store_explicit(&region->committed, region->reserved, memory_order_relaxed);
        atomic_store_explicit(&region->prefix, region->reserved, memory_order_relaxed);
    }
    region->next = ledger->regions;
    if (region->next) region->next->previous = region;
    ledger->regions = region;
    backend->live_regions++;
}

static impmem_status open_region(opening *o, impmem_region **out, impmem_error *why)
{
    impmem_ledger *ledger = o->backend->ledger;
    uint64_t budget_bytes = o->growable ? 0 : o->bytes;
    impmem_status st = impmem__enter(ledger, IMPMEM__ACT_ACQUIRE, o->subject, budget_bytes, o->object_bytes, why);
    if (st) return st;
    impmem_region *region = make_object(o);
    if (!region) {
        st = impmem__error_set(why, IMPMEM_ERR_OUT_OF_HOST_MEMORY, impmem_tag_name(o->info->tag),
                               "the host allocator refused %llu bytes for the region's tables",
                               (unsigned long long)o->object_bytes);
        impmem__error_bytes(why, o->object_bytes, 0);
    } else {
        st = reach_backend(o, &region->base, why);
    }
    impmem__lock(ledger);
    impmem__leave_locked(ledger, o->subject, budget_bytes, o->object_bytes);
    if (st) impmem__journal_append(ledger, IMPMEM_JOURNAL_REFUSED, o->subject, o->bytes, st, 0);
    else if (region) publish_locked(region);
    impmem__unlock(ledger);
    if (st) {
        if (region) free_object(ledger, region);
        return st;
    }
    *out = region;
    return IMPMEM_OK;
}

static impmem_status open_checked(impmem_backend *backend, const impmem_acquire_info *info, bool growable,
                                  impmem_region **out, impmem_error *why)
{
    if (!backend || !info || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "region",
                                 "no backend, no info or no place for the result");
    impmem_status st = impmem__options_check(info->size, info->version, sizeof *info, 1);
    if (st)
        return impmem__error_set(why, st, "acquire info", "size %u or version %u is not one of this library", info->size,
                                 info->version);
    if ((unsigned)info->tag >= IMPMEM_N_TAGS)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "tag", "no such tag: %u", (unsigned)info->tag);

    opening o;
    memset(&o, 0, sizeof o);
    o.backend = backend;
    o.info = info;
    o.growable = growable;
    o.subject.line = impmem__known_line(backend->ledger, info->line);
    o.subject.tag = info->tag;
    o.subject.account = backend->properties.account;
    st = impmem__guard(backend->ledger, IMPMEM__ACT_ACQUIRE, o.subject, info->bytes, why);
    if (!st) st = size_opening(&o, why);
    if (st) return st;
    if (growable && !backend->properties.growable) {
        impmem__refused(backend->ledger, o.subject, o.bytes, IMPMEM_ERR_NOT_GROWABLE);
        return impmem__error_set(why, IMPMEM_ERR_NOT_GROWABLE, backend->properties.name,
                                 "backend %s can't reserve address space", backend->properties.name);
    }
    return open_region(&o, out, why);
}

impmem_status impmem_backend_acquire(impmem_backend *backend, const impmem_acquire_info *info, impmem_region **out,
                                     impmem_error *why)
{
    return open_checked(backend, info, false, out, why);
}

impmem_status impmem_backend_reserve(impmem_backend *backend, const impmem_acquire_info *info, impmem_region **out,
                                     impmem_error *why)
{
    return open_checked(backend, info, true, out, why);
}

/* ---- release ----------------------------------------------------------------------------------------------------- */

static void unlink_locked(impmem_region *region)
{
    impmem_ledger *ledger = region->backend->ledger;
    if (region->next) region->next->previous = region->previous;
    if (region->previous) region->previous->next = region->next;
    else ledger->regions = region->next;
    region->backend->live_regions--;
}

static void unbook_locked(impmem_region *region)
{
    impmem_ledger *ledger = region->backend->ledger;
    impmem__subject host = impmem__host_subject(ledger, ledger->host_line, IMPMEM_TAG_HOST_CONTROL);
    impmem__fold_live_peaks(ledger, region);
    if (region->growable) {
        impmem__subject subject = region_subject(region);
        uint64_t committed = atomic_load_explicit(&region->committed, memory_order_relaxed);
        if (committed) {
            impmem__tally_give(ledger, subject, committed);
            impmem__journal_append(ledger, IMPMEM_JOURNAL_DECOMMIT, subject, committed, IMPMEM_OK, 0);
        }
        impmem__tally_unreserve(ledger, subject, region->reserved);
        impmem__journal_append(ledger, IMPMEM_JOURNAL_UNRESERVE, subject, region->reserved, IMPMEM_OK, 0);
    } else {
        book_fixed_locked(ledger, region, false);
    }
    host.region = region->id;
    host.base = region;
    impmem__host_unbook_locked(ledger, host, region->object_bytes);
}

/* Marks the region as on its way out, unless a tier holds it or somebody else is releasing it. */
static impmem_status begin_release(impmem_region *region, impmem_error *why)
{
    impmem_ledger *ledger = region->backend->ledger;
    impmem_status st = IMPMEM_OK;
    impmem__lock(ledger);
    if (region->open || region->releasing)
        st = impmem__error_set(why, IMPMEM_ERR_BUSY, impmem_tag_name(region->tag),
                               "a tier allocator is open over this %s region", impmem_tag_name(region->tag));
    else if (impmem__region_has_grower(region))
        st = impmem__error_set(why, IMPMEM_ERR_BUSY, impmem_tag_name(region->tag), "a grower is open over this %s region",
                               impmem_tag_name(region->tag));
    else region->releasing = true;
    impmem__unlock(ledger);
    return st;
}

impmem_status impmem_backend_release(impmem_region **region_slot, impmem_error *why)
{
    if (!region_slot) return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "region", "no place that holds a region");
    impmem_region *region = *region_slot;
    if (!region) return IMPMEM_OK;
    impmem_backend *backend = region->backend;
    impmem_ledger *ledger = backend->ledger;
    impmem__subject subject = region_subject(region);
    impmem_status st = impmem__guard(ledger, IMPMEM__ACT_GIVE_BACK, subject, region->reserved, why);
    if (!st) st = begin_release(region, why);
    if (st) return st;
    st = impmem__enter(ledger, IMPMEM__ACT_GIVE_BACK, subject, 0, 0, why);
    bool entered = st == IMPMEM_OK;
    if (entered) {
        st = backend->ops.release(backend->self, region->base, region->reserved);
        if (st)
            (void)impmem__error_set(why, st, impmem_tag_name(region->tag), "backend %s could not release the region: %s",
                                    backend->properties.name, impmem_status_message(st));
    }
    impmem__lock(ledger);
    if (entered) impmem__leave_locked(ledger, subject, 0, 0);
    region->releasing = false;
    if (!st) {
        unbook_locked(region);
        unlink_locked(region);
    }
    impmem__unlock(ledger);
    if (st) return st;
    free_object(ledger, region);
    *region_slot = NULL;
    return IMPMEM_OK;
}
