/* The cache policies of cache-sim against models that are too slow for traces but plainly right. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../../tools/impmem/cache_policy_impmem.c"
#include "../../../tools/impmem/sim_cache.c"
#include "../../../tools/impmem/sim_cache_bound.c"
#include "../../../tools/impmem/sim_cache_lru.c"
/* Of it the tokens of a block. */
#include "../../../tools/impmem/trace.c"
#include "../../../tools/impmem/trace_azure.c"
#include "../../../tools/impmem/trace_mooncake.c"
#include "../../../tools/impmem/trace_read.c"

enum { MAX_REQUESTS = 64, MAX_SLOTS = 1024, MAX_BLOCKS = 64 };

typedef struct small_trace {
    trace t;
    trace_request request[MAX_REQUESTS];
    uint64_t id[MAX_SLOTS];
} small_trace;

static void begin(small_trace *s)
{
    memset(s, 0, sizeof *s);
    s->t.requests = s->request;
    s->t.ids = s->id;
    s->t.block_tokens = 512;
}

static void add_prompt(small_trace *s, uint32_t n, const uint64_t *ids)
{
    assert_true(s->t.n_requests < MAX_REQUESTS && s->t.n_ids + n <= MAX_SLOTS);
    s->request[s->t.n_requests++] = (trace_request){.first_id = s->t.n_ids, .n_ids = n, .input_tokens = 512 * n};
    for (uint32_t i = 0; i < n; i++) s->id[s->t.n_ids++] = ids[i];
}

#define PROMPT(s, ...) add_prompt(s, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), (const uint64_t[]){__VA_ARGS__})

static uint64_t hits(const small_trace *s, const sim_policy *policy, uint64_t capacity)
{
    sim_workload w;
    impmem_error why = IMPMEM_ERROR_INIT;
    uint64_t n = UINT64_MAX;
    assert_int_equal(sim_workload_open(&s->t, &w, &why), IMPMEM_OK);
    assert_int_equal(sim_cache_run(policy, &w, capacity, &n), IMPMEM_OK);
    sim_workload_close(&w);
    return n;
}

static small_trace s;

static void a_workload_numbers_blocks_and_knows_their_next_uses(void **state)
{
    (void)state;
    begin(&s);
    PROMPT(&s, 900, 7, UINT64_MAX);
    add_prompt(&s, 0, NULL);
    PROMPT(&s, 900, 8);
    PROMPT(&s, 900, 7);
    sim_workload w;
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(sim_workload_open(&s.t, &w, &why), IMPMEM_OK);
    assert_int_equal(w.n_requests, 4);
    assert_int_equal(w.n_slots, 7);
    assert_int_equal(w.n_blocks, 4);
    assert_int_equal(w.n_unchained, 0);
    static const uint32_t block[] = {0, 1, 2, 0, 3, 0, 1};
    static const uint32_t next_use[] = {2, 3, SIM_NONE, 3, SIM_NONE, SIM_NONE, SIM_NONE};
    assert_memory_equal(w.block, block, sizeof block);
    assert_memory_equal(w.next_use, next_use, sizeof next_use);
    sim_workload_close(&w);
    assert_null(w.block);
}

static void a_block_that_a_prompt_holds_twice_is_not_its_own_next_use(void **state)
{
    (void)state;
    begin(&s);
    PROMPT(&s, 1, 2, 1);
    PROMPT(&s, 1);
    sim_workload w;
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(sim_workload_open(&s.t, &w, &why), IMPMEM_OK);
    static const uint32_t next_use[] = {1, SIM_NONE, 1, SIM_NONE};
    assert_memory_equal(w.next_use, next_use, sizeof next_use);
    sim_workload_close(&w);
}

static void a_block_that_follows_another_one_is_counted_as_unchained(void **state)
{
    (void)state;
    begin(&s);
    PROMPT(&s, 1, 2, 3);
    PROMPT(&s, 2, 3); /* 2 begins a prompt */
    PROMPT(&s, 1, 3); /* 3 follows 1 */
    PROMPT(&s, 5, 5); /* 5 follows itself */
    sim_workload w;
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(sim_workload_open(&s.t, &w, &why), IMPMEM_OK);
    assert_int_equal(w.n_unchained, 3);
    sim_workload_close(&w);
}

