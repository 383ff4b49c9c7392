/* Formulas with their operands: of features as lines are written, of any line when it is asked for. */
#include <stdio.h>
#include <string.h>

#include "core/internal.h"
#include "plan/internal.h"

void impmem__explain_formula(impmem_explanation *e, const char *text)
{
    snprintf(e->formula, sizeof e->formula, "%s", text);
}

void impmem__explain_operand(impmem_explanation *e, const char *name, uint64_t value)
{
    if (e->n_operands == IMPMEM_EXPLAIN_MAX_OPERANDS) return;
    impmem_operand *o = &e->operand[e->n_operands++];
    snprintf(o->name, sizeof o->name, "%s", name);
    o->value = value;
}

static void explain_vision(const impmem__terms *t, impmem_line_id id, impmem_explanation *e)
{
    const impmem_plan_features *f = t->features;
    const impmem_model_shape *m = t->in->model;
    const uint32_t patches = impmem__vision_patches(f, m);
    if (id == IMPMEM_LINE_VISION_WEIGHTS) {
        impmem__explain_formula(e, "sum of the tower's tensors");
    } else if (id == IMPMEM_LINE_VISION_PIXELS && f->vision_patches) {
        impmem__explain_formula(e, "images x patches x elements x 2");
        impmem__explain_operand(e, "images", f->vision_images);
        impmem__explain_operand(e, "patches", patches);
        impmem__explain_operand(e, "elements", f->vision_patch_elements);
    } else if (id == IMPMEM_LINE_VISION_PIXELS) {
        impmem__explain_formula(e, "images x side x side x 3 x 2");
        impmem__explain_operand(e, "images", f->vision_images);
        impmem__explain_operand(e, "side", m->vision_image_size);
    } else if (id == IMPMEM_LINE_VISION_EMBEDDINGS) {
        impmem__explain_formula(e, "images x (taps + 1) x tokens x width x 2");
        impmem__explain_operand(e, "images", f->vision_images);
        impmem__explain_operand(e, "taps", f->vision_taps);
        impmem__explain_operand(e, "tokens", m->vision_tokens);
        impmem__explain_operand(e, "width", m->d_model);
    } else {
        impmem__explain_formula(e, f->vision_scores ? "4 a(patches x width x 2) + a(heads x patches x patches x 2)"
                                                    : "4 a(patches x width x 2)");
        impmem__explain_operand(e, "patches", patches);
        impmem__explain_operand(e, "width", m->vision_d_model);
        if (f->vision_scores) impmem__explain_operand(e, "heads", m->vision_heads);
    }
}

static void explain_draft(const impmem__terms *t, impmem_line_id id, impmem_explanation *e)
{
    const impmem_plan_features *f = t->features;
    if (id == IMPMEM_LINE_DRAFT_WEIGHTS) {
        impmem__explain_formula(e, "the draft model's weights");
    } else if (id == IMPMEM_LINE_VERIFY) {
        impmem__explain_formula(e, "a(rows x vocab x 4) + a(rows x width x 2) + 2 a(rows x 4), rows = batch x (k + 1)");
        impmem__explain_operand(e, "batch", t->load.batch);
        impmem__explain_operand(e, "k", f->draft_tokens);
        impmem__explain_operand(e, "vocab", t->in->model->vocab);
        impmem__explain_operand(e, "width", t->in->model->d_model);
    } else {
        impmem__explain_formula(e, "largest + graphs x exec");
        impmem__explain_operand(e, "largest", f->draft_graph_bytes);
        impmem__explain_operand(e, "graphs", f->n_draft_graphs);
        impmem__explain_operand(e, "exec", f->graph_exec_bytes);
    }
}

