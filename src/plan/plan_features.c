/* Features as items: what each asks for, by the size functions that the code taking the bytes uses too. */
#include "core/internal.h"
#include "plan/internal.h"

#define DEFAULT_SCORES_CAP_BYTES (384 * IMPMEM_MIB)

static impmem_status bad(impmem_error *why, const char *field, uint64_t found, const char *expected)
{
    return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, field, "features.%s is %llu, expected %s", field,
                             (unsigned long long)found, expected);
}

/* Nothing asked, no item. */
static impmem_status add(impmem__terms *t, impmem_line_id id, impmem__part part, uint32_t flags, uint64_t bytes)
{
    static const impmem_tier tier[] = {IMPMEM_TIER_ENGINE, IMPMEM_TIER_MODEL,   IMPMEM_TIER_ENGINE, IMPMEM_TIER_SCRATCH,
                                       IMPMEM_TIER_PINNED, IMPMEM_TIER_STAGING, IMPMEM_TIER_CHARGE};
    if (bytes == 0) return IMPMEM_OK;
    if (part != IMPMEM__PART_CHARGE && impmem_align_up(&bytes, bytes, IMPMEM__LINE_ALIGNMENT)) return IMPMEM_ERR_OVERFLOW;
    t->item[t->n_items++] = (impmem__item){.id = id, .part = part, .tier = tier[part], .flags = flags, .bytes = bytes};
    return IMPMEM_OK;
}

/* An estimate that can't be true would otherwise read as "no memory left for KV". */
static impmem_status check_graphs(const impmem__terms *t, uint64_t bytes, impmem_error *why)
{
    const impmem_plan_features *f = t->features;
    const uint64_t device = f->device_total_bytes ? f->device_total_bytes : t->in->budget_bytes;
    char graphs[32], total[32];
    if (f->graphs_accepted || device == 0 || bytes <= device / 2) return IMPMEM_OK;
    return impmem__error_set(
        why, IMPMEM_ERR_BAD_VALUE, "graphs",
        "graph memory of %s is more than half of the device's %s: implausible; measure it, or say that "
        "it is meant so with --graphs-accepted (graphs_accepted)",
        impmem_format_mib(bytes, graphs, sizeof graphs), impmem_format_mib(device, total, sizeof total));
}

static impmem_status add_graphs(impmem__terms *t, impmem_error *why)
{
    const impmem_plan_features *f = t->features;
    uint64_t bytes = 0, draft = 0, sum = 0;
    if (f->n_graphs > IMPMEM_MAX_GRAPHS) return bad(why, "n_graphs", f->n_graphs, "at most 4096");
    if (f->n_graphs > 0 && !f->graph_bytes)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "graph_bytes", "%u graphs were announced and none given",
                                 f->n_graphs);
    impmem_status st = impmem_size_graphs(f->graph_bytes, f->n_graphs, f->graph_exec_bytes, &bytes);
    if (!st && f->draft_tokens > 0 && f->n_draft_graphs > 0) {
        st = impmem_size_graphs(&f->draft_graph_bytes, 1, 0, &draft);
        if (!st) st = impmem_mul(&sum, f->graph_exec_bytes, f->n_draft_graphs);
        if (!st) st = impmem_add(&draft, draft, sum);
    }
    if (!st) st = impmem_add(&sum, bytes, draft);
    if (st) return impmem__error_set(why, st, "graphs", "the graphs' memory exceeds 64 bits");
    st = check_graphs(t, sum, why);
    if (!st) st = add(t, IMPMEM_LINE_GRAPHS, IMPMEM__PART_CHARGE, IMPMEM_LINE_ESTIMATED, bytes);
    if (!st) st = add(t, IMPMEM_LINE_DRAFT_GRAPHS, IMPMEM__PART_CHARGE, IMPMEM_LINE_ESTIMATED, draft);
    return st;
}

