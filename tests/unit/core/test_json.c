/* The JSON writer and the text sinks under it. */
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/json.h"

typedef struct page {
    char text[4096];
    impmem_text_buffer buffer;
    impmem__json json;
} page;

static void start(page *p, uint32_t indent)
{
    p->buffer.text = p->text;
    p->buffer.capacity = sizeof p->text;
    p->buffer.length = 0;
    p->text[0] = '\0';
    impmem__json_init(&p->json, impmem_write_buffer, &p->buffer, indent);
}

static void objects_and_arrays_nest_with_commas_between_items(void **state)
{
    (void)state;
    page p;
    start(&p, 0);
    impmem__json_object_begin(&p.json);
    impmem__json_field_u64(&p.json, "big", UINT64_MAX);
    impmem__json_field_i64(&p.json, "small", INT64_MIN);
    impmem__json_key(&p.json, "list");
    impmem__json_array_begin(&p.json);
    impmem__json_bool(&p.json, true);
    impmem__json_null(&p.json);
    impmem__json_object_begin(&p.json);
    impmem__json_object_end(&p.json);
    impmem__json_array_begin(&p.json);
    impmem__json_array_end(&p.json);
    impmem__json_array_end(&p.json);
    impmem__json_field_string(&p.json, "s", "t");
    impmem__json_field_bool(&p.json, "b", false);
    impmem__json_object_end(&p.json);
    assert_int_equal(impmem__json_finish(&p.json), IMPMEM_OK);
    assert_string_equal(p.text, "{\"big\":18446744073709551615,\"small\":-9223372036854775808,"
                                "\"list\":[true,null,{},[]],\"s\":\"t\",\"b\":false}");
}

static void indentation_puts_each_item_on_its_line(void **state)
{
    (void)state;
    page p;
    start(&p, 2);
    impmem__json_object_begin(&p.json);
    impmem__json_key(&p.json, "a");
    impmem__json_array_begin(&p.json);
    impmem__json_u64(&p.json, 1);
    impmem__json_u64(&p.json, 2);
    impmem__json_array_end(&p.json);
    impmem__json_key(&p.json, "e");
    impmem__json_array_begin(&p.json);
    impmem__json_array_end(&p.json);
    impmem__json_object_end(&p.json);
    assert_int_equal(impmem__json_finish(&p.json), IMPMEM_OK);
    assert_string_equal(p.text, "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"e\": []\n}");
}

static void writes_string(const char *raw, size_t n, const char *expected)
{
    page p;
    start(&p, 0);
    impmem__json_string_n(&p.json, raw, n);
    assert_int_equal(impmem__json_finish(&p.json), IMPMEM_OK);
    assert_string_equal(p.text, expected);
}

static void special_characters_are_escaped(void **state)
{
    (void)state;
    writes_string("\"\\/\b\f\n\r\t", 8, "\"\\\"\\\\/\\b\\f\\n\\r\\t\"");
    writes_string("a\0b\x1f\x7f", 5, "\"a\\u0000b\\u001f\\u007f\"");
    writes_string("", 0, "\"\"");
    page p;
    start(&p, 0);
    impmem__json_string(&p.json, NULL);
    assert_int_equal(impmem__json_finish(&p.json), IMPMEM_OK);
    assert_string_equal(p.text, "null");
}

