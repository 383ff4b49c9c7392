/* The command line: help, version, and every way to get a flag wrong. */
#define _GNU_SOURCE
#include "command_run.h"

#include "impmem/version.h"

static void help_and_version_go_to_standard_output(void **state)
{
    (void)state;
    run("--help");
    assert_answer(0);
    assert_holds(result.out, "plan");
    assert_holds(result.out, "bench");
    run("--version");
    assert_answer(0);
    assert_string_equal(result.out, "impmem " IMPMEM_VERSION_STRING "\n");
    run("plan", "--help");
    assert_answer(0);
    static const char *const flags[] = {"--budget",
                                        "--max-batch",
                                        "--max-seq-len",
                                        "--kv-dtype",
                                        "--block-size",
                                        "--prefill-tokens",
                                        "--promised-kv-tokens",
                                        "--prefix-cache-tokens",
                                        "--device-profile",
                                        "--granule",
                                        "--workspaces",
                                        "--line",
                                        "--open",
                                        "--json"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) assert_holds(result.out, flags[i]);
    run("bench", "--help");
    assert_answer(0);
    assert_holds(result.out, "--quick");
    assert_holds(result.out, "not a gate");
}

static void a_line_without_a_known_verb_is_bad_usage(void **state)
{
    (void)state;
    const char *const nothing[] = {NULL};
    run_vector(NULL, nothing);
    assert_one_line_error(2);
    assert_holds(result.err, "no verb");
    run("plane", "model.gguf");
    assert_one_line_error(2);
    assert_holds(result.err, "plane: no such verb");
    run("pla\nn");
    assert_one_line_error(2);
    assert_holds(result.err, "pla\\x0an");
}

static void an_unknown_flag_is_named_and_is_bad_usage(void **state)
{
    (void)state;
    run("--frob");
    assert_one_line_error(2);
    assert_holds(result.err, "--frob");
    run("plan", "model", "--frob", "1");
    assert_one_line_error(2);
    assert_holds(result.err, "--frob: no such flag");
    run("plan", "-z", "model");
    assert_one_line_error(2);
    assert_holds(result.err, "-z: no such flag");
    run("bench", "--slow");
    assert_one_line_error(2);
    assert_holds(result.err, "--slow");
    run("bench", "now");
    assert_one_line_error(2);
    assert_holds(result.err, "now");
}

static void a_flag_without_its_value_says_what_it_needs(void **state)
{
    (void)state;
    static const char *const flags[] = {
        "--budget",         "--max-batch",      "--max-seq-len",        "--kv-dtype",
        "--block-size",     "--prefill-tokens", "--promised-kv-tokens", "--prefix-cache-tokens",
        "--device-profile", "--granule",        "--workspaces",         "--line"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        run("plan", "model", flags[i]);
        assert_one_line_error(2);
        assert_holds(result.err, flags[i]);
        assert_holds(result.err, "needs a value");
    }
    run("plan", "model", "--json=yes");
    assert_one_line_error(2);
    assert_holds(result.err, "--json takes no value");
}

static void a_missing_model_or_budget_is_bad_usage(void **state)
{
    (void)state;
    run("plan", "--budget", "24GiB");
    assert_one_line_error(2);
    assert_holds(result.err, "MODEL");
    run("plan", "model");
    assert_one_line_error(2);
    assert_holds(result.err, "--budget");
    run("plan", "one", "two", "--budget", "24GiB");
    assert_one_line_error(2);
    assert_holds(result.err, "two");
}

typedef struct bad_value {
    const char *flag;
    const char *value;
    const char *expected; /* part of the message that tells the range */
} bad_value;

