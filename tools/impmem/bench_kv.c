/* bench_kv.c - the KV manager: append, prefix lookup, eviction, a statistics reading; at a small and a large cache. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "impmem/kv.h"

enum { BLOCK_TOKENS = 16, CHAIN_BLOCKS = 256, CHAIN_TOKENS = BLOCK_TOKENS * CHAIN_BLOCKS };

typedef struct kv_bench {
    impmem_ledger *ledger;
    impmem_block_pool *pool;
    impmem_kv *kv;
    impmem_sequence seq;
    uint32_t *tokens; /* one chain of CHAIN_TOKENS */
    uint32_t chains;  /* that the cache holds */
    uint32_t length;  /* append: what one sequence grows to, */
    uint32_t at;      /* and how long it is */
    uint64_t random;
    impmem_status failed;
} kv_bench;

static void write_chain(uint32_t *tokens, uint32_t chain)
{
    for (uint32_t i = 0; i < CHAIN_TOKENS; i++) tokens[i] = chain * 2654435761u + i;
}

static impmem_status open_kv(kv_bench *b, uint32_t blocks, uint32_t max_seq_tokens)
{
    memset(b, 0, sizeof *b);
    b->random = 0x9e3779b97f4a7c15u;
    b->tokens = calloc(CHAIN_TOKENS, sizeof *b->tokens);
    if (!b->tokens) return IMPMEM_ERR_OUT_OF_HOST_MEMORY;
    impmem_status st = impmem_ledger_create(NULL, NULL, &b->ledger);
    if (st) return st;
    impmem_block_pool_options pool = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    pool.blocks = blocks;
    st = impmem_block_pool_open(b->ledger, &pool, &b->pool, NULL);
    if (st) return st;
    impmem_kv_options options = IMPMEM_KV_OPTIONS_INIT;
    options.group[0].pool = b->pool;
    options.n_groups = 1;
    options.block_tokens = BLOCK_TOKENS;
    options.max_sequences = 2;
    options.max_seq_tokens = max_seq_tokens;
    return impmem_kv_open(b->ledger, &options, &b->kv, NULL);
}

static impmem_status close_kv(kv_bench *b)
{
    impmem_status st = b->kv ? impmem_kv_release(b->kv, &b->seq) : IMPMEM_OK;
    st = impmem_first_error(st, impmem_kv_close(&b->kv, NULL));
    st = impmem_first_error(st, impmem_block_pool_close(&b->pool, NULL));
    free(b->tokens);
    return impmem_first_error(st, impmem_ledger_destroy(b->ledger, NULL));
}

static impmem_status cache_chain(kv_bench *b, uint32_t chain)
{
    write_chain(b->tokens, chain);
    impmem_kv_request r = IMPMEM_KV_REQUEST_INIT;
    r.tokens = b->tokens;
    r.n_tokens = CHAIN_TOKENS;
    impmem_kv_admission a;
    impmem_sequence seq;
    impmem_status st = impmem_kv_admit(b->kv, &r, &seq, &a, NULL);
    if (!st) st = impmem_kv_append(b->kv, seq, CHAIN_TOKENS - a.cached_tokens);
    if (!st) st = impmem_kv_publish(b->kv, seq, b->tokens, CHAIN_TOKENS);
    return st ? st : impmem_kv_release(b->kv, &seq);
}

static impmem_status fill_cache(kv_bench *b, uint32_t blocks)
{
    impmem_status st = IMPMEM_OK;
    b->chains = blocks / CHAIN_BLOCKS;
    for (uint32_t c = 0; c < b->chains && !st; c++) st = cache_chain(b, c);
    return st;
}

/* One token a step; a sequence that is full is cut back, which belongs to the price. */
static void append_tokens(void *context, uint64_t n)
{
    kv_bench *b = context;
    for (uint64_t i = 0; i < n; i++) {
        if (b->at == b->length) {
            impmem_status cut = impmem_kv_truncate(b->kv, b->seq, 1);
            if (cut) b->failed = cut;
            b->at = 1;
        }
        impmem_status st = impmem_kv_append(b->kv, b->seq, 1);
        if (st) b->failed = st;
        b->at++;
    }
}

static void bench_append(const bench_run *run, uint32_t log2_blocks)
{
    bench_row row;
    bench_row_start(&row, "<= 5 ns", "kv: append a token, pool of 2^%" PRIu32 " blocks", log2_blocks);
    kv_bench b;
    uint32_t blocks = (uint32_t)1 << log2_blocks;
    impmem_status st = open_kv(&b, blocks, blocks * BLOCK_TOKENS);
    impmem_kv_request r = IMPMEM_KV_REQUEST_INIT;
    r.tokens = b.tokens;
    r.n_tokens = 1;
    r.max_new_tokens = blocks * BLOCK_TOKENS - 1;
    b.length = blocks * BLOCK_TOKENS;
    if (!st) st = impmem_kv_admit(b.kv, &r, &b.seq, NULL, NULL);
    if (!st) st = impmem_kv_append(b.kv, b.seq, 1);
    b.at = 1;
    if (!st) {
        bench_measure(&run->settings, append_tokens, &b, &row);
        st = b.failed;
    }
    bench_emit(run, &row, impmem_first_error(st, close_kv(&b)));
}

