/* Every self-check of impmem simulate fails when it should: a fault is planted between the last request and the checks. Its
 * files are compiled in here, since no command line can bring such faults about. */
#define _GNU_SOURCE
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../../tools/impmem/plan_devices.c"
#include "../../../tools/impmem/progress.c"
#include "../../../tools/impmem/simulate_checks.c"
#include "../../../tools/impmem/simulate_load.c"
#include "../../../tools/impmem/simulate_world.c"
#include "../../../tools/impmem/trace.c"
/* Its `ascending` is that of the load as well. */
#define ascending run_ascending
#include "../../../tools/impmem/simulate_run.c"
#undef ascending
/* trace.c can load files, which nothing here does; its reader needs the parsers. */
#include "../../../tools/impmem/trace_azure.c"
#include "../../../tools/impmem/trace_mooncake.c"
#include "../../../tools/impmem/trace_read.c"

#include "alloc/block_pool_internal.h"
#include "backend/internal.h"
#include "impmem/bytes.h"
#include "kv/internal.h"

enum { CONTEXT_TOKENS = 4096, BATCH = 4 };

static bool hybrid; /* the first layer of the planned model is recurrent */

/* The budget is the smallest that holds one whole sequence, and `spare_bytes`. Layers from `window_from` on see a window only. */
static impmem_plan make_plan(uint32_t window_from, uint64_t spare_bytes)
{
    static impmem_model_shape shape;
    shape = (impmem_model_shape)IMPMEM_MODEL_SHAPE_INIT;
    shape.d_model = 1024;
    shape.n_heads = 8;
    shape.head_dim = 128;
    shape.feed_forward = 4096;
    shape.vocab = 32000;
    shape.weight_bytes = 300 * IMPMEM_MIB + 12345;
    shape.weight_source = IMPMEM_SOURCE_READ;
    assert_int_equal(impmem_shape_uniform_attention(&shape, 4, 2, 128, 128), IMPMEM_OK);
    for (uint32_t i = window_from; i < 4; i++) {
        shape.layer[i].kind = IMPMEM_LAYER_WINDOW;
        shape.layer[i].window_tokens = 512;
    }
    if (hybrid)
        shape.layer[0] = (impmem_layer_shape){.kind = IMPMEM_LAYER_NO_ATTENTION,
                                              .recurrent = IMPMEM_RECURRENT_MAMBA,
                                              .conv_kernel = 4,
                                              .conv_channels = 100,
                                              .state_elements = 1600};
    static impmem_demand demand[4];
    memset(demand, 0, sizeof demand);
    static const impmem_tier tier[4] = {IMPMEM_TIER_ENGINE, IMPMEM_TIER_SCRATCH, IMPMEM_TIER_PINNED, IMPMEM_TIER_STAGING};
    for (uint32_t i = 0; i < 4; i++) {
        demand[i].id = IMPMEM_LINE_USER + i;
        demand[i].tier = tier[i];
        demand[i].bytes = 3 * IMPMEM_MIB + 100 * i;
        snprintf(demand[i].name, sizeof demand[i].name, "buffer %u", (unsigned)i);
    }
    demand[0].flags = IMPMEM_LINE_TRANSIENT;
    impmem_plan_input input = IMPMEM_PLAN_INPUT_INIT;
    input.model = &shape;
    input.budget_bytes = 0;
    input.max_batch = BATCH;
    input.max_seq_tokens = CONTEXT_TOKENS;
    input.promised_kv_tokens = CONTEXT_TOKENS;
    input.prefill_tokens = 512;
    input.context_bytes = 100 * IMPMEM_MIB;
    input.demand = demand;
    input.n_demands = 4;
    impmem_plan plan = IMPMEM_PLAN_INIT;
    impmem_plan_failure failure = IMPMEM_PLAN_FAILURE_INIT;
    assert_int_equal(impmem_plan_memory_only(&input, &plan, &failure), IMPMEM_ERR_DOES_NOT_FIT);
    input.budget_bytes = failure.requested_bytes + spare_bytes;
    assert_int_equal(impmem_plan_memory(&input, &plan, NULL), IMPMEM_OK);
    return plan;
}

/* One run over a made-up load, with hooks for its test. */
typedef struct hour {
    impmem_plan plan;
    trace load;
    simulate_world world;
    simulate_settings settings;
    simulate_result result;
} hour;

