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
        if (layer->kind == IMPMEM_LAYER_NO_ATTENTION || layer->kind == IMPMEM_LAYER_SHARED ||
            layer->kind == IMPMEM_LAYER_CROSS)
            continue;
        if ((layer->kind == IMPMEM_LAYER_WINDOW ? layer->window_tokens : 0) != window) continue;
        if (!first) first = layer;
        if (first->kind != layer->kind || first->kv_heads != layer->kv_heads || first->k_dim != layer->k_dim ||
            first->v_dim != layer->v_dim || first->index_dim != layer->index_dim)
            return NULL;
    }
    return first;
}

void impmem__plan_text_kv(const impmem__terms *terms, const impmem_kv_group *group, impmem_line *line)
{
    char dtype[32], geometry[96], how[256];
    if (group->of_draft) copy(line->name, sizeof line->name, "KV cache of the draft");
    else if (group->window_tokens == 0) copy(line->name, sizeof line->name, "KV cache");
    else snprintf(line->name, sizeof line->name, "KV cache, window %u", group->window_tokens);
    if (terms->k == terms->v) copy(dtype, sizeof dtype, impmem_dtype_name(terms->k));
    else snprintf(dtype, sizeof dtype, "%s/%s", impmem_dtype_name(terms->k), impmem_dtype_name(terms->v));
    const impmem_layer_shape *layer = group->of_draft ? NULL : uniform_layer(terms->in->model, group->window_tokens);
    if (!layer) {
        snprintf(how, sizeof how, "%u unlike layers x %u tokens x %s = %llu B a block, %llu blocks", group->n_layers,
                 group->block_tokens, dtype, (unsigned long long)group->block_bytes, (unsigned long long)group->blocks);
        copy(line->how, sizeof line->how, how);
        return;
    }
    if (layer->kind == IMPMEM_LAYER_LATENT) snprintf(geometry, sizeof geometry, "latent of %u", layer->k_dim);
    else snprintf(geometry, sizeof geometry, "%u heads x (%u + %u)", layer->kv_heads, layer->k_dim, layer->v_dim);
    if (layer->index_dim > 0) {
        const size_t used = strlen(geometry);
        snprintf(geometry + used, sizeof geometry - used, " and an index of %u", layer->index_dim);
    }
    snprintf(how, sizeof how, "%u layers x %u tokens x %s x %s = %llu x %u B a block, %llu blocks", group->n_layers,
             group->block_tokens, geometry, dtype, (unsigned long long)(group->block_bytes / group->n_layers),
             group->n_layers, (unsigned long long)group->blocks);
    copy(line->how, sizeof line->how, how);
}

void impmem__plan_text_side(const impmem__terms *terms, const impmem_kv_side *side, uint64_t blocks, impmem_line *line)
{
    static const char *const name[] = {"beside KV", "KV scales", "KV key bounds", "KV cache of the draft"};
    const uint32_t window = terms->group[side->group].window_tokens;
    if (window == 0) copy(line->name, sizeof line->name, name[side->kind]);
    else snprintf(line->name, sizeof line->name, "%s, window %u", name[side->kind], window);
    snprintf(line->how, sizeof line->how, "%u layers, %llu B a block of %u tokens, %llu blocks", side->n_layers,
             (unsigned long long)side->block_bytes, terms->block_tokens, (unsigned long long)blocks);
}

void impmem__plan_text_state(const impmem_state_pool *pool, impmem_line *line)
{
    static const char *const name[] = {"state",
                                       "recurrent state",
                                       "recurrent state to roll back",
                                       "recurrent snapshots",
                                       "cross-attention KV",
                                       "residual ring",
                                       "recurrent state of the draft"};
    char slot[32], dtype[48] = "";
    copy(line->name, sizeof line->name, name[pool->kind]);
    if (pool->state_dtype != IMPMEM_DTYPE_DEFAULT)
        snprintf(dtype, sizeof dtype, ", convolution %s, state %s", impmem_dtype_name(pool->conv_dtype),
                 impmem_dtype_name(pool->state_dtype));
    snprintf(line->how, sizeof line->how, "%u slot%s of %s over %u layers%s", pool->slots, pool->slots == 1 ? "" : "s",
             impmem_format_mib(pool->stride_bytes, slot, sizeof slot), pool->n_layers, dtype);
}

static const char *feature_name(impmem_line_id id)
{
    switch (id) {
    case IMPMEM_LINE_HEADROOM: return "headroom";
    case IMPMEM_LINE_GRAPHS: return "captured graphs";
    case IMPMEM_LINE_COMMUNICATION: return "communication";
    case IMPMEM_LINE_VISION_WEIGHTS: return "vision weights";
    case IMPMEM_LINE_VISION_PIXELS: return "image pixels";
    case IMPMEM_LINE_VISION_EMBEDDINGS: return "image embeddings";
    case IMPMEM_LINE_VISION_SCRATCH: return "vision scratch";
    case IMPMEM_LINE_LORA: return "adapters";
    case IMPMEM_LINE_GEMM_WORKSPACE: return "GEMM workspace of the engine";
    case IMPMEM_LINE_GRAPH_SLOTS: return "graph slots";
    case IMPMEM_LINE_GRAPH_SLOTS_HOST: return "graph slots, host side";
    case IMPMEM_LINE_LOGITS: return "logits";
    case IMPMEM_LINE_PROMPT_LOGPROBS: return "prompt log-probabilities";
    case IMPMEM_LINE_ATTENTION_SCORES: return "attention scores";
    case IMPMEM_LINE_EXPERT_TABLES: return "expert tables of the engine";
    case IMPMEM_LINE_DRAFT_WEIGHTS: return "draft weights";
    case IMPMEM_LINE_VERIFY: return "draft verification";
    case IMPMEM_LINE_DRAFT_GRAPHS: return "captured draft graphs";
    default: break;
    }
    return id < IMPMEM_LINE_WEIGHT_CACHE_OPTIONAL ? "weight cache" : "weight cache, optional part";
}

/* The formula, then those of its operands that there is room for: "rows x vocab x 4: rows 8, vocab 151936". */
static void write_how(const impmem_explanation *e, char *out, size_t capacity)
{
    copy(out, capacity, e->formula);
    for (uint32_t i = 0; i < e->n_operands; i++) {
        char text[64];
        const size_t used = strlen(out);
        const int length = snprintf(text, sizeof text, "%s %s %llu", i == 0 ? ":" : ",", e->operand[i].name,
                                    (unsigned long long)e->operand[i].value);
        if (length < 0 || used + (size_t)length >= capacity) return;
        copy(out + used, capacity - used, text);
    }
}

void impmem__plan_text_item(const impmem__terms *terms, const impmem__item *item, impmem_line *line)
{
    if (item->demand) {
        impmem__plan_text_line(line, item->demand->name, item->demand->how);
        return;
    }
    impmem_explanation e;
    impmem__explain_item(terms, item, &e);
    copy(line->name, sizeof line->name, feature_name(item->id));
    write_how(&e, line->how, sizeof line->how);
}
