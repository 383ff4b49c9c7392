/* Rules that hold whatever features are on: over random models with every kind of layer, features, batches and layouts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "impmem/explain.h"
#include "impmem/plan_ranks.h"
#include "impmem/plan_search.h"
#include "property/random.h"
#include "unit/plan/shapes.h"

#define ROUNDS 12000u

typedef struct world {
    impmem_model_shape shape, draft;
    impmem_plan_features features;
    impmem_plan_batch batches[3];
    uint64_t graphs[8];
    impmem_plan_input in;
} world;

static world w;
static impmem_plan one, two;
static impmem_plan_failure failure;

static uint32_t below(random_source *r, uint32_t n)
{
    return (uint32_t)random_below(r, n);
}

static void random_layers(random_source *r, impmem_model_shape *s, uint32_t layers, bool all_kinds)
{
    static const uint32_t dims[] = {64, 96, 128, 256};
    *s = (impmem_model_shape)IMPMEM_MODEL_SHAPE_INIT;
    const uint32_t dim = dims[below(r, 4)], heads = 1u << below(r, 4);
    assert_int_equal(impmem_shape_uniform_attention(s, layers, heads, dim, dim), IMPMEM_OK);
    s->n_heads = 16;
    s->head_dim = dim;
    s->d_model = 1024 + 256 * below(r, 8);
    s->feed_forward = 4 * s->d_model;
    s->vocab = 1000 + below(r, 200000);
    s->weight_bytes = random_next(r) % (8 * IMPMEM_GIB);
    const uint32_t style = below(r, 5);
    for (uint32_t i = 0; i < layers; i++) {
        impmem_layer_shape *layer = &s->layer[i];
        if (style == 1 && i % 4 != 3) window_layers(s, i, i + 1, 1024);
        if (style == 2 && below(r, 2)) window_layers(s, i, i + 1, 128u << below(r, 3));
        if (style == 3 && i % 4 != 3)
            *layer = (impmem_layer_shape){.kind = IMPMEM_LAYER_NO_ATTENTION,
                                          .recurrent = IMPMEM_RECURRENT_DELTA_NET,
                                          .conv_kernel = 1 + below(r, 4),
                                          .conv_channels = 1 + below(r, 10000),
                                          .state_elements = 1 + below(r, 1000000)};
        if (style == 4 && i % 5 == 4 && all_kinds) {
            layer->kind = IMPMEM_LAYER_CROSS;
            layer->cross_tokens = 1 + below(r, 2000);
        }
        if (layer->kind == IMPMEM_LAYER_FULL && below(r, 8) == 0) layer->index_dim = 128;
    }
}

static void random_features(random_source *r)
{
    impmem_plan_features *f = &w.features;
    *f = (impmem_plan_features)IMPMEM_PLAN_FEATURES_INIT;
    if (below(r, 3) == 0) f->null_blocks = 1;
    if (below(r, 3) == 0) f->spare_blocks = below(r, 20);
    if (below(r, 4) == 0) f->fenced_blocks = below(r, 40);
    if (below(r, 6) == 0) f->kernel_offset_bits = 32;
    f->scales_apart = below(r, 3) == 0;
    f->key_bounds = below(r, 4) == 0;
    f->state_dtype = below(r, 2) ? IMPMEM_DTYPE_DEFAULT : IMPMEM_DTYPE_BF16;
    f->conv_width = below(r, 2) ? IMPMEM_CONV_NEEDED : IMPMEM_CONV_FULL;
    f->state_spare_slots = below(r, 4);
    f->state_page_rounding = below(r, 3) == 0;
    if (below(r, 4) == 0) f->residual_tokens = below(r, 64);
    if (below(r, 4) == 0) f->snapshot_budget_bytes = random_next(r) % IMPMEM_GIB;
    f->logit_rows = below(r, 3) ? 0 : below(r, 64);
    f->prompt_logprob_rows = below(r, 4) ? 0 : below(r, 1024);
    f->attention_scores = below(r, 3) == 0;
    f->gemm_workspace_bytes = below(r, 3) ? 0 : random_next(r) % (64 * MIB);
    f->graph_slots = below(r, 4) ? 0 : 4;
    if (below(r, 3) == 0) {
        f->n_graphs = 1 + below(r, 8);
        for (uint32_t i = 0; i < f->n_graphs; i++) w.graphs[i] = random_next(r) % (64 * MIB);
        f->graph_bytes = w.graphs;
        f->graphs_accepted = 1;
    }
    if (below(r, 3) == 0) {
        f->draft_tokens = 1 + below(r, 5);
        random_layers(r, &w.draft, 1 + below(r, 6), false);
        w.draft.weight_bytes %= IMPMEM_GIB;
        w.shape.draft_layers = 1 + below(r, 2);
        if (below(r, 2)) f->draft = &w.draft;
    }
    if (below(r, 4) == 0) {
        f->vision_images = 1 + below(r, 4);
        w.shape.vision_tokens = 1 + below(r, 1024);
        w.shape.vision_image_size = 1 + below(r, 1000);
        w.shape.vision_apart = 1;
        w.shape.vision_weight_bytes = random_next(r) % IMPMEM_GIB;
    }
    if (below(r, 4) == 0)
        f->weight_cache[below(r, 4)] = (impmem_weight_cache){IMPMEM_DTYPE_FP8_E4M3, 0, IMPMEM_GIB, below(r, 1 << 28), 0};
    if (below(r, 3) == 0) f->headroom_bytes = random_next(r) % IMPMEM_GIB;
    f->communication_bytes = 32 * MIB;
}

static void random_input(random_source *r)
{
    static const impmem_dtype dtype[] = {IMPMEM_DTYPE_F16, IMPMEM_DTYPE_FP8_E4M3, IMPMEM_DTYPE_INT8, IMPMEM_DTYPE_NVFP4,
                                         IMPMEM_DTYPE_MXFP4};
    memset(&w.in, 0, sizeof w.in);
    random_layers(r, &w.shape, 4 + below(r, 60), true);
    random_features(r);
    w.in.size = sizeof w.in;
    w.in.version = 1;
    w.in.model = &w.shape;
    w.in.features = &w.features;
    w.in.budget_bytes = random_next(r) % (48 * IMPMEM_GIB);
    w.in.max_batch = 1 + below(r, 32);
    w.in.max_seq_tokens = 1 + below(r, 30000);
    w.in.block_tokens = 16 * (1 + below(r, 8));
    w.in.kv_dtype_k = dtype[below(r, 5)];
    w.in.kv_dtype_v = below(r, 3) ? w.in.kv_dtype_k : dtype[below(r, 5)];
    if (below(r, 3) == 0) w.in.promised_kv_tokens = 1 + below(r, 100000);
    if (below(r, 4) == 0) w.in.prefix_cache_tokens = below(r, 100000);
    w.in.granule_bytes = (uint64_t)256 << below(r, 14);
    w.in.kv_initial_percent = below(r, 3) ? 0 : 1 + below(r, 100);
    if (below(r, 3) == 0) {
        w.in.n_must_fit = 1 + below(r, 3);
        w.in.must_fit = w.batches;
        for (uint32_t i = 0; i < w.in.n_must_fit; i++)
            w.batches[i] = (impmem_plan_batch){1 + below(r, w.in.max_batch), 1 + below(r, w.in.max_seq_tokens)};
        if (below(r, 2)) w.in.typical.tokens = 1 + below(r, w.in.max_seq_tokens);
    }
}

#define ROUND(r, round)                                                                                                    \
    random_source r = random_from((round) + 1);                                                                            \
    random_input(&r)

static impmem_status run(impmem_plan *out)
{
    memset(out, 0, sizeof *out);
    memset(&failure, 0, sizeof failure);
    return impmem_plan_memory_only(&w.in, out, &failure);
}

static uint64_t device_bytes_beside(const impmem_plan *p)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->n_lines; i++)
        if (p->line[i].account == IMPMEM_ACCOUNT_DEVICE && p->line[i].region == UINT32_MAX) sum += p->line[i].bytes;
    for (uint32_t r = 0; r < p->n_regions; r++)
        if (p->region[r].account == IMPMEM_ACCOUNT_DEVICE && !p->region[r].transient) sum += p->region[r].bytes;
    return sum;
}

static void check_pools(const impmem_plan *p)
{
    uint32_t pools = 0;
    for (uint32_t r = 0; r < p->n_regions; r++) pools += p->region[r].tier == IMPMEM_TIER_POOL;
    assert_int_equal(pools, p->n_kv_groups + p->n_kv_sides + p->n_state_pools);
    for (uint32_t i = 0; i < p->n_kv_sides; i++) {
        const impmem_kv_side *side = &p->kv_side[i];
        const uint64_t bytes = p->kv_group[side->group].blocks * side->stride_bytes;
        assert_true(impmem_plan_find_line(p, side->line)->bytes == bytes);
        assert_true(p->region[side->region].bytes >= bytes && !p->region[side->region].growable);
    }
    for (uint32_t i = 0; i < p->n_state_pools; i++) {
        const impmem_state_pool *pool = &p->state_pool[i];
        assert_true(impmem_plan_find_line(p, pool->line)->bytes == pool->slots * pool->stride_bytes);
        assert_true(pool->slots >= p->max_batch || pool->kind == IMPMEM_STATE_SNAPSHOT);
    }
    for (uint32_t g = 0; g < p->n_kv_groups; g++) {
        const impmem_kv_group *group = &p->kv_group[g];
        assert_true(group->blocks <= group->blocks_demanded);
        assert_true(group->blocks >= group->reserved_blocks + group->blocks_per_sequence);
    }
}

static void lines_regions_and_totals_agree_and_equal_inputs_give_equal_bytes(void **state)
{
    (void)state;
    uint32_t fit = 0, with_state = 0, with_sides = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        ROUND(r, round);
        impmem_status st = run(&one);
        assert_int_equal(run(&two), st);
        assert_memory_equal(&one, &two, sizeof one);
        assert_true(st == IMPMEM_OK || st == IMPMEM_ERR_DOES_NOT_FIT || st == IMPMEM_ERR_BAD_VALUE);
        if (st == IMPMEM_ERR_BAD_VALUE) {
            assert_true(strcmp(failure.why.subject, "kernel_offset_bits") == 0 ||
                        strcmp(failure.why.subject, "demand") == 0);
            continue;
        }
        if (st) {
            assert_true(failure.requested_bytes > failure.budget_bytes);
            continue;
        }
        fit++;
        with_state += one.n_state_pools > 0;
        with_sides += one.n_kv_sides > 0;
        uint64_t total[IMPMEM_N_ACCOUNTS] = {0}, region[IMPMEM_PLAN_MAX_REGIONS] = {0};
        for (uint32_t i = 0; i < one.n_lines; i++) {
            const impmem_line *line = &one.line[i];
            for (uint32_t j = 0; j < i; j++) assert_int_not_equal(one.line[j].id, line->id);
            if (line->region != UINT32_MAX) region[line->region] += line->bytes;
            if (!(line->flags & IMPMEM_LINE_TRANSIENT)) total[line->account] += line->bytes;
        }
        for (uint32_t a = 0; a < IMPMEM_N_ACCOUNTS; a++) assert_true(total[a] == one.total_bytes[a]);
        for (uint32_t i = 0; i < one.n_regions; i++) assert_true(region[i] == one.region[i].bytes);
        assert_true(total[IMPMEM_ACCOUNT_DEVICE] <= w.in.budget_bytes);
        assert_true(device_bytes_beside(&one) == total[IMPMEM_ACCOUNT_DEVICE]);
        check_pools(&one);
    }
    assert_true(fit > ROUNDS / 4 && with_state > 200 && with_sides > 200);
}

static void more_budget_never_means_fewer_blocks(void **state)
{
    (void)state;
    uint32_t compared = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        ROUND(r, round);
        if (run(&one) != IMPMEM_OK) continue;
        w.in.budget_bytes += random_next(&r) % (8 * IMPMEM_GIB);
        assert_int_equal(run(&two), IMPMEM_OK);
        for (uint32_t g = 0; g < one.n_kv_groups; g++) {
            /* A typical load shares between pools; only the batch as a whole never loses. */
            if (w.in.n_must_fit > 0 && one.n_kv_groups > 1 && one.kv_group[g].window_tokens == 0) continue;
            assert_true(two.kv_group[g].blocks >= one.kv_group[g].blocks);
        }
        compared++;
    }
    assert_true(compared > ROUNDS / 5);
}