static hour h;

static void begin_hour(uint32_t window_from, uint64_t spare_bytes, uint64_t requests)
{
    memset(&h, 0, sizeof h);
    h.plan = make_plan(window_from, spare_bytes);
    assert_int_equal(simulate_load_make(requests, 11, &h.load), IMPMEM_OK);
    h.settings = (simulate_settings){.load = &h.load,
                                     .speed_thousandths = 1000,
                                     .base_ns = 6000000,
                                     .prefill_ns = 33000,
                                     .sequence_ns = 80000,
                                     .queue_limit = UINT64_MAX};
    impmem_error why = IMPMEM_ERROR_INIT;
    const char *failed = simulate_world_open(&h.plan, &h.world, &why);
    if (failed) print_error("%s: %s\n", failed, why.message);
    assert_null(failed);
}

static void end_hour(void)
{
    simulate_world_close(&h.world, &h.result);
    trace_free(&h.load);
}

/* Exactly the checks of the mask failed. */
static void assert_failed(uint32_t mask)
{
    for (uint32_t i = 0; i < SIMULATE_N_CHECKS; i++) {
        bool expected = mask >> i & 1;
        const simulate_verdict *v = &h.result.verdict[i];
        if (v->failed != expected) print_error("%s: %s\n", simulate_check_key((simulate_check)i), v->detail);
        assert_int_equal(v->failed, expected);
        assert_int_equal(v->detail[0] != '\0', expected);
    }
    assert_int_equal(simulate_good(&h.result), mask == 0);
}

#define BIT(name) (1u << SIMULATE_CHECK_##name)

static void a_healthy_hour_passes_every_check(void **state)
{
    (void)state;
    begin_hour(4, 64 * IMPMEM_MIB, 400);
    simulate_run(&h.world, &h.settings, &h.result);
    end_hour();
    assert_failed(0);
    assert_int_equal(h.result.walks, 7);
    assert_int_equal(h.result.served + h.result.refused_never, 400);
    assert_true(h.result.kv.hit_tokens > 0);
    assert_int_equal(h.result.prefill_tokens + h.result.kv.hit_tokens, h.result.prompt_tokens);
    assert_null(h.result.no_reuse);
}

static void a_hybrid_model_is_served_with_a_slot_a_sequence_and_no_hit(void **state)
{
    (void)state;
    hybrid = true;
    begin_hour(4, 64 * IMPMEM_MIB, 200);
    hybrid = false;
    assert_int_equal(h.plan.n_state_pools, 1);
    simulate_run(&h.world, &h.settings, &h.result);
    impmem_block_pool_stats slots;
    impmem_block_pool_query(impmem_engine_state_pool(h.world.engine, 0), &slots);
    end_hour();
    assert_failed(0);
    assert_int_equal(h.result.kv.hit_tokens, 0);
    assert_non_null(strstr(h.result.no_reuse, "recurrent"));
    assert_int_equal(h.result.prefill_tokens, h.result.prompt_tokens);
    assert_int_equal(slots.takes, h.result.served);
    assert_int_equal(slots.live_peak_blocks, h.result.peak_running);
}

static void every_line_is_lived_in_up_to_its_plan(void **state)
{
    (void)state;
    begin_hour(4, 0, 50);
    simulate_run(&h.world, &h.settings, &h.result);
    end_hour();
    assert_failed(0);
    for (uint32_t i = 0; i < h.plan.n_lines; i++) {
        const impmem_line *line = &h.plan.line[i];
        bool rounding = line->id >= IMPMEM_LINE_ROUNDING && line->id < IMPMEM_LINE_ROUNDING + IMPMEM_PLAN_MAX_REGIONS;
        if (line->account == IMPMEM_ACCOUNT_PAGEABLE) continue;
        assert_int_equal(h.result.line[i].planned_bytes, line->bytes);
        assert_int_equal(h.result.line[i].committed_peak_bytes, line->bytes);
        if (line->tier != IMPMEM_TIER_POOL) assert_int_equal(h.result.line[i].live_peak_bytes, rounding ? 0 : line->bytes);
        else assert_true(h.result.line[i].live_peak_bytes > 0);
    }
}

