/* core/internal.h - what every floor above uses of core and no user sees: filling in an impmem_error, checking the size and
 * version of an options struct, zeroed memory from a caller's allocator.
 */
#ifndef IMPMEM__CORE_INTERNAL_H
#define IMPMEM__CORE_INTERNAL_H

#include <stdint.h>

#include "impmem/allocator.h"
#include "impmem/status.h"

/* Starts `why` afresh with a status, a subject (NULL = "") and a one-line message; text that is too long is cut. NULL
 * `why` is fine. Returns `status`, so that a failing function can end with it. */
impmem_status impmem__error_set(impmem_error *why, impmem_status status, const char *subject, const char *fmt, ...)
    IMPMEM_PRINTF(4, 5);

/* The rest of an error that impmem__error_set began. NULL `why` is fine. */
void impmem__error_bytes(impmem_error *why, uint64_t asked_bytes, uint64_t available_bytes);
void impmem__error_line(impmem_error *why, uint32_t line);
void impmem__error_driver(impmem_error *why, int64_t driver_code);
void impmem__error_offset(impmem_error *why, uint64_t offset);
void impmem__error_hint(impmem_error *why, const char *fmt, ...) IMPMEM_PRINTF(2, 3);

/* Size and version of a caller's options struct. A zeroed pair means version 1 with defaults. ERR_VERSION: newer than
 * `known_version`. ERR_INVALID_ARGUMENT: only one of the two is zero, or the size is not the one of that version. */
impmem_status impmem__options_check(uint32_t size, uint32_t version, uint32_t known_size, uint32_t known_version);

/* Both functions set, or neither (then `out` is the C library's): else ERR_INVALID_ARGUMENT. */
impmem_status impmem__allocator_resolve(impmem_allocator given, impmem_allocator *out);

/* Zeroed memory, or NULL. Big blocks of the C library's allocator come as untouched pages: nothing is written here. */
void *impmem__allocate_zeroed(const impmem_allocator *allocator, uint64_t bytes, uint64_t alignment);
void impmem__release(const impmem_allocator *allocator, void *memory, uint64_t bytes); /* NULL memory is fine */

#endif
