/* profile_engine_vllm.c - vLLM: one pool of equal pages, shared by groups of layers that page alike.
 *
 * Rules, each reproduced by figures that the engine printed (docs/engine-profiles.md):
 *   - layers of one kind and geometry form a spec. With one spec every layer has a page in a block; with several, layers are
 *     grouped so that each group has the same number of them, and a block is a page for each layer of one group;
 *   - a page of a smaller spec is filled up by more tokens, as many times the block as fit into the largest page;
 *   - with recurrent layers the block of the attention layers grows by 16 tokens until a page holds a state;
 *   - fp8 keeps no scale in the pages, int8 keeps 4 bytes a token, head and side;
 *   - convolutions are kept in 2 bytes, d_conv - 1 + drafted columns, the state matrix in f32.
 */
#include "plan/profile_engine.h"

#include <string.h>

#define BLOCK_STEP 16u
#define INT8_SCALE_BYTES 4u
#define CONV_BYTES 2u
#define STATE_BYTES 4u
enum { MAX_SPECS = 16 };

typedef struct spec {
    uint32_t kind;   /* impmem_layer_kind; NO_ATTENTION is recurrent state */
    uint32_t window; /* tokens */
    uint32_t n_layers;
    uint64_t unit_bytes; /* of one token, or of a whole state */
    uint64_t block_tokens;
    uint64_t groups;
} spec;

typedef struct paging {
    spec item[MAX_SPECS];
    uint32_t n;
    uint32_t last_full;   /* index of the spec of the last layer that attends to everything, or MAX_SPECS */
    uint32_t rank_heads;  /* of the last attention layer */
    uint64_t conv, state; /* bytes of one copy over all layers */
    uint32_t recurrent_layers;
    uint64_t page_bytes;
    uint64_t base_tokens; /* block of the spec with the largest page */
    uint64_t group_layers;
    uint64_t n_groups;
    uint64_t block_bytes;
} paging;

static uint32_t spec_of(impmem__profiling *p, paging *g, uint32_t layer, uint32_t kind, uint32_t window,
                        uint64_t unit_bytes)
{
    for (uint32_t i = 0; i < g->n; i++) {
        if (g->item[i].kind != kind || g->item[i].window != window || g->item[i].unit_bytes != unit_bytes) continue;
        g->item[i].n_layers++;
        return i;
    }
    if (g->n == MAX_SPECS) {
        impmem__profile_fail_layer(p, IMPMEM_ERR_UNSUPPORTED, layer,
                                   "layer %u: more than %d kinds of layer, expected fewer", layer, (int)MAX_SPECS);
        return 0;
    }
    g->item[g->n] = (spec){.kind = kind, .window = window, .n_layers = 1, .unit_bytes = unit_bytes};
    return g->n++;
}

/* K and V of one token of a layer on one rank. */
static uint64_t token_bytes(impmem__profiling *p, uint32_t i)
{
    const impmem_layer_shape *layer = &p->shape->layer[i];
    uint64_t heads = impmem__profile_rank_heads(p, i);
    bool int8 = p->args.kv_dtype_k == IMPMEM_DTYPE_INT8;
    if (int8 && layer->kind == IMPMEM_LAYER_LATENT)
        impmem__profile_fail_layer(p, IMPMEM_ERR_UNSUPPORTED, i,
                                   "layer %u is latent attention, expected none with int8: no rule is known", i);
    uint64_t dims = (uint64_t)layer->k_dim + layer->v_dim;
    uint64_t bytes = impmem__profile_mul(p, dims, impmem__profile_element_bytes(p->args.kv_dtype_k));
    if (int8) bytes = impmem__profile_add(p, bytes, (layer->v_dim ? UINT64_C(2) : UINT64_C(1)) * INT8_SCALE_BYTES);
    return impmem__profile_mul(p, bytes, heads);
}

