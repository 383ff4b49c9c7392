/* profile_engine_llama.c - llama.cpp and ik_llama.cpp: one cell a token, K and V of a cell typed apart, state in f32.
 *
 * Rules, each reproduced by figures that the engines logged (docs/engine-profiles.md):
 *   - a full layer has n_ctx cells for all slots together, padded to 256;
 *   - a window layer of llama.cpp has min(n_ctx, window x n_seq + n_ubatch) cells, padded to 256; ik_llama.cpp saves nothing;
 *   - latent attention keeps kv_lora_rank + rope elements as K; without flash attention a transposed f16 copy of the rank more;
 *   - a state cell is one sequence slot, f32, in 1 + draft copies;
 *   - the output layer counts as one in a split over devices.
 */
#include "plan/profile_engine.h"

#include <stdio.h>

#define CELL_PAD 256u
/* CUDA pads a quantised tensor whose rows are no multiple of 512 elements by the missing part of one row, and every tensor to
 * 128 bytes. */
#define ROW_PAD 512u
#define TENSOR_ALIGN 128u

typedef struct part {
    uint64_t bytes;
    uint32_t layers;
} part;

typedef struct totals {
    uint64_t k, v;
    part full, swa;
    uint64_t cells_full, cells_swa; /* the largest */
    uint64_t conv, state;
    uint32_t recurrent_layers;
    part kv_device[IMPMEM_ENGINE_PROFILE_MAX_DEVICES];
    part recurrent_device[IMPMEM_ENGINE_PROFILE_MAX_DEVICES];
} totals;

typedef struct layer_kv {
    uint64_t k, v, padding;
    uint64_t cells;
    bool window;
} layer_kv;

static void add(impmem__profiling *p, uint64_t *to, uint64_t bytes)
{
    *to = impmem__profile_add(p, *to, bytes);
}

static void add_part(impmem__profiling *p, part *to, uint64_t bytes)
{
    add(p, &to->bytes, bytes);
    to->layers++;
}

static uint64_t cells_of(impmem__profiling *p, const impmem_layer_shape *layer, bool *window)
{
    const impmem_engine_profile_args *a = &p->args;
    uint64_t all = impmem__profile_align(p, a->n_ctx, CELL_PAD);
    *window = layer->kind == IMPMEM_LAYER_WINDOW && p->kind == IMPMEM_ENGINE_LLAMA_CPP;
    if (!*window || a->swa_full) return all;
    uint64_t live = impmem__profile_add(p, (uint64_t)layer->window_tokens * a->n_seq, a->n_ubatch);
    if (live > a->n_ctx) return all;
    return impmem__profile_align(p, live, CELL_PAD);
}

/* Bytes of `cells` rows; *padding gets what CUDA's buffer takes beside them. */
static uint64_t tensor(impmem__profiling *p, uint32_t layer, const char *side, impmem_dtype dtype, uint64_t elements,
                       uint64_t cells, uint64_t *padding)
{
    uint64_t row = 0, pad = 0;
    if (elements == 0) return 0;
    impmem_status st = impmem_dtype_row_bytes(dtype, elements, &row);
    if (st == IMPMEM_ERR_BAD_VALUE)
        impmem__profile_fail_layer(p, st, layer,
                                   "layer %u: a row of %llu elements of %s can't be held as %s, expected whole blocks",
                                   layer, (unsigned long long)elements, side, impmem_dtype_name(dtype));
    else if (st) impmem__profile_fail(p, IMPMEM_ERR_OVERFLOW, "args", "layer %u: a row of %s exceeds 64 bits", layer, side);
    uint64_t bytes = impmem__profile_mul(p, row, cells);
    bool quantised = impmem_dtype_row_bytes(dtype, 1, &pad) != IMPMEM_OK;
    if (quantised && elements % ROW_PAD != 0 && !p->status &&
        impmem_dtype_row_bytes(dtype, ROW_PAD - elements % ROW_PAD, &pad) == IMPMEM_OK) {
        uint64_t padded = impmem__profile_align(p, impmem__profile_add(p, bytes, pad), TENSOR_ALIGN);
        if (!p->status) add(p, padding, padded - bytes);
    }
    return bytes;
}

