/* sim_cache.h - the prefix cache alone, driven by a trace: which share of the prompts' blocks would it have held?
 *
 * One request after the other: a policy counts the leading run of the prompt's blocks that it holds, takes in the whole
 * prompt, and is then down to its capacity again, tails of chains before their heads. Nothing else takes room: no running
 * sequence, no output. docs/cache-sim.md says what follows from that.
 */
#ifndef IMPMEM_COMMAND_SIM_CACHE_H
#define IMPMEM_COMMAND_SIM_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "trace.h"

#define SIM_NONE UINT32_MAX

/* A trace with its blocks numbered from 0, so that policies can use arrays. Slot s is the block at trace->ids[s]. */
typedef struct sim_workload {
    const trace *trace;   /* must outlive the workload */
    uint32_t n_requests;  /* at most SIM_NONE - 1 */
    uint32_t n_slots;     /* at most SIM_NONE - 1 */
    uint32_t n_blocks;    /* distinct ones */
    uint32_t *block;      /* per slot */
    uint32_t *next_use;   /* per slot: the next request whose prompt holds the block, or SIM_NONE */
    uint32_t n_unchained; /* slots whose block follows another block than at its first appearance: 0 for a real trace of
                              prefixes, in which an id stands for a block and all that is before it */
} sim_workload;

IMPMEM_NODISCARD impmem_status sim_workload_open(const trace *t, sim_workload *out, impmem_error *why);
void sim_workload_close(sim_workload *workload); /* leaves it zeroed */

typedef struct sim_policy {
    const char *name;
    const char *summary;
    /* An empty cache for `capacity_blocks` > 0 blocks. */
    impmem_status (*open)(const sim_workload *workload, uint64_t capacity_blocks, void **out);
    /* Requests come in order, each once. *out_hits: the leading run of the prompt's blocks that were held before. */
    impmem_status (*serve)(void *cache, uint32_t request, uint32_t *out_hits);
    void (*close)(void *cache);
} sim_policy;

/* The exact least recently used block goes first. A prompt is touched tail first, so that its head is the most recent. */
extern const sim_policy sim_policy_lru;
/* The block whose next use is farthest in the future goes first; of one prompt's, the tail. No policy does better on a
 * trace without unchained blocks. */
extern const sim_policy sim_policy_bound;

/* The library's own prefix cache; where no block is unchained it hits what lru hits. */
extern const sim_policy sim_policy_impmem;

/* Every policy that --policy takes; NULL behind the last. */
const sim_policy *sim_policy_at(size_t i);
const sim_policy *sim_policy_named(const char *name); /* NULL: there is none */

IMPMEM_NODISCARD impmem_status sim_cache_run(const sim_policy *policy, const sim_workload *workload,
                                             uint64_t capacity_blocks, uint64_t *out_hits);

#endif
