/* GGUF tensor infos: sizes by type, every class of lie about shape, type, name and place, data that isn't there. */
#define _GNU_SOURCE
#include "unit/model/model_test.h"

#include "model/internal.h"

static const uint64_t one_row[] = {256};

static uint64_t header_end(const gguf *g)
{
    return 24 + g->keys.n;
}

/* The sizes as ggml's published block layouts give them, spelled out: a scale is 2 bytes (fp16) or 1 (fp8 kinds). */
static void every_type_takes_the_bytes_of_its_published_block_layout(void **state)
{
    (void)state;
    static const struct {
        uint32_t id, elements, bytes;
    } types[] = {
        {0, 1, 4},
        {1, 1, 2},
        {30, 1, 2},
        {28, 1, 8},
        {24, 1, 1},
        {25, 1, 2},
        {26, 1, 4},
        {27, 1, 8},
        {2, 32, 2 + 16},                  /* Q4_0: scale, 32 nibbles */
        {3, 32, 2 + 2 + 16},              /* Q4_1: scale, minimum, nibbles */
        {6, 32, 2 + 4 + 16},              /* Q5_0: scale, fifth bits, nibbles */
        {7, 32, 2 + 2 + 4 + 16},          /* Q5_1 */
        {8, 32, 2 + 32},                  /* Q8_0 */
        {9, 32, 2 + 2 + 32},              /* Q8_1 */
        {10, 256, 16 + 64 + 2 + 2},       /* Q2_K: 16 scales, 2-bit values, two scales */
        {11, 256, 32 + 64 + 12 + 2},      /* Q3_K: high bits, 2-bit values, 12 bytes of scales, scale */
        {12, 256, 2 + 2 + 12 + 128},      /* Q4_K */
        {13, 256, 2 + 2 + 12 + 32 + 128}, /* Q5_K */
        {14, 256, 128 + 64 + 16 + 2},     /* Q6_K */
        {15, 256, 4 + 256 + 32},          /* Q8_K */
        {16, 256, 2 + 64},                /* IQ2_XXS */
        {17, 256, 2 + 64 + 8},            /* IQ2_XS */
        {18, 256, 2 + 96},                /* IQ3_XXS */
        {19, 256, 2 + 32 + 16},           /* IQ1_S */
        {20, 32, 2 + 16},                 /* IQ4_NL */
        {21, 256, 2 + 64 + 8 + 32 + 4},   /* IQ3_S */
        {22, 256, 2 + 64 + 8 + 8},        /* IQ2_S */
        {23, 256, 2 + 2 + 4 + 128},       /* IQ4_XS */
        {29, 256, 32 + 16 + 8},           /* IQ1_M */
        {34, 256, 48 + 4 + 2},            /* TQ1_0 */
        {35, 256, 64 + 2},                /* TQ2_0 */
        {39, 32, 1 + 16},                 /* MXFP4 */
        {40, 64, 4 + 32},                 /* NVFP4: one scale for 16 */
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        gguf g;
        plain_llama(&g, 2);
        uint64_t dims[2] = {types[i].elements * 3, 5};
        uint64_t bytes_expected = UINT64_C(15) * types[i].bytes;
        tensor(&g, "blk.0.attn_q.weight", 2, dims, types[i].id, bytes_expected);
        impmem_model *model = read_bytes(finish(&g));
        const impmem_model_shape *shape = impmem_model_shape_of(model);
        assert_int_equal(shape->weight_bytes, bytes_expected);
        assert_int_equal(shape->weight_source, IMPMEM_SOURCE_READ);
        assert_int_equal(shape->n_tensors, 1);
        assert_int_equal(shape->largest_weight_elements, dims[0] * 5);
        impmem_model_destroy(model);
    }
}

