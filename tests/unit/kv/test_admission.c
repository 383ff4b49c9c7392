/* Admission: what fits, what never will, and pools that grow. */
#include "kv_test.h"

#include "impmem/fake.h"

static void the_largest_request_is_served_and_one_token_more_never_fits(void **state)
{
    (void)state;
    static uint32_t tokens[500];
    write_tokens(tokens, 500, 0);
    for (uint32_t blocks = 1; blocks <= 120; blocks += 17) {
        kv_world w = open_world(blocks);
        uint32_t most = blocks * BT < 400 ? blocks * BT : 400;
        impmem_kv_request r = request_of(tokens, most / 2 ? most / 2 : 1, 0);
        r.max_new_tokens = most - r.n_tokens;
        impmem_sequence s = IMPMEM_SEQUENCE_NONE;
        impmem_kv_admission a;
        impmem_error why = IMPMEM_ERROR_INIT;
        r.max_new_tokens++;
        assert_int_equal(impmem_kv_admit(w.kv, &r, &s, &a, &why), IMPMEM_ERR_NEVER_FITS);
        assert_int_equal(a.most_tokens, most);
        assert_int_equal(a.need_tokens, most + 1);
        assert_int_not_equal(why.message[0], 0);
        r.max_new_tokens--;
        assert_int_equal(impmem_kv_admit(w.kv, &r, &s, &a, NULL), IMPMEM_OK);
        for (uint32_t t = 0; t < most; t++) assert_int_equal(impmem_kv_append(w.kv, s, 1), IMPMEM_OK);
        assert_int_equal(stats_of(w.kv).refused_never, 1);
        release(w.kv, &s);
        close_world(&w);
    }
}