static void windows_are_served_and_never_hit(void **state)
{
    (void)state;
    for (uint32_t from = 0; from < 4; from += 2) {
        begin_hour(from, 64 * IMPMEM_MIB, 200);
        simulate_run(&h.world, &h.settings, &h.result);
        end_hour();
        assert_failed(0);
        assert_int_equal(h.result.kv.hit_tokens, 0);
        assert_non_null(h.result.no_reuse);
        assert_int_equal(h.result.prefill_tokens, h.result.prompt_tokens);
    }
}

/* The pool holds one sequence of the whole context and not more: 4 x 1100 tokens don't fit together. */
static void a_request_that_does_not_fit_now_waits_first_in_the_queue(void **state)
{
    (void)state;
    begin_hour(4, 0, 4);
    for (uint32_t i = 0; i < 4; i++) {
        h.load.requests[i] = (trace_request){.time_ns = 0, .input_tokens = 1000, .output_tokens = 100};
    }
    simulate_run(&h.world, &h.settings, &h.result);
    end_hour();
    assert_failed(0);
    uint64_t blocks = h.result.pool[0].total_blocks;
    uint64_t each = (1100 + 15) / 16;
    assert_true(blocks >= CONTEXT_TOKENS / 16 && blocks < 4 * each);
    assert_int_equal(h.result.peak_running, blocks / each);
    assert_int_equal(h.result.waited_blocks, 4 - blocks / each);
    assert_int_equal(h.result.queue_high_water, 4 - blocks / each);
    assert_int_equal(h.result.served, 4);
}

/* The queue is full when it comes, and it is not refused for that. */
static void what_can_never_be_served_is_told_when_it_comes(void **state)
{
    (void)state;
    begin_hour(4, 0, 8);
    const uint64_t each = (1100 + 15) / 16, fit = h.plan.kv_group[0].blocks / each;
    assert_true(fit >= 1 && fit + 2 < 8);
    h.load.n_requests = fit + 2;
    for (uint32_t i = 0; i < fit + 2; i++)
        h.load.requests[i] = (trace_request){.time_ns = 0, .input_tokens = 1000, .output_tokens = 100};
    h.load.requests[fit + 1].output_tokens = CONTEXT_TOKENS; /* prompt and answer: 1000 tokens too many */
    h.settings.queue_limit = 1;
    simulate_run(&h.world, &h.settings, &h.result);
    end_hour();
    assert_failed(0);
    assert_int_equal(h.result.refused_never, 1);
    assert_int_equal(h.result.refused_queue, 0);
    assert_int_equal(h.result.queue_high_water, 1);
    assert_int_equal(h.result.served, fit + 1);
    assert_int_equal(h.result.largest_never_tokens, 1000 + CONTEXT_TOKENS);
    assert_int_equal(h.result.most_tokens, CONTEXT_TOKENS);
}

/* ---- planted faults ---------------------------------------------------------------------------------------------------- */

static void run_planted(void (*plant)(void *context, simulate_world *world), void *context)
{
    begin_hour(4, 64 * IMPMEM_MIB, 20);
    h.settings.plant = plant;
    h.settings.plant_context = context;
    simulate_run(&h.world, &h.settings, &h.result);
    simulate_world_close(&h.world, &h.result);
}

/* Once the fault is undone, everything closes. */
static void assert_closes(void)
{
    simulate_result again;
    memset(&again, 0, sizeof again);
    simulate_world_close(&h.world, &again);
    assert_false(again.verdict[SIMULATE_CHECK_CLOSED].failed);
    trace_free(&h.load);
}

static impmem_sequence leaked;

static void leak_a_sequence(void *context, simulate_world *world)
{
    (void)context;
    static const uint32_t tokens[40] = {1};
    impmem_kv_request request = IMPMEM_KV_REQUEST_INIT;
    request.tokens = tokens;
    request.n_tokens = 40;
    assert_int_equal(impmem_kv_admit(world->kv, &request, &leaked, NULL, NULL), IMPMEM_OK);
    assert_int_equal(impmem_kv_append(world->kv, leaked, 40), IMPMEM_OK);
}

