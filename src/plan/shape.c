/* Model shapes: the uniform helper and the check that refuses contradictions. */
#include "impmem/shape.h"

#include <stdio.h>
#include <string.h>

#include "core/internal.h"

impmem_status impmem_shape_uniform_attention(impmem_model_shape *shape, uint32_t n_layers, uint32_t kv_heads,
                                             uint32_t k_dim, uint32_t v_dim)
{
    if (!shape) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (n_layers == 0 || n_layers > IMPMEM_MAX_LAYERS) return IMPMEM_ERR_BAD_VALUE;
    shape->n_layers = n_layers;
    for (uint32_t i = 0; i < n_layers; i++)
        shape->layer[i] = (impmem_layer_shape){
            .kind = IMPMEM_LAYER_FULL, .kv_heads = kv_heads, .k_dim = k_dim, .v_dim = v_dim};
    return IMPMEM_OK;
}

static impmem_status bad_layer(impmem_error *why, uint32_t layer, const char *field, uint32_t found, const char *expected)
{
    char subject[64];
    snprintf(subject, sizeof subject, "layer[%u].%s", layer, field);
    return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, subject, "layer %u: %s is %u, expected %s", layer, field, found,
                             expected);
}

static impmem_status check_recurrent(const impmem_layer_shape *layer, uint32_t i, impmem_error *why)
{
    if (layer->recurrent == IMPMEM_RECURRENT_NONE) return IMPMEM_OK;
    if (layer->recurrent > IMPMEM_RECURRENT_SHORT_CONV)
        return bad_layer(why, i, "recurrent", layer->recurrent, "an impmem_recurrent_kind, 0 to 4");
    if (layer->conv_kernel == 0) return bad_layer(why, i, "conv_kernel", 0, "at least 1");
    if (layer->conv_channels == 0) return bad_layer(why, i, "conv_channels", 0, "at least 1");
    if (layer->recurrent != IMPMEM_RECURRENT_SHORT_CONV && layer->state_elements == 0)
        return bad_layer(why, i, "state_elements", 0, "at least 1");
    return IMPMEM_OK;
}

static impmem_status check_layer(const impmem_model_shape *shape, uint32_t i, impmem_error *why)
{
    const impmem_layer_shape *layer = &shape->layer[i];
    impmem_status st = check_recurrent(layer, i, why);
    if (st) return st;
    switch (layer->kind) {
    case IMPMEM_LAYER_NO_ATTENTION: return IMPMEM_OK;
    case IMPMEM_LAYER_SHARED:
        if (layer->shared_with >= i) return bad_layer(why, i, "shared_with", layer->shared_with, "an earlier layer");
        if (shape->layer[layer->shared_with].kind == IMPMEM_LAYER_SHARED)
            return bad_layer(why, i, "shared_with", layer->shared_with, "a layer that is not itself shared");
        if (shape->layer[layer->shared_with].kind == IMPMEM_LAYER_NO_ATTENTION)
            return bad_layer(why, i, "shared_with", layer->shared_with, "a layer with KV of its own");
        return IMPMEM_OK;
    case IMPMEM_LAYER_FULL:
    case IMPMEM_LAYER_WINDOW:
    case IMPMEM_LAYER_LATENT:
    case IMPMEM_LAYER_CROSS: break;
    default: return bad_layer(why, i, "kind", layer->kind, "an impmem_layer_kind, 0 to 5");
    }
    if (layer->kv_heads == 0) return bad_layer(why, i, "kv_heads", 0, "at least 1");
    if (layer->k_dim == 0) return bad_layer(why, i, "k_dim", 0, "at least 1");
    if (layer->kind == IMPMEM_LAYER_LATENT && layer->kv_heads != 1)
        return bad_layer(why, i, "kv_heads", layer->kv_heads, "1: a latent layer stores one vector a token");
    if (layer->kind == IMPMEM_LAYER_LATENT && layer->v_dim != 0)
        return bad_layer(why, i, "v_dim", layer->v_dim, "0: a latent layer stores no V");
    if (layer->kind == IMPMEM_LAYER_WINDOW && layer->window_tokens == 0)
        return bad_layer(why, i, "window_tokens", 0, "at least 1");
    if (layer->kind == IMPMEM_LAYER_CROSS && layer->cross_tokens == 0)
        return bad_layer(why, i, "cross_tokens", 0, "at least 1");
    if (layer->kind == IMPMEM_LAYER_CROSS && layer->index_dim > 0)
        return bad_layer(why, i, "index_dim", layer->index_dim, "0: cross-attention keeps no tokens of the context");
    return IMPMEM_OK;
}

impmem_status impmem_shape_check(const impmem_model_shape *shape, impmem_error *why)
{
    if (!shape) return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "model", "the model shape is NULL");
    impmem_status st = impmem__options_check(shape->size, shape->version, sizeof *shape, 1);
    if (st)
        return impmem__error_set(why, st, "model",
                                 "model shape of %u bytes, version %u: this library knows %zu bytes, version 1",
                                 shape->size, shape->version, sizeof *shape);
    if (!memchr(shape->name, 0, sizeof shape->name))
        return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, "name", "the model's name is not terminated");
    if (!memchr(shape->architecture, 0, sizeof shape->architecture))
        return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, "architecture", "the architecture's name is not terminated");
    if (shape->n_layers == 0 || shape->n_layers > IMPMEM_MAX_LAYERS)
        return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, "n_layers", "n_layers is %u, expected 1 to %u", shape->n_layers,
                                 IMPMEM_MAX_LAYERS);
    if (shape->n_experts > 0 && shape->experts_per_token > shape->n_experts)
        return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, "experts_per_token",
                                 "experts_per_token is %u, expected at most n_experts, %u", shape->experts_per_token,
                                 shape->n_experts);
    if (shape->draft_layers > IMPMEM_MAX_LAYERS)
        return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, "draft_layers", "draft_layers is %u, expected at most %u",
                                 shape->draft_layers, IMPMEM_MAX_LAYERS);
    for (uint32_t i = 0; i < shape->n_layers; i++) {
        st = check_layer(shape, i, why);
        if (st) return st;
    }
    return IMPMEM_OK;
}
