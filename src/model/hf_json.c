/* JSON as configs really are: Python writes bare NaN and Infinity, which no JSON parser takes. They become null first,
 * outside strings only. */
#include <inttypes.h>
#include <string.h>

#include "model/hf.h"

/* Length of the bare word at `at`, or 0. */
static uint64_t bare_word(const char *at, uint64_t left)
{
    static const char *const words[] = {"-Infinity", "Infinity", "NaN"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        uint64_t n = strlen(words[i]);
        if (left >= n && memcmp(at, words[i], (size_t)n) == 0) return n;
    }
    return 0;
}

/* Copies with bare words as null. `to` has room for 2 * bytes: the shortest word, NaN, grows by one. */
static uint64_t without_bare_words(const char *text, uint64_t bytes, char *to, uint32_t *deepest)
{
    bool inside = false;
    uint32_t depth = 0;
    uint64_t n = 0;
    *deepest = 0;
    for (uint64_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (inside) {
            to[n++] = c;
            if (c == '\\' && i + 1 < bytes) to[n++] = text[++i];
            else if (c == '"') inside = false;
            continue;
        }
        uint64_t word = c == '-' || c == 'I' || c == 'N' ? bare_word(text + i, bytes - i) : 0;
        if (word > 0) {
            for (const char *letter = "null"; *letter; letter++) to[n++] = *letter;
            i += word - 1;
            continue;
        }
        if (c == '"') inside = true;
        if (c == '{' || c == '[') depth++;
        if ((c == '}' || c == ']') && depth > 0) depth--;
        if (depth > *deepest) *deepest = depth;
        to[n++] = c;
    }
    return n;
}

/* The name of the value that ends before `at`: what stands in quotes before the last colon. NULL: there is none. */
static const char *key_before(const char *text, uint64_t at, int *length)
{
    while (at > 0 && text[at - 1] != ':') at--;
    while (at > 0 && text[at - 1] != '"') at--;
    if (at == 0) return NULL;
    const uint64_t end = --at;
    while (at > 0 && text[at - 1] != '"') at--;
    if (at == 0) return NULL;
    *length = end - at < 64 ? (int)(end - at) : 64;
    return text + at;
}

impmem_status impmem__json_parse(const char *text, uint64_t bytes, const impmem__diag *diag, json_t **out)
{
    char *clean = impmem__take((size_t)bytes * 2 + 1);
    if (!clean) return impmem__no_memory(diag, "the file");
    uint32_t depth = 0;
    uint64_t n = without_bare_words(text, bytes, clean, &depth);
    if (depth > IMPMEM__HF_MAX_DEPTH) {
        impmem__give(clean);
        return impmem__refuse(diag, IMPMEM_ERR_TOO_LARGE, IMPMEM__NO_OFFSET,
                              "JSON: found values %u deep, expected at most %u", depth, IMPMEM__HF_MAX_DEPTH);
    }
    json_error_t error;
    json_t *root = json_loadb(clean, (size_t)n, JSON_REJECT_DUPLICATES, &error);
    if (!root && json_error_code(&error) == json_error_numeric_overflow && error.position > 0) {
        int length = 0;
        const char *key = key_before(clean, (uint64_t)error.position < n ? (uint64_t)error.position : n, &length);
        impmem_status st = impmem__refuse(diag, IMPMEM_ERR_BAD_FORMAT, IMPMEM__NO_OFFSET,
                                          "JSON at line %d, column %d, key '%.*s': %s, expected one of 64 bits", error.line,
                                          error.column, key ? length : 0, key ? key : "", error.text);
        impmem__give(clean);
        return st;
    }
    impmem__give(clean);
    if (!root) {
        enum json_error_code code = json_error_code(&error);
        /* jansson leaves the code alone when its memory runs out in the middle. */
        bool memory = code == json_error_out_of_memory || code == json_error_unknown;
        impmem_status st = memory                                      ? IMPMEM_ERR_OUT_OF_HOST_MEMORY
                           : code == json_error_premature_end_of_input ? IMPMEM_ERR_TRUNCATED
                                                                       : IMPMEM_ERR_BAD_FORMAT;
        uint64_t at = n == bytes && error.position > 0 ? (uint64_t)error.position : IMPMEM__NO_OFFSET;
        return impmem__refuse(diag, st, at, "JSON at line %d, column %d: %s", error.line, error.column, error.text);
    }
    if (!json_is_object(root)) {
        json_decref(root);
        return impmem__refuse(diag, IMPMEM_ERR_BAD_FORMAT, 0, "JSON: found no object at the top, expected one");
    }
    *out = root;
    return IMPMEM_OK;
}

impmem_status impmem__json_file(const impmem__diag *diag, uint64_t max_bytes, json_t **out)
{
    char *text = NULL;
    uint64_t bytes = 0;
    impmem_status st = impmem__slurp(diag, max_bytes, &text, &bytes);
    if (st) return st;
    st = impmem__json_parse(text, bytes, diag, out);
    impmem__give(text);
    return st;
}
