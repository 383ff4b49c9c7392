/* A projector file: a GGUF of its own with the vision tower of a model (general.architecture clip). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "impmem/bytes.h"
#include "core/internal.h"
#include "model/gguf.h"

#define MOST 65535u

typedef struct projector {
    const impmem__gguf *gguf;
    const impmem__diag *diag;
    char type[48];
    uint32_t image, patch, width, layers, heads, out, scale, merge;
} projector;

static impmem_status number(const projector *p, const char *key, bool required, uint32_t max, uint32_t *out)
{
    const impmem__gguf_value *value = impmem__gguf_find(p->gguf, key);
    if (!value && !required) return IMPMEM_OK;
    if (!value) {
        return impmem__refuse(p->diag, IMPMEM_ERR_MISSING_KEY, IMPMEM__NO_OFFSET,
                              "key '%s': found nothing, expected it in a projector file", key);
    }
    const bool integer = value->type != IMPMEM__GGUF_STRING && value->type != IMPMEM__GGUF_ARRAY &&
                         value->type != IMPMEM__GGUF_F32 && value->type != IMPMEM__GGUF_F64 &&
                         value->type != IMPMEM__GGUF_BOOL;
    if (!integer || value->integer < 1 || value->integer > (int64_t)max) {
        return impmem__refuse(p->diag, IMPMEM_ERR_BAD_VALUE, value->offset,
                              "key '%s' at byte %" PRIu64 ": found %s %" PRId64 ", expected 1 to %u", key, value->offset,
                              impmem__gguf_type_name(value->type), value->integer, max);
    }
    *out = (uint32_t)value->integer;
    return IMPMEM_OK;
}

static const char *text(const projector *p, const char *key)
{
    const impmem__gguf_value *value = impmem__gguf_find(p->gguf, key);
    return value && value->type == IMPMEM__GGUF_STRING && value->text ? value->text : "";
}

static bool off(const projector *p, const char *key)
{
    const impmem__gguf_value *value = impmem__gguf_find(p->gguf, key);
    return value && value->type == IMPMEM__GGUF_BOOL && value->integer == 0;
}

static impmem_status check_kind(const projector *p)
{
    const char *arch = text(p, "general.architecture");
    if (strcmp(arch, "clip") != 0) {
        return impmem__refuse(p->diag, IMPMEM_ERR_UNKNOWN_ARCHITECTURE, IMPMEM__NO_OFFSET,
                              "key 'general.architecture': found '%.48s', expected clip: a projector file", arch);
    }
    if (off(p, "clip.has_vision_encoder")) {
        return impmem__refuse(p->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                              "key 'clip.has_vision_encoder': found false, expected a vision tower");
    }
    return IMPMEM_OK;
}

/* How many patches a side become one token, by the kind of projector. *known is false for a kind that may take more of
 * them to a token. */
static uint32_t merged(const projector *p, bool *known)
{
    static const struct {
        const char *type; /* or how it begins */
        uint32_t merge;
    } kinds[] = {{"gemma3", 4}, {"qwen2", 2}, {"qwen3", 2}, {"ldp", 2}, {"mlp", 1}};
    *known = true;
    if (p->merge > 0) return p->merge;
    if (p->scale > 0) return p->scale;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strncmp(p->type, kinds[i].type, strlen(kinds[i].type)) == 0) return kinds[i].merge;
    }
    *known = false;
    return 1;
}

