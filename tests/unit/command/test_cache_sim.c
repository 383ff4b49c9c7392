/* impmem cache-sim: the figures of the Mooncake traces under the documented definition, usage, files, and the demo trace.
 * */
#define _GNU_SOURCE
#include "command_run.h"

#include <math.h>

#define DEMO IMPMEM_SOURCE_DIR "/tools/demo/demo-trace.jsonl"

/* A trace that is not shipped with the project. */
static const char *shared_trace(const char *name)
{
    static char path[4096];
    const char *folder = getenv("IMPMEM_SHARED");
    snprintf(path, sizeof path, "%s/data/traces/%s", folder ? folder : IMPMEM_SOURCE_DIR "/../shared", name);
    if (access(path, R_OK)) {
        print_message("%s can't be read: IMPMEM_SHARED names the folder of shared data\n", path);
        skip();
    }
    return path;
}

typedef struct figure {
    uint64_t blocks;
    double lru; /* % to two decimals */
    double bound;
} figure;

static double percent(const json_t *size, const char *policy)
{
    const json_t *rate = json_object_get(json_object_get(size, policy), "hit_rate");
    assert_true(json_is_number(rate));
    return 100.0 * json_number_value(rate);
}

static void assert_percent(double found, double expected)
{
    if (!(fabs(found - expected) <= 0.005)) print_error("%.4f %%, expected %.2f\n", found, expected);
    assert_true(fabs(found - expected) <= 0.005);
}

static void assert_figures(const char *path, const figure *expected, size_t n)
{
    char blocks[128] = "";
    for (size_t i = 0, used = 0; i < n; i++)
        used += (size_t)snprintf(blocks + used, sizeof blocks - used, "%s%u", i ? "," : "", (unsigned)expected[i].blocks);
    run("cache-sim", path, "--policy", "lru", "--blocks", blocks, "--json");
    assert_answer(0);
    json_t *root = output_json();
    const json_t *sizes = json_object_get(root, "sizes");
    assert_int_equal(json_array_size(sizes), n);
    for (size_t i = 0; i < n; i++) {
        const json_t *size = json_array_get(sizes, i);
        assert_int_equal(json_integer_value(json_object_get(size, "blocks")), expected[i].blocks);
        assert_percent(percent(size, "lru"), expected[i].lru);
        assert_percent(percent(size, "policy"), expected[i].lru);
        assert_percent(percent(size, "bound"), expected[i].bound);
    }
    json_decref(root);
    /* The library's own cache keeps what exact LRU keeps, to the block. */
    run("cache-sim", path, "--policy", "impmem", "--blocks", blocks, "--json");
    assert_answer(0);
    root = output_json();
    assert_string_equal(json_string_value(json_object_get(root, "policy")), "impmem");
    for (size_t i = 0; i < n; i++) {
        const json_t *size = json_array_get(json_object_get(root, "sizes"), i);
        assert_percent(percent(size, "policy"), expected[i].lru);
        assert_true(json_equal(json_object_get(size, "policy"), json_object_get(size, "lru")));
    }
    json_decref(root);
    run("cache-sim", path, "--blocks", blocks);
    assert_answer(0);
    for (size_t i = 0; i < n; i++) {
        char row[64];
        snprintf(row, sizeof row, "%12u  %10.2f  %10.2f\n", (unsigned)expected[i].blocks, expected[i].lru,
                 expected[i].bound);
        assert_holds(result.out, row);
    }
}

/* Published figures of this definition: 4.5, 8.7, 21.2, 28.8, 35.1 and 36.6 %. */
static void the_mooncake_conversation_trace_has_the_documented_rates(void **state)
{
    (void)state;
    static const figure expected[] = {
        {1000, 4.45, 19.07}, {4000, 8.65, 32.23}, {10000, 21.16, 36.64}, {20000, 28.78, 36.64}, {40000, 35.14, 36.64},
    };
    const char *path = shared_trace("mooncake_conversation_trace.jsonl");
    assert_figures(path, expected, sizeof expected / sizeof expected[0]);
    assert_holds(result.out, "12031 requests");
    assert_holds(result.out, "288500 in prompts");
}

