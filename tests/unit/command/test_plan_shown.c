/* `impmem plan --explain` and `--svg`: formulas whose numbers make the line, a picture in a file; and configs that no plan can be
 * made from. */
#define _GNU_SOURCE
#include "unit/command/plan_answers.h"

#include "impmem/features.h"
#include "impmem/line.h"

static const json_t *explanation_of(const json_t *root, uint64_t id)
{
    size_t i;
    json_t *found;
    json_array_foreach(member_of(root, "explanations"), i, found)
    {
        if (integer_of(found, "id") == id) return found;
    }
    print_error("no explanation of line %llu in: %s\n", (unsigned long long)id, result.out);
    fail();
    return NULL;
}

static void every_line_is_explained_and_its_operands_make_its_bytes(void **state)
{
    (void)state;
    run("plan", test_model(), "--budget", "60GiB", "--explain", "--json", "--logprobs", "--lora", "4:32MiB", "--max-batch",
        "2");
    assert_answer(0);
    json_t *root = output_json();
    assert_int_equal(json_array_size(member_of(root, "explanations")),
                     json_array_size(member_of(member_of(root, "plan"), "lines")));
    const json_t *kv = explanation_of(root, IMPMEM_LINE_KV);
    const json_t *operands = member_of(kv, "operands");
    assert_int_equal(integer_of(operands, "blocks") * integer_of(operands, "block"), integer_of(kv, "bytes"));
    assert_int_equal(integer_of(operands, "blocks"), 2 * 8192 / 16);
    assert_int_equal(integer_of(operands, "block"), 16 * TEST_KV_BYTES_PER_TOKEN);
    const json_t *rows = explanation_of(root, IMPMEM_LINE_PROMPT_LOGPROBS);
    assert_string_equal(text_of(rows, "formula"), "rows x vocab x (2 + 4)");
    operands = member_of(rows, "operands");
    assert_int_equal(integer_of(operands, "rows") * integer_of(operands, "vocab") * 6, integer_of(rows, "bytes"));
    const json_t *slots = explanation_of(root, IMPMEM_LINE_LORA);
    operands = member_of(slots, "operands");
    assert_int_equal(integer_of(operands, "slots") * integer_of(operands, "slot"), integer_of(slots, "bytes"));
    json_decref(root);

    run("plan", test_model(), "--budget", "60GiB", "--explain");
    assert_answer(0);
    assert_holds(result.out, "KV holds 1 sequence at 8192 tokens");
    assert_holds(result.out, "KV cache: 1024.0 MiB, 1073741824 bytes\n");
    assert_holds(result.out, "a(x) is x rounded up to 256");
}

static void what_does_not_fit_is_explained_too(void **state)
{
    (void)state;
    run("plan", test_model(), "--budget", "12GiB", "--explain");
    assert_answer(1);
    assert_holds(result.out, "change one of");
    assert_holds(result.out, "KV cache: 1024.0 MiB, 1073741824 bytes\n");
    run("plan", test_model(), "--budget", "12GiB", "--explain", "--json", "--headroom", "1GiB");
    assert_answer(1);
    json_t *root = output_json();
    assert_int_equal(integer_of(explanation_of(root, IMPMEM_LINE_HEADROOM), "bytes"), 1024 * MIB);
    json_decref(root);
}

/* The whole file; the caller frees it. */
static char *slurp(const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = calloc(1, RUN_OUTPUT_BYTES);
    assert_non_null(text);
    assert_true(fread(text, 1, RUN_OUTPUT_BYTES - 1, file) > 0);
    fclose(file);
    return text;
}

static void the_picture_goes_to_its_file_and_the_answer_stays(void **state)
{
    (void)state;
    const char *path = test_path("card.svg");
    run("plan", test_model(), "--budget", "48GiB", "--svg", path);
    assert_answer(0);
    assert_holds(result.out, "KV holds");
    char *picture = slurp(path);
    assert_holds(picture, "<svg ");
    assert_holds(picture, ">KV cache</text>");
    assert_holds(picture, ">left</text>");
    free(picture);
    run("plan", test_model(), "--budget", "12GiB", "--svg", path, "--json");
    assert_answer(1);
    json_decref(output_json());
    picture = slurp(path);
    assert_holds(picture, ">does not fit: over by");
    free(picture);
}

static void a_picture_that_can_not_be_written_is_an_error(void **state)
{
    (void)state;
    run("plan", test_model(), "--budget", "48GiB", "--svg", test_path("no/such/folder/card.svg"));
    assert_one_line_error(3);
    assert_holds(result.err, "card.svg");
    if (access("/dev/full", W_OK)) {
        print_message("no /dev/full here\n");
        skip();
    }
    run("plan", test_model(), "--budget", "48GiB", "--svg", "/dev/full");
    assert_one_line_error(3);
    assert_holds(result.err, "/dev/full");
}

