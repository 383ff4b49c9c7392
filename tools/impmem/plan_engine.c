/* plan_engine.c - `impmem plan MODEL --engine NAME`: what another engine takes for KV and recurrent state, by its own rules. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "core/json.h"
#include "impmem/bytes.h"
#include "impmem/engine_profile.h"
#include "plan_verb.h"

typedef struct question {
    const plan_flags *flags;
    impmem_engine_kind kind;
    impmem_engine_profile_args args;
    impmem_model *model;
    impmem_engine_profile profile;
} question;

/* Flags that only a plan has; accepting them in silence would promise that they matter. */
static void refuse_plan_flags(const plan_flags *flags)
{
    const struct {
        const char *name;
        bool given;
    } only[] = {{"--budget", flags->has_budget},
                {"--max-batch", flags->max_batch != 0},
                {"--max-seq-len", flags->max_seq_tokens != 0},
                {"--kv-dtype", flags->kv_dtype_k != IMPMEM_DTYPE_DEFAULT},
                {"--block-size", flags->block_tokens != 0},
                {"--prefill-tokens", flags->prefill_tokens != 0},
                {"--promised-kv-tokens", flags->promised_kv_tokens != 0},
                {"--prefix-cache-tokens", flags->prefix_cache_tokens != 0},
                {"--device-profile", flags->profile_name != NULL},
                {"--granule", flags->granule_bytes != 0},
                {"--workspaces none", flags->no_workspaces},
                {"--line", flags->n_lines != 0},
                {"--open", flags->open},
                {"--cards", flags->cards},
                {"--explain", flags->explain},
                {"--svg", flags->svg != NULL},
                {"--against", flags->against != NULL},
                {"--observed", flags->observed != NULL},
                {"--tolerance", flags->has_tolerance}};
    if (flags->given_features)
        command_bad_usage(
            "--engine: not with features or several devices of a plan; expected the engine's own arguments in "
            "--engine-args");
    for (size_t i = 0; i < sizeof only / sizeof only[0]; i++)
        if (only[i].given)
            command_bad_usage("%s: not with --engine; expected the engine's own arguments in --engine-args", only[i].name);
}

static void read_flags(const plan_flags *flags, question *q)
{
    if (!flags->model_path) command_bad_usage("plan: no MODEL; expected a GGUF file, a model directory or a config.json");
    refuse_plan_flags(flags);
    if (impmem_engine_kind_parse(flags->engine, &q->kind))
        command_bad_usage("--engine: \"%s\" is unknown; expected llama.cpp, ik_llama.cpp, vllm or sglang", flags->engine);
    impmem_error why = IMPMEM_ERROR_INIT;
    if (flags->engine_args && impmem_engine_profile_parse_args(q->kind, flags->engine_args, &q->args, &why))
        command_bad_usage("--engine-args: %s", why.message);
}

/* A line that is out of 64 bits, or an argument that the geometry can't have, is the caller's; what the model's layers are is the
 * file's. */
static int refuse(const question *q, const impmem_error *why)
{
    bool of_model = why->status == IMPMEM_ERR_UNSUPPORTED || strncmp(why->subject, "layer", 5) == 0;
    if (of_model) {
        command_complain("%s: %s", q->flags->model_path, why->message);
        return COMMAND_FILE;
    }
    command_complain("--engine-args: %s", why->message);
    return COMMAND_USAGE;
}

static void json_line(impmem__json *json, const impmem_engine_profile_line *line)
{
    impmem_engine_unit unit = (impmem_engine_unit)line->unit;
    impmem__json_object_begin(json);
    impmem__json_field_string(json, "name", line->name);
    impmem__json_field_string(json, "unit", impmem_engine_unit_name(unit));
    if (unit == IMPMEM_ENGINE_UNIT_MILLIONTHS) impmem__json_field_double(json, "value", (double)line->value / 1e6);
    else impmem__json_field_u64(json, "value", line->value);
    impmem__json_key(json, "layers");
    if (line->layers) impmem__json_u64(json, line->layers);
    else impmem__json_null(json);
    impmem__json_field_string(json, "how", line->how);
    impmem__json_object_end(json);
}