static void the_mooncake_synthetic_trace_has_the_documented_rates(void **state)
{
    (void)state;
    static const figure expected[] = {
        {1000, 8.41, 27.67},
        {4000, 23.45, 49.34},
        {10000, 42.39, 61.80},
        {40000, 63.93, 63.96},
    };
    const char *path = shared_trace("mooncake_synthetic_trace.jsonl");
    assert_figures(path, expected, sizeof expected / sizeof expected[0]);
    assert_holds(result.out, "3993 requests");
    assert_holds(result.out, "121877 in prompts");
}

/* 19,366 rows; requests of an Azure trace share nothing. */
static void an_azure_trace_has_no_hits(void **state)
{
    (void)state;
    run("cache-sim", shared_trace("AzureLLMInferenceTrace_conv.csv"), "--blocks", "1000000", "--json");
    assert_answer(0);
    json_t *root = output_json();
    const json_t *trace = json_object_get(root, "trace");
    assert_string_equal(json_string_value(json_object_get(trace, "format")), "azure");
    assert_int_equal(json_integer_value(json_object_get(trace, "requests")), 19366);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(root, "unlimited"), "hit_blocks")), 0);
    json_decref(root);
}

static void a_trace_of_16_token_blocks_is_read_when_told_so(void **state)
{
    (void)state;
    const char *path = shared_trace("sharegpt-llama-3.1-8b-300-blk16.jsonl");
    run("cache-sim", path, "--blocks", "100");
    assert_one_line_error(3);
    run("cache-sim", path, "--blocks", "100", "--trace-block-tokens", "16");
    assert_answer(0);
    assert_holds(result.out, "300 requests");
    assert_holds(result.out, "16 tokens each");
}

/* Two prompts of 3 and one of 2 blocks: 1 2 3, 1 2 4, 1 2. */
static const char small[] = "{\"timestamp\":0,\"input_length\":1100,\"output_length\":1,\"hash_ids\":[1,2,3]}\n"
                            "{\"timestamp\":1,\"input_length\":1536,\"output_length\":1,\"hash_ids\":[1,2,4]}\n"
                            "{\"timestamp\":2,\"input_length\":1024,\"output_length\":1,\"hash_ids\":[1,2]}\n";

static void assert_hits(const json_t *of, const char *name, int blocks)
{
    const json_t *hits = json_object_get(of, name);
    assert_int_equal(json_integer_value(json_object_get(hits, "hit_blocks")), blocks);
    assert_percent(100.0 * json_number_value(json_object_get(hits, "hit_rate")), 100.0 * blocks / 8.0);
}

static void json_holds_every_figure_of_every_size_in_the_order_asked(void **state)
{
    (void)state;
    const char *path = write_text("small.jsonl", small);
    run("cache-sim", path, "--blocks", "2,1,4294967295", "--policy", "bound", "--json");
    assert_answer(0);
    json_t *root = output_json();
    const json_t *trace = json_object_get(root, "trace");
    assert_string_equal(json_string_value(json_object_get(trace, "path")), path);
    assert_string_equal(json_string_value(json_object_get(trace, "format")), "mooncake");
    static const struct {
        const char *key;
        int value;
    } field[] = {{"requests", 3},        {"prompt_tokens", 1100 + 1536 + 1024},
                 {"block_tokens", 512},  {"prompt_blocks", 8},
                 {"distinct_blocks", 4}, {"unchained_blocks", 0}};
    for (size_t i = 0; i < sizeof field / sizeof field[0]; i++)
        assert_int_equal(json_integer_value(json_object_get(trace, field[i].key)), field[i].value);
    assert_string_equal(json_string_value(json_object_get(root, "policy")), "bound");
    assert_hits(root, "unlimited", 4);
    static const int blocks_hits[][2] = {{2, 4}, {1, 2}, {-1, 4}};
    for (size_t i = 0; i < 3; i++) {
        const json_t *size = json_array_get(json_object_get(root, "sizes"), i);
        if (blocks_hits[i][0] > 0) assert_int_equal(json_integer_value(json_object_get(size, "blocks")), blocks_hits[i][0]);
        assert_hits(size, "policy", blocks_hits[i][1]);
        assert_hits(size, "lru", blocks_hits[i][1]);
        assert_hits(size, "bound", blocks_hits[i][1]);
    }
    json_decref(root);
}

