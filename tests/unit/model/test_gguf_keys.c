/* GGUF keys: malformed headers are refused by name, with the byte where it begins; odd but legal ones are read. */
#define _GNU_SOURCE
#include "unit/model/model_test.h"

#define AFTER_ARCH (24u + 8 + 20 + 4 + 8 + 5) /* where the key after general.architecture = llama begins */

static gguf only_arch(void)
{
    gguf g;
    memset(&g, 0, sizeof g);
    key_text(&g, "general.architecture", "llama");
    return g;
}

static bytes raw_header(const char *magic, uint32_t version, uint64_t n_tensors, uint64_t n_keys)
{
    bytes b = {NULL, 0, 0};
    put(&b, magic, 4);
    put_le(&b, version, 4);
    put_le(&b, n_tensors, 8);
    put_le(&b, n_keys, 8);
    return b;
}

static void wrong_magic_is_refused_with_the_bytes_found(void **state)
{
    (void)state;
    expect_refused(raw_header("GGML", 3, 0, 0), IMPMEM_ERR_BAD_FORMAT, "found bytes 47 47 4d 4c, expected \"GGUF\"", 0);
    expect_refused(raw_header("FUGG", 3, 0, 0), IMPMEM_ERR_BAD_FORMAT, "byte-swapped", 0);
}

static void unknown_versions_are_refused_and_big_endian_by_name(void **state)
{
    (void)state;
    expect_refused(raw_header("GGUF", 0, 0, 0), IMPMEM_ERR_BAD_FORMAT, "found 0, expected 2 or 3", 4);
    expect_refused(raw_header("GGUF", 1, 0, 0), IMPMEM_ERR_BAD_FORMAT, "found 1 (32-bit counts, obsolete)", 4);
    expect_refused(raw_header("GGUF", 4, 0, 0), IMPMEM_ERR_BAD_FORMAT, "found 4, expected 2 or 3", 4);
    expect_refused(raw_header("GGUF", 0x80000000u, 0, 0), IMPMEM_ERR_BAD_FORMAT, "big-endian", 4);
    expect_refused(raw_header("GGUF", 0x03000000u, 0, 0), IMPMEM_ERR_BAD_FORMAT, "0x03000000, a big-endian file", 4);
}

static void version_2_is_read_as_version_2(void **state)
{
    (void)state;
    gguf g;
    plain_llama(&g, 3);
    bytes b = finish(&g);
    b.at[4] = 2;
    impmem_model *model = read_bytes(b);
    assert_string_equal(impmem_model_format(model), "gguf v2");
    assert_int_equal(impmem_model_shape_of(model)->n_layers, 3);
    impmem_model_destroy(model);
}

static void a_key_count_beyond_the_bound_or_the_file_is_refused(void **state)
{
    (void)state;
    expect_refused(raw_header("GGUF", 3, 0, UINT64_MAX), IMPMEM_ERR_TOO_LARGE, "key count at byte 16", 16);
    /* n_kv x 14 would wrap to 0 */
    expect_refused(raw_header("GGUF", 3, 0, UINT64_C(1) << 63), IMPMEM_ERR_TOO_LARGE, "expected at most 65536", 16);
    expect_refused(raw_header("GGUF", 3, 0, 65536), IMPMEM_ERR_TRUNCATED, "the key count", 16);
}

static void a_tensor_count_beyond_the_bound_or_the_file_is_refused(void **state)
{
    (void)state;
    expect_refused(raw_header("GGUF", 3, UINT64_MAX, 0), IMPMEM_ERR_TOO_LARGE, "tensor count at byte 8", 8);
    expect_refused(raw_header("GGUF", 3, UINT64_C(1) << 61, 0), IMPMEM_ERR_TOO_LARGE, "tensor count", 8);
    expect_refused(raw_header("GGUF", 3, 1000, 0), IMPMEM_ERR_TRUNCATED, "found 1000", 8);
}

