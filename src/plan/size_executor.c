/* The workspaces of the reference engine's executor, from the model's shape. Every buffer is rounded up to 256 bytes. */
#include "impmem/bytes.h"
#include "plan/internal.h"

#define ACTIVATION_BYTES 2u /* two-byte activations throughout */
#define LOGIT_BYTES 4u
#define MIN_ROWS 8u

/* *sum += count * a * b * c, rounded up to 256. */
static impmem_status add_buffers(uint64_t *sum, uint64_t count, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t bytes;
    impmem_status st = impmem_mul(&bytes, a, b);
    if (!st) st = impmem_mul(&bytes, bytes, c);
    if (!st) st = impmem_align_up(&bytes, bytes, IMPMEM__LINE_ALIGNMENT);
    if (!st) st = impmem_mul(&bytes, bytes, count);
    if (!st) st = impmem_add(sum, *sum, bytes);
    return st;
}

/* Columns of one of K and V. A latent layer's are expanded to the query heads. */
static uint64_t kv_columns(const impmem_model_shape *shape)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < shape->n_layers && i < IMPMEM_MAX_LAYERS; i++) {
        const impmem_layer_shape *layer = &shape->layer[i];
        uint64_t columns = 0;
        if (layer->kind == IMPMEM_LAYER_FULL || layer->kind == IMPMEM_LAYER_WINDOW)
            columns = (uint64_t)layer->kv_heads * (layer->k_dim > layer->v_dim ? layer->k_dim : layer->v_dim);
        else if (layer->kind == IMPMEM_LAYER_LATENT) columns = (uint64_t)shape->n_heads * shape->head_dim;
        if (columns > most) most = columns;
    }
    return most;
}

static impmem_status attention_bytes(const impmem_model_shape *shape, uint64_t tokens, uint64_t *out)
{
    uint64_t query = (uint64_t)shape->n_heads * shape->head_dim, kv, gated, sum = 0;
    impmem_status st = impmem_mul(&kv, 2, kv_columns(shape));
    if (!st) st = impmem_mul(&gated, 2, query);
    if (!st) st = add_buffers(&sum, 2, tokens, query, ACTIVATION_BYTES); /* queries and attention output */
    if (!st) st = add_buffers(&sum, 1, tokens, kv, ACTIVATION_BYTES);
    if (!st) st = add_buffers(&sum, 1, tokens, shape->d_model, ACTIVATION_BYTES);
    if (!st && shape->gated_query) st = add_buffers(&sum, 1, tokens, gated, ACTIVATION_BYTES);
    *out = sum;
    return st;
}

static impmem_status feed_forward_bytes(const impmem_model_shape *shape, uint64_t tokens, uint64_t *out)
{
    uint64_t sum = 0;
    impmem_status st = IMPMEM_OK;
    if (shape->feed_forward > 0) {
        st = add_buffers(&sum, 3, tokens, shape->feed_forward, ACTIVATION_BYTES); /* gate, up, product */
        if (!st) st = add_buffers(&sum, 1, tokens, shape->d_model, ACTIVATION_BYTES);
    }
    *out = sum;
    return st;
}

static impmem_status experts_bytes(const impmem_model_shape *shape, uint64_t tokens, uint64_t *out)
{
    uint64_t sum = 0;
    impmem_status st = IMPMEM_OK;
    if (shape->n_experts > 0) {
        uint64_t routed = tokens * shape->experts_per_token;    /* two 32-bit factors */
        st = add_buffers(&sum, 1, tokens, shape->n_experts, 4); /* router scores, fp32 */
        if (!st) st = add_buffers(&sum, 2, routed, shape->d_model, ACTIVATION_BYTES);
        if (!st) st = add_buffers(&sum, 3, routed, shape->expert_feed_forward, ACTIVATION_BYTES);
        if (!st) st = add_buffers(&sum, 1, tokens, shape->d_model, 4); /* the experts' sum, fp32 */
    }
    *out = sum;
    return st;
}

/* A layer with a state: what the input projection yields (in fp32 for a delta net), the convolution's output, values and
 * their gate, the layer's output, figures of each head; and for a delta net the normalised copies that it scans over. */
static impmem_status one_state_bytes(const impmem_model_shape *shape, const impmem_layer_shape *layer, uint64_t tokens,
                                     uint64_t *out)
{
    const bool net = layer->recurrent == IMPMEM_RECURRENT_DELTA_NET;
    const uint64_t channels = layer->conv_channels, heads = layer->state_heads;
    const uint64_t inner = layer->state_inner > 0 ? layer->state_inner : channels;
    uint64_t sum = 0;
    impmem_status st = add_buffers(&sum, 1, tokens, inner + channels + heads, net ? 4 : ACTIVATION_BYTES);
    if (!st) st = add_buffers(&sum, 1, tokens, channels, ACTIVATION_BYTES);
    if (!st) st = add_buffers(&sum, 2, tokens, inner, ACTIVATION_BYTES);
    if (!st) st = add_buffers(&sum, 1, tokens, shape->d_model, ACTIVATION_BYTES);
    if (!st) st = add_buffers(&sum, 1, tokens, (net ? 2 : 1) * heads, ACTIVATION_BYTES);
    if (!st && net) st = add_buffers(&sum, 1, tokens, channels + inner + 2 * heads, ACTIVATION_BYTES);
    *out = sum;
    return st;
}

