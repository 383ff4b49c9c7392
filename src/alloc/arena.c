/* arena.c - T1 and T2: a bump over one region, reset as a whole.
 *
 * What a take occupies = padding in front of it + its bytes + padding up to its alignment (up to 256 at most). The padding
 * behind makes takes of the usual alignment cost exactly their rounded size, whoever takes next, so that lines in one
 * region never pay for each other's odd ends. It shrinks to nothing where the region or the line's share ends.
 */
#include <string.h>

#include "alloc/internal.h"
#include "alloc/seal.h"
#include "impmem/arena.h"
#include "impmem/control.h"

#define SUBJECT "arena"
#define USUAL_ALIGNMENT 256u

/* One line's part. `live` is the region's counter of what it has taken, padding included. */
typedef struct share {
    impmem__line_counter *live;
    uint64_t limit; /* bytes; UINT64_MAX when the region has no shares */
    impmem_line_id line;
} share;

/* Places are absolute addresses as numbers: aligning one needs no base. */
struct impmem_arena {
    uint64_t top;      /* the next free byte */
    uint64_t end;      /* one past the region */
    const share *last; /* of the last take: the next one is likely to be of the same line */
    uint64_t key;
    uint64_t region_id;
    uint64_t generation; /* resets; the epoch of the seals */
    uint64_t takes;
    impmem_tier tier;
    impmem_line_id line; /* the region's own */
    bool growable;
    bool careful;              /* growable, or with a tracker: no take is a usual one */
    const impmem_track *track; /* NULL: none */
    uint64_t base;
    share *shares;     /* n_shares of them behind the object, or &own */
    uint32_t n_shares; /* at least 1 */
    uint64_t exhausted;
    uint64_t high_water; /* as of the last reset */
    uint64_t object_bytes;
    impmem_region *region;
    impmem_ledger *ledger;
    share own;
};

_Static_assert(sizeof(struct impmem_arena) <= IMPMEM__ARENA_HEADER_BYTES, "impmem_control_arena_bytes counts this object");
_Static_assert(sizeof(share) <= IMPMEM__ARENA_SHARE_BYTES, "impmem_control_arena_bytes counts these shares");

static impmem_status check_span(void *self, uint64_t seal, const void *data, uint64_t bytes)
{
    const impmem_arena *arena = self;
    uint64_t epoch = impmem__seal_epoch(seal, arena->generation);
    if (impmem__seal(arena->key, epoch, data, bytes) != seal) return IMPMEM_ERR_FORGED;
    return epoch == arena->generation ? IMPMEM_OK : IMPMEM_ERR_STALE;
}

static const impmem__tier_ops tier_ops = {check_span};

static void open_shares(impmem_arena *arena, const impmem_line_share *given, uint32_t n)
{
    arena->shares = n ? (share *)(void *)((char *)arena + IMPMEM__ARENA_HEADER_BYTES) : &arena->own;
    arena->last = arena->shares;
    arena->n_shares = n ? n : 1;
    for (uint32_t i = 0; i < arena->n_shares; i++) {
        share *s = &arena->shares[i];
        s->line = n ? given[i].line : arena->line;
        s->limit = n ? given[i].bytes : UINT64_MAX;
        s->live = impmem__region_counter(arena->region, i);
    }
}

