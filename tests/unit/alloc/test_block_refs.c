/* References to blocks: take, share, transfer, drop. */
#include "support/world.h"

#include "impmem/block_pool.h"

#define GRANULE 4096u

typedef struct bench {
    world w;
    impmem_block_pool *pool; /* ids only */
} bench;

static void bench_open(bench *b, uint32_t blocks, uint32_t extra_refs)
{
    world_open(&b->w, GRANULE);
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.blocks = blocks;
    o.extra_refs = extra_refs;
    OK(impmem_block_pool_open(b->w.ledger, &o, &b->pool, NULL));
}

static void bench_close(bench *b)
{
    OK(impmem_block_pool_check(b->pool, NULL));
    OK(impmem_block_pool_close(&b->pool, NULL));
    assert_null(b->pool);
    world_close(&b->w);
}

static impmem_block_pool_stats stats_of(const bench *b)
{
    impmem_block_pool_stats stats;
    impmem_block_pool_query(b->pool, &stats);
    return stats;
}

static impmem_block_ref take(bench *b, uint64_t owner)
{
    impmem_block_ref ref = IMPMEM_BLOCK_REF_NONE;
    OK(impmem_block_take(b->pool, IMPMEM_HOLDER_SEQUENCE, owner, &ref));
    return ref;
}

static impmem_block_ref share(bench *b, impmem_block_ref of, impmem_holder holder, uint64_t owner)
{
    impmem_block_ref ref = IMPMEM_BLOCK_REF_NONE;
    OK(impmem_block_share(b->pool, of, holder, owner, &ref));
    return ref;
}

static void a_fresh_pool_hands_out_blocks_in_order(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 4, 0);
    impmem_block_ref refs[4];
    for (uint32_t i = 0; i < 4; i++) {
        refs[i] = take(&b, i);
        assert_int_equal(impmem_block_id(b.pool, refs[i]), i);
        assert_int_equal(impmem_block_count(b.pool, refs[i]), 1);
    }
    impmem_block_ref none = IMPMEM_BLOCK_REF_NONE, out = none;
    assert_int_equal(impmem_block_take(b.pool, IMPMEM_HOLDER_SEQUENCE, 4, &out), IMPMEM_ERR_EXHAUSTED);
    assert_memory_equal(&out, &none, sizeof out);
    assert_int_equal(stats_of(&b).exhausted, 1);
    assert_int_equal(stats_of(&b).free_blocks, 0);
    OK(impmem_block_drop_many(b.pool, refs, 4, NULL));
    bench_close(&b);
}

static void the_last_dropped_block_comes_out_first(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 8, 0);
    impmem_block_ref refs[5];
    for (uint32_t i = 0; i < 5; i++) refs[i] = take(&b, i);
    OK(impmem_block_drop(b.pool, &refs[1]));
    OK(impmem_block_drop(b.pool, &refs[3]));
    refs[3] = take(&b, 3);
    assert_int_equal(impmem_block_id(b.pool, refs[3]), 3);
    refs[1] = take(&b, 1);
    assert_int_equal(impmem_block_id(b.pool, refs[1]), 1);
    impmem_block_ref fresh = take(&b, 9);
    assert_int_equal(impmem_block_id(b.pool, fresh), 5);
    OK(impmem_block_drop(b.pool, &fresh));
    OK(impmem_block_drop_many(b.pool, refs, 5, NULL));
    bench_close(&b);
}

static void a_block_lives_until_its_last_reference_is_dropped(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 2, 4);
    impmem_block_ref mine = take(&b, 1);
    impmem_block_ref cached = share(&b, mine, IMPMEM_HOLDER_CACHE, 2);
    impmem_block_ref pinned = share(&b, cached, IMPMEM_HOLDER_PIN, 3);
    assert_int_equal(impmem_block_id(b.pool, pinned), 0);
    assert_int_equal(impmem_block_count(b.pool, mine), 3);
    OK(impmem_block_drop(b.pool, &mine));
    assert_true(impmem_block_ref_is_none(mine));
    assert_int_equal(stats_of(&b).live_blocks, 1);
    OK(impmem_block_drop(b.pool, &pinned));
    assert_int_equal(impmem_block_count(b.pool, cached), 1);
    assert_int_equal(stats_of(&b).live_blocks, 1);
    OK(impmem_block_drop(b.pool, &cached));
    assert_int_equal(stats_of(&b).live_blocks, 0);
    assert_int_equal(stats_of(&b).free_blocks, 2);
    assert_int_equal(stats_of(&b).references, 0);
    bench_close(&b);
}

