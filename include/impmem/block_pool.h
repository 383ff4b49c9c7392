/* impmem/block_pool.h - T3: equal blocks with counted references. Floor 2, implemented by src/alloc/block_pool*.c.
 *
 *   impmem_block_pool_options o = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
 *   o.region = region; o.stride_bytes = 2 * IMPMEM_MIB; o.blocks = 1024; o.extra_refs = 4096;
 *   impmem_block_pool *pool;
 *   impmem_block_pool_open(ledger, &o, &pool, &why);
 *   impmem_block_ref mine, cached;
 *   impmem_block_take(pool, IMPMEM_HOLDER_SEQUENCE, request_id, &mine);
 *   impmem_block_share(pool, mine, IMPMEM_HOLDER_CACHE, entry_id, &cached);   the only way to alias a block
 *   impmem_block_drop(pool, &mine);                                           the block lives on: the cache holds it
 *   impmem_block_drop(pool, &cached);                                         now it is free
 *
 * The pool owns the blocks; everybody else holds references, and a block is free when, and only when, its last reference is
 * dropped. There is no way to free a block by its id. free + live == total after every operation.
 *
 * A reference names its own slot with a 64-bit generation, unique within the pool. Dropping zeroes the caller's copy and
 * kills every other copy of that same reference: dropping a copy again is IMPMEM_ERR_STALE and changes nothing, even while
 * other references keep the block alive.
 *
 * One owner thread; impmem_block_pool_read_stats alone may be called from any thread. No operation allocates or locks;
 * take, share, drop, id and count are O(1), and a take touches one 32-byte row of the tables. Blocks come out last-dropped
 * first; a fresh pool hands out 0, 1, 2, ... Each live block counts as one stride of live bytes of the region's line.
 */
#ifndef IMPMEM_BLOCK_POOL_H
#define IMPMEM_BLOCK_POOL_H

#include "impmem/backend.h"
#include "impmem/span.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct impmem_block_pool impmem_block_pool;

#define IMPMEM_NO_BLOCK UINT32_MAX

/* clang-format off */
/* Who holds a reference. X(name, value, text). */
#define IMPMEM_HOLDER_MAP(X)                                                                                          \
    X(SEQUENCE, 0, "sequence")                                                                                        \
    X(CACHE, 1, "cache")                                                                                              \
    X(PIN, 2, "pin")                                                                                                  \
    X(TRANSFER, 3, "transfer")                                                                                        \
    X(OTHER, 4, "other")
typedef enum impmem_holder {
#define IMPMEM_HOLDER_ENUM(name, value, text) IMPMEM_HOLDER_##name = value,
    IMPMEM_HOLDER_MAP(IMPMEM_HOLDER_ENUM)
#undef IMPMEM_HOLDER_ENUM
    IMPMEM_N_HOLDERS = 5
} impmem_holder;
/* clang-format on */
const char *impmem_holder_name(impmem_holder holder); /* "?" when out of range */

/* One holder's counted reference: 16 bytes, zero = none. Copying it by assignment makes no second reference. */
typedef struct impmem_block_ref {
    uint64_t generation_;
    uint32_t slot_;
    uint32_t pool_;
} impmem_block_ref;
/* clang-format off */
#define IMPMEM_BLOCK_REF_NONE { 0, 0, 0 }
/* clang-format on */
static inline bool impmem_block_ref_is_none(impmem_block_ref ref)
{
    return ref.generation_ == 0;
}

typedef struct impmem_block_pool_options {
    uint32_t size;
    uint32_t version;            /* 1 */
    impmem_region *region;       /* NULL: ids only */
    uint64_t stride_bytes;       /* bytes of one block; block i lies at base + i * stride. 0 with ids only */
    uint32_t blocks;             /* usable from the start; over a growable region their prefix is committed at open */
    uint32_t max_blocks;         /* ceiling of impmem_block_pool_grow; 0 = blocks */
    uint32_t extra_refs;         /* references beyond one per live block that can exist at once (shares); 0 = max_blocks */
    impmem_line_id control_line; /* plan line of the host tables; 0 = IMPMEM_LINE_HOST_CONTROL */
    bool unshared;               /* share is IMPMEM_ERR_UNSUPPORTED: window blocks are never shared */
} impmem_block_pool_options;
/* clang-format off */
#define IMPMEM_BLOCK_POOL_OPTIONS_INIT { sizeof(impmem_block_pool_options), 1, NULL, 0, 0, 0, 0, 0, false }
/* clang-format on */

/* Host tables: impmem_control_block_pool_bytes(max_blocks, extra_refs), taken here and never again; of an unshared pool
 * with extra_refs 0. Errors: VERSION, INVALID_ARGUMENT (0 blocks, stride 0 or max_blocks * stride above the region, a
 * stride without a region, a region of another ledger), BUSY (region already open), OUT_OF_HOST_MEMORY, BUDGET_EXCEEDED,
 * SERVING, CAPTURING, and what impmem_region_commit returns. On failure nothing changed: memory committed on the way is
 * decommitted again, unless the region had committed islands before. */
IMPMEM_NODISCARD impmem_status impmem_block_pool_open(impmem_ledger *ledger, const impmem_block_pool_options *options,
                                                      impmem_block_pool **out, impmem_error *why);

/* NULL is fine. LIVE_HOLDERS while any reference lives or any block is reserved: nothing is closed, and `why` names the
 * count and the first block with its holder and owner. The region stays the caller's. */
IMPMEM_NODISCARD impmem_status impmem_block_pool_close(impmem_block_pool **pool, impmem_error *why);

/* A free block, referenced once. EXHAUSTED when none is free. `owner` is any number that means something to the caller. */
IMPMEM_NODISCARD impmem_status impmem_block_take(impmem_block_pool *pool, impmem_holder holder, uint64_t owner,
                                                 impmem_block_ref *out);
