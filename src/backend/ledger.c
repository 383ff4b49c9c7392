/* The ledger's life, its phases and the capture guard. */
#define _GNU_SOURCE
#include "impmem/ledger.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "backend/internal.h"
#include "impmem/control.h"

static uint64_t monotonic_ns(void *context)
{
    (void)context;
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) return 0;
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t draw_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) seed = monotonic_ns(NULL);
    return seed ? seed : 1;
}

const char *impmem_phase_name(impmem_phase phase)
{
    switch (phase) {
    case IMPMEM_PHASE_LOADING: return "loading";
    case IMPMEM_PHASE_PLANNING: return "planning";
    case IMPMEM_PHASE_SERVING: return "serving";
    }
    return "?";
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static bool lines_valid(const impmem_lines *lines)
{
    if (lines->n_lines && !lines->line) return false;
    for (uint32_t i = 0; i < lines->n_lines; i++) {
        const impmem_line *line = &lines->line[i];
        if (line->id == IMPMEM_NO_LINE || (unsigned)line->account >= IMPMEM_N_ACCOUNTS ||
            (unsigned)line->tag >= IMPMEM_N_TAGS)
            return false;
        for (uint32_t j = 0; j < i; j++) {
            if (lines->line[j].id == line->id) return false;
        }
    }
    return true;
}

static void copy_lines(impmem_ledger *ledger, const impmem_lines *lines)
{
    for (uint32_t i = 0; i < IMPMEM_N_ACCOUNTS; i++) ledger->budget[i] = lines ? lines->budget_bytes[i] : UINT64_MAX;
    ledger->n_lines = lines ? lines->n_lines : 0;
    for (uint32_t i = 0; i < ledger->n_lines; i++) {
        const impmem_line *from = &lines->line[i];
        impmem__ledger_line *to = &ledger->line[i];
        to->id = from->id;
        to->account = from->account;
        to->tag = from->tag;
        to->flags = from->flags;
        to->planned = from->bytes;
        memcpy(to->name, from->name, sizeof to->name);
        to->name[sizeof to->name - 1] = '\0';
    }
}

static void copy_options(impmem_ledger *ledger, const impmem_ledger_options *options)
{
    impmem_serving_policy serving = options->serving;
#ifdef NDEBUG
    if (serving == IMPMEM_SERVING_DEFAULT) serving = IMPMEM_SERVING_COUNT;
#else
    if (serving == IMPMEM_SERVING_DEFAULT) serving = IMPMEM_SERVING_REFUSE;
#endif
    ledger->refuse_serving = serving == IMPMEM_SERVING_REFUSE;
    ledger->seed = options->seed ? options->seed : draw_seed();
    ledger->clock_ns = options->clock_ns ? options->clock_ns : monotonic_ns;
    ledger->clock_context = options->clock_context;
    ledger->violation = options->violation;
    ledger->violation_context = options->violation_context;
    ledger->log = options->log;
    ledger->log_context = options->log_context;
}

/* Books the ledger's own memory as the first record, or answers BUDGET_EXCEEDED. */
static impmem_status book_own_memory(impmem_ledger *ledger)
{
    if (ledger->own_bytes > ledger->budget[IMPMEM_ACCOUNT_PAGEABLE]) return IMPMEM_ERR_BUDGET_EXCEEDED;
    ledger->host_line = impmem__known_line(ledger, IMPMEM_LINE_HOST_CONTROL);
    impmem__subject own = impmem__host_subject(ledger, ledger->host_line, IMPMEM_TAG_HOST_CONTROL);
    own.base = ledger;
    impmem__host_book_locked(ledger, own, ledger->own_bytes);
    return IMPMEM_OK;
}

impmem_status impmem_ledger_create(const impmem_lines *lines, const impmem_ledger_options *options, impmem_ledger **out)
{
    const impmem_ledger_options defaults = IMPMEM_LEDGER_OPTIONS_INIT;
    if (!options) options = &defaults;
    if (!out) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem_status st = impmem__options_check(options->size, options->version, sizeof *options, 1);
    if (st) return st;
    if ((unsigned)options->serving > IMPMEM_SERVING_COUNT) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (lines && !lines_valid(lines)) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem_allocator allocator;
    st = impmem__allocator_resolve(options->allocator, &allocator);
    if (st) return st;

    uint32_t records = options->journal_records ? options->journal_records : IMPMEM__JOURNAL_DEFAULT_RECORDS;
    uint32_t n_lines = lines ? lines->n_lines : 0;
    uint64_t bytes, lines_bytes;
    if (impmem_control_ledger_bytes(n_lines, records, &bytes) ||
        impmem_align_up(&lines_bytes, (uint64_t)n_lines * IMPMEM__LEDGER_LINE_BYTES, IMPMEM__TABLE_ALIGNMENT))
        return IMPMEM_ERR_OVERFLOW;
    unsigned char *memory = impmem__allocate_zeroed(&allocator, bytes, IMPMEM__TABLE_ALIGNMENT);
    if (!memory) return IMPMEM_ERR_OUT_OF_HOST_MEMORY;

    impmem_ledger *ledger = (impmem_ledger *)(void *)memory;
    ledger->self = ledger;
    ledger->allocator = allocator;
    ledger->own_bytes = bytes;
    ledger->line = (impmem__ledger_line *)(void *)(memory + IMPMEM__LEDGER_HEADER_BYTES);
    ledger->record = (impmem_journal_record *)(void *)(memory + IMPMEM__LEDGER_HEADER_BYTES + lines_bytes);
    ledger->journal_capacity = records;
    copy_lines(ledger, lines);
    copy_options(ledger, options);
    st = book_own_memory(ledger);
    if (!st && pthread_mutex_init(&ledger->lock, NULL) != 0) st = IMPMEM_ERR_OUT_OF_HOST_MEMORY;
    if (!st && pthread_cond_init(&ledger->drained, NULL) != 0) {
        (void)pthread_mutex_destroy(&ledger->lock);
        st = IMPMEM_ERR_OUT_OF_HOST_MEMORY;
    }
    if (st) {
        impmem__release(&allocator, memory, bytes);
        return st;
    }
    *out = ledger;
    return IMPMEM_OK;
}

/* Something other than charges and the ledger itself is held: says what, naming a region before a line before a tag. */
static impmem_status find_holder(const impmem_ledger *ledger, impmem_error *why)
{
    if (ledger->regions) {
        const impmem_region *region = ledger->regions;
        impmem_status st = impmem__error_set(why, IMPMEM_ERR_LIVE_HOLDERS, impmem_tag_name(region->tag),
                                             "a region tagged %s of %llu bytes is still held", impmem_tag_name(region->tag),
                                             (unsigned long long)region->reserved);
        impmem__error_line(why, region->line);
        return st;
    }
    for (uint32_t i = 0; i < ledger->n_lines; i++) {
        const impmem__ledger_line *line = &ledger->line[i];
        uint64_t spared = line->charged + (line->id == ledger->host_line ? ledger->own_bytes : 0);
        if (line->tally.committed > spared) {
            impmem_status st = impmem__error_set(
                why, IMPMEM_ERR_LIVE_HOLDERS, line->name, "%llu bytes of line %u (%s) are still held",
                (unsigned long long)(line->tally.committed - spared), line->id, line->name);
            impmem__error_line(why, line->id);
            return st;
        }
    }
    uint64_t spared = ledger->host_line == IMPMEM_NO_LINE ? ledger->own_bytes : 0;
    if (ledger->unplanned_committed <= spared) return IMPMEM_OK;
    for (uint32_t t = 0; t < IMPMEM_N_TAGS; t++) {
        uint64_t held = ledger->tag[t].committed;
        if (t == IMPMEM_TAG_HOST_CONTROL) held -= ledger->own_bytes < held ? ledger->own_bytes : held;
        if (held)
            return impmem__error_set(why, IMPMEM_ERR_LIVE_HOLDERS, impmem_tag_name((impmem_tag)t),
                                     "%llu unplanned bytes tagged %s are still held",
                                     (unsigned long long)(ledger->unplanned_committed - spared),
                                     impmem_tag_name((impmem_tag)t));
    }
    return impmem__error_set(why, IMPMEM_ERR_LIVE_HOLDERS, "", "unplanned bytes are still held");
}

impmem_status impmem_ledger_destroy(impmem_ledger *ledger, impmem_error *why)
{
    if (!ledger) return IMPMEM_OK;
    impmem__lock(ledger);
    impmem_status st = find_holder(ledger, why);
    impmem__unlock(ledger);
    if (st) return st;
    impmem_allocator allocator = ledger->allocator;
    uint64_t bytes = ledger->own_bytes;
    (void)pthread_cond_destroy(&ledger->drained);
    (void)pthread_mutex_destroy(&ledger->lock);
    impmem__release(&allocator, ledger, bytes);
    return IMPMEM_OK;
}

void impmem__ledger_log(const impmem_ledger *ledger, const char *fmt, ...)
{
    if (!ledger->log) return;
    char text[256];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n >= 0) ledger->log(ledger->log_context, text);
}

