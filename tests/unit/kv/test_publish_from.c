/* Publishing only what is new: the same chain as telling all of it, and a chain that is gone is asked for again. */
#include "kv_test.h"

static void telling_what_is_new_publishes_the_same_chain(void **state)
{
    (void)state;
    for (uint32_t chunk = 1; chunk <= 3 * BT; chunk++) {
        kv_world w = open_world(32);
        uint32_t tokens[41];
        write_tokens(tokens, 41, 100);
        impmem_sequence s = admit(w.kv, tokens, 41, 0, NULL);
        uint32_t told = 0;
        for (uint32_t n = 0; n < 41;) {
            uint32_t more = chunk < 41 - n ? chunk : 41 - n;
            assert_int_equal(impmem_kv_append(w.kv, s, more), IMPMEM_OK);
            n += more;
            uint32_t now[41]; /* nothing but what is told may be read */
            memset(now, 0xee, sizeof now);
            memcpy(now, tokens + told, (n - told) * sizeof *now);
            assert_int_equal(impmem_kv_publish_from(w.kv, s, told, now, n), IMPMEM_OK);
            told = n / BT * BT;
            assert_int_equal(cached_of(w.kv, tokens, 41), told < 41 ? told : 40);
            assert_sound(w.kv);
        }
        assert_int_equal(impmem_kv_publish(w.kv, s, tokens, 41), IMPMEM_OK); /* it is the same chain */
        assert_int_equal(stats_of(w.kv).cached_blocks, 10);
        release(w.kv, &s);
        close_world(&w);
    }
}

static void hits_need_not_be_told_again(void **state)
{
    (void)state;
    kv_world w = open_world(32);
    uint32_t tokens[33], cached = 0;
    write_tokens(tokens, 33, 100);
    cache_prompt(w.kv, tokens, 17);
    impmem_sequence s = admit(w.kv, tokens, 33, 0, &cached);
    assert_int_equal(cached, 16);
    assert_int_equal(impmem_kv_append(w.kv, s, 17), IMPMEM_OK);
    assert_int_equal(impmem_kv_publish_from(w.kv, s, 16, tokens + 16, 33), IMPMEM_OK);
    assert_int_equal(cached_of(w.kv, tokens, 33), 32);
    release(w.kv, &s);
    close_world(&w);
}

static void what_is_told_twice_is_compared_and_what_is_not_told_is_not(void **state)
{
    (void)state;
    kv_world w = open_world(32);
    uint32_t tokens[17], other[17];
    write_tokens(tokens, 17, 100);
    impmem_sequence s = run(w.kv, tokens, 17, true);
    impmem_kv_stats before = stats_of(w.kv), after;
    for (uint32_t wrong = 0; wrong < 16; wrong++) {
        memcpy(other, tokens, sizeof other);
        other[wrong] ^= 1;
        for (uint32_t from = 0; from <= 16; from += BT)
            assert_int_equal(impmem_kv_publish_from(w.kv, s, from, other + from, 17),
                             from <= wrong ? IMPMEM_ERR_INVALID_ARGUMENT : IMPMEM_OK);
    }
    after = stats_of(w.kv);
    assert_memory_equal(&before, &after, sizeof before);
    release(w.kv, &s);
    close_world(&w);
}

static void a_beginning_that_can_not_be_is_refused(void **state)
{
    (void)state;
    kv_world w = open_world(32);
    uint32_t tokens[17];
    write_tokens(tokens, 17, 100);
    impmem_sequence s = run(w.kv, tokens, 17, false), gone = s;
    const impmem_status bad = IMPMEM_ERR_INVALID_ARGUMENT;
    assert_int_equal(impmem_kv_publish(w.kv, s, tokens, 8), IMPMEM_OK);
    assert_int_equal(impmem_kv_publish_from(w.kv, s, 12, tokens + 12, 17), bad); /* 8 to 11 were never told */
    assert_int_equal(impmem_kv_publish_from(w.kv, s, 6, tokens + 6, 17), bad);   /* no block begins there */
    assert_int_equal(impmem_kv_publish_from(w.kv, s, 8, tokens + 8, 18), bad);   /* not written */
    assert_int_equal(impmem_kv_publish_from(w.kv, s, 8, tokens, 4), bad);
    assert_int_equal(impmem_kv_publish_from(w.kv, s, 8, NULL, 17), bad);
    assert_int_equal(impmem_kv_publish_from(NULL, s, 8, tokens + 8, 17), bad);
    assert_int_equal(cached_of(w.kv, tokens, 17), 8);
    assert_int_equal(impmem_kv_publish_from(w.kv, s, 8, NULL, 8), IMPMEM_OK);
    assert_int_equal(impmem_kv_publish_from(w.kv, s, 8, tokens + 8, 17), IMPMEM_OK);
    assert_int_equal(cached_of(w.kv, tokens, 17), 16);
    release(w.kv, &s);
    assert_int_equal(impmem_kv_publish_from(w.kv, gone, 8, tokens + 8, 17), IMPMEM_ERR_STALE);
    close_world(&w);
}

static void a_chain_whose_entries_were_evicted_is_not_found_and_begins_again(void **state)
{
    (void)state;
    kv_world w = open_world(32);
    uint32_t tokens[17];
    write_tokens(tokens, 17, 100);
    impmem_sequence a = run(w.kv, tokens, 9, true), b;
    impmem_kv_request r = request_of(tokens, 17, 0);
    r.no_reuse = true;
    assert_int_equal(impmem_kv_admit(w.kv, &r, &b, NULL, NULL), IMPMEM_OK);
    assert_int_equal(impmem_kv_append(w.kv, b, 17), IMPMEM_OK);
    assert_int_equal(impmem_kv_publish(w.kv, b, tokens, 9), IMPMEM_OK); /* nothing of its own: a was first */
    release(w.kv, &a);
    assert_int_equal(impmem_kv_evict(w.kv, 2), 2);
    impmem_kv_stats before = stats_of(w.kv), after;
    assert_int_equal(impmem_kv_publish_from(w.kv, b, 8, tokens + 8, 17), IMPMEM_ERR_NOT_FOUND);
    after = stats_of(w.kv);
    assert_memory_equal(&before, &after, sizeof before);
    assert_sound(w.kv);
    assert_int_equal(impmem_kv_publish(w.kv, b, tokens, 17), IMPMEM_OK);
    assert_int_equal(cached_of(w.kv, tokens, 17), 16);
    assert_int_equal(stats_of(w.kv).uncached, 0);
    release(w.kv, &b);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(telling_what_is_new_publishes_the_same_chain),
        cmocka_unit_test(hits_need_not_be_told_again),
        cmocka_unit_test(what_is_told_twice_is_compared_and_what_is_not_told_is_not),
        cmocka_unit_test(a_beginning_that_can_not_be_is_refused),
        cmocka_unit_test(a_chain_whose_entries_were_evicted_is_not_found_and_begins_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
