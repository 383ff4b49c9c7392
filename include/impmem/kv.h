/* impmem/kv.h - sequences as block tables, and the prefix cache that outlives them. Floor 3, implemented in src/kv.
 *
 *   impmem_kv_options o = IMPMEM_KV_OPTIONS_INIT;
 *   o.group[0].pool = full_blocks; o.n_groups = 1; o.block_tokens = 16; o.max_sequences = 8; o.max_seq_tokens = 32768;
 *   impmem_kv *kv;
 *   impmem_kv_open(ledger, &o, &kv, &why);
 *   impmem_kv_request r = IMPMEM_KV_REQUEST_INIT;
 *   r.tokens = ids; r.n_tokens = n; r.max_new_tokens = 512;
 *   impmem_sequence seq; impmem_kv_admission a;
 *   impmem_kv_admit(kv, &r, &seq, &a, &why);       blocks for prompt + max_new are promised and stay so
 *   impmem_kv_append(kv, seq, n - a.cached_tokens); as prefill goes
 *   impmem_kv_publish(kv, seq, ids, n);            only now may others hit what was just written
 *   impmem_kv_append(kv, seq, 1); ...              one a step
 *   impmem_kv_release(kv, &seq);                   done, cancelled, failed: one path, exactly once
 *
 * A block belongs to its pool; sequences and cache entries hold references of their own (holder SEQUENCE and CACHE). Evicting an
 * entry drops the cache's reference only. free + live == total and live == in sequences + cached only, after every operation;
 * and promised <= free + reclaimable, so that what was admitted can always be taken.
 *
 * Two keys, never one: the INDEX HASH (XXH3 with the ledger's seed) finds a candidate fast and decides nothing; a hit compares
 * the whole key: namespace, parent entry by id and generation, and the block's tokens. So a hash collision is never a hit. The
 * CONTENT KEY (impmem_content_key) is an unseeded, versioned digest of the chain for the world outside this process.
 *
 * One owner thread; impmem_kv_read_stats alone may be called from any thread. No heap and no lock after open: tables are sized
 * at open, the index never rehashes.
 */
#ifndef IMPMEM_KV_H
#define IMPMEM_KV_H

#include <stddef.h>

#include "impmem/block_pool.h"
#include "impmem/claim.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct impmem_kv impmem_kv;

#define IMPMEM_KV_MAX_GROUPS 16u

/* A sequence: handle with generation; zero is none. A released or foreign handle is IMPMEM_ERR_STALE. */
typedef struct impmem_sequence {
    uint32_t slot_;
    uint32_t generation_;
} impmem_sequence;
#define IMPMEM_SEQUENCE_NONE                                                                                               \
    {                                                                                                                      \
        0, 0                                                                                                               \
    }

typedef struct impmem_kv_options {
    uint32_t size;
    uint32_t version; /* 1 */
    struct {
        impmem_block_pool *pool;   /* outlives the KV manager; used by nothing else while it is open (growing it is fine) */
        uint32_t window_tokens;    /* 0 = full attention. Group 0 is the full one when any layer is full */
        uint32_t reserved_blocks;  /* of the pool, that no sequence may count on: null, spare and fenced ones */
        uint32_t in_flight_tokens; /* of a window group: the largest prefill chunk. A longer append may be CAPACITY */
    } group[IMPMEM_KV_MAX_GROUPS];
    uint32_t n_groups;
    uint32_t block_tokens;  /* > 0 */
    uint32_t max_sequences; /* at once */
    uint32_t max_seq_tokens;
    uint32_t cache_entries; /* most blocks the prefix cache can name; 0 = all of group 0. When all are used the oldest
                                   reclaimable one makes place. See `no_prefix_cache` */
    bool no_prefix_cache;
    bool recurrent_layers;    /* other layers keep a state of all tokens before, which is in no block: nothing can be hit */
    uint32_t index_hash_bits; /* 0 = 64; fewer only to test collisions */
    uint32_t chain_cap;       /* probes of one lookup beyond which a new entry is not cached; 0 = 64 */
    impmem_line_id control_line; /* 0 = IMPMEM_LINE_HOST_CONTROL */
} impmem_kv_options;
#define IMPMEM_KV_OPTIONS_INIT                                                                                             \
    {                                                                                                                      \
        sizeof(impmem_kv_options), 1, {{NULL, 0, 0, 0}}, 0, 0, 0, 0, 0, false, false, 0, 0, 0                              \
    }

