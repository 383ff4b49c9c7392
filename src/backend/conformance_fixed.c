/* Conformance: what holds for every backend. */
#include <pthread.h>
#include <string.h>

#include "backend/conformance.h"
#include "impmem/bytes.h"

static bool properties_are_sane_and_constant(impmem__suite *s)
{
    impmem_backend_properties again;
    impmem_backend_query(s->backend, &again);
    IMPMEM__EXPECT(s,
                   again.granule_bytes == s->granule && again.account == s->properties.account &&
                       again.growable == s->properties.growable && again.host_accessible == s->properties.host_accessible,
                   "two backends of one kind differ in granule, account, growth or access");
    IMPMEM__EXPECT(s, again.name[0] != '\0', "the backend has no name");
    IMPMEM__EXPECT(s, impmem_backend_live_regions(s->backend) == 0, "a fresh backend has live regions");
    return true;
}

static bool a_region_is_whole_granules(impmem__suite *s)
{
    IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, 0, 1, 0), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, 1, s->granule + 1, 0), IMPMEM_OK);
    IMPMEM__EXPECT(s, impmem_region_committed_bytes(s->region[0]) == s->granule, "1 byte became %llu, the granule is %llu",
                   (unsigned long long)impmem_region_committed_bytes(s->region[0]), (unsigned long long)s->granule);
    IMPMEM__EXPECT(s, impmem_region_reserved_bytes(s->region[1]) == 2 * s->granule, "granule + 1 bytes became %llu",
                   (unsigned long long)impmem_region_reserved_bytes(s->region[1]));
    return true;
}

static bool alignment_is_honoured(impmem__suite *s)
{
    static const uint64_t alignments[] = {256, 512, 4096, 65536, 2 * IMPMEM_MIB};
    for (uint32_t i = 0; i < sizeof alignments / sizeof alignments[0]; i++) {
        impmem_status st = impmem__suite_acquire(s, i, 1, alignments[i]);
        /* Beyond the granule a backend may refuse, in so many words; it may not give something else. */
        if (alignments[i] > s->granule && st == IMPMEM_ERR_INVALID_ARGUMENT) continue;
        IMPMEM__EXPECT_STATUS(s, st, IMPMEM_OK);
        IMPMEM__EXPECT(s, (uintptr_t)impmem_region_base(s->region[i]) % alignments[i] == 0,
                       "base %p is not aligned to %llu", impmem_region_base(s->region[i]),
                       (unsigned long long)alignments[i]);
    }
    return true;
}

static bool senseless_requests_are_refused(impmem__suite *s)
{
    IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, 0, 0, 0), IMPMEM_ERR_INVALID_ARGUMENT);
    IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, 0, 1, 768), IMPMEM_ERR_INVALID_ARGUMENT);
    IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, 0, 1, 128), IMPMEM_ERR_INVALID_ARGUMENT);
    if (s->granule > 1) IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, 0, UINT64_MAX, 0), IMPMEM_ERR_OVERFLOW);
    return true;
}

static bool regions_do_not_overlap(impmem__suite *s)
{
    for (uint32_t i = 0; i < 6; i++) IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, i, s->granule, 0), IMPMEM_OK);
    for (uint32_t i = 0; i < 6; i++) {
        for (uint32_t j = 0; j < i; j++) {
            uintptr_t a = (uintptr_t)impmem_region_base(s->region[i]), b = (uintptr_t)impmem_region_base(s->region[j]);
            IMPMEM__EXPECT(s, (a > b ? a - b : b - a) >= s->granule, "regions %u and %u overlap", j, i);
        }
    }
    return true;
}

static bool every_byte_of_every_region_holds_data(impmem__suite *s)
{
    for (uint32_t i = 0; i < 4; i++) {
        IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, i, s->granule, 0), IMPMEM_OK);
        if (!impmem__suite_write(s, s->region[i], 0, s->granule, (int)(0x11 * (i + 1)))) return false;
    }
    for (uint32_t i = 0; i < 4; i++) {
        if (!impmem__suite_holds(s, s->region[i], 0, s->granule, (int)(0x11 * (i + 1)))) return false;
    }
    IMPMEM__EXPECT_STATUS(s, impmem_backend_release(&s->region[1], NULL), IMPMEM_OK);
    return impmem__suite_holds(s, s->region[0], 0, s->granule, 0x11) &&
           impmem__suite_holds(s, s->region[2], 0, s->granule, 0x33);
}

