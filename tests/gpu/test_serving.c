/* Serving on a device: 10^5 admissions and cancellations with real copies of blocks, every byte of every block compared,
 * and three witnesses that nothing is acquired meanwhile: the ledger, the room's driver table, and the linker, which puts a
 * counter in front of every allocation call of the runtime in this executable. Each witness must see a planted call of its
 * own kind.
 */
#define _GNU_SOURCE
#include "gpu_test.h"

#include "impmem/block_pool.h"

enum { BLOCK = 65536, BLOCKS = 1024, PATTERNS = 256, MOST = 8, LIVE = 64 };

static uint64_t admissions = 100000; /* or what the command line says */

/* ---- the linker's witness -------------------------------------------------------------------------------------------- */

static uint64_t wrapped_calls;
static bool wrap_armed;

#define WRAP(name, parameters, arguments)                                                                                  \
    int __real_##name parameters;                                                                                          \
    int __wrap_##name parameters;                                                                                          \
    int __wrap_##name parameters                                                                                           \
    {                                                                                                                      \
        if (wrap_armed) wrapped_calls++;                                                                                   \
        return __real_##name arguments;                                                                                    \
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wreserved-identifier"
WRAP(cudaMalloc, (void **out, size_t bytes), (out, bytes))
WRAP(cudaMallocAsync, (void **out, size_t bytes, void *stream), (out, bytes, stream))
WRAP(cudaHostAlloc, (void **out, size_t bytes, unsigned flags), (out, bytes, flags))
WRAP(cudaHostRegister, (void *memory, size_t bytes, unsigned flags), (memory, bytes, flags))
WRAP(cudaFree, (void *memory), (memory))
WRAP(cudaFreeHost, (void *memory), (memory))
#pragma GCC diagnostic pop

int cudaMalloc(void **out, size_t bytes); /* as the runtime has it, an int for its enumeration */
int cudaFree(void *memory);

/* ---- a served pool --------------------------------------------------------------------------------------------------- */

typedef struct request {
    impmem_block_ref ref[MOST];
    impmem_block_copy compare[MOST]; /* block, pattern */
    uint32_t n;
} request;

typedef struct serving {
    gpu_world w;
    impmem_backend *grow, *fixed, *pinned;
    impmem_region *pool_region, *pattern_region, *pair_region;
    impmem_block_pool *pool;
    impmem_queue *queue;
    void *compare;           /* kernel */
    impmem_block_copy *pair; /* page-locked, a ring of requests' pairs */
    uint64_t *differences;   /* page-locked */
    uint64_t compared;
    uint64_t random;
    request live[LIVE];
} serving;

static uint64_t next_random(serving *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random;
}

enum { RING = 4096 }; /* requests whose comparison can be on its way */

static bool open_regions(serving *s)
{
    gpu_world *w = &s->w;
    impmem_cuda_vmm_options v = IMPMEM_CUDA_VMM_OPTIONS_INIT;
    impmem_cuda_pinned_options p = IMPMEM_CUDA_PINNED_OPTIONS_INIT;
    v.chunk_bytes = 2 * IMPMEM_MIB;
    p.mapped = true;
    REQUIRE_OK(impmem_cuda_vmm_backend_create(w->device, &v, &s->grow, &gpu_why));
    REQUIRE_OK(impmem_cuda_malloc_backend_create(w->device, NULL, &s->fixed, &gpu_why));
    REQUIRE_OK(impmem_cuda_pinned_backend_create(w->device, &p, &s->pinned, &gpu_why));
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.line = LINE_POOL;
    info.tag = IMPMEM_TAG_KV_BLOCKS;
    info.bytes = (uint64_t)BLOCKS * BLOCK;
    REQUIRE_OK(impmem_backend_reserve(s->grow, &info, &s->pool_region, &gpu_why));
    info.bytes = (uint64_t)PATTERNS * BLOCK;
    REQUIRE_OK(impmem_backend_acquire(s->fixed, &info, &s->pattern_region, &gpu_why));
    info.line = LINE_PINNED;
    info.bytes = 4096 + (uint64_t)RING * MOST * sizeof(impmem_block_copy);
    REQUIRE_OK(impmem_backend_acquire(s->pinned, &info, &s->pair_region, &gpu_why));
    s->differences = impmem_region_base(s->pair_region);
    s->pair = (impmem_block_copy *)(void *)((char *)impmem_region_base(s->pair_region) + 4096);
    *s->differences = 0;
    return true;
}

static bool open_serving(serving *s)
{
    memset(s, 0, sizeof *s);
    s->random = 88172645463325252u;
    if (!gpu_open(&s->w) || !open_regions(s)) return false;
    gpu_world *w = &s->w;
    impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    o.region = s->pool_region;
    o.stride_bytes = BLOCK;
    o.blocks = BLOCKS;
    REQUIRE_OK(impmem_block_pool_open(w->ledger, &o, &s->pool, &gpu_why));
    impmem_cuda_queue_options q = IMPMEM_CUDA_QUEUE_OPTIONS_INIT;
    q.stream = w->stream;
    q.pinned_line = LINE_PINNED;
    REQUIRE_OK(impmem_cuda_queue_create(w->device, &q, &s->queue, &gpu_why));
    REQUIRE_CODE(ASK(w, module_function, &s->compare, w->module, "test_compare"));
    for (uint32_t i = 0; i < PATTERNS; i++) {
        if (!gpu_pattern(w, (char *)impmem_region_base(s->pattern_region) + (uint64_t)i * BLOCK, BLOCK, i + 1))
            return false;
    }
    REQUIRE_CODE(ASK(w, stream_wait_host, w->stream));
    return true;
}

static bool close_serving(serving *s)
{
    impmem_queue_destroy(s->queue);
    REQUIRE_OK(impmem_block_pool_close(&s->pool, &gpu_why));
    REQUIRE_OK(impmem_backend_release(&s->pool_region, &gpu_why));
    REQUIRE_OK(impmem_backend_release(&s->pattern_region, &gpu_why));
    REQUIRE_OK(impmem_backend_release(&s->pair_region, &gpu_why));
    REQUIRE_OK(impmem_backend_destroy(s->grow, &gpu_why));
    REQUIRE_OK(impmem_backend_destroy(s->fixed, &gpu_why));
    REQUIRE_OK(impmem_backend_destroy(s->pinned, &gpu_why));
    return gpu_close(&s->w);
}

/* Takes blocks, copies a pattern into each, and has the device compare them afterwards, in order. */
static bool admit(serving *s, request *r, uint64_t id)
{
    impmem_block_copy copy[MOST];
    r->n = (uint32_t)(1 + next_random(s) % MOST);
    REQUIRE_OK(impmem_block_take_many(s->pool, IMPMEM_HOLDER_SEQUENCE, id, r->n, r->ref));
    for (uint32_t i = 0; i < r->n; i++) {
        impmem_block_span span;
        REQUIRE_OK(impmem_block_address(s->pool, r->ref[i], &span));
        const char *pattern = (const char *)impmem_region_base(s->pattern_region) + next_random(s) % PATTERNS * BLOCK;
        copy[i] = (impmem_block_copy){pattern, impmem_stable_data(impmem_stable(span))};
        r->compare[i] = (impmem_block_copy){pattern, copy[i].to};
    }
    REQUIRE_OK(impmem_queue_copy_blocks(s->queue, copy, r->n, BLOCK, &gpu_why));
    return true;
}

static bool compare(serving *s, const request *r)
{
    gpu_world *w = &s->w;
    if (s->compared % RING == 0) REQUIRE_CODE(ASK(w, stream_wait_host, w->stream));
    impmem_block_copy *pairs = s->pair + s->compared++ % RING * MOST;
    memcpy(pairs, r->compare, sizeof r->compare);
    uint64_t words = BLOCK / 4;
    void *parameters[] = {&pairs, &words, &s->differences};
    REQUIRE_CODE(ASK(w, launch, s->compare, r->n, 256, w->stream, parameters));
    return true;
}

/* Compared just before its blocks go: whatever others did meanwhile, they are as they were filled. */
static bool cancel(serving *s, request *r)
{
    if (r->n == 0) return true;
    if (!compare(s, r)) return false;
    REQUIRE_OK(impmem_block_drop_many(s->pool, r->ref, r->n, NULL));
    r->n = 0;
    return true;
}

static bool a_hundred_thousand_admissions_leave_nothing_and_mix_nothing_up(void)
{
    serving s;
    if (!open_serving(&s)) return false;
    impmem_cuda_calls before, after;
    impmem_block_pool_stats stats;
    REQUIRE_OK(impmem_ledger_set_phase(s.w.ledger, IMPMEM_PHASE_SERVING, &gpu_why));
    uint64_t baseline = impmem__own_bytes(s.w.ledger), used = gpu_used(&s.w);
    impmem_cuda_device_calls(s.w.device, &before);
    wrapped_calls = 0;
    wrap_armed = true;
    uint64_t blocks = 0;
    for (uint64_t i = 0; i < admissions; i++) {
        request *r = &s.live[next_random(&s) % LIVE];
        if (!cancel(&s, r) || !admit(&s, r, i)) return false;
        blocks += r->n;
    }
    for (int i = 0; i < LIVE; i++) {
        if (!cancel(&s, &s.live[i])) return false;
    }
    REQUIRE_CODE(ASK(&s.w, stream_wait_host, s.w.stream));
    wrap_armed = false;
    impmem_cuda_device_calls(s.w.device, &after);
    impmem_block_pool_query(s.pool, &stats);
    REQUIRE(*s.differences == 0);
    REQUIRE(stats.live_blocks == 0 && stats.references == 0 && stats.free_blocks == BLOCKS);
    REQUIRE(impmem__own_bytes(s.w.ledger) == baseline && gpu_used(&s.w) == used);
    REQUIRE(impmem_ledger_serving_acquisitions(s.w.ledger) == 0);
    REQUIRE(after.acquire == before.acquire && after.give_back == before.give_back && after.map == before.map);
    REQUIRE(wrapped_calls == 0);
    if (!close_serving(&s)) return false;
    return gpu_say(true,
                   "%llu admissions, %llu blocks compared, 0 words differ; 0 / 0 / 0 acquisitions by ledger, table, linker",
                   (unsigned long long)admissions, (unsigned long long)blocks);
}

static bool a_wrong_byte_would_be_seen(void)
{
    serving s;
    if (!open_serving(&s) || !admit(&s, &s.live[0], 1)) return false;
    char *at = (char *)s.live[0].compare[0].to + BLOCK - 1;
    int value = 0x55;
    REQUIRE_CODE(ASK(&s.w, stream_wait_host, s.w.stream));
    unsigned char now = 0;
    REQUIRE_CODE(ASK(&s.w, copy_async, &now, at, (uint64_t)1, s.w.stream));
    REQUIRE_CODE(ASK(&s.w, stream_wait_host, s.w.stream));
    value = now ^ 1;
    void *parameters[] = {&at, &value};
    if (!gpu_kernel(&s.w, "test_poke", 1, 1, parameters) || !cancel(&s, &s.live[0])) return false;
    REQUIRE_CODE(ASK(&s.w, stream_wait_host, s.w.stream));
    uint64_t differ = *s.differences;
    if (!close_serving(&s)) return false;
    REQUIRE(differ == 1);
    return gpu_say(true, "one planted byte: %llu word differs", (unsigned long long)differ);
}

static bool each_witness_sees_a_planted_call(void)
{
    serving s;
    if (!open_serving(&s)) return false;
    REQUIRE_OK(impmem_ledger_set_phase(s.w.ledger, IMPMEM_PHASE_SERVING, &gpu_why));
    impmem_cuda_calls before, after;
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    impmem_region *region = NULL;
    info.bytes = 1;
    /* Through the front: the ledger counts it, and it goes no further. */
    impmem_cuda_device_calls(s.w.device, &before);
    wrapped_calls = 0;
    wrap_armed = true;
    REQUIRE_STATUS(impmem_backend_acquire(s.fixed, &info, &region, &gpu_why), IMPMEM_ERR_SERVING);
    impmem_cuda_device_calls(s.w.device, &after);
    REQUIRE(impmem_ledger_serving_acquisitions(s.w.ledger) == 1 && after.acquire == before.acquire && wrapped_calls == 0);
    /* Through the table, past the ledger: virtual memory, which no linker sees, since it has no symbol. */
    uint64_t chunk = 0;
    const impmem__chunk_place place = {0, -1, 0};
    REQUIRE_CODE(ASK(&s.w, chunk_create, &chunk, 2 * IMPMEM_MIB, &place));
    REQUIRE_CODE(ASK(&s.w, chunk_release, chunk));
    impmem_cuda_device_calls(s.w.device, &after);
    REQUIRE(after.acquire == before.acquire + 1 && wrapped_calls == 0);
    /* Past both: only the linker is left. */
    void *memory = NULL;
    REQUIRE_CODE(cudaMalloc(&memory, 4096));
    REQUIRE_CODE(cudaFree(memory));
    wrap_armed = false;
    REQUIRE(wrapped_calls == 2);
    impmem_cuda_device_calls(s.w.device, &after);
    REQUIRE(after.acquire == before.acquire + 1);
    return close_serving(&s) && gpu_say(true, "ledger 1, table 1, linker 2");
}

/* ---- queue ----------------------------------------------------------------------------------------------------------- */

static bool every_way_of_copying_moves_every_byte(void)
{
    gpu_world w;
    if (!gpu_open(&w)) return false;
    impmem_backend *backend = NULL;
    impmem_region *region = NULL;
    enum { N = 3000, BYTES = 20000 }; /* odd against the kernel's pieces, more than two tables of the queue */
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = 2ull * N * BYTES;
    REQUIRE_OK(impmem_cuda_malloc_backend_create(w.device, NULL, &backend, &gpu_why));
    REQUIRE_OK(impmem_backend_acquire(backend, &info, &region, &gpu_why));
    impmem_block_copy *copy = malloc(N * sizeof *copy);
    uint32_t *host = malloc((size_t)N * BYTES);
    REQUIRE(copy && host);
    static const impmem_cuda_copy_way ways[] = {IMPMEM_CUDA_COPY_KERNEL, IMPMEM_CUDA_COPY_BATCH, IMPMEM_CUDA_COPY_SINGLE};
    char *from = impmem_region_base(region), *to = from + (size_t)N * BYTES;
    for (int k = 0; k < 3; k++) {
        impmem_queue *q = NULL, *zero = NULL;
        impmem_cuda_queue_options o = IMPMEM_CUDA_QUEUE_OPTIONS_INIT;
        o.copy = ways[k];
        o.batch = 1024;
        REQUIRE_OK(impmem_cuda_queue_create(w.device, &o, &q, &gpu_why));
        REQUIRE_OK(impmem_cuda_queue_create(w.device, NULL, &zero, &gpu_why));
        if (!gpu_pattern(&w, from, (uint64_t)N * BYTES, (uint32_t)k + 40)) return false;
        REQUIRE_CODE(ASK(&w, stream_wait_host, w.stream));
        uint64_t ticket = 0;
        REQUIRE_OK(impmem_queue_fill(zero, to, 0, (uint64_t)N * BYTES, &gpu_why));
        REQUIRE_OK(impmem_queue_signal(zero, &ticket, &gpu_why));
        REQUIRE_OK(impmem_queue_after(q, zero, ticket, &gpu_why));
        for (size_t i = 0; i < N; i++) copy[i] = (impmem_block_copy){from + i * BYTES, to + (N - 1 - i) * BYTES};
        REQUIRE_OK(impmem_queue_copy_blocks(q, copy, N, BYTES, &gpu_why));
        REQUIRE_OK(impmem_queue_copy(q, host, to, (uint64_t)N * BYTES, &gpu_why));
        REQUIRE_OK(impmem_queue_signal(q, &ticket, &gpu_why));
        REQUIRE_OK(impmem_queue_wait(q, ticket, &gpu_why));
        REQUIRE(impmem_queue_done(q, ticket));
        for (size_t i = 0; i < (size_t)N * BYTES / 4; i++) {
            size_t block = i / (BYTES / 4), source = (N - 1 - block) * (BYTES / 4) + i % (BYTES / 4);
            REQUIRE(host[i] == ((uint32_t)k + 40) * 2654435761u + (uint32_t)source);
        }
        impmem_queue_destroy(q);
        impmem_queue_destroy(zero);
    }
    free(copy);
    free(host);
    REQUIRE_OK(impmem_backend_release(&region, &gpu_why));
    REQUIRE_OK(impmem_backend_destroy(backend, &gpu_why));
    return gpu_close(&w) && gpu_say(true, "kernel, batched call, one by one: %d blocks of %d bytes each", N, BYTES);
}

int main(int argc, char **argv)
{
    if (argc > 1) admissions = strtoull(argv[1], NULL, 10);
    static const gpu_case cases[] = {
#define CASE(name) {#name, name}
        CASE(every_way_of_copying_moves_every_byte),
        CASE(a_hundred_thousand_admissions_leave_nothing_and_mix_nothing_up),
        CASE(a_wrong_byte_would_be_seen),
        CASE(each_witness_sees_a_planted_call),
    };
    return gpu_main("serving", cases, sizeof cases / sizeof cases[0]);
}
