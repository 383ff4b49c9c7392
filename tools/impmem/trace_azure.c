/* trace_azure.c - one row of an Azure LLM inference trace: TIMESTAMP,ContextTokens,GeneratedTokens with timestamps such as
 * "2023-11-16 18:15:46.6805900", in UTC; the "+00:00" that later releases append is accepted.
 */
#include <inttypes.h>
#include <string.h>

#include "trace_format.h"

bool trace_is_azure_header(const char *text, size_t bytes)
{
    return bytes == sizeof TRACE_AZURE_HEADER - 1 && memcmp(text, TRACE_AZURE_HEADER, bytes) == 0;
}

/* `width` digits at *text, which is moved past them. */
static bool take_digits(const char **text, const char *end, int width, uint32_t *out)
{
    uint32_t value = 0;
    for (int i = 0; i < width; i++, (*text)++) {
        if (*text == end || **text < '0' || **text > '9') return false;
        value = value * 10 + (uint32_t)(**text - '0');
    }
    *out = value;
    return true;
}

static bool take_char(const char **text, const char *end, char expected)
{
    if (*text == end || **text != expected) return false;
    (*text)++;
    return true;
}

static bool is_leap(uint32_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Days from 1970-01-01; false where the calendar has no such day. */
static bool days_since_epoch(uint32_t year, uint32_t month, uint32_t day, uint64_t *out)
{
    static const uint32_t length[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (year < 1970 || month < 1 || month > 12 || day < 1) return false;
    if (day > length[month - 1] + (month == 2 && is_leap(year))) return false;
    uint32_t last = year - 1;
    uint64_t days = (uint64_t)(year - 1970) * 365 + (last / 4 - 1969 / 4) - (last / 100 - 1969 / 100) +
                    (last / 400 - 1969 / 400);
    for (uint32_t m = 1; m < month; m++) days += length[m - 1] + (m == 2 && is_leap(year));
    *out = days + day - 1;
    return true;
}

static bool parse_time(const char *text, size_t bytes, uint64_t *out_ns)
{
    const char *end = text + bytes;
    uint32_t year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
    uint64_t days = 0;
    bool good = take_digits(&text, end, 4, &year) && take_char(&text, end, '-') && take_digits(&text, end, 2, &month) &&
                take_char(&text, end, '-') && take_digits(&text, end, 2, &day) && take_char(&text, end, ' ') &&
                take_digits(&text, end, 2, &hour) && take_char(&text, end, ':') && take_digits(&text, end, 2, &minute) &&
                take_char(&text, end, ':') && take_digits(&text, end, 2, &second) &&
                days_since_epoch(year, month, day, &days) && hour < 24 && minute < 60 && second < 60;
    if (!good || year > 2200) return false; /* later ones would leave 63 bits of nanoseconds */
    uint64_t nanoseconds = 0;
    if (take_char(&text, end, '.')) {
        uint64_t unit = 100000000;
        const char *first = text;
        for (; text != end && *text >= '0' && *text <= '9'; text++, unit /= 10)
            nanoseconds += unit * (uint64_t)(*text - '0');
        if (text == first || text - first > 9) return false;
    }
    if (end - text == 6 && memcmp(text, "+00:00", 6) == 0) text = end;
    if (text != end) return false;
    *out_ns = (((days * 24 + hour) * 60 + minute) * 60 + second) * UINT64_C(1000000000) + nanoseconds;
    return true;
}

static bool parse_tokens(const char *text, size_t bytes, uint32_t *out)
{
    uint64_t value = 0;
    if (bytes == 0 || bytes > 10) return false;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    if (value > UINT32_MAX) return false;
    *out = (uint32_t)value;
    return true;
}

impmem_status trace_parse_azure(trace_line *line, impmem_error *why)
{
    enum { COLUMNS = 3 };
    static const char *const name[COLUMNS] = {"TIMESTAMP", "ContextTokens", "GeneratedTokens"};
    static const char tokens_expected[] = "a whole number of tokens from 0 to 4294967295";
    const char *field[COLUMNS];
    size_t bytes[COLUMNS];
    const char *at = line->text;
    const char *end = line->text + line->bytes;
    size_t n = 0;
    for (bool more = true; more; n++) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        more = comma != NULL;
        if (n < COLUMNS) {
            field[n] = at;
            bytes[n] = (size_t)((comma ? comma : end) - at);
        }
        if (more) at = comma + 1;
    }
    if (n != COLUMNS)
        return trace_refuse(line, why, IMPMEM_ERR_BAD_FORMAT, "found %zu columns, expected 3: " TRACE_AZURE_HEADER, n);
    const char *expected[COLUMNS] = {NULL, NULL, NULL};
    if (!parse_time(field[0], bytes[0], &line->time_ns)) expected[0] = "a time such as 2023-11-16 18:15:46.6805900";
    if (!parse_tokens(field[1], bytes[1], &line->input_tokens)) expected[1] = tokens_expected;
    if (!parse_tokens(field[2], bytes[2], &line->output_tokens)) expected[2] = tokens_expected;
    for (size_t i = 0; i < COLUMNS; i++)
        if (expected[i])
            return trace_refuse(line, why, IMPMEM_ERR_BAD_VALUE, "%s: found \"%.*s\", expected %s", name[i],
                                TRACE_EXCERPT(field[i], bytes[i]), expected[i]);
    return IMPMEM_OK;
}
