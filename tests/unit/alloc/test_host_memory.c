/* Page-locked memory with one owner (T5b) and load-only staging (T5a). */
#include "support/world.h"

#include <stdio.h>

#include "impmem/control.h"
#include "impmem/pinned.h"
#include "impmem/staging.h"

#define GRANULE 4096u

static void pinned_memory_is_owned_by_one_handle(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    world_figures before = world_look(&w);
    impmem_pinned buffer = IMPMEM_PINNED_NONE;
    OK(impmem_pinned_close(&buffer)); /* none */
    OK(impmem_pinned_open(w.pinned, LINE_PINNED, 5000, &buffer, NULL));
    assert_int_equal(impmem_pinned_bytes(buffer), 5000);
    assert_false(impmem_pinned_is_pageable(buffer));
    memset(impmem_pinned_data(buffer), 0x77, 5000);
    assert_int_equal(world_live(&w, LINE_PINNED), 5000);
    impmem_usage usage;
    impmem_ledger_account_usage(w.ledger, IMPMEM_ACCOUNT_PINNED, &usage);
    assert_int_equal(usage.committed_bytes, 2 * GRANULE);
    impmem_pinned_span span;
    OK(impmem_pinned_view(buffer, &span));
    OK(impmem_span_check(w.ledger, impmem_stable(span)));
    assert_int_equal(impmem_stable_bytes(impmem_stable(span)), 5000);
    impmem_stable_span edited = impmem_stable(span);
    edited.bytes_++;
    assert_int_equal(impmem_span_check(w.ledger, edited), IMPMEM_ERR_FORGED);
    edited = impmem_stable(span);
    edited.generation_++;
    assert_int_equal(impmem_span_check(w.ledger, edited), IMPMEM_ERR_FORGED);

    impmem_pinned copy = buffer;
    OK(impmem_pinned_close(&buffer));
    assert_null(buffer.object_);
    assert_int_equal(impmem_pinned_close(&copy), IMPMEM_ERR_STALE);
    assert_non_null(copy.object_);
    assert_null(impmem_pinned_data(copy));
    assert_int_equal(impmem_pinned_bytes(copy), 0);
    assert_false(impmem_pinned_is_pageable(copy));
    assert_int_equal(impmem_pinned_view(copy, &span), IMPMEM_ERR_STALE);
    assert_int_equal(impmem_span_check(w.ledger, impmem_stable(span)), IMPMEM_ERR_STALE);

    /* A copy is no handle of whatever is opened next, either. */
    impmem_pinned next;
    OK(impmem_pinned_open(w.pinned, LINE_PINNED, 5000, &next, NULL));
    assert_int_equal(impmem_pinned_close(&copy), IMPMEM_ERR_STALE);
    OK(impmem_pinned_close(&next));
    assert_int_equal(world_live(&w, LINE_PINNED), 0);
    assert_same_figures(before, world_look(&w));
    world_close(&w);
}

static void several_pinned_buffers_close_in_any_order(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_pinned buffers[4];
    for (unsigned i = 0; i < 4; i++) OK(impmem_pinned_open(w.pinned, LINE_PINNED, 100 + i, &buffers[i], NULL));
    const unsigned order[] = {2, 0, 3, 1};
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(impmem_pinned_bytes(buffers[order[i]]), 100 + order[i]);
        OK(impmem_pinned_close(&buffers[order[i]]));
    }
    world_close(&w);
}

