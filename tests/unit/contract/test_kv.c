/* impmem/kv.h, as the header promises it: what is read through block tables is what was written, whatever others do. */
#include "support/checks.h"
#include "support/shadow_kv.h"
#include "property/random.h"

enum { BT = 4, TOYS = 6, MOST = 60, HOLDS = 3, NAMESPACES = 4, BASES = 3, MAX_POOL = 48 };

static const impmem_kv_namespace name_space_of[NAMESPACES] = {
    {NULL, 0, NULL, 0}, {"a", 1, NULL, 0}, {NULL, 0, "a", 1}, {"b", 1, "a", 1}};

typedef struct held {
    impmem_block_ref ref;
    uint32_t block, cells;
    uint64_t value[BT];
} held;

typedef struct bench {
    impmem_ledger *ledger;
    impmem_block_pool *pool;
    random_source random;
    shadow memory;
    toy toy[TOYS];
    held hold[HOLDS];
    uint64_t hits, refused, restarts;
    uint64_t next_owner;
} bench;

static bench b;

static uint32_t dice(uint32_t sides)
{
    return (uint32_t)random_below(&b.random, sides);
}

static void open_bench(uint64_t seed)
{
    memset(&b, 0, sizeof b);
    b.random = random_from(seed);
    impmem_ledger_options lo = IMPMEM_LEDGER_OPTIONS_INIT;
    lo.seed = seed;
    OK(impmem_ledger_create(NULL, &lo, &b.ledger));
    impmem_block_pool_options po = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    po.blocks = seed % 2 ? 12 : MAX_POOL; /* a pool that grows, or not */
    po.max_blocks = MAX_POOL;
    po.extra_refs = seed % 3 ? 256 : 40; /* few: hits and entries are given up */
    OK(impmem_block_pool_open(b.ledger, &po, &b.pool, NULL));
    impmem_kv_options o = IMPMEM_KV_OPTIONS_INIT;
    o.group[0].pool = b.pool;
    o.group[0].reserved_blocks = seed % 4;
    o.n_groups = 1;
    o.block_tokens = BT;
    o.max_sequences = TOYS;
    o.max_seq_tokens = MOST;
    o.cache_entries = seed % 5 == 1 ? 9 : 0;
    o.index_hash_bits = seed % 2 ? 3 : 0;
    o.chain_cap = seed % 7 == 3 ? 2 : 0;
    OK(impmem_kv_open(b.ledger, &o, &b.memory.kv, NULL));
    b.memory.n_groups = 1;
    b.memory.block_tokens = BT;
}

static void release(toy *t)
{
    OK(impmem_kv_release(b.memory.kv, &t->seq));
    t->live = false;
}

static void close_bench(void)
{
    for (uint32_t i = 0; i < HOLDS; i++) OK(impmem_kv_unhold(b.memory.kv, 0, &b.hold[i].ref));
    for (uint32_t i = 0; i < TOYS; i++) release(&b.toy[i]);
    shadow_check(&b.memory);
    impmem_kv_stats k;
    impmem_kv_query(b.memory.kv, &k);
    assert_int_equal(k.sequence_blocks, 0);
    assert_int_equal(k.promised_blocks, 0);
    assert_int_equal(k.reclaimable_blocks, k.cached_blocks);
    OK(impmem_kv_close(&b.memory.kv, NULL));
    OK(impmem_block_pool_close(&b.pool, NULL));
    OK(impmem_ledger_destroy(b.ledger, NULL));
}

/* A prompt that shares a beginning with others, also across namespaces. */
static void write_text(toy *t)
{
    const uint32_t base = dice(BASES), same = dice(2) ? t->n_prompt : dice(t->n_prompt + 1), tail = dice(4);
    for (uint32_t i = 0; i < t->most; i++) t->text[i] = i < same ? base * 1000 + i : 100000 + tail * 1000 + i;
    for (uint32_t i = t->n_prompt; i < t->most; i++) t->text[i] = dice(1000000);
    toy_digest(t, 0);
}