static void explain_weight_cache(const impmem__terms *t, impmem_line_id id, impmem_explanation *e)
{
    const bool optional = id >= IMPMEM_LINE_WEIGHT_CACHE_OPTIONAL;
    const impmem_weight_cache *c =
        &t->features->weight_cache[id - (optional ? IMPMEM_LINE_WEIGHT_CACHE_OPTIONAL : IMPMEM_LINE_WEIGHT_CACHE)];
    const uint64_t slab = optional == (c->mandatory_elements > 0) ? 0 : c->scale_slab_bytes;
    const bool apart = c->scale_slab_bytes > 0;
    const char *text = "elements";
    if (c->dtype == IMPMEM_DTYPE_F16 || c->dtype == IMPMEM_DTYPE_BF16) text = "elements x 2";
    if (c->dtype == IMPMEM_DTYPE_INT8) text = "elements x 9 / 8";
    if (c->dtype == IMPMEM_DTYPE_NVFP4) text = apart ? "elements / 2" : "elements x 9 / 16";
    snprintf(e->formula, sizeof e->formula, "%s: %s%s", impmem_dtype_name(c->dtype), text, slab ? " + scale slab" : "");
    impmem__explain_operand(e, "elements", optional ? c->elements - c->mandatory_elements : c->mandatory_elements);
    if (slab) impmem__explain_operand(e, "scale slab", slab);
}

static void explain_forward(const impmem__terms *t, impmem_line_id id, impmem_explanation *e)
{
    const impmem_plan_features *f = t->features;
    const impmem_model_shape *m = t->in->model;
    if (id == IMPMEM_LINE_LOGITS || id == IMPMEM_LINE_PROMPT_LOGPROBS) {
        impmem__explain_formula(e, id == IMPMEM_LINE_LOGITS ? "rows x vocab x 4" : "rows x vocab x (2 + 4)");
        impmem__explain_operand(e, "rows", id == IMPMEM_LINE_LOGITS ? f->logit_rows : impmem__logprob_rows(t));
        impmem__explain_operand(e, "vocab", m->vocab);
    } else if (id == IMPMEM_LINE_ATTENTION_SCORES) {
        impmem__explain_formula(e, "min(heads x tokens x tokens x 2, cap)");
        impmem__explain_operand(e, "heads", m->n_heads);
        impmem__explain_operand(e, "tokens", t->load.tokens);
        impmem__explain_operand(e, "cap", f->attention_scores_cap_bytes ? f->attention_scores_cap_bytes : 384 * IMPMEM_MIB);
    } else if (id == IMPMEM_LINE_EXPERT_TABLES) {
        impmem__explain_formula(e, "80 x experts + 12 + 11 x 256");
        impmem__explain_operand(e, "experts", m->n_experts);
    } else if (id == IMPMEM_LINE_LORA) {
        impmem__explain_formula(e, f->lora_slot_bytes ? "slots x slot"
                                                      : "slots x 2 x rank x (inputs + outputs of each projection)");
        impmem__explain_operand(e, "slots", f->lora_slots);
        if (f->lora_slot_bytes) impmem__explain_operand(e, "slot", f->lora_slot_bytes);
        else impmem__explain_operand(e, "rank", f->lora_rank);
    } else {
        impmem__explain_formula(e, id == IMPMEM_LINE_GRAPH_SLOTS ? "slots x (a(66052) + a(40) + a(4 x 64) + a(8 x steps))"
                                                                 : "slots x (a(4 x steps) + 768)");
        impmem__explain_operand(e, "slots", f->graph_slots);
        impmem__explain_operand(e, "steps", t->load.context);
    }
}

void impmem__explain_item(const impmem__terms *t, const impmem__item *item, impmem_explanation *e)
{
    *e = (impmem_explanation){.line = item->id, .bytes = item->bytes};
    const impmem_line_id id = item->id;
    if (item->demand && impmem__reference_explain(item->demand, &t->load, e)) return;
    if (item->demand) impmem__explain_formula(e, item->demand->how[0] ? item->demand->how : "declared by the engine");
    else if (id == IMPMEM_LINE_HEADROOM) impmem__explain_formula(e, "left alone, on top of everything");
    else if (id == IMPMEM_LINE_COMMUNICATION || id == IMPMEM_LINE_GEMM_WORKSPACE)
        impmem__explain_formula(e, "given by the engine");
    else if (id == IMPMEM_LINE_GRAPHS) {
        impmem__explain_formula(e, "what each graph exceeds all before it by being larger + graphs x exec");
        impmem__explain_operand(e, "graphs", t->features->n_graphs);
        impmem__explain_operand(e, "exec", t->features->graph_exec_bytes);
    } else if (id >= IMPMEM_LINE_VISION_WEIGHTS && id <= IMPMEM_LINE_VISION_SCRATCH) explain_vision(t, id, e);
    else if (id >= IMPMEM_LINE_DRAFT_WEIGHTS && id <= IMPMEM_LINE_DRAFT_GRAPHS) explain_draft(t, id, e);
    else if (id >= IMPMEM_LINE_WEIGHT_CACHE) explain_weight_cache(t, id, e);
    else explain_forward(t, id, e);
}

