/* The virtual-memory backend: regions of reserved addresses that physical chunks are mapped into. */
#include <string.h>

#include "cuda/vmm.h"

#define SUBJECT "VMM"

/* ---- regions --------------------------------------------------------------------------------------------------------- */

uint64_t impmem__vmm_backend_bytes(void)
{
    return sizeof(impmem__vmm);
}

impmem_status impmem__vmm_region_bytes(uint64_t reserved_bytes, uint64_t chunk_bytes, uint64_t *out_bytes)
{
    uint64_t chunks = 0, bytes = 0;
    impmem_status st = impmem_div_up(&chunks, reserved_bytes, chunk_bytes);
    if (!st) st = impmem_mul(&bytes, chunks, sizeof(uint64_t) + 1);
    if (!st) st = impmem_add(&bytes, bytes, sizeof(impmem__vmm_region));
    if (!st) *out_bytes = bytes;
    return st;
}

static impmem__vmm_region *find_region(impmem__vmm *vmm, const void *base)
{
    impmem__vmm_region *r = vmm->regions;
    while (r && r->base != base) r = r->next;
    return r;
}

static void free_region(impmem__vmm *vmm, impmem__vmm_region *region)
{
    impmem__cuda_give_host(vmm->device->ledger, vmm->control_line, region, region->object_bytes);
}

static impmem_status make_region(impmem__vmm *vmm, uint64_t bytes, impmem__vmm_region **out, impmem_error *why)
{
    uint64_t object_bytes = 0;
    void *memory = NULL;
    impmem_status st = impmem__vmm_region_bytes(bytes, vmm->chunk_bytes, &object_bytes);
    if (!st) st = impmem__cuda_take_host(vmm->device->ledger, vmm->control_line, object_bytes, &memory, why);
    if (st) return st;
    impmem__vmm_region *r = memory;
    r->bytes = bytes;
    r->object_bytes = object_bytes;
    r->n_chunks = bytes / vmm->chunk_bytes;
    r->handle = (uint64_t *)(void *)(r + 1);
    r->mapped = (unsigned char *)(r->handle + r->n_chunks);
    *out = r;
    return IMPMEM_OK;
}

/* An address range is asked for at the alignment that is wanted; a driver that refuses that may still give it at its
 * own. */
static int reserve_addresses(impmem__vmm *vmm, uint64_t bytes, uint64_t alignment, void **out_base)
{
    impmem__driver *d = &vmm->device->driver;
    uint64_t granule = vmm->device->facts.granule_bytes;
    int code = impmem__ask(d, address_reserve, out_base, bytes, alignment > granule ? alignment : granule);
    if (!code || alignment > granule) return code;
    return impmem__ask(d, address_reserve, out_base, bytes, (uint64_t)0);
}

static impmem_status reserve(void *self, uint64_t bytes, uint64_t alignment, void **out_base, impmem_error *why)
{
    impmem__vmm *vmm = self;
    impmem__vmm_region *region = NULL;
    impmem_status st = make_region(vmm, bytes, &region, why);
    if (st) return st;
    void *base = NULL;
    int code = impmem__enter_device(vmm->device);
    if (!code) {
        code = reserve_addresses(vmm, bytes, alignment, &base);
        impmem__leave_device(vmm->device);
    }
    if (code) {
        free_region(vmm, region);
        st = impmem__code_error(why, code, IMPMEM_ERR_OUT_OF_ADDRESS_SPACE, "reserving addresses");
        if (st == IMPMEM_ERR_CAPTURING) return st;
        st = impmem__error_set(why, IMPMEM_ERR_OUT_OF_ADDRESS_SPACE, SUBJECT,
                               "the driver refused %llu bytes of addresses (code %d)", (unsigned long long)bytes, code);
        impmem__error_driver(why, code);
        impmem__error_hint(why, "plan a smaller pool, or open it fixed over cudaMalloc");
        return st;
    }
    region->base = base;
    (void)pthread_mutex_lock(&vmm->lock);
    region->next = vmm->regions;
    vmm->regions = region;
    vmm->stats.reserved_bytes += bytes;
    (void)pthread_mutex_unlock(&vmm->lock);
    *out_base = base;
    return IMPMEM_OK;
}

/* ---- chunks ---------------------------------------------------------------------------------------------------------- */

