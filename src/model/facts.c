/* From keys to figures per layer, whichever format the keys came in. Nothing is guessed from an unrelated figure: what
 * is derived follows the architecture's published definition and is noted; what isn't there and has none is a missing
 * key. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/internal.h"

#define MOST ((uint32_t)INT32_MAX)
#define MOST_HEADS 65535u
#define MOST_HEAD_DIM 65535u

static bool has(const impmem__reading *reading, uint32_t flag)
{
    return (reading->arch->flags & flag) != 0;
}

static impmem_status contradiction(const impmem__reading *reading, uint32_t layer, uint32_t heads, uint32_t kv,
                                   const char *expected)
{
    return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                          "layer %u: found %u query heads for %u KV heads, "
                          "expected %s",
                          layer, heads, kv, expected);
}

static impmem_status read_sizes(impmem__reading *reading)
{
    impmem__facts *facts = &reading->facts;
    const impmem__arch *arch = reading->arch;
    char name[128];
    bool found = false;
    impmem_status st = impmem__field_required(reading, IMPMEM__F_LAYERS, 1, MOST, &facts->layers);
    if (st) return st;
    if (facts->layers > IMPMEM_MAX_LAYERS) {
        return impmem__refuse(
            &reading->diag, IMPMEM_ERR_TOO_LARGE, IMPMEM__NO_OFFSET, "key '%s': found %u, expected at most %u",
            impmem__field_name(reading, IMPMEM__F_LAYERS, name, sizeof name), facts->layers, IMPMEM_MAX_LAYERS);
    }
    st = impmem__field_required(reading, IMPMEM__F_HIDDEN, 1, MOST, &facts->hidden);
    if (!st) st = impmem__field_u32(reading, IMPMEM__F_CONTEXT, 1, MOST, &facts->context, &found);
    if (st) return st;
    if (!found && arch->default_context > 0 && !reading->keys.gguf) {
        facts->context = arch->default_context;
        impmem__note(reading->model, "max_position_embeddings: missing, %u is the published default of %s", facts->context,
                     arch->name);
    }
    st = impmem__field_u32(reading, IMPMEM__F_VOCAB, 1, MOST, &facts->vocab, &found);
    if (st || found) return st;
    impmem__value tokens = {.kind = IMPMEM__ABSENT};
    if (reading->keys.gguf) reading->keys.find(reading->keys.self, "tokenizer.ggml.tokens", &tokens);
    if (tokens.kind == IMPMEM__ARRAY && tokens.count > 0 && tokens.count <= MOST) {
        facts->vocab = (uint32_t)tokens.count;
        impmem__note(reading->model, "vocab: counted from tokenizer.ggml.tokens");
        return IMPMEM_OK;
    }
    if (arch->default_vocab == 0 || reading->keys.gguf) return impmem__missing(reading, IMPMEM__F_VOCAB);
    facts->vocab = arch->default_vocab;
    impmem__note(reading->model, "vocab_size: missing, %u is the published default of %s", facts->vocab, arch->name);
    return IMPMEM_OK;
}

static void copy_layers(impmem__facts *facts, uint32_t *to, const uint32_t *from)
{
    memcpy(to, from, facts->layers * sizeof *to);
}

/* Falcon and ChatGLM decide by a switch whether there is one KV head, a group count, or one per query head. */
static impmem_status read_switched_kv_heads(impmem__reading *reading, bool *done)
{
    impmem__facts *facts = &reading->facts;
    bool grouped = false, multi_query = true, found = false;
    impmem_status st = IMPMEM_OK;
    *done = true;
    if (has(reading, IMPMEM__A_GROUPED_MQ)) {
        st = impmem__key_bool(reading, "multi_query_attention", &grouped, &found);
        if (st || grouped || !found) {
            *done = false;
            return st;
        }
        copy_layers(facts, facts->kv_heads, facts->heads);
        return IMPMEM_OK;
    }
    st = impmem__key_bool(reading, "new_decoder_architecture", &grouped, NULL);
    if (!st) st = impmem__key_bool(reading, "multi_query", &multi_query, NULL);
    if (st || grouped) {
        *done = false;
        return st;
    }
    for (uint32_t i = 0; i < facts->layers; i++) facts->kv_heads[i] = multi_query ? 1 : facts->heads[i];
    return IMPMEM_OK;
}

