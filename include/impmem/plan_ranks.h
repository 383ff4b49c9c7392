/* impmem/plan_ranks.h - one model over several devices: a plan for each from one input. Floor 1, src/plan/rank_shape.c,
 * plan_ranks.c. Pure; any thread.
 *
 *   impmem_layout layout = IMPMEM_LAYOUT_INIT;
 *   layout.tp = 2; layout.pp = 2;
 *   f.communication_bytes = 512 * IMPMEM_MIB;              measured, with the collectives warmed up
 *   impmem_plan plans[4]; impmem_rank ranks[4]; impmem_ranks_summary sum;
 *   impmem_plan_ranks(&in, &layout, plans, ranks, 4, &sum, &no);
 *
 * Ranks are numbered stage by stage: rank = stage x tp + its place in the stage. Tensor parallelism splits every layer of a
 * stage, pipeline parallelism gives each stage layers of its own. Experts are split like everything else, or, with `ep` of
 * the tp ranks sharing them, whole experts go to each. KV heads are split too; where there are fewer than ranks each rank
 * keeps one and several hold the same. A latent layer (MLA) is kept whole by every rank. */
#ifndef IMPMEM_PLAN_RANKS_H
#define IMPMEM_PLAN_RANKS_H

#include "impmem/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

#define IMPMEM_MAX_RANKS 64u

typedef struct impmem_layout {
    uint32_t size;
    uint32_t version;                   /* 1 */
    uint32_t tp;                        /* 0 = 1; divides the query heads; divides the KV heads, or is a multiple of them */
    uint32_t pp;                        /* 0 = 1 */
    uint32_t ep;                        /* 0 = 1; divides tp */
    uint32_t vision_sharded;            /* 1: the tower is split over the first stage; 0: each of its ranks has it whole */
    const uint32_t *stage_layers;       /* pp of them, together n_layers; NULL: even, earlier stages take one more */
    const uint64_t *layer_weight_bytes; /* n_layers of them; NULL: all layers alike */
    uint64_t expert_bytes;              /* of weight_bytes, those of routed experts; required when ep > 1 */
    const uint64_t *budget_bytes;       /* tp x pp of them; NULL: the input's for each */
} impmem_layout;
#define IMPMEM_LAYOUT_INIT                                                                                                 \
    {                                                                                                                      \
        sizeof(impmem_layout), 1, 0, 0, 0, 0, 0, 0, 0, 0                                                                   \
    }

typedef struct impmem_rank {
    uint32_t stage, place;          /* place in its stage */
    uint32_t first_layer, n_layers; /* of the model */
    uint32_t kv_copies;             /* ranks of the stage that hold the same KV head; 1 = none is doubled */
    uint32_t reserved;
    uint64_t weight_bytes;
    uint64_t budget_bytes;
    uint64_t stranded_bytes; /* KV that it would have had by itself, and hasn't because another rank has fewer blocks */
} impmem_rank;

typedef struct impmem_ranks_summary {
    uint32_t n_ranks;
    uint32_t tightest;       /* rank whose budget set the block count of KV that grows with the context */
    uint64_t kv_blocks;      /* of that KV, the same on every rank that has any */
    uint64_t stranded_bytes; /* over all ranks */
    uint32_t refused;        /* rank that doesn't fit, after DOES_NOT_FIT */
    uint32_t reserved;
} impmem_ranks_summary;

/* The part of the model that a rank holds. Bytes that don't divide are rounded up. BAD_VALUE names what the layout
 * contradicts: heads that don't divide, a layer that shares KV across stages, stages that don't add up; VERSION,
 * INVALID_ARGUMENT, OVERFLOW. */
IMPMEM_NODISCARD impmem_status impmem_rank_shape(const impmem_model_shape *shape, const impmem_layout *layout,
                                                 uint32_t rank, impmem_model_shape *out, impmem_error *why);

/* Plans every rank, then again with the fewest blocks that any rank of a group has. The embedding is on the first stage,
 * the head, draft and logits on the last (tied weights on both), vision on the first. With more than one rank
 * communication_bytes of the features must be given. Writes tp x pp plans and ranks; EXHAUSTED when `capacity` is less. On
 * DOES_NOT_FIT *out_summary says which rank, *failure is its, without levers. Nothing else is written on failure. */
IMPMEM_NODISCARD impmem_status impmem_plan_ranks(const impmem_plan_input *input, const impmem_layout *layout,
                                                 impmem_plan *plans, impmem_rank *ranks, uint32_t capacity,
                                                 impmem_ranks_summary *out_summary, impmem_plan_failure *failure);

#ifdef __cplusplus
}
#endif
#endif
