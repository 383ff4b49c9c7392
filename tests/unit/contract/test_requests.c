/* impmem/engine.h, the life of requests: over blocks, windows and state at once, and nobody ever gets a part. */
#include "property/random.h"
#include "support/engine_house.h"
#include "support/shadow_kv.h"

#include "impmem/features.h"
#include "impmem/plan_search.h"

enum { BATCH = 6, MOST = 400, CHUNK = 64, MAX_SLOTS = 64, GRANULE = 4096 };

/* What a served model needs of memory. */
typedef enum layout { DENSE, WINDOWED, RECURRENT, ALL, N_LAYOUTS } layout;

typedef struct stage {
    planned p;
    impmem_plan_features features;
    house h;
    impmem_engine *engine;
    random_source random;
    shadow memory;
    toy toy[BATCH + 1];
    uint64_t next_owner, refused, served;
    /* Which owner wrote the slot that lies at an address; by pool. */
    const void *at[IMPMEM_PLAN_MAX_STATE_POOLS][MAX_SLOTS];
    uint64_t wrote[IMPMEM_PLAN_MAX_STATE_POOLS][MAX_SLOTS];
} stage;

static stage s;

static uint32_t dice(uint32_t sides)
{
    return (uint32_t)random_below(&s.random, sides);
}

/* Blocks for about three of the largest requests; with `grow` a part of the pool is there at first. */
static void plan_stage(layout l, bool grow, uint64_t seed)
{
    memset(&s, 0, sizeof s);
    s.random = random_from(seed);
    planned_input(&s.p, 4);
    s.features = (impmem_plan_features)IMPMEM_PLAN_FEATURES_INIT;
    s.features.residual_tokens = l == ALL ? 16 : 0;
    s.p.input.features = &s.features;
    s.p.input.max_batch = BATCH;
    s.p.input.max_seq_tokens = MOST;
    s.p.input.prefill_tokens = CHUNK;
    s.p.input.kv_initial_percent = grow ? 10 : 0;
    s.p.input.granule_bytes = s.p.input.commit_chunk_bytes = GRANULE;
    if (l == WINDOWED || l == ALL) {
        s.p.shape.layer[1].kind = IMPMEM_LAYER_WINDOW;
        s.p.shape.layer[1].window_tokens = 128;
    }
    if (l == RECURRENT || l == ALL)
        s.p.shape.layer[0] = (impmem_layer_shape){.kind = IMPMEM_LAYER_NO_ATTENTION,
                                                  .recurrent = IMPMEM_RECURRENT_MAMBA,
                                                  .conv_kernel = 4,
                                                  .conv_channels = 100,
                                                  .state_elements = 1600};
    planned_again(&s.p);
    assert_int_equal(s.p.plan.n_kv_groups, l == WINDOWED || l == ALL ? 2 : 1);
    assert_int_equal(s.p.plan.n_state_pools, l == ALL ? 2 : l == RECURRENT ? 1 : 0);
}

static void open_stage(layout l, bool grow, uint64_t seed)
{
    plan_stage(l, grow, seed);
    /* Pools smaller than the plan's, so that they run out: 3 x 25 blocks, and 3 x (ceil((128 + 64) / 16) + 1). */
    s.p.plan.kv_group[0].blocks = 75;
    if (s.p.plan.n_kv_groups == 2) s.p.plan.kv_group[1].blocks = 39;
    s.engine = house_open(&s.h, &s.p.plan);
    OK(impmem_engine_begin_serving(s.engine, NULL));
    s.memory.kv = impmem_engine_kv(s.engine);
    s.memory.n_groups = s.p.plan.n_kv_groups;
    s.memory.block_tokens = s.p.plan.block_tokens;
    for (uint32_t g = 0; g < s.memory.n_groups; g++) s.memory.window[g] = s.p.plan.kv_group[g].window_tokens;
}

static uint64_t *slot_of(const toy *t, uint32_t pool)
{
    impmem_block_span span;
    OK(impmem_engine_state_slot(s.engine, t->seq, pool, &span));
    OK(impmem_span_check(s.h.ledger, impmem_stable(span)));
    const void *address = impmem_stable_data(impmem_stable(span));
    uint32_t i = 0;
    while (i < MAX_SLOTS && s.at[pool][i] && s.at[pool][i] != address) i++;
    assert_true(i < MAX_SLOTS);
    s.at[pool][i] = address;
    return &s.wrote[pool][i];
}

