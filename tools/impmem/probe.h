/* probe.h - the checks of `impmem probe`: each a name, a verdict, and the figures it rests on. */
#ifndef IMPMEM_COMMAND_PROBE_H
#define IMPMEM_COMMAND_PROBE_H

#include <stdbool.h>

#include "device_open.h"

typedef enum probe_verdict { PROBE_OK, PROBE_FAILED, PROBE_UNSUPPORTED } probe_verdict;

typedef struct probe_check {
    const char *name;
    probe_verdict verdict;
    char figures[160];
    double value;     /* the check's one number, in `unit`; NaN: none */
    const char *unit; /* "" without a value */
} probe_check;

typedef struct probe_run {
    device_session *session;
    void (*sink)(void *context, const probe_check *check);
    void *context;
    bool failed;
} probe_run;

/* Each runs its checks and hands them to the sink. */
void probe_facts(probe_run *run);
void probe_growth(probe_run *run);  /* reserve, commit, shrink, data, graph, readings */
void probe_costs(probe_run *run);   /* of each driver call per chunk size, of a commit and a decommit */
void probe_latency(probe_run *run); /* launches beside growth; residency */

void probe_say(probe_run *run, const char *name, probe_verdict verdict, double value, const char *unit, const char *fmt,
               ...) IMPMEM_PRINTF(6, 7);

#endif
