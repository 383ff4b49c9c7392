/* Resident or spilled: timed copies, and a rule that judges the rates. */
#include "impmem/residency.h"

#include <string.h>

#include "cuda/internal.h"

#define LEAST_SPAN (128 * IMPMEM_MIB) /* larger than the caches of the devices that were looked at */
#define MOST_COPY (256 * IMPMEM_MIB)
#define ABSOLUTE_FLOOR                                                                                                     \
    500000000000u /* bytes a second; resident memory of data-centre and large desktop cards is far above */
#define WARM_SECONDS 0.1
#define MEASURE_SECONDS 0.1

const char *impmem_residency_name(impmem_residency verdict)
{
    switch (verdict) {
    case IMPMEM_RESIDENCY_UNKNOWN: return "unknown";
    case IMPMEM_RESIDENCY_RESIDENT: return "resident";
    case IMPMEM_RESIDENCY_SPILLED: return "spilled";
    }
    return "?";
}

impmem_residency impmem_residency_classify(uint64_t pool_bytes_per_s, uint64_t reference_bytes_per_s, uint64_t span_bytes)
{
    if (span_bytes < LEAST_SPAN || pool_bytes_per_s == 0) return IMPMEM_RESIDENCY_UNKNOWN;
    uint64_t floor = reference_bytes_per_s ? reference_bytes_per_s / 2 : ABSOLUTE_FLOOR;
    return pool_bytes_per_s < floor ? IMPMEM_RESIDENCY_SPILLED : IMPMEM_RESIDENCY_RESIDENT;
}

typedef struct stopwatch {
    impmem_cuda_device *device;
    void *stream;
    void *from;
    void *to;
} stopwatch;

static int time_copies(stopwatch *w, char *base, uint64_t half, uint32_t n, double *out_seconds)
{
    impmem__driver *d = &w->device->driver;
    int code = impmem__ask(d, event_record, w->from, w->stream);
    for (uint32_t i = 0; i < n && !code; i++) code = impmem__ask(d, copy_async, base + half, base, half, w->stream);
    if (!code) code = impmem__ask(d, event_record, w->to, w->stream);
    if (!code) code = impmem__ask(d, event_elapsed, out_seconds, w->from, w->to);
    return code;
}

/* Doubles the number of copies until they take long enough; the rate of the last round counts. Clocks rise meanwhile. */
static int rate_of(stopwatch *w, char *base, uint64_t half, uint64_t *out_rate)
{
    enum { MOST_COPIES = 1 << 16 };
    double seconds = 0, spent = 0;
    uint32_t n = 1;
    for (;;) {
        int code = time_copies(w, base, half, n, &seconds);
        if (code) return code;
        spent += seconds;
        if ((seconds >= MEASURE_SECONDS && spent >= WARM_SECONDS + MEASURE_SECONDS) || n >= MOST_COPIES) break;
        n *= 2;
    }
    double bytes = 2.0 * (double)half * n; /* read and written */
    double rate = seconds > 0 ? bytes / seconds : 0;
    *out_rate = rate > 0 && rate < 1e18 ? (uint64_t)rate : 0;
    return IMPMEM__CODE_OK;
}

/* A stopwatch that can't be closed changes no reading; only the error that it leaves must go. */
static void close_stopwatch(stopwatch *w)
{
    impmem__driver *d = &w->device->driver;
    int ignored = 0;
    if (w->to) ignored |= impmem__ask(d, event_destroy, w->to);
    if (w->from) ignored |= impmem__ask(d, event_destroy, w->from);
    if (w->stream) ignored |= impmem__ask(d, stream_destroy, w->stream);
    if (ignored) impmem__swallow(w->device);
}

static int open_stopwatch(stopwatch *w)
{
    impmem__driver *d = &w->device->driver;
    int code = impmem__ask(d, stream_create, &w->stream);
    if (!code) code = impmem__ask(d, event_create, &w->from);
    if (!code) code = impmem__ask(d, event_create, &w->to);
    return code;
}

static uint64_t half_of(uint64_t bytes)
{
    uint64_t half = bytes / 2 < MOST_COPY ? bytes / 2 : MOST_COPY;
    return half & ~(uint64_t)255;
}

impmem_status impmem_cuda_residency_probe(impmem_cuda_device *device, void *base, uint64_t bytes, void *reference,
                                          uint64_t reference_bytes, impmem_residency_reading *out, impmem_error *why)
{
    if (!device || !base || half_of(bytes) == 0 || !out || (reference && half_of(reference_bytes) == 0))
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "residency",
                                 "no device, too few bytes or no place for the result");
    impmem_residency_reading r;
    memset(&r, 0, sizeof r);
    stopwatch w = {device, NULL, NULL, NULL};
    int code = impmem__enter_device(device);
    if (code) return impmem__code_error(why, code, IMPMEM_ERR_DRIVER, "making the device's context current");
    code = open_stopwatch(&w);
    if (!code) code = rate_of(&w, base, half_of(bytes), &r.pool_bytes_per_s);
    if (!code && reference) code = rate_of(&w, reference, half_of(reference_bytes), &r.reference_bytes_per_s);
    close_stopwatch(&w);
    if (code) impmem__swallow(device);
    impmem__leave_device(device);
    if (code) return impmem__code_error(why, code, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, "timing copies");
    r.span_bytes = 2 * half_of(bytes);
    r.verdict = impmem_residency_classify(r.pool_bytes_per_s, r.reference_bytes_per_s, r.span_bytes);
    bool spilled = r.verdict == IMPMEM_RESIDENCY_SPILLED;
    (void)pthread_mutex_lock(&device->lock);
    device->gauges.residency_probes++;
    device->gauges.spills += spilled;
    device->gauges.residency = r;
    (void)pthread_mutex_unlock(&device->lock);
    if (spilled)
        impmem__ledger_log(device->ledger, "a pool of device memory is spilled: it copies %llu bytes a second",
                           (unsigned long long)r.pool_bytes_per_s);
    *out = r;
    return IMPMEM_OK;
}
