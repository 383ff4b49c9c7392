/* A program for compute-sanitizer: it takes memory from an arena, a scratch stack and a block pool with annotations on, and
 * writes one byte too far in the one that its argument names. The tool must name an allocation of the take's own size.
 *
 *     overrun clean|arena|scratch|block
 *
 * Prints the size that the report must name, 0 for clean. Leaves with 0 when everything ran, 77 without a device.
 */
#define _GNU_SOURCE
#include "gpu_test.h"

#include "impmem/arena.h"
#include "impmem/block_pool.h"
#include "impmem/scratch.h"

/* Sizes that occur nowhere else. */
enum { ARENA_BYTES = 1000, SCRATCH_BYTES = 2008, BLOCK_BYTES = 3016 };

static bool poke(gpu_world *w, void *base, uint64_t offset)
{
    char *at = (char *)base + offset;
    int value = 1;
    void *parameters[] = {&at, &value};
    return gpu_kernel(w, "test_poke", 1, 1, parameters);
}

/* Both ends of a take, and one byte behind it if that is what is planted. */
static bool touch(gpu_world *w, impmem_stable_span span, bool planted)
{
    uint64_t bytes = impmem_stable_bytes(span);
    void *base = impmem_stable_data(span);
    return poke(w, base, 0) && poke(w, base, bytes - 1) && (!planted || poke(w, base, bytes));
}

static bool run(const char *planted)
{
    gpu_world w;
    if (!gpu_open(&w)) return false;
    impmem_backend *backend = NULL;
    impmem_track track;
    impmem_region *region[3] = {NULL, NULL, NULL};
    REQUIRE_OK(impmem_cuda_malloc_backend_create(w.device, NULL, &backend, &gpu_why));
    REQUIRE_OK(impmem_cuda_track_nvtx(w.device, 4096, 0, &track, &gpu_why));
    REQUIRE_OK(impmem_backend_track(backend, &track));
    static const impmem_tag tags[] = {IMPMEM_TAG_ENGINE_PERSISTENT, IMPMEM_TAG_FORWARD_SCRATCH, IMPMEM_TAG_KV_BLOCKS};
    for (int i = 0; i < 3; i++) {
        impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
        info.bytes = 2 * IMPMEM_MIB;
        info.tag = tags[i];
        REQUIRE_OK(impmem_backend_acquire(backend, &info, &region[i], &gpu_why));
    }
    impmem_arena *arena = NULL;
    impmem_engine_span taken[2];
    REQUIRE_OK(impmem_arena_open(region[0], IMPMEM_TIER_ENGINE, &arena, &gpu_why));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 2; i++)
            REQUIRE_OK(impmem_arena_take_engine(arena, IMPMEM_NO_LINE, ARENA_BYTES, 256, &taken[i]));
        if (!touch(&w, impmem_stable(taken[1]), round && !strcmp(planted, "arena"))) return false;
        REQUIRE_CODE(ASK(&w, stream_wait_host, w.stream));
        if (!round) impmem_arena_reset(arena);
    }
    impmem_scratch *scratch = NULL;
    REQUIRE_OK(impmem_scratch_open(region[1], &scratch, &gpu_why));
    for (int round = 0; round < 2; round++) {
        impmem_scratch_span span;
        impmem_scratch_mark mark = impmem_scratch_push(scratch);
        REQUIRE_OK(impmem_scratch_take(scratch, SCRATCH_BYTES, 256, &span));
        if (!touch(&w, impmem_stable(span), round && !strcmp(planted, "scratch"))) return false;
        REQUIRE_CODE(ASK(&w, stream_wait_host, w.stream));
        REQUIRE_OK(impmem_scratch_pop(scratch, mark));
    }
    impmem_block_pool *pool = NULL;
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    impmem_block_ref ref[2];
    o.region = region[2];
    o.stride_bytes = BLOCK_BYTES;
    o.blocks = 100;
    REQUIRE_OK(impmem_block_pool_open(w.ledger, &o, &pool, &gpu_why));
    REQUIRE_OK(impmem_block_take(pool, IMPMEM_HOLDER_SEQUENCE, 1, &ref[0]));
    impmem_block_span span;
    REQUIRE_OK(impmem_block_address(pool, ref[0], &span));
    if (!touch(&w, impmem_stable(span), !strcmp(planted, "block"))) return false;
    REQUIRE_CODE(ASK(&w, stream_wait_host, w.stream));
    REQUIRE_OK(impmem_block_drop(pool, &ref[0]));
    REQUIRE_OK(impmem_block_pool_close(&pool, &gpu_why));
    REQUIRE_OK(impmem_scratch_close(&scratch, &gpu_why));
    impmem_arena_close(&arena);
    for (int i = 0; i < 3; i++) REQUIRE_OK(impmem_backend_release(&region[i], &gpu_why));
    REQUIRE_OK(impmem_backend_destroy(backend, &gpu_why));
    return gpu_close(&w);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int bytes;
    } plants[] = {{"clean", 0}, {"arena", ARENA_BYTES}, {"scratch", SCRATCH_BYTES}, {"block", BLOCK_BYTES}};
    const char *planted = argc > 1 ? argv[1] : "clean";
    int bytes = -1;
    for (size_t i = 0; i < 4; i++)
        if (!strcmp(plants[i].name, planted)) bytes = plants[i].bytes;
    if (bytes < 0) {
        fprintf(stderr, "usage: overrun clean|arena|scratch|block\n");
        return 2;
    }
    uint32_t devices = 0;
    if (impmem_cuda_device_count(&devices, &gpu_why)) {
        printf("overrun: skipped: %s\n", gpu_why.message);
        return GPU_SKIPPED;
    }
    printf("expect %d\n", bytes);
    fflush(stdout);
    /* With an overrun planted and the tool attached, the launch fails from there on: that is the finding, not ours to
     * judge. */
    bool good = run(planted);
    if (!good && bytes == 0) fprintf(stderr, "overrun: %s\n", gpu_detail);
    return good || bytes ? 0 : 1;
}
