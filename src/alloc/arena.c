/* arena.c - T1 and T2: a bump over one region, reset as a whole.
 *
 * What a take occupies = padding in front of it + its bytes + padding up to its alignment (up to 256 at most). The padding
 * behind makes takes of the usual alignment cost exactly their rounded size, whoever takes next, so that lines in one region
 * never pay for each other's odd ends. It shrinks to nothing where the region or the line's share ends.
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

struct impmem_arena {
    char *base;
    uint64_t used;
    uint64_t capacity;
    share *shares; /* n_shares of them behind the object, or &own */
    uint64_t key;
    uint64_t region_id;
    uint64_t high_water;
    uint64_t takes;
    uint64_t exhausted;
    uint64_t generation; /* resets; the epoch of the seals */
    uint32_t n_shares;   /* at least 1 */
    uint32_t last_share; /* of the last take: the next one is likely to be of the same line */
    bool growable;
    impmem_line_id line; /* the region's own */
    impmem_tier tier;
    impmem_line_id control_line;
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

    impmem_line_id line = impmem__control_line(0);
    void *memory = NULL;
    st = impmem_ledger_host_allocate(ledger, line, IMPMEM_TAG_HOST_CONTROL, bytes, &memory, why);
    if (st) return st;

    impmem_arena *arena = memory;
    st = impmem__region_open_tier(region, &tier_ops, arena);
    if (st) {
        st = impmem__error_set(why, st, SUBJECT, "the region is open in another allocator");
        impmem_ledger_host_free(ledger, line, IMPMEM_TAG_HOST_CONTROL, memory, bytes);
        return st;
    }
    arena->control_line = line;
    arena->object_bytes = bytes;
    arena->region = region;
    arena->ledger = ledger;
    arena->base = impmem_region_base(region);
    arena->capacity = impmem_region_reserved_bytes(region);
    arena->growable = impmem_region_growable(region);
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
    impmem__region_close_tier(arena->region);
    impmem_ledger_host_free(arena->ledger, arena->control_line, IMPMEM_TAG_HOST_CONTROL, arena, arena->object_bytes);
}

/* The first share of `line`, or NULL. */
static share *search(impmem_arena *arena, impmem_line_id line)
{
    for (uint32_t i = 0; i < arena->n_shares; i++) {
        if (arena->shares[i].line != line) continue;
        arena->last_share = i;
        return &arena->shares[i];
    }
    return NULL;
}

/* NULL when the line has no share here. Without shares the region's own line is the only one; when that is no line of the plan,
 * neither need the taker's be. */
static inline share *find_share(impmem_arena *arena, impmem_line_id line)
{
    if (line == IMPMEM_NO_LINE) line = arena->line;
    share *s = &arena->shares[arena->last_share];
    if (s->line == line) return s;
    bool unplanned = arena->shares == &arena->own && s->line == IMPMEM_NO_LINE;
    if (unplanned) return impmem__ledger_has_line(arena->ledger, line, NULL) ? NULL : s;
    return search(arena, line);
}

static inline uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline impmem_status take(impmem_arena *arena, impmem_tier tier, impmem_line_id line, uint64_t bytes,
                                 uint64_t alignment, impmem_stable_span *out)
{
    if (!arena || !out || !bytes || (alignment & (alignment - 1))) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (!alignment) alignment = USUAL_ALIGNMENT;
    if (arena->tier != tier) return IMPMEM_ERR_STATE;
    share *s = find_share(arena, line);
    if (!s) return IMPMEM_ERR_UNPLANNED;

    uint64_t pad = (0 - ((uint64_t)(uintptr_t)arena->base + arena->used)) & (alignment - 1);
    uint64_t left = s->limit - impmem__live_bytes(s->live);
    uint64_t room = arena->capacity - arena->used;
    if (left < pad || left - pad < bytes) {
        arena->exhausted++;
        return IMPMEM_ERR_LINE_EXCEEDED;
    }
    if (room < pad || room - pad < bytes) {
        arena->exhausted++;
        return IMPMEM_ERR_EXHAUSTED;
    }
    uint64_t tail = (0 - bytes) & (least(alignment, USUAL_ALIGNMENT) - 1);
    uint64_t occupied = pad + bytes + least(tail, least(left, room) - pad - bytes);
    if (arena->growable && arena->used + occupied > impmem_region_committed_prefix(arena->region)) {
        impmem_status st = impmem__region_back(arena->region, arena->used + occupied, NULL);
        if (st) return st;
    }
    char *data = arena->base + arena->used + pad;
    arena->used += occupied;
    if (arena->used > arena->high_water) arena->high_water = arena->used;
    arena->takes++;
    impmem__line_counter_add_owned(s->live, occupied);
    *out = (impmem_stable_span){data, bytes, arena->region_id, impmem__seal(arena->key, arena->generation, data, bytes)};
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

void impmem_arena_reset(impmem_arena *arena)
{
    if (!arena) return;
    for (uint32_t i = 0; i < arena->n_shares; i++) impmem__live_set(arena->shares[i].live, 0);
    arena->used = 0;
    arena->generation++;
}

void impmem_arena_query(const impmem_arena *arena, impmem_arena_stats *out)
{
    if (!out) return;
    memset(out, 0, sizeof *out);
    if (!arena) return;
    out->capacity_bytes = arena->capacity;
    out->committed_bytes = impmem_region_committed_bytes(arena->region);
    out->used_bytes = arena->used;
    out->high_water_bytes = arena->high_water;
    out->takes = arena->takes;
    out->exhausted = arena->exhausted;
    out->generation = arena->generation;
    out->largest_free_bytes = arena->capacity - arena->used;
}