static void latent(impmem__profiling *p, uint32_t i, layer_kv *kv)
{
    const impmem_layer_shape *layer = &p->shape->layer[i];
    const impmem_engine_profile_args *a = &p->args;
    if (a->mla_expanded) {
        if (layer->latent_v_dim == 0 || p->shape->n_heads == 0 || p->shape->head_dim == 0) {
            impmem__profile_fail_layer(p, IMPMEM_ERR_BAD_VALUE, i,
                                       "layer %u: heads of the expanded cache are not told, expected mla=latent", i);
            return;
        }
        uint64_t heads = p->shape->n_heads;
        kv->k = tensor(p, i, "K", a->kv_dtype_k, heads * p->shape->head_dim, kv->cells, &kv->padding);
        kv->v = tensor(p, i, "V", a->kv_dtype_v, heads * layer->latent_v_dim, kv->cells, &kv->padding);
        return;
    }
    kv->k = tensor(p, i, "K", a->kv_dtype_k, layer->k_dim, kv->cells, &kv->padding);
    if (!a->no_flash_attn) return;
    if (layer->latent_rank == 0)
        impmem__profile_fail_layer(p, IMPMEM_ERR_BAD_VALUE, i,
                                   "layer %u: the latent rank is not told, expected flash_attn=1", i);
    kv->v = tensor(p, i, "V", IMPMEM_DTYPE_F16, layer->latent_rank, kv->cells, &kv->padding);
}

static bool keeps_kv(const impmem_layer_shape *layer)
{
    return layer->kind == IMPMEM_LAYER_FULL || layer->kind == IMPMEM_LAYER_WINDOW || layer->kind == IMPMEM_LAYER_LATENT;
}

static layer_kv kv_of(impmem__profiling *p, uint32_t i)
{
    const impmem_layer_shape *layer = &p->shape->layer[i];
    layer_kv kv = {0, 0, 0, 0, false};
    kv.cells = cells_of(p, layer, &kv.window);
    if (layer->kind == IMPMEM_LAYER_LATENT) {
        latent(p, i, &kv);
        return kv;
    }
    uint64_t heads = layer->kv_heads;
    kv.k = tensor(p, i, "K", p->args.kv_dtype_k, impmem__profile_mul(p, heads, layer->k_dim), kv.cells, &kv.padding);
    kv.v = tensor(p, i, "V", p->args.kv_dtype_v, impmem__profile_mul(p, heads, layer->v_dim), kv.cells, &kv.padding);
    return kv;
}

/* The device of a layer: the first whose share of the layers, the output layer among them, ends beyond it. */
static uint32_t device_of(const impmem__profiling *p, uint32_t layer)
{
    const impmem_engine_profile_args *a = &p->args;
    uint64_t sum = 0, until = 0;
    for (uint32_t d = 0; d < a->n_devices; d++) sum += a->split[d];
    for (uint32_t d = 0; d < a->n_devices; d++) {
        until += a->split[d];
        if (layer * sum < until * (p->shape->n_layers + UINT64_C(1))) return d;
    }
    return a->n_devices - 1;
}

static void add_kv(impmem__profiling *p, uint32_t i, totals *t)
{
    layer_kv kv = kv_of(p, i);
    uint64_t both = impmem__profile_add(p, kv.k, kv.v);
    add(p, &t->k, kv.k);
    add(p, &t->v, kv.v);
    add_part(p, kv.window ? &t->swa : &t->full, both);
    uint64_t *most = kv.window ? &t->cells_swa : &t->cells_full;
    if (kv.cells > *most) *most = kv.cells;
    if (p->args.n_devices == 0) return;
    if (p->args.quantised_padding) both = impmem__profile_add(p, both, kv.padding);
    add_part(p, &t->kv_device[device_of(p, i)], both);
}

