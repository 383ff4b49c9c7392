/* device_flags.h - the flags of the verbs that look at a device and answer: --device and --json. */
#ifndef IMPMEM_COMMAND_DEVICE_FLAGS_H
#define IMPMEM_COMMAND_DEVICE_FLAGS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct device_flags {
    const char *verb;
    bool json;
    uint32_t device;
} device_flags;

/* `verb` is "probe", `doc` its help. Returns only when everything was understood. */
device_flags device_flags_parse(const char *verb, const char *doc, int argc, char **argv);

#endif
