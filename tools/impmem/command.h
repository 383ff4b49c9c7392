/* command.h - what the verbs of the impmem command share: exit codes, the one-line error, the verb table's row. */
#ifndef IMPMEM_COMMAND_H
#define IMPMEM_COMMAND_H

#include "impmem/status.h"

/* The whole contract of an exit: scripts test these numbers. */
enum {
    COMMAND_DONE = 0,  /* done, and the answer is yes */
    COMMAND_NO = 1,    /* ran, and the answer is no: does not fit, a check failed */
    COMMAND_USAGE = 2, /* bad verb, flag or value */
    COMMAND_FILE = 3,  /* a file could not be read, understood or written */
    COMMAND_DEVICE = 4 /* no such device or driver */
};

typedef struct command_verb {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is "impmem VERB" */
} command_verb;

int command_plan(int argc, char **argv);
int command_fit(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_probe(int argc, char **argv);
int command_calibrate(int argc, char **argv);
int command_report(int argc, char **argv);
int command_cache_sim(int argc, char **argv);
int command_simulate(int argc, char **argv);

/* "impmem: " and the message as exactly one line on standard error: control characters, which a path or a file's own text may
 * hold, are shown as \xNN. */
void command_complain(const char *fmt, ...) IMPMEM_PRINTF(1, 2);

/* The same, then leaves with COMMAND_USAGE. For use before anything was opened. */
_Noreturn void command_bad_usage(const char *fmt, ...) IMPMEM_PRINTF(1, 2);

/* The line of a failed read: the file, then what is wrong in it. */
void command_complain_file(const char *path, const impmem_error *why);

/* `code`, or COMMAND_FILE with a complaint when standard output didn't take everything: a truncated answer is no answer. */
int command_finish_output(int code);
/* The same of an answer whose writing came out as `written`. */
int command_finish_answer(impmem_status written, int code);

#endif
