/* src/engine/engine.c - opening in plan order, phases, closing; all or nothing at every step. */
#include "impmem/engine.h"

#include <string.h>

#include "backend/hooks.h"
#include "core/internal.h"
#include "core/layout.h"
#include "engine/internal.h"
#include "impmem/control.h"

_Static_assert(sizeof(impmem_block_ref) == IMPMEM__ENGINE_SLOT_BYTES, "the planner charges the slots of sequences");
_Static_assert(sizeof(struct impmem_engine) <= IMPMEM__ENGINE_OBJECT_BYTES, "the planner charges the engine object");

static impmem_status check_backend(const impmem_ledger *ledger, const impmem_plan *plan, const impmem_backend *backend,
                                   const char *role, impmem_account account, impmem_error *why)
{
    if (impmem_backend_ledger(backend) != ledger)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, role, "the %s backend books on another ledger", role);
    impmem_backend_properties p;
    impmem_backend_query(backend, &p);
    if (p.account != account)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, role, "the %s backend's account is %s, expected %s",
                                 role, impmem_account_name(p.account), impmem_account_name(account));
    if (p.granule_bytes == 0 || plan->granule_bytes % p.granule_bytes)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, role,
                                 "the %s backend's granule of %llu bytes does not divide the plan's %llu", role,
                                 (unsigned long long)p.granule_bytes, (unsigned long long)plan->granule_bytes);
    return IMPMEM_OK;
}

/* A plan is plain data that anybody may have written. */
static bool counts_fit(const impmem_plan *plan)
{
    if (plan->n_regions > IMPMEM_PLAN_MAX_REGIONS || plan->n_lines > IMPMEM_PLAN_MAX_LINES ||
        plan->n_kv_groups > IMPMEM_PLAN_MAX_KV_GROUPS || plan->n_kv_sides > IMPMEM_PLAN_MAX_KV_SIDES ||
        plan->n_state_pools > IMPMEM_PLAN_MAX_STATE_POOLS)
        return false;
    for (uint32_t i = 0; i < plan->n_kv_sides; i++)
        if (plan->kv_side[i].region >= plan->n_regions) return false;
    return true;
}

static impmem_status check_open(impmem_ledger *ledger, const impmem_plan *plan, const impmem_engine_backends *backends,
                                impmem_engine **out, impmem_error *why)
{
    if (!ledger || !plan || !backends || !backends->fixed || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "engine",
                                 "ledger, plan, fixed backend or out is missing");
    if (plan->version > 1)
        return impmem__error_set(why, IMPMEM_ERR_VERSION, "plan", "plan version %u, this library knows 1", plan->version);
    if (!counts_fit(plan))
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "plan", "the plan's counts exceed its arrays");
    if (impmem_ledger_phase(ledger) != IMPMEM_PHASE_LOADING)
        return impmem__error_set(why, IMPMEM_ERR_PHASE_ORDER, "engine", "the ledger is %s, an engine opens while loading",
                                 impmem_phase_name(impmem_ledger_phase(ledger)));
    impmem_status st = check_backend(ledger, plan, backends->fixed, "fixed", IMPMEM_ACCOUNT_DEVICE, why);
    if (!st && backends->grow) {
        st = check_backend(ledger, plan, backends->grow, "growing", IMPMEM_ACCOUNT_DEVICE, why);
        impmem_backend_properties p;
        impmem_backend_query(backends->grow, &p);
        if (!st && !p.growable)
            st = impmem__error_set(why, IMPMEM_ERR_NOT_GROWABLE, "growing", "the growing backend %s cannot grow", p.name);
    }
    bool wants_pinned = false;
    for (uint32_t r = 0; r < plan->n_regions; r++) wants_pinned |= plan->region[r].account == IMPMEM_ACCOUNT_PINNED;
    if (!st && wants_pinned) {
        if (!backends->pinned)
            return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "pinned",
                                     "the plan has pinned lines, no pinned backend");
        st = check_backend(ledger, plan, backends->pinned, "pinned", IMPMEM_ACCOUNT_PINNED, why);
    }
    return st;
}

