/* What impmem_plan_memory decides, against the reference engine's planner cases and arithmetic in each test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "impmem/control.h"
#include "unit/plan/shapes.h"

static impmem_plan plan;
static impmem_plan_failure failure;

static void fresh(void)
{
    plan = (impmem_plan)IMPMEM_PLAN_INIT;
    failure = (impmem_plan_failure)IMPMEM_PLAN_FAILURE_INIT;
}

static uint64_t line_bytes(impmem_line_id id)
{
    const impmem_line *line = impmem_plan_find_line(&plan, id);
    return line ? line->bytes : 0;
}

static void plan_ok(const impmem_plan_input *in)
{
    fresh();
    assert_int_equal(impmem_plan_memory(in, &plan, &failure), IMPMEM_OK);
}

static void plan_refused(const impmem_plan_input *in)
{
    fresh();
    assert_int_equal(impmem_plan_memory(in, &plan, &failure), IMPMEM_ERR_DOES_NOT_FIT);
    assert_int_equal(plan.n_lines, 0);
}

static void the_dense_case_takes_its_whole_demand_on_a_32607_mib_card(void **state)
{
    (void)state;
    dense_case c;
    dense_case_init(&c, 32607);
    plan_ok(&c.in);
    assert_int_equal(plan.n_kv_groups, 1);
    assert_int_equal(plan.kv_group[0].blocks_per_sequence, 256);
    assert_int_equal(plan.kv_group[0].blocks, 2048);
    assert_int_equal(plan.kv_group[0].block_bytes, 36 * 65536);
    assert_int_equal(line_bytes(IMPMEM_LINE_KV), 4608 * MIB);
    assert_int_equal(line_bytes(2001), 2158 * MIB);
    assert_int_equal(plan.sequences_at_max, 8);
    assert_int_equal(plan.kv_tokens, 8 * 4096);
    assert_int_equal(plan.promised_kv_tokens, 16384);
    assert_true(plan.total_bytes[IMPMEM_ACCOUNT_DEVICE] == (1680 + 3900 + 4076 + 2158 + 397 + 64 + 4608) * MIB);
    assert_string_equal(impmem_plan_find_line(&plan, IMPMEM_LINE_KV)->how,
                        "36 layers x 16 tokens x 8 heads x (128 + 128) x f16 = 65536 x 36 B a block, 2048 blocks");
    c.in.kv_dtype_k = c.in.kv_dtype_v = IMPMEM_DTYPE_FP8_E4M3;
    plan_ok(&c.in);
    assert_int_equal(line_bytes(IMPMEM_LINE_KV), 2304 * MIB);
}

/* 16384 - 10117 fixed - 2158 optional = 4109 MiB of 2.25 MiB each. */
static void a_smaller_card_gives_kv_what_is_left(void **state)
{
    (void)state;
    dense_case c;
    dense_case_init(&c, 16384);
    plan_ok(&c.in);
    assert_int_equal(plan.kv_group[0].blocks, 1826);
    assert_int_equal(plan.kv_group[0].blocks_demanded, 2048);
    assert_int_equal(line_bytes(2001), 2158 * MIB);
    assert_int_equal(plan.sequences_at_max, 1826 / 256);
    /* 1826 x 2.25 = 4108.5 MiB, and the half is the region's rounding. */
    assert_int_equal(line_bytes(IMPMEM_LINE_KV), 1826 * (uint64_t)36 * 65536);
    assert_int_equal(line_bytes(IMPMEM_LINE_ROUNDING + plan.kv_group[0].region), MIB / 2);
    uint64_t with_library = plan.kv_group[0].blocks;
    c.in.library_reserve_bytes = 0;
    plan_ok(&c.in);
    assert_true(plan.kv_group[0].blocks > with_library);
    assert_null(impmem_plan_find_line(&plan, IMPMEM_LINE_LIBRARY));
}

/* 12288 - 10117 = 2171 MiB; 16,384 promised tokens take 1024 x 2.25 = 2304. */
static void less_than_the_promised_load_is_a_refusal(void **state)
{
    (void)state;
    dense_case c;
    dense_case_init(&c, 12288);
    plan_refused(&c.in);
    assert_int_equal(failure.account, IMPMEM_ACCOUNT_DEVICE);
    assert_true(failure.requested_bytes == (10117 + 2304) * MIB);
    assert_true(failure.over_bytes == (10117 + 2304 - 12288) * MIB);
    assert_true(failure.why.asked_bytes == failure.requested_bytes);
    assert_true(failure.why.available_bytes == 12288 * MIB);
    assert_int_equal(failure.why.status, IMPMEM_ERR_DOES_NOT_FIT);
    /* One sequence takes 576 MiB. */
    assert_int_equal(failure.sequences_at_max, 2171 / 576);
}

