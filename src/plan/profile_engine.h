/* profile_engine.h - what the files of the engine profiles share. */
#ifndef IMPMEM__PLAN_PROFILE_ENGINE_H
#define IMPMEM__PLAN_PROFILE_ENGINE_H

#include <stdbool.h>

#include "impmem/bytes.h"
#include "impmem/engine_profile.h"

/* A profile being made. The first failure sticks: arithmetic after it gives 0 and adds nothing. */
typedef struct impmem__profiling {
    impmem_engine_kind kind;
    const impmem_model_shape *shape;
    impmem_engine_profile_args args; /* with defaults filled in */
    impmem_engine_profile *out;
    impmem_error *why;
    impmem_status status;
} impmem__profiling;

/* Checked arithmetic: overflow becomes the profile's failure. */
/* Engine and size of the arguments, as both public calls check them. */
impmem_status impmem__profile_check_args(impmem_engine_kind kind, const impmem_engine_profile_args *args,
                                         impmem_error *why);
uint64_t impmem__profile_mul(impmem__profiling *p, uint64_t a, uint64_t b);
uint64_t impmem__profile_add(impmem__profiling *p, uint64_t a, uint64_t b);
uint64_t impmem__profile_align(impmem__profiling *p, uint64_t a, uint64_t unit);
/* Sets the failure unless there is one. */
void impmem__profile_fail(impmem__profiling *p, impmem_status status, const char *subject, const char *fmt, ...)
    IMPMEM_PRINTF(4, 5);
void impmem__profile_fail_layer(impmem__profiling *p, impmem_status status, uint32_t layer, const char *fmt, ...)
    IMPMEM_PRINTF(4, 5);
void impmem__profile_line(impmem__profiling *p, const char *name, impmem_engine_unit unit, uint32_t layers, uint64_t value,
                          const char *how, ...) IMPMEM_PRINTF(6, 7);

/* Bytes that one element takes for an engine that has no blocks within a row: 1, 2 or 4. */
uint32_t impmem__profile_element_bytes(impmem_dtype dtype);
/* KV heads of one rank: split evenly, or replicated when there are more ranks than heads. */
uint32_t impmem__profile_rank_heads(impmem__profiling *p, uint32_t layer);

void impmem__profile_llama(impmem__profiling *p);
void impmem__profile_vllm(impmem__profiling *p);
void impmem__profile_sglang(impmem__profiling *p);

#endif
