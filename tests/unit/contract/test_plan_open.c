/* Any plan, opened on the fakes: the journal equals the lines, byte for byte; close leaves nothing; a failure at every step
 * of open leaves nothing. Over random models, demands and loads.
 */
#include "support/engine_house.h"

#define ROUNDS 120u

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static uint32_t below(uint64_t *seed, uint32_t n)
{
    return (uint32_t)(next(seed) % n);
}

static impmem_status of_load(const void *context, const impmem_load *load, uint64_t *out_bytes)
{
    *out_bytes = *(const uint64_t *)context * ((uint64_t)load->tokens + load->batch + load->context);
    return IMPMEM_OK;
}

static const uint64_t unit = 173;
static const impmem_tier demand_tiers[] = {IMPMEM_TIER_MODEL,  IMPMEM_TIER_ENGINE,  IMPMEM_TIER_SCRATCH,
                                           IMPMEM_TIER_PINNED, IMPMEM_TIER_STAGING, IMPMEM_TIER_CHARGE};

/* State of a sequence beside its KV, for layers that have it. */
static void random_state(impmem_layer_shape *layer)
{
    layer->recurrent = IMPMEM_RECURRENT_MAMBA;
    layer->conv_kernel = 4;
    layer->conv_channels = 512;
    layer->state_elements = 512 * 16;
}

static void random_features(impmem_plan_features *f, uint64_t *seed)
{
    *f = (impmem_plan_features)IMPMEM_PLAN_FEATURES_INIT;
    f->null_blocks = below(seed, 3);
    f->spare_blocks = below(seed, 3);
    f->fenced_blocks = below(seed, 3);
    f->kernel_offset_bits = below(seed, 3) ? 0 : 31;
    f->scales_apart = below(seed, 2);
    f->key_bounds = below(seed, 2);
    f->state_spare_slots = below(seed, 4);
    f->state_page_rounding = below(seed, 2);
    f->residual_tokens = below(seed, 2) ? below(seed, 200) : 0;
    f->snapshot_budget_bytes = below(seed, 2) ? below(seed, 1 << 28) : 0;
    f->logit_rows = below(seed, 64);
    f->attention_scores = below(seed, 2);
    f->gemm_workspace_bytes = below(seed, 1 << 26);
    f->headroom_bytes = below(seed, 1 << 26);
    f->graph_slots = below(seed, 3);
    f->lora_slots = below(seed, 3);
    f->lora_slot_bytes = below(seed, 1 << 22);
}

