/* What the tier allocators get: regions that are open once, span checks, live counters, numbers. */
#include "helpers.h"

#include "backend/hooks.h"

#define G ((uint64_t)4096)

/* A tier that knows one span. */
typedef struct tier {
    uint64_t generation;
    const void *data;
    uint64_t bytes;
} tier;

static impmem_status tier_check(void *self, uint64_t generation, const void *data, uint64_t bytes)
{
    const tier *t = self;
    if (data != t->data || bytes != t->bytes) return IMPMEM_ERR_FORGED;
    return generation == t->generation ? IMPMEM_OK : IMPMEM_ERR_STALE;
}

static const impmem__tier_ops tier_ops = {tier_check};
static const impmem__tier_ops mute_ops = {NULL};

static void a_region_is_open_in_one_tier_and_not_released_under_it(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_backend *backend = make_fake(ledger, G, false, NULL);
    impmem_acquire_info info = want(G, LINE_A, IMPMEM_TAG_OTHER);
    impmem_region *region = NULL;
    impmem_error why = IMPMEM_ERROR_INIT;
    tier t = {0, NULL, 0};
    OK(impmem_backend_acquire(backend, &info, &region, NULL));
    FAILS(impmem__region_open_tier(NULL, &tier_ops, &t), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem__region_open_tier(region, NULL, &t), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem__region_open_tier(region, &tier_ops, &t));
    FAILS(impmem__region_open_tier(region, &tier_ops, &t), IMPMEM_ERR_BUSY);
    FAILS(impmem_backend_release(&region, &why), IMPMEM_ERR_BUSY);
    assert_non_null(region);
    impmem__region_close_tier(region);
    OK(impmem__region_open_tier(region, &tier_ops, &t));
    impmem__region_close_tier(region);
    impmem__region_close_tier(region);
    assert_ptr_equal(impmem__region_ledger(region), ledger);
    assert_true(impmem__region_granule_bytes(region) == G && impmem__region_line(region) == LINE_A);
    uint32_t n = 5;
    assert_null(impmem__region_shares(region, &n));
    assert_int_equal(n, 0);
    OK(impmem_backend_release(&region, NULL));
    destroy_all(backend, ledger);
}

static void spans_are_judged_by_region_bounds_and_tier(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_backend *backend = make_fake(ledger, G, false, NULL);
    impmem_acquire_info info = want(2 * G, LINE_A, IMPMEM_TAG_OTHER);
    impmem_region *region = NULL;
    OK(impmem_backend_acquire(backend, &info, &region, NULL));
    unsigned char *base = impmem_region_base(region);
    uint64_t id = impmem_region_id(region);
    tier t = {7, base + 256, 512};
    FAILS(impmem__ledger_check_span(NULL, id, 7, base, 1), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem__ledger_check_span(ledger, id, 7, base + 256, 512), IMPMEM_ERR_FORGED); /* open in no tier */
    OK(impmem__region_open_tier(region, &mute_ops, &t));
    FAILS(impmem__ledger_check_span(ledger, id, 7, base + 256, 512), IMPMEM_ERR_FORGED); /* a tier that mints none */
    impmem__region_close_tier(region);
    OK(impmem__region_open_tier(region, &tier_ops, &t));
    OK(impmem__ledger_check_span(ledger, id, 7, base + 256, 512));
    FAILS(impmem__ledger_check_span(ledger, id, 6, base + 256, 512), IMPMEM_ERR_STALE);
    FAILS(impmem__ledger_check_span(ledger, id, 7, base + 128, 512), IMPMEM_ERR_FORGED);
    t.data = base - 1; /* even if the tier would say yes: outside the region */
    FAILS(impmem__ledger_check_span(ledger, id, 7, base - 1, 512), IMPMEM_ERR_FORGED);
    t.data = base + G;
    t.bytes = G + 1;
    FAILS(impmem__ledger_check_span(ledger, id, 7, base + G, G + 1), IMPMEM_ERR_FORGED);
    t.bytes = UINT64_MAX;
    FAILS(impmem__ledger_check_span(ledger, id, 7, base + G, UINT64_MAX), IMPMEM_ERR_FORGED);
    FAILS(impmem__ledger_check_span(ledger, 0, 7, base, 1), IMPMEM_ERR_FORGED);
    FAILS(impmem__ledger_check_span(ledger, id + 1, 7, base, 1), IMPMEM_ERR_FORGED);
    impmem__region_close_tier(region);
    OK(impmem_backend_release(&region, NULL));
    FAILS(impmem__ledger_check_span(ledger, id, 7, base, 1), IMPMEM_ERR_STALE); /* ids are never used again */
    OK(impmem_backend_acquire(backend, &info, &region, NULL));
    assert_true(impmem_region_id(region) == id + 1);
    OK(impmem_backend_release(&region, NULL));
    destroy_all(backend, ledger);
}

