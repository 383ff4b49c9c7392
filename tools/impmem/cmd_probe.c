/* cmd_probe.c - `impmem probe`: can a pool grow on this device, and at what price? */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "command.h"
#include "core/json.h"
#include "device_flags.h"
#include "impmem/version.h"
#include "probe.h"

static const char doc[] =
    "Checks on a device what growing a pool under a running engine rests on, and what it costs there.\v"
    "Takes up to 3 GiB of the device's memory for some seconds. Exit status 1: a check failed; 4: no such device or "
    "driver.";

static const char *verdict_name(probe_verdict verdict)
{
    static const char *const names[] = {"ok", "FAILED", "unsupported"};
    return names[verdict];
}

void probe_say(probe_run *run, const char *name, probe_verdict verdict, double value, const char *unit, const char *fmt,
               ...)
{
    probe_check check = {name, verdict, "", value, unit};
    va_list arguments;
    va_start(arguments, fmt);
    vsnprintf(check.figures, sizeof check.figures, fmt, arguments);
    va_end(arguments);
    run->failed |= verdict == PROBE_FAILED;
    run->sink(run->context, &check);
}

void probe_facts(probe_run *run)
{
    impmem_cuda_facts f;
    impmem_cuda_device_facts(run->session->device, &f);
    probe_say(run, "virtual memory management", f.virtual_memory ? PROBE_OK : PROBE_UNSUPPORTED, (double)NAN, "", "%s",
              f.virtual_memory ? "every function is there" : "the device or its driver has none");
    run->failed |= !f.virtual_memory;
    probe_say(run, "granularity", f.granule_bytes ? PROBE_OK : PROBE_UNSUPPORTED, (double)f.granule_bytes, "bytes",
              "least %llu, recommended %llu bytes", (unsigned long long)f.granule_bytes,
              (unsigned long long)f.granule_recommended_bytes);
    probe_say(run, "export as file descriptors", f.exportable ? PROBE_OK : PROBE_UNSUPPORTED, (double)NAN, "", "%s",
              f.exportable ? "yes" : "no");
    uint64_t free_bytes = 0, total = 0;
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_status st = impmem_cuda_memory(run->session->device, &free_bytes, &total, &why);
    if (st) probe_say(run, "free and total are believable", PROBE_FAILED, (double)NAN, "", "%s", why.message);
    else
        probe_say(run, "free and total are believable", PROBE_OK, (double)NAN, "", "%llu of %llu bytes free",
                  (unsigned long long)free_bytes, (unsigned long long)total);
}

static void print_check(void *context, const probe_check *check)
{
    (void)context;
    printf("%-52s %-12s %s\n", check->name, verdict_name(check->verdict), check->figures);
    fflush(stdout);
}

static void json_check(void *context, const probe_check *check)
{
    impmem__json *json = context;
    impmem__json_object_begin(json);
    impmem__json_field_string(json, "check", check->name);
    impmem__json_field_string(json, "verdict", verdict_name(check->verdict));
    impmem__json_field_double(json, "value", check->value);
    impmem__json_key(json, "unit");
    impmem__json_string(json, check->unit[0] ? check->unit : NULL);
    impmem__json_field_string(json, "figures", check->figures);
    impmem__json_object_end(json);
}

static void run_all(probe_run *run)
{
    probe_facts(run);
    if (run->session->device->facts.virtual_memory) probe_growth(run);
    probe_costs(run);
    probe_latency(run);
}

static int probe_json(probe_run *run, const impmem_cuda_facts *facts)
{
    impmem__json json;
    impmem__json_init(&json, impmem_write_file, stdout, 2);
    impmem__json_object_begin(&json);
    impmem__json_field_string(&json, "version", impmem_version());
    impmem__json_field_string(&json, "device", facts->name);
    impmem__json_field_i64(&json, "ordinal", facts->ordinal);
    impmem__json_field_i64(&json, "driver", facts->driver_version);
    impmem__json_field_i64(&json, "runtime", facts->runtime_version);
    impmem__json_key(&json, "checks");
    impmem__json_array_begin(&json);
    run->sink = json_check;
    run->context = &json;
    run_all(run);
    impmem__json_array_end(&json);
    impmem__json_field_bool(&json, "passed", !run->failed);
    impmem__json_object_end(&json);
    impmem_status st = impmem__json_finish(&json);
    printf("\n");
    return st ? COMMAND_FILE : COMMAND_DONE;
}

int command_probe(int argc, char **argv)
{
    const device_flags flags = device_flags_parse("probe", doc, argc, argv);
    device_session session;
    int code = device_open((int)flags.device, &session);
    if (code) return code;
    impmem_cuda_facts facts;
    impmem_cuda_device_facts(session.device, &facts);
    probe_run run = {&session, print_check, NULL, false};
    if (flags.json) {
        code = probe_json(&run, &facts);
    } else {
        printf("%s, driver %d, runtime %d\n\n", facts.name, facts.driver_version, facts.runtime_version);
        run_all(&run);
    }
    int closed = device_close(&session);
    if (!code) code = closed ? closed : run.failed ? COMMAND_NO : COMMAND_DONE;
    return command_finish_output(code);
}
