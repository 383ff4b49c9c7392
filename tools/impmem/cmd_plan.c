/* cmd_plan.c - `impmem plan`: a model file and a load in, a plan or its failure out. */
#include "command.h"
#include "plan_verb.h"

static int answer(const plan_prepared *prepared)
{
    const plan_question *question = &prepared->question;
    impmem_plan plan = IMPMEM_PLAN_INIT;
    impmem_plan_failure failure = IMPMEM_PLAN_FAILURE_INIT;
    impmem_status st = impmem_plan_memory(&prepared->input, &plan, &failure);
    if (st && st != IMPMEM_ERR_DOES_NOT_FIT) return plan_refuse_input(prepared, &failure.why);
    bool fits = st == IMPMEM_OK;
    plan_opening opening;
    bool opened = fits && question->flags->open;
    if (opened) plan_open_on_fake(&plan, &opening);
    impmem_status written = (question->flags->json ? plan_print_json : plan_print_text)(
        question, fits ? &plan : NULL, fits ? NULL : &failure, opened ? &opening : NULL);
    bool yes = fits && (!opened || opening.good);
    if (written) {
        command_complain("standard output: %s, the answer is incomplete", impmem_status_message(written));
        return COMMAND_FILE;
    }
    return command_finish_output(yes ? COMMAND_DONE : COMMAND_NO);
}

int command_plan(int argc, char **argv)
{
    plan_flags flags;
    plan_flags_parse(argc, argv, &flags);
    if (flags.engine) return plan_engine(&flags);
    plan_prepared prepared;
    int code = plan_prepare(&flags, &prepared);
    if (code) return code;
    code = answer(&prepared);
    plan_prepared_close(&prepared);
    return code;
}
