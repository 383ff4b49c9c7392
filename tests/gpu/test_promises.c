/* What the backends promise, on a device: the one conformance suite, graphs across growth, addresses that stay, budgets. */
#define _GNU_SOURCE
#include "gpu_test.h"

#include <sys/mman.h>
#include <unistd.h>

#include "impmem/conformance.h"
#include "impmem/grower.h"
#include "unit/cuda/owning.h"

/* ---- the one suite --------------------------------------------------------------------------------------------------- */

typedef enum kind { KIND_MALLOC, KIND_VMM, KIND_VMM_KEEPING, KIND_PINNED, KIND_NODE } kind;

static impmem_status make_inner(kind k, impmem_cuda_device *device, impmem_backend **out, impmem_error *why)
{
    impmem_cuda_malloc_options m = IMPMEM_CUDA_MALLOC_OPTIONS_INIT;
    impmem_cuda_vmm_options v = IMPMEM_CUDA_VMM_OPTIONS_INIT;
    impmem_cuda_pinned_options p = IMPMEM_CUDA_PINNED_OPTIONS_INIT;
    m.capacity_bytes = v.capacity_bytes = 256 * IMPMEM_MIB;
    p.capacity_bytes = 128 * IMPMEM_MIB;
    v.chunk_bytes = 2 * IMPMEM_MIB;
    v.verify_access = true;
    if (k == KIND_VMM_KEEPING) v.keep_bytes = 16 * IMPMEM_MIB;
    if (k == KIND_NODE) p.numa_node = 0;
    if (k == KIND_MALLOC) return impmem_cuda_malloc_backend_create(device, &m, out, why);
    if (k == KIND_PINNED || k == KIND_NODE) return impmem_cuda_pinned_backend_create(device, &p, out, why);
    return impmem_cuda_vmm_backend_create(device, &v, out, why);
}

static impmem_status create_owning(void *context, impmem_ledger *ledger, impmem_backend **out, impmem_error *why)
{
    impmem_cuda_device *device = NULL;
    impmem_backend *inner = NULL;
    impmem_status st = impmem_cuda_device_open(ledger, NULL, &device, why);
    if (!st) st = make_inner(*(kind *)context, device, &inner, why);
    if (!st) return own_device(ledger, device, inner, out, why);
    return impmem_first_error(st, impmem_cuda_device_close(&device, NULL));
}

static gpu_world suite_world; /* whose device current the fills and reads run on */

static impmem_status suite_fill(void *context, void *address, int value, uint64_t bytes)
{
    (void)context;
    gpu_world *w = &suite_world;
    int code = ASK(w, fill_async, address, (uint8_t)value, bytes, w->stream);
    if (!code) code = ASK(w, stream_wait_host, w->stream);
    return code ? IMPMEM_ERR_DRIVER : IMPMEM_OK;
}

static impmem_status suite_read(void *context, void *to, const void *from, uint64_t bytes)
{
    (void)context;
    gpu_world *w = &suite_world;
    int code = ASK(w, copy_async, to, from, bytes, w->stream);
    if (!code) code = ASK(w, stream_wait_host, w->stream);
    return code ? IMPMEM_ERR_DRIVER : IMPMEM_OK;
}

static char suite_complaint[256];

static void suite_report(void *context, const char *check, bool passed, const char *detail)
{
    (void)context;
    if (!passed && !suite_complaint[0]) snprintf(suite_complaint, sizeof suite_complaint, "%s: %s", check, detail);
}

