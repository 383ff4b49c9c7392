/* The first part of a GGUF header: counts and key/value pairs, streamed. Nothing is allocated from a declared count
 * alone: a count is first held against the bytes that are left in the file. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/gguf.h"

#define WHAT_BYTES 160u

static const struct {
    const char *name;
    uint32_t bytes; /* of one element; the least for strings */
} kinds[IMPMEM__GGUF_TYPES] = {
    {"u8", 1},   {"i8", 1},     {"u16", 2},    {"i16", 2}, {"u32", 4}, {"i32", 4}, {"f32", 4},
    {"bool", 1}, {"string", 8}, {"array", 12}, {"u64", 8}, {"i64", 8}, {"f64", 8},
};

const char *impmem__gguf_type_name(uint32_t type)
{
    return type < IMPMEM__GGUF_TYPES ? kinds[type].name : "unknown type";
}

static uint64_t little(const unsigned char *byte, uint32_t n)
{
    uint64_t value = 0;
    for (uint32_t i = n; i > 0; i--) value = value << 8 | byte[i - 1];
    return value;
}

static impmem_status read_uint(impmem__source *source, uint32_t bytes, uint64_t *out, const char *what,
                               const impmem__diag *diag)
{
    unsigned char raw[8];
    impmem_status st = impmem__source_read(source, raw, bytes, what, diag);
    if (!st) *out = little(raw, bytes);
    return st;
}

/* Two's complement of `bits` bits. */
static int64_t widened(uint64_t raw, uint32_t bits)
{
    uint64_t sign = (uint64_t)1 << (bits - 1);
    return raw & sign ? -(int64_t)((sign << 1) - raw) : (int64_t)raw;
}

/* One number or bool at the source's position. */
static impmem_status read_scalar(impmem__source *source, uint32_t type, int64_t *integer, double *real, const char *what,
                                 const impmem__diag *diag)
{
    uint64_t at = source->pos;
    uint64_t raw = 0;
    impmem_status st = read_uint(source, kinds[type].bytes, &raw, what, diag);
    if (st) return st;
    *real = 0;
    switch (type) {
    case IMPMEM__GGUF_I8: *integer = widened(raw, 8); break;
    case IMPMEM__GGUF_I16: *integer = widened(raw, 16); break;
    case IMPMEM__GGUF_I32: *integer = widened(raw, 32); break;
    case IMPMEM__GGUF_I64: *integer = (int64_t)raw; break;
    case IMPMEM__GGUF_F32: {
        uint32_t bits = (uint32_t)raw;
        float value;
        memcpy(&value, &bits, sizeof value);
        *real = (double)value;
        *integer = 0;
        break;
    }
    case IMPMEM__GGUF_F64:
        memcpy(real, &raw, sizeof *real);
        *integer = 0;
        break;
    case IMPMEM__GGUF_BOOL:
        if (raw > 1) {
            return impmem__refuse(diag, IMPMEM_ERR_BAD_VALUE, at,
                                  "bool in %s at byte %" PRIu64 ": found %" PRIu64 ", expected 0 or 1", what, at, raw);
        }
        *integer = (int64_t)raw;
        break;
    default: *integer = raw > INT64_MAX ? INT64_MAX : (int64_t)raw; break;
    }
    return IMPMEM_OK;
}

/* A length that is sane and inside the file. */
static impmem_status read_length(impmem__source *source, uint64_t max, uint64_t *out, const char *what,
                                 const impmem__diag *diag)
{
    uint64_t at = source->pos;
    uint64_t length = 0;
    impmem_status st = read_uint(source, 8, &length, what, diag);
    if (st) return st;
    if (length > max) {
        return impmem__refuse(diag, IMPMEM_ERR_TOO_LARGE, at,
                              "length of %s at byte %" PRIu64 ": found %" PRIu64 ", expected at most %" PRIu64, what, at,
                              length, max);
    }
    if (length > impmem__source_left(source)) {
        return impmem__refuse(diag, IMPMEM_ERR_TRUNCATED, at,
                              "length of %s at byte %" PRIu64 ": found %" PRIu64 ", expected at most the %" PRIu64
                              " bytes that are left",
                              what, at, length, impmem__source_left(source));
    }
    *out = length;
    return IMPMEM_OK;
}

static impmem_status out_of_memory(const impmem__diag *diag)
{
    return impmem__no_memory(diag, "the header");
}

