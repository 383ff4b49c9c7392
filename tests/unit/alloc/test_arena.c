/* Arenas: T1 and T2. */
#include "support/world.h"

#include "impmem/arena.h"
#include "impmem/control.h"

#define GRANULE 4096u

static uint64_t place(impmem_stable_span span, const impmem_region *region)
{
    return (uint64_t)((char *)impmem_stable_data(span) - (char *)impmem_region_base(region));
}

static void takes_follow_each_other_at_the_usual_alignment(void **state)
{
    (void)state;
    world w;
    impmem_region *region;
    impmem_arena *arena = world_arena(&w, GRANULE, 4 * GRANULE, IMPMEM_TIER_MODEL, &region);
    impmem_model_span a, b;
    OK(impmem_arena_take_model(arena, LINE_A, 100, 0, &a));
    OK(impmem_arena_take_model(arena, IMPMEM_NO_LINE, 256, 256, &b));
    assert_int_equal(place(impmem_stable(a), region), 0);
    assert_int_equal(place(impmem_stable(b), region), 256);
    assert_int_equal(impmem_stable_bytes(impmem_stable(a)), 100);
    assert_int_equal(world_live(&w, LINE_A), 512);
    impmem_arena_stats stats;
    impmem_arena_query(arena, &stats);
    assert_int_equal(stats.capacity_bytes, 4 * GRANULE);
    assert_int_equal(stats.committed_bytes, 4 * GRANULE);
    assert_int_equal(stats.used_bytes, 512);
    assert_int_equal(stats.high_water_bytes, 512);
    assert_int_equal(stats.takes, 2);
    assert_int_equal(stats.exhausted, 0);
    assert_int_equal(stats.generation, 0);
    assert_int_equal(stats.largest_free_bytes, 4 * GRANULE - 512);
    impmem_arena_close(&arena);
    assert_null(arena);
    assert_int_equal(world_live(&w, LINE_A), 0);
    assert_int_equal(world_peak(&w, LINE_A), 512);
    OK(impmem_backend_release(&region, NULL));
    world_close(&w);
}

static void every_alignment_is_kept(void **state)
{
    (void)state;
    world w;
    impmem_region *region;
    impmem_arena *arena = world_arena(&w, GRANULE, 64 * GRANULE, IMPMEM_TIER_ENGINE, &region);
    for (uint64_t alignment = 1; alignment <= 16 * GRANULE; alignment *= 2) {
        impmem_engine_span span;
        OK(impmem_arena_take_engine(arena, LINE_A, 3, alignment, &span));
        assert_int_equal((uintptr_t)impmem_stable_data(impmem_stable(span)) % alignment, 0);
    }
    world_arena_close(&w, &arena, &region);
}

static void small_alignments_pack(void **state)
{
    (void)state;
    world w;
    impmem_region *region;
    impmem_arena *arena = world_arena(&w, GRANULE, GRANULE, IMPMEM_TIER_ENGINE, &region);
    impmem_engine_span span;
    for (uint64_t i = 0; i < GRANULE / 16; i++) {
        OK(impmem_arena_take_engine(arena, LINE_A, 9, 16, &span));
        assert_int_equal(place(impmem_stable(span), region), i * 16);
    }
    assert_int_equal(impmem_arena_take_engine(arena, LINE_A, 1, 1, &span), IMPMEM_ERR_EXHAUSTED);
    world_arena_close(&w, &arena, &region);
}

static void a_reset_frees_wholesale_and_stales_every_span(void **state)
{
    (void)state;
    world w;
    impmem_region *region;
    impmem_arena *arena = world_arena(&w, GRANULE, 4 * GRANULE, IMPMEM_TIER_ENGINE, &region);
    impmem_engine_span spans[8];
    for (unsigned i = 0; i < 8; i++) {
        OK(impmem_arena_take_engine(arena, LINE_A, 1000, 0, &spans[i]));
        OK(impmem_span_check(w.ledger, impmem_stable(spans[i])));
    }
    assert_int_equal(world_live(&w, LINE_A), 8 * 1024);
    impmem_arena_reset(arena);
    assert_int_equal(world_live(&w, LINE_A), 0);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(impmem_span_check(w.ledger, impmem_stable(spans[i])), IMPMEM_ERR_STALE);
    impmem_arena_stats stats;
    impmem_arena_query(arena, &stats);
    assert_int_equal(stats.used_bytes, 0);
    assert_int_equal(stats.high_water_bytes, 8 * 1024);
    assert_int_equal(stats.committed_bytes, 4 * GRANULE);
    assert_int_equal(stats.generation, 1);

    impmem_engine_span again; /* the same address and length as before, yet another span */
    OK(impmem_arena_take_engine(arena, LINE_A, 1000, 0, &again));
    assert_ptr_equal(impmem_stable_data(impmem_stable(again)), impmem_stable_data(impmem_stable(spans[0])));
    OK(impmem_span_check(w.ledger, impmem_stable(again)));
    assert_int_equal(impmem_span_check(w.ledger, impmem_stable(spans[0])), IMPMEM_ERR_STALE);
    world_arena_close(&w, &arena, &region);
}

