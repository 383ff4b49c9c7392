/* impmem/arena.h, scratch.h, span.h, pinned.h, staging.h and claim.h, as the headers promise them. */
#include "contract.h"

#include "impmem/arena.h"
#include "impmem/block_pool.h"
#include "impmem/claim.h"
#include "impmem/pinned.h"
#include "impmem/scratch.h"
#include "impmem/staging.h"

static const uint64_t huge[] = {UINT64_MAX, UINT64_MAX - 255, (uint64_t)1 << 63, UINT64_MAX / 2};
#define N_HUGE (sizeof huge / sizeof *huge)

static void takes_of_absurd_sizes_and_alignments_change_nothing(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    for (unsigned growable = 0; growable < 2; growable++) {
        impmem_region *region = growable ? world_growable_region(&w, 4 * GRANULE, LINE_A)
                                         : world_region(&w, 4 * GRANULE, LINE_A);
        impmem_arena *arena = NULL;
        impmem_model_span span;
        impmem_engine_span other;
        impmem_arena_stats before, after;
        OK(impmem_arena_open(region, IMPMEM_TIER_MODEL, &arena, NULL));
        OK(impmem_arena_take_model(arena, LINE_A, 1, 1, &span));
        impmem_arena_query(arena, &before);
        const world_figures figures = world_look(&w);
        for (size_t i = 0; i < N_HUGE; i++) {
            FAILS(impmem_arena_take_model(arena, LINE_A, huge[i], 0, &span), IMPMEM_ERR_EXHAUSTED);
            FAILS(impmem_arena_take_model(arena, LINE_A, huge[i], 1, &span), IMPMEM_ERR_EXHAUSTED);
            FAILS(impmem_arena_take_model(arena, LINE_A, huge[i], (uint64_t)1 << 63, &span), IMPMEM_ERR_EXHAUSTED);
        }
        FAILS(impmem_arena_take_model(arena, LINE_A, 1, (uint64_t)1 << 63, &span), IMPMEM_ERR_EXHAUSTED);
        FAILS(impmem_arena_take_model(arena, LINE_A, 0, 0, &span), IMPMEM_ERR_INVALID_ARGUMENT);
        FAILS(impmem_arena_take_model(arena, LINE_A, 1, 3, &span), IMPMEM_ERR_INVALID_ARGUMENT);
        FAILS(impmem_arena_take_model(arena, LINE_A, 1, UINT64_MAX, &span), IMPMEM_ERR_INVALID_ARGUMENT);
        FAILS(impmem_arena_take_model(arena, LINE_B, 1, 0, &span), IMPMEM_ERR_UNPLANNED);
        FAILS(impmem_arena_take_model(arena, LINE_A, 1, 0, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
        FAILS(impmem_arena_take_engine(arena, LINE_A, 1, 0, &other), IMPMEM_ERR_STATE);
        FAILS(impmem_arena_take_model(NULL, LINE_A, 1, 0, &span), IMPMEM_ERR_INVALID_ARGUMENT);
        impmem_arena_query(arena, &after);
        assert_int_equal(after.exhausted, before.exhausted + 3 * N_HUGE + 1);
        after.exhausted = before.exhausted;
        assert_memory_equal(&after, &before, sizeof after);
        assert_same_figures(figures, world_look(&w));
        /* The rest of the region is still there, to the byte. */
        OK(impmem_arena_take_model(arena, LINE_A, 4 * GRANULE - 1, 1, &span));
        FAILS(impmem_arena_take_model(arena, LINE_A, 1, 1, &span), IMPMEM_ERR_EXHAUSTED);
        impmem_arena_reset(arena);
        assert_int_equal(world_live(&w, LINE_A), 0);
        impmem_arena_query(arena, &after);
        assert_int_equal(after.generation, 1);
        assert_int_equal(after.committed_bytes, 4 * GRANULE);
        OK(impmem_arena_take_model(arena, LINE_A, 4 * GRANULE, 0, &span));
        impmem_arena_close(&arena);
        impmem_arena_close(&arena);
        impmem_arena_close(NULL);
        OK(impmem_backend_release(&region, NULL));
    }
    world_close(&w);
}

static void a_lazy_take_that_cannot_commit_takes_nothing(void **state)
{
    (void)state;
    world w;
    impmem_model_span span;
    impmem_arena *arena = NULL;
    impmem_arena_stats before, after;
    world_open(&w, GRANULE);
    impmem_region *region = world_growable_region(&w, 16 * GRANULE, LINE_A);
    OK(impmem_arena_open(region, IMPMEM_TIER_MODEL, &arena, NULL));
    OK(impmem_arena_take_model(arena, LINE_A, 100, 0, &span));
    impmem_arena_query(arena, &before);
    assert_int_equal(before.committed_bytes, GRANULE);
    OK(impmem_ledger_capture_begin(w.ledger));
    FAILS(impmem_arena_take_model(arena, LINE_A, 2 * GRANULE, 0, &span), IMPMEM_ERR_CAPTURING);
    OK(impmem_arena_take_model(arena, LINE_A, 100, 0, &span)); /* committed already: pointer arithmetic */
    OK(impmem_ledger_capture_end(w.ledger));
    impmem_arena_query(arena, &before);
    impmem_fake_fail_nth(w.growable_fake, 1, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, IMPMEM_FAIL_ONCE);
    FAILS(impmem_arena_take_model(arena, LINE_A, 8 * GRANULE, 0, &span), IMPMEM_ERR_OUT_OF_DEVICE_MEMORY);
    impmem_arena_query(arena, &after);
    assert_int_equal(after.used_bytes, before.used_bytes);
    assert_int_equal(after.takes, before.takes);
    assert_int_equal(world_live(&w, LINE_A), 512);
    OK(impmem_arena_take_model(arena, LINE_A, 8 * GRANULE, 0, &span));
    memset(impmem_stable_data(impmem_stable(span)), 1, 8 * GRANULE);
    OK(impmem_span_check(w.ledger, impmem_stable(span)));
    impmem_arena_close(&arena);
    OK(impmem_backend_release(&region, NULL));
    world_close(&w);
}

static void scratch_counts_what_was_wanted_without_wrapping(void **state)
{
    (void)state;
    world w;
    impmem_error why;
    impmem_scratch *scratch = NULL;
    impmem_scratch_span span;
    impmem_scratch_stats stats;
    world_open(&w, GRANULE);
    impmem_region *region = world_region(&w, 4 * GRANULE, LINE_A);
    OK(impmem_scratch_open(region, &scratch, NULL));
    FAILS(impmem_scratch_take(scratch, 1, 0, &span), IMPMEM_ERR_STATE);
    const impmem_scratch_mark none = {0, 0, 0};
    FAILS(impmem_scratch_pop(scratch, none), IMPMEM_ERR_ORDER);
    impmem_scratch_mark mark = impmem_scratch_push(scratch);
    OK(impmem_scratch_take(scratch, 4 * GRANULE - 1, 1, &span));
    FAILS(impmem_scratch_take(scratch, 2, 1, &span), IMPMEM_ERR_EXHAUSTED);
    impmem_scratch_query(scratch, &stats);
    assert_int_equal(stats.wanted_bytes, 4 * GRANULE + 1);
    assert_int_equal(stats.high_water_bytes, 4 * GRANULE - 1);
    for (size_t i = 0; i < N_HUGE; i++) {
        FAILS(impmem_scratch_take(scratch, huge[i], 0, &span), IMPMEM_ERR_EXHAUSTED);
        impmem_scratch_query(scratch, &stats);
        assert_true(stats.wanted_bytes >= huge[i]);
        assert_int_equal(stats.used_bytes, 4 * GRANULE - 1);
    }
    assert_int_equal(stats.exhausted, 1 + N_HUGE);
    REFUSED(impmem_scratch_close(&scratch, &why), IMPMEM_ERR_LIVE_HOLDERS);
    assert_non_null(scratch);
    OK(impmem_scratch_pop(scratch, mark));
    FAILS(impmem_scratch_pop(scratch, mark), IMPMEM_ERR_ORDER);
    FAILS(impmem_span_check(w.ledger, impmem_stable(span)), IMPMEM_ERR_STALE);
    /* A mark of before is not the mark of now, though depth and place are the same. */
    impmem_scratch_mark again = impmem_scratch_push(scratch);
    FAILS(impmem_scratch_pop(scratch, mark), IMPMEM_ERR_ORDER);
    OK(impmem_scratch_pop(scratch, again));
    assert_int_equal(world_live(&w, LINE_A), 0);
    OK(impmem_scratch_close(&scratch, NULL));
    OK(impmem_scratch_close(&scratch, NULL));
    OK(impmem_backend_release(&region, NULL));
    world_close(&w);
}

static void too_deep_a_push_says_so_when_it_is_popped(void **state)
{
    (void)state;
    world w;
    impmem_scratch *scratch = NULL;
    impmem_scratch_mark mark[IMPMEM_SCRATCH_MAX_DEPTH + 1];
    impmem_scratch_span span;
    world_open(&w, GRANULE);
    impmem_region *region = world_region(&w, GRANULE, LINE_A);
    OK(impmem_scratch_open(region, &scratch, NULL));
    for (unsigned i = 0; i <= IMPMEM_SCRATCH_MAX_DEPTH; i++) mark[i] = impmem_scratch_push(scratch);
    FAILS(impmem_scratch_pop(scratch, mark[IMPMEM_SCRATCH_MAX_DEPTH]), IMPMEM_ERR_ORDER);
    OK(impmem_scratch_take(scratch, 16, 16, &span));
    for (unsigned i = IMPMEM_SCRATCH_MAX_DEPTH; i-- > 1;) {
        FAILS(impmem_scratch_pop(scratch, mark[i - 1]), IMPMEM_ERR_ORDER);
        OK(impmem_scratch_pop(scratch, mark[i]));
    }
    OK(impmem_scratch_pop(scratch, mark[0]));
    OK(impmem_scratch_close(&scratch, NULL));
    OK(impmem_backend_release(&region, NULL));
    world_close(&w);
}

/* Everything of one ledger, shown to another of the same plan, seed and history. */
static void handles_of_another_ledger_are_never_taken_for_ones_own(void **state)
{
    (void)state;
    world w[2];
    impmem_region *region[2][3];
    impmem_arena *arena[2] = {NULL, NULL};
    impmem_scratch *scratch[2] = {NULL, NULL};
    impmem_block_pool *pool[2] = {NULL, NULL};
    impmem_pinned pinned[2] = {IMPMEM_PINNED_NONE, IMPMEM_PINNED_NONE};
    impmem_engine_span taken[2];
    impmem_scratch_mark mark[2];
    impmem_scratch_span pushed[2];
    impmem_block_ref ref[2];
    impmem_block_span block[2];
    impmem_pinned_span view[2];
    impmem_error why;
    for (unsigned i = 0; i < 2; i++) {
        world_open(&w[i], GRANULE);
        for (unsigned r = 0; r < 3; r++) region[i][r] = world_region(&w[i], 4 * GRANULE, LINE_A);
        OK(impmem_arena_open(region[i][0], IMPMEM_TIER_ENGINE, &arena[i], NULL));
        OK(impmem_scratch_open(region[i][1], &scratch[i], NULL));
        impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
        o.region = region[i][2];
        o.stride_bytes = GRANULE;
        o.blocks = 4;
        if (i == 1) {
            impmem_block_pool *never = NULL;
            REFUSED(impmem_block_pool_open(w[0].ledger, &o, &never, &why), IMPMEM_ERR_INVALID_ARGUMENT);
            assert_null(never);
        }
        OK(impmem_block_pool_open(w[i].ledger, &o, &pool[i], NULL));
        OK(impmem_arena_take_engine(arena[i], LINE_A, 512, 0, &taken[i]));
        mark[i] = impmem_scratch_push(scratch[i]);
        OK(impmem_scratch_take(scratch[i], 512, 0, &pushed[i]));
        OK(impmem_block_take(pool[i], IMPMEM_HOLDER_SEQUENCE, 1, &ref[i]));
        OK(impmem_block_address(pool[i], ref[i], &block[i]));
        OK(impmem_pinned_open(w[i].pinned, LINE_PINNED, 100, &pinned[i], NULL));
        OK(impmem_pinned_view(pinned[i], &view[i]));
    }
    for (unsigned i = 0; i < 2; i++) {
        const impmem_ledger *other = w[1 - i].ledger;
        impmem_stable_span spans[4];
        spans[0] = impmem_stable(taken[i]);
        spans[1] = impmem_stable(pushed[i]);
        spans[2] = impmem_stable(block[i]);
        spans[3] = impmem_stable(view[i]);
        for (unsigned s = 0; s < 4; s++) {
            OK(impmem_span_check(w[i].ledger, spans[s]));
            FAILS(impmem_span_check(other, spans[s]), IMPMEM_ERR_FORGED);
        }
        impmem_block_ref copy = ref[i], shared = IMPMEM_BLOCK_REF_NONE;
        FAILS(impmem_block_drop(pool[1 - i], &copy), IMPMEM_ERR_FOREIGN);
        FAILS(impmem_block_share(pool[1 - i], copy, IMPMEM_HOLDER_PIN, 0, &shared), IMPMEM_ERR_FOREIGN);
        FAILS(impmem_block_transfer(pool[1 - i], &copy, IMPMEM_HOLDER_PIN, 0), IMPMEM_ERR_FOREIGN);
        assert_int_equal(impmem_block_id(pool[1 - i], copy), IMPMEM_NO_BLOCK);
        assert_int_equal(impmem_block_count(pool[1 - i], copy), 0);
        assert_memory_equal(&copy, &ref[i], sizeof copy);
        FAILS(impmem_scratch_pop(scratch[1 - i], mark[i]), IMPMEM_ERR_FOREIGN);
    }
    for (unsigned i = 0; i < 2; i++) {
        OK(impmem_block_drop(pool[i], &ref[i]));
        OK(impmem_scratch_pop(scratch[i], mark[i]));
        OK(impmem_pinned_close(&pinned[i]));
        impmem_arena_close(&arena[i]);
        OK(impmem_scratch_close(&scratch[i], NULL));
        OK(impmem_block_pool_close(&pool[i], NULL));
        for (unsigned r = 0; r < 3; r++) OK(impmem_backend_release(&region[i][r], NULL));
        world_close(&w[i]);
    }
}

/* A pool, stack or arena that is opened where another one was takes none of its handles. */
static void handles_do_not_outlive_a_closed_allocator(void **state)
{
    (void)state;
    world w;
    impmem_block_pool *pool = NULL;
    impmem_scratch *scratch = NULL;
    impmem_arena *arena = NULL;
    impmem_block_ref ref, now, copy;
    impmem_block_span block;
    impmem_scratch_span span;
    impmem_model_span taken;
    world_open(&w, GRANULE);
    impmem_region *region = world_region(&w, 4 * GRANULE, LINE_A);
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.region = region;
    o.stride_bytes = GRANULE;
    o.blocks = 4;
    OK(impmem_block_pool_open(w.ledger, &o, &pool, NULL));
    OK(impmem_block_take(pool, IMPMEM_HOLDER_SEQUENCE, 1, &ref));
    OK(impmem_block_address(pool, ref, &block));
    copy = ref;
    OK(impmem_block_drop(pool, &ref));
    OK(impmem_block_pool_close(&pool, NULL));
    FAILS(impmem_span_check(w.ledger, impmem_stable(block)), IMPMEM_ERR_FORGED);
    OK(impmem_block_pool_open(w.ledger, &o, &pool, NULL));
    OK(impmem_block_take(pool, IMPMEM_HOLDER_SEQUENCE, 1, &now));
    FAILS(impmem_block_drop(pool, &copy), IMPMEM_ERR_FOREIGN);
    assert_true(impmem_span_check(w.ledger, impmem_stable(block)) != IMPMEM_OK);
    OK(impmem_block_drop(pool, &now));
    OK(impmem_block_pool_close(&pool, NULL));

    OK(impmem_scratch_open(region, &scratch, NULL));
    impmem_scratch_mark old = impmem_scratch_push(scratch);
    OK(impmem_scratch_take(scratch, 64, 0, &span));
    OK(impmem_scratch_pop(scratch, old));
    OK(impmem_scratch_close(&scratch, NULL));
    OK(impmem_scratch_open(region, &scratch, NULL));
    impmem_scratch_mark mark = impmem_scratch_push(scratch);
    FAILS(impmem_scratch_pop(scratch, old), IMPMEM_ERR_FOREIGN);
    assert_true(impmem_span_check(w.ledger, impmem_stable(span)) != IMPMEM_OK);
    OK(impmem_scratch_pop(scratch, mark));
    OK(impmem_scratch_close(&scratch, NULL));

    OK(impmem_arena_open(region, IMPMEM_TIER_MODEL, &arena, NULL));
    OK(impmem_arena_take_model(arena, LINE_A, 64, 0, &taken));
    impmem_arena_close(&arena);
    FAILS(impmem_span_check(w.ledger, impmem_stable(taken)), IMPMEM_ERR_FORGED);
    OK(impmem_backend_release(&region, NULL));
    FAILS(impmem_span_check(w.ledger, impmem_stable(taken)), IMPMEM_ERR_STALE);
    FAILS(impmem_span_check(NULL, impmem_stable(taken)), IMPMEM_ERR_INVALID_ARGUMENT);
    world_close(&w);
}

static void staging_has_its_phase_and_its_name(void **state)
{
    (void)state;
    world w;
    impmem_error why;
    impmem_staging *staging = NULL, *other = NULL;
    world_open(&w, GRANULE);
    REFUSED(impmem_staging_open(NULL, "x", LINE_STAGING, 1, &staging, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_staging_open(w.ledger, NULL, LINE_STAGING, 1, &staging, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_staging_open(w.ledger, "x", LINE_STAGING, 0, &staging, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_staging_open(w.ledger, "x", LINE_STAGING, 1, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_staging_open(w.ledger, "weights that have a name of more than thirty-nine bytes", LINE_STAGING, 1000,
                           &staging, NULL));
    memset(impmem_staging_data(staging), 7, 1000);
    assert_int_equal(impmem_staging_bytes(staging), 1000);
    REFUSED(impmem_ledger_set_phase(w.ledger, IMPMEM_PHASE_PLANNING, &why), IMPMEM_ERR_STAGING_LIVE);
    assert_non_null(strstr(why.message, "weights that have a name of more than t"));
    REFUSED(impmem_ledger_set_phase(w.ledger, IMPMEM_PHASE_SERVING, &why), IMPMEM_ERR_STAGING_LIVE);
    assert_int_equal(impmem_ledger_phase(w.ledger), IMPMEM_PHASE_LOADING);
    OK(impmem_ledger_capture_begin(w.ledger));
    REFUSED(impmem_staging_open(w.ledger, "x", LINE_STAGING, 1, &other, &why), IMPMEM_ERR_CAPTURING);
    impmem_staging_close(&staging); /* host memory goes back even then */
    OK(impmem_ledger_capture_end(w.ledger));
    assert_null(staging);
    impmem_staging_close(&staging);
    impmem_staging_close(NULL);
    OK(impmem_ledger_set_phase(w.ledger, IMPMEM_PHASE_PLANNING, NULL));
    REFUSED(impmem_staging_open(w.ledger, "late", LINE_STAGING, 1, &other, &why), IMPMEM_ERR_PHASE_ORDER);
    assert_null(other);
    world_close(&w);
}

static void pinned_memory_is_its_own_account_in_every_failure(void **state)
{
    (void)state;
    world w;
    impmem_error why;
    impmem_pinned buffer = IMPMEM_PINNED_NONE, copy;
    impmem_pinned_span view;
    bool pageable = true;
    world_open(&w, GRANULE);
    REFUSED(impmem_pinned_open(NULL, LINE_PINNED, 1, &buffer, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_pinned_open(w.fixed, LINE_PINNED, 1, &buffer, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_pinned_open(w.pinned, LINE_PINNED, 0, &buffer, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_pinned_open(w.pinned, LINE_PINNED, 1, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_pinned_open(w.pinned, LINE_PINNED, UINT64_MAX, &buffer, &why), IMPMEM_ERR_OVERFLOW);
    /* Only the refusal of page-locked memory degrades; any other failure is the caller's to hear of. */
    impmem_fake_fail_nth(w.pinned_fake, 1, IMPMEM_ERR_DRIVER, IMPMEM_FAIL_ONCE);
    REFUSED(impmem_pinned_open_or_pageable(w.pinned, LINE_PINNED, 100, &buffer, &pageable, &why), IMPMEM_ERR_DRIVER);
    assert_null(buffer.object_);
    impmem_fake_fail_nth(w.pinned_fake, 1, IMPMEM_ERR_OUT_OF_PINNED_MEMORY, IMPMEM_FAIL_ONCE);
    OK(impmem_pinned_open_or_pageable(w.pinned, LINE_PINNED, 100, &buffer, &pageable, NULL));
    assert_true(pageable);
    assert_true(impmem_pinned_is_pageable(buffer));
    assert_int_equal(impmem_ledger_pinned_degradations(w.ledger), 1);
    FAILS(impmem_pinned_view(buffer, &view), IMPMEM_ERR_UNSUPPORTED);
    memset(impmem_pinned_data(buffer), 1, 100);
    copy = buffer;
    OK(impmem_pinned_close(&buffer));
    OK(impmem_pinned_close(&buffer));
    FAILS(impmem_pinned_close(&copy), IMPMEM_ERR_STALE);
    assert_null(impmem_pinned_data(copy));
    assert_int_equal(impmem_pinned_bytes(copy), 0);
    FAILS(impmem_pinned_view(copy, &view), IMPMEM_ERR_STALE);
    FAILS(impmem_pinned_view(buffer, &view), IMPMEM_ERR_STALE);
    OK(impmem_pinned_open_or_pageable(w.pinned, LINE_PINNED, 100, &buffer, &pageable, NULL));
    assert_false(pageable);
    OK(impmem_pinned_view(buffer, &view));
    OK(impmem_ledger_capture_begin(w.ledger));
    FAILS(impmem_pinned_close(&buffer), IMPMEM_ERR_CAPTURING);
    OK(impmem_ledger_capture_end(w.ledger));
    OK(impmem_span_check(w.ledger, impmem_stable(view))); /* the handle stayed good */
    assert_int_equal(world_live(&w, LINE_PINNED), 100);
    OK(impmem_pinned_close(&buffer));
    FAILS(impmem_span_check(w.ledger, impmem_stable(view)), IMPMEM_ERR_STALE);
    assert_int_equal(impmem_ledger_unplanned_bytes(w.ledger), 0);
    world_close(&w);
}

static impmem_status refuse_all(void *self, uint64_t amount)
{
    (void)self;
    (void)amount;
    return IMPMEM_ERR_BUSY;
}

static void count_back(void *self, uint64_t amount)
{
    *(uint64_t *)self += amount;
}

static void a_claim_hands_on_what_reserve_said_and_holds_what_came_before(void **state)
{
    (void)state;
    world w;
    impmem_block_pool *pool = NULL;
    impmem_block_pool_stats stats;
    impmem_block_ref refs[8], ref;
    impmem_error why;
    uint64_t back = 0;
    world_open(&w, GRANULE);
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.blocks = 8;
    OK(impmem_block_pool_open(w.ledger, &o, &pool, NULL));
    const impmem_resource blocks = impmem_block_pool_resource(pool);
    const impmem_resource never = {refuse_all, NULL, count_back, &back, "never"};
    impmem_claim claim = IMPMEM_CLAIM_INIT;
    OK(impmem_claim_add(&claim, blocks, 5));
    FAILS(impmem_claim_add(&claim, never, 1), IMPMEM_ERR_BUSY);
    OK(impmem_claim_add(&claim, never, 0));
    FAILS(impmem_claim_add(&claim, blocks, 4), IMPMEM_ERR_CAPACITY);
    FAILS(impmem_claim_add(&claim, blocks, (uint64_t)1 << 32), IMPMEM_ERR_CAPACITY);
    FAILS(impmem_claim_add(&claim, blocks, UINT64_MAX), IMPMEM_ERR_CAPACITY);
    impmem_block_pool_query(pool, &stats);
    assert_int_equal(stats.reserved_blocks, 5);
    assert_int_equal(stats.free_blocks, 8);
    /* Others get what is not promised, and not one block more. */
    FAILS(impmem_block_take_many(pool, IMPMEM_HOLDER_OTHER, 0, 4, refs), IMPMEM_ERR_EXHAUSTED);
    OK(impmem_block_take_many(pool, IMPMEM_HOLDER_OTHER, 0, 3, refs));
    FAILS(impmem_block_take(pool, IMPMEM_HOLDER_OTHER, 0, &ref), IMPMEM_ERR_EXHAUSTED);
    OK(impmem_block_take_reserved(pool, IMPMEM_HOLDER_SEQUENCE, 1, &ref));
    FAILS(impmem_block_pool_unreserve(pool, 5), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_block_pool_reserve(pool, 0));
    FAILS(impmem_block_pool_reserve(pool, UINT32_MAX), IMPMEM_ERR_CAPACITY);
    OK(impmem_block_drop_many(pool, refs, 3, NULL));
    OK(impmem_block_drop(pool, &ref));
    /* Only promises are left, and they keep the pool open. */
    REFUSED(impmem_block_pool_close(&pool, &why), IMPMEM_ERR_LIVE_HOLDERS);
    OK(impmem_claim_commit(&claim));
    FAILS(impmem_claim_undo(&claim), IMPMEM_ERR_STATE);
    FAILS(impmem_claim_commit(&claim), IMPMEM_ERR_STATE);
    FAILS(impmem_claim_add(&claim, blocks, 1), IMPMEM_ERR_STATE);
    OK(impmem_block_pool_unreserve(pool, 4));
    assert_int_equal(back, 0);
    OK(impmem_block_pool_check(pool, NULL));
    OK(impmem_block_pool_close(&pool, NULL));
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_of_absurd_sizes_and_alignments_change_nothing),
        cmocka_unit_test(a_lazy_take_that_cannot_commit_takes_nothing),
        cmocka_unit_test(scratch_counts_what_was_wanted_without_wrapping),
        cmocka_unit_test(too_deep_a_push_says_so_when_it_is_popped),
        cmocka_unit_test(handles_of_another_ledger_are_never_taken_for_ones_own),
        cmocka_unit_test(handles_do_not_outlive_a_closed_allocator),
        cmocka_unit_test(staging_has_its_phase_and_its_name),
        cmocka_unit_test(pinned_memory_is_its_own_account_in_every_failure),
        cmocka_unit_test(a_claim_hands_on_what_reserve_said_and_holds_what_came_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
