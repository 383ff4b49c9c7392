/* Bookkeeping: tallies, guards, budget, charges and host memory. Functions named _locked, and the tallies, run with the
 * ledger's lock held; all others take it themselves.
 */
#include <stdio.h>
#include <string.h>

#include "backend/internal.h"

impmem__ledger_line *impmem__find_line(const impmem_ledger *ledger, impmem_line_id line)
{
    for (uint32_t i = 0; i < ledger->n_lines; i++) {
        if (ledger->line[i].id == line) return &ledger->line[i];
    }
    return NULL;
}

impmem_line_id impmem__known_line(const impmem_ledger *ledger, impmem_line_id line)
{
    return impmem__find_line(ledger, line) ? line : IMPMEM_NO_LINE;
}

/* ---- tallies ----------------------------------------------------------------------------------------------------- */

static void tally_add(impmem__tally *tally, uint64_t bytes)
{
    tally->committed += bytes;
    if (tally->committed > tally->committed_peak) tally->committed_peak = tally->committed;
}

void impmem__tally_take(impmem_ledger *ledger, impmem__subject subject, uint64_t bytes)
{
    impmem__ledger_line *line = impmem__find_line(ledger, subject.line);
    if (line) tally_add(&line->tally, bytes);
    else ledger->unplanned_committed += bytes;
    tally_add(&ledger->tag[subject.tag], bytes);
    tally_add(&ledger->account[subject.account], bytes);
}

void impmem__tally_give(impmem_ledger *ledger, impmem__subject subject, uint64_t bytes)
{
    impmem__ledger_line *line = impmem__find_line(ledger, subject.line);
    if (line) line->tally.committed -= bytes;
    else ledger->unplanned_committed -= bytes;
    ledger->tag[subject.tag].committed -= bytes;
    ledger->account[subject.account].committed -= bytes;
}

void impmem__tally_reserve(impmem_ledger *ledger, impmem__subject subject, uint64_t bytes)
{
    impmem__ledger_line *line = impmem__find_line(ledger, subject.line);
    if (line) line->tally.reserved += bytes;
    ledger->tag[subject.tag].reserved += bytes;
    ledger->account[subject.account].reserved += bytes;
}

void impmem__tally_unreserve(impmem_ledger *ledger, impmem__subject subject, uint64_t bytes)
{
    impmem__ledger_line *line = impmem__find_line(ledger, subject.line);
    if (line) line->tally.reserved -= bytes;
    ledger->tag[subject.tag].reserved -= bytes;
    ledger->account[subject.account].reserved -= bytes;
}

static void direct_add(impmem__tally *tally, uint64_t bytes)
{
    tally->direct_live += bytes;
    if (tally->direct_live > tally->direct_peak) tally->direct_peak = tally->direct_live;
}

/* Bytes that are in use as soon as they are held: host tables and charges. */
static void direct_take(impmem_ledger *ledger, impmem__subject subject, uint64_t bytes)
{
    impmem__ledger_line *line = impmem__find_line(ledger, subject.line);
    if (line) direct_add(&line->tally, bytes);
    direct_add(&ledger->tag[subject.tag], bytes);
    direct_add(&ledger->account[subject.account], bytes);
}

static void direct_give(impmem_ledger *ledger, impmem__subject subject, uint64_t bytes)
{
    impmem__ledger_line *line = impmem__find_line(ledger, subject.line);
    if (line) line->tally.direct_live -= bytes;
    ledger->tag[subject.tag].direct_live -= bytes;
    ledger->account[subject.account].direct_live -= bytes;
}

/* ---- guards ------------------------------------------------------------------------------------------------------ */

/* What happened under the lock and must be told after it. */
typedef struct news {
    impmem_violation violation; /* rule IMPMEM_OK = none */
    bool refused;
} news;

static void tell(impmem_ledger *ledger, const news *told)
{
    const impmem_violation *v = &told->violation;
    if (!v->rule) return;
    if (ledger->violation) ledger->violation(ledger->violation_context, v);
    impmem__ledger_log(ledger, "%s: %llu bytes tagged %s, the %lluth of this tag: %s",
                       v->rule == IMPMEM_ERR_SERVING ? "acquisition while serving" : "memory touched while capturing",
                       (unsigned long long)v->bytes, impmem_tag_name(v->tag), (unsigned long long)v->count,
                       told->refused ? "refused" : "let through");
}

static void refuse_locked(impmem_ledger *ledger, impmem__act act, impmem__subject subject, uint64_t bytes,
                          impmem_status status)
{
    if (act != IMPMEM__ACT_GIVE_BACK) impmem__journal_append(ledger, IMPMEM_JOURNAL_REFUSED, subject, bytes, status, 0);
}

