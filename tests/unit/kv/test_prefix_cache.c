/* The prefix cache: what hits, what never does, what goes first. */
#include "kv_test.h"

static void published_blocks_are_hit_and_unpublished_ones_are_not(void **state)
{
    (void)state;
    kv_world w = open_world(32);
    uint32_t tokens[18];
    write_tokens(tokens, 18, 100);
    impmem_sequence s = run(w.kv, tokens, 18, false);
    assert_int_equal(cached_of(w.kv, tokens, 18), 0);
    assert_int_equal(impmem_kv_publish(w.kv, s, tokens, 11), IMPMEM_OK); /* two whole blocks */
    assert_int_equal(cached_of(w.kv, tokens, 18), 8);
    assert_int_equal(impmem_kv_publish(w.kv, s, tokens, 18), IMPMEM_OK);
    assert_int_equal(cached_of(w.kv, tokens, 18), 16);
    assert_int_equal(stats_of(w.kv).cached_blocks, 4);
    release(w.kv, &s);
    assert_int_equal(cached_of(w.kv, tokens, 18), 16);
    close_world(&w);
}

static void a_fully_cached_prompt_still_computes_its_last_token(void **state)
{
    (void)state;
    kv_world w = open_world(32);
    uint32_t tokens[16], cached = 0;
    write_tokens(tokens, 16, 100);
    cache_prompt(w.kv, tokens, 16);
    for (uint32_t n = 1; n <= 16; n++) assert_int_equal(cached_of(w.kv, tokens, n), (n - 1) / BT * BT);
    assert_int_equal(cached_of(w.kv, tokens, 0), 0);
    impmem_sequence s = admit(w.kv, tokens, 16, 0, &cached);
    assert_int_equal(cached, 12);
    assert_int_equal(impmem_kv_tokens(w.kv, s), 12);
    assert_int_equal(impmem_kv_append(w.kv, s, 4), IMPMEM_OK);
    release(w.kv, &s);
    close_world(&w);
}

static void sharers_see_the_same_blocks_and_their_own_tails(void **state)
{
    (void)state;
    kv_world w = open_world(32);
    uint32_t a[10], b[10], na, nb;
    write_tokens(a, 10, 100);
    write_tokens(b, 10, 100);
    b[9] = 7;
    cache_prompt(w.kv, a, 9);
    impmem_sequence sa = run(w.kv, a, 10, true), sb = run(w.kv, b, 10, true);
    const uint32_t *ia = table_of(w.kv, sa, 0, &na), *ib = table_of(w.kv, sb, 0, &nb);
    assert_int_equal(na, 3);
    assert_int_equal(nb, 3);
    assert_int_equal(ia[0], ib[0]);
    assert_int_equal(ia[1], ib[1]);
    assert_int_not_equal(ia[2], ib[2]);
    assert_int_equal(stats_of(w.kv).sequence_blocks, 4);
    assert_int_equal(stats_of(w.kv).reclaimable_blocks, 0);
    release(w.kv, &sa);
    assert_int_equal(stats_of(w.kv).reclaimable_blocks, 0); /* b holds both */
    release(w.kv, &sb);
    assert_int_equal(stats_of(w.kv).reclaimable_blocks, 2);
    close_world(&w);
}

static void a_lookup_has_no_side_effects(void **state)
{
    (void)state;
    kv_world w = open_world(32);
    uint32_t a[9], b[9];
    write_tokens(a, 9, 100);
    write_tokens(b, 9, 200);
    cache_prompt(w.kv, a, 9);
    cache_prompt(w.kv, b, 9);
    impmem_kv_stats before = stats_of(w.kv);
    for (int i = 0; i < 10; i++) assert_int_equal(cached_of(w.kv, a, 9), 8);
    impmem_kv_stats after = stats_of(w.kv);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(impmem_kv_evict(w.kv, 2), 2);
    assert_int_equal(cached_of(w.kv, a, 9), 0); /* looking at it made it no younger */
    assert_int_equal(cached_of(w.kv, b, 9), 8);
    close_world(&w);
}

