/* The table of cuBLASLt where the build has no CUDA toolkit. */
#include "cuda/cublaslt.h"

impmem_status impmem__blas_fill(impmem__blas *blas, impmem_error *why)
{
    (void)blas;
    return impmem__error_set(why, IMPMEM_ERR_UNSUPPORTED, "cuBLASLt", "this build has no CUDA part");
}

void impmem__blas_empty(impmem__blas *blas)
{
    (void)blas;
}
