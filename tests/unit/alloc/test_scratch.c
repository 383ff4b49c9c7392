/* Scratch stacks: T4. */
#include "support/world.h"

#include "impmem/control.h"
#include "impmem/scratch.h"

#define GRANULE 4096u

typedef struct bench {
    world w;
    impmem_region *region;
    impmem_scratch *scratch;
} bench;

static void bench_open(bench *b)
{
    world_open(&b->w, GRANULE);
    b->region = world_region(&b->w, 4 * GRANULE, LINE_A);
    OK(impmem_scratch_open(b->region, &b->scratch, NULL));
}

static void bench_close(bench *b)
{
    OK(impmem_scratch_close(&b->scratch, NULL));
    assert_null(b->scratch);
    OK(impmem_backend_release(&b->region, NULL));
    world_close(&b->w);
}

static uint64_t place(const bench *b, impmem_scratch_span span)
{
    return (uint64_t)((char *)impmem_stable_data(impmem_stable(span)) - (char *)impmem_region_base(b->region));
}

static impmem_scratch_stats stats_of(const bench *b)
{
    impmem_scratch_stats stats;
    impmem_scratch_query(b->scratch, &stats);
    return stats;
}

static void popping_rewinds_to_the_mark(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    impmem_scratch_mark outer = impmem_scratch_push(b.scratch);
    impmem_scratch_span q, inner_q, after;
    OK(impmem_scratch_take(b.scratch, 100, 0, &q));
    impmem_scratch_mark inner = impmem_scratch_push(b.scratch);
    OK(impmem_scratch_take(b.scratch, 300, 0, &inner_q));
    assert_int_equal(place(&b, q), 0);
    assert_int_equal(place(&b, inner_q), 256);
    assert_int_equal(stats_of(&b).used_bytes, 556);
    assert_int_equal(world_live(&b.w, LINE_A), 556);
    OK(impmem_scratch_pop(b.scratch, inner));
    assert_int_equal(stats_of(&b).used_bytes, 100);
    assert_int_equal(stats_of(&b).depth, 1);
    OK(impmem_scratch_take(b.scratch, 1, 64, &after));
    assert_int_equal(place(&b, after), 128);
    OK(impmem_scratch_pop(b.scratch, outer));
    assert_int_equal(stats_of(&b).used_bytes, 0);
    assert_int_equal(stats_of(&b).high_water_bytes, 556);
    assert_int_equal(stats_of(&b).wanted_bytes, 556);
    assert_int_equal(stats_of(&b).takes, 3);
    assert_int_equal(world_live(&b.w, LINE_A), 0);
    assert_int_equal(world_peak(&b.w, LINE_A), 556);
    bench_close(&b);
}

static void marks_pop_in_reverse_order_only(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    impmem_scratch_mark outer = impmem_scratch_push(b.scratch);
    impmem_scratch_mark inner = impmem_scratch_push(b.scratch);
    impmem_scratch_span span;
    OK(impmem_scratch_take(b.scratch, 512, 0, &span));
    assert_int_equal(impmem_scratch_pop(b.scratch, outer), IMPMEM_ERR_ORDER);
    assert_int_equal(stats_of(&b).depth, 2);
    assert_int_equal(stats_of(&b).used_bytes, 512);
    OK(impmem_span_check(b.w.ledger, impmem_stable(span)));
    OK(impmem_scratch_pop(b.scratch, inner));
    assert_int_equal(impmem_scratch_pop(b.scratch, inner), IMPMEM_ERR_ORDER);
    assert_int_equal(stats_of(&b).depth, 1);
    impmem_scratch_mark next = impmem_scratch_push(b.scratch); /* at the depth of `inner`, yet not it */
    assert_int_equal(impmem_scratch_pop(b.scratch, inner), IMPMEM_ERR_ORDER);
    OK(impmem_scratch_pop(b.scratch, next));
    OK(impmem_scratch_pop(b.scratch, outer));
    assert_int_equal(impmem_scratch_pop(b.scratch, outer), IMPMEM_ERR_ORDER);
    bench_close(&b);
}

static void a_mark_with_edited_members_is_refused(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    impmem_scratch_mark outer = impmem_scratch_push(b.scratch);
    impmem_scratch_mark inner = impmem_scratch_push(b.scratch);
    impmem_scratch_mark edited = inner;
    edited.depth_ = UINT32_MAX;
    assert_int_equal(impmem_scratch_pop(b.scratch, edited), IMPMEM_ERR_ORDER);
    edited = inner;
    edited.depth_ = outer.depth_;
    assert_int_equal(impmem_scratch_pop(b.scratch, edited), IMPMEM_ERR_ORDER);
    edited = inner;
    edited.epoch_++;
    assert_int_equal(impmem_scratch_pop(b.scratch, edited), IMPMEM_ERR_ORDER);
    edited = inner;
    edited.scratch_++;
    assert_int_equal(impmem_scratch_pop(b.scratch, edited), IMPMEM_ERR_FOREIGN);
    OK(impmem_scratch_pop(b.scratch, inner));
    OK(impmem_scratch_pop(b.scratch, outer));
    bench_close(&b);
}

