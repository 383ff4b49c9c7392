/* The reference engine's own buffers as caller-declared lines. Only what follows from the shape is here: buffers that
 * depend on how single weights are quantised, on serving metadata or on a vision tower are the engine's own to declare. */
#include <stdio.h>
#include <string.h>

#include "plan/internal.h"

#define SAMPLING_ROW_BYTES 66052u /* a count, and 64 partial results of 8 + 128 x 8 bytes */
#define QUANT_BLOCK_BYTES 36u     /* 32 8-bit values with a scale and a sum, twice */

static uint64_t rows_of(const impmem_load *load)
{
    return load->batch > 8 ? load->batch : 8;
}

static impmem_status executor(const void *context, const impmem_load *load, uint64_t *out)
{
    return impmem_size_executor_workspace(context, load->tokens, load->batch, out);
}

static impmem_status sampling(const void *context, const impmem_load *load, uint64_t *out)
{
    (void)context;
    return impmem_mul(out, 2 * rows_of(load), SAMPLING_ROW_BYTES);
}

static impmem_status matvec(const void *context, const impmem_load *load, uint64_t *out)
{
    uint64_t blocks, bytes;
    impmem_status st = impmem_div_up(&blocks, impmem__size_largest_input(context), 32);
    if (!st) st = impmem_mul(&bytes, blocks, UINT64_C(2) * QUANT_BLOCK_BYTES);
    return st ? st : impmem_mul(out, bytes, load->tokens);
}

static impmem_status split_attention(const void *context, const impmem_load *load, uint64_t *out)
{
    const impmem_model_shape *shape = context;
    uint64_t splits = ((uint64_t)load->tokens + 15) / 16, bytes;
    if (splits > 128) splits = 128;
    impmem_status st = impmem_mul(&bytes, rows_of(load) * splits, shape->n_heads);
    if (!st) st = impmem_mul(&bytes, bytes, 4 * (2 + (uint64_t)shape->head_dim));
    return st ? st : impmem_add(out, bytes, 256);
}

static impmem_status expert_tables(const void *context, const impmem_load *load, uint64_t *out)
{
    (void)load;
    const impmem_model_shape *shape = context;
    return impmem_size_expert_tables(shape->n_experts, out);
}

/* One decode step's copy of the executor's buffers, which a captured graph may hold on to. */
static impmem_status decode_scratch(const void *context, const impmem_load *load, uint64_t *out)
{
    const impmem_model_shape *shape = context;
    uint64_t sum, bytes, row = 3 * (uint64_t)shape->d_model * 2 + (uint64_t)shape->vocab * 4;
    if (shape->post_norm_f32) row += (uint64_t)shape->d_model * 4;
    impmem_status st = impmem_mul(&sum, row, load->batch);
    if (!st) st = impmem__size_executor_shared(shape, load->batch, &bytes);
    return st ? st : impmem_add(out, sum, bytes);
}

static void explain_executor(const impmem_model_shape *shape, const impmem_load *load, impmem_explanation *e)
{
    uint64_t part = 0, weight = 0, norms = 0;
    if (impmem__size_executor_shared(shape, load->tokens, &part)) part = 0; /* the line itself then was refused */
    if (impmem__size_largest_weight(shape, &weight)) weight = 0;
    if (shape->post_norm_f32 && impmem_align_up(&norms, (uint64_t)load->tokens * shape->d_model * 4, 256)) norms = 0;
    impmem__explain_formula(e, "3 a(T d 2) + a(L vocab 4) + part + norms + a(2 weight) + a(L heads 32 (2 + head_dim) 4) "
                               "+ 16384 L + margin");
    impmem__explain_operand(e, "T, prefill tokens", load->tokens);
    impmem__explain_operand(e, "d", shape->d_model);
    impmem__explain_operand(e, "L, rows", rows_of(load));
    impmem__explain_operand(e, "vocab", shape->vocab);
    impmem__explain_operand(e, "part, largest of a layer", part);
    impmem__explain_operand(e, "norms", norms);
    impmem__explain_operand(e, "weight, elements", weight);
    impmem__explain_operand(e, "heads", shape->n_heads);
    impmem__explain_operand(e, "head_dim", shape->head_dim);
    impmem__explain_operand(e, "margin", impmem__size_executor_margin(shape));
}

static void explain_sampling(const impmem_model_shape *shape, const impmem_load *load, impmem_explanation *e)
{
    (void)shape;
    impmem__explain_formula(e, "2 x rows x 66052");
    impmem__explain_operand(e, "rows", rows_of(load));
}

static void explain_matvec(const impmem_model_shape *shape, const impmem_load *load, impmem_explanation *e)
{
    impmem__explain_formula(e, "tokens x ceil(row / 32) x 72");
    impmem__explain_operand(e, "tokens", load->tokens);
    impmem__explain_operand(e, "row", impmem__size_largest_input(shape));
}