/* 12800 - 10117 - 2304 = 379 MiB for what is optional. */
static void the_promised_load_comes_before_what_is_optional(void **state)
{
    (void)state;
    dense_case c;
    dense_case_init(&c, 12800);
    plan_ok(&c.in);
    assert_int_equal(plan.kv_group[0].blocks, 1024);
    assert_int_equal(line_bytes(2001), 379 * MIB);
    const impmem_line *cache = impmem_plan_find_line(&plan, 2001);
    assert_true(cache->demand_bytes == 2158 * MIB);
    assert_int_equal(cache->flags, IMPMEM_LINE_OPTIONAL);
    /* Nothing optional declared: (12800 - 10117) / 2.25 = 1192.4. */
    const uint32_t demands = c.in.n_demands;
    impmem_demand declared[8];
    memcpy(declared, c.in.demand, demands * sizeof *declared);
    const impmem_demand *all = c.in.demand;
    c.in.n_demands = 0;
    for (uint32_t i = 0; i < demands; i++)
        if (all[i].id != 2001) declared[c.in.n_demands++] = all[i];
    c.in.demand = declared;
    plan_ok(&c.in);
    assert_int_equal(plan.kv_group[0].blocks, 1192);
    c.in.demand = all;
    c.in.n_demands = demands;
    /* To the byte of the smallest budget, the optional line is dropped and says so. */
    c.in.budget_bytes = (10117 + 2304) * MIB;
    plan_ok(&c.in);
    cache = impmem_plan_find_line(&plan, 2001);
    assert_int_equal(cache->bytes, 0);
    assert_int_equal(cache->flags, IMPMEM_LINE_OPTIONAL | IMPMEM_LINE_DROPPED);
    assert_int_equal(cache->region, UINT32_MAX);
    c.in.budget_bytes -= 1;
    plan_refused(&c.in);
    assert_int_equal(failure.over_bytes, 1);
}

/* A longer context takes its blocks and nothing less; windows stop growing once they are full. */
static void the_total_grows_with_the_context_until_windows_are_full(void **state)
{
    (void)state;
    dense_case c;
    dense_case_init(&c, 65536);
    c.in.max_batch = 1;
    c.in.prefill_tokens = 256;
    c.in.granule_bytes = 256;
    c.in.promised_kv_tokens = 0;
    uint64_t before = 0;
    for (uint32_t blocks = 64; blocks < 80; blocks++) {
        c.in.max_seq_tokens = 16 * blocks;
        plan_ok(&c.in);
        const uint64_t total = plan.total_bytes[IMPMEM_ACCOUNT_DEVICE];
        if (before) assert_true(total - before == 36 * 65536);
        before = total;
    }
    window_layers(&c.shape, 0, 36, 512); /* (512 + 256) / 16 + 1 = 49 blocks */
    for (uint32_t blocks = 49; blocks < 80; blocks++) {
        c.in.max_seq_tokens = 16 * blocks;
        plan_ok(&c.in);
        assert_true(line_bytes(IMPMEM_LINE_KV) == 49 * (uint64_t)36 * 65536);
    }
}

static void weights_alone_too_large_are_refused(void **state)
{
    (void)state;
    dense_case c;
    dense_case_init(&c, 24 * 1024);
    c.shape.weight_bytes = 28 * IMPMEM_GIB;
    plan_refused(&c.in);
    assert_int_equal(failure.sequences_at_max, 0);
    assert_int_equal(failure.why.line, IMPMEM_LINE_WEIGHTS);
    c.in.budget_bytes = 0;
    plan_refused(&c.in);
    assert_int_equal(failure.budget_bytes, 0);
    assert_true(failure.over_bytes == failure.requested_bytes);
}

