/* What went wrong in other engines, as their users told it: one test for each report that a KV manager can answer. */
#include "kv_test.h"

#include "kv/internal.h"

static uint32_t dice(uint64_t *random, uint32_t sides)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33) % sides;
}

/* atlas: evicting a cached block zeroed its count while a sequence used it. */
static void f017_evicting_drops_only_the_caches_reference(void **state)
{
    (void)state;
    kv_world w = open_world(8);
    uint32_t tokens[17], n = 0, m = 0;
    write_tokens(tokens, 17, 100);
    cache_prompt(w.kv, tokens, 17);
    impmem_sequence s = admit(w.kv, tokens, 9, 0, NULL);
    assert_int_equal(impmem_kv_evict(w.kv, 100), 2); /* the two that s does not use */
    impmem_sequence other = admit(w.kv, tokens + 1, 16, 0, NULL);
    assert_int_equal(impmem_kv_append(w.kv, other, 16), IMPMEM_OK);
    const uint32_t *mine = table_of(w.kv, s, 0, &n), *theirs = table_of(w.kv, other, 0, &m);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < m; j++) assert_int_not_equal(mine[i], theirs[j]);
    release(w.kv, &s);
    release(w.kv, &other);
    close_world(&w);
}

/* xLLM: a gauge kept by hand grew past 100 %. */
static void f018_used_free_and_cached_add_up_after_every_operation(void **state)
{
    (void)state;
    kv_world w = open_world(16);
    impmem_sequence live[4] = {IMPMEM_SEQUENCE_NONE};
    uint32_t prompt[4][20];
    uint64_t random = 3;
    for (int i = 0; i < 20000; i++) {
        uint32_t at = dice(&random, 4), n = 5 + dice(&random, 15);
        if (live[at].generation_) {
            uint32_t have = impmem_kv_tokens(w.kv, live[at]);
            assert_int_equal(impmem_kv_publish(w.kv, live[at], prompt[at], have), IMPMEM_OK);
            release(w.kv, &live[at]);
        } else {
            write_tokens(prompt[at], 20, 100 * dice(&random, 5));
            impmem_kv_request r = request_of(prompt[at], n, 0);
            impmem_kv_admission a;
            if (!impmem_kv_admit(w.kv, &r, &live[at], &a, NULL))
                assert_int_equal(impmem_kv_append(w.kv, live[at], n - a.cached_tokens), IMPMEM_OK);
        }
        impmem_kv_stats k = stats_of(w.kv);
        impmem_block_pool_stats p;
        impmem_block_pool_query(w.pool, &p);
        uint64_t only_cached = p.live_blocks - k.sequence_blocks;
        assert_int_equal(k.free_blocks + k.sequence_blocks + only_cached, k.total_blocks);
        assert_true(k.sequence_blocks <= k.total_blocks && k.cached_blocks <= k.total_blocks);
        assert_true(k.promised_blocks <= k.free_blocks + k.reclaimable_blocks);
    }
    for (int i = 0; i < 4; i++) release(w.kv, &live[i]);
    close_world(&w);
}

/* vMLX: finished requests kept their references, and eviction found nothing. */
static void f019_after_many_requests_nothing_is_live_and_all_is_reclaimable(void **state)
{
    (void)state;
    kv_world w = open_world(24);
    uint32_t tokens[33];
    for (uint32_t i = 0; i < 500; i++) {
        write_tokens(tokens, 33, 40 * (i % 7));
        impmem_sequence s = run(w.kv, tokens, 33, i % 3 != 0);
        if (i % 5 == 0) assert_int_equal(impmem_kv_truncate(w.kv, s, 16), IMPMEM_OK);
        release(w.kv, &s);
    }
    impmem_kv_stats k = stats_of(w.kv);
    assert_int_equal(k.sequence_blocks, 0);
    assert_int_equal(k.promised_blocks, 0);
    assert_true(k.cached_blocks > 0);
    assert_int_equal(k.reclaimable_blocks, k.cached_blocks);
    assert_int_equal(impmem_kv_evict(w.kv, 1000), k.cached_blocks);
    assert_int_equal(stats_of(w.kv).free_blocks, 24);
    close_world(&w);
}

