/* The grower: a thread that keeps a region committed ahead of its use. It needs nothing but the region's front and a queue,
 * so it runs over every growable backend, and stands on the floor of both.
 *
 * Owner to grower: one number, `used`, and a semaphore that is posted when the mark is passed. Grower to owner: one number,
 * `ready`, stored with release after the new memory is committed and its zeroing has run.
 */
#define _GNU_SOURCE
#include "impmem/grower.h"

#include <errno.h>
#include <semaphore.h>
#include <string.h>
#include <time.h>

#include "backend/internal.h"

#define SUBJECT "grower"
#define DEFAULT_STEP (64 * IMPMEM_MIB)
#define DEFAULT_RETRY_NS 10000000u

struct impmem_grower {
    impmem_ledger *ledger;
    impmem_line_id control_line;
    impmem_region *region;
    impmem_queue *queue;
    uint64_t ahead;
    uint64_t step;
    uint64_t limit;
    uint64_t retry_ns;
    bool zero;
    bool has_wake, has_thread;
    pthread_t thread;
    sem_t wake;
    _Atomic bool ending;
    _Atomic bool asked; /* a wake-up is under way: the owner posts one per lull, not one per step */
    _Alignas(64) _Atomic uint64_t used;
    _Atomic uint64_t missed; /* the most that an allocator asked for before it was ready */
    _Alignas(64) _Atomic uint64_t ready;
    _Atomic uint64_t commits;
    _Atomic uint64_t refused;
    _Atomic uint64_t deferred;
    _Atomic uint64_t longest_ns;
    _Atomic int last;
};

static uint64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Up to `ns`, or until woken. */
static void rest(impmem_grower *g, uint64_t ns)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    uint64_t to = (uint64_t)t.tv_nsec + ns;
    t.tv_sec += (time_t)(to / 1000000000u);
    t.tv_nsec = (long)(to % 1000000000u);
    (void)sem_timedwait(&g->wake, &t);
}

/* In one order with `asked`: either this sees a new `used`, or the owner sees that nobody was woken for it. */
static uint64_t wanted(const impmem_grower *g)
{
    uint64_t want = 0;
    uint64_t missed = atomic_load_explicit(&g->missed, memory_order_seq_cst);
    if (impmem_add(&want, atomic_load_explicit(&g->used, memory_order_seq_cst), g->ahead)) return g->limit;
    if (want < missed) want = missed;
    return want < g->limit ? want : g->limit;
}

/* New memory is zeroed before anybody may see it: the fill and its end are waited for here, on this thread. */
static impmem_status zero_range(impmem_grower *g, uint64_t from, uint64_t to)
{
    uint64_t ticket = 0;
    char *base = impmem_region_base(g->region);
    impmem_status st = impmem_queue_fill(g->queue, base + from, 0, to - from, NULL);
    if (!st) st = impmem_queue_signal(g->queue, &ticket, NULL);
    return st ? st : impmem_queue_wait(g->queue, ticket, NULL);
}

/* One commit of at most a step, beginning at what is ready. */
static impmem_status grow_once(impmem_grower *g, uint64_t want)
{
    uint64_t ready = atomic_load_explicit(&g->ready, memory_order_relaxed);
    uint64_t target = want - ready > g->step ? ready + g->step : want;
    uint64_t started = now_ns();
    impmem_status st = IMPMEM_OK;
    uint64_t prefix = impmem_region_committed_prefix(g->region);
    if (prefix < target) st = impmem_region_commit_range(g->region, prefix, target - prefix, NULL, NULL);
    /* What a half-done commit achieved counts: half a pool is better than none. */
    prefix = impmem_region_committed_prefix(g->region);
    if (prefix > g->limit) prefix = g->limit;
    if (prefix > ready) {
        impmem_status zeroed = g->zero ? zero_range(g, ready, prefix) : IMPMEM_OK;
        if (!zeroed) atomic_store_explicit(&g->ready, prefix, memory_order_release);
        st = impmem_first_error(st, zeroed);
    }
    uint64_t took = now_ns() - started;
    if (took > atomic_load_explicit(&g->longest_ns, memory_order_relaxed))
        atomic_store_explicit(&g->longest_ns, took, memory_order_relaxed);
    atomic_store_explicit(&g->last, (int)st, memory_order_relaxed);
    _Atomic uint64_t *count = !st ? &g->commits : st == IMPMEM_ERR_CAPTURING ? &g->deferred : &g->refused;
    atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
    return st;
}

static void *keep_ahead(void *context)
{
    impmem_grower *g = context;
    while (!atomic_load_explicit(&g->ending, memory_order_acquire)) {
        atomic_store_explicit(&g->asked, false, memory_order_seq_cst);
        uint64_t want = wanted(g);
        if (want > atomic_load_explicit(&g->ready, memory_order_relaxed)) {
            if (grow_once(g, want)) rest(g, g->retry_ns);
            continue;
        }
        while (sem_wait(&g->wake) != 0 && errno == EINTR) {}
    }
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------------------------------------ */

static void destroy(impmem_grower *g)
{
    if (g->has_thread) {
        atomic_store_explicit(&g->ending, true, memory_order_release);
        (void)sem_post(&g->wake);
        (void)pthread_join(g->thread, NULL);
    }
    if (atomic_load_explicit(&g->region->grower, memory_order_relaxed) == g)
        atomic_store_explicit(&g->region->grower, NULL, memory_order_release);
    if (g->has_wake) (void)sem_destroy(&g->wake);
    impmem_ledger_host_free(g->ledger, g->control_line, IMPMEM_TAG_HOST_CONTROL, g, sizeof *g);
}

static impmem_status check_options(const impmem_ledger *ledger, const impmem_grower_options *o, impmem_error *why)
{
    impmem_status st = impmem__options_check(o->size, o->version, sizeof *o, 1);
    if (st)
        return impmem__error_set(why, st, "grower options", "size %u or version %u is not one of this library", o->size,
                                 o->version);
    if (!o->region || !o->ahead_bytes || (o->zero && !o->queue))
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT,
                                 "a grower needs a region, a mark above 0 and, for zeroing, a queue");
    if (impmem__region_ledger(o->region) != ledger)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "the region belongs to another ledger");
    if (!impmem_region_growable(o->region))
        return impmem__error_set(why, IMPMEM_ERR_NOT_GROWABLE, SUBJECT, "this %s region is of fixed size",
                                 impmem_tag_name(impmem_region_tag(o->region)));
    if (o->limit_bytes > impmem_region_reserved_bytes(o->region))
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "the limit is beyond the reservation");
    return IMPMEM_OK;
}

