/* The conformance suite: the fake passes in every shape, and each planted fault is caught by the check that is meant for
 * it. */
#include "helpers.h"

#include <pthread.h>
#include <stdio.h>

#include "impmem/conformance.h"

#define G ((uint64_t)4096)

typedef struct verdicts {
    unsigned passed;
    unsigned failed;
    char first_failed[64];
    char failed_names[1024];
    char detail[256];
} verdicts;

typedef struct bench {
    impmem_fake_options fake;
    verdicts seen;
    int fault;
    bool address_only_io; /* fill and read that pretend */
} bench;

static void report(void *context, const char *check, bool passed, const char *detail)
{
    verdicts *v = &((bench *)context)->seen;
    if (passed) {
        v->passed++;
        assert_string_equal(detail, "");
        return;
    }
    assert_string_not_equal(detail, "");
    if (v->failed++ == 0) {
        (void)snprintf(v->first_failed, sizeof v->first_failed, "%s", check);
        (void)snprintf(v->detail, sizeof v->detail, "%s", detail);
    }
    size_t n = strlen(v->failed_names);
    (void)snprintf(v->failed_names + n, sizeof v->failed_names - n, "%s ", check);
}

static impmem_status create_fake(void *context, impmem_ledger *ledger, impmem_backend **out, impmem_error *why)
{
    return impmem_fake_backend_create(ledger, &((bench *)context)->fake, out, NULL, why);
}

static impmem_conformance_options suite_of(bench *b)
{
    impmem_conformance_options o = IMPMEM_CONFORMANCE_OPTIONS_INIT;
    o.create = create_fake;
    o.context = b;
    o.report = report;
    return o;
}

static void the_fake_passes_in_every_shape(void **state)
{
    (void)state;
    /* A page, sixteen pages, and less than a page. Larger ones only take longer. */
    static const uint64_t granules[] = {4096, 65536, 256};
    for (unsigned shape = 0; shape < 3 * 2 * 2 * 2 * 3; shape++) {
        bench b;
        memset(&b, 0, sizeof b);
        b.fake = (impmem_fake_options)IMPMEM_FAKE_OPTIONS_INIT;
        b.fake.granule_bytes = granules[shape % 3];
        b.fake.growable = shape / 3 % 2;
        b.fake.backing = (impmem_fake_backing)(shape / 6 % 2);
        bool limited = shape / 12 % 2;
        b.fake.account = (impmem_account)(shape / 24);
        impmem_conformance_options o = suite_of(&b);
        impmem_conformance_result result;
        o.bytes = 8 * b.fake.granule_bytes;
        if (limited) b.fake.capacity_bytes = 4 * o.bytes;
        if (b.fake.account == IMPMEM_ACCOUNT_PAGEABLE && limited)
            continue; /* its refusal is the device's, not the host's */
        OK(impmem_backend_conformance(&o, &result, NULL));
        if (result.failed) print_message("shape %u: %s: %s\n", shape, b.seen.first_failed, b.seen.detail);
        assert_int_equal(result.failed, 0);
        assert_int_equal(result.checks, b.seen.passed);
        assert_int_equal(result.checks + result.skipped, 17 + 16); /* the checks of both files */
        unsigned skipped = (b.fake.growable ? 0u : 16u) + (limited ? 0u : b.fake.growable ? 2u : 1u);
        if (b.fake.backing == IMPMEM_FAKE_ADDRESS_ONLY) skipped += b.fake.growable ? 3u : 1u;
        if (b.fake.account == IMPMEM_ACCOUNT_PAGEABLE) skipped += b.fake.growable ? 3u : 2u;
        assert_int_equal(result.skipped, skipped);
    }
}

static void the_fake_passes_with_the_granule_of_a_device(void **state)
{
    (void)state;
    bench b;
    memset(&b, 0, sizeof b);
    b.fake = (impmem_fake_options)IMPMEM_FAKE_OPTIONS_INIT; /* 2 MiB */
    b.fake.growable = true;
    b.fake.capacity_bytes = 64 * IMPMEM_MIB;
    impmem_conformance_options o = suite_of(&b);
    impmem_conformance_result result;
    o.bytes = 16 * IMPMEM_MIB;
    OK(impmem_backend_conformance(&o, &result, NULL));
    assert_int_equal(result.failed, 0);
    assert_int_equal(result.skipped, 0);
}

