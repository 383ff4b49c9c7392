/* sequence.c - what happens to a sequence between admission and publication: append, truncate, release, hold. */
#include "kv/internal.h"
#include "kv/live.h"

/* What one append does to a group. */
typedef struct step {
    uint32_t passed;   /* blocks that leave the window */
    uint32_t recycled; /* of those, ones that carry on as new blocks */
} step;

/* The first position that a token at `tokens` still attends to. */
static uint32_t window_start(const impmem_kv *kv, uint32_t group, uint64_t tokens)
{
    uint64_t window = kv->group[group].window;
    return window && tokens + 1 > window ? (uint32_t)((tokens + 1 - window) / kv->block_tokens) : 0;
}

static step plan_step(const impmem_kv *kv, const impmem__kv_sequence *s, uint32_t group, uint32_t new_blocks)
{
    step out = {0, 0};
    uint32_t start = window_start(kv, group, s->tokens);
    if (start > s->first[group]) {
        out.passed = (start < s->blocks ? start : s->blocks) - s->first[group];
        out.recycled = out.passed < new_blocks ? out.passed : new_blocks;
    }
    return out;
}

/* Makes sure that the group has the blocks of this step, beyond what other sequences were promised. Within its own promise
 * that is so already. */
static impmem_status ensure_step(impmem_kv *kv, const impmem__kv_sequence *s, uint32_t group, uint32_t new_blocks,
                                 step plan)
{
    uint32_t held = impmem__kv_held(s, group);
    uint32_t after = held - plan.passed + new_blocks;
    uint32_t promise = s->promise[group];
    if (after <= promise) return IMPMEM_OK;
    return impmem__kv_ensure(kv, group, (uint64_t)plan.passed + impmem__kv_left(promise, held), new_blocks);
}

/* Blocks behind what the sequence has, in one group; all or none. */
static impmem_status take_step(impmem_kv *kv, impmem__kv_sequence *s, uint32_t group, uint32_t new_blocks, step plan)
{
    impmem_block_ref *refs = kv->group[group].refs + impmem__kv_row(kv, s) + s->blocks;
    for (uint32_t i = plan.recycled; i < new_blocks; i++) {
        if (impmem__kv_take(kv, group, s->owner, &refs[i])) {
            while (i-- > plan.recycled) impmem__kv_drop(kv, group, &refs[i]);
            return IMPMEM_ERR_CAPACITY;
        }
    }
    return IMPMEM_OK;
}

static void finish_step(impmem_kv *kv, impmem__kv_sequence *s, uint32_t group, uint32_t new_blocks, step plan)
{
    impmem__kv_group *g = &kv->group[group];
    uint64_t row = impmem__kv_row(kv, s);
    uint32_t left_before = impmem__kv_left(s->promise[group], impmem__kv_held(s, group));
    for (uint32_t i = 0; i < plan.passed; i++) {
        uint64_t at = row + s->first[group] + i;
        if (i < plan.recycled) g->refs[row + s->blocks + i] = impmem_block_ref_move(&g->refs[at]);
        else impmem__kv_drop(kv, group, &g->refs[at]);
        g->ids[at] = IMPMEM_NO_BLOCK;
    }
    s->first[group] += plan.passed;
    for (uint32_t i = 0; i < new_blocks; i++) {
        uint64_t at = row + s->blocks + i;
        g->ids[at] = impmem_block_id(g->pool, g->refs[at]);
    }
    uint32_t held = s->blocks + new_blocks - s->first[group];
    g->promised = g->promised - left_before + impmem__kv_left(s->promise[group], held);
}

/* Beyond the blocks that are there. Out of line, so that the append of a token that needs none stays short. */
static __attribute__((noinline)) impmem_status extend(impmem_kv *kv, impmem__kv_sequence *s, uint64_t tokens)
{
    step plan[IMPMEM_KV_MAX_GROUPS];
    const uint32_t n_groups = kv->n_groups;
    if (tokens > kv->max_seq_tokens) return IMPMEM_ERR_CAPACITY;
    uint32_t new_blocks = 1;
    if (tokens - s->room > kv->block_tokens) new_blocks = impmem__kv_blocks_of(kv, tokens) - s->blocks;
    for (uint32_t g = 0; g < n_groups; g++) {
        plan[g] = plan_step(kv, s, g, new_blocks);
        impmem_status st = ensure_step(kv, s, g, new_blocks, plan[g]);
        if (st) return st;
    }
    for (uint32_t g = 0; g < n_groups; g++) {
        impmem_status st = take_step(kv, s, g, new_blocks, plan[g]);
        if (!st) continue;
        while (g-- > 0) {
            impmem_block_ref *refs = kv->group[g].refs + impmem__kv_row(kv, s) + s->blocks;
            for (uint32_t i = plan[g].recycled; i < new_blocks; i++) impmem__kv_drop(kv, g, &refs[i]);
        }
        return st;
    }
    for (uint32_t g = 0; g < n_groups; g++) finish_step(kv, s, g, new_blocks, plan[g]);
    s->blocks += new_blocks;
    uint64_t room = (uint64_t)s->blocks * kv->block_tokens;
    s->room = room < kv->max_seq_tokens ? (uint32_t)room : kv->max_seq_tokens;
    s->tokens = (uint32_t)tokens;
    return IMPMEM_OK;
}