static impmem_status read_kv_heads(impmem__reading *reading)
{
    impmem__facts *facts = &reading->facts;
    bool found = false, done = false;
    char name[128];
    impmem_status st = IMPMEM_OK;
    if (!reading->keys.gguf && has(reading, IMPMEM__A_GROUPED_MQ | IMPMEM__A_FALCON))
        st = read_switched_kv_heads(reading, &done);
    if (st || done) return st;
    st = impmem__field_layers(reading, IMPMEM__F_KV_HEADS, reading->keys.gguf ? 0 : 1, MOST_HEADS, facts->kv_heads, &found);
    if (st || found) return st;
    if (!reading->keys.gguf && !has(reading, IMPMEM__A_KV_IS_HEADS)) return impmem__missing(reading, IMPMEM__F_KV_HEADS);
    copy_layers(facts, facts->kv_heads, facts->heads);
    impmem__note(reading->model, "%s: missing, which means one per query head",
                 impmem__field_name(reading, IMPMEM__F_KV_HEADS, name, sizeof name));
    return IMPMEM_OK;
}

static impmem_status check_heads(const impmem__reading *reading)
{
    const impmem__facts *facts = &reading->facts;
    bool any = false;
    for (uint32_t i = 0; i < facts->layers; i++) {
        uint32_t heads = facts->heads[i], kv = facts->kv_heads[i];
        any = any || kv > 0;
        if (kv == 0) continue;
        if (kv > heads) return contradiction(reading, i, heads, kv, "no more KV heads than query heads");
        if (heads % kv) return contradiction(reading, i, heads, kv, "a multiple");
    }
    char name[128];
    if (any || reading->arch->mix != IMPMEM__MIX_NONE) return IMPMEM_OK;
    return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                          "key '%s': found 0 for every layer, expected a layer "
                          "with attention",
                          impmem__field_name(reading, IMPMEM__F_KV_HEADS, name, sizeof name));
}

static impmem_status read_heads(impmem__reading *reading)
{
    impmem__facts *facts = &reading->facts;
    bool found = false, use_mla = true;
    if (reading->arch->mix == IMPMEM__MIX_ALL) return IMPMEM_OK; /* what such a file says of heads is a filler */
    impmem_status st = impmem__field_layers(reading, IMPMEM__F_HEADS, reading->keys.gguf ? 0 : 1, MOST_HEADS, facts->heads,
                                            &found);
    if (st) return st;
    if (!found) return impmem__missing(reading, IMPMEM__F_HEADS);
    if (has(reading, IMPMEM__A_MLA)) st = impmem__key_bool(reading, "use_mla", &use_mla, NULL);
    if (st) return st;
    facts->latent = has(reading, IMPMEM__A_MLA) && use_mla;
    if (facts->latent) {
        /* One latent row serves all heads, so the key for KV heads says nothing here. */
        copy_layers(facts, facts->kv_heads, facts->heads);
    } else {
        if (!use_mla) impmem__note(reading->model, "use_mla: false, planned as plain attention");
        st = read_kv_heads(reading);
        if (st) return st;
    }
    return check_heads(reading);
}

static uint32_t most(const uint32_t *from, uint32_t n)
{
    uint32_t result = 0;
    for (uint32_t i = 0; i < n; i++) result = from[i] > result ? from[i] : result;
    return result;
}

