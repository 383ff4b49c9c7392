/* cuBLASLt over its table: the workspace ladder, planned shapes, and measuring. */
#include "cuda/cublaslt.h"

#include <stdio.h>
#include <string.h>

#define SUBJECT "cuBLASLt"

struct impmem_cublaslt {
    impmem__blas blas;
    impmem_cuda_device *device;
    impmem_cublaslt_options options;
    void *handle;
    uint64_t version;
};

impmem_status impmem_cublaslt_take_workspace(impmem_workspace_take_fn take, void *context, uint64_t planned_bytes,
                                             void **out, uint64_t *out_bytes)
{
    static const uint64_t rungs[] = {64 * IMPMEM_MIB, 32 * IMPMEM_MIB, 8 * IMPMEM_MIB, 2 * IMPMEM_MIB};
    if (!take || !out || !out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint64_t bytes = planned_bytes ? planned_bytes : rungs[0];
    for (size_t next = 0;;) {
        void *memory = NULL;
        impmem_status st = take(context, bytes, &memory);
        if (!st) {
            *out = memory;
            *out_bytes = bytes;
            return st;
        }
        if (st != IMPMEM_ERR_EXHAUSTED && st != IMPMEM_ERR_LINE_EXCEEDED) return st;
        while (next < sizeof rungs / sizeof rungs[0] && rungs[next] >= bytes) next++;
        if (next == sizeof rungs / sizeof rungs[0]) return IMPMEM_ERR_EXHAUSTED;
        bytes = rungs[next];
    }
}

static impmem_status failed(impmem_error *why, int code, const char *what)
{
    impmem_status st = code == IMPMEM__BLAS_NO_ALGORITHM ? IMPMEM_ERR_UNSUPPORTED : IMPMEM_ERR_DRIVER;
    impmem__error_set(why, st, SUBJECT, "%s: code %d of the library", what, code);
    impmem__error_driver(why, code);
    return st;
}

impmem_status impmem__cublaslt_open(impmem_cuda_device *device, const impmem_cublaslt_options *options,
                                    const impmem__blas *table, impmem_cublaslt **out, impmem_error *why)
{
    const impmem_cublaslt_options defaults = IMPMEM_CUBLASLT_OPTIONS_INIT;
    if (!options) options = &defaults;
    if (!device || !out || (!options->workspace) != (!options->workspace_bytes) || (uintptr_t)options->workspace % 256)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT,
                                 "no device, no place for the result, or a workspace without size or alignment");
    impmem_status st = impmem__options_check(options->size, options->version, sizeof *options, 1);
    if (st)
        return impmem__error_set(why, st, "cuBLASLt options", "size %u or version %u is not one of this library",
                                 options->size, options->version);
    void *memory = NULL;
    st = impmem__cuda_take_host(device->ledger, options->control_line, sizeof(impmem_cublaslt), &memory, why);
    if (st) return st;
    impmem_cublaslt *lt = memory;
    lt->device = device;
    lt->options = *options;
    atomic_fetch_add_explicit(&device->users, 1, memory_order_relaxed);
    if (table) lt->blas = *table;
    else st = impmem__blas_fill(&lt->blas, why);
    int code = st ? 0 : impmem__enter_device(device);
    if (!st && code) st = impmem__code_error(why, code, IMPMEM_ERR_DRIVER, "making the device's context current");
    if (!st) {
        code = lt->blas.create(&lt->blas, &lt->handle);
        if (code) st = failed(why, code, "creating a handle");
        else lt->version = lt->blas.version(&lt->blas);
        impmem__leave_device(device);
    }
    if (st) {
        impmem_cublaslt_close(lt);
        return st;
    }
    *out = lt;
    return IMPMEM_OK;
}

impmem_status impmem_cublaslt_open(impmem_cuda_device *device, const impmem_cublaslt_options *options,
                                   impmem_cublaslt **out, impmem_error *why)
{
    return impmem__cublaslt_open(device, options, NULL, out, why);
}

