/* Status codes, the error object, names of tiers, tags and accounts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/internal.h"
#include "impmem/line.h"
#include "impmem/status.h"

static void every_status_has_its_name_and_a_phrase(void **state)
{
    (void)state;
#define EXPECT_NAME(name, value, message)                                                                                  \
    assert_string_equal(impmem_status_name((impmem_status)(value)), "IMPMEM_" #name);                                      \
    assert_string_equal(impmem_status_message((impmem_status)(value)), message);                                           \
    assert_int_not_equal((message)[strlen(message) - 1], '.');
    IMPMEM_STATUS_MAP(EXPECT_NAME)
#undef EXPECT_NAME
    assert_string_equal(impmem_status_name((impmem_status)9999), "IMPMEM_ERR_UNKNOWN");
    assert_string_equal(impmem_status_message((impmem_status)9999), "unknown status");
}

/* The numbers are part of the interface: these were written down when they were first published. */
static void status_numbers_are_pinned(void **state)
{
    (void)state;
    assert_int_equal(IMPMEM_OK, 0);
    assert_int_equal(IMPMEM_ERR_INVALID_ARGUMENT, 1);
    assert_int_equal(IMPMEM_ERR_BUSY, 7);
    assert_int_equal(IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, 20);
    assert_int_equal(IMPMEM_ERR_BUDGET_EXCEEDED, 23);
    assert_int_equal(IMPMEM_ERR_SERVING, 40);
    assert_int_equal(IMPMEM_ERR_STALE, 60);
    assert_int_equal(IMPMEM_ERR_DOES_NOT_FIT, 80);
    assert_int_equal(IMPMEM_ERR_CAPACITY, 91);
    assert_int_equal(IMPMEM_ERR_IO, 100);
    assert_int_equal(IMPMEM_ERR_DRIVER, 122);
}

static void the_first_error_wins(void **state)
{
    (void)state;
    assert_int_equal(impmem_first_error(IMPMEM_OK, IMPMEM_OK), IMPMEM_OK);
    assert_int_equal(impmem_first_error(IMPMEM_OK, IMPMEM_ERR_IO), IMPMEM_ERR_IO);
    assert_int_equal(impmem_first_error(IMPMEM_ERR_BUSY, IMPMEM_ERR_IO), IMPMEM_ERR_BUSY);
}

static void setting_an_error_starts_it_afresh(void **state)
{
    (void)state;
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(impmem__error_set(&why, IMPMEM_ERR_IO, "a", "number %d", 1), IMPMEM_ERR_IO);
    impmem__error_bytes(&why, 10, 3);
    impmem__error_line(&why, 5);
    impmem__error_driver(&why, -2);
    impmem__error_offset(&why, 77);
    impmem__error_hint(&why, "try %s", "less");
    assert_int_equal(why.status, IMPMEM_ERR_IO);
    assert_string_equal(why.subject, "a");
    assert_string_equal(why.message, "number 1");
    assert_string_equal(why.hint, "try less");
    assert_true(why.asked_bytes == 10 && why.available_bytes == 3 && why.line == 5);
    assert_true(why.driver_code == -2 && why.offset == 77);
    (void)impmem__error_set(&why, IMPMEM_ERR_BUSY, NULL, "again");
    assert_string_equal(why.subject, "");
    assert_string_equal(why.hint, "");
    assert_true(why.asked_bytes == 0 && why.available_bytes == 0 && why.line == IMPMEM_NO_LINE);
    assert_true(why.driver_code == 0 && why.offset == UINT64_MAX);
    assert_int_equal(why.size, sizeof why);
}

static void a_null_error_is_fine_everywhere(void **state)
{
    (void)state;
    assert_int_equal(impmem__error_set(NULL, IMPMEM_ERR_IO, "a", "b"), IMPMEM_ERR_IO);
    impmem__error_bytes(NULL, 1, 1);
    impmem__error_line(NULL, 1);
    impmem__error_driver(NULL, 1);
    impmem__error_offset(NULL, 1);
    impmem__error_hint(NULL, "x");
}

static void long_texts_are_cut_and_terminated(void **state)
{
    (void)state;
    char text[600];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    impmem_error why = IMPMEM_ERROR_INIT;
    (void)impmem__error_set(&why, IMPMEM_ERR_IO, text, "%s", text);
    impmem__error_hint(&why, "%s", text);
    assert_int_equal(strlen(why.subject), sizeof why.subject - 1);
    assert_int_equal(strlen(why.message), sizeof why.message - 1);
    assert_int_equal(strlen(why.hint), sizeof why.hint - 1);
}

static void options_of_another_version_or_size_are_refused(void **state)
{
    (void)state;
    assert_int_equal(impmem__options_check(0, 0, 64, 1), IMPMEM_OK);
    assert_int_equal(impmem__options_check(64, 1, 64, 1), IMPMEM_OK);
    assert_int_equal(impmem__options_check(64, 2, 64, 1), IMPMEM_ERR_VERSION);
    assert_int_equal(impmem__options_check(80, 2, 64, 1), IMPMEM_ERR_VERSION);
    assert_int_equal(impmem__options_check(64, 0, 64, 1), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem__options_check(0, 1, 64, 1), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem__options_check(63, 1, 64, 1), IMPMEM_ERR_INVALID_ARGUMENT);
}

static void names_of_lines_are_told_and_unknown_ones_are_a_question_mark(void **state)
{
    (void)state;
#define EXPECT_TIER(name, value, text) assert_string_equal(impmem_tier_name(IMPMEM_TIER_##name), text);
    IMPMEM_TIER_MAP(EXPECT_TIER)
#define EXPECT_TAG(name, value, text) assert_string_equal(impmem_tag_name(IMPMEM_TAG_##name), text);
    IMPMEM_TAG_MAP(EXPECT_TAG)
    assert_string_equal(impmem_account_name(IMPMEM_ACCOUNT_DEVICE), "device");
    assert_string_equal(impmem_account_name(IMPMEM_ACCOUNT_PINNED), "pinned");
    assert_string_equal(impmem_account_name(IMPMEM_ACCOUNT_PAGEABLE), "pageable");
    assert_string_equal(impmem_account_name(IMPMEM_N_ACCOUNTS), "?");
    assert_string_equal(impmem_tier_name(IMPMEM_N_TIERS), "?");
    assert_string_equal(impmem_tag_name(IMPMEM_N_TAGS), "?");
    assert_string_equal(impmem_tag_name((impmem_tag)4000), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_its_name_and_a_phrase),
        cmocka_unit_test(status_numbers_are_pinned),
        cmocka_unit_test(the_first_error_wins),
        cmocka_unit_test(setting_an_error_starts_it_afresh),
        cmocka_unit_test(a_null_error_is_fine_everywhere),
        cmocka_unit_test(long_texts_are_cut_and_terminated),
        cmocka_unit_test(options_of_another_version_or_size_are_refused),
        cmocka_unit_test(names_of_lines_are_told_and_unknown_ones_are_a_question_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
