/* The ledger: creation, phases, capture, charges, host memory, counters. */
#include "helpers.h"

#include "backend/hooks.h"

static void a_ledgers_first_record_is_its_own_memory(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_journal_record record;
    uint64_t bytes;
    OK(impmem_control_ledger_bytes(5, 0, &bytes));
    OK(impmem_ledger_journal_read(ledger, 0, &record));
    assert_int_equal(record.op, IMPMEM_JOURNAL_ACQUIRE);
    assert_int_equal(record.line, IMPMEM_LINE_HOST_CONTROL);
    assert_int_equal(record.tag, IMPMEM_TAG_HOST_CONTROL);
    assert_int_equal(record.account, IMPMEM_ACCOUNT_PAGEABLE);
    assert_true(record.bytes == bytes && record.sequence == 0);
    assert_true(impmem_ledger_unplanned_bytes(ledger) == 0);
    OK(impmem_ledger_destroy(ledger, NULL));
}

static void without_a_plan_every_byte_is_unplanned(void **state)
{
    (void)state;
    impmem_ledger *ledger;
    uint64_t bytes;
    OK(impmem_control_ledger_bytes(0, 0, &bytes));
    OK(impmem_ledger_create(NULL, NULL, &ledger));
    assert_true(impmem_ledger_unplanned_bytes(ledger) == bytes);
    assert_true(impmem_ledger_budget_bytes(ledger, IMPMEM_ACCOUNT_DEVICE) == UINT64_MAX);
    assert_true(impmem_ledger_budget_bytes(ledger, IMPMEM_N_ACCOUNTS) == 0);
    OK(impmem_ledger_destroy(ledger, NULL));
}

