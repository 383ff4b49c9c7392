/* scratch.c - T4: marks on a stack, takes above the innermost mark, popping rewinds. */
#include <string.h>

#include "alloc/internal.h"
#include "alloc/seal.h"
#include "impmem/control.h"
#include "impmem/scratch.h"

#define SUBJECT "scratch"
#define USUAL_ALIGNMENT 256u

typedef struct open_mark {
    uint64_t epoch;
    uint64_t top; /* what was in use when the mark was pushed */
} open_mark;

struct impmem_scratch {
    char *base;
    uint64_t used;
    uint64_t capacity;
    uint64_t newest_epoch; /* pushes since open */
    uint64_t key;
    uint64_t region_id;
    uint64_t high_water;
    uint64_t wanted;
    uint64_t takes;
    uint64_t exhausted;
    uint32_t depth;
    uint32_t tag;               /* what marks carry in scratch_ */
    impmem__line_counter *live; /* the region's */
    impmem_region *region;
    impmem_ledger *ledger;
    uint64_t object_bytes;
    impmem_line_id control_line;
    open_mark mark[IMPMEM_SCRATCH_MAX_DEPTH];
};

_Static_assert(sizeof(struct impmem_scratch) <= IMPMEM__SCRATCH_BYTES, "impmem_control_scratch_bytes counts this object");

/* Valid as long as the mark that was innermost at the take is on the stack. */
static impmem_status check_span(void *self, uint64_t seal, const void *data, uint64_t bytes)
{
    const impmem_scratch *scratch = self;
    uint64_t epoch = impmem__seal_epoch(seal, scratch->newest_epoch);
    for (uint32_t d = 0; d < scratch->depth; d++) {
        uint64_t open = scratch->mark[d].epoch;
        if (impmem__seal(scratch->key, open, data, bytes) == seal) return IMPMEM_OK;
    }
    return impmem__seal(scratch->key, epoch, data, bytes) == seal ? IMPMEM_ERR_STALE : IMPMEM_ERR_FORGED;
}

static const impmem__tier_ops tier_ops = {check_span};

impmem_status impmem_scratch_open(impmem_region *region, impmem_scratch **out, impmem_error *why)
{
    if (!region || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "region and out must not be NULL");
    impmem_ledger *ledger = impmem__region_ledger(region);
    uint64_t bytes = 0;
    impmem_status st = impmem_control_scratch_bytes(&bytes);
    if (st) return st;
    impmem_line_id line = impmem__control_line(0);
    void *memory = NULL;
    st = impmem_ledger_host_allocate(ledger, line, IMPMEM_TAG_HOST_CONTROL, bytes, &memory, why);
    if (st) return st;

    impmem_scratch *scratch = memory;
    st = impmem__region_open_tier(region, &tier_ops, scratch);
    if (st) {
        st = impmem__error_set(why, st, SUBJECT, "the region is open in another allocator");
        impmem_ledger_host_free(ledger, line, IMPMEM_TAG_HOST_CONTROL, memory, bytes);
        return st;
    }
    scratch->capacity = impmem_region_reserved_bytes(region);
    if (impmem_region_growable(region)) {
        uint64_t prefix = impmem_region_committed_prefix(region);
        uint64_t committed = impmem_region_committed_bytes(region);
        st = impmem__region_back(region, scratch->capacity, why);
        if (st) {
            impmem__region_unback(region, prefix, committed);
            impmem__region_close_tier(region);
            impmem_ledger_host_free(ledger, line, IMPMEM_TAG_HOST_CONTROL, memory, bytes);
            return st;
        }
    }
    uint32_t id = impmem__ledger_pool_id(ledger);
    scratch->base = impmem_region_base(region);
    scratch->region = region;
    scratch->region_id = impmem_region_id(region);
    scratch->ledger = ledger;
    scratch->control_line = line;
    scratch->object_bytes = bytes;
    scratch->tag = impmem__object_tag(ledger, id);
    scratch->key = impmem__seal_start(ledger, id);
    scratch->live = impmem__region_counter(region, 0);
    *out = scratch;
    return IMPMEM_OK;
}

