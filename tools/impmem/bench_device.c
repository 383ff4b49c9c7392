/* bench_device.c - arena, scratch and blocks over device memory; cudaMalloc, the stream-ordered allocator, raw virtual
 * memory and PyTorch's caching allocator in the same run; commits and what of them is not the driver's; copies of blocks
 * against one large copy; an owner's step with and without the grower.
 */
#define _GNU_SOURCE
#include "bench_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "command.h"
#include "device_open.h"
#include "impmem/arena.h"
#include "impmem/block_pool.h"
#include "impmem/grower.h"
#include "impmem/scratch.h"

typedef struct device_bench {
    const bench_run *run;
    device_session session;
    impmem_backend *fixed, *grow;
    int code;             /* of the driver, first failure */
    impmem_status failed; /* of the library, first failure */
} device_bench;

static void note(device_bench *b, impmem_status st)
{
    if (st && !b->failed) b->failed = st;
}

static void note_code(device_bench *b, int code)
{
    if (code && !b->code) b->code = code;
}

static void emit(device_bench *b, bench_row *row)
{
    bench_emit(b->run, row, b->code ? IMPMEM_ERR_DRIVER : b->failed);
    b->code = 0;
    b->failed = IMPMEM_OK;
}

static void put_samples(device_bench *b, bench_row *row, double *ns, uint32_t n)
{
    bench_summarise(ns, n, 1, row);
    emit(b, row);
}

/* ---- tiers over device memory ---------------------------------------------------------------------------------------- */

typedef struct tiers {
    device_bench *b;
    impmem_arena *arena;
    impmem_scratch *scratch;
    impmem_block_pool *pool;
} tiers;

static void arena_takes(void *context, uint64_t n)
{
    tiers *t = context;
    impmem_engine_span span;
    for (uint64_t i = 0; i < n; i++) {
        if (i % 65536 == 0) impmem_arena_reset(t->arena);
        note(t->b, impmem_arena_take_engine(t->arena, IMPMEM_NO_LINE, 256, 256, &span));
        bench_keep(&span);
    }
}

static void scratch_rounds(void *context, uint64_t n)
{
    tiers *t = context;
    impmem_scratch_span span;
    for (uint64_t i = 0; i < n; i++) {
        impmem_scratch_mark mark = impmem_scratch_push(t->scratch);
        impmem_status st = impmem_scratch_take(t->scratch, 4096, 256, &span);
        bench_keep(&span);
        note(t->b, impmem_first_error(st, impmem_scratch_pop(t->scratch, mark)));
    }
}

static void block_pairs(void *context, uint64_t n)
{
    tiers *t = context;
    impmem_block_ref ref;
    for (uint64_t i = 0; i < n; i++) {
        impmem_status st = impmem_block_take(t->pool, IMPMEM_HOLDER_SEQUENCE, i, &ref);
        bench_keep(&ref);
        note(t->b, impmem_first_error(st, impmem_block_drop(t->pool, &ref)));
    }
}

static void bench_tier(device_bench *b, const char *target, const char *name, bench_body body, tiers *t)
{
    bench_row row;
    bench_row_start(&row, target, "%s", name);
    if (!b->failed) bench_measure(&b->run->settings, body, t, &row);
    emit(b, &row);
}

static void bench_tiers_there(device_bench *b)
{
    tiers t = {b, NULL, NULL, NULL};
    impmem_region *region = NULL;
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = 64 * IMPMEM_MIB;
    note(b, impmem_backend_acquire(b->fixed, &info, &region, NULL));
    if (!b->failed) note(b, impmem_arena_open(region, IMPMEM_TIER_ENGINE, &t.arena, NULL));
    bench_tier(b, "<= 5 ns", "arena: take", arena_takes, &t);
    impmem_arena_close(&t.arena);
    if (region) note(b, impmem_scratch_open(region, &t.scratch, NULL));
    bench_tier(b, "<= 5 ns", "scratch: push + take + pop", scratch_rounds, &t);
    note(b, impmem_scratch_close(&t.scratch, NULL));
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.region = region;
    o.stride_bytes = 65536;
    o.blocks = 1024;
    if (region) note(b, impmem_block_pool_open(b->session.ledger, &o, &t.pool, NULL));
    bench_tier(b, "<= 10 ns", "blocks: take + drop, last freed", block_pairs, &t);
    note(b, impmem_block_pool_close(&t.pool, NULL));
    note(b, impmem_backend_release(&region, NULL));
}