/* Exact host bytes of the tables that open takes, for the planner. Where there is no pool yet, leave it NULL and let
 * cache_entries say the max_blocks that group 0's pool will have. INVALID_ARGUMENT, VERSION, OVERFLOW. */
IMPMEM_NODISCARD impmem_status impmem_kv_control_bytes(const impmem_kv_options *options, uint64_t *out_bytes);
/* INVALID_ARGUMENT, VERSION, OVERFLOW, BUSY (a pool has live or reserved blocks), and what the ledger answers when asked for the
 * tables: OUT_OF_HOST_MEMORY, BUDGET_EXCEEDED, SERVING, CAPTURING. */
IMPMEM_NODISCARD impmem_status impmem_kv_open(impmem_ledger *ledger, const impmem_kv_options *options, impmem_kv **out,
                                              impmem_error *why);
/* LIVE_HOLDERS while sequences or holds live, naming the first owner; cached blocks are dropped. NULL is fine. */
IMPMEM_NODISCARD impmem_status impmem_kv_close(impmem_kv **kv, impmem_error *why);

/* The namespace of a chain: two requests share blocks only when both fields are equal. Length-tagged, so equal bytes in
 * different fields never match. At most 256 bytes each. */
typedef struct impmem_kv_namespace {
    const void *tenant; /* salt of the tenant; NULL and 0 = none */
    size_t tenant_bytes;
    const void *adapter; /* identity of the LoRA or other adapter, image salt, ... */
    size_t adapter_bytes;
} impmem_kv_namespace;

typedef struct impmem_kv_request {
    uint32_t size;
    uint32_t version;       /* 1 */
    const uint32_t *tokens; /* the prompt; read during the call only */
    uint32_t n_tokens;      /* > 0 */
    uint32_t max_new_tokens;
    impmem_kv_namespace name_space;
    uint64_t owner; /* shown by impmem_block_holders */
    bool no_reuse;  /* do not look the prompt up */
} impmem_kv_request;
#define IMPMEM_KV_REQUEST_INIT                                                                                             \
    {                                                                                                                      \
        sizeof(impmem_kv_request), 1, NULL, 0, 0, {NULL, 0, NULL, 0}, 0, false                                             \
    }

typedef struct impmem_kv_admission {
    uint32_t cached_tokens; /* of the prompt, already in the sequence: a multiple of block_tokens, at most n_tokens - 1, so
                                   that there is always a token to compute logits from */
    uint32_t need_tokens;   /* prompt + max_new */
    uint32_t most_tokens;   /* the most that one sequence can ever have */
    uint64_t need_blocks;   /* new ones, group 0 */
    uint64_t available_blocks; /* free + reclaimable + not grown yet - promised, group 0, before this
                                   request */
} impmem_kv_admission;

/* All or nothing over all groups. *admission (nullable) is written in every case but INVALID_ARGUMENT and VERSION.
 *   NEVER_FITS  larger than max_seq_tokens or than a whole empty pool
 *   CAPACITY    not now: blocks or sequence slots are held by others; nothing changed
 * Cached blocks count as available: they are reclaimed, oldest tail first, only when a block is really taken. A growable pool
 * grows here as far as the promise needs, so that later appends depend on no driver. */
IMPMEM_NODISCARD impmem_status impmem_kv_admit(impmem_kv *kv, const impmem_kv_request *request, impmem_sequence *out,
                                               impmem_kv_admission *admission, impmem_error *why);

/* Whether a request of so many tokens can ever be admitted, asked without its tokens and without side effects: where a
 * request arrives. OK, or NEVER_FITS; *admission (nullable) then has the figures of one that hits nothing.
 * INVALID_ARGUMENT: no prompt. */
