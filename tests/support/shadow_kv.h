/* tests/support/shadow_kv.h - a toy engine's device memory: which value lies in which place of which block.
 *
 * The value that a token writes is a digest of its namespace and of all tokens up to it, as the KV of a real model depends
 * on them. A block that was handed out too early, shared across namespaces or hit behind another prefix then reads as a
 * wrong value, whatever the manager's own books say. Knows the public headers only.
 */
#ifndef TESTS_SUPPORT_SHADOW_KV_H
#define TESTS_SUPPORT_SHADOW_KV_H

#include "support/checks.h"

#include "impmem/kv.h"

enum { SHADOW_GROUPS = 2, SHADOW_CELLS = 8192, TOY_MOST = 512 };

typedef struct shadow {
    impmem_kv *kv;
    uint32_t n_groups, block_tokens;
    uint32_t window[SHADOW_GROUPS]; /* 0: full */
    uint64_t cell[SHADOW_GROUPS][SHADOW_CELLS];
} shadow;

/* A sequence that knows what must be read back. */
typedef struct toy {
    impmem_sequence seq;
    bool live;
    uint64_t owner;
    uint32_t name_space;
    uint32_t n_prompt, most; /* most: prompt and answer, as promised */
    uint32_t written;        /* tokens */
    uint32_t published;      /* tokens, whole blocks */
    uint32_t text[TOY_MOST];
    uint64_t value[TOY_MOST];
} toy;

/* SplitMix64's finalizer. */
static inline uint64_t shadow_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* From token `from` on the text is new. */
static inline void toy_digest(toy *t, uint32_t from)
{
    uint64_t value = from ? t->value[from - 1] : shadow_mix(t->name_space + 1);
    for (uint32_t i = from; i < t->most; i++) t->value[i] = value = shadow_mix(value + t->text[i] + 1);
}

static inline uint64_t *shadow_cell(shadow *m, const toy *t, uint32_t group, uint32_t position)
{
    const uint32_t *ids = NULL;
    uint32_t n = 0;
    OK(impmem_kv_block_table(m->kv, t->seq, group, &ids, &n));
    assert_true(position / m->block_tokens < n);
    const uint32_t id = ids[position / m->block_tokens];
    assert_true((uint64_t)id * m->block_tokens < SHADOW_CELLS); /* no window has passed it */
    return &m->cell[group][id * m->block_tokens + position % m->block_tokens];
}

/* Computes and writes up to `tokens`, which were appended. */
static inline void toy_write(shadow *m, toy *t, uint32_t tokens)
{
    for (uint32_t g = 0; g < m->n_groups; g++)
        for (uint32_t i = t->written; i < tokens; i++) *shadow_cell(m, t, g, i) = t->value[i];
    t->written = tokens;
}

/* Everything that the sequence's next token attends to is what the sequence itself would have written. */
static inline void toy_verify(shadow *m, const toy *t)
{
    assert_int_equal(impmem_kv_tokens(m->kv, t->seq), t->written);
    for (uint32_t g = 0; g < m->n_groups; g++) {
        const uint32_t window = m->window[g];
        uint32_t i = window && t->written + 1 > window ? t->written + 1 - window : 0;
        for (; i < t->written; i++)
            if (*shadow_cell(m, t, g, i) != t->value[i])
                fail_msg("owner %llu, group %u, token %u of %u was overwritten or is another's",
                         (unsigned long long)t->owner, g, i, t->written);
    }
}

/* V4, from public figures: nothing is lost, nothing is twice, and every promise is backed. */
static inline void shadow_conserve(const shadow *m, const impmem_block_pool *pool)
{
    impmem_kv_stats k;
    impmem_block_pool_stats p;
    impmem_kv_query(m->kv, &k);
    impmem_block_pool_query(pool, &p);
    assert_int_equal(p.free_blocks + p.live_blocks, p.total_blocks);
    assert_int_equal(k.free_blocks, p.free_blocks);
    assert_int_equal(p.references_by[IMPMEM_HOLDER_CACHE], k.cached_blocks);
    assert_true(k.sequence_blocks <= p.live_blocks && p.live_blocks <= k.sequence_blocks + k.cached_blocks);
    assert_true(k.promised_blocks + p.reserved_blocks <= k.free_blocks + k.reclaimable_blocks);
}

static inline void shadow_check(const shadow *m)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    if (impmem_kv_check(m->kv, &why)) fail_msg("%s", why.message);
}

#endif
