/* Opening a plan on the fake backend: the journal equals the plan's lines, and every failure leaves nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "impmem/impmem.h"

enum { LINE_CACHE = IMPMEM_LINE_USER, LINE_SCRATCH, LINE_GEMM, LINE_UPLOAD, LINE_PINNED, LINE_STAGING };

static impmem_demand demand(impmem_line_id id, impmem_tier tier, uint32_t flags, uint64_t bytes, const char *name)
{
    impmem_demand d;
    memset(&d, 0, sizeof d);
    d.id = id;
    d.tier = tier;
    d.flags = flags;
    d.bytes = bytes;
    strncpy(d.name, name, sizeof d.name - 1);
    return d;
}

/* An engine with something in every tier. Odd sizes, so that rounding shows. */
typedef struct fixture {
    impmem_model_shape shape;
    impmem_demand demands[6];
    impmem_plan_input input;
    impmem_plan plan;
} fixture;

static void make_plan(fixture *f, uint32_t n_demands)
{
    memset(f, 0, sizeof *f);
    impmem_model_shape shape = IMPMEM_MODEL_SHAPE_INIT;
    f->shape = shape;
    f->shape.d_model = 512;
    f->shape.n_heads = 8;
    f->shape.head_dim = 64;
    f->shape.vocab = 1000;
    f->shape.weight_bytes = 10 * IMPMEM_MIB + 12345;
    f->shape.weight_source = IMPMEM_SOURCE_READ;
    assert_int_equal(impmem_shape_uniform_attention(&f->shape, 4, 2, 64, 64), IMPMEM_OK);
    f->shape.layer[1].kind = IMPMEM_LAYER_WINDOW;
    f->shape.layer[1].window_tokens = 128;
    f->demands[0] = demand(LINE_CACHE, IMPMEM_TIER_MODEL, 0, 3 * IMPMEM_MIB + 1, "weight cache");
    f->demands[1] = demand(LINE_GEMM, IMPMEM_TIER_ENGINE, 0, 5 * IMPMEM_MIB + 77, "GEMM workspace");
    f->demands[2] = demand(LINE_SCRATCH, IMPMEM_TIER_SCRATCH, 0, IMPMEM_MIB + 3, "scratch");
    f->demands[3] = demand(LINE_PINNED, IMPMEM_TIER_PINNED, 0, 2 * IMPMEM_MIB, "token staging");
    f->demands[4] = demand(LINE_UPLOAD, IMPMEM_TIER_MODEL, IMPMEM_LINE_TRANSIENT, 7 * IMPMEM_MIB + 5, "upload slab");
    impmem_plan_input input = IMPMEM_PLAN_INPUT_INIT;
    f->input = input;
    f->input.model = &f->shape;
    f->input.budget_bytes = 256 * IMPMEM_MIB;
    f->input.max_batch = 3;
    f->input.max_seq_tokens = 1000;
    f->input.prefill_tokens = 64;
    f->input.context_bytes = 11 * IMPMEM_MIB + 1;
    f->input.library_reserve_bytes = 9 * IMPMEM_MIB;
    f->input.demand = f->demands;
    f->input.n_demands = n_demands;
    impmem_plan_failure no = IMPMEM_PLAN_FAILURE_INIT;
    impmem_status st = impmem_plan_memory(&f->input, &f->plan, &no);
    if (st) fail_msg("%s", no.why.message);
}

typedef struct house {
    impmem_ledger *ledger;
    impmem_backend *fixed, *grow, *pinned;
    impmem_fake *fake, *fake_grow, *fake_pinned;
    impmem_engine_backends backends;
} house;

static void build(house *h, const impmem_plan *plan, const impmem_ledger_options *options)
{
    memset(h, 0, sizeof *h);
    impmem_lines lines = impmem_plan_lines(plan);
    assert_int_equal(impmem_ledger_create(&lines, options, &h->ledger), IMPMEM_OK);
    impmem_fake_options o = IMPMEM_FAKE_OPTIONS_INIT;
    o.backing = IMPMEM_FAKE_ADDRESS_ONLY;
    assert_int_equal(impmem_fake_backend_create(h->ledger, &o, &h->fixed, &h->fake, NULL), IMPMEM_OK);
    o.growable = true;
    assert_int_equal(impmem_fake_backend_create(h->ledger, &o, &h->grow, &h->fake_grow, NULL), IMPMEM_OK);
    o.growable = false;
    o.account = IMPMEM_ACCOUNT_PINNED;
    o.backing = IMPMEM_FAKE_HOST_MEMORY;
    assert_int_equal(impmem_fake_backend_create(h->ledger, &o, &h->pinned, &h->fake_pinned, NULL), IMPMEM_OK);
    h->backends.fixed = h->fixed;
    h->backends.grow = h->grow;
    h->backends.pinned = h->pinned;
}

