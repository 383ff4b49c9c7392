/* `impmem plan --against` and `--observed`: differences line by line, what only one side has, tolerance, files that are refused. */
#define _GNU_SOURCE
#include "unit/command/plan_answers.h"

#include "impmem/line.h"

static const json_t *row_of(const json_t *root, const char *name)
{
    size_t i;
    json_t *row;
    json_array_foreach(member_of(root, "lines"), i, row)
    {
        if (strcmp(text_of(row, "name"), name) == 0) return row;
    }
    print_error("no line %s in: %s\n", name, result.out);
    fail();
    return NULL;
}

static int64_t difference_of(const json_t *row)
{
    const json_t *value = member_of(row, "difference_bytes");
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

/* ---- --against ---------------------------------------------------------------------------------------------------------- */

static void two_models_differ_by_their_lines(void **state)
{
    (void)state;
    char other[160];
    snprintf(other, sizeof other, "%s",
             write_text("half.json",
                        "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"intermediate_size\": 14336, "
                        "\"num_attention_heads\": 32, \"num_key_value_heads\": 4, \"num_hidden_layers\": 32, "
                        "\"vocab_size\": 128256, \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\", "
                        "\"max_position_embeddings\": 8192}"));
    run("plan", test_model(), "--budget", "40GiB", BARE, "--against", other, "--json");
    assert_answer(0);
    json_t *root = output_json();
    assert_string_equal(text_of(member_of(root, "a"), "path"), test_model());
    assert_string_equal(text_of(member_of(root, "b"), "path"), other);
    /* Half the KV heads: half of KV, and 32 x 4096 x 2 x 4 x 128 weights of two bytes less. */
    assert_int_equal(difference_of(row_of(root, "KV cache")), -(int64_t)(8192 * TEST_KV_BYTES_PER_TOKEN / 2));
    assert_int_equal(difference_of(row_of(root, "weights")), -(int64_t)32 * 4096 * 2 * 4 * 128 * 2);
    int64_t sum = 0;
    size_t i;
    json_t *row;
    json_array_foreach(member_of(root, "lines"), i, row)
    {
        if (strcmp(text_of(row, "account"), "device") == 0) sum += difference_of(row);
    }
    assert_int_equal(sum, (int64_t)integer_of(member_of(root, "b"), "device_total_bytes") -
                              (int64_t)integer_of(member_of(root, "a"), "device_total_bytes"));
    json_decref(root);

    run("plan", test_model(), "--budget", "40GiB", BARE, "--against", other);
    assert_answer(0);
    assert_holds(result.out, "KV cache");
    assert_holds(result.out, "-512.0");
    /* Every row of the table ends where its head ends. */
    const char *at = strstr(result.out, "  MiB ");
    assert_non_null(at);
    const size_t width = strcspn(at, "\n");
    size_t rows = 0;
    for (at += width + 1; strncmp(at, "    ", 4) == 0; at += width + 1, rows++) assert_int_equal(strcspn(at, "\n"), width);
    assert_true(rows >= 4);
}

static void a_plan_that_json_wrote_is_the_other_side(void **state)
{
    (void)state;
    run("plan", test_model(), "--budget", "40GiB", "--max-batch", "2", "--json");
    assert_answer(0);
    const char *saved = write_text("saved.json", result.out);
    run("plan", test_model(), "--budget", "40GiB", "--max-batch", "3", "--against", saved, "--json");
    assert_answer(0);
    json_t *root = output_json();
    assert_int_equal(difference_of(row_of(root, "KV cache")), -(int64_t)(8192 * TEST_KV_BYTES_PER_TOKEN));
    assert_int_equal(difference_of(row_of(root, "weights")), 0);
    json_decref(root);
    /* Against itself nothing differs. */
    run("plan", test_model(), "--budget", "40GiB", "--max-batch", "2", "--against", saved, "--json");
    assert_answer(0);
    root = output_json();
    size_t i;
    json_t *row;
    json_array_foreach(member_of(root, "lines"), i, row) assert_int_equal(difference_of(row), 0);
    json_decref(root);
}

static void a_line_of_one_side_only_is_null_on_the_other(void **state)
{
    (void)state;
    run("plan", test_model(), "--budget", "40GiB", "--line", "vision=engine:256MiB", "--json");
    assert_answer(0);
    const char *saved = write_text("with-line.json", result.out);
    run("plan", test_model(), "--budget", "40GiB", "--against", saved, "--json");
    assert_answer(0);
    json_t *root = output_json();
    const json_t *row = row_of(root, "vision");
    assert_true(json_is_null(member_of(row, "a_bytes")));
    assert_int_equal(integer_of(row, "b_bytes"), 256 * MIB);
    assert_int_equal(difference_of(row), 256 * (int64_t)MIB);
    json_decref(root);
}

static void a_side_that_does_not_fit_is_compared_and_exits_with_1(void **state)
{
    (void)state;
    run("plan", test_model(), "--budget", "12GiB", "--json");
    assert_answer(1);
    const char *saved = write_text("refused.json", result.out);
    run("plan", test_model(), "--budget", "40GiB", "--against", saved);
    assert_answer(1);
    assert_holds(result.out, "does not fit: over by");
    run("plan", test_model(), "--budget", "12GiB", "--against", test_model(), "--json");
    assert_answer(1);
    json_t *root = output_json();
    assert_true(json_is_false(member_of(member_of(root, "a"), "fits")));
    json_decref(root);
}

#define GOOD_LINE "{\"id\": 3, \"name\": \"weights\", \"account\": \"device\", \"bytes\": 1}"
static void a_bad_plan_file_is_named_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *names;
    } bad[] = {
        {"{\"fits\": true}", "key lines"},
        {"{\"fits\": true, \"plan\": {\"lines\": []}}", "key lines"},
        {"{\"fits\": true, \"plan\": {\"lines\": [" GOOD_LINE ", 7]}}", "lines[1]: key id"},
        {"{\"fits\": true, \"plan\": {\"lines\": [{\"id\": -1}]}}", "lines[0]: key id"},
        {"{\"fits\": true, \"plan\": {\"lines\": [{\"id\": 3}]}}", "lines[0]: key name"},
        {"{\"fits\": true, \"plan\": {\"lines\": [{\"id\": 3, \"name\": \"x\", \"bytes\": 1.5}]}}", "lines[0]: key bytes"},
        {"{\"fits\": true, \"plan\": {\"lines\": [{\"id\": 3, \"name\": \"x\", \"bytes\": 1, \"account\": \"x\"}]}}",
         "lines[0]: key account"},
        {"{\"fits\": false, \"failure\": {\"lines\": [" GOOD_LINE "]}}", "key over_bytes"},
        {"{\"fits\": true, \"plan\": {\"lines\": [{\"id\": 3, \"name\": \"x\", \"account\": \"device\", \"bytes\": "
         "9223372036854775807}, {\"id\": 4, \"name\": \"y\", \"account\": \"device\", \"bytes\": 9223372036854775807}, "
         "{\"id\": 5, \"name\": \"z\", \"account\": \"device\", \"bytes\": 2}]}}",
         "lines[2]: key bytes"},
        {"{\"fits\": true, ", "bad-plan.json"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *path = write_text("bad-plan.json", bad[i].text);
        run("plan", test_model(), "--budget", "40GiB", "--against", path);
        assert_one_line_error(3);
        assert_holds(result.err, path);
        assert_holds(result.err, bad[i].names);
    }
    run("plan", test_model(), "--budget", "40GiB", "--against", test_path("absent.json"));
    assert_one_line_error(3);
    assert_holds(result.err, "absent.json");
}

