/* Features as inputs: each brings exactly its own lines, with sizes from arithmetic or measured figures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "impmem/explain.h"
#include "unit/plan/shapes.h"

static impmem_model_shape shape, draft;
static impmem_plan_features features;
static impmem_plan_input in;
static impmem_plan plan, before;
static impmem_plan_failure failure;

static int start(void **state)
{
    (void)state;
    dense_shape(&shape);
    draft = (impmem_model_shape)IMPMEM_MODEL_SHAPE_INIT;
    features = (impmem_plan_features)IMPMEM_PLAN_FEATURES_INIT;
    in = (impmem_plan_input)IMPMEM_PLAN_INPUT_INIT;
    in.model = &shape;
    in.features = &features;
    in.budget_bytes = 64 * IMPMEM_GIB;
    in.max_batch = 8;
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

static bool one_of(impmem_line_id id, const impmem_line_id *own, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (own[i] == id) return true;
    return false;
}

/* Between `before` and `plan` exactly the lines of `own` came; rounding and host tables follow. */
static void only_these_came(const impmem_line_id *own, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_null(impmem_plan_find_line(&before, own[i]));
        assert_true(line_bytes(own[i]) > 0);
    }
    for (uint32_t i = 0; i < plan.n_lines; i++) {
        const impmem_line *line = &plan.line[i], *old = impmem_plan_find_line(&before, line->id);
        const bool rounding = line->id >= IMPMEM_LINE_ROUNDING && line->id < IMPMEM_LINE_ROUNDING + IMPMEM_PLAN_MAX_REGIONS;
        if (rounding || line->tier == IMPMEM_TIER_CONTROL || one_of(line->id, own, n)) continue;
        assert_non_null(old);
        assert_true(old->bytes == line->bytes);
    }
    for (uint32_t i = 0; i < before.n_lines; i++) {
        const impmem_line *old = &before.line[i];
        const bool rounding = old->id >= IMPMEM_LINE_ROUNDING && old->id < IMPMEM_LINE_ROUNDING + IMPMEM_PLAN_MAX_REGIONS;
        if (!rounding) assert_non_null(impmem_plan_find_line(&plan, old->id));
    }
}

#define CAME(...)                                                                                                          \
    do {                                                                                                                   \
        const impmem_line_id own_[] = {__VA_ARGS__};                                                                       \
        assert_int_equal(run(), IMPMEM_OK);                                                                                \
        only_these_came(own_, sizeof own_ / sizeof own_[0]);                                                               \
        features = (impmem_plan_features)IMPMEM_PLAN_FEATURES_INIT;                                                        \
    } while (0)

static void none_and_zeroed_features_are_the_same_plan(void **state)
{
    (void)state;
    assert_int_equal(run(), IMPMEM_OK);
    before = plan;
    in.features = NULL;
    assert_int_equal(run(), IMPMEM_OK);
    assert_memory_equal(&before, &plan, sizeof plan);
    in.features = &features;
    memset(&features, 0, sizeof features);
    assert_int_equal(run(), IMPMEM_OK);
    assert_memory_equal(&before, &plan, sizeof plan);
}

static void each_feature_brings_its_own_lines_only(void **state)
{
    (void)state;
    static const uint64_t graphs[] = {64 << 20, 32 << 20};
    shape.n_experts = 128;
    shape.vision_apart = 1;
    shape.vision_weight_bytes = 800 * MIB;
    shape.vision_image_size = 896;
    shape.vision_tokens = 256;
    shape.vision_d_model = 1152;
    shape.vision_heads = 16;
    shape.draft_layers = 1;
    assert_int_equal(run(), IMPMEM_OK);
    before = plan;
    features.headroom_bytes = 1630 * MIB;
    CAME(IMPMEM_LINE_HEADROOM);
    features.communication_bytes = 300 * MIB;
    CAME(IMPMEM_LINE_COMMUNICATION);
    features.graph_bytes = graphs;
    features.n_graphs = 2;
    CAME(IMPMEM_LINE_GRAPHS);
    features.logit_rows = 8;
    CAME(IMPMEM_LINE_LOGITS);
    features.prompt_logprob_rows = 512;
    CAME(IMPMEM_LINE_PROMPT_LOGPROBS);
    features.attention_scores = 1;
    CAME(IMPMEM_LINE_ATTENTION_SCORES);
    features.expert_tables = 1;
    CAME(IMPMEM_LINE_EXPERT_TABLES);
    features.gemm_workspace_bytes = 64 * MIB;
    CAME(IMPMEM_LINE_GEMM_WORKSPACE);
    features.graph_slots = 4;
    CAME(IMPMEM_LINE_GRAPH_SLOTS, IMPMEM_LINE_GRAPH_SLOTS_HOST);
    features.vision_images = 2;
    CAME(IMPMEM_LINE_VISION_WEIGHTS, IMPMEM_LINE_VISION_PIXELS, IMPMEM_LINE_VISION_EMBEDDINGS, IMPMEM_LINE_VISION_SCRATCH);
    features.lora_slots = 4;
    features.lora_rank = 16;
    CAME(IMPMEM_LINE_LORA);
    features.weight_cache[1] = (impmem_weight_cache){IMPMEM_DTYPE_FP8_E4M3, 0, 3200, 320, 0};
    CAME(IMPMEM_LINE_WEIGHT_CACHE + 1, IMPMEM_LINE_WEIGHT_CACHE_OPTIONAL + 1);
    features.draft_tokens = 4;
    CAME(IMPMEM_LINE_VERIFY, IMPMEM_LINE_KV_SIDE);
    features.residual_tokens = 16;
    CAME(IMPMEM_LINE_STATE);
    features.key_bounds = 1;
    CAME(IMPMEM_LINE_KV_SIDE);
    features.tp_devices = 8;
    assert_int_equal(run(), IMPMEM_OK);
    assert_memory_equal(&before, &plan, sizeof plan);
}