static impmem_status charge_lines(impmem_engine *engine, impmem_error *why)
{
    for (uint32_t i = 0; i < engine->plan.n_lines; i++) {
        const impmem_line *line = &engine->plan.line[i];
        if (line->tier == IMPMEM_TIER_CHARGE) {
            impmem_status st = impmem_ledger_charge(engine->ledger, line->id, line->bytes, why);
            if (st) return st;
        }
        engine->charged_lines = i + 1;
    }
    return IMPMEM_OK;
}

static impmem_status uncharge_lines(impmem_engine *engine)
{
    impmem_status st = IMPMEM_OK;
    while (engine->charged_lines > 0) {
        const impmem_line *line = &engine->plan.line[--engine->charged_lines];
        if (line->tier == IMPMEM_TIER_CHARGE)
            st = impmem_first_error(st, impmem_ledger_uncharge(engine->ledger, line->id, line->bytes));
    }
    return st;
}

static bool has_transient(const impmem_plan *plan)
{
    for (uint32_t r = 0; r < plan->n_regions; r++)
        if (plan->region[r].transient) return true;
    return false;
}

static bool waits_for_loading(const impmem_plan *plan, uint32_t index)
{
    return plan->region[index].tier == IMPMEM_TIER_POOL && has_transient(plan);
}

/* Opens every region of the plan that is wanted and not open yet; on failure closes those it opened itself. */
static impmem_status open_regions(impmem_engine *engine, bool loading, impmem_error *why)
{
    bool opened[IMPMEM_PLAN_MAX_REGIONS] = {false};
    impmem_status st = IMPMEM_OK;
    for (uint32_t r = 0; r < engine->plan.n_regions && !st; r++) {
        if (impmem__engine_region_open(engine, r)) continue;
        if (loading ? waits_for_loading(&engine->plan, r) : impmem__plan_region_is_transient(&engine->plan, r)) continue;
        st = impmem__engine_open_region(engine, r, why);
        opened[r] = !st;
    }
    if (!st && !(loading && has_transient(&engine->plan))) st = impmem__engine_open_kv(engine, why);
    if (!st) return IMPMEM_OK;
    for (uint32_t r = engine->plan.n_regions; r-- > 0;)
        if (opened[r]) st = impmem_first_error(st, impmem__engine_close_region(engine, r, NULL));
    return st;
}

/* The ordinary destructor, also of a half-open engine. */
static impmem_status close_parts(impmem_engine *engine, impmem_error *why)
{
    impmem_status closed = impmem_kv_close(&engine->kv, why);
    if (closed) return closed;
    for (uint32_t r = engine->plan.n_regions; r-- > 0;) {
        impmem_status st = impmem__engine_close_region(engine, r, why);
        if (st) return st;
    }
    impmem_status st = uncharge_lines(engine);
    if (st) return impmem__error_set(why, st, "charges", "a charge of the plan was taken back by somebody else");
    impmem_ledger *ledger = engine->ledger;
    impmem_ledger_host_free(ledger, IMPMEM_LINE_HOST_CONTROL, IMPMEM_TAG_HOST_CONTROL, engine, engine->object_bytes);
    return IMPMEM_OK;
}

