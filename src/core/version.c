/* The version that the library was built from, against the one that a program was compiled with. */
#include "impmem/version.h"

const char *impmem_version(void)
{
    return IMPMEM_VERSION_STRING;
}
