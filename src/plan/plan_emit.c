/* Writing a decision down: charges, then each region with its lines and its rounding, then what has no region, the
 * library's own host tables last. */
#include <string.h>

#include "core/internal.h"
#include "plan/internal.h"

typedef struct emitter {
    const impmem__terms *terms;
    const impmem__decision *decision;
    impmem_plan *plan;
    bool text;
    impmem_status status; /* the first error sticks */
    impmem_line discarded;
} emitter;

static impmem_tier tier_of_part(impmem__part part)
{
    static const impmem_tier tier[] = {IMPMEM_TIER_ENGINE, IMPMEM_TIER_MODEL,   IMPMEM_TIER_ENGINE, IMPMEM_TIER_SCRATCH,
                                       IMPMEM_TIER_PINNED, IMPMEM_TIER_STAGING, IMPMEM_TIER_CHARGE};
    return tier[part];
}

static impmem_tag tag_of_part(impmem__part part)
{
    static const impmem_tag tag[] = {
        IMPMEM_TAG_ENGINE_PERSISTENT, IMPMEM_TAG_MODEL_RESIDENT, IMPMEM_TAG_LOAD_TRANSIENT, IMPMEM_TAG_FORWARD_SCRATCH,
        IMPMEM_TAG_HOST_PINNED,       IMPMEM_TAG_HOST_STAGING,   IMPMEM_TAG_OTHER};
    return tag[part];
}

static const char *name_of_part(impmem__part part)
{
    static const char *const name[] = {"rounding of engine memory", "rounding of model memory",
                                       "rounding of load-time memory", "rounding of scratch"};
    return name[part];
}

static impmem_account account_of_part(impmem__part part)
{
    if (part == IMPMEM__PART_PINNED) return IMPMEM_ACCOUNT_PINNED;
    return part == IMPMEM__PART_STAGING ? IMPMEM_ACCOUNT_PAGEABLE : IMPMEM_ACCOUNT_DEVICE;
}

/* Always a line to fill in; beyond the last one it is a spare whose content goes nowhere. */
static impmem_line *add_line(emitter *e, const impmem_line *head)
{
    if (e->plan->n_lines == IMPMEM_PLAN_MAX_LINES) {
        if (!e->status) e->status = IMPMEM_ERR_BAD_VALUE;
        return &e->discarded;
    }
    impmem_line *line = &e->plan->line[e->plan->n_lines++];
    line->id = head->id;
    line->tier = head->tier;
    line->account = head->account;
    line->tag = head->tag;
    line->flags = head->flags;
    line->region = head->region;
    line->bytes = head->bytes;
    line->demand_bytes = head->demand_bytes ? head->demand_bytes : head->bytes;
    if (!(line->flags & IMPMEM_LINE_TRANSIENT) && !e->status)
        e->status = impmem_add(&e->plan->total_bytes[line->account], e->plan->total_bytes[line->account], line->bytes);
    return line;
}

static impmem_plan_region *add_region(emitter *e, impmem_tier tier, impmem_account account, impmem_tag tag)
{
    if (e->plan->n_regions == IMPMEM_PLAN_MAX_REGIONS) {
        if (!e->status) e->status = IMPMEM_ERR_BAD_VALUE;
        return &e->plan->region[IMPMEM_PLAN_MAX_REGIONS - 1];
    }
    impmem_plan_region *region = &e->plan->region[e->plan->n_regions++];
    region->tier = tier;
    region->account = account;
    region->tag = tag;
    region->line = IMPMEM_NO_LINE;
    return region;
}

