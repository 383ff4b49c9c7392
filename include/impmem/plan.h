/* impmem/plan.h - plan every byte before load. Floor 1, src/plan/plan*.c.
 *
 *   impmem_plan_input in = IMPMEM_PLAN_INPUT_INIT;
 *   in.model = &shape;
 *   in.budget_bytes = 24 * IMPMEM_GIB;
 *   in.max_batch = 8;
 *   in.max_seq_tokens = 32768;
 *   impmem_plan plan = IMPMEM_PLAN_INIT;
 *   impmem_plan_failure no = IMPMEM_PLAN_FAILURE_INIT;
 *   if (impmem_plan_memory(&in, &plan, &no)) return impmem_plan_failure_write(&no, impmem_write_file, stderr);
 *
 * impmem_plan_memory is a pure function: no device, no clock, no heap, no globals; the same input gives a byte-identical
 * plan. Any thread. Everything it needs is in the input; everything it decides is in the plan, which is plain data. */
#ifndef IMPMEM_PLAN_H
#define IMPMEM_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "impmem/dtype.h"
#include "impmem/features.h"
#include "impmem/line.h"
#include "impmem/shape.h"
#include "impmem/size.h"
#include "impmem/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define IMPMEM_PLAN_MAX_LINES 128u
#define IMPMEM_PLAN_MAX_REGIONS 32u
#define IMPMEM_PLAN_MAX_KV_GROUPS 16u
#define IMPMEM_PLAN_MAX_DEMANDS 64u
#define IMPMEM_PLAN_MAX_LEVERS 16u
#define IMPMEM_PLAN_MAX_KV_SIDES 16u
#define IMPMEM_PLAN_MAX_STATE_POOLS 8u
#define IMPMEM_PLAN_MAX_BATCHES 16u

enum {
    IMPMEM_LINE_STATE = 32,  /* + state pool index */
    IMPMEM_LINE_KV_SIDE = 96 /* + KV side index */
};

/* What a demand may depend on. */
typedef struct impmem_load {
    uint32_t tokens;  /* the largest prefill batch in tokens: prefill_tokens of the input, resolved */
    uint32_t batch;   /* max_batch */
    uint32_t context; /* max_seq_tokens */
} impmem_load;

/* A line that the engine declares itself. It is planned, charged, levered and reported like a built-in one.
 *
 * MODEL and ENGINE demands share one arena region each, TRANSIENT ones of either a third, SCRATCH ones the scratch
 * region; a PINNED demand is a region of page-locked memory of its own; STAGING is ordinary host memory, CHARGE device
 * memory that somebody else takes. What a region holds is rounded up to 256 bytes a line, charges and staging to nothing.
 *
 * OPTIONAL is for steady MODEL and ENGINE demands and for PINNED ones: granted in the order of declaration from what is
 * left beside everything mandatory and the smallest promised KV, whole or in part, down to multiples of 256 bytes; the
 * line says DROPPED and 0 bytes when nothing was left. Demands of 0 bytes make no line. */
typedef struct impmem_demand {
    impmem_line_id id; /* >= IMPMEM_LINE_USER, unique */
    impmem_tier tier;  /* MODEL, ENGINE, SCRATCH, STAGING, PINNED or CHARGE */
    uint32_t flags;    /* IMPMEM_LINE_OPTIONAL, IMPMEM_LINE_TRANSIENT (MODEL or ENGINE tier), IMPMEM_LINE_ESTIMATED */
    uint64_t bytes;    /* used when size is NULL */
    impmem_status (*size)(const void *context, const impmem_load *load,
                          uint64_t *out_bytes); /* pure; may be called often */
    const void *context;
    char name[IMPMEM_LINE_NAME_BYTES];
    char how[IMPMEM_LINE_HOW_BYTES]; /* shown as the formula */
} impmem_demand;

/* That many sequences of that many tokens, all at once. */
typedef struct impmem_plan_batch {
    uint32_t sequences;
    uint32_t tokens; /* of each */
} impmem_plan_batch;

