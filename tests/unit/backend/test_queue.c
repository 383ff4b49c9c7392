/* The queue's front and the fake queue. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <time.h>

#include "impmem/queue.h"

typedef struct world {
    impmem_ledger *ledger;
    impmem_queue *queue;
    impmem_error why;
} world;

static void open_world(world *w, const impmem_fake_queue_options *o)
{
    memset(w, 0, sizeof *w);
    w->why = (impmem_error)IMPMEM_ERROR_INIT;
    assert_int_equal(impmem_ledger_create(NULL, NULL, &w->ledger), IMPMEM_OK);
    assert_int_equal(impmem_fake_queue_create(w->ledger, o, &w->queue, &w->why), IMPMEM_OK);
}

static void close_world(world *w)
{
    impmem_queue_destroy(w->queue);
    assert_int_equal(impmem_ledger_destroy(w->ledger, NULL), IMPMEM_OK);
}

static void work_waits_until_it_is_run_and_runs_in_order(void **state)
{
    (void)state;
    world w;
    open_world(&w, NULL);
    char a[8] = "aaaaaaa", b[8] = "bbbbbbb", c[8] = "ccccccc";
    uint64_t first = 0, second = 0;
    assert_int_equal(impmem_queue_copy(w.queue, b, a, 8, NULL), IMPMEM_OK);
    assert_int_equal(impmem_queue_signal(w.queue, &first, NULL), IMPMEM_OK);
    assert_int_equal(impmem_queue_copy(w.queue, c, b, 8, NULL), IMPMEM_OK);
    assert_int_equal(impmem_queue_fill(w.queue, a, 'x', 7, NULL), IMPMEM_OK);
    assert_int_equal(impmem_queue_signal(w.queue, &second, NULL), IMPMEM_OK);
    assert_int_equal(first, 1);
    assert_int_equal(second, 2);
    assert_string_equal(b, "bbbbbbb");
    assert_false(impmem_queue_done(w.queue, first));
    assert_true(impmem_queue_done(w.queue, 0));
    assert_int_equal(impmem_fake_queue_waiting(w.queue), 5);
    assert_int_equal(impmem_fake_queue_run(w.queue, 2), 2);
    assert_string_equal(b, "aaaaaaa");
    assert_string_equal(c, "ccccccc");
    assert_true(impmem_queue_done(w.queue, first));
    assert_false(impmem_queue_done(w.queue, second));
    assert_int_equal(impmem_queue_wait(w.queue, second, NULL), IMPMEM_OK);
    assert_string_equal(c, "aaaaaaa");
    assert_string_equal(a, "xxxxxxx");
    assert_int_equal(impmem_queue_completed(w.queue), second);
    assert_int_equal(impmem_fake_queue_run(w.queue, 10), 0);
    close_world(&w);
}

/* The bug that the fake exists to show: a source that is reused before its copy has run. */
static void a_source_reused_too_early_shows(void **state)
{
    (void)state;
    world w;
    open_world(&w, NULL);
    char block[8] = "request", other[8] = "";
    uint64_t ticket = 0;
    assert_int_equal(impmem_queue_copy(w.queue, other, block, 8, NULL), IMPMEM_OK);
    assert_int_equal(impmem_queue_signal(w.queue, &ticket, NULL), IMPMEM_OK);
    memcpy(block, "another", 8); /* without waiting for the ticket */
    assert_int_equal(impmem_queue_wait(w.queue, ticket, NULL), IMPMEM_OK);
    assert_string_equal(other, "another");
    close_world(&w);
}

static void a_batch_is_one_piece_whose_list_may_go(void **state)
{
    (void)state;
    world w;
    impmem_fake_queue_options o = IMPMEM_FAKE_QUEUE_OPTIONS_INIT;
    o.batch = 3;
    o.capacity = 4;
    open_world(&w, &o);
    char from[4][4] = {"one", "two", "thr", "fou"}, to[4][4];
    memset(to, 0, sizeof to);
    impmem_block_copy copies[4];
    for (int i = 0; i < 4; i++) copies[i] = (impmem_block_copy){from[i], to[i]};
    assert_int_equal(impmem_queue_copy_blocks(w.queue, copies, 4, 4, &w.why), IMPMEM_ERR_EXHAUSTED);
    assert_int_equal(impmem_queue_copy_blocks(w.queue, copies, 3, 4, NULL), IMPMEM_OK);
    assert_int_equal(impmem_fake_queue_waiting(w.queue), 1);
    memset(copies, 0, sizeof copies);
    assert_int_equal(impmem_fake_queue_run(w.queue, 1), 1);
    assert_memory_equal(to, from, 12);
    assert_int_equal(to[3][0], 0);
    close_world(&w);
}

