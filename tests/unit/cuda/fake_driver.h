/* fake_driver.h - a driver made of tables, for tests of the room: it keeps what a real one would keep, over host memory,
 * notes every breach of the driver's rules, and fails any call on demand.
 *
 * A device is a budget of bytes. Device memory is host memory; streams run at once, or not at all while `stalled`. */
#ifndef TEST_CUDA_FAKE_DRIVER_H
#define TEST_CUDA_FAKE_DRIVER_H

#include "fake_memory.h"
#include "fake_work.h"

/* ---- devices --------------------------------------------------------------------------------------------------------- */

static int f_device_count(impmem__driver *d, int *out)
{
    FAKE_ENTER(device_count, NULL, 0);
    *out = f->devices;
    return 0;
}
static int f_driver_version(impmem__driver *d, int *out)
{
    FAKE_ENTER(driver_version, NULL, 0);
    *out = 13000;
    return 0;
}
static int f_runtime_version(impmem__driver *d, int *out)
{
    FAKE_ENTER(runtime_version, NULL, 0);
    *out = 13000;
    return 0;
}
static int f_last_error(impmem__driver *d, int *out)
{
    FAKE_ENTER(last_error, NULL, 0);
    *out = f->last_error;
    f->last_error = 0;
    return 0;
}
static int f_device_attribute(impmem__driver *d, int *out, int attribute, int device)
{
    FAKE_ENTER(device_attribute, NULL, 0);
    (void)device;
    *out = attribute == IMPMEM__ATTRIBUTE_COMPUTE_MAJOR ? 9 : attribute == IMPMEM__ATTRIBUTE_COMPUTE_MINOR ? 0 : 1;
    if (attribute == IMPMEM__ATTRIBUTE_INTEGRATED || attribute == f->attribute_off) *out = 0;
    return 0;
}
static int f_device_name(impmem__driver *d, char *out, int bytes, int device)
{
    FAKE_ENTER(device_name, NULL, 0);
    snprintf(out, (size_t)bytes, "test device %d", device);
    return 0;
}
static int f_device_identity(impmem__driver *d, unsigned char out[16], int device)
{
    FAKE_ENTER(device_identity, NULL, 0);
    memset(out, 0xa0 + device, 16);
    return 0;
}
static int f_device_total(impmem__driver *d, uint64_t *out, int device)
{
    FAKE_ENTER(device_total, NULL, 0);
    (void)device;
    *out = f->device_total ? f->device_total : f->capacity;
    return 0;
}
static int f_context_active(impmem__driver *d, int *out, int device)
{
    FAKE_ENTER(context_active, NULL, 0);
    *out = f->contexts[device] > 0;
    return 0;
}
static int f_context_retain(impmem__driver *d, void **out, int device)
{
    FAKE_ENTER(context_retain, NULL, 0);
    f->contexts[device]++;
    *out = &f->contexts[device];
    return 0;
}
static int f_context_release(impmem__driver *d, int device)
{
    FAKE_ENTER(context_release, NULL, 0);
    if (f->contexts[device] == 0) fake_breach(f, "released a context that is not retained");
    else f->contexts[device]--;
    return 0;
}
static int f_context_push(impmem__driver *d, void *context)
{
    FAKE_ENTER(context_push, NULL, 0);
    if (!context) fake_breach(f, "pushed no context");
    f->depth++;
    return 0;
}
static int f_context_pop(impmem__driver *d, void **out)
{
    FAKE_ENTER(context_pop, NULL, 0);
    *out = NULL;
    if (f->depth == 0) fake_breach(f, "popped a context that was not pushed");
    else f->depth--;
    return 0;
}
static int f_memory_info(impmem__driver *d, uint64_t *out_free, uint64_t *out_total)
{
    FAKE_ENTER(memory_info, NULL, 0);
    if (f->depth == 0) fake_breach(f, "read memory of no device");
    *out_total = f->reported_total ? f->reported_total - 1 : f->capacity;
    *out_free = f->reported_free ? f->reported_free : f->capacity - fake_used(f);
    return 0;
}
static int f_managed_memory(impmem__driver *d, const unsigned char identity[16], uint64_t *out_used, uint64_t *out_others)
{
    FAKE_ENTER(managed_memory, NULL, 0);
    (void)identity;
    *out_used = fake_used(f);
    *out_others = f->unseen;
    return 0;
}

/* ---- outside --------------------------------------------------------------------------------------------------------- */

static void fake_reset(fake_driver *f)
{
    memset(f, 0, sizeof *f);
    pthread_mutexattr_t again;
    (void)pthread_mutexattr_init(&again);
    (void)pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
    (void)pthread_mutex_init(&f->lock, &again);
    (void)pthread_mutexattr_destroy(&again);
    f->capacity = 1024 * IMPMEM_MIB;
    f->address_space = 4096 * IMPMEM_MIB;
    f->granule = 64 * IMPMEM_KIB; /* small, so that tests are */
    f->devices = FAKE_DEVICES;
    f->attribute_off = -1;
    f->context_bytes = 100 * IMPMEM_MIB;
    f->fail_code = 999;
    impmem__driver *t = &f->table;
    t->library = f;
#define SET(name) t->name = f_##name
    SET(device_count);
    SET(driver_version);
    SET(runtime_version);
    SET(last_error);
    SET(device_attribute);
    SET(device_name);
    SET(device_identity);
    SET(device_total);
    SET(context_active);
    SET(context_retain);
    SET(context_release);
    SET(context_push);
    SET(context_pop);
    SET(memory_info);
    SET(managed_memory);
    SET(malloc);
    SET(free);
    SET(host_alloc);
    SET(host_free);
    SET(host_register);
    SET(host_unregister);
    SET(host_address);
    SET(granularity);
    SET(address_reserve);
    SET(address_free);
    SET(chunk_create);
    SET(chunk_release);
    SET(chunk_map);
    SET(chunk_unmap);
    SET(set_access);
    SET(get_access);
    SET(chunk_export);
    SET(descriptor_close);
    SET(stream_create);
    SET(stream_destroy);
    SET(stream_wait_host);
    SET(stream_query);
    SET(stream_write);
    SET(stream_wait_value);
    SET(fill_async);
    SET(copy_async);
    SET(copy_batch);
    SET(module_load);
    SET(module_unload);
    SET(module_function);
    SET(launch);
    SET(event_create);
    SET(event_destroy);
    SET(event_record);
    SET(event_elapsed);
    SET(nvtx_heap);
    SET(nvtx_heap_end);
    SET(nvtx_take);
    SET(nvtx_drop);
#undef SET
}

#endif
