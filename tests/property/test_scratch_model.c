/* A scratch stack against the plainest model of it: a stack of marks, each with its takes. V6: marks rewind in reverse
 * order and in no other.
 */
#include "support/world.h"

#include "impmem/scratch.h"
#include "property/random.h"

enum { OPERATIONS = 100000, SEEDS = 10, MAX_TAKES = 4096, DEAD = 64 };
#define GRANULE 4096u
#define CAPACITY (16u * GRANULE)

typedef struct level {
    impmem_scratch_mark mark;
    uint64_t top;
    uint32_t first_take;
} level;

typedef struct model {
    level levels[IMPMEM_SCRATCH_MAX_DEPTH];
    uint32_t depth;
    impmem_scratch_span takes[MAX_TAKES];
    uint32_t n;
    uint64_t top, high_water, wanted, count, exhausted;
    impmem_scratch_mark dead_marks[DEAD];
    uint32_t n_dead_marks;
    impmem_scratch_span dead_spans[DEAD];
    uint32_t n_dead_spans;
} model;

static uint32_t at_most(uint32_t n, uint32_t limit)
{
    return n < limit ? n : limit;
}

static void compare(const world *w, const impmem_scratch *scratch, const model *m)
{
    impmem_scratch_stats s;
    impmem_scratch_query(scratch, &s);
    assert_int_equal(s.capacity_bytes, CAPACITY);
    assert_int_equal(s.used_bytes, m->top);
    assert_int_equal(s.high_water_bytes, m->high_water);
    assert_int_equal(s.wanted_bytes, m->wanted > m->high_water ? m->wanted : m->high_water);
    assert_int_equal(s.takes, m->count);
    assert_int_equal(s.exhausted, m->exhausted);
    assert_int_equal(s.depth, m->depth);
    assert_int_equal(world_live(w, LINE_A), m->top);
    assert_int_equal(world_peak(w, LINE_A), m->high_water);
}

static void operate_push(impmem_scratch *scratch, model *m)
{
    impmem_scratch_mark mark = impmem_scratch_push(scratch);
    if (m->depth == IMPMEM_SCRATCH_MAX_DEPTH) {
        assert_int_equal(impmem_scratch_pop(scratch, mark), IMPMEM_ERR_ORDER);
        return;
    }
    m->levels[m->depth++] = (level){mark, m->top, m->n};
}

static void operate_take(const world *w, impmem_scratch *scratch, model *m, uint64_t base, random_source *r)
{
    uint64_t alignment = (uint64_t)1 << random_below(r, 13);
    uint64_t bytes = 1 + random_below(r, random_below(r, 20) == 0 ? 2 * CAPACITY : 2000);
    impmem_scratch_span span;
    impmem_status st = impmem_scratch_take(scratch, bytes, alignment, &span);
    if (!m->depth) {
        assert_int_equal(st, IMPMEM_ERR_STATE);
        return;
    }
    uint64_t begin = m->top;
    while ((base + begin) % alignment) begin++;
    if (begin + bytes > CAPACITY) {
        assert_int_equal(st, IMPMEM_ERR_EXHAUSTED);
        m->exhausted++;
        if (begin + bytes > m->wanted) m->wanted = begin + bytes;
        return;
    }
    OK(st);
    assert_int_equal((uintptr_t)impmem_stable_data(impmem_stable(span)) - base, begin);
    OK(impmem_span_check(w->ledger, impmem_stable(span)));
    assert_true(m->n < MAX_TAKES);
    m->takes[m->n++] = span;
    m->count++;
    m->top = begin + bytes;
    if (m->top > m->high_water) m->high_water = m->top;
}

static void operate_pop(impmem_scratch *scratch, model *m, random_source *r)
{
    if (!m->depth) return;
    if (m->depth > 1 && random_below(r, 4) == 0) { /* an outer mark while inner ones are open */
        uint64_t outer = random_below(r, m->depth - 1);
        assert_int_equal(impmem_scratch_pop(scratch, m->levels[outer].mark), IMPMEM_ERR_ORDER);
        return;
    }
    level *l = &m->levels[--m->depth];
    OK(impmem_scratch_pop(scratch, l->mark));
    m->dead_marks[m->n_dead_marks++ % DEAD] = l->mark;
    for (uint32_t i = l->first_take; i < m->n && i < l->first_take + 4; i++)
        m->dead_spans[m->n_dead_spans++ % DEAD] = m->takes[i];
    m->n = l->first_take;
    m->top = l->top;
}

static void operate_check(const world *w, impmem_scratch *scratch, const model *m, random_source *r)
{
    if (m->n) OK(impmem_span_check(w->ledger, impmem_stable(m->takes[random_below(r, m->n)])));
    if (m->n_dead_spans) {
        uint64_t i = random_below(r, at_most(m->n_dead_spans, DEAD));
        assert_int_equal(impmem_span_check(w->ledger, impmem_stable(m->dead_spans[i])), IMPMEM_ERR_STALE);
    }
    if (m->n_dead_marks) {
        uint64_t i = random_below(r, at_most(m->n_dead_marks, DEAD));
        assert_int_equal(impmem_scratch_pop(scratch, m->dead_marks[i]), IMPMEM_ERR_ORDER);
    }
}

static void run(uint64_t seed)
{
    static model m;
    memset(&m, 0, sizeof m);
    world w;
    world_open(&w, GRANULE);
    impmem_region *region = world_region(&w, CAPACITY, LINE_A);
    impmem_scratch *scratch;
    OK(impmem_scratch_open(region, &scratch, NULL));
    uint64_t base = (uint64_t)(uintptr_t)impmem_region_base(region);
    random_source r = random_from(seed);
    uint32_t deepest = 0;
    for (uint32_t i = 0; i < OPERATIONS; i++) {
        uint64_t pushes = i / 400 % 2 == 0 ? 35 : 15; /* phases that deepen and phases that come back */
        uint64_t what = random_below(&r, 100);
        if (what < pushes) operate_push(scratch, &m);
        else if (what < 50) operate_pop(scratch, &m, &r);
        else if (what < 85) operate_take(&w, scratch, &m, base, &r);
        else operate_check(&w, scratch, &m, &r);
        if (m.depth > deepest) deepest = m.depth;
        compare(&w, scratch, &m);
    }
    assert_int_equal(deepest, IMPMEM_SCRATCH_MAX_DEPTH);
    assert_true(m.exhausted > 1000 && m.count > 1000);
    while (m.depth) {
        OK(impmem_scratch_pop(scratch, m.levels[m.depth - 1].mark));
        m.depth--;
    }
    OK(impmem_scratch_close(&scratch, NULL));
    OK(impmem_backend_release(&region, NULL));
    world_close(&w);
}

static void a_stack_agrees_with_its_model_after_every_operation(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) run(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_stack_agrees_with_its_model_after_every_operation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