/* n blocks or none. `out` has room for n. n 0 is IMPMEM_OK. */
IMPMEM_NODISCARD impmem_status impmem_block_take_many(impmem_block_pool *pool, impmem_holder holder, uint64_t owner,
                                                      uint32_t n, impmem_block_ref *out);
/* A second reference to the block of `ref`. STALE (none refs too), FOREIGN (another pool), UNSUPPORTED, EXHAUSTED
 * (extra_refs used up; not counted as a refused take). */
IMPMEM_NODISCARD impmem_status impmem_block_share(impmem_block_pool *pool, impmem_block_ref ref, impmem_holder holder,
                                                  uint64_t owner, impmem_block_ref *out);
/* Hand a reference to another holder class and owner without touching the count. Kills copies and their spans: *ref gets a
 * new generation. STALE, FOREIGN. */
IMPMEM_NODISCARD impmem_status impmem_block_transfer(impmem_block_pool *pool, impmem_block_ref *ref, impmem_holder holder,
                                                     uint64_t owner);
/* Drops the reference and zeroes *ref. A none ref is IMPMEM_OK and does nothing. STALE and FOREIGN change nothing, *ref
 * included. */
IMPMEM_NODISCARD impmem_status impmem_block_drop(impmem_block_pool *pool, impmem_block_ref *ref);
/* All or none: if any is stale, foreign or listed twice nothing is dropped, and *first_bad (nullable) is its index. None
 * refs are skipped. */
IMPMEM_NODISCARD impmem_status impmem_block_drop_many(impmem_block_pool *pool, impmem_block_ref *refs, uint32_t n,
                                                      uint32_t *first_bad);

/* Move a reference: returns it and zeroes the source. */
static inline impmem_block_ref impmem_block_ref_move(impmem_block_ref *ref)
{
    impmem_block_ref moved = *ref;
    ref->generation_ = 0;
    ref->slot_ = 0;
    ref->pool_ = 0;
    return moved;
}

/* IMPMEM_NO_BLOCK when stale, foreign or none. */
uint32_t impmem_block_id(const impmem_block_pool *pool, impmem_block_ref ref);
/* References on the block; 0 when the ref is not valid. */
uint32_t impmem_block_count(const impmem_block_pool *pool, impmem_block_ref ref);
/* Address and size of the block; the span lives as long as this very reference. STALE, FOREIGN, UNSUPPORTED for an ids-only
 * pool. */
IMPMEM_NODISCARD impmem_status impmem_block_address(const impmem_block_pool *pool, impmem_block_ref ref,
                                                    impmem_block_span *out);

/* "Why is block 17 alive": one entry per reference, up to `capacity`; *out_n is how many there are, which may be more.
 * NOT_FOUND: no such id. */
typedef struct impmem_block_holder {
    impmem_holder holder;
    uint64_t owner;
} impmem_block_holder;
IMPMEM_NODISCARD impmem_status impmem_block_holders(const impmem_block_pool *pool, uint32_t block, impmem_block_holder *out,
                                                    uint32_t capacity, uint32_t *out_n);

/* Makes `blocks` usable, at most max_blocks (INVALID_ARGUMENT above; fewer than now is INVALID_ARGUMENT too). Over a
 * growable region commits what is not committed yet: nothing, and no driver call, when somebody committed ahead. Under a
 * grower it never commits: what that has not published is CAPACITY, and the grower is told how much was wanted. On
 * partial failure the blocks that are wholly backed are added and the cause is returned. */
IMPMEM_NODISCARD impmem_status impmem_block_pool_grow(impmem_block_pool *pool, uint32_t blocks, impmem_error *why);

/* Reserve: promised to a claim but not taken yet. free - reserved is what others may take. Reserved blocks still count as
 * free. CAPACITY when fewer are available. `unreserve` gives promises back (INVALID_ARGUMENT: more than reserved).
 * `take_reserved` takes one of the reserved blocks (EXHAUSTED: none is). */
IMPMEM_NODISCARD impmem_status impmem_block_pool_reserve(impmem_block_pool *pool, uint32_t n);
IMPMEM_NODISCARD impmem_status impmem_block_pool_unreserve(impmem_block_pool *pool, uint32_t n);
IMPMEM_NODISCARD impmem_status impmem_block_take_reserved(impmem_block_pool *pool, impmem_holder holder, uint64_t owner,
                                                          impmem_block_ref *out);

typedef struct impmem_block_pool_stats {
    uint64_t total_blocks;
    uint64_t max_blocks;
    uint64_t free_blocks;
    uint64_t reserved_blocks; /* part of free */
    uint64_t live_blocks;     /* with at least one reference */
    uint64_t live_peak_blocks;
    uint64_t references; /* all of them */
    uint64_t references_by[IMPMEM_N_HOLDERS];
    uint64_t takes;     /* since open */
    uint64_t exhausted; /* refused takes since open */
    uint64_t growths;
    uint64_t stride_bytes;
} impmem_block_pool_stats;
/* Owner thread: exact. */
void impmem_block_pool_query(const impmem_block_pool *pool, impmem_block_pool_stats *out);
/* Owner thread, once a step: publish for readers. Any thread: what was last published. */
void impmem_block_pool_publish_stats(impmem_block_pool *pool);
void impmem_block_pool_read_stats(const impmem_block_pool *pool, impmem_block_pool_stats *out);

/* Walks every table: counts agree, free list has no repeats, every slot's block is alive. Slow. IMPMEM_ERR_STATE and the
 * first disagreement in `why`. */
IMPMEM_NODISCARD impmem_status impmem_block_pool_check(const impmem_block_pool *pool, impmem_error *why);

#ifdef __cplusplus
}
#endif
#endif
