/* impmem/ledger.h - the account book of one engine on one device. Floor 1, implemented by src/backend/ledger.c.
 *
 *   impmem_lines lines = impmem_plan_lines(&plan);
 *   impmem_ledger *ledger;
 *   if (impmem_ledger_create(&lines, NULL, &ledger)) ...       NULL = default options
 *   ... backends, engine ...
 *   impmem_ledger_destroy(ledger);                             after every backend of it
 *
 * Every backend of the engine books here, so two backends can never each spend the budget. All functions are thread-safe;
 * none is meant for a hot path: the ledger is touched per region, never per take.
 */
#ifndef IMPMEM_LEDGER_H
#define IMPMEM_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#include "impmem/allocator.h"
#include "impmem/journal.h"
#include "impmem/line.h"
#include "impmem/status.h"
#include "impmem/write.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum impmem_phase {
    IMPMEM_PHASE_LOADING = 0,  /* weights come up, arenas open */
    IMPMEM_PHASE_PLANNING = 1, /* pools open, warm-up, graph capture */
    IMPMEM_PHASE_SERVING = 2   /* zero acquisitions, and it is counted */
} impmem_phase;

const char *impmem_phase_name(impmem_phase phase); /* "loading", "planning", "serving", "?" */

/* What to do with an acquisition while Serving. Either way it is counted per tag and the violation callback runs. */
typedef enum impmem_serving_policy {
    IMPMEM_SERVING_DEFAULT = 0, /* REFUSE when the library was built without NDEBUG, else COUNT */
    IMPMEM_SERVING_REFUSE = 1,  /* IMPMEM_ERR_SERVING, the backend is not reached */
    IMPMEM_SERVING_COUNT = 2    /* go on */
} impmem_serving_policy;

/* Passed to the violation callback, outside the ledger's lock: the callback may read the ledger, not change it. */
typedef struct impmem_violation {
    impmem_status rule; /* IMPMEM_ERR_SERVING, IMPMEM_ERR_CAPTURING or IMPMEM_ERR_STAGING_LIVE */
    impmem_tag tag;
    impmem_line_id line;
    uint64_t bytes;
    uint64_t count; /* how many of this tag so far, this one included */
} impmem_violation;

typedef struct impmem_ledger_options {
    uint32_t size;              /* sizeof(impmem_ledger_options) */
    uint32_t version;           /* 1 */
    impmem_allocator allocator; /* for every host table of this engine; zeroed = the C library's */
    uint32_t journal_records;   /* ring size; 0 = 4096 */
    impmem_serving_policy serving;
    uint64_t seed;                       /* for whatever needs one (index hashes); 0 = drawn from the system */
    uint64_t (*clock_ns)(void *context); /* NULL = the monotonic clock; may not call the ledger */
    void *clock_context;
    void (*violation)(void *context, const impmem_violation *violation);
    void *violation_context;
    void (*log)(void *context, const char *line); /* one line of text without newline; NULL = silent */
    void *log_context;
} impmem_ledger_options;

#define IMPMEM_LEDGER_OPTIONS_INIT                                                                                         \
    {                                                                                                                      \
        sizeof(impmem_ledger_options), 1, {NULL, NULL, NULL}, 0, IMPMEM_SERVING_DEFAULT, 0, NULL, NULL, NULL, NULL, NULL,  \
            NULL                                                                                                           \
    }

/* Copies the lines. lines NULL = no plan: no budgets, and every byte is unplanned. Two lines of one id are
 * IMPMEM_ERR_INVALID_ARGUMENT. The ledger's own memory is its first journal record, on IMPMEM_LINE_HOST_CONTROL.
 * Errors: INVALID_ARGUMENT, VERSION, OUT_OF_HOST_MEMORY, BUDGET_EXCEEDED (host control above its budget). */
IMPMEM_NODISCARD impmem_status impmem_ledger_create(const impmem_lines *lines, const impmem_ledger_options *options,
                                                    impmem_ledger **out);

/* NULL is fine. IMPMEM_ERR_LIVE_HOLDERS, and nothing is destroyed, while bytes of any account other than the ledger's own
 * are live; the message of `why` names the first line or tag that holds them. Charges hold nothing open. */
