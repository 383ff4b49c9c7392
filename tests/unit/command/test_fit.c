/* `impmem fit`: the largest load, that it is tight, what limits it, and what contradicts it. */
#define _GNU_SOURCE
#include "unit/command/plan_answers.h"

/* Bytes of a budget of the weights and that many blocks: a block of 16 tokens of the test model is one granule. */
static const char *budget_of_blocks(uint64_t blocks)
{
    static char text[4][32];
    static unsigned next;
    char *to = text[next++ % 4];
    assert_int_equal(16 * TEST_KV_BYTES_PER_TOKEN, GRANULE);
    snprintf(to, sizeof text[0], "%llu", (unsigned long long)((TEST_WEIGHT_GRANULES + blocks) * GRANULE));
    return to;
}

static const char *decimal(uint64_t value)
{
    static char text[4][32];
    static unsigned next;
    char *to = text[next++ % 4];
    snprintf(to, sizeof text[0], "%llu", (unsigned long long)value);
    return to;
}

static void assert_fit(uint64_t context, uint64_t batch, const char *limit)
{
    assert_answer(0);
    json_t *root = output_json();
    assert_int_equal(integer_of(root, "max_seq_len"), context);
    assert_int_equal(integer_of(root, "max_batch"), batch);
    assert_string_equal(text_of(root, "limited_by"), limit);
    assert_true(integer_of(root, "total_bytes") <= integer_of(root, "budget_bytes"));
    json_decref(root);
}

static void the_largest_context_is_what_the_blocks_left_hold(void **state)
{
    (void)state;
    run("fit", test_model(), "--budget", budget_of_blocks(100), BARE, "--json");
    assert_fit(1600, 1, "memory");
    /* 25 blocks for each of four. */
    run("fit", test_model(), "--budget", budget_of_blocks(100), BARE, "--json", "--max-batch", "4");
    assert_fit(400, 4, "memory");
    /* 103 are no multiple of four. */
    run("fit", test_model(), "--budget", budget_of_blocks(103), BARE, "--json", "--max-batch", "4");
    assert_fit(400, 4, "memory");
    /* 100 blocks of 16 tokens are 6 of 256. */
    run("fit", test_model(), "--budget", budget_of_blocks(100), BARE, "--json", "--block-size", "256");
    assert_fit(1536, 1, "memory");
    run("fit", test_model(), "--budget", budget_of_blocks(100), BARE, "--json", "--kv-dtype", "fp8");
    assert_fit(3200, 1, "memory");
}

static void the_largest_batch_is_what_the_blocks_left_hold(void **state)
{
    (void)state;
    run("fit", test_model(), "--budget", budget_of_blocks(100), BARE, "--json", "--max-seq-len", "400");
    assert_fit(400, 4, "memory");
    run("fit", test_model(), "--budget", budget_of_blocks(100), BARE, "--json", "--max-seq-len", "401");
    assert_fit(401, 3, "memory");
}

static void more_memory_than_the_model_can_use_is_limited_by_its_training(void **state)
{
    (void)state;
    run("fit", test_model(), "--budget", "48GiB", "--json");
    assert_fit(8192, 1, "trained length");
    /* A trained length that is no whole block is the answer itself. */
    run("fit", write_model("odd.json", 8200), "--budget", "48GiB", "--json");
    assert_fit(8200, 1, "trained length");
    run("fit", test_model(), "--budget", "48GiB");
    assert_answer(0);
    assert_holds(result.out, "largest context: 8192 tokens at a batch of 1, limited by trained length\n");
}

static void a_model_that_does_not_tell_its_training_needs_no_context(void **state)
{
    (void)state;
    run("fit", write_model("endless.json", 0), "--budget", budget_of_blocks(1000), BARE, "--json");
    assert_fit(16000, 1, "memory");
}

static void memory_without_end_is_limited_by_what_can_be_numbered(void **state)
{
    (void)state;
    const char *model = write_model("endless.json", 0);
    /* The last whole block of a context that fits 31 bits; it plans, and one more token than those is no context. */
    run("fit", model, "--budget", "10000TiB", "--json");
    assert_fit(2147483632, 1, "numbering");
    run("plan", model, "--budget", "10000TiB", "--max-seq-len", "2147483632");
    assert_answer(0);
    run("plan", model, "--budget", "10000TiB", "--max-seq-len", "2147483648");
    assert_one_line_error(2);
    run("fit", model, "--budget", "10000TiB", "--max-seq-len", "16", "--json");
    assert_fit(16, 1048576, "numbering");
}

static void the_text_is_two_or_three_lines(void **state)
{
    (void)state;
    run("fit", test_model(), "--budget", budget_of_blocks(100), BARE);
    assert_answer(0);
    assert_holds(result.out, "largest context: 1600 tokens at a batch of 1, limited by memory\n");
    size_t lines = 0;
    for (const char *c = result.out; *c; c++) lines += *c == '\n';
    assert_true(lines == 2 || lines == 3);
    run("fit", test_model(), "--budget", budget_of_blocks(100), BARE, "--max-seq-len", "400");
    assert_answer(0);
    assert_holds(result.out, "largest batch: 4 sequences of 400 tokens, limited by memory\n");
}

