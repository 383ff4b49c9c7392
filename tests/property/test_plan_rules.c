/* Rules that hold for every input: checked over random models, demands, loads and budgets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "unit/plan/shapes.h"

#define ROUNDS 4000u

/* splitmix64: a failing round is named by its seed and can be run again. */
static uint64_t next(uint64_t *seed)
{
    uint64_t z = (*seed += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint32_t below(uint64_t *seed, uint32_t n)
{
    return (uint32_t)(next(seed) % n);
}

typedef struct world {
    impmem_model_shape shape;
    impmem_demand demand[12];
    impmem_plan_input in;
    uint64_t unit[12];
} world;

static world w;
static impmem_plan one, two;
static impmem_plan_failure failure;

static impmem_status grows_with_tokens(const void *context, const impmem_load *load, uint64_t *out)
{
    *out = *(const uint64_t *)context * load->tokens;
    return IMPMEM_OK;
}

static impmem_status grows_with_batch(const void *context, const impmem_load *load, uint64_t *out)
{
    *out = *(const uint64_t *)context * load->batch;
    return IMPMEM_OK;
}

static void random_shape(uint64_t *seed)
{
    static const uint32_t dims[] = {32, 64, 96, 128, 256};
    w.shape = (impmem_model_shape)IMPMEM_MODEL_SHAPE_INIT;
    uint32_t heads = 1 + below(seed, 16), dim = dims[below(seed, 5)], layers = 1 + below(seed, 96);
    impmem_status st = impmem_shape_uniform_attention(&w.shape, layers, heads, dim, dim);
    assert_int_equal(st, IMPMEM_OK);
    uint32_t style = below(seed, 5);
    for (uint32_t i = 0; i < layers; i++) {
        if (style == 1 && i % 4 != 3) window_layers(&w.shape, i, i + 1, 1024);
        if (style == 2 && below(seed, 2)) window_layers(&w.shape, i, i + 1, 128u << below(seed, 4));
        if (style == 3) w.shape.layer[i] = (impmem_layer_shape){.kind = IMPMEM_LAYER_LATENT, .kv_heads = 1, .k_dim = 576};
        if (style == 4 && i > 0 && below(seed, 3) == 0) w.shape.layer[i].kind = IMPMEM_LAYER_NO_ATTENTION;
    }
    w.shape.weight_bytes = next(seed) % (20 * IMPMEM_GIB);
}

static void random_demands(uint64_t *seed)
{
    static const impmem_tier tier[] = {IMPMEM_TIER_MODEL,  IMPMEM_TIER_ENGINE,  IMPMEM_TIER_SCRATCH,
                                       IMPMEM_TIER_PINNED, IMPMEM_TIER_STAGING, IMPMEM_TIER_CHARGE};
    w.in.n_demands = below(seed, 12);
    for (uint32_t i = 0; i < w.in.n_demands; i++) {
        impmem_tier t = tier[below(seed, 6)];
        uint32_t flags = 0, kind = below(seed, 6);
        if (kind == 0 && (t == IMPMEM_TIER_MODEL || t == IMPMEM_TIER_ENGINE || t == IMPMEM_TIER_PINNED))
            flags = IMPMEM_LINE_OPTIONAL;
        if (kind == 1 && (t == IMPMEM_TIER_MODEL || t == IMPMEM_TIER_ENGINE)) flags = IMPMEM_LINE_TRANSIENT;
        w.demand[i] = demand(2000 + i, t, flags, next(seed) >> (24 + below(seed, 30)), "demand");
        if (w.demand[i].bytes > 2 * IMPMEM_GIB) w.demand[i].bytes %= 2 * IMPMEM_GIB;
        w.unit[i] = below(seed, 100000);
        w.demand[i].context = &w.unit[i];
        if (kind == 2) w.demand[i].size = grows_with_tokens;
        if (kind == 3) w.demand[i].size = grows_with_batch;
    }
}

static void random_input(uint64_t *seed)
{
    static const impmem_dtype dtype[] = {IMPMEM_DTYPE_F16, IMPMEM_DTYPE_FP8_E4M3, IMPMEM_DTYPE_INT8, IMPMEM_DTYPE_NVFP4,
                                         IMPMEM_DTYPE_INT4};
    memset(&w.in, 0, sizeof w.in);
    w.in.size = sizeof w.in;
    w.in.version = 1;
    random_shape(seed);
    w.in.model = &w.shape;
    w.in.demand = w.demand;
    random_demands(seed);
    w.in.budget_bytes = next(seed) % (96 * IMPMEM_GIB);
    w.in.max_batch = 1 + below(seed, 64);
    w.in.max_seq_tokens = 1 + below(seed, 60000);
    w.in.block_tokens = 16 * (1 + below(seed, 16));
    w.in.prefill_tokens = below(seed, 3) ? 0 : 1 + below(seed, 8192);
    w.in.kv_dtype_k = dtype[below(seed, 5)];
    w.in.kv_dtype_v = below(seed, 4) ? w.in.kv_dtype_k : dtype[below(seed, 5)];
    if (below(seed, 2)) w.in.promised_kv_tokens = 1 + below(seed, 400000);
    if (below(seed, 3) == 0) w.in.prefix_cache_tokens = below(seed, 100000);
    w.in.context_bytes = next(seed) % IMPMEM_GIB;
    w.in.library_reserve_bytes = next(seed) % IMPMEM_GIB;
    w.in.granule_bytes = (uint64_t)256 << below(seed, 15);
    w.in.kv_initial_percent = below(seed, 3) ? 0 : 1 + below(seed, 100);
    if (below(seed, 4) == 0) w.in.pinned_budget_bytes = 1 + next(seed) % (4 * IMPMEM_GIB);
    if (below(seed, 8) == 0) w.in.host_budget_bytes = 1 + below(seed, 4000000);
}

static impmem_status run(impmem_plan *out)
{
    memset(out, 0, sizeof *out);
    memset(&failure, 0, sizeof failure);
    return impmem_plan_memory_only(&w.in, out, &failure);
}

#define ROUND(seed, round)                                                                                                 \
    uint64_t seed = UINT64_C(1000003) * (round) + 17;                                                                      \
    random_input(&seed)

static void equal_inputs_give_equal_bytes(void **state)
{
    (void)state;
    uint32_t fit = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        ROUND(seed, round);
        memset(&one, 0, sizeof one);
        memset(&two, 0, sizeof two);
        impmem_status a = impmem_plan_memory_only(&w.in, &one, NULL);
        impmem_plan_failure *spare = &failure;
        memset(spare, 0, sizeof *spare);
        impmem_status b = impmem_plan_memory_only(&w.in, &two, spare);
        assert_int_equal(a, b);
        assert_memory_equal(&one, &two, sizeof one);
        fit += a == IMPMEM_OK;
    }
    /* Both answers must be common, or the other rules prove nothing. */
    assert_true(fit > ROUNDS / 5 && fit < ROUNDS * 4 / 5);
}

static void lines_add_up_to_totals_within_budgets(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        ROUND(seed, round);
        impmem_status st = run(&one);
        if (st == IMPMEM_ERR_DOES_NOT_FIT) {
            assert_true(failure.requested_bytes > failure.budget_bytes);
            assert_true(failure.over_bytes == failure.requested_bytes - failure.budget_bytes);
            uint64_t steady = 0, peak = 0;
            for (uint32_t i = 0; i < failure.n_lines; i++) {
                const impmem_line *line = &failure.line[i];
                if (line->account != failure.account) continue;
                if (!(line->flags & IMPMEM_LINE_TRANSIENT)) steady += line->bytes;
                if (line->tier != IMPMEM_TIER_POOL) peak += line->bytes;
            }
            assert_true(failure.requested_bytes == (steady > peak ? steady : peak));
            continue;
        }
        assert_int_equal(st, IMPMEM_OK);
        uint64_t total[IMPMEM_N_ACCOUNTS] = {0}, region[IMPMEM_PLAN_MAX_REGIONS] = {0}, peak = 0;
        for (uint32_t i = 0; i < one.n_lines; i++) {
            const impmem_line *line = &one.line[i];
            for (uint32_t j = 0; j < i; j++) assert_int_not_equal(one.line[j].id, line->id);
            assert_true(line->bytes > 0 || (line->flags & IMPMEM_LINE_DROPPED));
            if (line->region != UINT32_MAX) region[line->region] += line->bytes;
            if (!(line->flags & IMPMEM_LINE_TRANSIENT)) total[line->account] += line->bytes;
            if (line->account == IMPMEM_ACCOUNT_DEVICE && line->tier != IMPMEM_TIER_POOL) peak += line->bytes;
        }
        for (uint32_t a = 0; a < IMPMEM_N_ACCOUNTS; a++) {
            assert_true(total[a] == one.total_bytes[a]);
            assert_true(total[a] <= one.budget_bytes[a]);
        }
        assert_true(peak == one.load_peak_bytes && peak <= w.in.budget_bytes);
        for (uint32_t r = 0; r < one.n_regions; r++) {
            assert_true(region[r] == one.region[r].bytes);
            assert_true(one.region[r].bytes % w.in.granule_bytes == 0);
            assert_true(one.region[r].initial_bytes > 0 && one.region[r].initial_bytes <= one.region[r].bytes);
        }
        for (uint32_t g = 0; g < one.n_kv_groups; g++) {
            const impmem_kv_group *group = &one.kv_group[g];
            assert_true(group->blocks <= group->blocks_demanded);
            assert_true(group->blocks >= group->blocks_per_sequence);
            assert_true(group->blocks * group->stride_bytes <= one.region[group->region].bytes);
            assert_true(group->window_tokens == 0 ||
                        group->blocks == (uint64_t)group->blocks_per_sequence * w.in.max_batch);
        }
        if (one.n_kv_groups > 0) assert_true(one.kv_tokens >= one.promised_kv_tokens);
        assert_true(one.sequences_at_max >= 1);
    }
}

