/* plan_feature_flags.c - the flags of what an engine does beyond attention over weights, and of several devices. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "plan_verb.h"

enum { MAX_IMAGES = 4096, MAX_DRAFT_TOKENS = 1024, MAX_SLOTS = 65536, MAX_PART_BYTES = 64 };

/* The text before the first `separator` into `part`; what follows it, or NULL when there is none. */
static const char *split(const char *text, char separator, char part[MAX_PART_BYTES])
{
    const char *end = strchr(text, separator);
    size_t n = end ? (size_t)(end - text) : strlen(text);
    if (n >= MAX_PART_BYTES) n = MAX_PART_BYTES - 1; /* no good value is that long */
    memcpy(part, text, n);
    part[n] = '\0';
    return end ? end + 1 : NULL;
}

static uint64_t positive_bytes(const char *flag, const char *text)
{
    uint64_t bytes = flags_bytes(flag, text);
    if (bytes == 0) command_bad_usage("%s: \"%s\" says nothing; expected a size of 1 byte or more", flag, text);
    return bytes;
}

static impmem_plan_batch batch(const char *flag, const char *text)
{
    char sequences[MAX_PART_BYTES];
    const char *tokens = split(text, 'x', sequences);
    if (!tokens)
        command_bad_usage("%s: \"%s\" is not BxL; expected for example 4x8192, sequences and tokens of each", flag, text);
    return (impmem_plan_batch){flags_integer32(flag, sequences, 1, PLAN_MAX_SEQUENCES),
                               flags_integer32(flag, tokens, 1, PLAN_MAX_TOKENS)};
}

static void add_must_fit(plan_feature_flags *flags, const char *text)
{
    if (flags->n_must_fit == IMPMEM_PLAN_MAX_BATCHES)
        command_bad_usage("--must-fit: \"%s\" is one too many; expected at most %u", text, IMPMEM_PLAN_MAX_BATCHES);
    flags->must_fit[flags->n_must_fit++] = batch("--must-fit", text);
}

static void lora(plan_feature_flags *flags, const char *text)
{
    char slots[MAX_PART_BYTES];
    const char *bytes = split(text, ':', slots);
    if (!bytes) command_bad_usage("--lora: \"%s\" is not SLOTS:SIZE; expected for example 8:64MiB", text);
    flags->lora_slots = flags_integer32("--lora", slots, 1, MAX_SLOTS);
    flags->lora_slot_bytes = positive_bytes("--lora", bytes);
}

static void graphs(plan_feature_flags *flags, const char *text)
{
    char count[MAX_PART_BYTES];
    char pool[MAX_PART_BYTES];
    const char *rest = split(text, ':', count);
    if (!rest) command_bad_usage("--graphs: \"%s\" is not N:SIZE[:EXEC]; expected for example 36:512MiB:8MiB", text);
    flags->graphs = flags_integer32("--graphs", count, 1, IMPMEM_MAX_GRAPHS);
    const char *exec = split(rest, ':', pool);
    flags->graph_bytes = flags_bytes("--graphs", pool);
    flags->graph_exec_bytes = exec ? flags_bytes("--graphs", exec) : 0;
    if (flags->graph_bytes == 0 && flags->graph_exec_bytes == 0)
        command_bad_usage("--graphs: \"%s\" are graphs of 0 bytes; expected a size of 1 byte or more", text);
}

static void weight_cache(plan_feature_flags *flags, const char *text)
{
    char kind[MAX_PART_BYTES];
    const char *rest = split(text, ':', kind);
    plan_cache_flag cache = {IMPMEM_DTYPE_DEFAULT, rest != NULL};
    bool known = impmem_dtype_parse(kind, &cache.dtype) == IMPMEM_OK &&
                 (cache.dtype == IMPMEM_DTYPE_F16 || cache.dtype == IMPMEM_DTYPE_BF16 ||
                  cache.dtype == IMPMEM_DTYPE_FP8_E4M3 || cache.dtype == IMPMEM_DTYPE_INT8 ||
                  cache.dtype == IMPMEM_DTYPE_NVFP4);
    if (!known || (rest && strcmp(rest, "optional")))
        command_bad_usage("--weight-cache: \"%s\" is no cache; expected f16, bf16, fp8, int8 or nvfp4, with or without "
                          ":optional",
                          text);
    for (uint32_t i = 0; i < flags->n_caches; i++)
        if (flags->cache[i].dtype == cache.dtype)
            command_bad_usage("--weight-cache: \"%s\": there is one of %s already; expected one of a type", text, kind);
    if (flags->n_caches == IMPMEM_MAX_WEIGHT_CACHES)
        command_bad_usage("--weight-cache: \"%s\" is one too many; expected at most %u", text, IMPMEM_MAX_WEIGHT_CACHES);
    flags->cache[flags->n_caches++] = cache;
}

