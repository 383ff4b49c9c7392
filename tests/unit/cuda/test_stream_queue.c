/* The queue over a stream. */
#define _GNU_SOURCE
#include <time.h>

#include "world.h"

typedef struct queued {
    world w;
    impmem_queue *queue;
    impmem_cuda_queue_options o;
} queued;

static impmem_status run_create(void *context)
{
    queued *q = context;
    return impmem_cuda_queue_create(q->w.device, &q->o, &q->queue, &q->w.why);
}

static void undo_create(void *context)
{
    queued *q = context;
    impmem_queue_destroy(q->queue);
    q->queue = NULL;
}

static void open_queue(queued *q, impmem_cuda_copy_way way, uint32_t batch)
{
    memset(q, 0, sizeof *q);
    open_world(&q->w);
    q->o = (impmem_cuda_queue_options)IMPMEM_CUDA_QUEUE_OPTIONS_INIT;
    q->o.copy = way;
    q->o.batch = batch;
    assert_int_equal(run_create(q), IMPMEM_OK);
}

static void close_queue(queued *q)
{
    undo_create(q);
    close_world(&q->w);
}

static void creating_fails_at_every_call_and_leaves_nothing(void **state)
{
    (void)state;
    queued q;
    memset(&q, 0, sizeof q);
    open_world(&q.w);
    q.o = (impmem_cuda_queue_options)IMPMEM_CUDA_QUEUE_OPTIONS_INIT;
    q.o.copy = IMPMEM_CUDA_COPY_KERNEL;
    q.o.pinned_line = LINE_PINNED;
    sweep s = {q.w.fake, run_create, undo_create, &q, 999, true};
    /* pinned memory, its address, a stream, a module, a function, each with the context made current */
    assert_true(run_sweep(&s) >= 8);
    assert_int_equal(committed(&q.w, IMPMEM_ACCOUNT_PINNED), 0);
    assert_int_equal(run_create(&q), IMPMEM_OK);
    uint64_t said = 0;
    assert_int_equal(impmem_cuda_queue_pinned_bytes(0, &said), IMPMEM_OK);
    assert_int_equal(committed(&q.w, IMPMEM_ACCOUNT_PINNED), said);
    close_queue(&q);
}

/* Blocks of an odd size cross the kernel's pieces; more copies than the ring has places go in parts. */
static void every_way_copies_every_byte(void **state)
{
    (void)state;
    enum { N = 50, BYTES = 70001 };
    static const impmem_cuda_copy_way ways[] = {IMPMEM_CUDA_COPY_AUTO, IMPMEM_CUDA_COPY_KERNEL, IMPMEM_CUDA_COPY_BATCH,
                                                IMPMEM_CUDA_COPY_SINGLE};
    unsigned char *from = malloc((size_t)N * BYTES), *to = malloc((size_t)N * BYTES);
    assert_true(from && to);
    for (size_t i = 0; i < (size_t)N * BYTES; i++) from[i] = (unsigned char)(i * 2654435761u >> 13);
    for (int k = 0; k < 4; k++) {
        queued q;
        open_queue(&q, ways[k], 16);
        assert_int_equal(impmem_cuda_queue_copy_way(q.queue), ways[k] ? ways[k] : IMPMEM_CUDA_COPY_KERNEL);
        memset(to, 0, (size_t)N * BYTES);
        impmem_block_copy copies[N];
        for (size_t i = 0; i < N; i++) copies[i] = (impmem_block_copy){from + i * BYTES, to + (N - 1 - i) * BYTES};
        for (int round = 0; round < 3; round++)
            assert_int_equal(impmem_queue_copy_blocks(q.queue, copies, N, BYTES, &q.w.why), IMPMEM_OK);
        uint64_t ticket = 0;
        assert_int_equal(impmem_queue_signal(q.queue, &ticket, NULL), IMPMEM_OK);
        assert_int_equal(impmem_queue_wait(q.queue, ticket, NULL), IMPMEM_OK);
        for (size_t i = 0; i < N; i++) assert_memory_equal(copies[i].from, copies[i].to, BYTES);
        close_queue(&q);
    }
    free(from);
    free(to);
}

static void auto_takes_what_there_is(void **state)
{
    (void)state;
    queued q;
    memset(&q, 0, sizeof q);
    open_world(&q.w);
    q.o = (impmem_cuda_queue_options)IMPMEM_CUDA_QUEUE_OPTIONS_INIT;
    q.w.device->driver.module_load = NULL;
    assert_int_equal(run_create(&q), IMPMEM_OK);
    assert_int_equal(impmem_cuda_queue_copy_way(q.queue), IMPMEM_CUDA_COPY_BATCH);
    undo_create(&q);
    q.w.device->driver.copy_batch = NULL;
    assert_int_equal(run_create(&q), IMPMEM_OK);
    assert_int_equal(impmem_cuda_queue_copy_way(q.queue), IMPMEM_CUDA_COPY_SINGLE);
    undo_create(&q);
    q.o.copy = IMPMEM_CUDA_COPY_BATCH;
    assert_int_equal(run_create(&q), IMPMEM_ERR_UNSUPPORTED);
    q.o.copy = IMPMEM_CUDA_COPY_KERNEL;
    assert_int_equal(run_create(&q), IMPMEM_ERR_UNSUPPORTED);
    q.o.copy = IMPMEM_CUDA_COPY_AUTO;
    q.w.device->driver.stream_write = NULL;
    assert_int_equal(run_create(&q), IMPMEM_ERR_UNSUPPORTED);
    close_world(&q.w);
}

