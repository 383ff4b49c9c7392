/* impmem/journal.h - what happened to memory, in order. Floor 1, implemented by src/backend/journal.c.
 *
 * The ledger keeps a ring of the newest records. Drop policy: when the ring is full the OLDEST record is overwritten and
 * folded into the ring's opening balance, so that "opening balance + sum of kept records == live bytes" holds after any
 * number of drops, for each account and each line.
 *
 *   impmem_journal_record record;
 *   for (uint64_t i = impmem_ledger_journal_first(ledger); i < impmem_ledger_journal_end(ledger); i++)
 *       if (!impmem_ledger_journal_read(ledger, i, &record)) print(&record);
 */
#ifndef IMPMEM_JOURNAL_H
#define IMPMEM_JOURNAL_H

#include <stdint.h>

#include "impmem/line.h"
#include "impmem/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct impmem_ledger impmem_ledger;

/* X(name, value, text, sign): sign is what the record's bytes do to the account's balance. */
#define IMPMEM_JOURNAL_OP_MAP(X)                                                                                           \
    X(CHARGE, 1, "charge", +1) /* bytes that are spoken for but not ours (context, library reserve) */                     \
    X(UNCHARGE, 2, "uncharge", -1)                                                                                         \
    X(ACQUIRE, 3, "acquire", +1)                                                                                           \
    X(RELEASE, 4, "release", -1)                                                                                           \
    X(RESERVE, 5, "reserve", 0) /* address space; no bytes */                                                              \
    X(UNRESERVE, 6, "unreserve", 0)                                                                                        \
    X(COMMIT, 7, "commit", +1)                                                                                             \
    X(DECOMMIT, 8, "decommit", -1)                                                                                         \
    X(REFUSED, 9, "refused", 0) /* an acquisition or commit that failed; `status` says why */                              \
    X(PHASE, 10, "phase", 0)    /* `bytes` holds the new phase */

typedef enum impmem_journal_op {
#define IMPMEM_JOURNAL_OP_ENUM(name, value, text, sign) IMPMEM_JOURNAL_##name = value,
    IMPMEM_JOURNAL_OP_MAP(IMPMEM_JOURNAL_OP_ENUM)
#undef IMPMEM_JOURNAL_OP_ENUM
} impmem_journal_op;

const char *impmem_journal_op_name(impmem_journal_op op); /* "?" when out of range */
int impmem_journal_op_sign(impmem_journal_op op);         /* +1, -1 or 0 */

/* 72 bytes or less, plain data. A region that holds several lines writes one record per line it holds, one after another,
 * with the same region id: so the acquire records of a fresh engine are the plan's lines, byte for byte. */
typedef struct impmem_journal_record {
    uint64_t sequence; /* 0, 1, 2 ... without gaps over the ledger's life */
    uint64_t time_ns;  /* the ledger's clock */
    uint64_t bytes;
    uint64_t address;    /* base of the region, 0 where there is none */
    uint64_t region;     /* region id, 0 where there is none */
    impmem_line_id line; /* IMPMEM_NO_LINE when unplanned */
    uint8_t op;          /* impmem_journal_op */
    uint8_t phase;       /* impmem_phase at the time */
    uint8_t account;     /* impmem_account */
    uint8_t tag;         /* impmem_tag */
    int32_t status;      /* impmem_status of the operation */
    uint32_t detail;     /* PHASE: the number of the replan that caused it, 0 = none */
} impmem_journal_record;

#ifdef __cplusplus
}
#endif
#endif
