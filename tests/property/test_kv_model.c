/* A naive model of pool, prefix cache and sequences - plain arrays, exact tokens, locks found by search, exact LRU order - is
 * compared with the library after every one of 100,000 random operations, for ten seeds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "impmem/kv.h"
#include "kv/internal.h"

enum {
    BLOCK_TOKENS = 4,
    MAX_BLOCKS = 24,
    SEQUENCES = 6,
    MAX_TOKENS = 40,
    MAX_POSITIONS = MAX_TOKENS / BLOCK_TOKENS,
    NAMESPACES = 3,
    HOLDS = 4,
    OPERATIONS = 100000,
};

typedef struct model_block {
    int used;
    int users; /* sequences and holds */
    int entry; /* -1 = not cached */
} model_block;

typedef struct model_entry {
    int used;
    int parent; /* -1 = first block of its namespace */
    int name_space;
    uint32_t tokens[BLOCK_TOKENS];
    int block;
    uint64_t stamp; /* when it became reclaimable; 0 = it is not */
    uint64_t serial;
} model_entry;

typedef struct model_sequence {
    int live, name_space;
    uint32_t text[MAX_TOKENS]; /* what the engine would write; the first `tokens` are written */
    uint32_t tokens;
    int n_blocks, promise, published, bound, last, stopped;
    uint64_t last_serial;
    int block[MAX_POSITIONS];
    impmem_sequence handle;
} model_sequence;

typedef struct world {
    uint64_t random;
    unsigned seed;
    long operation;
    const char *what;
    impmem_ledger *ledger;
    impmem_block_pool *pool;
    impmem_kv *kv;
    int total, entry_limit;
    int promised;
    uint64_t clock, serial, evictions, growths, admissions, never, not_now, uncached, hit_blocks, lookup_blocks;
    model_block block[MAX_BLOCKS];
    model_entry entry[MAX_BLOCKS];
    model_sequence sequence[SEQUENCES];
    struct {
        int live, block;
        impmem_block_ref ref;
    } hold[HOLDS];
} world;

static uint32_t dice(world *w, uint32_t sides)
{
    uint64_t x = w->random += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((x ^ x >> 31) >> 32) % sides;
}

static void same(const world *w, const char *figure, uint64_t library, uint64_t model)
{
    if (library != model)
        fail_msg("seed %u, operation %ld (%s): %s is %llu, the model says %llu", w->seed, w->operation, w->what, figure,
                 (unsigned long long)library, (unsigned long long)model);
}

/* ---- the model ----------------------------------------------------------------------------------------------------------- */

static int locked(const world *w, int e)
{
    if (w->block[w->entry[e].block].users) return 1;
    for (int c = 0; c < MAX_BLOCKS; c++) {
        if (w->entry[c].used && w->entry[c].parent == e && locked(w, c)) return 1;
    }
    return 0;
}

static int count_free(const world *w)
{
    int used = 0;
    for (int b = 0; b < MAX_BLOCKS; b++) used += w->block[b].used;
    return w->total - used;
}

static int count_entries(const world *w, int only_reclaimable)
{
    int n = 0;
    for (int e = 0; e < MAX_BLOCKS; e++) n += w->entry[e].used && (!only_reclaimable || !locked(w, e));
    return n;
}

/* Entries that stopped being locked get a place in time: a chain's last ones first. */
static void stamp_unlocked(world *w)
{
    for (int again = 1; again;) {
        again = 0;
        for (int e = 0; e < MAX_BLOCKS; e++) {
            if (!w->entry[e].used || w->entry[e].stamp || locked(w, e)) continue;
            int ready = 1;
            for (int c = 0; c < MAX_BLOCKS; c++)
                if (w->entry[c].used && w->entry[c].parent == e && !w->entry[c].stamp) ready = 0;
            if (!ready) continue;
            w->entry[e].stamp = ++w->clock;
            again = 1;
        }
    }
}

static void unstamp_locked(world *w)
{
    for (int e = 0; e < MAX_BLOCKS; e++)
        if (w->entry[e].used && locked(w, e)) w->entry[e].stamp = 0;
}

static void free_if_unused(world *w, int b)
{
    if (!w->block[b].users && w->block[b].entry < 0) w->block[b].used = 0;
}

