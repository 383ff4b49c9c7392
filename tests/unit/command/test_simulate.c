/* impmem simulate: figures of loads that can be reckoned by hand, refusals, usage, and slices of published traces. */
#define _GNU_SOURCE
#include "command_run.h"

#include <math.h>

#define DEMO_MODEL IMPMEM_SOURCE_DIR "/tools/demo/demo-8b"
#define DEMO_TRACE IMPMEM_SOURCE_DIR "/tools/demo/demo-trace.jsonl"

static const json_t *at(const json_t *root, const char *key)
{
    const json_t *value = json_object_get(root, key);
    if (!value) print_error("no key %s\n", key);
    assert_non_null(value);
    return value;
}

static uint64_t number(const json_t *root, const char *object, const char *key)
{
    const json_t *value = at(at(root, object), key);
    assert_true(json_is_integer(value));
    return (uint64_t)json_integer_value(value);
}

static void assert_all_pass(const json_t *simulation)
{
    const json_t *checks = at(simulation, "checks");
    assert_int_equal(json_array_size(checks), 11);
    for (size_t i = 0; i < json_array_size(checks); i++) {
        const json_t *check = json_array_get(checks, i);
        if (!json_is_true(at(check, "pass")))
            print_error("%s: %s\n", json_string_value(at(check, "name")), json_string_value(at(check, "found")));
        assert_true(json_is_true(at(check, "pass")));
        assert_true(json_is_null(at(check, "found")));
    }
    assert_true(json_is_true(at(simulation, "good")));
}

/* The answer of the last run; *root is to be given back. */
static const json_t *simulation(json_t **root)
{
    assert_answer(0);
    *root = output_json();
    assert_true(json_is_true(at(*root, "fits")));
    assert_true(json_is_object(at(*root, "plan")));
    const json_t *found = at(*root, "simulation");
    assert_all_pass(found);
    return found;
}

/* A step of 1 ms + 10 us a prompt token + 0.1 ms a sequence; 256 prompt tokens a step. */
#define SMALL_STEP                                                                                                         \
    "--max-seq-len", "8192", "--prefill-tokens", "256", "--step-base-us", "1000", "--step-prefill-us", "10",               \
        "--step-sequence-us", "100", "--json"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

static void a_prompt_is_computed_in_chunks_and_what_is_cached_is_not_computed_again(void **state)
{
    (void)state;
    const char *model = write_model("config.json", 8192);
    const char *path = write_text(
        "two.jsonl", "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 3, \"hash_ids\": [1, 2]}\n"
                     "{\"timestamp\": 1000, \"input_length\": 600, \"output_length\": 1, \"hash_ids\": [1, 2]}\n");
    run("simulate", model, "--budget", "24GiB", "--trace", path, SMALL_STEP);
    json_t *root;
    const json_t *s = simulation(&root);
    /* 256 + 256 + 88 tokens, then two more steps of one token each: the first token comes with the third chunk. */
    uint64_t first = 2 * (1000 + 2560 + 100) * US + (1000 + 880 + 100) * US;
    uint64_t last = first + 2 * (1000 + 100) * US;
    /* 599 tokens may be hit, 37 whole blocks of 16; 8 tokens are left. */
    uint64_t second = (1000 + 80 + 100) * US;
    assert_int_equal(number(s, "time", "steps"), 6);
    assert_int_equal(number(s, "time", "virtual_ns"), 1000 * MS + second);
    assert_int_equal(number(s, "time", "busy_ns"), last + second);
    const json_t *times = at(at(s, "time"), "first_token");
    assert_int_equal(json_integer_value(at(times, "n")), 2);
    assert_int_equal(json_integer_value(at(times, "p50_ns")), second);
    assert_int_equal(json_integer_value(at(times, "p99_ns")), first);
    assert_int_equal(json_integer_value(at(times, "max_ns")), first);
    assert_int_equal(json_integer_value(at(times, "mean_ns")), (first + second) / 2);
    assert_int_equal(json_integer_value(at(at(at(s, "time"), "wait"), "max_ns")), 0);
    assert_int_equal(number(s, "tokens", "prompt"), 1200);
    assert_int_equal(number(s, "tokens", "prefilled"), 600 + 8);
    assert_int_equal(number(s, "tokens", "generated"), 4);
    assert_int_equal(number(s, "cache", "hit_tokens"), 37 * 16);
    assert_true(fabs(json_number_value(at(at(s, "cache"), "hit_rate")) - 592.0 / 1200.0) < 1e-12);
    /* The last token of an answer is never written: 600 + 2 tokens in 38 blocks, 37 of them whole. */
    assert_int_equal(number(s, "cache", "peak_sequence_blocks"), 38);
    assert_int_equal(number(s, "cache", "peak_cached_blocks"), 37);
    assert_int_equal(number(s, "requests", "served"), 2);
    assert_int_equal(number(s, "requests", "peak_sequences"), 1);
    json_decref(root);
    run("simulate", model, "--budget", "24GiB", "--trace", path, SMALL_STEP, "--speed", "2.5");
    s = simulation(&root);
    assert_int_equal(number(s, "time", "virtual_ns"), 400 * MS + second);
    json_decref(root);
}

