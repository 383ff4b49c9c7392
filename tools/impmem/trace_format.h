/* trace_format.h - what trace_read.c and the parsers of the two formats share. */
#ifndef IMPMEM_COMMAND_TRACE_FORMAT_H
#define IMPMEM_COMMAND_TRACE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace.h"

/* Where a request's fields land while its line is read. */
typedef struct trace_line {
    const char *path;
    uint64_t number; /* from 1 */
    const char *text;
    size_t bytes;          /* without the line's end */
    uint32_t block_tokens; /* > 0 */
    uint64_t time_ns;      /* Azure: since 1970 */
    uint32_t input_tokens;
    uint32_t output_tokens;
    uint64_t *ids; /* grown as needed, kept from line to line */
    uint64_t ids_capacity;
    uint32_t n_ids;
} trace_line;

/* Fills `why` with FILE:LINE as its subject; a path that is too long for that is left to the caller and the line is named
 * in the message. */
impmem_status trace_refuse(const trace_line *line, impmem_error *why, impmem_status status, const char *fmt, ...)
    IMPMEM_PRINTF(4, 5);

/* Room for n ids. */
IMPMEM_NODISCARD impmem_status trace_line_reserve(trace_line *line, uint64_t n, impmem_error *why);

/* A file's text in a message: at most this many bytes of it. */
enum { TRACE_EXCERPT_BYTES = 40 };
#define TRACE_EXCERPT(text, bytes) (int)((bytes) < TRACE_EXCERPT_BYTES ? (bytes) : TRACE_EXCERPT_BYTES), (text)

IMPMEM_NODISCARD impmem_status trace_parse_mooncake(trace_line *line, impmem_error *why);

bool trace_is_azure_header(const char *text, size_t bytes);
/* Ids are left alone: the reader makes them. */
IMPMEM_NODISCARD impmem_status trace_parse_azure(trace_line *line, impmem_error *why);

#define TRACE_AZURE_HEADER "TIMESTAMP,ContextTokens,GeneratedTokens"

#endif
