/* The two ready-made text sinks. */
#include "impmem/write.h"

#include <stdio.h>
#include <string.h>

impmem_status impmem_write_file(void *context, const char *text, size_t n)
{
    if (!context || (!text && n)) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (n == 0) return IMPMEM_OK;
    return fwrite(text, 1, n, (FILE *)context) == n ? IMPMEM_OK : IMPMEM_ERR_IO;
}

impmem_status impmem_write_buffer(void *context, const char *text, size_t n)
{
    impmem_text_buffer *buffer = context;
    if (!buffer || !buffer->text || (!text && n)) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (buffer->length >= buffer->capacity) return IMPMEM_ERR_EXHAUSTED;
    size_t room = buffer->capacity - 1 - buffer->length;
    size_t fits = n < room ? n : room;
    if (fits) memcpy(buffer->text + buffer->length, text, fits);
    buffer->length += fits;
    buffer->text[buffer->length] = '\0';
    return fits == n ? IMPMEM_OK : IMPMEM_ERR_EXHAUSTED;
}
