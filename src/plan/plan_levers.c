/* What to change so that a refused plan fits. Every lever is found by planning again, never by estimate: the smallest
 * change of its kind that fits, and none that changes nothing. */
#include <stdio.h>
#include <string.h>

#include "core/internal.h"
#include "plan/levers.h"
#include "plan/ranks.h"

void impmem__variant_of(const impmem_plan_input *in, impmem__variant *out)
{
    static const impmem_plan_features none = IMPMEM_PLAN_FEATURES_INIT;
    out->in = *in;
    out->features = in->features ? *in->features : none;
    out->in.features = &out->features;
}

void impmem__change(impmem_plan_input *in, impmem_plan_features *features, impmem_lever_kind kind, uint64_t to)
{
    switch (kind) {
    case IMPMEM_LEVER_CONTEXT: in->max_seq_tokens = (uint32_t)to; break;
    case IMPMEM_LEVER_BATCH: in->max_batch = (uint32_t)to; break;
    case IMPMEM_LEVER_KV_DTYPE: in->kv_dtype_k = in->kv_dtype_v = (impmem_dtype)to; break;
    case IMPMEM_LEVER_V_DTYPE: in->kv_dtype_v = (impmem_dtype)to; break;
    case IMPMEM_LEVER_K_DTYPE: in->kv_dtype_k = (impmem_dtype)to; break;
    case IMPMEM_LEVER_PREFILL: in->prefill_tokens = (uint32_t)to; break;
    case IMPMEM_LEVER_PROMISE: in->promised_kv_tokens = to; break;
    case IMPMEM_LEVER_BUDGET: in->budget_bytes = to; break;
    case IMPMEM_LEVER_BLOCK: in->block_tokens = (uint32_t)to; break;
    case IMPMEM_LEVER_DRAFT: features->draft_tokens = 0; break;
    case IMPMEM_LEVER_VISION:
        features->vision_images = 0;
        features->vision_skipped = 1;
        break;
    case IMPMEM_LEVER_TP:
    case IMPMEM_LEVER_NONE: break;
    }
}

static bool known(impmem_lever_kind kind)
{
    return kind > IMPMEM_LEVER_NONE && kind < IMPMEM_LEVER_TP;
}

impmem_status impmem_lever_apply(const impmem_lever *lever, impmem_plan_input *input, impmem_plan_features *features)
{
    static const impmem_plan_features none = IMPMEM_PLAN_FEATURES_INIT;
    if (!lever || !input || !features) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (!known(lever->kind) || (lever->second != IMPMEM_LEVER_NONE && !known(lever->second))) return IMPMEM_ERR_BAD_VALUE;
    const impmem_plan_features changed = input->features ? *input->features : none;
    *features = changed;
    input->features = features;
    impmem__change(input, features, lever->kind, lever->to);
    if (lever->second != IMPMEM_LEVER_NONE) impmem__change(input, features, lever->second, lever->second_to);
    return IMPMEM_OK;
}

bool impmem__fits(const impmem__search *s, const impmem_plan_input *changed, impmem__outcome *out)
{
    impmem__terms terms;
    impmem__decision decision;
    if (impmem__plan_resolve(changed, &terms, NULL) || impmem__plan_decide(&terms, &decision, s->scratch, NULL) ||
        !decision.fits || impmem__plan_emit(&terms, &decision, false, s->scratch, NULL))
        return false;
    const impmem_account account = s->refused->account;
    out->total_bytes = s->scratch->total_bytes[IMPMEM_ACCOUNT_DEVICE];
    out->requested_bytes = account == IMPMEM_ACCOUNT_DEVICE ? decision.requested_bytes : s->scratch->total_bytes[account];
    return true;
}

bool impmem__fits_with(const impmem__search *s, const impmem_plan_input *base, impmem_lever_kind kind, uint64_t to,
                       impmem__outcome *out)
{
    impmem__variant changed;
    impmem__variant_of(base, &changed);
    impmem__change(&changed.in, &changed.features, kind, to);
    return impmem__fits(s, &changed.in, out);
}

