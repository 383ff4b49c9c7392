/* The parameters that a model's geometry implies, matrix by matrix, in the bytes of its storage format: attention,
 * recurrent layers, feed-forward parts and experts, and the layers that predict further tokens. */
#include <string.h>

#include "impmem/bytes.h"
#include "model/hf.h"

typedef struct walk {
    impmem__reading *reading;
    const impmem__facts *facts;
    const impmem__storage *storage;
    uint32_t flags;
    uint64_t bytes;
    uint64_t largest;
    uint64_t embedding;
    uint64_t output;
    bool overflow;
} walk;

static bool has(const walk *w, uint32_t flag)
{
    return (w->flags & flag) != 0;
}

static void add(walk *w, uint64_t bytes)
{
    if (impmem_add(&w->bytes, w->bytes, bytes)) w->overflow = true;
}

/* count x unit, checked. */
static void add_many(walk *w, uint64_t count, uint64_t unit)
{
    uint64_t bytes = 0;
    if (impmem_mul(&bytes, count, unit)) w->overflow = true;
    add(w, bytes);
}

static uint64_t div_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static void vectors(walk *w, uint64_t count, uint64_t elements)
{
    uint64_t n = 0;
    if (impmem_mul(&n, count, elements)) w->overflow = true;
    add_many(w, n, w->storage->vector_bytes);
}

/* `count` matrices of [rows, columns]. */
static void matrices(walk *w, impmem__part part, uint64_t rows, uint64_t columns, uint64_t count)
{
    const impmem__format *f = &w->storage->part[part];
    if (rows == 0 || columns == 0 || count == 0) return;
    uint64_t elements = 0, bits = 0, scales = 0, blocks = 0;
    if (impmem_mul(&elements, rows, columns) || impmem_mul(&bits, elements, f->bits)) w->overflow = true;
    add_many(w, count, div_up(bits, 8));
    if (f->group) {
        if (impmem_mul(&scales, rows, div_up(columns, f->group)) || impmem_mul(&scales, scales, f->group_bits))
            w->overflow = true;
        add_many(w, count, div_up(scales, 8));
    }
    if (f->block_rows && f->block_columns) {
        if (impmem_mul(&blocks, div_up(rows, f->block_rows), div_up(columns, f->block_columns))) w->overflow = true;
        if (impmem_mul(&blocks, blocks, 4)) w->overflow = true;
        add_many(w, count, blocks);
    }
    uint64_t extra = 0, wide = 0;
    if (impmem_mul(&extra, rows, f->row_bytes) || impmem_mul(&wide, columns, f->column_bytes) ||
        impmem_add(&extra, extra, wide) || impmem_add(&extra, extra, f->matrix_bytes)) {
        w->overflow = true;
    }
    add_many(w, count, extra);
    bool projection = part != IMPMEM__PART_EMBEDDING && part != IMPMEM__PART_HEAD;
    if (projection && elements / f->packed > w->largest) w->largest = elements / f->packed;
}

static void latent_attention(walk *w, uint32_t i)
{
    const impmem__facts *f = w->facts;
    uint64_t heads = f->heads[i], query = heads * (f->nope_dim + f->rope_dim), value = heads * f->mla_v_dim;
    if (f->q_lora) {
        matrices(w, IMPMEM__PART_ATTENTION, f->q_lora, f->hidden, 1);
        matrices(w, IMPMEM__PART_ATTENTION, query, f->q_lora, 1);
        vectors(w, 1, f->q_lora);
    } else {
        matrices(w, IMPMEM__PART_ATTENTION, query, f->hidden, 1);
    }
    matrices(w, IMPMEM__PART_ATTENTION, (uint64_t)f->kv_lora + f->rope_dim, f->hidden, 1);
    vectors(w, 1, f->kv_lora);
    matrices(w, IMPMEM__PART_ATTENTION, heads * f->nope_dim + value, f->kv_lora, 1);
    matrices(w, IMPMEM__PART_ATTENTION, f->hidden, value, 1);
}

/* Queries from the low rank, one shared key, a weight per head; the key's norm has a bias. */
static void indexer(walk *w)
{
    const impmem__facts *f = w->facts;
    matrices(w, IMPMEM__PART_ATTENTION, (uint64_t)f->index_heads * f->index_dim, f->q_lora ? f->q_lora : f->hidden, 1);
    matrices(w, IMPMEM__PART_ATTENTION, f->index_dim, f->hidden, 1);
    matrices(w, IMPMEM__PART_ROUTER, f->index_heads, f->hidden, 1);
    vectors(w, 2, f->index_dim);
}