typedef struct impmem_plan_input {
    uint32_t size;
    uint32_t version; /* 1 */
    const impmem_model_shape *model;
    uint64_t budget_bytes;        /* device: the plan's total, a hard cap. 0 = fail cleanly */
    uint64_t pinned_budget_bytes; /* 0 = no limit */
    uint64_t host_budget_bytes;   /* 0 = no limit */
    uint32_t max_batch;           /* sequences at once; 0 = 1 */
    uint32_t max_seq_tokens;      /* 0 = the model's trained context */
    uint32_t block_tokens;        /* 16..256, a multiple of 16; 0 = 16 */
    uint32_t prefill_tokens;      /* largest prefill batch; 0 = min(max_seq_tokens, 4096) */
    impmem_dtype kv_dtype_k;      /* 0 = f16 */
    impmem_dtype kv_dtype_v;
    /* The smallest load that must fit, in tokens of full context over all sequences. 0 = all of it, max_batch x
     * max_seq_tokens. Below it the plan is a failure; between it and the whole demand KV takes what is left. Counted in
     * whole blocks; never less than one sequence of max_seq_tokens, never more than the whole demand. Windows always have
     * room for the whole batch. */
    uint64_t promised_kv_tokens;
    uint64_t prefix_cache_tokens;   /* room for cached blocks on top of the demand, granted from what is left */
    uint64_t context_bytes;         /* device context and driver */
    uint64_t library_reserve_bytes; /* claimed by libraries on first use */
    uint32_t charges_estimated;     /* 1: the two above are a default, not measured; reports say so */
    uint64_t granule_bytes;         /* every region is rounded up to it; a power of two >= 256; 0 = 2 MiB */
    uint64_t commit_chunk_bytes;    /* growth step of the KV pools; 0 = 64 MiB; rounded up to the granule */
    uint32_t kv_initial_percent;    /* of the KV pools committed at open, 1..100; 0 = 100 */
    uint32_t journal_records;       /* of the ledger this plan will be opened on; 0 = 4096 */
    uint32_t extra_refs; /* shares beyond one reference per block; 0 = one for each position of the whole batch */
    const impmem_demand *demand;
    uint32_t n_demands; /* <= IMPMEM_PLAN_MAX_DEMANDS */
    /* Batches, each of which must fit by itself; with one sequence of max_seq_tokens they then are the smallest load,
     * together with promised_kv_tokens where that is not 0, and windows need no more than they do. What is left is given
     * out so that as many sequences of `typical` tokens as possible find room in every pool, up to the whole demand; the
     * rest is KV's that grows with the context. None: the rules above. `typical` of 0 tokens is max_seq_tokens; its
     * sequences are ignored. */
    uint32_t n_must_fit; /* <= IMPMEM_PLAN_MAX_BATCHES */
    const impmem_plan_batch *must_fit;
    impmem_plan_batch typical;
    const impmem_plan_features *features; /* NULL: none */
} impmem_plan_input;

#define IMPMEM_PLAN_INPUT_INIT                                                                                             \
    {                                                                                                                      \
        sizeof(impmem_plan_input), 1, 0, 0, 0, 0, 0, 0, 0, 0, IMPMEM_DTYPE_DEFAULT, IMPMEM_DTYPE_DEFAULT, 0, 0, 0, 0, 0,   \
            0, 0, 0, 0, 0, 0, 0, 0, 0, {0, 0}, 0                                                                           \
    }

/* Layers that share block geometry and lifetime: all full layers are one group; each distinct window is another, with ids
 * of its own. A block holds block_tokens tokens of every layer in its group, K then V per layer, layers in model order,
 * so that one block is one contiguous run of stride_bytes and a pool grows by committing a prefix. */
typedef struct impmem_kv_group {
    uint32_t window_tokens; /* 0 = full */
    uint32_t n_layers;
    uint32_t block_tokens;
    uint32_t blocks_per_sequence; /* at max_seq_tokens */
    uint64_t block_bytes;         /* payload of one block over the group's layers */
    uint64_t stride_bytes;        /* block_bytes rounded up to 256 */
    uint64_t blocks;              /* granted; below 2^31 */
    uint64_t blocks_demanded;     /* whole demand, prefix cache allowance and reserved blocks included */
    impmem_line_id line;
    uint32_t region;
    uint64_t reserved_blocks; /* of `blocks`, null, spare and fenced ones: no sequence can count on them */
    uint64_t capped_blocks;   /* of the demand, those that kernels with narrow offsets can't address */
    uint32_t of_draft;        /* 1: only the draft model has such layers */
    uint32_t reserved;
} impmem_kv_group;

/* Memory beside a group's blocks, addressed by their ids: a region of `blocks` times stride_bytes, committed whole when it
 * is opened. It has no ids and no references of its own. */
typedef enum impmem_kv_side_kind {
    IMPMEM_KV_SIDE_NONE = 0,
    IMPMEM_KV_SIDE_SCALES = 1, /* of quantised K and V */
    IMPMEM_KV_SIDE_BOUNDS = 2, /* of keys, for each block */
    IMPMEM_KV_SIDE_DRAFT = 3   /* KV of the draft model's layers */
} impmem_kv_side_kind;

