/* Plans and failures as JSON: one object each, described by docs/plan-schema.json. */
#include "report/plan_internal.h"

#define INDENT 2

/* No limit and no region are null. */
static void field_or_null(impmem__json *json, const char *key, uint64_t value, uint64_t none)
{
    impmem__json_key(json, key);
    if (value == none) impmem__json_null(json);
    else impmem__json_u64(json, value);
}

static void accounts(impmem__json *json, const char *key, const uint64_t bytes[IMPMEM_N_ACCOUNTS], uint64_t none)
{
    impmem__json_key(json, key);
    impmem__json_object_begin(json);
    for (uint32_t a = 0; a < IMPMEM_N_ACCOUNTS; a++)
        field_or_null(json, impmem_account_name((impmem_account)a), bytes[a], none);
    impmem__json_object_end(json);
}

void impmem__json_lines(impmem__json *json, impmem__line_view lines)
{
    impmem__json_key(json, "lines");
    impmem__json_array_begin(json);
    for (uint32_t i = 0; i < lines.n_lines; i++) {
        const impmem_line *line = &lines.line[i];
        impmem__json_object_begin(json);
        impmem__json_field_u64(json, "id", line->id);
        impmem__json_field_string(json, "name", line->name);
        impmem__json_field_string(json, "tier", impmem_tier_name(line->tier));
        impmem__json_field_string(json, "account", impmem_account_name(line->account));
        impmem__json_field_string(json, "tag", impmem_tag_name(line->tag));
        field_or_null(json, "region", line->region, UINT32_MAX);
        impmem__json_field_u64(json, "bytes", line->bytes);
        impmem__json_field_u64(json, "demand_bytes", line->demand_bytes);
        impmem__json_field_bool(json, "optional", (line->flags & IMPMEM_LINE_OPTIONAL) != 0);
        impmem__json_field_bool(json, "transient", (line->flags & IMPMEM_LINE_TRANSIENT) != 0);
        impmem__json_field_bool(json, "estimated", (line->flags & IMPMEM_LINE_ESTIMATED) != 0);
        impmem__json_field_bool(json, "dropped", (line->flags & IMPMEM_LINE_DROPPED) != 0);
        impmem__json_field_string(json, "how", line->how);
        impmem__json_object_end(json);
    }
    impmem__json_array_end(json);
}

static void load_fields(impmem__json *json, uint32_t batch, uint32_t context, uint32_t block, uint32_t prefill,
                        impmem_dtype k, impmem_dtype v)
{
    impmem__json_field_u64(json, "max_batch", batch);
    impmem__json_field_u64(json, "max_seq_tokens", context);
    impmem__json_field_u64(json, "block_tokens", block);
    impmem__json_field_u64(json, "prefill_tokens", prefill);
    impmem__json_field_string(json, "kv_dtype_k", impmem_dtype_name(k));
    impmem__json_field_string(json, "kv_dtype_v", impmem_dtype_name(v));
}

static void kv_groups(impmem__json *json, const impmem_plan *plan)
{
    impmem__json_key(json, "kv_groups");
    impmem__json_array_begin(json);
    for (uint32_t g = 0; g < plan->n_kv_groups; g++) {
        const impmem_kv_group *group = &plan->kv_group[g];
        impmem__json_object_begin(json);
        impmem__json_field_u64(json, "line", group->line);
        impmem__json_field_u64(json, "region", group->region);
        field_or_null(json, "window_tokens", group->window_tokens, 0);
        impmem__json_field_u64(json, "layers", group->n_layers);
        impmem__json_field_u64(json, "block_tokens", group->block_tokens);
        impmem__json_field_u64(json, "block_bytes", group->block_bytes);
        impmem__json_field_u64(json, "stride_bytes", group->stride_bytes);
        impmem__json_field_u64(json, "blocks_per_sequence", group->blocks_per_sequence);
        impmem__json_field_u64(json, "blocks", group->blocks);
        impmem__json_field_u64(json, "blocks_demanded", group->blocks_demanded);
        impmem__json_field_u64(json, "reserved_blocks", group->reserved_blocks);
        impmem__json_field_u64(json, "capped_blocks", group->capped_blocks);
        impmem__json_field_bool(json, "of_draft", group->of_draft != 0);
        impmem__json_object_end(json);
    }
    impmem__json_array_end(json);
}

static const char *side_name(uint32_t kind)
{
    static const char *const name[] = {"none", "scales", "key_bounds", "draft"};
    return kind < sizeof name / sizeof name[0] ? name[kind] : "none";
}

