/* Every input that is no plan is refused by the field's name, and nothing is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "unit/plan/shapes.h"

static dense_case c;
static impmem_plan plan;
static impmem_plan_failure failure;

static int start(void **state)
{
    (void)state;
    dense_case_init(&c, 32607);
    return 0;
}

static void refused(impmem_status expected, const char *subject)
{
    plan = (impmem_plan)IMPMEM_PLAN_INIT;
    failure = (impmem_plan_failure)IMPMEM_PLAN_FAILURE_INIT;
    assert_int_equal(impmem_plan_memory(&c.in, &plan, &failure), expected);
    assert_int_equal(failure.why.status, expected);
    assert_string_equal(failure.why.subject, subject);
    assert_int_not_equal(failure.why.message[0], 0);
    assert_int_equal(failure.n_levers, 0);
    assert_int_equal(failure.n_lines, 0);
    assert_int_equal(plan.n_lines, 0);
    assert_int_equal(impmem_plan_memory(&c.in, &plan, NULL), expected);
    assert_int_equal(impmem_plan_memory_only(&c.in, &plan, &failure), expected);
    dense_case_init(&c, 32607);
}

static void pointers_sizes_and_versions_are_checked(void **state)
{
    (void)state;
    plan = (impmem_plan)IMPMEM_PLAN_INIT;
    failure = (impmem_plan_failure)IMPMEM_PLAN_FAILURE_INIT;
    assert_int_equal(impmem_plan_memory(NULL, &plan, &failure), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_string_equal(failure.why.subject, "input");
    assert_int_equal(impmem_plan_memory(&c.in, NULL, &failure), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_string_equal(failure.why.subject, "out");
    plan.version = 2;
    assert_int_equal(impmem_plan_memory(&c.in, &plan, &failure), IMPMEM_ERR_VERSION);
    plan.version = 1;
    plan.size = 4;
    assert_int_equal(impmem_plan_memory(&c.in, &plan, &failure), IMPMEM_ERR_INVALID_ARGUMENT);
    plan = (impmem_plan)IMPMEM_PLAN_INIT;
    failure.version = 9;
    assert_int_equal(impmem_plan_memory(&c.in, &plan, &failure), IMPMEM_ERR_VERSION);
    assert_int_equal(plan.n_lines, 0);
    memset(&plan, 0, sizeof plan);
    memset(&failure, 0, sizeof failure);
    assert_int_equal(impmem_plan_memory(&c.in, &plan, &failure), IMPMEM_OK);
    assert_int_equal(plan.size, sizeof plan);
    c.in.version = 2;
    refused(IMPMEM_ERR_VERSION, "input");
    c.in.size -= 8;
    refused(IMPMEM_ERR_INVALID_ARGUMENT, "input");
    c.in.model = NULL;
    refused(IMPMEM_ERR_INVALID_ARGUMENT, "model");
    c.shape.version = 2;
    refused(IMPMEM_ERR_VERSION, "model");
    c.shape.layer[7].k_dim = 0;
    refused(IMPMEM_ERR_BAD_VALUE, "layer[7].k_dim");
}

static void values_out_of_range_are_named(void **state)
{
    (void)state;
    c.in.max_seq_tokens = 0;
    refused(IMPMEM_ERR_BAD_VALUE, "max_seq_tokens");
    static const uint32_t block[] = {1, 8, 15, 24, 100, 272, 512};
    for (size_t i = 0; i < sizeof block / sizeof block[0]; i++) {
        c.in.block_tokens = block[i];
        refused(IMPMEM_ERR_BAD_VALUE, "block_tokens");
    }
    static const uint32_t fine[] = {16, 32, 48, 64, 128, 256};
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        c.in.block_tokens = fine[i];
        assert_int_equal(impmem_plan_memory(&c.in, &plan, NULL), IMPMEM_OK);
    }
    c.in.kv_dtype_k = (impmem_dtype)16;
    refused(IMPMEM_ERR_BAD_VALUE, "kv_dtype_k");
    c.in.kv_dtype_v = (impmem_dtype)-1;
    refused(IMPMEM_ERR_BAD_VALUE, "kv_dtype_v");
    static const uint64_t granule[] = {1, 128, 300, 3 * MIB};
    for (size_t i = 0; i < sizeof granule / sizeof granule[0]; i++) {
        c.in.granule_bytes = granule[i];
        refused(IMPMEM_ERR_BAD_VALUE, "granule_bytes");
    }
    c.in.commit_chunk_bytes = UINT64_MAX;
    refused(IMPMEM_ERR_OVERFLOW, "commit_chunk_bytes");
    c.in.kv_initial_percent = 101;
    refused(IMPMEM_ERR_BAD_VALUE, "kv_initial_percent");
    c.in.n_demands = IMPMEM_PLAN_MAX_DEMANDS + 1;
    refused(IMPMEM_ERR_BAD_VALUE, "n_demands");
    c.in.demand = NULL;
    refused(IMPMEM_ERR_INVALID_ARGUMENT, "demand");
    /* 128 elements a head are 8 blocks of 16; 120 are none of 16. */
    c.in.kv_dtype_k = IMPMEM_DTYPE_NVFP4;
    c.shape.layer[4].k_dim = 120;
    refused(IMPMEM_ERR_BAD_VALUE, "kv_dtype");
}