typedef struct impmem_kv_side {
    uint32_t kind; /* impmem_kv_side_kind */
    uint32_t group;
    uint32_t n_layers;
    uint32_t region;
    impmem_line_id line;
    uint32_t reserved;
    uint64_t block_bytes;
    uint64_t stride_bytes; /* rounded up to 256 */
} impmem_kv_side;

/* Equal slots whatever the length of a sequence: a block pool with as many ids, never shared, never growing. */
typedef enum impmem_state_kind {
    IMPMEM_STATE_NONE = 0,
    IMPMEM_STATE_RECURRENT = 1,     /* a slot a sequence, and spare ones */
    IMPMEM_STATE_ROLLBACK = 2,      /* copies of it that undo rejected drafts */
    IMPMEM_STATE_SNAPSHOT = 3,      /* copies of it at prefix ends */
    IMPMEM_STATE_CROSS = 4,         /* K and V of the other input */
    IMPMEM_STATE_RESIDUAL_RING = 5, /* the newest tokens, unquantised */
    IMPMEM_STATE_DRAFT = 6          /* recurrent state of the draft model */
} impmem_state_kind;

typedef struct impmem_state_pool {
    uint32_t kind; /* impmem_state_kind */
    uint32_t n_layers;
    uint32_t slots;
    uint32_t region;
    impmem_line_id line;
    impmem_dtype conv_dtype, state_dtype; /* of recurrent state */
    uint32_t reserved;
    uint64_t slot_bytes;   /* over the layers */
    uint64_t stride_bytes; /* rounded up to 256, or to the granule */
} impmem_state_pool;

/* One acquisition from a backend, in the order of opening: T2, T1, transient, scratch, KV groups each with its sides, state
 * pools; then pinned lines. A POOL region belongs to a group, a side or a state pool. */
typedef struct impmem_plan_region {
    impmem_tier tier;
    impmem_account account;
    impmem_tag tag;
    uint32_t growable; /* 1: reserve `bytes`, commit `initial_bytes` */
    uint32_t transient;
    impmem_line_id line;    /* of a region that holds one (beside its rounding), else IMPMEM_NO_LINE */
    uint64_t bytes;         /* rounded up to the granule = sum of its lines, rounding line included. Growable and pinned
                                  regions have one holder, so their rounding is part of their line */
    uint64_t initial_bytes; /* = bytes unless growable */
} impmem_plan_region;

typedef struct impmem_plan {
    uint32_t size;
    uint32_t version; /* 1 */
    uint32_t n_lines;
    uint32_t n_regions;
    uint32_t n_kv_groups;
    uint32_t max_batch, max_seq_tokens, block_tokens, prefill_tokens; /* resolved */
    impmem_dtype kv_dtype_k, kv_dtype_v;
    uint64_t granule_bytes, commit_chunk_bytes;
    uint32_t journal_records, extra_refs;
    uint64_t budget_bytes[IMPMEM_N_ACCOUNTS]; /* UINT64_MAX = no limit */
    uint64_t total_bytes[IMPMEM_N_ACCOUNTS];  /* sum of the steady lines of the account, always <= budget */
    uint64_t load_peak_bytes;                 /* device, while loading: steady lines without KV, plus transient ones */
    uint64_t promised_kv_tokens;
    uint64_t kv_tokens;        /* full-context tokens the pools hold */
    uint64_t sequences_at_max; /* how many sequences of max_seq_tokens the pools hold at once */
    uint32_t n_kv_sides;
    uint32_t n_state_pools;
    impmem_line line[IMPMEM_PLAN_MAX_LINES]; /* charges, T2, T1, transient, scratch, KV, pinned, staging, dropped, control;
                                                   a region's lines stand together, its rounding after them */
    impmem_plan_region region[IMPMEM_PLAN_MAX_REGIONS];
    impmem_kv_group kv_group[IMPMEM_PLAN_MAX_KV_GROUPS];
    impmem_kv_side kv_side[IMPMEM_PLAN_MAX_KV_SIDES];
    impmem_state_pool state_pool[IMPMEM_PLAN_MAX_STATE_POOLS];
} impmem_plan;
#define IMPMEM_PLAN_NO_LINE_INIT                                                                                           \
    {                                                                                                                      \
        0, IMPMEM_TIER_CHARGE, IMPMEM_ACCOUNT_DEVICE, IMPMEM_TAG_OTHER, 0, 0, 0, 0, "", ""                                 \
    }