static void bad_lines_and_options_make_no_ledger(void **state)
{
    (void)state;
    plan p;
    impmem_ledger *ledger = NULL;
    impmem_ledger_options o = IMPMEM_LEDGER_OPTIONS_INIT;
    make_plan(&p, UINT64_MAX);
    FAILS(impmem_ledger_create(&p.lines, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    p.line[1].id = LINE_A;
    FAILS(impmem_ledger_create(&p.lines, NULL, &ledger), IMPMEM_ERR_INVALID_ARGUMENT);
    make_plan(&p, UINT64_MAX);
    p.line[1].id = IMPMEM_NO_LINE;
    FAILS(impmem_ledger_create(&p.lines, NULL, &ledger), IMPMEM_ERR_INVALID_ARGUMENT);
    make_plan(&p, UINT64_MAX);
    p.line[1].account = IMPMEM_N_ACCOUNTS;
    FAILS(impmem_ledger_create(&p.lines, NULL, &ledger), IMPMEM_ERR_INVALID_ARGUMENT);
    make_plan(&p, UINT64_MAX);
    p.line[1].tag = IMPMEM_N_TAGS;
    FAILS(impmem_ledger_create(&p.lines, NULL, &ledger), IMPMEM_ERR_INVALID_ARGUMENT);
    make_plan(&p, UINT64_MAX);
    p.lines.line = NULL;
    FAILS(impmem_ledger_create(&p.lines, NULL, &ledger), IMPMEM_ERR_INVALID_ARGUMENT);
    o.version = 2;
    FAILS(impmem_ledger_create(NULL, &o, &ledger), IMPMEM_ERR_VERSION);
    o.version = 1;
    o.size--;
    FAILS(impmem_ledger_create(NULL, &o, &ledger), IMPMEM_ERR_INVALID_ARGUMENT);
    o.size++;
    o.serving = (impmem_serving_policy)3;
    FAILS(impmem_ledger_create(NULL, &o, &ledger), IMPMEM_ERR_INVALID_ARGUMENT);
    o.serving = IMPMEM_SERVING_DEFAULT;
    o.allocator.allocate = fussy_allocate;
    FAILS(impmem_ledger_create(NULL, &o, &ledger), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_null(ledger);
    memset(&o, 0, sizeof o);
    OK(impmem_ledger_create(NULL, &o, &ledger));
    OK(impmem_ledger_destroy(ledger, NULL));
    OK(impmem_ledger_destroy(NULL, NULL));
}

static void a_ledger_that_does_not_fit_its_own_budget_is_not_made(void **state)
{
    (void)state;
    plan p;
    impmem_ledger *ledger = NULL;
    fussy f = {0, 0, 0, 0};
    impmem_ledger_options o = IMPMEM_LEDGER_OPTIONS_INIT;
    o.allocator = (impmem_allocator){fussy_allocate, fussy_release, &f};
    uint64_t bytes;
    OK(impmem_control_ledger_bytes(5, 0, &bytes));
    make_plan(&p, UINT64_MAX);
    p.lines.budget_bytes[IMPMEM_ACCOUNT_PAGEABLE] = bytes - 1;
    FAILS(impmem_ledger_create(&p.lines, &o, &ledger), IMPMEM_ERR_BUDGET_EXCEEDED);
    assert_true(f.live == 0 && ledger == NULL);
    p.lines.budget_bytes[IMPMEM_ACCOUNT_PAGEABLE] = bytes;
    OK(impmem_ledger_create(&p.lines, &o, &ledger));
    assert_true(f.live == 1 && f.live_bytes == bytes);
    OK(impmem_ledger_destroy(ledger, NULL));
    assert_true(f.live == 0);
    f.fail_at = f.calls + 1;
    ledger = NULL;
    FAILS(impmem_ledger_create(&p.lines, &o, &ledger), IMPMEM_ERR_OUT_OF_HOST_MEMORY);
    assert_null(ledger);
}

static void seed_and_clock_are_the_callers(void **state)
{
    (void)state;
    uint64_t time = 100;
    impmem_ledger *ledger;
    impmem_ledger_options o = IMPMEM_LEDGER_OPTIONS_INIT;
    o.seed = 42;
    o.clock_ns = counting_clock;
    o.clock_context = &time;
    OK(impmem_ledger_create(NULL, &o, &ledger));
    assert_true(impmem_ledger_seed(ledger) == 42);
    assert_true(last_record(ledger).time_ns == 101);
    assert_true(impmem_ledger_now_ns(ledger) == 102);
    OK(impmem_ledger_destroy(ledger, NULL));
    OK(impmem_ledger_create(NULL, NULL, &ledger));
    assert_true(impmem_ledger_seed(ledger) != 0);
    uint64_t before = impmem_ledger_now_ns(ledger);
    assert_true(impmem_ledger_now_ns(ledger) >= before);
    OK(impmem_ledger_destroy(ledger, NULL));
}

/* ---- phases ------------------------------------------------------------------------------------------------------ */

static void phases_only_move_forward(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(impmem_ledger_phase(ledger), IMPMEM_PHASE_LOADING);
    OK(impmem_ledger_set_phase(ledger, IMPMEM_PHASE_PLANNING, NULL));
    FAILS(impmem_ledger_set_phase(ledger, IMPMEM_PHASE_LOADING, &why), IMPMEM_ERR_PHASE_ORDER);
    assert_int_equal(why.status, IMPMEM_ERR_PHASE_ORDER);
    OK(impmem_ledger_set_phase(ledger, IMPMEM_PHASE_PLANNING, NULL)); /* no step at all */
    OK(impmem_ledger_set_phase(ledger, IMPMEM_PHASE_SERVING, NULL));
    impmem_journal_record record = last_record(ledger);
    assert_int_equal(record.op, IMPMEM_JOURNAL_PHASE);
    assert_true(record.bytes == IMPMEM_PHASE_SERVING && record.detail == 0);
    FAILS(impmem_ledger_set_phase(ledger, IMPMEM_PHASE_PLANNING, NULL), IMPMEM_ERR_PHASE_ORDER);
    FAILS(impmem_ledger_set_phase(ledger, (impmem_phase)3, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_ledger_set_phase(NULL, IMPMEM_PHASE_SERVING, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_ledger_phase(ledger), IMPMEM_PHASE_SERVING);
    OK(impmem_ledger_destroy(ledger, NULL));
    assert_string_equal(impmem_phase_name(IMPMEM_PHASE_LOADING), "loading");
    assert_string_equal(impmem_phase_name(IMPMEM_PHASE_PLANNING), "planning");
    assert_string_equal(impmem_phase_name(IMPMEM_PHASE_SERVING), "serving");
    assert_string_equal(impmem_phase_name((impmem_phase)3), "?");
}

typedef struct seen {
    unsigned violations;
    impmem_violation last;
    unsigned lines;
    char line[256];
    const impmem_ledger *ledger; /* read from inside the callback when set */
} seen;

static void see_violation(void *context, const impmem_violation *violation)
{
    seen *s = context;
    s->violations++;
    s->last = *violation;
    if (s->ledger) assert_true(impmem_ledger_journal_end(s->ledger) > 0);
}

static void see_line(void *context, const char *line)
{
    seen *s = context;
    s->lines++;
    strncpy(s->line, line, sizeof s->line - 1);
    assert_null(strchr(line, '\n'));
}

static impmem_ledger_options watched(seen *s, impmem_serving_policy policy)
{
    impmem_ledger_options o = IMPMEM_LEDGER_OPTIONS_INIT;
    o.serving = policy;
    o.violation = see_violation;
    o.violation_context = s;
    o.log = see_line;
    o.log_context = s;
    return o;
}

static void a_replan_is_a_scoped_way_back_with_its_reason_at_both_edges(void **state)
{
    (void)state;
    seen s = {0};
    impmem_ledger_options o = watched(&s, IMPMEM_SERVING_REFUSE);
    impmem_ledger *ledger = make_ledger(UINT64_MAX, &o);
    char reason[64];
    FAILS(impmem_ledger_replan_begin(ledger, "too early"), IMPMEM_ERR_STATE);
    FAILS(impmem_ledger_replan_end(ledger, NULL), IMPMEM_ERR_STATE);
    OK(impmem_ledger_set_phase(ledger, IMPMEM_PHASE_SERVING, NULL));
    FAILS(impmem_ledger_replan_begin(ledger, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_ledger_replan_begin(NULL, "x"), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_ledger_replan_end(NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_ledger_replan_begin(ledger, "model swap"));
    assert_int_equal(impmem_ledger_phase(ledger), IMPMEM_PHASE_PLANNING);
    assert_non_null(strstr(s.line, "model swap"));
    assert_int_equal(last_record(ledger).detail, 1);
    assert_true(last_record(ledger).bytes == IMPMEM_PHASE_PLANNING);
    FAILS(impmem_ledger_replan_begin(ledger, "nested"), IMPMEM_ERR_STATE);
    FAILS(impmem_ledger_set_phase(ledger, IMPMEM_PHASE_SERVING, NULL), IMPMEM_ERR_STATE);
    OK(impmem_ledger_replan_end(ledger, NULL));
    assert_int_equal(impmem_ledger_phase(ledger), IMPMEM_PHASE_SERVING);
    assert_non_null(strstr(s.line, "model swap"));
    assert_int_equal(last_record(ledger).detail, 1);
    OK(impmem_ledger_replan_reason(ledger, 1, reason, sizeof reason));
    assert_string_equal(reason, "model swap");
    FAILS(impmem_ledger_replan_reason(ledger, 0, reason, sizeof reason), IMPMEM_ERR_NOT_FOUND);
    FAILS(impmem_ledger_replan_reason(ledger, 2, reason, sizeof reason), IMPMEM_ERR_NOT_FOUND);
    FAILS(impmem_ledger_replan_reason(ledger, 1, reason, 0), IMPMEM_ERR_INVALID_ARGUMENT);
    for (int i = 0; i < 16; i++) {
        OK(impmem_ledger_replan_begin(ledger,
                                      "a reason that is much longer than the sixty-three bytes that are kept of one"));
        OK(impmem_ledger_replan_end(ledger, NULL));
    }
    FAILS(impmem_ledger_replan_reason(ledger, 1, reason, sizeof reason), IMPMEM_ERR_NOT_FOUND);
    OK(impmem_ledger_replan_reason(ledger, 17, reason, sizeof reason));
    assert_int_equal(strlen(reason), 63);
    OK(impmem_ledger_destroy(ledger, NULL));
}

static void staging_that_survives_loading_is_named(void **state)
{
    (void)state;
    seen s = {0};
    impmem_ledger_options o = watched(&s, IMPMEM_SERVING_REFUSE);
    impmem_ledger *ledger = make_ledger(UINT64_MAX, &o);
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem__staging_link upload = {NULL, "weight upload"}, other = {NULL, "other"};
    OK(impmem__ledger_staging_add(ledger, &other));
    OK(impmem__ledger_staging_add(ledger, &upload));
    FAILS(impmem_ledger_set_phase(ledger, IMPMEM_PHASE_PLANNING, &why), IMPMEM_ERR_STAGING_LIVE);
    assert_string_equal(why.subject, "weight upload");
    assert_int_equal(impmem_ledger_phase(ledger), IMPMEM_PHASE_LOADING);
    assert_int_equal(s.violations, 1);
    assert_int_equal(s.last.rule, IMPMEM_ERR_STAGING_LIVE);
    impmem__ledger_staging_remove(ledger, &upload);
    FAILS(impmem_ledger_set_phase(ledger, IMPMEM_PHASE_PLANNING, &why), IMPMEM_ERR_STAGING_LIVE);
    assert_string_equal(why.subject, "other");
    assert_true(s.last.count == 2);
    impmem__ledger_staging_remove(ledger, &other);
    OK(impmem_ledger_set_phase(ledger, IMPMEM_PHASE_PLANNING, NULL));
    FAILS(impmem__ledger_staging_add(ledger, &upload), IMPMEM_ERR_PHASE_ORDER);
    FAILS(impmem__ledger_staging_add(ledger, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_ledger_destroy(ledger, NULL));
}

/* ---- guards ------------------------------------------------------------------------------------------------------ */

static void capture_nests_and_its_end_needs_a_beginning(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    void *memory = NULL;
    FAILS(impmem_ledger_capture_end(ledger), IMPMEM_ERR_STATE);
    FAILS(impmem_ledger_capture_end(NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_ledger_capture_begin(NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_ledger_capture_begin(ledger));
    OK(impmem_ledger_capture_begin(ledger));
    OK(impmem_ledger_capture_end(ledger));
    FAILS(impmem_ledger_host_allocate(ledger, IMPMEM_NO_LINE, IMPMEM_TAG_OTHER, 64, &memory, NULL), IMPMEM_ERR_CAPTURING);
    OK(impmem_ledger_capture_end(ledger));
    OK(impmem_ledger_host_allocate(ledger, IMPMEM_NO_LINE, IMPMEM_TAG_OTHER, 64, &memory, NULL));
    OK(impmem_ledger_capture_begin(ledger));
    impmem_ledger_host_free(ledger, IMPMEM_NO_LINE, IMPMEM_TAG_OTHER, memory, 64); /* reaches no driver */
    OK(impmem_ledger_capture_end(ledger));
    FAILS(impmem_ledger_capture_end(ledger), IMPMEM_ERR_STATE);
    assert_balanced(ledger);
    OK(impmem_ledger_destroy(ledger, NULL));
}

static void serving_acquisitions_are_counted_by_tag_under_both_policies(void **state)
{
    (void)state;
    static const impmem_serving_policy policies[] = {IMPMEM_SERVING_REFUSE, IMPMEM_SERVING_COUNT};
    for (int p = 0; p < 2; p++) {
        seen s = {0};
        impmem_ledger_options o = watched(&s, policies[p]);
        impmem_ledger *ledger = make_ledger(UINT64_MAX, &o);
        s.ledger = ledger;
        void *memory = NULL;
        impmem_error why = IMPMEM_ERROR_INIT;
        bool refuses = policies[p] == IMPMEM_SERVING_REFUSE;
        OK(impmem_ledger_set_phase(ledger, IMPMEM_PHASE_SERVING, NULL));
        impmem_status st = impmem_ledger_host_allocate(ledger, IMPMEM_LINE_HOST_CONTROL, IMPMEM_TAG_SNAPSHOTS, 100, &memory,
                                                       &why);
        assert_int_equal(st, refuses ? IMPMEM_ERR_SERVING : IMPMEM_OK);
        assert_int_equal(memory == NULL, refuses);
        assert_true(impmem_ledger_serving_acquisitions(ledger) == 1);
        assert_true(impmem_ledger_serving_acquisitions_of(ledger, IMPMEM_TAG_SNAPSHOTS) == 1);
        assert_true(impmem_ledger_serving_acquisitions_of(ledger, IMPMEM_TAG_OTHER) == 0);
        assert_true(impmem_ledger_serving_acquisitions_of(ledger, IMPMEM_N_TAGS) == 0);
        assert_int_equal(s.violations, 1);
        assert_int_equal(s.last.rule, IMPMEM_ERR_SERVING);
        assert_int_equal(s.last.tag, IMPMEM_TAG_SNAPSHOTS);
        assert_int_equal(s.last.line, IMPMEM_LINE_HOST_CONTROL);
        assert_true(s.last.bytes == 100 && s.last.count == 1);
        assert_non_null(strstr(s.line, refuses ? "refused" : "let through"));
        impmem_journal_record record = last_record(ledger);
        assert_int_equal(record.op, refuses ? IMPMEM_JOURNAL_REFUSED : IMPMEM_JOURNAL_ACQUIRE);
        assert_int_equal(record.status, st);
        assert_int_equal(record.phase, IMPMEM_PHASE_SERVING);
        if (refuses) assert_int_equal(why.status, IMPMEM_ERR_SERVING);
        impmem_ledger_host_free(ledger, IMPMEM_LINE_HOST_CONTROL, IMPMEM_TAG_SNAPSHOTS, memory, 100);
        OK(impmem_ledger_destroy(ledger, NULL));
    }
}

/* ---- charges and host memory ------------------------------------------------------------------------------------- */

static void charges_take_budget_to_the_byte(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(1000, NULL);
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_usage usage;
    FAILS(impmem_ledger_charge(ledger, LINE_CHARGE, 1001, &why), IMPMEM_ERR_BUDGET_EXCEEDED);
    assert_true(why.asked_bytes == 1001 && why.available_bytes == 1000 && why.line == LINE_CHARGE);
    assert_true(why.hint[0] != '\0');
    assert_int_equal(last_record(ledger).op, IMPMEM_JOURNAL_REFUSED);
    OK(impmem_ledger_charge(ledger, LINE_CHARGE, 600, NULL));
    OK(impmem_ledger_charge(ledger, LINE_A, 400, NULL));
    FAILS(impmem_ledger_charge(ledger, LINE_A, 1, NULL), IMPMEM_ERR_BUDGET_EXCEEDED);
    FAILS(impmem_ledger_charge(ledger, 7777, 1, &why), IMPMEM_ERR_UNPLANNED);
    FAILS(impmem_ledger_charge(NULL, LINE_A, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_ledger_charge(ledger, LINE_A, 0, NULL));
    OK(impmem_ledger_line_usage(ledger, LINE_CHARGE, &usage));
    assert_true(usage.committed_bytes == 600 && usage.planned_bytes == 16 * IMPMEM_MIB && usage.live_bytes == 600);
    FAILS(impmem_ledger_uncharge(ledger, LINE_CHARGE, 601), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_ledger_uncharge(ledger, 7777, 1), IMPMEM_ERR_UNPLANNED);
    FAILS(impmem_ledger_uncharge(NULL, LINE_A, 1), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_ledger_uncharge(ledger, LINE_CHARGE, 0));
    OK(impmem_ledger_uncharge(ledger, LINE_CHARGE, 600));
    assert_int_equal(last_record(ledger).op, IMPMEM_JOURNAL_UNCHARGE);
    OK(impmem_ledger_line_usage(ledger, LINE_CHARGE, &usage));
    assert_true(usage.committed_bytes == 0 && usage.committed_peak_bytes == 600 && usage.live_peak_bytes == 600);
    OK(impmem_ledger_charge(ledger, LINE_CHARGE, 600, NULL));
    assert_balanced(ledger);
    OK(impmem_ledger_destroy(ledger, NULL)); /* charges are nobody's memory: they hold nothing open */
}

static void a_charge_beyond_64_bits_is_an_overflow(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    OK(impmem_ledger_charge(ledger, LINE_CHARGE, UINT64_MAX - 5, NULL));
    FAILS(impmem_ledger_charge(ledger, LINE_CHARGE, 6, NULL), IMPMEM_ERR_OVERFLOW);
    OK(impmem_ledger_charge(ledger, LINE_CHARGE, 5, NULL));
    OK(impmem_ledger_destroy(ledger, NULL));
}

static void host_memory_is_zeroed_aligned_and_on_its_line(void **state)
{
    (void)state;
    fussy f = {0, 0, 0, 0};
    impmem_ledger_options o = IMPMEM_LEDGER_OPTIONS_INIT;
    o.allocator = (impmem_allocator){fussy_allocate, fussy_release, &f};
    impmem_ledger *ledger = make_ledger(UINT64_MAX, &o);
    uint64_t own = f.live_bytes;
    unsigned char *memory = NULL;
    impmem_usage usage;
    OK(impmem_ledger_host_allocate(ledger, IMPMEM_LINE_HOST_CONTROL, IMPMEM_TAG_KV_BLOCKS, 1000, (void **)&memory, NULL));
    assert_int_equal((uintptr_t)memory % 64, 0);
    for (int i = 0; i < 1000; i++) assert_int_equal(memory[i], 0);
    OK(impmem_ledger_line_usage(ledger, IMPMEM_LINE_HOST_CONTROL, &usage));
    assert_true(usage.committed_bytes == own + 1000 && usage.live_bytes == own + 1000);
    assert_true(f.live_bytes == own + 1000);
    impmem_ledger_tag_usage(ledger, IMPMEM_TAG_KV_BLOCKS, &usage);
    assert_true(usage.committed_bytes == 1000 && usage.planned_bytes == 64 * IMPMEM_MIB);
    impmem_error why = IMPMEM_ERROR_INIT;
    FAILS(impmem_ledger_destroy(ledger, &why), IMPMEM_ERR_LIVE_HOLDERS);
    assert_string_equal(why.subject, "control");
    impmem_ledger_host_free(ledger, IMPMEM_LINE_HOST_CONTROL, IMPMEM_TAG_KV_BLOCKS, memory, 1000);
    impmem_ledger_host_free(ledger, IMPMEM_LINE_HOST_CONTROL, IMPMEM_TAG_KV_BLOCKS, NULL, 1000);
    assert_true(f.live_bytes == own);
    assert_balanced(ledger);
    OK(impmem_ledger_destroy(ledger, NULL));
    assert_true(f.live == 0);
}

static void every_refusal_of_host_memory_is_typed_and_changes_nothing(void **state)
{
    (void)state;
    fussy f = {0, 0, 0, 0};
    plan p;
    uint64_t own;
    void *memory = NULL;
    impmem_ledger *ledger;
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_ledger_options o = IMPMEM_LEDGER_OPTIONS_INIT;
    o.allocator = (impmem_allocator){fussy_allocate, fussy_release, &f};
    make_plan(&p, UINT64_MAX);
    OK(impmem_control_ledger_bytes(5, 0, &own));
    p.lines.budget_bytes[IMPMEM_ACCOUNT_PAGEABLE] = own + 100;
    OK(impmem_ledger_create(&p.lines, &o, &ledger));
    FAILS(impmem_ledger_host_allocate(ledger, 0, IMPMEM_TAG_OTHER, 101, &memory, &why), IMPMEM_ERR_BUDGET_EXCEEDED);
    assert_true(why.available_bytes == 100);
    f.fail_at = f.calls + 1;
    FAILS(impmem_ledger_host_allocate(ledger, 0, IMPMEM_TAG_OTHER, 100, &memory, &why), IMPMEM_ERR_OUT_OF_HOST_MEMORY);
    assert_int_equal(last_record(ledger).op, IMPMEM_JOURNAL_REFUSED);
    assert_int_equal(last_record(ledger).line, IMPMEM_NO_LINE);
    FAILS(impmem_ledger_host_allocate(ledger, 0, IMPMEM_TAG_OTHER, UINT64_MAX, &memory, &why), IMPMEM_ERR_OVERFLOW);
    FAILS(impmem_ledger_host_allocate(ledger, 0, IMPMEM_TAG_OTHER, 0, &memory, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_ledger_host_allocate(ledger, 0, IMPMEM_N_TAGS, 1, &memory, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_ledger_host_allocate(NULL, 0, IMPMEM_TAG_OTHER, 1, &memory, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_ledger_host_allocate(ledger, 0, IMPMEM_TAG_OTHER, 1, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_null(memory);
    OK(impmem_ledger_host_allocate(ledger, 0, IMPMEM_TAG_OTHER, 100, &memory, NULL)); /* the whole budget is still there */
    assert_true(impmem_ledger_unplanned_bytes(ledger) == 100);
    FAILS(impmem_ledger_destroy(ledger, &why), IMPMEM_ERR_LIVE_HOLDERS);
    assert_string_equal(why.subject, "other");
    impmem_ledger_host_free(ledger, 0, IMPMEM_TAG_OTHER, memory, 100);
    assert_balanced(ledger);
    OK(impmem_ledger_destroy(ledger, NULL));
    assert_true(f.live == 0);
}

static void host_memory_freed_under_a_false_size_leaves_the_books_whole(void **state)
{
    (void)state;
    seen s = {0};
    impmem_ledger_options o = watched(&s, IMPMEM_SERVING_REFUSE);
    impmem_ledger *ledger = make_ledger(UINT64_MAX, &o);
    void *memory = NULL;
    OK(impmem_ledger_host_allocate(ledger, IMPMEM_NO_LINE, IMPMEM_TAG_SNAPSHOTS, 64, &memory, NULL));
    impmem_ledger_host_free(ledger, IMPMEM_NO_LINE, IMPMEM_N_TAGS, memory, 64); /* no such tag: not touched */
    assert_int_equal(s.lines, 0);
    impmem_ledger_host_free(ledger, IMPMEM_NO_LINE, IMPMEM_TAG_SNAPSHOTS, memory, 65); /* freed, but nothing is unbooked */
    assert_int_equal(s.lines, 1);
    assert_balanced(ledger);
    assert_true(impmem_ledger_unplanned_bytes(ledger) == 64);
    FAILS(impmem_ledger_destroy(ledger, NULL), IMPMEM_ERR_LIVE_HOLDERS);
    OK(impmem_ledger_host_allocate(ledger, IMPMEM_NO_LINE, IMPMEM_TAG_SNAPSHOTS, 36, &memory, NULL));
    impmem_ledger_host_free(ledger, IMPMEM_NO_LINE, IMPMEM_TAG_SNAPSHOTS, memory, 100); /* settles both */
    assert_balanced(ledger);
    OK(impmem_ledger_destroy(ledger, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ledgers_first_record_is_its_own_memory),
        cmocka_unit_test(without_a_plan_every_byte_is_unplanned),
        cmocka_unit_test(bad_lines_and_options_make_no_ledger),
        cmocka_unit_test(a_ledger_that_does_not_fit_its_own_budget_is_not_made),
        cmocka_unit_test(seed_and_clock_are_the_callers),
        cmocka_unit_test(phases_only_move_forward),
        cmocka_unit_test(a_replan_is_a_scoped_way_back_with_its_reason_at_both_edges),
        cmocka_unit_test(staging_that_survives_loading_is_named),
        cmocka_unit_test(capture_nests_and_its_end_needs_a_beginning),
        cmocka_unit_test(serving_acquisitions_are_counted_by_tag_under_both_policies),
        cmocka_unit_test(charges_take_budget_to_the_byte),
        cmocka_unit_test(a_charge_beyond_64_bits_is_an_overflow),
        cmocka_unit_test(host_memory_is_zeroed_aligned_and_on_its_line),
        cmocka_unit_test(every_refusal_of_host_memory_is_typed_and_changes_nothing),
        cmocka_unit_test(host_memory_freed_under_a_false_size_leaves_the_books_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
