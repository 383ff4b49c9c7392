/* Layers with a state of fixed size: which they are and how large it is, in both formats, and every way to get them
 * wrong. The formulas: a convolution keeps kernel - 1 columns of its channels; Mamba convolves d_inner channels and keeps
 * d_inner x d_state, Mamba-2 convolves d_inner + 2 x groups x d_state, a gated delta net queries, keys and values. */
#define _GNU_SOURCE
#include "unit/model/model_test.h"

typedef struct state_shape {
    uint32_t kind, kernel, channels;
    uint64_t elements;
} state_shape;

/* `layers`: one letter each: s a state, a attention, b both, - neither. */
static void expect_layers(impmem_model *model, const char *layers, state_shape expected)
{
    const impmem_model_shape *s = impmem_model_shape_of(model);
    assert_int_equal(s->n_layers, strlen(layers));
    for (uint32_t i = 0; i < s->n_layers; i++) {
        const impmem_layer_shape *layer = &s->layer[i];
        const bool keeps = layers[i] == 's' || layers[i] == 'b', attends = layers[i] == 'a' || layers[i] == 'b';
        if ((layer->recurrent != IMPMEM_RECURRENT_NONE) != keeps || (layer->kind == IMPMEM_LAYER_FULL) != attends)
            fail_msg("layer %u of %s: kind %u, recurrent %u", i, layers, layer->kind, layer->recurrent);
        if (!attends) assert_int_equal(layer->kind, IMPMEM_LAYER_NO_ATTENTION);
        if (!keeps) continue;
        assert_int_equal(layer->recurrent, expected.kind);
        assert_int_equal(layer->conv_kernel, expected.kernel);
        assert_int_equal(layer->conv_channels, expected.channels);
        assert_int_equal(layer->state_elements, expected.elements);
    }
    impmem_model_destroy(model);
}

/* ---- Hugging Face ---- */

#define BASE "\"hidden_size\": 64, \"num_hidden_layers\": 4, \"vocab_size\": 1000, \"torch_dtype\": \"bfloat16\""
#define HEADS ", \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"intermediate_size\": 128"
#define CONFIG(type, rest) "{\"model_type\": \"" type "\", " BASE rest "}"
#define HYBRID(type, rest) CONFIG(type, HEADS rest)
#define MAMBA1 ", \"mamba_d_state\": 16, \"mamba_d_conv\": 4, \"mamba_expand\": 2"
#define MAMBA2                                                                                                             \
    ", \"mamba_n_heads\": 8, \"mamba_d_head\": 16, \"mamba_d_state\": 32, \"mamba_n_groups\": 2, \"mamba_d_conv\": 4, "    \
    "\"mamba_expand\": 2"
#define DELTA                                                                                                              \
    ", \"linear_num_key_heads\": 2, \"linear_num_value_heads\": 4, \"linear_key_head_dim\": 8, "                           \
    "\"linear_value_head_dim\": 16, \"linear_conv_kernel_dim\": 4, \"head_dim\": 16"
#define NEMOTRON                                                                                                           \
    ", \"mamba_num_heads\": 6, \"mamba_head_dim\": 8, \"ssm_state_size\": 32, \"n_groups\": 2, \"conv_kernel\": 4, "       \
    "\"expand\": 2, \"head_dim\": 16"

static const state_shape mamba1 = {IMPMEM_RECURRENT_MAMBA, 4, 128, 128 * 16};
static const state_shape mamba2 = {IMPMEM_RECURRENT_MAMBA2, 4, 128 + 2 * 2 * 32, 128 * 32};
static const state_shape delta = {IMPMEM_RECURRENT_DELTA_NET, 4, 2 * 2 * 8 + 4 * 16, 4 * 8 * 16};
static const state_shape nemotron = {IMPMEM_RECURRENT_MAMBA2, 4, 48 + 2 * 2 * 32, 48 * 32};

