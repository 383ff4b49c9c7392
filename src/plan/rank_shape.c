/* The part of a model that one device of several holds. */
#include "core/internal.h"
#include "plan/ranks.h"

static impmem_status bad(impmem_error *why, const char *field, uint64_t found, const char *expected)
{
    return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, field, "layout: %s is %llu, expected %s", field,
                             (unsigned long long)found, expected);
}

static uint64_t share(uint64_t whole, uint64_t parts)
{
    return whole / parts + (whole % parts != 0);
}

static uint32_t share32(uint32_t whole, uint32_t parts)
{
    return whole / parts + (whole % parts != 0);
}

static impmem_status check_stages(const impmem_model_shape *shape, const impmem_layout *layout, uint32_t pp,
                                  impmem_error *why)
{
    uint64_t sum = 0;
    if (pp > shape->n_layers) return bad(why, "pp", pp, "at most one stage a layer");
    if (!layout->stage_layers) return IMPMEM_OK;
    for (uint32_t s = 0; s < pp; s++) {
        if (layout->stage_layers[s] == 0) return bad(why, "stage_layers", 0, "at least one layer a stage");
        sum += layout->stage_layers[s];
    }
    return sum == shape->n_layers ? IMPMEM_OK : bad(why, "stage_layers", sum, "stages that add up to the model's layers");
}

impmem_status impmem__grid_of(const impmem_model_shape *shape, const impmem_layout *layout, impmem__grid *out,
                              impmem_error *why)
{
    if (!layout) return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "layout", "the layout is NULL");
    impmem_status st = impmem__options_check(layout->size, layout->version, sizeof *layout, 1);
    if (st)
        return impmem__error_set(why, st, "layout",
                                 "layout of %u bytes, version %u: this library knows %zu bytes, version 1", layout->size,
                                 layout->version, sizeof *layout);
    st = impmem_shape_check(shape, why);
    if (st) return st;
    /* Shares are rounded up: half of the range is room enough for that. */
    if (shape->weight_bytes > INT64_MAX || shape->vision_weight_bytes > INT64_MAX)
        return impmem__error_set(why, IMPMEM_ERR_OVERFLOW, "weight_bytes", "the weights' shares exceed 63 bits");
    impmem__grid g = {layout->tp ? layout->tp : 1, layout->pp ? layout->pp : 1, layout->ep ? layout->ep : 1};
    if ((uint64_t)g.tp * g.pp > IMPMEM_MAX_RANKS) return bad(why, "tp x pp", (uint64_t)g.tp * g.pp, "at most 64 ranks");
    if (g.tp % g.ep) return bad(why, "ep", g.ep, "a divisor of tp");
    if (g.ep > 1 && (shape->n_experts == 0 || layout->expert_bytes == 0))
        return bad(why, "expert_bytes", layout->expert_bytes, "the bytes of a model's routed experts where ep splits them");
    if (g.ep > shape->n_experts && g.ep > 1) return bad(why, "ep", g.ep, "at most one rank an expert");
    if (shape->n_heads % g.tp)
        return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, "tp",
                                 "layout: tp is %u, expected a divisor of the %u query heads", g.tp, shape->n_heads);
    for (uint32_t i = 0; i < shape->n_layers; i++) {
        const impmem_layer_shape *layer = &shape->layer[i];
        if (layer->kind == IMPMEM_LAYER_NO_ATTENTION || layer->kind == IMPMEM_LAYER_SHARED ||
            layer->kind == IMPMEM_LAYER_LATENT)
            continue;
        if (layer->kv_heads % g.tp && g.tp % layer->kv_heads)
            return bad(why, "tp", g.tp, "a divisor or a multiple of every layer's KV heads");
    }
    st = check_stages(shape, layout, g.pp, why);
    if (!st) *out = g;
    return st;
}

void impmem__stage_layers(const impmem_model_shape *shape, const impmem_layout *layout, const impmem__grid *grid,
                          uint32_t stage, uint32_t *out_first, uint32_t *out_n)
{
    uint32_t first = 0, n = 0;
    for (uint32_t s = 0; s <= stage; s++) {
        first += n;
        n = layout->stage_layers ? layout->stage_layers[s] : shape->n_layers / grid->pp + (s < shape->n_layers % grid->pp);
    }
    *out_first = first;
    *out_n = n;
}

static impmem_status take_layers(const impmem_model_shape *shape, const impmem__grid *g, uint32_t first, uint32_t n,
                                 impmem_model_shape *out, impmem_error *why)
{
    out->n_layers = n;
    for (uint32_t i = 0; i < n; i++) {
        impmem_layer_shape *layer = &out->layer[i];
        *layer = shape->layer[first + i];
        if (layer->kind == IMPMEM_LAYER_SHARED) {
            if (layer->shared_with < first)
                return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, "stage_layers",
                                         "layout: layer %u uses the KV of layer %u, which is in an earlier stage",
                                         first + i, layer->shared_with);
            layer->shared_with -= first;
        } else if (layer->kind != IMPMEM_LAYER_LATENT && layer->kv_heads > 0) {
            layer->kv_heads = layer->kv_heads > g->tp ? layer->kv_heads / g->tp : 1;
        }
        layer->conv_channels = share32(layer->conv_channels, g->tp);
        layer->state_elements = share(layer->state_elements, g->tp);
        layer->state_inner = share32(layer->state_inner, g->tp);
        layer->state_heads = share32(layer->state_heads, g->tp);
    }
    for (uint32_t i = n; i < IMPMEM_MAX_LAYERS; i++) out->layer[i] = (impmem_layer_shape)IMPMEM_LAYER_SHAPE_INIT;
    return IMPMEM_OK;
}