static void a_leaked_sequence_is_found(void **state)
{
    (void)state;
    run_planted(leak_a_sequence, NULL);
    assert_failed(BIT(ANSWERED) | BIT(BASELINE) | BIT(CLOSED));
    assert_int_equal(impmem_kv_release(h.world.kv, &leaked), IMPMEM_OK);
    assert_closes();
}

static impmem_block_ref pin;

static void keep_a_slot(void *context, simulate_world *world)
{
    (void)context;
    assert_int_equal(impmem_block_take(impmem_engine_state_pool(world->engine, 0), IMPMEM_HOLDER_SEQUENCE, 7, &pin),
                     IMPMEM_OK);
}

static void a_slot_of_state_that_nobody_gave_back_is_found(void **state)
{
    (void)state;
    hybrid = true;
    run_planted(keep_a_slot, NULL);
    hybrid = false;
    assert_failed(BIT(ANSWERED) | BIT(BASELINE) | BIT(CLOSED));
    assert_non_null(strstr(h.result.verdict[SIMULATE_CHECK_BASELINE].detail, "1 slots live, 0 after loading"));
    assert_int_equal(impmem_block_drop(impmem_engine_state_pool(h.world.engine, 0), &pin), IMPMEM_OK);
    assert_closes();
}

static void pin_a_block(void *context, simulate_world *world)
{
    leak_a_sequence(context, world);
    assert_int_equal(impmem_kv_hold(world->kv, leaked, 0, 0, IMPMEM_HOLDER_PIN, 7, &pin), IMPMEM_OK);
    assert_int_equal(impmem_kv_release(world->kv, &leaked), IMPMEM_OK);
}

static void a_block_that_somebody_still_pins_is_found(void **state)
{
    (void)state;
    run_planted(pin_a_block, NULL);
    assert_failed(BIT(CONSERVATION) | BIT(BASELINE) | BIT(CLOSED));
    assert_int_equal(impmem_kv_unhold(h.world.kv, 0, &pin), IMPMEM_OK);
    assert_closes();
}

static void miscount_the_cache(void *context, simulate_world *world)
{
    world->kv->cached += *(uint32_t *)context;
}

static void a_cache_that_miscounts_its_blocks_is_found(void **state)
{
    (void)state;
    uint32_t one = 1;
    run_planted(miscount_the_cache, &one);
    assert_true(h.result.verdict[SIMULATE_CHECK_CONSERVATION].failed);
    assert_true(h.result.verdict[SIMULATE_CHECK_KV_TABLES].failed);
    assert_false(h.result.verdict[SIMULATE_CHECK_BASELINE].failed);
    trace_free(&h.load);
}

static impmem_block_pool *pool_of(const simulate_world *world)
{
    return world->kv->group[0].pool;
}

static void lose_a_block(void *context, simulate_world *world)
{
    (void)context;
    pool_of(world)->live++;
}

static void a_block_that_is_neither_free_nor_held_is_found(void **state)
{
    (void)state;
    begin_hour(4, 64 * IMPMEM_MIB, 20);
    h.settings.plant = lose_a_block;
    simulate_run(&h.world, &h.settings, &h.result);
    pool_of(&h.world)->live--;
    end_hour();
    assert_failed(BIT(CONSERVATION) | BIT(BASELINE) | BIT(KV_TABLES) | BIT(POOL_TABLES));
}

static void miscount_promises(void *context, simulate_world *world)
{
    (void)context;
    world->kv->group[0].promised++;
}

static void a_promise_to_nobody_is_found(void **state)
{
    (void)state;
    run_planted(miscount_promises, NULL);
    assert_failed(BIT(KV_TABLES));
    trace_free(&h.load);
}

static void forget_a_promise(void *context, simulate_world *world)
{
    (void)context;
    world->kv->group[0].promised--;
}

static void tables_are_walked_in_the_middle_of_the_run_too(void **state)
{
    (void)state;
    begin_hour(4, 64 * IMPMEM_MIB, 20);
    miscount_promises(NULL, &h.world);
    h.settings.plant = forget_a_promise;
    simulate_run(&h.world, &h.settings, &h.result);
    end_hour();
    assert_failed(BIT(KV_TABLES));
}

static void miscount_references(void *context, simulate_world *world)
{
    (void)context;
    pool_of(world)->references_by[IMPMEM_HOLDER_OTHER]++;
}