#define WHOLE_32 "whole number from 1 to 2147483647"
static const bad_value bad_values[] = {
    {"--budget", "", "no size"},
    {"--budget", "24GB", "24GiB"},
    {"--budget", "-1", "no size"},
    {"--budget", "24GiBx", "no size"},
    {"--budget", "18446744073709551616", "below 2^64"},
    {"--max-batch", "0", "whole number from 1 to 1048576"},
    {"--max-batch", "+1", "whole number from 1 to 1048576"},
    {"--max-batch", "-1", "whole number from 1 to 1048576"},
    {"--max-batch", " 1", "whole number from 1 to 1048576"},
    {"--max-batch", "1 ", "whole number from 1 to 1048576"},
    {"--max-batch", "8x", "whole number from 1 to 1048576"},
    {"--max-batch", "0x8", "whole number from 1 to 1048576"},
    {"--max-batch", "1.5", "whole number from 1 to 1048576"},
    {"--max-batch", "", "whole number from 1 to 1048576"},
    {"--max-batch", "1048577", "whole number from 1 to 1048576"},
    {"--max-batch", "4294967297", "whole number from 1 to 1048576"},
    {"--max-batch", "18446744073709551617", "whole number from 1 to 1048576"},
    {"--max-seq-len", "0", WHOLE_32},
    {"--max-seq-len", "4k", WHOLE_32},
    {"--max-seq-len", "2147483648", WHOLE_32},
    {"--prefill-tokens", "0", WHOLE_32},
    {"--prefill-tokens", "-5", WHOLE_32},
    {"--block-size", "15", "from 16 to 256"},
    {"--block-size", "24", "multiple of 16 from 16 to 256"},
    {"--block-size", "272", "from 16 to 256"},
    {"--block-size", "many", "from 16 to 256"},
    {"--promised-kv-tokens", "0", "whole number from 1 to 1125899906842624"},
    {"--promised-kv-tokens", "1e6", "whole number from 1 to 1125899906842624"},
    {"--prefix-cache-tokens", "x", "whole number from 0 to 1125899906842624"},
    {"--prefix-cache-tokens", "1125899906842625", "whole number from 0 to 1125899906842624"},
    {"--kv-dtype", "f17", "fp8"},
    {"--kv-dtype", "", "T or K,V"},
    {"--kv-dtype", "f16,", "T or K,V"},
    {"--kv-dtype", ",f16", "T or K,V"},
    {"--kv-dtype", "f16,f16,f16", "T or K,V"},
    {"--granule", "255", "power of two from 256 to 1GiB"},
    {"--granule", "3MiB", "power of two from 256 to 1GiB"},
    {"--granule", "2GiB", "power of two from 256 to 1GiB"},
    {"--granule", "0", "power of two from 256 to 1GiB"},
    {"--workspaces", "some", "reference or none"},
    {"--device-profile", "h9000", "default"},
    {"--line", "vision", "NAME=TIER:BYTES"},
    {"--line", "vision=engine", "NAME=TIER:BYTES"},
    {"--line", "=engine:1MiB", "1 to 39 bytes"},
    {"--line", "a234567890123456789012345678901234567890=engine:1MiB", "1 to 39 bytes"},
    {"--line", "vision=pool:1MiB", "model, engine, scratch, staging, pinned or charge"},
    {"--line", "vision=:1MiB", "model, engine, scratch, staging, pinned or charge"},
    {"--line", "vision=engine:1MB", "no size"},
    {"--line", "vision=engine:0", "0 bytes"},
};

static void a_bad_value_names_flag_value_and_range(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_values / sizeof bad_values[0]; i++) {
        const bad_value *bad = &bad_values[i];
        run("plan", "model", "--budget", "24GiB", bad->flag, bad->value);
        assert_one_line_error(2);
        assert_holds(result.err, bad->flag);
        assert_holds(result.err, bad->expected);
        char quoted[96];
        const char *colon = strncmp(bad->flag, "--line", 6) == 0 ? strrchr(bad->value, ':') : NULL;
        snprintf(quoted, sizeof quoted, "\"%s\"", colon && strstr(bad->expected, "no size") ? colon + 1 : bad->value);
        assert_holds(result.err, quoted);
    }
}

static void two_lines_of_one_name_are_bad_usage(void **state)
{
    (void)state;
    run("plan", "model", "--budget", "24GiB", "--line", "a=engine:1MiB", "--line", "a=scratch:1MiB");
    assert_one_line_error(2);
    assert_holds(result.err, "the name a is taken");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_and_version_go_to_standard_output),
        cmocka_unit_test(a_line_without_a_known_verb_is_bad_usage),
        cmocka_unit_test(an_unknown_flag_is_named_and_is_bad_usage),
        cmocka_unit_test(a_flag_without_its_value_says_what_it_needs),
        cmocka_unit_test(a_missing_model_or_budget_is_bad_usage),
        cmocka_unit_test(a_bad_value_names_flag_value_and_range),
        cmocka_unit_test(two_lines_of_one_name_are_bad_usage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