/* Rounds the region's `used` bytes up to the granule and writes the difference down. */
static void close_region(emitter *e, impmem_plan_region *region, uint64_t used, const char *rounding_name)
{
    if (!e->status) e->status = impmem_align_up(&region->bytes, used, e->terms->granule_bytes);
    region->initial_bytes = region->bytes;
    if (e->status || region->bytes == used) return;
    uint32_t index = (uint32_t)(region - e->plan->region);
    impmem_line *line = add_line(e, &(impmem_line){.id = IMPMEM_LINE_ROUNDING + index,
                                                   .tier = region->tier,
                                                   .account = region->account,
                                                   .tag = region->tag,
                                                   .flags = region->transient ? IMPMEM_LINE_TRANSIENT : 0,
                                                   .region = index,
                                                   .bytes = region->bytes - used});
    if (e->text) impmem__plan_text_line(line, rounding_name, "up to the region's granule");
}

static impmem_line *add_item(emitter *e, uint32_t i, uint32_t region, uint64_t bytes)
{
    const impmem__item *item = &e->terms->item[i];
    bool dropped = impmem__optional(item) && bytes == 0;
    impmem_line *line = add_line(e, &(impmem_line){.id = item->id,
                                                   .tier = item->tier,
                                                   .account = account_of_part(item->part),
                                                   .tag = tag_of_part(item->part),
                                                   .flags = item->flags | (dropped ? IMPMEM_LINE_DROPPED : 0u),
                                                   .region = region,
                                                   .bytes = bytes,
                                                   .demand_bytes = item->bytes});
    if (e->text) impmem__plan_text_item(e->terms, item, line);
    return line;
}

static void emit_charge(emitter *e, impmem_line_id id, impmem_tag tag, uint64_t bytes, const char *name)
{
    if (bytes == 0) return;
    bool estimated = e->terms->in->charges_estimated != 0;
    impmem_line *line = add_line(e, &(impmem_line){.id = id,
                                                   .tier = IMPMEM_TIER_CHARGE,
                                                   .account = IMPMEM_ACCOUNT_DEVICE,
                                                   .tag = tag,
                                                   .flags = estimated ? IMPMEM_LINE_ESTIMATED : 0,
                                                   .region = UINT32_MAX,
                                                   .bytes = bytes});
    if (e->text)
        impmem__plan_text_line(line, name, estimated ? "a default, not measured on this device" : "given for this device");
}

/* Lines without a region: charges and staging. */
static void emit_regionless(emitter *e, impmem__part part)
{
    for (uint32_t i = 0; i < e->terms->n_items; i++)
        if (e->terms->item[i].part == part && e->decision->grant_bytes[i] > 0)
            add_item(e, i, UINT32_MAX, e->decision->grant_bytes[i]);
}

static void emit_dropped(emitter *e)
{
    for (uint32_t i = 0; i < e->terms->n_items; i++)
        if (impmem__optional(&e->terms->item[i]) && e->decision->grant_bytes[i] == 0 && e->terms->item[i].bytes > 0)
            add_item(e, i, UINT32_MAX, 0);
}

/* A region that several lines share. */
static void emit_shared(emitter *e, impmem__part part)
{
    const impmem__terms *t = e->terms;
    impmem_plan_region *region = NULL;
    uint64_t used = 0;
    uint32_t n = 0, index = e->plan->n_regions;
    impmem_line_id last = IMPMEM_NO_LINE;
    if (part == IMPMEM__PART_MODEL && t->weight_bytes > 0) {
        region = add_region(e, tier_of_part(part), IMPMEM_ACCOUNT_DEVICE, tag_of_part(part));
        bool estimated = t->in->model->weight_source == IMPMEM_SOURCE_ESTIMATED;
        impmem_line *line = add_line(e, &(impmem_line){.id = last = IMPMEM_LINE_WEIGHTS,
                                                       .tier = IMPMEM_TIER_MODEL,
                                                       .account = IMPMEM_ACCOUNT_DEVICE,
                                                       .tag = tag_of_part(part),
                                                       .flags = estimated ? IMPMEM_LINE_ESTIMATED : 0,
                                                       .region = index,
                                                       .bytes = t->weight_bytes});
        if (e->text) impmem__plan_text_weights(t->in->model, line);
        used = t->weight_bytes;
        n = 1;
    }
    for (uint32_t i = 0; i < t->n_items; i++) {
        uint64_t bytes = e->decision->grant_bytes[i];
        if (bytes == 0 || t->item[i].part != part) continue;
        if (!region) {
            region = add_region(e, tier_of_part(part), IMPMEM_ACCOUNT_DEVICE, tag_of_part(part));
            region->transient = part == IMPMEM__PART_TRANSIENT;
        }
        add_item(e, i, index, bytes);
        last = t->item[i].id;
        if (!e->status) e->status = impmem_add(&used, used, bytes);
        n++;
    }
    if (!region) return;
    if (n == 1) region->line = last;
    close_region(e, region, used, name_of_part(part));
}

