/* simulate_load.c - an hour of made-up requests, in whole numbers only, so that it is the same on every machine.
 *
 * Lengths are drawn from quantiles of a published trace: Azure LLM inference trace 2023, conversation (AzurePublicDataset; Patel
 * et al., ISCA 2024), 19,366 requests. Between two given quantiles a length grows linearly. Not published and chosen here: when
 * requests come (uniformly over the hour, which is what a Poisson process with n arrivals looks like), how often one is a further
 * turn, and the system prompts.
 */
#include <stdlib.h>
#include <string.h>

#include "simulate.h"

enum {
    BLOCK_TOKENS = 128,
    N_SYSTEM_PROMPTS = 4,
    SYSTEM_ID_STRIDE = 64, /* ids of a system prompt's blocks */
    FIRST_OWN_ID = N_SYSTEM_PROMPTS * SYSTEM_ID_STRIDE,
    RECENT = 64,              /* a further turn belongs to one of so many requests before it */
    USER_TOKENS = 70,         /* of a further turn: the mean of LMSYS-Chat-1M (Zheng et al., ICLR 2024) */
    LONGEST_PROMPT = 1 << 14, /* a conversation that would be longer is over */
    N_DECILES = 11
};

#define HOUR_NS (UINT64_C(3600) * 1000000000u)

static const uint32_t prompt_decile[N_DECILES] = {2, 207, 387, 403, 703, 1020, 1071, 1130, 1315, 2735, 14050};
static const uint32_t answer_decile[N_DECILES] = {7, 54, 77, 91, 103, 129, 177, 384, 400, 424, 1000};
static const uint32_t system_blocks[N_SYSTEM_PROMPTS] = {5, 4, 9, 12};
static const uint32_t system_weight[N_SYSTEM_PROMPTS] = {8, 4, 2, 1};

/* SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). */
static uint64_t draw(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* From 0 to n - 1. n is far below 2^32, so the bias of the remainder is below 2^-32. */
static uint32_t draw_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)(draw(state) % n);
}

static uint32_t draw_length(uint64_t *state, const uint32_t *decile)
{
    uint32_t at = draw_below(state, N_DECILES - 1);
    uint64_t within = draw(state) >> 48; /* of 2^16 */
    return decile[at] + (uint32_t)(((uint64_t)(decile[at + 1] - decile[at]) * within) >> 16);
}

static uint32_t draw_system_prompt(uint64_t *state)
{
    uint32_t all = 0;
    for (uint32_t s = 0; s < N_SYSTEM_PROMPTS; s++) all += system_weight[s];
    uint32_t at = draw_below(state, all);
    uint32_t s = 0;
    while (at >= system_weight[s]) at -= system_weight[s++];
    return s;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

typedef struct load_maker {
    trace *t;
    uint64_t state;
    uint64_t next_id;
} load_maker;

/* Ids from the request's first up to its last whole block: `shared` are there already, the rest is new text. */
static void finish_ids(load_maker *m, trace_request *r, uint32_t shared)
{
    r->n_ids = r->input_tokens / BLOCK_TOKENS;
    for (uint32_t i = shared; i < r->n_ids; i++) m->t->ids[r->first_id + i] = m->next_id++;
    m->t->n_ids = r->first_id + r->n_ids;
}

/* The prompt so far, the answer, and what the user writes next. False: the conversation is over. */
static bool continue_conversation(load_maker *m, uint64_t number, trace_request *r)
{
    uint32_t back = 1 + draw_below(&m->state, RECENT);
    if (back > number) return false;
    const trace_request *before = &m->t->requests[number - back];
    uint32_t tokens = before->input_tokens + before->output_tokens + USER_TOKENS;
    if (tokens > LONGEST_PROMPT) return false;
    r->input_tokens = tokens;
    memcpy(m->t->ids + r->first_id, m->t->ids + before->first_id, before->n_ids * sizeof *m->t->ids);
    finish_ids(m, r, before->n_ids);
    return true;
}

static void begin_conversation(load_maker *m, trace_request *r)
{
    uint32_t s = draw_system_prompt(&m->state);
    r->input_tokens = draw_length(&m->state, prompt_decile);
    uint32_t whole = r->input_tokens / BLOCK_TOKENS;
    uint32_t shared = whole < system_blocks[s] ? whole : system_blocks[s];
    for (uint32_t i = 0; i < shared; i++) m->t->ids[r->first_id + i] = (uint64_t)s * SYSTEM_ID_STRIDE + i;
    finish_ids(m, r, shared);
}

static bool make_arrivals(load_maker *m, uint64_t n)
{
    uint64_t *arrival = malloc((size_t)n * sizeof *arrival);
    if (!arrival) return false;
    for (uint64_t i = 0; i < n; i++) arrival[i] = draw(&m->state) % HOUR_NS;
    qsort(arrival, (size_t)n, sizeof *arrival, ascending);
    for (uint64_t i = 0; i < n; i++) m->t->requests[i].time_ns = arrival[i];
    free(arrival);
    return true;
}

impmem_status simulate_load_make(uint64_t n, uint64_t seed, trace *out)
{
    trace t = {.format = TRACE_MOONCAKE, .block_tokens = BLOCK_TOKENS, .n_requests = n};
    load_maker m = {.t = &t, .state = seed, .next_id = FIRST_OWN_ID};
    t.requests = calloc((size_t)n, sizeof *t.requests);
    t.ids = malloc((size_t)n * (LONGEST_PROMPT / BLOCK_TOKENS) * sizeof *t.ids);
    if (!t.requests || !t.ids || !make_arrivals(&m, n)) {
        trace_free(&t);
        return IMPMEM_ERR_OUT_OF_HOST_MEMORY;
    }
    for (uint64_t i = 0; i < n; i++) {
        trace_request *r = &t.requests[i];
        r->first_id = t.n_ids;
        bool further = draw(&m.state) >> 63;
        if (!further || !continue_conversation(&m, i, r)) begin_conversation(&m, r);
        r->output_tokens = draw_length(&m.state, answer_decile);
        t.input_tokens += r->input_tokens;
        t.output_tokens += r->output_tokens;
    }
    *out = t;
    return IMPMEM_OK;
}
