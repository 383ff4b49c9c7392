/* The streaming JSON writer. Commas and nesting are kept in two bit sets, one bit a level. */
#include "core/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void emit(impmem__json *json, const char *text, size_t n)
{
    if (json->status == IMPMEM_OK) json->status = json->write(json->context, text, n);
}

static void emit_text(impmem__json *json, const char *text)
{
    emit(json, text, strlen(text));
}

static void fail(impmem__json *json, impmem_status status)
{
    if (json->status == IMPMEM_OK) json->status = status;
}

static uint32_t level_bit(const impmem__json *json)
{
    return (uint32_t)1 << (json->depth - 1);
}

static bool in_object(const impmem__json *json)
{
    return json->depth > 0 && (json->object_bits & level_bit(json)) != 0;
}

static void new_line(impmem__json *json)
{
    if (json->indent == 0) return;
    static const char spaces[] = "                                ";
    emit(json, "\n", 1);
    for (size_t left = (size_t)json->indent * json->depth; left > 0 && json->status == IMPMEM_OK;) {
        size_t n = left < sizeof spaces - 1 ? left : sizeof spaces - 1;
        emit(json, spaces, n);
        left -= n;
    }
}

/* The comma and line break before an item of the innermost level. */
static void separate(impmem__json *json)
{
    if (json->depth == 0) return;
    if (json->item_bits & level_bit(json)) emit(json, ",", 1);
    json->item_bits |= level_bit(json);
    new_line(json);
}

/* Checks that a value may stand here and writes what goes before it. False: an error sticks, write nothing. */
static bool begin_value(impmem__json *json)
{
    if (json->status != IMPMEM_OK) return false;
    if (json->depth == 0) {
        if (json->has_root) fail(json, IMPMEM_ERR_STATE);
        json->has_root = true;
    } else if (in_object(json)) {
        if (!json->after_key) fail(json, IMPMEM_ERR_STATE);
        json->after_key = false;
    } else {
        separate(json);
    }
    return json->status == IMPMEM_OK;
}

static void begin_level(impmem__json *json, bool object)
{
    if (!begin_value(json)) return;
    if (json->depth == IMPMEM__JSON_MAX_DEPTH) {
        fail(json, IMPMEM_ERR_EXHAUSTED);
        return;
    }
    emit(json, object ? "{" : "[", 1);
    json->depth++;
    json->item_bits &= ~level_bit(json);
    if (object) json->object_bits |= level_bit(json);
    else json->object_bits &= ~level_bit(json);
}

static void end_level(impmem__json *json, bool object)
{
    if (json->status != IMPMEM_OK) return;
    if (json->depth == 0 || in_object(json) != object || json->after_key) {
        fail(json, IMPMEM_ERR_STATE);
        return;
    }
    bool had_items = (json->item_bits & level_bit(json)) != 0;
    json->depth--;
    if (had_items) new_line(json);
    emit(json, object ? "}" : "]", 1);
}

/* Length of the well-formed UTF-8 sequence at `s` (1 to 4), or 0: overlong forms, surrogates and values above U+10FFFF
 * are not well-formed. */
static size_t utf8_length(const unsigned char *s, size_t left)
{
    unsigned char lead = s[0];
    if (lead < 0x80) return 1;
    size_t n = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || n > left) return 0;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80) return 0;
    }
    if (lead == 0xE0 && s[1] < 0xA0) return 0;
    if (lead == 0xED && s[1] > 0x9F) return 0;
    if (lead == 0xF0 && s[1] < 0x90) return 0;
    if (lead == 0xF4 && s[1] > 0x8F) return 0;
    return n;
}

/* The escape of an ASCII character, or NULL when it stands for itself. */
static const char *escape_of(unsigned char c, char room[8])
{
    switch (c) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\b': return "\\b";
    case '\f': return "\\f";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: break;
    }
    if (c >= 0x20 && c != 0x7F) return NULL;
    (void)snprintf(room, 8, "\\u%04x", c);
    return room;
}

