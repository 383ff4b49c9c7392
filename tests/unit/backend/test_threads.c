/* Several threads on one ledger: the budget is never exceeded, a capture waits for calls under way, nothing is lost. */
#define _GNU_SOURCE
#include "helpers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define G ((uint64_t)4096)

typedef struct worker {
    impmem_backend *backend;
    unsigned number;
    uint64_t refused;
    uint64_t succeeded;
    impmem_status unexpected;
} worker;

static void *churn(void *context)
{
    worker *w = context;
    for (unsigned i = 0; i < 400; i++) {
        impmem_region *region = NULL;
        impmem_acquire_info info = want(2 * G, w->number % 2 ? LINE_A : LINE_B, IMPMEM_TAG_KV_BLOCKS);
        bool grows = i % 2;
        impmem_status st = grows ? impmem_backend_reserve(w->backend, &info, &region, NULL)
                                 : impmem_backend_acquire(w->backend, &info, &region, NULL);
        if (!st && grows) st = impmem_region_commit(region, 2 * G, NULL, NULL);
        if (st == IMPMEM_ERR_BUDGET_EXCEEDED) w->refused++;
        else if (st) w->unexpected = st;
        else w->succeeded++;
        if (region && impmem_region_committed_bytes(region))
            memset(impmem_region_base(region), (int)w->number, (size_t)(2 * G));
        if (committed_of(impmem_backend_ledger(w->backend), IMPMEM_ACCOUNT_DEVICE) > 4 * G)
            w->unexpected = IMPMEM_ERR_OVERFLOW;
        st = impmem_backend_release(&region, NULL);
        if (st) w->unexpected = st;
    }
    return NULL;
}

/* Four threads, two backends, room for two of the four. */
static void four_threads_on_two_backends_never_exceed_one_budget(void **state)
{
    (void)state;
    impmem_ledger_options o = IMPMEM_LEDGER_OPTIONS_INIT;
    o.journal_records = 64;
    impmem_ledger *ledger = make_ledger(4 * G, &o);
    impmem_backend *backend[2] = {make_fake(ledger, G, true, NULL), make_fake(ledger, G, true, NULL)};
    worker w[4];
    pthread_t thread[4];
    impmem_usage usage;
    for (unsigned i = 0; i < 4; i++) {
        w[i] = (worker){backend[i % 2], i, 0, 0, IMPMEM_OK};
        assert_int_equal(pthread_create(&thread[i], NULL, churn, &w[i]), 0);
    }
    uint64_t succeeded = 0;
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        assert_int_equal(w[i].unexpected, IMPMEM_OK);
        assert_true(w[i].succeeded + w[i].refused == 400);
        succeeded += w[i].succeeded;
    }
    assert_true(succeeded > 0);
    impmem_ledger_account_usage(ledger, IMPMEM_ACCOUNT_DEVICE, &usage);
    assert_true(usage.committed_bytes == 0 && usage.committed_peak_bytes <= 4 * G && usage.reserved_bytes == 0);
    OK(impmem_backend_destroy(backend[0], NULL));
    destroy_all(backend[1], ledger);
}

/* ---- a backend whose acquire lasts until it is told to end ------------------------------------------------------- */

typedef struct slow {
    atomic_int entered;
    atomic_int may_go;
    unsigned char memory[8192];
} slow;

static void nap(void)
{
    struct timespec t = {0, 1000000};
    (void)nanosleep(&t, NULL);
}

static impmem_status slow_acquire(void *self, uint64_t bytes, uint64_t alignment, void **out, impmem_error *why)
{
    slow *s = self;
    (void)bytes;
    (void)why;
    atomic_store(&s->entered, 1);
    while (!atomic_load(&s->may_go)) nap();
    *out = s->memory + (-(uintptr_t)s->memory & (alignment - 1));
    return IMPMEM_OK;
}

static impmem_status slow_release(void *self, void *base, uint64_t bytes)
{
    (void)self;
    (void)base;
    (void)bytes;
    return IMPMEM_OK;
}

static impmem_status slow_query(void *self, impmem_backend_properties *out)
{
    (void)self;
    out->granule_bytes = 256;
    return IMPMEM_OK;
}

typedef struct acquirer {
    impmem_backend *backend;
    impmem_region *region;
    impmem_status status;
} acquirer;

