/* probe_costs.c - what growth costs: driver calls one by one, whole commits, and launches beside them. */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "probe.h"

enum { CALLS = 5, MOST = 64 };

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *samples, size_t n)
{
    qsort(samples, n, sizeof samples[0], ascending);
    return samples[n / 2];
}

/* One round of the five calls; microseconds of each into us[call]. */
static int time_round(device_session *s, char *base, uint64_t bytes, double us[CALLS])
{
    const impmem__chunk_place place = {s->device->ordinal, -1, 0};
    uint64_t chunk = 0, t[CALLS + 1];
    t[0] = bench_now_ns();
    int code = SESSION_ASK(s, chunk_create, &chunk, bytes, &place);
    if (code) return code;
    t[1] = bench_now_ns();
    code = SESSION_ASK(s, chunk_map, base, bytes, chunk);
    t[2] = bench_now_ns();
    if (!code) code = SESSION_ASK(s, set_access, base, bytes, &s->device->ordinal, 1, -1);
    t[3] = bench_now_ns();
    int second = SESSION_ASK(s, chunk_unmap, base, bytes);
    t[4] = bench_now_ns();
    int third = SESSION_ASK(s, chunk_release, chunk);
    t[5] = bench_now_ns();
    for (int i = 0; i < CALLS; i++) us[i] = (double)(t[i + 1] - t[i]) / 1e3;
    return code ? code : second ? second : third;
}

static void time_chunks(probe_run *run, uint64_t mib, int rounds)
{
    static double samples[CALLS][MOST];
    device_session *s = run->session;
    uint64_t bytes = mib * IMPMEM_MIB;
    void *base = NULL;
    char name[64];
    (void)snprintf(name, sizeof name, "a chunk of %llu MiB", (unsigned long long)mib);
    int code = SESSION_ASK(s, address_reserve, &base, bytes, s->device->facts.granule_bytes);
    double us[CALLS] = {0};
    for (int i = 0; i < rounds && !code; i++) {
        code = time_round(s, base, bytes, us);
        for (int k = 0; k < CALLS; k++) samples[k][i] = us[k];
    }
    if (base) {
        int ignored = SESSION_ASK(s, address_free, base, bytes);
        (void)ignored;
    }
    if (code) {
        probe_say(run, name, PROBE_FAILED, (double)NAN, "", "code %d", code);
        return;
    }
    double m[CALLS], sum = 0;
    for (int k = 0; k < CALLS; k++) m[k] = median(samples[k], (size_t)rounds);
    sum = m[0] + m[1] + m[2];
    probe_say(run, name, PROBE_OK, sum, "us", "create %.1f map %.1f access %.1f unmap %.1f release %.1f us", m[0], m[1],
              m[2], m[3], m[4]);
}

/* The library's own commit and decommit, and how much of it is not the driver's. */
static void time_commits(probe_run *run)
{
    enum { ROUNDS = 41 };
    device_session *s = run->session;
    impmem_cuda_vmm_options v = IMPMEM_CUDA_VMM_OPTIONS_INIT;
    v.chunk_bytes = 256 * IMPMEM_MIB;
    impmem_backend *backend = NULL;
    impmem_region *region = NULL;
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = IMPMEM_GIB;
    impmem_status st = impmem_cuda_vmm_backend_create(s->device, &v, &backend, NULL);
    if (!st) st = impmem_backend_reserve(backend, &info, &region, NULL);
    double up[ROUNDS], down[ROUNDS];
    for (int i = 0; i < ROUNDS && !st; i++) {
        uint64_t a = bench_now_ns();
        st = impmem_region_commit(region, v.chunk_bytes, NULL, NULL);
        uint64_t b = bench_now_ns();
        st = impmem_first_error(st, impmem_region_commit(region, 0, NULL, NULL));
        up[i] = (double)(b - a) / 1e3;
        down[i] = (double)(bench_now_ns() - b) / 1e3;
    }
    st = impmem_first_error(st, impmem_backend_release(&region, NULL));
    st = impmem_first_error(st, impmem_backend_destroy(backend, NULL));
    if (st) {
        probe_say(run, "commit and decommit of 256 MiB", PROBE_FAILED, (double)NAN, "", "%s", impmem_status_name(st));
        return;
    }
    double u = median(up, ROUNDS), d = median(down, ROUNDS);
    probe_say(run, "commit of 256 MiB", PROBE_OK, u, "us", "%.1f us, median of %d", u, ROUNDS);
    probe_say(run, "decommit of 256 MiB", PROBE_OK, d, "us", "%.1f us, %.2f x a commit", d, d / u);
}

void probe_costs(probe_run *run)
{
    if (!run->session->device->facts.virtual_memory) return;
    time_chunks(run, 2, 41);
    time_chunks(run, 64, 41);
    time_chunks(run, 256, 31);
    time_chunks(run, 1024, 15);
    time_commits(run);
}

/* ---- launches beside growth ------------------------------------------------------------------------------------------ */

typedef struct neighbour {
    device_session *session;
    impmem_region *region;
    uint64_t bytes;
    _Atomic bool stop;
    _Atomic uint64_t cycles;
    impmem_status status;
} neighbour;

static void *grow_and_shrink(void *context)
{
    neighbour *n = context;
    while (!atomic_load_explicit(&n->stop, memory_order_acquire) && !n->status) {
        n->status = impmem_region_commit(n->region, n->bytes, NULL, NULL);
        n->status = impmem_first_error(n->status, impmem_region_commit(n->region, 0, NULL, NULL));
        atomic_fetch_add_explicit(&n->cycles, 1, memory_order_relaxed);
    }
    return NULL;
}

