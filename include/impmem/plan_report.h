/* impmem/plan_report.h - plans and failures as text, JSON and pictures. Floor 5, src/report/plan_*.c. No heap; any thread.
 *
 *   impmem_plan_write(&plan, impmem_write_file, stdout);
 */
#ifndef IMPMEM_PLAN_REPORT_H
#define IMPMEM_PLAN_REPORT_H

#include "impmem/explain.h"
#include "impmem/plan.h"
#include "impmem/plan_ranks.h"
#include "impmem/plan_search.h"
#include "impmem/write.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Lines largest first, columns line up, MiB with one decimal, host lines apart; ends with what the KV holds: "KV holds N
 * sequences at L tokens (B blocks of T tokens)". INVALID_ARGUMENT, and what `write` returns, here and below. */
IMPMEM_NODISCARD impmem_status impmem_plan_write(const impmem_plan *plan, impmem_write_fn write, void *context);
/* "does not fit: over by X MiB of Y", needs, then "change one of" with the levers. Returns the failure's own status when
 * the writing succeeded, so that `return impmem_plan_failure_write(...)` hands the reason on. INVALID_ARGUMENT also for a
 * failure that nothing wrote. */
IMPMEM_NODISCARD impmem_status impmem_plan_failure_write(const impmem_plan_failure *failure, impmem_write_fn write,
                                                         void *context);
/* One object each; schema in docs/plan-schema.json. */
IMPMEM_NODISCARD impmem_status impmem_plan_write_json(const impmem_plan *plan, impmem_write_fn write, void *context);
IMPMEM_NODISCARD impmem_status impmem_plan_failure_write_json(const impmem_plan_failure *failure, impmem_write_fn write,
                                                              void *context);

/* Each line with its formula and, below, every operand: "rows x vocab x 4", "rows 8", "vocab 151936". `plan` was made from
 * `input`. Also what impmem_plan_explain returns. */
IMPMEM_NODISCARD impmem_status impmem_plan_write_explained(const impmem_plan_input *input, const impmem_plan *plan,
                                                           impmem_write_fn write, void *context);
/* Two plans line by line: a, b, and b - a in MiB, largest difference first; lines that don't differ are only counted. */
IMPMEM_NODISCARD impmem_status impmem_plan_write_difference(const impmem_plan *a, const impmem_plan *b,
                                                            impmem_write_fn write, void *context);
/* One row a rank: layers, weights, KV, total, what is left and what is stranded, then the block count that all have. */
IMPMEM_NODISCARD impmem_status impmem_plan_write_ranks(const impmem_plan *plans, const impmem_rank *ranks,
                                                       const impmem_ranks_summary *summary, impmem_write_fn write,
                                                       void *context);

/* The device as an SVG picture: every line to scale and by name, largest first, and what the budget leaves. A failure's
 * budget is a mark across what was requested. `title` stands on top and may hold anything; NULL: none. */
IMPMEM_NODISCARD impmem_status impmem_plan_write_svg(const impmem_plan *plan, const char *title, impmem_write_fn write,
                                                     void *context);
/* Returns the failure's own status when the writing succeeded. */
IMPMEM_NODISCARD impmem_status impmem_plan_failure_write_svg(const impmem_plan_failure *failure, const char *title,
                                                             impmem_write_fn write, void *context);

#ifdef __cplusplus
}
#endif
#endif
