/* The fake backend: capacity, faults on demand, poison, addresses that nobody may touch. */
#include "helpers.h"

#define G ((uint64_t)4096)

static impmem_backend *fake_with(impmem_ledger *ledger, impmem_fake_options o, impmem_fake **fake)
{
    impmem_backend *backend = NULL;
    OK(impmem_fake_backend_create(ledger, &o, &backend, fake, NULL));
    return backend;
}

static impmem_fake_options options(uint64_t granule, bool growable)
{
    impmem_fake_options o = IMPMEM_FAKE_OPTIONS_INIT;
    o.granule_bytes = granule;
    o.growable = growable;
    return o;
}

static void properties_follow_the_options(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_fake_options o = options(0, false);
    impmem_backend_properties p;
    impmem_backend *backend = fake_with(ledger, o, NULL);
    impmem_backend_query(backend, &p);
    assert_true(p.granule_bytes == 2 * IMPMEM_MIB && p.capacity_bytes == UINT64_MAX && !p.growable && p.host_accessible);
    assert_int_equal(p.account, IMPMEM_ACCOUNT_DEVICE);
    assert_string_equal(p.name, "fake");
    OK(impmem_backend_destroy(backend, NULL));
    o.growable = true;
    o.backing = IMPMEM_FAKE_ADDRESS_ONLY;
    o.capacity_bytes = 12345;
    o.account = IMPMEM_ACCOUNT_PINNED;
    backend = fake_with(ledger, o, NULL);
    impmem_backend_query(backend, &p);
    assert_true(p.capacity_bytes == 12345 && p.growable && !p.host_accessible && p.account == IMPMEM_ACCOUNT_PINNED);
    OK(impmem_backend_destroy(backend, NULL));
    OK(impmem_fake_backend_create(ledger, NULL, &backend, NULL, NULL)); /* defaults */
    destroy_all(backend, ledger);
}

