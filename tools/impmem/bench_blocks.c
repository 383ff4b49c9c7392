/* bench_blocks.c - block pools: the last-freed block again and again at several pool sizes, a share, and random order. */
#include <inttypes.h>
#include <stdlib.h>

#include "bench.h"
#include "impmem/block_pool.h"
#include "impmem/control.h"

typedef struct pool_bench {
    impmem_ledger *ledger;
    impmem_block_pool *pool;
    impmem_block_ref ref; /* share: what is shared */
    impmem_status failed;
} pool_bench;

enum { EXTRA_REFS = 64 };

static impmem_status open_pool(pool_bench *b, uint32_t blocks)
{
    static const pool_bench empty = {NULL, NULL, IMPMEM_BLOCK_REF_NONE, IMPMEM_OK};
    *b = empty;
    impmem_status st = impmem_ledger_create(NULL, NULL, &b->ledger);
    if (st) return st;
    impmem_block_pool_options options = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    options.blocks = blocks;
    options.extra_refs = EXTRA_REFS;
    return impmem_block_pool_open(b->ledger, &options, &b->pool, NULL);
}

static impmem_status close_pool(pool_bench *b)
{
    impmem_status st = impmem_block_pool_close(&b->pool, NULL);
    return impmem_first_error(st, impmem_ledger_destroy(b->ledger, NULL));
}

static void take_drop(void *context, uint64_t n)
{
    pool_bench *b = context;
    for (uint64_t i = 0; i < n; i++) {
        impmem_block_ref ref = IMPMEM_BLOCK_REF_NONE;
        impmem_status st = impmem_block_take(b->pool, IMPMEM_HOLDER_SEQUENCE, i, &ref);
        bench_keep(&ref);
        st = impmem_first_error(st, impmem_block_drop(b->pool, &ref));
        if (st) b->failed = st;
    }
}

static void share_drop(void *context, uint64_t n)
{
    pool_bench *b = context;
    for (uint64_t i = 0; i < n; i++) {
        impmem_block_ref ref = IMPMEM_BLOCK_REF_NONE;
        impmem_status st = impmem_block_share(b->pool, b->ref, IMPMEM_HOLDER_CACHE, i, &ref);
        bench_keep(&ref);
        st = impmem_first_error(st, impmem_block_drop(b->pool, &ref));
        if (st) b->failed = st;
    }
}

static void bench_last_freed(const bench_run *run, uint32_t log2_blocks)
{
    bench_row row;
    bench_row_start(&row, "<= 10 ns", "blocks: take + drop, last freed, 2^%" PRIu32 " blocks", log2_blocks);
    pool_bench b;
    impmem_status st = open_pool(&b, (uint32_t)1 << log2_blocks);
    if (!st) {
        bench_measure(&run->settings, take_drop, &b, &row);
        st = b.failed;
    }
    bench_emit(run, &row, impmem_first_error(st, close_pool(&b)));
}

static void bench_share(const bench_run *run)
{
    bench_row row;
    bench_row_start(&row, "", "blocks: share + drop");
    pool_bench b;
    impmem_status st = open_pool(&b, 1024);
    if (!st) st = impmem_block_take(b.pool, IMPMEM_HOLDER_SEQUENCE, 1, &b.ref);
    if (!st) {
        bench_measure(&run->settings, share_drop, &b, &row);
        st = impmem_first_error(b.failed, impmem_block_drop(b.pool, &b.ref));
    }
    bench_emit(run, &row, impmem_first_error(st, close_pool(&b)));
}

/* A sample is one batch of drops and one of takes. The pool hands out the last dropped block first, so a batch of takes right
 * after its drops would find them in the cache: a pass drops every block, then takes every block. */
enum { RANDOM_BATCH = 1 << 16 };

static impmem_status drop_batch(impmem_block_pool *pool, impmem_block_ref *refs, double *ns)
{
    impmem_status st = IMPMEM_OK;
    uint64_t start = bench_now_ns();
    for (uint32_t i = 0; i < RANDOM_BATCH; i++) st = impmem_first_error(st, impmem_block_drop(pool, &refs[i]));
    *ns = (double)(bench_now_ns() - start) / RANDOM_BATCH;
    return st;
}

