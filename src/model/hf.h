/* model/hf.h - what the files that read Hugging Face directories share. */
#ifndef IMPMEM__MODEL_HF_H
#define IMPMEM__MODEL_HF_H

#include <jansson.h>

#include "model/internal.h"

#define IMPMEM__HF_MAX_CONFIG ((uint64_t)16 << 20)
#define IMPMEM__HF_MAX_INDEX ((uint64_t)256 << 20)
#define IMPMEM__HF_MAX_DEPTH 64u
#define IMPMEM__SAFETENSORS_MAX_HEADER ((uint64_t)100000000)
#define IMPMEM__HF_MAX_FILES 4096u

/* One JSON object; bare NaN and Infinity read as null, duplicate names are refused. The caller drops *out with
 * json_decref. */
impmem_status impmem__json_parse(const char *text, uint64_t bytes, const impmem__diag *diag, json_t **out);
impmem_status impmem__json_file(const impmem__diag *diag, uint64_t max_bytes, json_t **out);

/* ---- how weights are stored ---- */

typedef enum impmem__part {
    IMPMEM__PART_EMBEDDING,
    IMPMEM__PART_HEAD,
    IMPMEM__PART_ATTENTION,
    IMPMEM__PART_MLP,
    IMPMEM__PART_EXPERT,
    IMPMEM__PART_ROUTER,
    IMPMEM__PART_STATE, /* projections of recurrent layers */
    IMPMEM__PART_COUNT
} impmem__part;

/* Bytes of a [rows, columns] matrix: rows * columns * bits / 8, and the scales that go with it. */
typedef struct impmem__format {
    uint32_t bits;
    uint32_t group;      /* columns that share scales; 0 = no such groups */
    uint32_t group_bits; /* scale and zero point of one group */
    uint32_t block_rows; /* blocks with one 4-byte scale each; 0 = none */
    uint32_t block_columns;
    uint32_t row_bytes;    /* per output row */
    uint32_t column_bytes; /* per input column */
    uint32_t matrix_bytes;
    uint32_t packed; /* elements of one stored unit */
} impmem__format;

typedef struct impmem__storage {
    uint32_t vector_bytes; /* an element of norms and biases */
    impmem__format part[IMPMEM__PART_COUNT];
} impmem__storage;

/* From torch_dtype and quantization_config; notes what it assumed. `extra` is hf_quant_config.json or NULL. */
impmem_status impmem__storage_read(impmem__reading *reading, const json_t *root, const json_t *text, const json_t *extra,
                                   impmem__storage *out);

/* ---- sizes ---- */

typedef struct impmem__estimate {
    uint64_t bytes;
    uint64_t largest;   /* projection matrix, in stored units */
    uint64_t embedding; /* bytes of the input embedding */
    uint64_t output;    /* bytes of the output head, 0 when it is the embedding */
    uint64_t draft;     /* of `bytes`, multi-token-prediction layers */
} impmem__estimate;

/* From the geometry. A size beyond 64 bits is BAD_VALUE. */
impmem_status impmem__weights_estimate(impmem__reading *reading, const json_t *root, const json_t *text,
                                       const impmem__storage *storage, impmem__estimate *out);

/* What the files of a directory say of their tensors. */
typedef struct impmem__stated {
    uint64_t bytes;
    uint64_t tensors;
    uint64_t vision_tensors;
    uint64_t vision_bytes; /* 0 where only names are known, as from an index */
    uint64_t draft_tensors;
    uint32_t layers;    /* in: block `layers` and later ones predict further tokens */
    const char *format; /* NULL when they state nothing */
} impmem__stated;

/* Counts `name` among the tensors and its kind; `bytes` is 0 where unknown. */
void impmem__stated_name(impmem__stated *stated, const char *name, uint64_t bytes);

/* The index's total, or the safetensors headers. */
impmem_status impmem__weights_stated(const char *directory, impmem_error *why, impmem__stated *stated);

/* One safetensors header, added to `stated`. */
impmem_status impmem__safetensors_read(const char *path, impmem_error *why, impmem__stated *stated);
impmem_status impmem__safetensors_parse(impmem__source *source, const impmem__diag *diag, impmem__stated *stated);

/* ---- vision ---- */

/* vision_config into the shape's vision fields (but its bytes), with notes. *out_parameters is 0 without a tower, or
 * where its keys are not understood. */
impmem_status impmem__vision_read(impmem__reading *reading, const json_t *root, const json_t *text,
                                  uint64_t *out_parameters);

#endif
