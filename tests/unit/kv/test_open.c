/* Opening and closing a KV manager: sizes, refusals, who still holds what. */
#include "kv_test.h"

static uint64_t host_bytes(const impmem_ledger *ledger)
{
    impmem_usage u;
    impmem_ledger_account_usage(ledger, IMPMEM_ACCOUNT_PAGEABLE, &u);
    return u.committed_bytes;
}

static void open_takes_exactly_the_bytes_that_the_planner_was_told(void **state)
{
    (void)state;
    impmem_ledger *ledger = open_ledger(1);
    for (uint32_t blocks = 1; blocks < 3000; blocks = blocks * 3 + 1) {
        impmem_block_pool *pool = open_pool(ledger, blocks, blocks + 5);
        impmem_kv_options o = options_over(pool);
        o.cache_entries = blocks % 2 ? 0 : blocks / 2;
        uint64_t told = 0, before = host_bytes(ledger);
        impmem_kv *kv = NULL;
        assert_int_equal(impmem_kv_control_bytes(&o, &told), IMPMEM_OK);
        assert_int_equal(impmem_kv_open(ledger, &o, &kv, NULL), IMPMEM_OK);
        assert_int_equal(host_bytes(ledger) - before, told);
        assert_int_equal(impmem_kv_close(&kv, NULL), IMPMEM_OK);
        assert_int_equal(host_bytes(ledger), before);
        assert_int_equal(impmem_block_pool_close(&pool, NULL), IMPMEM_OK);
    }
    assert_int_equal(impmem_ledger_destroy(ledger, NULL), IMPMEM_OK);
}

static void a_planner_without_a_pool_is_told_the_same(void **state)
{
    (void)state;
    impmem_ledger *ledger = open_ledger(1);
    impmem_block_pool *pool = open_pool(ledger, 100, 700);
    impmem_kv_options with = options_over(pool), without = options_over(NULL);
    without.cache_entries = 700;
    uint64_t a = 0, b = 1;
    assert_int_equal(impmem_kv_control_bytes(&with, &a), IMPMEM_OK);
    assert_int_equal(impmem_kv_control_bytes(&without, &b), IMPMEM_OK);
    assert_int_equal(a, b);
    assert_int_equal(impmem_block_pool_close(&pool, NULL), IMPMEM_OK);
    assert_int_equal(impmem_ledger_destroy(ledger, NULL), IMPMEM_OK);
}

static void no_prefix_cache_costs_no_cache_tables(void **state)
{
    (void)state;
    impmem_kv_options o = options_over(NULL);
    uint64_t with = 0, without = 0, recurrent = 0;
    o.cache_entries = 10000;
    assert_int_equal(impmem_kv_control_bytes(&o, &with), IMPMEM_OK);
    o.no_prefix_cache = true;
    assert_int_equal(impmem_kv_control_bytes(&o, &without), IMPMEM_OK);
    assert_true(with > without + 10000 * 64);
    o.no_prefix_cache = false;
    o.recurrent_layers = true;
    assert_int_equal(impmem_kv_control_bytes(&o, &recurrent), IMPMEM_OK);
    assert_int_equal(recurrent, without);
}