static int oldest(const world *w)
{
    int found = -1;
    for (int e = 0; e < MAX_BLOCKS; e++) {
        if (w->entry[e].used && w->entry[e].stamp && (found < 0 || w->entry[e].stamp < w->entry[found].stamp)) found = e;
    }
    return found;
}

static void evict_oldest(world *w)
{
    int e = oldest(w);
    w->entry[e].used = 0;
    w->block[w->entry[e].block].entry = -1;
    free_if_unused(w, w->entry[e].block);
    w->evictions++;
}

static int take_block(world *w)
{
    if (!count_free(w) && w->total < MAX_BLOCKS) {
        w->total++;
        w->growths++;
    }
    if (!count_free(w)) evict_oldest(w);
    int b = 0;
    while (w->block[b].used) b++;
    w->block[b] = (model_block){1, 1, -1};
    return b;
}

static int at_hand(const world *w)
{
    return count_free(w) + count_entries(w, 1) - w->promised;
}

/* Whether `spend` more blocks can be had, growing when that is what it takes. */
static int ensure(world *w, int gain, int spend)
{
    int missing = spend - gain - at_hand(w);
    if (missing <= 0) return 1;
    if (missing > MAX_BLOCKS - w->total) return 0;
    w->total += missing;
    w->growths++;
    return 1;
}

static int find_entry(const world *w, int name_space, int parent, const uint32_t *tokens)
{
    for (int e = 0; e < MAX_BLOCKS; e++) {
        const model_entry *entry = &w->entry[e];
        if (entry->used && entry->parent == parent && entry->name_space == name_space &&
            !memcmp(entry->tokens, tokens, sizeof entry->tokens))
            return e;
    }
    return -1;
}

static int find_hits(const world *w, int name_space, const uint32_t *tokens, uint32_t n, int *hits)
{
    int found = 0, parent = -1;
    while (n && found < (int)((n - 1) / BLOCK_TOKENS)) {
        int e = find_entry(w, name_space, parent, tokens + found * BLOCK_TOKENS);
        if (e < 0) break;
        hits[found++] = parent = e;
    }
    return found;
}

static int blocks_of(uint32_t tokens)
{
    return (int)((tokens + BLOCK_TOKENS - 1) / BLOCK_TOKENS);
}

static int left(int promise, int held)
{
    return promise > held ? promise - held : 0;
}

static impmem_status model_append(world *w, model_sequence *s, uint32_t n)
{
    if (s->tokens + n > MAX_TOKENS) return IMPMEM_ERR_CAPACITY;
    int more = blocks_of(s->tokens + n) - s->n_blocks;
    if (s->n_blocks + more > s->promise && !ensure(w, left(s->promise, s->n_blocks), more)) return IMPMEM_ERR_CAPACITY;
    int before = left(s->promise, s->n_blocks);
    for (int i = 0; i < more; i++) s->block[s->n_blocks + i] = take_block(w);
    s->n_blocks += more;
    s->tokens += n;
    w->promised += left(s->promise, s->n_blocks) - before;
    return IMPMEM_OK;
}

static void model_release(world *w, model_sequence *s)
{
    for (int i = s->n_blocks; i-- > 0;) {
        w->block[s->block[i]].users--;
        stamp_unlocked(w);
    }
    w->promised -= left(s->promise, s->n_blocks);
    for (int i = 0; i < s->n_blocks; i++) free_if_unused(w, s->block[i]);
    s->live = 0;
}

static impmem_status model_truncate(world *w, model_sequence *s, uint32_t n)
{
    if (n > s->tokens) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (n == s->tokens) return IMPMEM_OK;
    int keep = blocks_of(n);
    if (n % BLOCK_TOKENS) {
        const model_block *tail = &w->block[s->block[keep - 1]];
        if (tail->users + (tail->entry >= 0) > 1) return IMPMEM_ERR_INVALID_ARGUMENT;
    }
    world before = *w;
    int freed = 0;
    for (int i = s->n_blocks; i-- > keep;) {
        model_block *b = &w->block[s->block[i]];
        b->users--;
        freed += b->entry < 0 && !b->users;
        stamp_unlocked(w);
    }
    int more = left(s->promise, keep) - left(s->promise, s->n_blocks);
    if (!ensure(w, freed, more)) {
        *w = before;
        return IMPMEM_ERR_CAPACITY;
    }
    for (int i = keep; i < s->n_blocks; i++) free_if_unused(w, s->block[i]);
    w->promised += more;
    s->n_blocks = keep;
    s->tokens = n;
    int whole = (int)n / BLOCK_TOKENS;
    if (s->published > whole) s->published = whole;
    if (s->stopped > whole) s->stopped = 0;
    if (s->bound && !(w->entry[s->last].used && w->entry[s->last].serial == s->last_serial)) s->bound = 0;
    for (; s->bound > whole; s->bound--) s->last = w->entry[s->last].parent;
    if (s->bound) s->last_serial = w->entry[s->last].serial;
    return IMPMEM_OK;
}