/* A random input; what the planner makes of it may be a refusal. */
static impmem_status plan_random(planned *p, impmem_plan_features *features, uint64_t *seed)
{
    static const uint32_t dims[] = {64, 128, 256};
    memset(p, 0, sizeof *p);
    p->shape = (impmem_model_shape)IMPMEM_MODEL_SHAPE_INIT;
    p->shape.d_model = 1024;
    p->shape.n_heads = 16;
    p->shape.head_dim = 64;
    p->shape.vocab = 32000;
    p->shape.weight_bytes = next(seed) * 3;
    const uint32_t dim = dims[below(seed, 3)];
    OK(impmem_shape_uniform_attention(&p->shape, 1 + below(seed, 40), 1 + below(seed, 8), dim, dim));
    const uint32_t style = below(seed, 5);
    for (uint32_t i = 0; i < p->shape.n_layers; i++) {
        impmem_layer_shape *layer = &p->shape.layer[i];
        if (style == 1 && i % 3) {
            layer->kind = IMPMEM_LAYER_WINDOW;
            layer->window_tokens = i % 2 ? 512 : 1024;
        }
        if (style == 2 && i % 4) layer->kind = IMPMEM_LAYER_NO_ATTENTION;
        if (style == 3) *layer = (impmem_layer_shape){.kind = IMPMEM_LAYER_LATENT, .kv_heads = 1, .k_dim = 576};
        if (style == 4 && i % 2) random_state(layer);
    }
    p->input = (impmem_plan_input)IMPMEM_PLAN_INPUT_INIT;
    p->input.model = &p->shape;
    p->input.budget_bytes = 4 * IMPMEM_GIB + next(seed) * 16;
    p->input.max_batch = 1 + below(seed, 12);
    p->input.max_seq_tokens = 1 + below(seed, 20000);
    p->input.block_tokens = 16 * (1 + below(seed, 4));
    p->input.prefill_tokens = 1 + below(seed, 4096);
    p->input.promised_kv_tokens = below(seed, 2) ? 1 : 0;
    p->input.prefix_cache_tokens = below(seed, 2) ? below(seed, 100000) : 0;
    p->input.context_bytes = below(seed, 1 << 29);
    p->input.library_reserve_bytes = below(seed, 1 << 29);
    p->input.granule_bytes = below(seed, 3) ? 0 : (uint64_t)256 << below(seed, 16);
    p->input.kv_initial_percent = below(seed, 2) ? 1 + below(seed, 100) : 0;
    p->input.commit_chunk_bytes = below(seed, 2) ? 1 + below(seed, 1 << 27) : 0;
    p->input.journal_records = 8192;
    p->input.extra_refs = below(seed, 2) ? below(seed, 1000) : 0;
    p->input.kv_dtype_k = p->input.kv_dtype_v = below(seed, 2) ? IMPMEM_DTYPE_INT8 : IMPMEM_DTYPE_DEFAULT;
    random_features(features, seed);
    if (below(seed, 2)) p->input.features = features;
    p->input.demand = p->demand;
    p->input.n_demands = below(seed, 6);
    for (uint32_t i = 0; i < p->input.n_demands; i++) {
        const impmem_tier tier = demand_tiers[below(seed, 6)];
        uint32_t flags = 0;
        if (tier == IMPMEM_TIER_MODEL || tier == IMPMEM_TIER_ENGINE)
            flags = below(seed, 3) == 0 ? IMPMEM_LINE_TRANSIENT : below(seed, 3) == 0 ? IMPMEM_LINE_OPTIONAL : 0;
        p->demand[i] = demand(3000 + i, tier, flags, next(seed) >> below(seed, 20), "demand");
        if (below(seed, 2)) {
            p->demand[i].size = of_load;
            p->demand[i].context = &unit;
        }
    }
    p->plan = (impmem_plan)IMPMEM_PLAN_INIT;
    return impmem_plan_memory_only(&p->input, &p->plan, NULL);
}

static bool grows(const impmem_plan *plan, const impmem_line *line, uint64_t *out_initial)
{
    if (line->region == UINT32_MAX || line->region >= plan->n_regions || !plan->region[line->region].growable) return false;
    *out_initial = plan->region[line->region].initial_bytes;
    return true;
}

/* What every line holds is what the plan says. Transient lines are gone, staging is the caller's. A line that grows holds its
 * start or, rounded up to whole blocks and granules, a little more; host tables hold at most what was planned. */
static void assert_lines_hold_their_plan(const house *h, const impmem_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_lines; i++) {
        const impmem_line *line = &plan->line[i];
        uint64_t initial = 0;
        const uint64_t held = impmem_ledger_journal_line_balance(h->ledger, line->id);
        if (line->tier == IMPMEM_TIER_STAGING) continue;
        if (line->flags & IMPMEM_LINE_TRANSIENT ||
            (line->region < plan->n_regions && plan->region[line->region].transient)) {
            assert_true(held == 0);
        } else if (line->id == IMPMEM_LINE_HOST_CONTROL) {
            if (held > line->bytes)
                fail_msg("host tables take %llu bytes, planned %llu", (unsigned long long)held,
                         (unsigned long long)line->bytes);
        } else if (grows(plan, line, &initial)) {
            assert_true(held <= line->bytes && held + plan->granule_bytes > 0);
            if (initial == line->bytes) assert_true(held + plan->granule_bytes > line->bytes);
        } else if (held != line->bytes) {
            fail_msg("line %u (%s) holds %llu bytes, planned %llu", line->id, line->name, (unsigned long long)held,
                     (unsigned long long)line->bytes);
        }
    }
    assert_int_equal(impmem_ledger_unplanned_bytes(h->ledger), 0);
    assert_int_equal(impmem_ledger_journal_dropped(h->ledger), 0);
    assert_journal_agrees(h->ledger);
}

