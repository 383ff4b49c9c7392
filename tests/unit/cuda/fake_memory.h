/* fake_memory.h - the memory of the driver made of tables: of the device, of the host, and virtual. */
#ifndef TEST_CUDA_FAKE_MEMORY_H
#define TEST_CUDA_FAKE_MEMORY_H

#include "fake_tables.h"

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

#endif
