/* plan_flags.c - the flags of `impmem plan`. */
#include <string.h>

#include "command.h"
#include "impmem/bytes.h"
#include "plan_verb.h"

/* Ranges of what is counted in 32 bits; the planner's own limits are tighter for some models, and say so. */
#define MAX_SEQUENCES 1048576u
#define MAX_TOKENS 2147483647u
#define MAX_POOL_TOKENS ((uint64_t)1 << 50)

enum {
    KEY_BUDGET = 0x200,
    KEY_BATCH,
    KEY_CONTEXT,
    KEY_KV_DTYPE,
    KEY_BLOCK,
    KEY_PREFILL,
    KEY_PROMISED,
    KEY_PREFIX,
    KEY_PROFILE,
    KEY_WORKSPACES,
    KEY_LINE,
    KEY_GRANULE,
    KEY_JSON,
    KEY_OPEN
};

static const struct argp_option options[] = {
    {0, 0, 0, 0, "The load:", 1},
    {"budget", KEY_BUDGET, "SIZE", 0, "device memory to plan in: 24GiB, 512MiB or bytes (required)", 1},
    {"max-batch", KEY_BATCH, "N", 0, "sequences at once (1)", 1},
    {"max-seq-len", KEY_CONTEXT, "N", 0, "tokens of one sequence (the model's trained context)", 1},
    {"kv-dtype", KEY_KV_DTYPE, "T|K,V", 0, "element type of the KV cache, or of K and V (f16)", 1},
    {"block-size", KEY_BLOCK, "N", 0, "tokens of a KV block, a multiple of 16 from 16 to 256 (16)", 1},
    {"prefill-tokens", KEY_PREFILL, "N", 0, "largest prefill batch (the smaller of the context and 4096)", 1},
    {"promised-kv-tokens", KEY_PROMISED, "N", 0, "smallest KV load that must fit, in tokens over all sequences (all)", 1},
    {"prefix-cache-tokens", KEY_PREFIX, "N", 0, "room for cached prefixes, granted from what is left (0)", 1},
    {0, 0, 0, 0, "The device and the engine:", 2},
    {"device-profile", KEY_PROFILE, "FILE|NAME", 0, "what the device itself takes: a JSON file or a known device (default)",
     2},
    {"granule", KEY_GRANULE, "SIZE", 0, "unit of physical memory, a power of two from 256 on (the profile's)", 2},
    {"workspaces", KEY_WORKSPACES, "KIND", 0, "the engine's own buffers: reference, or none (reference)", 2},
    {"line", KEY_LINE, "NAME=TIER:SIZE", 0,
     "one more buffer of the engine; TIER is model, engine, scratch, staging, pinned or charge; may be repeated", 2},
    {0, 0, 0, 0, "What to do:", 3},
    {"open", KEY_OPEN, 0, 0, "open the plan on a fake device and compare its journal with the plan", 3},
    {"json", KEY_JSON, 0, 0, "one JSON object on standard output", 3},
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

static error_t parse(int key, char *argument, struct argp_state *state)
{
    plan_flags *flags = state->input;
    switch (key) {
    case KEY_BUDGET:
        flags->budget_bytes = flags_bytes("--budget", argument);
        flags->has_budget = true;
        return 0;
    case KEY_BATCH: flags->max_batch = flags_integer32("--max-batch", argument, 1, MAX_SEQUENCES); return 0;
    case KEY_CONTEXT: flags->max_seq_tokens = flags_integer32("--max-seq-len", argument, 1, MAX_TOKENS); return 0;
    case KEY_KV_DTYPE: flags_kv_dtype("--kv-dtype", argument, &flags->kv_dtype_k, &flags->kv_dtype_v); return 0;
    case KEY_BLOCK: flags->block_tokens = block_tokens(argument); return 0;
    case KEY_PREFILL: flags->prefill_tokens = flags_integer32("--prefill-tokens", argument, 1, MAX_TOKENS); return 0;
    case KEY_PROMISED:
        flags->promised_kv_tokens = flags_integer("--promised-kv-tokens", argument, 1, MAX_POOL_TOKENS);
        return 0;
    case KEY_PREFIX:
        flags->prefix_cache_tokens = flags_integer("--prefix-cache-tokens", argument, 0, MAX_POOL_TOKENS);
        return 0;
    case KEY_PROFILE: flags->profile_name = argument; return 0;
    case KEY_GRANULE: flags->granule_bytes = granule(argument); return 0;
    case KEY_WORKSPACES:
        flags->no_workspaces = strcmp(argument, "none") == 0;
        if (!flags->no_workspaces && strcmp(argument, "reference"))
            command_bad_usage("--workspaces: \"%s\" is unknown; expected reference or none", argument);
        return 0;
    case KEY_LINE: add_line(flags, argument); return 0;
    case KEY_JSON: flags->json = true; return 0;
    case KEY_OPEN: flags->open = true; return 0;
    case ARGP_KEY_ARG:
        if (flags->model_path) command_bad_usage("%s: a second MODEL after %s; expected one", argument, flags->model_path);
        flags->model_path = argument;
        return 0;
    default: return flags_common(key, state);
    }
}

static const struct argp plan_argp = {options, parse, "MODEL --budget SIZE", doc, NULL, NULL, NULL};

void plan_flags_parse(int argc, char **argv, plan_flags *out)
{
    memset(out, 0, sizeof *out);
    flags_parse(&plan_argp, "impmem plan", argc, argv, 0, out);
    if (!out->model_path) command_bad_usage("plan: no MODEL; expected a GGUF file, a model directory or a config.json");
    if (!out->has_budget) command_bad_usage("plan: no --budget; expected --budget SIZE, for example --budget 24GiB");
}