/* n cached chains looked up in random order. The last block of a prompt is never hit, so CHAIN_BLOCKS - 1 are. */
static void lookup_chains(void *context, uint64_t n)
{
    kv_bench *b = context;
    for (uint64_t i = 0; i < n; i++) {
        write_chain(b->tokens, (uint32_t)(bench_random(&b->random) % b->chains));
        uint32_t cached = 0;
        impmem_status st = impmem_kv_lookup(b->kv, NULL, b->tokens, CHAIN_TOKENS, &cached);
        if (!st && cached != CHAIN_TOKENS - BLOCK_TOKENS) st = IMPMEM_ERR_NOT_FOUND;
        if (st) b->failed = st;
    }
}

static void write_chains_only(void *context, uint64_t n)
{
    kv_bench *b = context;
    for (uint64_t i = 0; i < n; i++) {
        write_chain(b->tokens, (uint32_t)(bench_random(&b->random) % b->chains));
        bench_keep(b->tokens);
    }
}

static void bench_lookup(const bench_run *run, uint32_t log2_entries, const char *target)
{
    bench_row row, writing;
    bench_row_start(&row, target, "kv: prefix lookup, verified, a block; 2^%" PRIu32 " cached", log2_entries);
    bench_row_start(&writing, "", "making the tokens of a chain");
    kv_bench b;
    impmem_status st = open_kv(&b, (uint32_t)1 << log2_entries, CHAIN_TOKENS);
    if (!st) st = fill_cache(&b, (uint32_t)1 << log2_entries);
    if (!st) {
        bench_measure(&run->settings, write_chains_only, &b, &writing);
        bench_measure(&run->settings, lookup_chains, &b, &row);
        /* The tokens are the caller's; a row is about one block. */
        row.median_ns = (row.median_ns - writing.median_ns) / (CHAIN_BLOCKS - 1);
        row.p10_ns = (row.p10_ns - writing.median_ns) / (CHAIN_BLOCKS - 1);
        row.p90_ns = (row.p90_ns - writing.median_ns) / (CHAIN_BLOCKS - 1);
        st = b.failed;
    }
    bench_emit(run, &row, impmem_first_error(st, close_kv(&b)));
}

/* Fills, then times the evictions alone: a sample is one emptying of the cache. */
static void bench_evict(const bench_run *run, uint32_t log2_entries)
{
    bench_row row;
    bench_row_start(&row, "<= 30 ns", "kv: evict a block; 2^%" PRIu32 " cached", log2_entries);
    uint32_t blocks = (uint32_t)1 << log2_entries;
    double samples[BENCH_MAX_SAMPLES];
    kv_bench b;
    uint32_t n = 0;
    impmem_status st = open_kv(&b, blocks, CHAIN_TOKENS);
    while (!st && n < 31) {
        st = fill_cache(&b, blocks);
        uint64_t start = bench_now_ns();
        uint32_t evicted = impmem_kv_evict(b.kv, blocks);
        samples[n++] = (double)(bench_now_ns() - start) / (double)blocks;
        if (!st && evicted != blocks) st = IMPMEM_ERR_STATE;
    }
    if (!st) bench_summarise(samples, n, blocks, &row);
    bench_emit(run, &row, impmem_first_error(st, close_kv(&b)));
}

static void read_statistics(void *context, uint64_t n)
{
    kv_bench *b = context;
    for (uint64_t i = 0; i < n; i++) {
        impmem_kv_stats kv;
        impmem_block_pool_stats pool;
        impmem_kv_read_stats(b->kv, &kv);
        impmem_block_pool_read_stats(b->pool, &pool);
        bench_keep(&kv);
        bench_keep(&pool);
    }
}

static void bench_statistics(const bench_run *run)
{
    bench_row row;
    bench_row_start(&row, "<= 50000 ns", "statistics: reading a KV manager and its pool");
    kv_bench b;
    impmem_status st = open_kv(&b, 8192, CHAIN_TOKENS);
    if (!st) {
        impmem_kv_publish_stats(b.kv);
        impmem_block_pool_publish_stats(b.pool);
        bench_measure(&run->settings, read_statistics, &b, &row);
    }
    bench_emit(run, &row, impmem_first_error(st, close_kv(&b)));
}

void bench_kv(const bench_run *run)
{
    bench_append(run, 13);
    if (!run->settings.quick) bench_append(run, 20);
    bench_lookup(run, 13, "<= 25 ns");
    if (!run->settings.quick) bench_lookup(run, 20, "<= 60 ns");
    bench_evict(run, 13);
    bench_statistics(run);
}