/* ---- peers ----------------------------------------------------------------------------------------------------------- */

enum { ROUNDS = 41 };

static void bench_cuda_malloc(device_bench *b, uint64_t mib)
{
    double up[ROUNDS], down[ROUNDS];
    bench_row row;
    for (int i = 0; i < ROUNDS; i++) {
        void *memory = NULL;
        uint64_t t0 = bench_now_ns();
        note_code(b, SESSION_ASK(&b->session, malloc, &memory, mib * IMPMEM_MIB));
        uint64_t t1 = bench_now_ns();
        if (memory) note_code(b, SESSION_ASK(&b->session, free, memory));
        up[i] = (double)(t1 - t0);
        down[i] = (double)(bench_now_ns() - t1);
    }
    int code = b->code;
    bench_row_start(&row, "", "peer: cudaMalloc, %llu MiB", (unsigned long long)mib);
    put_samples(b, &row, up, ROUNDS);
    b->code = code;
    bench_row_start(&row, "", "peer: cudaFree, %llu MiB", (unsigned long long)mib);
    put_samples(b, &row, down, ROUNDS);
}

static void async_pairs(void *context, uint64_t n)
{
    device_bench *b = context;
    for (uint64_t i = 0; i < n; i++) {
        void *memory = NULL;
        note_code(b, SESSION_ASK(&b->session, malloc_async, &memory, (uint64_t)65536, b->session.stream));
        if (memory) note_code(b, SESSION_ASK(&b->session, free_async, memory, b->session.stream));
    }
}

static void bench_async(device_bench *b)
{
    bench_row row;
    bench_row_start(&row, "", "peer: cudaMallocAsync + cudaFreeAsync, 64 KiB, warm");
    note_code(b, SESSION_ASK(&b->session, async_keep_all, b->session.device->ordinal));
    if (!b->code) bench_measure(&b->run->settings, async_pairs, b, &row);
    note_code(b, SESSION_ASK(&b->session, stream_wait_host, b->session.stream));
    emit(b, &row);
}

/* PyTorch measures itself: an allocation and a free of a cached block, as a tensor's life. */
static void bench_torch(device_bench *b)
{
    static const char command[] = "exec timeout 60 python3 -c '\n"
                                  "import time, torch\n"
                                  "d = torch.device(\"cuda\", 0)\n"
                                  "a = torch.cuda.caching_allocator_alloc; f = torch.cuda.caching_allocator_delete\n"
                                  "p = a(65536, d); f(p)\n"
                                  "for _ in range(41):\n"
                                  "    t = time.perf_counter_ns()\n"
                                  "    for _ in range(2000): torch.empty(65536, dtype=torch.uint8, device=d)\n"
                                  "    print((time.perf_counter_ns() - t) / 2000)\n"
                                  "' 2>/dev/null";
    bench_row row;
    bench_row_start(&row, "", "peer: PyTorch caching allocator, 64 KiB tensor");
    double ns[ROUNDS];
    uint32_t n = 0;
    FILE *pipe = popen(command, "re"); /* NOLINT(cert-env33-c): a fixed command */
    char line[64];
    while (pipe && n < ROUNDS && fgets(line, sizeof line, pipe)) {
        char *end = NULL;
        double value = strtod(line, &end);
        if (end != line && value > 0) ns[n++] = value;
    }
    if (pipe) (void)pclose(pipe);
    /* A machine without PyTorch has no such row. */
    if (n == ROUNDS) put_samples(b, &row, ns, n);
}

