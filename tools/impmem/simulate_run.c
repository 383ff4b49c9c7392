/* simulate_run.c - continuous batching on a virtual clock: arrivals, queue, admission, steps, release.
 *
 * A step is what an engine does in one forward pass: a chunk of the prompts that are not computed yet, oldest first, and one
 * token of every sequence whose prompt is. Between steps arrivals are seen, and requests are admitted in order.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "simulate.h"

enum { WALKS = 8 }; /* times that all tables are walked on the way */

#define LAST_NS (UINT64_C(1) << 62)

/* A prompt's tokens, for as long as they must be looked up or published; reused by later prompts. */
typedef struct prompt_buffer {
    uint32_t *tokens;
    uint64_t capacity;
    struct prompt_buffer *next; /* in the list of free ones */
} prompt_buffer;

typedef struct runner {
    impmem_sequence sequence;
    uint64_t request;
    uint64_t arrival_ns;
    prompt_buffer *prompt; /* NULL once the whole prompt is computed */
    uint32_t prompt_tokens;
    uint32_t written;   /* prompt tokens in the sequence, hits included */
    uint32_t published; /* of those, tokens of whole blocks that others can hit */
    uint32_t left;      /* tokens to be generated yet */
    bool in_step;
} runner;

typedef struct simulation {
    simulate_world *world;
    const simulate_settings *settings;
    simulate_result *result;
    runner *running; /* in order of admission; max_batch of them */
    uint32_t n_running;
    uint64_t next_arrival;
    uint64_t *queue; /* requests, each once: [queue_head, queue_tail) wait */
    uint64_t queue_head, queue_tail;
    prompt_buffer *head_prompt; /* of the request at the head, when it was asked for already */
    prompt_buffer *free_prompts;
    bool blocked; /* the head did not fit, and nothing has changed since */
    uint64_t *wait_ns, *first_ns;
    uint64_t n_walks;
    const char *failed_step; /* the run is over when set */
    impmem_error why;
} simulation;

static bool stop_at(simulation *s, const char *step, impmem_status st)
{
    if (!s->failed_step) {
        s->failed_step = step;
        if (!s->why.status) s->why.status = st;
    }
    return false;
}

/* ---- prompts ------------------------------------------------------------------------------------------------------------- */

static void drop_prompt(simulation *s, prompt_buffer *buffer)
{
    if (!buffer) return;
    buffer->next = s->free_prompts;
    s->free_prompts = buffer;
}

/* The first n tokens of a request's prompt; NULL without memory. */
static prompt_buffer *write_prompt(simulation *s, uint64_t request, uint32_t n)
{
    prompt_buffer *buffer = s->free_prompts;
    if (buffer) s->free_prompts = buffer->next;
    else buffer = calloc(1, sizeof *buffer);
    if (!buffer) return NULL;
    if (buffer->capacity < n) {
        free(buffer->tokens); /* what it held is not wanted any more */
        buffer->tokens = malloc((size_t)n * sizeof *buffer->tokens);
        buffer->capacity = buffer->tokens ? n : 0;
    }
    if (!buffer->tokens) {
        drop_prompt(s, buffer);
        return NULL;
    }
    trace_prompt_tokens(s->settings->load, request, buffer->tokens, n);
    return buffer;
}

/* ---- arrivals and admission ---------------------------------------------------------------------------------------------- */

static uint64_t arrival_ns(const simulation *s, uint64_t request)
{
    uint64_t t = s->settings->load->requests[request].time_ns;
    uint64_t speed = s->settings->speed_thousandths;
    if (t / speed >= LAST_NS / 1000) return LAST_NS;
    return t / speed * 1000 + t % speed * 1000 / speed;
}

static uint64_t answered(const simulation *s)
{
    const simulate_result *r = s->result;
    return r->served + r->refused_never + r->refused_queue + r->refused_empty;
}

static void leave_queue(simulation *s)
{
    s->queue_head++;
    s->head_prompt = NULL;
    s->blocked = false;
}

