/* pinned.c - T5b: page-locked host memory. A handle is the ledger and a number; every use looks the number up. */
#include "impmem/pinned.h"

#include "alloc/internal.h"
#include "impmem/control.h"

#define SUBJECT "pinned"

typedef struct pinned_object {
    impmem__pinned_link link; /* first: found again through it */
    impmem_region *region;    /* NULL: pageable */
    void *data;
    uint64_t bytes;
    impmem_ledger *ledger;
    impmem_line_id line;
} pinned_object;

_Static_assert(sizeof(pinned_object) <= IMPMEM__PINNED_BYTES, "impmem_control_pinned_bytes counts this object");

static impmem_status check_span(void *self, uint64_t generation, const void *data, uint64_t bytes)
{
    const pinned_object *object = self;
    bool same = generation == object->link.number && data == object->data && bytes == object->bytes;
    return same ? IMPMEM_OK : IMPMEM_ERR_FORGED;
}

static const impmem__tier_ops tier_ops = {check_span};

static impmem_ledger *ledger_of(impmem_pinned pinned)
{
    return (impmem_ledger *)(void *)pinned.object_;
}

static pinned_object *find(impmem_pinned pinned)
{
    if (!pinned.object_) return NULL;
    return (pinned_object *)(void *)impmem__ledger_pinned_find(ledger_of(pinned), pinned.generation_);
}

static void free_object(pinned_object *object)
{
    impmem__object_give(object->ledger, impmem_control_pinned_bytes, object);
}

/* An object with nothing in it yet. */
static impmem_status new_object(impmem_ledger *ledger, impmem_line_id line, uint64_t bytes, pinned_object **out,
                                impmem_error *why)
{
    void *memory = NULL;
    impmem_status st = impmem__object_take(ledger, impmem_control_pinned_bytes, &memory, why);
    if (st) return st;
    pinned_object *object = memory;
    object->ledger = ledger;
    object->line = line;
    object->bytes = bytes;
    *out = object;
    return IMPMEM_OK;
}

static impmem_status lock_pages(impmem_backend *backend, pinned_object *object, impmem_error *why)
{
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = object->bytes;
    info.tag = IMPMEM_TAG_HOST_PINNED;
    info.line = object->line;
    impmem_status st = impmem_backend_acquire(backend, &info, &object->region, why);
    if (st) return st;
    object->data = impmem_region_base(object->region);
    st = impmem__region_open_tier(object->region, &tier_ops, object);
    if (st) {
        impmem_status ignored = impmem_backend_release(&object->region, NULL);
        (void)ignored;
        return impmem__error_set(why, st, SUBJECT, "the new region could not be opened");
    }
    impmem__live_set(impmem__region_counter(object->region, 0), object->bytes);
    return IMPMEM_OK;
}

static impmem_status open_either(impmem_backend *backend, impmem_line_id line, uint64_t bytes, bool may_degrade,
                                 impmem_pinned *out, bool *out_pageable, impmem_error *why)
{
    if (!backend || !out || !bytes)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT,
                                 "backend and out must not be NULL, nor bytes 0");
    impmem_backend_properties properties;
    impmem_backend_query(backend, &properties);
    if (properties.account != IMPMEM_ACCOUNT_PINNED)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "the backend's memory is %s, not page-locked",
                                 impmem_account_name(properties.account));
    impmem_ledger *ledger = impmem_backend_ledger(backend);
    pinned_object *object;
    impmem_status st = new_object(ledger, line, bytes, &object, why);
    if (st) return st;

    st = lock_pages(backend, object, why);
    bool pageable = st == IMPMEM_ERR_OUT_OF_PINNED_MEMORY && may_degrade;
    if (pageable) {
        st = impmem_ledger_host_allocate(ledger, line, IMPMEM_TAG_HOST_PINNED, bytes, &object->data, why);
        if (!st) impmem__ledger_pinned_degradation_add(ledger);
    }
    if (st) {
        free_object(object);
        return st;
    }
    impmem__ledger_pinned_add(ledger, &object->link);
    *out = (impmem_pinned){(impmem_pinned_object *)(void *)ledger, object->link.number};
    if (out_pageable) *out_pageable = pageable;
    return IMPMEM_OK;
}

impmem_status impmem_pinned_open(impmem_backend *backend, impmem_line_id line, uint64_t bytes, impmem_pinned *out,
                                 impmem_error *why)
{
    return open_either(backend, line, bytes, false, out, NULL, why);
}

impmem_status impmem_pinned_open_or_pageable(impmem_backend *backend, impmem_line_id line, uint64_t bytes,
                                             impmem_pinned *out, bool *out_pageable, impmem_error *why)
{
    return open_either(backend, line, bytes, true, out, out_pageable, why);
}

/* The region goes first: while it can't, the handle stays good. */
static impmem_status release_region(pinned_object *object)
{
    impmem__live_set(impmem__region_counter(object->region, 0), 0);
    impmem__region_close_tier(object->region);
    impmem_status st = impmem_backend_release(&object->region, NULL);
    if (!st || !object->region) return st;
    impmem_status again = impmem__region_open_tier(object->region, &tier_ops, object);
    impmem__live_set(impmem__region_counter(object->region, 0), object->bytes);
    return impmem_first_error(st, again);
}

impmem_status impmem_pinned_close(impmem_pinned *pinned)
{
    if (!pinned) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (!pinned->object_ && !pinned->generation_) return IMPMEM_OK;
    pinned_object *object = find(*pinned);
    if (!object) return IMPMEM_ERR_STALE;
    if (object->region) {
        impmem_status st = release_region(object);
        if (st) return st;
    } else {
        impmem_ledger_host_free(object->ledger, object->line, IMPMEM_TAG_HOST_PINNED, object->data, object->bytes);
    }
    impmem__ledger_pinned_remove(object->ledger, &object->link);
    free_object(object);
    *pinned = (impmem_pinned)IMPMEM_PINNED_NONE;
    return IMPMEM_OK;
}

void *impmem_pinned_data(impmem_pinned pinned)
{
    const pinned_object *object = find(pinned);
    return object ? object->data : NULL;
}

uint64_t impmem_pinned_bytes(impmem_pinned pinned)
{
    const pinned_object *object = find(pinned);
    return object ? object->bytes : 0;
}

bool impmem_pinned_is_pageable(impmem_pinned pinned)
{
    const pinned_object *object = find(pinned);
    return object && !object->region;
}

impmem_status impmem_pinned_view(impmem_pinned pinned, impmem_pinned_span *out)
{
    if (!out) return IMPMEM_ERR_INVALID_ARGUMENT;
    const pinned_object *object = find(pinned);
    if (!object) return IMPMEM_ERR_STALE;
    if (!object->region) return IMPMEM_ERR_UNSUPPORTED;
    out->span_ = (impmem_stable_span){object->data, object->bytes, impmem_region_id(object->region), object->link.number};
    return IMPMEM_OK;
}

uint64_t impmem_ledger_pinned_degradations(const impmem_ledger *ledger)
{
    return ledger ? impmem__ledger_pinned_degradation_count(ledger) : 0;
}
