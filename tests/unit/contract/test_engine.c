/* impmem/engine.h, as the header promises it. */
#include "support/engine_house.h"

static void null_arguments_are_refused_everywhere(void **state)
{
    (void)state;
    planned p;
    house h;
    impmem_error why;
    impmem_engine *engine = NULL, *never = NULL;
    impmem_model_span model;
    impmem_engine_span span;
    impmem_sequence seq = IMPMEM_SEQUENCE_NONE;
    impmem_kv_request request = IMPMEM_KV_REQUEST_INIT;
    planned_make(&p, 4);
    house_build(&h, &p.plan);
    const house_figures before = house_look(&h);
    const impmem_engine_backends none = {NULL, NULL, NULL};
    REFUSED(impmem_engine_open(NULL, &p.plan, &h.backends, &never, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_engine_open(h.ledger, NULL, &h.backends, &never, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_engine_open(h.ledger, &p.plan, NULL, &never, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_engine_open(h.ledger, &p.plan, &none, &never, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_engine_open(h.ledger, &p.plan, &h.backends, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    impmem_plan newer = p.plan;
    newer.version = 2;
    REFUSED(impmem_engine_open(h.ledger, &newer, &h.backends, &never, &why), IMPMEM_ERR_VERSION);
    /* Each backend in another's place. */
    impmem_engine_backends wrong = h.backends;
    wrong.fixed = h.pinned;
    REFUSED(impmem_engine_open(h.ledger, &p.plan, &wrong, &never, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    wrong = h.backends;
    wrong.pinned = h.fixed;
    REFUSED(impmem_engine_open(h.ledger, &p.plan, &wrong, &never, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    wrong.pinned = NULL;
    REFUSED(impmem_engine_open(h.ledger, &p.plan, &wrong, &never, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_null(never);
    assert_same_house(before, house_look(&h));
    REFUSED(impmem_engine_end_loading(NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_engine_begin_serving(NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_engine_close(NULL, NULL));
    OK(impmem_engine_close(&never, NULL));
    OK(impmem_engine_open(h.ledger, &p.plan, &h.backends, &engine, NULL));
    FAILS(impmem_engine_take_model(NULL, IMPMEM_LINE_WEIGHTS, 1, 0, &model), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_engine_take_model(engine, IMPMEM_LINE_WEIGHTS, 1, 0, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_engine_take(engine, DEMAND_GEMM, 0, 0, &span), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_engine_take(engine, IMPMEM_LINE_WEIGHTS, 1, 0, &span), IMPMEM_ERR_UNPLANNED);
    FAILS(impmem_engine_take_model(engine, DEMAND_GEMM, 1, 0, &model), IMPMEM_ERR_UNPLANNED);
    FAILS(impmem_engine_take_transient(engine, DEMAND_UPLOAD, 1, 0, &span), IMPMEM_ERR_UNPLANNED);
    REFUSED(impmem_engine_admit(NULL, &request, &seq, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_engine_admit(engine, NULL, &seq, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_engine_admit(engine, &request, NULL, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_engine_release(NULL, &seq), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_engine_release(engine, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_engine_release(engine, &seq)); /* none */
    FAILS(impmem_engine_drain(NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_engine_resume(NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_null(impmem_engine_kv_pool(engine, 1));
    assert_null(impmem_engine_kv_pool(engine, UINT32_MAX));
    assert_non_null(impmem_engine_kv_pool(engine, 0));
    assert_null(impmem_engine_pinned(engine, 999999).object_);
    assert_non_null(impmem_pinned_data(impmem_engine_pinned(engine, DEMAND_PINNED)));
    OK(impmem_engine_close(&engine, NULL));
    assert_null(engine);
    assert_same_house(before, house_look(&h));
    house_clear(&h);
}

static impmem_kv_request request_of(const uint32_t *tokens, uint32_t n)
{
    impmem_kv_request r = IMPMEM_KV_REQUEST_INIT;
    r.tokens = tokens;
    r.n_tokens = n;
    r.max_new_tokens = 100;
    return r;
}

/* The whole life, and in it not one acquisition after loading. */
static void serving_acquires_nothing(void **state)
{
    (void)state;
    planned p;
    house h;
    impmem_engine *engine = NULL;
    uint32_t tokens[500];
    planned_make(&p, 5);
    house_build(&h, &p.plan);
    const house_figures before = house_look(&h);
    OK(impmem_engine_open(h.ledger, &p.plan, &h.backends, &engine, NULL));
    impmem_error why;
    impmem_sequence seq[3], extra = IMPMEM_SEQUENCE_NONE, copy;
    const impmem_kv_request first = request_of(tokens, 10);
    memset(tokens, 0, sizeof tokens);
    REFUSED(impmem_engine_admit(engine, &first, &extra, NULL, &why),
            IMPMEM_ERR_STATE); /* KV waits for the end of loading */
    impmem_model_span weights;
    impmem_engine_span gemm, upload;
    OK(impmem_engine_take_model(engine, IMPMEM_LINE_WEIGHTS, p.shape.weight_bytes, 256, &weights));
    FAILS(impmem_engine_take_model(engine, IMPMEM_LINE_WEIGHTS, 256, 256, &weights), IMPMEM_ERR_LINE_EXCEEDED);
    OK(impmem_engine_take(engine, DEMAND_GEMM, 5 * IMPMEM_MIB + 77, 256, &gemm));
    OK(impmem_engine_take_transient(engine, DEMAND_UPLOAD, 7 * IMPMEM_MIB + 5, 0, &upload));
    OK(impmem_engine_end_loading(engine, NULL));
    REFUSED(impmem_engine_end_loading(engine, &why), IMPMEM_ERR_PHASE_ORDER);
    FAILS(impmem_span_check(h.ledger, impmem_stable(upload)), IMPMEM_ERR_STALE);
    OK(impmem_span_check(h.ledger, impmem_stable(gemm)));
    FAILS(impmem_engine_take_transient(engine, DEMAND_UPLOAD, 1, 0, &upload), IMPMEM_ERR_UNPLANNED);
    OK(impmem_engine_begin_serving(engine, NULL));
    OK(impmem_engine_begin_serving(engine, NULL));
    const uint64_t end = impmem_ledger_journal_end(h.ledger);
    for (uint32_t round = 0; round < 50; round++) {
        for (uint32_t i = 0; i < 500; i++) tokens[i] = i < 100 ? i : i * 7919u + round;
        for (unsigned s = 0; s < 3; s++) {
            impmem_kv_admission a;
            const impmem_kv_request r = request_of(tokens, 300 + 50 * s);
            OK(impmem_engine_admit(engine, &r, &seq[s], &a, NULL));
            OK(impmem_kv_append(impmem_engine_kv(engine), seq[s], r.n_tokens - a.cached_tokens));
            OK(impmem_kv_publish(impmem_engine_kv(engine), seq[s], tokens, r.n_tokens));
        }
        const impmem_kv_request r = request_of(tokens, 300);
        REFUSED(impmem_engine_admit(engine, &r, &extra, NULL, &why), IMPMEM_ERR_CAPACITY); /* max_batch is 3 */
        assert_false(impmem_engine_is_idle(engine));
        impmem_scratch *scratch = impmem_engine_scratch(engine);
        for (unsigned step = 0; step < 100; step++) {
            impmem_scratch_mark mark = impmem_scratch_push(scratch);
            impmem_scratch_span q;
            OK(impmem_scratch_take(scratch, 100000 + step, 256, &q));
            for (unsigned s = 0; s < 3; s++) OK(impmem_kv_append(impmem_engine_kv(engine), seq[s], 1));
            OK(impmem_scratch_pop(scratch, mark));
        }
        for (unsigned s = 0; s < 3; s++) {
            copy = seq[s];
            OK(impmem_engine_release(engine, &seq[s]));
            OK(impmem_engine_release(engine, &seq[s]));
            FAILS(impmem_engine_release(engine, &copy), IMPMEM_ERR_STALE);
        }
        OK(impmem_kv_check(impmem_engine_kv(engine), NULL));
    }
    assert_true(impmem_engine_is_idle(engine));
    assert_int_equal(impmem_ledger_journal_end(h.ledger), end);
    assert_int_equal(impmem_ledger_serving_acquisitions(h.ledger), 0);
    assert_int_equal(impmem_ledger_unplanned_bytes(h.ledger), 0);
    for (uint64_t i = impmem_ledger_journal_first(h.ledger); i < end; i++) {
        impmem_journal_record record;
        OK(impmem_ledger_journal_read(h.ledger, i, &record));
        if (record.op == IMPMEM_JOURNAL_ACQUIRE) assert_true(record.phase != IMPMEM_PHASE_SERVING);
    }
    const impmem_kv_request r = request_of(tokens, 300);
    OK(impmem_engine_drain(engine));
    OK(impmem_engine_drain(engine));
    REFUSED(impmem_engine_admit(engine, &r, &extra, NULL, &why), IMPMEM_ERR_STATE);
    OK(impmem_engine_resume(engine));
    OK(impmem_engine_admit(engine, &r, &extra, NULL, NULL));
    const house_figures whole = house_look(&h);
    REFUSED(impmem_engine_close(&engine, &why), IMPMEM_ERR_LIVE_HOLDERS);
    assert_same_house(whole, house_look(&h));
    OK(impmem_engine_release(engine, &extra));
    OK(impmem_engine_close(&engine, NULL)); /* cached blocks hold nothing open */
    assert_same_house(before, house_look(&h));
    house_clear(&h);
}

/* Nothing goes while a graph is captured, so nothing of the engine may be half gone either. */
static void closing_while_capturing_closes_nothing(void **state)
{
    (void)state;
    planned p;
    house h;
    impmem_error why;
    impmem_engine *engine = NULL;
    impmem_model_span weights;
    impmem_sequence seq;
    uint32_t tokens[40] = {1, 2, 3};
    planned_make(&p, 4);
    engine = house_open(&h, &p.plan);
    OK(impmem_engine_take_model(engine, IMPMEM_LINE_WEIGHTS, 1000, 256, &weights));
    OK(impmem_engine_begin_serving(engine, NULL));
    impmem_engine *open = engine;
    OK(impmem_ledger_capture_begin(h.ledger));
    const house_figures whole = house_look(&h);
    REFUSED(impmem_engine_close(&engine, &why), IMPMEM_ERR_CAPTURING);
    assert_ptr_equal(engine, open);
    assert_same_house(whole, house_look(&h));
    OK(impmem_span_check(h.ledger, impmem_stable(weights)));
    assert_non_null(impmem_engine_kv(engine));
    assert_non_null(impmem_engine_scratch(engine));
    assert_non_null(impmem_engine_kv_pool(engine, 0));
    REFUSED(impmem_engine_end_loading(engine, &why), IMPMEM_ERR_PHASE_ORDER);
    OK(impmem_ledger_capture_end(h.ledger));
    const impmem_kv_request r = request_of(tokens, 40);
    OK(impmem_engine_admit(engine, &r, &seq, NULL, NULL));
    OK(impmem_engine_release(engine, &seq));
    house_close(&h, &engine);
}

/* Every release in turn fails: close says so, and the next try ends what the first began. */
static void a_close_that_a_driver_refuses_can_be_tried_again(void **state)
{
    (void)state;
    for (unsigned which = 0; which < 3; which++) {
        for (uint64_t n = 1; n < 8; n++) {
            planned p;
            house h;
            impmem_error why = IMPMEM_ERROR_INIT;
            impmem_engine *engine = NULL;
            planned_make(&p, 4);
            house_build(&h, &p.plan);
            const house_figures before = house_look(&h);
            OK(impmem_engine_open(h.ledger, &p.plan, &h.backends, &engine, NULL));
            impmem_fake *fake = which == 0 ? h.fake : which == 1 ? h.fake_grow : h.fake_pinned;
            impmem_fake_fail_nth_release(fake, n, IMPMEM_FAIL_ONCE);
            const impmem_status st = impmem_engine_close(&engine, &why);
            if (st) {
                assert_int_equal(st, IMPMEM_ERR_DRIVER);
                assert_int_equal(why.status, st);
                assert_non_null(engine);
                assert_null(strstr(why.message, "somebody else"));
                OK(impmem_engine_close(&engine, NULL));
            }
            assert_null(engine);
            assert_same_house(before, house_look(&h));
            house_clear(&h);
            if (!st) break;
            assert_true(n < 7);
        }
    }
}

static void end_loading_while_capturing_changes_nothing(void **state)
{
    (void)state;
    planned p;
    house h;
    impmem_error why;
    impmem_engine *engine = NULL;
    impmem_engine_span upload;
    planned_make(&p, 5);
    engine = house_open(&h, &p.plan);
    OK(impmem_engine_take_transient(engine, DEMAND_UPLOAD, 1000, 0, &upload));
    OK(impmem_ledger_capture_begin(h.ledger));
    const house_figures whole = house_look(&h);
    REFUSED(impmem_engine_end_loading(engine, &why), IMPMEM_ERR_CAPTURING);
    assert_same_house(whole, house_look(&h));
    OK(impmem_span_check(h.ledger, impmem_stable(upload)));
    OK(impmem_ledger_capture_end(h.ledger));
    OK(impmem_engine_end_loading(engine, NULL));
    house_close(&h, &engine);
}

/* Every host allocation and every backend call of end_loading fails in turn: still loading, and the next try works. */
static void end_loading_that_fails_anywhere_can_be_tried_again(void **state)
{
    (void)state;
    for (unsigned which = 0; which < 2; which++) {
        unsigned failures = 0;
        for (uint64_t n = 1;; n++) {
            planned p;
            house h;
            impmem_error why = IMPMEM_ERROR_INIT;
            impmem_engine *engine = NULL;
            impmem_model_span weights;
            planned_make(&p, 5);
            house_build(&h, &p.plan);
            const house_figures before = house_look(&h);
            OK(impmem_engine_open(h.ledger, &p.plan, &h.backends, &engine, NULL));
            OK(impmem_engine_take_model(engine, IMPMEM_LINE_WEIGHTS, 1000, 256, &weights));
            if (which == 0) h.host.fail_in = n;
            else impmem_fake_fail_nth(h.fake, n, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, IMPMEM_FAIL_ONCE);
            const impmem_status st = impmem_engine_end_loading(engine, &why);
            h.host.fail_in = 0;
            if (st) {
                failures++;
                assert_int_equal(st, which ? IMPMEM_ERR_OUT_OF_DEVICE_MEMORY : IMPMEM_ERR_OUT_OF_HOST_MEMORY);
                assert_int_equal(why.status, st);
                assert_int_equal(impmem_ledger_phase(h.ledger), IMPMEM_PHASE_LOADING);
                assert_null(impmem_engine_kv(engine));
                assert_journal_agrees(h.ledger);
                OK(impmem_span_check(h.ledger, impmem_stable(weights)));
                OK(impmem_engine_begin_serving(engine, NULL));
            }
            assert_non_null(impmem_engine_kv(engine));
            assert_int_equal(impmem_ledger_unplanned_bytes(h.ledger), 0);
            OK(impmem_engine_close(&engine, NULL));
            assert_same_house(before, house_look(&h));
            house_clear(&h);
            if (!st) break;
            assert_true(n < 64);
        }
        assert_true(failures >= 1);
    }
}

/* Load-only memory that survives stops the phase, not the engine. */
static void live_staging_keeps_the_engine_loading_until_it_is_closed(void **state)
{
    (void)state;
    planned p;
    house h;
    impmem_error why;
    impmem_engine *engine = NULL;
    impmem_staging *staging = NULL;
    planned_make(&p, 5);
    house_build(&h, &p.plan);
    const house_figures before = house_look(&h);
    OK(impmem_engine_open(h.ledger, &p.plan, &h.backends, &engine, NULL));
    OK(impmem_staging_open(h.ledger, "upload", IMPMEM_NO_LINE, 1000, &staging, NULL));
    REFUSED(impmem_engine_begin_serving(engine, &why), IMPMEM_ERR_STAGING_LIVE);
    assert_int_equal(impmem_ledger_phase(h.ledger), IMPMEM_PHASE_LOADING);
    impmem_staging_close(&staging);
    OK(impmem_engine_begin_serving(engine, NULL));
    assert_int_equal(impmem_ledger_phase(h.ledger), IMPMEM_PHASE_SERVING);
    assert_non_null(impmem_engine_kv(engine));
    OK(impmem_engine_close(&engine, NULL));
    assert_same_house(before, house_look(&h));
    house_clear(&h);
}

/* A slot of state that is held or only promised keeps the whole engine, not a part of it. */
static void slots_of_state_keep_the_engine_whole(void **state)
{
    (void)state;
    planned p;
    house h;
    impmem_error why;
    planned_input(&p, 4);
    p.shape.layer[0].recurrent = IMPMEM_RECURRENT_MAMBA;
    p.shape.layer[0].conv_kernel = 4;
    p.shape.layer[0].conv_channels = 512;
    p.shape.layer[0].state_elements = 512 * 16;
    planned_again(&p);
    impmem_engine *engine = house_open(&h, &p.plan);
    impmem_block_pool *pool = impmem_engine_state_pool(engine, 0);
    assert_non_null(pool);
    assert_null(impmem_engine_state_pool(engine, p.plan.n_state_pools));
    assert_null(impmem_engine_state_pool(engine, UINT32_MAX));
    const house_figures whole = house_look(&h);
    impmem_block_ref slot;
    OK(impmem_block_take(pool, IMPMEM_HOLDER_SEQUENCE, 1, &slot));
    REFUSED(impmem_engine_close(&engine, &why), IMPMEM_ERR_LIVE_HOLDERS);
    assert_non_null(impmem_engine_kv(engine));
    OK(impmem_block_drop(pool, &slot));
    OK(impmem_block_pool_reserve(pool, 1));
    REFUSED(impmem_engine_close(&engine, &why), IMPMEM_ERR_LIVE_HOLDERS);
    assert_non_null(impmem_engine_kv(engine));
    assert_same_house(whole, house_look(&h));
    OK(impmem_block_pool_unreserve(pool, 1));
    house_close(&h, &engine);
}

/* The engine's buffer, closed by its user: said once, and no reason to stay open for good. */
static void a_pinned_buffer_that_somebody_else_closed_is_told_once(void **state)
{
    (void)state;
    planned p;
    house h;
    impmem_error why;
    planned_make(&p, 4);
    impmem_engine *engine = house_open(&h, &p.plan);
    impmem_pinned buffer = impmem_engine_pinned(engine, DEMAND_PINNED);
    OK(impmem_pinned_close(&buffer));
    REFUSED(impmem_engine_close(&engine, &why), IMPMEM_ERR_STALE);
    assert_non_null(engine);
    house_close(&h, &engine);
}

/* A plan is plain data: its counts may be anything. */
static void a_plan_with_absurd_counts_opens_nothing(void **state)
{
    (void)state;
    planned p;
    house h;
    impmem_error why;
    impmem_engine *engine = NULL;
    planned_make(&p, 4);
    house_build(&h, &p.plan);
    const house_figures before = house_look(&h);
    for (unsigned which = 0; which < 6; which++) {
        impmem_plan plan = p.plan;
        if (which == 0) plan.n_lines = IMPMEM_PLAN_MAX_LINES + 1;
        if (which == 1) plan.n_regions = IMPMEM_PLAN_MAX_REGIONS + 1;
        if (which == 2) plan.n_kv_groups = UINT32_MAX;
        if (which == 3) plan.n_kv_sides = IMPMEM_PLAN_MAX_KV_SIDES + 1;
        if (which == 4) plan.n_state_pools = UINT32_MAX;
        if (which == 5) {
            plan.n_kv_sides = 1;
            plan.kv_side[0].region = IMPMEM_PLAN_MAX_REGIONS;
        }
        REFUSED(impmem_engine_open(h.ledger, &plan, &h.backends, &engine, &why), IMPMEM_ERR_INVALID_ARGUMENT);
        assert_null(engine);
        assert_same_house(before, house_look(&h));
    }
    house_clear(&h);
}

/* Two engines with the same plan and seed in one process: what fails, fills or closes in one leaves the other alone. */
static void two_engines_share_nothing(void **state)
{
    (void)state;
    planned p;
    house h[2];
    impmem_engine *engine[2] = {NULL, NULL}, *never = NULL;
    impmem_sequence seq[2];
    impmem_model_span weights[2];
    impmem_error why;
    uint32_t tokens[100];
    for (uint32_t i = 0; i < 100; i++) tokens[i] = i;
    const impmem_kv_request r = request_of(tokens, 100);
    planned_make(&p, 4);
    for (unsigned i = 0; i < 2; i++) house_build(&h[i], &p.plan);
    REFUSED(impmem_engine_open(h[0].ledger, &p.plan, &h[1].backends, &never, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_null(never);
    for (unsigned i = 0; i < 2; i++) {
        OK(impmem_engine_open(h[i].ledger, &p.plan, &h[i].backends, &engine[i], NULL));
        OK(impmem_engine_take_model(engine[i], IMPMEM_LINE_WEIGHTS, 1000, 256, &weights[i]));
        OK(impmem_engine_begin_serving(engine[i], NULL));
        OK(impmem_engine_admit(engine[i], &r, &seq[i], NULL, NULL));
    }
    const house_figures second = house_look(&h[1]);
    FAILS(impmem_span_check(h[1].ledger, impmem_stable(weights[0])), IMPMEM_ERR_FORGED);
    OK(impmem_ledger_capture_begin(h[0].ledger));
    OK(impmem_ledger_capture_end(h[0].ledger));
    OK(impmem_engine_drain(engine[0]));
    OK(impmem_engine_release(engine[0], &seq[0]));
    OK(impmem_engine_close(&engine[0], NULL));
    assert_same_house(second, house_look(&h[1]));
    OK(impmem_kv_append(impmem_engine_kv(engine[1]), seq[1], 100));
    OK(impmem_kv_publish(impmem_engine_kv(engine[1]), seq[1], tokens, 100));
    OK(impmem_span_check(h[1].ledger, impmem_stable(weights[1])));
    OK(impmem_engine_release(engine[1], &seq[1]));
    OK(impmem_engine_close(&engine[1], NULL));
    for (unsigned i = 0; i < 2; i++) house_clear(&h[i]);
}

/* Opened too late, on a ledger that has moved on, or while it captures. */
static void an_engine_opens_while_loading_only(void **state)
{
    (void)state;
    planned p;
    house h;
    impmem_error why;
    impmem_engine *engine = NULL;
    planned_make(&p, 4);
    house_build(&h, &p.plan);
    const house_figures before = house_look(&h);
    OK(impmem_ledger_capture_begin(h.ledger));
    REFUSED(impmem_engine_open(h.ledger, &p.plan, &h.backends, &engine, &why), IMPMEM_ERR_CAPTURING);
    OK(impmem_ledger_capture_end(h.ledger));
    OK(impmem_ledger_set_phase(h.ledger, IMPMEM_PHASE_PLANNING, NULL));
    REFUSED(impmem_engine_open(h.ledger, &p.plan, &h.backends, &engine, &why), IMPMEM_ERR_PHASE_ORDER);
    OK(impmem_ledger_set_phase(h.ledger, IMPMEM_PHASE_SERVING, NULL));
    REFUSED(impmem_engine_open(h.ledger, &p.plan, &h.backends, &engine, &why), IMPMEM_ERR_PHASE_ORDER);
    assert_null(engine);
    assert_same_house(before, house_look(&h));
    house_clear(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_arguments_are_refused_everywhere),
        cmocka_unit_test(serving_acquires_nothing),
        cmocka_unit_test(closing_while_capturing_closes_nothing),
        cmocka_unit_test(a_close_that_a_driver_refuses_can_be_tried_again),
        cmocka_unit_test(end_loading_while_capturing_changes_nothing),
        cmocka_unit_test(end_loading_that_fails_anywhere_can_be_tried_again),
        cmocka_unit_test(live_staging_keeps_the_engine_loading_until_it_is_closed),
        cmocka_unit_test(slots_of_state_keep_the_engine_whole),
        cmocka_unit_test(a_pinned_buffer_that_somebody_else_closed_is_told_once),
        cmocka_unit_test(a_plan_with_absurd_counts_opens_nothing),
        cmocka_unit_test(two_engines_share_nothing),
        cmocka_unit_test(an_engine_opens_while_loading_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
