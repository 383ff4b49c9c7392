/* What the tests of the model readers share: a scratch directory, a GGUF writer that can be made to lie, and refusals
 * held against status, place and words. */
#ifndef IMPMEM_TESTS_MODEL_TEST_H
#define IMPMEM_TESTS_MODEL_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "impmem/model.h"
#include "impmem/shape.h"

/* ---- scratch directory ---- */

static char scratch_dir[256];

static inline int scratch_open(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    (void)snprintf(scratch_dir, sizeof scratch_dir, "%s/impmem-model-XXXXXX", base && base[0] ? base : "/tmp");
    return mkdtemp(scratch_dir) ? 0 : -1;
}

static inline int scratch_remove(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

static inline int scratch_close(void **state)
{
    (void)state;
    return nftw(scratch_dir, scratch_remove, 16, FTW_DEPTH | FTW_PHYS);
}

static inline const char *scratch_path(const char *name)
{
    static char path[4][700];
    static unsigned next;
    char *to = path[next++ % 4];
    (void)snprintf(to, sizeof path[0], "%s/%s", scratch_dir, name);
    return to;
}

static inline void write_file(const char *path, const void *data, size_t n)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

/* ---- shared data ---- */

/* False, with a printed reason, when the shared data isn't there. */
static inline int shared_path(char *to, size_t n, const char *below)
{
    const char *base = getenv("IMPMEM_SHARED");
    (void)snprintf(to, n, "%s/%s", base && base[0] ? base : IMPMEM_SOURCE_DIR "/../shared", below);
    struct stat info;
    if (stat(to, &info) == 0) return 1;
    print_message("skipped: no %s (set IMPMEM_SHARED)\n", to);
    return 0;
}

/* ---- bytes ---- */

typedef struct bytes {
    unsigned char *at;
    size_t n;
    size_t capacity;
} bytes;

static inline void put(bytes *b, const void *from, size_t n)
{
    if (b->n + n > b->capacity) {
        b->capacity = (b->n + n) * 2 + 64;
        b->at = realloc(b->at, b->capacity);
        assert_non_null(b->at);
    }
    const unsigned char *byte = from;
    for (size_t i = 0; i < n; i++) b->at[b->n++] = byte[i];
}

static inline void put_le(bytes *b, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)(value >> (8 * i) & 0xff);
        put(b, &byte, 1);
    }
}

static inline void put_text(bytes *b, const char *text)
{
    put_le(b, strlen(text), 8);
    put(b, text, strlen(text));
}

static inline void put_zeros(bytes *b, size_t n)
{
    for (size_t i = 0; i < n; i++) put(b, "", 1);
}

static inline void drop(bytes *b)
{
    free(b->at);
    memset(b, 0, sizeof *b);
}

/* ---- GGUF ---- */

enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 };

typedef struct gguf {
    bytes keys;
    bytes infos;
    uint64_t n_keys;
    uint64_t n_tensors;
    uint64_t data_bytes; /* as the infos say, padded but for the last */
    uint64_t next;       /* offset of the next tensor */
    uint32_t alignment;
} gguf;

static inline void key(gguf *g, const char *name, uint32_t type)
{
    put_text(&g->keys, name);
    put_le(&g->keys, type, 4);
    g->n_keys++;
}

static inline void key_u32(gguf *g, const char *name, uint32_t value)
{
    key(g, name, U32);
    put_le(&g->keys, value, 4);
}

static inline void key_text(gguf *g, const char *name, const char *value)
{
    key(g, name, STRING);
    put_text(&g->keys, value);
}

static inline void key_array_u32(gguf *g, const char *name, const uint32_t *value, uint64_t n)
{
    key(g, name, ARRAY);
    put_le(&g->keys, U32, 4);
    put_le(&g->keys, n, 8);
    for (uint64_t i = 0; i < n; i++) put_le(&g->keys, value[i], 4);
}

static inline void key_array_bool(gguf *g, const char *name, const uint8_t *value, uint64_t n)
{
    key(g, name, ARRAY);
    put_le(&g->keys, BOOL, 4);
    put_le(&g->keys, n, 8);
    put(&g->keys, value, n);
}

/* An info as it should be, `size` bytes long, at the running offset. */
static inline void tensor(gguf *g, const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type, uint64_t size)
{
    uint64_t alignment = g->alignment ? g->alignment : 32;
    put_text(&g->infos, name);
    put_le(&g->infos, n_dims, 4);
    for (uint32_t i = 0; i < n_dims && i < 8; i++) put_le(&g->infos, dims[i], 8);
    put_le(&g->infos, type, 4);
    put_le(&g->infos, g->next, 8);
    g->data_bytes = g->next + size;
    g->next = (g->data_bytes + alignment - 1) / alignment * alignment;
    g->n_tensors++;
}

