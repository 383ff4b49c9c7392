/* Vision towers of configs: geometry, tokens of an image, parameters, and layers that attend to an image. Totals are the
 * published parameter counts of models whose text part is counted exactly elsewhere. */
#define _GNU_SOURCE
#include "unit/model/model_test.h"

#define TEXT(type)                                                                                                         \
    "\"text_config\": {\"model_type\": \"" type "\", \"hidden_size\": 64, \"intermediate_size\": 128, "                    \
    "\"num_hidden_layers\": 4, \"vocab_size\": 100, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "              \
    "\"head_dim\": 16, \"torch_dtype\": \"bfloat16\""
#define WITH(root, type, rest, vision)                                                                                     \
    "{\"model_type\": \"" root "\", " TEXT(type) rest "}, \"vision_config\": {" vision "}}"

static void expect_tower(const char *text, uint64_t parameters, uint32_t image, uint32_t tokens, uint32_t layers,
                         uint32_t width, uint32_t heads)
{
    impmem_model *model = read_json(text);
    const impmem_model_shape *s = impmem_model_shape_of(model);
    if (s->vision_weight_bytes != 2 * parameters)
        fail_msg("%llu parameters, expected %llu", (unsigned long long)s->vision_weight_bytes / 2,
                 (unsigned long long)parameters);
    assert_int_equal(s->vision_image_size, image);
    assert_int_equal(s->vision_tokens, tokens);
    assert_int_equal(s->vision_layers, layers);
    assert_int_equal(s->vision_d_model, width);
    assert_int_equal(s->vision_heads, heads);
    assert_int_equal(s->vision_apart, 0);
    assert_true(s->weight_bytes > s->vision_weight_bytes);
    impmem_model_destroy(model);
}

static void a_tower_works_on_every_patch_however_few_tokens_become_of_them(void **state)
{
    (void)state;
    /* 64 x 64 patches, 4 x 4 of them pooled to a token. */
    impmem_model *model = read_json("{\"model_type\": \"gemma3\", \"mm_tokens_per_image\": 256, " TEXT(
        "gemma3_text") "}, \"vision_config\": {\"model_type\": \"siglip_vision_model\", \"hidden_size\": 1152, "
                       "\"image_size\": 896, \"intermediate_size\": 4304, \"num_attention_heads\": 16, "
                       "\"num_hidden_layers\": 27, \"patch_size\": 14}}");
    assert_int_equal(impmem_model_shape_of(model)->vision_tokens, 256);
    assert_int_equal(impmem_model_shape_of(model)->vision_patches, 64 * 64);
    impmem_model_destroy(model);
}

/* Published totals less published text parts, with a projector to their hidden size put down for ours of 64. */
static void towers_have_the_parameters_that_their_publishers_count(void **state)
{
    (void)state;
    /* Qwen2-VL-7B: 8,291,375,616 with a text part of 7,615,616,512 and an output of 3,584. */
    const uint64_t merged = 4 * 1280, qwen2 = UINT64_C(8291375616) - UINT64_C(7615616512) - 3584 * (merged + 1);
    expect_tower(WITH("qwen2_vl", "qwen2_vl_text", "",
                      "\"model_type\": \"qwen2_vl\", \"depth\": 32, \"embed_dim\": 1280, \"hidden_size\": 3584, "
                      "\"mlp_ratio\": 4, \"num_heads\": 16, \"in_channels\": 3, \"patch_size\": 14, "
                      "\"spatial_merge_size\": 2, \"temporal_patch_size\": 2"),
                 qwen2 + 64 * (merged + 1), 3584, 16384, 32, 1280, 16);
    /* Llama 4 Scout: 108,641,793,536, text 107,769,861,120, projector of 4,096 x 5,120. */
    const uint64_t scout = UINT64_C(108641793536) - UINT64_C(107769861120) - 4096 * 5120;
    expect_tower(
        WITH("llama4", "llama4_text", ", \"num_local_experts\": 2, \"num_experts_per_tok\": 1",
             "\"model_type\": \"llama4_vision_model\", \"hidden_size\": 1408, \"image_size\": 336, "
             "\"intermediate_size\": 5632, \"num_attention_heads\": 16, \"num_hidden_layers\": 34, \"patch_size\": 14, "
             "\"pixel_shuffle_ratio\": 0.5, \"projector_input_dim\": 4096, \"projector_output_dim\": 4096, "
             "\"vision_output_dim\": 4096"),
        scout + 4096 * 64, 336, 144, 34, 1408, 16);
    /* Mistral-Small-3.1: 24,011,361,280, text 23,572,403,200, projector 1,024 x 5,120 + 5,120 x 5,120. */
    const uint64_t small = UINT64_C(24011361280) - UINT64_C(23572403200) - 1024 * 5120 - 5120 * 5120;
    expect_tower(
        "{\"model_type\": \"mistral3\", \"spatial_merge_size\": 2, " TEXT(
            "mistral") "}, \"vision_config\": {\"model_type\": \"pixtral\", \"hidden_size\": 1024, \"image_size\": 1540, "
                       "\"intermediate_size\": 4096, \"num_attention_heads\": 16, \"num_hidden_layers\": 24, "
                       "\"patch_size\": 14}}",
        small + 1024 * 64 + 64 * 64, 1540, 55 * 55, 24, 1024, 16);
}