uint64_t impmem_ledger_now_ns(const impmem_ledger *ledger)
{
    return ledger->clock_ns(ledger->clock_context);
}

uint64_t impmem_ledger_seed(const impmem_ledger *ledger)
{
    return ledger->seed;
}

/* ---- phases ------------------------------------------------------------------------------------------------------ */

impmem_phase impmem_ledger_phase(const impmem_ledger *ledger)
{
    return (impmem_phase)atomic_load_explicit(&ledger->phase, memory_order_acquire);
}

static void enter_phase_locked(impmem_ledger *ledger, impmem_phase phase, uint32_t replan)
{
    impmem__subject nobody = {IMPMEM_NO_LINE, IMPMEM_TAG_OTHER, IMPMEM_ACCOUNT_DEVICE, 0, NULL};
    atomic_store_explicit(&ledger->phase, (int)phase, memory_order_release);
    impmem__journal_append(ledger, IMPMEM_JOURNAL_PHASE, nobody, (uint64_t)phase, IMPMEM_OK, replan);
}

/* STAGING_LIVE, and the violation to report, when some staging is still open. */
static impmem_status staging_gone_locked(impmem_ledger *ledger, impmem_violation *violation, impmem_error *why)
{
    if (!ledger->staging) return IMPMEM_OK;
    violation->rule = IMPMEM_ERR_STAGING_LIVE;
    violation->tag = IMPMEM_TAG_HOST_STAGING;
    violation->line = IMPMEM_NO_LINE;
    violation->bytes = ledger->tag[IMPMEM_TAG_HOST_STAGING].committed;
    violation->count = ++ledger->violations.staging_live;
    impmem_status st = impmem__error_set(why, IMPMEM_ERR_STAGING_LIVE, ledger->staging->name,
                                         "staging memory \"%s\" is still open after loading", ledger->staging->name);
    impmem__error_hint(why, "close it before the phase changes");
    return st;
}

