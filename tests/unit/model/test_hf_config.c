/* config.json into a shape: every figure held to its range, windows, latent and dual geometry, nesting, odd JSON. */
#define _GNU_SOURCE
#include "unit/model/model_test.h"

#define BASE                                                                                                               \
    "\"hidden_size\": 64, \"intermediate_size\": 256, \"num_hidden_layers\": 4, \"vocab_size\": 1000, "                    \
    "\"torch_dtype\": \"bfloat16\", \"max_position_embeddings\": 4096"
#define HEADS ", \"num_attention_heads\": 4, \"num_key_value_heads\": 2"
#define CONFIG(type, rest) "{\"model_type\": \"" type "\", " BASE HEADS rest "}"

static uint32_t kinds(const impmem_model *model, uint32_t kind)
{
    const impmem_model_shape *s = impmem_model_shape_of(model);
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_layers; i++) n += s->layer[i].kind == kind;
    return n;
}

static void expect_windows(const char *text, uint32_t n, uint32_t tokens)
{
    impmem_model *model = read_json(text);
    assert_int_equal(kinds(model, IMPMEM_LAYER_WINDOW), n);
    assert_int_equal(kinds(model, IMPMEM_LAYER_FULL), impmem_model_shape_of(model)->n_layers - n);
    const impmem_model_shape *s = impmem_model_shape_of(model);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        assert_int_equal(s->layer[i].window_tokens, s->layer[i].kind == IMPMEM_LAYER_WINDOW ? tokens : 0);
    }
    impmem_model_destroy(model);
}

static void a_plain_config_is_read_with_its_notes(void **state)
{
    (void)state;
    impmem_model *model = read_json(CONFIG("llama", ""));
    const impmem_model_shape *s = impmem_model_shape_of(model);
    assert_string_equal(s->architecture, "llama");
    assert_string_equal(impmem_model_format(model), "config.json");
    assert_int_equal(s->n_layers, 4);
    assert_int_equal(s->d_model, 64);
    assert_int_equal(s->n_heads, 4);
    assert_int_equal(s->head_dim, 16);
    assert_int_equal(s->feed_forward, 256);
    assert_int_equal(s->vocab, 1000);
    assert_int_equal(s->trained_context, 4096);
    assert_int_equal(s->layer[3].kv_heads, 2);
    assert_int_equal(s->weight_source, IMPMEM_SOURCE_ESTIMATED);
    /* two embeddings, four layers of attention, MLP and two norms, one last norm, two bytes each */
    uint64_t layer = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 256 + 2 * 64;
    assert_int_equal(s->weight_bytes, 2 * (2 * 1000 * 64 + 4 * layer + 64));
    assert_int_equal(s->largest_weight_elements, 64 * 256);
    assert_int_equal(s->embedding_bytes, 2 * 1000 * 64);
    assert_int_equal(s->output_bytes, 2 * 1000 * 64);
    assert_int_equal(s->tied_embeddings, 0);
    assert_true(has_note(model, "head_dim: missing, taken as hidden size 64 / 4 heads = 16"));
    assert_true(has_note(model, "estimated from geometry"));
    impmem_model_destroy(model);
}

static void every_integer_is_held_to_its_range(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "num_hidden_layers",   "hidden_size",         "intermediate_size", "vocab_size",
        "num_attention_heads", "num_key_value_heads", "head_dim",          "max_position_embeddings"};
    static const char *const values[] = {"-1",   "0",   "1.5", "\"64\"", "2147483648", "9223372036854775807",
                                         "true", "[4]", "{}",  "4e0"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            char text[1024] = "{\"model_type\": \"qwen3\"";
            for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
                static const char *const good[] = {"4", "64", "256", "1000", "4", "2", "16", "4096"};
                size_t used = strlen(text);
                (void)snprintf(text + used, sizeof text - used, ", \"%s\": %s", keys[i], i == k ? values[v] : good[i]);
            }
            (void)strcat(text, "}");
            expect_json_refused(text, IMPMEM_ERR_BAD_VALUE, keys[k]);
        }
    }
}