static void add_state(impmem__profiling *p, paging *g, uint32_t i)
{
    const impmem_layer_shape *layer = &p->shape->layer[i];
    uint32_t tp = p->args.tp;
    if (layer->conv_channels % tp != 0 || layer->state_elements % tp != 0)
        impmem__profile_fail(p, IMPMEM_ERR_BAD_VALUE, "tp",
                             "tp is %u, expected a divisor of the %u channels and %llu state elements of layer %u", tp,
                             layer->conv_channels, (unsigned long long)layer->state_elements, i);
    uint64_t columns = layer->conv_kernel - UINT64_C(1) + p->args.draft_tokens;
    uint64_t conv = impmem__profile_mul(p, impmem__profile_mul(p, columns, layer->conv_channels / tp), CONV_BYTES);
    uint64_t state = impmem__profile_mul(p, layer->state_elements / tp, STATE_BYTES);
    g->conv = impmem__profile_add(p, g->conv, conv);
    g->state = impmem__profile_add(p, g->state, state);
    g->recurrent_layers++;
    (void)spec_of(p, g, i, IMPMEM_LAYER_NO_ATTENTION, 0, impmem__profile_add(p, conv, state));
}

static void collect(impmem__profiling *p, paging *g)
{
    g->last_full = MAX_SPECS;
    for (uint32_t i = 0; i < p->shape->n_layers && !p->status; i++) {
        const impmem_layer_shape *layer = &p->shape->layer[i];
        if (layer->kind != IMPMEM_LAYER_NO_ATTENTION && layer->kind != IMPMEM_LAYER_SHARED) {
            uint32_t at = spec_of(p, g, i, layer->kind, layer->kind == IMPMEM_LAYER_WINDOW ? layer->window_tokens : 0,
                                  token_bytes(p, i));
            if (layer->kind != IMPMEM_LAYER_WINDOW) g->last_full = at;
            g->rank_heads = impmem__profile_rank_heads(p, i);
        }
        if (layer->recurrent != IMPMEM_RECURRENT_NONE) add_state(p, g, i);
    }
    /* Draft heads that the weights hold are attention layers like the last full one. */
    if (!p->status && p->args.draft_tokens > 0 && g->last_full < MAX_SPECS)
        g->item[g->last_full].n_layers += p->shape->draft_layers;
}

static bool is_state(const spec *s)
{
    return s->kind == IMPMEM_LAYER_NO_ATTENTION;
}

/* The page that every spec shares, and how many tokens each spec has in it. */
static void size_pages(impmem__profiling *p, paging *g)
{
    uint64_t widest = 0, state = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        const spec *s = &g->item[i];
        uint64_t *most = is_state(s) ? &state : &widest;
        if (s->unit_bytes > *most) *most = s->unit_bytes;
    }
    if (widest == 0) {
        impmem__profile_fail(p, IMPMEM_ERR_UNSUPPORTED, "layers",
                             "no layer keeps KV, expected one: no rule of vllm is known for it");
        return;
    }
    g->base_tokens = p->args.block_tokens;
    uint64_t needed = state / widest + (state % widest != 0);
    if (needed > g->base_tokens) g->base_tokens = impmem__profile_align(p, needed, BLOCK_STEP);
    g->page_bytes = impmem__profile_mul(p, widest, g->base_tokens);
    if (p->status) return;
    for (uint32_t i = 0; i < g->n; i++) {
        spec *s = &g->item[i];
        if (!is_state(s) && s->unit_bytes > 0) s->block_tokens = g->base_tokens * (widest / s->unit_bytes);
    }
}

static uint64_t div_up(uint64_t a, uint64_t b)
{
    uint64_t quotient = 0;
    return impmem_div_up(&quotient, a, b) ? 0 : quotient;
}

