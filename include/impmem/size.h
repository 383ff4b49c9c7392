/* impmem/size.h - one pure size function per thing, used by the planner and by the code that takes the bytes. Floor 1,
 * src/plan/size*.c. All pure, any thread; OVERFLOW, BAD_VALUE (a dimension that the dtype can't divide), INVALID_ARGUMENT.
 */
#ifndef IMPMEM_SIZE_H
#define IMPMEM_SIZE_H

#include <stdint.h>

#include "impmem/dtype.h"
#include "impmem/shape.h"
#include "impmem/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One block of one layer: block_tokens x kv_heads x (row(k_dim) + row(v_dim)) bytes, with per-head-and-token scales.
 * 0 for layers without KV of their own that grows with the tokens (cross-attention has impmem_size_cross_layer). Indexer
 * keys are apart. f16, 16 tokens, 8 heads of 128: 65,536. */
IMPMEM_NODISCARD impmem_status impmem_size_kv_block_layer(const impmem_layer_shape *layer, impmem_dtype k, impmem_dtype v,
                                                          uint32_t block_tokens, uint64_t *out_bytes);

/* Blocks that one sequence of `tokens` needs: ceil(tokens / block_tokens) for full layers; for window layers
 * min(that, ceil((window + in_flight_tokens) / block_tokens) + 1). window_tokens 0 = full. */
IMPMEM_NODISCARD impmem_status impmem_size_blocks_per_sequence(uint32_t tokens, uint32_t block_tokens,
                                                               uint32_t window_tokens, uint32_t in_flight_tokens,
                                                               uint64_t *out_blocks);

/* Of the above, the bytes of scales that a kernel can keep elsewhere: block_tokens x kv_heads x 2 for each of K and V of
 * INT8 and INT4, one byte for 16 elements of NVFP4, for 32 of MXFP4; 0 for the others. */
IMPMEM_NODISCARD impmem_status impmem_size_kv_scales_layer(const impmem_layer_shape *layer, impmem_dtype k, impmem_dtype v,
                                                           uint32_t block_tokens, uint64_t *out_bytes);

/* Keys of a sparse-attention indexer in one block: block_tokens x index_dim elements. DEFAULT is fp8 with one fp32 scale
 * for each 128 elements begun: 132 bytes a token for the 128 of DeepSeek-V3.2, as its published indexer cache holds them.
 */
IMPMEM_NODISCARD impmem_status impmem_size_index_block_layer(const impmem_layer_shape *layer, impmem_dtype dtype,
                                                             uint32_t block_tokens, uint64_t *out_bytes);

/* Minimum and maximum of K in one block: 2 x kv_heads x k_dim x 2 bytes. */
IMPMEM_NODISCARD impmem_status impmem_size_key_bounds_layer(const impmem_layer_shape *layer, uint64_t *out_bytes);

/* Elements of K and V that one block of one layer holds: what a kernel's offsets count. */
IMPMEM_NODISCARD impmem_status impmem_size_kv_block_elements(const impmem_layer_shape *layer, uint32_t block_tokens,
                                                             uint64_t *out_elements);

/* ---- state of one sequence ----------------------------------------------------------------------------------------- */

/* Cross-attention of one layer: K and V of cross_tokens tokens, rounded up to 256. 0 for other layers. */
IMPMEM_NODISCARD impmem_status impmem_size_cross_layer(const impmem_layer_shape *layer, impmem_dtype k, impmem_dtype v,
                                                       uint64_t *out_bytes);

/* Columns of its input that a causal convolution of width k keeps between tokens. */
typedef enum impmem_conv_width {
    IMPMEM_CONV_NEEDED = 0, /* k - 1: what the next token needs */
    IMPMEM_CONV_FULL = 1    /* k: the reference engine's, which shifts in place */
} impmem_conv_width;

/* Recurrent state of one layer: a(conv_channels x columns x conv element) + a(state_elements x state element), a() being
 * rounding up to 256. DEFAULT is f32. 0 for layers without one. Measured on Qwen3.8-27B (48 layers, 10,240 channels, width
 * 4, 48 heads of 128 x 128): f32 convolution with FULL width and f16 state are 79.5 MiB a sequence. BAD_VALUE: an element
 * type other than f16, bf16 and f32. */
IMPMEM_NODISCARD impmem_status impmem_size_recurrent_layer(const impmem_layer_shape *layer, impmem_dtype conv,
                                                           impmem_dtype state, impmem_conv_width width,
                                                           uint64_t *out_bytes);

/* The newest `tokens` of one layer in f16: 2 tokens x kv_heads x (k_dim + v_dim), rounded up to 256. 0 for layers without
 * KV. */
IMPMEM_NODISCARD impmem_status impmem_size_residual_layer(const impmem_layer_shape *layer, uint32_t tokens,
                                                          uint64_t *out_bytes);

