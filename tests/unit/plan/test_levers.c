/* Levers of refused plans: each fits when it is applied, one step less doesn't, and none changes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "unit/plan/shapes.h"

static refused_case c;
static impmem_plan plan;
static impmem_plan_failure failure;

static int start(void **state)
{
    (void)state;
    refused_case_init(&c);
    return 0;
}

static impmem_status run(void)
{
    plan = (impmem_plan)IMPMEM_PLAN_INIT;
    failure = (impmem_plan_failure)IMPMEM_PLAN_FAILURE_INIT;
    return impmem_plan_memory(&c.in, &plan, &failure);
}

static const impmem_lever *lever_of(impmem_lever_kind kind)
{
    for (uint32_t i = 0; i < failure.n_levers; i++)
        if (failure.lever[i].kind == kind) return &failure.lever[i];
    return NULL;
}

static void check(impmem_lever_kind kind, uint64_t from, uint64_t to, uint64_t frees_mib, const char *flag,
                  const char *change)
{
    const impmem_lever *lever = lever_of(kind);
    assert_non_null(lever);
    assert_int_equal(lever->from, from);
    assert_int_equal(lever->to, to);
    assert_true(lever->frees_bytes == frees_mib * MIB);
    assert_string_equal(lever->flag, flag);
    assert_string_equal(lever->change, change);
}

static bool fits_now(const impmem_plan_input *in)
{
    plan = (impmem_plan)IMPMEM_PLAN_INIT;
    return impmem_plan_memory_only(in, &plan, NULL) == IMPMEM_OK;
}

/* The reference engine's own refusal; its printed levers halved the context and offered batch 6, which frees too little. */
static void the_known_refusal_has_its_exact_arithmetic_and_levers(void **state)
{
    (void)state;
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    assert_true(failure.requested_bytes == 35952 * MIB);
    assert_true(failure.budget_bytes == 32607 * MIB);
    assert_true(failure.over_bytes == 3345 * MIB);
    uint64_t kv = 0;
    for (uint32_t i = 0; i < failure.n_lines; i++)
        if (failure.line[i].id == IMPMEM_LINE_KV) kv = failure.line[i].bytes;
    assert_true(kv == 12288 * MIB);
    check(IMPMEM_LEVER_CONTEXT, 4096, 2976, 3360, "--max-seq-len 2976", "4096 -> 2976");
    check(IMPMEM_LEVER_KV_DTYPE, IMPMEM_DTYPE_F16, IMPMEM_DTYPE_FP8_E4M3, 6144, "--kv-dtype fp8", "f16 -> fp8");
    check(IMPMEM_LEVER_BATCH, 8, 5, 4608, "--max-batch 5", "8 -> 5");
    /* 6 MiB a block: 558 blocks of 2048 must go, 1490 are 23,840 tokens. */
    check(IMPMEM_LEVER_PROMISE, 32768, 23840, 3348, "--promised-kv-tokens 23840", "32768 -> 23840");
    check(IMPMEM_LEVER_BUDGET, 32607 * MIB, 35952 * MIB, 3345, "--budget 35952MiB", "32607MiB -> 35952MiB");
    assert_null(lever_of(IMPMEM_LEVER_PREFILL));
    assert_null(lever_of(IMPMEM_LEVER_BLOCK));
    /* For one of the two fp8 frees 3072, too little; nvfp4 leaves 9/32 of its 6144, 1728. */
    check(IMPMEM_LEVER_V_DTYPE, IMPMEM_DTYPE_F16, IMPMEM_DTYPE_NVFP4, 6144 - 1728, "--kv-dtype f16,nvfp4",
          "f16 -> f16,nvfp4");
    check(IMPMEM_LEVER_K_DTYPE, IMPMEM_DTYPE_F16, IMPMEM_DTYPE_NVFP4, 6144 - 1728, "--kv-dtype nvfp4,f16",
          "f16 -> nvfp4,f16");
    assert_int_equal(failure.n_levers, 7);
    assert_int_equal(failure.lever[6].kind, IMPMEM_LEVER_BUDGET);
    for (uint32_t i = 1; i < 6; i++) assert_true(failure.lever[i - 1].frees_bytes >= failure.lever[i].frees_bytes);
    assert_int_equal(failure.sequences_at_max, 5);
}

