/* plan_rank_table.c - `impmem plan` over several devices: a plan a rank, one table of them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "core/json.h"
#include "impmem/bytes.h"
#include "impmem/plan_report.h"
#include "plan/ranks.h"
#include "plan_verb.h"

typedef struct ranks {
    const plan_prepared *prepared;
    impmem_layout layout;
    impmem_ranks_summary summary;
    impmem_plan *plan;
    impmem_rank rank[IMPMEM_MAX_RANKS];
    impmem_plan_failure failure; /* of the refused rank */
} ranks;

static const char *mib(uint64_t bytes, char *buffer)
{
    impmem_format_mib(bytes, buffer, 32);
    *strchr(buffer, ' ') = '\0'; /* the head of the table says the unit */
    return buffer;
}

static void fill_layout(ranks *r)
{
    const plan_layout_flags *flags = &r->prepared->question.flags->layout;
    const impmem_model_shape *shape = impmem_model_shape_of(r->prepared->model);
    r->layout = (impmem_layout)IMPMEM_LAYOUT_INIT;
    r->layout.tp = flags->tp;
    r->layout.pp = flags->pp;
    r->layout.ep = flags->ep;
    r->layout.stage_layers = flags->n_stages ? flags->stage_layers : NULL;
    r->layout.budget_bytes = flags->n_budgets ? flags->budget_bytes : NULL;
    if (flags->ep > 1) r->layout.expert_bytes = plan_expert_bytes(shape);
}

static impmem_status print_text(const ranks *r)
{
    char text[32];
    plan_print_head(&r->prepared->question);
    const impmem_plan *plan = &r->plan[r->summary.tightest];
    printf("fits: %" PRIu32 " ranks, each with %" PRIu64 " KV blocks of %" PRIu32 " tokens: %" PRIu64
           " sequence%s at %" PRIu32 " tokens; %s MiB are stranded\n\n",
           r->summary.n_ranks, r->summary.kv_blocks, plan->block_tokens, plan->sequences_at_max,
           plan->sequences_at_max == 1 ? "" : "s", plan->max_seq_tokens, mib(r->summary.stranded_bytes, text));
    impmem_status st = impmem_plan_write_ranks(r->plan, r->rank, &r->summary, impmem_write_file, stdout);
    if (r->layout.expert_bytes)
        printf("  estimated: %s MiB of the weights are routed experts\n", mib(r->layout.expert_bytes, text));
    return st;
}

static impmem_status print_json(const ranks *r)
{
    printf("{\"fits\": true,\n");
    impmem_status st = plan_print_head_json(&r->prepared->question);
    printf(",\n\"kv_blocks\": %" PRIu64 ", \"tightest\": %" PRIu32 ", \"stranded_bytes\": %" PRIu64 ",\n\"ranks\": [",
           r->summary.kv_blocks, r->summary.tightest, r->summary.stranded_bytes);
    for (uint32_t i = 0; i < r->summary.n_ranks && !st; i++) {
        const impmem_rank *rank = &r->rank[i];
        printf("%s\n{\"rank\": %" PRIu32 ", \"stage\": %" PRIu32 ", \"place\": %" PRIu32 ", \"first_layer\": %" PRIu32
               ", \"layers\": %" PRIu32 ", \"kv_copies\": %" PRIu32 ", \"weight_bytes\": %" PRIu64
               ", \"budget_bytes\": %" PRIu64 ", \"stranded_bytes\": %" PRIu64 ", \"plan\": ",
               i ? "," : "", i, rank->stage, rank->place, rank->first_layer, rank->n_layers, rank->kv_copies,
               rank->weight_bytes, rank->budget_bytes, rank->stranded_bytes);
        st = impmem_plan_write_json(&r->plan[i], impmem_write_file, stdout);
        printf("}");
    }
    printf("]}\n");
    return st;
}