static void weights_are_the_sum_without_padding_and_the_largest_is_a_projection(void **state)
{
    (void)state;
    gguf g;
    plain_llama(&g, 2);
    uint64_t embedding[] = {64, 100}, norm[] = {3}, experts[] = {64, 32, 8};
    tensor(&g, "token_embd.weight", 2, embedding, 0, 64 * 100 * 4);
    tensor(&g, "output_norm.weight", 1, norm, 0, 12);
    tensor(&g, "blk.0.ffn_up_exps.weight", 3, experts, 1, 64 * 32 * 8 * 2);
    tensor(&g, "output.weight", 2, embedding, 0, 64 * 100 * 4);
    impmem_model *model = read_bytes(finish(&g));
    assert_int_equal(impmem_model_shape_of(model)->weight_bytes, 64 * 100 * 4 * 2 + 12 + 64 * 32 * 8 * 2);
    assert_int_equal(impmem_model_shape_of(model)->largest_weight_elements, 64 * 32);
    assert_int_equal(impmem_model_shape_of(model)->embedding_bytes, 64 * 100 * 4);
    assert_int_equal(impmem_model_shape_of(model)->output_bytes, 64 * 100 * 4);
    assert_int_equal(impmem_model_shape_of(model)->tied_embeddings, 0);
    impmem_model_destroy(model);
    plain_llama(&g, 2);
    tensor(&g, "token_embd.weight", 2, embedding, 0, 64 * 100 * 4);
    model = read_bytes(finish(&g));
    assert_int_equal(impmem_model_shape_of(model)->output_bytes, 0);
    assert_int_equal(impmem_model_shape_of(model)->tied_embeddings, 1);
    impmem_model_destroy(model);
}

static void a_file_without_tensors_is_read_and_its_weights_are_unknown(void **state)
{
    (void)state;
    gguf g;
    plain_llama(&g, 2);
    impmem_model *model = read_bytes(finish(&g));
    assert_int_equal(impmem_model_shape_of(model)->weight_source, IMPMEM_SOURCE_UNKNOWN);
    assert_int_equal(impmem_model_shape_of(model)->weight_bytes, 0);
    assert_true(has_note(model, "no tensors"));
    impmem_model_destroy(model);
}

static void refuse_dims(uint32_t n_dims, const uint64_t *dims, impmem_status status, const char *words, uint64_t place)
{
    gguf g;
    plain_llama(&g, 2);
    uint64_t at = header_end(&g) + 8 + 1; /* after the name "t" */
    raw_tensor(&g, "t", n_dims, dims, 0, 0);
    put_zeros(&g.infos, 64);
    expect_refused(finish(&g), status, words, place == UINT64_MAX ? place : at + place);
}