static void the_oldest_tail_goes_first_and_heads_last(void **state)
{
    (void)state;
    kv_world w = open_world(32);
    uint32_t a[17], b[17];
    write_tokens(a, 17, 100);
    write_tokens(b, 17, 200);
    cache_prompt(w.kv, a, 17);
    cache_prompt(w.kv, b, 17);
    for (uint32_t left = 4; left-- > 0;) {
        assert_int_equal(impmem_kv_evict(w.kv, 1), 1);
        assert_int_equal(cached_of(w.kv, a, 17), left * BT);
        assert_int_equal(cached_of(w.kv, b, 17), 16);
    }
    cache_prompt(w.kv, a, 17);
    impmem_sequence s = run(w.kv, b, 17, false); /* use makes b young */
    release(w.kv, &s);
    assert_int_equal(impmem_kv_evict(w.kv, 4), 4);
    assert_int_equal(cached_of(w.kv, a, 17), 0);
    assert_int_equal(cached_of(w.kv, b, 17), 16);
    assert_int_equal(impmem_kv_evict(w.kv, 100), 4);
    assert_int_equal(impmem_kv_evict(w.kv, 100), 0);
    close_world(&w);
}

static void cached_blocks_are_reclaimed_only_when_a_block_is_taken(void **state)
{
    (void)state;
    kv_world w = open_world(8);
    uint32_t a[29], b[9];
    write_tokens(a, 29, 100);
    write_tokens(b, 9, 900);
    cache_prompt(w.kv, a, 29); /* 7 cached, 1 free */
    impmem_kv_request r = request_of(b, 9, 0);
    impmem_kv_admission adm;
    impmem_sequence s;
    assert_int_equal(impmem_kv_admit(w.kv, &r, &s, &adm, NULL), IMPMEM_OK);
    assert_int_equal(adm.available_blocks, 8);
    assert_int_equal(adm.need_blocks, 3);
    assert_int_equal(stats_of(w.kv).evictions, 0);
    assert_int_equal(impmem_kv_append(w.kv, s, 4), IMPMEM_OK); /* the free one */
    assert_int_equal(stats_of(w.kv).evictions, 0);
    assert_int_equal(impmem_kv_append(w.kv, s, 5), IMPMEM_OK);
    assert_int_equal(stats_of(w.kv).evictions, 2);
    assert_int_equal(cached_of(w.kv, a, 29), 20); /* its tail went */
    release(w.kv, &s);
    close_world(&w);
}

static void a_hit_counts_as_held_in_the_admission_check(void **state)
{
    (void)state;
    kv_world w = open_world(8);
    uint32_t a[17], b[21];
    write_tokens(a, 17, 100);
    write_tokens(b, 21, 900);
    cache_prompt(w.kv, a, 17);                           /* 4 cached, 4 free */
    impmem_sequence first = admit(w.kv, b, 12, 0, NULL); /* 3 of 8 promised: 5 left, 4 of them in the cache */
    impmem_kv_request r = request_of(a, 17, 4);          /* 6 blocks, of which 4 hit: 2 new, but 4 stop being reclaimable */
    impmem_sequence s = IMPMEM_SEQUENCE_NONE;
    impmem_kv_admission adm;
    assert_int_equal(impmem_kv_admit(w.kv, &r, &s, &adm, NULL), IMPMEM_ERR_CAPACITY);
    assert_int_equal(adm.available_blocks, 5);
    assert_int_equal(cached_of(w.kv, a, 17), 16);
    r.max_new_tokens = 3; /* 5 blocks: exactly what is left */
    assert_int_equal(impmem_kv_admit(w.kv, &r, &s, &adm, NULL), IMPMEM_OK);
    assert_int_equal(adm.cached_tokens, 16);
    assert_int_equal(adm.need_blocks, 1);
    assert_int_equal(impmem_kv_append(w.kv, first, 12), IMPMEM_OK);
    assert_int_equal(impmem_kv_append(w.kv, s, 4), IMPMEM_OK);
    assert_int_equal(stats_of(w.kv).free_blocks, 0);
    release(w.kv, &first);
    release(w.kv, &s);
    close_world(&w);
}