IMPMEM_NODISCARD impmem_status impmem_kv_servable(const impmem_kv *kv, uint64_t prompt_tokens, uint64_t max_new_tokens,
                                                  impmem_kv_admission *admission, impmem_error *why);

/* n more tokens: takes blocks when one begins. Within what admit promised it can't run dry; beyond it takes only what is
 * promised to nobody, else CAPACITY, nothing changed. When a block begins, window groups give up those that have left the
 * window of the tokens from here on. STALE. */
IMPMEM_NODISCARD impmem_status impmem_kv_append(impmem_kv *kv, impmem_sequence seq, uint32_t n_tokens);
/* Keep the first n tokens; whole blocks above go back and are promised again. Entries already published keep their blocks.
 * INVALID_ARGUMENT: longer than the sequence; into a window that is gone; or into the middle of a block that is published,
 * shared or held, which the next append would overwrite (cut at its start instead). CAPACITY: blocks above n are shared and
 * stay taken, and as many can't be promised anew. STALE. Nothing changed on failure. */
IMPMEM_NODISCARD impmem_status impmem_kv_truncate(impmem_kv *kv, impmem_sequence seq, uint32_t n_tokens);
/* The first n tokens' KV is written: their whole blocks may be hit from now on. `tokens` are all n; what is published already is
 * skipped, and a chain that another sequence published first stays the only one. Idempotent. INVALID_ARGUMENT: n longer than
 * the sequence, or different tokens than those published before. STALE. A full cache or chain cap stops caching, never fails.
 * Reads all n tokens: call it when a block has filled rather than at every step, or tell only what is new: */
IMPMEM_NODISCARD impmem_status impmem_kv_publish(impmem_kv *kv, impmem_sequence seq, const uint32_t *tokens,
                                                 uint32_t n_tokens);
/* The same, with `tokens` those of [from, n_tokens) only: those before are not compared, so a long sequence costs no more
 * than a short one. INVALID_ARGUMENT also: `from` is no multiple of block_tokens, or beyond what is published (hits are).
 * NOT_FOUND, nothing changed: the entries that the chain goes on from are another sequence's, and were evicted;
 * impmem_kv_publish begins it again from 0. */
IMPMEM_NODISCARD impmem_status impmem_kv_publish_from(impmem_kv *kv, impmem_sequence seq, uint32_t from,
                                                      const uint32_t *tokens, uint32_t n_tokens);
/* Drops every reference and promise, zeroes *seq. Published blocks stay cached, reclaimable. None is IMPMEM_OK. STALE. */
IMPMEM_NODISCARD impmem_status impmem_kv_release(impmem_kv *kv, impmem_sequence *seq);

/* Cached tokens that a prompt would hit now; no side effects. */
IMPMEM_NODISCARD impmem_status impmem_kv_lookup(const impmem_kv *kv, const impmem_kv_namespace *name_space,
                                                const uint32_t *tokens, uint32_t n_tokens, uint32_t *out_cached_tokens);
/* Drop up to n reclaimable cached blocks, oldest tail first; returns how many. */
uint32_t impmem_kv_evict(impmem_kv *kv, uint32_t n);

uint32_t impmem_kv_tokens(const impmem_kv *kv, impmem_sequence seq); /* 0 when stale */
/* Block ids of a group by position; IMPMEM_NO_BLOCK where a window has passed. Valid until the sequence changes. STALE. */
IMPMEM_NODISCARD impmem_status impmem_kv_block_table(const impmem_kv *kv, impmem_sequence seq, uint32_t group,
                                                     const uint32_t **out_ids, uint32_t *out_n);

/* A reference of its own on the block at `position`, for a copy that is still running or a pin: the block is not handed out
 * again before impmem_kv_unhold, whatever becomes of the sequence. `holder` is PIN, TRANSFER or OTHER. UNSUPPORTED: window
 * blocks are not shared. NOT_FOUND: no such position. STALE; EXHAUSTED (the pool's extra_refs are used up). */
