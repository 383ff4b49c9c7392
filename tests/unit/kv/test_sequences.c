/* Sequences: append, truncate, release, windows, holds, statistics. */
#include "kv_test.h"

static void a_token_takes_a_block_only_when_one_begins(void **state)
{
    (void)state;
    kv_world w = open_world(16);
    uint32_t tokens[1] = {1}, n = 0;
    impmem_sequence s = admit(w.kv, tokens, 1, 20, NULL);
    for (uint32_t t = 1; t <= 21; t++) {
        assert_int_equal(impmem_kv_append(w.kv, s, 1), IMPMEM_OK);
        assert_int_equal(impmem_kv_tokens(w.kv, s), t);
        table_of(w.kv, s, 0, &n);
        assert_int_equal(n, (t + BT - 1) / BT);
        assert_int_equal(stats_of(w.kv).free_blocks, 16 - n);
        assert_int_equal(stats_of(w.kv).promised_blocks, 6 - n); /* 21 tokens are 6 blocks of 4 */
    }
    assert_int_equal(impmem_kv_append(w.kv, s, 0), IMPMEM_OK);
    assert_int_equal(impmem_kv_tokens(w.kv, s), 21);
    release(w.kv, &s);
    close_world(&w);
}

static void beyond_its_promise_a_sequence_gets_only_what_nobody_was_promised(void **state)
{
    (void)state;
    kv_world w = open_world(6);
    uint32_t tokens[8];
    write_tokens(tokens, 8, 0);
    impmem_sequence a = admit(w.kv, tokens, 4, 0, NULL);       /* 1 block */
    impmem_sequence b = admit(w.kv, tokens, 8, 8, NULL);       /* 4 blocks */
    assert_int_equal(impmem_kv_append(w.kv, a, 8), IMPMEM_OK); /* one beyond: the sixth block was nobody's */
    assert_int_equal(impmem_kv_append(w.kv, a, 1), IMPMEM_ERR_CAPACITY);
    assert_int_equal(impmem_kv_tokens(w.kv, a), 8);
    assert_int_equal(stats_of(w.kv).free_blocks, 4);
    assert_int_equal(impmem_kv_append(w.kv, b, 16), IMPMEM_OK);
    assert_int_equal(impmem_kv_append(w.kv, b, 400), IMPMEM_ERR_CAPACITY);
    assert_sound(w.kv);
    release(w.kv, &a);
    release(w.kv, &b);
    close_world(&w);
}

static void no_sequence_outgrows_max_seq_tokens(void **state)
{
    (void)state;
    kv_world w = open_world(200);
    uint32_t token = 1;
    impmem_sequence s = admit(w.kv, &token, 1, 399, NULL);
    assert_int_equal(impmem_kv_append(w.kv, s, 400), IMPMEM_OK);
    assert_int_equal(impmem_kv_append(w.kv, s, 1), IMPMEM_ERR_CAPACITY);
    assert_int_equal(impmem_kv_append(w.kv, s, UINT32_MAX), IMPMEM_ERR_CAPACITY);
    assert_int_equal(impmem_kv_tokens(w.kv, s), 400);
    release(w.kv, &s);
    close_world(&w);
}

static void a_limit_that_is_no_multiple_of_a_block_is_exact(void **state)
{
    (void)state;
    impmem_ledger *ledger = open_ledger(1);
    kv_world w = {ledger, open_pool(ledger, 8, 0), NULL};
    impmem_kv_options o = options_over(w.pool);
    o.max_seq_tokens = 10;
    uint32_t token = 1;
    assert_int_equal(impmem_kv_open(ledger, &o, &w.kv, NULL), IMPMEM_OK);
    impmem_sequence s = admit(w.kv, &token, 1, 9, NULL);
    assert_int_equal(impmem_kv_append(w.kv, s, 9), IMPMEM_OK);
    assert_int_equal(impmem_kv_append(w.kv, s, 1), IMPMEM_OK);
    assert_int_equal(impmem_kv_append(w.kv, s, 1), IMPMEM_ERR_CAPACITY);
    release(w.kv, &s);
    close_world(&w);
}

