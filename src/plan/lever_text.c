/* Levers as flags that work when pasted, and as what they change. */
#include <stdio.h>
#include <string.h>

#include "core/internal.h"
#include "plan/levers.h"

/* "35952MiB" where that is exact, else bytes. */
static void write_size(char *out, size_t capacity, uint64_t bytes)
{
    if (bytes % IMPMEM_MIB == 0 && bytes > 0) snprintf(out, capacity, "%lluMiB", (unsigned long long)(bytes / IMPMEM_MIB));
    else snprintf(out, capacity, "%llu", (unsigned long long)bytes);
}

static const char *flag_of(impmem_lever_kind kind)
{
    switch (kind) {
    case IMPMEM_LEVER_CONTEXT: return "--max-seq-len";
    case IMPMEM_LEVER_BATCH: return "--max-batch";
    case IMPMEM_LEVER_KV_DTYPE:
    case IMPMEM_LEVER_V_DTYPE:
    case IMPMEM_LEVER_K_DTYPE: return "--kv-dtype";
    case IMPMEM_LEVER_PREFILL: return "--prefill-tokens";
    case IMPMEM_LEVER_PROMISE: return "--promised-kv-tokens";
    case IMPMEM_LEVER_BUDGET: return "--budget";
    case IMPMEM_LEVER_BLOCK: return "--block-size";
    case IMPMEM_LEVER_DRAFT: return "--no-draft";
    case IMPMEM_LEVER_VISION: return "--no-vision";
    case IMPMEM_LEVER_TP: return "--tp";
    case IMPMEM_LEVER_NONE: break;
    }
    return "";
}

/* Types as a flag takes them: one name where K and V are alike. */
static void write_dtypes(char *out, size_t capacity, impmem_dtype k, impmem_dtype v)
{
    if (k == v) snprintf(out, capacity, "%s", impmem_dtype_name(k));
    else snprintf(out, capacity, "%s,%s", impmem_dtype_name(k), impmem_dtype_name(v));
}

static void value_texts(const impmem__search *s, impmem_lever_kind kind, uint64_t from, uint64_t to, char from_text[40],
                        char to_text[40])
{
    const impmem_dtype k = s->terms->k, v = s->terms->v, type = (impmem_dtype)to;
    switch (kind) {
    case IMPMEM_LEVER_KV_DTYPE:
    case IMPMEM_LEVER_V_DTYPE:
    case IMPMEM_LEVER_K_DTYPE:
        write_dtypes(from_text, 40, k, v);
        write_dtypes(to_text, 40, kind == IMPMEM_LEVER_V_DTYPE ? k : type, kind == IMPMEM_LEVER_K_DTYPE ? v : type);
        return;
    case IMPMEM_LEVER_BUDGET:
        write_size(from_text, 40, from);
        write_size(to_text, 40, to);
        return;
    case IMPMEM_LEVER_DRAFT:
    case IMPMEM_LEVER_VISION:
        snprintf(from_text, 40, "on");
        snprintf(to_text, 40, "off");
        return;
    case IMPMEM_LEVER_CONTEXT:
    case IMPMEM_LEVER_BATCH:
    case IMPMEM_LEVER_PREFILL:
    case IMPMEM_LEVER_PROMISE:
    case IMPMEM_LEVER_BLOCK:
    case IMPMEM_LEVER_TP:
    case IMPMEM_LEVER_NONE: break;
    }
    snprintf(from_text, 40, "%llu", (unsigned long long)from);
    snprintf(to_text, 40, "%llu", (unsigned long long)to);
}

void impmem__lever_text(const impmem__search *s, impmem_lever *lever, impmem_lever_kind kind, uint64_t from, uint64_t to)
{
    char from_text[40], to_text[40];
    const bool off = kind == IMPMEM_LEVER_DRAFT || kind == IMPMEM_LEVER_VISION;
    const size_t flag_used = strlen(lever->flag), change_used = strlen(lever->change);
    value_texts(s, kind, from, to, from_text, to_text);
    snprintf(lever->flag + flag_used, sizeof lever->flag - flag_used, "%s%s%s%s", flag_used ? " " : "", flag_of(kind),
             off ? "" : " ", off ? "" : to_text);
    snprintf(lever->change + change_used, sizeof lever->change - change_used, "%s%s -> %s", change_used ? ", " : "",
             from_text, to_text);
}