IMPMEM_NODISCARD impmem_status impmem_kv_hold(impmem_kv *kv, impmem_sequence seq, uint32_t group, uint32_t position,
                                              impmem_holder holder, uint64_t owner, impmem_block_ref *out);
/* Not impmem_block_drop, which the cache would not hear of. Zeroes *ref; none is IMPMEM_OK. STALE and FOREIGN change nothing. */
IMPMEM_NODISCARD impmem_status impmem_kv_unhold(impmem_kv *kv, uint32_t group, impmem_block_ref *ref);

/* X(name, text): one table for struct, text and JSON. All blocks are group 0's unless said. */
#define IMPMEM_KV_STATS_MAP(X)                                                                                             \
    X(sequences, "sequences admitted and not released")                                                                    \
    X(total_blocks, "blocks in the pool")                                                                                  \
    X(free_blocks, "free blocks")                                                                                          \
    X(sequence_blocks, "blocks held by at least one sequence or hold")                                                     \
    X(cached_blocks, "blocks held by the prefix cache, in use or not")                                                     \
    X(reclaimable_blocks, "cached blocks that neither a sequence nor a held child needs")                                  \
    X(promised_blocks, "blocks that admitted sequences may still take")                                                    \
    X(admissions, "requests admitted")                                                                                     \
    X(refused_never, "requests that can never fit")                                                                        \
    X(refused_now, "requests that did not fit at the time")                                                                \
    X(prompt_tokens, "prompt tokens of admitted requests")                                                                 \
    X(hit_tokens, "of those, tokens served from the prefix cache")                                                         \
    X(lookup_blocks, "whole prompt blocks looked up")                                                                      \
    X(hit_blocks, "blocks hit")                                                                                            \
    X(collisions, "index candidates refused by the full compare")                                                          \
    X(evictions, "cached blocks reclaimed")                                                                                \
    X(uncached, "blocks not cached: index full or chain cap")                                                              \
    X(growths, "times the pool grew")
typedef struct impmem_kv_stats {
#define IMPMEM_KV_STATS_FIELD(name, text) uint64_t name;
    IMPMEM_KV_STATS_MAP(IMPMEM_KV_STATS_FIELD)
#undef IMPMEM_KV_STATS_FIELD
} impmem_kv_stats;
void impmem_kv_query(const impmem_kv *kv, impmem_kv_stats *out);      /* owner thread, exact */
void impmem_kv_publish_stats(impmem_kv *kv);                          /* owner thread, once a step */
void impmem_kv_read_stats(const impmem_kv *kv, impmem_kv_stats *out); /* any thread */
/* NULL when prefix reuse works for this layout, else why not, in words (static storage). */
const char *impmem_kv_reuse_unsupported(const impmem_kv *kv);

/* Walks everything: tables, references, LRU order (no entry is younger than its parent), index, promises, conservation.
 * IMPMEM_ERR_STATE with the first disagreement. */
IMPMEM_NODISCARD impmem_status impmem_kv_check(const impmem_kv *kv, impmem_error *why);

/* ---- content keys ---------------------------------------------------------------------------------------------------- */

typedef struct impmem_content_key {
    unsigned char bytes[24];
} impmem_content_key; /* version, 7 zero bytes, 16-byte digest */

/* Key of block 0 with parent NULL, else of the block after `parent`, whose chain already says the namespace (name_space is
 * then not read). Same in every process and on every machine: XXH3-128, seed 0, over a little-endian, length-tagged encoding
 * that docs/kv.md specifies. INVALID_ARGUMENT (no tokens, a bad namespace, a parent that is no key), VERSION (a newer key). */
IMPMEM_NODISCARD impmem_status impmem_content_key_of(const impmem_content_key *parent,
                                                     const impmem_kv_namespace *name_space, const uint32_t *tokens,
                                                     uint32_t n_tokens, impmem_content_key *out);

#ifdef __cplusplus
}
#endif
#endif
