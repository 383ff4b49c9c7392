/* plan/internal.h - how a plan comes about: an input is resolved into terms (defaults filled in, every demand's bytes and
 * every KV block's bytes known), a decision says who gets how much, and emitting writes the decision down as lines and
 * regions. Levers resolve and decide again on a changed input; only the emitting is skipped. */
#ifndef IMPMEM__PLAN_INTERNAL_H
#define IMPMEM__PLAN_INTERNAL_H

#include "core/layout.h"
#include "impmem/bytes.h"
#include "impmem/explain.h"
#include "impmem/plan.h"

#define IMPMEM__LINE_ALIGNMENT 256u            /* bytes: every line inside a region starts and ends on it */
#define IMPMEM__MAX_BLOCKS IMPMEM__KV_MAX_ROWS /* a pool numbers blocks and as many extra references in 32 bits */

/* Which region a demand goes to. The order of the first four is the order of opening. */
typedef enum impmem__part {
    IMPMEM__PART_ENGINE = 0,
    IMPMEM__PART_MODEL = 1, /* the weights are in it too */
    IMPMEM__PART_TRANSIENT = 2,
    IMPMEM__PART_SCRATCH = 3,
    IMPMEM__PART_PINNED = 4, /* a region each */
    IMPMEM__PART_STAGING = 5,
    IMPMEM__PART_CHARGE = 6,
    IMPMEM__N_SHARED_PARTS = 4
} impmem__part;

#define IMPMEM__MAX_ITEMS (IMPMEM_PLAN_MAX_DEMANDS + 32u)

/* What takes memory beside weights and pools: a feature's buffer, or a demand of the caller. */
typedef struct impmem__item {
    impmem_line_id id;
    impmem__part part;
    impmem_tier tier;
    uint32_t flags;
    uint64_t bytes;              /* as it would be charged */
    const impmem_demand *demand; /* NULL: a feature */
} impmem__item;

/* A pool of state: `pool` has the slots of the whole batch; line and region aside. */
typedef struct impmem__state {
    impmem_state_pool pool;
    uint64_t per_sequence, extra; /* slots */
} impmem__state;

/* An input with nothing left open. */
typedef struct impmem__terms {
    const impmem_plan_input *in;
    const impmem_plan_features *features; /* never NULL */
    impmem_load load;
    uint32_t block_tokens;
    uint32_t journal_records;
    uint32_t extra_refs; /* of the full group */
    uint32_t initial_percent;
    impmem_dtype k, v;
    uint64_t granule_bytes;
    uint64_t chunk_bytes;
    uint64_t budget_bytes[IMPMEM_N_ACCOUNTS];
    uint64_t weight_bytes; /* rounded up to 256 */
    uint32_t n_items;
    impmem__item item[IMPMEM__MAX_ITEMS]; /* features first, then demands in their order */
    uint32_t n_groups;
    impmem_kv_group group[IMPMEM_PLAN_MAX_KV_GROUPS];   /* all but blocks, line, region */
    uint64_t floor_blocks[IMPMEM_PLAN_MAX_KV_GROUPS];   /* the smallest that must fit, reserved ones included */
    uint64_t typical_blocks[IMPMEM_PLAN_MAX_KV_GROUPS]; /* of one typical sequence */
    uint64_t layer_elements[IMPMEM_PLAN_MAX_KV_GROUPS]; /* of one block in its largest layer */
    uint32_t n_sides;
    impmem_kv_side side[IMPMEM_PLAN_MAX_KV_SIDES]; /* by group */
    uint32_t n_states;
    impmem__state state[IMPMEM_PLAN_MAX_STATE_POOLS];
} impmem__terms;

/* Who gets how much. When it doesn't fit, grants and blocks are those of the smallest promised load. */
typedef struct impmem__decision {
    bool fits;
    bool while_loading;       /* it is the load peak that doesn't fit */
    impmem_account account;   /* that doesn't fit */
    uint64_t requested_bytes; /* smallest promised load on `account`; on the device when it fits */
    uint64_t grant_bytes[IMPMEM__MAX_ITEMS];
    uint64_t blocks[IMPMEM_PLAN_MAX_KV_GROUPS];
} impmem__decision;

