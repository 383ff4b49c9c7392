/* Claims: promises over several resources, committed or undone together. */
#include "support/world.h"

#include "impmem/block_pool.h"
#include "impmem/claim.h"

#define GRANULE 4096u

/* A resource that writes down what happens to it. */
typedef struct counter {
    uint64_t room, promised, committed;
    char *log; /* shared by the counters of a test */
    char name;
} counter;

static void note(counter *c, char what)
{
    size_t n = strlen(c->log);
    c->log[n] = what;
    c->log[n + 1] = c->name;
    c->log[n + 2] = '\0';
}

static impmem_status counter_reserve(void *self, uint64_t amount)
{
    counter *c = self;
    if (amount > c->room - c->promised) return IMPMEM_ERR_CAPACITY;
    c->promised += amount;
    note(c, '+');
    return IMPMEM_OK;
}

static void counter_commit(void *self, uint64_t amount)
{
    counter *c = self;
    c->promised -= amount;
    c->committed += amount;
    note(c, '=');
}

static void counter_undo(void *self, uint64_t amount)
{
    counter *c = self;
    c->promised -= amount;
    note(c, '-');
}

static impmem_resource resource_of(counter *c)
{
    return (impmem_resource){counter_reserve, counter_commit, counter_undo, c, "counter"};
}

static void a_claim_commits_every_part(void **state)
{
    (void)state;
    char log[64] = "";
    counter a = {10, 0, 0, log, 'a'}, b = {10, 0, 0, log, 'b'};
    impmem_claim claim = IMPMEM_CLAIM_INIT;
    OK(impmem_claim_add(&claim, resource_of(&a), 3));
    OK(impmem_claim_add(&claim, resource_of(&b), 0)); /* nothing asked, nothing added */
    OK(impmem_claim_add(&claim, resource_of(&b), 4));
    OK(impmem_claim_commit(&claim));
    assert_string_equal(log, "+a+b=a=b");
    assert_int_equal(a.committed, 3);
    assert_int_equal(b.committed, 4);
    assert_int_equal(impmem_claim_commit(&claim), IMPMEM_ERR_STATE);
    assert_int_equal(impmem_claim_undo(&claim), IMPMEM_ERR_STATE);
    assert_int_equal(impmem_claim_add(&claim, resource_of(&a), 1), IMPMEM_ERR_STATE);
    assert_string_equal(log, "+a+b=a=b");
}

static void a_claim_undoes_in_reverse_and_once(void **state)
{
    (void)state;
    char log[64] = "";
    counter a = {10, 0, 0, log, 'a'}, b = {10, 0, 0, log, 'b'}, c = {2, 0, 0, log, 'c'};
    impmem_claim claim = IMPMEM_CLAIM_INIT;
    OK(impmem_claim_add(&claim, resource_of(&a), 3));
    OK(impmem_claim_add(&claim, resource_of(&b), 4));
    assert_int_equal(impmem_claim_add(&claim, resource_of(&c), 3), IMPMEM_ERR_CAPACITY);
    assert_int_equal(a.promised, 3); /* what was promised before still is */
    OK(impmem_claim_undo(&claim));
    assert_string_equal(log, "+a+b-b-a");
    assert_int_equal(a.promised + b.promised + c.promised, 0);
    assert_int_equal(impmem_claim_undo(&claim), IMPMEM_ERR_STATE);
    assert_int_equal(impmem_claim_commit(&claim), IMPMEM_ERR_STATE);
    assert_int_equal(impmem_claim_add(&claim, resource_of(&a), 1), IMPMEM_ERR_STATE);
    assert_string_equal(log, "+a+b-b-a");
}

static void sixteen_parts_fit_and_one_more_is_refused(void **state)
{
    (void)state;
    char log[128] = "";
    counter a = {100, 0, 0, log, 'a'};
    impmem_claim claim = IMPMEM_CLAIM_INIT;
    for (unsigned i = 0; i < IMPMEM_CLAIM_MAX_PARTS; i++) OK(impmem_claim_add(&claim, resource_of(&a), 1));
    assert_int_equal(impmem_claim_add(&claim, resource_of(&a), 1), IMPMEM_ERR_EXHAUSTED);
    assert_int_equal(a.promised, IMPMEM_CLAIM_MAX_PARTS);
    OK(impmem_claim_undo(&claim));
    assert_int_equal(a.promised, 0);
}