static impmem_status guard_capture_locked(impmem_ledger *ledger, impmem__act act, impmem__subject subject, uint64_t bytes,
                                          news *told)
{
    if (ledger->capture_depth == 0) return IMPMEM_OK;
    told->violation.rule = IMPMEM_ERR_CAPTURING;
    told->violation.tag = subject.tag;
    told->violation.line = subject.line;
    told->violation.bytes = bytes;
    told->violation.count = ++ledger->violations.capturing[subject.tag];
    told->refused = true;
    refuse_locked(ledger, act, subject, bytes, IMPMEM_ERR_CAPTURING);
    return IMPMEM_ERR_CAPTURING;
}

static impmem_status guard_phase_locked(impmem_ledger *ledger, impmem__act act, impmem__subject subject, uint64_t bytes,
                                        news *told)
{
    if (act == IMPMEM__ACT_GIVE_BACK || impmem_ledger_phase(ledger) != IMPMEM_PHASE_SERVING) return IMPMEM_OK;
    if (act == IMPMEM__ACT_GROW) return IMPMEM_OK;
    told->violation.rule = IMPMEM_ERR_SERVING;
    told->violation.tag = subject.tag;
    told->violation.line = subject.line;
    told->violation.bytes = bytes;
    told->violation.count = ++ledger->violations.serving[subject.tag];
    if (!ledger->refuse_serving) return IMPMEM_OK;
    told->refused = true;
    refuse_locked(ledger, act, subject, bytes, IMPMEM_ERR_SERVING);
    return IMPMEM_ERR_SERVING;
}

static impmem_status guard_error(impmem_error *why, impmem_status status, impmem__subject subject, uint64_t bytes)
{
    if (!status) return status;
    (void)impmem__error_set(why, status, impmem_tag_name(subject.tag),
                            status == IMPMEM_ERR_CAPTURING ? "%s memory may not be touched while a graph is captured"
                                                           : "%s memory may not be acquired while serving",
                            impmem_tag_name(subject.tag));
    impmem__error_line(why, subject.line);
    impmem__error_bytes(why, bytes, 0);
    return status;
}

impmem_status impmem__guard(impmem_ledger *ledger, impmem__act act, impmem__subject subject, uint64_t bytes,
                            impmem_error *why)
{
    news told = {{IMPMEM_OK, IMPMEM_TAG_OTHER, IMPMEM_NO_LINE, 0, 0}, false};
    impmem__lock(ledger);
    impmem_status st = guard_capture_locked(ledger, act, subject, bytes, &told);
    if (!st) st = guard_phase_locked(ledger, act, subject, bytes, &told);
    impmem__unlock(ledger);
    tell(ledger, &told);
    return guard_error(why, st, subject, bytes);
}

/* ---- budget ------------------------------------------------------------------------------------------------------ */

impmem_status impmem__budget_error(impmem_error *why, const impmem_ledger *ledger, impmem__subject subject, uint64_t asked,
                                   uint64_t available)
{
    char asked_text[32], available_text[32], budget_text[32];
    impmem_status st = impmem__error_set(
        why, IMPMEM_ERR_BUDGET_EXCEEDED, impmem_tag_name(subject.tag),
        "%s asked for %s, but %s is left of the %s budget of %s", impmem_tag_name(subject.tag),
        impmem_format_mib(asked, asked_text, sizeof asked_text),
        impmem_format_mib(available, available_text, sizeof available_text), impmem_account_name(subject.account),
        impmem_format_mib(ledger->budget[subject.account], budget_text, sizeof budget_text));
    impmem__error_line(why, subject.line);
    impmem__error_bytes(why, asked, available);
    impmem__error_hint(why, "raise the %s budget or plan a smaller load", impmem_account_name(subject.account));
    return st;
}

static uint64_t left_of(const impmem_ledger *ledger, impmem_account account)
{
    uint64_t used = ledger->account[account].committed + ledger->pending[account];
    return ledger->budget[account] > used ? ledger->budget[account] - used : 0;
}

/* Takes the bytes of the budget, or says which account refused. UINT64_MAX counts as no limit; sums still can't wrap. */
static impmem_status take_pending_locked(impmem_ledger *ledger, impmem_account account, uint64_t bytes)
{
    if (bytes > left_of(ledger, account)) return IMPMEM_ERR_BUDGET_EXCEEDED;
    ledger->pending[account] += bytes;
    return IMPMEM_OK;
}

