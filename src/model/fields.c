/* What the figures of a model are called in each format, and reading them with their bounds. Adding a key name is one
 * entry. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/internal.h"

/* GGUF names get the architecture in front; the first Hugging Face name that is there counts. */
static const struct {
    const char *gguf;
    const char *hf[5];
} names[IMPMEM__F_COUNT] = {
    [IMPMEM__F_LAYERS] = {".block_count", {"num_hidden_layers", "num_layers", "n_layer", "n_layers"}},
    [IMPMEM__F_HIDDEN] = {".embedding_length", {"hidden_size", "n_embd", "d_model"}},
    [IMPMEM__F_HEADS] = {".attention.head_count", {"num_attention_heads", "n_head", "n_heads"}},
    [IMPMEM__F_KV_HEADS] = {".attention.head_count_kv",
                            {"num_key_value_heads", "multi_query_group_num", "num_kv_heads", "n_head_kv"}},
    [IMPMEM__F_K_DIM] = {".attention.key_length", {"head_dim", "kv_channels", "attention_head_dim"}},
    [IMPMEM__F_V_DIM] = {".attention.value_length", {NULL}},
    [IMPMEM__F_K_DIM_WINDOW] = {".attention.key_length_swa", {NULL}},
    [IMPMEM__F_V_DIM_WINDOW] = {".attention.value_length_swa", {NULL}},
    [IMPMEM__F_K_DIM_GLOBAL] = {NULL, {"global_head_dim"}},
    [IMPMEM__F_KV_HEADS_GLOBAL] = {NULL, {"num_global_key_value_heads"}},
    [IMPMEM__F_FEED_FORWARD] = {".feed_forward_length",
                                {"intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "block_ff_dim"}},
    [IMPMEM__F_CONTEXT] = {".context_length",
                           {"max_position_embeddings", "seq_length", "n_positions", "max_sequence_length"}},
    [IMPMEM__F_VOCAB] = {".vocab_size", {"vocab_size", "padded_vocab_size"}},
    [IMPMEM__F_EXPERTS] = {".expert_count", {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"}},
    [IMPMEM__F_EXPERTS_USED] = {".expert_used_count",
                                {"num_experts_per_tok", "experts_per_token", "top_k_experts", "moe_k"}},
    [IMPMEM__F_EXPERT_FF] = {".expert_feed_forward_length", {"moe_intermediate_size", "expert_intermediate_size"}},
    [IMPMEM__F_SHARED_EXPERTS] = {".expert_shared_count", {"n_shared_experts", "moe_num_shared_experts"}},
    [IMPMEM__F_SHARED_FF] = {".expert_shared_feed_forward_length",
                             {"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
                              "shared_intermediate_size"}},
    [IMPMEM__F_LEADING_DENSE] = {".leading_dense_block_count", {"first_k_dense_replace", "num_dense_layers"}},
    [IMPMEM__F_MOE_STEP] = {".interleave_moe_layer_step",
                            {"interleave_moe_layer_step", "decoder_sparse_step", "moe_layer_freq"}},
    [IMPMEM__F_DENSE_FF] = {NULL, {"intermediate_size_mlp"}},
    [IMPMEM__F_WINDOW] = {".attention.sliding_window", {"sliding_window"}},
    [IMPMEM__F_WINDOW_PATTERN] = {".attention.sliding_window_pattern",
                                  {"sliding_window_pattern", "_sliding_window_pattern"}},
    [IMPMEM__F_CHUNK] = {".attention.chunk_size", {"attention_chunk_size"}},
    [IMPMEM__F_Q_LORA] = {".attention.q_lora_rank", {"q_lora_rank"}},
    [IMPMEM__F_KV_LORA] = {".attention.kv_lora_rank", {"kv_lora_rank"}},
    [IMPMEM__F_ROPE_DIM] = {".rope.dimension_count", {"qk_rope_head_dim"}},
    [IMPMEM__F_NOPE_DIM] = {NULL, {"qk_nope_head_dim"}},
    [IMPMEM__F_MLA_V_DIM] = {".attention.value_length_mla", {"v_head_dim"}},
    [IMPMEM__F_SHARED_KV_LAYERS] = {".attention.shared_kv_layers", {"num_kv_shared_layers"}},
    [IMPMEM__F_NEXTN] = {".nextn_predict_layers", {"num_nextn_predict_layers", "mtp_num_hidden_layers"}},
    [IMPMEM__F_INNER] = {".ssm.inner_size", {"mamba_d_ssm"}},
    [IMPMEM__F_GROUPS] = {".ssm.group_count", {"n_groups", "mamba_n_groups"}},
    [IMPMEM__F_RANK] = {".ssm.time_step_rank", {"time_step_rank", "mamba_dt_rank"}},
    [IMPMEM__F_STATE_HEADS] = {".ssm.time_step_rank", {"mamba_num_heads", "mamba_n_heads"}},
    [IMPMEM__F_STATE_HEAD_DIM] = {NULL, {"mamba_head_dim", "mamba_d_head"}},
    [IMPMEM__F_INTERVAL] = {".full_attention_interval", {"full_attention_interval"}},
    [IMPMEM__F_INDEX_DIM] = {".attention.indexer.key_length", {"index_head_dim"}},
    [IMPMEM__F_INDEX_HEADS] = {".attention.indexer.head_count", {"index_n_heads"}},
};

static void full_name(const impmem__reading *reading, const char *name, char *to, size_t bytes)
{
    (void)snprintf(to, bytes, "%.60s%s", name[0] == '.' ? reading->keys.prefix : "", name);
}

const char *impmem__field_name(const impmem__reading *reading, impmem__field field, char *name, size_t name_bytes)
{
    const char *first = reading->keys.gguf ? names[field].gguf : names[field].hf[0];
    full_name(reading, first ? first : "(none)", name, name_bytes);
    return name;
}

void impmem__field_find(const impmem__reading *reading, impmem__field field, impmem__value *out, char *name,
                        size_t name_bytes)
{
    memset(out, 0, sizeof *out);
    (void)impmem__field_name(reading, field, name, name_bytes);
    if (reading->keys.gguf) {
        if (names[field].gguf) reading->keys.find(reading->keys.self, names[field].gguf, out);
        return;
    }
    for (size_t i = 0; i < sizeof names[field].hf / sizeof *names[field].hf && names[field].hf[i]; i++) {
        reading->keys.find(reading->keys.self, names[field].hf[i], out);
        if (out->kind == IMPMEM__ABSENT && !out->null) continue;
        full_name(reading, names[field].hf[i], name, name_bytes);
        return;
    }
}

void impmem__describe(const impmem__value *value, char *to, size_t bytes)
{
    switch (value->kind) {
    case IMPMEM__ABSENT: (void)snprintf(to, bytes, "nothing"); break;
    case IMPMEM__INT: (void)snprintf(to, bytes, "%" PRId64, value->integer); break;
    case IMPMEM__BOOL: (void)snprintf(to, bytes, "%s", value->integer ? "true" : "false"); break;
    case IMPMEM__REAL: (void)snprintf(to, bytes, "the number %g", value->real); break;
    case IMPMEM__TEXT: (void)snprintf(to, bytes, "string \"%.40s\"", value->text ? value->text : ""); break;
    case IMPMEM__ARRAY: (void)snprintf(to, bytes, "an array of %" PRIu64, value->count); break;
    case IMPMEM__OBJECT: (void)snprintf(to, bytes, "an object"); break;
    }
}

static impmem_status bad_value(const impmem__reading *reading, const char *name, const char *place,
                               const impmem__value *value, uint32_t min, uint32_t max, const char *extra)
{
    char found[80];
    impmem__describe(value, found, sizeof found);
    bool gguf = reading->keys.gguf;
    char at[40] = "";
    if (gguf) (void)snprintf(at, sizeof at, " at byte %" PRIu64, value->offset);
    return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, gguf ? value->offset : IMPMEM__NO_OFFSET,
                          "key '%s'%s%s: found %s, expected an integer from %u to %u%s", name, place, at, found, min, max,
                          extra);
}

static impmem_status check_int(const impmem__reading *reading, const char *name, const char *place,
                               const impmem__value *value, uint32_t min, uint32_t max, uint32_t *out)
{
    if (value->kind != IMPMEM__INT || value->integer < (int64_t)min || value->integer > (int64_t)max) {
        return bad_value(reading, name, place, value, min, max, "");
    }
    *out = (uint32_t)value->integer;
    return IMPMEM_OK;
}

bool impmem__field_is_null(const impmem__reading *reading, impmem__field field)
{
    impmem__value value;
    char name[128];
    impmem__field_find(reading, field, &value, name, sizeof name);
    return value.null;
}

impmem_status impmem__field_u32(impmem__reading *reading, impmem__field field, uint32_t min, uint32_t max, uint32_t *out,
                                bool *found)
{
    impmem__value value;
    char name[128];
    impmem__field_find(reading, field, &value, name, sizeof name);
    if (found) *found = value.kind != IMPMEM__ABSENT;
    if (value.kind == IMPMEM__ABSENT) return IMPMEM_OK;
    return check_int(reading, name, "", &value, min, max, out);
}

impmem_status impmem__layer_index(const impmem__reading *reading, const char *name, const impmem__value *list,
                                  uint64_t index, uint32_t *out)
{
    impmem__value item;
    char what[80];
    reading->keys.item(list, index, &item);
    if (item.kind == IMPMEM__INT && item.integer >= 0 && item.integer < (int64_t)reading->facts.layers) {
        *out = (uint32_t)item.integer;
        return IMPMEM_OK;
    }
    impmem__describe(&item, what, sizeof what);
    return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                          "key '%s%s[%" PRIu64 "]': found %s, expected a layer from 0 to %u",
                          reading->keys.gguf ? reading->keys.prefix : "", name, index, what, reading->facts.layers - 1);
}

impmem_status impmem__missing(const impmem__reading *reading, impmem__field field)
{
    char name[128];
    const bool null = impmem__field_is_null(reading, field);
    return impmem__refuse(&reading->diag, IMPMEM_ERR_MISSING_KEY, IMPMEM__NO_OFFSET,
                          "key '%s': found %s, expected it for architecture '%s'",
                          impmem__field_name(reading, field, name, sizeof name), null ? "null or NaN" : "nothing",
                          reading->model->shape.architecture);
}

impmem_status impmem__field_required(impmem__reading *reading, impmem__field field, uint32_t min, uint32_t max,
                                     uint32_t *out)
{
    bool found = false;
    impmem_status st = impmem__field_u32(reading, field, min, max, out, &found);
    if (st || found) return st;
    return impmem__missing(reading, field);
}

impmem_status impmem__field_layers(impmem__reading *reading, impmem__field field, uint32_t min, uint32_t max, uint32_t *out,
                                   bool *found)
{
    impmem__value value;
    char name[128];
    impmem__field_find(reading, field, &value, name, sizeof name);
    *found = value.kind != IMPMEM__ABSENT;
    if (!*found) return IMPMEM_OK;
    uint32_t n = reading->facts.layers;
    if (value.kind != IMPMEM__ARRAY) {
        uint32_t scalar = 0;
        impmem_status st = check_int(reading, name, "", &value, min, max, &scalar);
        for (uint32_t i = 0; i < n && !st; i++) out[i] = scalar;
        return st;
    }
    if (value.count != n) return bad_value(reading, name, "", &value, min, max, ", or one such entry a layer");
    for (uint32_t i = 0; i < n; i++) {
        impmem__value item;
        char place[24];
        (void)snprintf(place, sizeof place, "[%u]", i);
        reading->keys.item(&value, i, &item);
        item.offset = value.offset;
        impmem_status st = check_int(reading, name, place, &item, min, max, &out[i]);
        if (st) return st;
    }
    return IMPMEM_OK;
}

impmem_status impmem__key_bool(impmem__reading *reading, const char *name, bool *out, bool *found)
{
    impmem__value value;
    reading->keys.find(reading->keys.self, name, &value);
    if (found) *found = value.kind != IMPMEM__ABSENT;
    if (value.kind == IMPMEM__ABSENT) return IMPMEM_OK;
    if (value.kind == IMPMEM__BOOL) {
        *out = value.integer != 0;
        return IMPMEM_OK;
    }
    char what[80];
    impmem__describe(&value, what, sizeof what);
    return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                          "key '%s': found %s, expected true or false", name, what);
}

impmem_status impmem__key_u32(impmem__reading *reading, const char *name, uint32_t min, uint32_t max, uint32_t *out,
                              bool *found)
{
    impmem__value value;
    reading->keys.find(reading->keys.self, name, &value);
    if (found) *found = value.kind != IMPMEM__ABSENT;
    if (value.kind == IMPMEM__ABSENT) return IMPMEM_OK;
    char full[128];
    full_name(reading, name, full, sizeof full);
    return check_int(reading, full, "", &value, min, max, out);
}

/* Which of the keys of a plain transformer an unknown architecture lacks: what to tell its maintainer. */
static void list_missing(const impmem__reading *reading, char *to, size_t bytes)
{
    static const impmem__field general[] = {IMPMEM__F_LAYERS, IMPMEM__F_HIDDEN, IMPMEM__F_HEADS, IMPMEM__F_KV_HEADS,
                                            IMPMEM__F_VOCAB};
    size_t used = 0;
    to[0] = '\0';
    for (size_t i = 0; i < sizeof general / sizeof *general; i++) {
        impmem__value value;
        char name[128];
        impmem__field_find(reading, general[i], &value, name, sizeof name);
        if (value.kind != IMPMEM__ABSENT) continue;
        int n = snprintf(to + used, bytes - used, "%s%s", used ? ", " : "", name);
        if (n < 0 || (size_t)n >= bytes - used) break;
        used += (size_t)n;
    }
    if (used == 0) (void)snprintf(to, bytes, "none");
}

impmem_status impmem__arch_check(impmem__reading *reading, const char *name)
{
    if (reading->arch && !reading->arch->refusal) return IMPMEM_OK;
    if (reading->arch) {
        return impmem__refuse(&reading->diag, IMPMEM_ERR_UNKNOWN_ARCHITECTURE, IMPMEM__NO_OFFSET,
                              "architecture '%.48s': %s", name, reading->arch->refusal);
    }
    char missing[160];
    list_missing(reading, missing, sizeof missing);
    return impmem__refuse(&reading->diag, IMPMEM_ERR_UNKNOWN_ARCHITECTURE, IMPMEM__NO_OFFSET,
                          "architecture '%.48s': found no rule for its "
                          "cache, expected one of the list in docs/models.md; of a plain transformer's keys it lacks: %s",
                          name, missing);
}
