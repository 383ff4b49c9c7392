/* Trackers: told of every take, each drop and rewind; and the one for AddressSanitizer. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "impmem/arena.h"
#include "impmem/block_pool.h"
#include "impmem/fake.h"
#include "impmem/scratch.h"
#include "impmem/track.h"

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#endif

typedef struct told {
    int opens, closes, takes, drops, rewinds, destroys;
    uint64_t region, bytes;
    void *address;
    const char *name;
} told;

static void on_open(void *s, uint64_t region, void *base, uint64_t bytes, const char *name)
{
    told *t = s;
    t->opens++;
    t->region = region;
    t->address = base;
    t->bytes = bytes;
    t->name = name;
}
static void on_close(void *s, uint64_t region, void *base, uint64_t bytes)
{
    told *t = s;
    t->closes++;
    t->region = region;
    t->address = base;
    t->bytes = bytes;
}
static void on_take(void *s, uint64_t region, void *address, uint64_t bytes, const char *name)
{
    on_open(s, region, address, bytes, name);
    told *t = s;
    t->opens--;
    t->takes++;
}
static void on_drop(void *s, uint64_t region, void *address, uint64_t bytes)
{
    on_close(s, region, address, bytes);
    told *t = s;
    t->closes--;
    t->drops++;
}
static void on_rewind(void *s, uint64_t region, void *address, uint64_t bytes)
{
    on_close(s, region, address, bytes);
    told *t = s;
    t->closes--;
    t->rewinds++;
}
static void on_destroy(void *s)
{
    told *t = s;
    t->destroys++;
}

typedef struct world {
    impmem_ledger *ledger;
    impmem_backend *backend;
    impmem_region *region;
} world;

static void open_world(world *w, const impmem_track *track)
{
    memset(w, 0, sizeof *w);
    assert_int_equal(impmem_ledger_create(NULL, NULL, &w->ledger), IMPMEM_OK);
    assert_int_equal(impmem_fake_backend_create(w->ledger, NULL, &w->backend, NULL, NULL), IMPMEM_OK);
    if (track) assert_int_equal(impmem_backend_track(w->backend, track), IMPMEM_OK);
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = 65536;
    info.tag = IMPMEM_TAG_ENGINE_PERSISTENT;
    assert_int_equal(impmem_backend_acquire(w->backend, &info, &w->region, NULL), IMPMEM_OK);
}

static void close_world(world *w)
{
    assert_int_equal(impmem_backend_release(&w->region, NULL), IMPMEM_OK);
    assert_int_equal(impmem_backend_destroy(w->backend, NULL), IMPMEM_OK);
    assert_int_equal(impmem_ledger_destroy(w->ledger, NULL), IMPMEM_OK);
}

static void each_tier_tells_what_it_hands_out(void **state)
{
    (void)state;
    told t;
    memset(&t, 0, sizeof t);
    const impmem_track track = {sizeof track, 1, on_open, on_close, on_take, on_drop, on_rewind, on_destroy, &t};
    world w;
    open_world(&w, &track);
    assert_int_equal(t.opens, 0); /* a region alone is nobody's parts */

    impmem_arena *arena = NULL;
    impmem_model_span span;
    assert_int_equal(impmem_arena_open(w.region, IMPMEM_TIER_MODEL, &arena, NULL), IMPMEM_OK);
    assert_int_equal(t.opens, 1);
    assert_string_equal(t.name, "engine_persistent");
    assert_int_equal(t.region, impmem_region_id(w.region));
    assert_ptr_equal(t.address, impmem_region_base(w.region));
    for (int i = 0; i < 3; i++) assert_int_equal(impmem_arena_take_model(arena, IMPMEM_NO_LINE, 100, 0, &span), IMPMEM_OK);
    assert_int_equal(t.takes, 3);
    assert_int_equal(t.bytes, 100);
    assert_ptr_equal(t.address, impmem_stable_data(impmem_stable(span)));
    impmem_arena_reset(arena);
    assert_int_equal(t.rewinds, 1);
    assert_int_equal(t.bytes, 3 * 256);
    impmem_arena_reset(arena); /* nothing to tell */
    assert_int_equal(t.rewinds, 1);
    impmem_arena_close(&arena);
    assert_int_equal(t.closes, 1);

    impmem_scratch *scratch = NULL;
    impmem_scratch_span part;
    assert_int_equal(impmem_scratch_open(w.region, &scratch, NULL), IMPMEM_OK);
    impmem_scratch_mark mark = impmem_scratch_push(scratch);
    assert_int_equal(impmem_scratch_take(scratch, 5, 0, &part), IMPMEM_OK);
    assert_int_equal(impmem_scratch_take(scratch, 6, 0, &part), IMPMEM_OK);
    assert_int_equal(t.takes, 5);
    assert_int_equal(t.bytes, 6);
    assert_int_equal(impmem_scratch_pop(scratch, mark), IMPMEM_OK);
    assert_int_equal(t.rewinds, 2);
    assert_int_equal(t.bytes, 256 + 6);
    assert_int_equal(impmem_scratch_close(&scratch, NULL), IMPMEM_OK);

    impmem_block_pool *pool = NULL;
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.region = w.region;
    o.stride_bytes = 1000;
    o.blocks = 8;
    assert_int_equal(impmem_block_pool_open(w.ledger, &o, &pool, NULL), IMPMEM_OK);
    impmem_block_ref ref, other;
    assert_int_equal(impmem_block_take(pool, IMPMEM_HOLDER_SEQUENCE, 1, &ref), IMPMEM_OK);
    assert_int_equal(impmem_block_share(pool, ref, IMPMEM_HOLDER_CACHE, 1, &other), IMPMEM_OK);
    assert_int_equal(t.takes, 6); /* a share hands out nothing */
    assert_int_equal(t.bytes, 1000);
    assert_int_equal(impmem_block_drop(pool, &ref), IMPMEM_OK);
    assert_int_equal(t.drops, 0);
    assert_int_equal(impmem_block_drop(pool, &other), IMPMEM_OK);
    assert_int_equal(t.drops, 1);
    assert_int_equal(impmem_block_pool_close(&pool, NULL), IMPMEM_OK);
    assert_int_equal(t.opens, 3);
    assert_int_equal(t.closes, 3);
    close_world(&w);
    assert_int_equal(t.destroys, 1);
}