IMPMEM_NODISCARD impmem_status impmem_ledger_destroy(impmem_ledger *ledger, impmem_error *why);

/* ---- phases ------------------------------------------------------------------------------------------------------ */

impmem_phase impmem_ledger_phase(const impmem_ledger *ledger);

/* Loading -> Planning -> Serving, skipping allowed, never back: IMPMEM_ERR_PHASE_ORDER. The present phase again is
 * IMPMEM_OK and no event; any phase inside a replan is IMPMEM_ERR_STATE. Entering a later phase with live
 * staging memory is IMPMEM_ERR_STAGING_LIVE, the phase stays, `why` names the staging. */
IMPMEM_NODISCARD impmem_status impmem_ledger_set_phase(impmem_ledger *ledger, impmem_phase phase, impmem_error *why);

/* A scoped way back, for a model swap: Serving -> Planning, with a reason (copied, up to 63 bytes) that is logged and
 * journalled at both edges. Not nested: IMPMEM_ERR_STATE. `_end` returns to Serving. */
IMPMEM_NODISCARD impmem_status impmem_ledger_replan_begin(impmem_ledger *ledger, const char *reason);
IMPMEM_NODISCARD impmem_status impmem_ledger_replan_end(impmem_ledger *ledger, impmem_error *why);
/* The reason of replan 1, 2, ...: the number that the `detail` of its two PHASE records holds. The newest 16 are kept;
 * older and future ones are NOT_FOUND. Cut to `out_bytes` with its terminator. */
IMPMEM_NODISCARD impmem_status impmem_ledger_replan_reason(const impmem_ledger *ledger, uint32_t replan, char *out,
                                                           size_t out_bytes);

/* `_begin` waits for the calls of other threads that have reached a backend. Between the two, acquire, release, reserve,
 * commit and decommit of every backend of this ledger return IMPMEM_ERR_CAPTURING without reaching the driver. Nests;
 * `_end` without `_begin` is IMPMEM_ERR_STATE. */
IMPMEM_NODISCARD impmem_status impmem_ledger_capture_begin(impmem_ledger *ledger);
IMPMEM_NODISCARD impmem_status impmem_ledger_capture_end(impmem_ledger *ledger);

/* ---- charges: bytes that are spoken for but that nobody here acquires -------------------------------------------- */

/* Adds to the line's account. BUDGET_EXCEEDED, UNPLANNED (no such line), OVERFLOW; on failure nothing changed but the
 * REFUSED journal record. To `uncharge` more than is charged is INVALID_ARGUMENT. */
IMPMEM_NODISCARD impmem_status impmem_ledger_charge(impmem_ledger *ledger, impmem_line_id line, uint64_t bytes,
                                                    impmem_error *why);
IMPMEM_NODISCARD impmem_status impmem_ledger_uncharge(impmem_ledger *ledger, impmem_line_id line, uint64_t bytes);

/* ---- host memory of the library's own tables --------------------------------------------------------------------- */

/* Through the caller's allocator, charged to `line` (an id of the plan, or IMPMEM_NO_LINE) on the pageable account,
 * journalled, aligned to 64, zeroed. Allowed in every phase but counted as an acquisition while Serving.
 * Errors: OUT_OF_HOST_MEMORY, BUDGET_EXCEEDED, SERVING, CAPTURING, OVERFLOW. */
IMPMEM_NODISCARD impmem_status impmem_ledger_host_allocate(impmem_ledger *ledger, impmem_line_id line, impmem_tag tag,
                                                           uint64_t bytes, void **out, impmem_error *why);
/* `bytes`, `line` and `tag` as at allocation. NULL memory is fine. Allowed while capturing (no driver is reached). */
void impmem_ledger_host_free(impmem_ledger *ledger, impmem_line_id line, impmem_tag tag, void *memory, uint64_t bytes);

/* ---- counters ---------------------------------------------------------------------------------------------------- */