static void tear_down(house *h)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    if (impmem_backend_destroy(h->fixed, &why)) fail_msg("%s", why.message);
    if (impmem_backend_destroy(h->grow, &why)) fail_msg("%s", why.message);
    if (impmem_backend_destroy(h->pinned, &why)) fail_msg("%s", why.message);
    if (impmem_ledger_destroy(h->ledger, &why)) fail_msg("%s", why.message);
}

/* What the journal says is held on one line now. */
static uint64_t journal_bytes(const impmem_ledger *ledger, impmem_line_id line)
{
    int64_t held = 0;
    assert_int_equal(impmem_ledger_journal_dropped(ledger), 0);
    for (uint64_t i = impmem_ledger_journal_first(ledger); i < impmem_ledger_journal_end(ledger); i++) {
        impmem_journal_record r;
        assert_int_equal(impmem_ledger_journal_read(ledger, i, &r), IMPMEM_OK);
        if (r.line == line) held += impmem_journal_op_sign((impmem_journal_op)r.op) * (int64_t)r.bytes;
    }
    return (uint64_t)held;
}

static void assert_journal_is(const impmem_ledger *ledger, const impmem_plan *plan, uint32_t without_flags)
{
    for (uint32_t i = 0; i < plan->n_lines; i++) {
        const impmem_line *line = &plan->line[i];
        if (line->tier == IMPMEM_TIER_STAGING || (line->flags & without_flags)) continue;
        if (journal_bytes(ledger, line->id) != line->bytes && line->id != IMPMEM_LINE_HOST_CONTROL)
            fail_msg("line %u (%s): journal %llu, plan %llu", line->id, line->name,
                     (unsigned long long)journal_bytes(ledger, line->id), (unsigned long long)line->bytes);
    }
    assert_int_equal(impmem_ledger_unplanned_bytes(ledger), 0);
    for (int a = 0; a < IMPMEM_N_ACCOUNTS; a++) {
        impmem_usage usage;
        impmem_ledger_account_usage(ledger, (impmem_account)a, &usage);
        assert_int_equal(impmem_ledger_journal_balance(ledger, (impmem_account)a), usage.committed_bytes);
    }
}

static void the_journal_of_an_opened_plan_is_its_lines_byte_for_byte(void **state)
{
    (void)state;
    fixture f;
    house h;
    make_plan(&f, 4); /* no transient line: everything is open at once */
    build(&h, &f.plan, NULL);
    impmem_engine *engine = NULL;
    impmem_error why = IMPMEM_ERROR_INIT;
    if (impmem_engine_open(h.ledger, &f.plan, &h.backends, &engine, &why)) fail_msg("%s", why.message);
    assert_journal_is(h.ledger, &f.plan, 0);
    /* Host control too, to the byte: the ledger, three backends, the engine, regions, tiers. */
    assert_int_equal(journal_bytes(h.ledger, IMPMEM_LINE_HOST_CONTROL),
                     impmem_plan_find_line(&f.plan, IMPMEM_LINE_HOST_CONTROL)->bytes);
    impmem_usage device;
    impmem_ledger_account_usage(h.ledger, IMPMEM_ACCOUNT_DEVICE, &device);
    assert_int_equal(device.committed_bytes, f.plan.total_bytes[IMPMEM_ACCOUNT_DEVICE]);
    assert_int_equal(impmem_engine_close(&engine, NULL), IMPMEM_OK);
    impmem_ledger_account_usage(h.ledger, IMPMEM_ACCOUNT_DEVICE, &device);
    assert_int_equal(device.committed_bytes, 0);
    tear_down(&h);
}

