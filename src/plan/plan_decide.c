/* Who gets how much: everything mandatory and the smallest promised KV first, then optional lines in their order, then KV
 * takes what is left up to its demand. Regions are counted as they will be acquired, rounded up to the granule. */
#include "core/internal.h"
#include "plan/internal.h"

/* A rounding line that comes or goes with a block moves the host tables' bytes by less than this many blocks do. */
#define WOBBLE_BLOCKS 16u

/* Bytes of the shared regions before rounding, and of what has no region. */
typedef struct sums {
    uint64_t part[IMPMEM__N_SHARED_PARTS];
    uint64_t charges;
    uint64_t pinned; /* rounded, region by region */
    uint64_t state;  /* pools of state, rounded; there from the end of loading on, like KV */
    uint64_t kv_floor;
} sums;

static impmem_status add_rounded(uint64_t *sum, uint64_t bytes, uint64_t granule)
{
    uint64_t rounded;
    impmem_status st = impmem_align_up(&rounded, bytes, granule);
    return st ? st : impmem_add(sum, *sum, rounded);
}

static impmem_status sum_mandatory(const impmem__terms *t, sums *s)
{
    *s = (sums){.part[IMPMEM__PART_MODEL] = t->weight_bytes};
    impmem_status st = impmem_add(&s->charges, t->in->context_bytes, t->in->library_reserve_bytes);
    for (uint32_t i = 0; i < t->n_items && !st; i++) {
        const impmem__item *item = &t->item[i];
        if (impmem__optional(item)) continue;
        if (item->part == IMPMEM__PART_CHARGE) st = impmem_add(&s->charges, s->charges, item->bytes);
        else if (item->part == IMPMEM__PART_PINNED) st = add_rounded(&s->pinned, item->bytes, t->granule_bytes);
        else if (item->part < IMPMEM__N_SHARED_PARTS)
            st = impmem_add(&s->part[item->part], s->part[item->part], item->bytes);
    }
    for (uint32_t g = 0; g < t->n_groups && !st; g++) {
        uint64_t bytes;
        st = impmem__group_bytes(t, g, t->floor_blocks[g], &bytes);
        if (!st) st = impmem_add(&s->kv_floor, s->kv_floor, bytes);
    }
    for (uint32_t i = 0; i < t->n_states && !st; i++) {
        const impmem_state_pool *pool = &t->state[i].pool;
        uint64_t bytes;
        st = impmem__kv_region_bytes(pool->slots, pool->stride_bytes, t->granule_bytes, &bytes);
        if (!st) st = impmem_add(&s->state, s->state, bytes);
    }
    return st;
}

/* Steady device bytes without KV and state. */
static impmem_status fixed_bytes(const impmem__terms *t, const sums *s, uint64_t *out)
{
    uint64_t sum = s->charges;
    impmem_status st = add_rounded(&sum, s->part[IMPMEM__PART_ENGINE], t->granule_bytes);
    if (!st) st = add_rounded(&sum, s->part[IMPMEM__PART_MODEL], t->granule_bytes);
    if (!st) st = add_rounded(&sum, s->part[IMPMEM__PART_SCRATCH], t->granule_bytes);
    if (!st) *out = sum;
    return st;
}

/* Grants one optional demand out of *left, which is a multiple of the granule: what its region has over from rounding is
 * free. */
static impmem_status grant_arena(const impmem__terms *t, uint32_t item, uint64_t *part_sum, uint64_t *left, uint64_t *out)
{
    uint64_t before, most, after, asked = t->item[item].bytes;
    impmem_status st = impmem_align_up(&before, *part_sum, t->granule_bytes);
    if (!st) st = impmem_add(&most, before - *part_sum, *left);
    if (st) return st;
    uint64_t grant = asked < most ? asked : most;
    grant -= grant % IMPMEM__LINE_ALIGNMENT;
    st = impmem_add(part_sum, *part_sum, grant);
    if (!st) st = impmem_align_up(&after, *part_sum, t->granule_bytes);
    if (st) return st;
    *left -= after - before;
    *out = grant;
    return IMPMEM_OK;
}

/* A pinned demand has a region of its own. */
static impmem_status grant_pinned(const impmem__terms *t, uint32_t item, uint64_t *left, uint64_t *out)
{
    uint64_t cost, asked = t->item[item].bytes;
    uint64_t most = *left - *left % t->granule_bytes;
    uint64_t grant = asked < most ? asked : most;
    impmem_status st = impmem_align_up(&cost, grant, t->granule_bytes);
    if (st) return st;
    *left -= cost;
    *out = grant;
    return IMPMEM_OK;
}