static void what_can_ever_fit_is_told_without_tokens_and_changes_nothing(void **state)
{
    (void)state;
    static uint32_t tokens[500];
    write_tokens(tokens, 500, 0);
    kv_world w = open_world(30); /* 120 tokens */
    impmem_sequence holder = admit(w.kv, tokens, 100, 20, NULL);
    impmem_kv_stats before = stats_of(w.kv), after;
    impmem_kv_admission a;
    impmem_error why = IMPMEM_ERROR_INIT;
    for (uint64_t prompt = 1; prompt <= 130; prompt++) {
        for (uint64_t more = 0; more <= 130; more += 13) {
            bool fits = prompt + more <= 120;
            assert_int_equal(impmem_kv_servable(w.kv, prompt, more, &a, &why), fits ? IMPMEM_OK : IMPMEM_ERR_NEVER_FITS);
            assert_int_equal(a.need_tokens, prompt + more);
            assert_int_equal(a.need_blocks, (prompt + more + BT - 1) / BT);
            assert_int_equal(a.most_tokens, 120);
            assert_int_equal(a.cached_tokens, 0);
            assert_int_equal(a.available_blocks, 0); /* all are promised: that is no reason for never */
        }
    }
    assert_int_equal(impmem_kv_servable(w.kv, UINT64_MAX, UINT64_MAX, &a, NULL), IMPMEM_ERR_NEVER_FITS);
    assert_int_equal(a.need_tokens, UINT32_MAX);
    assert_int_equal(impmem_kv_servable(w.kv, 120, 0, NULL, NULL), IMPMEM_OK);
    assert_int_equal(impmem_kv_servable(w.kv, 0, 1, &a, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_kv_servable(NULL, 1, 1, &a, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    after = stats_of(w.kv);
    assert_memory_equal(&before, &after, sizeof before);
    release(w.kv, &holder);
    close_world(&w);
}

static void lengths_beyond_32_bits_never_fit(void **state)
{
    (void)state;
    kv_world w = open_world(8);
    uint32_t tokens[4] = {1, 2, 3, 4};
    impmem_kv_request r = request_of(tokens, 4, UINT32_MAX - 1);
    impmem_sequence s = IMPMEM_SEQUENCE_NONE;
    impmem_kv_admission a;
    assert_int_equal(impmem_kv_admit(w.kv, &r, &s, &a, NULL), IMPMEM_ERR_NEVER_FITS);
    assert_int_equal(a.need_tokens, UINT32_MAX);
    close_world(&w);
}

static void wrong_requests_are_refused_and_write_nothing(void **state)
{
    (void)state;
    kv_world w = open_world(8);
    uint32_t tokens[4] = {1, 2, 3, 4};
    const impmem_kv_request good = request_of(tokens, 4, 0);
    for (int wrong = 0; wrong < 5; wrong++) {
        impmem_kv_request r = good;
        impmem_status expected = IMPMEM_ERR_INVALID_ARGUMENT;
        if (wrong == 0) r.tokens = NULL;
        if (wrong == 1) r.n_tokens = 0;
        if (wrong == 2) r.size = 3;
        if (wrong == 3) r.version = 0;
        if (wrong == 4) r.version = 2, expected = IMPMEM_ERR_VERSION;
        impmem_kv_admission a = {.cached_tokens = 77};
        impmem_sequence s = {5, 5};
        impmem_error why = IMPMEM_ERROR_INIT;
        assert_int_equal(impmem_kv_admit(w.kv, &r, &s, &a, &why), expected);
        assert_int_equal(a.cached_tokens, 77);
        assert_int_equal(s.slot_, 5);
        assert_int_equal(why.status, expected);
    }
    impmem_sequence s = IMPMEM_SEQUENCE_NONE;
    assert_int_equal(impmem_kv_admit(NULL, &good, &s, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_kv_admit(w.kv, NULL, &s, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_kv_admit(w.kv, &good, NULL, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    impmem_kv_request zeroed = good;
    zeroed.size = zeroed.version = 0;
    assert_int_equal(impmem_kv_admit(w.kv, &zeroed, &s, NULL, NULL), IMPMEM_OK);
    release(w.kv, &s);
    close_world(&w);
}

static void without_a_sequence_slot_it_is_capacity_and_nothing_changed(void **state)
{
    (void)state;
    kv_world w = open_world(64);
    uint32_t tokens[4] = {1, 2, 3, 4};
    impmem_sequence s[8], more = IMPMEM_SEQUENCE_NONE;
    for (int i = 0; i < 8; i++) s[i] = admit(w.kv, tokens, 4, 0, NULL);
    impmem_kv_request r = request_of(tokens, 4, 0);
    impmem_kv_admission a;
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(impmem_kv_admit(w.kv, &r, &more, &a, &why), IMPMEM_ERR_CAPACITY);
    assert_non_null(strstr(why.message, "sequences"));
    assert_int_equal(a.available_blocks, 56);
    assert_int_equal(stats_of(w.kv).promised_blocks, 8);
    release(w.kv, &s[3]);
    assert_int_equal(impmem_kv_admit(w.kv, &r, &s[3], &a, NULL), IMPMEM_OK);
    for (int i = 0; i < 8; i++) release(w.kv, &s[i]);
    close_world(&w);
}

static void a_window_pool_limits_what_can_ever_fit(void **state)
{
    (void)state;
    impmem_ledger *ledger = open_ledger(1);
    uint32_t token = 1;
    for (uint32_t blocks = 4; blocks <= 5; blocks++) {
        impmem_block_pool *full = open_pool(ledger, 100, 0), *window = open_pool(ledger, blocks, 0);
        impmem_kv_options o = options_over(full);
        o.n_groups = 2;
        o.group[1].pool = window;
        o.group[1].window_tokens = 8;
        o.group[1].in_flight_tokens = 8; /* ceil(16 / 4) + 1 = 5 blocks are enough for any length */
        impmem_kv *kv = NULL;
        assert_int_equal(impmem_kv_open(ledger, &o, &kv, NULL), IMPMEM_OK);
        uint32_t most = blocks == 5 ? 400 : 16;
        impmem_kv_request r = request_of(&token, 1, most);
        impmem_sequence s = IMPMEM_SEQUENCE_NONE;
        assert_int_equal(impmem_kv_admit(kv, &r, &s, NULL, NULL), IMPMEM_ERR_NEVER_FITS);
        r.max_new_tokens = most - 1;
        assert_int_equal(impmem_kv_admit(kv, &r, &s, NULL, NULL), IMPMEM_OK);
        for (uint32_t t = 0; t < most; t += 8) assert_int_equal(impmem_kv_append(kv, s, 8), IMPMEM_OK);
        release(kv, &s);
        assert_int_equal(impmem_kv_close(&kv, NULL), IMPMEM_OK);
        assert_int_equal(impmem_block_pool_close(&full, NULL), IMPMEM_OK);
        assert_int_equal(impmem_block_pool_close(&window, NULL), IMPMEM_OK);
    }
    assert_int_equal(impmem_ledger_destroy(ledger, NULL), IMPMEM_OK);
}

/* ---- growth ------------------------------------------------------------------------------------------------------------------ */

enum { STRIDE = 4096, FIRST = 4, CEILING = 16 };

typedef struct growing {
    impmem_ledger *ledger;
    impmem_backend *backend;
    impmem_fake *fake;
    impmem_region *region;
    impmem_block_pool *pool;
    impmem_kv *kv;
} growing;

static growing open_growing(void)
{
    growing g;
    memset(&g, 0, sizeof g);
    g.ledger = open_ledger(1);
    impmem_fake_options fo = IMPMEM_FAKE_OPTIONS_INIT;
    fo.growable = true;
    fo.granule_bytes = STRIDE;
    fo.backing = IMPMEM_FAKE_ADDRESS_ONLY;
    assert_int_equal(impmem_fake_backend_create(g.ledger, &fo, &g.backend, &g.fake, NULL), IMPMEM_OK);
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = (uint64_t)CEILING * STRIDE;
    assert_int_equal(impmem_backend_reserve(g.backend, &info, &g.region, NULL), IMPMEM_OK);
    impmem_block_pool_options po = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    po.region = g.region;
    po.stride_bytes = STRIDE;
    po.blocks = FIRST;
    po.max_blocks = CEILING;
    assert_int_equal(impmem_block_pool_open(g.ledger, &po, &g.pool, NULL), IMPMEM_OK);
    impmem_kv_options o = options_over(g.pool);
    assert_int_equal(impmem_kv_open(g.ledger, &o, &g.kv, NULL), IMPMEM_OK);
    return g;
}

static void close_growing(growing *g)
{
    assert_sound(g->kv);
    assert_int_equal(impmem_kv_close(&g->kv, NULL), IMPMEM_OK);
    assert_int_equal(impmem_block_pool_close(&g->pool, NULL), IMPMEM_OK);
    assert_int_equal(impmem_backend_release(&g->region, NULL), IMPMEM_OK);
    assert_int_equal(impmem_backend_destroy(g->backend, NULL), IMPMEM_OK);
    assert_int_equal(impmem_ledger_destroy(g->ledger, NULL), IMPMEM_OK);
}

static void admission_grows_the_pool_as_far_as_the_promise_needs(void **state)
{
    (void)state;
    growing g = open_growing();
    uint32_t token = 1;
    impmem_kv_request r = request_of(&token, 1, 9 * BT - 1);
    impmem_sequence s;
    impmem_kv_admission a;
    assert_int_equal(impmem_kv_admit(g.kv, &r, &s, &a, NULL), IMPMEM_OK);
    assert_int_equal(a.available_blocks, CEILING);
    assert_int_equal(a.most_tokens, CEILING * BT);
    assert_int_equal(stats_of(g.kv).total_blocks, 9);
    assert_int_equal(stats_of(g.kv).growths, 1);
    /* From here on no driver is needed. */
    impmem_fake_fail_nth(g.fake, 1, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, IMPMEM_FAIL_FROM_THEN_ON);
    uint64_t calls = impmem_fake_calls(g.fake);
    assert_int_equal(impmem_kv_append(g.kv, s, 9 * BT), IMPMEM_OK);
    assert_int_equal(impmem_fake_calls(g.fake), calls);
    release(g.kv, &s);
    close_growing(&g);
}

static void the_pool_grows_before_cached_blocks_are_reclaimed(void **state)
{
    (void)state;
    growing g = open_growing();
    uint32_t a[17], b[17];
    write_tokens(a, 17, 100);
    write_tokens(b, 17, 200);
    cache_prompt(g.kv, a, 16); /* all four blocks cached */
    cache_prompt(g.kv, b, 16);
    assert_int_equal(stats_of(g.kv).evictions, 0);
    assert_int_equal(stats_of(g.kv).total_blocks, 8);
    assert_int_equal(cached_of(g.kv, a, 17), 16);
    close_growing(&g);
}

static void a_refused_growth_falls_back_to_reclaiming_within_the_promise(void **state)
{
    (void)state;
    growing g = open_growing();
    uint32_t a[17], b[17];
    write_tokens(a, 17, 100);
    write_tokens(b, 17, 200);
    cache_prompt(g.kv, a, 16);
    impmem_fake_fail_nth(g.fake, 1, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, IMPMEM_FAIL_FROM_THEN_ON);
    cache_prompt(g.kv, b, 16);
    assert_int_equal(stats_of(g.kv).total_blocks, 4);
    assert_int_equal(stats_of(g.kv).evictions, 4);
    assert_int_equal(cached_of(g.kv, b, 17), 16);
    close_growing(&g);
}

static void a_refused_growth_is_asked_once_an_admission_not_once_a_block(void **state)
{
    (void)state;
    growing g = open_growing();
    uint32_t a[17], b[17];
    write_tokens(a, 17, 100);
    write_tokens(b, 17, 200);
    cache_prompt(g.kv, a, 16);
    impmem_fake_fail_nth(g.fake, 1, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, IMPMEM_FAIL_FROM_THEN_ON);
    uint64_t calls = impmem_fake_calls(g.fake);
    impmem_sequence s = run(g.kv, b, 16, false);
    assert_int_equal(impmem_fake_calls(g.fake), calls + 1);
    release(g.kv, &s);
    close_growing(&g);
}

static void an_admission_that_cannot_grow_is_capacity_and_changes_nothing(void **state)
{
    (void)state;
    growing g = open_growing();
    uint32_t token = 1;
    impmem_fake_fail_nth(g.fake, 1, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, IMPMEM_FAIL_FROM_THEN_ON);
    impmem_kv_request r = request_of(&token, 1, 15 * BT);
    impmem_sequence s = IMPMEM_SEQUENCE_NONE;
    assert_int_equal(impmem_kv_admit(g.kv, &r, &s, NULL, NULL), IMPMEM_ERR_CAPACITY);
    assert_int_equal(stats_of(g.kv).promised_blocks, 0);
    assert_int_equal(stats_of(g.kv).sequences, 0);
    assert_int_equal(stats_of(g.kv).refused_now, 1);
    assert_sound(g.kv);
    impmem_fake_fail_nth(g.fake, 0, IMPMEM_OK, IMPMEM_FAIL_ONCE);
    assert_int_equal(impmem_kv_admit(g.kv, &r, &s, NULL, NULL), IMPMEM_OK);
    release(g.kv, &s);
    close_growing(&g);
}

static void a_shared_cut_may_grow_the_pool_for_its_promise(void **state)
{
    (void)state;
    growing g = open_growing();
    uint32_t tokens[9];
    write_tokens(tokens, 9, 0);
    cache_prompt(g.kv, tokens, 9);
    impmem_sequence a = admit(g.kv, tokens, 9, 3, NULL),
                    b = admit(g.kv, tokens, 9, 3, NULL); /* four blocks, all spoken for */
    assert_int_equal(impmem_kv_truncate(g.kv, a, 0), IMPMEM_OK);
    assert_int_equal(stats_of(g.kv).total_blocks, 6);
    assert_int_equal(impmem_kv_append(g.kv, a, 12), IMPMEM_OK);
    assert_int_equal(impmem_kv_append(g.kv, b, 4), IMPMEM_OK);
    release(g.kv, &a);
    release(g.kv, &b);
    close_growing(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_request_is_served_and_one_token_more_never_fits),
        cmocka_unit_test(what_can_ever_fit_is_told_without_tokens_and_changes_nothing),
        cmocka_unit_test(lengths_beyond_32_bits_never_fit),
        cmocka_unit_test(wrong_requests_are_refused_and_write_nothing),
        cmocka_unit_test(without_a_sequence_slot_it_is_capacity_and_nothing_changed),
        cmocka_unit_test(a_window_pool_limits_what_can_ever_fit),
        cmocka_unit_test(admission_grows_the_pool_as_far_as_the_promise_needs),
        cmocka_unit_test(the_pool_grows_before_cached_blocks_are_reclaimed),
        cmocka_unit_test(a_refused_growth_falls_back_to_reclaiming_within_the_promise),
        cmocka_unit_test(a_refused_growth_is_asked_once_an_admission_not_once_a_block),
        cmocka_unit_test(an_admission_that_cannot_grow_is_capacity_and_changes_nothing),
        cmocka_unit_test(a_shared_cut_may_grow_the_pool_for_its_promise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
