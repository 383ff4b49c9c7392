/* Layouts with sliding windows against a model of positions only: which blocks of a sequence must be there follows from the
 * window, what is promised from the bound, what is free from both. Random operations, compared after every one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "impmem/kv.h"

enum { BLOCK_TOKENS = 4, SEQUENCES = 5, MAX_TOKENS = 120, GROUPS = 3, OPERATIONS = 100000 };

typedef struct group {
    uint32_t window, in_flight, blocks;
    impmem_block_pool *pool;
    uint32_t promised, held;
} group;

typedef struct sequence {
    impmem_sequence handle;
    int live;
    uint32_t tokens, blocks, promise[GROUPS], first[GROUPS];
} sequence;

typedef struct world {
    uint64_t random;
    unsigned seed;
    long operation;
    uint32_t n_groups;
    impmem_ledger *ledger;
    impmem_kv *kv;
    group group[GROUPS];
    sequence sequence[SEQUENCES];
    uint64_t refused, cut, gone;
} world;

static uint32_t dice(world *w, uint32_t sides)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(w->random >> 33) % sides;
}

static void same(const world *w, const char *figure, uint64_t library, uint64_t model)
{
    if (library != model)
        fail_msg("seed %u, operation %ld: %s is %llu, the model says %llu", w->seed, w->operation, figure,
                 (unsigned long long)library, (unsigned long long)model);
}

static uint32_t up(uint32_t tokens)
{
    return (tokens + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
}

static uint32_t bound(const group *g, uint32_t tokens)
{
    uint32_t most = g->window ? up(g->window + g->in_flight) + 1 : UINT32_MAX;
    return up(tokens) < most ? up(tokens) : most;
}

/* The first block that a token at this position attends to. */
static uint32_t start(const group *g, uint32_t position)
{
    return g->window && position + 1 > g->window ? (position + 1 - g->window) / BLOCK_TOKENS : 0;
}

static uint32_t left(uint32_t promise, uint32_t held)
{
    return promise > held ? promise - held : 0;
}

/* Recounts what a group's sequences hold and are promised. */
static void recount(world *w)
{
    for (uint32_t i = 0; i < w->n_groups; i++) {
        group *g = &w->group[i];
        g->held = g->promised = 0;
        for (int s = 0; s < SEQUENCES; s++) {
            if (!w->sequence[s].live) continue;
            uint32_t held = w->sequence[s].blocks - w->sequence[s].first[i];
            g->held += held;
            g->promised += left(w->sequence[s].promise[i], held);
        }
    }
}

/* Whether the books balance as they stand: what is promised can be had. */
static int balanced(const world *w)
{
    for (uint32_t i = 0; i < w->n_groups; i++) {
        if (w->group[i].held + w->group[i].promised > w->group[i].blocks) return 0;
    }
    return 1;
}

static void do_admit(world *w, sequence *s)
{
    uint32_t tokens[MAX_TOKENS];
    memset(tokens, 1, sizeof tokens);
    uint32_t prompt = 1 + dice(w, 40), more = dice(w, MAX_TOKENS - 40);
    impmem_kv_request r = IMPMEM_KV_REQUEST_INIT;
    r.tokens = tokens;
    r.n_tokens = prompt;
    r.max_new_tokens = more;
    sequence fresh = {.live = 1};
    for (uint32_t i = 0; i < w->n_groups; i++) fresh.promise[i] = bound(&w->group[i], prompt + more);
    *s = fresh;
    recount(w);
    impmem_status expected = IMPMEM_OK;
    if (!balanced(w)) {
        expected = IMPMEM_ERR_CAPACITY;
        s->live = 0;
        recount(w);
        w->refused++;
    }
    same(w, "status", impmem_kv_admit(w->kv, &r, &s->handle, NULL, NULL), expected);
}

static void do_append(world *w, sequence *s)
{
    sequence before = *s;
    uint32_t n = dice(w, 8) ? dice(w, 9) : dice(w, 30);
    impmem_status expected = IMPMEM_OK;
    s->tokens += n;
    if (up(s->tokens) > s->blocks) {
        for (uint32_t i = 0; i < w->n_groups; i++) {
            uint32_t passed = start(&w->group[i], before.tokens);
            if (passed > s->first[i]) s->first[i] = passed < before.blocks ? passed : before.blocks;
        }
        s->blocks = up(s->tokens);
    }
    recount(w);
    if (s->tokens > MAX_TOKENS || !balanced(w)) {
        expected = IMPMEM_ERR_CAPACITY;
        *s = before;
        recount(w);
        w->refused++;
    }
    same(w, "status", impmem_kv_append(w->kv, s->handle, n), expected);
}

static void do_truncate(world *w, sequence *s)
{
    uint32_t n = dice(w, 3) ? s->tokens - dice(w, s->tokens < 8 ? s->tokens + 1 : 8) : dice(w, s->tokens + 1);
    impmem_status expected = IMPMEM_OK;
    for (uint32_t i = 0; i < w->n_groups; i++) {
        if (n != s->tokens && s->first[i] > start(&w->group[i], n)) expected = IMPMEM_ERR_INVALID_ARGUMENT;
    }
    same(w, "status", impmem_kv_truncate(w->kv, s->handle, n), expected);
    if (expected) {
        w->gone++;
    } else if (n != s->tokens) {
        s->tokens = n;
        s->blocks = up(n);
        w->cut++;
    }
    recount(w);
}

