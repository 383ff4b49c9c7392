/* A device: its context, its facts, and the calls made through it. */
#include <string.h>

#include "cuda/internal.h"
#include "impmem/control.h"

/* ---- reaching the driver --------------------------------------------------------------------------------------------- */

int impmem__enter_device(impmem_cuda_device *device)
{
    return impmem__ask(&device->driver, context_push, device->context);
}

void impmem__leave_device(impmem_cuda_device *device)
{
    void *popped;
    int ignored = impmem__ask(&device->driver, context_pop, &popped);
    (void)ignored;
}

void impmem__swallow(impmem_cuda_device *device)
{
    int code;
    int ignored = impmem__ask(&device->driver, last_error, &code);
    (void)ignored;
}

/* ---- host memory ----------------------------------------------------------------------------------------------------- */

static impmem_line_id control_line(impmem_line_id line)
{
    return line ? line : IMPMEM_LINE_HOST_CONTROL;
}

impmem_status impmem__cuda_take_host(impmem_ledger *ledger, impmem_line_id line, uint64_t bytes, void **out,
                                     impmem_error *why)
{
    return impmem_ledger_host_allocate(ledger, control_line(line), IMPMEM_TAG_HOST_CONTROL, bytes, out, why);
}

void impmem__cuda_give_host(impmem_ledger *ledger, impmem_line_id line, void *memory, uint64_t bytes)
{
    impmem_ledger_host_free(ledger, control_line(line), IMPMEM_TAG_HOST_CONTROL, memory, bytes);
}

impmem_status impmem__cap_error(const impmem__cap *cap, impmem_status st, const char *subject, uint64_t bytes,
                                impmem_error *why)
{
    uint64_t held = atomic_load_explicit(&cap->held, memory_order_relaxed);
    uint64_t left = held < cap->most ? cap->most - held : 0;
    impmem__error_set(why, st, subject, "%llu bytes asked, %llu are left of the backend's %llu", (unsigned long long)bytes,
                      (unsigned long long)left, (unsigned long long)cap->most);
    impmem__error_bytes(why, bytes, left);
    return st;
}

/* ---- opening --------------------------------------------------------------------------------------------------------- */

static impmem_status count_devices(impmem__driver *driver, int *out, impmem_error *why)
{
    int n = 0;
    int code = impmem__ask(driver, device_count, &n);
    if (code) {
        int taken;
        int ignored = impmem__ask(driver, last_error, &taken);
        (void)ignored;
        return impmem__code_error(why, code, IMPMEM_ERR_DRIVER, "counting devices");
    }
    if (n <= 0) return impmem__error_set(why, IMPMEM_ERR_NO_DEVICE, "CUDA", "there is a driver but no device");
    *out = n;
    return IMPMEM_OK;
}

impmem_status impmem_cuda_device_count(uint32_t *out, impmem_error *why)
{
    if (!out) return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "CUDA", "no place for the result");
    impmem__driver driver;
    memset(&driver, 0, sizeof driver);
    int n = 0;
    impmem_status st = impmem__driver_fill(&driver, why);
    if (!st) st = count_devices(&driver, &n, why);
    impmem__driver_empty(&driver);
    if (!st) *out = (uint32_t)n;
    return st;
}

static bool attribute(impmem_cuda_device *device, int which, int *out)
{
    *out = 0;
    return impmem__ask(&device->driver, device_attribute, out, which, device->ordinal) == IMPMEM__CODE_OK;
}

static void write_identity(const unsigned char identity[16], char out[40])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < 16; i++) {
        out[2 * i] = digits[identity[i] >> 4];
        out[2 * i + 1] = digits[identity[i] & 15];
    }
    out[32] = '\0';
}

