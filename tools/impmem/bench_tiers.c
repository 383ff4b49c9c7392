/* bench_tiers.c - arena and scratch stack, over a fake device that hands out addresses only: neither touches the memory. */
#include <string.h>

#include "bench.h"
#include "impmem/arena.h"
#include "impmem/bytes.h"
#include "impmem/fake.h"
#include "impmem/scratch.h"

/* Room for a batch of takes between two resets: far more than 1 ms of them. */
#define REGION_BYTES ((uint64_t)1 << 40)

typedef struct tier_bench {
    impmem_ledger *ledger;
    impmem_backend *backend;
    impmem_region *region;
    impmem_arena *arena;
    impmem_scratch *scratch;
    impmem_status failed;
} tier_bench;

static impmem_status open_region(tier_bench *b)
{
    memset(b, 0, sizeof *b);
    impmem_status st = impmem_ledger_create(NULL, NULL, &b->ledger);
    if (st) return st;
    impmem_fake_options options = IMPMEM_FAKE_OPTIONS_INIT;
    options.backing = IMPMEM_FAKE_ADDRESS_ONLY;
    st = impmem_fake_backend_create(b->ledger, &options, &b->backend, NULL, NULL);
    if (st) return st;
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = REGION_BYTES;
    info.tag = IMPMEM_TAG_ENGINE_PERSISTENT;
    return impmem_backend_acquire(b->backend, &info, &b->region, NULL);
}

static impmem_status close_region(tier_bench *b)
{
    impmem_arena_close(&b->arena);
    impmem_status st = impmem_scratch_close(&b->scratch, NULL);
    st = impmem_first_error(st, impmem_backend_release(&b->region, NULL));
    st = impmem_first_error(st, impmem_backend_destroy(b->backend, NULL));
    return impmem_first_error(st, impmem_ledger_destroy(b->ledger, NULL));
}

static void arena_takes(void *context, uint64_t n)
{
    tier_bench *b = context;
    impmem_engine_span span;
    impmem_arena_reset(b->arena);
    for (uint64_t i = 0; i < n; i++) {
        impmem_status st = impmem_arena_take_engine(b->arena, IMPMEM_NO_LINE, 64, 64, &span);
        if (st) b->failed = st;
        bench_keep(&span);
    }
}

static void scratch_rounds(void *context, uint64_t n)
{
    tier_bench *b = context;
    impmem_scratch_span span;
    for (uint64_t i = 0; i < n; i++) {
        impmem_scratch_mark mark = impmem_scratch_push(b->scratch);
        impmem_status st = impmem_scratch_take(b->scratch, 4096, 256, &span);
        bench_keep(&span);
        impmem_status popped = impmem_scratch_pop(b->scratch, mark);
        if (st || popped) b->failed = st ? st : popped;
    }
}

static void bench_arena(const bench_run *run)
{
    bench_row row;
    bench_row_start(&row, "<= 5 ns", "arena: take");
    tier_bench b;
    impmem_status st = open_region(&b);
    if (!st) st = impmem_arena_open(b.region, IMPMEM_TIER_ENGINE, &b.arena, NULL);
    if (!st) {
        bench_measure(&run->settings, arena_takes, &b, &row);
        st = b.failed;
    }
    bench_emit(run, &row, impmem_first_error(st, close_region(&b)));
}

static void bench_scratch(const bench_run *run)
{
    bench_row row;
    bench_row_start(&row, "<= 5 ns", "scratch: push + take + pop");
    tier_bench b;
    impmem_status st = open_region(&b);
    if (!st) st = impmem_scratch_open(b.region, &b.scratch, NULL);
    if (!st) {
        bench_measure(&run->settings, scratch_rounds, &b, &row);
        st = b.failed;
    }
    bench_emit(run, &row, impmem_first_error(st, close_region(&b)));
}

void bench_tiers(const bench_run *run)
{
    bench_arena(run);
    bench_scratch(run);
}
