/* plan_features.c - from flags to the planner's features: the draft model, the vision tower, what weights weigh a second time. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "impmem/bytes.h"
#include "plan_verb.h"

/* Elements of the matrices that a layer multiplies its tokens with; routed experts apart. */
typedef struct matrices {
    uint64_t dense, experts;
    bool overflow;
} matrices;

static void add_product(matrices *sum, uint64_t *to, uint64_t a, uint64_t b)
{
    uint64_t n = 0;
    if (impmem_mul(&n, a, b) || impmem_add(to, *to, n)) sum->overflow = true;
}

static matrices count_matrices(const impmem_model_shape *m)
{
    matrices sum = {0, 0, false};
    const uint64_t d = m->d_model;
    const uint64_t query = (uint64_t)m->n_heads * m->head_dim;
    const uint32_t copies = m->n_experts && m->expert_feed_forward ? m->n_experts : 0;
    for (uint32_t i = 0; i < m->n_layers; i++) {
        const impmem_layer_shape *layer = &m->layer[i];
        if (layer->kind != IMPMEM_LAYER_NO_ATTENTION) {
            const uint64_t kv = (uint64_t)layer->kv_heads * ((uint64_t)layer->k_dim + layer->v_dim);
            add_product(&sum, &sum.dense, d, query * (m->gated_query ? 3 : 2) + kv);
        }
        add_product(&sum, &sum.dense, 3 * d, copies ? 0 : m->feed_forward);
        add_product(&sum, &sum.experts, 3 * d * m->expert_feed_forward, copies);
    }
    add_product(&sum, &sum.dense, d, m->vocab);
    return sum;
}

uint64_t plan_expert_bytes(const impmem_model_shape *shape)
{
    matrices sum = count_matrices(shape);
    uint64_t all = 0;
    if (sum.overflow || sum.experts == 0 || impmem_add(&all, sum.dense, sum.experts)) return 0;
    /* A share of what the layers weigh, which is what there is to split. */
    uint64_t body = shape->weight_bytes;
    const uint64_t vision = shape->vision_apart ? 0 : shape->vision_weight_bytes;
    if (impmem_sub(&body, body, shape->embedding_bytes) || impmem_sub(&body, body, shape->output_bytes) ||
        impmem_sub(&body, body, vision))
        return 0; /* the planner refuses such a shape */
    return (uint64_t)((double)body * ((double)sum.experts / (double)all));
}

static bool is_recurrent(const impmem_model_shape *shape)
{
    for (uint32_t i = 0; i < shape->n_layers; i++)
        if (shape->layer[i].recurrent != IMPMEM_RECURRENT_NONE) return true;
    return false;
}

/* A cache of every matrix there is, in whole rows of 32. */
static int fill_caches(const plan_flags *flags, const impmem_model_shape *shape, impmem_plan_features *out)
{
    matrices sum = count_matrices(shape);
    uint64_t elements = 0;
    if (sum.overflow || impmem_add(&elements, sum.dense, sum.experts) || impmem_align_up(&elements, elements, 32)) {
        command_complain("%s: the matrices of the weights exceed 64 bits", flags->model_path);
        return COMMAND_FILE;
    }
    for (uint32_t i = 0; i < flags->feature.n_caches; i++) {
        out->weight_cache[i].dtype = flags->feature.cache[i].dtype;
        out->weight_cache[i].elements = elements;
        out->weight_cache[i].mandatory_elements = flags->feature.cache[i].optional ? 0 : elements;
    }
    return COMMAND_DONE;
}

static int read_draft(const plan_flags *flags, plan_prepared *p)
{
    const plan_feature_flags *f = &flags->feature;
    if (f->no_draft || f->draft_tokens == 0) return COMMAND_DONE;
    const impmem_model_shape *shape = impmem_model_shape_of(p->model);
    impmem_error why = IMPMEM_ERROR_INIT;
    p->features.draft_tokens = f->draft_tokens;
    if (!f->draft_path && shape->draft_layers == 0)
        command_bad_usage(
            "--draft-tokens: %u without --draft, and %s has no draft layers of its own; expected --draft MODEL",
            f->draft_tokens, flags->model_path);
    if (!f->draft_path) return COMMAND_DONE;
    if (impmem_model_read(f->draft_path, &p->draft, &why)) {
        command_complain_file(f->draft_path, &why);
        return COMMAND_FILE;
    }
    p->features.draft = impmem_model_shape_of(p->draft);
    if (p->features.draft->weight_source == IMPMEM_SOURCE_UNKNOWN || p->features.draft->weight_bytes == 0) {
        command_complain("%s: the file holds no tensors (a vocabulary only?); expected a draft model with weights",
                         f->draft_path);
        return COMMAND_FILE;
    }
    return COMMAND_DONE;
}

static int read_tower(const plan_flags *flags, plan_prepared *p)
{
    const plan_feature_flags *f = &flags->feature;
    impmem_error why = IMPMEM_ERROR_INIT;
    if (f->no_vision) {
        p->features.vision_skipped = 1;
        return COMMAND_DONE;
    }
    if (f->mmproj_path && impmem_model_read_projector(f->mmproj_path, p->model, &why)) {
        command_complain_file(f->mmproj_path, &why);
        return COMMAND_FILE;
    }
    p->features.vision_images = f->images ? f->images : f->mmproj_path ? 1 : 0;
    if (f->images && impmem_model_shape_of(p->model)->vision_tokens == 0)
        command_bad_usage("--images: %u, and %s has no vision tower; expected --mmproj FILE, or a model with one",
                          f->images, flags->model_path);
    return COMMAND_DONE;
}

static void fill_sizes(const plan_flags *flags, plan_prepared *p)
{
    const plan_feature_flags *f = &flags->feature;
    impmem_plan_features *out = &p->features;
    if (f->logprobs) out->prompt_logprob_rows = UINT32_MAX; /* as many as the prefill, whatever a lever makes of it */
    out->lora_slots = f->lora_slots;
    out->lora_slot_bytes = f->lora_slot_bytes;
    for (uint32_t i = 0; i < f->graphs; i++) p->graph_bytes[i] = f->graph_bytes;
    out->graph_bytes = f->graphs ? p->graph_bytes : NULL;
    out->n_graphs = f->graphs;
    out->graph_exec_bytes = f->graph_exec_bytes;
    out->graphs_accepted = f->graphs_accepted;
    out->device_total_bytes = p->profile.total_bytes;
    out->state_dtype = f->state_dtype;
    out->snapshot_budget_bytes = f->snapshot_bytes;
    out->headroom_bytes = f->headroom_bytes;
    out->communication_bytes = f->communication_bytes;
    out->tp_devices = f->devices;
}

int plan_features_prepare(const plan_flags *flags, plan_prepared *p)
{
    const plan_feature_flags *f = &flags->feature;
    p->features = (impmem_plan_features)IMPMEM_PLAN_FEATURES_INIT;
    int code = read_draft(flags, p);
    if (!code) code = read_tower(flags, p);
    if (code) return code;
    const impmem_model_shape *shape = impmem_model_shape_of(p->model);
    if (!is_recurrent(shape) && (f->state_dtype || f->snapshot_bytes))
        command_bad_usage("%s: %s keeps no recurrent state; expected a model that does",
                          f->snapshot_bytes ? "--snapshots" : "--state-dtype", flags->model_path);
    fill_sizes(flags, p);
    return fill_caches(flags, shape, &p->features);
}