impmem_status impmem_kv_append(impmem_kv *kv, impmem_sequence seq, uint32_t n_tokens)
{
    if (!kv) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem__kv_sequence *s = impmem__kv_find_sequence(kv, seq);
    if (!s) return IMPMEM_ERR_STALE;
    uint64_t tokens = (uint64_t)s->tokens + n_tokens;
    if (tokens > s->room) return extend(kv, s, tokens);
    s->tokens = (uint32_t)tokens;
    return IMPMEM_OK;
}

/* ---- giving back ------------------------------------------------------------------------------------------------------- */

/* The cache's side of leaving positions from `keep` on, last first, so that a chain's head becomes the most recent. Returns
 * how many blocks that the cache does not know become free. */
static uint64_t leave_entries(impmem_kv *kv, const impmem__kv_sequence *s, uint32_t keep)
{
    uint64_t freed = 0;
    uint64_t row = impmem__kv_row(kv, s);
    for (uint32_t i = s->blocks; i-- > keep;) {
        uint32_t entry = kv->n_entries ? kv->binding[kv->group[0].ids[row + i]] : 0;
        if (entry) impmem__kv_remove_user(kv, entry);
        else freed += impmem_block_count(kv->group[0].pool, kv->group[0].refs[row + i]) == 1;
    }
    return freed;
}

/* Undoes leave_entries: what it put into the eviction list comes out again, and the order of the rest was never touched. */
static void rejoin_entries(impmem_kv *kv, const impmem__kv_sequence *s, uint32_t keep)
{
    uint64_t row = impmem__kv_row(kv, s);
    for (uint32_t i = keep; i < s->blocks; i++) {
        uint32_t entry = kv->n_entries ? kv->binding[kv->group[0].ids[row + i]] : 0;
        if (entry) impmem__kv_add_user(kv, entry);
    }
}

/* Blocks of another group than 0 that become free. */
static uint64_t count_freed(const impmem_kv *kv, const impmem__kv_sequence *s, uint32_t group, uint32_t keep)
{
    uint64_t freed = 0;
    const impmem_block_ref *refs = kv->group[group].refs + impmem__kv_row(kv, s);
    for (uint32_t i = keep; i < s->blocks; i++) freed += impmem_block_count(kv->group[group].pool, refs[i]) == 1;
    return freed;
}

static void drop_blocks(impmem_kv *kv, impmem__kv_sequence *s, uint32_t group, uint32_t keep)
{
    impmem_block_ref *refs = kv->group[group].refs + impmem__kv_row(kv, s);
    uint32_t from = keep > s->first[group] ? keep : s->first[group];
    for (uint32_t i = s->blocks; i-- > from;) impmem__kv_drop(kv, group, &refs[i]);
}

static impmem_status check_truncate(const impmem_kv *kv, const impmem__kv_sequence *s, uint32_t n_tokens, uint32_t keep)
{
    uint64_t row = impmem__kv_row(kv, s);
    if (n_tokens > s->tokens) return IMPMEM_ERR_INVALID_ARGUMENT;
    for (uint32_t g = 0; g < kv->n_groups; g++) {
        if (s->first[g] > window_start(kv, g, n_tokens)) return IMPMEM_ERR_INVALID_ARGUMENT;
        /* What is appended next would be written over a block that others read. */
        if (n_tokens % kv->block_tokens && impmem_block_count(kv->group[g].pool, kv->group[g].refs[row + keep - 1]) > 1)
            return IMPMEM_ERR_INVALID_ARGUMENT;
    }
    return IMPMEM_OK;
}

/* The published chain after it was cut to `whole` blocks. */
static void cut_chain(const impmem_kv *kv, impmem__kv_sequence *s, uint32_t whole)
{
    if (s->published > whole) s->published = whole;
    if (s->stopped > whole) s->stopped = 0;
    bool known = s->bound && kv->entry[s->last].generation == s->last_generation;
    if (!known) s->bound = 0;
    for (; s->bound > whole; s->bound--) s->last = kv->entry[s->last].parent;
    if (!s->bound) s->last = 0;
    s->last_generation = s->last ? kv->entry[s->last].generation : 0;
}

