/* sim_cache.c - numbers a trace's blocks, finds their next uses, and drives a policy through it. */
#include "sim_cache.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/internal.h"

static const sim_policy *const policies[] = {&sim_policy_lru, &sim_policy_bound, &sim_policy_impmem, NULL};

const sim_policy *sim_policy_at(size_t i)
{
    return policies[i];
}

const sim_policy *sim_policy_named(const char *name)
{
    for (size_t i = 0; policies[i]; i++)
        if (strcmp(policies[i]->name, name) == 0) return policies[i];
    return NULL;
}

/* Id to number: open addressing, never more than half full. */
typedef struct id_table {
    uint64_t *id;
    uint32_t *number; /* SIM_NONE: the place is free */
    uint64_t mask;
} id_table;

static bool table_open(id_table *table, uint32_t n_slots)
{
    uint64_t places = 16;
    while (places < 2 * (uint64_t)n_slots) places *= 2;
    table->mask = places - 1;
    table->id = malloc((size_t)places * sizeof *table->id);
    table->number = malloc((size_t)places * sizeof *table->number);
    if (!table->id || !table->number) return false;
    memset(table->number, 0xff, (size_t)places * sizeof *table->number);
    return true;
}

static void table_close(id_table *table)
{
    free(table->id);
    free(table->number);
}

/* The number of `id`; `next`, when it's new. */
static uint32_t table_number(id_table *table, uint64_t id, uint32_t next)
{
    uint64_t place = ((id ^ (id >> 32)) * UINT64_C(0x9e3779b97f4a7c15)) >> 20 & table->mask;
    while (table->number[place] != SIM_NONE && table->id[place] != id) place = (place + 1) & table->mask;
    if (table->number[place] == SIM_NONE) {
        table->id[place] = id;
        table->number[place] = next;
    }
    return table->number[place];
}

/* Sets block[], n_blocks and n_unchained. `before` has n_slots entries: the block before each block at its first
 * appearance. */
static void number_blocks(sim_workload *w, id_table *table, uint32_t *before)
{
    for (uint32_t r = 0; r < w->n_requests; r++) {
        uint32_t previous = SIM_NONE;
        uint32_t slot = (uint32_t)w->trace->requests[r].first_id;
        for (uint32_t end = slot + w->trace->requests[r].n_ids; slot < end; slot++) {
            uint32_t block = table_number(table, w->trace->ids[slot], w->n_blocks);
            if (block == w->n_blocks) {
                before[block] = previous;
                w->n_blocks++;
            }
            w->n_unchained += before[block] != previous;
            w->block[slot] = block;
            previous = block;
        }
    }
}

/* From the last request to the first. `next` has n_blocks entries: the nearest later request of each block. */
static void find_next_uses(sim_workload *w, uint32_t *next)
{
    memset(next, 0xff, (size_t)w->n_blocks * sizeof *next);
    for (uint32_t r = w->n_requests; r-- > 0;) {
        uint32_t first = (uint32_t)w->trace->requests[r].first_id;
        uint32_t end = first + w->trace->requests[r].n_ids;
        /* Two passes: a prompt that holds a block twice is no later use of itself. */
        for (uint32_t slot = first; slot < end; slot++) w->next_use[slot] = next[w->block[slot]];
        for (uint32_t slot = first; slot < end; slot++) next[w->block[slot]] = r;
    }
}

impmem_status sim_workload_open(const trace *t, sim_workload *out, impmem_error *why)
{
    if (t->n_requests >= SIM_NONE || t->n_ids >= SIM_NONE)
        return impmem__error_set(why, IMPMEM_ERR_TOO_LARGE, "",
                                 "found %" PRIu64 " requests with %" PRIu64 " blocks, expected fewer than %" PRIu32
                                 " of each",
                                 t->n_requests, t->n_ids, SIM_NONE);
    sim_workload w = {.trace = t, .n_requests = (uint32_t)t->n_requests, .n_slots = (uint32_t)t->n_ids};
    id_table table = {NULL, NULL, 0};
    size_t items = w.n_slots ? w.n_slots : 1;
    uint32_t *scratch = malloc(items * sizeof *scratch);
    w.block = malloc(items * sizeof *w.block);
    w.next_use = malloc(items * sizeof *w.next_use);
    bool good = scratch && w.block && w.next_use && table_open(&table, w.n_slots);
    if (good) {
        number_blocks(&w, &table, scratch);
        find_next_uses(&w, scratch);
        *out = w;
    } else {
        sim_workload_close(&w);
    }
    table_close(&table);
    free(scratch);
    return good ? IMPMEM_OK : impmem__error_set(why, IMPMEM_ERR_OUT_OF_HOST_MEMORY, "", "out of host memory");
}

void sim_workload_close(sim_workload *workload)
{
    free(workload->block);
    free(workload->next_use);
    memset(workload, 0, sizeof *workload);
}

impmem_status sim_cache_run(const sim_policy *policy, const sim_workload *workload, uint64_t capacity_blocks,
                            uint64_t *out_hits)
{
    void *cache = NULL;
    impmem_status st = policy->open(workload, capacity_blocks, &cache);
    if (st) return st;
    uint64_t total = 0;
    for (uint32_t r = 0; r < workload->n_requests && !st; r++) {
        uint32_t hits = 0;
        st = policy->serve(cache, r, &hits);
        total += hits;
    }
    policy->close(cache);
    if (!st) *out_hits = total;
    return st;
}
