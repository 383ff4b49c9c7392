/* trace.c - a whole trace in arrays, and the tokens that its block ids stand for. */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

#include "core/internal.h"

typedef struct trace_growth {
    uint64_t requests;
    uint64_t ids;
} trace_growth;

/* Room for `need` items; false when there is no memory. */
static bool grow(void **items, uint64_t *capacity, uint64_t need, size_t item_bytes)
{
    if (need <= *capacity) return true;
    uint64_t next = *capacity > UINT64_MAX / 2 ? UINT64_MAX : 2 * *capacity;
    if (next < need) next = need;
    if (next < 1024) next = 1024;
    if (next > SIZE_MAX / item_bytes) return false;
    void *moved = realloc(*items, (size_t)next * item_bytes);
    if (!moved) return false;
    *items = moved;
    *capacity = next;
    return true;
}

static bool add(trace *t, trace_growth *capacity, const trace_record *record)
{
    void *requests = t->requests;
    bool good = grow(&requests, &capacity->requests, t->n_requests + 1, sizeof *t->requests);
    t->requests = requests;
    void *ids = t->ids;
    good = good && grow(&ids, &capacity->ids, t->n_ids + record->n_ids, sizeof *t->ids);
    t->ids = ids;
    if (!good) return false;
    t->requests[t->n_requests++] = (trace_request){
        .time_ns = record->time_ns,
        .first_id = t->n_ids,
        .n_ids = record->n_ids,
        .input_tokens = record->input_tokens,
        .output_tokens = record->output_tokens,
    };
    if (record->n_ids) memcpy(t->ids + t->n_ids, record->ids, record->n_ids * sizeof *t->ids);
    t->n_ids += record->n_ids;
    t->input_tokens += record->input_tokens;
    t->output_tokens += record->output_tokens;
    return true;
}

impmem_status trace_load(const char *path, uint32_t block_tokens, trace *out, impmem_error *why)
{
    trace_reader *reader = NULL;
    impmem_status st = trace_reader_open(path, block_tokens, &reader, why);
    if (st) return st;
    trace t = {.format = trace_reader_format(reader),
               .block_tokens = block_tokens ? block_tokens : TRACE_DEFAULT_BLOCK_TOKENS};
    trace_growth capacity = {0, 0};
    for (;;) {
        trace_record record;
        bool more = false;
        st = trace_reader_next(reader, &record, &more, why);
        if (st || !more) break;
        if (!add(&t, &capacity, &record)) {
            st = impmem__error_set(why, IMPMEM_ERR_OUT_OF_HOST_MEMORY, path, "out of host memory");
            break;
        }
    }
    trace_reader_close(reader);
    if (st) trace_free(&t);
    else *out = t;
    return st;
}

void trace_free(trace *t)
{
    free(t->requests);
    free(t->ids);
    memset(t, 0, sizeof *t);
}

/* A bijection of 64-bit words in which every bit of the input reaches every bit of the output: SplitMix64's finalizer
 * (Steele, Lea and Flood, OOPSLA 2014, with Stafford's constants). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint32_t trace_block_token(uint64_t id, uint32_t j)
{
    if (j == 0) return (uint32_t)id;
    if (j == 1) return (uint32_t)(id >> 32);
    return (uint32_t)(mix(mix(id) + j) >> 32);
}

void trace_prompt_tokens(const trace *t, uint64_t request, uint32_t *out, uint32_t n)
{
    const trace_request *r = &t->requests[request];
    uint32_t block = 0, j = 0;
    uint64_t id = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (j == 0) id = block < r->n_ids ? t->ids[r->first_id + block] : TRACE_OWN_ID | request;
        out[i] = trace_block_token(id, j);
        if (++j == t->block_tokens) {
            j = 0;
            block++;
        }
    }
}
