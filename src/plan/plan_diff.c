/* Two plans line by line. */
#include <string.h>

#include "core/internal.h"
#include "impmem/plan_search.h"
#include "plan/internal.h"

static impmem_line_id row_id(const impmem_line *line)
{
    const bool rounding = line->id >= IMPMEM_LINE_ROUNDING && line->id < IMPMEM_LINE_ROUNDING + IMPMEM_PLAN_MAX_REGIONS;
    return rounding ? (impmem_line_id)IMPMEM_LINE_ROUNDING : line->id;
}

static bool same_row(const impmem_line *x, const impmem_line *y)
{
    return x->account == y->account && row_id(x) == row_id(y);
}

static bool seen(const impmem_plan *plan, uint32_t before, const impmem_line *line)
{
    for (uint32_t i = 0; i < before; i++)
        if (same_row(&plan->line[i], line)) return true;
    return false;
}

/* Bytes of all lines of that row; *out_there tells whether there is one. */
static uint64_t sum_row(const impmem_plan *plan, const impmem_line *line, uint32_t *out_there)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < plan->n_lines; i++) {
        if (!same_row(&plan->line[i], line)) continue;
        sum += plan->line[i].bytes; /* the plan's total was checked */
        *out_there = 1;
    }
    return sum;
}

static void fill_row(const impmem_plan *a, const impmem_plan *b, const impmem_line *line, impmem_plan_diff_row *row)
{
    *row = (impmem_plan_diff_row){.id = row_id(line), .account = line->account};
    row->a_bytes = sum_row(a, line, &row->in_a);
    row->b_bytes = sum_row(b, line, &row->in_b);
    if (row->id == IMPMEM_LINE_ROUNDING) memcpy(row->name, "rounding", sizeof "rounding");
    else memcpy(row->name, line->name, sizeof row->name);
}

impmem_status impmem_plan_diff(const impmem_plan *a, const impmem_plan *b, impmem_plan_diff_row *rows, uint32_t capacity,
                               uint32_t *out_n)
{
    if (!a || !b || !out_n || (capacity > 0 && !rows) || a->n_lines > IMPMEM_PLAN_MAX_LINES ||
        b->n_lines > IMPMEM_PLAN_MAX_LINES)
        return IMPMEM_ERR_INVALID_ARGUMENT;
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->n_lines; i++) {
        if (seen(a, i, &a->line[i])) continue;
        if (n < capacity) fill_row(a, b, &a->line[i], &rows[n]);
        n++;
    }
    for (uint32_t i = 0; i < b->n_lines; i++) {
        if (seen(a, a->n_lines, &b->line[i]) || seen(b, i, &b->line[i])) continue;
        if (n < capacity) fill_row(a, b, &b->line[i], &rows[n]);
        n++;
    }
    *out_n = n;
    return n > capacity ? IMPMEM_ERR_EXHAUSTED : IMPMEM_OK;
}