/* One request of that many tokens, all but eight of them its prompt. */
static const char *trace_of(uint64_t tokens)
{
    char text[4096];
    int n = snprintf(text, sizeof text, "{\"timestamp\": 0, \"input_length\": %llu, \"output_length\": 8, \"hash_ids\": [0",
                     (unsigned long long)(tokens - 8));
    for (uint64_t id = 1; id * 512 < tokens - 8; id++)
        n += snprintf(text + n, sizeof text - (size_t)n, ", %llu", (unsigned long long)id);
    snprintf(text + n, sizeof text - (size_t)n, "]}\n");
    return write_text("one.jsonl", text);
}

typedef struct load {
    const char *budget;
    const char *flags[7]; /* up to NULL */
} load;

/* Real workspaces, whose size depends on the load; each is limited by memory. */
static const load loads[] = {
    {"18GiB", {NULL}},
    {"19GiB", {"--max-batch", "3", "--block-size", "32"}},
    {"20GiB", {"--max-batch", "8", "--kv-dtype", "fp8"}},
    {"18500MiB", {"--line", "vision=engine:100MiB", "--headroom", "64MiB"}},
    {"18500MiB", {"--lora", "4:16MiB", "--graphs", "8:100MiB:2MiB"}},
    {"19GiB", {"--max-batch", "5", "--prefill-tokens", "512", "--kv-dtype", "q8_0,q4_0"}},
};

static void ask(question_line *q, const char *verb, const load *asked)
{
    q->n = 0;
    ask_more(q, verb);
    ask_more(q, test_model());
    ask_more(q, "--budget");
    ask_more(q, asked->budget);
    for (size_t i = 0; i < 7 && asked->flags[i]; i++) ask_more(q, asked->flags[i]);
}

static void the_largest_context_plans_is_served_and_one_block_more_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        question_line fit, plan, more, serve;
        ask(&fit, "fit", &loads[i]);
        ask_more(&fit, "--json");
        run_vector(NULL, fit.argument);
        assert_answer(0);
        json_t *root = output_json();
        const uint64_t context = integer_of(root, "max_seq_len");
        const uint64_t block = integer_of(root, "block_tokens");
        assert_string_equal(text_of(root, "limited_by"), "memory");
        assert_int_equal(context % block, 0);
        json_decref(root);
        ask(&plan, "plan", &loads[i]);
        ask_more(&plan, "--max-seq-len");
        more = plan;
        ask_more(&plan, decimal(context));
        run_vector(NULL, plan.argument);
        assert_answer(0);
        ask_more(&more, decimal(context + block));
        run_vector(NULL, more.argument);
        assert_answer(1);

        ask(&serve, "simulate", &loads[i]);
        ask_more(&serve, "--json");
        ask_more(&serve, "--trace");
        ask_more(&serve, trace_of(context));
        ask_more(&serve, "--max-seq-len");
        ask_more(&serve, decimal(context));
        run_vector(NULL, serve.argument);
        assert_answer(0);
        root = output_json();
        const json_t *requests = member_of(member_of(root, "simulation"), "requests");
        assert_int_equal(integer_of(requests, "served"), 1);
        assert_int_equal(integer_of(requests, "refused_never_fits"), 0);
        json_decref(root);
    }
}

static void the_largest_batch_plans_and_one_sequence_more_is_refused(void **state)
{
    (void)state;
    static const char *const budgets[] = {"20GiB", "24GiB", "33GiB"};
    for (size_t i = 0; i < 3; i++) {
        run("fit", test_model(), "--budget", budgets[i], "--max-seq-len", "3000", "--json");
        assert_answer(0);
        json_t *root = output_json();
        const uint64_t batch = integer_of(root, "max_batch");
        assert_string_equal(text_of(root, "limited_by"), "memory");
        json_decref(root);
        run("plan", test_model(), "--budget", budgets[i], "--max-seq-len", "3000", "--max-batch", decimal(batch));
        assert_answer(0);
        run("plan", test_model(), "--budget", budgets[i], "--max-seq-len", "3000", "--max-batch", decimal(batch + 1));
        assert_answer(1);
    }
}

static void what_does_not_fit_at_all_is_refused_with_levers_that_work(void **state)
{
    (void)state;
    static const char *const kinds[] = {"budget", NULL};
    uint32_t seen = 0;
    question_line q = {.n = 0};
    const char *const words[] = {"fit", test_model(), "--budget", "15GiB"};
    for (size_t i = 0; i < 4; i++) ask_more(&q, words[i]);
    assert_levers_work(&q, kinds, &seen);
    assert_int_equal(seen & 1u, 1);
    run("fit", test_model(), "--budget", "15GiB");
    assert_answer(1);
    assert_holds(result.out, "does not fit");
}

