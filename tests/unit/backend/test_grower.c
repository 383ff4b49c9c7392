/* The grower over the fake backend. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <time.h>

#include "impmem/block_pool.h"
#include "impmem/bytes.h"
#include "impmem/fake.h"
#include "impmem/grower.h"

enum { GRANULE = 4096, LINE = IMPMEM_LINE_USER };

typedef struct world {
    impmem_ledger *ledger;
    impmem_backend *backend;
    impmem_fake *fake;
    impmem_region *region;
    impmem_queue *queue;
    impmem_grower *grower;
} world;

static void open_world(world *w, uint64_t budget, uint64_t queue_delay_ns)
{
    memset(w, 0, sizeof *w);
    static const impmem_line line = {.id = LINE,
                                     .tier = IMPMEM_TIER_POOL,
                                     .account = IMPMEM_ACCOUNT_DEVICE,
                                     .tag = IMPMEM_TAG_KV_BLOCKS,
                                     .bytes = 1024 * GRANULE,
                                     .name = "pool"};
    impmem_lines view = {&line, 1, {budget, UINT64_MAX, UINT64_MAX}};
    impmem_ledger_options lo = IMPMEM_LEDGER_OPTIONS_INIT;
    lo.serving = IMPMEM_SERVING_REFUSE;
    assert_int_equal(impmem_ledger_create(&view, &lo, &w->ledger), IMPMEM_OK);
    impmem_fake_options fo = IMPMEM_FAKE_OPTIONS_INIT;
    fo.growable = true;
    fo.granule_bytes = GRANULE;
    assert_int_equal(impmem_fake_backend_create(w->ledger, &fo, &w->backend, &w->fake, NULL), IMPMEM_OK);
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = 1024 * GRANULE;
    info.line = LINE;
    info.tag = IMPMEM_TAG_KV_BLOCKS;
    assert_int_equal(impmem_backend_reserve(w->backend, &info, &w->region, NULL), IMPMEM_OK);
    impmem_fake_queue_options qo = IMPMEM_FAKE_QUEUE_OPTIONS_INIT;
    qo.delay_ns = queue_delay_ns;
    assert_int_equal(impmem_fake_queue_create(w->ledger, &qo, &w->queue, NULL), IMPMEM_OK);
}

static void close_world(world *w)
{
    impmem_grower_close(&w->grower);
    assert_null(w->grower);
    impmem_queue_destroy(w->queue);
    assert_int_equal(impmem_backend_release(&w->region, NULL), IMPMEM_OK);
    assert_int_equal(impmem_backend_destroy(w->backend, NULL), IMPMEM_OK);
    assert_int_equal(impmem_ledger_destroy(w->ledger, NULL), IMPMEM_OK);
}

static void rest(void)
{
    const struct timespec t = {0, 200000};
    nanosleep(&t, NULL);
}

/* Ten seconds at most, where microseconds are enough. */
static bool reaches(const world *w, uint64_t bytes)
{
    for (int i = 0; i < 50000; i++) {
        if (impmem_grower_ready_bytes(w->grower) >= bytes) return true;
        rest();
    }
    return false;
}

static impmem_grower_options options_of(const world *w, uint64_t ahead)
{
    impmem_grower_options o = IMPMEM_GROWER_OPTIONS_INIT;
    o.region = w->region;
    o.ahead_bytes = ahead;
    o.retry_ns = 500000;
    return o;
}

static void it_keeps_the_mark_ahead_of_use(void **state)
{
    (void)state;
    world w;
    open_world(&w, UINT64_MAX, 0);
    impmem_grower_options o = options_of(&w, 4 * GRANULE);
    assert_int_equal(impmem_grower_open(w.ledger, &o, &w.grower, NULL), IMPMEM_OK);
    assert_int_equal(impmem_backend_release(&w.region, NULL), IMPMEM_ERR_BUSY); /* it would commit in what is gone */
    assert_true(reaches(&w, 4 * GRANULE));
    for (uint64_t used = 1; used <= 100; used++) {
        impmem_grower_use(w.grower, used * GRANULE);
        assert_true(reaches(&w, (used + 4) * GRANULE));
    }
    assert_int_equal(impmem_region_committed_bytes(w.region), 104 * GRANULE); /* and not a byte more */
    impmem_grower_use(w.grower, UINT64_MAX);
    assert_true(reaches(&w, 1024 * GRANULE));
    impmem_grower_stats s;
    impmem_grower_query(w.grower, &s);
    assert_int_equal(s.ready_bytes, 1024 * GRANULE);
    assert_true(s.used_bytes == UINT64_MAX);
    assert_int_equal(s.refused, 0);
    assert_true(s.commits >= 2);
    assert_int_equal(s.last, IMPMEM_OK);
    close_world(&w);
}