/* ---- configs ------------------------------------------------------------------------------------------------------------- */

/* The test model's config with one value in place of its own. */
static const char *config_with(const char *key, const char *value)
{
    static const struct {
        const char *key, *value;
    } own[] = {{"hidden_size", "4096"},
               {"intermediate_size", "14336"},
               {"num_attention_heads", "32"},
               {"num_key_value_heads", "8"},
               {"num_hidden_layers", "32"},
               {"vocab_size", "128256"},
               {"max_position_embeddings", "8192"}};
    char text[1024] = "{\"model_type\": \"llama\", \"torch_dtype\": \"bfloat16\"";
    size_t n = strlen(text);
    int mine = 0;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        const int same = strcmp(own[i].key, key) == 0;
        mine |= same;
        n += (size_t)snprintf(text + n, sizeof text - n, ", \"%s\": %s", own[i].key, same ? value : own[i].value);
    }
    if (!mine) n += (size_t)snprintf(text + n, sizeof text - n, ", \"%s\": %s", key, value);
    snprintf(text + n, sizeof text - n, "}");
    return write_text("absurd.json", text);
}

static void an_absurd_value_in_a_config_is_one_line_with_file_and_key(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value;
    } absurd[] = {
        {"num_hidden_layers", "0"},
        {"num_hidden_layers", "-32"},
        {"num_hidden_layers", "513"},
        {"num_hidden_layers", "32.5"},
        {"num_hidden_layers", "NaN"},
        {"num_hidden_layers", "Infinity"},
        {"num_hidden_layers", "\"32\""},
        {"num_hidden_layers", "null"},
        {"hidden_size", "0"},
        {"hidden_size", "-4096"},
        {"hidden_size", "4294967296"},
        {"num_attention_heads", "0"},
        {"num_attention_heads", "-1"},
        {"num_key_value_heads", "0"},
        {"num_key_value_heads", "-8"},
        {"num_key_value_heads", "[8]"},
        {"intermediate_size", "-1"},
        {"vocab_size", "0"},
        {"vocab_size", "-1"},
        {"max_position_embeddings", "-8192"},
        {"head_dim", "0"},
        {"head_dim", "-128"},
        {"head_dim", "4294967296"},
    };
    for (size_t i = 0; i < sizeof absurd / sizeof absurd[0]; i++) {
        const char *path = config_with(absurd[i].key, absurd[i].value);
        run("plan", path, "--budget", "48GiB");
        if (result.code != 3) print_error("%s: %s: exit %d\n", absurd[i].key, absurd[i].value, result.code);
        assert_one_line_error(3);
        assert_holds(result.err, path);
        assert_holds(result.err, absurd[i].key);
        assert_holds(result.err, "expected");
        run("fit", path, "--budget", "48GiB");
        assert_one_line_error(3);
    }
    /* What no number of 64 bits holds is no JSON to the reader, which tells place and key. */
    static const char *const overflowing[] = {"1e400", "99999999999999999999999"};
    for (size_t i = 0; i < 2; i++) {
        const char *path = config_with("num_hidden_layers", overflowing[i]);
        run("plan", path, "--budget", "48GiB");
        assert_one_line_error(3);
        assert_holds(result.err, path);
        assert_holds(result.err, "line 1, column");
        assert_holds(result.err, "key 'num_hidden_layers'");
    }
}

static void sizes_beyond_64_bits_are_an_error_and_never_a_small_plan(void **state)
{
    (void)state;
    /* Every value is allowed by itself. */
    const char *path = write_text("huge.json",
                                  "{\"model_type\": \"llama\", \"torch_dtype\": \"float32\", \"hidden_size\": 1048576, "
                                  "\"intermediate_size\": 2147483647, \"num_attention_heads\": 65535, "
                                  "\"num_key_value_heads\": 65535, \"head_dim\": 65535, \"num_hidden_layers\": 512, "
                                  "\"vocab_size\": 2147483647, \"max_position_embeddings\": 2147483647}");
    run("plan", path, "--budget", "16000000TiB");
    assert_one_line_error(3);
    assert_holds(result.err, path);
    assert_holds(result.err, "beyond 2^64 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_line_is_explained_and_its_operands_make_its_bytes),
        cmocka_unit_test(what_does_not_fit_is_explained_too),
        cmocka_unit_test(the_picture_goes_to_its_file_and_the_answer_stays),
        cmocka_unit_test(a_picture_that_can_not_be_written_is_an_error),
        cmocka_unit_test(an_absurd_value_in_a_config_is_one_line_with_file_and_key),
        cmocka_unit_test(sizes_beyond_64_bits_are_an_error_and_never_a_small_plan),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