static void begin(toy *t)
{
    t->owner = ++s.next_owner;
    t->name_space = dice(2);
    t->n_prompt = 1 + dice(MOST - 40);
    t->most = t->n_prompt + dice(41);
    const uint32_t same = dice(t->n_prompt + 1), base = dice(2);
    for (uint32_t i = 0; i < t->most; i++) t->text[i] = i < same ? base * 1000 + i : dice(1000000);
    toy_digest(t, 0);
    impmem_kv_request r = IMPMEM_KV_REQUEST_INIT;
    r.tokens = t->text;
    r.n_tokens = t->n_prompt;
    r.max_new_tokens = t->most - t->n_prompt;
    r.name_space.tenant = t->name_space ? "tenant" : NULL;
    r.name_space.tenant_bytes = t->name_space ? 6 : 0;
    r.owner = t->owner;
    impmem_kv_admission a;
    const impmem_status st = impmem_engine_admit(s.engine, &r, &t->seq, &a, NULL);
    assert_int_equal(a.need_tokens, t->most); /* in every case */
    assert_int_equal(a.most_tokens, MOST);
    if (st) {
        FAILS(st, IMPMEM_ERR_CAPACITY);
        s.refused++;
        return;
    }
    t->live = true;
    t->written = t->published = a.cached_tokens;
    for (uint32_t i = 0; i < s.p.plan.n_state_pools; i++) *slot_of(t, i) = t->owner;
    toy_verify(&s.memory, t);
}

static void append(toy *t, uint32_t n)
{
    OK(impmem_kv_append(s.memory.kv, t->seq, n));
    toy_write(&s.memory, t, t->written + n);
}

static void publish(toy *t)
{
    OK(impmem_kv_publish(s.memory.kv, t->seq, t->text, t->written));
}

/* Rejected drafts: what was just appended, and other tokens in its place. */
static void speculate(toy *t)
{
    const uint32_t left = t->most - t->written, keep = t->written, n = dice((left < 8 ? left : 8) + 1);
    append(t, n);
    const uint32_t cut = keep + dice(n + 1);
    OK(impmem_kv_truncate(s.memory.kv, t->seq, cut));
    t->written = cut;
    for (uint32_t i = cut; i < t->most; i++) t->text[i] = dice(1000000);
    toy_digest(t, cut);
}

static void end(toy *t)
{
    impmem_sequence copy = t->seq;
    OK(impmem_engine_release(s.engine, &t->seq));
    if (t->live) {
        FAILS(impmem_engine_release(s.engine, &copy), IMPMEM_ERR_STALE);
        s.served++;
    }
    t->live = false;
}

static uint32_t live_toys(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i <= BATCH; i++) n += s.toy[i].live;
    return n;
}

/* Every live sequence reads what it wrote, in blocks and in slots; free + live == total in every pool. */
static void verify_all(void)
{
    for (uint32_t i = 0; i <= BATCH; i++) {
        const toy *t = &s.toy[i];
        if (!t->live) continue;
        toy_verify(&s.memory, t);
        for (uint32_t p = 0; p < s.p.plan.n_state_pools; p++) assert_int_equal(*slot_of(t, p), t->owner);
    }
    shadow_conserve(&s.memory, impmem_engine_kv_pool(s.engine, 0));
    for (uint32_t p = 0; p < s.p.plan.n_state_pools; p++) {
        impmem_block_pool_stats stats;
        impmem_block_pool_query(impmem_engine_state_pool(s.engine, p), &stats);
        assert_int_equal(stats.live_blocks, live_toys());
        assert_int_equal(stats.reserved_blocks, 0);
    }
    for (uint32_t g = 1; g < s.memory.n_groups; g++) {
        impmem_block_pool_stats stats;
        impmem_block_pool_query(impmem_engine_kv_pool(s.engine, g), &stats);
        assert_int_equal(stats.free_blocks + stats.live_blocks, stats.total_blocks);
        if (!live_toys()) assert_int_equal(stats.live_blocks, 0);
    }
    assert_int_equal(impmem_ledger_serving_acquisitions(s.h.ledger), 0);
    assert_int_equal(impmem_ledger_unplanned_bytes(s.h.ledger), 0);
}

static void close_stage(void)
{
    OK(impmem_engine_drain(s.engine));
    for (uint32_t i = 0; i <= BATCH; i++) end(&s.toy[i]);
    verify_all();
    shadow_check(&s.memory);
    impmem_kv_stats k;
    impmem_kv_query(s.memory.kv, &k);
    assert_int_equal(k.sequence_blocks, 0);
    assert_int_equal(k.promised_blocks, 0);
    assert_true(impmem_engine_is_idle(s.engine));
    house_close(&s.h, &s.engine);
}

static void one_operation(void)
{
    toy *t = &s.toy[dice(BATCH + 1)];
    const uint32_t what = dice(10);
    if (!t->live) begin(t);
    else if (what < 5) append(t, dice((t->most - t->written < CHUNK ? t->most - t->written : CHUNK) + 1));
    else if (what < 7) publish(t);
    else if (what < 9) speculate(t);
    else end(t);
}

