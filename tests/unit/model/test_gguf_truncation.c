/* A valid GGUF cut at every byte is refused with a typed error, through the file and through memory, and reads nothing
 * beyond. */
#define _GNU_SOURCE
#include "unit/model/model_test.h"

#include "model/internal.h"

/* Every value type, arrays of each, a padded tensor table. */
static bytes rich_file(size_t *header)
{
    gguf g;
    plain_llama(&g, 3);
    static const uint32_t widths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    for (uint32_t type = 0; type < 13; type++) {
        char name[24];
        (void)snprintf(name, sizeof name, "scalar.%u", type);
        if (type == STRING) {
            key_text(&g, name, "text");
        } else if (type != ARRAY) {
            key(&g, name, type);
            put_le(&g.keys, 1, widths[type]);
        }
        if (type == ARRAY) continue;
        (void)snprintf(name, sizeof name, "array.%u", type);
        key(&g, name, ARRAY);
        put_le(&g.keys, type, 4);
        put_le(&g.keys, 3, 8);
        for (int i = 0; i < 3; i++) {
            if (type == STRING) put_text(&g.keys, "t");
            else put_le(&g.keys, 1, widths[type]);
        }
    }
    uint64_t dims[] = {256, 3};
    tensor(&g, "first", 2, dims, 14, 3 * 210);
    tensor(&g, "second", 1, dims, 0, 1024);
    bytes head = {NULL, 0, 0};
    header_bytes(&g, &head);
    *header = head.n;
    drop(&head);
    return finish(&g);
}

static void every_cut_of_a_valid_file_is_refused_as_truncated(void **state)
{
    (void)state;
    size_t header = 0;
    bytes whole = rich_file(&header);
    impmem_model *model = calloc(1, sizeof *model);
    assert_non_null(model);
    assert_int_equal(impmem__gguf_read_memory(whole.at, whole.n, model, NULL), IMPMEM_OK);
    for (size_t n = 0; n < whole.n; n++) {
        /* A copy of exactly n bytes, so that a sanitizer sees a read past its end. */
        unsigned char *cut = malloc(n ? n : 1);
        assert_non_null(cut);
        memcpy(cut, whole.at, n);
        impmem_error why = IMPMEM_ERROR_INIT;
        memset(model, 0, sizeof *model);
        impmem_status st = impmem__gguf_read_memory(cut, n, model, &why);
        free(cut);
        if (st != IMPMEM_ERR_TRUNCATED) fail_msg("cut at %zu: %s %s", n, impmem_status_name(st), why.message);
        assert_true(why.offset <= n);
    }
    free(model);
    drop(&whole);
    assert_true(header > 500);
}

static void every_cut_of_the_header_is_refused_through_the_file_too(void **state)
{
    (void)state;
    size_t header = 0;
    bytes whole = rich_file(&header);
    const char *path = scratch_path("cut.gguf");
    write_file(path, whole.at, whole.n);
    impmem_model_destroy(read_path(path));
    for (size_t n = header + 1; n-- > 0;) {
        assert_int_equal(truncate(path, (off_t)n), 0);
        impmem_error why = IMPMEM_ERROR_INIT;
        impmem_model *model = NULL;
        impmem_status st = impmem_model_read(path, &model, &why);
        if (st != IMPMEM_ERR_TRUNCATED) fail_msg("cut at %zu: %s %s", n, impmem_status_name(st), why.message);
        assert_null(model);
    }
    drop(&whole);
}

static void a_header_larger_than_the_buffer_is_read_across_its_edges(void **state)
{
    (void)state;
    for (uint32_t shift = 0; shift < 24; shift++) {
        gguf g;
        memset(&g, 0, sizeof g);
        key_text(&g, "general.architecture", "llama");
        key(&g, "pad", ARRAY);
        put_le(&g.keys, U8, 4);
        uint64_t pad = IMPMEM__BUFFER_BYTES - 200 + shift;
        put_le(&g.keys, pad, 8);
        put_zeros(&g.keys, (size_t)pad);
        key_u32(&g, "llama.block_count", 2);
        key_u32(&g, "llama.embedding_length", 64);
        key_u32(&g, "llama.feed_forward_length", 128);
        key_u32(&g, "llama.attention.head_count", 4);
        key_u32(&g, "llama.vocab_size", 7);
        impmem_model *model = read_bytes(finish(&g));
        assert_int_equal(impmem_model_shape_of(model)->vocab, 7);
        assert_int_equal(impmem_model_shape_of(model)->d_model, 64);
        impmem_model_destroy(model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_of_a_valid_file_is_refused_as_truncated),
        cmocka_unit_test(every_cut_of_the_header_is_refused_through_the_file_too),
        cmocka_unit_test(a_header_larger_than_the_buffer_is_read_across_its_edges),
    };
    return cmocka_run_group_tests_name("model.gguf_truncation", tests, scratch_open, scratch_close);
}
