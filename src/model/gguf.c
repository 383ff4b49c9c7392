/* GGUF into a model: the header, its split set, and its keys through the face that both formats share. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "impmem/bytes.h"
#include "model/gguf.h"

impmem_status impmem__gguf_parse(impmem__gguf *gguf, impmem__source *source, const impmem__diag *diag)
{
    memset(gguf, 0, sizeof *gguf);
    impmem_status st = impmem__gguf_keys(gguf, source, diag);
    if (!st) st = impmem__gguf_tensors(gguf, source, diag);
    if (st) impmem__gguf_clear(gguf);
    return st;
}

/* ---- split sets ---- */

typedef struct split_keys {
    bool present;
    uint32_t number;
    uint32_t count;
    uint64_t tensors;
    uint64_t offset;
} split_keys;

static impmem_status split_key(const impmem__gguf *gguf, const char *key, uint64_t max, uint64_t *out, uint64_t *offset,
                               const impmem__diag *diag)
{
    const impmem__gguf_value *value = impmem__gguf_find(gguf, key);
    if (!value) {
        return impmem__refuse(diag, IMPMEM_ERR_MISSING_KEY, IMPMEM__NO_OFFSET,
                              "key '%s': found nothing, expected it in a file of a "
                              "split set",
                              key);
    }
    *offset = value->offset;
    bool integer = value->type != IMPMEM__GGUF_STRING && value->type != IMPMEM__GGUF_ARRAY &&
                   value->type != IMPMEM__GGUF_F32 && value->type != IMPMEM__GGUF_F64 && value->type != IMPMEM__GGUF_BOOL;
    if (!integer || value->integer < 0 || (uint64_t)value->integer > max) {
        return impmem__refuse(diag, IMPMEM_ERR_BAD_VALUE, value->offset,
                              "key '%s' at byte %" PRIu64 ": found %s %" PRId64 ", expected 0 to %" PRIu64, key,
                              value->offset, impmem__gguf_type_name(value->type), value->integer, max);
    }
    *out = (uint64_t)value->integer;
    return IMPMEM_OK;
}

static impmem_status read_split_keys(const impmem__gguf *gguf, split_keys *out, const impmem__diag *diag)
{
    memset(out, 0, sizeof *out);
    if (!impmem__gguf_find(gguf, "split.no") && !impmem__gguf_find(gguf, "split.count")) return IMPMEM_OK;
    uint64_t number = 0, count = 0, offset = 0;
    impmem_status st = split_key(gguf, "split.count", IMPMEM__GGUF_MAX_SPLITS, &count, &out->offset, diag);
    if (!st) st = split_key(gguf, "split.no", IMPMEM__GGUF_MAX_SPLITS, &number, &offset, diag);
    if (!st && count > 1)
        st = split_key(gguf, "split.tensors.count", IMPMEM__GGUF_MAX_TENSORS, &out->tensors, &offset, diag);
    if (st) return st;
    out->present = count > 1;
    out->number = (uint32_t)number;
    out->count = (uint32_t)count;
    if (count > 0 && number >= count) {
        return impmem__refuse(diag, IMPMEM_ERR_BAD_VALUE, out->offset,
                              "key 'split.no': found %u of %u files, expected 0 to %u", out->number, out->count,
                              out->count - 1);
    }
    return IMPMEM_OK;
}

/* NAME-00001-of-00005.gguf into the name of file `number` (from 0). False: `path` doesn't end like that, or other
 * figures. */
static bool sibling(const char *path, const split_keys *split, uint32_t number, char *to, size_t bytes)
{
    char end[48];
    (void)snprintf(end, sizeof end, "-%05u-of-%05u.gguf", split->number + 1, split->count);
    size_t length = strlen(path), end_length = strlen(end);
    if (length < end_length || strcmp(path + (length - end_length), end) != 0) return false;
    int n = snprintf(to, bytes, "%.*s-%05u-of-%05u.gguf", (int)(length - end_length), path, number + 1, split->count);
    return n > 0 && (size_t)n < bytes;
}

