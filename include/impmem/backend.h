/* impmem/backend.h - physical memory: regions over a versioned vtable. Floor 1, implemented by src/backend/backend.c.
 *
 *   impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
 *   info.bytes = 64 * IMPMEM_MIB; info.tag = IMPMEM_TAG_ENGINE_PERSISTENT; info.line = my_line;
 *   impmem_region *region;
 *   if (impmem_backend_acquire(backend, &info, &region, &why)) ...
 *   impmem_backend_release(&region, &why);        zeroes the caller's pointer
 *
 * The public calls wrap phase and capture guard, budget, journal and counters round the vtable, so no implementation can
 * forget them. Thread-safe. A region's base never moves while it lives.
 */
#ifndef IMPMEM_BACKEND_H
#define IMPMEM_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "impmem/ledger.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct impmem_backend impmem_backend;
typedef struct impmem_region impmem_region; /* the only holder of a driver pointer */

typedef struct impmem_backend_properties {
    uint32_t size;
    uint32_t version;        /* 1 */
    uint64_t granule_bytes;  /* physical memory comes in multiples of this (2 MiB on current GPUs); > 0 */
    uint64_t capacity_bytes; /* the most it will ever hold; UINT64_MAX = unknown or unlimited */
    bool growable;           /* reserve, commit, decommit exist */
    bool host_accessible;    /* the CPU may read and write the memory */
    impmem_account account;  /* what its bytes count against */
    char name[24];           /* "fake", "cudaMalloc", "VMM" */
} impmem_backend_properties;

/* What an implementation fills. Offsets and lengths that reach it are multiples of the granule. It need not check budget,
 * phase or overlap: the front does. It must be callable from any thread. NULL reserve/commit/decommit = not growable. */
typedef struct impmem_backend_ops {
    uint32_t size;
    uint32_t version; /* 1 */
    /* `bytes` > 0, a multiple of the granule; alignment a power of two. */
    impmem_status (*acquire)(void *self, uint64_t bytes, uint64_t alignment, void **out_base, impmem_error *why);
    /* Also ends a reservation; whatever is still committed goes with it. `bytes` as acquired or reserved. */
    impmem_status (*release)(void *self, void *base, uint64_t bytes);
    impmem_status (*reserve)(void *self, uint64_t bytes, uint64_t alignment, void **out_base, impmem_error *why);
    /* Back [offset, offset+length). On failure *achieved says how many bytes from `offset` on are backed now. */
    impmem_status (*commit)(void *self, void *base, uint64_t offset, uint64_t length, uint64_t *achieved,
                            impmem_error *why);
    impmem_status (*decommit)(void *self, void *base, uint64_t offset, uint64_t length);
    impmem_status (*query)(void *self, impmem_backend_properties *out);
    void (*destroy)(void *self); /* may be NULL */
} impmem_backend_ops;

/* Copies `ops`. The backend books on `ledger`, which must outlive it. VERSION for a newer vtable, INVALID_ARGUMENT for a
 * missing acquire, release or query, or for one or two of reserve/commit/decommit. On failure `self` stays the caller's;
 * on success ops->destroy is called by impmem_backend_destroy. */
IMPMEM_NODISCARD impmem_status impmem_backend_create(impmem_ledger *ledger, const impmem_backend_ops *ops, void *self,
                                                     impmem_backend **out, impmem_error *why);
/* NULL is fine. IMPMEM_ERR_LIVE_HOLDERS, naming the first live region's tag, while regions live; nothing is destroyed. */
IMPMEM_NODISCARD impmem_status impmem_backend_destroy(impmem_backend *backend, impmem_error *why);

impmem_ledger *impmem_backend_ledger(const impmem_backend *backend);
void impmem_backend_query(const impmem_backend *backend, impmem_backend_properties *out);
uint32_t impmem_backend_live_regions(const impmem_backend *backend);

/* One line's part of a region that holds several (an arena). */
typedef struct impmem_line_share {
    impmem_line_id line;
    uint64_t bytes;
} impmem_line_share;