static void a_reference_of_nobody_is_found(void **state)
{
    (void)state;
    begin_hour(4, 64 * IMPMEM_MIB, 20);
    h.settings.plant = miscount_references;
    simulate_run(&h.world, &h.settings, &h.result);
    pool_of(&h.world)->references_by[IMPMEM_HOLDER_OTHER]--;
    end_hour();
    assert_failed(BIT(KV_TABLES) | BIT(POOL_TABLES));
}

static impmem_region *unplanned;

static void acquire_while_serving(void *context, simulate_world *world)
{
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = h.plan.granule_bytes;
    info.line = IMPMEM_NO_LINE;
    assert_int_equal(impmem_backend_acquire(world->devices.backends.fixed, &info, &unplanned, NULL), IMPMEM_OK);
    if (*(bool *)context) assert_int_equal(impmem_backend_release(&unplanned, NULL), IMPMEM_OK);
}

static void an_acquisition_while_serving_is_found_though_it_was_given_back(void **state)
{
    (void)state;
    bool given_back = true;
    run_planted(acquire_while_serving, &given_back);
    assert_failed(BIT(SERVING));
    uint64_t n = 0;
    for (uint32_t tag = 0; tag < IMPMEM_N_TAGS; tag++) n += h.result.serving_acquisitions[tag];
    assert_true(n > 0);
    trace_free(&h.load);
}

static void bytes_on_no_line_are_found(void **state)
{
    (void)state;
    bool given_back = false;
    run_planted(acquire_while_serving, &given_back);
    assert_failed(BIT(SERVING) | BIT(UNPLANNED) | BIT(CLOSED));
    assert_int_equal(impmem_backend_release(&unplanned, NULL), IMPMEM_OK);
    assert_closes();
}

static void exceed_a_line(void *context, simulate_world *world)
{
    impmem_ledger *ledger = world->devices.ledger;
    assert_int_equal(impmem_ledger_charge(ledger, IMPMEM_LINE_CONTEXT, 4096, NULL), IMPMEM_OK);
    if (*(bool *)context) assert_int_equal(impmem_ledger_uncharge(ledger, IMPMEM_LINE_CONTEXT, 4096), IMPMEM_OK);
}

static void a_line_that_was_above_its_plan_for_a_while_is_found(void **state)
{
    (void)state;
    bool taken_back = true;
    run_planted(exceed_a_line, &taken_back);
    assert_failed(BIT(PEAKS));
    trace_free(&h.load);
}

static void a_line_that_is_above_its_plan_is_found(void **state)
{
    (void)state;
    bool taken_back = false;
    run_planted(exceed_a_line, &taken_back);
    assert_failed(BIT(PEAKS) | BIT(UNPLANNED) | BIT(CLOSED));
    /* Charges don't keep a ledger open: nobody here holds their bytes. */
    assert_null(h.world.devices.ledger);
    trace_free(&h.load);
}

static void forge_the_journal(void *context, simulate_world *world)
{
    (void)context;
    world->devices.ledger->opening[IMPMEM_ACCOUNT_DEVICE]++;
}

static void a_journal_that_does_not_add_up_is_found(void **state)
{
    (void)state;
    run_planted(forge_the_journal, NULL);
    assert_failed(BIT(JOURNAL));
    trace_free(&h.load);
}

static void take_a_charge_back(void *context, simulate_world *world)
{
    (void)context;
    assert_int_equal(impmem_ledger_uncharge(world->devices.ledger, IMPMEM_LINE_CONTEXT, 1), IMPMEM_OK);
}

static void an_engine_that_can_not_close_is_found(void **state)
{
    (void)state;
    run_planted(take_a_charge_back, NULL);
    assert_failed(BIT(CLOSED));
    /* The other charges were taken back; what is left of this one is not. */
    uint64_t rest = impmem_plan_find_line(&h.plan, IMPMEM_LINE_CONTEXT)->bytes - 1;
    assert_int_equal(impmem_ledger_uncharge(h.world.devices.ledger, IMPMEM_LINE_CONTEXT, rest), IMPMEM_OK);
    assert_closes();
}

/* ---- runs that stop ---------------------------------------------------------------------------------------------------- */

