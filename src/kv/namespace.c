/* namespace.c - the namespaces that chains start in, stored and compared byte by byte. */
#include "kv/internal.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

typedef struct encoded {
    uint32_t bytes;
    unsigned char text[IMPMEM__KV_NAMESPACE_BYTES];
} encoded;

bool impmem__kv_namespace_valid(const impmem_kv_namespace *n)
{
    if (!n) return true;
    if (n->tenant_bytes > IMPMEM__KV_NAMESPACE_FIELD || n->adapter_bytes > IMPMEM__KV_NAMESPACE_FIELD) return false;
    return (n->tenant || !n->tenant_bytes) && (n->adapter || !n->adapter_bytes);
}

static void put_field(encoded *out, const void *data, size_t bytes)
{
    uint32_t length = (uint32_t)bytes;
    memcpy(out->text + out->bytes, &length, sizeof length);
    out->bytes += (uint32_t)sizeof length;
    if (length) memcpy(out->text + out->bytes, data, length);
    out->bytes += length;
}

/* Each field behind its length, so that no byte of one can be read as the other's. */
static void encode(const impmem_kv_namespace *n, encoded *out)
{
    out->bytes = 0;
    put_field(out, n ? n->tenant : NULL, n ? n->tenant_bytes : 0);
    put_field(out, n ? n->adapter : NULL, n ? n->adapter_bytes : 0);
}

static uint64_t hash_of(const impmem_kv *kv, const encoded *text)
{
    return XXH3_64bits_withSeed(text->text, text->bytes, kv->seed);
}

static uint32_t find(const impmem_kv *kv, const encoded *text, uint64_t hash)
{
    uint32_t at = kv->root_bucket[hash & kv->root_bucket_mask];
    for (; at; at = kv->root[at].next) {
        const impmem__kv_root *root = &kv->root[at];
        if (root->hash == hash && root->text_bytes == text->bytes && !memcmp(root->text, text->text, text->bytes)) break;
    }
    return at;
}

uint32_t impmem__kv_find_root(const impmem_kv *kv, const impmem_kv_namespace *name_space)
{
    encoded text;
    encode(name_space, &text);
    return find(kv, &text, hash_of(kv, &text));
}

uint32_t impmem__kv_enter_root(impmem_kv *kv, const impmem_kv_namespace *name_space)
{
    encoded text;
    encode(name_space, &text);
    uint64_t hash = hash_of(kv, &text);
    uint32_t at = find(kv, &text, hash);
    if (!at) {
        at = kv->free_root;
        if (at) kv->free_root = kv->root[at].next;
        else at = ++kv->fresh_root;
        impmem__kv_root *root = &kv->root[at];
        uint32_t *bucket = &kv->root_bucket[hash & kv->root_bucket_mask];
        root->generation = kv->next_generation++;
        root->hash = hash;
        root->sequences = 0;
        root->entries = 0;
        root->text_bytes = text.bytes;
        memcpy(root->text, text.text, text.bytes);
        root->next = *bucket;
        *bucket = at;
        kv->live_roots++;
    }
    kv->root[at].sequences++;
    return at;
}

void impmem__kv_leave_root(impmem_kv *kv, uint32_t at)
{
    kv->root[at].sequences--;
    impmem__kv_free_root_if_unused(kv, at);
}

void impmem__kv_free_root_if_unused(impmem_kv *kv, uint32_t at)
{
    impmem__kv_root *root = &kv->root[at];
    if (root->sequences || root->entries) return;
    uint32_t *link = &kv->root_bucket[root->hash & kv->root_bucket_mask];
    while (*link != at) link = &kv->root[*link].next;
    *link = root->next;
    root->generation = 0;
    root->next = kv->free_root;
    kv->free_root = at;
    kv->live_roots--;
}
