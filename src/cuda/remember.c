/* Measurements in a file: a header line, then one line a key. Small enough to be read whole; replaced as a whole.
 *
 *     impmem-measured 1
 *     CONTEXT_BYTES <tab> LIBRARY_BYTES <tab> DEVICE <tab> DRIVER <tab> RUNTIME <tab> LIBRARIES <tab> MODEL
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/internal.h"

#define HEADER "impmem-measured 1"
enum { KEY_BYTES = 320, LINE_BYTES = KEY_BYTES + 64, PATH_BYTES = 4096, FIELDS = 5 };

static bool clean(const char *text, size_t room)
{
    for (size_t i = 0; i < room; i++) {
        if (text[i] == '\0') return true;
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) return false;
    }
    return false; /* no end */
}

static impmem_status write_key(const impmem_cuda_measure_key *key, char out[KEY_BYTES], impmem_error *why)
{
    if (!clean(key->device, sizeof key->device) || !clean(key->driver, sizeof key->driver) ||
        !clean(key->runtime, sizeof key->runtime) || !clean(key->libraries, sizeof key->libraries) ||
        !clean(key->model, sizeof key->model))
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "measurement key",
                                 "a part holds control characters or has no end");
    (void)snprintf(out, KEY_BYTES, "%s\t%s\t%s\t%s\t%s", key->device, key->driver, key->runtime, key->libraries,
                   key->model);
    return IMPMEM_OK;
}

/* One line of the file, without its end. The key part is left in place. */
static bool parse_line(char *line, impmem_cuda_measured *out, const char **out_key)
{
    char *end = NULL;
    errno = 0;
    if (line[0] < '0' || line[0] > '9') return false;
    out->context_bytes = strtoull(line, &end, 10);
    if (errno || *end != '\t' || end[1] < '0' || end[1] > '9') return false;
    out->library_bytes = strtoull(end + 1, &end, 10);
    if (errno || *end != '\t') return false;
    *out_key = end + 1;
    int tabs = 0;
    for (const char *c = *out_key; *c; c++) tabs += *c == '\t';
    return tabs == FIELDS - 1;
}

/* Takes each line behind the header: its measurement, its key. */
typedef impmem_status (*line_fn)(void *context, const impmem_cuda_measured *measured, const char *key);

static impmem_status bad_line(impmem_error *why, const char *path, unsigned number, const char *expected)
{
    return impmem__error_set(why, IMPMEM_ERR_BAD_FORMAT, path, "line %u: expected %s", number, expected);
}

static impmem_status each_line(FILE *file, const char *path, line_fn take, void *context, impmem_error *why)
{
    char line[LINE_BYTES];
    impmem_status st = IMPMEM_OK;
    for (unsigned number = 1; !st && fgets(line, sizeof line, file); number++) {
        size_t n = strlen(line);
        if (n == 0 || line[n - 1] != '\n') return bad_line(why, path, number, "a line of at most 380 bytes that ends");
        line[n - 1] = '\0';
        impmem_cuda_measured measured = {0, 0};
        const char *key = NULL;
        if (number == 1) {
            if (strcmp(line, HEADER) != 0) return bad_line(why, path, number, HEADER);
        } else if (!parse_line(line, &measured, &key)) {
            return bad_line(why, path, number, "two numbers of bytes and five texts, with tabs between");
        } else {
            st = take(context, &measured, key);
        }
    }
    if (!st && ferror(file)) st = impmem__error_set(why, IMPMEM_ERR_IO, path, "reading failed: error %d", errno);
    return st;
}

/* ---- reading --------------------------------------------------------------------------------------------------------- */

typedef struct search {
    const char *key;
    impmem_cuda_measured found;
    bool is_found;
} search;

static impmem_status look_at(void *context, const impmem_cuda_measured *measured, const char *key)
{
    search *s = context;
    if (strcmp(key, s->key) == 0) {
        s->found = *measured;
        s->is_found = true;
    }
    return IMPMEM_OK;
}

