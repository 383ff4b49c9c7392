/* `impmem plan` over several devices: shares that add up, the fewest blocks for all, stranded bytes, levers, contradictions. */
#define _GNU_SOURCE
#include "unit/command/plan_answers.h"

#include "impmem/features.h"
#include "impmem/line.h"

#define RANKS "--communication", "64MiB", "--json", BARE

static const json_t *rank_of(const json_t *root, size_t rank)
{
    const json_t *found = json_array_get(member_of(root, "ranks"), rank);
    assert_non_null(found);
    assert_int_equal(integer_of(found, "rank"), rank);
    return found;
}

static uint64_t kv_bytes(const json_t *rank)
{
    size_t n = 0;
    uint64_t bytes = bytes_of_ids(member_of(rank, "plan"), IMPMEM_LINE_KV, IMPMEM_LINE_KV + 16, &n);
    assert_int_equal(n, 1);
    return bytes;
}

static void tensor_parallel_ranks_share_weights_and_kv_heads(void **state)
{
    (void)state;
    run("plan", test_model(), "--budget", "12GiB", "--tp", "4", RANKS);
    assert_answer(0);
    json_t *root = output_json();
    assert_true(json_is_true(member_of(root, "fits")));
    assert_int_equal(json_array_size(member_of(root, "ranks")), 4);
    assert_int_equal(integer_of(root, "kv_blocks"), 8192 / 16);
    assert_int_equal(integer_of(root, "stranded_bytes"), 0);
    uint64_t weights = 0;
    for (size_t i = 0; i < 4; i++) {
        const json_t *rank = rank_of(root, i);
        assert_int_equal(integer_of(rank, "stage"), 0);
        assert_int_equal(integer_of(rank, "place"), i);
        assert_int_equal(integer_of(rank, "layers"), 32);
        assert_int_equal(integer_of(rank, "kv_copies"), 1);
        assert_int_equal(kv_bytes(rank), 8192 * TEST_KV_BYTES_PER_TOKEN / 4);
        assert_line(member_of(rank, "plan"), IMPMEM_LINE_COMMUNICATION, 64 * MIB);
        weights += integer_of(rank, "weight_bytes");
    }
    /* Shares are rounded up, three parts of them by less than a byte a rank. */
    assert_true(weights >= TEST_WEIGHT_BYTES && weights <= TEST_WEIGHT_BYTES + 3 * 4);
    json_decref(root);
}

static void kv_heads_are_copied_where_there_are_fewer_than_ranks(void **state)
{
    (void)state;
    run("plan", test_model(), "--budget", "12GiB", "--tp", "16", RANKS);
    assert_answer(0);
    json_t *root = output_json();
    for (size_t i = 0; i < 16; i++) {
        assert_int_equal(integer_of(rank_of(root, i), "kv_copies"), 2);
        assert_int_equal(kv_bytes(rank_of(root, i)), 8192 * TEST_KV_BYTES_PER_TOKEN / 8);
    }
    json_decref(root);
}

static void pipeline_stages_take_the_layers_given_and_all_have_the_fewest_blocks(void **state)
{
    (void)state;
    run("plan", test_model(), "--budget", "24GiB", "--pp", "2:24,8", RANKS);
    assert_answer(0);
    json_t *root = output_json();
    assert_int_equal(integer_of(rank_of(root, 0), "first_layer"), 0);
    assert_int_equal(integer_of(rank_of(root, 0), "layers"), 24);
    assert_int_equal(integer_of(rank_of(root, 1), "first_layer"), 24);
    assert_int_equal(integer_of(rank_of(root, 1), "layers"), 8);
    assert_int_equal(kv_bytes(rank_of(root, 0)), 8192 * TEST_KV_BYTES_PER_TOKEN * 24 / 32);
    assert_int_equal(kv_bytes(rank_of(root, 1)), 8192 * TEST_KV_BYTES_PER_TOKEN * 8 / 32);
    json_decref(root);

    /* Even stages have 16 layers: a block takes 1 MiB on each. Of 64 sequences' 32768 blocks the first rank, with the embedding,
     * has room for those that its own budget leaves; the second is given 16 GiB more, and may not use them. */
    run("plan", test_model(), "--pp", "2", "--max-batch", "64", "--promised-kv-tokens", "8192", "--rank-budgets",
        "12GiB,28GiB", RANKS);
    assert_answer(0);
    root = output_json();
    const uint64_t blocks = integer_of(root, "kv_blocks");
    assert_int_equal(integer_of(root, "tightest"), 0);
    assert_true(blocks >= 512 && blocks < 64 * 512);
    for (size_t i = 0; i < 2; i++) assert_int_equal(kv_bytes(rank_of(root, i)), blocks * MIB);
    assert_int_equal(integer_of(rank_of(root, 0), "stranded_bytes"), 0);
    assert_int_equal(integer_of(rank_of(root, 1), "stranded_bytes"), integer_of(root, "stranded_bytes"));
    assert_true(integer_of(root, "stranded_bytes") > 15 * 1024 * MIB);
    assert_int_equal(integer_of(rank_of(root, 1), "budget_bytes"), 28 * 1024 * MIB);
    json_decref(root);
}

