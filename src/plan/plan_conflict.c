/* Where nothing helps: what the least load needs, and the fewest of its lines that are too much together. */
#include <string.h>

#include "core/internal.h"
#include "plan/levers.h"

/* Everything that can be made smaller is. What was promised stays promised. */
static void least_of(const impmem__search *s, impmem__variant *out)
{
    impmem__variant_of(s->in, out);
    if (s->in->n_must_fit == 0) {
        out->in.max_seq_tokens = s->terms->block_tokens;
        out->in.max_batch = 1;
        out->in.typical.tokens = 0;
    }
    out->in.prefill_tokens = s->terms->block_tokens;
    out->features.draft_tokens = 0;
    if (out->features.vision_images > 0) impmem__change(&out->in, &out->features, IMPMEM_LEVER_VISION, 0);
    for (uint32_t i = IMPMEM__N_DTYPE_CANDIDATES; i-- > 0;) {
        if (!impmem__dtype_is_smaller(s, IMPMEM_LEVER_KV_DTYPE, impmem__dtype_candidate(i))) continue;
        impmem__change(&out->in, &out->features, IMPMEM_LEVER_KV_DTYPE, (uint64_t)impmem__dtype_candidate(i));
        return;
    }
}

/* The largest line of the account that is not among the first n conflicts; NULL: none is left. */
static const impmem_line *next_largest(const impmem_plan *plan, const impmem_plan_failure *f, bool while_loading)
{
    const impmem_line *largest = NULL;
    for (uint32_t i = 0; i < plan->n_lines; i++) {
        const impmem_line *line = &plan->line[i];
        bool counts = line->account == IMPMEM_ACCOUNT_DEVICE;
        if (while_loading ? line->tier == IMPMEM_TIER_POOL : (line->flags & IMPMEM_LINE_TRANSIENT) != 0) counts = false;
        for (uint32_t c = 0; c < f->n_conflict; c++)
            if (f->conflict[c].line == line->id) counts = false;
        if (counts && (!largest || line->bytes > largest->bytes)) largest = line;
    }
    return largest;
}

void impmem__plan_conflict(const impmem__search *s)
{
    impmem_plan_failure *f = s->failure;
    impmem__variant least;
    impmem__terms terms;
    impmem__decision d;
    least_of(s, &least);
    if (impmem__plan_resolve(&least.in, &terms, NULL) || impmem__plan_decide(&terms, &d, s->scratch, NULL) ||
        impmem__plan_emit(&terms, &d, true, s->scratch, NULL) || d.account != IMPMEM_ACCOUNT_DEVICE)
        return;
    f->least_bytes = d.requested_bytes;
    if (d.fits) return;
    f->gap_bytes = d.requested_bytes - s->in->budget_bytes;
    uint64_t sum = 0;
    while (sum <= s->in->budget_bytes && f->n_conflict < IMPMEM_PLAN_MAX_CONFLICT) {
        const impmem_line *line = next_largest(s->scratch, f, d.while_loading);
        if (!line) break;
        f->conflict[f->n_conflict].line = line->id;
        f->conflict[f->n_conflict].bytes = line->bytes;
        memcpy(f->conflict[f->n_conflict].name, line->name, sizeof line->name);
        f->n_conflict++;
        sum += line->bytes; /* the plan's total was checked */
    }
}