static void nan_and_infinity_read_as_null_and_only_outside_strings(void **state)
{
    (void)state;
    impmem_model *model = read_json("{\"model_type\": \"llama\", \"a\": [NaN, Infinity, -Infinity, 0.5], "
                                    "\"_name_or_path\": \"x/NaN -Infinity \\\"NaN\","
                                    " " BASE HEADS "}");
    assert_string_equal(impmem_model_shape_of(model)->name, "NaN -Infinity \"NaN");
    impmem_model_destroy(model);
    expect_json_refused("{\"model_type\": \"llama\", \"num_hidden_layers\": NaN}", IMPMEM_ERR_MISSING_KEY,
                        "'num_hidden_layers'");
}

static void numbers_beyond_json_and_broken_json_are_refused_with_the_line(void **state)
{
    (void)state;
    expect_json_refused("{\"model_type\": \"llama\",\n \"hidden_size\": 99999999999999999999}", IMPMEM_ERR_BAD_FORMAT,
                        "line 2, column 36, key 'hidden_size': too big integer");
    expect_json_refused("{\"model_type\": \"llama\", \"hidden_size\": 1e999}", IMPMEM_ERR_BAD_FORMAT, "key 'hidden_size'");
    expect_json_refused("{\"model_type\": \"llama\", \"heads\": [8, 99999999999999999999]}", IMPMEM_ERR_BAD_FORMAT,
                        "key 'heads': too big integer");
    expect_json_refused("[99999999999999999999]", IMPMEM_ERR_BAD_FORMAT, "key '': too big integer");
    expect_json_refused("{\"model_type\": \"llama\",}", IMPMEM_ERR_BAD_FORMAT, "JSON at line 1");
    expect_json_refused("{\"model_type\": \"llama\"", IMPMEM_ERR_TRUNCATED, "JSON at line 1");
    expect_json_refused("[1]", IMPMEM_ERR_BAD_FORMAT, "no object at the top");
    expect_json_refused("{\"model_type\": \"llama\"} trailing", IMPMEM_ERR_BAD_FORMAT, "JSON at line 1");
    expect_json_refused("{\"model_type\": \"ll\xff\"}", IMPMEM_ERR_BAD_FORMAT, "JSON at line 1");
    expect_json_refused("{\"model_type\": \"a\", \"model_type\": \"b\"}", IMPMEM_ERR_BAD_FORMAT, "duplicate");
}

static void nesting_and_size_are_bounded(void **state)
{
    (void)state;
    char text[400] = "{\"a\": ";
    for (int i = 0; i < 64; i++) (void)strcat(text, "[");
    for (int i = 0; i < 64; i++) (void)strcat(text, "]");
    (void)strcat(text, "}");
    expect_json_refused(text, IMPMEM_ERR_TOO_LARGE, "found values 65 deep, expected at most 64");
    const char *path = scratch_path("config.json");
    write_file(path, "{", 1);
    assert_int_equal(truncate(path, (16 << 20) + 1), 0);
    expect_path_refused(path, IMPMEM_ERR_TOO_LARGE, "expected at most 16777216");
}

static void missing_keys_are_named(void **state)
{
    (void)state;
    expect_json_refused("{}", IMPMEM_ERR_MISSING_KEY, "'model_type'");
    expect_json_refused("{\"model_type\": 7}", IMPMEM_ERR_MISSING_KEY, "'model_type'");
    expect_json_refused("{\"model_type\": \"llama\"}", IMPMEM_ERR_MISSING_KEY, "'num_hidden_layers'");
    expect_json_refused("{\"model_type\": \"llama\", " BASE "}", IMPMEM_ERR_MISSING_KEY, "'num_attention_heads'");
    /* an architecture whose definition gives no default for KV heads */
    expect_json_refused("{\"model_type\": \"mixtral\", " BASE ", \"num_attention_heads\": 4}", IMPMEM_ERR_MISSING_KEY,
                        "'num_key_value_heads'");
    impmem_model *model = read_json("{\"model_type\": \"llama\", " BASE ", \"num_attention_heads\": 4}");
    assert_int_equal(impmem_model_shape_of(model)->layer[0].kv_heads, 4);
    assert_true(has_note(model, "num_key_value_heads: missing, which means one per query head"));
    impmem_model_destroy(model);
}