static void models_without_attention_keep_a_state_in_every_layer(void **state)
{
    (void)state;
    expect_layers(read_json(CONFIG("mamba", ", \"state_size\": 16, \"expand\": 2, \"conv_kernel\": 4")), "ssss", mamba1);
    /* A stated inner size goes before the expansion. */
    expect_layers(read_json(CONFIG("falcon_mamba", ", \"state_size\": 16, \"expand\": 9, \"intermediate_size\": 128, "
                                                   "\"conv_kernel\": 4, \"time_step_rank\": \"auto\"")),
                  "ssss", mamba1);
    expect_layers(read_json(CONFIG("mamba2", ", \"state_size\": 32, \"expand\": 2, \"num_heads\": 8, \"head_dim\": 16, "
                                             "\"n_groups\": 2, \"conv_kernel\": 4")),
                  "ssss", mamba2);
    impmem_model *model = read_json(CONFIG("mamba2", ", \"state_size\": 32, \"expand\": 2, \"conv_kernel\": 4"));
    assert_true(has_note(model, "n_groups: missing, 1 is the published default of mamba2"));
    assert_int_equal(impmem_model_shape_of(model)->n_heads, 0);
    expect_layers(model, "ssss", (state_shape){IMPMEM_RECURRENT_MAMBA2, 4, 128 + 2 * 32, 128 * 32});
}

static void falcon_h1_attends_and_keeps_a_state_in_every_layer(void **state)
{
    (void)state;
    expect_layers(read_json(HYBRID("falcon_h1", MAMBA2 ", \"mamba_d_ssm\": 128")), "bbbb", mamba2);
}

static void lists_periods_and_patterns_say_which_layers_attend(void **state)
{
    (void)state;
    expect_layers(read_json(HYBRID("jamba", MAMBA1 ", \"attn_layer_period\": 4, \"attn_layer_offset\": 2")), "ssas",
                  mamba1);
    expect_layers(read_json(HYBRID("jamba", MAMBA1 ", \"layers_block_type\": [\"attention\", \"mamba\", \"mamba\", "
                                                   "\"attention\"]")),
                  "assa", mamba1);
    expect_layers(read_json(HYBRID("bamba", MAMBA2 ", \"attn_layer_indices\": [1]")), "sass", mamba2);
    expect_layers(read_json(HYBRID("granitemoehybrid", MAMBA2 ", \"layer_types\": [\"mamba\", \"attention\", \"mamba\", "
                                                              "\"mamba\"]")),
                  "sass", mamba2);
    expect_layers(
        read_json(HYBRID("bamba", ", \"attn_layer_indices\": [], \"mamba_n_heads\": 8, \"mamba_d_head\": \"auto\", "
                                  "\"mamba_d_state\": 32, \"mamba_n_groups\": 2, \"mamba_d_conv\": 4, "
                                  "\"mamba_expand\": 2")),
        "ssss", mamba2);
    expect_layers(read_json(HYBRID("qwen3_5", DELTA ", \"layer_types\": [\"full_attention\", \"linear_attention\", "
                                                    "\"linear_attention\", \"full_attention\"]")),
                  "assa", delta);
    expect_layers(read_json(HYBRID("qwen3_next", DELTA ", \"full_attention_interval\": 2")), "sasa", delta);
    impmem_model *model = read_json(HYBRID("qwen3_next", DELTA));
    assert_true(has_note(model, "full_attention_interval: missing, 4 is the published default of qwen3next"));
    expect_layers(model, "sssa", delta);
    const state_shape conv = {IMPMEM_RECURRENT_SHORT_CONV, 3, 64, 0};
    expect_layers(read_json(HYBRID("lfm2", ", \"conv_L_cache\": 3, \"full_attn_idxs\": [0, 2]")), "asas", conv);
    expect_layers(read_json(HYBRID("lfm2_moe", ", \"conv_L_cache\": 3, \"layer_types\": [\"conv\", \"full_attention\", "
                                               "\"conv\", \"conv\"], \"num_experts\": 4, \"num_experts_per_tok\": 2, "
                                               "\"moe_intermediate_size\": 32, \"num_dense_layers\": 2")),
                  "sass", conv);
}