static const char *same_time_requests(const char *name, int n)
{
    char text[2048] = "";
    size_t used = 0;
    for (int i = 0; i < n; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "{\"timestamp\": 0, \"input_length\": 100, \"output_length\": 2, \"hash_ids\": [%d]}\n",
                                 i);
    return write_text(name, text);
}

static void sequences_share_a_step_and_its_chunk(void **state)
{
    (void)state;
    const char *model = write_model("config.json", 8192);
    const char *path = same_time_requests("together.jsonl", 2);
    run("simulate", model, "--budget", "24GiB", "--trace", path, "--max-batch", "2", SMALL_STEP);
    json_t *root;
    const json_t *s = simulation(&root);
    assert_int_equal(number(s, "time", "steps"), 2);
    assert_int_equal(number(s, "time", "virtual_ns"), (1000 + 2000 + 200) * US + (1000 + 200) * US);
    assert_int_equal(number(s, "requests", "peak_sequences"), 2);
    assert_int_equal(number(s, "requests", "queue_high_water"), 0);
    json_decref(root);
    /* The chunk holds the first prompt and 20 tokens of the second, whose other 80 come with the first one's next token. */
    run("simulate", model, "--budget", "24GiB", "--trace", path, "--max-batch", "2", SMALL_STEP, "--prefill-tokens", "120");
    s = simulation(&root);
    assert_int_equal(number(s, "time", "steps"), 3);
    assert_int_equal(number(s, "time", "virtual_ns"),
                     (1000 + 1200 + 200) * US + (1000 + 800 + 200) * US + (1000 + 100) * US);
    json_decref(root);
}

static void a_full_batch_makes_requests_wait_in_order_of_arrival(void **state)
{
    (void)state;
    const char *model = write_model("config.json", 8192);
    const char *path = same_time_requests("queue.jsonl", 3);
    uint64_t alone = (1000 + 1000 + 100) * US + (1000 + 100) * US;
    run("simulate", model, "--budget", "24GiB", "--trace", path, "--max-batch", "1", SMALL_STEP);
    json_t *root;
    const json_t *s = simulation(&root);
    assert_int_equal(number(s, "requests", "served"), 3);
    assert_int_equal(number(s, "requests", "queue_high_water"), 2);
    assert_int_equal(number(s, "requests", "waited_for_blocks"), 0);
    assert_int_equal(number(s, "time", "virtual_ns"), 3 * alone);
    assert_int_equal(json_integer_value(at(at(at(s, "time"), "wait"), "p50_ns")), alone);
    assert_int_equal(json_integer_value(at(at(at(s, "time"), "wait"), "max_ns")), 2 * alone);
    json_decref(root);
}

static void a_request_beyond_the_queue_is_refused_and_the_others_are_served(void **state)
{
    (void)state;
    const char *model = write_model("config.json", 8192);
    const char *path = same_time_requests("full.jsonl", 4);
    for (uint64_t limit = 0; limit < 4; limit++) {
        char text[8];
        snprintf(text, sizeof text, "%d", (int)limit);
        run("simulate", model, "--budget", "24GiB", "--trace", path, "--max-batch", "1", "--queue", text, SMALL_STEP);
        json_t *root;
        const json_t *s = simulation(&root);
        assert_int_equal(number(s, "requests", "served"), 1 + limit);
        assert_int_equal(number(s, "requests", "refused_queue_full"), 3 - limit);
        assert_int_equal(number(s, "requests", "queue_high_water"), limit);
        assert_int_equal(json_integer_value(at(s, "queue_limit")), limit);
        json_decref(root);
    }
}