static void kv_pools_of_the_three_reference_models_take_their_measured_bytes(void **state)
{
    (void)state;
    impmem_model_shape *s = malloc(sizeof *s);
    assert_non_null(s);
    impmem_plan_input in = IMPMEM_PLAN_INPUT_INIT;
    in.model = s;
    in.budget_bytes = 64 * IMPMEM_GIB;
    in.kv_dtype_k = in.kv_dtype_v = IMPMEM_DTYPE_FP8_E4M3;
    in.max_seq_tokens = 4096;
    in.max_batch = 16; /* 4096 blocks */
    dense_shape(s);
    plan_ok(&in);
    assert_int_equal(plan.kv_group[0].blocks, 4096);
    assert_int_equal(line_bytes(IMPMEM_LINE_KV), 4608 * MIB);
    in.max_batch = 8; /* 2048 blocks */
    experts_shape(s);
    plan_ok(&in);
    assert_int_equal(line_bytes(IMPMEM_LINE_KV), 1536 * MIB);
    post_norm_shape(s);
    plan_ok(&in);
    assert_int_equal(line_bytes(IMPMEM_LINE_KV), 2176 * MIB);
    free(s);
}

static void windows_are_a_group_of_their_own_for_the_whole_batch(void **state)
{
    (void)state;
    dense_case c;
    dense_case_init(&c, 32607);
    c.in.prefill_tokens = 512;
    window_layers(&c.shape, 0, 24, 512); /* 512 + 512 in flight */
    plan_ok(&c.in);
    assert_int_equal(plan.n_kv_groups, 2);
    assert_int_equal(plan.kv_group[0].window_tokens, 0);
    assert_int_equal(plan.kv_group[0].n_layers, 12);
    assert_int_equal(plan.kv_group[1].window_tokens, 512);
    assert_int_equal(plan.kv_group[1].n_layers, 24);
    assert_int_equal(plan.kv_group[1].blocks, (64 + 1) * 8);
    assert_int_equal(line_bytes(IMPMEM_LINE_KV + 1), 520 * (uint64_t)24 * 65536);
    assert_int_equal(line_bytes(IMPMEM_LINE_KV), 2048 * (uint64_t)12 * 65536);
    assert_int_equal(impmem_plan_find_line(&plan, IMPMEM_LINE_KV)->tag, IMPMEM_TAG_KV_BLOCKS);
    assert_int_equal(impmem_plan_find_line(&plan, IMPMEM_LINE_KV + 1)->tag, IMPMEM_TAG_WINDOW_BLOCKS);
    /* Three windows come out ascending, whatever their order in the model. */
    window_layers(&c.shape, 0, 8, 1024);
    window_layers(&c.shape, 20, 30, 128);
    plan_ok(&c.in);
    assert_int_equal(plan.n_kv_groups, 4);
    static const uint32_t window[] = {0, 128, 512, 1024}, layers[] = {6, 10, 12, 8};
    for (uint32_t g = 0; g < 4; g++) {
        assert_int_equal(plan.kv_group[g].window_tokens, window[g]);
        assert_int_equal(plan.kv_group[g].n_layers, layers[g]);
        assert_int_equal(plan.kv_group[g].line, IMPMEM_LINE_KV + g);
        assert_int_equal(plan.region[plan.kv_group[g].region].line, IMPMEM_LINE_KV + g);
    }
}

static void shared_and_attention_free_layers_cost_nothing(void **state)
{
    (void)state;
    dense_case c;
    dense_case_init(&c, 32607);
    for (uint32_t i = 1; i < 36; i += 3) c.shape.layer[i].kind = IMPMEM_LAYER_NO_ATTENTION;
    for (uint32_t i = 2; i < 36; i += 3)
        c.shape.layer[i] = (impmem_layer_shape){.kind = IMPMEM_LAYER_SHARED, .shared_with = i - 2};
    plan_ok(&c.in);
    assert_int_equal(plan.kv_group[0].n_layers, 12);
    assert_int_equal(plan.kv_group[0].block_bytes, 12 * 65536);
    for (uint32_t i = 0; i < 36; i++) c.shape.layer[i].kind = IMPMEM_LAYER_NO_ATTENTION;
    plan_ok(&c.in);
    assert_int_equal(plan.n_kv_groups, 0);
    assert_int_equal(plan.kv_tokens, 0);
    assert_int_equal(plan.sequences_at_max, 8);
    c.in.budget_bytes = 0;
    plan_refused(&c.in);
}

static void a_model_of_windows_only_has_no_full_group(void **state)
{
    (void)state;
    dense_case c;
    dense_case_init(&c, 32607);
    window_layers(&c.shape, 0, 36, 1024);
    c.in.prefill_tokens = 512;
    plan_ok(&c.in);
    assert_int_equal(plan.n_kv_groups, 1);
    assert_int_equal(plan.kv_group[0].blocks, (96 + 1) * 8);
    assert_int_equal(plan.kv_group[0].line, IMPMEM_LINE_KV);
    assert_int_equal(plan.sequences_at_max, 8);
    assert_int_equal(plan.kv_tokens, 8 * 4096);
}

