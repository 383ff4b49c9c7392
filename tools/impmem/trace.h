/* trace.h - request traces: Mooncake JSONL (prompts as numbered blocks, so that sharing is seen) and Azure CSV (lengths
 * only).
 *
 *   trace t;
 *   impmem_error why = IMPMEM_ERROR_INIT;
 *   if (trace_load("conversation.jsonl", 0, &t, &why)) ... ;
 *   for (uint64_t r = 0; r < t.n_requests; r++) use(t.ids + t.requests[r].first_id, t.requests[r].n_ids);
 *   trace_free(&t);
 *
 * The format is told by the content, not by the name. A reader streams: it holds one line and one request. A malformed file
 * is an error whose subject is FILE:LINE and whose message names the key, what was found and what was expected.
 */
#ifndef IMPMEM_COMMAND_TRACE_H
#define IMPMEM_COMMAND_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "impmem/status.h"

#define TRACE_DEFAULT_BLOCK_TOKENS 512u
#define TRACE_MAX_LINE_BYTES (16u << 20)

/* Ids with the top bit set are made here, for text that no other prompt has; a file's own ids are below 2^63. */
#define TRACE_OWN_ID (UINT64_C(1) << 63)

typedef enum trace_format {
    TRACE_MOONCAKE, /* one JSON object a line; two prompts that begin with the same ids begin with the same text */
    TRACE_AZURE     /* CSV of lengths; every block gets an id of its own, so nothing is shared */
} trace_format;

const char *trace_format_name(trace_format format);

typedef struct trace_record {
    uint64_t time_ns; /* Mooncake: as in the file; Azure: since the first request. Never before the previous request's */
    uint32_t input_tokens;
    uint32_t output_tokens;
    /* The prompt's blocks. The last id may stand for a partial block (the remainder of the prompt), or the remainder may
     * have no id at all: files do either. */
    const uint64_t *ids; /* the reader's; valid until its next call */
    uint32_t n_ids;
} trace_record;

typedef struct trace_reader trace_reader;

/* `block_tokens` 0 is TRACE_DEFAULT_BLOCK_TOKENS. A file without a request is an error. */
IMPMEM_NODISCARD impmem_status trace_reader_open(const char *path, uint32_t block_tokens, trace_reader **out,
                                                 impmem_error *why);
/* The next request, or *out_more false at the end of the file. After an error only close may follow. */
IMPMEM_NODISCARD impmem_status trace_reader_next(trace_reader *reader, trace_record *out, bool *out_more,
                                                 impmem_error *why);
trace_format trace_reader_format(const trace_reader *reader);
void trace_reader_close(trace_reader *reader); /* NULL is fine */

typedef struct trace_request {
    uint64_t time_ns;
    uint64_t first_id; /* index into trace.ids */
    uint32_t n_ids;
    uint32_t input_tokens;
    uint32_t output_tokens;
} trace_request;

typedef struct trace {
    trace_format format;
    uint32_t block_tokens;
    uint64_t n_requests;
    uint64_t n_ids;
    uint64_t input_tokens;  /* of all requests */
    uint64_t output_tokens; /* of all requests */
    trace_request *requests;
    uint64_t *ids;
} trace;

IMPMEM_NODISCARD impmem_status trace_load(const char *path, uint32_t block_tokens, trace *out, impmem_error *why);
void trace_free(trace *t); /* leaves it zeroed; a zeroed one is fine */

/* Token j of the block with this id. A block's first two tokens are the id itself, low half first, so blocks of two tokens
 * and more are equal exactly when their ids are; the tokens after them are a hash of (id, j). */
uint32_t trace_block_token(uint64_t id, uint32_t j);

/* Writes the first n tokens of request `request`'s prompt; n is at most its input_tokens. Tokens beyond the last id are the
 * request's own. */
void trace_prompt_tokens(const trace *t, uint64_t request, uint32_t *out, uint32_t n);

#endif