static impmem_status states_bytes(const impmem_model_shape *shape, uint64_t tokens, uint64_t *out)
{
    *out = 0;
    for (uint32_t i = 0; i < shape->n_layers && i < IMPMEM_MAX_LAYERS; i++) {
        const impmem_layer_shape *layer = &shape->layer[i];
        const impmem_layer_shape *before = i > 0 ? &shape->layer[i - 1] : NULL;
        uint64_t bytes;
        if (layer->recurrent == IMPMEM_RECURRENT_NONE) continue;
        /* Layers mostly come in runs of one kind. */
        if (before && before->recurrent == layer->recurrent && before->conv_channels == layer->conv_channels &&
            before->state_inner == layer->state_inner && before->state_heads == layer->state_heads)
            continue;
        impmem_status st = one_state_bytes(shape, layer, tokens, &bytes);
        if (st) return st;
        *out = impmem__larger(*out, bytes);
    }
    return IMPMEM_OK;
}

/* The parts of a layer run one after the other over the same memory. */
impmem_status impmem__size_executor_shared(const impmem_model_shape *shape, uint32_t tokens, uint64_t *out_bytes)
{
    uint64_t attention, feed_forward, experts, states;
    impmem_status st = attention_bytes(shape, tokens, &attention);
    if (!st) st = feed_forward_bytes(shape, tokens, &feed_forward);
    if (!st) st = experts_bytes(shape, tokens, &experts);
    if (!st) st = states_bytes(shape, tokens, &states);
    if (st) return st;
    *out_bytes = impmem__larger(impmem__larger(attention, feed_forward), impmem__larger(experts, states));
    return IMPMEM_OK;
}

uint64_t impmem__size_largest_input(const impmem_model_shape *shape)
{
    uint64_t query = (uint64_t)shape->n_heads * shape->head_dim;
    uint64_t most = shape->d_model;
    if (query > most) most = query;
    if (shape->feed_forward > most) most = shape->feed_forward;
    if (shape->n_experts > 0 && shape->expert_feed_forward > most) most = shape->expert_feed_forward;
    return most;
}

/* As the file stores it, or the largest projection that the geometry implies. */
impmem_status impmem__size_largest_weight(const impmem_model_shape *shape, uint64_t *out)
{
    uint64_t columns = (uint64_t)shape->n_heads * shape->head_dim;
    if (shape->feed_forward > columns) columns = shape->feed_forward;
    if (shape->n_experts > 0 && shape->expert_feed_forward > columns) columns = shape->expert_feed_forward;
    if (shape->largest_weight_elements > 0) {
        *out = shape->largest_weight_elements;
        return IMPMEM_OK;
    }
    return impmem_mul(out, columns, shape->d_model);
}

/* Small tables, and the reference engine's own margin for alignment inside its kernels' workspaces. */
uint64_t impmem__size_executor_margin(const impmem_model_shape *shape)
{
    return 262144 + (shape->n_experts > 0 ? 8 : 32) * IMPMEM_MIB;
}

impmem_status impmem_size_executor_workspace(const impmem_model_shape *shape, uint32_t tokens, uint32_t max_batch,
                                             uint64_t *out_bytes)
{
    if (!shape || !out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint64_t rows = max_batch > MIN_ROWS ? max_batch : MIN_ROWS;
    uint64_t shared, weight, heads, sum = 0;
    impmem_status st = add_buffers(&sum, 3, tokens, shape->d_model, ACTIVATION_BYTES); /* hidden, residual, normed */
    if (!st) st = add_buffers(&sum, 1, rows, shape->vocab, LOGIT_BYTES);
    if (!st) st = impmem__size_executor_shared(shape, tokens, &shared);
    if (!st) st = impmem_add(&sum, sum, shared);
    if (!st && shape->post_norm_f32) st = add_buffers(&sum, 1, tokens, shape->d_model, 4);
    /* One weight widened to two bytes, split results of a decode step (32 parts a head: sum, maximum, head_dim values,
     * fp32), and small per-row tables. */
    if (!st) st = impmem__size_largest_weight(shape, &weight);
    if (!st) st = add_buffers(&sum, 1, weight, 2, 1);
    if (!st) st = impmem_mul(&heads, rows, shape->n_heads);
    if (!st) st = add_buffers(&sum, 1, heads, 32 * (2 + (uint64_t)shape->head_dim), 4);
    if (!st) st = add_buffers(&sum, 1, rows, 16384, 1);
    if (!st) st = impmem_add(&sum, sum, impmem__size_executor_margin(shape));
    if (!st) *out_bytes = sum;
    return st;
}
