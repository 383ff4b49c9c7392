/* plan_verb.h - what the files of `impmem plan` share, and what other verbs that plan use of it. */
#ifndef IMPMEM_COMMAND_PLAN_VERB_H
#define IMPMEM_COMMAND_PLAN_VERB_H

#include <stdbool.h>

#include "flags.h"
#include "impmem/model.h"
#include "impmem/plan_ranks.h"
#include "impmem/plan_search.h"

/* Ranges of what is counted in 32 bits; the planner's own limits are tighter for some models, and say so. */
#define PLAN_MAX_SEQUENCES 1048576u
#define PLAN_MAX_TOKENS 2147483647u

/* --weight-cache KIND[:optional] */
typedef struct plan_cache_flag {
    impmem_dtype dtype;
    bool optional;
} plan_cache_flag;

/* What the engine does beyond attention over weights, as it was asked for. Zero is off. */
typedef struct plan_feature_flags {
    const char *draft_path;  /* --draft */
    const char *mmproj_path; /* --mmproj */
    uint32_t draft_tokens;
    uint32_t images;
    bool no_draft, no_vision; /* stronger than the flags above: levers are added at the end of a line */
    bool logprobs;
    bool graphs_accepted;
    uint32_t graphs;
    uint64_t graph_bytes, graph_exec_bytes; /* of each */
    uint32_t lora_slots;
    uint32_t devices;
    uint64_t lora_slot_bytes;
    uint64_t snapshot_bytes, headroom_bytes, communication_bytes;
    impmem_dtype state_dtype;
    uint32_t n_caches;
    plan_cache_flag cache[IMPMEM_MAX_WEIGHT_CACHES];
    uint32_t n_must_fit;
    impmem_plan_batch must_fit[IMPMEM_PLAN_MAX_BATCHES];
    impmem_plan_batch typical; /* 0 tokens: not given */
} plan_feature_flags;

/* --tp, --pp, --ep, --rank-budgets: 0 is not given. */
typedef struct plan_layout_flags {
    uint32_t tp, pp, ep;
    uint32_t n_stages; /* of --pp N:LAYERS,... */
    uint32_t stage_layers[IMPMEM_MAX_RANKS];
    uint32_t n_budgets;
    uint64_t budget_bytes[IMPMEM_MAX_RANKS];
} plan_layout_flags;

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
    bool cards;
    bool explain;
    const char *against;           /* a model or a plan's JSON; NULL: none */
    const char *observed;          /* measured lines; NULL: none */
    const char *svg;               /* where the picture goes; NULL: nowhere */
    uint32_t tolerance_hundredths; /* of a percent */
    bool has_tolerance;
    bool given_features; /* any flag of the two below */
    plan_feature_flags feature;
    plan_layout_flags layout;
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
    PLAN_KEY_ENGINE_ARGS,
    PLAN_KEY_CARDS,
    PLAN_KEY_AGAINST,
    PLAN_KEY_OBSERVED,
    PLAN_KEY_TOLERANCE,
    PLAN_KEY_EXPLAIN,
    PLAN_KEY_SVG,
    PLAN_KEY_TP,
    PLAN_KEY_PP,
    PLAN_KEY_EP,
    PLAN_KEY_RANK_BUDGETS,
    PLAN_KEY_DRAFT,
    PLAN_KEY_DRAFT_TOKENS,
    PLAN_KEY_NO_DRAFT,
    PLAN_KEY_MMPROJ,
    PLAN_KEY_IMAGES,
    PLAN_KEY_NO_VISION,
    PLAN_KEY_LORA,
    PLAN_KEY_GRAPHS,
    PLAN_KEY_GRAPHS_ACCEPTED,
    PLAN_KEY_LOGPROBS,
    PLAN_KEY_WEIGHT_CACHE,
    PLAN_KEY_STATE_DTYPE,
    PLAN_KEY_SNAPSHOTS,
    PLAN_KEY_HEADROOM,
    PLAN_KEY_COMMUNICATION,
    PLAN_KEY_DEVICES,
    PLAN_KEY_MUST_FIT,
    PLAN_KEY_TYPICAL
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
     "one more buffer of the engine; TIER is model, engine, scratch, staging, pinned or charge; may be repeated", 2},      \
    {"must-fit", PLAN_KEY_MUST_FIT, "BxL", 0, "B sequences of L tokens that must fit at once; may be repeated", 1},       \
    {"typical", PLAN_KEY_TYPICAL, "BxL", 0, "the usual load, for which unlike pools are balanced", 1},                    \
    {"headroom", PLAN_KEY_HEADROOM, "SIZE", 0, "left alone, on top of everything (0)", 2},                                \
    {0, 0, 0, 0, "What else the engine does:", -4},                                                                       \
    {"draft", PLAN_KEY_DRAFT, "MODEL", 0, "speculative decoding with that model", -4},                                    \
    {"draft-tokens", PLAN_KEY_DRAFT_TOKENS, "K", 0, "tokens drafted at once; without --draft by the model's own layers",  \
     -4},                                                                                                                 \
    {"no-draft", PLAN_KEY_NO_DRAFT, 0, 0, "no speculative decoding, whatever the line says before", -4},                  \
    {"mmproj", PLAN_KEY_MMPROJ, "FILE", 0, "the vision tower, where it has a file of its own", -4},                       \
    {"images", PLAN_KEY_IMAGES, "N", 0, "images encoded at once (1 with --mmproj, else 0)", -4},                          \
    {"no-vision", PLAN_KEY_NO_VISION, 0, 0, "no images, and no tower is loaded, whatever the line says before", -4},      \
    {"lora", PLAN_KEY_LORA, "SLOTS:SIZE", 0, "slots for adapters of that size each", -4},                                 \
    {"graphs", PLAN_KEY_GRAPHS, "N:SIZE[:EXEC]", 0,                                                                       \
     "N captured graphs that share a pool of SIZE; EXEC of driver memory for each", -4},                                  \
    {"graphs-accepted", PLAN_KEY_GRAPHS_ACCEPTED, 0, 0, "graph memory above half of the device is meant so", -4},         \
    {"logprobs", PLAN_KEY_LOGPROBS, 0, 0, "log-probabilities of whole prompts", -4},                                      \
    {"weight-cache", PLAN_KEY_WEIGHT_CACHE, "T[:optional]", 0,                                                            \
     "weights a second time as f16, bf16, fp8, int8 or nvfp4; may be repeated", -4},                                      \
    {"state-dtype", PLAN_KEY_STATE_DTYPE, "T", 0, "element type of recurrent state: f32, bf16 or f16 (f32)", -4},         \
    {"snapshots", PLAN_KEY_SNAPSHOTS, "SIZE", 0, "room for copies of recurrent state at prefix ends (0)", -4},            \
    {"communication", PLAN_KEY_COMMUNICATION, "SIZE", 0,                                                                  \
     "buffers of collectives on each device, measured; required with more than one", -4},                                 \
    {"devices", PLAN_KEY_DEVICES, "N", 0, "equal devices at hand, so that a refusal can propose --tp (1)", -4}
