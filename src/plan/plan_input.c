/* Resolving an input: defaults, ranges, and what every demand asks for. Every refusal names its field. */
#include <string.h>

#include "core/internal.h"
#include "plan/internal.h"

#define DEFAULT_BLOCK_TOKENS 16u
#define MAX_BLOCK_TOKENS 256u
#define DEFAULT_PREFILL_TOKENS 4096u
#define DEFAULT_GRANULE_BYTES (2 * IMPMEM_MIB)
#define DEFAULT_CHUNK_BYTES (64 * IMPMEM_MIB)
#define DEFAULT_JOURNAL_RECORDS 4096u

static const impmem_plan_features no_features = IMPMEM_PLAN_FEATURES_INIT;

impmem__part impmem__demand_part(const impmem_demand *demand)
{
    switch (demand->tier) {
    case IMPMEM_TIER_MODEL: return demand->flags & IMPMEM_LINE_TRANSIENT ? IMPMEM__PART_TRANSIENT : IMPMEM__PART_MODEL;
    case IMPMEM_TIER_ENGINE: return demand->flags & IMPMEM_LINE_TRANSIENT ? IMPMEM__PART_TRANSIENT : IMPMEM__PART_ENGINE;
    case IMPMEM_TIER_SCRATCH: return IMPMEM__PART_SCRATCH;
    case IMPMEM_TIER_PINNED: return IMPMEM__PART_PINNED;
    case IMPMEM_TIER_STAGING: return IMPMEM__PART_STAGING;
    case IMPMEM_TIER_CHARGE:
    case IMPMEM_TIER_POOL:
    case IMPMEM_TIER_CONTROL:
    case IMPMEM_N_TIERS: break;
    }
    return IMPMEM__PART_CHARGE;
}

static impmem_status bad(impmem_error *why, const char *field, uint64_t found, const char *expected)
{
    return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, field, "%s is %llu, expected %s", field, (unsigned long long)found,
                             expected);
}

/* What is wrong with a demand as such, or NULL. */
static const char *demand_fault(const impmem_plan_input *in, uint32_t index)
{
    const impmem_demand *d = &in->demand[index];
    const uint32_t known = IMPMEM_LINE_OPTIONAL | IMPMEM_LINE_TRANSIENT | IMPMEM_LINE_ESTIMATED;
    const bool arena = d->tier == IMPMEM_TIER_MODEL || d->tier == IMPMEM_TIER_ENGINE;
    if (!memchr(d->name, 0, sizeof d->name) || !d->name[0]) return "its name is empty or not terminated";
    if (!memchr(d->how, 0, sizeof d->how)) return "its formula is not terminated";
    if (d->id < IMPMEM_LINE_USER) return "its id is below IMPMEM_LINE_USER";
    if (d->id == IMPMEM_NO_LINE) return "its id is the one that means no line";
    for (uint32_t i = 0; i < index; i++)
        if (in->demand[i].id == d->id) return "its id is taken by an earlier demand";
    if (!arena && d->tier != IMPMEM_TIER_SCRATCH && d->tier != IMPMEM_TIER_STAGING && d->tier != IMPMEM_TIER_PINNED &&
        d->tier != IMPMEM_TIER_CHARGE)
        return "its tier is none that a demand can have";
    if (d->flags & ~known) return "it has a flag that a demand can't have";
    if ((d->flags & IMPMEM_LINE_TRANSIENT) && !arena) return "only model and engine memory can be transient";
    if ((d->flags & IMPMEM_LINE_OPTIONAL) &&
        ((d->flags & IMPMEM_LINE_TRANSIENT) || (!arena && d->tier != IMPMEM_TIER_PINNED)))
        return "only steady model and engine memory and pinned memory can be optional";
    return NULL;
}

