/* Writing the journal as a file.
 *
 * The caller's write function runs without the ledger's lock, so the ledger may go on while it is called: records are
 * copied out in small batches, and when the ring has meanwhile dropped one that was promised in the header the answer is
 * IMPMEM_ERR_BUSY.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "backend/internal.h"
#include "backend/journal_format.h"
#include "core/json.h"

#define BATCH 32u

/* Everything but the checksum line goes through the hash. */
typedef struct sink {
    impmem_write_fn write;
    void *context;
    XXH3_state_t hash;
    impmem_status status;
} sink;

static impmem_status put(void *context, const char *text, size_t n)
{
    sink *to = context;
    if (to->status) return to->status;
    (void)XXH3_64bits_update(&to->hash, text, n);
    to->status = to->write(to->context, text, n);
    return to->status;
}

static void put_line(sink *to, const char *fmt, ...) IMPMEM_PRINTF(2, 3);
static void put_line(sink *to, const char *fmt, ...)
{
    char text[IMPMEM__JOURNAL_LINE_BYTES];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof text) to->status = impmem_first_error(to->status, IMPMEM_ERR_IO);
    else (void)put(to, text, (size_t)n);
}

static const char *line_text(impmem_line_id line, char room[16])
{
    if (line == IMPMEM_NO_LINE) return "-";
    (void)snprintf(room, 16, "%u", line);
    return room;
}

/* What the header promises. */
typedef struct header {
    uint64_t first;
    uint64_t end;
    uint64_t opening[IMPMEM_N_ACCOUNTS];
    uint64_t opening_unplanned;
} header;

static uint64_t first_locked(const impmem_ledger *ledger)
{
    return ledger->journal_end > ledger->journal_capacity ? ledger->journal_end - ledger->journal_capacity : 0;
}

static header read_header(const impmem_ledger *ledger)
{
    header h;
    impmem__lock(ledger);
    h.first = first_locked(ledger);
    h.end = ledger->journal_end;
    memcpy(h.opening, ledger->opening, sizeof h.opening);
    h.opening_unplanned = ledger->opening_unplanned;
    impmem__unlock(ledger);
    return h;
}

/* The opening balances of the lines belong to h->first: BUSY once that record was dropped. */
static void put_line_openings(const impmem_ledger *ledger, const header *h, sink *to)
{
    for (uint32_t i = 0; i < ledger->n_lines && !to->status; i++) {
        impmem__lock(ledger);
        uint64_t opening = ledger->line[i].opening;
        if (first_locked(ledger) != h->first) to->status = IMPMEM_ERR_BUSY;
        impmem__unlock(ledger);
        if (opening) put_line(to, "opening-line %u %llu\n", ledger->line[i].id, (unsigned long long)opening);
    }
    if (h->opening_unplanned) put_line(to, "opening-line - %llu\n", (unsigned long long)h->opening_unplanned);
}

static void put_record(const impmem_ledger *ledger, const impmem_journal_record *r, sink *to)
{
    char room[16], reason[IMPMEM__REASON_BYTES];
    put_line(to, "%llu %llu %s %s %s %s %s %llu 0x%llx %llu %d %u", (unsigned long long)r->sequence,
             (unsigned long long)r->time_ns, impmem_journal_op_name((impmem_journal_op)r->op),
             impmem_phase_name((impmem_phase)r->phase), impmem_account_name((impmem_account)r->account),
             impmem_tag_name((impmem_tag)r->tag), line_text(r->line, room), (unsigned long long)r->region,
             (unsigned long long)r->address, (unsigned long long)r->bytes, r->status, r->detail);
    if (r->op == IMPMEM_JOURNAL_PHASE && !impmem_ledger_replan_reason(ledger, r->detail, reason, sizeof reason)) {
        (void)put(to, " ", 1);
        impmem_status quoted = impmem__json_quote(put, to, reason, strlen(reason));
        to->status = impmem_first_error(to->status, quoted);
    }
    (void)put(to, "\n", 1);
}

/* Copies records [sequence, ...) out; the number copied, 0 when the first of them is gone. */
static uint32_t copy_batch(const impmem_ledger *ledger, uint64_t sequence, uint64_t end, impmem_journal_record *out)
{
    uint32_t n = 0;
    impmem__lock(ledger);
    if (sequence >= first_locked(ledger)) {
        for (; n < BATCH && sequence + n < end; n++) out[n] = ledger->record[(sequence + n) % ledger->journal_capacity];
    }
    impmem__unlock(ledger);
    return n;
}

static void put_records(const impmem_ledger *ledger, const header *h, sink *to)
{
    for (uint64_t at = h->first; at < h->end && !to->status;) {
        impmem_journal_record batch[BATCH];
        uint32_t n = copy_batch(ledger, at, h->end, batch);
        if (n == 0) to->status = IMPMEM_ERR_BUSY;
        for (uint32_t i = 0; i < n; i++) put_record(ledger, &batch[i], to);
        at += n;
    }
}

impmem_status impmem_ledger_journal_write(const impmem_ledger *ledger, impmem_write_fn write, void *context)
{
    if (!ledger || !write) return IMPMEM_ERR_INVALID_ARGUMENT;
    sink to;
    memset(&to, 0, sizeof to);
    to.write = write;
    to.context = context;
    (void)XXH3_64bits_reset(&to.hash);
    header h = read_header(ledger);
    put_line(&to, IMPMEM__JOURNAL_MAGIC "%d\n", IMPMEM__JOURNAL_VERSION);
    for (int a = 0; a < IMPMEM_N_ACCOUNTS; a++)
        put_line(&to, "opening %s %llu\n", impmem_account_name((impmem_account)a), (unsigned long long)h.opening[a]);
    put_line_openings(ledger, &h, &to);
    put_line(&to, "records %llu %llu\n", (unsigned long long)h.first, (unsigned long long)h.end);
    put_records(ledger, &h, &to);
    if (to.status) return to.status;
    char last[sizeof IMPMEM__JOURNAL_CHECKSUM + IMPMEM__JOURNAL_CHECKSUM_DIGITS + 2];
    int n = snprintf(last, sizeof last, IMPMEM__JOURNAL_CHECKSUM "%016llx\n",
                     (unsigned long long)XXH3_64bits_digest(&to.hash));
    return write(context, last, (size_t)n);
}
