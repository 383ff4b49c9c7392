/* impmem/engine_profile.h - what llama.cpp, ik_llama.cpp, vLLM and SGLang take for KV and recurrent state, by those engines'
 * own rules. Floor 1, src/plan/profile_engine*.c. Pure functions: no I/O, no heap; any thread.
 *
 *   impmem_engine_profile_args args = IMPMEM_ENGINE_PROFILE_ARGS_INIT;
 *   args.n_ctx = 16384;
 *   args.kv_dtype_k = args.kv_dtype_v = IMPMEM_DTYPE_Q8_0;
 *   static impmem_engine_profile profile;
 *   if (impmem_engine_profile_predict(IMPMEM_ENGINE_LLAMA_CPP, &shape, &args, &profile, &why)) ...
 *   for (uint32_t i = 0; i < profile.n_lines; i++) puts(profile.line[i].name);
 *
 * This is about other engines than the one that impmem_plan_memory plans: it predicts what they print, so that a plan can be
 * held against what runs today. Weights and compute buffers are not predicted. docs/engine-profiles.md has the rules, with
 * measured figures. Where no rule is known, the answer is an error, never a guess.
 */
#ifndef IMPMEM_ENGINE_PROFILE_H
#define IMPMEM_ENGINE_PROFILE_H

#include <stdint.h>

#include "impmem/dtype.h"
#include "impmem/shape.h"
#include "impmem/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, text) */
#define IMPMEM_ENGINE_KIND_MAP(X)                                                                                          \
    X(LLAMA_CPP, 1, "llama.cpp")                                                                                           \
    X(IK_LLAMA_CPP, 2, "ik_llama.cpp")                                                                                     \
    X(VLLM, 3, "vllm")                                                                                                     \
    X(SGLANG, 4, "sglang")

typedef enum impmem_engine_kind {
#define IMPMEM_ENGINE_KIND_ENUM(name, value, text) IMPMEM_ENGINE_##name = value,
    IMPMEM_ENGINE_KIND_MAP(IMPMEM_ENGINE_KIND_ENUM)
#undef IMPMEM_ENGINE_KIND_ENUM
} impmem_engine_kind;

const char *impmem_engine_kind_name(impmem_engine_kind kind); /* "?" when out of range */
/* The texts of the table. BAD_VALUE. */
IMPMEM_NODISCARD impmem_status impmem_engine_kind_parse(const char *text, impmem_engine_kind *out);

#define IMPMEM_ENGINE_PROFILE_MAX_DEVICES 16u
#define IMPMEM_ENGINE_PROFILE_MAX_LINES 64u

/* The engine's options that its KV and state depend on. 0 is the engine's own default everywhere; what an engine doesn't have
 * must stay 0 (BAD_VALUE names it). */
typedef struct impmem_engine_profile_args {
    uint32_t size;
    uint32_t version;        /* 1 */
    impmem_dtype kv_dtype_k; /* default f16 (two bytes, as the model's own bf16) */
    impmem_dtype kv_dtype_v; /* vLLM and SGLang: the same as K, or default */
    uint32_t n_ctx;          /* tokens, of all slots together or of vLLM's longest request; default: the trained context */
    uint32_t draft_tokens;   /* speculative tokens a step */
    /* llama.cpp and ik_llama.cpp */
    uint32_t n_ubatch;          /* default 512 */
    uint32_t n_seq;             /* sequence slots, default 1 */
    uint32_t mla_expanded;      /* 1: latent attention kept per head */
    uint32_t no_flash_attn;     /* 1: flash attention off */
    uint32_t swa_full;          /* 1: window layers keep the whole context */
    uint32_t quantised_padding; /* 1: CUDA's padding of quantised rows is part of a device's buffer */
    uint32_t n_devices;         /* devices that layers are split over; 0: no split is told */
    uint64_t split[IMPMEM_ENGINE_PROFILE_MAX_DEVICES]; /* weights of the split; all 0: equal */
    /* vLLM and SGLang */
    uint32_t tp;         /* ranks; every figure is of one rank. default 1 */
    uint64_t pool_bytes; /* what the engine found for KV on one rank; 0: not told */
    uint64_t pool_units; /* instead of it: blocks of vLLM, tokens of SGLang */
    /* vLLM */
    uint32_t block_tokens;      /* default 16 */
    uint32_t prefill_tokens;    /* max_num_batched_tokens, default 2048 */
    uint32_t capacity_by_group; /* 1: capacity as older versions print it, blocks / groups x block */
    uint64_t swap_bytes;        /* host memory for swapped blocks */
} impmem_engine_profile_args;