static uint64_t live_of_line(const impmem_ledger *ledger, impmem_line_id line, uint64_t *peak)
{
    impmem_usage usage;
    OK(impmem_ledger_line_usage(ledger, line, &usage));
    if (peak) *peak = usage.live_peak_bytes;
    return usage.live_bytes;
}

static void live_bytes_add_up_by_line_tag_and_account(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_backend *backend = make_fake(ledger, G, false, NULL);
    impmem_line_share shares[2] = {{LINE_A, G}, {LINE_B, G}};
    impmem_acquire_info info = want(2 * G, LINE_A, IMPMEM_TAG_SNAPSHOTS);
    impmem_region *region = NULL, *plain = NULL;
    impmem_usage usage;
    uint64_t peak;
    info.shares = shares;
    info.n_shares = 2;
    OK(impmem_backend_acquire(backend, &info, &region, NULL));
    impmem_acquire_info simple = want(G, LINE_A, IMPMEM_TAG_SNAPSHOTS);
    OK(impmem_backend_acquire(backend, &simple, &plain, NULL));
    impmem__line_counter *a = impmem__region_counter(region, 0), *b = impmem__region_counter(region, 1);
    assert_null(impmem__region_counter(region, 2));
    impmem__line_counter *c = impmem__region_counter(plain, 0);
    assert_null(impmem__region_counter(plain, 1));
    impmem__line_counter_add_owned(a, 100);
    impmem__line_counter_add_owned(a, 50);
    impmem__line_counter_sub_owned(a, 120);
    impmem__line_counter_add_owned(b, 7);
    impmem__line_counter_add_owned(c, 1000);
    assert_true(live_of_line(ledger, LINE_A, &peak) == 30 + 1000 && peak == 150 + 1000);
    assert_true(live_of_line(ledger, LINE_B, &peak) == 7 && peak == 7);
    impmem_ledger_tag_usage(ledger, IMPMEM_TAG_SNAPSHOTS, &usage);
    assert_true(usage.live_bytes == 1037);
    impmem_ledger_account_usage(ledger, IMPMEM_ACCOUNT_DEVICE, &usage);
    assert_true(usage.live_bytes == 1037 && usage.live_peak_bytes == 1157);
    impmem__line_counter_sub_owned(c, 1000);
    OK(impmem_backend_release(&plain, NULL)); /* its peak is remembered */
    assert_true(live_of_line(ledger, LINE_A, &peak) == 30 && peak == 1150);
    impmem_ledger_account_usage(ledger, IMPMEM_ACCOUNT_DEVICE, &usage);
    assert_true(usage.live_bytes == 37 && usage.live_peak_bytes == 1157);
    impmem__line_counter_sub_owned(a, 30);
    impmem__line_counter_sub_owned(b, 7);
    OK(impmem_backend_release(&region, NULL));
    assert_true(live_of_line(ledger, LINE_A, &peak) == 0 && peak == 1150);
    destroy_all(backend, ledger);
}

