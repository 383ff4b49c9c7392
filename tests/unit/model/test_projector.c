/* Projector files: a tower of its own beside a model, and every way that such a file can be none. */
#define _GNU_SOURCE
#include "unit/model/model_test.h"

/* A clip file; a figure of 0 leaves its key out. */
static gguf clip(const char *type, uint32_t image, uint32_t patch, uint32_t heads)
{
    gguf g;
    memset(&g, 0, sizeof g);
    key_text(&g, "general.architecture", "clip");
    key_text(&g, "clip.projector_type", type);
    if (image) key_u32(&g, "clip.vision.image_size", image);
    if (patch) key_u32(&g, "clip.vision.patch_size", patch);
    key_u32(&g, "clip.vision.embedding_length", 1152);
    key_u32(&g, "clip.vision.block_count", 27);
    if (heads) key_u32(&g, "clip.vision.attention.head_count", heads);
    key_u32(&g, "clip.vision.projection_dim", 64);
    return g;
}

/* 32 x 4 halves and 8 floats: 256 + 32 bytes. */
static const char *finished(gguf *g, int tensors)
{
    static const uint64_t matrix[] = {32, 4}, vector[] = {8};
    if (tensors) {
        tensor(g, "v.patch_embd.weight", 2, matrix, 1, 256);
        tensor(g, "v.post_ln.weight", 1, vector, 0, 32);
    }
    bytes b = finish(g);
    const char *path = scratch_path("mmproj.gguf");
    write_file(path, b.at, b.n);
    drop(&b);
    return path;
}

static impmem_model *llama(void)
{
    gguf g;
    plain_llama(&g, 2);
    return read_bytes(finish(&g));
}

static void a_projector_adds_its_tower_to_the_model(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        uint32_t image, patch, tokens;
    } kinds[] = {{"gemma3", 896, 14, 256},           /* 64 patches a side, 4 x 4 to a token */
                 {"qwen2.5vl_merger", 560, 14, 400}, /* 40 a side, 2 x 2 */
                 {"qwen3vl_merger", 768, 16, 576},
                 {"ldp", 336, 14, 144},
                 {"mlp", 336, 14, 576}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        impmem_error why = IMPMEM_ERROR_INIT;
        impmem_model *model = llama();
        const uint64_t weights = impmem_model_shape_of(model)->weight_bytes;
        gguf g = clip(kinds[i].type, kinds[i].image, kinds[i].patch, 16);
        assert_int_equal(impmem_model_read_projector(finished(&g, 1), model, &why), IMPMEM_OK);
        const impmem_model_shape *s = impmem_model_shape_of(model);
        assert_int_equal(s->vision_weight_bytes, 288);
        assert_int_equal(s->vision_apart, 1);
        assert_int_equal(s->weight_bytes, weights);
        assert_int_equal(s->vision_image_size, kinds[i].image);
        assert_int_equal(s->vision_tokens, kinds[i].tokens);
        const uint32_t side = kinds[i].image / kinds[i].patch;
        assert_int_equal(s->vision_patches, side * side);
        assert_int_equal(s->vision_layers, 27);
        assert_int_equal(s->vision_d_model, 1152);
        assert_int_equal(s->vision_heads, 16);
        assert_true(has_note(model, "tokens an image"));
        assert_false(has_note(model, "the projector's width"));
        assert_int_equal(impmem_shape_check(s, &why), IMPMEM_OK);
        impmem_model_destroy(model);
    }
}

static void a_stated_merge_goes_before_the_kind(void **state)
{
    (void)state;
    for (int merge = 0; merge < 2; merge++) {
        impmem_model *model = llama();
        gguf g = clip("idefics3", 512, 16, 12);
        key_u32(&g, merge ? "clip.vision.spatial_merge_size" : "clip.vision.projector.scale_factor", 4);
        assert_int_equal(impmem_model_read_projector(finished(&g, 1), model, NULL), IMPMEM_OK);
        assert_int_equal(impmem_model_shape_of(model)->vision_tokens, 64);
        impmem_model_destroy(model);
    }
}

static void another_width_is_noted(void **state)
{
    (void)state;
    impmem_model *model = read_json("{\"model_type\": \"llama\", \"hidden_size\": 128, \"intermediate_size\": 256, "
                                    "\"num_hidden_layers\": 2, \"vocab_size\": 100, \"num_attention_heads\": 4}");
    gguf g = clip("mlp", 336, 14, 16);
    assert_int_equal(impmem_model_read_projector(finished(&g, 1), model, NULL), IMPMEM_OK);
    assert_true(has_note(model, "the projector's width is stated as 64, the model's is 128"));
    impmem_model_destroy(model);
}

