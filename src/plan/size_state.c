/* What a sequence keeps whatever its length, and what lies beside the blocks of the KV cache. */
#include "impmem/bytes.h"
#include "plan/internal.h"

#define SCALED_ELEMENTS 128u /* of an indexer key, for one fp32 scale */

static bool has_blocks(const impmem_layer_shape *layer)
{
    return layer->kind == IMPMEM_LAYER_FULL || layer->kind == IMPMEM_LAYER_WINDOW || layer->kind == IMPMEM_LAYER_LATENT;
}

/* Scale bytes of one head of one token. */
static uint64_t head_scales(impmem_dtype dtype, uint32_t dim)
{
    if (dim == 0) return 0;
    if (dtype == IMPMEM_DTYPE_NVFP4) return dim / 16;
    if (dtype == IMPMEM_DTYPE_MXFP4) return dim / 32;
    return impmem_dtype_scale_bytes(dtype);
}

impmem_status impmem_size_kv_scales_layer(const impmem_layer_shape *layer, impmem_dtype k, impmem_dtype v,
                                          uint32_t block_tokens, uint64_t *out_bytes)
{
    if (!out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint64_t whole, bytes = 0;
    /* The same refusals as for the block itself. */
    impmem_status st = impmem_size_kv_block_layer(layer, k, v, block_tokens, &whole);
    if (st) return st;
    if (has_blocks(layer)) {
        st = impmem_mul(&bytes, head_scales(k, layer->k_dim) + head_scales(v, layer->v_dim), layer->kv_heads);
        if (!st) st = impmem_mul(&bytes, bytes, block_tokens);
    }
    if (!st) *out_bytes = bytes;
    return st;
}

impmem_status impmem_size_index_block_layer(const impmem_layer_shape *layer, impmem_dtype dtype, uint32_t block_tokens,
                                            uint64_t *out_bytes)
{
    if (!layer || !out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (block_tokens == 0) return IMPMEM_ERR_BAD_VALUE;
    uint64_t row = 0;
    impmem_status st = IMPMEM_OK;
    if (layer->index_dim > 0 && dtype == IMPMEM_DTYPE_DEFAULT) {
        uint64_t scales = layer->index_dim / SCALED_ELEMENTS + (layer->index_dim % SCALED_ELEMENTS != 0);
        row = (uint64_t)layer->index_dim + 4 * scales;
    } else if (layer->index_dim > 0) {
        st = impmem_dtype_row_bytes(dtype, layer->index_dim, &row);
        if (!st) st = impmem_add(&row, row, impmem_dtype_scale_bytes(dtype));
    }
    if (!st) st = impmem_mul(&row, row, block_tokens);
    if (!st) *out_bytes = row;
    return st;
}

impmem_status impmem_size_key_bounds_layer(const impmem_layer_shape *layer, uint64_t *out_bytes)
{
    if (!layer || !out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint64_t bytes = 0;
    impmem_status st = IMPMEM_OK;
    if (has_blocks(layer)) st = impmem_mul(&bytes, (uint64_t)layer->kv_heads * layer->k_dim, 4);
    if (!st) *out_bytes = bytes;
    return st;
}

impmem_status impmem_size_kv_block_elements(const impmem_layer_shape *layer, uint32_t block_tokens, uint64_t *out_elements)
{
    if (!layer || !out_elements) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint64_t elements = 0;
    impmem_status st = IMPMEM_OK;
    if (has_blocks(layer)) {
        st = impmem_mul(&elements, (uint64_t)layer->k_dim + layer->v_dim, layer->kv_heads);
        if (!st) st = impmem_mul(&elements, elements, block_tokens);
    }
    if (!st) *out_elements = elements;
    return st;
}

impmem_status impmem_size_cross_layer(const impmem_layer_shape *layer, impmem_dtype k, impmem_dtype v, uint64_t *out_bytes)
{
    if (!layer || !out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (layer->kind != IMPMEM_LAYER_CROSS) {
        *out_bytes = 0;
        return IMPMEM_OK;
    }
    impmem_layer_shape as_full = *layer;
    as_full.kind = IMPMEM_LAYER_FULL;
    uint64_t bytes = 0;
    impmem_status st = impmem_size_kv_block_layer(&as_full, k, v, layer->cross_tokens, &bytes);
    return st ? st : impmem_align_up(out_bytes, bytes, IMPMEM__LINE_ALIGNMENT);
}

static impmem_status element_bytes(impmem_dtype dtype, uint64_t *out)
{
    if (dtype == IMPMEM_DTYPE_DEFAULT) dtype = IMPMEM_DTYPE_F32;
    if (dtype != IMPMEM_DTYPE_F32 && dtype != IMPMEM_DTYPE_F16 && dtype != IMPMEM_DTYPE_BF16) return IMPMEM_ERR_BAD_VALUE;
    return impmem_dtype_row_bytes(dtype, 1, out);
}

impmem_status impmem_size_recurrent_layer(const impmem_layer_shape *layer, impmem_dtype conv, impmem_dtype state,
                                          impmem_conv_width width, uint64_t *out_bytes)
{
    if (!layer || !out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (width != IMPMEM_CONV_NEEDED && width != IMPMEM_CONV_FULL) return IMPMEM_ERR_BAD_VALUE;
    uint64_t conv_each, state_each, conv_bytes = 0, state_bytes = 0;
    impmem_status st = element_bytes(conv, &conv_each);
    if (!st) st = element_bytes(state, &state_each);
    if (!st && layer->recurrent != IMPMEM_RECURRENT_NONE) {
        uint64_t columns = layer->conv_kernel;
        if (width == IMPMEM_CONV_NEEDED && columns > 0) columns--;
        st = impmem_mul(&conv_bytes, layer->conv_channels * columns, conv_each); /* two 32-bit factors */
        if (!st) st = impmem_align_up(&conv_bytes, conv_bytes, IMPMEM__LINE_ALIGNMENT);
        if (!st) st = impmem_mul(&state_bytes, layer->state_elements, state_each);
        if (!st) st = impmem_align_up(&state_bytes, state_bytes, IMPMEM__LINE_ALIGNMENT);
    }
    return st ? st : impmem_add(out_bytes, conv_bytes, state_bytes);
}

impmem_status impmem_size_residual_layer(const impmem_layer_shape *layer, uint32_t tokens, uint64_t *out_bytes)
{
    if (!layer || !out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint64_t bytes = 0;
    impmem_status st = IMPMEM_OK;
    if (has_blocks(layer)) {
        st = impmem_mul(&bytes, (uint64_t)layer->k_dim + layer->v_dim, layer->kv_heads);
        if (!st) st = impmem_mul(&bytes, bytes, 2 * (uint64_t)tokens);
    }
    return st ? st : impmem_align_up(out_bytes, bytes, IMPMEM__LINE_ALIGNMENT);
}