static void a_layer_of_nemotron_is_one_part_only(void **state)
{
    (void)state;
    impmem_model *model = read_json(HYBRID("nemotron_h", NEMOTRON ", \"hybrid_override_pattern\": \"M-*M\""));
    assert_int_equal(impmem_model_shape_of(model)->feed_forward, 128);
    /* Embedding, head and final norm; per Mamba-2 layer 6 heads of 8 in 2 groups of 32; two matrices of the MLP. */
    const uint64_t channels = 48 + 2 * 2 * 32, mamba = 64 * (48 + channels + 6) + 5 * channels + 3 * 6 + 48 + 48 * 64;
    const uint64_t total = 2 * 1000 * 64 + 64 + 4 * 64 + 2 * mamba + 2 * 64 * 128 + 2 * 64 * 64 + 2 * 64 * 32;
    assert_int_equal(impmem_model_shape_of(model)->weight_bytes, 2 * total);
    expect_layers(model, "s-as", nemotron);
    model = read_json(HYBRID("nemotron_h", NEMOTRON
                             ", \"layers_block_type\": [\"mamba\", \"moe\", \"attention\", \"mlp\"], "
                             "\"n_routed_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 32"));
    assert_int_equal(impmem_model_shape_of(model)->expert_feed_forward, 32);
    assert_int_equal(impmem_model_shape_of(model)->feed_forward, 128);
    expect_layers(model, "s-a-", nemotron);
}

static void the_query_of_a_gated_attention_is_marked(void **state)
{
    (void)state;
    impmem_model *model = read_json(HYBRID("qwen3_5", DELTA));
    assert_int_equal(impmem_model_shape_of(model)->gated_query, 1);
    impmem_model_destroy(model);
    model = read_json(HYBRID("qwen3_5", DELTA ", \"attn_output_gate\": false"));
    assert_int_equal(impmem_model_shape_of(model)->gated_query, 0);
    impmem_model_destroy(model);
    model = read_json(HYBRID("qwen3", ""));
    assert_int_equal(impmem_model_shape_of(model)->gated_query, 0);
    impmem_model_destroy(model);
}

static void the_short_widths_of_lfm2_and_granite_are_taken_as_their_models_do(void **state)
{
    (void)state;
    /* Two thirds of 600 are 400, times 1.5 are 600, up to the next multiple of 256. */
    impmem_model *model = read_json(CONFIG("lfm2", ", \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
                                                   "\"conv_L_cache\": 3, \"full_attn_idxs\": [1], \"block_ff_dim\": 600, "
                                                   "\"block_auto_adjust_ff_dim\": true, \"block_ffn_dim_multiplier\": 1.5, "
                                                   "\"block_multiple_of\": 256"));
    assert_int_equal(impmem_model_shape_of(model)->feed_forward, 768);
    impmem_model_destroy(model);
    expect_json_refused(HYBRID("lfm2",
                               ", \"conv_L_cache\": 3, \"full_attn_idxs\": [1], \"block_auto_adjust_ff_dim\": true, "
                               "\"block_ffn_dim_multiplier\": -1"),
                        IMPMEM_ERR_BAD_VALUE, "'block_ffn_dim_multiplier': found -1");
    model = read_json(HYBRID("granitemoehybrid",
                             MAMBA2 ", \"layer_types\": [\"mamba\", \"mamba\", \"mamba\", \"attention\"], "
                                    "\"num_local_experts\": 0, \"shared_intermediate_size\": 96"));
    assert_int_equal(impmem_model_shape_of(model)->feed_forward, 96);
    assert_int_equal(impmem_model_shape_of(model)->n_experts, 0);
    impmem_model_destroy(model);
}

static void experts_follow_their_own_period(void **state)
{
    (void)state;
    /* Layers 1 and 3 have experts, layers 0 and 2 a dense part of the same width: embedding, head, norms, mixers aside,
     * 2 x (router + 4 experts) + 2 dense. */
    const char *dense = HYBRID("jamba", MAMBA1 ", \"attn_layer_period\": 4, \"attn_layer_offset\": 2");
    const char *mixed = HYBRID("jamba", MAMBA1 ", \"attn_layer_period\": 4, \"attn_layer_offset\": 2, \"num_experts\": 4, "
                                               "\"num_experts_per_tok\": 2, \"expert_layer_period\": 2, "
                                               "\"expert_layer_offset\": 1");
    impmem_model *a = read_json(dense), *b = read_json(mixed);
    const uint64_t one = 3 * 64 * 128;
    assert_int_equal(impmem_model_shape_of(b)->weight_bytes - impmem_model_shape_of(a)->weight_bytes,
                     2 * (2 * (4 * 64 + 3 * one)));
    impmem_model_destroy(a);
    impmem_model_destroy(b);
}

