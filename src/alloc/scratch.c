/* scratch.c - T4: marks on a stack, takes above the innermost mark, popping rewinds. */
#include <string.h>

#include "alloc/internal.h"
#include "alloc/seal.h"
#include "impmem/control.h"
#include "impmem/scratch.h"

#define SUBJECT "scratch"
#define USUAL_ALIGNMENT 256u

/* Places are absolute addresses as numbers: aligning one needs no base. The next free byte is top[depth]: a push copies it one
 * up, and a pop only goes one down again, so that it has nothing to read back and store. */
struct impmem_scratch {
    uint64_t end; /* one past the region */
    uint64_t key;
    uint64_t region_id;
    uint64_t highest_top;
    uint64_t newest_epoch;      /* pushes since open */
    impmem__line_counter *live; /* the region's */
    uint32_t depth;
    uint32_t tag; /* what marks carry in scratch_ */
    uint64_t base;
    uint64_t takes;
    uint64_t wanted; /* bytes, as of the last refused take */
    uint64_t exhausted;
    impmem_region *region;
    const impmem_track *track; /* NULL: none */
    uint64_t object_bytes;
    /* Of the open marks, the outermost at 1; epoch 0 at 0 says that there is none. Two arrays: as pairs they would be
     * stored and read back in different widths. */
    uint64_t mark_epoch[IMPMEM_SCRATCH_MAX_DEPTH + 1];
    uint64_t top[IMPMEM_SCRATCH_MAX_DEPTH + 1]; /* those below `depth` are where their marks found the stack */
};

_Static_assert(sizeof(struct impmem_scratch) <= IMPMEM__SCRATCH_BYTES, "impmem_control_scratch_bytes counts this object");

/* Valid as long as the mark that was innermost at the take is on the stack. */
static impmem_status check_span(void *self, uint64_t seal, const void *data, uint64_t bytes)
{
    const impmem_scratch *scratch = self;
    uint64_t epoch = impmem__seal_epoch(seal, scratch->newest_epoch);
    for (uint32_t d = 1; d <= scratch->depth; d++) {
        if (impmem__seal(scratch->key, scratch->mark_epoch[d], data, bytes) == seal) return IMPMEM_OK;
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
    void *memory = NULL;
    st = impmem__tier_take(region, &tier_ops, bytes, SUBJECT, &memory, why);
    if (st) return st;
    uint64_t capacity = impmem_region_reserved_bytes(region);
    st = impmem__region_back_all(region, capacity, why);
    if (st) {
        impmem__tier_give(region, memory, bytes);
        return st;
    }
    impmem_scratch *scratch = memory;
    uint32_t id = impmem__ledger_pool_id(ledger);
    scratch->base = (uint64_t)(uintptr_t)impmem_region_base(region);
    scratch->top[0] = scratch->base;
    scratch->highest_top = scratch->base;
    scratch->end = scratch->base + capacity;
    scratch->region = region;
    scratch->track = impmem__region_track(region);
    scratch->region_id = impmem_region_id(region);
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
                                 (unsigned long long)(scratch->top[scratch->depth] - scratch->base));
    *handle = NULL;
    impmem__tier_give(scratch->region, scratch, scratch->object_bytes);
    return IMPMEM_OK;
}

impmem_scratch_mark impmem_scratch_push(impmem_scratch *scratch)
{
    if (!scratch || scratch->depth == IMPMEM_SCRATCH_MAX_DEPTH) return (impmem_scratch_mark){0, 0, 0};
    uint32_t depth = ++scratch->depth;
    uint64_t epoch = ++scratch->newest_epoch;
    scratch->mark_epoch[depth] = epoch;
    scratch->top[depth] = scratch->top[depth - 1];
    return (impmem_scratch_mark){epoch, depth, scratch->tag};
}

/* Counts a take that does not fit, and how much would have been in use with it. A sum that wraps is no size that anybody
 * can have: it counts as the largest number. */