static void a_callers_stream_stays_the_callers(void **state)
{
    (void)state;
    queued q;
    memset(&q, 0, sizeof q);
    open_world(&q.w);
    int stream;
    q.o = (impmem_cuda_queue_options)IMPMEM_CUDA_QUEUE_OPTIONS_INIT;
    q.o.stream = &stream;
    assert_int_equal(run_create(&q), IMPMEM_OK);
    assert_ptr_equal(impmem_cuda_queue_stream(q.queue), &stream);
    undo_create(&q);
    assert_int_equal(fake_count(q.w.fake, IMPMEM__CALL_stream_create), 0);
    assert_int_equal(fake_count(q.w.fake, IMPMEM__CALL_stream_destroy), 0);
    close_world(&q.w);
}

static void work_that_the_driver_refuses_is_typed_and_leaves_no_error(void **state)
{
    (void)state;
    static const impmem_cuda_copy_way ways[] = {IMPMEM_CUDA_COPY_KERNEL, IMPMEM_CUDA_COPY_BATCH, IMPMEM_CUDA_COPY_SINGLE};
    char a[64] = {1}, b[64] = {2};
    impmem_block_copy copy = {a, b};
    for (int k = 0; k < 3; k++) {
        queued q;
        open_queue(&q, ways[k], 4);
        uint64_t ticket = 0;
        for (uint64_t n = 1; n <= 2; n++) { /* making current, then the call itself */
            fake_fail(q.w.fake, n, 999, false);
            assert_int_equal(impmem_queue_fill(q.queue, b, 0, 64, &q.w.why), IMPMEM_ERR_DRIVER);
            fake_fail(q.w.fake, n, 999, false);
            assert_int_equal(impmem_queue_copy(q.queue, b, a, 64, &q.w.why), IMPMEM_ERR_DRIVER);
            fake_fail(q.w.fake, n, 999, false);
            assert_int_equal(impmem_queue_copy_blocks(q.queue, &copy, 1, 64, &q.w.why), IMPMEM_ERR_DRIVER);
            fake_fail(q.w.fake, n, 999, false);
            assert_int_equal(impmem_queue_signal(q.queue, &ticket, &q.w.why), IMPMEM_ERR_DRIVER);
            assert_int_equal(q.w.fake->last_error, 0);
            assert_int_equal(q.w.fake->depth, 0);
        }
        fake_heal(q.w.fake);
        assert_int_equal(ticket, 0);
        assert_int_equal(impmem_queue_signal(q.queue, &ticket, &q.w.why), IMPMEM_OK);
        assert_int_equal(ticket, 1);
        assert_true(impmem_queue_done(q.queue, 1));
        close_queue(&q);
    }
}

static void a_stream_that_ends_without_its_signal_is_an_error_and_no_endless_wait(void **state)
{
    (void)state;
    queued q;
    open_queue(&q, IMPMEM_CUDA_COPY_KERNEL, 2);
    uint64_t ticket = 0;
    q.w.fake->stalled = true;
    assert_int_equal(impmem_queue_signal(q.queue, &ticket, NULL), IMPMEM_OK);
    assert_false(impmem_queue_done(q.queue, ticket));
    q.w.fake->stalled = false; /* the stream is idle, the signal was lost */
    assert_int_equal(impmem_queue_wait(q.queue, ticket, &q.w.why), IMPMEM_ERR_DRIVER);
    fake_fail_call(q.w.fake, IMPMEM__CALL_context_push, 1, 999, false);
    assert_int_equal(impmem_queue_wait(q.queue, ticket, &q.w.why), IMPMEM_ERR_DRIVER);
    fake_fail_call(q.w.fake, IMPMEM__CALL_stream_query, 1, 700, true);
    assert_int_equal(impmem_queue_wait(q.queue, ticket, &q.w.why), IMPMEM_ERR_DRIVER);
    assert_int_equal(q.w.why.driver_code, 700);
    fake_heal(q.w.fake);
    /* The ring of two pairs is full until the first batch is known to have run. */
    char a[8] = "1234567", b[8] = "";
    impmem_block_copy copies[2] = {{a, b}, {a, b}};
    q.w.fake->stalled = true;
    assert_int_equal(impmem_queue_copy_blocks(q.queue, copies, 2, 8, NULL), IMPMEM_OK);
    q.w.fake->stalled = false;
    assert_int_equal(impmem_queue_copy_blocks(q.queue, copies, 1, 8, NULL), IMPMEM_ERR_DRIVER);
    close_queue(&q);
}

