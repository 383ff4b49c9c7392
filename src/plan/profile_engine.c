/* profile_engine.c - the front of the engine profiles: names, defaults, what each engine's arguments may be. */
#include "plan/profile_engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/internal.h"

static const char *const kind_names[] = {
#define NAME(name, value, text) [value] = text,
    IMPMEM_ENGINE_KIND_MAP(NAME)
#undef NAME
};
enum { N_KINDS = sizeof kind_names / sizeof kind_names[0] };

const char *impmem_engine_kind_name(impmem_engine_kind kind)
{
    uint32_t index = (uint32_t)kind;
    return index < N_KINDS && kind_names[index] ? kind_names[index] : "?";
}

impmem_status impmem_engine_kind_parse(const char *text, impmem_engine_kind *out)
{
    if (!text || !out) return IMPMEM_ERR_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < N_KINDS; i++) {
        if (!kind_names[i] || strcmp(text, kind_names[i]) != 0) continue;
        *out = (impmem_engine_kind)i;
        return IMPMEM_OK;
    }
    return IMPMEM_ERR_BAD_VALUE;
}

const char *impmem_engine_unit_name(impmem_engine_unit unit)
{
    switch (unit) {
    case IMPMEM_ENGINE_UNIT_BYTES: return "bytes";
    case IMPMEM_ENGINE_UNIT_TOKENS: return "tokens";
    case IMPMEM_ENGINE_UNIT_CELLS: return "cells";
    case IMPMEM_ENGINE_UNIT_BLOCKS: return "blocks";
    case IMPMEM_ENGINE_UNIT_MILLIONTHS: return "ratio";
    case IMPMEM_ENGINE_UNIT_COUNT: return "count";
    }
    return "?";
}

const impmem_engine_profile_line *impmem_engine_profile_find(const impmem_engine_profile *profile, const char *name)
{
    if (!profile || !name) return NULL;
    for (uint32_t i = 0; i < profile->n_lines && i < IMPMEM_ENGINE_PROFILE_MAX_LINES; i++)
        if (strcmp(profile->line[i].name, name) == 0) return &profile->line[i];
    return NULL;
}

/* ---- what the engines' files build with ----------------------------------------------------------------------------- */

static void fail_va(impmem__profiling *p, impmem_status status, const char *subject, const char *fmt, va_list arguments)
{
    if (p->status) return;
    char message[256];
    (void)vsnprintf(message, sizeof message, fmt, arguments);
    p->status = impmem__error_set(p->why, status, subject, "%s", message);
}

void impmem__profile_fail(impmem__profiling *p, impmem_status status, const char *subject, const char *fmt, ...)
{
    va_list arguments;
    va_start(arguments, fmt);
    fail_va(p, status, subject, fmt, arguments);
    va_end(arguments);
}

void impmem__profile_fail_layer(impmem__profiling *p, impmem_status status, uint32_t layer, const char *fmt, ...)
{
    char subject[32];
    (void)snprintf(subject, sizeof subject, "layer[%u]", layer);
    va_list arguments;
    va_start(arguments, fmt);
    fail_va(p, status, subject, fmt, arguments);
    va_end(arguments);
}

static uint64_t checked(impmem__profiling *p, impmem_status status, uint64_t value)
{
    if (status) impmem__profile_fail(p, IMPMEM_ERR_OVERFLOW, "args", "the predicted bytes exceed 64 bits");
    return p->status ? 0 : value;
}

uint64_t impmem__profile_mul(impmem__profiling *p, uint64_t a, uint64_t b)
{
    uint64_t value = 0;
    impmem_status st = impmem_mul(&value, a, b);
    return checked(p, st, value);
}

uint64_t impmem__profile_add(impmem__profiling *p, uint64_t a, uint64_t b)
{
    uint64_t value = 0;
    impmem_status st = impmem_add(&value, a, b);
    return checked(p, st, value);
}

uint64_t impmem__profile_align(impmem__profiling *p, uint64_t a, uint64_t unit)
{
    uint64_t value = 0;
    impmem_status st = impmem_align_up(&value, a, unit);
    return checked(p, st, value);
}