/* ---- commits --------------------------------------------------------------------------------------------------------- */

/* The driver's functions with a clock round them, so that a commit's time can be told apart from the driver's. The readings
 * of the clock themselves fall to the library. One bench runs at a time. */
static struct {
    int (*create)(impmem__driver *, uint64_t *, uint64_t, const impmem__chunk_place *);
    int (*map)(impmem__driver *, void *, uint64_t, uint64_t);
    int (*access)(impmem__driver *, void *, uint64_t, const int *, uint32_t, int);
    int (*push)(impmem__driver *, void *);
    int (*pop)(impmem__driver *, void **);
    uint64_t inside_ns;
} timed;

static int timed_create(impmem__driver *d, uint64_t *out, uint64_t bytes, const impmem__chunk_place *place)
{
    uint64_t from = bench_now_ns();
    int code = timed.create(d, out, bytes, place);
    timed.inside_ns += bench_now_ns() - from;
    return code;
}

static int timed_map(impmem__driver *d, void *at, uint64_t bytes, uint64_t chunk)
{
    uint64_t from = bench_now_ns();
    int code = timed.map(d, at, bytes, chunk);
    timed.inside_ns += bench_now_ns() - from;
    return code;
}

static int timed_access(impmem__driver *d, void *at, uint64_t bytes, const int *devices, uint32_t n, int node)
{
    uint64_t from = bench_now_ns();
    int code = timed.access(d, at, bytes, devices, n, node);
    timed.inside_ns += bench_now_ns() - from;
    return code;
}

static int timed_push(impmem__driver *d, void *context)
{
    uint64_t from = bench_now_ns();
    int code = timed.push(d, context);
    timed.inside_ns += bench_now_ns() - from;
    return code;
}

static int timed_pop(impmem__driver *d, void **out)
{
    uint64_t from = bench_now_ns();
    int code = timed.pop(d, out);
    timed.inside_ns += bench_now_ns() - from;
    return code;
}

/* A commit of the whole region; what of its time was not the driver's. */
static double own_time_of_commit(device_bench *b, impmem_region *region, uint64_t bytes)
{
    impmem__driver *d = &b->session.device->driver;
    timed.create = d->chunk_create;
    timed.map = d->chunk_map;
    timed.access = d->set_access;
    timed.push = d->context_push;
    timed.pop = d->context_pop;
    timed.inside_ns = 0;
    d->chunk_create = timed_create;
    d->chunk_map = timed_map;
    d->set_access = timed_access;
    d->context_push = timed_push;
    d->context_pop = timed_pop;
    uint64_t from = bench_now_ns();
    note(b, impmem_region_commit(region, bytes, NULL, NULL));
    uint64_t all = bench_now_ns() - from;
    d->chunk_create = timed.create;
    d->chunk_map = timed.map;
    d->set_access = timed.access;
    d->context_push = timed.push;
    d->context_pop = timed.pop;
    return (double)(all - timed.inside_ns);
}

