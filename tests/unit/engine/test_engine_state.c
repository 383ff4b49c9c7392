/* Pools of state and the memory beside KV blocks: opened as planned, held against closing, and gone afterwards. */
#include "support/engine_house.h"

#include "impmem/features.h"
#include "impmem/plan_search.h"

typedef struct rich {
    planned p;
    impmem_plan_features features;
} rich;

/* Recurrent layers, a draft, key bounds, a residual ring, scales apart. */
static void plan_rich(rich *r, uint32_t initial_percent)
{
    planned_input(&r->p, 5);
    r->features = (impmem_plan_features)IMPMEM_PLAN_FEATURES_INIT;
    r->features.draft_tokens = 2;
    r->features.key_bounds = 1;
    r->features.scales_apart = 1;
    r->features.residual_tokens = 16;
    r->features.logit_rows = 4;
    r->p.shape.draft_layers = 1;
    r->p.shape.layer[0] = (impmem_layer_shape){.kind = IMPMEM_LAYER_NO_ATTENTION,
                                               .recurrent = IMPMEM_RECURRENT_MAMBA,
                                               .conv_kernel = 4,
                                               .conv_channels = 100,
                                               .state_elements = 1600};
    r->p.input.kv_dtype_k = r->p.input.kv_dtype_v = IMPMEM_DTYPE_INT8;
    r->p.input.features = &r->features;
    r->p.input.kv_initial_percent = initial_percent;
    planned_again(&r->p);
    assert_int_equal(r->p.plan.n_kv_sides, 3);
    assert_int_equal(r->p.plan.n_state_pools, 3);
}

static void everything_planned_is_opened_to_the_byte(rich *r)
{
    house h;
    impmem_engine *engine = house_open(&h, &r->p.plan);
    assert_null(impmem_engine_state_pool(engine, 0)); /* it waits for the memory of the load */
    assert_null(impmem_engine_kv_side(engine, 0));
    OK(impmem_engine_end_loading(engine, NULL));
    impmem_usage usage;
    impmem_ledger_account_usage(h.ledger, IMPMEM_ACCOUNT_DEVICE, &usage);
    if (r->p.input.kv_initial_percent == 0)
        assert_int_equal(usage.committed_bytes, r->p.plan.total_bytes[IMPMEM_ACCOUNT_DEVICE]);
    assert_true(usage.committed_bytes <= r->p.plan.total_bytes[IMPMEM_ACCOUNT_DEVICE]);
    assert_int_equal(impmem_ledger_unplanned_bytes(h.ledger), 0);
    for (uint32_t i = 0; i < 3; i++) {
        const impmem_state_pool *slots = &r->p.plan.state_pool[i];
        impmem_block_pool_stats stats;
        impmem_block_pool_query(impmem_engine_state_pool(engine, i), &stats);
        assert_int_equal(stats.total_blocks, slots->slots);
        assert_int_equal(stats.stride_bytes, slots->stride_bytes);
        const impmem_kv_side *side = &r->p.plan.kv_side[i];
        assert_int_equal(impmem_region_committed_bytes(impmem_engine_kv_side(engine, i)),
                         r->p.plan.region[side->region].bytes);
    }
    assert_null(impmem_engine_state_pool(engine, 3));
    assert_null(impmem_engine_kv_side(engine, 3));
    house_close(&h, &engine);
}

static void pools_of_state_and_sides_are_opened_as_planned(void **state)
{
    (void)state;
    rich r;
    plan_rich(&r, 0);
    everything_planned_is_opened_to_the_byte(&r);
    plan_rich(&r, 25);
    everything_planned_is_opened_to_the_byte(&r);
}