void impmem_cublaslt_close(impmem_cublaslt *lt)
{
    if (!lt) return;
    impmem_cuda_device *device = lt->device;
    if (lt->handle) {
        /* With or without the context current: a handle that stays would be lost. */
        bool current = impmem__enter_device(device) == IMPMEM__CODE_OK;
        int ignored = lt->blas.destroy(&lt->blas, lt->handle);
        (void)ignored;
        if (current) impmem__leave_device(device);
    }
    impmem__blas_empty(&lt->blas);
    impmem__cuda_give_host(device->ledger, lt->options.control_line, lt, sizeof *lt);
    atomic_fetch_sub_explicit(&device->users, 1, memory_order_release);
}

uint64_t impmem_cublaslt_version(const impmem_cublaslt *lt)
{
    return lt ? lt->version : 0;
}

static bool beyond(uint64_t value, uint64_t most)
{
    return most && value > most;
}

impmem_status impmem_cublaslt_matmul(impmem_cublaslt *lt, const impmem_matmul_shape *shape, const void *a, const void *b,
                                     void *c, void *stream, impmem_error *why)
{
    if (!lt || !shape || !a || !b || !c || !shape->m || !shape->n || !shape->k)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "no handle, no matrix or an empty one");
    const impmem_cublaslt_options *o = &lt->options;
    if (beyond(shape->m, o->max_m) || beyond(shape->n, o->max_n) || beyond(shape->k, o->max_k))
        return impmem__error_set(why, IMPMEM_ERR_LINE_EXCEEDED, SUBJECT,
                                 "%llu x %llu x %llu is beyond the planned %llu x %llu x %llu",
                                 (unsigned long long)shape->m, (unsigned long long)shape->n, (unsigned long long)shape->k,
                                 (unsigned long long)o->max_m, (unsigned long long)o->max_n, (unsigned long long)o->max_k);
    int code = impmem__enter_device(lt->device);
    if (code) return impmem__code_error(why, code, IMPMEM_ERR_DRIVER, "making the device's context current");
    code = lt->blas.matmul(&lt->blas, lt->handle, shape, a, b, c, o->workspace, o->workspace_bytes, stream);
    impmem__leave_device(lt->device);
    return code ? failed(why, code, "a matmul") : IMPMEM_OK;
}

/* ---- measuring ------------------------------------------------------------------------------------------------------- */

typedef struct trial {
    impmem_cuda_device *device;
    impmem_backend *backend;
    impmem_region *region;
    impmem_cublaslt *lt;
    void *stream, *graph, *executable;
} trial;

enum { WORKSPACE_MIB = 64, MEMORY_MIB = 512 };

/* Prefill and decode of a mid-sized model: many tokens, some, one. */
static impmem_status run_matmuls(trial *t, impmem_error *why)
{
    static const impmem_matmul_shape shapes[] = {{4096, 4096, 4096}, {12288, 512, 4096}, {4096, 8, 12288}, {8192, 1, 4096}};
    char *base = (char *)impmem_region_base(t->region) + WORKSPACE_MIB * IMPMEM_MIB;
    impmem_status st = IMPMEM_OK;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0] && !st; i++)
        st = impmem_cublaslt_matmul(t->lt, &shapes[i], base, base + 128 * IMPMEM_MIB, base + 256 * IMPMEM_MIB, t->stream,
                                    why);
    return st;
}

static int run_graph(trial *t, impmem_status *out_status, impmem_error *why)
{
    impmem__driver *d = &t->device->driver;
    int code = impmem__ask(d, capture_begin, t->stream);
    if (code) return code;
    *out_status = run_matmuls(t, why);
    code = impmem__ask(d, capture_end, t->stream, &t->graph);
    if (!code) code = impmem__ask(d, graph_instantiate, &t->executable, t->graph);
    if (!code) code = impmem__ask(d, graph_launch, t->executable, t->stream);
    if (!code) code = impmem__ask(d, stream_wait_host, t->stream);
    return code;
}