/* The same five calls, bare and through the library, and what of the library's commit was not the driver's. */
static void bench_commits(device_bench *b, uint64_t mib)
{
    double raw_up[ROUNDS], raw_down[ROUNDS], up[ROUNDS], down[ROUNDS], own[ROUNDS];
    device_session *s = &b->session;
    const impmem__chunk_place place = {s->device->ordinal, -1, 0};
    uint64_t bytes = mib * IMPMEM_MIB, chunk = 0;
    void *base = NULL;
    impmem_backend *backend = NULL;
    impmem_region *region = NULL;
    impmem_cuda_vmm_options v = IMPMEM_CUDA_VMM_OPTIONS_INIT;
    v.chunk_bytes = bytes;
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = bytes;
    note_code(b, SESSION_ASK(s, address_reserve, &base, bytes, s->device->facts.granule_bytes));
    note(b, impmem_cuda_vmm_backend_create(s->device, &v, &backend, NULL));
    if (backend) note(b, impmem_backend_reserve(backend, &info, &region, NULL));
    for (int i = 0; i < ROUNDS && !b->code && !b->failed; i++) {
        uint64_t t0 = bench_now_ns();
        note_code(b, SESSION_ASK(s, chunk_create, &chunk, bytes, &place));
        note_code(b, SESSION_ASK(s, chunk_map, base, bytes, chunk));
        note_code(b, SESSION_ASK(s, set_access, base, bytes, &s->device->ordinal, 1, -1));
        uint64_t t1 = bench_now_ns();
        note_code(b, SESSION_ASK(s, chunk_unmap, base, bytes));
        note_code(b, SESSION_ASK(s, chunk_release, chunk));
        uint64_t t2 = bench_now_ns();
        note(b, impmem_region_commit(region, bytes, NULL, NULL));
        uint64_t t3 = bench_now_ns();
        note(b, impmem_region_commit(region, 0, NULL, NULL));
        uint64_t t4 = bench_now_ns();
        raw_up[i] = (double)(t1 - t0);
        raw_down[i] = (double)(t2 - t1);
        up[i] = (double)(t3 - t2);
        down[i] = (double)(t4 - t3);
        own[i] = own_time_of_commit(b, region, bytes);
        note(b, impmem_region_commit(region, 0, NULL, NULL));
    }
    note(b, impmem_backend_release(&region, NULL));
    note(b, impmem_backend_destroy(backend, NULL));
    if (base) note_code(b, SESSION_ASK(s, address_free, base, bytes));
    double *const samples[] = {raw_up, raw_down, up, down, own};
    static const char *const names[] = {"peer: create + map + access, %llu MiB", "peer: unmap + release, %llu MiB",
                                        "commit, %llu MiB", "decommit, %llu MiB", "commit outside driver calls, %llu MiB"};
    int code = b->code;
    impmem_status failed = b->failed;
    for (int k = 0; k < 5; k++) {
        bench_row row;
        char name[64];
        (void)snprintf(name, sizeof name, names[k], (unsigned long long)mib); /* NOLINT: one of five literals */
        bench_row_start(&row, k == 4 ? "<= 2000 ns" : "", "%s", name);
        b->code = code;
        b->failed = failed;
        if (!code && !failed) put_samples(b, &row, samples[k], ROUNDS);
        else emit(b, &row);
    }
}

/* ---- copies ---------------------------------------------------------------------------------------------------------- */

enum { COPIES = 4096, COPY_ROUNDS = 21 };

/* Nanoseconds of the device for one round of copies, by events. `queue` NULL: one large copy. */
static double time_copy(device_bench *b, impmem_queue *queue, const impmem_block_copy *copies, uint64_t bytes,
                        void *events[2])
{
    device_session *s = &b->session;
    double seconds = 0;
    note_code(b, SESSION_ASK(s, event_record, events[0], s->stream));
    if (queue) note(b, impmem_queue_copy_blocks(queue, copies, COPIES, bytes, NULL));
    else note_code(b, SESSION_ASK(s, copy_async, copies[COPIES].to, copies[COPIES].from, COPIES * bytes, s->stream));
    note_code(b, SESSION_ASK(s, event_record, events[1], s->stream));
    if (!b->code) note_code(b, SESSION_ASK(s, event_elapsed, &seconds, events[0], events[1]));
    return seconds * 1e9;
}

