/* Span checks: every tier's spans, edited in every member, and the element-typed ones. */
#include "support/world.h"

#include "alloc/seal.h"
#include "impmem/arena.h"
#include "impmem/block_pool.h"
#include "impmem/scratch.h"
#include "impmem/span.h"

#define GRANULE 4096u

IMPMEM_SPAN_OF(float);
typedef struct triple {
    uint16_t x, y, z;
} triple;
IMPMEM_SPAN_OF(triple);

/* A span that is what its allocator handed out; any one member changed, it no longer is. */
static void assert_only_the_original_passes(const impmem_ledger *ledger, impmem_stable_span span)
{
    OK(impmem_span_check(ledger, span));
    impmem_stable_span edited;
    const int64_t steps[] = {1, -1, 16, 256, -256, 4096, INT64_MAX};
    for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++) {
        edited = span;
        edited.data_ = (void *)((uintptr_t)span.data_ + (uintptr_t)steps[i]);
        assert_int_not_equal(impmem_span_check(ledger, edited), IMPMEM_OK);
        edited = span;
        edited.bytes_ += (uint64_t)steps[i];
        assert_int_not_equal(impmem_span_check(ledger, edited), IMPMEM_OK);
        edited = span;
        edited.generation_ += (uint64_t)steps[i];
        assert_int_not_equal(impmem_span_check(ledger, edited), IMPMEM_OK);
        edited = span;
        edited.region_ += (uint64_t)steps[i];
        assert_int_not_equal(impmem_span_check(ledger, edited), IMPMEM_OK);
    }
    edited = span;
    edited.data_ = NULL;
    assert_int_equal(impmem_span_check(ledger, edited), IMPMEM_ERR_FORGED);
    edited = span;
    edited.bytes_ = UINT64_MAX;
    assert_int_equal(impmem_span_check(ledger, edited), IMPMEM_ERR_FORGED);
    edited = span;
    edited.bytes_ = 0;
    assert_int_equal(impmem_span_check(ledger, edited), IMPMEM_ERR_FORGED);
    edited = span;
    edited.region_ = 0;
    assert_int_equal(impmem_span_check(ledger, edited), IMPMEM_ERR_FORGED);
    edited.region_ = UINT64_MAX;
    assert_int_equal(impmem_span_check(ledger, edited), IMPMEM_ERR_FORGED);
}

