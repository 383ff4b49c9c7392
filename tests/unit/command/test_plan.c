/* `impmem plan` on whole runs: exit codes, reports, levers that work when pasted, --open, JSON, device profiles. */
#define _GNU_SOURCE
#include "command_run.h"

#define MIB ((uint64_t)1 << 20)

static const char *model(void)
{
    static char path[160];
    if (!path[0]) snprintf(path, sizeof path, "%s", write_model("model.json", 8192));
    return path;
}

static uint64_t member(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value)) print_error("no integer %s\n", key);
    assert_true(json_is_integer(value));
    return (uint64_t)json_integer_value(value);
}

/* Bytes that --open booked for the line of that name; the schema of the opening is this command's own. */
static uint64_t journal_bytes(const json_t *root, const char *name)
{
    const json_t *lines = json_object_get(json_object_get(root, "opening"), "lines");
    size_t i;
    json_t *line;
    json_array_foreach(lines, i, line)
    {
        if (strcmp(json_string_value(json_object_get(line, "name")), name) == 0) return member(line, "journal_bytes");
    }
    print_error("no line %s in: %s\n", name, result.out);
    fail();
    return 0;
}

/* What --open booked on the lines first <= id < end: line ids are pinned in impmem/line.h, names are not. */
static uint64_t total_of_ids(const json_t *root, uint64_t first, uint64_t end)
{
    const json_t *lines = json_object_get(json_object_get(root, "opening"), "lines");
    uint64_t total = 0;
    size_t i;
    json_t *line;
    json_array_foreach(lines, i, line)
    {
        uint64_t id = member(line, "id");
        if (id >= first && id < end) total += member(line, "journal_bytes");
    }
    return total;
}

static void a_plan_that_fits_exits_with_0_and_names_model_and_device(void **state)
{
    (void)state;
    run("plan", model(), "--budget", "48GiB");
    assert_answer(0);
    assert_holds(result.out, "model   ");
    assert_holds(result.out, "architecture llama");
    assert_holds(result.out, "config.json");
    assert_holds(result.out, "estimated: ");
    assert_holds(result.out, "device  default, estimated: ");
    assert_holds(result.out, "KV holds");
}

static void a_plan_that_does_not_fit_exits_with_1_and_reports_on_standard_output(void **state)
{
    (void)state;
    run("plan", model(), "--budget", "12GiB");
    assert_answer(1);
    assert_holds(result.out, "does not fit");
    assert_holds(result.out, "--budget");
}

static void a_budget_of_nothing_is_an_answer_not_an_error(void **state)
{
    (void)state;
    run("plan", model(), "--budget", "0");
    assert_answer(1);
    assert_holds(result.out, "does not fit");
}

/* Levers of the failure that is in result.out: "  --flag value ..." lines. */
static size_t printed_levers(char levers[][2][64], size_t capacity)
{
    static char text[RUN_OUTPUT_BYTES];
    memcpy(text, result.out, sizeof text);
    size_t n = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char flag[64];
        char value[64];
        if (sscanf(line, " %63s %63s", flag, value) != 2 || strncmp(flag, "--", 2)) continue;
        assert_true(n < capacity);
        memcpy(levers[n][0], flag, sizeof flag);
        memcpy(levers[n][1], value, sizeof value);
        n++;
    }
    return n;
}

static void every_lever_pasted_back_fits(void **state)
{
    (void)state;
    static const char *const loads[][8] = {
        {"--budget", "20GiB", "--max-batch", "8", "--max-seq-len", "8192"},
        {"--budget", "18GiB", "--max-batch", "1", "--max-seq-len", "32768"},
        {"--budget", "12GiB"},
        {"--budget", "22GiB", "--max-batch", "16", "--max-seq-len", "3000", "--block-size", "256"},
        {"--budget", "19GiB", "--max-batch", "4", "--kv-dtype", "f16,q8_0"},
        {"--budget", "17GiB", "--max-batch", "4", "--prefill-tokens", "8192", "--workspaces", "reference"},
    };
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        const char *arguments[16] = {"plan", model()};
        size_t n = 2;
        for (size_t a = 0; a < 8 && loads[i][a]; a++) arguments[n++] = loads[i][a];
        run_vector(NULL, arguments);
        assert_answer(1);
        char levers[16][2][64];
        size_t n_levers = printed_levers(levers, 16);
        assert_true(n_levers > 0);
        for (size_t l = 0; l < n_levers; l++) {
            arguments[n] = levers[l][0];
            arguments[n + 1] = levers[l][1];
            arguments[n + 2] = NULL;
            run_vector(NULL, arguments);
            if (result.code) print_error("load %zu: %s %s\n", i, levers[l][0], levers[l][1]);
            assert_answer(0);
        }
    }
}

