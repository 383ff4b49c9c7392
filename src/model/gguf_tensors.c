/* The second part of a GGUF header: tensor infos. Every size goes through checked arithmetic, every offset must be the
 * running sum of the tensors before it, and the last byte must be inside the file. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "impmem/bytes.h"
#include "model/gguf.h"

typedef struct tensor_name {
    char text[IMPMEM__GGUF_TENSOR_NAME];
    uint64_t offset; /* of the info in the file */
} tensor_name;

typedef struct tensor_table {
    impmem__source *source;
    const impmem__diag *diag;
    uint32_t alignment;
    uint64_t running;  /* the next tensor's offset, relative to the data's beginning */
    uint64_t data_end; /* of the last tensor, without padding, relative too */
    uint64_t weight_bytes;
    uint64_t largest_elements;
    uint64_t embedding_bytes;
    uint64_t output_bytes;
    tensor_name *name;
    uint64_t capacity;
} tensor_table;

static impmem_status read_little(tensor_table *t, uint32_t bytes, uint64_t *out, const char *what)
{
    unsigned char raw[8];
    impmem_status st = impmem__source_read(t->source, raw, bytes, what, t->diag);
    if (st) return st;
    *out = 0;
    for (uint32_t i = bytes; i > 0; i--) *out = *out << 8 | raw[i - 1];
    return IMPMEM_OK;
}

static impmem_status read_name(tensor_table *t, uint64_t index, char *what, size_t what_bytes)
{
    (void)snprintf(what, what_bytes, "the name of tensor %" PRIu64, index);
    if (index == t->capacity) {
        /* Grows with what was really read, so that a declared count alone takes no memory. */
        uint64_t capacity = t->capacity ? t->capacity * 2 : 256;
        tensor_name *grown = impmem__grow(t->name, capacity * sizeof *grown);
        if (!grown) { return impmem__no_memory(t->diag, "the tensor names"); }
        t->name = grown;
        t->capacity = capacity;
    }
    tensor_name *name = &t->name[index];
    memset(name, 0, sizeof *name);
    name->offset = t->source->pos;
    uint64_t length = 0;
    impmem_status st = read_little(t, 8, &length, what);
    if (st) return st;
    if (length == 0 || length >= sizeof name->text) {
        return impmem__refuse(t->diag, IMPMEM_ERR_BAD_FORMAT, name->offset,
                              "length of %s at byte %" PRIu64 ": found %" PRIu64 ", expected 1 to %zu", what, name->offset,
                              length, sizeof name->text - 1);
    }
    st = impmem__source_read(t->source, name->text, length, what, t->diag);
    if (st) return st;
    for (uint64_t i = 0; i < length; i++) {
        if (name->text[i] == '\0') {
            return impmem__refuse(t->diag, IMPMEM_ERR_BAD_FORMAT, name->offset + 8 + i,
                                  "%s at byte %" PRIu64 ": found a zero byte, "
                                  "expected text",
                                  what, name->offset + 8 + i);
        }
    }
    (void)snprintf(what, what_bytes, "tensor '%s'", name->text);
    return IMPMEM_OK;
}

/* `matrix` is what one matrix of it holds: a tensor of all experts is a stack of matrices. */
static impmem_status read_shape(tensor_table *t, const char *what, uint64_t *elements, uint64_t *row, uint64_t *matrix)
{
    uint64_t at = t->source->pos;
    uint64_t n_dims = 0;
    impmem_status st = read_little(t, 4, &n_dims, what);
    if (st) return st;
    if (n_dims < 1 || n_dims > IMPMEM__GGUF_MAX_DIMS) {
        return impmem__refuse(t->diag, IMPMEM_ERR_BAD_FORMAT, at,
                              "dimension count of %s at byte %" PRIu64 ": found %" PRIu64 ", expected 1 to %u", what, at,
                              n_dims, IMPMEM__GGUF_MAX_DIMS);
    }
    *elements = 1;
    for (uint64_t d = 0; d < n_dims; d++) {
        uint64_t dim = 0;
        at = t->source->pos;
        st = read_little(t, 8, &dim, what);
        if (st) return st;
        if (dim == 0 || dim > INT64_MAX) {
            return impmem__refuse(t->diag, IMPMEM_ERR_BAD_VALUE, at,
                                  "dimension %" PRIu64 " of %s at byte %" PRIu64 ": found %s%" PRIu64
                                  ", expected 1 or more",
                                  d, what, at, dim ? "-" : "", dim ? UINT64_MAX - dim + 1 : 0);
        }
        if (impmem_mul(elements, *elements, dim) || *elements > INT64_MAX) {
            return impmem__refuse(t->diag, IMPMEM_ERR_BAD_VALUE, at,
                                  "dimensions of %s by byte %" PRIu64 ": found a product beyond 2^63, "
                                  "expected an element count",
                                  what, at);
        }
        if (d == 0) *row = dim;
        if (d < 2) *matrix = *elements;
    }
    return IMPMEM_OK;
}