static impmem_status derive_head_dim(impmem__reading *reading, impmem__field field, uint32_t *to)
{
    impmem__facts *facts = &reading->facts;
    uint32_t heads = most(facts->heads, facts->layers);
    char name[128];
    (void)impmem__field_name(reading, field, name, sizeof name);
    uint32_t value = reading->keys.gguf ? 0 : reading->arch->head_dim;
    if (heads == 0) return IMPMEM_OK;
    if (value > 0) {
        impmem__note(reading->model, "%s: missing, %u is the published default of %s", name, value, reading->arch->name);
    } else {
        if (facts->hidden % heads != 0) {
            return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                                  "key '%s': found nothing, and the hidden size "
                                  "%u is no multiple of %u heads, expected one of both",
                                  name, facts->hidden, heads);
        }
        value = facts->hidden / heads;
        impmem__note(reading->model, "%s: missing, taken as hidden size %u / %u heads = %u", name, facts->hidden, heads,
                     value);
    }
    for (uint32_t i = 0; i < facts->layers; i++) to[i] = value;
    return IMPMEM_OK;
}

/* Gemma 4: layers that see everything have other heads than those with a window. */
static impmem_status read_dual(impmem__reading *reading)
{
    impmem__facts *facts = &reading->facts;
    bool found = false;
    uint32_t k = 0, v = 0, kv = 0;
    if (reading->keys.gguf) {
        impmem_status st = impmem__field_u32(reading, IMPMEM__F_K_DIM_WINDOW, 1, MOST_HEAD_DIM, &k, &found);
        v = k;
        if (!st) st = impmem__field_u32(reading, IMPMEM__F_V_DIM_WINDOW, 1, MOST_HEAD_DIM, &v, NULL);
        for (uint32_t i = 0; i < facts->layers && !st && found; i++) {
            if (!facts->windowed[i]) continue;
            facts->k_dim[i] = k;
            facts->v_dim[i] = v;
        }
        return st;
    }
    impmem_status st = impmem__field_u32(reading, IMPMEM__F_K_DIM_GLOBAL, 1, MOST_HEAD_DIM, &k, &found);
    if (!st) st = impmem__key_bool(reading, "attention_k_eq_v", &facts->k_is_v, NULL);
    bool found_kv = false;
    if (!st && facts->k_is_v) st = impmem__field_u32(reading, IMPMEM__F_KV_HEADS_GLOBAL, 1, MOST_HEADS, &kv, &found_kv);
    if (st) return st;
    for (uint32_t i = 0; i < facts->layers; i++) {
        if (facts->windowed[i]) continue;
        if (found) facts->k_dim[i] = facts->v_dim[i] = k;
        if (!found_kv) continue;
        if (facts->heads[i] % kv) return contradiction(reading, i, facts->heads[i], kv, "a multiple");
        facts->kv_heads[i] = kv;
    }
    return IMPMEM_OK;
}

static impmem_status read_head_dims(impmem__reading *reading)
{
    impmem__facts *facts = &reading->facts;
    bool found = false;
    if (reading->arch->mix == IMPMEM__MIX_ALL) return IMPMEM_OK;
    impmem_status st = impmem__field_layers(reading, IMPMEM__F_K_DIM, 1, MOST_HEAD_DIM, facts->k_dim, &found);
    if (!st && !found) st = derive_head_dim(reading, IMPMEM__F_K_DIM, facts->k_dim);
    if (st) return st;
    if (!reading->keys.gguf || !found) {
        copy_layers(facts, facts->v_dim, facts->k_dim);
    } else {
        st = impmem__field_layers(reading, IMPMEM__F_V_DIM, 1, MOST_HEAD_DIM, facts->v_dim, &found);
        if (!st && !found) st = derive_head_dim(reading, IMPMEM__F_V_DIM, facts->v_dim);
    }
    if (!st && has(reading, IMPMEM__A_DUAL)) st = read_dual(reading);
    return st;
}