impmem_status impmem_ledger_set_phase(impmem_ledger *ledger, impmem_phase phase, impmem_error *why)
{
    if (!ledger || (unsigned)phase > IMPMEM_PHASE_SERVING)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "phase", "no ledger, or no such phase");
    impmem_violation violation = {IMPMEM_OK, IMPMEM_TAG_OTHER, IMPMEM_NO_LINE, 0, 0};
    impmem_status st = IMPMEM_OK;
    impmem__lock(ledger);
    impmem_phase now = impmem_ledger_phase(ledger);
    if (ledger->in_replan) {
        st = impmem__error_set(why, IMPMEM_ERR_STATE, impmem_phase_name(phase), "a replan is open; end that first");
    } else if (phase < now) {
        st = impmem__error_set(why, IMPMEM_ERR_PHASE_ORDER, impmem_phase_name(phase), "%s does not come after %s",
                               impmem_phase_name(phase), impmem_phase_name(now));
        impmem__error_hint(why, "impmem_ledger_replan_begin is the way back from serving");
    } else if (phase > now) {
        st = staging_gone_locked(ledger, &violation, why);
        if (!st) enter_phase_locked(ledger, phase, 0);
    }
    impmem__unlock(ledger);
    if (violation.rule && ledger->violation) ledger->violation(ledger->violation_context, &violation);
    if (!st && phase > now) impmem__ledger_log(ledger, "phase: %s -> %s", impmem_phase_name(now), impmem_phase_name(phase));
    return st;
}