static void a_refusal_of_pinned_memory_is_its_own_error(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    world_figures before = world_look(&w);
    impmem_pinned buffer = IMPMEM_PINNED_NONE;
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_fake_fail_nth(w.pinned_fake, 1, IMPMEM_ERR_OUT_OF_PINNED_MEMORY, IMPMEM_FAIL_FROM_THEN_ON);
    assert_int_equal(impmem_pinned_open(w.pinned, LINE_PINNED, 100, &buffer, &why), IMPMEM_ERR_OUT_OF_PINNED_MEMORY);
    assert_null(buffer.object_);
    assert_same_figures(before, world_look(&w));
    assert_int_equal(impmem_ledger_pinned_degradations(w.ledger), 0);

    bool pageable = false;
    OK(impmem_pinned_open_or_pageable(w.pinned, LINE_PINNED, 100, &buffer, &pageable, &why));
    assert_true(pageable);
    assert_true(impmem_pinned_is_pageable(buffer));
    assert_int_equal(impmem_pinned_bytes(buffer), 100);
    memset(impmem_pinned_data(buffer), 1, 100);
    assert_int_equal(impmem_ledger_pinned_degradations(w.ledger), 1);
    impmem_pinned_span span;
    assert_int_equal(impmem_pinned_view(buffer, &span), IMPMEM_ERR_UNSUPPORTED); /* it is not page-locked */
    impmem_pinned copy = buffer;
    OK(impmem_pinned_close(&buffer));
    assert_int_equal(impmem_pinned_close(&copy), IMPMEM_ERR_STALE);
    assert_same_figures(before, world_look(&w));

    /* Both refused: nothing is left, nothing is counted. The 2nd host allocation is the pageable memory itself. */
    w.fail_in = 0;
    for (uint64_t n = 1; n <= 3; n++) {
        impmem_fake_fail_nth(w.pinned_fake, 1, IMPMEM_ERR_OUT_OF_PINNED_MEMORY, IMPMEM_FAIL_FROM_THEN_ON);
        w.fail_in = n;
        impmem_status st = impmem_pinned_open_or_pageable(w.pinned, LINE_PINNED, 100, &buffer, NULL, &why);
        w.fail_in = 0;
        if (!st) {
            OK(impmem_pinned_close(&buffer));
            continue;
        }
        assert_true(st == IMPMEM_ERR_OUT_OF_HOST_MEMORY);
        assert_same_figures(before, world_look(&w));
    }
    impmem_fake_fail_nth(w.pinned_fake, 0, IMPMEM_OK, IMPMEM_FAIL_ONCE);
    OK(impmem_pinned_open_or_pageable(w.pinned, LINE_PINNED, 100, &buffer, &pageable, &why));
    assert_false(pageable);
    OK(impmem_pinned_close(&buffer));
    world_close(&w);
}

static void a_buffer_that_can_t_be_given_back_stays_usable(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_pinned buffer;
    impmem_pinned_span span;
    OK(impmem_pinned_open(w.pinned, LINE_PINNED, 100, &buffer, NULL));
    OK(impmem_pinned_view(buffer, &span));
    OK(impmem_ledger_capture_begin(w.ledger));
    assert_int_equal(impmem_pinned_close(&buffer), IMPMEM_ERR_CAPTURING);
    OK(impmem_ledger_capture_end(w.ledger));
    assert_non_null(impmem_pinned_data(buffer));
    OK(impmem_span_check(w.ledger, impmem_stable(span)));
    assert_int_equal(world_live(&w, LINE_PINNED), 100);
    OK(impmem_pinned_close(&buffer));
    world_close(&w);
}