static void live_bytes_outside_regions_have_counters_too(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_usage usage;
    uint64_t peak;
    impmem__line_counter *counter = impmem__ledger_line_counter(ledger, LINE_PINNED);
    impmem__line_counter_add(counter, 10);
    impmem__line_counter_add(counter, 20);
    impmem__line_counter_sub(counter, 25);
    assert_true(live_of_line(ledger, LINE_PINNED, &peak) == 5 && peak == 30);
    impmem__ledger_live_add(ledger, LINE_PINNED, IMPMEM_TAG_OTHER, IMPMEM_ACCOUNT_DEVICE,
                            3); /* the line's own tag and account */
    impmem_ledger_tag_usage(ledger, IMPMEM_TAG_HOST_PINNED, &usage);
    assert_true(usage.live_bytes == 8);
    impmem__ledger_live_add(ledger, IMPMEM_NO_LINE, IMPMEM_TAG_RESIDUAL_RING, IMPMEM_ACCOUNT_PAGEABLE, 64);
    impmem_ledger_tag_usage(ledger, IMPMEM_TAG_RESIDUAL_RING, &usage);
    assert_true(usage.live_bytes == 64 && usage.live_peak_bytes == 64);
    impmem__ledger_live_sub(ledger, IMPMEM_NO_LINE, IMPMEM_TAG_RESIDUAL_RING, IMPMEM_ACCOUNT_PAGEABLE, 64);
    impmem__ledger_live_sub(ledger, LINE_PINNED, IMPMEM_TAG_OTHER, IMPMEM_ACCOUNT_DEVICE, 3);
    impmem_ledger_tag_usage(ledger, IMPMEM_TAG_RESIDUAL_RING, &usage);
    assert_true(usage.live_bytes == 0 && usage.live_peak_bytes == 64);
    assert_non_null(impmem__ledger_line_counter(ledger, 9999));
    OK(impmem_ledger_destroy(ledger, NULL));
}

static void queries_out_of_range_read_as_nothing(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_usage usage;
    uint64_t planned = 0;
    FAILS(impmem_ledger_line_usage(ledger, 9999, &usage), IMPMEM_ERR_UNPLANNED);
    FAILS(impmem_ledger_line_usage(NULL, LINE_A, &usage), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_ledger_line_usage(ledger, LINE_A, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    memset(&usage, 0x55, sizeof usage);
    impmem_ledger_tag_usage(ledger, IMPMEM_N_TAGS, &usage);
    assert_true(usage.committed_bytes == 0 && usage.planned_bytes == 0);
    memset(&usage, 0x55, sizeof usage);
    impmem_ledger_account_usage(ledger, IMPMEM_N_ACCOUNTS, &usage);
    assert_true(usage.committed_bytes == 0 && usage.live_bytes == 0);
    impmem_ledger_tag_usage(ledger, IMPMEM_TAG_OTHER, NULL);
    impmem_ledger_account_usage(ledger, IMPMEM_ACCOUNT_DEVICE, NULL);
    assert_true(impmem__ledger_has_line(ledger, LINE_PINNED, &planned) && planned == 8 * IMPMEM_MIB);
    assert_true(impmem__ledger_has_line(ledger, LINE_PINNED, NULL));
    assert_false(impmem__ledger_has_line(ledger, 9999, &planned));
    uint32_t first = impmem__ledger_pool_id(ledger);
    assert_int_equal(impmem__ledger_pool_id(ledger), first + 1);
    assert_true(impmem__ledger_pinned_degradation_count(ledger) == 0);
    impmem__ledger_pinned_degradation_add(ledger);
    assert_true(impmem__ledger_pinned_degradation_count(ledger) == 1);
    impmem__ledger_log(ledger, "nobody listens to %d", 1);
    OK(impmem_ledger_destroy(ledger, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_region_is_open_in_one_tier_and_not_released_under_it),
        cmocka_unit_test(spans_are_judged_by_region_bounds_and_tier),
        cmocka_unit_test(live_bytes_add_up_by_line_tag_and_account),
        cmocka_unit_test(live_bytes_outside_regions_have_counters_too),
        cmocka_unit_test(queries_out_of_range_read_as_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