/* KV's last block: one more of the group that grows with the context would not fit beside the rest. */
static void kv_takes_what_is_left_to_the_last_block(void **state)
{
    (void)state;
    uint32_t compared = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        ROUND(r, round);
        if (run(&one) != IMPMEM_OK || one.n_kv_groups == 0 || one.kv_group[0].window_tokens != 0) continue;
        const impmem_kv_group *group = &one.kv_group[0];
        if (group->blocks == group->blocks_demanded) continue;
        uint64_t total = one.total_bytes[IMPMEM_ACCOUNT_DEVICE], now = 0, more = 0;
        const uint64_t granule = w.in.granule_bytes;
        now += (group->blocks * group->stride_bytes + granule - 1) / granule;
        more += ((group->blocks + 1) * group->stride_bytes + granule - 1) / granule;
        for (uint32_t i = 0; i < one.n_kv_sides; i++) {
            if (one.kv_side[i].group != 0) continue;
            now += (group->blocks * one.kv_side[i].stride_bytes + granule - 1) / granule;
            more += ((group->blocks + 1) * one.kv_side[i].stride_bytes + granule - 1) / granule;
        }
        assert_true(total + (more - now) * granule > w.in.budget_bytes);
        compared++;
    }
    assert_true(compared > 100);
}

static void the_largest_fit_is_tight(void **state)
{
    (void)state;
    uint32_t seen[4] = {0};
    for (uint32_t round = 0; round < ROUNDS / 3; round++) {
        ROUND(r, round);
        const bool context = below(&r, 2) == 0;
        w.shape.trained_context = context && below(&r, 2) ? 1 + below(&r, 60000) : 0;
        if (w.shape.trained_context > 0) w.in.n_must_fit = 0, w.in.typical.tokens = 0;
        uint64_t value;
        impmem_fit_limit limit;
        memset(&failure, 0, sizeof failure);
        impmem_status st = impmem_plan_fit(&w.in, context ? IMPMEM_FIT_CONTEXT : IMPMEM_FIT_BATCH, &value, &limit,
                                           &failure);
        if (st) {
            assert_int_equal(failure.why.status, st);
            continue;
        }
        const uint64_t step = context ? w.in.block_tokens : 1;
        uint64_t next = (value / step + 1) * step;
        if (context && w.shape.trained_context > 0 && next > w.shape.trained_context) next = w.shape.trained_context;
        if (context) w.in.max_seq_tokens = (uint32_t)value;
        else w.in.max_batch = (uint32_t)value;
        assert_int_equal(run(&one), IMPMEM_OK);
        seen[limit]++;
        if (limit == IMPMEM_FIT_BY_TRAINED) {
            assert_true(value == w.shape.trained_context);
            continue;
        }
        if (context) w.in.max_seq_tokens = (uint32_t)next;
        else w.in.max_batch = (uint32_t)next;
        if (context ? next > INT32_MAX : value == 1 << 20) continue; /* nothing larger is counted */
        st = run(&two);
        assert_true(limit == IMPMEM_FIT_BY_MEMORY ? st == IMPMEM_ERR_DOES_NOT_FIT : st == IMPMEM_ERR_BAD_VALUE);
    }
    assert_true(seen[IMPMEM_FIT_BY_MEMORY] > 100 && seen[IMPMEM_FIT_BY_TRAINED] > 20);
}