static void a_string_longer_than_the_file_or_the_bound_is_refused_before_it_is_read(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_C(1) << 30, UINT64_C(1) << 63};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        gguf g = only_arch();
        key(&g, "general.name", STRING);
        put_le(&g.keys, lengths[i], 8);
        put_zeros(&g.keys, 60);
        expect_refused(finish(&g), IMPMEM_ERR_TOO_LARGE, "length of key 'general.name'", AFTER_ARCH + 8 + 12 + 4);
    }
    gguf g = only_arch();
    key(&g, "general.name", STRING);
    put_le(&g.keys, 100, 8);
    put_zeros(&g.keys, 60);
    expect_refused(finish(&g), IMPMEM_ERR_TRUNCATED, "found 100, expected at most the 60 bytes", AFTER_ARCH + 8 + 12 + 4);
}

static void an_array_count_beyond_the_file_is_refused_for_every_element_type(void **state)
{
    (void)state;
    static const uint32_t types[] = {U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, U64, I64, F64};
    static const uint64_t counts[] = {UINT64_MAX, UINT64_C(1) << 61, 1000};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            gguf g = only_arch();
            key(&g, "x", ARRAY);
            put_le(&g.keys, types[t], 4);
            put_le(&g.keys, counts[c], 8);
            put_zeros(&g.keys, 100);
            expect_refused(finish(&g), IMPMEM_ERR_TRUNCATED, "element count of key 'x'", AFTER_ARCH + 8 + 1 + 4 + 4);
        }
    }
}

static void unknown_types_and_arrays_of_arrays_are_refused(void **state)
{
    (void)state;
    static const uint32_t types[] = {13, 1000000, UINT32_MAX};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        gguf g = only_arch();
        key(&g, "x", types[i]);
        put_zeros(&g.keys, 32);
        expect_refused(finish(&g), IMPMEM_ERR_BAD_FORMAT, "type of key 'x'", AFTER_ARCH + 8 + 1);
        g = only_arch();
        key(&g, "x", ARRAY);
        put_le(&g.keys, types[i], 4);
        put_zeros(&g.keys, 32);
        expect_refused(finish(&g), IMPMEM_ERR_BAD_FORMAT, "element type of key 'x'", AFTER_ARCH + 8 + 1 + 4);
    }
    gguf g = only_arch();
    key(&g, "x", ARRAY);
    put_le(&g.keys, ARRAY, 4);
    put_zeros(&g.keys, 32);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_FORMAT, "array of arrays", AFTER_ARCH + 8 + 1 + 4);
}

static void well_known_keys_of_the_wrong_type_are_refused(void **state)
{
    (void)state;
    gguf g = only_arch();
    key(&g, "general.alignment", I32);
    put_le(&g.keys, 32, 4);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "'general.alignment' at byte 69: found type i32, expected u32",
                   AFTER_ARCH);
    g = only_arch();
    key_text(&g, "general.alignment", "32");
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "found type string, expected u32", AFTER_ARCH);
    memset(&g, 0, sizeof g);
    key_u32(&g, "general.architecture", 7);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "'general.architecture' at byte 24: found type u32, expected string",
                   24);
    memset(&g, 0, sizeof g);
    key_u32(&g, "x", 7);
    expect_refused(finish(&g), IMPMEM_ERR_MISSING_KEY, "'general.architecture'", UINT64_MAX);
    plain_llama(&g, 2);
    key_text(&g, "llama.attention.key_length", "16");
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "'llama.attention.key_length' at byte", UINT64_MAX);
    plain_llama(&g, 2);
    key(&g, "llama.attention.key_length", F32);
    put_le(&g.keys, 0x41800000u, 4); /* 16.0 */
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "found the number 16", UINT64_MAX);
    plain_llama(&g, 2);
    key(&g, "llama.attention.key_length", BOOL);
    put_le(&g.keys, 1, 1);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "found true", UINT64_MAX);
    plain_llama(&g, 2);
    key(&g, "llama.attention.key_length", ARRAY);
    put_le(&g.keys, F32, 4);
    put_le(&g.keys, 2, 8);
    put_zeros(&g.keys, 8);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "'llama.attention.key_length'[0]", UINT64_MAX);
    static const uint32_t two[] = {64, 64};
    memset(&g, 0, sizeof g);
    key_text(&g, "general.architecture", "llama");
    key_u32(&g, "llama.block_count", 2);
    key_array_u32(&g, "llama.embedding_length", two, 2);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "found an array of 2, expected an integer", UINT64_MAX);
}

