/* Plans and failures as text for an operator. */
#include <string.h>

#include "impmem/bytes.h"
#include "report/plan_internal.h"

#define DEVICE (1u << IMPMEM_ACCOUNT_DEVICE)
#define HOST (1u << IMPMEM_ACCOUNT_PINNED | 1u << IMPMEM_ACCOUNT_PAGEABLE)

static void print_state(impmem__text *text, const impmem_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_state_pools; i++) {
        const impmem_line *line = impmem_plan_find_line(plan, plan->state_pool[i].line);
        char mib[32];
        impmem__text_print(text, "  %s: %u slot%s of %s MiB\n", line ? line->name : "state", plan->state_pool[i].slots,
                           impmem__plural(plan->state_pool[i].slots),
                           impmem__text_mib(plan->state_pool[i].stride_bytes, mib));
    }
}

static void print_kv(impmem__text *text, const impmem_plan *plan)
{
    if (plan->n_kv_groups == 0) {
        impmem__text_print(text, "\n  KV: none\n");
        return;
    }
    impmem__text_print(text, "\n  KV holds %llu sequence%s at %u tokens (%llu blocks of %u tokens",
                       (unsigned long long)plan->sequences_at_max, impmem__plural(plan->sequences_at_max),
                       plan->max_seq_tokens, (unsigned long long)plan->kv_group[0].blocks, plan->block_tokens);
    for (uint32_t g = 0; g < plan->n_kv_groups; g++)
        if (plan->kv_group[g].window_tokens > 0)
            impmem__text_print(text, "%s window of %u: %llu", g == 0 ? "," : ", and", plan->kv_group[g].window_tokens,
                               (unsigned long long)plan->kv_group[g].blocks);
    impmem__text_print(text, ")\n");
    if (plan->kv_group[0].reserved_blocks > 0)
        impmem__text_print(text, "  of each pool %llu blocks are null, spare or fenced: no sequence can count on them\n",
                           (unsigned long long)plan->kv_group[0].reserved_blocks);
    for (uint32_t g = 0; g < plan->n_kv_groups; g++)
        if (plan->kv_group[g].capped_blocks > 0)
            impmem__text_print(text, "  %llu more blocks were asked for than the kernels' offsets reach\n",
                               (unsigned long long)plan->kv_group[g].capped_blocks);
    if (plan->sequences_at_max < plan->max_batch)
        impmem__text_print(text, "  fewer than the batch of %u: at full length the others wait\n", plan->max_batch);
}

impmem_status impmem_plan_write(const impmem_plan *plan, impmem_write_fn write, void *context)
{
    if (!plan || !write) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem__text text = {write, context, IMPMEM_OK};
    impmem__line_view lines = {plan->line, plan->n_lines};
    char total[32], budget[32], spare[32], peak[32];
    const uint64_t device_total = plan->total_bytes[IMPMEM_ACCOUNT_DEVICE];
    const uint64_t device_budget = plan->budget_bytes[IMPMEM_ACCOUNT_DEVICE];
    impmem__text_print(&text, "fits: %s MiB of %s, %s to spare\n\n", impmem__text_mib(device_total, total),
                       impmem__text_mib(device_budget, budget), impmem__text_mib(device_budget - device_total, spare));
    impmem__text_lines(&text, lines, DEVICE, "device");
    if (plan->load_peak_bytes > 0)
        impmem__text_print(&text, "    while loading, without KV: %s\n", impmem__text_mib(plan->load_peak_bytes, peak));
    impmem__text_print(&text, "\n");
    impmem__text_lines(&text, lines, HOST, "host");
    print_kv(&text, plan);
    print_state(&text, plan);
    return text.status;
}

static const char *lever_sign(const impmem_lever *lever)
{
    return lever->kind == IMPMEM_LEVER_BUDGET ? "+" : "";
}