static double bench_one_way(device_bench *b, impmem_cuda_copy_way way, const char *name, const impmem_block_copy *copies,
                            uint64_t bytes, void *events[2], double floor_ns)
{
    double ns[COPY_ROUNDS];
    impmem_queue *queue = NULL;
    impmem_cuda_queue_options o = IMPMEM_CUDA_QUEUE_OPTIONS_INIT;
    o.stream = b->session.stream;
    o.copy = way;
    if (way) note(b, impmem_cuda_queue_create(b->session.device, &o, &queue, NULL));
    if (!b->failed) (void)time_copy(b, queue, copies, bytes, events);
    for (int i = 0; i < COPY_ROUNDS && !b->failed && !b->code; i++) ns[i] = time_copy(b, queue, copies, bytes, events);
    impmem_queue_destroy(queue);
    bench_row row;
    bench_row_start(&row, way == IMPMEM_CUDA_COPY_KERNEL ? ">= 0.85 of one" : "", "%s, %d x %llu KiB", name, COPIES,
                    (unsigned long long)(bytes / 1024));
    if (b->failed || b->code) {
        emit(b, &row);
        return 0;
    }
    bench_summarise(ns, COPY_ROUNDS, 1, &row);
    row.floor_ns = floor_ns;
    double median = row.median_ns;
    emit(b, &row);
    return median;
}

static void bench_copies(device_bench *b, uint64_t bytes)
{
    device_session *s = &b->session;
    impmem_region *region = NULL;
    void *events[2] = {NULL, NULL};
    impmem_block_copy *copies = calloc(COPIES + 1, sizeof *copies);
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = (uint64_t)2 * COPIES * bytes;
    if (!copies) note(b, IMPMEM_ERR_OUT_OF_HOST_MEMORY);
    else note(b, impmem_backend_acquire(b->fixed, &info, &region, NULL));
    for (int i = 0; i < 2; i++) note_code(b, SESSION_ASK(s, event_create, &events[i]));
    if (copies && region) {
        char *from = impmem_region_base(region), *to = from + COPIES * bytes;
        /* Every block to another place, as a pool hands them out after a while: a multiplier that is odd visits all. */
        for (uint64_t i = 0; i < COPIES; i++)
            copies[i] = (impmem_block_copy){from + i * bytes, to + (i * 2654435761u % COPIES) * bytes};
        copies[COPIES] = (impmem_block_copy){from, to};
        double floor_ns = bench_one_way(b, IMPMEM_CUDA_COPY_AUTO, "floor: one device-to-device copy of", copies, bytes,
                                        events, 0);
        (void)bench_one_way(b, IMPMEM_CUDA_COPY_KERNEL, "blocks by one kernel", copies, bytes, events, floor_ns);
        (void)bench_one_way(b, IMPMEM_CUDA_COPY_BATCH, "blocks by one batched call", copies, bytes, events, floor_ns);
        (void)bench_one_way(b, IMPMEM_CUDA_COPY_SINGLE, "blocks one by one", copies, bytes, events, floor_ns);
    }
    for (int i = 0; i < 2; i++)
        if (events[i]) note_code(b, SESSION_ASK(s, event_destroy, events[i]));
    note(b, impmem_backend_release(&region, NULL));
    free(copies);
    b->code = 0;
    b->failed = IMPMEM_OK;
}

/* ---- the owner's step beside the grower ------------------------------------------------------------------------------ */

enum { STEPS = 20000, TURNS = 5, ALL_STEPS = TURNS * STEPS };

static int ascending(const void *x, const void *y)
{
    double a = *(const double *)x, c = *(const double *)y;
    return (a > c) - (a < c);
}