static bool conforms(kind k, uint64_t bytes)
{
    if (!gpu_open(&suite_world)) return false;
    uint64_t used = gpu_used(&suite_world);
    impmem_conformance_options o = IMPMEM_CONFORMANCE_OPTIONS_INIT;
    o.create = create_owning;
    o.context = &k;
    o.bytes = bytes;
    o.fill = suite_fill;
    o.read = suite_read;
    o.report = suite_report;
    suite_complaint[0] = '\0';
    impmem_conformance_result r;
    memset(&r, 0, sizeof r);
    impmem_status st = impmem_backend_conformance(&o, &r, &gpu_why);
    if (st == IMPMEM_ERR_UNSUPPORTED && k == KIND_NODE) {
        if (!gpu_close(&suite_world)) return false;
        return gpu_say(true, "not supported here: %s", gpu_why.message);
    }
    REQUIRE_OK(st);
    uint64_t after = gpu_used(&suite_world);
    if (!gpu_close(&suite_world)) return false;
    if (r.failed) return gpu_say(false, "%u of %u checks failed; %s", r.failed, r.checks, suite_complaint);
    REQUIRE(after == used);
    return gpu_say(true, "%u checks, %u skipped", r.checks, r.skipped);
}

static bool the_malloc_backend_conforms(void)
{
    return conforms(KIND_MALLOC, 64 * IMPMEM_MIB);
}
static bool the_vmm_backend_conforms(void)
{
    return conforms(KIND_VMM, 64 * IMPMEM_MIB);
}
static bool the_vmm_backend_that_keeps_chunks_conforms(void)
{
    return conforms(KIND_VMM_KEEPING, 64 * IMPMEM_MIB);
}
static bool the_pinned_backend_conforms(void)
{
    return conforms(KIND_PINNED, 32 * IMPMEM_MIB);
}
static bool pinned_memory_of_a_node_conforms(void)
{
    return conforms(KIND_NODE, 32 * IMPMEM_MIB);
}

/* ---- growth ---------------------------------------------------------------------------------------------------------- */

typedef struct growing {
    gpu_world w;
    impmem_backend *backend;
    impmem_region *region[2];
} growing;

static bool open_growing(growing *g, uint64_t chunk, uint64_t reserve)
{
    if (!gpu_open(&g->w)) return false;
    impmem_cuda_vmm_options v = IMPMEM_CUDA_VMM_OPTIONS_INIT;
    v.chunk_bytes = chunk;
    REQUIRE_OK(impmem_cuda_vmm_backend_create(g->w.device, &v, &g->backend, &gpu_why));
    for (int i = 0; i < 2; i++) {
        impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
        info.bytes = reserve;
        info.tag = IMPMEM_TAG_KV_BLOCKS;
        info.line = LINE_POOL;
        REQUIRE_OK(impmem_backend_reserve(g->backend, &info, &g->region[i], &gpu_why));
    }
    return true;
}

static bool close_growing(growing *g)
{
    for (int i = 0; i < 2; i++) REQUIRE_OK(impmem_backend_release(&g->region[i], &gpu_why));
    REQUIRE_OK(impmem_backend_destroy(g->backend, &gpu_why));
    return gpu_close(&g->w);
}

static bool commit(growing *g, int i, uint64_t bytes)
{
    REQUIRE_OK(impmem_region_commit(g->region[i], bytes, NULL, &gpu_why));
    return true;
}

typedef struct sum_graph {
    void *module, *graph, *executable;
    uint64_t *result; /* page-locked */
} sum_graph;

/* Captures the sum of [base, base + bytes). `inside` runs while the stream is captured. */
static bool capture_sum(growing *g, void *base, uint64_t bytes, bool (*inside)(growing *), sum_graph *out)
{
    gpu_world *w = &g->w;
    void *kernel = NULL, *memory = NULL;
    memset(out, 0, sizeof *out);
    REQUIRE_CODE(ASK(w, host_alloc, &memory, (uint64_t)4096, IMPMEM__HOST_MAPPED));
    out->result = memory;
    REQUIRE_CODE(ASK(w, module_load, &out->module, impmem__kernels));
    REQUIRE_CODE(ASK(w, module_function, &kernel, out->module, IMPMEM__KERNEL_SUM));
    uint64_t words = bytes / 4;
    void *parameters[] = {&base, &words, &out->result};
    REQUIRE_OK(impmem_ledger_capture_begin(w->ledger));
    REQUIRE_CODE(ASK(w, capture_begin, w->stream));
    REQUIRE_CODE(ASK(w, launch, kernel, 64, 256, w->stream, parameters));
    bool good = inside ? inside(g) : true;
    REQUIRE_CODE(ASK(w, capture_end, w->stream, &out->graph));
    REQUIRE_OK(impmem_ledger_capture_end(w->ledger));
    REQUIRE_CODE(ASK(w, graph_instantiate, &out->executable, out->graph));
    return good;
}

