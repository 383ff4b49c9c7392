/* Page-locking of foreign memory. */
#include "world.h"

#include "impmem/pinned.h"

static char page[4 * 4096];

static void a_registration_has_one_owner(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    impmem_host_registration mine = IMPMEM_HOST_REGISTRATION_NONE, other = IMPMEM_HOST_REGISTRATION_NONE;
    assert_int_equal(impmem_cuda_register(w.device, page, 8192, NULL, &mine, NULL), IMPMEM_OK);
    assert_int_equal(impmem_cuda_registration_mode(mine), IMPMEM_REGISTRATION_WRITABLE);
    assert_int_equal(impmem_cuda_register(w.device, page + 4096, 8192, NULL, &other, NULL), IMPMEM_ERR_BUSY);
    assert_int_equal(impmem_cuda_register(w.device, page, 1, NULL, &other, NULL), IMPMEM_ERR_BUSY);
    assert_int_equal(fake_count(w.fake, IMPMEM__CALL_host_register), 1);
    assert_int_equal(impmem_cuda_register(w.device, page + 8192, 4096, NULL, &other, NULL), IMPMEM_OK);
    impmem_host_registration copy = mine;
    assert_int_equal(impmem_cuda_unregister(&mine, NULL), IMPMEM_OK);
    assert_null(mine.device_);
    assert_int_equal(impmem_cuda_unregister(&mine, NULL), IMPMEM_OK);
    assert_int_equal(impmem_cuda_unregister(&copy, NULL), IMPMEM_ERR_STALE);
    assert_int_equal(impmem_cuda_registration_mode(copy), IMPMEM_REGISTRATION_NONE);
    int64_t codes[2];
    assert_int_equal(impmem_cuda_registration_codes(copy, codes), IMPMEM_ERR_STALE);
    assert_int_equal(impmem_cuda_unregister(&other, NULL), IMPMEM_OK);
    close_world(&w);
}

typedef struct attempt {
    world w;
    impmem_host_registration r;
    impmem_registration_options o;
} attempt;

static impmem_status run_register(void *context)
{
    attempt *a = context;
    return impmem_cuda_register(a->w.device, page, 4096, &a->o, &a->r, &a->w.why);
}

static void undo_register(void *context)
{
    attempt *a = context;
    assert_int_equal(impmem_cuda_unregister(&a->r, NULL), IMPMEM_OK);
}

static void registering_fails_at_every_call_and_leaves_nothing(void **state)
{
    (void)state;
    attempt a;
    memset(&a, 0, sizeof a);
    open_world(&a.w);
    a.o = (impmem_registration_options)IMPMEM_REGISTRATION_OPTIONS_INIT;
    a.o.line = LINE_PINNED;
    sweep s = {a.w.fake, run_register, undo_register, &a, IMPMEM__CODE_OUT_OF_MEMORY, false};
    assert_int_equal(run_sweep(&s), 2);
    a.o.read_only = true;
    assert_true(run_sweep(&s) >= 2);
    assert_int_equal(committed(&a.w, IMPMEM_ACCOUNT_PINNED), 0);
    close_world(&a.w);
}