static void a_head_that_nobody_running_can_make_room_for_stops_the_run(void **state)
{
    (void)state;
    begin_hour(4, 0, 3);
    /* Somebody outside the run holds every block. */
    static const uint32_t tokens[CONTEXT_TOKENS] = {1};
    impmem_kv_request request = IMPMEM_KV_REQUEST_INIT;
    impmem_kv_stats stats;
    impmem_kv_query(h.world.kv, &stats);
    request.tokens = tokens;
    request.n_tokens = CONTEXT_TOKENS;
    assert_int_equal(impmem_kv_admit(h.world.kv, &request, &leaked, NULL, NULL), IMPMEM_OK);
    for (uint32_t i = 0; i < 3; i++) h.load.requests[i].input_tokens = CONTEXT_TOKENS / 2;
    simulate_run(&h.world, &h.settings, &h.result);
    assert_true(h.result.verdict[SIMULATE_CHECK_RUN].failed);
    assert_true(h.result.verdict[SIMULATE_CHECK_ANSWERED].failed);
    assert_non_null(strstr(h.result.verdict[SIMULATE_CHECK_RUN].detail, "idle engine"));
    assert_int_equal(impmem_kv_release(h.world.kv, &leaked), IMPMEM_OK);
    end_hour();
    assert_false(h.result.verdict[SIMULATE_CHECK_CLOSED].failed);
}

static void a_clock_that_runs_out_stops_the_run_and_leaves_nothing(void **state)
{
    (void)state;
    begin_hour(4, 64 * IMPMEM_MIB, 5);
    h.settings.base_ns = UINT64_C(1) << 61;
    simulate_run(&h.world, &h.settings, &h.result);
    end_hour();
    assert_failed(BIT(RUN) | BIT(ANSWERED));
    begin_hour(4, 64 * IMPMEM_MIB, 5);
    h.load.requests[4].time_ns = INT64_MAX;
    h.settings.speed_thousandths = 1;
    simulate_run(&h.world, &h.settings, &h.result);
    end_hour();
    assert_failed(BIT(RUN) | BIT(ANSWERED));
    assert_int_equal(h.result.served + h.result.refused_never, 4);
}

static void a_plan_that_the_device_can_not_hold_names_the_step_and_leaves_nothing(void **state)
{
    (void)state;
    memset(&h, 0, sizeof h);
    h.plan = make_plan(4, 0);
    h.plan.budget_bytes[IMPMEM_ACCOUNT_DEVICE] -= h.plan.granule_bytes;
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_non_null(simulate_world_open(&h.plan, &h.world, &why));
    assert_true(why.status != IMPMEM_OK);
    end_hour();
    assert_failed(0);
}

/* ---- the made-up load ---------------------------------------------------------------------------------------------------- */

static void a_made_up_load_is_an_hour_of_well_formed_requests(void **state)
{
    (void)state;
    enum { N = 3000 };
    trace a, b;
    assert_int_equal(simulate_load_make(N, 3, &a), IMPMEM_OK);
    assert_int_equal(simulate_load_make(N, 3, &b), IMPMEM_OK);
    assert_int_equal(a.n_requests, N);
    assert_memory_equal(a.requests, b.requests, N * sizeof *a.requests);
    assert_int_equal(a.n_ids, b.n_ids);
    assert_memory_equal(a.ids, b.ids, a.n_ids * sizeof *a.ids);
    uint64_t ids = 0, prompts = 0, answers = 0, first_half = 0, turns = 0;
    for (uint64_t i = 0; i < N; i++) {
        const trace_request *r = &a.requests[i];
        assert_true(r->time_ns < UINT64_C(3600) * 1000000000u);
        assert_true(i == 0 || r->time_ns >= a.requests[i - 1].time_ns);
        assert_int_equal(r->first_id, ids);
        assert_int_equal(r->n_ids, r->input_tokens / a.block_tokens);
        assert_in_range(r->input_tokens, 2, 1 << 14);
        assert_in_range(r->output_tokens, 7, 1000);
        ids += r->n_ids;
        prompts += r->input_tokens;
        answers += r->output_tokens;
        first_half += r->time_ns < UINT64_C(1800) * 1000000000u;
        /* Behind the longest system prompt, 12 blocks, only a further turn has blocks that were there before. */
        turns += r->n_ids > 12 && a.ids[r->first_id + 12] < a.ids[ids - 1] - (r->n_ids - 13);
    }
    assert_int_equal(a.n_ids, ids);
    assert_int_equal(a.input_tokens, prompts);
    assert_int_equal(a.output_tokens, answers);
    /* Binomial with N = 3000: four standard deviations are 110. */
    assert_in_range(first_half, N / 2 - 110, N / 2 + 110);
    /* The mean of the deciles' trapezoids is 235.85 tokens; four standard errors of at most 200 / sqrt(3000) are 15. */
    assert_in_range(answers / N, 235 - 15, 236 + 15);
    assert_true(turns > N / 10);
    trace_free(&a);
    trace_free(&b);
}