static void every_lever_works_when_applied(void **state)
{
    (void)state;
    uint32_t seen[13] = {0}, pairs = 0;
    static impmem_plan_failure full;
    for (uint32_t round = 0; round < ROUNDS / 3; round++) {
        ROUND(r, round);
        memset(&one, 0, sizeof one);
        memset(&full, 0, sizeof full);
        w.features.tp_devices = 4;
        if (impmem_plan_memory(&w.in, &one, &full) != IMPMEM_ERR_DOES_NOT_FIT) continue;
        for (uint32_t i = 0; i < full.n_levers; i++) {
            const impmem_lever *lever = &full.lever[i];
            static impmem_plan_features changed;
            impmem_plan_input in = w.in;
            seen[lever->kind]++;
            pairs += lever->second != IMPMEM_LEVER_NONE;
            memset(&two, 0, sizeof two);
            if (lever->kind == IMPMEM_LEVER_TP) {
                static impmem_plan plans[4];
                impmem_rank ranks[4];
                impmem_ranks_summary sum;
                impmem_layout layout = IMPMEM_LAYOUT_INIT;
                memset(plans, 0, sizeof plans);
                layout.tp = (uint32_t)lever->to;
                assert_int_equal(impmem_plan_ranks(&in, &layout, plans, ranks, 4, &sum, NULL), IMPMEM_OK);
                assert_true(plans[0].total_bytes[IMPMEM_ACCOUNT_DEVICE] == lever->total_bytes);
                continue;
            }
            assert_int_equal(impmem_lever_apply(lever, &in, &changed), IMPMEM_OK);
            assert_int_equal(impmem_plan_memory_only(&in, &two, NULL), IMPMEM_OK);
            assert_true(two.total_bytes[IMPMEM_ACCOUNT_DEVICE] == lever->total_bytes);
        }
    }
    assert_true(seen[IMPMEM_LEVER_DRAFT] > 5 && seen[IMPMEM_LEVER_VISION] > 5 && seen[IMPMEM_LEVER_TP] > 20);
    assert_true(pairs > 0);
}

