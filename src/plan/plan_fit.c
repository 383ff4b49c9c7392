/* The largest context or batch that still plans: halving, since more of either never takes less memory. */
#include "impmem/plan_search.h"

#include "core/internal.h"
#include "plan/internal.h"

#define MOST_SEQUENCES (1u << 20)
#define MOST_TOKENS ((uint32_t)INT32_MAX) /* positions are counted in 31 bits */

typedef struct search {
    impmem_plan_input in;
    impmem_fit_what what;
    uint32_t unit; /* tokens or sequences a step */
    impmem_plan *scratch;
} search;

const char *impmem_fit_limit_name(impmem_fit_limit limit)
{
    switch (limit) {
    case IMPMEM_FIT_BY_MEMORY: return "memory";
    case IMPMEM_FIT_BY_TRAINED: return "trained_context";
    case IMPMEM_FIT_BY_NUMBERING: return "numbering";
    }
    return "?";
}

static impmem_status try_value(search *s, uint64_t value)
{
    impmem__terms terms;
    impmem__decision decision;
    if (value > UINT32_MAX) return IMPMEM_ERR_BAD_VALUE;
    if (s->what == IMPMEM_FIT_CONTEXT) s->in.max_seq_tokens = (uint32_t)value;
    else s->in.max_batch = (uint32_t)value;
    impmem_status st = impmem__plan_resolve(&s->in, &terms, NULL);
    if (!st) st = impmem__plan_decide(&terms, &decision, s->scratch, NULL);
    if (!st && !decision.fits) st = IMPMEM_ERR_DOES_NOT_FIT;
    return st;
}

/* What the batches that must fit, and the typical load, ask at least. */
static uint64_t least_value(const search *s)
{
    uint64_t least = s->unit;
    for (uint32_t i = 0; i < s->in.n_must_fit && i < IMPMEM_PLAN_MAX_BATCHES; i++)
        least = impmem__larger(least,
                               s->what == IMPMEM_FIT_CONTEXT ? s->in.must_fit[i].tokens : s->in.must_fit[i].sequences);
    if (s->what == IMPMEM_FIT_CONTEXT) least = impmem__larger(least, s->in.typical.tokens);
    return least;
}

/* Refuses the least value as a plan of its own would. */
static impmem_status refuse(search *s, uint64_t least, impmem_plan_failure *failure)
{
    if (s->what == IMPMEM_FIT_CONTEXT) s->in.max_seq_tokens = (uint32_t)least;
    else s->in.max_batch = (uint32_t)least;
    s->scratch->size = (uint32_t)sizeof *s->scratch;
    s->scratch->version = 1;
    return impmem_plan_memory_only(&s->in, s->scratch, failure);
}

static impmem_status check(const impmem_plan_input *input, impmem_fit_what what, const uint64_t *value,
                           const impmem_fit_limit *limit, impmem_plan_failure *failure)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_status st = IMPMEM_OK;
    if (failure && (st = impmem__options_check(failure->size, failure->version, sizeof *failure, 1))) return st;
    if (!input || !value || !limit || !input->model || (input->n_must_fit > 0 && !input->must_fit))
        st = impmem__error_set(&why, IMPMEM_ERR_INVALID_ARGUMENT, "input",
                               "input, model, batches, value or limit is missing");
    else if (what != IMPMEM_FIT_CONTEXT && what != IMPMEM_FIT_BATCH)
        st = impmem__error_set(&why, IMPMEM_ERR_BAD_VALUE, "what", "what to fit is %u, expected context or batch",
                               (unsigned)what);
    if (st && failure) {
        *failure = (impmem_plan_failure)IMPMEM_PLAN_FAILURE_INIT;
        failure->why = why;
    }
    return st;
}

impmem_status impmem_plan_fit(const impmem_plan_input *input, impmem_fit_what what, uint64_t *out_value,
                              impmem_fit_limit *out_limit, impmem_plan_failure *failure)
{
    impmem_status st = check(input, what, out_value, out_limit, failure);
    if (st) return st;
    impmem_plan scratch = {.size = 0};
    search s = {*input, what, 1, &scratch};
    const uint32_t trained = input->model->trained_context;
    uint64_t most = MOST_SEQUENCES;
    if (what == IMPMEM_FIT_CONTEXT) {
        s.unit = input->block_tokens ? input->block_tokens : 16;
        most = trained && trained <= MOST_TOKENS ? trained : MOST_TOKENS / s.unit * s.unit;
    }
    uint64_t least = least_value(&s);
    if (least > most) least = most;
    if (try_value(&s, least)) {
        st = refuse(&s, least, failure);
        return st ? st : IMPMEM_ERR_STATE;
    }
    /* Steps above the least are whole units; the last may be cut short by the trained context. */
    uint64_t low = least / s.unit, high = most / s.unit;
    const uint64_t first = low;
    while (low < high) {
        const uint64_t middle = low + (high - low + 1) / 2;
        if (try_value(&s, middle * s.unit)) high = middle - 1;
        else low = middle;
    }
    uint64_t value = low == first ? least : low * s.unit;
    impmem_fit_limit limit = what == IMPMEM_FIT_CONTEXT && most == trained ? IMPMEM_FIT_BY_TRAINED
                                                                           : IMPMEM_FIT_BY_NUMBERING;
    if (low == most / s.unit && value < most && !try_value(&s, most)) value = most;
    if (value < most) {
        const uint64_t next = (value / s.unit + 1) * s.unit;
        st = try_value(&s, next < most ? next : most);
        limit = st == IMPMEM_ERR_DOES_NOT_FIT ? IMPMEM_FIT_BY_MEMORY : IMPMEM_FIT_BY_NUMBERING;
    }
    *out_value = value;
    *out_limit = limit;
    return IMPMEM_OK;
}