static int bind(world *w, model_sequence *s, int i, int parent)
{
    int b = s->block[i];
    int e = find_entry(w, s->name_space, parent, s->text + i * BLOCK_TOKENS);
    if (e >= 0) {
        int old = w->entry[e].block;
        if (w->block[old].users) return e;
        w->block[old].entry = -1;
        free_if_unused(w, old);
        w->entry[e].block = b;
        w->block[b].entry = e;
        unstamp_locked(w);
        return e;
    }
    if (count_entries(w, 0) == w->entry_limit) {
        if (oldest(w) < 0) return -1;
        evict_oldest(w);
    }
    e = 0;
    while (w->entry[e].used) e++;
    w->entry[e] = (model_entry){
        .used = 1, .parent = parent, .name_space = s->name_space, .block = b, .serial = ++w->serial};
    memcpy(w->entry[e].tokens, s->text + i * BLOCK_TOKENS, sizeof w->entry[e].tokens);
    w->block[b].entry = e;
    return e;
}

static void model_publish(world *w, model_sequence *s, uint32_t n)
{
    int whole = (int)n / BLOCK_TOKENS;
    if (whole <= s->published) return;
    if (s->stopped) {
        w->uncached += (uint64_t)(whole - s->published);
        s->published = whole;
        return;
    }
    if (s->bound && !(w->entry[s->last].used && w->entry[s->last].serial == s->last_serial && locked(w, s->last)))
        s->bound = 0;
    while (s->bound < whole) {
        int e = bind(w, s, s->bound, s->bound ? s->last : -1);
        if (e < 0) {
            s->stopped = s->bound + 1;
            w->uncached += (uint64_t)(whole - (s->bound > s->published ? s->bound : s->published));
            break;
        }
        s->last = e;
        s->last_serial = w->entry[e].serial;
        s->bound++;
    }
    s->published = whole;
}

/* ---- operations on both ---------------------------------------------------------------------------------------------------- */

static impmem_kv_namespace name_of(int n)
{
    static const char *const tenant[NAMESPACES] = {"", "a", ""};
    static const char *const adapter[NAMESPACES] = {"", "", "a"};
    return (impmem_kv_namespace){tenant[n], strlen(tenant[n]), adapter[n], strlen(adapter[n])};
}

/* Texts that share beginnings: a handful of stems, each cut and continued at random. */
static void write_text(world *w, uint32_t *text)
{
    uint32_t stem = dice(w, 3);
    uint32_t shared = dice(w, MAX_TOKENS);
    for (uint32_t i = 0; i < MAX_TOKENS; i++) text[i] = i < shared ? stem * 1000 + i : dice(w, 2);
}