static void an_edited_span_never_passes(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_region *one = world_region(&w, 16 * GRANULE, LINE_A);
    impmem_region *two = world_region(&w, 16 * GRANULE, LINE_B);
    impmem_region *three = world_region(&w, 16 * GRANULE, LINE_C);
    impmem_arena *arena;
    impmem_scratch *scratch;
    impmem_block_pool *pool;
    OK(impmem_arena_open(one, IMPMEM_TIER_MODEL, &arena, NULL));
    OK(impmem_scratch_open(two, &scratch, NULL));
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.region = three;
    o.stride_bytes = GRANULE;
    o.blocks = 16;
    OK(impmem_block_pool_open(w.ledger, &o, &pool, NULL));

    impmem_model_span model, neighbour;
    OK(impmem_arena_take_model(arena, LINE_A, 1000, 0, &model));
    OK(impmem_arena_take_model(arena, LINE_A, 1000, 0, &neighbour));
    impmem_scratch_mark mark = impmem_scratch_push(scratch);
    impmem_scratch_span forward;
    OK(impmem_scratch_take(scratch, 1000, 0, &forward));
    impmem_block_ref refs[2];
    OK(impmem_block_take_many(pool, IMPMEM_HOLDER_SEQUENCE, 1, 2, refs));
    impmem_block_span block;
    OK(impmem_block_address(pool, refs[0], &block));

    assert_only_the_original_passes(w.ledger, impmem_stable(model));
    assert_only_the_original_passes(w.ledger, impmem_stable(forward));
    assert_only_the_original_passes(w.ledger, impmem_stable(block));

    /* The epoch is under the digest too: another one is an edit, not an old span. */
    impmem_stable_span other_epoch = impmem_stable(model);
    other_epoch.generation_ ^= (uint64_t)1 << 32;
    assert_int_equal(impmem_span_check(w.ledger, other_epoch), IMPMEM_ERR_FORGED);

    /* Pieces of two right spans make no third one. */
    impmem_stable_span mixed = impmem_stable(model);
    mixed.data_ = impmem_stable_data(impmem_stable(neighbour));
    assert_int_equal(impmem_span_check(w.ledger, mixed), IMPMEM_ERR_FORGED);
    mixed = impmem_stable(model);
    mixed.region_ = impmem_stable(forward).region_;
    mixed.data_ = impmem_stable_data(impmem_stable(forward));
    assert_int_equal(impmem_span_check(w.ledger, mixed), IMPMEM_ERR_FORGED);
    mixed = impmem_stable(block);
    mixed.data_ = (char *)impmem_stable_data(impmem_stable(block)) + GRANULE; /* the other live block */
    assert_int_not_equal(impmem_span_check(w.ledger, mixed), IMPMEM_OK);
    mixed.data_ = (char *)impmem_stable_data(impmem_stable(block)) + 5 * GRANULE; /* a free one */
    assert_int_not_equal(impmem_span_check(w.ledger, mixed), IMPMEM_OK);
    assert_int_equal(impmem_span_check(NULL, impmem_stable(model)), IMPMEM_ERR_INVALID_ARGUMENT);

    OK(impmem_scratch_pop(scratch, mark));
    OK(impmem_scratch_close(&scratch, NULL));
    OK(impmem_block_drop_many(pool, refs, 2, NULL));
    OK(impmem_block_pool_close(&pool, NULL));
    impmem_arena_close(&arena);
    OK(impmem_backend_release(&one, NULL));
    OK(impmem_backend_release(&two, NULL));
    OK(impmem_backend_release(&three, NULL));
    world_close(&w);
}

static void a_span_outlives_neither_its_allocator_nor_its_region(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_region *region = world_region(&w, GRANULE, LINE_A);
    impmem_arena *arena;
    impmem_model_span old, new;
    OK(impmem_arena_open(region, IMPMEM_TIER_MODEL, &arena, NULL));
    OK(impmem_arena_take_model(arena, LINE_A, 256, 0, &old));
    impmem_arena_close(&arena);
    assert_int_equal(impmem_span_check(w.ledger, impmem_stable(old)), IMPMEM_ERR_FORGED);
    OK(impmem_arena_open(region, IMPMEM_TIER_MODEL, &arena, NULL));
    OK(impmem_arena_take_model(arena, LINE_A, 256, 0, &new)); /* same place, same length, same count of resets */
    assert_int_equal(impmem_span_check(w.ledger, impmem_stable(old)), IMPMEM_ERR_FORGED);
    OK(impmem_span_check(w.ledger, impmem_stable(new)));
    impmem_arena_close(&arena);
    OK(impmem_backend_release(&region, NULL));
    assert_int_equal(impmem_span_check(w.ledger, impmem_stable(new)), IMPMEM_ERR_STALE);
    world_close(&w);
}

