/* common.c - what the tier allocators share. */
#include "alloc/internal.h"
#include "alloc/seal.h"

uint32_t impmem__object_tag(const impmem_ledger *ledger, uint32_t pool_id)
{
    return (uint32_t)impmem__spread((uint64_t)(uintptr_t)ledger) ^ pool_id;
}

uint64_t impmem__seal_start(const impmem_ledger *ledger, uint32_t pool_id)
{
    uint64_t of_ledger = impmem__spread(impmem_ledger_seed(ledger) ^ (uint64_t)(uintptr_t)ledger);
    return impmem__spread(of_ledger + pool_id) >> 1 | 1;
}

impmem_status impmem__region_back(impmem_region *region, uint64_t bytes, impmem_error *why)
{
    if (!impmem_region_growable(region)) return IMPMEM_OK;
    uint64_t prefix = impmem_region_committed_prefix(region);
    if (bytes <= prefix) return IMPMEM_OK;
    return impmem_region_commit_range(region, prefix, bytes - prefix, NULL, why);
}

void impmem__region_unback(impmem_region *region, uint64_t prefix_before, uint64_t committed_before)
{
    if (!impmem_region_growable(region) || prefix_before != committed_before) return;
    uint64_t rest = impmem_region_reserved_bytes(region) - prefix_before;
    if (!rest) return;
    impmem_status ignored = impmem_region_decommit_range(region, prefix_before, rest, NULL, NULL);
    (void)ignored;
}
