/* cmd_calibrate.c - `impmem calibrate`: measures what a device takes that is not ours, and writes it as a device
 * profile. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "core/json.h"
#include "device_open.h"
#include "flags.h"
#include "impmem/cublaslt.h"
#include "impmem/plan.h"

enum { KEY_DEVICE = 0x320, KEY_OUT, KEY_NAME, KEY_LIBRARY, KEY_REMEMBER, KEY_MODEL, KEY_JSON };

typedef struct calibrate_flags {
    uint32_t device;
    const char *out;
    const char *name;
    const char *remember;
    const char *model;
    uint64_t library; /* UINT64_MAX: measure */
    bool json;
} calibrate_flags;

static const struct argp_option options[] = {
    {"device", KEY_DEVICE, "N", 0, "which device, as the CUDA runtime counts from 0; 0 without this flag", 1},
    {"output", KEY_OUT, "FILE", 0, "write the profile there instead of standard output", 1},
    {"name", KEY_NAME, "NAME", 0, "the profile's name; the device's without this flag", 1},
    {"library-reserve", KEY_LIBRARY, "SIZE", 0, "take this for the library reserve instead of measuring it", 1},
    {"remember", KEY_REMEMBER, "FILE", 0, "also keep the figures in FILE, by device, driver, runtime, libraries and model",
     1},
    {"model", KEY_MODEL, "TEXT", 0, "the model's fingerprint in the remembered key", 1},
    {"json", KEY_JSON, 0, 0, "the profile on standard output, beside --output too; it is JSON in any case", 1},
    FLAGS_HELP_OPTION,
    {0, 0, 0, 0, 0, 0},
};

static const char doc[] =
    "Measures the device's context, its granule and what the matrix library reserves over its whole start, and writes a "
    "device "
    "profile that 'impmem plan --device-profile FILE' reads.\v"
    "Run it while nothing else starts or ends on the device. A file for --remember that can't be written is a warning.";

static error_t parse(int key, char *argument, struct argp_state *state)
{
    calibrate_flags *flags = state->input;
    switch (key) {
    case KEY_DEVICE: flags->device = flags_integer32("--device", argument, 0, 1023); return 0;
    case KEY_OUT: flags->out = argument; return 0;
    case KEY_NAME:
        if (!argument[0] || strlen(argument) >= sizeof(((impmem_device_profile *)NULL)->name))
            command_bad_usage("--name: \"%s\"; expected 1 to 47 bytes", argument);
        flags->name = argument;
        return 0;
    case KEY_LIBRARY: flags->library = flags_bytes("--library-reserve", argument); return 0;
    case KEY_REMEMBER: flags->remember = argument; return 0;
    case KEY_MODEL: flags->model = argument; return 0;
    case KEY_JSON: flags->json = true; return 0;
    case ARGP_KEY_ARG: command_bad_usage("%s: calibrate takes no argument", argument);
    default: return flags_common(key, state);
    }
}

static const struct argp calibrate_argp = {options, parse, NULL, doc, NULL, NULL, NULL};

typedef struct figures {
    impmem_device_profile profile;
    impmem_cuda_measure_key key;
    bool library_measured;
    bool context_measured;
} figures;

static const char *how_library(const figures *f, const calibrate_flags *flags)
{
    if (flags->library != UINT64_MAX) return "pinned";
    return f->library_measured ? "measured" : "the default";
}

/* A device whose reading is refused has no profile. */
static int measure(device_session *s, const calibrate_flags *flags, figures *out)
{
    impmem_cuda_facts facts;
    impmem_cuda_standing standing;
    impmem_error why = IMPMEM_ERROR_INIT;
    char libraries[64] = "";
    memset(out, 0, sizeof *out);
    memset(&standing, 0, sizeof standing);
    impmem_cuda_device_facts(s->device, &facts);
    impmem_status st = impmem_cuda_standing_read(s->device, &standing, &why);
    if (st) {
        command_complain("device %u: %s", flags->device, why.message);
        return st == IMPMEM_ERR_BAD_VALUE ? COMMAND_NO : COMMAND_DEVICE;
    }
    uint64_t library = impmem_device_profile_at(0)->library_reserve_bytes;
    if (flags->library == UINT64_MAX) {
        uint64_t measured = 0;
        st = impmem_cublaslt_measure(s->device, &measured, libraries, sizeof libraries, &why);
        out->library_measured = !st;
        if (!st) library = measured;
        else command_complain("the library reserve could not be measured, the default is written: %s", why.message);
    }
    impmem_device_profile *p = &out->profile;
    *p = (impmem_device_profile)IMPMEM_DEVICE_PROFILE_INIT;
    snprintf(p->name, sizeof p->name, "%.47s", flags->name ? flags->name : facts.name);
    out->context_measured = standing.context_measured;
    /* Where the two can't be told apart, what was there when the device was opened is charged in one. */
    p->context_bytes = standing.context_measured ? standing.context_bytes : standing.neighbours_bytes;
    p->library_reserve_bytes = impmem_cuda_choose_library_bytes(flags->library, NULL, library);
    p->total_bytes = standing.total_bytes;
    p->granule_bytes = facts.granule_bytes ? facts.granule_bytes : IMPMEM__CUDA_GRANULE;
    p->estimated = !out->context_measured || (flags->library == UINT64_MAX && !out->library_measured);
    char day[16] = "";
    time_t now = time(NULL);
    struct tm t;
    if (gmtime_r(&now, &t)) (void)strftime(day, sizeof day, "%Y-%m-%d", &t);
    snprintf(p->source, sizeof p->source, "%s, driver %d, runtime %d; library reserve %s", day, facts.driver_version,
             facts.runtime_version, how_library(out, flags));
    impmem_cuda_measure_key_set(s->device, libraries, flags->model, &out->key);
    return COMMAND_DONE;
}

