/* cmd_bench.c - `impmem bench`: the library's hot paths on this machine, with their targets and peers. */
#include <math.h>
#include <stdio.h>

#include "bench.h"
#include "bench_device.h"
#include "command.h"
#include "core/json.h"
#include "flags.h"
#include "impmem/cuda.h"
#include "impmem/version.h"

enum { KEY_JSON = 0x200, KEY_QUICK, KEY_DEVICE };

typedef struct bench_flags {
    bool json;
    bool quick;
    int device; /* -1: this machine */
} bench_flags;

static const struct argp_option options[] = {
    {"quick", KEY_QUICK, 0, 0, "small tables only: seconds instead of a minute", 1},
    {"device", KEY_DEVICE, "N", 0, "on this device instead, beside the driver's own allocators", 1},
    {"json", KEY_JSON, 0, 0, "one JSON object on standard output", 1},
    FLAGS_HELP_OPTION,
    {0, 0, 0, 0, 0, 0},
};

static const char doc[] =
    "Times the library's hot paths on this machine: medians of many batches, each at least 1 ms long, beside the C "
    "library's allocator and the memory itself in the same run.\v"
    "Timings vary from run to run and from machine to machine. The targets are aims, not a gate: missing one changes no "
    "exit status.";

static error_t parse(int key, char *argument, struct argp_state *state)
{
    bench_flags *flags = state->input;
    switch (key) {
    case KEY_JSON: flags->json = true; return 0;
    case KEY_QUICK: flags->quick = true; return 0;
    case KEY_DEVICE: flags->device = (int)flags_integer32("--device", argument, 0, 1023); return 0;
    case ARGP_KEY_ARG: command_bad_usage("%s: bench takes no argument", argument);
    default: return flags_common(key, state);
    }
}

static const struct argp bench_argp = {options, parse, NULL, doc, NULL, NULL, NULL};

typedef struct printer {
    impmem__json json;
    bool failed; /* a row has no figures */
} printer;

static void print_row(void *context, const bench_row *row)
{
    printer *p = context;
    if (row->samples == 0) {
        p->failed = true;
        printf("%-52s not measured: %s\n", row->operation, row->note);
    } else {
        char spread[40];
        char ratio[24] = "";
        snprintf(spread, sizeof spread, "%.1f..%.1f", row->p10_ns, row->p90_ns);
        if (row->floor_ns > 0) snprintf(ratio, sizeof ratio, "%.2f", row->median_ns / row->floor_ns);
        printf("%-52s %11.1f  %23s  %-15s %s\n", row->operation, row->median_ns, spread, row->target, ratio);
    }
    fflush(stdout); /* rows take seconds: each is shown when it is known */
}

static void json_row(void *context, const bench_row *row)
{
    printer *p = context;
    impmem__json *json = &p->json;
    p->failed |= row->samples == 0;
    impmem__json_object_begin(json);
    impmem__json_field_string(json, "operation", row->operation);
    impmem__json_key(json, "target");
    impmem__json_string(json, row->target[0] ? row->target : NULL);
    impmem__json_field_u64(json, "samples", row->samples);
    impmem__json_field_u64(json, "batch", row->batch);
    const double absent = (double)NAN; /* written as null */
    impmem__json_field_double(json, "median_ns", row->samples ? row->median_ns : absent);
    impmem__json_field_double(json, "p10_ns", row->samples ? row->p10_ns : absent);
    impmem__json_field_double(json, "p90_ns", row->samples ? row->p90_ns : absent);
    impmem__json_field_double(json, "floor_ns", row->floor_ns > 0 ? row->floor_ns : absent);
    impmem__json_field_double(json, "ratio_to_floor",
                              row->samples && row->floor_ns > 0 ? row->median_ns / row->floor_ns : absent);
    impmem__json_key(json, "note");
    impmem__json_string(json, row->note[0] ? row->note : NULL);
    impmem__json_object_end(json);
}

/* COMMAND_DONE, or what to leave with. */
static int run_all(const bench_run *run, int device)
{
    if (device >= 0) return bench_device(run, device);
    bench_peers(run);
    bench_tiers(run);
    bench_blocks(run);
    bench_kv(run);
    bench_plans(run);
    return COMMAND_DONE;
}

static int bench_text(const bench_settings *settings, int device)
{
    printer p;
    p.failed = false;
    bench_run run = {*settings, print_row, &p};
    printf("Timings vary; targets are aims, not a gate. Medians of at least %u samples.\n\n", settings->repetitions);
    printf("%-52s %11s  %23s  %-15s %s\n", "operation", "median ns", "p10..p90 ns", "target", "x floor");
    int code = run_all(&run, device);
    return command_finish_output(code ? code : p.failed ? COMMAND_NO : COMMAND_DONE);
}

static int bench_json(const bench_settings *settings, int device)
{
    printer p;
    p.failed = false;
    impmem__json_init(&p.json, impmem_write_file, stdout, 2);
    impmem__json_object_begin(&p.json);
    impmem__json_field_string(&p.json, "version", impmem_version());
    impmem__json_field_string(&p.json, "note", "timings vary; targets are aims, not a gate");
    impmem__json_field_bool(&p.json, "quick", settings->quick);
    impmem__json_key(&p.json, "rows");
    impmem__json_array_begin(&p.json);
    bench_run run = {*settings, json_row, &p};
    int code = run_all(&run, device);
    impmem__json_array_end(&p.json);
    impmem__json_object_end(&p.json);
    impmem_status st = impmem__json_finish(&p.json);
    printf("\n");
    return command_finish_answer(st, code ? code : p.failed ? COMMAND_NO : COMMAND_DONE);
}

int command_bench(int argc, char **argv)
{
    bench_flags flags = {false, false, -1};
    flags_parse(&bench_argp, "impmem bench", argc, argv, 0, &flags);
    bench_settings settings = {flags.quick, flags.quick ? 31 : 101, 1000000};
    if (flags.device >= 0) {
        /* Asked before anything is printed: a machine without a device gets one line and no empty answer. */
        impmem_error why = IMPMEM_ERROR_INIT;
        uint32_t devices = 0;
        if (impmem_cuda_device_count(&devices, &why) || (uint32_t)flags.device >= devices) {
            command_complain("--device %d: %s", flags.device, why.message[0] ? why.message : "no such device");
            return COMMAND_DEVICE;
        }
    }
    return flags.json ? bench_json(&settings, flags.device) : bench_text(&settings, flags.device);
}