static void what_contradicts_itself_or_is_missing_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        impmem_status status;
        const char *words;
    } bad[] = {
        {CONFIG("mamba", ", \"state_size\": 16, \"expand\": 2"), IMPMEM_ERR_MISSING_KEY, "'conv_kernel'"},
        {CONFIG("mamba", ", \"conv_kernel\": 4, \"expand\": 2"), IMPMEM_ERR_MISSING_KEY, "'state_size'"},
        {CONFIG("mamba", ", \"conv_kernel\": 4, \"state_size\": 16"), IMPMEM_ERR_MISSING_KEY, "'expand'"},
        {CONFIG("mamba", ", \"conv_kernel\": 0, \"state_size\": 16, \"expand\": 2"), IMPMEM_ERR_BAD_VALUE,
         "'conv_kernel': found 0"},
        {CONFIG("mamba", ", \"conv_kernel\": 4, \"state_size\": -1, \"expand\": 2"), IMPMEM_ERR_BAD_VALUE,
         "'state_size': found -1"},
        {CONFIG("mamba", ", \"conv_kernel\": 4, \"state_size\": 16, \"expand\": 2, \"time_step_rank\": \"many\""),
         IMPMEM_ERR_BAD_VALUE, "'time_step_rank': found string \"many\""},
        {CONFIG("mamba2", ", \"conv_kernel\": 4, \"state_size\": 16, \"expand\": 2, \"num_heads\": 7"),
         IMPMEM_ERR_BAD_VALUE, "found 128 rows for 7 heads"},
        {CONFIG("mamba2", ", \"conv_kernel\": 4, \"state_size\": 16, \"num_heads\": 65535, \"head_dim\": 65535"),
         IMPMEM_ERR_BAD_VALUE, "65535 x 65535 heads x head dimension"},
        {CONFIG("mamba2", ", \"conv_kernel\": 4, \"state_size\": 65535, \"n_groups\": 65535, \"expand\": 2"),
         IMPMEM_ERR_BAD_VALUE, "channels of the convolution"},
        {HYBRID("jamba", ", \"attn_layer_period\": 4, \"attn_layer_offset\": 1, \"mamba_d_conv\": 4"),
         IMPMEM_ERR_MISSING_KEY, "'mamba_d_state'"},
        {HYBRID("falcon_h1", MAMBA2 ", \"mamba_d_ssm\": 100"), IMPMEM_ERR_BAD_VALUE, "found 100 rows for 8 heads of 16"},
        {HYBRID("jamba", MAMBA1), IMPMEM_ERR_MISSING_KEY, "which layers attend"},
        {HYBRID("jamba", MAMBA1 ", \"attn_layer_period\": 4, \"attn_layer_offset\": 4"), IMPMEM_ERR_BAD_VALUE,
         "'attn_layer_offset': found 4"},
        {HYBRID("bamba", MAMBA2 ", \"attn_layer_indices\": [4]"), IMPMEM_ERR_BAD_VALUE, "'attn_layer_indices[0]': found 4"},
        {HYBRID("bamba", MAMBA2 ", \"attn_layer_indices\": [1, \"2\"]"), IMPMEM_ERR_BAD_VALUE, "'attn_layer_indices[1]'"},
        {HYBRID("granitemoehybrid", MAMBA2 ", \"layer_types\": [\"mamba\"]"), IMPMEM_ERR_BAD_VALUE,
         "'layer_types': found 1 entries, expected one for each of 4 layers"},
        {HYBRID("granitemoehybrid", MAMBA2 ", \"layer_types\": [\"mamba\", \"mamba\", \"mamba\", \"rwkv\"]"),
         IMPMEM_ERR_BAD_VALUE, "'layer_types[3]': found string \"rwkv\""},
        {HYBRID("nemotron_h", NEMOTRON), IMPMEM_ERR_MISSING_KEY, "'hybrid_override_pattern'"},
        {HYBRID("nemotron_h", NEMOTRON ", \"hybrid_override_pattern\": \"M-*\""), IMPMEM_ERR_BAD_VALUE, "found 3 entries"},
        {HYBRID("nemotron_h", NEMOTRON ", \"hybrid_override_pattern\": \"M-*X\""), IMPMEM_ERR_BAD_VALUE,
         "found 'X' for layer 3"},
        {HYBRID("nemotron_h", NEMOTRON ", \"layers_block_type\": [\"mamba\", \"mamba\", \"mamba\", \"conv?\"]"),
         IMPMEM_ERR_BAD_VALUE, "'layers_block_type[3]'"},
        {HYBRID("qwen3_5", ", \"linear_conv_kernel_dim\": 4"), IMPMEM_ERR_MISSING_KEY, "'linear_num_key_heads'"},
        {HYBRID("qwen3_5", ", \"linear_conv_kernel_dim\": 4, \"linear_num_key_heads\": 3, \"linear_key_head_dim\": 8, "
                           "\"linear_num_value_heads\": 4, \"linear_value_head_dim\": 8"),
         IMPMEM_ERR_BAD_VALUE, "found 4 for 3 key heads"},
        {HYBRID("qwen3_5", DELTA ", \"full_attention_interval\": 0"), IMPMEM_ERR_BAD_VALUE, "'full_attention_interval'"},
        {HYBRID("lfm2", ", \"full_attn_idxs\": [1]"), IMPMEM_ERR_MISSING_KEY, "'conv_L_cache'"},
        {HYBRID("llama", ", \"layer_types\": [\"mamba\", \"mamba\", \"mamba\", \"mamba\"]"),
         IMPMEM_ERR_UNKNOWN_ARCHITECTURE, "'layer_types[0]'"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) expect_json_refused(bad[i].text, bad[i].status, bad[i].words);
}

