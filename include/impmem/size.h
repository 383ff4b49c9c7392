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
 * 0 for layers without KV of their own. f16, 16 tokens, 8 heads of 128: 65,536. */
IMPMEM_NODISCARD impmem_status impmem_size_kv_block_layer(const impmem_layer_shape *layer, impmem_dtype k, impmem_dtype v,
                                                          uint32_t block_tokens, uint64_t *out_bytes);

/* Blocks that one sequence of `tokens` needs: ceil(tokens / block_tokens) for full layers; for window layers
 * min(that, ceil((window + in_flight_tokens) / block_tokens) + 1). window_tokens 0 = full. */
IMPMEM_NODISCARD impmem_status impmem_size_blocks_per_sequence(uint32_t tokens, uint32_t block_tokens,
                                                               uint32_t window_tokens, uint32_t in_flight_tokens,
                                                               uint64_t *out_blocks);

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