static void pools_never_exceed_demand_plus_the_cache_allowance(void **state)
{
    (void)state;
    dense_case c;
    dense_case_init(&c, 81920);
    c.in.max_batch = 1;
    c.in.max_seq_tokens = 1024;
    plan_ok(&c.in);
    assert_int_equal(plan.kv_group[0].blocks, 64);
    c.in.prefix_cache_tokens = 1000; /* 62.5 blocks */
    plan_ok(&c.in);
    assert_int_equal(plan.kv_group[0].blocks, 64 + 63);
    /* The allowance is not part of the promise: it goes when memory is short. */
    c.in.promised_kv_tokens = 0;
    c.in.budget_bytes = (1680 + 3900 + 4076 + 397 + 64 + 144 + 100) * MIB; /* 64 blocks take 144 */
    c.in.n_demands = 3;
    plan_ok(&c.in);
    assert_int_equal(plan.kv_group[0].blocks, 64);
    assert_int_equal(line_bytes(2001), 100 * MIB);
}

static void fewer_than_one_sequence_cannot_be_promised(void **state)
{
    (void)state;
    dense_case c;
    dense_case_init(&c, 10117 + 576);
    c.in.promised_kv_tokens = 1;
    plan_ok(&c.in);
    assert_int_equal(plan.kv_group[0].blocks, 256);
    assert_int_equal(plan.promised_kv_tokens, 4096);
    c.in.budget_bytes -= MIB;
    plan_refused(&c.in);
    /* More than the whole demand is the whole demand. */
    c.in.budget_bytes = 32607 * MIB;
    c.in.promised_kv_tokens = UINT64_MAX;
    plan_ok(&c.in);
    assert_int_equal(plan.promised_kv_tokens, 8 * 4096);
}

static void defaults_are_filled_in(void **state)
{
    (void)state;
    dense_case c;
    dense_case_init(&c, 32607);
    impmem_plan_input in = {0};
    in.model = &c.shape;
    in.budget_bytes = 100 * IMPMEM_GIB;
    c.shape.trained_context = 40960;
    plan_ok(&in);
    assert_int_equal(plan.max_batch, 1);
    assert_int_equal(plan.max_seq_tokens, 40960);
    assert_int_equal(plan.block_tokens, 16);
    assert_int_equal(plan.prefill_tokens, 4096);
    assert_int_equal(plan.kv_dtype_k, IMPMEM_DTYPE_F16);
    assert_int_equal(plan.kv_dtype_v, IMPMEM_DTYPE_F16);
    assert_int_equal(plan.granule_bytes, 2 * MIB);
    assert_int_equal(plan.commit_chunk_bytes, 64 * MIB);
    assert_int_equal(plan.journal_records, 4096);
    assert_true(plan.budget_bytes[IMPMEM_ACCOUNT_PINNED] == UINT64_MAX);
    assert_true(plan.budget_bytes[IMPMEM_ACCOUNT_PAGEABLE] == UINT64_MAX);
    assert_int_equal(plan.promised_kv_tokens, 40960);
    in.max_seq_tokens = 100;
    plan_ok(&in);
    assert_int_equal(plan.prefill_tokens, 100);
    assert_int_equal(plan.kv_group[0].blocks, 7);
}