/* vLLM: a block listed twice was freed twice. A handle released twice, or a copy of it, changes nothing. */
static void f020_releasing_twice_is_an_error_that_changes_nothing(void **state)
{
    (void)state;
    kv_world w = open_world(16);
    uint32_t tokens[9];
    write_tokens(tokens, 9, 100);
    impmem_sequence a = run(w.kv, tokens, 9, true), copy = a, b = run(w.kv, tokens, 9, true);
    release(w.kv, &a);
    impmem_kv_stats before = stats_of(w.kv), after;
    assert_int_equal(impmem_kv_release(w.kv, &copy), IMPMEM_ERR_STALE);
    assert_int_equal(impmem_kv_release(w.kv, &a), IMPMEM_OK); /* zeroed: none */
    after = stats_of(w.kv);
    assert_memory_equal(&before, &after, sizeof before);
    release(w.kv, &b);
    close_world(&w);
}

/* vLLM: blocks were freed while a store was still reading them, or waited for a dead peer for ever. */
static void f022_a_block_that_is_being_copied_is_not_handed_out_again(void **state)
{
    (void)state;
    kv_world w = open_world(4);
    uint32_t tokens[16], n = 0;
    write_tokens(tokens, 16, 100);
    for (int cached = 0; cached < 2; cached++) {
        impmem_sequence s = run(w.kv, tokens, 8, cached != 0);
        impmem_block_ref transfer = IMPMEM_BLOCK_REF_NONE;
        assert_int_equal(impmem_kv_hold(w.kv, s, 0, 1, IMPMEM_HOLDER_TRANSFER, 55, &transfer), IMPMEM_OK);
        uint32_t block = table_of(w.kv, s, 0, &n)[1];
        release(w.kv, &s); /* preempted while the copy runs */
        impmem_kv_request r = request_of(tokens + 1, 13, 0);
        impmem_sequence other = IMPMEM_SEQUENCE_NONE;
        assert_int_equal(impmem_kv_admit(w.kv, &r, &other, NULL, NULL),
                         IMPMEM_ERR_CAPACITY);           /* 4 blocks, of which one is held */
        assert_int_equal(impmem_kv_evict(w.kv, 100), 0); /* its parent is needed as long as it is */
        /* Who holds it can be asked, and the holder dropped by whoever watches deadlines. */
        impmem_block_holder who[2];
        uint32_t holders = 0;
        assert_int_equal(impmem_block_holders(w.pool, block, who, 2, &holders), IMPMEM_OK);
        assert_int_equal(holders, cached ? 2 : 1);
        bool found = false;
        for (uint32_t i = 0; i < holders; i++) found |= who[i].holder == IMPMEM_HOLDER_TRANSFER && who[i].owner == 55;
        assert_true(found);
        assert_int_equal(impmem_kv_close(&w.kv, NULL), IMPMEM_ERR_LIVE_HOLDERS);
        impmem_block_ref copy = transfer;
        assert_int_equal(impmem_kv_unhold(w.kv, 0, &transfer), IMPMEM_OK);
        assert_int_equal(impmem_kv_unhold(w.kv, 0, &copy), IMPMEM_ERR_STALE);
        assert_int_equal(impmem_kv_unhold(w.kv, 0, &transfer), IMPMEM_OK); /* none */
        assert_sound(w.kv);
        assert_int_equal(impmem_kv_admit(w.kv, &r, &other, NULL, NULL), IMPMEM_OK);
        release(w.kv, &other);
        (void)impmem_kv_evict(w.kv, 100);
    }
    close_world(&w);
}

/* vLLM: the seed was a constant, so that collisions could be made in advance. */
static void f023_two_engines_without_a_given_seed_hash_differently(void **state)
{
    (void)state;
    uint32_t tokens[4] = {1, 2, 3, 4};
    uint64_t hash[3];
    for (int i = 0; i < 3; i++) {
        kv_world w = {open_ledger(i < 2 ? 0 : 7), NULL, NULL};
        w.pool = open_pool(w.ledger, 4, 0);
        impmem_kv_options o = options_over(w.pool);
        assert_int_equal(impmem_kv_open(w.ledger, &o, &w.kv, NULL), IMPMEM_OK);
        impmem_sequence s = run(w.kv, tokens, 4, true);
        hash[i] = w.kv->entry[w.kv->sequence[s.slot_].last].hash;
        release(w.kv, &s);
        close_world(&w);
    }
    assert_int_not_equal(hash[0], hash[1]);
    assert_int_not_equal(hash[1], hash[2]);
}

