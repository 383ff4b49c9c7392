/* "Thread-safe", as ledger.h and backend.h say of all their functions: everything at once, then the books are asked. */
#include "contract.h"

#include <pthread.h>
#include <stdatomic.h>

#include "impmem/block_pool.h"
#include "impmem/pinned.h"
#include "impmem/staging.h"

enum { ROUNDS = 2000 };

typedef struct shared {
    world w;
    impmem_region *grown; /* both growers change it */
    atomic_int left;      /* writers that still run */
    atomic_int wrong;     /* line of this file where something was, 0 = nowhere */
} shared;

static void note(shared *s, bool holds, int line)
{
    if (!holds) atomic_store(&s->wrong, line);
}

#define must(s, holds) note((s), (holds), __LINE__)
/* Refusals that another thread's capture or the budget may cause; anything else is wrong. */
#define may_refuse(s, st) note((s), is_refusal(st), __LINE__)

static bool is_refusal(impmem_status st)
{
    return !st || st == IMPMEM_ERR_CAPTURING || st == IMPMEM_ERR_BUDGET_EXCEEDED;
}

static void release_at_last(shared *s, impmem_region **region)
{
    impmem_status st = IMPMEM_ERR_CAPTURING;
    while (st == IMPMEM_ERR_CAPTURING) st = impmem_backend_release(region, NULL);
    must(s, !st && !*region);
}

static void *acquire(void *argument)
{
    shared *s = argument;
    for (unsigned i = 0; i < ROUNDS; i++) {
        impmem_region *region = NULL;
        impmem_error why = IMPMEM_ERROR_INIT;
        const impmem_acquire_info info = ask((uint64_t)GRANULE * (1 + i % 5), i % 3 ? LINE_A : IMPMEM_NO_LINE);
        const impmem_status st = impmem_backend_acquire(i % 2 ? s->w.fixed : s->w.growable, &info, &region, &why);
        may_refuse(s, st);
        must(s, why.status == st);
        if (!st) release_at_last(s, &region);
    }
    atomic_fetch_sub(&s->left, 1);
    return NULL;
}

static void *grow(void *argument)
{
    shared *s = argument;
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t committed = 0;
        may_refuse(s, impmem_region_commit(s->grown, (uint64_t)GRANULE * (i % 60), &committed, NULL));
        must(s, committed <= 64 * GRANULE);
        may_refuse(s, impmem_region_commit_range(s->grown, (uint64_t)GRANULE * (i * 7 % 60), GRANULE, NULL, NULL));
        may_refuse(s, impmem_region_decommit_range(s->grown, (uint64_t)GRANULE * (i * 11 % 60), 2 * GRANULE, NULL, NULL));
    }
    atomic_fetch_sub(&s->left, 1);
    return NULL;
}

static void *tables(void *argument)
{
    shared *s = argument;
    for (unsigned i = 0; i < ROUNDS; i++) {
        void *memory = NULL;
        impmem_pinned pinned = IMPMEM_PINNED_NONE;
        impmem_staging *staging = NULL;
        may_refuse(
            s, impmem_ledger_host_allocate(s->w.ledger, IMPMEM_LINE_HOST_CONTROL, IMPMEM_TAG_OTHER, 100, &memory, NULL));
        may_refuse(s, impmem_pinned_open(s->w.pinned, LINE_PINNED, 100, &pinned, NULL));
        may_refuse(s, impmem_staging_open(s->w.ledger, "part", LINE_STAGING, 100, &staging, NULL));
        const impmem_status charged = impmem_ledger_charge(s->w.ledger, LINE_B, 10, NULL);
        may_refuse(s, charged);
        impmem_ledger_host_free(s->w.ledger, IMPMEM_LINE_HOST_CONTROL, IMPMEM_TAG_OTHER, memory, 100);
        impmem_staging_close(&staging);
        must(s, charged || impmem_ledger_uncharge(s->w.ledger, LINE_B, 10) == IMPMEM_OK);
        impmem_status st = IMPMEM_ERR_CAPTURING;
        while (st == IMPMEM_ERR_CAPTURING) st = impmem_pinned_close(&pinned);
        must(s, !st);
    }
    atomic_fetch_sub(&s->left, 1);
    return NULL;
}

static void *capture(void *argument)
{
    shared *s = argument;
    do {
        must(s, !impmem_ledger_capture_begin(s->w.ledger));
        const uint64_t before = impmem_fake_calls(s->w.fixed_fake) + impmem_fake_calls(s->w.growable_fake);
        const uint64_t held = impmem_fake_held_bytes(s->w.fixed_fake) + impmem_fake_held_bytes(s->w.growable_fake);
        (void)impmem_ledger_journal_end(s->w.ledger);
        must(s, held == impmem_fake_held_bytes(s->w.fixed_fake) + impmem_fake_held_bytes(s->w.growable_fake));
        must(s, before == impmem_fake_calls(s->w.fixed_fake) + impmem_fake_calls(s->w.growable_fake));
        must(s, !impmem_ledger_capture_end(s->w.ledger));
    } while (atomic_load(&s->left) > 0);
    return NULL;
}

static impmem_status swallow(void *context, const char *text, size_t n)
{
    *(size_t *)context += text[0] ? n : 0;
    return IMPMEM_OK;
}

