/* Block pools over regions: opening, growing, closing, addresses, the walk over the tables, published statistics. */
#include "support/world.h"

#include <pthread.h>
#include <stdatomic.h>

#include "alloc/block_pool_internal.h"
#include "impmem/block_pool.h"
#include "impmem/control.h"

#define GRANULE 4096u

static impmem_block_pool_stats stats_of(const impmem_block_pool *pool)
{
    impmem_block_pool_stats stats;
    impmem_block_pool_query(pool, &stats);
    return stats;
}

static void block_i_lies_at_base_plus_i_strides(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_region *region = world_region(&w, 10 * 3072, LINE_C);
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.region = region;
    o.stride_bytes = 3072;
    o.blocks = 10;
    impmem_block_pool *pool;
    OK(impmem_block_pool_open(w.ledger, &o, &pool, NULL));
    impmem_block_ref refs[10];
    OK(impmem_block_take_many(pool, IMPMEM_HOLDER_SEQUENCE, 1, 10, refs));
    assert_int_equal(world_live(&w, LINE_C), 10 * 3072);
    for (uint32_t i = 0; i < 10; i++) {
        impmem_block_span span;
        OK(impmem_block_address(pool, refs[i], &span));
        assert_ptr_equal(impmem_stable_data(impmem_stable(span)), (char *)impmem_region_base(region) + i * 3072);
        assert_int_equal(impmem_stable_bytes(impmem_stable(span)), 3072);
        memset(impmem_stable_data(impmem_stable(span)), (int)i, 3072);
        OK(impmem_span_check(w.ledger, impmem_stable(span)));
    }
    impmem_block_span span;
    OK(impmem_block_address(pool, refs[4], &span));
    OK(impmem_block_drop(pool, &refs[4]));
    assert_int_equal(impmem_span_check(w.ledger, impmem_stable(span)), IMPMEM_ERR_STALE);
    assert_int_equal(world_live(&w, LINE_C), 9 * 3072);
    OK(impmem_block_take(pool, IMPMEM_HOLDER_PIN, 1, &refs[4]));
    assert_int_equal(impmem_span_check(w.ledger, impmem_stable(span)), IMPMEM_ERR_STALE);
    OK(impmem_block_drop_many(pool, refs, 10, NULL));
    assert_int_equal(world_live(&w, LINE_C), 0);
    assert_int_equal(world_peak(&w, LINE_C), 10 * 3072);
    assert_int_equal(stats_of(pool).stride_bytes, 3072);
    OK(impmem_block_pool_close(&pool, NULL));
    OK(impmem_backend_release(&region, NULL));
    world_close(&w);
}