/* Latent attention: one row of kv_lora_rank + the rotary part a token, whatever the heads. */
static impmem_status read_latent(impmem__reading *reading)
{
    impmem__facts *facts = &reading->facts;
    bool found = false;
    impmem_status st = impmem__field_required(reading, IMPMEM__F_KV_LORA, 1, MOST, &facts->kv_lora);
    if (!st) st = impmem__field_required(reading, IMPMEM__F_ROPE_DIM, 1, MOST_HEAD_DIM, &facts->rope_dim);
    if (!st) st = impmem__field_u32(reading, IMPMEM__F_Q_LORA, 1, MOST, &facts->q_lora, NULL);
    if (!st) st = impmem__field_u32(reading, IMPMEM__F_NOPE_DIM, 1, MOST_HEAD_DIM, &facts->nope_dim, &found);
    if (!st) st = impmem__field_u32(reading, IMPMEM__F_MLA_V_DIM, 1, MOST_HEAD_DIM, &facts->mla_v_dim, NULL);
    if (!st && has(reading, IMPMEM__A_INDEXER)) {
        st = impmem__field_required(reading, IMPMEM__F_INDEX_DIM, 1, MOST_HEAD_DIM, &facts->index_dim);
        if (!st) st = impmem__field_u32(reading, IMPMEM__F_INDEX_HEADS, 1, MOST_HEADS, &facts->index_heads, NULL);
    }
    if (st) return st;
    uint32_t query = facts->nope_dim + facts->rope_dim;
    if (reading->keys.gguf) {
        bool found_mla = false;
        st = impmem__key_u32(reading, ".attention.key_length_mla", 1, MOST_HEAD_DIM, &query, &found_mla);
        if (!st && !found_mla) st = impmem__field_u32(reading, IMPMEM__F_K_DIM, 1, MOST_HEAD_DIM, &query, NULL);
        /* Older files state the expanded heads under the plain keys. */
        if (!st && !found_mla && facts->mla_v_dim == 0)
            st = impmem__field_u32(reading, IMPMEM__F_V_DIM, 1, MOST_HEAD_DIM, &facts->mla_v_dim, NULL);
        if (st) return st;
    } else if (!found) {
        return impmem__missing(reading, IMPMEM__F_NOPE_DIM);
    }
    for (uint32_t i = 0; i < facts->layers; i++) facts->k_dim[i] = facts->v_dim[i] = query;
    return IMPMEM_OK;
}

/* Which layers are mixtures of experts, for sizes only: the cache doesn't depend on it. */
static impmem_status read_moe_layers(impmem__reading *reading)
{
    impmem__facts *facts = &reading->facts;
    uint32_t step = 1;
    impmem_status st = impmem__field_u32(reading, IMPMEM__F_LEADING_DENSE, 0, IMPMEM_MAX_LAYERS, &facts->leading_dense,
                                         NULL);
    if (!st) st = impmem__field_u32(reading, IMPMEM__F_MOE_STEP, 1, IMPMEM_MAX_LAYERS, &step, NULL);
    bool from_zero = has(reading, IMPMEM__A_MLA), found = false;
    uint32_t offset = from_zero ? 0 : step - 1;
    if (!st) st = impmem__key_u32(reading, "expert_layer_period", 1, IMPMEM_MAX_LAYERS, &step, &found);
    if (!st && found) {
        offset = 0;
        st = impmem__key_u32(reading, "expert_layer_offset", 0, step - 1, &offset, NULL);
    }
    if (st) return st;
    for (uint32_t i = 0; i < facts->layers; i++) {
        facts->moe[i] = i >= facts->leading_dense && i % step == offset;
        if (facts->part[i]) facts->moe[i] = facts->part[i] == 'E';
    }
    impmem__value list;
    reading->keys.find(reading->keys.self, "mlp_only_layers", &list);
    for (uint64_t i = 0; list.kind == IMPMEM__ARRAY && i < list.count; i++) {
        uint32_t layer = 0;
        st = impmem__layer_index(reading, "mlp_only_layers", &list, i, &layer);
        if (st) return st;
        facts->moe[layer] = 0;
    }
    return IMPMEM_OK;
}

