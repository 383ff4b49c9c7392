/* plan_prepare.c - from flags to the planner's input: model file, device profile, the engine's own buffers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "plan_verb.h"
#include "profile.h"

/* The engine's own buffers: the reference engine's, then those of --line, with ids that follow. */
static int collect_demands(const plan_flags *flags, const impmem_model_shape *shape, impmem_demand *demands,
                           uint32_t *out_n)
{
    uint32_t n = 0;
    impmem_line_id next = IMPMEM_LINE_USER;
    if (!flags->no_workspaces) {
        impmem_status st = impmem_reference_demands(shape, demands, IMPMEM_PLAN_MAX_DEMANDS, &n);
        if (st) {
            command_complain(
                "%s: the reference engine's workspaces can't be sized: %s; --workspaces none plans without them",
                flags->model_path, impmem_status_message(st));
            return COMMAND_FILE;
        }
    }
    for (uint32_t i = 0; i < n; i++)
        if (demands[i].id >= next) next = demands[i].id + 1;
    for (uint32_t i = 0; i < flags->n_lines; i++) {
        if (n == IMPMEM_PLAN_MAX_DEMANDS)
            command_bad_usage("--line: %u lines beside the reference workspaces are too many; expected at most %u in all",
                              flags->n_lines, IMPMEM_PLAN_MAX_DEMANDS);
        impmem_demand *demand = &demands[n++];
        memset(demand, 0, sizeof *demand);
        demand->id = next++;
        demand->tier = flags->line[i].tier;
        demand->bytes = flags->line[i].bytes;
        snprintf(demand->name, sizeof demand->name, "%s", flags->line[i].name);
        snprintf(demand->how, sizeof demand->how, "--line, %" PRIu64 " bytes", flags->line[i].bytes);
    }
    *out_n = n;
    return COMMAND_DONE;
}

static impmem_plan_input make_input(const plan_prepared *p, uint32_t n_demands)
{
    const plan_question *question = &p->question;
    const plan_flags *flags = question->flags;
    impmem_plan_input input = IMPMEM_PLAN_INPUT_INIT;
    input.model = impmem_model_shape_of(question->model);
    input.budget_bytes = flags->budget_bytes;
    input.max_batch = flags->max_batch;
    input.max_seq_tokens = flags->max_seq_tokens;
    input.block_tokens = flags->block_tokens;
    input.prefill_tokens = flags->prefill_tokens;
    input.kv_dtype_k = flags->kv_dtype_k;
    input.kv_dtype_v = flags->kv_dtype_v;
    input.promised_kv_tokens = flags->promised_kv_tokens;
    input.prefix_cache_tokens = flags->prefix_cache_tokens;
    input.demand = p->demand;
    input.n_demands = n_demands;
    input.n_must_fit = flags->feature.n_must_fit;
    input.must_fit = flags->feature.n_must_fit ? flags->feature.must_fit : NULL;
    input.typical = flags->feature.typical;
    input.features = &p->features;
    impmem_plan_input_use_profile(&input, question->profile);
    if (flags->granule_bytes) input.granule_bytes = flags->granule_bytes;
    return input;
}

/* What can't be planned whatever the flags say. */
static int check_model(const plan_flags *flags, bool needs_context, const impmem_model *model)
{
    const impmem_model_shape *shape = impmem_model_shape_of(model);
    impmem_error why = IMPMEM_ERROR_INIT;
    if (shape->weight_source == IMPMEM_SOURCE_UNKNOWN || shape->weight_bytes == 0) {
        command_complain("%s: the file holds no tensors (a vocabulary only?); expected a model with weights",
                         flags->model_path);
        return COMMAND_FILE;
    }
    if (impmem_shape_check(shape, &why)) {
        command_complain("%s: %s: %s", flags->model_path, why.subject, why.message);
        return COMMAND_FILE;
    }
    if (needs_context && !flags->max_seq_tokens && !shape->trained_context)
        command_bad_usage("plan: %s does not tell its trained context; expected --max-seq-len N", flags->model_path);
    return COMMAND_DONE;
}

/* The flag that a field of the planner's input comes from, so that the message names what was typed; NULL: no single one. */
static const char *flag_of_field(const char *field)
{
    static const struct {
        const char *field, *flag;
    } known[] = {{"graphs", "--graphs"},
                 {"weight_cache", "--weight-cache"},
                 {"draft", "--draft"},
                 {"must_fit", "--must-fit"},
                 {"typical", "--typical"},
                 {"communication_bytes", "--communication"},
                 {"vision_images", "--images"},
                 {"tp", "--tp"},
                 {"ep", "--ep"},
                 {"pp", "--pp"},
                 {"stage_layers", "--pp"},
                 {"tp x pp", "--tp x --pp"},
                 {"expert_bytes", "--ep"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].field, field) == 0) return known[i].flag;
    return NULL;
}

/* The planner takes the input for nonsense. It is the model's fault when the smallest load of it is nonsense too. */
int plan_refuse_input(const plan_prepared *prepared, const impmem_error *why)
{
    impmem_plan_input smallest = IMPMEM_PLAN_INPUT_INIT;
    smallest.model = prepared->input.model;
    smallest.max_seq_tokens = 1;
    smallest.granule_bytes = prepared->input.granule_bytes;
    impmem_plan plan = IMPMEM_PLAN_INIT;
    impmem_plan_failure failure = IMPMEM_PLAN_FAILURE_INIT;
    impmem_status st = impmem_plan_memory_only(&smallest, &plan, &failure);
    if (st == IMPMEM_OK || st == IMPMEM_ERR_DOES_NOT_FIT) {
        const char *flag = flag_of_field(why->subject);
        command_complain("%s: %s", flag ? flag : "plan", why->message);
        return COMMAND_USAGE;
    }
    command_complain("%s: %s", prepared->question.flags->model_path, failure.why.message);
    return COMMAND_FILE;
}

static int prepare_input(plan_prepared *p, bool needs_context)
{
    const plan_flags *flags = p->question.flags;
    int code = check_model(flags, needs_context, p->model);
    uint32_t n_demands = 0;
    if (!code) code = plan_features_prepare(flags, p);
    if (!code) code = collect_demands(flags, impmem_model_shape_of(p->model), p->demand, &n_demands);
    if (!code) p->input = make_input(p, n_demands);
    return code;
}

int plan_prepare(const plan_flags *flags, plan_prepared *out)
{
    return plan_prepare_load(flags, true, out);
}

int plan_prepare_load(const plan_flags *flags, bool needs_context, plan_prepared *out)
{
    out->profile = *impmem_device_profile_at(0);
    out->model = out->draft = NULL;
    if (flags->profile_name) {
        int code = profile_load(flags->profile_name, &out->profile);
        if (code) return code;
    }
    impmem_error why = IMPMEM_ERROR_INIT;
    if (impmem_model_read(flags->model_path, &out->model, &why)) {
        command_complain_file(flags->model_path, &why);
        return COMMAND_FILE;
    }
    out->question = (plan_question){flags, out->model, &out->profile};
    int code = prepare_input(out, needs_context);
    if (code) plan_prepared_close(out);
    return code;
}

void plan_prepared_close(plan_prepared *prepared)
{
    impmem_model_destroy(prepared->model);
    impmem_model_destroy(prepared->draft);
    prepared->model = prepared->draft = NULL;
}