static void a_tracker_with_nothing_in_it_is_fine(void **state)
{
    (void)state;
    const impmem_track track = IMPMEM_TRACK_INIT;
    world w;
    open_world(&w, &track);
    impmem_arena *arena = NULL;
    impmem_model_span span;
    assert_int_equal(impmem_arena_open(w.region, IMPMEM_TIER_MODEL, &arena, NULL), IMPMEM_OK);
    assert_int_equal(impmem_arena_take_model(arena, IMPMEM_NO_LINE, 100, 0, &span), IMPMEM_OK);
    impmem_arena_reset(arena);
    impmem_arena_close(&arena);
    impmem_block_pool *pool = NULL;
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.region = w.region;
    o.stride_bytes = 1000;
    o.blocks = 8;
    impmem_block_ref ref;
    assert_int_equal(impmem_block_pool_open(w.ledger, &o, &pool, NULL), IMPMEM_OK);
    assert_int_equal(impmem_block_take(pool, IMPMEM_HOLDER_SEQUENCE, 1, &ref), IMPMEM_OK);
    assert_int_equal(impmem_block_drop(pool, &ref), IMPMEM_OK);
    assert_int_equal(impmem_block_pool_close(&pool, NULL), IMPMEM_OK);
    close_world(&w);
}

static void a_backend_takes_one_tracker_before_its_first_region(void **state)
{
    (void)state;
    impmem_track track = IMPMEM_TRACK_INIT;
    world w;
    open_world(&w, NULL);
    assert_int_equal(impmem_backend_track(w.backend, &track), IMPMEM_ERR_BUSY);
    assert_int_equal(impmem_backend_release(&w.region, NULL), IMPMEM_OK);
    track.version = 2;
    assert_int_equal(impmem_backend_track(w.backend, &track), IMPMEM_ERR_VERSION);
    memset(&track, 0, sizeof track);
    assert_int_equal(impmem_backend_track(w.backend, &track), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_backend_track(w.backend, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    track = (impmem_track)IMPMEM_TRACK_INIT;
    assert_int_equal(impmem_backend_track(NULL, &track), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_backend_track(w.backend, &track), IMPMEM_OK);
    assert_int_equal(impmem_backend_track(w.backend, &track), IMPMEM_ERR_STATE);
    close_world(&w);
}

static void the_sanitizer_sees_the_byte_behind_a_take(void **state)
{
    (void)state;
    impmem_track track;
    assert_int_equal(impmem_track_address_sanitizer(NULL), IMPMEM_ERR_INVALID_ARGUMENT);
#ifdef WITH_ASAN
    assert_int_equal(impmem_track_address_sanitizer(&track), IMPMEM_OK);
    world w;
    open_world(&w, &track);
    impmem_arena *arena = NULL;
    impmem_model_span span;
    assert_int_equal(impmem_arena_open(w.region, IMPMEM_TIER_MODEL, &arena, NULL), IMPMEM_OK);
    char *base = impmem_region_base(w.region);
    assert_true(__asan_address_is_poisoned(base));
    assert_int_equal(impmem_arena_take_model(arena, IMPMEM_NO_LINE, 100, 0, &span), IMPMEM_OK);
    assert_null(__asan_region_is_poisoned(base, 100));
    assert_true(__asan_address_is_poisoned(base + 100));
    impmem_arena_reset(arena);
    assert_true(__asan_address_is_poisoned(base));
    impmem_arena_close(&arena);
    assert_null(__asan_region_is_poisoned(base, 65536));
    close_world(&w);
#else
    assert_int_equal(impmem_track_address_sanitizer(&track), IMPMEM_ERR_UNSUPPORTED);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_tier_tells_what_it_hands_out),
        cmocka_unit_test(a_tracker_with_nothing_in_it_is_fine),
        cmocka_unit_test(a_backend_takes_one_tracker_before_its_first_region),
        cmocka_unit_test(the_sanitizer_sees_the_byte_behind_a_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
