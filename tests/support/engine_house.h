/* tests/support/engine_house.h - a small model with something in every tier, planned, and the ledger and fakes that an engine
 * opens it on.
 */
#ifndef TESTS_SUPPORT_ENGINE_HOUSE_H
#define TESTS_SUPPORT_ENGINE_HOUSE_H

#include "support/world.h"
#include "unit/plan/shapes.h"

#include "impmem/impmem.h"

enum { DEMAND_CACHE = IMPMEM_LINE_USER + 100, DEMAND_GEMM, DEMAND_SCRATCH, DEMAND_PINNED, DEMAND_UPLOAD };

typedef struct planned {
    impmem_model_shape shape;
    impmem_demand demand[5];
    impmem_plan_input input;
    impmem_plan plan;
} planned;

/* Four layers of 2 x 64 elements in f16: 16 tokens of them are 4 x 8 KiB. Odd sizes, so that rounding shows. `n_demands` 5:
 * with transient memory; 3: with nothing page-locked.
 */
static inline void planned_input(planned *p, uint32_t n_demands)
{
    memset(p, 0, sizeof *p);
    p->shape = (impmem_model_shape)IMPMEM_MODEL_SHAPE_INIT;
    p->shape.d_model = 512;
    p->shape.n_heads = 8;
    p->shape.head_dim = 64;
    p->shape.vocab = 1000;
    p->shape.weight_bytes = 10 * IMPMEM_MIB + 12345;
    OK(impmem_shape_uniform_attention(&p->shape, 4, 2, 64, 64));
    p->demand[0] = demand(DEMAND_CACHE, IMPMEM_TIER_MODEL, 0, 3 * IMPMEM_MIB + 1, "weight cache");
    p->demand[1] = demand(DEMAND_GEMM, IMPMEM_TIER_ENGINE, 0, 5 * IMPMEM_MIB + 77, "GEMM workspace");
    p->demand[2] = demand(DEMAND_SCRATCH, IMPMEM_TIER_SCRATCH, 0, IMPMEM_MIB + 3, "scratch");
    p->demand[3] = demand(DEMAND_PINNED, IMPMEM_TIER_PINNED, 0, 2 * IMPMEM_MIB, "token staging");
    p->demand[4] = demand(DEMAND_UPLOAD, IMPMEM_TIER_MODEL, IMPMEM_LINE_TRANSIENT, 7 * IMPMEM_MIB + 5, "upload slab");
    p->input = (impmem_plan_input)IMPMEM_PLAN_INPUT_INIT;
    p->input.model = &p->shape;
    p->input.budget_bytes = 256 * IMPMEM_MIB;
    p->input.max_batch = 3;
    p->input.max_seq_tokens = 1000;
    p->input.prefill_tokens = 64;
    p->input.context_bytes = 11 * IMPMEM_MIB + 1;
    p->input.library_reserve_bytes = 9 * IMPMEM_MIB;
    p->input.demand = p->demand;
    p->input.n_demands = n_demands;
}

static inline void planned_again(planned *p)
{
    impmem_plan_failure no = IMPMEM_PLAN_FAILURE_INIT;
    p->plan = (impmem_plan)IMPMEM_PLAN_INIT;
    if (impmem_plan_memory(&p->input, &p->plan, &no)) fail_msg("%s", no.why.message);
}

static inline void planned_make(planned *p, uint32_t n_demands)
{
    planned_input(p, n_demands);
    planned_again(p);
}

/* One layer has a window: two groups of KV. */
static inline void planned_make_windowed(planned *p, uint32_t n_demands)
{
    planned_input(p, n_demands);
    p->shape.layer[1].kind = IMPMEM_LAYER_WINDOW;
    p->shape.layer[1].window_tokens = 128;
    planned_again(p);
}

/* Ledger and fakes of one engine. The host allocator fails its n-th call from now when `world.fail_in` is n. */
typedef struct house {
    world host;
    impmem_ledger *ledger;
    impmem_backend *fixed, *grow, *pinned;
    impmem_fake *fake, *fake_grow, *fake_pinned;
    impmem_engine_backends backends;
} house;

/* Address-only, whatever the plan's size. The page-locked fake is there when the plan has such lines. */
static inline void house_build(house *h, const impmem_plan *plan)
{
    memset(h, 0, sizeof *h);
    const impmem_lines lines = impmem_plan_lines(plan);
    impmem_ledger_options options = IMPMEM_LEDGER_OPTIONS_INIT;
    options.allocator = (impmem_allocator){world_allocate, world_release, &h->host};
    options.journal_records = plan->journal_records;
    options.serving = IMPMEM_SERVING_REFUSE;
    options.seed = 7;
    OK(impmem_ledger_create(&lines, &options, &h->ledger));
    impmem_fake_options o = IMPMEM_FAKE_OPTIONS_INIT;
    o.backing = IMPMEM_FAKE_ADDRESS_ONLY;
    o.granule_bytes = plan->granule_bytes;
    OK(impmem_fake_backend_create(h->ledger, &o, &h->fixed, &h->fake, NULL));
    o.growable = true;
    OK(impmem_fake_backend_create(h->ledger, &o, &h->grow, &h->fake_grow, NULL));
    o.growable = false;
    o.account = IMPMEM_ACCOUNT_PINNED;
    bool pinned = false;
    for (uint32_t r = 0; r < plan->n_regions; r++) pinned |= plan->region[r].account == IMPMEM_ACCOUNT_PINNED;
    if (pinned) OK(impmem_fake_backend_create(h->ledger, &o, &h->pinned, &h->fake_pinned, NULL));
    h->backends = (impmem_engine_backends){h->fixed, h->grow, h->pinned};
}

static inline impmem_engine *house_open(house *h, const impmem_plan *plan)
{
    impmem_engine *engine = NULL;
    impmem_error why = IMPMEM_ERROR_INIT;
    house_build(h, plan);
    if (impmem_engine_open(h->ledger, plan, &h->backends, &engine, &why)) fail_msg("%s", why.message);
    return engine;
}

static inline void house_clear(house *h)
{
    assert_journal_agrees(h->ledger);
    OK(impmem_backend_destroy(h->fixed, NULL));
    OK(impmem_backend_destroy(h->grow, NULL));
    OK(impmem_backend_destroy(h->pinned, NULL));
    OK(impmem_ledger_destroy(h->ledger, NULL));
    assert_int_equal(h->host.held, 0);
}

static inline void house_close(house *h, impmem_engine **engine)
{
    OK(impmem_engine_close(engine, NULL));
    assert_null(*engine);
    house_clear(h);
}

/* What an operation that was refused must leave as it was. */
typedef struct house_figures {
    impmem_usage account[IMPMEM_N_ACCOUNTS];
    uint32_t regions;
    uint64_t held;
} house_figures;

static inline house_figures house_look(const house *h)
{
    house_figures f;
    memset(&f, 0, sizeof f);
    for (unsigned a = 0; a < IMPMEM_N_ACCOUNTS; a++) {
        impmem_ledger_account_usage(h->ledger, (impmem_account)a, &f.account[a]);
        f.account[a].committed_peak_bytes = 0;
        f.account[a].live_peak_bytes = 0;
    }
    f.regions = impmem_backend_live_regions(h->fixed) + impmem_backend_live_regions(h->grow);
    if (h->pinned) f.regions += impmem_backend_live_regions(h->pinned);
    f.held = h->host.held;
    return f;
}

static inline void assert_same_house(house_figures a, house_figures b)
{
    assert_memory_equal(&a, &b, sizeof a);
}

#endif