static void a_trace_too_large_for_32_bit_numbers_is_refused(void **state)
{
    (void)state;
    begin(&s);
    sim_workload w;
    impmem_error why = IMPMEM_ERROR_INIT;
    s.t.n_requests = UINT32_MAX;
    assert_int_equal(sim_workload_open(&s.t, &w, &why), IMPMEM_ERR_TOO_LARGE);
    s.t.n_requests = 0;
    s.t.n_ids = UINT32_MAX;
    assert_int_equal(sim_workload_open(&s.t, &w, &why), IMPMEM_ERR_TOO_LARGE);
    s.t.n_ids = 0;
    assert_int_equal(hits(&s, &sim_policy_lru, 1), 0);
    assert_int_equal(hits(&s, &sim_policy_bound, 1), 0);
}

static void lru_keeps_the_head_of_a_prompt_that_is_longer_than_the_cache(void **state)
{
    (void)state;
    begin(&s);
    PROMPT(&s, 1, 2, 3);
    PROMPT(&s, 1, 2, 3);
    assert_int_equal(hits(&s, &sim_policy_lru, 1), 1);
    assert_int_equal(hits(&s, &sim_policy_lru, 2), 2);
    assert_int_equal(hits(&s, &sim_policy_lru, 3), 3);
}

static void lru_drops_the_prompt_that_was_used_longest_ago(void **state)
{
    (void)state;
    begin(&s);
    PROMPT(&s, 1, 2);
    PROMPT(&s, 3, 4);
    PROMPT(&s, 1, 2); /* 2 hits; 3, 4 are the oldest now */
    PROMPT(&s, 5);    /* drops 4, the tail */
    PROMPT(&s, 3, 4); /* 1 hit; drops 2, the older prompt's tail */
    PROMPT(&s, 1, 2); /* 1 hit */
    assert_int_equal(hits(&s, &sim_policy_lru, 4), 2 + 1 + 1);
}

static void a_held_block_behind_a_missing_one_is_no_hit(void **state)
{
    (void)state;
    begin(&s);
    PROMPT(&s, 2);
    PROMPT(&s, 1, 2);
    assert_int_equal(hits(&s, &sim_policy_lru, 10), 0);
    assert_int_equal(hits(&s, &sim_policy_bound, 10), 0);
}

static void hits_are_counted_before_the_prompt_is_taken_in(void **state)
{
    (void)state;
    begin(&s);
    PROMPT(&s, 1, 1, 1);
    assert_int_equal(hits(&s, &sim_policy_lru, 10), 0);
    assert_int_equal(hits(&s, &sim_policy_bound, 10), 0);
    PROMPT(&s, 1, 1, 1);
    assert_int_equal(hits(&s, &sim_policy_lru, 10), 3);
    assert_int_equal(hits(&s, &sim_policy_bound, 10), 3);
}

static void the_bound_drops_what_is_used_last_and_what_is_never_used_first(void **state)
{
    (void)state;
    begin(&s);
    PROMPT(&s, 1);
    PROMPT(&s, 2);
    PROMPT(&s, 3);
    PROMPT(&s, 1);
    PROMPT(&s, 4);
    PROMPT(&s, 2);
    /* With one place only 1 is worth it till its second use; then 2, which was dropped by then. With two, both. */
    assert_int_equal(hits(&s, &sim_policy_bound, 1), 1);
    assert_int_equal(hits(&s, &sim_policy_bound, 2), 2);
    assert_int_equal(hits(&s, &sim_policy_lru, 2), 0);
    assert_int_equal(hits(&s, &sim_policy_lru, 3), 1); /* 1; 4 then drops 2 */
}

/* ---- random traces of prefixes: block b's predecessor is parent[b], as in a tree of prompts ------------------------ */

static uint64_t seed;

static uint32_t random_below(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)((seed >> 11) % n);
}

static void random_trace(uint32_t n_blocks, uint32_t n_requests)
{
    uint32_t parent[MAX_BLOCKS];
    for (uint32_t b = 0; b < n_blocks; b++) parent[b] = random_below(3) && b ? random_below(b) : SIM_NONE;
    begin(&s);
    for (uint32_t r = 0; r < n_requests; r++) {
        uint64_t chain[MAX_BLOCKS];
        uint32_t n = MAX_BLOCKS;
        for (uint32_t b = random_below(n_blocks); b != SIM_NONE; b = parent[b]) chain[--n] = b;
        add_prompt(&s, MAX_BLOCKS - n, chain + n);
    }
}

/* Time stamps and a search for the smallest one. */
static uint64_t naive_lru(uint32_t capacity)
{
    uint64_t stamp[MAX_BLOCKS] = {0}; /* 0: not held */
    uint64_t clock = 0, total = 0;
    for (uint64_t r = 0; r < s.t.n_requests; r++) {
        const uint64_t *prompt = s.id + s.request[r].first_id;
        uint32_t n = s.request[r].n_ids, run = 0;
        while (run < n && stamp[prompt[run]]) run++;
        total += run;
        for (uint32_t i = n; i > 0; i--) stamp[prompt[i - 1]] = ++clock;
        for (;;) {
            uint32_t held = 0, oldest = 0;
            for (uint32_t b = 0; b < MAX_BLOCKS; b++) {
                if (!stamp[b]) continue;
                if (!held++ || stamp[b] < stamp[oldest]) oldest = b;
            }
            if (held <= capacity) break;
            stamp[oldest] = 0;
        }
    }
    return total;
}

