/* One model over several devices: what each holds, one block count, what is stranded, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "impmem/plan_ranks.h"
#include "impmem/plan_search.h"
#include "unit/plan/shapes.h"

static impmem_model_shape shape, part;
static impmem_plan_features features;
static impmem_plan_input in;
static impmem_layout layout;
static impmem_plan plans[8], alone;
static impmem_rank ranks[8];
static impmem_ranks_summary sum;
static impmem_plan_failure failure;
static impmem_error why;

static int start(void **state)
{
    (void)state;
    dense_shape(&shape); /* 36 layers, 32 query heads, 8 KV heads of 128, 4076 MiB */
    shape.embedding_bytes = 400 * MIB;
    shape.output_bytes = 76 * MIB;
    features = (impmem_plan_features)IMPMEM_PLAN_FEATURES_INIT;
    features.communication_bytes = 64 * MIB;
    in = (impmem_plan_input)IMPMEM_PLAN_INPUT_INIT;
    in.model = &shape;
    in.features = &features;
    in.budget_bytes = 24 * IMPMEM_GIB;
    in.max_batch = 8;
    in.max_seq_tokens = 4096;
    in.granule_bytes = MIB;
    layout = (impmem_layout)IMPMEM_LAYOUT_INIT;
    failure = (impmem_plan_failure)IMPMEM_PLAN_FAILURE_INIT;
    why = (impmem_error)IMPMEM_ERROR_INIT;
    return 0;
}

static impmem_status run(void)
{
    failure = (impmem_plan_failure)IMPMEM_PLAN_FAILURE_INIT;
    return impmem_plan_ranks(&in, &layout, plans, ranks, 8, &sum, &failure);
}

static uint64_t line_bytes(uint32_t rank, impmem_line_id id)
{
    const impmem_line *line = impmem_plan_find_line(&plans[rank], id);
    return line ? line->bytes : 0;
}

static void one_rank_is_the_plan_itself(void **state)
{
    (void)state;
    assert_int_equal(run(), IMPMEM_OK);
    alone = (impmem_plan)IMPMEM_PLAN_INIT;
    assert_int_equal(impmem_plan_memory(&in, &alone, NULL), IMPMEM_OK);
    assert_memory_equal(&alone, &plans[0], sizeof alone);
    assert_int_equal(sum.n_ranks, 1);
    assert_true(sum.stranded_bytes == 0 && ranks[0].stranded_bytes == 0);
}

static void tensor_parallelism_halves_weights_and_kv(void **state)
{
    (void)state;
    layout.tp = 2;
    assert_int_equal(run(), IMPMEM_OK);
    assert_int_equal(sum.n_ranks, 2);
    for (uint32_t r = 0; r < 2; r++) {
        assert_true(line_bytes(r, IMPMEM_LINE_WEIGHTS) == 2038 * MIB);
        assert_true(line_bytes(r, IMPMEM_LINE_KV) == 2304 * MIB);
        assert_true(line_bytes(r, IMPMEM_LINE_COMMUNICATION) == 64 * MIB);
        assert_int_equal(ranks[r].place, r);
        assert_int_equal(ranks[r].kv_copies, 1);
    }
    assert_int_equal(impmem_rank_shape(&shape, &layout, 1, &part, &why), IMPMEM_OK);
    assert_int_equal(part.n_heads, 16);
    assert_int_equal(part.layer[35].kv_heads, 4);
    assert_int_equal(part.feed_forward, 4864);
    assert_int_equal(part.vocab, 75968);
}

static void kv_heads_are_doubled_beyond_their_number(void **state)
{
    (void)state;
    assert_int_equal(impmem_shape_uniform_attention(&shape, 36, 2, 128, 128), IMPMEM_OK);
    layout.tp = 8;
    assert_int_equal(run(), IMPMEM_OK);
    assert_int_equal(ranks[7].kv_copies, 4);
    /* One head each: a quarter of what one device would take for both is not an eighth. */
    assert_true(line_bytes(7, IMPMEM_LINE_KV) == UINT64_C(2048) * 36 * 16 * 256 * 2);
    for (uint32_t i = 0; i < 36; i++) {
        shape.layer[i].kind = IMPMEM_LAYER_LATENT;
        shape.layer[i].kv_heads = 1;
        shape.layer[i].k_dim = 576;
        shape.layer[i].v_dim = 0;
    }
    assert_int_equal(run(), IMPMEM_OK);
    assert_int_equal(ranks[0].kv_copies, 8);
    assert_true(line_bytes(0, IMPMEM_LINE_KV) == UINT64_C(2048) * 36 * 16 * 576 * 2);
}

