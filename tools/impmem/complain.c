/* complain.c - errors are one line on standard error, whatever a path, a flag or a file's text holds. */
#include "command.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 4096 };

static void complain_va(const char *fmt, va_list arguments)
{
    char text[LINE_BYTES];
    int n = vsnprintf(text, sizeof text, fmt, arguments);
    if (n < 0) text[0] = '\0';
    char line[4 * LINE_BYTES + 16];
    size_t used = (size_t)snprintf(line, sizeof line, "impmem: ");
    for (const char *c = text; *c; c++) {
        unsigned char byte = (unsigned char)*c;
        if (byte < 0x20 || byte == 0x7f) used += (size_t)snprintf(line + used, sizeof line - used, "\\x%02x", byte);
        else line[used++] = *c;
    }
    line[used++] = '\n';
    /* One write, so that two commands in one pipeline don't mix their lines. Nobody is left to tell when it fails. */
    size_t written = fwrite(line, 1, used, stderr);
    (void)written;
}

void command_complain(const char *fmt, ...)
{
    va_list arguments;
    va_start(arguments, fmt);
    complain_va(fmt, arguments);
    va_end(arguments);
}

_Noreturn void command_bad_usage(const char *fmt, ...)
{
    va_list arguments;
    va_start(arguments, fmt);
    complain_va(fmt, arguments);
    va_end(arguments);
    exit(COMMAND_USAGE);
}

void command_complain_file(const char *path, const impmem_error *why)
{
    /* The subject may name a sibling of `path` that was at fault; a subject that was cut to its field names no file at all. */
    bool whole = why->subject[0] != '\0' && strlen(why->subject) < sizeof why->subject - 1;
    const char *message = why->message[0] ? why->message : impmem_status_message(why->status);
    command_complain("%s: %s%s%s", whole ? why->subject : path, message, why->hint[0] ? "; " : "", why->hint);
}

int command_finish_output(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    command_complain("standard output: writing failed, the answer is incomplete");
    return COMMAND_FILE;
}

int command_finish_answer(impmem_status written, int code)
{
    if (!written) return command_finish_output(code);
    command_complain("standard output: %s, the answer is incomplete", impmem_status_message(written));
    return COMMAND_FILE;
}
