/* src/engine/requests.c - the life of a request: admission over every resource, release, draining. */
#include "core/internal.h"
#include "engine/internal.h"
#include "impmem/claim.h"
#include "kv/live.h"
#include "plan/states.h"

impmem_status impmem__engine_open_kv(impmem_engine *engine, impmem_error *why)
{
    const impmem_plan *plan = &engine->plan;
    if (plan->n_kv_groups == 0 || engine->kv) return IMPMEM_OK;
    impmem_kv_options options = IMPMEM_KV_OPTIONS_INIT;
    options.n_groups = plan->n_kv_groups;
    for (uint32_t g = 0; g < plan->n_kv_groups; g++) {
        options.group[g].pool = engine->pool[g];
        options.group[g].window_tokens = plan->kv_group[g].window_tokens;
        options.group[g].in_flight_tokens = plan->prefill_tokens;
        options.group[g].reserved_blocks = (uint32_t)plan->kv_group[g].reserved_blocks;
    }
    options.block_tokens = plan->block_tokens;
    options.max_sequences = plan->max_batch;
    options.max_seq_tokens = plan->max_seq_tokens;
    options.recurrent_layers = impmem__plan_is_recurrent(plan);
    return impmem_kv_open(engine->ledger, &options, &engine->kv, why);
}

/* One slot for each sequence; rollback copies and snapshots come and go within one, and are their owner's to take. */
static bool is_per_sequence(const impmem_state_pool *pool)
{
    return pool->kind == IMPMEM_STATE_RECURRENT || pool->kind == IMPMEM_STATE_CROSS ||
           pool->kind == IMPMEM_STATE_RESIDUAL_RING || pool->kind == IMPMEM_STATE_DRAFT;
}

static impmem_block_ref *slots_of(const impmem_engine *engine, impmem_sequence sequence)
{
    return engine->slot + (size_t)sequence.slot_ * engine->plan.n_state_pools;
}

/* A slot in every pool of per-sequence state. */
static impmem_status claim_slots(const impmem_engine *engine, impmem_claim *claim, impmem_error *why)
{
    for (uint32_t i = 0; i < engine->plan.n_state_pools; i++) {
        if (!is_per_sequence(&engine->plan.state_pool[i])) continue;
        impmem_status st = impmem_claim_add(claim, impmem_block_pool_resource(engine->state_pool[i]), 1);
        if (st) return impmem__error_set(why, st, "admission", "no slot is free in state pool %u", i);
    }
    return IMPMEM_OK;
}

/* Claimed slots become the sequence's. What is claimed can be taken. */
static impmem_status take_slots(impmem_engine *engine, impmem_sequence sequence, uint64_t owner)
{
    impmem_status st = IMPMEM_OK;
    impmem_block_ref *slot = slots_of(engine, sequence);
    for (uint32_t i = 0; i < engine->plan.n_state_pools; i++)
        if (is_per_sequence(&engine->plan.state_pool[i]))
            st = impmem_first_error(
                st, impmem_block_take_reserved(engine->state_pool[i], IMPMEM_HOLDER_SEQUENCE, owner, &slot[i]));
    return st;
}

static impmem_status drop_slots(impmem_engine *engine, impmem_sequence sequence)
{
    impmem_status st = IMPMEM_OK;
    impmem_block_ref *slot = slots_of(engine, sequence);
    for (uint32_t i = 0; i < engine->plan.n_state_pools; i++)
        st = impmem_first_error(st, impmem_block_drop(engine->state_pool[i], &slot[i]));
    return st;
}

impmem_status impmem_engine_state_slot(const impmem_engine *engine, impmem_sequence sequence, uint32_t index,
                                       impmem_block_span *out)
{
    if (!engine || !out) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (index >= engine->plan.n_state_pools || !is_per_sequence(&engine->plan.state_pool[index]))
        return IMPMEM_ERR_NOT_FOUND;
    if (!engine->kv || !impmem__kv_is_live(engine->kv, sequence)) return IMPMEM_ERR_STALE;
    return impmem_block_address(engine->state_pool[index], slots_of(engine, sequence)[index], out);
}

static impmem_status check_open(const impmem_engine *engine, impmem_error *why)
{
    if (engine->plan.n_kv_groups == 0)
        return impmem__error_set(why, IMPMEM_ERR_UNSUPPORTED, "admission", "the plan has no KV to admit into");
    if (!engine->kv)
        return impmem__error_set(why, IMPMEM_ERR_STATE, "admission", "KV opens at the end of loading, and loading goes on");
    return IMPMEM_OK;
}

impmem_status impmem_engine_servable(const impmem_engine *engine, uint64_t prompt_tokens, uint64_t max_new_tokens,
                                     impmem_kv_admission *admission, impmem_error *why)
{
    if (!engine) return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "admission", "engine is missing");
    impmem_status st = check_open(engine, why);
    return st ? st : impmem_kv_servable(engine->kv, prompt_tokens, max_new_tokens, admission, why);
}

impmem_status impmem_engine_admit(impmem_engine *engine, const impmem_kv_request *request, impmem_sequence *out,
                                  impmem_kv_admission *admission, impmem_error *why)
{
    if (!engine || !request || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "admission", "engine, request or out is missing");
    impmem_status st = check_open(engine, why);
    if (st) return st;
    if (engine->draining) return impmem__error_set(why, IMPMEM_ERR_STATE, "admission", "the engine is draining");
    /* What can never be admitted is told so whether a slot is free or not, and is not to wait for one. */
    impmem_kv_admission figures;
    if (!impmem__kv_is_possible(engine->kv, request, &figures))
        return impmem_kv_admit(engine->kv, request, out, admission, why);
    impmem_claim slots = IMPMEM_CLAIM_INIT;
    st = claim_slots(engine, &slots, why);
    if (st && admission) *admission = figures;
    if (!st) st = impmem_kv_admit(engine->kv, request, out, admission, why);
    if (st) return impmem_first_error(st, impmem_claim_undo(&slots));
    st = impmem_claim_commit(&slots);
    return st ? st : take_slots(engine, *out, request->owner);
}

impmem_status impmem_engine_release(impmem_engine *engine, impmem_sequence *sequence)
{
    if (!engine || !sequence) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (!engine->kv) return IMPMEM_ERR_STATE;
    impmem_sequence released = *sequence;
    const bool live = impmem__kv_is_live(engine->kv, released);
    impmem_status st = impmem_kv_release(engine->kv, sequence);
    return st || !live ? st : drop_slots(engine, released);
}

static impmem_status set_draining(impmem_engine *engine, bool draining)
{
    if (!engine) return IMPMEM_ERR_INVALID_ARGUMENT;
    engine->draining = draining;
    return IMPMEM_OK;
}

impmem_status impmem_engine_drain(impmem_engine *engine)
{
    return set_draining(engine, true);
}

impmem_status impmem_engine_resume(impmem_engine *engine)
{
    return set_draining(engine, false);
}

impmem_kv *impmem_engine_kv(const impmem_engine *engine)
{
    return engine ? engine->kv : NULL;
}