static impmem_status run_trial(trial *t, const impmem__blas *table, impmem_error *why)
{
    impmem_cublaslt_options o = IMPMEM_CUBLASLT_OPTIONS_INIT;
    o.workspace = impmem_region_base(t->region);
    o.workspace_bytes = WORKSPACE_MIB * IMPMEM_MIB;
    impmem__driver *d = &t->device->driver;
    impmem_status st = impmem__cublaslt_open(t->device, &o, table, &t->lt, why);
    if (st) return st;
    int code = impmem__ask(d, stream_create, &t->stream);
    if (!code)
        code = impmem__ask(d, fill_async, impmem_region_base(t->region), (uint8_t)0, MEMORY_MIB * IMPMEM_MIB, t->stream);
    if (!code) st = run_matmuls(t, why);
    if (!code && !st) code = run_graph(t, &st, why);
    if (!code) return st;
    impmem__swallow(t->device);
    return impmem__code_error(why, code, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, "a first graph of matmuls");
}

static void close_trial(trial *t)
{
    impmem__driver *d = &t->device->driver;
    int ignored = 0;
    if (t->graph) ignored |= impmem__ask(d, graph_destroy, t->graph, t->executable);
    if (t->stream) ignored |= impmem__ask(d, stream_destroy, t->stream);
    if (ignored) impmem__swallow(t->device);
    impmem_cublaslt_close(t->lt);
    /* Half a gigabyte is worth a second try. What stays even then is on the ledger, and keeps the device from closing. */
    impmem_status st = impmem_backend_release(&t->region, NULL);
    if (st) st = impmem_backend_release(&t->region, NULL);
    if (!st) st = impmem_backend_destroy(t->backend, NULL);
    (void)st;
}

impmem_status impmem__cublaslt_measure(impmem_cuda_device *device, const impmem__blas *table, uint64_t *out_library_bytes,
                                       char *out_libraries, size_t out_libraries_bytes, impmem_error *why)
{
    if (!device || !out_library_bytes)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "no device, or no place for the result");
    trial t;
    memset(&t, 0, sizeof t);
    t.device = device;
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = MEMORY_MIB * IMPMEM_MIB;
    info.tag = IMPMEM_TAG_LIBRARY_RESERVE;
    impmem_status st = impmem_cuda_malloc_backend_create(device, NULL, &t.backend, why);
    if (!st) st = impmem_backend_acquire(t.backend, &info, &t.region, why);
    if (!st) st = impmem_cuda_measure_begin(device, why);
    int code = st ? 1 : impmem__enter_device(device);
    if (!st && code) st = impmem__code_error(why, code, IMPMEM_ERR_DRIVER, "making the device's context current");
    if (!st) {
        st = run_trial(&t, table, why);
        uint64_t bytes = 0;
        /* Before anything is closed: the graph and the handle are part of what an engine has. */
        if (!st) st = impmem_cuda_measure_end(device, &bytes, why);
        if (!st) {
            uint64_t v = impmem_cublaslt_version(t.lt);
            if (out_libraries)
                (void)snprintf(out_libraries, out_libraries_bytes, "cublasLt %llu.%llu.%llu",
                               (unsigned long long)(v / 10000), (unsigned long long)(v / 100 % 100),
                               (unsigned long long)(v % 100));
            *out_library_bytes = bytes;
        }
        close_trial(&t);
        impmem__leave_device(device);
    } else {
        close_trial(&t);
    }
    return st;
}

impmem_status impmem_cublaslt_measure(impmem_cuda_device *device, uint64_t *out_library_bytes, char *out_libraries,
                                      size_t out_libraries_bytes, impmem_error *why)
{
    return impmem__cublaslt_measure(device, NULL, out_library_bytes, out_libraries, out_libraries_bytes, why);
}
