/* The KV groups of a model and its draft: full layers together, then one group for each distinct window, ascending; what
 * lies beside their blocks; how many blocks a load needs. */
#include "core/internal.h"
#include "plan/internal.h"

/* Bytes of one block over a group's layers, by what they are for. */
typedef struct sums {
    uint64_t target, draft, scales, bounds;
    uint32_t n_target, n_draft;
} sums;

/* Of one layer. */
typedef struct layer_bytes {
    uint64_t block, scales, bounds, elements;
} layer_bytes;

static bool has_kv(const impmem_layer_shape *layer)
{
    return layer->kind == IMPMEM_LAYER_FULL || layer->kind == IMPMEM_LAYER_LATENT || layer->kind == IMPMEM_LAYER_WINDOW;
}

static uint32_t window_of(const impmem_layer_shape *layer)
{
    return layer->kind == IMPMEM_LAYER_WINDOW ? layer->window_tokens : 0;
}

const impmem_model_shape *impmem__plan_draft(const impmem__terms *t, uint32_t *out_n_layers,
                                             const impmem_layer_shape **out_one)
{
    const impmem_plan_features *f = t->features;
    *out_n_layers = 0;
    *out_one = NULL;
    if (f->draft_tokens == 0) return NULL;
    if (f->draft) {
        *out_n_layers = f->draft->n_layers;
        return f->draft;
    }
    const impmem_model_shape *model = t->in->model;
    for (uint32_t i = model->n_layers; i-- > 0 && !*out_one;)
        if (has_kv(&model->layer[i])) *out_one = &model->layer[i];
    *out_n_layers = *out_one ? model->draft_layers : 0;
    return model;
}

/* The group of that window, made in its place when it's new; UINT32_MAX when there are too many. */
static uint32_t group_of(impmem__terms *t, uint32_t window)
{
    uint32_t at = 0;
    while (at < t->n_groups && t->group[at].window_tokens < window) at++;
    if (at < t->n_groups && t->group[at].window_tokens == window) return at;
    if (t->n_groups == IMPMEM_PLAN_MAX_KV_GROUPS) return UINT32_MAX;
    for (uint32_t i = t->n_groups; i > at; i--) t->group[i] = t->group[i - 1];
    t->n_groups++;
    t->group[at] = (impmem_kv_group){.window_tokens = window, .block_tokens = t->block_tokens};
    return at;
}

static impmem_status bad_layer(const impmem__terms *t, const impmem_layer_shape *layer, uint32_t index, impmem_status st,
                               impmem_error *why)
{
    if (st == IMPMEM_ERR_BAD_VALUE)
        return impmem__error_set(why, st, "kv_dtype",
                                 "layer %u: K of %u and V of %u elements a head can't be held as %s and %s", index,
                                 layer->k_dim, layer->v_dim, impmem_dtype_name(t->k), impmem_dtype_name(t->v));
    return impmem__error_set(why, st, "layer", "layer %u: the bytes of one KV block exceed 64 bits", index);
}

static bool alike(const impmem_layer_shape *a, const impmem_layer_shape *b)
{
    return a && a->kind == b->kind && a->kv_heads == b->kv_heads && a->k_dim == b->k_dim && a->v_dim == b->v_dim &&
           a->index_dim == b->index_dim;
}

static impmem_status size_layer(const impmem__terms *t, const impmem_layer_shape *layer, layer_bytes *out)
{
    uint64_t index = 0;
    impmem_status st = impmem_size_kv_block_layer(layer, t->k, t->v, t->block_tokens, &out->block);
    if (!st) st = impmem_size_kv_block_elements(layer, t->block_tokens, &out->elements);
    if (!st && layer->index_dim > 0) {
        st = impmem_size_index_block_layer(layer, t->features->index_dtype, t->block_tokens, &index);
        if (!st) st = impmem_add(&out->block, out->block, index);
    }
    if (!st && t->features->scales_apart)
        st = impmem_size_kv_scales_layer(layer, t->k, t->v, t->block_tokens, &out->scales);
    if (!st && t->features->key_bounds) st = impmem_size_key_bounds_layer(layer, &out->bounds);
    if (!st) out->block -= out->scales;
    return st;
}

