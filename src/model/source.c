/* Bytes of a regular file, front to back through one buffer, never more than asked; or bytes in memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/internal.h"

impmem_status impmem__refuse_errno(const impmem__diag *diag, const char *what, int code)
{
    char text[128];
    return impmem__refuse(diag, IMPMEM_ERR_IO, IMPMEM__NO_OFFSET, "%s: %s", what, strerror_r(code, text, sizeof text));
}

impmem_status impmem__source_open(impmem__source *source, const impmem__diag *diag)
{
    source->fd = -1;
    source->memory = NULL;
    source->size = source->pos = source->buffer_at = 0;
    source->buffer_bytes = 0;
    /* Non-blocking, or opening a FIFO would wait for a writer. */
    int fd = open(diag->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return impmem__refuse_errno(diag, "can't be opened", errno);
    struct stat info;
    if (fstat(fd, &info) != 0) {
        int code = errno;
        (void)close(fd);
        return impmem__refuse_errno(diag, "can't be looked at", code);
    }
    if (!S_ISREG(info.st_mode)) {
        (void)close(fd);
        const char *what = S_ISDIR(info.st_mode)    ? "a directory"
                           : S_ISFIFO(info.st_mode) ? "a FIFO"
                           : S_ISCHR(info.st_mode)  ? "a character device"
                                                    : "no regular file";
        return impmem__refuse(diag, IMPMEM_ERR_IO, IMPMEM__NO_OFFSET, "is %s, expected a regular file", what);
    }
    source->fd = fd;
    source->size = (uint64_t)info.st_size;
    return IMPMEM_OK;
}

void impmem__source_memory(impmem__source *source, const void *bytes, uint64_t size)
{
    source->fd = -1;
    source->memory = bytes;
    source->size = size;
    source->pos = source->buffer_at = 0;
    source->buffer_bytes = 0;
}

void impmem__source_close(impmem__source *source)
{
    if (source->fd >= 0) (void)close(source->fd);
    source->fd = -1;
}

uint64_t impmem__source_left(const impmem__source *source)
{
    return source->size - source->pos;
}

static impmem_status truncated(const impmem__source *source, uint64_t bytes, const char *what, const impmem__diag *diag)
{
    return impmem__refuse(diag, IMPMEM_ERR_TRUNCATED, source->pos,
                          "the file ends inside %s at byte %" PRIu64 ": found %" PRIu64 " bytes, expected %" PRIu64, what,
                          source->pos, impmem__source_left(source), bytes);
}

static impmem_status refill(impmem__source *source, const impmem__diag *diag)
{
    for (;;) {
        ssize_t n = pread(source->fd, source->buffer, sizeof source->buffer, (off_t)source->pos);
        if (n > 0) {
            source->buffer_at = source->pos;
            source->buffer_bytes = (uint32_t)n;
            return IMPMEM_OK;
        }
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return impmem__refuse_errno(diag, "reading failed", errno);
        return impmem__refuse(diag, IMPMEM_ERR_TRUNCATED, source->pos, "the file became shorter while it was read");
    }
}

impmem_status impmem__source_read(impmem__source *source, void *to, uint64_t bytes, const char *what,
                                  const impmem__diag *diag)
{
    if (bytes > impmem__source_left(source)) return truncated(source, bytes, what, diag);
    if (source->memory) {
        if (bytes) memcpy(to, source->memory + source->pos, (size_t)bytes);
        source->pos += bytes;
        return IMPMEM_OK;
    }
    unsigned char *at = to;
    while (bytes > 0) {
        uint64_t inside = source->pos - source->buffer_at;
        if (source->pos < source->buffer_at || inside >= source->buffer_bytes) {
            impmem_status st = refill(source, diag);
            if (st) return st;
            inside = 0;
        }
        uint64_t n = source->buffer_bytes - inside;
        if (n > bytes) n = bytes;
        memcpy(at, source->buffer + inside, (size_t)n);
        at += n;
        source->pos += n;
        bytes -= n;
    }
    return IMPMEM_OK;
}

impmem_status impmem__source_skip(impmem__source *source, uint64_t bytes, const char *what, const impmem__diag *diag)
{
    if (bytes > impmem__source_left(source)) return truncated(source, bytes, what, diag);
    source->pos += bytes;
    return IMPMEM_OK;
}

impmem_status impmem__source_visit(const impmem__diag *diag, impmem__source_fn visit, void *context)
{
    impmem__source *source = impmem__take(sizeof *source);
    if (!source) return impmem__no_memory(diag, "a buffer");
    impmem_status st = impmem__source_open(source, diag);
    if (!st) {
        st = visit(source, diag, context);
        impmem__source_close(source);
    }
    impmem__give(source);
    return st;
}

typedef struct slurped {
    uint64_t max_bytes, bytes;
    char *text; /* NULL: not taken */
} slurped;

static impmem_status slurp(impmem__source *source, const impmem__diag *diag, void *context)
{
    slurped *to = context;
    to->bytes = source->size;
    if (to->bytes > to->max_bytes)
        return impmem__refuse(diag, IMPMEM_ERR_TOO_LARGE, IMPMEM__NO_OFFSET,
                              "has %" PRIu64 " bytes, expected at most %" PRIu64, to->bytes, to->max_bytes);
    to->text = impmem__take(to->bytes + 1);
    if (!to->text) return impmem__no_memory(diag, "the file");
    return impmem__source_read(source, to->text, to->bytes, "the text", diag);
}

impmem_status impmem__slurp(const impmem__diag *diag, uint64_t max_bytes, char **out_text, uint64_t *out_bytes)
{
    slurped to = {.max_bytes = max_bytes};
    impmem_status st = impmem__source_visit(diag, slurp, &to);
    if (st || !to.text) {
        impmem__give(to.text);
        return st;
    }
    to.text[to.bytes] = '\0';
    *out_text = to.text;
    *out_bytes = to.bytes;
    return IMPMEM_OK;
}
