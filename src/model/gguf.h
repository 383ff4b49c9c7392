/* model/gguf.h - one parsed GGUF header, shared by the files that read its keys and its tensor table. */
#ifndef IMPMEM__MODEL_GGUF_H
#define IMPMEM__MODEL_GGUF_H

#include "model/internal.h"

/* Bounds of this reader; beyond them a file is TOO_LARGE. */
#define IMPMEM__GGUF_MAX_KEYS 65536u
#define IMPMEM__GGUF_MAX_TENSORS ((uint64_t)1 << 20)
#define IMPMEM__GGUF_MAX_STRING ((uint64_t)64 << 20)
#define IMPMEM__GGUF_MAX_KEY 65535u
#define IMPMEM__GGUF_MAX_KEY_STORE ((uint64_t)16 << 20) /* all key names together */
#define IMPMEM__GGUF_MAX_ALIGNMENT ((uint32_t)1 << 20)
#define IMPMEM__GGUF_MAX_SPLITS 4096u
#define IMPMEM__GGUF_MAX_DIMS 4u
#define IMPMEM__GGUF_TENSOR_NAME 64u  /* with its end */
#define IMPMEM__GGUF_KEPT_TEXT 256u   /* longer values are cut: only names matter here */
#define IMPMEM__GGUF_KEPT_ITEMS 4096u /* longer number arrays are checked, counted and skipped */
#define IMPMEM__GGUF_DEFAULT_ALIGNMENT 32u

enum {
    IMPMEM__GGUF_U8 = 0,
    IMPMEM__GGUF_I8,
    IMPMEM__GGUF_U16,
    IMPMEM__GGUF_I16,
    IMPMEM__GGUF_U32,
    IMPMEM__GGUF_I32,
    IMPMEM__GGUF_F32,
    IMPMEM__GGUF_BOOL,
    IMPMEM__GGUF_STRING,
    IMPMEM__GGUF_ARRAY,
    IMPMEM__GGUF_U64,
    IMPMEM__GGUF_I64,
    IMPMEM__GGUF_F64,
    IMPMEM__GGUF_TYPES
};

typedef struct impmem__gguf_value {
    char *key;
    uint64_t offset; /* of the key in the file */
    uint32_t type;
    uint32_t item_type;
    uint64_t count;
    int64_t integer; /* every integer type and bool; u64 saturates */
    double real;
    char *text;
    int64_t *items; /* integer and bool arrays of up to IMPMEM__GGUF_KEPT_ITEMS */
} impmem__gguf_value;

typedef struct impmem__gguf {
    uint32_t version;
    uint32_t alignment;
    uint64_t n_tensors;
    uint64_t n_values;
    impmem__gguf_value *value; /* in file order until sorted by key */
    uint64_t key_store_bytes;
    uint64_t weight_bytes;     /* of this file's tensors, without padding */
    uint64_t largest_elements; /* of one projection matrix */
    uint64_t embedding_bytes;  /* token_embd.weight, output.weight; 0 when not there */
    uint64_t output_bytes;
} impmem__gguf;

/* Reads the whole header: keys, then tensor infos with every offset checked against the file's size. On failure `gguf` is
 * cleared. */
impmem_status impmem__gguf_parse(impmem__gguf *gguf, impmem__source *source, const impmem__diag *diag);
void impmem__gguf_clear(impmem__gguf *gguf);
const impmem__gguf_value *impmem__gguf_find(const impmem__gguf *gguf, const char *key);
/* "u32", "array": never NULL. */
const char *impmem__gguf_type_name(uint32_t type);

impmem_status impmem__gguf_keys(impmem__gguf *gguf, impmem__source *source, const impmem__diag *diag);
impmem_status impmem__gguf_tensors(impmem__gguf *gguf, impmem__source *source, const impmem__diag *diag);

/* Reads the siblings of the first file of a split set and adds their tensors. Nothing to do for a file that is no part
 * of one. */
impmem_status impmem__gguf_splits(impmem__gguf *gguf, const impmem__diag *diag, bool memory);

#endif