/* Regions in their order, each the sum of its lines, rounded up to the granule. */
static void regions_are_the_sum_of_their_lines(void **state)
{
    (void)state;
    dense_case c;
    dense_case_init(&c, 32607);
    window_layers(&c.shape, 0, 6, 128);
    impmem_demand d[] = {
        demand(3000, IMPMEM_TIER_PINNED, 0, 5000, "pinned"),
        demand(3001, IMPMEM_TIER_CHARGE, 0, 12345, "neighbour"),
        demand(3002, IMPMEM_TIER_ENGINE, IMPMEM_LINE_TRANSIENT, 3 * MIB + 1, "repack"),
        demand(3003, IMPMEM_TIER_STAGING, 0, 777, "staging"),
        demand(3004, IMPMEM_TIER_SCRATCH, 0, 1000, "scratch a"),
        demand(3005, IMPMEM_TIER_ENGINE, IMPMEM_LINE_ESTIMATED, 300, "workspace"),
        demand(3006, IMPMEM_TIER_SCRATCH, 0, 1, "scratch b"),
        demand(3007, IMPMEM_TIER_MODEL, 0, 513, "scales"),
        demand(3008, IMPMEM_TIER_MODEL, 0, 0, "nothing"),
    };
    c.in.demand = d;
    c.in.n_demands = sizeof d / sizeof d[0];
    plan_ok(&c.in);
    static const impmem_line_id order[] = {IMPMEM_LINE_CONTEXT,
                                           IMPMEM_LINE_LIBRARY,
                                           3001,
                                           3005,
                                           IMPMEM_LINE_ROUNDING + 0,
                                           IMPMEM_LINE_WEIGHTS,
                                           3007,
                                           IMPMEM_LINE_ROUNDING + 1,
                                           3002,
                                           IMPMEM_LINE_ROUNDING + 2,
                                           3004,
                                           3006,
                                           IMPMEM_LINE_ROUNDING + 3,
                                           IMPMEM_LINE_KV,
                                           IMPMEM_LINE_ROUNDING + 4,
                                           IMPMEM_LINE_KV + 1,
                                           IMPMEM_LINE_ROUNDING + 5,
                                           3000,
                                           3003,
                                           IMPMEM_LINE_HOST_CONTROL};
    uint32_t n = 0;
    for (uint32_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        /* KV regions may come out even. */
        if (order[i] >= IMPMEM_LINE_ROUNDING + 4 && order[i] < IMPMEM_LINE_ROUNDING + 32 && plan.line[n].id != order[i])
            continue;
        assert_int_equal(plan.line[n].id, order[i]);
        n++;
    }
    assert_int_equal(plan.n_lines, n);
    assert_int_equal(line_bytes(3005), 512);
    assert_int_equal(line_bytes(IMPMEM_LINE_ROUNDING), MIB - 512);
    assert_int_equal(line_bytes(3007), 768);
    assert_int_equal(line_bytes(3004), 1024);
    assert_int_equal(line_bytes(3006), 256);
    assert_int_equal(line_bytes(3001), 12345);
    assert_int_equal(line_bytes(3003), 777);
    assert_int_equal(line_bytes(3000), MIB); /* one owner: the rounding is its own */
    assert_int_equal(plan.n_regions, 7);
    static const impmem_tier tier[] = {IMPMEM_TIER_ENGINE, IMPMEM_TIER_MODEL, IMPMEM_TIER_ENGINE, IMPMEM_TIER_SCRATCH,
                                       IMPMEM_TIER_POOL,   IMPMEM_TIER_POOL,  IMPMEM_TIER_PINNED};
    static const impmem_line_id holder[] = {3005,           IMPMEM_NO_LINE,     3002, IMPMEM_NO_LINE,
                                            IMPMEM_LINE_KV, IMPMEM_LINE_KV + 1, 3000};
    for (uint32_t r = 0; r < plan.n_regions; r++) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < plan.n_lines; i++)
            if (plan.line[i].region == r) {
                sum += plan.line[i].bytes;
                assert_int_equal(plan.line[i].account, plan.region[r].account);
                assert_int_equal(plan.line[i].tag, plan.region[r].tag);
            }
        assert_true(sum == plan.region[r].bytes);
        assert_int_equal(plan.region[r].bytes % MIB, 0);
        assert_int_equal(plan.region[r].tier, tier[r]);
        assert_int_equal(plan.region[r].line, holder[r]);
        assert_int_equal(plan.region[r].transient, r == 2);
        assert_int_equal(plan.region[r].growable, 0);
        assert_true(plan.region[r].initial_bytes == plan.region[r].bytes);
    }
    assert_int_equal(impmem_plan_find_line(&plan, IMPMEM_LINE_ROUNDING + 2)->flags, IMPMEM_LINE_TRANSIENT);
    /* The transient 4 MiB are in the peak and not in the total. */
    uint64_t kv = 0;
    for (uint32_t g = 0; g < plan.n_kv_groups; g++) kv += plan.region[plan.kv_group[g].region].bytes;
    assert_true(plan.load_peak_bytes == plan.total_bytes[IMPMEM_ACCOUNT_DEVICE] - kv + 4 * MIB);
    assert_true(plan.total_bytes[IMPMEM_ACCOUNT_PINNED] == MIB);
    assert_true(plan.total_bytes[IMPMEM_ACCOUNT_PAGEABLE] == 777 + line_bytes(IMPMEM_LINE_HOST_CONTROL));
}