static void a_step_bounds_each_commit_and_the_limit_all_of_them(void **state)
{
    (void)state;
    world w;
    open_world(&w, UINT64_MAX, 0);
    impmem_grower_options o = options_of(&w, 100 * GRANULE);
    o.step_bytes = 3 * GRANULE - 1;
    o.limit_bytes = 31 * GRANULE;
    assert_int_equal(impmem_grower_open(w.ledger, &o, &w.grower, NULL), IMPMEM_OK);
    assert_true(reaches(&w, 31 * GRANULE));
    impmem_grower_stats s;
    for (int i = 0; i < 5000; i++) {
        impmem_grower_query(w.grower, &s);
        if (s.commits == 11) break;
        rest();
    }
    assert_int_equal(s.commits, 11); /* 10 of 3 granules and one of 1 */
    assert_int_equal(impmem_region_committed_bytes(w.region), 31 * GRANULE);
    close_world(&w);
}

/* Memory comes back from a decommit with old bytes in it; published memory is zero, whenever the zeroing runs. */
static void published_memory_is_zero(void **state)
{
    (void)state;
    world w;
    open_world(&w, UINT64_MAX, 1000000);
    assert_int_equal(impmem_region_commit(w.region, 64 * GRANULE, NULL, NULL), IMPMEM_OK);
    memset(impmem_region_base(w.region), 0x77, 64 * GRANULE);
    assert_int_equal(impmem_region_commit(w.region, 0, NULL, NULL), IMPMEM_OK);
    impmem_grower_options o = options_of(&w, 2 * GRANULE);
    o.zero = true;
    o.queue = w.queue;
    assert_int_equal(impmem_grower_open(w.ledger, &o, &w.grower, NULL), IMPMEM_OK);
    const unsigned char *base = impmem_region_base(w.region);
    uint64_t seen = 0;
    for (uint64_t used = 0; used <= 62; used++) {
        impmem_grower_use(w.grower, used * GRANULE);
        assert_true(reaches(&w, (used + 2) * GRANULE));
        uint64_t ready = impmem_grower_ready_bytes(w.grower);
        for (; seen < ready; seen++) assert_int_equal(base[seen], 0);
    }
    close_world(&w);
}

/* One block to begin with, and as many as the region may hold. */
static impmem_block_pool *open_pool(const world *w)
{
    impmem_block_pool *pool = NULL;
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.region = w->region;
    o.stride_bytes = GRANULE;
    o.blocks = 1;
    o.max_blocks = 1024;
    assert_int_equal(impmem_block_pool_open(w->ledger, &o, &pool, NULL), IMPMEM_OK);
    return pool;
}

static void a_pool_adopts_what_is_ready_without_a_commit_of_its_own(void **state)
{
    (void)state;
    world w;
    open_world(&w, UINT64_MAX, 0);
    impmem_block_pool *pool = open_pool(&w);
    impmem_grower_options o = options_of(&w, 8 * GRANULE);
    assert_int_equal(impmem_grower_open(w.ledger, &o, &w.grower, NULL), IMPMEM_OK);
    assert_int_equal(impmem_ledger_set_phase(w.ledger, IMPMEM_PHASE_SERVING, NULL), IMPMEM_OK);
    impmem_block_ref ref[64];
    for (uint32_t i = 0; i < 64; i++) {
        impmem_grower_use(w.grower, (uint64_t)i * GRANULE);
        assert_true(reaches(&w, (uint64_t)(i + 8) * GRANULE));
        uint64_t calls = impmem_fake_calls(w.fake);
        uint32_t ready = (uint32_t)(impmem_grower_ready_bytes(w.grower) / GRANULE);
        assert_int_equal(impmem_block_pool_grow(pool, ready, NULL), IMPMEM_OK);
        assert_int_equal(impmem_block_take(pool, IMPMEM_HOLDER_SEQUENCE, i, &ref[i]), IMPMEM_OK);
        assert_int_equal(impmem_fake_calls(w.fake), calls); /* the owner reached no backend */
    }
    assert_int_equal(impmem_ledger_serving_acquisitions(w.ledger), 0);
    assert_true(impmem_ledger_serving_commits(w.ledger) > 0);
    impmem_grower_close(&w.grower);
    assert_int_equal(impmem_block_drop_many(pool, ref, 64, NULL), IMPMEM_OK);
    assert_int_equal(impmem_block_pool_close(&pool, NULL), IMPMEM_OK);
    close_world(&w);
}