enum { LAUNCHES = 20000 };

/* Launch call times, one each 50 us; sorted microseconds. The kernel reads 4 KiB and adds to device memory, a few
 * microseconds of work: additions to host memory would fill the stream, and a launch would then wait for the kernels before
 * it. */
static int time_launches(device_session *s, void *memory, double *us)
{
    uint64_t words = 1024;
    void *sum = (char *)memory + 65536;
    void *parameters[] = {&memory, &words, &sum};
    uint64_t next = bench_now_ns();
    for (int i = 0; i < LAUNCHES; i++) {
        while (bench_now_ns() < next) {}
        next += 50000;
        uint64_t start = bench_now_ns();
        int code = SESSION_ASK(s, launch, s->sum, 1, 256, s->stream, parameters);
        us[i] = (double)(bench_now_ns() - start) / 1e3;
        if (code) return code;
    }
    int code = SESSION_ASK(s, stream_wait_host, s->stream);
    qsort(us, LAUNCHES, sizeof us[0], ascending);
    return code;
}

static void report_latency(probe_run *run, const double *quiet, const double *busy, uint64_t cycles)
{
    double q = quiet[LAUNCHES * 999L / 1000], b = busy[LAUNCHES * 999L / 1000];
    /* A launch that waited for growth would take as long as growth does: tens to hundreds of microseconds, always. */
    bool good = busy[LAUNCHES / 2] <= 2.0 * quiet[LAUNCHES / 2] + 2.0;
    probe_say(run, "launches beside growth", good ? PROBE_OK : PROBE_FAILED, b, "us",
              "p50 %.1f (quiet %.1f) p99 %.1f (%.1f) p99.9 %.1f (%.1f) us; %llu growth cycles", busy[LAUNCHES / 2],
              quiet[LAUNCHES / 2], busy[LAUNCHES * 99L / 100], quiet[LAUNCHES * 99L / 100], b, q,
              (unsigned long long)cycles);
}

static void check_latency(probe_run *run)
{
    static double quiet[LAUNCHES], busy[LAUNCHES];
    device_session *s = run->session;
    impmem_cuda_vmm_options v = IMPMEM_CUDA_VMM_OPTIONS_INIT;
    impmem_backend *backend = NULL;
    impmem_region *region = NULL, *data = NULL;
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = 64 * IMPMEM_MIB;
    impmem_status st = impmem_cuda_vmm_backend_create(s->device, &v, &backend, NULL);
    if (!st) st = impmem_backend_reserve(backend, &info, &region, NULL);
    if (!st) st = impmem_backend_acquire(backend, &info, &data, NULL);
    neighbour n = {.session = s, .region = region, .bytes = 64 * IMPMEM_MIB};
    pthread_t thread;
    int code = st ? 1 : time_launches(s, impmem_region_base(data), quiet); /* warm */
    if (!code) code = time_launches(s, impmem_region_base(data), quiet);
    if (!code) code = pthread_create(&thread, NULL, grow_and_shrink, &n);
    if (!code) {
        code = time_launches(s, impmem_region_base(data), busy);
        atomic_store_explicit(&n.stop, true, memory_order_release);
        (void)pthread_join(thread, NULL);
        st = n.status;
    }
    if (!code && !st) report_latency(run, quiet, busy, atomic_load(&n.cycles));
    else
        probe_say(run, "launches beside growth", PROBE_FAILED, (double)NAN, "", "code %d, %s", code,
                  impmem_status_name(st));
    st = impmem_backend_release(&data, NULL);
    st = impmem_first_error(st, impmem_backend_release(&region, NULL));
    st = impmem_first_error(st, impmem_backend_destroy(backend, NULL));
    if (st) probe_say(run, "regions are released", PROBE_FAILED, (double)NAN, "", "%s", impmem_status_name(st));
}

static void check_residency(probe_run *run)
{
    device_session *s = run->session;
    impmem_backend *backend = NULL;
    impmem_region *pool = NULL;
    impmem_residency_reading r;
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = IMPMEM_GIB;
    memset(&r, 0, sizeof r);
    impmem_status st = impmem_cuda_malloc_backend_create(s->device, NULL, &backend, &why);
    if (!st) st = impmem_backend_acquire(backend, &info, &pool, &why);
    if (!st) st = impmem_cuda_residency_probe(s->device, impmem_region_base(pool), info.bytes, NULL, 0, &r, &why);
    /* A slow pool is a warning elsewhere; in a probe of a card it is the answer. */
    probe_say(run, "a pool of 1 GiB is resident", !st && r.verdict != IMPMEM_RESIDENCY_SPILLED ? PROBE_OK : PROBE_FAILED,
              (double)r.pool_bytes_per_s / 1e9, "GB/s", "%.0f GB/s read and written: %s", (double)r.pool_bytes_per_s / 1e9,
              st ? why.message : impmem_residency_name(r.verdict));
    st = impmem_backend_release(&pool, NULL);
    st = impmem_first_error(st, impmem_backend_destroy(backend, NULL));
    if (st) probe_say(run, "regions are released", PROBE_FAILED, (double)NAN, "", "%s", impmem_status_name(st));
}

void probe_latency(probe_run *run)
{
    if (run->session->device->facts.virtual_memory) check_latency(run);
    check_residency(run);
}
