/* impmem/arena.h - T1 and T2: bump allocation, reset wholesale. Floor 2, implemented by src/alloc/arena.c.
 *
 *   impmem_arena *arena;
 *   impmem_arena_open(region, IMPMEM_TIER_MODEL, &arena, &why);
 *   impmem_model_span weights;
 *   impmem_arena_take_model(arena, IMPMEM_LINE_WEIGHTS, bytes, 256, &weights);
 *   impmem_arena_reset(arena);     every span of it is stale now
 *   impmem_arena_close(&arena);    the region stays the caller's
 *
 * One owner thread. A take is pointer arithmetic and a counter: no lock, no allocation, no driver call over a fixed region,
 * so it is legal while a graph is captured. Over a growable region (lazy mode) a take first commits the prefix that it
 * reaches; the caller may commit ahead to keep that off the hot path.
 */
#ifndef IMPMEM_ARENA_H
#define IMPMEM_ARENA_H

#include "impmem/backend.h"
#include "impmem/span.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct impmem_arena impmem_arena;

/* Over a whole region, which must outlive the arena and be open in no other allocator (BUSY). tier is MODEL or ENGINE. The
 * arena object is host control memory of the region's ledger. */
IMPMEM_NODISCARD impmem_status impmem_arena_open(impmem_region *region, impmem_tier tier, impmem_arena **out,
                                                 impmem_error *why);
/* NULL is fine. Stales every span. */
void impmem_arena_close(impmem_arena **arena);

/* `bytes` > 0; alignment a power of two, 0 = 256. A take occupies the padding in front of it and its bytes rounded up to
 * its alignment, though to no more than 256, nor past the end of the region or of the line's share: so takes at the
 * usual alignment cost their size rounded up to 256, whoever takes next, and lines planned that way never pay for each
 * other.
 *
 * `line` gets the live bytes (padding included); IMPMEM_NO_LINE = the region's own line. A region that was acquired with
 * shares holds each of its lines to its share: LINE_EXCEEDED, and UNPLANNED for a line that has none. Without shares the
 * region's own line is the only one; UNPLANNED for any other. Over a region on no line of the plan, unplanned lines may
 * be named and count as its own. EXHAUSTED when the region is full; ERR_STATE when the arena is of the other tier; over
 * a growable region also what impmem_region_commit_range can return. On failure nothing changed, except that what a
 * growable region had committed by then stays committed. */
IMPMEM_NODISCARD impmem_status impmem_arena_take_model(impmem_arena *arena, impmem_line_id line, uint64_t bytes,
                                                       uint64_t alignment, impmem_model_span *out);
IMPMEM_NODISCARD impmem_status impmem_arena_take_engine(impmem_arena *arena, impmem_line_id line, uint64_t bytes,
                                                        uint64_t alignment, impmem_engine_span *out);

/* Frees everything at once; keeps the region and its commitment; generation + 1. */
void impmem_arena_reset(impmem_arena *arena);

typedef struct impmem_arena_stats {
    uint64_t capacity_bytes;
    uint64_t committed_bytes;
    uint64_t used_bytes;       /* top of the bump, padding included */
    uint64_t high_water_bytes; /* since open */
    uint64_t takes;            /* since open */
    uint64_t exhausted;        /* refused takes since open */
    uint64_t generation;       /* resets since open */
    uint64_t largest_free_bytes;
} impmem_arena_stats;
void impmem_arena_query(const impmem_arena *arena, impmem_arena_stats *out);

#ifdef __cplusplus
}
#endif
#endif