static void demands_that_cannot_be_are_named(void **state)
{
    (void)state;
    static const struct {
        impmem_tier tier;
        uint32_t flags;
    } wrong[] = {
        {IMPMEM_TIER_POOL, 0},
        {IMPMEM_TIER_CONTROL, 0},
        {(impmem_tier)8, 0},
        {IMPMEM_TIER_MODEL, IMPMEM_LINE_DROPPED},
        {IMPMEM_TIER_MODEL, 16},
        {IMPMEM_TIER_SCRATCH, IMPMEM_LINE_TRANSIENT},
        {IMPMEM_TIER_PINNED, IMPMEM_LINE_TRANSIENT},
        {IMPMEM_TIER_STAGING, IMPMEM_LINE_TRANSIENT},
        {IMPMEM_TIER_CHARGE, IMPMEM_LINE_TRANSIENT},
        {IMPMEM_TIER_SCRATCH, IMPMEM_LINE_OPTIONAL},
        {IMPMEM_TIER_STAGING, IMPMEM_LINE_OPTIONAL},
        {IMPMEM_TIER_CHARGE, IMPMEM_LINE_OPTIONAL},
        {IMPMEM_TIER_MODEL, IMPMEM_LINE_OPTIONAL | IMPMEM_LINE_TRANSIENT},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        c.demand[1].tier = wrong[i].tier;
        c.demand[1].flags = wrong[i].flags;
        refused(IMPMEM_ERR_BAD_VALUE, "demand");
        assert_int_equal(failure.why.line, 2002);
    }
    c.demand[2].id = c.demand[0].id;
    refused(IMPMEM_ERR_BAD_VALUE, "demand");
    c.demand[1].id = IMPMEM_LINE_USER - 1;
    refused(IMPMEM_ERR_BAD_VALUE, "demand");
    c.demand[1].id = IMPMEM_NO_LINE;
    refused(IMPMEM_ERR_BAD_VALUE, "demand");
    c.demand[1].name[0] = 0;
    refused(IMPMEM_ERR_BAD_VALUE, "demand");
    memset(c.demand[1].name, 'n', sizeof c.demand[1].name);
    refused(IMPMEM_ERR_BAD_VALUE, "demand");
    memset(c.demand[1].how, 'h', sizeof c.demand[1].how);
    refused(IMPMEM_ERR_BAD_VALUE, "demand");
}

static impmem_status no_size(const void *context, const impmem_load *load, uint64_t *out)
{
    (void)context;
    (void)load;
    (void)out;
    return IMPMEM_ERR_UNSUPPORTED;
}

static void the_error_of_a_demands_size_is_handed_on(void **state)
{
    (void)state;
    c.demand[1].size = no_size;
    refused(IMPMEM_ERR_UNSUPPORTED, "persistent");
    assert_int_equal(failure.why.line, 2002);
}

static void sums_beyond_64_bits_are_errors(void **state)
{
    (void)state;
    c.demand[1].bytes = UINT64_MAX;
    refused(IMPMEM_ERR_OVERFLOW, "persistent");
    c.shape.weight_bytes = UINT64_MAX;
    refused(IMPMEM_ERR_OVERFLOW, "weight_bytes");
    c.in.context_bytes = UINT64_MAX;
    refused(IMPMEM_ERR_OVERFLOW, "plan");
    c.demand[1].bytes = UINT64_MAX - 1023;
    refused(IMPMEM_ERR_OVERFLOW, "plan");
    c.demand[2].bytes = UINT64_MAX - 1023;
    refused(IMPMEM_ERR_OVERFLOW, "plan");
    c.demand[2] = demand(2003, IMPMEM_TIER_CHARGE, 0, UINT64_MAX, "charge");
    refused(IMPMEM_ERR_OVERFLOW, "plan");
    c.demand[2] = demand(2003, IMPMEM_TIER_PINNED, 0, UINT64_MAX - 1023, "pinned");
    refused(IMPMEM_ERR_OVERFLOW, "plan");
    c.demand[2] = demand(2003, IMPMEM_TIER_STAGING, 0, UINT64_MAX, "staging");
    refused(IMPMEM_ERR_OVERFLOW, "plan");
    for (uint32_t i = 0; i < 36; i++) c.shape.layer[i].kv_heads = c.shape.layer[i].k_dim = UINT32_MAX;
    refused(IMPMEM_ERR_OVERFLOW, "layer");
    for (uint32_t i = 0; i < 36; i++)
        c.shape.layer[i] = (impmem_layer_shape){.kind = IMPMEM_LAYER_FULL, .kv_heads = 1u << 28, .k_dim = 1u << 28};
    refused(IMPMEM_ERR_OVERFLOW, "layer");
    c.in.prefix_cache_tokens = UINT64_MAX;
    refused(IMPMEM_ERR_BAD_VALUE, "blocks");
}

