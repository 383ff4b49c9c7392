/* The front of a backend: creation, acquire, reserve, release, shares, budget, guards, faults. */
#include "helpers.h"

#include "backend/hooks.h"

#define G ((uint64_t)4096)

static void an_acquired_region_is_rounded_booked_and_journalled(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_backend *backend = make_fake(ledger, G, false, NULL);
    impmem_acquire_info info = want(G + 1, LINE_A, IMPMEM_TAG_KV_BLOCKS);
    impmem_region *region = NULL;
    uint64_t object;
    OK(impmem_control_region_bytes(0, 2 * G, G, 0, &object));
    OK(impmem_backend_acquire(backend, &info, &region, NULL));
    assert_true(impmem_region_committed_bytes(region) == 2 * G && impmem_region_reserved_bytes(region) == 2 * G);
    assert_true(impmem_region_committed_prefix(region) == 2 * G);
    assert_true(impmem_region_id(region) == 1);
    assert_int_equal(impmem_region_tag(region), IMPMEM_TAG_KV_BLOCKS);
    assert_ptr_equal(impmem_region_backend(region), backend);
    assert_ptr_equal(impmem_backend_ledger(backend), ledger);
    assert_false(impmem_region_growable(region));
    assert_int_equal(impmem_backend_live_regions(backend), 1);
    memset(impmem_region_base(region), 1, (size_t)(2 * G));

    impmem_journal_record record = last_record(ledger), object_record;
    assert_int_equal(record.op, IMPMEM_JOURNAL_ACQUIRE);
    assert_true(record.bytes == 2 * G && record.region == 1 && record.line == LINE_A);
    assert_true(record.address == (uint64_t)(uintptr_t)impmem_region_base(region));
    OK(impmem_ledger_journal_read(ledger, record.sequence - 1, &object_record));
    assert_true(object_record.bytes == object && object_record.line == IMPMEM_LINE_HOST_CONTROL &&
                object_record.region == 1);

    impmem_usage usage;
    OK(impmem_ledger_line_usage(ledger, LINE_A, &usage));
    assert_true(usage.committed_bytes == 2 * G && usage.reserved_bytes == 2 * G && usage.live_bytes == 0);
    assert_true(usage.planned_bytes == 64 * IMPMEM_MIB);
    impmem_ledger_tag_usage(ledger, IMPMEM_TAG_KV_BLOCKS, &usage);
    assert_true(usage.committed_bytes == 2 * G);
    OK(impmem_backend_release(&region, NULL));
    assert_null(region);
    OK(impmem_ledger_line_usage(ledger, LINE_A, &usage));
    assert_true(usage.committed_bytes == 0 && usage.committed_peak_bytes == 2 * G && usage.reserved_bytes == 0);
    assert_true(impmem_ledger_unplanned_bytes(ledger) == 0);
    destroy_all(backend, ledger);
}

static void a_region_with_shares_writes_one_record_a_line(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_backend *backend = make_fake(ledger, G, false, NULL);
    impmem_line_share shares[3] = {{LINE_A, 100}, {LINE_B, G - 100}, {9999, G}};
    impmem_acquire_info info = want(2 * G, LINE_A, IMPMEM_TAG_ENGINE_PERSISTENT);
    impmem_region *region = NULL;
    impmem_usage usage;
    info.shares = shares;
    info.n_shares = 3;
    OK(impmem_backend_acquire(backend, &info, &region, NULL));
    uint64_t end = impmem_ledger_journal_end(ledger);
    for (uint64_t i = 0; i < 3; i++) {
        impmem_journal_record record;
        OK(impmem_ledger_journal_read(ledger, end - 3 + i, &record));
        assert_int_equal(record.op, IMPMEM_JOURNAL_ACQUIRE);
        assert_true(record.bytes == shares[i].bytes && record.region == impmem_region_id(region));
        assert_true(record.line == (i == 2 ? IMPMEM_NO_LINE : shares[i].line));
    }
    uint32_t n = 0;
    const impmem_line_share *kept = impmem__region_shares(region, &n);
    assert_int_equal(n, 3);
    assert_true(kept[0].bytes == 100 && kept[1].line == LINE_B && kept[2].line == IMPMEM_NO_LINE);
    OK(impmem_ledger_line_usage(ledger, LINE_B, &usage));
    assert_true(usage.committed_bytes == G - 100);
    assert_true(impmem_ledger_unplanned_bytes(ledger) == G);
    OK(impmem_backend_release(&region, NULL));
    OK(impmem_ledger_line_usage(ledger, LINE_A, &usage));
    assert_true(usage.committed_bytes == 0 && usage.committed_peak_bytes == 100);
    destroy_all(backend, ledger);
}