static bool replay(growing *g, sum_graph *s, uint64_t *out)
{
    gpu_world *w = &g->w;
    *s->result = 0;
    REQUIRE_CODE(ASK(w, graph_launch, s->executable, w->stream));
    REQUIRE_CODE(ASK(w, stream_wait_host, w->stream));
    *out = *s->result;
    return true;
}

static bool drop_sum(growing *g, sum_graph *s)
{
    gpu_world *w = &g->w;
    REQUIRE_CODE(ASK(w, graph_destroy, s->graph, s->executable));
    REQUIRE_CODE(ASK(w, module_unload, s->module));
    REQUIRE_CODE(ASK(w, host_free, s->result));
    return true;
}

/* Sum over i of pattern(i) * (2 * (i mod 65536) + 1), as the kernel adds. */
static uint64_t expected_sum(uint64_t bytes, uint32_t seed)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < bytes / 4; i++) sum += (uint64_t)(seed * 2654435761u + (uint32_t)i) * (2 * (i & 0xffff) + 1);
    return sum;
}

static bool a_captured_graph_replays_across_growth(void)
{
    growing g;
    const uint64_t first = 64 * IMPMEM_MIB;
    if (!open_growing(&g, 16 * IMPMEM_MIB, 2 * IMPMEM_GIB)) return false;
    sum_graph s;
    uint64_t sum = 0, want = expected_sum(first, 7);
    if (!commit(&g, 0, first) || !commit(&g, 1, 4 * first)) return false;
    if (!gpu_pattern(&g.w, impmem_region_base(g.region[0]), first, 7)) return false;
    if (!capture_sum(&g, impmem_region_base(g.region[0]), first, NULL, &s)) return false;
    if (!replay(&g, &s, &sum)) return false;
    REQUIRE(sum == want);
    for (uint64_t times = 2; times <= 10; times++) {
        if (!commit(&g, 0, times * first) || !replay(&g, &s, &sum)) return false;
        REQUIRE(sum == want);
    }
    /* Another region gives its memory back and takes other. */
    for (int i = 0; i < 5; i++) {
        if (!commit(&g, 1, 0) || !replay(&g, &s, &sum)) return false;
        REQUIRE(sum == want);
        if (!commit(&g, 1, 8 * first)) return false;
        if (!gpu_pattern(&g.w, impmem_region_base(g.region[1]), 8 * first, 99)) return false;
        if (!replay(&g, &s, &sum)) return false;
        REQUIRE(sum == want);
    }
    if (!commit(&g, 0, first) || !replay(&g, &s, &sum)) return false;
    REQUIRE(sum == want);
    if (!drop_sum(&g, &s) || !close_growing(&g)) return false;
    return gpu_say(true, "21 replays, one checksum, no re-capture");
}

static bool try_everything(growing *g)
{
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    impmem_region *region = NULL;
    info.bytes = 1;
    impmem_cuda_calls before, after;
    impmem_cuda_device_calls(g->w.device, &before);
    REQUIRE_STATUS(impmem_backend_acquire(g->backend, &info, &region, &gpu_why), IMPMEM_ERR_CAPTURING);
    REQUIRE_STATUS(impmem_backend_reserve(g->backend, &info, &region, &gpu_why), IMPMEM_ERR_CAPTURING);
    REQUIRE_STATUS(impmem_region_commit(g->region[0], IMPMEM_GIB, NULL, &gpu_why), IMPMEM_ERR_CAPTURING);
    REQUIRE_STATUS(impmem_region_decommit_range(g->region[0], 0, IMPMEM_GIB, NULL, &gpu_why), IMPMEM_ERR_CAPTURING);
    REQUIRE_STATUS(impmem_backend_release(&g->region[1], &gpu_why), IMPMEM_ERR_CAPTURING);
    impmem_cuda_device_calls(g->w.device, &after);
    REQUIRE(after.acquire == before.acquire && after.map == before.map && after.give_back == before.give_back);
    return true;
}

