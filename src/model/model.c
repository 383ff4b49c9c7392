/* The model object, and which reader a path gets. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/internal.h"
#include "model/internal.h"

void impmem__note(impmem_model *model, const char *fmt, ...)
{
    if (model->n_notes == IMPMEM__NOTES) {
        (void)snprintf(model->note[IMPMEM__NOTES - 1], IMPMEM__NOTE_BYTES, "more notes than are kept");
        return;
    }
    char *to = model->note[model->n_notes++];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(to, IMPMEM__NOTE_BYTES, fmt, args);
    va_end(args);
    for (char *c = to; *c; c++) {
        if ((unsigned char)*c < 0x20 || (unsigned char)*c > 0x7e) *c = '?';
    }
}

static void escape_into(char *to, size_t capacity, const char *from)
{
    static const char digit[] = "0123456789abcdef";
    size_t used = 0;
    for (const char *c = from; *c; c++) {
        unsigned char byte = (unsigned char)*c;
        bool plain = byte >= 0x20 && byte < 0x7f;
        if (used + (plain ? 1u : 4u) >= capacity) break;
        if (plain) {
            to[used++] = *c;
            continue;
        }
        to[used++] = '\\';
        to[used++] = 'x';
        to[used++] = digit[byte >> 4];
        to[used++] = digit[byte & 15u];
    }
    to[used] = '\0';
}

impmem_status impmem__refuse(const impmem__diag *diag, impmem_status status, uint64_t offset, const char *fmt, ...)
{
    if (!diag->why) return status;
    char raw[1024];
    char message[sizeof diag->why->message];
    va_list args;
    va_start(args, fmt);
    if (vsnprintf(raw, sizeof raw, fmt, args) < 0) raw[0] = '\0';
    va_end(args);
    escape_into(message, sizeof message, raw);
    /* The end of a long path says more than its beginning. */
    size_t length = strlen(diag->path);
    size_t room = sizeof diag->why->subject - 1;
    char subject[sizeof diag->why->subject];
    escape_into(subject, sizeof subject, length > room ? diag->path + (length - room) : diag->path);
    (void)impmem__error_set(diag->why, status, subject, "%s", message);
    impmem__error_offset(diag->why, offset);
    return status;
}

static bool ends_with(const char *text, const char *end)
{
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + (a - b), end) == 0;
}

typedef struct beginning {
    unsigned char first[64];
    uint64_t n;
} beginning;

static impmem_status read_beginning(impmem__source *source, const impmem__diag *diag, void *context)
{
    beginning *b = context;
    b->n = source->size < sizeof b->first ? source->size : sizeof b->first;
    return impmem__source_read(source, b->first, b->n, "the first bytes", diag);
}

/* The first bytes decide; the name only when they say nothing. */
static impmem_status read_file(const char *path, impmem_model *model, impmem_error *why)
{
    impmem__diag diag = {path, why};
    beginning begins = {.n = 0};
    impmem_status st = impmem__source_visit(&diag, read_beginning, &begins);
    if (st) return st;
    const unsigned char *first = begins.first;
    const uint64_t n = begins.n;
    if (n == 0)
        return impmem__refuse(&diag, IMPMEM_ERR_TRUNCATED, 0, "the file is empty: expected a GGUF file or a config.json");
    size_t at = 0;
    while (at < n && (first[at] == ' ' || first[at] == '\t' || first[at] == '\r' || first[at] == '\n')) at++;
    bool gguf = n >= 4 && (memcmp(first, "GGUF", 4) == 0 || memcmp(first, "FUGG", 4) == 0);
    if (gguf || ends_with(path, ".gguf")) return impmem__gguf_read(path, model, why);
    if (ends_with(path, ".safetensors")) {
        return impmem__refuse(&diag, IMPMEM_ERR_BAD_FORMAT, IMPMEM__NO_OFFSET,
                              "a safetensors file holds no geometry: expected the directory that has its config.json");
    }
    if (ends_with(path, ".json") || (at < n && first[at] == '{')) return impmem__hf_read_config(path, model, why);
    return impmem__refuse(&diag, IMPMEM_ERR_BAD_FORMAT, 0,
                          "found first bytes %02x %02x %02x %02x, expected \"GGUF\" or a JSON object", first[0], first[1],
                          first[2], first[3]);
}

impmem_status impmem_model_read(const char *path, impmem_model **out, impmem_error *why)
{
    if (!path || !out) {
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, path ? path : "", "%s is NULL", path ? "out" : "path");
    }
    impmem__diag diag = {path, why};
    struct stat info;
    if (stat(path, &info) != 0) { return impmem__refuse_errno(&diag, "can't be opened", errno); }
    impmem_model *model = impmem__take(sizeof *model);
    if (!model) return impmem__no_memory(&diag, "the model");
    model->shape.size = sizeof model->shape;
    model->shape.version = 1;
    impmem_status st = S_ISDIR(info.st_mode) ? impmem__hf_read_directory(path, model, why) : read_file(path, model, why);
    if (st) {
        impmem_model_destroy(model);
        return st;
    }
    *out = model;
    return IMPMEM_OK;
}

void impmem_model_destroy(impmem_model *model)
{
    impmem__give(model);
}

const impmem_model_shape *impmem_model_shape_of(const impmem_model *model)
{
    return model ? &model->shape : NULL;
}

const char *impmem_model_format(const impmem_model *model)
{
    return model && model->format ? model->format : "";
}

const char *impmem_model_note(const impmem_model *model, uint32_t index)
{
    return model && index < model->n_notes ? model->note[index] : NULL;
}