static void questions_that_make_no_sense_are_bad_usage(void **state)
{
    (void)state;
    run("fit", test_model(), "--budget", "24GiB", "--max-batch", "2", "--max-seq-len", "4096");
    assert_one_line_error(2);
    assert_holds(result.err, "--max-batch 2 and --max-seq-len 4096");
    run("fit", test_model());
    assert_one_line_error(2);
    assert_holds(result.err, "--budget");
    run("fit", "--budget", "24GiB");
    assert_one_line_error(2);
    assert_holds(result.err, "MODEL");
    run("fit", test_model(), "--budget", "24GiB", "--tp", "2");
    assert_one_line_error(2);
    assert_holds(result.err, "--tp: no such flag");
    run("fit", test_path("absent.json"), "--budget", "24GiB");
    assert_one_line_error(3);
    run("fit", test_model(), "--budget", "24GiB", "--line", "a=engine:15000000TiB", "--line", "b=engine:15000000TiB");
    assert_one_line_error(2);
    assert_holds(result.err, "64 bits");
}

/* ---- --cards ------------------------------------------------------------------------------------------------------------ */

static void each_known_card_shows_the_largest_context_and_batch_in_its_memory(void **state)
{
    (void)state;
    run("plan", test_model(), "--cards", "--max-batch", "2", "--json");
    assert_answer(0);
    json_t *root = output_json();
    assert_int_equal(integer_of(root, "at_batch"), 2);
    assert_int_equal(integer_of(root, "at_seq_len"), 8192);
    const json_t *cards = member_of(root, "cards");
    assert_true(json_array_size(cards) >= 2);
    size_t i;
    json_t *card;
    json_array_foreach(cards, i, card)
    {
        /* The same as asked one by one. */
        question_line q = {.n = 0};
        const char *const words[] = {"fit",
                                     test_model(),
                                     "--device-profile",
                                     text_of(card, "name"),
                                     "--budget",
                                     decimal(integer_of(card, "total_bytes")),
                                     "--json"};
        for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) ask_more(&q, words[w]);
        question_line context = q, batch = q;
        ask_more(&context, "--max-batch");
        ask_more(&context, "2");
        run_vector(NULL, context.argument);
        const json_t *largest = member_of(card, "context");
        assert_fit(integer_of(largest, "max_seq_len"), 2, text_of(largest, "limited_by"));
        ask_more(&batch, "--max-seq-len");
        ask_more(&batch, "8192");
        run_vector(NULL, batch.argument);
        largest = member_of(card, "batch");
        assert_fit(8192, integer_of(largest, "max_batch"), text_of(largest, "limited_by"));
    }
    json_decref(root);
}

static void a_card_too_small_says_so_and_columns_line_up(void **state)
{
    (void)state;
    run("plan", test_model(), "--cards", "--line", "neighbour=charge:40GiB");
    assert_answer(0);
    const char *head = strstr(result.out, "card ");
    const char *row = strstr(result.out, "rtx-5090-wsl2");
    assert_non_null(head);
    assert_non_null(row);
    assert_non_null(strstr(row, "does not fit"));
    /* The first "limited by" of the head stands over the first "does not fit". */
    assert_int_equal(strstr(head, "limited by") - head, strstr(row, "does not fit") - row);
    run("plan", test_model(), "--cards", "--line", "neighbour=charge:400GiB", "--json");
    assert_answer(1);
    json_t *root = output_json();
    assert_true(json_is_null(member_of(json_array_get(member_of(root, "cards"), 0), "context")));
    json_decref(root);
}

static void cards_contradict_a_budget_and_a_profile(void **state)
{
    (void)state;
    run("plan", test_model(), "--cards", "--budget", "24GiB");
    assert_one_line_error(2);
    assert_holds(result.err, "--budget: not with --cards");
    run("plan", test_model(), "--cards", "--device-profile", "h200");
    assert_one_line_error(2);
    assert_holds(result.err, "--device-profile: not with --cards");
    run("plan", test_model(), "--cards", "--open");
    assert_one_line_error(2);
    assert_holds(result.err, "--cards: not together with --open");
    run("plan", test_model(), "--cards", "--line", "a=engine:15000000TiB", "--line", "b=engine:15000000TiB");
    assert_one_line_error(2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_context_is_what_the_blocks_left_hold),
        cmocka_unit_test(the_largest_batch_is_what_the_blocks_left_hold),
        cmocka_unit_test(more_memory_than_the_model_can_use_is_limited_by_its_training),
        cmocka_unit_test(a_model_that_does_not_tell_its_training_needs_no_context),
        cmocka_unit_test(memory_without_end_is_limited_by_what_can_be_numbered),
        cmocka_unit_test(the_text_is_two_or_three_lines),
        cmocka_unit_test(the_largest_context_plans_is_served_and_one_block_more_is_refused),
        cmocka_unit_test(the_largest_batch_plans_and_one_sequence_more_is_refused),
        cmocka_unit_test(what_does_not_fit_at_all_is_refused_with_levers_that_work),
        cmocka_unit_test(questions_that_make_no_sense_are_bad_usage),
        cmocka_unit_test(each_known_card_shows_the_largest_context_and_batch_in_its_memory),
        cmocka_unit_test(a_card_too_small_says_so_and_columns_line_up),
        cmocka_unit_test(cards_contradict_a_budget_and_a_profile),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