static void taps_of_inner_layers_have_mergers_of_their_own(void **state)
{
    (void)state;
    static const char base[] =
        "\"model_type\": \"qwen3_vl\", \"depth\": 8, \"hidden_size\": 32, \"intermediate_size\": 48, "
        "\"num_heads\": 4, \"num_position_embeddings\": 2304, \"out_hidden_size\": 64, "
        "\"patch_size\": 16, \"spatial_merge_size\": 2, \"temporal_patch_size\": 2";
    const uint64_t layer = 4 * 32 * 32 + 4 * 32 + 2 * 32 * 48 + 48 + 32 + 4 * 32;
    const uint64_t wide = 128, merger = wide * wide + wide + 64 * wide + 64;
    const uint64_t plain = 2 * 3 * 16 * 16 * 32 + 32 + 2304 * 32 + 8 * layer + 2 * 32 + merger;
    char text[2048];
    (void)snprintf(text, sizeof text, WITH("qwen3_vl", "qwen3_vl_text", "", "%s"), base);
    expect_tower(text, plain, 768, 576, 8, 32, 4);
    (void)snprintf(text, sizeof text, WITH("qwen3_vl", "qwen3_vl_text", "", "%s, \"deepstack_visual_indexes\": [2, 4, 6]"),
                   base);
    expect_tower(text, plain + 3 * (2 * wide + merger), 768, 576, 8, 32, 4);
}

static void a_tower_of_another_kind_is_counted_as_plain_and_says_so(void **state)
{
    (void)state;
    static const char text[] = WITH("internvl_chat", "qwen2", "",
                                    "\"model_type\": \"intern_vit_6b\", \"hidden_size\": 32, \"num_hidden_layers\": 2, "
                                    "\"num_attention_heads\": 4, \"intermediate_size\": 48, \"patch_size\": 14, "
                                    "\"image_size\": 448");
    /* Patches, their bias, positions and a final norm; two layers; two matrices of the projector. */
    const uint64_t layer = 4 * 32 * 32 + 4 * 32 + 2 * 32 * 48 + 48 + 32 + 4 * 32;
    expect_tower(text, 3 * 14 * 14 * 32 + (1 + 32 * 32 + 2) * 32 + 2 * layer + 64 * 32 + 64 * 64, 448, 1024, 2, 32, 4);
    impmem_model *model = read_json(text);
    assert_true(has_note(model, "counted as a plain vision transformer"));
    impmem_model_destroy(model);
    /* A ratio of one half a side leaves a quarter. */
    char scaled[2048];
    (void)snprintf(scaled, sizeof scaled, "{\"downsample_ratio\": 0.5, %s", text + 1);
    model = read_json(scaled);
    assert_int_equal(impmem_model_shape_of(model)->vision_tokens, 256);
    impmem_model_destroy(model);
}

static void a_config_without_a_tower_has_none(void **state)
{
    (void)state;
    static const char *const without[] = {
        "{\"model_type\": \"gemma3\", " TEXT("gemma3_text") ", \"sliding_window\": 8}}",
        "{\"model_type\": \"gemma3\", \"vision_config\": null, " TEXT("gemma3_text") ", \"sliding_window\": 8}}",
        WITH("gemma3", "gemma3_text", ", \"sliding_window\": 8", "\"hidden_size\": 9")};
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        impmem_model *model = read_json(without[i]);
        assert_int_equal(impmem_model_shape_of(model)->vision_weight_bytes, 0);
        assert_int_equal(impmem_model_shape_of(model)->vision_tokens, 0);
        assert_int_equal(has_note(model, "vision_config states no layers"), i == 2);
        impmem_model_destroy(model);
    }
}

