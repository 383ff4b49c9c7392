/* device_flags.c - parsing --device and --json. */
#include "device_flags.h"

#include <stdio.h>

#include "command.h"
#include "flags.h"

enum { KEY_JSON = 0x300, KEY_DEVICE };

static const struct argp_option options[] = {
    {"device", KEY_DEVICE, "N", 0, "which device, as the CUDA runtime counts from 0; 0 without this flag", 1},
    {"json", KEY_JSON, 0, 0, "one JSON object on standard output", 1},
    FLAGS_HELP_OPTION,
    {0, 0, 0, 0, 0, 0},
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    device_flags *flags = state->input;
    switch (key) {
    case KEY_JSON: flags->json = true; return 0;
    case KEY_DEVICE: flags->device = flags_integer32("--device", argument, 0, 1023); return 0;
    case ARGP_KEY_ARG: command_bad_usage("%s: %s takes no argument", argument, flags->verb);
    default: return flags_common(key, state);
    }
}

device_flags device_flags_parse(const char *verb, const char *doc, int argc, char **argv)
{
    const struct argp argp = {options, parse, NULL, doc, NULL, NULL, NULL};
    device_flags flags = {verb, false, 0};
    char name[64];
    (void)snprintf(name, sizeof name, "impmem %s", verb);
    flags_parse(&argp, name, argc, argv, 0, &flags);
    return flags;
}