impmem_status impmem_grower_open(impmem_ledger *ledger, const impmem_grower_options *options, impmem_grower **out,
                                 impmem_error *why)
{
    if (!ledger || !options || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT,
                                 "no ledger, no options or no place for the result");
    impmem_status st = check_options(ledger, options, why);
    if (st) return st;
    impmem_line_id line = options->control_line ? options->control_line : IMPMEM_LINE_HOST_CONTROL;
    void *memory = NULL;
    st = impmem_ledger_host_allocate(ledger, line, IMPMEM_TAG_HOST_CONTROL, sizeof(impmem_grower), &memory, why);
    if (st) return st;
    impmem_grower *g = memory;
    g->ledger = ledger;
    g->control_line = line;
    g->region = options->region;
    g->queue = options->queue;
    g->zero = options->zero;
    g->ahead = options->ahead_bytes;
    g->limit = options->limit_bytes ? options->limit_bytes : impmem_region_reserved_bytes(g->region);
    g->retry_ns = options->retry_ns ? options->retry_ns : DEFAULT_RETRY_NS;
    uint64_t granule = impmem__region_granule_bytes(g->region);
    if (impmem_align_up(&g->step, options->step_bytes ? options->step_bytes : DEFAULT_STEP, granule)) g->step = granule;
    uint64_t prefix = impmem_region_committed_prefix(g->region);
    atomic_store_explicit(&g->ready, prefix < g->limit ? prefix : g->limit, memory_order_relaxed);
    g->has_wake = sem_init(&g->wake, 0, 0) == 0;
    impmem_grower *none = NULL;
    bool alone = atomic_compare_exchange_strong_explicit(&g->region->grower, &none, g, memory_order_acq_rel,
                                                         memory_order_relaxed);
    g->has_thread = alone && g->has_wake && pthread_create(&g->thread, NULL, keep_ahead, g) == 0;
    if (!alone) {
        destroy(g);
        return impmem__error_set(why, IMPMEM_ERR_BUSY, SUBJECT, "the region has a grower already");
    }
    if (!g->has_thread) {
        destroy(g);
        return impmem__error_set(why, IMPMEM_ERR_OUT_OF_HOST_MEMORY, SUBJECT, "no thread for the grower");
    }
    *out = g;
    return IMPMEM_OK;
}

void impmem_grower_close(impmem_grower **slot)
{
    if (!slot || !*slot) return;
    destroy(*slot);
    *slot = NULL;
}

/* ---- the owner's side ------------------------------------------------------------------------------------------------ */

static void wake(impmem_grower *g)
{
    if (wanted(g) <= atomic_load_explicit(&g->ready, memory_order_acquire)) return;
    if (!atomic_exchange_explicit(&g->asked, true, memory_order_seq_cst)) (void)sem_post(&g->wake);
}

void impmem_grower_use(impmem_grower *g, uint64_t used_bytes)
{
    if (!g) return;
    atomic_store_explicit(&g->used, used_bytes, memory_order_seq_cst);
    wake(g);
}

uint64_t impmem__region_ready_bytes(const impmem_region *region)
{
    const impmem_grower *g = atomic_load_explicit(&region->grower, memory_order_acquire);
    return g ? impmem_grower_ready_bytes(g) : impmem_region_committed_prefix(region);
}

bool impmem__region_has_grower(const impmem_region *region)
{
    return atomic_load_explicit(&region->grower, memory_order_acquire) != NULL;
}

bool impmem__region_ask_grower(impmem_region *region, uint64_t bytes)
{
    impmem_grower *g = atomic_load_explicit(&region->grower, memory_order_acquire);
    if (!g) return false;
    if (bytes > atomic_load_explicit(&g->missed, memory_order_relaxed))
        atomic_store_explicit(&g->missed, bytes, memory_order_seq_cst);
    wake(g);
    return true;
}

uint64_t impmem_grower_ready_bytes(const impmem_grower *g)
{
    return g ? atomic_load_explicit(&g->ready, memory_order_acquire) : 0;
}

void impmem_grower_query(const impmem_grower *g, impmem_grower_stats *out)
{
    if (!out) return;
    memset(out, 0, sizeof *out);
    if (!g) return;
    out->ready_bytes = atomic_load_explicit(&g->ready, memory_order_acquire);
    out->used_bytes = atomic_load_explicit(&g->used, memory_order_relaxed);
    out->commits = atomic_load_explicit(&g->commits, memory_order_relaxed);
    out->refused = atomic_load_explicit(&g->refused, memory_order_relaxed);
    out->deferred = atomic_load_explicit(&g->deferred, memory_order_relaxed);
    out->longest_ns = atomic_load_explicit(&g->longest_ns, memory_order_relaxed);
    out->last = (impmem_status)atomic_load_explicit(&g->last, memory_order_relaxed);
}
