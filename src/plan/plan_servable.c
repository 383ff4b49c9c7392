/* Whether a request can ever be served by a plan's pools, and which are the largest that can. */
#include "core/internal.h"
#include "impmem/plan_search.h"
#include "plan/internal.h"

/* Tokens of one sequence that a group's usable blocks hold; UINT64_MAX where a window bounds what it needs. */
static impmem_status group_capacity(const impmem_plan *plan, const impmem_kv_group *group, uint64_t usable, uint64_t *out)
{
    uint64_t bound;
    if (group->window_tokens > 0) {
        impmem_status st = impmem_size_blocks_per_sequence(UINT32_MAX, group->block_tokens, group->window_tokens,
                                                           plan->prefill_tokens, &bound);
        if (st) return st;
        if (usable >= bound) {
            *out = UINT64_MAX;
            return IMPMEM_OK;
        }
    }
    return impmem_mul(out, usable, group->block_tokens);
}

impmem_status impmem_plan_servable(const impmem_plan *plan, uint64_t prompt_tokens, uint64_t new_tokens,
                                   impmem_servable *out)
{
    if (!plan || !out) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem_servable s = {.most_tokens = plan->max_seq_tokens, .group = UINT32_MAX};
    impmem_status st = impmem_add(&s.need_tokens, prompt_tokens, new_tokens);
    if (st) return st;
    if (prompt_tokens == 0) return IMPMEM_ERR_BAD_VALUE;
    for (uint32_t g = 0; g < plan->n_kv_groups && g < IMPMEM_PLAN_MAX_KV_GROUPS; g++) {
        const impmem_kv_group *group = &plan->kv_group[g];
        const uint64_t usable = group->blocks > group->reserved_blocks ? group->blocks - group->reserved_blocks : 0;
        uint64_t capacity;
        st = group_capacity(plan, group, usable, &capacity);
        if (st) return st;
        if (capacity >= s.most_tokens) continue;
        s.most_tokens = capacity;
        s.group = g;
        s.usable_blocks = usable;
    }
    for (uint32_t i = 0; i < plan->n_state_pools && i < IMPMEM_PLAN_MAX_STATE_POOLS; i++)
        if (plan->state_pool[i].slots == 0) s.most_tokens = 0;
    if (s.group != UINT32_MAX) {
        const impmem_kv_group *group = &plan->kv_group[s.group];
        const uint32_t tokens = s.need_tokens < UINT32_MAX ? (uint32_t)s.need_tokens : UINT32_MAX;
        st = impmem_size_blocks_per_sequence(tokens, group->block_tokens, group->window_tokens, plan->prefill_tokens,
                                             &s.need_blocks);
        if (st) return st;
    }
    *out = s;
    return s.need_tokens <= s.most_tokens ? IMPMEM_OK : IMPMEM_ERR_NEVER_FITS;
}