static void a_slot_that_is_held_keeps_the_engine_open(void **state)
{
    (void)state;
    rich r;
    house h;
    plan_rich(&r, 0);
    impmem_engine *engine = house_open(&h, &r.p.plan);
    OK(impmem_engine_begin_serving(engine, NULL));
    impmem_block_pool *pool = impmem_engine_state_pool(engine, 0);
    impmem_block_ref slot;
    OK(impmem_block_take(pool, IMPMEM_HOLDER_SEQUENCE, 7, &slot));
    assert_false(impmem_engine_is_idle(engine));
    const house_figures before = house_look(&h);
    FAILS(impmem_engine_close(&engine, NULL), IMPMEM_ERR_LIVE_HOLDERS);
    const house_figures after = house_look(&h);
    assert_memory_equal(&before, &after, sizeof before);
    OK(impmem_block_drop(pool, &slot));
    assert_true(impmem_engine_is_idle(engine));
    house_close(&h, &engine);
}

static uint64_t live_slots(const impmem_engine *engine, uint32_t pool)
{
    impmem_block_pool_stats stats;
    impmem_block_pool_query(impmem_engine_state_pool(engine, pool), &stats);
    assert_int_equal(stats.reserved_blocks, 0);
    return stats.live_blocks;
}

static impmem_kv_request request_of(const uint32_t *tokens, uint32_t n, uint64_t owner)
{
    impmem_kv_request r = IMPMEM_KV_REQUEST_INIT;
    r.tokens = tokens;
    r.n_tokens = n;
    r.owner = owner;
    return r;
}