static bool acquiring_inside_a_real_capture_is_refused_and_the_capture_survives(void)
{
    growing g;
    const uint64_t bytes = 32 * IMPMEM_MIB;
    if (!open_growing(&g, 16 * IMPMEM_MIB, 2 * IMPMEM_GIB) || !commit(&g, 0, bytes)) return false;
    if (!gpu_pattern(&g.w, impmem_region_base(g.region[0]), bytes, 3)) return false;
    sum_graph s;
    uint64_t sum = 0;
    if (!capture_sum(&g, impmem_region_base(g.region[0]), bytes, try_everything, &s)) return false;
    if (!replay(&g, &s, &sum)) return false;
    REQUIRE(sum == expected_sum(bytes, 3));
    if (!drop_sum(&g, &s) || !close_growing(&g)) return false;
    return gpu_say(true, "5 operations refused, no driver call");
}

static bool the_base_stays_over_1000_cycles_and_the_reading_is_exact(void)
{
    growing g;
    const uint64_t chunk = 16 * IMPMEM_MIB;
    if (!open_growing(&g, chunk, 2 * IMPMEM_GIB)) return false;
    const void *base = impmem_region_base(g.region[0]);
    uint64_t empty = gpu_used(&g.w);
    static const uint64_t chunks[] = {8, 2, 6, 4, 10};
    if (!commit(&g, 0, 2 * chunk)) return false;
    if (!gpu_pattern(&g.w, impmem_region_base(g.region[0]), 2 * chunk, 5)) return false;
    for (int i = 0; i < 1000; i++) {
        if (!commit(&g, 0, chunks[i % 5] * chunk)) return false;
        REQUIRE(impmem_region_base(g.region[0]) == base);
        if (i % 50 == 0) REQUIRE(gpu_used(&g.w) == empty + chunks[i % 5] * chunk);
    }
    if (!gpu_holds(&g.w, impmem_region_base(g.region[0]), 2 * chunk, 5)) return false;
    if (!commit(&g, 0, 0)) return false;
    REQUIRE(gpu_used(&g.w) == empty);
    if (!close_growing(&g)) return false;
    return gpu_say(true, "base %p; used bytes equal committed bytes at 20 points; 0 left", base);
}

static bool the_grower_publishes_zeroed_memory_ahead_of_use(void)
{
    growing g;
    const uint64_t step = 16 * IMPMEM_MIB;
    if (!open_growing(&g, 2 * IMPMEM_MIB, 2 * IMPMEM_GIB)) return false;
    impmem_queue *queue = NULL;
    impmem_grower *grower = NULL;
    /* Dirty memory: what comes back from the driver need not be zero. */
    if (!commit(&g, 0, 64 * step)) return false;
    REQUIRE_CODE(ASK(&g.w, fill_async, impmem_region_base(g.region[0]), 0xee, 64 * step, g.w.stream));
    REQUIRE_CODE(ASK(&g.w, stream_wait_host, g.w.stream));
    if (!commit(&g, 0, 0)) return false;
    REQUIRE_OK(impmem_cuda_queue_create(g.w.device, NULL, &queue, &gpu_why));
    impmem_grower_options o = IMPMEM_GROWER_OPTIONS_INIT;
    o.region = g.region[0];
    o.queue = queue;
    o.zero = true;
    o.ahead_bytes = 2 * step;
    o.step_bytes = step;
    REQUIRE_OK(impmem_grower_open(g.w.ledger, &o, &grower, &gpu_why));
    unsigned char *host = malloc(step);
    REQUIRE(host);
    for (uint64_t i = 0; i < 32; i++) {
        impmem_grower_use(grower, i * step);
        double start = gpu_seconds();
        while (impmem_grower_ready_bytes(grower) < (i + 1) * step && gpu_seconds() - start < 5) {}
        REQUIRE(impmem_grower_ready_bytes(grower) >= (i + 1) * step);
        REQUIRE_CODE(ASK(&g.w, copy_async, host, (char *)impmem_region_base(g.region[0]) + i * step, step, g.w.stream));
        REQUIRE_CODE(ASK(&g.w, stream_wait_host, g.w.stream));
        for (uint64_t k = 0; k < step; k++) REQUIRE(host[k] == 0);
    }
    free(host);
    impmem_grower_stats s;
    impmem_grower_query(grower, &s);
    impmem_grower_close(&grower);
    impmem_queue_destroy(queue);
    if (!close_growing(&g)) return false;
    REQUIRE(s.refused == 0);
    return gpu_say(true, "%llu commits, the longest with its zeroing %.2f ms", (unsigned long long)s.commits,
                   (double)s.longest_ns / 1e6);
}

