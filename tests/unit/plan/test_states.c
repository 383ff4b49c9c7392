/* State pools and what lies beside KV blocks: sizes from published geometry, pools in the plan, refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "unit/plan/shapes.h"

static impmem_model_shape shape;
static impmem_plan_features features;
static impmem_plan_input in;
static impmem_plan plan;
static impmem_plan_failure failure;

static int start(void **state)
{
    (void)state;
    shape = (impmem_model_shape)IMPMEM_MODEL_SHAPE_INIT;
    features = (impmem_plan_features)IMPMEM_PLAN_FEATURES_INIT;
    in = (impmem_plan_input)IMPMEM_PLAN_INPUT_INIT;
    in.model = &shape;
    in.features = &features;
    in.budget_bytes = 64 * IMPMEM_GIB;
    in.max_batch = 64;
    in.max_seq_tokens = 4096;
    return 0;
}

static impmem_status run(void)
{
    plan = (impmem_plan)IMPMEM_PLAN_INIT;
    failure = (impmem_plan_failure)IMPMEM_PLAN_FAILURE_INIT;
    return impmem_plan_memory(&in, &plan, &failure);
}

static uint64_t line_bytes(impmem_line_id id)
{
    const impmem_line *line = impmem_plan_find_line(&plan, id);
    return line ? line->bytes : 0;
}

static const impmem_state_pool *pool_of(impmem_state_kind kind)
{
    for (uint32_t i = 0; i < plan.n_state_pools; i++)
        if (plan.state_pool[i].kind == (uint32_t)kind) return &plan.state_pool[i];
    return NULL;
}

/* Qwen3.8-27B: 64 layers, every fourth of full attention (4 KV heads of 256), the others gated delta net: convolution of
 * width 4 over 10,240 channels, 48 heads of 128 x 128. */
static void hybrid_shape(void)
{
    assert_int_equal(impmem_shape_uniform_attention(&shape, 64, 4, 256, 256), IMPMEM_OK);
    for (uint32_t i = 0; i < 64; i++) {
        if (i % 4 == 3) continue;
        shape.layer[i] = (impmem_layer_shape){.kind = IMPMEM_LAYER_NO_ATTENTION,
                                              .recurrent = IMPMEM_RECURRENT_DELTA_NET,
                                              .conv_kernel = 4,
                                              .conv_channels = 10240,
                                              .state_elements = 48 * 128 * 128};
    }
}

static void measured_hybrid(void)
{
    hybrid_shape();
    features.state_dtype = IMPMEM_DTYPE_F16;
    features.conv_width = IMPMEM_CONV_FULL;
}

static void a_measured_hybrid_takes_79_5_mib_a_sequence(void **state)
{
    (void)state;
    measured_hybrid();
    assert_int_equal(run(), IMPMEM_OK);
    const impmem_state_pool *pool = pool_of(IMPMEM_STATE_RECURRENT);
    assert_non_null(pool);
    assert_int_equal(pool->slots, 64);
    assert_int_equal(pool->n_layers, 48);
    assert_true(pool->stride_bytes * 10 == 795 * MIB);
    assert_true(line_bytes(pool->line) == 5088 * MIB);
    assert_int_equal(plan.region[pool->region].tier, IMPMEM_TIER_POOL);
    assert_int_equal(plan.region[pool->region].line, pool->line);
    assert_int_equal(impmem_plan_find_line(&plan, pool->line)->tag, IMPMEM_TAG_RECURRENT_STATE);
    /* The form that leaves the oldest column out: 48 x (10240 x 3 x 4 + 1,572,864) = 77.625 MiB, 4968 in all. */
    features.conv_width = IMPMEM_CONV_NEEDED;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(line_bytes(IMPMEM_LINE_STATE) == 4968 * MIB);
}

static void slots_of_whole_pages_can_be_committed_one_by_one(void **state)
{
    (void)state;
    measured_hybrid();
    features.state_page_rounding = 1;
    in.max_batch = 28;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(line_bytes(IMPMEM_LINE_STATE) == 2240 * MIB); /* 28 slots of 80 */
    features.state_page_rounding = 0;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(line_bytes(IMPMEM_LINE_STATE) == 2226 * MIB);
}

