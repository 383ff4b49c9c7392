/* plan_flags.c - the flags that say what to plan, and those of `impmem plan`. */
#include <string.h>

#include "command.h"
#include "impmem/bytes.h"
#include "plan_verb.h"

#define MAX_POOL_TOKENS ((uint64_t)1 << 50)

static const struct argp_option options[] = {
    PLAN_FLAG_ROWS,
    {0, 0, 0, 0, "What to do:", 3},
    {"explain", PLAN_KEY_EXPLAIN, 0, 0, "each line's formula with its numbers", 3},
    {"svg", PLAN_KEY_SVG, "FILE", 0, "a picture of the card: what is charged, what is left", 3},
    {"against", PLAN_KEY_AGAINST, "MODEL|PLAN", 0, "line by line against another model, or a plan that --json wrote", 3},
    {"observed", PLAN_KEY_OBSERVED, "FILE", 0, "beside what an engine was measured to take, a CSV or JSON file", 3},
    {"tolerance", PLAN_KEY_TOLERANCE, "PERCENT", 0, "of --observed: how far off a line may be (5)", 3},
    {"cards", PLAN_KEY_CARDS, 0, 0, "no plan: the largest context and batch on each known card; no --budget", 3},
    {"open", PLAN_KEY_OPEN, 0, 0, "open the plan on a fake device and compare its journal with the plan", 3},
    {"engine", PLAN_KEY_ENGINE, "NAME", 0,
     "no plan: what llama.cpp, ik_llama.cpp, vllm or sglang takes for KV and state; no --budget", 3},
    {"engine-args", PLAN_KEY_ENGINE_ARGS, "K=V,...", 0, "that engine's arguments, such as n_ctx=16384,type_k=q8_0", 3},
    {"json", PLAN_KEY_JSON, 0, 0, "one JSON object on standard output", 3},
    {0, 0, 0, 0, "Several devices, a plan for each:", -3},
    {"tp", PLAN_KEY_TP, "N", 0, "tensor parallelism: ranks that share each layer (1)", -3},
    {"pp", PLAN_KEY_PP, "N[:LAYERS,...]", 0, "pipeline parallelism: stages, and the layers of each (1, even)", -3},
    {"ep", PLAN_KEY_EP, "N", 0, "expert parallelism: of the tp ranks, those that share whole experts (1)", -3},
    {"rank-budgets", PLAN_KEY_RANK_BUDGETS, "SIZE,...", 0, "a budget for each rank (--budget for all)", -3},
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
    case PLAN_KEY_BATCH: flags->max_batch = flags_integer32("--max-batch", argument, 1, PLAN_MAX_SEQUENCES); return true;
    case PLAN_KEY_CONTEXT:
        flags->max_seq_tokens = flags_integer32("--max-seq-len", argument, 1, PLAN_MAX_TOKENS);
        return true;
    case PLAN_KEY_KV_DTYPE: flags_kv_dtype("--kv-dtype", argument, &flags->kv_dtype_k, &flags->kv_dtype_v); return true;
    case PLAN_KEY_BLOCK: flags->block_tokens = block_tokens(argument); return true;
    case PLAN_KEY_PREFILL:
        flags->prefill_tokens = flags_integer32("--prefill-tokens", argument, 1, PLAN_MAX_TOKENS);
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
    default: break;
    }
    bool taken = plan_feature_flags_take(&flags->feature, key, argument) ||
                 plan_layout_flags_take(&flags->layout, key, argument);
    if (taken) flags->given_features = true;
    return taken;
}

/* Percent with up to two decimals, in hundredths. */
static uint32_t tolerance(const char *text)
{
    const uint32_t most = 100000;
    uint32_t value = 0;
    int decimals = -1; /* behind the point; -1: no point yet */
    bool digit = false;
    for (const char *c = text; *c; c++) {
        bool point = *c == '.' && digit && decimals < 0;
        digit = *c >= '0' && *c <= '9';
        if ((!digit && !point) || (digit && decimals == 2) || value > most) {
            digit = false;
            break;
        }
        if (digit) value = value * 10 + (uint32_t)(*c - '0');
        if (point || decimals >= 0) decimals++;
    }
    for (int i = decimals < 0 ? 0 : decimals; i < 2; i++) value *= 10;
    if (!digit || value > most)
        command_bad_usage("--tolerance: \"%s\" is no percentage from 0 to 1000 with up to two decimals", text);
    return value;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    plan_flags *flags = state->input;
    if (plan_flags_take(flags, key, argument)) return 0;
    switch (key) {
    case PLAN_KEY_CARDS: flags->cards = true; return 0;
    case PLAN_KEY_EXPLAIN: flags->explain = true; return 0;
    case PLAN_KEY_SVG: flags->svg = argument; return 0;
    case PLAN_KEY_AGAINST: flags->against = argument; return 0;
    case PLAN_KEY_OBSERVED: flags->observed = argument; return 0;
    case PLAN_KEY_TOLERANCE:
        flags->tolerance_hundredths = tolerance(argument);
        flags->has_tolerance = true;
        return 0;
    case PLAN_KEY_OPEN: flags->open = true; return 0;
    case PLAN_KEY_ENGINE: flags->engine = argument; return 0;
    case PLAN_KEY_ENGINE_ARGS: flags->engine_args = argument; return 0;
    default: return flags_common(key, state);
    }
}