/* Memory that is committed and not yet zeroed must not be handed out: the zeroing would run over what is written there. */
static void a_pool_that_outruns_it_is_told_to_wait_and_commits_nothing(void **state)
{
    (void)state;
    world w;
    open_world(&w, UINT64_MAX, 2000000);
    impmem_block_pool *pool = open_pool(&w);
    impmem_grower_options o = options_of(&w, 4 * GRANULE);
    o.zero = true;
    o.queue = w.queue;
    assert_int_equal(impmem_grower_open(w.ledger, &o, &w.grower, NULL), IMPMEM_OK);
    impmem_grower *second = NULL;
    assert_int_equal(impmem_grower_open(w.ledger, &o, &second, NULL), IMPMEM_ERR_BUSY);
    assert_null(second);
    impmem_block_ref ref[200];
    uint32_t taken = 0, waits = 0;
    for (uint32_t want = 20; want <= 200; want += 20) {
        impmem_error why = IMPMEM_ERROR_INIT;
        impmem_status st;
        while ((st = impmem_block_pool_grow(pool, want, &why)) == IMPMEM_ERR_CAPACITY) {
            assert_int_equal(why.asked_bytes, want * GRANULE);
            waits++;
            rest();
        }
        assert_int_equal(st, IMPMEM_OK);
        for (; taken < want; taken++) {
            impmem_block_span span;
            assert_int_equal(impmem_block_take(pool, IMPMEM_HOLDER_SEQUENCE, taken, &ref[taken]), IMPMEM_OK);
            assert_int_equal(impmem_block_address(pool, ref[taken], &span), IMPMEM_OK);
            memset(impmem_stable_data(impmem_stable(span)), 0x77, GRANULE);
        }
    }
    assert_true(waits > 0);
    impmem_grower_close(&w.grower);
    impmem_queue_destroy(w.queue);
    w.queue = NULL;
    const unsigned char *base = impmem_region_base(w.region);
    for (size_t i = 0; i < (size_t)200 * GRANULE; i++) assert_int_equal(base[i], 0x77);
    assert_int_equal(impmem_block_pool_grow(pool, 300, NULL), IMPMEM_OK); /* the pool's own again */
    assert_int_equal(impmem_block_drop_many(pool, ref, 200, NULL), IMPMEM_OK);
    assert_int_equal(impmem_block_pool_close(&pool, NULL), IMPMEM_OK);
    close_world(&w);
}

static void a_refusal_is_counted_and_tried_again(void **state)
{
    (void)state;
    world w;
    open_world(&w, UINT64_MAX, 0);
    impmem_fake_fail_nth(w.fake, 1, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, IMPMEM_FAIL_ONCE);
    impmem_grower_options o = options_of(&w, 8 * GRANULE);
    assert_int_equal(impmem_grower_open(w.ledger, &o, &w.grower, NULL), IMPMEM_OK);
    assert_true(reaches(&w, 8 * GRANULE));
    impmem_grower_stats s;
    impmem_grower_query(w.grower, &s);
    assert_int_equal(s.refused, 1);
    close_world(&w);
}

static void the_budget_stops_it_to_the_byte(void **state)
{
    (void)state;
    world w;
    open_world(&w, 10 * GRANULE, 0);
    impmem_grower_options o = options_of(&w, 4 * GRANULE);
    o.step_bytes = GRANULE;
    assert_int_equal(impmem_grower_open(w.ledger, &o, &w.grower, NULL), IMPMEM_OK);
    impmem_grower_use(w.grower, 100 * GRANULE);
    assert_true(reaches(&w, 10 * GRANULE));
    impmem_grower_stats s;
    for (int i = 0; i < 5000; i++) {
        impmem_grower_query(w.grower, &s);
        if (s.refused >= 3) break;
        rest();
    }
    assert_true(s.refused >= 3);
    assert_int_equal(s.last, IMPMEM_ERR_BUDGET_EXCEEDED);
    assert_int_equal(s.ready_bytes, 10 * GRANULE);
    assert_int_equal(impmem_region_committed_bytes(w.region), 10 * GRANULE);
    close_world(&w);
}

