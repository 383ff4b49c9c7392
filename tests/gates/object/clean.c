/* Nothing here may be reported: arithmetic, a constant table with addresses in it, a write to the caller's memory. */
#include <string.h>

const char *planted_name(unsigned index);
void planted_clear(void *memory, unsigned long bytes);

static const char *const names[] = {"one", "two"};

const char *planted_name(unsigned index)
{
    return names[index % 2u];
}

void planted_clear(void *memory, unsigned long bytes)
{
    memset(memory, 0, bytes);
}