static impmem_status commit_locked(impmem__vmm *vmm, void *base, uint64_t offset, uint64_t length, impmem_error *why)
{
    impmem__vmm_region *region = find_region(vmm, base);
    if (!region || offset > region->bytes || length > region->bytes - offset)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "no reservation holds this range");
    if (!impmem__cap_take(&vmm->cap, length))
        return impmem__cap_error(&vmm->cap, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, SUBJECT, length, why);
    const char *step = "making the device's context current";
    int code = impmem__enter_device(vmm->device);
    if (!code) {
        code = impmem__vmm_back(vmm, region, offset / vmm->chunk_bytes, length / vmm->chunk_bytes, &step);
        impmem__leave_device(vmm->device);
    }
    if (!code) return IMPMEM_OK;
    impmem__cap_give(&vmm->cap, length);
    impmem_status st = impmem__code_error(why, code, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, step);
    impmem__error_bytes(why, length, 0);
    return st;
}

static impmem_status commit(void *self, void *base, uint64_t offset, uint64_t length, uint64_t *achieved, impmem_error *why)
{
    impmem__vmm *vmm = self;
    (void)pthread_mutex_lock(&vmm->lock);
    impmem_status st = commit_locked(vmm, base, offset, length, why);
    (void)pthread_mutex_unlock(&vmm->lock);
    *achieved = st ? 0 : length;
    return st;
}

static impmem_status decommit_locked(impmem__vmm *vmm, void *base, uint64_t offset, uint64_t length)
{
    impmem__vmm_region *region = find_region(vmm, base);
    if (!region || offset > region->bytes || length > region->bytes - offset) return IMPMEM_ERR_INVALID_ARGUMENT;
    int code = impmem__enter_device(vmm->device);
    if (!code) {
        code = impmem__vmm_unback(vmm, region, offset / vmm->chunk_bytes, length / vmm->chunk_bytes);
        impmem__leave_device(vmm->device);
    }
    if (!code) impmem__cap_give(&vmm->cap, length);
    return impmem__code_status(code, IMPMEM_ERR_DRIVER);
}

static impmem_status decommit(void *self, void *base, uint64_t offset, uint64_t length)
{
    impmem__vmm *vmm = self;
    (void)pthread_mutex_lock(&vmm->lock);
    impmem_status st = decommit_locked(vmm, base, offset, length);
    (void)pthread_mutex_unlock(&vmm->lock);
    return st;
}

/* ---- release, fixed regions ------------------------------------------------------------------------------------------ */

/* Run by run: a run is unmapped as a whole or not at all, so a failure half way leaves the rest mapped and known. */
static int unback_all(impmem__vmm *vmm, impmem__vmm_region *region)
{
    for (uint64_t i = 0; i < region->n_chunks;) {
        uint64_t end = i;
        while (end < region->n_chunks && region->mapped[end]) end++;
        if (end == i) {
            i++;
            continue;
        }
        int code = impmem__vmm_unback(vmm, region, i, end - i);
        if (code) return code;
        impmem__cap_give(&vmm->cap, (end - i) * vmm->chunk_bytes);
        i = end;
    }
    return IMPMEM__CODE_OK;
}

static impmem_status release_locked(impmem__vmm *vmm, void *base)
{
    impmem__vmm_region *region = find_region(vmm, base);
    if (!region) return IMPMEM_ERR_INVALID_ARGUMENT;
    int code = impmem__enter_device(vmm->device);
    if (code) return impmem__code_status(code, IMPMEM_ERR_DRIVER);
    code = unback_all(vmm, region);
    if (!code) code = impmem__ask(&vmm->device->driver, address_free, region->base, region->bytes);
    impmem__leave_device(vmm->device);
    if (code) return impmem__code_status(code, IMPMEM_ERR_DRIVER);
    vmm->stats.reserved_bytes -= region->bytes;
    impmem__vmm_region **slot = &vmm->regions;
    while (*slot != region) slot = &(*slot)->next;
    *slot = region->next;
    free_region(vmm, region);
    return IMPMEM_OK;
}

static impmem_status release(void *self, void *base, uint64_t bytes)
{
    impmem__vmm *vmm = self;
    (void)bytes;
    (void)pthread_mutex_lock(&vmm->lock);
    impmem_status st = release_locked(vmm, base);
    (void)pthread_mutex_unlock(&vmm->lock);
    return st;
}

