/* The C library's allocator behind the caller's interface, and zeroed memory from either.
 *
 * The default allocator hands out zeroed memory by calloc, which for big blocks costs no write at all: the pages arrive
 * zeroed when they are first touched. calloc knows nothing of alignment, so each block is made larger and the pointer
 * that free() wants is kept in the word before the aligned block.
 */
#include "impmem/allocator.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/internal.h"

static void *default_allocate(void *context, size_t bytes, size_t alignment)
{
    (void)context;
    if (alignment < sizeof(void *)) alignment = sizeof(void *);
    if ((alignment & (alignment - 1)) != 0 || bytes == 0) return NULL;
    size_t extra = alignment + sizeof(void *);
    if (extra < alignment || bytes > SIZE_MAX - extra) return NULL;
    unsigned char *raw = calloc(1, bytes + extra);
    if (!raw) return NULL;
    uintptr_t after_word = (uintptr_t)raw + sizeof(void *);
    size_t skip = sizeof(void *) + (size_t)(-after_word & (alignment - 1));
    unsigned char *aligned = raw + skip;
    memcpy(aligned - sizeof(void *), &raw, sizeof raw);
    return aligned;
}

static void default_release(void *context, void *memory, size_t bytes)
{
    (void)context;
    (void)bytes;
    if (!memory) return;
    void *raw;
    memcpy(&raw, (unsigned char *)memory - sizeof(void *), sizeof raw);
    free(raw);
}

impmem_allocator impmem_default_allocator(void)
{
    impmem_allocator allocator = {default_allocate, default_release, NULL};
    return allocator;
}

impmem_status impmem__allocator_resolve(impmem_allocator given, impmem_allocator *out)
{
    if (!given.allocate != !given.release) return IMPMEM_ERR_INVALID_ARGUMENT;
    *out = given.allocate ? given : impmem_default_allocator();
    return IMPMEM_OK;
}

void *impmem__allocate_zeroed(const impmem_allocator *allocator, uint64_t bytes, uint64_t alignment)
{
    if (bytes == 0 || bytes > SIZE_MAX || alignment > SIZE_MAX) return NULL;
    void *memory = allocator->allocate(allocator->context, (size_t)bytes, (size_t)alignment);
    if (memory && allocator->allocate != default_allocate) memset(memory, 0, (size_t)bytes);
    return memory;
}

void impmem__release(const impmem_allocator *allocator, void *memory, uint64_t bytes)
{
    if (memory) allocator->release(allocator->context, memory, (size_t)bytes);
}
