/* A plan for each of several devices: each by itself first, then with block counts that all of them have. */
#include <string.h>

#include "core/internal.h"
#include "plan/ranks.h"

/* The fewest blocks of each window over the ranks; window 0 is KV that grows with the context. */
typedef struct common {
    uint32_t n;
    uint32_t window[IMPMEM_PLAN_MAX_KV_GROUPS];
    uint64_t blocks[IMPMEM_PLAN_MAX_KV_GROUPS];
    uint32_t rank[IMPMEM_PLAN_MAX_KV_GROUPS]; /* that set it */
} common;

/* A cache splits like the weights that it copies; elements in whole rows of 32. */
static impmem_status split_caches(const impmem_model_shape *whole, const impmem__grid *g, uint32_t n_layers,
                                  impmem_plan_features *f, impmem_error *why)
{
    for (uint32_t i = 0; i < IMPMEM_MAX_WEIGHT_CACHES; i++) {
        impmem_weight_cache *c = &f->weight_cache[i];
        uint64_t *const part[] = {&c->elements, &c->mandatory_elements, &c->scale_slab_bytes};
        for (size_t p = 0; p < sizeof part / sizeof part[0]; p++) {
            if (*part[p] > INT64_MAX)
                return impmem__error_set(why, IMPMEM_ERR_OVERFLOW, "weight_cache", "weight cache %u exceeds 63 bits", i);
            uint64_t value = *part[p] / whole->n_layers * n_layers +
                             *part[p] % whole->n_layers * n_layers / whole->n_layers;
            value = value / g->tp + (value % g->tp != 0);
            *part[p] = value + (32 - value % 32) % 32;
        }
    }
    return IMPMEM_OK;
}

impmem_status impmem__rank_input_of(const impmem_plan_input *input, const impmem_layout *layout, uint32_t rank,
                                    impmem__rank_input *out, impmem_error *why)
{
    static const impmem_plan_features none = IMPMEM_PLAN_FEATURES_INIT;
    impmem__grid g;
    uint32_t first, n;
    impmem_status st = impmem__grid_of(input->model, layout, &g, why);
    if (!st) st = impmem_rank_shape(input->model, layout, rank, &out->shape, why);
    if (st) return st;
    const uint32_t stage = rank / g.tp;
    const bool is_first = stage == 0, is_last = stage + 1 == g.pp;
    out->features = input->features ? *input->features : none;
    impmem_plan_features *f = &out->features;
    if (g.tp * g.pp > 1 && f->communication_bytes == 0)
        return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, "communication_bytes",
                                 "%u ranks exchange data, and communication_bytes of the features is 0: give what the "
                                 "collectives' buffers were measured to take",
                                 g.tp * g.pp);
    impmem__stage_layers(input->model, layout, &g, stage, &first, &n);
    if (g.tp * g.pp > 1) st = split_caches(input->model, &g, n, f, why);
    if (st) return st;
    if (!is_last) {
        f->draft_tokens = f->logit_rows = f->prompt_logprob_rows = 0;
        f->draft = NULL;
    }
    if (!is_first) f->vision_images = f->vision_skipped = 0;
    out->input = *input;
    out->input.model = &out->shape;
    out->input.features = f;
    if (layout->budget_bytes) out->input.budget_bytes = layout->budget_bytes[rank];
    return IMPMEM_OK;
}

static impmem_status note_blocks(common *c, const impmem__terms *t, const impmem__decision *d, uint32_t rank,
                                 impmem_error *why)
{
    for (uint32_t g = 0; g < t->n_groups; g++) {
        uint32_t i = 0;
        while (i < c->n && c->window[i] != t->group[g].window_tokens) i++;
        if (i == IMPMEM_PLAN_MAX_KV_GROUPS)
            return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, "window_tokens",
                                     "the ranks have more than %u distinct windows", IMPMEM_PLAN_MAX_KV_GROUPS);
        if (i < c->n && c->blocks[i] <= d->blocks[g]) continue;
        if (i == c->n) c->n++;
        c->window[i] = t->group[g].window_tokens;
        c->blocks[i] = d->blocks[g];
        c->rank[i] = rank;
    }
    return IMPMEM_OK;
}

static void take_common(const common *c, const impmem__terms *t, impmem__decision *d)
{
    for (uint32_t g = 0; g < t->n_groups; g++)
        for (uint32_t i = 0; i < c->n; i++)
            if (c->window[i] == t->group[g].window_tokens) d->blocks[g] = c->blocks[i];
}

static uint64_t kv_bytes(const impmem_plan *plan)
{
    uint64_t sum = 0;
    for (uint32_t g = 0; g < plan->n_kv_groups; g++) sum += plan->region[plan->kv_group[g].region].bytes;
    for (uint32_t i = 0; i < plan->n_kv_sides; i++) sum += plan->region[plan->kv_side[i].region].bytes;
    return sum;
}

/* By itself; DOES_NOT_FIT without a failure written. `plan` is scratch. */
static impmem_status decide(const impmem__rank_input *r, impmem__terms *terms, impmem__decision *d, impmem_plan *plan,
                            impmem_error *why)
{
    impmem_status st = impmem__plan_resolve(&r->input, terms, why);
    if (!st) st = impmem__plan_decide(terms, d, plan, why);
    return st ? st : d->fits ? IMPMEM_OK : IMPMEM_ERR_DOES_NOT_FIT;
}

