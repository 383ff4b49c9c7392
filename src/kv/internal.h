/* kv/internal.h - the tables of a KV manager, shared by the files of this folder.
 *
 * Numbers of entries and roots start at 1, so that 0 is "none" and zeroed memory is an empty table: opening writes no row.
 *
 * The cache is a forest: an entry names one whole block and its parent, the entry of the block before it; the first entry of
 * a chain names its root, the namespace. An entry is LOCKED while anything but the cache holds its block (users) or while a
 * child of it is locked (locked_children); else it is RECLAIMABLE and hangs in the eviction list. Since an entry is unlocked
 * only after its last locked child, it enters the list later than its children: the oldest of the list never has a child.
 */
#ifndef IMPMEM__KV_INTERNAL_H
#define IMPMEM__KV_INTERNAL_H

#include <stdatomic.h>

#include "core/internal.h"
#include "core/kv_layout.h"
#include "impmem/kv.h"

#define IMPMEM__KV_AT_ROOT 0x80000000u /* in entry.parent: the other bits are the number of a root */
#define IMPMEM__KV_NAMESPACE_FIELD 256u
#define IMPMEM__KV_NAMESPACE_BYTES (2u * (IMPMEM__KV_NAMESPACE_FIELD + 4u))
#define IMPMEM__KV_ROOT_EVICTIONS 16u /* most entries evicted to make room for one more of them */
#define IMPMEM__KV_CHAIN_CAP 64u

typedef struct impmem__kv_entry {
    uint64_t hash;              /* index hash, cut to index_hash_bits */
    uint64_t generation;        /* 0 = no entry */
    uint64_t parent_generation; /* of the parent entry, or of the root */
    impmem_block_ref ref;       /* the cache's own */
    uint32_t parent;            /* entry, or IMPMEM__KV_AT_ROOT | root */
    uint32_t next;              /* in the bucket; of a free row: the next free one */
    uint32_t newer;             /* in the eviction list */
    uint32_t older;
    uint32_t users; /* references on the block beyond the cache's */
    uint32_t locked_children;
} impmem__kv_entry;

/* One namespace: its encoded bytes in full, compared in full. Alive while sequences or first entries of chains name it. */
typedef struct impmem__kv_root {
    uint64_t generation; /* 0 = no root */
    uint64_t hash;       /* where its chains start */
    uint32_t next;       /* in the bucket; of a free row: the next free one */
    uint32_t sequences;
    uint32_t entries; /* first entries of chains */
    uint32_t text_bytes;
    unsigned char text[IMPMEM__KV_NAMESPACE_BYTES];
} impmem__kv_root;

typedef struct impmem__kv_sequence {
    uint32_t generation; /* of the handle; never 0 once used */
    uint32_t live;
    uint32_t tokens;
    uint32_t room;      /* tokens that fit the blocks taken */
    uint32_t blocks;    /* positions in every group's table, passed ones of a window included */
    uint32_t next_free; /* of a free slot: slot + 1, 0 = last */
    uint32_t root;
    uint32_t published; /* whole blocks declared written */
    uint32_t bound;     /* of those, how many lead to `last` */
    uint32_t last;      /* entry of block bound - 1 */
    uint64_t last_generation;
    uint64_t owner;
    uint32_t stopped; /* 1 + the block at which caching of this chain stopped; 0 = it goes on */
    uint32_t unused;
    uint32_t promise[IMPMEM_KV_MAX_GROUPS]; /* most blocks held at once that admission promised */
    uint32_t first[IMPMEM_KV_MAX_GROUPS];   /* positions below it have passed the window */
} impmem__kv_sequence;

typedef struct impmem__kv_group {
    impmem_kv *kv;
    impmem_block_pool *pool;
    impmem_block_ref *refs; /* max_blocks a sequence slot */
    uint32_t *ids;          /* the same */
    uint64_t promised;
    uint32_t set_apart; /* blocks kept reserved in the pool */
    uint64_t holds;     /* references given out by impmem_kv_hold */
    uint32_t window;
    uint32_t in_flight;
    uint32_t number;
    uint64_t known_free;     /* the pool has at least so many free blocks: saves asking for each */
    uint32_t growth_refused; /* since the last admission: do not ask again for every block */
} impmem__kv_group;

#define IMPMEM__KV_STATS_WORDS (sizeof(impmem_kv_stats) / sizeof(uint64_t))

struct impmem_kv {
    impmem__kv_sequence *sequence;
    uint32_t n_groups, block_tokens, max_sequences, max_seq_tokens;
    uint32_t max_blocks; /* of one sequence */
    uint32_t most_tokens;
    uint32_t free_sequence; /* slot + 1 */
    uint32_t live_sequences;

    impmem__kv_entry *entry; /* rows 1 to n_entries */
    uint32_t *tokens;        /* block_tokens for each row */
    uint32_t *bucket;
    uint32_t *binding; /* entry of a block of group 0 */
    uint64_t *mark;    /* one bit an entry: scratch of impmem_kv_check */
    uint64_t *chain;   /* chain hashes of a sequence's published blocks, max_blocks a slot */
    uint32_t *hit;     /* scratch of one admission */
    uint64_t bucket_mask, hash_mask, seed;
    uint32_t n_entries, fresh_entry, free_entry, chain_cap;
    uint32_t newest, oldest; /* ends of the eviction list */
    uint32_t cached, reclaimable;
    uint32_t in_use; /* entries with users */
    uint64_t next_generation;

    impmem__kv_root *root; /* rows 1 to n_roots */
    uint32_t *root_bucket;
    uint64_t root_bucket_mask;
    uint32_t n_roots, fresh_root, free_root, live_roots;
    uint32_t cached_roots, max_cached_roots;