static impmem_status read_key(impmem__gguf *gguf, impmem__gguf_value *value, uint64_t index, impmem__source *source,
                              const impmem__diag *diag)
{
    char what[WHAT_BYTES];
    (void)snprintf(what, sizeof what, "the name of key %" PRIu64, index);
    uint64_t length = 0;
    value->offset = source->pos;
    impmem_status st = read_length(source, IMPMEM__GGUF_MAX_KEY, &length, what, diag);
    if (st) return st;
    if (length == 0) {
        return impmem__refuse(diag, IMPMEM_ERR_BAD_FORMAT, value->offset,
                              "%s at byte %" PRIu64 ": found an empty name, expected 1 "
                              "to %u bytes",
                              what, value->offset, IMPMEM__GGUF_MAX_KEY);
    }
    gguf->key_store_bytes += length + 1;
    if (gguf->key_store_bytes > IMPMEM__GGUF_MAX_KEY_STORE) {
        return impmem__refuse(diag, IMPMEM_ERR_TOO_LARGE, value->offset,
                              "key names: found more than %" PRIu64 " bytes by byte %" PRIu64 ", expected at most that",
                              IMPMEM__GGUF_MAX_KEY_STORE, value->offset);
    }
    value->key = impmem__take(length + 1);
    if (!value->key) return out_of_memory(diag);
    uint64_t at = source->pos;
    st = impmem__source_read(source, value->key, length, what, diag);
    value->key[st ? 0 : length] = '\0';
    if (st) return st;
    for (uint64_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)value->key[i];
        if (byte < 0x20 || byte > 0x7e) {
            return impmem__refuse(diag, IMPMEM_ERR_BAD_FORMAT, at + i,
                                  "%s at byte %" PRIu64 ": found byte 0x%02x, expected "
                                  "printable ASCII",
                                  what, at + i, byte);
        }
    }
    return IMPMEM_OK;
}

static impmem_status read_text(impmem__gguf_value *value, impmem__source *source, const char *what,
                               const impmem__diag *diag)
{
    uint64_t length = 0;
    impmem_status st = read_length(source, IMPMEM__GGUF_MAX_STRING, &length, what, diag);
    if (st) return st;
    uint64_t kept = length < IMPMEM__GGUF_KEPT_TEXT ? length : IMPMEM__GGUF_KEPT_TEXT - 1;
    value->text = impmem__take(IMPMEM__GGUF_KEPT_TEXT);
    if (!value->text) return out_of_memory(diag);
    value->text[0] = '\0';
    st = impmem__source_read(source, value->text, kept, what, diag);
    if (st) return st;
    for (uint64_t i = 0; i < kept; i++) {
        if (value->text[i] == '\0') value->text[i] = '?'; /* or "llama" followed by a zero byte would pass for "llama" */
    }
    value->text[kept] = '\0';
    return impmem__source_skip(source, length - kept, what, diag);
}

static impmem_status read_array(impmem__gguf_value *value, impmem__source *source, const char *what,
                                const impmem__diag *diag)
{
    uint64_t at = source->pos;
    uint64_t type = 0;
    impmem_status st = read_uint(source, 4, &type, what, diag);
    if (st) return st;
    if (type >= IMPMEM__GGUF_TYPES || type == IMPMEM__GGUF_ARRAY) {
        return impmem__refuse(diag, IMPMEM_ERR_BAD_FORMAT, at,
                              "element type of %s at byte %" PRIu64 ": found %" PRIu64 "%s, expected "
                              "0 to 12 without 9",
                              what, at, type, type == IMPMEM__GGUF_ARRAY ? " (array of arrays)" : "");
    }
    at = source->pos;
    uint64_t count = 0;
    st = read_uint(source, 8, &count, what, diag);
    if (st) return st;
    value->item_type = (uint32_t)type;
    value->count = count;
    if (count > impmem__source_left(source) / kinds[type].bytes) {
        return impmem__refuse(diag, IMPMEM_ERR_TRUNCATED, at,
                              "element count of %s at byte %" PRIu64 ": found %" PRIu64 " of type %s, "
                              "expected at most the %" PRIu64 " bytes that are left",
                              what, at, count, kinds[type].name, impmem__source_left(source));
    }
    if (type == IMPMEM__GGUF_STRING) {
        for (uint64_t i = 0; i < count; i++) {
            uint64_t length = 0;
            st = read_length(source, IMPMEM__GGUF_MAX_STRING, &length, what, diag);
            if (!st) st = impmem__source_skip(source, length, what, diag);
            if (st) return st;
        }
        return IMPMEM_OK;
    }
    bool real = type == IMPMEM__GGUF_F32 || type == IMPMEM__GGUF_F64;
    if (real || (count > IMPMEM__GGUF_KEPT_ITEMS && type != IMPMEM__GGUF_BOOL)) {
        return impmem__source_skip(source, count * kinds[type].bytes, what, diag);
    }
    if (count > 0 && count <= IMPMEM__GGUF_KEPT_ITEMS) {
        value->items = impmem__take(count * sizeof *value->items);
        if (!value->items) return out_of_memory(diag);
    }
    for (uint64_t i = 0; i < count; i++) {
        int64_t integer = 0;
        double ignored = 0;
        st = read_scalar(source, (uint32_t)type, &integer, &ignored, what, diag);
        if (st) return st;
        if (value->items) value->items[i] = integer;
    }
    return IMPMEM_OK;
}

