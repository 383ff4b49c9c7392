/* trace_read.c - the streaming reader of traces: lines of bounded length, the format told from the first of them, and the
 * order of the requests.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/internal.h"
#include "trace_format.h"

enum { FIRST_BUFFER_BYTES = 1 << 16 };

struct trace_reader {
    FILE *file;
    char *path;
    char *buffer; /* holds the bytes [start, filled) that were read and not yet used */
    size_t capacity;
    size_t start;
    size_t filled;
    bool at_end;  /* nothing is left to read into the buffer */
    bool pending; /* `line` holds a request's line that open looked at */
    trace_format format;
    trace_line line;
    uint64_t n_read;
    uint64_t first_ns;
    uint64_t last_ns;
    uint64_t next_own_id;
};

const char *trace_format_name(trace_format format)
{
    return format == TRACE_AZURE ? "azure" : "mooncake";
}

trace_format trace_reader_format(const trace_reader *reader)
{
    return reader->format;
}

impmem_status trace_refuse(const trace_line *line, impmem_error *why, impmem_status status, const char *fmt, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, fmt);
    int n = vsnprintf(text, sizeof text, fmt, arguments);
    va_end(arguments);
    if (n < 0) text[0] = '\0';
    char subject[sizeof why->subject];
    n = snprintf(subject, sizeof subject, "%s:%" PRIu64, line->path, line->number);
    if (n > 0 && (size_t)n < sizeof subject - 1) return impmem__error_set(why, status, subject, "%s", text);
    return impmem__error_set(why, status, line->path, "line %" PRIu64 ": %s", line->number, text);
}

static impmem_status refuse_memory(const trace_line *line, impmem_error *why)
{
    return trace_refuse(line, why, IMPMEM_ERR_OUT_OF_HOST_MEMORY, "out of host memory");
}

impmem_status trace_line_reserve(trace_line *line, uint64_t n, impmem_error *why)
{
    if (n <= line->ids_capacity) return IMPMEM_OK;
    uint64_t capacity = n + n / 2;
    if (capacity > SIZE_MAX / sizeof *line->ids) return refuse_memory(line, why);
    uint64_t *ids = realloc(line->ids, (size_t)capacity * sizeof *ids);
    if (!ids) return refuse_memory(line, why);
    line->ids = ids;
    line->ids_capacity = capacity;
    return IMPMEM_OK;
}

/* Makes room behind the unread bytes, then reads. */
static impmem_status fill(trace_reader *reader, impmem_error *why)
{
    if (reader->start > 0) {
        memmove(reader->buffer, reader->buffer + reader->start, reader->filled - reader->start);
        reader->filled -= reader->start;
        reader->start = 0;
    }
    if (reader->filled == reader->capacity) {
        if (reader->capacity >= TRACE_MAX_LINE_BYTES)
            return trace_refuse(&reader->line, why, IMPMEM_ERR_TOO_LARGE,
                                "found a line above %u bytes, expected a shorter one", TRACE_MAX_LINE_BYTES);
        size_t capacity = reader->capacity ? 2 * reader->capacity : FIRST_BUFFER_BYTES;
        char *buffer = realloc(reader->buffer, capacity);
        if (!buffer) return refuse_memory(&reader->line, why);
        reader->buffer = buffer;
        reader->capacity = capacity;
    }
    size_t n = fread(reader->buffer + reader->filled, 1, reader->capacity - reader->filled, reader->file);
    reader->filled += n;
    if (n == 0) {
        if (ferror(reader->file))
            return trace_refuse(&reader->line, why, IMPMEM_ERR_IO, "reading failed, expected a readable file");
        reader->at_end = true;
    }
    return IMPMEM_OK;
}

/* The next line that is not blank, without its end. */
static impmem_status next_line(trace_reader *reader, bool *out_more, impmem_error *why)
{
    trace_line *line = &reader->line;
    for (;;) {
        line->number++;
        size_t seen = 0;
        const char *newline = NULL;
        for (;;) {
            size_t unread = reader->filled - reader->start;
            if (unread > seen) newline = memchr(reader->buffer + reader->start + seen, '\n', unread - seen);
            if (newline || reader->at_end) break;
            seen = unread;
            impmem_status st = fill(reader, why);
            if (st) return st;
        }
        if (!newline && reader->filled == reader->start) {
            *out_more = false;
            return IMPMEM_OK;
        }
        line->text = reader->buffer + reader->start;
        line->bytes = newline ? (size_t)(newline - line->text) : reader->filled - reader->start;
        reader->start += line->bytes + (newline != NULL);
        if (line->number == 1 && line->bytes >= 3 && memcmp(line->text, "\xEF\xBB\xBF", 3) == 0) { /* byte order mark */
            line->text += 3;
            line->bytes -= 3;
        }
        while (line->bytes > 0 && strchr(" \t\r", line->text[line->bytes - 1]) && line->text[line->bytes - 1])
            line->bytes--;
        if (line->bytes > 0) break;
    }
    *out_more = true;
    return IMPMEM_OK;
}

