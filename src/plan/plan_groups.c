/* The KV groups of a model: full layers together, then one group for each distinct window, ascending. */
#include "core/internal.h"
#include "plan/internal.h"

static bool has_kv(const impmem_layer_shape *layer)
{
    return layer->kind == IMPMEM_LAYER_FULL || layer->kind == IMPMEM_LAYER_LATENT || layer->kind == IMPMEM_LAYER_WINDOW;
}

static uint32_t window_of(const impmem_layer_shape *layer)
{
    return layer->kind == IMPMEM_LAYER_WINDOW ? layer->window_tokens : 0;
}

/* The group of that window, made in its place when it's new; NULL when there are too many. */
static impmem_kv_group *group_of(impmem__terms *t, uint32_t window)
{
    uint32_t at = 0;
    while (at < t->n_groups && t->group[at].window_tokens < window) at++;
    if (at < t->n_groups && t->group[at].window_tokens == window) return &t->group[at];
    if (t->n_groups == IMPMEM_PLAN_MAX_KV_GROUPS) return NULL;
    for (uint32_t i = t->n_groups; i > at; i--) t->group[i] = t->group[i - 1];
    t->n_groups++;
    t->group[at] = (impmem_kv_group){.window_tokens = window, .block_tokens = t->block_tokens};
    return &t->group[at];
}

static impmem_status bad_layer(const impmem__terms *t, uint32_t index, impmem_status st, impmem_error *why)
{
    const impmem_layer_shape *layer = &t->in->model->layer[index];
    if (st == IMPMEM_ERR_BAD_VALUE)
        return impmem__error_set(why, st, "kv_dtype",
                                 "layer %u: K of %u and V of %u elements a head can't be held as %s and %s", index,
                                 layer->k_dim, layer->v_dim, impmem_dtype_name(t->k), impmem_dtype_name(t->v));
    return impmem__error_set(why, st, "layer", "layer %u: the bytes of one KV block exceed 64 bits", index);
}

static impmem_status add_layers(impmem__terms *t, impmem_error *why)
{
    const impmem_model_shape *model = t->in->model;
    const impmem_layer_shape *last = NULL;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        const impmem_layer_shape *layer = &model->layer[i];
        if (!has_kv(layer)) continue;
        /* Most layers are like the one before. */
        if (!last || last->kind != layer->kind || last->kv_heads != layer->kv_heads || last->k_dim != layer->k_dim ||
            last->v_dim != layer->v_dim) {
            impmem_status st = impmem_size_kv_block_layer(layer, t->k, t->v, t->block_tokens, &bytes);
            if (st) return bad_layer(t, i, st, why);
            last = layer;
        }
        impmem_kv_group *group = group_of(t, window_of(layer));
        if (!group)
            return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, "window_tokens",
                                     "layer %u: more than %u distinct windows in one model", i, IMPMEM_PLAN_MAX_KV_GROUPS);
        group->n_layers++;
        if (impmem_add(&group->block_bytes, group->block_bytes, bytes)) return bad_layer(t, i, IMPMEM_ERR_OVERFLOW, why);
    }
    return IMPMEM_OK;
}

/* promised_kv_tokens in blocks: at least one sequence of the whole context, at most the whole batch's. */
static uint64_t promised_blocks(const impmem__terms *t, uint64_t per_sequence, uint64_t whole)
{
    uint64_t promised = t->in->promised_kv_tokens;
    if (promised == 0 || promised >= (uint64_t)t->load.batch * t->load.context) return whole;
    uint64_t blocks = promised / t->block_tokens + (promised % t->block_tokens != 0);
    if (blocks < per_sequence) blocks = per_sequence;
    return blocks < whole ? blocks : whole;
}

static impmem_status demand_blocks(impmem__terms *t, uint32_t g, impmem_error *why)
{
    impmem_kv_group *group = &t->group[g];
    uint64_t per_sequence, whole, cache = 0;
    impmem_status st = impmem_size_blocks_per_sequence(t->load.context, t->block_tokens, group->window_tokens,
                                                       t->load.tokens, &per_sequence);
    if (!st) st = impmem_mul(&whole, per_sequence, t->load.batch);
    if (!st && group->window_tokens == 0) st = impmem_div_up(&cache, t->in->prefix_cache_tokens, t->block_tokens);
    if (!st) st = impmem_add(&group->blocks_demanded, whole, cache);
    if (!st) st = impmem_align_up(&group->stride_bytes, group->block_bytes, IMPMEM__LINE_ALIGNMENT);
    if (st) return impmem__error_set(why, st, "kv", "the KV demand of window %u exceeds 64 bits", group->window_tokens);
    /* A shared pool numbers its extra references in the same 32 bits. */
    uint64_t extra = group->window_tokens == 0 ? t->in->extra_refs : 0;
    if (group->blocks_demanded > IMPMEM__MAX_BLOCKS || group->blocks_demanded + extra >= UINT32_MAX)
        return impmem__error_set(
            why, IMPMEM_ERR_BAD_VALUE, "blocks",
            "the KV demand is %llu blocks of %u tokens and %llu extra references, expected at most %u blocks",
            (unsigned long long)group->blocks_demanded, t->block_tokens, (unsigned long long)extra, IMPMEM__MAX_BLOCKS);
    group->blocks_per_sequence = (uint32_t)per_sequence;
    t->floor_blocks[g] = group->window_tokens == 0 ? promised_blocks(t, per_sequence, whole) : whole;
    return IMPMEM_OK;
}

impmem_status impmem__plan_groups(impmem__terms *terms, impmem_error *why)
{
    impmem_status st = add_layers(terms, why);
    for (uint32_t g = 0; g < terms->n_groups && !st; g++) st = demand_blocks(terms, g, why);
    return st;
}
