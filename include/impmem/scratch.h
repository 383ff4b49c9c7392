/* impmem/scratch.h - T4: a LIFO stack for one forward pass; one per stream. Floor 2, implemented by src/alloc/scratch.c.
 *
 *   impmem_scratch_mark mark = impmem_scratch_push(scratch);
 *   impmem_scratch_span q;
 *   impmem_status st = impmem_scratch_take(scratch, q_bytes, 256, &q);
 *   if (!st) launch(impmem_stable(q), stream);
 *   st = impmem_first_error(st, impmem_scratch_pop(scratch, mark));
 *
 * It cannot fragment, and it cannot leak: popping an outer mark is refused while inner marks are open, popping twice is
 * refused, and either changes nothing. One owner thread; no lock, no allocation, no driver call.
 */
#ifndef IMPMEM_SCRATCH_H
#define IMPMEM_SCRATCH_H

#include "impmem/backend.h"
#include "impmem/span.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct impmem_scratch impmem_scratch;

#define IMPMEM_SCRATCH_MAX_DEPTH 64u

typedef struct impmem_scratch_mark {
    uint64_t epoch_; /* 0: push failed (too deep); popping it is IMPMEM_ERR_ORDER */
    uint32_t depth_;
    uint32_t scratch_;
} impmem_scratch_mark;

/* Over a whole fixed region, or a growable one (then all of it is committed here). BUSY, INVALID_ARGUMENT,
 * OUT_OF_HOST_MEMORY, BUDGET_EXCEEDED, SERVING, CAPTURING and what impmem_region_commit returns. */
IMPMEM_NODISCARD impmem_status impmem_scratch_open(impmem_region *region, impmem_scratch **out, impmem_error *why);
/* NULL is fine. LIVE_HOLDERS while a mark is open. */
IMPMEM_NODISCARD impmem_status impmem_scratch_close(impmem_scratch **scratch, impmem_error *why);

impmem_scratch_mark impmem_scratch_push(impmem_scratch *scratch);
/* bytes > 0; alignment a power of two, 0 = 256. A take starts at the next address of its alignment and ends where its bytes
 * end. EXHAUSTED is counted and changes nothing; ERR_STATE without an open mark. The span is stale once the mark that was
 * innermost here is popped. */
IMPMEM_NODISCARD impmem_status impmem_scratch_take(impmem_scratch *scratch, uint64_t bytes, uint64_t alignment,
                                                   impmem_scratch_span *out);
/* Rewinds to the mark. ORDER: not the innermost, or popped already. FOREIGN: another stack's mark. */
IMPMEM_NODISCARD impmem_status impmem_scratch_pop(impmem_scratch *scratch, impmem_scratch_mark mark);

typedef struct impmem_scratch_stats {
    uint64_t capacity_bytes;
    uint64_t used_bytes;
    uint64_t high_water_bytes; /* what the planner wants to know: the most that was used, */
    uint64_t wanted_bytes;     /* and the most that was asked for, refused takes included */
    uint64_t takes;
    uint64_t exhausted;
    uint64_t depth;
} impmem_scratch_stats;
void impmem_scratch_query(const impmem_scratch *scratch, impmem_scratch_stats *out);

/* gcc and clang: pops when the enclosing block is left. The status is lost: for application code, never used by the
 * library. */
#if defined(__GNUC__)
typedef struct impmem_scratch_scope {
    impmem_scratch *scratch;
    impmem_scratch_mark mark;
} impmem_scratch_scope;
static inline void impmem_scratch_scope_leave(impmem_scratch_scope *scope)
{
    impmem_status ignored = impmem_scratch_pop(scope->scratch, scope->mark);
    (void)ignored;
}
/* clang-format off */
#define IMPMEM_SCRATCH_SCOPE(name, stack)                                                                             \
    __attribute__((cleanup(impmem_scratch_scope_leave), unused)) impmem_scratch_scope name = { (stack),              \
                                                                                               impmem_scratch_push(stack) }
/* clang-format on */
#endif

#ifdef __cplusplus
}
#endif
#endif
