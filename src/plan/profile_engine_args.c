/* profile_engine_args.c - "n_ctx=16384,type_k=q8_0": the engines' arguments in text. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/internal.h"
#include "plan/profile_engine.h"

enum { VALUE_BYTES = 96, SHOWN_BYTES = 40 };

#define LLAMA (1u << IMPMEM_ENGINE_LLAMA_CPP | 1u << IMPMEM_ENGINE_IK_LLAMA_CPP)
#define VLLM (1u << IMPMEM_ENGINE_VLLM)
#define SGLANG (1u << IMPMEM_ENGINE_SGLANG)

typedef enum value_kind { COUNT, COUNT0, FLAG, NOT_FLAG, TYPE, TYPES, SIZE, UNITS, SPLIT, MLA, CAPACITY } value_kind;

typedef struct key_row {
    const char *name;
    value_kind value;
    uint32_t engines;
    size_t offset;
} key_row;

#define AT(field) offsetof(impmem_engine_profile_args, field)
static const key_row keys[] = {
    {"n_ctx", COUNT, LLAMA | VLLM | SGLANG, AT(n_ctx)},
    {"type_k", TYPE, LLAMA, AT(kv_dtype_k)},
    {"type_v", TYPE, LLAMA, AT(kv_dtype_v)},
    {"kv_type", TYPES, LLAMA | VLLM | SGLANG, 0},
    {"draft", COUNT0, LLAMA | VLLM, AT(draft_tokens)},
    {"n_ubatch", COUNT, LLAMA, AT(n_ubatch)},
    {"n_seq", COUNT, LLAMA, AT(n_seq)},
    {"mla", MLA, LLAMA, AT(mla_expanded)},
    {"flash_attn", NOT_FLAG, LLAMA, AT(no_flash_attn)},
    {"swa_full", FLAG, LLAMA, AT(swa_full)},
    {"cuda", FLAG, LLAMA, AT(quantised_padding)},
    {"split", SPLIT, LLAMA, AT(split)},
    {"tp", COUNT, VLLM | SGLANG, AT(tp)},
    {"pool_bytes", SIZE, VLLM | SGLANG, AT(pool_bytes)},
    {"blocks", UNITS, VLLM, AT(pool_units)},
    {"tokens", UNITS, SGLANG, AT(pool_units)},
    {"block_size", COUNT, VLLM, AT(block_tokens)},
    {"max_num_batched_tokens", COUNT, VLLM, AT(prefill_tokens)},
    {"capacity", CAPACITY, VLLM, AT(capacity_by_group)},
    {"swap", SIZE, VLLM, AT(swap_bytes)},
};
enum { N_KEYS = sizeof keys / sizeof keys[0] };

static impmem_status refuse(impmem_error *why, const char *key, const char *value, const char *expected)
{
    return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, key, "%s is \"%.*s\", expected %s", key, (int)SHOWN_BYTES, value,
                             expected);
}

/* Digits only, 64 bits. */
static bool number(const char *text, size_t n, uint64_t *out)
{
    uint64_t value = 0;
    if (n == 0) return false;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        if (impmem_mul(&value, value, 10) || impmem_add(&value, value, (uint64_t)(text[i] - '0'))) return false;
    }
    *out = value;
    return true;
}

static bool read_split(const char *text, impmem_engine_profile_args *args)
{
    uint32_t n = 0;
    uint64_t sum = 0;
    memset(args->split, 0, sizeof args->split);
    for (;;) {
        size_t length = strcspn(text, ":");
        if (n == IMPMEM_ENGINE_PROFILE_MAX_DEVICES || !number(text, length, &args->split[n]) || args->split[n] > 1000000)
            return false;
        sum += args->split[n++];
        if (text[length] == '\0') break;
        text += length + 1;
    }
    args->n_devices = n;
    return sum > 0;
}

static bool read_words(const char *text, const char *zero, const char *one, uint32_t *out)
{
    if (strcmp(text, zero) != 0 && strcmp(text, one) != 0) return false;
    *out = strcmp(text, one) == 0;
    return true;
}

