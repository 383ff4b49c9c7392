/* Opening a plan on the fake backend: the journal equals the plan's lines, and every failure leaves nothing. */
#include "support/engine_house.h"

/* What the journal says is held on one line now. */
static uint64_t journal_bytes(const impmem_ledger *ledger, impmem_line_id line)
{
    int64_t held = 0;
    assert_int_equal(impmem_ledger_journal_dropped(ledger), 0);
    for (uint64_t i = impmem_ledger_journal_first(ledger); i < impmem_ledger_journal_end(ledger); i++) {
        impmem_journal_record r;
        OK(impmem_ledger_journal_read(ledger, i, &r));
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
    planned f;
    house h;
    planned_make_windowed(&f, 4); /* no transient line: everything is open at once */
    impmem_engine *engine = house_open(&h, &f.plan);
    assert_journal_is(h.ledger, &f.plan, 0);
    /* Host control too, to the byte: the ledger, three backends, the engine, regions, tiers. */
    assert_int_equal(journal_bytes(h.ledger, IMPMEM_LINE_HOST_CONTROL),
                     impmem_plan_find_line(&f.plan, IMPMEM_LINE_HOST_CONTROL)->bytes);
    impmem_usage device;
    impmem_ledger_account_usage(h.ledger, IMPMEM_ACCOUNT_DEVICE, &device);
    assert_int_equal(device.committed_bytes, f.plan.total_bytes[IMPMEM_ACCOUNT_DEVICE]);
    OK(impmem_engine_close(&engine, NULL));
    impmem_ledger_account_usage(h.ledger, IMPMEM_ACCOUNT_DEVICE, &device);
    assert_int_equal(device.committed_bytes, 0);
    house_clear(&h);
}

static void kv_reuses_the_memory_of_transient_lines(void **state)
{
    (void)state;
    planned f;
    house h;
    planned_make_windowed(&f, 5);
    impmem_engine *engine = house_open(&h, &f.plan);
    assert_null(impmem_engine_kv_pool(engine, 0));
    impmem_usage device;
    impmem_ledger_account_usage(h.ledger, IMPMEM_ACCOUNT_DEVICE, &device);
    assert_int_equal(device.committed_bytes, f.plan.load_peak_bytes);
    impmem_engine_span slab;
    OK(impmem_engine_take_transient(engine, DEMAND_UPLOAD, 7 * IMPMEM_MIB, 256, &slab));
    OK(impmem_span_check(h.ledger, impmem_stable(slab)));

    OK(impmem_engine_end_loading(engine, NULL));
    assert_int_equal(impmem_ledger_phase(h.ledger), IMPMEM_PHASE_PLANNING);
    FAILS(impmem_span_check(h.ledger, impmem_stable(slab)), IMPMEM_ERR_STALE);
    FAILS(impmem_engine_take_transient(engine, DEMAND_UPLOAD, 1, 256, &slab), IMPMEM_ERR_UNPLANNED);
    assert_non_null(impmem_engine_kv_pool(engine, 0));
    assert_non_null(impmem_engine_kv_pool(engine, 1));
    assert_null(impmem_engine_kv_pool(engine, 2));
    assert_journal_is(h.ledger, &f.plan, IMPMEM_LINE_TRANSIENT);
    impmem_ledger_account_usage(h.ledger, IMPMEM_ACCOUNT_DEVICE, &device);
    assert_int_equal(device.committed_bytes, f.plan.total_bytes[IMPMEM_ACCOUNT_DEVICE]);
    FAILS(impmem_engine_end_loading(engine, NULL), IMPMEM_ERR_PHASE_ORDER);
    OK(impmem_engine_begin_serving(engine, NULL));
    assert_int_equal(impmem_ledger_serving_acquisitions(h.ledger), 0);
    house_close(&h, &engine);
}

static void growing_pools_commit_their_start_and_grow_to_the_line_without_an_unplanned_byte(void **state)
{
    (void)state;
    planned f;
    house h;
    planned_make_windowed(&f, 4);
    f.input.kv_initial_percent = 25;
    f.input.granule_bytes = 4096;
    f.input.commit_chunk_bytes = 4096;
    OK(impmem_plan_memory(&f.input, &f.plan, NULL));
    impmem_engine *engine = house_open(&h, &f.plan);
    impmem_error why = IMPMEM_ERROR_INIT;
    const impmem_block_pool *pool = impmem_engine_kv_pool(engine, 0);
    impmem_block_pool_stats stats;
    impmem_block_pool_query(pool, &stats);
    assert_int_equal(stats.max_blocks, f.plan.kv_group[0].blocks);
    assert_int_equal(stats.total_blocks, (stats.max_blocks + 3) / 4);
    const impmem_plan_region *region = &f.plan.region[f.plan.kv_group[0].region];
    assert_int_equal(journal_bytes(h.ledger, IMPMEM_LINE_KV), region->initial_bytes);
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
    for (uint32_t i = 0; i < 3; i++) OK(impmem_engine_release(engine, &seq[i]));
    house_close(&h, &engine);
}

static void a_device_failure_at_any_step_of_open_leaves_nothing(void **state)
{
    (void)state;
    planned f;
    house h;
    planned_make_windowed(&f, 5);
    house_build(&h, &f.plan);
    impmem_usage before[IMPMEM_N_ACCOUNTS], after;
    for (int a = 0; a < IMPMEM_N_ACCOUNTS; a++) impmem_ledger_account_usage(h.ledger, (impmem_account)a, &before[a]);
    uint64_t step = 1, failures = 0;
    for (;; step++) {
        impmem_fake_fail_nth(h.fake, step, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, IMPMEM_FAIL_ONCE);
        impmem_engine *engine = NULL;
        impmem_status st = impmem_engine_open(h.ledger, &f.plan, &h.backends, &engine, NULL);
        if (st == IMPMEM_OK) {
            impmem_fake_fail_nth(h.fake, 0, IMPMEM_OK, IMPMEM_FAIL_ONCE);
            OK(impmem_engine_close(&engine, NULL));
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
    house_clear(&h);
}

static void a_pinned_refusal_is_its_own_error_and_leaves_nothing(void **state)
{
    (void)state;
    planned f;
    house h;
    planned_make_windowed(&f, 5);
    house_build(&h, &f.plan);
    impmem_fake_fail_nth(h.fake_pinned, 1, IMPMEM_ERR_OUT_OF_PINNED_MEMORY, IMPMEM_FAIL_ONCE);
    impmem_engine *engine = NULL;
    FAILS(impmem_engine_open(h.ledger, &f.plan, &h.backends, &engine, NULL), IMPMEM_ERR_OUT_OF_PINNED_MEMORY);
    assert_int_equal(impmem_fake_held_bytes(h.fake), 0);
    OK(impmem_engine_open(h.ledger, &f.plan, &h.backends, &engine, NULL));
    assert_non_null(impmem_pinned_data(impmem_engine_pinned(engine, DEMAND_PINNED)));
    assert_null(impmem_pinned_data(impmem_engine_pinned(engine, DEMAND_CACHE)));
    house_close(&h, &engine);
}

static void a_host_failure_at_any_step_of_open_leaves_nothing(void **state)
{
    (void)state;
    planned f;
    house h;
    planned_make_windowed(&f, 4);
    house_build(&h, &f.plan);
    uint64_t live = h.host.held, failures = 0;
    for (uint64_t step = 1;; step++) {
        h.host.fail_in = step;
        impmem_engine *engine = NULL;
        impmem_status st = impmem_engine_open(h.ledger, &f.plan, &h.backends, &engine, NULL);
        h.host.fail_in = 0;
        if (st == IMPMEM_OK) {
            OK(impmem_engine_close(&engine, NULL));
            break;
        }
        failures++;
        FAILS(st, IMPMEM_ERR_OUT_OF_HOST_MEMORY);
        assert_int_equal(h.host.held, live);
        assert_int_equal(impmem_fake_held_bytes(h.fake), 0);
    }
    /* the engine; two tables (region, tier object) for each of T2, T1, scratch and two KV pools; and the pinned owner's */
    assert_true(failures >= 11);
    house_clear(&h);
}

static void kv_that_cannot_open_leaves_the_engine_loading_and_a_retry_works(void **state)
{
    (void)state;
    planned f;
    house h;
    planned_make_windowed(&f, 5);
    impmem_engine *engine = house_open(&h, &f.plan);
    for (uint64_t step = 1; step <= 2; step++) { /* the first KV group, then the second */
        impmem_fake_fail_nth(h.fake, step, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, IMPMEM_FAIL_ONCE);
        FAILS(impmem_engine_begin_serving(engine, NULL), IMPMEM_ERR_OUT_OF_DEVICE_MEMORY);
        assert_int_equal(impmem_ledger_phase(h.ledger), IMPMEM_PHASE_LOADING);
        assert_null(impmem_engine_kv_pool(engine, 0));
        assert_null(impmem_engine_kv_pool(engine, 1));
    }
    OK(impmem_engine_begin_serving(engine, NULL));
    house_close(&h, &engine);
}

static void an_engine_with_sequences_or_open_marks_does_not_close(void **state)
{
    (void)state;
    planned f;
    house h;
    planned_make_windowed(&f, 4);
    impmem_engine *engine = house_open(&h, &f.plan);
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_true(impmem_engine_is_idle(engine));
    uint32_t tokens[40] = {1, 2, 3};
    impmem_kv_request r = IMPMEM_KV_REQUEST_INIT;
    r.tokens = tokens;
    r.n_tokens = 40;
    impmem_sequence seq;
    OK(impmem_engine_admit(engine, &r, &seq, NULL, &why));
    assert_false(impmem_engine_is_idle(engine));
    FAILS(impmem_engine_close(&engine, &why), IMPMEM_ERR_LIVE_HOLDERS);
    assert_non_null(strstr(why.message, "1 sequences"));
    impmem_sequence copy = seq;
    OK(impmem_engine_release(engine, &seq));
    OK(impmem_engine_release(engine, &seq)); /* none */
    FAILS(impmem_engine_release(engine, &copy), IMPMEM_ERR_STALE);
    impmem_scratch_mark mark = impmem_scratch_push(impmem_engine_scratch(engine));
    FAILS(impmem_engine_close(&engine, &why), IMPMEM_ERR_LIVE_HOLDERS);
    OK(impmem_scratch_pop(impmem_engine_scratch(engine), mark));
    OK(impmem_engine_close(&engine, &why));
    assert_null(engine);
    OK(impmem_engine_close(&engine, &why));
    OK(impmem_engine_close(NULL, &why));
    house_clear(&h);
}

static void admission_tells_never_from_not_now_and_stops_while_draining(void **state)
{
    (void)state;
    planned f;
    house h;
    planned_make_windowed(&f, 5); /* with a transient line: KV waits for the end of loading */
    impmem_engine *engine = house_open(&h, &f.plan);
    impmem_error why = IMPMEM_ERROR_INIT;
    static uint32_t tokens[1001];
    impmem_kv_request r = IMPMEM_KV_REQUEST_INIT;
    impmem_kv_admission a;
    impmem_sequence seq[4];
    r.tokens = tokens;
    r.n_tokens = 900;
    r.max_new_tokens = 100;
    assert_null(impmem_engine_kv(engine));
    FAILS(impmem_engine_admit(engine, &r, &seq[0], &a, &why), IMPMEM_ERR_STATE);
    FAILS(impmem_engine_release(engine, &seq[0]), IMPMEM_ERR_STATE);
    OK(impmem_engine_begin_serving(engine, NULL));
    assert_non_null(impmem_engine_kv(engine));
    r.max_new_tokens = 101; /* one token more than the context of 1000 */
    FAILS(impmem_engine_admit(engine, &r, &seq[0], &a, &why), IMPMEM_ERR_NEVER_FITS);
    assert_int_equal(a.need_tokens, 1001);
    assert_int_equal(a.most_tokens, 1000);
    r.max_new_tokens = 100;
    for (int i = 0; i < 3; i++) OK(impmem_engine_admit(engine, &r, &seq[i], &a, &why));
    FAILS(impmem_engine_admit(engine, &r, &seq[3], &a, &why), IMPMEM_ERR_CAPACITY);
    OK(impmem_engine_drain(engine));
    OK(impmem_engine_release(engine, &seq[0]));
    FAILS(impmem_engine_admit(engine, &r, &seq[0], &a, &why), IMPMEM_ERR_STATE);
    OK(impmem_engine_resume(engine));
    OK(impmem_engine_admit(engine, &r, &seq[0], &a, &why));
    for (int i = 0; i < 3; i++) OK(impmem_engine_release(engine, &seq[i]));
    assert_true(impmem_engine_is_idle(engine));
    assert_int_equal(impmem_ledger_serving_acquisitions(h.ledger), 0);
    FAILS(impmem_engine_admit(NULL, &r, &seq[0], &a, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_engine_admit(engine, NULL, &seq[0], &a, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_engine_admit(engine, &r, NULL, &a, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_engine_release(NULL, &seq[0]), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_engine_release(engine, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_engine_drain(NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_engine_resume(NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_false(impmem_engine_is_idle(NULL));
    assert_null(impmem_engine_kv(NULL));
    house_close(&h, &engine);
}

static void a_model_without_kv_opens_and_admits_nothing(void **state)
{
    (void)state;
    planned f;
    house h;
    planned_make_windowed(&f, 3);
    for (uint32_t l = 0; l < f.shape.n_layers; l++) f.shape.layer[l].kind = IMPMEM_LAYER_NO_ATTENTION;
    OK(impmem_plan_memory(&f.input, &f.plan, NULL));
    assert_int_equal(f.plan.n_kv_groups, 0);
    impmem_engine *engine = house_open(&h, &f.plan);
    uint32_t token = 1;
    impmem_kv_request r = IMPMEM_KV_REQUEST_INIT;
    r.tokens = &token;
    r.n_tokens = 1;
    impmem_sequence seq;
    FAILS(impmem_engine_admit(engine, &r, &seq, NULL, NULL), IMPMEM_ERR_UNSUPPORTED);
    house_close(&h, &engine);
}

static void a_line_cannot_take_more_than_its_plan_says(void **state)
{
    (void)state;
    planned f;
    house h;
    planned_make_windowed(&f, 4);
    impmem_engine *engine = house_open(&h, &f.plan);
    impmem_model_span weights;
    impmem_engine_span gemm;
    uint64_t line_bytes = impmem_plan_find_line(&f.plan, IMPMEM_LINE_WEIGHTS)->bytes;
    FAILS(impmem_engine_take_model(engine, IMPMEM_LINE_WEIGHTS, line_bytes + 1, 256, &weights), IMPMEM_ERR_LINE_EXCEEDED);
    OK(impmem_engine_take_model(engine, IMPMEM_LINE_WEIGHTS, line_bytes, 256, &weights));
    FAILS(impmem_engine_take_model(engine, IMPMEM_LINE_WEIGHTS, 1, 256, &weights), IMPMEM_ERR_LINE_EXCEEDED);
    FAILS(impmem_engine_take_model(engine, DEMAND_GEMM, 1, 256, &weights), IMPMEM_ERR_UNPLANNED);
    OK(impmem_engine_take(engine, DEMAND_GEMM, 5 * IMPMEM_MIB, 256, &gemm));
    FAILS(impmem_engine_take(engine, DEMAND_CACHE, 1, 256, &gemm), IMPMEM_ERR_UNPLANNED);
    FAILS(impmem_engine_take(NULL, DEMAND_GEMM, 1, 256, &gemm), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_engine_take_model(engine, IMPMEM_LINE_WEIGHTS, 1, 256, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_engine_take_transient(NULL, DEMAND_UPLOAD, 1, 256, &gemm), IMPMEM_ERR_INVALID_ARGUMENT);
    house_close(&h, &engine);
}

static void what_cannot_belong_together_is_refused_by_name(void **state)
{
    (void)state;
    planned f;
    house h, other;
    planned_make_windowed(&f, 4);
    house_build(&h, &f.plan);
    house_build(&other, &f.plan);
    impmem_engine *engine = NULL;
    impmem_error why = IMPMEM_ERROR_INIT;
    FAILS(impmem_engine_open(NULL, &f.plan, &h.backends, &engine, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_engine_open(h.ledger, NULL, &h.backends, &engine, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_engine_open(h.ledger, &f.plan, NULL, &engine, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_engine_open(h.ledger, &f.plan, &other.backends, &engine, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(why.message, "another ledger"));
    impmem_engine_backends b = h.backends;
    b.pinned = NULL;
    FAILS(impmem_engine_open(h.ledger, &f.plan, &b, &engine, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(why.message, "pinned"));
    b = h.backends;
    b.fixed = h.pinned;
    FAILS(impmem_engine_open(h.ledger, &f.plan, &b, &engine, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(why.message, "account"));
    b = h.backends;
    b.grow = h.fixed;
    FAILS(impmem_engine_open(h.ledger, &f.plan, &b, &engine, &why), IMPMEM_ERR_NOT_GROWABLE);
    impmem_plan newer = f.plan;
    newer.version = 2;
    FAILS(impmem_engine_open(h.ledger, &newer, &h.backends, &engine, &why), IMPMEM_ERR_VERSION);
    newer = f.plan;
    newer.granule_bytes = 3 * IMPMEM_MIB;
    FAILS(impmem_engine_open(h.ledger, &newer, &h.backends, &engine, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(why.message, "granule"));
    newer = f.plan;
    newer.n_regions = IMPMEM_PLAN_MAX_REGIONS + 1;
    FAILS(impmem_engine_open(h.ledger, &newer, &h.backends, &engine, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_ledger_set_phase(h.ledger, IMPMEM_PHASE_PLANNING, NULL));
    FAILS(impmem_engine_open(h.ledger, &f.plan, &h.backends, &engine, &why), IMPMEM_ERR_PHASE_ORDER);
    FAILS(impmem_engine_end_loading(NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_engine_begin_serving(NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_null(engine);
    assert_null(impmem_engine_ledger(NULL));
    assert_null(impmem_engine_plan(NULL));
    assert_null(impmem_engine_scratch(NULL));
    house_clear(&h);
    house_clear(&other);
}

static void two_engines_live_side_by_side_in_one_process(void **state)
{
    (void)state;
    planned f;
    house a, b;
    planned_make_windowed(&f, 5);
    house_build(&a, &f.plan);
    house_build(&b, &f.plan);
    impmem_engine *ea = NULL, *eb = NULL;
    OK(impmem_engine_open(a.ledger, &f.plan, &a.backends, &ea, NULL));
    OK(impmem_engine_open(b.ledger, &f.plan, &b.backends, &eb, NULL));
    OK(impmem_engine_begin_serving(ea, NULL));
    assert_int_equal(impmem_ledger_phase(b.ledger), IMPMEM_PHASE_LOADING);
    OK(impmem_engine_close(&ea, NULL));
    OK(impmem_engine_begin_serving(eb, NULL));
    assert_journal_is(b.ledger, &f.plan, IMPMEM_LINE_TRANSIENT);
    uint32_t token = 7;
    impmem_kv_request r = IMPMEM_KV_REQUEST_INIT;
    r.tokens = &token;
    r.n_tokens = 1;
    impmem_sequence seq;
    OK(impmem_engine_admit(eb, &r, &seq, NULL, NULL));
    OK(impmem_engine_release(eb, &seq));
    OK(impmem_engine_close(&eb, NULL));
    house_clear(&a);
    house_clear(&b);
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
