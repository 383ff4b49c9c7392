/* bench_plan.c - the planner: a plan that fits, a failure with all its levers, and what one lever costs. */
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "impmem/bytes.h"
#include "impmem/plan.h"
#include "impmem/plan_report.h"

typedef struct plan_bench {
    impmem_model_shape shape;
    impmem_demand demand[IMPMEM_PLAN_MAX_DEMANDS];
    impmem_plan_input input;
    impmem_plan plan;
    impmem_plan_failure failure;
    impmem_status expected;
    impmem_status failed;
} plan_bench;

/* Geometry of Qwen3-4B as published, with 4-bit weights. */
static impmem_status qwen3_4b(impmem_model_shape *shape)
{
    shape->d_model = 2560;
    shape->n_heads = 32;
    shape->head_dim = 128;
    shape->feed_forward = 9728;
    shape->vocab = 151936;
    shape->trained_context = 40960;
    shape->weight_bytes = 4076 * IMPMEM_MIB;
    shape->weight_source = IMPMEM_SOURCE_READ;
    snprintf(shape->name, sizeof shape->name, "Qwen3-4B");
    return impmem_shape_uniform_attention(shape, 36, 8, 128, 128);
}

/* 128 layers of which every sixth is full and the others slide: two KV groups. */
static impmem_status deep_model(impmem_model_shape *shape)
{
    impmem_status st = qwen3_4b(shape);
    if (!st) st = impmem_shape_uniform_attention(shape, 128, 8, 128, 128);
    for (uint32_t i = 0; i < shape->n_layers; i++) {
        if (i % 6 == 5) continue;
        shape->layer[i].kind = IMPMEM_LAYER_WINDOW;
        shape->layer[i].window_tokens = 1024;
    }
    snprintf(shape->name, sizeof shape->name, "128 layers");
    return st;
}

static impmem_status prepare(plan_bench *b, impmem_status (*model)(impmem_model_shape *), uint64_t budget,
                             impmem_status expected)
{
    static const impmem_model_shape no_shape = IMPMEM_MODEL_SHAPE_INIT;
    static const impmem_plan_input no_input = IMPMEM_PLAN_INPUT_INIT;
    memset(b, 0, sizeof *b);
    b->shape = no_shape;
    b->input = no_input;
    impmem_status st = model(&b->shape);
    uint32_t n_demands = 0;
    if (!st) st = impmem_reference_demands(&b->shape, b->demand, IMPMEM_PLAN_MAX_DEMANDS, &n_demands);
    b->input.model = &b->shape;
    b->input.budget_bytes = budget;
    b->input.max_batch = 8;
    b->input.max_seq_tokens = 32768;
    b->input.demand = b->demand;
    b->input.n_demands = n_demands;
    impmem_plan_input_use_profile(&b->input, impmem_device_profile_at(0));
    b->plan.size = (uint32_t)sizeof b->plan;
    b->plan.version = 1;
    b->failure.size = (uint32_t)sizeof b->failure;
    b->failure.version = 1;
    b->expected = expected;
    return st;
}

static void plan_once(void *context, uint64_t n)
{
    plan_bench *b = context;
    for (uint64_t i = 0; i < n; i++) {
        impmem_status st = impmem_plan_memory_only(&b->input, &b->plan, &b->failure);
        if (st != b->expected) b->failed = st ? st : IMPMEM_ERR_STATE;
        bench_keep(&b->plan);
    }
}

static impmem_status swallow(void *context, const char *text, size_t n)
{
    (void)n;
    bench_keep(context);
    bench_keep(text);
    return IMPMEM_OK;
}

static void report_failure(void *context, uint64_t n)
{
    plan_bench *b = context;
    for (uint64_t i = 0; i < n; i++) {
        impmem_status st = impmem_plan_memory(&b->input, &b->plan, &b->failure);
        if (st != b->expected) b->failed = st ? st : IMPMEM_ERR_STATE;
        st = impmem_plan_failure_write(&b->failure, swallow, b);
        if (st != b->expected) b->failed = st ? st : IMPMEM_ERR_STATE;
    }
}

static double bench_one(const bench_run *run, impmem_status (*model)(impmem_model_shape *), uint64_t budget,
                        impmem_status expected, bench_body body, bench_row *row, uint32_t *out_levers)
{
    static plan_bench b; /* too large for comfort on a stack */
    impmem_status st = prepare(&b, model, budget, expected);
    if (!st) {
        bench_measure(&run->settings, body, &b, row);
        st = b.failed;
    }
    if (out_levers) *out_levers = b.failure.n_levers;
    bench_emit(run, row, st);
    return st ? 0 : row->median_ns;
}

void bench_plans(const bench_run *run)
{
    const uint64_t ample = 512 * IMPMEM_GIB;
    const uint64_t small = 24 * IMPMEM_GIB;
    bench_row row;
    bench_row_start(&row, "<= 20000 ns", "plan: Qwen3-4B, fits");
    bench_one(run, qwen3_4b, ample, IMPMEM_OK, plan_once, &row, NULL);
    bench_row_start(&row, "<= 20000 ns", "plan: 128 layers, fits");
    double one_plan = bench_one(run, deep_model, ample, IMPMEM_OK, plan_once, &row, NULL);

    uint32_t levers = 0;
    bench_row_start(&row, "<= 50000000 ns", "plan: 128 layers, whole failure report");
    bench_row report;
    double whole = bench_one(run, deep_model, small, IMPMEM_ERR_DOES_NOT_FIT, report_failure, &row, &levers);
    report = row;
    if (levers == 0 || whole <= 0) return;
    /* A report is one plan and its levers; the library gives no single lever away, so this is their mean. */
    bench_row_start(&row, "<= 64 plans", "plan: 128 layers, one lever (mean of %u)", levers);
    row.samples = report.samples;
    row.batch = report.batch;
    row.median_ns = (report.median_ns - one_plan) / levers;
    row.p10_ns = (report.p10_ns - one_plan) / levers;
    row.p90_ns = (report.p90_ns - one_plan) / levers;
    row.floor_ns = one_plan;
    bench_emit(run, &row, IMPMEM_OK);
}
