/* Fixed device memory from cudaMalloc. */
#include <string.h>

#include "cuda/internal.h"

typedef struct malloc_backend {
    impmem_cuda_device *device;
    impmem_ledger *ledger;
    impmem__cap cap;
} malloc_backend;

uint64_t impmem__malloc_backend_bytes(void)
{
    return sizeof(malloc_backend);
}

static impmem_status acquire(void *self, uint64_t bytes, uint64_t alignment, void **out_base, impmem_error *why)
{
    malloc_backend *m = self;
    if (alignment > IMPMEM__CUDA_GRANULE)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "cudaMalloc",
                                 "an alignment of %llu bytes is more than 2 MiB", (unsigned long long)alignment);
    if (!impmem__cap_take(&m->cap, bytes))
        return impmem__cap_error(&m->cap, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, "cudaMalloc", bytes, why);
    impmem__driver *d = &m->device->driver;
    void *base = NULL;
    int code = impmem__enter_device(m->device);
    if (!code) {
        code = impmem__ask(d, malloc, &base, bytes);
        if (code) impmem__swallow(m->device);
        impmem__leave_device(m->device);
    }
    if (code) {
        impmem__cap_give(&m->cap, bytes);
        return impmem__code_error(why, code, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, "cudaMalloc");
    }
    *out_base = base;
    return IMPMEM_OK;
}

static impmem_status release(void *self, void *base, uint64_t bytes)
{
    malloc_backend *m = self;
    int code = impmem__enter_device(m->device);
    if (code) return impmem__code_status(code, IMPMEM_ERR_DRIVER);
    code = impmem__ask(&m->device->driver, free, base);
    if (code) impmem__swallow(m->device);
    impmem__leave_device(m->device);
    if (code) return impmem__code_status(code, IMPMEM_ERR_DRIVER);
    impmem__cap_give(&m->cap, bytes);
    return IMPMEM_OK;
}

static impmem_status query(void *self, impmem_backend_properties *out)
{
    const malloc_backend *m = self;
    out->granule_bytes = IMPMEM__CUDA_GRANULE;
    out->capacity_bytes = m->cap.most;
    out->growable = false;
    out->host_accessible = false;
    out->account = IMPMEM_ACCOUNT_DEVICE;
    memcpy(out->name, "cudaMalloc", sizeof "cudaMalloc");
    return IMPMEM_OK;
}

static void destroy(void *self)
{
    malloc_backend *m = self;
    impmem_cuda_device *device = m->device;
    impmem__cuda_give_host(m->ledger, device->control_line, m, sizeof *m);
    atomic_fetch_sub_explicit(&device->users, 1, memory_order_release);
}

impmem_status impmem_cuda_malloc_backend_create(impmem_cuda_device *device, const impmem_cuda_malloc_options *options,
                                                impmem_backend **out, impmem_error *why)
{
    const impmem_cuda_malloc_options defaults = IMPMEM_CUDA_MALLOC_OPTIONS_INIT;
    if (!options) options = &defaults;
    if (!device || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "cudaMalloc", "no device, or no place for the result");
    impmem_status st = impmem__options_check(options->size, options->version, sizeof *options, 1);
    if (st)
        return impmem__error_set(why, st, "cudaMalloc options", "size %u or version %u is not one of this library",
                                 options->size, options->version);
    void *memory = NULL;
    st = impmem__cuda_take_host(device->ledger, device->control_line, sizeof(malloc_backend), &memory, why);
    if (st) return st;
    malloc_backend *m = memory;
    m->device = device;
    m->ledger = device->ledger;
    m->cap.most = options->capacity_bytes ? options->capacity_bytes : UINT64_MAX;
    atomic_fetch_add_explicit(&device->users, 1, memory_order_relaxed);
    const impmem_backend_ops ops = {
        .size = sizeof ops, .version = 1, .acquire = acquire, .release = release, .query = query, .destroy = destroy};
    st = impmem_backend_create(device->ledger, &ops, m, out, why);
    if (st) destroy(m);
    return st;
}