static void kv_sides(impmem__json *json, const impmem_plan *plan)
{
    impmem__json_key(json, "kv_sides");
    impmem__json_array_begin(json);
    for (uint32_t i = 0; i < plan->n_kv_sides; i++) {
        const impmem_kv_side *side = &plan->kv_side[i];
        impmem__json_object_begin(json);
        impmem__json_field_string(json, "kind", side_name(side->kind));
        impmem__json_field_u64(json, "line", side->line);
        impmem__json_field_u64(json, "region", side->region);
        impmem__json_field_u64(json, "group", side->group);
        impmem__json_field_u64(json, "layers", side->n_layers);
        impmem__json_field_u64(json, "block_bytes", side->block_bytes);
        impmem__json_field_u64(json, "stride_bytes", side->stride_bytes);
        impmem__json_object_end(json);
    }
    impmem__json_array_end(json);
}

static const char *state_name(uint32_t kind)
{
    static const char *const name[] = {"none", "recurrent", "rollback", "snapshot", "cross", "residual_ring", "draft"};
    return kind < sizeof name / sizeof name[0] ? name[kind] : "none";
}

static void state_pools(impmem__json *json, const impmem_plan *plan)
{
    impmem__json_key(json, "state_pools");
    impmem__json_array_begin(json);
    for (uint32_t i = 0; i < plan->n_state_pools; i++) {
        const impmem_state_pool *pool = &plan->state_pool[i];
        impmem__json_object_begin(json);
        impmem__json_field_string(json, "kind", state_name(pool->kind));
        impmem__json_field_u64(json, "line", pool->line);
        impmem__json_field_u64(json, "region", pool->region);
        impmem__json_field_u64(json, "layers", pool->n_layers);
        impmem__json_field_u64(json, "slots", pool->slots);
        impmem__json_field_u64(json, "slot_bytes", pool->slot_bytes);
        impmem__json_field_u64(json, "stride_bytes", pool->stride_bytes);
        impmem__json_object_end(json);
    }
    impmem__json_array_end(json);
}

static void regions(impmem__json *json, const impmem_plan *plan)
{
    impmem__json_key(json, "regions");
    impmem__json_array_begin(json);
    for (uint32_t r = 0; r < plan->n_regions; r++) {
        const impmem_plan_region *region = &plan->region[r];
        impmem__json_object_begin(json);
        impmem__json_field_string(json, "tier", impmem_tier_name(region->tier));
        impmem__json_field_string(json, "account", impmem_account_name(region->account));
        impmem__json_field_string(json, "tag", impmem_tag_name(region->tag));
        field_or_null(json, "line", region->line, IMPMEM_NO_LINE);
        impmem__json_field_bool(json, "growable", region->growable != 0);
        impmem__json_field_bool(json, "transient", region->transient != 0);
        impmem__json_field_u64(json, "bytes", region->bytes);
        impmem__json_field_u64(json, "initial_bytes", region->initial_bytes);
        impmem__json_object_end(json);
    }
    impmem__json_array_end(json);
}

static impmem_status finish(impmem__json *json, impmem_status done)
{
    impmem__json_object_end(json);
    impmem_status st = impmem__json_finish(json);
    if (!st) st = json->write(json->context, "\n", 1);
    return st ? st : done;
}

impmem_status impmem_plan_write_json(const impmem_plan *plan, impmem_write_fn write, void *context)
{
    if (!plan || !write) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem__json json;
    impmem__json_init(&json, write, context, INDENT);
    impmem__json_object_begin(&json);
    impmem__json_field_u64(&json, "schema", 1);
    impmem__json_field_bool(&json, "fits", true);
    load_fields(&json, plan->max_batch, plan->max_seq_tokens, plan->block_tokens, plan->prefill_tokens, plan->kv_dtype_k,
                plan->kv_dtype_v);
    accounts(&json, "budget_bytes", plan->budget_bytes, UINT64_MAX);
    accounts(&json, "total_bytes", plan->total_bytes, UINT64_MAX);
    impmem__json_field_u64(&json, "load_peak_bytes", plan->load_peak_bytes);
    impmem__json_field_u64(&json, "granule_bytes", plan->granule_bytes);
    impmem__json_field_u64(&json, "commit_chunk_bytes", plan->commit_chunk_bytes);
    impmem__json_field_u64(&json, "promised_kv_tokens", plan->promised_kv_tokens);
    impmem__json_field_u64(&json, "kv_tokens", plan->kv_tokens);
    impmem__json_field_u64(&json, "sequences_at_max", plan->sequences_at_max);
    impmem__json_lines(&json, (impmem__line_view){plan->line, plan->n_lines});
    kv_groups(&json, plan);
    kv_sides(&json, plan);
    state_pools(&json, plan);
    regions(&json, plan);
    return finish(&json, IMPMEM_OK);
}

