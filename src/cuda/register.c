/* Page-locking of memory that somebody else allocated: a small table of who holds which range, so that none is locked
 * twice. */
#include "cuda/internal.h"

static impmem__registration *find(impmem_host_registration handle)
{
    if (!handle.device_ || !handle.number_) return NULL;
    for (uint32_t i = 0; i < IMPMEM__CUDA_REGISTRATIONS; i++) {
        if (handle.device_->registration[i].number == handle.number_) return &handle.device_->registration[i];
    }
    return NULL;
}

/* With the lock held. A free slot, or NULL with the reason. */
static impmem__registration *place_for(impmem_cuda_device *device, const void *memory, uint64_t bytes,
                                       const impmem_registration_options *o, impmem_status *out_status, impmem_error *why)
{
    impmem__registration *slot = NULL;
    uintptr_t begin = (uintptr_t)memory;
    for (uint32_t i = 0; i < IMPMEM__CUDA_REGISTRATIONS; i++) {
        impmem__registration *r = &device->registration[i];
        uintptr_t at = (uintptr_t)r->memory;
        if (r->number == 0) {
            if (!slot) slot = r;
        } else if (begin < at + r->bytes && at < begin + bytes) {
            *out_status = impmem__error_set(why, IMPMEM_ERR_BUSY, "host registration",
                                            "%llu bytes at %p overlap a registration of %llu bytes at %p",
                                            (unsigned long long)bytes, memory, (unsigned long long)r->bytes, r->memory);
            return NULL;
        }
    }
    uint64_t after = 0;
    if (o->cap_bytes && (impmem_add(&after, device->registered_bytes, bytes) || after > o->cap_bytes)) {
        uint64_t left = device->registered_bytes < o->cap_bytes ? o->cap_bytes - device->registered_bytes : 0;
        *out_status = impmem__error_set(why, IMPMEM_ERR_OUT_OF_PINNED_MEMORY, "host registration",
                                        "%llu bytes asked, %llu are left of the cap of %llu", (unsigned long long)bytes,
                                        (unsigned long long)left, (unsigned long long)o->cap_bytes);
        impmem__error_bytes(why, bytes, left);
        return NULL;
    }
    if (!slot)
        *out_status = impmem__error_set(why, IMPMEM_ERR_EXHAUSTED, "host registration", "%u ranges are registered",
                                        IMPMEM__CUDA_REGISTRATIONS);
    return slot;
}

static int attempt(impmem_cuda_device *device, void *memory, uint64_t bytes, unsigned flags)
{
    int code = impmem__enter_device(device);
    if (code) return code;
    code = impmem__ask(&device->driver, host_register, memory, bytes, flags);
    if (code) impmem__swallow(device);
    impmem__leave_device(device);
    return code;
}

/* Read-only where that is asked and the device can, else plain. Fills mode and codes. */
static int lock_pages(impmem_cuda_device *device, const impmem_registration_options *o, impmem__registration *r)
{
    int code = IMPMEM__CODE_NOT_SUPPORTED;
    if (o->read_only && device->facts.read_only_registration) {
        code = attempt(device, r->memory, r->bytes, IMPMEM__HOST_PORTABLE | IMPMEM__REGISTER_READ_ONLY);
        r->codes[0] = code;
        if (!code) {
            r->mode = IMPMEM_REGISTRATION_READ_ONLY;
            return code;
        }
        if (code == IMPMEM__CODE_REGISTERED_ALREADY) return code;
    }
    code = attempt(device, r->memory, r->bytes, IMPMEM__HOST_PORTABLE);
    r->codes[1] = code;
    r->mode = code ? IMPMEM_REGISTRATION_PAGEABLE : IMPMEM_REGISTRATION_WRITABLE;
    return code;
}

/* The driver knows the range although this device's table does not: somebody else of the process holds it. */
static impmem_status refused(impmem_error *why, int code, uint64_t bytes)
{
    impmem_status st = IMPMEM_ERR_OUT_OF_PINNED_MEMORY;
    if (code == IMPMEM__CODE_REGISTERED_ALREADY) st = IMPMEM_ERR_BUSY;
    else if (impmem__code_status(code, st) == IMPMEM_ERR_CAPTURING) st = IMPMEM_ERR_CAPTURING;
    impmem__error_set(why, st, "host registration", "the driver refused to page-lock %llu bytes (code %d)",
                      (unsigned long long)bytes, code);
    impmem__error_driver(why, code);
    impmem__error_bytes(why, bytes, 0);
    return st;
}