impmem_status impmem__enter(impmem_ledger *ledger, impmem__act act, impmem__subject subject, uint64_t bytes,
                            uint64_t host_bytes, impmem_error *why)
{
    news told = {{IMPMEM_OK, IMPMEM_TAG_OTHER, IMPMEM_NO_LINE, 0, 0}, false};
    impmem__subject host = impmem__host_subject(ledger, ledger->host_line, IMPMEM_TAG_HOST_CONTROL);
    impmem__subject refuser = subject;
    uint64_t asked = bytes, available = 0;
    impmem__lock(ledger);
    impmem_status st = guard_capture_locked(ledger, act, subject, bytes, &told);
    if (!st) {
        available = left_of(ledger, subject.account);
        st = take_pending_locked(ledger, subject.account, bytes);
        if (!st && host_bytes) {
            available = left_of(ledger, host.account);
            asked = host_bytes;
            refuser = host;
            st = take_pending_locked(ledger, host.account, host_bytes);
            if (st) ledger->pending[subject.account] -= bytes;
        }
        if (st) refuse_locked(ledger, act, subject, bytes, st);
        else ledger->in_flight++;
    }
    impmem__unlock(ledger);
    tell(ledger, &told);
    if (st == IMPMEM_ERR_BUDGET_EXCEEDED) return impmem__budget_error(why, ledger, refuser, asked, available);
    return guard_error(why, st, subject, bytes);
}

void impmem__leave_locked(impmem_ledger *ledger, impmem__subject subject, uint64_t bytes, uint64_t host_bytes)
{
    ledger->pending[subject.account] -= bytes;
    ledger->pending[IMPMEM_ACCOUNT_PAGEABLE] -= host_bytes;
    if (--ledger->in_flight == 0) (void)pthread_cond_broadcast(&ledger->drained);
}

impmem_status impmem__would_fit(impmem_ledger *ledger, impmem__subject subject, uint64_t more, uint64_t fewer,
                                impmem_error *why)
{
    if (more <= fewer) return IMPMEM_OK;
    impmem__lock(ledger);
    uint64_t available = left_of(ledger, subject.account);
    impmem_status st = more - fewer <= available ? IMPMEM_OK : IMPMEM_ERR_BUDGET_EXCEEDED;
    if (st) refuse_locked(ledger, IMPMEM__ACT_GROW, subject, more, st);
    impmem__unlock(ledger);
    return st ? impmem__budget_error(why, ledger, subject, more, available + fewer) : IMPMEM_OK;
}

void impmem__refused(impmem_ledger *ledger, impmem__subject subject, uint64_t bytes, impmem_status status)
{
    impmem__lock(ledger);
    impmem__journal_append(ledger, IMPMEM_JOURNAL_REFUSED, subject, bytes, status, 0);
    impmem__unlock(ledger);
}

/* ---- charges ----------------------------------------------------------------------------------------------------- */

static impmem__subject line_subject(const impmem__ledger_line *line)
{
    impmem__subject subject = {line->id, line->tag, line->account, 0, NULL};
    return subject;
}

impmem_status impmem_ledger_charge(impmem_ledger *ledger, impmem_line_id line_id, uint64_t bytes, impmem_error *why)
{
    if (!ledger) return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "ledger", "no ledger");
    impmem__ledger_line *line = impmem__find_line(ledger, line_id);
    if (!line) {
        impmem_status st = impmem__error_set(why, IMPMEM_ERR_UNPLANNED, "line", "the plan has no line %u", line_id);
        impmem__error_line(why, line_id);
        return st;
    }
    if (bytes == 0) return IMPMEM_OK;
    impmem__subject subject = line_subject(line);
    uint64_t sum;
    impmem__lock(ledger);
    uint64_t available = left_of(ledger, line->account);
    impmem_status st = impmem_add(&sum, ledger->account[line->account].committed, bytes);
    if (!st && bytes > available) st = IMPMEM_ERR_BUDGET_EXCEEDED;
    if (!st) {
        line->charged += bytes;
        ledger->charged += bytes;
        impmem__tally_take(ledger, subject, bytes);
        direct_take(ledger, subject, bytes);
    }
    impmem__journal_append(ledger, st ? IMPMEM_JOURNAL_REFUSED : IMPMEM_JOURNAL_CHARGE, subject, bytes, st, 0);
    impmem__unlock(ledger);
    if (st == IMPMEM_ERR_BUDGET_EXCEEDED) return impmem__budget_error(why, ledger, subject, bytes, available);
    return st ? impmem__error_set(why, st, line->name, "the charge overflows the account") : IMPMEM_OK;
}

impmem_status impmem_ledger_uncharge(impmem_ledger *ledger, impmem_line_id line_id, uint64_t bytes)
{
    if (!ledger) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem__ledger_line *line = impmem__find_line(ledger, line_id);
    if (!line) return IMPMEM_ERR_UNPLANNED;
    if (bytes == 0) return IMPMEM_OK;
    impmem__subject subject = line_subject(line);
    impmem_status st = IMPMEM_ERR_INVALID_ARGUMENT;
    impmem__lock(ledger);
    if (bytes <= line->charged) {
        st = IMPMEM_OK;
        line->charged -= bytes;
        ledger->charged -= bytes;
        impmem__tally_give(ledger, subject, bytes);
        direct_give(ledger, subject, bytes);
        impmem__journal_append(ledger, IMPMEM_JOURNAL_UNCHARGE, subject, bytes, IMPMEM_OK, 0);
    }
    impmem__unlock(ledger);
    return st;
}