/* 16 experts of 512 in each of 8 layers of 1024. */
static const char *expert_model(void)
{
    return write_text(
        "experts.json",
        "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 1024, \"intermediate_size\": 2048, "
        "\"num_attention_heads\": 16, \"num_key_value_heads\": 4, \"head_dim\": 64, \"num_hidden_layers\": 8, "
        "\"vocab_size\": 32000, \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\", "
        "\"num_experts\": 16, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 512, "
        "\"max_position_embeddings\": 4096, \"decoder_sparse_step\": 1, \"mlp_only_layers\": [], "
        "\"norm_topk_prob\": true}");
}

static void expert_parallel_ranks_hold_as_much_as_split_ones(void **state)
{
    (void)state;
    run("plan", expert_model(), "--budget", "4GiB", "--tp", "4", RANKS);
    assert_answer(0);
    json_t *root = output_json();
    const uint64_t split = integer_of(rank_of(root, 0), "weight_bytes");
    json_decref(root);
    /* 16 experts go evenly to 2 and to 4 ranks: only rounding of parts may differ. */
    static const char *const eps[] = {"2", "4"};
    for (size_t i = 0; i < 2; i++) {
        run("plan", expert_model(), "--budget", "4GiB", "--tp", "4", "--ep", eps[i], RANKS);
        assert_answer(0);
        root = output_json();
        const uint64_t shared = integer_of(rank_of(root, 3), "weight_bytes");
        assert_true(shared + 64 >= split && shared <= split + 64);
        json_decref(root);
    }
}

static void the_text_is_one_table_with_a_row_a_rank(void **state)
{
    (void)state;
    run("plan", test_model(), "--budget", "12GiB", "--tp", "2", "--pp", "2", "--communication", "64MiB");
    assert_answer(0);
    assert_holds(result.out, "fits: 4 ranks, each with 512 KV blocks of 16 tokens");
    const char *row = strstr(result.out, "\n  rank ");
    assert_non_null(row);
    row++;
    const size_t width = strcspn(row, "\n");
    for (int rank = 0; rank < 4; rank++) {
        row += strcspn(row, "\n") + 1;
        char begins[16];
        snprintf(begins, sizeof begins, "  %d ", rank);
        assert_int_equal(strncmp(row, begins, strlen(begins)), 0);
        assert_int_equal(strcspn(row, "\n"), width);
    }
}

static void a_rank_that_does_not_fit_is_named_with_levers_that_work_for_all(void **state)
{
    (void)state;
    static const char *const kinds[] = {"budget", "kv_dtype", "context", "batch", NULL};
    uint32_t seen = 0;
    const char *const questions[][16] = {
        {"--budget", "12GiB", "--tp", "2", "--max-batch", "16", NULL},
        /* Both stages are too large, the second by more: it has the head, and 20 layers. */
        {"--budget", "12GiB", "--pp", "2:12,20", "--max-batch", "8", NULL},
        {"--budget", "14GiB", "--pp", "2:16,16", "--max-batch", "12", "--kv-dtype", "f16", NULL},
    };
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        question_line q = {.n = 0};
        ask_more(&q, "plan");
        ask_more(&q, test_model());
        ask_more(&q, "--communication");
        ask_more(&q, "64MiB");
        for (size_t w = 0; questions[i][w]; w++) ask_more(&q, questions[i][w]);
        run_vector(NULL, q.argument);
        assert_answer(1);
        assert_int_equal(strncmp(result.out, "rank ", 5), 0);
        assert_holds(result.out, "does not fit");
        assert_levers_work(&q, kinds, &seen);
    }
    assert_int_equal(seen & 0xfu, 0xf);
    run("plan", test_model(), "--tp", "2", "--communication", "64MiB", "--json", "--rank-budgets", "24GiB,4GiB");
    assert_answer(1);
    json_t *root = output_json();
    assert_true(json_is_false(member_of(root, "fits")));
    assert_int_equal(integer_of(root, "refused_rank"), 1);
    json_decref(root);
}