static void figures_of_a_tower_are_held_to_their_range(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } bad[] = {
        {WITH("gemma3", "gemma3_text", ", \"sliding_window\": 8", "\"hidden_size\": 0"),
         "'vision_config.hidden_size': found"},
        {WITH("gemma3", "gemma3_text", ", \"sliding_window\": 8", "\"hidden_size\": \"9\""),
         "'vision_config.hidden_size': found no integer"},
        {WITH("gemma3", "gemma3_text", ", \"sliding_window\": 8", "\"patch_size\": 99999"),
         "expected an integer from 1 to 4096"},
        {WITH("gemma3", "gemma3_text", ", \"sliding_window\": 8", "\"num_hidden_layers\": -4"), "found the integer -4"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_json_refused(bad[i].text, IMPMEM_ERR_BAD_VALUE, bad[i].words);
    expect_json_refused("{\"model_type\": \"gemma3\", \"mm_tokens_per_image\": -1, " TEXT(
                            "gemma3_text") ", \"sliding_window\": 8}, \"vision_config\": {\"hidden_size\": 8, "
                                           "\"num_hidden_layers\": 1, \"patch_size\": 2, \"image_size\": 8}}",
                        IMPMEM_ERR_BAD_VALUE, "'mm_tokens_per_image'");
}

#define MLLAMA(cross, vision) WITH("mllama", "mllama_text_model", cross, vision)
#define TOWER                                                                                                              \
    "\"model_type\": \"mllama_vision_model\", \"hidden_size\": 32, \"num_hidden_layers\": 2, \"num_global_layers\": 1, "   \
    "\"attention_heads\": 4, \"intermediate_size\": 48, \"patch_size\": 4, \"image_size\": 16"

static void layers_that_attend_to_an_image_keep_its_tokens(void **state)
{
    (void)state;
    impmem_model *model = read_json(MLLAMA(", \"cross_attention_layers\": [1, 3]", TOWER ", \"max_num_tiles\": 4"));
    const impmem_model_shape *s = impmem_model_shape_of(model);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(s->layer[i].kind, i % 2 ? IMPMEM_LAYER_CROSS : IMPMEM_LAYER_FULL);
        assert_int_equal(s->layer[i].kv_heads, 2);
        assert_int_equal(s->layer[i].k_dim, 16);
        assert_int_equal(s->layer[i].cross_tokens, i % 2 ? 4 * (4 * 4 + 1) : 0);
    }
    /* Four tiles of 4 x 4 patches are one image of twice the side. */
    assert_int_equal(s->vision_image_size, 2 * 16);
    assert_int_equal(s->vision_patches, s->vision_tokens);
    impmem_model_destroy(model);
    expect_json_refused(MLLAMA("", TOWER ", \"max_num_tiles\": 4"), IMPMEM_ERR_MISSING_KEY, "'cross_attention_layers'");
    expect_json_refused(MLLAMA(", \"cross_attention_layers\": [4]", TOWER ", \"max_num_tiles\": 4"), IMPMEM_ERR_BAD_VALUE,
                        "'cross_attention_layers[0]': found 4");
    expect_json_refused(MLLAMA(", \"cross_attention_layers\": [1]", TOWER), IMPMEM_ERR_MISSING_KEY,
                        "'vision_config.max_num_tiles'");
    expect_json_refused("{\"model_type\": \"mllama\", " TEXT("mllama_text_model") ", \"cross_attention_layers\": [1]}}",
                        IMPMEM_ERR_MISSING_KEY, "'vision_config'");
}

static void a_gguf_with_image_layers_needs_its_images_size(void **state)
{
    (void)state;
    for (int with = 0; with < 2; with++) {
        static const uint32_t cross[] = {1};
        gguf g;
        memset(&g, 0, sizeof g);
        key_text(&g, "general.architecture", "mllama");
        key_u32(&g, "mllama.block_count", 2);
        key_u32(&g, "mllama.embedding_length", 64);
        key_u32(&g, "mllama.feed_forward_length", 128);
        key_u32(&g, "mllama.attention.head_count", 4);
        key_u32(&g, "mllama.vocab_size", 100);
        key_array_u32(&g, "mllama.attention.cross_attention_layers", cross, 1);
        if (with) {
            key_u32(&g, "mllama.vision.image_size", 560);
            key_u32(&g, "mllama.vision.patch_size", 14);
            key_u32(&g, "mllama.vision.max_num_tiles", 2);
            impmem_model *model = read_bytes(finish(&g));
            assert_int_equal(impmem_model_shape_of(model)->layer[1].kind, IMPMEM_LAYER_CROSS);
            assert_int_equal(impmem_model_shape_of(model)->layer[1].cross_tokens, 2 * (40 * 40 + 1));
            assert_int_equal(impmem_model_shape_of(model)->vision_image_size, 2 * 560); /* two tiles are within 2 x 2 */
            impmem_model_destroy(model);
        } else {
            expect_refused(finish(&g), IMPMEM_ERR_MISSING_KEY, "expected the image's size", UINT64_MAX);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tower_works_on_every_patch_however_few_tokens_become_of_them),
        cmocka_unit_test(towers_have_the_parameters_that_their_publishers_count),
        cmocka_unit_test(taps_of_inner_layers_have_mergers_of_their_own),
        cmocka_unit_test(a_tower_of_another_kind_is_counted_as_plain_and_says_so),
        cmocka_unit_test(a_config_without_a_tower_has_none),
        cmocka_unit_test(figures_of_a_tower_are_held_to_their_range),
        cmocka_unit_test(layers_that_attend_to_an_image_keep_its_tokens),
        cmocka_unit_test(a_gguf_with_image_layers_needs_its_images_size),
    };
    return cmocka_run_group_tests_name("model.vision", tests, scratch_open, scratch_close);
}