/* One line, tag or account. `live` is what users of the region took from it (arena takes, blocks); it is kept by the tier
 * allocators and read here; `committed` is what the backend holds. Host tables and charges are live while they are held; a
 * charge reserves nothing. `live_peak_bytes` is the sum of the holders' own peaks: exact for one holder, never too low for
 * several. */
typedef struct impmem_usage {
    uint64_t planned_bytes;
    uint64_t committed_bytes;
    uint64_t committed_peak_bytes;
    uint64_t reserved_bytes; /* address space, committed part included */
    uint64_t live_bytes;
    uint64_t live_peak_bytes;
} impmem_usage;

/* IMPMEM_ERR_UNPLANNED: no such line. */
IMPMEM_NODISCARD impmem_status impmem_ledger_line_usage(const impmem_ledger *ledger, impmem_line_id line,
                                                        impmem_usage *out);
void impmem_ledger_tag_usage(const impmem_ledger *ledger, impmem_tag tag, impmem_usage *out);
void impmem_ledger_account_usage(const impmem_ledger *ledger, impmem_account account, impmem_usage *out);
uint64_t impmem_ledger_budget_bytes(const impmem_ledger *ledger, impmem_account account);

/* Bytes on no line, plus what lines hold above their plan. 0 in a healthy engine. */
uint64_t impmem_ledger_unplanned_bytes(const impmem_ledger *ledger);
/* Acquisitions attempted while Serving, refused or not; all tags, and one. */
uint64_t impmem_ledger_serving_acquisitions(const impmem_ledger *ledger);
uint64_t impmem_ledger_serving_acquisitions_of(const impmem_ledger *ledger, impmem_tag tag);
/* Commits inside a planned reservation while Serving that achieved something: growth as planned, not a violation. */
uint64_t impmem_ledger_serving_commits(const impmem_ledger *ledger);

uint64_t impmem_ledger_now_ns(const impmem_ledger *ledger);
uint64_t impmem_ledger_seed(const impmem_ledger *ledger); /* never 0 */

/* ---- journal ----------------------------------------------------------------------------------------------------- */

/* Records first <= i < end are kept. */
uint64_t impmem_ledger_journal_first(const impmem_ledger *ledger);
uint64_t impmem_ledger_journal_end(const impmem_ledger *ledger);
IMPMEM_NODISCARD impmem_status impmem_ledger_journal_read(const impmem_ledger *ledger, uint64_t sequence,
                                                          impmem_journal_record *out); /* NOT_FOUND: dropped or not yet */
uint64_t impmem_ledger_journal_dropped(const impmem_ledger *ledger);
/* Balance of the account as the journal tells it: opening balance plus the kept records. Always equals the account's
 * committed bytes; the self-check of every test. */
uint64_t impmem_ledger_journal_balance(const impmem_ledger *ledger, impmem_account account);
/* The same of one line, or of all unplanned bytes for an id that the plan doesn't have. */
uint64_t impmem_ledger_journal_line_balance(const impmem_ledger *ledger, impmem_line_id line);

/* A text file, one record a line, with a header that names the format version and the opening balances, and a checksum
 * line at the end. Format in docs/journal.md. `write` is called without the ledger's lock; when the ring meanwhile
 * dropped a record that the header promised, the answer is BUSY: write again. Else what `write` returned. */
IMPMEM_NODISCARD impmem_status impmem_ledger_journal_write(const impmem_ledger *ledger, impmem_write_fn write,
                                                           void *context);

/* What a journal file says. The caller's callback gets each record in order; opening balances come first.
 * Errors name the file and the line number: IO, BAD_FORMAT, TRUNCATED, BAD_VALUE (checksum, sequence gap). */
typedef struct impmem_journal_summary {
    uint64_t records;
    uint64_t dropped;
    uint64_t opening_bytes[IMPMEM_N_ACCOUNTS];
    uint64_t closing_bytes[IMPMEM_N_ACCOUNTS];
} impmem_journal_summary;
IMPMEM_NODISCARD impmem_status impmem_journal_read_file(const char *path,
                                                        impmem_status (*each)(void *context, const impmem_journal_record *),
                                                        void *context, impmem_journal_summary *out, impmem_error *why);

#ifdef __cplusplus
}
#endif
#endif
