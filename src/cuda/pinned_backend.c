/* Page-locked host memory: from cudaHostAlloc, or of a NUMA node from a chunk of virtual memory that host and device both
 * map. */
#include <string.h>

#include "cuda/internal.h"

typedef struct pinned_backend {
    impmem_cuda_device *device;
    impmem_line_id control_line;
    unsigned flags;
    int numa_node; /* -1: cudaHostAlloc */
    uint64_t granule;
    impmem__cap cap;
} pinned_backend;

uint64_t impmem__pinned_backend_bytes(void)
{
    return sizeof(pinned_backend);
}

static int allocate_here(pinned_backend *p, uint64_t bytes, void **out_base)
{
    int code = impmem__ask(&p->device->driver, host_alloc, out_base, bytes, p->flags);
    if (code) impmem__swallow(p->device);
    return code;
}

/* Reserve, create, map, grant, and let the handle go: from there on the mapping alone keeps the memory, and unmapping frees
 * it. What was done before a step that failed is undone. */
static int allocate_on_node(pinned_backend *p, uint64_t bytes, uint64_t alignment, void **out_base)
{
    impmem__driver *d = &p->device->driver;
    const impmem__chunk_place place = {p->device->ordinal, p->numa_node, 0};
    void *base = NULL;
    uint64_t chunk = 0;
    bool created = false, mapped = false;
    int code = impmem__ask(d, address_reserve, &base, bytes, alignment > p->granule ? alignment : p->granule);
    if (code) return code;
    code = impmem__ask(d, chunk_create, &chunk, bytes, &place);
    created = !code;
    if (!code) code = impmem__ask(d, chunk_map, base, bytes, chunk);
    mapped = !code;
    if (!code) code = impmem__ask(d, set_access, base, bytes, &p->device->ordinal, 1, p->numa_node);
    if (!code) code = impmem__ask(d, chunk_release, chunk);
    if (!code) {
        *out_base = base;
        return code;
    }
    int ignored = 0;
    if (mapped) ignored |= impmem__ask(d, chunk_unmap, base, bytes);
    if (created) ignored |= impmem__ask(d, chunk_release, chunk);
    ignored |= impmem__ask(d, address_free, base, bytes);
    (void)ignored;
    return code;
}

static impmem_status acquire(void *self, uint64_t bytes, uint64_t alignment, void **out_base, impmem_error *why)
{
    pinned_backend *p = self;
    /* cudaHostAlloc promises whole pages and no more; chunks of virtual memory align to anything. */
    if (p->numa_node < 0 && alignment > IMPMEM__CUDA_PINNED_GRANULE)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "pinned host memory",
                                 "an alignment of %llu bytes is more than a page of %u", (unsigned long long)alignment,
                                 IMPMEM__CUDA_PINNED_GRANULE);
    if (!impmem__cap_take(&p->cap, bytes))
        return impmem__cap_error(&p->cap, IMPMEM_ERR_OUT_OF_PINNED_MEMORY, "pinned host memory", bytes, why);
    int code = impmem__enter_device(p->device);
    if (!code) {
        code = p->numa_node < 0 ? allocate_here(p, bytes, out_base) : allocate_on_node(p, bytes, alignment, out_base);
        impmem__leave_device(p->device);
    }
    if (!code) return IMPMEM_OK;
    impmem__cap_give(&p->cap, bytes);
    /* Whatever the driver calls it, it is the pinned memory that was refused and not the device's that is full. */
    impmem_status st = impmem__code_error(why, code, IMPMEM_ERR_OUT_OF_PINNED_MEMORY, "page-locking host memory");
    if (st != IMPMEM_ERR_CAPTURING && st != IMPMEM_ERR_OUT_OF_PINNED_MEMORY) {
        st = impmem__error_set(why, IMPMEM_ERR_OUT_OF_PINNED_MEMORY, "pinned host memory",
                               "the driver refused to page-lock %llu bytes (code %d)", (unsigned long long)bytes, code);
        impmem__error_driver(why, code);
    }
    return st;
}

static impmem_status release(void *self, void *base, uint64_t bytes)
{
    pinned_backend *p = self;
    impmem__driver *d = &p->device->driver;
    int code = impmem__enter_device(p->device);
    if (code) return impmem__code_status(code, IMPMEM_ERR_DRIVER);
    if (p->numa_node < 0) {
        code = impmem__ask(d, host_free, base);
        if (code) impmem__swallow(p->device);
    } else {
        code = impmem__ask(d, chunk_unmap, base, bytes);
        /* The memory went with its mapping; addresses that stay behind cost nothing and are no reason to keep the
         * region. */
        if (!code) {
            int ignored = impmem__ask(d, address_free, base, bytes);
            (void)ignored;
        }
    }
    impmem__leave_device(p->device);
    if (code) return impmem__code_status(code, IMPMEM_ERR_DRIVER);
    impmem__cap_give(&p->cap, bytes);
    return IMPMEM_OK;
}