static void bad_options_make_no_fake(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_backend *backend = NULL;
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_fake_options o = options(G, false);
    FAILS(impmem_fake_backend_create(NULL, &o, &backend, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_fake_backend_create(ledger, &o, NULL, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    o.granule_bytes = 128;
    FAILS(impmem_fake_backend_create(ledger, &o, &backend, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    o.granule_bytes = 768;
    FAILS(impmem_fake_backend_create(ledger, &o, &backend, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    o = options(G, false);
    o.backing = (impmem_fake_backing)2;
    FAILS(impmem_fake_backend_create(ledger, &o, &backend, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    o = options(G, false);
    o.account = IMPMEM_N_ACCOUNTS;
    FAILS(impmem_fake_backend_create(ledger, &o, &backend, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    o = options(G, false);
    o.version = 9;
    FAILS(impmem_fake_backend_create(ledger, &o, &backend, NULL, &why), IMPMEM_ERR_VERSION);
    assert_null(backend);
    OK(impmem_ledger_destroy(ledger, NULL));
}

static void capacity_and_address_space_run_out_as_on_a_device(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_fake_options o = options(G, true);
    impmem_fake *fake;
    impmem_region *a = NULL, *b = NULL;
    impmem_error why = IMPMEM_ERROR_INIT;
    o.capacity_bytes = 4 * G;
    o.address_space_bytes = 8 * G;
    impmem_backend *backend = fake_with(ledger, o, &fake);
    impmem_acquire_info info = want(5 * G, LINE_A, IMPMEM_TAG_OTHER);
    FAILS(impmem_backend_acquire(backend, &info, &a, &why), IMPMEM_ERR_OUT_OF_DEVICE_MEMORY);
    assert_true(why.asked_bytes == 5 * G && why.available_bytes == 4 * G);
    OK(impmem_backend_reserve(backend, &info, &a, NULL)); /* address space is not memory */
    FAILS(impmem_backend_reserve(backend, &info, &b, &why), IMPMEM_ERR_OUT_OF_ADDRESS_SPACE);
    FAILS(impmem_region_commit(a, 5 * G, NULL, &why), IMPMEM_ERR_OUT_OF_DEVICE_MEMORY);
    OK(impmem_region_commit(a, 4 * G, NULL, NULL));
    assert_true(impmem_fake_held_bytes(fake) == 4 * G);
    OK(impmem_backend_release(&a, NULL));
    OK(impmem_backend_reserve(backend, &info, &b, NULL)); /* the address space came back */
    OK(impmem_backend_release(&b, NULL));
    OK(impmem_backend_destroy(backend, NULL));
    o.account = IMPMEM_ACCOUNT_PINNED;
    backend = fake_with(ledger, o, NULL);
    info.line = LINE_PINNED;
    FAILS(impmem_backend_acquire(backend, &info, &a, &why), IMPMEM_ERR_OUT_OF_PINNED_MEMORY);
    destroy_all(backend, ledger);
}

static void the_nth_call_fails_once_or_from_then_on(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_fake *fake;
    impmem_backend *backend = fake_with(ledger, options(G, false), &fake);
    impmem_acquire_info info = want(G, LINE_A, IMPMEM_TAG_OTHER);
    static const impmem_status once[] = {IMPMEM_OK, IMPMEM_ERR_DRIVER, IMPMEM_OK, IMPMEM_OK};
    static const impmem_status on[] = {IMPMEM_OK, IMPMEM_ERR_DRIVER, IMPMEM_ERR_DRIVER, IMPMEM_ERR_DRIVER};
    for (int mode = 0; mode < 2; mode++) {
        impmem_fake_fail_nth(fake, 2, IMPMEM_ERR_DRIVER, (impmem_fail_mode)mode);
        for (int i = 0; i < 4; i++) {
            impmem_region *region = NULL;
            assert_int_equal(impmem_backend_acquire(backend, &info, &region, NULL), mode ? on[i] : once[i]);
            OK(impmem_backend_release(&region, NULL));
        }
    }
    assert_true(impmem_fake_calls(fake) == 8);
    impmem_fake_fail_nth(fake, 0, IMPMEM_ERR_DRIVER, IMPMEM_FAIL_ONCE); /* disarmed */
    impmem_region *region = NULL;
    OK(impmem_backend_acquire(backend, &info, &region, NULL));
    impmem_fake_fail_nth_release(fake, 1, IMPMEM_FAIL_FROM_THEN_ON);
    FAILS(impmem_backend_release(&region, NULL), IMPMEM_ERR_DRIVER);
    FAILS(impmem_backend_release(&region, NULL), IMPMEM_ERR_DRIVER);
    impmem_fake_fail_nth_release(fake, 0, IMPMEM_FAIL_ONCE);
    OK(impmem_backend_release(&region, NULL));
    destroy_all(backend, ledger);
}

static void the_last_sixteen_released_regions_are_poisoned(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_fake *fake;
    impmem_backend *backend = fake_with(ledger, options(G, false), &fake);
    impmem_acquire_info info = want(2 * G, LINE_A, IMPMEM_TAG_OTHER);
    unsigned char *base[17];
    impmem_region *live = NULL;
    for (int i = 0; i < 17; i++) {
        impmem_region *region = NULL;
        OK(impmem_backend_acquire(backend, &info, &region, NULL));
        base[i] = impmem_region_base(region);
        memset(base[i], i, (size_t)(2 * G));
        assert_false(impmem_fake_is_poisoned(fake, base[i], 1));
        OK(impmem_backend_release(&region, NULL));
        assert_true(impmem_fake_is_poisoned(fake, base[i], 2 * G));
        assert_true(impmem_fake_is_poisoned(fake, base[i] + 2 * G - 1, 1));
        assert_false(impmem_fake_is_poisoned(fake, base[i], 2 * G + 1));
        assert_false(impmem_fake_is_poisoned(fake, base[i], 0));
    }
    for (int i = 1; i < 17; i++) {
        assert_true(impmem_fake_is_poisoned(fake, base[i], 2 * G));
        assert_int_equal(base[i][G], 0xDE); /* may be read: a use after free finds the poison */
    }
    base[16][7] = 1;
    assert_false(impmem_fake_is_poisoned(fake, base[16], 2 * G)); /* a write after free shows */
    OK(impmem_backend_acquire(backend, &info, &live, NULL));
    assert_true(impmem_fake_held_bytes(fake) == 2 * G);
    OK(impmem_backend_release(&live, NULL));
    destroy_all(backend, ledger);
}

static void decommitted_granules_are_poisoned_until_they_are_committed_again(void **state)
{
    (void)state;
    static const uint64_t granules[] = {256, 4096, 65536};
    for (size_t i = 0; i < 3; i++) {
        uint64_t g = granules[i];
        impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
        impmem_fake *fake;
        impmem_backend *backend = fake_with(ledger, options(g, true), &fake);
        impmem_acquire_info info = want(8 * g, LINE_A, IMPMEM_TAG_OTHER);
        impmem_region *region = NULL;
        OK(impmem_backend_reserve(backend, &info, &region, NULL));
        unsigned char *base = impmem_region_base(region);
        assert_false(impmem_fake_is_poisoned(fake, base, 8 * g)); /* never committed */
        OK(impmem_region_commit(region, 4 * g, NULL, NULL));
        memset(base, 0x11, (size_t)(4 * g));
        OK(impmem_region_decommit_range(region, g, 2 * g, NULL, NULL));
        assert_true(impmem_fake_is_poisoned(fake, base + g, 2 * g));
        assert_true(impmem_fake_is_poisoned(fake, base + 2 * g - 1, 2));
        assert_false(impmem_fake_is_poisoned(fake, base + g - 1, 2));
        assert_false(impmem_fake_is_poisoned(fake, base, g));
        assert_int_equal(base[g], 0xDE);
        OK(impmem_region_commit(region, 4 * g, NULL, NULL));
        base[g] = 5;
        assert_false(impmem_fake_is_poisoned(fake, base + g, 2 * g));
        OK(impmem_backend_release(&region, NULL));
        assert_true(impmem_fake_is_poisoned(fake, base, 4 * g));
        assert_false(impmem_fake_is_poisoned(fake, base + 4 * g, g)); /* was never backed */
        destroy_all(backend, ledger);
    }
}

static void address_only_regions_are_distinct_and_hold_no_memory(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_fake_options o = options(0, true);
    impmem_fake *fake[2];
    impmem_backend *backend[2];
    impmem_region *region[8] = {NULL};
    o.backing = IMPMEM_FAKE_ADDRESS_ONLY;
    for (int i = 0; i < 2; i++) backend[i] = fake_with(ledger, o, &fake[i]);
    impmem_acquire_info info = want(140 * IMPMEM_GIB, LINE_A, IMPMEM_TAG_OTHER);
    info.alignment = IMPMEM_GIB;
    for (int i = 0; i < 8; i++) {
        if (i % 4 < 2) OK(impmem_backend_acquire(backend[i / 4], &info, &region[i], NULL));
        else OK(impmem_backend_reserve(backend[i / 4], &info, &region[i], NULL));
        assert_int_equal((uintptr_t)impmem_region_base(region[i]) % IMPMEM_GIB, 0);
        for (int j = 0; j < i; j++) {
            uintptr_t a = (uintptr_t)impmem_region_base(region[i]), b = (uintptr_t)impmem_region_base(region[j]);
            assert_true((a > b ? a - b : b - a) > 140 * IMPMEM_GIB); /* with a gap */
        }
    }
    OK(impmem_region_commit(region[2], 100 * IMPMEM_GIB, NULL, NULL));
    assert_true(impmem_fake_held_bytes(fake[0]) == 380 * IMPMEM_GIB);
    void *gone = impmem_region_base(region[0]);
    for (int i = 0; i < 8; i++) OK(impmem_backend_release(&region[i], NULL));
    assert_false(impmem_fake_is_poisoned(fake[0], gone, 1));
    OK(impmem_backend_acquire(backend[0], &info, &region[0], NULL));
    assert_ptr_not_equal(impmem_region_base(region[0]), gone); /* never handed out again */
    OK(impmem_backend_release(&region[0], NULL));
    OK(impmem_backend_destroy(backend[0], NULL));
    destroy_all(backend[1], ledger);
}

/* The system's own refusals, by asking for nearly all of 64 bits of addresses. */
static void the_systems_refusal_is_typed(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_fake_options o = options(2 * IMPMEM_MIB, true);
    impmem_region *region = NULL;
    for (int backing = 0; backing < 2; backing++) {
        o.backing = (impmem_fake_backing)backing;
        impmem_backend *backend = fake_with(ledger, o, NULL);
        impmem_acquire_info info = want(UINT64_MAX - ((uint64_t)1 << 58) + 1, LINE_A, IMPMEM_TAG_OTHER);
        FAILS(impmem_backend_acquire(backend, &info, &region, NULL), backing ? IMPMEM_OK : IMPMEM_ERR_OUT_OF_HOST_MEMORY);
        if (backing) FAILS(impmem_backend_acquire(backend, &info, &region, NULL), IMPMEM_ERR_BUDGET_EXCEEDED);
        OK(impmem_backend_release(&region, NULL));
        OK(impmem_backend_destroy(backend, NULL));
    }
    OK(impmem_ledger_destroy(ledger, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(properties_follow_the_options),
        cmocka_unit_test(bad_options_make_no_fake),
        cmocka_unit_test(capacity_and_address_space_run_out_as_on_a_device),
        cmocka_unit_test(the_nth_call_fails_once_or_from_then_on),
        cmocka_unit_test(the_last_sixteen_released_regions_are_poisoned),
        cmocka_unit_test(decommitted_granules_are_poisoned_until_they_are_committed_again),
        cmocka_unit_test(address_only_regions_are_distinct_and_hold_no_memory),
        cmocka_unit_test(the_systems_refusal_is_typed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