/* Steps of the owner: take a block, say what is used, adopt what is ready. Without a grower the pool is all there. */
static void time_steps(device_bench *b, bool growing, double *ns)
{
    static impmem_block_ref refs[STEPS];
    enum { STRIDE = 65536 };
    impmem_region *region = NULL;
    impmem_block_pool *pool = NULL;
    impmem_grower *grower = NULL;
    impmem_queue *queue = NULL;
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = (uint64_t)STEPS * STRIDE;
    note(b, impmem_backend_reserve(b->grow, &info, &region, NULL));
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.region = region;
    o.stride_bytes = STRIDE;
    o.blocks = growing ? 4096 : STEPS;
    o.max_blocks = STEPS;
    if (region) note(b, impmem_block_pool_open(b->session.ledger, &o, &pool, NULL));
    impmem_grower_options g = IMPMEM_GROWER_OPTIONS_INIT;
    g.region = region;
    g.ahead_bytes = IMPMEM_GIB;
    g.zero = true;
    if (growing && pool) {
        note(b, impmem_cuda_queue_create(b->session.device, NULL, &queue, NULL));
        g.queue = queue;
        if (queue) note(b, impmem_grower_open(b->session.ledger, &g, &grower, NULL));
    }
    uint32_t taken = 0, ready = o.blocks;
    memset(refs, 0, sizeof refs); /* no references of an earlier run */
    uint64_t next = bench_now_ns();
    for (; taken < STEPS && !b->failed; taken++) {
        next += 10000; /* 10 us a step: 6.1 GiB a second of growth, more than any engine's */
        while (bench_now_ns() < next) {}
        uint64_t start = bench_now_ns();
        if (growing) {
            impmem_grower_use(grower, (uint64_t)taken * STRIDE);
            uint64_t backed = impmem_grower_ready_bytes(grower) / STRIDE; /* whole chunks: up to one more than the pool */
            uint32_t now = backed < STEPS ? (uint32_t)backed : STEPS;
            if (now > ready) {
                note(b, impmem_block_pool_grow(pool, now, NULL));
                ready = now;
            }
        }
        note(b, impmem_block_take(pool, IMPMEM_HOLDER_SEQUENCE, taken, &refs[taken]));
        ns[taken] = (double)(bench_now_ns() - start);
    }
    impmem_grower_close(&grower);
    impmem_queue_destroy(queue);
    if (pool) note(b, impmem_block_drop_many(pool, refs, taken, NULL));
    note(b, impmem_block_pool_close(&pool, NULL));
    note(b, impmem_backend_release(&region, NULL));
}

static void bench_steps(device_bench *b)
{
    static double quiet[ALL_STEPS], busy[ALL_STEPS];
    /* In turns, so that what else the machine does falls on both. */
    for (size_t at = 0; at < ALL_STEPS; at += STEPS) {
        time_steps(b, false, quiet + at);
        time_steps(b, true, busy + at);
    }
    qsort(quiet, ALL_STEPS, sizeof quiet[0], ascending);
    qsort(busy, ALL_STEPS, sizeof busy[0], ascending);
    const size_t middle = ALL_STEPS / 2, p99 = ALL_STEPS / 100 * (size_t)99, p999 = ALL_STEPS / 1000 * (size_t)999;
    bench_row row;
    bench_row_start(&row, "<= 1.25 x quiet", "owner's step beside the grower, p99.9 of %d", ALL_STEPS);
    if (!b->failed) {
        row.samples = ALL_STEPS;
        row.batch = 1;
        row.median_ns = busy[p999];
        row.p10_ns = busy[middle];
        row.p90_ns = busy[p99];
        row.floor_ns = quiet[p999];
    }
    emit(b, &row);
}

/* ---- all ------------------------------------------------------------------------------------------------------------- */

int bench_device(const bench_run *run, int ordinal)
{
    device_bench b;
    memset(&b, 0, sizeof b);
    b.run = run;
    int code = device_open(ordinal, &b.session);
    if (code) return code;
    note(&b, impmem_cuda_malloc_backend_create(b.session.device, NULL, &b.fixed, NULL));
    impmem_status growable = impmem_cuda_vmm_backend_create(b.session.device, NULL, &b.grow, NULL);
    if (b.fixed) {
        bench_tiers_there(&b);
        bench_cuda_malloc(&b, 2);
        bench_cuda_malloc(&b, 256);
        bench_async(&b);
        bench_torch(&b);
        if (!growable) {
            bench_commits(&b, 64);
            bench_commits(&b, 256);
            bench_steps(&b);
        }
        bench_copies(&b, 65536);
        if (!run->settings.quick) bench_copies(&b, IMPMEM_MIB);
    }
    note(&b, impmem_backend_destroy(b.grow, NULL));
    note(&b, impmem_backend_destroy(b.fixed, NULL));
    return device_close(&b.session);
}
