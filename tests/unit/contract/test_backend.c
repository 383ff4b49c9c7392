/* impmem/backend.h and fake.h: regions, as the headers promise them. */
#include "contract.h"

#include "impmem/arena.h"
#include "impmem/block_pool.h"
#include "impmem/scratch.h"

static void null_arguments_and_newer_structs_are_refused_with_a_reason(void **state)
{
    (void)state;
    world w;
    impmem_error why;
    impmem_region *region = NULL;
    impmem_backend *backend = NULL;
    uint64_t committed = 77;
    world_open(&w, GRANULE);
    impmem_acquire_info info = ask(GRANULE, LINE_A);
    REFUSED(impmem_backend_acquire(NULL, &info, &region, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_backend_acquire(w.fixed, NULL, &region, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_backend_acquire(w.fixed, &info, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_backend_reserve(NULL, &info, &region, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_backend_reserve(w.growable, NULL, &region, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_backend_reserve(w.growable, &info, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_backend_release(NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_backend_release(&region, &why)); /* *region is NULL */
    REFUSED(impmem_region_commit(NULL, 1, &committed, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_region_commit_range(NULL, 0, 1, &committed, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_region_decommit_range(NULL, 0, 1, &committed, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    info.version = 2;
    REFUSED(impmem_backend_acquire(w.fixed, &info, &region, &why), IMPMEM_ERR_VERSION);
    REFUSED(impmem_backend_reserve(w.growable, &info, &region, &why), IMPMEM_ERR_VERSION);
    impmem_fake_options o = IMPMEM_FAKE_OPTIONS_INIT;
    o.version = 2;
    REFUSED(impmem_fake_backend_create(w.ledger, &o, &backend, NULL, &why), IMPMEM_ERR_VERSION);
    REFUSED(impmem_fake_backend_create(NULL, NULL, &backend, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_fake_backend_create(w.ledger, NULL, NULL, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_backend_create(w.ledger, NULL, NULL, &backend, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_null(region);
    assert_null(backend);
    OK(impmem_backend_destroy(NULL, NULL));
    world_close(&w);
}

/* A zeroed struct means version 1 with defaults: tag OTHER and line id 0, which the plan does not have. */
static void a_zeroed_acquire_info_is_version_one(void **state)
{
    (void)state;
    world w;
    impmem_acquire_info info;
    impmem_region *region = NULL;
    world_open(&w, GRANULE);
    memset(&info, 0, sizeof info);
    info.bytes = 1;
    OK(impmem_backend_acquire(w.fixed, &info, &region, NULL));
    assert_int_equal(impmem_region_committed_bytes(region), GRANULE);
    assert_int_equal(impmem_region_reserved_bytes(region), GRANULE);
    assert_int_equal(impmem_ledger_unplanned_bytes(w.ledger), GRANULE);
    assert_int_equal((uintptr_t)impmem_region_base(region) % 256, 0);
    OK(impmem_backend_release(&region, NULL));
    world_close(&w);
}

static void sizes_and_alignments_at_the_edge_of_64_bits_are_typed(void **state)
{
    (void)state;
    world w;
    impmem_error why;
    impmem_region *region = NULL;
    world_open(&w, GRANULE);
    const world_figures before = world_look(&w);
    impmem_acquire_info info = ask(UINT64_MAX, LINE_A);
    REFUSED(impmem_backend_acquire(w.fixed, &info, &region, &why), IMPMEM_ERR_OVERFLOW);
    REFUSED(impmem_backend_reserve(w.growable, &info, &region, &why), IMPMEM_ERR_OVERFLOW);
    info.bytes = UINT64_MAX - GRANULE + 1; /* a multiple: no overflow, but nobody has it */
    why = (impmem_error)IMPMEM_ERROR_INIT;
    assert_true(impmem_backend_acquire(w.fixed, &info, &region, &why) != IMPMEM_OK);
    assert_true(why.status != IMPMEM_OK);
    assert_int_equal(why.asked_bytes, info.bytes);
    info = ask(0, LINE_A);
    REFUSED(impmem_backend_acquire(w.fixed, &info, &region, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_backend_reserve(w.growable, &info, &region, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    const uint64_t bad[] = {1, 2, 128, 257, 768, UINT64_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        info = ask(GRANULE, LINE_A);
        info.alignment = bad[i];
        REFUSED(impmem_backend_acquire(w.fixed, &info, &region, &why), IMPMEM_ERR_INVALID_ARGUMENT);
        REFUSED(impmem_backend_reserve(w.growable, &info, &region, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    }
    info = ask(GRANULE, LINE_A);
    info.alignment = (uint64_t)1 << 63;
    assert_true(impmem_backend_acquire(w.fixed, &info, &region, &why) != IMPMEM_OK);
    info = ask(GRANULE, LINE_A);
    info.tag = (impmem_tag)IMPMEM_N_TAGS;
    REFUSED(impmem_backend_acquire(w.fixed, &info, &region, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_null(region);
    assert_same_figures(before, world_look(&w));
    assert_int_equal(impmem_backend_live_regions(w.fixed), 0);
    assert_journal_agrees(w.ledger);
    world_close(&w);
}

static void every_legal_alignment_is_kept_by_either_way_of_opening(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    for (uint64_t alignment = 256; alignment <= 64 * IMPMEM_MIB; alignment *= 4) {
        impmem_region *region = NULL;
        impmem_acquire_info info = ask(3 * GRANULE, LINE_A);
        info.alignment = alignment;
        OK(impmem_backend_acquire(w.fixed, &info, &region, NULL));
        assert_int_equal((uintptr_t)impmem_region_base(region) % alignment, 0);
        OK(impmem_backend_release(&region, NULL));
        OK(impmem_backend_reserve(w.growable, &info, &region, NULL));
        assert_int_equal((uintptr_t)impmem_region_base(region) % alignment, 0);
        OK(impmem_backend_release(&region, NULL));
    }
    world_close(&w);
}

/* One byte over the budget is a granule over it, and the refusal says what was asked and what is left. */
static void the_budget_is_kept_to_the_byte_with_the_figures_in_why(void **state)
{
    (void)state;
    impmem_line line = world_line(LINE_A, IMPMEM_ACCOUNT_DEVICE, IMPMEM_TAG_OTHER, "a");
    const impmem_lines lines = {&line, 1, {8 * GRANULE - 1, UINT64_MAX, UINT64_MAX}};
    impmem_fake_options o = IMPMEM_FAKE_OPTIONS_INIT;
    impmem_ledger *ledger = NULL;
    impmem_backend *backend = NULL;
    impmem_region *region = NULL, *second = NULL;
    impmem_error why;
    uint64_t committed = 0;
    OK(impmem_ledger_create(&lines, NULL, &ledger));
    o.granule_bytes = GRANULE;
    o.growable = true;
    OK(impmem_fake_backend_create(ledger, &o, &backend, NULL, NULL));
    impmem_acquire_info info = ask(7 * GRANULE + 1, LINE_A);
    REFUSED(impmem_backend_acquire(backend, &info, &region, &why), IMPMEM_ERR_BUDGET_EXCEEDED);
    assert_int_equal(why.asked_bytes, 8 * GRANULE);
    assert_int_equal(why.available_bytes, 8 * GRANULE - 1);
    assert_int_equal(why.line, LINE_A);
    info = ask(5 * GRANULE, LINE_A);
    OK(impmem_backend_acquire(backend, &info, &region, NULL));
    /* Reserving takes no budget, committing does. */
    info = ask(1000 * GRANULE, LINE_A);
    OK(impmem_backend_reserve(backend, &info, &second, NULL));
    REFUSED(impmem_region_commit(second, 3 * GRANULE, &committed, &why), IMPMEM_ERR_BUDGET_EXCEEDED);
    assert_int_equal(committed, 0);
    REFUSED(impmem_region_commit_range(second, 7, 2 * GRANULE, &committed, &why), IMPMEM_ERR_BUDGET_EXCEEDED);
    assert_int_equal(committed, 0);
    OK(impmem_region_commit(second, 2 * GRANULE, &committed, NULL));
    assert_int_equal(committed, 2 * GRANULE);
    REFUSED(impmem_ledger_charge(ledger, LINE_A, GRANULE, &why), IMPMEM_ERR_BUDGET_EXCEEDED);
    OK(impmem_ledger_charge(ledger, LINE_A, GRANULE - 1, &why));
    /* Moving the committed part over takes no more than there is. */
    OK(impmem_region_decommit_range(second, 0, GRANULE, &committed, NULL));
    OK(impmem_region_commit_range(second, 999 * GRANULE, 1, &committed, NULL));
    assert_int_equal(committed, 2 * GRANULE);
    assert_int_equal(impmem_region_committed_prefix(second), 0);
    OK(impmem_region_commit(second, 2 * GRANULE, &committed, NULL)); /* the island goes, the holes are filled */
    assert_int_equal(impmem_region_committed_prefix(second), 2 * GRANULE);
    assert_int_equal(committed, 2 * GRANULE);
    OK(impmem_backend_release(&second, NULL));
    OK(impmem_backend_release(&region, NULL));
    OK(impmem_backend_destroy(backend, NULL));
    assert_journal_agrees(ledger);
    OK(impmem_ledger_destroy(ledger, NULL));
}

static void ranges_at_the_edges_of_a_reservation(void **state)
{
    (void)state;
    world w;
    impmem_error why;
    uint64_t committed = 0;
    world_open(&w, GRANULE);
    impmem_region *region = world_growable_region(&w, 10 * GRANULE, LINE_A);
    REFUSED(impmem_region_commit(region, 10 * GRANULE + 1, &committed, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_region_committed_bytes(region), 0);
    why = (impmem_error)IMPMEM_ERROR_INIT;
    assert_true(impmem_region_commit(region, UINT64_MAX, &committed, &why) != IMPMEM_OK);
    REFUSED(impmem_region_commit_range(region, UINT64_MAX, 2, &committed, &why), IMPMEM_ERR_OVERFLOW);
    REFUSED(impmem_region_commit_range(region, 2, UINT64_MAX, &committed, &why), IMPMEM_ERR_OVERFLOW);
    REFUSED(impmem_region_decommit_range(region, UINT64_MAX, UINT64_MAX, &committed, &why), IMPMEM_ERR_OVERFLOW);
    REFUSED(impmem_region_commit_range(region, 10 * GRANULE, 1, &committed, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_region_decommit_range(region, 9 * GRANULE, GRANULE + 1, &committed, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_region_commit_range(region, 10 * GRANULE, 0, &committed, NULL));
    OK(impmem_region_commit_range(region, 5, 0, &committed, NULL));
    assert_int_equal(committed, 0);
    /* The last byte alone takes the last granule; committing it again takes nothing. */
    OK(impmem_region_commit_range(region, 10 * GRANULE - 1, 1, &committed, NULL));
    assert_int_equal(committed, GRANULE);
    OK(impmem_region_commit_range(region, 9 * GRANULE, GRANULE, &committed, NULL));
    assert_int_equal(committed, GRANULE);
    /* One byte less than a granule decommits nothing; two bytes over the border commit two. */
    OK(impmem_region_decommit_range(region, 9 * GRANULE, GRANULE - 1, &committed, NULL));
    OK(impmem_region_decommit_range(region, 9 * GRANULE + 1, GRANULE - 1, &committed, NULL));
    assert_int_equal(committed, GRANULE);
    OK(impmem_region_commit_range(region, GRANULE - 1, 2, &committed, NULL));
    assert_int_equal(committed, 3 * GRANULE);
    assert_int_equal(impmem_region_committed_prefix(region), 2 * GRANULE);
    OK(impmem_region_commit(region, 1, &committed, NULL)); /* shrinks to one granule, drops the island */
    assert_int_equal(committed, GRANULE);
    OK(impmem_region_commit(region, 0, &committed, NULL));
    assert_int_equal(committed, 0);
    assert_int_equal(device_bytes(w.ledger), 0);
    OK(impmem_backend_release(&region, NULL));
    /* A fixed region does not grow, not even by nothing. */
    region = world_region(&w, GRANULE, LINE_A);
    REFUSED(impmem_region_commit(region, GRANULE, &committed, &why), IMPMEM_ERR_NOT_GROWABLE);
    assert_int_equal(committed, GRANULE);
    REFUSED(impmem_region_commit_range(region, 0, 1, &committed, &why), IMPMEM_ERR_NOT_GROWABLE);
    REFUSED(impmem_region_decommit_range(region, 0, GRANULE, &committed, &why), IMPMEM_ERR_NOT_GROWABLE);
    impmem_region *other = NULL;
    const impmem_acquire_info info = ask(GRANULE, LINE_A);
    REFUSED(impmem_backend_reserve(w.fixed, &info, &other, &why), IMPMEM_ERR_NOT_GROWABLE);
    assert_null(other);
    OK(impmem_backend_release(&region, NULL));
    world_close(&w);
}

/* Each kind of tier allocator keeps every other one and the release out. */
static void a_region_has_one_allocator_at_a_time_whatever_its_kind(void **state)
{
    (void)state;
    world w;
    impmem_error why;
    world_open(&w, GRANULE);
    for (unsigned first = 0; first < 3; first++) {
        impmem_region *region = world_region(&w, 4 * GRANULE, LINE_A);
        impmem_arena *arena[2] = {NULL, NULL};
        impmem_scratch *scratch[2] = {NULL, NULL};
        impmem_block_pool *pool[2] = {NULL, NULL};
        impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
        o.region = region;
        o.stride_bytes = GRANULE;
        o.blocks = 4;
        if (first == 0) OK(impmem_arena_open(region, IMPMEM_TIER_MODEL, &arena[0], NULL));
        if (first == 1) OK(impmem_scratch_open(region, &scratch[0], NULL));
        if (first == 2) OK(impmem_block_pool_open(w.ledger, &o, &pool[0], NULL));
        const world_figures before = world_look(&w);
        REFUSED(impmem_arena_open(region, IMPMEM_TIER_ENGINE, &arena[1], &why), IMPMEM_ERR_BUSY);
        REFUSED(impmem_scratch_open(region, &scratch[1], &why), IMPMEM_ERR_BUSY);
        REFUSED(impmem_block_pool_open(w.ledger, &o, &pool[1], &why), IMPMEM_ERR_BUSY);
        impmem_region *handle = region;
        REFUSED(impmem_backend_release(&handle, &why), IMPMEM_ERR_BUSY);
        assert_ptr_equal(handle, region);
        assert_same_figures(before, world_look(&w));
        assert_null(arena[1]);
        assert_null(scratch[1]);
        assert_null(pool[1]);
        impmem_arena_close(&arena[0]);
        OK(impmem_scratch_close(&scratch[0], NULL));
        OK(impmem_block_pool_close(&pool[0], NULL));
        OK(impmem_backend_release(&region, NULL));
    }
    world_close(&w);
}

/* Ids are unique in the ledger, whatever backend the region is of, and never come again. */
static void region_ids_rise_and_are_never_reused(void **state)
{
    (void)state;
    world w;
    uint64_t last = 0;
    world_open(&w, GRANULE);
    for (unsigned i = 0; i < 30; i++) {
        impmem_region *region = i % 2 ? world_region(&w, GRANULE, LINE_A) : world_growable_region(&w, GRANULE, LINE_C);
        assert_true(impmem_region_id(region) > last);
        last = impmem_region_id(region);
        OK(impmem_backend_release(&region, NULL));
        assert_null(region);
    }
    world_close(&w);
}

/* A commit at any step that the fake refuses leaves the sums right, and a second try from there gets everything. */
static void a_commit_that_fails_anywhere_can_be_tried_again(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 4; n++) {
        world w;
        impmem_error why = IMPMEM_ERROR_INIT;
        uint64_t committed = 0;
        world_open(&w, GRANULE);
        impmem_region *region = world_growable_region(&w, 64 * GRANULE, LINE_A);
        /* Three islands, so that filling up takes four calls. */
        for (uint64_t i = 0; i < 3; i++)
            OK(impmem_region_commit_range(region, (10 + 15 * i) * GRANULE, GRANULE, NULL, NULL));
        impmem_fake_fail_nth(w.growable_fake, n, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, IMPMEM_FAIL_ONCE);
        REFUSED(impmem_region_commit_range(region, 0, 64 * GRANULE, &committed, &why), IMPMEM_ERR_OUT_OF_DEVICE_MEMORY);
        assert_true(committed >= 3 * GRANULE && committed < 64 * GRANULE);
        assert_int_equal(committed, impmem_region_committed_bytes(region));
        assert_int_equal(committed, impmem_fake_held_bytes(w.growable_fake));
        assert_int_equal(committed, device_bytes(w.ledger));
        assert_journal_agrees(w.ledger);
        OK(impmem_region_commit_range(region, 0, 64 * GRANULE, &committed, NULL));
        assert_int_equal(committed, 64 * GRANULE);
        memset(impmem_region_base(region), 1, 64 * GRANULE);
        OK(impmem_backend_release(&region, NULL));
        world_close(&w);
    }
}

/* A violation counts an acquisition, whatever came of it; growth is counted when there was some. */
static void refused_growth_is_no_growth(void **state)
{
    (void)state;
    world w;
    impmem_error why;
    uint64_t committed = 0;
    world_open(&w, GRANULE);
    impmem_region *region = world_growable_region(&w, 8 * GRANULE, LINE_A);
    OK(impmem_ledger_set_phase(w.ledger, IMPMEM_PHASE_SERVING, NULL));
    OK(impmem_region_commit(region, GRANULE, &committed, NULL));
    assert_int_equal(impmem_ledger_serving_commits(w.ledger), 1);
    OK(impmem_region_commit(region, GRANULE, &committed, NULL));
    assert_int_equal(impmem_ledger_serving_commits(w.ledger), 1);
    impmem_fake_fail_nth(w.growable_fake, 1, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, IMPMEM_FAIL_ONCE);
    REFUSED(impmem_region_commit(region, 2 * GRANULE, &committed, &why), IMPMEM_ERR_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(committed, GRANULE);
    assert_int_equal(impmem_ledger_serving_commits(w.ledger), 1);
    assert_int_equal(impmem_ledger_serving_acquisitions(w.ledger), 0);
    OK(impmem_backend_release(&region, NULL));
    world_close(&w);
}

/* 140 GiB of weights and a terabyte of address space open on a laptop. */
static void an_address_only_fake_holds_what_no_laptop_has(void **state)
{
    (void)state;
    impmem_fake_options o = IMPMEM_FAKE_OPTIONS_INIT;
    impmem_ledger *ledger = NULL;
    impmem_backend *backend = NULL;
    impmem_fake *fake = NULL;
    impmem_region *big = NULL, *grown = NULL;
    OK(impmem_ledger_create(NULL, NULL, &ledger));
    o.growable = true;
    o.backing = IMPMEM_FAKE_ADDRESS_ONLY;
    OK(impmem_fake_backend_create(ledger, &o, &backend, &fake, NULL));
    impmem_acquire_info info = ask(140 * IMPMEM_GIB, IMPMEM_NO_LINE);
    OK(impmem_backend_acquire(backend, &info, &big, NULL));
    info = ask(1024 * IMPMEM_GIB, IMPMEM_NO_LINE);
    OK(impmem_backend_reserve(backend, &info, &grown, NULL));
    void *base = impmem_region_base(grown);
    for (uint64_t gib = 1; gib <= 1024; gib *= 4) {
        OK(impmem_region_commit(grown, gib * IMPMEM_GIB, NULL, NULL));
        assert_ptr_equal(impmem_region_base(grown), base);
        assert_int_equal(impmem_fake_held_bytes(fake), (140 + gib) * IMPMEM_GIB);
    }
    assert_false(impmem_fake_is_poisoned(fake, impmem_region_base(big), 1));
    const char *a = impmem_region_base(big), *b = base;
    assert_true(a + 140 * IMPMEM_GIB <= b || b + 1024 * IMPMEM_GIB <= a);
    OK(impmem_backend_release(&grown, NULL));
    OK(impmem_backend_release(&big, NULL));
    assert_int_equal(impmem_fake_held_bytes(fake), 0);
    OK(impmem_backend_destroy(backend, NULL));
    OK(impmem_ledger_destroy(ledger, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_arguments_and_newer_structs_are_refused_with_a_reason),
        cmocka_unit_test(a_zeroed_acquire_info_is_version_one),
        cmocka_unit_test(sizes_and_alignments_at_the_edge_of_64_bits_are_typed),
        cmocka_unit_test(every_legal_alignment_is_kept_by_either_way_of_opening),
        cmocka_unit_test(the_budget_is_kept_to_the_byte_with_the_figures_in_why),
        cmocka_unit_test(ranges_at_the_edges_of_a_reservation),
        cmocka_unit_test(a_region_has_one_allocator_at_a_time_whatever_its_kind),
        cmocka_unit_test(region_ids_rise_and_are_never_reused),
        cmocka_unit_test(a_commit_that_fails_anywhere_can_be_tried_again),
        cmocka_unit_test(refused_growth_is_no_growth),
        cmocka_unit_test(an_address_only_fake_holds_what_no_laptop_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