static void a_long_hour_of_random_requests_keeps_everybody_s_blocks_and_state_apart(void **state)
{
    (void)state;
    for (uint32_t run = 0; run < 2 * N_LAYOUTS; run++) {
        open_stage((layout)(run / 2), run % 2, run + 1);
        for (uint32_t i = 0; i < 6000; i++) {
            one_operation();
            if (i % 4 == 0) verify_all();
            if (i % 100 == 0) shadow_check(&s.memory);
        }
        assert_true(s.served > 300 && s.refused > 100);
        close_stage();
    }
}

static void a_request_cancelled_after_any_call_leaves_the_engine_as_it_was(void **state)
{
    (void)state;
    for (uint32_t run = 0; run < 2 * N_LAYOUTS; run++) {
        open_stage((layout)(run / 2), run % 2, run + 50);
        for (uint32_t calls = 0; calls < 60; calls++) {
            for (uint32_t i = 0; i < 20; i++) one_operation();
            toy *t = &s.toy[0];
            end(t);
            impmem_kv_stats before, after;
            impmem_kv_query(s.memory.kv, &before);
            begin(t);
            for (uint32_t i = 0; i < calls && t->live; i++) {
                const uint32_t left = t->most - t->written;
                if (i % 4 == 1) publish(t);
                else if (i % 4 == 3) speculate(t);
                else append(t, left < 30 ? left : 30);
            }
            end(t);
            impmem_kv_query(s.memory.kv, &after);
            assert_int_equal(after.sequences, before.sequences);
            assert_int_equal(after.sequence_blocks, before.sequence_blocks);
            assert_int_equal(after.promised_blocks, before.promised_blocks);
            verify_all();
        }
        close_stage();
    }
}

/* V5: the driver refuses its n-th call, for every n: requests are refused whole or served whole. */
static void growth_that_fails_at_any_call_costs_a_refusal_and_no_byte(void **state)
{
    (void)state;
    for (uint32_t run = 0; run < N_LAYOUTS; run++) {
        uint64_t refused = 0, growths = 0;
        for (uint64_t n = 1; n <= 8; n++) {
            open_stage((layout)run, true, n);
            impmem_fake_fail_nth(s.h.fake_grow, n, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY,
                                 n % 2 ? IMPMEM_FAIL_ONCE : IMPMEM_FAIL_FROM_THEN_ON);
            for (uint32_t i = 0; i < 300; i++) {
                one_operation();
                verify_all();
            }
            shadow_check(&s.memory);
            impmem_kv_stats k;
            impmem_kv_query(s.memory.kv, &k);
            refused += s.refused;
            growths += k.growths;
            impmem_fake_fail_nth(s.h.fake_grow, 0, IMPMEM_OK, IMPMEM_FAIL_ONCE);
            close_stage();
        }
        assert_true(refused > 0 && growths > 0);
    }
}

/* F031, F032: attention blocks alone don't bring a recurrent model's prefix back, so there is no hit, and words for it. */
static void a_model_with_recurrent_layers_is_never_told_of_a_hit(void **state)
{
    (void)state;
    for (uint32_t l = 0; l < N_LAYOUTS; l++) {
        open_stage((layout)l, false, 9);
        static const uint32_t text[100] = {1, 2, 3};
        impmem_kv_request r = IMPMEM_KV_REQUEST_INIT;
        r.tokens = text;
        r.n_tokens = 100;
        impmem_kv_admission a;
        impmem_sequence seq;
        OK(impmem_engine_admit(s.engine, &r, &seq, NULL, NULL));
        OK(impmem_kv_append(s.memory.kv, seq, 100));
        OK(impmem_kv_publish(s.memory.kv, seq, text, 100));
        OK(impmem_engine_release(s.engine, &seq));
        OK(impmem_engine_admit(s.engine, &r, &seq, &a, NULL));
        assert_int_equal(a.cached_tokens, l == DENSE ? 96 : 0); /* whole blocks of 16, and one token to compute */
        OK(impmem_engine_release(s.engine, &seq));
        const char *why = impmem_kv_reuse_unsupported(s.memory.kv);
        if (l == DENSE) assert_null(why);
        else assert_non_null(strstr(why, l == WINDOWED ? "sliding-window" : "recurrent"));
        close_stage();
    }
}

/* The planner and the manager agree on which tables there are: not a byte of host memory differs. */
static void host_tables_are_what_the_plan_says_for_every_kind_of_model(void **state)
{
    (void)state;
    for (uint32_t l = 0; l < N_LAYOUTS; l++) {
        plan_stage((layout)l, false, 1);
        s.engine = house_open(&s.h, &s.p.plan);
        OK(impmem_engine_begin_serving(s.engine, NULL));
        impmem_usage usage;
        OK(impmem_ledger_line_usage(s.h.ledger, IMPMEM_LINE_HOST_CONTROL, &usage));
        assert_int_equal(usage.committed_bytes, impmem_plan_find_line(&s.p.plan, IMPMEM_LINE_HOST_CONTROL)->bytes);
        house_close(&s.h, &s.engine);
    }
}

