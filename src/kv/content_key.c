/* content_key.c - the key by which the world outside this process knows a block. docs/kv.md specifies every byte. */
#include "kv/internal.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define KEY_VERSION 1u
#define KEY_DIGEST_AT 8u
#define CHUNK_TOKENS 64u
enum { FIRST_BLOCK = 0, LATER_BLOCK = 1 };

static void put_little_endian(unsigned char *to, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) to[i] = (unsigned char)(value >> 8 * i);
}

static bool feed_number(XXH3_state_t *state, uint64_t value, unsigned bytes)
{
    unsigned char text[8];
    put_little_endian(text, value, bytes);
    return XXH3_128bits_update(state, text, bytes) == XXH_OK;
}

static bool feed_field(XXH3_state_t *state, const void *data, size_t bytes)
{
    return feed_number(state, bytes, 8) && (!bytes || XXH3_128bits_update(state, data, bytes) == XXH_OK);
}

static bool feed_tokens(XXH3_state_t *state, const uint32_t *tokens, uint32_t n)
{
    unsigned char text[4 * CHUNK_TOKENS];
    bool ok = feed_number(state, n, 4);
    for (uint32_t at = 0; at < n && ok;) {
        uint32_t some = n - at < CHUNK_TOKENS ? n - at : CHUNK_TOKENS;
        for (uint32_t i = 0; i < some; i++) put_little_endian(text + (size_t)4 * i, tokens[at + i], 4);
        ok = XXH3_128bits_update(state, text, (size_t)4 * some) == XXH_OK;
        at += some;
    }
    return ok;
}

static impmem_status check_parent(const impmem_content_key *parent)
{
    if (parent->bytes[0] > KEY_VERSION) return IMPMEM_ERR_VERSION;
    if (parent->bytes[0] != KEY_VERSION) return IMPMEM_ERR_INVALID_ARGUMENT;
    for (unsigned i = 1; i < KEY_DIGEST_AT; i++) {
        if (parent->bytes[i]) return IMPMEM_ERR_INVALID_ARGUMENT;
    }
    return IMPMEM_OK;
}

impmem_status impmem_content_key_of(const impmem_content_key *parent, const impmem_kv_namespace *name_space,
                                    const uint32_t *tokens, uint32_t n_tokens, impmem_content_key *out)
{
    static const impmem_kv_namespace empty = {NULL, 0, NULL, 0};
    if (!tokens || !n_tokens || !out || !impmem__kv_namespace_valid(name_space)) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem_status st = parent ? check_parent(parent) : IMPMEM_OK;
    if (st) return st;

    const impmem_kv_namespace *n = name_space ? name_space : &empty;
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    bool ok = XXH3_128bits_reset(&state) == XXH_OK && feed_number(&state, KEY_VERSION, 4);
    if (parent)
        ok = ok && feed_number(&state, LATER_BLOCK, 4) &&
             XXH3_128bits_update(&state, parent->bytes + KEY_DIGEST_AT, 16) == XXH_OK;
    else
        ok = ok && feed_number(&state, FIRST_BLOCK, 4) && feed_field(&state, n->tenant, n->tenant_bytes) &&
             feed_field(&state, n->adapter, n->adapter_bytes);
    if (!ok || !feed_tokens(&state, tokens, n_tokens)) return IMPMEM_ERR_STATE;

    XXH128_canonical_t digest;
    XXH128_canonicalFromHash(&digest, XXH3_128bits_digest(&state));
    memset(out->bytes, 0, KEY_DIGEST_AT);
    out->bytes[0] = KEY_VERSION;
    memcpy(out->bytes + KEY_DIGEST_AT, digest.digest, sizeof digest.digest);
    return IMPMEM_OK;
}