/* Every query, while the others write. */
static void *look(void *argument)
{
    shared *s = argument;
    size_t written = 0;
    do {
        impmem_usage usage;
        impmem_journal_record record;
        const impmem_ledger *ledger = s->w.ledger;
        for (unsigned a = 0; a < IMPMEM_N_ACCOUNTS; a++) {
            impmem_ledger_account_usage(ledger, (impmem_account)a, &usage);
            must(s, usage.committed_bytes <= usage.committed_peak_bytes);
            (void)impmem_ledger_journal_balance(ledger, (impmem_account)a);
        }
        impmem_ledger_tag_usage(ledger, IMPMEM_TAG_ENGINE_PERSISTENT, &usage);
        must(s, !impmem_ledger_line_usage(ledger, LINE_A, &usage));
        (void)impmem_ledger_journal_line_balance(ledger, LINE_A);
        (void)impmem_ledger_unplanned_bytes(ledger);
        (void)impmem_ledger_serving_acquisitions(ledger);
        (void)impmem_ledger_pinned_degradations(ledger);
        const impmem_status read = impmem_ledger_journal_read(ledger, impmem_ledger_journal_end(ledger) - 1, &record);
        must(s, !read || read == IMPMEM_ERR_NOT_FOUND);
        const impmem_status st = impmem_ledger_journal_write(ledger, swallow, &written);
        must(s, !st || st == IMPMEM_ERR_BUSY);
        must(s, impmem_region_committed_prefix(s->grown) <= impmem_region_reserved_bytes(s->grown));
        must(s, impmem_backend_live_regions(s->w.growable) >= 1);
        must(s, impmem_ledger_phase(ledger) == IMPMEM_PHASE_LOADING);
    } while (atomic_load(&s->left) > 0);
    return NULL;
}

static void everything_at_once_leaves_the_books_right(void **state)
{
    (void)state;
    shared s;
    memset(&s, 0, sizeof s);
    const impmem_line lines[] = {
        world_line(LINE_A, IMPMEM_ACCOUNT_DEVICE, IMPMEM_TAG_OTHER, "a"),
        world_line(LINE_B, IMPMEM_ACCOUNT_DEVICE, IMPMEM_TAG_CONTEXT, "b"),
        world_line(LINE_PINNED, IMPMEM_ACCOUNT_PINNED, IMPMEM_TAG_HOST_PINNED, "pinned"),
        world_line(LINE_STAGING, IMPMEM_ACCOUNT_PAGEABLE, IMPMEM_TAG_HOST_STAGING, "staging"),
        world_line(IMPMEM_LINE_HOST_CONTROL, IMPMEM_ACCOUNT_PAGEABLE, IMPMEM_TAG_HOST_CONTROL, "control"),
    };
    const impmem_lines plan = {lines, 5, {60 * GRANULE, UINT64_MAX, UINT64_MAX}};
    impmem_ledger_options options = IMPMEM_LEDGER_OPTIONS_INIT;
    options.journal_records = 64;
    OK(impmem_ledger_create(&plan, &options, &s.w.ledger));
    impmem_fake_options fake = IMPMEM_FAKE_OPTIONS_INIT;
    fake.granule_bytes = GRANULE;
    fake.backing = IMPMEM_FAKE_ADDRESS_ONLY;
    OK(impmem_fake_backend_create(s.w.ledger, &fake, &s.w.fixed, &s.w.fixed_fake, NULL));
    fake.growable = true;
    OK(impmem_fake_backend_create(s.w.ledger, &fake, &s.w.growable, &s.w.growable_fake, NULL));
    fake.growable = false;
    fake.account = IMPMEM_ACCOUNT_PINNED;
    OK(impmem_fake_backend_create(s.w.ledger, &fake, &s.w.pinned, &s.w.pinned_fake, NULL));
    s.grown = world_growable_region(&s.w, 64 * GRANULE, LINE_A);

    void *(*const run[])(void *) = {acquire, acquire, grow, grow, tables, capture, look};
    enum { THREADS = sizeof run / sizeof *run };
    pthread_t thread[THREADS];
    atomic_store(&s.left, 5);
    for (unsigned i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, run[i], &s), 0);
    for (unsigned i = 0; i < THREADS; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
    assert_int_equal(atomic_load(&s.wrong), 0);

    /* Nobody drops records any more: the journal can be written. */
    size_t written = 0;
    OK(impmem_ledger_journal_write(s.w.ledger, swallow, &written));
    assert_true(written > 0);
    assert_journal_agrees(s.w.ledger);
    assert_int_equal(device_bytes(s.w.ledger), impmem_region_committed_bytes(s.grown));
    assert_int_equal(impmem_fake_held_bytes(s.w.growable_fake), impmem_region_committed_bytes(s.grown));
    assert_int_equal(impmem_fake_held_bytes(s.w.fixed_fake), 0);
    assert_int_equal(impmem_fake_held_bytes(s.w.pinned_fake), 0);
    impmem_usage usage;
    impmem_ledger_account_usage(s.w.ledger, IMPMEM_ACCOUNT_DEVICE, &usage);
    assert_true(usage.committed_peak_bytes <= 60 * GRANULE);
    OK(impmem_backend_release(&s.grown, NULL));
    OK(impmem_backend_destroy(s.w.pinned, NULL));
    OK(impmem_backend_destroy(s.w.growable, NULL));
    OK(impmem_backend_destroy(s.w.fixed, NULL));
    OK(impmem_ledger_destroy(s.w.ledger, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_at_once_leaves_the_books_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