static void dimension_counts_other_than_1_to_4_are_refused(void **state)
{
    (void)state;
    static const uint64_t dims[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    refuse_dims(0, dims, IMPMEM_ERR_BAD_FORMAT, "found 0, expected 1 to 4", 0);
    refuse_dims(5, dims, IMPMEM_ERR_BAD_FORMAT, "found 5, expected 1 to 4", 0);
    refuse_dims(UINT32_MAX, dims, IMPMEM_ERR_BAD_FORMAT, "found 4294967295, expected 1 to 4", 0);
}

static void zero_and_negative_dimensions_are_refused(void **state)
{
    (void)state;
    refuse_dims(1, (const uint64_t[]){0}, IMPMEM_ERR_BAD_VALUE, "dimension 0 of tensor 't'", 4);
    refuse_dims(2, (const uint64_t[]){4, 0}, IMPMEM_ERR_BAD_VALUE, "dimension 1 of tensor 't'", 12);
    refuse_dims(1, (const uint64_t[]){UINT64_C(1) << 63}, IMPMEM_ERR_BAD_VALUE, "found -9223372036854775808", 4);
    refuse_dims(1, (const uint64_t[]){UINT64_MAX}, IMPMEM_ERR_BAD_VALUE, "found -1,", 4);
}

static void dimension_products_that_wrap_are_refused(void **state)
{
    (void)state;
    refuse_dims(2, (const uint64_t[]){INT64_MAX, 2}, IMPMEM_ERR_BAD_VALUE, "product beyond 2^63", 12);
    refuse_dims(2, (const uint64_t[]){4, (UINT64_C(1) << 62) + 1}, IMPMEM_ERR_BAD_VALUE, "product beyond 2^63", 12);
    refuse_dims(3, (const uint64_t[]){UINT64_C(1) << 32, UINT64_C(1) << 32, 1}, IMPMEM_ERR_BAD_VALUE, "product", 12);
}

static void sizes_that_wrap_when_multiplied_padded_or_summed_are_refused(void **state)
{
    (void)state;
    /* 4 x 1073741823 x 1073741825 elements of 4 bytes: 2^64 - 16, which rounds up to 0 */
    static const uint64_t nearly[] = {4, 1073741823, 1073741825};
    gguf g;
    plain_llama(&g, 2);
    raw_tensor(&g, "t", 3, nearly, 0, 0);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "a sum beyond 2^64 bytes", UINT64_MAX);
    plain_llama(&g, 2);
    raw_tensor(&g, "t", 1, (const uint64_t[]){INT64_MAX}, 0, 0);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "more than 2^64 bytes", UINT64_MAX);
    /* three tensors of 2^62 elements of 2 bytes: the second's end wraps */
    plain_llama(&g, 2);
    raw_tensor(&g, "a", 1, (const uint64_t[]){UINT64_C(1) << 62}, 1, 0);
    raw_tensor(&g, "b", 1, (const uint64_t[]){UINT64_C(1) << 62}, 1, UINT64_C(1) << 63);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "sizes up to tensor 'b'", UINT64_MAX);
}

static void removed_and_unknown_types_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        uint32_t id;
        const char *words;
    } bad[] = {{4, "Q4_2"},
               {5, "Q4_3"},
               {31, "Q4_0_4_4"},
               {36, "IQ4_NL_4_4"},
               {37, "IQ4_NL_4_8"},
               {38, "IQ4_NL_8_8"},
               {1000000, "found 1000000 (unknown)"},
               {UINT32_MAX, "found 4294967295 (unknown)"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gguf g;
        plain_llama(&g, 2);
        uint64_t at = header_end(&g) + 8 + 1 + 4 + 8;
        raw_tensor(&g, "t", 1, one_row, bad[i].id, 0);
        expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, bad[i].words, at);
    }
}

static void a_row_that_is_no_multiple_of_the_block_is_refused(void **state)
{
    (void)state;
    gguf g;
    plain_llama(&g, 2);
    raw_tensor(&g, "t", 2, (const uint64_t[]){100, 256}, 12, 0);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "found 100 elements, expected a multiple of 256 for type Q4_K",
                   UINT64_MAX);
}

static void tensors_at_a_wrong_place_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint64_t offset;
        const char *words;
    } bad[] = {{1040, "expected a multiple of the alignment 32"},
               {992, "overlaps a tensor before it"},
               {0, "overlaps a tensor before it"},
               {1056, "leaves a gap"},
               {UINT64_MAX - 31, "leaves a gap"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gguf g;
        plain_llama(&g, 2);
        tensor(&g, "a", 1, one_row, 0, 1024);
        uint64_t at = header_end(&g) + g.infos.n + 8 + 1 + 4 + 8 + 4;
        raw_tensor(&g, "b", 1, one_row, 0, bad[i].offset);
        g.data_bytes = 4096;
        expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, bad[i].words, at);
    }
}

static void a_repeated_tensor_name_is_refused_with_both_places(void **state)
{
    (void)state;
    gguf g;
    plain_llama(&g, 2);
    uint64_t first = header_end(&g), size = 8 + 1 + 4 + 8 + 4 + 8;
    tensor(&g, "b", 1, one_row, 0, 1024);
    tensor(&g, "a", 1, one_row, 0, 1024);
    tensor(&g, "b", 1, one_row, 0, 1024);
    char words[96];
    (void)snprintf(words, sizeof words, "tensor 'b' at byte %u: found again, expected only the one at byte %u",
                   (unsigned)(first + 2 * size), (unsigned)first);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_FORMAT, words, first + 2 * size);
}

