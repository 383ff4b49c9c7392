/* Random operations against a naive model of the books: after every single one, journal, tallies and fake agree with it.
 * The seed's V1 (conservation), V2 (no acquisition while serving) and V9 (the base never moves).
 */
#include "helpers.h"

#define G ((uint64_t)4096)
#define SLOTS 6u
#define GRANULES 40u

typedef struct model_region {
    impmem_region *region;
    void *base;
    bool growable;
    bool on_line_b;
    bool committed[GRANULES];
    uint64_t granules;
} model_region;

typedef struct model {
    uint64_t random;
    impmem_ledger *ledger;
    impmem_backend *backend[2];
    impmem_fake *fake[2];
    model_region slot[SLOTS];
    uint64_t charged;
    uint64_t budget;
} model;

/* splitmix64 */
static uint64_t draw(model *m, uint64_t below)
{
    uint64_t z = (m->random += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (z ^ (z >> 31)) % below;
}

static uint64_t count(const model_region *r, uint64_t begin, uint64_t end, bool value)
{
    uint64_t n = 0;
    for (uint64_t i = begin; i < end; i++) n += r->committed[i] == value;
    return n;
}

static uint64_t held(const model *m, int backend)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < SLOTS; i++) {
        if (m->slot[i].region && (backend < 0 || (int)(i % 2) == backend))
            bytes += count(&m->slot[i], 0, m->slot[i].granules, true) * G;
    }
    return bytes;
}

static uint64_t left(const model *m)
{
    return m->budget - m->charged - held(m, -1);
}

static void check(const model *m)
{
    impmem_usage device, a, b;
    impmem_ledger_account_usage(m->ledger, IMPMEM_ACCOUNT_DEVICE, &device);
    OK(impmem_ledger_line_usage(m->ledger, LINE_A, &a));
    OK(impmem_ledger_line_usage(m->ledger, LINE_B, &b));
    assert_balanced(m->ledger);
    assert_true(device.committed_bytes == m->charged + held(m, -1));
    assert_true(device.committed_bytes <= m->budget);
    assert_true(a.committed_bytes + b.committed_bytes == held(m, -1));
    for (int i = 0; i < 2; i++) assert_true(impmem_fake_held_bytes(m->fake[i]) == held(m, i));
    for (unsigned i = 0; i < SLOTS; i++) {
        const model_region *r = &m->slot[i];
        if (!r->region) continue;
        uint64_t prefix = 0;
        while (prefix < r->granules && r->committed[prefix]) prefix++;
        assert_ptr_equal(impmem_region_base(r->region), r->base);
        assert_true(impmem_region_committed_bytes(r->region) == count(r, 0, r->granules, true) * G);
        assert_true(impmem_region_committed_prefix(r->region) == prefix * G);
    }
}

static void open_slot(model *m, unsigned i)
{
    model_region *r = &m->slot[i];
    memset(r, 0, sizeof *r);
    r->growable = draw(m, 2);
    r->on_line_b = draw(m, 2);
    r->granules = 1 + draw(m, r->growable ? GRANULES : 8);
    impmem_acquire_info info = want((r->granules - 1) * G + 1 + draw(m, G), r->on_line_b ? LINE_B : LINE_A,
                                    IMPMEM_TAG_KV_BLOCKS);
    impmem_status expected = IMPMEM_OK;
    if (!r->growable && r->granules * G > left(m)) expected = IMPMEM_ERR_BUDGET_EXCEEDED;
    impmem_region *region = NULL;
    impmem_status st = r->growable ? impmem_backend_reserve(m->backend[i % 2], &info, &region, NULL)
                                   : impmem_backend_acquire(m->backend[i % 2], &info, &region, NULL);
    assert_int_equal(st, expected);
    r->region = region;
    if (!region) return;
    r->base = impmem_region_base(region);
    for (uint64_t g = 0; g < r->granules; g++) r->committed[g] = !r->growable;
}

static void change_slot(model *m, model_region *r)
{
    uint64_t begin = draw(m, r->granules + 1), end = begin + draw(m, r->granules + 1 - begin), out = 0;
    impmem_status st, expected = IMPMEM_OK;
    uint64_t room = left(m);
    switch (draw(m, 3)) {
    case 0: /* [0, end) and nothing else */
        if ((count(r, 0, end, false)) * G > room + count(r, end, r->granules, true) * G)
            expected = IMPMEM_ERR_BUDGET_EXCEEDED;
        st = impmem_region_commit(r->region, end * G, &out, NULL);
        if (!expected) {
            for (uint64_t g = 0; g < r->granules; g++) r->committed[g] = g < end;
        }
        break;
    case 1:
        if (count(r, begin, end, false) * G > room) expected = IMPMEM_ERR_BUDGET_EXCEEDED;
        st = impmem_region_commit_range(r->region, begin * G, (end - begin) * G, &out, NULL);
        if (!expected) {
            for (uint64_t g = begin; g < end; g++) r->committed[g] = true;
        }
        break;
    default:
        st = impmem_region_decommit_range(r->region, begin * G, (end - begin) * G, &out, NULL);
        for (uint64_t g = begin; g < end; g++) r->committed[g] = false;
        break;
    }
    assert_int_equal(st, expected);
    assert_true(out == count(r, 0, r->granules, true) * G);
}