static void what_can_never_be_served_is_refused_with_figures_and_ends_nothing(void **state)
{
    (void)state;
    const char *model = write_model("config.json", 8192);
    /* 8192 tokens fit, 8193 never; a prompt of none is no request; an answer of none is one. */
    const char *path = write_text(
        "never.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-01-01 00:00:00,8000,192\n2024-01-01 00:00:01,8000,193\n"
                     "2024-01-01 00:00:02,4000000000,7\n2024-01-01 00:00:03,0,5\n2024-01-01 00:00:04,17,0\n");
    run("simulate", model, "--budget", "24GiB", "--trace", path, SMALL_STEP);
    json_t *root;
    const json_t *s = simulation(&root);
    assert_int_equal(number(s, "requests", "all"), 5);
    assert_int_equal(number(s, "requests", "served"), 2);
    assert_int_equal(number(s, "requests", "refused_never_fits"), 2);
    assert_int_equal(number(s, "requests", "refused_no_prompt"), 1);
    assert_int_equal(number(s, "requests", "largest_never_fits_tokens"), 4000000007);
    assert_int_equal(number(s, "requests", "most_tokens"), 8192);
    assert_int_equal(number(s, "tokens", "generated"), 192);
    assert_int_equal(json_integer_value(at(at(at(s, "time"), "first_token"), "n")), 1);
    json_decref(root);
    run("simulate", model, "--budget", "24GiB", "--trace", path, "--max-seq-len", "8192");
    assert_answer(0);
    assert_holds(result.out, "2 served, 3 refused: 2 can never fit, 0 queue full, 1 without a prompt");
    assert_holds(result.out, "has 4000000007 tokens; one sequence can have 8192");
}

static void a_pool_that_grows_grows_inside_its_reservation(void **state)
{
    (void)state;
    const char *model = write_model("config.json", 8192);
    run("simulate", model, "--budget", "24GiB", "--max-seq-len", "8192", "--max-batch", "2", "--requests", "300",
        "--kv-initial-percent", "1", "--json");
    json_t *root;
    const json_t *s = simulation(&root);
    assert_true(number(s, "cache", "growths") > 0);
    assert_true(json_integer_value(at(s, "serving_commits")) > 0);
    const json_t *by_tag = at(s, "serving_acquisitions");
    const char *tag;
    json_t *count;
    json_object_foreach((json_t *)(uintptr_t)by_tag, tag, count) assert_int_equal(json_integer_value(count), 0);
    json_decref(root);
}

static void the_same_seed_gives_the_same_answer_and_another_another(void **state)
{
    (void)state;
    const char *model = write_model("config.json", 8192);
    static command_result before;
    run("simulate", model, "--budget", "24GiB", "--requests", "200", "--seed", "5", "--json");
    assert_answer(0);
    before = result;
    run("simulate", model, "--budget", "24GiB", "--requests", "200", "--seed", "5", "--json");
    assert_string_equal(result.out, before.out);
    run("simulate", model, "--budget", "24GiB", "--requests", "200", "--seed", "6", "--json");
    assert_answer(0);
    assert_string_not_equal(result.out, before.out);
}

static void a_plan_that_does_not_fit_is_reported_as_plan_reports_it(void **state)
{
    (void)state;
    const char *model = write_model("config.json", 8192);
    static command_result planned;
    run("plan", model, "--budget", "8GiB");
    assert_int_equal(result.code, 1);
    planned = result;
    run("simulate", model, "--budget", "8GiB", "--requests", "10");
    assert_answer(1);
    assert_string_equal(result.out, planned.out);
    run("simulate", model, "--budget", "8GiB", "--requests", "10", "--json");
    assert_answer(1);
    json_t *root = output_json();
    assert_true(json_is_false(at(root, "fits")));
    assert_null(json_object_get(root, "simulation"));
    json_decref(root);
}

static void the_demo_is_served_and_its_report_shows_every_tier(void **state)
{
    (void)state;
    run("simulate", DEMO_MODEL, "--budget", "24GiB", "--max-batch", "4", "--max-seq-len", "8192", "--trace", DEMO_TRACE,
        "--report");
    assert_answer(0);
    static const char *const part[] = {"peak committed", "peak live",     "weights",      "KV cache",   "forward scratch",
                                       "charge",         "self-checks",   "kv_blocks 0",  "throughput", "prefix hits",
                                       "first token",    "queue        ", "conservation "};
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) assert_holds(result.out, part[i]);
    assert_null(strstr(result.out, "FAIL"));
    run("simulate", DEMO_MODEL, "--budget", "24GiB", "--max-batch", "4", "--max-seq-len", "8192", "--trace", DEMO_TRACE);
    assert_answer(0);
    assert_null(strstr(result.out, "peak committed"));
}

