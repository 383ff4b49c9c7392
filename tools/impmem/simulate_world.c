/* simulate_world.c - a planned engine on fake devices, loaded and serving. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "simulate.h"

static uint64_t read_clock(void *context)
{
    return ((const simulate_world *)context)->now_ns;
}

/* A line that somebody takes from: not what rounding a region up costs. */
static bool is_taken(const impmem_line *line)
{
    bool rounding = line->id >= IMPMEM_LINE_ROUNDING && line->id < IMPMEM_LINE_ROUNDING + IMPMEM_PLAN_MAX_REGIONS;
    return line->bytes > 0 && !rounding;
}

/* Weights and the engine's own buffers, each line whole. */
static impmem_status take_lines(simulate_world *world)
{
    const impmem_plan *plan = world->plan;
    impmem_status st = IMPMEM_OK;
    for (uint32_t i = 0; i < plan->n_lines && !st; i++) {
        const impmem_line *line = &plan->line[i];
        impmem_model_span model;
        impmem_engine_span own;
        if (!is_taken(line)) continue;
        if (line->tier == IMPMEM_TIER_SCRATCH) world->scratch_bytes += line->bytes;
        if (line->tier != IMPMEM_TIER_MODEL && line->tier != IMPMEM_TIER_ENGINE) continue;
        if (line->flags & IMPMEM_LINE_TRANSIENT)
            st = impmem_engine_take_transient(world->engine, line->id, line->bytes, 0, &own);
        else if (line->tier == IMPMEM_TIER_MODEL)
            st = impmem_engine_take_model(world->engine, line->id, line->bytes, 0, &model);
        else st = impmem_engine_take(world->engine, line->id, line->bytes, 0, &own);
    }
    return st;
}

static const char *load(simulate_world *world, impmem_error *why)
{
    plan_devices *devices = &world->devices;
    if (plan_devices_stage(devices, world->plan, why)) return "taking the staging memory";
    if (impmem_engine_open(devices->ledger, world->plan, &devices->backends, &world->engine, why))
        return "opening the engine";
    why->status = take_lines(world);
    if (why->status) return "taking the planned lines";
    plan_devices_unstage(devices);
    if (impmem_engine_end_loading(world->engine, why)) return "ending the load";
    if (impmem_engine_begin_serving(world->engine, why)) return "beginning to serve";
    return NULL;
}

const char *simulate_world_open(const impmem_plan *plan, simulate_world *out, impmem_error *why)
{
    memset(out, 0, sizeof *out);
    out->plan = plan;
    impmem_ledger_options options = IMPMEM_LEDGER_OPTIONS_INIT;
    options.seed = 1; /* hashes decide nothing, but the same run should take the same path */
    options.serving = IMPMEM_SERVING_COUNT;
    options.clock_ns = read_clock;
    options.clock_context = out;
    const char *failed = plan_devices_open(plan, &options, &out->devices, why);
    if (!failed) failed = load(out, why);
    if (failed) return failed;
    out->kv = impmem_engine_kv(out->engine);
    for (uint32_t g = 0; g < plan->n_kv_groups; g++) {
        impmem_block_pool_stats pool;
        impmem_block_pool_query(impmem_engine_kv_pool(out->engine, g), &pool);
        out->base_live_blocks[g] = pool.live_blocks;
    }
    for (uint32_t i = 0; i < plan->n_state_pools; i++) {
        impmem_block_pool_stats pool;
        impmem_block_pool_query(impmem_engine_state_pool(out->engine, i), &pool);
        out->base_live_slots[i] = pool.live_blocks;
    }
    return NULL;
}

void simulate_world_close(simulate_world *world, simulate_result *result)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    uint64_t left[IMPMEM_N_ACCOUNTS];
    impmem_status st = impmem_engine_close(&world->engine, &why);
    st = impmem_first_error(st, plan_devices_close(&world->devices, left, st ? NULL : &why));
    if (st) simulate_fail(result, SIMULATE_CHECK_CLOSED, "%s", why.message[0] ? why.message : impmem_status_message(st));
    for (uint32_t account = 0; account < IMPMEM_N_ACCOUNTS; account++)
        if (left[account])
            simulate_fail(result, SIMULATE_CHECK_CLOSED, "%" PRIu64 " %s bytes are left", left[account],
                          impmem_account_name((impmem_account)account));
}
