/* Plans as answers to further questions: where figures come from, what differs, what each device holds. */
#include <string.h>

#include "impmem/bytes.h"
#include "report/plan_internal.h"

impmem_status impmem_plan_write_explained(const impmem_plan_input *input, const impmem_plan *plan, impmem_write_fn write,
                                          void *context)
{
    if (!input || !plan || !write || plan->n_lines > IMPMEM_PLAN_MAX_LINES) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem__text text = {write, context, IMPMEM_OK};
    for (uint32_t i = 0; i < plan->n_lines && !text.status; i++) {
        const impmem_line *line = &plan->line[i];
        impmem_explanation e;
        char mib[32];
        impmem_status st = impmem_plan_explain(input, plan, line->id, &e, NULL);
        if (st) return st;
        impmem__text_print(&text, "%s: %s MiB, %llu bytes\n    %s\n", line->name, impmem__text_mib(line->bytes, mib),
                           (unsigned long long)line->bytes, e.formula);
        for (uint32_t o = 0; o < e.n_operands; o++)
            impmem__text_print(&text, "        %-20s %20llu\n", e.operand[o].name, (unsigned long long)e.operand[o].value);
    }
    return text.status;
}

static uint64_t distance(const impmem_plan_diff_row *row)
{
    return row->a_bytes > row->b_bytes ? row->a_bytes - row->b_bytes : row->b_bytes - row->a_bytes;
}

static void print_row(impmem__text *text, const char *name, uint64_t a, uint64_t b)
{
    char a_mib[32], b_mib[32], change[32], signed_change[40];
    impmem_text_buffer out = {signed_change, sizeof signed_change, 0};
    impmem__text sign = {impmem_write_buffer, &out, IMPMEM_OK};
    impmem__text_print(&sign, "%s%s", a > b ? "-" : "+", impmem__text_mib(a > b ? a - b : b - a, change));
    impmem__text_print(text, "    %-32s %12s %12s %12s\n", name, impmem__text_mib(a, a_mib), impmem__text_mib(b, b_mib),
                       signed_change);
}

/* The row with the largest difference that comes after `last` in the order of printing; NULL at the end. */
static const impmem_plan_diff_row *next_row(const impmem_plan_diff_row *rows, uint32_t n, const impmem_plan_diff_row *last)
{
    const impmem_plan_diff_row *best = NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (distance(&rows[i]) == 0) continue;
        if (last && (distance(&rows[i]) > distance(last) || (distance(&rows[i]) == distance(last) && &rows[i] <= last)))
            continue;
        if (!best || distance(&rows[i]) > distance(best)) best = &rows[i];
    }
    return best;
}

impmem_status impmem_plan_write_difference(const impmem_plan *a, const impmem_plan *b, impmem_write_fn write, void *context)
{
    if (!a || !b || !write) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem_plan_diff_row rows[2 * IMPMEM_PLAN_MAX_LINES];
    uint32_t n = 0, same = 0;
    impmem_status st = impmem_plan_diff(a, b, rows, 2 * IMPMEM_PLAN_MAX_LINES, &n);
    if (st) return st;
    impmem__text text = {write, context, IMPMEM_OK};
    impmem__text_print(&text, "  %-34s %12s %12s %12s\n", "MiB", "first", "second", "difference");
    for (const impmem_plan_diff_row *row = next_row(rows, n, NULL); row; row = next_row(rows, n, row))
        print_row(&text, row->name, row->a_bytes, row->b_bytes);
    for (uint32_t i = 0; i < n; i++) same += distance(&rows[i]) == 0;
    for (uint32_t account = 0; account < IMPMEM_N_ACCOUNTS; account++) {
        if (a->total_bytes[account] == 0 && b->total_bytes[account] == 0) continue;
        char name[48];
        impmem_text_buffer out = {name, sizeof name, 0};
        impmem__text label = {impmem_write_buffer, &out, IMPMEM_OK};
        impmem__text_print(&label, "total, %s", impmem_account_name((impmem_account)account));
        print_row(&text, name, a->total_bytes[account], b->total_bytes[account]);
    }
    impmem__text_print(&text, "  %u lines are the same in both\n", same);
    return text.status;
}

static uint64_t pool_bytes(const impmem_plan *plan)
{
    uint64_t sum = 0;
    for (uint32_t r = 0; r < plan->n_regions && r < IMPMEM_PLAN_MAX_REGIONS; r++)
        if (plan->region[r].tier == IMPMEM_TIER_POOL) sum += plan->region[r].bytes;
    return sum;
}

/* What ends them: the demand, or the rank that has the least room. */
static void print_blocks(impmem__text *text, const impmem_plan *plans, const impmem_ranks_summary *summary)
{
    const impmem_plan *plan = &plans[summary->tightest];
    bool whole = true;
    for (uint32_t g = 0; g < plan->n_kv_groups; g++)
        if (plan->kv_group[g].blocks < plan->kv_group[g].blocks_demanded) whole = false;
    if (summary->kv_blocks == 0) return;
    if (whole)
        impmem__text_print(text, "  %llu blocks on every rank: all that the load asks for\n",
                           (unsigned long long)summary->kv_blocks);
    else
        impmem__text_print(text, "  %llu blocks on every rank; rank %u has no room for more\n",
                           (unsigned long long)summary->kv_blocks, summary->tightest);
}

/* A line for each run of ranks that are alike. */
static void print_copies(impmem__text *text, const impmem_rank *ranks, uint32_t n)
{
    for (uint32_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && ranks[next].kv_copies == ranks[i].kv_copies; next++) {}
        if (ranks[i].kv_copies <= 1) continue;
        impmem__text_print(text, "  ranks %u to %u: the same KV heads are held %u times\n", i, next - 1,
                           ranks[i].kv_copies);
    }
}

impmem_status impmem_plan_write_ranks(const impmem_plan *plans, const impmem_rank *ranks,
                                      const impmem_ranks_summary *summary, impmem_write_fn write, void *context)
{
    if (!plans || !ranks || !summary || !write) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem__text text = {write, context, IMPMEM_OK};
    impmem__text_print(&text, "  %-6s %-6s %-12s %12s %12s %12s %12s %12s\n", "rank", "stage", "layers", "weights",
                       "KV and state", "total MiB", "to spare", "stranded");
    for (uint32_t i = 0; i < summary->n_ranks; i++) {
        char layers[32], weights[32], pools[32], total[32], spare[32], stranded[32];
        const uint64_t taken = plans[i].total_bytes[IMPMEM_ACCOUNT_DEVICE];
        impmem_text_buffer out = {layers, sizeof layers, 0};
        impmem__text range = {impmem_write_buffer, &out, IMPMEM_OK};
        impmem__text_print(&range, "%u to %u", ranks[i].first_layer, ranks[i].first_layer + ranks[i].n_layers - 1);
        impmem__text_print(&text, "  %-6u %-6u %-12s %12s %12s %12s %12s %12s\n", i, ranks[i].stage, layers,
                           impmem__text_mib(ranks[i].weight_bytes, weights), impmem__text_mib(pool_bytes(&plans[i]), pools),
                           impmem__text_mib(taken, total),
                           impmem__text_mib(plans[i].budget_bytes[IMPMEM_ACCOUNT_DEVICE] - taken, spare),
                           impmem__text_mib(ranks[i].stranded_bytes, stranded));
    }
    print_blocks(&text, plans, summary);
    print_copies(&text, ranks, summary->n_ranks);
    return text.status;
}
