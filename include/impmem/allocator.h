/* impmem/allocator.h - the caller's host allocator for the library's own tables. Floor 0, implemented by
 * src/core/allocator.c.
 *
 * The library asks for host memory only while something is created or opened, never on a hot path.
 */
#ifndef IMPMEM_ALLOCATOR_H
#define IMPMEM_ALLOCATOR_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* `allocate` returns `bytes` of memory aligned to `alignment` (a power of two, at least 16), or NULL. `release` gets the
 * same `bytes` back. Both may be called from any thread that calls the library. A zeroed struct means the C library's. */
typedef struct impmem_allocator {
    void *(*allocate)(void *context, size_t bytes, size_t alignment);
    void (*release)(void *context, void *memory, size_t bytes);
    void *context;
} impmem_allocator;

/* The C library's allocator. */
impmem_allocator impmem_default_allocator(void);

#ifdef __cplusplus
}
#endif
#endif