static void lru_agrees_with_time_stamps_on_random_traces(void **state)
{
    (void)state;
    seed = 0x9e3779b97f4a7c15u;
    for (int round = 0; round < 500; round++) {
        uint32_t n_blocks = 1 + random_below(24);
        random_trace(n_blocks, 1 + random_below(40));
        for (uint32_t capacity = 1; capacity <= n_blocks + 1; capacity++)
            assert_int_equal(hits(&s, &sim_policy_lru, capacity), naive_lru(capacity));
    }
}

/* The most hits that any cache can have: every subset of what it may hold is tried after every request. */
static uint32_t best_of_all(uint32_t n_blocks, uint32_t capacity)
{
    enum { SETS = 1 << 6 };
    int best[SETS], next[SETS];
    for (int h = 0; h < SETS; h++) best[h] = h ? -1 : 0;
    for (uint64_t r = 0; r < s.t.n_requests; r++) {
        const uint64_t *prompt = s.id + s.request[r].first_id;
        uint32_t n = s.request[r].n_ids;
        unsigned taken = 0;
        for (uint32_t i = 0; i < n; i++) taken |= 1u << prompt[i];
        for (int h = 0; h < SETS; h++) next[h] = -1;
        for (unsigned held = 0; held < 1u << n_blocks; held++) {
            if (best[held] < 0) continue;
            uint32_t run = 0;
            while (run < n && (held >> prompt[run] & 1)) run++;
            for (unsigned kept = 0; kept < 1u << n_blocks; kept++) {
                if ((kept & ~(held | taken)) || (uint32_t)__builtin_popcount(kept) > capacity) continue;
                int value = best[held] + (int)run;
                if (value > next[kept]) next[kept] = value;
            }
        }
        memcpy(best, next, sizeof best);
    }
    int most = 0;
    for (int h = 0; h < SETS; h++)
        if (best[h] > most) most = best[h];
    return (uint32_t)most;
}

static void no_cache_has_more_hits_than_the_bound_and_the_bound_can_be_had(void **state)
{
    (void)state;
    seed = 0x2545f4914f6cdd1du;
    for (int round = 0; round < 150; round++) {
        uint32_t n_blocks = 2 + random_below(5);
        random_trace(n_blocks, 2 + random_below(9));
        for (uint32_t capacity = 1; capacity <= n_blocks; capacity++)
            assert_int_equal(hits(&s, &sim_policy_bound, capacity), best_of_all(n_blocks, capacity));
    }
}

static void more_blocks_never_cost_hits_and_lru_stays_below_the_bound(void **state)
{
    (void)state;
    seed = 0xd1342543de82ef95u;
    for (int round = 0; round < 300; round++) {
        uint32_t n_blocks = 1 + random_below(40);
        random_trace(n_blocks, 1 + random_below(40));
        uint64_t distinct = 0, seen = 0;
        for (uint64_t i = 0; i < s.t.n_ids; i++) {
            distinct += !(seen >> s.id[i] & 1);
            seen |= UINT64_C(1) << s.id[i];
        }
        uint64_t lru_before = 0, bound_before = 0;
        for (uint32_t capacity = 1; capacity <= n_blocks; capacity++) {
            uint64_t lru = hits(&s, &sim_policy_lru, capacity), bound = hits(&s, &sim_policy_bound, capacity);
            assert_true(lru <= bound && lru >= lru_before && bound >= bound_before);
            lru_before = lru;
            bound_before = bound;
        }
        /* With room for all, everything but each block's first appearance is a hit. */
        assert_int_equal(lru_before, s.t.n_ids - distinct);
        assert_int_equal(bound_before, s.t.n_ids - distinct);
    }
}

static void the_library_s_own_cache_hits_exactly_what_lru_hits(void **state)
{
    (void)state;
    seed = 0x9e3779b97f4a7c15u;
    uint64_t all = 0;
    for (int round = 0; round < 200; round++) {
        uint32_t n_blocks = 1 + random_below(40);
        random_trace(n_blocks, 1 + random_below(40));
        for (uint32_t capacity = 1; capacity <= n_blocks + 1; capacity++) {
            uint64_t lru = hits(&s, &sim_policy_lru, capacity);
            assert_int_equal(hits(&s, &sim_policy_impmem, capacity), lru);
            all += lru;
        }
    }
    assert_true(all > 0);
    begin(&s);
    assert_int_equal(hits(&s, &sim_policy_impmem, 1), 0);
    add_prompt(&s, 0, NULL);
    assert_int_equal(hits(&s, &sim_policy_impmem, 1), 0);
}