static void contradictions_are_refused_with_both_figures(void **state)
{
    (void)state;
    expect_json_refused("{\"model_type\": \"llama\", " BASE ", \"num_attention_heads\": 4, \"num_key_value_heads\": 3}",
                        IMPMEM_ERR_BAD_VALUE, "found 4 query heads for 3 KV heads, expected a multiple");
    expect_json_refused("{\"model_type\": \"llama\", " BASE ", \"num_attention_heads\": 4, \"num_key_value_heads\": 8}",
                        IMPMEM_ERR_BAD_VALUE, "found 4 query heads for 8 KV heads");
    expect_json_refused("{\"model_type\": \"llama\", " BASE ", \"num_attention_heads\": 5, \"num_key_value_heads\": 5}",
                        IMPMEM_ERR_BAD_VALUE, "64 is no multiple of 5 heads");
    expect_json_refused(CONFIG("olmo3", ", \"sliding_window\": 8, \"layer_types\": [\"full_attention\"]"),
                        IMPMEM_ERR_BAD_VALUE, "'layer_types': found an array of 1, expected an array of 4");
    expect_json_refused(CONFIG("olmo3", ", \"layer_types\": \"full\""), IMPMEM_ERR_BAD_VALUE, "'layer_types'");
    expect_json_refused(CONFIG("mixtral", ", \"num_local_experts\": 4, \"num_experts_per_tok\": 5"), IMPMEM_ERR_BAD_VALUE,
                        "found 5 of 4 experts");
    expect_json_refused(CONFIG("qwen3_moe", ", \"num_experts\": 4, \"num_experts_per_tok\": 2, \"mlp_only_layers\": [4]"),
                        IMPMEM_ERR_BAD_VALUE, "'mlp_only_layers[0]': found 4, expected a layer from 0 to 3");
    expect_json_refused("{\"model_type\": \"llama\", \"num_hidden_layers\": 513}", IMPMEM_ERR_TOO_LARGE,
                        "found 513, expected at most 512");
}

static void dense_layers_among_experts_keep_their_width(void **state)
{
    (void)state;
#define MOE ", \"num_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 32"
    static const struct {
        const char *text;
        uint32_t dense; /* layers */
    } mixed[] = {{CONFIG("qwen3_moe", MOE), 0},
                 {CONFIG("qwen3_moe", MOE ", \"mlp_only_layers\": [1, 2]"), 2},
                 {CONFIG("qwen3_moe", MOE ", \"decoder_sparse_step\": 2"), 2},
                 {CONFIG("glm4_moe", MOE ", \"first_k_dense_replace\": 3"), 3}};
    for (size_t i = 0; i < sizeof mixed / sizeof *mixed; i++) {
        impmem_model *model = read_json(mixed[i].text);
        assert_int_equal(impmem_model_shape_of(model)->feed_forward, mixed[i].dense ? 256 : 0);
        assert_int_equal(impmem_model_shape_of(model)->expert_feed_forward, 32);
        impmem_model_destroy(model);
    }
    impmem_model *model = read_json(CONFIG("qwen3_moe", ", \"num_experts\": 4, \"num_experts_per_tok\": 2"));
    assert_int_equal(impmem_model_shape_of(model)->expert_feed_forward, 256);
    assert_true(has_note(model, "taken as the feed-forward width 256"));
    impmem_model_destroy(model);
}

static void a_window_that_is_off_is_off(void **state)
{
    (void)state;
    expect_windows(CONFIG("qwen2", ", \"sliding_window\": 100, \"use_sliding_window\": false, \"max_window_layers\": 1"), 0,
                   0);
    expect_windows(CONFIG("qwen2", ", \"sliding_window\": null, \"use_sliding_window\": true, \"max_window_layers\": 1"), 0,
                   0);
    expect_windows(CONFIG("qwen2", ", \"sliding_window\": 100, \"use_sliding_window\": true, \"max_window_layers\": 1"), 3,
                   100);
    expect_windows(CONFIG("qwen2", ", \"sliding_window\": 100, \"use_sliding_window\": true, \"max_window_layers\": 9"), 0,
                   0);
    expect_json_refused(CONFIG("qwen2", ", \"sliding_window\": 100, \"use_sliding_window\": true"), IMPMEM_ERR_MISSING_KEY,
                        "'max_window_layers'");
    expect_json_refused(CONFIG("qwen2", ", \"sliding_window\": 100, \"use_sliding_window\": 1"), IMPMEM_ERR_BAD_VALUE,
                        "'use_sliding_window': found 1, expected true or false");
    expect_windows(CONFIG("mistral", ", \"sliding_window\": null"), 0, 0);
    expect_windows(CONFIG("mistral", ""), 0, 0);
    expect_windows(CONFIG("gemma2", ", \"sliding_window\": null"), 0, 0);
}

