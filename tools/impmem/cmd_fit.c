/* cmd_fit.c - `impmem fit`: the largest context at a batch, or the largest batch at a context, that fits a budget. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "core/json.h"
#include "impmem/bytes.h"
#include "impmem/plan_search.h"
#include "plan_verb.h"

static const struct argp_option options[] = {
    PLAN_FLAG_ROWS,
    {0, 0, 0, 0, "What to show:", 3},
    {"json", PLAN_KEY_JSON, 0, 0, "one JSON object on standard output", 3},
    FLAGS_HELP_OPTION,
    {0, 0, 0, 0, 0, 0},
};

static const char doc[] =
    "The largest load of MODEL that fits a memory budget: with --max-batch (or neither) the largest context at that many "
    "sequences, with --max-seq-len the largest batch at that context.\v"
    "The answer plans, and one block of context or one sequence more does not. When not even the smallest load fits, exits "
    "with 1 and the report of 'impmem plan'.";

static error_t parse(int key, char *argument, struct argp_state *state)
{
    return plan_flags_take(state->input, key, argument) ? 0 : flags_common(key, state);
}

static const struct argp fit_argp = {
    options, parse, "MODEL --budget SIZE [--max-batch N]\nMODEL --budget SIZE --max-seq-len N", doc, NULL, NULL, NULL};

static void fit_flags_parse(int argc, char **argv, plan_flags *out)
{
    memset(out, 0, sizeof *out);
    flags_parse(&fit_argp, "impmem fit", argc, argv, 0, out);
    plan_flags_require(out, "fit");
    if (plan_flags_several_ranks(out))
        command_bad_usage("fit: several devices are not searched; expected one, see --tp of 'impmem plan'");
    if (out->max_batch && out->max_seq_tokens)
        command_bad_usage("fit: --max-batch %" PRIu32 " and --max-seq-len %" PRIu32
                          " leave nothing to search; expected one of them (impmem plan takes both)",
                          out->max_batch, out->max_seq_tokens);
}

const char *plan_fit_limit_text(impmem_fit_limit limit)
{
    switch (limit) {
    case IMPMEM_FIT_BY_MEMORY: return "memory";
    case IMPMEM_FIT_BY_TRAINED: return "trained length";
    case IMPMEM_FIT_BY_NUMBERING: return "numbering";
    }
    return "?";
}

static impmem_status print_json(const plan_prepared *prepared, const impmem_plan *plan, impmem_fit_limit limit)
{
    impmem__json json;
    impmem__json_init(&json, impmem_write_file, stdout, 2);
    impmem__json_object_begin(&json);
    impmem__json_field_bool(&json, "fits", true);
    impmem__json_field_u64(&json, "max_seq_len", plan->max_seq_tokens);
    impmem__json_field_u64(&json, "max_batch", plan->max_batch);
    impmem__json_field_string(&json, "limited_by", plan_fit_limit_text(limit));
    impmem__json_field_u64(&json, "budget_bytes", plan->budget_bytes[IMPMEM_ACCOUNT_DEVICE]);
    impmem__json_field_u64(&json, "total_bytes", plan->total_bytes[IMPMEM_ACCOUNT_DEVICE]);
    impmem__json_field_u64(&json, "block_tokens", plan->block_tokens);
    impmem__json_field_string(&json, "model", prepared->question.flags->model_path);
    impmem__json_field_string(&json, "device", prepared->question.profile->name);
    impmem__json_field_bool(&json, "device_estimated", prepared->question.profile->estimated != 0);
    impmem__json_object_end(&json);
    impmem_status st = impmem__json_finish(&json);
    return st ? st : impmem_write_file(stdout, "\n", 1);
}

static void print_text(const plan_prepared *prepared, const impmem_plan *plan, impmem_fit_what what, impmem_fit_limit limit)
{
    const impmem_model_shape *shape = impmem_model_shape_of(prepared->model);
    const uint64_t total = plan->total_bytes[IMPMEM_ACCOUNT_DEVICE];
    const uint64_t budget = plan->budget_bytes[IMPMEM_ACCOUNT_DEVICE];
    char used[32], of[32], spare[32];
    if (what == IMPMEM_FIT_CONTEXT)
        printf("largest context: %" PRIu32 " tokens at a batch of %" PRIu32, plan->max_seq_tokens, plan->max_batch);
    else printf("largest batch: %" PRIu32 " sequences of %" PRIu32 " tokens", plan->max_batch, plan->max_seq_tokens);
    printf(", limited by %s\n", plan_fit_limit_text(limit));
    printf("%s of %s, %s to spare; device ", impmem_format_mib(total, used, sizeof used),
           impmem_format_mib(budget, of, sizeof of), impmem_format_mib(budget - total, spare, sizeof spare));
    plan_print_clean(prepared->question.profile->name);
    printf("%s\n", prepared->question.profile->estimated ? " (estimated)" : "");
    if (limit == IMPMEM_FIT_BY_TRAINED || shape->trained_context == 0) return;
    printf("the model was trained on %" PRIu32 " tokens\n", shape->trained_context);
}

/* The smallest load doesn't fit: what a plan of it would say, levers included. */
static int refuse(const plan_prepared *prepared, const impmem_plan_failure *least)
{
    impmem_plan plan = IMPMEM_PLAN_INIT;
    impmem_plan_failure failure = IMPMEM_PLAN_FAILURE_INIT;
    impmem_plan_input input = prepared->input;
    input.max_seq_tokens = least->max_seq_tokens;
    input.max_batch = least->max_batch;
    impmem_status st = impmem_plan_memory(&input, &plan, &failure);
    return plan_print_failure(prepared, st == IMPMEM_ERR_DOES_NOT_FIT ? &failure : least);
}

static int answer(const plan_prepared *prepared)
{
    const plan_flags *flags = prepared->question.flags;
    const impmem_fit_what what = flags->max_seq_tokens ? IMPMEM_FIT_BATCH : IMPMEM_FIT_CONTEXT;
    impmem_plan plan = IMPMEM_PLAN_INIT;
    impmem_plan_failure failure = IMPMEM_PLAN_FAILURE_INIT;
    impmem_fit_limit limit = IMPMEM_FIT_BY_MEMORY;
    impmem_plan_input input = prepared->input;
    uint64_t value = 0;
    impmem_status st = impmem_plan_fit(&input, what, &value, &limit, &failure);
    if (st == IMPMEM_ERR_DOES_NOT_FIT) return refuse(prepared, &failure);
    if (st) return plan_refuse_input(prepared, &failure.why);
    if (what == IMPMEM_FIT_CONTEXT) input.max_seq_tokens = (uint32_t)value;
    else input.max_batch = (uint32_t)value;
    st = impmem_plan_memory_only(&input, &plan, &failure);
    if (st) return plan_refuse_input(prepared, &failure.why);
    if (flags->json) st = print_json(prepared, &plan, limit);
    else print_text(prepared, &plan, what, limit);
    return command_finish_answer(st, COMMAND_DONE);
}

int command_fit(int argc, char **argv)
{
    plan_flags flags;
    fit_flags_parse(argc, argv, &flags);
    plan_prepared prepared;
    int code = plan_prepare_load(&flags, false, &prepared);
    if (code) return code;
    code = answer(&prepared);
    plan_prepared_close(&prepared);
    return code;
}
