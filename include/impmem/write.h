/* impmem/write.h - where text goes: every report, dump and JSON of the library is written through one callback.
 * Floor 0, implemented by src/core/write.c.
 *
 *   impmem_status st = impmem_plan_write(&plan, impmem_write_file, stdout);
 */
#ifndef IMPMEM_WRITE_H
#define IMPMEM_WRITE_H

#include <stddef.h>

#include "impmem/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Takes `n` bytes of UTF-8 text; returns IMPMEM_OK or the error that the writing function then hands on. */
typedef impmem_status (*impmem_write_fn)(void *context, const char *text, size_t n);

/* `context` is a FILE *. A short write is IMPMEM_ERR_IO. */
IMPMEM_NODISCARD impmem_status impmem_write_file(void *context, const char *text, size_t n);

/* Collects text in caller memory: always terminated; a text that is too long is IMPMEM_ERR_EXHAUSTED and leaves what
 * fit. */
typedef struct impmem_text_buffer {
    char *text;
    size_t capacity; /* bytes, including the terminator */
    size_t length;   /* bytes written, without the terminator */
} impmem_text_buffer;

/* `context` is an impmem_text_buffer *. */
IMPMEM_NODISCARD impmem_status impmem_write_buffer(void *context, const char *text, size_t n);

#ifdef __cplusplus
}
#endif
#endif