static void embedding_and_head_are_on_the_ends_only(void **state)
{
    (void)state;
    layout.pp = 3;
    features.logit_rows = 8;
    assert_int_equal(run(), IMPMEM_OK);
    /* 3600 MiB in 36 layers, 12 a stage. */
    assert_true(line_bytes(0, IMPMEM_LINE_WEIGHTS) == (1200 + 400) * MIB);
    assert_true(line_bytes(1, IMPMEM_LINE_WEIGHTS) == 1200 * MIB);
    assert_true(line_bytes(2, IMPMEM_LINE_WEIGHTS) == (1200 + 76) * MIB);
    assert_true(line_bytes(0, IMPMEM_LINE_LOGITS) == 0 && line_bytes(1, IMPMEM_LINE_LOGITS) == 0);
    assert_true(line_bytes(2, IMPMEM_LINE_LOGITS) == 8 * 151936 * 4);
    assert_int_equal(ranks[1].first_layer, 12);
    shape.tied_embeddings = 1;
    shape.output_bytes = 0;
    assert_int_equal(run(), IMPMEM_OK);
    /* 3676 MiB in the layers now; the last stage holds the embedding again. */
    assert_true(ranks[2].weight_bytes == (uint64_t)3676 * MIB / 3 + (3676 * MIB % 3 != 0) + 400 * MIB);
}

static void stages_may_be_uneven(void **state)
{
    (void)state;
    static const uint32_t stages[] = {10, 26};
    static uint64_t weights[36];
    layout.pp = 2;
    layout.stage_layers = stages;
    assert_int_equal(run(), IMPMEM_OK);
    assert_int_equal(ranks[1].first_layer, 10);
    assert_int_equal(ranks[1].n_layers, 26);
    assert_true(ranks[0].weight_bytes == (1000 + 400) * MIB);
    for (uint32_t i = 0; i < 36; i++) weights[i] = (i < 10 ? 200 : 50) * MIB;
    layout.layer_weight_bytes = weights;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(ranks[0].weight_bytes == (2000 + 400) * MIB);
    assert_true(ranks[1].weight_bytes == (1300 + 76) * MIB);
    weights[0] += 301 * MIB;
    assert_int_equal(run(), IMPMEM_ERR_BAD_VALUE);
    assert_string_equal(failure.why.subject, "layer_weight_bytes");
}

/* Rank 1's card is shared: it holds 400 blocks of the half layer set, and so do the others. */
static void one_block_count_for_all_and_the_rest_is_stranded(void **state)
{
    (void)state;
    static uint64_t budgets[2];
    layout.tp = 2;
    layout.budget_bytes = budgets;
    budgets[0] = 24 * IMPMEM_GIB;
    budgets[1] = (2038 + 64 + 450) * MIB; /* 400 blocks of 1.125 MiB */
    in.promised_kv_tokens = 4096;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(plans[0].kv_group[0].blocks == 400 && plans[1].kv_group[0].blocks == 400);
    assert_int_equal(sum.kv_blocks, 400);
    assert_int_equal(sum.tightest, 1);
    assert_true(ranks[0].stranded_bytes == (2304 - 450) * MIB);
    assert_true(ranks[1].stranded_bytes == 0);
    assert_true(sum.stranded_bytes == ranks[0].stranded_bytes);
    assert_true(ranks[1].budget_bytes == budgets[1]);
    budgets[1] -= 200 * MIB; /* 222 blocks, 256 are promised */
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    assert_int_equal(sum.refused, 1);
    assert_true(failure.budget_bytes == budgets[1]);
}

static void experts_go_whole_to_the_ranks_that_share_them(void **state)
{
    (void)state;
    experts_shape(&shape); /* 48 layers, 128 experts of 768, 4 KV heads, 15,467 MiB */
    layout.tp = 4;
    layout.ep = 4;
    assert_int_equal(run(), IMPMEM_ERR_BAD_VALUE);
    assert_string_equal(failure.why.subject, "expert_bytes");
    layout.expert_bytes = 12800 * MIB;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(ranks[0].weight_bytes == 3200 * MIB + 2667 * MIB / 4);
    assert_int_equal(impmem_rank_shape(&shape, &layout, 0, &part, &why), IMPMEM_OK);
    assert_int_equal(part.n_experts, 32);
    assert_int_equal(part.expert_feed_forward, 768);
    layout.ep = 2;
    assert_int_equal(impmem_rank_shape(&shape, &layout, 0, &part, &why), IMPMEM_OK);
    assert_int_equal(part.n_experts, 64);
    assert_int_equal(part.expert_feed_forward, 384);
    layout.ep = 3;
    assert_int_equal(impmem_rank_shape(&shape, &layout, 0, &part, &why), IMPMEM_ERR_BAD_VALUE);
}

