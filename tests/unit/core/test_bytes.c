/* Checked arithmetic and sizes in text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "impmem/bytes.h"

static void arithmetic_reports_overflow_and_leaves_the_result_alone(void **state)
{
    (void)state;
    uint64_t out = 7;
    assert_int_equal(impmem_add(&out, UINT64_MAX, 1), IMPMEM_ERR_OVERFLOW);
    assert_int_equal(impmem_sub(&out, 1, 2), IMPMEM_ERR_OVERFLOW);
    assert_int_equal(impmem_mul(&out, (uint64_t)1 << 32, (uint64_t)1 << 32), IMPMEM_ERR_OVERFLOW);
    assert_int_equal(impmem_align_up(&out, UINT64_MAX, 2), IMPMEM_ERR_OVERFLOW);
    assert_int_equal(impmem_align_up(&out, 1, 0), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_div_up(&out, 1, 0), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(out, 7);
}

static void arithmetic_is_exact_at_the_edges(void **state)
{
    (void)state;
    uint64_t out;
    assert_int_equal(impmem_add(&out, UINT64_MAX - 1, 1), IMPMEM_OK);
    assert_true(out == UINT64_MAX);
    assert_int_equal(impmem_sub(&out, 5, 5), IMPMEM_OK);
    assert_true(out == 0);
    assert_int_equal(impmem_mul(&out, 0, UINT64_MAX), IMPMEM_OK);
    assert_true(out == 0);
    assert_int_equal(impmem_mul(&out, UINT64_MAX, 1), IMPMEM_OK);
    assert_true(out == UINT64_MAX);
    assert_int_equal(impmem_align_up(&out, 10, 6), IMPMEM_OK);
    assert_true(out == 12);
    assert_int_equal(impmem_align_up(&out, 0, 256), IMPMEM_OK);
    assert_true(out == 0);
    assert_int_equal(impmem_div_up(&out, UINT64_MAX, 2), IMPMEM_OK);
    assert_true(out == (UINT64_MAX >> 1) + 1);
}

typedef struct parse_case {
    const char *text;
    uint64_t bytes;
} parse_case;

static void sizes_are_read_with_binary_units(void **state)
{
    (void)state;
    static const parse_case cases[] = {
        {"0", 0},
        {"4096", 4096},
        {"4096B", 4096},
        {"300KiB", 300u * 1024u},
        {"512MiB", 512u * 1024u * 1024u},
        {"24GiB", 24ull * 1024 * 1024 * 1024},
        {"1.5 GiB", 3ull * 512 * 1024 * 1024},
        {"1.3KiB", 1331},
        {"0.000000000000000001EiB", 1},
        {"18446744073709551615", UINT64_MAX},
        {"15.999999999999999999EiB", UINT64_MAX - 1}, /* 2^64 - 1.15, rounded down */
        {"2TiB", 2ull << 40},
        {"1PiB", 1ull << 50},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t bytes = 1;
        assert_int_equal(impmem_parse_bytes(cases[i].text, &bytes), IMPMEM_OK);
        assert_true(bytes == cases[i].bytes);
    }
}

static void senseless_sizes_are_refused_and_write_nothing(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "-1",
                                      "GiB",
                                      "24GB",
                                      "24gib",
                                      "1.5",
                                      "1.",
                                      ".5GiB",
                                      "1.5B",
                                      "1e9",
                                      "nan",
                                      "inf",
                                      "0x10",
                                      "16EiB",
                                      "4096 ",
                                      "1 2",
                                      "+5",
                                      "1GiBx",
                                      "1..5GiB",
                                      "1,5GiB",
                                      "18446744073709551616",
                                      "1.0000000000000000001GiB"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t bytes = 99;
        assert_int_equal(impmem_parse_bytes(bad[i], &bytes), IMPMEM_ERR_BAD_VALUE);
        assert_int_equal(bytes, 99);
    }
    uint64_t bytes;
    assert_int_equal(impmem_parse_bytes(NULL, &bytes), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_parse_bytes("1", NULL), IMPMEM_ERR_INVALID_ARGUMENT);
}

static void mib_are_rounded_half_up_to_one_decimal(void **state)
{
    (void)state;
    char text[32];
    assert_string_equal(impmem_format_mib(0, text, sizeof text), "0.0 MiB");
    assert_string_equal(impmem_format_mib(IMPMEM_MIB, text, sizeof text), "1.0 MiB");
    assert_string_equal(impmem_format_mib(IMPMEM_MIB / 20, text, sizeof text), "0.0 MiB");     /* 52428 / 2^20 < 0.05 */
    assert_string_equal(impmem_format_mib(IMPMEM_MIB / 20 + 1, text, sizeof text), "0.1 MiB"); /* 52429 / 2^20 > 0.05 */
    assert_string_equal(impmem_format_mib(IMPMEM_MIB / 4, text, sizeof text), "0.3 MiB");      /* 0.25 */
    assert_string_equal(impmem_format_mib(IMPMEM_MIB - 1, text, sizeof text), "1.0 MiB");
    assert_string_equal(impmem_format_mib(UINT64_MAX, text, sizeof text), "17592186044416.0 MiB");
}

static void a_small_buffer_gets_a_terminated_beginning(void **state)
{
    (void)state;
    char text[4] = "???";
    assert_ptr_equal(impmem_format_mib(12 * IMPMEM_MIB, text, sizeof text), text);
    assert_string_equal(text, "12.");
    assert_null(impmem_format_mib(1, NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic_reports_overflow_and_leaves_the_result_alone),
        cmocka_unit_test(arithmetic_is_exact_at_the_edges),
        cmocka_unit_test(sizes_are_read_with_binary_units),
        cmocka_unit_test(senseless_sizes_are_refused_and_write_nothing),
        cmocka_unit_test(mib_are_rounded_half_up_to_one_decimal),
        cmocka_unit_test(a_small_buffer_gets_a_terminated_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