static void a_demand_changes_its_own_line_only(void **state)
{
    (void)state;
    uint32_t compared = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        ROUND(seed, round);
        w.in.host_budget_bytes = 0;
        if (w.in.n_demands == 0 || run(&one) != IMPMEM_OK) continue;
        uint32_t changed = below(&seed, w.in.n_demands);
        if (w.demand[changed].flags & IMPMEM_LINE_OPTIONAL) continue;
        const impmem_line *before = impmem_plan_find_line(&one, w.demand[changed].id);
        if (!before) continue;
        w.demand[changed].size = NULL;
        w.demand[changed].bytes = before->bytes + 256;
        if (run(&two) != IMPMEM_OK) continue;
        for (uint32_t i = 0; i < one.n_lines; i++) {
            const impmem_line *a = &one.line[i], *b = impmem_plan_find_line(&two, a->id);
            const bool rounding = a->id >= IMPMEM_LINE_ROUNDING && a->id < IMPMEM_LINE_ROUNDING + IMPMEM_PLAN_MAX_REGIONS;
            if (rounding || a->tier == IMPMEM_TIER_CONTROL) continue;
            assert_non_null(b);
            if (a->id == w.demand[changed].id) {
                assert_true(b->bytes > a->bytes);
            } else if (a->id == IMPMEM_LINE_KV || (a->flags & IMPMEM_LINE_OPTIONAL)) {
                continue; /* they live on what is left */
            } else {
                assert_true(b->bytes == a->bytes);
                assert_true(b->demand_bytes == a->demand_bytes);
            }
        }
        compared++;
    }
    assert_true(compared > 300);
}