static uint64_t state_copies(impmem__profiling *p)
{
    return impmem__profile_mul(p, p->args.n_seq, UINT64_C(1) + p->args.draft_tokens);
}

static void add_recurrent(impmem__profiling *p, uint32_t i, totals *t)
{
    const impmem_layer_shape *layer = &p->shape->layer[i];
    uint64_t copies_bytes = impmem__profile_mul(p, state_copies(p), sizeof(float));
    uint64_t conv = impmem__profile_mul(p, (layer->conv_kernel - UINT64_C(1)) * layer->conv_channels, copies_bytes);
    uint64_t state = impmem__profile_mul(p, layer->state_elements, copies_bytes);
    add(p, &t->conv, conv);
    add(p, &t->state, state);
    t->recurrent_layers++;
    if (p->args.n_devices > 0) add_part(p, &t->recurrent_device[device_of(p, i)], impmem__profile_add(p, conv, state));
}

/* The draft heads that the weights hold beyond the layers keep a cache of their own, like the last layer that attends to
 * everything. */
static uint64_t draft_bytes(impmem__profiling *p)
{
    if (p->args.draft_tokens == 0 || p->shape->draft_layers == 0) return 0;
    for (uint32_t i = p->shape->n_layers; i > 0; i--) {
        uint32_t kind = p->shape->layer[i - 1].kind;
        if (kind != IMPMEM_LAYER_FULL && kind != IMPMEM_LAYER_LATENT) continue;
        layer_kv kv = kv_of(p, i - 1);
        return impmem__profile_mul(p, impmem__profile_add(p, kv.k, kv.v), p->shape->draft_layers);
    }
    return 0;
}

static void kv_lines(impmem__profiling *p, const totals *t)
{
    const impmem_engine_profile_args *a = &p->args;
    uint32_t layers = t->full.layers + t->swa.layers;
    const char *k = impmem_dtype_name(a->kv_dtype_k), *v = impmem_dtype_name(a->kv_dtype_v);
    if (t->full.layers)
        impmem__profile_line(p, "cells", IMPMEM_ENGINE_UNIT_CELLS, 0, t->cells_full, "n_ctx %u, padded to %u", a->n_ctx,
                             CELL_PAD);
    if (t->swa.layers && a->swa_full)
        impmem__profile_line(p, "cells_swa", IMPMEM_ENGINE_UNIT_CELLS, 0, t->cells_swa, "n_ctx %u, padded to %u", a->n_ctx,
                             CELL_PAD);
    else if (t->swa.layers)
        impmem__profile_line(p, "cells_swa", IMPMEM_ENGINE_UNIT_CELLS, 0, t->cells_swa,
                             "min(n_ctx %u, window x %u slots + n_ubatch %u), padded to %u", a->n_ctx, a->n_seq,
                             a->n_ubatch, CELL_PAD);
    if (!layers) return;
    impmem__profile_line(p, "kv_total", IMPMEM_ENGINE_UNIT_BYTES, layers, impmem__profile_add(p, t->k, t->v),
                         "K + V of %u layers", layers);
    impmem__profile_line(p, "kv_k", IMPMEM_ENGINE_UNIT_BYTES, layers, t->k, "cells x heads x dim of each layer, %s", k);
    if (t->v)
        impmem__profile_line(p, "kv_v", IMPMEM_ENGINE_UNIT_BYTES, layers, t->v, "cells x heads x dim of each layer, %s", v);
    if (!t->swa.layers) return;
    if (t->full.layers)
        impmem__profile_line(p, "kv_full", IMPMEM_ENGINE_UNIT_BYTES, t->full.layers, t->full.bytes,
                             "%u layers x %llu cells", t->full.layers, (unsigned long long)t->cells_full);
    impmem__profile_line(p, "kv_swa", IMPMEM_ENGINE_UNIT_BYTES, t->swa.layers, t->swa.bytes, "%u layers x %llu cells",
                         t->swa.layers, (unsigned long long)t->cells_swa);
}

