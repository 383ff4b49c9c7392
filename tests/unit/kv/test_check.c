/* impmem_kv_check finds what is wrong: each figure is falsified in turn, and each falsification must be named. */
#include "kv_test.h"

#include "kv/internal.h"

typedef struct scene {
    kv_world w;
    impmem_sequence s;
    uint32_t tokens[17];
} scene;

static scene set_scene(void)
{
    scene c = {.w = open_world(32)};
    write_tokens(c.tokens, 17, 500);
    cache_prompt(c.w.kv, c.tokens, 17);
    write_tokens(c.tokens, 17, 100);
    c.s = run(c.w.kv, c.tokens, 17, true);
    assert_sound(c.w.kv);
    return c;
}

static void strike(scene *c)
{
    release(c->w.kv, &c->s);
    close_world(&c->w);
}

/* Changes a 32-bit figure by `by`, expects the checker to object, and puts it back. */
static void falsify32(scene *c, uint32_t *figure, uint32_t by, const char *name)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    *figure += by;
    impmem_status st = impmem_kv_check(c->w.kv, &why);
    *figure -= by;
    if (st != IMPMEM_ERR_STATE) fail_msg("a false %s was not found", name);
    assert_int_not_equal(why.message[0], 0);
    assert_sound(c->w.kv);
}

static void falsify64(scene *c, uint64_t *figure, uint64_t by, const char *name)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    *figure += by;
    impmem_status st = impmem_kv_check(c->w.kv, &why);
    *figure -= by;
    if (st != IMPMEM_ERR_STATE) fail_msg("a false %s was not found", name);
    assert_int_not_equal(why.message[0], 0);
    assert_sound(c->w.kv);
}

static void every_falsified_figure_is_found(void **state)
{
    (void)state;
    scene c = set_scene();
    impmem_kv *kv = c.w.kv;
    impmem__kv_sequence *s = &kv->sequence[c.s.slot_];
    impmem__kv_entry *locked = &kv->entry[s->last], *oldest = &kv->entry[kv->oldest];
    impmem__kv_root *root = &kv->root[s->root];
    falsify64(&c, &kv->broken, 1, "count of refused drops");
    falsify64(&c, &kv->group[0].promised, 1, "promise");
    falsify64(&c, &kv->group[0].holds, 1, "count of holds");
    falsify64(&c, &kv->group[0].holds, UINT64_MAX, "count of holds");
    falsify32(&c, &kv->cached, 1, "count of cached blocks");
    falsify32(&c, &kv->cached, UINT32_MAX, "count of cached blocks");
    falsify32(&c, &kv->in_use, 1, "count of cached blocks in use");
    falsify32(&c, &kv->reclaimable, 1, "count of reclaimable blocks");
    falsify32(&c, &kv->live_sequences, 1, "count of sequences");
    falsify32(&c, &kv->live_roots, 1, "count of namespaces");
    falsify32(&c, &kv->cached_roots, 1, "count of cached namespaces");
    falsify32(&c, &kv->oldest, 1, "end of the list");
    falsify32(&c, &kv->newest, 1, "end of the list");
    falsify32(&c, &s->tokens, 4, "length");
    falsify32(&c, &s->published, 9, "count of published blocks");
    falsify32(&c, &s->bound, 9, "count of bound blocks");
    falsify32(&c, &s->promise[0], 1, "promise of the sequence");
    falsify32(&c, &s->first[0], 1, "first position");
    falsify32(&c, &kv->group[0].ids[impmem__kv_row(kv, s)], 1, "block in the table");
    falsify32(&c, &kv->binding[kv->group[0].ids[impmem__kv_row(kv, s)]], 1, "entry of a block");
    falsify32(&c, &locked->users, 1, "count of users");
    falsify32(&c, &locked->locked_children, 1, "count of locked children");
    falsify32(&c, &kv->entry[locked->parent].locked_children, UINT32_MAX, "count of locked children");
    falsify64(&c, &locked->parent_generation, 1, "generation of the parent");
    falsify64(&c, &locked->hash, 1, "hash");
    falsify64(&c, &locked->ref.generation_, 1, "reference of the cache");
    falsify32(&c, &oldest->users, 1, "count of users in the list");
    falsify32(&c, &oldest->older, 1, "neighbour in the list");
    falsify32(&c, &root->sequences, 1, "count of sequences of a namespace");
    falsify32(&c, &root->entries, 1, "count of entries of a namespace");
    falsify32(&c, &kv->free_sequence, UINT32_MAX, "head of the free sequences");
    strike(&c);
}

