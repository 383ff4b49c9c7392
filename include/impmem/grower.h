/* impmem/grower.h - commits a region ahead of its use, on a thread of its own. Floor 1, implemented by
 * src/backend/grower.c.
 *
 *   impmem_grower_options o = IMPMEM_GROWER_OPTIONS_INIT;
 *   o.region = region; o.ahead_bytes = plan_says; o.queue = zeroing_queue; o.zero = true;
 *   impmem_grower *grower;
 *   impmem_grower_open(ledger, &o, &grower, &why);
 *   ... once a step, the owner of the block pool over `region`:
 *   impmem_grower_use(grower, blocks_in_use * stride);                                  a store, sometimes a wake-up
 *   uint32_t ready = (uint32_t)(impmem_grower_ready_bytes(grower) / stride);           a load
 *   if (ready > pool_blocks) st = impmem_block_pool_grow(pool, ready, &why);           no driver call: it is committed
 * already
 *   impmem_grower_close(&grower);
 *
 * The grower keeps [0, used + ahead) committed. New memory is published when it is committed and, with `zero`, when its
 * zeroing has run on the queue. The owner never waits for the driver: it makes no driver call and takes no lock that is
 * held across one. It works on any growable backend, so that the same thread is tested without a device.
 *
 * While it is open, an allocator over the region uses what is published and no more: growing beyond is CAPACITY, without a
 * commit, and the grower goes for what was asked, so that the same request succeeds a little later. For an engine's KV:
 *
 *   o.region = impmem_engine_kv_region(engine, group);   after the engine opened its pools; NULL when they do not grow
 *   impmem_block_pool_query(impmem_engine_kv_pool(engine, group), &s);                  once a step
 *   impmem_grower_use(grower, (s.total_blocks - s.free_blocks) * stride);
 *   ... impmem_engine_admit adopts what is ready ...
 *   impmem_grower_close(&grower);                         before impmem_engine_close
 */
#ifndef IMPMEM_GROWER_H
#define IMPMEM_GROWER_H

#include "impmem/backend.h"
#include "impmem/queue.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct impmem_grower impmem_grower;

typedef struct impmem_grower_options {
    uint32_t size;
    uint32_t version;            /* 1 */
    impmem_region *region;       /* growable; outlives the grower, and nobody else commits or decommits in it meanwhile */
    impmem_queue *queue;         /* the grower's own while it is open; needed for `zero` */
    uint64_t ahead_bytes;        /* low-water mark: what is kept ready above what is used; > 0 */
    uint64_t step_bytes;         /* at most this much per commit; 0 = 64 MiB. Rounded up to the granule */
    uint64_t limit_bytes;        /* never commit beyond; 0 = the reservation */
    uint64_t retry_ns;           /* pause after a refused commit; 0 = 10 ms */
    impmem_line_id control_line; /* 0 = IMPMEM_LINE_HOST_CONTROL */
    bool zero;                   /* fill new memory with 0 before it is published */
} impmem_grower_options;
#define IMPMEM_GROWER_OPTIONS_INIT                                                                                         \
    {                                                                                                                      \
        sizeof(impmem_grower_options), 1, NULL, NULL, 0, 0, 0, 0, 0, false                                                 \
    }

/* What is committed already counts as ready. INVALID_ARGUMENT, VERSION, NOT_GROWABLE, BUSY (the region has a grower),
 * OUT_OF_HOST_MEMORY (object or thread), BUDGET_EXCEEDED. Opened and closed by the thread that owns the allocator over the
 * region; until it is closed, releasing the region is BUSY. */
IMPMEM_NODISCARD impmem_status impmem_grower_open(impmem_ledger *ledger, const impmem_grower_options *options,
                                                  impmem_grower **out, impmem_error *why);
/* Ends the thread; at most one commit and its zeroing are waited for. What is committed stays. NULL is fine. */
void impmem_grower_close(impmem_grower **grower);

/* Owner thread: [0, used_bytes) is in use. Wakes the grower when less than ahead_bytes are ready above. */
void impmem_grower_use(impmem_grower *grower, uint64_t used_bytes);
/* [0, this) is committed and zeroed. Never falls. */
uint64_t impmem_grower_ready_bytes(const impmem_grower *grower);

typedef struct impmem_grower_stats {
    uint64_t ready_bytes;
    uint64_t used_bytes;
    uint64_t commits;    /* that succeeded */
    uint64_t refused;    /* that did not, budget and device alike */
    uint64_t deferred;   /* put off because a graph was being captured */
    uint64_t longest_ns; /* of one commit with its zeroing */
    impmem_status last;  /* of the last attempt */
} impmem_grower_stats;
void impmem_grower_query(const impmem_grower *grower, impmem_grower_stats *out); /* any thread */

#ifdef __cplusplus
}
#endif
#endif
