/* The host memory that opening a plan takes: the same functions that the objects take their bytes by, added up. */
#include "impmem/control.h"

#include "plan/internal.h"
#include "plan/states.h"

static uint32_t lines_of_region(const impmem_plan *plan, uint32_t region)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_lines; i++) n += plan->line[i].region == region;
    return n;
}

/* The region's object, and that of the arena, stack or pinned owner over it. */
static impmem_status add_region(const impmem_plan *plan, uint32_t index, uint64_t *sum)
{
    const impmem_plan_region *region = &plan->region[index];
    const uint32_t shares = lines_of_region(plan, index);
    uint64_t bytes = 0, object = 0;
    impmem_status st = impmem_control_region_bytes(shares, region->bytes, plan->granule_bytes, region->growable != 0,
                                                   &bytes);
    if (!st && (region->tier == IMPMEM_TIER_MODEL || region->tier == IMPMEM_TIER_ENGINE))
        st = impmem_control_arena_bytes(shares, &object);
    if (!st && region->tier == IMPMEM_TIER_SCRATCH) st = impmem_control_scratch_bytes(&object);
    if (!st && region->account == IMPMEM_ACCOUNT_PINNED) st = impmem_control_pinned_bytes(&object);
    if (!st) st = impmem_add(&bytes, bytes, object);
    return st ? st : impmem_add(sum, *sum, bytes);
}

static impmem_status add_pool(const impmem_plan *plan, const impmem_kv_group *group, uint64_t *sum)
{
    uint64_t bytes = 0, extra = 0;
    if (group->blocks == 0) return IMPMEM_OK;
    /* Window blocks are never shared. */
    if (group->window_tokens == 0) extra = plan->extra_refs ? plan->extra_refs : group->blocks;
    impmem_status st = impmem_control_block_pool_bytes((uint32_t)group->blocks, (uint32_t)extra, &bytes);
    return st ? st : impmem_add(sum, *sum, bytes);
}

/* The KV manager: sequences for the whole batch, and one cache entry a block where prefixes can be reused (windows and
 * recurrent layers can't). */
static impmem_status add_kv(const impmem_plan *plan, uint64_t *sum)
{
    if (plan->n_kv_groups == 0) return IMPMEM_OK;
    const impmem_kv_group *first = &plan->kv_group[0];
    const bool cache = plan->n_kv_groups == 1 && first->window_tokens == 0 && !impmem__plan_is_recurrent(plan);
    const impmem_control_kv shape = {
        .n_groups = plan->n_kv_groups,
        .block_tokens = plan->block_tokens,
        .max_sequences = plan->max_batch,
        .max_seq_tokens = plan->max_seq_tokens,
        .pool_blocks = (uint32_t)first->blocks,
        .cache_entries = cache ? (uint32_t)first->blocks : 0,
    };
    uint64_t bytes = 0;
    impmem_status st = impmem_control_kv_bytes(&shape, &bytes);
    return st ? st : impmem_add(sum, *sum, bytes);
}

/* Slots of state are ids of a pool that is never shared. */
static impmem_status add_states(const impmem_plan *plan, uint64_t *sum)
{
    impmem_status st = IMPMEM_OK;
    for (uint32_t i = 0; i < plan->n_state_pools && !st; i++) {
        uint64_t bytes = 0;
        st = impmem_control_block_pool_bytes(plan->state_pool[i].slots, 0, &bytes);
        if (!st) st = impmem_add(sum, *sum, bytes);
    }
    return st;
}

/* The object of each staging owner; its memory is on its own line. */
static impmem_status add_stagings(const impmem_plan *plan, uint64_t *sum)
{
    uint64_t each = 0, n = 0;
    for (uint32_t i = 0; i < plan->n_lines; i++) n += plan->line[i].tier == IMPMEM_TIER_STAGING;
    impmem_status st = impmem_control_staging_bytes(&each);
    if (!st) st = impmem_mul(&each, each, n);
    return st ? st : impmem_add(sum, *sum, each);
}

/* One backend for what doesn't grow, one for what does, one more for page-locked memory. */
static impmem_status add_backends(const impmem_plan *plan, uint64_t *sum)
{
    uint64_t each = 0, n = 2;
    for (uint32_t i = 0; i < plan->n_regions; i++)
        if (plan->region[i].account == IMPMEM_ACCOUNT_PINNED) n = 3;
    impmem_status st = impmem_control_backend_bytes(&each);
    if (!st) st = impmem_mul(&each, each, n);
    return st ? st : impmem_add(sum, *sum, each);
}

impmem_status impmem__plan_control_bytes(const impmem_plan *plan, uint32_t n_lines, uint64_t *out_bytes)
{
    uint64_t sum = 0, engine = 0;
    impmem_status st = impmem_control_ledger_bytes(n_lines, plan->journal_records, &sum);
    if (!st) st = impmem_control_engine_bytes(plan->max_batch, plan->n_state_pools, &engine);
    if (!st) st = impmem_add(&sum, sum, engine);
    if (!st) st = add_backends(plan, &sum);
    for (uint32_t r = 0; r < plan->n_regions && !st; r++) st = add_region(plan, r, &sum);
    for (uint32_t g = 0; g < plan->n_kv_groups && !st; g++) st = add_pool(plan, &plan->kv_group[g], &sum);
    if (!st) st = add_states(plan, &sum);
    if (!st) st = add_stagings(plan, &sum);
    if (!st) st = add_kv(plan, &sum);
    if (!st) *out_bytes = sum;
    return st;
}