/* Well-formed sequences by the table of the Unicode standard, chapter 3, D92. */
static void utf8_passes_and_broken_utf8_is_replaced(void **state)
{
    (void)state;
    writes_string("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 9, "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"");
    writes_string("\x80", 1, "\"\xEF\xBF\xBD\"");                 /* a lone continuation byte */
    writes_string("\xC0\xAF", 2, "\"\xEF\xBF\xBD\xEF\xBF\xBD\""); /* an overlong slash */
    writes_string("\xE0\x80\xAF", 3, "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
    writes_string("\xED\xA0\x80", 3, "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""); /* a surrogate */
    writes_string("\xF4\x90\x80\x80", 4, "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
    writes_string("\xF0\x8F\xBF\xBF", 4, "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
    writes_string("x\xE2\x82", 3, "\"x\xEF\xBF\xBD\xEF\xBF\xBD\""); /* cut short */
    writes_string("\xFF", 1, "\"\xEF\xBF\xBD\"");
    writes_string("\xEF\xBF\xBF\xED\x9F\xBF", 6, "\"\xEF\xBF\xBF\xED\x9F\xBF\"");
}

static void writes_double(double value, const char *expected)
{
    page p;
    start(&p, 0);
    impmem__json_double(&p.json, value);
    assert_int_equal(impmem__json_finish(&p.json), IMPMEM_OK);
    if (expected) assert_string_equal(p.text, expected);
    else assert_true(strtod(p.text, NULL) == value);
}

static void doubles_are_short_and_read_back_as_themselves(void **state)
{
    (void)state;
    writes_double(0.1, "0.1");
    writes_double(1.5, "1.5");
    writes_double(-0.0, "-0");
    writes_double(100, "1e+02");
    writes_double(1.0 / 3.0, NULL);
    writes_double(5e-324, NULL);
    writes_double(1.7976931348623157e308, NULL);
    writes_double((double)NAN, "null");
    writes_double((double)INFINITY, "null");
    writes_double(-(double)INFINITY, "null");
}

static void a_comma_locale_still_writes_points(void **state)
{
    (void)state;
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8")) {
        print_message("skipped: no locale with a decimal comma is installed\n");
        skip();
    }
    writes_double(1.5, "1.5");
    (void)setlocale(LC_NUMERIC, "C");
}

static void misuse_is_an_error_that_sticks(void **state)
{
    (void)state;
    page p;
    start(&p, 0);
    assert_int_equal(impmem__json_finish(&p.json), IMPMEM_ERR_STATE); /* nothing written */
    start(&p, 0);
    impmem__json_object_begin(&p.json);
    assert_int_equal(impmem__json_finish(&p.json), IMPMEM_ERR_STATE); /* still open */
    start(&p, 0);
    impmem__json_object_begin(&p.json);
    impmem__json_u64(&p.json, 1); /* no key */
    impmem__json_object_end(&p.json);
    assert_int_equal(impmem__json_finish(&p.json), IMPMEM_ERR_STATE);
    assert_string_equal(p.text, "{");
    start(&p, 0);
    impmem__json_array_begin(&p.json);
    impmem__json_key(&p.json, "k");
    assert_int_equal(impmem__json_finish(&p.json), IMPMEM_ERR_STATE);
    start(&p, 0);
    impmem__json_array_begin(&p.json);
    impmem__json_object_end(&p.json);
    assert_int_equal(impmem__json_finish(&p.json), IMPMEM_ERR_STATE);
    start(&p, 0);
    impmem__json_object_begin(&p.json);
    impmem__json_key(&p.json, "k");
    impmem__json_object_end(&p.json);
    assert_int_equal(impmem__json_finish(&p.json), IMPMEM_ERR_STATE);
    start(&p, 0);
    impmem__json_u64(&p.json, 1);
    impmem__json_u64(&p.json, 2); /* a second root */
    assert_int_equal(impmem__json_finish(&p.json), IMPMEM_ERR_STATE);
    start(&p, 0);
    impmem__json_init(&p.json, NULL, NULL, 0);
    impmem__json_u64(&p.json, 1);
    assert_int_equal(impmem__json_finish(&p.json), IMPMEM_ERR_INVALID_ARGUMENT);
}

static void nesting_stops_at_its_limit(void **state)
{
    (void)state;
    page p;
    start(&p, 0);
    for (unsigned i = 0; i < IMPMEM__JSON_MAX_DEPTH; i++) impmem__json_array_begin(&p.json);
    for (unsigned i = 0; i < IMPMEM__JSON_MAX_DEPTH; i++) impmem__json_array_end(&p.json);
    assert_int_equal(impmem__json_finish(&p.json), IMPMEM_OK);
    start(&p, 0);
    for (unsigned i = 0; i <= IMPMEM__JSON_MAX_DEPTH; i++) impmem__json_array_begin(&p.json);
    assert_int_equal(impmem__json_finish(&p.json), IMPMEM_ERR_EXHAUSTED);
}

static void a_full_buffer_keeps_what_fits_and_says_so(void **state)
{
    (void)state;
    char text[6];
    impmem_text_buffer buffer = {text, sizeof text, 0};
    assert_int_equal(impmem_write_buffer(&buffer, "abc", 3), IMPMEM_OK);
    assert_int_equal(impmem_write_buffer(&buffer, "defg", 4), IMPMEM_ERR_EXHAUSTED);
    assert_string_equal(text, "abcde");
    assert_int_equal(buffer.length, 5);
    assert_int_equal(impmem_write_buffer(&buffer, "", 0), IMPMEM_OK);
    impmem_text_buffer none = {text, 0, 0};
    assert_int_equal(impmem_write_buffer(&none, "a", 1), IMPMEM_ERR_EXHAUSTED);
    assert_int_equal(impmem_write_buffer(NULL, "a", 1), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_write_buffer(&buffer, NULL, 1), IMPMEM_ERR_INVALID_ARGUMENT);
    impmem__json json;
    buffer.length = 0;
    impmem__json_init(&json, impmem_write_buffer, &buffer, 0);
    impmem__json_string(&json, "longer than five");
    assert_int_equal(impmem__json_finish(&json), IMPMEM_ERR_EXHAUSTED);
}

static void a_file_that_refuses_is_an_io_error(void **state)
{
    (void)state;
    FILE *good = tmpfile();
    assert_non_null(good);
    assert_int_equal(impmem_write_file(good, "abc", 3), IMPMEM_OK);
    rewind(good);
    char back[4] = "";
    assert_int_equal(fread(back, 1, 3, good), 3);
    assert_string_equal(back, "abc");
    assert_int_equal(fclose(good), 0);
    FILE *closed_for_writing = fopen("/dev/null", "r");
    assert_non_null(closed_for_writing);
    assert_int_equal(impmem_write_file(closed_for_writing, "abc", 3), IMPMEM_ERR_IO);
    assert_int_equal(impmem_write_file(closed_for_writing, "", 0), IMPMEM_OK);
    assert_int_equal(impmem_write_file(closed_for_writing, NULL, 2), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(fclose(closed_for_writing), 0);
    assert_int_equal(impmem_write_file(NULL, "abc", 3), IMPMEM_ERR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_and_arrays_nest_with_commas_between_items),
        cmocka_unit_test(indentation_puts_each_item_on_its_line),
        cmocka_unit_test(special_characters_are_escaped),
        cmocka_unit_test(utf8_passes_and_broken_utf8_is_replaced),
        cmocka_unit_test(doubles_are_short_and_read_back_as_themselves),
        cmocka_unit_test(a_comma_locale_still_writes_points),
        cmocka_unit_test(misuse_is_an_error_that_sticks),
        cmocka_unit_test(nesting_stops_at_its_limit),
        cmocka_unit_test(a_full_buffer_keeps_what_fits_and_says_so),
        cmocka_unit_test(a_file_that_refuses_is_an_io_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