static void two_that_compute_the_same_publish_one_chain(void **state)
{
    (void)state;
    kv_world w = open_world(32);
    uint32_t tokens[17], n;
    write_tokens(tokens, 17, 100);
    impmem_sequence a = run(w.kv, tokens, 17, false), b = run(w.kv, tokens, 17, false);
    assert_int_equal(impmem_kv_publish(w.kv, a, tokens, 8), IMPMEM_OK);
    assert_int_equal(impmem_kv_publish(w.kv, b, tokens, 17), IMPMEM_OK);
    assert_int_equal(impmem_kv_publish(w.kv, a, tokens, 17), IMPMEM_OK);
    assert_int_equal(stats_of(w.kv).cached_blocks, 4);
    uint32_t first_of_a = table_of(w.kv, a, 0, &n)[0], third_of_b = table_of(w.kv, b, 0, &n)[2];
    uint32_t cached = 0;
    impmem_sequence c = admit(w.kv, tokens, 17, 0, &cached);
    assert_int_equal(cached, 16);
    assert_int_equal(table_of(w.kv, c, 0, &n)[0], first_of_a); /* the first to publish is the one */
    assert_int_equal(table_of(w.kv, c, 0, &n)[2], third_of_b);
    release(w.kv, &a);
    assert_sound(w.kv);
    release(w.kv, &b);
    release(w.kv, &c);
    assert_int_equal(stats_of(w.kv).reclaimable_blocks, 4);
    assert_int_equal(stats_of(w.kv).sequence_blocks, 0);
    close_world(&w);
}

static void a_chain_goes_on_below_entries_whose_first_holder_left(void **state)
{
    (void)state;
    kv_world w = open_world(32);
    uint32_t tokens[25];
    write_tokens(tokens, 25, 100);
    impmem_sequence a = run(w.kv, tokens, 9, true), b = run(w.kv, tokens, 9, false);
    (void)b;
    /* b had hit a's blocks; c computes its own. */
    impmem_kv_request r = request_of(tokens, 9, 16);
    r.no_reuse = true;
    impmem_sequence c;
    assert_int_equal(impmem_kv_admit(w.kv, &r, &c, NULL, NULL), IMPMEM_OK);
    assert_int_equal(impmem_kv_append(w.kv, c, 9), IMPMEM_OK);
    assert_int_equal(impmem_kv_publish(w.kv, c, tokens, 9), IMPMEM_OK);
    release(w.kv, &a);
    release(w.kv, &b);
    assert_int_equal(impmem_kv_append(w.kv, c, 16), IMPMEM_OK);
    assert_int_equal(impmem_kv_publish(w.kv, c, tokens, 25), IMPMEM_OK);
    assert_sound(w.kv);
    assert_int_equal(stats_of(w.kv).cached_blocks, 6);
    assert_int_equal(impmem_kv_evict(w.kv, 100), 0); /* c stands on all of it */
    /* The two blocks that only the cache held were exchanged for c's own: nothing is held twice. */
    assert_int_equal(stats_of(w.kv).free_blocks, 32 - 7);
    release(w.kv, &c);
    assert_int_equal(cached_of(w.kv, tokens, 25), 24);
    close_world(&w);
}

static void a_parent_is_not_evicted_under_a_child_in_use(void **state)
{
    (void)state;
    kv_world w = open_world(32);
    uint32_t tokens[17];
    write_tokens(tokens, 17, 100);
    impmem_sequence a = run(w.kv, tokens, 9, true);
    impmem_kv_request r = request_of(tokens, 17, 0);
    r.no_reuse = true;
    impmem_sequence b;
    assert_int_equal(impmem_kv_admit(w.kv, &r, &b, NULL, NULL), IMPMEM_OK);
    assert_int_equal(impmem_kv_append(w.kv, b, 17), IMPMEM_OK);
    assert_int_equal(impmem_kv_publish(w.kv, b, tokens, 17), IMPMEM_OK); /* below a's two entries */
    release(w.kv, &a);
    assert_int_equal(stats_of(w.kv).reclaimable_blocks, 0);
    assert_int_equal(impmem_kv_evict(w.kv, 100), 0);
    assert_int_equal(cached_of(w.kv, tokens, 17), 16);
    release(w.kv, &b);
    assert_int_equal(stats_of(w.kv).reclaimable_blocks, 4);
    close_world(&w);
}