/* NULL, or what was expected. */
static const char *read_value(const key_row *row, const char *text, impmem_engine_profile_args *args)
{
    uint64_t value = 0;
    size_t n = strlen(text);
    void *field = (char *)args + row->offset;
    switch (row->value) {
    case COUNT:
        if (!number(text, n, &value) || value == 0 || value > INT32_MAX) return "a whole number from 1 to 2147483647";
        *(uint32_t *)field = (uint32_t)value;
        return NULL;
    case COUNT0:
        if (!number(text, n, &value) || value > 65536) return "a whole number from 0 to 65536";
        *(uint32_t *)field = (uint32_t)value;
        return NULL;
    case FLAG: return read_words(text, "0", "1", field) ? NULL : "0 or 1";
    case NOT_FLAG: return read_words(text, "1", "0", field) ? NULL : "0 or 1";
    case MLA: return read_words(text, "latent", "expanded", field) ? NULL : "latent or expanded";
    case CAPACITY: return read_words(text, "request", "group", field) ? NULL : "request or group";
    case TYPE: return impmem_dtype_parse(text, field) ? "an element type, such as f16 or q8_0" : NULL;
    case TYPES:
        if (impmem_dtype_parse(text, &args->kv_dtype_k)) return "an element type, such as f16, fp8 or q8_0";
        args->kv_dtype_v = args->kv_dtype_k;
        return NULL;
    case SIZE:
        if (impmem_parse_bytes(text, &value) || value == 0) return "a size above 0, such as 12.5GiB";
        *(uint64_t *)field = value;
        return NULL;
    case UNITS:
        if (!number(text, n, &value) || value == 0 || value > UINT64_C(1) << 50) return "a whole number from 1 to 2^50";
        *(uint64_t *)field = value;
        return NULL;
    case SPLIT: return read_split(text, args) ? NULL : "weights of up to 16 devices, such as 1:1, the largest 1000000";
    }
    return "nothing";
}

static impmem_status unknown_key(impmem_engine_kind kind, const char *key, const char *value, impmem_error *why)
{
    char known[160] = "";
    size_t used = 0;
    for (size_t i = 0; i < N_KEYS; i++) {
        if (!(keys[i].engines >> (uint32_t)kind & 1u) || used >= sizeof known) continue;
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", keys[i].name);
    }
    return impmem__error_set(why, IMPMEM_ERR_BAD_VALUE, key, "%s=%.16s is no argument of %s, expected %s", key, value,
                             impmem_engine_kind_name(kind), known);
}

/* One "key=value" of `n` bytes. */
static impmem_status read_pair(impmem_engine_kind kind, const char *pair, size_t n, uint32_t *seen,
                               impmem_engine_profile_args *args, impmem_error *why)
{
    char key[SHOWN_BYTES], value[VALUE_BYTES];
    const char *equals = memchr(pair, '=', n);
    size_t key_n = equals ? (size_t)(equals - pair) : n;
    size_t value_n = equals ? n - key_n - 1 : 0;
    (void)snprintf(key, sizeof key, "%.*s", (int)(key_n < sizeof key ? key_n : sizeof key - 1), pair);
    (void)snprintf(value, sizeof value, "%.*s", (int)(value_n < sizeof value ? value_n : sizeof value - 1),
                   equals ? equals + 1 : "");
    if (!equals || key_n == 0) return refuse(why, key_n ? key : "argument", equals ? value : "", "KEY=VALUE");
    for (size_t i = 0; i < N_KEYS; i++) {
        if (key_n >= sizeof key || strcmp(keys[i].name, key) != 0 || !(keys[i].engines >> (uint32_t)kind & 1u)) continue;
        if (*seen >> i & 1u) return refuse(why, key, value, "it once");
        *seen |= 1u << i;
        const char *expected = value_n < sizeof value ? read_value(&keys[i], value, args) : "a shorter value";
        return expected ? refuse(why, key, value, expected) : IMPMEM_OK;
    }
    return unknown_key(kind, key, value, why);
}

impmem_status impmem_engine_profile_parse_args(impmem_engine_kind kind, const char *text, impmem_engine_profile_args *args,
                                               impmem_error *why)
{
    if (!text || !args) return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "args", "text and args are both needed");
    impmem_status st = impmem__profile_check_args(kind, args, why);
    if (st) return st;
    impmem_engine_profile_args made = *args;
    uint32_t seen = 0;
    while (*text) {
        size_t n = strcspn(text, ",");
        st = read_pair(kind, text, n, &seen, &made, why);
        if (st) return st;
        text += n;
        if (*text == ',' && *++text == '\0') return refuse(why, "argument", "", "KEY=VALUE after the last comma");
    }
    *args = made;
    return IMPMEM_OK;
}