static void attention(walk *w, uint32_t i, bool bias_key)
{
    const impmem__facts *f = w->facts;
    if (f->kv_heads[i] == 0) return;
    if (f->latent) {
        latent_attention(w, i);
        if (f->index_dim) indexer(w);
        return;
    }
    uint64_t query = (uint64_t)f->heads[i] * f->k_dim[i], out = (uint64_t)f->heads[i] * f->v_dim[i];
    uint64_t key = (uint64_t)f->kv_heads[i] * f->k_dim[i], value = (uint64_t)f->kv_heads[i] * f->v_dim[i];
    if (f->k_is_v && !f->windowed[i]) value = 0;
    matrices(w, IMPMEM__PART_ATTENTION, f->gated_query ? 2 * query : query, f->hidden, 1);
    matrices(w, IMPMEM__PART_ATTENTION, key, f->hidden, 1);
    matrices(w, IMPMEM__PART_ATTENTION, value, f->hidden, 1);
    matrices(w, IMPMEM__PART_ATTENTION, f->hidden, out, 1);
    if (has(w, IMPMEM__A_QKV_BIAS) || bias_key) vectors(w, 1, query + key + value);
    if (has(w, IMPMEM__A_OUT_BIAS) || bias_key) vectors(w, 1, f->hidden);
    if (has(w, IMPMEM__A_QK_NORM) || f->cross[i]) vectors(w, 2, f->k_dim[i]);
    if (f->cross[i]) vectors(w, 2, 1); /* gates of the attention and of what follows it */
    if (has(w, IMPMEM__A_QK_NORM_WIDE)) vectors(w, 1, query + key);
    if (has(w, IMPMEM__A_SINKS)) vectors(w, 1, f->heads[i]);
}

static void delta_net(walk *w)
{
    const impmem__facts *f = w->facts;
    const uint64_t keys = 2 * (uint64_t)f->groups * f->state, inner = f->inner, heads = f->state_heads;
    if (has(w, IMPMEM__A_FUSED_STATE)) {
        matrices(w, IMPMEM__PART_STATE, keys + 2 * inner, f->hidden, 1);
        matrices(w, IMPMEM__PART_STATE, 2 * heads, f->hidden, 1);
    } else {
        matrices(w, IMPMEM__PART_STATE, keys + inner, f->hidden, 1);
        matrices(w, IMPMEM__PART_STATE, inner, f->hidden, 1);
        matrices(w, IMPMEM__PART_STATE, heads, f->hidden, 2);
    }
    matrices(w, IMPMEM__PART_STATE, f->hidden, inner, 1);
    vectors(w, f->conv_kernel, f->conv_channels);
    vectors(w, 2, heads); /* decay and step */
    vectors(w, 1, f->state_head_dim);
}

typedef struct state_keys {
    bool conv_bias, projection_bias, norm;
} state_keys;

static void mamba(walk *w, const state_keys *keys)
{
    const impmem__facts *f = w->facts;
    const uint64_t inner = f->inner, d = f->hidden, mixed = (uint64_t)f->rank + UINT64_C(2) * f->state;
    matrices(w, IMPMEM__PART_STATE, 2 * inner, d, 1);
    matrices(w, IMPMEM__PART_STATE, mixed, inner, 1);
    matrices(w, IMPMEM__PART_STATE, inner, f->rank, 1);
    matrices(w, IMPMEM__PART_STATE, d, inner, 1);
    vectors(w, (uint64_t)f->conv_kernel + keys->conv_bias, inner);
    vectors(w, (uint64_t)f->state + 2, inner); /* decays, skip, and the step's bias */
    if (keys->projection_bias) vectors(w, 1, 2 * inner + d);
    if (has(w, IMPMEM__A_STATE_NORMS)) vectors(w, 1, mixed);
}

static void mamba2(walk *w, const state_keys *keys)
{
    const impmem__facts *f = w->facts;
    const uint64_t inner = f->inner, d = f->hidden, rows = inner + f->conv_channels + f->state_heads;
    matrices(w, IMPMEM__PART_STATE, rows, d, 1);
    matrices(w, IMPMEM__PART_STATE, d, inner, 1);
    vectors(w, (uint64_t)f->conv_kernel + keys->conv_bias, f->conv_channels);
    vectors(w, 3, f->state_heads); /* decay, skip, step */
    if (keys->projection_bias) vectors(w, 1, rows + d);
    if (keys->norm) vectors(w, 1, inner);
}

