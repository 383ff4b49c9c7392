/* cmd_cache_sim.c - `impmem cache-sim`: hit rates of a prefix cache over a trace, beside exact LRU and the clairvoyant
 * bound. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "core/json.h"
#include "flags.h"
#include "sim_cache.h"

enum { MAX_SIZES = 64, KEY_POLICY = 'p', KEY_BLOCKS = 'b', KEY_JSON = 0x101, KEY_BLOCK_TOKENS };

typedef struct sim_flags {
    const char *path;
    const sim_policy *policy;
    uint64_t size_blocks[MAX_SIZES];
    size_t n_sizes;
    uint32_t block_tokens; /* 0 = the trace's usual size */
    bool json;
} sim_flags;

typedef struct sim_row {
    uint64_t policy_hits;
    uint64_t lru_hits;
    uint64_t bound_hits;
} sim_row;

typedef struct sim_answer {
    const sim_flags *flags;
    const sim_workload *workload;
    uint64_t unlimited_hits; /* of a cache that drops nothing */
    sim_row row[MAX_SIZES];
} sim_answer;

static const struct argp_option options[] = {
    {"blocks", KEY_BLOCKS, "N[,N...]", 0, "capacities of the cache, in blocks of the trace; at most 64 of them", 0},
    {"policy", KEY_POLICY, "P", 0, "lru (default), bound, or impmem, the library's own", 0},
    {"trace-block-tokens", KEY_BLOCK_TOKENS, "N", 0, "tokens of a block of the trace (default 512)", 0},
    {"json", KEY_JSON, 0, 0, "print one JSON object", 0},
    FLAGS_HELP_OPTION,
    {0, 0, 0, 0, 0, 0},
};

static const char doc[] =
    "Drives the prefix cache alone with the prompts of TRACE, and shows its hit rate beside those of exact LRU and of a "
    "clairvoyant cache. TRACE is a Mooncake JSONL or an Azure CSV file.\v"
    "The hit rate is the share of all prompt blocks that a cache held, where of each prompt only the leading run of held "
    "blocks "
    "counts. Every id of the trace is a block, a partial last one too. Requests come one after the other: the run is "
    "counted, "
    "the whole prompt is taken in, then the cache drops blocks until N are left, tails before heads. 1k is 1000 blocks. "
    "Running "
    "sequences and outputs take no room, so the rates say what a policy is worth and not what a server of N blocks would "
    "see.\n"
    "\n"
    "lru drops the least recently used block; a prompt is touched tail first. bound knows the future: it drops the block "
    "whose "
    "next use is farthest, a prompt's later block first; where every block always follows the same one, no policy does "
    "better.\n"
    "\n"
    "Exit status: 0 done; 2 bad usage; 3 bad file.";

static void parse_sizes(sim_flags *flags, const char *text)
{
    flags->n_sizes = 0;
    for (const char *at = text;; at++) {
        char number[24];
        size_t n = strcspn(at, ",");
        if (flags->n_sizes == MAX_SIZES)
            command_bad_usage("--blocks: more than %d sizes; expected 1 to %d", MAX_SIZES, MAX_SIZES);
        if (n >= sizeof number)
            command_bad_usage("--blocks: \"%s\" is no list of whole numbers from 1 to %" PRIu32, text, UINT32_MAX);
        memcpy(number, at, n);
        number[n] = '\0';
        flags->size_blocks[flags->n_sizes++] = flags_integer("--blocks", number, 1, UINT32_MAX);
        at += n;
        if (!*at) return;
    }
}

