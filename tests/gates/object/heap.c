/* Host memory past the caller's allocator, once in the open and once inside a library call. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

char *planted_heap(const char *text);

char *planted_heap(const char *text)
{
    free(malloc(64));
    return strdup(text);
}