/* What must be known of a device; what may be missing reads as "no". */
static impmem_status read_facts(impmem_cuda_device *device, impmem_error *why)
{
    impmem__driver *d = &device->driver;
    impmem_cuda_facts *f = &device->facts;
    int major = 0, minor = 0, flag = 0, driver_version = 0, runtime_version = 0;
    f->ordinal = device->ordinal;
    int code = impmem__ask(d, driver_version, &driver_version);
    if (!code) code = impmem__ask(d, runtime_version, &runtime_version);
    if (!code) code = impmem__ask(d, device_name, f->name, (int)sizeof f->name, device->ordinal);
    if (!code) code = impmem__ask(d, device_identity, device->identity, device->ordinal);
    if (!code) code = impmem__ask(d, device_total, &f->total_bytes, device->ordinal);
    if (code) {
        impmem__swallow(device);
        return impmem__code_error(why, code, IMPMEM_ERR_DRIVER, "reading the device's facts");
    }
    f->driver_version = driver_version;
    f->runtime_version = runtime_version;
    f->name[sizeof f->name - 1] = '\0';
    write_identity(device->identity, f->identity);
    if (attribute(device, IMPMEM__ATTRIBUTE_COMPUTE_MAJOR, &major)) f->compute_major = (uint32_t)major;
    if (attribute(device, IMPMEM__ATTRIBUTE_COMPUTE_MINOR, &minor)) f->compute_minor = (uint32_t)minor;
    f->integrated = attribute(device, IMPMEM__ATTRIBUTE_INTEGRATED, &flag) && flag;
    f->read_only_registration = attribute(device, IMPMEM__ATTRIBUTE_READ_ONLY_REGISTER, &flag) && flag;
    bool supported = attribute(device, IMPMEM__ATTRIBUTE_VIRTUAL_MEMORY, &flag) && flag;
    bool complete = d->granularity && d->address_reserve && d->address_free && d->chunk_create && d->chunk_release &&
                    d->chunk_map && d->chunk_unmap && d->set_access;
    f->virtual_memory = supported && complete;
    f->exportable = f->virtual_memory && d->chunk_export && d->descriptor_close &&
                    attribute(device, IMPMEM__ATTRIBUTE_EXPORT_DESCRIPTOR, &flag) && flag;
    return IMPMEM_OK;
}

/* Virtual memory without a granule that makes sense is no virtual memory. */
static void read_granules(impmem_cuda_device *device)
{
    impmem_cuda_facts *f = &device->facts;
    if (!f->virtual_memory) return;
    impmem__chunk_place place = {device->ordinal, -1, 0};
    uint64_t least = 0, best = 0;
    int code = impmem__ask(&device->driver, granularity, &least, &place, 0);
    if (!code) code = impmem__ask(&device->driver, granularity, &best, &place, 1);
    if (code || least < 256 || (least & (least - 1))) {
        f->virtual_memory = false;
        f->exportable = false;
        return;
    }
    f->granule_bytes = least;
    f->granule_recommended_bytes = best > least ? best : least;
}

/* Retains the context between two readings of the device's used bytes: what it rose by is the context. The first reading
 * must not create one, so it comes from the management library; without that, context and neighbours can't be told
 * apart. */
static impmem_status retain_context(impmem_cuda_device *device, impmem_error *why)
{
    impmem__driver *d = &device->driver;
    uint64_t before = 0, others = 0, free_bytes = 0, total = 0;
    int active = 1;
    bool known = impmem__ask(d, context_active, &active, device->ordinal) == IMPMEM__CODE_OK && !active &&
                 impmem__ask(d, managed_memory, device->identity, &before, &others) == IMPMEM__CODE_OK;
    int code = impmem__ask(d, context_retain, &device->context, device->ordinal);
    if (code) {
        device->context = NULL;
        return impmem__code_error(why, code, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, "retaining the device's context");
    }
    code = impmem__enter_device(device);
    if (code) return impmem__code_error(why, code, IMPMEM_ERR_DRIVER, "making the device's context current");
    read_granules(device);
    code = impmem__ask(d, memory_info, &free_bytes, &total);
    if (code) impmem__swallow(device);
    impmem__leave_device(device);
    /* A reading that can't be true is refused when it is asked for; here it only measures nothing. */
    bool sane = !code && total > 0 && free_bytes <= total &&
                (!device->facts.total_bytes || total <= device->facts.total_bytes);
    uint64_t used = sane ? total - free_bytes : 0;
    device->context_measured = known && sane && used >= before;
    device->neighbours_bytes = device->context_measured ? before : used;
    device->context_bytes = device->context_measured ? used - before : 0;
    return IMPMEM_OK;
}

