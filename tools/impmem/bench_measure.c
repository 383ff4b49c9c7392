/* bench_measure.c - clock, batches, medians. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

uint64_t bench_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t time_batch(bench_body body, void *context, uint64_t n)
{
    uint64_t start = bench_now_ns();
    body(context, n);
    return bench_now_ns() - start;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_summarise(double *samples, uint32_t n, uint64_t batch, bench_row *row)
{
    qsort(samples, n, sizeof samples[0], ascending);
    row->samples = n;
    row->batch = batch;
    row->median_ns = n % 2 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
    row->p10_ns = samples[(n - 1) / 10];
    row->p90_ns = samples[(n - 1) - (n - 1) / 10];
}

void bench_measure(const bench_settings *settings, bench_body body, void *context, bench_row *row)
{
    /* Doubling up to the batch also warms caches, predictor and clock. */
    uint64_t n = 1;
    while (time_batch(body, context, n) < settings->min_batch_ns && n < (uint64_t)1 << 40) n *= 2;
    double samples[BENCH_MAX_SAMPLES];
    uint32_t count = settings->repetitions < BENCH_MAX_SAMPLES ? settings->repetitions : BENCH_MAX_SAMPLES;
    for (uint32_t i = 0; i < count; i++) samples[i] = (double)time_batch(body, context, n) / (double)n;
    bench_summarise(samples, count, n, row);
}

void bench_row_start(bench_row *row, const char *target, const char *fmt, ...)
{
    memset(row, 0, sizeof *row);
    row->target = target;
    row->note = "";
    va_list arguments;
    va_start(arguments, fmt);
    vsnprintf(row->operation, sizeof row->operation, fmt, arguments);
    va_end(arguments);
}

void bench_emit(const bench_run *run, bench_row *row, impmem_status failed)
{
    if (failed) {
        row->samples = 0;
        row->note = impmem_status_message(failed);
    }
    run->sink(run->context, row);
}
