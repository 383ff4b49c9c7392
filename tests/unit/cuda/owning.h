/* owning.h - a backend of the room that owns its device: the conformance suite brings a ledger with each check, and a
 * device books on one ledger. */
#ifndef TEST_CUDA_OWNING_H
#define TEST_CUDA_OWNING_H

#include <stdlib.h>

#include "cuda/internal.h"

typedef struct owning {
    impmem_backend_ops inner;
    void *self;
    impmem_cuda_device *device;
} owning;

static impmem_status own_acquire(void *s, uint64_t bytes, uint64_t alignment, void **out, impmem_error *why)
{
    return ((owning *)s)->inner.acquire(((owning *)s)->self, bytes, alignment, out, why);
}

static impmem_status own_release(void *s, void *base, uint64_t bytes)
{
    return ((owning *)s)->inner.release(((owning *)s)->self, base, bytes);
}

static impmem_status own_reserve(void *s, uint64_t bytes, uint64_t alignment, void **out, impmem_error *why)
{
    return ((owning *)s)->inner.reserve(((owning *)s)->self, bytes, alignment, out, why);
}

static impmem_status own_commit(void *s, void *base, uint64_t offset, uint64_t length, uint64_t *got, impmem_error *why)
{
    return ((owning *)s)->inner.commit(((owning *)s)->self, base, offset, length, got, why);
}

static impmem_status own_decommit(void *s, void *base, uint64_t offset, uint64_t length)
{
    return ((owning *)s)->inner.decommit(((owning *)s)->self, base, offset, length);
}

static impmem_status own_query(void *s, impmem_backend_properties *out)
{
    return ((owning *)s)->inner.query(((owning *)s)->self, out);
}

static void own_destroy(void *s)
{
    owning *o = s;
    o->inner.destroy(o->self);
    impmem_status st = impmem_cuda_device_close(&o->device, NULL);
    (void)st; /* a device that stays open keeps its ledger from closing, which the suite sees */
    free(o);
}

/* Takes `device` and `inner` over; the inner front goes, its vtable and object go on under the new one. */
static impmem_status own_device(impmem_ledger *ledger, impmem_cuda_device *device, impmem_backend *inner,
                                impmem_backend **out, impmem_error *why)
{
    owning *o = calloc(1, sizeof *o);
    if (!o) return IMPMEM_ERR_OUT_OF_HOST_MEMORY;
    o->inner = inner->ops;
    o->self = inner->self;
    o->device = device;
    inner->ops.destroy = NULL;
    impmem_status st = impmem_backend_destroy(inner, why);
    impmem_backend_ops ops = {sizeof ops, 1, own_acquire, own_release, NULL, NULL, NULL, own_query, own_destroy};
    if (o->inner.reserve) {
        ops.reserve = own_reserve;
        ops.commit = own_commit;
        ops.decommit = own_decommit;
    }
    return st ? st : impmem_backend_create(ledger, &ops, o, out, why);
}

#endif
