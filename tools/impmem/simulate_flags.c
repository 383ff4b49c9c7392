/* simulate_flags.c - the flags of `impmem simulate`. */
#include "simulate_flags.h"

#include <inttypes.h>
#include <string.h>

#include "command.h"

enum {
    KEY_TRACE = 0x300,
    KEY_REQUESTS,
    KEY_SEED,
    KEY_SPEED,
    KEY_QUEUE,
    KEY_BLOCK_TOKENS,
    KEY_BASE,
    KEY_PREFILL,
    KEY_SEQUENCE,
    KEY_INITIAL,
    KEY_REPORT
};

/* Thousandths of a microsecond are nanoseconds. A step of any size then stays below 2^62 ns. */
#define MAX_SPEED ((uint64_t)1000000 * 1000)
#define MAX_BASE_NS ((uint64_t)1000000000 * 1000)
#define MAX_PER_ITEM_NS ((uint64_t)1000000 * 1000)
#define MAX_REQUESTS ((uint64_t)10000000)

static const struct argp_option options[] = {
    PLAN_FLAG_ROWS,
    {"kv-initial-percent", KEY_INITIAL, "N", 0, "of the KV pools that is committed at open; the rest grows (100)", 2},
    {0, 0, 0, 0, "The requests (one of --trace and --requests):", 3},
    {"trace", KEY_TRACE, "FILE", 0, "a Mooncake JSONL or Azure CSV trace", 3},
    {"requests", KEY_REQUESTS, "N", 0, "an hour of N made-up requests", 3},
    {"seed", KEY_SEED, "S", 0, "of the made-up requests (1)", 3},
    {"speed", KEY_SPEED, "X", 0, "requests come X times as fast, from 0.001 (1)", 3},
    {"queue", KEY_QUEUE, "N", 0, "most requests that wait; more are refused (no limit)", 3},
    {"trace-block-tokens", KEY_BLOCK_TOKENS, "N", 0, "tokens of a block of the trace (512)", 3},
    {0, 0, 0, 0, "What a step takes, in microseconds: A + B x prompt tokens + C x sequences", 4},
    {"step-base-us", KEY_BASE, "A", 0, "of every step (6000)", 4},
    {"step-prefill-us", KEY_PREFILL, "B", 0, "of each prompt token computed in it (33)", 4},
    {"step-sequence-us", KEY_SEQUENCE, "C", 0, "of each sequence in it (80)", 4},
    {0, 0, 0, 0, "What to show:", 5},
    {"report", KEY_REPORT, 0, 0, "plan and peak of every tier and line too", 5},
    {"json", PLAN_KEY_JSON, 0, 0, "one JSON object on standard output", 5},
    FLAGS_HELP_OPTION,
    {0, 0, 0, 0, 0, 0},
};

static const char doc[] =
    "Plans MODEL, opens the plan on a device that hands out addresses only, and serves the requests on a virtual clock: "
    "continuous batching, prefill in chunks, a prefix cache. Then checks that every byte and block is accounted for.\v"
    "The defaults of A, B and C are those of an 8B model at 16 bits on one H100, from its data sheet. A plan that does not "
    "fit "
    "exits with 1 and its report, a self-check that fails exits with 1.";

uint64_t simulate_thousandths(const char *flag, const char *text, uint64_t low, uint64_t high)
{
    uint64_t value = 0;
    int decimals = -1; /* behind the point; -1: no point yet */
    bool digits = false;
    bool good = true;
    for (const char *c = text; good && *c; c++) {
        if (*c == '.' && decimals < 0 && digits) {
            decimals = 0;
            digits = false;
            continue;
        }
        good = *c >= '0' && *c <= '9' && value <= UINT64_MAX / 100000 && decimals < 3;
        if (!good) break;
        value = value * 10 + (uint64_t)(*c - '0');
        digits = true;
        if (decimals >= 0) decimals++;
    }
    good = good && digits;
    for (int i = decimals < 0 ? 0 : decimals; i < 3; i++) value *= 10;
    if (!good || value < low || value > high)
        command_bad_usage("%s: \"%s\" is no number from %" PRIu64 ".%03" PRIu64 " to %" PRIu64 " with up to three decimals",
                          flag, text, low / 1000, low % 1000, high / 1000);
    return value;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    simulate_flags *flags = state->input;
    if (plan_flags_take(&flags->plan, key, argument)) return 0;
    switch (key) {
    case KEY_TRACE: flags->trace_path = argument; return 0;
    case KEY_REQUESTS: flags->requests = flags_integer("--requests", argument, 1, MAX_REQUESTS); return 0;
    case KEY_SEED:
        flags->seed = flags_integer("--seed", argument, 0, UINT64_MAX);
        flags->has_seed = true;
        return 0;
    case KEY_SPEED: flags->speed_thousandths = simulate_thousandths("--speed", argument, 1, MAX_SPEED); return 0;
    case KEY_QUEUE: flags->queue_limit = flags_integer("--queue", argument, 0, UINT64_MAX - 1); return 0;
    case KEY_BLOCK_TOKENS:
        flags->trace_block_tokens = flags_integer32("--trace-block-tokens", argument, 1, 1u << 20);
        return 0;
    case KEY_BASE: flags->base_ns = simulate_thousandths("--step-base-us", argument, 0, MAX_BASE_NS); return 0;
    case KEY_PREFILL: flags->prefill_ns = simulate_thousandths("--step-prefill-us", argument, 0, MAX_PER_ITEM_NS); return 0;
    case KEY_SEQUENCE:
        flags->sequence_ns = simulate_thousandths("--step-sequence-us", argument, 0, MAX_PER_ITEM_NS);
        return 0;
    case KEY_INITIAL: flags->kv_initial_percent = flags_integer32("--kv-initial-percent", argument, 1, 100); return 0;
    case KEY_REPORT: flags->report = true; return 0;
    default: return flags_common(key, state);
    }
}

static const struct argp simulate_argp = {
    options, parse, "MODEL --budget SIZE --trace FILE\nMODEL --budget SIZE --requests N", doc, NULL, NULL, NULL};

void simulate_flags_parse(int argc, char **argv, simulate_flags *out)
{
    memset(out, 0, sizeof *out);
    out->seed = 1;
    out->speed_thousandths = 1000;
    out->base_ns = SIMULATE_BASE_NS;
    out->prefill_ns = SIMULATE_PREFILL_NS;
    out->sequence_ns = SIMULATE_SEQUENCE_NS;
    out->queue_limit = UINT64_MAX;
    flags_parse(&simulate_argp, "impmem simulate", argc, argv, 0, out);
    plan_flags_require(&out->plan, "simulate");
    if (!out->trace_path && !out->requests)
        command_bad_usage("simulate: no requests; expected --trace FILE or --requests N");
    if (out->trace_path && out->requests)
        command_bad_usage("simulate: --trace and --requests are both given; expected one of them");
    if (out->trace_path && out->has_seed) command_bad_usage("--seed: given with --trace; expected with --requests");
    if (!out->trace_path && out->trace_block_tokens)
        command_bad_usage("--trace-block-tokens: given with --requests; expected with --trace");
}
