/* plan_flags.c - the flags that say what to plan, and those of `impmem plan`. */
#include <string.h>

#include "command.h"
#include "impmem/bytes.h"
#include "plan_verb.h"

/* Ranges of what is counted in 32 bits; the planner's own limits are tighter for some models, and say so. */
#define MAX_SEQUENCES 1048576u
#define MAX_TOKENS 2147483647u
#define MAX_POOL_TOKENS ((uint64_t)1 << 50)

static const struct argp_option options[] = {
    PLAN_FLAG_ROWS,
    {0, 0, 0, 0, "What to do:", 3},
    {"open", PLAN_KEY_OPEN, 0, 0, "open the plan on a fake device and compare its journal with the plan", 3},
    {"engine", PLAN_KEY_ENGINE, "NAME", 0,
     "no plan: what llama.cpp, ik_llama.cpp, vllm or sglang takes for KV and state; no --budget", 3},
    {"engine-args", PLAN_KEY_ENGINE_ARGS, "K=V,...", 0, "that engine's arguments, such as n_ctx=16384,type_k=q8_0", 3},
    {"json", PLAN_KEY_JSON, 0, 0, "one JSON object on standard output", 3},
    FLAGS_HELP_OPTION,
    {0, 0, 0, 0, 0, 0},
};

static const char doc[] =
    "Plans every byte that an engine needs to serve MODEL inside a memory budget. MODEL is a GGUF file, a directory with a "
    "config.json, or a config file.\v"
    "A plan that does not fit exits with 1 and lists changes that were each planned again and do fit: add one to the same "
    "command line.";

static uint64_t granule(const char *text)
{
    uint64_t bytes = flags_bytes("--granule", text);
    if (bytes < 256 || bytes > IMPMEM_GIB || (bytes & (bytes - 1)))
        command_bad_usage("--granule: \"%s\" is no granule; expected a power of two from 256 to 1GiB", text);
    return bytes;
}

static uint32_t block_tokens(const char *text)
{
    uint32_t tokens = flags_integer32("--block-size", text, 16, 256);
    if (tokens % 16) command_bad_usage("--block-size: \"%s\" is no multiple of 16 from 16 to 256", text);
    return tokens;
}

static void add_line(plan_flags *flags, const char *text)
{
    if (flags->n_lines == IMPMEM_PLAN_MAX_DEMANDS)
        command_bad_usage("--line: \"%s\" is one too many; expected at most %u", text, IMPMEM_PLAN_MAX_DEMANDS);
    flags_line line;
    flags_demand_line("--line", text, &line);
    for (uint32_t i = 0; i < flags->n_lines; i++)
        if (strcmp(flags->line[i].name, line.name) == 0)
            command_bad_usage("--line: \"%s\": the name %s is taken; expected one line a name", text, line.name);
    flags->line[flags->n_lines++] = line;
}

bool plan_flags_take(plan_flags *flags, int key, char *argument)
{
    switch (key) {
    case PLAN_KEY_BUDGET:
        flags->budget_bytes = flags_bytes("--budget", argument);
        flags->has_budget = true;
        return true;
    case PLAN_KEY_BATCH: flags->max_batch = flags_integer32("--max-batch", argument, 1, MAX_SEQUENCES); return true;
    case PLAN_KEY_CONTEXT: flags->max_seq_tokens = flags_integer32("--max-seq-len", argument, 1, MAX_TOKENS); return true;
    case PLAN_KEY_KV_DTYPE: flags_kv_dtype("--kv-dtype", argument, &flags->kv_dtype_k, &flags->kv_dtype_v); return true;
    case PLAN_KEY_BLOCK: flags->block_tokens = block_tokens(argument); return true;
    case PLAN_KEY_PREFILL:
        flags->prefill_tokens = flags_integer32("--prefill-tokens", argument, 1, MAX_TOKENS);
        return true;
    case PLAN_KEY_PROMISED:
        flags->promised_kv_tokens = flags_integer("--promised-kv-tokens", argument, 1, MAX_POOL_TOKENS);
        return true;
    case PLAN_KEY_PREFIX:
        flags->prefix_cache_tokens = flags_integer("--prefix-cache-tokens", argument, 0, MAX_POOL_TOKENS);
        return true;
    case PLAN_KEY_PROFILE: flags->profile_name = argument; return true;
    case PLAN_KEY_GRANULE: flags->granule_bytes = granule(argument); return true;
    case PLAN_KEY_WORKSPACES:
        flags->no_workspaces = strcmp(argument, "none") == 0;
        if (!flags->no_workspaces && strcmp(argument, "reference"))
            command_bad_usage("--workspaces: \"%s\" is unknown; expected reference or none", argument);
        return true;
    case PLAN_KEY_LINE: add_line(flags, argument); return true;
    case PLAN_KEY_JSON: flags->json = true; return true;
    case ARGP_KEY_ARG:
        if (flags->model_path) command_bad_usage("%s: a second MODEL after %s; expected one", argument, flags->model_path);
        flags->model_path = argument;
        return true;
    default: return false;
    }
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    plan_flags *flags = state->input;
    if (plan_flags_take(flags, key, argument)) return 0;
    switch (key) {
    case PLAN_KEY_OPEN: flags->open = true; return 0;
    case PLAN_KEY_ENGINE: flags->engine = argument; return 0;
    case PLAN_KEY_ENGINE_ARGS: flags->engine_args = argument; return 0;
    default: return flags_common(key, state);
    }
}

static const struct argp plan_argp = {options, parse, "MODEL --budget SIZE", doc, NULL, NULL, NULL};

void plan_flags_require(const plan_flags *flags, const char *verb)
{
    if (!flags->model_path)
        command_bad_usage("%s: no MODEL; expected a GGUF file, a model directory or a config.json", verb);
    if (!flags->has_budget) command_bad_usage("%s: no --budget; expected --budget SIZE, for example --budget 24GiB", verb);
}

void plan_flags_parse(int argc, char **argv, plan_flags *out)
{
    memset(out, 0, sizeof *out);
    flags_parse(&plan_argp, "impmem plan", argc, argv, 0, out);
    if (out->engine) return;
    if (out->engine_args) command_bad_usage("--engine-args: \"%s\" without --engine NAME", out->engine_args);
    plan_flags_require(out, "plan");
}
