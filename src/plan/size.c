/* What the KV cache takes: one block of one layer, and how many blocks a sequence needs. */
#include "impmem/size.h"

#include "impmem/bytes.h"

/* One head of one token: its row and, for types that keep one, its scale. Nothing when the dimension is not stored. */
static impmem_status head_bytes(impmem_dtype dtype, uint32_t dim, uint64_t *out)
{
    if (dim == 0) {
        *out = 0;
        return IMPMEM_OK;
    }
    impmem_status st = impmem_dtype_row_bytes(dtype, dim, out);
    return st ? st : impmem_add(out, *out, impmem_dtype_scale_bytes(dtype));
}

impmem_status impmem_size_kv_block_layer(const impmem_layer_shape *layer, impmem_dtype k, impmem_dtype v,
                                         uint32_t block_tokens, uint64_t *out_bytes)
{
    if (!layer || !out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (layer->kind > IMPMEM_LAYER_CROSS || block_tokens == 0) return IMPMEM_ERR_BAD_VALUE;
    if (layer->kind == IMPMEM_LAYER_NO_ATTENTION || layer->kind == IMPMEM_LAYER_SHARED ||
        layer->kind == IMPMEM_LAYER_CROSS) {
        *out_bytes = 0;
        return IMPMEM_OK;
    }
    uint64_t k_bytes, v_bytes, bytes;
    impmem_status st = head_bytes(k, layer->k_dim, &k_bytes);
    if (!st) st = head_bytes(v, layer->v_dim, &v_bytes);
    if (!st) st = impmem_add(&bytes, k_bytes, v_bytes);
    if (!st) st = impmem_mul(&bytes, bytes, layer->kv_heads);
    if (!st) st = impmem_mul(&bytes, bytes, block_tokens);
    if (!st) *out_bytes = bytes;
    return st;
}

impmem_status impmem_size_blocks_per_sequence(uint32_t tokens, uint32_t block_tokens, uint32_t window_tokens,
                                              uint32_t in_flight_tokens, uint64_t *out_blocks)
{
    if (!out_blocks) return IMPMEM_ERR_INVALID_ARGUMENT;
    if (block_tokens == 0) return IMPMEM_ERR_BAD_VALUE;
    uint64_t blocks, window_blocks;
    impmem_status st = impmem_div_up(&blocks, tokens, block_tokens);
    if (!st && window_tokens > 0) {
        st = impmem_div_up(&window_blocks, (uint64_t)window_tokens + in_flight_tokens, block_tokens);
        /* One more: the window rarely starts on a block's edge. */
        if (!st && window_blocks + 1 < blocks) blocks = window_blocks + 1;
    }
    if (!st) *out_blocks = blocks;
    return st;
}