static void truncated_blocks_go_back_and_are_promised_again(void **state)
{
    (void)state;
    kv_world w = open_world(8);
    uint32_t tokens[20], n = 0;
    write_tokens(tokens, 20, 0);
    impmem_sequence s = admit(w.kv, tokens, 20, 0, NULL);
    assert_int_equal(impmem_kv_append(w.kv, s, 20), IMPMEM_OK);
    assert_int_equal(impmem_kv_truncate(w.kv, s, 9), IMPMEM_OK);
    table_of(w.kv, s, 0, &n);
    assert_int_equal(n, 3);
    assert_int_equal(stats_of(w.kv).free_blocks, 5);
    assert_int_equal(stats_of(w.kv).promised_blocks, 2);
    impmem_kv_request other = request_of(tokens, 16, 0);
    impmem_sequence none = IMPMEM_SEQUENCE_NONE;
    assert_int_equal(impmem_kv_admit(w.kv, &other, &none, NULL, NULL), IMPMEM_ERR_CAPACITY); /* 4 > 5 - 2 */
    assert_int_equal(impmem_kv_append(w.kv, s, 11), IMPMEM_OK);
    assert_int_equal(impmem_kv_truncate(w.kv, s, 21), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_kv_truncate(w.kv, s, 20), IMPMEM_OK);
    assert_int_equal(impmem_kv_truncate(w.kv, s, 0), IMPMEM_OK);
    assert_int_equal(stats_of(w.kv).promised_blocks, 5);
    release(w.kv, &s);
    close_world(&w);
}

static void a_published_block_is_not_cut_in_its_middle(void **state)
{
    (void)state;
    kv_world w = open_world(8);
    uint32_t tokens[8];
    write_tokens(tokens, 8, 0);
    impmem_sequence s = run(w.kv, tokens, 8, true);
    assert_int_equal(impmem_kv_truncate(w.kv, s, 7), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_kv_tokens(w.kv, s), 8);
    assert_int_equal(impmem_kv_truncate(w.kv, s, 4), IMPMEM_OK);
    assert_int_equal(stats_of(w.kv).cached_blocks, 2); /* the entry keeps the block */
    assert_int_equal(cached_of(w.kv, tokens, 8), 4);
    release(w.kv, &s);
    close_world(&w);
}

static void cutting_off_shared_blocks_is_refused_when_they_cannot_be_promised_again(void **state)
{
    (void)state;
    kv_world w = open_world(4);
    uint32_t tokens[13];
    write_tokens(tokens, 13, 0);
    cache_prompt(w.kv, tokens, 9);                                                            /* two blocks cached */
    impmem_sequence a = admit(w.kv, tokens, 9, 3, NULL), b = admit(w.kv, tokens, 9, 3, NULL); /* share two, one more each */
    impmem_kv_stats before = stats_of(w.kv), after;
    assert_int_equal(impmem_kv_truncate(w.kv, a, 0), IMPMEM_ERR_CAPACITY);
    after = stats_of(w.kv);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(impmem_kv_tokens(w.kv, a), 8);
    assert_sound(w.kv);
    release(w.kv, &b);
    assert_int_equal(impmem_kv_truncate(w.kv, a, 0), IMPMEM_OK);
    assert_int_equal(impmem_kv_append(w.kv, a, 12), IMPMEM_OK);
    release(w.kv, &a);
    close_world(&w);
}

/* The cut would have let go of an entry that only a child of this sequence keeps: it must be kept again. */
static void a_refused_cut_keeps_what_the_chain_stands_on(void **state)
{
    (void)state;
    kv_world w = open_world(6);
    uint32_t tokens[20];
    write_tokens(tokens, 20, 100);
    impmem_sequence a = run(w.kv, tokens, 4, true), b;
    impmem_kv_request r = request_of(tokens, 20, 0);
    r.no_reuse = true;
    assert_int_equal(impmem_kv_admit(w.kv, &r, &b, NULL, NULL), IMPMEM_OK);
    assert_int_equal(impmem_kv_append(w.kv, b, 20), IMPMEM_OK);
    assert_int_equal(impmem_kv_publish(w.kv, b, tokens, 8), IMPMEM_OK); /* its second block, below a's first */
    release(w.kv, &a);
    impmem_block_ref held[3];
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(impmem_kv_hold(w.kv, b, 0, 2 + i, IMPMEM_HOLDER_TRANSFER, i, &held[i]), IMPMEM_OK);
    impmem_kv_stats before = stats_of(w.kv), after;
    assert_int_equal(before.reclaimable_blocks, 0);
    assert_int_equal(impmem_kv_truncate(w.kv, b, 0), IMPMEM_ERR_CAPACITY); /* 5 to promise, of which 3 stay held */
    after = stats_of(w.kv);
    assert_memory_equal(&before, &after, sizeof before);
    assert_sound(w.kv);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(impmem_kv_unhold(w.kv, 0, &held[i]), IMPMEM_OK);
    assert_int_equal(impmem_kv_truncate(w.kv, b, 0), IMPMEM_OK);
    assert_int_equal(stats_of(w.kv).reclaimable_blocks, 2);
    release(w.kv, &b);
    close_world(&w);
}