static void every_wrong_option_is_refused(void **state)
{
    (void)state;
    impmem_ledger *ledger = open_ledger(1);
    impmem_block_pool *pool = open_pool(ledger, 8, 0), *other = open_pool(ledger, 8, 0);
    const impmem_kv_options good = options_over(pool);
    for (int wrong = 0; wrong < 13; wrong++) {
        impmem_kv_options o = good;
        impmem_status expected = IMPMEM_ERR_INVALID_ARGUMENT;
        switch (wrong) {
        case 0: o.n_groups = 0; break;
        case 1: o.n_groups = IMPMEM_KV_MAX_GROUPS + 1; break;
        case 2: o.block_tokens = 0; break;
        case 3: o.max_sequences = 0; break;
        case 4: o.max_seq_tokens = 0; break;
        case 5: o.index_hash_bits = 65; break;
        case 6: o.group[0].pool = NULL; break;
        case 7:
            o.n_groups = 2;
            o.group[1].pool = pool;
            break;
        case 8:
            o.n_groups = 2;
            o.group[1].pool = other;
            o.group[0].window_tokens = 8;
            break;
        case 9: o.size = 8; break;
        case 10: o.version = 0; break;
        case 11:
            o.version = 2;
            expected = IMPMEM_ERR_VERSION;
            break;
        case 12: o.max_sequences = UINT32_MAX; break;
        default: break;
        }
        impmem_kv *kv = NULL;
        impmem_error why = IMPMEM_ERROR_INIT;
        if (impmem_kv_open(ledger, &o, &kv, &why) != expected) fail_msg("case %d", wrong);
        assert_null(kv);
        assert_int_equal(why.status, expected);
        assert_int_not_equal(why.message[0], 0);
    }
    impmem_kv *kv = NULL;
    uint64_t bytes;
    assert_int_equal(impmem_kv_open(NULL, &good, &kv, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_kv_open(ledger, NULL, &kv, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_kv_open(ledger, &good, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_kv_control_bytes(NULL, &bytes), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_kv_control_bytes(&good, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_pool_close(&pool, NULL), IMPMEM_OK);
    assert_int_equal(impmem_block_pool_close(&other, NULL), IMPMEM_OK);
    assert_int_equal(impmem_ledger_destroy(ledger, NULL), IMPMEM_OK);
}

static void a_zeroed_size_and_version_mean_version_1(void **state)
{
    (void)state;
    impmem_kv_options o = options_over(NULL);
    uint64_t bytes = 0;
    o.cache_entries = 8;
    o.size = o.version = 0;
    assert_int_equal(impmem_kv_control_bytes(&o, &bytes), IMPMEM_OK);
    assert_true(bytes > 0);
}

static void tables_beyond_64_bits_are_an_overflow(void **state)
{
    (void)state;
    impmem_kv_options o = options_over(NULL);
    uint64_t bytes = 17;
    o.no_prefix_cache = true;
    o.block_tokens = 1;
    o.max_sequences = 0x7ffffffe;
    o.max_seq_tokens = UINT32_MAX; /* 2^31 * 2^32 positions of 20 bytes */
    assert_int_equal(impmem_kv_control_bytes(&o, &bytes), IMPMEM_ERR_OVERFLOW);
    assert_int_equal(bytes, 17);
}

static void a_pool_in_use_is_refused(void **state)
{
    (void)state;
    impmem_ledger *ledger = open_ledger(1);
    impmem_block_pool *pool = open_pool(ledger, 8, 0);
    impmem_kv_options o = options_over(pool);
    impmem_block_ref ref;
    impmem_kv *kv = NULL;
    assert_int_equal(impmem_block_take(pool, IMPMEM_HOLDER_OTHER, 1, &ref), IMPMEM_OK);
    assert_int_equal(impmem_kv_open(ledger, &o, &kv, NULL), IMPMEM_ERR_BUSY);
    assert_int_equal(impmem_block_drop(pool, &ref), IMPMEM_OK);
    assert_int_equal(impmem_block_pool_reserve(pool, 1), IMPMEM_OK);
    assert_int_equal(impmem_kv_open(ledger, &o, &kv, NULL), IMPMEM_ERR_BUSY);
    assert_int_equal(impmem_block_pool_unreserve(pool, 1), IMPMEM_OK);
    assert_int_equal(impmem_kv_open(ledger, &o, &kv, NULL), IMPMEM_OK);
    assert_int_equal(impmem_kv_close(&kv, NULL), IMPMEM_OK);
    assert_int_equal(impmem_block_pool_close(&pool, NULL), IMPMEM_OK);
    assert_int_equal(impmem_ledger_destroy(ledger, NULL), IMPMEM_OK);
}

static void *no_memory(void *context, size_t bytes, size_t alignment)
{
    (void)context;
    (void)alignment;
    /* Enough for the ledger and the pool, not for tables of a million positions. */
    return bytes > 1 << 20 ? NULL
                           : impmem_default_allocator().allocate(impmem_default_allocator().context, bytes, alignment);
}

static void give_back(void *context, void *memory, size_t bytes)
{
    (void)context;
    impmem_default_allocator().release(impmem_default_allocator().context, memory, bytes);
}

static void without_host_memory_nothing_is_opened(void **state)
{
    (void)state;
    impmem_ledger_options lo = IMPMEM_LEDGER_OPTIONS_INIT;
    lo.allocator = (impmem_allocator){no_memory, give_back, NULL};
    impmem_ledger *ledger = NULL;
    assert_int_equal(impmem_ledger_create(NULL, &lo, &ledger), IMPMEM_OK);
    impmem_block_pool *pool = open_pool(ledger, 8, 0);
    impmem_kv_options o = options_over(pool);
    o.max_seq_tokens = 1 << 20;
    impmem_kv *kv = NULL;
    uint64_t before = host_bytes(ledger);
    assert_int_equal(impmem_kv_open(ledger, &o, &kv, NULL), IMPMEM_ERR_OUT_OF_HOST_MEMORY);
    assert_null(kv);
    assert_int_equal(host_bytes(ledger), before);
    assert_int_equal(impmem_block_pool_close(&pool, NULL), IMPMEM_OK);
    assert_int_equal(impmem_ledger_destroy(ledger, NULL), IMPMEM_OK);
}

static void a_ledger_that_refuses_is_passed_on(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        static const impmem_status expected[] = {IMPMEM_ERR_CAPTURING, IMPMEM_ERR_SERVING, IMPMEM_ERR_BUDGET_EXCEEDED};
        impmem_ledger_options lo = IMPMEM_LEDGER_OPTIONS_INIT;
        lo.serving = IMPMEM_SERVING_REFUSE;
        impmem_lines lines = {NULL, 0, {UINT64_MAX, UINT64_MAX, UINT64_MAX}};
        if (how == 2) lines.budget_bytes[IMPMEM_ACCOUNT_PAGEABLE] = 1 << 20; /* the sequence tables alone are larger */
        impmem_ledger *ledger = NULL;
        assert_int_equal(impmem_ledger_create(&lines, &lo, &ledger), IMPMEM_OK);
        impmem_block_pool *pool = open_pool(ledger, 8, 0);
        impmem_kv_options o = options_over(pool);
        o.max_seq_tokens = 1 << 18;
        impmem_kv *kv = NULL;
        uint64_t before = host_bytes(ledger);
        if (how == 0) assert_int_equal(impmem_ledger_capture_begin(ledger), IMPMEM_OK);
        if (how == 1) assert_int_equal(impmem_ledger_set_phase(ledger, IMPMEM_PHASE_SERVING, NULL), IMPMEM_OK);
        assert_int_equal(impmem_kv_open(ledger, &o, &kv, NULL), expected[how]);
        assert_null(kv);
        assert_int_equal(host_bytes(ledger), before);
        if (how == 0) assert_int_equal(impmem_ledger_capture_end(ledger), IMPMEM_OK);
        assert_int_equal(impmem_block_pool_close(&pool, NULL), IMPMEM_OK);
        assert_int_equal(impmem_ledger_destroy(ledger, NULL), IMPMEM_OK);
    }
}

static void close_names_the_first_owner_while_sequences_live(void **state)
{
    (void)state;
    kv_world w = open_world(8);
    uint32_t tokens[9];
    write_tokens(tokens, 9, 100);
    impmem_kv_request r = request_of(tokens, 9, 0);
    r.owner = 4711;
    impmem_sequence s;
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(impmem_kv_admit(w.kv, &r, &s, NULL, NULL), IMPMEM_OK);
    assert_int_equal(impmem_kv_close(&w.kv, &why), IMPMEM_ERR_LIVE_HOLDERS);
    assert_non_null(strstr(why.message, "4711"));
    assert_non_null(w.kv);
    release(w.kv, &s);
    close_world(&w);
}

static void close_drops_what_is_cached(void **state)
{
    (void)state;
    kv_world w = open_world(8);
    uint32_t tokens[17];
    write_tokens(tokens, 17, 100);
    cache_prompt(w.kv, tokens, 17);
    assert_int_equal(stats_of(w.kv).cached_blocks, 4);
    assert_int_equal(impmem_kv_close(&w.kv, NULL), IMPMEM_OK);
    assert_null(w.kv);
    impmem_block_pool_stats p;
    impmem_block_pool_query(w.pool, &p);
    assert_int_equal(p.free_blocks, 8);
    close_world(&w);
}

static void closing_nothing_is_fine(void **state)
{
    (void)state;
    impmem_kv *none = NULL;
    assert_int_equal(impmem_kv_close(NULL, NULL), IMPMEM_OK);
    assert_int_equal(impmem_kv_close(&none, NULL), IMPMEM_OK);
}

static void reuse_that_cannot_work_is_said_in_words(void **state)
{
    (void)state;
    impmem_ledger *ledger = open_ledger(1);
    impmem_block_pool *pool[2] = {open_pool(ledger, 8, 0), open_pool(ledger, 8, 0)};
    for (int layout = 0; layout < 6; layout++) {
        impmem_kv_options o = options_over(pool[0]);
        const char *word = NULL;
        if (layout == 1) o.no_prefix_cache = true, word = "switched off";
        if (layout == 2) o.group[0].window_tokens = 8, word = "sliding-window";
        if (layout == 3 || layout == 4) o.n_groups = 2, o.group[1].pool = pool[1], word = "several block groups";
        if (layout == 4) o.group[1].window_tokens = 8, word = "sliding-window";
        if (layout == 5) o.recurrent_layers = true, word = "recurrent";
        impmem_kv *kv = NULL;
        assert_int_equal(impmem_kv_open(ledger, &o, &kv, NULL), IMPMEM_OK);
        const char *why = impmem_kv_reuse_unsupported(kv);
        if (word) assert_non_null(strstr(why, word));
        else assert_null(why);
        assert_int_equal(impmem_kv_close(&kv, NULL), IMPMEM_OK);
    }
    assert_non_null(impmem_kv_reuse_unsupported(NULL));
    assert_int_equal(impmem_block_pool_close(&pool[0], NULL), IMPMEM_OK);
    assert_int_equal(impmem_block_pool_close(&pool[1], NULL), IMPMEM_OK);
    assert_int_equal(impmem_ledger_destroy(ledger, NULL), IMPMEM_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_takes_exactly_the_bytes_that_the_planner_was_told),
        cmocka_unit_test(a_planner_without_a_pool_is_told_the_same),
        cmocka_unit_test(no_prefix_cache_costs_no_cache_tables),
        cmocka_unit_test(every_wrong_option_is_refused),
        cmocka_unit_test(a_zeroed_size_and_version_mean_version_1),
        cmocka_unit_test(tables_beyond_64_bits_are_an_overflow),
        cmocka_unit_test(a_pool_in_use_is_refused),
        cmocka_unit_test(without_host_memory_nothing_is_opened),
        cmocka_unit_test(a_ledger_that_refuses_is_passed_on),
        cmocka_unit_test(close_names_the_first_owner_while_sequences_live),
        cmocka_unit_test(close_drops_what_is_cached),
        cmocka_unit_test(closing_nothing_is_fine),
        cmocka_unit_test(reuse_that_cannot_work_is_said_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
