/* core/json.h - a small streaming JSON writer: every JSON text of the library goes through it.
 *
 *   impmem__json json;
 *   impmem__json_init(&json, impmem_write_file, stdout, 2);
 *   impmem__json_object_begin(&json);
 *   impmem__json_key(&json, "bytes");
 *   impmem__json_u64(&json, bytes);
 *   impmem__json_object_end(&json);
 *   return impmem__json_finish(&json);
 *
 * No heap. The first error sticks: later calls do nothing, and impmem__json_finish returns it. Misuse (a value without a
 * key inside an object, a wrong end) is IMPMEM_ERR_STATE, nesting beyond IMPMEM__JSON_MAX_DEPTH is IMPMEM_ERR_EXHAUSTED.
 */
#ifndef IMPMEM__CORE_JSON_H
#define IMPMEM__CORE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "impmem/write.h"

#define IMPMEM__JSON_MAX_DEPTH 32u

typedef struct impmem__json {
    impmem_write_fn write;
    void *context;
    impmem_status status;
    uint32_t indent; /* spaces per level; 0 = all on one line */
    uint32_t depth;
    uint32_t object_bits; /* bit d: level d+1 is an object, else an array */
    uint32_t item_bits;   /* bit d: level d+1 holds something already */
    bool after_key;
    bool has_root;
} impmem__json;

void impmem__json_init(impmem__json *json, impmem_write_fn write, void *context, uint32_t indent);
void impmem__json_object_begin(impmem__json *json);
void impmem__json_object_end(impmem__json *json);
void impmem__json_array_begin(impmem__json *json);
void impmem__json_array_end(impmem__json *json);
void impmem__json_key(impmem__json *json, const char *key);
/* Escaped; bytes that are no UTF-8 become U+FFFD. NULL is written as null. */
void impmem__json_string(impmem__json *json, const char *text);
void impmem__json_string_n(impmem__json *json, const char *text, size_t n);
void impmem__json_u64(impmem__json *json, uint64_t value);
void impmem__json_i64(impmem__json *json, int64_t value);
/* The shortest digits that read back as the same double, in any locale; NaN and infinities are null. */
void impmem__json_double(impmem__json *json, double value);
void impmem__json_bool(impmem__json *json, bool value);
void impmem__json_null(impmem__json *json);

/* Key and value at once. */
void impmem__json_field_string(impmem__json *json, const char *key, const char *text);
void impmem__json_field_u64(impmem__json *json, const char *key, uint64_t value);
void impmem__json_field_i64(impmem__json *json, const char *key, int64_t value);
void impmem__json_field_double(impmem__json *json, const char *key, double value);
void impmem__json_field_bool(impmem__json *json, const char *key, bool value);

/* The first error; IMPMEM_ERR_STATE while something is still open or nothing was written. Writes nothing. */
IMPMEM_NODISCARD impmem_status impmem__json_finish(impmem__json *json);

/* The quoted, escaped form of a text by itself, for line formats that borrow JSON's strings. */
IMPMEM_NODISCARD impmem_status impmem__json_quote(impmem_write_fn write, void *context, const char *text, size_t n);

#endif