static void short_conv(walk *w, const state_keys *keys)
{
    const impmem__facts *f = w->facts;
    matrices(w, IMPMEM__PART_STATE, 3 * (uint64_t)f->hidden, f->hidden, 1);
    matrices(w, IMPMEM__PART_STATE, f->hidden, f->hidden, 1);
    vectors(w, f->conv_kernel, f->conv_channels);
    if (keys->conv_bias) vectors(w, 5, f->hidden);
}

static impmem_status read_state_keys(walk *w, state_keys *out)
{
    const bool conv = w->reading->arch->recurrent == IMPMEM_RECURRENT_SHORT_CONV;
    *out = (state_keys){!conv, false, !has(w, IMPMEM__A_STATE_NO_NORM)};
    impmem_status st = impmem__key_bool(w->reading, "mamba_conv_bias", &out->conv_bias, NULL);
    if (!st) st = impmem__key_bool(w->reading, "use_conv_bias", &out->conv_bias, NULL);
    if (!st && conv) st = impmem__key_bool(w->reading, "conv_bias", &out->conv_bias, NULL);
    if (!st) st = impmem__key_bool(w->reading, "mamba_proj_bias", &out->projection_bias, NULL);
    if (!st) st = impmem__key_bool(w->reading, "use_bias", &out->projection_bias, NULL);
    if (!st && has(w, IMPMEM__A_STATE_NO_NORM)) st = impmem__key_bool(w->reading, "mamba_rms_norm", &out->norm, NULL);
    return st;
}

static void recurrent(walk *w, const state_keys *keys)
{
    switch ((impmem_recurrent_kind)w->reading->arch->recurrent) {
    case IMPMEM_RECURRENT_NONE: break;
    case IMPMEM_RECURRENT_MAMBA: mamba(w, keys); break;
    case IMPMEM_RECURRENT_MAMBA2: mamba2(w, keys); break;
    case IMPMEM_RECURRENT_DELTA_NET: delta_net(w); break;
    case IMPMEM_RECURRENT_SHORT_CONV: short_conv(w, keys); break;
    }
}

static void feed_forward(walk *w, impmem__part part, uint64_t width, uint64_t count)
{
    uint64_t d = w->facts->hidden;
    bool gated = !has(w, IMPMEM__A_PLAIN_MLP);
    matrices(w, part, width, d, gated ? count * 2 : count);
    matrices(w, part, d, width, count);
    bool bias = part == IMPMEM__PART_EXPERT ? has(w, IMPMEM__A_EXPERT_BIAS) : has(w, IMPMEM__A_MLP_BIAS);
    if (bias) vectors(w, count, (gated ? 2 : 1) * width + d);
}

static void experts(walk *w)
{
    const impmem__facts *f = w->facts;
    matrices(w, IMPMEM__PART_ROUTER, f->experts, f->hidden, 1);
    if (has(w, IMPMEM__A_ROUTER_BIAS)) vectors(w, 1, f->experts);
    feed_forward(w, IMPMEM__PART_EXPERT, f->expert_ff, f->experts);
    if (f->shared_ff) feed_forward(w, IMPMEM__PART_MLP, f->shared_ff, 1);
    if (has(w, IMPMEM__A_SHARED_GATE)) matrices(w, IMPMEM__PART_ROUTER, 1, f->hidden, 1);
}

/* Embeddings of every layer's own, as the Gemma 3n family has them. */
static impmem_status per_layer_inputs(walk *w, bool *any)
{
    uint32_t width = 0, vocab = 0;
    bool found = false;
    impmem_status st = impmem__key_u32(w->reading, "hidden_size_per_layer_input", 0, INT32_MAX, &width, NULL);
    if (!st) st = impmem__key_u32(w->reading, "vocab_size_per_layer_input", 1, INT32_MAX, &vocab, &found);
    *any = !st && width > 0;
    if (!*any) return st;
    uint64_t layers = w->facts->layers, all = layers * width;
    matrices(w, IMPMEM__PART_EMBEDDING, found ? vocab : w->facts->vocab, all, 1);
    matrices(w, IMPMEM__PART_MLP, all, w->facts->hidden, 1);
    matrices(w, IMPMEM__PART_MLP, width, w->facts->hidden, 2 * layers);
    vectors(w, layers, w->facts->hidden);
    vectors(w, 1, width);
    return IMPMEM_OK;
}