static const char *lever_name(impmem_lever_kind kind)
{
    switch (kind) {
    case IMPMEM_LEVER_CONTEXT: return "context";
    case IMPMEM_LEVER_BATCH: return "batch";
    case IMPMEM_LEVER_KV_DTYPE: return "kv_dtype";
    case IMPMEM_LEVER_PREFILL: return "prefill";
    case IMPMEM_LEVER_PROMISE: return "promise";
    case IMPMEM_LEVER_BUDGET: return "budget";
    case IMPMEM_LEVER_BLOCK: return "block";
    case IMPMEM_LEVER_V_DTYPE: return "v_dtype";
    case IMPMEM_LEVER_K_DTYPE: return "k_dtype";
    case IMPMEM_LEVER_DRAFT: return "draft";
    case IMPMEM_LEVER_VISION: return "vision";
    case IMPMEM_LEVER_TP: return "tp";
    case IMPMEM_LEVER_NONE: break;
    }
    return "none";
}

static void levers(impmem__json *json, const impmem_plan_failure *failure)
{
    impmem__json_key(json, "levers");
    impmem__json_array_begin(json);
    for (uint32_t i = 0; i < failure->n_levers; i++) {
        const impmem_lever *lever = &failure->lever[i];
        const bool budget = lever->kind == IMPMEM_LEVER_BUDGET;
        impmem__json_object_begin(json);
        impmem__json_field_string(json, "kind", lever_name(lever->kind));
        impmem__json_key(json, "second");
        if (lever->second == IMPMEM_LEVER_NONE) impmem__json_null(json);
        else impmem__json_string(json, lever_name(lever->second));
        impmem__json_field_string(json, "flag", lever->flag);
        impmem__json_field_string(json, "change", lever->change);
        impmem__json_field_u64(json, budget ? "adds_bytes" : "frees_bytes", lever->frees_bytes);
        impmem__json_field_u64(json, "total_bytes", lever->total_bytes);
        impmem__json_object_end(json);
    }
    impmem__json_array_end(json);
}

/* What is too much even at the least load; empty where something helps. */
static void conflict(impmem__json *json, const impmem_plan_failure *failure)
{
    impmem__json_field_u64(json, "least_bytes", failure->least_bytes);
    impmem__json_field_u64(json, "gap_bytes", failure->gap_bytes);
    impmem__json_key(json, "conflict");
    impmem__json_array_begin(json);
    for (uint32_t i = 0; i < failure->n_conflict && i < IMPMEM_PLAN_MAX_CONFLICT; i++) {
        impmem__json_object_begin(json);
        impmem__json_field_u64(json, "line", failure->conflict[i].line);
        impmem__json_field_string(json, "name", failure->conflict[i].name);
        impmem__json_field_u64(json, "bytes", failure->conflict[i].bytes);
        impmem__json_object_end(json);
    }
    impmem__json_array_end(json);
}

impmem_status impmem_plan_failure_write_json(const impmem_plan_failure *failure, impmem_write_fn write, void *context)
{
    if (!failure || !write || failure->why.status == IMPMEM_OK) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem__json json;
    impmem__json_init(&json, write, context, INDENT);
    impmem__json_object_begin(&json);
    impmem__json_field_u64(&json, "schema", 1);
    impmem__json_field_bool(&json, "fits", false);
    impmem__json_field_string(&json, "status", impmem_status_name(failure->why.status));
    impmem__json_field_string(&json, "subject", failure->why.subject);
    impmem__json_field_string(&json, "message", failure->why.message);
    if (failure->why.status == IMPMEM_ERR_DOES_NOT_FIT) {
        impmem__json_field_string(&json, "account", impmem_account_name(failure->account));
        impmem__json_field_u64(&json, "budget_bytes", failure->budget_bytes);
        impmem__json_field_u64(&json, "requested_bytes", failure->requested_bytes);
        impmem__json_field_u64(&json, "over_bytes", failure->over_bytes);
        load_fields(&json, failure->max_batch, failure->max_seq_tokens, failure->block_tokens, failure->prefill_tokens,
                    failure->kv_dtype_k, failure->kv_dtype_v);
        impmem__json_field_u64(&json, "sequences_at_max", failure->sequences_at_max);
        impmem__json_lines(&json, (impmem__line_view){failure->line, failure->n_lines});
        levers(&json, failure);
        conflict(&json, failure);
    }
    return finish(&json, failure->why.status);
}