/* clang-format on */

/* False: the key is none of these. Takes --json and the MODEL argument too. */
bool plan_flags_take(plan_flags *flags, int key, char *argument);
bool plan_feature_flags_take(plan_feature_flags *flags, int key, const char *argument);
bool plan_layout_flags_take(plan_layout_flags *flags, int key, const char *argument);
/* Leaves with COMMAND_USAGE when MODEL or --budget is missing, or flags contradict each other. */
void plan_flags_require(const plan_flags *flags, const char *verb);
void plan_flags_parse(int argc, char **argv, plan_flags *out);
/* Whether the flags ask for a plan a rank instead of one plan. */
bool plan_flags_several_ranks(const plan_flags *flags);

/* The planner's input for these flags, and what it points at. */
typedef struct plan_prepared {
    plan_question question;
    impmem_device_profile profile;
    impmem_model *model;
    impmem_model *draft; /* NULL: none */
    impmem_plan_features features;
    uint64_t graph_bytes[IMPMEM_MAX_GRAPHS];
    impmem_demand demand[IMPMEM_PLAN_MAX_DEMANDS];
    impmem_plan_input input;
} plan_prepared;

/* Reads model and profile. COMMAND_DONE, or a complaint was made and nothing is open. `flags` must outlive it. */
int plan_prepare(const plan_flags *flags, plan_prepared *out);
/* The same; without `needs_context` a model that doesn't tell its trained context needs no --max-seq-len. */
int plan_prepare_load(const plan_flags *flags, bool needs_context, plan_prepared *out);
void plan_prepared_close(plan_prepared *prepared);
/* Fills features, and the model's tower from --mmproj; COMMAND_DONE, or a complaint was made. */
int plan_features_prepare(const plan_flags *flags, plan_prepared *out);
/* Bytes of all routed experts, by their share of the matrices that the geometry implies; 0: none. */
uint64_t plan_expert_bytes(const impmem_model_shape *shape);
/* The planner found the input to be nonsense: complains of the model or of the flags, whichever is to blame. */
int plan_refuse_input(const plan_prepared *prepared, const impmem_error *why);

/* `impmem plan MODEL --engine E`: the engine's profile in place of a plan; an exit code. */
int plan_engine(const plan_flags *flags);

/* The other answers of `impmem plan`, each an exit code. */
int plan_cards(const plan_prepared *prepared);
int plan_ranks(const plan_prepared *prepared);
int plan_against(const plan_prepared *prepared);
int plan_observed(const plan_prepared *prepared);

/* "memory", "trained length", "numbering" */
const char *plan_fit_limit_text(impmem_fit_limit limit);

/* What a failure has of a plan: load, budget, lines and their sums; for comparing, drawing and explaining. */
void plan_of_failure(const impmem_plan_failure *failure, impmem_plan *out);
/* The same without what the failure can't explain. */
void plan_to_explain(const impmem_plan_failure *failure, impmem_plan *out);
/* Each line's formula and its operands; the status of the writing. */
impmem_status plan_json_explained(const impmem_plan_input *input, const impmem_plan *plan);
/* Draws the plan, or the failure where that is not NULL; COMMAND_DONE, or a complaint was made. */
int plan_svg(const plan_question *question, const impmem_plan *plan, const impmem_plan_failure *failure);

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
/* Model and device, and an empty line. */
void plan_print_head(const plan_question *question);
/* "\"model\": {...},\n\"device\": {...}" inside an object. */
impmem_status plan_print_head_json(const plan_question *question);
/* Reports on standard output; the status of the writing. A failed plan has `plan` NULL, a fitting one `failure` NULL; `opening`
 * is NULL without --open, `explained` without --explain. */
impmem_status plan_print_text(const plan_question *question, const impmem_plan *plan, const impmem_plan_failure *failure,
                              const plan_opening *opening, const impmem_plan_input *explained);
impmem_status plan_print_json(const plan_question *question, const impmem_plan *plan, const impmem_plan_failure *failure,
                              const plan_opening *opening, const impmem_plan_input *explained);
/* Either of them, as --json says, and the exit code that follows. */
int plan_print_failure(const plan_prepared *prepared, const impmem_plan_failure *failure);

#endif