static void do_admit(world *w)
{
    w->what = "admit";
    model_sequence fresh = {.live = 1, .name_space = (int)dice(w, NAMESPACES)};
    write_text(w, fresh.text);
    uint32_t prompt = 1 + dice(w, MAX_TOKENS);
    uint32_t more = dice(w, 12);
    impmem_kv_request r = IMPMEM_KV_REQUEST_INIT;
    r.tokens = fresh.text;
    r.n_tokens = prompt;
    r.max_new_tokens = more;
    r.name_space = name_of(fresh.name_space);
    r.no_reuse = dice(w, 8) == 0;

    int at = 0, hits = 0, hit[MAX_POSITIONS], available = at_hand(w) + MAX_BLOCKS - w->total;
    while (at < SEQUENCES && w->sequence[at].live) at++;
    impmem_status expected = IMPMEM_OK;
    if (prompt + more > MAX_TOKENS) {
        expected = IMPMEM_ERR_NEVER_FITS;
        w->never++;
    } else {
        if (!r.no_reuse) hits = find_hits(w, fresh.name_space, fresh.text, prompt, hit);
        int relocked = 0;
        for (int i = 0; i < hits; i++) relocked += !locked(w, hit[i]);
        fresh.promise = blocks_of(prompt + more);
        if (at == SEQUENCES || !ensure(w, 0, fresh.promise - hits + relocked)) {
            expected = IMPMEM_ERR_CAPACITY;
            w->not_now++;
        }
    }
    impmem_kv_admission a;
    impmem_sequence handle = IMPMEM_SEQUENCE_NONE;
    same(w, "status", impmem_kv_admit(w->kv, &r, &handle, &a, NULL), expected);
    same(w, "available blocks", a.available_blocks, (uint64_t)available);
    if (expected) return;
    for (int i = 0; i < hits; i++) {
        fresh.block[i] = w->entry[hit[i]].block;
        w->block[fresh.block[i]].users++;
    }
    unstamp_locked(w);
    fresh.n_blocks = fresh.published = fresh.bound = hits;
    fresh.tokens = (uint32_t)(hits * BLOCK_TOKENS);
    if (hits) {
        fresh.last = hit[hits - 1];
        fresh.last_serial = w->entry[fresh.last].serial;
    }
    fresh.handle = handle;
    w->promised += fresh.promise - hits;
    w->sequence[at] = fresh;
    w->admissions++;
    w->hit_blocks += (uint64_t)hits;
    w->lookup_blocks += r.no_reuse ? 0 : (prompt - 1) / BLOCK_TOKENS;
    same(w, "cached tokens", a.cached_tokens, fresh.tokens);
    same(w, "needed blocks", a.need_blocks, (uint64_t)(fresh.promise - hits));
}

static void do_hold(world *w, model_sequence *s)
{
    w->what = "hold";
    uint32_t h = dice(w, HOLDS);
    if (w->hold[h].live) {
        same(w, "status", impmem_kv_unhold(w->kv, 0, &w->hold[h].ref), IMPMEM_OK);
        w->block[w->hold[h].block].users--;
        stamp_unlocked(w);
        free_if_unused(w, w->hold[h].block);
        w->hold[h].live = 0;
    } else if (s && s->n_blocks) {
        uint32_t position = dice(w, (uint32_t)s->n_blocks);
        same(w, "status", impmem_kv_hold(w->kv, s->handle, 0, position, IMPMEM_HOLDER_TRANSFER, h, &w->hold[h].ref),
             IMPMEM_OK);
        w->hold[h].live = 1;
        w->hold[h].block = s->block[position];
        w->block[s->block[position]].users++;
    }
}

static void do_evict(world *w)
{
    w->what = "evict";
    uint32_t n = dice(w, 4);
    uint32_t evicted = 0;
    for (; evicted < n && oldest(w) >= 0; evicted++) evict_oldest(w);
    same(w, "evicted", impmem_kv_evict(w->kv, n), evicted);
}

static void do_lookup(world *w)
{
    w->what = "lookup";
    uint32_t text[MAX_TOKENS], cached = 0;
    int hit[MAX_POSITIONS], name_space = (int)dice(w, NAMESPACES);
    uint32_t n = dice(w, MAX_TOKENS + 1);
    write_text(w, text);
    impmem_kv_namespace name = name_of(name_space);
    same(w, "status", impmem_kv_lookup(w->kv, &name, text, n, &cached), IMPMEM_OK);
    same(w, "cached tokens", cached, (uint64_t)find_hits(w, name_space, text, n, hit) * BLOCK_TOKENS);
}

static void operate(world *w)
{
    model_sequence *s = &w->sequence[dice(w, SEQUENCES)];
    uint32_t choice = dice(w, 100);
    if (choice >= 96) {
        do_evict(w);
    } else if (choice >= 92) {
        do_lookup(w);
    } else if (choice >= 86) {
        do_hold(w, s->live ? s : NULL);
    } else if (!s->live) {
        do_admit(w);
    } else if (choice < 40) {
        w->what = "append";
        uint32_t n = dice(w, 10);
        same(w, "status", impmem_kv_append(w->kv, s->handle, n), model_append(w, s, n));
    } else if (choice < 60) {
        w->what = "publish";
        uint32_t n = s->tokens - dice(w, s->tokens + 1) / 2;
        same(w, "status", impmem_kv_publish(w->kv, s->handle, s->text, n), IMPMEM_OK);
        model_publish(w, s, n);
    } else if (choice < 70) {
        w->what = "truncate";
        uint32_t n = dice(w, s->tokens + 3);
        same(w, "status", impmem_kv_truncate(w->kv, s->handle, n), model_truncate(w, s, n));
        /* What was cut is written anew, with other tokens behind what the cache knows. */
        for (uint32_t i = s->tokens; i < MAX_TOKENS; i++)
            if (dice(w, 2)) s->text[i] = dice(w, 2);
    } else if (choice < 80) {
        w->what = "release";
        same(w, "status", impmem_kv_release(w->kv, &s->handle), IMPMEM_OK);
        model_release(w, s);
    } else {
        do_admit(w);
    }
}