static impmem_status acquire(void *self, uint64_t bytes, uint64_t alignment, void **out_base, impmem_error *why)
{
    void *base = NULL;
    uint64_t achieved = 0;
    impmem_status st = reserve(self, bytes, alignment, &base, why);
    if (st) return st;
    st = commit(self, base, 0, bytes, &achieved, why);
    if (st) {
        impmem_status ignored = release(self, base, bytes);
        (void)ignored;
        return st;
    }
    *out_base = base;
    return IMPMEM_OK;
}

/* ---- life ------------------------------------------------------------------------------------------------------------ */

static impmem_status query(void *self, impmem_backend_properties *out)
{
    const impmem__vmm *vmm = self;
    out->granule_bytes = vmm->chunk_bytes;
    out->capacity_bytes = vmm->cap.most;
    out->growable = true;
    out->host_accessible = false;
    out->account = IMPMEM_ACCOUNT_DEVICE;
    memcpy(out->name, SUBJECT, sizeof SUBJECT);
    return IMPMEM_OK;
}

static void destroy(void *self)
{
    impmem__vmm *vmm = self;
    impmem_cuda_device *device = vmm->device;
    if (vmm->has_lock) {
        if (vmm->n_kept && impmem__enter_device(device) == IMPMEM__CODE_OK) {
            impmem__vmm_drop_kept(vmm, 0);
            impmem__leave_device(device);
        }
        (void)pthread_mutex_destroy(&vmm->lock);
    }
    impmem__cuda_give_host(device->ledger, vmm->control_line, vmm, sizeof *vmm);
    atomic_fetch_sub_explicit(&device->users, 1, memory_order_release);
}

static impmem_status check_options(const impmem_cuda_device *device, const impmem_cuda_vmm_options *o, impmem_error *why)
{
    const impmem_cuda_facts *f = &device->facts;
    impmem_status st = impmem__options_check(o->size, o->version, sizeof *o, 1);
    if (st)
        return impmem__error_set(why, st, "VMM options", "size %u or version %u is not one of this library", o->size,
                                 o->version);
    if (!f->virtual_memory)
        return impmem__error_set(why, IMPMEM_ERR_UNSUPPORTED, SUBJECT,
                                 "device %d or its driver has no virtual memory management", device->ordinal);
    if (o->exportable && !f->exportable)
        return impmem__error_set(why, IMPMEM_ERR_UNSUPPORTED, SUBJECT, "device %d can't export memory as file descriptors",
                                 device->ordinal);
    uint64_t chunk = o->chunk_bytes ? o->chunk_bytes : IMPMEM__CUDA_DEFAULT_CHUNK;
    if (chunk % f->granule_bytes) {
        st = impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "chunk_bytes",
                               "%llu is no multiple of the device's granule of %llu", (unsigned long long)chunk,
                               (unsigned long long)f->granule_bytes);
        return st;
    }
    if (o->n_peers > IMPMEM_CUDA_MAX_PEERS || (o->n_peers && !o->peers))
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "peers", "%u peers; at most %u, in an array", o->n_peers,
                                 IMPMEM_CUDA_MAX_PEERS);
    for (uint32_t i = 0; i < o->n_peers; i++) {
        if (o->peers[i] < 0 || o->peers[i] == device->ordinal)
            return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "peers", "%d is no other device", o->peers[i]);
    }
    return IMPMEM_OK;
}

static void set_up(impmem__vmm *vmm, impmem_cuda_device *device, const impmem_cuda_vmm_options *o)
{
    vmm->device = device;
    vmm->control_line = o->control_line;
    vmm->chunk_bytes = o->chunk_bytes ? o->chunk_bytes : IMPMEM__CUDA_DEFAULT_CHUNK;
    vmm->keep_bytes = o->keep_bytes;
    vmm->exportable = o->exportable;
    vmm->verify_access = o->verify_access;
#ifndef NDEBUG
    vmm->verify_access = true;
#endif
    if (!device->driver.get_access) vmm->verify_access = false;
    vmm->n_devices = 1 + o->n_peers;
    vmm->devices[0] = device->ordinal;
    for (uint32_t i = 0; i < o->n_peers; i++) vmm->devices[1 + i] = o->peers[i];
    vmm->cap.most = o->capacity_bytes ? o->capacity_bytes : UINT64_MAX;
}