/* True when the request may wait for its turn: what can never be served is told so when it comes, and stands in nobody's way. */
static bool is_welcome(simulation *s, const trace_request *r)
{
    if (r->input_tokens == 0) {
        s->result->refused_empty++;
        return false;
    }
    impmem_kv_admission admission;
    impmem_status st = impmem_engine_servable(s->world->engine, r->input_tokens, r->output_tokens, &admission, &s->why);
    if (st && st != IMPMEM_ERR_NEVER_FITS) return stop_at(s, "looking at a request", st);
    s->result->most_tokens = admission.most_tokens;
    if (!st) return true;
    s->why.status = IMPMEM_OK; /* the refusal is an answer */
    uint64_t tokens = (uint64_t)r->input_tokens + r->output_tokens;
    s->result->refused_never++;
    if (tokens > s->result->largest_never_tokens) s->result->largest_never_tokens = tokens;
    return false;
}

static void seat(simulation *s, uint64_t request, const trace_request *r, impmem_sequence sequence, uint32_t cached)
{
    uint64_t arrival = arrival_ns(s, request);
    s->running[s->n_running++] = (runner){.sequence = sequence,
                                          .request = request,
                                          .arrival_ns = arrival,
                                          .prompt = s->head_prompt,
                                          .prompt_tokens = r->input_tokens,
                                          .written = cached,
                                          .published = cached,
                                          .left = r->output_tokens};
    s->wait_ns[s->result->wait.n++] = s->world->now_ns - arrival;
    if (s->n_running > s->result->peak_running) s->result->peak_running = s->n_running;
    leave_queue(s);
}

/* Asks for the request at the head of the queue. False: it stays there, or the run is over. */
static bool admit_head(simulation *s)
{
    uint64_t number = s->queue[s->queue_head];
    const trace_request *r = &s->settings->load->requests[number];
    if (!s->head_prompt) s->head_prompt = write_prompt(s, number, r->input_tokens);
    if (!s->head_prompt) return stop_at(s, "writing a prompt", IMPMEM_ERR_OUT_OF_HOST_MEMORY);
    impmem_kv_request request = IMPMEM_KV_REQUEST_INIT;
    request.tokens = s->head_prompt->tokens;
    request.n_tokens = r->input_tokens;
    request.max_new_tokens = r->output_tokens;
    request.owner = number;
    impmem_sequence sequence;
    impmem_kv_admission admission;
    impmem_status st = impmem_engine_admit(s->world->engine, &request, &sequence, &admission, &s->why);
    if (st && st != IMPMEM_ERR_CAPACITY) return stop_at(s, "admitting a request", st);
    if (st) {
        s->why.status = IMPMEM_OK; /* the refusal is an answer */
        if (!s->n_running) return stop_at(s, "admitting a request into an idle engine", st);
        s->blocked = true;
        return false;
    }
    seat(s, number, r, sequence, admission.cached_tokens);
    return true;
}

/* In order: nobody overtakes the head. It is asked for again only when something has changed that could help it: a sequence has
 * left, or blocks of its prompt have been published. */
static void admit_waiting(simulation *s)
{
    while (s->queue_head < s->queue_tail && s->n_running < s->world->plan->max_batch && !s->blocked) {
        bool asked_before = s->head_prompt != NULL;
        if (admit_head(s)) continue;
        s->result->waited_blocks += s->blocked && !asked_before;
        return;
    }
}

/* With no room at all the newest is the head itself, which may have been asked for. */
static void refuse_newest(simulation *s)
{
    s->queue_tail--;
    s->result->refused_queue++;
    if (s->queue_head < s->queue_tail) return;
    s->result->waited_blocks -= s->blocked;
    s->blocked = false;
    drop_prompt(s, s->head_prompt);
    s->head_prompt = NULL;
}

static void see_arrivals(simulation *s)
{
    while (s->next_arrival < s->settings->load->n_requests && arrival_ns(s, s->next_arrival) <= s->world->now_ns &&
           !s->failed_step) {
        uint64_t number = s->next_arrival++;
        if (!is_welcome(s, &s->settings->load->requests[number])) continue;
        s->queue[s->queue_tail++] = number;
        admit_waiting(s);
        uint64_t waiting = s->queue_tail - s->queue_head;
        if (waiting > s->settings->queue_limit) {
            refuse_newest(s);
            waiting--;
        }
        if (waiting > s->result->queue_high_water) s->result->queue_high_water = waiting;
    }
}

/* ---- steps --------------------------------------------------------------------------------------------------------------- */

