/* impmem_plan_memory: resolve, decide, write down; on refusal the same lines at the smallest promised load. */
#include "impmem/plan.h"

#include <string.h>

#include "core/internal.h"
#include "plan/internal.h"

static const impmem_line *largest_line(const impmem_plan *plan, impmem_account account)
{
    const impmem_line *largest = NULL;
    for (uint32_t i = 0; i < plan->n_lines; i++)
        if (plan->line[i].account == account && (!largest || plan->line[i].bytes > largest->bytes))
            largest = &plan->line[i];
    return largest;
}

static void fill_why(const impmem__decision *d, const impmem_plan *plan, impmem_plan_failure *out)
{
    char requested[32], budget[32], over[32], most[32];
    const impmem_line *largest = largest_line(plan, d->account);
    impmem_format_mib(d->requested_bytes, requested, sizeof requested);
    impmem_format_mib(out->budget_bytes, budget, sizeof budget);
    impmem_format_mib(out->over_bytes, over, sizeof over);
    impmem_format_mib(largest ? largest->bytes : 0, most, sizeof most);
    impmem__error_set(&out->why, IMPMEM_ERR_DOES_NOT_FIT, impmem_account_name(d->account),
                      "%s memory%s: needs %s of %s, over by %s; the largest line is %s with %s",
                      impmem_account_name(d->account), d->while_loading ? " while loading" : "", requested, budget, over,
                      largest ? largest->name : "none", most);
    impmem__error_bytes(&out->why, d->requested_bytes, out->budget_bytes);
    if (largest) impmem__error_line(&out->why, largest->id);
}

static void fill_failure(const impmem__terms *t, const impmem__decision *d, const impmem_plan *plan,
                         impmem_plan_failure *out)
{
    out->account = d->account;
    out->budget_bytes = t->budget_bytes[d->account];
    out->requested_bytes = d->requested_bytes;
    out->over_bytes = d->requested_bytes - out->budget_bytes;
    out->max_batch = t->load.batch;
    out->max_seq_tokens = t->load.context;
    out->block_tokens = t->block_tokens;
    out->prefill_tokens = t->load.tokens;
    out->kv_dtype_k = t->k;
    out->kv_dtype_v = t->v;
    out->sequences_at_max = impmem__plan_sequences_beside(t);
    out->n_lines = plan->n_lines;
    memcpy(out->line, plan->line, plan->n_lines * sizeof plan->line[0]);
    fill_why(d, plan, out);
}

static impmem_status plan_memory(const impmem_plan_input *input, impmem_plan *out, impmem_plan_failure *failure,
                                 bool levers)
{
    impmem_plan plan;
    impmem__terms terms;
    impmem__decision decision;
    impmem_error why = IMPMEM_ERROR_INIT;
    if (failure) {
        impmem_status bad = impmem__options_check(failure->size, failure->version, sizeof *failure, 1);
        if (bad) return bad;
    }
    impmem_status st = out ? impmem__options_check(out->size, out->version, sizeof *out, 1) : IMPMEM_ERR_INVALID_ARGUMENT;
    if (st) impmem__error_set(&why, st, "out", "the plan to write is NULL or of another version than this library's");
    else st = impmem__plan_resolve(input, &terms, &why);
    if (!st) st = impmem__plan_decide(&terms, &decision, &plan, &why);
    if (!st) st = impmem__plan_emit(&terms, &decision, true, &plan, &why);
    if (!st && decision.fits) {
        memcpy(out, &plan, sizeof plan); /* padding too: equal inputs give equal bytes */
        return IMPMEM_OK;
    }
    if (failure) {
        memset(failure, 0, sizeof *failure);
        failure->size = sizeof *failure;
        failure->version = 1;
        failure->why = why;
        if (!st) fill_failure(&terms, &decision, &plan, failure);
        if (!st && levers) impmem__plan_levers(input, &terms, &decision, &plan, failure);
    }
    return st ? st : IMPMEM_ERR_DOES_NOT_FIT;
}

impmem_status impmem_plan_memory(const impmem_plan_input *input, impmem_plan *out, impmem_plan_failure *failure)
{
    return plan_memory(input, out, failure, true);
}

impmem_status impmem_plan_memory_only(const impmem_plan_input *input, impmem_plan *out, impmem_plan_failure *failure)
{
    return plan_memory(input, out, failure, false);
}

impmem_lines impmem_plan_lines(const impmem_plan *plan)
{
    impmem_lines lines = {NULL, 0, {UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    if (!plan) return lines;
    lines.line = plan->line;
    lines.n_lines = plan->n_lines;
    for (uint32_t a = 0; a < IMPMEM_N_ACCOUNTS; a++) lines.budget_bytes[a] = plan->budget_bytes[a];
    return lines;
}

const impmem_line *impmem_plan_find_line(const impmem_plan *plan, impmem_line_id id)
{
    for (uint32_t i = 0; plan && i < plan->n_lines; i++)
        if (plan->line[i].id == id) return &plan->line[i];
    return NULL;
}