static _Noreturn void refuse_policy(const char *text)
{
    char known[128] = "";
    size_t used = 0;
    for (size_t i = 0; sim_policy_at(i) && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", sim_policy_at(i)->name);
    command_bad_usage("--policy: \"%s\": no such policy; expected one of: %s", text, known);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    sim_flags *flags = state->input;
    switch (key) {
    case KEY_BLOCKS: parse_sizes(flags, argument); return 0;
    case KEY_POLICY:
        flags->policy = sim_policy_named(argument);
        if (!flags->policy) refuse_policy(argument);
        return 0;
    case KEY_BLOCK_TOKENS: flags->block_tokens = flags_integer32("--trace-block-tokens", argument, 1, 1u << 20); return 0;
    case KEY_JSON: flags->json = true; return 0;
    case ARGP_KEY_ARG:
        if (flags->path) command_bad_usage("%s: one trace too many; expected one", argument);
        flags->path = argument;
        return 0;
    case ARGP_KEY_END:
        if (!flags->path) command_bad_usage("cache-sim: no trace; expected impmem cache-sim TRACE --blocks N");
        if (flags->n_sizes == 0) command_bad_usage("--blocks: not given; expected --blocks N[,N...]");
        return 0;
    default: return flags_common(key, state);
    }
}

static const struct argp sim_argp = {options, parse, "TRACE", doc, NULL, NULL, NULL};

static impmem_status simulate(sim_answer *answer)
{
    const sim_flags *flags = answer->flags;
    const sim_workload *workload = answer->workload;
    impmem_status st = sim_cache_run(&sim_policy_lru, workload, UINT32_MAX, &answer->unlimited_hits);
    for (size_t i = 0; i < flags->n_sizes && !st; i++) {
        sim_row *row = &answer->row[i];
        uint64_t blocks = flags->size_blocks[i];
        st = sim_cache_run(&sim_policy_lru, workload, blocks, &row->lru_hits);
        if (!st) st = sim_cache_run(&sim_policy_bound, workload, blocks, &row->bound_hits);
        if (st) break;
        if (flags->policy == &sim_policy_lru) row->policy_hits = row->lru_hits;
        else if (flags->policy == &sim_policy_bound) row->policy_hits = row->bound_hits;
        else st = sim_cache_run(flags->policy, workload, blocks, &row->policy_hits);
    }
    return st;
}

/* A trace without a prompt block has no hits to speak of: 0. */
static double rate(const sim_answer *answer, uint64_t hits)
{
    return answer->workload->n_slots ? (double)hits / (double)answer->workload->n_slots : 0.0;
}

static void print_text(const sim_answer *answer)
{
    const sim_workload *w = answer->workload;
    const sim_flags *flags = answer->flags;
    /* lru and bound have columns of their own. */
    bool other = flags->policy != &sim_policy_lru && flags->policy != &sim_policy_bound;
    printf("trace      %s: %s, %" PRIu32 " requests\n", flags->path, trace_format_name(w->trace->format), w->n_requests);
    printf("blocks     %" PRIu32 " in prompts, %" PRIu32 " distinct, %" PRIu32 " tokens each\n", w->n_slots, w->n_blocks,
           w->trace->block_tokens);
    if (w->n_unchained)
        printf("note       %" PRIu32
               " blocks don't follow the block that they followed first: bound is no proven bound here\n",
               w->n_unchained);
    printf("\nhit rate of the cache alone, %% of prompt blocks\n%12s", "blocks");
    if (other) printf("  %10s", flags->policy->name);
    printf("  %10s  %10s\n", "lru", "bound");
    for (size_t i = 0; i < flags->n_sizes; i++) {
        const sim_row *row = &answer->row[i];
        printf("%12" PRIu64, flags->size_blocks[i]);
        if (other) printf("  %10.2f", 100.0 * rate(answer, row->policy_hits));
        printf("  %10.2f  %10.2f\n", 100.0 * rate(answer, row->lru_hits), 100.0 * rate(answer, row->bound_hits));
    }
    double unlimited = 100.0 * rate(answer, answer->unlimited_hits);
    printf("%12s", "unlimited");
    if (other) printf("  %10s", "");
    printf("  %10.2f  %10.2f\n", unlimited, unlimited);
}

static void write_rate(impmem__json *json, const sim_answer *answer, const char *key, uint64_t hits)
{
    impmem__json_key(json, key);
    impmem__json_object_begin(json);
    impmem__json_field_u64(json, "hit_blocks", hits);
    impmem__json_field_double(json, "hit_rate", rate(answer, hits));
    impmem__json_object_end(json);
}

static impmem_status print_json(const sim_answer *answer)
{
    const sim_workload *w = answer->workload;
    const sim_flags *flags = answer->flags;
    impmem__json json;
    impmem__json_init(&json, impmem_write_file, stdout, 2);
    impmem__json_object_begin(&json);
    impmem__json_key(&json, "trace");
    impmem__json_object_begin(&json);
    impmem__json_field_string(&json, "path", flags->path);
    impmem__json_field_string(&json, "format", trace_format_name(w->trace->format));
    impmem__json_field_u64(&json, "requests", w->n_requests);
    impmem__json_field_u64(&json, "prompt_tokens", w->trace->input_tokens);
    impmem__json_field_u64(&json, "block_tokens", w->trace->block_tokens);
    impmem__json_field_u64(&json, "prompt_blocks", w->n_slots);
    impmem__json_field_u64(&json, "distinct_blocks", w->n_blocks);
    impmem__json_field_u64(&json, "unchained_blocks", w->n_unchained);
    impmem__json_object_end(&json);
    impmem__json_field_string(&json, "policy", flags->policy->name);
    write_rate(&json, answer, "unlimited", answer->unlimited_hits);
    impmem__json_key(&json, "sizes");
    impmem__json_array_begin(&json);
    for (size_t i = 0; i < flags->n_sizes; i++) {
        impmem__json_object_begin(&json);
        impmem__json_field_u64(&json, "blocks", flags->size_blocks[i]);
        write_rate(&json, answer, "policy", answer->row[i].policy_hits);
        write_rate(&json, answer, "lru", answer->row[i].lru_hits);
        write_rate(&json, answer, "bound", answer->row[i].bound_hits);
        impmem__json_object_end(&json);
    }
    impmem__json_array_end(&json);
    impmem__json_object_end(&json);
    impmem_status st = impmem__json_finish(&json);
    if (!st) putchar('\n');
    return st;
}

static int answer_question(const sim_flags *flags, const trace *t)
{
    sim_workload workload;
    impmem_error why = IMPMEM_ERROR_INIT;
    if (sim_workload_open(t, &workload, &why)) {
        command_complain("%s: %s", flags->path, why.message);
        return COMMAND_FILE;
    }
    sim_answer answer;
    memset(&answer, 0, sizeof answer);
    answer.flags = flags;
    answer.workload = &workload;
    impmem_status st = simulate(&answer);
    if (st) command_complain("%s: the simulation stopped: %s", flags->path, impmem_status_message(st));
    else if (!flags->json) print_text(&answer);
    else if (print_json(&answer)) st = IMPMEM_ERR_IO; /* said by command_finish_output */
    sim_workload_close(&workload);
    return command_finish_output(st ? COMMAND_FILE : COMMAND_DONE);
}

int command_cache_sim(int argc, char **argv)
{
    sim_flags flags;
    memset(&flags, 0, sizeof flags);
    flags.policy = &sim_policy_lru;
    flags_parse(&sim_argp, argv[0], argc, argv, 0, &flags);
    trace t;
    impmem_error why = IMPMEM_ERROR_INIT;
    if (trace_load(flags.path, flags.block_tokens, &t, &why)) {
        command_complain_file(flags.path, &why);
        return COMMAND_FILE;
    }
    int code = answer_question(&flags, &t);
    trace_free(&t);
    return code;
}
