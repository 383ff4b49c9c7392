/* Conformance: what holds for backends that reserve, commit and decommit. `g` is the granule throughout. */
#include "backend/conformance.h"
#include "impmem/bytes.h"

static bool committed_is(impmem__suite *s, const impmem_region *region, uint64_t bytes, uint64_t prefix)
{
    uint64_t got = impmem_region_committed_bytes(region), got_prefix = impmem_region_committed_prefix(region);
    IMPMEM__EXPECT(s, got == bytes, "%llu bytes should be committed, %llu are", (unsigned long long)bytes,
                   (unsigned long long)got);
    IMPMEM__EXPECT(s, got_prefix == prefix, "the prefix should be %llu bytes, it is %llu", (unsigned long long)prefix,
                   (unsigned long long)got_prefix);
    return impmem__suite_balanced(s);
}

static impmem_status commit(impmem__suite *s, uint64_t target)
{
    return impmem_region_commit(s->region[0], target, NULL, NULL);
}

static impmem_status commit_range(impmem__suite *s, uint64_t offset, uint64_t length)
{
    return impmem_region_commit_range(s->region[0], offset, length, NULL, NULL);
}

static impmem_status decommit_range(impmem__suite *s, uint64_t offset, uint64_t length)
{
    return impmem_region_decommit_range(s->region[0], offset, length, NULL, NULL);
}

static bool a_reservation_holds_nothing(impmem__suite *s)
{
    uint64_t before = impmem__suite_held(s);
    bool pageable = s->properties.account == IMPMEM_ACCOUNT_PAGEABLE;
    IMPMEM__EXPECT_STATUS(s, impmem__suite_reserve(s, 0, s->bytes, 0), IMPMEM_OK);
    IMPMEM__EXPECT(s, pageable || impmem__suite_held(s) == before, "reserving took %llu bytes of the account",
                   (unsigned long long)(impmem__suite_held(s) - before));
    IMPMEM__EXPECT(s, impmem_region_reserved_bytes(s->region[0]) == s->bytes, "%llu bytes are reserved",
                   (unsigned long long)impmem_region_reserved_bytes(s->region[0]));
    return committed_is(s, s->region[0], 0, 0);
}

static bool a_reservation_is_aligned(impmem__suite *s)
{
    IMPMEM__EXPECT_STATUS(s, impmem__suite_reserve(s, 0, s->granule, 2 * IMPMEM_MIB), IMPMEM_OK);
    IMPMEM__EXPECT(s, (uintptr_t)impmem_region_base(s->region[0]) % (2 * IMPMEM_MIB) == 0,
                   "base %p is not aligned to 2 MiB", impmem_region_base(s->region[0]));
    return true;
}

static bool a_target_is_rounded_up_to_the_granule(impmem__suite *s)
{
    uint64_t g = s->granule;
    IMPMEM__EXPECT_STATUS(s, impmem__suite_reserve(s, 0, s->bytes, 0), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, commit(s, g + 1), IMPMEM_OK);
    if (!committed_is(s, s->region[0], 2 * g, 2 * g)) return false;
    IMPMEM__EXPECT_STATUS(s, commit(s, s->bytes + 1), IMPMEM_ERR_INVALID_ARGUMENT);
    return committed_is(s, s->region[0], 2 * g, 2 * g);
}

static bool the_base_never_moves(impmem__suite *s)
{
    IMPMEM__EXPECT_STATUS(s, impmem__suite_reserve(s, 0, s->bytes, 0), IMPMEM_OK);
    const void *base = impmem_region_base(s->region[0]);
    for (uint32_t i = 0; i < 24; i++) {
        uint64_t target = (uint64_t)(i * 7 % 9) * (s->bytes / 8);
        IMPMEM__EXPECT_STATUS(s, commit(s, target), IMPMEM_OK);
        IMPMEM__EXPECT(s, impmem_region_base(s->region[0]) == base, "the base moved from %p to %p", base,
                       impmem_region_base(s->region[0]));
    }
    return true;
}

static bool a_commit_touches_every_granule_of_its_range(impmem__suite *s)
{
    uint64_t g = s->granule;
    IMPMEM__EXPECT_STATUS(s, impmem__suite_reserve(s, 0, s->bytes, 0), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, commit_range(s, 2 * g - 1, 2), IMPMEM_OK);
    if (!committed_is(s, s->region[0], 2 * g, 0)) return false;
    IMPMEM__EXPECT_STATUS(s, commit_range(s, 0, 1), IMPMEM_OK);
    return committed_is(s, s->region[0], 3 * g, 3 * g);
}

static bool a_decommit_spares_granules_it_only_touches(impmem__suite *s)
{
    uint64_t g = s->granule;
    IMPMEM__EXPECT_STATUS(s, impmem__suite_reserve(s, 0, s->bytes, 0), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, commit(s, 6 * g), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, decommit_range(s, g + 1, g), IMPMEM_OK);
    if (!committed_is(s, s->region[0], 6 * g, 6 * g)) return false;
    IMPMEM__EXPECT_STATUS(s, decommit_range(s, g + 1, 3 * g - 1), IMPMEM_OK);
    return committed_is(s, s->region[0], 4 * g, 2 * g);
}