static void explain_group(const impmem_plan *plan, const impmem_kv_group *g, impmem_explanation *e)
{
    impmem__explain_formula(e, plan->region[g->region].growable ? "up(blocks x a(block))" : "blocks x a(block)");
    impmem__explain_operand(e, "blocks", g->blocks);
    impmem__explain_operand(e, "block", g->block_bytes);
    impmem__explain_operand(e, "layers", g->n_layers);
    impmem__explain_operand(e, "tokens a block", g->block_tokens);
    impmem__explain_operand(e, "blocks a sequence", g->blocks_per_sequence);
    if (g->window_tokens) impmem__explain_operand(e, "window", g->window_tokens);
    if (g->reserved_blocks) impmem__explain_operand(e, "reserved blocks", g->reserved_blocks);
    if (g->capped_blocks) impmem__explain_operand(e, "blocks out of reach", g->capped_blocks);
}

/* A line of a pool: groups, what lies beside them, state. */
static bool explain_pool(const impmem_plan *plan, impmem_line_id id, impmem_explanation *e)
{
    for (uint32_t g = 0; g < plan->n_kv_groups; g++) {
        if (plan->kv_group[g].line != id) continue;
        explain_group(plan, &plan->kv_group[g], e);
        return true;
    }
    for (uint32_t i = 0; i < plan->n_kv_sides; i++) {
        const impmem_kv_side *side = &plan->kv_side[i];
        if (side->line != id) continue;
        impmem__explain_formula(e, "blocks x a(block)");
        impmem__explain_operand(e, "blocks", plan->kv_group[side->group].blocks);
        impmem__explain_operand(e, "block", side->block_bytes);
        impmem__explain_operand(e, "layers", side->n_layers);
        return true;
    }
    for (uint32_t i = 0; i < plan->n_state_pools; i++) {
        const impmem_state_pool *pool = &plan->state_pool[i];
        if (pool->line != id) continue;
        impmem__explain_formula(e, "slots x stride");
        impmem__explain_operand(e, "slots", pool->slots);
        impmem__explain_operand(e, "stride", pool->stride_bytes);
        impmem__explain_operand(e, "slot", pool->slot_bytes);
        impmem__explain_operand(e, "layers", pool->n_layers);
        return true;
    }
    return false;
}

impmem_status impmem_plan_explain(const impmem_plan_input *input, const impmem_plan *plan, impmem_line_id id,
                                  impmem_explanation *out, impmem_error *why)
{
    if (!plan || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "plan", "the plan or the explanation is NULL");
    impmem__terms terms;
    impmem_status st = impmem__plan_resolve(input, &terms, why);
    if (st) return st;
    const impmem_line *line = impmem_plan_find_line(plan, id);
    if (!line) return impmem__error_set(why, IMPMEM_ERR_NOT_FOUND, "line", "the plan has no line %u", id);
    impmem_explanation e = {.line = id};
    bool found = explain_pool(plan, id, &e);
    for (uint32_t i = 0; i < terms.n_items && !found; i++) {
        if (terms.item[i].id != id) continue;
        impmem__explain_item(&terms, &terms.item[i], &e);
        found = true;
    }
    if (!found && id == IMPMEM_LINE_WEIGHTS) {
        impmem__explain_formula(&e, "a(weights)");
        impmem__explain_operand(&e, "weights", terms.in->model->weight_bytes);
    } else if (!found && id >= IMPMEM_LINE_ROUNDING && id < IMPMEM_LINE_ROUNDING + IMPMEM_PLAN_MAX_REGIONS) {
        impmem__explain_formula(&e, "up(region) - region");
        impmem__explain_operand(&e, "region", plan->region[id - IMPMEM_LINE_ROUNDING].bytes - line->bytes);
        impmem__explain_operand(&e, "granule", plan->granule_bytes);
    } else if (!found) {
        impmem__explain_formula(&e, line->how);
    }
    e.bytes = line->bytes;
    *out = e;
    return IMPMEM_OK;
}