static void each_lever_fits_and_one_step_less_does_not(void **state)
{
    (void)state;
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    impmem_plan_input in = c.in;
    in.max_seq_tokens = 2976;
    assert_true(fits_now(&in));
    assert_true(plan.total_bytes[IMPMEM_ACCOUNT_DEVICE] == lever_of(IMPMEM_LEVER_CONTEXT)->total_bytes);
    assert_true(plan.total_bytes[IMPMEM_ACCOUNT_DEVICE] == (35952 - 3360) * MIB);
    in.max_seq_tokens = 2976 + 16;
    assert_false(fits_now(&in));
    in = c.in;
    in.max_batch = 5;
    assert_true(fits_now(&in));
    in.max_batch = 6;
    assert_false(fits_now(&in));
    in = c.in;
    in.promised_kv_tokens = 23840;
    assert_true(fits_now(&in));
    in.promised_kv_tokens = 23841;
    assert_false(fits_now(&in));
    in = c.in;
    in.kv_dtype_k = in.kv_dtype_v = IMPMEM_DTYPE_FP8_E4M3;
    assert_true(fits_now(&in));
    in = c.in;
    in.budget_bytes = 35952 * MIB;
    assert_true(fits_now(&in));
    in.budget_bytes -= 1;
    assert_false(fits_now(&in));
}

static void the_search_without_levers_says_the_same_of_the_refusal(void **state)
{
    (void)state;
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    impmem_plan_failure *only = malloc(sizeof *only);
    assert_non_null(only);
    *only = (impmem_plan_failure)IMPMEM_PLAN_FAILURE_INIT;
    assert_int_equal(impmem_plan_memory_only(&c.in, &plan, only), IMPMEM_ERR_DOES_NOT_FIT);
    assert_int_equal(only->n_levers, 0);
    assert_memory_equal(only->line, failure.line, sizeof only->line);
    assert_true(only->requested_bytes == failure.requested_bytes);
    free(only);
}

static void a_type_in_force_is_never_offered_and_a_smaller_one_is(void **state)
{
    (void)state;
    /* FP8 takes 29808 in all; NVFP4 9/16 of 6144 = 3456, 27120. */
    c.in.kv_dtype_k = c.in.kv_dtype_v = IMPMEM_DTYPE_FP8_E4M3;
    c.in.budget_bytes = 27120 * MIB;
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    check(IMPMEM_LEVER_KV_DTYPE, IMPMEM_DTYPE_FP8_E4M3, IMPMEM_DTYPE_NVFP4, 6144 - 3456, "--kv-dtype nvfp4",
          "fp8 -> nvfp4");
    /* From f16 too, when FP8 isn't enough. */
    c.in.kv_dtype_k = c.in.kv_dtype_v = IMPMEM_DTYPE_F16;
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    check(IMPMEM_LEVER_KV_DTYPE, IMPMEM_DTYPE_F16, IMPMEM_DTYPE_NVFP4, 12288 - 3456, "--kv-dtype nvfp4", "f16 -> nvfp4");
    /* Heads of 136 are no multiple of 16: neither NVFP4 nor MXFP4 can hold them, INT4 can: 68 + 2 B of 272. */
    assert_int_equal(impmem_shape_uniform_attention(&c.shape, 48, 16, 136, 136), IMPMEM_OK);
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    /* 48 x 16 heads x (136 + 136) x 2 B x 32,768 tokens = 13,056 MiB; INT4 takes 70/272 of that, 3,360. */
    check(IMPMEM_LEVER_KV_DTYPE, IMPMEM_DTYPE_F16, IMPMEM_DTYPE_INT4, 13056 - 3360, "--kv-dtype int4", "f16 -> int4");
    /* The smallest there is: nothing to offer. */
    c.in.kv_dtype_k = c.in.kv_dtype_v = IMPMEM_DTYPE_INT4;
    c.in.budget_bytes = 26000 * MIB;
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    assert_null(lever_of(IMPMEM_LEVER_KV_DTYPE));
}

static void k_and_v_of_unlike_types_are_both_named(void **state)
{
    (void)state;
    c.in.kv_dtype_v = IMPMEM_DTYPE_FP8_E4M3; /* KV 9216, 32880 in all */
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    check(IMPMEM_LEVER_KV_DTYPE, IMPMEM_DTYPE_F16, IMPMEM_DTYPE_FP8_E4M3, 9216 - 6144, "--kv-dtype fp8", "f16,fp8 -> fp8");
}

static impmem_status mib_per_token(const void *context, const impmem_load *load, uint64_t *out)
{
    (void)context;
    *out = load->tokens * MIB;
    return IMPMEM_OK;
}