static void json_is_one_object_with_the_plan_or_the_failure(void **state)
{
    (void)state;
    run("plan", model(), "--budget", "48GiB", "--json");
    assert_answer(0);
    json_t *root = output_json();
    assert_true(json_is_true(json_object_get(root, "fits")));
    assert_true(json_is_object(json_object_get(root, "plan")));
    assert_null(json_object_get(root, "failure"));
    assert_null(json_object_get(root, "opening"));
    const json_t *about = json_object_get(root, "model");
    assert_string_equal(json_string_value(json_object_get(about, "path")), model());
    assert_int_equal(member(about, "trained_context"), 8192);
    /* Llama-3.1-8B's published 8,030,261,248 parameters at two bytes each. */
    assert_int_equal(member(about, "weight_bytes"), 2 * UINT64_C(8030261248));
    assert_string_equal(json_string_value(json_object_get(about, "weight_source")), "estimated");
    assert_true(json_array_size(json_object_get(about, "notes")) > 0);
    assert_true(json_is_true(json_object_get(json_object_get(root, "device"), "estimated")));
    json_decref(root);

    run("plan", model(), "--budget", "12GiB", "--json");
    assert_answer(1);
    root = output_json();
    assert_true(json_is_false(json_object_get(root, "fits")));
    assert_null(json_object_get(root, "plan"));
    assert_true(json_is_object(json_object_get(root, "failure")));
    json_decref(root);
}

static void an_opened_plan_equals_its_journal_and_leaves_nothing(void **state)
{
    (void)state;
    run("plan", model(), "--budget", "48GiB", "--open", "--json");
    assert_answer(0);
    json_t *root = output_json();
    const json_t *opening = json_object_get(root, "opening");
    assert_true(json_is_true(json_object_get(opening, "good")));
    assert_true(json_is_null(json_object_get(opening, "failed_step")));
    assert_int_equal(member(opening, "unplanned_bytes"), 0);
    assert_int_equal(member(opening, "serving_acquisitions"), 0);
    const json_t *live = json_object_get(opening, "live_bytes");
    assert_int_equal(member(live, "device"), 0);
    assert_int_equal(member(live, "pinned"), 0);
    assert_int_equal(member(live, "pageable"), 0);
    size_t i;
    json_t *line;
    json_array_foreach(json_object_get(opening, "lines"), i, line)
    {
        assert_true(json_is_true(json_object_get(line, "equal")));
        assert_int_equal(member(line, "planned_bytes"), member(line, "journal_bytes"));
    }
    assert_true(i > 3);
    /* Weights are line 3; KV groups are lines 16 to 31: one sequence of 8192 tokens. */
    assert_int_equal(total_of_ids(root, 3, 4), 2 * UINT64_C(8030261248));
    assert_int_equal(total_of_ids(root, 16, 32), 8192 * TEST_KV_BYTES_PER_TOKEN);
    json_decref(root);

    run("plan", model(), "--budget", "48GiB", "--open");
    assert_answer(0);
    assert_holds(result.out, "0 bytes unplanned");
    assert_holds(result.out, "live bytes left: device 0, pinned 0, pageable 0");
    assert_null(strstr(result.out, "NO"));
    assert_null(strstr(result.out, "FAILED"));
}

static void a_plan_that_does_not_fit_is_not_opened(void **state)
{
    (void)state;
    run("plan", model(), "--budget", "12GiB", "--open");
    assert_answer(1);
    assert_null(strstr(result.out, "opened"));
}

static void lines_of_every_tier_are_planned_and_booked(void **state)
{
    (void)state;
    run("plan", model(), "--budget", "48GiB", "--open", "--json", "--line", "lora=model:64MiB", "--line",
        "vision=engine:256MiB", "--line", "tile buffer=scratch:1MiB", "--line", "neighbour=charge:300MiB", "--line",
        "uploads=pinned:32MiB", "--line", "reader=staging:16MiB");
    assert_answer(0);
    json_t *root = output_json();
    assert_int_equal(journal_bytes(root, "lora"), 64 * MIB);
    assert_int_equal(journal_bytes(root, "vision"), 256 * MIB);
    assert_int_equal(journal_bytes(root, "tile buffer"), 1 * MIB);
    assert_int_equal(journal_bytes(root, "neighbour"), 300 * MIB);
    assert_int_equal(journal_bytes(root, "uploads"), 32 * MIB);
    assert_int_equal(journal_bytes(root, "reader"), 16 * MIB);
    json_decref(root);
}