impmem_status impmem_arena_open(impmem_region *region, impmem_tier tier, impmem_arena **out, impmem_error *why)
{
    if (!region || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "region and out must not be NULL");
    if (tier != IMPMEM_TIER_MODEL && tier != IMPMEM_TIER_ENGINE)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "the tier must be model or engine, not %s",
                                 impmem_tier_name(tier));
    impmem_ledger *ledger = impmem__region_ledger(region);
    uint32_t n = 0;
    const impmem_line_share *given = impmem__region_shares(region, &n);
    uint64_t bytes = 0;
    impmem_status st = impmem_control_arena_bytes(n, &bytes);
    if (st) return impmem__error_set(why, st, SUBJECT, "%u shares are too many", n);

    void *memory = NULL;
    st = impmem__tier_take(region, &tier_ops, bytes, SUBJECT, &memory, why);
    if (st) return st;
    impmem_arena *arena = memory;
    arena->object_bytes = bytes;
    arena->region = region;
    arena->ledger = ledger;
    arena->base = (uint64_t)(uintptr_t)impmem_region_base(region);
    arena->top = arena->base;
    arena->end = arena->base + impmem_region_reserved_bytes(region);
    arena->growable = impmem_region_growable(region);
    arena->track = impmem__region_track(region);
    arena->careful = arena->growable || arena->track;
    arena->region_id = impmem_region_id(region);
    arena->line = impmem__region_line(region);
    arena->tier = tier;
    arena->key = impmem__seal_start(ledger, impmem__ledger_pool_id(ledger));
    open_shares(arena, given, n);
    *out = arena;
    return IMPMEM_OK;
}

void impmem_arena_close(impmem_arena **handle)
{
    if (!handle || !*handle) return;
    impmem_arena *arena = *handle;
    *handle = NULL;
    for (uint32_t i = 0; i < arena->n_shares; i++) impmem__live_set(arena->shares[i].live, 0);
    impmem__tier_give(arena->region, arena, arena->object_bytes);
}

/* NULL when the line has no share here. Without shares the region's own line is the only one; when that is no line of
 * the plan, neither need the taker's be. */
static const share *find_share(impmem_arena *arena, impmem_line_id line)
{
    for (uint32_t i = 0; i < arena->n_shares; i++) {
        if (arena->shares[i].line != line) continue;
        arena->last = &arena->shares[i];
        return arena->last;
    }
    bool unplanned = arena->shares == &arena->own && arena->line == IMPMEM_NO_LINE;
    return unplanned && !impmem__ledger_has_line(arena->ledger, line, NULL) ? &arena->own : NULL;
}

/* What a take occupies at the top, or 0 when it does not fit; *at is where its bytes begin. */
static inline uint64_t fit(const impmem_arena *arena, const share *s, uint64_t bytes, uint64_t alignment, uint64_t *at)
{
    *at = (arena->top + alignment - 1) & ~(alignment - 1);
    uint64_t pad = *at - arena->top; /* right even where *at wrapped: then it is more than there is room */
    uint64_t room = arena->end - arena->top;
    uint64_t left = s->limit - impmem__live_bytes(s->live);
    uint64_t limit = room < left ? room : left;
    if (limit < pad || limit - pad < bytes) return 0;
    uint64_t unit = alignment < USUAL_ALIGNMENT ? alignment : USUAL_ALIGNMENT;
    uint64_t occupied = pad + bytes + (-bytes & (unit - 1));
    return occupied > limit || occupied < bytes ? limit : occupied;
}

static inline void place(impmem_arena *arena, const share *s, uint64_t at, uint64_t bytes, uint64_t occupied,
                         impmem_stable_span *out)
{
    arena->top += occupied;
    arena->takes++;
    impmem__line_counter_add_owned(s->live, occupied);
    void *data = (void *)(uintptr_t)at;
    *out = (impmem_stable_span){data, bytes, arena->region_id, impmem__seal(arena->key, arena->generation, data, bytes)};
}

/* Counts a take that does not fit and says which limit refused it. */
static impmem_status refuse(impmem_arena *arena, uint64_t bytes, uint64_t alignment)
{
    uint64_t pad = -arena->top & (alignment - 1);
    uint64_t room = arena->end - arena->top;
    arena->exhausted++;
    return room < pad || room - pad < bytes ? IMPMEM_ERR_EXHAUSTED : IMPMEM_ERR_LINE_EXCEEDED;
}

/* Of another line than the last take, at the end of the region or of the line's share, over a growable region, or tracked. Apart,
 * so that the usual take calls nothing. */