static __attribute__((noinline)) impmem_status refuse(impmem_scratch *scratch, uint64_t pad, uint64_t bytes)
{
    uint64_t wanted = 0;
    if (impmem_add(&wanted, scratch->top[scratch->depth] - scratch->base, pad) || impmem_add(&wanted, wanted, bytes))
        wanted = UINT64_MAX;
    if (wanted > scratch->wanted) scratch->wanted = wanted;
    scratch->exhausted++;
    return IMPMEM_ERR_EXHAUSTED;
}

/* The rare part of a take, kept out of the way of the usual one: the stack is higher than ever, or somebody watches. */
static __attribute__((noinline)) impmem_status note_take(impmem_scratch *scratch, void *data, uint64_t bytes)
{
    uint64_t top = scratch->top[scratch->depth];
    if (top > scratch->highest_top) {
        scratch->highest_top = top;
        impmem__live_set(scratch->live, top - scratch->base);
    }
    if (scratch->track) impmem__track_take(scratch->track, scratch->region, data, bytes);
    return IMPMEM_OK;
}

impmem_status impmem_scratch_take(impmem_scratch *scratch, uint64_t bytes, uint64_t alignment, impmem_scratch_span *out)
{
    if (!scratch || !out || !bytes || (alignment & (alignment - 1))) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint32_t depth = scratch->depth;
    uint64_t epoch = scratch->mark_epoch[depth];
    if (!epoch) return IMPMEM_ERR_STATE;
    if (!alignment) alignment = USUAL_ALIGNMENT;

    uint64_t before = scratch->top[depth];
    uint64_t at = (before + alignment - 1) & ~(alignment - 1);
    uint64_t pad = at - before; /* right even where `at` wrapped: then it is more than there is room */
    uint64_t room = scratch->end - before;
    if (room < pad || room - pad < bytes) return refuse(scratch, pad, bytes);
    uint64_t top = at + bytes;
    scratch->top[depth] = top;
    scratch->takes++;
    atomic_store_explicit(&scratch->live->live, top - scratch->base, memory_order_relaxed);
    void *data = (void *)(uintptr_t)at;
    out->span_ = (impmem_stable_span){data, bytes, scratch->region_id, impmem__seal(scratch->key, epoch, data, bytes)};
    if (__builtin_expect(top > scratch->highest_top || scratch->track, 0)) return note_take(scratch, data, bytes);
    return IMPMEM_OK;
}

impmem_status impmem_scratch_pop(impmem_scratch *scratch, impmem_scratch_mark mark)
{
    if (!scratch) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (!mark.epoch_) return IMPMEM_ERR_ORDER;
    if (mark.scratch_ != scratch->tag) return IMPMEM_ERR_FOREIGN;
    /* From here on the mark's own depth is used: what the caller holds in a register need not wait for a store to come
     * back. */
    if (mark.depth_ != scratch->depth || scratch->mark_epoch[mark.depth_] != mark.epoch_) return IMPMEM_ERR_ORDER;
    uint64_t top = scratch->top[mark.depth_ - 1];
    if (__builtin_expect(scratch->track != NULL, 0))
        impmem__track_rewind(scratch->track, scratch->region, (void *)(uintptr_t)top, scratch->top[mark.depth_] - top);
    scratch->depth = mark.depth_ - 1;
    atomic_store_explicit(&scratch->live->live, top - scratch->base, memory_order_relaxed);
    return IMPMEM_OK;
}

void impmem_scratch_query(const impmem_scratch *scratch, impmem_scratch_stats *out)
{
    if (!out) return;
    memset(out, 0, sizeof *out);
    if (!scratch) return;
    out->capacity_bytes = scratch->end - scratch->base;
    out->used_bytes = scratch->top[scratch->depth] - scratch->base;
    out->high_water_bytes = scratch->highest_top - scratch->base;
    out->wanted_bytes = scratch->wanted > out->high_water_bytes ? scratch->wanted : out->high_water_bytes;
    out->takes = scratch->takes;
    out->exhausted = scratch->exhausted;
    out->depth = scratch->depth;
}
