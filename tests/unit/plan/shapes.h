/* Models and inputs that the planner's tests share. Geometry is that of the published models. */
#ifndef TESTS_PLAN_SHAPES_H
#define TESTS_PLAN_SHAPES_H

#include <assert.h>
#include <string.h>

#include "impmem/bytes.h"
#include "impmem/plan.h"

#define MIB IMPMEM_MIB
#define UNUSED __attribute__((unused))

/* Qwen3-4B */
static UNUSED void dense_shape(impmem_model_shape *s)
{
    *s = (impmem_model_shape)IMPMEM_MODEL_SHAPE_INIT;
    s->d_model = 2560;
    s->n_heads = 32;
    s->head_dim = 128;
    s->feed_forward = 9728;
    s->vocab = 151936;
    impmem_status st = impmem_shape_uniform_attention(s, 36, 8, 128, 128);
    assert(!st);
    (void)st;
    s->weight_bytes = 4076 * MIB;
}

/* Qwen3-Coder-30B-A3B; its largest projection is 4096 x 2048, packed two to a byte. */
static UNUSED void experts_shape(impmem_model_shape *s)
{
    *s = (impmem_model_shape)IMPMEM_MODEL_SHAPE_INIT;
    s->d_model = 2048;
    s->n_heads = 32;
    s->head_dim = 128;
    s->n_experts = 128;
    s->experts_per_token = 8;
    s->expert_feed_forward = 768;
    s->vocab = 151936;
    s->largest_weight_elements = 4096 * 2048 / 2;
    impmem_status st = impmem_shape_uniform_attention(s, 48, 4, 128, 128);
    assert(!st);
    (void)st;
    s->weight_bytes = 15467 * MIB;
}

/* gemma-3-4b's text model, every layer counted as full. */
static UNUSED void post_norm_shape(impmem_model_shape *s)
{
    *s = (impmem_model_shape)IMPMEM_MODEL_SHAPE_INIT;
    s->d_model = 2560;
    s->n_heads = 8;
    s->head_dim = 256;
    s->feed_forward = 10240;
    s->vocab = 262208;
    s->post_norm_f32 = 1;
    impmem_status st = impmem_shape_uniform_attention(s, 34, 4, 256, 256);
    assert(!st);
    (void)st;
    s->weight_bytes = 2368 * MIB;
}

static UNUSED void window_layers(impmem_model_shape *s, uint32_t from, uint32_t to, uint32_t window)
{
    for (uint32_t i = from; i < to; i++) {
        s->layer[i].kind = IMPMEM_LAYER_WINDOW;
        s->layer[i].window_tokens = window;
    }
}

static UNUSED impmem_demand demand(uint32_t id, impmem_tier tier, uint32_t flags, uint64_t bytes, const char *name)
{
    impmem_demand d;
    memset(&d, 0, sizeof d);
    d.id = id;
    d.tier = tier;
    d.flags = flags;
    d.bytes = bytes;
    for (size_t i = 0; name[i] && i + 1 < sizeof d.name; i++) d.name[i] = name[i];
    return d;
}

/* The reference engine's dense planner case in MiB: weights 4076, an optional cache of 2158, persistent 397, scratch 64,
 * context 1680, libraries 3900; batch 8 x 4096 in blocks of 16; 16,384 tokens promised. A block is 36 x 65,536 B = 2.25
 * MiB. */
typedef struct dense_case {
    impmem_model_shape shape;
    impmem_demand demand[3];
    impmem_plan_input in;
} dense_case;

static UNUSED void dense_case_init(dense_case *c, uint64_t budget_mib)
{
    dense_shape(&c->shape);
    c->demand[0] = demand(2001, IMPMEM_TIER_MODEL, IMPMEM_LINE_OPTIONAL, 2158 * MIB, "decode cache");
    c->demand[1] = demand(2002, IMPMEM_TIER_ENGINE, 0, 397 * MIB, "persistent");
    c->demand[2] = demand(2003, IMPMEM_TIER_SCRATCH, 0, 64 * MIB, "scratch");
    c->in = (impmem_plan_input)IMPMEM_PLAN_INPUT_INIT;
    c->in.model = &c->shape;
    c->in.budget_bytes = budget_mib * MIB;
    c->in.max_batch = 8;
    c->in.max_seq_tokens = 4096;
    c->in.promised_kv_tokens = 16384;
    c->in.context_bytes = 1680 * MIB;
    c->in.library_reserve_bytes = 3900 * MIB;
    c->in.granule_bytes = MIB;
    c->in.demand = c->demand;
    c->in.n_demands = 3;
}

/* Refused by 3345 MiB: 15467 + 1800 + 12288 + 507 + 310 + 1680 + 3900 = 35952 against 32607. KV takes 3 MiB a token of
 * context. */
typedef struct refused_case {
    impmem_model_shape shape;
    impmem_demand demand[3];
    impmem_plan_input in;
} refused_case;

static UNUSED void refused_case_init(refused_case *c)
{
    c->shape = (impmem_model_shape)IMPMEM_MODEL_SHAPE_INIT;
    impmem_status st = impmem_shape_uniform_attention(&c->shape, 48, 16, 128, 128);
    assert(!st);
    (void)st;
    c->shape.weight_bytes = 15467 * MIB;
    c->demand[0] = demand(2001, IMPMEM_TIER_MODEL, 0, 1800 * MIB, "decode cache and scales");
    c->demand[1] = demand(2002, IMPMEM_TIER_SCRATCH, 0, 507 * MIB, "executor scratch");
    c->demand[2] = demand(2003, IMPMEM_TIER_ENGINE, 0, 310 * MIB, "engine-persistent");
    c->in = (impmem_plan_input)IMPMEM_PLAN_INPUT_INIT;
    c->in.model = &c->shape;
    c->in.budget_bytes = 32607 * MIB;
    c->in.max_batch = 8;
    c->in.max_seq_tokens = 4096;
    c->in.context_bytes = 1680 * MIB;
    c->in.library_reserve_bytes = 3900 * MIB;
    c->in.granule_bytes = MIB;
    c->in.demand = c->demand;
    c->in.n_demands = 3;
}

#endif
