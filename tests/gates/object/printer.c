/* Writes where the caller did not ask. */
#include <stdio.h>

void planted_printer(int code);

void planted_printer(int code)
{
    printf("%d\n", code);
    fprintf(stderr, "%d\n", code);
}