static void state_does_not_grow_with_the_context(void **state)
{
    (void)state;
    measured_hybrid();
    in.budget_bytes = 512 * IMPMEM_GIB;
    assert_int_equal(run(), IMPMEM_OK);
    const uint64_t before = line_bytes(IMPMEM_LINE_STATE), kv = line_bytes(IMPMEM_LINE_KV);
    in.max_seq_tokens *= 4;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(line_bytes(IMPMEM_LINE_STATE) == before);
    assert_true(line_bytes(IMPMEM_LINE_KV) == 4 * kv);
}

static void copies_exist_only_where_drafts_are_on(void **state)
{
    (void)state;
    measured_hybrid();
    shape.draft_layers = 1;
    in.max_batch = 4;
    features.state_spare_slots = 2;
    assert_int_equal(run(), IMPMEM_OK);
    assert_int_equal(plan.n_state_pools, 1);
    assert_int_equal(pool_of(IMPMEM_STATE_RECURRENT)->slots, 6);
    features.draft_tokens = 3;
    assert_int_equal(run(), IMPMEM_OK);
    assert_int_equal(pool_of(IMPMEM_STATE_RECURRENT)->slots, 6);
    assert_int_equal(pool_of(IMPMEM_STATE_ROLLBACK)->slots, 4 * 3);
    features.rollback_copies = 1;
    assert_int_equal(run(), IMPMEM_OK);
    assert_int_equal(pool_of(IMPMEM_STATE_ROLLBACK)->slots, 4);
    features.rollback_copies = UINT32_MAX;
    assert_int_equal(run(), IMPMEM_OK);
    assert_null(pool_of(IMPMEM_STATE_ROLLBACK));
}

static void snapshots_are_whole_slots_within_their_budget(void **state)
{
    (void)state;
    measured_hybrid();
    features.snapshot_budget_bytes = 256 * MIB;
    assert_int_equal(run(), IMPMEM_OK);
    assert_int_equal(pool_of(IMPMEM_STATE_SNAPSHOT)->slots, 3); /* of 79.5 */
    features.snapshot_budget_bytes = 79 * MIB;
    assert_int_equal(run(), IMPMEM_OK);
    assert_null(pool_of(IMPMEM_STATE_SNAPSHOT));
}

static void cross_attention_is_kept_for_each_sequence(void **state)
{
    (void)state;
    /* 8 of 40 layers look at an image of 1601 x 4 tokens: 6404 x 8 x (128 + 128) x 2 B = 26,230,784 each, 102464 x 256. */
    assert_int_equal(impmem_shape_uniform_attention(&shape, 40, 8, 128, 128), IMPMEM_OK);
    in.max_batch = 2;
    assert_int_equal(run(), IMPMEM_OK);
    const uint64_t all = line_bytes(IMPMEM_LINE_KV);
    for (uint32_t i = 3; i < 40; i += 5) {
        shape.layer[i].kind = IMPMEM_LAYER_CROSS;
        shape.layer[i].cross_tokens = 6404;
    }
    assert_int_equal(run(), IMPMEM_OK);
    const impmem_state_pool *pool = pool_of(IMPMEM_STATE_CROSS);
    assert_non_null(pool);
    assert_int_equal(pool->n_layers, 8);
    assert_int_equal(pool->slots, 2);
    assert_true(pool->slot_bytes == (uint64_t)8 * 6404 * 8 * 256 * 2);
    assert_true(line_bytes(IMPMEM_LINE_KV) == all / 40 * 32);
    in.kv_dtype_k = in.kv_dtype_v = IMPMEM_DTYPE_FP8_E4M3;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(pool_of(IMPMEM_STATE_CROSS)->slot_bytes == (uint64_t)8 * 6404 * 8 * 256);
}

static void a_residual_ring_holds_the_newest_tokens_in_two_bytes(void **state)
{
    (void)state;
    dense_shape(&shape);
    in.max_batch = 8;
    in.kv_dtype_k = in.kv_dtype_v = IMPMEM_DTYPE_NVFP4;
    features.residual_tokens = 32;
    assert_int_equal(run(), IMPMEM_OK);
    const impmem_state_pool *pool = pool_of(IMPMEM_STATE_RESIDUAL_RING);
    assert_non_null(pool);
    assert_int_equal(pool->slots, 8);
    /* A slot's ring, and five words of 4 bytes that say where it begins and ends. */
    assert_true(pool->slot_bytes == (uint64_t)36 * 2 * 32 * 8 * 128 * 2 + 256);
    assert_int_equal(impmem_plan_find_line(&plan, pool->line)->tag, IMPMEM_TAG_RESIDUAL_RING);
}