static void ranks_have_one_block_count_within_their_budgets(void **state)
{
    (void)state;
    static impmem_plan plans[8];
    static impmem_rank ranks[8];
    impmem_ranks_summary sum;
    uint32_t compared = 0, stranded = 0;
    for (uint32_t round = 0; round < ROUNDS / 3; round++) {
        ROUND(r, round);
        uint64_t budgets[8];
        impmem_layout layout = IMPMEM_LAYOUT_INIT;
        layout.tp = 1u << below(&r, 3);
        layout.pp = 1 + below(&r, 2);
        w.shape.embedding_bytes = w.shape.weight_bytes / 10;
        w.in.budget_bytes += 4 * IMPMEM_GIB;
        for (uint32_t i = 0; i < 8; i++) budgets[i] = w.in.budget_bytes + random_next(&r) % (4 * IMPMEM_GIB);
        layout.budget_bytes = budgets;
        memset(plans, 0, sizeof plans);
        if (impmem_plan_ranks(&w.in, &layout, plans, ranks, 8, &sum, NULL) != IMPMEM_OK) continue;
        uint64_t weights = 0, left_over = 0;
        for (uint32_t i = 0; i < sum.n_ranks; i++) {
            assert_true(plans[i].total_bytes[IMPMEM_ACCOUNT_DEVICE] <= budgets[i]);
            weights += ranks[i].weight_bytes;
            left_over += ranks[i].stranded_bytes;
            for (uint32_t g = 0; g < plans[i].n_kv_groups; g++)
                for (uint32_t j = 0; j < i; j++)
                    for (uint32_t h = 0; h < plans[j].n_kv_groups; h++)
                        if (plans[i].kv_group[g].window_tokens == plans[j].kv_group[h].window_tokens)
                            assert_true(plans[i].kv_group[g].blocks == plans[j].kv_group[h].blocks);
        }
        assert_true(weights >= w.shape.weight_bytes);
        assert_true(left_over == sum.stranded_bytes);
        stranded += left_over > 0;
        compared++;
    }
    assert_true(compared > 2000 && stranded > 20);
}

