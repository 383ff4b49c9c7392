/* Reading a journal file: once for the checksum, so that the caller's callback never sees a record of a damaged file, and
 * once for the records. Memory is bounded by one line.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "backend/internal.h"
#include "backend/journal_format.h"

typedef struct reader {
    const char *path;
    FILE *file;
    impmem_error *why;
    uint64_t line;   /* number of the line in `text`, from 1 */
    uint64_t offset; /* of that line */
    uint64_t next_offset;
    char text[IMPMEM__JOURNAL_LINE_BYTES];
    size_t length; /* with the newline */
} reader;

/* One line about the present line of the file. */
static impmem_status bad(reader *r, impmem_status status, const char *what)
{
    (void)impmem__error_set(r->why, status, r->path, "%s:%llu: %s", r->path, (unsigned long long)r->line, what);
    impmem__error_offset(r->why, r->offset);
    return status;
}

static impmem_status io_error(reader *r)
{
    char room[96];
    const char *cause = strerror_r(errno, room, sizeof room);
    (void)impmem__error_set(r->why, IMPMEM_ERR_IO, r->path, "%s: %s", r->path, cause);
    impmem__error_driver(r->why, errno);
    return IMPMEM_ERR_IO;
}

/* The next line, newline included. *out_end: there is none. A last line without newline means that the file was cut. */
static impmem_status next_line(reader *r, bool *out_end)
{
    *out_end = false;
    r->line++;
    r->offset = r->next_offset;
    if (!fgets(r->text, sizeof r->text, r->file)) {
        if (ferror(r->file)) return io_error(r);
        *out_end = true;
        return IMPMEM_OK;
    }
    r->length = strlen(r->text);
    r->next_offset += r->length;
    if (r->length && r->text[r->length - 1] == '\n') return IMPMEM_OK;
    if (feof(r->file)) return bad(r, IMPMEM_ERR_TRUNCATED, "the file ends inside a line");
    return bad(r, IMPMEM_ERR_BAD_FORMAT, "a line is longer than any record, or holds a NUL");
}

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* ---- the checksum ------------------------------------------------------------------------------------------------ */

static impmem_status check_magic(reader *r)
{
    static const char magic[] = IMPMEM__JOURNAL_MAGIC;
    size_t n = r->length < sizeof magic - 1 ? r->length : sizeof magic - 1;
    if (n == 0) return bad(r, IMPMEM_ERR_TRUNCATED, "the file is empty");
    if (memcmp(r->text, magic, n) != 0) return bad(r, IMPMEM_ERR_BAD_FORMAT, "expected \"" IMPMEM__JOURNAL_MAGIC "1\"");
    return IMPMEM_OK;
}

static impmem_status check_digest(reader *r, uint64_t digest)
{
    char expected[IMPMEM__JOURNAL_CHECKSUM_DIGITS + 2];
    (void)snprintf(expected, sizeof expected, "%016llx\n", (unsigned long long)digest);
    if (strcmp(r->text + strlen(IMPMEM__JOURNAL_CHECKSUM), expected) == 0) return IMPMEM_OK;
    return bad(r, IMPMEM_ERR_BAD_VALUE, "the checksum does not match the lines above it");
}

static impmem_status verify(reader *r)
{
    XXH3_state_t hash;
    bool end = false, sealed = false;
    (void)XXH3_64bits_reset(&hash);
    for (;;) {
        r->length = 0;
        impmem_status st = next_line(r, &end);
        if (r->line == 1 && st != IMPMEM_ERR_IO) {
            impmem_status magic = check_magic(r);
            if (magic) return magic;
        }
        if (st) return st;
        if (end) return sealed ? IMPMEM_OK : bad(r, IMPMEM_ERR_TRUNCATED, "the file ends before its checksum line");
        if (sealed) return bad(r, IMPMEM_ERR_BAD_FORMAT, "text after the checksum line");
        if (starts_with(r->text, IMPMEM__JOURNAL_CHECKSUM)) {
            sealed = true;
            st = check_digest(r, XXH3_64bits_digest(&hash));
            if (st) return st;
        } else {
            (void)XXH3_64bits_update(&hash, r->text, r->length);
        }
    }
}

/* ---- fields ------------------------------------------------------------------------------------------------------ */

/* Cuts the word off `*at`: up to a space or the end of the line, which are consumed. NULL: no word there. */
static char *word(char **at)
{
    char *begin = *at;
    size_t n = strcspn(begin, " \n");
    if (n == 0) return NULL;
    *at = begin + n + (begin[n] != '\0');
    begin[n] = '\0';
    return begin;
}