/* vLLM: a salt equal to an adapter's name gave a hit across tenants. */
static void f024_equal_bytes_in_two_fields_never_match(void **state)
{
    (void)state;
    kv_world w = open_world(16);
    uint32_t tokens[9], cached = 1;
    write_tokens(tokens, 9, 100);
    impmem_kv_request r = request_of(tokens, 9, 0);
    r.name_space = (impmem_kv_namespace){"COLLIDE_SALT", 12, NULL, 0};
    impmem_sequence s;
    assert_int_equal(impmem_kv_admit(w.kv, &r, &s, NULL, NULL), IMPMEM_OK);
    assert_int_equal(impmem_kv_append(w.kv, s, 9), IMPMEM_OK);
    assert_int_equal(impmem_kv_publish(w.kv, s, tokens, 9), IMPMEM_OK);
    release(w.kv, &s);
    const impmem_kv_namespace other[] = {{NULL, 0, "COLLIDE_SALT", 12}, {"COLLIDE_", 8, "SALT", 4}, {NULL, 0, NULL, 0}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(impmem_kv_lookup(w.kv, &other[i], tokens, 9, &cached), IMPMEM_OK);
        assert_int_equal(cached, 0);
    }
    assert_int_equal(impmem_kv_lookup(w.kv, &r.name_space, tokens, 9, &cached), IMPMEM_OK);
    assert_int_equal(cached, 8);
    close_world(&w);
}

/* OpenVINO GenAI: a hit was accepted on its hash alone. Here all hashes are equal. */
static void f025_a_forced_collision_misses(void **state)
{
    (void)state;
    kv_world w = {open_ledger(7), NULL, NULL};
    w.pool = open_pool(w.ledger, 64, 0);
    impmem_kv_options o = options_over(w.pool);
    o.index_hash_bits = 1;
    assert_int_equal(impmem_kv_open(w.ledger, &o, &w.kv, NULL), IMPMEM_OK);
    uint32_t tokens[5];
    for (uint32_t i = 0; i < 20; i++) {
        write_tokens(tokens, 5, 10 * i);
        assert_int_equal(cached_of(w.kv, tokens, 5), 0);
        cache_prompt(w.kv, tokens, 5);
        assert_int_equal(cached_of(w.kv, tokens, 5), 4);
    }
    assert_true(stats_of(w.kv).collisions > 0); /* 20 chains in two hashes */
    /* The same block behind another parent is another block. */
    uint32_t chained[9];
    write_tokens(chained, 4, 0);
    write_tokens(chained + 4, 5, 10);
    assert_int_equal(cached_of(w.kv, chained, 9), 4);
    close_world(&w);
}

/* imp: a gauge mixed live and cached blocks, and a leak was reported that did not exist. */
static void f087_live_cached_and_reclaimable_are_told_apart(void **state)
{
    (void)state;
    kv_world w = open_world(200);
    uint32_t tokens[5];
    for (uint32_t i = 0; i < 96; i++) {
        write_tokens(tokens, 5, 10 * i);
        cache_prompt(w.kv, tokens, 5);
    }
    impmem_kv_stats k = stats_of(w.kv);
    assert_int_equal(k.sequence_blocks, 0);
    assert_int_equal(k.cached_blocks, 96);
    assert_int_equal(k.reclaimable_blocks, 96);
    assert_int_equal(k.free_blocks, 104);
    close_world(&w);
}

/* vLLM: a request larger than the pool blocked the queue for ever. 49 blocks, and one that needs 63. */
static void f090_f091_a_request_larger_than_the_pool_is_refused_at_once_and_later_ones_go_on(void **state)
{
    (void)state;
    kv_world w = open_world(49);
    uint32_t tokens[252];
    write_tokens(tokens, 252, 0);
    impmem_kv_request r = request_of(tokens, 252, 0);
    impmem_sequence s = IMPMEM_SEQUENCE_NONE;
    impmem_kv_admission a;
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(impmem_kv_admit(w.kv, &r, &s, &a, &why), IMPMEM_ERR_NEVER_FITS);
    assert_int_equal(a.need_blocks, 63);
    assert_int_equal(a.most_tokens, 49 * BT);
    assert_non_null(strstr(why.message, "196"));
    cache_prompt(w.kv, tokens, 100);
    assert_int_equal(stats_of(w.kv).refused_never, 1);
    close_world(&w);
}

