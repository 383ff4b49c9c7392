/* impmem/queue.h, as the header promises it. */
#include "contract.h"

#include "impmem/queue.h"

static impmem_queue *open_queue(world *w, uint32_t capacity, uint32_t batch, uint64_t delay_ns)
{
    impmem_queue *queue = NULL;
    impmem_fake_queue_options o = IMPMEM_FAKE_QUEUE_OPTIONS_INIT;
    o.capacity = capacity;
    o.batch = batch;
    o.delay_ns = delay_ns;
    OK(impmem_fake_queue_create(w->ledger, &o, &queue, NULL));
    return queue;
}

static void every_function_refuses_what_is_missing(void **state)
{
    (void)state;
    world w;
    impmem_error why;
    impmem_queue *queue = NULL;
    impmem_fake_queue_options o = IMPMEM_FAKE_QUEUE_OPTIONS_INIT;
    uint64_t ticket = 77;
    char memory[64];
    const impmem_block_copy half = {NULL, memory};
    world_open(&w, GRANULE);
    const world_figures before = world_look(&w);
    REFUSED(impmem_fake_queue_create(NULL, &o, &queue, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_fake_queue_create(w.ledger, &o, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    o.version = 2;
    REFUSED(impmem_fake_queue_create(w.ledger, &o, &queue, &why), IMPMEM_ERR_VERSION);
    o.version = 1;
    o.capacity = o.batch = UINT32_MAX; /* times 16 bytes a copy: beyond 64 bits */
    REFUSED(impmem_fake_queue_create(w.ledger, &o, &queue, &why), IMPMEM_ERR_OVERFLOW);
    w.fail_in = 1;
    REFUSED(impmem_fake_queue_create(w.ledger, NULL, &queue, &why), IMPMEM_ERR_OUT_OF_HOST_MEMORY);
    w.fail_in = 0;
    assert_null(queue);
    assert_same_figures(before, world_look(&w));
    memset(&o, 0, sizeof o); /* a zeroed struct means version 1 */
    OK(impmem_fake_queue_create(w.ledger, &o, &queue, NULL));
    REFUSED(impmem_queue_fill(NULL, memory, 0, 1, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_queue_fill(queue, NULL, 0, 1, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_queue_fill(queue, NULL, 0, 0, &why));
    REFUSED(impmem_queue_copy(queue, memory, NULL, 1, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_queue_copy(queue, NULL, memory, 1, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_queue_copy(queue, NULL, NULL, 0, &why));
    REFUSED(impmem_queue_copy_blocks(queue, NULL, 1, 1, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_queue_copy_blocks(queue, &half, 1, 1, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_queue_copy_blocks(queue, NULL, 0, 1, &why));
    OK(impmem_queue_copy_blocks(queue, &half, 1, 0, &why));
    REFUSED(impmem_queue_signal(NULL, &ticket, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_queue_signal(queue, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_queue_wait(queue, 1, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_queue_wait(queue, UINT64_MAX, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_queue_after(queue, NULL, 0, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    REFUSED(impmem_queue_after(queue, queue, 1, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_queue_wait(queue, 0, &why));
    assert_true(impmem_queue_done(queue, 0));
    assert_false(impmem_queue_done(queue, 1));
    assert_int_equal(impmem_fake_queue_waiting(queue), 0);
    assert_int_equal(ticket, 77);
    impmem_queue_destroy(queue);
    impmem_queue_destroy(NULL);
    assert_same_figures(before, world_look(&w));
    world_close(&w);
}

/* What is put in runs in that order, later: a source that changes meanwhile shows in the copy. */
static void work_runs_late_and_in_order(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_queue *queue = open_queue(&w, 8, 2, 0);
    char a[4] = {1, 1, 1, 1}, b[4] = {2, 2, 2, 2}, c[4] = {3, 3, 3, 3};
    const impmem_block_copy both[] = {{a, b}, {b, c}};
    uint64_t first = 0, second = 0;
    OK(impmem_queue_fill(queue, a, 9, 4, NULL));
    OK(impmem_queue_signal(queue, &first, NULL));
    OK(impmem_queue_copy(queue, b, a, 4, NULL));
    OK(impmem_queue_signal(queue, &second, NULL));
    assert_int_equal(first, 1);
    assert_int_equal(second, 2);
    assert_int_equal(a[0], 1);
    assert_int_equal(impmem_fake_queue_waiting(queue), 4);
    assert_false(impmem_queue_done(queue, first));
    OK(impmem_queue_wait(queue, first, NULL));
    assert_int_equal(a[3], 9);
    assert_int_equal(b[0], 2);
    assert_true(impmem_queue_done(queue, first));
    assert_false(impmem_queue_done(queue, second));
    a[0] = 5; /* too early: the copy has not run */
    assert_int_equal(impmem_fake_queue_run(queue, 100), 2);
    assert_int_equal(b[0], 5);
    assert_int_equal(impmem_queue_completed(queue), 2);
    FAILS(impmem_queue_copy_blocks(queue, (const impmem_block_copy[]){{a, b}, {a, b}, {a, b}}, 3, 4, NULL),
          IMPMEM_ERR_EXHAUSTED);
    impmem_fake_queue_fail_nth(queue, 2, IMPMEM_ERR_DRIVER);
    OK(impmem_queue_fill(queue, a, 7, 4, NULL));
    FAILS(impmem_queue_copy_blocks(queue, both, 1, 4, NULL), IMPMEM_ERR_DRIVER);
    OK(impmem_queue_signal(queue, &first, NULL));
    assert_int_equal(first, 3); /* a refused piece takes no ticket */
    impmem_fake_queue_fail_nth(queue, 1, IMPMEM_ERR_DRIVER);
    FAILS(impmem_queue_signal(queue, &second, NULL), IMPMEM_ERR_DRIVER);
    assert_int_equal(second, 2);
    OK(impmem_queue_signal(queue, &second, NULL));
    assert_int_equal(second, 4);
    impmem_queue_destroy(queue); /* runs what waits */
    assert_int_equal(a[0], 7);
    assert_int_equal(b[0], 5);
    world_close(&w);
}

static void a_queue_waits_for_another_without_the_host(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    for (unsigned threaded = 0; threaded < 2; threaded++) {
        impmem_queue *producer = open_queue(&w, 0, 0, threaded ? 1000000 : 0);
        impmem_queue *consumer = open_queue(&w, 0, 0, threaded ? 1 : 0);
        char from[64] = {0}, to[64] = {0};
        uint64_t made = 0, used = 0;
        OK(impmem_queue_fill(producer, from, 4, sizeof from, NULL));
        OK(impmem_queue_signal(producer, &made, NULL));
        OK(impmem_queue_after(consumer, producer, made, NULL));
        OK(impmem_queue_copy(consumer, to, from, sizeof to, NULL));
        OK(impmem_queue_signal(consumer, &used, NULL));
        if (!threaded) {
            assert_int_equal(impmem_fake_queue_run(consumer, 100), 0);
            FAILS(impmem_queue_wait(consumer, used, NULL), IMPMEM_ERR_STATE);
            assert_int_equal(impmem_fake_queue_run(producer, 100), 2);
        }
        OK(impmem_queue_wait(consumer, used, NULL));
        assert_true(impmem_queue_done(producer, made));
        assert_memory_equal(to, from, sizeof to);
        assert_int_equal(to[63], 4);
        impmem_queue_destroy(consumer);
        impmem_queue_destroy(producer);
    }
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_refuses_what_is_missing),
        cmocka_unit_test(work_runs_late_and_in_order),
        cmocka_unit_test(a_queue_waits_for_another_without_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