impmem_status impmem_scratch_close(impmem_scratch **handle, impmem_error *why)
{
    if (!handle || !*handle) return IMPMEM_OK;
    impmem_scratch *scratch = *handle;
    if (scratch->depth)
        return impmem__error_set(why, IMPMEM_ERR_LIVE_HOLDERS, SUBJECT, "%u marks are open over %llu bytes", scratch->depth,
                                 (unsigned long long)scratch->used);
    *handle = NULL;
    impmem__region_close_tier(scratch->region);
    impmem_ledger_host_free(scratch->ledger, scratch->control_line, IMPMEM_TAG_HOST_CONTROL, scratch,
                            scratch->object_bytes);
    return IMPMEM_OK;
}

impmem_scratch_mark impmem_scratch_push(impmem_scratch *scratch)
{
    if (!scratch || scratch->depth == IMPMEM_SCRATCH_MAX_DEPTH) return (impmem_scratch_mark){0, 0, 0};
    uint32_t depth = scratch->depth++;
    uint64_t epoch = ++scratch->newest_epoch;
    scratch->mark[depth] = (open_mark){epoch, scratch->used};
    return (impmem_scratch_mark){epoch, depth, scratch->tag};
}

impmem_status impmem_scratch_take(impmem_scratch *scratch, uint64_t bytes, uint64_t alignment, impmem_scratch_span *out)
{
    if (!scratch || !out || !bytes || (alignment & (alignment - 1))) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (!scratch->depth) return IMPMEM_ERR_STATE;
    if (!alignment) alignment = USUAL_ALIGNMENT;

    uint64_t pad = (0 - ((uint64_t)(uintptr_t)scratch->base + scratch->used)) & (alignment - 1);
    uint64_t room = scratch->capacity - scratch->used;
    if (room < pad || room - pad < bytes) {
        uint64_t wanted = scratch->used + pad; /* a wrap is no size that anybody can have: say the largest number */
        wanted = wanted < scratch->used || wanted + bytes < bytes ? UINT64_MAX : wanted + bytes;
        if (wanted > scratch->wanted) scratch->wanted = wanted;
        scratch->exhausted++;
        return IMPMEM_ERR_EXHAUSTED;
    }
    char *data = scratch->base + scratch->used + pad;
    uint64_t used = scratch->used + pad + bytes;
    scratch->used = used;
    if (used > scratch->high_water) {
        scratch->high_water = used;
        if (used > scratch->wanted) scratch->wanted = used;
    }
    scratch->takes++;
    impmem__live_set(scratch->live, used);
    uint64_t epoch = scratch->mark[scratch->depth - 1].epoch;
    out->span_ = (impmem_stable_span){data, bytes, scratch->region_id, impmem__seal(scratch->key, epoch, data, bytes)};
    return IMPMEM_OK;
}

impmem_status impmem_scratch_pop(impmem_scratch *scratch, impmem_scratch_mark mark)
{
    if (!scratch) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (!mark.epoch_) return IMPMEM_ERR_ORDER;
    if (mark.scratch_ != scratch->tag) return IMPMEM_ERR_FOREIGN;
    if (!scratch->depth) return IMPMEM_ERR_ORDER;
    const open_mark *innermost = &scratch->mark[scratch->depth - 1];
    if (innermost->epoch != mark.epoch_) return IMPMEM_ERR_ORDER;
    scratch->used = innermost->top;
    scratch->depth--;
    impmem__live_set(scratch->live, scratch->used);
    return IMPMEM_OK;
}

void impmem_scratch_query(const impmem_scratch *scratch, impmem_scratch_stats *out)
{
    if (!out) return;
    memset(out, 0, sizeof *out);
    if (!scratch) return;
    out->capacity_bytes = scratch->capacity;
    out->used_bytes = scratch->used;
    out->high_water_bytes = scratch->high_water;
    out->wanted_bytes = scratch->wanted;
    out->takes = scratch->takes;
    out->exhausted = scratch->exhausted;
    out->depth = scratch->depth;
}