static impmem_status outer(walk *w, const json_t *root, const json_t *text)
{
    const impmem__facts *f = w->facts;
    bool tied = has(w, IMPMEM__A_TIED), bias = false;
    const json_t *key = json_object_get(text, "tie_word_embeddings");
    if (!key || json_is_null(key)) key = json_object_get(root, "tie_word_embeddings");
    if (key && !json_is_null(key) && !json_is_boolean(key))
        return impmem__refuse(&w->reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                              "key 'tie_word_embeddings': found no boolean, expected true or false");
    if (key && !json_is_null(key)) tied = json_is_true(key);
    impmem_status st = impmem__key_bool(w->reading, "lm_head_bias", &bias, NULL);
    /* Eight more rows are looked up than scored where images have tokens of their own. */
    matrices(w, IMPMEM__PART_EMBEDDING, has(w, IMPMEM__A_CROSS) ? (uint64_t)f->vocab + 8 : f->vocab, f->hidden, 1);
    w->embedding = w->bytes; /* the walk begins here */
    if (!tied) matrices(w, IMPMEM__PART_HEAD, f->vocab, f->hidden, 1);
    w->output = w->bytes - w->embedding;
    if (bias) vectors(w, 1, f->vocab);
    if (has(w, IMPMEM__A_POSITIONS)) matrices(w, IMPMEM__PART_EMBEDDING, f->context, f->hidden, 1);
    vectors(w, has(w, IMPMEM__A_NORM_BIAS) ? 2 : 1, f->hidden);
    return st;
}

static void layer(walk *w, uint32_t i, bool bias_key, const state_keys *keys)
{
    const impmem__facts *f = w->facts;
    uint64_t norms = w->reading->arch->norms ? w->reading->arch->norms : 2;
    if (has(w, IMPMEM__A_NORM_BIAS)) norms *= 2;
    attention(w, i, bias_key);
    if (f->recurrent[i]) recurrent(w, keys);
    vectors(w, norms, f->hidden);
    if (f->experts > 0 && f->moe[i]) experts(w);
    if (f->ff[i] > 0) feed_forward(w, IMPMEM__PART_MLP, f->ff[i], 1);
}

/* A layer that predicts a further token is like the last one that attends, behind a projection of its two inputs with
 * three norms; embedding and head are the model's own. */
static void draft_layer(walk *w, bool bias_key, const state_keys *keys)
{
    const impmem__facts *f = w->facts;
    uint32_t last = f->layers;
    while (last > 0 && (f->kv_heads[last - 1] == 0 || f->recurrent[last - 1])) last--;
    if (last == 0) return;
    layer(w, last - 1, bias_key, keys);
    matrices(w, IMPMEM__PART_MLP, f->hidden, 2 * (uint64_t)f->hidden, 1);
    vectors(w, 3, f->hidden);
}

impmem_status impmem__weights_estimate(impmem__reading *reading, const json_t *root, const json_t *text,
                                       const impmem__storage *storage, impmem__estimate *out)
{
    const impmem__facts *f = &reading->facts;
    walk w = {.reading = reading, .facts = f, .storage = storage, .flags = reading->arch->flags};
    bool bias_key = false, qkv_key = false, per_layer = false;
    impmem_status st = impmem__key_bool(reading, "attention_bias", &bias_key, NULL);
    if (!st) st = impmem__key_bool(reading, "add_qkv_bias", &qkv_key, NULL);
    if (!st) st = outer(&w, root, text);
    if (!st) st = per_layer_inputs(&w, &per_layer);
    if (st) return st;
    if (qkv_key) w.flags |= IMPMEM__A_QKV_BIAS;
    state_keys keys;
    st = read_state_keys(&w, &keys);
    if (st) return st;
    for (uint32_t i = 0; i < f->layers; i++) layer(&w, i, bias_key, &keys);
    const uint64_t draft = w.bytes;
    for (uint32_t i = 0; i < f->draft_layers; i++) draft_layer(&w, bias_key, &keys);
    if (w.overflow) {
        return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                              "geometry: found weights beyond 2^64 bytes, expected a "
                              "size");
    }
    if (per_layer)
        impmem__note(reading->model, "weights: small per-layer parts besides the per-layer inputs are not in the estimate");
    *out = (impmem__estimate){w.bytes, w.largest, w.embedding, w.output, w.bytes - draft};
    return IMPMEM_OK;
}