/* Measured on the same model with NVFP4 KV in blocks of 16: scales of 13,258 blocks take 414.3 MiB, all of them from the
 * start although a quarter of KV is committed. */
static void scales_of_a_growing_pool_are_there_at_its_ceiling(void **state)
{
    (void)state;
    measured_hybrid();
    in.kv_dtype_k = in.kv_dtype_v = IMPMEM_DTYPE_NVFP4;
    in.kv_initial_percent = 25;
    in.max_batch = 1;
    in.max_seq_tokens = 13258 * 16;
    features.scales_apart = 1;
    assert_int_equal(run(), IMPMEM_OK);
    assert_int_equal(plan.n_kv_sides, 1);
    const impmem_kv_side *side = &plan.kv_side[0];
    assert_int_equal(side->kind, IMPMEM_KV_SIDE_SCALES);
    assert_true(side->block_bytes == 16 * 2 * 16 * 4 * 256 / 16);
    assert_true(line_bytes(side->line) == (uint64_t)13258 * 32768); /* 414.3125 MiB */
    assert_int_equal(plan.region[side->region].growable, 0);
    assert_int_equal(plan.region[plan.kv_group[0].region].growable, 1);
    const uint64_t payload = plan.kv_group[0].block_bytes;
    features.scales_apart = 0;
    assert_int_equal(run(), IMPMEM_OK);
    assert_int_equal(plan.n_kv_sides, 0);
    assert_true(plan.kv_group[0].block_bytes == payload + 32768);
}

static void scales_and_payload_are_the_block_for_every_type(void **state)
{
    (void)state;
    static const struct {
        impmem_dtype dtype;
        uint64_t scales; /* K and V of 16 tokens, 8 heads of 128 */
    } known[] = {{IMPMEM_DTYPE_F16, 0},
                 {IMPMEM_DTYPE_FP8_E4M3, 0},
                 {IMPMEM_DTYPE_INT8, 2 * 16 * 8 * 2},
                 {IMPMEM_DTYPE_INT4, 512},
                 {IMPMEM_DTYPE_Q8_0, 0},
                 {IMPMEM_DTYPE_NVFP4, 2 * 16 * 8 * 8},
                 {IMPMEM_DTYPE_MXFP4, 2 * 16 * 8 * 4}};
    const impmem_layer_shape layer = {.kind = IMPMEM_LAYER_FULL, .kv_heads = 8, .k_dim = 128, .v_dim = 128};
    uint64_t bytes;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_int_equal(impmem_size_kv_scales_layer(&layer, known[i].dtype, known[i].dtype, 16, &bytes), IMPMEM_OK);
        assert_true(bytes == known[i].scales);
    }
    assert_int_equal(impmem_size_kv_scales_layer(NULL, IMPMEM_DTYPE_F16, IMPMEM_DTYPE_F16, 16, &bytes),
                     IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_size_kv_scales_layer(&layer, IMPMEM_DTYPE_F16, IMPMEM_DTYPE_F16, 16, NULL),
                     IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_size_kv_scales_layer(&layer, IMPMEM_DTYPE_F16, IMPMEM_DTYPE_F16, 0, &bytes),
                     IMPMEM_ERR_BAD_VALUE);
}

/* DeepSeek-V3.2: 61 latent layers of 512 + 64, and an indexer's key of 128 for each: 128 B fp8 and one fp32 scale. */
static void indexer_keys_are_part_of_a_block(void **state)
{
    (void)state;
    assert_int_equal(impmem_shape_uniform_attention(&shape, 61, 1, 576, 0), IMPMEM_OK);
    for (uint32_t i = 0; i < 61; i++) shape.layer[i].kind = IMPMEM_LAYER_LATENT;
    in.max_batch = 1;
    in.block_tokens = 64;
    assert_int_equal(run(), IMPMEM_OK);
    const uint64_t latent = plan.kv_group[0].block_bytes;
    assert_true(latent == (uint64_t)61 * 64 * 576 * 2);
    for (uint32_t i = 0; i < 61; i++) shape.layer[i].index_dim = 128;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(plan.kv_group[0].block_bytes == latent + (uint64_t)61 * 64 * 132);
    features.index_dtype = IMPMEM_DTYPE_BF16;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(plan.kv_group[0].block_bytes == latent + (uint64_t)61 * 64 * 256);
    features.index_dtype = IMPMEM_DTYPE_INT8;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(plan.kv_group[0].block_bytes == latent + (uint64_t)61 * 64 * 130);
}

