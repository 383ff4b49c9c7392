/* The only file of this folder that talks to the heap. */
#include <stdlib.h>

#include "model/internal.h"

void *impmem__take(uint64_t bytes)
{
    if (bytes > PTRDIFF_MAX) return NULL;
    return calloc(1, bytes ? (size_t)bytes : 1);
}

void *impmem__grow(void *memory, uint64_t bytes)
{
    if (bytes == 0 || bytes > PTRDIFF_MAX) return NULL;
    return realloc(memory, (size_t)bytes);
}

void impmem__give(void *memory)
{
    free(memory);
}

void impmem__give_system(void *memory)
{
    impmem__give(memory);
}