/* With unlike specs, as many layers a group as the rarest spec has, or as the commonest where they differ by less than a quarter. */
static void size_groups(impmem__profiling *p, paging *g)
{
    uint64_t least = g->item[0].n_layers, most = least;
    for (uint32_t i = 1; i < g->n; i++) {
        uint64_t n = g->item[i].n_layers;
        if (n < least) least = n;
        if (n > most) most = n;
    }
    g->group_layers = most * 4 < least * 5 ? most : least;
    for (uint32_t i = 0; i < g->n; i++) {
        g->item[i].groups = div_up(g->item[i].n_layers, g->group_layers);
        g->n_groups += g->item[i].groups;
    }
    g->block_bytes = impmem__profile_mul(p, g->page_bytes, g->group_layers);
}

/* Blocks that one request of n_ctx tokens may hold at once. */
static uint64_t request_blocks(impmem__profiling *p, const paging *g)
{
    const impmem_engine_profile_args *a = &p->args;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        const spec *s = &g->item[i];
        uint64_t blocks = 2 + (uint64_t)a->draft_tokens;
        if (s->kind == IMPMEM_LAYER_WINDOW) {
            uint64_t live = s->window - UINT64_C(1) + a->prefill_tokens;
            blocks = div_up(live < a->n_ctx ? live : a->n_ctx, s->block_tokens) + 1;
        } else if (!is_state(s)) {
            blocks = div_up(a->n_ctx, s->block_tokens);
        }
        sum = impmem__profile_add(p, sum, impmem__profile_mul(p, s->groups, blocks));
    }
    return sum;
}

static void page_lines(impmem__profiling *p, const paging *g)
{
    uint64_t full = 0, window = 0, state = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        const spec *s = &g->item[i];
        if (s->kind == IMPMEM_LAYER_WINDOW) window = s->block_tokens;
        else if (!is_state(s)) full = s->block_tokens;
        else if (s->unit_bytes > state) state = s->unit_bytes;
    }
    if (full)
        impmem__profile_line(p, "block_tokens", IMPMEM_ENGINE_UNIT_TOKENS, 0, full, "%s",
                             state ? "grown by 16 tokens until a page holds a state" : "tokens of a page of a full layer");
    if (window)
        impmem__profile_line(p, "block_tokens_swa", IMPMEM_ENGINE_UNIT_TOKENS, 0, window,
                             "tokens of a page of a window layer");
    impmem__profile_line(p, "page_bytes", IMPMEM_ENGINE_UNIT_BYTES, 1, g->page_bytes,
                         "one layer's part of a block, %u KV heads a rank, %s", g->rank_heads,
                         impmem_dtype_name(p->args.kv_dtype_k));
    if (state) {
        impmem__profile_line(p, "state_page_bytes", IMPMEM_ENGINE_UNIT_BYTES, 1, state,
                             "convolution in 2 B + state matrix in 4 B");
        uint64_t spare = impmem__profile_mul(p, g->page_bytes - state, 1000000);
        impmem__profile_line(p, "page_padding", IMPMEM_ENGINE_UNIT_MILLIONTHS, 0, spare / state, "(%llu - %llu) / %llu",
                             (unsigned long long)g->page_bytes, (unsigned long long)state, (unsigned long long)state);
    }
    impmem__profile_line(p, "groups", IMPMEM_ENGINE_UNIT_COUNT, 0, g->n_groups,
                         "groups of %llu layers, a block of each at a time", (unsigned long long)g->group_layers);
    impmem__profile_line(p, "block_bytes", IMPMEM_ENGINE_UNIT_BYTES, (uint32_t)g->group_layers, g->block_bytes,
                         "%llu layers x %llu B", (unsigned long long)g->group_layers, (unsigned long long)g->page_bytes);
}

/* Tokens as the engine prints them: whole blocks of a plain model; the requests that fit, times the longest request, of others. */
static uint64_t capacity(impmem__profiling *p, const paging *g, uint64_t blocks, uint64_t per_request)
{
    if (g->n_groups == 1) return impmem__profile_mul(p, blocks, g->item[0].block_tokens);
    if (p->args.capacity_by_group) return impmem__profile_mul(p, blocks / g->n_groups, g->base_tokens);
    return impmem__profile_mul(p, blocks, p->args.n_ctx) / per_request;
}