/* The sum of what each object of this plan takes, by the objects' own size functions. */
static void host_tables_are_counted_exactly(void **state)
{
    (void)state;
    dense_case c;
    dense_case_init(&c, 32607);
    window_layers(&c.shape, 0, 6, 128);
    c.in.journal_records = 100;
    c.in.extra_refs = 10;
    c.demand[0].tier = IMPMEM_TIER_PINNED;
    plan_ok(&c.in);
    uint64_t sum = 0, bytes = 0;
    assert_int_equal(impmem_control_ledger_bytes(plan.n_lines, 100, &sum), IMPMEM_OK);
    assert_int_equal(impmem_control_backend_bytes(&bytes), IMPMEM_OK);
    sum += 3 * bytes;
    assert_int_equal(impmem_control_engine_bytes(plan.max_batch, plan.n_state_pools, &bytes), IMPMEM_OK);
    sum += bytes;
    assert_int_equal(plan.n_regions, 6);
    uint32_t arenas = 0, stacks = 0, owners = 0;
    for (uint32_t r = 0; r < plan.n_regions; r++) {
        uint32_t lines = 0;
        for (uint32_t i = 0; i < plan.n_lines; i++) lines += plan.line[i].region == r;
        assert_int_equal(impmem_control_region_bytes(lines, plan.region[r].bytes, MIB, 0, &bytes), IMPMEM_OK);
        sum += bytes;
        if (plan.region[r].tier == IMPMEM_TIER_MODEL || plan.region[r].tier == IMPMEM_TIER_ENGINE) {
            assert_int_equal(impmem_control_arena_bytes(lines, &bytes), IMPMEM_OK);
            sum += bytes;
            arenas++;
        }
        if (plan.region[r].tier == IMPMEM_TIER_SCRATCH) {
            assert_int_equal(impmem_control_scratch_bytes(&bytes), IMPMEM_OK);
            sum += bytes;
            stacks++;
        }
        if (plan.region[r].tier == IMPMEM_TIER_PINNED) {
            assert_int_equal(impmem_control_pinned_bytes(&bytes), IMPMEM_OK);
            sum += bytes;
            owners++;
        }
    }
    assert_int_equal(arenas, 2);
    assert_int_equal(stacks, 1);
    assert_int_equal(owners, 1);
    assert_int_equal(impmem_control_block_pool_bytes((uint32_t)plan.kv_group[0].blocks, 10, &bytes), IMPMEM_OK);
    sum += bytes;
    /* Window blocks are never shared. */
    assert_int_equal(impmem_control_block_pool_bytes((uint32_t)plan.kv_group[1].blocks, 0, &bytes), IMPMEM_OK);
    sum += bytes;
    /* A batch of 8 at 4096 tokens; where there are windows no prefix is reused. */
    impmem_control_kv kv = {2, 16, 8, 4096, (uint32_t)plan.kv_group[0].blocks, 0};
    assert_int_equal(impmem_control_kv_bytes(&kv, &bytes), IMPMEM_OK);
    sum += bytes;
    assert_int_equal(line_bytes(IMPMEM_LINE_HOST_CONTROL), sum);
}

static void growable_pools_start_with_their_part_in_whole_chunks(void **state)
{
    (void)state;
    dense_case c;
    dense_case_init(&c, 16384);
    c.in.kv_initial_percent = 25;
    plan_ok(&c.in);
    const impmem_plan_region *region = &plan.region[plan.kv_group[0].region];
    assert_int_equal(region->growable, 1);
    /* ceil(1826 / 4) = 457 blocks of 2.25 MiB = 1028.25 MiB: 17 chunks of 64. */
    assert_true(region->initial_bytes == 17 * 64 * MIB);
    /* One line holds the reservation: 4108.5 MiB rounded up. */
    assert_true(region->bytes == 4109 * MIB);
    assert_true(line_bytes(IMPMEM_LINE_KV) == 4109 * MIB);
    assert_null(impmem_plan_find_line(&plan, IMPMEM_LINE_ROUNDING + plan.kv_group[0].region));
    for (uint32_t r = 0; r < plan.n_regions; r++)
        if (r != plan.kv_group[0].region) assert_int_equal(plan.region[r].growable, 0);
    /* A chunk is whole granules, and never more than the region is committed. */
    c.in.commit_chunk_bytes = 5 * MIB + 1;
    plan_ok(&c.in);
    assert_int_equal(plan.commit_chunk_bytes, 6 * MIB);
    assert_true(plan.region[plan.kv_group[0].region].initial_bytes == 172 * 6 * MIB); /* 171.4 chunks */
    c.in.commit_chunk_bytes = 8192 * MIB;
    plan_ok(&c.in);
    assert_true(plan.region[plan.kv_group[0].region].initial_bytes == 4109 * MIB);
}