static void caching_starts_again_when_the_entries_it_stood_on_are_gone(void **state)
{
    (void)state;
    kv_world w = open_world(32);
    uint32_t tokens[17];
    write_tokens(tokens, 17, 100);
    impmem_sequence a = run(w.kv, tokens, 9, true);
    impmem_kv_request r = request_of(tokens, 17, 0);
    r.no_reuse = true;
    impmem_sequence b;
    assert_int_equal(impmem_kv_admit(w.kv, &r, &b, NULL, NULL), IMPMEM_OK);
    assert_int_equal(impmem_kv_append(w.kv, b, 17), IMPMEM_OK);
    assert_int_equal(impmem_kv_publish(w.kv, b, tokens, 9), IMPMEM_OK); /* nothing of its own: a was first */
    release(w.kv, &a);
    assert_int_equal(impmem_kv_evict(w.kv, 2), 2);
    assert_int_equal(cached_of(w.kv, tokens, 17), 0);
    assert_int_equal(impmem_kv_publish(w.kv, b, tokens, 17), IMPMEM_OK);
    assert_sound(w.kv);
    assert_int_equal(cached_of(w.kv, tokens, 17), 16);
    assert_int_equal(stats_of(w.kv).uncached, 0);
    release(w.kv, &b);
    close_world(&w);
}

static void publishing_is_idempotent_and_refuses_other_tokens(void **state)
{
    (void)state;
    kv_world w = open_world(32);
    uint32_t tokens[17], other[17];
    write_tokens(tokens, 17, 100);
    impmem_sequence s = run(w.kv, tokens, 17, true);
    impmem_kv_stats before = stats_of(w.kv), after;
    for (uint32_t n = 0; n <= 17; n++) assert_int_equal(impmem_kv_publish(w.kv, s, tokens, n), IMPMEM_OK);
    for (uint32_t wrong = 0; wrong < 16; wrong++) {
        memcpy(other, tokens, sizeof other);
        other[wrong] ^= 1;
        assert_int_equal(impmem_kv_publish(w.kv, s, other, 17), IMPMEM_ERR_INVALID_ARGUMENT);
        assert_int_equal(impmem_kv_publish(w.kv, s, other, wrong / BT * BT), IMPMEM_OK); /* the blocks before are right */
    }
    assert_int_equal(impmem_kv_publish(w.kv, s, tokens, 18), IMPMEM_ERR_INVALID_ARGUMENT);
    after = stats_of(w.kv);
    assert_memory_equal(&before, &after, sizeof before);
    release(w.kv, &s);
    close_world(&w);
}

static void after_a_cut_the_chain_goes_on_with_other_tokens(void **state)
{
    (void)state;
    kv_world w = open_world(32);
    uint32_t tokens[17], other[17];
    write_tokens(tokens, 17, 100);
    memcpy(other, tokens, sizeof other);
    for (uint32_t i = 8; i < 17; i++) other[i] = 900 + i;
    impmem_sequence s = run(w.kv, tokens, 17, true);
    assert_int_equal(impmem_kv_truncate(w.kv, s, 8), IMPMEM_OK);
    assert_int_equal(impmem_kv_append(w.kv, s, 9), IMPMEM_OK);
    assert_int_equal(impmem_kv_publish(w.kv, s, other, 17), IMPMEM_OK);
    assert_int_equal(cached_of(w.kv, tokens, 17), 16);
    assert_int_equal(cached_of(w.kv, other, 17), 16);
    assert_int_equal(stats_of(w.kv).cached_blocks, 6);
    release(w.kv, &s);
    close_world(&w);
}

static uint32_t cached_in(const impmem_kv *kv, const impmem_kv_namespace *n, const uint32_t *tokens, uint32_t count)
{
    uint32_t cached = UINT32_MAX;
    assert_int_equal(impmem_kv_lookup(kv, n, tokens, count, &cached), IMPMEM_OK);
    return cached;
}

static void two_tenants_never_share(void **state)
{
    (void)state;
    kv_world w = open_world(64);
    static const impmem_kv_namespace name[] = {{NULL, 0, NULL, 0}, {"x", 1, NULL, 0},  {NULL, 0, "x", 1},
                                               {"x", 1, "x", 1},   {"xx", 2, NULL, 0}, {"\0", 1, NULL, 0}};
    enum { NAMES = sizeof name / sizeof *name };
    uint32_t tokens[9];
    write_tokens(tokens, 9, 100);
    for (uint32_t i = 0; i < NAMES; i++) {
        impmem_kv_request r = request_of(tokens, 9, 0);
        r.name_space = name[i];
        impmem_sequence s;
        impmem_kv_admission adm;
        assert_int_equal(impmem_kv_admit(w.kv, &r, &s, &adm, NULL), IMPMEM_OK);
        assert_int_equal(adm.cached_tokens, 0);
        assert_int_equal(impmem_kv_append(w.kv, s, 9), IMPMEM_OK);
        assert_int_equal(impmem_kv_publish(w.kv, s, tokens, 9), IMPMEM_OK);
        release(w.kv, &s);
        for (uint32_t j = 0; j < NAMES; j++) assert_int_equal(cached_in(w.kv, &name[j], tokens, 9), j <= i ? 8 : 0);
    }
    assert_int_equal(stats_of(w.kv).cached_blocks, 2 * NAMES);
    assert_sound(w.kv);
    assert_int_equal(impmem_kv_evict(w.kv, 100), 2 * NAMES);
    assert_sound(w.kv);
    close_world(&w);
}

