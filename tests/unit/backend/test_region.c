/* Growing and shrinking: targets, ranges, partial failure, data, and the base that never moves. */
#include "helpers.h"

#define G ((uint64_t)4096)

typedef struct fixture {
    impmem_ledger *ledger;
    impmem_backend *backend;
    impmem_fake *fake;
    impmem_region *region;
} fixture;

static void open_fixture(fixture *f, uint64_t budget, uint64_t granules)
{
    memset(f, 0, sizeof *f);
    f->ledger = make_ledger(budget, NULL);
    f->backend = make_fake(f->ledger, G, true, &f->fake);
    impmem_acquire_info info = want(granules * G, LINE_A, IMPMEM_TAG_KV_BLOCKS);
    OK(impmem_backend_reserve(f->backend, &info, &f->region, NULL));
}

static void close_fixture(fixture *f)
{
    OK(impmem_backend_release(&f->region, NULL));
    assert_true(impmem_fake_held_bytes(f->fake) == 0);
    destroy_all(f->backend, f->ledger);
}

/* Committed bytes and prefix as region, fake, line and journal tell them. In granules. */
static void committed_is(const fixture *f, uint64_t granules, uint64_t prefix)
{
    impmem_usage usage;
    OK(impmem_ledger_line_usage(f->ledger, LINE_A, &usage));
    assert_true(impmem_region_committed_bytes(f->region) == granules * G);
    assert_true(impmem_region_committed_prefix(f->region) == prefix * G);
    assert_true(impmem_fake_held_bytes(f->fake) == granules * G);
    assert_true(usage.committed_bytes == granules * G);
    assert_balanced(f->ledger);
}

static void a_reservation_is_address_space_only(void **state)
{
    (void)state;
    fixture f;
    impmem_usage usage;
    open_fixture(&f, UINT64_MAX, 200);
    committed_is(&f, 0, 0);
    OK(impmem_ledger_line_usage(f.ledger, LINE_A, &usage));
    assert_true(usage.reserved_bytes == 200 * G);
    assert_true(impmem_region_growable(f.region));
    assert_int_equal(last_record(f.ledger).op, IMPMEM_JOURNAL_RESERVE);
    assert_true(last_record(f.ledger).bytes == 200 * G);
    OK(impmem_region_commit(f.region, 3 * G, NULL, NULL));
    uint64_t before = impmem_ledger_journal_end(f.ledger);
    OK(impmem_backend_release(&f.region, NULL));
    impmem_journal_record record;
    OK(impmem_ledger_journal_read(f.ledger, before, &record));
    assert_int_equal(record.op, IMPMEM_JOURNAL_DECOMMIT);
    assert_true(record.bytes == 3 * G);
    OK(impmem_ledger_journal_read(f.ledger, before + 1, &record));
    assert_int_equal(record.op, IMPMEM_JOURNAL_UNRESERVE);
    close_fixture(&f);
}

static void targets_grow_shrink_fill_holes_and_drop_islands(void **state)
{
    (void)state;
    fixture f;
    uint64_t out = 1;
    open_fixture(&f, UINT64_MAX, 200);
    OK(impmem_region_commit(f.region, 5 * G + 1, &out, NULL));
    assert_true(out == 6 * G);
    committed_is(&f, 6, 6);
    OK(impmem_region_decommit_range(f.region, G, 2 * G, &out, NULL));
    assert_true(out == 4 * G);
    committed_is(&f, 4, 1);
    OK(impmem_region_commit_range(f.region, 150 * G, 10 * G, NULL, NULL));
    committed_is(&f, 14, 1);
    uint64_t calls = impmem_fake_calls(f.fake);
    OK(impmem_region_commit(f.region, 100 * G, &out, NULL));
    assert_true(impmem_fake_calls(f.fake) ==
                calls + 2); /* two holes, two calls: the committed runs are not asked for again */
    committed_is(&f, 100, 100);
    OK(impmem_region_commit(f.region, 0, &out, NULL));
    committed_is(&f, 0, 0);
    OK(impmem_region_commit(f.region, 200 * G, NULL, NULL));
    committed_is(&f, 200, 200);
    close_fixture(&f);
}

