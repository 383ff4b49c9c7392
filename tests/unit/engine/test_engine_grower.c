/* An engine whose KV grows ahead on a thread: the owner admits, adopts and never commits. */
#define _GNU_SOURCE
#include "support/engine_house.h"

#include <time.h>

#include "impmem/grower.h"

typedef struct growing {
    planned f;
    house h;
    impmem_engine *engine;
    impmem_queue *queue;
    impmem_grower *grower;
    uint64_t stride;
} growing;

static void rest(void)
{
    const struct timespec t = {0, 200000};
    nanosleep(&t, NULL);
}

/* A pool that starts at a sixteenth of its line, over memory that can be zeroed. */
static void open_growing(growing *g)
{
    memset(g, 0, sizeof *g);
    planned_input(&g->f, 4);
    g->f.input.kv_initial_percent = 6;
    g->f.input.granule_bytes = 4096;
    g->f.input.commit_chunk_bytes = 4096;
    planned_again(&g->f);
    house_build(&g->h, &g->f.plan);
    OK(impmem_backend_destroy(g->h.grow, NULL));
    impmem_fake_options o = IMPMEM_FAKE_OPTIONS_INIT;
    o.granule_bytes = 4096;
    o.growable = true;
    OK(impmem_fake_backend_create(g->h.ledger, &o, &g->h.grow, &g->h.fake_grow, NULL));
    g->h.backends.grow = g->h.grow;
    OK(impmem_engine_open(g->h.ledger, &g->f.plan, &g->h.backends, &g->engine, NULL));
    g->stride = g->f.plan.kv_group[0].stride_bytes;
}

static void open_grower(growing *g, uint64_t ahead_blocks)
{
    impmem_fake_queue_options q = IMPMEM_FAKE_QUEUE_OPTIONS_INIT;
    q.delay_ns = 100000;
    OK(impmem_fake_queue_create(g->h.ledger, &q, &g->queue, NULL));
    impmem_grower_options o = IMPMEM_GROWER_OPTIONS_INIT;
    o.region = impmem_engine_kv_region(g->engine, 0);
    o.queue = g->queue;
    o.zero = true;
    o.ahead_bytes = ahead_blocks * g->stride;
    o.step_bytes = 8 * g->stride;
    o.retry_ns = 500000;
    OK(impmem_grower_open(g->h.ledger, &o, &g->grower, NULL));
}

static void close_growing(growing *g)
{
    impmem_grower_close(&g->grower);
    impmem_queue_destroy(g->queue);
    house_close(&g->h, &g->engine);
}

static impmem_block_pool_stats look(const growing *g)
{
    impmem_block_pool_stats stats;
    impmem_block_pool_query(impmem_engine_kv_pool(g->engine, 0), &stats);
    return stats;
}

static impmem_status admit(growing *g, uint32_t first, uint32_t n_tokens, impmem_sequence *out)
{
    static uint32_t tokens[1000];
    tokens[0] = first;
    impmem_kv_request r = IMPMEM_KV_REQUEST_INIT;
    r.tokens = tokens;
    r.n_tokens = n_tokens;
    return impmem_engine_admit(g->engine, &r, out, NULL, NULL);
}

static void say_what_is_used(growing *g)
{
    impmem_block_pool_stats s = look(g);
    impmem_grower_use(g->grower, (s.total_blocks - s.free_blocks) * g->stride);
}

static void admissions_adopt_what_the_grower_published_and_commit_nothing(void **state)
{
    (void)state;
    growing g;
    open_growing(&g);
    const uint64_t at_open = impmem_fake_calls(g.h.fake_grow);
    const uint64_t blocks_at_open = look(&g).total_blocks;
    const uint64_t need = (1000 + g.f.plan.block_tokens - 1) / g.f.plan.block_tokens; /* of one whole context */
    assert_true(blocks_at_open < need);
    open_grower(&g, need / 4);
    OK(impmem_engine_begin_serving(g.engine, NULL));
    impmem_sequence seq[3];
    uint32_t waits = 0;
    for (uint32_t i = 0; i < 3; i++) {
        impmem_status st;
        while ((st = admit(&g, i, 1000, &seq[i])) == IMPMEM_ERR_CAPACITY && waits < 50000) {
            waits++;
            say_what_is_used(&g);
            rest();
        }
        OK(st);
        assert_true(look(&g).total_blocks >= need * (i + 1));
        assert_true(look(&g).total_blocks * g.stride <= impmem_grower_ready_bytes(g.grower));
    }
    assert_true(waits > 0); /* the first found a sixteenth of the pool */
    impmem_grower_stats s;
    uint64_t whole = impmem_region_reserved_bytes(impmem_engine_kv_region(g.engine, 0));
    impmem_grower_use(g.grower, whole);
    for (int i = 0; i < 50000 && impmem_grower_ready_bytes(g.grower) < whole; i++) rest();
    assert_int_equal(impmem_grower_ready_bytes(g.grower), whole);
    /* Every call that reached the growing backend was the grower's, which counts a commit after it published it. */
    uint64_t calls = impmem_fake_calls(g.h.fake_grow) - at_open;
    impmem_grower_query(g.grower, &s);
    for (int i = 0; i < 50000 && s.commits < calls; i++, impmem_grower_query(g.grower, &s)) rest();
    assert_int_equal(s.commits, calls);
    assert_int_equal(s.refused + s.deferred, 0);
    assert_int_equal(impmem_ledger_serving_acquisitions(g.h.ledger), 0);
    for (uint32_t i = 0; i < 3; i++) OK(impmem_engine_release(g.engine, &seq[i]));
    close_growing(&g);
}

static void an_engine_with_an_open_grower_does_not_close(void **state)
{
    (void)state;
    growing g;
    open_growing(&g);
    open_grower(&g, 1);
    impmem_engine *same = g.engine;
    FAILS(impmem_engine_close(&g.engine, NULL), IMPMEM_ERR_BUSY);
    assert_ptr_equal(g.engine, same);
    impmem_sequence seq;
    OK(admit(&g, 7, 1, &seq)); /* nothing was closed */
    OK(impmem_engine_release(g.engine, &seq));
    close_growing(&g);
}

static void only_a_group_that_grows_has_a_region_for_a_grower(void **state)
{
    (void)state;
    growing g;
    open_growing(&g);
    impmem_region *region = impmem_engine_kv_region(g.engine, 0);
    assert_non_null(region);
    assert_int_equal(impmem_region_reserved_bytes(region), g.f.plan.region[g.f.plan.kv_group[0].region].bytes);
    assert_null(impmem_engine_kv_region(g.engine, g.f.plan.n_kv_groups));
    assert_null(impmem_engine_kv_region(NULL, 0));
    close_growing(&g);

    planned f;
    house h;
    planned_make(&f, 5); /* with a transient line: KV waits for the end of loading */
    house_build(&h, &f.plan);
    h.backends.grow = NULL;
    impmem_engine *engine = NULL;
    OK(impmem_engine_open(h.ledger, &f.plan, &h.backends, &engine, NULL));
    assert_null(impmem_engine_kv_region(engine, 0));
    OK(impmem_engine_end_loading(engine, NULL));
    assert_non_null(impmem_engine_kv_pool(engine, 0));
    assert_null(impmem_engine_kv_region(engine, 0)); /* of fixed size */
    house_close(&h, &engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(admissions_adopt_what_the_grower_published_and_commit_nothing),
        cmocka_unit_test(an_engine_with_an_open_grower_does_not_close),
        cmocka_unit_test(only_a_group_that_grows_has_a_region_for_a_grower),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