void impmem__profile_line(impmem__profiling *p, const char *name, impmem_engine_unit unit, uint32_t layers, uint64_t value,
                          const char *how, ...)
{
    if (p->status || p->out->n_lines == IMPMEM_ENGINE_PROFILE_MAX_LINES) return;
    impmem_engine_profile_line *line = &p->out->line[p->out->n_lines++];
    (void)snprintf(line->name, sizeof line->name, "%s", name);
    line->unit = unit;
    line->layers = layers;
    line->value = value;
    va_list arguments;
    va_start(arguments, how);
    (void)vsnprintf(line->how, sizeof line->how, how, arguments);
    va_end(arguments);
}

uint32_t impmem__profile_element_bytes(impmem_dtype dtype)
{
    uint64_t bytes = 0;
    return impmem_dtype_row_bytes(dtype, 1, &bytes) ? 0 : (uint32_t)bytes;
}

uint32_t impmem__profile_rank_heads(impmem__profiling *p, uint32_t layer)
{
    uint32_t heads = p->shape->layer[layer].kv_heads, tp = p->args.tp;
    if (p->shape->layer[layer].kind == IMPMEM_LAYER_LATENT) return 1;
    if (heads % tp != 0 && tp % heads != 0) {
        impmem__profile_fail(p, IMPMEM_ERR_BAD_VALUE, "tp",
                             "tp is %u, expected a divisor or a multiple of the %u KV heads of layer %u", tp, heads, layer);
    }
    return heads > tp ? heads / tp : 1;
}

/* ---- arguments -------------------------------------------------------------------------------------------------------- */

static bool is_llama(impmem_engine_kind kind)
{
    return kind == IMPMEM_ENGINE_LLAMA_CPP || kind == IMPMEM_ENGINE_IK_LLAMA_CPP;
}

static bool type_is_known(impmem_engine_kind kind, impmem_dtype dtype)
{
    switch (dtype) {
    case IMPMEM_DTYPE_DEFAULT:
    case IMPMEM_DTYPE_F16:
    case IMPMEM_DTYPE_BF16: return true;
    case IMPMEM_DTYPE_F32: return kind != IMPMEM_ENGINE_SGLANG;
    case IMPMEM_DTYPE_FP8_E4M3:
    case IMPMEM_DTYPE_FP8_E5M2: return !is_llama(kind);
    case IMPMEM_DTYPE_INT8: return kind == IMPMEM_ENGINE_VLLM;
    case IMPMEM_DTYPE_Q8_0:
    case IMPMEM_DTYPE_Q5_1:
    case IMPMEM_DTYPE_Q5_0:
    case IMPMEM_DTYPE_Q4_1:
    case IMPMEM_DTYPE_Q4_0:
    case IMPMEM_DTYPE_IQ4_NL: return is_llama(kind);
    case IMPMEM_DTYPE_INT4:
    case IMPMEM_DTYPE_NVFP4:
    case IMPMEM_DTYPE_MXFP4:
    case IMPMEM_N_DTYPES: break;
    }
    return false;
}

static void check_types(impmem__profiling *p)
{
    impmem_engine_profile_args *a = &p->args;
    const char *engine = impmem_engine_kind_name(p->kind);
    if (!type_is_known(p->kind, a->kv_dtype_k))
        impmem__profile_fail(p, IMPMEM_ERR_BAD_VALUE, "type_k", "type_k is %s, expected a cache type of %s",
                             impmem_dtype_name(a->kv_dtype_k), engine);
    if (!type_is_known(p->kind, a->kv_dtype_v))
        impmem__profile_fail(p, IMPMEM_ERR_BAD_VALUE, "type_v", "type_v is %s, expected a cache type of %s",
                             impmem_dtype_name(a->kv_dtype_v), engine);
    if (a->kv_dtype_k == IMPMEM_DTYPE_DEFAULT) a->kv_dtype_k = IMPMEM_DTYPE_F16;
    if (a->kv_dtype_v == IMPMEM_DTYPE_DEFAULT) a->kv_dtype_v = is_llama(p->kind) ? IMPMEM_DTYPE_F16 : a->kv_dtype_k;
    if (!is_llama(p->kind) && a->kv_dtype_v != a->kv_dtype_k)
        impmem__profile_fail(p, IMPMEM_ERR_BAD_VALUE, "type_v",
                             "type_v is %s beside %s for K, expected one type: %s has no other",
                             impmem_dtype_name(a->kv_dtype_v), impmem_dtype_name(a->kv_dtype_k), engine);
}