static impmem_status size_demand(const impmem__terms *terms, const impmem_demand *d, uint64_t *out, impmem_error *why)
{
    uint64_t bytes = d->bytes;
    impmem_status st = d->size ? d->size(d->context, &terms->load, &bytes) : IMPMEM_OK;
    impmem__part part = impmem__demand_part(d);
    if (!st && part != IMPMEM__PART_CHARGE && part != IMPMEM__PART_STAGING)
        st = impmem_align_up(&bytes, bytes, IMPMEM__LINE_ALIGNMENT);
    if (st) {
        impmem__error_set(why, st, d->name, "demand \"%s\": its size failed: %s", d->name, impmem_status_message(st));
        impmem__error_line(why, d->id);
        return st;
    }
    *out = bytes;
    return IMPMEM_OK;
}

static impmem_status resolve_demands(impmem__terms *terms, impmem_error *why)
{
    const impmem_plan_input *in = terms->in;
    if (in->n_demands > IMPMEM_PLAN_MAX_DEMANDS) return bad(why, "n_demands", in->n_demands, "at most 64");
    if (in->n_demands > 0 && !in->demand)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "demand", "%u demands were announced and none given",
                                 in->n_demands);
    for (uint32_t i = 0; i < in->n_demands; i++) {
        const impmem_demand *d = &in->demand[i];
        const char *fault = demand_fault(in, i);
        if (fault) {
            impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, "demand", "demand %u (id %u): %s", i, d->id, fault);
            impmem__error_line(why, d->id);
            return IMPMEM_ERR_BAD_VALUE;
        }
        impmem__item *item = &terms->item[terms->n_items++];
        item->id = d->id;
        item->part = impmem__demand_part(d);
        item->tier = d->tier;
        item->flags = d->flags;
        item->demand = d;
        impmem_status st = size_demand(terms, d, &item->bytes, why);
        if (st) return st;
    }
    return IMPMEM_OK;
}

static impmem_status check_batches(const impmem__terms *t, impmem_error *why)
{
    const impmem_plan_input *in = t->in;
    if (in->n_must_fit > IMPMEM_PLAN_MAX_BATCHES) return bad(why, "n_must_fit", in->n_must_fit, "at most 16");
    if (in->n_must_fit > 0 && !in->must_fit)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "must_fit", "%u batches were announced and none given",
                                 in->n_must_fit);
    for (uint32_t i = 0; i < in->n_must_fit; i++) {
        const impmem_plan_batch *b = &in->must_fit[i];
        if (b->sequences == 0 || b->tokens == 0 || b->sequences > t->load.batch || b->tokens > t->load.context)
            return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, "must_fit",
                                     "batch %u: %u sequences of %u tokens, expected 1 to max_batch %u of 1 to "
                                     "max_seq_tokens %u",
                                     i, b->sequences, b->tokens, t->load.batch, t->load.context);
    }
    if (in->typical.tokens > t->load.context) return bad(why, "typical", in->typical.tokens, "at most max_seq_tokens");
    return IMPMEM_OK;
}

static impmem_status resolve_load(impmem__terms *t, impmem_error *why)
{
    const impmem_plan_input *in = t->in;
    t->load.batch = in->max_batch ? in->max_batch : 1;
    t->load.context = in->max_seq_tokens ? in->max_seq_tokens : in->model->trained_context;
    if (t->load.context == 0)
        return bad(why, "max_seq_tokens", 0, "at least 1, since the model's trained context is unknown");
    t->block_tokens = in->block_tokens ? in->block_tokens : DEFAULT_BLOCK_TOKENS;
    if (t->block_tokens % DEFAULT_BLOCK_TOKENS || t->block_tokens > MAX_BLOCK_TOKENS)
        return bad(why, "block_tokens", t->block_tokens, "a multiple of 16 from 16 to 256");
    uint32_t prefill = t->load.context < DEFAULT_PREFILL_TOKENS ? t->load.context : DEFAULT_PREFILL_TOKENS;
    t->load.tokens = in->prefill_tokens ? in->prefill_tokens : prefill;
    t->k = in->kv_dtype_k ? in->kv_dtype_k : IMPMEM_DTYPE_F16;
    t->v = in->kv_dtype_v ? in->kv_dtype_v : IMPMEM_DTYPE_F16;
    if ((uint32_t)t->k >= IMPMEM_N_DTYPES) return bad(why, "kv_dtype_k", (uint32_t)t->k, "an impmem_dtype");
    if ((uint32_t)t->v >= IMPMEM_N_DTYPES) return bad(why, "kv_dtype_v", (uint32_t)t->v, "an impmem_dtype");
    return IMPMEM_OK;
}