/* ---- features ------------------------------------------------------------------------------------------------------- */

/* A second copy of `elements` weights: F16, BF16 2 each; FP8 1; INT8 1 and 4 for each 32; NVFP4 9/16, scales included.
 * BAD_VALUE for other types, or when its block doesn't divide them. 4,022,272,000 elements of NVFP4 are 2157.71 MiB. */
IMPMEM_NODISCARD impmem_status impmem_size_weight_cache(impmem_dtype dtype, uint64_t elements, uint64_t *out_bytes);

/* Scale factors of `count` matrices of rows x columns in the order that block-scaled kernels read:
 * count x ceil(rows / 128) x ceil(columns / 64) x 512. */
IMPMEM_NODISCARD impmem_status impmem_size_scale_slab(uint64_t rows, uint64_t columns, uint64_t count, uint64_t *out_bytes);

/* rows x vocab x bytes_each: 4 for sampling; 6 for prompt log-probabilities, which hold them in 16 and in 32 bits. */
IMPMEM_NODISCARD impmem_status impmem_size_logits(uint64_t rows, uint32_t vocab, uint32_t bytes_each, uint64_t *out_bytes);

/* min(heads x tokens x tokens x 2, cap). */
IMPMEM_NODISCARD impmem_status impmem_size_attention_scores(uint32_t heads, uint32_t tokens, uint64_t cap_bytes,
                                                            uint64_t *out_bytes);

/* Pointers, counts and offsets of each expert: 80 bytes an expert, 12 more, and 11 tables on lines of 256. */
IMPMEM_NODISCARD impmem_status impmem_size_expert_tables(uint32_t n_experts, uint64_t *out_bytes);

/* Verifying k drafts of a whole batch: rows = batch x (k + 1); a(rows x vocab x 4) + a(rows x d_model x 2) + 2 a(rows x 4).
 */
IMPMEM_NODISCARD impmem_status impmem_size_verify_staging(const impmem_model_shape *shape, uint32_t batch,
                                                          uint32_t draft_tokens, uint64_t *out_bytes);

/* Graphs that share a pool, in the order of capture: each takes what exceeds the largest block that an earlier one left,
 * else a block of its own. Largest first is the maximum, smallest first the sum. Plus exec_bytes for each. */
IMPMEM_NODISCARD impmem_status impmem_size_graphs(const uint64_t *graph_bytes, uint32_t n_graphs, uint64_t exec_bytes,
                                                  uint64_t *out_bytes);

/* Leases of device loops with stable addresses, of one slot: device a(66052) + a(40) + a(4 x 64) + a(4 x 2 x max_steps),
 * host a(4 x max_steps) + 768. 4 slots of 896 steps: 289.0 KiB and 17.0 KiB. */
IMPMEM_NODISCARD impmem_status impmem_size_graph_slots(uint32_t slots, uint32_t max_steps, uint64_t *out_device_bytes,
                                                       uint64_t *out_host_bytes);

/* One image: image_size^2 x 3 x 2, or patches x patch_elements x 2 where patches are given. */
IMPMEM_NODISCARD impmem_status impmem_size_vision_pixels(uint32_t image_size, uint32_t patches, uint32_t patch_elements,
                                                         uint64_t *out_bytes);
/* One image: tokens x d_model x 2, for the first layer and each tap. */
IMPMEM_NODISCARD impmem_status impmem_size_vision_embeddings(uint32_t tokens, uint32_t d_model, uint32_t taps,
                                                             uint64_t *out_bytes);
/* The tower's activations for one image: 4 a(patches x vision_d_model x 2), and with scores a(heads x patches^2 x 2). */
IMPMEM_NODISCARD impmem_status impmem_size_vision_scratch(const impmem_model_shape *shape, uint32_t patches,
                                                          uint32_t scores, uint64_t *out_bytes);

/* An adapter of that rank on every projection of attention and of the dense feed-forward: 2 x rank x sum of (inputs +
 * outputs). */
IMPMEM_NODISCARD impmem_status impmem_size_lora_slot(const impmem_model_shape *shape, uint32_t rank, uint64_t *out_bytes);

/* The reference engine's executor workspaces: persistent and shared activations, fp32 accumulator, one weight widened to
 * two bytes, split attention results and the engine's margin. Two-byte activations, every buffer rounded up to 256 bytes.
 * tokens = the largest prefill batch; rows = max(max_batch, 8). Formula in docs/planning.md. Qwen3-4B shape at 4096
 * tokens, batch 8: 396.574 MiB. */
IMPMEM_NODISCARD impmem_status impmem_size_executor_workspace(const impmem_model_shape *shape, uint32_t tokens,
                                                              uint32_t max_batch, uint64_t *out_bytes);

#ifdef __cplusplus
}
#endif
#endif
