/* Reading the ledger: usage of lines, tags and accounts, what is unplanned, what was counted. */
#include <string.h>

#include "backend/internal.h"

/* Which bytes to add up: all of one line, one tag or one account. */
typedef enum select_by { BY_LINE, BY_TAG, BY_ACCOUNT } select_by;
typedef struct selector {
    select_by by;
    uint32_t value;
} selector;

static bool selects(selector s, impmem_line_id line, impmem_tag tag, impmem_account account)
{
    switch (s.by) {
    case BY_LINE: return line == s.value;
    case BY_TAG: return (uint32_t)tag == s.value;
    case BY_ACCOUNT: return (uint32_t)account == s.value;
    }
    return false;
}

typedef struct live_sum {
    uint64_t live;
    uint64_t peaks;
} live_sum;

static void add_counter(live_sum *sum, const impmem__line_counter *counter)
{
    sum->live += atomic_load_explicit(&counter->live, memory_order_relaxed);
    sum->peaks += atomic_load_explicit(&counter->peak, memory_order_relaxed);
}

static impmem_line_id counter_line(const impmem_region *region, uint32_t i)
{
    return region->n_shares ? region->share[i].line : region->line;
}

static live_sum sum_live(const impmem_ledger *ledger, selector s, const impmem__tally *tally)
{
    live_sum sum = {tally->direct_live, tally->direct_peak};
    for (uint32_t i = 0; i < ledger->n_lines; i++) {
        const impmem__ledger_line *line = &ledger->line[i];
        if (selects(s, line->id, line->tag, line->account)) add_counter(&sum, &line->counter);
    }
    for (uint32_t t = 0; t < IMPMEM_N_TAGS; t++) {
        for (uint32_t a = 0; a < IMPMEM_N_ACCOUNTS; a++) {
            if (selects(s, IMPMEM_NO_LINE, (impmem_tag)t, (impmem_account)a)) add_counter(&sum, &ledger->unplanned[t][a]);
        }
    }
    for (const impmem_region *region = ledger->regions; region; region = region->next) {
        for (uint32_t i = 0; i < region->n_counters; i++) {
            if (selects(s, counter_line(region, i), region->tag, region->backend->properties.account))
                add_counter(&sum, &region->counter[i]);
        }
    }
    return sum;
}

static void fold_peak(impmem_ledger *ledger, selector s, impmem__tally *tally)
{
    uint64_t peaks = sum_live(ledger, s, tally).peaks;
    if (peaks > tally->past_live_peak) tally->past_live_peak = peaks;
}

void impmem__fold_live_peaks(impmem_ledger *ledger, const impmem_region *region)
{
    impmem_account account = region->backend->properties.account;
    for (uint32_t i = 0; i < region->n_counters; i++) {
        impmem__ledger_line *line = impmem__find_line(ledger, counter_line(region, i));
        if (line) fold_peak(ledger, (selector){BY_LINE, line->id}, &line->tally);
    }
    fold_peak(ledger, (selector){BY_TAG, (uint32_t)region->tag}, &ledger->tag[region->tag]);
    fold_peak(ledger, (selector){BY_ACCOUNT, (uint32_t)account}, &ledger->account[account]);
}

static void fill_usage(const impmem_ledger *ledger, selector s, const impmem__tally *tally, impmem_usage *out)
{
    live_sum sum = sum_live(ledger, s, tally);
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < ledger->n_lines; i++) {
        const impmem__ledger_line *line = &ledger->line[i];
        if (selects(s, line->id, line->tag, line->account)) out->planned_bytes += line->planned;
    }
    out->committed_bytes = tally->committed;
    out->committed_peak_bytes = tally->committed_peak;
    out->reserved_bytes = tally->reserved;
    out->live_bytes = sum.live;
    out->live_peak_bytes = sum.peaks > tally->past_live_peak ? sum.peaks : tally->past_live_peak;
}

impmem_status impmem_ledger_line_usage(const impmem_ledger *ledger, impmem_line_id line_id, impmem_usage *out)
{
    if (!ledger || !out) return IMPMEM_ERR_INVALID_ARGUMENT;
    const impmem__ledger_line *line = impmem__find_line(ledger, line_id);
    if (!line) return IMPMEM_ERR_UNPLANNED;
    impmem__lock(ledger);
    fill_usage(ledger, (selector){BY_LINE, line_id}, &line->tally, out);
    impmem__unlock(ledger);
    return IMPMEM_OK;
}

void impmem_ledger_tag_usage(const impmem_ledger *ledger, impmem_tag tag, impmem_usage *out)
{
    if (!out) return;
    memset(out, 0, sizeof *out);
    if (!ledger || (unsigned)tag >= IMPMEM_N_TAGS) return;
    impmem__lock(ledger);
    fill_usage(ledger, (selector){BY_TAG, (uint32_t)tag}, &ledger->tag[tag], out);
    impmem__unlock(ledger);
}

void impmem_ledger_account_usage(const impmem_ledger *ledger, impmem_account account, impmem_usage *out)
{
    if (!out) return;
    memset(out, 0, sizeof *out);
    if (!ledger || (unsigned)account >= IMPMEM_N_ACCOUNTS) return;
    impmem__lock(ledger);
    fill_usage(ledger, (selector){BY_ACCOUNT, (uint32_t)account}, &ledger->account[account], out);
    impmem__unlock(ledger);
}

uint64_t impmem_ledger_budget_bytes(const impmem_ledger *ledger, impmem_account account)
{
    return ledger && (unsigned)account < IMPMEM_N_ACCOUNTS ? ledger->budget[account] : 0;
}

uint64_t impmem_ledger_unplanned_bytes(const impmem_ledger *ledger)
{
    impmem__lock(ledger);
    uint64_t bytes = ledger->unplanned_committed;
    for (uint32_t i = 0; i < ledger->n_lines; i++) {
        const impmem__ledger_line *line = &ledger->line[i];
        if (line->tally.committed > line->planned) bytes += line->tally.committed - line->planned;
    }
    impmem__unlock(ledger);
    return bytes;
}

uint64_t impmem_ledger_serving_acquisitions(const impmem_ledger *ledger)
{
    uint64_t count = 0;
    impmem__lock(ledger);
    for (uint32_t t = 0; t < IMPMEM_N_TAGS; t++) count += ledger->violations.serving[t];
    impmem__unlock(ledger);
    return count;
}

uint64_t impmem_ledger_serving_acquisitions_of(const impmem_ledger *ledger, impmem_tag tag)
{
    return (unsigned)tag < IMPMEM_N_TAGS ? impmem__read_locked(ledger, &ledger->violations.serving[tag]) : 0;
}

uint64_t impmem_ledger_serving_commits(const impmem_ledger *ledger)
{
    return impmem__read_locked(ledger, &ledger->serving_commits);
}