static void alignment_must_be_a_power_of_two_within_the_bound(void **state)
{
    (void)state;
    static const uint32_t bad[] = {0, 3, 33, 0xffffffe0u /* -32 */, 12};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gguf g = only_arch();
        key_u32(&g, "general.alignment", bad[i]);
        expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "expected a power of two", AFTER_ARCH);
    }
    static const uint32_t large[] = {UINT32_C(1) << 30, 0x80000000u, UINT32_C(1) << 21};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        gguf g = only_arch();
        key_u32(&g, "general.alignment", large[i]);
        expect_refused(finish(&g), IMPMEM_ERR_TOO_LARGE, "expected at most 1048576", AFTER_ARCH);
    }
}

static void a_repeated_key_is_refused_with_both_places(void **state)
{
    (void)state;
    gguf g = only_arch();
    key_u32(&g, "x", 1);
    key_u32(&g, "y", 2);
    key_u32(&g, "x", 1);
    /* x and y take 8 + 1 + 4 + 4 bytes each */
    expect_refused(finish(&g), IMPMEM_ERR_BAD_FORMAT, "key 'x' at byte 103: found again, expected only the one at byte 69",
                   AFTER_ARCH + 2 * 17);
}

static void empty_overlong_and_non_ascii_key_names_are_refused(void **state)
{
    (void)state;
    gguf g = only_arch();
    key_u32(&g, "", 1);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_FORMAT, "found an empty name", AFTER_ARCH);
    g = only_arch();
    key_u32(&g, "caf\xc3\xa9", 1);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_FORMAT, "found byte 0xc3", AFTER_ARCH + 8 + 3);
    char *name = malloc(65537);
    assert_non_null(name);
    memset(name, 'k', 65536);
    name[65536] = '\0';
    g = only_arch();
    key_u32(&g, name, 1);
    expect_refused(finish(&g), IMPMEM_ERR_TOO_LARGE, "found 65536, expected at most 65535", AFTER_ARCH);
    name[65535] = '\0';
    plain_llama(&g, 2);
    key_u32(&g, name, 1);
    impmem_model *model = read_bytes(finish(&g));
    impmem_model_destroy(model);
    free(name);
}

static void key_names_that_together_pass_the_bound_are_refused(void **state)
{
    (void)state;
    char *name = malloc(65536);
    assert_non_null(name);
    memset(name, 'k', 65535);
    name[65535] = '\0';
    gguf g;
    memset(&g, 0, sizeof g);
    for (uint32_t i = 0; i < 257; i++) { /* 257 x 65536 > 16 MiB */
        (void)snprintf(name, 12, "%08u", i);
        name[8] = 'k';
        key_u32(&g, name, i);
    }
    free(name);
    expect_refused(finish(&g), IMPMEM_ERR_TOO_LARGE, "key names", UINT64_MAX);
}

static void bools_other_than_0_and_1_are_refused_alone_and_in_arrays(void **state)
{
    (void)state;
    gguf g = only_arch();
    key(&g, "x", BOOL);
    put_le(&g.keys, 2, 1);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "found 2, expected 0 or 1", AFTER_ARCH + 8 + 1 + 4);
    static const uint8_t list[] = {0, 1, 7};
    g = only_arch();
    key_array_bool(&g, "x", list, 3);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "found 7, expected 0 or 1", AFTER_ARCH + 8 + 1 + 4 + 4 + 8 + 2);
}

static void numbers_that_are_not_finite_are_refused(void **state)
{
    (void)state;
    static const uint32_t f32[] = {0x7fc00000u, 0x7f800000u, 0xff800000u};
    for (size_t i = 0; i < sizeof f32 / sizeof *f32; i++) {
        gguf g = only_arch();
        key(&g, "llama.rope.scaling.factor", F32);
        put_le(&g.keys, f32[i], 4);
        expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, i == 0 ? "found NaN" : "found infinity", AFTER_ARCH + 8 + 25 + 4);
    }
    gguf g = only_arch();
    key(&g, "x", F64);
    put_le(&g.keys, UINT64_C(0x7ff8000000000000), 8);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "expected a finite number", UINT64_MAX);
}