static void a_released_handle_is_stale_everywhere(void **state)
{
    (void)state;
    kv_world w = open_world(8);
    uint32_t tokens[4] = {1, 2, 3, 4}, n = 77;
    const uint32_t *ids = NULL;
    impmem_block_ref ref = IMPMEM_BLOCK_REF_NONE;
    impmem_sequence s = run(w.kv, tokens, 4, false), copy = s;
    release(w.kv, &s);
    assert_int_equal(s.generation_, 0);
    assert_int_equal(impmem_kv_release(w.kv, &s), IMPMEM_OK); /* none: fine */
    impmem_sequence again = run(w.kv, tokens, 4, false);      /* the same slot */
    assert_int_equal(again.slot_, copy.slot_);
    assert_int_equal(impmem_kv_release(w.kv, &copy), IMPMEM_ERR_STALE);
    assert_int_equal(impmem_kv_append(w.kv, copy, 1), IMPMEM_ERR_STALE);
    assert_int_equal(impmem_kv_truncate(w.kv, copy, 0), IMPMEM_ERR_STALE);
    assert_int_equal(impmem_kv_publish(w.kv, copy, tokens, 4), IMPMEM_ERR_STALE);
    assert_int_equal(impmem_kv_hold(w.kv, copy, 0, 0, IMPMEM_HOLDER_PIN, 1, &ref), IMPMEM_ERR_STALE);
    assert_int_equal(impmem_kv_block_table(w.kv, copy, 0, &ids, &n), IMPMEM_ERR_STALE);
    assert_int_equal(n, 77);
    assert_int_equal(impmem_kv_tokens(w.kv, copy), 0);
    assert_int_equal(impmem_kv_tokens(w.kv, again), 4);
    copy.slot_ = 12345;
    assert_int_equal(impmem_kv_append(w.kv, copy, 1), IMPMEM_ERR_STALE);
    release(w.kv, &again);
    close_world(&w);
}

static void another_managers_handle_is_stale(void **state)
{
    (void)state;
    impmem_ledger *ledger = open_ledger(9);
    impmem_block_pool *pool[2] = {open_pool(ledger, 8, 0), open_pool(ledger, 8, 0)};
    impmem_kv *kv[2];
    for (int i = 0; i < 2; i++) {
        impmem_kv_options o = options_over(pool[i]);
        assert_int_equal(impmem_kv_open(ledger, &o, &kv[i], NULL), IMPMEM_OK);
    }
    uint32_t tokens[4] = {1, 2, 3, 4};
    impmem_sequence mine = run(kv[0], tokens, 4, false), theirs = run(kv[1], tokens, 4, false);
    assert_int_equal(impmem_kv_append(kv[0], theirs, 1), IMPMEM_ERR_STALE);
    assert_int_equal(impmem_kv_append(kv[1], mine, 1), IMPMEM_ERR_STALE);
    release(kv[0], &mine);
    release(kv[1], &theirs);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(impmem_kv_close(&kv[i], NULL), IMPMEM_OK);
        assert_int_equal(impmem_block_pool_close(&pool[i], NULL), IMPMEM_OK);
    }
    assert_int_equal(impmem_ledger_destroy(ledger, NULL), IMPMEM_OK);
}

static void a_reference_of_another_pool_is_not_given_back_here(void **state)
{
    (void)state;
    kv_world w = open_world(8);
    impmem_block_pool *other = open_pool(w.ledger, 8, 0);
    impmem_block_ref ref;
    assert_int_equal(impmem_block_take(other, IMPMEM_HOLDER_PIN, 1, &ref), IMPMEM_OK);
    assert_int_equal(impmem_kv_unhold(w.kv, 0, &ref), IMPMEM_ERR_FOREIGN);
    assert_int_equal(impmem_block_count(other, ref), 1);
    assert_int_equal(impmem_block_drop(other, &ref), IMPMEM_OK);
    assert_int_equal(impmem_block_pool_close(&other, NULL), IMPMEM_OK);
    close_world(&w);
}

