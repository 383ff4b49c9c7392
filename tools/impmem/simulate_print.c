/* simulate_print.c - the answer of `impmem simulate` as text. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "impmem/bytes.h"
#include "simulate.h"

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0.0;
}

static double rate(uint64_t n, uint64_t ns)
{
    return ns ? (double)n * 1e9 / (double)ns : 0.0;
}

/* Text out of a path or a file may hold anything: one line stays one line. */
static void print_clean(const char *text)
{
    for (const char *c = text; *c; c++) {
        unsigned char byte = (unsigned char)*c;
        if (byte < 0x20 || byte == 0x7f) printf("\\x%02x", byte);
        else putchar(byte);
    }
}

/* "6000", "32.5": thousandths of a microsecond without idle zeros. */
static void print_us(uint64_t ns)
{
    printf("%" PRIu64, ns / 1000);
    unsigned rest = (unsigned)(ns % 1000);
    if (!rest) return;
    unsigned digits = 3;
    for (; rest % 10 == 0; rest /= 10) digits--;
    printf(".%0*u", (int)digits, rest);
}

static void print_question(const simulate_question *question)
{
    const simulate_settings *settings = question->settings;
    const impmem_plan *plan = question->plan;
    const trace *load = settings->load;
    printf("load         ");
    if (question->load_name) {
        print_clean(question->load_name);
        printf(": %s", trace_format_name(load->format));
    } else {
        printf("made up, seed %" PRIu64, question->seed);
    }
    printf(", %" PRIu64 " requests, %" PRIu64 " prompt and %" PRIu64 " answer tokens", load->n_requests, load->input_tokens,
           load->output_tokens);
    if (settings->speed_thousandths != 1000) printf(", %g times as fast", (double)settings->speed_thousandths / 1000.0);
    printf("\nengine       %" PRIu32 " sequences of %" PRIu32 " tokens, %" PRIu32
           " prompt tokens a step, blocks of %" PRIu32 " tokens",
           plan->max_batch, plan->max_seq_tokens, plan->prefill_tokens, plan->block_tokens);
    if (settings->queue_limit != UINT64_MAX) printf(", a queue of %" PRIu64, settings->queue_limit);
    printf("\nstep         ");
    print_us(settings->base_ns);
    printf(" us + ");
    print_us(settings->prefill_ns);
    printf(" us x prompt tokens + ");
    print_us(settings->sequence_ns);
    printf(" us x sequences\n\n");
}

static void print_times(const char *title, const simulate_times *t)
{
    printf("%-12s mean %.3f s, p50 %.3f s, p99 %.3f s, longest %.3f s\n", title, seconds(t->mean_ns), seconds(t->p50_ns),
           seconds(t->p99_ns), seconds(t->max_ns));
}

static void print_requests(const simulate_result *r)
{
    printf("requests     %" PRIu64 " served, %" PRIu64 " refused: %" PRIu64 " can never fit, %" PRIu64
           " queue full, %" PRIu64 " without a prompt\n",
           r->served, r->refused_never + r->refused_queue + r->refused_empty, r->refused_never, r->refused_queue,
           r->refused_empty);
    if (r->refused_never)
        printf("             the largest that can never fit has %" PRIu64 " tokens; one sequence can have %" PRIu64 "\n",
               r->largest_never_tokens, r->most_tokens);
    printf("queue        %" PRIu64 " at most; %" PRIu64 " requests waited for blocks; %" PRIu64 " sequences at once\n",
           r->queue_high_water, r->waited_blocks, r->peak_running);
    uint64_t duration = r->end_ns - r->first_arrival_ns;
    printf("tokens       %" PRIu64 " of prompts, %" PRIu64 " generated\n", r->prompt_tokens, r->generated_tokens);
    printf("time         %.3f s on the virtual clock, %" PRIu64 " steps, busy %.1f %%\n", seconds(duration), r->steps,
           share(r->busy_ns, duration));
    printf("throughput   %.3f requests/s, %.1f prompt tokens/s, %.1f generated tokens/s\n", rate(r->served, duration),
           rate(r->prompt_tokens, duration), rate(r->generated_tokens, duration));
    print_times("wait", &r->wait);
    print_times("first token", &r->first_token);
}