static impmem_status resolve_memory(impmem__terms *t, impmem_error *why)
{
    const impmem_plan_input *in = t->in;
    t->granule_bytes = in->granule_bytes ? in->granule_bytes : DEFAULT_GRANULE_BYTES;
    if (t->granule_bytes < IMPMEM__LINE_ALIGNMENT || (t->granule_bytes & (t->granule_bytes - 1)))
        return bad(why, "granule_bytes", t->granule_bytes, "a power of two of at least 256");
    t->chunk_bytes = in->commit_chunk_bytes ? in->commit_chunk_bytes : DEFAULT_CHUNK_BYTES;
    if (impmem_align_up(&t->chunk_bytes, t->chunk_bytes, t->granule_bytes))
        return impmem__error_set(why, IMPMEM_ERR_OVERFLOW, "commit_chunk_bytes",
                                 "commit_chunk_bytes rounded up to the granule exceeds 64 bits");
    t->initial_percent = in->kv_initial_percent ? in->kv_initial_percent : 100;
    if (t->initial_percent > 100) return bad(why, "kv_initial_percent", t->initial_percent, "1 to 100");
    t->journal_records = in->journal_records ? in->journal_records : DEFAULT_JOURNAL_RECORDS;
    t->budget_bytes[IMPMEM_ACCOUNT_DEVICE] = in->budget_bytes;
    t->budget_bytes[IMPMEM_ACCOUNT_PINNED] = in->pinned_budget_bytes ? in->pinned_budget_bytes : UINT64_MAX;
    t->budget_bytes[IMPMEM_ACCOUNT_PAGEABLE] = in->host_budget_bytes ? in->host_budget_bytes : UINT64_MAX;
    uint64_t weights = in->model->weight_bytes;
    if (t->features->vision_skipped && !in->model->vision_apart &&
        impmem_sub(&weights, weights, in->model->vision_weight_bytes))
        return bad(why, "vision_weight_bytes", in->model->vision_weight_bytes, "a part of weight_bytes");
    if (impmem_align_up(&t->weight_bytes, weights, IMPMEM__LINE_ALIGNMENT))
        return impmem__error_set(why, IMPMEM_ERR_OVERFLOW, "weight_bytes",
                                 "weight_bytes rounded up to 256 exceeds 64 bits");
    return IMPMEM_OK;
}

impmem_status impmem__plan_resolve(const impmem_plan_input *in, impmem__terms *out, impmem_error *why)
{
    memset(out, 0, sizeof *out);
    if (!in) return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "input", "the plan input is NULL");
    impmem_status st = impmem__options_check(in->size, in->version, sizeof *in, 1);
    if (st)
        return impmem__error_set(why, st, "input",
                                 "plan input of %u bytes, version %u: this library knows %zu bytes, version 1", in->size,
                                 in->version, sizeof *in);
    st = impmem_shape_check(in->model, why);
    if (st) return st;
    out->in = in;
    out->features = in->features ? in->features : &no_features;
    st = impmem__options_check(out->features->size, out->features->version, sizeof *out->features, 1);
    if (st)
        return impmem__error_set(why, st, "features",
                                 "plan features of %u bytes, version %u: this library knows %zu bytes, version 1",
                                 out->features->size, out->features->version, sizeof *out->features);
    st = resolve_load(out, why);
    if (!st) st = check_batches(out, why);
    if (!st) st = resolve_memory(out, why);
    if (!st) st = impmem__plan_features(out, why);
    if (!st) st = resolve_demands(out, why);
    if (!st) st = impmem__plan_groups(out, why);
    if (!st) st = impmem__plan_states(out, why);
    return st;
}
