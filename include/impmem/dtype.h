/* impmem/dtype.h - element types of KV caches and weights, and what a row of them takes. Floor 1, src/plan/dtype.c.
 * Pure; any thread.
 *
 *   uint64_t bytes;
 *   impmem_dtype_row_bytes(IMPMEM_DTYPE_Q8_0, 128, &bytes);    128 elements: 4 blocks of 34 bytes = 136
 */
#ifndef IMPMEM_DTYPE_H
#define IMPMEM_DTYPE_H

#include <stdint.h>

#include "impmem/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, text, block_elements, block_bytes, scale_bytes_per_head_token)
 * A row of n elements takes n / block_elements * block_bytes, plus scale bytes once for each head and token when used as
 * KV. INT8 and INT4 keep one fp16 scale per head and token; NVFP4 and MXFP4 carry one byte for each 16 or 32 elements in
 * the block; FP8 keeps its scale per layer elsewhere. The GGML types are llama.cpp's cache types. */
#define IMPMEM_DTYPE_MAP(X)                                                                                                \
    X(F16, 1, "f16", 1, 2, 0)                                                                                              \
    X(BF16, 2, "bf16", 1, 2, 0)                                                                                            \
    X(F32, 3, "f32", 1, 4, 0)                                                                                              \
    X(FP8_E4M3, 4, "fp8", 1, 1, 0)                                                                                         \
    X(FP8_E5M2, 5, "fp8_e5m2", 1, 1, 0)                                                                                    \
    X(INT8, 6, "int8", 1, 1, 2)                                                                                            \
    X(INT4, 7, "int4", 2, 1, 2)                                                                                            \
    X(NVFP4, 8, "nvfp4", 16, 9, 0)                                                                                         \
    X(MXFP4, 9, "mxfp4", 32, 17, 0)                                                                                        \
    X(Q8_0, 10, "q8_0", 32, 34, 0)                                                                                         \
    X(Q5_1, 11, "q5_1", 32, 24, 0)                                                                                         \
    X(Q5_0, 12, "q5_0", 32, 22, 0)                                                                                         \
    X(Q4_1, 13, "q4_1", 32, 20, 0)                                                                                         \
    X(Q4_0, 14, "q4_0", 32, 18, 0)                                                                                         \
    X(IQ4_NL, 15, "iq4_nl", 32, 18, 0)

typedef enum impmem_dtype {
    IMPMEM_DTYPE_DEFAULT = 0, /* f16 where a KV dtype is asked */
#define IMPMEM_DTYPE_ENUM(name, value, text, elements, bytes, scale) IMPMEM_DTYPE_##name = value,
    IMPMEM_DTYPE_MAP(IMPMEM_DTYPE_ENUM)
#undef IMPMEM_DTYPE_ENUM
        IMPMEM_N_DTYPES = 16
} impmem_dtype;

const char *impmem_dtype_name(impmem_dtype dtype); /* "?" when out of range */
/* Accepts the names of the table, "fp16", "e4m3", "fp8_e4m3", "e5m2"; case-insensitive. BAD_VALUE. */
IMPMEM_NODISCARD impmem_status impmem_dtype_parse(const char *text, impmem_dtype *out);
/* BAD_VALUE when `elements` is no multiple of the type's block; OVERFLOW. */
IMPMEM_NODISCARD impmem_status impmem_dtype_row_bytes(impmem_dtype dtype, uint64_t elements, uint64_t *out_bytes);
uint32_t impmem_dtype_scale_bytes(impmem_dtype dtype); /* per head and token */

#ifdef __cplusplus
}
#endif
#endif
