/* impmem/block_pool.h, as the header promises it. */
#include "contract.h"

#include "impmem/block_pool.h"
#include "impmem/control.h"

static impmem_block_pool *open_ids(world *w, uint32_t blocks, uint32_t max_blocks, uint32_t extra_refs)
{
    impmem_block_pool *pool = NULL;
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.blocks = blocks;
    o.max_blocks = max_blocks;
    o.extra_refs = extra_refs;
    OK(impmem_block_pool_open(w->ledger, &o, &pool, NULL));
    return pool;
}

static void every_function_refuses_what_is_missing(void **state)
{
    (void)state;
    world w;
    impmem_error why;
    impmem_block_ref ref = IMPMEM_BLOCK_REF_NONE, out = IMPMEM_BLOCK_REF_NONE;
    impmem_block_span span;
    impmem_block_pool *pool = NULL;
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    const impmem_holder nobody = (impmem_holder)IMPMEM_N_HOLDERS;
    uint32_t n = 0;
    world_open(&w, GRANULE);
    o.blocks = 4;
    REFUSED(impmem_block_pool_open(NULL, &o, &pool, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_block_pool_open(w.ledger, NULL, &pool, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_block_pool_open(w.ledger, &o, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    o.version = 2;
    REFUSED(impmem_block_pool_open(w.ledger, &o, &pool, &why), IMPMEM_ERR_VERSION);
    memset(&o, 0, sizeof o);
    REFUSED(impmem_block_pool_open(w.ledger, &o, &pool, &why), IMPMEM_ERR_INVALID_ARGUMENT); /* 0 blocks */
    assert_null(pool);
    o.blocks = 4; /* a zeroed struct means version 1 */
    OK(impmem_block_pool_open(w.ledger, &o, &pool, NULL));
    OK(impmem_block_take(pool, IMPMEM_HOLDER_PIN, 9, &ref));
    FAILS(impmem_block_take(NULL, IMPMEM_HOLDER_PIN, 0, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_block_take(pool, nobody, 0, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_block_take(pool, IMPMEM_HOLDER_PIN, 0, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_block_take_many(pool, nobody, 0, 1, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_block_take_many(pool, IMPMEM_HOLDER_PIN, 0, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_block_take_many(pool, IMPMEM_HOLDER_PIN, 0, 0, NULL));
    FAILS(impmem_block_share(pool, ref, nobody, 0, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_block_share(pool, ref, IMPMEM_HOLDER_PIN, 0, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_block_share(pool, out, IMPMEM_HOLDER_PIN, 0, &out), IMPMEM_ERR_STALE); /* none */
    FAILS(impmem_block_transfer(pool, &ref, nobody, 0), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_block_transfer(pool, &out, IMPMEM_HOLDER_PIN, 0), IMPMEM_ERR_STALE);
    FAILS(impmem_block_drop(NULL, &ref), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_block_drop(pool, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_block_drop_many(pool, NULL, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_block_drop_many(pool, NULL, 0, NULL));
    FAILS(impmem_block_address(pool, ref, &span), IMPMEM_ERR_UNSUPPORTED); /* ids only */
    FAILS(impmem_block_address(pool, ref, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_block_holders(pool, 4, NULL, 0, &n), IMPMEM_ERR_NOT_FOUND);
    FAILS(impmem_block_holders(pool, IMPMEM_NO_BLOCK, NULL, 0, &n), IMPMEM_ERR_NOT_FOUND);
    FAILS(impmem_block_holders(pool, 0, NULL, 1, &n), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_block_holders(pool, 0, NULL, 0, &n));
    assert_int_equal(n, 1);
    OK(impmem_block_holders(pool, 3, NULL, 0, &n));
    assert_int_equal(n, 0);
    REFUSED(impmem_block_pool_grow(NULL, 5, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_block_pool_grow(pool, 5, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_block_pool_grow(pool, 3, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_block_pool_grow(pool, 4, &why));
    REFUSED(impmem_block_pool_check(NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_block_pool_check(pool, NULL));
    OK(impmem_block_drop(pool, &ref));
    OK(impmem_block_pool_close(&pool, NULL));
    OK(impmem_block_pool_close(&pool, NULL));
    OK(impmem_block_pool_close(NULL, NULL));
    world_close(&w);
}

static impmem_status open_refused(world *w, uint32_t blocks, uint32_t max, uint32_t extra, impmem_region *region,
                                  uint64_t stride)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_block_pool *pool = NULL;
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.blocks = blocks;
    o.max_blocks = max;
    o.extra_refs = extra;
    o.region = region;
    o.stride_bytes = stride;
    const world_figures before = world_look(w);
    const impmem_status st = impmem_block_pool_open(w->ledger, &o, &pool, &why);
    assert_null(pool);
    assert_int_equal(why.status, st);
    assert_same_figures(before, world_look(w));
    return st;
}

static void pools_as_large_as_numbers_go_are_refused_or_asked_for_exactly(void **state)
{
    (void)state;
    world w;
    uint64_t bytes = 0, fewer = 0;
    world_open(&w, GRANULE);
    impmem_region *region = world_region(&w, 4 * GRANULE, LINE_A);
    FAILS(open_refused(&w, UINT32_MAX, 0, 0, NULL, 0), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(open_refused(&w, 1, UINT32_MAX, UINT32_MAX, NULL, 0), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(open_refused(&w, 5, 4, 0, NULL, 0), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(open_refused(&w, 1, 0, 0, NULL, 1), IMPMEM_ERR_INVALID_ARGUMENT); /* a stride without a region */
    FAILS(open_refused(&w, 1, 0, 0, region, 0), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(open_refused(&w, 4, 0, 0, region, GRANULE + 1), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(open_refused(&w, 2, 0, 0, region, UINT64_MAX / 2 + 1), IMPMEM_ERR_INVALID_ARGUMENT); /* the product wraps to 0 */
    FAILS(open_refused(&w, 1, 5, 0, region, GRANULE), IMPMEM_ERR_INVALID_ARGUMENT);
    /* 2^31 - 1 blocks and as many references: a size in 64 bits that the host allocator is really asked for. */
    OK(impmem_control_block_pool_bytes(UINT32_MAX / 2, UINT32_MAX / 2, &bytes));
    OK(impmem_control_block_pool_bytes(UINT32_MAX / 2, 0, &fewer));
    assert_true(bytes > (uint64_t)UINT32_MAX && bytes > fewer && fewer > UINT32_MAX / 2);
    w.fail_in = 1;
    FAILS(open_refused(&w, UINT32_MAX / 2, 0, 0, NULL, 0), IMPMEM_ERR_OUT_OF_HOST_MEMORY);
    w.fail_in = 0;
    /* Nothing keeps the region from a pool that fits. */
    impmem_block_pool *pool = NULL;
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.region = region;
    o.stride_bytes = GRANULE;
    o.blocks = 4;
    OK(impmem_block_pool_open(w.ledger, &o, &pool, NULL));
    OK(impmem_block_pool_close(&pool, NULL));
    OK(impmem_backend_release(&region, NULL));
    world_close(&w);
}

/* What a pool promises about every reference it ever gave out, held against a list of them. */
static void a_reference_is_good_until_its_own_drop_and_never_after(void **state)
{
    (void)state;
    enum { BLOCKS = 16, REFS = 48, OLD = 512 };
    world w;
    impmem_block_ref ref[REFS], old[OLD];
    uint32_t of[REFS], count[BLOCKS] = {0}, n = 0, n_old = 0;
    uint64_t random = 12345;
    world_open(&w, GRANULE);
    impmem_block_pool *pool = open_ids(&w, BLOCKS, 0, REFS - BLOCKS);
    for (unsigned step = 0; step < 20000; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const uint32_t r = (uint32_t)(random >> 33);
        if (n < REFS && r % 3 == 0) {
            impmem_status st = impmem_block_take(pool, IMPMEM_HOLDER_SEQUENCE, step, &ref[n]);
            if (st == IMPMEM_OK) {
                of[n] = impmem_block_id(pool, ref[n]);
                assert_true(of[n] < BLOCKS);
                assert_int_equal(count[of[n]]++, 0);
                n++;
            } else {
                FAILS(st, IMPMEM_ERR_EXHAUSTED);
                for (uint32_t b = 0; b < BLOCKS; b++) assert_true(count[b] > 0);
            }
        } else if (n > 0 && n < REFS && r % 3 == 1) {
            const uint32_t i = (r >> 2) % n;
            impmem_status st = impmem_block_share(pool, ref[i], IMPMEM_HOLDER_CACHE, step, &ref[n]);
            if (st == IMPMEM_OK) {
                of[n] = of[i];
                count[of[i]]++;
                assert_int_equal(impmem_block_count(pool, ref[i]), count[of[i]]);
                n++;
            } else {
                FAILS(st, IMPMEM_ERR_EXHAUSTED);
            }
        } else if (n > 0) {
            const uint32_t i = (r >> 2) % n;
            old[n_old++ % OLD] = ref[i];
            if (r & 1) {
                OK(impmem_block_transfer(pool, &ref[i], IMPMEM_HOLDER_TRANSFER, step));
                assert_int_equal(impmem_block_id(pool, ref[i]), of[i]);
            } else {
                OK(impmem_block_drop(pool, &ref[i]));
                assert_true(impmem_block_ref_is_none(ref[i]));
                count[of[i]]--;
                ref[i] = ref[--n];
                of[i] = of[n];
            }
        }
        if (n_old) {
            impmem_block_ref dead = old[(r >> 4) % (n_old < OLD ? n_old : OLD)];
            FAILS(impmem_block_drop(pool, &dead), IMPMEM_ERR_STALE);
            assert_int_equal(impmem_block_id(pool, dead), IMPMEM_NO_BLOCK);
        }
        impmem_block_pool_stats s;
        impmem_block_pool_query(pool, &s);
        assert_int_equal(s.free_blocks + s.live_blocks, BLOCKS);
        assert_int_equal(s.references, n);
        if (step % 64 == 0) OK(impmem_block_pool_check(pool, NULL));
    }
    assert_true(n_old > OLD);
    OK(impmem_block_drop_many(pool, ref, n, NULL));
    OK(impmem_block_pool_close(&pool, NULL));
    world_close(&w);
}

static void drop_many_names_the_first_bad_one_and_drops_none(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_block_pool *pool = open_ids(&w, 4, 0, 4), *other = open_ids(&w, 4, 0, 4);
    impmem_block_ref good[3], shared, foreign, stale;
    OK(impmem_block_take_many(pool, IMPMEM_HOLDER_SEQUENCE, 1, 3, good));
    OK(impmem_block_share(pool, good[0], IMPMEM_HOLDER_CACHE, 2, &shared));
    OK(impmem_block_take(other, IMPMEM_HOLDER_SEQUENCE, 1, &foreign));
    OK(impmem_block_take(pool, IMPMEM_HOLDER_SEQUENCE, 1, &stale));
    impmem_block_ref copy = stale;
    OK(impmem_block_drop(pool, &copy));
    const impmem_block_ref none = IMPMEM_BLOCK_REF_NONE;
    const struct {
        impmem_block_ref refs[4];
        impmem_status expected;
        uint32_t first_bad;
    } cases[] = {
        {{good[0], none, shared, good[0]}, IMPMEM_ERR_STALE, 3},
        {{good[0], good[1], good[2], stale}, IMPMEM_ERR_STALE, 3},
        {{foreign, good[1], good[1], stale}, IMPMEM_ERR_FOREIGN, 0},
        {{none, shared, foreign, shared}, IMPMEM_ERR_FOREIGN, 2},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        impmem_block_ref list[4];
        uint32_t bad = 99;
        memcpy(list, cases[c].refs, sizeof list);
        FAILS(impmem_block_drop_many(pool, list, 4, &bad), cases[c].expected);
        assert_int_equal(bad, cases[c].first_bad);
        FAILS(impmem_block_drop_many(pool, list, 4, NULL), cases[c].expected);
        assert_memory_equal(list, cases[c].refs, sizeof list);
        assert_int_equal(impmem_block_count(pool, good[0]), 2);
        OK(impmem_block_pool_check(pool, NULL));
    }
    impmem_block_ref list[5];
    uint32_t bad = 99;
    list[0] = none;
    list[1] = good[0];
    list[2] = shared;
    list[3] = good[2];
    list[4] = good[1];
    OK(impmem_block_drop_many(pool, list, 5, &bad));
    for (unsigned i = 0; i < 5; i++) assert_true(impmem_block_ref_is_none(list[i]));
    OK(impmem_block_drop(other, &foreign));
    OK(impmem_block_pool_close(&other, NULL));
    OK(impmem_block_pool_close(&pool, NULL));
    world_close(&w);
}

/* Over a growable region: growth that fails adds what is wholly backed, and no more. */
static void growth_that_fails_leaves_whole_blocks_only(void **state)
{
    (void)state;
    world w;
    impmem_error why;
    impmem_block_pool *pool = NULL;
    impmem_block_pool_stats s;
    world_open(&w, GRANULE);
    impmem_region *region = world_growable_region(&w, 48 * GRANULE, LINE_C);
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.region = region;
    o.stride_bytes = 3 * GRANULE;
    o.blocks = 2;
    o.max_blocks = 16;
    OK(impmem_block_pool_open(w.ledger, &o, &pool, NULL));
    assert_int_equal(impmem_region_committed_bytes(region), 6 * GRANULE);
    OK(impmem_ledger_capture_begin(w.ledger));
    impmem_block_ref ref;
    OK(impmem_block_take(pool, IMPMEM_HOLDER_SEQUENCE, 0, &ref));
    OK(impmem_block_drop(pool, &ref));
    REFUSED(impmem_block_pool_grow(pool, 3, &why), IMPMEM_ERR_CAPTURING);
    OK(impmem_ledger_capture_end(w.ledger));
    impmem_block_pool_query(pool, &s);
    assert_int_equal(s.total_blocks, 2);
    assert_int_equal(s.growths, 0);
    /* 42 granules are missing; the fake achieves 21 before it fails: 27 granules hold 9 blocks of 3. */
    impmem_fake_fail_nth(w.growable_fake, 1, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, IMPMEM_FAIL_ONCE);
    REFUSED(impmem_block_pool_grow(pool, 16, &why), IMPMEM_ERR_OUT_OF_DEVICE_MEMORY);
    impmem_block_pool_query(pool, &s);
    assert_int_equal(s.total_blocks, 9);
    assert_int_equal(impmem_region_committed_bytes(region), 27 * GRANULE);
    /* Somebody else commits ahead: then growing makes no driver call, even while capturing. */
    OK(impmem_region_commit(region, 36 * GRANULE, NULL, NULL));
    const uint64_t calls = impmem_fake_calls(w.growable_fake);
    OK(impmem_ledger_capture_begin(w.ledger));
    OK(impmem_block_pool_grow(pool, 12, &why));
    OK(impmem_ledger_capture_end(w.ledger));
    assert_int_equal(impmem_fake_calls(w.growable_fake), calls);
    impmem_block_ref refs[12];
    OK(impmem_block_take_many(pool, IMPMEM_HOLDER_SEQUENCE, 5, 12, refs));
    for (unsigned i = 0; i < 12; i++) {
        impmem_block_span span;
        OK(impmem_block_address(pool, refs[i], &span));
        memset(impmem_stable_data(impmem_stable(span)), 3, 3 * GRANULE);
    }
    assert_int_equal(world_live(&w, LINE_C), 36 * GRANULE);
    OK(impmem_block_drop_many(pool, refs, 12, NULL));
    OK(impmem_block_pool_close(&pool, NULL));
    OK(impmem_backend_release(&region, NULL));
    world_close(&w);
}

static void an_open_that_fails_gives_back_what_it_had_committed(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_region *region = world_growable_region(&w, 16 * GRANULE, LINE_C);
    OK(impmem_region_commit(region, GRANULE, NULL, NULL));
    const world_figures before = world_look(&w);
    impmem_fake_fail_nth(w.growable_fake, 1, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, IMPMEM_FAIL_ONCE);
    FAILS(open_refused(&w, 16, 0, 0, region, GRANULE), IMPMEM_ERR_OUT_OF_DEVICE_MEMORY);
    assert_same_figures(before, world_look(&w));
    assert_int_equal(impmem_region_committed_prefix(region), GRANULE);
    OK(impmem_backend_release(&region, NULL)); /* open in no allocator */
    world_close(&w);
}

static void published_statistics_are_those_of_the_last_publishing(void **state)
{
    (void)state;
    world w;
    impmem_block_pool_stats now, read;
    impmem_block_ref ref;
    world_open(&w, GRANULE);
    impmem_block_pool *pool = open_ids(&w, 4, 0, 4);
    impmem_block_pool_query(pool, &now);
    impmem_block_pool_read_stats(pool, &read);
    assert_memory_equal(&now, &read, sizeof now);
    OK(impmem_block_take(pool, IMPMEM_HOLDER_CACHE, 0, &ref));
    impmem_block_pool_read_stats(pool, &read);
    assert_memory_equal(&now, &read, sizeof now);
    impmem_block_pool_publish_stats(pool);
    impmem_block_pool_query(pool, &now);
    impmem_block_pool_read_stats(pool, &read);
    assert_memory_equal(&now, &read, sizeof now);
    assert_int_equal(read.references_by[IMPMEM_HOLDER_CACHE], 1);
    assert_string_equal(impmem_holder_name(IMPMEM_HOLDER_CACHE), "cache");
    assert_string_equal(impmem_holder_name((impmem_holder)99), "?");
    OK(impmem_block_drop(pool, &ref));
    OK(impmem_block_pool_close(&pool, NULL));
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_refuses_what_is_missing),
        cmocka_unit_test(pools_as_large_as_numbers_go_are_refused_or_asked_for_exactly),
        cmocka_unit_test(a_reference_is_good_until_its_own_drop_and_never_after),
        cmocka_unit_test(drop_many_names_the_first_bad_one_and_drops_none),
        cmocka_unit_test(growth_that_fails_leaves_whole_blocks_only),
        cmocka_unit_test(an_open_that_fails_gives_back_what_it_had_committed),
        cmocka_unit_test(published_statistics_are_those_of_the_last_publishing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
