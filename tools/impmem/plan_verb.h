/* plan_verb.h - what the files of `impmem plan` share. */
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
    uint32_t n_lines;
    flags_line line[IMPMEM_PLAN_MAX_DEMANDS];
} plan_flags;

/* What a plan was made from, for the head of its report. */
typedef struct plan_question {
    const plan_flags *flags;
    const impmem_model *model;
    const impmem_device_profile *profile;
} plan_question;

void plan_flags_parse(int argc, char **argv, plan_flags *out);

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

/* Reports on standard output; the status of the writing. A failed plan has `plan` NULL, a fitting one `failure` NULL; `opening`
 * is NULL without --open. */
impmem_status plan_print_text(const plan_question *question, const impmem_plan *plan, const impmem_plan_failure *failure,
                              const plan_opening *opening);
impmem_status plan_print_json(const plan_question *question, const impmem_plan *plan, const impmem_plan_failure *failure,
                              const plan_opening *opening);

#endif
