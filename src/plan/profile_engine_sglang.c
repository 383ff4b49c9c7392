/* profile_engine_sglang.c - SGLang: one slot a token, a K pool and a V pool that hold every layer of every slot. */
#include "plan/profile_engine.h"

void impmem__profile_sglang(impmem__profiling *p)
{
    const impmem_engine_profile_args *a = &p->args;
    uint64_t element = impmem__profile_element_bytes(a->kv_dtype_k), k = 0, v = 0;
    uint32_t layers = 0, heads = 0;
    for (uint32_t i = 0; i < p->shape->n_layers && !p->status; i++) {
        const impmem_layer_shape *layer = &p->shape->layer[i];
        if (layer->kind == IMPMEM_LAYER_NO_ATTENTION || layer->kind == IMPMEM_LAYER_SHARED) continue;
        heads = impmem__profile_rank_heads(p, i);
        uint64_t unit = impmem__profile_mul(p, heads, element);
        k = impmem__profile_add(p, k, impmem__profile_mul(p, unit, layer->k_dim));
        v = impmem__profile_add(p, v, impmem__profile_mul(p, unit, layer->v_dim));
        layers++;
    }
    uint64_t token = impmem__profile_add(p, k, v);
    if (p->status) return;
    if (token == 0) {
        impmem__profile_fail(p, IMPMEM_ERR_UNSUPPORTED, "layers",
                             "no layer keeps KV, expected one: no rule of sglang is known for it");
        return;
    }
    uint64_t slots = a->pool_units ? a->pool_units : a->pool_bytes ? a->pool_bytes / token : a->n_ctx;
    impmem__profile_line(p, "token_bytes", IMPMEM_ENGINE_UNIT_BYTES, layers, token, "%u layers, %u KV heads a rank, %s",
                         layers, heads, impmem_dtype_name(a->kv_dtype_k));
    impmem__profile_line(p, "kv_max_tokens", IMPMEM_ENGINE_UNIT_TOKENS, 0, slots, "%s",
                         a->pool_units   ? "as told"
                         : a->pool_bytes ? "pool / bytes of a token"
                                         : "n_ctx: no pool was told");
    impmem__profile_line(p, "kv_total", IMPMEM_ENGINE_UNIT_BYTES, layers, impmem__profile_mul(p, slots, token),
                         "%llu slots x %llu B", (unsigned long long)slots, (unsigned long long)token);
    impmem__profile_line(p, "kv_k", IMPMEM_ENGINE_UNIT_BYTES, layers, impmem__profile_mul(p, slots, k),
                         "%llu slots x %llu B", (unsigned long long)slots, (unsigned long long)k);
    if (v)
        impmem__profile_line(p, "kv_v", IMPMEM_ENGINE_UNIT_BYTES, layers, impmem__profile_mul(p, slots, v),
                             "%llu slots x %llu B", (unsigned long long)slots, (unsigned long long)v);
}