static void explain_split(const impmem_model_shape *shape, const impmem_load *load, impmem_explanation *e)
{
    impmem__explain_formula(e, "rows x heads x min(128, ceil(tokens / 16)) x (2 + head_dim) x 4 + 256");
    impmem__explain_operand(e, "rows", rows_of(load));
    impmem__explain_operand(e, "heads", shape->n_heads);
    impmem__explain_operand(e, "tokens", load->tokens);
    impmem__explain_operand(e, "head_dim", shape->head_dim);
}

static void explain_experts(const impmem_model_shape *shape, const impmem_load *load, impmem_explanation *e)
{
    (void)load;
    impmem__explain_formula(e, "80 x experts + 12 + 11 x 256");
    impmem__explain_operand(e, "experts", shape->n_experts);
}

static void explain_decode(const impmem_model_shape *shape, const impmem_load *load, impmem_explanation *e)
{
    uint64_t part = 0;
    if (impmem__size_executor_shared(shape, load->batch, &part)) part = 0;
    impmem__explain_formula(e, shape->post_norm_f32 ? "batch x (10 d + 4 vocab) + part" : "batch x (6 d + 4 vocab) + part");
    impmem__explain_operand(e, "batch", load->batch);
    impmem__explain_operand(e, "d", shape->d_model);
    impmem__explain_operand(e, "vocab", shape->vocab);
    impmem__explain_operand(e, "part, largest of a layer", part);
}

typedef struct reference {
    impmem_line_id id;
    impmem_tier tier;
    uint64_t bytes;
    impmem_status (*size)(const void *context, const impmem_load *load, uint64_t *out);
    const char *name;
    const char *how;
    bool experts_only;
    void (*explain)(const impmem_model_shape *shape, const impmem_load *load, impmem_explanation *e);
} reference;

static const reference table[] = {
    {IMPMEM_LINE_REFERENCE + 0, IMPMEM_TIER_ENGINE, 0, executor, "executor workspaces",
     "activations of the largest prefill batch, logits, one widened weight", false, explain_executor},
    {IMPMEM_LINE_REFERENCE + 1, IMPMEM_TIER_ENGINE, 64 * IMPMEM_MIB, NULL, "GEMM workspace",
     "64 MiB for the matrix library", false, NULL},
    {IMPMEM_LINE_REFERENCE + 2, IMPMEM_TIER_ENGINE, 32 * IMPMEM_MIB, NULL, "GEMM tuning buffer",
     "32 MiB for choosing kernels", false, NULL},
    {IMPMEM_LINE_REFERENCE + 3, IMPMEM_TIER_ENGINE, 0, sampling, "token sampling", "2 x max(batch, 8) x 66052 B", false,
     explain_sampling},
    {IMPMEM_LINE_REFERENCE + 4, IMPMEM_TIER_ENGINE, 0, matvec, "quantised input rows",
     "prefill tokens x ceil(longest row / 32) x 72 B", false, explain_matvec},
    {IMPMEM_LINE_REFERENCE + 5, IMPMEM_TIER_ENGINE, 0, split_attention, "split attention",
     "max(batch, 8) x heads x min(128, ceil(tokens / 16)) x (2 + head_dim) x 4 B", false, explain_split},
    {IMPMEM_LINE_REFERENCE + 6, IMPMEM_TIER_ENGINE, 0, expert_tables, "expert tables", "80 B an expert and 11 tables", true,
     explain_experts},
    {IMPMEM_LINE_REFERENCE + 7, IMPMEM_TIER_ENGINE, 2 * IMPMEM_MIB, NULL, "grouped GEMM",
     "1 MiB staging and 1 MiB workspace", true, NULL},
    {IMPMEM_LINE_REFERENCE + 8, IMPMEM_TIER_SCRATCH, 0, decode_scratch, "forward scratch",
     "one decode step of the whole batch: logits and activations", false, explain_decode},
};

static void write_demand(const reference *from, const impmem_model_shape *shape, impmem_demand *out)
{
    memset(out, 0, sizeof *out);
    out->id = from->id;
    out->tier = from->tier;
    out->flags = IMPMEM_LINE_ESTIMATED;
    out->bytes = from->bytes;
    out->size = from->size;
    out->context = shape;
    snprintf(out->name, sizeof out->name, "%s", from->name);
    snprintf(out->how, sizeof out->how, "%s", from->how);
}

bool impmem__reference_explain(const impmem_demand *demand, const impmem_load *load, impmem_explanation *out)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (!table[i].explain || table[i].size != demand->size) continue;
        table[i].explain(demand->context, load, out);
        return true;
    }
    return false;
}

impmem_status impmem_reference_demands(const impmem_model_shape *shape, impmem_demand *out, uint32_t capacity,
                                       uint32_t *out_n)
{
    if (!shape || !out_n || (!out && capacity > 0)) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint32_t n = 0;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (table[i].experts_only && shape->n_experts == 0) continue;
        if (n < capacity) write_demand(&table[i], shape, &out[n]);
        n++;
    }
    *out_n = n;
    return n <= capacity ? IMPMEM_OK : IMPMEM_ERR_EXHAUSTED;
}
