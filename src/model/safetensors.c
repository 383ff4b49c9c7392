/* A safetensors header: an eight-byte length, then JSON of names, dtypes, shapes and offsets. Every range must be what
 * dtype and shape say, and together they must fill the file. */
#include <inttypes.h>
#include <string.h>

#include "impmem/bytes.h"
#include "model/hf.h"

static const struct {
    const char *name;
    uint32_t bits;
} dtypes[] = {
    {"BOOL", 8}, {"U8", 8},   {"I8", 8},    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
    {"U16", 16}, {"F16", 16}, {"BF16", 16}, {"I32", 32},    {"U32", 32},    {"F32", 32},    {"I64", 64},
    {"U64", 64}, {"F64", 64}, {"C64", 64},  {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},
};

static uint32_t bits_of(const char *name)
{
    for (size_t i = 0; name && i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strcmp(dtypes[i].name, name) == 0) return dtypes[i].bits;
    }
    return 0;
}

static bool natural(const json_t *value, uint64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static impmem_status bad_tensor(const impmem__diag *diag, const char *name, const char *what)
{
    return impmem__refuse(diag, IMPMEM_ERR_BAD_VALUE, 8, "tensor '%.80s': %s", name, what);
}

static impmem_status read_tensor(const char *name, const json_t *tensor, uint64_t data_bytes, const impmem__diag *diag,
                                 uint64_t *bytes)
{
    const char *dtype = json_string_value(json_object_get(tensor, "dtype"));
    uint32_t bits = bits_of(dtype);
    if (bits == 0) {
        return impmem__refuse(diag, IMPMEM_ERR_BAD_VALUE, 8,
                              "tensor '%.80s': found dtype %.20s, expected a safetensors dtype", name,
                              dtype ? dtype : "nothing");
    }
    const json_t *shape = json_object_get(tensor, "shape");
    if (!json_is_array(shape)) return bad_tensor(diag, name, "found no shape, expected an array of integers");
    uint64_t total = bits;
    for (size_t i = 0; i < json_array_size(shape); i++) {
        uint64_t dim = 0;
        if (!natural(json_array_get(shape, i), &dim))
            return bad_tensor(diag, name, "found a shape entry that is no count, expected one");
        if (impmem_mul(&total, total, dim))
            return bad_tensor(diag, name, "found a shape beyond 2^64 bits, expected a size");
    }
    const json_t *range = json_object_get(tensor, "data_offsets");
    uint64_t begin = 0, end = 0;
    if (json_array_size(range) != 2 || !natural(json_array_get(range, 0), &begin) ||
        !natural(json_array_get(range, 1), &end)) {
        return bad_tensor(diag, name, "found no data_offsets, expected two byte counts");
    }
    if (begin > end || total % 8 != 0 || end - begin != total / 8) {
        return impmem__refuse(diag, IMPMEM_ERR_BAD_VALUE, 8,
                              "tensor '%.80s': found data_offsets [%" PRIu64 ", %" PRIu64 "], expected %" PRIu64
                              " bytes by dtype and shape",
                              name, begin, end, total / 8);
    }
    if (end > data_bytes) {
        return impmem__refuse(diag, IMPMEM_ERR_TRUNCATED, 8,
                              "tensor '%.80s': found data to byte %" PRIu64 ", expected no more than the %" PRIu64
                              " bytes after the header",
                              name, end, data_bytes);
    }
    *bytes = total / 8;
    return IMPMEM_OK;
}

static impmem_status read_header(json_t *root, uint64_t data_bytes, const impmem__diag *diag, impmem__stated *stated)
{
    uint64_t sum = 0;
    const char *name;
    json_t *tensor;
    json_object_foreach(root, name, tensor)
    {
        if (strcmp(name, "__metadata__") == 0) continue;
        uint64_t bytes = 0;
        impmem_status st = read_tensor(name, tensor, data_bytes, diag, &bytes);
        if (st) return st;
        if (impmem_add(&sum, sum, bytes))
            return bad_tensor(diag, name, "found a sum of sizes beyond 2^64, expected a size");
        impmem__stated_name(stated, name, bytes);
    }
    if (sum != data_bytes) {
        return impmem__refuse(diag, sum > data_bytes ? IMPMEM_ERR_BAD_VALUE : IMPMEM_ERR_BAD_FORMAT, 8,
                              "tensors: found %" PRIu64 " bytes in all, expected the %" PRIu64 " after the header", sum,
                              data_bytes);
    }
    if (!impmem_add(&stated->bytes, stated->bytes, sum)) return IMPMEM_OK;
    return impmem__refuse(diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                          "safetensors files: found more than 2^64 bytes, expected a size");
}

impmem_status impmem__safetensors_parse(impmem__source *source, const impmem__diag *diag, impmem__stated *stated)
{
    unsigned char raw[8];
    impmem_status st = impmem__source_read(source, raw, sizeof raw, "the header's length", diag);
    if (st) return st;
    uint64_t length = 0;
    for (uint32_t i = 8; i > 0; i--) length = length << 8 | raw[i - 1];
    if (length > IMPMEM__SAFETENSORS_MAX_HEADER) {
        return impmem__refuse(diag, IMPMEM_ERR_TOO_LARGE, 0,
                              "header length at byte 0: found %" PRIu64 ", expected at most %" PRIu64, length,
                              IMPMEM__SAFETENSORS_MAX_HEADER);
    }
    if (length > impmem__source_left(source)) {
        return impmem__refuse(diag, IMPMEM_ERR_TRUNCATED, 0,
                              "header length at byte 0: found %" PRIu64 ", expected at most the %" PRIu64
                              " bytes that are left",
                              length, impmem__source_left(source));
    }
    char *text = impmem__take(length + 1);
    if (!text) return impmem__no_memory(diag, "the file");
    json_t *root = NULL;
    st = impmem__source_read(source, text, length, "the header", diag);
    if (!st && (length == 0 || text[0] != '{')) {
        st = impmem__refuse(diag, IMPMEM_ERR_BAD_FORMAT, 8, "header at byte 8: found no '{', expected a JSON object");
    }
    if (!st) st = impmem__json_parse(text, length, diag, &root);
    impmem__give(text);
    if (st) return st;
    st = read_header(root, impmem__source_left(source), diag, stated);
    json_decref(root);
    return st;
}

static impmem_status parse(impmem__source *source, const impmem__diag *diag, void *stated)
{
    return impmem__safetensors_parse(source, diag, stated);
}

impmem_status impmem__safetensors_read(const char *path, impmem_error *why, impmem__stated *stated)
{
    impmem__diag diag = {path, why};
    return impmem__source_visit(&diag, parse, stated);
}
