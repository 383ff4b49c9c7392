/* Element types, shapes and size formulas against figures worked out by hand or published. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "unit/plan/shapes.h"

static uint64_t row(impmem_dtype dtype, uint64_t elements)
{
    uint64_t bytes = 0;
    assert_int_equal(impmem_dtype_row_bytes(dtype, elements, &bytes), IMPMEM_OK);
    return bytes;
}

static uint64_t block(impmem_layer_shape layer, impmem_dtype k, impmem_dtype v, uint32_t tokens)
{
    uint64_t bytes = 0;
    assert_int_equal(impmem_size_kv_block_layer(&layer, k, v, tokens, &bytes), IMPMEM_OK);
    return bytes;
}

static void a_row_of_each_type_takes_its_blocks(void **state)
{
    (void)state;
    static const struct {
        impmem_dtype dtype;
        uint64_t bytes; /* of 128 elements */
    } expected[] = {
        {IMPMEM_DTYPE_DEFAULT, 256},  {IMPMEM_DTYPE_F16, 256},      {IMPMEM_DTYPE_BF16, 256}, {IMPMEM_DTYPE_F32, 512},
        {IMPMEM_DTYPE_FP8_E4M3, 128}, {IMPMEM_DTYPE_FP8_E5M2, 128}, {IMPMEM_DTYPE_INT8, 128}, {IMPMEM_DTYPE_INT4, 64},
        {IMPMEM_DTYPE_NVFP4, 72},     {IMPMEM_DTYPE_MXFP4, 68},     {IMPMEM_DTYPE_Q8_0, 136}, {IMPMEM_DTYPE_Q5_1, 96},
        {IMPMEM_DTYPE_Q5_0, 88},      {IMPMEM_DTYPE_Q4_1, 80},      {IMPMEM_DTYPE_Q4_0, 72},  {IMPMEM_DTYPE_IQ4_NL, 72}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        assert_int_equal(row(expected[i].dtype, 128), expected[i].bytes);
}