static const struct argp plan_argp = {options, parse, "MODEL --budget SIZE", doc, NULL, NULL, NULL};

static void refuse_feature_contradictions(const plan_feature_flags *f)
{
    if (f->draft_path && f->draft_tokens == 0 && !f->no_draft)
        command_bad_usage("--draft: \"%s\" without --draft-tokens K; expected how many tokens it drafts", f->draft_path);
    if (f->graphs_accepted && f->graphs == 0)
        command_bad_usage("--graphs-accepted: given without --graphs; expected --graphs N:SIZE");
    if (f->devices > 1 && f->communication_bytes == 0)
        command_bad_usage(
            "--devices: %u devices exchange data; expected --communication SIZE, what the collectives' buffers "
            "were measured to take",
            f->devices);
}

void plan_flags_require(const plan_flags *flags, const char *verb)
{
    if (!flags->model_path)
        command_bad_usage("%s: no MODEL; expected a GGUF file, a model directory or a config.json", verb);
    refuse_feature_contradictions(&flags->feature);
    if (!flags->has_budget && !flags->cards && !flags->layout.n_budgets)
        command_bad_usage("%s: no --budget; expected --budget SIZE, for example --budget 24GiB", verb);
}

bool plan_flags_several_ranks(const plan_flags *flags)
{
    const plan_layout_flags *l = &flags->layout;
    return l->tp > 1 || l->pp > 1 || l->ep > 1 || l->n_budgets > 0;
}

static void refuse_layout_contradictions(const plan_flags *flags)
{
    const plan_layout_flags *l = &flags->layout;
    const uint32_t tp = l->tp ? l->tp : 1;
    const uint32_t pp = l->pp ? l->pp : 1;
    if (tp * pp > IMPMEM_MAX_RANKS)
        command_bad_usage("--tp: %u x --pp %u are %u ranks; expected at most %u", tp, pp, tp * pp, IMPMEM_MAX_RANKS);
    if (l->ep > 1 && tp % l->ep) command_bad_usage("--ep: %u does not divide --tp %u; expected a divisor of it", l->ep, tp);
    if (l->n_budgets && l->n_budgets != tp * pp)
        command_bad_usage("--rank-budgets: %u budgets for %u ranks; expected one a rank", l->n_budgets, tp * pp);
    if (tp * pp > 1 && flags->feature.communication_bytes == 0)
        command_bad_usage("--tp: %u ranks exchange data; expected --communication SIZE, what the collectives' buffers were "
                          "measured to take",
                          tp * pp);
}

/* Each of these answers a question of its own; two in one line would leave open which answer the exit status is. */
static void refuse_two_answers(const plan_flags *flags)
{
    const struct {
        const char *name;
        bool given;
    } answer[] = {{"--cards", flags->cards},
                  {"--against", flags->against != NULL},
                  {"--observed", flags->observed != NULL},
                  {"--open", flags->open},
                  {"--tp, --pp, --ep or --rank-budgets", plan_flags_several_ranks(flags)}};
    const char *first = NULL;
    for (size_t i = 0; i < sizeof answer / sizeof answer[0]; i++) {
        if (!answer[i].given) continue;
        if (first) command_bad_usage("%s: not together with %s; expected one of them", first, answer[i].name);
        first = answer[i].name;
    }
    if (first && (flags->explain || flags->svg) && !flags->open)
        command_bad_usage("%s: not together with %s; expected a plan alone", flags->explain ? "--explain" : "--svg", first);
    if (flags->has_tolerance && !flags->observed)
        command_bad_usage("--tolerance: given without --observed; expected --observed FILE");
    if (flags->cards && flags->has_budget)
        command_bad_usage("--budget: not with --cards, which plans in each card's whole memory");
    if (flags->cards && flags->profile_name)
        command_bad_usage("--device-profile: not with --cards, which goes through all known devices");
}

void plan_flags_parse(int argc, char **argv, plan_flags *out)
{
    memset(out, 0, sizeof *out);
    out->tolerance_hundredths = 500;
    flags_parse(&plan_argp, "impmem plan", argc, argv, 0, out);
    if (out->engine) return;
    if (out->engine_args) command_bad_usage("--engine-args: \"%s\" without --engine NAME", out->engine_args);
    plan_flags_require(out, "plan");
    refuse_layout_contradictions(out);
    refuse_two_answers(out);
}