static void every_integer_width_is_read_and_negative_ones_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t type;
        uint32_t width;
    } kinds[] = {{U8, 1}, {I8, 1}, {U16, 2}, {I16, 2}, {U32, 4}, {I32, 4}, {U64, 8}, {I64, 8}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        gguf g;
        plain_llama(&g, 2);
        key(&g, "llama.attention.key_length", kinds[i].type);
        put_le(&g.keys, 96, kinds[i].width);
        impmem_model *model = read_bytes(finish(&g));
        assert_int_equal(impmem_model_shape_of(model)->layer[1].k_dim, 96);
        impmem_model_destroy(model);
        if (kinds[i].type == U8 || kinds[i].type == U16) continue;
        plain_llama(&g, 2);
        key(&g, "llama.attention.key_length", kinds[i].type);
        put_le(&g.keys, UINT64_MAX, kinds[i].width);
        expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "'llama.attention.key_length'", UINT64_MAX);
    }
}

static void a_vocabulary_of_more_than_8_mib_is_streamed_and_counted(void **state)
{
    (void)state;
    gguf g;
    memset(&g, 0, sizeof g);
    key_text(&g, "general.architecture", "llama");
    key(&g, "tokenizer.ggml.tokens", ARRAY);
    put_le(&g.keys, STRING, 4);
    put_le(&g.keys, 250000, 8);
    for (uint32_t i = 0; i < 250000; i++) { /* 8 + 32 bytes each: 9.5 MiB */
        char token[40];
        (void)snprintf(token, sizeof token, "%032u", i);
        put_text(&g.keys, token);
    }
    key_u32(&g, "llama.block_count", 2);
    key_u32(&g, "llama.embedding_length", 64);
    key_u32(&g, "llama.feed_forward_length", 128);
    key_u32(&g, "llama.attention.head_count", 4);
    impmem_model *model = read_bytes(finish(&g));
    assert_int_equal(impmem_model_shape_of(model)->vocab, 250000);
    assert_int_equal(impmem_model_shape_of(model)->n_layers, 2);
    assert_true(has_note(model, "tokenizer.ggml.tokens"));
    impmem_model_destroy(model);
}

static void text_from_the_file_comes_out_escaped(void **state)
{
    (void)state;
    gguf g;
    memset(&g, 0, sizeof g);
    key_text(&g, "general.architecture", "ev\033[2Jil\n");
    expect_refused(finish(&g), IMPMEM_ERR_UNKNOWN_ARCHITECTURE, "'ev\\x1b[2Jil\\x0a'", UINT64_MAX);
    memset(&g, 0, sizeof g);
    key(&g, "general.architecture", STRING);
    put_le(&g.keys, 8, 8);
    put(&g.keys, "llama\0xy", 8);
    expect_refused(finish(&g), IMPMEM_ERR_UNKNOWN_ARCHITECTURE, "'llama?xy'", UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_magic_is_refused_with_the_bytes_found),
        cmocka_unit_test(unknown_versions_are_refused_and_big_endian_by_name),
        cmocka_unit_test(version_2_is_read_as_version_2),
        cmocka_unit_test(a_key_count_beyond_the_bound_or_the_file_is_refused),
        cmocka_unit_test(a_tensor_count_beyond_the_bound_or_the_file_is_refused),
        cmocka_unit_test(a_string_longer_than_the_file_or_the_bound_is_refused_before_it_is_read),
        cmocka_unit_test(an_array_count_beyond_the_file_is_refused_for_every_element_type),
        cmocka_unit_test(unknown_types_and_arrays_of_arrays_are_refused),
        cmocka_unit_test(well_known_keys_of_the_wrong_type_are_refused),
        cmocka_unit_test(alignment_must_be_a_power_of_two_within_the_bound),
        cmocka_unit_test(a_repeated_key_is_refused_with_both_places),
        cmocka_unit_test(empty_overlong_and_non_ascii_key_names_are_refused),
        cmocka_unit_test(key_names_that_together_pass_the_bound_are_refused),
        cmocka_unit_test(bools_other_than_0_and_1_are_refused_alone_and_in_arrays),
        cmocka_unit_test(numbers_that_are_not_finite_are_refused),
        cmocka_unit_test(every_integer_width_is_read_and_negative_ones_refused),
        cmocka_unit_test(a_vocabulary_of_more_than_8_mib_is_streamed_and_counted),
        cmocka_unit_test(text_from_the_file_comes_out_escaped),
    };
    return cmocka_run_group_tests_name("model.gguf_keys", tests, scratch_open, scratch_close);
}