static void a_sequence_gets_a_slot_of_every_pool_that_has_one_for_it(void **state)
{
    (void)state;
    rich r;
    house h;
    plan_rich(&r, 0);
    impmem_engine *engine = house_open(&h, &r.p.plan);
    OK(impmem_engine_begin_serving(engine, NULL));
    const uint32_t tokens[20] = {5};
    const impmem_kv_request request = request_of(tokens, 20, 77);
    impmem_sequence seq[3];
    for (int i = 0; i < 3; i++) OK(impmem_engine_admit(engine, &request, &seq[i], NULL, NULL));
    uint32_t theirs = 0;
    for (uint32_t i = 0; i < r.p.plan.n_state_pools; i++) {
        impmem_block_span at[3];
        if (r.p.plan.state_pool[i].kind == IMPMEM_STATE_ROLLBACK) {
            FAILS(impmem_engine_state_slot(engine, seq[0], i, &at[0]), IMPMEM_ERR_NOT_FOUND);
            assert_int_equal(live_slots(engine, i), 0);
            continue;
        }
        theirs++;
        assert_int_equal(live_slots(engine, i), 3);
        for (int s = 0; s < 3; s++) {
            OK(impmem_engine_state_slot(engine, seq[s], i, &at[s]));
            OK(impmem_span_check(h.ledger, impmem_stable(at[s])));
        }
        assert_ptr_not_equal(impmem_stable_data(impmem_stable(at[0])), impmem_stable_data(impmem_stable(at[1])));
        assert_ptr_not_equal(impmem_stable_data(impmem_stable(at[1])), impmem_stable_data(impmem_stable(at[2])));
    }
    assert_true(theirs >= 2); /* recurrent state and the residual ring */
    impmem_block_span none;
    FAILS(impmem_engine_state_slot(engine, seq[0], r.p.plan.n_state_pools, &none), IMPMEM_ERR_NOT_FOUND);
    FAILS(impmem_engine_state_slot(NULL, seq[0], 0, &none), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_engine_state_slot(engine, seq[0], 0, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    const impmem_sequence gone = seq[1];
    for (int i = 0; i < 3; i++) OK(impmem_engine_release(engine, &seq[i]));
    for (uint32_t i = 0; i < r.p.plan.n_state_pools; i++) assert_int_equal(live_slots(engine, i), 0);
    FAILS(impmem_engine_state_slot(engine, gone, 0, &none), IMPMEM_ERR_STALE);
    house_close(&h, &engine);
}

static void a_request_that_finds_no_slot_changes_nothing(void **state)
{
    (void)state;
    rich r;
    house h;
    plan_rich(&r, 0);
    impmem_engine *engine = house_open(&h, &r.p.plan);
    OK(impmem_engine_begin_serving(engine, NULL));
    const uint32_t tokens[20] = {5};
    const impmem_kv_request request = request_of(tokens, 20, 1);
    for (uint32_t pool = 0; pool < r.p.plan.n_state_pools; pool++) {
        if (r.p.plan.state_pool[pool].kind == IMPMEM_STATE_ROLLBACK) continue;
        impmem_block_ref held[16];
        const uint32_t slots = r.p.plan.state_pool[pool].slots;
        OK(impmem_block_take_many(impmem_engine_state_pool(engine, pool), IMPMEM_HOLDER_OTHER, 0, slots, held));
        impmem_sequence seq;
        FAILS(impmem_engine_admit(engine, &request, &seq, NULL, NULL), IMPMEM_ERR_CAPACITY);
        impmem_kv_stats kv;
        impmem_kv_query(impmem_engine_kv(engine), &kv);
        assert_int_equal(kv.sequences, 0);
        for (uint32_t i = 0; i < r.p.plan.n_state_pools; i++)
            assert_int_equal(live_slots(engine, i), i == pool ? slots : 0);
        OK(impmem_block_drop_many(impmem_engine_state_pool(engine, pool), held, slots, NULL));
        OK(impmem_engine_admit(engine, &request, &seq, NULL, NULL));
        OK(impmem_engine_release(engine, &seq));
    }
    /* And the other way round: KV refuses, the slots go back. */
    static const uint32_t too_long[1001] = {9};
    const impmem_kv_request never = request_of(too_long, 1001, 2);
    impmem_sequence seq;
    FAILS(impmem_engine_admit(engine, &never, &seq, NULL, NULL), IMPMEM_ERR_NEVER_FITS);
    for (uint32_t i = 0; i < r.p.plan.n_state_pools; i++) assert_int_equal(live_slots(engine, i), 0);
    house_close(&h, &engine);
}

static void what_the_certificate_says_is_served_and_one_token_more_is_not(void **state)
{
    (void)state;
    planned p;
    house h;
    impmem_plan_features features = IMPMEM_PLAN_FEATURES_INIT;
    features.null_blocks = 1;
    features.spare_blocks = 2;
    features.fenced_blocks = 3;
    planned_input(&p, 4);
    p.input.features = &features;
    p.input.max_batch = 1;
    p.input.max_seq_tokens = 1000;
    planned_again(&p);
    assert_int_equal(p.plan.kv_group[0].reserved_blocks, 6);
    assert_int_equal(p.plan.kv_group[0].blocks, 63 + 6); /* ceil(1000 / 16) and what is set apart */
    /* A plan whose pool is smaller than the context: the blocks end first. */
    p.plan.kv_group[0].blocks = 40;
    impmem_servable most;
    FAILS(impmem_plan_servable(&p.plan, 1000, 0, &most), IMPMEM_ERR_NEVER_FITS);
    assert_int_equal(most.most_tokens, (40 - 6) * 16);
    impmem_engine *engine = house_open(&h, &p.plan);
    OK(impmem_engine_begin_serving(engine, NULL));
    static const uint32_t tokens[1000] = {3};
    impmem_kv_request request = request_of(tokens, (uint32_t)most.most_tokens, 1);
    impmem_sequence seq;
    impmem_kv_admission a;
    OK(impmem_engine_admit(engine, &request, &seq, &a, NULL));
    OK(impmem_kv_append(impmem_engine_kv(engine), seq, (uint32_t)most.most_tokens));
    OK(impmem_engine_release(engine, &seq));
    request.max_new_tokens = 1;
    FAILS(impmem_engine_admit(engine, &request, &seq, &a, NULL), IMPMEM_ERR_NEVER_FITS);
    assert_int_equal(a.most_tokens, most.most_tokens);
    house_close(&h, &engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pools_of_state_and_sides_are_opened_as_planned),
        cmocka_unit_test(a_slot_that_is_held_keeps_the_engine_open),
        cmocka_unit_test(a_sequence_gets_a_slot_of_every_pool_that_has_one_for_it),
        cmocka_unit_test(a_request_that_finds_no_slot_changes_nothing),
        cmocka_unit_test(what_the_certificate_says_is_served_and_one_token_more_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