static void the_longest_namespace_is_256_bytes_a_field(void **state)
{
    (void)state;
    kv_world w = open_world(16);
    static unsigned char bytes[257];
    uint32_t tokens[9], cached = 5;
    write_tokens(tokens, 9, 100);
    impmem_kv_namespace fits = {bytes, 256, bytes, 256}, tenant = {bytes, 257, NULL, 0}, adapter = {NULL, 0, bytes, 257},
                        no_bytes = {NULL, 3, NULL, 0};
    impmem_kv_request r = request_of(tokens, 9, 0);
    impmem_sequence s = IMPMEM_SEQUENCE_NONE;
    const impmem_kv_namespace *bad[] = {&tenant, &adapter, &no_bytes};
    for (int i = 0; i < 3; i++) {
        impmem_kv_admission adm = {.most_tokens = 99};
        r.name_space = *bad[i];
        assert_int_equal(impmem_kv_admit(w.kv, &r, &s, &adm, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
        assert_int_equal(adm.most_tokens, 99);
        assert_int_equal(impmem_kv_lookup(w.kv, bad[i], tokens, 9, &cached), IMPMEM_ERR_INVALID_ARGUMENT);
    }
    assert_int_equal(cached, 5);
    assert_int_equal(impmem_kv_lookup(NULL, NULL, tokens, 9, &cached), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_kv_lookup(w.kv, NULL, NULL, 9, &cached), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_kv_lookup(w.kv, NULL, tokens, 9, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    r.name_space = fits;
    assert_int_equal(impmem_kv_admit(w.kv, &r, &s, NULL, NULL), IMPMEM_OK);
    release(w.kv, &s);
    close_world(&w);
}

static void more_namespaces_than_there_is_room_for_push_out_the_oldest(void **state)
{
    (void)state;
    impmem_ledger *ledger = open_ledger(1);
    kv_world w = {ledger, open_pool(ledger, 2000, 0), NULL};
    impmem_kv_options o = options_over(w.pool);
    assert_int_equal(impmem_kv_open(ledger, &o, &w.kv, NULL), IMPMEM_OK);
    uint32_t tokens[9];
    write_tokens(tokens, 9, 100);
    for (uint32_t tenant = 0; tenant < 1000; tenant++) {
        impmem_kv_request r = request_of(tokens, 9, 0);
        r.name_space = (impmem_kv_namespace){&tenant, sizeof tenant, NULL, 0};
        impmem_sequence s;
        assert_int_equal(impmem_kv_admit(w.kv, &r, &s, NULL, NULL), IMPMEM_OK);
        assert_int_equal(impmem_kv_append(w.kv, s, 9), IMPMEM_OK);
        assert_int_equal(impmem_kv_publish(w.kv, s, tokens, 9), IMPMEM_OK);
        release(w.kv, &s);
        assert_int_equal(cached_in(w.kv, &r.name_space, tokens, 9), 8);
    }
    assert_int_equal(stats_of(w.kv).uncached, 0);
    assert_int_equal(stats_of(w.kv).cached_blocks, 2 * 256); /* as many namespaces as entries may belong to */
    close_world(&w);
}

static void no_reuse_computes_everything_again(void **state)
{
    (void)state;
    kv_world w = open_world(16);
    uint32_t tokens[9];
    write_tokens(tokens, 9, 100);
    cache_prompt(w.kv, tokens, 9);
    impmem_kv_request r = request_of(tokens, 9, 0);
    r.no_reuse = true;
    impmem_sequence s;
    impmem_kv_admission adm;
    uint64_t looked_up = stats_of(w.kv).lookup_blocks;
    assert_int_equal(impmem_kv_admit(w.kv, &r, &s, &adm, NULL), IMPMEM_OK);
    assert_int_equal(adm.cached_tokens, 0);
    assert_int_equal(stats_of(w.kv).lookup_blocks, looked_up);
    release(w.kv, &s);
    close_world(&w);
}

static void a_small_cache_keeps_the_youngest_and_counts_what_it_cannot_keep(void **state)
{
    (void)state;
    impmem_ledger *ledger = open_ledger(1);
    kv_world w = {ledger, open_pool(ledger, 64, 0), NULL};
    impmem_kv_options o = options_over(w.pool);
    o.cache_entries = 4;
    assert_int_equal(impmem_kv_open(ledger, &o, &w.kv, NULL), IMPMEM_OK);
    uint32_t a[13], b[13], c[25];
    write_tokens(a, 13, 100);
    write_tokens(b, 13, 200);
    write_tokens(c, 25, 300);
    cache_prompt(w.kv, a, 13);
    cache_prompt(w.kv, b, 13); /* 3 + 3 > 4: two of a's go */
    assert_int_equal(cached_of(w.kv, a, 13), 4);
    assert_int_equal(cached_of(w.kv, b, 13), 12);
    impmem_sequence s = run(w.kv, c, 25, true); /* six blocks: four fit, and then all entries are in use */
    assert_int_equal(cached_of(w.kv, c, 25), 16);
    assert_int_equal(stats_of(w.kv).uncached, 2);
    assert_int_equal(impmem_kv_publish(w.kv, s, c, 25), IMPMEM_OK);
    assert_int_equal(stats_of(w.kv).uncached, 2);
    assert_sound(w.kv);
    release(w.kv, &s);
    close_world(&w);
}

static void a_chain_cap_stops_caching_and_is_counted(void **state)
{
    (void)state;
    impmem_ledger *ledger = open_ledger(1);
    kv_world w = {ledger, open_pool(ledger, 64, 0), NULL};
    impmem_kv_options o = options_over(w.pool);
    o.index_hash_bits = 1; /* two buckets in use */
    o.chain_cap = 3;
    assert_int_equal(impmem_kv_open(ledger, &o, &w.kv, NULL), IMPMEM_OK);
    uint32_t tokens[5];
    for (uint32_t i = 0; i < 40; i++) {
        write_tokens(tokens, 5, 1000 * i);
        cache_prompt(w.kv, tokens, 5);
    }
    impmem_kv_stats k = stats_of(w.kv);
    assert_int_equal(k.cached_blocks, 6); /* three a bucket */
    assert_int_equal(k.uncached, 34);
    close_world(&w);
}

static uint32_t next(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33);
}

static void a_million_lookups_with_ten_bits_of_hash_give_no_false_hit(void **state)
{
    (void)state;
    enum { PROMPTS = 2000, LOOKUPS = 1000000 };
    impmem_ledger *ledger = open_ledger(5);
    kv_world w = {ledger, open_pool(ledger, 4096, 0), NULL};
    impmem_kv_options o = options_over(w.pool);
    o.index_hash_bits = 10;
    assert_int_equal(impmem_kv_open(ledger, &o, &w.kv, NULL), IMPMEM_OK);
    /* Prompt i is {i, i, i, i, i}: of all numbers below 2^20 only the first 2,000 are cached. */
    for (uint32_t i = 0; i < PROMPTS; i++) {
        uint32_t tokens[5] = {i, i, i, i, i};
        cache_prompt(w.kv, tokens, 5);
    }
    assert_int_equal(stats_of(w.kv).cached_blocks, PROMPTS);
    uint64_t random = 1, hits = 0;
    for (uint32_t i = 0; i < LOOKUPS; i++) {
        uint32_t t = next(&random) >> (next(&random) % 2 ? 11 : 20);
        uint32_t tokens[5] = {t, t, t, t, t};
        uint32_t cached = cached_of(w.kv, tokens, 5);
        assert_int_equal(cached, t < PROMPTS ? 4 : 0);
        hits += cached != 0;
    }
    assert_true(hits > LOOKUPS / 3);
    impmem_sequence s = run(w.kv, (const uint32_t[]){PROMPTS, 1, 2, 3, 4}, 5, false);
    assert_true(stats_of(w.kv).collisions > 0);
    release(w.kv, &s);
    close_world(&w);
}

static void hits_beyond_the_pools_references_are_computed_again(void **state)
{
    (void)state;
    impmem_ledger *ledger = open_ledger(1);
    impmem_block_pool_options po = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    po.blocks = 64;
    po.extra_refs = 6;
    kv_world w = {ledger, NULL, NULL};
    assert_int_equal(impmem_block_pool_open(ledger, &po, &w.pool, NULL), IMPMEM_OK);
    impmem_kv_options o = options_over(w.pool);
    assert_int_equal(impmem_kv_open(ledger, &o, &w.kv, NULL), IMPMEM_OK);
    uint32_t tokens[17], cached = 0;
    write_tokens(tokens, 17, 100);
    cache_prompt(w.kv, tokens, 17);
    impmem_sequence a = admit(w.kv, tokens, 17, 0, &cached); /* four of six */
    assert_int_equal(cached, 16);
    impmem_sequence b = admit(w.kv, tokens, 17, 0, &cached); /* two left */
    assert_int_equal(cached, 8);
    assert_int_equal(impmem_kv_append(w.kv, b, 9), IMPMEM_OK);
    assert_int_equal(impmem_kv_publish(w.kv, b, tokens, 17), IMPMEM_OK);
    assert_sound(w.kv);
    impmem_block_ref ref;
    assert_int_equal(impmem_kv_hold(w.kv, a, 0, 0, IMPMEM_HOLDER_PIN, 1, &ref), IMPMEM_ERR_EXHAUSTED);
    release(w.kv, &a);
    release(w.kv, &b);
    close_world(&w);
}

static void a_pool_without_sharing_has_no_reuse_and_says_so(void **state)
{
    (void)state;
    impmem_ledger *ledger = open_ledger(1);
    impmem_block_pool_options po = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    po.blocks = 16;
    po.unshared = true;
    kv_world w = {ledger, NULL, NULL};
    assert_int_equal(impmem_block_pool_open(ledger, &po, &w.pool, NULL), IMPMEM_OK);
    impmem_kv_options o = options_over(w.pool);
    assert_int_equal(impmem_kv_open(ledger, &o, &w.kv, NULL), IMPMEM_OK);
    uint32_t tokens[9];
    write_tokens(tokens, 9, 100);
    cache_prompt(w.kv, tokens, 9);
    assert_int_equal(cached_of(w.kv, tokens, 9), 0);
    assert_int_equal(stats_of(w.kv).uncached, 2);
    assert_non_null(impmem_kv_reuse_unsupported(w.kv));
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_blocks_are_hit_and_unpublished_ones_are_not),
        cmocka_unit_test(a_fully_cached_prompt_still_computes_its_last_token),
        cmocka_unit_test(sharers_see_the_same_blocks_and_their_own_tails),
        cmocka_unit_test(a_lookup_has_no_side_effects),
        cmocka_unit_test(the_oldest_tail_goes_first_and_heads_last),
        cmocka_unit_test(cached_blocks_are_reclaimed_only_when_a_block_is_taken),
        cmocka_unit_test(a_hit_counts_as_held_in_the_admission_check),
        cmocka_unit_test(two_that_compute_the_same_publish_one_chain),
        cmocka_unit_test(a_chain_goes_on_below_entries_whose_first_holder_left),
        cmocka_unit_test(a_parent_is_not_evicted_under_a_child_in_use),
        cmocka_unit_test(caching_starts_again_when_the_entries_it_stood_on_are_gone),
        cmocka_unit_test(publishing_is_idempotent_and_refuses_other_tokens),
        cmocka_unit_test(after_a_cut_the_chain_goes_on_with_other_tokens),
        cmocka_unit_test(two_tenants_never_share),
        cmocka_unit_test(the_longest_namespace_is_256_bytes_a_field),
        cmocka_unit_test(more_namespaces_than_there_is_room_for_push_out_the_oldest),
        cmocka_unit_test(no_reuse_computes_everything_again),
        cmocka_unit_test(a_small_cache_keeps_the_youngest_and_counts_what_it_cannot_keep),
        cmocka_unit_test(a_chain_cap_stops_caching_and_is_counted),
        cmocka_unit_test(a_million_lookups_with_ten_bits_of_hash_give_no_false_hit),
        cmocka_unit_test(hits_beyond_the_pools_references_are_computed_again),
        cmocka_unit_test(a_pool_without_sharing_has_no_reuse_and_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