static void prefill_is_a_lever_where_a_demand_depends_on_it(void **state)
{
    (void)state;
    c.demand[1].size = mib_per_token; /* 4096 MiB instead of 507: over by 6934 */
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    assert_true(failure.over_bytes == 6934 * MIB);
    assert_null(lever_of(IMPMEM_LEVER_PREFILL)); /* even 16 tokens free only 4080 */
    c.in.budget_bytes += 5000 * MIB;             /* over by 1934: 4096 - 1934 = 2162, 2160 in whole blocks */
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    check(IMPMEM_LEVER_PREFILL, 4096, 2160, 1936, "--prefill-tokens 2160", "4096 -> 2160");
    impmem_plan_input in = c.in;
    in.prefill_tokens = 2160;
    assert_true(fits_now(&in));
    in.prefill_tokens = 2176;
    assert_false(fits_now(&in));
}

/* 8 sequences of 4100 tokens: 257 blocks of 16 are 4112 tokens each, 17 blocks of 256 are 4352. */
static void the_block_size_is_a_lever_where_it_wastes(void **state)
{
    (void)state;
    c.in.max_seq_tokens = 4100;
    c.in.block_tokens = 256;
    c.in.budget_bytes = (35952 - 12288 + 3 * 4224) * MIB; /* KV of 4224 tokens a sequence: 33 blocks of 128 */
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    const impmem_lever *lever = lever_of(IMPMEM_LEVER_BLOCK);
    assert_non_null(lever);
    /* 240: 18 blocks, 4320; 224: 19, 4256; 208: 20, 4160 fits. */
    check(IMPMEM_LEVER_BLOCK, 256, 208, 3 * (4352 - 4160), "--block-size 208", "256 -> 208");
    impmem_plan_input in = c.in;
    in.block_tokens = 208;
    assert_true(fits_now(&in));
    in.block_tokens = 224;
    assert_false(fits_now(&in));
}

static void a_budget_that_is_no_whole_mib_is_given_in_bytes(void **state)
{
    (void)state;
    c.in.granule_bytes = 4096;
    c.in.context_bytes += 1;
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    const impmem_lever *lever = lever_of(IMPMEM_LEVER_BUDGET);
    assert_non_null(lever);
    assert_true(lever->to == 35952 * MIB + 4096);
    assert_string_equal(lever->flag, "--budget 37698408448"); /* 35952 x 1,048,576 + 4096 */
    assert_int_equal(failure.lever[failure.n_levers - 1].kind, IMPMEM_LEVER_BUDGET);
}

static void weights_that_never_fit_leave_only_the_budget(void **state)
{
    (void)state;
    c.shape.weight_bytes = 40000 * MIB;
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    assert_int_equal(failure.n_levers, 1);
    assert_int_equal(failure.lever[0].kind, IMPMEM_LEVER_BUDGET);
    assert_true(failure.lever[0].frees_bytes == failure.over_bytes);
    c.in.budget_bytes = 0;
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    assert_int_equal(failure.n_levers, 1);
    assert_string_equal(failure.lever[0].change, "0 -> 60485MiB");
}

static impmem_plan_features features;

static void use_features(void)
{
    features = (impmem_plan_features)IMPMEM_PLAN_FEATURES_INIT;
    c.in.features = &features;
}

static void a_draft_can_be_left_out(void **state)
{
    (void)state;
    static impmem_model_shape draft;
    dense_shape(&draft); /* 4076 MiB, and 36 of its layers beside 48 of twice as many heads */
    use_features();
    c.in.budget_bytes = 35952 * MIB; /* what the rest needs to the byte */
    assert_int_equal(run(), IMPMEM_OK);
    features.draft = &draft;
    features.draft_tokens = 4;
    features.rollback_copies = UINT32_MAX;
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    const impmem_lever *lever = lever_of(IMPMEM_LEVER_DRAFT);
    assert_non_null(lever);
    assert_string_equal(lever->flag, "--no-draft");
    assert_string_equal(lever->change, "on -> off");
    assert_true(lever->frees_bytes == failure.over_bytes);
    assert_true(lever->total_bytes == 35952 * MIB);
    features.draft_tokens = 0;
    c.in.budget_bytes -= 1;
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    assert_null(lever_of(IMPMEM_LEVER_DRAFT)); /* it is off already */
}

static void a_vision_tower_can_be_left_out(void **state)
{
    (void)state;
    use_features();
    c.shape.vision_apart = 1;
    c.shape.vision_weight_bytes = 800 * MIB;
    c.shape.vision_tokens = 256;
    c.in.budget_bytes = 35952 * MIB;
    features.vision_images = 1;
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    const impmem_lever *lever = lever_of(IMPMEM_LEVER_VISION);
    assert_non_null(lever);
    assert_string_equal(lever->flag, "--no-vision");
    assert_true(lever->frees_bytes == 800 * MIB);
    features.vision_images = 0;
    c.in.budget_bytes -= 1;
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    assert_null(lever_of(IMPMEM_LEVER_VISION));
}