static void a_refusal_is_typed_and_degrades_on_request(void **state)
{
    (void)state;
    attempt a;
    memset(&a, 0, sizeof a);
    open_world(&a.w);
    a.o = (impmem_registration_options)IMPMEM_REGISTRATION_OPTIONS_INIT;
    a.o.line = LINE_PINNED;
    fake_fail_call(a.w.fake, IMPMEM__CALL_host_register, 1, IMPMEM__CODE_OUT_OF_MEMORY, true);
    assert_int_equal(run_register(&a), IMPMEM_ERR_OUT_OF_PINNED_MEMORY);
    assert_int_equal(a.w.why.driver_code, IMPMEM__CODE_OUT_OF_MEMORY);
    assert_int_equal(a.w.fake->last_error, 0);
    assert_int_equal(impmem_ledger_pinned_degradations(a.w.ledger), 0);
    a.o.or_pageable = true;
    a.o.read_only = true;
    assert_int_equal(run_register(&a), IMPMEM_OK);
    assert_int_equal(impmem_cuda_registration_mode(a.r), IMPMEM_REGISTRATION_PAGEABLE);
    assert_int_equal(impmem_ledger_pinned_degradations(a.w.ledger), 1);
    assert_int_equal(committed(&a.w, IMPMEM_ACCOUNT_PINNED), 0);
    int64_t codes[2] = {0, 0};
    assert_int_equal(impmem_cuda_registration_codes(a.r, codes), IMPMEM_OK);
    assert_int_equal(codes[0], IMPMEM__CODE_OUT_OF_MEMORY);
    assert_int_equal(codes[1], IMPMEM__CODE_OUT_OF_MEMORY);
    assert_int_equal(fake_snapshot(a.w.fake).registered, 0);
    undo_register(&a);
    assert_int_equal(fake_count(a.w.fake, IMPMEM__CALL_host_unregister), 0);
    fake_fail_call(a.w.fake, IMPMEM__CALL_host_register, 1, IMPMEM__CODE_CAPTURE_FIRST, true);
    assert_int_equal(run_register(&a), IMPMEM_ERR_CAPTURING); /* not a refusal: nothing degrades */
    close_world(&a.w);
}

static void read_only_memory_is_tried_read_only_first(void **state)
{
    (void)state;
    attempt a;
    memset(&a, 0, sizeof a);
    open_world(&a.w);
    a.o = (impmem_registration_options)IMPMEM_REGISTRATION_OPTIONS_INIT;
    a.o.read_only = true;
    assert_int_equal(run_register(&a), IMPMEM_OK);
    assert_int_equal(impmem_cuda_registration_mode(a.r), IMPMEM_REGISTRATION_READ_ONLY);
    assert_int_equal(a.w.fake->log[a.w.fake->n_log - 2].bytes, 1 | 8); /* portable, read-only */
    undo_register(&a);
    /* Code 801, then the plain flag: as one device of the field did. */
    fake_fail_call(a.w.fake, IMPMEM__CALL_host_register, 1, IMPMEM__CODE_NOT_SUPPORTED, false);
    assert_int_equal(run_register(&a), IMPMEM_OK);
    assert_int_equal(impmem_cuda_registration_mode(a.r), IMPMEM_REGISTRATION_WRITABLE);
    int64_t codes[2] = {0, 0};
    assert_int_equal(impmem_cuda_registration_codes(a.r, codes), IMPMEM_OK);
    assert_int_equal(codes[0], 801);
    assert_int_equal(codes[1], 0);
    undo_register(&a);
    /* Another owner in the process holds the range. */
    fake_fail_call(a.w.fake, IMPMEM__CALL_host_register, 1, IMPMEM__CODE_REGISTERED_ALREADY, true);
    a.o.or_pageable = true;
    assert_int_equal(run_register(&a), IMPMEM_ERR_BUSY);
    fake_heal(a.w.fake);
    a.w.device->facts.read_only_registration = false;
    assert_int_equal(run_register(&a), IMPMEM_OK);
    assert_int_equal(impmem_cuda_registration_mode(a.r), IMPMEM_REGISTRATION_WRITABLE);
    undo_register(&a);
    close_world(&a.w);
}