static void a_trace_whose_bound_is_not_proven_says_so(void **state)
{
    (void)state;
    run("cache-sim", write_text("small.jsonl", small), "--blocks", "1");
    assert_answer(0);
    assert_null(strstr(result.out, "no proven bound"));
    run("cache-sim",
        write_text("cut.jsonl", "{\"timestamp\":0,\"input_length\":1024,\"output_length\":1,\"hash_ids\":[1,2]}\n"
                                "{\"timestamp\":1,\"input_length\":512,\"output_length\":1,\"hash_ids\":[2]}\n"),
        "--blocks", "1");
    assert_answer(0);
    assert_holds(result.out, "1 blocks don't follow");
    assert_holds(result.out, "no proven bound");
}

static void a_trace_of_empty_prompts_has_a_rate_of_zero(void **state)
{
    (void)state;
    run("cache-sim", write_text("empty.jsonl", "{\"timestamp\":0,\"input_length\":0,\"output_length\":1,\"hash_ids\":[]}"),
        "--blocks", "5", "--json");
    assert_answer(0);
    json_t *root = output_json();
    assert_true(percent(json_array_get(json_object_get(root, "sizes"), 0), "bound") == 0.0);
    json_decref(root);
}

static void bad_usage_names_the_flag_the_value_and_the_range(void **state)
{
    (void)state;
    run("cache-sim", "--blocks", "5");
    assert_one_line_error(2);
    assert_holds(result.err, "no trace");
    run("cache-sim", DEMO);
    assert_one_line_error(2);
    assert_holds(result.err, "--blocks N[,N...]");
    run("cache-sim", DEMO, DEMO, "--blocks", "5");
    assert_one_line_error(2);
    assert_holds(result.err, "one trace too many");
    static const char *const bad_sizes[] = {"",   "0",   "-1", "1,",         ",1",  "1,,2",
                                            "1k", "1.5", " 1", "4294967296", "1,x", "11111111111111111111111111111"};
    for (size_t i = 0; i < sizeof bad_sizes / sizeof bad_sizes[0]; i++) {
        run("cache-sim", DEMO, "--blocks", bad_sizes[i]);
        assert_one_line_error(2);
        assert_holds(result.err, "--blocks: \"");
        assert_holds(result.err, "from 1 to 4294967295");
    }
    char many[2 * 65 + 1];
    for (size_t i = 0; i < 65; i++) memcpy(many + 2 * i, "1,", 2);
    many[2 * 65 - 1] = '\0';
    run("cache-sim", DEMO, "--blocks", many);
    assert_one_line_error(2);
    assert_holds(result.err, "--blocks: more than 64 sizes");
    many[2 * 64 - 1] = '\0';
    run("cache-sim", DEMO, "--blocks", many);
    assert_answer(0);
    run("cache-sim", DEMO, "--blocks", "5", "--policy", "mru");
    assert_one_line_error(2);
    assert_holds(result.err, "--policy: \"mru\": no such policy; expected one of: lru, bound");
    static const char *const bad_tokens[] = {"0", "1048577", "16x", ""};
    for (size_t i = 0; i < sizeof bad_tokens / sizeof bad_tokens[0]; i++) {
        run("cache-sim", DEMO, "--blocks", "5", "--trace-block-tokens", bad_tokens[i]);
        assert_one_line_error(2);
        assert_holds(result.err, "--trace-block-tokens: \"");
        assert_holds(result.err, "from 1 to 1048576");
    }
    run("cache-sim", DEMO, "--blocks", "5", "--frob");
    assert_one_line_error(2);
    assert_holds(result.err, "--frob: no such flag");
}