static void begin(toy *t)
{
    t->owner = ++b.next_owner;
    t->name_space = dice(3) ? 1 : dice(NAMESPACES);
    t->n_prompt = 1 + dice(40);
    t->most = t->n_prompt + dice(dice(4) ? 8 : MOST - t->n_prompt + 1);
    write_text(t);
    impmem_kv_request r = IMPMEM_KV_REQUEST_INIT;
    r.tokens = t->text;
    r.n_tokens = t->n_prompt;
    r.max_new_tokens = t->most - t->n_prompt;
    r.name_space = name_space_of[t->name_space];
    r.owner = t->owner;
    uint32_t expected = 0;
    OK(impmem_kv_lookup(b.memory.kv, &r.name_space, t->text, t->n_prompt, &expected));
    impmem_kv_admission a;
    const impmem_status st = impmem_kv_admit(b.memory.kv, &r, &t->seq, &a, NULL);
    b.refused += st != IMPMEM_OK;
    if (st) {
        FAILS(st, IMPMEM_ERR_CAPACITY);
        return;
    }
    t->live = true;
    /* With the pool's references used up fewer blocks are shared. */
    assert_true(a.cached_tokens <= expected && a.cached_tokens < t->n_prompt && a.cached_tokens % BT == 0);
    b.hits += a.cached_tokens > 0;
    t->written = t->published = a.cached_tokens;
    toy_verify(&b.memory, t); /* each token hit is what this namespace and prefix would have written */
}

static void append(toy *t, uint32_t n)
{
    OK(impmem_kv_append(b.memory.kv, t->seq, n));
    toy_write(&b.memory, t, t->written + n);
}

static void publish(toy *t)
{
    impmem_status st;
    if (dice(2)) st = impmem_kv_publish(b.memory.kv, t->seq, t->text, t->written);
    else {
        const uint32_t from = dice(t->published / BT + 1) * BT;
        st = impmem_kv_publish_from(b.memory.kv, t->seq, from, t->text + from, t->written);
        if (st == IMPMEM_ERR_NOT_FOUND) {
            assert_true(from > 0);
            b.restarts++;
            st = impmem_kv_publish(b.memory.kv, t->seq, t->text, t->written);
        }
    }
    OK(st);
    t->published = t->written - t->written % BT;
}

static void cut(toy *t)
{
    uint32_t n = dice(t->written + 1);
    impmem_status st = impmem_kv_truncate(b.memory.kv, t->seq, n);
    if (st == IMPMEM_ERR_INVALID_ARGUMENT) {
        assert_true(n % BT != 0); /* a block that others read is never kept in part */
        n -= n % BT;
        st = impmem_kv_truncate(b.memory.kv, t->seq, n);
    }
    if (st) {
        FAILS(st, IMPMEM_ERR_CAPACITY);
        return;
    }
    t->written = n;
    if (t->published > n) t->published = n - n % BT;
    for (uint32_t i = n; i < t->most; i++) t->text[i] = dice(1000000);
    toy_digest(t, n);
}

static void hold(held *h, const toy *t)
{
    if (!impmem_block_ref_is_none(h->ref)) {
        for (uint32_t i = 0; i < h->cells; i++) assert_true(b.memory.cell[0][h->block * BT + i] == h->value[i]);
        OK(impmem_kv_unhold(b.memory.kv, 0, &h->ref));
        return;
    }
    if (!t->live || !t->written) return;
    const uint32_t position = dice((t->written + BT - 1) / BT);
    const impmem_status st = impmem_kv_hold(b.memory.kv, t->seq, 0, position, IMPMEM_HOLDER_TRANSFER, t->owner, &h->ref);
    if (st) {
        FAILS(st, IMPMEM_ERR_EXHAUSTED);
        return;
    }
    h->block = impmem_block_id(b.pool, h->ref);
    h->cells = t->written - position * BT < BT ? t->written - position * BT : BT;
    for (uint32_t i = 0; i < h->cells; i++) h->value[i] = b.memory.cell[0][h->block * BT + i];
}