static impmem_status read_tower(projector *p)
{
    impmem_status st = check_kind(p);
    if (!st) st = number(p, "clip.vision.image_size", true, MOST, &p->image);
    if (!st) st = number(p, "clip.vision.patch_size", true, 4096, &p->patch);
    if (!st) st = number(p, "clip.vision.embedding_length", true, MOST, &p->width);
    if (!st) st = number(p, "clip.vision.block_count", true, IMPMEM_MAX_LAYERS, &p->layers);
    if (!st) st = number(p, "clip.vision.attention.head_count", true, MOST, &p->heads);
    if (!st) st = number(p, "clip.vision.projection_dim", false, INT32_MAX, &p->out);
    if (!st) st = number(p, "clip.vision.projector.scale_factor", false, 64, &p->scale);
    if (!st) st = number(p, "clip.vision.spatial_merge_size", false, 64, &p->merge);
    if (st) return st;
    const char *type = text(p, "clip.vision.projector_type");
    (void)snprintf(p->type, sizeof p->type, "%.47s", type[0] ? type : text(p, "clip.projector_type"));
    if (p->image >= p->patch) return IMPMEM_OK;
    return impmem__refuse(p->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                          "key 'clip.vision.image_size': found %u for patches of %u, expected at least one patch", p->image,
                          p->patch);
}

static impmem_status check_tensors(const projector *p)
{
    if (p->gguf->n_tensors > 0) return IMPMEM_OK;
    return impmem__refuse(p->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                          "tensors: found none, expected a vision tower's");
}

static impmem_status fill(const impmem__gguf *gguf, impmem_model *model, const impmem__diag *diag)
{
    projector p = {.gguf = gguf, .diag = diag};
    impmem_model_shape *shape = &model->shape;
    impmem_status st = read_tower(&p);
    if (!st) st = check_tensors(&p);
    if (st) return st;
    if (shape->vision_weight_bytes > 0) {
        return impmem__refuse(diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                              "projector file: found a tower for a model that has one, expected a model without");
    }
    bool known = true;
    const uint32_t merge = merged(&p, &known), patches = p.image / p.patch, side = (patches + merge - 1) / merge;
    shape->vision_weight_bytes = gguf->weight_bytes;
    shape->vision_apart = 1;
    shape->vision_image_size = p.image;
    shape->vision_tokens = side <= 16384 ? side * side : 16384u * 16384u;
    shape->vision_patches = patches <= 16384 ? patches * patches : 16384u * 16384u;
    shape->vision_layers = p.layers;
    shape->vision_d_model = p.width;
    shape->vision_heads = p.heads;
    impmem__note(model, "vision: %u tokens an image, %u x %u patches to a token by the projector '%s'",
                 shape->vision_tokens, merge, merge, p.type);
    if (!known) impmem__note(model, "vision: the projector '%s' is not known: a token a patch is an upper bound", p.type);
    if (p.out > 0 && p.out != shape->d_model) {
        impmem__note(model, "vision: the projector's width is stated as %u, the model's is %u", p.out, shape->d_model);
    }
    if (impmem__gguf_find(gguf, "clip.has_audio_encoder") && !off(&p, "clip.has_audio_encoder"))
        impmem__note(model, "vision: the file's audio tower is counted with its vision tower");
    return IMPMEM_OK;
}

static impmem_status read_source(impmem__source *source, const impmem__diag *diag, void *model)
{
    impmem__gguf gguf;
    impmem_status st = impmem__gguf_parse(&gguf, source, diag);
    if (st) return st;
    st = fill(&gguf, model, diag);
    impmem__gguf_clear(&gguf);
    return st;
}

impmem_status impmem__gguf_read_projector_memory(const void *bytes, uint64_t size, impmem_model *model, impmem_error *why)
{
    impmem__diag diag = {"memory", why};
    impmem__source *source = impmem__take(sizeof *source);
    if (!source) return impmem__no_memory(&diag, "a buffer");
    impmem__source_memory(source, bytes, size);
    impmem_status st = read_source(source, &diag, model);
    impmem__give(source);
    return st;
}

impmem_status impmem_model_read_projector(const char *path, impmem_model *model, impmem_error *why)
{
    if (!path || !model) {
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, path ? path : "", "%s is NULL", path ? "model" : "path");
    }
    impmem__diag diag = {path, why};
    return impmem__source_visit(&diag, read_source, model);
}
