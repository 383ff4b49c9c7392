/* Plans and failures as pictures: well-formed whatever a name holds, to scale, every line by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "impmem/plan_report.h"
#include "unit/plan/shapes.h"

static char text[262144];
static impmem_plan plan;
static impmem_plan_failure failure;
static refused_case refused;
static dense_case fitting;

static impmem_text_buffer buffer(void)
{
    text[0] = 0;
    return (impmem_text_buffer){text, sizeof text, 0};
}

static void draw(const char *title)
{
    impmem_text_buffer out = buffer();
    assert_int_equal(impmem_plan_write_svg(&plan, title, impmem_write_buffer, &out), IMPMEM_OK);
}

static void fit(void)
{
    plan = (impmem_plan)IMPMEM_PLAN_INIT;
    dense_case_init(&fitting, 32607);
    assert_int_equal(impmem_plan_memory(&fitting.in, &plan, NULL), IMPMEM_OK);
}

static void refuse(void)
{
    failure = (impmem_plan_failure)IMPMEM_PLAN_FAILURE_INIT;
    refused_case_init(&refused);
    assert_int_equal(impmem_plan_memory(&refused.in, &plan, &failure), IMPMEM_ERR_DOES_NOT_FIT);
}

static size_t count(const char *part)
{
    size_t n = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) n++;
    return n;
}

/* Tags are closed in the order in which they were opened, attributes are quoted, and text holds nothing that begins a tag or an
 * entity but the entities that XML has. */