static void kv_reuses_the_memory_of_transient_lines(void **state)
{
    (void)state;
    fixture f;
    house h;
    make_plan(&f, 5);
    build(&h, &f.plan, NULL);
    impmem_engine *engine = NULL;
    assert_int_equal(impmem_engine_open(h.ledger, &f.plan, &h.backends, &engine, NULL), IMPMEM_OK);
    assert_null(impmem_engine_kv_pool(engine, 0));
    impmem_usage device;
    impmem_ledger_account_usage(h.ledger, IMPMEM_ACCOUNT_DEVICE, &device);
    assert_int_equal(device.committed_bytes, f.plan.load_peak_bytes);
    impmem_engine_span slab;
    assert_int_equal(impmem_engine_take_transient(engine, LINE_UPLOAD, 7 * IMPMEM_MIB, 256, &slab), IMPMEM_OK);
    assert_int_equal(impmem_span_check(h.ledger, impmem_stable(slab)), IMPMEM_OK);

    assert_int_equal(impmem_engine_end_loading(engine, NULL), IMPMEM_OK);
    assert_int_equal(impmem_ledger_phase(h.ledger), IMPMEM_PHASE_PLANNING);
    assert_int_equal(impmem_span_check(h.ledger, impmem_stable(slab)), IMPMEM_ERR_STALE);
    assert_int_equal(impmem_engine_take_transient(engine, LINE_UPLOAD, 1, 256, &slab), IMPMEM_ERR_UNPLANNED);
    assert_non_null(impmem_engine_kv_pool(engine, 0));
    assert_non_null(impmem_engine_kv_pool(engine, 1));
    assert_null(impmem_engine_kv_pool(engine, 2));
    assert_journal_is(h.ledger, &f.plan, IMPMEM_LINE_TRANSIENT);
    impmem_ledger_account_usage(h.ledger, IMPMEM_ACCOUNT_DEVICE, &device);
    assert_int_equal(device.committed_bytes, f.plan.total_bytes[IMPMEM_ACCOUNT_DEVICE]);
    assert_int_equal(impmem_engine_end_loading(engine, NULL), IMPMEM_ERR_PHASE_ORDER);
    assert_int_equal(impmem_engine_begin_serving(engine, NULL), IMPMEM_OK);
    assert_int_equal(impmem_ledger_serving_acquisitions(h.ledger), 0);
    assert_int_equal(impmem_engine_close(&engine, NULL), IMPMEM_OK);
    tear_down(&h);
}

static void growing_pools_commit_their_start_and_grow_to_the_line_without_an_unplanned_byte(void **state)
{
    (void)state;
    fixture f;
    house h;
    make_plan(&f, 4);
    f.input.kv_initial_percent = 25;
    f.input.granule_bytes = 4096;
    f.input.commit_chunk_bytes = 4096;
    assert_int_equal(impmem_plan_memory(&f.input, &f.plan, NULL), IMPMEM_OK);
    memset(&h, 0, sizeof h);
    impmem_lines lines = impmem_plan_lines(&f.plan);
    assert_int_equal(impmem_ledger_create(&lines, NULL, &h.ledger), IMPMEM_OK);
    impmem_fake_options o = IMPMEM_FAKE_OPTIONS_INIT;
    o.granule_bytes = 4096;
    o.backing = IMPMEM_FAKE_ADDRESS_ONLY;
    assert_int_equal(impmem_fake_backend_create(h.ledger, &o, &h.fixed, &h.fake, NULL), IMPMEM_OK);
    o.growable = true;
    assert_int_equal(impmem_fake_backend_create(h.ledger, &o, &h.grow, &h.fake_grow, NULL), IMPMEM_OK);
    o.growable = false;
    o.account = IMPMEM_ACCOUNT_PINNED;
    o.backing = IMPMEM_FAKE_HOST_MEMORY;
    assert_int_equal(impmem_fake_backend_create(h.ledger, &o, &h.pinned, &h.fake_pinned, NULL), IMPMEM_OK);
    h.backends = (impmem_engine_backends){h.fixed, h.grow, h.pinned};
    impmem_engine *engine = NULL;
    impmem_error why = IMPMEM_ERROR_INIT;
    if (impmem_engine_open(h.ledger, &f.plan, &h.backends, &engine, &why)) fail_msg("%s", why.message);
    const impmem_block_pool *pool = impmem_engine_kv_pool(engine, 0);
    impmem_block_pool_stats stats;
    impmem_block_pool_query(pool, &stats);
    assert_int_equal(stats.max_blocks, f.plan.kv_group[0].blocks);
    assert_int_equal(stats.total_blocks, (stats.max_blocks + 3) / 4);
    const impmem_plan_region *planned = &f.plan.region[f.plan.kv_group[0].region];
    assert_int_equal(journal_bytes(h.ledger, IMPMEM_LINE_KV), planned->initial_bytes);
    /* Three sequences of the whole context promise every block, and so make the pool grow to its line. */
    uint32_t tokens[1000] = {0};
    impmem_sequence seq[3];
    for (uint32_t i = 0; i < 3; i++) {
        tokens[0] = i;
        impmem_kv_request r = IMPMEM_KV_REQUEST_INIT;
        r.tokens = tokens;
        r.n_tokens = 1000;
        if (impmem_engine_admit(engine, &r, &seq[i], NULL, &why)) fail_msg("%s", why.message);
    }
    assert_int_equal(journal_bytes(h.ledger, IMPMEM_LINE_KV), impmem_plan_find_line(&f.plan, IMPMEM_LINE_KV)->bytes);
    assert_int_equal(impmem_ledger_unplanned_bytes(h.ledger), 0);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(impmem_engine_release(engine, &seq[i]), IMPMEM_OK);
    assert_int_equal(impmem_engine_close(&engine, NULL), IMPMEM_OK);
    tear_down(&h);
}

