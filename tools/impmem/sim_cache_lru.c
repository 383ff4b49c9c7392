/* sim_cache_lru.c - exact LRU: one list over all blocks, linked by number, most recent first. */
#include <stdlib.h>

#include "sim_cache.h"

typedef struct lru_link {
    uint32_t newer; /* SIM_NONE: the newest */
    uint32_t older; /* SIM_NONE: the oldest */
    bool held;
} lru_link;

typedef struct lru_cache {
    const sim_workload *workload;
    uint64_t capacity;
    uint64_t n_held;
    uint32_t newest;
    uint32_t oldest;
    lru_link *link; /* per block */
} lru_cache;

static impmem_status lru_open(const sim_workload *workload, uint64_t capacity_blocks, void **out)
{
    lru_cache *lru = calloc(1, sizeof *lru);
    lru_link *link = calloc(workload->n_blocks ? workload->n_blocks : 1, sizeof *link);
    if (!lru || !link) {
        free(lru);
        free(link);
        return IMPMEM_ERR_OUT_OF_HOST_MEMORY;
    }
    lru->workload = workload;
    lru->capacity = capacity_blocks;
    lru->newest = SIM_NONE;
    lru->oldest = SIM_NONE;
    lru->link = link;
    *out = lru;
    return IMPMEM_OK;
}

static void unlink_block(lru_cache *lru, uint32_t block)
{
    lru_link *l = &lru->link[block];
    if (l->newer == SIM_NONE) lru->newest = l->older;
    else lru->link[l->newer].older = l->older;
    if (l->older == SIM_NONE) lru->oldest = l->newer;
    else lru->link[l->older].newer = l->newer;
    l->held = false;
    lru->n_held--;
}

static void touch(lru_cache *lru, uint32_t block)
{
    lru_link *l = &lru->link[block];
    if (l->held) unlink_block(lru, block);
    l->held = true;
    l->newer = SIM_NONE;
    l->older = lru->newest;
    if (lru->newest == SIM_NONE) lru->oldest = block;
    else lru->link[lru->newest].newer = block;
    lru->newest = block;
    lru->n_held++;
}

static impmem_status lru_serve(void *cache, uint32_t request, uint32_t *out_hits)
{
    lru_cache *lru = cache;
    const trace_request *r = &lru->workload->trace->requests[request];
    const uint32_t *prompt = lru->workload->block + r->first_id;
    uint32_t hits = 0;
    while (hits < r->n_ids && lru->link[prompt[hits]].held) hits++;
    for (uint32_t i = r->n_ids; i-- > 0;) touch(lru, prompt[i]);
    while (lru->n_held > lru->capacity) unlink_block(lru, lru->oldest);
    *out_hits = hits;
    return IMPMEM_OK;
}

static void lru_close(void *cache)
{
    lru_cache *lru = cache;
    free(lru->link);
    free(lru);
}

const sim_policy sim_policy_lru = {"lru", "exact least recently used, tails of chains first", lru_open, lru_serve,
                                   lru_close};