static impmem_status read_type(tensor_table *t, const char *what, uint64_t elements, uint64_t row, uint64_t *bytes)
{
    uint64_t at = t->source->pos;
    uint64_t id = 0;
    impmem_status st = read_little(t, 4, &id, what);
    if (st) return st;
    const char *removed = NULL;
    const impmem__ggml_type *type = impmem__ggml_type_of((uint32_t)id, &removed);
    if (!type) {
        return impmem__refuse(t->diag, IMPMEM_ERR_BAD_VALUE, at,
                              "type of %s at byte %" PRIu64 ": found %" PRIu64 " (%s), expected a ggml "
                              "type that is in use",
                              what, at, id, removed ? removed : "unknown");
    }
    if (row % type->block_elements != 0) {
        return impmem__refuse(t->diag, IMPMEM_ERR_BAD_VALUE, at,
                              "row of %s: found %" PRIu64 " elements, expected a multiple of %u for "
                              "type %s at byte %" PRIu64,
                              what, row, type->block_elements, type->name, at);
    }
    if (impmem_mul(bytes, elements / type->block_elements, type->block_bytes)) {
        return impmem__refuse(t->diag, IMPMEM_ERR_BAD_VALUE, at,
                              "size of %s of type %s at byte %" PRIu64 ": found more than 2^64 bytes, "
                              "expected a byte count",
                              what, type->name, at);
    }
    return IMPMEM_OK;
}

static impmem_status read_place(tensor_table *t, const char *what, uint64_t bytes)
{
    uint64_t at = t->source->pos;
    uint64_t offset = 0;
    impmem_status st = read_little(t, 8, &offset, what);
    if (st) return st;
    if (offset % t->alignment != 0) {
        return impmem__refuse(t->diag, IMPMEM_ERR_BAD_VALUE, at,
                              "offset of %s at byte %" PRIu64 ": found %" PRIu64 ", expected a multiple "
                              "of the alignment %u",
                              what, at, offset, t->alignment);
    }
    if (offset != t->running) {
        return impmem__refuse(t->diag, IMPMEM_ERR_BAD_VALUE, at,
                              "offset of %s at byte %" PRIu64 ": found %" PRIu64 " (%s), expected %" PRIu64, what, at,
                              offset, offset < t->running ? "overlaps a tensor before it" : "leaves a gap", t->running);
    }
    uint64_t padded = 0;
    impmem_status over = impmem_align_up(&padded, bytes, t->alignment);
    if (!over) over = impmem_add(&t->data_end, t->running, bytes);
    if (!over) over = impmem_add(&t->running, t->running, padded);
    if (!over) over = impmem_add(&t->weight_bytes, t->weight_bytes, bytes);
    if (over) {
        return impmem__refuse(t->diag, IMPMEM_ERR_BAD_VALUE, at,
                              "sizes up to %s at byte %" PRIu64 ": found a sum beyond 2^64 bytes, "
                              "expected a byte count",
                              what, at);
    }
    return IMPMEM_OK;
}

/* Embeddings and the output head are looked up or multiplied as they are: no executor widens them whole. */
static bool is_projection(const char *name)
{
    return strncmp(name, "token_embd", 10) != 0 && strncmp(name, "per_layer_token_embd", 20) != 0 &&
           strcmp(name, "output.weight") != 0;
}

static impmem_status read_info(tensor_table *t, uint64_t index)
{
    char what[128];
    uint64_t elements = 0, row = 0, matrix = 0, bytes = 0;
    impmem_status st = read_name(t, index, what, sizeof what);
    bool projection = !st && is_projection(t->name[index].text);
    if (!st) st = read_shape(t, what, &elements, &row, &matrix);
    if (!st) st = read_type(t, what, elements, row, &bytes);
    if (!st) st = read_place(t, what, bytes);
    if (!st && strcmp(t->name[index].text, "token_embd.weight") == 0) t->embedding_bytes = bytes;
    if (!st && strcmp(t->name[index].text, "output.weight") == 0) t->output_bytes = bytes;
    if (!st && projection && matrix > t->largest_elements) t->largest_elements = matrix;
    return st;
}

static int by_name(const void *a, const void *b)
{
    const tensor_name *x = a, *y = b;
    int order = strcmp(x->text, y->text);
    if (order != 0) return order;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static impmem_status check_names(tensor_table *t, uint64_t n)
{
    if (n > 1) qsort(t->name, (size_t)n, sizeof *t->name, by_name);
    for (uint64_t i = 1; i < n; i++) {
        if (strcmp(t->name[i - 1].text, t->name[i].text) != 0) continue;
        return impmem__refuse(t->diag, IMPMEM_ERR_BAD_FORMAT, t->name[i].offset,
                              "tensor '%s' at byte %" PRIu64 ": found again, expected "
                              "only the one at byte %" PRIu64,
                              t->name[i].text, t->name[i].offset, t->name[i - 1].offset);
    }
    return IMPMEM_OK;
}

static impmem_status check_end(tensor_table *t)
{
    uint64_t begin = 0, end = 0;
    if (impmem_align_up(&begin, t->source->pos, t->alignment) || impmem_add(&end, begin, t->data_end)) end = UINT64_MAX;
    if (end <= t->source->size) return IMPMEM_OK;
    return impmem__refuse(t->diag, IMPMEM_ERR_TRUNCATED, t->source->size,
                          "tensor data from byte %" PRIu64 ": the file ends at byte %" PRIu64 ", expected %" PRIu64
                          " bytes in all",
                          begin, t->source->size, end);
}

impmem_status impmem__gguf_tensors(impmem__gguf *gguf, impmem__source *source, const impmem__diag *diag)
{
    tensor_table t = {.source = source, .diag = diag, .alignment = gguf->alignment};
    impmem_status st = IMPMEM_OK;
    for (uint64_t i = 0; i < gguf->n_tensors && !st; i++) st = read_info(&t, i);
    if (!st) st = check_names(&t, gguf->n_tensors);
    if (!st && gguf->n_tensors > 0) st = check_end(&t);
    impmem__give(t.name);
    if (st) return st;
    gguf->weight_bytes = t.weight_bytes;
    gguf->largest_elements = t.largest_elements;
    gguf->embedding_bytes = t.embedding_bytes;
    gguf->output_bytes = t.output_bytes;
    return IMPMEM_OK;
}