static void a_full_arena_refuses_and_changes_nothing(void **state)
{
    (void)state;
    world w;
    impmem_region *region;
    impmem_arena *arena = world_arena(&w, GRANULE, GRANULE, IMPMEM_TIER_ENGINE, &region);
    impmem_engine_span span, untouched;
    OK(impmem_arena_take_engine(arena, LINE_A, GRANULE - 256, 0, &span));
    memset(&untouched, 0x5A, sizeof untouched);
    impmem_engine_span out = untouched;
    const uint64_t too_much[] = {257, GRANULE, UINT64_MAX - 255, UINT64_MAX};
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(impmem_arena_take_engine(arena, LINE_A, too_much[i], 0, &out), IMPMEM_ERR_EXHAUSTED);
    assert_int_equal(impmem_arena_take_engine(arena, LINE_A, 1, (uint64_t)1 << 63, &out), IMPMEM_ERR_EXHAUSTED);
    assert_int_equal(impmem_arena_take_engine(arena, LINE_A, UINT64_MAX, (uint64_t)1 << 63, &out), IMPMEM_ERR_EXHAUSTED);
    /* Padding and bytes that add up to 256 modulo 2^64. */
    uint64_t next = (uint64_t)(uintptr_t)impmem_region_base(region) + GRANULE - 256;
    uint64_t half = (uint64_t)1 << 63;
    assert_int_equal(impmem_arena_take_engine(arena, LINE_A, half + next + 256, half, &out), IMPMEM_ERR_EXHAUSTED);
    assert_memory_equal(&out, &untouched, sizeof out);
    impmem_arena_stats stats;
    impmem_arena_query(arena, &stats);
    assert_int_equal(stats.used_bytes, GRANULE - 256);
    assert_int_equal(stats.exhausted, 7);
    assert_int_equal(stats.takes, 1);
    assert_int_equal(world_live(&w, LINE_A), GRANULE - 256);
    OK(impmem_arena_take_engine(arena, LINE_A, 256, 0, &span)); /* to the last byte */
    world_arena_close(&w, &arena, &region);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_region *region = world_region(&w, GRANULE, LINE_A);
    impmem_arena *arena = NULL, *second = NULL;
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(impmem_arena_open(NULL, IMPMEM_TIER_MODEL, &arena, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(why.status, IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_arena_open(region, IMPMEM_TIER_MODEL, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_arena_open(region, IMPMEM_TIER_POOL, &arena, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(why.message, "pool"));
    assert_null(arena);
    OK(impmem_arena_open(region, IMPMEM_TIER_MODEL, &arena, &why));
    assert_int_equal(impmem_arena_open(region, IMPMEM_TIER_MODEL, &second, &why), IMPMEM_ERR_BUSY);
    assert_null(second);

    impmem_model_span model;
    impmem_engine_span engine;
    assert_int_equal(impmem_arena_take_model(NULL, LINE_A, 1, 0, &model), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_arena_take_model(arena, LINE_A, 0, 0, &model), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_arena_take_model(arena, LINE_A, 1, 3, &model), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_arena_take_model(arena, LINE_A, 1, 0, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_arena_take_engine(arena, LINE_A, 1, 0, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_arena_take_engine(arena, LINE_A, 1, 0, &engine), IMPMEM_ERR_STATE);
    assert_int_equal(impmem_arena_take_model(arena, LINE_B, 1, 0, &model), IMPMEM_ERR_UNPLANNED);
    assert_int_equal(impmem_arena_take_model(arena, 9999, 1, 0, &model), IMPMEM_ERR_UNPLANNED);
    impmem_arena_stats stats;
    impmem_arena_query(arena, &stats);
    assert_int_equal(stats.used_bytes, 0);
    impmem_arena_query(NULL, &stats);
    assert_int_equal(stats.capacity_bytes, 0);
    impmem_arena_query(arena, NULL);
    impmem_arena_reset(NULL);
    impmem_arena_close(NULL);
    impmem_arena_close(&second);
    assert_int_equal(impmem_backend_release(&region, NULL), IMPMEM_ERR_BUSY);
    world_arena_close(&w, &arena, &region);
}

/* Line A may have 1024 bytes, line B 3072. */
static impmem_region *shared_region(world *w)
{
    static const impmem_line_share shares[] = {{LINE_A, 1024}, {LINE_B, 3072}};
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = GRANULE;
    info.tag = IMPMEM_TAG_ENGINE_PERSISTENT;
    info.shares = shares;
    info.n_shares = 2;
    impmem_region *region = NULL;
    OK(impmem_backend_acquire(w->fixed, &info, &region, NULL));
    return region;
}

static void a_line_is_held_to_its_share(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_region *region = shared_region(&w);
    impmem_arena *arena;
    OK(impmem_arena_open(region, IMPMEM_TIER_ENGINE, &arena, NULL));
    impmem_engine_span span;
    assert_int_equal(impmem_arena_take_engine(arena, LINE_A, 1025, 0, &span), IMPMEM_ERR_LINE_EXCEEDED);
    OK(impmem_arena_take_engine(arena, LINE_A, 700, 0, &span)); /* occupies 768 */
    assert_int_equal(impmem_arena_take_engine(arena, LINE_A, 257, 0, &span), IMPMEM_ERR_LINE_EXCEEDED);
    OK(impmem_arena_take_engine(arena, LINE_B, 3072, 0, &span));
    assert_int_equal(place(impmem_stable(span), region), 768);
    OK(impmem_arena_take_engine(arena, LINE_A, 256, 0, &span));
    assert_int_equal(impmem_arena_take_engine(arena, LINE_C, 1, 0, &span), IMPMEM_ERR_UNPLANNED);
    assert_int_equal(impmem_arena_take_engine(arena, IMPMEM_NO_LINE, 1, 0, &span), IMPMEM_ERR_UNPLANNED);
    assert_int_equal(world_live(&w, LINE_A), 1024);
    assert_int_equal(world_live(&w, LINE_B), 3072);
    impmem_arena_reset(arena);
    assert_int_equal(world_live(&w, LINE_A), 0);
    assert_int_equal(world_live(&w, LINE_B), 0);
    OK(impmem_arena_take_engine(arena, LINE_B, 3072, 0, &span));
    OK(impmem_arena_take_engine(arena, LINE_A, 1024, 0, &span));
    world_arena_close(&w, &arena, &region);
}

static void one_line_s_odd_end_is_not_paid_by_the_next(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_region *region = shared_region(&w);
    impmem_arena *arena;
    OK(impmem_arena_open(region, IMPMEM_TIER_ENGINE, &arena, NULL));
    impmem_engine_span span;
    OK(impmem_arena_take_engine(arena, LINE_A, 1, 0, &span));
    OK(impmem_arena_take_engine(arena, LINE_B, 3072, 0, &span)); /* all of it, though A ended at byte 1 */
    assert_int_equal(world_live(&w, LINE_A), 256);
    assert_int_equal(world_live(&w, LINE_B), 3072);
    world_arena_close(&w, &arena, &region);
}

static void a_growable_arena_commits_what_a_take_reaches(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_region *region = world_growable_region(&w, 8 * GRANULE, LINE_C);
    impmem_arena *arena;
    OK(impmem_arena_open(region, IMPMEM_TIER_MODEL, &arena, NULL));
    impmem_model_span span;
    OK(impmem_arena_take_model(arena, IMPMEM_NO_LINE, 1, 0, &span));
    assert_int_equal(impmem_region_committed_bytes(region), GRANULE);
    OK(impmem_arena_take_model(arena, IMPMEM_NO_LINE, GRANULE - 256, 0, &span));
    assert_int_equal(impmem_region_committed_bytes(region), GRANULE);
    OK(impmem_arena_take_model(arena, IMPMEM_NO_LINE, 2 * GRANULE, 0, &span));
    assert_int_equal(impmem_region_committed_bytes(region), 3 * GRANULE);
    memset(impmem_stable_data(impmem_stable(span)), 0x11, 2 * GRANULE);

    impmem_fake_fail_nth(w.growable_fake, 1, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, IMPMEM_FAIL_ONCE);
    impmem_arena_stats before, after;
    impmem_arena_query(arena, &before);
    assert_int_equal(impmem_arena_take_model(arena, IMPMEM_NO_LINE, GRANULE, 0, &span), IMPMEM_ERR_OUT_OF_DEVICE_MEMORY);
    impmem_arena_query(arena, &after);
    assert_memory_equal(&before, &after, sizeof before);
    OK(impmem_ledger_capture_begin(w.ledger));
    assert_int_equal(impmem_arena_take_model(arena, IMPMEM_NO_LINE, GRANULE, 0, &span), IMPMEM_ERR_CAPTURING);
    OK(impmem_ledger_capture_end(w.ledger));
    OK(impmem_arena_take_model(arena, IMPMEM_NO_LINE, GRANULE, 0, &span));

    /* The caller may take the commitment away after a reset; the next take brings back what it needs. */
    impmem_arena_reset(arena);
    OK(impmem_region_commit(region, 0, NULL, NULL));
    OK(impmem_arena_take_model(arena, IMPMEM_NO_LINE, 256, 0, &span));
    assert_int_equal(impmem_region_committed_bytes(region), GRANULE);
    world_arena_close(&w, &arena, &region);
}

static void a_fixed_arena_serves_while_a_graph_is_captured(void **state)
{
    (void)state;
    world w;
    impmem_region *region;
    impmem_arena *arena = world_arena(&w, GRANULE, GRANULE, IMPMEM_TIER_ENGINE, &region);
    OK(impmem_ledger_set_phase(w.ledger, IMPMEM_PHASE_SERVING, NULL));
    OK(impmem_ledger_capture_begin(w.ledger));
    impmem_engine_span span;
    OK(impmem_arena_take_engine(arena, LINE_A, 100, 0, &span));
    impmem_arena_reset(arena);
    OK(impmem_ledger_capture_end(w.ledger));
    assert_int_equal(impmem_ledger_serving_acquisitions(w.ledger), 0);
    world_arena_close(&w, &arena, &region);
}

static void a_failing_open_leaves_nothing(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_region *region = world_region(&w, GRANULE, LINE_A);
    world_figures before = world_look(&w);
    impmem_arena *arena = NULL;
    w.fail_in = 1;
    assert_int_equal(impmem_arena_open(region, IMPMEM_TIER_MODEL, &arena, NULL), IMPMEM_ERR_OUT_OF_HOST_MEMORY);
    assert_null(arena);
    assert_same_figures(before, world_look(&w));
    OK(impmem_arena_open(region, IMPMEM_TIER_MODEL, &arena, NULL));
    uint64_t object = 0;
    OK(impmem_control_arena_bytes(0, &object));
    assert_int_equal(world_look(&w).pageable - before.pageable, object);
    impmem_arena *second = NULL;
    assert_int_equal(impmem_arena_open(region, IMPMEM_TIER_MODEL, &second, NULL), IMPMEM_ERR_BUSY);
    assert_int_equal(world_look(&w).pageable - before.pageable, object);
    impmem_arena_close(&arena);
    assert_same_figures(before, world_look(&w));
    OK(impmem_backend_release(&region, NULL));
    world_close(&w);
}

static void without_a_plan_any_line_may_be_named(void **state)
{
    (void)state;
    impmem_ledger *ledger;
    impmem_backend *backend;
    impmem_region *region;
    impmem_arena *arena;
    impmem_model_span span;
    OK(impmem_ledger_create(NULL, NULL, &ledger));
    const impmem_fake_options fake = IMPMEM_FAKE_OPTIONS_INIT;
    OK(impmem_fake_backend_create(ledger, &fake, &backend, NULL, NULL));
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = 1;
    OK(impmem_backend_acquire(backend, &info, &region, NULL));
    OK(impmem_arena_open(region, IMPMEM_TIER_MODEL, &arena, NULL));
    OK(impmem_arena_take_model(arena, IMPMEM_LINE_WEIGHTS, 256, 0, &span));
    OK(impmem_arena_take_model(arena, IMPMEM_NO_LINE, 256, 0, &span));
    impmem_arena_close(&arena);
    OK(impmem_backend_release(&region, NULL));
    OK(impmem_backend_destroy(backend, NULL));
    OK(impmem_ledger_destroy(ledger, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_follow_each_other_at_the_usual_alignment),
        cmocka_unit_test(every_alignment_is_kept),
        cmocka_unit_test(small_alignments_pack),
        cmocka_unit_test(a_reset_frees_wholesale_and_stales_every_span),
        cmocka_unit_test(a_full_arena_refuses_and_changes_nothing),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(a_line_is_held_to_its_share),
        cmocka_unit_test(one_line_s_odd_end_is_not_paid_by_the_next),
        cmocka_unit_test(a_growable_arena_commits_what_a_take_reaches),
        cmocka_unit_test(a_fixed_arena_serves_while_a_graph_is_captured),
        cmocka_unit_test(a_failing_open_leaves_nothing),
        cmocka_unit_test(without_a_plan_any_line_may_be_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