static impmem_status read_experts(impmem__reading *reading)
{
    impmem__facts *facts = &reading->facts;
    bool found = false, enabled = true;
    impmem_status st = impmem__key_bool(reading, "enable_moe_block", &enabled, NULL);
    if (!st) st = impmem__field_u32(reading, IMPMEM__F_EXPERTS, 0, MOST_HEADS, &facts->experts, &found);
    if (!enabled) facts->experts = 0;
    if (st || facts->experts == 0) return st;
    st = impmem__field_u32(reading, IMPMEM__F_EXPERTS_USED, 1, MOST_HEADS, &facts->experts_used, &found);
    if (st) return st;
    if (!found) {
        facts->experts_used = reading->keys.gguf ? 0 : reading->arch->default_experts_used;
        if (facts->experts_used == 0) return impmem__missing(reading, IMPMEM__F_EXPERTS_USED);
        impmem__note(reading->model, "num_experts_per_tok: missing, %u is the published default of %s", facts->experts_used,
                     reading->arch->name);
    }
    if (facts->experts_used > facts->experts) {
        return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                              "experts per token: found %u of %u experts, "
                              "expected no more than those",
                              facts->experts_used, facts->experts);
    }
    st = impmem__field_u32(reading, IMPMEM__F_EXPERT_FF, 1, MOST, &facts->expert_ff, &found);
    if (!st) st = impmem__field_u32(reading, IMPMEM__F_SHARED_EXPERTS, 0, MOST_HEADS, &facts->shared_experts, NULL);
    if (!st) st = impmem__field_u32(reading, IMPMEM__F_SHARED_FF, 0, MOST, &facts->shared_ff, NULL);
    if (!st) st = read_moe_layers(reading);
    if (st) return st;
    if (!found) {
        facts->expert_ff = most(facts->ff, facts->layers);
        if (facts->expert_ff == 0) return impmem__missing(reading, IMPMEM__F_EXPERT_FF);
        if (!has(reading, IMPMEM__A_EXPERT_IS_FF)) {
            impmem__note(reading->model, "experts' width: not stated apart, taken as the feed-forward width %u",
                         facts->expert_ff);
        }
    }
    if (facts->shared_ff == 0) {
        uint64_t shared = (uint64_t)facts->shared_experts * facts->expert_ff;
        facts->shared_ff = shared > MOST ? MOST : (uint32_t)shared;
    }
    if (has(reading, IMPMEM__A_SHARED_EXPERT_FF) && facts->shared_ff == 0) facts->shared_ff = facts->expert_ff;
    return IMPMEM_OK;
}

/* LFM2 states the width before it is cut to two thirds, scaled and rounded up. */
static impmem_status adjust_feed_forward(impmem__reading *reading)
{
    impmem__facts *facts = &reading->facts;
    bool adjust = false;
    uint32_t multiple = 256;
    impmem__value factor;
    impmem_status st = impmem__key_bool(reading, "block_auto_adjust_ff_dim", &adjust, NULL);
    if (!st) st = impmem__key_u32(reading, "block_multiple_of", 1, MOST_HEADS, &multiple, NULL);
    if (st || !adjust) return st;
    reading->keys.find(reading->keys.self, "block_ffn_dim_multiplier", &factor);
    const double scale = factor.kind == IMPMEM__REAL  ? factor.real
                         : factor.kind == IMPMEM__INT ? (double)factor.integer
                                                      : 1;
    if (!(scale > 0 && scale <= 16)) {
        return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                              "key 'block_ffn_dim_multiplier': found %g, expected more than 0 and at most 16", scale);
    }
    for (uint32_t i = 0; i < facts->layers; i++) {
        const uint64_t cut = (uint64_t)((double)(UINT64_C(2) * facts->ff[i] / 3) * scale);
        const uint64_t wide = (cut + multiple - 1) / multiple * multiple;
        facts->ff[i] = wide > MOST ? MOST : (uint32_t)wide;
    }
    impmem__note(reading->model, "feed-forward width: %u by block_auto_adjust_ff_dim", facts->ff[0]);
    return IMPMEM_OK;
}

