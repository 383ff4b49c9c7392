/* Pools of state and the memory beside KV blocks: opened as planned, held against closing, and gone afterwards. */
#include "support/engine_house.h"

#include "impmem/features.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pools_of_state_and_sides_are_opened_as_planned),
        cmocka_unit_test(a_slot_that_is_held_keeps_the_engine_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
