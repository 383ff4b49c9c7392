/* An arena against the plainest model of it: a list of takes. V3: after a reset no byte of it is live. */
#include "support/world.h"

#include "impmem/arena.h"
#include "property/random.h"

enum { OPERATIONS = 100000, SEEDS = 10, LINES = 3, MAX_TAKES = 4096, DEAD = 32 };
#define GRANULE 4096u
#define CAPACITY (64u * GRANULE)

static const impmem_line_share shares[LINES] = {{LINE_A, CAPACITY / 2}, {LINE_B, CAPACITY / 4}, {LINE_C, CAPACITY / 4}};

typedef struct taken {
    impmem_engine_span span;
    uint64_t begin, end; /* of its bytes */
} taken;

typedef struct model {
    taken takes[MAX_TAKES];
    uint32_t n;
    uint64_t top;
    uint64_t live[LINES];
    uint64_t high_water, count, exhausted, resets;
    impmem_engine_span dead[DEAD];
    uint32_t n_dead;
} model;

/* What the header promises of a take, computed the long way round. */
static impmem_status expect(const model *m, uint64_t base, unsigned line, bool shared, uint64_t bytes, uint64_t alignment,
                            uint64_t *begin, uint64_t *occupied)
{
    uint64_t at = base + m->top;
    while (at % alignment) at++;
    *begin = at - base;
    uint64_t pad = *begin - m->top;
    uint64_t limit = CAPACITY - m->top;
    if (shared && shares[line].bytes - m->live[line] < pad + bytes)
        return limit < pad + bytes ? IMPMEM_ERR_EXHAUSTED : IMPMEM_ERR_LINE_EXCEEDED;
    if (limit < pad + bytes) return IMPMEM_ERR_EXHAUSTED;
    if (shared && shares[line].bytes - m->live[line] < limit) limit = shares[line].bytes - m->live[line];
    uint64_t unit = alignment < 256 ? alignment : 256;
    uint64_t rounded = bytes;
    while (rounded % unit) rounded++;
    *occupied = pad + rounded < limit ? pad + rounded : limit;
    return IMPMEM_OK;
}

static void compare(const world *w, const impmem_arena *arena, const model *m, bool shared)
{
    impmem_arena_stats s;
    impmem_arena_query(arena, &s);
    assert_int_equal(s.used_bytes, m->top);
    assert_int_equal(s.high_water_bytes, m->high_water);
    assert_int_equal(s.takes, m->count);
    assert_int_equal(s.exhausted, m->exhausted);
    assert_int_equal(s.generation, m->resets);
    assert_int_equal(s.largest_free_bytes, CAPACITY - m->top);
    if (shared) {
        for (unsigned i = 0; i < LINES; i++) assert_int_equal(world_live(w, shares[i].line), m->live[i]);
    } else {
        assert_int_equal(world_live(w, LINE_A), m->live[0]);
    }
}

static void operate_take(world *w, impmem_arena *arena, model *m, uint64_t base, bool shared, random_source *r)
{
    unsigned line = shared ? (unsigned)random_below(r, LINES) : 0;
    uint64_t alignment = (uint64_t)1 << random_below(r, 14);
    uint64_t most = random_below(r, 10) == 0 ? CAPACITY : 3000;
    uint64_t bytes = 1 + random_below(r, most);
    uint64_t begin = 0, occupied = 0;
    impmem_status wanted = expect(m, base, line, shared, bytes, alignment, &begin, &occupied);
    impmem_engine_span span;
    impmem_status st = impmem_arena_take_engine(arena, shares[line].line, bytes, alignment, &span);
    assert_int_equal(st, wanted);
    if (st) {
        m->exhausted++;
        return;
    }
    assert_int_equal((uintptr_t)impmem_stable_data(impmem_stable(span)) - base, begin);
    assert_int_equal(impmem_stable_bytes(impmem_stable(span)), bytes);
    assert_true(!m->n || m->takes[m->n - 1].end <= begin); /* no two takes overlap */
    assert_true(begin + bytes <= CAPACITY);
    OK(impmem_span_check(w->ledger, impmem_stable(span)));
    assert_true(m->n < MAX_TAKES);
    m->takes[m->n++] = (taken){span, begin, begin + bytes};
    m->top += occupied;
    m->live[line] += occupied;
    m->count++;
    if (m->top > m->high_water) m->high_water = m->top;
}

static void operate_reset(impmem_arena *arena, model *m)
{
    for (uint32_t i = 0; i < m->n && i < 4; i++) m->dead[m->n_dead++ % DEAD] = m->takes[i].span;
    impmem_arena_reset(arena);
    m->n = 0;
    m->top = 0;
    memset(m->live, 0, sizeof m->live);
    m->resets++;
}

static void operate_check(const world *w, const model *m, random_source *r)
{
    if (m->n) OK(impmem_span_check(w->ledger, impmem_stable(m->takes[random_below(r, m->n)].span)));
    if (m->n_dead) {
        uint64_t i = random_below(r, m->n_dead < DEAD ? m->n_dead : DEAD);
        assert_int_equal(impmem_span_check(w->ledger, impmem_stable(m->dead[i])), IMPMEM_ERR_STALE);
    }
}

static void run(uint64_t seed, bool shared)
{
    static model m;
    memset(&m, 0, sizeof m);
    world w;
    world_open(&w, GRANULE);
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = CAPACITY;
    info.tag = IMPMEM_TAG_ENGINE_PERSISTENT;
    info.line = LINE_A;
    info.shares = shared ? shares : NULL;
    info.n_shares = shared ? LINES : 0;
    impmem_region *region = NULL;
    OK(impmem_backend_acquire(w.fixed, &info, &region, NULL));
    impmem_arena *arena;
    OK(impmem_arena_open(region, IMPMEM_TIER_ENGINE, &arena, NULL));
    uint64_t base = (uint64_t)(uintptr_t)impmem_region_base(region);
    random_source r = random_from(seed);
    for (uint32_t i = 0; i < OPERATIONS; i++) {
        uint64_t what = random_below(&r, 100);
        if (what < 90) operate_take(&w, arena, &m, base, shared, &r);
        else if (what < 92) operate_reset(arena, &m);
        else operate_check(&w, &m, &r);
        compare(&w, arena, &m, shared);
    }
    assert_true(m.resets > 1000 && m.exhausted > 1000 && m.count > 10000);
    operate_reset(arena, &m);
    compare(&w, arena, &m, shared);
    impmem_arena_close(&arena);
    OK(impmem_backend_release(&region, NULL));
    world_close(&w);
}

static void an_arena_of_one_line_agrees_with_its_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) run(seed, false);
}

static void an_arena_of_several_lines_agrees_with_its_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) run(seed + 100, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_arena_of_one_line_agrees_with_its_model),
        cmocka_unit_test(an_arena_of_several_lines_agrees_with_its_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