static void compare(const world *w)
{
    for (uint32_t i = 0; i < w->n_groups; i++) {
        impmem_block_pool_stats p;
        impmem_block_pool_query(w->group[i].pool, &p);
        same(w, "free blocks of a group", p.free_blocks, w->group[i].blocks - w->group[i].held);
        for (int at = 0; at < SEQUENCES; at++) {
            const sequence *s = &w->sequence[at];
            if (!s->live) continue;
            const uint32_t *ids;
            uint32_t n;
            same(w, "tokens", impmem_kv_tokens(w->kv, s->handle), s->tokens);
            same(w, "status of table", impmem_kv_block_table(w->kv, s->handle, i, &ids, &n), IMPMEM_OK);
            same(w, "length of table", n, s->blocks);
            for (uint32_t b = 0; b < n; b++)
                same(w, "whether a block is there", ids[b] != IMPMEM_NO_BLOCK, b >= s->first[i]);
            /* The next token never misses a block that it attends to. */
            assert_true(s->first[i] <= start(&w->group[i], s->tokens));
        }
    }
    impmem_kv_stats k;
    impmem_kv_query(w->kv, &k);
    same(w, "promised blocks", k.promised_blocks, w->group[0].promised);
    same(w, "cached blocks", k.cached_blocks, 0);
}

static void open_world(world *w, unsigned seed)
{
    static const group layouts[4][GROUPS] = {
        {{.window = 0, .blocks = 100}, {.window = 16, .in_flight = 8, .blocks = 24}, {.blocks = 0}},
        {{.window = 10, .in_flight = 8, .blocks = 20}, {.blocks = 0}, {.blocks = 0}},
        {{.window = 0, .blocks = 90},
         {.window = 7, .in_flight = 9, .blocks = 18},
         {.window = 33, .in_flight = 1, .blocks = 40}},
        {{.window = 0, .blocks = 80}, {.window = 0, .blocks = 90}, {.window = 1, .in_flight = 0, .blocks = 6}},
    };
    *w = (world){.random = seed, .seed = seed};
    impmem_ledger_options lo = IMPMEM_LEDGER_OPTIONS_INIT;
    lo.seed = seed + 1;
    assert_int_equal(impmem_ledger_create(NULL, &lo, &w->ledger), IMPMEM_OK);
    impmem_kv_options o = IMPMEM_KV_OPTIONS_INIT;
    o.block_tokens = BLOCK_TOKENS;
    o.max_sequences = SEQUENCES;
    o.max_seq_tokens = MAX_TOKENS;
    for (; w->n_groups < GROUPS && layouts[seed % 4][w->n_groups].blocks; w->n_groups++) {
        group *g = &w->group[w->n_groups];
        *g = layouts[seed % 4][w->n_groups];
        impmem_block_pool_options po = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
        po.blocks = g->blocks;
        po.unshared = true;
        assert_int_equal(impmem_block_pool_open(w->ledger, &po, &g->pool, NULL), IMPMEM_OK);
        o.group[w->n_groups].pool = g->pool;
        o.group[w->n_groups].window_tokens = g->window;
        o.group[w->n_groups].in_flight_tokens = g->in_flight;
    }
    o.n_groups = w->n_groups;
    assert_int_equal(impmem_kv_open(w->ledger, &o, &w->kv, NULL), IMPMEM_OK);
}

static void close_world(world *w)
{
    for (int s = 0; s < SEQUENCES; s++)
        if (w->sequence[s].live) assert_int_equal(impmem_kv_release(w->kv, &w->sequence[s].handle), IMPMEM_OK);
    assert_int_equal(impmem_kv_check(w->kv, NULL), IMPMEM_OK);
    assert_int_equal(impmem_kv_close(&w->kv, NULL), IMPMEM_OK);
    for (uint32_t i = 0; i < w->n_groups; i++)
        assert_int_equal(impmem_block_pool_close(&w->group[i].pool, NULL), IMPMEM_OK);
    assert_int_equal(impmem_ledger_destroy(w->ledger, NULL), IMPMEM_OK);
}

static void windows_hold_what_the_model_of_positions_says(void **state)
{
    (void)state;
    static world w;
    for (unsigned seed = 0; seed < 10; seed++) {
        open_world(&w, seed);
        for (w.operation = 0; w.operation < OPERATIONS; w.operation++) {
            sequence *s = &w.sequence[dice(&w, SEQUENCES)];
            uint32_t choice = dice(&w, 100);
            if (!s->live) {
                do_admit(&w, s);
            } else if (choice < 70) {
                do_append(&w, s);
            } else if (choice < 90) {
                do_truncate(&w, s);
            } else {
                assert_int_equal(impmem_kv_release(w.kv, &s->handle), IMPMEM_OK);
                s->live = 0;
                recount(&w);
            }
            compare(&w);
            if (w.operation % 64 == 0) assert_int_equal(impmem_kv_check(w.kv, NULL), IMPMEM_OK);
        }
        assert_true(w.refused > 1000 && w.cut > 1000 && w.gone > 1000);
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_hold_what_the_model_of_positions_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