impmem_status impmem__json_quote(impmem_write_fn write, void *context, const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    impmem_status st = write(context, "\"", 1);
    size_t plain = 0; /* start of the run that needs no change */
    size_t i = 0;
    while (i < n && st == IMPMEM_OK) {
        char room[8];
        size_t length = utf8_length(s + i, n - i);
        const char *instead = length == 0 ? "\xEF\xBF\xBD" : length == 1 ? escape_of(s[i], room) : NULL;
        size_t step = length ? length : 1;
        if (instead) {
            if (i > plain) st = write(context, text + plain, i - plain);
            if (st == IMPMEM_OK) st = write(context, instead, strlen(instead));
            plain = i + step;
        }
        i += step;
    }
    if (st == IMPMEM_OK && n > plain) st = write(context, text + plain, n - plain);
    if (st == IMPMEM_OK) st = write(context, "\"", 1);
    return st;
}

void impmem__json_init(impmem__json *json, impmem_write_fn write, void *context, uint32_t indent)
{
    memset(json, 0, sizeof *json);
    json->write = write;
    json->context = context;
    json->indent = indent;
    if (!write) json->status = IMPMEM_ERR_INVALID_ARGUMENT;
}

void impmem__json_object_begin(impmem__json *json)
{
    begin_level(json, true);
}

void impmem__json_object_end(impmem__json *json)
{
    end_level(json, true);
}

void impmem__json_array_begin(impmem__json *json)
{
    begin_level(json, false);
}

void impmem__json_array_end(impmem__json *json)
{
    end_level(json, false);
}

void impmem__json_key(impmem__json *json, const char *key)
{
    if (json->status != IMPMEM_OK) return;
    if (!key || !in_object(json) || json->after_key) {
        fail(json, IMPMEM_ERR_STATE);
        return;
    }
    separate(json);
    if (json->status == IMPMEM_OK) json->status = impmem__json_quote(json->write, json->context, key, strlen(key));
    emit_text(json, json->indent ? ": " : ":");
    json->after_key = true;
}

void impmem__json_string_n(impmem__json *json, const char *text, size_t n)
{
    if (!text) {
        impmem__json_null(json);
        return;
    }
    if (begin_value(json)) json->status = impmem__json_quote(json->write, json->context, text, n);
}

void impmem__json_string(impmem__json *json, const char *text)
{
    impmem__json_string_n(json, text, text ? strlen(text) : 0);
}

void impmem__json_u64(impmem__json *json, uint64_t value)
{
    char digits[24];
    (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    if (begin_value(json)) emit_text(json, digits);
}

void impmem__json_i64(impmem__json *json, int64_t value)
{
    char digits[24];
    (void)snprintf(digits, sizeof digits, "%lld", (long long)value);
    if (begin_value(json)) emit_text(json, digits);
}

/* Some locales print another decimal separator, of one byte or several: JSON wants a point. */
static void put_point(char *digits)
{
    char *to = digits;
    bool in_separator = false;
    for (const char *from = digits; *from; from++) {
        bool of_number = strchr("0123456789+-eE.", *from) != NULL;
        if (of_number) *to++ = *from;
        else if (!in_separator) *to++ = '.';
        in_separator = !of_number;
    }
    *to = '\0';
}

void impmem__json_double(impmem__json *json, double value)
{
    if (!isfinite(value)) {
        impmem__json_null(json);
        return;
    }
    char digits[48];
    for (int precision = 1; precision <= 17; precision++) {
        (void)snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) break;
    }
    put_point(digits);
    if (begin_value(json)) emit_text(json, digits);
}

void impmem__json_bool(impmem__json *json, bool value)
{
    if (begin_value(json)) emit_text(json, value ? "true" : "false");
}

void impmem__json_null(impmem__json *json)
{
    if (begin_value(json)) emit(json, "null", 4);
}

void impmem__json_field_string(impmem__json *json, const char *key, const char *text)
{
    impmem__json_key(json, key);
    impmem__json_string(json, text);
}

void impmem__json_field_u64(impmem__json *json, const char *key, uint64_t value)
{
    impmem__json_key(json, key);
    impmem__json_u64(json, value);
}

void impmem__json_field_i64(impmem__json *json, const char *key, int64_t value)
{
    impmem__json_key(json, key);
    impmem__json_i64(json, value);
}

void impmem__json_field_double(impmem__json *json, const char *key, double value)
{
    impmem__json_key(json, key);
    impmem__json_double(json, value);
}

void impmem__json_field_bool(impmem__json *json, const char *key, bool value)
{
    impmem__json_key(json, key);
    impmem__json_bool(json, value);
}

impmem_status impmem__json_finish(impmem__json *json)
{
    if (json->status == IMPMEM_OK && (json->depth != 0 || !json->has_root)) json->status = IMPMEM_ERR_STATE;
    return json->status;
}