/* F090: never is told as never, also while every slot and every block is taken; what only has to wait is told that. */
static void never_and_not_now_are_told_apart_whatever_is_taken(void **state)
{
    (void)state;
    static const uint32_t text[MOST + 1] = {1};
    for (uint32_t l = 0; l < N_LAYOUTS; l++) {
        open_stage((layout)l, false, 3);
        impmem_servable planned_most;
        OK(impmem_plan_servable(&s.p.plan, MOST, 0, &planned_most));
        for (uint32_t full = 0; full < 3; full++) {
            impmem_sequence seq[BATCH], none;
            impmem_kv_request r = IMPMEM_KV_REQUEST_INIT;
            const uint32_t n = full == 0 ? 0 : full == 1 ? BATCH : 3; /* by slots, by blocks */
            r.tokens = text;
            r.n_tokens = full == 2 ? MOST : 1;
            for (uint32_t i = 0; i < n; i++) OK(impmem_engine_admit(s.engine, &r, &seq[i], NULL, NULL));
            impmem_error why;
            for (uint32_t extra = 0; extra < 2; extra++) {
                impmem_kv_admission a = {.most_tokens = 1}, asked = {.most_tokens = 1};
                r.n_tokens = MOST;
                r.max_new_tokens = extra;
                const impmem_status ever = impmem_engine_servable(s.engine, MOST, extra, &asked, NULL);
                assert_int_equal(ever, extra ? IMPMEM_ERR_NEVER_FITS : IMPMEM_OK);
                why = (impmem_error)IMPMEM_ERROR_INIT;
                const impmem_status st = impmem_engine_admit(s.engine, &r, &none, &a, &why);
                assert_int_equal(st, extra ? IMPMEM_ERR_NEVER_FITS : n ? IMPMEM_ERR_CAPACITY : IMPMEM_OK);
                assert_int_equal(why.status, st);
                assert_int_equal(a.most_tokens, planned_most.most_tokens);
                assert_int_equal(asked.most_tokens, planned_most.most_tokens);
                assert_int_equal(a.need_tokens, MOST + extra);
                if (!st) OK(impmem_engine_release(s.engine, &none));
            }
            r.n_tokens = 0; /* no request at all, also when nothing is free */
            REFUSED(impmem_engine_admit(s.engine, &r, &none, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
            r.n_tokens = 1;
            r.version = 2;
            REFUSED(impmem_engine_admit(s.engine, &r, &none, NULL, &why), IMPMEM_ERR_VERSION);
            for (uint32_t i = 0; i < n; i++) OK(impmem_engine_release(s.engine, &seq[i]));
        }
        close_stage();
    }
}

static void whether_a_request_can_ever_fit_is_asked_of_an_engine_that_serves(void **state)
{
    (void)state;
    impmem_error why;
    impmem_kv_admission a;
    planned p;
    house h;
    planned_make(&p, 5); /* with a transient line: KV waits for the end of loading */
    impmem_engine *engine = house_open(&h, &p.plan);
    REFUSED(impmem_engine_servable(NULL, 1, 1, &a, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_engine_servable(engine, 1, 1, &a, &why), IMPMEM_ERR_STATE);
    OK(impmem_engine_begin_serving(engine, NULL));
    REFUSED(impmem_engine_servable(engine, 0, 1, &a, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_engine_servable(engine, 999, 1, NULL, NULL));
    OK(impmem_engine_drain(engine));
    OK(impmem_engine_servable(engine, 999, 1, &a, NULL));
    REFUSED(impmem_engine_servable(engine, 1000, 1, &a, &why), IMPMEM_ERR_NEVER_FITS);
    house_close(&h, &engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_hour_of_random_requests_keeps_everybody_s_blocks_and_state_apart),
        cmocka_unit_test(a_request_cancelled_after_any_call_leaves_the_engine_as_it_was),
        cmocka_unit_test(growth_that_fails_at_any_call_costs_a_refusal_and_no_byte),
        cmocka_unit_test(a_model_with_recurrent_layers_is_never_told_of_a_hit),
        cmocka_unit_test(host_tables_are_what_the_plan_says_for_every_kind_of_model),
        cmocka_unit_test(never_and_not_now_are_told_apart_whatever_is_taken),
        cmocka_unit_test(whether_a_request_can_ever_fit_is_asked_of_an_engine_that_serves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