static void weight_caches_take_their_measured_bytes(void **state)
{
    (void)state;
    uint64_t bytes;
    assert_int_equal(impmem_size_weight_cache(IMPMEM_DTYPE_NVFP4, UINT64_C(4022272000), &bytes), IMPMEM_OK);
    assert_true(bytes == UINT64_C(4022272000) * 9 / 16); /* 2157.71 MiB */
    assert_int_equal(impmem_size_weight_cache(IMPMEM_DTYPE_BF16, 1000, &bytes), IMPMEM_OK);
    assert_int_equal(bytes, 2000);
    assert_int_equal(impmem_size_weight_cache(IMPMEM_DTYPE_FP8_E4M3, 1000, &bytes), IMPMEM_OK);
    assert_int_equal(bytes, 1000);
    assert_int_equal(impmem_size_weight_cache(IMPMEM_DTYPE_INT8, 4096, &bytes), IMPMEM_OK);
    assert_int_equal(bytes, 4096 * 9 / 8);
    assert_int_equal(impmem_size_weight_cache(IMPMEM_DTYPE_INT8, 4097, &bytes), IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(impmem_size_weight_cache(IMPMEM_DTYPE_NVFP4, 17, &bytes), IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(impmem_size_weight_cache(IMPMEM_DTYPE_Q8_0, 64, &bytes), IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(impmem_size_weight_cache(IMPMEM_DTYPE_F16, UINT64_MAX, &bytes), IMPMEM_ERR_OVERFLOW);
    assert_int_equal(impmem_size_weight_cache(IMPMEM_DTYPE_F16, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    /* Qwen3-Coder-30B-A3B: experts of 768 x 2048 twice and 2048 x 768, 128 of them in 48 layers; attention projections of
     * 4096, 512 and 512 x 2048 and 2048 x 4096; the head 151,936 x 2048: 1800.5 MiB measured. */
    static const uint64_t m[][4] = {{768, 2048, 128, 96}, {2048, 768, 128, 48}, {4096, 2048, 1, 48},
                                    {512, 2048, 1, 96},   {2048, 4096, 1, 48},  {151936, 2048, 1, 1}};
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof m / sizeof m[0]; i++) {
        assert_int_equal(impmem_size_scale_slab(m[i][0], m[i][1], m[i][2], &bytes), IMPMEM_OK);
        sum += bytes * m[i][3];
    }
    assert_true(sum * 10 / MIB == 18005);
    assert_int_equal(impmem_size_scale_slab(129, 65, 1, &bytes), IMPMEM_OK);
    assert_int_equal(bytes, 2 * 2 * 512);
    assert_int_equal(impmem_size_scale_slab(UINT64_MAX, 64, 2, &bytes), IMPMEM_ERR_OVERFLOW);
    assert_int_equal(impmem_size_scale_slab(1, 1, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
}

/* The optional part gives way to the promised load, the mandatory part doesn't. */
static void the_optional_part_of_a_cache_gives_way(void **state)
{
    (void)state;
    features.weight_cache[0] = (impmem_weight_cache){IMPMEM_DTYPE_FP8_E4M3, 0, 2158 * MIB, 158 * MIB, 0};
    in.granule_bytes = MIB;
    in.budget_bytes = (4076 + 158 + 4608 + 5) * MIB;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(line_bytes(IMPMEM_LINE_WEIGHT_CACHE) == 158 * MIB);
    assert_true(line_bytes(IMPMEM_LINE_WEIGHT_CACHE_OPTIONAL) == 5 * MIB);
    assert_true(line_bytes(IMPMEM_LINE_KV) == 4608 * MIB);
    in.budget_bytes -= 6 * MIB;
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    features.weight_cache[0].mandatory_elements = 2159 * MIB;
    assert_int_equal(run(), IMPMEM_ERR_BAD_VALUE);
    assert_string_equal(failure.why.subject, "weight_cache");
    features.weight_cache[0] = (impmem_weight_cache){IMPMEM_DTYPE_NVFP4, 0, 1600, 160, 4096};
    in.budget_bytes *= 2;
    assert_int_equal(run(), IMPMEM_OK);
    assert_int_equal(line_bytes(IMPMEM_LINE_WEIGHT_CACHE), 4352); /* 80 + 4096 on a line of 256 */
    assert_int_equal(line_bytes(IMPMEM_LINE_WEIGHT_CACHE_OPTIONAL), 768);
}

/* 8192 rows of 152,064 in 16 and in 32 bits: what a profiling run didn't see. */
static void prompt_log_probabilities_cost_six_bytes_an_entry(void **state)
{
    (void)state;
    shape.vocab = 152064;
    assert_int_equal(run(), IMPMEM_OK);
    const uint64_t without = plan.total_bytes[IMPMEM_ACCOUNT_DEVICE];
    features.prompt_logprob_rows = 8192;
    in.granule_bytes = 256;
    in.max_seq_tokens = 4096;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(line_bytes(IMPMEM_LINE_PROMPT_LOGPROBS) == UINT64_C(8192) * 152064 * 6);
    const uint64_t with = plan.total_bytes[IMPMEM_ACCOUNT_DEVICE];
    features.prompt_logprob_rows = 0;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(with - plan.total_bytes[IMPMEM_ACCOUNT_DEVICE] == UINT64_C(8192) * 152064 * 6);
    assert_true(without >= plan.total_bytes[IMPMEM_ACCOUNT_DEVICE]);
}

/* As many rows as the prefill has tokens: a smaller prefill then saves them too. */
static void log_probabilities_of_a_whole_prefill_shrink_with_it(void **state)
{
    (void)state;
    features.prompt_logprob_rows = UINT32_MAX;
    in.max_seq_tokens = 4096;
    in.prefill_tokens = 2048;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(line_bytes(IMPMEM_LINE_PROMPT_LOGPROBS) == UINT64_C(2048) * shape.vocab * 6);
    in.prefill_tokens = 16;
    assert_int_equal(run(), IMPMEM_OK);
    const uint64_t least = plan.total_bytes[IMPMEM_ACCOUNT_DEVICE];
    in.prefill_tokens = 2048;
    in.budget_bytes = least + 16 * UINT64_C(6) * shape.vocab; /* 16 more rows, and less than the granule beside */
    assert_int_equal(impmem_plan_memory(&in, &plan, &failure), IMPMEM_ERR_DOES_NOT_FIT);
    uint32_t prefill = 0;
    for (uint32_t i = 0; i < failure.n_levers; i++)
        if (failure.lever[i].kind == IMPMEM_LEVER_PREFILL) prefill = (uint32_t)failure.lever[i].to;
    assert_true(prefill >= 16 && prefill <= 48);
}

static void graphs_captured_largest_first_share_their_memory(void **state)
{
    (void)state;
    static const uint64_t down[] = {400, 300, 200, 100}, up[] = {100, 200, 300, 400}, mixed[] = {200, 100, 300, 300};
    uint64_t bytes;
    assert_int_equal(impmem_size_graphs(down, 4, 0, &bytes), IMPMEM_OK);
    assert_int_equal(bytes, 400);
    assert_int_equal(impmem_size_graphs(up, 4, 0, &bytes), IMPMEM_OK);
    assert_int_equal(bytes, 1000);
    assert_int_equal(impmem_size_graphs(mixed, 4, 7, &bytes), IMPMEM_OK);
    assert_int_equal(bytes, 500 + 28);
    assert_int_equal(impmem_size_graphs(NULL, 0, 7, &bytes), IMPMEM_OK);
    assert_int_equal(bytes, 0);
    assert_int_equal(impmem_size_graphs(NULL, 1, 7, &bytes), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_size_graphs(down, 4, 7, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_size_graphs(down, 4, UINT64_MAX / 2, &bytes), IMPMEM_ERR_OVERFLOW);
}

/* 136 MiB of graphs with 120.88 MiB left beside the whole pool: refused here, not at capture. */
static void graphs_that_the_final_pool_leaves_no_room_for_are_refused(void **state)
{
    (void)state;
    static const uint64_t graph = 136 << 20;
    in.granule_bytes = MIB;
    in.budget_bytes = (4076 + 4608) * MIB + 120 * MIB + 88 * MIB / 100;
    assert_int_equal(run(), IMPMEM_OK);
    features.graph_bytes = &graph;
    features.n_graphs = 1;
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    assert_true(failure.requested_bytes == (4076 + 4608 + 136) * MIB);
}

static void an_implausible_graph_estimate_is_named_with_both_figures(void **state)
{
    (void)state;
    static const uint64_t graph = UINT64_C(121498) << 20; /* 118.65 GiB */
    features.graph_bytes = &graph;
    features.n_graphs = 1;
    features.device_total_bytes = 188 * IMPMEM_GIB;
    in.budget_bytes = 188 * IMPMEM_GIB;
    assert_int_equal(run(), IMPMEM_ERR_BAD_VALUE);
    assert_string_equal(failure.why.subject, "graphs");
    assert_non_null(strstr(failure.why.message, "121498.0 MiB"));
    assert_non_null(strstr(failure.why.message, "192512.0 MiB"));
    features.graphs_accepted = 1;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(line_bytes(IMPMEM_LINE_GRAPHS) == graph);
}

/* One layer's K and V in a block of 16 tokens, 8 heads of 128: 32,768 elements, and 2^31 of them are 65,536 blocks. */
static void narrow_kernel_offsets_end_a_pool_and_say_what_that_costs(void **state)
{
    (void)state;
    in.max_batch = 320;
    in.budget_bytes = 512 * IMPMEM_GIB;
    in.promised_kv_tokens = 4096;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(plan.kv_group[0].blocks == 81920);
    features.kernel_offset_bits = 31;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(plan.kv_group[0].blocks == 65536);
    assert_true(plan.kv_group[0].capped_blocks == 81920 - 65536);
    features.kernel_offset_bits = 32;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(plan.kv_group[0].capped_blocks == 0);
    features.kernel_offset_bits = 31;
    in.promised_kv_tokens = 0;
    assert_int_equal(run(), IMPMEM_ERR_BAD_VALUE);
    assert_string_equal(failure.why.subject, "kernel_offset_bits");
    features.kernel_offset_bits = 30;
    assert_int_equal(run(), IMPMEM_ERR_BAD_VALUE);
}

static void reserved_blocks_are_there_and_nobody_counts_on_them(void **state)
{
    (void)state;
    assert_int_equal(run(), IMPMEM_OK);
    before = plan;
    features.null_blocks = 1;
    features.spare_blocks = 8;
    features.fenced_blocks = 16;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(plan.kv_group[0].blocks == before.kv_group[0].blocks + 25);
    assert_true(plan.kv_group[0].reserved_blocks == 25);
    assert_true(plan.kv_tokens == before.kv_tokens);
    assert_true(plan.sequences_at_max == 8);
    assert_true(plan.promised_kv_tokens == before.promised_kv_tokens);
    in.granule_bytes = MIB;
    in.budget_bytes = 4076 * MIB + 9 * MIB * 2048 / 4; /* the sequences' blocks, and none of the reserved */
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
    assert_int_equal(failure.sequences_at_max, 7);
}

/* A draft of 4 layers, 2 KV heads of 64: 16 x 2 x 128 x 2 x 4 = 32,768 B beside each block of 2,359,296. */
static void small_draft(void)
{
    draft.d_model = 1024;
    draft.n_heads = 16;
    draft.head_dim = 64;
    draft.vocab = 151936;
    assert_int_equal(impmem_shape_uniform_attention(&draft, 4, 2, 64, 64), IMPMEM_OK);
    draft.trained_context = 1 << 20;
    draft.weight_bytes = 300 * MIB;
    features.draft = &draft;
    features.draft_tokens = 4;
}

static void a_draft_is_priced_by_its_own_shape_at_the_length_in_use(void **state)
{
    (void)state;
    small_draft();
    features.n_draft_graphs = 10;
    features.draft_graph_bytes = 20 * MIB;
    features.graph_exec_bytes = MIB;
    assert_int_equal(run(), IMPMEM_OK);
    assert_int_equal(plan.kv_side[0].kind, IMPMEM_KV_SIDE_DRAFT);
    assert_true(plan.kv_side[0].block_bytes == 32768);
    assert_true(line_bytes(plan.kv_side[0].line) == 2048 * 32768); /* 8 x 4096 tokens, not the trained 2^20 */
    assert_true(line_bytes(IMPMEM_LINE_DRAFT_WEIGHTS) == 300 * MIB);
    /* 8 x 5 rows: logits 40 x 151,936 x 4, hidden 40 x 2560 x 2, ids 40 x 4 on a line of 256, twice. */
    assert_true(line_bytes(IMPMEM_LINE_VERIFY) == (40 * 151936 * 4 + 255) / 256 * 256 + 40 * 2560 * 2 + 2 * 256);
    assert_true(line_bytes(IMPMEM_LINE_DRAFT_GRAPHS) == 30 * MIB);
}

static void target_and_draft_share_one_budget_by_their_bytes_a_token(void **state)
{
    (void)state;
    small_draft();
    in.granule_bytes = 256;
    in.promised_kv_tokens = 4096;
    in.budget_bytes = 8000 * MIB;
    assert_int_equal(run(), IMPMEM_OK);
    const uint64_t blocks = plan.kv_group[0].blocks;
    assert_true(line_bytes(IMPMEM_LINE_KV) + line_bytes(IMPMEM_LINE_KV_SIDE) == blocks * (2359296 + 32768));
    assert_true(plan.total_bytes[IMPMEM_ACCOUNT_DEVICE] <= in.budget_bytes);
    assert_true(plan.total_bytes[IMPMEM_ACCOUNT_DEVICE] + 2359296 + 32768 > in.budget_bytes);
}

static void the_models_own_draft_layers_are_like_its_last_with_attention(void **state)
{
    (void)state;
    features.draft_tokens = 2;
    assert_int_equal(run(), IMPMEM_ERR_BAD_VALUE);
    assert_string_equal(failure.why.subject, "draft");
    shape.draft_layers = 2;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(plan.kv_side[0].block_bytes == 2 * 65536);
    assert_int_equal(plan.kv_side[0].n_layers, 2);
    assert_null(impmem_plan_find_line(&plan, IMPMEM_LINE_DRAFT_WEIGHTS));
    draft = shape;
    draft.layer[0].k_dim = 0;
    features.draft = &draft;
    assert_int_equal(run(), IMPMEM_ERR_BAD_VALUE);
    assert_string_equal(failure.why.subject, "layer[0].k_dim");
    shape.draft_layers = IMPMEM_MAX_LAYERS + 1;
    assert_int_equal(run(), IMPMEM_ERR_BAD_VALUE);
    assert_string_equal(failure.why.subject, "draft_layers");
}

/* A draft of full attention beside a model of windows has a group of its own. */
static void a_draft_of_another_kind_has_a_group_of_its_own(void **state)
{
    (void)state;
    window_layers(&shape, 0, 36, 1024);
    small_draft();
    assert_int_equal(run(), IMPMEM_OK);
    assert_int_equal(plan.n_kv_groups, 2);
    assert_int_equal(plan.kv_group[0].of_draft, 1);
    assert_int_equal(plan.kv_group[0].n_layers, 4);
    assert_true(plan.kv_group[0].block_bytes == 32768);
    assert_int_equal(plan.kv_group[1].of_draft, 0);
    assert_int_equal(plan.n_kv_sides, 0);
}

static void images_are_bounded_and_charged_before_kv(void **state)
{
    (void)state;
    features.vision_images = 3;
    assert_int_equal(run(), IMPMEM_ERR_BAD_VALUE);
    assert_string_equal(failure.why.subject, "vision_images");
    shape.vision_image_size = 896;
    shape.vision_tokens = 256;
    shape.vision_d_model = 1152;
    shape.vision_heads = 16;
    shape.vision_weight_bytes = 800 * MIB;
    assert_int_equal(run(), IMPMEM_OK);
    assert_null(impmem_plan_find_line(&plan, IMPMEM_LINE_VISION_WEIGHTS)); /* inside the model's weights */
    assert_true(line_bytes(IMPMEM_LINE_VISION_PIXELS) == 3 * 896 * 896 * 3 * 2);
    assert_true(line_bytes(IMPMEM_LINE_VISION_EMBEDDINGS) == 3 * 256 * 2560 * 2);
    assert_true(line_bytes(IMPMEM_LINE_VISION_SCRATCH) == 4 * 256 * 1152 * 2);
    shape.vision_patches = 64 * 64; /* what those 256 tokens are pooled from */
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(line_bytes(IMPMEM_LINE_VISION_PIXELS) == 3 * 896 * 896 * 3 * 2);
    assert_true(line_bytes(IMPMEM_LINE_VISION_SCRATCH) == UINT64_C(4) * 4096 * 1152 * 2);
    features.vision_patches = 4096;
    features.vision_patch_elements = 1536;
    features.vision_taps = 3;
    features.vision_scores = 1;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(line_bytes(IMPMEM_LINE_VISION_PIXELS) == UINT64_C(3) * 4096 * 1536 * 2);
    assert_true(line_bytes(IMPMEM_LINE_VISION_EMBEDDINGS) == 3 * 4 * 256 * 2560 * 2);
    assert_true(line_bytes(IMPMEM_LINE_VISION_SCRATCH) == UINT64_C(4) * 4096 * 1152 * 2 + UINT64_C(16) * 4096 * 4096 * 2);
    features.vision_skipped = 1;
    assert_int_equal(run(), IMPMEM_ERR_BAD_VALUE);
    features.vision_images = 0;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(line_bytes(IMPMEM_LINE_WEIGHTS) == (4076 - 800) * MIB);
    shape.vision_weight_bytes = 5000 * MIB;
    assert_int_equal(run(), IMPMEM_ERR_BAD_VALUE);
    assert_string_equal(failure.why.subject, "vision_weight_bytes");
}

static void scores_end_at_their_cap_and_slots_have_measured_sizes(void **state)
{
    (void)state;
    uint64_t bytes, host;
    assert_int_equal(impmem_size_attention_scores(32, 1000, UINT64_MAX, &bytes), IMPMEM_OK);
    assert_int_equal(bytes, 64000000);
    assert_int_equal(impmem_size_attention_scores(32, 4096, 384 * MIB, &bytes), IMPMEM_OK);
    assert_true(bytes == 384 * MIB);
    assert_int_equal(impmem_size_attention_scores(UINT32_MAX, UINT32_MAX, 5, &bytes), IMPMEM_OK);
    assert_int_equal(bytes, 5);
    assert_int_equal(impmem_size_attention_scores(1, 1, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_size_graph_slots(4, 896, &bytes, &host), IMPMEM_OK);
    assert_int_equal(bytes, 289 * 1024);
    assert_int_equal(host, 17 * 1024);
    assert_int_equal(impmem_size_graph_slots(4, 896, NULL, &host), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_size_graph_slots(4, 896, &bytes, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_size_expert_tables(128, &bytes), IMPMEM_OK);
    assert_int_equal(bytes, 3 * 128 * 8 + 3 * 128 * 4 + 4 + 129 * 8 + 2 * 128 * 8 + 128 * 4 + 2 * 128 * 8 + 11 * 256);
    assert_int_equal(impmem_size_expert_tables(1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_size_logits(UINT64_MAX, 2, 1, &bytes), IMPMEM_ERR_OVERFLOW);
    assert_int_equal(impmem_size_logits(1, 1, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_size_verify_staging(NULL, 1, 1, &bytes), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_size_verify_staging(&shape, UINT32_MAX, UINT32_MAX, &bytes), IMPMEM_ERR_OVERFLOW);
    assert_int_equal(impmem_size_vision_pixels(UINT32_MAX, 0, 0, &bytes), IMPMEM_ERR_OVERFLOW);
    assert_int_equal(impmem_size_vision_pixels(1, 0, 0, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_size_vision_embeddings(UINT32_MAX, UINT32_MAX, UINT32_MAX, &bytes), IMPMEM_ERR_OVERFLOW);
    assert_int_equal(impmem_size_vision_embeddings(1, 1, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    shape.vision_heads = UINT32_MAX;
    assert_int_equal(impmem_size_vision_scratch(&shape, UINT32_MAX, 1, &bytes), IMPMEM_ERR_OVERFLOW);
    assert_int_equal(impmem_size_vision_scratch(NULL, 1, 1, &bytes), IMPMEM_ERR_INVALID_ARGUMENT);
}

/* 36 layers of Qwen3-4B: q 2560+4096, k and v 2560+1024, o 4096+2560, gate and up 2560+9728, down 9728+2560, times rank, 2
 * B. */
static void an_adapter_has_two_thin_matrices_a_projection(void **state)
{
    (void)state;
    uint64_t bytes, rows = 36 * (2 * (2560 + 4096) + 2 * (2560 + 1024) + 3 * (2560 + 9728));
    assert_int_equal(impmem_size_lora_slot(&shape, 16, &bytes), IMPMEM_OK);
    assert_true(bytes == rows * 16 * 2);
    features.lora_slots = 3;
    features.lora_rank = 16;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(line_bytes(IMPMEM_LINE_LORA) == 3 * rows * 32);
    features.lora_slot_bytes = 1000;
    assert_int_equal(run(), IMPMEM_OK);
    assert_int_equal(line_bytes(IMPMEM_LINE_LORA), 3 * 1024);
    assert_int_equal(impmem_size_lora_slot(NULL, 16, &bytes), IMPMEM_ERR_INVALID_ARGUMENT);
    shape.feed_forward = shape.d_model = UINT32_MAX;
    assert_int_equal(impmem_size_lora_slot(&shape, UINT32_MAX, &bytes), IMPMEM_ERR_OVERFLOW);
}

static void features_that_mean_nothing_are_named(void **state)
{
    (void)state;
    features.version = 2;
    assert_int_equal(run(), IMPMEM_ERR_VERSION);
    assert_string_equal(failure.why.subject, "features");
    features.version = 1;
    features.n_graphs = 1;
    assert_int_equal(run(), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_string_equal(failure.why.subject, "graph_bytes");
    features.n_graphs = IMPMEM_MAX_GRAPHS + 1;
    assert_int_equal(run(), IMPMEM_ERR_BAD_VALUE);
    features.n_graphs = 0;
    features.weight_cache[3].dtype = IMPMEM_DTYPE_Q4_0;
    assert_int_equal(run(), IMPMEM_ERR_BAD_VALUE);
    features.weight_cache[3].dtype = IMPMEM_DTYPE_DEFAULT;
    features.headroom_bytes = UINT64_MAX;
    assert_int_equal(run(), IMPMEM_ERR_OVERFLOW);
    features.headroom_bytes = 0;
    features.gemm_workspace_bytes = UINT64_MAX;
    assert_int_equal(run(), IMPMEM_ERR_OVERFLOW);
}

static uint64_t operand(const impmem_explanation *e, const char *name)
{
    for (uint32_t i = 0; i < e->n_operands; i++)
        if (strcmp(e->operand[i].name, name) == 0) return e->operand[i].value;
    fail_msg("line %u has no operand %s", e->line, name);
    return 0;
}

static void every_line_says_where_it_comes_from(void **state)
{
    (void)state;
    impmem_explanation e;
    small_draft();
    features.logit_rows = 8;
    features.attention_scores = 1;
    features.residual_tokens = 16;
    features.null_blocks = 1;
    features.weight_cache[0] = (impmem_weight_cache){IMPMEM_DTYPE_NVFP4, 0, 32000, 3200, 0};
    in.context_bytes = 100 * MIB + 1;
    assert_int_equal(run(), IMPMEM_OK);
    for (uint32_t i = 0; i < plan.n_lines; i++) {
        assert_int_equal(impmem_plan_explain(&in, &plan, plan.line[i].id, &e, NULL), IMPMEM_OK);
        assert_int_equal(e.line, plan.line[i].id);
        assert_true(e.bytes == plan.line[i].bytes);
        assert_true(e.formula[0] != 0);
    }
    assert_int_equal(impmem_plan_explain(&in, &plan, IMPMEM_LINE_LOGITS, &e, NULL), IMPMEM_OK);
    assert_string_equal(e.formula, "rows x vocab x 4");
    assert_true((operand(&e, "rows") * operand(&e, "vocab") * 4 + 255) / 256 * 256 == e.bytes);
    assert_int_equal(impmem_plan_explain(&in, &plan, IMPMEM_LINE_KV, &e, NULL), IMPMEM_OK);
    assert_true(operand(&e, "blocks") * operand(&e, "block") == e.bytes);
    assert_int_equal(operand(&e, "reserved blocks"), 1);
    assert_int_equal(impmem_plan_explain(&in, &plan, IMPMEM_LINE_KV_SIDE, &e, NULL), IMPMEM_OK);
    assert_true(operand(&e, "blocks") * operand(&e, "block") == e.bytes);
    assert_int_equal(impmem_plan_explain(&in, &plan, IMPMEM_LINE_STATE, &e, NULL), IMPMEM_OK);
    assert_true(operand(&e, "slots") * operand(&e, "stride") == e.bytes);
    assert_int_equal(impmem_plan_explain(&in, &plan, IMPMEM_LINE_WEIGHT_CACHE_OPTIONAL, &e, NULL), IMPMEM_OK);
    assert_true((operand(&e, "elements") * 9 / 16 + 255) / 256 * 256 == e.bytes);
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(impmem_plan_explain(&in, &plan, 999, &e, &why), IMPMEM_ERR_NOT_FOUND);
    assert_int_equal(impmem_plan_explain(&in, NULL, 1, &e, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_plan_explain(&in, &plan, 1, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_plan_explain(NULL, &plan, 1, &e, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    const impmem_line *line = impmem_plan_find_line(&plan, IMPMEM_LINE_LOGITS);
    assert_string_equal(line->how, "rows x vocab x 4: rows 8, vocab 151936");
}

/* Two batches, one long and one wide, with windows: each pool holds what either needs, and no more where memory ends. */
static void batches_that_must_fit_are_the_smallest_load(void **state)
{
    (void)state;
    static const impmem_plan_batch batches[] = {{8, 1024}, {1, 4096}};
    window_layers(&shape, 0, 30, 512);
    in.prefill_tokens = 512;
    in.must_fit = batches;
    in.n_must_fit = 2;
    in.granule_bytes = 256;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(plan.kv_group[0].blocks == 2048); /* room for all: the whole demand */
    assert_true(plan.kv_group[1].blocks == 8 * 65);
    /* 8 x 64 blocks of the six full layers, 8 x min(64, 65) of the windows: 512 of each. */
    in.budget_bytes = 4076 * MIB + 512 * 6 * 65536 + 512 * 30 * 65536;
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(plan.kv_group[0].blocks == 512 && plan.kv_group[1].blocks == 512);
    in.budget_bytes -= 256;
    assert_int_equal(run(), IMPMEM_ERR_DOES_NOT_FIT);
}

static void a_typical_load_shares_what_is_left_between_unlike_pools(void **state)
{
    (void)state;
    static const impmem_plan_batch least = {1, 4096};
    window_layers(&shape, 0, 30, 512);
    in.prefill_tokens = 512;
    in.must_fit = &least;
    in.n_must_fit = 1;
    in.granule_bytes = 256;
    in.max_batch = 64;
    in.typical.tokens = 256; /* 16 blocks of each */
    in.budget_bytes = 4076 * MIB + UINT64_C(640) * 36 * 65536;
    assert_int_equal(run(), IMPMEM_OK);
    /* 40 typical sequences in both pools, and not one more. */
    assert_true(plan.kv_group[0].blocks == 640 && plan.kv_group[1].blocks == 640);
    in.typical.tokens = 4096; /* 256 blocks of full, 65 of window: 6 x 256 + 30 x 65 = 3486 layer blocks each, 6 of them */
    assert_int_equal(run(), IMPMEM_OK);
    assert_true(plan.kv_group[1].blocks == 6 * 65);
    assert_true(plan.kv_group[0].blocks == (640 * 36 - 30 * 390) / 6);
    in.typical.tokens = 4097;
    assert_int_equal(run(), IMPMEM_ERR_BAD_VALUE);
    assert_string_equal(failure.why.subject, "typical");
}

static void batches_beyond_the_limits_are_named(void **state)
{
    (void)state;
    impmem_plan_batch batch = {9, 4096};
    in.must_fit = &batch;
    in.n_must_fit = 1;
    assert_int_equal(run(), IMPMEM_ERR_BAD_VALUE);
    assert_string_equal(failure.why.subject, "must_fit");
    batch = (impmem_plan_batch){8, 4097};
    assert_int_equal(run(), IMPMEM_ERR_BAD_VALUE);
    batch = (impmem_plan_batch){0, 1};
    assert_int_equal(run(), IMPMEM_ERR_BAD_VALUE);
    in.n_must_fit = IMPMEM_PLAN_MAX_BATCHES + 1;
    assert_int_equal(run(), IMPMEM_ERR_BAD_VALUE);
    assert_string_equal(failure.why.subject, "n_must_fit");
    in.n_must_fit = 1;
    in.must_fit = NULL;
    assert_int_equal(run(), IMPMEM_ERR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(none_and_zeroed_features_are_the_same_plan, start),
        cmocka_unit_test_setup(each_feature_brings_its_own_lines_only, start),
        cmocka_unit_test_setup(weight_caches_take_their_measured_bytes, start),
        cmocka_unit_test_setup(the_optional_part_of_a_cache_gives_way, start),
        cmocka_unit_test_setup(prompt_log_probabilities_cost_six_bytes_an_entry, start),
        cmocka_unit_test_setup(log_probabilities_of_a_whole_prefill_shrink_with_it, start),
        cmocka_unit_test_setup(graphs_captured_largest_first_share_their_memory, start),
        cmocka_unit_test_setup(graphs_that_the_final_pool_leaves_no_room_for_are_refused, start),
        cmocka_unit_test_setup(an_implausible_graph_estimate_is_named_with_both_figures, start),
        cmocka_unit_test_setup(narrow_kernel_offsets_end_a_pool_and_say_what_that_costs, start),
        cmocka_unit_test_setup(reserved_blocks_are_there_and_nobody_counts_on_them, start),
        cmocka_unit_test_setup(a_draft_is_priced_by_its_own_shape_at_the_length_in_use, start),
        cmocka_unit_test_setup(target_and_draft_share_one_budget_by_their_bytes_a_token, start),
        cmocka_unit_test_setup(the_models_own_draft_layers_are_like_its_last_with_attention, start),
        cmocka_unit_test_setup(a_draft_of_another_kind_has_a_group_of_its_own, start),
        cmocka_unit_test_setup(images_are_bounded_and_charged_before_kv, start),
        cmocka_unit_test_setup(scores_end_at_their_cap_and_slots_have_measured_sizes, start),
        cmocka_unit_test_setup(an_adapter_has_two_thin_matrices_a_projection, start),
        cmocka_unit_test_setup(features_that_mean_nothing_are_named, start),
        cmocka_unit_test_setup(every_line_says_where_it_comes_from, start),
        cmocka_unit_test_setup(batches_that_must_fit_are_the_smallest_load, start),
        cmocka_unit_test_setup(a_typical_load_shares_what_is_left_between_unlike_pools, start),
        cmocka_unit_test_setup(batches_beyond_the_limits_are_named, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