static void emit_growable(emitter *e, impmem_plan_region *region, uint64_t blocks, uint64_t stride)
{
    const impmem__terms *t = e->terms;
    uint64_t initial = blocks * t->initial_percent; /* blocks < 2^31 */
    initial = initial / 100 + (initial % 100 != 0);
    if (impmem_mul(&initial, initial, stride) || impmem_align_up(&initial, initial, t->chunk_bytes))
        initial = region->bytes;
    region->growable = 1;
    region->initial_bytes = initial < region->bytes ? initial : region->bytes;
}

static void emit_group(emitter *e, uint32_t g)
{
    const impmem__terms *t = e->terms;
    const bool growable = t->initial_percent < 100, full = t->group[g].window_tokens == 0;
    const uint64_t stride = t->group[g].stride_bytes;
    impmem_kv_group *group = &e->plan->kv_group[e->plan->n_kv_groups++];
    *group = t->group[g];
    group->blocks = e->decision->blocks[g];
    group->line = IMPMEM_LINE_KV + g;
    group->region = e->plan->n_regions;
    uint64_t bytes = 0, wanted = 0, whole = 0;
    if (!e->status) e->status = impmem_mul(&bytes, group->blocks, stride);
    if (!e->status) e->status = impmem_align_up(&whole, bytes, t->granule_bytes);
    /* What was asked for is only said, so it may be larger than anything that can be had. */
    if (impmem_mul(&wanted, group->blocks_demanded, stride)) wanted = UINT64_MAX;
    /* A reservation is held by one line, so a growable pool's rounding is part of it. */
    if (growable) bytes = whole;
    impmem_tag tag = full ? IMPMEM_TAG_KV_BLOCKS : IMPMEM_TAG_WINDOW_BLOCKS;
    impmem_plan_region *region = add_region(e, IMPMEM_TIER_POOL, IMPMEM_ACCOUNT_DEVICE, tag);
    region->line = group->line;
    impmem_line *line = add_line(e, &(impmem_line){.id = group->line,
                                                   .tier = IMPMEM_TIER_POOL,
                                                   .account = IMPMEM_ACCOUNT_DEVICE,
                                                   .tag = tag,
                                                   .region = group->region,
                                                   .bytes = bytes,
                                                   .demand_bytes = wanted > bytes ? wanted : bytes});
    if (e->text) impmem__plan_text_kv(t, group, line);
    close_region(e, region, bytes, full ? "rounding of KV cache" : "rounding of window KV cache");
    if (growable) emit_growable(e, region, group->blocks, stride);
}

/* A region of its own that one line holds, beside its rounding. */
static uint32_t emit_single(emitter *e, const impmem_line *head, const char *rounding_name, impmem_line **out_line)
{
    const uint32_t index = e->plan->n_regions;
    impmem_plan_region *region = add_region(e, head->tier, head->account, head->tag);
    region->line = head->id;
    impmem_line line = *head;
    line.region = index;
    *out_line = add_line(e, &line);
    close_region(e, region, head->bytes, rounding_name);
    return index;
}

