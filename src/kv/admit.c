/* admit.c - looking prompts up and admitting requests: every block that a request may ever take is promised first. */
#include "kv/internal.h"

#include <string.h>

#include "impmem/bytes.h"
#include "impmem/size.h"
#include "kv/live.h"

#define SUBJECT "admission"

/* Blocks of a prompt that a hit may cover: its last token is always computed. */
static uint32_t reusable_blocks(const impmem_kv *kv, uint32_t n_tokens)
{
    return n_tokens ? (n_tokens - 1) / kv->block_tokens : 0;
}

impmem_status impmem_kv_lookup(const impmem_kv *kv, const impmem_kv_namespace *name_space, const uint32_t *tokens,
                               uint32_t n_tokens, uint32_t *out_cached_tokens)
{
    if (!kv || (!tokens && n_tokens) || !out_cached_tokens || !impmem__kv_namespace_valid(name_space))
        return IMPMEM_ERR_INVALID_ARGUMENT;
    uint32_t blocks = 0;
    if (!kv->unsupported) {
        uint32_t root = impmem__kv_find_root(kv, name_space);
        if (root) blocks = impmem__kv_walk(kv, root, tokens, reusable_blocks(kv, n_tokens), NULL, NULL, NULL);
    }
    *out_cached_tokens = blocks * kv->block_tokens;
    return IMPMEM_OK;
}

/* What admitting one request takes. */
typedef struct trial {
    impmem__kv_sequence *sequence;
    uint64_t owner;
    uint32_t hits; /* blocks to be shared from the cache, entries in kv->hit */
    uint32_t hit_limit;
    uint64_t need[IMPMEM_KV_MAX_GROUPS]; /* most blocks held at once */
} trial;

/* Hits that are reclaimable now: once held they back nobody's promise any more. */
static uint64_t reclaimable_hits(const impmem_kv *kv, uint32_t hits)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < hits; i++) n += !impmem__kv_locked(&kv->entry[kv->hit[i]]);
    return n;
}

static uint64_t to_promise(const impmem_kv *kv, const trial *t, uint32_t group)
{
    return group ? t->need[group] : t->need[0] - t->hits + reclaimable_hits(kv, t->hits);
}

/* Promises in every group, or in none. Figures first, so that a pool only grows for a request that fits all of them. */
static impmem_status promise_all(impmem_kv *kv, const trial *t, impmem_claim *claim)
{
    impmem_status st = IMPMEM_OK;
    for (uint32_t g = 0; g < kv->n_groups; g++) {
        if (to_promise(kv, t, g) > impmem__kv_available(kv, g)) return IMPMEM_ERR_CAPACITY;
    }
    for (uint32_t g = 0; g < kv->n_groups && !st; g++)
        st = impmem_claim_add(claim, impmem__kv_promise(kv, g), to_promise(kv, t, g));
    return st;
}

/* References of the new sequence's own on the blocks that it hits, or none of them; *failed_at is the first that could not. */
static bool share_hits(impmem_kv *kv, const trial *t, uint32_t *failed_at)
{
    impmem_block_ref *refs = kv->group[0].refs + impmem__kv_row(kv, t->sequence);
    for (uint32_t i = 0; i < t->hits; i++) {
        const impmem__kv_entry *entry = &kv->entry[kv->hit[i]];
        if (impmem_block_share(kv->group[0].pool, entry->ref, IMPMEM_HOLDER_SEQUENCE, t->owner, &refs[i])) {
            *failed_at = i;
            while (i-- > 0) impmem__kv_drop(kv, 0, &refs[i]);
            return false;
        }
    }
    return true;
}

/* Takes what the trial says. With the pool's references used up fewer hits are shared, and the rest is computed again. */
static impmem_status take(impmem_kv *kv, trial *t)
{
    for (;;) {
        impmem_claim claim = IMPMEM_CLAIM_INIT;
        impmem_status st = promise_all(kv, t, &claim);
        if (!st) {
            if (share_hits(kv, t, &t->hit_limit)) return impmem_claim_commit(&claim);
            t->hits = t->hit_limit;
        }
        impmem_status undone = impmem_claim_undo(&claim);
        if (st || undone) return st ? st : undone;
    }
}

