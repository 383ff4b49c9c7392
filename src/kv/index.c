/* index.c - finding entries. The index hash only says where to look: a hit compares the parent by number and generation and
 * every token, so two chains with one hash are two chains.
 */
#include "kv/internal.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Blocks between computing a hash and reading its bucket, and between that and reading the entry: long enough for a line to
 * come from memory while the blocks in between are hashed. */
#define AHEAD ((uint64_t)8)
#define RING (4 * AHEAD)

/* The hash of a chain that goes on with one more block. The strength is in the block's digest; the mix only makes it depend on
 * all blocks before, at the latency of one multiplication. */
static inline uint64_t chain_of(const impmem_kv *kv, uint64_t before, const uint32_t *tokens)
{
    uint64_t block = XXH3_64bits_withSeed(tokens, (size_t)kv->block_tokens * sizeof *tokens, kv->seed);
    uint64_t mixed = (before ^ block) * 0x9e3779b97f4a7c15u;
    return mixed ^ mixed >> 32;
}

uint64_t impmem__kv_chain(const impmem_kv *kv, uint64_t before, const uint32_t *tokens)
{
    return chain_of(kv, before, tokens);
}

static inline const uint32_t *tokens_of(const impmem_kv *kv, uint32_t entry)
{
    return kv->tokens + (uint64_t)entry * kv->block_tokens;
}

static inline bool same_tokens(const impmem_kv *kv, const uint32_t *a, const uint32_t *b)
{
    if (kv->block_tokens == 16) return !memcmp(a, b, 16 * sizeof *a); /* a constant length is compared in place */
    return !memcmp(a, b, (size_t)kv->block_tokens * sizeof *a);
}

static inline uint64_t generation_of(const impmem_kv *kv, uint32_t parent)
{
    if (parent & IMPMEM__KV_AT_ROOT) return kv->root[parent & ~IMPMEM__KV_AT_ROOT].generation;
    return kv->entry[parent].generation;
}

typedef struct search {
    uint32_t probes;
    uint64_t collisions;
} search;

/* Follows a bucket from entry `at` on. */
static inline uint32_t follow(const impmem_kv *kv, uint32_t at, uint32_t parent, uint64_t parent_generation, uint64_t hash,
                              const uint32_t *tokens, search *seen)
{
    for (; at; at = kv->entry[at].next) {
        const impmem__kv_entry *entry = &kv->entry[at];
        seen->probes++;
        if (entry->hash != hash) continue;
        if (entry->parent == parent && entry->parent_generation == parent_generation &&
            same_tokens(kv, tokens_of(kv, at), tokens))
            return at;
        seen->collisions++;
    }
    return 0;
}

uint32_t impmem__kv_find(const impmem_kv *kv, uint32_t parent, uint64_t chain, const uint32_t *tokens, uint32_t *probes,
                         uint64_t *collisions)
{
    search seen = {0, 0};
    uint64_t hash = chain & kv->hash_mask;
    uint32_t found = follow(kv, kv->bucket[hash & kv->bucket_mask], parent, generation_of(kv, parent), hash, tokens, &seen);
    *probes = seen.probes;
    *collisions += seen.collisions;
    return found;
}

uint32_t impmem__kv_walk(const impmem_kv *kv, uint32_t root, const uint32_t *tokens, uint32_t n_blocks, uint32_t *hits,
                         uint64_t *chains, uint64_t *collisions)
{
    uint64_t hash[RING], chain = kv->root[root].hash;
    uint32_t head[RING];
    uint32_t parent = root | IMPMEM__KV_AT_ROOT;
    uint64_t parent_generation = kv->root[root].generation;
    search seen = {0, 0};
    uint32_t hit = 0;

    for (uint64_t step = 0; step < n_blocks + 2 * AHEAD; step++) {
        if (step < n_blocks) {
            chain = chain_of(kv, chain, tokens + step * kv->block_tokens);
            hash[step % RING] = chain;
            __builtin_prefetch(&kv->bucket[chain & kv->hash_mask & kv->bucket_mask]);
        }
        uint64_t look = step - AHEAD;
        if (step >= AHEAD && look < n_blocks) {
            uint32_t first = kv->bucket[hash[look % RING] & kv->hash_mask & kv->bucket_mask];
            head[look % RING] = first;
            __builtin_prefetch(&kv->entry[first]);
            __builtin_prefetch(tokens_of(kv, first));
        }
        if (step < 2 * AHEAD) continue;
        uint64_t verify = step - 2 * AHEAD;
        uint64_t whole = hash[verify % RING];
        uint32_t found = follow(kv, head[verify % RING], parent, parent_generation, whole & kv->hash_mask,
                                tokens + verify * kv->block_tokens, &seen);
        if (!found) break;
        if (hits) hits[hit] = found;
        if (chains) chains[hit] = whole;
        hit++;
        parent = found;
        parent_generation = kv->entry[found].generation;
    }
    if (collisions) *collisions += seen.collisions;
    return hit;
}
