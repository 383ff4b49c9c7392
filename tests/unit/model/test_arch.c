/* The architecture table: every name leads to one row, and docs/models.md lists them all. */
#define _GNU_SOURCE
#include "unit/model/model_test.h"

#include "model/internal.h"

typedef const impmem__arch *(*look_up)(const char *);

/* Calls `each` for every word of a row's list. */
static void for_words(const char *list, void (*each)(const char *word, const impmem__arch *row, void *context),
                      const impmem__arch *row, void *context)
{
    char copy[512];
    assert_true(strlen(list) < sizeof copy);
    (void)strcpy(copy, list);
    char *rest = NULL;
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) each(word, row, context);
}

static void expect_row(const char *word, const impmem__arch *row, void *context)
{
    look_up find = *(look_up *)context;
    const impmem__arch *found = find(word);
    assert_non_null(found);
    if (found != row) fail_msg("'%s' leads to %s, and stands in the row of %s", word, found->name, row->name);
}

static void every_name_leads_to_its_own_row(void **state)
{
    (void)state;
    look_up gguf_find = impmem__arch_of_gguf, hf_find = impmem__arch_of_hf;
    uint32_t n = 0;
    for (const impmem__arch *row; (row = impmem__arch_row(n)) != NULL; n++) {
        assert_true(row->gguf[0] || row->hf[0]);
        for_words(row->gguf, expect_row, row, &gguf_find);
        for_words(row->hf, expect_row, row, &hf_find);
    }
    assert_true(n > 50);
    assert_null(impmem__arch_row(UINT32_MAX));
}

static void names_are_matched_whole(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", " ", "lla", "llama ", "llama4 llama4_text", "qwen", "Llama", "mamba2 "};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_null(impmem__arch_of_gguf(wrong[i]));
        assert_null(impmem__arch_of_hf(wrong[i]));
    }
}

static void periodic_rows_have_a_period_and_refused_rows_a_reason(void **state)
{
    (void)state;
    for (uint32_t i = 0; impmem__arch_row(i); i++) {
        const impmem__arch *row = impmem__arch_row(i);
        if (row->window == IMPMEM__WINDOW_PERIODIC || row->window == IMPMEM__WINDOW_CHUNKS) assert_true(row->period > 1);
        if (row->refusal) assert_true(strlen(row->refusal) > 10);
    }
}

static char *manual;

static void expect_listed(const char *word, const impmem__arch *row, void *context)
{
    (void)row;
    (void)context;
    char quoted[80];
    (void)snprintf(quoted, sizeof quoted, "`%s`", word);
    if (!strstr(manual, quoted)) fail_msg("docs/models.md does not list %s", quoted);
}

static void the_manual_lists_every_name(void **state)
{
    (void)state;
    FILE *file = fopen(IMPMEM_SOURCE_DIR "/docs/models.md", "rb");
    assert_non_null(file);
    manual = calloc(1, 1 << 20);
    assert_non_null(manual);
    assert_true(fread(manual, 1, (1 << 20) - 1, file) > 1000);
    (void)fclose(file);
    for (uint32_t i = 0; impmem__arch_row(i); i++) {
        for_words(impmem__arch_row(i)->gguf, expect_listed, impmem__arch_row(i), NULL);
        for_words(impmem__arch_row(i)->hf, expect_listed, impmem__arch_row(i), NULL);
    }
    free(manual);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_leads_to_its_own_row),
        cmocka_unit_test(names_are_matched_whole),
        cmocka_unit_test(periodic_rows_have_a_period_and_refused_rows_a_reason),
        cmocka_unit_test(the_manual_lists_every_name),
    };
    return cmocka_run_group_tests_name("model.arch", tests, NULL, NULL);
}
