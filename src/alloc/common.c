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

impmem_status impmem__object_take(impmem_ledger *ledger, impmem_status (*size)(uint64_t *out_bytes), void **out,
                                  impmem_error *why)
{
    uint64_t bytes = 0;
    impmem_status st = size(&bytes);
    if (st) return st;
    return impmem_ledger_host_allocate(ledger, IMPMEM_LINE_HOST_CONTROL, IMPMEM_TAG_HOST_CONTROL, bytes, out, why);
}

void impmem__object_give(impmem_ledger *ledger, impmem_status (*size)(uint64_t *out_bytes), void *object)
{
    uint64_t bytes = 0;
    if (size(&bytes)) return;
    impmem_ledger_host_free(ledger, IMPMEM_LINE_HOST_CONTROL, IMPMEM_TAG_HOST_CONTROL, object, bytes);
}

impmem_status impmem__tier_take(impmem_region *region, const impmem__tier_ops *ops, uint64_t bytes, const char *subject,
                                void **out, impmem_error *why)
{
    impmem_ledger *ledger = impmem__region_ledger(region);
    void *object = NULL;
    impmem_status st = impmem_ledger_host_allocate(ledger, IMPMEM_LINE_HOST_CONTROL, IMPMEM_TAG_HOST_CONTROL, bytes,
                                                   &object, why);
    if (st) return st;
    st = impmem__region_open_tier(region, ops, object);
    if (st) {
        impmem_ledger_host_free(ledger, IMPMEM_LINE_HOST_CONTROL, IMPMEM_TAG_HOST_CONTROL, object, bytes);
        return impmem__error_set(why, st, subject, "the region is open in another allocator");
    }
    *out = object;
    return IMPMEM_OK;
}

void impmem__tier_give(impmem_region *region, void *object, uint64_t bytes)
{
    impmem_ledger *ledger = impmem__region_ledger(region);
    impmem__region_close_tier(region);
    impmem_ledger_host_free(ledger, IMPMEM_LINE_HOST_CONTROL, IMPMEM_TAG_HOST_CONTROL, object, bytes);
}

impmem_status impmem__region_back(impmem_region *region, uint64_t bytes, impmem_error *why)
{
    if (!impmem_region_growable(region)) return IMPMEM_OK;
    uint64_t ready = impmem__region_ready_bytes(region);
    if (bytes <= ready) return IMPMEM_OK;
    if (impmem__region_ask_grower(region, bytes)) {
        impmem_status st = impmem__error_set(why, IMPMEM_ERR_CAPACITY, impmem_tag_name(impmem_region_tag(region)),
                                             "%llu bytes asked, the grower has made %llu ready so far",
                                             (unsigned long long)bytes, (unsigned long long)ready);
        impmem__error_bytes(why, bytes, ready);
        return st;
    }
    return impmem_region_commit_range(region, ready, bytes - ready, NULL, why);
}

impmem_status impmem__region_back_all(impmem_region *region, uint64_t bytes, impmem_error *why)
{
    uint64_t prefix = impmem_region_committed_prefix(region);
    bool islands = impmem_region_committed_bytes(region) != prefix;
    impmem_status st = impmem__region_back(region, bytes, why);
    if (!st || islands || impmem__region_has_grower(region)) return st;
    uint64_t rest = impmem_region_reserved_bytes(region) - prefix;
    impmem_status ignored = impmem_region_decommit_range(region, prefix, rest, NULL, NULL);
    (void)ignored;
    return st;
}