static impmem_status take_batch(impmem_block_pool *pool, impmem_block_ref *refs, double *ns)
{
    impmem_status st = IMPMEM_OK;
    uint64_t start = bench_now_ns();
    for (uint32_t i = 0; i < RANDOM_BATCH; i++)
        st = impmem_first_error(st, impmem_block_take(pool, IMPMEM_HOLDER_SEQUENCE, i, &refs[i]));
    *ns = (double)(bench_now_ns() - start) / RANDOM_BATCH;
    return st;
}

static void shuffle(impmem_block_ref *refs, uint32_t n)
{
    uint64_t random = 0x2545f4914f6cdd1du;
    for (uint32_t i = n - 1; i > 0; i--) {
        uint32_t j = (uint32_t)(bench_random(&random) % ((uint64_t)i + 1));
        impmem_block_ref swapped = refs[i];
        refs[i] = refs[j];
        refs[j] = swapped;
    }
}

/* One pass over a pool that is full and whose refs are in random order; it is so again afterwards. */
static impmem_status random_pass(impmem_block_pool *pool, impmem_block_ref *refs, uint32_t batches, double *samples,
                                 double *taking)
{
    impmem_status st = IMPMEM_OK;
    for (uint32_t i = 0; i < batches && !st; i++) st = drop_batch(pool, refs + (size_t)i * RANDOM_BATCH, &samples[i]);
    for (uint32_t i = 0; i < batches && !st; i++) st = take_batch(pool, refs + (size_t)i * RANDOM_BATCH, &taking[i]);
    for (uint32_t i = 0; i < batches && !st; i++) samples[i] += taking[i];
    return st;
}

static impmem_status measure_random(const bench_run *run, impmem_block_pool *pool, impmem_block_ref *refs, uint32_t blocks,
                                    bench_row *row)
{
    double samples[BENCH_MAX_SAMPLES];
    double taking[BENCH_MAX_SAMPLES];
    uint32_t batches = blocks / RANDOM_BATCH;
    uint32_t n = 0;
    impmem_status st = impmem_block_take_many(pool, IMPMEM_HOLDER_SEQUENCE, 1, blocks, refs);
    if (st) return st;
    shuffle(refs, blocks);
    /* The first pass warms up unless it alone has samples enough. */
    if (batches < run->settings.repetitions) st = random_pass(pool, refs, batches, samples, taking);
    while (!st && n < run->settings.repetitions && n + batches <= BENCH_MAX_SAMPLES) {
        st = random_pass(pool, refs, batches, samples + n, taking);
        n += batches;
    }
    if (!st) bench_summarise(samples, n, RANDOM_BATCH, row);
    return impmem_first_error(st, impmem_block_drop_many(pool, refs, blocks, NULL));
}

static void bench_random_order(const bench_run *run, uint32_t log2_blocks)
{
    uint32_t blocks = (uint32_t)1 << log2_blocks;
    uint64_t table_bytes = 0;
    bench_row row;
    bench_row_start(&row, "<= 2x floor", "blocks: take + drop, random order, 2^%" PRIu32 " blocks", log2_blocks);
    impmem_status st = impmem_control_block_pool_bytes(blocks, EXTRA_REFS, &table_bytes);
    row.floor_ns = st ? 0 : bench_dependent_reads(run, table_bytes);
    pool_bench b;
    st = impmem_first_error(st, open_pool(&b, blocks));
    impmem_block_ref *refs = calloc(blocks, sizeof *refs);
    if (!st && !refs) st = IMPMEM_ERR_OUT_OF_HOST_MEMORY;
    if (!st) st = measure_random(run, b.pool, refs, blocks, &row);
    free(refs);
    bench_emit(run, &row, impmem_first_error(st, close_pool(&b)));
}

void bench_blocks(const bench_run *run)
{
    static const uint32_t sizes[] = {10, 14, 18, 22, 24};
    uint32_t largest = run->settings.quick ? 18 : 24;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i] <= largest) bench_last_freed(run, sizes[i]);
    bench_share(run);
    bench_random_order(run, 18);
    if (!run->settings.quick) bench_random_order(run, 24);
}
