/* bench.h - timing of hot paths: what a measurement is, and who takes which.
 *
 * A sample is a batch of operations between two readings of the raw monotonic clock, long enough (1 ms) that the reading itself
 * doesn't count; a row is the median of many samples with the tenth and the ninetieth percentile beside it.
 */
#ifndef IMPMEM_COMMAND_BENCH_H
#define IMPMEM_COMMAND_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "impmem/status.h"

enum { BENCH_MAX_SAMPLES = 512 };

typedef struct bench_settings {
    bool quick;           /* small tables only */
    uint32_t repetitions; /* samples a row, at least 31 */
    uint64_t min_batch_ns;
} bench_settings;

/* One operation. NaN never appears: a row that could not be measured has samples 0 and says why in `note`. */
typedef struct bench_row {
    char operation[64];
    const char *target; /* "<= 5 ns", or "" for a peer */
    const char *note;   /* "" or why there are no figures */
    uint64_t batch;     /* operations in one sample */
    uint32_t samples;
    double median_ns, p10_ns, p90_ns; /* of one operation */
    double floor_ns;                  /* what it is held against in the same run; 0: nothing */
} bench_row;

/* Takes each row as soon as it is known. */
typedef void (*bench_sink)(void *context, const bench_row *row);
typedef struct bench_run {
    bench_settings settings;
    bench_sink sink;
    void *context;
} bench_run;

/* Runs `n` operations. A failing operation is remembered in the body's own context. */
typedef void (*bench_body)(void *context, uint64_t n);

uint64_t bench_now_ns(void);
/* Finds the batch that takes min_batch_ns, then fills the figures of `row`. */
void bench_measure(const bench_settings *settings, bench_body body, void *context, bench_row *row);
/* The figures of `row` from samples in ns an operation; sorts them. */
void bench_summarise(double *samples, uint32_t n, uint64_t batch, bench_row *row);
void bench_row_start(bench_row *row, const char *target, const char *fmt, ...) IMPMEM_PRINTF(3, 4);
/* `row` without figures, if `failed`, then on to the sink. */
void bench_emit(const bench_run *run, bench_row *row, impmem_status failed);

/* What a value depends on must have been computed by here. */
static inline void bench_keep(const void *pointer)
{
    __asm__ volatile("" : : "r"(pointer) : "memory");
}

uint64_t bench_random(uint64_t *state); /* xorshift64; the state may not be 0 */

void bench_peers(const bench_run *run);
void bench_tiers(const bench_run *run);  /* arena, scratch */
void bench_blocks(const bench_run *run); /* block pools of several sizes */
void bench_kv(const bench_run *run);     /* append, lookup, evict, statistics */
void bench_plans(const bench_run *run);

/* Nanoseconds of two dependent reads from a table of `bytes`, one node a cache line, in an order that no prefetcher knows; the
 * row "two dependent reads, N MiB" goes to the sink. 0 when the table can't be had. */
double bench_dependent_reads(const bench_run *run, uint64_t bytes);

#endif