/* What stands in the way where no change that a flag could make is enough. */
static void print_conflict(impmem__text *text, const impmem_plan_failure *failure)
{
    char least[32], gap[32], mib[32];
    if (failure->least_bytes == 0) return;
    if (failure->n_conflict == 0) {
        impmem__text_print(text, "\n  no two changes of the load are enough; the least needs %s MiB\n",
                           impmem__text_mib(failure->least_bytes, least));
        return;
    }
    impmem__text_print(text, "\n  no smaller load is enough: the least needs %s MiB, %s too much. Too much together:\n",
                       impmem__text_mib(failure->least_bytes, least), impmem__text_mib(failure->gap_bytes, gap));
    for (uint32_t i = 0; i < failure->n_conflict && i < IMPMEM_PLAN_MAX_CONFLICT; i++)
        impmem__text_print(text, "    %-32s %10s\n", failure->conflict[i].name,
                           impmem__text_mib(failure->conflict[i].bytes, mib));
}

static void print_levers(impmem__text *text, const impmem_plan_failure *failure)
{
    char mib[32], figure[40];
    print_conflict(text, failure);
    if (failure->n_levers == 0) {
        impmem__text_print(text, "\n  no single change makes it fit\n");
        return;
    }
    int width = 32;
    for (uint32_t i = 0; i < failure->n_levers && i < IMPMEM_PLAN_MAX_LEVERS; i++) {
        const int length = (int)strlen(failure->lever[i].flag);
        if (length > width) width = length;
    }
    impmem__text_print(text, "\n  %-*s %12s\n", width, "change one of", "frees MiB");
    for (uint32_t i = 0; i < failure->n_levers && i < IMPMEM_PLAN_MAX_LEVERS; i++) {
        const impmem_lever *lever = &failure->lever[i];
        impmem_text_buffer out = {figure, sizeof figure, 0};
        impmem__text sign = {impmem_write_buffer, &out, IMPMEM_OK};
        impmem__text_print(&sign, "%s%s", lever_sign(lever), impmem__text_mib(lever->frees_bytes, mib));
        impmem__text_print(text, "    %-*s %10s    (%s)\n", width, lever->flag, figure, lever->change);
    }
}

static void print_kv_within(impmem__text *text, const impmem_plan_failure *f)
{
    if (!impmem__lines_have_kv((impmem__line_view){f->line, f->n_lines})) {
        impmem__text_print(text, "\n  KV: none\n");
        return;
    }
    uint64_t blocks = 0;
    if (impmem_size_blocks_per_sequence(f->max_seq_tokens, f->block_tokens, 0, 0, &blocks)) return;
    blocks *= f->sequences_at_max;
    impmem__text_print(
        text, "\n  within the budget KV holds %llu sequence%s at %u tokens (%llu blocks of %u tokens); the batch is %u\n",
        (unsigned long long)f->sequences_at_max, impmem__plural(f->sequences_at_max), f->max_seq_tokens,
        (unsigned long long)blocks, f->block_tokens, f->max_batch);
}

impmem_status impmem_plan_failure_write(const impmem_plan_failure *failure, impmem_write_fn write, void *context)
{
    if (!failure || !write || failure->why.status == IMPMEM_OK) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem__text text = {write, context, IMPMEM_OK};
    if (failure->why.status != IMPMEM_ERR_DOES_NOT_FIT) {
        impmem__text_print(&text, "can't be planned: %s\n", failure->why.message);
        return text.status ? text.status : failure->why.status;
    }
    impmem__line_view lines = {failure->line, failure->n_lines};
    char over[32], budget[32];
    impmem__text_print(&text, "does not fit: over by %s MiB of %s", impmem__text_mib(failure->over_bytes, over),
                       impmem__text_mib(failure->budget_bytes, budget));
    if (failure->account != IMPMEM_ACCOUNT_DEVICE)
        impmem__text_print(&text, " (%s host memory)", impmem_account_name(failure->account));
    impmem__text_print(&text, "\n\n");
    impmem__text_lines(&text, lines, DEVICE, "needs");
    impmem__text_print(&text, "\n");
    impmem__text_lines(&text, lines, HOST, "needs on the host");
    print_kv_within(&text, failure);
    print_levers(&text, failure);
    return text.status ? text.status : failure->why.status;
}
