/* probe_growth.c - what virtual memory must do on this device for a pool to grow under a running engine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "probe.h"

#define CHUNK (256 * IMPMEM_MIB)
#define RESERVE (24 * IMPMEM_GIB)

typedef struct grown {
    impmem_backend *backend;
    impmem_region *pool;
    impmem_region *other;
    uint64_t empty; /* used bytes of the device with nothing committed */
} grown;

static double milliseconds(uint64_t from, uint64_t to)
{
    return (double)(to - from) / 1e6;
}

static impmem_status reserve(grown *g, impmem_region **out, uint64_t bytes)
{
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = bytes;
    info.tag = IMPMEM_TAG_KV_BLOCKS;
    return impmem_backend_reserve(g->backend, &info, out, NULL);
}

static bool open_pools(probe_run *run, grown *g)
{
    impmem_cuda_vmm_options v = IMPMEM_CUDA_VMM_OPTIONS_INIT;
    v.chunk_bytes = CHUNK;
    impmem_error why = IMPMEM_ERROR_INIT;
    memset(g, 0, sizeof *g);
    impmem_status st = impmem_cuda_vmm_backend_create(run->session->device, &v, &g->backend, &why);
    if (st) {
        probe_say(run, "virtual memory management", st == IMPMEM_ERR_UNSUPPORTED ? PROBE_UNSUPPORTED : PROBE_FAILED,
                  (double)NAN, "", "%s", why.message);
        return false;
    }
    uint64_t before = device_used_bytes(run->session), start = bench_now_ns();
    st = reserve(g, &g->pool, RESERVE);
    uint64_t end = bench_now_ns();
    g->empty = device_used_bytes(run->session);
    bool good = !st && g->empty == before;
    probe_say(run, "24 GiB of addresses take no memory", good ? PROBE_OK : PROBE_FAILED, milliseconds(start, end), "ms",
              "%.2f ms, %+.2f MiB (%s)", milliseconds(start, end), ((double)g->empty - (double)before) / (double)IMPMEM_MIB,
              impmem_status_name(st));
    if (st) return false;
    st = reserve(g, &g->other, 4 * CHUNK);
    if (st)
        probe_say(run, "a second region beside it", PROBE_FAILED, (double)NAN, "", "1 GiB of addresses: %s",
                  impmem_status_name(st));
    return !st;
}

static void close_pools(probe_run *run, grown *g)
{
    /* The driver keeps a little for the first launch and the first graph, so the baseline is taken after both. */
    impmem_status st = impmem_region_commit(g->pool, 0, NULL, NULL);
    st = impmem_first_error(st, impmem_region_commit(g->other, 0, NULL, NULL));
    uint64_t baseline = device_used_bytes(run->session);
    st = impmem_first_error(st, impmem_region_commit(g->pool, 10 * CHUNK, NULL, NULL));
    st = impmem_first_error(st, impmem_region_commit(g->pool, 0, NULL, NULL));
    uint64_t after = device_used_bytes(run->session);
    double left = ((double)after - (double)baseline) / (double)IMPMEM_MIB;
    probe_say(run, "full decommit returns to the baseline", !st && after == baseline ? PROBE_OK : PROBE_FAILED, left, "MiB",
              "%+.2f MiB left; %+.2f MiB kept for launches and graphs", left,
              ((double)baseline - (double)g->empty) / (double)IMPMEM_MIB);
    st = impmem_backend_release(&g->pool, NULL);
    st = impmem_first_error(st, impmem_backend_release(&g->other, NULL));
    st = impmem_first_error(st, impmem_backend_destroy(g->backend, NULL));
    if (st) probe_say(run, "regions are released", PROBE_FAILED, (double)NAN, "", "%s", impmem_status_name(st));
}

static void check_exact_commits(probe_run *run, grown *g)
{
    double worst = 0;
    impmem_status st = IMPMEM_OK;
    for (uint64_t n = 1; n <= 8 && !st; n++) {
        st = impmem_region_commit(g->pool, n * CHUNK, NULL, NULL);
        double off = (double)device_used_bytes(run->session) - (double)g->empty - (double)(n * CHUNK);
        if (fabs(off) > fabs(worst)) worst = off;
    }
    probe_say(run, "256 MiB committed take exactly 256 MiB", !st && worst == 0.0 ? PROBE_OK : PROBE_FAILED,
              worst / (double)IMPMEM_MIB, "MiB", "8 commits, at most %+.2f MiB off", worst / (double)IMPMEM_MIB);
}

static void check_base(probe_run *run, grown *g)
{
    static const uint64_t chunks[] = {8, 2, 6, 4, 10};
    const void *base = impmem_region_base(g->pool);
    bool same = true;
    impmem_status st = IMPMEM_OK;
    for (int i = 0; i < 5 && !st; i++) {
        st = impmem_region_commit(g->pool, chunks[i] * CHUNK, NULL, NULL);
        same = same && impmem_region_base(g->pool) == base;
    }
    probe_say(run, "the base stays across 8, 2, 6, 4, 10 chunks", same && !st ? PROBE_OK : PROBE_FAILED, (double)NAN, "",
              "%p", base);
}