static void while_a_graph_is_captured_growth_is_put_off(void **state)
{
    (void)state;
    world w;
    open_world(&w, UINT64_MAX, 0);
    assert_int_equal(impmem_ledger_capture_begin(w.ledger), IMPMEM_OK);
    impmem_grower_options o = options_of(&w, 2 * GRANULE);
    /* The grower's own object is host memory: it opens outside of the capture. */
    assert_int_equal(impmem_grower_open(w.ledger, &o, &w.grower, NULL), IMPMEM_ERR_CAPTURING);
    assert_int_equal(impmem_ledger_capture_end(w.ledger), IMPMEM_OK);
    assert_int_equal(impmem_grower_open(w.ledger, &o, &w.grower, NULL), IMPMEM_OK);
    assert_true(reaches(&w, 2 * GRANULE));
    assert_int_equal(impmem_ledger_capture_begin(w.ledger), IMPMEM_OK);
    impmem_grower_use(w.grower, 5 * GRANULE);
    impmem_grower_stats s;
    for (int i = 0; i < 5000; i++) {
        impmem_grower_query(w.grower, &s);
        if (s.deferred) break;
        rest();
    }
    assert_true(s.deferred > 0);
    assert_int_equal(s.refused, 0);
    assert_int_equal(s.ready_bytes, 2 * GRANULE);
    assert_int_equal(impmem_ledger_capture_end(w.ledger), IMPMEM_OK);
    assert_true(reaches(&w, 7 * GRANULE));
    close_world(&w);
}

static void zeroing_that_fails_publishes_nothing(void **state)
{
    (void)state;
    world w;
    open_world(&w, UINT64_MAX, 100000);
    impmem_fake_queue_fail_nth(w.queue, 1, IMPMEM_ERR_DRIVER);
    impmem_grower_options o = options_of(&w, 2 * GRANULE);
    o.zero = true;
    o.queue = w.queue;
    o.retry_ns = 100000000;
    assert_int_equal(impmem_grower_open(w.ledger, &o, &w.grower, NULL), IMPMEM_OK);
    impmem_grower_stats s;
    for (int i = 0; i < 50000; i++) {
        impmem_grower_query(w.grower, &s);
        if (s.refused || s.ready_bytes) break;
        rest();
    }
    assert_int_equal(s.refused, 1);
    assert_int_equal(s.last, IMPMEM_ERR_DRIVER);
    assert_int_equal(s.ready_bytes, 0);
    assert_int_equal(impmem_region_committed_bytes(w.region), 2 * GRANULE);
    assert_true(reaches(&w, 2 * GRANULE)); /* the next try zeroes it */
    close_world(&w);
}

static void senseless_growers_are_refused(void **state)
{
    (void)state;
    world w, other;
    open_world(&w, UINT64_MAX, 0);
    open_world(&other, UINT64_MAX, 0);
    const impmem_grower_options good = options_of(&w, GRANULE);
    impmem_grower_options o = good;
    assert_int_equal(impmem_grower_open(NULL, &o, &w.grower, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_grower_open(w.ledger, NULL, &w.grower, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_grower_open(w.ledger, &o, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_grower_open(other.ledger, &o, &w.grower, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    o.version = 2;
    assert_int_equal(impmem_grower_open(w.ledger, &o, &w.grower, NULL), IMPMEM_ERR_VERSION);
    o = good;
    o.region = NULL;
    assert_int_equal(impmem_grower_open(w.ledger, &o, &w.grower, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    o = good;
    o.ahead_bytes = 0;
    assert_int_equal(impmem_grower_open(w.ledger, &o, &w.grower, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    o = good;
    o.zero = true;
    assert_int_equal(impmem_grower_open(w.ledger, &o, &w.grower, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    o = good;
    o.limit_bytes = 1025 * GRANULE;
    assert_int_equal(impmem_grower_open(w.ledger, &o, &w.grower, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    o = good;
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = 1;
    assert_int_equal(impmem_backend_acquire(w.backend, &info, &o.region, NULL), IMPMEM_OK);
    assert_int_equal(impmem_grower_open(w.ledger, &o, &w.grower, NULL), IMPMEM_ERR_NOT_GROWABLE);
    assert_int_equal(impmem_backend_release(&o.region, NULL), IMPMEM_OK);
    assert_null(w.grower);
    impmem_grower_use(NULL, 1);
    impmem_grower_stats s;
    impmem_grower_query(NULL, &s);
    assert_int_equal(s.commits, 0);
    impmem_grower_query(NULL, NULL);
    assert_int_equal(impmem_grower_ready_bytes(NULL), 0);
    impmem_grower_close(NULL);
    close_world(&other);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_keeps_the_mark_ahead_of_use),
        cmocka_unit_test(a_step_bounds_each_commit_and_the_limit_all_of_them),
        cmocka_unit_test(published_memory_is_zero),
        cmocka_unit_test(a_pool_adopts_what_is_ready_without_a_commit_of_its_own),
        cmocka_unit_test(a_pool_that_outruns_it_is_told_to_wait_and_commits_nothing),
        cmocka_unit_test(a_refusal_is_counted_and_tried_again),
        cmocka_unit_test(the_budget_stops_it_to_the_byte),
        cmocka_unit_test(while_a_graph_is_captured_growth_is_put_off),
        cmocka_unit_test(zeroing_that_fails_publishes_nothing),
        cmocka_unit_test(senseless_growers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