/* Turns hits into held blocks: from here on nothing fails. */
static void seat(impmem_kv *kv, const trial *t, uint32_t root)
{
    impmem__kv_sequence *s = t->sequence;
    uint64_t row = impmem__kv_row(kv, s);
    kv->group[0].promised -= reclaimable_hits(kv, t->hits);
    for (uint32_t i = 0; i < t->hits; i++) {
        kv->group[0].ids[row + i] = impmem_block_id(kv->group[0].pool, kv->group[0].refs[row + i]);
        impmem__kv_add_user(kv, kv->hit[i]);
    }
    kv->free_sequence = s->next_free;
    kv->live_sequences++;
    *s = (impmem__kv_sequence){
        .generation = s->generation,
        .live = 1,
        .tokens = t->hits * kv->block_tokens,
        .room = t->hits * kv->block_tokens,
        .blocks = t->hits,
        .root = root,
        .published = t->hits,
        .bound = t->hits,
        .last = t->hits ? kv->hit[t->hits - 1] : 0,
        .owner = t->owner,
    };
    if (s->last) s->last_generation = kv->entry[s->last].generation;
    for (uint32_t g = 0; g < kv->n_groups; g++) s->promise[g] = (uint32_t)t->need[g];
}

static impmem_status check_request(const impmem_kv_request *r, impmem_error *why)
{
    impmem_status st = impmem__options_check(r->size, r->version, sizeof *r, 1);
    if (st) return impmem__error_set(why, st, SUBJECT, "request version %u is not one that this library knows", r->version);
    if (!r->tokens || !r->n_tokens)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "a request has at least one token");
    if (!impmem__kv_namespace_valid(&r->name_space))
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT,
                                 "a namespace field is longer than %u bytes, or NULL with a length",
                                 IMPMEM__KV_NAMESPACE_FIELD);
    return IMPMEM_OK;
}

static impmem_status count_need(const impmem_kv *kv, uint32_t tokens, trial *t)
{
    impmem_status st = IMPMEM_OK;
    for (uint32_t g = 0; g < kv->n_groups && !st; g++)
        st = impmem_size_blocks_per_sequence(tokens, kv->block_tokens, kv->group[g].window, kv->group[g].in_flight,
                                             &t->need[g]);
    return st;
}

static impmem_status refuse_now(impmem_kv *kv, const impmem_kv_admission *a, impmem_error *why)
{
    kv->refused_now++;
    if (kv->live_sequences == kv->max_sequences)
        return impmem__error_set(why, IMPMEM_ERR_CAPACITY, SUBJECT, "all %u sequences are in use", kv->max_sequences);
    impmem_status st = impmem__error_set(why, IMPMEM_ERR_CAPACITY, SUBJECT,
                                         "%llu new blocks are needed, %llu are available",
                                         (unsigned long long)a->need_blocks, (unsigned long long)a->available_blocks);
    impmem__error_hint(why, "the rest is held by or promised to %u sequences: try again when one is released",
                       kv->live_sequences);
    return st;
}

