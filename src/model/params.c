/* The parameters that a transformer's geometry implies, matrix by matrix, in the bytes of its storage format. */
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

static void attention(walk *w, uint32_t i, bool bias_key)
{
    const impmem__facts *f = w->facts;
    if (f->latent) {
        latent_attention(w, i);
        return;
    }
    uint64_t query = (uint64_t)f->heads[i] * f->k_dim[i], out = (uint64_t)f->heads[i] * f->v_dim[i];
    uint64_t key = (uint64_t)f->kv_heads[i] * f->k_dim[i], value = (uint64_t)f->kv_heads[i] * f->v_dim[i];
    if (f->k_is_v && !f->windowed[i]) value = 0;
    matrices(w, IMPMEM__PART_ATTENTION, query, f->hidden, 1);
    matrices(w, IMPMEM__PART_ATTENTION, key, f->hidden, 1);
    matrices(w, IMPMEM__PART_ATTENTION, value, f->hidden, 1);
    matrices(w, IMPMEM__PART_ATTENTION, f->hidden, out, 1);
    if (has(w, IMPMEM__A_QKV_BIAS) || bias_key) vectors(w, 1, query + key + value);
    if (has(w, IMPMEM__A_OUT_BIAS) || bias_key) vectors(w, 1, f->hidden);
    if (has(w, IMPMEM__A_QK_NORM)) vectors(w, 2, f->k_dim[i]);
    if (has(w, IMPMEM__A_QK_NORM_WIDE)) vectors(w, 1, query + key);
    if (has(w, IMPMEM__A_SINKS)) vectors(w, 1, f->heads[i]);
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
    if (has(w, IMPMEM__A_SHARED_GATE)) vectors(w, 1, f->hidden);
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
    if (!json_is_boolean(key)) key = json_object_get(root, "tie_word_embeddings");
    if (json_is_boolean(key)) tied = json_is_true(key);
    impmem_status st = impmem__key_bool(w->reading, "lm_head_bias", &bias, NULL);
    matrices(w, IMPMEM__PART_EMBEDDING, f->vocab, f->hidden, 1);
    w->embedding = w->bytes; /* the walk begins here */
    if (!tied) matrices(w, IMPMEM__PART_HEAD, f->vocab, f->hidden, 1);
    w->output = w->bytes - w->embedding;
    if (bias) vectors(w, 1, f->vocab);
    if (has(w, IMPMEM__A_POSITIONS)) matrices(w, IMPMEM__PART_EMBEDDING, f->context, f->hidden, 1);
    vectors(w, has(w, IMPMEM__A_NORM_BIAS) ? 2 : 1, f->hidden);
    return st;
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
    uint64_t norms = reading->arch->norms ? reading->arch->norms : 2;
    if (has(&w, IMPMEM__A_NORM_BIAS)) norms *= 2;
    for (uint32_t i = 0; i < f->layers; i++) {
        attention(&w, i, bias_key);
        vectors(&w, norms, f->hidden);
        bool moe = f->experts > 0 && f->moe[i];
        if (moe) experts(&w);
        if (f->ff[i] > 0) feed_forward(&w, IMPMEM__PART_MLP, f->ff[i], 1);
    }
    if (w.overflow) {
        return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                              "geometry: found weights beyond 2^64 bytes, expected a "
                              "size");
    }
    if (per_layer)
        impmem__note(reading->model, "weights: small per-layer parts besides the per-layer inputs are not in the estimate");
    *out = (impmem__estimate){w.bytes, w.largest, w.embedding, w.output};
    return IMPMEM_OK;
}