/* ---- budgets, devices, readings -------------------------------------------------------------------------------------- */

static bool the_budget_holds_to_the_byte_over_both_backends(void)
{
    gpu_world w;
    const uint64_t budget = 100 * IMPMEM_MIB;
    if (!gpu_open_on(&w, 0, budget)) return false;
    impmem_backend *fixed = NULL, *grow = NULL;
    impmem_region *a = NULL, *b = NULL;
    impmem_cuda_vmm_options v = IMPMEM_CUDA_VMM_OPTIONS_INIT;
    v.chunk_bytes = 2 * IMPMEM_MIB;
    REQUIRE_OK(impmem_cuda_malloc_backend_create(w.device, NULL, &fixed, &gpu_why));
    REQUIRE_OK(impmem_cuda_vmm_backend_create(w.device, &v, &grow, &gpu_why));
    uint64_t used = gpu_used(&w);
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.line = LINE_POOL;
    info.bytes = 60 * IMPMEM_MIB;
    REQUIRE_OK(impmem_backend_acquire(fixed, &info, &a, &gpu_why));
    info.bytes = IMPMEM_GIB;
    REQUIRE_OK(impmem_backend_reserve(grow, &info, &b, &gpu_why));
    REQUIRE_STATUS(impmem_region_commit(b, 40 * IMPMEM_MIB + 1, NULL, &gpu_why), IMPMEM_ERR_BUDGET_EXCEEDED);
    REQUIRE_OK(impmem_region_commit(b, 40 * IMPMEM_MIB, NULL, &gpu_why));
    REQUIRE_STATUS(impmem_region_commit(b, 40 * IMPMEM_MIB + 1, NULL, &gpu_why), IMPMEM_ERR_BUDGET_EXCEEDED);
    uint64_t rose = gpu_used(&w) - used;
    REQUIRE(impmem_ledger_unplanned_bytes(w.ledger) == 0 || impmem__own_bytes(w.ledger) == budget);
    REQUIRE_OK(impmem_backend_release(&b, &gpu_why));
    REQUIRE_OK(impmem_backend_release(&a, &gpu_why));
    REQUIRE(gpu_used(&w) == used);
    REQUIRE_OK(impmem_backend_destroy(grow, &gpu_why));
    REQUIRE_OK(impmem_backend_destroy(fixed, &gpu_why));
    if (!gpu_close(&w)) return false;
    REQUIRE(rose == budget);
    return gpu_say(true, "the device's used bytes rose by exactly 100 MiB");
}