static void a_child_younger_than_its_parent_is_found(void **state)
{
    (void)state;
    scene c = set_scene();
    impmem_kv *kv = c.w.kv;
    /* Exchange the two oldest of the list: a tail and its parent. */
    uint32_t a = kv->oldest, b = kv->entry[a].newer, next = kv->entry[b].newer;
    assert_int_equal(kv->entry[a].parent, b);
    kv->oldest = b;
    kv->entry[b].older = 0;
    kv->entry[b].newer = a;
    kv->entry[a].older = b;
    kv->entry[a].newer = next;
    kv->entry[next].older = a;
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(impmem_kv_check(kv, &why), IMPMEM_ERR_STATE);
    assert_non_null(strstr(why.message, "younger than its parent"));
    kv->oldest = a;
    kv->entry[a].older = 0;
    kv->entry[a].newer = b;
    kv->entry[b].older = a;
    kv->entry[b].newer = next;
    kv->entry[next].older = b;
    strike(&c);
}

/* F026 and F027: both signs of a difference are found, at once, and said apart. */
static void a_leak_and_a_double_free_are_told_apart_by_sign(void **state)
{
    (void)state;
    scene c = set_scene();
    impmem_block_ref leaked;
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(impmem_block_take(c.w.pool, IMPMEM_HOLDER_SEQUENCE, 99, &leaked), IMPMEM_OK);
    assert_int_equal(impmem_kv_check(c.w.kv, &why), IMPMEM_ERR_STATE);
    assert_non_null(strstr(why.message, "references of sequences in group 0: found 6, expected 5"));
    impmem_block_holder who;
    uint32_t n = 0;
    assert_int_equal(impmem_block_holders(c.w.pool, impmem_block_id(c.w.pool, leaked), &who, 1, &n), IMPMEM_OK);
    assert_int_equal(who.owner, 99);
    assert_int_equal(impmem_block_drop(c.w.pool, &leaked), IMPMEM_OK);
    assert_sound(c.w.kv);

    impmem__kv_sequence *s = &c.w.kv->sequence[c.s.slot_];
    impmem_block_ref *last = &c.w.kv->group[0].refs[impmem__kv_row(c.w.kv, s) + 4], copy = *last;
    assert_int_equal(impmem_block_drop(c.w.pool, &copy), IMPMEM_OK); /* behind the manager's back */
    assert_int_equal(impmem_kv_check(c.w.kv, &why), IMPMEM_ERR_STATE);
    assert_non_null(strstr(why.message, "table of the sequence"));
    assert_int_equal(impmem_block_take(c.w.pool, IMPMEM_HOLDER_SEQUENCE, 0, last), IMPMEM_OK);
    assert_sound(c.w.kv);
    strike(&c);
}

static void the_checker_changes_nothing_and_the_manager_goes_on(void **state)
{
    (void)state;
    scene c = set_scene();
    impmem_kv_stats before = stats_of(c.w.kv), after;
    c.w.kv->group[0].promised++;
    for (int i = 0; i < 3; i++) assert_int_equal(impmem_kv_check(c.w.kv, NULL), IMPMEM_ERR_STATE);
    c.w.kv->group[0].promised--;
    after = stats_of(c.w.kv);
    assert_memory_equal(&before, &after, sizeof before);
    strike(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_falsified_figure_is_found),
        cmocka_unit_test(a_child_younger_than_its_parent_is_found),
        cmocka_unit_test(a_leak_and_a_double_free_are_told_apart_by_sign),
        cmocka_unit_test(the_checker_changes_nothing_and_the_manager_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
