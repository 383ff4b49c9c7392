/* Two changes together, where no single one is enough: of all that fit, the pair that leaves the most tokens to the batch.
 */
#include "core/internal.h"
#include "plan/levers.h"

typedef struct pair {
    impmem_lever_kind first, second;
    uint64_t first_from, first_to, second_from, second_to;
    uint64_t worth; /* sequences x tokens that are left */
    impmem__outcome with;
} pair;

/* The most context, or else the most sequences, beside a first change that is made already: nothing below what is worth
 * more than the best so far is tried, so that most of the first changes cost one plan. */
static void try_second(const impmem__search *s, const impmem_plan_input *base, const pair *first, impmem_lever_kind second,
                       pair *best)
{
    const impmem__terms *t = s->terms;
    const bool context = second == IMPMEM_LEVER_CONTEXT;
    const uint64_t unit = context ? t->block_tokens : 1, from = context ? t->load.context : t->load.batch;
    const uint64_t batch = first->first == IMPMEM_LEVER_BATCH ? first->first_to : t->load.batch;
    const uint64_t worth_of_step = unit * (context ? batch : t->load.context); /* factors of 32 bits */
    impmem__outcome with;
    const uint64_t steps = impmem__largest_step(s, base, second, unit, best->worth / worth_of_step + 1, (from - 1) / unit,
                                                &with);
    if (steps == 0) return;
    *best = *first;
    best->second = second;
    best->second_from = from;
    best->second_to = steps * unit;
    best->worth = steps * worth_of_step;
    best->with = with;
}

static void try_first(const impmem__search *s, impmem_lever_kind kind, uint64_t from, uint64_t to, pair *best)
{
    impmem__variant base;
    const pair first = {.first = kind, .first_from = from, .first_to = to};
    impmem__variant_of(s->in, &base);
    impmem__change(&base.in, &base.features, kind, to);
    try_second(s, &base.in, &first, IMPMEM_LEVER_CONTEXT, best);
    if (kind != IMPMEM_LEVER_BATCH) try_second(s, &base.in, &first, IMPMEM_LEVER_BATCH, best);
}

/* The smallest type there is: with it most is left to the second change. */
static bool smallest_dtype(const impmem__search *s, impmem_dtype *out)
{
    for (uint32_t i = IMPMEM__N_DTYPE_CANDIDATES; i-- > 0;) {
        if (!impmem__dtype_is_smaller(s, IMPMEM_LEVER_KV_DTYPE, impmem__dtype_candidate(i))) continue;
        *out = impmem__dtype_candidate(i);
        return true;
    }
    return false;
}

bool impmem__plan_pair(const impmem__search *s)
{
    const impmem__terms *t = s->terms;
    pair best = {.worth = 0};
    impmem_dtype dtype;
    if (s->in->n_must_fit > 0) return false; /* what must fit is no matter of context or batch */
    if (impmem__dtype_is_smaller(s, IMPMEM_LEVER_KV_DTYPE, IMPMEM_DTYPE_FP8_E4M3))
        try_first(s, IMPMEM_LEVER_KV_DTYPE, (uint64_t)t->k, (uint64_t)IMPMEM_DTYPE_FP8_E4M3, &best);
    if (best.worth == 0 && smallest_dtype(s, &dtype))
        try_first(s, IMPMEM_LEVER_KV_DTYPE, (uint64_t)t->k, (uint64_t)dtype, &best);
    if (t->features->draft_tokens > 0) try_first(s, IMPMEM_LEVER_DRAFT, 1, 0, &best);
    if (t->features->vision_images > 0) try_first(s, IMPMEM_LEVER_VISION, 1, 0, &best);
    if (t->load.tokens > t->block_tokens) try_first(s, IMPMEM_LEVER_PREFILL, t->load.tokens, t->block_tokens, &best);
    const uint64_t batch = t->load.batch;
    if (batch > 1) try_first(s, IMPMEM_LEVER_BATCH, batch, batch / 2, &best);
    if (batch > 4) try_first(s, IMPMEM_LEVER_BATCH, batch, batch / 4, &best);
    if (batch > 2) try_first(s, IMPMEM_LEVER_BATCH, batch, 1, &best);
    if (best.worth == 0) return false;
    impmem_lever *lever = impmem__add_lever(s, best.first, best.first_from, best.first_to, &best.with);
    if (!lever) return false;
    lever->second = best.second;
    lever->second_from = best.second_from;
    lever->second_to = best.second_to;
    impmem__lever_text(s, lever, best.first, best.first_from, best.first_to);
    impmem__lever_text(s, lever, best.second, best.second_from, best.second_to);
    return true;
}
