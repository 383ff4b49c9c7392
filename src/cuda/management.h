/* cuda/management.h - the driver table's view of the management library; management_cuda.c opens it. */
#ifndef IMPMEM__CUDA_MANAGEMENT_H
#define IMPMEM__CUDA_MANAGEMENT_H

#include "cuda/driver.h"

enum { IMPMEM__MANAGEMENT_SYMBOL = 40 }; /* its symbols are from here on in the table */

/* Fills managed_memory if the library is there and answers. */
void impmem__management_fill(impmem__driver *driver);
void impmem__management_empty(impmem__driver *driver);

#endif