/* Most layers are like the one before, `*last`, whose bytes are in *bytes. */
static impmem_status add_layer(impmem__terms *t, sums *s, const impmem_layer_shape *layer, uint32_t index, bool draft,
                               const impmem_layer_shape **last, layer_bytes *bytes, impmem_error *why)
{
    impmem_status st = IMPMEM_OK;
    if (!alike(*last, layer)) {
        *bytes = (layer_bytes){0, 0, 0, 0};
        st = size_layer(t, layer, bytes);
        if (st) return bad_layer(t, layer, index, st, why);
        *last = layer;
    }
    const uint32_t g = group_of(t, window_of(layer));
    t->layer_elements[g] = impmem__larger(t->layer_elements[g], bytes->elements);
    if (draft) {
        s[g].n_draft++;
        st = impmem_add(&s[g].draft, s[g].draft, bytes->block);
        /* A draft's scales stay with its blocks. */
        if (!st) st = impmem_add(&s[g].draft, s[g].draft, bytes->scales);
    } else {
        s[g].n_target++;
        st = impmem_add(&s[g].target, s[g].target, bytes->block);
        if (!st) st = impmem_add(&s[g].scales, s[g].scales, bytes->scales);
        if (!st) st = impmem_add(&s[g].bounds, s[g].bounds, bytes->bounds);
    }
    return st ? bad_layer(t, layer, index, st, why) : IMPMEM_OK;
}

/* Groups first, so that none moves while bytes are added up. */
static impmem_status find_groups(impmem__terms *t, impmem_error *why)
{
    const impmem_model_shape *model = t->in->model;
    const impmem_layer_shape *one, *last = NULL;
    uint32_t n_draft;
    const impmem_model_shape *draft = impmem__plan_draft(t, &n_draft, &one);
    for (uint32_t i = 0; i < model->n_layers + n_draft; i++) {
        const bool of_draft = i >= model->n_layers;
        const impmem_layer_shape *layer = !of_draft ? &model->layer[i] : one ? one : &draft->layer[i - model->n_layers];
        if (!has_kv(layer) || (last && window_of(last) == window_of(layer))) continue;
        last = layer;
        if (group_of(t, window_of(layer)) == UINT32_MAX)
            return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, "window_tokens",
                                     "layer %u: more than %u distinct windows in one model", i, IMPMEM_PLAN_MAX_KV_GROUPS);
    }
    return IMPMEM_OK;
}

static impmem_status add_layers(impmem__terms *t, sums *s, impmem_error *why)
{
    const impmem_model_shape *model = t->in->model;
    const impmem_layer_shape *last = NULL, *one;
    layer_bytes bytes = {0, 0, 0, 0};
    uint32_t n_draft;
    const impmem_model_shape *draft = impmem__plan_draft(t, &n_draft, &one);
    impmem_status st = IMPMEM_OK;
    for (uint32_t i = 0; i < model->n_layers && !st; i++)
        if (has_kv(&model->layer[i])) st = add_layer(t, s, &model->layer[i], i, false, &last, &bytes, why);
    for (uint32_t i = 0; i < n_draft && !st; i++) {
        const impmem_layer_shape *layer = one ? one : &draft->layer[i];
        if (has_kv(layer)) st = add_layer(t, s, layer, i, true, &last, &bytes, why);
    }
    return st;
}

static impmem_status add_side(impmem__terms *t, uint32_t g, impmem_kv_side_kind kind, uint32_t n_layers, uint64_t bytes,
                              impmem_error *why)
{
    if (bytes == 0) return IMPMEM_OK;
    if (t->n_sides == IMPMEM_PLAN_MAX_KV_SIDES)
        return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, "features", "more than %u pools beside KV blocks",
                                 IMPMEM_PLAN_MAX_KV_SIDES);
    impmem_kv_side *side = &t->side[t->n_sides++];
    side->kind = (uint32_t)kind;
    side->group = g;
    side->n_layers = n_layers;
    side->block_bytes = bytes;
    if (impmem_align_up(&side->stride_bytes, bytes, IMPMEM__LINE_ALIGNMENT))
        return impmem__error_set(why, IMPMEM_ERR_OVERFLOW, "kv", "the bytes beside one KV block exceed 64 bits");
    return IMPMEM_OK;
}