static void more_devices_are_a_lever_where_they_are_at_hand(void **state)
{
    (void)state;
    use_features();
    c.shape.n_heads = 16;
    features.tp_devices = 8;
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    assert_null(lever_of(IMPMEM_LEVER_TP)); /* nobody said what their exchange takes */
    features.communication_bytes = 100 * MIB;
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    const impmem_lever *lever = lever_of(IMPMEM_LEVER_TP);
    assert_non_null(lever);
    assert_int_equal(lever->to, 2);
    assert_string_equal(lever->flag, "--tp 2");
    /* Half of weights and KV go: 15467 / 2 rounded up to MiB, 12288 / 2. */
    assert_true(lever->total_bytes == (7734 + 6144 + 1800 + 507 + 310 + 1680 + 3900 + 100) * MIB);
    features.tp_devices = 1;
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    assert_null(lever_of(IMPMEM_LEVER_TP));
}

/* Room for 100 MiB of KV beside 23664: one sequence of 4096 tokens is 192 even as int4, and 8 sequences of one block are 48
 * as f16, so context alone is a lever; where state of 20 MiB a sequence is added, only few sequences of a short context
 * fit. */
static void two_changes_are_offered_where_one_is_not_enough(void **state)
{
    (void)state;
    use_features();
    for (uint32_t i = 0; i < 8; i++) {
        c.shape.layer[i].recurrent = IMPMEM_RECURRENT_SHORT_CONV;
        c.shape.layer[i].conv_kernel = 2;
        c.shape.layer[i].conv_channels = 2621440 / 4; /* 2.5 MiB a layer in f32 */
    }
    c.in.budget_bytes = (23664 + 100) * MIB;
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    assert_int_equal(failure.n_levers, 2);
    const impmem_lever *pair = &failure.lever[0];
    assert_int_equal(pair->kind, IMPMEM_LEVER_BATCH);
    assert_int_equal(pair->second, IMPMEM_LEVER_CONTEXT);
    /* One sequence: 80 MiB, 13 blocks of 6; two: 60, 5 blocks each; four: 20, none. The product is largest for one. */
    assert_int_equal(pair->to, 1);
    assert_int_equal(pair->second_to, 13 * 16);
    assert_string_equal(pair->flag, "--max-batch 1 --max-seq-len 208");
    assert_string_equal(pair->change, "8 -> 1, 4096 -> 208");
    static impmem_plan_features changed;
    impmem_plan_input in = c.in;
    assert_int_equal(impmem_lever_apply(pair, &in, &changed), IMPMEM_OK);
    assert_true(fits_now(&in));
    assert_true(plan.total_bytes[IMPMEM_ACCOUNT_DEVICE] == pair->total_bytes);
    assert_int_equal(failure.n_conflict, 0);
    assert_int_equal(failure.least_bytes, 0);
}

static void where_nothing_helps_the_fewest_lines_in_the_way_are_named(void **state)
{
    (void)state;
    c.in.budget_bytes = 17000 * MIB;
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    assert_int_equal(failure.n_levers, 1);
    /* One block of int4: 48 layers x 16 tokens x 16 heads x 2 x 66 B = 1.55 MiB, in granules of one: 2. */
    assert_true(failure.least_bytes == (23664 + 2) * MIB);
    assert_true(failure.gap_bytes == (6664 + 2) * MIB);
    assert_int_equal(failure.n_conflict, 2);
    assert_int_equal(failure.conflict[0].line, IMPMEM_LINE_WEIGHTS);
    assert_true(failure.conflict[0].bytes == 15467 * MIB);
    assert_int_equal(failure.conflict[1].line, IMPMEM_LINE_LIBRARY);
    assert_string_equal(failure.conflict[1].name, "library reserve");
}

static uint32_t plans;

static impmem_status count_plans(const void *context, const impmem_load *load, uint64_t *out)
{
    (void)context;
    (void)load;
    plans++;
    *out = 4096;
    return IMPMEM_OK;
}

/* Each plan asks a demand for its size once. What the searches can take at most, wherever they end: halvings of 2^31 tokens in
 * blocks of 16 (27) for context and prefill, of 2^20 sequences (20), of a promise of 2^50 tokens (46); 15 block sizes either
 * way, 63 devices, 4 types four times for each of K, V and both; 8 first changes with a context and a batch each; and 20 for
 * what is on or off and for what conflicts. At 20 us a plan that is 14 ms. */
