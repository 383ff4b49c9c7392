/* What the backend tests share: a small plan, a ledger over it, a fake, and the self-check of every test: the journal's
 * balances equal the books.
 */
#ifndef TESTS_UNIT_BACKEND_HELPERS_H
#define TESTS_UNIT_BACKEND_HELPERS_H

#include "support/checks.h"

#include "impmem/control.h"
#include "impmem/fake.h"

enum { LINE_A = IMPMEM_LINE_USER, LINE_B, LINE_PINNED, LINE_CHARGE };

typedef struct plan {
    impmem_line line[5];
    impmem_lines lines;
} plan;

/* Five lines; the device budget is the argument, the others have none. */
static inline void make_plan(plan *p, uint64_t device_budget)
{
    p->line[0] = line_of(LINE_A, IMPMEM_ACCOUNT_DEVICE, IMPMEM_TAG_KV_BLOCKS, 64 * IMPMEM_MIB, "blocks");
    p->line[1] = line_of(LINE_B, IMPMEM_ACCOUNT_DEVICE, IMPMEM_TAG_MODEL_RESIDENT, 64 * IMPMEM_MIB, "weights");
    p->line[2] = line_of(LINE_PINNED, IMPMEM_ACCOUNT_PINNED, IMPMEM_TAG_HOST_PINNED, 8 * IMPMEM_MIB, "pinned");
    p->line[3] = line_of(LINE_CHARGE, IMPMEM_ACCOUNT_DEVICE, IMPMEM_TAG_CONTEXT, 16 * IMPMEM_MIB, "context");
    p->line[4] = line_of(IMPMEM_LINE_HOST_CONTROL, IMPMEM_ACCOUNT_PAGEABLE, IMPMEM_TAG_HOST_CONTROL, IMPMEM_MIB, "control");
    p->lines.line = p->line;
    p->lines.n_lines = 5;
    p->lines.budget_bytes[IMPMEM_ACCOUNT_DEVICE] = device_budget;
    p->lines.budget_bytes[IMPMEM_ACCOUNT_PINNED] = UINT64_MAX;
    p->lines.budget_bytes[IMPMEM_ACCOUNT_PAGEABLE] = UINT64_MAX;
}

static inline uint64_t counting_clock(void *context)
{
    return ++*(uint64_t *)context;
}

static inline impmem_ledger *make_ledger(uint64_t device_budget, const impmem_ledger_options *options)
{
    plan p;
    impmem_ledger *ledger = NULL;
    make_plan(&p, device_budget);
    OK(impmem_ledger_create(&p.lines, options, &ledger));
    return ledger;
}

static inline impmem_backend *make_fake(impmem_ledger *ledger, uint64_t granule, bool growable, impmem_fake **out)
{
    impmem_fake_options o = IMPMEM_FAKE_OPTIONS_INIT;
    impmem_backend *backend = NULL;
    o.granule_bytes = granule;
    o.growable = growable;
    OK(impmem_fake_backend_create(ledger, &o, &backend, out, NULL));
    return backend;
}

/* Replays the journal from its opening: every account's and every line's balance is what the books say. */
static inline void assert_balanced(const impmem_ledger *ledger)
{
    static const impmem_line_id lines[] = {LINE_A, LINE_B, LINE_PINNED, LINE_CHARGE, IMPMEM_LINE_HOST_CONTROL};
    assert_journal_agrees(ledger);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        impmem_usage usage;
        if (impmem_ledger_line_usage(ledger, lines[i], &usage)) continue;
        assert_true(impmem_ledger_journal_line_balance(ledger, lines[i]) == usage.committed_bytes);
    }
}

/* The newest record. */
static inline impmem_journal_record last_record(const impmem_ledger *ledger)
{
    impmem_journal_record record;
    OK(impmem_ledger_journal_read(ledger, impmem_ledger_journal_end(ledger) - 1, &record));
    return record;
}

/* Nothing but the ledger itself is left. */
static inline void destroy_all(impmem_backend *backend, impmem_ledger *ledger)
{
    assert_balanced(ledger);
    OK(impmem_backend_destroy(backend, NULL));
    OK(impmem_ledger_destroy(ledger, NULL));
}

/* A caller's allocator that fails the n-th allocation from now (0 = none) and counts what is out. */
typedef struct fussy {
    uint64_t fail_at;
    uint64_t calls;
    uint64_t live;
    uint64_t live_bytes;
} fussy;

static inline void *fussy_allocate(void *context, size_t bytes, size_t alignment)
{
    fussy *f = context;
    impmem_allocator plain = impmem_default_allocator();
    if (++f->calls == f->fail_at) return NULL;
    void *memory = plain.allocate(plain.context, bytes, alignment);
    if (memory) {
        f->live++;
        f->live_bytes += bytes;
        memset(memory, 0x5C, bytes);
    }
    return memory;
}

static inline void fussy_release(void *context, void *memory, size_t bytes)
{
    fussy *f = context;
    impmem_allocator plain = impmem_default_allocator();
    f->live--;
    f->live_bytes -= bytes;
    plain.release(plain.context, memory, bytes);
}

#endif