static void recurrent_lines(impmem__profiling *p, const totals *t)
{
    if (!t->recurrent_layers) return;
    uint32_t n = t->recurrent_layers;
    const impmem_engine_profile_args *a = &p->args;
    impmem__profile_line(p, "state_cells", IMPMEM_ENGINE_UNIT_CELLS, 0, a->n_seq, "one a sequence slot");
    impmem__profile_line(p, "recurrent_total", IMPMEM_ENGINE_UNIT_BYTES, n, impmem__profile_add(p, t->conv, t->state),
                         "convolution + state of %u layers", n);
    impmem__profile_line(p, "recurrent_conv", IMPMEM_ENGINE_UNIT_BYTES, n, t->conv,
                         "%u cells x (1 + %u drafted) x %u layers x (d_conv - 1) x channels x 4 B", a->n_seq,
                         a->draft_tokens, n);
    impmem__profile_line(p, "recurrent_state", IMPMEM_ENGINE_UNIT_BYTES, n, t->state,
                         "%u cells x (1 + %u drafted) x %u layers x state elements x 4 B", a->n_seq, a->draft_tokens, n);
}

static void device_lines(impmem__profiling *p, const totals *t)
{
    char name[32];
    for (uint32_t d = 0; d < p->args.n_devices; d++) {
        (void)snprintf(name, sizeof name, "kv_device_%u", d);
        impmem__profile_line(p, name, IMPMEM_ENGINE_UNIT_BYTES, t->kv_device[d].layers, t->kv_device[d].bytes,
                             "%u layers with KV of %u + the output layer%s", t->kv_device[d].layers, p->shape->n_layers,
                             p->args.quantised_padding ? ", padding of quantised rows" : "");
        if (!t->recurrent_layers) continue;
        (void)snprintf(name, sizeof name, "recurrent_device_%u", d);
        impmem__profile_line(p, name, IMPMEM_ENGINE_UNIT_BYTES, t->recurrent_device[d].layers, t->recurrent_device[d].bytes,
                             "%u recurrent layers", t->recurrent_device[d].layers);
    }
}

void impmem__profile_llama(impmem__profiling *p)
{
    const impmem_engine_profile_args *a = &p->args;
    uint64_t one = 0;
    if (a->no_flash_attn && impmem_dtype_row_bytes(a->kv_dtype_v, 1, &one))
        impmem__profile_fail(p, IMPMEM_ERR_BAD_VALUE, "type_v",
                             "type_v is %s without flash attention, expected f16, bf16 or f32",
                             impmem_dtype_name(a->kv_dtype_v));
    totals t = {0};
    for (uint32_t i = 0; i < p->shape->n_layers && !p->status; i++) {
        if (keeps_kv(&p->shape->layer[i])) add_kv(p, i, &t);
        if (p->shape->layer[i].recurrent != IMPMEM_RECURRENT_NONE) add_recurrent(p, i, &t);
    }
    uint64_t draft = draft_bytes(p);
    kv_lines(p, &t);
    if (draft)
        impmem__profile_line(p, "kv_mtp_draft", IMPMEM_ENGINE_UNIT_BYTES, p->shape->draft_layers, draft,
                             "%u prediction layers like the last full layer", p->shape->draft_layers);
    recurrent_lines(p, &t);
    device_lines(p, &t);
    uint64_t total = impmem__profile_add(p, impmem__profile_add(p, t.k, t.v), draft);
    total = impmem__profile_add(p, total, impmem__profile_add(p, t.conv, t.state));
    impmem__profile_line(p, "total", IMPMEM_ENGINE_UNIT_BYTES, 0, total, "KV + draft KV + recurrent state");
}