/* An info in every detail. */
static inline void raw_tensor(gguf *g, const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                              uint64_t offset)
{
    put_text(&g->infos, name);
    put_le(&g->infos, n_dims, 4);
    for (uint32_t i = 0; i < n_dims && i < 8; i++) put_le(&g->infos, dims[i], 8);
    put_le(&g->infos, type, 4);
    put_le(&g->infos, offset, 8);
    g->n_tensors++;
}

/* The keys of a llama with `layers` layers, hidden size 64, 4 heads, 2 KV heads. */
static inline void plain_llama(gguf *g, uint32_t layers)
{
    memset(g, 0, sizeof *g);
    key_text(g, "general.architecture", "llama");
    key_u32(g, "llama.block_count", layers);
    key_u32(g, "llama.embedding_length", 64);
    key_u32(g, "llama.feed_forward_length", 128);
    key_u32(g, "llama.attention.head_count", 4);
    key_u32(g, "llama.attention.head_count_kv", 2);
    key_u32(g, "llama.context_length", 2048);
    key_u32(g, "llama.vocab_size", 100);
}

static inline void header_bytes(const gguf *g, bytes *out)
{
    put(out, "GGUF", 4);
    put_le(out, 3, 4);
    put_le(out, g->n_tensors, 8);
    put_le(out, g->n_keys, 8);
    put(out, g->keys.at, g->keys.n);
    put(out, g->infos.at, g->infos.n);
}

/* The whole file, tensor data as zeros. Frees `g`. */
static inline bytes finish(gguf *g)
{
    bytes out = {NULL, 0, 0};
    header_bytes(g, &out);
    uint64_t alignment = g->alignment ? g->alignment : 32;
    if (g->n_tensors) {
        put_zeros(&out, (size_t)((alignment - out.n % alignment) % alignment));
        put_zeros(&out, (size_t)g->data_bytes);
    }
    drop(&g->keys);
    drop(&g->infos);
    memset(g, 0, sizeof *g);
    return out;
}

/* ---- expectations ---- */

static inline void expect_path_refused(const char *path, impmem_status status, const char *words)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_model *model = NULL;
    impmem_status st = impmem_model_read(path, &model, &why);
    if (st != status || !strstr(why.message, words)) {
        fail_msg("%s: found %s \"%s\", expected %s with \"%s\"", path, impmem_status_name(st), why.message,
                 impmem_status_name(status), words);
    }
    assert_null(model);
    assert_int_equal(why.status, status);
    assert_null(strchr(why.message, '\n'));
    assert_true(why.subject[0] != '\0');
    /* The same without an error object. */
    assert_int_equal(impmem_model_read(path, &model, NULL), status);
    assert_null(model);
}

/* Writes the bytes, frees them, and expects the refusal; `offset` UINT64_MAX means any. */
static inline void expect_refused(bytes b, impmem_status status, const char *words, uint64_t offset)
{
    const char *path = scratch_path("refused.gguf");
    write_file(path, b.at, b.n);
    drop(&b);
    expect_path_refused(path, status, words);
    if (offset == UINT64_MAX) return;
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_model *model = NULL;
    assert_int_equal(impmem_model_read(path, &model, &why), status);
    assert_int_equal(why.offset, offset);
}

static inline impmem_model *read_path(const char *path)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_model *model = NULL;
    impmem_status st = impmem_model_read(path, &model, &why);
    if (st) fail_msg("%s: %s %s", path, impmem_status_name(st), why.message);
    assert_non_null(model);
    st = impmem_shape_check(impmem_model_shape_of(model), &why);
    if (st) fail_msg("%s: shape: %s", path, why.message);
    return model;
}

static inline impmem_model *read_bytes(bytes b)
{
    const char *path = scratch_path("read.gguf");
    write_file(path, b.at, b.n);
    drop(&b);
    return read_path(path);
}

static inline int has_note(const impmem_model *model, const char *words)
{
    for (uint32_t i = 0; impmem_model_note(model, i); i++) {
        if (strstr(impmem_model_note(model, i), words)) return 1;
    }
    return 0;
}

static inline impmem_model *read_json(const char *text)
{
    const char *path = scratch_path("config.json");
    write_file(path, text, strlen(text));
    return read_path(path);
}

static inline void expect_json_refused(const char *text, impmem_status status, const char *words)
{
    const char *path = scratch_path("config.json");
    write_file(path, text, strlen(text));
    expect_path_refused(path, status, words);
}

#endif
