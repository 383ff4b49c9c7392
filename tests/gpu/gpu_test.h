/* gpu_test.h - tests that need a device: a table of cases, one line of result each, and helpers over the room's own driver
 * table. No test library: the executables run on a machine that has a driver and nothing else. Leaves with 77 where there
 * is no device. */
#ifndef TEST_GPU_TEST_H
#define TEST_GPU_TEST_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda/internal.h"
#include "kernels_ptx.h"

#pragma GCC diagnostic ignored "-Wunused-function" /* each executable uses a part of this */

enum { GPU_SKIPPED = 77, LINE_POOL = IMPMEM_LINE_USER, LINE_PINNED = IMPMEM_LINE_USER + 1 };

typedef struct gpu_case {
    const char *name; /* the promise */
    bool (*run)(void);
} gpu_case;

static char gpu_detail[512]; /* of the case under way: figures, or what was wrong */

static bool gpu_say(bool verdict, const char *fmt, ...)
{
    va_list arguments;
    va_start(arguments, fmt);
    vsnprintf(gpu_detail, sizeof gpu_detail, fmt, arguments);
    va_end(arguments);
    return verdict;
}

#define REQUIRE(condition)                                                                                                 \
    do {                                                                                                                   \
        if (!(condition)) return gpu_say(false, "%s:%d: %s", __FILE__, __LINE__, #condition);                              \
    } while (0)
#define REQUIRE_STATUS(call, expected)                                                                                     \
    do {                                                                                                                   \
        impmem_status got_ = (call);                                                                                       \
        if (got_ != (expected))                                                                                            \
            return gpu_say(false, "%s:%d: %s gave %s (%s)", __FILE__, __LINE__, #call, impmem_status_name(got_),           \
                           gpu_why.message);                                                                               \
    } while (0)
#define REQUIRE_OK(call) REQUIRE_STATUS(call, IMPMEM_OK)
#define REQUIRE_CODE(call)                                                                                                 \
    do {                                                                                                                   \
        int code_ = (call);                                                                                                \
        if (code_) return gpu_say(false, "%s:%d: %s gave code %d", __FILE__, __LINE__, #call, code_);                      \
    } while (0)

static impmem_error gpu_why = IMPMEM_ERROR_INIT;

static double gpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- a world: ledger and device -------------------------------------------------------------------------------------- */

typedef struct gpu_world {
    impmem_ledger *ledger;
    impmem_cuda_device *device;
    void *stream;
    void *module;
} gpu_world;

#define ASK(w, ...) impmem__ask(&(w)->device->driver, __VA_ARGS__)

static bool gpu_open_on(gpu_world *w, int ordinal, uint64_t budget)
{
    memset(w, 0, sizeof *w);
    const impmem_line lines[] = {
        {.id = LINE_POOL,
         .tier = IMPMEM_TIER_POOL,
         .account = IMPMEM_ACCOUNT_DEVICE,
         .tag = IMPMEM_TAG_KV_BLOCKS,
         .bytes = 64 * IMPMEM_GIB,
         .name = "pool"},
        {.id = LINE_PINNED,
         .tier = IMPMEM_TIER_PINNED,
         .account = IMPMEM_ACCOUNT_PINNED,
         .tag = IMPMEM_TAG_HOST_PINNED,
         .bytes = IMPMEM_GIB,
         .name = "pinned"},
    };
    const impmem_lines view = {lines, 2, {budget, UINT64_MAX, UINT64_MAX}};
    impmem_ledger_options lo = IMPMEM_LEDGER_OPTIONS_INIT;
    lo.serving = IMPMEM_SERVING_REFUSE;
    impmem_cuda_device_options o = IMPMEM_CUDA_DEVICE_OPTIONS_INIT;
    o.ordinal = ordinal;
    REQUIRE_OK(impmem_ledger_create(&view, &lo, &w->ledger));
    REQUIRE_OK(impmem_cuda_device_open(w->ledger, &o, &w->device, &gpu_why));
    REQUIRE_CODE(impmem__enter_device(w->device));
    REQUIRE_CODE(ASK(w, stream_create, &w->stream));
    REQUIRE_CODE(ASK(w, module_load, &w->module, test_kernels));
    return true;
}

static bool gpu_open(gpu_world *w)
{
    return gpu_open_on(w, 0, UINT64_MAX);
}

/* The device must have been left as it was: nothing on the ledger, no error in the runtime. */
static bool gpu_close(gpu_world *w)
{
    int last = 0;
    REQUIRE_CODE(ASK(w, stream_wait_host, w->stream));
    REQUIRE_CODE(ASK(w, module_unload, w->module));
    REQUIRE_CODE(ASK(w, stream_destroy, w->stream));
    REQUIRE_CODE(ASK(w, last_error, &last));
    REQUIRE(last == 0);
    impmem__leave_device(w->device);
    REQUIRE_OK(impmem_cuda_device_close(&w->device, &gpu_why));
    REQUIRE_OK(impmem_ledger_destroy(w->ledger, &gpu_why));
    return true;
}

static uint64_t gpu_used(gpu_world *w)
{
    uint64_t free_bytes = 0, total = 0;
    return impmem_cuda_memory(w->device, &free_bytes, &total, &gpu_why) ? 0 : total - free_bytes;
}

static bool gpu_kernel(gpu_world *w, const char *name, uint32_t grid, uint32_t block, void **parameters)
{
    void *function = NULL;
    REQUIRE_CODE(ASK(w, module_function, &function, w->module, name));
    REQUIRE_CODE(ASK(w, launch, function, grid, block, w->stream, parameters));
    return true;
}

/* Word i of the range: seed * 2654435761 + i. */
static bool gpu_pattern(gpu_world *w, void *to, uint64_t bytes, uint32_t seed)
{
    uint64_t words = bytes / 4;
    void *parameters[] = {&to, &words, &seed};
    return gpu_kernel(w, "test_pattern", 256, 256, parameters);
}

/* Reads everything back and compares it on the host. */
static bool gpu_holds(gpu_world *w, const void *at, uint64_t bytes, uint32_t seed)
{
    uint32_t *host = malloc(bytes);
    REQUIRE(host);
    int code = ASK(w, copy_async, host, at, bytes, w->stream);
    if (!code) code = ASK(w, stream_wait_host, w->stream);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < bytes / 4 && !code; i++) wrong += host[i] != seed * 2654435761u + (uint32_t)i;
    free(host);
    REQUIRE_CODE(code);
    return wrong ? gpu_say(false, "%llu of %llu words are wrong", (unsigned long long)wrong, (unsigned long long)bytes / 4)
                 : true;
}

/* ---- running --------------------------------------------------------------------------------------------------------- */

static int gpu_main(const char *title, const gpu_case *cases, size_t n)
{
    uint32_t devices = 0;
    impmem_status st = impmem_cuda_device_count(&devices, &gpu_why);
    if (st) {
        printf("%s: skipped: %s\n", title, gpu_why.message);
        return GPU_SKIPPED;
    }
    int failed = 0;
    printf("== %s\n", title);
    for (size_t i = 0; i < n; i++) {
        gpu_detail[0] = '\0';
        gpu_why = (impmem_error)IMPMEM_ERROR_INIT;
        double start = gpu_seconds();
        bool good = cases[i].run();
        printf("%-72s %s %7.2f s  %s\n", cases[i].name, good ? "ok    " : "FAILED", gpu_seconds() - start, gpu_detail);
        fflush(stdout);
        failed += !good;
    }
    printf("%s: %zu cases, %d failed\n\n", title, n, failed);
    return failed != 0;
}

#endif
