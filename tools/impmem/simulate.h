/* simulate.h - an engine that serves a load on a virtual clock, with a planned model's memory under it.
 *
 *   simulate_world world;
 *   const char *step = simulate_world_open(&plan, &world, &why);      NULL, or what failed
 *   simulate_run(&world, &settings, result);                          never fails itself: what went wrong is in *result
 *   simulate_world_close(&world, result);
 *
 * What the memory does is real: the ledger, the engine, its KV manager and prefix cache are the library's, on devices that hand
 * out addresses only. What costs time is not: a step's length is a formula. docs/simulate.md tells both.
 */
#ifndef IMPMEM_COMMAND_SIMULATE_H
#define IMPMEM_COMMAND_SIMULATE_H

#include "plan_devices.h"
#include "progress.h"
#include "trace.h"

/* ---- the load ------------------------------------------------------------------------------------------------------------ */

/* An hour of n made-up requests: the same n and seed give the same load on every machine. OUT_OF_HOST_MEMORY. To be freed with
 * trace_free. */
IMPMEM_NODISCARD impmem_status simulate_load_make(uint64_t n, uint64_t seed, trace *out);

/* ---- the engine ------------------------------------------------------------------------------------------------------------ */

typedef struct simulate_world {
    const impmem_plan *plan;
    plan_devices devices;
    impmem_engine *engine;
    impmem_kv *kv; /* the engine's */
    uint64_t now_ns;
    uint64_t scratch_bytes; /* of the plan's scratch lines, without rounding */
    /* After loading, before the first request: what the pools and the journal must come back to. */
    uint64_t base_live_blocks[IMPMEM_PLAN_MAX_KV_GROUPS];
    uint64_t base_live_slots[IMPMEM_PLAN_MAX_STATE_POOLS];
} simulate_world;

/* Loads: opens the engine, takes every line of the arenas whole, begins to serve. NULL, or the step that failed, with `why`
 * filled; the world is then to be closed all the same. */
const char *simulate_world_open(const impmem_plan *plan, simulate_world *out, impmem_error *why);

/* ---- the run --------------------------------------------------------------------------------------------------------------- */

typedef struct simulate_settings {
    const trace *load;
    uint64_t speed_thousandths; /* 1000: arrivals as in the load; 2000: twice as fast */
    uint64_t base_ns; /* a step costs base + prefill x prompt tokens computed in it + sequence x sequences in it */
    uint64_t prefill_ns;
    uint64_t sequence_ns;
    uint64_t queue_limit; /* most requests that wait; UINT64_MAX: no limit */
    progress *bar;        /* NULL: none */
    /* Only tests set it: spoils something between the last request and the self-checks. */
    void (*plant)(void *context, simulate_world *world);
    void *plant_context;
} simulate_settings;

/* X(NAME, key, text): what must be true in the end. */
#define SIMULATE_CHECK_MAP(X)                                                                                              \
    X(RUN, "run", "the load ran to its end")                                                                               \
    X(ANSWERED, "answered", "every request was served or refused, and the engine is idle")                                 \
    X(CONSERVATION, "conservation", "free + live = total in every pool, cached + in sequences = live")                     \
    X(BASELINE, "baseline", "blocks of sequences are back to what they were after loading")                                \
    X(UNPLANNED, "unplanned", "no byte is on no line or above its line")                                                   \
    X(PEAKS, "peaks", "no device or pinned line was ever above its plan")                                                  \
    X(JOURNAL, "journal", "the journal's balance is what is committed")                                                    \
    X(SERVING, "serving", "nothing was acquired while serving")                                                            \
    X(KV_TABLES, "kv_tables", "sequences, prefix cache and promises agree, also in the middle of the run")                 \
    X(POOL_TABLES, "pool_tables", "references and free lists of every pool agree, also in the middle of the run")          \
    X(CLOSED, "closed", "the engine closed and left nothing")