/* ---- the bar ------------------------------------------------------------------------------------------------------------- */

/* What a bar at half of its way writes to standard error, which is a terminal or a pipe. */
static size_t bar_output(bool terminal, char *text, size_t capacity)
{
    int end[2], saved = dup(STDERR_FILENO);
    assert_true(saved >= 0);
    assert_int_equal(terminal ? openpty(&end[0], &end[1], NULL, NULL, NULL) : pipe(end), 0);
    assert_true(dup2(end[1], STDERR_FILENO) >= 0);
    progress bar;
    progress_begin(&bar, "work", 10);
    struct timespec nap = {0, 120000000};
    nanosleep(&nap, NULL);
    for (int i = 0; i < 256; i++) progress_show(&bar, 5);
    progress_end(&bar);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    assert_int_equal(write(end[1], "\n", 1), 1);
    close(end[1]);
    close(saved);
    /* A terminal hands out what it has: several reads up to the line's end. */
    size_t n = 0;
    while (n == 0 || text[n - 1] != '\n') {
        ssize_t got = read(end[0], text + n, capacity - 1 - n);
        assert_true(got > 0);
        n += (size_t)got;
    }
    close(end[0]);
    text[n] = '\0';
    return n;
}

static void a_bar_is_for_terminals_only(void **state)
{
    (void)state;
    char text[512];
    assert_int_equal(bar_output(false, text, sizeof text), 1);
    bar_output(true, text, sizeof text);
    assert_non_null(strstr(text, "work [####################                    ]  50 %"));
    assert_non_null(strstr(text, "\r\033[K"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_healthy_hour_passes_every_check),
        cmocka_unit_test(a_hybrid_model_is_served_with_a_slot_a_sequence_and_no_hit),
        cmocka_unit_test(every_line_is_lived_in_up_to_its_plan),
        cmocka_unit_test(windows_are_served_and_never_hit),
        cmocka_unit_test(a_request_that_does_not_fit_now_waits_first_in_the_queue),
        cmocka_unit_test(what_can_never_be_served_is_told_when_it_comes),
        cmocka_unit_test(a_leaked_sequence_is_found),
        cmocka_unit_test(a_slot_of_state_that_nobody_gave_back_is_found),
        cmocka_unit_test(a_block_that_somebody_still_pins_is_found),
        cmocka_unit_test(a_cache_that_miscounts_its_blocks_is_found),
        cmocka_unit_test(a_block_that_is_neither_free_nor_held_is_found),
        cmocka_unit_test(a_promise_to_nobody_is_found),
        cmocka_unit_test(tables_are_walked_in_the_middle_of_the_run_too),
        cmocka_unit_test(a_reference_of_nobody_is_found),
        cmocka_unit_test(an_acquisition_while_serving_is_found_though_it_was_given_back),
        cmocka_unit_test(bytes_on_no_line_are_found),
        cmocka_unit_test(a_line_that_was_above_its_plan_for_a_while_is_found),
        cmocka_unit_test(a_line_that_is_above_its_plan_is_found),
        cmocka_unit_test(a_journal_that_does_not_add_up_is_found),
        cmocka_unit_test(an_engine_that_can_not_close_is_found),
        cmocka_unit_test(a_head_that_nobody_running_can_make_room_for_stops_the_run),
        cmocka_unit_test(a_clock_that_runs_out_stops_the_run_and_leaves_nothing),
        cmocka_unit_test(a_plan_that_the_device_can_not_hold_names_the_step_and_leaves_nothing),
        cmocka_unit_test(a_made_up_load_is_an_hour_of_well_formed_requests),
        cmocka_unit_test(a_bar_is_for_terminals_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
