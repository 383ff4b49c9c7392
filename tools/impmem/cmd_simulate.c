/* cmd_simulate.c - `impmem simulate`: a planned model serves a load on a virtual clock, and accounts for every byte. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "simulate.h"
#include "simulate_flags.h"

static int load_requests(const simulate_flags *flags, trace *out)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    if (flags->trace_path) {
        if (!trace_load(flags->trace_path, flags->trace_block_tokens, out, &why)) return COMMAND_DONE;
        command_complain_file(flags->trace_path, &why);
        return COMMAND_FILE;
    }
    impmem_status st = simulate_load_make(flags->requests, flags->seed, out);
    if (!st) return COMMAND_DONE;
    command_bad_usage("--requests: the load could not be made: %s", impmem_status_message(st));
}

static int serve(const simulate_flags *flags, const impmem_plan *plan, const trace *load, simulate_result *result)
{
    simulate_world world;
    impmem_error why = IMPMEM_ERROR_INIT;
    progress bar;
    simulate_settings settings = {.load = load,
                                  .speed_thousandths = flags->speed_thousandths,
                                  .base_ns = flags->base_ns,
                                  .prefill_ns = flags->prefill_ns,
                                  .sequence_ns = flags->sequence_ns,
                                  .queue_limit = flags->queue_limit,
                                  .bar = &bar};
    const char *failed = simulate_world_open(plan, &world, &why);
    if (failed) {
        simulate_world_close(&world, result);
        command_complain("%s: %s: %s", flags->plan.model_path, failed,
                         why.message[0] ? why.message : impmem_status_message(why.status));
        return COMMAND_NO;
    }
    progress_begin(&bar, "simulate", load->n_requests);
    simulate_run(&world, &settings, result);
    progress_end(&bar);
    simulate_world_close(&world, result);
    simulate_question question = {&settings, plan, flags->trace_path, flags->seed, flags->report};
    if (!flags->plan.json) simulate_print_text(&question, result);
    else if (simulate_print_json(&question, result)) {
        command_complain("standard output: writing failed, the answer is incomplete");
        return COMMAND_FILE;
    }
    return command_finish_output(simulate_good(result) ? COMMAND_DONE : COMMAND_NO);
}

static int plan_and_serve(const simulate_flags *flags, const plan_prepared *prepared, const trace *load)
{
    impmem_plan plan = IMPMEM_PLAN_INIT;
    impmem_plan_failure failure = IMPMEM_PLAN_FAILURE_INIT;
    impmem_status st = impmem_plan_memory(&prepared->input, &plan, &failure);
    if (st == IMPMEM_ERR_DOES_NOT_FIT) return plan_print_failure(prepared, &failure);
    if (st) return plan_refuse_input(prepared, &failure.why);
    if (plan.n_kv_groups == 0) {
        command_complain("%s: no layer has a KV cache, so there is nothing to serve from; expected a model with attention",
                         flags->plan.model_path);
        return COMMAND_FILE;
    }
    simulate_result *result = calloc(1, sizeof *result);
    if (!result) {
        command_complain("out of host memory");
        return COMMAND_NO;
    }
    int code = serve(flags, &plan, load, result);
    free(result);
    return code;
}

int command_simulate(int argc, char **argv)
{
    simulate_flags flags;
    simulate_flags_parse(argc, argv, &flags);
    plan_prepared prepared;
    int code = plan_prepare(&flags.plan, &prepared);
    if (code) return code;
    prepared.input.kv_initial_percent = flags.kv_initial_percent;
    trace load;
    code = load_requests(&flags, &load);
    if (!code) {
        code = plan_and_serve(&flags, &prepared, &load);
        trace_free(&load);
    }
    plan_prepared_close(&prepared);
    return code;
}