static void tensor_names_of_0_and_64_bytes_are_refused_and_63_is_read(void **state)
{
    (void)state;
    char name[65];
    memset(name, 'n', 64);
    name[64] = '\0';
    gguf g;
    plain_llama(&g, 2);
    uint64_t at = header_end(&g);
    tensor(&g, name, 1, one_row, 0, 1024);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_FORMAT, "found 64, expected 1 to 63", at);
    plain_llama(&g, 2);
    tensor(&g, "", 1, one_row, 0, 1024);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_FORMAT, "found 0, expected 1 to 63", at);
    name[63] = '\0';
    plain_llama(&g, 2);
    tensor(&g, name, 1, one_row, 0, 1024);
    impmem_model_destroy(read_bytes(finish(&g)));
}

static void a_zero_byte_in_a_tensor_name_is_refused(void **state)
{
    (void)state;
    gguf g;
    plain_llama(&g, 2);
    tensor(&g, "abc", 1, one_row, 0, 1024);
    g.infos.at[8 + 1] = 0;
    expect_refused(finish(&g), IMPMEM_ERR_BAD_FORMAT, "found a zero byte", UINT64_MAX);
}

static void data_shorter_than_declared_is_truncated_by_one_byte_too(void **state)
{
    (void)state;
    gguf g;
    plain_llama(&g, 2);
    tensor(&g, "a", 1, one_row, 0, 1024);
    bytes b = finish(&g);
    size_t whole = b.n;
    b.n = whole - 1;
    expect_refused(b, IMPMEM_ERR_TRUNCATED, "tensor data from byte", whole - 1);
}

static void a_declared_alignment_moves_the_data_and_the_offsets(void **state)
{
    (void)state;
    gguf g;
    plain_llama(&g, 2);
    key_u32(&g, "general.alignment", 4096);
    g.alignment = 4096;
    tensor(&g, "a", 1, one_row, 0, 1024);
    tensor(&g, "b", 1, one_row, 0, 1024);
    bytes b = finish(&g);
    assert_int_equal(b.n, 4096 + 4096 + 1024);
    impmem_model *model = read_bytes(b);
    assert_int_equal(impmem_model_shape_of(model)->weight_bytes, 2048);
    impmem_model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_takes_the_bytes_of_its_published_block_layout),
        cmocka_unit_test(weights_are_the_sum_without_padding_and_the_largest_is_a_projection),
        cmocka_unit_test(a_file_without_tensors_is_read_and_its_weights_are_unknown),
        cmocka_unit_test(dimension_counts_other_than_1_to_4_are_refused),
        cmocka_unit_test(zero_and_negative_dimensions_are_refused),
        cmocka_unit_test(dimension_products_that_wrap_are_refused),
        cmocka_unit_test(sizes_that_wrap_when_multiplied_padded_or_summed_are_refused),
        cmocka_unit_test(removed_and_unknown_types_are_refused_by_name),
        cmocka_unit_test(a_row_that_is_no_multiple_of_the_block_is_refused),
        cmocka_unit_test(tensors_at_a_wrong_place_are_refused),
        cmocka_unit_test(a_repeated_tensor_name_is_refused_with_both_places),
        cmocka_unit_test(tensor_names_of_0_and_64_bytes_are_refused_and_63_is_read),
        cmocka_unit_test(a_zero_byte_in_a_tensor_name_is_refused),
        cmocka_unit_test(data_shorter_than_declared_is_truncated_by_one_byte_too),
        cmocka_unit_test(a_declared_alignment_moves_the_data_and_the_offsets),
    };
    return cmocka_run_group_tests_name("model.gguf_tensors", tests, scratch_open, scratch_close);
}