static impmem_status write_profile(const impmem_device_profile *p, FILE *file)
{
    impmem__json json;
    impmem__json_init(&json, impmem_write_file, file, 2);
    impmem__json_object_begin(&json);
    impmem__json_field_string(&json, "name", p->name);
    impmem__json_field_string(&json, "source", p->source);
    impmem__json_field_u64(&json, "total_bytes", p->total_bytes);
    impmem__json_field_u64(&json, "context_bytes", p->context_bytes);
    impmem__json_field_u64(&json, "library_reserve_bytes", p->library_reserve_bytes);
    impmem__json_field_u64(&json, "granule_bytes", p->granule_bytes);
    impmem__json_field_bool(&json, "estimated", p->estimated != 0);
    impmem__json_object_end(&json);
    impmem_status st = impmem__json_finish(&json);
    if (!st && fputc('\n', file) == EOF) st = IMPMEM_ERR_IO;
    return st;
}

/* A new file beside it takes its name: a profile is there as a whole or not at all. */
static int write_file(const char *path, const impmem_device_profile *p)
{
    char temporary[4096];
    int n = snprintf(temporary, sizeof temporary, "%s.new", path);
    FILE *file = n > 0 && (size_t)n < sizeof temporary ? fopen(temporary, "we") : NULL;
    if (!file) {
        command_complain("%s: %s; expected a place for the profile", path, strerror(errno));
        return COMMAND_FILE;
    }
    impmem_status st = write_profile(p, file);
    bool good = !st && fflush(file) == 0 && fsync(fileno(file)) == 0;
    good = fclose(file) == 0 && good;
    if (good && rename(temporary, path) == 0) return COMMAND_DONE;
    command_complain("%s: writing failed, the profile is not there", path);
    (void)unlink(temporary);
    return COMMAND_FILE;
}

static void keep(const calibrate_flags *flags, const figures *f)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_cuda_measured measured = {f->profile.context_bytes, f->profile.library_reserve_bytes};
    impmem_cuda_measured before;
    if (impmem_cuda_recall(flags->remember, &f->key, &before, &why) == IMPMEM_OK) {
        impmem_cuda_self_check c = impmem_cuda_check_charge(before.library_bytes, measured.library_bytes);
        if (c.diverges)
            command_complain("the library reserve is %.1f MiB and was %.1f MiB when it was last measured",
                             (double)c.actual_bytes / (double)IMPMEM_MIB, (double)c.assumed_bytes / (double)IMPMEM_MIB);
    }
    if (impmem_cuda_remember(flags->remember, &f->key, &measured, &why))
        command_complain("%s: %s; the figures are not remembered", flags->remember, why.message);
}

int command_calibrate(int argc, char **argv)
{
    calibrate_flags flags = {0, NULL, NULL, NULL, NULL, UINT64_MAX, false};
    flags_parse(&calibrate_argp, "impmem calibrate", argc, argv, 0, &flags);
    device_session session;
    int code = device_open((int)flags.device, &session);
    if (code) return code;
    figures f;
    code = measure(&session, &flags, &f);
    int closed = device_close(&session);
    if (code || closed) return code ? code : closed;
    if (flags.remember && f.library_measured) keep(&flags, &f);
    else if (flags.remember)
        command_complain("%s: the library reserve was not measured, nothing is remembered", flags.remember);
    if (flags.out) {
        code = write_file(flags.out, &f.profile);
        if (code || !flags.json) return code;
    }
    return command_finish_output(write_profile(&f.profile, stdout) ? COMMAND_FILE : COMMAND_DONE);
}