/* What lies beside a group's blocks is there whole, also where the blocks grow. */
static void emit_sides(emitter *e, uint32_t g)
{
    const impmem__terms *t = e->terms;
    for (uint32_t i = 0; i < t->n_sides; i++) {
        if (t->side[i].group != g) continue;
        impmem_kv_side *side = &e->plan->kv_side[e->plan->n_kv_sides++];
        *side = t->side[i];
        side->line = IMPMEM_LINE_KV_SIDE + i;
        uint64_t bytes = 0, wanted = 0;
        if (!e->status) e->status = impmem_mul(&bytes, e->decision->blocks[g], side->stride_bytes);
        if (impmem_mul(&wanted, t->group[g].blocks_demanded, side->stride_bytes)) wanted = UINT64_MAX;
        impmem_line *line;
        side->region = emit_single(
            e,
            &(impmem_line){.id = side->line,
                           .tier = IMPMEM_TIER_POOL,
                           .account = IMPMEM_ACCOUNT_DEVICE,
                           .tag = t->group[g].window_tokens ? IMPMEM_TAG_WINDOW_BLOCKS : IMPMEM_TAG_KV_BLOCKS,
                           .bytes = bytes,
                           .demand_bytes = impmem__larger(wanted, bytes)},
            "rounding beside KV cache", &line);
        if (e->text) impmem__plan_text_side(t, side, e->decision->blocks[g], line);
    }
}

static void emit_states(emitter *e)
{
    static const impmem_tag tag[] = {IMPMEM_TAG_OTHER,          IMPMEM_TAG_RECURRENT_STATE, IMPMEM_TAG_RECURRENT_STATE,
                                     IMPMEM_TAG_SNAPSHOTS,      IMPMEM_TAG_KV_BLOCKS,       IMPMEM_TAG_RESIDUAL_RING,
                                     IMPMEM_TAG_RECURRENT_STATE};
    const impmem__terms *t = e->terms;
    for (uint32_t i = 0; i < t->n_states; i++) {
        impmem_state_pool *pool = &e->plan->state_pool[e->plan->n_state_pools++];
        *pool = t->state[i].pool;
        pool->line = IMPMEM_LINE_STATE + i;
        uint64_t bytes = 0;
        if (!e->status) e->status = impmem_mul(&bytes, pool->slots, pool->stride_bytes);
        impmem_line *line;
        pool->region = emit_single(e,
                                   &(impmem_line){.id = pool->line,
                                                  .tier = IMPMEM_TIER_POOL,
                                                  .account = IMPMEM_ACCOUNT_DEVICE,
                                                  .tag = tag[pool->kind],
                                                  .bytes = bytes},
                                   "rounding of state", &line);
        if (e->text) impmem__plan_text_state(pool, line);
    }
}

/* One owner a pinned region: its rounding is part of its line. */
static void emit_pinned(emitter *e)
{
    for (uint32_t i = 0; i < e->terms->n_items; i++) {
        uint64_t bytes = e->decision->grant_bytes[i];
        if (bytes == 0 || e->terms->item[i].part != IMPMEM__PART_PINNED) continue;
        if (!e->status) e->status = impmem_align_up(&bytes, bytes, e->terms->granule_bytes);
        uint32_t index = e->plan->n_regions;
        impmem_plan_region *region = add_region(e, IMPMEM_TIER_PINNED, IMPMEM_ACCOUNT_PINNED, IMPMEM_TAG_HOST_PINNED);
        region->line = e->terms->item[i].id;
        impmem_line *line = add_item(e, i, index, bytes);
        if (line->demand_bytes < bytes) line->demand_bytes = bytes;
        close_region(e, region, bytes, "");
    }
}

static void emit_control(emitter *e)
{
    uint64_t bytes = 0;
    if (!e->status) e->status = impmem__plan_control_bytes(e->plan, e->plan->n_lines + 1, &bytes);
    impmem_line *line = add_line(e, &(impmem_line){.id = IMPMEM_LINE_HOST_CONTROL,
                                                   .tier = IMPMEM_TIER_CONTROL,
                                                   .account = IMPMEM_ACCOUNT_PAGEABLE,
                                                   .tag = IMPMEM_TAG_HOST_CONTROL,
                                                   .region = UINT32_MAX,
                                                   .bytes = bytes});
    if (e->text) impmem__plan_text_line(line, "host tables", "ledger, backends, regions, arenas and block tables, exactly");
}