impmem_status impmem_cuda_vmm_backend_create(impmem_cuda_device *device, const impmem_cuda_vmm_options *options,
                                             impmem_backend **out, impmem_error *why)
{
    const impmem_cuda_vmm_options defaults = IMPMEM_CUDA_VMM_OPTIONS_INIT;
    if (!options) options = &defaults;
    if (!device || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "no device, or no place for the result");
    void *memory = NULL;
    impmem_status st = check_options(device, options, why);
    if (!st) st = impmem__cuda_take_host(device->ledger, options->control_line, sizeof(impmem__vmm), &memory, why);
    if (st) return st;
    impmem__vmm *vmm = memory;
    set_up(vmm, device, options);
    atomic_fetch_add_explicit(&device->users, 1, memory_order_relaxed);
    vmm->has_lock = pthread_mutex_init(&vmm->lock, NULL) == 0;
    const impmem_backend_ops ops = {sizeof ops, 1, acquire, release, reserve, commit, decommit, query, destroy};
    if (vmm->has_lock) st = impmem_backend_create(device->ledger, &ops, vmm, out, why);
    else st = impmem__error_set(why, IMPMEM_ERR_OUT_OF_HOST_MEMORY, SUBJECT, "no mutex for the backend");
    if (st) destroy(vmm);
    return st;
}

/* Tries whether that much can be reserved, without a trace. */
static impmem_status try_reservation(impmem_cuda_device *device, uint64_t bytes, impmem_error *why)
{
    void *base = NULL;
    int code = impmem__enter_device(device);
    if (code) return impmem__code_error(why, code, IMPMEM_ERR_DRIVER, "making the device's context current");
    uint64_t granule = device->facts.granule_bytes;
    if (impmem_align_up(&bytes, bytes, granule)) code = IMPMEM__CODE_INVALID_VALUE;
    if (!code) code = impmem__ask(&device->driver, address_reserve, &base, bytes, granule);
    if (!code) code = impmem__ask(&device->driver, address_free, base, bytes);
    impmem__leave_device(device);
    if (!code) return IMPMEM_OK;
    impmem__error_set(why, IMPMEM_ERR_OUT_OF_ADDRESS_SPACE, SUBJECT, "the driver refused %llu bytes of addresses (code %d)",
                      (unsigned long long)bytes, code);
    impmem__error_driver(why, code);
    return IMPMEM_ERR_OUT_OF_ADDRESS_SPACE;
}

impmem_status impmem_cuda_growing_backend_create(impmem_cuda_device *device, const impmem_cuda_vmm_options *options,
                                                 uint64_t reserve_bytes, impmem_backend **out, bool *out_growable,
                                                 impmem_error *why)
{
    const impmem_cuda_vmm_options defaults = IMPMEM_CUDA_VMM_OPTIONS_INIT;
    if (!options) options = &defaults;
    if (!device || !out || !out_growable || !reserve_bytes)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT,
                                 "no device, 0 bytes or no place for the results");
    impmem_status st = check_options(device, options, why);
    if (!st) st = try_reservation(device, reserve_bytes, why);
    if (!st) st = impmem_cuda_vmm_backend_create(device, options, out, why);
    if (!st) {
        *out_growable = true;
        return st;
    }
    if (st != IMPMEM_ERR_UNSUPPORTED && st != IMPMEM_ERR_OUT_OF_ADDRESS_SPACE) return st;
    impmem_cuda_malloc_options fixed = IMPMEM_CUDA_MALLOC_OPTIONS_INIT;
    fixed.capacity_bytes = options->capacity_bytes;
    impmem_error other = IMPMEM_ERROR_INIT;
    st = impmem_cuda_malloc_backend_create(device, &fixed, out, &other);
    if (st) {
        if (why) *why = other;
        return st;
    }
    *out_growable = false;
    return IMPMEM_OK;
}

/* ---- what only this backend can -------------------------------------------------------------------------------------- */

static impmem__vmm *vmm_of(const impmem_backend *backend)
{
    return backend && backend->ops.commit == commit ? backend->self : NULL;
}

