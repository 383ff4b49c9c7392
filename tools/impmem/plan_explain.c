/* plan_explain.c - `impmem plan --explain`: where each line's figure comes from. */
#include <stdio.h>
#include <string.h>

#include "core/json.h"
#include "impmem/explain.h"
#include "plan_verb.h"

void plan_of_failure(const impmem_plan_failure *failure, impmem_plan *out)
{
    *out = (impmem_plan)IMPMEM_PLAN_INIT;
    out->max_batch = failure->max_batch;
    out->max_seq_tokens = failure->max_seq_tokens;
    out->block_tokens = failure->block_tokens;
    out->prefill_tokens = failure->prefill_tokens;
    out->kv_dtype_k = failure->kv_dtype_k;
    out->kv_dtype_v = failure->kv_dtype_v;
    for (uint32_t a = 0; a < IMPMEM_N_ACCOUNTS; a++) out->budget_bytes[a] = UINT64_MAX;
    out->budget_bytes[failure->account] = failure->budget_bytes;
    out->n_lines = failure->n_lines;
    memcpy(out->line, failure->line, sizeof out->line);
    for (uint32_t i = 0; i < out->n_lines; i++)
        if (!(out->line[i].flags & IMPMEM_LINE_TRANSIENT)) out->total_bytes[out->line[i].account] += out->line[i].bytes;
}

/* What rounding is, a failure no longer tells: it has no regions. */
static void drop_rounding(impmem_plan *plan)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < plan->n_lines; i++) {
        const impmem_line_id id = plan->line[i].id;
        if (id < IMPMEM_LINE_ROUNDING || id >= IMPMEM_LINE_ROUNDING + IMPMEM_PLAN_MAX_REGIONS)
            plan->line[kept++] = plan->line[i];
    }
    plan->n_lines = kept;
}

void plan_to_explain(const impmem_plan_failure *failure, impmem_plan *out)
{
    plan_of_failure(failure, out);
    drop_rounding(out);
}

impmem_status plan_json_explained(const impmem_plan_input *input, const impmem_plan *plan)
{
    impmem__json json;
    impmem__json_init(&json, impmem_write_file, stdout, 0);
    impmem__json_array_begin(&json);
    for (uint32_t i = 0; i < plan->n_lines; i++) {
        impmem_explanation e;
        impmem_status st = impmem_plan_explain(input, plan, plan->line[i].id, &e, NULL);
        if (st) return st;
        impmem__json_object_begin(&json);
        impmem__json_field_u64(&json, "id", plan->line[i].id);
        impmem__json_field_string(&json, "name", plan->line[i].name);
        impmem__json_field_u64(&json, "bytes", plan->line[i].bytes);
        impmem__json_field_string(&json, "formula", e.formula);
        impmem__json_key(&json, "operands");
        impmem__json_object_begin(&json);
        for (uint32_t o = 0; o < e.n_operands; o++) impmem__json_field_u64(&json, e.operand[o].name, e.operand[o].value);
        impmem__json_object_end(&json);
        impmem__json_object_end(&json);
    }
    impmem__json_array_end(&json);
    return impmem__json_finish(&json);
}