static void a_shared_block_s_spans_follow_their_own_reference(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_region *region = world_region(&w, GRANULE, LINE_C);
    impmem_block_pool *pool;
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.region = region;
    o.stride_bytes = GRANULE;
    o.blocks = 1;
    OK(impmem_block_pool_open(w.ledger, &o, &pool, NULL));
    impmem_block_ref first, second;
    impmem_block_span of_first, of_second;
    OK(impmem_block_take(pool, IMPMEM_HOLDER_SEQUENCE, 1, &first));
    OK(impmem_block_share(pool, first, IMPMEM_HOLDER_CACHE, 2, &second));
    OK(impmem_block_address(pool, first, &of_first));
    OK(impmem_block_address(pool, second, &of_second));
    OK(impmem_span_check(w.ledger, impmem_stable(of_first)));
    OK(impmem_span_check(w.ledger, impmem_stable(of_second)));
    OK(impmem_block_drop(pool, &first));
    assert_int_equal(impmem_span_check(w.ledger, impmem_stable(of_first)), IMPMEM_ERR_STALE);
    OK(impmem_span_check(w.ledger, impmem_stable(of_second)));
    OK(impmem_block_drop(pool, &second));
    assert_int_equal(impmem_span_check(w.ledger, impmem_stable(of_second)), IMPMEM_ERR_STALE);
    OK(impmem_block_pool_close(&pool, NULL));
    OK(impmem_backend_release(&region, NULL));
    world_close(&w);
}

static void element_spans_check_size_and_alignment(void **state)
{
    (void)state;
    world w;
    impmem_region *region;
    impmem_arena *arena = world_arena(&w, GRANULE, GRANULE, IMPMEM_TIER_ENGINE, &region);
    impmem_engine_span hundred, odd, low;
    impmem_float_span floats;
    impmem_triple_span triples;
    OK(impmem_arena_take_engine(arena, LINE_A, 100, 0, &hundred));
    OK(impmem_arena_take_engine(arena, LINE_A, 102, 2, &odd));
    OK(impmem_arena_take_engine(arena, LINE_A, 4, 1, &low));
    OK(impmem_float_span_from(impmem_stable(hundred), &floats));
    assert_int_equal(impmem_float_span_count(floats), 25);
    assert_ptr_equal(impmem_float_span_data(floats), impmem_stable_data(impmem_stable(hundred)));
    OK(impmem_span_check(w.ledger, impmem_float_span_stable(floats)));
    assert_int_equal(impmem_float_span_from(impmem_stable(odd), &floats), IMPMEM_ERR_INVALID_ARGUMENT); /* 102 = 25.5 x 4 */
    assert_int_equal(impmem_float_span_from(impmem_stable(low), &floats), IMPMEM_ERR_INVALID_ARGUMENT); /* at byte 358 */
    assert_int_equal(impmem_float_span_from(impmem_stable(hundred), NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_triple_span_from(impmem_stable(odd), &triples)); /* 6 bytes each, aligned to 2 */
    assert_int_equal(impmem_triple_span_count(triples), 17);
    assert_ptr_equal(impmem_triple_span_data(triples), impmem_stable_data(impmem_stable(odd)));

    impmem_device_span device = impmem_device_from_stable(impmem_stable(hundred));
    assert_ptr_equal(device.data, impmem_stable_data(impmem_stable(hundred)));
    assert_int_equal(device.bytes, 100);
    world_arena_close(&w, &arena, &region);
}

static void a_seal_names_its_epoch_after_four_billion_of_them(void **state)
{
    (void)state;
    const uint64_t two_to_32 = (uint64_t)1 << 32;
    char place[16];
    const uint64_t epochs[] = {0, 1, two_to_32 - 1, two_to_32, two_to_32 + 5, 7 * two_to_32 + 3};
    for (unsigned i = 0; i < sizeof epochs / sizeof *epochs; i++) {
        uint64_t seal = impmem__seal(12345, epochs[i], place, 16);
        assert_int_equal(impmem__seal_epoch(seal, epochs[i]), epochs[i]);
        assert_int_equal(impmem__seal_epoch(seal, epochs[i] + 1), epochs[i]);
        assert_int_equal(impmem__seal_epoch(seal, epochs[i] + two_to_32 - 1), epochs[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_edited_span_never_passes),
        cmocka_unit_test(a_span_outlives_neither_its_allocator_nor_its_region),
        cmocka_unit_test(a_shared_block_s_spans_follow_their_own_reference),
        cmocka_unit_test(element_spans_check_size_and_alignment),
        cmocka_unit_test(a_seal_names_its_epoch_after_four_billion_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