typedef struct impmem_acquire_info {
    uint32_t size;
    uint32_t version; /* 1 */
    uint64_t bytes;   /* acquire: the size; reserve: the address space. Rounded up to the granule */
    uint64_t
        alignment; /* power of two >= 256; 0 = 256. Up to the granule it is always honoured; a backend may refuse more */
    impmem_tag tag;
    impmem_line_id line; /* IMPMEM_NO_LINE = unplanned (allowed, visible in impmem_ledger_unplanned_bytes) */
    /* NULL: all bytes are `line`'s. Else, for acquire only, they add up to the rounded bytes, each line once. */
    const impmem_line_share *shares;
    uint32_t n_shares;
} impmem_acquire_info;
#define IMPMEM_ACQUIRE_INFO_INIT                                                                                           \
    {                                                                                                                      \
        sizeof(impmem_acquire_info), 1, 0, 0, IMPMEM_TAG_OTHER, IMPMEM_NO_LINE, NULL, 0                                    \
    }

/* A fixed region: committed == reserved == bytes rounded up to the granule. Errors: INVALID_ARGUMENT (0 bytes, alignment,
 * shares), OVERFLOW, SERVING, CAPTURING, BUDGET_EXCEEDED, OUT_OF_DEVICE_MEMORY / OUT_OF_PINNED_MEMORY,
 * OUT_OF_HOST_MEMORY (for the region object). On failure nothing changed but the REFUSED journal record. */
IMPMEM_NODISCARD impmem_status impmem_backend_acquire(impmem_backend *backend, const impmem_acquire_info *info,
                                                      impmem_region **out, impmem_error *why);

/* A growable region of `bytes` of address space with nothing committed. Takes no budget. NOT_GROWABLE on a fixed backend,
 * OUT_OF_ADDRESS_SPACE when refused. While Serving it counts as an acquisition. */
IMPMEM_NODISCARD impmem_status impmem_backend_reserve(impmem_backend *backend, const impmem_acquire_info *info,
                                                      impmem_region **out, impmem_error *why);

/* Gives everything back and zeroes *region; *region NULL is fine. CAPTURING leaves the region alone; BUSY while a tier
 * allocator or a grower is open over it. When the backend itself fails, its status: the region stays as it was, to be tried again. */
IMPMEM_NODISCARD impmem_status impmem_backend_release(impmem_region **region, impmem_error *why);

/* Make [0, target) the committed part: commits or decommits; target is rounded up to the granule and may not exceed the
 * reservation (INVALID_ARGUMENT). Growing after range commits left holes fills the holes; shrinking also drops islands
 * above target. IMPMEM_ERR_PARTIAL-like outcomes: on a failure half way what was achieved stays, is published in
 * impmem_region_committed_bytes, *out_committed (nullable, written in every case) and the journal, and the cause is
 * returned. */
IMPMEM_NODISCARD impmem_status impmem_region_commit(impmem_region *region, uint64_t target_bytes, uint64_t *out_committed,
                                                    impmem_error *why);
/* Commit every granule that [offset, offset+length) touches (rounds OUT); what is committed already is skipped.
 *
 * Both: NOT_GROWABLE, INVALID_ARGUMENT and OVERFLOW (the range), CAPTURING, BUDGET_EXCEEDED (then nothing changed, unless
 * another thread took the budget while islands were dropped to make room), and what the backend returned. While Serving, growth on a line of the plan is counted in impmem_ledger_serving_commits; in
 * a region without one it is an acquisition like any other, and SERVING under that policy. */
IMPMEM_NODISCARD impmem_status impmem_region_commit_range(impmem_region *region, uint64_t offset, uint64_t length,
                                                          uint64_t *out_committed, impmem_error *why);
/* Decommit every granule that lies wholly inside [offset, offset+length) (rounds IN); what is not committed is skipped. */
IMPMEM_NODISCARD impmem_status impmem_region_decommit_range(impmem_region *region, uint64_t offset, uint64_t length,
                                                            uint64_t *out_committed, impmem_error *why);

/* Cheap; any thread. */
void *impmem_region_base(const impmem_region *region);
uint64_t impmem_region_reserved_bytes(const impmem_region *region);
uint64_t impmem_region_committed_bytes(const impmem_region *region);  /* sum over all ranges */
uint64_t impmem_region_committed_prefix(const impmem_region *region); /* committed without a hole from 0 on */
bool impmem_region_growable(const impmem_region *region);
uint64_t impmem_region_id(const impmem_region *region); /* unique within the ledger, from 1, never reused */
impmem_tag impmem_region_tag(const impmem_region *region);
impmem_backend *impmem_region_backend(const impmem_region *region);

#ifdef __cplusplus
}
#endif
#endif