static void a_full_queue_runs_its_oldest_first(void **state)
{
    (void)state;
    world w;
    impmem_fake_queue_options o = IMPMEM_FAKE_QUEUE_OPTIONS_INIT;
    o.capacity = 2;
    open_world(&w, &o);
    char c[6] = {0};
    for (int i = 0; i < 5; i++) assert_int_equal(impmem_queue_fill(w.queue, &c[i], 'y', 1, NULL), IMPMEM_OK);
    assert_string_equal(c, "yyy");
    assert_int_equal(impmem_fake_queue_waiting(w.queue), 2);
    impmem_queue_destroy(w.queue); /* waits for the rest */
    assert_string_equal(c, "yyyyy");
    assert_int_equal(impmem_ledger_destroy(w.ledger, NULL), IMPMEM_OK);
}

static void one_queue_runs_after_another(void **state)
{
    (void)state;
    world w;
    open_world(&w, NULL);
    impmem_queue *other = NULL;
    impmem_fake_queue_options o = IMPMEM_FAKE_QUEUE_OPTIONS_INIT;
    o.capacity = 3;
    assert_int_equal(impmem_fake_queue_create(w.ledger, &o, &other, NULL), IMPMEM_OK);
    char a = 'a', b = 'b', c = 'c';
    uint64_t zeroed = 0, end = 0;
    assert_int_equal(impmem_queue_copy(w.queue, &b, &a, 1, NULL), IMPMEM_OK);
    assert_int_equal(impmem_queue_signal(w.queue, &zeroed, NULL), IMPMEM_OK);
    assert_int_equal(impmem_queue_after(other, w.queue, zeroed, NULL), IMPMEM_OK);
    assert_int_equal(impmem_queue_copy(other, &c, &b, 1, NULL), IMPMEM_OK);
    assert_int_equal(impmem_queue_signal(other, &end, NULL), IMPMEM_OK);
    assert_int_equal(impmem_fake_queue_run(other, 9), 0);
    assert_int_equal(impmem_queue_wait(other, end, NULL), IMPMEM_ERR_STATE);
    assert_int_equal(impmem_queue_fill(other, &c, 0, 1, NULL), IMPMEM_ERR_EXHAUSTED);
    assert_int_equal(impmem_queue_wait(w.queue, zeroed, NULL), IMPMEM_OK);
    assert_int_equal(impmem_queue_wait(other, end, NULL), IMPMEM_OK);
    assert_int_equal(c, 'a');
    assert_int_equal(impmem_queue_after(other, w.queue, zeroed, NULL), IMPMEM_OK); /* done already: nothing is put in */
    assert_int_equal(impmem_fake_queue_waiting(other), 0);
    assert_int_equal(impmem_queue_after(other, w.queue, 9, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    impmem_queue_destroy(other);
    close_world(&w);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void a_queue_with_a_thread_is_late_by_its_delay(void **state)
{
    (void)state;
    world w;
    impmem_fake_queue_options o = IMPMEM_FAKE_QUEUE_OPTIONS_INIT;
    o.delay_ns = 3000000;
    o.capacity = 4;
    open_world(&w, &o);
    uint64_t data[32] = {0}, ticket = 0, before = now_ns();
    for (int i = 0; i < 32; i++) assert_int_equal(impmem_queue_fill(w.queue, &data[i], 0xff, 8, NULL), IMPMEM_OK);
    assert_int_equal(impmem_queue_signal(w.queue, &ticket, NULL), IMPMEM_OK);
    assert_int_equal(impmem_fake_queue_run(w.queue, 1), 0); /* the thread's */
    assert_int_equal(impmem_queue_wait(w.queue, ticket, NULL), IMPMEM_OK);
    assert_true(now_ns() - before >= o.delay_ns);
    for (int i = 0; i < 32; i++) assert_true(data[i] == UINT64_MAX);
    impmem_queue *other = NULL;
    assert_int_equal(impmem_fake_queue_create(w.ledger, &o, &other, NULL), IMPMEM_OK);
    char a = 'a', b = 'b';
    uint64_t later = 0;
    assert_int_equal(impmem_queue_signal(w.queue, &ticket, NULL), IMPMEM_OK);
    assert_int_equal(impmem_queue_after(other, w.queue, ticket, NULL), IMPMEM_OK);
    assert_int_equal(impmem_queue_copy(other, &b, &a, 1, NULL), IMPMEM_OK);
    assert_int_equal(impmem_queue_signal(other, &later, NULL), IMPMEM_OK);
    assert_int_equal(impmem_queue_wait(other, later, NULL), IMPMEM_OK);
    assert_true(impmem_queue_done(w.queue, ticket));
    assert_int_equal(b, 'a');
    impmem_queue_destroy(other);
    close_world(&w);
}

static void a_refused_piece_is_not_put_in(void **state)
{
    (void)state;
    world w;
    open_world(&w, NULL);
    char a = 'a', b = 'b';
    uint64_t ticket = 7;
    impmem_block_copy copy = {&a, &b};
    impmem_fake_queue_fail_nth(w.queue, 1, IMPMEM_ERR_DRIVER);
    assert_int_equal(impmem_queue_fill(w.queue, &b, 0, 1, &w.why), IMPMEM_ERR_DRIVER);
    impmem_fake_queue_fail_nth(w.queue, 1, IMPMEM_ERR_DRIVER);
    assert_int_equal(impmem_queue_copy(w.queue, &b, &a, 1, &w.why), IMPMEM_ERR_DRIVER);
    impmem_fake_queue_fail_nth(w.queue, 1, IMPMEM_ERR_DRIVER);
    assert_int_equal(impmem_queue_copy_blocks(w.queue, &copy, 1, 1, &w.why), IMPMEM_ERR_DRIVER);
    impmem_fake_queue_fail_nth(w.queue, 1, IMPMEM_ERR_DRIVER);
    assert_int_equal(impmem_queue_signal(w.queue, &ticket, &w.why), IMPMEM_ERR_DRIVER);
    assert_int_equal(ticket, 7);
    impmem_fake_queue_fail_nth(w.queue, 2, IMPMEM_ERR_DRIVER);
    impmem_fake_queue_fail_nth(w.queue, 0, IMPMEM_OK);
    assert_int_equal(impmem_queue_signal(w.queue, &ticket, &w.why), IMPMEM_OK);
    assert_int_equal(ticket, 1);
    assert_int_equal(impmem_fake_queue_run(w.queue, 9), 1);
    assert_int_equal(b, 'b');
    close_world(&w);
}

static void senseless_work_is_refused_and_nothing_is_no_work(void **state)
{
    (void)state;
    world w;
    open_world(&w, NULL);
    char a = 0;
    uint64_t ticket = 0;
    impmem_block_copy half = {&a, NULL};
    assert_int_equal(impmem_queue_fill(NULL, &a, 0, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_queue_fill(w.queue, NULL, 0, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_queue_copy(w.queue, NULL, &a, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_queue_copy(w.queue, &a, NULL, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_queue_copy_blocks(w.queue, &half, 1, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_queue_copy_blocks(w.queue, NULL, 1, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_queue_copy_blocks(NULL, &half, 1, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_queue_signal(NULL, &ticket, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_queue_signal(w.queue, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_queue_wait(w.queue, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_queue_wait(NULL, 0, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_queue_after(NULL, w.queue, 0, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_queue_after(w.queue, NULL, 0, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_queue_fill(w.queue, NULL, 0, 0, NULL), IMPMEM_OK);
    assert_int_equal(impmem_queue_copy(w.queue, NULL, NULL, 0, NULL), IMPMEM_OK);
    assert_int_equal(impmem_queue_copy_blocks(w.queue, NULL, 0, 1, NULL), IMPMEM_OK);
    assert_int_equal(impmem_queue_copy_blocks(w.queue, NULL, 1, 0, NULL), IMPMEM_OK);
    assert_int_equal(impmem_fake_queue_waiting(w.queue), 0);
    assert_false(impmem_queue_done(NULL, 0));
    assert_int_equal(impmem_queue_completed(NULL), 0);
    assert_int_equal(impmem_fake_queue_waiting(NULL), 0);
    assert_int_equal(impmem_fake_queue_run(NULL, 1), 0);
    impmem_fake_queue_fail_nth(NULL, 1, IMPMEM_ERR_DRIVER);
    impmem_queue_destroy(NULL);
    close_world(&w);
}

static impmem_status no_fill(void *s, void *to, uint8_t v, uint64_t n, impmem_error *why)
{
    (void)s, (void)to, (void)v, (void)n, (void)why;
    return IMPMEM_OK;
}
static impmem_status no_copy(void *s, void *to, const void *from, uint64_t n, impmem_error *why)
{
    (void)s, (void)to, (void)from, (void)n, (void)why;
    return IMPMEM_OK;
}
static impmem_status no_blocks(void *s, const impmem_block_copy *c, uint32_t n, uint64_t b, impmem_error *why)
{
    (void)s, (void)c, (void)n, (void)b, (void)why;
    return IMPMEM_OK;
}
static impmem_status no_signal(void *s, uint64_t t, impmem_error *why)
{
    (void)s, (void)t, (void)why;
    return IMPMEM_OK;
}
static impmem_status no_after(void *s, const uint64_t *c, uint64_t t, impmem_error *why)
{
    (void)s, (void)c, (void)t, (void)why;
    return IMPMEM_OK;
}
static void no_destroy(void *s)
{
    (void)s;
}

static void a_vtable_must_be_whole_and_known(void **state)
{
    (void)state;
    world w;
    open_world(&w, NULL);
    const impmem_queue_ops whole = {sizeof whole, 1,        no_fill,   no_copy,   no_blocks,
                                    no_signal,    no_after, no_signal, no_destroy};
    uint64_t counter = 0;
    impmem_queue *q = NULL;
    assert_int_equal(impmem_queue_create(w.ledger, &whole, NULL, &counter, 0, &q, NULL), IMPMEM_OK);
    assert_int_equal(impmem_queue_after(q, w.queue, 0, NULL), IMPMEM_ERR_INVALID_ARGUMENT); /* of another kind */
    assert_int_equal(impmem_fake_queue_waiting(q), 0);
    assert_int_equal(impmem_fake_queue_run(q, 1), 0);
    impmem_queue_destroy(q);
    for (int i = 0; i < 7; i++) {
        impmem_queue_ops o = whole;
        void (**function)(void) = (void (**)(void))(void *)&o.fill;
        function[i] = NULL;
        assert_int_equal(impmem_queue_create(w.ledger, &o, NULL, &counter, 0, &q, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    }
    impmem_queue_ops o = whole;
    o.version = 2;
    assert_int_equal(impmem_queue_create(w.ledger, &o, NULL, &counter, 0, &q, NULL), IMPMEM_ERR_VERSION);
    o.version = o.size = 0;
    assert_int_equal(impmem_queue_create(w.ledger, &o, NULL, &counter, 0, &q, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_queue_create(NULL, &whole, NULL, &counter, 0, &q, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_queue_create(w.ledger, NULL, NULL, &counter, 0, &q, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_queue_create(w.ledger, &whole, NULL, NULL, 0, &q, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_queue_create(w.ledger, &whole, NULL, &counter, 0, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    impmem_fake_queue_options f = IMPMEM_FAKE_QUEUE_OPTIONS_INIT;
    assert_int_equal(impmem_fake_queue_create(NULL, &f, &q, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_fake_queue_create(w.ledger, &f, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    f.version = 2;
    assert_int_equal(impmem_fake_queue_create(w.ledger, &f, &q, NULL), IMPMEM_ERR_VERSION);
    close_world(&w);
}

/* Every host allocation fails in turn: nothing is left, and the queue comes up when there is memory. */
static void *starve(void *context, size_t bytes, size_t alignment)
{
    int *left = context;
    return (*left)-- > 0 ? impmem_default_allocator().allocate(NULL, bytes, alignment) : NULL;
}
static void starve_release(void *context, void *memory, size_t bytes)
{
    (void)context;
    impmem_default_allocator().release(NULL, memory, bytes);
}

static void without_host_memory_there_is_no_queue(void **state)
{
    (void)state;
    int left = 1; /* the ledger's own */
    impmem_ledger_options o = IMPMEM_LEDGER_OPTIONS_INIT;
    o.allocator = (impmem_allocator){starve, starve_release, &left};
    impmem_ledger *ledger = NULL;
    impmem_queue *q = NULL;
    assert_int_equal(impmem_ledger_create(NULL, &o, &ledger), IMPMEM_OK);
    assert_int_equal(impmem_fake_queue_create(ledger, NULL, &q, NULL), IMPMEM_ERR_OUT_OF_HOST_MEMORY);
    assert_null(q);
    left = 1;
    assert_int_equal(impmem_fake_queue_create(ledger, NULL, &q, NULL), IMPMEM_OK);
    impmem_queue_destroy(q);
    assert_int_equal(impmem_ledger_destroy(ledger, NULL), IMPMEM_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_waits_until_it_is_run_and_runs_in_order),
        cmocka_unit_test(a_source_reused_too_early_shows),
        cmocka_unit_test(a_batch_is_one_piece_whose_list_may_go),
        cmocka_unit_test(a_full_queue_runs_its_oldest_first),
        cmocka_unit_test(one_queue_runs_after_another),
        cmocka_unit_test(a_queue_with_a_thread_is_late_by_its_delay),
        cmocka_unit_test(a_refused_piece_is_not_put_in),
        cmocka_unit_test(senseless_work_is_refused_and_nothing_is_no_work),
        cmocka_unit_test(a_vtable_must_be_whole_and_known),
        cmocka_unit_test(without_host_memory_there_is_no_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
