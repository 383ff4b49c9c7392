/* impmem/pinned.h - T5b: page-locked host memory with one owner. Floor 2, implemented by src/alloc/pinned.c.
 *
 *   impmem_pinned buffer = IMPMEM_PINNED_NONE;
 *   impmem_status st = impmem_pinned_open(host_backend, line, bytes, &buffer, &why);
 *   ...impmem_pinned_data(buffer)...
 *   st = impmem_pinned_close(&buffer);
 *
 * Over any backend whose account is IMPMEM_ACCOUNT_PINNED (impmem/fake.h makes one; so does the CUDA room). The owner is a
 * handle: closing zeroes it, closing a stale copy is IMPMEM_ERR_STALE and changes nothing (a handle must not be used after
 * its ledger is gone). Refusal is its own error, OUT_OF_PINNED_MEMORY, never mistaken for a full device;
 * impmem_pinned_open_or_pageable falls back to ordinary memory and says so. Every call takes a lock: none is for a hot
 * path.
 */
#ifndef IMPMEM_PINNED_H
#define IMPMEM_PINNED_H

#include "impmem/backend.h"
#include "impmem/span.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct impmem_pinned_object impmem_pinned_object;
typedef struct impmem_pinned {
    impmem_pinned_object *object_;
    uint64_t generation_;
} impmem_pinned;
/* clang-format off */
#define IMPMEM_PINNED_NONE { NULL, 0 }
/* clang-format on */

/* INVALID_ARGUMENT when the backend is not a pinned one; else what impmem_backend_acquire returns. */
IMPMEM_NODISCARD impmem_status impmem_pinned_open(impmem_backend *backend, impmem_line_id line, uint64_t bytes,
                                                  impmem_pinned *out, impmem_error *why);
/* As above, but OUT_OF_PINNED_MEMORY degrades to pageable memory of the same line: *out_pageable (nullable) tells, and
 * impmem_ledger_pinned_degradations counts it. */
IMPMEM_NODISCARD impmem_status impmem_pinned_open_or_pageable(impmem_backend *backend, impmem_line_id line, uint64_t bytes,
                                                              impmem_pinned *out, bool *out_pageable, impmem_error *why);
/* A none handle is IMPMEM_OK. STALE; CAPTURING or DRIVER when the memory can't be given back now: the handle stays good. */
IMPMEM_NODISCARD impmem_status impmem_pinned_close(impmem_pinned *pinned);

void *impmem_pinned_data(impmem_pinned pinned); /* NULL when none or stale */
uint64_t impmem_pinned_bytes(impmem_pinned pinned);
bool impmem_pinned_is_pageable(impmem_pinned pinned);
/* STALE (none too); UNSUPPORTED for pageable memory, since the span's type promises page-locked. */
IMPMEM_NODISCARD impmem_status impmem_pinned_view(impmem_pinned pinned, impmem_pinned_span *out);
uint64_t impmem_ledger_pinned_degradations(const impmem_ledger *ledger);

#ifdef __cplusplus
}
#endif
#endif
