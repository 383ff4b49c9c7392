/* All or nothing: every call that the manager makes to the pool or to a claim is failed in turn, in every operation, and after
 * each failure all is as it was, references included. The manager's sources are compiled in here with those calls replaced.
 */
#include <stdbool.h>
#include <stdint.h>

#include "impmem/kv.h"

static uint64_t calls;   /* of functions that can be failed */
static uint64_t fail_at; /* this one fails; 0 = none does */

static bool fails(void)
{
    return ++calls == fail_at;
}

static impmem_status faulty_take(impmem_block_pool *pool, impmem_holder holder, uint64_t owner, impmem_block_ref *out)
{
    return fails() ? IMPMEM_ERR_EXHAUSTED : impmem_block_take(pool, holder, owner, out);
}

static impmem_status faulty_share(impmem_block_pool *pool, impmem_block_ref ref, impmem_holder holder, uint64_t owner,
                                  impmem_block_ref *out)
{
    return fails() ? IMPMEM_ERR_EXHAUSTED : impmem_block_share(pool, ref, holder, owner, out);
}

static impmem_status faulty_grow(impmem_block_pool *pool, uint32_t blocks, impmem_error *why)
{
    return fails() ? IMPMEM_ERR_OUT_OF_DEVICE_MEMORY : impmem_block_pool_grow(pool, blocks, why);
}

static impmem_status faulty_claim_add(impmem_claim *claim, impmem_resource resource, uint64_t amount)
{
    return fails() ? IMPMEM_ERR_CAPACITY : impmem_claim_add(claim, resource, amount);
}

#define impmem_block_take faulty_take
#define impmem_block_share faulty_share
#define impmem_block_pool_grow faulty_grow
#define impmem_claim_add faulty_claim_add
#define admit library_admit
#include "kv/admit.c"
#undef admit
#undef SUBJECT
#include "kv/blocks.c"
#include "kv/cache.c"
#include "kv/index.c"
#include "kv/kv.c"
#include "kv/namespace.c"
#include "kv/publish.c"
#include "kv/sequence.c"

#include "kv_test.h"

enum { FULL = 32, WINDOW_POOL = 16, MOST = 64 };

/* What must not change when an operation fails. */
typedef struct image {
    impmem_kv_stats stats;
    impmem_block_pool_stats pool[2];
    uint32_t order[FULL + 1], n_order; /* the eviction list */
    uint32_t tokens[8];
    uint32_t table[2][8][MOST], n_table[2][8];
    uint64_t promised[2];
} image;

static void take_image(const impmem_kv *kv, image *out)
{
    memset(out, 0, sizeof *out);
    impmem_kv_query(kv, &out->stats);
    out->stats.refused_now = 0;
    out->stats.growths = 0; /* a pool that grew may stay grown */
    out->stats.total_blocks = out->stats.free_blocks = 0;
    for (uint32_t at = kv->oldest; at; at = kv->entry[at].newer) out->order[out->n_order++] = at;
    for (uint32_t g = 0; g < kv->n_groups; g++) {
        impmem_block_pool_query(kv->group[g].pool, &out->pool[g]);
        out->promised[g] = kv->group[g].promised;
        out->pool[g].takes = out->pool[g].exhausted = out->pool[g].live_peak_blocks = out->pool[g].growths = 0;
        out->pool[g].total_blocks = out->pool[g].free_blocks = 0;
        for (uint32_t i = 0; i < kv->max_sequences; i++) {
            const impmem__kv_sequence *s = &kv->sequence[i];
            if (!s->live) continue;
            out->tokens[i] = s->tokens;
            out->n_table[g][i] = s->blocks;
            memcpy(out->table[g][i], kv->group[g].ids + impmem__kv_row(kv, s), s->blocks * sizeof(uint32_t));
        }
    }
}

static void assert_unchanged(const impmem_kv *kv, const image *before)
{
    static image now;
    take_image(kv, &now);
    assert_memory_equal(&now, before, sizeof now);
    assert_sound(kv);
}