static void key_bounds_are_two_rows_a_head_and_block(void **state)
{
    (void)state;
    dense_shape(&shape);
    in.max_batch = 1;
    features.key_bounds = 1;
    assert_int_equal(run(), IMPMEM_OK);
    assert_int_equal(plan.n_kv_sides, 1);
    assert_true(plan.kv_side[0].block_bytes == 36 * 8 * 128 * 4);
    assert_true(line_bytes(plan.kv_side[0].line) == plan.kv_group[0].blocks * 36 * 8 * 128 * 4);
}

/* Blocks and what lies beside them are granted together, to the last block. */
static void sides_are_paid_for_with_their_blocks(void **state)
{
    (void)state;
    dense_shape(&shape);
    shape.weight_bytes = 0;
    in.max_batch = 64;
    in.granule_bytes = MIB;
    in.promised_kv_tokens = 1;
    in.budget_bytes = 4000 * MIB;
    features.key_bounds = 1; /* 0.140625 MiB beside 2.25 */
    assert_int_equal(run(), IMPMEM_OK);
    const uint64_t blocks = plan.kv_group[0].blocks, main = 36 * 65536, side = 36 * 8 * 128 * 4;
    assert_true((blocks * main + MIB - 1) / MIB + (blocks * side + MIB - 1) / MIB <= 4000);
    assert_true(((blocks + 1) * main + MIB - 1) / MIB + ((blocks + 1) * side + MIB - 1) / MIB > 4000);
}

