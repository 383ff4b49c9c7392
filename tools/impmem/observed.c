/* observed.c - reads measured lines: CSV with a head of "line,bytes" or "line,mib", or a JSON array of {"name" or "id", "bytes"
 * or "mib"}, alone or as "lines" of an object. */
#define _GNU_SOURCE
#include "observed.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "command.h"
#include "impmem/bytes.h"
#include "impmem/ledger.h"

enum { MAX_FILE_BYTES = 1 << 20, MAX_FIELD_BYTES = 128 };

static int complain_at(const char *path, uint32_t row, const char *key, const char *found, const char *expected)
{
    command_complain("%s: line %" PRIu32 ": %s: found \"%.60s\", expected %s", path, row, key, found, expected);
    return COMMAND_FILE;
}

/* Digits, and with `mib` a fraction too, which then is rounded to whole bytes. */
static bool parse_amount(const char *text, bool mib, uint64_t *out)
{
    char with_unit[MAX_FIELD_BYTES + 8];
    if (text[0] < '0' || text[0] > '9' || text[strspn(text, "0123456789.")] || (!mib && strchr(text, '.'))) return false;
    snprintf(with_unit, sizeof with_unit, "%s%s", text, mib ? "MiB" : "");
    return impmem_parse_bytes(with_unit, out) == IMPMEM_OK;
}

static int add(const char *path, observed *out, const observed_line *line)
{
    if (out->n == OBSERVED_MAX_LINES) {
        command_complain("%s: line %" PRIu32 ": more than %d measured lines; expected fewer", path, line->row,
                         (int)OBSERVED_MAX_LINES);
        return COMMAND_FILE;
    }
    for (uint32_t i = 0; i < out->n; i++) {
        const observed_line *other = &out->line[i];
        bool same = line->id != IMPMEM_NO_LINE ? other->id == line->id
                                               : other->name[0] && strcasecmp(other->name, line->name) == 0;
        if (same) {
            command_complain("%s: line %" PRIu32 ": the same as line %" PRIu32 "; expected each line once", path, line->row,
                             other->row);
            return COMMAND_FILE;
        }
    }
    out->line[out->n++] = *line;
    return COMMAND_DONE;
}

/* A name, or digits for an id. */
static int set_subject(const char *path, const char *text, observed_line *line)
{
    size_t digits = strspn(text, "0123456789");
    line->id = IMPMEM_NO_LINE;
    if (digits && !text[digits]) {
        uint64_t id = 0;
        if (!parse_amount(text, false, &id) || id >= IMPMEM_NO_LINE)
            return complain_at(path, line->row, "line", text, "a line id of 32 bits");
        line->id = (impmem_line_id)id;
        return COMMAND_DONE;
    }
    if (!text[0] || strlen(text) >= sizeof line->name)
        return complain_at(path, line->row, "line", text, "a plan line's name of 1 to 39 bytes, or its id");
    memcpy(line->name, text, strlen(text) + 1);
    return COMMAND_DONE;
}

/* ---- CSV ------------------------------------------------------------------------------------------------------------- */

/* One field of a row; quoted ones may hold commas, and a quote twice. False: a quote is not closed, or the field too long. */
static bool take_field(const char **at, char field[MAX_FIELD_BYTES])
{
    const char *c = *at;
    size_t n = 0;
    bool quoted = *c == '"';
    if (quoted) c++;
    while (*c && (quoted || *c != ',')) {
        if (quoted && *c == '"') {
            if (c[1] != '"') break;
            c++;
        }
        if (n == MAX_FIELD_BYTES - 1) return false;
        field[n++] = *c++;
    }
    if (quoted && *c++ != '"') return false;
    while (!quoted && n > 0 && field[n - 1] == ' ') n--;
    field[n] = '\0';
    if (*c && *c != ',') return false;
    *at = *c ? c + 1 : NULL;
    return true;
}

/* Splits a row in two; false when it has another number of fields. */
static bool take_row(const char *text, char first[MAX_FIELD_BYTES], char second[MAX_FIELD_BYTES])
{
    const char *at = text;
    return take_field(&at, first) && at && take_field(&at, second) && !at;
}

static int read_csv(const char *path, char *text, observed *out)
{
    bool mib = false;
    bool head = false;
    uint32_t row = 0;
    for (char *rest = text; rest;) {
        char *line = rest;
        rest = strchr(line, '\n');
        if (rest) *rest++ = '\0';
        row++;
        line[strcspn(line, "\r")] = '\0';
        if (!line[0] || line[0] == '#') continue;
        char subject[MAX_FIELD_BYTES], amount[MAX_FIELD_BYTES];
        observed_line found = {.row = row};
        if (!take_row(line, subject, amount)) return complain_at(path, row, "row", line, "two fields, LINE,AMOUNT");
        if (!head) {
            mib = strcasecmp(amount, "mib") == 0;
            if ((strcasecmp(subject, "line") && strcasecmp(subject, "name") && strcasecmp(subject, "id")) ||
                (!mib && strcasecmp(amount, "bytes")))
                return complain_at(path, row, "head", line, "line,bytes or line,mib");
            head = true;
            continue;
        }
        int code = set_subject(path, subject, &found);
        if (!code && !parse_amount(amount, mib, &found.bytes))
            code = complain_at(path, row, mib ? "mib" : "bytes", amount,
                               mib ? "MiB such as 15467.4" : "a whole number of bytes");
        if (!code) code = add(path, out, &found);
        if (code) return code;
    }
    return COMMAND_DONE;
}