static void layouts_that_make_no_sense_are_bad_usage(void **state)
{
    (void)state;
    static const struct {
        const char *flag, *value, *flag2, *value2, *names;
    } bad[] = {
        {"--tp", "0", NULL, NULL, "--tp: \"0\" is no whole number from 1 to 64"},
        {"--tp", "65", NULL, NULL, "--tp: \"65\" is no whole number from 1 to 64"},
        {"--pp", "two", NULL, NULL, "--pp: \"two\" is no whole number from 1 to 64"},
        {"--ep", "-1", NULL, NULL, "--ep: \"-1\" is no whole number from 1 to 64"},
        {"--pp", "2:32", NULL, NULL, "--pp: \"2:32\" has 1 layer counts; expected 2"},
        {"--pp", "2:8,8,16", NULL, NULL, "--pp: \"2:8,8,16\" has more layer counts than stages"},
        {"--pp", "2:32,0", NULL, NULL, "--pp: \"0\" is no whole number from 1 to 512"},
        {"--pp", "2:16,15", NULL, NULL, "--pp: layout: stage_layers is 31"},
        {"--pp", "33", NULL, NULL, "--pp: layout: pp is 33"},
        {"--tp", "3", NULL, NULL, "--tp: layout: tp is 3"},
        {"--tp", "16", "--pp", "8", "--tp: 16 x --pp 8 are 128 ranks; expected at most 64"},
        {"--tp", "4", "--ep", "3", "--ep: 3 does not divide --tp 4"},
        {"--tp", "4", "--ep", "2", "--ep: layout: expert_bytes"}, /* a dense model */
        {"--tp", "2", "--rank-budgets", "8GiB", "--rank-budgets: 1 budgets for 2 ranks"},
        {"--tp", "2", "--rank-budgets", "8GiB,8GB", "--rank-budgets: \"8GB\" is no size"},
        {"--tp", "2", "--open", NULL, "not together with --tp"},
        {"--tp", "2", "--svg", "x.svg", "--svg: not together with --tp"},
        {"--tp", "2", "--against", "x", "not together with --tp"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        question_line q = {.n = 0};
        const char *const words[] = {"plan",  test_model(), "--budget",  "24GiB", "--communication",
                                     "64MiB", bad[i].flag,  bad[i].value};
        for (size_t w = 0; w < 8; w++) ask_more(&q, words[w]);
        if (bad[i].flag2) ask_more(&q, bad[i].flag2);
        if (bad[i].value2) ask_more(&q, bad[i].value2);
        run_vector(NULL, q.argument);
        assert_one_line_error(2);
        assert_holds(result.err, bad[i].names);
    }
    run("plan", test_model(), "--budget", "24GiB", "--tp", "2");
    assert_one_line_error(2);
    assert_holds(result.err, "--communication SIZE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensor_parallel_ranks_share_weights_and_kv_heads),
        cmocka_unit_test(kv_heads_are_copied_where_there_are_fewer_than_ranks),
        cmocka_unit_test(pipeline_stages_take_the_layers_given_and_all_have_the_fewest_blocks),
        cmocka_unit_test(expert_parallel_ranks_hold_as_much_as_split_ones),
        cmocka_unit_test(the_text_is_one_table_with_a_row_a_rank),
        cmocka_unit_test(a_rank_that_does_not_fit_is_named_with_levers_that_work_for_all),
        cmocka_unit_test(layouts_that_make_no_sense_are_bad_usage),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
