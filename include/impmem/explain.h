/* impmem/explain.h - where a line's figure comes from. Floor 1, src/plan/plan_explain.c. Pure; any thread.
 *
 *   impmem_explanation e;
 *   if (!impmem_plan_explain(&input, &plan, IMPMEM_LINE_LOGITS, &e, NULL)) puts(e.formula);     "rows x vocab x 4"
 *   for (uint32_t i = 0; i < e.n_operands; i++) printf("%s = %llu\n", e.operand[i].name, ...);
 */
#ifndef IMPMEM_EXPLAIN_H
#define IMPMEM_EXPLAIN_H

#include "impmem/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

#define IMPMEM_EXPLAIN_MAX_OPERANDS 10u

typedef struct impmem_operand {
    char name[28]; /* as in the formula */
    uint32_t reserved;
    uint64_t value;
} impmem_operand;

typedef struct impmem_explanation {
    impmem_line_id line;
    uint32_t n_operands;
    uint64_t bytes;    /* of the line */
    char formula[120]; /* in the operands' names; a(x) is x rounded up to 256, up(x) to the granule */
    impmem_operand operand[IMPMEM_EXPLAIN_MAX_OPERANDS];
} impmem_explanation;

/* Of a line of `plan`, which was made from `input`. NOT_FOUND: no such line; INVALID_ARGUMENT, and what resolving the input
 * answers. */
IMPMEM_NODISCARD impmem_status impmem_plan_explain(const impmem_plan_input *input, const impmem_plan *plan,
                                                   impmem_line_id line, impmem_explanation *out, impmem_error *why);

#ifdef __cplusplus
}
#endif
#endif