/* ---- GGUF ---- */

static void named(gguf *g, const char *arch, const char *name, uint32_t value)
{
    char full[96];
    (void)snprintf(full, sizeof full, "%s%s", arch, name);
    key_u32(g, full, value);
}

/* Four layers, hidden size 64, no heads yet. */
static gguf hybrid(const char *arch)
{
    gguf g;
    memset(&g, 0, sizeof g);
    key_text(&g, "general.architecture", arch);
    named(&g, arch, ".block_count", 4);
    named(&g, arch, ".embedding_length", 64);
    named(&g, arch, ".context_length", 2048);
    named(&g, arch, ".vocab_size", 100);
    return g;
}

static void with_heads(gguf *g, const char *arch, const uint32_t kv[4])
{
    char full[96];
    named(g, arch, ".attention.head_count", 4);
    (void)snprintf(full, sizeof full, "%s.attention.head_count_kv", arch);
    if (kv) key_array_u32(g, full, kv, 4);
    else key_u32(g, full, 2);
}

static void with_state(gguf *g, const char *arch, uint32_t groups)
{
    named(g, arch, ".ssm.conv_kernel", 4);
    named(g, arch, ".ssm.inner_size", 128);
    named(g, arch, ".ssm.state_size", 16);
    named(g, arch, ".ssm.time_step_rank", 8);
    if (groups) named(g, arch, ".ssm.group_count", groups);
}

static void a_gguf_without_attention_needs_no_heads(void **state)
{
    (void)state;
    gguf g = hybrid("mamba");
    named(&g, "mamba", ".attention.head_count", 0);
    named(&g, "mamba", ".feed_forward_length", 0);
    with_state(&g, "mamba", 0);
    expect_layers(read_bytes(finish(&g)), "ssss", (state_shape){IMPMEM_RECURRENT_MAMBA, 4, 128, 128 * 16});
    g = hybrid("mamba2");
    with_state(&g, "mamba2", 2);
    expect_layers(read_bytes(finish(&g)), "ssss", (state_shape){IMPMEM_RECURRENT_MAMBA2, 4, 128 + 2 * 2 * 16, 128 * 16});
    g = hybrid("mamba2");
    with_state(&g, "mamba2", 0);
    expect_refused(finish(&g), IMPMEM_ERR_MISSING_KEY, "'mamba2.ssm.group_count'", UINT64_MAX);
}

