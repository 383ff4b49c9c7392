/* tests/support/world.h - a ledger, fake backends and regions for the tests of the tier allocators. Every test starts
 * with world_open and ends with world_close, which checks that nothing was left behind.
 */
#ifndef TESTS_SUPPORT_WORLD_H
#define TESTS_SUPPORT_WORLD_H

#include "support/checks.h"

#include "impmem/arena.h"
#include "impmem/fake.h"

enum { LINE_A = IMPMEM_LINE_USER, LINE_B, LINE_C, LINE_PINNED, LINE_STAGING };

typedef struct world {
    impmem_ledger *ledger;
    impmem_backend *fixed;
    impmem_backend *growable;
    impmem_backend *pinned;
    impmem_fake *fixed_fake;
    impmem_fake *growable_fake;
    impmem_fake *pinned_fake;
    /* The host allocator: fails its n-th call from now when `fail_in` is n; 0 = never. */
    uint64_t fail_in;
    uint64_t held; /* bytes */
} world;

static inline void *world_allocate(void *context, size_t bytes, size_t alignment)
{
    world *w = context;
    if (w->fail_in && --w->fail_in == 0) return NULL;
    void *memory = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (memory) w->held += bytes;
    return memory;
}

static inline void world_release(void *context, void *memory, size_t bytes)
{
    world *w = context;
    w->held -= bytes;
    free(memory);
}

static inline impmem_line world_line(impmem_line_id id, impmem_account account, impmem_tag tag, const char *name)
{
    return line_of(id, account, tag, 64 * IMPMEM_MIB, name);
}

/* `granule` of every backend. */
static inline void world_open(world *w, uint64_t granule)
{
    memset(w, 0, sizeof *w);
    const impmem_line lines[] = {
        world_line(LINE_A, IMPMEM_ACCOUNT_DEVICE, IMPMEM_TAG_ENGINE_PERSISTENT, "line A"),
        world_line(LINE_B, IMPMEM_ACCOUNT_DEVICE, IMPMEM_TAG_ENGINE_PERSISTENT, "line B"),
        world_line(LINE_C, IMPMEM_ACCOUNT_DEVICE, IMPMEM_TAG_KV_BLOCKS, "line C"),
        world_line(LINE_PINNED, IMPMEM_ACCOUNT_PINNED, IMPMEM_TAG_HOST_PINNED, "pinned"),
        world_line(LINE_STAGING, IMPMEM_ACCOUNT_PAGEABLE, IMPMEM_TAG_HOST_STAGING, "staging"),
        world_line(IMPMEM_LINE_HOST_CONTROL, IMPMEM_ACCOUNT_PAGEABLE, IMPMEM_TAG_HOST_CONTROL, "host control"),
    };
    const impmem_lines plan = {lines, sizeof lines / sizeof *lines, {UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    impmem_ledger_options options = IMPMEM_LEDGER_OPTIONS_INIT;
    options.allocator = (impmem_allocator){world_allocate, world_release, w};
    options.seed = 42;
    options.serving = IMPMEM_SERVING_REFUSE;
    OK(impmem_ledger_create(&plan, &options, &w->ledger));
    impmem_fake_options fake = IMPMEM_FAKE_OPTIONS_INIT;
    fake.granule_bytes = granule;
    OK(impmem_fake_backend_create(w->ledger, &fake, &w->fixed, &w->fixed_fake, NULL));
    fake.growable = true;
    OK(impmem_fake_backend_create(w->ledger, &fake, &w->growable, &w->growable_fake, NULL));
    fake.growable = false;
    fake.account = IMPMEM_ACCOUNT_PINNED;
    OK(impmem_fake_backend_create(w->ledger, &fake, &w->pinned, &w->pinned_fake, NULL));
}

static inline void world_close(world *w)
{
    OK(impmem_backend_destroy(w->pinned, NULL));
    OK(impmem_backend_destroy(w->growable, NULL));
    OK(impmem_backend_destroy(w->fixed, NULL));
    OK(impmem_ledger_destroy(w->ledger, NULL));
    assert_int_equal(w->held, 0);
}

/* Acquired from the fixed backend, or reserved from the growable one. */
static inline impmem_region *world_region_of(impmem_backend *backend, bool growable, uint64_t bytes, impmem_line_id line,
                                             impmem_tag tag)
{
    const impmem_acquire_info info = want(bytes, line, tag);
    impmem_region *region = NULL;
    OK((growable ? impmem_backend_reserve : impmem_backend_acquire)(backend, &info, &region, NULL));
    return region;
}

static inline impmem_region *world_region(world *w, uint64_t bytes, impmem_line_id line)
{
    return world_region_of(w->fixed, false, bytes, line, IMPMEM_TAG_ENGINE_PERSISTENT);
}

static inline impmem_region *world_growable_region(world *w, uint64_t bytes, impmem_line_id line)
{
    return world_region_of(w->growable, true, bytes, line, IMPMEM_TAG_KV_BLOCKS);
}

/* An arena over a fixed region of line A, in a fresh world; and the end of all three. */
static inline impmem_arena *world_arena(world *w, uint64_t granule, uint64_t bytes, impmem_tier tier,
                                        impmem_region **region)
{
    impmem_arena *arena = NULL;
    world_open(w, granule);
    *region = world_region(w, bytes, LINE_A);
    OK(impmem_arena_open(*region, tier, &arena, NULL));
    return arena;
}

static inline void world_arena_close(world *w, impmem_arena **arena, impmem_region **region)
{
    impmem_arena_close(arena);
    assert_null(*arena);
    OK(impmem_backend_release(region, NULL));
    world_close(w);
}

static inline impmem_usage world_usage(const world *w, impmem_line_id line)
{
    impmem_usage usage;
    OK(impmem_ledger_line_usage(w->ledger, line, &usage));
    return usage;
}

static inline uint64_t world_live(const world *w, impmem_line_id line)
{
    return world_usage(w, line).live_bytes;
}

static inline uint64_t world_peak(const world *w, impmem_line_id line)
{
    return world_usage(w, line).live_peak_bytes;
}

/* What a refused or failed operation must leave as it was. */
typedef struct world_figures {
    uint64_t device, pageable, held;
} world_figures;

static inline world_figures world_look(const world *w)
{
    return (world_figures){committed_of(w->ledger, IMPMEM_ACCOUNT_DEVICE), committed_of(w->ledger, IMPMEM_ACCOUNT_PAGEABLE),
                           w->held};
}

static inline void assert_same_figures(world_figures a, world_figures b)
{
    assert_int_equal(a.device, b.device);
    assert_int_equal(a.pageable, b.pageable);
    assert_int_equal(a.held, b.held);
}

#endif