static void check_flag(impmem__profiling *p, const char *name, uint32_t value)
{
    if (value > 1) impmem__profile_fail(p, IMPMEM_ERR_BAD_VALUE, name, "%s is %u, expected 0 or 1", name, value);
}

/* What another engine has must be 0. */
static void check_foreign(impmem__profiling *p, bool theirs, const char *name, uint64_t value)
{
    if (!theirs && value != 0)
        impmem__profile_fail(p, IMPMEM_ERR_BAD_VALUE, name, "%s is set, expected 0: %s has no such option", name,
                             impmem_engine_kind_name(p->kind));
}

static void check_split(impmem__profiling *p)
{
    impmem_engine_profile_args *a = &p->args;
    if (a->n_devices > IMPMEM_ENGINE_PROFILE_MAX_DEVICES) {
        impmem__profile_fail(p, IMPMEM_ERR_BAD_VALUE, "split", "split over %u devices, expected at most %u", a->n_devices,
                             IMPMEM_ENGINE_PROFILE_MAX_DEVICES);
        return;
    }
    uint64_t sum = 0;
    for (uint32_t i = 0; i < IMPMEM_ENGINE_PROFILE_MAX_DEVICES; i++) {
        if (i >= a->n_devices && a->split[i] != 0)
            impmem__profile_fail(p, IMPMEM_ERR_BAD_VALUE, "split",
                                 "split[%u] is set, expected as many weights as devices, %u", i, a->n_devices);
        sum = impmem__profile_add(p, sum, a->split[i]);
    }
    /* Cumulated weights are multiplied by up to IMPMEM_MAX_LAYERS + 1. */
    if (sum > UINT64_MAX / (IMPMEM_MAX_LAYERS + 1))
        impmem__profile_fail(p, IMPMEM_ERR_BAD_VALUE, "split", "the weights of split add up to %llu, expected less",
                             (unsigned long long)sum);
    for (uint32_t i = 0; i < a->n_devices && sum == 0; i++) a->split[i] = 1;
}

static void fill_defaults(impmem__profiling *p)
{
    impmem_engine_profile_args *a = &p->args;
    bool llama = is_llama(p->kind), vllm = p->kind == IMPMEM_ENGINE_VLLM;
    check_foreign(p, llama, "n_ubatch", a->n_ubatch);
    check_foreign(p, llama, "n_seq", a->n_seq);
    check_foreign(p, llama, "mla", a->mla_expanded);
    check_foreign(p, llama, "flash_attn", a->no_flash_attn);
    check_foreign(p, llama, "swa_full", a->swa_full);
    check_foreign(p, llama, "cuda", a->quantised_padding);
    check_foreign(p, llama, "split", a->n_devices);
    check_foreign(p, !llama, "tp", a->tp);
    check_foreign(p, !llama, "pool", a->pool_bytes);
    check_foreign(p, !llama, vllm ? "blocks" : "tokens", a->pool_units);
    check_foreign(p, vllm, "block_size", a->block_tokens);
    check_foreign(p, vllm, "max_num_batched_tokens", a->prefill_tokens);
    check_foreign(p, vllm, "capacity", a->capacity_by_group);
    check_foreign(p, vllm, "swap", a->swap_bytes);
    check_foreign(p, p->kind != IMPMEM_ENGINE_SGLANG, "draft", a->draft_tokens);
    check_flag(p, "mla", a->mla_expanded);
    check_flag(p, "flash_attn", a->no_flash_attn);
    check_flag(p, "swa_full", a->swa_full);
    check_flag(p, "cuda", a->quantised_padding);
    check_flag(p, "capacity", a->capacity_by_group);
    check_types(p);
    check_split(p);
    if (a->pool_bytes && a->pool_units)
        impmem__profile_fail(p, IMPMEM_ERR_BAD_VALUE, "pool", "the pool is told twice, expected its bytes or its %s",
                             vllm ? "blocks" : "tokens");
    if (!a->n_ctx) a->n_ctx = p->shape->trained_context;
    if (!a->n_ctx)
        impmem__profile_fail(p, IMPMEM_ERR_BAD_VALUE, "n_ctx",
                             "n_ctx is 0, expected it: the model doesn't tell its trained context");
    if (!a->n_ubatch) a->n_ubatch = 512;
    if (!a->n_seq) a->n_seq = 1;
    if (!a->tp) a->tp = 1;
    if (!a->block_tokens) a->block_tokens = 16;
    if (!a->prefill_tokens) a->prefill_tokens = 2048;
    if (a->block_tokens % 16 != 0)
        impmem__profile_fail(p, IMPMEM_ERR_BAD_VALUE, "block_size", "block_size is %u, expected a multiple of 16",
                             a->block_tokens);
}

