/* Split GGUF sets: the first file finds its siblings and adds them up; anything that disagrees is refused. */
#define _GNU_SOURCE
#include "unit/model/model_test.h"

static const uint64_t row[] = {256};

static void split_keys(gguf *g, uint32_t number, uint32_t count, uint32_t tensors)
{
    key(g, "split.no", U16);
    put_le(&g->keys, number, 2);
    key(g, "split.count", U16);
    put_le(&g->keys, count, 2);
    key(g, "split.tensors.count", I32);
    put_le(&g->keys, tensors, 4);
}

static void write_part(const char *name, int first, uint32_t number, uint32_t count, uint32_t total, uint32_t own)
{
    gguf g;
    if (first) plain_llama(&g, 2);
    else memset(&g, 0, sizeof g);
    split_keys(&g, number, count, total);
    for (uint32_t i = 0; i < own; i++) {
        char tensor_name[32];
        (void)snprintf(tensor_name, sizeof tensor_name, "t%u.%u", number, i);
        tensor(&g, tensor_name, 1, row, 0, 1024);
    }
    bytes b = finish(&g);
    write_file(scratch_path(name), b.at, b.n);
    drop(&b);
}

static void a_set_of_three_files_is_added_up_from_its_first(void **state)
{
    (void)state;
    write_part("m-00001-of-00003.gguf", 1, 0, 3, 6, 1);
    write_part("m-00002-of-00003.gguf", 0, 1, 3, 6, 2);
    write_part("m-00003-of-00003.gguf", 0, 2, 3, 6, 3);
    impmem_model *model = read_path(scratch_path("m-00001-of-00003.gguf"));
    assert_int_equal(impmem_model_shape_of(model)->n_tensors, 6);
    assert_int_equal(impmem_model_shape_of(model)->weight_bytes, 6 * 1024);
    assert_int_equal(impmem_model_shape_of(model)->largest_weight_elements, 256);
    impmem_model_destroy(model);
}

static void another_file_of_a_set_is_refused_with_the_name_of_the_first(void **state)
{
    (void)state;
    write_part("n-00002-of-00003.gguf", 0, 1, 3, 6, 2);
    expect_path_refused(scratch_path("n-00002-of-00003.gguf"), IMPMEM_ERR_BAD_VALUE,
                        "give its first file, n-00001-of-00003.gguf");
}

static void a_missing_sibling_is_named(void **state)
{
    (void)state;
    write_part("o-00001-of-00002.gguf", 1, 0, 2, 2, 1);
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_model *model = NULL;
    assert_int_equal(impmem_model_read(scratch_path("o-00001-of-00002.gguf"), &model, &why), IMPMEM_ERR_IO);
    assert_non_null(strstr(why.subject, "o-00002-of-00002.gguf"));
    assert_non_null(strstr(why.message, "can't be opened"));
}

static void siblings_that_disagree_are_refused(void **state)
{
    (void)state;
    write_part("p-00001-of-00002.gguf", 1, 0, 2, 2, 1);
    write_part("p-00002-of-00002.gguf", 0, 0, 2, 2, 1);
    expect_path_refused(scratch_path("p-00001-of-00002.gguf"), IMPMEM_ERR_BAD_VALUE, "found file 0 of 2");
    write_part("p-00002-of-00002.gguf", 0, 1, 3, 2, 1);
    expect_path_refused(scratch_path("p-00001-of-00002.gguf"), IMPMEM_ERR_BAD_VALUE, "found file 1 of 3");
    write_part("p-00002-of-00002.gguf", 0, 1, 2, 9, 1);
    expect_path_refused(scratch_path("p-00001-of-00002.gguf"), IMPMEM_ERR_BAD_VALUE, "with 9 tensors in all");
    gguf g;
    memset(&g, 0, sizeof g);
    key_text(&g, "general.name", "no split keys");
    bytes b = finish(&g);
    write_file(scratch_path("p-00002-of-00002.gguf"), b.at, b.n);
    drop(&b);
    expect_path_refused(scratch_path("p-00001-of-00002.gguf"), IMPMEM_ERR_BAD_VALUE, "expected file 1 of 2");
}

static void a_tensor_total_that_is_not_the_sum_is_refused(void **state)
{
    (void)state;
    write_part("q-00001-of-00002.gguf", 1, 0, 2, 5, 1);
    write_part("q-00002-of-00002.gguf", 0, 1, 2, 5, 1);
    expect_path_refused(scratch_path("q-00001-of-00002.gguf"), IMPMEM_ERR_BAD_VALUE,
                        "'split.tensors.count': found 5, expected the 2 tensors of the 2 files");
}

static void a_file_whose_name_is_not_of_a_set_cannot_find_its_siblings(void **state)
{
    (void)state;
    write_part("renamed.gguf", 1, 0, 2, 2, 1);
    expect_path_refused(scratch_path("renamed.gguf"), IMPMEM_ERR_BAD_FORMAT, "-00001-of-00002.gguf");
}

static void split_keys_that_are_missing_or_absurd_are_refused(void **state)
{
    (void)state;
    gguf g;
    plain_llama(&g, 2);
    key_u32(&g, "split.no", 0);
    expect_refused(finish(&g), IMPMEM_ERR_MISSING_KEY, "'split.count'", UINT64_MAX);
    plain_llama(&g, 2);
    key_u32(&g, "split.count", 2);
    expect_refused(finish(&g), IMPMEM_ERR_MISSING_KEY, "'split.no'", UINT64_MAX);
    plain_llama(&g, 2);
    key_u32(&g, "split.count", 2);
    key_u32(&g, "split.no", 0);
    expect_refused(finish(&g), IMPMEM_ERR_MISSING_KEY, "'split.tensors.count'", UINT64_MAX);
    plain_llama(&g, 2);
    split_keys(&g, 7, 3, 1);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "'split.no': found 7 of 3 files", UINT64_MAX);
    plain_llama(&g, 2);
    key_u32(&g, "split.no", 0);
    key_u32(&g, "split.count", 5000);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "expected 0 to 4096", UINT64_MAX);
    plain_llama(&g, 2);
    key_text(&g, "split.no", "0");
    key_u32(&g, "split.count", 2);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "'split.no' at byte", UINT64_MAX);
    plain_llama(&g, 2);
    key_u32(&g, "split.no", 0);
    key_u32(&g, "split.count", 2);
    key(&g, "split.tensors.count", I32);
    put_le(&g.keys, UINT32_MAX, 4);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "i32 -1", UINT64_MAX);
}

static void a_set_of_one_is_a_plain_file(void **state)
{
    (void)state;
    write_part("single.gguf", 1, 0, 1, 1, 1);
    impmem_model_destroy(read_path(scratch_path("single.gguf")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_of_three_files_is_added_up_from_its_first),
        cmocka_unit_test(another_file_of_a_set_is_refused_with_the_name_of_the_first),
        cmocka_unit_test(a_missing_sibling_is_named),
        cmocka_unit_test(siblings_that_disagree_are_refused),
        cmocka_unit_test(a_tensor_total_that_is_not_the_sum_is_refused),
        cmocka_unit_test(a_file_whose_name_is_not_of_a_set_cannot_find_its_siblings),
        cmocka_unit_test(split_keys_that_are_missing_or_absurd_are_refused),
        cmocka_unit_test(a_set_of_one_is_a_plain_file),
    };
    return cmocka_run_group_tests_name("model.gguf_splits", tests, scratch_open, scratch_close);
}