/* The figures of a request that hits nothing, and whether it can ever be admitted. */
static impmem_status consider(const impmem_kv *kv, uint64_t prompt_tokens, uint64_t max_new_tokens, trial *t,
                              impmem_kv_admission *a, impmem_error *why)
{
    uint64_t need_tokens = 0;
    if (impmem_add(&need_tokens, prompt_tokens, max_new_tokens)) need_tokens = UINT64_MAX;
    *a = (impmem_kv_admission){
        .need_tokens = need_tokens > UINT32_MAX ? UINT32_MAX : (uint32_t)need_tokens,
        .most_tokens = kv->most_tokens,
        .need_blocks = need_tokens / kv->block_tokens + (need_tokens % kv->block_tokens != 0),
        .available_blocks = impmem__kv_available(kv, 0),
    };
    if (need_tokens > kv->most_tokens) {
        impmem_status st = impmem__error_set(why, IMPMEM_ERR_NEVER_FITS, SUBJECT,
                                             "%llu tokens (%llu prompt + %llu new) are more than %u",
                                             (unsigned long long)need_tokens, (unsigned long long)prompt_tokens,
                                             (unsigned long long)max_new_tokens, kv->most_tokens);
        impmem__error_hint(why, "no sequence can ever have more than %u tokens here", kv->most_tokens);
        return st;
    }
    impmem_status st = count_need(kv, a->need_tokens, t);
    if (st) return impmem__error_set(why, st, SUBJECT, "the blocks of the request can't be counted");
    a->need_blocks = t->need[0];
    return IMPMEM_OK;
}

impmem_status impmem_kv_servable(const impmem_kv *kv, uint64_t prompt_tokens, uint64_t max_new_tokens,
                                 impmem_kv_admission *admission, impmem_error *why)
{
    if (!kv || !prompt_tokens)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT,
                                 kv ? "a request has at least one token" : "kv must not be NULL");
    trial t;
    impmem_kv_admission a;
    impmem_status st = consider(kv, prompt_tokens, max_new_tokens, &t, &a, why);
    if (admission) *admission = a;
    return st;
}

bool impmem__kv_is_possible(const impmem_kv *kv, const impmem_kv_request *request, impmem_kv_admission *out)
{
    trial t;
    return !check_request(request, NULL) && !consider(kv, request->n_tokens, request->max_new_tokens, &t, out, NULL);
}

static impmem_status admit(impmem_kv *kv, const impmem_kv_request *r, impmem_sequence *out, impmem_kv_admission *a,
                           impmem_error *why)
{
    trial t = {.owner = r->owner};
    impmem_status st = consider(kv, r->n_tokens, r->max_new_tokens, &t, a, why);
    if (st) {
        kv->refused_never += st == IMPMEM_ERR_NEVER_FITS;
        return st;
    }
    if (!kv->free_sequence) return refuse_now(kv, a, why);
    for (uint32_t g = 0; g < kv->n_groups; g++) kv->group[g].growth_refused = 0;

    t.sequence = &kv->sequence[kv->free_sequence - 1];
    uint32_t root = kv->n_entries ? impmem__kv_enter_root(kv, &r->name_space) : 0;
    uint32_t looked_up = 0;
    if (!kv->unsupported && !r->no_reuse) {
        looked_up = reusable_blocks(kv, r->n_tokens);
        t.hits = impmem__kv_walk(kv, root, r->tokens, looked_up, kv->hit, kv->chain + impmem__kv_row(kv, t.sequence),
                                 &kv->collisions);
    }
    a->need_blocks -= t.hits;
    st = take(kv, &t);
    if (st) {
        if (root) impmem__kv_leave_root(kv, root);
        return refuse_now(kv, a, why);
    }
    seat(kv, &t, root);
    a->need_blocks = t.need[0] - t.hits;
    a->cached_tokens = t.hits * kv->block_tokens;
    kv->admissions++;
    kv->prompt_tokens += r->n_tokens;
    kv->hit_tokens += a->cached_tokens;
    kv->lookup_blocks += looked_up;
    kv->hit_blocks += t.hits;
    *out = (impmem_sequence){(uint32_t)(t.sequence - kv->sequence), t.sequence->generation};
    return IMPMEM_OK;
}

impmem_status impmem_kv_admit(impmem_kv *kv, const impmem_kv_request *request, impmem_sequence *out,
                              impmem_kv_admission *admission, impmem_error *why)
{
    if (!kv || !request || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "kv, request and out must not be NULL");
    impmem_status st = check_request(request, why);
    if (st) return st;
    impmem_kv_admission a = {0};
    st = admit(kv, request, out, &a, why);
    if (admission) *admission = a;
    return st;
}