static void ranges_round_out_to_commit_and_in_to_decommit(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, UINT64_MAX, 64);
    OK(impmem_region_commit_range(f.region, 2 * G - 1, 2, NULL, NULL));
    committed_is(&f, 2, 0);
    OK(impmem_region_commit_range(f.region, G, 0, NULL, NULL));
    OK(impmem_region_commit_range(f.region, G + 5, 0, NULL, NULL));
    committed_is(&f, 2, 0);
    OK(impmem_region_decommit_range(f.region, G + 1, 2 * G - 2, NULL, NULL)); /* touches two, holds none whole */
    committed_is(&f, 2, 0);
    OK(impmem_region_decommit_range(f.region, G + 1, 2 * G - 1, NULL, NULL));
    committed_is(&f, 1, 0);
    OK(impmem_region_commit_range(f.region, 63 * G, G, NULL, NULL));
    committed_is(&f, 2, 0);
    close_fixture(&f);
}

static void ranges_outside_the_reservation_are_refused(void **state)
{
    (void)state;
    fixture f;
    uint64_t out = 1;
    impmem_error why = IMPMEM_ERROR_INIT;
    open_fixture(&f, UINT64_MAX, 8);
    FAILS(impmem_region_commit(f.region, 8 * G + 1, &out, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_true(out == 0);
    FAILS(impmem_region_commit_range(f.region, 7 * G, G + 1, &out, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_region_commit_range(f.region, UINT64_MAX, 2, &out, &why), IMPMEM_ERR_OVERFLOW);
    FAILS(impmem_region_decommit_range(f.region, 7 * G, G + 1, &out, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_region_decommit_range(f.region, UINT64_MAX, 2, &out, &why), IMPMEM_ERR_OVERFLOW);
    out = 1;
    FAILS(impmem_region_commit(NULL, 0, &out, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_region_commit_range(NULL, 0, 1, &out, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_region_decommit_range(NULL, 0, 1, &out, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_true(out == 0);
    impmem_acquire_info info = want(G, LINE_A, IMPMEM_TAG_OTHER);
    impmem_region *fixed = NULL;
    OK(impmem_backend_acquire(f.backend, &info, &fixed, NULL));
    FAILS(impmem_region_commit(fixed, G, &out, &why), IMPMEM_ERR_NOT_GROWABLE);
    assert_true(out == G);
    FAILS(impmem_region_commit_range(fixed, 0, G, NULL, &why), IMPMEM_ERR_NOT_GROWABLE);
    FAILS(impmem_region_decommit_range(fixed, 0, G, NULL, &why), IMPMEM_ERR_NOT_GROWABLE);
    OK(impmem_backend_release(&fixed, NULL));
    close_fixture(&f);
}

/* The fake backs floor(length / 2) of a commit that it fails. */
static void what_a_failed_commit_achieved_is_published_everywhere(void **state)
{
    (void)state;
    fixture f;
    uint64_t out = 0;
    impmem_error why = IMPMEM_ERROR_INIT;
    open_fixture(&f, UINT64_MAX, 16);
    impmem_fake_fail_nth(f.fake, 1, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, IMPMEM_FAIL_ONCE);
    FAILS(impmem_region_commit(f.region, 7 * G, &out, &why), IMPMEM_ERR_OUT_OF_DEVICE_MEMORY);
    assert_true(out == 3 * G); /* 7 / 2 */
    assert_true(why.asked_bytes == 7 * G && why.line == LINE_A);
    committed_is(&f, 3, 3);
    impmem_journal_record refused = last_record(f.ledger), commit;
    assert_int_equal(refused.op, IMPMEM_JOURNAL_REFUSED);
    assert_true(refused.bytes == 4 * G && refused.status == IMPMEM_ERR_OUT_OF_DEVICE_MEMORY);
    OK(impmem_ledger_journal_read(f.ledger, refused.sequence - 1, &commit));
    assert_int_equal(commit.op, IMPMEM_JOURNAL_COMMIT);
    assert_true(commit.bytes == 3 * G);
    OK(impmem_region_commit(f.region, 7 * G, &out, NULL));
    committed_is(&f, 7, 7);
    close_fixture(&f);
}

static void a_failure_in_any_run_keeps_the_runs_before_it(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 3; n++) {
        fixture f;
        uint64_t out = 0;
        open_fixture(&f, UINT64_MAX, 16);
        OK(impmem_region_commit_range(f.region, 2 * G, G, NULL, NULL));
        OK(impmem_region_commit_range(f.region, 5 * G, G, NULL, NULL)); /* holes: [0,2) [3,5) [6,10) */
        impmem_fake_fail_nth(f.fake, n, IMPMEM_ERR_DRIVER, IMPMEM_FAIL_ONCE);
        FAILS(impmem_region_commit(f.region, 10 * G, &out, NULL), IMPMEM_ERR_DRIVER);
        static const uint64_t achieved[] = {1, 2 + 1, 2 + 2 + 2}, prefix[] = {1, 4, 8};
        committed_is(&f, 2 + achieved[n - 1], prefix[n - 1]);
        assert_true(out == (2 + achieved[n - 1]) * G);
        close_fixture(&f);
    }
}

static void a_failed_decommit_keeps_what_was_given_back_before_it(void **state)
{
    (void)state;
    fixture f;
    uint64_t out = 0;
    open_fixture(&f, UINT64_MAX, 16);
    OK(impmem_region_commit(f.region, 8 * G, NULL, NULL));
    OK(impmem_region_decommit_range(f.region, 3 * G, G, NULL, NULL)); /* runs: [0,3) [4,8) */
    impmem_fake_fail_nth_release(f.fake, 2, IMPMEM_FAIL_ONCE);
    FAILS(impmem_region_commit(f.region, 0, &out, NULL), IMPMEM_ERR_DRIVER);
    assert_true(out == 4 * G);
    committed_is(&f, 4, 0);
    OK(impmem_region_commit(f.region, 0, NULL, NULL));
    close_fixture(&f);
}

static void a_commit_over_budget_commits_and_drops_nothing(void **state)
{
    (void)state;
    fixture f;
    impmem_error why = IMPMEM_ERROR_INIT;
    open_fixture(&f, 6 * G, 32);
    OK(impmem_region_commit_range(f.region, 20 * G, 4 * G, NULL, NULL));
    FAILS(impmem_region_commit(f.region, 7 * G, NULL, &why), IMPMEM_ERR_BUDGET_EXCEEDED);
    assert_true(why.asked_bytes == 7 * G && why.available_bytes == 6 * G);
    committed_is(&f, 4, 0);                                /* the island is still there */
    OK(impmem_region_commit(f.region, 6 * G, NULL, NULL)); /* fits once the island is gone */
    committed_is(&f, 6, 6);
    close_fixture(&f);
}

/* Growth tenfold and back, with islands: the address is a promise. */
static void the_base_is_the_same_through_tenfold_growth(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, UINT64_MAX, 640);
    unsigned char *base = impmem_region_base(f.region);
    OK(impmem_region_commit(f.region, 64 * G, NULL, NULL));
    memset(base, 0x42, (size_t)(64 * G));
    for (uint64_t granules = 128; granules <= 640; granules += 64) {
        OK(impmem_region_commit(f.region, granules * G, NULL, NULL));
        assert_ptr_equal(impmem_region_base(f.region), base);
        assert_int_equal(base[0], 0x42);
        assert_int_equal(base[64 * G - 1], 0x42);
        memset(base + (granules - 1) * G, 0x24, (size_t)G);
    }
    OK(impmem_region_decommit_range(f.region, 64 * G, 512 * G, NULL, NULL));
    OK(impmem_region_commit(f.region, 640 * G, NULL, NULL));
    assert_ptr_equal(impmem_region_base(f.region), base);
    assert_int_equal(base[639 * G], 0x24);
    for (uint64_t i = 0; i < 63 * G; i += 511) assert_int_equal(base[i], 0x42);
    committed_is(&f, 640, 640);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reservation_is_address_space_only),
        cmocka_unit_test(targets_grow_shrink_fill_holes_and_drop_islands),
        cmocka_unit_test(ranges_round_out_to_commit_and_in_to_decommit),
        cmocka_unit_test(ranges_outside_the_reservation_are_refused),
        cmocka_unit_test(what_a_failed_commit_achieved_is_published_everywhere),
        cmocka_unit_test(a_failure_in_any_run_keeps_the_runs_before_it),
        cmocka_unit_test(a_failed_decommit_keeps_what_was_given_back_before_it),
        cmocka_unit_test(a_commit_over_budget_commits_and_drops_nothing),
        cmocka_unit_test(the_base_is_the_same_through_tenfold_growth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
