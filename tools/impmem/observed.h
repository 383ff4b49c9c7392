/* observed.h - what an engine was measured to take, line by line, from a CSV or a JSON file. */
#ifndef IMPMEM_COMMAND_OBSERVED_H
#define IMPMEM_COMMAND_OBSERVED_H

#include "impmem/line.h"

enum { OBSERVED_MAX_LINES = 256 };

typedef struct observed_line {
    char name[IMPMEM_LINE_NAME_BYTES]; /* "" when only the id was given */
    impmem_line_id id;                 /* IMPMEM_NO_LINE when only the name was given */
    uint32_t row;                      /* of the file, from 1 */
    uint64_t bytes;
} observed_line;

typedef struct observed {
    uint32_t n;
    observed_line line[OBSERVED_MAX_LINES];
} observed;

/* COMMAND_DONE, or a complaint was made that names file, row and key. */
int observed_read(const char *path, observed *out);

#endif