static bool running_out_is_typed_and_leaves_no_error(void)
{
    gpu_world w;
    if (!gpu_open(&w)) return false;
    impmem_backend *fixed = NULL, *grow = NULL;
    impmem_region *a = NULL;
    REQUIRE_OK(impmem_cuda_malloc_backend_create(w.device, NULL, &fixed, &gpu_why));
    REQUIRE_OK(impmem_cuda_vmm_backend_create(w.device, NULL, &grow, &gpu_why));
    uint64_t used = gpu_used(&w);
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = w.device->facts.total_bytes;
    /* Under pressure the driver gives back what it had put by, or keeps page tables: a few MiB either way after the first round,
     * nothing after the rounds that follow. */
    int64_t moved = 0;
    for (int round = 0; round < 3; round++) {
        REQUIRE_STATUS(impmem_backend_acquire(fixed, &info, &a, &gpu_why), IMPMEM_ERR_OUT_OF_DEVICE_MEMORY);
        REQUIRE_STATUS(impmem_backend_acquire(grow, &info, &a, &gpu_why), IMPMEM_ERR_OUT_OF_DEVICE_MEMORY);
        int64_t now = (int64_t)gpu_used(&w) - (int64_t)used;
        if (round == 0) moved = now;
        if (now != moved || llabs(now) > 16 * (int64_t)IMPMEM_MIB)
            return gpu_say(false, "round %d: the reading moved by %.1f MiB, after the first by %.1f", round,
                           (double)now / 1048576.0, (double)moved / 1048576.0);
    }
    int last = 1;
    REQUIRE_CODE(ASK(&w, last_error, &last));
    REQUIRE(last == 0);
    info.bytes = (uint64_t)1 << 50;
    REQUIRE_STATUS(impmem_backend_reserve(grow, &info, &a, &gpu_why), IMPMEM_ERR_OUT_OF_ADDRESS_SPACE);
    REQUIRE_OK(impmem_backend_destroy(grow, &gpu_why));
    REQUIRE_OK(impmem_backend_destroy(fixed, &gpu_why));
    return gpu_close(&w) &&
           gpu_say(true, "the reading moved by %+.1f MiB after the first refusal, not at all after the next two",
                   (double)moved / 1048576.0);
}

static bool open_and_close_everything(impmem_ledger *ledger, int ordinal)
{
    impmem_cuda_device *device = NULL;
    impmem_backend *b[3] = {NULL, NULL, NULL};
    impmem_queue *q = NULL;
    impmem_region *r[3] = {NULL, NULL, NULL};
    impmem_cuda_device_options o = IMPMEM_CUDA_DEVICE_OPTIONS_INIT;
    o.ordinal = ordinal;
    REQUIRE_OK(impmem_cuda_device_open(ledger, &o, &device, &gpu_why));
    REQUIRE_OK(impmem_cuda_malloc_backend_create(device, NULL, &b[0], &gpu_why));
    REQUIRE_OK(impmem_cuda_vmm_backend_create(device, NULL, &b[1], &gpu_why));
    REQUIRE_OK(impmem_cuda_pinned_backend_create(device, NULL, &b[2], &gpu_why));
    REQUIRE_OK(impmem_cuda_queue_create(device, NULL, &q, &gpu_why));
    for (int i = 0; i < 3; i++) {
        impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
        info.bytes = 128 * IMPMEM_MIB; /* whole chunks of the growing backend */
        REQUIRE_OK(impmem_backend_acquire(b[i], &info, &r[i], &gpu_why));
    }
    uint64_t ticket = 0;
    REQUIRE_OK(impmem_queue_fill(q, impmem_region_base(r[0]), 1, 128 * IMPMEM_MIB, &gpu_why));
    REQUIRE_OK(impmem_queue_copy(q, impmem_region_base(r[1]), impmem_region_base(r[0]), 128 * IMPMEM_MIB, &gpu_why));
    REQUIRE_OK(impmem_queue_signal(q, &ticket, &gpu_why));
    REQUIRE_OK(impmem_queue_wait(q, ticket, &gpu_why));
    impmem_queue_destroy(q);
    for (int i = 0; i < 3; i++) {
        REQUIRE_OK(impmem_backend_release(&r[i], &gpu_why));
        REQUIRE_OK(impmem_backend_destroy(b[i], &gpu_why));
    }
    REQUIRE_OK(impmem_cuda_device_close(&device, &gpu_why));
    return true;
}

static bool the_second_open_and_close_leaves_what_the_first_left(void)
{
    gpu_world w; /* holds the context, so that the reading can be taken */
    if (!gpu_open(&w)) return false;
    if (!open_and_close_everything(w.ledger, 0)) return false;
    uint64_t first = gpu_used(&w);
    for (int i = 0; i < 5; i++) {
        if (!open_and_close_everything(w.ledger, 0)) return false;
        REQUIRE(gpu_used(&w) == first);
    }
    return gpu_close(&w) && gpu_say(true, "6 cycles, %.1f MiB used after each", (double)first / 1048576.0);
}