/* ---- host memory ------------------------------------------------------------------------------------------------- */

impmem__subject impmem__host_subject(const impmem_ledger *ledger, impmem_line_id line, impmem_tag tag)
{
    impmem__subject subject = {impmem__known_line(ledger, line), tag, IMPMEM_ACCOUNT_PAGEABLE, 0, NULL};
    return subject;
}

void impmem__host_book_locked(impmem_ledger *ledger, impmem__subject subject, uint64_t bytes)
{
    impmem__tally_take(ledger, subject, bytes);
    impmem__tally_reserve(ledger, subject, bytes);
    direct_take(ledger, subject, bytes);
    impmem__journal_append(ledger, IMPMEM_JOURNAL_ACQUIRE, subject, bytes, IMPMEM_OK, 0);
}

void impmem__host_unbook_locked(impmem_ledger *ledger, impmem__subject subject, uint64_t bytes)
{
    impmem__tally_give(ledger, subject, bytes);
    impmem__tally_unreserve(ledger, subject, bytes);
    direct_give(ledger, subject, bytes);
    impmem__journal_append(ledger, IMPMEM_JOURNAL_RELEASE, subject, bytes, IMPMEM_OK, 0);
}

impmem_status impmem_ledger_host_allocate(impmem_ledger *ledger, impmem_line_id line, impmem_tag tag, uint64_t bytes,
                                          void **out, impmem_error *why)
{
    if (!ledger || !out || bytes == 0 || (unsigned)tag >= IMPMEM_N_TAGS)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "host memory", "no ledger, no bytes or no such tag");
    impmem__subject subject = impmem__host_subject(ledger, line, tag);
    impmem_status st = impmem__guard(ledger, IMPMEM__ACT_ACQUIRE, subject, bytes, why);
    if (st) return st;
    uint64_t sum;
    if (impmem_add(&sum, bytes, 2 * (uint64_t)IMPMEM__TABLE_ALIGNMENT) || sum > SIZE_MAX)
        return impmem__error_set(why, IMPMEM_ERR_OVERFLOW, impmem_tag_name(tag),
                                 "%llu bytes are more than can be addressed", (unsigned long long)bytes);
    st = impmem__enter(ledger, IMPMEM__ACT_ACQUIRE, subject, bytes, 0, why);
    if (st) return st;
    void *memory = impmem__allocate_zeroed(&ledger->allocator, bytes, IMPMEM__TABLE_ALIGNMENT);
    impmem__lock(ledger);
    impmem__leave_locked(ledger, subject, bytes, 0);
    subject.base = memory;
    if (memory) impmem__host_book_locked(ledger, subject, bytes);
    else impmem__journal_append(ledger, IMPMEM_JOURNAL_REFUSED, subject, bytes, IMPMEM_ERR_OUT_OF_HOST_MEMORY, 0);
    impmem__unlock(ledger);
    if (!memory) {
        st = impmem__error_set(why, IMPMEM_ERR_OUT_OF_HOST_MEMORY, impmem_tag_name(tag),
                               "the host allocator refused %llu bytes", (unsigned long long)bytes);
        impmem__error_line(why, subject.line);
        impmem__error_bytes(why, bytes, 0);
        return st;
    }
    *out = memory;
    return IMPMEM_OK;
}

void impmem_ledger_host_free(impmem_ledger *ledger, impmem_line_id line, impmem_tag tag, void *memory, uint64_t bytes)
{
    if (!ledger || !memory || (unsigned)tag >= IMPMEM_N_TAGS) return;
    impmem__subject subject = impmem__host_subject(ledger, line, tag);
    subject.base = memory;
    impmem__lock(ledger);
    const impmem__ledger_line *known = impmem__find_line(ledger, subject.line);
    uint64_t on_line = known ? known->tally.direct_live : ledger->unplanned_committed;
    bool held = bytes <= on_line && bytes <= ledger->tag[tag].direct_live;
    if (held) impmem__host_unbook_locked(ledger, subject, bytes);
    impmem__unlock(ledger);
    if (!held)
        impmem__ledger_log(ledger,
                           "host memory freed with another size, line or tag than at allocation: %llu bytes tagged %s",
                           (unsigned long long)bytes, impmem_tag_name(tag));
    impmem__release(&ledger->allocator, memory, bytes);
}
