/* report/plan_internal.h - what the texts of plans and of failures share. */
#ifndef IMPMEM__REPORT_PLAN_INTERNAL_H
#define IMPMEM__REPORT_PLAN_INTERNAL_H

#include <stdbool.h>

#include "core/json.h"
#include "impmem/plan_report.h"

/* Text through a write callback; the first error sticks. */
typedef struct impmem__text {
    impmem_write_fn write;
    void *context;
    impmem_status status;
} impmem__text;

void impmem__text_print(impmem__text *text, const char *fmt, ...) IMPMEM_PRINTF(2, 3);

typedef struct impmem__line_view {
    const impmem_line *line;
    uint32_t n_lines;
} impmem__line_view;

/* The lines of the accounts for which bit 1 << account is set in `accounts`: largest first, each with its formula, a
 * total at the end. `what` heads the column of names. */
void impmem__text_lines(impmem__text *text, impmem__line_view lines, uint32_t accounts, const char *what);
bool impmem__lines_have_kv(impmem__line_view lines);
static inline const char *impmem__plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}
/* MiB with one decimal and no unit. */
const char *impmem__text_mib(uint64_t bytes, char buffer[32]);

void impmem__json_lines(impmem__json *json, impmem__line_view lines);

#endif