static void a_device_failure_at_any_step_of_open_leaves_nothing(void **state)
{
    (void)state;
    fixture f;
    house h;
    make_plan(&f, 5);
    build(&h, &f.plan, NULL);
    impmem_usage before[IMPMEM_N_ACCOUNTS], after;
    for (int a = 0; a < IMPMEM_N_ACCOUNTS; a++) impmem_ledger_account_usage(h.ledger, (impmem_account)a, &before[a]);
    uint64_t step = 1, failures = 0;
    for (;; step++) {
        impmem_fake_fail_nth(h.fake, step, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, IMPMEM_FAIL_ONCE);
        impmem_engine *engine = NULL;
        impmem_status st = impmem_engine_open(h.ledger, &f.plan, &h.backends, &engine, NULL);
        if (st == IMPMEM_OK) {
            impmem_fake_fail_nth(h.fake, 0, IMPMEM_OK, IMPMEM_FAIL_ONCE);
            assert_int_equal(impmem_engine_close(&engine, NULL), IMPMEM_OK);
            break;
        }
        failures++;
        assert_int_equal(st, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY);
        assert_null(engine);
        assert_int_equal(impmem_fake_held_bytes(h.fake), 0);
        for (int a = 0; a < IMPMEM_N_ACCOUNTS; a++) {
            impmem_ledger_account_usage(h.ledger, (impmem_account)a, &after);
            assert_int_equal(after.committed_bytes, before[a].committed_bytes);
        }
    }
    assert_int_equal(failures, 4); /* T2, T1, transient, scratch; KV waits for the end of loading */
    tear_down(&h);
}

static void a_pinned_refusal_is_its_own_error_and_leaves_nothing(void **state)
{
    (void)state;
    fixture f;
    house h;
    make_plan(&f, 5);
    build(&h, &f.plan, NULL);
    impmem_fake_fail_nth(h.fake_pinned, 1, IMPMEM_ERR_OUT_OF_PINNED_MEMORY, IMPMEM_FAIL_ONCE);
    impmem_engine *engine = NULL;
    assert_int_equal(impmem_engine_open(h.ledger, &f.plan, &h.backends, &engine, NULL), IMPMEM_ERR_OUT_OF_PINNED_MEMORY);
    assert_int_equal(impmem_fake_held_bytes(h.fake), 0);
    assert_int_equal(impmem_engine_open(h.ledger, &f.plan, &h.backends, &engine, NULL), IMPMEM_OK);
    assert_non_null(impmem_pinned_data(impmem_engine_pinned(engine, LINE_PINNED)));
    assert_null(impmem_pinned_data(impmem_engine_pinned(engine, LINE_CACHE)));
    assert_int_equal(impmem_engine_close(&engine, NULL), IMPMEM_OK);
    tear_down(&h);
}