static void describe(const impmem_plan_input *input, const impmem_layout *layout, const impmem__grid *g, uint32_t rank,
                     const impmem__rank_input *r, impmem_rank *out)
{
    *out = (impmem_rank){.stage = rank / g->tp, .place = rank % g->tp, .kv_copies = 1};
    impmem__stage_layers(input->model, layout, g, out->stage, &out->first_layer, &out->n_layers);
    out->weight_bytes = r->shape.weight_bytes;
    out->budget_bytes = r->input.budget_bytes;
    for (uint32_t i = out->first_layer; i < out->first_layer + out->n_layers; i++) {
        const impmem_layer_shape *layer = &input->model->layer[i];
        uint32_t copies = 1;
        if (layer->kind == IMPMEM_LAYER_LATENT) copies = g->tp;
        else if (layer->kv_heads > 0 && layer->kv_heads < g->tp) copies = g->tp / layer->kv_heads;
        if (copies > out->kv_copies) out->kv_copies = copies;
    }
}

/* The second pass over one rank: the counts that all have. */
static impmem_status plan_rank(const impmem__rank_input *r, const common *c, impmem_plan *plan, impmem_rank *rank,
                               impmem_error *why)
{
    impmem__terms terms;
    impmem__decision d;
    impmem_status st = decide(r, &terms, &d, plan, why);
    if (!st) st = impmem__plan_emit(&terms, &d, false, plan, why);
    if (st) return st;
    const uint64_t alone = kv_bytes(plan);
    take_common(c, &terms, &d);
    st = impmem__plan_emit(&terms, &d, true, plan, why);
    if (!st) rank->stranded_bytes = alone - kv_bytes(plan);
    return st;
}

static impmem_status fail(impmem_plan_failure *failure, const impmem_error *why)
{
    if (failure) {
        *failure = (impmem_plan_failure)IMPMEM_PLAN_FAILURE_INIT;
        failure->why = *why;
    }
    return why->status;
}

static impmem_status check(const impmem_plan_input *input, const impmem_layout *layout, const impmem_plan *plans,
                           const impmem_rank *ranks, uint32_t capacity, const impmem_ranks_summary *summary,
                           impmem__grid *out_grid, impmem_error *why)
{
    if (!input || !plans || !ranks || !summary)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "ranks", "input, plans, ranks or summary is missing");
    impmem_status st = impmem__grid_of(input->model, layout, out_grid, why);
    if (!st && out_grid->tp * out_grid->pp > capacity)
        st = impmem__error_set(why, IMPMEM_ERR_EXHAUSTED, "ranks", "%u ranks, and room for %u plans",
                               out_grid->tp * out_grid->pp, capacity);
    return st;
}

impmem_status impmem_plan_ranks(const impmem_plan_input *input, const impmem_layout *layout, impmem_plan *plans,
                                impmem_rank *ranks, uint32_t capacity, impmem_ranks_summary *out_summary,
                                impmem_plan_failure *failure)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem__grid g = {1, 1, 1};
    impmem__rank_input r;
    impmem__terms terms;
    impmem__decision d;
    impmem_plan plan;
    common c = {.n = 0};
    if (failure) {
        impmem_status st = impmem__options_check(failure->size, failure->version, sizeof *failure, 1);
        if (st) return st;
    }
    impmem_status st = check(input, layout, plans, ranks, capacity, out_summary, &g, &why);
    const uint32_t n = g.tp * g.pp;
    for (uint32_t i = 0; i < n && !st; i++) {
        st = impmem__rank_input_of(input, layout, i, &r, &why);
        if (!st) st = decide(&r, &terms, &d, &plan, &why);
        if (st == IMPMEM_ERR_DOES_NOT_FIT) {
            *out_summary = (impmem_ranks_summary){.n_ranks = n, .refused = i};
            plan.size = (uint32_t)sizeof plan;
            plan.version = 1;
            return impmem_plan_memory_only(&r.input, &plan, failure);
        }
        if (!st) st = note_blocks(&c, &terms, &d, i, &why);
    }
    if (st) return fail(failure, &why);
    impmem_ranks_summary summary = {.n_ranks = n};
    for (uint32_t i = 0; i < c.n; i++) {
        if (c.window[i] != 0) continue;
        summary.kv_blocks = c.blocks[i];
        summary.tightest = c.rank[i];
    }
    for (uint32_t i = 0; i < n && !st; i++) {
        st = impmem__rank_input_of(input, layout, i, &r, &why);
        if (st) break;
        describe(input, layout, &g, i, &r, &ranks[i]);
        st = plan_rank(&r, &c, &plans[i], &ranks[i], &why);
        if (st) break;
        if (impmem_add(&summary.stranded_bytes, summary.stranded_bytes, ranks[i].stranded_bytes))
            summary.stranded_bytes = UINT64_MAX;
    }
    if (st) return fail(failure, &why);
    *out_summary = summary;
    return IMPMEM_OK;
}