static bool committing_twice_changes_nothing(impmem__suite *s)
{
    uint64_t g = s->granule;
    IMPMEM__EXPECT_STATUS(s, impmem__suite_reserve(s, 0, s->bytes, 0), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, commit_range(s, g, 2 * g), IMPMEM_OK);
    uint64_t records = impmem_ledger_journal_end(s->ledger);
    IMPMEM__EXPECT_STATUS(s, commit_range(s, g, 2 * g), IMPMEM_OK);
    IMPMEM__EXPECT(s, impmem_ledger_journal_end(s->ledger) == records, "a commit of nothing left a record");
    IMPMEM__EXPECT_STATUS(s, decommit_range(s, 4 * g, g), IMPMEM_OK);
    return committed_is(s, s->region[0], 2 * g, 0);
}

static bool growing_fills_holes_and_shrinking_drops_islands(impmem__suite *s)
{
    uint64_t g = s->granule;
    IMPMEM__EXPECT_STATUS(s, impmem__suite_reserve(s, 0, s->bytes, 0), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, commit_range(s, g, g), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, commit_range(s, 3 * g, g), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, commit_range(s, 7 * g, g), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, commit(s, 5 * g), IMPMEM_OK);
    if (!committed_is(s, s->region[0], 5 * g, 5 * g)) return false;
    IMPMEM__EXPECT_STATUS(s, commit(s, 0), IMPMEM_OK);
    return committed_is(s, s->region[0], 0, 0);
}

static bool data_survives_growth(impmem__suite *s)
{
    uint64_t g = s->granule;
    IMPMEM__EXPECT_STATUS(s, impmem__suite_reserve(s, 0, s->bytes, 0), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, commit(s, g), IMPMEM_OK);
    if (!impmem__suite_write(s, s->region[0], 0, g, 0x5A)) return false;
    IMPMEM__EXPECT_STATUS(s, commit(s, s->bytes), IMPMEM_OK);
    if (!impmem__suite_holds(s, s->region[0], 0, g, 0x5A)) return false;
    return impmem__suite_write(s, s->region[0], g, s->bytes - g, 0xA5) && impmem__suite_holds(s, s->region[0], 0, g, 0x5A);
}

static bool data_survives_decommit_elsewhere(impmem__suite *s)
{
    uint64_t g = s->granule;
    IMPMEM__EXPECT_STATUS(s, impmem__suite_reserve(s, 0, s->bytes, 0), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, commit(s, 4 * g), IMPMEM_OK);
    if (!impmem__suite_write(s, s->region[0], 0, 4 * g, 0x3C)) return false;
    IMPMEM__EXPECT_STATUS(s, decommit_range(s, g, 2 * g), IMPMEM_OK);
    if (!impmem__suite_holds(s, s->region[0], 0, g, 0x3C) || !impmem__suite_holds(s, s->region[0], 3 * g, g, 0x3C))
        return false;
    IMPMEM__EXPECT_STATUS(s, commit(s, 4 * g), IMPMEM_OK);
    if (!impmem__suite_write(s, s->region[0], g, 2 * g, 0xC3)) return false;
    return impmem__suite_holds(s, s->region[0], 0, g, 0x3C) && impmem__suite_holds(s, s->region[0], 3 * g, g, 0x3C);
}

static bool decommitted_memory_comes_back(impmem__suite *s)
{
    IMPMEM__EXPECT_STATUS(s, impmem__suite_reserve(s, 0, s->bytes, 0), IMPMEM_OK);
    uint32_t rounds = impmem__suite_rounds(s);
    for (uint32_t i = 0; i < rounds; i++) {
        IMPMEM__EXPECT_STATUS(s, commit(s, s->bytes), IMPMEM_OK);
        IMPMEM__EXPECT_STATUS(s, decommit_range(s, 0, s->bytes), IMPMEM_OK);
    }
    return committed_is(s, s->region[0], 0, 0);
}

static bool released_reservations_come_back(impmem__suite *s)
{
    uint32_t rounds = impmem__suite_rounds(s);
    for (uint32_t i = 0; i < rounds; i++) {
        IMPMEM__EXPECT_STATUS(s, impmem__suite_reserve(s, 0, s->bytes, 0), IMPMEM_OK);
        IMPMEM__EXPECT_STATUS(s, commit(s, s->bytes / 2), IMPMEM_OK);
        IMPMEM__EXPECT_STATUS(s, impmem_backend_release(&s->region[0], NULL), IMPMEM_OK);
    }
    return impmem__suite_balanced(s);
}

