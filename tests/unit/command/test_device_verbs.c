/* The verbs that look at a device: where there is none, one line and exit 4; bad flags are bad usage everywhere. What they find on a
 * device is for the GPU suite. */
#define _GNU_SOURCE
#include "command_run.h"

static const char *const verbs[] = {"probe", "calibrate", "report"};

static void bad_flags_are_bad_usage(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        run(verbs[i], "--device", "x");
        assert_one_line_error(2);
        run(verbs[i], "--device", "-1");
        assert_one_line_error(2);
        run(verbs[i], "stray");
        assert_one_line_error(2);
        run(verbs[i], "--no-such-flag");
        assert_one_line_error(2);
        run(verbs[i], "--help");
        assert_answer(0);
        assert_holds(result.out, "--device");
        assert_holds(result.out, "--json");
    }
    run("bench", "--device", "first");
    assert_one_line_error(2);
    run("calibrate", "--library-reserve", "1GB");
    assert_one_line_error(2);
    run("calibrate", "--name", "");
    assert_one_line_error(2);
}

/* No machine has a device 1023: with a driver or without one, that is "no such device or driver". */
static void a_device_that_is_not_there_is_exit_4_and_one_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        run(verbs[i], "--device", "1023");
        assert_one_line_error(4);
    }
    run("probe", "--device", "1023", "--json");
    assert_one_line_error(4);
    run("report", "--device", "1023", "--json");
    assert_one_line_error(4);
    run("calibrate", "--device", "1023", "--json");
    assert_one_line_error(4);
    run("bench", "--device", "1023", "--json");
    assert_one_line_error(4);
}

static void a_profile_of_no_device_is_not_written(void **state)
{
    (void)state;
    run("calibrate", "--device", "1023", "--output", test_path("profile.json"));
    assert_one_line_error(4);
    assert_int_not_equal(access(test_path("profile.json"), F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_flags_are_bad_usage),
        cmocka_unit_test(a_device_that_is_not_there_is_exit_4_and_one_line),
        cmocka_unit_test_setup_teardown(a_profile_of_no_device_is_not_written, make_test_folder, remove_test_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
