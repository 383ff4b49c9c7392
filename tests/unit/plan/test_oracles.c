/* Figures that engines reported or that people were hurt by, as the planner has them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "impmem/plan_ranks.h"
#include "impmem/plan_search.h"
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
    in.granule_bytes = 256;
    return 0;
}

static void uniform(uint32_t layers, uint32_t heads, uint32_t dim)
{
    assert_int_equal(impmem_shape_uniform_attention(&shape, layers, heads, dim, dim), IMPMEM_OK);
}

static impmem_status run(void)
{
    plan = (impmem_plan)IMPMEM_PLAN_INIT;
    failure = (impmem_plan_failure)IMPMEM_PLAN_FAILURE_INIT;
    return impmem_plan_memory(&in, &plan, &failure);
}

/* 10 attention layers of 2 heads of 256 in f16, blocks of 32: 655,360 B. The headroom of 1630 MiB is on top of the pool. */
static void headroom_is_added_on_top_of_a_pool_that_takes_the_rest(void **state)
{
    (void)state;
    uniform(10, 2, 256);
    features.headroom_bytes = 1630 * MIB;
    in.block_tokens = 32;
    in.max_batch = 1;
    in.max_seq_tokens = 4096 * 32;
    in.budget_bytes = 8192 * MIB;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(plan.kv_group[0].block_bytes == 655360);
    assert_true(plan.kv_group[0].blocks == 4096);
    in.max_batch = 4096;
    in.max_seq_tokens = 32;
    in.promised_kv_tokens = 16 * 32;
    in.budget_bytes = 2416 * MIB;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(plan.kv_group[0].blocks == 1257);
    /* 1264 was floored to 16 blocks that nobody had room for. */
    in.budget_bytes = 1264 * MIB;
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    assert_true(failure.requested_bytes == 1630 * MIB + 16 * 655360);
}

/* gpt-oss-20b counted as full: 49,152 B a token, 65,536 blocks wanted; 25,382 blocks, 19,036 MiB, took the card to nothing.
 */
static void what_a_load_wants_and_what_is_there_are_both_told(void **state)
{
    (void)state;
    uniform(24, 8, 64);
    in.max_batch = 8;
    in.max_seq_tokens = 131072;
    in.promised_kv_tokens = 131072;
    in.budget_bytes = UINT64_C(25382) * 16 * 49152;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(plan.kv_group[0].block_bytes == 16 * 49152);
    assert_true(plan.kv_group[0].blocks_demanded == 65536);
    assert_true(plan.kv_group[0].blocks == 25382);
    assert_true(impmem_plan_find_line(&plan, IMPMEM_LINE_KV)->bytes / MIB == 19036);
}

static void pools_of_fp8_take_the_reported_mib(void **state)
{
    (void)state;
    /* Qwen3-14B: 40 layers of 8 heads of 128; 5154 blocks are 6442.5 MiB. */
    uniform(40, 8, 128);
    in.kv_dtype_k = in.kv_dtype_v = IMPMEM_DTYPE_FP8_E4M3;
    in.max_batch = 1;
    in.max_seq_tokens = 5154 * 16;
    in.budget_bytes = 32 * IMPMEM_GIB;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(impmem_plan_find_line(&plan, IMPMEM_LINE_KV)->bytes * 2 == 12885 * MIB);
    /* Qwen3-8B: 36 layers; 73,728 B a token, 25 sequences of 40,960 want 64,000 blocks. */
    uniform(36, 8, 128);
    in.max_batch = 25;
    in.max_seq_tokens = 40960;
    in.promised_kv_tokens = 40960;
    in.budget_bytes = UINT64_C(11390) * 16 * 73728;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(plan.kv_group[0].blocks_demanded == 64000);
    assert_true(plan.kv_group[0].blocks == 11390);
    assert_true(in.budget_bytes * 10 / MIB == 128137); /* 12,813.75 MiB, reported as 12,813.8 */
}

/* One sequence of 1024 tokens had room for 175,856. */
static void a_load_of_64_blocks_takes_64_blocks(void **state)
{
    (void)state;
    uniform(28, 8, 128);
    in.max_batch = 1;
    in.max_seq_tokens = 1024;
    in.budget_bytes = 24 * IMPMEM_GIB;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(plan.kv_group[0].blocks == 64);
}

