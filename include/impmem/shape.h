/* impmem/shape.h - what a planner must know of a model: plain data. Floor 1, src/plan/shape.c.
 *
 * Filled by impmem/model.h from a file, or by hand:
 *   impmem_model_shape s = IMPMEM_MODEL_SHAPE_INIT;
 *   s.d_model = 2560; s.n_heads = 32; s.head_dim = 128; s.feed_forward = 9728; s.vocab = 151936;
 *   impmem_shape_uniform_attention(&s, 36, 8, 128, 128);
 *   s.weight_bytes = 4076 * IMPMEM_MIB;
 */
#ifndef IMPMEM_SHAPE_H
#define IMPMEM_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "impmem/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define IMPMEM_MAX_LAYERS 512u

typedef enum impmem_layer_kind {
    IMPMEM_LAYER_NO_ATTENTION = 0, /* no KV */
    IMPMEM_LAYER_FULL = 1,         /* every token of the context */
    IMPMEM_LAYER_WINDOW = 2,       /* the last window_tokens (sliding window), or the current chunk (chunked attention) */
    IMPMEM_LAYER_LATENT = 3,       /* MLA: k_dim = kv_lora_rank + rope dim stored once per token, kv_heads 1, v_dim 0 */
    IMPMEM_LAYER_SHARED = 4,       /* reuses the KV of layer shared_with: no KV of its own */
    IMPMEM_LAYER_CROSS = 5         /* cross-attention over cross_tokens of another input (an image), per sequence */
} impmem_layer_kind;

/* State that a layer keeps per sequence whatever its length; beside attention or instead of it. */
typedef enum impmem_recurrent_kind {
    IMPMEM_RECURRENT_NONE = 0,
    IMPMEM_RECURRENT_MAMBA = 1, /* convolution over d_inner channels, state d_inner x d_state */
    IMPMEM_RECURRENT_MAMBA2 =
        2, /* convolution over d_inner + 2 x groups x d_state channels, state heads x head_dim x d_state */
    IMPMEM_RECURRENT_DELTA_NET = 3, /* gated delta net: the same figures with key and value heads */
    IMPMEM_RECURRENT_SHORT_CONV = 4 /* a short convolution only */
} impmem_recurrent_kind;

typedef struct impmem_layer_shape {
    uint32_t kind; /* impmem_layer_kind */
    uint32_t kv_heads;
    uint32_t k_dim; /* elements of K per head */
    uint32_t v_dim; /* elements of V per head; 0 when V is not stored */
    uint32_t window_tokens;
    uint32_t shared_with;    /* layer index */
    uint32_t index_dim;      /* elements of a sparse-attention indexer's key per token, kept beside the KV; 0 = none */
    uint32_t cross_tokens;   /* of a CROSS layer */
    uint32_t recurrent;      /* impmem_recurrent_kind */
    uint32_t conv_kernel;    /* width of the convolution, d_conv */
    uint32_t conv_channels;  /* channels that pass the convolution */
    uint64_t state_elements; /* of the state matrix, all heads */
    uint32_t latent_rank;    /* of a LATENT layer: the part of k_dim that K and V are expanded from; 0 = unknown */
    uint32_t latent_v_dim;   /* of a LATENT layer: elements of V per head once expanded; 0 = unknown */
    uint32_t state_inner;    /* rows of the state matrix over all heads, d_inner; 0 = unknown, at most conv_channels */
    uint32_t state_heads;    /* heads of the state matrix; 0 = one, or unknown */
} impmem_layer_shape;

typedef enum impmem_source {
    IMPMEM_SOURCE_UNKNOWN = 0,
    IMPMEM_SOURCE_READ = 1,     /* summed from the file's own tensor table or stated total */
    IMPMEM_SOURCE_ESTIMATED = 2 /* derived from geometry and dtype */
} impmem_source;

typedef struct impmem_model_shape {
    uint32_t size;
    uint32_t version; /* 1 */
    char name[96];
    char architecture[48];
    uint32_t n_layers;
    uint32_t d_model;      /* hidden size */
    uint32_t n_heads;      /* query heads */
    uint32_t head_dim;     /* of queries */
    uint32_t feed_forward; /* dense FFN width, 0 when every layer is MoE */
    uint32_t n_experts;    /* 0 = dense */
    uint32_t experts_per_token;
    uint32_t expert_feed_forward;
    uint32_t vocab;
    uint32_t trained_context; /* tokens, 0 = unknown */
    uint32_t gated_query;     /* 1 when the query projection also carries a gate (twice n_heads * head_dim rows) */
    uint32_t post_norm_f32;   /* 1 when an fp32 accumulator of [tokens, d_model] is kept (Gemma-3 style post norms) */
    uint64_t weight_bytes;
    uint64_t n_tensors;               /* 0 = unknown */
    uint64_t largest_weight_elements; /* as stored (packed formats count packed units); 0 = unknown */
    impmem_source weight_source;
    uint64_t embedding_bytes; /* of weight_bytes, the input embedding; 0 = unknown */
    uint64_t output_bytes;    /* of weight_bytes, the output head; 0 = tied to the embedding or unknown */
    uint32_t tied_embeddings; /* 1: the output head is the embedding */
    uint32_t draft_layers;    /* multi-token-prediction layers that the weights hold beyond n_layers */
    /* Vision tower; all 0 without one. */
    uint64_t vision_weight_bytes; /* part of weight_bytes when they are in the same files, else apart: see vision_apart */
    uint32_t vision_apart;        /* 1: weight_bytes does not hold them */
    uint32_t vision_image_size;   /* pixels a side */
    uint32_t vision_tokens;       /* of one image at full size, after merging */
    uint32_t vision_layers, vision_d_model, vision_heads;
    uint32_t vision_patches; /* of one image at full size, before merging; 0 = unknown, as many as tokens */
    uint32_t reserved;       /* 0 */
    impmem_layer_shape layer[IMPMEM_MAX_LAYERS];
} impmem_model_shape;

#define IMPMEM_LAYER_SHAPE_INIT                                                                                            \
    {                                                                                                                      \
        IMPMEM_LAYER_NO_ATTENTION, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                             \
    }
#define IMPMEM_MODEL_SHAPE_INIT                                                                                            \
    {                                                                                                                      \
        sizeof(impmem_model_shape), 1, "", "", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, IMPMEM_SOURCE_UNKNOWN, 0, 0,   \
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,                                                                               \
        {                                                                                                                  \
            IMPMEM_LAYER_SHAPE_INIT                                                                                        \
        }                                                                                                                  \
    }

/* Layers 0..n_layers-1 all FULL with the same geometry; sets n_layers. BAD_VALUE: 0 or > IMPMEM_MAX_LAYERS layers. */
IMPMEM_NODISCARD impmem_status impmem_shape_uniform_attention(impmem_model_shape *shape, uint32_t n_layers,
                                                              uint32_t kv_heads, uint32_t k_dim, uint32_t v_dim);

/* Refuses contradictions with the field's name in `why`: layer count, zero dims of an attention layer, window 0, no tokens
 * to cross-attend to, recurrent state without a convolution or a state, shared_with out of range, itself shared or later
 * than the layer. BAD_VALUE. */
IMPMEM_NODISCARD impmem_status impmem_shape_check(const impmem_model_shape *shape, impmem_error *why);

#ifdef __cplusplus
}
#endif
#endif
