/* plan_verb.h - what the files of `impmem plan` share, and what other verbs that plan use of it. */
#ifndef IMPMEM_COMMAND_PLAN_VERB_H
#define IMPMEM_COMMAND_PLAN_VERB_H

#include <stdbool.h>

#include "flags.h"
#include "impmem/model.h"
#include "impmem/plan.h"

typedef struct plan_flags {
    const char *model_path;
    const char *profile_name; /* NULL: the default */
    uint64_t budget_bytes;
    uint64_t promised_kv_tokens;
    uint64_t prefix_cache_tokens;
    uint64_t granule_bytes; /* 0: the profile's */
    uint32_t max_batch;
    uint32_t max_seq_tokens; /* 0: the trained context */
    uint32_t block_tokens;
    uint32_t prefill_tokens;
    impmem_dtype kv_dtype_k, kv_dtype_v;
    bool has_budget;
    bool no_workspaces; /* --workspaces none */
    bool json;
    bool open;
    const char *engine;      /* --engine: predict what that engine takes instead of planning; NULL: plan */
    const char *engine_args; /* NULL: none */
    uint32_t n_lines;
    flags_line line[IMPMEM_PLAN_MAX_DEMANDS];
} plan_flags;

/* What a plan was made from, for the head of its report. */
typedef struct plan_question {
    const plan_flags *flags;
    const impmem_model *model;
    const impmem_device_profile *profile;
} plan_question;

/* The flags that say what to plan, for every verb that plans: keys, and the rows of their options table (groups 1 and 2). */
enum {
    PLAN_KEY_BUDGET = 0x200,
    PLAN_KEY_BATCH,
    PLAN_KEY_CONTEXT,
    PLAN_KEY_KV_DTYPE,
    PLAN_KEY_BLOCK,
    PLAN_KEY_PREFILL,
    PLAN_KEY_PROMISED,
    PLAN_KEY_PREFIX,
    PLAN_KEY_PROFILE,
    PLAN_KEY_WORKSPACES,
    PLAN_KEY_LINE,
    PLAN_KEY_GRANULE,
    PLAN_KEY_JSON,
    PLAN_KEY_OPEN,
    PLAN_KEY_ENGINE,
    PLAN_KEY_ENGINE_ARGS
};
/* clang-format off */
#define PLAN_FLAG_ROWS                                                                                                    \
    {0, 0, 0, 0, "The load:", 1},                                                                                         \
    {"budget", PLAN_KEY_BUDGET, "SIZE", 0, "device memory to plan in: 24GiB, 512MiB or bytes (required)", 1},             \
    {"max-batch", PLAN_KEY_BATCH, "N", 0, "sequences at once (1)", 1},                                                    \
    {"max-seq-len", PLAN_KEY_CONTEXT, "N", 0, "tokens of one sequence (the model's trained context)", 1},                 \
    {"kv-dtype", PLAN_KEY_KV_DTYPE, "T|K,V", 0, "element type of the KV cache, or of K and V (f16)", 1},                  \
    {"block-size", PLAN_KEY_BLOCK, "N", 0, "tokens of a KV block, a multiple of 16 from 16 to 256 (16)", 1},              \
    {"prefill-tokens", PLAN_KEY_PREFILL, "N", 0, "largest prefill batch (the smaller of the context and 4096)", 1},       \
    {"promised-kv-tokens", PLAN_KEY_PROMISED, "N", 0,                                                                     \
     "smallest KV load that must fit, in tokens over all sequences (all)", 1},                                            \
    {"prefix-cache-tokens", PLAN_KEY_PREFIX, "N", 0, "room for cached prefixes, granted from what is left (0)", 1},       \
    {0, 0, 0, 0, "The device and the engine:", 2},                                                                        \
    {"device-profile", PLAN_KEY_PROFILE, "FILE|NAME", 0,                                                                  \
     "what the device itself takes: a JSON file or a known device (default)", 2},                                         \
    {"granule", PLAN_KEY_GRANULE, "SIZE", 0, "unit of physical memory, a power of two from 256 on (the profile's)", 2},   \
    {"workspaces", PLAN_KEY_WORKSPACES, "KIND", 0, "the engine's own buffers: reference, or none (reference)", 2},        \
    {"line", PLAN_KEY_LINE, "NAME=TIER:SIZE", 0,                                                                          \
     "one more buffer of the engine; TIER is model, engine, scratch, staging, pinned or charge; may be repeated", 2}
/* clang-format on */

/* False: the key is none of these. Takes --json and the MODEL argument too. */
bool plan_flags_take(plan_flags *flags, int key, char *argument);
/* Leaves with COMMAND_USAGE when MODEL or --budget is missing. */
void plan_flags_require(const plan_flags *flags, const char *verb);
void plan_flags_parse(int argc, char **argv, plan_flags *out);

/* The planner's input for these flags, and what it points at. */
typedef struct plan_prepared {
    plan_question question;
    impmem_device_profile profile;
    impmem_model *model;
    impmem_demand demand[IMPMEM_PLAN_MAX_DEMANDS];
    impmem_plan_input input;
} plan_prepared;

/* Reads model and profile. COMMAND_DONE, or a complaint was made and nothing is open. `flags` must outlive it. */
int plan_prepare(const plan_flags *flags, plan_prepared *out);
void plan_prepared_close(plan_prepared *prepared);
/* The planner found the input to be nonsense: complains of the model or of the flags, whichever is to blame. */
int plan_refuse_input(const plan_prepared *prepared, const impmem_error *why);

/* `impmem plan MODEL --engine E`: the engine's profile in place of a plan; an exit code. */
int plan_engine(const plan_flags *flags);

/* The outcome of opening the plan on the fake backend: one row a plan line. */
typedef struct plan_opening_row {
    uint64_t
        journal_bytes; /* what the journal says was charged, acquired and committed for the line, less what was given back */
    bool equal;
} plan_opening_row;

typedef struct plan_opening {
    const char *failed_step; /* NULL: every step of the engine's life succeeded */
    impmem_error why;        /* of the failed step */
    bool compared;           /* the rows below are filled */
    uint32_t n_equal;
    plan_opening_row row[IMPMEM_PLAN_MAX_LINES];
    uint64_t unplanned_bytes; /* journal bytes on no line of the plan */
    uint64_t serving_acquisitions;
    uint64_t live_bytes[IMPMEM_N_ACCOUNTS]; /* after closing, without the ledger's own tables */
    bool good;                              /* all equal, nothing unplanned, nothing left */
} plan_opening;

/* Opens the plan, serves, closes. Never fails itself: what went wrong is in *out. */
void plan_open_on_fake(const impmem_plan *plan, plan_opening *out);

/* Text out of a file, which may hold anything: one line stays one line. */
void plan_print_clean(const char *text);
/* Reports on standard output; the status of the writing. A failed plan has `plan` NULL, a fitting one `failure` NULL; `opening`
 * is NULL without --open. */
impmem_status plan_print_text(const plan_question *question, const impmem_plan *plan, const impmem_plan_failure *failure,
                              const plan_opening *opening);
impmem_status plan_print_json(const plan_question *question, const impmem_plan *plan, const impmem_plan_failure *failure,
                              const plan_opening *opening);

#endif
