/* bench_peers.c - what the library's figures are held against on the same machine in the same run: the C library's allocator,
 * and memory itself. */
#include <stdlib.h>

#include "bench.h"
#include "impmem/bytes.h"

static void malloc_pairs(void *context, uint64_t n)
{
    (void)context;
    for (uint64_t i = 0; i < n; i++) {
        void *memory = malloc(64);
        bench_keep(memory);
        free(memory);
    }
}

void bench_peers(const bench_run *run)
{
    bench_row row;
    bench_row_start(&row, "", "peer: malloc + free, 64 bytes");
    bench_measure(&run->settings, malloc_pairs, NULL, &row);
    bench_emit(run, &row, IMPMEM_OK);
}

/* A node fills a cache line, so that no read brings in the next one's neighbour. */
typedef struct node {
    uint64_t next;
    uint64_t pad[7];
} node;

typedef struct chase {
    const node *table;
    uint64_t at;
} chase;

static void chase_pairs(void *context, uint64_t n)
{
    chase *c = context;
    uint64_t at = c->at;
    for (uint64_t i = 0; i < n; i++) {
        at = c->table[at].next;
        at = c->table[at].next;
    }
    c->at = at;
}

uint64_t bench_random(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return x;
}

double bench_dependent_reads(const bench_run *run, uint64_t bytes)
{
    uint64_t count = bytes / sizeof(node);
    if (count < 2) count = 2;
    bench_row row;
    char size[32];
    bench_row_start(&row, "", "floor: two dependent reads, %s table", impmem_format_mib(bytes, size, sizeof size));
    node *table = calloc(count, sizeof *table);
    if (!table) {
        bench_emit(run, &row, IMPMEM_ERR_OUT_OF_HOST_MEMORY);
        return 0;
    }
    /* One cycle through all nodes (Sattolo): a plain shuffle could close a short cycle that stays in a cache. */
    for (uint64_t i = 0; i < count; i++) table[i].next = i;
    uint64_t random = 0x9e3779b97f4a7c15u;
    for (uint64_t i = count - 1; i > 0; i--) {
        uint64_t j = bench_random(&random) % i;
        uint64_t swapped = table[i].next;
        table[i].next = table[j].next;
        table[j].next = swapped;
    }
    chase c = {table, 0};
    bench_measure(&run->settings, chase_pairs, &c, &row);
    bench_keep(&c);
    free(table);
    bench_emit(run, &row, IMPMEM_OK);
    return row.median_ns;
}