static void wrong_pinned_arguments_are_refused(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_pinned buffer = IMPMEM_PINNED_NONE;
    impmem_pinned_span span;
    assert_int_equal(impmem_pinned_open(NULL, LINE_PINNED, 1, &buffer, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_pinned_open(w.pinned, LINE_PINNED, 0, &buffer, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_pinned_open(w.pinned, LINE_PINNED, 1, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(impmem_pinned_open(w.fixed, LINE_PINNED, 1, &buffer, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(why.message, "device"));
    assert_int_equal(impmem_pinned_close(NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_pinned_view(buffer, &span), IMPMEM_ERR_STALE);
    assert_null(impmem_pinned_data(buffer));
    OK(impmem_pinned_open(w.pinned, LINE_PINNED, 1, &buffer, NULL));
    assert_int_equal(impmem_pinned_view(buffer, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_pinned_close(&buffer));
    assert_int_equal(impmem_ledger_pinned_degradations(NULL), 0);

    OK(impmem_ledger_set_phase(w.ledger, IMPMEM_PHASE_SERVING, NULL));
    world_figures before = world_look(&w);
    assert_int_equal(impmem_pinned_open(w.pinned, LINE_PINNED, 1, &buffer, NULL), IMPMEM_ERR_SERVING);
    assert_same_figures(before, world_look(&w));
    world_close(&w);
}

static void staging_must_be_gone_before_loading_ends(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    world_figures before = world_look(&w);
    impmem_staging *upload, *second;
    impmem_error why = IMPMEM_ERROR_INIT;
    OK(impmem_staging_open(w.ledger, "weight upload", LINE_STAGING, 10000, &upload, NULL));
    OK(impmem_staging_open(w.ledger, "tokenizer", LINE_STAGING, 1, &second, NULL));
    assert_int_equal(impmem_staging_bytes(upload), 10000);
    memset(impmem_staging_data(upload), 0x42, 10000);
    assert_int_equal(world_live(&w, LINE_STAGING), 10001);
    impmem_staging_close(&second);
    assert_null(second);
    assert_int_equal(impmem_ledger_set_phase(w.ledger, IMPMEM_PHASE_PLANNING, &why), IMPMEM_ERR_STAGING_LIVE);
    assert_non_null(strstr(why.message, "weight upload"));
    assert_int_equal(impmem_ledger_phase(w.ledger), IMPMEM_PHASE_LOADING);
    impmem_staging_close(&upload);
    assert_same_figures(before, world_look(&w));
    OK(impmem_ledger_set_phase(w.ledger, IMPMEM_PHASE_PLANNING, &why));
    assert_int_equal(impmem_staging_open(w.ledger, "late", LINE_STAGING, 1, &upload, &why), IMPMEM_ERR_PHASE_ORDER);
    assert_non_null(strstr(why.message, "planning"));
    assert_same_figures(before, world_look(&w));
    world_close(&w);
}

static void a_failing_staging_open_leaves_nothing(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    world_figures before = world_look(&w);
    impmem_staging *staging = NULL;
    for (uint64_t n = 1; n <= 2; n++) {
        w.fail_in = n;
        assert_int_equal(impmem_staging_open(w.ledger, "s", LINE_STAGING, 100, &staging, NULL),
                         IMPMEM_ERR_OUT_OF_HOST_MEMORY);
        assert_null(staging);
        assert_same_figures(before, world_look(&w));
    }
    assert_int_equal(impmem_staging_open(NULL, "s", LINE_STAGING, 1, &staging, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_staging_open(w.ledger, NULL, LINE_STAGING, 1, &staging, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_staging_open(w.ledger, "s", LINE_STAGING, 0, &staging, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_staging_open(w.ledger, "s", LINE_STAGING, 1, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    impmem_staging_close(NULL);
    impmem_staging_close(&staging);
    assert_null(impmem_staging_data(NULL));
    assert_int_equal(impmem_staging_bytes(NULL), 0);

    const char *endless = "a name that is much longer than the thirty-nine bytes that are kept of it";
    OK(impmem_staging_open(w.ledger, endless, LINE_STAGING, 1, &staging, NULL));
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(impmem_ledger_set_phase(w.ledger, IMPMEM_PHASE_PLANNING, &why), IMPMEM_ERR_STAGING_LIVE);
    char kept[48];
    (void)snprintf(kept, sizeof kept, "\"%.39s\"", endless);
    assert_non_null(strstr(why.message, kept));
    impmem_staging_close(&staging);
    assert_same_figures(before, world_look(&w));
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pinned_memory_is_owned_by_one_handle),
        cmocka_unit_test(several_pinned_buffers_close_in_any_order),
        cmocka_unit_test(a_refusal_of_pinned_memory_is_its_own_error),
        cmocka_unit_test(a_buffer_that_can_t_be_given_back_stays_usable),
        cmocka_unit_test(wrong_pinned_arguments_are_refused),
        cmocka_unit_test(staging_must_be_gone_before_loading_ends),
        cmocka_unit_test(a_failing_staging_open_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
