/* fake_work.h - the work of the driver made of tables: streams, copies, kernels, events, annotations. */
#ifndef TEST_CUDA_FAKE_WORK_H
#define TEST_CUDA_FAKE_WORK_H

#include "fake_tables.h"

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

#endif