static void another_stack_s_mark_is_foreign(void **state)
{
    (void)state;
    bench b, elsewhere;
    bench_open(&b);
    bench_open(&elsewhere); /* a second ledger, with the same numbers inside */
    impmem_region *region = world_region(&b.w, GRANULE, LINE_B);
    impmem_scratch *second;
    OK(impmem_scratch_open(region, &second, NULL));
    impmem_scratch_mark here = impmem_scratch_push(b.scratch);
    impmem_scratch_mark there = impmem_scratch_push(second);
    impmem_scratch_mark far = impmem_scratch_push(elsewhere.scratch);
    assert_int_equal(impmem_scratch_pop(b.scratch, there), IMPMEM_ERR_FOREIGN);
    assert_int_equal(impmem_scratch_pop(second, here), IMPMEM_ERR_FOREIGN);
    assert_int_equal(impmem_scratch_pop(b.scratch, far), IMPMEM_ERR_FOREIGN);
    OK(impmem_scratch_pop(b.scratch, here));
    OK(impmem_scratch_pop(second, there));
    OK(impmem_scratch_pop(elsewhere.scratch, far));
    OK(impmem_scratch_close(&second, NULL));
    OK(impmem_backend_release(&region, NULL));
    bench_close(&elsewhere);
    bench_close(&b);
}

static void sixty_four_marks_fit_and_one_more_fails_softly(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    impmem_scratch_mark marks[IMPMEM_SCRATCH_MAX_DEPTH];
    for (unsigned i = 0; i < IMPMEM_SCRATCH_MAX_DEPTH; i++) marks[i] = impmem_scratch_push(b.scratch);
    assert_int_equal(stats_of(&b).depth, 64);
    impmem_scratch_mark failed = impmem_scratch_push(b.scratch);
    assert_int_equal(stats_of(&b).depth, 64);
    assert_int_equal(impmem_scratch_pop(b.scratch, failed), IMPMEM_ERR_ORDER);
    for (unsigned i = IMPMEM_SCRATCH_MAX_DEPTH; i-- > 0;) OK(impmem_scratch_pop(b.scratch, marks[i]));
    assert_int_equal(stats_of(&b).depth, 0);
    bench_close(&b);
}

static void a_refused_take_is_counted_with_what_was_wanted(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    impmem_scratch_span span, untouched;
    assert_int_equal(impmem_scratch_take(b.scratch, 1, 0, &span), IMPMEM_ERR_STATE); /* no mark is open */
    impmem_scratch_mark mark = impmem_scratch_push(b.scratch);
    OK(impmem_scratch_take(b.scratch, 1000, 0, &span));
    memset(&untouched, 0x5A, sizeof untouched);
    span = untouched;
    assert_int_equal(impmem_scratch_take(b.scratch, 4 * GRANULE, 0, &span), IMPMEM_ERR_EXHAUSTED);
    assert_memory_equal(&span, &untouched, sizeof span);
    assert_int_equal(stats_of(&b).exhausted, 1);
    assert_int_equal(stats_of(&b).used_bytes, 1000);
    assert_int_equal(stats_of(&b).high_water_bytes, 1000);
    assert_int_equal(stats_of(&b).wanted_bytes, 1024 + 4 * GRANULE);
    OK(impmem_scratch_take(b.scratch, 4 * GRANULE - 1024, 0, &span)); /* to the last byte */
    assert_int_equal(stats_of(&b).high_water_bytes, 4 * GRANULE);
    assert_int_equal(impmem_scratch_take(b.scratch, 1, 1, &span), IMPMEM_ERR_EXHAUSTED);
    assert_int_equal(stats_of(&b).wanted_bytes, 1024 + 4 * GRANULE);
    assert_int_equal(impmem_scratch_take(b.scratch, UINT64_MAX, 1, &span), IMPMEM_ERR_EXHAUSTED);
    assert_int_equal(stats_of(&b).wanted_bytes, UINT64_MAX);
    /* Padding and bytes that add up to 256 modulo 2^64, with the stack full to the last byte. */
    uint64_t half = (uint64_t)1 << 63;
    uint64_t next = (uint64_t)(uintptr_t)impmem_region_base(b.region) + 4 * GRANULE;
    assert_int_equal(impmem_scratch_take(b.scratch, half + next + 256, half, &span), IMPMEM_ERR_EXHAUSTED);
    OK(impmem_scratch_pop(b.scratch, mark));
    bench_close(&b);
}