static void senseless_options_run_nothing(void **state)
{
    (void)state;
    bench b;
    memset(&b, 0, sizeof b);
    b.fake = (impmem_fake_options)IMPMEM_FAKE_OPTIONS_INIT;
    b.fake.granule_bytes = G;
    impmem_conformance_options o = suite_of(&b);
    impmem_conformance_result result = {9, 9, 9};
    impmem_error why = IMPMEM_ERROR_INIT;
    FAILS(impmem_backend_conformance(NULL, &result, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_backend_conformance(&o, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    o.create = NULL;
    FAILS(impmem_backend_conformance(&o, &result, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    o = suite_of(&b);
    o.version = 2;
    FAILS(impmem_backend_conformance(&o, &result, &why), IMPMEM_ERR_VERSION);
    o = suite_of(&b);
    o.bytes = 7 * G;
    FAILS(impmem_backend_conformance(&o, &result, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    o = suite_of(&b);
    b.fake.granule_bytes = 300; /* create fails */
    FAILS(impmem_backend_conformance(&o, &result, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    b.fake.granule_bytes = G;
    o.report = NULL;
    OK(impmem_backend_conformance(&o, &result, NULL));
    assert_true(result.checks > 10 && result.failed == 0);
}

/* ---- faulty backends --------------------------------------------------------------------------------------------- */

/* A backend over plain host memory that counts, like a device of its capacity, and can be told to do one thing wrong. */
enum fault {
    FAULT_NONE,
    MISALIGNED_BASE,
    OVERLAPPING_REGIONS,
    FORGETS_TO_DECOMMIT,
    FORGETS_TO_RELEASE,
    LOSES_DATA_WHEN_GROWING,
    LOSES_DATA_WHEN_SHRINKING,
    CLAIMS_ALL_OF_A_FAILED_COMMIT,
    WRONG_CODE_WHEN_FULL,
    COMMIT_FAILS_SECOND_TIME,
    NO_NAME,
    CHANGES_ITS_GRANULE,
    RELEASE_FAILS,
    IGNORES_CAPACITY,
    SHORT_ALIGNMENT,
    RESERVE_IS_UNALIGNED,
    N_FAULTS
};

typedef struct faulty {
    int fault;
    uint64_t capacity;
    uint64_t held;
    uint64_t commits;
    uint64_t ordinal; /* which backend of the run this is */
    impmem_allocator host;
    pthread_mutex_t lock;
    unsigned char *shared;     /* OVERLAPPING_REGIONS: the one memory that all get */
    uint64_t committed_of[64]; /* by granule, of the one reservation of a check; enough for the suite's sizes */
} faulty;

static uint64_t made;

static unsigned char *host_memory(faulty *f, uint64_t bytes, uint64_t alignment)
{
    return f->host.allocate(f->host.context, (size_t)(bytes + alignment), (size_t)alignment);
}

static impmem_status faulty_acquire(void *self, uint64_t bytes, uint64_t alignment, void **out, impmem_error *why)
{
    faulty *f = self;
    impmem_status st = IMPMEM_OK;
    (void)why;
    (void)pthread_mutex_lock(&f->lock);
    if (f->held + bytes > f->capacity && f->fault != IGNORES_CAPACITY) {
        st = f->fault == WRONG_CODE_WHEN_FULL ? IMPMEM_ERR_DRIVER : IMPMEM_ERR_OUT_OF_DEVICE_MEMORY;
    } else if (f->fault == OVERLAPPING_REGIONS) {
        if (!f->shared) f->shared = host_memory(f, 4 * 1048576, 2 * 1048576);
        *out = f->shared;
        f->held += bytes;
    } else {
        unsigned char *memory = host_memory(f, bytes, alignment);
        *out = f->fault == MISALIGNED_BASE || (f->fault == SHORT_ALIGNMENT && alignment > 256) ? memory + 128 : memory;
        f->held += bytes;
    }
    (void)pthread_mutex_unlock(&f->lock);
    return st;
}

static impmem_status faulty_release(void *self, void *base, uint64_t bytes)
{
    faulty *f = self;
    if (f->fault == RELEASE_FAILS && f->commits++ % 2 == 0) return IMPMEM_ERR_DRIVER;
    (void)pthread_mutex_lock(&f->lock);
    bool reservation = f->committed_of[63] != 0 && (uintptr_t)base == f->committed_of[63];
    if (reservation) {
        for (int i = 0; i < 62; i++) {
            if (f->fault != FORGETS_TO_RELEASE) f->held -= f->committed_of[i] * G;
            f->committed_of[i] = 0;
        }
        f->committed_of[63] = 0;
    } else if (f->fault != FORGETS_TO_RELEASE) {
        f->held -= bytes;
    }
    (void)pthread_mutex_unlock(&f->lock);
    if (f->fault == OVERLAPPING_REGIONS && base == f->shared) return IMPMEM_OK;
    unsigned char *memory = base;
    if ((uintptr_t)memory % 256 == 128) memory -= 128;
    f->host.release(f->host.context, memory, 0);
    return IMPMEM_OK;
}

static impmem_status faulty_reserve(void *self, uint64_t bytes, uint64_t alignment, void **out, impmem_error *why)
{
    faulty *f = self;
    (void)why;
    unsigned char *memory = host_memory(f, bytes, alignment);
    *out = f->fault == RESERVE_IS_UNALIGNED ? memory + 128 : memory;
    f->committed_of[63] = (uintptr_t)*out;
    return IMPMEM_OK;
}

static impmem_status faulty_commit(void *self, void *base, uint64_t offset, uint64_t length, uint64_t *achieved,
                                   impmem_error *why)
{
    faulty *f = self;
    (void)why;
    if (f->fault == COMMIT_FAILS_SECOND_TIME && ++f->commits % 2 == 0) return IMPMEM_ERR_DRIVER;
    if (f->held + length > f->capacity) {
        *achieved = f->fault == CLAIMS_ALL_OF_A_FAILED_COMMIT ? length : 0;
        return IMPMEM_ERR_OUT_OF_DEVICE_MEMORY;
    }
    f->held += length;
    for (uint64_t i = offset / G; i < (offset + length) / G && i < 62; i++) f->committed_of[i] = 1;
    if (f->fault == LOSES_DATA_WHEN_GROWING && offset) memset(base, 0, (size_t)G);
    return IMPMEM_OK;
}

static impmem_status faulty_decommit(void *self, void *base, uint64_t offset, uint64_t length)
{
    faulty *f = self;
    if (f->fault != FORGETS_TO_DECOMMIT) f->held -= length;
    for (uint64_t i = offset / G; i < (offset + length) / G && i < 62; i++) f->committed_of[i] = 0;
    if (f->fault == LOSES_DATA_WHEN_SHRINKING) memset((unsigned char *)base + offset + length - 1, 0, 2);
    return IMPMEM_OK;
}

static impmem_status faulty_query(void *self, impmem_backend_properties *out)
{
    const faulty *f = self;
    out->granule_bytes = f->fault == CHANGES_ITS_GRANULE && f->ordinal > 1 ? 2 * G : G;
    out->capacity_bytes = f->capacity;
    out->growable = out->host_accessible = true;
    out->account = IMPMEM_ACCOUNT_DEVICE;
    if (f->fault != NO_NAME) memcpy(out->name, "faulty", sizeof "faulty");
    return IMPMEM_OK;
}

static void faulty_destroy(void *self)
{
    faulty *f = self;
    impmem_allocator host = f->host;
    if (f->shared) host.release(host.context, f->shared, 0);
    (void)pthread_mutex_destroy(&f->lock);
    host.release(host.context, f, sizeof *f);
}

static impmem_status create_faulty(void *context, impmem_ledger *ledger, impmem_backend **out, impmem_error *why)
{
    const bench *b = context;
    impmem_allocator host = impmem_default_allocator();
    faulty *f = host.allocate(host.context, sizeof *f, 64);
    assert_non_null(f);
    memset(f, 0, sizeof *f);
    f->host = host;
    f->fault = b->fault;
    f->capacity = 20 * G;
    f->ordinal = ++made;
    assert_int_equal(pthread_mutex_init(&f->lock, NULL), 0);
    impmem_backend_ops ops = {
        sizeof ops,    1, faulty_acquire, faulty_release, faulty_reserve, faulty_commit, faulty_decommit, faulty_query,
        faulty_destroy};
    impmem_status st = impmem_backend_create(ledger, &ops, f, out, why);
    if (st) faulty_destroy(f);
    return st;
}

static void each_planted_fault_is_caught_by_its_check(void **state)
{
    (void)state;
    static const char *const caught_by[N_FAULTS] = {
        [MISALIGNED_BASE] = "a_region_is_whole_granules", /* any acquisition fails: the first check sees it */
        [OVERLAPPING_REGIONS] = "regions_do_not_overlap",
        [FORGETS_TO_DECOMMIT] = "decommitted_memory_comes_back",
        [FORGETS_TO_RELEASE] = "released_memory_can_be_acquired_again",
        [LOSES_DATA_WHEN_GROWING] = "data_survives_growth",
        [LOSES_DATA_WHEN_SHRINKING] = "data_survives_decommit_elsewhere",
        [CLAIMS_ALL_OF_A_FAILED_COMMIT] = "a_failed_commit_tells_what_it_achieved",
        [WRONG_CODE_WHEN_FULL] = "running_out_is_typed_and_changes_nothing",
        [COMMIT_FAILS_SECOND_TIME] = "the_base_never_moves",
        [NO_NAME] = "properties_are_sane_and_constant",
        [CHANGES_ITS_GRANULE] = "properties_are_sane_and_constant",
        [RELEASE_FAILS] = "a_region_is_whole_granules",
        [IGNORES_CAPACITY] = "running_out_is_typed_and_changes_nothing",
        [SHORT_ALIGNMENT] = "alignment_is_honoured",
        [RESERVE_IS_UNALIGNED] = "a_reservation_holds_nothing",
    };
    for (int fault = FAULT_NONE; fault < N_FAULTS; fault++) {
        bench b;
        memset(&b, 0, sizeof b);
        b.fault = fault;
        made = 0;
        impmem_conformance_options o = suite_of(&b);
        impmem_conformance_result result;
        o.create = create_faulty;
        o.bytes = 8 * G;
        OK(impmem_backend_conformance(&o, &result, NULL));
        bool caught = caught_by[fault] ? strstr(b.seen.failed_names, caught_by[fault]) != NULL : result.failed == 0;
        if (!caught) print_message("fault %d: failed: %s (%s)\n", fault, b.seen.failed_names, b.seen.detail);
        assert_true(caught);
        assert_int_equal(result.failed, b.seen.failed);
    }
}

/* A device's memory: reached only through the callbacks. */
static impmem_status far_fill(void *context, void *address, int value, uint64_t bytes)
{
    if (((bench *)context)->address_only_io) return IMPMEM_ERR_DRIVER;
    memset(address, value, (size_t)bytes);
    return IMPMEM_OK;
}

static impmem_status far_read(void *context, void *to_host, const void *from, uint64_t bytes)
{
    (void)context;
    memcpy(to_host, from, (size_t)bytes);
    return IMPMEM_OK;
}

static void the_callers_fill_and_read_are_used(void **state)
{
    (void)state;
    for (int broken = 0; broken < 2; broken++) {
        bench b;
        memset(&b, 0, sizeof b);
        b.fake = (impmem_fake_options)IMPMEM_FAKE_OPTIONS_INIT;
        b.fake.granule_bytes = G;
        b.fake.growable = true;
        b.address_only_io = broken;
        impmem_conformance_options o = suite_of(&b);
        impmem_conformance_result result;
        o.fill = far_fill;
        o.read = far_read;
        OK(impmem_backend_conformance(&o, &result, NULL));
        assert_int_equal(result.failed, broken ? 3 : 0); /* the three checks of data */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fake_passes_in_every_shape),
        cmocka_unit_test(the_fake_passes_with_the_granule_of_a_device),
        cmocka_unit_test(senseless_options_run_nothing),
        cmocka_unit_test(each_planted_fault_is_caught_by_its_check),
        cmocka_unit_test(the_callers_fill_and_read_are_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