static void sizes_of_state_refuse_what_they_cannot_mean(void **state)
{
    (void)state;
    uint64_t bytes = 77;
    impmem_layer_shape layer = {.recurrent = IMPMEM_RECURRENT_MAMBA,
                                .conv_kernel = 4,
                                .conv_channels = UINT32_MAX,
                                .state_elements = UINT64_MAX / 2};
    assert_int_equal(impmem_size_recurrent_layer(NULL, IMPMEM_DTYPE_F32, IMPMEM_DTYPE_F32, IMPMEM_CONV_FULL, &bytes),
                     IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_size_recurrent_layer(&layer, IMPMEM_DTYPE_F32, IMPMEM_DTYPE_F32, IMPMEM_CONV_FULL, NULL),
                     IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_size_recurrent_layer(&layer, IMPMEM_DTYPE_F32, IMPMEM_DTYPE_F32, IMPMEM_CONV_FULL, &bytes),
                     IMPMEM_ERR_OVERFLOW);
    assert_int_equal(impmem_size_recurrent_layer(&layer, IMPMEM_DTYPE_INT8, IMPMEM_DTYPE_F32, IMPMEM_CONV_FULL, &bytes),
                     IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(impmem_size_recurrent_layer(&layer, IMPMEM_DTYPE_F32, IMPMEM_DTYPE_Q8_0, IMPMEM_CONV_FULL, &bytes),
                     IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(impmem_size_recurrent_layer(&layer, IMPMEM_DTYPE_F32, IMPMEM_DTYPE_F32, (impmem_conv_width)2, &bytes),
                     IMPMEM_ERR_BAD_VALUE);
    layer = (impmem_layer_shape){.kind = IMPMEM_LAYER_CROSS,
                                 .kv_heads = UINT32_MAX,
                                 .k_dim = UINT32_MAX,
                                 .v_dim = UINT32_MAX,
                                 .cross_tokens = UINT32_MAX};
    assert_int_equal(impmem_size_cross_layer(&layer, IMPMEM_DTYPE_F32, IMPMEM_DTYPE_F32, &bytes), IMPMEM_ERR_OVERFLOW);
    assert_int_equal(impmem_size_cross_layer(&layer, IMPMEM_DTYPE_NVFP4, IMPMEM_DTYPE_F32, &bytes), IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(impmem_size_cross_layer(NULL, IMPMEM_DTYPE_F32, IMPMEM_DTYPE_F32, &bytes),
                     IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_size_cross_layer(&layer, IMPMEM_DTYPE_F32, IMPMEM_DTYPE_F32, NULL),
                     IMPMEM_ERR_INVALID_ARGUMENT);
    layer.kind = IMPMEM_LAYER_FULL;
    assert_int_equal(impmem_size_residual_layer(&layer, UINT32_MAX, &bytes), IMPMEM_ERR_OVERFLOW);
    assert_int_equal(impmem_size_residual_layer(NULL, 1, &bytes), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_size_residual_layer(&layer, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_size_key_bounds_layer(NULL, &bytes), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_size_key_bounds_layer(&layer, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_size_key_bounds_layer(&layer, &bytes), IMPMEM_ERR_OVERFLOW);
    assert_int_equal(impmem_size_kv_block_elements(NULL, 16, &bytes), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_size_kv_block_elements(&layer, 16, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_size_kv_block_elements(&layer, 16, &bytes), IMPMEM_ERR_OVERFLOW);
    layer.index_dim = 100;
    assert_int_equal(impmem_size_index_block_layer(&layer, IMPMEM_DTYPE_NVFP4, 16, &bytes), IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(impmem_size_index_block_layer(&layer, IMPMEM_DTYPE_F16, 0, &bytes), IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(impmem_size_index_block_layer(NULL, IMPMEM_DTYPE_F16, 16, &bytes), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_size_index_block_layer(&layer, IMPMEM_DTYPE_F16, 16, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_true(bytes == 77);
}

static void refused(const char *subject)
{
    assert_int_equal(run(), IMPMEM_ERR_BAD_VALUE);
    assert_string_equal(failure.why.subject, subject);
    (void)start(NULL);
    hybrid_shape();
}

static void contradictions_are_named(void **state)
{
    (void)state;
    hybrid_shape();
    shape.layer[1].conv_kernel = 0;
    refused("layer[1].conv_kernel");
    shape.layer[1].conv_channels = 0;
    refused("layer[1].conv_channels");
    shape.layer[1].state_elements = 0;
    refused("layer[1].state_elements");
    shape.layer[1].recurrent = 5;
    refused("layer[1].recurrent");
    shape.layer[3].kind = IMPMEM_LAYER_CROSS;
    refused("layer[3].cross_tokens");
    shape.layer[3].kind = IMPMEM_LAYER_CROSS;
    shape.layer[3].cross_tokens = shape.layer[3].index_dim = 4;
    refused("layer[3].index_dim");
    features.state_dtype = IMPMEM_DTYPE_Q8_0;
    refused("state_dtype");
    features.conv_width = (impmem_conv_width)7;
    refused("conv_width");
    in.max_batch = UINT32_MAX;
    in.max_seq_tokens = 1;
    assert_int_equal(run(), IMPMEM_ERR_BAD_VALUE);
    shape.layer[1].recurrent = IMPMEM_RECURRENT_SHORT_CONV;
    shape.layer[1].state_elements = 0;
    in.max_batch = 1;
    assert_int_equal(run(), IMPMEM_OK); /* a short convolution has no other state */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_measured_hybrid_takes_79_5_mib_a_sequence, start),
        cmocka_unit_test_setup(slots_of_whole_pages_can_be_committed_one_by_one, start),
        cmocka_unit_test_setup(state_does_not_grow_with_the_context, start),
        cmocka_unit_test_setup(copies_exist_only_where_drafts_are_on, start),
        cmocka_unit_test_setup(snapshots_are_whole_slots_within_their_budget, start),
        cmocka_unit_test_setup(cross_attention_is_kept_for_each_sequence, start),
        cmocka_unit_test_setup(a_residual_ring_holds_the_newest_tokens_in_two_bytes, start),
        cmocka_unit_test_setup(scales_of_a_growing_pool_are_there_at_its_ceiling, start),
        cmocka_unit_test_setup(scales_and_payload_are_the_block_for_every_type, start),
        cmocka_unit_test_setup(indexer_keys_are_part_of_a_block, start),
        cmocka_unit_test_setup(key_bounds_are_two_rows_a_head_and_block, start),
        cmocka_unit_test_setup(sides_are_paid_for_with_their_blocks, start),
        cmocka_unit_test_setup(sizes_of_state_refuse_what_they_cannot_mean, start),
        cmocka_unit_test_setup(contradictions_are_named, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