/* ---- comparison ------------------------------------------------------------------------------------------------------------ */

static void compare_stats(const world *w)
{
    impmem_kv_stats k;
    impmem_kv_query(w->kv, &k);
    int held = 0, sequences = 0;
    for (int b = 0; b < MAX_BLOCKS; b++) held += w->block[b].used && w->block[b].users > 0;
    for (int s = 0; s < SEQUENCES; s++) sequences += w->sequence[s].live;
    same(w, "sequences", k.sequences, (uint64_t)sequences);
    same(w, "total_blocks", k.total_blocks, (uint64_t)w->total);
    same(w, "free_blocks", k.free_blocks, (uint64_t)count_free(w));
    same(w, "sequence_blocks", k.sequence_blocks, (uint64_t)held);
    same(w, "cached_blocks", k.cached_blocks, (uint64_t)count_entries(w, 0));
    same(w, "reclaimable_blocks", k.reclaimable_blocks, (uint64_t)count_entries(w, 1));
    same(w, "promised_blocks", k.promised_blocks, (uint64_t)w->promised);
    same(w, "admissions", k.admissions, w->admissions);
    same(w, "refused_never", k.refused_never, w->never);
    same(w, "refused_now", k.refused_now, w->not_now);
    same(w, "evictions", k.evictions, w->evictions);
    same(w, "uncached", k.uncached, w->uncached);
    same(w, "growths", k.growths, w->growths);
    same(w, "hit_blocks", k.hit_blocks, w->hit_blocks);
    same(w, "hit_tokens", k.hit_tokens, w->hit_blocks * BLOCK_TOKENS);
    same(w, "lookup_blocks", k.lookup_blocks, w->lookup_blocks);
    assert_true(k.promised_blocks <= k.free_blocks + k.reclaimable_blocks);
}

/* The library's block numbers and the model's must be one another's renaming. */
static void compare_tables(const world *w)
{
    int model_of[MAX_BLOCKS], library_of[MAX_BLOCKS];
    for (int b = 0; b < MAX_BLOCKS; b++) model_of[b] = library_of[b] = -1;
    for (int i = 0; i < SEQUENCES; i++) {
        const model_sequence *s = &w->sequence[i];
        if (!s->live) continue;
        const uint32_t *ids;
        uint32_t n;
        same(w, "tokens", impmem_kv_tokens(w->kv, s->handle), s->tokens);
        same(w, "status of table", impmem_kv_block_table(w->kv, s->handle, 0, &ids, &n), IMPMEM_OK);
        same(w, "length of table", n, (uint64_t)s->n_blocks);
        for (uint32_t p = 0; p < n; p++) {
            assert_true(ids[p] < MAX_BLOCKS);
            if (model_of[ids[p]] < 0 && library_of[s->block[p]] < 0) {
                model_of[ids[p]] = s->block[p];
                library_of[s->block[p]] = (int)ids[p];
            }
            same(w, "block in the table", (uint64_t)model_of[ids[p]], (uint64_t)s->block[p]);
        }
    }
}

/* Entries in the library's eviction list, oldest first, against the model's by time: whole chains of tokens compared. */
static void compare_order(const world *w)
{
    uint64_t after = 0;
    for (uint32_t at = w->kv->oldest; at; at = w->kv->entry[at].newer) {
        int next = -1;
        for (int e = 0; e < MAX_BLOCKS; e++) {
            if (w->entry[e].used && w->entry[e].stamp > after && (next < 0 || w->entry[e].stamp < w->entry[next].stamp))
                next = e;
        }
        if (next < 0) fail_msg("seed %u, operation %ld (%s): more entries are in the list", w->seed, w->operation, w->what);
        after = w->entry[next].stamp;
        uint32_t a = at;
        int b = next;
        for (;;) {
            same(w, "tokens of the next entry to go",
                 (uint64_t)memcmp(w->kv->tokens + a * BLOCK_TOKENS, w->entry[b].tokens, sizeof w->entry[b].tokens), 0);
            a = w->kv->entry[a].parent;
            b = w->entry[b].parent;
            same(w, "whether the chain ends", (a & IMPMEM__KV_AT_ROOT) != 0, b < 0);
            if (b < 0) break;
        }
    }
}