static void a_popped_mark_stales_its_spans_and_no_others(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    impmem_scratch_mark outer = impmem_scratch_push(b.scratch);
    impmem_scratch_span kept, popped, again;
    OK(impmem_scratch_take(b.scratch, 256, 0, &kept));
    impmem_scratch_mark inner = impmem_scratch_push(b.scratch);
    OK(impmem_scratch_take(b.scratch, 256, 0, &popped));
    OK(impmem_scratch_pop(b.scratch, inner));
    OK(impmem_span_check(b.w.ledger, impmem_stable(kept)));
    assert_int_equal(impmem_span_check(b.w.ledger, impmem_stable(popped)), IMPMEM_ERR_STALE);
    OK(impmem_scratch_take(b.scratch, 256, 0, &again)); /* same place, same length, of the outer mark */
    assert_ptr_equal(impmem_stable_data(impmem_stable(again)), impmem_stable_data(impmem_stable(popped)));
    assert_int_equal(impmem_span_check(b.w.ledger, impmem_stable(popped)), IMPMEM_ERR_STALE);
    OK(impmem_span_check(b.w.ledger, impmem_stable(again)));
    OK(impmem_scratch_pop(b.scratch, outer));
    assert_int_equal(impmem_span_check(b.w.ledger, impmem_stable(kept)), IMPMEM_ERR_STALE);
    bench_close(&b);
}

static void an_open_mark_keeps_the_stack_open(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    impmem_scratch_mark mark = impmem_scratch_push(b.scratch);
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(impmem_scratch_close(&b.scratch, &why), IMPMEM_ERR_LIVE_HOLDERS);
    assert_non_null(strstr(why.message, "1 marks"));
    assert_non_null(b.scratch);
    OK(impmem_scratch_pop(b.scratch, mark));
    bench_close(&b);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    impmem_scratch *second = NULL;
    impmem_scratch_span span;
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(impmem_scratch_open(NULL, &second, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_scratch_open(b.region, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_scratch_open(b.region, &second, &why), IMPMEM_ERR_BUSY);
    assert_null(second);
    impmem_scratch_mark mark = impmem_scratch_push(b.scratch);
    assert_int_equal(impmem_scratch_take(NULL, 1, 0, &span), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_scratch_take(b.scratch, 0, 0, &span), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_scratch_take(b.scratch, 1, 48, &span), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_scratch_take(b.scratch, 1, 0, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_scratch_pop(NULL, mark), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_scratch_pop(b.scratch, mark));
    mark = impmem_scratch_push(NULL);
    assert_int_equal(impmem_scratch_pop(b.scratch, mark), IMPMEM_ERR_ORDER);
    impmem_scratch_stats stats;
    impmem_scratch_query(NULL, &stats);
    assert_int_equal(stats.capacity_bytes, 0);
    impmem_scratch_query(b.scratch, NULL);
    OK(impmem_scratch_close(NULL, NULL));
    OK(impmem_scratch_close(&second, NULL));
    bench_close(&b);
}

static void a_growable_region_is_committed_at_open_or_left_alone(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_region *region = world_growable_region(&w, 4 * GRANULE, LINE_C);
    world_figures before = world_look(&w);
    impmem_scratch *scratch = NULL;
    /* A failing commit of 4 granules first achieves 2. */
    impmem_fake_fail_nth(w.growable_fake, 1, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, IMPMEM_FAIL_ONCE);
    assert_int_equal(impmem_scratch_open(region, &scratch, NULL), IMPMEM_ERR_OUT_OF_DEVICE_MEMORY);
    assert_null(scratch);
    assert_int_equal(impmem_region_committed_bytes(region), 0);
    assert_same_figures(before, world_look(&w));
    w.fail_in = 1;
    assert_int_equal(impmem_scratch_open(region, &scratch, NULL), IMPMEM_ERR_OUT_OF_HOST_MEMORY);
    assert_same_figures(before, world_look(&w));

    OK(impmem_scratch_open(region, &scratch, NULL));
    assert_int_equal(impmem_region_committed_bytes(region), 4 * GRANULE);
    uint64_t object = 0;
    OK(impmem_control_scratch_bytes(&object));
    assert_int_equal(world_look(&w).pageable - before.pageable, object);
    OK(impmem_scratch_close(&scratch, NULL));
    OK(impmem_backend_release(&region, NULL));
    world_close(&w);
}

static void a_scope_pops_when_it_is_left(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    {
        IMPMEM_SCRATCH_SCOPE(scope, b.scratch);
        impmem_scratch_span span;
        OK(impmem_scratch_take(b.scratch, 10, 0, &span));
        assert_int_equal(stats_of(&b).depth, 1);
    }
    assert_int_equal(stats_of(&b).depth, 0);
    assert_int_equal(stats_of(&b).used_bytes, 0);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(popping_rewinds_to_the_mark),
        cmocka_unit_test(marks_pop_in_reverse_order_only),
        cmocka_unit_test(a_mark_with_edited_members_is_refused),
        cmocka_unit_test(another_stack_s_mark_is_foreign),
        cmocka_unit_test(sixty_four_marks_fit_and_one_more_fails_softly),
        cmocka_unit_test(a_refused_take_is_counted_with_what_was_wanted),
        cmocka_unit_test(a_popped_mark_stales_its_spans_and_no_others),
        cmocka_unit_test(an_open_mark_keeps_the_stack_open),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(a_growable_region_is_committed_at_open_or_left_alone),
        cmocka_unit_test(a_scope_pops_when_it_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