typedef struct stage {
    impmem_ledger *ledger;
    impmem_block_pool *pool[2];
    impmem_kv *kv;
    impmem_sequence a, b;
    impmem_block_ref held;
    uint32_t tokens[MOST];
} stage;

/* A chain of eight blocks is cached; a runs on its first four with three of its own and one promised, and b, with four more
 * promised, on the same four. */
static stage set_stage(bool windows)
{
    stage t;
    memset(&t, 0, sizeof t);
    calls = fail_at = 0;
    t.ledger = open_ledger(3);
    t.pool[0] = open_pool(t.ledger, 14, FULL);
    t.pool[1] = open_pool(t.ledger, WINDOW_POOL, 0);
    impmem_kv_options o = options_over(t.pool[0]);
    if (windows) {
        o.n_groups = 2;
        o.group[1].pool = t.pool[1];
        o.group[1].window_tokens = 8;
        o.group[1].in_flight_tokens = 8;
    }
    assert_int_equal(impmem_kv_open(t.ledger, &o, &t.kv, NULL), IMPMEM_OK);
    write_tokens(t.tokens, MOST, 100);
    if (!windows) cache_prompt(t.kv, t.tokens, 33);
    for (uint32_t i = 20; i < MOST; i++) t.tokens[i] += 1000;
    t.a = admit(t.kv, t.tokens, 18, 14, NULL);
    uint32_t have = impmem_kv_tokens(t.kv, t.a);
    for (; have < 26; have++) assert_int_equal(impmem_kv_append(t.kv, t.a, 1), IMPMEM_OK);
    t.b = admit(t.kv, t.tokens, 18, 14, NULL);
    return t;
}

static void strike(stage *t)
{
    fail_at = 0;
    assert_int_equal(impmem_kv_unhold(t->kv, 0, &t->held), IMPMEM_OK);
    if (t->a.generation_) release(t->kv, &t->a);
    if (t->b.generation_) release(t->kv, &t->b);
    assert_sound(t->kv);
    impmem_kv_stats k = stats_of(t->kv);
    assert_int_equal(k.sequence_blocks, 0);
    assert_int_equal(k.promised_blocks, 0);
    assert_int_equal(k.reclaimable_blocks, k.cached_blocks);
    assert_int_equal(impmem_kv_close(&t->kv, NULL), IMPMEM_OK);
    assert_int_equal(impmem_block_pool_close(&t->pool[0], NULL), IMPMEM_OK);
    assert_int_equal(impmem_block_pool_close(&t->pool[1], NULL), IMPMEM_OK);
    assert_int_equal(impmem_ledger_destroy(t->ledger, NULL), IMPMEM_OK);
}

typedef impmem_status operation(stage *t);

/* Fails call 1, 2, ... of an operation until it makes no more. Returns how many failures the operation reported. */
static unsigned sweep(bool windows, operation *run_it)
{
    unsigned refused = 0;
    for (uint64_t at = 1;; at++) {
        static image before;
        assert_true(at < 1000);
        stage t = set_stage(windows);
        take_image(t.kv, &before);
        calls = 0;
        fail_at = at;
        impmem_status st = run_it(&t);
        bool reached = calls >= at;
        fail_at = 0;
        if (st) {
            refused++;
            assert_true(reached);
            assert_unchanged(t.kv, &before);
            assert_int_equal(run_it(&t), IMPMEM_OK); /* and nothing stands in the way of trying again */
        }
        assert_sound(t.kv);
        strike(&t);
        if (!reached) return refused;
    }
}

static impmem_status admit_one(stage *t)
{
    static const uint32_t changed[4] = {1, 2, 3, 4};
    uint32_t tokens[33];
    memcpy(tokens, t->tokens, sizeof tokens);
    memcpy(tokens + 28, changed, sizeof changed);
    impmem_kv_request r = request_of(tokens, 33, 7);
    impmem_sequence s = IMPMEM_SEQUENCE_NONE;
    impmem_status st = impmem_kv_admit(t->kv, &r, &s, NULL, NULL);
    if (!st) release(t->kv, &s);
    return st;
}