static void destroy_device(impmem_cuda_device *device)
{
    if (!device) return;
    if (device->context) {
        int ignored = impmem__ask(&device->driver, context_release, device->ordinal);
        (void)ignored;
    }
    impmem__driver_empty(&device->driver);
    if (device->has_lock) (void)pthread_mutex_destroy(&device->lock);
    impmem__cuda_give_host(device->ledger, device->control_line, device, sizeof *device);
}

static impmem_status open_context(impmem_cuda_device *device, impmem_error *why)
{
    int n = 0;
    impmem_status st = count_devices(&device->driver, &n, why);
    if (st) return st;
    if (device->ordinal < 0 || device->ordinal >= n)
        return impmem__error_set(why, IMPMEM_ERR_NO_DEVICE, "CUDA", "device %d asked; there are %d, counted from 0",
                                 device->ordinal, n);
    const impmem__driver *d = &device->driver;
    if (!d->context_retain || !d->context_release || !d->context_push || !d->context_pop || !d->memory_info)
        return impmem__error_set(why, IMPMEM_ERR_UNSUPPORTED, "CUDA", "the driver lacks %s",
                                 d->missing[0] ? d->missing : "a function");
    st = read_facts(device, why);
    return st ? st : retain_context(device, why);
}

impmem_status impmem__cuda_device_open(impmem_ledger *ledger, const impmem_cuda_device_options *options,
                                       const impmem__driver *table, impmem_cuda_device **out, impmem_error *why)
{
    const impmem_cuda_device_options defaults = IMPMEM_CUDA_DEVICE_OPTIONS_INIT;
    if (!options) options = &defaults;
    if (!ledger || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "CUDA", "no ledger, or no place for the result");
    impmem_status st = impmem__options_check(options->size, options->version, sizeof *options, 1);
    if (st)
        return impmem__error_set(why, st, "device options", "size %u or version %u is not one of this library",
                                 options->size, options->version);
    void *memory = NULL;
    st = impmem__cuda_take_host(ledger, options->control_line, sizeof(impmem_cuda_device), &memory, why);
    if (st) return st;
    impmem_cuda_device *device = memory;
    device->ledger = ledger;
    device->control_line = options->control_line;
    device->ordinal = options->ordinal;
    device->has_lock = pthread_mutex_init(&device->lock, NULL) == 0;
    if (!device->has_lock) st = impmem__error_set(why, IMPMEM_ERR_OUT_OF_HOST_MEMORY, "CUDA", "no mutex for the device");
    if (!st && table) memcpy(&device->driver, table, sizeof *table);
    else if (!st) st = impmem__driver_fill(&device->driver, why);
    if (!st) st = open_context(device, why);
    if (st) {
        destroy_device(device);
        return st;
    }
    *out = device;
    return IMPMEM_OK;
}

impmem_status impmem_cuda_device_open(impmem_ledger *ledger, const impmem_cuda_device_options *options,
                                      impmem_cuda_device **out, impmem_error *why)
{
    return impmem__cuda_device_open(ledger, options, NULL, out, why);
}

impmem_status impmem_cuda_device_close(impmem_cuda_device **slot, impmem_error *why)
{
    if (!slot || !*slot) return IMPMEM_OK;
    impmem_cuda_device *device = *slot;
    uint32_t users = atomic_load_explicit(&device->users, memory_order_acquire);
    uint32_t registrations = 0;
    (void)pthread_mutex_lock(&device->lock);
    for (uint32_t i = 0; i < IMPMEM__CUDA_REGISTRATIONS; i++) registrations += device->registration[i].number != 0;
    (void)pthread_mutex_unlock(&device->lock);
    if (users || registrations)
        return impmem__error_set(why, IMPMEM_ERR_LIVE_HOLDERS, device->facts.name,
                                 "%u backends or queues and %u registrations of the device are still open", users,
                                 registrations);
    destroy_device(device);
    *slot = NULL;
    return IMPMEM_OK;
}

/* ---- queries --------------------------------------------------------------------------------------------------------- */

void impmem_cuda_device_facts(const impmem_cuda_device *device, impmem_cuda_facts *out)
{
    if (!out) return;
    memset(out, 0, sizeof *out);
    if (device) *out = device->facts;
}

