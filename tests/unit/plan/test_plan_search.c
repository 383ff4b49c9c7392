/* The largest that fits, what can ever be served, what differs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "impmem/plan_search.h"
#include "unit/plan/shapes.h"

static dense_case c;
static impmem_plan plan, other;
static impmem_plan_failure failure;
static uint64_t value;
static impmem_fit_limit limit;

static int start(void **state)
{
    (void)state;
    dense_case_init(&c, 16384);
    c.in.promised_kv_tokens = 0;
    c.shape.trained_context = 40960;
    value = 77;
    failure = (impmem_plan_failure)IMPMEM_PLAN_FAILURE_INIT;
    return 0;
}

static impmem_status fit(impmem_fit_what what)
{
    return impmem_plan_fit(&c.in, what, &value, &limit, &failure);
}

static impmem_status plans(void)
{
    plan = (impmem_plan)IMPMEM_PLAN_INIT;
    return impmem_plan_memory_only(&c.in, &plan, NULL);
}

/* 16384 - 10117 = 6267 MiB for KV at 2.25 a block: 2785 blocks, 348 for each of 8 sequences. */
static void the_largest_context_fits_and_one_block_more_does_not(void **state)
{
    (void)state;
    assert_int_equal(fit(IMPMEM_FIT_CONTEXT), IMPMEM_OK);
    assert_int_equal(value, 348 * 16);
    assert_int_equal(limit, IMPMEM_FIT_BY_MEMORY);
    c.in.max_seq_tokens = 348 * 16;
    assert_int_equal(plans(), IMPMEM_OK);
    c.in.max_seq_tokens++;
    assert_int_equal(plans(), IMPMEM_ERR_DOES_NOT_FIT);
}

static void the_largest_batch_fits_and_one_sequence_more_does_not(void **state)
{
    (void)state;
    assert_int_equal(fit(IMPMEM_FIT_BATCH), IMPMEM_OK);
    assert_int_equal(value, 10); /* 2785 / 256 */
    assert_int_equal(limit, IMPMEM_FIT_BY_MEMORY);
    c.in.max_batch = 10;
    assert_int_equal(plans(), IMPMEM_OK);
    c.in.max_batch = 11;
    assert_int_equal(plans(), IMPMEM_ERR_DOES_NOT_FIT);
}

static void the_trained_context_ends_it_to_the_token(void **state)
{
    (void)state;
    c.in.max_batch = 1;
    c.shape.trained_context = 5001;
    assert_int_equal(fit(IMPMEM_FIT_CONTEXT), IMPMEM_OK);
    assert_int_equal(value, 5001);
    assert_int_equal(limit, IMPMEM_FIT_BY_TRAINED);
    c.shape.trained_context = 5; /* less than a block */
    assert_int_equal(fit(IMPMEM_FIT_CONTEXT), IMPMEM_OK);
    assert_int_equal(value, 5);
    assert_int_equal(limit, IMPMEM_FIT_BY_TRAINED);
    /* 348 blocks of the 2785 would be 5568: the trained context lies inside the next block, and doesn't fit. */
    c.in.max_batch = 8;
    c.shape.trained_context = 5570;
    assert_int_equal(fit(IMPMEM_FIT_CONTEXT), IMPMEM_OK);
    assert_int_equal(value, 5568);
    assert_int_equal(limit, IMPMEM_FIT_BY_MEMORY);
}

static void nothing_but_numbers_ends_a_batch_without_kv(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 36; i++) c.shape.layer[i].kind = IMPMEM_LAYER_NO_ATTENTION;
    assert_int_equal(fit(IMPMEM_FIT_BATCH), IMPMEM_OK);
    assert_int_equal(value, 1 << 20);
    assert_int_equal(limit, IMPMEM_FIT_BY_NUMBERING);
    assert_string_equal(impmem_fit_limit_name(limit), "numbering");
    assert_string_equal(impmem_fit_limit_name(IMPMEM_FIT_BY_MEMORY), "memory");
    assert_string_equal(impmem_fit_limit_name(IMPMEM_FIT_BY_TRAINED), "trained_context");
    assert_string_equal(impmem_fit_limit_name((impmem_fit_limit)9), "?");
}

static void nothing_but_numbers_ends_a_context_without_kv(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 36; i++) c.shape.layer[i].kind = IMPMEM_LAYER_NO_ATTENTION;
    c.shape.trained_context = 0;
    assert_int_equal(fit(IMPMEM_FIT_CONTEXT), IMPMEM_OK);
    assert_int_equal(value, (UINT64_C(1) << 31) - 16); /* the last whole block below 2^31 */
    assert_int_equal(limit, IMPMEM_FIT_BY_NUMBERING);
    c.shape.trained_context = UINT32_MAX;
    assert_int_equal(fit(IMPMEM_FIT_CONTEXT), IMPMEM_OK);
    assert_int_equal(value, (UINT64_C(1) << 31) - 16);
    assert_int_equal(limit, IMPMEM_FIT_BY_NUMBERING);
    c.shape.trained_context = INT32_MAX;
    assert_int_equal(fit(IMPMEM_FIT_CONTEXT), IMPMEM_OK);
    assert_int_equal(value, INT32_MAX);
    assert_int_equal(limit, IMPMEM_FIT_BY_TRAINED);
}