static impmem_status append_many(stage *t)
{
    return impmem_kv_append(t->kv, t->a, 6);
}

static impmem_status append_beyond_the_promise(stage *t)
{
    return impmem_kv_append(t->kv, t->a, 30);
}

static impmem_status publish_all(stage *t)
{
    return impmem_kv_publish(t->kv, t->a, t->tokens, 26);
}

static impmem_status cut(stage *t)
{
    return impmem_kv_truncate(t->kv, t->a, 0);
}

static impmem_status hold_one(stage *t)
{
    impmem_status st = impmem_kv_hold(t->kv, t->a, 0, 1, IMPMEM_HOLDER_TRANSFER, 1, &t->held);
    assert_int_equal(impmem_block_ref_is_none(t->held), st != IMPMEM_OK);
    return st;
}

static impmem_status give_all_back(stage *t)
{
    impmem_status st = impmem_kv_release(t->kv, &t->a);
    return st ? st : impmem_kv_release(t->kv, &t->b);
}

static impmem_status evict_some(stage *t)
{
    return impmem_kv_evict(t->kv, 2) == 2 ? IMPMEM_OK : IMPMEM_ERR_STATE;
}

static void admit_fails_whole_at_every_step(void **state)
{
    (void)state;
    assert_true(sweep(false, admit_one) >= 1); /* the claim; a share that fails costs hits only */
    assert_true(sweep(true, admit_one) >= 2);  /* a part for each group */
}

static void append_fails_whole_at_every_step(void **state)
{
    (void)state;
    assert_true(sweep(false, append_many) >= 1);
    assert_true(sweep(true, append_many) >= 1);
    assert_true(sweep(false, append_beyond_the_promise) >= 6);
    assert_true(sweep(true, append_beyond_the_promise) >= 7);
}

static void publish_never_fails_and_keeps_the_books_at_every_step(void **state)
{
    (void)state;
    assert_int_equal(sweep(false, publish_all), 0);
}

/* Giving up the four shared blocks frees none of them, so that promising them again makes the pool grow. */
static void truncate_fails_whole(void **state)
{
    (void)state;
    assert_int_equal(sweep(false, cut), 1);
}

static void hold_fails_whole(void **state)
{
    (void)state;
    assert_int_equal(sweep(false, hold_one), 1);
}

static void release_and_evict_need_nothing_that_can_fail(void **state)
{
    (void)state;
    assert_int_equal(sweep(false, give_all_back), 0);
    assert_int_equal(sweep(true, give_all_back), 0);
    assert_int_equal(sweep(false, evict_some), 0);
}

/* V5: whatever fails, and in whatever order, the references balance. */
static void references_balance_when_every_hundredth_call_fails(void **state)
{
    (void)state;
    for (uint64_t phase = 1; phase <= 100; phase++) {
        stage t = set_stage(false);
        for (int i = 0; i < 60; i++) {
            uint32_t prompt[40];
            write_tokens(prompt, 40, 100 + 1000 * (uint32_t)(i % 3));
            impmem_kv_request r = request_of(prompt, 33, 0);
            impmem_sequence s;
            fail_at = calls + phase;
            if (impmem_kv_admit(t.kv, &r, &s, NULL, NULL)) continue;
            impmem_status st = impmem_kv_append(t.kv, s, 33 - impmem_kv_tokens(t.kv, s));
            if (!st) assert_int_equal(impmem_kv_publish(t.kv, s, prompt, 33), IMPMEM_OK);
            release(t.kv, &s);
            assert_sound(t.kv);
        }
        strike(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(admit_fails_whole_at_every_step),
        cmocka_unit_test(append_fails_whole_at_every_step),
        cmocka_unit_test(publish_never_fails_and_keeps_the_books_at_every_step),
        cmocka_unit_test(truncate_fails_whole),
        cmocka_unit_test(hold_fails_whole),
        cmocka_unit_test(release_and_evict_need_nothing_that_can_fail),
        cmocka_unit_test(references_balance_when_every_hundredth_call_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
