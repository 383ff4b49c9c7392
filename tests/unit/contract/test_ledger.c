/* impmem/ledger.h and journal.h: phases, capture, charges, host memory and the journal, as the headers promise them. */
#include "contract.h"

#include "impmem/arena.h"
#include "impmem/control.h"
#include "impmem/staging.h"

static void null_arguments_are_refused_everywhere(void **state)
{
    (void)state;
    world w;
    impmem_usage usage;
    impmem_journal_record record;
    impmem_journal_summary summary;
    impmem_ledger *ledger = NULL;
    void *memory = NULL;
    char text[8];
    impmem_error why = IMPMEM_ERROR_INIT;
    world_open(&w, GRANULE);
    FAILS(impmem_ledger_create(NULL, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    impmem_lines lines = {NULL, 3, {UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    FAILS(impmem_ledger_create(&lines, NULL, &ledger), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_null(ledger);
    REFUSED(impmem_ledger_set_phase(NULL, IMPMEM_PHASE_PLANNING, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_ledger_set_phase(w.ledger, (impmem_phase)3, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_ledger_phase(w.ledger), IMPMEM_PHASE_LOADING);
    FAILS(impmem_ledger_replan_begin(NULL, "x"), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_ledger_replan_begin(w.ledger, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_ledger_replan_end(NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_ledger_replan_reason(NULL, 1, text, sizeof text), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_ledger_replan_reason(w.ledger, 1, NULL, sizeof text), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_ledger_capture_begin(NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_ledger_capture_end(NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_ledger_charge(NULL, LINE_A, 1, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_ledger_uncharge(NULL, LINE_A, 1), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_ledger_host_allocate(NULL, LINE_A, IMPMEM_TAG_OTHER, 1, &memory, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_ledger_host_allocate(w.ledger, IMPMEM_LINE_HOST_CONTROL, IMPMEM_TAG_OTHER, 1, NULL, &why),
            IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_ledger_host_allocate(w.ledger, IMPMEM_LINE_HOST_CONTROL, (impmem_tag)IMPMEM_N_TAGS, 1, &memory, &why),
            IMPMEM_ERR_INVALID_ARGUMENT);
    assert_null(memory);
    impmem_ledger_host_free(w.ledger, IMPMEM_LINE_HOST_CONTROL, IMPMEM_TAG_OTHER, NULL, 64);
    FAILS(impmem_ledger_line_usage(NULL, LINE_A, &usage), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_ledger_line_usage(w.ledger, LINE_A, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_ledger_line_usage(w.ledger, 999999, &usage), IMPMEM_ERR_UNPLANNED);
    FAILS(impmem_ledger_line_usage(w.ledger, IMPMEM_NO_LINE, &usage), IMPMEM_ERR_UNPLANNED);
    FAILS(impmem_ledger_journal_read(NULL, 0, &record), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_ledger_journal_read(w.ledger, 0, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_ledger_journal_read(w.ledger, impmem_ledger_journal_end(w.ledger), &record), IMPMEM_ERR_NOT_FOUND);
    FAILS(impmem_ledger_journal_read(w.ledger, UINT64_MAX, &record), IMPMEM_ERR_NOT_FOUND);
    FAILS(impmem_ledger_journal_write(NULL, impmem_write_file, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_ledger_journal_write(w.ledger, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_journal_read_file(NULL, NULL, NULL, &summary, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_journal_read_file("/no/such/file", NULL, NULL, &summary, &why), IMPMEM_ERR_IO);
    assert_non_null(strstr(why.subject[0] ? why.subject : why.message, "/no/such/file"));
    OK(impmem_ledger_destroy(NULL, NULL));
    world_close(&w);
}

static void a_zeroed_options_struct_is_the_default_and_a_newer_one_is_refused(void **state)
{
    (void)state;
    impmem_ledger_options options;
    impmem_ledger *ledger = NULL;
    memset(&options, 0, sizeof options);
    OK(impmem_ledger_create(NULL, &options, &ledger));
    assert_true(impmem_ledger_seed(ledger) != 0);
    assert_true(impmem_ledger_budget_bytes(ledger, IMPMEM_ACCOUNT_DEVICE) == UINT64_MAX);
    OK(impmem_ledger_destroy(ledger, NULL));
    ledger = NULL;
    options = (impmem_ledger_options)IMPMEM_LEDGER_OPTIONS_INIT;
    options.version = 2;
    FAILS(impmem_ledger_create(NULL, &options, &ledger), IMPMEM_ERR_VERSION);
    options.version = UINT32_MAX;
    FAILS(impmem_ledger_create(NULL, &options, &ledger), IMPMEM_ERR_VERSION);
    /* An allocator needs both of its halves. */
    options = (impmem_ledger_options)IMPMEM_LEDGER_OPTIONS_INIT;
    options.allocator.allocate = world_allocate;
    FAILS(impmem_ledger_create(NULL, &options, &ledger), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_null(ledger);
}

static void a_ledger_with_a_backend_is_not_destroyed(void **state)
{
    (void)state;
    impmem_ledger *ledger = NULL;
    impmem_backend *backend = NULL;
    impmem_error why;
    OK(impmem_ledger_create(NULL, NULL, &ledger));
    OK(impmem_fake_backend_create(ledger, NULL, &backend, NULL, NULL));
    REFUSED(impmem_ledger_destroy(ledger, &why), IMPMEM_ERR_LIVE_HOLDERS);
    OK(impmem_backend_destroy(backend, NULL));
    OK(impmem_ledger_destroy(ledger, NULL));
}

static void charges_hold_no_ledger_open_and_never_go_below_nothing(void **state)
{
    (void)state;
    world w;
    impmem_usage usage;
    impmem_error why;
    world_open(&w, GRANULE);
    OK(impmem_ledger_charge(w.ledger, LINE_A, 100, NULL));
    assert_true(impmem_ledger_uncharge(w.ledger, LINE_A, 101) != IMPMEM_OK);
    assert_true(impmem_ledger_uncharge(w.ledger, LINE_B, 1) != IMPMEM_OK);
    assert_true(impmem_ledger_uncharge(w.ledger, LINE_A, UINT64_MAX) != IMPMEM_OK);
    FAILS(impmem_ledger_uncharge(w.ledger, 999999, 1), IMPMEM_ERR_UNPLANNED);
    REFUSED(impmem_ledger_charge(w.ledger, 999999, 1, &why), IMPMEM_ERR_UNPLANNED);
    REFUSED(impmem_ledger_charge(w.ledger, LINE_A, UINT64_MAX, &why), IMPMEM_ERR_OVERFLOW);
    OK(impmem_ledger_line_usage(w.ledger, LINE_A, &usage));
    assert_int_equal(usage.committed_bytes, 100);
    assert_int_equal(usage.live_bytes, 100);
    assert_int_equal(usage.reserved_bytes, 0);
    assert_int_equal(device_bytes(w.ledger), 100);
    assert_journal_agrees(w.ledger);
    world_close(&w); /* the ledger goes with the charge still on it */
}

/* Bytes that are charged can't be uncharged when a region holds them. */
static void a_charge_is_told_apart_from_what_a_region_holds(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_region *region = world_region(&w, GRANULE, LINE_A);
    assert_true(impmem_ledger_uncharge(w.ledger, LINE_A, GRANULE) != IMPMEM_OK);
    assert_int_equal(device_bytes(w.ledger), GRANULE);
    OK(impmem_backend_release(&region, NULL));
    assert_int_equal(device_bytes(w.ledger), 0);
    assert_journal_agrees(w.ledger);
    world_close(&w);
}

static void a_replan_is_entered_from_serving_only_and_once(void **state)
{
    (void)state;
    world w;
    impmem_error why;
    char reason[64];
    char longer[101];
    world_open(&w, GRANULE);
    assert_true(impmem_ledger_replan_begin(w.ledger, "too early") != IMPMEM_OK);
    REFUSED(impmem_ledger_replan_end(w.ledger, &why), IMPMEM_ERR_STATE);
    OK(impmem_ledger_set_phase(w.ledger, IMPMEM_PHASE_SERVING, NULL));
    FAILS(impmem_ledger_replan_reason(w.ledger, 0, reason, sizeof reason), IMPMEM_ERR_NOT_FOUND);
    FAILS(impmem_ledger_replan_reason(w.ledger, 1, reason, sizeof reason), IMPMEM_ERR_NOT_FOUND);
    memset(longer, 'r', 100);
    longer[100] = 0;
    OK(impmem_ledger_replan_begin(w.ledger, longer));
    FAILS(impmem_ledger_replan_begin(w.ledger, "nested"), IMPMEM_ERR_STATE);
    REFUSED(impmem_ledger_set_phase(w.ledger, IMPMEM_PHASE_SERVING, &why), IMPMEM_ERR_STATE);
    REFUSED(impmem_ledger_set_phase(w.ledger, IMPMEM_PHASE_PLANNING, &why), IMPMEM_ERR_STATE);
    assert_int_equal(impmem_ledger_phase(w.ledger), IMPMEM_PHASE_PLANNING);
    /* A swap takes and gives memory, and nothing of it is a violation. */
    impmem_region *region = world_region(&w, GRANULE, LINE_A);
    OK(impmem_backend_release(&region, NULL));
    assert_int_equal(impmem_ledger_serving_acquisitions(w.ledger), 0);
    OK(impmem_ledger_replan_end(w.ledger, NULL));
    assert_int_equal(impmem_ledger_phase(w.ledger), IMPMEM_PHASE_SERVING);
    OK(impmem_ledger_replan_reason(w.ledger, 1, reason, sizeof reason));
    assert_int_equal(strlen(reason), 63);
    assert_memory_equal(reason, longer, 63);
    OK(impmem_ledger_replan_reason(w.ledger, 1, reason, 4));
    assert_string_equal(reason, "rrr");
    FAILS(impmem_ledger_replan_reason(w.ledger, 1, reason, 0), IMPMEM_ERR_INVALID_ARGUMENT);
    for (unsigned i = 2; i <= 17; i++) {
        OK(impmem_ledger_replan_begin(w.ledger, "again"));
        OK(impmem_ledger_replan_end(w.ledger, NULL));
    }
    FAILS(impmem_ledger_replan_reason(w.ledger, 1, reason, sizeof reason), IMPMEM_ERR_NOT_FOUND);
    OK(impmem_ledger_replan_reason(w.ledger, 2, reason, sizeof reason));
    OK(impmem_ledger_replan_reason(w.ledger, 17, reason, sizeof reason));
    FAILS(impmem_ledger_replan_reason(w.ledger, 18, reason, sizeof reason), IMPMEM_ERR_NOT_FOUND);
    FAILS(impmem_ledger_replan_reason(w.ledger, UINT32_MAX, reason, sizeof reason), IMPMEM_ERR_NOT_FOUND);
    world_close(&w);
}

typedef struct watcher {
    impmem_ledger *ledger;
    impmem_violation last;
    unsigned calls;
    uint64_t seen;
} watcher;

static void watch(void *context, const impmem_violation *violation)
{
    watcher *v = context;
    v->last = *violation;
    v->calls++;
    /* Reading is allowed here. */
    v->seen = impmem_ledger_serving_acquisitions(v->ledger) + impmem_ledger_journal_end(v->ledger);
    assert_journal_agrees(v->ledger);
}

static void capture_refuses_every_touch_of_memory_and_tells_the_callback(void **state)
{
    (void)state;
    watcher v = {0};
    impmem_ledger_options options = IMPMEM_LEDGER_OPTIONS_INIT;
    impmem_fake_options fake = IMPMEM_FAKE_OPTIONS_INIT;
    impmem_backend *backend = NULL;
    impmem_fake *inside = NULL;
    impmem_region *region = NULL, *other = NULL;
    impmem_error why;
    uint64_t committed;
    void *memory = NULL, *kept = NULL;
    options.violation = watch;
    options.violation_context = &v;
    OK(impmem_ledger_create(NULL, &options, &v.ledger));
    fake.granule_bytes = GRANULE;
    fake.growable = true;
    OK(impmem_fake_backend_create(v.ledger, &fake, &backend, &inside, NULL));
    const impmem_acquire_info info = ask(8 * GRANULE, IMPMEM_NO_LINE);
    OK(impmem_backend_reserve(backend, &info, &region, NULL));
    OK(impmem_region_commit(region, 2 * GRANULE, NULL, NULL));
    OK(impmem_ledger_host_allocate(v.ledger, IMPMEM_NO_LINE, IMPMEM_TAG_OTHER, 64, &kept, NULL));
    const uint64_t calls = impmem_fake_calls(inside), held = impmem_fake_held_bytes(inside);
    OK(impmem_ledger_capture_begin(v.ledger));
    OK(impmem_ledger_capture_begin(v.ledger));
    OK(impmem_ledger_capture_end(v.ledger)); /* one of two */
    REFUSED(impmem_backend_acquire(backend, &info, &other, &why), IMPMEM_ERR_CAPTURING);
    assert_int_equal(v.last.rule, IMPMEM_ERR_CAPTURING);
    REFUSED(impmem_backend_reserve(backend, &info, &other, &why), IMPMEM_ERR_CAPTURING);
    REFUSED(impmem_region_commit(region, 3 * GRANULE, &committed, &why), IMPMEM_ERR_CAPTURING);
    assert_int_equal(committed, 2 * GRANULE);
    REFUSED(impmem_region_commit(region, GRANULE, &committed, &why), IMPMEM_ERR_CAPTURING);
    assert_int_equal(committed, 2 * GRANULE);
    REFUSED(impmem_region_commit_range(region, 5 * GRANULE, 1, &committed, &why), IMPMEM_ERR_CAPTURING);
    REFUSED(impmem_region_decommit_range(region, 0, GRANULE, &committed, &why), IMPMEM_ERR_CAPTURING);
    impmem_region *before = region;
    REFUSED(impmem_backend_release(&region, &why), IMPMEM_ERR_CAPTURING);
    assert_ptr_equal(region, before);
    REFUSED(impmem_ledger_host_allocate(v.ledger, IMPMEM_NO_LINE, IMPMEM_TAG_OTHER, 64, &memory, &why),
            IMPMEM_ERR_CAPTURING);
    assert_null(other);
    assert_null(memory);
    assert_true(v.calls > 0);
    assert_true(v.seen > 0);
    impmem_ledger_host_free(v.ledger, IMPMEM_NO_LINE, IMPMEM_TAG_OTHER, kept, 64);
    assert_int_equal(impmem_fake_calls(inside), calls);
    assert_int_equal(impmem_fake_held_bytes(inside), held);
    OK(impmem_ledger_capture_end(v.ledger));
    FAILS(impmem_ledger_capture_end(v.ledger), IMPMEM_ERR_STATE);
    OK(impmem_backend_release(&region, NULL));
    assert_null(region);
    OK(impmem_backend_destroy(backend, NULL));
    assert_journal_agrees(v.ledger);
    OK(impmem_ledger_destroy(v.ledger, NULL));
}

/* A ring of one record: everything else is in the opening balance, and the sums hold after every operation. */
static void a_ring_of_one_record_still_balances(void **state)
{
    (void)state;
    impmem_ledger_options options = IMPMEM_LEDGER_OPTIONS_INIT;
    impmem_fake_options fake = IMPMEM_FAKE_OPTIONS_INIT;
    impmem_ledger *ledger = NULL;
    impmem_backend *backend = NULL;
    impmem_region *region[4] = {NULL, NULL, NULL, NULL};
    options.journal_records = 1;
    OK(impmem_ledger_create(NULL, &options, &ledger));
    fake.granule_bytes = GRANULE;
    OK(impmem_fake_backend_create(ledger, &fake, &backend, NULL, NULL));
    for (unsigned round = 0; round < 64; round++) {
        const unsigned i = round * 7 % 4;
        if (region[i]) {
            OK(impmem_backend_release(&region[i], NULL));
        } else {
            const impmem_acquire_info info = ask((uint64_t)GRANULE * (round + 1), IMPMEM_NO_LINE);
            OK(impmem_backend_acquire(backend, &info, &region[i], NULL));
        }
        assert_journal_agrees(ledger);
        assert_int_equal(impmem_ledger_journal_end(ledger) - impmem_ledger_journal_first(ledger), 1);
        assert_int_equal(impmem_ledger_journal_dropped(ledger), impmem_ledger_journal_first(ledger));
        assert_true(impmem_ledger_unplanned_bytes(ledger) >= device_bytes(ledger));
    }
    for (unsigned i = 0; i < 4; i++) OK(impmem_backend_release(&region[i], NULL));
    OK(impmem_backend_destroy(backend, NULL));
    OK(impmem_ledger_destroy(ledger, NULL));
}

/* "Bytes on no line, plus what lines hold above their plan." */
static void unplanned_bytes_are_those_without_a_line_and_those_above_it(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    assert_int_equal(impmem_ledger_unplanned_bytes(w.ledger), 0);
    impmem_region *planned = world_region(&w, 64 * IMPMEM_MIB, LINE_A);
    assert_int_equal(impmem_ledger_unplanned_bytes(w.ledger), 0);
    impmem_region *above = world_region(&w, GRANULE, LINE_A);
    assert_int_equal(impmem_ledger_unplanned_bytes(w.ledger), GRANULE);
    impmem_region *none = world_region(&w, 3 * GRANULE, IMPMEM_NO_LINE);
    assert_int_equal(impmem_ledger_unplanned_bytes(w.ledger), 4 * GRANULE);
    OK(impmem_backend_release(&planned, NULL));
    assert_int_equal(impmem_ledger_unplanned_bytes(w.ledger), 3 * GRANULE);
    OK(impmem_backend_release(&none, NULL));
    OK(impmem_backend_release(&above, NULL));
    assert_int_equal(impmem_ledger_unplanned_bytes(w.ledger), 0);
    world_close(&w);
}

static void host_memory_of_any_size_is_typed_and_all_or_nothing(void **state)
{
    (void)state;
    world w;
    impmem_error why;
    world_open(&w, GRANULE);
    void *memory = NULL;
    const world_figures before = world_look(&w);
    const uint64_t sizes[] = {UINT64_MAX, UINT64_MAX - 63, UINT64_MAX / 2};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        why = (impmem_error)IMPMEM_ERROR_INIT;
        w.fail_in = 1; /* the C library would only complain about such sizes */
        const impmem_status st = impmem_ledger_host_allocate(w.ledger, IMPMEM_LINE_HOST_CONTROL, IMPMEM_TAG_OTHER, sizes[i],
                                                             &memory, &why);
        w.fail_in = 0;
        assert_true(st == IMPMEM_ERR_OVERFLOW || st == IMPMEM_ERR_OUT_OF_HOST_MEMORY);
        assert_int_equal(why.status, st);
        assert_null(memory);
    }
    assert_same_figures(before, world_look(&w));
    assert_journal_agrees(w.ledger);
    world_close(&w);
}

/* Nothing that fails says anything in `why` when it succeeds. */
static void success_leaves_why_alone(void **state)
{
    (void)state;
    world w;
    impmem_error why, untouched;
    impmem_region *region = NULL;
    void *memory = NULL;
    world_open(&w, GRANULE);
    memset(&why, 0x5A, sizeof why);
    untouched = why;
    const impmem_acquire_info info = ask(GRANULE, LINE_A);
    OK(impmem_backend_acquire(w.fixed, &info, &region, &why));
    OK(impmem_backend_release(&region, &why));
    OK(impmem_ledger_charge(w.ledger, LINE_A, 1, &why));
    OK(impmem_ledger_host_allocate(w.ledger, IMPMEM_LINE_HOST_CONTROL, IMPMEM_TAG_OTHER, 1, &memory, &why));
    impmem_ledger_host_free(w.ledger, IMPMEM_LINE_HOST_CONTROL, IMPMEM_TAG_OTHER, memory, 1);
    OK(impmem_ledger_set_phase(w.ledger, IMPMEM_PHASE_PLANNING, &why));
    assert_memory_equal(&why, &untouched, sizeof why);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_arguments_are_refused_everywhere),
        cmocka_unit_test(a_zeroed_options_struct_is_the_default_and_a_newer_one_is_refused),
        cmocka_unit_test(a_ledger_with_a_backend_is_not_destroyed),
        cmocka_unit_test(charges_hold_no_ledger_open_and_never_go_below_nothing),
        cmocka_unit_test(a_charge_is_told_apart_from_what_a_region_holds),
        cmocka_unit_test(a_replan_is_entered_from_serving_only_and_once),
        cmocka_unit_test(capture_refuses_every_touch_of_memory_and_tells_the_callback),
        cmocka_unit_test(a_ring_of_one_record_still_balances),
        cmocka_unit_test(unplanned_bytes_are_those_without_a_line_and_those_above_it),
        cmocka_unit_test(host_memory_of_any_size_is_typed_and_all_or_nothing),
        cmocka_unit_test(success_leaves_why_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