/* `left` bytes of device memory lie between the smallest promised load and the budget, now and while loading. */
static impmem_status grant_optional(const impmem__terms *t, sums *s, uint64_t left, impmem__decision *d)
{
    uint64_t pinned_left = t->budget_bytes[IMPMEM_ACCOUNT_PINNED] - s->pinned;
    impmem_status st = IMPMEM_OK;
    left -= left % t->granule_bytes;
    for (uint32_t i = 0; i < t->n_items && !st; i++) {
        if (!impmem__optional(&t->item[i])) continue;
        const impmem__part part = t->item[i].part;
        st = part == IMPMEM__PART_PINNED ? grant_pinned(t, i, &pinned_left, &d->grant_bytes[i])
                                         : grant_arena(t, i, &s->part[part], &left, &d->grant_bytes[i]);
    }
    return st;
}

static void grant_floor(const impmem__terms *t, impmem__decision *d)
{
    for (uint32_t i = 0; i < t->n_items; i++) d->grant_bytes[i] = impmem__optional(&t->item[i]) ? 0 : t->item[i].bytes;
    for (uint32_t g = 0; g < t->n_groups; g++) d->blocks[g] = t->floor_blocks[g];
}

/* The most blocks of the group, up to its demand, that `left` bytes hold with all that lies beside them. */
static uint64_t most_blocks(const impmem__terms *t, uint32_t g, uint64_t left)
{
    uint64_t low = 0, high = t->group[g].blocks_demanded, bytes;
    const uint64_t alone = (left - left % t->granule_bytes) / t->group[g].stride_bytes;
    if (alone < high) high = alone;
    while (low < high) {
        const uint64_t middle = low + (high - low + 1) / 2;
        /* Without sides the first guess is the answer. */
        const uint64_t guess = low == 0 && t->n_sides == 0 ? high : middle;
        if (!impmem__group_bytes(t, g, guess, &bytes) && bytes <= left) low = guess;
        else high = guess - 1;
    }
    return low;
}

/* Blocks of group g when n typical sequences have room, the floor too. */
static uint64_t typical_blocks(const impmem__terms *t, uint32_t g, uint64_t n)
{
    uint64_t blocks = n * t->typical_blocks[g] + t->group[g].reserved_blocks; /* factors of 32 bits */
    if (blocks > t->group[g].blocks_demanded) blocks = t->group[g].blocks_demanded;
    return impmem__larger(blocks, t->floor_blocks[g]);
}

static bool typical_fits(const impmem__terms *t, uint64_t n, uint64_t left)
{
    for (uint32_t g = 0; g < t->n_groups; g++) {
        uint64_t bytes;
        if (impmem__group_bytes(t, g, typical_blocks(t, g, n), &bytes) || impmem_sub(&left, left, bytes)) return false;
    }
    return true;
}

/* Pools of unlike groups in step: as many typical sequences in each as fit in all. */
static void share_typical(const impmem__terms *t, uint64_t left, impmem__decision *d)
{
    uint64_t low = 0, high = t->load.batch;
    while (low < high) {
        const uint64_t middle = low + (high - low + 1) / 2;
        if (typical_fits(t, middle, left)) low = middle;
        else high = middle - 1;
    }
    for (uint32_t g = 0; g < t->n_groups; g++) d->blocks[g] = typical_blocks(t, g, low);
}

/* The full group's blocks when `left` bytes are there for all of KV; windows have theirs first. */
static impmem_status give_kv(const impmem__terms *t, uint64_t left, impmem__decision *d)
{
    if (t->in->n_must_fit > 0) share_typical(t, left, d);
    for (uint32_t g = t->n_groups; g-- > 0;) {
        if (t->group[g].window_tokens == 0) {
            d->blocks[g] = most_blocks(t, g, left);
            continue;
        }
        uint64_t bytes;
        impmem_status st = impmem__group_bytes(t, g, d->blocks[g], &bytes);
        if (!st) st = impmem_sub(&left, left, bytes);
        if (st) return st;
    }
    return IMPMEM_OK;
}

static impmem_status decide_device(const impmem__terms *t, impmem__decision *d)
{
    const uint64_t budget = t->budget_bytes[IMPMEM_ACCOUNT_DEVICE];
    sums s;
    uint64_t fixed = 0, steady = 0, peak;
    impmem_status st = sum_mandatory(t, &s);
    if (!st) st = fixed_bytes(t, &s, &fixed);
    if (!st) st = impmem_add(&steady, fixed, s.state);
    if (!st) st = impmem_add(&steady, steady, s.kv_floor);
    peak = fixed;
    if (!st) st = add_rounded(&peak, s.part[IMPMEM__PART_TRANSIENT], t->granule_bytes);
    if (st) return st;
    grant_floor(t, d);
    d->requested_bytes = steady > peak ? steady : peak;
    d->account = IMPMEM_ACCOUNT_DEVICE;
    d->while_loading = peak > steady;
    if (d->requested_bytes > budget) return IMPMEM_OK;
    if (s.pinned > t->budget_bytes[IMPMEM_ACCOUNT_PINNED]) {
        d->account = IMPMEM_ACCOUNT_PINNED;
        d->requested_bytes = s.pinned;
        d->while_loading = false;
        return IMPMEM_OK;
    }
    st = grant_optional(t, &s, budget - d->requested_bytes, d);
    if (!st) st = fixed_bytes(t, &s, &fixed);
    if (!st) st = give_kv(t, budget - fixed - s.state, d);
    d->fits = !st;
    return st;
}

