/* A block pool against the plainest model of it: a list of references. V4: free + live == total after every operation. */
#include "support/world.h"

#include "impmem/block_pool.h"
#include "property/random.h"

enum {
    OPERATIONS = 100000,
    SEEDS = 10,
    BLOCKS = 48,
    MAX_BLOCKS = 64,
    EXTRA = 40,
    MAX_REFS = MAX_BLOCKS + EXTRA,
    DEAD = 64
};
#define STRIDE 4096u

typedef struct held {
    impmem_block_ref ref;
    uint32_t block;
    impmem_holder holder;
    uint64_t owner;
} held;

typedef struct model {
    held refs[MAX_REFS];
    uint32_t n;
    uint32_t count[MAX_BLOCKS]; /* references on each block */
    uint32_t total, live, reserved, peak;
    uint64_t takes, exhausted, growths;
    /* The stack that blocks come from: dropped ones, last first; then the fresh ones in order. */
    uint32_t stack[MAX_BLOCKS], depth, fresh;
    impmem_block_ref dead[DEAD]; /* references that were dropped: each must stay refused for ever */
    uint32_t n_dead;
} model;

static uint32_t model_free(const model *m)
{
    return m->total - m->live;
}

static uint32_t model_expect_block(const model *m)
{
    return m->depth ? m->stack[m->depth - 1] : m->fresh;
}

static void model_take(model *m, impmem_block_ref ref, impmem_holder holder, uint64_t owner)
{
    uint32_t block = m->depth ? m->stack[--m->depth] : m->fresh++;
    m->refs[m->n++] = (held){ref, block, holder, owner};
    m->count[block] = 1;
    m->takes++;
    if (++m->live > m->peak) m->peak = m->live;
}

static void model_drop(model *m, uint32_t i)
{
    uint32_t block = m->refs[i].block;
    m->dead[m->n_dead++ % DEAD] = m->refs[i].ref;
    m->refs[i] = m->refs[--m->n];
    if (--m->count[block] == 0) {
        m->live--;
        m->stack[m->depth++] = block;
    }
}

static void compare(impmem_block_pool *pool, const model *m, const world *w)
{
    impmem_block_pool_stats s;
    impmem_block_pool_query(pool, &s);
    assert_int_equal(s.total_blocks, m->total);
    assert_int_equal(s.live_blocks, m->live);
    assert_int_equal(s.free_blocks + s.live_blocks, m->total);
    assert_int_equal(s.reserved_blocks, m->reserved);
    assert_int_equal(s.live_peak_blocks, m->peak);
    assert_int_equal(s.references, m->n);
    assert_int_equal(s.takes, m->takes);
    assert_int_equal(s.exhausted, m->exhausted);
    assert_int_equal(s.growths, m->growths);
    uint64_t by[IMPMEM_N_HOLDERS] = {0};
    for (uint32_t i = 0; i < m->n; i++) {
        const held *h = &m->refs[i];
        by[h->holder]++;
        if (impmem_block_id(pool, h->ref) != h->block || impmem_block_count(pool, h->ref) != m->count[h->block])
            fail_msg("reference %u: block %u expected", i, h->block);
    }
    assert_memory_equal(by, s.references_by, sizeof by);
    (void)w;
}

/* The slow looks: every table, every holder, the ledger's figure. */
static void compare_deeply(impmem_block_pool *pool, const model *m, const world *w)
{
    OK(impmem_block_pool_check(pool, NULL));
    assert_int_equal(world_live(w, LINE_C), (uint64_t)m->live * STRIDE);
    for (uint32_t b = 0; b < m->total; b++) {
        impmem_block_holder found[MAX_REFS];
        uint32_t n = 0;
        OK(impmem_block_holders(pool, b, found, MAX_REFS, &n));
        assert_int_equal(n, m->count[b]);
        uint64_t sum = 0;
        for (uint32_t i = 0; i < n; i++) sum += found[i].owner * 8 + (uint64_t)found[i].holder;
        for (uint32_t i = 0; i < m->n; i++) {
            if (m->refs[i].block == b) sum -= m->refs[i].owner * 8 + (uint64_t)m->refs[i].holder;
        }
        assert_int_equal(sum, 0);
    }
}