static impmem_status query(void *self, impmem_backend_properties *out)
{
    const pinned_backend *p = self;
    out->granule_bytes = p->granule;
    out->capacity_bytes = p->cap.most;
    out->growable = false;
    out->host_accessible = true;
    out->account = IMPMEM_ACCOUNT_PINNED;
    memcpy(out->name, "cudaHostAlloc", sizeof "cudaHostAlloc");
    if (p->numa_node >= 0) memcpy(out->name, "host NUMA node", sizeof "host NUMA node");
    return IMPMEM_OK;
}

static void destroy(void *self)
{
    pinned_backend *p = self;
    impmem_cuda_device *device = p->device;
    impmem__cuda_give_host(device->ledger, p->control_line, p, sizeof *p);
    atomic_fetch_sub_explicit(&device->users, 1, memory_order_release);
}

/* The granule of host memory of a node; 0: this device or driver has no such memory. */
static uint64_t node_granule(impmem_cuda_device *device, int node)
{
    impmem__chunk_place place = {device->ordinal, node, 0};
    uint64_t granule = 0;
    if (!device->facts.virtual_memory || impmem__enter_device(device)) return 0;
    int code = impmem__ask(&device->driver, granularity, &granule, &place, 0);
    impmem__leave_device(device);
    return code || granule < 256 || (granule & (granule - 1)) ? 0 : granule;
}

impmem_status impmem_cuda_pinned_backend_create(impmem_cuda_device *device, const impmem_cuda_pinned_options *options,
                                                impmem_backend **out, impmem_error *why)
{
    const impmem_cuda_pinned_options defaults = IMPMEM_CUDA_PINNED_OPTIONS_INIT;
    if (!options) options = &defaults;
    if (!device || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "pinned host memory",
                                 "no device, or no place for the result");
    impmem_status st = impmem__options_check(options->size, options->version, sizeof *options, 1);
    if (st)
        return impmem__error_set(why, st, "pinned options", "size %u or version %u is not one of this library",
                                 options->size, options->version);
    /* A zeroed struct says node 0 by accident: it means defaults. */
    int node = options->size == 0 ? -1 : options->numa_node;
    uint64_t granule = node < 0 ? IMPMEM__CUDA_PINNED_GRANULE : node_granule(device, node);
    if (granule == 0)
        return impmem__error_set(why, IMPMEM_ERR_UNSUPPORTED, "pinned host memory",
                                 "this device or driver gives no host memory of a NUMA node");
    void *memory = NULL;
    st = impmem__cuda_take_host(device->ledger, options->control_line, sizeof(pinned_backend), &memory, why);
    if (st) return st;
    pinned_backend *p = memory;
    p->device = device;
    p->control_line = options->control_line;
    p->numa_node = node;
    p->granule = granule;
    p->flags = IMPMEM__HOST_PORTABLE | (options->mapped ? IMPMEM__HOST_MAPPED : 0u) |
               (options->write_combined ? IMPMEM__HOST_WRITE_COMBINED : 0u);
    p->cap.most = options->capacity_bytes ? options->capacity_bytes : UINT64_MAX;
    atomic_fetch_add_explicit(&device->users, 1, memory_order_relaxed);
    const impmem_backend_ops ops = {
        .size = sizeof ops, .version = 1, .acquire = acquire, .release = release, .query = query, .destroy = destroy};
    st = impmem_backend_create(device->ledger, &ops, p, out, why);
    if (st) destroy(p);
    return st;
}

impmem_status impmem_cuda_device_address(impmem_cuda_device *device, void *host, void **out, impmem_error *why)
{
    if (!device || !host || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "CUDA",
                                 "no device, no address or no place for the result");
    int code = impmem__enter_device(device);
    if (!code) {
        code = impmem__ask(&device->driver, host_address, out, host);
        if (code) impmem__swallow(device);
        impmem__leave_device(device);
    }
    if (code == IMPMEM__CODE_INVALID_VALUE)
        return impmem__error_set(why, IMPMEM_ERR_NOT_FOUND, "CUDA", "the device has no address for this host memory");
    return code ? impmem__code_error(why, code, IMPMEM_ERR_DRIVER, "asking for the device's address of host memory")
                : IMPMEM_OK;
}