static void kv_heads_of_zero_mark_the_states_of_a_gguf(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        uint32_t kind, groups;
    } kinds[] = {{"jamba", IMPMEM_RECURRENT_MAMBA, 0},
                 {"plamo2", IMPMEM_RECURRENT_MAMBA, 0},
                 {"granitehybrid", IMPMEM_RECURRENT_MAMBA2, 2},
                 {"qwen3next", IMPMEM_RECURRENT_DELTA_NET, 2},
                 {"qwen35", IMPMEM_RECURRENT_DELTA_NET, 2}};
    static const uint32_t kv[4] = {0, 2, 0, 0};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        gguf g = hybrid(kinds[i].arch);
        with_heads(&g, kinds[i].arch, kv);
        with_state(&g, kinds[i].arch, kinds[i].groups);
        named(&g, kinds[i].arch, ".feed_forward_length", 128);
        expect_layers(read_bytes(finish(&g)), "sass",
                      (state_shape){kinds[i].kind, 4, 128 + 2 * kinds[i].groups * 16, 128 * 16});
    }
    gguf g = hybrid("jamba");
    with_heads(&g, "jamba", NULL);
    with_state(&g, "jamba", 0);
    named(&g, "jamba", ".feed_forward_length", 128);
    expect_refused(finish(&g), IMPMEM_ERR_MISSING_KEY, "which layers attend: found KV heads in every layer", UINT64_MAX);
}

static void a_delta_net_of_a_gguf_follows_its_interval(void **state)
{
    (void)state;
    /* Key figures of a published file: inner 4096 = 32 value heads of 128, 16 groups, state 128; the ninth block, a
     * prediction block, is no layer. */
    gguf g;
    memset(&g, 0, sizeof g);
    key_text(&g, "general.architecture", "qwen35moe");
    named(&g, "qwen35moe", ".block_count", 9);
    named(&g, "qwen35moe", ".embedding_length", 2048);
    named(&g, "qwen35moe", ".vocab_size", 100);
    named(&g, "qwen35moe", ".attention.head_count", 16);
    named(&g, "qwen35moe", ".attention.head_count_kv", 2);
    named(&g, "qwen35moe", ".attention.key_length", 256);
    named(&g, "qwen35moe", ".attention.value_length", 256);
    named(&g, "qwen35moe", ".expert_count", 8);
    named(&g, "qwen35moe", ".expert_used_count", 2);
    named(&g, "qwen35moe", ".expert_feed_forward_length", 512);
    named(&g, "qwen35moe", ".full_attention_interval", 4);
    named(&g, "qwen35moe", ".nextn_predict_layers", 1);
    named(&g, "qwen35moe", ".ssm.conv_kernel", 4);
    named(&g, "qwen35moe", ".ssm.inner_size", 4096);
    named(&g, "qwen35moe", ".ssm.state_size", 128);
    named(&g, "qwen35moe", ".ssm.group_count", 16);
    named(&g, "qwen35moe", ".ssm.time_step_rank", 32);
    impmem_model *model = read_bytes(finish(&g));
    assert_int_equal(impmem_model_shape_of(model)->draft_layers, 1);
    assert_int_equal(impmem_model_shape_of(model)->gated_query, 1);
    expect_layers(model, "sssasssa", (state_shape){IMPMEM_RECURRENT_DELTA_NET, 4, 8192, 32 * 128 * 128});
}

