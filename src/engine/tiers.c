/* src/engine/tiers.c - one plan region becomes one region of a backend with its tier allocator over it. */
#include "core/internal.h"
#include "engine/internal.h"

static uint32_t collect_shares(const impmem_plan *plan, uint32_t index, impmem_line_share *shares)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_lines; i++) {
        if (plan->line[i].region != index) continue;
        shares[n].line = plan->line[i].id;
        shares[n].bytes = plan->line[i].bytes;
        n++;
    }
    return n;
}

static const impmem_kv_group *group_of_region(const impmem_plan *plan, uint32_t index, uint32_t *out_group)
{
    for (uint32_t g = 0; g < plan->n_kv_groups; g++)
        if (plan->kv_group[g].region == index) {
            *out_group = g;
            return &plan->kv_group[g];
        }
    return NULL;
}

static impmem_status take_region(impmem_engine *engine, uint32_t index, impmem_error *why)
{
    const impmem_plan_region *planned = &engine->plan.region[index];
    impmem_line_share shares[IMPMEM_PLAN_MAX_LINES];
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = planned->bytes;
    info.tag = planned->tag;
    info.line = planned->line;
    /* What grows has one line, its rounding included; commits are charged to it as they come. */
    if (planned->growable && engine->backends.grow)
        return impmem_backend_reserve(engine->backends.grow, &info, &engine->region[index], why);
    info.n_shares = collect_shares(&engine->plan, index, shares);
    info.shares = shares;
    return impmem_backend_acquire(engine->backends.fixed, &info, &engine->region[index], why);
}

/* NULL: the region is no pool of state. */
static const impmem_state_pool *state_of_region(const impmem_plan *plan, uint32_t index, uint32_t *out_state)
{
    for (uint32_t i = 0; i < plan->n_state_pools; i++)
        if (plan->state_pool[i].region == index) {
            *out_state = i;
            return &plan->state_pool[i];
        }
    return NULL;
}

/* What lies beside KV blocks is addressed by their ids: a region, and no allocator over it. */
static bool is_side(const impmem_plan *plan, uint32_t index)
{
    for (uint32_t i = 0; i < plan->n_kv_sides; i++)
        if (plan->kv_side[i].region == index) return true;
    return false;
}

static impmem_status open_state(impmem_engine *engine, uint32_t index, uint32_t state, impmem_error *why)
{
    const impmem_state_pool *planned = &engine->plan.state_pool[state];
    impmem_block_pool_options options = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    options.region = engine->region[index];
    options.stride_bytes = planned->stride_bytes;
    options.max_blocks = options.blocks = planned->slots;
    options.unshared = true;
    return impmem_block_pool_open(engine->ledger, &options, &engine->state_pool[state], why);
}

static impmem_status open_pool(impmem_engine *engine, uint32_t index, impmem_error *why)
{
    uint32_t g = 0, state = 0;
    if (is_side(&engine->plan, index)) return IMPMEM_OK;
    if (state_of_region(&engine->plan, index, &state)) return open_state(engine, index, state, why);
    const impmem_kv_group *group = group_of_region(&engine->plan, index, &g);
    if (!group)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "plan", "region %u is a pool of no KV group", index);
    impmem_block_pool_options options = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    options.region = engine->region[index];
    options.stride_bytes = group->stride_bytes;
    options.max_blocks = (uint32_t)group->blocks;
    options.blocks = options.max_blocks;
    if (impmem_region_growable(engine->region[index]) && group->stride_bytes > 0) {
        uint64_t initial = engine->plan.region[index].initial_bytes / group->stride_bytes;
        if (initial < options.blocks) options.blocks = initial ? (uint32_t)initial : 1;
    }
    options.extra_refs = engine->plan.extra_refs;
    options.unshared = group->window_tokens != 0;
    return impmem_block_pool_open(engine->ledger, &options, &engine->pool[g], why);
}

static impmem_status open_tier(impmem_engine *engine, uint32_t index, impmem_error *why)
{
    const impmem_plan_region *planned = &engine->plan.region[index];
    impmem_region *region = engine->region[index];
    if (planned->transient) return impmem_arena_open(region, IMPMEM_TIER_ENGINE, &engine->transient, why);
    switch (planned->tier) {
    case IMPMEM_TIER_MODEL: return impmem_arena_open(region, IMPMEM_TIER_MODEL, &engine->model, why);
    case IMPMEM_TIER_ENGINE: return impmem_arena_open(region, IMPMEM_TIER_ENGINE, &engine->persistent, why);
    case IMPMEM_TIER_SCRATCH: return impmem_scratch_open(region, &engine->scratch, why);
    case IMPMEM_TIER_POOL: return open_pool(engine, index, why);
    case IMPMEM_TIER_CHARGE:
    case IMPMEM_TIER_STAGING:
    case IMPMEM_TIER_PINNED:
    case IMPMEM_TIER_CONTROL:
    case IMPMEM_N_TIERS: break;
    }
    return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "plan", "region %u: tier %s has no allocator over a region",
                             index, impmem_tier_name(planned->tier));
}

impmem_status impmem__engine_open_region(impmem_engine *engine, uint32_t index, impmem_error *why)
{
    const impmem_plan_region *planned = &engine->plan.region[index];
    if (planned->account == IMPMEM_ACCOUNT_PINNED)
        return impmem_pinned_open(engine->backends.pinned, planned->line, planned->bytes, &engine->pinned[index], why);
    impmem_status st = take_region(engine, index, why);
    if (st) return st;
    st = open_tier(engine, index, why);
    if (!st) return IMPMEM_OK;
    impmem_status undone = impmem_backend_release(&engine->region[index], NULL);
    return impmem_first_error(st, undone);
}

static impmem_status close_tier(impmem_engine *engine, uint32_t index, impmem_error *why)
{
    const impmem_plan_region *planned = &engine->plan.region[index];
    uint32_t g = 0, state = 0;
    if (planned->transient) impmem_arena_close(&engine->transient);
    else if (planned->tier == IMPMEM_TIER_MODEL) impmem_arena_close(&engine->model);
    else if (planned->tier == IMPMEM_TIER_ENGINE) impmem_arena_close(&engine->persistent);
    else if (planned->tier == IMPMEM_TIER_SCRATCH) return impmem_scratch_close(&engine->scratch, why);
    else if (group_of_region(&engine->plan, index, &g)) return impmem_block_pool_close(&engine->pool[g], why);
    else if (state_of_region(&engine->plan, index, &state)) return impmem_block_pool_close(&engine->state_pool[state], why);
    return IMPMEM_OK;
}

impmem_status impmem__engine_close_region(impmem_engine *engine, uint32_t index, impmem_error *why)
{
    if (engine->plan.region[index].account == IMPMEM_ACCOUNT_PINNED) {
        impmem_status st = impmem_pinned_close(&engine->pinned[index]);
        if (!st) return IMPMEM_OK;
        /* It is gone, whoever closed it: the engine says so once and does not stay open over it for good. */
        if (st == IMPMEM_ERR_STALE) engine->pinned[index] = (impmem_pinned)IMPMEM_PINNED_NONE;
        return impmem__error_set(why, st, "pinned", "pinned line %u: %s", engine->plan.region[index].line,
                                 st == IMPMEM_ERR_STALE ? "closed by somebody else" : impmem_status_message(st));
    }
    if (!engine->region[index]) return IMPMEM_OK;
    impmem_status st = close_tier(engine, index, why);
    return st ? st : impmem_backend_release(&engine->region[index], why);
}
