/* Pools of state: as many equal slots as sequences may need at once, whatever their length. */
#include "core/internal.h"
#include "plan/internal.h"

static impmem_status too_much(impmem_error *why)
{
    return impmem__error_set(why, IMPMEM_ERR_OVERFLOW, "state", "the state of one sequence exceeds 64 bits");
}

/* Nothing kept, no pool. */
static impmem_status add_pool(impmem__terms *t, impmem_state_kind kind, uint32_t n_layers, uint64_t slot_bytes,
                              uint64_t per_sequence, uint64_t extra, impmem_error *why)
{
    const bool recurrent = kind == IMPMEM_STATE_RECURRENT || kind == IMPMEM_STATE_ROLLBACK ||
                           kind == IMPMEM_STATE_SNAPSHOT || kind == IMPMEM_STATE_DRAFT;
    const impmem_plan_features *f = t->features;
    if (slot_bytes == 0) return IMPMEM_OK;
    uint64_t slots, stride;
    const uint64_t unit = f->state_page_rounding ? t->granule_bytes : IMPMEM__LINE_ALIGNMENT;
    if (impmem_mul(&slots, per_sequence, t->load.batch) || impmem_add(&slots, slots, extra) ||
        impmem_align_up(&stride, slot_bytes, unit))
        return too_much(why);
    if (slots == 0) return IMPMEM_OK;
    if (slots > IMPMEM__MAX_BLOCKS)
        return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, "state", "%llu slots of state, expected at most %u",
                                 (unsigned long long)slots, IMPMEM__MAX_BLOCKS);
    impmem__state *state = &t->state[t->n_states++];
    *state = (impmem__state){.per_sequence = per_sequence, .extra = extra};
    state->pool.kind = (uint32_t)kind;
    state->pool.n_layers = n_layers;
    state->pool.slots = (uint32_t)slots;
    state->pool.slot_bytes = slot_bytes;
    state->pool.stride_bytes = stride;
    if (recurrent) {
        state->pool.conv_dtype = f->conv_dtype ? f->conv_dtype : IMPMEM_DTYPE_F32;
        state->pool.state_dtype = f->state_dtype ? f->state_dtype : IMPMEM_DTYPE_F32;
    }
    return IMPMEM_OK;
}

/* Where a sequence's ring begins and how full it is, and three words that stage them: 5 x 4 bytes on a line of 256. */
#define RESIDUAL_INDEX_BYTES 256u

typedef impmem_status (*layer_size)(const impmem__terms *t, const impmem_layer_shape *layer, uint64_t *out);

static impmem_status recurrent_bytes(const impmem__terms *t, const impmem_layer_shape *layer, uint64_t *out)
{
    const impmem_plan_features *f = t->features;
    return impmem_size_recurrent_layer(layer, f->conv_dtype, f->state_dtype, f->conv_width, out);
}

static impmem_status cross_bytes(const impmem__terms *t, const impmem_layer_shape *layer, uint64_t *out)
{
    return impmem_size_cross_layer(layer, t->k, t->v, out);
}

static impmem_status residual_bytes(const impmem__terms *t, const impmem_layer_shape *layer, uint64_t *out)
{
    return impmem_size_residual_layer(layer, t->features->residual_tokens, out);
}

static impmem_status sum_layers(const impmem__terms *t, const impmem_model_shape *shape, layer_size size, uint64_t *out,
                                uint32_t *out_layers, impmem_error *why)
{
    uint64_t sum = 0, bytes;
    uint32_t n = 0;
    for (uint32_t i = 0; i < shape->n_layers; i++) {
        impmem_status st = size(t, &shape->layer[i], &bytes);
        if (st == IMPMEM_ERR_BAD_VALUE)
            return impmem__error_set(why, st, "state_dtype", "layer %u: its state can't be held in these types", i);
        if (!st) st = impmem_add(&sum, sum, bytes);
        if (st) return too_much(why);
        n += bytes > 0;
    }
    *out = sum;
    *out_layers = n;
    return IMPMEM_OK;
}

static bool has_state(const impmem_model_shape *shape)
{
    for (uint32_t i = 0; i < shape->n_layers; i++)
        if (shape->layer[i].recurrent != IMPMEM_RECURRENT_NONE || shape->layer[i].kind == IMPMEM_LAYER_CROSS) return true;
    return false;
}

static impmem_status add_recurrent(impmem__terms *t, impmem_error *why)
{
    const impmem_plan_features *f = t->features;
    uint64_t bytes = 0;
    uint32_t layers = 0;
    impmem_status st = sum_layers(t, t->in->model, recurrent_bytes, &bytes, &layers, why);
    if (!st) st = add_pool(t, IMPMEM_STATE_RECURRENT, layers, bytes, 1, f->state_spare_slots, why);
    if (st || bytes == 0) return st;
    if (f->draft_tokens > 0 && f->rollback_copies != UINT32_MAX)
        st = add_pool(t, IMPMEM_STATE_ROLLBACK, layers, bytes, f->rollback_copies ? f->rollback_copies : f->draft_tokens, 0,
                      why);
    uint64_t slot = 1;
    if (!st && impmem_align_up(&slot, bytes, f->state_page_rounding ? t->granule_bytes : IMPMEM__LINE_ALIGNMENT))
        st = too_much(why);
    if (!st) st = add_pool(t, IMPMEM_STATE_SNAPSHOT, layers, bytes, 0, f->snapshot_budget_bytes / slot, why);
    return st;
}

impmem_status impmem__plan_states(impmem__terms *t, impmem_error *why)
{
    const impmem_plan_features *f = t->features;
    const impmem_model_shape *model = t->in->model;
    uint64_t bytes = 0;
    uint32_t layers = 0;
    impmem_status st = IMPMEM_OK;
    if (has_state(model)) {
        st = add_recurrent(t, why);
        if (!st) st = sum_layers(t, model, cross_bytes, &bytes, &layers, why);
        if (!st) st = add_pool(t, IMPMEM_STATE_CROSS, layers, bytes, 1, 0, why);
    }
    if (!st && f->residual_tokens > 0) {
        st = sum_layers(t, model, residual_bytes, &bytes, &layers, why);
        if (!st && layers > 0 && impmem_add(&bytes, bytes, RESIDUAL_INDEX_BYTES)) st = too_much(why);
        if (!st) st = add_pool(t, IMPMEM_STATE_RESIDUAL_RING, layers, bytes, 1, 0, why);
    }
    if (!st && f->draft_tokens > 0 && f->draft && has_state(f->draft)) {
        st = sum_layers(t, f->draft, recurrent_bytes, &bytes, &layers, why);
        if (!st) st = add_pool(t, IMPMEM_STATE_DRAFT, layers, bytes, 1, 0, why);
    }
    return st;
}