/* The forward pass takes its whole scratch, and gives it back. */
static bool use_scratch(simulation *s)
{
    impmem_scratch *scratch = impmem_engine_scratch(s->world->engine);
    if (!scratch || !s->world->scratch_bytes) return true;
    impmem_scratch_mark mark = impmem_scratch_push(scratch);
    impmem_scratch_span span;
    impmem_status st = impmem_scratch_take(scratch, s->world->scratch_bytes, 0, &span);
    st = impmem_first_error(st, impmem_scratch_pop(scratch, mark));
    return st ? stop_at(s, "using scratch", st) : true;
}

/* Room in the KV for what this step writes. */
static bool begin_step(simulation *s, uint64_t *out_cost_ns)
{
    uint32_t budget = s->world->plan->prefill_tokens;
    uint64_t sequences = 0;
    for (uint32_t i = 0; i < s->n_running; i++) {
        runner *r = &s->running[i];
        uint32_t missing = r->prompt_tokens - r->written;
        uint32_t n = missing < budget ? missing : budget;
        if (!missing) n = 1;
        else {
            budget -= n;
            r->written += n;
        }
        r->in_step = n > 0;
        if (!n) continue;
        sequences++;
        impmem_status st = impmem_kv_append(s->world->kv, r->sequence, n);
        if (st) return stop_at(s, "appending to a sequence", st);
    }
    uint64_t prefilled = s->world->plan->prefill_tokens - budget;
    s->result->prefill_tokens += prefilled;
    *out_cost_ns = s->settings->base_ns + s->settings->prefill_ns * prefilled + s->settings->sequence_ns * sequences;
    return true;
}

static bool finish(simulation *s, runner *r)
{
    impmem_status st = impmem_engine_release(s->world->engine, &r->sequence);
    if (st) return stop_at(s, "releasing a sequence", st);
    s->result->served++;
    s->result->prompt_tokens += r->prompt_tokens;
    s->blocked = false;
    return true;
}

/* What is new of the prompt becomes something that others can hit. A chain whose beginning was evicted begins again. */
static bool publish(simulation *s, runner *r)
{
    impmem_kv *kv = s->world->kv;
    const uint32_t *tokens = r->prompt->tokens;
    impmem_status st = impmem_kv_publish_from(kv, r->sequence, r->published, tokens + r->published, r->written);
    if (st == IMPMEM_ERR_NOT_FOUND) st = impmem_kv_publish(kv, r->sequence, tokens, r->written);
    if (st) return stop_at(s, "publishing a prompt", st);
    r->published = r->written - r->written % s->world->plan->block_tokens;
    s->blocked = false;
    return true;
}

/* What the step wrote is published, and its logits give one token to each sequence whose prompt is complete. */
static bool end_sequence_step(simulation *s, runner *r, bool *out_done)
{
    if (r->prompt) {
        if (!publish(s, r)) return false;
        if (r->written < r->prompt_tokens) return true;
        drop_prompt(s, r->prompt);
        r->prompt = NULL;
        if (r->left) s->first_ns[s->result->first_token.n++] = s->world->now_ns - r->arrival_ns;
    }
    if (r->left) {
        r->left--;
        s->result->generated_tokens++;
    }
    *out_done = r->left == 0;
    return *out_done ? finish(s, r) : true;
}

static void note_peaks(simulation *s)
{
    impmem_kv_stats stats;
    impmem_kv_query(s->world->kv, &stats);
    if (stats.sequence_blocks > s->result->peak_sequence_blocks) s->result->peak_sequence_blocks = stats.sequence_blocks;
    if (stats.cached_blocks > s->result->peak_cached_blocks) s->result->peak_cached_blocks = stats.cached_blocks;
}

static void run_step(simulation *s)
{
    uint64_t cost_ns = 0;
    if (!use_scratch(s) || !begin_step(s, &cost_ns)) return;
    note_peaks(s);
    if (cost_ns >= LAST_NS - s->world->now_ns) {
        stop_at(s, "moving the clock on", IMPMEM_ERR_OVERFLOW);
        return;
    }
    s->world->now_ns += cost_ns;
    s->result->busy_ns += cost_ns;
    s->result->steps++;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->n_running; i++) {
        bool done = false;
        runner *r = &s->running[i];
        if (r->in_step && !s->failed_step) end_sequence_step(s, r, &done);
        if (!done) s->running[kept++] = *r;
    }
    s->n_running = kept;
    note_peaks(s);
    impmem_kv_publish_stats(s->world->kv);
}