/* ---- JSON ------------------------------------------------------------------------------------------------------------ */

static int read_json_line(const char *path, const json_t *object, observed_line *line)
{
    const json_t *id = json_object_get(object, "id");
    const json_t *name = json_object_get(object, "name");
    const json_t *bytes = json_object_get(object, "bytes");
    const json_t *mib = json_object_get(object, "mib");
    line->id = IMPMEM_NO_LINE;
    if (!id == !name) return complain_at(path, line->row, "lines", id ? "id and name" : "neither", "either id or name");
    if (!bytes == !mib)
        return complain_at(path, line->row, "lines", bytes ? "bytes and mib" : "neither", "either bytes or mib");
    if (id) {
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= (json_int_t)IMPMEM_NO_LINE)
            return complain_at(path, line->row, "id", "no such number", "a line id of 32 bits");
        line->id = (impmem_line_id)json_integer_value(id);
    } else {
        const char *text = json_string_value(name);
        if (!text || !text[0] || json_string_length(name) >= sizeof line->name)
            return complain_at(path, line->row, "name", text ? text : "no text", "a plan line's name of 1 to 39 bytes");
        memcpy(line->name, text, strlen(text) + 1);
    }
    if (bytes) {
        if (!json_is_integer(bytes) || json_integer_value(bytes) < 0)
            return complain_at(path, line->row, "bytes", "no such number", "a whole number of bytes from 0 on");
        line->bytes = (uint64_t)json_integer_value(bytes);
        return COMMAND_DONE;
    }
    const double most = (double)((uint64_t)1 << 43); /* MiB: then bytes stay below 2^63 */
    double value = json_number_value(mib);
    if (!json_is_number(mib) || !(value >= 0) || value >= most)
        return complain_at(path, line->row, "mib", "no such number", "MiB from 0 to 2^43");
    line->bytes = (uint64_t)(value * (double)IMPMEM_MIB + 0.5);
    return COMMAND_DONE;
}

static int read_json(const char *path, const char *text, observed *out)
{
    json_error_t where;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &where);
    if (!root) {
        command_complain("%s: line %d, column %d: %s; expected measured lines as JSON", path, where.line, where.column,
                         where.text);
        return COMMAND_FILE;
    }
    const json_t *lines = json_is_array(root) ? root : json_object_get(root, "lines");
    int code = COMMAND_DONE;
    if (!json_is_array(lines)) {
        command_complain("%s: key lines: expected an array of {\"name\" or \"id\", \"bytes\" or \"mib\"}", path);
        code = COMMAND_FILE;
    }
    for (size_t i = 0; !code && i < json_array_size(lines); i++) {
        observed_line found = {.row = (uint32_t)(i + 1)};
        code = read_json_line(path, json_array_get(lines, i), &found);
        if (!code) code = add(path, out, &found);
    }
    json_decref(root);
    return code;
}

/* ---- both ------------------------------------------------------------------------------------------------------------ */

/* The whole file, ended by a zero byte; the caller frees it. */
static int load(const char *path, char **out)
{
    struct stat info;
    FILE *file = fopen(path, "rb");
    if (!file || fstat(fileno(file), &info)) {
        command_complain("%s: %s; expected measured lines", path, strerror(errno));
        if (file) (void)fclose(file); /* nothing was written */
        return COMMAND_FILE;
    }
    char *text = NULL;
    bool regular = S_ISREG(info.st_mode) && info.st_size < MAX_FILE_BYTES;
    if (regular) text = malloc((size_t)info.st_size + 1);
    size_t n = text ? fread(text, 1, (size_t)info.st_size, file) : 0;
    bool whole = text && !ferror(file) && n == (size_t)info.st_size;
    (void)fclose(file); /* only read from */
    if (whole) {
        text[n] = '\0';
        *out = text;
        return COMMAND_DONE;
    }
    free(text);
    if (regular) command_complain("%s: reading failed; expected measured lines", path);
    else command_complain("%s: expected measured lines, a regular file below %d bytes", path, (int)MAX_FILE_BYTES);
    return COMMAND_FILE;
}

int observed_read(const char *path, observed *out)
{
    char *text = NULL;
    out->n = 0;
    int code = load(path, &text);
    if (code) return code;
    const char *begin = text + strspn(text, " \t\r\n");
    code = *begin == '{' || *begin == '[' ? read_json(path, begin, out) : read_csv(path, text, out);
    free(text);
    if (!code && out->n == 0) {
        command_complain("%s: the file holds no measured line; expected line,bytes and a row a line", path);
        code = COMMAND_FILE;
    }
    return code;
}