/* Two ranks counted 2111 and 2055 blocks by themselves, and ids of one were out of range on the other. */
static void ranks_that_count_for_themselves_agree_on_the_least(void **state)
{
    (void)state;
    static impmem_plan plans[2];
    impmem_rank ranks[2];
    impmem_ranks_summary sum;
    impmem_layout layout = IMPMEM_LAYOUT_INIT;
    uniform(36, 8, 128);
    shape.n_heads = 32;
    features.communication_bytes = 100 * MIB;
    in.max_batch = 16;
    in.max_seq_tokens = 4096;
    in.promised_kv_tokens = 4096;
    const uint64_t block = 16 * 36 * 4 * 256 * 2;
    const uint64_t budgets[] = {100 * MIB + 2111 * block, 100 * MIB + 2055 * block};
    layout.tp = 2;
    layout.budget_bytes = budgets;
    assert_int_equal(impmem_plan_ranks(&in, &layout, plans, ranks, 2, &sum, NULL), IMPMEM_OK);
    assert_true(plans[0].kv_group[0].blocks == 2055 && plans[1].kv_group[0].blocks == 2055);
    assert_true(sum.stranded_bytes == 56 * block);
}

/* Three cards, one of them shared: 17 GiB idle on the two others. */
static void a_shared_card_strands_what_it_does_not_leave(void **state)
{
    (void)state;
    static impmem_plan plans[3];
    impmem_rank ranks[3];
    impmem_ranks_summary sum;
    impmem_layout layout = IMPMEM_LAYOUT_INIT;
    uniform(60, 8, 128);
    shape.weight_bytes = 120 * IMPMEM_GIB;
    features.communication_bytes = IMPMEM_GIB;
    in.max_batch = 64;
    in.max_seq_tokens = 32768;
    in.promised_kv_tokens = 32768;
    const uint64_t budgets[] = {95 * IMPMEM_GIB, 95 * IMPMEM_GIB, (95 - 17) * IMPMEM_GIB};
    layout.pp = 3;
    layout.budget_bytes = budgets;
    assert_int_equal(impmem_plan_ranks(&in, &layout, plans, ranks, 3, &sum, NULL), IMPMEM_OK);
    assert_int_equal(sum.tightest, 2);
    assert_int_equal(sum.kv_blocks, 37 * IMPMEM_GIB / (16 * 20 * 4096)); /* 78 - 40 - 1 GiB; 20 layers a stage */
    assert_true(ranks[0].stranded_bytes == ranks[1].stranded_bytes);
    /* To a block of what the third card lacks, or to the whole demand. */
    assert_true(ranks[0].stranded_bytes <= 17 * IMPMEM_GIB &&
                ranks[0].stranded_bytes + 2 * 16 * 20 * 4096 > 17 * IMPMEM_GIB);
    assert_true(ranks[2].stranded_bytes == 0);
}

/* Copies of the embedding and the head on every stage cost 1 to 1.5 GiB each and left nothing for KV. */
static void a_middle_stage_holds_neither_embedding_nor_head(void **state)
{
    (void)state;
    impmem_layout layout = IMPMEM_LAYOUT_INIT;
    static impmem_model_shape part;
    uniform(64, 8, 128);
    shape.weight_bytes = 64 * IMPMEM_GIB + 3 * IMPMEM_GIB;
    shape.embedding_bytes = 3 * IMPMEM_GIB / 2;
    shape.output_bytes = 3 * IMPMEM_GIB / 2;
    layout.pp = 4;
    uint64_t sum = 0;
    for (uint32_t rank = 0; rank < 4; rank++) {
        assert_int_equal(impmem_rank_shape(&shape, &layout, rank, &part, NULL), IMPMEM_OK);
        assert_true(part.weight_bytes == 16 * IMPMEM_GIB + (rank == 0 || rank == 3 ? 3 * IMPMEM_GIB / 2 : 0));
        sum += part.weight_bytes;
    }
    assert_true(sum == shape.weight_bytes);
}