static impmem_dtype state_dtype(const char *text)
{
    impmem_dtype dtype = IMPMEM_DTYPE_DEFAULT;
    if (impmem_dtype_parse(text, &dtype) ||
        (dtype != IMPMEM_DTYPE_F32 && dtype != IMPMEM_DTYPE_BF16 && dtype != IMPMEM_DTYPE_F16))
        command_bad_usage("--state-dtype: \"%s\" is no type of recurrent state; expected f32, bf16 or f16", text);
    return dtype;
}

bool plan_feature_flags_take(plan_feature_flags *flags, int key, const char *argument)
{
    switch (key) {
    case PLAN_KEY_DRAFT: flags->draft_path = argument; return true;
    case PLAN_KEY_DRAFT_TOKENS:
        flags->draft_tokens = flags_integer32("--draft-tokens", argument, 1, MAX_DRAFT_TOKENS);
        return true;
    case PLAN_KEY_NO_DRAFT: flags->no_draft = true; return true;
    case PLAN_KEY_MMPROJ: flags->mmproj_path = argument; return true;
    case PLAN_KEY_IMAGES: flags->images = flags_integer32("--images", argument, 1, MAX_IMAGES); return true;
    case PLAN_KEY_NO_VISION: flags->no_vision = true; return true;
    case PLAN_KEY_LORA: lora(flags, argument); return true;
    case PLAN_KEY_GRAPHS: graphs(flags, argument); return true;
    case PLAN_KEY_GRAPHS_ACCEPTED: flags->graphs_accepted = true; return true;
    case PLAN_KEY_LOGPROBS: flags->logprobs = true; return true;
    case PLAN_KEY_WEIGHT_CACHE: weight_cache(flags, argument); return true;
    case PLAN_KEY_STATE_DTYPE: flags->state_dtype = state_dtype(argument); return true;
    case PLAN_KEY_SNAPSHOTS: flags->snapshot_bytes = positive_bytes("--snapshots", argument); return true;
    case PLAN_KEY_HEADROOM: flags->headroom_bytes = flags_bytes("--headroom", argument); return true;
    case PLAN_KEY_COMMUNICATION: flags->communication_bytes = positive_bytes("--communication", argument); return true;
    case PLAN_KEY_DEVICES: flags->devices = flags_integer32("--devices", argument, 1, IMPMEM_MAX_RANKS); return true;
    case PLAN_KEY_MUST_FIT: add_must_fit(flags, argument); return true;
    case PLAN_KEY_TYPICAL: flags->typical = batch("--typical", argument); return true;
    default: return false;
    }
}

static void stages(plan_layout_flags *flags, const char *text)
{
    char part[MAX_PART_BYTES];
    const char *rest = split(text, ':', part);
    flags->pp = flags_integer32("--pp", part, 1, IMPMEM_MAX_RANKS);
    flags->n_stages = 0;
    uint32_t n = 0;
    while (rest) {
        rest = split(rest, ',', part);
        if (n == flags->pp)
            command_bad_usage("--pp: \"%s\" has more layer counts than stages; expected %u", text, flags->pp);
        flags->stage_layers[n++] = flags_integer32("--pp", part, 1, IMPMEM_MAX_LAYERS);
        if (!rest && n < flags->pp)
            command_bad_usage("--pp: \"%s\" has %u layer counts; expected %u, one a stage", text, n, flags->pp);
    }
    flags->n_stages = n;
}

static void rank_budgets(plan_layout_flags *flags, const char *text)
{
    char part[MAX_PART_BYTES];
    flags->n_budgets = 0;
    for (const char *rest = text; rest;) {
        if (flags->n_budgets == IMPMEM_MAX_RANKS)
            command_bad_usage("--rank-budgets: \"%s\" are too many; expected at most %u", text, IMPMEM_MAX_RANKS);
        rest = split(rest, ',', part);
        flags->budget_bytes[flags->n_budgets++] = flags_bytes("--rank-budgets", part);
    }
}

bool plan_layout_flags_take(plan_layout_flags *flags, int key, const char *argument)
{
    switch (key) {
    case PLAN_KEY_TP: flags->tp = flags_integer32("--tp", argument, 1, IMPMEM_MAX_RANKS); return true;
    case PLAN_KEY_PP: stages(flags, argument); return true;
    case PLAN_KEY_EP: flags->ep = flags_integer32("--ep", argument, 1, IMPMEM_MAX_RANKS); return true;
    case PLAN_KEY_RANK_BUDGETS: rank_budgets(flags, argument); return true;
    default: return false;
    }
}