static void charge_or_uncharge(model *m)
{
    uint64_t bytes = 1 + draw(m, 3 * G);
    if (draw(m, 2)) {
        impmem_status expected = bytes > left(m) ? IMPMEM_ERR_BUDGET_EXCEEDED : IMPMEM_OK;
        assert_int_equal(impmem_ledger_charge(m->ledger, LINE_CHARGE, bytes, NULL), expected);
        if (!expected) m->charged += bytes;
    } else {
        impmem_status expected = bytes > m->charged ? IMPMEM_ERR_INVALID_ARGUMENT : IMPMEM_OK;
        assert_int_equal(impmem_ledger_uncharge(m->ledger, LINE_CHARGE, bytes), expected);
        if (!expected) m->charged -= bytes;
    }
}

static void random_operations_conserve_every_byte(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        model m;
        memset(&m, 0, sizeof m);
        m.random = seed;
        m.budget = 64 * G + seed * 1000;
        impmem_ledger_options o = IMPMEM_LEDGER_OPTIONS_INIT;
        o.journal_records = (uint32_t)(1 + seed * 13 % 100); /* short rings: most records are folded */
        m.ledger = make_ledger(m.budget, &o);
        for (int i = 0; i < 2; i++) m.backend[i] = make_fake(m.ledger, G, true, &m.fake[i]);
        for (unsigned step = 0; step < 1500; step++) {
            unsigned i = (unsigned)draw(&m, SLOTS);
            model_region *r = &m.slot[i];
            if (draw(&m, 8) == 0) charge_or_uncharge(&m);
            else if (!r->region) open_slot(&m, i);
            else if (r->growable && draw(&m, 6)) change_slot(&m, r);
            else OK(impmem_backend_release(&r->region, NULL));
            check(&m);
        }
        for (unsigned i = 0; i < SLOTS; i++) OK(impmem_backend_release(&m.slot[i].region, NULL));
        OK(impmem_backend_destroy(m.backend[0], NULL));
        destroy_all(m.backend[1], m.ledger);
    }
}

/* A synthetic decode loop: planned growth ahead of it, writes in it, no record of an acquisition in the Serving phase. */
static void a_decode_loop_acquires_nothing(void **state)
{
    (void)state;
    impmem_ledger *ledger = make_ledger(UINT64_MAX, NULL);
    impmem_backend *backend = make_fake(ledger, G, true, NULL);
    impmem_acquire_info info = want(64 * G, LINE_A, IMPMEM_TAG_KV_BLOCKS);
    impmem_region *region = NULL;
    OK(impmem_backend_reserve(backend, &info, &region, NULL));
    OK(impmem_region_commit(region, 4 * G, NULL, NULL));
    OK(impmem_ledger_set_phase(ledger, IMPMEM_PHASE_SERVING, NULL));
    unsigned char *base = impmem_region_base(region);
    for (uint64_t token = 0; token < 64 * 16; token++) {
        uint64_t at = token * (G / 16);
        if (at + 2 * G > impmem_region_committed_prefix(region) && at + 2 * G <= 64 * G)
            OK(impmem_region_commit(region, at + 2 * G, NULL, NULL));
        memset(base + at, (int)(token & 0xFF), (size_t)(G / 16));
    }
    uint64_t commits = 0;
    for (uint64_t i = impmem_ledger_journal_first(ledger); i < impmem_ledger_journal_end(ledger); i++) {
        impmem_journal_record record;
        OK(impmem_ledger_journal_read(ledger, i, &record));
        if (record.phase != IMPMEM_PHASE_SERVING) continue;
        assert_int_not_equal(record.op, IMPMEM_JOURNAL_ACQUIRE);
        assert_int_not_equal(record.op, IMPMEM_JOURNAL_RESERVE);
        commits += record.op == IMPMEM_JOURNAL_COMMIT;
    }
    assert_true(impmem_ledger_serving_acquisitions(ledger) == 0);
    assert_true(commits == impmem_ledger_serving_commits(ledger) && commits > 0);
    OK(impmem_backend_release(&region, NULL));
    destroy_all(backend, ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations_conserve_every_byte),
        cmocka_unit_test(a_decode_loop_acquires_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