static void operate_take(impmem_block_pool *pool, model *m, random_source *r)
{
    impmem_holder holder = (impmem_holder)random_below(r, IMPMEM_N_HOLDERS);
    uint64_t owner = random_below(r, 1000);
    bool reserved = random_below(r, 4) == 0;
    impmem_block_ref ref;
    impmem_status st = reserved ? impmem_block_take_reserved(pool, holder, owner, &ref)
                                : impmem_block_take(pool, holder, owner, &ref);
    bool may = reserved ? m->reserved > 0 : model_free(m) > m->reserved;
    assert_int_equal(st, may ? IMPMEM_OK : IMPMEM_ERR_EXHAUSTED);
    if (st) {
        m->exhausted++;
        return;
    }
    if (reserved) m->reserved--;
    assert_int_equal(impmem_block_id(pool, ref), model_expect_block(m));
    model_take(m, ref, holder, owner);
}

static void operate_take_many(impmem_block_pool *pool, model *m, random_source *r)
{
    uint32_t n = (uint32_t)random_below(r, 12);
    uint64_t owner = random_below(r, 1000);
    impmem_block_ref refs[12];
    impmem_status st = impmem_block_take_many(pool, IMPMEM_HOLDER_SEQUENCE, owner, n, refs);
    assert_int_equal(st, model_free(m) - m->reserved >= n ? IMPMEM_OK : IMPMEM_ERR_EXHAUSTED);
    if (st) m->exhausted++;
    for (uint32_t i = 0; i < n && !st; i++) {
        assert_int_equal(impmem_block_id(pool, refs[i]), model_expect_block(m));
        model_take(m, refs[i], IMPMEM_HOLDER_SEQUENCE, owner);
    }
}

static void operate_share(impmem_block_pool *pool, model *m, random_source *r)
{
    if (!m->n) return;
    uint32_t of = (uint32_t)random_below(r, m->n);
    impmem_holder holder = (impmem_holder)random_below(r, IMPMEM_N_HOLDERS);
    uint64_t owner = random_below(r, 1000);
    impmem_block_ref ref;
    impmem_status st = impmem_block_share(pool, m->refs[of].ref, holder, owner, &ref);
    assert_int_equal(st, m->n - m->live < EXTRA ? IMPMEM_OK : IMPMEM_ERR_EXHAUSTED);
    if (st) return;
    m->refs[m->n++] = (held){ref, m->refs[of].block, holder, owner};
    m->count[m->refs[of].block]++;
}

static void operate_drop(impmem_block_pool *pool, model *m, random_source *r)
{
    if (!m->n) return;
    uint32_t i = (uint32_t)random_below(r, m->n);
    impmem_block_ref ref = m->refs[i].ref;
    OK(impmem_block_drop(pool, &ref));
    assert_true(impmem_block_ref_is_none(ref));
    model_drop(m, i);
}

static void operate_drop_many(impmem_block_pool *pool, model *m, random_source *r)
{
    if (!m->n) return;
    uint32_t n = 1 + (uint32_t)random_below(r, m->n < 10 ? m->n : 10);
    uint32_t from = (uint32_t)random_below(r, m->n - n + 1);
    impmem_block_ref list[12];
    for (uint32_t i = 0; i < n; i++) list[i] = m->refs[from + i].ref;
    uint32_t bad = 99, kind = (uint32_t)random_below(r, 4);
    if (kind == 0) { /* one listed twice */
        list[n] = list[random_below(r, n)];
        assert_int_equal(impmem_block_drop_many(pool, list, n + 1, &bad), IMPMEM_ERR_STALE);
        assert_int_equal(bad, n);
        return;
    }
    if (kind == 1 && m->n_dead) { /* one dropped before */
        uint32_t at = (uint32_t)random_below(r, n);
        list[at] = m->dead[random_below(r, m->n_dead < DEAD ? m->n_dead : DEAD)];
        assert_int_equal(impmem_block_drop_many(pool, list, n, &bad), IMPMEM_ERR_STALE);
        assert_int_equal(bad, at);
        return;
    }
    list[n] = (impmem_block_ref)IMPMEM_BLOCK_REF_NONE;
    OK(impmem_block_drop_many(pool, list, n + 1, &bad));
    for (uint32_t i = 0; i < n; i++) { /* in the order of the list, which is what the stack remembers */
        uint32_t at = 0;
        impmem_block_ref gone = list[i];
        assert_true(impmem_block_ref_is_none(gone));
        at = from + i;
        uint32_t block = m->refs[at].block;
        m->dead[m->n_dead++ % DEAD] = m->refs[at].ref;
        if (--m->count[block] == 0) {
            m->live--;
            m->stack[m->depth++] = block;
        }
    }
    for (uint32_t i = from; i + n < m->n; i++) m->refs[i] = m->refs[i + n];
    m->n -= n;
}