/* What the lines say together. */
static void summarise(emitter *e)
{
    impmem_plan *p = e->plan;
    uint64_t peak = 0;
    for (uint32_t i = 0; i < p->n_lines && !e->status; i++)
        if (p->line[i].account == IMPMEM_ACCOUNT_DEVICE && p->line[i].tier != IMPMEM_TIER_POOL)
            e->status = impmem_add(&peak, peak, p->line[i].bytes);
    p->load_peak_bytes = peak;
    p->sequences_at_max = p->max_batch;
    for (uint32_t g = 0; g < p->n_kv_groups; g++) {
        uint64_t fit = (p->kv_group[g].blocks - p->kv_group[g].reserved_blocks) / p->kv_group[g].blocks_per_sequence;
        if (g == 0 || fit < p->sequences_at_max) p->sequences_at_max = fit;
    }
    if (p->n_kv_groups == 0) return;
    if (p->kv_group[0].window_tokens == 0) {
        const uint64_t reserved = p->kv_group[0].reserved_blocks;
        p->kv_tokens = (p->kv_group[0].blocks - reserved) * p->block_tokens;
        p->promised_kv_tokens = (e->terms->floor_blocks[0] - reserved) * p->block_tokens;
    } else {
        /* Windows alone bound no length: what the sequences may hold. */
        p->kv_tokens = p->sequences_at_max * p->max_seq_tokens;
        p->promised_kv_tokens = p->kv_tokens;
    }
}

static void emit_header(emitter *e)
{
    const impmem__terms *t = e->terms;
    impmem_plan *p = e->plan;
    p->size = sizeof *p;
    p->version = 1;
    p->max_batch = t->load.batch;
    p->max_seq_tokens = t->load.context;
    p->block_tokens = t->block_tokens;
    p->prefill_tokens = t->load.tokens;
    p->kv_dtype_k = t->k;
    p->kv_dtype_v = t->v;
    p->granule_bytes = t->granule_bytes;
    p->commit_chunk_bytes = t->chunk_bytes;
    p->journal_records = t->journal_records;
    p->extra_refs = t->extra_refs;
    for (uint32_t a = 0; a < IMPMEM_N_ACCOUNTS; a++) p->budget_bytes[a] = t->budget_bytes[a];
}

impmem_status impmem__plan_emit(const impmem__terms *terms, const impmem__decision *decision, bool text, impmem_plan *out,
                                impmem_error *why)
{
    emitter e = {.terms = terms, .decision = decision, .plan = out, .text = text};
    memset(out, 0, sizeof *out);
    emit_header(&e);
    emit_charge(&e, IMPMEM_LINE_CONTEXT, IMPMEM_TAG_CONTEXT, terms->in->context_bytes, "device context");
    emit_charge(&e, IMPMEM_LINE_LIBRARY, IMPMEM_TAG_LIBRARY_RESERVE, terms->in->library_reserve_bytes, "library reserve");
    emit_regionless(&e, IMPMEM__PART_CHARGE);
    for (uint32_t part = 0; part < IMPMEM__N_SHARED_PARTS; part++) emit_shared(&e, (impmem__part)part);
    for (uint32_t g = 0; g < terms->n_groups; g++) {
        emit_group(&e, g);
        emit_sides(&e, g);
    }
    emit_states(&e);
    emit_pinned(&e);
    emit_regionless(&e, IMPMEM__PART_STAGING);
    emit_dropped(&e);
    emit_control(&e);
    summarise(&e);
    if (e.status == IMPMEM_ERR_BAD_VALUE)
        return impmem__error_set(why, e.status, "demand", "the plan needs more than %u lines or %u regions",
                                 IMPMEM_PLAN_MAX_LINES, IMPMEM_PLAN_MAX_REGIONS);
    return e.status ? impmem__error_set(why, e.status, "plan", "the sum of all lines exceeds 64 bits") : IMPMEM_OK;
}