static void missing_arguments_are_refused(void **state)
{
    (void)state;
    kv_world w = open_world(8);
    uint32_t tokens[4] = {1, 2, 3, 4}, n;
    const uint32_t *ids;
    impmem_block_ref ref = IMPMEM_BLOCK_REF_NONE;
    impmem_sequence s = run(w.kv, tokens, 4, false);
    const impmem_status bad = IMPMEM_ERR_INVALID_ARGUMENT;
    assert_int_equal(impmem_kv_append(NULL, s, 1), bad);
    assert_int_equal(impmem_kv_truncate(NULL, s, 1), bad);
    assert_int_equal(impmem_kv_publish(NULL, s, tokens, 1), bad);
    assert_int_equal(impmem_kv_publish(w.kv, s, NULL, 1), bad);
    assert_int_equal(impmem_kv_publish(w.kv, s, NULL, 0), IMPMEM_OK);
    assert_int_equal(impmem_kv_release(NULL, &s), bad);
    assert_int_equal(impmem_kv_release(w.kv, NULL), bad);
    assert_int_equal(impmem_kv_block_table(NULL, s, 0, &ids, &n), bad);
    assert_int_equal(impmem_kv_block_table(w.kv, s, 1, &ids, &n), bad);
    assert_int_equal(impmem_kv_block_table(w.kv, s, 0, NULL, &n), bad);
    assert_int_equal(impmem_kv_block_table(w.kv, s, 0, &ids, NULL), bad);
    assert_int_equal(impmem_kv_hold(NULL, s, 0, 0, IMPMEM_HOLDER_PIN, 1, &ref), bad);
    assert_int_equal(impmem_kv_hold(w.kv, s, 1, 0, IMPMEM_HOLDER_PIN, 1, &ref), bad);
    assert_int_equal(impmem_kv_hold(w.kv, s, 0, 0, IMPMEM_HOLDER_SEQUENCE, 1, &ref), bad);
    assert_int_equal(impmem_kv_hold(w.kv, s, 0, 0, IMPMEM_HOLDER_CACHE, 1, &ref), bad);
    assert_int_equal(impmem_kv_hold(w.kv, s, 0, 0, IMPMEM_N_HOLDERS, 1, &ref), bad);
    assert_int_equal(impmem_kv_hold(w.kv, s, 0, 0, IMPMEM_HOLDER_PIN, 1, NULL), bad);
    assert_int_equal(impmem_kv_hold(w.kv, s, 0, 1, IMPMEM_HOLDER_PIN, 1, &ref), IMPMEM_ERR_NOT_FOUND);
    assert_int_equal(impmem_kv_unhold(NULL, 0, &ref), bad);
    assert_int_equal(impmem_kv_unhold(w.kv, 1, &ref), bad);
    assert_int_equal(impmem_kv_unhold(w.kv, 0, NULL), bad);
    assert_int_equal(impmem_kv_check(NULL, NULL), bad);
    assert_int_equal(impmem_kv_evict(NULL, 1), 0);
    assert_int_equal(impmem_kv_tokens(NULL, s), 0);
    impmem_kv_publish_stats(NULL);
    impmem_kv_query(w.kv, NULL);
    impmem_kv_read_stats(w.kv, NULL);
    impmem_kv_stats k = {.sequences = 5};
    impmem_kv_query(NULL, &k);
    assert_int_equal(k.sequences, 0);
    k.sequences = 5;
    impmem_kv_read_stats(NULL, &k);
    assert_int_equal(k.sequences, 0);
    release(w.kv, &s);
    close_world(&w);
}

static void readers_see_what_was_last_published(void **state)
{
    (void)state;
    kv_world w = open_world(8);
    uint32_t tokens[9];
    write_tokens(tokens, 9, 0);
    impmem_kv_stats seen, exact;
    impmem_kv_read_stats(w.kv, &seen);
    assert_int_equal(seen.total_blocks, 8);
    impmem_sequence s = run(w.kv, tokens, 9, true);
    impmem_kv_read_stats(w.kv, &seen);
    assert_int_equal(seen.sequences, 0);
    impmem_kv_publish_stats(w.kv);
    impmem_kv_read_stats(w.kv, &seen);
    exact = stats_of(w.kv);
    assert_memory_equal(&seen, &exact, sizeof exact);
    assert_int_equal(seen.sequences, 1);
    assert_int_equal(seen.cached_blocks, 2);
    assert_int_equal(seen.sequence_blocks, 3);
    release(w.kv, &s);
    close_world(&w);
}