#define IMPMEM_ENGINE_PROFILE_ARGS_INIT                                                                                    \
    {                                                                                                                      \
        sizeof(impmem_engine_profile_args), 1, IMPMEM_DTYPE_DEFAULT, IMPMEM_DTYPE_DEFAULT, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0}, \
            0, 0, 0, 0, 0, 0, 0                                                                                            \
    }

/* Reads "n_ctx=16384,type_k=q8_0,..." over *args, which keeps what the text doesn't name. Keys, and which engine has them, are
 * in docs/engine-profiles.md. BAD_VALUE with the key as subject, and key, value and expectation in the message: unknown key,
 * key of another engine, key given twice, missing or bad value. INVALID_ARGUMENT, VERSION. *args is written only on success. */
IMPMEM_NODISCARD impmem_status impmem_engine_profile_parse_args(impmem_engine_kind kind, const char *text,
                                                                impmem_engine_profile_args *args, impmem_error *why);

typedef enum impmem_engine_unit {
    IMPMEM_ENGINE_UNIT_BYTES = 0,
    IMPMEM_ENGINE_UNIT_TOKENS = 1,
    IMPMEM_ENGINE_UNIT_CELLS = 2,
    IMPMEM_ENGINE_UNIT_BLOCKS = 3,
    IMPMEM_ENGINE_UNIT_MILLIONTHS = 4, /* of a ratio */
    IMPMEM_ENGINE_UNIT_COUNT = 5       /* heads, groups */
} impmem_engine_unit;

const char *impmem_engine_unit_name(
    impmem_engine_unit unit); /* "bytes", "tokens", "cells", "blocks", "ratio", "count", or "?" */

typedef struct impmem_engine_profile_line {
    char name[32];
    uint32_t unit;   /* impmem_engine_unit */
    uint32_t layers; /* that the figure adds up; 0 where that means nothing */
    uint64_t value;
    char how[160]; /* the formula with its figures */
} impmem_engine_profile_line;

/* Names of lines, as far as they apply:
 *   llama.cpp: cells, cells_swa, kv_total, kv_k, kv_v, kv_full, kv_swa, kv_mtp_draft, state_cells, recurrent_total,
 *     recurrent_conv, recurrent_state, kv_device_N and recurrent_device_N of each device of a split, total
 *   vLLM: block_tokens, block_tokens_swa, kv_heads_per_rank, page_bytes, state_page_bytes, page_padding, groups, block_bytes,
 *     request_blocks, request_bytes, kv_blocks, kv_total, kv_max_tokens, max_concurrency, cpu_swap_blocks, recurrent_total,
 *     recurrent_conv, recurrent_state (of one copy)
 *   SGLang: token_bytes, kv_max_tokens, kv_total, kv_k, kv_v
 */
typedef struct impmem_engine_profile {
    uint32_t size;
    uint32_t version; /* 1 */
    uint32_t n_lines;
    impmem_engine_profile_line line[IMPMEM_ENGINE_PROFILE_MAX_LINES];
} impmem_engine_profile;

/* INVALID_ARGUMENT: NULL, or no engine kind. VERSION. BAD_VALUE: a contradiction in the shape, an argument out of range, of another
 * engine, or that the geometry can't have (subject: the argument or layer[N]). UNSUPPORTED: no rule of this engine is known for a
 * layer (subject: layer[N]). OVERFLOW. *out is written only on success. */
IMPMEM_NODISCARD impmem_status impmem_engine_profile_predict(impmem_engine_kind kind, const impmem_model_shape *shape,
                                                             const impmem_engine_profile_args *args,
                                                             impmem_engine_profile *out, impmem_error *why);

/* NULL when the profile has no such line. */
const impmem_engine_profile_line *impmem_engine_profile_find(const impmem_engine_profile *profile, const char *name);

#ifdef __cplusplus
}
#endif
#endif