static uint64_t kv_bytes(const char *flag, const char *value)
{
    run("plan", model(), "--budget", "60GiB", "--open", "--json", flag, value);
    assert_answer(0);
    json_t *root = output_json();
    uint64_t bytes = total_of_ids(root, 16, 32);
    json_decref(root);
    return bytes;
}

static void flags_reach_the_planner(void **state)
{
    (void)state;
    /* No rounding hides a wrong flag: 8192 tokens are a whole number of 2 MiB granules at each of these. */
    assert_int_equal(kv_bytes("--max-seq-len", "4096"), 4096 * TEST_KV_BYTES_PER_TOKEN);
    assert_int_equal(kv_bytes("--max-batch", "3"), 3 * 8192 * TEST_KV_BYTES_PER_TOKEN);
    assert_int_equal(kv_bytes("--kv-dtype", "fp8"), 8192 * TEST_KV_BYTES_PER_TOKEN / 2);
    assert_int_equal(kv_bytes("--kv-dtype", "F16,FP8"), 8192 * TEST_KV_BYTES_PER_TOKEN * 3 / 4);
    /* 8191 tokens take 32 blocks of 256. */
    run("plan", model(), "--budget", "60GiB", "--open", "--json", "--block-size", "256", "--max-seq-len", "8191");
    assert_answer(0);
    json_t *root = output_json();
    assert_int_equal(total_of_ids(root, 16, 32), 8192 * TEST_KV_BYTES_PER_TOKEN);
    json_decref(root);
    assert_int_equal(kv_bytes("--prefix-cache-tokens", "1024"), (8192 + 1024) * TEST_KV_BYTES_PER_TOKEN);
}

static void a_smaller_promise_lets_a_tight_budget_fit(void **state)
{
    (void)state;
    run("plan", model(), "--budget", "20GiB", "--max-batch", "32");
    assert_answer(1);
    run("plan", model(), "--budget", "20GiB", "--max-batch", "32", "--promised-kv-tokens", "1024");
    assert_answer(0);
}

static void without_workspaces_only_the_callers_own_lines_are_left(void **state)
{
    (void)state;
    run("plan", model(), "--budget", "48GiB", "--open", "--json", "--workspaces", "none");
    assert_answer(0);
    json_t *root = output_json();
    assert_int_equal(total_of_ids(root, 1024, UINT64_MAX), 0);
    json_decref(root);
    run("plan", model(), "--budget", "48GiB", "--open", "--json", "--workspaces", "reference");
    assert_answer(0);
    root = output_json();
    assert_true(total_of_ids(root, 1024, UINT64_MAX) > 0);
    json_decref(root);
}

static void a_load_beyond_64_bits_is_bad_usage(void **state)
{
    (void)state;
    run("plan", model(), "--budget", "48GiB", "--max-batch", "1048576", "--max-seq-len", "2147483647");
    assert_one_line_error(2);
    assert_holds(result.err, "blocks");
    run("plan", model(), "--budget", "48GiB", "--line", "a=engine:15000000TiB", "--line", "b=engine:15000000TiB");
    assert_one_line_error(2);
    assert_holds(result.err, "64 bits");
}

static void a_model_without_a_trained_context_needs_max_seq_len(void **state)
{
    (void)state;
    const char *path = write_model("endless.json", 0);
    run("plan", path, "--budget", "48GiB");
    assert_one_line_error(2);
    assert_holds(result.err, "--max-seq-len");
    run("plan", path, "--budget", "48GiB", "--max-seq-len", "4096");
    assert_answer(0);
}

/* ---- device profiles --------------------------------------------------------------------------------------------------- */

#define PROFILE_FIELDS                                                                                                     \
    "\"name\": \"mine\", \"source\": \"measured by hand\", \"total_bytes\": 34359738368, \"context_bytes\": 600000000, "   \
    "\"library_reserve_bytes\": 700000000, \"granule_bytes\": 65536"

