/* Sizes in text: parsing and formatting. The checked arithmetic itself is inline in the header. */
#include "impmem/bytes.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* A decimal fraction: value = numerator / denominator, denominator = 10^digits. */
typedef struct fraction {
    uint64_t numerator;
    uint64_t denominator;
    bool present;
} fraction;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Consumes digits. OVERFLOW when they do not fit 64 bits; BAD_VALUE when there are none. */
static impmem_status parse_digits(const char **text, uint64_t *out)
{
    if (!is_digit(**text)) return IMPMEM_ERR_BAD_VALUE;
    uint64_t value = 0;
    for (; is_digit(**text); (*text)++) {
        if (impmem_mul(&value, value, 10) || impmem_add(&value, value, (uint64_t)(**text - '0')))
            return IMPMEM_ERR_OVERFLOW;
    }
    *out = value;
    return IMPMEM_OK;
}

/* Consumes ".digits" when it is there. At most 18 significant digits: the denominator then stays below 2^63, so that
 * doubling the numerator in scale_fraction cannot wrap. */
static impmem_status parse_fraction(const char **text, fraction *out)
{
    fraction f = {0, 1, false};
    if (**text == '.') {
        const char *first = ++(*text);
        while (is_digit(**text)) (*text)++;
        size_t n = (size_t)(*text - first);
        if (n == 0) return IMPMEM_ERR_BAD_VALUE;
        while (n > 0 && first[n - 1] == '0') n--;
        if (n > 18) return IMPMEM_ERR_BAD_VALUE;
        for (size_t i = 0; i < n; i++) {
            f.numerator = f.numerator * 10 + (uint64_t)(first[i] - '0');
            f.denominator *= 10;
        }
        f.present = true;
    }
    *out = f;
    return IMPMEM_OK;
}

/* floor(fraction * 2^shift), exact: one binary digit of the quotient at a time. */
static uint64_t scale_fraction(fraction f, unsigned shift)
{
    uint64_t result = 0;
    for (unsigned i = 0; i < shift; i++) {
        f.numerator *= 2;
        result *= 2;
        if (f.numerator >= f.denominator) {
            f.numerator -= f.denominator;
            result++;
        }
    }
    return result;
}

static bool parse_unit(const char *text, unsigned *out_shift)
{
    static const struct {
        const char *name;
        unsigned shift;
    } units[] = {{"", 0}, {"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}, {"PiB", 50}, {"EiB", 60}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(text, units[i].name) == 0) {
            *out_shift = units[i].shift;
            return true;
        }
    }
    return false;
}

impmem_status impmem_parse_bytes(const char *text, uint64_t *out_bytes)
{
    if (!text || !out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint64_t whole = 0;
    fraction part;
    unsigned shift = 0;
    while (*text == ' ') text++;
    if (parse_digits(&text, &whole) || parse_fraction(&text, &part)) return IMPMEM_ERR_BAD_VALUE;
    const char *after_number = text;
    while (*text == ' ') text++;
    if (!parse_unit(text, &shift)) return IMPMEM_ERR_BAD_VALUE;
    if (*text == '\0' && text != after_number) return IMPMEM_ERR_BAD_VALUE;
    if (part.present && shift == 0) return IMPMEM_ERR_BAD_VALUE;
    uint64_t bytes = 0;
    if (impmem_mul(&bytes, whole, (uint64_t)1 << shift) || impmem_add(&bytes, bytes, scale_fraction(part, shift)))
        return IMPMEM_ERR_BAD_VALUE;
    *out_bytes = bytes;
    return IMPMEM_OK;
}

char *impmem_format_mib(uint64_t bytes, char *buffer, size_t buffer_bytes)
{
    if (!buffer || buffer_bytes == 0) return buffer;
    uint64_t whole = bytes >> 20;
    uint64_t tenths = ((bytes & (IMPMEM_MIB - 1)) * 10 + IMPMEM_MIB / 2) >> 20;
    if (tenths == 10) {
        whole++;
        tenths = 0;
    }
    if (snprintf(buffer, buffer_bytes, "%llu.%llu MiB", (unsigned long long)whole, (unsigned long long)tenths) < 0)
        buffer[0] = '\0';
    return buffer;
}
