/* backend/internal.h - the structs of this folder and the bookkeeping that runs under the ledger's lock.
 *
 * Locks, outermost first: a region's `grow` mutex, the ledger's `lock`. A backend's vtable is called with at most the
 * `grow` mutex held, callbacks (violation, log, write) with none.
 */
#ifndef IMPMEM__BACKEND_INTERNAL_H
#define IMPMEM__BACKEND_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend/hooks.h"
#include "core/internal.h"
#include "core/layout.h"
#include "impmem/backend.h"
#include "impmem/bytes.h"
#include "impmem/track.h"

#define IMPMEM__REASON_BYTES 64u
#define IMPMEM__REASONS_KEPT 16u

/* What the ledger itself knows about a line, tag or account. Bytes. */
typedef struct impmem__tally {
    uint64_t committed;
    uint64_t committed_peak;
    uint64_t reserved;
    uint64_t direct_live; /* live without a counter: host tables and charges */
    uint64_t direct_peak;
    uint64_t past_live_peak; /* the highest sum of peaks before a region with counters was released */
} impmem__tally;

typedef struct impmem__ledger_line {
    impmem_line_id id;
    impmem_account account;
    impmem_tag tag;
    uint32_t flags;
    uint64_t planned;
    uint64_t charged; /* part of tally.committed that is charges */
    uint64_t opening; /* balance of the line before the journal's first kept record */
    impmem__tally tally;
    impmem__line_counter counter;
    char name[IMPMEM_LINE_NAME_BYTES];
} impmem__ledger_line;
_Static_assert(sizeof(impmem__ledger_line) <= IMPMEM__LEDGER_LINE_BYTES, "the planner counts this many bytes a line");
_Static_assert(sizeof(impmem_journal_record) == IMPMEM__JOURNAL_RECORD_BYTES,
               "the planner counts this many bytes a record");

typedef struct impmem__violation_counts {
    uint64_t serving[IMPMEM_N_TAGS];
    uint64_t capturing[IMPMEM_N_TAGS];
    uint64_t staging_live;
} impmem__violation_counts;

struct impmem_ledger {
    impmem_ledger *self; /* how const queries reach the lock */
    pthread_mutex_t lock;
    pthread_cond_t drained; /* in_flight became 0 */
    impmem_allocator allocator;
    uint64_t own_bytes;
    impmem_line_id host_line; /* IMPMEM_LINE_HOST_CONTROL when the plan has it, else IMPMEM_NO_LINE */
    bool refuse_serving;
    uint64_t seed;
    uint64_t (*clock_ns)(void *context);
    void *clock_context;
    void (*violation)(void *context, const impmem_violation *violation);
    void *violation_context;
    void (*log)(void *context, const char *line);
    void *log_context;

    _Atomic int phase; /* written under the lock */
    bool in_replan;
    uint32_t replans;
    char reason[IMPMEM__REASONS_KEPT][IMPMEM__REASON_BYTES]; /* of replan n (from 1): n % kept */
    uint32_t capture_depth;
    uint32_t in_flight; /* backend calls under way; capture_begin waits for them */

    uint64_t budget[IMPMEM_N_ACCOUNTS];
    uint64_t pending[IMPMEM_N_ACCOUNTS]; /* taken of the budget by calls under way */
    impmem__tally account[IMPMEM_N_ACCOUNTS];
    impmem__tally tag[IMPMEM_N_TAGS];
    impmem__line_counter unplanned[IMPMEM_N_TAGS][IMPMEM_N_ACCOUNTS]; /* live bytes on no line, in no region */
    uint64_t unplanned_committed;
    impmem__violation_counts violations;
    uint64_t serving_commits;
    uint64_t charged; /* all lines */

    uint32_t n_lines;
    impmem__ledger_line *line;

    impmem_journal_record *record; /* ring: sequence i lies at i % journal_capacity */
    uint32_t journal_capacity;
    uint64_t journal_end;
    uint64_t opening[IMPMEM_N_ACCOUNTS];
    uint64_t opening_unplanned;

    impmem_region *regions; /* doubly linked, newest first */
    uint64_t last_region_id;
    _Atomic uint32_t last_pool_id;
    impmem__staging_link *staging;
    impmem__pinned_link *pinned;
    uint64_t last_pinned_number;
    _Atomic uint64_t pinned_degradations;
};
_Static_assert(sizeof(struct impmem_ledger) <= IMPMEM__LEDGER_HEADER_BYTES, "the planner counts this many bytes a ledger");

struct impmem_backend {
    impmem_ledger *ledger;
    impmem_backend_ops ops;
    void *self;
    impmem_backend_properties properties;
    impmem_track track;    /* size 0: none */
    uint32_t live_regions; /* under the ledger's lock */
};
_Static_assert(sizeof(struct impmem_backend) <= IMPMEM__BACKEND_BYTES, "the planner counts this many bytes a backend");