/* Less takes no more memory, so halving finds it. */
uint64_t impmem__largest_step(const impmem__search *s, const impmem_plan_input *base, impmem_lever_kind kind, uint64_t unit,
                              uint64_t least, uint64_t most, impmem__outcome *out)
{
    impmem__outcome probe;
    if (most < least || !impmem__fits_with(s, base, kind, least * unit, out)) return 0;
    uint64_t low = least, high = most;
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        if (impmem__fits_with(s, base, kind, middle * unit, &probe)) {
            low = middle;
            *out = probe;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

impmem_lever *impmem__add_lever(const impmem__search *s, impmem_lever_kind kind, uint64_t from, uint64_t to,
                                const impmem__outcome *with)
{
    impmem_plan_failure *f = s->failure;
    if (f->n_levers == IMPMEM_PLAN_MAX_LEVERS) return NULL;
    impmem_lever *lever = &f->lever[f->n_levers++];
    lever->kind = kind;
    lever->from = from;
    lever->to = to;
    uint64_t now = s->refused->requested_bytes;
    lever->frees_bytes = now > with->requested_bytes ? now - with->requested_bytes : 0;
    lever->total_bytes = with->total_bytes;
    return lever;
}

static void add_number(const impmem__search *s, impmem_lever_kind kind, uint64_t from, uint64_t to,
                       const impmem__outcome *with)
{
    impmem_lever *lever = impmem__add_lever(s, kind, from, to, with);
    if (lever) impmem__lever_text(s, lever, kind, from, to);
}

/* In whole blocks, the batches that must fit kept whole. */
static void try_context(const impmem__search *s)
{
    impmem__outcome with;
    const uint32_t unit = s->terms->block_tokens, from = s->terms->load.context;
    uint64_t least = s->in->typical.tokens;
    for (uint32_t i = 0; i < s->in->n_must_fit; i++) least = impmem__larger(least, s->in->must_fit[i].tokens);
    least = least > unit ? (least + unit - 1) / unit : 1;
    uint64_t steps = impmem__largest_step(s, s->in, IMPMEM_LEVER_CONTEXT, unit, least, (from - 1) / unit, &with);
    if (steps) add_number(s, IMPMEM_LEVER_CONTEXT, from, steps * unit, &with);
}

static void try_batch(const impmem__search *s)
{
    impmem__outcome with;
    const uint32_t from = s->terms->load.batch;
    uint64_t least = 1;
    for (uint32_t i = 0; i < s->in->n_must_fit; i++) least = impmem__larger(least, s->in->must_fit[i].sequences);
    uint64_t to = impmem__largest_step(s, s->in, IMPMEM_LEVER_BATCH, 1, least, from - 1, &with);
    if (to) add_number(s, IMPMEM_LEVER_BATCH, from, to, &with);
}

static void try_prefill(const impmem__search *s)
{
    impmem__outcome with;
    const uint32_t unit = s->terms->block_tokens, from = s->terms->load.tokens;
    uint64_t steps = impmem__largest_step(s, s->in, IMPMEM_LEVER_PREFILL, unit, 1, (from - 1) / unit, &with);
    if (steps) add_number(s, IMPMEM_LEVER_PREFILL, from, steps * unit, &with);
}

/* One sequence of the whole context is the least that can be promised. */
static void try_promise(const impmem__search *s)
{
    impmem__outcome with;
    const impmem__terms *t = s->terms;
    if (t->n_groups == 0 || t->group[0].window_tokens != 0 || s->in->n_must_fit > 0) return;
    const uint64_t promised = t->floor_blocks[0] - t->group[0].reserved_blocks;
    if (promised == 0) return;
    const uint32_t unit = t->block_tokens;
    uint64_t blocks = impmem__largest_step(s, s->in, IMPMEM_LEVER_PROMISE, unit, t->group[0].blocks_per_sequence,
                                           promised - 1, &with);
    if (blocks) add_number(s, IMPMEM_LEVER_PROMISE, promised * unit, blocks * unit, &with);
}

/* Another block size wastes less of each sequence's last block, or of each block's rounding: the nearest that fits. */
static void try_block(const impmem__search *s)
{
    impmem__outcome with;
    const uint32_t from = s->terms->block_tokens;
    if (s->terms->n_groups == 0) return;
    for (uint32_t distance = 16; distance <= 240; distance += 16) {
        const uint32_t less = from > distance ? from - distance : 0, more = from + distance <= 256 ? from + distance : 0;
        const uint32_t to[] = {less, more};
        for (size_t i = 0; i < 2; i++) {
            if (to[i] == 0 || !impmem__fits_with(s, s->in, IMPMEM_LEVER_BLOCK, to[i], &with)) continue;
            add_number(s, IMPMEM_LEVER_BLOCK, from, to[i], &with);
            return;
        }
    }
}

static uint64_t block_bytes_of(const impmem__terms *terms)
{
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < terms->n_groups; g++) bytes += terms->group[g].block_bytes;
    for (uint32_t i = 0; i < terms->n_sides; i++) bytes += terms->side[i].block_bytes;
    return bytes;
}

static uint64_t block_bytes_with(const impmem__search *s, impmem_lever_kind kind, impmem_dtype to)
{
    impmem__terms terms;
    impmem__variant changed;
    impmem__variant_of(s->in, &changed);
    impmem__change(&changed.in, &changed.features, kind, (uint64_t)to);
    return impmem__plan_resolve(&changed.in, &terms, NULL) ? UINT64_MAX : block_bytes_of(&terms);
}

bool impmem__dtype_is_smaller(const impmem__search *s, impmem_lever_kind kind, impmem_dtype to)
{
    return s->terms->n_groups > 0 && block_bytes_with(s, kind, to) < block_bytes_of(s->terms);
}

impmem_dtype impmem__dtype_candidate(uint32_t index)
{
    static const impmem_dtype candidate[IMPMEM__N_DTYPE_CANDIDATES] = {IMPMEM_DTYPE_FP8_E4M3, IMPMEM_DTYPE_NVFP4,
                                                                       IMPMEM_DTYPE_MXFP4, IMPMEM_DTYPE_INT4};
    return candidate[index];
}

/* The first candidate that is smaller than what is in force and fits. */
static void try_dtype(const impmem__search *s, impmem_lever_kind kind)
{
    const impmem__terms *t = s->terms;
    impmem__outcome with;
    const impmem_dtype from = kind == IMPMEM_LEVER_V_DTYPE ? t->v : t->k;
    for (uint32_t i = 0; i < IMPMEM__N_DTYPE_CANDIDATES; i++) {
        const impmem_dtype to = impmem__dtype_candidate(i);
        if (!impmem__dtype_is_smaller(s, kind, to)) continue;
        /* Where only K or only V is stored, both together are that change already. */
        if (kind != IMPMEM_LEVER_KV_DTYPE &&
            block_bytes_with(s, kind, to) == block_bytes_with(s, IMPMEM_LEVER_KV_DTYPE, to))
            continue;
        if (!impmem__fits_with(s, s->in, kind, (uint64_t)to, &with)) continue;
        add_number(s, kind, (uint64_t)from, (uint64_t)to, &with);
        return;
    }
}

static void try_off(const impmem__search *s, impmem_lever_kind kind, bool in_force)
{
    impmem__outcome with;
    if (!in_force || !impmem__fits_with(s, s->in, kind, 0, &with)) return;
    add_number(s, kind, 1, 0, &with);
}

/* The fewest more devices on which the fullest rank fits. */
static void try_tp(const impmem__search *s)
{
    const impmem_plan_features *f = s->terms->features;
    if (f->tp_devices < 2 || f->communication_bytes == 0) return;
    for (uint32_t tp = 2; tp <= f->tp_devices && tp <= IMPMEM_MAX_RANKS; tp++) {
        impmem_layout layout = IMPMEM_LAYOUT_INIT;
        impmem__rank_input rank;
        impmem__outcome with;
        layout.tp = tp;
        /* Equal devices, equal parts: one stands for all. */
        if (impmem__rank_input_of(s->in, &layout, 0, &rank, NULL) || !impmem__fits(s, &rank.input, &with)) continue;
        add_number(s, IMPMEM_LEVER_TP, 1, tp, &with);
        return;
    }
}

static void try_budget(const impmem__search *s)
{
    impmem__outcome with;
    uint64_t to;
    if (s->refused->account != IMPMEM_ACCOUNT_DEVICE) return;
    if (impmem_align_up(&to, s->refused->requested_bytes, s->terms->granule_bytes)) return;
    if (!impmem__fits_with(s, s->in, IMPMEM_LEVER_BUDGET, to, &with)) return;
    impmem_lever *lever = impmem__add_lever(s, IMPMEM_LEVER_BUDGET, s->in->budget_bytes, to, &with);
    if (!lever) return;
    lever->frees_bytes = to - s->in->budget_bytes;
    impmem__lever_text(s, lever, IMPMEM_LEVER_BUDGET, s->in->budget_bytes, to);
}

/* Largest saving first; levers that save the same stay in the order in which they were tried. */
static void sort_levers(impmem_plan_failure *f)
{
    for (uint32_t i = 1; i < f->n_levers; i++)
        for (uint32_t j = i; j > 0 && f->lever[j].frees_bytes > f->lever[j - 1].frees_bytes; j--) {
            impmem_lever swap = f->lever[j];
            f->lever[j] = f->lever[j - 1];
            f->lever[j - 1] = swap;
        }
}

void impmem__plan_levers(const impmem_plan_input *in, const impmem__terms *terms, const impmem__decision *refused,
                         impmem_plan *scratch, impmem_plan_failure *failure)
{
    impmem__search s = {in, terms, refused, scratch, failure};
    try_context(&s);
    try_dtype(&s, IMPMEM_LEVER_KV_DTYPE);
    try_dtype(&s, IMPMEM_LEVER_V_DTYPE);
    try_dtype(&s, IMPMEM_LEVER_K_DTYPE);
    try_batch(&s);
    try_promise(&s);
    try_prefill(&s);
    try_block(&s);
    try_off(&s, IMPMEM_LEVER_DRAFT, terms->features->draft_tokens > 0);
    try_off(&s, IMPMEM_LEVER_VISION, terms->features->vision_images > 0);
    try_tp(&s);
    sort_levers(failure);
    if (failure->n_levers == 0 && refused->account == IMPMEM_ACCOUNT_DEVICE && !impmem__plan_pair(&s))
        impmem__plan_conflict(&s);
    try_budget(&s);
}