impmem_status impmem_ledger_replan_begin(impmem_ledger *ledger, const char *reason)
{
    if (!ledger || !reason) return IMPMEM_ERR_INVALID_ARGUMENT;
    char text[IMPMEM__REASON_BYTES];
    (void)snprintf(text, sizeof text, "%s", reason);
    impmem_status st = IMPMEM_ERR_STATE;
    impmem__lock(ledger);
    if (!ledger->in_replan && impmem_ledger_phase(ledger) == IMPMEM_PHASE_SERVING) {
        st = IMPMEM_OK;
        ledger->in_replan = true;
        ledger->replans++;
        memcpy(ledger->reason[ledger->replans % IMPMEM__REASONS_KEPT], text, sizeof text);
        enter_phase_locked(ledger, IMPMEM_PHASE_PLANNING, ledger->replans);
    }
    impmem__unlock(ledger);
    if (!st) impmem__ledger_log(ledger, "replan begins: %s", text);
    return st;
}

impmem_status impmem_ledger_replan_end(impmem_ledger *ledger, impmem_error *why)
{
    if (!ledger) return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "ledger", "no ledger");
    impmem_violation violation = {IMPMEM_OK, IMPMEM_TAG_OTHER, IMPMEM_NO_LINE, 0, 0};
    char text[IMPMEM__REASON_BYTES] = "";
    impmem_status st;
    impmem__lock(ledger);
    if (!ledger->in_replan) {
        st = impmem__error_set(why, IMPMEM_ERR_STATE, "replan", "no replan is open");
    } else {
        st = staging_gone_locked(ledger, &violation, why);
        if (!st) {
            ledger->in_replan = false;
            memcpy(text, ledger->reason[ledger->replans % IMPMEM__REASONS_KEPT], sizeof text);
            enter_phase_locked(ledger, IMPMEM_PHASE_SERVING, ledger->replans);
        }
    }
    impmem__unlock(ledger);
    if (violation.rule && ledger->violation) ledger->violation(ledger->violation_context, &violation);
    if (!st) impmem__ledger_log(ledger, "replan ends: %s", text);
    return st;
}

impmem_status impmem_ledger_replan_reason(const impmem_ledger *ledger, uint32_t replan, char *out, size_t out_bytes)
{
    if (!ledger || !out || out_bytes == 0) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem_status st = IMPMEM_ERR_NOT_FOUND;
    impmem__lock(ledger);
    if (replan != 0 && replan <= ledger->replans && ledger->replans - replan < IMPMEM__REASONS_KEPT) {
        st = IMPMEM_OK;
        (void)snprintf(out, out_bytes, "%s", ledger->reason[replan % IMPMEM__REASONS_KEPT]);
    }
    impmem__unlock(ledger);
    return st;
}

/* ---- capture ----------------------------------------------------------------------------------------------------- */

impmem_status impmem_ledger_capture_begin(impmem_ledger *ledger)
{
    if (!ledger) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem_status st = IMPMEM_OK;
    impmem__lock(ledger);
    if (ledger->capture_depth == UINT32_MAX) {
        st = IMPMEM_ERR_OVERFLOW;
    } else {
        ledger->capture_depth++;
        while (ledger->in_flight > 0) (void)pthread_cond_wait(&ledger->drained, &ledger->lock);
    }
    impmem__unlock(ledger);
    return st;
}

impmem_status impmem_ledger_capture_end(impmem_ledger *ledger)
{
    if (!ledger) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem_status st = IMPMEM_ERR_STATE;
    impmem__lock(ledger);
    if (ledger->capture_depth > 0) {
        ledger->capture_depth--;
        st = IMPMEM_OK;
    }
    impmem__unlock(ledger);
    return st;
}