impmem_status impmem_cuda_vmm_query(const impmem_backend *backend, impmem_cuda_vmm_stats *out)
{
    if (!backend || !out) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem__vmm *vmm = vmm_of(backend);
    if (!vmm) return IMPMEM_ERR_FOREIGN;
    (void)pthread_mutex_lock(&vmm->lock);
    *out = vmm->stats;
    (void)pthread_mutex_unlock(&vmm->lock);
    return IMPMEM_OK;
}

impmem_status impmem_cuda_vmm_trim(impmem_backend *backend, uint64_t keep_bytes)
{
    if (!backend) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem__vmm *vmm = vmm_of(backend);
    if (!vmm) return IMPMEM_ERR_FOREIGN;
    (void)pthread_mutex_lock(&vmm->lock);
    int code = impmem__enter_device(vmm->device);
    if (!code) {
        impmem__vmm_drop_kept(vmm, keep_bytes);
        impmem__leave_device(vmm->device);
    }
    (void)pthread_mutex_unlock(&vmm->lock);
    return impmem__code_status(code, IMPMEM_ERR_DRIVER);
}

static impmem_status export_locked(impmem__vmm *vmm, const impmem_region *region, uint64_t offset, int *out,
                                   impmem_error *why)
{
    impmem__vmm_region *r = find_region(vmm, region->base);
    uint64_t chunk = offset / vmm->chunk_bytes;
    if (!r || offset >= r->bytes || !r->mapped[chunk])
        return impmem__error_set(why, IMPMEM_ERR_STATE, SUBJECT, "nothing is committed at offset %llu",
                                 (unsigned long long)offset);
    impmem__vmm_descriptor *slot = NULL;
    for (uint32_t i = 0; i < IMPMEM__VMM_DESCRIPTORS && !slot; i++) {
        if (!vmm->descriptor[i].open) slot = &vmm->descriptor[i];
    }
    if (!slot)
        return impmem__error_set(why, IMPMEM_ERR_EXHAUSTED, SUBJECT, "%u descriptors are open", IMPMEM__VMM_DESCRIPTORS);
    int code = impmem__enter_device(vmm->device);
    if (!code) {
        code = impmem__ask(&vmm->device->driver, chunk_export, &slot->descriptor, r->handle[chunk]);
        impmem__leave_device(vmm->device);
    }
    if (code) return impmem__code_error(why, code, IMPMEM_ERR_DRIVER, "exporting a chunk");
    slot->open = true;
    slot->base = r->base;
    slot->chunk = chunk;
    vmm->stats.live_descriptors++;
    *out = slot->descriptor;
    return IMPMEM_OK;
}

impmem_status impmem_cuda_export(impmem_region *region, uint64_t offset, int *out_descriptor, impmem_error *why)
{
    if (!region || !out_descriptor)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "no region, or no place for the descriptor");
    impmem__vmm *vmm = vmm_of(region->backend);
    if (!vmm || !vmm->exportable) {
        impmem_status st = impmem__error_set(why, IMPMEM_ERR_UNSUPPORTED, region->backend->properties.name,
                                             "memory of this backend can't be exported as file descriptors");
        impmem__error_hint(why, "open the region on a virtual-memory backend with `exportable`");
        return st;
    }
    (void)pthread_mutex_lock(&vmm->lock);
    impmem_status st = export_locked(vmm, region, offset, out_descriptor, why);
    (void)pthread_mutex_unlock(&vmm->lock);
    return st;
}

impmem_status impmem_cuda_export_close(impmem_region *region, int descriptor)
{
    if (!region) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem__vmm *vmm = vmm_of(region->backend);
    if (!vmm) return IMPMEM_ERR_NOT_FOUND;
    impmem_status st = IMPMEM_ERR_NOT_FOUND;
    (void)pthread_mutex_lock(&vmm->lock);
    for (uint32_t i = 0; i < IMPMEM__VMM_DESCRIPTORS && st; i++) {
        impmem__vmm_descriptor *d = &vmm->descriptor[i];
        if (!d->open || d->descriptor != descriptor || d->base != region->base) continue;
        int ignored = impmem__ask(&vmm->device->driver, descriptor_close, descriptor);
        (void)ignored;
        d->open = false;
        vmm->stats.live_descriptors--;
        st = IMPMEM_OK;
    }
    (void)pthread_mutex_unlock(&vmm->lock);
    return st;
}