struct impmem_region {
    impmem_backend *backend;
    void *base;
    uint64_t id;
    uint64_t reserved;
    uint64_t granule;
    uint64_t object_bytes; /* of this object with its tables */
    _Atomic uint64_t committed;
    _Atomic uint64_t prefix;
    impmem_tag tag;
    impmem_line_id line;
    uint32_t n_shares;
    uint32_t n_counters;
    impmem_line_share *share;
    impmem__line_counter *counter;
    uint64_t *granules; /* bit i: granule i is committed; NULL for a fixed region */
    bool growable;
    bool open;      /* in a tier; under the ledger's lock */
    bool releasing; /* the backend is giving it back; under the ledger's lock */
    const impmem__tier_ops *tier;
    void *tier_self;
    impmem_region *next;
    impmem_region *previous;
    pthread_mutex_t grow;                   /* one commit or decommit at a time */
    _Atomic(struct impmem_grower *) grower; /* open over it; NULL: none */
};
_Static_assert(sizeof(struct impmem_region) <= IMPMEM__REGION_HEADER_BYTES, "the planner counts this many bytes a region");
_Static_assert(sizeof(impmem_line_share) + sizeof(impmem__line_counter) == IMPMEM__REGION_SHARE_BYTES,
               "the planner counts this many bytes a share");

/* ---- under the lock ---------------------------------------------------------------------------------------------- */

static inline void impmem__lock(const impmem_ledger *ledger)
{
    (void)pthread_mutex_lock(&ledger->self->lock);
}

static inline void impmem__unlock(const impmem_ledger *ledger)
{
    (void)pthread_mutex_unlock(&ledger->self->lock);
}

/* One of the ledger's numbers that are written under the lock. */
static inline uint64_t impmem__read_locked(const impmem_ledger *ledger, const uint64_t *number)
{
    impmem__lock(ledger);
    uint64_t value = *number;
    impmem__unlock(ledger);
    return value;
}

/* NULL for an id that the plan doesn't have. */
impmem__ledger_line *impmem__find_line(const impmem_ledger *ledger, impmem_line_id line);
/* The same id, or IMPMEM_NO_LINE for one that the plan doesn't have. */
impmem_line_id impmem__known_line(const impmem_ledger *ledger, impmem_line_id line);

/* Whose bytes an operation moves. */
typedef struct impmem__subject {
    impmem_line_id line;
    impmem_tag tag;
    impmem_account account;
    uint64_t region; /* id, 0 = none yet */
    void *base;
} impmem__subject;

void impmem__journal_append(impmem_ledger *ledger, impmem_journal_op op, impmem__subject subject, uint64_t bytes,
                            impmem_status status, uint32_t detail);

/* Committed bytes of line, tag and account, with peaks. */
void impmem__tally_take(impmem_ledger *ledger, impmem__subject subject, uint64_t bytes);
void impmem__tally_give(impmem_ledger *ledger, impmem__subject subject, uint64_t bytes);
void impmem__tally_reserve(impmem_ledger *ledger, impmem__subject subject, uint64_t bytes);
void impmem__tally_unreserve(impmem_ledger *ledger, impmem__subject subject, uint64_t bytes);
/* Before a region with counters goes: keep the live peaks that it had a part in. */
void impmem__fold_live_peaks(impmem_ledger *ledger, const impmem_region *region);

impmem__subject impmem__region_subject(const impmem_region *region);

/* ---- guards: each takes the lock itself and delivers callbacks after it ------------------------------------------ */

typedef enum impmem__act {
    IMPMEM__ACT_ACQUIRE,  /* acquire, reserve, host memory, commit outside the plan: counted while Serving */
    IMPMEM__ACT_GROW,     /* commit inside a planned reservation */
    IMPMEM__ACT_GIVE_BACK /* release, decommit: only the capture guard */
} impmem__act;

/* Capture guard, then phase guard. CAPTURING or SERVING, counted, journalled and reported. */
impmem_status impmem__guard(impmem_ledger *ledger, impmem__act act, impmem__subject subject, uint64_t bytes,
                            impmem_error *why);

/* Takes `bytes` of the subject's budget and `host_bytes` of the pageable one, and enters the backend call into in_flight:
 * both until impmem__leave. CAPTURING or BUDGET_EXCEEDED: nothing taken, refusal journalled. */
impmem_status impmem__enter(impmem_ledger *ledger, impmem__act act, impmem__subject subject, uint64_t bytes,
                            uint64_t host_bytes, impmem_error *why);
/* With the lock held: gives the pending bytes back; what was really taken is for the caller to tally in the same locked
 * span. */
void impmem__leave_locked(impmem_ledger *ledger, impmem__subject subject, uint64_t bytes, uint64_t host_bytes);
/* Would `more` bytes beyond `fewer` given back fit the budget now? Refusal journalled as by impmem__enter. */
impmem_status impmem__would_fit(impmem_ledger *ledger, impmem__subject subject, uint64_t more, uint64_t fewer,
                                impmem_error *why);
/* Journals that the backend refused `bytes`. */
void impmem__refused(impmem_ledger *ledger, impmem__subject subject, uint64_t bytes, impmem_status status);

/* Host memory that is booked together with what it describes: nothing is journalled until impmem__host_book_locked. */
impmem__subject impmem__host_subject(const impmem_ledger *ledger, impmem_line_id line, impmem_tag tag);
void impmem__host_book_locked(impmem_ledger *ledger, impmem__subject subject, uint64_t bytes);
void impmem__host_unbook_locked(impmem_ledger *ledger, impmem__subject subject, uint64_t bytes);

/* What a vtable function said, or failing that its status, as the caller's error. */
void impmem__backend_error(const impmem_backend *backend, impmem_status st, impmem__subject subject,
                           const impmem_error *cause, impmem_error *why);

/* BUDGET_EXCEEDED, with a message that tells the account's limit. */
impmem_status impmem__budget_error(impmem_error *why, const impmem_ledger *ledger, impmem__subject subject, uint64_t asked,
                                   uint64_t available);

#endif
