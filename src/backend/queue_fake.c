/* The fake queue: pieces of work in a ring, run later, by hand or by a thread. */
#define _GNU_SOURCE
#include <string.h>
#include <time.h>

#include "backend/internal.h"
#include "backend/queue_internal.h"

#define SUBJECT "fake queue"
#define DEFAULT_CAPACITY 64u
#define DEFAULT_BATCH 1024u

typedef enum piece_kind { PIECE_FILL, PIECE_COPY, PIECE_BLOCKS, PIECE_SIGNAL, PIECE_AFTER } piece_kind;

typedef struct piece {
    piece_kind kind;
    uint8_t value;
    uint32_t n;
    void *to;
    const void *from;          /* copy: the source; after: the other counter */
    uint64_t bytes;            /* signal and after: the ticket */
    uint64_t due_ns;           /* of the monotonic clock; with a thread only */
    impmem_block_copy *copies; /* this place's room for a batch */
} piece;

typedef struct fake_queue {
    uint64_t counter;
    uint64_t bytes; /* of this object with its ring */
    uint32_t capacity;
    uint32_t batch;
    uint64_t delay_ns;
    bool has_lock, has_wake, has_thread;
    pthread_t thread;

    pthread_mutex_t lock; /* what follows; never held while a piece runs by the thread */
    pthread_cond_t wake;
    bool ending;
    uint32_t first; /* of the ring */
    uint32_t waiting;
    uint64_t fail_in; /* pieces until one is refused; 0 = not armed */
    impmem_status fail_with;
    piece ring[];
} fake_queue;

static uint64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void pause_ns(uint64_t ns)
{
    struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    (void)nanosleep(&t, NULL);
}

/* ---- running --------------------------------------------------------------------------------------------------------- */

/* False: it waits for another queue. */
static bool run_piece(fake_queue *q, const piece *p)
{
    switch (p->kind) {
    case PIECE_FILL: memset(p->to, p->value, (size_t)p->bytes); break;
    case PIECE_COPY: memmove(p->to, p->from, (size_t)p->bytes); break;
    case PIECE_BLOCKS:
        for (uint32_t i = 0; i < p->n; i++) memmove(p->copies[i].to, p->copies[i].from, (size_t)p->bytes);
        break;
    case PIECE_SIGNAL: __atomic_store_n(&q->counter, p->bytes, __ATOMIC_RELEASE); break;
    case PIECE_AFTER: return impmem__queue_counter(p->from) >= p->bytes;
    }
    return true;
}

static void retire(fake_queue *q)
{
    q->first = (q->first + 1) % q->capacity;
    q->waiting--;
}

/* By hand: the caller is the one thread that puts work in. */
static uint32_t run_by_hand(fake_queue *q, uint32_t n)
{
    uint32_t ran = 0;
    while (ran < n && q->waiting && run_piece(q, &q->ring[q->first])) {
        retire(q);
        ran++;
    }
    return ran;
}

static void *run_by_thread(void *context)
{
    fake_queue *q = context;
    (void)pthread_mutex_lock(&q->lock);
    for (;;) {
        while (!q->waiting && !q->ending) (void)pthread_cond_wait(&q->wake, &q->lock);
        if (!q->waiting) break;
        piece *p = &q->ring[q->first];
        uint64_t due = p->due_ns, now = now_ns();
        (void)pthread_mutex_unlock(&q->lock);
        if (due > now) pause_ns(due - now);
        while (!run_piece(q, p)) pause_ns(10000);
        (void)pthread_mutex_lock(&q->lock);
        retire(q);
        (void)pthread_cond_broadcast(&q->wake);
    }
    (void)pthread_mutex_unlock(&q->lock);
    return NULL;
}

/* ---- putting in ------------------------------------------------------------------------------------------------------ */

/* A free place, with the lock held. NULL: the queue waits for one that this thread would have to run. */
static piece *next_place(fake_queue *q)
{
    while (q->waiting == q->capacity) {
        if (q->has_thread) (void)pthread_cond_wait(&q->wake, &q->lock);
        else if (run_by_hand(q, 1) == 0) return NULL;
    }
    return &q->ring[(q->first + q->waiting) % q->capacity];
}

