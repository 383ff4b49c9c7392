/* `impmem plan MODEL --engine`: text, JSON, and every way to be refused. */
#define _GNU_SOURCE
#include "unit/command/command_run.h"

#include <stdbool.h>

#define LLAMA_8K "n_ctx=8192,n_seq=2"

static const char *model(void)
{
    return write_model("model.json", 131072);
}

/* KV of the test's model at f16 is 128 KiB a token. */
static void the_json_has_every_line_with_unit_layers_and_formula(void **state)
{
    (void)state;
    const char *path = model();
    run("plan", path, "--engine", "llama.cpp", "--engine-args", LLAMA_8K, "--json");
    assert_answer(0);
    json_t *root = output_json();
    assert_string_equal(json_string_value(json_object_get(root, "engine")), "llama.cpp");
    assert_string_equal(json_string_value(json_object_get(root, "engine_args")), LLAMA_8K);
    json_t *about = json_object_get(root, "model");
    assert_string_equal(json_string_value(json_object_get(about, "path")), path);
    assert_int_equal(json_integer_value(json_object_get(about, "layers")), 32);
    assert_int_equal(json_integer_value(json_object_get(about, "trained_context")), 131072);
    assert_true(json_array_size(json_object_get(about, "notes")) > 0);
    json_t *lines = json_object_get(root, "lines"), *line;
    size_t i;
    unsigned seen = 0;
    json_array_foreach(lines, i, line)
    {
        const char *name = json_string_value(json_object_get(line, "name"));
        json_int_t value = json_integer_value(json_object_get(line, "value"));
        assert_true(strlen(json_string_value(json_object_get(line, "how"))) > 0);
        assert_int_equal(json_object_size(line), 5);
        if (strcmp(name, "cells") == 0) {
            assert_string_equal(json_string_value(json_object_get(line, "unit")), "cells");
            assert_true(json_is_null(json_object_get(line, "layers")));
            assert_int_equal(value, 8192);
        } else {
            assert_string_equal(json_string_value(json_object_get(line, "unit")), "bytes");
            bool half = strcmp(name, "kv_k") == 0 || strcmp(name, "kv_v") == 0;
            assert_int_equal(value, TEST_KV_BYTES_PER_TOKEN * 8192 / (half ? 2 : 1));
        }
        seen++;
    }
    assert_int_equal(seen, 5); /* cells, kv_total, kv_k, kv_v, total */
    json_decref(root);
}

static void a_ratio_is_a_number_with_decimals(void **state)
{
    (void)state;
    run("plan", model(), "--engine", "vllm", "--engine-args", "n_ctx=20000,blocks=1952", "--json");
    assert_answer(0);
    json_t *root = output_json(), *line;
    size_t i;
    double found = 0;
    json_array_foreach(json_object_get(root, "lines"), i, line)
    {
        if (strcmp(json_string_value(json_object_get(line, "unit")), "ratio") == 0)
            found = json_real_value(json_object_get(line, "value"));
    }
    assert_true(found > 1.56159 && found < 1.56161); /* 1952 / ceil(20000 / 16) */
    json_decref(root);
}

static void the_text_names_model_engine_and_lines(void **state)
{
    (void)state;
    run("plan", model(), "--engine", "sglang", "--engine-args", "tokens=8192");
    assert_answer(0);
    assert_holds(result.out, "architecture llama");
    assert_holds(result.out, "engine  sglang, tokens=8192\n");
    assert_holds(result.out, "1024.0 MiB"); /* 8192 x 128 KiB */
    assert_holds(result.out, "8192 tokens");
    assert_holds(result.out, "131072 B");
    run("plan", model(), "--engine", "vllm");
    assert_answer(0);
    assert_holds(result.out, "engine  vllm, its defaults\n");
    run("plan", model(), "--engine", "vllm", "--engine-args", "n_ctx=20000,blocks=1952");
    assert_answer(0);
    assert_holds(result.out, "1.5616");
}