static void other_hybrids_of_a_gguf(void **state)
{
    (void)state;
    gguf g = hybrid("falcon-h1");
    with_heads(&g, "falcon-h1", NULL);
    with_state(&g, "falcon-h1", 1);
    named(&g, "falcon-h1", ".feed_forward_length", 128);
    expect_layers(read_bytes(finish(&g)), "bbbb", (state_shape){IMPMEM_RECURRENT_MAMBA2, 4, 128 + 2 * 16, 128 * 16});

    static const uint32_t kv[4] = {0, 0, 2, 0}, ff[4] = {0, 96, 0, 0};
    g = hybrid("nemotron_h");
    with_heads(&g, "nemotron_h", kv);
    key_array_u32(&g, "nemotron_h.feed_forward_length", ff, 4);
    with_state(&g, "nemotron_h", 2);
    expect_layers(read_bytes(finish(&g)), "s-as", (state_shape){IMPMEM_RECURRENT_MAMBA2, 4, 128 + 2 * 2 * 16, 128 * 16});

    g = hybrid("lfm2");
    with_heads(&g, "lfm2", kv);
    named(&g, "lfm2", ".feed_forward_length", 128);
    named(&g, "lfm2", ".shortconv.l_cache", 3);
    expect_layers(read_bytes(finish(&g)), "ssas", (state_shape){IMPMEM_RECURRENT_SHORT_CONV, 3, 64, 0});
    g = hybrid("lfm2");
    with_heads(&g, "lfm2", kv);
    named(&g, "lfm2", ".feed_forward_length", 128);
    expect_refused(finish(&g), IMPMEM_ERR_MISSING_KEY, "'lfm2.shortconv.l_cache'", UINT64_MAX);
}

static void an_indexer_of_a_gguf_keeps_its_key(void **state)
{
    (void)state;
    for (int with = 0; with < 2; with++) {
        gguf g = hybrid("deepseek32");
        with_heads(&g, "deepseek32", NULL);
        named(&g, "deepseek32", ".feed_forward_length", 128);
        named(&g, "deepseek32", ".attention.kv_lora_rank", 32);
        named(&g, "deepseek32", ".rope.dimension_count", 8);
        named(&g, "deepseek32", ".attention.key_length_mla", 24);
        if (with) named(&g, "deepseek32", ".attention.indexer.key_length", 48);
        if (!with) {
            expect_refused(finish(&g), IMPMEM_ERR_MISSING_KEY, "'deepseek32.attention.indexer.key_length'", UINT64_MAX);
            continue;
        }
        impmem_model *model = read_bytes(finish(&g));
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(impmem_model_shape_of(model)->layer[i].kind, IMPMEM_LAYER_LATENT);
            assert_int_equal(impmem_model_shape_of(model)->layer[i].k_dim, 40);
            assert_int_equal(impmem_model_shape_of(model)->layer[i].index_dim, 48);
        }
        impmem_model_destroy(model);
    }
    expect_json_refused(HYBRID("glm_moe_dsa", ", \"kv_lora_rank\": 32, \"qk_rope_head_dim\": 8, \"qk_nope_head_dim\": 8, "
                                              "\"v_head_dim\": 8"),
                        IMPMEM_ERR_MISSING_KEY, "'index_head_dim'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_without_attention_keep_a_state_in_every_layer),
        cmocka_unit_test(falcon_h1_attends_and_keeps_a_state_in_every_layer),
        cmocka_unit_test(lists_periods_and_patterns_say_which_layers_attend),
        cmocka_unit_test(a_layer_of_nemotron_is_one_part_only),
        cmocka_unit_test(the_query_of_a_gated_attention_is_marked),
        cmocka_unit_test(the_short_widths_of_lfm2_and_granite_are_taken_as_their_models_do),
        cmocka_unit_test(experts_follow_their_own_period),
        cmocka_unit_test(what_contradicts_itself_or_is_missing_is_refused),
        cmocka_unit_test(a_gguf_without_attention_needs_no_heads),
        cmocka_unit_test(kv_heads_of_zero_mark_the_states_of_a_gguf),
        cmocka_unit_test(a_delta_net_of_a_gguf_follows_its_interval),
        cmocka_unit_test(other_hybrids_of_a_gguf),
        cmocka_unit_test(an_indexer_of_a_gguf_keeps_its_key),
    };
    return cmocka_run_group_tests_name("model.recurrent", tests, scratch_open, scratch_close);
}