static void a_copied_ref_dropped_twice_changes_nothing(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 2, 4);
    impmem_block_ref mine = take(&b, 1);
    impmem_block_ref cached = share(&b, mine, IMPMEM_HOLDER_CACHE, 2);
    impmem_block_ref copy = mine;
    const impmem_block_ref before = copy;
    OK(impmem_block_drop(b.pool, &mine));
    /* The cache still holds the block: a count could be taken twice here, a named reference can't. */
    assert_int_equal(impmem_block_drop(b.pool, &copy), IMPMEM_ERR_STALE);
    assert_memory_equal(&copy, &before, sizeof copy);
    assert_int_equal(impmem_block_count(b.pool, cached), 1);
    assert_int_equal(stats_of(&b).references, 1);
    assert_int_equal(impmem_block_id(b.pool, copy), IMPMEM_NO_BLOCK);
    assert_int_equal(impmem_block_count(b.pool, copy), 0);
    impmem_block_ref out;
    assert_int_equal(impmem_block_share(b.pool, copy, IMPMEM_HOLDER_PIN, 1, &out), IMPMEM_ERR_STALE);
    assert_int_equal(impmem_block_transfer(b.pool, &copy, IMPMEM_HOLDER_PIN, 1), IMPMEM_ERR_STALE);
    /* Also when the slot is in use again. */
    impmem_block_ref again = share(&b, cached, IMPMEM_HOLDER_SEQUENCE, 5);
    assert_int_equal(again.slot_, copy.slot_);
    assert_int_equal(impmem_block_drop(b.pool, &copy), IMPMEM_ERR_STALE);
    assert_int_equal(impmem_block_count(b.pool, cached), 2);
    OK(impmem_block_drop(b.pool, &again));
    OK(impmem_block_drop(b.pool, &cached));
    bench_close(&b);
}

static void a_none_reference_is_nothing_to_drop(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 1, 0);
    impmem_block_ref none = IMPMEM_BLOCK_REF_NONE;
    OK(impmem_block_drop(b.pool, &none));
    assert_int_equal(impmem_block_id(b.pool, none), IMPMEM_NO_BLOCK);
    assert_int_equal(impmem_block_count(b.pool, none), 0);
    impmem_block_ref out;
    assert_int_equal(impmem_block_share(b.pool, none, IMPMEM_HOLDER_PIN, 1, &out), IMPMEM_ERR_STALE);
    impmem_block_ref moved = take(&b, 1);
    impmem_block_ref here = impmem_block_ref_move(&moved);
    assert_true(impmem_block_ref_is_none(moved));
    OK(impmem_block_drop(b.pool, &moved));
    assert_int_equal(stats_of(&b).live_blocks, 1);
    OK(impmem_block_drop(b.pool, &here));
    bench_close(&b);
}

