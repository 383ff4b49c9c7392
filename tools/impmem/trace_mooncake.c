/* trace_mooncake.c - one line of a Mooncake trace. Traces in the same form that give the time as `arrival_time_ns` are read
 * too; keys that are not needed are ignored.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "trace_format.h"

/* What a value is, for "found ...". */
static const char *describe(const json_t *value, char *buffer, size_t capacity)
{
    if (!value) return "no such key";
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_TRUE: return "true";
    case JSON_FALSE: return "false";
    case JSON_NULL: return "null";
    case JSON_INTEGER:
    case JSON_REAL: {
        size_t n = json_dumpb(value, buffer, capacity - 1, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        buffer[n < capacity ? n : 0] = '\0';
        return buffer;
    }
    case JSON_STRING:
        snprintf(buffer, capacity, "\"%.*s\"", TRACE_EXCERPT(json_string_value(value), json_string_length(value)));
        return buffer;
    }
    return "something else";
}

static impmem_status refuse_value(const trace_line *line, impmem_error *why, const char *key, const json_t *value,
                                  const char *expected)
{
    char found[TRACE_EXCERPT_BYTES + 8];
    impmem_status status = value ? IMPMEM_ERR_BAD_VALUE : IMPMEM_ERR_MISSING_KEY;
    return trace_refuse(line, why, status, "%s: found %s, expected %s", key, describe(value, found, sizeof found),
                        expected);
}

static impmem_status read_tokens(const trace_line *line, const json_t *object, const char *key, uint32_t *out,
                                 impmem_error *why)
{
    const json_t *value = json_object_get(object, key);
    json_int_t tokens = json_is_integer(value) ? json_integer_value(value) : -1;
    if (tokens < 0 || tokens > UINT32_MAX)
        return refuse_value(line, why, key, value, "a whole number of tokens from 0 to 4294967295");
    *out = (uint32_t)tokens;
    return IMPMEM_OK;
}

static impmem_status read_time(trace_line *line, const json_t *object, impmem_error *why)
{
    const json_t *ns = json_object_get(object, "arrival_time_ns");
    if (ns) {
        if (!json_is_integer(ns) || json_integer_value(ns) < 0)
            return refuse_value(line, why, "arrival_time_ns", ns, "a whole number of nanoseconds, 0 or more");
        line->time_ns = (uint64_t)json_integer_value(ns);
        return IMPMEM_OK;
    }
    const double most_ms = 9e12; /* 285 years: in nanoseconds still below 2^63 */
    const json_t *ms = json_object_get(object, "timestamp");
    if (!json_is_number(ms) || !(json_number_value(ms) >= 0.0) || json_number_value(ms) > most_ms)
        return refuse_value(line, why, "timestamp", ms, "milliseconds from 0 to 9e12 (or the key arrival_time_ns)");
    if (json_is_integer(ms)) line->time_ns = (uint64_t)json_integer_value(ms) * 1000000u;
    else line->time_ns = (uint64_t)(json_real_value(ms) * 1e6 + 0.5);
    return IMPMEM_OK;
}

/* One id a block. Writers differ on the remainder of the prompt: it has an id (Mooncake) or it has none. */
static impmem_status read_ids(trace_line *line, const json_t *object, impmem_error *why)
{
    const json_t *array = json_object_get(object, "hash_ids");
    if (!json_is_array(array)) return refuse_value(line, why, "hash_ids", array, "an array of block ids");
    uint64_t n = json_array_size(array);
    uint32_t whole = line->input_tokens / line->block_tokens;
    uint32_t begun = whole + (line->input_tokens % line->block_tokens != 0);
    if (n != whole && n != begun)
        return trace_refuse(line, why, IMPMEM_ERR_BAD_VALUE,
                            "hash_ids: found %" PRIu64 " ids, expected %" PRIu32 " for an input_length of %" PRIu32
                            " in blocks of %" PRIu32 " tokens (see --trace-block-tokens)",
                            n, begun, line->input_tokens, line->block_tokens);
    impmem_status st = trace_line_reserve(line, n, why);
    if (st) return st;
    for (uint32_t i = 0; i < (uint32_t)n; i++) {
        const json_t *id = json_array_get(array, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0) {
            char key[32];
            snprintf(key, sizeof key, "hash_ids[%" PRIu32 "]", i);
            return refuse_value(line, why, key, id, "a whole number from 0 to 9223372036854775807");
        }
        line->ids[i] = (uint64_t)json_integer_value(id);
    }
    line->n_ids = (uint32_t)n;
    return IMPMEM_OK;
}

impmem_status trace_parse_mooncake(trace_line *line, impmem_error *why)
{
    json_error_t error;
    json_t *object = json_loadb(line->text, line->bytes, JSON_REJECT_DUPLICATES, &error);
    if (!object)
        return trace_refuse(line, why, IMPMEM_ERR_BAD_FORMAT, "found \"%.*s\", expected one JSON object: column %d: %s",
                            TRACE_EXCERPT(line->text, line->bytes), error.column, error.text);
    impmem_status st = IMPMEM_OK;
    if (!json_is_object(object)) st = refuse_value(line, why, "the line", object, "one JSON object");
    if (!st) st = read_time(line, object, why);
    if (!st) st = read_tokens(line, object, "input_length", &line->input_tokens, why);
    if (!st) st = read_tokens(line, object, "output_length", &line->output_tokens, why);
    if (!st) st = read_ids(line, object, why);
    json_decref(object);
    return st;
}