static void print_blocks(const simulate_question *question, const simulate_result *r)
{
    if (r->no_reuse) printf("prefix hits  none: %s\n", r->no_reuse);
    else
        printf("prefix hits  %.2f %%: of all prompt tokens of admitted requests, those whose KV was in the cache at "
               "admission\n",
               share(r->kv.hit_tokens, r->kv.prompt_tokens));
    printf("cache        %" PRIu64 " blocks evicted, %" PRIu64 " not cached; pool grown %" PRIu64 " times\n",
           r->kv.evictions, r->kv.uncached, r->kv.growths);
    printf("blocks       %" PRIu64 " in all; peaks: %" PRIu64 " in sequences, %" PRIu64 " cached, %" PRIu64 " live\n",
           r->pool[0].total_blocks, r->peak_sequence_blocks, r->peak_cached_blocks, r->pool[0].live_peak_blocks);
    for (uint32_t g = 1; g < question->plan->n_kv_groups; g++)
        printf("             window of %" PRIu32 " tokens: %" PRIu64 " in all, peak %" PRIu64 " live\n",
               question->plan->kv_group[g].window_tokens, r->pool[g].total_blocks, r->pool[g].live_peak_blocks);
}

static void print_row(const char *name, int width, const simulate_line *line)
{
    char plan[32], committed[32], live[32];
    printf("  %s%*s  %14s  %14s  %14s\n", name, width - (int)strlen(name), "",
           impmem_format_mib(line->planned_bytes, plan, sizeof plan),
           impmem_format_mib(line->committed_peak_bytes, committed, sizeof committed),
           impmem_format_mib(line->live_peak_bytes, live, sizeof live));
}

/* A tier's peaks are the sums of its lines' peaks, which need not have been at the same time. */
static void print_report(const simulate_question *question, const simulate_result *r)
{
    const impmem_plan *plan = question->plan;
    printf("\n  %-42s  %14s  %14s  %14s\n", "tier and line", "plan", "peak committed", "peak live");
    for (uint32_t tier = 0; tier < IMPMEM_N_TIERS; tier++) {
        simulate_line sum = {0, 0, 0};
        bool any = false;
        for (uint32_t i = 0; i < plan->n_lines; i++) {
            if ((uint32_t)plan->line[i].tier != tier) continue;
            any = true;
            sum.planned_bytes += r->line[i].planned_bytes;
            sum.committed_peak_bytes += r->line[i].committed_peak_bytes;
            sum.live_peak_bytes += r->line[i].live_peak_bytes;
        }
        if (!any) continue;
        print_row(impmem_tier_name((impmem_tier)tier), 42, &sum);
        for (uint32_t i = 0; i < plan->n_lines; i++) {
            if ((uint32_t)plan->line[i].tier != tier) continue;
            printf("  ");
            print_row(plan->line[i].name, 40, &r->line[i]);
        }
    }
    printf("\nacquisitions while serving, by tag:");
    for (uint32_t tag = 0; tag < IMPMEM_N_TAGS; tag++)
        printf("%s %s %" PRIu64, tag ? "," : "", impmem_tag_name((impmem_tag)tag), r->serving_acquisitions[tag]);
    printf("\n");
}

static void print_checks(const simulate_result *r)
{
    printf("\nself-checks\n");
    for (uint32_t i = 0; i < SIMULATE_N_CHECKS; i++) {
        const simulate_verdict *v = &r->verdict[i];
        printf("  %s  %-12s  %s\n", v->failed ? "FAIL" : "pass", simulate_check_key((simulate_check)i),
               simulate_check_text((simulate_check)i));
        if (!v->failed) continue;
        printf("        found: ");
        print_clean(v->detail);
        printf("\n");
    }
}

void simulate_print_text(const simulate_question *question, const simulate_result *result)
{
    print_question(question);
    print_requests(result);
    print_blocks(question, result);
    uint64_t acquisitions = 0;
    for (uint32_t tag = 0; tag < IMPMEM_N_TAGS; tag++) acquisitions += result->serving_acquisitions[tag];
    printf("acquisitions %" PRIu64 " while serving; %" PRIu64 " commits inside planned reservations\n", acquisitions,
           result->serving_commits);
    if (question->report) print_report(question, result);
    print_checks(result);
}
