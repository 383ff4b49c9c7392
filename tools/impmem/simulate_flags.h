/* simulate_flags.h - the flags of `impmem simulate`: those of a plan, and those of the load. */
#ifndef IMPMEM_COMMAND_SIMULATE_FLAGS_H
#define IMPMEM_COMMAND_SIMULATE_FLAGS_H

#include "plan_verb.h"

/* The cost of a step for a dense model of 8 x 10^9 parameters at 16 bits on one H100 SXM (data sheet: 3.35 TB/s, 989 TFLOP/s
 * dense). Base: reading 16.1 GB of weights takes 4.8 ms, and 1.2 ms are added for launches and sampling. Prefill: 2 x 8.03 x
 * 10^9 FLOP a token at half of the peak, 32.5 us. Sequence: reading the KV of 2048 tokens of 131,072 bytes takes 80 us. */
enum { SIMULATE_BASE_NS = 6000000, SIMULATE_PREFILL_NS = 33000, SIMULATE_SEQUENCE_NS = 80000 };

typedef struct simulate_flags {
    plan_flags plan;
    const char *trace_path; /* NULL: a made-up load */
    uint64_t requests;      /* of a made-up load; 0: not given */
    uint64_t seed;
    uint32_t trace_block_tokens; /* 0: the trace's usual size */
    uint32_t kv_initial_percent; /* 0: not given */
    uint64_t speed_thousandths;
    uint64_t base_ns, prefill_ns, sequence_ns;
    uint64_t queue_limit; /* UINT64_MAX: none */
    bool has_seed;
    bool report;
} simulate_flags;

/* Leaves with COMMAND_USAGE when something is wrong. */
void simulate_flags_parse(int argc, char **argv, simulate_flags *out);

/* "1", "2.5", "0.001": up to three decimals, in thousandths, from `low` to `high` thousandths. */
uint64_t simulate_thousandths(const char *flag, const char *text, uint64_t low, uint64_t high);

#endif
