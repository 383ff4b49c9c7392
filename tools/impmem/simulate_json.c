/* simulate_json.c - the answer of `impmem simulate` as one JSON object; docs/simulate.md lists its keys. */
#include <stdio.h>

#include "core/json.h"
#include "impmem/plan_report.h"
#include "simulate.h"

static void write_question(impmem__json *json, const simulate_question *question)
{
    const simulate_settings *s = question->settings;
    impmem__json_key(json, "load");
    impmem__json_object_begin(json);
    impmem__json_key(json, "path");
    impmem__json_string(json, question->load_name);
    impmem__json_key(json, "seed");
    if (question->load_name) impmem__json_null(json);
    else impmem__json_u64(json, question->seed);
    impmem__json_field_string(json, "format", question->load_name ? trace_format_name(s->load->format) : "made up");
    impmem__json_field_u64(json, "requests", s->load->n_requests);
    impmem__json_field_u64(json, "prompt_tokens", s->load->input_tokens);
    impmem__json_field_u64(json, "answer_tokens", s->load->output_tokens);
    impmem__json_field_double(json, "speed", (double)s->speed_thousandths / 1000.0);
    impmem__json_object_end(json);
    impmem__json_key(json, "step_us");
    impmem__json_object_begin(json);
    impmem__json_field_double(json, "base", (double)s->base_ns / 1000.0);
    impmem__json_field_double(json, "prefill_token", (double)s->prefill_ns / 1000.0);
    impmem__json_field_double(json, "sequence", (double)s->sequence_ns / 1000.0);
    impmem__json_object_end(json);
    impmem__json_key(json, "queue_limit");
    if (s->queue_limit == UINT64_MAX) impmem__json_null(json);
    else impmem__json_u64(json, s->queue_limit);
}

static void write_times(impmem__json *json, const char *key, const simulate_times *t)
{
    impmem__json_key(json, key);
    impmem__json_object_begin(json);
    impmem__json_field_u64(json, "n", t->n);
    impmem__json_field_u64(json, "mean_ns", t->mean_ns);
    impmem__json_field_u64(json, "p50_ns", t->p50_ns);
    impmem__json_field_u64(json, "p99_ns", t->p99_ns);
    impmem__json_field_u64(json, "max_ns", t->max_ns);
    impmem__json_object_end(json);
}

static void write_requests(impmem__json *json, const simulate_result *r)
{
    impmem__json_key(json, "requests");
    impmem__json_object_begin(json);
    impmem__json_field_u64(json, "all", r->requests);
    impmem__json_field_u64(json, "served", r->served);
    impmem__json_field_u64(json, "refused_never_fits", r->refused_never);
    impmem__json_field_u64(json, "refused_queue_full", r->refused_queue);
    impmem__json_field_u64(json, "refused_no_prompt", r->refused_empty);
    impmem__json_field_u64(json, "largest_never_fits_tokens", r->largest_never_tokens);
    impmem__json_field_u64(json, "most_tokens", r->most_tokens);
    impmem__json_field_u64(json, "queue_high_water", r->queue_high_water);
    impmem__json_field_u64(json, "waited_for_blocks", r->waited_blocks);
    impmem__json_field_u64(json, "peak_sequences", r->peak_running);
    impmem__json_object_end(json);
    impmem__json_key(json, "tokens");
    impmem__json_object_begin(json);
    impmem__json_field_u64(json, "prompt", r->prompt_tokens);
    impmem__json_field_u64(json, "prefilled", r->prefill_tokens);
    impmem__json_field_u64(json, "generated", r->generated_tokens);
    impmem__json_object_end(json);
    impmem__json_key(json, "time");
    impmem__json_object_begin(json);
    impmem__json_field_u64(json, "virtual_ns", r->end_ns - r->first_arrival_ns);
    impmem__json_field_u64(json, "busy_ns", r->busy_ns);
    impmem__json_field_u64(json, "steps", r->steps);
    write_times(json, "wait", &r->wait);
    write_times(json, "first_token", &r->first_token);
    impmem__json_object_end(json);
}

