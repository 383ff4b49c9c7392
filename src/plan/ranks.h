/* plan/ranks.h - what planning over several devices and the lever that adds devices share. */
#ifndef IMPMEM__PLAN_RANKS_INTERNAL_H
#define IMPMEM__PLAN_RANKS_INTERNAL_H

#include "impmem/plan_ranks.h"
#include "plan/internal.h"

/* A layout with nothing left open. */
typedef struct impmem__grid {
    uint32_t tp, pp, ep;
} impmem__grid;

impmem_status impmem__grid_of(const impmem_model_shape *shape, const impmem_layout *layout, impmem__grid *out,
                              impmem_error *why);
/* The layers [*out_first, *out_first + *out_n) of a stage. */
void impmem__stage_layers(const impmem_model_shape *shape, const impmem_layout *layout, const impmem__grid *grid,
                          uint32_t stage, uint32_t *out_first, uint32_t *out_n);

/* Everything of one rank's input; `input` points at the other two. */
typedef struct impmem__rank_input {
    impmem_model_shape shape;
    impmem_plan_features features;
    impmem_plan_input input;
} impmem__rank_input;

impmem_status impmem__rank_input_of(const impmem_plan_input *input, const impmem_layout *layout, uint32_t rank,
                                    impmem__rank_input *out, impmem_error *why);

#endif
