/* fake_driver.h - a driver made of tables, for tests of the room: it keeps what a real one would keep, over host memory,
 * notes every breach of the driver's rules, and fails any call on demand.
 *
 * A device is a budget of bytes. Device memory is host memory; streams run at once, or not at all while `stalled`. */
#ifndef TEST_CUDA_FAKE_DRIVER_H
#define TEST_CUDA_FAKE_DRIVER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/internal.h"

#pragma GCC diagnostic ignored "-Wunused-function" /* each test file uses a part of this */

enum { FAKE_MAX = 512, FAKE_DEVICES = 2, FAKE_LOG = 4096 };

typedef struct fake_event {
    impmem__call call;
    uintptr_t at;
    uint64_t bytes;
} fake_event;

typedef struct fake_chunk {
    uint64_t handle; /* 0 = free */
    uint64_t bytes;
    bool released;
    uintptr_t mapped_at; /* 0 = not mapped */
    unsigned access;     /* bit d: device d; bit 31: the host */
} fake_chunk;

typedef struct fake_range {
    uintptr_t at; /* 0 = free */
    uint64_t bytes;
    void *block; /* what free() takes */
} fake_range;

typedef struct fake_driver {
    impmem__driver table;
    pthread_mutex_t lock;
    /* orders */
    uint64_t fail_nth; /* counted over all calls that can fail, from 1; 0 = none */
    impmem__call fail_call;
    uint64_t fail_call_nth; /* of that function; 0 = none */
    int fail_code;
    bool fail_for_good;
    uint64_t capacity;
    uint64_t address_space;
    uint64_t granule;
    uint64_t device_total, reported_free, reported_total; /* 0: what is true */
    uint64_t unseen;                                      /* bytes that others hold */
    int devices;
    int attribute_off; /* this attribute reads 0; -1 = none */
    bool no_access;    /* granted access reads back as none */
    bool stalled;
    bool tool;               /* annotations are listened to */
    double seconds_per_byte; /* above 0: copies and fills take time and move nothing */
    /* state */
    uint64_t seen, seen_of_call;
    bool sprung;
    int last_error;
    int contexts[FAKE_DEVICES];
    int depth; /* contexts pushed and not popped */
    uint64_t context_bytes;
    uint64_t next_handle;
    fake_chunk chunk[FAKE_MAX];
    fake_range reservation[64], memory[FAKE_MAX], host[64], registered[300];
    int descriptors, streams, events, modules, graphs, heaps, takes;
    uint64_t copied;
    char breach[160]; /* the first broken rule, "" = none */
    fake_event log[FAKE_LOG];
    uint32_t n_log;
} fake_driver;

/* ---- inside ---------------------------------------------------------------------------------------------------------- */

static void fake_breach(fake_driver *f, const char *what)
{
    if (!f->breach[0]) snprintf(f->breach, sizeof f->breach, "%s", what);
}

/* Only functions of the runtime leave their failure in the runtime's last error. */
static bool fake_is_runtime(impmem__call call)
{
    static const impmem__call runtime[] = {
        IMPMEM__CALL_device_count,    IMPMEM__CALL_driver_version,   IMPMEM__CALL_runtime_version,
        IMPMEM__CALL_memory_info,     IMPMEM__CALL_malloc,           IMPMEM__CALL_free,
        IMPMEM__CALL_host_alloc,      IMPMEM__CALL_host_free,        IMPMEM__CALL_host_register,
        IMPMEM__CALL_host_unregister, IMPMEM__CALL_host_address,     IMPMEM__CALL_stream_create,
        IMPMEM__CALL_stream_destroy,  IMPMEM__CALL_stream_wait_host, IMPMEM__CALL_stream_query,
        IMPMEM__CALL_fill_async,      IMPMEM__CALL_copy_async,       IMPMEM__CALL_copy_batch,
        IMPMEM__CALL_event_create,    IMPMEM__CALL_event_destroy,    IMPMEM__CALL_event_record,
        IMPMEM__CALL_event_elapsed};
    for (size_t i = 0; i < sizeof runtime / sizeof runtime[0]; i++)
        if (runtime[i] == call) return true;
    return false;
}