static void windows_follow_each_architecture(void **state)
{
    (void)state;
    expect_windows(CONFIG("mistral", ", \"sliding_window\": 4095"), 4, 4095);
    expect_windows(CONFIG("gemma2", ", \"sliding_window\": 100"), 2, 100);
    expect_windows(CONFIG("gemma3_text", ", \"sliding_window\": 100, \"sliding_window_pattern\": 2"), 2, 100);
    expect_windows(CONFIG("gemma3_text", ", \"sliding_window\": 100"), 4, 100); /* the first full one would be the sixth */
    expect_windows(CONFIG("gpt_oss", ""), 2, 128);
    expect_windows(CONFIG("cohere2", ", \"sliding_window\": 100"), 3, 100);
    expect_windows(CONFIG("olmo3", ", \"sliding_window\": 100, \"layer_types\": [\"full_attention\", \"sliding_attention\","
                                   " \"full_attention\", \"full_attention\"]"),
                   1, 100);
    expect_windows(CONFIG("llama4_text", ", \"attention_chunk_size\": 64, \"no_rope_layers\": [1, 0, 1, 1]"), 3, 64);
    expect_windows(CONFIG("llama4_text", ", \"attention_chunk_size\": 64, \"no_rope_layer_interval\": 2"), 2, 64);
    expect_windows(CONFIG("llama4_text", ", \"attention_chunk_size\": null"), 0, 0);
    expect_windows(CONFIG("llama4_text", ", \"attention_chunk_size\": 64, \"layer_types\": [\"chunked_attention\","
                                         " \"full_attention\", \"full_attention\", \"full_attention\"]"),
                   1, 64);
    expect_json_refused(CONFIG("llama4_text", ", \"attention_chunk_size\": 64, \"no_rope_layers\": [1, 0]"),
                        IMPMEM_ERR_BAD_VALUE, "'no_rope_layers'");
    expect_json_refused(CONFIG("mistral", ", \"sliding_window\": 0"), IMPMEM_ERR_BAD_VALUE, "'sliding_window'");
    expect_json_refused(CONFIG("olmo3", ", \"layer_types\": [\"sliding_attention\", \"full_attention\", \"full_attention\","
                                        " \"full_attention\"]"),
                        IMPMEM_ERR_MISSING_KEY, "'sliding_window'");
    expect_json_refused(CONFIG("olmo3", ", \"layer_types\": [\"linear_attention\", \"full_attention\", \"full_attention\","
                                        " \"full_attention\"]"),
                        IMPMEM_ERR_UNKNOWN_ARCHITECTURE, "'layer_types[0]': found string \"linear_attention\"");
}

static void a_window_beyond_the_context_stays_a_window_with_a_note(void **state)
{
    (void)state;
    impmem_model *model = read_json(CONFIG("phi3", ", \"sliding_window\": 262144"));
    assert_int_equal(kinds(model, IMPMEM_LAYER_WINDOW), 4);
    assert_true(has_note(model, "262144 is no shorter than the trained context, 4096"));
    impmem_model_destroy(model);
}

#define LATENT "{\"model_type\": \"deepseek_v3\", " BASE HEADS ", \"qk_nope_head_dim\": 12, \"v_head_dim\": 10, "