/* Everybody asks for all that was promised, a token at a time and in any order: nobody is refused. */
static void call_promises_in(void)
{
    uint32_t before[TOYS];
    for (uint32_t i = 0; i < TOYS; i++) before[i] = b.toy[i].live ? b.toy[i].written : 0;
    for (;;) {
        uint32_t wanting = 0, at[TOYS];
        for (uint32_t i = 0; i < TOYS; i++)
            if (b.toy[i].live && b.toy[i].written < b.toy[i].most) at[wanting++] = i;
        if (!wanting) break;
        append(&b.toy[at[dice(wanting)]], 1);
    }
    for (uint32_t i = 0; i < TOYS; i++) {
        toy *t = &b.toy[i];
        if (!t->live) continue;
        toy_verify(&b.memory, t);
        if (impmem_kv_truncate(b.memory.kv, t->seq, before[i]) == IMPMEM_OK) t->written = before[i];
    }
}

static void verify_all(void)
{
    for (uint32_t i = 0; i < TOYS; i++)
        if (b.toy[i].live) toy_verify(&b.memory, &b.toy[i]);
    for (uint32_t i = 0; i < HOLDS; i++)
        for (uint32_t c = 0; c < b.hold[i].cells && !impmem_block_ref_is_none(b.hold[i].ref); c++)
            assert_true(b.memory.cell[0][b.hold[i].block * BT + c] == b.hold[i].value[c]);
    shadow_conserve(&b.memory, b.pool);
}

static void one_operation(void)
{
    toy *t = &b.toy[dice(TOYS)];
    const uint32_t what = dice(20);
    if (what == 0) hold(&b.hold[dice(HOLDS)], t);
    else if (what == 1) (void)impmem_kv_evict(b.memory.kv, dice(6));
    else if (!t->live) begin(t);
    else if (what < 10) append(t, dice(t->most - t->written + 1));
    else if (what < 14) publish(t);
    else if (what < 17) cut(t);
    else release(t);
}

/* V4, and what stands behind it: no block is ever two things at once. */
static void a_toy_engine_reads_back_what_it_wrote_through_a_hundred_thousand_operations(void **state)
{
    (void)state;
    uint64_t hits = 0, refused = 0, restarts = 0, evictions = 0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        open_bench(seed);
        for (uint32_t i = 0; i < 10000; i++) {
            one_operation();
            verify_all();
            if (i % 50 == 0) shadow_check(&b.memory);
            if (i % 500 == 0) call_promises_in();
        }
        impmem_kv_stats k;
        impmem_kv_query(b.memory.kv, &k);
        hits += b.hits;
        refused += b.refused;
        restarts += b.restarts;
        evictions += k.evictions;
        close_bench();
    }
    assert_true(hits > 1000 && refused > 100 && evictions > 1000 && restarts > 0);
}

/* One call after another of a request's life, and then it is cancelled: the others never notice. */
static void a_request_cancelled_at_any_point_leaves_what_was_before_it(void **state)
{
    (void)state;
    enum { STEPS = 40 };
    for (uint32_t steps = 0; steps < STEPS; steps++) {
        for (uint64_t seed = 20; seed < 24; seed++) {
            open_bench(seed);
            for (uint32_t i = 0; i < 300; i++) one_operation();
            for (uint32_t i = 1; i < HOLDS; i++) OK(impmem_kv_unhold(b.memory.kv, 0, &b.hold[i].ref));
            release(&b.toy[0]);
            impmem_kv_stats before, after;
            impmem_kv_query(b.memory.kv, &before);
            begin(&b.toy[0]);
            for (uint32_t i = 0; i < steps && b.toy[0].live; i++) {
                toy *t = &b.toy[0];
                if (i % 7 == 3) cut(t);
                else if (i % 3 == 2) publish(t);
                else append(t, dice(t->most - t->written + 1));
            }
            release(&b.toy[0]);
            impmem_kv_query(b.memory.kv, &after);
            assert_int_equal(after.sequences, before.sequences);
            assert_int_equal(after.sequence_blocks, before.sequence_blocks);
            assert_int_equal(after.promised_blocks, before.promised_blocks);
            verify_all();
            shadow_check(&b.memory);
            call_promises_in();
            close_bench();
        }
    }
}