void impmem_cuda_device_calls(const impmem_cuda_device *device, impmem_cuda_calls *out)
{
    if (!out) return;
    memset(out, 0, sizeof *out);
    if (!device) return;
    uint64_t sum[IMPMEM__N_KINDS] = {0};
    for (int i = 0; i < IMPMEM__N_CALLS; i++)
        sum[impmem__call_kind_of((impmem__call)i)] += atomic_load_explicit(&device->driver.calls[i], memory_order_relaxed);
    out->acquire = sum[IMPMEM__KIND_ACQUIRE];
    out->map = sum[IMPMEM__KIND_MAP];
    out->give_back = sum[IMPMEM__KIND_GIVE_BACK];
    out->other = sum[IMPMEM__KIND_OTHER];
}

impmem_status impmem__read_memory(impmem_cuda_device *device, uint64_t *out_free, uint64_t *out_total, impmem_error *why)
{
    uint64_t free_bytes = 0, total = 0;
    int code = impmem__enter_device(device);
    if (code) return impmem__code_error(why, code, IMPMEM_ERR_DRIVER, "making the device's context current");
    code = impmem__ask(&device->driver, memory_info, &free_bytes, &total);
    if (code) impmem__swallow(device);
    impmem__leave_device(device);
    if (code) return impmem__code_error(why, code, IMPMEM_ERR_DRIVER, "reading free and total memory");
    if (total == 0)
        return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, "cudaMemGetInfo", "the device says that it has 0 bytes in all");
    if (free_bytes > total)
        return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, "cudaMemGetInfo",
                                 "the device says that %llu of %llu bytes are free", (unsigned long long)free_bytes,
                                 (unsigned long long)total);
    if (device->facts.total_bytes && total > device->facts.total_bytes)
        return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, "cudaMemGetInfo",
                                 "the reading is of %llu bytes, the device or its partition has %llu",
                                 (unsigned long long)total, (unsigned long long)device->facts.total_bytes);
    *out_free = free_bytes;
    *out_total = total;
    return IMPMEM_OK;
}

impmem_status impmem_cuda_memory(impmem_cuda_device *device, uint64_t *out_free, uint64_t *out_total, impmem_error *why)
{
    if (!device || !out_free || !out_total)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "CUDA", "no device, or no place for the result");
    return impmem__read_memory(device, out_free, out_total, why);
}

/* ---- sizes ----------------------------------------------------------------------------------------------------------- */

impmem_status impmem_cuda_control_bytes(const impmem_cuda_control *what, uint64_t *out_bytes)
{
    if (!what || !out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint64_t sum = sizeof(impmem_cuda_device), part = 0, larger = 0;
    impmem_status st = IMPMEM_OK;
    if (what->chunk_bytes) {
        /* One region of all bytes and n - 1 of one more chunk each: no split of the reservations can need more. */
        uint64_t extra = what->n_regions;
        st = impmem_mul(&extra, extra, what->chunk_bytes);
        if (!st) st = impmem_add(&extra, extra, what->reserved_bytes);
        if (!st) st = impmem__vmm_region_bytes(extra, what->chunk_bytes, &part);
        if (!st) st = impmem__vmm_region_bytes(what->chunk_bytes, what->chunk_bytes, &larger);
        if (!st) st = impmem_mul(&larger, larger, what->n_regions);
        if (!st) st = impmem_add(&part, part, larger);
        if (!st) st = impmem_add(&part, part, impmem__vmm_backend_bytes());
        if (!st) st = impmem_add(&sum, sum, part);
    }
    uint64_t plain = impmem__malloc_backend_bytes(), pinned = impmem__pinned_backend_bytes();
    if (!st) st = impmem_mul(&part, what->n_plain, plain > pinned ? plain : pinned);
    if (!st) st = impmem_add(&sum, sum, part);
    uint64_t each = impmem__cuda_queue_bytes() + impmem__pinned_backend_bytes();
    if (!st) st = impmem_mul(&part, what->n_queues, each);
    if (!st) st = impmem_add(&sum, sum, part);
    if (!st) *out_bytes = sum;
    return st;
}