#define IMPMEM_PLAN_INIT                                                                                                   \
    {                                                                                                                      \
        sizeof(impmem_plan), 1, 0, 0, 0, 0, 0, 0, 0, IMPMEM_DTYPE_DEFAULT, IMPMEM_DTYPE_DEFAULT, 0, 0, 0, 0, {0, 0, 0},    \
            {0, 0, 0}, 0, 0, 0, 0, 0, 0, {IMPMEM_PLAN_NO_LINE_INIT},                                                       \
            {{IMPMEM_TIER_CHARGE, IMPMEM_ACCOUNT_DEVICE, IMPMEM_TAG_OTHER, 0, 0, 0, 0, 0}},                                \
            {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}, {{0, 0, 0, 0, 0, 0, 0, 0}},                                      \
        {                                                                                                                  \
            {                                                                                                              \
                0, 0, 0, 0, 0, IMPMEM_DTYPE_DEFAULT, IMPMEM_DTYPE_DEFAULT, 0, 0, 0                                         \
            }                                                                                                              \
        }                                                                                                                  \
    }

typedef enum impmem_lever_kind {
    IMPMEM_LEVER_NONE = 0,
    IMPMEM_LEVER_CONTEXT = 1,  /* --max-seq-len */
    IMPMEM_LEVER_BATCH = 2,    /* --max-batch */
    IMPMEM_LEVER_KV_DTYPE = 3, /* --kv-dtype */
    IMPMEM_LEVER_PREFILL = 4,  /* --prefill-tokens */
    IMPMEM_LEVER_PROMISE = 5,  /* --promised-kv-tokens: let the pool be smaller than batch x context */
    IMPMEM_LEVER_BUDGET = 6,   /* --budget: the smallest that fits */
    IMPMEM_LEVER_BLOCK = 7,    /* --block-size */
    IMPMEM_LEVER_V_DTYPE = 8,  /* --kv-dtype K,V: V alone */
    IMPMEM_LEVER_K_DTYPE = 9,  /* --kv-dtype K,V: K alone */
    IMPMEM_LEVER_DRAFT = 10,   /* --no-draft */
    IMPMEM_LEVER_VISION = 11,  /* --no-vision */
    IMPMEM_LEVER_TP = 12       /* --tp: over more of the features' tp_devices */
} impmem_lever_kind;

/* A change that was planned again and fits: the smallest of its kind, never one that is in force already. Optional lines
 * are none: they give way by themselves. Where no single change is enough but a larger budget, two together, of which the
 * second is the smallest; where no two are, the failure says what conflicts. */
typedef struct impmem_lever {
    impmem_lever_kind kind;
    impmem_lever_kind second; /* NONE: one change alone */
    uint64_t from, to;        /* tokens, sequences, dtype, ranks or bytes, by kind; 1 and 0 for what is turned off */
    uint64_t second_from, second_to;
    uint64_t frees_bytes; /* requested now minus requested then; for BUDGET the bytes to add */
    uint64_t total_bytes; /* device total of the plan with this change; of the fullest device for TP */
    char flag[96];        /* "--max-seq-len 2976": works when pasted */
    char change[96];      /* "4096 -> 2976" */
} impmem_lever;

/* Makes the change to an input, that of TP apart (see impmem/plan_ranks.h). `features` is where changed features are kept:
 * the input points there afterwards, so that it must outlive it; it may be what the input points at already. BAD_VALUE: no
 * such change. */
IMPMEM_NODISCARD impmem_status impmem_lever_apply(const impmem_lever *lever, impmem_plan_input *input,
                                                  impmem_plan_features *features);

#define IMPMEM_PLAN_MAX_CONFLICT 8u