/* ---- --observed --------------------------------------------------------------------------------------------------------- */

/* 8192 tokens of KV are 1 GiB. */
#define KV (8192 * TEST_KV_BYTES_PER_TOKEN)

static void observe(const char *file, const char *tolerance)
{
    if (tolerance) run("plan", test_model(), "--budget", "40GiB", "--observed", file, "--json", "--tolerance", tolerance);
    else run("plan", test_model(), "--budget", "40GiB", "--observed", file, "--json");
}

static const char *measured_kv(uint64_t kv)
{
    char text[64];
    snprintf(text, sizeof text, "line,bytes\nKV cache,%llu\n", (unsigned long long)kv);
    return write_text("measured.txt", text);
}

static void measured_lines_stand_beside_the_plan_with_bytes_and_percent(void **state)
{
    (void)state;
    char text[256];
    snprintf(text, sizeof text, "# of an engine\nline,bytes\n\nWeights,%llu\r\n\"KV cache\",%llu\nspinner,1048576\n",
             (unsigned long long)TEST_WEIGHT_BYTES, (unsigned long long)(KV + KV / 50));
    observe(write_text("measured.csv", text), NULL);
    assert_answer(0);
    json_t *root = output_json();
    assert_true(json_is_true(member_of(root, "within")));
    const json_t *kv = row_of(root, "KV cache");
    assert_int_equal(integer_of(kv, "planned_bytes"), KV);
    assert_int_equal(integer_of(kv, "measured_bytes"), KV + KV / 50);
    assert_int_equal(difference_of(kv), (int64_t)(KV / 50));
    const double percent = json_number_value(member_of(kv, "difference_percent"));
    assert_true(percent > 1.999 && percent < 2.001);
    assert_int_equal(difference_of(row_of(root, "weights")), 0);
    /* Only one side has these. */
    assert_true(json_is_null(member_of(row_of(root, "spinner"), "planned_bytes")));
    assert_true(json_is_null(member_of(row_of(root, "library reserve"), "measured_bytes")));
    assert_int_equal(integer_of(root, "unplanned"), 1);
    assert_true(integer_of(root, "missing") > 1);
    const json_t *total = member_of(root, "total");
    assert_int_equal(integer_of(total, "planned_bytes"), TEST_WEIGHT_BYTES + KV);
    assert_int_equal(difference_of(total), (int64_t)(KV / 50 + MIB));
    json_decref(root);
    run("plan", test_model(), "--budget", "40GiB", "--observed", test_path("measured.csv"));
    assert_answer(0);
    assert_holds(result.out, "unplanned\n");
    assert_holds(result.out, "missing: not measured\n");
    assert_holds(result.out, "+2.00%");
    /* Largest first, whichever side is larger: 1.02 GiB of KV below the weights, the spinner of 1 MiB near the end. */
    const char *weights = strstr(result.out, "\n  weights "), *cache = strstr(result.out, "\n  KV cache ");
    const char *spinner = strstr(result.out, "\n  spinner "), *workspaces = strstr(result.out, "\n  executor workspaces ");
    assert_true(weights && cache && spinner && workspaces);
    assert_true(weights < cache && cache < workspaces && workspaces < spinner);
}

