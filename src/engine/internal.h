/* src/engine/internal.h - what the files of the engine facade share. */
#ifndef IMPMEM_ENGINE_INTERNAL_H
#define IMPMEM_ENGINE_INTERNAL_H

#include "impmem/engine.h"

struct impmem_engine {
    impmem_plan plan;
    impmem_ledger *ledger;
    impmem_engine_backends backends;
    impmem_arena *model;
    impmem_arena *persistent;
    impmem_arena *transient;
    impmem_scratch *scratch;
    impmem_region *region[IMPMEM_PLAN_MAX_REGIONS]; /* by plan region index; pinned regions live in `pinned` */
    impmem_kv *kv;
    impmem_block_pool *pool[IMPMEM_PLAN_MAX_KV_GROUPS];
    impmem_block_pool *state_pool[IMPMEM_PLAN_MAX_STATE_POOLS];
    impmem_pinned pinned[IMPMEM_PLAN_MAX_REGIONS]; /* by plan region index */
    uint32_t charged_lines;                        /* lines [0, charged_lines) that are charges have been charged */
    uint64_t object_bytes;
    impmem_block_ref *slot; /* n_state_pools for each of max_batch sequences */
    bool draining;
};

/* The plan region's tier allocator over a fresh region. Nothing is left behind on failure. */
impmem_status impmem__engine_open_region(impmem_engine *engine, uint32_t index, impmem_error *why);
/* Closes what is open of the region; fine when nothing is. Blocks and marks must have been given back. */
impmem_status impmem__engine_close_region(impmem_engine *engine, uint32_t index, impmem_error *why);

/* The KV manager over the pools, once they are all open; fine when the plan has none or it is open already. */
impmem_status impmem__engine_open_kv(impmem_engine *engine, impmem_error *why);

static inline bool impmem__engine_region_open(const impmem_engine *engine, uint32_t index)
{
    return engine->region[index] != NULL || impmem_pinned_data(engine->pinned[index]) != NULL;
}

static inline bool impmem__plan_region_is_transient(const impmem_plan *plan, uint32_t index)
{
    return plan->region[index].transient != 0;
}

#endif