static bool two_devices_worth_of_objects_live_in_one_process(void)
{
    gpu_world a, b;
    uint32_t n = 0;
    REQUIRE_OK(impmem_cuda_device_count(&n, &gpu_why));
    if (!gpu_open_on(&a, 0, UINT64_MAX)) return false;
    impmem__leave_device(a.device);
    if (!gpu_open_on(&b, n > 1 ? 1 : 0, UINT64_MAX)) return false;
    if (!open_and_close_everything(b.ledger, n > 1 ? 1 : 0)) return false;
    if (!open_and_close_everything(a.ledger, 0)) return false;
    impmem_usage usage;
    impmem_ledger_account_usage(a.ledger, IMPMEM_ACCOUNT_DEVICE, &usage);
    if (usage.committed_bytes != 0 || usage.committed_peak_bytes != 256 * IMPMEM_MIB)
        return gpu_say(false, "committed %llu, peak %llu bytes", (unsigned long long)usage.committed_bytes,
                       (unsigned long long)usage.committed_peak_bytes);
    if (!gpu_close(&b)) return false;
    REQUIRE_CODE(impmem__enter_device(a.device));
    return gpu_close(&a) && gpu_say(true, "two ledgers on %s", n > 1 ? "two devices" : "one device: this machine has one");
}

/* ---- host memory, export, residency ---------------------------------------------------------------------------------- */

static bool foreign_memory_is_registered_and_let_go(void)
{
    gpu_world w;
    if (!gpu_open(&w)) return false;
    char path[] = "/tmp/impmem-gpu-XXXXXX";
    int file = mkstemp(path);
    REQUIRE(file >= 0);
    (void)unlink(path);
    const size_t bytes = 8u << 20;
    REQUIRE(ftruncate(file, (off_t)bytes) == 0);
    void *read_only = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
    void *plain = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(read_only != MAP_FAILED && plain != MAP_FAILED);
    impmem_host_registration a = IMPMEM_HOST_REGISTRATION_NONE, b = a, c = a;
    impmem_registration_options o = IMPMEM_REGISTRATION_OPTIONS_INIT;
    REQUIRE_OK(impmem_cuda_register(w.device, plain, bytes, &o, &a, &gpu_why));
    REQUIRE_STATUS(impmem_cuda_register(w.device, plain, bytes, &o, &b, &gpu_why), IMPMEM_ERR_BUSY);
    o.read_only = true;
    o.or_pageable = true;
    REQUIRE_OK(impmem_cuda_register(w.device, read_only, bytes, &o, &c, &gpu_why));
    int64_t codes[2] = {0, 0};
    int mode = (int)impmem_cuda_registration_mode(c), last = 1;
    REQUIRE_OK(impmem_cuda_registration_codes(c, codes));
    REQUIRE_CODE(ASK(&w, last_error, &last));
    REQUIRE(last == 0);
    REQUIRE_OK(impmem_cuda_unregister(&a, &gpu_why));
    REQUIRE_OK(impmem_cuda_unregister(&c, &gpu_why));
    REQUIRE_OK(impmem_cuda_register(w.device, plain, bytes, NULL, &a, &gpu_why));
    REQUIRE_OK(impmem_cuda_unregister(&a, &gpu_why));
    (void)munmap(read_only, bytes);
    (void)munmap(plain, bytes);
    (void)close(file);
    return gpu_close(&w) &&
           gpu_say(true, "read-only map: mode %d, codes %lld and %lld", mode, (long long)codes[0], (long long)codes[1]);
}

