/* A config.json, alone or in its directory, into a model: which of its objects describes the language model, its keys
 * through the face that both formats share, and the size of its weights. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "impmem/bytes.h"
#include "model/hf.h"

static void to_value(const json_t *from, impmem__value *out)
{
    memset(out, 0, sizeof *out);
    if (!from) return;
    out->item = from;
    switch (json_typeof(from)) {
    case JSON_NULL: out->null = true; break;
    case JSON_INTEGER:
        out->kind = IMPMEM__INT;
        out->integer = json_integer_value(from);
        break;
    case JSON_REAL:
        out->kind = IMPMEM__REAL;
        out->real = json_real_value(from);
        break;
    case JSON_STRING:
        out->kind = IMPMEM__TEXT;
        out->text = json_string_value(from);
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        out->kind = IMPMEM__BOOL;
        out->integer = json_is_true(from);
        break;
    case JSON_ARRAY:
        out->kind = IMPMEM__ARRAY;
        out->count = json_array_size(from);
        break;
    case JSON_OBJECT: out->kind = IMPMEM__OBJECT; break;
    }
}

static void find_key(const void *self, const char *name, impmem__value *out)
{
    to_value(json_object_get(self, name), out);
}

static void array_item(const impmem__value *array, uint64_t index, impmem__value *out)
{
    to_value(json_array_get(array->item, (size_t)index), out);
}

/* Multimodal configs keep the language model in an object of its own. */
static impmem_status find_text(json_t *root, const impmem__diag *diag, json_t **out)
{
    static const char *const names[] = {"text_config", "language_config", "llm_config"};
    *out = root;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *nested = json_object_get(root, names[i]);
        if (!nested || json_is_null(nested)) continue;
        if (!json_is_object(nested)) {
            return impmem__refuse(diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET, "key '%s': found no object, expected one",
                                  names[i]);
        }
        *out = nested;
        return IMPMEM_OK;
    }
    return IMPMEM_OK;
}

/* The inner model_type when it is known, else the outer one. */
static impmem_status find_arch(impmem__reading *reading, const json_t *root, const json_t *text, const char **out_name)
{
    const char *inner = json_string_value(json_object_get(text, "model_type"));
    const char *outer = json_string_value(json_object_get(root, "model_type"));
    const char *name = inner && impmem__arch_of_hf(inner)   ? inner
                       : outer && impmem__arch_of_hf(outer) ? outer
                       : inner                              ? inner
                                                            : outer;
    if (!name) {
        return impmem__refuse(&reading->diag, IMPMEM_ERR_MISSING_KEY, IMPMEM__NO_OFFSET,
                              "key 'model_type': found nothing, expected a string");
    }
    reading->arch = impmem__arch_of_hf(name);
    *out_name = name;
    if (reading->arch && reading->arch->refusal) return IMPMEM_OK;
    if (json_is_true(json_object_get(text, "is_encoder_decoder")) ||
        json_is_true(json_object_get(root, "is_encoder_decoder"))) {
        return impmem__refuse(&reading->diag, IMPMEM_ERR_UNKNOWN_ARCHITECTURE, IMPMEM__NO_OFFSET,
                              "architecture '%.48s': is_encoder_decoder "
                              "is true, and cross-attention is not planned by this version",
                              name);
    }
    return IMPMEM_OK;
}

static void set_name(impmem_model_shape *shape, const char *path, const char *directory, const json_t *root)
{
    char work[512];
    const char *from = json_string_value(json_object_get(root, "_name_or_path"));
    if (!directory && from && from[0]) {
        path = from;
    } else if (directory) {
        path = directory;
    }
    size_t length = strlen(path);
    const char *start = length < sizeof work ? path : path + (length - sizeof work + 1);
    (void)snprintf(work, sizeof work, "%s", start);
    length = strlen(work);
    while (length > 1 && work[length - 1] == '/') work[--length] = '\0';
    static const char *const ends[] = {"/config.json", ".config.json", ".json"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t n = strlen(ends[i]);
        if (length > n && strcmp(work + length - n, ends[i]) == 0) {
            length -= n;
            work[length] = '\0';
            break;
        }
    }
    const char *slash = strrchr(work, '/');
    const char *last = slash && slash[1] ? slash + 1 : work;
    (void)snprintf(shape->name, sizeof shape->name, "%.95s", strcmp(last, ".") == 0 ? shape->architecture : last);
}

