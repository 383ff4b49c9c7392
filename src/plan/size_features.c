/* Buffers of what an engine does beyond attention over weights. */
#include "impmem/bytes.h"
#include "plan/internal.h"

/* *sum += a x b x c, rounded up to 256. */
static impmem_status add_buffer(uint64_t *sum, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t bytes;
    impmem_status st = impmem_mul(&bytes, a, b);
    if (!st) st = impmem_mul(&bytes, bytes, c);
    if (!st) st = impmem_align_up(&bytes, bytes, IMPMEM__LINE_ALIGNMENT);
    return st ? st : impmem_add(sum, *sum, bytes);
}

impmem_status impmem_size_weight_cache(impmem_dtype dtype, uint64_t elements, uint64_t *out_bytes)
{
    if (!out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint64_t scales = 0, bytes;
    if (dtype == IMPMEM_DTYPE_INT8) {
        if (elements % 32) return IMPMEM_ERR_BAD_VALUE;
        scales = elements / 32 * 4;
    } else if (dtype != IMPMEM_DTYPE_F16 && dtype != IMPMEM_DTYPE_BF16 && dtype != IMPMEM_DTYPE_FP8_E4M3 &&
               dtype != IMPMEM_DTYPE_NVFP4) {
        return IMPMEM_ERR_BAD_VALUE;
    }
    impmem_status st = impmem_dtype_row_bytes(dtype, elements, &bytes);
    return st ? st : impmem_add(out_bytes, bytes, scales);
}

impmem_status impmem_size_scale_slab(uint64_t rows, uint64_t columns, uint64_t count, uint64_t *out_bytes)
{
    if (!out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint64_t tall, wide, bytes;
    impmem_status st = impmem_div_up(&tall, rows, 128);
    if (!st) st = impmem_div_up(&wide, columns, 64);
    if (!st) st = impmem_mul(&bytes, tall, wide);
    if (!st) st = impmem_mul(&bytes, bytes, 512);
    return st ? st : impmem_mul(out_bytes, bytes, count);
}

impmem_status impmem_size_logits(uint64_t rows, uint32_t vocab, uint32_t bytes_each, uint64_t *out_bytes)
{
    if (!out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint64_t bytes;
    impmem_status st = impmem_mul(&bytes, rows, vocab);
    return st ? st : impmem_mul(out_bytes, bytes, bytes_each);
}

impmem_status impmem_size_attention_scores(uint32_t heads, uint32_t tokens, uint64_t cap_bytes, uint64_t *out_bytes)
{
    if (!out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint64_t bytes;
    impmem_status st = impmem_mul(&bytes, (uint64_t)heads * tokens, tokens);
    if (!st) st = impmem_mul(&bytes, bytes, 2);
    if (st) bytes = cap_bytes; /* too much for 64 bits is more than any cap */
    *out_bytes = bytes < cap_bytes ? bytes : cap_bytes;
    return IMPMEM_OK;
}

impmem_status impmem_size_expert_tables(uint32_t n_experts, uint64_t *out_bytes)
{
    if (!out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    *out_bytes = 80 * (uint64_t)n_experts + 12 + 11 * (uint64_t)256;
    return IMPMEM_OK;
}

impmem_status impmem_size_verify_staging(const impmem_model_shape *shape, uint32_t batch, uint32_t draft_tokens,
                                         uint64_t *out_bytes)
{
    if (!shape || !out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint64_t rows, sum = 0;
    impmem_status st = impmem_mul(&rows, batch, (uint64_t)draft_tokens + 1);
    if (!st) st = add_buffer(&sum, rows, shape->vocab, 4);
    if (!st) st = add_buffer(&sum, rows, shape->d_model, 2);
    if (!st) st = add_buffer(&sum, rows, 4, 1); /* drafted ids */
    if (!st) st = add_buffer(&sum, rows, 4, 1); /* accepted ones */
    if (!st) *out_bytes = sum;
    return st;
}

impmem_status impmem_size_graphs(const uint64_t *graph_bytes, uint32_t n_graphs, uint64_t exec_bytes, uint64_t *out_bytes)
{
    if (!out_bytes || (n_graphs > 0 && !graph_bytes)) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint64_t largest = 0, sum = 0;
    impmem_status st = IMPMEM_OK;
    for (uint32_t i = 0; i < n_graphs && !st; i++) {
        if (graph_bytes[i] <= largest) continue;
        st = impmem_add(&sum, sum, graph_bytes[i]);
        largest = graph_bytes[i];
    }
    uint64_t exec = 0;
    if (!st) st = impmem_mul(&exec, exec_bytes, n_graphs);
    return st ? st : impmem_add(out_bytes, sum, exec);
}

impmem_status impmem_size_graph_slots(uint32_t slots, uint32_t max_steps, uint64_t *out_device_bytes,
                                      uint64_t *out_host_bytes)
{
    if (!out_device_bytes || !out_host_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint64_t device = 0, host = 0;
    impmem_status st = add_buffer(&device, 66052, 1, 1);                         /* sampler state */
    if (!st) st = add_buffer(&device, 40, 1, 1);                                 /* loop counters */
    if (!st) st = add_buffer(&device, 64, 4, 1);                                 /* stop ids */
    if (!st) st = add_buffer(&device, 2, max_steps, 4);                          /* penalty window */
    if (!st) st = add_buffer(&host, max_steps, 4, 1);                            /* tokens as they come */
    if (!st) st = impmem_add(&host, host, 3 * (uint64_t)IMPMEM__LINE_ALIGNMENT); /* flags on lines of their own */
    if (!st) st = impmem_mul(&device, device, slots);
    if (!st) st = impmem_mul(&host, host, slots);
    if (st) return st;
    *out_device_bytes = device;
    *out_host_bytes = host;
    return IMPMEM_OK;
}

impmem_status impmem_size_vision_pixels(uint32_t image_size, uint32_t patches, uint32_t patch_elements, uint64_t *out_bytes)
{
    if (!out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint64_t elements;
    impmem_status st = IMPMEM_OK;
    if (patches > 0) elements = (uint64_t)patches * patch_elements;
    else st = impmem_mul(&elements, (uint64_t)image_size * image_size, 3);
    return st ? st : impmem_mul(out_bytes, elements, 2);
}

impmem_status impmem_size_vision_embeddings(uint32_t tokens, uint32_t d_model, uint32_t taps, uint64_t *out_bytes)
{
    if (!out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint64_t bytes;
    impmem_status st = impmem_mul(&bytes, (uint64_t)tokens * d_model, 2);
    return st ? st : impmem_mul(out_bytes, bytes, (uint64_t)taps + 1);
}

impmem_status impmem_size_vision_scratch(const impmem_model_shape *shape, uint32_t patches, uint32_t scores,
                                         uint64_t *out_bytes)
{
    if (!shape || !out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint64_t sum = 0, square = (uint64_t)patches * patches;
    impmem_status st = add_buffer(&sum, patches, shape->vision_d_model, 2);
    if (!st) st = impmem_mul(&sum, sum, 4); /* input, residual, attention, feed-forward */
    if (!st && scores) st = add_buffer(&sum, square, shape->vision_heads, 2);
    if (!st) *out_bytes = sum;
    return st;
}

/* Inputs and outputs of the projections of one layer's attention. */
static impmem_status attention_rows(const impmem_model_shape *shape, const impmem_layer_shape *layer, uint64_t *sum)
{
    if (layer->kind == IMPMEM_LAYER_NO_ATTENTION) return IMPMEM_OK;
    uint64_t query = (uint64_t)shape->n_heads * shape->head_dim, d = shape->d_model;
    uint64_t k = (uint64_t)layer->kv_heads * layer->k_dim, v = (uint64_t)layer->kv_heads * layer->v_dim, rows;
    impmem_status st = impmem_add(&rows, query, d);
    if (!st) st = impmem_mul(&rows, rows, 2); /* into the heads, and out of them */
    if (!st && layer->kind != IMPMEM_LAYER_SHARED) st = impmem_add(&rows, rows, k);
    if (!st && layer->kind != IMPMEM_LAYER_SHARED) st = impmem_add(&rows, rows, v);
    if (!st && layer->kind != IMPMEM_LAYER_SHARED) st = impmem_add(&rows, rows, (layer->v_dim > 0 ? 2 : 1) * d);
    return st ? st : impmem_add(sum, *sum, rows);
}

impmem_status impmem_size_lora_slot(const impmem_model_shape *shape, uint32_t rank, uint64_t *out_bytes)
{
    if (!shape || !out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint64_t sum = 0;
    impmem_status st = IMPMEM_OK;
    for (uint32_t i = 0; i < shape->n_layers && i < IMPMEM_MAX_LAYERS && !st; i++) {
        st = attention_rows(shape, &shape->layer[i], &sum);
        /* Gate, up and down. */
        if (!st && shape->feed_forward > 0)
            st = impmem_add(&sum, sum, 3 * ((uint64_t)shape->feed_forward + shape->d_model));
    }
    if (!st) st = impmem_mul(&sum, sum, rank);
    return st ? st : impmem_mul(out_bytes, sum, 2);
}