/* Tells the format by the first line, and sees that there is a request. */
static impmem_status detect(trace_reader *reader, impmem_error *why)
{
    bool more = false;
    impmem_status st = next_line(reader, &more, why);
    if (!st && more && trace_is_azure_header(reader->line.text, reader->line.bytes)) {
        reader->format = TRACE_AZURE;
        st = next_line(reader, &more, why);
    } else if (!st && more && reader->line.text[0] != '{') {
        return trace_refuse(&reader->line, why, IMPMEM_ERR_BAD_FORMAT,
                            "found \"%.*s\", expected a JSON object of a Mooncake trace or the header \"" TRACE_AZURE_HEADER
                            "\" of an Azure trace",
                            TRACE_EXCERPT(reader->line.text, reader->line.bytes));
    }
    if (!st && !more)
        return trace_refuse(&reader->line, why, IMPMEM_ERR_TRUNCATED,
                            "found the end of the file, expected a request of a Mooncake or Azure trace");
    reader->pending = !st;
    return st;
}

impmem_status trace_reader_open(const char *path, uint32_t block_tokens, trace_reader **out, impmem_error *why)
{
    trace_reader *reader = calloc(1, sizeof *reader);
    if (!reader) return impmem__error_set(why, IMPMEM_ERR_OUT_OF_HOST_MEMORY, path, "out of host memory");
    impmem_status st = IMPMEM_OK;
    reader->format = TRACE_MOONCAKE;
    reader->line.block_tokens = block_tokens ? block_tokens : TRACE_DEFAULT_BLOCK_TOKENS;
    reader->path = malloc(strlen(path) + 1);
    if (reader->path) {
        memcpy(reader->path, path, strlen(path) + 1);
        reader->line.path = reader->path;
        reader->file = fopen(path, "rb");
        if (!reader->file)
            st = impmem__error_set(why, IMPMEM_ERR_IO, path, "can't be opened for reading: %s", strerror(errno));
    } else {
        st = impmem__error_set(why, IMPMEM_ERR_OUT_OF_HOST_MEMORY, path, "out of host memory");
    }
    if (!st) st = detect(reader, why);
    if (st) {
        trace_reader_close(reader);
        return st;
    }
    *out = reader;
    return IMPMEM_OK;
}

/* An Azure prompt: every block a text of its own, counted through the file. */
static impmem_status make_own_ids(trace_reader *reader, impmem_error *why)
{
    trace_line *line = &reader->line;
    line->n_ids = line->input_tokens / line->block_tokens + (line->input_tokens % line->block_tokens != 0);
    impmem_status st = trace_line_reserve(line, line->n_ids, why);
    if (st) return st;
    for (uint32_t i = 0; i < line->n_ids; i++) line->ids[i] = TRACE_OWN_ID | reader->next_own_id++;
    return IMPMEM_OK;
}

impmem_status trace_reader_next(trace_reader *reader, trace_record *out, bool *out_more, impmem_error *why)
{
    trace_line *line = &reader->line;
    bool more = true;
    impmem_status st = IMPMEM_OK;
    if (!reader->pending) st = next_line(reader, &more, why);
    reader->pending = false;
    if (st) return st;
    if (!more) {
        *out_more = false;
        return IMPMEM_OK;
    }
    st = reader->format == TRACE_AZURE ? trace_parse_azure(line, why) : trace_parse_mooncake(line, why);
    if (!st && reader->format == TRACE_AZURE) st = make_own_ids(reader, why);
    if (st) return st;
    if (reader->n_read > 0 && line->time_ns < reader->last_ns)
        return trace_refuse(line, why, IMPMEM_ERR_BAD_VALUE,
                            "%s: found a time %" PRIu64
                            " ns before the previous request's, expected requests in order of time",
                            reader->format == TRACE_AZURE ? "TIMESTAMP" : "timestamp", reader->last_ns - line->time_ns);
    if (reader->n_read++ == 0 && reader->format == TRACE_AZURE) reader->first_ns = line->time_ns;
    reader->last_ns = line->time_ns;
    out->time_ns = line->time_ns - reader->first_ns;
    out->input_tokens = line->input_tokens;
    out->output_tokens = line->output_tokens;
    out->ids = line->ids;
    out->n_ids = line->n_ids;
    *out_more = true;
    return IMPMEM_OK;
}

void trace_reader_close(trace_reader *reader)
{
    if (!reader) return;
    /* Only read from: there is nothing that closing could lose. */
    if (reader->file) (void)fclose(reader->file);
    free(reader->line.ids);
    free(reader->buffer);
    free(reader->path);
    free(reader);
}