static impmem_status add_weight_cache(impmem__terms *t, uint32_t i, impmem_error *why)
{
    const impmem_weight_cache *c = &t->features->weight_cache[i];
    uint64_t whole = 0, mandatory = 0;
    if (c->dtype == IMPMEM_DTYPE_DEFAULT) return IMPMEM_OK;
    if (c->mandatory_elements > c->elements)
        return bad(why, "weight_cache", c->mandatory_elements, "mandatory elements that are some of all");
    impmem_status st = impmem_size_weight_cache(c->dtype, c->elements, &whole);
    if (!st) st = impmem_size_weight_cache(c->dtype, c->mandatory_elements, &mandatory);
    if (st == IMPMEM_ERR_BAD_VALUE)
        return impmem__error_set(why, st, "weight_cache", "weights can't be cached as %s, or not that many of them",
                                 impmem_dtype_name(c->dtype));
    /* A slab in the kernels' order replaces the scales of the plain format. */
    if (!st && c->scale_slab_bytes > 0) {
        if (c->dtype == IMPMEM_DTYPE_NVFP4) {
            whole -= c->elements / 16;
            mandatory -= c->mandatory_elements / 16;
        }
        st = impmem_add(&whole, whole, c->scale_slab_bytes);
        if (!st && c->mandatory_elements > 0) st = impmem_add(&mandatory, mandatory, c->scale_slab_bytes);
    }
    if (!st) st = add(t, IMPMEM_LINE_WEIGHT_CACHE + i, IMPMEM__PART_MODEL, 0, mandatory);
    if (!st)
        st = add(t, IMPMEM_LINE_WEIGHT_CACHE_OPTIONAL + i, IMPMEM__PART_MODEL, IMPMEM_LINE_OPTIONAL, whole - mandatory);
    return st ? impmem__error_set(why, st, "weight_cache", "weight cache %u exceeds 64 bits", i) : IMPMEM_OK;
}

static impmem_status add_vision(impmem__terms *t, impmem_error *why)
{
    const impmem_plan_features *f = t->features;
    const impmem_model_shape *m = t->in->model;
    uint64_t pixels = 0, embeddings = 0, scratch = 0;
    if (f->vision_images == 0) return IMPMEM_OK;
    if (f->vision_skipped) return bad(why, "vision_skipped", 1, "0 where images are encoded");
    if (m->vision_tokens == 0)
        return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, "vision_images", "images are asked of a model without a tower");
    const uint32_t patches = impmem__vision_patches(f, m);
    impmem_status st = impmem_size_vision_pixels(m->vision_image_size, f->vision_patches, f->vision_patch_elements,
                                                 &pixels);
    if (!st) st = impmem_mul(&pixels, pixels, f->vision_images);
    if (!st) st = impmem_size_vision_embeddings(m->vision_tokens, m->d_model, f->vision_taps, &embeddings);
    if (!st) st = impmem_mul(&embeddings, embeddings, f->vision_images);
    if (!st) st = impmem_size_vision_scratch(m, patches, f->vision_scores, &scratch);
    if (!st && m->vision_apart) st = add(t, IMPMEM_LINE_VISION_WEIGHTS, IMPMEM__PART_MODEL, 0, m->vision_weight_bytes);
    if (!st) st = add(t, IMPMEM_LINE_VISION_PIXELS, IMPMEM__PART_ENGINE, 0, pixels);
    if (!st) st = add(t, IMPMEM_LINE_VISION_EMBEDDINGS, IMPMEM__PART_ENGINE, 0, embeddings);
    if (!st) st = add(t, IMPMEM_LINE_VISION_SCRATCH, IMPMEM__PART_SCRATCH, 0, scratch);
    return st ? impmem__error_set(why, st, "vision", "the images' buffers exceed 64 bits") : IMPMEM_OK;
}

static impmem_status add_draft(impmem__terms *t, impmem_error *why)
{
    const impmem_plan_features *f = t->features;
    uint64_t verify = 0;
    if (f->draft_tokens == 0) return IMPMEM_OK;
    if (!f->draft && t->in->model->draft_layers == 0)
        return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, "draft",
                                 "%u draft tokens, no draft model, and the model has no draft layers", f->draft_tokens);
    if (f->draft) {
        impmem_status bad_shape = impmem_shape_check(f->draft, why);
        if (bad_shape) return bad_shape;
    }
    impmem_status st = impmem_size_verify_staging(t->in->model, t->load.batch, f->draft_tokens, &verify);
    if (!st && f->draft)
        st = add(t, IMPMEM_LINE_DRAFT_WEIGHTS, IMPMEM__PART_MODEL,
                 f->draft->weight_source == IMPMEM_SOURCE_ESTIMATED ? IMPMEM_LINE_ESTIMATED : 0, f->draft->weight_bytes);
    if (!st) st = add(t, IMPMEM_LINE_VERIFY, IMPMEM__PART_ENGINE, 0, verify);
    return st ? impmem__error_set(why, st, "draft", "the draft's buffers exceed 64 bits") : IMPMEM_OK;
}