/* A reservation larger than the device: whatever the failed commit says it achieved must fit. */
static bool a_failed_commit_tells_what_it_achieved(impmem__suite *s)
{
    uint64_t capacity = s->properties.capacity_bytes / s->granule * s->granule, committed = 0;
    IMPMEM__EXPECT_STATUS(s, impmem__suite_reserve(s, 0, capacity + s->bytes, 0), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, commit(s, s->granule), IMPMEM_OK);
    impmem_status st = impmem_region_commit(s->region[0], capacity + s->bytes, &committed, NULL);
    IMPMEM__EXPECT(s, st != IMPMEM_OK, "%llu bytes were committed of a capacity of %llu", (unsigned long long)committed,
                   (unsigned long long)capacity);
    IMPMEM__EXPECT(s, committed == impmem_region_committed_bytes(s->region[0]), "two figures for what was achieved");
    IMPMEM__EXPECT(s, committed <= capacity && committed >= s->granule,
                   "%llu bytes are said to be committed of a capacity of %llu", (unsigned long long)committed,
                   (unsigned long long)capacity);
    if (!impmem__suite_balanced(s)) return false;
    IMPMEM__EXPECT_STATUS(s, commit(s, 0), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, commit(s, s->bytes), IMPMEM_OK);
    return committed_is(s, s->region[0], s->bytes, s->bytes);
}

/* The budget is four granules. */
static bool commits_are_held_to_the_budget(impmem__suite *s)
{
    uint64_t g = s->granule;
    IMPMEM__EXPECT_STATUS(s, impmem__suite_reserve(s, 0, s->bytes, 0), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, commit(s, 5 * g), IMPMEM_ERR_BUDGET_EXCEEDED);
    if (!committed_is(s, s->region[0], 0, 0)) return false;
    IMPMEM__EXPECT_STATUS(s, commit(s, 4 * g), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, commit_range(s, 6 * g, g), IMPMEM_ERR_BUDGET_EXCEEDED);
    IMPMEM__EXPECT_STATUS(s, decommit_range(s, 0, g), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, commit_range(s, 6 * g, g), IMPMEM_OK);
    return committed_is(s, s->region[0], 4 * g, 0);
}

static bool growth_is_refused_while_capturing(impmem__suite *s)
{
    uint64_t g = s->granule;
    IMPMEM__EXPECT_STATUS(s, impmem__suite_reserve(s, 0, s->bytes, 0), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, commit(s, g), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, impmem_ledger_capture_begin(s->ledger), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, commit(s, 2 * g), IMPMEM_ERR_CAPTURING);
    IMPMEM__EXPECT_STATUS(s, commit_range(s, 3 * g, g), IMPMEM_ERR_CAPTURING);
    IMPMEM__EXPECT_STATUS(s, decommit_range(s, 0, g), IMPMEM_ERR_CAPTURING);
    IMPMEM__EXPECT_STATUS(s, impmem__suite_reserve(s, 1, g, 0), IMPMEM_ERR_CAPTURING);
    IMPMEM__EXPECT_STATUS(s, impmem_ledger_capture_end(s->ledger), IMPMEM_OK);
    return committed_is(s, s->region[0], g, g);
}

static bool planned_growth_goes_on_while_serving(impmem__suite *s)
{
    uint64_t g = s->granule;
    IMPMEM__EXPECT_STATUS(s, impmem__suite_reserve(s, 0, s->bytes, 0), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, impmem_ledger_set_phase(s->ledger, IMPMEM_PHASE_SERVING, NULL), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, commit(s, 2 * g), IMPMEM_OK);
    IMPMEM__EXPECT(s, impmem_ledger_serving_commits(s->ledger) == 1, "the commit was not counted as growth");
    IMPMEM__EXPECT(s, impmem_ledger_serving_acquisitions(s->ledger) == 0, "planned growth was counted as an acquisition");
    return committed_is(s, s->region[0], 2 * g, 2 * g);
}

#define CHECK(function, needs, budget)                                                                                     \
    {                                                                                                                      \
#function, IMPMEM__NEEDS_GROWTH | (needs), budget, function                                                        \
    }

const impmem__check impmem__growth_checks[] = {
    CHECK(a_reservation_holds_nothing, 0, 0),
    CHECK(a_reservation_is_aligned, 0, 0),
    CHECK(a_target_is_rounded_up_to_the_granule, 0, 0),
    CHECK(the_base_never_moves, 0, 0),
    CHECK(a_commit_touches_every_granule_of_its_range, 0, 0),
    CHECK(a_decommit_spares_granules_it_only_touches, 0, 0),
    CHECK(committing_twice_changes_nothing, 0, 0),
    CHECK(growing_fills_holes_and_shrinking_drops_islands, 0, 0),
    CHECK(data_survives_growth, IMPMEM__NEEDS_DATA, 0),
    CHECK(data_survives_decommit_elsewhere, IMPMEM__NEEDS_DATA, 0),
    CHECK(decommitted_memory_comes_back, 0, 0),
    CHECK(released_reservations_come_back, 0, 0),
    CHECK(a_failed_commit_tells_what_it_achieved, IMPMEM__NEEDS_CAPACITY, 0),
    CHECK(commits_are_held_to_the_budget, IMPMEM__NEEDS_OWN_BUDGET, 4),
    CHECK(growth_is_refused_while_capturing, 0, 0),
    CHECK(planned_growth_goes_on_while_serving, 0, 0),
    {NULL, 0, 0, NULL},
};