static void a_whole_report_takes_a_bounded_number_of_plans(void **state)
{
    (void)state;
    use_features();
    static impmem_model_shape draft;
    draft = c.shape;
    impmem_demand counted = demand(5000, IMPMEM_TIER_ENGINE, 0, 0, "counted");
    counted.size = count_plans;
    c.in.demand = &counted;
    c.in.n_demands = 1;
    c.in.max_batch = 1u << 12;
    c.in.max_seq_tokens = 1u << 22; /* 2^30 blocks: no more can be numbered */
    c.in.prefill_tokens = 1u << 22;
    features.draft = &draft;
    features.draft_tokens = 4;
    features.tp_devices = 64;
    features.communication_bytes = MIB;
    c.shape.vision_tokens = 256;
    c.shape.vision_image_size = 896;
    features.vision_images = 1;
    uint32_t most = 0;
    /* From nothing to what a single sequence needs, so that the searches end at every depth. */
    for (uint32_t step = 0; step < 240; step++) {
        plans = 0;
        c.in.budget_bytes = (UINT64_C(4) + step % 4) << step / 4; /* four between two powers of two */
        impmem_status st = run();
        assert_true(st == IMPMEM_ERR_DOES_NOT_FIT || st == IMPMEM_OK || st == IMPMEM_ERR_BAD_VALUE);
        if (plans > most) most = plans;
    }
    assert_true(most > 64);
    assert_true(most <= 27 + 27 + 20 + 46 + 30 + 63 + 48 + 8 * 50 + 20);
}

static void only_changes_that_there_are_can_be_applied(void **state)
{
    (void)state;
    static impmem_plan_features changed;
    impmem_lever lever = {.kind = IMPMEM_LEVER_NONE};
    impmem_plan_input in = c.in;
    assert_int_equal(impmem_lever_apply(&lever, &in, &changed), IMPMEM_ERR_BAD_VALUE);
    lever.kind = IMPMEM_LEVER_TP;
    assert_int_equal(impmem_lever_apply(&lever, &in, &changed), IMPMEM_ERR_BAD_VALUE);
    lever.kind = IMPMEM_LEVER_BATCH;
    lever.to = 3;
    lever.second = IMPMEM_LEVER_TP;
    assert_int_equal(impmem_lever_apply(&lever, &in, &changed), IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(in.max_batch, 8);
    lever.second = IMPMEM_LEVER_NONE;
    assert_int_equal(impmem_lever_apply(NULL, &in, &changed), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_lever_apply(&lever, NULL, &changed), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_lever_apply(&lever, &in, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_lever_apply(&lever, &in, &changed), IMPMEM_OK);
    assert_int_equal(in.max_batch, 3);
    assert_ptr_equal(in.features, &changed);
    assert_int_equal(impmem_lever_apply(&lever, &in, &changed), IMPMEM_OK); /* onto itself */
    assert_true(fits_now(&in));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_known_refusal_has_its_exact_arithmetic_and_levers, start),
        cmocka_unit_test_setup(each_lever_fits_and_one_step_less_does_not, start),
        cmocka_unit_test_setup(the_search_without_levers_says_the_same_of_the_refusal, start),
        cmocka_unit_test_setup(a_type_in_force_is_never_offered_and_a_smaller_one_is, start),
        cmocka_unit_test_setup(k_and_v_of_unlike_types_are_both_named, start),
        cmocka_unit_test_setup(prefill_is_a_lever_where_a_demand_depends_on_it, start),
        cmocka_unit_test_setup(the_block_size_is_a_lever_where_it_wastes, start),
        cmocka_unit_test_setup(a_budget_that_is_no_whole_mib_is_given_in_bytes, start),
        cmocka_unit_test_setup(weights_that_never_fit_leave_only_the_budget, start),
        cmocka_unit_test_setup(a_draft_can_be_left_out, start),
        cmocka_unit_test_setup(a_vision_tower_can_be_left_out, start),
        cmocka_unit_test_setup(more_devices_are_a_lever_where_they_are_at_hand, start),
        cmocka_unit_test_setup(two_changes_are_offered_where_one_is_not_enough, start),
        cmocka_unit_test_setup(where_nothing_helps_the_fewest_lines_in_the_way_are_named, start),
        cmocka_unit_test_setup(a_whole_report_takes_a_bounded_number_of_plans, start),
        cmocka_unit_test_setup(only_changes_that_there_are_can_be_applied, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