/* A stated size that is far from what the geometry implies is worth a line. */
static bool meets(impmem_model *model, uint64_t stated, uint64_t estimated)
{
    uint64_t apart = stated > estimated ? stated - estimated : estimated - stated;
    if (apart / 10 <= estimated / 100) return true;
    impmem__note(model, "weights: the files state %" PRIu64 " bytes, the geometry implies %" PRIu64, stated, estimated);
    return false;
}

static void note_estimate(impmem_model *model, const json_t *root, uint64_t bytes, const impmem__estimate *estimate,
                          uint32_t draft_layers)
{
    impmem__note(model, "weights: %" PRIu64 " bytes estimated from geometry and dtype", bytes);
    if (json_is_object(json_object_get(root, "audio_config")))
        impmem__note(model, "weights: the audio tower is not in the estimate");
    if (draft_layers > 0) {
        impmem__note(model, "weights: %" PRIu64 " bytes of the estimate are %u multi-token-prediction layers",
                     estimate->draft, draft_layers);
    }
}

/* hf_quant_config.json beside the config, where it is there. */
static impmem_status read_quant_file(impmem__reading *reading, const char *directory, json_t **out)
{
    size_t bytes = strlen(directory) + sizeof "/hf_quant_config.json";
    char *path = impmem__take(bytes);
    struct stat info;
    if (!path) return impmem__no_memory(&reading->diag, "a path");
    (void)snprintf(path, bytes, "%s/hf_quant_config.json", directory);
    impmem__diag own = {path, reading->diag.why};
    impmem_status st = lstat(path, &info) == 0 ? impmem__json_file(&own, IMPMEM__HF_MAX_CONFIG, out) : IMPMEM_OK;
    impmem__give(path);
    return st;
}

/* What the files name counts; without names, or without files, what the config promises. */
static void fill_parts(impmem__reading *reading, const impmem__stated *stated, const impmem__estimate *estimate,
                       uint64_t vision)
{
    impmem_model_shape *shape = &reading->model->shape;
    const bool named = stated->format && stated->tensors > 0;
    const uint32_t draft_layers = reading->facts.draft_layers;
    const bool no_vision = named && stated->vision_tensors == 0, no_draft = named && stated->draft_tensors == 0;
    uint64_t implied = estimate->bytes;
    if (no_draft) implied -= estimate->draft;
    if (!no_vision) implied += vision;
    if (vision > 0 && no_vision) impmem__note(reading->model, "vision: the files hold no tower");
    shape->draft_layers = no_draft ? 0 : draft_layers;
    shape->vision_weight_bytes = no_vision ? 0 : stated->vision_bytes ? stated->vision_bytes : vision;
    if (stated->format && shape->vision_weight_bytes > stated->bytes) shape->vision_weight_bytes = stated->bytes;
    shape->weight_bytes = stated->format ? stated->bytes : implied;
    shape->weight_source = stated->format ? IMPMEM_SOURCE_READ : IMPMEM_SOURCE_ESTIMATED;
    /* Parts are only as good as the whole: far from a stated size they stay unknown. */
    bool near = !stated->format || meets(reading->model, stated->bytes, implied);
    shape->embedding_bytes = near ? estimate->embedding : 0;
    shape->output_bytes = near ? estimate->output : 0;
}

