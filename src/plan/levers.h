/* plan/levers.h - what the searches for single levers, for pairs and for what conflicts share. */
#ifndef IMPMEM__PLAN_LEVERS_H
#define IMPMEM__PLAN_LEVERS_H

#include "plan/internal.h"

typedef struct impmem__search {
    const impmem_plan_input *in;
    const impmem__terms *terms; /* of the refused input */
    const impmem__decision *refused;
    impmem_plan *scratch;
    impmem_plan_failure *failure;
} impmem__search;

/* A changed input; `in` points at `features` where these are changed. Not to be copied but by impmem__variant_of. */
typedef struct impmem__variant {
    impmem_plan_input in;
    impmem_plan_features features;
} impmem__variant;

typedef struct impmem__outcome {
    uint64_t requested_bytes; /* on the account that was refused */
    uint64_t total_bytes;     /* device */
} impmem__outcome;

void impmem__variant_of(const impmem_plan_input *in, impmem__variant *out);
void impmem__change(impmem_plan_input *in, impmem_plan_features *features, impmem_lever_kind kind, uint64_t to);

/* Plans again; false when it still doesn't fit, or is no longer a valid input. */
bool impmem__fits(const impmem__search *s, const impmem_plan_input *changed, impmem__outcome *out);
bool impmem__fits_with(const impmem__search *s, const impmem_plan_input *base, impmem_lever_kind kind, uint64_t to,
                       impmem__outcome *out);
/* The largest step in [least, most] of `unit` whose change to `base` fits; 0 when none does. */
uint64_t impmem__largest_step(const impmem__search *s, const impmem_plan_input *base, impmem_lever_kind kind, uint64_t unit,
                              uint64_t least, uint64_t most, impmem__outcome *out);
/* Whether K, V or both held as `to` can be, and are smaller than in the refused input. */
bool impmem__dtype_is_smaller(const impmem__search *s, impmem_lever_kind kind, impmem_dtype to);
#define IMPMEM__N_DTYPE_CANDIDATES 4u
impmem_dtype impmem__dtype_candidate(uint32_t index); /* most faithful first */

/* NULL: there are as many as can be listed. */
impmem_lever *impmem__add_lever(const impmem__search *s, impmem_lever_kind kind, uint64_t from, uint64_t to,
                                const impmem__outcome *with);
/* Flag and change of one change, behind what is in the two texts already. */
void impmem__lever_text(const impmem__search *s, impmem_lever *lever, impmem_lever_kind kind, uint64_t from, uint64_t to);

/* plan_pairs.c: the best two changes together; false: no two are enough. */
bool impmem__plan_pair(const impmem__search *s);
/* plan_conflict.c: why nothing helps. */
void impmem__plan_conflict(const impmem__search *s);

#endif