static bool an_open_descriptor_pins_nothing_after_release(void)
{
    gpu_world w;
    if (!gpu_open(&w)) return false;
    if (!w.device->facts.exportable) return gpu_close(&w) && gpu_say(true, "not supported here");
    impmem_cuda_vmm_options v = IMPMEM_CUDA_VMM_OPTIONS_INIT;
    v.exportable = true;
    impmem_backend *backend = NULL;
    impmem_region *region = NULL;
    REQUIRE_OK(impmem_cuda_vmm_backend_create(w.device, &v, &backend, &gpu_why));
    uint64_t used = gpu_used(&w);
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = 256 * IMPMEM_MIB;
    REQUIRE_OK(impmem_backend_acquire(backend, &info, &region, &gpu_why));
    int descriptor[4];
    for (int i = 0; i < 4; i++)
        REQUIRE_OK(impmem_cuda_export(region, (uint64_t)i * 64 * IMPMEM_MIB, &descriptor[i], &gpu_why));
    impmem_cuda_vmm_stats s;
    REQUIRE_OK(impmem_cuda_vmm_query(backend, &s));
    REQUIRE(s.live_descriptors == 4);
    REQUIRE_OK(impmem_backend_release(&region, &gpu_why));
    REQUIRE_OK(impmem_cuda_vmm_query(backend, &s));
    REQUIRE(s.live_descriptors == 0);
    REQUIRE(gpu_used(&w) == used);
    REQUIRE_OK(impmem_backend_destroy(backend, &gpu_why));
    return gpu_close(&w) && gpu_say(true, "4 exported, 0 left, the reading back at its start");
}

static bool a_pool_on_the_device_reads_as_resident(void)
{
    gpu_world w;
    if (!gpu_open(&w)) return false;
    impmem_backend *backend = NULL;
    impmem_region *pool = NULL, *reference = NULL;
    REQUIRE_OK(impmem_cuda_malloc_backend_create(w.device, NULL, &backend, &gpu_why));
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = 2 * IMPMEM_GIB;
    REQUIRE_OK(impmem_backend_acquire(backend, &info, &pool, &gpu_why));
    info.bytes = 512 * IMPMEM_MIB;
    REQUIRE_OK(impmem_backend_acquire(backend, &info, &reference, &gpu_why));
    impmem_residency_reading r;
    REQUIRE_OK(impmem_cuda_residency_probe(w.device, impmem_region_base(pool), 2 * IMPMEM_GIB,
                                           impmem_region_base(reference), 512 * IMPMEM_MIB, &r, &gpu_why));
    REQUIRE_OK(impmem_backend_release(&pool, &gpu_why));
    REQUIRE_OK(impmem_backend_release(&reference, &gpu_why));
    REQUIRE_OK(impmem_backend_destroy(backend, &gpu_why));
    if (!gpu_close(&w)) return false;
    return gpu_say(r.verdict == IMPMEM_RESIDENCY_RESIDENT, "%.0f GB/s, reference %.0f GB/s: %s",
                   (double)r.pool_bytes_per_s / 1e9, (double)r.reference_bytes_per_s / 1e9,
                   impmem_residency_name(r.verdict));
}

int main(void)
{
    static const gpu_case cases[] = {
#define CASE(name) {#name, name}
        CASE(the_malloc_backend_conforms),
        CASE(the_vmm_backend_conforms),
        CASE(the_vmm_backend_that_keeps_chunks_conforms),
        CASE(the_pinned_backend_conforms),
        CASE(pinned_memory_of_a_node_conforms),
        CASE(a_captured_graph_replays_across_growth),
        CASE(acquiring_inside_a_real_capture_is_refused_and_the_capture_survives),
        CASE(the_base_stays_over_1000_cycles_and_the_reading_is_exact),
        CASE(the_grower_publishes_zeroed_memory_ahead_of_use),
        CASE(the_budget_holds_to_the_byte_over_both_backends),
        CASE(running_out_is_typed_and_leaves_no_error),
        CASE(the_second_open_and_close_leaves_what_the_first_left),
        CASE(two_devices_worth_of_objects_live_in_one_process),
        CASE(foreign_memory_is_registered_and_let_go),
        CASE(an_open_descriptor_pins_nothing_after_release),
        CASE(a_pool_on_the_device_reads_as_resident),
    };
    return gpu_main("promises", cases, sizeof cases / sizeof cases[0]);
}