static void references_of_other_pools_are_foreign(void **state)
{
    (void)state;
    bench b, elsewhere;
    bench_open(&b, 2, 0);
    bench_open(&elsewhere, 2, 0); /* another ledger: the same ids and the same seed inside */
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.blocks = 2;
    impmem_block_pool *second;
    OK(impmem_block_pool_open(b.w.ledger, &o, &second, NULL));
    impmem_block_ref mine = take(&b, 1), far = take(&elsewhere, 1), theirs, out;
    OK(impmem_block_take(second, IMPMEM_HOLDER_SEQUENCE, 1, &theirs));
    assert_int_equal(impmem_block_drop(second, &mine), IMPMEM_ERR_FOREIGN);
    assert_int_equal(impmem_block_drop(b.pool, &theirs), IMPMEM_ERR_FOREIGN);
    assert_int_equal(impmem_block_drop(b.pool, &far), IMPMEM_ERR_FOREIGN);
    assert_int_equal(impmem_block_share(b.pool, far, IMPMEM_HOLDER_PIN, 1, &out), IMPMEM_ERR_FOREIGN);
    assert_int_equal(impmem_block_transfer(b.pool, &far, IMPMEM_HOLDER_PIN, 1), IMPMEM_ERR_FOREIGN);
    assert_int_equal(impmem_block_id(b.pool, far), IMPMEM_NO_BLOCK);
    impmem_block_span span;
    assert_int_equal(impmem_block_address(b.pool, far, &span), IMPMEM_ERR_FOREIGN);
    OK(impmem_block_drop(b.pool, &mine));
    OK(impmem_block_drop(second, &theirs));
    OK(impmem_block_drop(elsewhere.pool, &far));
    OK(impmem_block_pool_close(&second, NULL));
    bench_close(&elsewhere);
    bench_close(&b);
}

static void a_reference_with_edited_members_is_refused(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 2, 2);
    impmem_block_ref first = take(&b, 1), second = take(&b, 2);
    impmem_block_ref edited = first;
    edited.slot_ = second.slot_;
    assert_int_equal(impmem_block_drop(b.pool, &edited), IMPMEM_ERR_STALE);
    edited = first;
    edited.slot_ = UINT32_MAX;
    assert_int_equal(impmem_block_drop(b.pool, &edited), IMPMEM_ERR_STALE);
    edited = first;
    edited.generation_++;
    assert_int_equal(impmem_block_drop(b.pool, &edited), IMPMEM_ERR_STALE);
    edited = first;
    edited.pool_++;
    assert_int_equal(impmem_block_drop(b.pool, &edited), IMPMEM_ERR_FOREIGN);
    edited = first; /* generation 0 equals that of a free slot */
    edited.generation_ = 0;
    edited.slot_ = 3;
    assert_int_equal(impmem_block_id(b.pool, edited), IMPMEM_NO_BLOCK);
    assert_int_equal(stats_of(&b).live_blocks, 2);
    OK(impmem_block_drop(b.pool, &first));
    OK(impmem_block_drop(b.pool, &second));
    bench_close(&b);
}

static void extra_references_run_out_exactly(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 3, 2);
    impmem_block_ref a = take(&b, 1), c = take(&b, 2), out;
    impmem_block_ref a2 = share(&b, a, IMPMEM_HOLDER_CACHE, 1);
    impmem_block_ref c2 = share(&b, c, IMPMEM_HOLDER_CACHE, 2);
    assert_int_equal(impmem_block_share(b.pool, a, IMPMEM_HOLDER_PIN, 1, &out), IMPMEM_ERR_EXHAUSTED);
    /* References beyond one per block count, whichever of a block's references was the first. */
    OK(impmem_block_drop(b.pool, &a));
    impmem_block_ref c3 = share(&b, c, IMPMEM_HOLDER_PIN, 2);
    assert_int_equal(impmem_block_share(b.pool, a2, IMPMEM_HOLDER_PIN, 1, &out), IMPMEM_ERR_EXHAUSTED);
    impmem_block_ref third = take(&b, 3); /* extra references never use up a block's own */
    assert_int_equal(stats_of(&b).references, 5);
    OK(impmem_block_pool_check(b.pool, NULL));
    OK(impmem_block_drop(b.pool, &third));
    OK(impmem_block_drop(b.pool, &c3));
    OK(impmem_block_drop(b.pool, &c2));
    OK(impmem_block_drop(b.pool, &c));
    OK(impmem_block_drop(b.pool, &a2));
    bench_close(&b);
}