static impmem_status read_feed_forward(impmem__reading *reading)
{
    impmem__facts *facts = &reading->facts;
    bool found = false, experts = false;
    if (has(reading, IMPMEM__A_NO_FEED_FORWARD)) return IMPMEM_OK;
    impmem_status st = impmem__field_layers(reading, IMPMEM__F_FEED_FORWARD, reading->keys.gguf ? 0 : 1, MOST, facts->ff,
                                            &found);
    if (st) return st;
    if (!found) {
        uint32_t unused = 0;
        st = impmem__field_u32(reading, IMPMEM__F_EXPERT_FF, 1, MOST, &unused, &experts);
        if (st) return st;
        if (!experts && !has(reading, IMPMEM__A_PLAIN_MLP)) return impmem__missing(reading, IMPMEM__F_FEED_FORWARD);
        if (!experts) {
            uint64_t wide = (uint64_t)facts->hidden * 4;
            for (uint32_t i = 0; i < facts->layers; i++) facts->ff[i] = wide > MOST ? MOST : (uint32_t)wide;
            impmem__note(reading->model, "feed-forward width: missing, 4 x hidden size by the definition of %s",
                         reading->arch->name);
        }
    }
    if (reading->arch->recurrent == IMPMEM_RECURRENT_SHORT_CONV) st = adjust_feed_forward(reading);
    if (!st) st = read_experts(reading);
    for (uint32_t i = 0; i < facts->layers && !st; i++) {
        if (facts->part[i] && facts->part[i] != '-') facts->ff[i] = 0;
    }
    if (!st && facts->experts == 0 && has(reading, IMPMEM__A_EXPERT_IS_FF)) {
        /* Without experts, Granite's shared one is the layer's feed-forward part. */
        uint32_t shared = 0;
        st = impmem__key_u32(reading, "shared_intermediate_size", 1, MOST, &shared, &found);
        for (uint32_t i = 0; i < facts->layers && found && !st; i++) facts->ff[i] = shared;
    }
    if (st || facts->experts == 0) return st;
    /* Llama 4 states its dense layers' width apart. */
    uint32_t dense = 0;
    st = impmem__field_u32(reading, IMPMEM__F_DENSE_FF, 1, MOST, &dense, &found);
    for (uint32_t i = 0; i < facts->layers && !st; i++) {
        if (facts->moe[i] && !has(reading, IMPMEM__A_DUAL)) facts->ff[i] = 0;
        else if (found) facts->ff[i] = dense;
    }
    return st;
}

/* GGUF counts the extra multi-token-prediction blocks as layers; they keep no cache in plain decoding. */
static impmem_status drop_nextn(impmem__reading *reading)
{
    impmem__facts *facts = &reading->facts;
    uint32_t extra = 0;
    impmem_status st = impmem__field_u32(reading, IMPMEM__F_NEXTN, 0, IMPMEM_MAX_LAYERS, &extra, NULL);
    if (st || extra == 0) return st;
    if (extra >= facts->layers && reading->keys.gguf) {
        return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                              "next-token prediction layers: found %u of %u layers, "
                              "expected fewer",
                              extra, facts->layers);
    }
    if (!reading->keys.gguf) {
        facts->draft_layers = extra; /* not among the layers */
        return IMPMEM_OK;
    }
    facts->layers -= extra;
    reading->model->shape.draft_layers = extra;
    impmem__note(reading->model, "layers: the last %u blocks predict further tokens and are left out of the cache", extra);
    return IMPMEM_OK;
}