static void latent_attention_needs_its_ranks(void **state)
{
    (void)state;
    impmem_model *model = read_json(LATENT "\"kv_lora_rank\": 512, \"qk_rope_head_dim\": 64, \"q_lora_rank\": null}");
    const impmem_model_shape *s = impmem_model_shape_of(model);
    assert_int_equal(kinds(model, IMPMEM_LAYER_LATENT), 4);
    assert_int_equal(s->layer[0].k_dim, 576);
    assert_int_equal(s->layer[0].v_dim, 0);
    assert_int_equal(s->head_dim, 12 + 64);
    assert_int_equal(s->layer[0].latent_rank, 512);
    assert_int_equal(s->layer[0].latent_v_dim, 10);
    impmem_model_destroy(model);
    expect_json_refused(LATENT "\"qk_rope_head_dim\": 64}", IMPMEM_ERR_MISSING_KEY, "'kv_lora_rank'");
    expect_json_refused(LATENT "\"kv_lora_rank\": null, \"qk_rope_head_dim\": 64}", IMPMEM_ERR_MISSING_KEY,
                        "'kv_lora_rank'");
    expect_json_refused(LATENT "\"kv_lora_rank\": 512}", IMPMEM_ERR_MISSING_KEY, "'qk_rope_head_dim'");
    expect_json_refused("{\"model_type\": \"deepseek_v3\", " BASE HEADS ", \"kv_lora_rank\": 8, \"qk_rope_head_dim\": 8}",
                        IMPMEM_ERR_MISSING_KEY, "'qk_nope_head_dim'");
    /* switched off: plain attention */
    model = read_json("{\"model_type\": \"deepseek_v2\", " BASE HEADS ", \"use_mla\": false, \"kv_lora_rank\": null}");
    assert_int_equal(kinds(model, IMPMEM_LAYER_FULL), 4);
    assert_int_equal(impmem_model_shape_of(model)->layer[0].kv_heads, 2);
    impmem_model_destroy(model);
}

static void gemma_4_full_layers_have_their_own_heads(void **state)
{
    (void)state;
    impmem_model *model = read_json(
        CONFIG("gemma4_text", ", \"head_dim\": 16, \"global_head_dim\": 32, \"attention_k_eq_v\": true, "
                              "\"num_global_key_value_heads\": 1, \"sliding_window\": 100, \"layer_types\": "
                              "[\"sliding_attention\", \"sliding_attention\", \"sliding_attention\", \"full_attention\"]"));
    const impmem_model_shape *s = impmem_model_shape_of(model);
    assert_int_equal(s->layer[0].kv_heads, 2);
    assert_int_equal(s->layer[0].k_dim, 16);
    assert_int_equal(s->layer[3].kv_heads, 1);
    assert_int_equal(s->layer[3].k_dim, 32);
    assert_int_equal(s->layer[3].v_dim, 32);
    impmem_model_destroy(model);
    expect_json_refused(
        CONFIG("gemma4_text", ", \"head_dim\": 16, \"attention_k_eq_v\": true, \"num_global_key_value_heads\": 3"),
        IMPMEM_ERR_BAD_VALUE, "found 4 query heads for 3 KV heads");
}

static void nested_language_models_are_found(void **state)
{
    (void)state;
    static const char *const names[] = {"text_config", "language_config", "llm_config"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[1024];
        (void)snprintf(text, sizeof text,
                       "{\"model_type\": \"outer_vl\", \"hidden_size\": 9, \"%s\": " CONFIG("llama", "") "}", names[i]);
        impmem_model *model = read_json(text);
        assert_int_equal(impmem_model_shape_of(model)->d_model, 64);
        assert_string_equal(impmem_model_shape_of(model)->architecture, "llama");
        impmem_model_destroy(model);
    }
    impmem_model *model = read_json("{\"model_type\": \"gemma3\", \"vision_config\": {}, \"text_config\": {" BASE HEADS
                                    ", \"sliding_window\": 8}}");
    assert_true(has_note(model, "vision_config states no width"));
    impmem_model_destroy(model);
    expect_json_refused("{\"model_type\": \"gemma3\", \"text_config\": 3}", IMPMEM_ERR_BAD_VALUE, "'text_config'");
}

static void switched_kv_heads_follow_their_switch(void **state)
{
    (void)state;
    static const struct {
        const char *rest;
        uint32_t kv;
    } falcon[] = {{", \"multi_query\": true", 1},
                  {", \"multi_query\": false", 4},
                  {"", 1},
                  {", \"new_decoder_architecture\": true, \"num_kv_heads\": 2", 2}};
    for (size_t i = 0; i < sizeof falcon / sizeof *falcon; i++) {
        char text[600];
        (void)snprintf(text, sizeof text, "{\"model_type\": \"falcon\", " BASE ", \"num_attention_heads\": 4%s}",
                       falcon[i].rest);
        impmem_model *model = read_json(text);
        assert_int_equal(impmem_model_shape_of(model)->layer[0].kv_heads, falcon[i].kv);
        impmem_model_destroy(model);
    }
    expect_json_refused("{\"model_type\": \"falcon\", " BASE
                        ", \"num_attention_heads\": 4, \"new_decoder_architecture\": true}",
                        IMPMEM_ERR_MISSING_KEY, "'num_key_value_heads'");
    for (int grouped = 0; grouped < 2; grouped++) {
        char text[600];
        (void)snprintf(text, sizeof text,
                       "{\"model_type\": \"chatglm\", \"num_layers\": 4, \"hidden_size\": 64, \"ffn_hidden_size\": 256, "
                       "\"padded_vocab_size\": 1000, \"num_attention_heads\": 4, \"kv_channels\": 16, "
                       "\"multi_query_attention\": %s, \"multi_query_group_num\": 2}",
                       grouped ? "true" : "false");
        impmem_model *model = read_json(text);
        assert_int_equal(impmem_model_shape_of(model)->layer[0].kv_heads, grouped ? 2 : 4);
        impmem_model_destroy(model);
    }
}