static void bytes_are_charged_and_capped(void **state)
{
    (void)state;
    attempt a;
    memset(&a, 0, sizeof a);
    open_world(&a.w);
    a.o = (impmem_registration_options)IMPMEM_REGISTRATION_OPTIONS_INIT;
    a.o.line = LINE_PINNED;
    assert_int_equal(run_register(&a), IMPMEM_OK);
    assert_int_equal(committed(&a.w, IMPMEM_ACCOUNT_PINNED), 4096);
    impmem_host_registration other = IMPMEM_HOST_REGISTRATION_NONE;
    impmem_registration_options capped = a.o;
    capped.cap_bytes = 6000;
    assert_int_equal(impmem_cuda_register(a.w.device, page + 8192, 1905, &capped, &other, &a.w.why),
                     IMPMEM_ERR_OUT_OF_PINNED_MEMORY);
    assert_int_equal(a.w.why.available_bytes, 6000 - 4096);
    assert_int_equal(impmem_cuda_register(a.w.device, page + 8192, 1904, &capped, &other, &a.w.why), IMPMEM_OK);
    capped.cap_bytes = 100;
    impmem_host_registration third = IMPMEM_HOST_REGISTRATION_NONE;
    assert_int_equal(impmem_cuda_register(a.w.device, page + 12288, 1, &capped, &third, &a.w.why),
                     IMPMEM_ERR_OUT_OF_PINNED_MEMORY);
    assert_int_equal(impmem_cuda_unregister(&other, NULL), IMPMEM_OK);
    a.o.line = 4711;
    assert_int_equal(impmem_cuda_register(a.w.device, page + 8192, 1, &a.o, &other, &a.w.why), IMPMEM_ERR_UNPLANNED);
    a.o.line = LINE_PINNED;
    assert_int_equal(impmem_cuda_register(a.w.device, page + 8192, 65 * IMPMEM_MIB, &a.o, &other, &a.w.why),
                     IMPMEM_ERR_BUDGET_EXCEEDED);
    fake_fail_call(a.w.fake, IMPMEM__CALL_host_unregister, 1, 999, false);
    assert_int_equal(impmem_cuda_unregister(&a.r, NULL), IMPMEM_ERR_DRIVER);
    assert_non_null(a.r.device_);
    assert_int_equal(committed(&a.w, IMPMEM_ACCOUNT_PINNED), 4096);
    undo_register(&a);
    assert_int_equal(committed(&a.w, IMPMEM_ACCOUNT_PINNED), 0);
    close_world(&a.w);
}

static void the_table_is_bounded(void **state)
{
    (void)state;
    static char many[300][64];
    world w;
    open_world(&w);
    impmem_host_registration r[256], more = IMPMEM_HOST_REGISTRATION_NONE;
    for (int i = 0; i < 256; i++)
        assert_int_equal(impmem_cuda_register(w.device, many[i], 64, NULL, &r[i], NULL), IMPMEM_OK);
    assert_int_equal(impmem_cuda_register(w.device, many[256], 64, NULL, &more, NULL), IMPMEM_ERR_EXHAUSTED);
    for (int i = 0; i < 256; i++) assert_int_equal(impmem_cuda_unregister(&r[i], NULL), IMPMEM_OK);
    close_world(&w);
}

static void senseless_registrations_are_refused(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    impmem_host_registration r = IMPMEM_HOST_REGISTRATION_NONE;
    impmem_registration_options o = IMPMEM_REGISTRATION_OPTIONS_INIT;
    assert_int_equal(impmem_cuda_register(NULL, page, 1, &o, &r, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cuda_register(w.device, NULL, 1, &o, &r, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cuda_register(w.device, page, 0, &o, &r, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cuda_register(w.device, page, 1, &o, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cuda_register(w.device, page, UINT64_MAX, &o, &r, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    o.version = 2;
    assert_int_equal(impmem_cuda_register(w.device, page, 1, &o, &r, NULL), IMPMEM_ERR_VERSION);
    memset(&o, 0, sizeof o);
    assert_int_equal(impmem_cuda_register(w.device, page, 1, &o, &r, NULL), IMPMEM_OK);
    assert_int_equal(committed(&w, IMPMEM_ACCOUNT_PINNED), 0);
    assert_int_equal(impmem_cuda_unregister(&r, NULL), IMPMEM_OK);
    assert_int_equal(impmem_cuda_unregister(NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    r.number_ = 5;
    assert_int_equal(impmem_cuda_unregister(&r, NULL), IMPMEM_ERR_STALE);
    int64_t codes[2];
    assert_int_equal(impmem_cuda_registration_codes(r, codes), IMPMEM_ERR_STALE);
    assert_int_equal(impmem_cuda_registration_codes(r, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cuda_registration_mode(r), IMPMEM_REGISTRATION_NONE);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_registration_has_one_owner),
        cmocka_unit_test(registering_fails_at_every_call_and_leaves_nothing),
        cmocka_unit_test(a_refusal_is_typed_and_degrades_on_request),
        cmocka_unit_test(read_only_memory_is_tried_read_only_first),
        cmocka_unit_test(bytes_are_charged_and_capped),
        cmocka_unit_test(the_table_is_bounded),
        cmocka_unit_test(senseless_registrations_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
