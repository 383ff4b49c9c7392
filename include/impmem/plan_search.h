/* impmem/plan_search.h - questions about plans: the largest that fits, what can ever be served, what differs. Floor 1,
 * src/plan/plan_fit.c, plan_servable.c, plan_diff.c. Pure; any thread.
 *
 *   uint64_t tokens; impmem_fit_limit limit;
 *   if (!impmem_plan_fit(&in, IMPMEM_FIT_CONTEXT, &tokens, &limit, &no)) in.max_seq_tokens = (uint32_t)tokens;
 */
#ifndef IMPMEM_PLAN_SEARCH_H
#define IMPMEM_PLAN_SEARCH_H

#include "impmem/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum impmem_fit_what {
    IMPMEM_FIT_CONTEXT = 1, /* max_seq_tokens, for the input's max_batch; the input's own is not looked at */
    IMPMEM_FIT_BATCH = 2    /* max_batch, for the input's max_seq_tokens */
} impmem_fit_what;

typedef enum impmem_fit_limit {
    IMPMEM_FIT_BY_MEMORY = 1,   /* one step more is IMPMEM_ERR_DOES_NOT_FIT */
    IMPMEM_FIT_BY_TRAINED = 2,  /* the model's trained context */
    IMPMEM_FIT_BY_NUMBERING = 3 /* one step more can't be counted: 2^31 tokens or blocks, kernel offsets, 2^20 sequences */
} impmem_fit_limit;

const char *impmem_fit_limit_name(impmem_fit_limit limit); /* "memory", "trained_context", "numbering"; "?" */

/* The largest that plans, by at most 64 plans: tokens in whole blocks or the trained context itself, or sequences. One step
 * (a block, a sequence) more does not plan. DOES_NOT_FIT when not even the smallest does: one block, or what the batches
 * that must fit ask; *failure then is that one's, without levers. Else as impmem_plan_memory. */
IMPMEM_NODISCARD impmem_status impmem_plan_fit(const impmem_plan_input *input, impmem_fit_what what, uint64_t *out_value,
                                               impmem_fit_limit *out_limit, impmem_plan_failure *failure);

/* What the pools of a plan can serve when nothing else is there. */
typedef struct impmem_servable {
    uint64_t most_tokens; /* prompt and answer of the largest request that can ever be admitted */
    uint64_t need_tokens; /* of the request asked about */
    uint32_t group;       /* whose blocks end first; UINT32_MAX: max_seq_tokens ends first */
    uint32_t reserved;
    uint64_t need_blocks;   /* of that group, by the request */
    uint64_t usable_blocks; /* of that group: without null, spare and fenced ones */
} impmem_servable;

/* OK: the request can be admitted once nothing else is in the way. NEVER_FITS: it never can; *out is written all the same.
 * INVALID_ARGUMENT, OVERFLOW, BAD_VALUE (an empty request). */
IMPMEM_NODISCARD impmem_status impmem_plan_servable(const impmem_plan *plan, uint64_t prompt_tokens, uint64_t new_tokens,
                                                    impmem_servable *out);

/* One line in either plan. Rounding lines of an account are one row, since regions shift. */
typedef struct impmem_plan_diff_row {
    impmem_line_id id; /* IMPMEM_LINE_ROUNDING for all rounding */
    impmem_account account;
    uint32_t in_a, in_b; /* 1: there is such a line */
    uint64_t a_bytes, b_bytes;
    char name[IMPMEM_LINE_NAME_BYTES];
} impmem_plan_diff_row;

/* Rows in a's order, then those that only b has; *out_n says how many there are, also with EXHAUSTED, when capacity is too
 * small. The rows of an account add up to the plans' totals, transient lines apart. INVALID_ARGUMENT. */
IMPMEM_NODISCARD impmem_status impmem_plan_diff(const impmem_plan *a, const impmem_plan *b, impmem_plan_diff_row *rows,
                                                uint32_t capacity, uint32_t *out_n);

#ifdef __cplusplus
}
#endif
#endif