static void more_budget_never_means_fewer_blocks(void **state)
{
    (void)state;
    uint32_t compared = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        ROUND(seed, round);
        /* An optional line that is granted at last takes host tables too, which may then be KV's loss. */
        for (uint32_t i = 0; i < w.in.n_demands; i++)
            if (w.demand[i].flags & IMPMEM_LINE_OPTIONAL) w.in.host_budget_bytes = 0;
        if (run(&one) != IMPMEM_OK) continue;
        w.in.budget_bytes += next(&seed) >> (20 + below(&seed, 40));
        assert_int_equal(run(&two), IMPMEM_OK);
        assert_int_equal(one.n_kv_groups, two.n_kv_groups);
        for (uint32_t g = 0; g < one.n_kv_groups; g++) assert_true(two.kv_group[g].blocks >= one.kv_group[g].blocks);
        assert_true(two.sequences_at_max >= one.sequences_at_max);
        compared++;
    }
    assert_true(compared > ROUNDS / 5);
}

static void a_longer_context_never_holds_more_sequences(void **state)
{
    (void)state;
    uint32_t compared = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        ROUND(seed, round);
        if (run(&one) != IMPMEM_OK) continue;
        w.in.max_seq_tokens += 1 + below(&seed, 4000);
        if (run(&two) != IMPMEM_OK) continue;
        assert_true(two.sequences_at_max <= one.sequences_at_max);
        compared++;
    }
    assert_true(compared > ROUNDS / 10);
}