static impmem_status add_forward(impmem__terms *t)
{
    const impmem_plan_features *f = t->features;
    const impmem_model_shape *m = t->in->model;
    const uint64_t cap = f->attention_scores_cap_bytes ? f->attention_scores_cap_bytes : DEFAULT_SCORES_CAP_BYTES;
    uint64_t bytes = 0;
    impmem_status st = impmem_size_logits(f->logit_rows, m->vocab, 4, &bytes);
    if (!st) st = add(t, IMPMEM_LINE_LOGITS, IMPMEM__PART_SCRATCH, 0, bytes);
    if (!st) st = impmem_size_logits(impmem__logprob_rows(t), m->vocab, 6, &bytes);
    if (!st) st = add(t, IMPMEM_LINE_PROMPT_LOGPROBS, IMPMEM__PART_SCRATCH, 0, bytes);
    if (!st && f->attention_scores) {
        st = impmem_size_attention_scores(m->n_heads, t->load.tokens, cap, &bytes);
        if (!st) st = add(t, IMPMEM_LINE_ATTENTION_SCORES, IMPMEM__PART_SCRATCH, 0, bytes);
    }
    if (!st && f->expert_tables && m->n_experts > 0) {
        st = impmem_size_expert_tables(m->n_experts, &bytes);
        if (!st) st = add(t, IMPMEM_LINE_EXPERT_TABLES, IMPMEM__PART_ENGINE, 0, bytes);
    }
    if (!st) st = add(t, IMPMEM_LINE_GEMM_WORKSPACE, IMPMEM__PART_ENGINE, 0, f->gemm_workspace_bytes);
    return st;
}

static impmem_status add_adapters(impmem__terms *t)
{
    const impmem_plan_features *f = t->features;
    uint64_t bytes = 0, host = 0;
    impmem_status st = IMPMEM_OK;
    if (f->lora_slots > 0) {
        bytes = f->lora_slot_bytes;
        if (bytes == 0) st = impmem_size_lora_slot(t->in->model, f->lora_rank, &bytes);
        if (!st) st = impmem_align_up(&bytes, bytes, IMPMEM__LINE_ALIGNMENT);
        if (!st) st = impmem_mul(&bytes, bytes, f->lora_slots);
        if (!st) st = add(t, IMPMEM_LINE_LORA, IMPMEM__PART_ENGINE, 0, bytes);
    }
    if (!st && f->graph_slots > 0) {
        st = impmem_size_graph_slots(f->graph_slots, t->load.context, &bytes, &host);
        if (!st) st = add(t, IMPMEM_LINE_GRAPH_SLOTS, IMPMEM__PART_ENGINE, 0, bytes);
        if (!st) st = add(t, IMPMEM_LINE_GRAPH_SLOTS_HOST, IMPMEM__PART_PINNED, 0, host);
    }
    return st;
}

impmem_status impmem__plan_features(impmem__terms *t, impmem_error *why)
{
    const impmem_plan_features *f = t->features;
    if (f->kernel_offset_bits != 0 && f->kernel_offset_bits != 31 && f->kernel_offset_bits != 32)
        return bad(why, "kernel_offset_bits", f->kernel_offset_bits, "0, 31 or 32");
    if (f->conv_width != IMPMEM_CONV_NEEDED && f->conv_width != IMPMEM_CONV_FULL)
        return bad(why, "conv_width", (uint64_t)f->conv_width, "an impmem_conv_width");
    impmem_status st = add(t, IMPMEM_LINE_HEADROOM, IMPMEM__PART_CHARGE, 0, f->headroom_bytes);
    if (!st) st = add(t, IMPMEM_LINE_COMMUNICATION, IMPMEM__PART_CHARGE, 0, f->communication_bytes);
    if (!st) st = add_graphs(t, why);
    for (uint32_t i = 0; i < IMPMEM_MAX_WEIGHT_CACHES && !st; i++) st = add_weight_cache(t, i, why);
    if (!st) st = add_vision(t, why);
    if (!st) st = add_draft(t, why);
    if (st) return st;
    st = add_forward(t);
    if (!st) st = add_adapters(t);
    return st ? impmem__error_set(why, st, "features", "a feature's buffer exceeds 64 bits") : IMPMEM_OK;
}
