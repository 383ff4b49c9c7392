/* kv_test.h - a small KV manager over an ids-only pool, and helpers that fail the test when a call does. */
#ifndef KV_TEST_H
#define KV_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "impmem/kv.h"

enum { BT = 4 }; /* tokens of a block in these tests */

typedef struct kv_world {
    impmem_ledger *ledger;
    impmem_block_pool *pool;
    impmem_kv *kv;
} kv_world;

static inline impmem_block_pool *open_pool(impmem_ledger *ledger, uint32_t blocks, uint32_t max_blocks)
{
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    impmem_block_pool *pool = NULL;
    o.blocks = blocks;
    o.max_blocks = max_blocks;
    o.extra_refs = 256;
    assert_int_equal(impmem_block_pool_open(ledger, &o, &pool, NULL), IMPMEM_OK);
    return pool;
}

static inline impmem_ledger *open_ledger(uint64_t seed)
{
    impmem_ledger_options o = IMPMEM_LEDGER_OPTIONS_INIT;
    impmem_ledger *ledger = NULL;
    o.seed = seed;
    assert_int_equal(impmem_ledger_create(NULL, &o, &ledger), IMPMEM_OK);
    return ledger;
}

static inline impmem_kv_options options_over(impmem_block_pool *pool)
{
    impmem_kv_options o = IMPMEM_KV_OPTIONS_INIT;
    o.group[0].pool = pool;
    o.n_groups = 1;
    o.block_tokens = BT;
    o.max_sequences = 8;
    o.max_seq_tokens = 400;
    return o;
}

static inline kv_world open_world(uint32_t blocks)
{
    kv_world w = {open_ledger(7), NULL, NULL};
    w.pool = open_pool(w.ledger, blocks, 0);
    impmem_kv_options o = options_over(w.pool);
    assert_int_equal(impmem_kv_open(w.ledger, &o, &w.kv, NULL), IMPMEM_OK);
    return w;
}

static inline void assert_sound(const impmem_kv *kv)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    if (impmem_kv_check(kv, &why)) fail_msg("%s", why.message);
}

static inline void close_world(kv_world *w)
{
    if (w->kv) assert_sound(w->kv);
    assert_int_equal(impmem_kv_close(&w->kv, NULL), IMPMEM_OK);
    assert_int_equal(impmem_block_pool_close(&w->pool, NULL), IMPMEM_OK);
    assert_int_equal(impmem_ledger_destroy(w->ledger, NULL), IMPMEM_OK);
}

/* first, first + 1, ... */
static inline void write_tokens(uint32_t *tokens, uint32_t n, uint32_t first)
{
    for (uint32_t i = 0; i < n; i++) tokens[i] = first + i;
}

static inline impmem_kv_request request_of(const uint32_t *tokens, uint32_t n, uint32_t more)
{
    impmem_kv_request r = IMPMEM_KV_REQUEST_INIT;
    r.tokens = tokens;
    r.n_tokens = n;
    r.max_new_tokens = more;
    return r;
}

static inline impmem_sequence admit(impmem_kv *kv, const uint32_t *tokens, uint32_t n, uint32_t more, uint32_t *cached)
{
    impmem_kv_request r = request_of(tokens, n, more);
    impmem_kv_admission a = {.cached_tokens = 0};
    impmem_sequence s = IMPMEM_SEQUENCE_NONE;
    assert_int_equal(impmem_kv_admit(kv, &r, &s, &a, NULL), IMPMEM_OK);
    if (cached) *cached = a.cached_tokens;
    return s;
}

/* A request's whole prompt computed: appended up to n tokens, published when asked. */
static inline impmem_sequence run(impmem_kv *kv, const uint32_t *tokens, uint32_t n, bool publish)
{
    uint32_t cached = 0;
    impmem_sequence s = admit(kv, tokens, n, 0, &cached);
    assert_int_equal(impmem_kv_append(kv, s, n - cached), IMPMEM_OK);
    if (publish) assert_int_equal(impmem_kv_publish(kv, s, tokens, n), IMPMEM_OK);
    return s;
}

static inline void release(impmem_kv *kv, impmem_sequence *s)
{
    assert_int_equal(impmem_kv_release(kv, s), IMPMEM_OK);
}

/* A prompt that ran, was published and released: its whole blocks stay in the cache. */
static inline void cache_prompt(impmem_kv *kv, const uint32_t *tokens, uint32_t n)
{
    impmem_sequence s = run(kv, tokens, n, true);
    release(kv, &s);
}

static inline uint32_t cached_of(const impmem_kv *kv, const uint32_t *tokens, uint32_t n)
{
    uint32_t cached = UINT32_MAX;
    assert_int_equal(impmem_kv_lookup(kv, NULL, tokens, n, &cached), IMPMEM_OK);
    return cached;
}

static inline impmem_kv_stats stats_of(const impmem_kv *kv)
{
    impmem_kv_stats k;
    impmem_kv_query(kv, &k);
    return k;
}

static inline const uint32_t *table_of(const impmem_kv *kv, impmem_sequence s, uint32_t group, uint32_t *n)
{
    const uint32_t *ids = NULL;
    assert_int_equal(impmem_kv_block_table(kv, s, group, &ids, n), IMPMEM_OK);
    return ids;
}

#endif