static void published_defaults_are_used_only_with_a_note(void **state)
{
    (void)state;
    impmem_model *model = read_json("{\"model_type\": \"gemma3_text\", \"hidden_size\": 64, \"intermediate_size\": 256, "
                                    "\"num_hidden_layers\": 4" HEADS ", \"sliding_window\": 8}");
    const impmem_model_shape *s = impmem_model_shape_of(model);
    assert_int_equal(s->vocab, 262208);
    assert_int_equal(s->trained_context, 131072);
    assert_int_equal(s->head_dim, 256);
    assert_true(has_note(model, "vocab_size: missing, 262208 is the published default of gemma3"));
    assert_true(has_note(model, "max_position_embeddings: missing, 131072"));
    assert_true(has_note(model, "head_dim: missing, 256"));
    assert_true(has_note(model, "torch_dtype is missing"));
    impmem_model_destroy(model);
}

static void refused_architectures_give_their_true_reason(void **state)
{
    (void)state;
    expect_json_refused(CONFIG("rwkv7", ""), IMPMEM_ERR_UNKNOWN_ARCHITECTURE, "recurrent layers (rwkv)");
    expect_json_refused(CONFIG("zamba2", ""), IMPMEM_ERR_UNKNOWN_ARCHITECTURE, "that several layers share");
    expect_json_refused(CONFIG("modernbert", ""), IMPMEM_ERR_UNKNOWN_ARCHITECTURE, "an encoder");
    expect_json_refused(CONFIG("fantasy", ""), IMPMEM_ERR_UNKNOWN_ARCHITECTURE, "'fantasy': found no rule for its cache");
    expect_json_refused("{\"model_type\": \"fantasy\"}", IMPMEM_ERR_UNKNOWN_ARCHITECTURE,
                        "it lacks: num_hidden_layers, hidden_size");
    expect_json_refused(CONFIG("llama", ", \"is_encoder_decoder\": true"), IMPMEM_ERR_UNKNOWN_ARCHITECTURE,
                        "is_encoder_decoder");
    expect_json_refused(CONFIG("whisper", ""), IMPMEM_ERR_UNKNOWN_ARCHITECTURE, "cross-attention");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_config_is_read_with_its_notes),
        cmocka_unit_test(every_integer_is_held_to_its_range),
        cmocka_unit_test(nan_and_infinity_read_as_null_and_only_outside_strings),
        cmocka_unit_test(numbers_beyond_json_and_broken_json_are_refused_with_the_line),
        cmocka_unit_test(nesting_and_size_are_bounded),
        cmocka_unit_test(missing_keys_are_named),
        cmocka_unit_test(contradictions_are_refused_with_both_figures),
        cmocka_unit_test(dense_layers_among_experts_keep_their_width),
        cmocka_unit_test(a_window_that_is_off_is_off),
        cmocka_unit_test(windows_follow_each_architecture),
        cmocka_unit_test(a_window_beyond_the_context_stays_a_window_with_a_note),
        cmocka_unit_test(latent_attention_needs_its_ranks),
        cmocka_unit_test(gemma_4_full_layers_have_their_own_heads),
        cmocka_unit_test(nested_language_models_are_found),
        cmocka_unit_test(switched_kv_heads_follow_their_switch),
        cmocka_unit_test(published_defaults_are_used_only_with_a_note),
        cmocka_unit_test(refused_architectures_give_their_true_reason),
    };
    return cmocka_run_group_tests_name("model.hf_config", tests, scratch_open, scratch_close);
}
