/* Names and formulas of plan lines, in an operator's words. */
#include <stdio.h>
#include <string.h>

#include "plan/internal.h"

static void copy(char *out, size_t capacity, const char *text)
{
    size_t n = strlen(text);
    if (n >= capacity) n = capacity - 1;
    memcpy(out, text, n);
    out[n] = 0;
}

void impmem__plan_text_line(impmem_line *line, const char *name, const char *how)
{
    copy(line->name, sizeof line->name, name);
    copy(line->how, sizeof line->how, how);
}

void impmem__plan_text_weights(const impmem_model_shape *model, impmem_line *line)
{
    const char *from = "given by the caller";
    if (model->weight_source == IMPMEM_SOURCE_READ) from = "read from the model's files";
    if (model->weight_source == IMPMEM_SOURCE_ESTIMATED) from = "from geometry and dtype";
    copy(line->name, sizeof line->name, "weights");
    if (model->n_tensors > 0)
        snprintf(line->how, sizeof line->how, "%llu tensors, %s", (unsigned long long)model->n_tensors, from);
    else copy(line->how, sizeof line->how, from);
}

/* The layer that every layer of the group is like, or NULL when they differ. */
static const impmem_layer_shape *uniform_layer(const impmem_model_shape *model, uint32_t window)
{
    const impmem_layer_shape *first = NULL;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        const impmem_layer_shape *layer = &model->layer[i];
        if (layer->kind == IMPMEM_LAYER_NO_ATTENTION || layer->kind == IMPMEM_LAYER_SHARED) continue;
        if ((layer->kind == IMPMEM_LAYER_WINDOW ? layer->window_tokens : 0) != window) continue;
        if (!first) first = layer;
        if (first->kind != layer->kind || first->kv_heads != layer->kv_heads || first->k_dim != layer->k_dim ||
            first->v_dim != layer->v_dim)
            return NULL;
    }
    return first;
}

void impmem__plan_text_kv(const impmem__terms *terms, const impmem_kv_group *group, impmem_line *line)
{
    char dtype[32], geometry[64], how[256];
    if (group->window_tokens == 0) copy(line->name, sizeof line->name, "KV cache");
    else snprintf(line->name, sizeof line->name, "KV cache, window %u", group->window_tokens);
    if (terms->k == terms->v) copy(dtype, sizeof dtype, impmem_dtype_name(terms->k));
    else snprintf(dtype, sizeof dtype, "%s/%s", impmem_dtype_name(terms->k), impmem_dtype_name(terms->v));
    const impmem_layer_shape *layer = uniform_layer(terms->in->model, group->window_tokens);
    if (!layer) {
        snprintf(how, sizeof how, "%u unlike layers x %u tokens x %s = %llu B a block, %llu blocks", group->n_layers,
                 group->block_tokens, dtype, (unsigned long long)group->block_bytes, (unsigned long long)group->blocks);
        copy(line->how, sizeof line->how, how);
        return;
    }
    if (layer->kind == IMPMEM_LAYER_LATENT) snprintf(geometry, sizeof geometry, "latent of %u", layer->k_dim);
    else snprintf(geometry, sizeof geometry, "%u heads x (%u + %u)", layer->kv_heads, layer->k_dim, layer->v_dim);
    snprintf(how, sizeof how, "%u layers x %u tokens x %s x %s = %llu x %u B a block, %llu blocks", group->n_layers,
             group->block_tokens, geometry, dtype, (unsigned long long)(group->block_bytes / group->n_layers),
             group->n_layers, (unsigned long long)group->blocks);
    copy(line->how, sizeof line->how, how);
}
