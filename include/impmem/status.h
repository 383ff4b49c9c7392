/* impmem/status.h - status codes and the error object. Floor 0, implemented by src/core/status.c.
 *
 *   impmem_error why = IMPMEM_ERROR_INIT;
 *   impmem_status st = impmem_backend_acquire(backend, &request, &region, &why);
 *   if (st) fprintf(stderr, "%s: %s\n", impmem_status_name(st), why.message);
 *
 * Every fallible function of the library returns an impmem_status and writes its trailing out parameter only on
 * IMPMEM_OK (the few exceptions say so). Nothing in the library aborts, prints or exits. All functions of this header
 * may be called from any thread.
 */
#ifndef IMPMEM_STATUS_H
#define IMPMEM_STATUS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
#define IMPMEM_NODISCARD __attribute__((warn_unused_result))
#define IMPMEM_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define IMPMEM_NODISCARD
#define IMPMEM_PRINTF(fmt, args)
#endif

/* X(name, value, message). Values are pinned: a code never changes its number, gaps are kept for its neighbours. */
#define IMPMEM_STATUS_MAP(X)                                                                                               \
    X(OK, 0, "ok")                                                                                                         \
    X(ERR_INVALID_ARGUMENT, 1, "invalid argument")                                                                         \
    X(ERR_VERSION, 2, "options or vtable are newer than this library")                                                     \
    X(ERR_OVERFLOW, 3, "byte arithmetic would overflow 64 bits")                                                           \
    X(ERR_NOT_FOUND, 4, "not found")                                                                                       \
    X(ERR_UNSUPPORTED, 5, "not supported")                                                                                 \
    X(ERR_STATE, 6, "not valid in the object's present state")                                                             \
    X(ERR_BUSY, 7, "still in use")                                                                                         \
    X(ERR_OUT_OF_DEVICE_MEMORY, 20, "out of device memory")                                                                \
    X(ERR_OUT_OF_HOST_MEMORY, 21, "out of host memory")                                                                    \
    X(ERR_OUT_OF_PINNED_MEMORY, 22, "page-locked host memory refused")                                                     \
    X(ERR_BUDGET_EXCEEDED, 23, "the account's budget would be exceeded")                                                   \
    X(ERR_NOT_GROWABLE, 24, "the backend or region cannot grow")                                                           \
    X(ERR_OUT_OF_ADDRESS_SPACE, 25, "address space reservation refused")                                                   \
    X(ERR_PARTIAL, 26, "only a part was achieved; it is published")                                                        \
    X(ERR_SERVING, 40, "no acquisition while serving")                                                                     \
    X(ERR_CAPTURING, 41, "memory may not be touched while a graph is captured")                                            \
    X(ERR_PHASE_ORDER, 42, "phases only move forward")                                                                     \
    X(ERR_STAGING_LIVE, 43, "load-only staging memory survived loading")                                                   \
    X(ERR_STALE, 60, "the handle or span is stale")                                                                        \
    X(ERR_FORGED, 61, "the span was not minted by a tier allocator")                                                       \
    X(ERR_FOREIGN, 62, "the handle belongs to another object")                                                             \
    X(ERR_ORDER, 63, "marks must be popped in reverse order")                                                              \
    X(ERR_LIVE_HOLDERS, 64, "blocks or regions are still held")                                                            \
    X(ERR_EXHAUSTED, 65, "the allocator is exhausted")                                                                     \
    X(ERR_LINE_EXCEEDED, 66, "more than the plan line holds")                                                              \
    X(ERR_UNPLANNED, 67, "no such plan line")                                                                              \
    X(ERR_DOES_NOT_FIT, 80, "the plan does not fit the budget")                                                            \
    X(ERR_NEVER_FITS, 90, "the request can never fit")                                                                     \
    X(ERR_CAPACITY, 91, "the request does not fit now")                                                                    \
    X(ERR_IO, 100, "input or output failed")                                                                               \
    X(ERR_TRUNCATED, 101, "the file ends too early")                                                                       \
    X(ERR_BAD_FORMAT, 102, "malformed file")                                                                               \
    X(ERR_BAD_VALUE, 103, "a value is out of range or contradicts another")                                                \
    X(ERR_MISSING_KEY, 104, "a required key is missing")                                                                   \
    X(ERR_UNKNOWN_ARCHITECTURE, 105, "the architecture is not understood")                                                 \
    X(ERR_TOO_LARGE, 106, "larger than the reader's stated bound")                                                         \
    X(ERR_NO_DEVICE, 120, "no such device")                                                                                \
    X(ERR_NO_DRIVER, 121, "no driver")                                                                                     \
    X(ERR_DRIVER, 122, "the driver reported an error")

typedef enum impmem_status {
#define IMPMEM_STATUS_ENUM(name, value, message) IMPMEM_##name = value,
    IMPMEM_STATUS_MAP(IMPMEM_STATUS_ENUM)
#undef IMPMEM_STATUS_ENUM
} impmem_status;

/* "IMPMEM_ERR_STALE"; "IMPMEM_ERR_UNKNOWN" for a number that is no status. Never NULL, static storage. */
const char *impmem_status_name(impmem_status status);
/* One lower-case phrase without a full stop. Never NULL, static storage. */
const char *impmem_status_message(impmem_status status);
/* The first that is not IMPMEM_OK: `a` if it failed, else `b`. For running a clean-up step after a failed one. C evaluates the
 * two arguments in no given order: never pass two calls of which one must come first. */
impmem_status impmem_first_error(impmem_status a, impmem_status b);

#define IMPMEM_ERROR_VERSION 1u
#define IMPMEM_NO_LINE UINT32_MAX

/* What failed, in words and figures. Owned by the caller, plain data, no pointers into the library. Functions that take
 * `impmem_error *why` accept NULL, and write it only when they fail. */
typedef struct impmem_error {
    uint32_t size;    /* sizeof(impmem_error) */
    uint32_t version; /* IMPMEM_ERROR_VERSION */
    impmem_status status;
    uint32_t line;            /* plan line id, or IMPMEM_NO_LINE */
    uint64_t asked_bytes;     /* 0 when no bytes were asked */
    uint64_t available_bytes; /* what was left of the limit that refused */
    int64_t driver_code;      /* the driver's own code, 0 when none */
    uint64_t offset;          /* byte offset in an input file, UINT64_MAX when none */
    char subject[96];         /* the file, tag, line or key */
    char message[256];        /* one line: what is wrong, where, what was expected */
    char hint[160];           /* what to change, or "" */
} impmem_error;

#define IMPMEM_ERROR_INIT                                                                                                  \
    {                                                                                                                      \
        sizeof(impmem_error), IMPMEM_ERROR_VERSION, IMPMEM_OK, IMPMEM_NO_LINE, 0, 0, 0, UINT64_MAX, "", "", ""             \
    }

#ifdef __cplusplus
}
#endif
#endif
