/* world.h - a ledger and a device over the driver made of tables, what that driver holds, and the sweep that fails every
 * call. */
#ifndef TEST_CUDA_WORLD_H
#define TEST_CUDA_WORLD_H

#include "fake_driver.h"

/* What a driver holds: equal before and after whatever changed nothing. */
typedef struct fake_state {
    uint64_t used, reserved, mapped, accessible, host, registered;
    int contexts, descriptors, streams, events, modules, heaps, takes, depth, last_error;
} fake_state;

static fake_state fake_snapshot(const fake_driver *f)
{
    fake_state s;
    memset(&s, 0, sizeof s);
    s.used = fake_used(f);
    for (int i = 0; i < 64; i++) s.reserved += f->reservation[i].bytes;
    for (int i = 0; i < 64; i++) s.host += f->host[i].bytes;
    for (int i = 0; i < 300; i++) s.registered += f->registered[i].bytes;
    for (int i = 0; i < FAKE_MAX; i++) {
        if (f->chunk[i].mapped_at) s.mapped += f->chunk[i].bytes;
        if (f->chunk[i].mapped_at && f->chunk[i].access) s.accessible += f->chunk[i].bytes;
    }
    s.contexts = f->contexts[0] + f->contexts[1];
    s.descriptors = f->descriptors;
    s.streams = f->streams;
    s.events = f->events;
    s.modules = f->modules;
    s.heaps = f->heaps;
    s.takes = f->takes;
    s.depth = f->depth;
    s.last_error = f->last_error;
    return s;
}

static void assert_same_state(fake_state a, fake_state b)
{
    assert_int_equal(a.used, b.used);
    assert_int_equal(a.reserved, b.reserved);
    assert_int_equal(a.mapped, b.mapped);
    assert_int_equal(a.accessible, b.accessible);
    assert_int_equal(a.host, b.host);
    assert_int_equal(a.registered, b.registered);
    assert_int_equal(a.contexts, b.contexts);
    assert_int_equal(a.descriptors, b.descriptors);
    assert_int_equal(a.streams, b.streams);
    assert_int_equal(a.events, b.events);
    assert_int_equal(a.modules, b.modules);
    assert_int_equal(a.heaps, b.heaps);
    assert_int_equal(a.takes, b.takes);
    assert_int_equal(a.depth, b.depth);
    assert_int_equal(a.last_error, b.last_error);
}

static void fake_fail(fake_driver *f, uint64_t nth, int code, bool for_good)
{
    f->fail_nth = nth;
    f->fail_code = code;
    f->fail_for_good = for_good;
    f->seen = 0;
    f->sprung = false;
}

static void fake_fail_call(fake_driver *f, impmem__call call, uint64_t nth, int code, bool for_good)
{
    f->fail_call = call;
    f->fail_call_nth = nth;
    f->seen_of_call = 0;
    f->fail_code = code;
    f->fail_for_good = for_good;
    f->sprung = false;
}

static void fake_heal(fake_driver *f)
{
    f->fail_nth = 0;
    f->fail_call_nth = 0;
}

static uint64_t fake_count(const fake_driver *f, impmem__call call)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < f->n_log; i++) n += f->log[i].call == call;
    return n;
}

/* Fails each call of an operation in turn, once and for good: a refused one left everything as it was and works when tried
 * again. `undo` takes back what `run` did. Returns how many calls there were. */
typedef struct sweep {
    fake_driver *fake;
    impmem_status (*run)(void *context);
    void (*undo)(void *context);
    void *context;
    int code;
    bool once_only; /* what is undone by calls that fail too can't be undone: then failing for good proves nothing */
} sweep;

static uint64_t run_sweep(const sweep *s)
{
    for (uint64_t n = 1;; n++) {
        for (int for_good = 0; for_good < (s->once_only ? 1 : 2); for_good++) {
            fake_state before = fake_snapshot(s->fake);
            fake_fail(s->fake, n, s->code, for_good);
            impmem_status st = s->run(s->context);
            bool sprung = s->fake->sprung;
            fake_heal(s->fake);
            if (!sprung) {
                assert_int_equal(st, IMPMEM_OK);
                s->undo(s->context);
                assert_same_state(fake_snapshot(s->fake), before);
                return n - 1;
            }
            if (!st) s->undo(s->context); /* the room could do without that call */
            else if (!for_good) assert_same_state(fake_snapshot(s->fake), before);
            assert_int_equal(s->run(s->context), IMPMEM_OK);
            s->undo(s->context);
            assert_same_state(fake_snapshot(s->fake), before);
        }
    }
}

/* ---- a world: one ledger, one device --------------------------------------------------------------------------------- */

enum { LINE_POOL = IMPMEM_LINE_USER, LINE_PINNED = IMPMEM_LINE_USER + 1 };

typedef struct world {
    fake_driver *fake;
    impmem_ledger *ledger;
    impmem_cuda_device *device;
    impmem_error why;
} world;

static void open_ledger(world *w, uint64_t device_budget)
{
    static const impmem_line lines[] = {
        {.id = LINE_POOL,
         .tier = IMPMEM_TIER_POOL,
         .account = IMPMEM_ACCOUNT_DEVICE,
         .tag = IMPMEM_TAG_KV_BLOCKS,
         .bytes = 256 * IMPMEM_MIB,
         .name = "pool"},
        {.id = LINE_PINNED,
         .tier = IMPMEM_TIER_PINNED,
         .account = IMPMEM_ACCOUNT_PINNED,
         .tag = IMPMEM_TAG_HOST_PINNED,
         .bytes = 64 * IMPMEM_MIB,
         .name = "pinned"},
    };
    impmem_lines view = {lines, 2, {device_budget, 64 * IMPMEM_MIB, UINT64_MAX}};
    impmem_ledger_options o = IMPMEM_LEDGER_OPTIONS_INIT;
    o.serving = IMPMEM_SERVING_REFUSE;
    assert_int_equal(impmem_ledger_create(&view, &o, &w->ledger), IMPMEM_OK);
}

static void open_world(world *w)
{
    memset(w, 0, sizeof *w);
    w->why = (impmem_error)IMPMEM_ERROR_INIT;
    w->fake = calloc(1, sizeof *w->fake);
    assert_non_null(w->fake);
    fake_reset(w->fake);
    open_ledger(w, UINT64_MAX);
    assert_int_equal(impmem__cuda_device_open(w->ledger, NULL, &w->fake->table, &w->device, &w->why), IMPMEM_OK);
}

static uint64_t committed(const world *w, impmem_account account)
{
    impmem_usage usage;
    impmem_ledger_account_usage(w->ledger, account, &usage);
    return usage.committed_bytes;
}

/* Everything must be gone, and no rule of the driver broken. */
static void close_world(world *w)
{
    fake_heal(w->fake);
    assert_int_equal(impmem_cuda_device_close(&w->device, &w->why), IMPMEM_OK);
    assert_int_equal(impmem_ledger_destroy(w->ledger, &w->why), IMPMEM_OK);
    fake_state empty;
    memset(&empty, 0, sizeof empty);
    empty.used = w->fake->unseen;
    assert_same_state(fake_snapshot(w->fake), empty);
    assert_string_equal(w->fake->breach, "");
    (void)pthread_mutex_destroy(&w->fake->lock);
    free(w->fake);
}

#endif
