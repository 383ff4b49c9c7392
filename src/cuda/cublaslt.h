/* cuda/cublaslt.h - what is asked of cuBLASLt, as a table: filled by cublaslt_cuda.c, or by a test. Codes: 0 is success. */
#ifndef IMPMEM__CUDA_CUBLASLT_H
#define IMPMEM__CUDA_CUBLASLT_H

#include "cuda/internal.h"
#include "impmem/cublaslt.h"

enum { IMPMEM__BLAS_NO_ALGORITHM = 15 };

typedef struct impmem__blas impmem__blas;
struct impmem__blas {
    int (*create)(impmem__blas *b, void **out);
    int (*destroy)(impmem__blas *b, void *handle);
    int (*matmul)(impmem__blas *b, void *handle, const impmem_matmul_shape *shape, const void *x, const void *y, void *z,
                  void *workspace, uint64_t workspace_bytes, void *stream);
    uint64_t (*version)(impmem__blas *b);
    void *library;            /* the filler's own */
    void (*symbol[16])(void); /* the filler's own */
};

/* UNSUPPORTED where the library is not there. */
impmem_status impmem__blas_fill(impmem__blas *blas, impmem_error *why);
void impmem__blas_empty(impmem__blas *blas);

impmem_status impmem__cublaslt_open(impmem_cuda_device *device, const impmem_cublaslt_options *options,
                                    const impmem__blas *table, impmem_cublaslt **out, impmem_error *why);
impmem_status impmem__cublaslt_measure(impmem_cuda_device *device, const impmem__blas *table, uint64_t *out_library_bytes,
                                       char *out_libraries, size_t out_libraries_bytes, impmem_error *why);

#endif