static int fake_enter(fake_driver *f, impmem__call call, const void *at, uint64_t bytes)
{
    (void)pthread_mutex_lock(&f->lock);
    if (f->n_log < FAKE_LOG) f->log[f->n_log++] = (fake_event){call, (uintptr_t)at, bytes};
    bool may_fail = call != IMPMEM__CALL_last_error && call != IMPMEM__CALL_context_pop &&
                    call != IMPMEM__CALL_device_attribute && call != IMPMEM__CALL_context_active &&
                    call != IMPMEM__CALL_managed_memory && call != IMPMEM__CALL_stream_query;
    bool fails = false;
    if (may_fail && f->fail_nth) {
        f->seen++;
        fails = f->seen == f->fail_nth || (f->fail_for_good && f->seen > f->fail_nth);
    }
    if (f->fail_call_nth && call == f->fail_call) {
        f->seen_of_call++;
        fails = f->seen_of_call == f->fail_call_nth || (f->fail_for_good && f->seen_of_call > f->fail_call_nth);
    }
    if (fails) {
        f->sprung = true;
        if (fake_is_runtime(call)) f->last_error = f->fail_code;
    }
    (void)pthread_mutex_unlock(&f->lock);
    return fails ? f->fail_code : 0;
}

static fake_driver *fake_lock(impmem__driver *d)
{
    fake_driver *f = d->library;
    (void)pthread_mutex_lock(&f->lock);
    return f;
}

static void fake_unlock(fake_driver **f)
{
    (void)pthread_mutex_unlock(&(*f)->lock);
}