static bool parse_number(const char *text, unsigned base, uint64_t *out)
{
    uint64_t value = 0;
    if (!text || !*text) return false;
    for (; *text; text++) {
        static const char digits[] = "0123456789abcdef";
        const char *digit = strchr(digits, *text);
        if (!digit || (unsigned)(digit - digits) >= base || impmem_mul(&value, value, base) ||
            impmem_add(&value, value, (uint64_t)(digit - digits)))
            return false;
    }
    *out = value;
    return true;
}

static bool take_number(char **at, uint64_t max, uint64_t *out)
{
    uint64_t value;
    if (!parse_number(word(at), 10, &value) || value > max) return false;
    *out = value;
    return true;
}

static bool take_hex(char **at, uint64_t *out)
{
    const char *text = word(at);
    return text && starts_with(text, "0x") && parse_number(text + 2, 16, out);
}

static bool take_line(char **at, impmem_line_id *out)
{
    const char *text = word(at);
    uint64_t value;
    if (text && strcmp(text, "-") == 0) {
        *out = IMPMEM_NO_LINE;
        return true;
    }
    if (!parse_number(text, 10, &value) || value >= IMPMEM_NO_LINE) return false;
    *out = (impmem_line_id)value;
    return true;
}

/* The four kinds of name, by number; "?" ends each. */
static const char *op_name(unsigned i)
{
    return impmem_journal_op_name((impmem_journal_op)i);
}

static const char *phase_name(unsigned i)
{
    return impmem_phase_name((impmem_phase)i);
}

static const char *account_name(unsigned i)
{
    return impmem_account_name((impmem_account)i);
}

static const char *tag_name(unsigned i)
{
    return impmem_tag_name((impmem_tag)i);
}

