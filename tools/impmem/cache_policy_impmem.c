/* cache_policy_impmem.c - the library's own prefix cache as a policy of `impmem cache-sim`.
 *
 * A block of the trace is a KV block of two tokens, which are its id. The pool has room for the longest prompt beside what the
 * cache may keep, so nothing is evicted while a prompt is taken in; afterwards the cache is trimmed to its capacity. One token
 * follows every prompt, since a hit never covers a whole prompt.
 */
#include <stdlib.h>

#include "impmem/block_pool.h"
#include "impmem/kv.h"
#include "sim_cache.h"

enum { BLOCK_TOKENS = 2 };

typedef struct kv_cache {
    const sim_workload *workload;
    impmem_ledger *ledger;
    impmem_block_pool *pool;
    impmem_kv *kv;
    uint32_t *tokens; /* of one prompt */
    uint64_t capacity;
} kv_cache;

static void impmem_close(void *cache)
{
    kv_cache *c = cache;
    /* No sequence lives between two requests, so nothing here can be refused. */
    impmem_status st = impmem_kv_close(&c->kv, NULL);
    st = impmem_first_error(st, impmem_block_pool_close(&c->pool, NULL));
    st = impmem_first_error(st, impmem_ledger_destroy(c->ledger, NULL));
    (void)st;
    free(c->tokens);
    free(c);
}

static uint32_t longest_prompt(const sim_workload *workload)
{
    uint32_t longest = 0;
    for (uint32_t r = 0; r < workload->n_requests; r++)
        if (workload->trace->requests[r].n_ids > longest) longest = workload->trace->requests[r].n_ids;
    return longest;
}

static impmem_status open_tables(kv_cache *c, uint32_t longest)
{
    uint64_t blocks = c->capacity + longest + 1;
    uint64_t tokens = (uint64_t)longest * BLOCK_TOKENS + 1;
    if (blocks > INT32_MAX || tokens > INT32_MAX) return IMPMEM_ERR_TOO_LARGE;
    c->tokens = malloc((size_t)tokens * sizeof *c->tokens);
    if (!c->tokens) return IMPMEM_ERR_OUT_OF_HOST_MEMORY;
    impmem_status st = impmem_ledger_create(NULL, NULL, &c->ledger);
    if (st) return st;
    impmem_block_pool_options pool = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    pool.blocks = (uint32_t)blocks;
    st = impmem_block_pool_open(c->ledger, &pool, &c->pool, NULL);
    if (st) return st;
    impmem_kv_options kv = IMPMEM_KV_OPTIONS_INIT;
    kv.group[0].pool = c->pool;
    kv.n_groups = 1;
    kv.block_tokens = BLOCK_TOKENS;
    kv.max_sequences = 1;
    kv.max_seq_tokens = (uint32_t)tokens;
    return impmem_kv_open(c->ledger, &kv, &c->kv, NULL);
}

static impmem_status impmem_open(const sim_workload *workload, uint64_t capacity_blocks, void **out)
{
    kv_cache *c = calloc(1, sizeof *c);
    if (!c) return IMPMEM_ERR_OUT_OF_HOST_MEMORY;
    c->workload = workload;
    c->capacity = capacity_blocks < workload->n_blocks ? capacity_blocks : workload->n_blocks;
    impmem_status st = open_tables(c, longest_prompt(workload));
    if (st) impmem_close(c);
    else *out = c;
    return st;
}

static impmem_status impmem_serve(void *cache, uint32_t request, uint32_t *out_hits)
{
    kv_cache *c = cache;
    const trace_request *r = &c->workload->trace->requests[request];
    for (uint32_t i = 0; i < r->n_ids; i++) {
        uint64_t id = c->workload->trace->ids[r->first_id + i];
        for (uint32_t j = 0; j < BLOCK_TOKENS; j++) c->tokens[i * BLOCK_TOKENS + j] = trace_block_token(id, j);
    }
    uint32_t n = r->n_ids * BLOCK_TOKENS + 1;
    c->tokens[n - 1] = 0;
    impmem_kv_request ask = IMPMEM_KV_REQUEST_INIT;
    ask.tokens = c->tokens;
    ask.n_tokens = n;
    impmem_sequence sequence;
    impmem_kv_admission admission;
    impmem_status st = impmem_kv_admit(c->kv, &ask, &sequence, &admission, NULL);
    if (st) return st;
    st = impmem_kv_append(c->kv, sequence, n - admission.cached_tokens);
    if (!st) st = impmem_kv_publish(c->kv, sequence, c->tokens, n);
    st = impmem_first_error(st, impmem_kv_release(c->kv, &sequence));
    if (st) return st;
    impmem_kv_stats stats;
    impmem_kv_query(c->kv, &stats);
    if (stats.cached_blocks > c->capacity) impmem_kv_evict(c->kv, (uint32_t)(stats.cached_blocks - c->capacity));
    *out_hits = admission.cached_tokens / BLOCK_TOKENS;
    return IMPMEM_OK;
}

const sim_policy sim_policy_impmem = {"impmem", "the library's own prefix cache", impmem_open, impmem_serve, impmem_close};
