/* What impmem_model_read does with paths: arguments, files that are none, and files of no known kind. */
#define _GNU_SOURCE
#include "unit/model/model_test.h"

static void null_arguments_are_refused(void **state)
{
    (void)state;
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_model *model = NULL;
    assert_int_equal(impmem_model_read(NULL, &model, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_model_read("x", NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_model_read(NULL, &model, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_null(model);
}

static void null_models_have_nothing(void **state)
{
    (void)state;
    impmem_model_destroy(NULL);
    assert_null(impmem_model_shape_of(NULL));
    assert_string_equal(impmem_model_format(NULL), "");
    assert_null(impmem_model_note(NULL, 0));
}

static void notes_end_with_null(void **state)
{
    (void)state;
    gguf g;
    plain_llama(&g, 2);
    impmem_model *model = read_bytes(finish(&g));
    uint32_t n = 0;
    while (impmem_model_note(model, n)) n++;
    assert_true(n > 0);
    assert_null(impmem_model_note(model, n));
    assert_null(impmem_model_note(model, UINT32_MAX));
    impmem_model_destroy(model);
}

static void paths_that_are_no_readable_file_are_refused_as_io(void **state)
{
    (void)state;
    expect_path_refused(scratch_path("absent.gguf"), IMPMEM_ERR_IO, "No such file");
    const char *fifo = scratch_path("pipe.gguf");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    expect_path_refused(fifo, IMPMEM_ERR_IO, "is a FIFO, expected a regular file");
    const char *loop = scratch_path("loop");
    assert_int_equal(symlink(loop, loop), 0);
    expect_path_refused(loop, IMPMEM_ERR_IO, "symbolic links");
    expect_path_refused("/dev/zero", IMPMEM_ERR_IO, "is a character device");
    const char *dir = scratch_path("empty-dir");
    assert_int_equal(mkdir(dir, 0700), 0);
    expect_path_refused(dir, IMPMEM_ERR_IO, "a directory without config.json");
    char inside[800];
    (void)snprintf(inside, sizeof inside, "%s/config.json", dir);
    assert_int_equal(mkdir(inside, 0700), 0);
    expect_path_refused(dir, IMPMEM_ERR_IO, "is a directory, expected a regular file");
    (void)rmdir(inside);
    assert_int_equal(symlink(inside, inside), 0);
    expect_path_refused(dir, IMPMEM_ERR_IO, "can't be opened");
}

static void an_unreadable_file_is_refused_as_io(void **state)
{
    (void)state;
    const char *path = scratch_path("locked.gguf");
    write_file(path, "GGUF", 4);
    assert_int_equal(chmod(path, 0), 0);
    /* Root reads everything: be somebody else for a moment. */
    int root = geteuid() == 0;
    if (root) {
        assert_int_equal(chmod(scratch_dir, 0755), 0);
        assert_int_equal(seteuid(65534), 0);
    }
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_model *model = NULL;
    impmem_status st = impmem_model_read(path, &model, &why);
    if (root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(st, IMPMEM_ERR_IO);
    assert_non_null(strstr(why.message, "Permission denied"));
}

static void files_of_no_known_kind_are_refused_with_what_they_hold(void **state)
{
    (void)state;
    const char *path = scratch_path("empty.gguf");
    write_file(path, "", 0);
    expect_path_refused(path, IMPMEM_ERR_TRUNCATED, "the file is empty");
    path = scratch_path("weights.bin");
    write_file(path, "\x80\x02\x8a\x0a", 4);
    expect_path_refused(path, IMPMEM_ERR_BAD_FORMAT, "found first bytes 80 02 8a 0a");
    path = scratch_path("model.safetensors");
    write_file(path, "12345678{}", 10);
    expect_path_refused(path, IMPMEM_ERR_BAD_FORMAT, "the directory that has its config.json");
    path = scratch_path("short.gguf");
    write_file(path, "GG", 2);
    expect_path_refused(path, IMPMEM_ERR_TRUNCATED, "inside the magic at byte 0");
}

static void the_content_decides_before_the_name(void **state)
{
    (void)state;
    gguf g;
    plain_llama(&g, 2);
    bytes b = finish(&g);
    const char *path = scratch_path("no-suffix");
    write_file(path, b.at, b.n);
    drop(&b);
    impmem_model *model = read_path(path);
    assert_string_equal(impmem_model_format(model), "gguf v3");
    assert_string_equal(impmem_model_shape_of(model)->name, "no-suffix");
    impmem_model_destroy(model);
}

static void a_path_longer_than_the_error_keeps_its_end_and_is_escaped(void **state)
{
    (void)state;
    char name[200];
    memset(name, 'd', sizeof name);
    (void)snprintf(name + 150, 50, "\n-the-end.gguf");
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_model *model = NULL;
    assert_int_equal(impmem_model_read(scratch_path(name), &model, &why), IMPMEM_ERR_IO);
    assert_non_null(strstr(why.subject, "\\x0a"));
    assert_null(strchr(why.subject, '\n'));
}

static void a_config_gives_the_name_that_it_can(void **state)
{
    (void)state;
    static const char text[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 256, \"num_hidden_layers\": 4, "
        "\"vocab_size\": 1000, \"num_attention_heads\": 4}";
    const char *path = scratch_path("Some-Model.config.json");
    write_file(path, text, sizeof text - 1);
    impmem_model *model = read_path(path);
    assert_string_equal(impmem_model_shape_of(model)->name, "Some-Model");
    impmem_model_destroy(model);
    char dir[700];
    (void)snprintf(dir, sizeof dir, "%s", scratch_path("A-Folder"));
    assert_int_equal(mkdir(dir, 0700), 0);
    char config[800];
    (void)snprintf(config, sizeof config, "%s/config.json", dir);
    write_file(config, text, sizeof text - 1);
    model = read_path(config);
    assert_string_equal(impmem_model_shape_of(model)->name, "A-Folder");
    impmem_model_destroy(model);
    (void)strcat(dir, "///");
    model = read_path(dir);
    assert_string_equal(impmem_model_shape_of(model)->name, "A-Folder");
    impmem_model_destroy(model);
}

static void the_model_of_the_demo_is_a_dense_8b(void **state)
{
    (void)state;
    impmem_model *model = read_path(IMPMEM_SOURCE_DIR "/tools/demo/demo-8b");
    const impmem_model_shape *s = impmem_model_shape_of(model);
    assert_string_equal(s->name, "demo-8b");
    assert_int_equal(s->weight_bytes, UINT64_C(8190735360) * 2); /* the parameters its publisher states, in bfloat16 */
    assert_int_equal(s->n_layers, 36);
    impmem_model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_arguments_are_refused),
        cmocka_unit_test(null_models_have_nothing),
        cmocka_unit_test(notes_end_with_null),
        cmocka_unit_test(paths_that_are_no_readable_file_are_refused_as_io),
        cmocka_unit_test(an_unreadable_file_is_refused_as_io),
        cmocka_unit_test(files_of_no_known_kind_are_refused_with_what_they_hold),
        cmocka_unit_test(the_content_decides_before_the_name),
        cmocka_unit_test(a_path_longer_than_the_error_keeps_its_end_and_is_escaped),
        cmocka_unit_test(a_config_gives_the_name_that_it_can),
        cmocka_unit_test(the_model_of_the_demo_is_a_dense_8b),
    };
    return cmocka_run_group_tests_name("model.paths", tests, scratch_open, scratch_close);
}