static void a_profile_file_sets_charges_and_granule(void **state)
{
    (void)state;
    const char *path = write_text("mine.json", "{" PROFILE_FIELDS "}");
    run("plan", model(), "--budget", "30GiB", "--device-profile", path);
    assert_answer(0);
    assert_holds(result.out, "device  mine, measured by hand\n");
    run("plan", model(), "--budget", "30GiB", "--device-profile", path, "--open", "--json");
    assert_answer(0);
    json_t *root = output_json();
    assert_int_equal(total_of_ids(root, 1, 2), 600000000);
    assert_int_equal(total_of_ids(root, 2, 3), 700000000);
    /* Regions are whole granules of 65536; rounding lines are 64 to 95, each less than a granule. */
    size_t i;
    json_t *line;
    uint64_t regions = 0;
    json_array_foreach(json_object_get(json_object_get(root, "opening"), "lines"), i, line)
    {
        uint64_t id = member(line, "id");
        if (id >= 64 && id < 96) assert_true(member(line, "journal_bytes") < 65536);
        if (id != 48 && id > 2) regions += member(line, "journal_bytes");
    }
    assert_int_equal(regions % 65536, 0);
    json_decref(root);
    run("plan", model(), "--budget", "33GiB", "--device-profile", path);
    assert_answer(0);
    assert_holds(result.out, "note: the budget");
}

typedef struct bad_profile {
    const char *text;
    const char *key; /* or what else the message must name */
} bad_profile;

static const bad_profile bad_profiles[] = {
    {"", "line 1"},
    {"[]", "no JSON object"},
    {"{" PROFILE_FIELDS "", "line 1"},
    {"{" PROFILE_FIELDS ", \"name\": \"twice\"}", "name"},
    {"{" PROFILE_FIELDS ", \"colour\": 1}", "key colour: unknown"},
    {"{" PROFILE_FIELDS ", \"estimated\": 1}", "key estimated: expected true or false"},
    {"{\"name\": \"x\", \"context_bytes\": 1, \"library_reserve_bytes\": 1}", "key granule_bytes: missing"},
    {"{\"name\": \"x\", \"context_bytes\": 1, \"granule_bytes\": 2097152}", "key library_reserve_bytes: missing"},
    {"{\"name\": \"x\", \"library_reserve_bytes\": 1, \"granule_bytes\": 2097152}", "key context_bytes: missing"},
    {"{\"context_bytes\": 1, \"library_reserve_bytes\": 1, \"granule_bytes\": 2097152}", "key name: missing"},
    {"{\"name\": 5, \"context_bytes\": 1, \"library_reserve_bytes\": 1, \"granule_bytes\": 2097152}", "key name: expected"},
    {"{\"name\": \"\", \"context_bytes\": 1, \"library_reserve_bytes\": 1, \"granule_bytes\": 2097152}",
     "key name: expected"},
    {"{\"name\": \"x\", \"context_bytes\": -1, \"library_reserve_bytes\": 1, \"granule_bytes\": 2097152}",
     "key context_bytes: exp"},
    {"{\"name\": \"x\", \"context_bytes\": 1.5, \"library_reserve_bytes\": 1, \"granule_bytes\": 2097152}",
     "key context_bytes: exp"},
    {"{\"name\": \"x\", \"context_bytes\": \"1\", \"library_reserve_bytes\": 1, \"granule_bytes\": 256}",
     "key context_bytes: exp"},
    {"{\"name\": \"x\", \"context_bytes\": 1, \"library_reserve_bytes\": null, \"granule_bytes\": 256}",
     "key library_reserve_bytes"},
    {"{\"name\": \"x\", \"context_bytes\": 1, \"library_reserve_bytes\": 1, \"granule_bytes\": 100}",
     "key granule_bytes: 100"},
    {"{\"name\": \"x\", \"context_bytes\": 1, \"library_reserve_bytes\": 1, \"granule_bytes\": 0}", "key granule_bytes: 0"},
};

static void a_bad_profile_file_is_named_with_its_key(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_profiles / sizeof bad_profiles[0]; i++) {
        const char *path = write_text("bad-profile.json", bad_profiles[i].text);
        run("plan", model(), "--budget", "30GiB", "--device-profile", path);
        assert_one_line_error(3);
        assert_holds(result.err, path);
        assert_holds(result.err, bad_profiles[i].key);
    }
    run("plan", model(), "--budget", "30GiB", "--device-profile", test_path("absent.json"));
    assert_one_line_error(3);
    assert_holds(result.err, "absent.json");
    run("plan", model(), "--budget", "30GiB", "--device-profile", test_folder);
    assert_one_line_error(3);
    assert_holds(result.err, "regular file");
}

/* ---- bad model files ----------------------------------------------------------------------------------------------------- */