static void batches_that_must_fit_are_not_given_up_for_a_smaller_context(void **state)
{
    (void)state;
    static const impmem_plan_batch batch = {8, 5000};
    c.in.must_fit = &batch;
    c.in.n_must_fit = 1;
    c.in.max_seq_tokens = 8192;
    assert_int_equal(fit(IMPMEM_FIT_CONTEXT), IMPMEM_OK);
    /* One sequence of the whole context is promised beside them: all 2785 blocks, or what was trained. */
    assert_int_equal(value, 40960);
    c.in.budget_bytes = (10117 + 2818) * MIB; /* 1252 blocks, 8 x 313 = 2504 are needed */
    assert_int_equal(fit(IMPMEM_FIT_CONTEXT), IMPMEM_ERR_DOES_NOT_FIT);
    assert_int_equal(failure.max_seq_tokens, 5000);
}

static void what_never_fits_is_refused_with_its_arithmetic(void **state)
{
    (void)state;
    c.in.budget_bytes = 9000 * MIB;
    assert_int_equal(fit(IMPMEM_FIT_CONTEXT), IMPMEM_ERR_DOES_NOT_FIT);
    assert_int_equal(value, 77);
    assert_int_equal(failure.max_seq_tokens, 16);
    assert_true(failure.requested_bytes == (10117 + 18) * MIB); /* 8 blocks */
    assert_int_equal(failure.n_levers, 0);
    assert_int_equal(fit(IMPMEM_FIT_BATCH), IMPMEM_ERR_DOES_NOT_FIT);
    assert_int_equal(failure.max_batch, 1);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    assert_int_equal(fit((impmem_fit_what)3), IMPMEM_ERR_BAD_VALUE);
    assert_string_equal(failure.why.subject, "what");
    assert_int_equal(impmem_plan_fit(NULL, IMPMEM_FIT_BATCH, &value, &limit, &failure), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_plan_fit(&c.in, IMPMEM_FIT_BATCH, NULL, &limit, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_plan_fit(&c.in, IMPMEM_FIT_BATCH, &value, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    failure.version = 5;
    assert_int_equal(fit(IMPMEM_FIT_BATCH), IMPMEM_ERR_VERSION);
    failure.version = 1;
    c.in.block_tokens = 17;
    assert_int_equal(fit(IMPMEM_FIT_CONTEXT), IMPMEM_ERR_BAD_VALUE);
    assert_string_equal(failure.why.subject, "block_tokens");
    c.in.block_tokens = 16;
    c.in.version = 2;
    assert_int_equal(fit(IMPMEM_FIT_CONTEXT), IMPMEM_ERR_VERSION);
    c.in.version = 1;
    c.in.model = NULL;
    assert_int_equal(fit(IMPMEM_FIT_CONTEXT), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(value, 77);
}

static void a_plan_serves_up_to_its_length_and_nothing_longer(void **state)
{
    (void)state;
    impmem_servable s;
    assert_int_equal(plans(), IMPMEM_OK);
    assert_int_equal(impmem_plan_servable(&plan, 4000, 96, &s), IMPMEM_OK);
    assert_int_equal(s.most_tokens, 4096);
    assert_int_equal(s.need_tokens, 4096);
    assert_int_equal(s.group, UINT32_MAX);
    assert_int_equal(impmem_plan_servable(&plan, 4000, 97, &s), IMPMEM_ERR_NEVER_FITS);
    assert_int_equal(s.most_tokens, 4096);
    assert_int_equal(impmem_plan_servable(&plan, 0, 97, &s), IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(impmem_plan_servable(&plan, UINT64_MAX, 1, &s), IMPMEM_ERR_OVERFLOW);
    assert_int_equal(impmem_plan_servable(NULL, 1, 1, &s), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_plan_servable(&plan, 1, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
}

/* A manual block count: 49 usable blocks, 63 needed for what the length limit allows. */
static void blocks_that_nobody_may_use_serve_nobody(void **state)
{
    (void)state;
    impmem_servable s;
    assert_int_equal(plans(), IMPMEM_OK);
    plan.kv_group[0].blocks = 52;
    plan.kv_group[0].reserved_blocks = 3;
    assert_int_equal(impmem_plan_servable(&plan, 1000, 8, &s), IMPMEM_ERR_NEVER_FITS);
    assert_int_equal(s.group, 0);
    assert_int_equal(s.usable_blocks, 49);
    assert_int_equal(s.need_blocks, 63);
    assert_int_equal(s.most_tokens, 49 * 16);
    assert_int_equal(impmem_plan_servable(&plan, 784, 0, &s), IMPMEM_OK);
    assert_int_equal(impmem_plan_servable(&plan, 785, 0, &s), IMPMEM_ERR_NEVER_FITS);
    /* A window's blocks bound nothing once they hold window and prefill. */
    plan.kv_group[0].window_tokens = 256;
    plan.prefill_tokens = 496; /* 47 + 1 blocks */
    assert_int_equal(impmem_plan_servable(&plan, 4096, 0, &s), IMPMEM_OK);
    plan.prefill_tokens = 512; /* 48 + 1 */
    assert_int_equal(impmem_plan_servable(&plan, 4096, 0, &s), IMPMEM_OK);
    plan.prefill_tokens = 528;
    assert_int_equal(impmem_plan_servable(&plan, 4096, 0, &s), IMPMEM_ERR_NEVER_FITS);
}

static const impmem_plan_diff_row *row_of(const impmem_plan_diff_row *rows, uint32_t n, impmem_line_id id)
{
    for (uint32_t i = 0; i < n; i++)
        if (rows[i].id == id) return &rows[i];
    return NULL;
}

static void differences_add_up_to_the_totals(void **state)
{
    (void)state;
    impmem_plan_diff_row rows[IMPMEM_PLAN_MAX_LINES];
    uint32_t n = 0, counted = 0;
    c.in.granule_bytes = 2 * MIB;
    assert_int_equal(plans(), IMPMEM_OK);
    other = plan;
    c.in.max_seq_tokens = 2048;
    c.in.n_demands = 2; /* no scratch, and its region's rounding moves */
    c.in.context_bytes = 0;
    assert_int_equal(plans(), IMPMEM_OK);
    assert_int_equal(impmem_plan_diff(&other, &plan, rows, IMPMEM_PLAN_MAX_LINES, &n), IMPMEM_OK);
    uint64_t a[IMPMEM_N_ACCOUNTS] = {0}, b[IMPMEM_N_ACCOUNTS] = {0};
    for (uint32_t i = 0; i < n; i++) {
        a[rows[i].account] += rows[i].a_bytes;
        b[rows[i].account] += rows[i].b_bytes;
        assert_true(rows[i].in_a || rows[i].in_b);
        assert_true(rows[i].name[0] != 0);
    }
    for (uint32_t i = 0; i < IMPMEM_N_ACCOUNTS; i++) {
        assert_true(a[i] == other.total_bytes[i]);
        assert_true(b[i] == plan.total_bytes[i]);
    }
    assert_int_equal(row_of(rows, n, IMPMEM_LINE_CONTEXT)->in_b, 0);
    assert_true(row_of(rows, n, IMPMEM_LINE_CONTEXT)->a_bytes == 1680 * MIB);
    assert_true(row_of(rows, n, IMPMEM_LINE_KV)->a_bytes == 4608 * MIB);
    assert_true(row_of(rows, n, IMPMEM_LINE_KV)->b_bytes == 2304 * MIB);
    assert_int_equal(impmem_plan_diff(&other, &plan, rows, n - 1, &counted), IMPMEM_ERR_EXHAUSTED);
    assert_int_equal(counted, n);
    assert_int_equal(impmem_plan_diff(&other, &plan, NULL, 0, &counted), IMPMEM_ERR_EXHAUSTED);
    assert_int_equal(counted, n);
    assert_int_equal(impmem_plan_diff(NULL, &plan, rows, n, &counted), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_plan_diff(&plan, NULL, rows, n, &counted), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_plan_diff(&plan, &plan, NULL, n, &counted), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_plan_diff(&plan, &plan, rows, n, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_plan_diff(&plan, &plan, rows, IMPMEM_PLAN_MAX_LINES, &n), IMPMEM_OK);
    for (uint32_t i = 0; i < n; i++) assert_true(rows[i].a_bytes == rows[i].b_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_largest_context_fits_and_one_block_more_does_not, start),
        cmocka_unit_test_setup(the_largest_batch_fits_and_one_sequence_more_does_not, start),
        cmocka_unit_test_setup(the_trained_context_ends_it_to_the_token, start),
        cmocka_unit_test_setup(nothing_but_numbers_ends_a_context_without_kv, start),
        cmocka_unit_test_setup(nothing_but_numbers_ends_a_batch_without_kv, start),
        cmocka_unit_test_setup(batches_that_must_fit_are_not_given_up_for_a_smaller_context, start),
        cmocka_unit_test_setup(what_never_fits_is_refused_with_its_arithmetic, start),
        cmocka_unit_test_setup(nonsense_is_refused, start),
        cmocka_unit_test_setup(a_plan_serves_up_to_its_length_and_nothing_longer, start),
        cmocka_unit_test_setup(blocks_that_nobody_may_use_serve_nobody, start),
        cmocka_unit_test_setup(differences_add_up_to_the_totals, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
