/* Filling in an impmem_error. Every function accepts a NULL error, so that callers need not ask. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/internal.h"

static void copy_text(char *to, size_t capacity, const char *from)
{
    size_t n = strlen(from);
    if (n >= capacity) n = capacity - 1;
    memcpy(to, from, n);
    to[n] = '\0';
}

static void format_text(char *to, size_t capacity, const char *fmt, va_list args) IMPMEM_PRINTF(3, 0);
static void format_text(char *to, size_t capacity, const char *fmt, va_list args)
{
    if (vsnprintf(to, capacity, fmt, args) < 0) copy_text(to, capacity, fmt);
}

impmem_status impmem__error_set(impmem_error *why, impmem_status status, const char *subject, const char *fmt, ...)
{
    if (!why) return status;
    impmem_error fresh = IMPMEM_ERROR_INIT;
    fresh.status = status;
    copy_text(fresh.subject, sizeof fresh.subject, subject ? subject : "");
    va_list args;
    va_start(args, fmt);
    format_text(fresh.message, sizeof fresh.message, fmt, args);
    va_end(args);
    *why = fresh;
    return status;
}

void impmem__error_bytes(impmem_error *why, uint64_t asked_bytes, uint64_t available_bytes)
{
    if (!why) return;
    why->asked_bytes = asked_bytes;
    why->available_bytes = available_bytes;
}

void impmem__error_line(impmem_error *why, uint32_t line)
{
    if (why) why->line = line;
}

void impmem__error_driver(impmem_error *why, int64_t driver_code)
{
    if (why) why->driver_code = driver_code;
}

void impmem__error_offset(impmem_error *why, uint64_t offset)
{
    if (why) why->offset = offset;
}

void impmem__error_hint(impmem_error *why, const char *fmt, ...)
{
    if (!why) return;
    va_list args;
    va_start(args, fmt);
    format_text(why->hint, sizeof why->hint, fmt, args);
    va_end(args);
}

impmem_status impmem__options_check(uint32_t size, uint32_t version, uint32_t known_size, uint32_t known_version)
{
    if (size == 0 && version == 0) return IMPMEM_OK;
    if (version > known_version) return IMPMEM_ERR_VERSION;
    if (version == 0 || size != known_size) return IMPMEM_ERR_INVALID_ARGUMENT;
    return IMPMEM_OK;
}