static void a_prompt_too_long_for_the_library_s_tables_is_refused(void **state)
{
    (void)state;
    begin(&s);
    PROMPT(&s, 1);
    sim_workload w;
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(sim_workload_open(&s.t, &w, &why), IMPMEM_OK);
    s.request[0].n_ids = (uint32_t)INT32_MAX / 2 + 1;
    uint64_t n = 0;
    assert_int_equal(sim_cache_run(&sim_policy_impmem, &w, 1, &n), IMPMEM_ERR_TOO_LARGE);
    sim_workload_close(&w);
}

static void policies_are_found_by_their_names(void **state)
{
    (void)state;
    assert_ptr_equal(sim_policy_named("lru"), &sim_policy_lru);
    assert_ptr_equal(sim_policy_named("bound"), &sim_policy_bound);
    assert_ptr_equal(sim_policy_named("impmem"), &sim_policy_impmem);
    assert_null(sim_policy_named("LRU"));
    assert_null(sim_policy_named(""));
}

/* A policy that fails at its third request, and one that can't be opened. */
static int n_open;

static impmem_status open_counted(const sim_workload *w, uint64_t capacity, void **out)
{
    (void)w;
    (void)capacity;
    n_open++;
    *out = &n_open;
    return IMPMEM_OK;
}

static impmem_status open_never(const sim_workload *w, uint64_t capacity, void **out)
{
    (void)w;
    (void)capacity;
    (void)out;
    return IMPMEM_ERR_OUT_OF_HOST_MEMORY;
}

static impmem_status serve_two(void *cache, uint32_t request, uint32_t *out_hits)
{
    (void)cache;
    *out_hits = 1;
    return request < 2 ? IMPMEM_OK : IMPMEM_ERR_CAPACITY;
}

static void close_counted(void *cache)
{
    assert_ptr_equal(cache, &n_open);
    n_open--;
}

static void a_policy_that_fails_is_closed_and_yields_no_figure(void **state)
{
    (void)state;
    static const sim_policy fails = {"fails", "", open_counted, serve_two, close_counted};
    static const sim_policy never = {"never", "", open_never, serve_two, close_counted};
    begin(&s);
    for (int r = 0; r < 4; r++) PROMPT(&s, 1);
    sim_workload w;
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(sim_workload_open(&s.t, &w, &why), IMPMEM_OK);
    uint64_t n = 77;
    n_open = 0;
    assert_int_equal(sim_cache_run(&fails, &w, 5, &n), IMPMEM_ERR_CAPACITY);
    assert_int_equal(n_open, 0);
    assert_int_equal(sim_cache_run(&never, &w, 5, &n), IMPMEM_ERR_OUT_OF_HOST_MEMORY);
    assert_int_equal(n_open, 0);
    assert_int_equal(n, 77);
    sim_workload_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_workload_numbers_blocks_and_knows_their_next_uses),
        cmocka_unit_test(a_block_that_a_prompt_holds_twice_is_not_its_own_next_use),
        cmocka_unit_test(a_block_that_follows_another_one_is_counted_as_unchained),
        cmocka_unit_test(a_trace_too_large_for_32_bit_numbers_is_refused),
        cmocka_unit_test(lru_keeps_the_head_of_a_prompt_that_is_longer_than_the_cache),
        cmocka_unit_test(lru_drops_the_prompt_that_was_used_longest_ago),
        cmocka_unit_test(a_held_block_behind_a_missing_one_is_no_hit),
        cmocka_unit_test(hits_are_counted_before_the_prompt_is_taken_in),
        cmocka_unit_test(the_bound_drops_what_is_used_last_and_what_is_never_used_first),
        cmocka_unit_test(lru_agrees_with_time_stamps_on_random_traces),
        cmocka_unit_test(no_cache_has_more_hits_than_the_bound_and_the_bound_can_be_had),
        cmocka_unit_test(more_blocks_never_cost_hits_and_lru_stays_below_the_bound),
        cmocka_unit_test(the_library_s_own_cache_hits_exactly_what_lru_hits),
        cmocka_unit_test(a_prompt_too_long_for_the_library_s_tables_is_refused),
        cmocka_unit_test(policies_are_found_by_their_names),
        cmocka_unit_test(a_policy_that_fails_is_closed_and_yields_no_figure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