static void a_failure_at_any_part_leaves_every_resource_as_it_was(void **state)
{
    (void)state;
    enum { PARTS = 6 };
    for (unsigned failing = 0; failing < PARTS; failing++) {
        char log[64] = "";
        counter parts[PARTS];
        impmem_claim claim = IMPMEM_CLAIM_INIT;
        impmem_status st = IMPMEM_OK;
        for (unsigned i = 0; i < PARTS; i++) parts[i] = (counter){i == failing ? 0 : 5, 0, 0, log, (char)('a' + i)};
        for (unsigned i = 0; i < PARTS && !st; i++) st = impmem_claim_add(&claim, resource_of(&parts[i]), 5);
        assert_int_equal(st, IMPMEM_ERR_CAPACITY);
        OK(impmem_claim_undo(&claim));
        for (unsigned i = 0; i < PARTS; i++) assert_int_equal(parts[i].promised + parts[i].committed, 0);
    }
}

static void blocks_of_two_pools_are_claimed_together(void **state)
{
    (void)state;
    world w;
    world_open(&w, GRANULE);
    impmem_block_pool *global, *window;
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.blocks = 40;
    OK(impmem_block_pool_open(w.ledger, &o, &global, NULL));
    o.blocks = 9;
    OK(impmem_block_pool_open(w.ledger, &o, &window, NULL));
    impmem_block_pool_stats stats;

    impmem_claim claim = IMPMEM_CLAIM_INIT;
    OK(impmem_claim_add(&claim, impmem_block_pool_resource(global), 40));
    assert_int_equal(impmem_claim_add(&claim, impmem_block_pool_resource(window), 10), IMPMEM_ERR_CAPACITY);
    assert_int_equal(impmem_claim_add(&claim, impmem_block_pool_resource(window), UINT64_MAX), IMPMEM_ERR_CAPACITY);
    OK(impmem_claim_undo(&claim));
    impmem_block_pool_query(global, &stats);
    assert_int_equal(stats.reserved_blocks, 0);

    impmem_claim second = IMPMEM_CLAIM_INIT;
    OK(impmem_claim_add(&second, impmem_block_pool_resource(global), 2));
    OK(impmem_claim_add(&second, impmem_block_pool_resource(window), 9));
    OK(impmem_claim_commit(&second)); /* the blocks stay reserved for take_reserved */
    impmem_block_ref refs[2], out;
    OK(impmem_block_take_reserved(global, IMPMEM_HOLDER_SEQUENCE, 1, &refs[0]));
    OK(impmem_block_take_reserved(global, IMPMEM_HOLDER_SEQUENCE, 1, &refs[1]));
    assert_int_equal(impmem_block_take_reserved(global, IMPMEM_HOLDER_SEQUENCE, 1, &out), IMPMEM_ERR_EXHAUSTED);
    assert_int_equal(impmem_block_take(window, IMPMEM_HOLDER_SEQUENCE, 1, &out), IMPMEM_ERR_EXHAUSTED);
    OK(impmem_block_pool_unreserve(window, 9));
    OK(impmem_block_drop_many(global, refs, 2, NULL));
    OK(impmem_block_pool_close(&global, NULL));
    OK(impmem_block_pool_close(&window, NULL));
    world_close(&w);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    char log[8] = "";
    counter a = {1, 0, 0, log, 'a'};
    impmem_claim claim = IMPMEM_CLAIM_INIT;
    impmem_resource no_reserve = resource_of(&a), no_undo = resource_of(&a), no_commit = resource_of(&a);
    no_reserve.reserve = NULL;
    no_undo.undo = NULL;
    no_commit.commit = NULL;
    assert_int_equal(impmem_claim_add(NULL, resource_of(&a), 1), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_claim_add(&claim, no_reserve, 1), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_claim_add(&claim, no_undo, 1), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_claim_commit(NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_claim_undo(NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_claim_add(&claim, no_commit, 1));
    OK(impmem_claim_commit(&claim)); /* the promise itself is what is held */
    assert_int_equal(a.promised, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_claim_commits_every_part),
        cmocka_unit_test(a_claim_undoes_in_reverse_and_once),
        cmocka_unit_test(sixteen_parts_fit_and_one_more_is_refused),
        cmocka_unit_test(a_failure_at_any_part_leaves_every_resource_as_it_was),
        cmocka_unit_test(blocks_of_two_pools_are_claimed_together),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