static bool take_name(char **at, const char *(*name_of)(unsigned), unsigned first, uint8_t *out)
{
    const char *text = word(at);
    if (!text) return false;
    for (unsigned i = first; strcmp(name_of(i), "?") != 0; i++) {
        if (strcmp(name_of(i), text) == 0) {
            *out = (uint8_t)i;
            return true;
        }
    }
    return false;
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

static bool parse_record(char *at, impmem_journal_record *out)
{
    uint64_t status, detail;
    memset(out, 0, sizeof *out);
    if (!take_number(&at, UINT64_MAX, &out->sequence) || !take_number(&at, UINT64_MAX, &out->time_ns) ||
        !take_name(&at, op_name, 1, &out->op) || !take_name(&at, phase_name, 0, &out->phase) ||
        !take_name(&at, account_name, 0, &out->account) || !take_name(&at, tag_name, 0, &out->tag) ||
        !take_line(&at, &out->line) || !take_number(&at, UINT64_MAX, &out->region) || !take_hex(&at, &out->address) ||
        !take_number(&at, UINT64_MAX, &out->bytes) || !take_number(&at, INT32_MAX, &status) ||
        !take_number(&at, UINT32_MAX, &detail))
        return false;
    out->status = (int32_t)status;
    out->detail = (uint32_t)detail;
    return *at == '\0' || (*at == '"' && out->op == IMPMEM_JOURNAL_PHASE);
}

static bool apply(uint64_t *balance, const impmem_journal_record *record)
{
    int sign = impmem_journal_op_sign((impmem_journal_op)record->op);
    if (sign > 0) return impmem_add(balance, *balance, record->bytes) == IMPMEM_OK;
    if (sign < 0) return impmem_sub(balance, *balance, record->bytes) == IMPMEM_OK;
    return true;
}

/* "opening ACCOUNT BYTES" for each account in order, "opening-line ..." any number of times, "records FIRST END". */
static impmem_status read_header(reader *r, impmem_journal_summary *sum, uint64_t *out_first, uint64_t *out_end)
{
    uint64_t accounts_total = 0, lines_total = 0;
    unsigned accounts = 0;
    bool end;
    for (;;) {
        impmem_status st = next_line(r, &end);
        if (st) return st;
        char *at = r->text;
        const char *key = end ? NULL : word(&at);
        uint64_t bytes;
        uint8_t account;
        impmem_line_id line;
        if (key && strcmp(key, "opening") == 0) {
            if (!take_name(&at, account_name, 0, &account) || account != accounts || !take_number(&at, UINT64_MAX, &bytes))
                return bad(r, IMPMEM_ERR_BAD_FORMAT, "expected \"opening ACCOUNT BYTES\", the accounts in order");
            sum->opening_bytes[accounts++] = bytes;
            if (impmem_add(&accounts_total, accounts_total, bytes))
                return bad(r, IMPMEM_ERR_BAD_VALUE, "the balances overflow");
        } else if (key && strcmp(key, "opening-line") == 0) {
            if (!take_line(&at, &line) || !take_number(&at, UINT64_MAX, &bytes))
                return bad(r, IMPMEM_ERR_BAD_FORMAT, "expected \"opening-line LINE BYTES\"");
            if (impmem_add(&lines_total, lines_total, bytes)) return bad(r, IMPMEM_ERR_BAD_VALUE, "the balances overflow");
        } else if (key && strcmp(key, "records") == 0) {
            if (accounts != IMPMEM_N_ACCOUNTS || !take_number(&at, UINT64_MAX, out_first) ||
                !take_number(&at, UINT64_MAX, out_end) || *at != '\0')
                return bad(r, IMPMEM_ERR_BAD_FORMAT, "expected \"records FIRST END\" after the opening of every account");
            if (*out_end < *out_first) return bad(r, IMPMEM_ERR_BAD_VALUE, "the records end before they begin");
            if (accounts_total != lines_total)
                return bad(r, IMPMEM_ERR_BAD_VALUE, "the lines' opening balances do not add up to the accounts'");
            return IMPMEM_OK;
        } else {
            return bad(r, IMPMEM_ERR_BAD_FORMAT, "expected an opening balance or \"records FIRST END\"");
        }
    }
}

static impmem_status check_version(reader *r)
{
    uint64_t version;
    bool end;
    impmem_status st = next_line(r, &end);
    if (st) return st;
    char *at = r->text + strlen(IMPMEM__JOURNAL_MAGIC);
    if (end || !take_number(&at, UINT64_MAX, &version) || *at != '\0')
        return bad(r, IMPMEM_ERR_BAD_FORMAT, "expected \"" IMPMEM__JOURNAL_MAGIC "1\"");
    if (version != IMPMEM__JOURNAL_VERSION)
        return bad(r, IMPMEM_ERR_BAD_VALUE, "a format version that this library does not read; it reads 1");
    return IMPMEM_OK;
}

typedef impmem_status (*each_fn)(void *context, const impmem_journal_record *);

static impmem_status read_records(reader *r, each_fn each, void *context, impmem_journal_summary *sum)
{
    uint64_t first, end_sequence;
    impmem_status st = check_version(r);
    if (!st) st = read_header(r, sum, &first, &end_sequence);
    if (st) return st;
    memcpy(sum->closing_bytes, sum->opening_bytes, sizeof sum->closing_bytes);
    sum->dropped = first;
    sum->records = end_sequence - first;
    for (uint64_t expected = first;; expected++) {
        impmem_journal_record record;
        bool end;
        st = next_line(r, &end);
        if (st) return st;
        if (end || starts_with(r->text, IMPMEM__JOURNAL_CHECKSUM)) {
            return expected == end_sequence ? IMPMEM_OK
                                            : bad(r, IMPMEM_ERR_BAD_VALUE, "fewer records than the header says");
        }
        if (!parse_record(r->text, &record)) return bad(r, IMPMEM_ERR_BAD_FORMAT, "not a record");
        if (record.sequence != expected || expected == end_sequence)
            return bad(r, IMPMEM_ERR_BAD_VALUE, "a gap in the sequence, or more records than the header says");
        if (!apply(&sum->closing_bytes[record.account], &record))
            return bad(r, IMPMEM_ERR_BAD_VALUE, "more bytes given back than the account holds");
        if (each) st = each(context, &record);
        if (st) return bad(r, st, "the caller stopped here");
    }
}

impmem_status impmem_journal_read_file(const char *path, each_fn each, void *context, impmem_journal_summary *out,
                                       impmem_error *why)
{
    if (!path || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "journal", "no path, or no place for the summary");
    reader r;
    memset(&r, 0, sizeof r);
    r.path = path;
    r.why = why;
    r.file = fopen(path, "rbe");
    if (!r.file) return io_error(&r);
    impmem_journal_summary summary;
    memset(&summary, 0, sizeof summary);
    impmem_status st = verify(&r);
    if (!st && fseek(r.file, 0, SEEK_SET) != 0) st = io_error(&r);
    if (!st) {
        r.line = r.offset = r.next_offset = 0;
        st = read_records(&r, each, context, &summary);
    }
    (void)fclose(r.file);
    if (!st) *out = summary;
    return st;
}