static impmem_status add_sibling(impmem__gguf *gguf, const split_keys *first, uint32_t number, const char *path,
                                 impmem__source *source, const impmem__diag *diag)
{
    impmem__diag own = {path, diag->why};
    impmem_status st = impmem__source_open(source, &own);
    if (st) return st;
    impmem__gguf other;
    st = impmem__gguf_parse(&other, source, &own);
    impmem__source_close(source);
    if (st) return st;
    split_keys split;
    st = read_split_keys(&other, &split, &own);
    if (!st && (split.number != number || split.count != first->count || split.tensors != first->tensors)) {
        st = impmem__refuse(&own, IMPMEM_ERR_BAD_VALUE, split.offset,
                            "split keys: found file %u of %u with %" PRIu64
                            " tensors in all, expected file %u of %u with %" PRIu64,
                            split.number, split.count, split.tensors, number, first->count, first->tensors);
    }
    if (!st) {
        gguf->n_tensors += other.n_tensors;
        if (gguf->embedding_bytes == 0) gguf->embedding_bytes = other.embedding_bytes;
        if (gguf->output_bytes == 0) gguf->output_bytes = other.output_bytes;
        if (other.largest_elements > gguf->largest_elements) gguf->largest_elements = other.largest_elements;
        if (impmem_add(&gguf->weight_bytes, gguf->weight_bytes, other.weight_bytes)) {
            st = impmem__refuse(&own, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                                "tensor sizes of the split set: found a sum beyond 2^64");
        }
    }
    impmem__gguf_clear(&other);
    return st;
}

impmem_status impmem__gguf_splits(impmem__gguf *gguf, const impmem__diag *diag, bool memory)
{
    split_keys split;
    impmem_status st = read_split_keys(gguf, &split, diag);
    if (st || !split.present) return st;
    size_t bytes = strlen(diag->path) + 64;
    char *path = impmem__take(bytes);
    impmem__source *source = impmem__take(sizeof *source);
    if (!path || !source) {
        st = impmem__no_memory(diag, "the split set");
    } else if (memory || !sibling(diag->path, &split, 0, path, bytes)) {
        st = impmem__refuse(diag, IMPMEM_ERR_BAD_FORMAT, split.offset,
                            "name of a split file: found file %u of %u, expected it to end in "
                            "-%05u-of-%05u.gguf, to find the others",
                            split.number, split.count, split.number + 1, split.count);
    } else if (split.number != 0) {
        const char *slash = strrchr(path, '/');
        st = impmem__refuse(diag, IMPMEM_ERR_BAD_VALUE, split.offset,
                            "key 'split.no': found %u of a set of %u, expected 0: give its "
                            "first file, %s",
                            split.number, split.count, slash ? slash + 1 : path);
    }
    for (uint32_t i = 1; i < split.count && !st; i++) {
        (void)sibling(diag->path, &split, i, path, bytes);
        st = add_sibling(gguf, &split, i, path, source, diag);
    }
    if (!st && gguf->n_tensors != split.tensors) {
        st = impmem__refuse(diag, IMPMEM_ERR_BAD_VALUE, split.offset,
                            "key 'split.tensors.count': found %" PRIu64 ", expected the %" PRIu64
                            " tensors of the %u files",
                            split.tensors, gguf->n_tensors, split.count);
    }
    impmem__give(source);
    impmem__give(path);
    return st;
}

/* ---- keys ---- */

typedef struct key_face {
    const impmem__gguf *gguf;
    const char *arch;
} key_face;

static void to_value(const impmem__gguf_value *from, impmem__value *out)
{
    memset(out, 0, sizeof *out);
    if (!from) return;
    out->offset = from->offset;
    out->integer = from->integer;
    out->real = from->real;
    out->text = from->text;
    out->count = from->count;
    out->item = from;
    switch (from->type) {
    case IMPMEM__GGUF_STRING: out->kind = IMPMEM__TEXT; break;
    case IMPMEM__GGUF_ARRAY: out->kind = IMPMEM__ARRAY; break;
    case IMPMEM__GGUF_BOOL: out->kind = IMPMEM__BOOL; break;
    case IMPMEM__GGUF_F32:
    case IMPMEM__GGUF_F64: out->kind = IMPMEM__REAL; break;
    default: out->kind = IMPMEM__INT; break;
    }
}

static void find_key(const void *self, const char *name, impmem__value *out)
{
    const key_face *face = self;
    char full[256];
    if (name[0] == '.') {
        (void)snprintf(full, sizeof full, "%s%s", face->arch, name);
        name = full;
    }
    to_value(impmem__gguf_find(face->gguf, name), out);
}