/* The sum of `bytes` at `base` through the kernel, by launch or by graph. */
static int sum_of(device_session *s, void *base, uint64_t bytes, void *executable, uint64_t *result, uint64_t *out)
{
    uint64_t words = bytes / 4;
    void *parameters[] = {&base, &words, &result};
    *result = 0;
    int code = executable ? SESSION_ASK(s, graph_launch, executable, s->stream)
                          : SESSION_ASK(s, launch, s->sum, 256, 256, s->stream, parameters);
    if (!code) code = SESSION_ASK(s, stream_wait_host, s->stream);
    *out = *result;
    return code;
}

static void check_data(probe_run *run, grown *g, uint64_t *result)
{
    device_session *s = run->session;
    uint64_t before = 0, after = 1;
    int code = SESSION_ASK(s, fill_async, impmem_region_base(g->pool), 0x5a, CHUNK, s->stream);
    if (!code) code = sum_of(s, impmem_region_base(g->pool), CHUNK, NULL, result, &before);
    impmem_status st = IMPMEM_OK;
    for (int i = 0; i < 3 && !st && !code; i++) {
        st = impmem_region_commit(g->other, 4 * CHUNK, NULL, NULL);
        if (!st) code = SESSION_ASK(s, fill_async, impmem_region_base(g->other), 0xff, 4 * CHUNK, s->stream);
        if (!code) code = SESSION_ASK(s, stream_wait_host, s->stream);
        st = impmem_first_error(st, impmem_region_commit(g->other, 0, NULL, NULL));
    }
    if (!code) code = sum_of(s, impmem_region_base(g->pool), CHUNK, NULL, result, &after);
    /* Every word is 0x5a5a5a5a; the kernel weighs word i with 2 * (i mod 65536) + 1, whose sum over 65536 words is
     * 65536^2. */
    uint64_t expected = (uint64_t)0x5a5a5a5au * ((uint64_t)1 << 32) * (CHUNK / 4 / 65536);
    bool good = !code && !st && before == expected && after == expected;
    probe_say(run, "data stays while another region comes and goes", good ? PROBE_OK : PROBE_FAILED, (double)NAN, "",
              "%llu words, checksum %016llx", (unsigned long long)(CHUNK / 4), (unsigned long long)after);
}

static void check_graph(probe_run *run, grown *g, uint64_t *result)
{
    device_session *s = run->session;
    void *base = impmem_region_base(g->pool), *graph = NULL, *executable = NULL;
    uint64_t words = CHUNK / 4, sums[4] = {0, 0, 0, 0};
    void *parameters[] = {&base, &words, &result};
    impmem_status st = impmem_region_commit(g->pool, 2 * CHUNK, NULL, NULL);
    if (!st) st = impmem_ledger_capture_begin(s->ledger);
    int code = st ? IMPMEM__CODE_INVALID_VALUE : SESSION_ASK(s, capture_begin, s->stream);
    if (!code) code = SESSION_ASK(s, launch, s->sum, 256, 256, s->stream, parameters);
    impmem_status refused = impmem_region_commit(g->pool, 3 * CHUNK, NULL, NULL);
    if (!code) code = SESSION_ASK(s, capture_end, s->stream, &graph);
    st = impmem_first_error(st, impmem_ledger_capture_end(s->ledger));
    if (!code) code = SESSION_ASK(s, graph_instantiate, &executable, graph);
    if (!code) code = sum_of(s, base, CHUNK, executable, result, &sums[0]);
    st = impmem_first_error(st, impmem_region_commit(g->pool, 8 * CHUNK, NULL, NULL)); /* 1.5 GiB more */
    if (!code) code = sum_of(s, base, CHUNK, executable, result, &sums[1]);
    st = impmem_first_error(st, impmem_region_commit(g->pool, CHUNK, NULL, NULL));
    if (!code) code = sum_of(s, base, CHUNK, executable, result, &sums[2]);
    if (!code) code = sum_of(s, base, CHUNK, NULL, result, &sums[3]);
    int ignored = graph ? SESSION_ASK(s, graph_destroy, graph, executable) : 0;
    (void)ignored;
    bool good = !code && !st && sums[0] && sums[0] == sums[1] && sums[1] == sums[2] && sums[2] == sums[3];
    probe_say(run, "a captured graph replays across 1.5 GiB of growth", good ? PROBE_OK : PROBE_FAILED, (double)NAN, "",
              "3 replays and a launch, checksum %016llx", (unsigned long long)sums[2]);
    probe_say(run, "growth inside a capture is refused", refused == IMPMEM_ERR_CAPTURING ? PROBE_OK : PROBE_FAILED,
              (double)NAN, "", "%s, the capture went on", impmem_status_name(refused));
}

void probe_growth(probe_run *run)
{
    device_session *s = run->session;
    grown g;
    void *result = NULL;
    if (!open_pools(run, &g)) {
        impmem_status st = impmem_backend_release(&g.pool, NULL);
        st = impmem_first_error(st, impmem_backend_destroy(g.backend, NULL));
        (void)st;
        return;
    }
    check_exact_commits(run, &g);
    check_base(run, &g);
    if (SESSION_ASK(s, host_alloc, &result, (uint64_t)4096, IMPMEM__HOST_MAPPED)) {
        impmem__swallow(s->device);
        probe_say(run, "page-locked host memory", PROBE_FAILED, (double)NAN, "", "4 KiB refused");
    } else {
        check_data(run, &g, result);
        check_graph(run, &g, result);
        int ignored = SESSION_ASK(s, host_free, result);
        (void)ignored;
    }
    close_pools(run, &g);
}
