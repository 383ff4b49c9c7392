/* `impmem bench`: every row is measured and printed; never how fast. */
#define _GNU_SOURCE
#include "command_run.h"

static const char *const operations[] = {
    "peer: malloc + free, 64 bytes",
    "arena: take",
    "scratch: push + take + pop",
    "blocks: take + drop, last freed, 2^10 blocks",
    "blocks: take + drop, last freed, 2^18 blocks",
    "blocks: share + drop",
    "blocks: take + drop, random order, 2^18 blocks",
    "floor: two dependent reads",
    "plan: Qwen3-4B, fits",
    "plan: 128 layers, fits",
    "plan: 128 layers, whole failure report",
    "plan: 128 layers, one lever",
};
enum { N_OPERATIONS = sizeof operations / sizeof operations[0] };

static const json_t *row_of(const json_t *rows, const char *operation)
{
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        const char *name = json_string_value(json_object_get(row, "operation"));
        if (strncmp(name, operation, strlen(operation)) == 0) return row;
    }
    print_error("no row %s\n", operation);
    fail();
    return NULL;
}

static void the_json_has_every_row_with_its_figures_in_order(void **state)
{
    (void)state;
    run("bench", "--quick", "--json");
    assert_answer(0);
    json_t *root = output_json();
    assert_holds(json_string_value(json_object_get(root, "note")), "not a gate");
    for (size_t i = 0; i < N_OPERATIONS; i++) {
        const json_t *row = row_of(json_object_get(root, "rows"), operations[i]);
        assert_true(json_integer_value(json_object_get(row, "samples")) >= 31);
        assert_true(json_integer_value(json_object_get(row, "batch")) >= 1);
        double low = json_number_value(json_object_get(row, "p10_ns"));
        double median = json_number_value(json_object_get(row, "median_ns"));
        double high = json_number_value(json_object_get(row, "p90_ns"));
        assert_true(low <= median && median <= high);
        assert_true(median > 0);
        double floor = json_number_value(json_object_get(row, "floor_ns"));
        if (floor > 0) {
            double ratio = json_number_value(json_object_get(row, "ratio_to_floor"));
            assert_true(ratio > 0.999 * median / floor && ratio < 1.001 * median / floor);
        }
    }
    const json_t *random = row_of(json_object_get(root, "rows"), "blocks: take + drop, random order");
    assert_true(json_number_value(json_object_get(random, "floor_ns")) > 0);
    json_decref(root);
}

static void the_text_has_the_same_rows_and_says_that_targets_are_no_gate(void **state)
{
    (void)state;
    run("bench", "--quick");
    assert_answer(0);
    for (size_t i = 0; i < N_OPERATIONS; i++) assert_holds(result.out, operations[i]);
    assert_holds(result.out, "median ns");
    assert_holds(result.out, "p10..p90");
    assert_holds(result.out, "target");
    assert_holds(result.out, "not a gate");
    assert_null(strstr(result.out, "not measured"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_json_has_every_row_with_its_figures_in_order),
        cmocka_unit_test(the_text_has_the_same_rows_and_says_that_targets_are_no_gate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