static void operate_transfer(impmem_block_pool *pool, model *m, random_source *r)
{
    if (!m->n) return;
    held *h = &m->refs[random_below(r, m->n)];
    m->dead[m->n_dead++ % DEAD] = h->ref;
    h->holder = (impmem_holder)random_below(r, IMPMEM_N_HOLDERS);
    h->owner = random_below(r, 1000);
    OK(impmem_block_transfer(pool, &h->ref, h->holder, h->owner));
}

static void operate_on_the_dead(impmem_block_pool *pool, model *m, random_source *r)
{
    if (!m->n_dead) return;
    impmem_block_ref dead = m->dead[random_below(r, m->n_dead < DEAD ? m->n_dead : DEAD)], out;
    assert_int_equal(impmem_block_drop(pool, &dead), IMPMEM_ERR_STALE);
    assert_int_equal(impmem_block_share(pool, dead, IMPMEM_HOLDER_PIN, 1, &out), IMPMEM_ERR_STALE);
    assert_int_equal(impmem_block_id(pool, dead), IMPMEM_NO_BLOCK);
}

static void operate_reserve(impmem_block_pool *pool, model *m, random_source *r)
{
    uint32_t n = (uint32_t)random_below(r, 8);
    if (random_below(r, 2)) {
        impmem_status st = impmem_block_pool_reserve(pool, n);
        assert_int_equal(st, model_free(m) - m->reserved >= n ? IMPMEM_OK : IMPMEM_ERR_CAPACITY);
        if (!st) m->reserved += n;
    } else {
        impmem_status st = impmem_block_pool_unreserve(pool, n);
        assert_int_equal(st, n <= m->reserved ? IMPMEM_OK : IMPMEM_ERR_INVALID_ARGUMENT);
        if (!st) m->reserved -= n;
    }
}

static void run(uint64_t seed)
{
    world w;
    world_open(&w, STRIDE);
    impmem_region *region = world_growable_region(&w, (uint64_t)MAX_BLOCKS * STRIDE, LINE_C);
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.region = region;
    o.stride_bytes = STRIDE;
    o.blocks = BLOCKS;
    o.max_blocks = MAX_BLOCKS;
    o.extra_refs = EXTRA;
    impmem_block_pool *pool;
    OK(impmem_block_pool_open(w.ledger, &o, &pool, NULL));
    static model m;
    memset(&m, 0, sizeof m);
    m.total = BLOCKS;
    random_source r = random_from(seed);
    for (uint32_t i = 0; i < OPERATIONS; i++) {
        /* Phases that fill and phases that empty, so that both ends are met. */
        bool filling = i / 500 % 2 == 0;
        switch (random_below(&r, 16)) {
        case 0:
        case 1:
        case 2: operate_take(pool, &m, &r); break;
        case 3: filling ? operate_take_many(pool, &m, &r) : operate_drop_many(pool, &m, &r); break;
        case 4:
        case 5:
        case 6: operate_share(pool, &m, &r); break;
        case 7:
        case 8:
        case 9: operate_drop(pool, &m, &r); break;
        case 10: operate_drop_many(pool, &m, &r); break;
        case 11: operate_transfer(pool, &m, &r); break;
        case 12: operate_on_the_dead(pool, &m, &r); break;
        case 13: operate_reserve(pool, &m, &r); break;
        default: filling ? operate_take(pool, &m, &r) : operate_drop(pool, &m, &r); break;
        }
        if (i % 6000 == 5999 && m.total < MAX_BLOCKS) {
            OK(impmem_block_pool_grow(pool, ++m.total, NULL));
            m.growths++;
        }
        compare(pool, &m, &w);
        if (i % 64 == 0) compare_deeply(pool, &m, &w);
    }
    assert_true(m.exhausted > 0);
    while (m.n) operate_drop(pool, &m, &r);
    OK(impmem_block_pool_unreserve(pool, m.reserved));
    compare_deeply(pool, &m, &w);
    OK(impmem_block_pool_close(&pool, NULL));
    OK(impmem_backend_release(&region, NULL));
    world_close(&w);
}

static void a_pool_agrees_with_its_model_after_every_operation(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) run(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_pool_agrees_with_its_model_after_every_operation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
