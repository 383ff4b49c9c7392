/* cmd_plan.c - `impmem plan`: a model file and a load in, a plan or its failure out, or another answer about it. */
#include "command.h"
#include "plan_verb.h"

static int answer(const plan_prepared *prepared)
{
    const plan_question *question = &prepared->question;
    const plan_flags *flags = question->flags;
    impmem_plan plan = IMPMEM_PLAN_INIT;
    impmem_plan_failure failure = IMPMEM_PLAN_FAILURE_INIT;
    impmem_status st = impmem_plan_memory(&prepared->input, &plan, &failure);
    if (st && st != IMPMEM_ERR_DOES_NOT_FIT) return plan_refuse_input(prepared, &failure.why);
    bool fits = st == IMPMEM_OK;
    if (flags->svg) {
        int code = plan_svg(question, &plan, fits ? NULL : &failure);
        if (code) return code;
    }
    if (!fits) return plan_print_failure(prepared, &failure);
    plan_opening opening;
    if (flags->open) plan_open_on_fake(&plan, &opening);
    impmem_status written = (flags->json ? plan_print_json : plan_print_text)(
        question, &plan, NULL, flags->open ? &opening : NULL, flags->explain ? &prepared->input : NULL);
    return command_finish_answer(written, !flags->open || opening.good ? COMMAND_DONE : COMMAND_NO);
}

int command_plan(int argc, char **argv)
{
    plan_flags flags;
    plan_flags_parse(argc, argv, &flags);
    if (flags.engine) return plan_engine(&flags);
    plan_prepared prepared;
    int code = plan_prepare(&flags, &prepared);
    if (code) return code;
    if (flags.cards) code = plan_cards(&prepared);
    else if (plan_flags_several_ranks(&flags)) code = plan_ranks(&prepared);
    else if (flags.against) code = plan_against(&prepared);
    else if (flags.observed) code = plan_observed(&prepared);
    else code = answer(&prepared);
    plan_prepared_close(&prepared);
    return code;
}