static void a_row_that_the_type_cannot_divide_is_refused(void **state)
{
    (void)state;
    uint64_t bytes = 77;
    assert_int_equal(impmem_dtype_row_bytes(IMPMEM_DTYPE_NVFP4, 24, &bytes), IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(impmem_dtype_row_bytes(IMPMEM_DTYPE_Q8_0, 80, &bytes), IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(impmem_dtype_row_bytes(IMPMEM_DTYPE_INT4, 129, &bytes), IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(impmem_dtype_row_bytes((impmem_dtype)16, 128, &bytes), IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(impmem_dtype_row_bytes((impmem_dtype)-1, 128, &bytes), IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(impmem_dtype_row_bytes(IMPMEM_DTYPE_F16, UINT64_MAX / 2 + 1, &bytes), IMPMEM_ERR_OVERFLOW);
    assert_int_equal(impmem_dtype_row_bytes(IMPMEM_DTYPE_F16, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(bytes, 77);
}

static void names_read_back_as_their_type_in_any_case(void **state)
{
    (void)state;
    impmem_dtype out;
    for (int i = 1; i < IMPMEM_N_DTYPES; i++) {
        assert_int_equal(impmem_dtype_parse(impmem_dtype_name((impmem_dtype)i), &out), IMPMEM_OK);
        assert_int_equal(out, i);
    }
    static const struct {
        const char *text;
        impmem_dtype dtype;
    } alias[] = {{"fp16", IMPMEM_DTYPE_F16},
                 {"E4M3", IMPMEM_DTYPE_FP8_E4M3},
                 {"FP8_E4M3", IMPMEM_DTYPE_FP8_E4M3},
                 {"e5m2", IMPMEM_DTYPE_FP8_E5M2},
                 {"NvFp4", IMPMEM_DTYPE_NVFP4}};
    for (size_t i = 0; i < sizeof alias / sizeof alias[0]; i++) {
        assert_int_equal(impmem_dtype_parse(alias[i].text, &out), IMPMEM_OK);
        assert_int_equal(out, alias[i].dtype);
    }
    out = IMPMEM_DTYPE_INT4;
    static const char *const wrong[] = {"", "f1", "f166", "fp8 ", " fp8", "default", "?"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(impmem_dtype_parse(wrong[i], &out), IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(impmem_dtype_parse(NULL, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_dtype_parse("f16", NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(out, IMPMEM_DTYPE_INT4);
    assert_string_equal(impmem_dtype_name((impmem_dtype)99), "?");
    assert_string_equal(impmem_dtype_name(IMPMEM_DTYPE_DEFAULT), "f16");
    assert_int_equal(impmem_dtype_scale_bytes(IMPMEM_DTYPE_INT8), 2);
    assert_int_equal(impmem_dtype_scale_bytes(IMPMEM_DTYPE_NVFP4), 0);
    assert_int_equal(impmem_dtype_scale_bytes((impmem_dtype)99), 0);
}

/* 16 tokens, 8 heads of 128, K and V: the reference engine's table. */
static void a_kv_block_takes_what_the_reference_table_says(void **state)
{
    (void)state;
    impmem_layer_shape layer = {.kind = IMPMEM_LAYER_FULL, .kv_heads = 8, .k_dim = 128, .v_dim = 128};
    assert_int_equal(block(layer, IMPMEM_DTYPE_F16, IMPMEM_DTYPE_F16, 16), 65536);
    assert_int_equal(block(layer, IMPMEM_DTYPE_BF16, IMPMEM_DTYPE_BF16, 16), 65536);
    assert_int_equal(block(layer, IMPMEM_DTYPE_FP8_E4M3, IMPMEM_DTYPE_FP8_E4M3, 16), 32768);
    assert_int_equal(block(layer, IMPMEM_DTYPE_INT8, IMPMEM_DTYPE_INT8, 16), 33280);
    assert_int_equal(block(layer, IMPMEM_DTYPE_INT4, IMPMEM_DTYPE_INT4, 16), 16896);
    assert_int_equal(block(layer, IMPMEM_DTYPE_NVFP4, IMPMEM_DTYPE_NVFP4, 16), 18432);
    /* K and V apart: 16 x 8 x (256 + 128) */
    assert_int_equal(block(layer, IMPMEM_DTYPE_F16, IMPMEM_DTYPE_FP8_E4M3, 16), 49152);
}

static void layers_of_every_kind_take_their_own_bytes(void **state)
{
    (void)state;
    /* MLA: 512 + 64 elements once a token; V and its scale are not stored. */
    impmem_layer_shape latent = {.kind = IMPMEM_LAYER_LATENT, .kv_heads = 1, .k_dim = 576};
    assert_int_equal(block(latent, IMPMEM_DTYPE_F16, IMPMEM_DTYPE_F16, 16), 16 * 576 * 2);
    assert_int_equal(block(latent, IMPMEM_DTYPE_INT8, IMPMEM_DTYPE_INT8, 16), 16 * (576 + 2));
    impmem_layer_shape window = {
        .kind = IMPMEM_LAYER_WINDOW, .kv_heads = 4, .k_dim = 128, .v_dim = 64, .window_tokens = 1024};
    assert_int_equal(block(window, IMPMEM_DTYPE_F16, IMPMEM_DTYPE_F16, 32), 32 * 4 * (128 + 64) * 2);
    impmem_layer_shape shared = {.kind = IMPMEM_LAYER_SHARED, .kv_heads = 8, .k_dim = 128, .v_dim = 128};
    assert_int_equal(block(shared, IMPMEM_DTYPE_F16, IMPMEM_DTYPE_F16, 16), 0);
    impmem_layer_shape none = {.kind = IMPMEM_LAYER_NO_ATTENTION, .kv_heads = 8, .k_dim = 128, .v_dim = 128};
    assert_int_equal(block(none, IMPMEM_DTYPE_F16, IMPMEM_DTYPE_F16, 16), 0);
}

static void a_kv_block_refuses_what_it_cannot_mean(void **state)
{
    (void)state;
    uint64_t bytes = 77;
    impmem_layer_shape layer = {.kind = IMPMEM_LAYER_FULL, .kv_heads = 8, .k_dim = 24, .v_dim = 24};
    assert_int_equal(impmem_size_kv_block_layer(&layer, IMPMEM_DTYPE_NVFP4, IMPMEM_DTYPE_F16, 16, &bytes),
                     IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(impmem_size_kv_block_layer(&layer, IMPMEM_DTYPE_F16, IMPMEM_DTYPE_NVFP4, 16, &bytes),
                     IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(impmem_size_kv_block_layer(&layer, IMPMEM_DTYPE_F16, IMPMEM_DTYPE_F16, 0, &bytes),
                     IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(impmem_size_kv_block_layer(NULL, IMPMEM_DTYPE_F16, IMPMEM_DTYPE_F16, 16, &bytes),
                     IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_size_kv_block_layer(&layer, IMPMEM_DTYPE_F16, IMPMEM_DTYPE_F16, 16, NULL),
                     IMPMEM_ERR_INVALID_ARGUMENT);
    layer.kind = 6;
    assert_int_equal(impmem_size_kv_block_layer(&layer, IMPMEM_DTYPE_F16, IMPMEM_DTYPE_F16, 16, &bytes),
                     IMPMEM_ERR_BAD_VALUE);
    layer = (impmem_layer_shape){
        .kind = IMPMEM_LAYER_FULL, .kv_heads = UINT32_MAX, .k_dim = UINT32_MAX, .v_dim = UINT32_MAX};
    assert_int_equal(impmem_size_kv_block_layer(&layer, IMPMEM_DTYPE_F32, IMPMEM_DTYPE_F32, 16, &bytes),
                     IMPMEM_ERR_OVERFLOW);
    assert_int_equal(bytes, 77);
}

static void sizes_do_not_wrap_round_31_and_32_bits(void **state)
{
    (void)state;
    for (uint64_t edge = UINT64_C(1) << 31; edge <= UINT64_C(1) << 32; edge <<= 1)
        for (int64_t off = -1; off <= 1; off++) {
            uint64_t elements = edge + (uint64_t)off;
            assert_true(row(IMPMEM_DTYPE_FP8_E4M3, elements) == elements);
            assert_true(row(IMPMEM_DTYPE_F16, elements) == elements + elements);
            if (elements > UINT32_MAX) continue;
            impmem_layer_shape layer = {.kind = IMPMEM_LAYER_FULL, .kv_heads = 1, .k_dim = (uint32_t)elements};
            assert_true(block(layer, IMPMEM_DTYPE_FP8_E4M3, IMPMEM_DTYPE_F16, 16) == elements << 4);
            layer = (impmem_layer_shape){.kind = IMPMEM_LAYER_FULL, .kv_heads = (uint32_t)elements, .k_dim = 1, .v_dim = 1};
            assert_true(block(layer, IMPMEM_DTYPE_F16, IMPMEM_DTYPE_F16, 16) == elements << 6);
        }
}

static uint64_t per_sequence(uint32_t tokens, uint32_t block_tokens, uint32_t window, uint32_t in_flight)
{
    uint64_t blocks = 0;
    assert_int_equal(impmem_size_blocks_per_sequence(tokens, block_tokens, window, in_flight, &blocks), IMPMEM_OK);
    return blocks;
}

static void a_sequence_needs_whole_blocks_and_windows_one_more(void **state)
{
    (void)state;
    assert_int_equal(per_sequence(4096, 16, 0, 4096), 256);
    assert_int_equal(per_sequence(4097, 16, 0, 0), 257);
    assert_int_equal(per_sequence(1, 256, 0, 0), 1);
    assert_int_equal(per_sequence(0, 16, 0, 0), 0);
    assert_int_equal(per_sequence(131072, 16, 1024, 0), 65); /* 1024 / 16 + 1 */
    assert_int_equal(per_sequence(131072, 16, 512, 512), 65);
    assert_int_equal(per_sequence(131072, 16, 1000, 1), 64);  /* ceil(1001 / 16) = 63, + 1 */
    assert_int_equal(per_sequence(1024, 16, 1024, 4096), 64); /* never more than the sequence itself */
    assert_int_equal(per_sequence(UINT32_MAX, 16, UINT32_MAX, UINT32_MAX), UINT64_C(1) << 28);
    uint64_t blocks = 77;
    assert_int_equal(impmem_size_blocks_per_sequence(1, 0, 0, 0, &blocks), IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(impmem_size_blocks_per_sequence(1, 16, 0, 0, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(blocks, 77);
}

/* 60 layers: 50 with a window of 1024 (16 heads of 256), 10 full (4 heads of 512), 131,072 tokens in bf16: 10 GiB + 0.78
 * GiB. */
static void a_mostly_windowed_model_takes_a_tenth(void **state)
{
    (void)state;
    impmem_layer_shape window = {.kind = IMPMEM_LAYER_WINDOW,
                                 .kv_heads = 16,
                                 .k_dim = 256,
                                 .v_dim = 256,
                                 .window_tokens = 1024},
                       full = {.kind = IMPMEM_LAYER_FULL, .kv_heads = 4, .k_dim = 512, .v_dim = 512};
    uint64_t window_block = 50 * block(window, IMPMEM_DTYPE_BF16, IMPMEM_DTYPE_BF16, 16);
    uint64_t full_bytes = 10 * block(full, IMPMEM_DTYPE_BF16, IMPMEM_DTYPE_BF16, 16) * per_sequence(131072, 16, 0, 0);
    uint64_t window_bytes = window_block * per_sequence(131072, 16, 1024, 0);
    assert_true(full_bytes == 10 * IMPMEM_GIB);
    uint64_t right = 1024 * (uint64_t)50 * 16 * (256 + 256) * 2; /* 0.78 GiB */
    assert_true(right == 800 * MIB);
    assert_true(window_bytes >= right && window_bytes <= right + window_block);
}

static void executor_workspaces_are_those_that_were_measured(void **state)
{
    (void)state;
    impmem_model_shape *s = malloc(sizeof *s);
    assert_non_null(s);
    uint64_t bytes = 0;
    /* In thousandths of a MiB, as measured: 396.574, 507.074, 452.393. */
    dense_shape(s);
    assert_int_equal(impmem_size_executor_workspace(s, 4096, 8, &bytes), IMPMEM_OK);
    assert_int_equal((bytes * 1000 + MIB / 2) / MIB, 396574);
    experts_shape(s);
    assert_int_equal(impmem_size_executor_workspace(s, 4096, 8, &bytes), IMPMEM_OK);
    assert_int_equal((bytes * 1000 + MIB / 2) / MIB, 507074);
    post_norm_shape(s);
    assert_int_equal(impmem_size_executor_workspace(s, 4096, 4, &bytes), IMPMEM_OK);
    assert_int_equal((bytes * 1000 + MIB / 2) / MIB, 452393);
    /* Below 8 rows nothing changes; a gated query adds 2 x heads x head_dim columns where attention is the largest part. */
    uint64_t more = 0, plain = 0;
    assert_int_equal(impmem_size_executor_workspace(s, 4096, 8, &more), IMPMEM_OK);
    assert_int_equal(more, bytes);
    s->feed_forward = 0;
    assert_int_equal(impmem_size_executor_workspace(s, 4096, 8, &plain), IMPMEM_OK);
    s->gated_query = 1;
    assert_int_equal(impmem_size_executor_workspace(s, 4096, 8, &more), IMPMEM_OK);
    assert_int_equal(more - plain, 4096u * 2 * 8 * 256 * 2);
    uint64_t untouched = 77;
    assert_int_equal(impmem_size_executor_workspace(NULL, 4096, 8, &untouched), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_size_executor_workspace(s, 4096, 8, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    s->largest_weight_elements = UINT64_MAX;
    assert_int_equal(impmem_size_executor_workspace(s, 4096, 8, &untouched), IMPMEM_ERR_OVERFLOW);
    s->largest_weight_elements = 0;
    s->n_experts = s->experts_per_token = s->expert_feed_forward = s->d_model = UINT32_MAX;
    assert_int_equal(impmem_size_executor_workspace(s, UINT32_MAX, 8, &untouched), IMPMEM_ERR_OVERFLOW);
    assert_int_equal(untouched, 77);
    free(s);
}

/* Qwen3.5-27B: 4096 tokens through a delta net of 48 heads, 6144 values and 10,240 channels need more than attention of 24
 * heads of 256 and a feed-forward part of 17,408. Mamba layers keep two bytes throughout. */
static void a_layer_with_a_state_has_workspaces_of_its_own(void **state)
{
    (void)state;
    impmem_model_shape *s = malloc(sizeof *s);
    assert_non_null(s);
    *s = (impmem_model_shape)IMPMEM_MODEL_SHAPE_INIT;
    s->d_model = 5120;
    s->n_heads = 24;
    s->head_dim = 256;
    s->feed_forward = 17408;
    s->gated_query = 1;
    assert_int_equal(impmem_shape_uniform_attention(s, 64, 4, 256, 256), IMPMEM_OK);
    uint64_t without = 0, with = 0;
    assert_int_equal(impmem_size_executor_workspace(s, 4096, 1, &without), IMPMEM_OK);
    const impmem_layer_shape net = {.recurrent = IMPMEM_RECURRENT_DELTA_NET,
                                    .conv_kernel = 4,
                                    .conv_channels = 10240,
                                    .state_elements = 48 * 128 * 128,
                                    .state_inner = 6144,
                                    .state_heads = 48};
    for (uint32_t i = 0; i < 64; i++)
        if (i % 4 != 3) s->layer[i] = net;
    assert_int_equal(impmem_size_executor_workspace(s, 4096, 1, &with), IMPMEM_OK);
    const uint64_t feed_forward = UINT64_C(4096) * (3 * 17408 + 5120) * 2;
    const uint64_t row = (6144 + 10240 + 48) * 4 + (10240 + 2 * 6144 + 5120 + 2 * 48) * 2 + (10240 + 6144 + 2 * 48) * 2;
    assert_true(with - without == 4096 * row - feed_forward);
    /* Beside attention alone, which without queries is K, V and the layer's output. */
    for (uint32_t i = 0; i < 64; i++) s->layer[i].recurrent = IMPMEM_RECURRENT_NONE;
    s->feed_forward = 0;
    s->n_heads = 0;
    s->largest_weight_elements = 1;
    assert_int_equal(impmem_size_executor_workspace(s, 4096, 1, &without), IMPMEM_OK);
    s->layer[0] = net;
    s->layer[0].recurrent = IMPMEM_RECURRENT_MAMBA2;
    assert_int_equal(impmem_size_executor_workspace(s, 4096, 1, &with), IMPMEM_OK);
    const uint64_t kv = UINT64_C(2) * 4 * 256;
    assert_true(with - without == UINT64_C(4096) * 2 * (6144 + 10240 + 48 + 10240 + 2 * 6144 + 48 - kv));
    s->layer[0].state_inner = 0; /* unknown: as many as there are channels */
    uint64_t bound = 0;
    assert_int_equal(impmem_size_executor_workspace(s, 4096, 1, &bound), IMPMEM_OK);
    assert_true(bound - with == UINT64_C(4096) * 2 * 3 * (10240 - 6144));
    free(s);
}

static void check_refused(impmem_model_shape *s, const char *subject)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(impmem_shape_check(s, &why), IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(why.status, IMPMEM_ERR_BAD_VALUE);
    assert_string_equal(why.subject, subject);
    assert_int_equal(impmem_shape_check(s, NULL), IMPMEM_ERR_BAD_VALUE);
    dense_shape(s);
}

static void a_shape_that_contradicts_itself_is_refused_by_field(void **state)
{
    (void)state;
    impmem_model_shape *s = malloc(sizeof *s);
    assert_non_null(s);
    impmem_error why = IMPMEM_ERROR_INIT;
    dense_shape(s);
    assert_int_equal(impmem_shape_check(s, &why), IMPMEM_OK);
    s->n_layers = 0;
    check_refused(s, "n_layers");
    s->n_layers = IMPMEM_MAX_LAYERS + 1;
    check_refused(s, "n_layers");
    s->layer[3].kind = 6;
    check_refused(s, "layer[3].kind");
    s->layer[3].kv_heads = 0;
    check_refused(s, "layer[3].kv_heads");
    s->layer[35].k_dim = 0;
    check_refused(s, "layer[35].k_dim");
    s->layer[0].kind = IMPMEM_LAYER_WINDOW;
    check_refused(s, "layer[0].window_tokens");
    s->layer[1].kind = IMPMEM_LAYER_LATENT;
    check_refused(s, "layer[1].kv_heads");
    s->layer[1] = (impmem_layer_shape){.kind = IMPMEM_LAYER_LATENT, .kv_heads = 1, .k_dim = 576, .v_dim = 64};
    check_refused(s, "layer[1].v_dim");
    s->layer[5] = (impmem_layer_shape){.kind = IMPMEM_LAYER_SHARED, .shared_with = 5};
    check_refused(s, "layer[5].shared_with");
    s->layer[5].kind = s->layer[6].kind = IMPMEM_LAYER_SHARED;
    s->layer[6].shared_with = 5;
    check_refused(s, "layer[6].shared_with");
    s->layer[0].kind = IMPMEM_LAYER_NO_ATTENTION;
    s->layer[5].kind = IMPMEM_LAYER_SHARED;
    check_refused(s, "layer[5].shared_with");
    s->n_experts = 4;
    s->experts_per_token = 5;
    check_refused(s, "experts_per_token");
    memset(s->name, 'x', sizeof s->name);
    check_refused(s, "name");
    memset(s->architecture, 'x', sizeof s->architecture);
    check_refused(s, "architecture");
    s->version = 2;
    assert_int_equal(impmem_shape_check(s, &why), IMPMEM_ERR_VERSION);
    s->version = 1;
    s->size = 8;
    assert_int_equal(impmem_shape_check(s, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    s->size = s->version = 0;
    assert_int_equal(impmem_shape_check(s, &why), IMPMEM_OK);
    assert_int_equal(impmem_shape_check(NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    free(s);
}

static void uniform_attention_fills_the_layers_or_changes_nothing(void **state)
{
    (void)state;
    impmem_model_shape *s = malloc(sizeof *s);
    assert_non_null(s);
    *s = (impmem_model_shape)IMPMEM_MODEL_SHAPE_INIT;
    assert_int_equal(impmem_shape_uniform_attention(s, 0, 8, 128, 128), IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(impmem_shape_uniform_attention(s, IMPMEM_MAX_LAYERS + 1, 8, 128, 128), IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(impmem_shape_uniform_attention(NULL, 1, 8, 128, 128), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(s->n_layers, 0);
    assert_int_equal(s->layer[0].kind, IMPMEM_LAYER_NO_ATTENTION);
    assert_int_equal(impmem_shape_uniform_attention(s, IMPMEM_MAX_LAYERS, 8, 128, 64), IMPMEM_OK);
    assert_int_equal(s->n_layers, IMPMEM_MAX_LAYERS);
    assert_int_equal(s->layer[IMPMEM_MAX_LAYERS - 1].v_dim, 64);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_of_each_type_takes_its_blocks),
        cmocka_unit_test(a_row_that_the_type_cannot_divide_is_refused),
        cmocka_unit_test(names_read_back_as_their_type_in_any_case),
        cmocka_unit_test(a_kv_block_takes_what_the_reference_table_says),
        cmocka_unit_test(layers_of_every_kind_take_their_own_bytes),
        cmocka_unit_test(a_kv_block_refuses_what_it_cannot_mean),
        cmocka_unit_test(sizes_do_not_wrap_round_31_and_32_bits),
        cmocka_unit_test(a_sequence_needs_whole_blocks_and_windows_one_more),
        cmocka_unit_test(a_mostly_windowed_model_takes_a_tenth),
        cmocka_unit_test(executor_workspaces_are_those_that_were_measured),
        cmocka_unit_test(a_layer_with_a_state_has_workspaces_of_its_own),
        cmocka_unit_test(a_shape_that_contradicts_itself_is_refused_by_field),
        cmocka_unit_test(uniform_attention_fills_the_layers_or_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