static void a_bad_file_is_named_with_its_line_and_exits_with_3(void **state)
{
    (void)state;
    char expected[256];
    run("cache-sim", test_path("nowhere"), "--blocks", "5");
    assert_one_line_error(3);
    assert_holds(result.err, test_path("nowhere"));
    assert_holds(result.err, "No such file");
    const char *path = write_text("bad.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,x,2\n");
    snprintf(expected, sizeof expected, "impmem: %s:2: ContextTokens: found \"x\", expected a whole number of tokens",
             path);
    run("cache-sim", path, "--blocks", "5");
    assert_one_line_error(3);
    assert_holds(result.err, expected);
    static const char binary[] = "\x7f"
                                 "ELF\0\0\n";
    run("cache-sim", write_bytes("bad.bin", binary, sizeof binary), "--blocks", "5");
    assert_one_line_error(3);
}

static void an_answer_that_can_not_be_written_exits_with_3(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK)) {
        print_message("/dev/full is missing here\n");
        skip();
    }
    run_vector("/dev/full", (const char *const[]){"cache-sim", DEMO, "--blocks", "5", NULL});
    assert_one_line_error(3);
    run_vector("/dev/full", (const char *const[]){"cache-sim", DEMO, "--blocks", "5", "--json", NULL});
    assert_one_line_error(3);
}

static void help_tells_the_definition(void **state)
{
    (void)state;
    run("cache-sim", "--help");
    assert_answer(0);
    static const char *const part[] = {"--blocks", "--policy",    "--trace-block-tokens",
                                       "--json",   "leading run", "1000 blocks"};
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) assert_holds(result.out, part[i]);
}

/* ---- the demo trace ------------------------------------------------------------------------------------------------ */

/* Means of the Azure conversation trace of 2023: contexts of 1154.7 tokens, answers of 211.1. */
static void the_demo_trace_is_an_hour_with_the_published_means(void **state)
{
    (void)state;
    FILE *file = fopen(DEMO, "r");
    assert_non_null(file);
    double input = 0, output = 0, last = 0;
    unsigned n = 0;
    static char line[1 << 16];
    for (; fgets(line, sizeof line, file); n++) {
        json_t *request = json_loads(line, 0, NULL);
        assert_non_null(request);
        input += (double)json_integer_value(json_object_get(request, "input_length"));
        output += (double)json_integer_value(json_object_get(request, "output_length"));
        last = (double)json_integer_value(json_object_get(request, "timestamp"));
        json_decref(request);
    }
    long bytes = ftell(file);
    fclose(file);
    assert_true(bytes < 600000);
    assert_in_range(n, 1200, 2000);
    assert_true(last > 3500e3 && last < 3600e3);
    assert_true(fabs(input / n - 1154.7) < 1.0);
    assert_true(fabs(output / n - 211.1) < 1.0);
    run("cache-sim", DEMO, "--blocks", "50");
    assert_answer(0);
    assert_null(strstr(result.out, "no proven bound"));
}

static void the_demo_trace_is_what_its_script_writes(void **state)
{
    (void)state;
    if (system("python3 -c '' 2>/dev/null")) {
        print_message("there is no python3 here\n");
        skip();
    }
    char shell[1024];
    snprintf(shell, sizeof shell, "python3 '%s/tools/demo/make_demo_trace.py' - 2>/dev/null | cmp -s - '%s'",
             IMPMEM_SOURCE_DIR, DEMO);
    assert_int_equal(system(shell), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mooncake_conversation_trace_has_the_documented_rates),
        cmocka_unit_test(the_mooncake_synthetic_trace_has_the_documented_rates),
        cmocka_unit_test(an_azure_trace_has_no_hits),
        cmocka_unit_test(a_trace_of_16_token_blocks_is_read_when_told_so),
        cmocka_unit_test(json_holds_every_figure_of_every_size_in_the_order_asked),
        cmocka_unit_test(a_trace_whose_bound_is_not_proven_says_so),
        cmocka_unit_test(a_trace_of_empty_prompts_has_a_rate_of_zero),
        cmocka_unit_test(bad_usage_names_the_flag_the_value_and_the_range),
        cmocka_unit_test(a_bad_file_is_named_with_its_line_and_exits_with_3),
        cmocka_unit_test(an_answer_that_can_not_be_written_exits_with_3),
        cmocka_unit_test(help_tells_the_definition),
        cmocka_unit_test(the_demo_trace_is_an_hour_with_the_published_means),
        cmocka_unit_test(the_demo_trace_is_what_its_script_writes),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