static impmem_status read_value(impmem__gguf *gguf, impmem__gguf_value *value, uint64_t index, impmem__source *source,
                                const impmem__diag *diag)
{
    impmem_status st = read_key(gguf, value, index, source, diag);
    if (st) return st;
    char what[WHAT_BYTES];
    (void)snprintf(what, sizeof what, "key '%.100s'", value->key);
    uint64_t at = source->pos;
    uint64_t type = 0;
    st = read_uint(source, 4, &type, what, diag);
    if (st) return st;
    if (type >= IMPMEM__GGUF_TYPES) {
        return impmem__refuse(diag, IMPMEM_ERR_BAD_FORMAT, at,
                              "type of %s at byte %" PRIu64 ": found %" PRIu64 ", expected 0 to 12", what, at, type);
    }
    value->type = (uint32_t)type;
    if (type == IMPMEM__GGUF_STRING) return read_text(value, source, what, diag);
    if (type == IMPMEM__GGUF_ARRAY) return read_array(value, source, what, diag);
    at = source->pos;
    st = read_scalar(source, value->type, &value->integer, &value->real, what, diag);
    if (st) return st;
    if (!isfinite(value->real)) {
        return impmem__refuse(diag, IMPMEM_ERR_BAD_VALUE, at, "%s at byte %" PRIu64 ": found %s, expected a finite number",
                              what, at, isnan(value->real) ? "NaN" : "infinity");
    }
    return IMPMEM_OK;
}

