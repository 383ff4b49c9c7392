/* src/engine/requests.c - the life of a request: admission over every resource, release, draining. */
#include "core/internal.h"
#include "engine/internal.h"

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
    }
    options.block_tokens = plan->block_tokens;
    options.max_sequences = plan->max_batch;
    options.max_seq_tokens = plan->max_seq_tokens;
    return impmem_kv_open(engine->ledger, &options, &engine->kv, why);
}

impmem_status impmem_engine_admit(impmem_engine *engine, const impmem_kv_request *request, impmem_sequence *out,
                                  impmem_kv_admission *admission, impmem_error *why)
{
    if (!engine || !request || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "admission", "engine, request or out is missing");
    if (engine->plan.n_kv_groups == 0)
        return impmem__error_set(why, IMPMEM_ERR_UNSUPPORTED, "admission", "the plan has no KV to admit into");
    if (!engine->kv)
        return impmem__error_set(why, IMPMEM_ERR_STATE, "admission", "KV opens at the end of loading, and loading goes on");
    if (engine->draining) return impmem__error_set(why, IMPMEM_ERR_STATE, "admission", "the engine is draining");
    return impmem_kv_admit(engine->kv, request, out, admission, why);
}

impmem_status impmem_engine_release(impmem_engine *engine, impmem_sequence *sequence)
{
    if (!engine || !sequence) return IMPMEM_ERR_INVALID_ARGUMENT;
    return engine->kv ? impmem_kv_release(engine->kv, sequence) : IMPMEM_ERR_STATE;
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