static void write_blocks(impmem__json *json, const simulate_question *question, const simulate_result *r)
{
    impmem__json_key(json, "cache");
    impmem__json_object_begin(json);
    impmem__json_key(json, "unsupported");
    impmem__json_string(json, r->no_reuse);
    impmem__json_field_u64(json, "hit_tokens", r->kv.hit_tokens);
    impmem__json_field_double(json, "hit_rate",
                              r->kv.prompt_tokens ? (double)r->kv.hit_tokens / (double)r->kv.prompt_tokens : 0.0);
    impmem__json_field_u64(json, "evictions", r->kv.evictions);
    impmem__json_field_u64(json, "uncached", r->kv.uncached);
    impmem__json_field_u64(json, "growths", r->kv.growths);
    impmem__json_field_u64(json, "peak_sequence_blocks", r->peak_sequence_blocks);
    impmem__json_field_u64(json, "peak_cached_blocks", r->peak_cached_blocks);
    impmem__json_object_end(json);
    impmem__json_key(json, "pools");
    impmem__json_array_begin(json);
    for (uint32_t g = 0; g < question->plan->n_kv_groups; g++) {
        impmem__json_object_begin(json);
        impmem__json_field_u64(json, "window_tokens", question->plan->kv_group[g].window_tokens);
        impmem__json_field_u64(json, "total_blocks", r->pool[g].total_blocks);
        impmem__json_field_u64(json, "live_peak_blocks", r->pool[g].live_peak_blocks);
        impmem__json_object_end(json);
    }
    impmem__json_array_end(json);
}

static void write_lines(impmem__json *json, const simulate_question *question, const simulate_result *r)
{
    impmem__json_key(json, "lines");
    impmem__json_array_begin(json);
    for (uint32_t i = 0; i < question->plan->n_lines; i++) {
        impmem__json_object_begin(json);
        impmem__json_field_u64(json, "id", question->plan->line[i].id);
        impmem__json_field_string(json, "name", question->plan->line[i].name);
        impmem__json_field_string(json, "tier", impmem_tier_name(question->plan->line[i].tier));
        impmem__json_field_u64(json, "planned_bytes", r->line[i].planned_bytes);
        impmem__json_field_u64(json, "committed_peak_bytes", r->line[i].committed_peak_bytes);
        impmem__json_field_u64(json, "live_peak_bytes", r->line[i].live_peak_bytes);
        impmem__json_object_end(json);
    }
    impmem__json_array_end(json);
    impmem__json_key(json, "serving_acquisitions");
    impmem__json_object_begin(json);
    for (uint32_t tag = 0; tag < IMPMEM_N_TAGS; tag++)
        impmem__json_field_u64(json, impmem_tag_name((impmem_tag)tag), r->serving_acquisitions[tag]);
    impmem__json_object_end(json);
    impmem__json_field_u64(json, "serving_commits", r->serving_commits);
}

static void write_checks(impmem__json *json, const simulate_result *r)
{
    impmem__json_field_u64(json, "walks", r->walks);
    impmem__json_key(json, "checks");
    impmem__json_array_begin(json);
    for (uint32_t i = 0; i < SIMULATE_N_CHECKS; i++) {
        impmem__json_object_begin(json);
        impmem__json_field_string(json, "name", simulate_check_key((simulate_check)i));
        impmem__json_field_string(json, "promise", simulate_check_text((simulate_check)i));
        impmem__json_field_bool(json, "pass", !r->verdict[i].failed);
        impmem__json_key(json, "found");
        impmem__json_string(json, r->verdict[i].failed ? r->verdict[i].detail : NULL);
        impmem__json_object_end(json);
    }
    impmem__json_array_end(json);
    impmem__json_field_bool(json, "good", simulate_good(r));
}

impmem_status simulate_print_json(const simulate_question *question, const simulate_result *result)
{
    printf("{\"fits\": true,\n\"plan\": ");
    impmem_status st = impmem_plan_write_json(question->plan, impmem_write_file, stdout);
    printf(",\n\"simulation\": ");
    impmem__json json;
    impmem__json_init(&json, impmem_write_file, stdout, 0);
    impmem__json_object_begin(&json);
    write_question(&json, question);
    write_requests(&json, result);
    write_blocks(&json, question, result);
    write_lines(&json, question, result);
    write_checks(&json, result);
    impmem__json_object_end(&json);
    st = impmem_first_error(st, impmem__json_finish(&json));
    printf("}\n");
    return st;
}