typedef enum simulate_check {
#define SIMULATE_CHECK_ENUM(name, key, text) SIMULATE_CHECK_##name,
    SIMULATE_CHECK_MAP(SIMULATE_CHECK_ENUM)
#undef SIMULATE_CHECK_ENUM
        SIMULATE_N_CHECKS
} simulate_check;

const char *simulate_check_key(simulate_check check);
const char *simulate_check_text(simulate_check check);

typedef struct simulate_verdict {
    bool failed;
    char detail[192]; /* of the first failure: what was found */
} simulate_verdict;

/* Of times: nearest rank, so every figure is one that happened. */
typedef struct simulate_times {
    uint64_t n;
    uint64_t mean_ns, p50_ns, p99_ns, max_ns;
} simulate_times;

typedef struct simulate_line {
    uint64_t planned_bytes, committed_peak_bytes, live_peak_bytes;
} simulate_line;

typedef struct simulate_pool {
    uint64_t total_blocks, live_peak_blocks;
} simulate_pool;

typedef struct simulate_result {
    uint64_t requests;
    uint64_t served;
    uint64_t refused_never;        /* more than one sequence can ever hold */
    uint64_t refused_queue;        /* the queue was full */
    uint64_t refused_empty;        /* no prompt */
    uint64_t largest_never_tokens; /* prompt + answer of the largest request that can never fit */
    uint64_t most_tokens;          /* what one sequence can have; 0: no request was asked for */
    uint64_t queue_high_water;
    uint64_t waited_blocks; /* requests that stood first in the queue until blocks came free */
    uint64_t prompt_tokens; /* of served requests */
    uint64_t generated_tokens;
    uint64_t prefill_tokens; /* prompt tokens computed, hits left out */
    uint64_t steps;
    uint64_t peak_running;
    uint64_t first_arrival_ns, end_ns, busy_ns;
    simulate_times wait;                               /* from arrival to admission */
    simulate_times first_token;                        /* from arrival to the end of the step that finished the prompt */
    uint64_t peak_sequence_blocks, peak_cached_blocks; /* of group 0 */
    impmem_kv_stats kv;                                /* at the end */
    const char *no_reuse;                              /* why nothing can be hit; NULL: it can */
    simulate_pool pool[IMPMEM_PLAN_MAX_KV_GROUPS];
    simulate_line line[IMPMEM_PLAN_MAX_LINES];
    uint64_t serving_acquisitions[IMPMEM_N_TAGS];
    uint64_t serving_commits;
    uint64_t walks; /* times that all tables were walked in the middle of the run */
    simulate_verdict verdict[SIMULATE_N_CHECKS];
} simulate_result;

/* Serves the load, drains, fills *result except for the CLOSED verdict. */
void simulate_run(simulate_world *world, const simulate_settings *settings, simulate_result *result);
/* Closes everything, also of a half-open world, and judges CLOSED. */
void simulate_world_close(simulate_world *world, simulate_result *result);
bool simulate_good(const simulate_result *result); /* no verdict failed */

/* Marks the check as failed; the first detail stays. */
void simulate_fail(simulate_result *result, simulate_check check, const char *fmt, ...) IMPMEM_PRINTF(3, 4);
/* KV_TABLES and POOL_TABLES, at any time. */
void simulate_walk(const simulate_world *world, simulate_result *result);
/* Everything but RUN, ANSWERED' count of requests and CLOSED; after draining. Takes the figures of lines and pools too. */
void simulate_judge(const simulate_world *world, simulate_result *result);

/* ---- the answer ------------------------------------------------------------------------------------------------------------ */

typedef struct simulate_question {
    const simulate_settings *settings;
    const impmem_plan *plan;
    const char *load_name; /* the trace's path, or NULL for a made-up load */
    uint64_t seed;         /* of a made-up load */
    bool report;           /* with the table of tiers and lines */
} simulate_question;

void simulate_print_text(const simulate_question *question, const simulate_result *result);
IMPMEM_NODISCARD impmem_status simulate_print_json(const simulate_question *question, const simulate_result *result);

#endif