static void shares_that_do_not_add_up_are_refused(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_backend *backend = make_fake(ledger, G, true, NULL);
    impmem_line_share shares[2] = {{LINE_A, 100}, {LINE_B, 100}};
    impmem_acquire_info info = want(G, LINE_A, IMPMEM_TAG_OTHER);
    impmem_region *region = NULL;
    uint64_t records = impmem_ledger_journal_end(ledger);
    info.shares = shares;
    info.n_shares = 2;
    FAILS(impmem_backend_acquire(backend, &info, &region, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    shares[1].bytes = UINT64_MAX;
    FAILS(impmem_backend_acquire(backend, &info, &region, NULL), IMPMEM_ERR_OVERFLOW);
    shares[1] = (impmem_line_share){LINE_A, G - 100};
    FAILS(impmem_backend_acquire(backend, &info, &region, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    info.n_shares = 0;
    FAILS(impmem_backend_acquire(backend, &info, &region, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    info.shares = NULL;
    info.n_shares = 1;
    FAILS(impmem_backend_acquire(backend, &info, &region, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    shares[0].bytes = G;
    info.shares = shares;
    FAILS(impmem_backend_reserve(backend, &info, &region, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_true(impmem_ledger_journal_end(ledger) == records); /* bad arguments are no events */
    destroy_all(backend, ledger);
}

static void bad_arguments_open_no_region(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_backend *backend = make_fake(ledger, G, false, NULL);
    impmem_region *region = NULL;
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_acquire_info info = want(G, LINE_A, IMPMEM_TAG_OTHER), bad;
    FAILS(impmem_backend_acquire(NULL, &info, &region, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_backend_acquire(backend, NULL, &region, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_backend_acquire(backend, &info, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    bad = info;
    bad.version = 2;
    FAILS(impmem_backend_acquire(backend, &bad, &region, &why), IMPMEM_ERR_VERSION);
    bad = info;
    bad.size = 8;
    FAILS(impmem_backend_acquire(backend, &bad, &region, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    bad = info;
    bad.tag = IMPMEM_N_TAGS;
    FAILS(impmem_backend_acquire(backend, &bad, &region, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    bad = info;
    bad.bytes = 0;
    FAILS(impmem_backend_acquire(backend, &bad, &region, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    bad = info;
    bad.bytes = UINT64_MAX;
    FAILS(impmem_backend_acquire(backend, &bad, &region, &why), IMPMEM_ERR_OVERFLOW);
    bad = info;
    bad.alignment = 384;
    FAILS(impmem_backend_acquire(backend, &bad, &region, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    bad.alignment = 64;
    FAILS(impmem_backend_acquire(backend, &bad, &region, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_backend_reserve(backend, &info, &region, &why), IMPMEM_ERR_NOT_GROWABLE);
    assert_int_equal(last_record(ledger).status, IMPMEM_ERR_NOT_GROWABLE);
    assert_null(region);
    FAILS(impmem_backend_release(NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_backend_release(&region, NULL));
    OK(impmem_backend_destroy(NULL, NULL));
    bad = info;
    bad.size = bad.version = 0; /* zeroed: version 1 */
    OK(impmem_backend_acquire(backend, &bad, &region, NULL));
    OK(impmem_backend_release(&region, NULL));
    destroy_all(backend, ledger);
}

static void two_backends_spend_one_budget_to_the_byte(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(4 * G, NULL);
    impmem_backend *one = make_fake(ledger, G, false, NULL), *two = make_fake(ledger, G, true, NULL);
    impmem_acquire_info info = want(3 * G, LINE_A, IMPMEM_TAG_KV_BLOCKS);
    impmem_region *a = NULL, *b = NULL, *c = NULL;
    impmem_error why = IMPMEM_ERROR_INIT;
    OK(impmem_ledger_charge(ledger, LINE_CHARGE, G - 1, NULL));
    OK(impmem_backend_acquire(one, &info, &a, NULL));
    info.bytes = 1;
    FAILS(impmem_backend_acquire(two, &info, &b, &why), IMPMEM_ERR_BUDGET_EXCEEDED);
    assert_true(why.asked_bytes == G && why.available_bytes == 1 && why.line == LINE_A);
    assert_string_equal(why.subject, "kv_blocks");
    assert_int_equal(last_record(ledger).op, IMPMEM_JOURNAL_REFUSED);
    assert_int_equal(last_record(ledger).status, IMPMEM_ERR_BUDGET_EXCEEDED);
    assert_int_equal(impmem_backend_live_regions(two), 0);
    info.bytes = 10 * G;
    OK(impmem_backend_reserve(two, &info, &c, NULL)); /* address space takes none */
    FAILS(impmem_region_commit(c, 1, NULL, &why), IMPMEM_ERR_BUDGET_EXCEEDED);
    OK(impmem_ledger_uncharge(ledger, LINE_CHARGE, G - 1));
    OK(impmem_region_commit(c, 1, NULL, NULL));
    FAILS(impmem_region_commit(c, G + 1, NULL, NULL), IMPMEM_ERR_BUDGET_EXCEEDED);
    assert_true(committed_of(ledger, IMPMEM_ACCOUNT_DEVICE) == 4 * G);
    OK(impmem_backend_release(&a, NULL));
    OK(impmem_backend_release(&c, NULL));
    OK(impmem_backend_destroy(one, NULL));
    destroy_all(two, ledger);
}

static void refusal_at_every_step_leaves_everything_as_it_was(void **state)
{
    (void)state;
    for (int growable = 0; growable < 2; growable++) {
        fussy f = {0, 0, 0, 0};
        impmem_ledger_options o = IMPMEM_LEDGER_OPTIONS_INIT;
        impmem_fake *fake;
        impmem_region *region = NULL;
        impmem_error why = IMPMEM_ERROR_INIT;
        o.allocator = (impmem_allocator){fussy_allocate, fussy_release, &f};
        impmem_ledger *ledger = make_ledger(UINT64_MAX, &o);
        impmem_backend *backend = make_fake(ledger, G, growable, &fake);
        impmem_acquire_info info = want(3 * G, LINE_A, IMPMEM_TAG_SNAPSHOTS);
        uint64_t live = f.live_bytes, host = committed_of(ledger, IMPMEM_ACCOUNT_PAGEABLE);
        for (int step = 0; step < 2; step++) {
            uint64_t records = impmem_ledger_journal_end(ledger);
            impmem_status expected = step == 0 ? IMPMEM_ERR_OUT_OF_HOST_MEMORY : IMPMEM_ERR_OUT_OF_DEVICE_MEMORY;
            if (step == 0) f.fail_at = f.calls + 1;
            else impmem_fake_fail_nth(fake, 1, expected, IMPMEM_FAIL_ONCE);
            impmem_status st = growable ? impmem_backend_reserve(backend, &info, &region, &why)
                                        : impmem_backend_acquire(backend, &info, &region, &why);
            assert_int_equal(st, expected);
            assert_int_equal(why.status, expected);
            assert_true(why.message[0] != '\0');
            assert_null(region);
            assert_true(f.live_bytes == live && committed_of(ledger, IMPMEM_ACCOUNT_PAGEABLE) == host);
            assert_true(impmem_fake_held_bytes(fake) == 0 && impmem_backend_live_regions(backend) == 0);
            assert_true(impmem_ledger_journal_end(ledger) == records + 1);
            impmem_journal_record record = last_record(ledger);
            assert_int_equal(record.op, IMPMEM_JOURNAL_REFUSED);
            assert_int_equal(record.status, expected);
            assert_true(record.bytes == 3 * G);
        }
        f.fail_at = f.calls + 1;
        impmem_backend *second = NULL;
        impmem_fake_options fo = IMPMEM_FAKE_OPTIONS_INIT;
        FAILS(impmem_fake_backend_create(ledger, &fo, &second, NULL, &why), IMPMEM_ERR_OUT_OF_HOST_MEMORY);
        assert_null(second);
        destroy_all(backend, ledger);
        assert_true(f.live == 0);
    }
}

static void a_budget_for_control_memory_stops_regions_too(void **state)
{
    (void)state;
    plan p;
    impmem_ledger *ledger;
    uint64_t own, object, front;
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_region *region = NULL;
    make_plan(&p, UINT64_MAX);
    OK(impmem_control_ledger_bytes(5, 0, &own));
    OK(impmem_control_backend_bytes(&front));
    OK(impmem_control_region_bytes(0, G, G, 0, &object));
    p.lines.budget_bytes[IMPMEM_ACCOUNT_PAGEABLE] = own + front + 2 * object - 1;
    OK(impmem_ledger_create(&p.lines, NULL, &ledger));
    impmem_backend *backend = make_fake(ledger, G, false, NULL);
    impmem_acquire_info info = want(G, LINE_A, IMPMEM_TAG_OTHER);
    OK(impmem_backend_acquire(backend, &info, &region, NULL));
    impmem_region *second = NULL;
    FAILS(impmem_backend_acquire(backend, &info, &second, &why), IMPMEM_ERR_BUDGET_EXCEEDED);
    assert_string_equal(why.subject, "host_control");
    assert_true(why.asked_bytes == object && why.available_bytes == object - 1);
    assert_true(committed_of(ledger, IMPMEM_ACCOUNT_DEVICE) == G);
    OK(impmem_backend_release(&region, NULL));
    OK(impmem_backend_acquire(backend, &info, &second, NULL)); /* nothing of the refusal is still pending */
    OK(impmem_backend_release(&second, NULL));
    destroy_all(backend, ledger);
}

static void capturing_reaches_no_backend(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_fake *fake;
    impmem_backend *backend = make_fake(ledger, G, true, &fake);
    impmem_acquire_info info = want(4 * G, LINE_A, IMPMEM_TAG_KV_BLOCKS);
    impmem_region *region = NULL, *other = NULL;
    uint64_t committed = 0;
    OK(impmem_backend_reserve(backend, &info, &region, NULL));
    OK(impmem_region_commit(region, G, NULL, NULL));
    OK(impmem_ledger_capture_begin(ledger));
    uint64_t calls = impmem_fake_calls(fake);
    FAILS(impmem_backend_acquire(backend, &info, &other, NULL), IMPMEM_ERR_CAPTURING);
    FAILS(impmem_backend_reserve(backend, &info, &other, NULL), IMPMEM_ERR_CAPTURING);
    FAILS(impmem_region_commit(region, 2 * G, &committed, NULL), IMPMEM_ERR_CAPTURING);
    assert_true(committed == G);
    FAILS(impmem_region_commit_range(region, 2 * G, G, &committed, NULL), IMPMEM_ERR_CAPTURING);
    uint64_t records = impmem_ledger_journal_end(ledger);
    FAILS(impmem_region_decommit_range(region, 0, G, &committed, NULL), IMPMEM_ERR_CAPTURING);
    FAILS(impmem_backend_release(&region, NULL), IMPMEM_ERR_CAPTURING);
    assert_true(impmem_ledger_journal_end(ledger) == records); /* giving back is no acquisition that was refused */
    assert_non_null(region);
    assert_true(impmem_fake_calls(fake) == calls && impmem_fake_held_bytes(fake) == G);
    OK(impmem_ledger_capture_end(ledger));
    OK(impmem_backend_release(&region, NULL));
    destroy_all(backend, ledger);
}

static void serving_counts_regions_and_lets_planned_growth_pass(void **state)
{
    (void)state;
    static const impmem_serving_policy policies[] = {IMPMEM_SERVING_REFUSE, IMPMEM_SERVING_COUNT};
    for (int p = 0; p < 2; p++) {
        impmem_ledger_options o = IMPMEM_LEDGER_OPTIONS_INIT;
        o.serving = policies[p];
        impmem_ledger *ledger = make_ledger(UINT64_MAX, &o);
        impmem_backend *backend = make_fake(ledger, G, true, NULL);
        impmem_acquire_info planned = want(4 * G, LINE_A, IMPMEM_TAG_KV_BLOCKS);
        impmem_acquire_info unplanned = want(4 * G, IMPMEM_NO_LINE, IMPMEM_TAG_SNAPSHOTS);
        impmem_status expected = policies[p] == IMPMEM_SERVING_REFUSE ? IMPMEM_ERR_SERVING : IMPMEM_OK;
        impmem_region *a = NULL, *b = NULL, *c = NULL;
        OK(impmem_backend_reserve(backend, &planned, &a, NULL));
        OK(impmem_backend_reserve(backend, &unplanned, &b, NULL));
        OK(impmem_ledger_set_phase(ledger, IMPMEM_PHASE_SERVING, NULL));
        OK(impmem_region_commit(a, 2 * G, NULL, NULL));
        OK(impmem_region_commit(a, 2 * G, NULL, NULL)); /* nothing to do: not counted */
        OK(impmem_region_commit(a, G, NULL, NULL));
        assert_true(impmem_ledger_serving_commits(ledger) == 1 && impmem_ledger_serving_acquisitions(ledger) == 0);
        FAILS(impmem_region_commit(b, G, NULL, NULL), expected);
        assert_true(impmem_ledger_serving_acquisitions_of(ledger, IMPMEM_TAG_SNAPSHOTS) == 1);
        FAILS(impmem_backend_acquire(backend, &planned, &c, NULL), expected);
        assert_true(impmem_ledger_serving_acquisitions_of(ledger, IMPMEM_TAG_KV_BLOCKS) == 1);
        OK(impmem_backend_release(&c, NULL));
        FAILS(impmem_backend_reserve(backend, &planned, &c, NULL), expected);
        assert_true(impmem_ledger_serving_acquisitions(ledger) == 3);
        OK(impmem_backend_release(&a, NULL)); /* giving back is always right */
        OK(impmem_backend_release(&b, NULL));
        OK(impmem_backend_release(&c, NULL));
        destroy_all(backend, ledger);
    }
}

static void a_failed_release_leaves_the_region_to_be_tried_again(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_fake *fake;
    impmem_backend *backend = make_fake(ledger, G, false, &fake);
    impmem_acquire_info info = want(G, LINE_A, IMPMEM_TAG_OTHER);
    impmem_region *region = NULL;
    impmem_error why = IMPMEM_ERROR_INIT;
    OK(impmem_backend_acquire(backend, &info, &region, NULL));
    impmem_fake_fail_nth_release(fake, 1, IMPMEM_FAIL_ONCE);
    FAILS(impmem_backend_release(&region, &why), IMPMEM_ERR_DRIVER);
    assert_non_null(region);
    assert_true(impmem_fake_held_bytes(fake) == G && committed_of(ledger, IMPMEM_ACCOUNT_DEVICE) == G);
    assert_balanced(ledger);
    OK(impmem_backend_release(&region, NULL));
    destroy_all(backend, ledger);
}

static void what_is_still_held_is_named(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_backend *backend = make_fake(ledger, G, false, NULL);
    impmem_acquire_info info = want(G, LINE_B, IMPMEM_TAG_MODEL_RESIDENT);
    impmem_region *region = NULL;
    impmem_error why = IMPMEM_ERROR_INIT;
    OK(impmem_backend_acquire(backend, &info, &region, NULL));
    FAILS(impmem_backend_destroy(backend, &why), IMPMEM_ERR_LIVE_HOLDERS);
    assert_string_equal(why.subject, "model_resident");
    assert_int_equal(why.line, LINE_B);
    FAILS(impmem_ledger_destroy(ledger, &why), IMPMEM_ERR_LIVE_HOLDERS);
    assert_string_equal(why.subject, "model_resident");
    OK(impmem_backend_release(&region, NULL));
    FAILS(impmem_ledger_destroy(ledger, &why), IMPMEM_ERR_LIVE_HOLDERS); /* the backend object */
    assert_string_equal(why.subject, "control");
    destroy_all(backend, ledger);
}

/* ---- vtables ----------------------------------------------------------------------------------------------------- */

typedef struct odd {
    impmem_backend_properties properties;
    impmem_status query_status;
    void *base;
    int acquires, releases, destroyed;
} odd;

static impmem_status odd_acquire(void *self, uint64_t bytes, uint64_t alignment, void **out, impmem_error *why)
{
    odd *o = self;
    (void)bytes;
    (void)alignment;
    (void)why;
    o->acquires++;
    *out = o->base;
    return IMPMEM_OK;
}

static impmem_status odd_release(void *self, void *base, uint64_t bytes)
{
    (void)base;
    (void)bytes;
    ((odd *)self)->releases++;
    return IMPMEM_OK;
}

static impmem_status odd_commit(void *self, void *base, uint64_t offset, uint64_t length, uint64_t *achieved,
                                impmem_error *why)
{
    (void)self;
    (void)base;
    (void)offset;
    *achieved = 5 * length; /* nonsense */
    if (why) why->driver_code = 77;
    return IMPMEM_ERR_OUT_OF_DEVICE_MEMORY;
}

static impmem_status odd_decommit(void *self, void *base, uint64_t offset, uint64_t length)
{
    (void)self;
    (void)base;
    (void)offset;
    (void)length;
    return IMPMEM_OK;
}

static impmem_status odd_query(void *self, impmem_backend_properties *out)
{
    odd *o = self;
    if (o->query_status) return o->query_status;
    *out = o->properties;
    return IMPMEM_OK;
}

static void odd_destroy(void *self)
{
    ((odd *)self)->destroyed++;
}

static void make_odd(odd *o, impmem_backend_ops *ops)
{
    memset(o, 0, sizeof *o);
    o->properties.granule_bytes = G;
    o->properties.capacity_bytes = UINT64_MAX;
    o->properties.growable = true;
    memset(o->properties.name, 'x', sizeof o->properties.name);
    memset(ops, 0, sizeof *ops);
    ops->size = sizeof *ops;
    ops->version = 1;
    ops->acquire = ops->reserve = odd_acquire;
    ops->release = odd_release;
    ops->commit = odd_commit;
    ops->decommit = odd_decommit;
    ops->query = odd_query;
    ops->destroy = odd_destroy;
}

static void a_vtable_that_breaks_the_contract_makes_no_backend(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_backend *backend = NULL;
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_backend_ops ops;
    odd o;
    make_odd(&o, &ops);
    FAILS(impmem_backend_create(NULL, &ops, &o, &backend, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_backend_create(ledger, NULL, &o, &backend, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_backend_create(ledger, &ops, &o, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    ops.version = 2;
    FAILS(impmem_backend_create(ledger, &ops, &o, &backend, &why), IMPMEM_ERR_VERSION);
    ops.version = ops.size = 0;
    FAILS(impmem_backend_create(ledger, &ops, &o, &backend, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    make_odd(&o, &ops);
    ops.acquire = NULL;
    FAILS(impmem_backend_create(ledger, &ops, &o, &backend, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    make_odd(&o, &ops);
    ops.commit = NULL;
    FAILS(impmem_backend_create(ledger, &ops, &o, &backend, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    make_odd(&o, &ops);
    o.properties.granule_bytes = 0;
    FAILS(impmem_backend_create(ledger, &ops, &o, &backend, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    make_odd(&o, &ops);
    ops.reserve = NULL;
    ops.commit = NULL;
    ops.decommit = NULL; /* and yet it says growable */
    FAILS(impmem_backend_create(ledger, &ops, &o, &backend, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    make_odd(&o, &ops);
    o.query_status = IMPMEM_ERR_NO_DEVICE;
    FAILS(impmem_backend_create(ledger, &ops, &o, &backend, &why), IMPMEM_ERR_NO_DEVICE);
    assert_int_equal(o.destroyed, 0); /* self stays the caller's */
    assert_null(backend);
    OK(impmem_ledger_destroy(ledger, NULL));
}

static void a_backends_false_addresses_and_figures_are_caught(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_backend *backend = NULL;
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_backend_ops ops;
    impmem_backend_properties p;
    impmem_region *region = NULL;
    uint64_t committed = 0;
    odd o;
    make_odd(&o, &ops);
    OK(impmem_backend_create(ledger, &ops, &o, &backend, NULL));
    impmem_backend_query(backend, &p);
    assert_int_equal(strlen(p.name), sizeof p.name - 1);
    impmem_acquire_info info = want(4 * G, LINE_A, IMPMEM_TAG_OTHER);
    FAILS(impmem_backend_acquire(backend, &info, &region, &why), IMPMEM_ERR_DRIVER); /* NULL */
    assert_int_equal(o.releases, 0);
    o.base = (void *)(uintptr_t)0x10080;
    FAILS(impmem_backend_acquire(backend, &info, &region, &why), IMPMEM_ERR_DRIVER); /* not aligned to 256 */
    assert_int_equal(o.releases, 1);
    o.base = (void *)(uintptr_t)0x10000;
    OK(impmem_backend_reserve(backend, &info, &region, NULL));
    FAILS(impmem_region_commit(region, 2 * G, &committed, &why), IMPMEM_ERR_OUT_OF_DEVICE_MEMORY);
    assert_true(committed == 2 * G); /* never more than was asked */
    assert_true(why.driver_code == 77 && why.line == LINE_A && why.message[0] != '\0');
    OK(impmem_backend_release(&region, NULL));
    destroy_all(backend, ledger);
    assert_int_equal(o.destroyed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_acquired_region_is_rounded_booked_and_journalled),
        cmocka_unit_test(a_region_with_shares_writes_one_record_a_line),
        cmocka_unit_test(shares_that_do_not_add_up_are_refused),
        cmocka_unit_test(bad_arguments_open_no_region),
        cmocka_unit_test(two_backends_spend_one_budget_to_the_byte),
        cmocka_unit_test(refusal_at_every_step_leaves_everything_as_it_was),
        cmocka_unit_test(a_budget_for_control_memory_stops_regions_too),
        cmocka_unit_test(capturing_reaches_no_backend),
        cmocka_unit_test(serving_counts_regions_and_lets_planned_growth_pass),
        cmocka_unit_test(a_failed_release_leaves_the_region_to_be_tried_again),
        cmocka_unit_test(what_is_still_held_is_named),
        cmocka_unit_test(a_vtable_that_breaks_the_contract_makes_no_backend),
        cmocka_unit_test(a_backends_false_addresses_and_figures_are_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