static void every_wrong_flag_is_one_line_and_bad_usage(void **state)
{
    (void)state;
    const char *model = write_model("config.json", 8192);
#define ASSERT_USAGE(part, ...)                                                                                            \
    do {                                                                                                                   \
        run("simulate", __VA_ARGS__);                                                                                      \
        assert_one_line_error(2);                                                                                          \
        assert_holds(result.err, part);                                                                                    \
    } while (0)
    ASSERT_USAGE("no MODEL", "--budget", "24GiB", "--requests", "1");
    ASSERT_USAGE("no --budget", model, "--requests", "1");
    ASSERT_USAGE("no requests", model, "--budget", "24GiB");
    ASSERT_USAGE("both given", model, "--budget", "24GiB", "--requests", "1", "--trace", DEMO_TRACE);
    ASSERT_USAGE("--seed", model, "--budget", "24GiB", "--seed", "1", "--trace", DEMO_TRACE);
    ASSERT_USAGE("--trace-block-tokens", model, "--budget", "24GiB", "--requests", "1", "--trace-block-tokens", "16");
    ASSERT_USAGE("--trace-block-tokens", model, "--budget", "24GiB", "--trace", DEMO_TRACE, "--trace-block-tokens", "0");
    ASSERT_USAGE("--requests", model, "--budget", "24GiB", "--requests", "0");
    ASSERT_USAGE("--seed", model, "--budget", "24GiB", "--requests", "1", "--seed", "x");
    ASSERT_USAGE("--queue", model, "--budget", "24GiB", "--requests", "1", "--queue", "-1");
    ASSERT_USAGE("--kv-initial-percent", model, "--budget", "24GiB", "--requests", "1", "--kv-initial-percent", "101");
    ASSERT_USAGE("--max-batch", model, "--budget", "24GiB", "--requests", "1", "--max-batch", "0");
    ASSERT_USAGE("--trace: needs a value", model, "--budget", "24GiB", "--trace");
    ASSERT_USAGE("--frob", model, "--budget", "24GiB", "--requests", "1", "--frob");
    ASSERT_USAGE("second MODEL", model, model, "--budget", "24GiB", "--requests", "1");
    static const char *const bad[] = {"",    ".",  "0",    "0.0", "1.", ".5",      "1.0001",
                                      "1e3", "-1", "1..2", "+1",  " 1", "1000001", "99999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ASSERT_USAGE("--speed", model, "--budget", "24GiB", "--requests", "1", "--speed", bad[i]);
    ASSERT_USAGE("--step-base-us", model, "--budget", "24GiB", "--requests", "1", "--step-base-us", "1000000001");
    ASSERT_USAGE("--step-prefill-us", model, "--budget", "24GiB", "--requests", "1", "--step-prefill-us", "1000001");
    ASSERT_USAGE("--step-sequence-us", model, "--budget", "24GiB", "--requests", "1", "--step-sequence-us", "x");
    run("simulate", "--help");
    assert_answer(0);
    static const char *const flags[] = {
        "--budget",       "--kv-dtype",        "--line",   "--trace", "--requests",        "--seed", "--speed", "--queue",
        "--step-base-us", "--step-prefill-us", "--report", "--json",  "--step-sequence-us"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) assert_holds(result.out, flags[i]);
}

static void a_file_that_can_not_be_read_is_named(void **state)
{
    (void)state;
    const char *model = write_model("config.json", 8192);
    run("simulate", model, "--budget", "24GiB", "--trace", test_path("missing.jsonl"));
    assert_one_line_error(3);
    assert_holds(result.err, "missing.jsonl");
    run("simulate", model, "--budget", "24GiB", "--trace", write_text("bad.jsonl", "{\"timestamp\": 0}\n"));
    assert_one_line_error(3);
    assert_holds(result.err, "bad.jsonl:1: input_length");
    run("simulate", test_path("no-model.json"), "--budget", "24GiB", "--trace", DEMO_TRACE);
    assert_one_line_error(3);
    assert_holds(result.err, "no-model.json");
    const char *const full[] = {"simulate", model, "--budget", "24GiB", "--requests", "3", NULL};
    run_vector("/dev/full", full);
    assert_int_equal(result.code, 3);
    assert_holds(result.err, "standard output");
}

/* ---- published traces and models, which are not shipped with the project --------------------------------------------------- */

static const char *shared(const char *folder, const char *name)
{
    static char path[2][4096];
    static unsigned next;
    char *p = path[next++ % 2];
    const char *root = getenv("IMPMEM_SHARED");
    snprintf(p, sizeof path[0], "%s/data/%s/%s", root ? root : IMPMEM_SOURCE_DIR "/../shared", folder, name);
    if (access(p, R_OK)) {
        print_message("%s can't be read: IMPMEM_SHARED names the folder of shared data\n", p);
        skip();
    }
    return p;
}

/* The first lines of a trace. */
static const char *slice(const char *name, int lines)
{
    FILE *in = fopen(shared("traces", name), "r");
    const char *path = test_path(name);
    FILE *out = fopen(path, "w");
    assert_non_null(in);
    assert_non_null(out);
    for (int c = fgetc(in), n = 0; c != EOF && n < lines; c = fgetc(in)) {
        fputc(c, out);
        n += c == '\n';
    }
    fclose(in);
    assert_int_equal(fclose(out), 0);
    return path;
}

#define LONG_CONTEXT "--max-seq-len", "131072", "--promised-kv-tokens", "131072", "--max-batch", "64", "--json"

static void every_trace_is_served_whole_on_every_kind_of_model(void **state)
{
    (void)state;
    enum { LINES = 201, N_TRACES = 4, N_MODELS = 3 };
    static const char *const trace[N_TRACES] = {"mooncake_conversation_trace.jsonl", "mooncake_synthetic_trace.jsonl",
                                                "AzureLLMInferenceTrace_conv.csv", "AzureLLMInferenceTrace_code.csv"};
    static const struct {
        const char *file, *budget;
        int caches; /* sliding windows can't be hit */
    } model[N_MODELS] = {{"Llama-3.1-8B.config.json", "80GiB", 1},
                         {"Qwen3-30B-A3B.config.json", "120GiB", 1},
                         {"gpt-oss-20b.config.json", "80GiB", 0}};
    for (int t = 0; t < N_TRACES; t++) {
        const char *path = slice(trace[t], LINES);
        for (int m = 0; m < N_MODELS; m++) {
            run("simulate", shared("models", model[m].file), "--budget", model[m].budget, "--trace", path, LONG_CONTEXT);
            json_t *root;
            const json_t *s = simulation(&root);
            assert_int_equal(number(s, "requests", "all"), t < 2 ? LINES : LINES - 1);
            assert_int_equal(number(s, "requests", "served") + number(s, "requests", "refused_never_fits"),
                             number(s, "requests", "all"));
            assert_int_equal(json_is_null(at(at(s, "cache"), "unsupported")), model[m].caches);
            /* The first 201 lines of both Mooncake traces begin with the same blocks often; Azure tells lengths only. */
            if (t < 2 && model[m].caches) assert_true(number(s, "cache", "hit_tokens") > 0);
            else assert_int_equal(number(s, "cache", "hit_tokens"), 0);
            json_decref(root);
        }
    }
}

/* Sanitizers make the whole trace too long for a test; its beginning takes the same paths. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static void the_whole_conversation_trace_is_served(void **state)
{
    (void)state;
    const uint64_t requests = SANITIZED ? 1000 : 12031;
    const char *path = slice("mooncake_conversation_trace.jsonl", (int)requests);
    run("simulate", shared("models", "Llama-3.1-8B.config.json"), "--budget", "80GiB", "--trace", path, LONG_CONTEXT);
    json_t *root;
    const json_t *s = simulation(&root);
    assert_int_equal(number(s, "requests", "served"), requests);
    assert_int_equal(number(s, "requests", "refused_never_fits"), 0);
    assert_int_equal(number(s, "tokens", "prompt"), json_integer_value(at(at(s, "load"), "prompt_tokens")));
    assert_int_equal(number(s, "tokens", "prefilled") + number(s, "cache", "hit_tokens"), number(s, "tokens", "prompt"));
    assert_int_equal(number(s, "tokens", "generated"), json_integer_value(at(at(s, "load"), "answer_tokens")));
    assert_int_equal(json_integer_value(at(s, "walks")), 7);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_is_computed_in_chunks_and_what_is_cached_is_not_computed_again),
        cmocka_unit_test(sequences_share_a_step_and_its_chunk),
        cmocka_unit_test(a_full_batch_makes_requests_wait_in_order_of_arrival),
        cmocka_unit_test(a_request_beyond_the_queue_is_refused_and_the_others_are_served),
        cmocka_unit_test(what_can_never_be_served_is_refused_with_figures_and_ends_nothing),
        cmocka_unit_test(a_pool_that_grows_grows_inside_its_reservation),
        cmocka_unit_test(the_same_seed_gives_the_same_answer_and_another_another),
        cmocka_unit_test(a_plan_that_does_not_fit_is_reported_as_plan_reports_it),
        cmocka_unit_test(the_demo_is_served_and_its_report_shows_every_tier),
        cmocka_unit_test(every_wrong_flag_is_one_line_and_bad_usage),
        cmocka_unit_test(a_file_that_can_not_be_read_is_named),
        cmocka_unit_test(every_trace_is_served_whole_on_every_kind_of_model),
        cmocka_unit_test(the_whole_conversation_trace_is_served),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