static void pool_lines(impmem__profiling *p, const paging *g)
{
    const impmem_engine_profile_args *a = &p->args;
    uint64_t per_request = request_blocks(p, g);
    impmem__profile_line(p, "request_blocks", IMPMEM_ENGINE_UNIT_BLOCKS, 0, per_request,
                         "what one request of %u tokens may hold", a->n_ctx);
    impmem__profile_line(p, "request_bytes", IMPMEM_ENGINE_UNIT_BYTES, 0,
                         impmem__profile_mul(p, per_request, g->block_bytes), "%llu blocks x %llu B",
                         (unsigned long long)per_request, (unsigned long long)g->block_bytes);
    if (p->status || per_request == 0) return;
    uint64_t blocks = a->pool_units ? a->pool_units : a->pool_bytes / g->block_bytes;
    if (a->pool_units || a->pool_bytes) {
        uint64_t bytes = impmem__profile_mul(p, blocks, g->block_bytes);
        impmem__profile_line(p, "kv_blocks", IMPMEM_ENGINE_UNIT_BLOCKS, 0, blocks, "%s",
                             a->pool_units ? "as told" : "pool / block");
        impmem__profile_line(p, "kv_total", IMPMEM_ENGINE_UNIT_BYTES, 0, bytes, "%llu blocks x %llu B",
                             (unsigned long long)blocks, (unsigned long long)g->block_bytes);
        impmem__profile_line(p, "kv_max_tokens", IMPMEM_ENGINE_UNIT_TOKENS, 0, capacity(p, g, blocks, per_request), "%s",
                             g->n_groups == 1       ? "blocks x block"
                             : a->capacity_by_group ? "blocks / groups x block"
                                                    : "blocks / blocks of a request x n_ctx");
        impmem__profile_line(p, "max_concurrency", IMPMEM_ENGINE_UNIT_MILLIONTHS, 0,
                             impmem__profile_mul(p, blocks, 1000000) / per_request, "%llu / %llu",
                             (unsigned long long)blocks, (unsigned long long)per_request);
    }
    if (a->swap_bytes)
        impmem__profile_line(p, "cpu_swap_blocks", IMPMEM_ENGINE_UNIT_BLOCKS, 0, a->swap_bytes / g->block_bytes,
                             "%llu B / %llu B", (unsigned long long)a->swap_bytes, (unsigned long long)g->block_bytes);
}

void impmem__profile_vllm(impmem__profiling *p)
{
    paging g;
    memset(&g, 0, sizeof g);
    collect(p, &g);
    if (!p->status) size_pages(p, &g);
    if (p->status) return;
    size_groups(p, &g);
    if (p->status) return;
    impmem__profile_line(p, "kv_heads_per_rank", IMPMEM_ENGINE_UNIT_COUNT, 0, g.rank_heads,
                         "max(1, KV heads / tp %u) of the last attention layer", p->args.tp);
    page_lines(p, &g);
    pool_lines(p, &g);
    if (!g.recurrent_layers) return;
    impmem__profile_line(p, "recurrent_total", IMPMEM_ENGINE_UNIT_BYTES, g.recurrent_layers,
                         impmem__profile_add(p, g.conv, g.state), "one copy of the state of %u layers", g.recurrent_layers);
    impmem__profile_line(p, "recurrent_conv", IMPMEM_ENGINE_UNIT_BYTES, g.recurrent_layers, g.conv,
                         "(d_conv - 1 + %u drafted) x channels x 2 B", p->args.draft_tokens);
    impmem__profile_line(p, "recurrent_state", IMPMEM_ENGINE_UNIT_BYTES, g.recurrent_layers, g.state,
                         "state elements x 4 B");
}