/* Layers whose memory no known rule of the engine covers. */
static void check_layers(impmem__profiling *p)
{
    const char *engine = impmem_engine_kind_name(p->kind);
    for (uint32_t i = 0; i < p->shape->n_layers && !p->status; i++) {
        const impmem_layer_shape *layer = &p->shape->layer[i];
        if (layer->kind == IMPMEM_LAYER_CROSS)
            impmem__profile_fail_layer(p, IMPMEM_ERR_UNSUPPORTED, i,
                                       "layer %u is cross-attention, expected none: no rule of %s is known", i, engine);
        if (layer->index_dim > 0 && layer->kind != IMPMEM_LAYER_NO_ATTENTION)
            impmem__profile_fail_layer(p, IMPMEM_ERR_UNSUPPORTED, i,
                                       "layer %u keeps an indexer's keys, expected none: no rule of %s is known", i,
                                       engine);
        if (layer->recurrent != IMPMEM_RECURRENT_NONE && p->kind == IMPMEM_ENGINE_SGLANG)
            impmem__profile_fail_layer(p, IMPMEM_ERR_UNSUPPORTED, i,
                                       "layer %u keeps recurrent state, expected none: no rule of %s is known", i, engine);
    }
}

impmem_status impmem__profile_check_args(impmem_engine_kind kind, const impmem_engine_profile_args *args, impmem_error *why)
{
    if (impmem_engine_kind_name(kind)[0] == '?')
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "kind", "%d is no engine", (int)kind);
    impmem_status st = impmem__options_check(args->size, args->version, sizeof *args, 1);
    if (st)
        return impmem__error_set(why, st, "args",
                                 "engine arguments of %u bytes, version %u: this library knows %zu bytes, version 1",
                                 args->size, args->version, sizeof *args);
    return st;
}

impmem_status impmem_engine_profile_predict(impmem_engine_kind kind, const impmem_model_shape *shape,
                                            const impmem_engine_profile_args *args, impmem_engine_profile *out,
                                            impmem_error *why)
{
    if (!shape || !args || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "args", "shape, args and out are all needed");
    impmem_status st = impmem__profile_check_args(kind, args, why);
    if (!st) st = impmem_shape_check(shape, why);
    if (st) return st;
    impmem_engine_profile made;
    memset(&made, 0, sizeof made);
    made.size = sizeof made;
    made.version = 1;
    impmem__profiling p = {.kind = kind, .shape = shape, .args = *args, .out = &made, .why = why, .status = IMPMEM_OK};
    fill_defaults(&p);
    check_layers(&p);
    if (!p.status) {
        switch (kind) {
        case IMPMEM_ENGINE_LLAMA_CPP:
        case IMPMEM_ENGINE_IK_LLAMA_CPP: impmem__profile_llama(&p); break;
        case IMPMEM_ENGINE_VLLM: impmem__profile_vllm(&p); break;
        case IMPMEM_ENGINE_SGLANG: impmem__profile_sglang(&p); break;
        }
    }
    if (!p.status) *out = made;
    return p.status;
}