static void apply(impmem_plan_input *in, const impmem_lever *lever, uint64_t to)
{
    static impmem_plan_features features;
    impmem_lever changed = *lever;
    if (lever->second == IMPMEM_LEVER_NONE) changed.to = to;
    else changed.second_to = to;
    assert_int_equal(impmem_lever_apply(&changed, in, &features), IMPMEM_OK);
}

static bool is_dtype(impmem_lever_kind kind)
{
    return kind == IMPMEM_LEVER_KV_DTYPE || kind == IMPMEM_LEVER_V_DTYPE || kind == IMPMEM_LEVER_K_DTYPE;
}

static uint64_t step_of(const impmem_lever *lever)
{
    switch (lever->second != IMPMEM_LEVER_NONE ? lever->second : lever->kind) {
    case IMPMEM_LEVER_CONTEXT:
    case IMPMEM_LEVER_PREFILL:
    case IMPMEM_LEVER_PROMISE: return w.in.block_tokens;
    case IMPMEM_LEVER_BATCH: return 1;
    case IMPMEM_LEVER_KV_DTYPE:
    case IMPMEM_LEVER_BUDGET:
    case IMPMEM_LEVER_BLOCK:
    case IMPMEM_LEVER_V_DTYPE:
    case IMPMEM_LEVER_K_DTYPE:
    case IMPMEM_LEVER_DRAFT:
    case IMPMEM_LEVER_VISION:
    case IMPMEM_LEVER_TP:
    case IMPMEM_LEVER_NONE: break;
    }
    return 0;
}

static void check_lever(const impmem_lever *lever)
{
    impmem_plan_input in = w.in;
    const bool pair = lever->second != IMPMEM_LEVER_NONE;
    const uint64_t to = pair ? lever->second_to : lever->to, from = pair ? lever->second_from : lever->from;
    assert_true(lever->from != lever->to || (is_dtype(lever->kind) && in.kv_dtype_k != in.kv_dtype_v));
    assert_true(!pair || lever->second_from != lever->second_to);
    apply(&in, lever, to);
    memset(&two, 0, sizeof two);
    assert_int_equal(impmem_plan_memory_only(&in, &two, NULL), IMPMEM_OK);
    assert_true(two.total_bytes[IMPMEM_ACCOUNT_DEVICE] == lever->total_bytes);
    uint64_t step = step_of(lever);
    if (step > 0 && to + step < from) {
        in = w.in;
        apply(&in, lever, to + step);
        memset(&two, 0, sizeof two);
        assert_int_equal(impmem_plan_memory_only(&in, &two, NULL), IMPMEM_ERR_DOES_NOT_FIT);
    }
    if (lever->kind == IMPMEM_LEVER_BUDGET) {
        assert_true(lever->to % w.in.granule_bytes == 0);
        in = w.in;
        in.budget_bytes = lever->to - w.in.granule_bytes;
        memset(&two, 0, sizeof two);
        assert_int_equal(impmem_plan_memory_only(&in, &two, NULL), IMPMEM_ERR_DOES_NOT_FIT);
    }
}

/* The lines named are too much together, none of them could be left out, and only then are there any. */
static void check_conflict(const impmem_plan_failure *full)
{
    uint64_t sum = 0, least = UINT64_MAX;
    for (uint32_t i = 0; i < full->n_conflict; i++) {
        sum += full->conflict[i].bytes;
        if (full->conflict[i].bytes < least) least = full->conflict[i].bytes;
    }
    if (full->n_conflict == 0) {
        assert_true(full->gap_bytes == 0);
        return;
    }
    assert_int_equal(full->n_levers, 1);
    assert_true(full->least_bytes == full->budget_bytes + full->gap_bytes);
    if (full->n_conflict == IMPMEM_PLAN_MAX_CONFLICT) return;
    assert_true(sum > full->budget_bytes || full->budget_bytes == 0);
    assert_true(sum - least <= full->budget_bytes);
}