static impmem_status register_locked(impmem_cuda_device *device, void *memory, uint64_t bytes,
                                     const impmem_registration_options *o, impmem_host_registration *out, impmem_error *why)
{
    impmem_status st = IMPMEM_OK;
    impmem__registration *slot = place_for(device, memory, bytes, o, &st, why);
    if (!slot) return st;
    impmem__registration r = {0, memory, bytes, 0, o->line, IMPMEM_REGISTRATION_NONE, {0, 0}};
    if (o->line != IMPMEM_NO_LINE) {
        st = impmem_ledger_charge(device->ledger, o->line, bytes, why);
        if (st) return st;
        r.charged = bytes;
    }
    int code = lock_pages(device, o, &r);
    bool degrades = code && o->or_pageable && refused(NULL, code, bytes) == IMPMEM_ERR_OUT_OF_PINNED_MEMORY;
    if (code && r.charged) {
        impmem_status ignored = impmem_ledger_uncharge(device->ledger, r.line, r.charged);
        (void)ignored;
        r.charged = 0;
    }
    if (code && !degrades) return refused(why, code, bytes);
    if (degrades) impmem__ledger_pinned_degradation_add(device->ledger);
    else device->registered_bytes += bytes;
    r.number = ++device->last_registration;
    *slot = r;
    out->device_ = device;
    out->number_ = r.number;
    return IMPMEM_OK;
}

impmem_status impmem_cuda_register(impmem_cuda_device *device, void *memory, uint64_t bytes,
                                   const impmem_registration_options *options, impmem_host_registration *out,
                                   impmem_error *why)
{
    const impmem_registration_options defaults = IMPMEM_REGISTRATION_OPTIONS_INIT;
    if (!options) options = &defaults;
    if (!device || !memory || !bytes || !out || bytes > UINTPTR_MAX - (uintptr_t)memory)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "host registration",
                                 "no device, no memory, a range past the end of memory, or no place for the result");
    impmem_status st = impmem__options_check(options->size, options->version, sizeof *options, 1);
    if (st)
        return impmem__error_set(why, st, "registration options", "size %u or version %u is not one of this library",
                                 options->size, options->version);
    impmem_registration_options o = *options;
    if (o.size == 0) o.line = IMPMEM_NO_LINE;
    (void)pthread_mutex_lock(&device->lock);
    st = register_locked(device, memory, bytes, &o, out, why);
    (void)pthread_mutex_unlock(&device->lock);
    return st;
}

static impmem_status unregister_locked(impmem_host_registration handle, impmem_error *why)
{
    impmem_cuda_device *device = handle.device_;
    impmem__registration *r = find(handle);
    if (!r) return impmem__error_set(why, IMPMEM_ERR_STALE, "host registration", "it was closed before");
    if (r->mode != IMPMEM_REGISTRATION_PAGEABLE) {
        int code = impmem__enter_device(device);
        if (!code) {
            code = impmem__ask(&device->driver, host_unregister, r->memory);
            if (code) impmem__swallow(device);
            impmem__leave_device(device);
        }
        if (code) return impmem__code_error(why, code, IMPMEM_ERR_DRIVER, "unregistering host memory");
        device->registered_bytes -= r->bytes;
    }
    if (r->charged) {
        impmem_status ignored = impmem_ledger_uncharge(device->ledger, r->line, r->charged);
        (void)ignored;
    }
    r->number = 0;
    return IMPMEM_OK;
}

impmem_status impmem_cuda_unregister(impmem_host_registration *registration, impmem_error *why)
{
    if (!registration) return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "host registration", "no handle");
    if (!registration->device_ && !registration->number_) return IMPMEM_OK;
    impmem_cuda_device *device = registration->device_;
    if (!device) return impmem__error_set(why, IMPMEM_ERR_STALE, "host registration", "the handle names no device");
    (void)pthread_mutex_lock(&device->lock);
    impmem_status st = unregister_locked(*registration, why);
    (void)pthread_mutex_unlock(&device->lock);
    if (!st) *registration = (impmem_host_registration)IMPMEM_HOST_REGISTRATION_NONE;
    return st;
}

impmem_registration_mode impmem_cuda_registration_mode(impmem_host_registration registration)
{
    if (!registration.device_) return IMPMEM_REGISTRATION_NONE;
    (void)pthread_mutex_lock(&registration.device_->lock);
    const impmem__registration *r = find(registration);
    impmem_registration_mode mode = r ? r->mode : IMPMEM_REGISTRATION_NONE;
    (void)pthread_mutex_unlock(&registration.device_->lock);
    return mode;
}

impmem_status impmem_cuda_registration_codes(impmem_host_registration registration, int64_t out_codes[2])
{
    if (!out_codes) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (!registration.device_) return IMPMEM_ERR_STALE;
    (void)pthread_mutex_lock(&registration.device_->lock);
    const impmem__registration *r = find(registration);
    if (r) {
        out_codes[0] = r->codes[0];
        out_codes[1] = r->codes[1];
    }
    (void)pthread_mutex_unlock(&registration.device_->lock);
    return r ? IMPMEM_OK : IMPMEM_ERR_STALE;
}