static void assert_well_formed(void)
{
    char open[16][16];
    size_t depth = 0;
    const char *at = text;
    assert_int_equal(strncmp(at, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg ", 44), 0);
    for (at = strstr(at, "?>") + 2; *at;) {
        if (*at == '&') {
            assert_true(!strncmp(at, "&amp;", 5) || !strncmp(at, "&lt;", 4) || !strncmp(at, "&gt;", 4));
            at++;
            continue;
        }
        assert_true((unsigned char)*at >= 0x20 || *at == '\n');
        if (*at++ != '<') continue;
        const char *end = strchr(at, '>');
        assert_non_null(end);
        const size_t name = strcspn(at + (*at == '/'), " >/");
        assert_true(name > 0 && name < sizeof open[0]);
        assert_null(memchr(at, '<', (size_t)(end - at)));
        size_t quotes = 0;
        for (const char *c = at; c < end; c++) quotes += *c == '"';
        assert_int_equal(quotes % 2, 0);
        if (*at == '/') {
            assert_true(depth > 0);
            depth--;
            assert_int_equal(strlen(open[depth]), name);
            assert_memory_equal(open[depth], at + 1, name);
        } else if (end[-1] != '/') {
            assert_true(depth < 16);
            memcpy(open[depth], at, name);
            open[depth++][name] = '\0';
        }
        at = end + 1;
    }
    assert_int_equal(depth, 0);
}

static void every_device_line_is_in_the_picture_by_name(void **state)
{
    (void)state;
    fit();
    draw("a model");
    assert_well_formed();
    size_t lines = 0;
    for (uint32_t i = 0; i < plan.n_lines; i++) {
        const impmem_line *line = &plan.line[i];
        if (line->account != IMPMEM_ACCOUNT_DEVICE || line->bytes == 0 || line->flags & IMPMEM_LINE_TRANSIENT) continue;
        char part[96];
        snprintf(part, sizeof part, ">%s</text>", line->name);
        assert_non_null(strstr(text, part));
        lines++;
    }
    assert_true(lines > 4);
    /* A segment a line and one for what is left. */
    assert_int_equal(count("<title>"), lines + 1);
    assert_int_equal(count("<title>left: "), 1);
    assert_non_null(strstr(text, ">a model</text>"));
    assert_non_null(strstr(text, ">fits: "));
    assert_non_null(strstr(text, "KV holds 8 sequences at 4096 tokens"));
}

static void segments_are_to_scale_and_fill_the_bar(void **state)
{
    (void)state;
    fit();
    draw(NULL);
    double sum = 0, kv = 0;
    const char *at = text;
    while ((at = strstr(at, " height=\"84\" x=\"")) != NULL) {
        const char *width = strstr(at, " width=\"");
        assert_non_null(width);
        const double pixels = strtod(width + 8, NULL);
        const char *title = strstr(at, "<title>");
        assert_non_null(title);
        if (strncmp(title, "<title>KV cache:", 16) == 0) kv = pixels;
        sum += pixels;
        at = title;
    }
    /* The bar is 920 pixels and stands for the budget; KV is 8 x 256 blocks of 2.25 MiB. */
    assert_true(sum > 919.99 && sum < 920.01);
    const double expected = 920.0 * (2048 * 2.25 * (double)MIB) / (double)plan.budget_bytes[IMPMEM_ACCOUNT_DEVICE];
    assert_true(kv > expected - 0.02 && kv < expected + 0.02);
}

static void what_does_not_fit_has_a_mark_at_the_budget(void **state)
{
    (void)state;
    refuse();
    impmem_text_buffer out = buffer();
    assert_int_equal(impmem_plan_failure_write_svg(&failure, "m", impmem_write_buffer, &out), IMPMEM_ERR_DOES_NOT_FIT);
    assert_well_formed();
    assert_int_equal(count("<line "), 1);
    assert_int_equal(count("<title>left: "), 0);
    assert_non_null(strstr(text, ">does not fit: over by "));
    assert_non_null(strstr(text, ">too much</text>"));
    /* Where the budget's share of 920 pixels ends, from a margin of 40, in whole pixels. */
    const uint32_t x = (uint32_t)(40 + 920 * ((double)failure.budget_bytes / (double)failure.requested_bytes));
    char mark[32];
    snprintf(mark, sizeof mark, "<line x1=\"%u\"", x);
    assert_non_null(strstr(text, mark));
}

static void host_memory_that_is_too_small_leaves_the_device_without_a_mark(void **state)
{
    (void)state;
    dense_case_init(&fitting, 32607);
    fitting.in.host_budget_bytes = 1;
    failure = (impmem_plan_failure)IMPMEM_PLAN_FAILURE_INIT;
    assert_int_equal(impmem_plan_memory(&fitting.in, &plan, &failure), IMPMEM_ERR_DOES_NOT_FIT);
    impmem_text_buffer out = buffer();
    assert_int_equal(impmem_plan_failure_write_svg(&failure, NULL, impmem_write_buffer, &out), IMPMEM_ERR_DOES_NOT_FIT);
    assert_well_formed();
    assert_int_equal(count("<line "), 0);
    assert_non_null(strstr(text, "host memory, pageable"));
}

static void names_of_any_bytes_stay_text(void **state)
{
    (void)state;
    static const char *const names[] = {
        "</text><script>alert(1)</script>",
        "a & b",
        "\"quoted\" 'too'",
        "tab\tand\nline",
        "\x1b[31m",
        "half \xe2\x82",
        "over\xc0\xaflong",
        "\xed\xa0\x80",
        "\xef\xbf\xbe",
        "\xf4\x90\x80\x80",
        "\xff",
        "]]>",
    };
    fit();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(plan.line[i % plan.n_lines].name, sizeof plan.line[0].name, "%s", names[i]);
        draw(names[i]);
        assert_well_formed();
        assert_null(strstr(text, "<script"));
        assert_null(strstr(text, "\xc0\xaf"));
        assert_null(strchr(text, 0x1b));
    }
    /* Letters stay what they are. */
    draw("Gr\xc3\xbc\xc3\x9f"
         "e \xf0\x9f\x98\x80");
    assert_non_null(strstr(text, "Gr\xc3\xbc\xc3\x9f"
                                 "e \xf0\x9f\x98\x80"));
}

static void a_plan_of_nothing_is_a_picture_too(void **state)
{
    (void)state;
    plan = (impmem_plan)IMPMEM_PLAN_INIT;
    draw(NULL);
    assert_well_formed();
    plan.budget_bytes[IMPMEM_ACCOUNT_DEVICE] = UINT64_MAX;
    draw(NULL);
    assert_well_formed();
}

typedef struct stopping {
    size_t left;
} stopping;

static impmem_status stop_later(void *context, const char *part, size_t n)
{
    stopping *s = context;
    (void)part;
    (void)n;
    if (s->left == 0) return IMPMEM_ERR_IO;
    s->left--;
    return IMPMEM_OK;
}

static void what_the_writing_returns_is_handed_on(void **state)
{
    (void)state;
    fit();
    refuse();
    fit();
    for (size_t i = 0; i < 40; i++) {
        stopping s = {i};
        assert_int_equal(impmem_plan_write_svg(&plan, "t", stop_later, &s), IMPMEM_ERR_IO);
        s.left = i;
        assert_int_equal(impmem_plan_failure_write_svg(&failure, "t", stop_later, &s), IMPMEM_ERR_IO);
    }
}

static void missing_arguments_are_refused(void **state)
{
    (void)state;
    impmem_text_buffer out = buffer();
    fit();
    refuse();
    fit();
    assert_int_equal(impmem_plan_write_svg(NULL, NULL, impmem_write_buffer, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_plan_write_svg(&plan, NULL, NULL, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_plan_failure_write_svg(NULL, NULL, impmem_write_buffer, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_plan_failure_write_svg(&failure, NULL, NULL, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    failure.why.status = IMPMEM_ERR_BAD_VALUE;
    assert_int_equal(impmem_plan_failure_write_svg(&failure, NULL, impmem_write_buffer, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_device_line_is_in_the_picture_by_name),
        cmocka_unit_test(segments_are_to_scale_and_fill_the_bar),
        cmocka_unit_test(what_does_not_fit_has_a_mark_at_the_budget),
        cmocka_unit_test(host_memory_that_is_too_small_leaves_the_device_without_a_mark),
        cmocka_unit_test(names_of_any_bytes_stay_text),
        cmocka_unit_test(a_plan_of_nothing_is_a_picture_too),
        cmocka_unit_test(what_the_writing_returns_is_handed_on),
        cmocka_unit_test(missing_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