    const char *unsupported; /* why there is no reuse; NULL = there is */
    uint64_t admissions, refused_never, refused_now, prompt_tokens, hit_tokens, lookup_blocks, hit_blocks, collisions,
        evictions, uncached, growths;
    uint64_t broken; /* drops that the pool refused: always 0 */

    impmem__kv_group group[IMPMEM_KV_MAX_GROUPS];

    impmem_ledger *ledger;
    impmem_line_id control_line;
    uint64_t table_bytes;

    _Alignas(64) _Atomic uint64_t shown[IMPMEM__KV_STATS_WORDS];
};

/* ---- layout.c -------------------------------------------------------------------------------------------------------- */
impmem_status impmem__kv_lay_out(const impmem_kv_options *options, impmem__kv_layout *out, impmem_error *why);

/* ---- sequences ------------------------------------------------------------------------------------------------------- */
static inline impmem__kv_sequence *impmem__kv_find_sequence(const impmem_kv *kv, impmem_sequence seq)
{
    if (seq.slot_ >= kv->max_sequences) return NULL;
    impmem__kv_sequence *s = &kv->sequence[seq.slot_];
    return s->live && s->generation == seq.generation_ ? s : NULL;
}

static inline uint64_t impmem__kv_row(const impmem_kv *kv, const impmem__kv_sequence *s)
{
    return (uint64_t)(s - kv->sequence) * kv->max_blocks;
}

static inline uint32_t impmem__kv_held(const impmem__kv_sequence *s, uint32_t group)
{
    return s->blocks - s->first[group];
}

/* What is left of a promise of `promise` blocks when `held` are held. */
static inline uint32_t impmem__kv_left(uint32_t promise, uint32_t held)
{
    return promise > held ? promise - held : 0;
}

static inline uint32_t impmem__kv_blocks_of(const impmem_kv *kv, uint64_t tokens)
{
    return (uint32_t)((tokens + kv->block_tokens - 1) / kv->block_tokens);
}

/* ---- blocks.c -------------------------------------------------------------------------------------------------------- */
/* Free blocks that no claim has reserved in the pool. */
uint64_t impmem__kv_free_blocks(const impmem_kv *kv, uint32_t group);
/* Blocks that a new promise can have: at hand or still to be grown, and promised to nobody. */
uint64_t impmem__kv_available(const impmem_kv *kv, uint32_t group);
/* Makes sure that free + reclaimable + gain >= promised + spend, growing the pool when it is not. CAPACITY: it can't be. */
impmem_status impmem__kv_ensure(impmem_kv *kv, uint32_t group, uint64_t gain, uint64_t spend);
/* One block: a free one, else a grown one, else the oldest reclaimable one. The caller has made sure that there is one. */
impmem_status impmem__kv_take(impmem_kv *kv, uint32_t group, uint64_t owner, impmem_block_ref *out);
void impmem__kv_drop(impmem_kv *kv, uint32_t group, impmem_block_ref *ref);
/* The promise of a group as a part of a claim. */
impmem_resource impmem__kv_promise(impmem_kv *kv, uint32_t group);

/* ---- cache.c --------------------------------------------------------------------------------------------------------- */
static inline bool impmem__kv_locked(const impmem__kv_entry *entry)
{
    return entry->users || entry->locked_children;
}
void impmem__kv_add_user(impmem_kv *kv, uint32_t entry);
void impmem__kv_remove_user(impmem_kv *kv, uint32_t entry);
/* A new entry for the block of `ref` below `parent`; 0 when it can't be cached. `probes` is what finding its absence took. */
uint32_t impmem__kv_insert(impmem_kv *kv, uint32_t parent, uint64_t chain, const uint32_t *tokens, uint32_t probes,
                           impmem_block_ref ref, uint32_t block);
/* Lets a locked or reclaimable entry that only the cache holds name the block of `ref` instead; its old block is freed. */
bool impmem__kv_rebind(impmem_kv *kv, uint32_t entry, impmem_block_ref ref, uint32_t block);
void impmem__kv_evict_oldest(impmem_kv *kv);

/* ---- index.c --------------------------------------------------------------------------------------------------------- */
uint64_t impmem__kv_chain(const impmem_kv *kv, uint64_t before, const uint32_t *tokens);
/* The entry with exactly this key, or 0. *probes: entries of the bucket looked at. *collisions: refused by the full compare. */
uint32_t impmem__kv_find(const impmem_kv *kv, uint32_t parent, uint64_t chain, const uint32_t *tokens, uint32_t *probes,
                         uint64_t *collisions);
/* How many of the first n_blocks blocks hit, from the first on. hits and chains (nullable) take an entry and a chain hash
 * for each. */
uint32_t impmem__kv_walk(const impmem_kv *kv, uint32_t root, const uint32_t *tokens, uint32_t n_blocks, uint32_t *hits,
                         uint64_t *chains, uint64_t *collisions);

/* ---- namespace.c ------------------------------------------------------------------------------------------------------ */
bool impmem__kv_namespace_valid(const impmem_kv_namespace *name_space); /* NULL is the empty one */
uint32_t impmem__kv_find_root(const impmem_kv *kv, const impmem_kv_namespace *name_space);
/* Found or made; there is always room, since there is a row for every sequence beyond those that entries may name. */
uint32_t impmem__kv_enter_root(impmem_kv *kv, const impmem_kv_namespace *name_space);
void impmem__kv_leave_root(impmem_kv *kv, uint32_t root);
void impmem__kv_free_root_if_unused(impmem_kv *kv, uint32_t root);

#endif