impmem_status impmem_engine_open(impmem_ledger *ledger, const impmem_plan *plan, const impmem_engine_backends *backends,
                                 impmem_engine **out, impmem_error *why)
{
    impmem_status st = check_open(ledger, plan, backends, out, why);
    if (st) return st;
    uint64_t bytes = 0;
    st = impmem_control_engine_bytes(plan->max_batch, plan->n_state_pools, &bytes);
    void *memory = NULL;
    if (!st)
        st = impmem_ledger_host_allocate(ledger, IMPMEM_LINE_HOST_CONTROL, IMPMEM_TAG_HOST_CONTROL, bytes, &memory, why);
    if (st) return st;
    impmem_engine *engine = memory;
    engine->plan = *plan;
    engine->ledger = ledger;
    engine->backends = *backends;
    engine->object_bytes = bytes;
    engine->slot = (impmem_block_ref *)(void *)((char *)memory + IMPMEM__ENGINE_OBJECT_BYTES);
    st = charge_lines(engine, why);
    if (!st) st = open_regions(engine, true, why);
    if (st) return impmem_first_error(st, close_parts(engine, NULL));
    *out = engine;
    return IMPMEM_OK;
}

/* Giving memory back takes several steps, and none of them is possible now: so not even the first is taken. */
static impmem_status check_not_capturing(const impmem_engine *engine, impmem_error *why)
{
    if (!impmem__ledger_is_capturing(engine->ledger)) return IMPMEM_OK;
    return impmem__error_set(why, IMPMEM_ERR_CAPTURING, "engine", "a graph is being captured: end that first");
}

impmem_status impmem_engine_end_loading(impmem_engine *engine, impmem_error *why)
{
    if (!engine) return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "engine", "no engine");
    if (impmem_ledger_phase(engine->ledger) != IMPMEM_PHASE_LOADING)
        return impmem__error_set(why, IMPMEM_ERR_PHASE_ORDER, "engine", "loading has ended already");
    impmem_status guard = check_not_capturing(engine, why);
    if (guard) return guard;
    for (uint32_t r = 0; r < engine->plan.n_regions; r++) {
        if (!impmem__plan_region_is_transient(&engine->plan, r)) continue;
        impmem_status st = impmem__engine_close_region(engine, r, why);
        if (st) return st;
    }
    impmem_status st = open_regions(engine, false, why);
    return st ? st : impmem_ledger_set_phase(engine->ledger, IMPMEM_PHASE_PLANNING, why);
}

impmem_status impmem_engine_begin_serving(impmem_engine *engine, impmem_error *why)
{
    if (!engine) return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "engine", "no engine");
    if (impmem_ledger_phase(engine->ledger) == IMPMEM_PHASE_LOADING) {
        impmem_status st = impmem_engine_end_loading(engine, why);
        if (st) return st;
    }
    return impmem_ledger_set_phase(engine->ledger, IMPMEM_PHASE_SERVING, why);
}

static impmem_status check_idle(const impmem_engine *engine, impmem_error *why)
{
    if (engine->kv) {
        impmem_kv_stats stats;
        impmem_kv_query(engine->kv, &stats);
        if (stats.sequences)
            return impmem__error_set(why, IMPMEM_ERR_LIVE_HOLDERS, "KV", "%llu sequences are still admitted",
                                     (unsigned long long)stats.sequences);
    }
    for (uint32_t i = 0; i < engine->plan.n_state_pools; i++) {
        impmem_block_pool_stats stats;
        if (!engine->state_pool[i]) continue;
        impmem_block_pool_query(engine->state_pool[i], &stats);
        if (stats.live_blocks || stats.reserved_blocks)
            return impmem__error_set(why, IMPMEM_ERR_LIVE_HOLDERS, "state",
                                     "%llu slots of state pool %u are still held, %llu promised",
                                     (unsigned long long)stats.live_blocks, i, (unsigned long long)stats.reserved_blocks);
    }
    if (engine->scratch) {
        impmem_scratch_stats stats;
        impmem_scratch_query(engine->scratch, &stats);
        if (stats.depth)
            return impmem__error_set(why, IMPMEM_ERR_LIVE_HOLDERS, "scratch", "%llu marks are still open",
                                     (unsigned long long)stats.depth);
    }
    return IMPMEM_OK;
}

bool impmem_engine_is_idle(const impmem_engine *engine)
{
    return engine && !check_idle(engine, NULL);
}