impmem_status impmem_kv_truncate(impmem_kv *kv, impmem_sequence seq, uint32_t n_tokens)
{
    if (!kv) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem__kv_sequence *s = impmem__kv_find_sequence(kv, seq);
    if (!s) return IMPMEM_ERR_STALE;
    if (n_tokens == s->tokens) return IMPMEM_OK;
    uint32_t keep = impmem__kv_blocks_of(kv, n_tokens);
    impmem_status st = check_truncate(kv, s, n_tokens, keep);
    if (st) return st;

    uint64_t freed = leave_entries(kv, s, keep);
    for (uint32_t g = 0; g < kv->n_groups && !st; g++) {
        uint32_t held = impmem__kv_held(s, g);
        uint32_t more = impmem__kv_left(s->promise[g], held - (s->blocks - keep)) - impmem__kv_left(s->promise[g], held);
        st = impmem__kv_ensure(kv, g, g ? count_freed(kv, s, g, keep) : freed, more);
    }
    if (st) {
        rejoin_entries(kv, s, keep);
        return st;
    }
    for (uint32_t g = 0; g < kv->n_groups; g++) {
        uint32_t held = impmem__kv_held(s, g);
        drop_blocks(kv, s, g, keep);
        kv->group[g].promised += impmem__kv_left(s->promise[g], held - (s->blocks - keep));
        kv->group[g].promised -= impmem__kv_left(s->promise[g], held);
    }
    s->blocks = keep;
    s->tokens = n_tokens;
    uint64_t room = (uint64_t)keep * kv->block_tokens;
    s->room = room < kv->max_seq_tokens ? (uint32_t)room : kv->max_seq_tokens;
    if (kv->n_entries) cut_chain(kv, s, n_tokens / kv->block_tokens);
    return IMPMEM_OK;
}

impmem_status impmem_kv_release(impmem_kv *kv, impmem_sequence *seq)
{
    if (!kv || !seq) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (!seq->slot_ && !seq->generation_) return IMPMEM_OK;
    impmem__kv_sequence *s = impmem__kv_find_sequence(kv, *seq);
    if (!s) return IMPMEM_ERR_STALE;
    leave_entries(kv, s, 0);
    for (uint32_t g = 0; g < kv->n_groups; g++) {
        kv->group[g].promised -= impmem__kv_left(s->promise[g], impmem__kv_held(s, g));
        drop_blocks(kv, s, g, 0);
    }
    if (s->root) impmem__kv_leave_root(kv, s->root);
    s->live = 0;
    if (!++s->generation) s->generation = 1;
    s->next_free = kv->free_sequence;
    kv->free_sequence = (uint32_t)(s - kv->sequence) + 1;
    kv->live_sequences--;
    *seq = (impmem_sequence)IMPMEM_SEQUENCE_NONE;
    return IMPMEM_OK;
}

/* ---- reading and holding -------------------------------------------------------------------------------------------------- */

bool impmem__kv_is_live(const impmem_kv *kv, impmem_sequence sequence)
{
    return impmem__kv_find_sequence(kv, sequence) != NULL;
}

uint32_t impmem_kv_tokens(const impmem_kv *kv, impmem_sequence seq)
{
    const impmem__kv_sequence *s = kv ? impmem__kv_find_sequence(kv, seq) : NULL;
    return s ? s->tokens : 0;
}

impmem_status impmem_kv_block_table(const impmem_kv *kv, impmem_sequence seq, uint32_t group, const uint32_t **out_ids,
                                    uint32_t *out_n)
{
    if (!kv || !out_ids || !out_n || group >= kv->n_groups) return IMPMEM_ERR_INVALID_ARGUMENT;
    const impmem__kv_sequence *s = impmem__kv_find_sequence(kv, seq);
    if (!s) return IMPMEM_ERR_STALE;
    *out_ids = kv->group[group].ids + impmem__kv_row(kv, s);
    *out_n = s->blocks;
    return IMPMEM_OK;
}

impmem_status impmem_kv_hold(impmem_kv *kv, impmem_sequence seq, uint32_t group, uint32_t position, impmem_holder holder,
                             uint64_t owner, impmem_block_ref *out)
{
    if (!kv || !out || group >= kv->n_groups || holder == IMPMEM_HOLDER_SEQUENCE || holder == IMPMEM_HOLDER_CACHE)
        return IMPMEM_ERR_INVALID_ARGUMENT;
    const impmem__kv_sequence *s = impmem__kv_find_sequence(kv, seq);
    if (!s) return IMPMEM_ERR_STALE;
    if (kv->group[group].window) return IMPMEM_ERR_UNSUPPORTED;
    if (position >= s->blocks) return IMPMEM_ERR_NOT_FOUND;
    impmem__kv_group *g = &kv->group[group];
    uint64_t at = impmem__kv_row(kv, s) + position;
    impmem_status st = impmem_block_share(g->pool, g->refs[at], holder, owner, out);
    if (st) return st;
    g->holds++;
    uint32_t entry = kv->n_entries ? kv->binding[g->ids[at]] : 0;
    if (entry) impmem__kv_add_user(kv, entry);
    return IMPMEM_OK;
}

impmem_status impmem_kv_unhold(impmem_kv *kv, uint32_t group, impmem_block_ref *ref)
{
    if (!kv || !ref || group >= kv->n_groups) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (impmem_block_ref_is_none(*ref)) return IMPMEM_OK;
    impmem__kv_group *g = &kv->group[group];
    uint32_t block = impmem_block_id(g->pool, *ref);
    impmem_status st = impmem_block_drop(g->pool, ref);
    if (st) return st;
    g->holds--;
    uint32_t entry = kv->n_entries && !group ? kv->binding[block] : 0;
    if (entry) impmem__kv_remove_user(kv, entry);
    return IMPMEM_OK;
}