static void *acquire_slowly(void *context)
{
    acquirer *a = context;
    impmem_acquire_info info = want(256, LINE_A, IMPMEM_TAG_OTHER);
    a->status = impmem_backend_acquire(a->backend, &info, &a->region, NULL);
    return NULL;
}

typedef struct capturer {
    impmem_ledger *ledger;
    atomic_int captured;
} capturer;

static void *capture(void *context)
{
    capturer *c = context;
    if (impmem_ledger_capture_begin(c->ledger) == IMPMEM_OK) atomic_store(&c->captured, 1);
    return NULL;
}

static void a_capture_begins_when_the_calls_under_way_have_ended(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    slow s;
    memset(&s, 0, sizeof s);
    impmem_backend_ops ops = {
        .size = sizeof ops, .version = 1, .acquire = slow_acquire, .release = slow_release, .query = slow_query};
    acquirer a = {NULL, NULL, IMPMEM_OK};
    capturer c = {ledger, 0};
    pthread_t acquiring, capturing;
    OK(impmem_backend_create(ledger, &ops, &s, &a.backend, NULL));
    assert_int_equal(pthread_create(&acquiring, NULL, acquire_slowly, &a), 0);
    while (!atomic_load(&s.entered)) nap();
    assert_int_equal(pthread_create(&capturing, NULL, capture, &c), 0);
    /* From the moment that the capture waits, nobody else gets in. */
    void *memory = NULL;
    impmem_status st = IMPMEM_OK;
    while (st != IMPMEM_ERR_CAPTURING) {
        st = impmem_ledger_host_allocate(ledger, IMPMEM_NO_LINE, IMPMEM_TAG_OTHER, 64, &memory, NULL);
        if (!st) impmem_ledger_host_free(ledger, IMPMEM_NO_LINE, IMPMEM_TAG_OTHER, memory, 64);
    }
    assert_int_equal(atomic_load(&c.captured), 0);
    atomic_store(&s.may_go, 1);
    assert_int_equal(pthread_join(acquiring, NULL), 0);
    assert_int_equal(pthread_join(capturing, NULL), 0);
    OK(a.status);
    assert_int_equal(atomic_load(&c.captured), 1);
    FAILS(impmem_backend_release(&a.region, NULL), IMPMEM_ERR_CAPTURING);
    OK(impmem_ledger_capture_end(ledger));
    OK(impmem_backend_release(&a.region, NULL));
    destroy_all(a.backend, ledger);
}

/* ---- one region grown by one thread and read by another ---------------------------------------------------------- */

typedef struct grower {
    impmem_region *region;
    impmem_status status;
    atomic_int done;
} grower;

static void *grow(void *context)
{
    grower *g = context;
    for (uint64_t i = 1; i <= 64 && !g->status; i++) g->status = impmem_region_commit(g->region, i * G, NULL, NULL);
    atomic_store(&g->done, 1);
    return NULL;
}

static void what_a_reader_sees_committed_may_be_used(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_backend *backend = make_fake(ledger, G, true, NULL);
    impmem_acquire_info info = want(64 * G, LINE_A, IMPMEM_TAG_KV_BLOCKS);
    grower g = {NULL, IMPMEM_OK, 0};
    pthread_t thread;
    OK(impmem_backend_reserve(backend, &info, &g.region, NULL));
    unsigned char *base = impmem_region_base(g.region);
    assert_int_equal(pthread_create(&thread, NULL, grow, &g), 0);
    uint64_t seen = 0;
    while (seen < 64 * G) {
        uint64_t prefix = impmem_region_committed_prefix(g.region);
        assert_true(prefix >= seen && prefix <= impmem_region_committed_bytes(g.region));
        for (; seen < prefix; seen += G) base[seen] = 1;
        if (atomic_load(&g.done) && g.status) break;
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    OK(g.status);
    assert_true(seen == 64 * G);
    OK(impmem_backend_release(&g.region, NULL));
    destroy_all(backend, ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_threads_on_two_backends_never_exceed_one_budget),
        cmocka_unit_test(a_capture_begins_when_the_calls_under_way_have_ended),
        cmocka_unit_test(what_a_reader_sees_committed_may_be_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