static bool release_gives_everything_back(impmem__suite *s)
{
    uint64_t before = impmem__suite_held(s);
    IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, 0, s->bytes, 0), IMPMEM_OK);
    IMPMEM__EXPECT(s, impmem__suite_held(s) >= before + s->bytes, "%llu bytes acquired, the account rose by %llu",
                   (unsigned long long)s->bytes, (unsigned long long)(impmem__suite_held(s) - before));
    IMPMEM__EXPECT(s, impmem_backend_live_regions(s->backend) == 1, "one region is live, the backend says %u",
                   impmem_backend_live_regions(s->backend));
    IMPMEM__EXPECT_STATUS(s, impmem_backend_release(&s->region[0], NULL), IMPMEM_OK);
    IMPMEM__EXPECT(s, s->region[0] == NULL, "release left the caller's pointer");
    IMPMEM__EXPECT(s, impmem__suite_held(s) == before, "%llu bytes are still held after release",
                   (unsigned long long)(impmem__suite_held(s) - before));
    return impmem__suite_balanced(s);
}

static bool released_memory_can_be_acquired_again(impmem__suite *s)
{
    uint32_t rounds = impmem__suite_rounds(s);
    for (uint32_t i = 0; i < rounds; i++) {
        IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, 0, s->bytes, 0), IMPMEM_OK);
        IMPMEM__EXPECT_STATUS(s, impmem_backend_release(&s->region[0], NULL), IMPMEM_OK);
    }
    return true;
}

static bool running_out_is_typed_and_changes_nothing(impmem__suite *s)
{
    impmem_status expected = s->properties.account == IMPMEM_ACCOUNT_PINNED     ? IMPMEM_ERR_OUT_OF_PINNED_MEMORY
                             : s->properties.account == IMPMEM_ACCOUNT_PAGEABLE ? IMPMEM_ERR_OUT_OF_HOST_MEMORY
                                                                                : IMPMEM_ERR_OUT_OF_DEVICE_MEMORY;
    uint64_t before = impmem__suite_held(s);
    IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, 0, s->properties.capacity_bytes + s->granule, 0), expected);
    IMPMEM__EXPECT(s, s->region[0] == NULL, "a refused acquisition wrote its out parameter");
    IMPMEM__EXPECT(s, impmem__suite_held(s) == before, "a refused acquisition holds bytes");
    IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, 0, s->bytes, 0), IMPMEM_OK);
    return impmem__suite_balanced(s);
}

/* The budget is four granules. */
static bool the_budget_holds_to_the_byte(impmem__suite *s)
{
    IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, 0, 4 * s->granule + 1, 0), IMPMEM_ERR_BUDGET_EXCEEDED);
    IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, 0, 3 * s->granule, 0), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, 1, s->granule, 0), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, 2, 1, 0), IMPMEM_ERR_BUDGET_EXCEEDED);
    IMPMEM__EXPECT(s, impmem__suite_held(s) == 4 * s->granule, "%llu bytes are held of a budget of %llu",
                   (unsigned long long)impmem__suite_held(s), (unsigned long long)(4 * s->granule));
    IMPMEM__EXPECT_STATUS(s, impmem_backend_release(&s->region[1], NULL), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, 2, 1, 0), IMPMEM_OK);
    return impmem__suite_balanced(s);
}

static bool two_backends_share_one_budget(impmem__suite *s)
{
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.line = IMPMEM__SUITE_LINE;
    info.bytes = 2 * s->granule;
    IMPMEM__EXPECT_STATUS(s, s->options->create(s->options->context, s->ledger, &s->second, NULL), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, 0, 3 * s->granule, 0), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, impmem_backend_acquire(s->second, &info, &s->region[1], NULL), IMPMEM_ERR_BUDGET_EXCEEDED);
    info.bytes = s->granule;
    IMPMEM__EXPECT_STATUS(s, impmem_backend_acquire(s->second, &info, &s->region[1], NULL), IMPMEM_OK);
    IMPMEM__EXPECT(s, impmem__suite_held(s) == 4 * s->granule, "the account holds %llu bytes",
                   (unsigned long long)impmem__suite_held(s));
    return true;
}

static bool nothing_is_touched_while_capturing(impmem__suite *s)
{
    IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, 0, s->granule, 0), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, impmem_ledger_capture_begin(s->ledger), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, 1, s->granule, 0), IMPMEM_ERR_CAPTURING);
    IMPMEM__EXPECT_STATUS(s, impmem_backend_release(&s->region[0], NULL), IMPMEM_ERR_CAPTURING);
    IMPMEM__EXPECT(s, s->region[0] != NULL && impmem_region_committed_bytes(s->region[0]) == s->granule,
                   "a release while capturing changed the region");
    IMPMEM__EXPECT_STATUS(s, impmem_ledger_capture_end(s->ledger), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, impmem_backend_release(&s->region[0], NULL), IMPMEM_OK);
    return true;
}

