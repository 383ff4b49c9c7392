/* sim_cache_bound.c - the clairvoyant policy: what is kept is what will be used soonest.
 *
 * Why it is a bound. Between two uses of a block, keeping it costs one place in every gap between requests and earns one
 * hit. Choosing the most such intervals with at most N in any gap is solved by dropping, wherever there are too many, those
 * that end last. In a trace of prefixes a block's predecessors are used whenever it is, hence no later than it is, and of
 * those with the same next use the tail is dropped first: so what is held is always whole prefixes, and every hit lies in a
 * leading run.
 */
#include <stdlib.h>

#include "sim_cache.h"

typedef struct bound_cache {
    const sim_workload *workload;
    uint64_t capacity;
    uint32_t n_held;
    uint64_t *urgency; /* per block: next use and position in the prompt; the greatest goes first */
    uint32_t *place;   /* per block: index into heap, or SIM_NONE */
    uint32_t *heap;    /* of held blocks, the greatest urgency on top */
} bound_cache;

static void bound_close(void *cache)
{
    bound_cache *bound = cache;
    free(bound->urgency);
    free(bound->place);
    free(bound->heap);
    free(bound);
}

static impmem_status bound_open(const sim_workload *workload, uint64_t capacity_blocks, void **out)
{
    bound_cache *bound = calloc(1, sizeof *bound);
    if (!bound) return IMPMEM_ERR_OUT_OF_HOST_MEMORY;
    size_t n = workload->n_blocks ? workload->n_blocks : 1;
    bound->workload = workload;
    bound->capacity = capacity_blocks;
    bound->urgency = calloc(n, sizeof *bound->urgency);
    bound->place = malloc(n * sizeof *bound->place);
    bound->heap = malloc(n * sizeof *bound->heap);
    if (!bound->urgency || !bound->place || !bound->heap) {
        bound_close(bound);
        return IMPMEM_ERR_OUT_OF_HOST_MEMORY;
    }
    for (size_t i = 0; i < n; i++) bound->place[i] = SIM_NONE;
    *out = bound;
    return IMPMEM_OK;
}

static void put(bound_cache *bound, uint32_t place, uint32_t block)
{
    bound->heap[place] = block;
    bound->place[block] = place;
}

static void sift_up(bound_cache *bound, uint32_t place, uint32_t block)
{
    while (place > 0) {
        uint32_t parent = (place - 1) / 2;
        if (bound->urgency[bound->heap[parent]] >= bound->urgency[block]) break;
        put(bound, place, bound->heap[parent]);
        place = parent;
    }
    put(bound, place, block);
}

static void sift_down(bound_cache *bound, uint32_t place, uint32_t block)
{
    for (;;) {
        uint64_t child = 2 * (uint64_t)place + 1;
        if (child >= bound->n_held) break;
        if (child + 1 < bound->n_held && bound->urgency[bound->heap[child + 1]] > bound->urgency[bound->heap[child]])
            child++;
        if (bound->urgency[block] >= bound->urgency[bound->heap[child]]) break;
        put(bound, place, bound->heap[child]);
        place = (uint32_t)child;
    }
    put(bound, place, block);
}

/* A block that is held already was due at this very request or earlier in this prompt, so its urgency only grows. */
static void hold(bound_cache *bound, uint32_t block, uint64_t urgency)
{
    bound->urgency[block] = urgency;
    if (bound->place[block] == SIM_NONE) sift_up(bound, bound->n_held++, block);
    else sift_up(bound, bound->place[block], block);
}

static void drop_top(bound_cache *bound)
{
    uint32_t last = bound->heap[--bound->n_held];
    bound->place[bound->heap[0]] = SIM_NONE;
    if (bound->n_held > 0) sift_down(bound, 0, last);
}

static impmem_status bound_serve(void *cache, uint32_t request, uint32_t *out_hits)
{
    bound_cache *bound = cache;
    const trace_request *r = &bound->workload->trace->requests[request];
    const uint32_t *prompt = bound->workload->block + r->first_id;
    const uint32_t *next_use = bound->workload->next_use + r->first_id;
    uint32_t hits = 0;
    while (hits < r->n_ids && bound->place[prompt[hits]] != SIM_NONE) hits++;
    for (uint32_t i = 0; i < r->n_ids; i++) hold(bound, prompt[i], (uint64_t)next_use[i] << 32 | i);
    while (bound->n_held > bound->capacity) drop_top(bound);
    *out_hits = hits;
    return IMPMEM_OK;
}

const sim_policy sim_policy_bound = {"bound", "clairvoyant: the block whose next use is farthest goes first", bound_open,
                                     bound_serve, bound_close};
