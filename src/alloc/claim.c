/* claim.c - two-phase taking: every part is promised before any is the holder's. */
#include "impmem/claim.h"

enum { CLAIM_OPEN = 0, CLAIM_COMMITTED = 1, CLAIM_UNDONE = 2 };

impmem_status impmem_claim_add(impmem_claim *claim, impmem_resource resource, uint64_t amount)
{
    if (!claim || !resource.reserve || !resource.undo) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (claim->state_ != CLAIM_OPEN) return IMPMEM_ERR_STATE;
    if (!amount) return IMPMEM_OK;
    if (claim->n_parts_ >= IMPMEM_CLAIM_MAX_PARTS) return IMPMEM_ERR_EXHAUSTED;
    impmem_status st = resource.reserve(resource.self, amount);
    if (st) return st;
    claim->part_[claim->n_parts_].resource = resource;
    claim->part_[claim->n_parts_].amount = amount;
    claim->n_parts_++;
    return IMPMEM_OK;
}

impmem_status impmem_claim_commit(impmem_claim *claim)
{
    if (!claim) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (claim->state_ != CLAIM_OPEN) return IMPMEM_ERR_STATE;
    claim->state_ = CLAIM_COMMITTED;
    for (uint32_t i = 0; i < claim->n_parts_; i++) {
        const impmem_resource *r = &claim->part_[i].resource;
        if (r->commit) r->commit(r->self, claim->part_[i].amount);
    }
    return IMPMEM_OK;
}

impmem_status impmem_claim_undo(impmem_claim *claim)
{
    if (!claim) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (claim->state_ != CLAIM_OPEN) return IMPMEM_ERR_STATE;
    claim->state_ = CLAIM_UNDONE;
    for (uint32_t i = claim->n_parts_; i-- > 0;) {
        const impmem_resource *r = &claim->part_[i].resource;
        r->undo(r->self, claim->part_[i].amount);
    }
    return IMPMEM_OK;
}

static impmem_status pool_reserve(void *self, uint64_t amount)
{
    return amount > UINT32_MAX ? IMPMEM_ERR_CAPACITY : impmem_block_pool_reserve(self, (uint32_t)amount);
}

/* Cannot fail for a claim's own promise; with fewer reserved (somebody used take_reserved in between) it gives back
 * nothing, which impmem_block_pool_close then reports. */
static void pool_undo(void *self, uint64_t amount)
{
    impmem_status ignored = impmem_block_pool_unreserve(self, (uint32_t)amount);
    (void)ignored;
}

impmem_resource impmem_block_pool_resource(impmem_block_pool *pool)
{
    return (impmem_resource){pool_reserve, NULL, pool_undo, pool, "blocks"};
}