static uint32_t cached_of(const uint32_t *tokens, uint32_t n)
{
    uint32_t cached = UINT32_MAX;
    OK(impmem_kv_lookup(b.memory.kv, NULL, tokens, n, &cached));
    return cached;
}

static impmem_sequence run(const uint32_t *tokens, uint32_t n)
{
    impmem_kv_request r = IMPMEM_KV_REQUEST_INIT;
    impmem_kv_admission a;
    impmem_sequence seq;
    r.tokens = tokens;
    r.n_tokens = n;
    OK(impmem_kv_admit(b.memory.kv, &r, &seq, &a, NULL));
    OK(impmem_kv_append(b.memory.kv, seq, n - a.cached_tokens));
    OK(impmem_kv_publish(b.memory.kv, seq, tokens, n));
    return seq;
}

/* Two prompts with one head of 16 tokens, each with 16 of its own; which is used again decides whose tail goes. */
static void tails_go_before_heads_and_the_older_tail_first(void **state)
{
    (void)state;
    for (int again = 0; again < 2; again++) {
        open_bench(8);
        uint32_t text[2][33];
        for (uint32_t i = 0; i < 33; i++) text[0][i] = text[1][i] = i;
        for (uint32_t i = 16; i < 33; i++) text[1][i] += 1000;
        impmem_sequence s[2] = {run(text[0], 33), run(text[1], 33)};
        OK(impmem_kv_release(b.memory.kv, &s[0]));
        OK(impmem_kv_release(b.memory.kv, &s[1]));
        impmem_sequence used = run(text[again], 33);
        OK(impmem_kv_release(b.memory.kv, &used));
        const uint32_t *const kept = text[again], *const older = text[!again];
        uint32_t hit_older = 32, hit_kept = 32;
        for (uint32_t i = 0; i < 12; i++) {
            assert_int_equal(impmem_kv_evict(b.memory.kv, 1), 1);
            if (hit_older > 16) hit_older -= BT;
            else hit_kept -= BT;
            if (hit_kept < hit_older) hit_older = hit_kept; /* the head is both's */
            assert_int_equal(cached_of(kept, 33), hit_kept);
            assert_int_equal(cached_of(older, 33), hit_older);
        }
        assert_int_equal(impmem_kv_evict(b.memory.kv, 1), 0);
        close_bench();
    }
}

/* A copy of a handle is dead for good, however often its slot is used again. */
static void no_old_handle_ever_names_a_new_sequence(void **state)
{
    (void)state;
    enum { ROUNDS = 3000 };
    static impmem_sequence old[ROUNDS];
    open_bench(8);
    uint32_t text[5] = {1, 2, 3, 4, 5};
    for (uint32_t i = 0; i < ROUNDS; i++) {
        impmem_sequence seq = run(text, 5);
        old[i] = seq;
        for (uint32_t j = i > 50 ? i - 50 : 0; j < i; j++) assert_int_equal(impmem_kv_tokens(b.memory.kv, old[j]), 0);
        assert_int_equal(impmem_kv_tokens(b.memory.kv, seq), 5);
        OK(impmem_kv_release(b.memory.kv, &seq));
    }
    impmem_sequence last = run(text, 5);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        FAILS(impmem_kv_append(b.memory.kv, old[i], 1), IMPMEM_ERR_STALE);
        FAILS(impmem_kv_release(b.memory.kv, &old[i]), IMPMEM_ERR_STALE);
    }
    assert_int_equal(impmem_kv_tokens(b.memory.kv, last), 5);
    OK(impmem_kv_release(b.memory.kv, &last));
    close_bench();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_toy_engine_reads_back_what_it_wrote_through_a_hundred_thousand_operations),
        cmocka_unit_test(a_request_cancelled_at_any_point_leaves_what_was_before_it),
        cmocka_unit_test(tails_go_before_heads_and_the_older_tail_first),
        cmocka_unit_test(no_old_handle_ever_names_a_new_sequence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