static void *let_go(void *context)
{
    queued *q = context;
    const struct timespec t = {0, 30000000};
    nanosleep(&t, NULL);
    (void)pthread_mutex_lock(&q->w.fake->lock);
    q->w.fake->stalled = false;
    /* What the stalled stream would have written. */
    for (uint32_t i = 0; i < q->w.fake->n_log; i++) {
        const fake_event *e = &q->w.fake->log[i];
        if (e->call == IMPMEM__CALL_stream_write) __atomic_store_n((uint64_t *)e->at, e->bytes, __ATOMIC_RELEASE);
    }
    (void)pthread_mutex_unlock(&q->w.fake->lock);
    return NULL;
}

static void a_wait_lasts_until_the_device_has_written(void **state)
{
    (void)state;
    queued q;
    open_queue(&q, IMPMEM_CUDA_COPY_AUTO, 0);
    uint64_t ticket = 0;
    q.w.fake->n_log = FAKE_LOG - 4000;
    memset(q.w.fake->log, 0, sizeof q.w.fake->log);
    q.w.fake->stalled = true;
    assert_int_equal(impmem_queue_signal(q.queue, &ticket, NULL), IMPMEM_OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, let_go, &q), 0);
    assert_int_equal(impmem_queue_wait(q.queue, ticket, NULL), IMPMEM_OK);
    pthread_join(thread, NULL);
    assert_int_equal(impmem_queue_completed(q.queue), ticket);
    close_queue(&q);
}

static void one_queue_waits_for_another_on_the_device(void **state)
{
    (void)state;
    queued q;
    open_queue(&q, IMPMEM_CUDA_COPY_AUTO, 0);
    impmem_queue *other = NULL;
    uint64_t ticket = 0;
    assert_int_equal(impmem_cuda_queue_create(q.w.device, NULL, &other, NULL), IMPMEM_OK);
    q.w.fake->stalled = true;
    assert_int_equal(impmem_queue_signal(other, &ticket, NULL), IMPMEM_OK);
    assert_int_equal(impmem_queue_after(q.queue, other, ticket, NULL), IMPMEM_OK);
    assert_int_equal(q.w.fake->log[q.w.fake->n_log - 2].call, IMPMEM__CALL_stream_wait_value);
    assert_int_equal(q.w.fake->log[q.w.fake->n_log - 2].bytes, ticket);
    for (uint64_t n = 1; n <= 3; n++) {
        fake_fail(q.w.fake, n, 999, false);
        assert_int_equal(impmem_queue_after(q.queue, other, ticket, NULL), IMPMEM_ERR_DRIVER);
    }
    fake_heal(q.w.fake);
    assert_int_equal(impmem_queue_after(q.queue, other, ticket + 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    q.w.fake->stalled = false;
    impmem_queue_destroy(other);
    close_queue(&q);
}

static void senseless_queues_are_refused(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    impmem_queue *queue = NULL;
    impmem_cuda_queue_options o = IMPMEM_CUDA_QUEUE_OPTIONS_INIT;
    assert_int_equal(impmem_cuda_queue_create(NULL, &o, &queue, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cuda_queue_create(w.device, &o, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    o.copy = (impmem_cuda_copy_way)9;
    assert_int_equal(impmem_cuda_queue_create(w.device, &o, &queue, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    o.copy = IMPMEM_CUDA_COPY_AUTO;
    o.version = 2;
    assert_int_equal(impmem_cuda_queue_create(w.device, &o, &queue, NULL), IMPMEM_ERR_VERSION);
    assert_int_equal(impmem_cuda_queue_pinned_bytes(1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    impmem_queue *fake = NULL;
    assert_int_equal(impmem_fake_queue_create(w.ledger, NULL, &fake, NULL), IMPMEM_OK);
    assert_int_equal(impmem_cuda_queue_copy_way(fake), IMPMEM_CUDA_COPY_AUTO);
    assert_null(impmem_cuda_queue_stream(fake));
    assert_null(impmem_cuda_queue_stream(NULL));
    impmem_queue_destroy(fake);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(creating_fails_at_every_call_and_leaves_nothing),
        cmocka_unit_test(every_way_copies_every_byte),
        cmocka_unit_test(auto_takes_what_there_is),
        cmocka_unit_test(a_callers_stream_stays_the_callers),
        cmocka_unit_test(work_that_the_driver_refuses_is_typed_and_leaves_no_error),
        cmocka_unit_test(a_stream_that_ends_without_its_signal_is_an_error_and_no_endless_wait),
        cmocka_unit_test(a_wait_lasts_until_the_device_has_written),
        cmocka_unit_test(one_queue_waits_for_another_on_the_device),
        cmocka_unit_test(senseless_queues_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