static impmem_status place_bytes(impmem__terms *t, const sums *s, impmem_error *why)
{
    impmem_status st = IMPMEM_OK;
    for (uint32_t g = 0; g < t->n_groups && !st; g++) {
        impmem_kv_group *group = &t->group[g];
        group->of_draft = s[g].n_target == 0;
        group->n_layers = group->of_draft ? s[g].n_draft : s[g].n_target;
        group->block_bytes = group->of_draft ? s[g].draft : s[g].target;
        st = add_side(t, g, IMPMEM_KV_SIDE_SCALES, s[g].n_target, s[g].scales, why);
        if (!st) st = add_side(t, g, IMPMEM_KV_SIDE_BOUNDS, s[g].n_target, s[g].bounds, why);
        if (!st && !group->of_draft) st = add_side(t, g, IMPMEM_KV_SIDE_DRAFT, s[g].n_draft, s[g].draft, why);
    }
    return st;
}

/* promised_kv_tokens in blocks: at least one sequence of the whole context, at most the whole batch's. */
static uint64_t promised_blocks(const impmem__terms *t, uint64_t per_sequence, uint64_t whole)
{
    uint64_t promised = t->in->promised_kv_tokens;
    if (promised == 0 && t->in->n_must_fit > 0) return per_sequence;
    if (promised == 0 || promised >= (uint64_t)t->load.batch * t->load.context) return whole;
    uint64_t blocks = promised / t->block_tokens + (promised % t->block_tokens != 0);
    if (blocks < per_sequence) blocks = per_sequence;
    return blocks < whole ? blocks : whole;
}

/* The most blocks of this window that any of the batches needs, at least `least`. */
static impmem_status batches_blocks(const impmem__terms *t, uint32_t window, uint64_t *least)
{
    for (uint32_t i = 0; i < t->in->n_must_fit; i++) {
        const impmem_plan_batch *b = &t->in->must_fit[i];
        uint64_t blocks;
        impmem_status st = impmem_size_blocks_per_sequence(b->tokens, t->block_tokens, window, t->load.tokens, &blocks);
        if (!st) st = impmem_mul(&blocks, blocks, b->sequences);
        if (st) return st;
        *least = impmem__larger(*least, blocks);
    }
    return IMPMEM_OK;
}

/* Where kernels count a layer's elements in few bits, the pool ends at the last block whose every element they reach. */
static impmem_status cap_blocks(impmem__terms *t, uint32_t g, impmem_error *why)
{
    const uint32_t bits = t->features->kernel_offset_bits;
    impmem_kv_group *group = &t->group[g];
    if (bits == 0 || t->layer_elements[g] == 0) return IMPMEM_OK;
    const uint64_t most = ((uint64_t)1 << bits) / t->layer_elements[g];
    if (group->blocks_demanded > most) {
        group->capped_blocks = group->blocks_demanded - most;
        group->blocks_demanded = most;
    }
    if (t->floor_blocks[g] <= most) return IMPMEM_OK;
    return impmem__error_set(
        why, IMPMEM_ERR_BAD_VALUE, "kernel_offset_bits",
        "kernels with offsets of %u bits reach %llu blocks of %llu elements a layer, the smallest load "
        "needs %llu",
        bits, (unsigned long long)most, (unsigned long long)t->layer_elements[g], (unsigned long long)t->floor_blocks[g]);
}