__attribute__((noinline)) static impmem_status take_with_care(impmem_arena *arena, impmem_line_id line, uint64_t bytes,
                                                              uint64_t alignment, impmem_stable_span *out)
{
    const share *s = find_share(arena, line);
    if (!s) return IMPMEM_ERR_UNPLANNED;
    uint64_t at;
    uint64_t occupied = fit(arena, s, bytes, alignment, &at);
    if (!occupied) return refuse(arena, bytes, alignment);
    if (arena->growable) {
        impmem_status st = impmem__region_back(arena->region, arena->top + occupied - arena->base, NULL);
        if (st) return st;
    }
    place(arena, s, at, bytes, occupied, out);
    if (arena->track) impmem__track_take(arena->track, arena->region, out->data_, bytes);
    return IMPMEM_OK;
}

static inline impmem_status take(impmem_arena *arena, impmem_tier tier, impmem_line_id line, uint64_t bytes,
                                 uint64_t alignment, impmem_stable_span *out)
{
    if (!arena || !out || !bytes || (alignment & (alignment - 1))) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (!alignment) alignment = USUAL_ALIGNMENT;
    if (arena->tier != tier) return IMPMEM_ERR_STATE;
    if (line == IMPMEM_NO_LINE) line = arena->line;
    const share *s = arena->last;
    if (s->line != line || arena->careful) return take_with_care(arena, line, bytes, alignment, out);

    uint64_t at = (arena->top + alignment - 1) & ~(alignment - 1);
    uint64_t unit = alignment < USUAL_ALIGNMENT ? alignment : USUAL_ALIGNMENT;
    uint64_t rounded = (bytes + unit - 1) & ~(unit - 1);
    uint64_t occupied = at - arena->top + rounded;
    if (occupied > arena->end - arena->top || occupied > s->limit - impmem__live_bytes(s->live) || rounded < bytes ||
        occupied < rounded)
        return take_with_care(arena, line, bytes, alignment, out);
    place(arena, s, at, bytes, occupied, out);
    return IMPMEM_OK;
}

impmem_status impmem_arena_take_model(impmem_arena *arena, impmem_line_id line, uint64_t bytes, uint64_t alignment,
                                      impmem_model_span *out)
{
    return take(arena, IMPMEM_TIER_MODEL, line, bytes, alignment, out ? &out->span_ : NULL);
}

impmem_status impmem_arena_take_engine(impmem_arena *arena, impmem_line_id line, uint64_t bytes, uint64_t alignment,
                                       impmem_engine_span *out)
{
    return take(arena, IMPMEM_TIER_ENGINE, line, bytes, alignment, out ? &out->span_ : NULL);
}

/* Between two resets the top only rises, so takes need not keep it. */
static uint64_t high_water(const impmem_arena *arena)
{
    uint64_t used = arena->top - arena->base;
    return used > arena->high_water ? used : arena->high_water;
}

void impmem_arena_reset(impmem_arena *arena)
{
    if (!arena) return;
    for (uint32_t i = 0; i < arena->n_shares; i++) impmem__live_set(arena->shares[i].live, 0);
    if (arena->track)
        impmem__track_rewind(arena->track, arena->region, (void *)(uintptr_t)arena->base, arena->top - arena->base);
    arena->high_water = high_water(arena);
    arena->top = arena->base;
    arena->generation++;
}

void impmem_arena_query(const impmem_arena *arena, impmem_arena_stats *out)
{
    if (!out) return;
    memset(out, 0, sizeof *out);
    if (!arena) return;
    out->capacity_bytes = arena->end - arena->base;
    out->committed_bytes = impmem_region_committed_bytes(arena->region);
    out->used_bytes = arena->top - arena->base;
    out->high_water_bytes = high_water(arena);
    out->takes = arena->takes;
    out->exhausted = arena->exhausted;
    out->generation = arena->generation;
    out->largest_free_bytes = arena->end - arena->top;
}