/* ---- windows ----------------------------------------------------------------------------------------------------------------- */

enum { WINDOW = 8, CHUNK = 8 };

/* A full group and one with a window of 8: at most ceil(16 / 4) + 1 = 5 blocks a sequence. */
static impmem_kv *open_hybrid(impmem_ledger *ledger, impmem_block_pool *full, impmem_block_pool *window)
{
    impmem_kv_options o = options_over(full);
    impmem_kv *kv = NULL;
    o.n_groups = 2;
    o.group[1].pool = window;
    o.group[1].window_tokens = WINDOW;
    o.group[1].in_flight_tokens = CHUNK;
    assert_int_equal(impmem_kv_open(ledger, &o, &kv, NULL), IMPMEM_OK);
    return kv;
}

static void a_window_keeps_what_the_next_token_attends_to_within_its_bound(void **state)
{
    (void)state;
    impmem_ledger *ledger = open_ledger(3);
    impmem_block_pool *full = open_pool(ledger, 100, 0), *window = open_pool(ledger, 5, 0);
    impmem_kv *kv = open_hybrid(ledger, full, window);
    uint32_t token = 1, n = 0;
    impmem_sequence s = admit(kv, &token, 1, 399, NULL);
    uint32_t steps[] = {8, 8, 1, 1, 1, 1, 7, 8, 3, 8, 8, 1, 8};
    uint32_t have = 0;
    for (uint32_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        uint32_t before = have;
        assert_int_equal(impmem_kv_append(kv, s, steps[i]), IMPMEM_OK);
        have += steps[i];
        const uint32_t *ids = table_of(kv, s, 1, &n);
        assert_int_equal(n, (have + BT - 1) / BT);
        uint32_t live = 0;
        for (uint32_t p = 0; p < n; p++) {
            live += ids[p] != IMPMEM_NO_BLOCK;
            /* Token `before` attends to itself and 7 before it; all blocks from there on must be there. */
            if ((p + 1) * BT > before + 1 - (before + 1 < WINDOW ? before + 1 : WINDOW))
                assert_int_not_equal(ids[p], IMPMEM_NO_BLOCK);
        }
        assert_true(live <= 5);
        table_of(kv, s, 0, &n);
        assert_int_equal(n, (have + BT - 1) / BT);
        assert_sound(kv);
    }
    assert_int_equal(impmem_kv_truncate(kv, s, have - 9), IMPMEM_ERR_INVALID_ARGUMENT); /* its window is gone */
    assert_int_equal(impmem_kv_truncate(kv, s, have - 3), IMPMEM_OK);
    impmem_block_ref ref;
    assert_int_equal(impmem_kv_hold(kv, s, 1, n - 1, IMPMEM_HOLDER_PIN, 1, &ref), IMPMEM_ERR_UNSUPPORTED);
    release(kv, &s);
    impmem_block_pool_stats p;
    impmem_block_pool_query(window, &p);
    assert_int_equal(p.free_blocks, 5);
    assert_int_equal(impmem_kv_close(&kv, NULL), IMPMEM_OK);
    assert_int_equal(impmem_block_pool_close(&full, NULL), IMPMEM_OK);
    assert_int_equal(impmem_block_pool_close(&window, NULL), IMPMEM_OK);
    assert_int_equal(impmem_ledger_destroy(ledger, NULL), IMPMEM_OK);
}

