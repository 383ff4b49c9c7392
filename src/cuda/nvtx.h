/* cuda/nvtx.h - the annotations of the driver table; nvtx_cuda.c has the headers that they need. */
#ifndef IMPMEM__CUDA_NVTX_H
#define IMPMEM__CUDA_NVTX_H

#include "cuda/driver.h"

/* Fills nvtx_heap, nvtx_heap_end, nvtx_take and nvtx_drop; leaves them out where the headers know no memory annotations. */
void impmem__nvtx_fill(impmem__driver *driver);

#endif