static impmem_status put(fake_queue *q, piece what, const impmem_block_copy *copies, impmem_error *why)
{
    (void)pthread_mutex_lock(&q->lock);
    impmem_status st = IMPMEM_OK;
    if (q->fail_in && --q->fail_in == 0) st = impmem__error_set(why, q->fail_with, SUBJECT, "refused on demand");
    piece *p = st ? NULL : next_place(q);
    if (!st && !p)
        st = impmem__error_set(why, IMPMEM_ERR_EXHAUSTED, SUBJECT, "the queue is full and waits for another one");
    if (p) {
        what.copies = p->copies;
        what.due_ns = q->has_thread ? now_ns() + q->delay_ns : 0;
        *p = what;
        if (copies) memcpy(p->copies, copies, (size_t)what.n * sizeof *copies);
        q->waiting++;
        if (q->has_thread) (void)pthread_cond_broadcast(&q->wake);
    }
    (void)pthread_mutex_unlock(&q->lock);
    return st;
}

static impmem_status fake_fill(void *self, void *to, uint8_t value, uint64_t bytes, impmem_error *why)
{
    return put(self, (piece){.kind = PIECE_FILL, .to = to, .value = value, .bytes = bytes}, NULL, why);
}

static impmem_status fake_copy(void *self, void *to, const void *from, uint64_t bytes, impmem_error *why)
{
    return put(self, (piece){.kind = PIECE_COPY, .to = to, .from = from, .bytes = bytes}, NULL, why);
}

static impmem_status fake_copy_blocks(void *self, const impmem_block_copy *copies, uint32_t n, uint64_t bytes,
                                      impmem_error *why)
{
    fake_queue *q = self;
    if (n > q->batch)
        return impmem__error_set(why, IMPMEM_ERR_EXHAUSTED, SUBJECT, "%u copies in one batch; there is room for %u", n,
                                 q->batch);
    return put(q, (piece){.kind = PIECE_BLOCKS, .n = n, .bytes = bytes}, copies, why);
}

static impmem_status fake_signal(void *self, uint64_t ticket, impmem_error *why)
{
    return put(self, (piece){.kind = PIECE_SIGNAL, .bytes = ticket}, NULL, why);
}

static impmem_status fake_after(void *self, const uint64_t *counter, uint64_t ticket, impmem_error *why)
{
    return put(self, (piece){.kind = PIECE_AFTER, .from = counter, .bytes = ticket}, NULL, why);
}

static impmem_status fake_wait(void *self, uint64_t ticket, impmem_error *why)
{
    fake_queue *q = self;
    if (!q->has_thread) {
        while (impmem__queue_counter(&q->counter) < ticket) {
            if (run_by_hand(q, 1) == 0)
                return impmem__error_set(why, IMPMEM_ERR_STATE, SUBJECT,
                                         "the work waits for another queue, which nobody runs meanwhile");
        }
        return IMPMEM_OK;
    }
    (void)pthread_mutex_lock(&q->lock);
    while (impmem__queue_counter(&q->counter) < ticket) (void)pthread_cond_wait(&q->wake, &q->lock);
    (void)pthread_mutex_unlock(&q->lock);
    return IMPMEM_OK;
}

/* ---- life ------------------------------------------------------------------------------------------------------------ */

static void fake_destroy(void *self)
{
    fake_queue *q = self;
    if (q->has_thread) {
        (void)pthread_mutex_lock(&q->lock);
        q->ending = true;
        (void)pthread_cond_broadcast(&q->wake);
        (void)pthread_mutex_unlock(&q->lock);
        (void)pthread_join(q->thread, NULL);
    } else if (q->has_lock) {
        (void)run_by_hand(q, UINT32_MAX);
    }
    if (q->has_wake) (void)pthread_cond_destroy(&q->wake);
    if (q->has_lock) (void)pthread_mutex_destroy(&q->lock);
    impmem_allocator plain = impmem_default_allocator();
    impmem__release(&plain, q, q->bytes);
}