static void a_bad_model_file_exits_with_3_and_one_line_that_names_it(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "{", "[]", "{}", "not a model", "{\"model_type\": \"frobnicator\"}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *path = write_text("bad-config.json", texts[i]);
        run("plan", path, "--budget", "24GiB");
        assert_one_line_error(3);
        assert_holds(result.err, path);
    }
    run("plan", test_path("absent.gguf"), "--budget", "24GiB");
    assert_one_line_error(3);
    assert_holds(result.err, "absent.gguf");
    run("plan", test_path("with\nnewline"), "--budget", "24GiB");
    assert_one_line_error(3);
    run("plan", "-", "--budget", "24GiB");
    assert_one_line_error(3);
}

static size_t put(char *at, const void *bytes, size_t n)
{
    memcpy(at, bytes, n);
    return n;
}

static size_t put_text(char *at, const char *text)
{
    uint64_t n = strlen(text);
    size_t used = put(at, &n, 8);
    return used + put(at + used, text, n);
}

static size_t put_u32(char *at, const char *key, uint32_t value)
{
    const uint32_t type_u32 = 4;
    size_t n = put_text(at, key);
    n += put(at + n, &type_u32, 4);
    return n + put(at + n, &value, 4);
}

static void a_vocabulary_without_weights_is_refused_as_such(void **state)
{
    (void)state;
    const uint32_t version = 3;
    const uint32_t type_text = 8;
    const uint64_t no_tensors = 0;
    const uint64_t n_keys = 8;
    char file[1024];
    size_t n = put(file, "GGUF", 4);
    n += put(file + n, &version, 4);
    n += put(file + n, &no_tensors, 8);
    n += put(file + n, &n_keys, 8);
    n += put_text(file + n, "general.architecture");
    n += put(file + n, &type_text, 4);
    n += put_text(file + n, "llama");
    n += put_u32(file + n, "llama.context_length", 8192);
    n += put_u32(file + n, "llama.embedding_length", 4096);
    n += put_u32(file + n, "llama.block_count", 32);
    n += put_u32(file + n, "llama.feed_forward_length", 14336);
    n += put_u32(file + n, "llama.attention.head_count", 32);
    n += put_u32(file + n, "llama.attention.head_count_kv", 8);
    n += put_u32(file + n, "llama.vocab_size", 128256);
    const char *path = write_bytes("vocabulary.gguf", file, n);
    run("plan", path, "--budget", "24GiB");
    assert_one_line_error(3);
    assert_holds(result.err, path);
    assert_holds(result.err, "no tensors");
}

static void output_that_nobody_takes_is_an_error(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK)) {
        print_message("no /dev/full here\n");
        skip();
    }
    static const char *const kinds[] = {"--open", "--json"};
    for (size_t i = 0; i < 2; i++) {
        const char *const arguments[] = {"plan", model(), "--budget", "48GiB", kinds[i], NULL};
        run_vector("/dev/full", arguments);
        assert_one_line_error(3);
        assert_holds(result.err, "standard output");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_that_fits_exits_with_0_and_names_model_and_device),
        cmocka_unit_test(a_plan_that_does_not_fit_exits_with_1_and_reports_on_standard_output),
        cmocka_unit_test(a_budget_of_nothing_is_an_answer_not_an_error),
        cmocka_unit_test(every_lever_pasted_back_fits),
        cmocka_unit_test(json_is_one_object_with_the_plan_or_the_failure),
        cmocka_unit_test(an_opened_plan_equals_its_journal_and_leaves_nothing),
        cmocka_unit_test(a_plan_that_does_not_fit_is_not_opened),
        cmocka_unit_test(lines_of_every_tier_are_planned_and_booked),
        cmocka_unit_test(flags_reach_the_planner),
        cmocka_unit_test(a_smaller_promise_lets_a_tight_budget_fit),
        cmocka_unit_test(without_workspaces_only_the_callers_own_lines_are_left),
        cmocka_unit_test(a_load_beyond_64_bits_is_bad_usage),
        cmocka_unit_test(a_model_without_a_trained_context_needs_max_seq_len),
        cmocka_unit_test(a_profile_file_sets_charges_and_granule),
        cmocka_unit_test(a_bad_profile_file_is_named_with_its_key),
        cmocka_unit_test(a_bad_model_file_exits_with_3_and_one_line_that_names_it),
        cmocka_unit_test(a_vocabulary_without_weights_is_refused_as_such),
        cmocka_unit_test(output_that_nobody_takes_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