impmem__part impmem__demand_part(const impmem_demand *demand);
static inline bool impmem__optional(const impmem__item *item)
{
    return (item->flags & IMPMEM_LINE_OPTIONAL) != 0;
}
static inline uint64_t impmem__larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* plan_input.c */
impmem_status impmem__plan_resolve(const impmem_plan_input *in, impmem__terms *out, impmem_error *why);
/* plan_features.c: items of the features, and what is wrong with them. Before the demands are resolved. */
impmem_status impmem__plan_features(impmem__terms *terms, impmem_error *why);
/* plan_states.c: pools of state; wants the groups. */
impmem_status impmem__plan_states(impmem__terms *terms, impmem_error *why);
/* plan_groups.c: the KV groups, their sides and floors of terms whose other fields are there. */
impmem_status impmem__plan_groups(impmem__terms *terms, impmem_error *why);
/* The draft's layers: NULL and 0 without one. Its own model's draft layers are all like *out_one. */
const impmem_model_shape *impmem__plan_draft(const impmem__terms *terms, uint32_t *out_n_layers,
                                             const impmem_layer_shape **out_one);
/* Device bytes of that many blocks of a group with its sides, each region rounded up to the granule. */
impmem_status impmem__group_bytes(const impmem__terms *terms, uint32_t group, uint64_t blocks, uint64_t *out);
/* plan_decide.c: both accounts and the host's. `scratch` is overwritten. */
impmem_status impmem__plan_decide(const impmem__terms *terms, impmem__decision *out, impmem_plan *scratch,
                                  impmem_error *why);
/* How many sequences of max_seq_tokens fit beside everything mandatory; 0 when the rest alone is too much. */
uint64_t impmem__plan_sequences_beside(const impmem__terms *terms);
/* plan_emit.c: overwrites *out. Without `text` names and formulas stay empty. */
impmem_status impmem__plan_emit(const impmem__terms *terms, const impmem__decision *decision, bool text, impmem_plan *out,
                                impmem_error *why);
/* plan_text.c: name and how of lines. */
void impmem__plan_text_line(impmem_line *line, const char *name, const char *how);
void impmem__plan_text_weights(const impmem_model_shape *model, impmem_line *line);
void impmem__plan_text_kv(const impmem__terms *terms, const impmem_kv_group *group, impmem_line *line);
void impmem__plan_text_side(const impmem__terms *terms, const impmem_kv_side *side, uint64_t blocks, impmem_line *line);
void impmem__plan_text_state(const impmem_state_pool *pool, impmem_line *line);
void impmem__plan_text_item(const impmem__terms *terms, const impmem__item *item, impmem_line *line);
/* plan_explain.c: formula and operands of a feature's item. */
void impmem__explain_item(const impmem__terms *terms, const impmem__item *item, impmem_explanation *out);
void impmem__explain_formula(impmem_explanation *e, const char *text);
void impmem__explain_operand(impmem_explanation *e, const char *name, uint64_t value); /* as many as there is room for */
/* reference.c: of one of the reference engine's demands; false for another one, whose formula only its owner knows. */
bool impmem__reference_explain(const impmem_demand *demand, const impmem_load *load, impmem_explanation *out);
static inline uint32_t impmem__logprob_rows(const impmem__terms *t)
{
    return t->features->prompt_logprob_rows == UINT32_MAX ? t->load.tokens : t->features->prompt_logprob_rows;
}
/* What the tower works on for one image of full size. */
static inline uint32_t impmem__vision_patches(const impmem_plan_features *f, const impmem_model_shape *m)
{
    return f->vision_patches ? f->vision_patches : m->vision_patches ? m->vision_patches : m->vision_tokens;
}
/* plan_control.c: exact host bytes that opening this plan takes, its own line counted among `n_lines`. */
impmem_status impmem__plan_control_bytes(const impmem_plan *plan, uint32_t n_lines, uint64_t *out_bytes);
/* plan_levers.c: what would make it fit, found by planning again; largest saving first, the budget last. */
void impmem__plan_levers(const impmem_plan_input *in, const impmem__terms *terms, const impmem__decision *refused,
                         impmem_plan *scratch, impmem_plan_failure *failure);

/* size_executor.c */
impmem_status impmem__size_executor_shared(const impmem_model_shape *shape, uint32_t tokens, uint64_t *out_bytes);
/* Elements of the largest weight, as the file stores it or as the geometry implies. */
impmem_status impmem__size_largest_weight(const impmem_model_shape *shape, uint64_t *out);
uint64_t impmem__size_executor_margin(const impmem_model_shape *shape); /* bytes whatever the load */
uint64_t impmem__size_largest_input(const impmem_model_shape *shape);   /* elements: the longest row a projection reads */

/* One KV region of that many blocks, rounded up to the granule. */
static inline impmem_status impmem__kv_region_bytes(uint64_t blocks, uint64_t stride, uint64_t granule, uint64_t *out)
{
    uint64_t bytes;
    return impmem_mul(&bytes, blocks, stride) || impmem_align_up(&bytes, bytes, granule) ? IMPMEM_ERR_OVERFLOW
                                                                                         : impmem_add(out, bytes, 0);
}

#endif
