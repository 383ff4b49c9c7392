/* impmem/line.h - tiers, accounts, tags and plan lines: the words that planner, ledger and allocators share.
 * Floor 0, implemented by src/core/line.c. Plain data; any thread.
 */
#ifndef IMPMEM_LINE_H
#define IMPMEM_LINE_H

#include <stdint.h>

#include "impmem/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whose budget a byte counts against. */
typedef enum impmem_account {
    IMPMEM_ACCOUNT_DEVICE = 0,   /* device memory */
    IMPMEM_ACCOUNT_PINNED = 1,   /* page-locked host memory */
    IMPMEM_ACCOUNT_PAGEABLE = 2, /* ordinary host memory: control structures, load staging */
    IMPMEM_N_ACCOUNTS = 3
} impmem_account;

/* How long a byte lives, and so which allocator owns it. X(name, value, text). */
#define IMPMEM_TIER_MAP(X)                                                                                                 \
    X(CHARGE, 0, "charge")   /* not ours: context, library reserve. Subtracted, never acquired */                          \
    X(MODEL, 1, "model")     /* T1: model load to unload; bump arena */                                                    \
    X(ENGINE, 2, "engine")   /* T2: life of the engine; bump arena */                                                      \
    X(POOL, 3, "pool")       /* T3: equal blocks, request-scoped, counted */                                               \
    X(SCRATCH, 4, "scratch") /* T4: one forward pass; LIFO stack */                                                        \
    X(STAGING, 5, "staging") /* T5a: host memory during load only */                                                       \
    X(PINNED, 6, "pinned")   /* T5b: page-locked host memory for the life of the engine */                                 \
    X(CONTROL, 7, "control") /* host memory of the library's own tables */

typedef enum impmem_tier {
#define IMPMEM_TIER_ENUM(name, value, text) IMPMEM_TIER_##name = value,
    IMPMEM_TIER_MAP(IMPMEM_TIER_ENUM)
#undef IMPMEM_TIER_ENUM
        IMPMEM_N_TIERS = 8
} impmem_tier;

/* What an operator sees a region called. A tag is a thing, not a call site. X(name, value, text). */
#define IMPMEM_TAG_MAP(X)                                                                                                  \
    X(OTHER, 0, "other")                                                                                                   \
    X(MODEL_RESIDENT, 1, "model_resident")                                                                                 \
    X(ENGINE_PERSISTENT, 2, "engine_persistent")                                                                           \
    X(KV_BLOCKS, 3, "kv_blocks")                                                                                           \
    X(WINDOW_BLOCKS, 4, "window_blocks")                                                                                   \
    X(RECURRENT_STATE, 5, "recurrent_state")                                                                               \
    X(RESIDUAL_RING, 6, "residual_ring")                                                                                   \
    X(SNAPSHOTS, 7, "snapshots")                                                                                           \
    X(FORWARD_SCRATCH, 8, "forward_scratch")                                                                               \
    X(HOST_STAGING, 9, "host_staging")                                                                                     \
    X(HOST_PINNED, 10, "host_pinned")                                                                                      \
    X(HOST_CONTROL, 11, "host_control")                                                                                    \
    X(CONTEXT, 12, "context")                                                                                              \
    X(LIBRARY_RESERVE, 13, "library_reserve")                                                                              \
    X(LOAD_TRANSIENT, 14, "load_transient")

typedef enum impmem_tag {
#define IMPMEM_TAG_ENUM(name, value, text) IMPMEM_TAG_##name = value,
    IMPMEM_TAG_MAP(IMPMEM_TAG_ENUM)
#undef IMPMEM_TAG_ENUM
        IMPMEM_N_TAGS = 15
} impmem_tag;

const char *impmem_account_name(impmem_account account); /* "device" ...; "?" when out of range; never NULL */
const char *impmem_tier_name(impmem_tier tier);
const char *impmem_tag_name(impmem_tag tag);

typedef uint32_t impmem_line_id;

/* Built-in line ids. A caller's own lines take ids >= IMPMEM_LINE_USER, chosen by the caller, unique within a plan. */
enum {
    IMPMEM_LINE_CONTEXT = 1, /* device context and driver */
    IMPMEM_LINE_LIBRARY = 2, /* claimed by libraries on first use */
    IMPMEM_LINE_WEIGHTS = 3,
    IMPMEM_LINE_KV = 16, /* first KV group; group g is IMPMEM_LINE_KV + g, up to 16 groups */
    IMPMEM_LINE_SCRATCH = 40,
    IMPMEM_LINE_HOST_CONTROL = 48,
    IMPMEM_LINE_ROUNDING = 64, /* + region index: what rounding that region up to the granule costs */
    IMPMEM_LINE_USER = 1024
};

enum {
    IMPMEM_LINE_OPTIONAL = 1u << 0,  /* granted from what is left after the smallest promised load; may be dropped */
    IMPMEM_LINE_TRANSIENT = 1u << 1, /* lives during loading only; gone before the KV pools open */
    IMPMEM_LINE_ESTIMATED = 1u << 2, /* derived, not read or measured */
    IMPMEM_LINE_DROPPED = 1u << 3    /* optional and not granted: bytes is 0 */
};

#define IMPMEM_LINE_NAME_BYTES 40
#define IMPMEM_LINE_HOW_BYTES 120

/* One line of a plan. */
typedef struct impmem_line {
    impmem_line_id id;
    impmem_tier tier;
    impmem_account account;
    impmem_tag tag;
    uint32_t flags;                    /* IMPMEM_LINE_OPTIONAL | ... */
    uint32_t region;                   /* index of the plan region that holds it; UINT32_MAX for a charge */
    uint64_t bytes;                    /* what it takes of its account */
    uint64_t demand_bytes;             /* what it asked for; differs from `bytes` only when optional */
    char name[IMPMEM_LINE_NAME_BYTES]; /* "weights", "KV cache" */
    char how[IMPMEM_LINE_HOW_BYTES];   /* the formula with its numbers */
} impmem_line;

/* A read-only view of lines with the hard budgets they were planned against: what a ledger is created from. */
typedef struct impmem_lines {
    const impmem_line *line;
    uint32_t n_lines;
    uint64_t budget_bytes[IMPMEM_N_ACCOUNTS]; /* UINT64_MAX = no limit */
} impmem_lines;

#ifdef __cplusplus
}
#endif
#endif