impmem_status impmem_cuda_recall(const char *path, const impmem_cuda_measure_key *key, impmem_cuda_measured *out,
                                 impmem_error *why)
{
    char text[KEY_BYTES];
    if (!path || !key || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "recall", "no path, no key or no place for the result");
    impmem_status st = write_key(key, text, why);
    if (st) return st;
    FILE *file = fopen(path, "re");
    if (!file) {
        st = errno == ENOENT ? IMPMEM_ERR_NOT_FOUND : IMPMEM_ERR_IO;
        return impmem__error_set(why, st, path, "opening for reading failed: error %d", errno);
    }
    search s = {text, {0, 0}, false};
    st = each_line(file, path, look_at, &s, why);
    (void)fclose(file);
    if (st) return st;
    if (!s.is_found)
        return impmem__error_set(why, IMPMEM_ERR_NOT_FOUND, path, "no measurement of this device, driver and model");
    *out = s.found;
    return IMPMEM_OK;
}

/* ---- writing --------------------------------------------------------------------------------------------------------- */

typedef struct rewrite {
    FILE *out;
    const char *key;
} rewrite;

static impmem_status put_line(FILE *out, const impmem_cuda_measured *m, const char *key)
{
    int n = fprintf(out, "%" PRIu64 "\t%" PRIu64 "\t%s\n", m->context_bytes, m->library_bytes, key);
    return n < 0 ? IMPMEM_ERR_IO : IMPMEM_OK;
}

static impmem_status copy_other(void *context, const impmem_cuda_measured *measured, const char *key)
{
    const rewrite *r = context;
    return strcmp(key, r->key) == 0 ? IMPMEM_OK : put_line(r->out, measured, key);
}

static impmem_status copy_old_file(const char *path, rewrite *r, impmem_error *why)
{
    FILE *old = fopen(path, "re");
    if (!old) {
        if (errno == ENOENT) return IMPMEM_OK;
        return impmem__error_set(why, IMPMEM_ERR_IO, path, "opening for reading failed: error %d", errno);
    }
    impmem_status st = each_line(old, path, copy_other, r, why);
    (void)fclose(old);
    return st;
}

/* Everything into the new file, and onto the disk, before it takes the old one's name. */
static impmem_status write_new_file(const char *path, FILE *file, const char *key, const impmem_cuda_measured *measured,
                                    impmem_error *why)
{
    rewrite r = {file, key};
    bool good = fputs(HEADER "\n", file) >= 0;
    impmem_status st = copy_old_file(path, &r, why);
    if (st && st != IMPMEM_ERR_IO) return st;
    if (!st) st = put_line(file, measured, key);
    good = good && !st && fflush(file) == 0 && fsync(fileno(file)) == 0;
    return good ? IMPMEM_OK : impmem__error_set(why, IMPMEM_ERR_IO, path, "writing a new version failed: error %d", errno);
}

impmem_status impmem_cuda_remember(const char *path, const impmem_cuda_measure_key *key,
                                   const impmem_cuda_measured *measured, impmem_error *why)
{
    char text[KEY_BYTES], temporary[PATH_BYTES];
    if (!path || !key || !measured)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "remember", "no path, no key or no measurement");
    impmem_status st = write_key(key, text, why);
    if (st) return st;
    int n = snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    if (n < 0 || (size_t)n >= sizeof temporary)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "remember", "the path is too long");
    int descriptor = mkostemp(temporary, O_CLOEXEC);
    if (descriptor < 0)
        return impmem__error_set(why, IMPMEM_ERR_IO, path, "creating a new version beside it failed: error %d", errno);
    FILE *file = fdopen(descriptor, "w");
    if (!file) {
        st = impmem__error_set(why, IMPMEM_ERR_IO, path, "opening a new version failed: error %d", errno);
        (void)close(descriptor);
    } else {
        st = write_new_file(path, file, text, measured, why);
        if (fclose(file) != 0 && !st)
            st = impmem__error_set(why, IMPMEM_ERR_IO, path, "closing a new version failed: error %d", errno);
    }
    if (!st && rename(temporary, path) != 0)
        st = impmem__error_set(why, IMPMEM_ERR_IO, path, "replacing the old version failed: error %d", errno);
    if (st) (void)unlink(temporary);
    return st;
}