static void wrong_options_are_refused(void **state)
{
    (void)state;
    world w, other;
    world_open(&w, GRANULE);
    world_open(&other, GRANULE);
    impmem_region *region = world_region(&w, 4 * GRANULE, LINE_C);
    world_figures before = world_look(&w);
    impmem_block_pool *pool = NULL;
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_block_pool_options good = IMPMEM_BLOCK_POOL_OPTIONS_INIT, o;
    good.region = region;
    good.stride_bytes = GRANULE;
    good.blocks = 4;
#define CHANGE_REFUSED(change, expected)                                                                                   \
    do {                                                                                                                   \
        o = good;                                                                                                          \
        change;                                                                                                            \
        assert_int_equal(impmem_block_pool_open(w.ledger, &o, &pool, &why), expected);                                     \
        assert_int_equal(why.status, expected);                                                                            \
    } while (0)
    CHANGE_REFUSED(o.version = 2, IMPMEM_ERR_VERSION);
    CHANGE_REFUSED(o.size = 8, IMPMEM_ERR_INVALID_ARGUMENT);
    CHANGE_REFUSED(o.blocks = 0, IMPMEM_ERR_INVALID_ARGUMENT);
    CHANGE_REFUSED(o.blocks = 5, IMPMEM_ERR_INVALID_ARGUMENT);
    CHANGE_REFUSED(o.max_blocks = 5, IMPMEM_ERR_INVALID_ARGUMENT);
    CHANGE_REFUSED(o.max_blocks = 3, IMPMEM_ERR_INVALID_ARGUMENT);
    CHANGE_REFUSED(o.stride_bytes = 0, IMPMEM_ERR_INVALID_ARGUMENT);
    CHANGE_REFUSED(o.stride_bytes = UINT64_MAX / 2, IMPMEM_ERR_INVALID_ARGUMENT);
    CHANGE_REFUSED(o.region = NULL, IMPMEM_ERR_INVALID_ARGUMENT); /* a stride without a region */
    CHANGE_REFUSED(o.extra_refs = UINT32_MAX - 4, IMPMEM_ERR_INVALID_ARGUMENT);
    CHANGE_REFUSED((o.region = NULL, o.stride_bytes = 0, o.blocks = UINT32_MAX, o.unshared = true),
                   IMPMEM_ERR_INVALID_ARGUMENT);
#undef REFUSED
    assert_int_equal(impmem_block_pool_open(NULL, &good, &pool, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_pool_open(w.ledger, NULL, &pool, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_pool_open(w.ledger, &good, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_pool_open(other.ledger, &good, &pool, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_null(pool);
    assert_same_figures(before, world_look(&w));

    o = good; /* zeroed size and version mean version 1 */
    o.size = 0;
    o.version = 0;
    OK(impmem_block_pool_open(w.ledger, &o, &pool, &why));
    impmem_block_pool *second = NULL;
    assert_int_equal(impmem_block_pool_open(w.ledger, &good, &second, &why), IMPMEM_ERR_BUSY);
    assert_null(second);
    assert_int_equal(impmem_backend_release(&region, NULL), IMPMEM_ERR_BUSY);
    OK(impmem_block_pool_close(&pool, NULL));
    OK(impmem_backend_release(&region, NULL));
    world_close(&other);
    world_close(&w);
}

static void open_takes_exactly_what_the_planner_counted(void **state)
{
    (void)state;
    static const struct {
        uint32_t blocks, max, extra;
        bool unshared;
        uint32_t slots_extra;
    } cases[] = {
        {1, 0, 0, false, 1},        {7, 0, 3, false, 3},  {100, 1000, 0, false, 1000},
        {100, 1000, 77, false, 77}, {9, 12, 50, true, 0},
    };
    world w;
    world_open(&w, GRANULE);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
        o.blocks = cases[i].blocks;
        o.max_blocks = cases[i].max;
        o.extra_refs = cases[i].extra;
        o.unshared = cases[i].unshared;
        world_figures before = world_look(&w);
        impmem_block_pool *pool;
        OK(impmem_block_pool_open(w.ledger, &o, &pool, NULL));
        uint64_t planned = 0;
        OK(impmem_control_block_pool_bytes(cases[i].max ? cases[i].max : cases[i].blocks, cases[i].slots_extra, &planned));
        assert_int_equal(world_look(&w).pageable - before.pageable, planned);
        OK(impmem_block_pool_close(&pool, NULL));
        assert_same_figures(before, world_look(&w));
    }
    world_close(&w);
}

static void a_failing_open_leaves_nothing_whichever_step_fails(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_region *region = world_growable_region(&w, 16 * GRANULE, LINE_C);
    OK(impmem_region_commit(region, GRANULE, NULL, NULL));
    world_figures before = world_look(&w);
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.region = region;
    o.stride_bytes = GRANULE;
    o.blocks = 9;
    o.max_blocks = 16;
    impmem_block_pool *pool = NULL;
    impmem_error why = IMPMEM_ERROR_INIT;

    w.fail_in = 1; /* the tables */
    assert_int_equal(impmem_block_pool_open(w.ledger, &o, &pool, &why), IMPMEM_ERR_OUT_OF_HOST_MEMORY);
    assert_same_figures(before, world_look(&w));

    /* The memory: 8 granules are asked, 4 are achieved before the failure. */
    impmem_fake_fail_nth(w.growable_fake, 1, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, IMPMEM_FAIL_ONCE);
    assert_int_equal(impmem_block_pool_open(w.ledger, &o, &pool, &why), IMPMEM_ERR_OUT_OF_DEVICE_MEMORY);
    assert_same_figures(before, world_look(&w));
    assert_int_equal(impmem_region_committed_bytes(region), GRANULE);

    OK(impmem_ledger_capture_begin(w.ledger));
    assert_int_equal(impmem_block_pool_open(w.ledger, &o, &pool, &why), IMPMEM_ERR_CAPTURING);
    OK(impmem_ledger_capture_end(w.ledger));
    assert_same_figures(before, world_look(&w));
    assert_null(pool);

    OK(impmem_block_pool_open(w.ledger, &o, &pool, &why)); /* the region is not open: every failure closed it again */
    assert_int_equal(impmem_region_committed_bytes(region), 9 * GRANULE);
    OK(impmem_block_pool_close(&pool, NULL));
    OK(impmem_backend_release(&region, NULL));
    world_close(&w);
}

static void a_grown_pool_has_the_blocks_that_are_backed(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_region *region = world_growable_region(&w, 16 * GRANULE, LINE_C);
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.region = region;
    o.stride_bytes = GRANULE / 2;
    o.blocks = 2;
    o.max_blocks = 32;
    impmem_block_pool *pool;
    OK(impmem_block_pool_open(w.ledger, &o, &pool, NULL));
    assert_int_equal(impmem_region_committed_bytes(region), GRANULE);
    impmem_block_ref refs[32];
    OK(impmem_block_take_many(pool, IMPMEM_HOLDER_SEQUENCE, 1, 2, refs));
    assert_int_equal(impmem_block_take(pool, IMPMEM_HOLDER_SEQUENCE, 1, &refs[2]), IMPMEM_ERR_EXHAUSTED);

    OK(impmem_block_pool_grow(pool, 7, NULL)); /* 3.5 granules */
    assert_int_equal(impmem_region_committed_bytes(region), 4 * GRANULE);
    assert_int_equal(stats_of(pool).total_blocks, 7);
    assert_int_equal(stats_of(pool).growths, 1);
    OK(impmem_block_pool_grow(pool, 7, NULL)); /* nothing to do */
    OK(impmem_block_pool_grow(pool, 8, NULL)); /* backed already */
    assert_int_equal(impmem_region_committed_bytes(region), 4 * GRANULE);
    assert_int_equal(stats_of(pool).growths, 2);
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(impmem_block_pool_grow(pool, 7, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_pool_grow(pool, 33, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_pool_grow(NULL, 8, &why), IMPMEM_ERR_INVALID_ARGUMENT);

    /* 12 granules to go, 6 are achieved: 10 granules hold 20 blocks. */
    impmem_fake_fail_nth(w.growable_fake, 1, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, IMPMEM_FAIL_ONCE);
    assert_int_equal(impmem_block_pool_grow(pool, 32, &why), IMPMEM_ERR_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(stats_of(pool).total_blocks, 20);
    /* The whole of nothing is achieved: nothing is added. */
    OK(impmem_ledger_capture_begin(w.ledger));
    assert_int_equal(impmem_block_pool_grow(pool, 32, &why), IMPMEM_ERR_CAPTURING);
    OK(impmem_ledger_capture_end(w.ledger));
    assert_int_equal(stats_of(pool).total_blocks, 20);
    OK(impmem_block_pool_check(pool, NULL));
    OK(impmem_block_take_many(pool, IMPMEM_HOLDER_SEQUENCE, 1, 18, &refs[2]));
    for (uint32_t i = 0; i < 20; i++) {
        impmem_block_span span;
        assert_int_equal(impmem_block_id(pool, refs[i]), i);
        OK(impmem_block_address(pool, refs[i], &span));
        memset(impmem_stable_data(impmem_stable(span)), 0x33, GRANULE / 2); /* all of it is really there */
    }
    OK(impmem_block_pool_grow(pool, 32, &why));
    assert_int_equal(stats_of(pool).total_blocks, 32);
    OK(impmem_block_drop_many(pool, refs, 20, NULL));
    OK(impmem_block_pool_close(&pool, NULL));
    OK(impmem_backend_release(&region, NULL));
    world_close(&w);
}

static void an_ids_only_pool_grows_without_memory(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.blocks = 1;
    o.max_blocks = 3;
    impmem_block_pool *pool;
    OK(impmem_block_pool_open(w.ledger, &o, &pool, NULL));
    OK(impmem_block_pool_grow(pool, 3, NULL));
    impmem_block_ref refs[3];
    OK(impmem_block_take_many(pool, IMPMEM_HOLDER_OTHER, 1, 3, refs));
    OK(impmem_block_drop_many(pool, refs, 3, NULL));
    OK(impmem_block_pool_close(&pool, NULL));
    world_close(&w);
}

static void close_names_what_is_still_held(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.blocks = 20;
    impmem_block_pool *pool;
    OK(impmem_block_pool_open(w.ledger, &o, &pool, NULL));
    impmem_block_ref refs[20], cached;
    OK(impmem_block_take_many(pool, IMPMEM_HOLDER_SEQUENCE, 1, 20, refs));
    OK(impmem_block_share(pool, refs[17], IMPMEM_HOLDER_CACHE, 4711, &cached));
    OK(impmem_block_drop_many(pool, refs, 18, NULL));
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(impmem_block_pool_close(&pool, &why), IMPMEM_ERR_LIVE_HOLDERS);
    assert_non_null(pool);
    assert_int_equal(why.status, IMPMEM_ERR_LIVE_HOLDERS);
    assert_non_null(strstr(why.message, "3 references to 3 blocks"));
    assert_non_null(strstr(why.message, "block 17"));
    assert_non_null(strstr(why.message, "cache"));
    assert_non_null(strstr(why.message, "4711"));
    assert_int_equal(impmem_block_id(pool, cached), 17);
    OK(impmem_block_drop(pool, &cached));
    OK(impmem_block_drop_many(pool, &refs[18], 2, NULL));

    OK(impmem_block_pool_reserve(pool, 2)); /* a claim that was never undone */
    assert_int_equal(impmem_block_pool_close(&pool, &why), IMPMEM_ERR_LIVE_HOLDERS);
    assert_non_null(strstr(why.message, "2 blocks are still reserved"));
    OK(impmem_block_pool_unreserve(pool, 2));
    OK(impmem_block_pool_close(&pool, &why));
    OK(impmem_block_pool_close(&pool, &why));
    OK(impmem_block_pool_close(NULL, &why));
    world_close(&w);
}

/* The walk must see each kind of damage: plant one, look, take it back. */
static void the_walk_finds_planted_damage(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.blocks = 8;
    impmem_block_pool *pool;
    OK(impmem_block_pool_open(w.ledger, &o, &pool, NULL));
    impmem_block_ref refs[6], shared, gone;
    OK(impmem_block_take_many(pool, IMPMEM_HOLDER_SEQUENCE, 1, 6, refs));
    OK(impmem_block_share(pool, refs[0], IMPMEM_HOLDER_CACHE, 1, &shared));
    OK(impmem_block_share(pool, refs[0], IMPMEM_HOLDER_CACHE, 1, &gone));
    OK(impmem_block_drop(pool, &gone));
    OK(impmem_block_drop_many(pool, &refs[4], 2, NULL)); /* blocks 4 and 5 are in the free stack */
    OK(impmem_block_pool_check(pool, NULL));
#define FOUND(place, value)                                                                                                \
    do {                                                                                                                   \
        __typeof__(place) kept = (place);                                                                                  \
        (place) = (value);                                                                                                 \
        impmem_error why = IMPMEM_ERROR_INIT;                                                                              \
        assert_int_equal(impmem_block_pool_check(pool, &why), IMPMEM_ERR_STATE);                                           \
        assert_true(strlen(why.message) > 0);                                                                              \
        (place) = kept;                                                                                                    \
        OK(impmem_block_pool_check(pool, NULL));                                                                           \
    } while (0)
    FOUND(pool->live, pool->live + 1);
    FOUND(pool->live, pool->live - 1);
    FOUND(pool->live, 9);
    FOUND(pool->total, 9);
    FOUND(pool->fresh_block, 9);
    FOUND(pool->fresh_block, 5);
    FOUND(pool->reserved, 5);
    FOUND(pool->references_by[IMPMEM_HOLDER_CACHE], 2);
    FOUND(pool->free_head, IMPMEM__NO_SLOT);
    FOUND(pool->free_head, refs[1].slot_);
    FOUND(pool->free_head, pool->n_slots);
    FOUND(pool->extra_head, IMPMEM__NO_SLOT);
    FOUND(pool->slot[pool->free_head].next, pool->free_head); /* a repeat in the free stack */
    FOUND(pool->slot[refs[1].slot_].marked, 1);
    FOUND(pool->slot[refs[1].slot_].generation, 0);
    FOUND(pool->slot[refs[1].slot_].generation, UINT64_MAX);
    FOUND(pool->slot[refs[1].slot_].generation, 1);
    FOUND(pool->slot[refs[1].slot_].block, 2);
    FOUND(pool->slot[refs[1].slot_].block, 7);
    FOUND(pool->slot[refs[1].slot_].holder, IMPMEM_N_HOLDERS);
    FOUND(pool->slot[refs[1].slot_].holder, IMPMEM_HOLDER_PIN);
    FOUND(pool->slot[refs[1].slot_].next, refs[2].slot_);
    FOUND(pool->slot[refs[1].slot_].next, pool->n_slots);
    FOUND(pool->slot[refs[0].slot_].prev, refs[0].slot_);
    FOUND(pool->slot[refs[0].slot_].next, refs[0].slot_);
    FOUND(pool->entry[0].shares, 0);
    FOUND(pool->entry[0].shares, 2);
    FOUND(pool->entry[4].shares, 1);
    FOUND(pool->entry[1].slot_less_block, 1);
    FOUND(pool->entry[1].slot_less_block, UINT32_MAX / 2);
#undef FOUND
    assert_int_equal(impmem_block_pool_check(NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_block_drop(pool, &shared));
    OK(impmem_block_drop_many(pool, refs, 4, NULL));
    OK(impmem_block_pool_close(&pool, NULL));
    world_close(&w);
}

/* ---- statistics from another thread
 * ----------------------------------------------------------------------------------- */

typedef struct reader {
    const impmem_block_pool *pool;
    _Atomic bool stop;
    uint64_t reads;
    bool sane;
} reader;

static void *read_on(void *context)
{
    reader *r = context;
    uint64_t takes = 0;
    r->sane = true;
    while (!atomic_load(&r->stop)) {
        impmem_block_pool_stats stats;
        impmem_block_pool_read_stats(r->pool, &stats);
        /* Each number is one that was published; a count since open never goes back. */
        if (stats.total_blocks != 64 || stats.live_blocks > 64 || stats.takes < takes) r->sane = false;
        takes = stats.takes;
        r->reads++;
    }
    return NULL;
}

static void statistics_are_read_from_any_thread(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.blocks = 64;
    impmem_block_pool *pool;
    OK(impmem_block_pool_open(w.ledger, &o, &pool, NULL));
    impmem_block_pool_stats stats;
    impmem_block_pool_read_stats(pool, &stats); /* published by open */
    assert_int_equal(stats.total_blocks, 64);
    assert_int_equal(stats.free_blocks, 64);
    reader r = {.pool = pool};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, read_on, &r), 0);
    impmem_block_ref refs[64];
    for (unsigned step = 0; step < 3000; step++) {
        uint32_t n = 1 + step % 64;
        OK(impmem_block_take_many(pool, IMPMEM_HOLDER_SEQUENCE, step, n, refs));
        impmem_block_pool_publish_stats(pool);
        OK(impmem_block_drop_many(pool, refs, n, NULL));
        impmem_block_pool_publish_stats(pool);
    }
    OK(impmem_block_take(pool, IMPMEM_HOLDER_PIN, 1, refs));
    impmem_block_pool_read_stats(pool, &stats);
    assert_int_equal(stats.live_blocks, 0); /* not published yet */
    impmem_block_pool_publish_stats(pool);
    impmem_block_pool_read_stats(pool, &stats);
    assert_int_equal(stats.live_blocks, 1);
    assert_int_equal(stats.references_by[IMPMEM_HOLDER_PIN], 1);
    impmem_block_pool_stats exact = stats_of(pool);
    assert_memory_equal(&stats, &exact, sizeof stats);
    atomic_store(&r.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(r.sane);
    impmem_block_pool_publish_stats(NULL);
    impmem_block_pool_read_stats(NULL, &stats);
    assert_int_equal(stats.total_blocks, 0);
    impmem_block_pool_query(NULL, &stats);
    assert_int_equal(stats.total_blocks, 0);
    OK(impmem_block_drop(pool, refs));
    OK(impmem_block_pool_close(&pool, NULL));
    world_close(&w);
}

static void serving_takes_and_drops_acquire_nothing(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.blocks = 4;
    impmem_block_pool *pool;
    OK(impmem_block_pool_open(w.ledger, &o, &pool, NULL));
    OK(impmem_ledger_set_phase(w.ledger, IMPMEM_PHASE_SERVING, NULL));
    w.fail_in = 1; /* any host allocation from here on fails */
    impmem_block_ref ref, shared;
    OK(impmem_block_take(pool, IMPMEM_HOLDER_SEQUENCE, 1, &ref));
    OK(impmem_block_share(pool, ref, IMPMEM_HOLDER_CACHE, 1, &shared));
    OK(impmem_block_drop(pool, &ref));
    OK(impmem_block_drop(pool, &shared));
    assert_int_equal(w.fail_in, 1);
    w.fail_in = 0;
    assert_int_equal(impmem_ledger_serving_acquisitions(w.ledger), 0);
    OK(impmem_block_pool_close(&pool, NULL));
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_i_lies_at_base_plus_i_strides),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(open_takes_exactly_what_the_planner_counted),
        cmocka_unit_test(a_failing_open_leaves_nothing_whichever_step_fails),
        cmocka_unit_test(a_grown_pool_has_the_blocks_that_are_backed),
        cmocka_unit_test(an_ids_only_pool_grows_without_memory),
        cmocka_unit_test(close_names_what_is_still_held),
        cmocka_unit_test(the_walk_finds_planted_damage),
        cmocka_unit_test(statistics_are_read_from_any_thread),
        cmocka_unit_test(serving_takes_and_drops_acquire_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