static impmem_status print_json(const question *q)
{
    const impmem_model_shape *shape = impmem_model_shape_of(q->model);
    impmem__json json;
    impmem__json_init(&json, impmem_write_file, stdout, 2);
    impmem__json_object_begin(&json);
    impmem__json_key(&json, "model");
    impmem__json_object_begin(&json);
    impmem__json_field_string(&json, "path", q->flags->model_path);
    impmem__json_field_string(&json, "name", shape->name);
    impmem__json_field_string(&json, "architecture", shape->architecture);
    impmem__json_field_string(&json, "format", impmem_model_format(q->model));
    impmem__json_field_u64(&json, "layers", shape->n_layers);
    impmem__json_field_u64(&json, "trained_context", shape->trained_context);
    impmem__json_key(&json, "notes");
    impmem__json_array_begin(&json);
    for (uint32_t i = 0; impmem_model_note(q->model, i); i++) impmem__json_string(&json, impmem_model_note(q->model, i));
    impmem__json_array_end(&json);
    impmem__json_object_end(&json);
    impmem__json_field_string(&json, "engine", impmem_engine_kind_name(q->kind));
    impmem__json_field_string(&json, "engine_args", q->flags->engine_args ? q->flags->engine_args : "");
    impmem__json_key(&json, "lines");
    impmem__json_array_begin(&json);
    for (uint32_t i = 0; i < q->profile.n_lines; i++) json_line(&json, &q->profile.line[i]);
    impmem__json_array_end(&json);
    impmem__json_object_end(&json);
    impmem_status st = impmem__json_finish(&json);
    return st ? st : impmem_write_file(stdout, "\n", 1);
}

static void print_value(const impmem_engine_profile_line *line)
{
    char mib[32];
    switch ((impmem_engine_unit)line->unit) {
    case IMPMEM_ENGINE_UNIT_BYTES:
        /* A page of a few KiB would show as 0.1 MiB. */
        if (line->value < IMPMEM_MIB) printf("%12" PRIu64 " B", line->value);
        else printf("%14s", impmem_format_mib(line->value, mib, sizeof mib));
        return;
    case IMPMEM_ENGINE_UNIT_MILLIONTHS: printf("%14.4f", (double)line->value / 1e6); return;
    case IMPMEM_ENGINE_UNIT_TOKENS:
    case IMPMEM_ENGINE_UNIT_CELLS:
    case IMPMEM_ENGINE_UNIT_BLOCKS:
    case IMPMEM_ENGINE_UNIT_COUNT: printf("%14" PRIu64, line->value); return;
    }
}

static impmem_status print_text(const question *q)
{
    const impmem_model_shape *shape = impmem_model_shape_of(q->model);
    printf("model   ");
    plan_print_clean(shape->name[0] ? shape->name : q->flags->model_path);
    printf(", architecture ");
    plan_print_clean(shape->architecture[0] ? shape->architecture : "not stated");
    printf(", %s\n", impmem_model_format(q->model));
    for (uint32_t i = 0; impmem_model_note(q->model, i); i++) {
        printf("        estimated: ");
        plan_print_clean(impmem_model_note(q->model, i));
        printf("\n");
    }
    printf("engine  %s, ", impmem_engine_kind_name(q->kind));
    plan_print_clean(q->flags->engine_args ? q->flags->engine_args : "its defaults");
    printf("\n\n");
    for (uint32_t i = 0; i < q->profile.n_lines; i++) {
        const impmem_engine_profile_line *line = &q->profile.line[i];
        impmem_engine_unit unit = (impmem_engine_unit)line->unit;
        bool bare = unit == IMPMEM_ENGINE_UNIT_BYTES || unit == IMPMEM_ENGINE_UNIT_MILLIONTHS ||
                    unit == IMPMEM_ENGINE_UNIT_COUNT;
        printf("  %-20s", line->name);
        print_value(line);
        printf(" %-6s  %s\n", bare ? "" : impmem_engine_unit_name(unit), line->how);
    }
    return ferror(stdout) ? IMPMEM_ERR_IO : IMPMEM_OK;
}

int plan_engine(const plan_flags *flags)
{
    question q;
    memset(&q, 0, sizeof q); /* zeroed arguments are the engine's defaults */
    q.flags = flags;
    read_flags(flags, &q);
    impmem_error why = IMPMEM_ERROR_INIT;
    if (impmem_model_read(flags->model_path, &q.model, &why)) {
        command_complain_file(flags->model_path, &why);
        return COMMAND_FILE;
    }
    int code = COMMAND_DONE;
    if (impmem_shape_check(impmem_model_shape_of(q.model), &why)) {
        command_complain("%s: %s: %s", flags->model_path, why.subject, why.message);
        code = COMMAND_FILE;
    } else if (impmem_engine_profile_predict(q.kind, impmem_model_shape_of(q.model), &q.args, &q.profile, &why)) {
        code = refuse(&q, &why);
    }
    impmem_status written = code ? IMPMEM_OK : (flags->json ? print_json : print_text)(&q);
    impmem_model_destroy(q.model);
    if (code) return code;
    return command_finish_answer(written, COMMAND_DONE);
}