static impmem_status demand_blocks(impmem__terms *t, uint32_t g, impmem_error *why)
{
    impmem_kv_group *group = &t->group[g];
    const impmem_plan_features *f = t->features;
    const uint32_t window = group->window_tokens;
    const uint32_t typical = t->in->typical.tokens ? t->in->typical.tokens : t->load.context;
    uint64_t per_sequence = 0, whole = 0, cache = 0, floor;
    group->reserved_blocks = (uint64_t)f->null_blocks + f->spare_blocks + f->fenced_blocks;
    impmem_status st = impmem_size_blocks_per_sequence(t->load.context, t->block_tokens, window, t->load.tokens,
                                                       &per_sequence);
    if (!st) st = impmem_size_blocks_per_sequence(typical, t->block_tokens, window, t->load.tokens, &t->typical_blocks[g]);
    if (!st) st = impmem_mul(&whole, per_sequence, t->load.batch);
    if (!st && window == 0) st = impmem_div_up(&cache, t->in->prefix_cache_tokens, t->block_tokens);
    if (!st) st = impmem_add(&group->blocks_demanded, whole, cache);
    if (!st) st = impmem_add(&group->blocks_demanded, group->blocks_demanded, group->reserved_blocks);
    if (!st) st = impmem_align_up(&group->stride_bytes, group->block_bytes, IMPMEM__LINE_ALIGNMENT);
    if (st) return impmem__error_set(why, st, "kv", "the KV demand of window %u exceeds 64 bits", window);
    floor = window == 0 ? promised_blocks(t, per_sequence, whole) : t->in->n_must_fit ? per_sequence : whole;
    st = batches_blocks(t, window, &floor);
    if (!st) st = impmem_add(&t->floor_blocks[g], floor, group->reserved_blocks);
    if (st) return impmem__error_set(why, st, "must_fit", "the batches' blocks exceed 64 bits");
    st = cap_blocks(t, g, why);
    if (st) return st;
    /* A shared pool numbers its extra references in the same 32 bits. */
    uint64_t extra = window == 0 ? t->in->extra_refs : 0;
    if (group->blocks_demanded > IMPMEM__MAX_BLOCKS || group->blocks_demanded + extra >= UINT32_MAX)
        return impmem__error_set(
            why, IMPMEM_ERR_BAD_VALUE, "blocks",
            "the KV demand is %llu blocks of %u tokens and %llu extra references, expected at most %u blocks",
            (unsigned long long)group->blocks_demanded, t->block_tokens, (unsigned long long)extra, IMPMEM__MAX_BLOCKS);
    group->blocks_per_sequence = (uint32_t)per_sequence;
    if (window == 0) {
        /* The cache holds each block once and the whole batch each of its positions: then no share can run out. */
        const uint64_t most = UINT32_MAX - 1 - group->blocks_demanded;
        t->extra_refs = t->in->extra_refs ? t->in->extra_refs : (uint32_t)(whole < most ? whole : most);
    }
    return IMPMEM_OK;
}

impmem_status impmem__group_bytes(const impmem__terms *t, uint32_t g, uint64_t blocks, uint64_t *out)
{
    uint64_t sum, bytes;
    impmem_status st = impmem__kv_region_bytes(blocks, t->group[g].stride_bytes, t->granule_bytes, &sum);
    for (uint32_t i = 0; i < t->n_sides && !st; i++) {
        if (t->side[i].group != g) continue;
        st = impmem__kv_region_bytes(blocks, t->side[i].stride_bytes, t->granule_bytes, &bytes);
        if (!st) st = impmem_add(&sum, sum, bytes);
    }
    if (!st) *out = sum;
    return st;
}

impmem_status impmem__plan_groups(impmem__terms *terms, impmem_error *why)
{
    sums s[IMPMEM_PLAN_MAX_KV_GROUPS] = {{0, 0, 0, 0, 0, 0}};
    impmem_status st = find_groups(terms, why);
    if (!st) st = add_layers(terms, s, why);
    if (!st) st = place_bytes(terms, s, why);
    for (uint32_t g = 0; g < terms->n_groups && !st; g++) st = demand_blocks(terms, g, why);
    return st;
}