/* All tables, every eighth of the way: sequences live then. */
static void walk_on_the_way(simulation *s)
{
    uint64_t due = s->settings->load->n_requests / WALKS * (s->n_walks + 1);
    if (due == 0 || s->n_walks + 1 >= WALKS || answered(s) < due) return;
    s->n_walks++;
    simulate_walk(s->world, s->result);
}

static void serve(simulation *s)
{
    const trace *load = s->settings->load;
    s->result->first_arrival_ns = load->n_requests ? arrival_ns(s, 0) : 0;
    while (!s->failed_step) {
        see_arrivals(s);
        admit_waiting(s);
        if (s->failed_step) break;
        if (s->n_running) run_step(s);
        else if (s->next_arrival < load->n_requests) s->world->now_ns = arrival_ns(s, s->next_arrival);
        else break;
        if (s->world->now_ns >= LAST_NS) stop_at(s, "moving the clock on", IMPMEM_ERR_OVERFLOW);
        walk_on_the_way(s);
        if (s->settings->bar) progress_show(s->settings->bar, answered(s));
    }
    s->result->end_ns = s->world->now_ns;
    impmem_status st = impmem_engine_drain(s->world->engine);
    if (st) stop_at(s, "draining", st);
}

/* ---- from opening to the verdicts ---------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The smallest value that at least `percent` of the values don't exceed. */
static uint64_t nearest_rank(const uint64_t *sorted, uint64_t n, uint64_t percent)
{
    return sorted[(n * percent + 99) / 100 - 1];
}

static void summarise(uint64_t *value, simulate_times *out)
{
    if (!out->n) return;
    qsort(value, (size_t)out->n, sizeof *value, ascending);
    /* Each below 2^62, so the sum is kept as a mean and a remainder. */
    uint64_t mean = 0, rest = 0;
    for (uint64_t i = 0; i < out->n; i++) {
        mean += value[i] / out->n;
        rest += value[i] % out->n;
        mean += rest / out->n;
        rest %= out->n;
    }
    out->mean_ns = mean;
    out->p50_ns = nearest_rank(value, out->n, 50);
    out->p99_ns = nearest_rank(value, out->n, 99);
    out->max_ns = value[out->n - 1];
}

/* What a run that stopped in the middle has left. */
static void abandon(simulation *s)
{
    for (uint32_t i = 0; i < s->n_running; i++) {
        drop_prompt(s, s->running[i].prompt);
        if (impmem_engine_release(s->world->engine, &s->running[i].sequence))
            simulate_fail(s->result, SIMULATE_CHECK_RUN, "a sequence could not be released");
    }
    s->n_running = 0;
    drop_prompt(s, s->head_prompt);
    s->head_prompt = NULL;
    while (s->free_prompts) {
        prompt_buffer *buffer = s->free_prompts;
        s->free_prompts = buffer->next;
        free(buffer->tokens);
        free(buffer);
    }
}

void simulate_run(simulate_world *world, const simulate_settings *settings, simulate_result *result)
{
    uint64_t n = settings->load->n_requests;
    size_t items = n ? (size_t)n : 1;
    memset(result, 0, sizeof *result);
    result->requests = n;
    simulation s = {.world = world, .settings = settings, .result = result, .why = IMPMEM_ERROR_INIT};
    s.running = calloc(world->plan->max_batch, sizeof *s.running);
    s.queue = malloc(items * sizeof *s.queue);
    s.wait_ns = malloc(items * sizeof *s.wait_ns);
    s.first_ns = malloc(items * sizeof *s.first_ns);
    if (s.running && s.queue && s.wait_ns && s.first_ns) serve(&s);
    else stop_at(&s, "making tables", IMPMEM_ERR_OUT_OF_HOST_MEMORY);
    if (s.failed_step)
        simulate_fail(result, SIMULATE_CHECK_RUN, "stopped at %s: %s", s.failed_step,
                      s.why.message[0] ? s.why.message : impmem_status_message(s.why.status));
    abandon(&s);
    result->walks = s.n_walks;
    if (answered(&s) != n)
        simulate_fail(result, SIMULATE_CHECK_ANSWERED, "%" PRIu64 " of %" PRIu64 " requests", answered(&s), n);
    if (s.wait_ns) summarise(s.wait_ns, &result->wait);
    if (s.first_ns) summarise(s.first_ns, &result->first_token);
    if (settings->plant) settings->plant(settings->plant_context, world);
    simulate_judge(world, result);
    free(s.running);
    free(s.queue);
    free(s.wait_ns);
    free(s.first_ns);
}