static void vision_is_whole_or_split_as_said(void **state)
{
    (void)state;
    shape.vision_apart = 1;
    shape.vision_weight_bytes = 800 * MIB;
    shape.vision_tokens = 256;
    shape.vision_image_size = 896;
    features.vision_images = 1;
    layout.tp = 2;
    layout.pp = 2;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(line_bytes(0, IMPMEM_LINE_VISION_WEIGHTS) == 800 * MIB &&
                line_bytes(1, IMPMEM_LINE_VISION_WEIGHTS) == 800 * MIB);
    assert_true(line_bytes(2, IMPMEM_LINE_VISION_WEIGHTS) == 0 && line_bytes(2, IMPMEM_LINE_VISION_PIXELS) == 0);
    layout.vision_sharded = 1;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(line_bytes(0, IMPMEM_LINE_VISION_WEIGHTS) == 400 * MIB);
}

static void drafts_are_on_the_last_stage(void **state)
{
    (void)state;
    shape.draft_layers = 1;
    features.draft_tokens = 2;
    layout.pp = 2;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(line_bytes(0, IMPMEM_LINE_VERIFY) == 0 && line_bytes(0, IMPMEM_LINE_KV_SIDE) == 0);
    assert_true(line_bytes(1, IMPMEM_LINE_VERIFY) > 0 && line_bytes(1, IMPMEM_LINE_KV_SIDE) > 0);
}

static void refused(const char *subject, impmem_status expected)
{
    assert_int_equal(run(), expected);
    assert_string_equal(failure.why.subject, subject);
    (void)start(NULL);
}

static void contradictions_are_named(void **state)
{
    (void)state;
    static const uint32_t uneven[] = {1, 2}, empty[] = {0, 36};
    layout.tp = 3;
    refused("tp", IMPMEM_ERR_BAD_VALUE);
    layout.tp = 2;
    for (uint32_t i = 0; i < 36; i++) shape.layer[i].kv_heads = 5;
    refused("tp", IMPMEM_ERR_BAD_VALUE);
    layout.pp = 37;
    refused("pp", IMPMEM_ERR_BAD_VALUE);
    layout.tp = 32;
    layout.pp = 3;
    refused("tp x pp", IMPMEM_ERR_BAD_VALUE);
    layout.pp = 2;
    layout.stage_layers = uneven;
    refused("stage_layers", IMPMEM_ERR_BAD_VALUE);
    layout.pp = 2;
    layout.stage_layers = empty;
    refused("stage_layers", IMPMEM_ERR_BAD_VALUE);
    layout.pp = 2;
    shape.layer[20] = (impmem_layer_shape){.kind = IMPMEM_LAYER_SHARED, .shared_with = 3};
    refused("stage_layers", IMPMEM_ERR_BAD_VALUE);
    layout.tp = 2;
    layout.ep = 2;
    refused("expert_bytes", IMPMEM_ERR_BAD_VALUE);
    layout.tp = 2;
    features.communication_bytes = 0;
    refused("communication_bytes", IMPMEM_ERR_BAD_VALUE);
    layout.tp = 2;
    shape.embedding_bytes = 5000 * MIB;
    refused("weight_bytes", IMPMEM_ERR_BAD_VALUE);
    layout.version = 2;
    refused("layout", IMPMEM_ERR_VERSION);
    in.model = NULL;
    refused("model", IMPMEM_ERR_INVALID_ARGUMENT);
    layout.tp = 16;
    refused("ranks", IMPMEM_ERR_BAD_VALUE == run() ? IMPMEM_ERR_BAD_VALUE : IMPMEM_ERR_EXHAUSTED);
    assert_int_equal(impmem_plan_ranks(NULL, &layout, plans, ranks, 8, &sum, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_plan_ranks(&in, NULL, plans, ranks, 8, &sum, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_plan_ranks(&in, &layout, NULL, ranks, 8, &sum, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_plan_ranks(&in, &layout, plans, NULL, 8, &sum, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_plan_ranks(&in, &layout, plans, ranks, 8, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_rank_shape(&shape, &layout, 1, &part, &why), IMPMEM_ERR_BAD_VALUE);
    assert_string_equal(why.subject, "rank");
    assert_int_equal(impmem_rank_shape(&shape, &layout, 0, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_rank_shape(NULL, &layout, 0, &part, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(one_rank_is_the_plan_itself, start),
        cmocka_unit_test_setup(tensor_parallelism_halves_weights_and_kv, start),
        cmocka_unit_test_setup(kv_heads_are_doubled_beyond_their_number, start),
        cmocka_unit_test_setup(embedding_and_head_are_on_the_ends_only, start),
        cmocka_unit_test_setup(stages_may_be_uneven, start),
        cmocka_unit_test_setup(one_block_count_for_all_and_the_rest_is_stranded, start),
        cmocka_unit_test_setup(experts_go_whole_to_the_ranks_that_share_them, start),
        cmocka_unit_test_setup(vision_is_whole_or_split_as_said, start),
        cmocka_unit_test_setup(drafts_are_on_the_last_stage, start),
        cmocka_unit_test_setup(contradictions_are_named, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