static bool serving_acquires_nothing(impmem__suite *s)
{
    IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, 0, s->granule, 0), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, impmem_ledger_set_phase(s->ledger, IMPMEM_PHASE_SERVING, NULL), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, 1, s->granule, 0), IMPMEM_ERR_SERVING);
    IMPMEM__EXPECT(s, impmem_ledger_serving_acquisitions(s->ledger) == 1, "the attempt was not counted once");
    return true;
}

static bool the_journal_agrees_after_every_step(impmem__suite *s)
{
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t slot = i * 5 % 3;
        if (s->region[slot]) IMPMEM__EXPECT_STATUS(s, impmem_backend_release(&s->region[slot], NULL), IMPMEM_OK);
        else IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, slot, (1 + i % 2) * s->granule, 0), IMPMEM_OK);
        if (!impmem__suite_balanced(s)) return false;
    }
    return true;
}

static bool a_backend_with_live_regions_stays(impmem__suite *s)
{
    IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, 0, s->granule, 0), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, impmem_backend_destroy(s->backend, NULL), IMPMEM_ERR_LIVE_HOLDERS);
    IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, 1, s->granule, 0), IMPMEM_OK);
    return true;
}

static bool a_fixed_region_does_not_grow(impmem__suite *s)
{
    uint64_t committed = 0;
    IMPMEM__EXPECT_STATUS(s, impmem__suite_acquire(s, 0, 2 * s->granule, 0), IMPMEM_OK);
    IMPMEM__EXPECT_STATUS(s, impmem_region_commit(s->region[0], s->granule, &committed, NULL), IMPMEM_ERR_NOT_GROWABLE);
    IMPMEM__EXPECT(s, committed == 2 * s->granule, "the committed bytes read %llu", (unsigned long long)committed);
    if (!s->properties.growable)
        IMPMEM__EXPECT_STATUS(s, impmem__suite_reserve(s, 1, s->granule, 0), IMPMEM_ERR_NOT_GROWABLE);
    return true;
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

typedef struct worker {
    impmem_backend *backend;
    uint64_t bytes;
    impmem_region *region; /* what a failed release left: the runner tries again */
    impmem_status status;
} worker;

static void *acquire_and_release(void *context)
{
    worker *w = context;
    for (uint32_t i = 0; i < 50 && !w->status; i++) {
        impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
        info.line = IMPMEM__SUITE_LINE;
        info.bytes = w->bytes;
        w->status = impmem_backend_acquire(w->backend, &info, &w->region, NULL);
        w->status = impmem_first_error(w->status, impmem_backend_release(&w->region, NULL));
    }
    return NULL;
}

static bool two_threads_may_call_at_once(impmem__suite *s)
{
    worker other = {s->backend, s->granule, NULL, IMPMEM_OK}, mine = other;
    pthread_t thread;
    IMPMEM__EXPECT(s, pthread_create(&thread, NULL, acquire_and_release, &other) == 0, "no thread for the check");
    (void)acquire_and_release(&mine);
    (void)pthread_join(thread, NULL);
    s->region[0] = mine.region;
    s->region[1] = other.region;
    IMPMEM__EXPECT_STATUS(s, impmem_first_error(mine.status, other.status), IMPMEM_OK);
    return impmem__suite_balanced(s);
}

#define CHECK(function, needs, budget)                                                                                     \
    {                                                                                                                      \
#function, needs, budget, function                                                                                 \
    }

const impmem__check impmem__fixed_checks[] = {
    CHECK(properties_are_sane_and_constant, 0, 0),
    CHECK(a_region_is_whole_granules, 0, 0),
    CHECK(alignment_is_honoured, 0, 0),
    CHECK(senseless_requests_are_refused, 0, 0),
    CHECK(regions_do_not_overlap, 0, 0),
    CHECK(every_byte_of_every_region_holds_data, IMPMEM__NEEDS_DATA, 0),
    CHECK(release_gives_everything_back, 0, 0),
    CHECK(released_memory_can_be_acquired_again, 0, 0),
    CHECK(running_out_is_typed_and_changes_nothing, IMPMEM__NEEDS_CAPACITY, 0),
    CHECK(the_budget_holds_to_the_byte, IMPMEM__NEEDS_OWN_BUDGET, 4),
    CHECK(two_backends_share_one_budget, IMPMEM__NEEDS_OWN_BUDGET, 4),
    CHECK(nothing_is_touched_while_capturing, 0, 0),
    CHECK(serving_acquires_nothing, 0, 0),
    CHECK(the_journal_agrees_after_every_step, 0, 0),
    CHECK(a_backend_with_live_regions_stays, 0, 0),
    CHECK(a_fixed_region_does_not_grow, 0, 0),
    CHECK(two_threads_may_call_at_once, 0, 0),
    {NULL, 0, 0, NULL},
};
