/* impmem/bytes.h - checked 64-bit byte arithmetic, sizes in text. Floor 0, implemented by src/core/bytes.c.
 *
 *   uint64_t bytes;
 *   if (impmem_mul(&bytes, rows, columns) || impmem_align_up(&bytes, bytes, 256)) return IMPMEM_ERR_OVERFLOW;
 *
 * Overflow is an error, never a wrap. Any thread.
 */
#ifndef IMPMEM_BYTES_H
#define IMPMEM_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "impmem/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define IMPMEM_KIB ((uint64_t)1 << 10)
#define IMPMEM_MIB ((uint64_t)1 << 20)
#define IMPMEM_GIB ((uint64_t)1 << 30)

/* Each writes *out only on success and returns IMPMEM_ERR_OVERFLOW otherwise. */
static inline IMPMEM_NODISCARD impmem_status impmem_add(uint64_t *out, uint64_t a, uint64_t b)
{
    if (a > UINT64_MAX - b) return IMPMEM_ERR_OVERFLOW;
    *out = a + b;
    return IMPMEM_OK;
}

static inline IMPMEM_NODISCARD impmem_status impmem_sub(uint64_t *out, uint64_t a, uint64_t b)
{
    if (b > a) return IMPMEM_ERR_OVERFLOW;
    *out = a - b;
    return IMPMEM_OK;
}

static inline IMPMEM_NODISCARD impmem_status impmem_mul(uint64_t *out, uint64_t a, uint64_t b)
{
    if (a != 0 && b > UINT64_MAX / a) return IMPMEM_ERR_OVERFLOW;
    *out = a * b;
    return IMPMEM_OK;
}

/* Round `a` up to a multiple of `unit`; unit 0 is IMPMEM_ERR_INVALID_ARGUMENT. `unit` need not be a power of two. */
static inline IMPMEM_NODISCARD impmem_status impmem_align_up(uint64_t *out, uint64_t a, uint64_t unit)
{
    if (unit == 0) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint64_t rest = a % unit;
    return rest ? impmem_add(out, a, unit - rest) : impmem_add(out, a, 0);
}

/* ceil(a / b); b 0 is IMPMEM_ERR_INVALID_ARGUMENT. */
static inline IMPMEM_NODISCARD impmem_status impmem_div_up(uint64_t *out, uint64_t a, uint64_t b)
{
    if (b == 0) return IMPMEM_ERR_INVALID_ARGUMENT;
    *out = a / b + (a % b != 0);
    return IMPMEM_OK;
}

/* "24GiB", "512MiB", "1.5 GiB", "4096", "4096B", "300KiB"; binary units only ("24GB" is refused: ask for GiB).
 * Negative, empty, trailing text, not-a-number, and anything over 64 bits are IMPMEM_ERR_BAD_VALUE. A fraction needs a unit
 * above B and at most 18 digits; it is rounded down to whole bytes ("1.3KiB" is 1331). */
IMPMEM_NODISCARD impmem_status impmem_parse_bytes(const char *text, uint64_t *out_bytes);

/* "15467.4 MiB" with one decimal, rounded half up; returns `buffer`. 32 bytes are always enough; a smaller buffer gets
 * a truncated, terminated text. */
char *impmem_format_mib(uint64_t bytes, char *buffer, size_t buffer_bytes);

#ifdef __cplusplus
}
#endif
#endif