static int by_key(const void *a, const void *b)
{
    const impmem__gguf_value *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    if (order != 0) return order;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Sorts by key, so that a duplicate stands beside its twin and look-ups can bisect. */
static impmem_status sort_keys(impmem__gguf *gguf, const impmem__diag *diag)
{
    if (gguf->n_values > 1) qsort(gguf->value, (size_t)gguf->n_values, sizeof *gguf->value, by_key);
    for (uint64_t i = 1; i < gguf->n_values; i++) {
        const impmem__gguf_value *value = &gguf->value[i];
        if (strcmp(value[-1].key, value->key) != 0) continue;
        return impmem__refuse(diag, IMPMEM_ERR_BAD_FORMAT, value->offset,
                              "key '%.100s' at byte %" PRIu64 ": found again, expected only "
                              "the one at byte %" PRIu64,
                              value->key, value->offset, value[-1].offset);
    }
    return IMPMEM_OK;
}

const impmem__gguf_value *impmem__gguf_find(const impmem__gguf *gguf, const char *key)
{
    uint64_t low = 0, high = gguf->n_values;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        int order = strcmp(gguf->value[middle].key, key);
        if (order == 0) return &gguf->value[middle];
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return NULL;
}

static impmem_status read_alignment(impmem__gguf *gguf, const impmem__diag *diag)
{
    gguf->alignment = IMPMEM__GGUF_DEFAULT_ALIGNMENT;
    const impmem__gguf_value *value = impmem__gguf_find(gguf, "general.alignment");
    if (!value) return IMPMEM_OK;
    if (value->type != IMPMEM__GGUF_U32) {
        return impmem__refuse(diag, IMPMEM_ERR_BAD_VALUE, value->offset,
                              "key 'general.alignment' at byte %" PRIu64 ": found type %s, "
                              "expected u32",
                              value->offset, impmem__gguf_type_name(value->type));
    }
    uint64_t alignment = (uint64_t)value->integer;
    bool power = alignment != 0 && (alignment & (alignment - 1)) == 0;
    if (!power) {
        return impmem__refuse(diag, IMPMEM_ERR_BAD_VALUE, value->offset,
                              "key 'general.alignment' at byte %" PRIu64 ": found %" PRIu64 ", expected a power of two",
                              value->offset, alignment);
    }
    if (alignment > IMPMEM__GGUF_MAX_ALIGNMENT) {
        return impmem__refuse(diag, IMPMEM_ERR_TOO_LARGE, value->offset,
                              "key 'general.alignment' at byte %" PRIu64 ": found %" PRIu64 ", expected at most %u",
                              value->offset, alignment, IMPMEM__GGUF_MAX_ALIGNMENT);
    }
    gguf->alignment = (uint32_t)alignment;
    return IMPMEM_OK;
}

static impmem_status read_magic(impmem__gguf *gguf, impmem__source *source, const impmem__diag *diag)
{
    unsigned char magic[4];
    impmem_status st = impmem__source_read(source, magic, 4, "the magic", diag);
    if (st) return st;
    if (memcmp(magic, "FUGG", 4) == 0) {
        return impmem__refuse(diag, IMPMEM_ERR_BAD_FORMAT, 0,
                              "magic at byte 0: found \"FUGG\" (byte-swapped), expected \"GGUF\"");
    }
    if (memcmp(magic, "GGUF", 4) != 0) {
        return impmem__refuse(diag, IMPMEM_ERR_BAD_FORMAT, 0,
                              "magic at byte 0: found bytes %02x %02x %02x %02x, expected \"GGUF\"", magic[0], magic[1],
                              magic[2], magic[3]);
    }
    uint64_t version = 0;
    st = read_uint(source, 4, &version, "the version", diag);
    if (st) return st;
    if (version != 0 && (version & 0xffffu) == 0) {
        return impmem__refuse(diag, IMPMEM_ERR_BAD_FORMAT, 4,
                              "version at byte 4: found 0x%08" PRIx64 ", a big-endian file, expected "
                              "version 2 or 3 in little-endian order",
                              version);
    }
    if (version == 1) {
        return impmem__refuse(diag, IMPMEM_ERR_BAD_FORMAT, 4,
                              "version at byte 4: found 1 (32-bit counts, obsolete), expected 2 or 3");
    }
    if (version != 2 && version != 3) {
        return impmem__refuse(diag, IMPMEM_ERR_BAD_FORMAT, 4, "version at byte 4: found %" PRIu64 ", expected 2 or 3",
                              version);
    }
    gguf->version = (uint32_t)version;
    return IMPMEM_OK;
}

static impmem_status check_count(const char *name, uint64_t count, uint64_t max, uint64_t least_bytes, uint64_t at,
                                 const impmem__source *source, const impmem__diag *diag)
{
    if (count > max) {
        return impmem__refuse(diag, IMPMEM_ERR_TOO_LARGE, at,
                              "%s at byte %" PRIu64 ": found %" PRIu64 ", expected at most %" PRIu64, name, at, count, max);
    }
    if (count * least_bytes > impmem__source_left(source)) {
        return impmem__refuse(diag, IMPMEM_ERR_TRUNCATED, at,
                              "%s at byte %" PRIu64 ": found %" PRIu64 ", expected no more than fit the %" PRIu64
                              " bytes that are left, %" PRIu64 " bytes each at least",
                              name, at, count, impmem__source_left(source), least_bytes);
    }
    return IMPMEM_OK;
}

impmem_status impmem__gguf_keys(impmem__gguf *gguf, impmem__source *source, const impmem__diag *diag)
{
    impmem_status st = read_magic(gguf, source, diag);
    if (st) return st;
    uint64_t n_values = 0;
    st = read_uint(source, 8, &gguf->n_tensors, "the tensor count", diag);
    if (!st) st = read_uint(source, 8, &n_values, "the key count", diag);
    /* The least: a tensor info has 8 + 1 + 4 + 8 + 4 + 8 bytes, a pair 8 + 1 + 4 + 1. */
    if (!st) st = check_count("the tensor count", gguf->n_tensors, IMPMEM__GGUF_MAX_TENSORS, 33, 8, source, diag);
    if (!st) st = check_count("the key count", n_values, IMPMEM__GGUF_MAX_KEYS, 14, 16, source, diag);
    if (st) return st;
    gguf->value = impmem__take(n_values * sizeof *gguf->value);
    if (!gguf->value) return out_of_memory(diag);
    for (uint64_t i = 0; i < n_values; i++) {
        gguf->n_values = i + 1; /* so that a half-read pair is freed too */
        st = read_value(gguf, &gguf->value[i], i, source, diag);
        if (st) return st;
    }
    st = sort_keys(gguf, diag);
    if (!st) st = read_alignment(gguf, diag);
    return st;
}

void impmem__gguf_clear(impmem__gguf *gguf)
{
    for (uint64_t i = 0; i < gguf->n_values; i++) {
        impmem__give(gguf->value[i].key);
        impmem__give(gguf->value[i].text);
        impmem__give(gguf->value[i].items);
    }
    impmem__give(gguf->value);
    memset(gguf, 0, sizeof *gguf);
}
