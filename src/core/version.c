/* version.c - the version that this archive was built as, which a program may compare with the headers that it saw. */
#include "impmem/version.h"

const char *impmem_version(void)
{
    return IMPMEM_VERSION_STRING;
}