typedef struct counting {
    uint64_t calls, fail_at, live;
} counting;
static void *count_allocate(void *context, size_t bytes, size_t alignment)
{
    counting *c = context;
    if (++c->calls == c->fail_at) return NULL;
    c->live += bytes;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
static void count_release(void *context, void *memory, size_t bytes)
{
    ((counting *)context)->live -= bytes;
    free(memory);
}

static void a_host_failure_at_any_step_of_open_leaves_nothing(void **state)
{
    (void)state;
    fixture f;
    house h;
    make_plan(&f, 4);
    counting c = {0, 0, 0};
    impmem_ledger_options options = IMPMEM_LEDGER_OPTIONS_INIT;
    options.allocator.allocate = count_allocate;
    options.allocator.release = count_release;
    options.allocator.context = &c;
    build(&h, &f.plan, &options);
    uint64_t calls = c.calls, live = c.live, failures = 0;
    for (uint64_t step = 1;; step++) {
        c.fail_at = calls + step;
        impmem_engine *engine = NULL;
        impmem_status st = impmem_engine_open(h.ledger, &f.plan, &h.backends, &engine, NULL);
        calls = c.calls;
        if (st == IMPMEM_OK) {
            assert_int_equal(impmem_engine_close(&engine, NULL), IMPMEM_OK);
            break;
        }
        failures++;
        assert_int_equal(st, IMPMEM_ERR_OUT_OF_HOST_MEMORY);
        assert_int_equal(c.live, live);
        assert_int_equal(impmem_fake_held_bytes(h.fake), 0);
        calls = c.calls;
    }
    /* the engine; two tables (region, tier object) for each of T2, T1, scratch and two KV pools; and the pinned owner's */
    assert_true(failures >= 11);
    c.fail_at = 0;
    tear_down(&h);
    assert_int_equal(c.live, 0);
}

static void kv_that_cannot_open_leaves_the_engine_loading_and_a_retry_works(void **state)
{
    (void)state;
    fixture f;
    house h;
    make_plan(&f, 5);
    build(&h, &f.plan, NULL);
    impmem_engine *engine = NULL;
    assert_int_equal(impmem_engine_open(h.ledger, &f.plan, &h.backends, &engine, NULL), IMPMEM_OK);
    for (uint64_t step = 1; step <= 2; step++) { /* the first KV group, then the second */
        impmem_fake_fail_nth(h.fake, step, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, IMPMEM_FAIL_ONCE);
        assert_int_equal(impmem_engine_begin_serving(engine, NULL), IMPMEM_ERR_OUT_OF_DEVICE_MEMORY);
        assert_int_equal(impmem_ledger_phase(h.ledger), IMPMEM_PHASE_LOADING);
        assert_null(impmem_engine_kv_pool(engine, 0));
        assert_null(impmem_engine_kv_pool(engine, 1));
    }
    assert_int_equal(impmem_engine_begin_serving(engine, NULL), IMPMEM_OK);
    assert_int_equal(impmem_engine_close(&engine, NULL), IMPMEM_OK);
    tear_down(&h);
}

static void an_engine_with_sequences_or_open_marks_does_not_close(void **state)
{
    (void)state;
    fixture f;
    house h;
    make_plan(&f, 4);
    build(&h, &f.plan, NULL);
    impmem_engine *engine = NULL;
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(impmem_engine_open(h.ledger, &f.plan, &h.backends, &engine, NULL), IMPMEM_OK);
    assert_true(impmem_engine_is_idle(engine));
    uint32_t tokens[40] = {1, 2, 3};
    impmem_kv_request r = IMPMEM_KV_REQUEST_INIT;
    r.tokens = tokens;
    r.n_tokens = 40;
    impmem_sequence seq;
    assert_int_equal(impmem_engine_admit(engine, &r, &seq, NULL, &why), IMPMEM_OK);
    assert_false(impmem_engine_is_idle(engine));
    assert_int_equal(impmem_engine_close(&engine, &why), IMPMEM_ERR_LIVE_HOLDERS);
    assert_non_null(strstr(why.message, "1 sequences"));
    impmem_sequence copy = seq;
    assert_int_equal(impmem_engine_release(engine, &seq), IMPMEM_OK);
    assert_int_equal(impmem_engine_release(engine, &seq), IMPMEM_OK); /* none */
    assert_int_equal(impmem_engine_release(engine, &copy), IMPMEM_ERR_STALE);
    impmem_scratch_mark mark = impmem_scratch_push(impmem_engine_scratch(engine));
    assert_int_equal(impmem_engine_close(&engine, &why), IMPMEM_ERR_LIVE_HOLDERS);
    assert_int_equal(impmem_scratch_pop(impmem_engine_scratch(engine), mark), IMPMEM_OK);
    assert_int_equal(impmem_engine_close(&engine, &why), IMPMEM_OK);
    assert_null(engine);
    assert_int_equal(impmem_engine_close(&engine, &why), IMPMEM_OK);
    assert_int_equal(impmem_engine_close(NULL, &why), IMPMEM_OK);
    tear_down(&h);
}

static void admission_tells_never_from_not_now_and_stops_while_draining(void **state)
{
    (void)state;
    fixture f;
    house h;
    make_plan(&f, 5); /* with a transient line: KV waits for the end of loading */
    build(&h, &f.plan, NULL);
    impmem_engine *engine = NULL;
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(impmem_engine_open(h.ledger, &f.plan, &h.backends, &engine, NULL), IMPMEM_OK);
    static uint32_t tokens[1001];
    impmem_kv_request r = IMPMEM_KV_REQUEST_INIT;
    impmem_kv_admission a;
    impmem_sequence seq[4];
    r.tokens = tokens;
    r.n_tokens = 900;
    r.max_new_tokens = 100;
    assert_null(impmem_engine_kv(engine));
    assert_int_equal(impmem_engine_admit(engine, &r, &seq[0], &a, &why), IMPMEM_ERR_STATE);
    assert_int_equal(impmem_engine_release(engine, &seq[0]), IMPMEM_ERR_STATE);
    assert_int_equal(impmem_engine_begin_serving(engine, NULL), IMPMEM_OK);
    assert_non_null(impmem_engine_kv(engine));
    r.max_new_tokens = 101; /* one token more than the context of 1000 */
    assert_int_equal(impmem_engine_admit(engine, &r, &seq[0], &a, &why), IMPMEM_ERR_NEVER_FITS);
    assert_int_equal(a.need_tokens, 1001);
    assert_int_equal(a.most_tokens, 1000);
    r.max_new_tokens = 100;
    for (int i = 0; i < 3; i++) assert_int_equal(impmem_engine_admit(engine, &r, &seq[i], &a, &why), IMPMEM_OK);
    assert_int_equal(impmem_engine_admit(engine, &r, &seq[3], &a, &why), IMPMEM_ERR_CAPACITY);
    assert_int_equal(impmem_engine_drain(engine), IMPMEM_OK);
    assert_int_equal(impmem_engine_release(engine, &seq[0]), IMPMEM_OK);
    assert_int_equal(impmem_engine_admit(engine, &r, &seq[0], &a, &why), IMPMEM_ERR_STATE);
    assert_int_equal(impmem_engine_resume(engine), IMPMEM_OK);
    assert_int_equal(impmem_engine_admit(engine, &r, &seq[0], &a, &why), IMPMEM_OK);
    for (int i = 0; i < 3; i++) assert_int_equal(impmem_engine_release(engine, &seq[i]), IMPMEM_OK);
    assert_true(impmem_engine_is_idle(engine));
    assert_int_equal(impmem_ledger_serving_acquisitions(h.ledger), 0);
    assert_int_equal(impmem_engine_admit(NULL, &r, &seq[0], &a, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_engine_admit(engine, NULL, &seq[0], &a, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_engine_admit(engine, &r, NULL, &a, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_engine_release(NULL, &seq[0]), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_engine_release(engine, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_engine_drain(NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_engine_resume(NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_false(impmem_engine_is_idle(NULL));
    assert_null(impmem_engine_kv(NULL));
    assert_int_equal(impmem_engine_close(&engine, NULL), IMPMEM_OK);
    tear_down(&h);
}

static void a_model_without_kv_opens_and_admits_nothing(void **state)
{
    (void)state;
    fixture f;
    house h;
    make_plan(&f, 3);
    for (uint32_t l = 0; l < f.shape.n_layers; l++) f.shape.layer[l].kind = IMPMEM_LAYER_NO_ATTENTION;
    assert_int_equal(impmem_plan_memory(&f.input, &f.plan, NULL), IMPMEM_OK);
    assert_int_equal(f.plan.n_kv_groups, 0);
    build(&h, &f.plan, NULL);
    impmem_engine *engine = NULL;
    assert_int_equal(impmem_engine_open(h.ledger, &f.plan, &h.backends, &engine, NULL), IMPMEM_OK);
    uint32_t token = 1;
    impmem_kv_request r = IMPMEM_KV_REQUEST_INIT;
    r.tokens = &token;
    r.n_tokens = 1;
    impmem_sequence seq;
    assert_int_equal(impmem_engine_admit(engine, &r, &seq, NULL, NULL), IMPMEM_ERR_UNSUPPORTED);
    assert_int_equal(impmem_engine_close(&engine, NULL), IMPMEM_OK);
    tear_down(&h);
}

static void a_line_cannot_take_more_than_its_plan_says(void **state)
{
    (void)state;
    fixture f;
    house h;
    make_plan(&f, 4);
    build(&h, &f.plan, NULL);
    impmem_engine *engine = NULL;
    assert_int_equal(impmem_engine_open(h.ledger, &f.plan, &h.backends, &engine, NULL), IMPMEM_OK);
    impmem_model_span weights;
    impmem_engine_span gemm;
    uint64_t planned = impmem_plan_find_line(&f.plan, IMPMEM_LINE_WEIGHTS)->bytes;
    assert_int_equal(impmem_engine_take_model(engine, IMPMEM_LINE_WEIGHTS, planned + 1, 256, &weights), IMPMEM_ERR_LINE_EXCEEDED);
    assert_int_equal(impmem_engine_take_model(engine, IMPMEM_LINE_WEIGHTS, planned, 256, &weights), IMPMEM_OK);
    assert_int_equal(impmem_engine_take_model(engine, IMPMEM_LINE_WEIGHTS, 1, 256, &weights), IMPMEM_ERR_LINE_EXCEEDED);
    assert_int_equal(impmem_engine_take_model(engine, LINE_GEMM, 1, 256, &weights), IMPMEM_ERR_UNPLANNED);
    assert_int_equal(impmem_engine_take(engine, LINE_GEMM, 5 * IMPMEM_MIB, 256, &gemm), IMPMEM_OK);
    assert_int_equal(impmem_engine_take(engine, LINE_CACHE, 1, 256, &gemm), IMPMEM_ERR_UNPLANNED);
    assert_int_equal(impmem_engine_take(NULL, LINE_GEMM, 1, 256, &gemm), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_engine_take_model(engine, IMPMEM_LINE_WEIGHTS, 1, 256, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_engine_take_transient(NULL, LINE_UPLOAD, 1, 256, &gemm), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_engine_close(&engine, NULL), IMPMEM_OK);
    tear_down(&h);
}

static void what_cannot_belong_together_is_refused_by_name(void **state)
{
    (void)state;
    fixture f;
    house h, other;
    make_plan(&f, 4);
    build(&h, &f.plan, NULL);
    build(&other, &f.plan, NULL);
    impmem_engine *engine = NULL;
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(impmem_engine_open(NULL, &f.plan, &h.backends, &engine, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_engine_open(h.ledger, NULL, &h.backends, &engine, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_engine_open(h.ledger, &f.plan, NULL, &engine, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_engine_open(h.ledger, &f.plan, &other.backends, &engine, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(why.message, "another ledger"));
    impmem_engine_backends b = h.backends;
    b.pinned = NULL;
    assert_int_equal(impmem_engine_open(h.ledger, &f.plan, &b, &engine, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(why.message, "pinned"));
    b = h.backends;
    b.fixed = h.pinned;
    assert_int_equal(impmem_engine_open(h.ledger, &f.plan, &b, &engine, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(why.message, "account"));
    b = h.backends;
    b.grow = h.fixed;
    assert_int_equal(impmem_engine_open(h.ledger, &f.plan, &b, &engine, &why), IMPMEM_ERR_NOT_GROWABLE);
    impmem_plan newer = f.plan;
    newer.version = 2;
    assert_int_equal(impmem_engine_open(h.ledger, &newer, &h.backends, &engine, &why), IMPMEM_ERR_VERSION);
    newer = f.plan;
    newer.granule_bytes = 3 * IMPMEM_MIB;
    assert_int_equal(impmem_engine_open(h.ledger, &newer, &h.backends, &engine, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(why.message, "granule"));
    newer = f.plan;
    newer.n_regions = IMPMEM_PLAN_MAX_REGIONS + 1;
    assert_int_equal(impmem_engine_open(h.ledger, &newer, &h.backends, &engine, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_ledger_set_phase(h.ledger, IMPMEM_PHASE_PLANNING, NULL), IMPMEM_OK);
    assert_int_equal(impmem_engine_open(h.ledger, &f.plan, &h.backends, &engine, &why), IMPMEM_ERR_PHASE_ORDER);
    assert_int_equal(impmem_engine_end_loading(NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_engine_begin_serving(NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_null(engine);
    assert_null(impmem_engine_ledger(NULL));
    assert_null(impmem_engine_plan(NULL));
    assert_null(impmem_engine_scratch(NULL));
    tear_down(&h);
    tear_down(&other);
}

static void two_engines_live_side_by_side_in_one_process(void **state)
{
    (void)state;
    fixture f;
    house a, b;
    make_plan(&f, 5);
    build(&a, &f.plan, NULL);
    build(&b, &f.plan, NULL);
    impmem_engine *ea = NULL, *eb = NULL;
    assert_int_equal(impmem_engine_open(a.ledger, &f.plan, &a.backends, &ea, NULL), IMPMEM_OK);
    assert_int_equal(impmem_engine_open(b.ledger, &f.plan, &b.backends, &eb, NULL), IMPMEM_OK);
    assert_int_equal(impmem_engine_begin_serving(ea, NULL), IMPMEM_OK);
    assert_int_equal(impmem_ledger_phase(b.ledger), IMPMEM_PHASE_LOADING);
    assert_int_equal(impmem_engine_close(&ea, NULL), IMPMEM_OK);
    assert_int_equal(impmem_engine_begin_serving(eb, NULL), IMPMEM_OK);
    assert_journal_is(b.ledger, &f.plan, IMPMEM_LINE_TRANSIENT);
    uint32_t token = 7;
    impmem_kv_request r = IMPMEM_KV_REQUEST_INIT;
    r.tokens = &token;
    r.n_tokens = 1;
    impmem_sequence seq;
    assert_int_equal(impmem_engine_admit(eb, &r, &seq, NULL, NULL), IMPMEM_OK);
    assert_int_equal(impmem_engine_release(eb, &seq), IMPMEM_OK);
    assert_int_equal(impmem_engine_close(&eb, NULL), IMPMEM_OK);
    tear_down(&a);
    tear_down(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_journal_of_an_opened_plan_is_its_lines_byte_for_byte),
        cmocka_unit_test(kv_reuses_the_memory_of_transient_lines),
        cmocka_unit_test(growing_pools_commit_their_start_and_grow_to_the_line_without_an_unplanned_byte),
        cmocka_unit_test(a_device_failure_at_any_step_of_open_leaves_nothing),
        cmocka_unit_test(a_pinned_refusal_is_its_own_error_and_leaves_nothing),
        cmocka_unit_test(a_host_failure_at_any_step_of_open_leaves_nothing),
        cmocka_unit_test(kv_that_cannot_open_leaves_the_engine_loading_and_a_retry_works),
        cmocka_unit_test(an_engine_with_sequences_or_open_marks_does_not_close),
        cmocka_unit_test(admission_tells_never_from_not_now_and_stops_while_draining),
        cmocka_unit_test(a_model_without_kv_opens_and_admits_nothing),
        cmocka_unit_test(a_line_cannot_take_more_than_its_plan_says),
        cmocka_unit_test(what_cannot_belong_together_is_refused_by_name),
        cmocka_unit_test(two_engines_live_side_by_side_in_one_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
