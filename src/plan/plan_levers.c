/* What to change so that a refused plan fits. Every lever is found by planning again, never by estimate: the smallest
 * change of its kind that fits, and none that changes nothing. */
#include <stdio.h>

#include "plan/internal.h"

typedef struct search {
    const impmem_plan_input *in;
    const impmem__terms *terms; /* of the refused input */
    const impmem__decision *refused;
    impmem_plan *scratch;
    impmem_plan_failure *failure;
} search;

/* The changed input of a lever's step. */
typedef void (*change_fn)(impmem_plan_input *in, uint64_t to);

typedef struct outcome {
    uint64_t requested_bytes; /* on the account that was refused */
    uint64_t total_bytes;     /* device */
} outcome;

/* Plans the changed input again; false when it still doesn't fit, or is no longer a valid input. */
static bool fits(const search *s, const impmem_plan_input *changed, outcome *out)
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

static bool fits_with(const search *s, change_fn change, uint64_t to, outcome *out)
{
    impmem_plan_input changed = *s->in;
    change(&changed, to);
    return fits(s, &changed, out);
}

/* The largest step in [least, most] whose change fits; 0 when none does. Less takes no more memory, so halving finds it. */
static uint64_t largest_step(const search *s, change_fn change, uint64_t unit, uint64_t least, uint64_t most, outcome *out)
{
    outcome probe;
    if (most < least || !fits_with(s, change, least * unit, out)) return 0;
    uint64_t low = least, high = most;
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        if (fits_with(s, change, middle * unit, &probe)) {
            low = middle;
            *out = probe;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

static impmem_lever *add_lever(const search *s, impmem_lever_kind kind, uint64_t from, uint64_t to, const outcome *with)
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

static void add_number(const search *s, impmem_lever_kind kind, const char *flag, uint64_t from, uint64_t to,
                       const outcome *with)
{
    impmem_lever *lever = add_lever(s, kind, from, to, with);
    if (!lever) return;
    snprintf(lever->flag, sizeof lever->flag, "%s %llu", flag, (unsigned long long)to);
    snprintf(lever->change, sizeof lever->change, "%llu -> %llu", (unsigned long long)from, (unsigned long long)to);
}

static void set_context(impmem_plan_input *in, uint64_t to)
{
    in->max_seq_tokens = (uint32_t)to;
}

static void set_batch(impmem_plan_input *in, uint64_t to)
{
    in->max_batch = (uint32_t)to;
}

static void set_prefill(impmem_plan_input *in, uint64_t to)
{
    in->prefill_tokens = (uint32_t)to;
}

static void set_promise(impmem_plan_input *in, uint64_t to)
{
    in->promised_kv_tokens = to;
}

static void set_block(impmem_plan_input *in, uint64_t to)
{
    in->block_tokens = (uint32_t)to;
}

static void set_budget(impmem_plan_input *in, uint64_t to)
{
    in->budget_bytes = to;
}

static void set_kv_dtype(impmem_plan_input *in, uint64_t to)
{
    in->kv_dtype_k = in->kv_dtype_v = (impmem_dtype)to;
}

static void try_context(const search *s)
{
    outcome with;
    const uint32_t unit = s->terms->block_tokens, from = s->terms->load.context;
    uint64_t steps = largest_step(s, set_context, unit, 1, (from - 1) / unit, &with);
    if (steps) add_number(s, IMPMEM_LEVER_CONTEXT, "--max-seq-len", from, steps * unit, &with);
}

static void try_batch(const search *s)
{
    outcome with;
    const uint32_t from = s->terms->load.batch;
    uint64_t to = largest_step(s, set_batch, 1, 1, from - 1, &with);
    if (to) add_number(s, IMPMEM_LEVER_BATCH, "--max-batch", from, to, &with);
}

static void try_prefill(const search *s)
{
    outcome with;
    const uint32_t unit = s->terms->block_tokens, from = s->terms->load.tokens;
    uint64_t steps = largest_step(s, set_prefill, unit, 1, (from - 1) / unit, &with);
    if (steps) add_number(s, IMPMEM_LEVER_PREFILL, "--prefill-tokens", from, steps * unit, &with);
}

/* One sequence of the whole context is the least that can be promised. */
static void try_promise(const search *s)
{
    outcome with;
    const impmem__terms *t = s->terms;
    if (t->n_groups == 0 || t->group[0].window_tokens != 0 || t->floor_blocks[0] == 0) return;
    const uint32_t unit = t->block_tokens;
    uint64_t blocks = largest_step(s, set_promise, unit, t->group[0].blocks_per_sequence, t->floor_blocks[0] - 1, &with);
    if (blocks)
        add_number(s, IMPMEM_LEVER_PROMISE, "--promised-kv-tokens", t->floor_blocks[0] * unit, blocks * unit, &with);
}

/* Another block size wastes less of each sequence's last block, or of each block's rounding: the nearest that fits. */
static void try_block(const search *s)
{
    outcome with;
    const uint32_t from = s->terms->block_tokens;
    if (s->terms->n_groups == 0) return;
    for (uint32_t distance = 16; distance <= 240; distance += 16) {
        if (from > distance && fits_with(s, set_block, from - distance, &with)) {
            add_number(s, IMPMEM_LEVER_BLOCK, "--block-size", from, from - distance, &with);
            return;
        }
        if (from + distance <= 256 && fits_with(s, set_block, from + distance, &with)) {
            add_number(s, IMPMEM_LEVER_BLOCK, "--block-size", from, from + distance, &with);
            return;
        }
    }
}

static uint64_t block_bytes_of(const impmem__terms *terms)
{
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < terms->n_groups; g++) bytes += terms->group[g].block_bytes;
    return bytes;
}

/* Whether the model's KV can be held as `to` and takes less than now. */
static bool dtype_is_smaller(const search *s, impmem_dtype to)
{
    impmem__terms terms;
    impmem_plan_input changed = *s->in;
    set_kv_dtype(&changed, (uint64_t)to);
    return !impmem__plan_resolve(&changed, &terms, NULL) && block_bytes_of(&terms) < block_bytes_of(s->terms);
}

/* The first in this order, most faithful first, that is smaller than what is in force and fits. */
static void try_kv_dtype(const search *s)
{
    static const impmem_dtype candidate[] = {IMPMEM_DTYPE_FP8_E4M3, IMPMEM_DTYPE_NVFP4, IMPMEM_DTYPE_MXFP4,
                                             IMPMEM_DTYPE_INT4};
    const impmem__terms *t = s->terms;
    outcome with;
    for (size_t i = 0; i < sizeof candidate / sizeof candidate[0]; i++) {
        if (t->n_groups == 0 || !dtype_is_smaller(s, candidate[i])) continue;
        if (!fits_with(s, set_kv_dtype, (uint64_t)candidate[i], &with)) continue;
        impmem_lever *lever = add_lever(s, IMPMEM_LEVER_KV_DTYPE, (uint64_t)t->k, (uint64_t)candidate[i], &with);
        if (!lever) return;
        const char *name = impmem_dtype_name(candidate[i]);
        snprintf(lever->flag, sizeof lever->flag, "--kv-dtype %s", name);
        if (t->k == t->v) snprintf(lever->change, sizeof lever->change, "%s -> %s", impmem_dtype_name(t->k), name);
        else
            snprintf(lever->change, sizeof lever->change, "%s,%s -> %s", impmem_dtype_name(t->k), impmem_dtype_name(t->v),
                     name);
        return;
    }
}

/* "35952MiB" where that is exact, else bytes. */
static void write_size(char *out, size_t capacity, uint64_t bytes)
{
    if (bytes % IMPMEM_MIB == 0 && bytes > 0) snprintf(out, capacity, "%lluMiB", (unsigned long long)(bytes / IMPMEM_MIB));
    else snprintf(out, capacity, "%llu", (unsigned long long)bytes);
}

static void try_budget(const search *s)
{
    outcome with;
    uint64_t to;
    if (s->refused->account != IMPMEM_ACCOUNT_DEVICE) return;
    if (impmem_align_up(&to, s->refused->requested_bytes, s->terms->granule_bytes)) return;
    if (!fits_with(s, set_budget, to, &with)) return;
    impmem_lever *lever = add_lever(s, IMPMEM_LEVER_BUDGET, s->in->budget_bytes, to, &with);
    if (!lever) return;
    char from_text[24], to_text[24];
    write_size(from_text, sizeof from_text, s->in->budget_bytes);
    write_size(to_text, sizeof to_text, to);
    lever->frees_bytes = to - s->in->budget_bytes;
    snprintf(lever->flag, sizeof lever->flag, "--budget %s", to_text);
    snprintf(lever->change, sizeof lever->change, "%s -> %s", from_text, to_text);
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
    search s = {in, terms, refused, scratch, failure};
    try_context(&s);
    try_kv_dtype(&s);
    try_batch(&s);
    try_promise(&s);
    try_prefill(&s);
    try_block(&s);
    sort_levers(failure);
    try_budget(&s);
}