static void admission_is_all_or_nothing_over_the_groups(void **state)
{
    (void)state;
    impmem_ledger *ledger = open_ledger(3);
    impmem_block_pool *full = open_pool(ledger, 100, 0), *window = open_pool(ledger, 9, 0);
    impmem_kv *kv = open_hybrid(ledger, full, window);
    uint32_t tokens[100], cached;
    write_tokens(tokens, 100, 0);
    impmem_sequence a = admit(kv, tokens, 100, 0, NULL), b = IMPMEM_SEQUENCE_NONE;
    impmem_kv_request r = request_of(tokens, 100, 0);
    impmem_kv_admission why;
    impmem_kv_stats before = stats_of(kv);
    assert_int_equal(impmem_kv_admit(kv, &r, &b, &why, NULL), IMPMEM_ERR_CAPACITY); /* 5 + 5 window blocks > 9 */
    assert_int_equal(stats_of(kv).promised_blocks, before.promised_blocks);
    assert_int_equal(why.available_blocks, 75);
    assert_sound(kv);
    r.n_tokens = 16; /* 4 blocks of each */
    assert_int_equal(impmem_kv_admit(kv, &r, &b, &why, NULL), IMPMEM_OK);
    assert_int_equal(impmem_kv_append(kv, b, 8), IMPMEM_OK);
    assert_int_equal(impmem_kv_append(kv, b, 8), IMPMEM_OK);
    assert_int_equal(impmem_kv_publish(kv, b, tokens, 16), IMPMEM_OK); /* without effect */
    assert_int_equal(impmem_kv_lookup(kv, NULL, tokens, 16, &cached), IMPMEM_OK);
    assert_int_equal(cached, 0);
    for (uint32_t have = 0; have < 96; have += 8) assert_int_equal(impmem_kv_append(kv, a, 8), IMPMEM_OK);
    assert_sound(kv);
    release(kv, &a);
    release(kv, &b);
    assert_int_equal(impmem_kv_close(&kv, NULL), IMPMEM_OK);
    assert_int_equal(impmem_block_pool_close(&full, NULL), IMPMEM_OK);
    assert_int_equal(impmem_block_pool_close(&window, NULL), IMPMEM_OK);
    assert_int_equal(impmem_ledger_destroy(ledger, NULL), IMPMEM_OK);
}

static void an_append_that_one_group_refuses_changes_no_group(void **state)
{
    (void)state;
    impmem_ledger *ledger = open_ledger(3);
    impmem_block_pool *full = open_pool(ledger, 100, 0), *window = open_pool(ledger, 5, 0);
    impmem_kv *kv = open_hybrid(ledger, full, window);
    uint32_t token = 1, n;
    impmem_sequence s = admit(kv, &token, 1, 99, NULL);
    assert_int_equal(impmem_kv_append(kv, s, 8), IMPMEM_OK);
    impmem_kv_stats before = stats_of(kv), after;
    assert_int_equal(impmem_kv_append(kv, s, 32), IMPMEM_ERR_CAPACITY); /* a chunk four times what was planned */
    after = stats_of(kv);
    assert_memory_equal(&before, &after, sizeof before);
    table_of(kv, s, 1, &n);
    assert_int_equal(n, 2);
    assert_sound(kv);
    release(kv, &s);
    assert_int_equal(impmem_kv_close(&kv, NULL), IMPMEM_OK);
    assert_int_equal(impmem_block_pool_close(&full, NULL), IMPMEM_OK);
    assert_int_equal(impmem_block_pool_close(&window, NULL), IMPMEM_OK);
    assert_int_equal(impmem_ledger_destroy(ledger, NULL), IMPMEM_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_takes_a_block_only_when_one_begins),
        cmocka_unit_test(beyond_its_promise_a_sequence_gets_only_what_nobody_was_promised),
        cmocka_unit_test(no_sequence_outgrows_max_seq_tokens),
        cmocka_unit_test(a_limit_that_is_no_multiple_of_a_block_is_exact),
        cmocka_unit_test(truncated_blocks_go_back_and_are_promised_again),
        cmocka_unit_test(a_published_block_is_not_cut_in_its_middle),
        cmocka_unit_test(cutting_off_shared_blocks_is_refused_when_they_cannot_be_promised_again),
        cmocka_unit_test(a_refused_cut_keeps_what_the_chain_stands_on),
        cmocka_unit_test(a_released_handle_is_stale_everywhere),
        cmocka_unit_test(another_managers_handle_is_stale),
        cmocka_unit_test(a_reference_of_another_pool_is_not_given_back_here),
        cmocka_unit_test(missing_arguments_are_refused),
        cmocka_unit_test(readers_see_what_was_last_published),
        cmocka_unit_test(a_window_keeps_what_the_next_token_attends_to_within_its_bound),
        cmocka_unit_test(admission_is_all_or_nothing_over_the_groups),
        cmocka_unit_test(an_append_that_one_group_refuses_changes_no_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