static void a_transfer_moves_the_holder_and_kills_copies(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 1, 0);
    impmem_block_ref ref = take(&b, 7), copy = ref;
    OK(impmem_block_transfer(b.pool, &ref, IMPMEM_HOLDER_CACHE, 9));
    assert_int_equal(impmem_block_count(b.pool, ref), 1);
    assert_int_equal(stats_of(&b).references_by[IMPMEM_HOLDER_SEQUENCE], 0);
    assert_int_equal(stats_of(&b).references_by[IMPMEM_HOLDER_CACHE], 1);
    assert_int_equal(impmem_block_drop(b.pool, &copy), IMPMEM_ERR_STALE);
    impmem_block_holder holder;
    uint32_t n;
    OK(impmem_block_holders(b.pool, 0, &holder, 1, &n));
    assert_int_equal(n, 1);
    assert_int_equal(holder.holder, IMPMEM_HOLDER_CACHE);
    assert_int_equal(holder.owner, 9);
    OK(impmem_block_drop(b.pool, &ref));
    bench_close(&b);
}

static void drop_many_is_all_or_none(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 6, 6);
    impmem_block_ref refs[6];
    for (uint32_t i = 0; i < 4; i++) refs[i] = take(&b, i);
    refs[4] = share(&b, refs[0], IMPMEM_HOLDER_CACHE, 4);
    refs[5] = (impmem_block_ref)IMPMEM_BLOCK_REF_NONE;
    impmem_block_ref list[6];
    uint32_t bad = 77;

    memcpy(list, refs, sizeof list);
    list[3] = list[1]; /* listed twice: dropped once too often by a plain loop */
    assert_int_equal(impmem_block_drop_many(b.pool, list, 6, &bad), IMPMEM_ERR_STALE);
    assert_int_equal(bad, 3);
    assert_int_equal(stats_of(&b).references, 5);
    OK(impmem_block_pool_check(b.pool, NULL)); /* no mark was left behind */

    memcpy(list, refs, sizeof list);
    list[2].generation_ += 1000;
    assert_int_equal(impmem_block_drop_many(b.pool, list, 6, NULL), IMPMEM_ERR_STALE);
    list[2] = refs[2];
    list[5] = refs[3];
    list[5].pool_++;
    assert_int_equal(impmem_block_drop_many(b.pool, list, 6, &bad), IMPMEM_ERR_FOREIGN);
    assert_int_equal(bad, 5);
    assert_int_equal(stats_of(&b).references, 5);
    OK(impmem_block_pool_check(b.pool, NULL));

    /* Two references of one block are not a duplicate. */
    OK(impmem_block_drop_many(b.pool, refs, 6, &bad));
    for (unsigned i = 0; i < 6; i++) assert_true(impmem_block_ref_is_none(refs[i]));
    assert_int_equal(stats_of(&b).references, 0);
    assert_int_equal(stats_of(&b).free_blocks, 6);
    OK(impmem_block_drop_many(b.pool, NULL, 0, NULL));
    assert_int_equal(impmem_block_drop_many(b.pool, NULL, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_drop_many(NULL, refs, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    bench_close(&b);
}

static void take_many_is_all_or_none(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 5, 0);
    impmem_block_ref refs[6] = {0}, none = IMPMEM_BLOCK_REF_NONE;
    assert_int_equal(impmem_block_take_many(b.pool, IMPMEM_HOLDER_SEQUENCE, 1, 6, refs), IMPMEM_ERR_EXHAUSTED);
    for (unsigned i = 0; i < 6; i++) assert_memory_equal(&refs[i], &none, sizeof none);
    assert_int_equal(stats_of(&b).live_blocks, 0);
    OK(impmem_block_take_many(b.pool, IMPMEM_HOLDER_SEQUENCE, 1, 0, NULL));
    OK(impmem_block_take_many(b.pool, IMPMEM_HOLDER_SEQUENCE, 1, 5, refs));
    for (uint32_t i = 0; i < 5; i++) assert_int_equal(impmem_block_id(b.pool, refs[i]), i);
    assert_int_equal(stats_of(&b).live_peak_blocks, 5);
    assert_int_equal(stats_of(&b).takes, 5);
    OK(impmem_block_drop_many(b.pool, refs, 5, NULL));
    assert_int_equal(stats_of(&b).live_peak_blocks, 5);
    bench_close(&b);
}

static void every_generation_is_unique(void **state)
{
    (void)state;
    enum { ROUNDS = 20000 };
    bench b;
    bench_open(&b, 3, 3);
    uint64_t newest = 0;
    impmem_block_ref held = take(&b, 0);
    newest = held.generation_;
    for (unsigned i = 0; i < ROUNDS; i++) {
        impmem_block_ref a = take(&b, i), s = share(&b, a, IMPMEM_HOLDER_CACHE, i);
        assert_true(a.generation_ > newest && s.generation_ > a.generation_);
        OK(impmem_block_transfer(b.pool, &a, IMPMEM_HOLDER_PIN, i));
        assert_true(a.generation_ > s.generation_);
        newest = a.generation_;
        OK(impmem_block_drop(b.pool, &a));
        OK(impmem_block_drop(b.pool, &s));
    }
    OK(impmem_block_drop(b.pool, &held));
    bench_close(&b);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 2, 2);
    const impmem_holder nobody = (impmem_holder)IMPMEM_N_HOLDERS;
    impmem_block_ref ref = take(&b, 1), out;
    assert_int_equal(impmem_block_take(NULL, IMPMEM_HOLDER_PIN, 1, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_take(b.pool, nobody, 1, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_take(b.pool, IMPMEM_HOLDER_PIN, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_take_many(NULL, IMPMEM_HOLDER_PIN, 1, 1, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_take_many(b.pool, nobody, 1, 1, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_take_many(b.pool, IMPMEM_HOLDER_PIN, 1, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_share(NULL, ref, IMPMEM_HOLDER_PIN, 1, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_share(b.pool, ref, nobody, 1, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_share(b.pool, ref, IMPMEM_HOLDER_PIN, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_transfer(NULL, &ref, IMPMEM_HOLDER_PIN, 1), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_transfer(b.pool, NULL, IMPMEM_HOLDER_PIN, 1), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_transfer(b.pool, &ref, nobody, 1), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_drop(NULL, &ref), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_drop(b.pool, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_take_reserved(NULL, IMPMEM_HOLDER_PIN, 1, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_take_reserved(b.pool, nobody, 1, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_take_reserved(b.pool, IMPMEM_HOLDER_PIN, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_id(NULL, ref), IMPMEM_NO_BLOCK);
    assert_int_equal(impmem_block_count(NULL, ref), 0);
    impmem_block_span span;
    assert_int_equal(impmem_block_address(NULL, ref, &span), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_address(b.pool, ref, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_address(b.pool, ref, &span), IMPMEM_ERR_UNSUPPORTED);
    assert_string_equal(impmem_holder_name(IMPMEM_HOLDER_TRANSFER), "transfer");
    assert_string_equal(impmem_holder_name(nobody), "?");
    assert_int_equal(stats_of(&b).references, 1);
    OK(impmem_block_drop(b.pool, &ref));
    bench_close(&b);
}

static void an_unshared_pool_never_shares(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.blocks = 2;
    o.extra_refs = 5;
    o.unshared = true;
    impmem_block_pool *pool;
    OK(impmem_block_pool_open(w.ledger, &o, &pool, NULL));
    impmem_block_ref ref, out;
    OK(impmem_block_take(pool, IMPMEM_HOLDER_SEQUENCE, 1, &ref));
    assert_int_equal(impmem_block_share(pool, ref, IMPMEM_HOLDER_CACHE, 1, &out), IMPMEM_ERR_UNSUPPORTED);
    OK(impmem_block_drop(pool, &ref));
    OK(impmem_block_pool_close(&pool, NULL));
    world_close(&w);
}

static void reserved_blocks_are_kept_for_the_claim(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 4, 0);
    impmem_block_ref refs[4], out;
    assert_int_equal(impmem_block_pool_reserve(b.pool, 5), IMPMEM_ERR_CAPACITY);
    OK(impmem_block_pool_reserve(b.pool, 3));
    assert_int_equal(stats_of(&b).free_blocks, 4);
    assert_int_equal(stats_of(&b).reserved_blocks, 3);
    assert_int_equal(impmem_block_pool_reserve(b.pool, 2), IMPMEM_ERR_CAPACITY);
    refs[0] = take(&b, 0);
    assert_int_equal(impmem_block_take(b.pool, IMPMEM_HOLDER_SEQUENCE, 1, &out), IMPMEM_ERR_EXHAUSTED);
    assert_int_equal(impmem_block_take_many(b.pool, IMPMEM_HOLDER_SEQUENCE, 1, 1, &out), IMPMEM_ERR_EXHAUSTED);
    OK(impmem_block_take_reserved(b.pool, IMPMEM_HOLDER_SEQUENCE, 1, &refs[1]));
    assert_int_equal(stats_of(&b).reserved_blocks, 2);
    assert_int_equal(impmem_block_pool_unreserve(b.pool, 3), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_block_pool_unreserve(b.pool, 2));
    assert_int_equal(impmem_block_take_reserved(b.pool, IMPMEM_HOLDER_SEQUENCE, 1, &out), IMPMEM_ERR_EXHAUSTED);
    OK(impmem_block_take_many(b.pool, IMPMEM_HOLDER_SEQUENCE, 1, 2, &refs[2]));
    assert_int_equal(impmem_block_pool_reserve(NULL, 1), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_pool_unreserve(NULL, 0), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_block_drop_many(b.pool, refs, 4, NULL));
    bench_close(&b);
}

static void the_holders_of_a_block_are_told(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 2, 8);
    impmem_block_ref refs[4];
    refs[0] = take(&b, 100);
    refs[1] = share(&b, refs[0], IMPMEM_HOLDER_CACHE, 200);
    refs[2] = share(&b, refs[0], IMPMEM_HOLDER_PIN, 300);
    refs[3] = share(&b, refs[1], IMPMEM_HOLDER_CACHE, 400);
    impmem_block_holder holders[4];
    uint32_t n = 0;
    OK(impmem_block_holders(b.pool, 0, holders, 4, &n));
    assert_int_equal(n, 4);
    uint64_t owners = 0, kinds[IMPMEM_N_HOLDERS] = {0};
    for (unsigned i = 0; i < 4; i++) {
        owners += holders[i].owner;
        kinds[holders[i].holder]++;
    }
    assert_int_equal(owners, 1000);
    assert_int_equal(kinds[IMPMEM_HOLDER_SEQUENCE], 1);
    assert_int_equal(kinds[IMPMEM_HOLDER_CACHE], 2);
    assert_int_equal(kinds[IMPMEM_HOLDER_PIN], 1);
    OK(impmem_block_holders(b.pool, 0, holders, 2, &n)); /* room for two, told of all */
    assert_int_equal(n, 4);
    OK(impmem_block_holders(b.pool, 0, NULL, 0, &n));
    assert_int_equal(n, 4);
    OK(impmem_block_holders(b.pool, 1, holders, 4, &n));
    assert_int_equal(n, 0);
    assert_int_equal(impmem_block_holders(b.pool, 2, holders, 4, &n), IMPMEM_ERR_NOT_FOUND);
    assert_int_equal(impmem_block_holders(NULL, 0, holders, 4, &n), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_holders(b.pool, 0, NULL, 4, &n), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_block_holders(b.pool, 0, holders, 4, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_block_drop_many(b.pool, refs, 4, NULL));
    OK(impmem_block_holders(b.pool, 0, holders, 4, &n));
    assert_int_equal(n, 0);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fresh_pool_hands_out_blocks_in_order),
        cmocka_unit_test(the_last_dropped_block_comes_out_first),
        cmocka_unit_test(a_block_lives_until_its_last_reference_is_dropped),
        cmocka_unit_test(a_copied_ref_dropped_twice_changes_nothing),
        cmocka_unit_test(a_none_reference_is_nothing_to_drop),
        cmocka_unit_test(references_of_other_pools_are_foreign),
        cmocka_unit_test(a_reference_with_edited_members_is_refused),
        cmocka_unit_test(extra_references_run_out_exactly),
        cmocka_unit_test(a_transfer_moves_the_holder_and_kills_copies),
        cmocka_unit_test(drop_many_is_all_or_none),
        cmocka_unit_test(take_many_is_all_or_none),
        cmocka_unit_test(every_generation_is_unique),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(an_unshared_pool_never_shares),
        cmocka_unit_test(reserved_blocks_are_kept_for_the_claim),
        cmocka_unit_test(the_holders_of_a_block_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