static void a_load_peak_above_the_budget_is_a_refusal_too(void **state)
{
    (void)state;
    dense_case c;
    dense_case_init(&c, 16384);
    c.demand[0] = demand(2001, IMPMEM_TIER_MODEL, IMPMEM_LINE_TRANSIENT, 6267 * MIB, "repacking");
    plan_ok(&c.in); /* 10117 + 6267 is the budget to the byte */
    assert_true(plan.load_peak_bytes == 16384 * MIB);
    assert_int_equal(plan.kv_group[0].blocks, 2048); /* its memory is KV's afterwards */
    c.demand[0].bytes += 1;
    plan_refused(&c.in);
    assert_true(failure.over_bytes == MIB);
    assert_non_null(strstr(failure.why.message, "while loading"));
    /* An optional line may not squeeze loading either. */
    c.demand[0].bytes = 6000 * MIB;
    impmem_demand d[4] = {c.demand[0], c.demand[1], c.demand[2],
                          demand(2004, IMPMEM_TIER_ENGINE, IMPMEM_LINE_OPTIONAL, 1000 * MIB, "optional")};
    c.in.demand = d;
    c.in.n_demands = 4;
    plan_ok(&c.in);
    assert_int_equal(line_bytes(2004), 267 * MIB);
    assert_true(plan.load_peak_bytes == 16384 * MIB);
}

static void pinned_and_host_budgets_are_hard(void **state)
{
    (void)state;
    dense_case c;
    dense_case_init(&c, 32607);
    c.demand[0] = demand(2001, IMPMEM_TIER_PINNED, 0, 100 * MIB, "spill");
    c.in.pinned_budget_bytes = 100 * MIB;
    plan_ok(&c.in);
    c.in.pinned_budget_bytes -= 1;
    plan_refused(&c.in);
    assert_int_equal(failure.account, IMPMEM_ACCOUNT_PINNED);
    assert_int_equal(failure.over_bytes, 1);
    assert_true(failure.requested_bytes == 100 * MIB);
    c.demand[0].flags = IMPMEM_LINE_OPTIONAL;
    plan_ok(&c.in);
    assert_int_equal(line_bytes(2001), 99 * MIB);
    c.in.pinned_budget_bytes = 1;
    plan_ok(&c.in);
    assert_int_equal(impmem_plan_find_line(&plan, 2001)->flags, IMPMEM_LINE_OPTIONAL | IMPMEM_LINE_DROPPED);
    c.in.pinned_budget_bytes = 0;
    plan_ok(&c.in);
    assert_int_equal(line_bytes(2001), 100 * MIB);
    /* The host's: exactly the tables fit, a byte less takes blocks until the promise is reached. */
    c.in.host_budget_bytes = plan.total_bytes[IMPMEM_ACCOUNT_PAGEABLE];
    plan_ok(&c.in);
    assert_int_equal(plan.kv_group[0].blocks, 2048);
    c.in.host_budget_bytes -= 1;
    plan_ok(&c.in);
    assert_true(plan.kv_group[0].blocks < 2048 && plan.kv_group[0].blocks > 2000);
    assert_true(plan.total_bytes[IMPMEM_ACCOUNT_PAGEABLE] <= c.in.host_budget_bytes);
    c.in.host_budget_bytes = 1000;
    plan_refused(&c.in);
    assert_int_equal(failure.account, IMPMEM_ACCOUNT_PAGEABLE);
    assert_int_equal(failure.budget_bytes, 1000);
    for (uint32_t i = 0; i < failure.n_levers; i++) assert_int_not_equal(failure.lever[i].kind, IMPMEM_LEVER_BUDGET);
}

static impmem_status rows_times_ten(const void *context, const impmem_load *load, uint64_t *out)
{
    const uint64_t *unit = context;
    *out = *unit * (load->tokens + 10 * load->batch + 100 * load->context);
    return IMPMEM_OK;
}