static impmem_status check_no_grower(const impmem_engine *engine, impmem_error *why)
{
    for (uint32_t g = 0; g < engine->plan.n_kv_groups; g++) {
        const impmem_region *region = impmem_engine_kv_region(engine, g);
        if (region && impmem__region_has_grower(region))
            return impmem__error_set(why, IMPMEM_ERR_BUSY, "engine", "a grower is open over KV group %u: close that first",
                                     g);
    }
    return IMPMEM_OK;
}

impmem_status impmem_engine_close(impmem_engine **engine, impmem_error *why)
{
    if (!engine || !*engine) return IMPMEM_OK;
    impmem_status st = check_idle(*engine, why);
    if (!st) st = check_no_grower(*engine, why);
    if (!st) st = check_not_capturing(*engine, why);
    if (!st) st = close_parts(*engine, why);
    if (!st) *engine = NULL;
    return st;
}

impmem_status impmem_engine_take_model(impmem_engine *engine, impmem_line_id line, uint64_t bytes, uint64_t alignment,
                                       impmem_model_span *out)
{
    if (!engine || !out) return IMPMEM_ERR_INVALID_ARGUMENT;
    return engine->model ? impmem_arena_take_model(engine->model, line, bytes, alignment, out) : IMPMEM_ERR_UNPLANNED;
}

impmem_status impmem_engine_take(impmem_engine *engine, impmem_line_id line, uint64_t bytes, uint64_t alignment,
                                 impmem_engine_span *out)
{
    if (!engine || !out) return IMPMEM_ERR_INVALID_ARGUMENT;
    return engine->persistent ? impmem_arena_take_engine(engine->persistent, line, bytes, alignment, out)
                              : IMPMEM_ERR_UNPLANNED;
}

impmem_status impmem_engine_take_transient(impmem_engine *engine, impmem_line_id line, uint64_t bytes, uint64_t alignment,
                                           impmem_engine_span *out)
{
    if (!engine || !out) return IMPMEM_ERR_INVALID_ARGUMENT;
    return engine->transient ? impmem_arena_take_engine(engine->transient, line, bytes, alignment, out)
                             : IMPMEM_ERR_UNPLANNED;
}

impmem_ledger *impmem_engine_ledger(const impmem_engine *engine)
{
    return engine ? engine->ledger : NULL;
}

const impmem_plan *impmem_engine_plan(const impmem_engine *engine)
{
    return engine ? &engine->plan : NULL;
}

impmem_scratch *impmem_engine_scratch(impmem_engine *engine)
{
    return engine ? engine->scratch : NULL;
}

const impmem_block_pool *impmem_engine_kv_pool(const impmem_engine *engine, uint32_t group)
{
    return engine && group < engine->plan.n_kv_groups ? engine->pool[group] : NULL;
}

impmem_region *impmem_engine_kv_region(const impmem_engine *engine, uint32_t group)
{
    if (!impmem_engine_kv_pool(engine, group)) return NULL;
    impmem_region *region = engine->region[engine->plan.kv_group[group].region];
    return impmem_region_growable(region) ? region : NULL;
}

impmem_block_pool *impmem_engine_state_pool(const impmem_engine *engine, uint32_t index)
{
    return engine && index < engine->plan.n_state_pools ? engine->state_pool[index] : NULL;
}

impmem_region *impmem_engine_kv_side(const impmem_engine *engine, uint32_t index)
{
    return engine && index < engine->plan.n_kv_sides ? engine->region[engine->plan.kv_side[index].region] : NULL;
}

impmem_pinned impmem_engine_pinned(const impmem_engine *engine, impmem_line_id line)
{
    impmem_pinned none = IMPMEM_PINNED_NONE;
    if (!engine) return none;
    for (uint32_t r = 0; r < engine->plan.n_regions; r++)
        if (engine->plan.region[r].account == IMPMEM_ACCOUNT_PINNED && engine->plan.region[r].line == line)
            return engine->pinned[r];
    return none;
}