/* Every function holds the driver's lock to its end, whichever way it leaves. */
#define FAKE_ENTER(name, at, bytes)                                                                                        \
    __attribute__((cleanup(fake_unlock))) fake_driver *f = fake_lock(d);                                                   \
    int code_ = fake_enter(f, IMPMEM__CALL_##name, at, bytes);                                                             \
    if (code_) return code_

static uint64_t fake_used(const fake_driver *f)
{
    uint64_t used = f->unseen;
    for (int i = 0; i < FAKE_MAX; i++) {
        if (f->chunk[i].handle) used += f->chunk[i].bytes;
        if (f->memory[i].at) used += f->memory[i].bytes;
    }
    for (int i = 0; i < FAKE_DEVICES; i++) used += f->contexts[i] ? f->context_bytes : 0;
    return used;
}

static fake_range *fake_find(fake_range *table, int n, uintptr_t at)
{
    for (int i = 0; i < n; i++)
        if (table[i].at == at) return &table[i];
    return NULL;
}

static int fake_error(fake_driver *f, int code)
{
    f->last_error = code;
    return code;
}

static int fake_take(fake_driver *f, fake_range *table, int n, void **out, uint64_t bytes, bool device)
{
    if (device && bytes > f->capacity - fake_used(f)) return fake_error(f, IMPMEM__CODE_OUT_OF_MEMORY);
    fake_range *r = fake_find(table, n, 0);
    void *block = r ? aligned_alloc(2097152, (bytes + 2097151) / 2097152 * 2097152) : NULL;
    if (!block) return fake_error(f, IMPMEM__CODE_OUT_OF_MEMORY);
    *r = (fake_range){(uintptr_t)block, bytes, block};
    *out = block;
    return 0;
}

static int fake_give(fake_driver *f, fake_range *table, int n, const void *at)
{
    fake_range *r = at ? fake_find(table, n, (uintptr_t)at) : NULL;
    if (!r) {
        fake_breach(f, "freed what is not there");
        return fake_error(f, IMPMEM__CODE_INVALID_VALUE);
    }
    free(r->block);
    memset(r, 0, sizeof *r);
    return 0;
}

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

/* ---- memory ---------------------------------------------------------------------------------------------------------- */

static int f_malloc(impmem__driver *d, void **out, uint64_t bytes)
{
    FAKE_ENTER(malloc, NULL, bytes);
    if (f->depth == 0) fake_breach(f, "allocated on no device");
    int code = fake_take(f, f->memory, FAKE_MAX, out, bytes, true);
    return code;
}
static int f_free(impmem__driver *d, void *memory)
{
    FAKE_ENTER(free, memory, 0);
    int code = fake_give(f, f->memory, FAKE_MAX, memory);
    return code;
}
static int f_host_alloc(impmem__driver *d, void **out, uint64_t bytes, unsigned flags)
{
    FAKE_ENTER(host_alloc, NULL, flags);
    int code = fake_take(f, f->host, 64, out, bytes, false);
    return code;
}
static int f_host_free(impmem__driver *d, void *memory)
{
    FAKE_ENTER(host_free, memory, 0);
    int code = fake_give(f, f->host, 64, memory);
    return code;
}
static int f_host_register(impmem__driver *d, void *memory, uint64_t bytes, unsigned flags)
{
    FAKE_ENTER(host_register, memory, flags);
    if (fake_find(f->registered, 300, (uintptr_t)memory)) {
        fake_breach(f, "registered twice");
        return fake_error(f, IMPMEM__CODE_REGISTERED_ALREADY);
    }
    *fake_find(f->registered, 300, 0) = (fake_range){(uintptr_t)memory, bytes, NULL};
    return 0;
}
static int f_host_unregister(impmem__driver *d, void *memory)
{
    FAKE_ENTER(host_unregister, memory, 0);
    return fake_give(f, f->registered, 300, memory);
}
static int f_host_address(impmem__driver *d, void **out, void *host)
{
    FAKE_ENTER(host_address, host, 0);
    *out = host;
    return 0;
}

/* ---- virtual memory -------------------------------------------------------------------------------------------------- */

static int f_granularity(impmem__driver *d, uint64_t *out, const impmem__chunk_place *place, int recommended)
{
    FAKE_ENTER(granularity, NULL, 0);
    (void)place;
    *out = recommended ? f->granule * 2 : f->granule;
    return 0;
}
static int f_address_reserve(impmem__driver *d, void **out, uint64_t bytes, uint64_t alignment)
{
    FAKE_ENTER(address_reserve, NULL, bytes);
    uint64_t held = 0;
    for (int i = 0; i < 64; i++) held += f->reservation[i].bytes;
    if (bytes > f->address_space - held) return IMPMEM__CODE_OUT_OF_MEMORY;
    if (alignment < 4096) alignment = 4096;
    fake_range *r = fake_find(f->reservation, 64, 0);
    void *block = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (!block || !r) return IMPMEM__CODE_OUT_OF_MEMORY;
    *r = (fake_range){(uintptr_t)block, bytes, block};
    *out = block;
    return 0;
}
static int f_address_free(impmem__driver *d, void *base, uint64_t bytes)
{
    FAKE_ENTER(address_free, base, bytes);
    for (int i = 0; i < FAKE_MAX; i++) {
        uintptr_t at = f->chunk[i].mapped_at;
        if (at && at >= (uintptr_t)base && at < (uintptr_t)base + bytes) fake_breach(f, "freed addresses that are mapped");
    }
    return fake_give(f, f->reservation, 64, base);
}
static fake_chunk *fake_chunk_of(fake_driver *f, uint64_t handle)
{
    for (int i = 0; i < FAKE_MAX; i++)
        if (f->chunk[i].handle == handle) return &f->chunk[i];
    return NULL;
}
static void fake_chunk_settle(fake_chunk *c)
{
    if (c->released && !c->mapped_at) memset(c, 0, sizeof *c);
}
static int f_chunk_create(impmem__driver *d, uint64_t *out, uint64_t bytes, const impmem__chunk_place *place)
{
    FAKE_ENTER(chunk_create, NULL, bytes);
    if (bytes % f->granule) fake_breach(f, "a chunk is no multiple of the granule");
    if (place->numa_node < 0 && bytes > f->capacity - fake_used(f)) return IMPMEM__CODE_OUT_OF_MEMORY;
    fake_chunk *c = fake_chunk_of(f, 0);
    if (!c) return IMPMEM__CODE_OUT_OF_MEMORY;
    *c = (fake_chunk){++f->next_handle, bytes, false, 0, 0};
    *out = c->handle;
    return 0;
}
static int f_chunk_release(impmem__driver *d, uint64_t handle)
{
    FAKE_ENTER(chunk_release, (void *)(uintptr_t)handle, 0);
    fake_chunk *c = handle ? fake_chunk_of(f, handle) : NULL;
    if (!c || c->released) {
        fake_breach(f, "released a chunk that is not there");
        return IMPMEM__CODE_INVALID_VALUE;
    }
    c->released = true;
    fake_chunk_settle(c);
    return 0;
}
static int f_chunk_map(impmem__driver *d, void *at, uint64_t bytes, uint64_t handle)
{
    FAKE_ENTER(chunk_map, at, bytes);
    fake_chunk *c = fake_chunk_of(f, handle);
    if (!c || c->mapped_at || c->bytes != bytes) fake_breach(f, "mapped a chunk that is mapped, gone or of another size");
    bool reserved = false;
    for (int i = 0; i < 64; i++) {
        const fake_range *r = &f->reservation[i];
        reserved |= r->at && (uintptr_t)at >= r->at && (uintptr_t)at + bytes <= r->at + r->bytes;
    }
    if (!reserved) fake_breach(f, "mapped outside of a reservation");
    if (c) {
        c->mapped_at = (uintptr_t)at;
        c->access = 0;
    }
    return 0;
}
/* Calls `each` for the chunks that fill the range exactly; false when there are others. */
static bool fake_cover(fake_driver *f, const void *at, uint64_t bytes, fake_chunk **out, uint32_t *n)
{
    uint64_t covered = 0;
    *n = 0;
    for (int i = 0; i < FAKE_MAX; i++) {
        uintptr_t m = f->chunk[i].mapped_at;
        if (!m || m < (uintptr_t)at || m >= (uintptr_t)at + bytes) continue;
        covered += f->chunk[i].bytes;
        out[(*n)++] = &f->chunk[i];
    }
    return covered == bytes;
}
static int f_chunk_unmap(impmem__driver *d, void *at, uint64_t bytes)
{
    FAKE_ENTER(chunk_unmap, at, bytes);
    static fake_chunk *hit[FAKE_MAX];
    uint32_t n;
    if (!fake_cover(f, at, bytes, hit, &n)) {
        fake_breach(f, "unmapped what is not mapped");
        return IMPMEM__CODE_INVALID_VALUE;
    }
    for (uint32_t i = 0; i < n; i++) {
        hit[i]->mapped_at = 0;
        fake_chunk_settle(hit[i]);
    }
    return 0;
}
static int f_set_access(impmem__driver *d, void *at, uint64_t bytes, const int *devices, uint32_t n, int numa_node)
{
    FAKE_ENTER(set_access, at, bytes);
    static fake_chunk *hit[FAKE_MAX];
    uint32_t hits;
    if (!fake_cover(f, at, bytes, hit, &hits)) fake_breach(f, "granted access to what is not mapped");
    for (uint32_t i = 0; i < hits; i++) {
        for (uint32_t k = 0; k < n; k++) hit[i]->access |= 1u << devices[k];
        if (numa_node >= 0) hit[i]->access |= 1u << 31;
    }
    return 0;
}
static int f_get_access(impmem__driver *d, uint64_t *out, void *at, int device)
{
    FAKE_ENTER(get_access, at, 0);
    *out = 0;
    for (int i = 0; i < FAKE_MAX; i++)
        if (f->chunk[i].mapped_at == (uintptr_t)at && f->chunk[i].access & 1u << device && !f->no_access) *out = 3;
    return 0;
}
static int f_chunk_export(impmem__driver *d, int *out, uint64_t handle)
{
    FAKE_ENTER(chunk_export, NULL, handle);
    *out = 1000 + ++f->descriptors;
    return 0;
}
static int f_descriptor_close(impmem__driver *d, int descriptor)
{
    FAKE_ENTER(descriptor_close, NULL, (uint64_t)descriptor);
    if (f->descriptors == 0) fake_breach(f, "closed a descriptor that is not open");
    else f->descriptors--;
    return 0;
}

/* ---- work ------------------------------------------------------------------------------------------------------------ */

static int f_stream_create(impmem__driver *d, void **out)
{
    FAKE_ENTER(stream_create, NULL, 0);
    f->streams++;
    *out = &f->streams;
    return 0;
}
/* Destroying takes the object away whatever it returns: a driver that fails here has nothing left to try again. */
static int f_stream_destroy(impmem__driver *d, void *s)
{
    ((fake_driver *)d->library)->streams--;
    FAKE_ENTER(stream_destroy, s, 0);
    return 0;
}
static int f_stream_wait_host(impmem__driver *d, void *s)
{
    FAKE_ENTER(stream_wait_host, s, 0);
    return 0;
}
static int f_stream_query(impmem__driver *d, void *s)
{
    FAKE_ENTER(stream_query, s, 0);
    return f->stalled ? fake_error(f, IMPMEM__CODE_NOT_READY) : 0;
}
static int f_stream_write(impmem__driver *d, void *s, const void *at, uint64_t value)
{
    FAKE_ENTER(stream_write, at, value);
    (void)s;
    if (!f->stalled) __atomic_store_n((uint64_t *)(uintptr_t)at, value, __ATOMIC_RELEASE);
    return 0;
}
static int f_stream_wait_value(impmem__driver *d, void *s, const void *at, uint64_t value)
{
    FAKE_ENTER(stream_wait_value, at, value);
    (void)s;
    return 0;
}
static int f_fill_async(impmem__driver *d, void *to, uint8_t value, uint64_t bytes, void *s)
{
    FAKE_ENTER(fill_async, to, bytes);
    (void)s;
    if (f->seconds_per_byte <= 0) memset(to, value, bytes);
    return 0;
}
static int f_copy_async(impmem__driver *d, void *to, const void *from, uint64_t bytes, void *s)
{
    FAKE_ENTER(copy_async, to, bytes);
    (void)s;
    if (f->seconds_per_byte <= 0) memmove(to, from, bytes);
    f->copied += bytes;
    return 0;
}
static int f_copy_batch(impmem__driver *d, void *const *to, const void *const *from, const size_t *bytes, uint32_t n,
                        void *s)
{
    FAKE_ENTER(copy_batch, NULL, n);
    (void)s;
    for (uint32_t i = 0; i < n; i++) memmove(to[i], from[i], bytes[i]);
    return 0;
}
static int f_module_load(impmem__driver *d, void **out, const char *image)
{
    FAKE_ENTER(module_load, NULL, 0);
    if (!strstr(image, ".target")) fake_breach(f, "loaded no module");
    f->modules++;
    *out = &f->modules;
    return 0;
}
static int f_module_unload(impmem__driver *d, void *m)
{
    ((fake_driver *)d->library)->modules--;
    FAKE_ENTER(module_unload, m, 0);
    return 0;
}
static int f_module_function(impmem__driver *d, void **out, void *m, const char *name)
{
    FAKE_ENTER(module_function, m, 0);
    *out = (void *)(uintptr_t)name;
    return 0;
}
/* What the copy kernel does, block of threads by block of threads. */
static int f_launch(impmem__driver *d, void *function, uint32_t grid, uint32_t block, void *s, void **parameters)
{
    FAKE_ENTER(launch, NULL, grid);
    (void)s;
    if (block != 256 || strcmp(function, IMPMEM__KERNEL_COPY) != 0) fake_breach(f, "launched what is not the copy kernel");
    const impmem_block_copy *pairs = *(void **)parameters[0];
    uint64_t bytes = *(uint64_t *)parameters[1], pieces = (bytes + 65535) / 65536;
    for (uint32_t i = 0; i < grid; i++) {
        uint64_t begin = i % pieces * 65536, length = bytes - begin < 65536 ? bytes - begin : 65536;
        memmove((char *)pairs[i / pieces].to + begin, (const char *)pairs[i / pieces].from + begin, length);
    }
    return 0;
}
static int f_event_create(impmem__driver *d, void **out)
{
    FAKE_ENTER(event_create, NULL, 0);
    f->events++;
    *out = calloc(1, 8);
    return 0;
}
static int f_event_destroy(impmem__driver *d, void *e)
{
    ((fake_driver *)d->library)->events--;
    free(e);
    FAKE_ENTER(event_destroy, NULL, 0);
    return 0;
}
static int f_event_record(impmem__driver *d, void *e, void *s)
{
    FAKE_ENTER(event_record, e, 0);
    (void)s;
    *(uint64_t *)e = f->copied;
    return 0;
}
static int f_event_elapsed(impmem__driver *d, double *out, void *from, void *to)
{
    FAKE_ENTER(event_elapsed, from, 0);
    *out = (double)(*(uint64_t *)to - *(uint64_t *)from) * f->seconds_per_byte;
    return 0;
}
static int f_nvtx_heap(impmem__driver *d, void **out, void *base, uint64_t bytes, const char *name)
{
    FAKE_ENTER(nvtx_heap, base, bytes);
    (void)name;
    if (!f->tool) return IMPMEM__CODE_NOT_SUPPORTED;
    f->heaps++;
    *out = base;
    return 0;
}
static int f_nvtx_heap_end(impmem__driver *d, void *heap)
{
    FAKE_ENTER(nvtx_heap_end, heap, 0);
    f->heaps--;
    return 0;
}
static int f_nvtx_take(impmem__driver *d, void *heap, void *address, uint64_t bytes, const char *name)
{
    FAKE_ENTER(nvtx_take, address, bytes);
    (void)heap;
    (void)name;
    f->takes++;
    return 0;
}
static int f_nvtx_drop(impmem__driver *d, void *const *addresses, uint32_t n)
{
    FAKE_ENTER(nvtx_drop, addresses[0], n);
    f->takes -= (int)n;
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