static void a_line_off_by_more_than_the_tolerance_exits_with_1(void **state)
{
    (void)state;
    /* 5 percent by default: 53687091.2 bytes of 1 GiB. */
    observe(measured_kv(KV + 53687091), NULL);
    assert_answer(0);
    observe(measured_kv(KV + 53687092), NULL);
    assert_answer(1);
    observe(measured_kv(KV - 53687092), NULL);
    assert_answer(1);
    observe(measured_kv(KV - 53687092), "5.01");
    assert_answer(0);
    observe(measured_kv(KV), "0");
    assert_answer(0);
    observe(measured_kv(KV + 1), "0");
    assert_answer(1);
    json_t *root = output_json();
    assert_true(json_is_false(member_of(root, "within")));
    assert_true(json_is_true(member_of(row_of(root, "KV cache"), "off")));
    json_decref(root);
    run("plan", test_model(), "--budget", "40GiB", "--tolerance", "0", "--observed", test_path("measured.txt"));
    assert_answer(1);
    assert_holds(result.out, "OFF");
}

static void unplanned_memory_above_the_tolerance_is_off_in_the_total(void **state)
{
    (void)state;
    char text[128];
    snprintf(text, sizeof text, "line,bytes\nKV cache,%llu\nleak,%llu\n", (unsigned long long)KV,
             (unsigned long long)(KV / 20 + 1));
    observe(write_text("leak.csv", text), NULL);
    assert_answer(1);
    json_t *root = output_json();
    assert_int_equal(integer_of(root, "off"), 0);
    assert_true(json_is_true(member_of(member_of(root, "total"), "off")));
    json_decref(root);
}

static void ids_and_mib_are_taken_in_both_formats(void **state)
{
    (void)state;
    /* The first KV group is line 16; 1 GiB is 1024 MiB. */
    static const char *const texts[] = {
        "id,mib\n16,1024.0\n",
        "name,mib\nkv CACHE,1024\n",
        "[{\"id\": 16, \"mib\": 1024.0}]",
        "{\"engine\": \"x\", \"lines\": [{\"name\": \"KV cache\", \"bytes\": 1073741824}]}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        observe(write_text("form.txt", texts[i]), "0");
        assert_answer(0);
        json_t *root = output_json();
        assert_int_equal(integer_of(row_of(root, "KV cache"), "measured_bytes"), KV);
        assert_int_equal(integer_of(root, "unplanned"), 0);
        json_decref(root);
    }
    observe(write_text("unknown.csv", "line,bytes\n4242,7\n"), NULL);
    assert_answer(1);
    json_t *root = output_json();
    assert_int_equal(integer_of(row_of(root, "line 4242"), "measured_bytes"), 7);
    json_decref(root);
}

