/* What --open answers when plan and engine disagree, which no command line can bring about: its file is compiled in here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "../../../tools/impmem/plan_devices.c"
#include "../../../tools/impmem/plan_open.c"
#include "impmem/bytes.h"

static impmem_plan make_plan(void)
{
    static impmem_model_shape shape = IMPMEM_MODEL_SHAPE_INIT;
    shape.d_model = 1024;
    shape.n_heads = 8;
    shape.head_dim = 128;
    shape.feed_forward = 4096;
    shape.vocab = 32000;
    shape.weight_bytes = 300 * IMPMEM_MIB + 12345;
    shape.weight_source = IMPMEM_SOURCE_READ;
    assert_int_equal(impmem_shape_uniform_attention(&shape, 4, 2, 128, 128), IMPMEM_OK);
    impmem_demand demand[2];
    memset(demand, 0, sizeof demand);
    demand[0].id = IMPMEM_LINE_USER;
    demand[0].tier = IMPMEM_TIER_ENGINE;
    demand[0].flags = IMPMEM_LINE_TRANSIENT;
    demand[0].bytes = 40 * IMPMEM_MIB;
    snprintf(demand[0].name, sizeof demand[0].name, "repacking");
    demand[1].id = IMPMEM_LINE_USER + 1;
    demand[1].tier = IMPMEM_TIER_STAGING;
    demand[1].bytes = 5 * IMPMEM_MIB;
    snprintf(demand[1].name, sizeof demand[1].name, "reader");
    impmem_plan_input input = IMPMEM_PLAN_INPUT_INIT;
    input.model = &shape;
    input.budget_bytes = IMPMEM_GIB;
    input.max_seq_tokens = 4096;
    input.context_bytes = 100 * IMPMEM_MIB;
    input.demand = demand;
    input.n_demands = 2;
    impmem_plan plan = IMPMEM_PLAN_INIT;
    assert_int_equal(impmem_plan_memory(&input, &plan, NULL), IMPMEM_OK);
    return plan;
}

static impmem_line *line_of(impmem_plan *plan, impmem_line_id id)
{
    uint32_t i = line_index(plan, id);
    assert_true(i < plan->n_lines);
    return &plan->line[i];
}

static void assert_nothing_left(const plan_opening *opening)
{
    for (uint32_t account = 0; account < IMPMEM_N_ACCOUNTS; account++) assert_int_equal(opening->live_bytes[account], 0);
}

static void a_true_plan_is_good_and_its_passing_lines_came_and_went(void **state)
{
    (void)state;
    impmem_plan plan = make_plan();
    plan_opening opening;
    plan_open_on_fake(&plan, &opening);
    assert_true(opening.good);
    assert_null(opening.failed_step);
    assert_int_equal(opening.n_equal, plan.n_lines);
    uint32_t passing = line_index(&plan, IMPMEM_LINE_USER);
    assert_int_equal(opening.row[passing].journal_bytes, 40 * IMPMEM_MIB);
    uint32_t staged = line_index(&plan, IMPMEM_LINE_USER + 1);
    assert_int_equal(opening.row[staged].journal_bytes, 5 * IMPMEM_MIB);
    assert_nothing_left(&opening);
}

static void one_byte_between_plan_and_journal_is_seen(void **state)
{
    (void)state;
    impmem_plan plan = make_plan();
    line_of(&plan, IMPMEM_LINE_HOST_CONTROL)->bytes += 1;
    plan_opening opening;
    plan_open_on_fake(&plan, &opening);
    assert_false(opening.good);
    assert_null(opening.failed_step);
    assert_int_equal(opening.n_equal, plan.n_lines - 1);
    assert_false(opening.row[line_index(&plan, IMPMEM_LINE_HOST_CONTROL)].equal);
    assert_nothing_left(&opening);
}

static void a_plan_above_its_budget_is_refused_at_opening_and_leaves_nothing(void **state)
{
    (void)state;
    impmem_plan plan = make_plan();
    plan.budget_bytes[IMPMEM_ACCOUNT_DEVICE] = plan.total_bytes[IMPMEM_ACCOUNT_DEVICE] - 1;
    plan_opening opening;
    plan_open_on_fake(&plan, &opening);
    assert_false(opening.good);
    assert_non_null(opening.failed_step);
    assert_int_not_equal(opening.why.status, IMPMEM_OK);
    assert_nothing_left(&opening);
}

static void a_journal_too_short_for_the_opening_is_no_proof(void **state)
{
    (void)state;
    impmem_plan plan = make_plan();
    plan.journal_records = 8;
    plan_opening opening;
    plan_open_on_fake(&plan, &opening);
    assert_false(opening.good);
    assert_false(opening.compared);
    assert_string_equal(opening.failed_step, "reading the whole journal");
    assert_nothing_left(&opening);
}

static void a_plan_that_no_ledger_takes_fails_at_the_first_step(void **state)
{
    (void)state;
    impmem_plan plan = make_plan();
    line_of(&plan, IMPMEM_LINE_WEIGHTS)->id = IMPMEM_LINE_KV; /* two lines of one id */
    plan_opening opening;
    plan_open_on_fake(&plan, &opening);
    assert_false(opening.good);
    assert_string_equal(opening.failed_step, "creating the ledger");
    assert_int_equal(opening.why.status, IMPMEM_ERR_INVALID_ARGUMENT);
    assert_nothing_left(&opening);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_true_plan_is_good_and_its_passing_lines_came_and_went),
        cmocka_unit_test(one_byte_between_plan_and_journal_is_seen),
        cmocka_unit_test(a_plan_above_its_budget_is_refused_at_opening_and_leaves_nothing),
        cmocka_unit_test(a_journal_too_short_for_the_opening_is_no_proof),
        cmocka_unit_test(a_plan_that_no_ledger_takes_fails_at_the_first_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
