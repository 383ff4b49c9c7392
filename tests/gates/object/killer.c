/* Ends the caller's process. */
#include <assert.h>
#include <stdlib.h>

void planted_killer(int code);

void planted_killer(int code)
{
    assert(code != 7);
    if (code > 1) abort();
    if (code > 0) exit(code);
}