static void a_bad_measurement_is_named_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *names;
    } bad[] = {
        {"", "no measured line"},
        {"line,bytes\n", "no measured line"},
        {"weights,100\n", "line 1: head"},
        {"line,bytes\nweights\n", "line 2: row"},
        {"line,bytes\nweights,1,2\n", "line 2: row"},
        {"line,bytes\n\"weights,1\n", "line 2: row"},
        {"line,bytes\nweights,-1\n", "line 2: bytes: found \"-1\""},
        {"line,bytes\nweights,1.5\n", "line 2: bytes: found \"1.5\""},
        {"line,bytes\nweights,nan\n", "line 2: bytes: found \"nan\""},
        {"line,bytes\nweights,18446744073709551616\n", "line 2: bytes"},
        {"line,mib\nweights,1e3\n", "line 2: mib: found \"1e3\""},
        {"line,mib\nweights,99999999999999999\n", "line 2: mib"},
        {"line,bytes\n,5\n", "line 2: line"},
        {"line,bytes\n4294967296,5\n", "line 2: line"},
        {"line,bytes\nweights,5\n\nWEIGHTS,6\n", "line 4: the same as line 2"},
        {"line,bytes\n3,5\n3,6\n", "line 3: the same as line 2"},
        {"{", "line 1"},
        {"{}", "key lines"},
        {"[]", "no measured line"},
        {"[5]", "line 1: lines"},
        {"[{\"name\": \"x\", \"id\": 3, \"bytes\": 1}]", "line 1: lines: found \"id and name\""},
        {"[{\"name\": \"x\"}]", "line 1: lines: found \"neither\""},
        {"[{\"name\": \"x\", \"bytes\": 1, \"mib\": 1}]", "line 1: lines: found \"bytes and mib\""},
        {"[{\"name\": \"x\", \"bytes\": -1}]", "line 1: bytes"},
        {"[{\"name\": \"x\", \"bytes\": 1.5}]", "line 1: bytes"},
        {"[{\"name\": \"x\", \"mib\": -0.5}]", "line 1: mib"},
        {"[{\"name\": \"x\", \"mib\": 1e300}]", "line 1: mib"},
        {"[{\"name\": 3, \"bytes\": 1}]", "line 1: name"},
        {"[{\"id\": \"3\", \"bytes\": 1}]", "line 1: id"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *path = write_text("bad-measured.txt", bad[i].text);
        observe(path, NULL);
        assert_one_line_error(3);
        assert_holds(result.err, path);
        assert_holds(result.err, bad[i].names);
    }
    observe(test_path("absent.csv"), NULL);
    assert_one_line_error(3);
    observe(test_folder, NULL);
    assert_one_line_error(3);
    assert_holds(result.err, "regular file");
}

static void comparisons_contradict_each_other(void **state)
{
    (void)state;
    static const char *const bad_percents[] = {"", "-1", "5%", "1001", "0.001", "1..2", ".5", "nan"};
    for (size_t i = 0; i < sizeof bad_percents / sizeof bad_percents[0]; i++) {
        run("plan", test_model(), "--budget", "40GiB", "--observed", "x", "--tolerance", bad_percents[i]);
        assert_one_line_error(2);
        assert_holds(result.err, "--tolerance: \"");
        assert_holds(result.err, "from 0 to 1000");
    }
    run("plan", test_model(), "--budget", "40GiB", "--tolerance", "5");
    assert_one_line_error(2);
    assert_holds(result.err, "--tolerance: given without --observed");
    run("plan", test_model(), "--budget", "40GiB", "--observed", "x", "--against", "y");
    assert_one_line_error(2);
    assert_holds(result.err, "--against: not together with --observed");
    run("plan", test_model(), "--budget", "40GiB", "--observed", "x", "--open");
    assert_one_line_error(2);
    run("plan", test_model(), "--budget", "40GiB", "--observed", "x", "--explain");
    assert_one_line_error(2);
    assert_holds(result.err, "--explain: not together with --observed");
    run("plan", test_model(), "--engine", "vllm", "--against", "y");
    assert_one_line_error(2);
    assert_holds(result.err, "--against: not with --engine");
    run("plan", test_model(), "--engine", "vllm", "--headroom", "1GiB");
    assert_one_line_error(2);
    assert_holds(result.err, "--engine: not with features");
}

static void what_is_observed_of_a_plan_that_does_not_fit_is_the_failure(void **state)
{
    (void)state;
    run("plan", test_model(), "--budget", "12GiB", "--observed", measured_kv(KV));
    assert_answer(1);
    assert_holds(result.out, "does not fit");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_models_differ_by_their_lines),
        cmocka_unit_test(a_plan_that_json_wrote_is_the_other_side),
        cmocka_unit_test(a_line_of_one_side_only_is_null_on_the_other),
        cmocka_unit_test(a_side_that_does_not_fit_is_compared_and_exits_with_1),
        cmocka_unit_test(a_bad_plan_file_is_named_with_its_place),
        cmocka_unit_test(measured_lines_stand_beside_the_plan_with_bytes_and_percent),
        cmocka_unit_test(a_line_off_by_more_than_the_tolerance_exits_with_1),
        cmocka_unit_test(unplanned_memory_above_the_tolerance_is_off_in_the_total),
        cmocka_unit_test(ids_and_mib_are_taken_in_both_formats),
        cmocka_unit_test(a_bad_measurement_is_named_with_its_line),
        cmocka_unit_test(comparisons_contradict_each_other),
        cmocka_unit_test(what_is_observed_of_a_plan_that_does_not_fit_is_the_failure),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