static void open_world(world *w, unsigned seed)
{
    *w = (world){.random = seed, .seed = seed, .what = "open"};
    impmem_ledger_options lo = IMPMEM_LEDGER_OPTIONS_INIT;
    lo.seed = seed + 1;
    assert_int_equal(impmem_ledger_create(NULL, &lo, &w->ledger), IMPMEM_OK);
    impmem_block_pool_options po = IMPMEM_BLOCK_POOL_OPTIONS_INIT;
    po.blocks = seed % 3 == 1 ? 8 : MAX_BLOCKS;
    po.max_blocks = MAX_BLOCKS;
    po.extra_refs = MAX_BLOCKS * (SEQUENCES + HOLDS + 1);
    assert_int_equal(impmem_block_pool_open(w->ledger, &po, &w->pool, NULL), IMPMEM_OK);
    impmem_kv_options o = IMPMEM_KV_OPTIONS_INIT;
    o.group[0].pool = w->pool;
    o.n_groups = 1;
    o.block_tokens = BLOCK_TOKENS;
    o.max_sequences = SEQUENCES;
    o.max_seq_tokens = MAX_TOKENS;
    o.cache_entries = seed % 3 == 2 ? 10 : 0;
    o.index_hash_bits = seed % 2 ? 3 : 0; /* eight hashes for all: everything collides */
    assert_int_equal(impmem_kv_open(w->ledger, &o, &w->kv, NULL), IMPMEM_OK);
    w->total = (int)po.blocks;
    w->entry_limit = o.cache_entries ? (int)o.cache_entries : MAX_BLOCKS;
}

static void close_world(world *w)
{
    w->what = "drain";
    for (int h = 0; h < HOLDS; h++)
        if (w->hold[h].live) assert_int_equal(impmem_kv_unhold(w->kv, 0, &w->hold[h].ref), IMPMEM_OK);
    for (int s = 0; s < SEQUENCES; s++)
        if (w->sequence[s].live) assert_int_equal(impmem_kv_release(w->kv, &w->sequence[s].handle), IMPMEM_OK);
    impmem_kv_stats k;
    impmem_kv_query(w->kv, &k);
    same(w, "live blocks after all were released", k.sequence_blocks, 0);
    same(w, "reclaimable blocks", k.reclaimable_blocks, k.cached_blocks);
    same(w, "promised blocks", k.promised_blocks, 0);
    assert_int_equal(impmem_kv_close(&w->kv, NULL), IMPMEM_OK);
    assert_int_equal(impmem_block_pool_close(&w->pool, NULL), IMPMEM_OK);
    assert_int_equal(impmem_ledger_destroy(w->ledger, NULL), IMPMEM_OK);
}

static void every_operation_leaves_what_a_naive_model_says(void **state)
{
    (void)state;
    static world w;
    for (unsigned seed = 0; seed < 10; seed++) {
        open_world(&w, seed);
        for (w.operation = 0; w.operation < OPERATIONS; w.operation++) {
            operate(&w);
            compare_stats(&w);
            compare_tables(&w);
            compare_order(&w);
        }
        /* The figures must have been worth comparing. */
        assert_true(w.evictions > 1000 && w.hit_blocks > 1000 && w.not_now > 1000 && w.never > 1000 && w.admissions > 1000);
        close_world(&w);
    }
}

static void the_checker_agrees_after_every_operation(void **state)
{
    (void)state;
    static world w;
    for (unsigned seed = 100; seed < 103; seed++) {
        open_world(&w, seed);
        for (w.operation = 0; w.operation < 5000; w.operation++) {
            operate(&w);
            impmem_error why = IMPMEM_ERROR_INIT;
            if (impmem_kv_check(w.kv, &why))
                fail_msg("seed %u, operation %ld (%s): %s", w.seed, w.operation, w.what, why.message);
        }
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_leaves_what_a_naive_model_says),
        cmocka_unit_test(the_checker_agrees_after_every_operation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