/* What that rank alone would say, levers included; tp is what is asked already. False: it fits, or there is no memory. */
static bool plan_rank_alone(const ranks *r, uint32_t rank, impmem_plan_failure *failure)
{
    impmem__rank_input *input = malloc(sizeof *input);
    impmem_plan plan = IMPMEM_PLAN_INIT;
    *failure = (impmem_plan_failure)IMPMEM_PLAN_FAILURE_INIT;
    bool refused = false;
    if (input && impmem__rank_input_of(&r->prepared->input, &r->layout, rank, input, NULL) == IMPMEM_OK) {
        input->features.tp_devices = 0;
        refused = impmem_plan_memory(&input->input, &plan, failure) == IMPMEM_ERR_DOES_NOT_FIT;
    }
    free(input);
    return refused;
}

/* Tries the lever of the refused rank on all; where another rank then is refused, the change that this one needs, and so on. */
static bool prove_lever(ranks *r, impmem_lever *lever)
{
    if (lever->kind == IMPMEM_LEVER_BUDGET && r->layout.budget_bytes) return false; /* each rank has its own */
    impmem_plan_failure other;
    for (uint32_t tries = 0; tries < r->summary.n_ranks; tries++) {
        impmem_plan_input input = r->prepared->input;
        impmem_plan_features features;
        impmem_ranks_summary summary = {.n_ranks = 0};
        if (impmem_lever_apply(lever, &input, &features)) return false;
        impmem_status st = impmem_plan_ranks(&input, &r->layout, r->plan, r->rank, IMPMEM_MAX_RANKS, &summary, NULL);
        if (st == IMPMEM_OK) return true;
        if (st != IMPMEM_ERR_DOES_NOT_FIT || !plan_rank_alone(r, summary.refused, &other)) return false;
        uint32_t i = 0;
        while (i < other.n_levers && (other.lever[i].kind != lever->kind || other.lever[i].second != lever->second)) i++;
        if (i == other.n_levers) return false;
        *lever = other.lever[i];
    }
    return false;
}

/* The refused rank's own report, with levers that were tried on all ranks. */
static int refuse(ranks *r)
{
    const plan_prepared *prepared = r->prepared;
    impmem_plan_failure failure;
    if (plan_rank_alone(r, r->summary.refused, &failure)) {
        r->failure = failure;
        r->failure.n_levers = 0;
        for (uint32_t i = 0; i < failure.n_levers; i++)
            if (prove_lever(r, &failure.lever[i])) r->failure.lever[r->failure.n_levers++] = failure.lever[i];
    }
    if (!prepared->question.flags->json) {
        printf("rank %" PRIu32 " of %" PRIu32 " does not fit; the lines are this rank's, the changes were tried on all\n\n",
               r->summary.refused, r->summary.n_ranks);
        return plan_print_failure(prepared, &r->failure);
    }
    printf("{\"fits\": false, \"refused_rank\": %" PRIu32 ",\n", r->summary.refused);
    impmem_status st = plan_print_head_json(&prepared->question);
    printf(",\n\"failure\": ");
    if (!st) st = impmem_plan_failure_write_json(&r->failure, impmem_write_file, stdout);
    printf("}\n");
    return command_finish_answer(st == r->failure.why.status ? IMPMEM_OK : st, COMMAND_NO);
}

static int answer(ranks *r)
{
    impmem_status st = impmem_plan_ranks(&r->prepared->input, &r->layout, r->plan, r->rank, IMPMEM_MAX_RANKS, &r->summary,
                                         &r->failure);
    if (st == IMPMEM_ERR_DOES_NOT_FIT) return refuse(r);
    if (st) return plan_refuse_input(r->prepared, &r->failure.why);
    return command_finish_answer((r->prepared->question.flags->json ? print_json : print_text)(r), COMMAND_DONE);
}

int plan_ranks(const plan_prepared *prepared)
{
    ranks *r = calloc(1, sizeof *r);
    impmem_plan *plans = calloc(IMPMEM_MAX_RANKS, sizeof *plans);
    int code = COMMAND_NO;
    if (r && plans) {
        r->prepared = prepared;
        r->plan = plans;
        r->failure = (impmem_plan_failure)IMPMEM_PLAN_FAILURE_INIT;
        fill_layout(r);
        code = answer(r);
    } else {
        command_complain("out of host memory");
    }
    free(plans);
    free(r);
    return code;
}