/* The ring is simulation, not product: from the C library, charged to no line. NULL: *st says why not. */
static fake_queue *make(const impmem_fake_queue_options *o, impmem_status *st, impmem_error *why)
{
    uint32_t capacity = o->capacity ? o->capacity : DEFAULT_CAPACITY, batch = o->batch ? o->batch : DEFAULT_BATCH;
    uint64_t ring = 0, copies = 0, bytes = 0;
    impmem_allocator plain = impmem_default_allocator();
    if (impmem_mul(&copies, (uint64_t)capacity * batch, sizeof(impmem_block_copy)) ||
        impmem_mul(&ring, capacity, sizeof(piece)) || impmem_add(&bytes, ring, sizeof(fake_queue)) ||
        impmem_add(&bytes, bytes, copies)) {
        *st = impmem__error_set(why, IMPMEM_ERR_OVERFLOW, SUBJECT, "%u pieces of %u copies are too many", capacity, batch);
        return NULL;
    }
    fake_queue *q = impmem__allocate_zeroed(&plain, bytes, IMPMEM__TABLE_ALIGNMENT);
    if (!q) {
        *st = impmem__error_set(why, IMPMEM_ERR_OUT_OF_HOST_MEMORY, SUBJECT, "no host memory for the ring of the queue");
        return NULL;
    }
    q->bytes = bytes;
    q->capacity = capacity;
    q->batch = batch;
    q->delay_ns = o->delay_ns;
    impmem_block_copy *room = (impmem_block_copy *)(void *)(q->ring + capacity);
    for (uint32_t i = 0; i < capacity; i++) q->ring[i].copies = room + (size_t)i * batch;
    q->has_lock = pthread_mutex_init(&q->lock, NULL) == 0;
    q->has_wake = q->has_lock && pthread_cond_init(&q->wake, NULL) == 0;
    if (q->has_wake && q->delay_ns) q->has_thread = pthread_create(&q->thread, NULL, run_by_thread, q) == 0;
    if (!q->has_wake || (q->delay_ns && !q->has_thread)) {
        fake_destroy(q);
        *st = impmem__error_set(why, IMPMEM_ERR_OUT_OF_HOST_MEMORY, SUBJECT, "no thread or lock for the queue");
        return NULL;
    }
    return q;
}

impmem_status impmem_fake_queue_create(impmem_ledger *ledger, const impmem_fake_queue_options *options, impmem_queue **out,
                                       impmem_error *why)
{
    const impmem_fake_queue_options defaults = IMPMEM_FAKE_QUEUE_OPTIONS_INIT;
    if (!options) options = &defaults;
    if (!ledger || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "no ledger, or no place for the result");
    impmem_status st = impmem__options_check(options->size, options->version, sizeof *options, 1);
    if (st)
        return impmem__error_set(why, st, "fake queue options", "size %u or version %u is not one of this library",
                                 options->size, options->version);
    fake_queue *q = make(options, &st, why);
    if (!q) return st;
    const impmem_queue_ops ops = {sizeof ops,  1,          fake_fill, fake_copy,   fake_copy_blocks,
                                  fake_signal, fake_after, fake_wait, fake_destroy};
    st = impmem_queue_create(ledger, &ops, q, &q->counter, IMPMEM_NO_LINE, out, why);
    if (st) fake_destroy(q);
    return st;
}

static fake_queue *fake_of(const impmem_queue *queue)
{
    return queue && queue->ops.signal == fake_signal ? queue->self : NULL;
}

uint32_t impmem_fake_queue_run(impmem_queue *queue, uint32_t n)
{
    fake_queue *q = fake_of(queue);
    return q && !q->has_thread ? run_by_hand(q, n) : 0;
}

uint32_t impmem_fake_queue_waiting(const impmem_queue *queue)
{
    fake_queue *q = fake_of(queue);
    if (!q) return 0;
    (void)pthread_mutex_lock(&q->lock);
    uint32_t waiting = q->waiting;
    (void)pthread_mutex_unlock(&q->lock);
    return waiting;
}

void impmem_fake_queue_fail_nth(impmem_queue *queue, uint64_t n, impmem_status status)
{
    fake_queue *q = fake_of(queue);
    if (!q) return;
    (void)pthread_mutex_lock(&q->lock);
    q->fail_in = n;
    q->fail_with = status;
    (void)pthread_mutex_unlock(&q->lock);
}