static void a_pool_has_fewer_than_2_to_the_31_blocks(void **state)
{
    (void)state;
    /* One layer, one element: blocks of 16 tokens that take 32 B, 256 with their stride. */
    assert_int_equal(impmem_shape_uniform_attention(&c.shape, 1, 1, 1, 0), IMPMEM_OK);
    c.in.budget_bytes = UINT64_MAX;
    c.in.max_batch = 1;
    c.in.max_seq_tokens = 16;
    c.in.prefix_cache_tokens = ((UINT64_C(1) << 31) - 3) * 16;
    plan = (impmem_plan)IMPMEM_PLAN_INIT;
    assert_int_equal(impmem_plan_memory(&c.in, &plan, NULL), IMPMEM_OK);
    assert_true(plan.kv_group[0].blocks == (UINT64_C(1) << 31) - 2);
    c.in.prefix_cache_tokens += 1;
    impmem_plan_input kept = c.in;
    refused(IMPMEM_ERR_BAD_VALUE, "blocks");
    /* Blocks and extra references are numbered together. */
    assert_int_equal(impmem_shape_uniform_attention(&c.shape, 1, 1, 1, 0), IMPMEM_OK);
    c.in = kept;
    c.in.prefix_cache_tokens = 0;
    c.in.extra_refs = UINT32_MAX - 2;
    assert_int_equal(impmem_plan_memory(&c.in, &plan, NULL), IMPMEM_OK);
    c.in.extra_refs = UINT32_MAX - 1;
    refused(IMPMEM_ERR_BAD_VALUE, "blocks");
}

static void more_than_a_plan_can_hold_is_refused(void **state)
{
    (void)state;
    /* 16 groups are the most: a full one and 15 windows. */
    for (uint32_t i = 0; i < 16; i++) window_layers(&c.shape, i, i + 1, 128 * (i + 1));
    impmem_plan_input kept = c.in;
    refused(IMPMEM_ERR_BAD_VALUE, "window_tokens");
    for (uint32_t i = 0; i < 15; i++) window_layers(&c.shape, i, i + 1, 128 * (i + 1));
    c.in = kept;
    plan = (impmem_plan)IMPMEM_PLAN_INIT;
    assert_int_equal(impmem_plan_memory(&c.in, &plan, NULL), IMPMEM_OK);
    assert_int_equal(plan.n_kv_groups, 16);
    /* 3 shared regions, 16 groups and 13 pinned ones make 32. */
    impmem_demand d[16];
    for (uint32_t i = 0; i < 14; i++) d[i] = demand(3000 + i, IMPMEM_TIER_PINNED, 0, 1, "pinned");
    d[14] = demand(2002, IMPMEM_TIER_ENGINE, 0, 1, "engine");
    d[15] = demand(2003, IMPMEM_TIER_SCRATCH, 0, 1, "scratch");
    c.in.demand = d + 1;
    c.in.n_demands = 15;
    plan = (impmem_plan)IMPMEM_PLAN_INIT;
    assert_int_equal(impmem_plan_memory(&c.in, &plan, NULL), IMPMEM_OK);
    assert_int_equal(plan.n_regions, 32);
    c.in.demand = d;
    c.in.n_demands = 16;
    refused(IMPMEM_ERR_BAD_VALUE, "demand");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(pointers_sizes_and_versions_are_checked, start),
        cmocka_unit_test_setup(values_out_of_range_are_named, start),
        cmocka_unit_test_setup(demands_that_cannot_be_are_named, start),
        cmocka_unit_test_setup(the_error_of_a_demands_size_is_handed_on, start),
        cmocka_unit_test_setup(sums_beyond_64_bits_are_errors, start),
        cmocka_unit_test_setup(a_pool_has_fewer_than_2_to_the_31_blocks, start),
        cmocka_unit_test_setup(more_than_a_plan_can_hold_is_refused, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