static void any_plan_opens_as_it_was_planned(void **state)
{
    (void)state;
    uint64_t seed = 20;
    unsigned opened = 0, with_state = 0, with_sides = 0, with_windows = 0, with_transient = 0;
    static planned p;
    static impmem_plan_features features;
    for (unsigned round = 0; round < ROUNDS; round++) {
        house h;
        impmem_error why = IMPMEM_ERROR_INIT;
        impmem_engine *engine = NULL;
        if (plan_random(&p, &features, &seed)) continue;
        opened++;
        with_state += p.plan.n_state_pools > 0;
        with_sides += p.plan.n_kv_sides > 0;
        with_windows += p.plan.n_kv_groups > 1;
        for (uint32_t r = 0; r < p.plan.n_regions; r++) with_transient += p.plan.region[r].transient != 0;
        house_build(&h, &p.plan);
        const bool growing = round % 3 != 0;
        if (!growing) h.backends.grow = NULL; /* whole pools at open */
        const house_figures before = house_look(&h);
        if (impmem_engine_open(h.ledger, &p.plan, &h.backends, &engine, &why)) fail_msg("round %u: %s", round, why.message);
        if (impmem_engine_begin_serving(engine, &why)) fail_msg("round %u: %s", round, why.message);
        assert_lines_hold_their_plan(&h, &p.plan);
        if (!growing) {
            impmem_usage usage;
            impmem_ledger_account_usage(h.ledger, IMPMEM_ACCOUNT_DEVICE, &usage);
            assert_true(usage.committed_bytes == p.plan.total_bytes[IMPMEM_ACCOUNT_DEVICE]);
        }
        OK(impmem_engine_close(&engine, NULL));
        assert_same_house(before, house_look(&h));
        house_clear(&h);
    }
    assert_true(opened > ROUNDS / 4);
    assert_true(with_state > 5 && with_sides > 5 && with_windows > 5 && with_transient > 5);
}

/* Host memory or a backend fails at step n of opening and ending loading, n = 1, 2, 3 ... until there is no such step. */
static void a_failure_at_every_step_of_any_plan_leaves_nothing(void **state)
{
    (void)state;
    uint64_t seed = 4711;
    unsigned opened = 0;
    static planned p;
    static impmem_plan_features features;
    for (unsigned round = 0; round < 12; round++) {
        if (plan_random(&p, &features, &seed)) continue;
        opened++;
        for (unsigned which = 0; which < 4; which++) {
            bool pinned = which != 3;
            for (uint32_t r = 0; r < p.plan.n_regions; r++) pinned |= p.plan.region[r].account == IMPMEM_ACCOUNT_PINNED;
            if (!pinned) continue;
            for (uint64_t n = 1;; n++) {
                house h;
                impmem_error why = IMPMEM_ERROR_INIT;
                impmem_engine *engine = NULL;
                house_build(&h, &p.plan);
                const house_figures before = house_look(&h);
                if (which == 0) h.host.fail_in = n;
                impmem_fake *fake = which == 1 ? h.fake : which == 2 ? h.fake_grow : h.fake_pinned;
                const impmem_status code = which == 3 ? IMPMEM_ERR_OUT_OF_PINNED_MEMORY : IMPMEM_ERR_OUT_OF_DEVICE_MEMORY;
                if (which) impmem_fake_fail_nth(fake, n, code, IMPMEM_FAIL_ONCE);
                impmem_status st = impmem_engine_open(h.ledger, &p.plan, &h.backends, &engine, &why);
                if (st) {
                    assert_null(engine);
                    assert_same_house(before, house_look(&h));
                } else {
                    st = impmem_engine_begin_serving(engine, &why);
                    if (st) {
                        h.host.fail_in = 0;
                        OK(impmem_engine_begin_serving(engine, NULL));
                    }
                    assert_lines_hold_their_plan(&h, &p.plan);
                    OK(impmem_engine_close(&engine, NULL));
                    assert_same_house(before, house_look(&h));
                }
                h.host.fail_in = 0;
                if (st) {
                    assert_int_equal(st, which ? code : IMPMEM_ERR_OUT_OF_HOST_MEMORY);
                    assert_int_equal(why.status, st);
                }
                house_clear(&h);
                if (!st) break;
                assert_true(n < 400);
            }
        }
    }
    assert_true(opened > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_plan_opens_as_it_was_planned),
        cmocka_unit_test(a_failure_at_every_step_of_any_plan_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