impmem_status impmem__facts_read(impmem__reading *reading)
{
    impmem__facts *facts = &reading->facts;
    impmem_status st = read_sizes(reading);
    if (!st) st = read_heads(reading);
    if (!st) st = impmem__recurrent_read(reading);
    if (!st) st = impmem__windows_read(reading);
    if (!st) st = facts->latent ? read_latent(reading) : read_head_dims(reading);
    if (!st) st = read_feed_forward(reading);
    if (!st && has(reading, IMPMEM__A_SHARED_KV)) {
        bool found = false;
        st = impmem__field_u32(reading, IMPMEM__F_SHARED_KV_LAYERS, 0, IMPMEM_MAX_LAYERS, &facts->shared_kv_layers, &found);
        if (!st && !found && !has(reading, IMPMEM__A_DUAL)) st = impmem__missing(reading, IMPMEM__F_SHARED_KV_LAYERS);
    }
    if (!st && has(reading, IMPMEM__A_CROSS)) st = impmem__cross_read(reading);
    if (!st) st = drop_nextn(reading);
    facts->gated_query = has(reading, IMPMEM__A_GATED_QUERY);
    if (!st && facts->gated_query) st = impmem__key_bool(reading, "attn_output_gate", &facts->gated_query, NULL);
    return st;
}

/* The last layer of the same kind before the sharing ones, or the layer count. */
static uint32_t sharer_of(const impmem__facts *facts, uint32_t layer, uint32_t first_shared)
{
    for (uint32_t i = first_shared; i > 0; i--) {
        if (facts->windowed[i - 1] == facts->windowed[layer] && facts->kv_heads[i - 1] > 0) return i - 1;
    }
    return facts->layers;
}

impmem_status impmem__shape_fill(impmem__reading *reading)
{
    const impmem__facts *facts = &reading->facts;
    impmem_model_shape *shape = &reading->model->shape;
    uint32_t n = facts->layers;
    if (facts->shared_kv_layers >= n) {
        return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                              "layers that share KV: found %u of %u, expected "
                              "fewer",
                              facts->shared_kv_layers, n);
    }
    shape->n_layers = n;
    shape->d_model = facts->hidden;
    shape->n_heads = most(facts->heads, n);
    shape->head_dim = most(facts->k_dim, n);
    shape->feed_forward = most(facts->ff, n);
    shape->n_experts = facts->experts;
    shape->experts_per_token = facts->experts_used;
    shape->expert_feed_forward = facts->expert_ff;
    shape->vocab = facts->vocab;
    shape->trained_context = facts->context;
    shape->gated_query = facts->gated_query;
    shape->post_norm_f32 = has(reading, IMPMEM__A_POST_NORM);
    uint32_t first_shared = n - facts->shared_kv_layers;
    for (uint32_t i = 0; i < n; i++) {
        impmem_layer_shape *layer = &shape->layer[i];
        if (facts->recurrent[i]) {
            layer->recurrent = reading->arch->recurrent;
            layer->conv_kernel = facts->conv_kernel;
            layer->conv_channels = facts->conv_channels;
            layer->state_elements = facts->state_elements;
            layer->state_inner = facts->inner;
            layer->state_heads = facts->state_heads;
        }
        if (facts->kv_heads[i] == 0) continue;
        if (facts->latent) {
            layer->kind = IMPMEM_LAYER_LATENT;
            layer->kv_heads = 1;
            layer->k_dim = facts->kv_lora + facts->rope_dim;
            layer->latent_rank = facts->kv_lora;
            layer->latent_v_dim = facts->mla_v_dim;
            layer->index_dim = facts->index_dim;
            continue;
        }
        layer->kind = facts->windowed[i] ? IMPMEM_LAYER_WINDOW : IMPMEM_LAYER_FULL;
        layer->kv_heads = facts->kv_heads[i];
        layer->k_dim = facts->k_dim[i];
        layer->v_dim = facts->v_dim[i];
        layer->window_tokens = facts->windowed[i] ? facts->window : 0;
        if (facts->cross[i]) {
            layer->kind = IMPMEM_LAYER_CROSS;
            layer->cross_tokens = facts->cross_tokens;
        }
        if (i < first_shared) continue;
        uint32_t with = sharer_of(facts, i, first_shared);
        if (with == n) {
            return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                                  "layer %u shares KV: found no earlier layer of "
                                  "its kind among %u, expected one",
                                  i, first_shared);
        }
        layer->kind = IMPMEM_LAYER_SHARED;
        layer->shared_with = with;
    }
    return IMPMEM_OK;
}