static impmem_status fill_weights(impmem__reading *reading, json_t *root, json_t *text, const char *directory,
                                  uint64_t tower)
{
    impmem_model_shape *shape = &reading->model->shape;
    json_t *extra = NULL;
    impmem_status st = IMPMEM_OK;
    impmem__stated stated = {.layers = shape->n_layers};
    if (directory) {
        st = impmem__weights_stated(directory, reading->diag.why, &stated);
        if (!st) st = read_quant_file(reading, directory, &extra);
    }
    impmem__storage storage;
    impmem__estimate estimate = {0};
    if (!st) st = impmem__storage_read(reading, root, text, extra, &storage);
    if (!st) st = impmem__weights_estimate(reading, root, text, &storage, &estimate);
    json_decref(extra);
    if (st) return st;
    /* Quantized checkpoints leave the tower as it was. */
    uint64_t vision = 0, sum = 0;
    if (impmem_mul(&vision, tower, storage.vector_bytes) || impmem_add(&sum, vision, estimate.bytes)) {
        return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                              "vision_config: found weights beyond 2^64 bytes, expected a size");
    }
    shape->n_tensors = stated.tensors;
    shape->largest_weight_elements = estimate.largest;
    shape->tied_embeddings = estimate.output == 0;
    reading->model->format = stated.format ? stated.format : "config.json";
    fill_parts(reading, &stated, &estimate, vision);
    if (!stated.format) note_estimate(reading->model, root, shape->weight_bytes, &estimate, reading->facts.draft_layers);
    return IMPMEM_OK;
}

static impmem_status fill(json_t *root, const char *path, const char *directory, impmem_model *model, impmem_error *why)
{
    impmem__diag diag = {path, why};
    json_t *text = NULL;
    impmem_status st = find_text(root, &diag, &text);
    if (st) return st;
    impmem__reading *reading = impmem__take(sizeof *reading);
    if (!reading) return impmem__no_memory(&diag, "the figures");
    const char *arch = "";
    reading->diag = diag;
    reading->model = model;
    reading->keys = (impmem__keys){find_key, array_item, text, "", false};
    st = find_arch(reading, root, text, &arch);
    if (!st) {
        (void)snprintf(model->shape.architecture, sizeof model->shape.architecture, "%.47s", arch);
        set_name(&model->shape, path, directory, root);
        st = impmem__arch_check(reading, arch);
    }
    uint64_t tower = 0;
    if (!st) st = impmem__vision_read(reading, root, text, &tower);
    if (!st) st = impmem__facts_read(reading);
    if (!st) st = impmem__shape_fill(reading);
    if (!st) st = fill_weights(reading, root, text, directory, tower);
    impmem__give(reading);
    return st;
}

static impmem_status read_config(const char *path, const char *directory, impmem_model *model, impmem_error *why)
{
    impmem__diag diag = {path, why};
    json_t *root = NULL;
    impmem_status st = impmem__json_file(&diag, IMPMEM__HF_MAX_CONFIG, &root);
    if (st) return st;
    st = fill(root, path, directory, model, why);
    json_decref(root);
    return st;
}

impmem_status impmem__hf_read_config(const char *path, impmem_model *model, impmem_error *why)
{
    return read_config(path, NULL, model, why);
}

impmem_status impmem__hf_read_text(const char *text, uint64_t bytes, const char *path, impmem_model *model,
                                   impmem_error *why)
{
    impmem__diag diag = {path, why};
    json_t *root = NULL;
    impmem_status st = impmem__json_parse(text, bytes, &diag, &root);
    if (st) return st;
    st = fill(root, path, NULL, model, why);
    json_decref(root);
    return st;
}

impmem_status impmem__hf_read_directory(const char *path, impmem_model *model, impmem_error *why)
{
    impmem__diag diag = {path, why};
    size_t bytes = strlen(path) + sizeof "/config.json";
    char *config = impmem__take(bytes);
    if (!config) return impmem__no_memory(&diag, "a path");
    (void)snprintf(config, bytes, "%s/config.json", path);
    struct stat info;
    impmem_status st;
    if (lstat(config, &info) != 0) {
        st = impmem__refuse(&diag, IMPMEM_ERR_IO, IMPMEM__NO_OFFSET,
                            "a directory without config.json, expected one, or the path of a .gguf "
                            "file");
    } else {
        st = read_config(config, path, model, why);
    }
    impmem__give(config);
    return st;
}
