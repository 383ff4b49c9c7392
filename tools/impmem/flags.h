/* flags.h - flags shared by the verbs: strict values, and argp with one-line errors.
 *
 * A value that is refused names the flag, the value as given, and what was expected; the process leaves with COMMAND_USAGE.
 */
#ifndef IMPMEM_COMMAND_FLAGS_H
#define IMPMEM_COMMAND_FLAGS_H

#include <argp.h>
#include <stdint.h>

#include "impmem/dtype.h"
#include "impmem/line.h"

/* Every options table holds this row; the help is printed by flags_parse. */
#define FLAGS_HELP_KEY 0x7f0
#define FLAGS_HELP_OPTION                                                                                                  \
    {                                                                                                                      \
        "help", FLAGS_HELP_KEY, 0, 0, "show this text", -1                                                                 \
    }

/* argp_parse with argp's own messages off, since they take two lines. `name` is what the help calls the program. Returns only
 * when everything was understood; --help leaves with COMMAND_DONE. */
void flags_parse(const struct argp *argp, const char *name, int argc, char **argv, unsigned flags, void *input);

/* For a verb's parser: handles FLAGS_HELP_KEY and the errors of getopt; ARGP_ERR_UNKNOWN for every other key. */
error_t flags_common(int key, struct argp_state *state);

/* Digits only: no sign, no blank, no other text. `flag` is "--max-batch". */
uint64_t flags_integer(const char *flag, const char *text, uint64_t low, uint64_t high);
uint32_t flags_integer32(const char *flag, const char *text, uint32_t low, uint32_t high);
/* A size: "24GiB", "512MiB", bytes. */
uint64_t flags_bytes(const char *flag, const char *text);
/* "T" for both or "K,V". */
void flags_kv_dtype(const char *flag, const char *text, impmem_dtype *k, impmem_dtype *v);

/* "NAME=TIER:BYTES" of --line. */
typedef struct flags_line {
    char name[IMPMEM_LINE_NAME_BYTES];
    impmem_tier tier;
    uint64_t bytes;
} flags_line;
void flags_demand_line(const char *flag, const char *text, flags_line *out);

#endif