static void every_lever_works_and_is_the_smallest(void **state)
{
    (void)state;
    uint32_t seen[13] = {0}, pairs = 0, conflicts = 0;
    impmem_plan_failure *full = malloc(sizeof *full);
    assert_non_null(full);
    for (uint32_t round = 0; round < ROUNDS / 2; round++) {
        ROUND(seed, round);
        memset(&one, 0, sizeof one);
        memset(full, 0, sizeof *full);
        /* Host tables come in steps, where the smallest change is not always a step from the next. */
        w.in.host_budget_bytes = 0;
        if (impmem_plan_memory(&w.in, &one, full) != IMPMEM_ERR_DOES_NOT_FIT) continue;
        for (uint32_t i = 0; i < full->n_levers; i++) {
            check_lever(&full->lever[i]);
            seen[full->lever[i].kind]++;
            pairs += full->lever[i].second != IMPMEM_LEVER_NONE;
            if (full->lever[i].second != IMPMEM_LEVER_NONE) assert_true(i == 0 && full->n_levers <= 2);
            for (uint32_t j = 0; j < i; j++) assert_int_not_equal(full->lever[i].kind, full->lever[j].kind);
            if (i > 0 && full->lever[i].kind != IMPMEM_LEVER_BUDGET)
                assert_true(full->lever[i].frees_bytes <= full->lever[i - 1].frees_bytes);
        }
        /* With a second account too small as well no single change may be enough; else the budget always is one. */
        if (full->account != IMPMEM_ACCOUNT_DEVICE || w.in.pinned_budget_bytes > 0) continue;
        assert_true(full->n_levers > 0);
        assert_int_equal(full->lever[full->n_levers - 1].kind, IMPMEM_LEVER_BUDGET);
        conflicts += full->n_conflict > 0;
        check_conflict(full);
    }
    free(full);
    assert_true(conflicts > 20);
    assert_true(pairs > 0);
    for (uint32_t kind = IMPMEM_LEVER_CONTEXT; kind <= IMPMEM_LEVER_K_DTYPE; kind++) {
        if (seen[kind] == 0) fail_msg("no lever of kind %u in any round", kind);
    }
}

/* Whatever the numbers, the answer is a plan or a typed error, and totals never wrap. */
static void enormous_inputs_are_errors_not_wraps(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        ROUND(seed, round);
        uint64_t huge = UINT64_MAX >> below(&seed, 24);
        switch (below(&seed, 7)) {
        case 0: w.shape.weight_bytes = huge; break;
        case 1: w.in.context_bytes = huge; break;
        case 2: w.in.prefix_cache_tokens = huge; break;
        case 3: w.demand[0] = demand(2000, IMPMEM_TIER_ENGINE, 0, huge, "huge"); break;
        case 4: w.demand[0] = demand(2000, IMPMEM_TIER_PINNED, 0, huge, "huge"); break;
        case 5: w.in.max_seq_tokens = w.in.max_batch = UINT32_MAX >> below(&seed, 16); break;
        default: w.shape.layer[0].kind = IMPMEM_LAYER_FULL; w.shape.layer[0].k_dim = w.shape.layer[0].kv_heads = UINT32_MAX;
        }
        if (w.in.n_demands == 0) w.in.n_demands = 1;
        if (w.demand[0].id != 2000) w.demand[0] = demand(2000, IMPMEM_TIER_ENGINE, 0, huge, "huge");
        w.in.budget_bytes = UINT64_MAX;
        impmem_status st = run(&one);
        if (st == IMPMEM_OK) {
            for (uint32_t a = 0; a < IMPMEM_N_ACCOUNTS; a++) {
                uint64_t sum = 0;
                for (uint32_t i = 0; i < one.n_lines; i++) {
                    if (one.line[i].account != a || (one.line[i].flags & IMPMEM_LINE_TRANSIENT)) continue;
                    assert_int_equal(impmem_add(&sum, sum, one.line[i].bytes), IMPMEM_OK);
                }
                assert_true(sum == one.total_bytes[a]);
            }
        } else {
            assert_true(st == IMPMEM_ERR_OVERFLOW || st == IMPMEM_ERR_BAD_VALUE || st == IMPMEM_ERR_DOES_NOT_FIT);
            assert_int_equal(failure.why.status, st);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_inputs_give_equal_bytes),
        cmocka_unit_test(lines_add_up_to_totals_within_budgets),
        cmocka_unit_test(a_demand_changes_its_own_line_only),
        cmocka_unit_test(more_budget_never_means_fewer_blocks),
        cmocka_unit_test(a_longer_context_never_holds_more_sequences),
        cmocka_unit_test(every_lever_works_and_is_the_smallest),
        cmocka_unit_test(enormous_inputs_are_errors_not_wraps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