/* Joint: what the draft takes a token lowers the context that fits, as counting one by one finds it. */
static void a_draft_lowers_the_largest_context_by_its_own_bytes(void **state)
{
    (void)state;
    static impmem_model_shape draft;
    draft = (impmem_model_shape)IMPMEM_MODEL_SHAPE_INIT;
    assert_int_equal(impmem_shape_uniform_attention(&draft, 2, 8, 128, 128), IMPMEM_OK);
    draft.trained_context = 1 << 20;
    uniform(36, 8, 128);
    shape.trained_context = 1 << 20;
    in.max_batch = 1;
    in.budget_bytes = 10 * IMPMEM_GIB;
    uint64_t with, without;
    impmem_fit_limit limit;
    assert_int_equal(impmem_plan_fit(&in, IMPMEM_FIT_CONTEXT, &without, &limit, NULL), IMPMEM_OK);
    assert_int_equal(without, 10 * IMPMEM_GIB / (36 * 65536) * 16);
    features.draft = &draft;
    features.draft_tokens = 3;
    assert_int_equal(impmem_plan_fit(&in, IMPMEM_FIT_CONTEXT, &with, &limit, NULL), IMPMEM_OK);
    /* Verification takes two lines of 256 B: 4 rows of ids, twice; vocabulary and width are 0 here. */
    assert_int_equal(with, (10 * IMPMEM_GIB - 512) / (38 * 65536) * 16);
    assert_true(with < without);
}

/* 80 layers x 32,768 tokens x 8 heads x 128: 2,684,354,560 elements, which four ints multiplied didn't hold. */
static void products_beyond_32_bits_are_whole(void **state)
{
    (void)state;
    uniform(80, 8, 128);
    in.max_batch = 1;
    in.max_seq_tokens = 32768;
    in.budget_bytes = 64 * IMPMEM_GIB;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(impmem_plan_find_line(&plan, IMPMEM_LINE_KV)->bytes == UINT64_C(2684354560) * 2 * 2);
}

/* The dense reference configuration in FP8: 25,551 MiB to distribute, 397 of workspaces, a library reserve of 3,900, caches of ten
 * sixteenths of a byte for each of 4,022,272,000 weights. The load needs 2,048 blocks, 2,304 MiB; its engine took twice that.
 */
static void a_pool_is_what_the_load_needs_and_not_twice_that(void **state)
{
    (void)state;
    uniform(36, 8, 128);
    uint64_t cache = 0;
    assert_int_equal(impmem_size_weight_cache(IMPMEM_DTYPE_NVFP4, UINT64_C(4022272000), &cache), IMPMEM_OK);
    cache += UINT64_C(4022272000) / 16; /* the scale factors once more, as the matrix library wants them */
    assert_true(cache / MIB == 2397);
    const impmem_demand demands[] = {
        demand(IMPMEM_LINE_USER, IMPMEM_TIER_MODEL, IMPMEM_LINE_OPTIONAL, cache, "weight caches"),
        demand(IMPMEM_LINE_USER + 1, IMPMEM_TIER_ENGINE, 0, 397 * MIB, "workspaces")};
    in.demand = demands;
    in.n_demands = 2;
    in.library_reserve_bytes = 3900 * MIB;
    in.kv_dtype_k = in.kv_dtype_v = IMPMEM_DTYPE_FP8_E4M3;
    in.max_batch = 8;
    in.max_seq_tokens = 4096;
    in.budget_bytes = 25551 * MIB;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(plan.kv_group[0].blocks == 2048);
    assert_true(impmem_plan_find_line(&plan, IMPMEM_LINE_KV)->bytes == 2304 * MIB);
    assert_true(impmem_plan_find_line(&plan, IMPMEM_LINE_USER)->bytes == cache);
    assert_true(plan.total_bytes[IMPMEM_ACCOUNT_DEVICE] == (2304 + 397 + 3900) * MIB + cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(headroom_is_added_on_top_of_a_pool_that_takes_the_rest, start),
        cmocka_unit_test_setup(a_pool_is_what_the_load_needs_and_not_twice_that, start),
        cmocka_unit_test_setup(what_a_load_wants_and_what_is_there_are_both_told, start),
        cmocka_unit_test_setup(pools_of_fp8_take_the_reported_mib, start),
        cmocka_unit_test_setup(a_load_of_64_blocks_takes_64_blocks, start),
        cmocka_unit_test_setup(ranks_that_count_for_themselves_agree_on_the_least, start),
        cmocka_unit_test_setup(a_shared_card_strands_what_it_does_not_leave, start),
        cmocka_unit_test_setup(a_middle_stage_holds_neither_embedding_nor_head, start),
        cmocka_unit_test_setup(a_draft_lowers_the_largest_context_by_its_own_bytes, start),
        cmocka_unit_test_setup(products_beyond_32_bits_are_whole, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