/* vLLM: two partly loaded requests held blocks and neither could finish. 2,048 blocks; A needs 1,600, B 1,200. */
static void f092_no_two_requests_hold_parts_that_keep_both_from_finishing(void **state)
{
    (void)state;
    kv_world w = {open_ledger(7), NULL, NULL};
    w.pool = open_pool(w.ledger, 2048, 0);
    impmem_kv_options o = options_over(w.pool);
    o.max_seq_tokens = 16384;
    assert_int_equal(impmem_kv_open(w.ledger, &o, &w.kv, NULL), IMPMEM_OK);
    static uint32_t tokens[6400];
    write_tokens(tokens, 6400, 0);
    impmem_sequence a = admit(w.kv, tokens, 1600 * BT, 0, NULL), b = IMPMEM_SEQUENCE_NONE, c;
    assert_int_equal(impmem_kv_append(w.kv, a, 512 * BT), IMPMEM_OK);
    impmem_kv_request r = request_of(tokens, 1200 * BT, 0);
    impmem_kv_admission adm;
    assert_int_equal(impmem_kv_admit(w.kv, &r, &b, &adm, NULL), IMPMEM_ERR_CAPACITY);
    assert_int_equal(adm.available_blocks, 448); /* free are 1,536, but a's are spoken for */
    c = admit(w.kv, tokens, 448 * BT, 0, NULL);  /* what does fit behind it runs */
    assert_int_equal(impmem_kv_append(w.kv, c, 448 * BT), IMPMEM_OK);
    assert_int_equal(impmem_kv_append(w.kv, a, 1088 * BT), IMPMEM_OK);
    release(w.kv, &a);
    assert_int_equal(impmem_kv_admit(w.kv, &r, &b, &adm, NULL), IMPMEM_OK);
    assert_int_equal(impmem_kv_append(w.kv, b, 1200 * BT), IMPMEM_OK);
    release(w.kv, &b);
    release(w.kv, &c);
    close_world(&w);
}

/* atlas: one missing block failed every sequence of the batch. */
static void f094_a_shortage_hurts_the_one_that_asks_too_much(void **state)
{
    (void)state;
    kv_world w = open_world(12);
    uint32_t tokens[4] = {1, 2, 3, 4};
    impmem_sequence s[3];
    for (int i = 0; i < 3; i++) s[i] = admit(w.kv, tokens, 4, 12, NULL); /* four blocks each: the pool */
    for (int i = 0; i < 3; i++) assert_int_equal(impmem_kv_append(w.kv, s[i], 15), IMPMEM_OK);
    assert_int_equal(impmem_kv_append(w.kv, s[1], 2), IMPMEM_ERR_CAPACITY);
    assert_int_equal(impmem_kv_tokens(w.kv, s[1]), 15);
    for (int i = 0; i < 3; i++) assert_int_equal(impmem_kv_append(w.kv, s[i], 1), IMPMEM_OK);
    for (int i = 0; i < 3; i++) release(w.kv, &s[i]);
    close_world(&w);
}

/* vLLM Ascend: blocks given back showed no gain. Here a release is to be seen at once. */
static void f093_what_a_release_gives_back_is_available_at_once(void **state)
{
    (void)state;
    kv_world w = open_world(12);
    uint32_t tokens[25];
    write_tokens(tokens, 25, 100);
    impmem_sequence s = run(w.kv, tokens, 25, true);
    impmem_kv_request r = request_of(tokens + 1, 24, 24);
    impmem_sequence big = IMPMEM_SEQUENCE_NONE;
    assert_int_equal(impmem_kv_admit(w.kv, &r, &big, NULL, NULL), IMPMEM_ERR_CAPACITY);
    release(w.kv, &s);
    assert_int_equal(impmem_kv_admit(w.kv, &r, &big, NULL, NULL), IMPMEM_OK);
    assert_int_equal(impmem_kv_append(w.kv, big, 48), IMPMEM_OK);
    release(w.kv, &big);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f017_evicting_drops_only_the_caches_reference),
        cmocka_unit_test(f018_used_free_and_cached_add_up_after_every_operation),
        cmocka_unit_test(f019_after_many_requests_nothing_is_live_and_all_is_reclaimable),
        cmocka_unit_test(f020_releasing_twice_is_an_error_that_changes_nothing),
        cmocka_unit_test(f022_a_block_that_is_being_copied_is_not_handed_out_again),
        cmocka_unit_test(f023_two_engines_without_a_given_seed_hash_differently),
        cmocka_unit_test(f024_equal_bytes_in_two_fields_never_match),
        cmocka_unit_test(f025_a_forced_collision_misses),
        cmocka_unit_test(f087_live_cached_and_reclaimable_are_told_apart),
        cmocka_unit_test(f090_f091_a_request_larger_than_the_pool_is_refused_at_once_and_later_ones_go_on),
        cmocka_unit_test(f092_no_two_requests_hold_parts_that_keep_both_from_finishing),
        cmocka_unit_test(f093_what_a_release_gives_back_is_available_at_once),
        cmocka_unit_test(f094_a_shortage_hurts_the_one_that_asks_too_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
