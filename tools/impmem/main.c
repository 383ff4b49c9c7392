/* main.c - the impmem command: finds the verb and hands it the rest of the line. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "flags.h"
#include "impmem/version.h"

/* clang-format off */
static const command_verb verbs[] = {
    {"plan", command_plan},
    {"fit", command_fit},
    {"bench", command_bench},
    {"probe", command_probe},
    {"calibrate", command_calibrate},
    {"report", command_report},
    {"simulate", command_simulate},
    {"cache-sim", command_cache_sim},
};
/* clang-format on */
enum { N_VERBS = sizeof verbs / sizeof verbs[0], KEY_VERSION = 'V' };

static const char doc[] =
    "Plans and examines the device memory of an LLM inference engine.\v"
    "Verbs:\n"
    "  plan       does a model fit a memory budget, and what to change if not\n"
    "  fit        the largest context, or the largest batch, that fits a budget\n"
    "  simulate   serve a request trace on a virtual clock with a planned model's memory\n"
    "  bench      time the library's hot paths on this machine or on a device\n"
    "  probe      check on a device what growing a pool rests on, and its price\n"
    "  calibrate  measure what a device takes that is not ours, as a device profile\n"
    "  report     what is on a device now\n"
    "  cache-sim  hit rates of a prefix cache over a request trace\n"
    "\n"
    "'impmem VERB --help' tells a verb's flags.\n"
    "\n"
    "Exit status: 0 done and true; 1 the answer is no; 2 bad usage; 3 bad file; 4 no such device or driver.";

static const struct argp_option options[] = {
    FLAGS_HELP_OPTION,
    {"version", KEY_VERSION, 0, 0, "show the version", -1},
    {0, 0, 0, 0, 0, 0},
};

typedef struct top_level {
    const char *verb;
    int rest; /* index of the verb's first argument */
} top_level;

static error_t parse(int key, char *argument, struct argp_state *state)
{
    top_level *top = state->input;
    switch (key) {
    case KEY_VERSION: printf("impmem %s\n", impmem_version()); exit(command_finish_output(COMMAND_DONE));
    case ARGP_KEY_ARG:
        top->verb = argument;
        top->rest = state->next;
        state->next = state->argc; /* the rest is the verb's */
        return 0;
    default: return flags_common(key, state);
    }
}

static const struct argp top_argp = {options, parse, "VERB [FLAG...]", doc, NULL, NULL, NULL};

static const char *verb_names(char *buffer, size_t capacity)
{
    size_t used = 0;
    for (size_t i = 0; i < N_VERBS && used < capacity; i++)
        used += (size_t)snprintf(buffer + used, capacity - used, "%s%s", i ? ", " : "", verbs[i].name);
    return buffer;
}

int main(int argc, char **argv)
{
    top_level top = {NULL, 0};
    flags_parse(&top_argp, "impmem", argc, argv, ARGP_IN_ORDER, &top);
    char known[128];
    if (!top.verb) command_bad_usage("no verb; expected %s (impmem --help tells more)", verb_names(known, sizeof known));
    for (size_t i = 0; i < N_VERBS; i++) {
        if (strcmp(verbs[i].name, top.verb)) continue;
        char name[64];
        snprintf(name, sizeof name, "impmem %s", verbs[i].name);
        argv[top.rest - 1] = name;
        return verbs[i].run(argc - top.rest + 1, argv + top.rest - 1);
    }
    command_bad_usage("%s: no such verb; expected %s (impmem --help tells more)", top.verb,
                      verb_names(known, sizeof known));
}