static impmem_status host_bytes(const impmem__terms *t, const impmem__decision *d, impmem_plan *scratch, uint64_t *out,
                                impmem_error *why)
{
    impmem_status st = impmem__plan_emit(t, d, false, scratch, why);
    if (!st) *out = scratch->total_bytes[IMPMEM_ACCOUNT_PAGEABLE];
    return st;
}

static impmem_status host_fits(const impmem__terms *t, impmem__decision *d, uint64_t blocks, impmem_plan *scratch,
                               bool *out, impmem_error *why)
{
    uint64_t bytes = 0;
    d->blocks[0] = blocks;
    impmem_status st = host_bytes(t, d, scratch, &bytes, why);
    *out = bytes <= t->budget_bytes[IMPMEM_ACCOUNT_PAGEABLE];
    return st;
}

/* Host tables grow with the blocks: the most blocks above the floor whose tables still fit. */
static impmem_status shrink_to_host(const impmem__terms *t, impmem__decision *d, impmem_plan *scratch, impmem_error *why)
{
    const uint64_t most = d->blocks[0];
    uint64_t low = t->floor_blocks[0], high = most;
    bool fits = false;
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        impmem_status st = host_fits(t, d, middle, scratch, &fits, why);
        if (st) return st;
        if (fits) low = middle;
        else high = middle - 1;
    }
    uint64_t last = most - low > WOBBLE_BLOCKS ? low + WOBBLE_BLOCKS : most;
    for (fits = false; last > low && !fits; last -= !fits) {
        impmem_status st = host_fits(t, d, last, scratch, &fits, why);
        if (st) return st;
    }
    d->blocks[0] = last;
    return IMPMEM_OK;
}

static impmem_status decide_host(const impmem__terms *t, impmem__decision *d, impmem_plan *scratch, impmem_error *why)
{
    const uint64_t budget = t->budget_bytes[IMPMEM_ACCOUNT_PAGEABLE];
    uint64_t bytes = 0;
    if (budget == UINT64_MAX) return IMPMEM_OK;
    impmem_status st = host_bytes(t, d, scratch, &bytes, why);
    if (st || bytes <= budget) return st;
    if (t->n_groups > 0 && t->group[0].window_tokens == 0) {
        st = shrink_to_host(t, d, scratch, why);
        if (!st) st = host_bytes(t, d, scratch, &bytes, why);
        if (st || bytes <= budget) return st;
    }
    /* What is optional has tables of its own. */
    grant_floor(t, d);
    st = host_bytes(t, d, scratch, &bytes, why);
    if (st || bytes <= budget) return st;
    d->fits = false;
    d->while_loading = false;
    d->account = IMPMEM_ACCOUNT_PAGEABLE;
    d->requested_bytes = bytes;
    return IMPMEM_OK;
}

impmem_status impmem__plan_decide(const impmem__terms *terms, impmem__decision *out, impmem_plan *scratch,
                                  impmem_error *why)
{
    *out = (impmem__decision){.fits = false};
    impmem_status st = decide_device(terms, out);
    if (st) return impmem__error_set(why, st, "plan", "the sum of all lines exceeds 64 bits");
    return out->fits ? decide_host(terms, out, scratch, why) : IMPMEM_OK;
}

/* Whether pools of that many sequences take no more than `left`. */
static bool sequences_fit(const impmem__terms *t, uint64_t sequences, uint64_t left)
{
    uint64_t count, bytes;
    for (uint32_t g = 0; g < t->n_groups; g++) {
        if (impmem_mul(&count, sequences, t->group[g].blocks_per_sequence) ||
            impmem_add(&count, count, t->group[g].reserved_blocks) || impmem__group_bytes(t, g, count, &bytes) ||
            impmem_sub(&left, left, bytes))
            return false;
    }
    for (uint32_t i = 0; i < t->n_states; i++) {
        const impmem__state *state = &t->state[i];
        if (impmem_mul(&count, sequences, state->per_sequence) || impmem_add(&count, count, state->extra) ||
            impmem__kv_region_bytes(count, state->pool.stride_bytes, t->granule_bytes, &bytes) ||
            impmem_sub(&left, left, bytes))
            return false;
    }
    return true;
}

uint64_t impmem__plan_sequences_beside(const impmem__terms *terms)
{
    sums s;
    uint64_t fixed, left;
    if (sum_mandatory(terms, &s) || fixed_bytes(terms, &s, &fixed) ||
        impmem_sub(&left, terms->budget_bytes[IMPMEM_ACCOUNT_DEVICE], fixed))
        return 0;
    uint64_t low = 0, high = terms->load.batch;
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        if (sequences_fit(terms, middle, left)) low = middle;
        else high = middle - 1;
    }
    return low;
}