static void a_demand_is_sized_from_the_resolved_load(void **state)
{
    (void)state;
    dense_case c;
    dense_case_init(&c, 32607);
    uint64_t unit = 256;
    c.demand[1].size = rows_times_ten;
    c.demand[1].context = &unit;
    plan_ok(&c.in);
    assert_true(line_bytes(2002) == 256 * (4096 + 10 * 8 + 100 * 4096));
    c.in.prefill_tokens = 16;
    plan_ok(&c.in);
    assert_true(line_bytes(2002) == 256 * (16 + 10 * 8 + 100 * 4096));
}

static void the_view_of_lines_is_the_plan_itself(void **state)
{
    (void)state;
    dense_case c;
    dense_case_init(&c, 32607);
    plan_ok(&c.in);
    impmem_lines lines = impmem_plan_lines(&plan);
    assert_ptr_equal(lines.line, plan.line);
    assert_int_equal(lines.n_lines, plan.n_lines);
    assert_true(lines.budget_bytes[IMPMEM_ACCOUNT_DEVICE] == 32607 * MIB);
    lines = impmem_plan_lines(NULL);
    assert_null(lines.line);
    assert_int_equal(lines.n_lines, 0);
    assert_null(impmem_plan_find_line(&plan, 9999));
    assert_null(impmem_plan_find_line(NULL, IMPMEM_LINE_KV));
}

/* 80 layers x 32,768 tokens x 8 heads x 128 elements of one byte: more than 2^31. */
static void pool_bytes_beyond_31_bits_are_exact(void **state)
{
    (void)state;
    impmem_model_shape *s = malloc(sizeof *s);
    assert_non_null(s);
    *s = (impmem_model_shape)IMPMEM_MODEL_SHAPE_INIT;
    impmem_plan_input in = IMPMEM_PLAN_INPUT_INIT;
    in.model = s;
    in.budget_bytes = 64 * IMPMEM_GIB;
    in.max_seq_tokens = 32768;
    in.kv_dtype_k = in.kv_dtype_v = IMPMEM_DTYPE_FP8_E4M3;
    assert_int_equal(impmem_shape_uniform_attention(s, 80, 8, 128, 0), IMPMEM_OK);
    plan_ok(&in);
    assert_true(line_bytes(IMPMEM_LINE_KV) == UINT64_C(2684354560));
    /* 24 layers of 8 heads x 64 in f16 are 49,152 B a token; 131,072 tokens x 8 sequences are 65,536 blocks. */
    in.kv_dtype_k = in.kv_dtype_v = IMPMEM_DTYPE_F16;
    in.max_seq_tokens = 131072;
    in.max_batch = 8;
    assert_int_equal(impmem_shape_uniform_attention(s, 24, 8, 64, 64), IMPMEM_OK);
    plan_ok(&in);
    assert_int_equal(plan.kv_group[0].blocks, 65536);
    assert_int_equal(plan.kv_group[0].block_bytes, 16 * 49152);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_dense_case_takes_its_whole_demand_on_a_32607_mib_card),
        cmocka_unit_test(a_smaller_card_gives_kv_what_is_left),
        cmocka_unit_test(less_than_the_promised_load_is_a_refusal),
        cmocka_unit_test(the_promised_load_comes_before_what_is_optional),
        cmocka_unit_test(the_total_grows_with_the_context_until_windows_are_full),
        cmocka_unit_test(weights_alone_too_large_are_refused),
        cmocka_unit_test(kv_pools_of_the_three_reference_models_take_their_measured_bytes),
        cmocka_unit_test(windows_are_a_group_of_their_own_for_the_whole_batch),
        cmocka_unit_test(shared_and_attention_free_layers_cost_nothing),
        cmocka_unit_test(a_model_of_windows_only_has_no_full_group),
        cmocka_unit_test(pools_never_exceed_demand_plus_the_cache_allowance),
        cmocka_unit_test(fewer_than_one_sequence_cannot_be_promised),
        cmocka_unit_test(defaults_are_filled_in),
        cmocka_unit_test(regions_are_the_sum_of_their_lines),
        cmocka_unit_test(host_tables_are_counted_exactly),
        cmocka_unit_test(growable_pools_start_with_their_part_in_whole_chunks),
        cmocka_unit_test(a_load_peak_above_the_budget_is_a_refusal_too),
        cmocka_unit_test(pinned_and_host_budgets_are_hard),
        cmocka_unit_test(a_demand_is_sized_from_the_resolved_load),
        cmocka_unit_test(the_view_of_lines_is_the_plan_itself),
        cmocka_unit_test(pool_bytes_beyond_31_bits_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