static void array_item(const impmem__value *array, uint64_t index, impmem__value *out)
{
    memset(out, 0, sizeof *out);
    const impmem__gguf_value *value = array->item;
    if (!value->items || index >= value->count) return;
    out->kind = value->item_type == IMPMEM__GGUF_BOOL ? IMPMEM__BOOL : IMPMEM__INT;
    out->integer = value->items[index];
    out->offset = value->offset;
}

static impmem_status fill(const impmem__gguf *gguf, impmem_model *model, const impmem__diag *diag)
{
    const impmem__gguf_value *arch = impmem__gguf_find(gguf, "general.architecture");
    if (!arch) {
        return impmem__refuse(diag, IMPMEM_ERR_MISSING_KEY, IMPMEM__NO_OFFSET,
                              "key 'general.architecture': found nothing, expected a "
                              "string");
    }
    if (arch->type != IMPMEM__GGUF_STRING) {
        return impmem__refuse(diag, IMPMEM_ERR_BAD_VALUE, arch->offset,
                              "key 'general.architecture' at byte %" PRIu64 ": found type %s, "
                              "expected string",
                              arch->offset, impmem__gguf_type_name(arch->type));
    }
    impmem__reading *reading = impmem__take(sizeof *reading);
    if (!reading) return impmem__no_memory(diag, "the figures");
    key_face face = {gguf, arch->text};
    reading->diag = *diag;
    reading->model = model;
    reading->arch = impmem__arch_of_gguf(arch->text);
    reading->keys = (impmem__keys){find_key, array_item, &face, arch->text, true};
    impmem_model_shape *shape = &model->shape;
    (void)snprintf(shape->architecture, sizeof shape->architecture, "%.47s", arch->text);
    const impmem__gguf_value *name = impmem__gguf_find(gguf, "general.name");
    const char *slash = strrchr(diag->path, '/');
    const char *shown = name && name->text && name->text[0] ? name->text : slash ? slash + 1 : diag->path;
    (void)snprintf(shape->name, sizeof shape->name, "%.95s", shown);
    impmem_status st = impmem__arch_check(reading, arch->text);
    if (!st) st = impmem__facts_read(reading);
    if (!st) st = impmem__shape_fill(reading);
    if (!st) {
        shape->n_tensors = gguf->n_tensors;
        shape->weight_bytes = gguf->weight_bytes;
        shape->largest_weight_elements = gguf->largest_elements;
        shape->embedding_bytes = gguf->embedding_bytes;
        shape->output_bytes = gguf->output_bytes;
        shape->tied_embeddings = gguf->embedding_bytes > 0 && gguf->output_bytes == 0;
        shape->weight_source = gguf->n_tensors ? IMPMEM_SOURCE_READ : IMPMEM_SOURCE_UNKNOWN;
        if (gguf->n_tensors == 0)
            impmem__note(model, "weights: the file has no tensors (a vocabulary-only file), their size is unknown");
        model->format = gguf->version == 2 ? "gguf v2" : "gguf v3";
    }
    impmem__give(reading);
    return st;
}

static impmem_status read_source(impmem__source *source, impmem_model *model, const impmem__diag *diag, bool memory)
{
    impmem__gguf gguf;
    impmem_status st = impmem__gguf_parse(&gguf, source, diag);
    if (st) return st;
    st = impmem__gguf_splits(&gguf, diag, memory);
    if (!st) st = fill(&gguf, model, diag);
    impmem__gguf_clear(&gguf);
    return st;
}

static impmem_status read_one(impmem__source *source, const impmem__diag *diag, void *model)
{
    return read_source(source, model, diag, false);
}

impmem_status impmem__gguf_read(const char *path, impmem_model *model, impmem_error *why)
{
    impmem__diag diag = {path, why};
    return impmem__source_visit(&diag, read_one, model);
}

impmem_status impmem__gguf_read_memory(const void *bytes, uint64_t size, impmem_model *model, impmem_error *why)
{
    impmem__diag diag = {"memory", why};
    impmem__source *source = impmem__take(sizeof *source);
    if (!source) return impmem__no_memory(&diag, "a buffer");
    impmem__source_memory(source, bytes, size);
    impmem_status st = read_source(source, model, &diag, true);
    impmem__give(source);
    return st;
}