static void every_line_of_every_plan_is_explained(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < ROUNDS / 10; round++) {
        ROUND(r, round);
        if (run(&one) != IMPMEM_OK) continue;
        for (uint32_t i = 0; i < one.n_lines; i++) {
            impmem_explanation e;
            assert_int_equal(impmem_plan_explain(&w.in, &one, one.line[i].id, &e, NULL), IMPMEM_OK);
            assert_true(e.formula[0] != 0 && e.bytes == one.line[i].bytes);
            assert_true(one.line[i].name[0] != 0 && one.line[i].how[0] != 0);
        }
        impmem_servable s;
        assert_int_equal(impmem_plan_servable(&one, one.max_seq_tokens, 0, &s), IMPMEM_OK);
        assert_int_equal(impmem_plan_servable(&one, one.max_seq_tokens, 1, &s), IMPMEM_ERR_NEVER_FITS);
    }
}

/* Whatever the numbers, the answer is a plan or a typed error, and nothing wraps. */
static void enormous_features_are_errors_not_wraps(void **state)
{
    (void)state;
    static impmem_plan plans[8];
    static impmem_rank ranks[8];
    uint32_t planned = 0, refused = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        ROUND(r, round);
        impmem_plan_features *f = &w.features;
        const uint64_t huge = UINT64_MAX >> below(&r, 30);
        const uint32_t large = UINT32_MAX >> below(&r, 20);
        switch (below(&r, 22)) {
        case 0: f->headroom_bytes = huge; break;
        case 1: f->communication_bytes = huge; break;
        case 2: f->snapshot_budget_bytes = huge; break;
        case 3: f->gemm_workspace_bytes = huge; break;
        case 4: f->graph_exec_bytes = huge, f->graph_bytes = w.graphs, f->n_graphs = 3; break;
        case 5: f->lora_slot_bytes = huge, f->lora_slots = large; break;
        case 6: f->lora_slots = f->lora_rank = large; break;
        case 7: f->logit_rows = w.shape.vocab = large; break;
        case 8: f->prompt_logprob_rows = w.shape.vocab = large; break;
        case 9: f->null_blocks = f->spare_blocks = f->fenced_blocks = large; break;
        case 10: f->residual_tokens = large; break;
        case 11: f->state_spare_slots = large; break;
        case 12: f->draft_tokens = large; break;
        case 13: f->draft_tokens = 1, f->rollback_copies = large; break;
        case 14: f->vision_images = w.shape.vision_image_size = large; break;
        case 15: f->vision_images = 1, f->vision_patches = f->vision_patch_elements = large; break;
        case 16: f->weight_cache[2] = (impmem_weight_cache){IMPMEM_DTYPE_F16, 0, huge, huge / 2, huge}; break;
        case 17: f->graph_slots = large; break;
        case 18: w.shape.layer[0].state_elements = huge, w.shape.layer[0].recurrent = IMPMEM_RECURRENT_MAMBA; break;
        case 19: w.shape.layer[1].index_dim = large; break;
        case 20: w.shape.vision_apart = 1, w.shape.vision_weight_bytes = huge, f->vision_images = 1; break;
        default: w.in.max_batch = w.in.max_seq_tokens = large; break;
        }
        w.shape.layer[0].conv_kernel = 4;
        w.shape.layer[0].conv_channels = large;
        w.in.budget_bytes = UINT64_MAX;
        impmem_status st = run(&one);
        if (st == IMPMEM_OK) {
            uint64_t sum = 0;
            for (uint32_t i = 0; i < one.n_lines; i++)
                if (one.line[i].account == IMPMEM_ACCOUNT_DEVICE)
                    assert_int_equal(impmem_add(&sum, sum, one.line[i].bytes), IMPMEM_OK);
            assert_true(sum == one.total_bytes[IMPMEM_ACCOUNT_DEVICE]);
            planned++;
        } else {
            assert_true(st == IMPMEM_ERR_OVERFLOW || st == IMPMEM_ERR_BAD_VALUE || st == IMPMEM_ERR_DOES_NOT_FIT);
            assert_int_equal(failure.why.status, st);
            refused++;
        }
        impmem_layout layout = IMPMEM_LAYOUT_INIT;
        impmem_ranks_summary sum;
        layout.tp = layout.pp = 2;
        memset(plans, 0, sizeof plans);
        st = impmem_plan_ranks(&w.in, &layout, plans, ranks, 8, &sum, NULL);
        assert_true(st == IMPMEM_OK || st == IMPMEM_ERR_OVERFLOW || st == IMPMEM_ERR_BAD_VALUE ||
                    st == IMPMEM_ERR_DOES_NOT_FIT);
    }
    assert_true(planned > 100 && refused > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_regions_and_totals_agree_and_equal_inputs_give_equal_bytes),
        cmocka_unit_test(more_budget_never_means_fewer_blocks),
        cmocka_unit_test(kv_takes_what_is_left_to_the_last_block),
        cmocka_unit_test(the_largest_fit_is_tight),
        cmocka_unit_test(every_lever_works_when_applied),
        cmocka_unit_test(ranks_have_one_block_count_within_their_budgets),
        cmocka_unit_test(every_line_of_every_plan_is_explained),
        cmocka_unit_test(enormous_features_are_errors_not_wraps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