static void a_projector_of_an_unknown_kind_has_a_token_a_patch_and_says_so(void **state)
{
    (void)state;
    impmem_model *model = llama();
    gguf g = clip("resampler", 448, 14, 16);
    assert_int_equal(impmem_model_read_projector(finished(&g, 1), model, NULL), IMPMEM_OK);
    assert_int_equal(impmem_model_shape_of(model)->vision_tokens, 32 * 32);
    assert_true(has_note(model, "'resampler' is not known: a token a patch is an upper bound"));
    impmem_model_destroy(model);
}

static void expect_no_projector(const char *path, impmem_status status, const char *words)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_model *model = llama();
    const impmem_model_shape before = *impmem_model_shape_of(model);
    impmem_status st = impmem_model_read_projector(path, model, &why);
    if (st != status || !strstr(why.message, words))
        fail_msg("found %s \"%s\", expected \"%s\"", impmem_status_name(st), why.message, words);
    assert_true(why.subject[0] != '\0');
    assert_memory_equal(&before, impmem_model_shape_of(model), sizeof before);
    assert_false(has_note(model, "vision"));
    impmem_model_destroy(model);
}

static void what_is_no_projector_is_refused_and_leaves_the_model(void **state)
{
    (void)state;
    gguf g = clip("gemma3", 0, 14, 16);
    expect_no_projector(finished(&g, 1), IMPMEM_ERR_MISSING_KEY, "'clip.vision.image_size'");
    g = clip("gemma3", 896, 0, 16);
    expect_no_projector(finished(&g, 1), IMPMEM_ERR_MISSING_KEY, "'clip.vision.patch_size'");
    g = clip("gemma3", 896, 14, 0);
    expect_no_projector(finished(&g, 1), IMPMEM_ERR_MISSING_KEY, "'clip.vision.attention.head_count'");
    g = clip("gemma3", 70000, 14, 16);
    expect_no_projector(finished(&g, 1), IMPMEM_ERR_BAD_VALUE, "found u32 70000, expected 1 to 65535");
    g = clip("gemma3", 8, 14, 16);
    expect_no_projector(finished(&g, 1), IMPMEM_ERR_BAD_VALUE, "found 8 for patches of 14");
    g = clip("gemma3", 896, 14, 0);
    key_text(&g, "clip.vision.attention.head_count", "16");
    expect_no_projector(finished(&g, 1), IMPMEM_ERR_BAD_VALUE, "found string");
    g = clip("gemma3", 896, 14, 16);
    key(&g, "clip.has_vision_encoder", BOOL);
    put_le(&g.keys, 0, 1);
    expect_no_projector(finished(&g, 1), IMPMEM_ERR_BAD_VALUE, "'clip.has_vision_encoder'");
    g = clip("gemma3", 896, 14, 16);
    expect_no_projector(finished(&g, 0), IMPMEM_ERR_BAD_VALUE, "tensors: found none");
    plain_llama(&g, 2);
    expect_no_projector(finished(&g, 1), IMPMEM_ERR_UNKNOWN_ARCHITECTURE, "found 'llama', expected clip");
    expect_no_projector(scratch_path("nowhere.gguf"), IMPMEM_ERR_IO, "");
    write_file(scratch_path("short.gguf"), "GGUF", 4);
    expect_no_projector(scratch_path("short.gguf"), IMPMEM_ERR_TRUNCATED, "");
    write_file(scratch_path("text.gguf"), "not a file of that kind, but long enough", 40);
    expect_no_projector(scratch_path("text.gguf"), IMPMEM_ERR_BAD_FORMAT, "magic");
    g = clip("gemma3", 896, 14, 16);
    const char *path = finished(&g, 1);
    assert_int_equal(impmem_model_read_projector(path, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    impmem_model *model = llama();
    assert_int_equal(impmem_model_read_projector(NULL, model, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    impmem_model_destroy(model);
}

static void a_model_takes_one_tower_only(void **state)
{
    (void)state;
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_model *model = llama();
    gguf g = clip("gemma3", 896, 14, 16);
    const char *path = finished(&g, 1);
    assert_int_equal(impmem_model_read_projector(path, model, &why), IMPMEM_OK);
    assert_int_equal(impmem_model_read_projector(path, model, &why), IMPMEM_ERR_BAD_VALUE);
    assert_non_null(strstr(why.message, "for a model that has one"));
    impmem_model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_projector_adds_its_tower_to_the_model),
        cmocka_unit_test(a_stated_merge_goes_before_the_kind),
        cmocka_unit_test(another_width_is_noted),
        cmocka_unit_test(a_projector_of_an_unknown_kind_has_a_token_a_patch_and_says_so),
        cmocka_unit_test(what_is_no_projector_is_refused_and_leaves_the_model),
        cmocka_unit_test(a_model_takes_one_tower_only),
    };
    return cmocka_run_group_tests_name("model.projector", tests, scratch_open, scratch_close);
}