typedef struct impmem_plan_failure {
    uint32_t size;
    uint32_t version;       /* 1 */
    impmem_error why;       /* always written on failure */
    impmem_account account; /* which budget was too small (DOES_NOT_FIT) */
    uint64_t budget_bytes;
    uint64_t requested_bytes; /* the smallest promised load, all lines of the account */
    uint64_t over_bytes;      /* requested - budget */
    uint32_t max_batch, max_seq_tokens, block_tokens, prefill_tokens;
    impmem_dtype kv_dtype_k, kv_dtype_v;
    uint64_t sequences_at_max; /* how many would have fitted beside the fixed lines */
    uint32_t n_lines;
    impmem_line line[IMPMEM_PLAN_MAX_LINES]; /* as requested: KV at the promised load */
    uint32_t n_levers;                       /* most freed per change first */
    impmem_lever lever[IMPMEM_PLAN_MAX_LEVERS];
    /* When nothing but the budget helps, on the device: what the least load needs (one block, one sequence, the smallest KV
     * type, nothing that can be turned off), by how much that is over, and the fewest of its lines that are too much
     * together. 0 lines: the least load fits, and three changes or more are needed. */
    uint64_t least_bytes, gap_bytes;
    uint32_t n_conflict;
    uint32_t reserved;
    struct {
        impmem_line_id line;
        uint32_t reserved;
        uint64_t bytes; /* at the least load */
        char name[IMPMEM_LINE_NAME_BYTES];
    } conflict[IMPMEM_PLAN_MAX_CONFLICT];
} impmem_plan_failure;
#define IMPMEM_PLAN_FAILURE_INIT                                                                                           \
    {                                                                                                                      \
        sizeof(impmem_plan_failure), 1, IMPMEM_ERROR_INIT, IMPMEM_ACCOUNT_DEVICE, 0, 0, 0, 0, 0, 0, 0,                     \
            IMPMEM_DTYPE_DEFAULT, IMPMEM_DTYPE_DEFAULT, 0, 0, {IMPMEM_PLAN_NO_LINE_INIT}, 0,                               \
            {{IMPMEM_LEVER_NONE, IMPMEM_LEVER_NONE, 0, 0, 0, 0, 0, 0, "", ""}}, 0, 0, 0, 0,                                \
        {                                                                                                                  \
            {                                                                                                              \
                0, 0, 0, ""                                                                                                \
            }                                                                                                              \
        }                                                                                                                  \
    }

/* Writes *out on success only, *failure (nullable) on failure only; both must come from their _INIT, or be zeroed.
 *   IMPMEM_ERR_DOES_NOT_FIT  failure has the full arithmetic and the levers, also when the total would fit but KV
 *                            would hold less than the promised load
 *   INVALID_ARGUMENT, VERSION, BAD_VALUE, OVERFLOW  failure->why says which field */
IMPMEM_NODISCARD impmem_status impmem_plan_memory(const impmem_plan_input *input, impmem_plan *out,
                                                  impmem_plan_failure *failure);

/* The same decision without levers (failure->n_levers is 0): for searches. */
IMPMEM_NODISCARD impmem_status impmem_plan_memory_only(const impmem_plan_input *input, impmem_plan *out,
                                                       impmem_plan_failure *failure);

/* The view that a ledger is created from; points into *plan. */
impmem_lines impmem_plan_lines(const impmem_plan *plan);
const impmem_line *impmem_plan_find_line(const impmem_plan *plan, impmem_line_id id); /* NULL: none */

enum { IMPMEM_LINE_REFERENCE = 0x4000 };
/* The reference engine's own buffers as caller-declared lines: executor workspaces (T2), GEMM workspace and sampling
 * (T2), forward scratch (T4), from the shape, all flagged ESTIMATED, with ids from IMPMEM_LINE_REFERENCE up. Writes at
 * most `capacity` demands; *out_n says how many there are, also with EXHAUSTED, when capacity is too small. The demands
 * point at *shape. */
IMPMEM_NODISCARD impmem_status impmem_reference_demands(const impmem_model_shape *shape, impmem_demand *out,
                                                        uint32_t capacity, uint32_t *out_n);

/* ---- device charges ------------------------------------------------------------------------------------------------ */

typedef struct impmem_device_profile {
    uint32_t size;
    uint32_t version;     /* 1 */
    char name[48];        /* "h200" */
    char source[96];      /* "measured 2026-11-29, driver 580, CUDA 13.0" */
    uint64_t total_bytes; /* 0 = unknown */
    uint64_t context_bytes;
    uint64_t library_reserve_bytes;
    uint64_t granule_bytes;
    uint32_t estimated; /* 1: some of the figures are a default */
} impmem_device_profile;
#define IMPMEM_DEVICE_PROFILE_INIT                                                                                         \
    {                                                                                                                      \
        sizeof(impmem_device_profile), 1, "", "", 0, 0, 0, 0, 0                                                            \
    }

/* The built-in default (index 0), then the shipped table of measured cards. NULL beyond the end. */
const impmem_device_profile *impmem_device_profile_at(uint32_t index);
const impmem_device_profile *impmem_device_profile_find(const char *name); /* case-insensitive; NULL: none */
/* Sets the two charges, whether they are estimated, and the granule; not the budget. NULL changes nothing. */
void impmem_plan_input_use_profile(impmem_plan_input *input, const impmem_device_profile *profile);

#ifdef __cplusplus
}
#endif
#endif
