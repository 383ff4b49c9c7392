/* The journal's ring: appending, folding what is dropped into the opening balances, reading. */
#include "impmem/journal.h"

#include <string.h>

#include "backend/internal.h"

const char *impmem_journal_op_name(impmem_journal_op op)
{
    switch (op) {
#define OP_NAME(name, value, text, sign)                                                                                   \
    case IMPMEM_JOURNAL_##name: return text;
        IMPMEM_JOURNAL_OP_MAP(OP_NAME)
#undef OP_NAME
    }
    return "?";
}

int impmem_journal_op_sign(impmem_journal_op op)
{
    switch (op) {
#define OP_SIGN(name, value, text, sign)                                                                                   \
    case IMPMEM_JOURNAL_##name: return sign;
        IMPMEM_JOURNAL_OP_MAP(OP_SIGN)
#undef OP_SIGN
    }
    return 0;
}

static uint64_t first_kept(const impmem_ledger *ledger)
{
    return ledger->journal_end > ledger->journal_capacity ? ledger->journal_end - ledger->journal_capacity : 0;
}

static void apply(uint64_t *balance, const impmem_journal_record *record)
{
    int sign = impmem_journal_op_sign((impmem_journal_op)record->op);
    if (sign > 0) *balance += record->bytes;
    else if (sign < 0) *balance -= record->bytes;
}

/* The oldest record leaves the ring: its bytes go into the opening balances of its account and its line. */
static void fold(impmem_ledger *ledger, const impmem_journal_record *oldest)
{
    apply(&ledger->opening[oldest->account], oldest);
    impmem__ledger_line *line = impmem__find_line(ledger, oldest->line);
    apply(line ? &line->opening : &ledger->opening_unplanned, oldest);
}

void impmem__journal_append(impmem_ledger *ledger, impmem_journal_op op, impmem__subject subject, uint64_t bytes,
                            impmem_status status, uint32_t detail)
{
    impmem_journal_record *slot = &ledger->record[ledger->journal_end % ledger->journal_capacity];
    if (ledger->journal_end >= ledger->journal_capacity) fold(ledger, slot);
    memset(slot, 0, sizeof *slot);
    slot->sequence = ledger->journal_end++;
    slot->time_ns = ledger->clock_ns(ledger->clock_context);
    slot->bytes = bytes;
    slot->address = (uint64_t)(uintptr_t)subject.base;
    slot->region = subject.region;
    slot->line = subject.line;
    slot->op = (uint8_t)op;
    slot->phase = (uint8_t)impmem_ledger_phase(ledger);
    slot->account = (uint8_t)subject.account;
    slot->tag = (uint8_t)subject.tag;
    slot->status = (int32_t)status;
    slot->detail = detail;
}

uint64_t impmem_ledger_journal_first(const impmem_ledger *ledger)
{
    impmem__lock(ledger);
    uint64_t first = first_kept(ledger);
    impmem__unlock(ledger);
    return first;
}

uint64_t impmem_ledger_journal_end(const impmem_ledger *ledger)
{
    return impmem__read_locked(ledger, &ledger->journal_end);
}

uint64_t impmem_ledger_journal_dropped(const impmem_ledger *ledger)
{
    return impmem_ledger_journal_first(ledger);
}

impmem_status impmem_ledger_journal_read(const impmem_ledger *ledger, uint64_t sequence, impmem_journal_record *out)
{
    if (!ledger || !out) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem_status st = IMPMEM_ERR_NOT_FOUND;
    impmem__lock(ledger);
    if (sequence >= first_kept(ledger) && sequence < ledger->journal_end) {
        *out = ledger->record[sequence % ledger->journal_capacity];
        st = IMPMEM_OK;
    }
    impmem__unlock(ledger);
    return st;
}

uint64_t impmem_ledger_journal_balance(const impmem_ledger *ledger, impmem_account account)
{
    if (!ledger || (unsigned)account >= IMPMEM_N_ACCOUNTS) return 0;
    impmem__lock(ledger);
    uint64_t balance = ledger->opening[account];
    for (uint64_t i = first_kept(ledger); i < ledger->journal_end; i++) {
        const impmem_journal_record *record = &ledger->record[i % ledger->journal_capacity];
        if (record->account == (uint8_t)account) apply(&balance, record);
    }
    impmem__unlock(ledger);
    return balance;
}

uint64_t impmem_ledger_journal_line_balance(const impmem_ledger *ledger, impmem_line_id line)
{
    if (!ledger) return 0;
    impmem__lock(ledger);
    const impmem__ledger_line *known = impmem__find_line(ledger, line);
    uint64_t balance = known ? known->opening : ledger->opening_unplanned;
    impmem_line_id id = known ? line : IMPMEM_NO_LINE;
    for (uint64_t i = first_kept(ledger); i < ledger->journal_end; i++) {
        const impmem_journal_record *record = &ledger->record[i % ledger->journal_capacity];
        if (record->line == id) apply(&balance, record);
    }
    impmem__unlock(ledger);
    return balance;
}