static void a_refused_argument_names_key_value_and_expectation(void **state)
{
    (void)state;
    run("plan", model(), "--engine", "vllm", "--engine-args", "n_ctx=4k");
    assert_one_line_error(2);
    assert_string_equal(result.err,
                        "impmem: --engine-args: n_ctx is \"4k\", expected a whole number from 1 to 2147483647\n");
    run("plan", model(), "--engine", "vllm", "--engine-args", "n_ubatch=512");
    assert_one_line_error(2);
    assert_holds(result.err, "n_ubatch=512 is no argument of vllm, expected n_ctx, ");
    run("plan", model(), "--engine", "vllm", "--engine-args", "tp=3");
    assert_one_line_error(2);
    assert_holds(result.err, "tp is 3, expected a divisor or a multiple of the 8 KV heads of layer 0");
    run("plan", model(), "--engine", "llama.cpp", "--engine-args", "kv_type=int8");
    assert_one_line_error(2);
    assert_holds(result.err, "type_k is int8, expected a cache type of llama.cpp");
    run("plan", model(), "--engine", "vllm", "--engine-args", "blocks=1125899906842624,n_ctx=1");
    assert_one_line_error(2);
    assert_holds(result.err, "64 bits");
}

static void a_refused_flag_names_itself(void **state)
{
    (void)state;
    run("plan", model(), "--engine", "vLLM");
    assert_one_line_error(2);
    assert_holds(result.err, "--engine: \"vLLM\" is unknown; expected llama.cpp, ik_llama.cpp, vllm or sglang");
    run("plan", "--engine", "vllm");
    assert_one_line_error(2);
    assert_holds(result.err, "no MODEL");
    run("plan", model(), "--budget", "1GiB", "--engine-args", "n_ctx=1");
    assert_one_line_error(2);
    assert_holds(result.err, "without --engine NAME");
    static const char *const only[][2] = {{"--budget", "24GiB"},           {"--max-batch", "2"},
                                          {"--max-seq-len", "4096"},       {"--kv-dtype", "f16"},
                                          {"--block-size", "16"},          {"--prefill-tokens", "512"},
                                          {"--promised-kv-tokens", "512"}, {"--prefix-cache-tokens", "512"},
                                          {"--device-profile", "default"}, {"--granule", "2MiB"},
                                          {"--workspaces", "none"},        {"--line", "x=engine:1MiB"}};
    for (size_t i = 0; i < sizeof only / sizeof only[0]; i++) {
        run("plan", model(), "--engine", "vllm", only[i][0], only[i][1]);
        assert_one_line_error(2);
        assert_holds(result.err, only[i][0]);
        assert_holds(result.err, "not with --engine");
    }
    run("plan", model(), "--engine", "vllm", "--open");
    assert_one_line_error(2);
    assert_holds(result.err, "--open");
}

static void a_model_that_cannot_be_predicted_names_its_file(void **state)
{
    (void)state;
    run("plan", test_path("missing.json"), "--engine", "vllm");
    assert_one_line_error(3);
    assert_holds(result.err, "missing.json");
    run("plan", write_model("untold.json", 0), "--engine", "vllm");
    assert_one_line_error(2); /* the context is the caller's to tell then */
    assert_holds(result.err, "n_ctx is 0");
    /* rows of 80 elements a layer: no whole blocks of q8_0 */
    const char *odd = write_text("odd.json",
                                 "{\"model_type\": \"llama\", \"hidden_size\": 160, \"intermediate_size\": 320, "
                                 "\"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"num_hidden_layers\": 2, "
                                 "\"vocab_size\": 100, \"max_position_embeddings\": 512}");
    run("plan", odd, "--engine", "llama.cpp", "--engine-args", "kv_type=q8_0");
    assert_one_line_error(3);
    assert_holds(result.err, "odd.json: layer 0: a row of 80 elements of K can't be held as q8_0");
}

static void an_answer_that_is_not_all_written_is_none(void **state)
{
    (void)state;
    const char *path = model();
    run_vector("/dev/full", (const char *const[]){"plan", path, "--engine", "vllm", "--json", NULL});
    assert_int_equal(result.code, 3);
    assert_holds(result.err, "incomplete");
    run_vector("/dev/full", (const char *const[]){"plan", path, "--engine", "vllm", NULL});
    assert_int_equal(result.code, 3);
    assert_holds(result.err, "incomplete");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_json_has_every_line_with_unit_layers_and_formula),
                                       cmocka_unit_test(a_ratio_is_a_number_with_decimals),
                                       cmocka_unit_test(the_text_names_model_engine_and_lines),
                                       cmocka_unit_test(a_refused_argument_names_key_value_and_expectation),
                                       cmocka_unit_test(a_refused_flag_names_itself),
                                       cmocka_unit_test(a_model_that_cannot_be_predicted_names_its_file),
                                       cmocka_unit_test(an_answer_that_is_not_all_written_is_none)};
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
