/* plan/states.h - what a plan's pools of state mean to whoever opens them. */
#ifndef IMPMEM__PLAN_STATES_H
#define IMPMEM__PLAN_STATES_H

#include "impmem/plan.h"

/* Layers that keep a state of every token before: KV blocks alone don't bring a prefix back then. What is kept of another
 * input (cross-attention) is made anew for each sequence, and residual tokens are not published before they are in blocks. */
static inline bool impmem__plan_is_recurrent(const impmem_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_state_pools && i < IMPMEM_PLAN_MAX_STATE_POOLS; i++)
        if (plan->state_pool[i].kind == IMPMEM_STATE_RECURRENT || plan->state_pool[i].kind == IMPMEM_STATE_DRAFT)
            return true;
    return false;
}

#endif