/* Of the layers' weights, what the stage holds before it is split. Without figures for each layer all weigh the same. */
static impmem_status stage_weights(const impmem_model_shape *shape, const impmem_layout *layout, uint32_t first, uint32_t n,
                                   uint64_t body, uint64_t *out, impmem_error *why)
{
    uint64_t sum = 0, all = 0;
    if (!layout->layer_weight_bytes) {
        /* body x n / n_layers without a product beyond 64 bits */
        sum = body / shape->n_layers * n + share(body % shape->n_layers * n, shape->n_layers);
    }
    for (uint32_t i = 0; layout->layer_weight_bytes && i < shape->n_layers; i++) {
        if (impmem_add(&all, all, layout->layer_weight_bytes[i])) all = UINT64_MAX;
        if (i >= first && i < first + n) sum += layout->layer_weight_bytes[i];
        if (all > body) return bad(why, "layer_weight_bytes", all, "no more than weight_bytes without embedding and head");
    }
    *out = sum;
    return IMPMEM_OK;
}

/* Experts' bytes of the stage: whole experts over ep ranks, each split over the ranks that share it. */
static uint64_t split_experts(const impmem_model_shape *shape, const impmem__grid *g, uint64_t bytes)
{
    const uint64_t per_expert = share(bytes, shape->n_experts);
    return share(per_expert * share(shape->n_experts, g->ep), g->tp / g->ep);
}

static impmem_status take_weights(const impmem_model_shape *shape, const impmem_layout *layout, const impmem__grid *g,
                                  uint32_t stage, uint32_t first, uint32_t n, impmem_model_shape *out, impmem_error *why)
{
    const bool is_first = stage == 0, is_last = stage + 1 == g->pp;
    const uint64_t vision = shape->vision_apart ? 0 : shape->vision_weight_bytes;
    uint64_t body = shape->weight_bytes, sum = 0;
    if (impmem_sub(&body, body, shape->embedding_bytes) || impmem_sub(&body, body, shape->output_bytes) ||
        impmem_sub(&body, body, vision))
        return bad(why, "weight_bytes", shape->weight_bytes, "at least embedding, head and vision tower");
    if (layout->expert_bytes > body) return bad(why, "expert_bytes", layout->expert_bytes, "a part of the layers' weights");
    impmem_status st = stage_weights(shape, layout, first, n, body, &sum, why);
    if (st) return st;
    if (g->ep > 1) {
        uint64_t experts = layout->expert_bytes / shape->n_layers * n +
                           share(layout->expert_bytes % shape->n_layers * n, shape->n_layers);
        if (experts > sum) experts = sum;
        sum = share(sum - experts, g->tp) + split_experts(shape, g, experts);
    } else {
        sum = share(sum, g->tp);
    }
    out->embedding_bytes = is_first || (is_last && shape->tied_embeddings) ? share(shape->embedding_bytes, g->tp) : 0;
    out->output_bytes = is_last ? share(shape->output_bytes, g->tp) : 0;
    out->vision_weight_bytes = !is_first                ? 0
                               : layout->vision_sharded ? share(shape->vision_weight_bytes, g->tp)
                                                        : shape->vision_weight_bytes;
    st = impmem_add(&sum, sum, out->embedding_bytes);
    if (!st) st = impmem_add(&sum, sum, out->output_bytes);
    if (!st && !shape->vision_apart) st = impmem_add(&sum, sum, out->vision_weight_bytes);
    if (st) return impmem__error_set(why, st, "weight_bytes", "the rank's weights exceed 64 bits");
    out->weight_bytes = sum;
    if (g->tp > 1 || g->pp > 1) out->weight_source = IMPMEM_SOURCE_ESTIMATED;
    return IMPMEM_OK;
}

impmem_status impmem_rank_shape(const impmem_model_shape *shape, const impmem_layout *layout, uint32_t rank,
                                impmem_model_shape *out, impmem_error *why)
{
    impmem__grid g = {1, 1, 1};
    if (!out) return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "out", "the shape to write is NULL");
    impmem_status st = impmem__grid_of(shape, layout, &g, why);
    if (st) return st;
    if (rank >= g.tp * g.pp) return bad(why, "rank", rank, "less than tp x pp");
    const uint32_t stage = rank / g.tp;
    const bool is_first = stage == 0, is_last = stage + 1 == g.pp;
    uint32_t first, n;
    impmem__stage_layers(shape, layout, &g, stage, &first, &n);
    impmem_model_shape part = *shape;
    st = take_layers(shape, &g, first, n, &part, why);
    if (!st) st = take_weights(shape, layout, &g, stage, first, n, &part, why);
    if (st) return st;
    part.n_heads = shape->n_heads / g.tp;
    part.feed_forward = share32(shape->feed_forward, g.tp);
    part.n_experts = share32(shape->n_experts, g.ep);
    if (part.experts_per_token > part.n_experts) part.experts_per_token = part.n_experts;
    part.expert_feed_forward = share32(shape->expert_feed_forward, g.tp / g.ep);
    part.largest_weight_elements = share(shape->largest_weight_elements, g.tp);
    part.vocab = is_last ? share32(shape->vocab, g.tp) : 0;
    if (!is_last) part.draft_layers = 0;
    if (!is_first) part.vision_tokens = part.vision_patches = part.vision_image_size = part.vision_layers = 0;
    *out = part;
    return IMPMEM_OK;
}
