/* impmem/cublaslt.h - cuBLASLt with a workspace that was planned, and what that library reserves. Floor 2,
 * src/cuda/cublaslt*.c.
 *
 *   void *workspace; uint64_t bytes;
 *   TRY(impmem_cublaslt_take_workspace(take_from_my_arena, arena, planned_bytes, &workspace, &bytes));
 *   impmem_cublaslt_options o = IMPMEM_CUBLASLT_OPTIONS_INIT;
 *   o.workspace = workspace; o.workspace_bytes = bytes; o.max_m = 4096; o.max_n = 8192; o.max_k = 8192;
 *   impmem_cublaslt *lt;
 *   TRY(impmem_cublaslt_open(device, &o, &lt, &why));
 *   TRY(impmem_cublaslt_matmul(lt, &shape, a, b, c, stream, &why));
 *
 * libimpmem_cublaslt.a opens the library at run time: where it is missing, opening is IMPMEM_ERR_UNSUPPORTED. The workspace
 * is a pointer and a size from T2 (an arena of the engine's); one handle with one workspace serves a process and a stream.
 */
#ifndef IMPMEM_CUBLASLT_H
#define IMPMEM_CUBLASLT_H

#include "impmem/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct impmem_cublaslt impmem_cublaslt;

/* The planned maximum, then what is smaller of 64, 32, 8 and 2 MiB, in that order, until `take` gives it. `take` returns
 * EXHAUSTED or LINE_EXCEEDED for "not that much": the next rung is tried; any other error is returned. EXHAUSTED when no
 * rung fits. planned_bytes 0 = 64 MiB. `take` is your arena: impmem_arena_take_engine behind one cast. */
typedef impmem_status (*impmem_workspace_take_fn)(void *context, uint64_t bytes, void **out);
IMPMEM_NODISCARD impmem_status impmem_cublaslt_take_workspace(impmem_workspace_take_fn take, void *context,
                                                              uint64_t planned_bytes, void **out, uint64_t *out_bytes);

typedef struct impmem_cublaslt_options {
    uint32_t size;
    uint32_t version; /* 1 */
    void *workspace;  /* device memory, aligned to 256; NULL with 0 bytes = algorithms without one */
    uint64_t workspace_bytes;
    uint64_t max_m, max_n, max_k; /* planned shapes; 0 = no bound */
    impmem_line_id control_line;  /* 0 = IMPMEM_LINE_HOST_CONTROL */
} impmem_cublaslt_options;
#define IMPMEM_CUBLASLT_OPTIONS_INIT                                                                                       \
    {                                                                                                                      \
        sizeof(impmem_cublaslt_options), 1, NULL, 0, 0, 0, 0, 0                                                            \
    }

IMPMEM_NODISCARD impmem_status impmem_cublaslt_open(impmem_cuda_device *device, const impmem_cublaslt_options *options,
                                                    impmem_cublaslt **out, impmem_error *why);
void impmem_cublaslt_close(impmem_cublaslt *lt);             /* NULL is fine */
uint64_t impmem_cublaslt_version(const impmem_cublaslt *lt); /* 130100 = 13.1.0 */

/* c = a * b, all of half precision, column-major and dense, sums in single precision. */
typedef struct impmem_matmul_shape {
    uint64_t m, n, k; /* a: m x k, b: k x n, c: m x n */
} impmem_matmul_shape;
/* LINE_EXCEEDED: a shape beyond the planned one, and nothing is launched. UNSUPPORTED: no algorithm fits the workspace.
 * INVALID_ARGUMENT, DRIVER. */
IMPMEM_NODISCARD impmem_status impmem_cublaslt_matmul(impmem_cublaslt *lt, const impmem_matmul_shape *shape, const void *a,
                                                      const void *b, void *c, void *stream, impmem_error *why);

/* What the library and a first graph claim of the device, over the whole of their start: a handle, matmuls of the shapes
 * that a prefill and a decode of a mid-sized model use, and a captured graph of one that is launched. Needs 512 MiB for the
 * while, which are acquired and released here. `out_libraries` (at least 64 bytes, nullable) gets "cublasLt 13.1.0" for the
 * measure key. */
IMPMEM_NODISCARD impmem_status impmem_cublaslt_measure(impmem_cuda_device *device, uint64_t *out_library_bytes,
                                                       char *out_libraries, size_t out_libraries_bytes, impmem_error *why);

#ifdef __cplusplus
}
#endif
#endif
