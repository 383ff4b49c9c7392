/* impmem/features.h - what an engine does beyond plain attention over weights, as inputs of a plan. Floor 1,
 * src/plan/plan_features.c.
 *
 *   impmem_plan_features f = IMPMEM_PLAN_FEATURES_INIT;    all off
 *   f.draft = &draft_shape; f.draft_tokens = 4;            speculative decoding with a model of its own
 *   f.headroom_bytes = 512 * IMPMEM_MIB;
 *   input.features = &f;
 *
 * A zeroed struct, or none, means that nothing of it is used. Turning a feature on adds its own lines and changes no other,
 * but for what lives on what is left: KV above its promised load, optional lines, rounding and the library's own host
 * tables. Every size comes from one function of impmem/size.h. Plain data; what it points at is read during planning only.
 */
#ifndef IMPMEM_FEATURES_H
#define IMPMEM_FEATURES_H

#include <stdint.h>

#include "impmem/dtype.h"
#include "impmem/line.h"
#include "impmem/shape.h"
#include "impmem/size.h"

#ifdef __cplusplus
extern "C" {
#endif

#define IMPMEM_MAX_WEIGHT_CACHES 4u
#define IMPMEM_MAX_GRAPHS 4096u

/* Ids of feature lines. Pools have theirs in impmem/plan.h. */
enum {
    IMPMEM_LINE_HEADROOM = 128,             /* charge: left alone, on top of everything */
    IMPMEM_LINE_GRAPHS = 129,               /* charge: memory of captured graphs */
    IMPMEM_LINE_COMMUNICATION = 130,        /* charge: channel buffers of collectives */
    IMPMEM_LINE_VISION_WEIGHTS = 131,       /* model */
    IMPMEM_LINE_VISION_PIXELS = 132,        /* engine */
    IMPMEM_LINE_VISION_EMBEDDINGS = 133,    /* engine */
    IMPMEM_LINE_VISION_SCRATCH = 134,       /* scratch */
    IMPMEM_LINE_LORA = 135,                 /* engine */
    IMPMEM_LINE_GEMM_WORKSPACE = 136,       /* engine */
    IMPMEM_LINE_GRAPH_SLOTS = 137,          /* engine */
    IMPMEM_LINE_GRAPH_SLOTS_HOST = 138,     /* pinned */
    IMPMEM_LINE_LOGITS = 139,               /* scratch */
    IMPMEM_LINE_PROMPT_LOGPROBS = 140,      /* scratch */
    IMPMEM_LINE_ATTENTION_SCORES = 141,     /* scratch */
    IMPMEM_LINE_EXPERT_TABLES = 142,        /* engine */
    IMPMEM_LINE_DRAFT_WEIGHTS = 143,        /* model */
    IMPMEM_LINE_VERIFY = 144,               /* engine: logits, hidden rows and ids of the tokens to verify */
    IMPMEM_LINE_DRAFT_GRAPHS = 145,         /* charge: graphs captured for drafting and verifying */
    IMPMEM_LINE_WEIGHT_CACHE = 148,         /* model, + cache index: what every load needs of it */
    IMPMEM_LINE_WEIGHT_CACHE_OPTIONAL = 152 /* model, + cache index: the rest, granted from what is left */
};

/* Weights kept a second time in another format. */
typedef struct impmem_weight_cache {
    impmem_dtype dtype;          /* F16, BF16, FP8_E4M3, INT8 (codes and one fp32 scale for 32), NVFP4; 0 = no cache */
    uint32_t reserved;           /* 0 */
    uint64_t elements;           /* weights that it would hold, all together */
    uint64_t mandatory_elements; /* of them, those without which the model can't run */
    /* Scale factors in the order that kernels read (impmem_size_scale_slab) in place of NVFP4's own, beside the others';
     * mandatory where a part of the cache is. 0 = none. */
    uint64_t scale_slab_bytes;
} impmem_weight_cache;

typedef struct impmem_plan_features {
    uint32_t size;
    uint32_t version; /* 1 */

    /* ---- KV blocks, of each group ---- */
    uint32_t null_blocks;   /* never handed out: what an absent id points at */
    uint32_t spare_blocks;  /* kept free: copies on write */
    uint32_t fenced_blocks; /* freed, and waiting for the device at the same time */
    /* 31 or 32: kernels count elements of one layer's K and V in that many bits, and a pool ends there. 0 = 64. */
    uint32_t kernel_offset_bits;
    /* 1: scales of INT8, INT4, NVFP4, MXFP4 in a pool of their own, committed whole even where KV grows. 0 = in the
     * block. */
    uint32_t scales_apart;
    uint32_t key_bounds; /* 1: minimum and maximum of K for each head and block, two bytes each, in a pool of their own */
    impmem_dtype index_dtype; /* of indexer keys; 0 = fp8 with one fp32 scale for 128 elements */

    /* ---- state of a sequence ---- */
    impmem_dtype state_dtype;       /* of recurrent state matrices; 0 = f32 */
    impmem_dtype conv_dtype;        /* of convolution states; 0 = f32 */
    impmem_conv_width conv_width;   /* columns that are kept; 0 = kernel - 1 */
    uint32_t state_spare_slots;     /* beyond one a sequence */
    uint32_t state_page_rounding;   /* 1: a slot is whole granules, so that slots can be committed one by one */
    uint32_t residual_tokens;       /* newest tokens of each sequence kept in f16 beside a quantised cache; 0 = none */
    uint64_t snapshot_budget_bytes; /* for copies of recurrent state at prefix ends: whole slots within it; 0 = none */

    /* ---- buffers of a forward pass ---- */
    uint32_t logit_rows; /* rows of fp32 logits in scratch; 0 = none */
    /* Rows of prompt logits held at once, in 16 and in 32 bits; 0 = none; UINT32_MAX = one for each token of the largest
     * prefill, so that a smaller one has fewer. */
    uint32_t prompt_logprob_rows;
    uint32_t attention_scores;           /* 1: a score matrix of prefill_tokens squared for each query head, 2 bytes */
    uint32_t expert_tables;              /* 1: pointers, counts and offsets of each expert */
    uint64_t attention_scores_cap_bytes; /* 0 = 384 MiB: longer prefills are cut */
    uint64_t gemm_workspace_bytes;

    /* ---- graphs ---- */
    const uint64_t *graph_bytes; /* pool memory that each captured graph needs, in the order of capture */
    uint32_t n_graphs;           /* <= IMPMEM_MAX_GRAPHS */
    uint32_t graph_slots;        /* loops on the device: leases with stable addresses */
    uint64_t graph_exec_bytes;   /* driver memory of each instantiated graph */
    uint64_t device_total_bytes; /* to judge estimates by; 0 = the budget */
    uint32_t graphs_accepted;    /* 1: graph memory above half of the device is meant so */

    /* ---- speculative decoding ---- */
    uint32_t draft_tokens;           /* k; 0 = off */
    const impmem_model_shape *draft; /* NULL: the model's own draft layers, each like its last layer with attention */
    uint32_t rollback_copies;        /* of recurrent state, a sequence; 0 = draft_tokens; UINT32_MAX = none */
    uint32_t n_draft_graphs;         /* graphs captured for it beside the above */
    uint64_t draft_graph_bytes;      /* pool memory of the largest, all share it; exec memory as above */

    /* ---- vision ---- */
    uint32_t vision_images;         /* encoded at once; 0 = off */
    uint32_t vision_skipped;        /* 1: a tower inside the model's files is not loaded */
    uint32_t vision_patches;        /* most patches of one image; 0 = pixels of image_size squared, 3 channels */
    uint32_t vision_patch_elements; /* of one patch, two bytes each */
    uint32_t vision_taps;           /* layers of the language model that get embeddings of their own, beside the first */
    uint32_t vision_scores;         /* 1: the tower's attention holds patches squared for each head, 2 bytes */

    /* ---- adapters, several devices, rest ---- */
    uint32_t lora_slots;
    uint32_t lora_rank;           /* of every projection of the dense part, two bytes an element */
    uint64_t lora_slot_bytes;     /* 0 = from rank and shape */
    uint32_t tp_devices;          /* equal devices at hand, for the lever that uses more of them; 0 or 1: this one */
    uint32_t reserved;            /* 0 */
    uint64_t communication_bytes; /* required when more than one device takes part */
    uint64_t headroom_bytes;      /* on top of everything */
    impmem_weight_cache weight_cache[IMPMEM_MAX_WEIGHT_CACHES];
} impmem_plan_features;

#define IMPMEM_PLAN_FEATURES_INIT                                                                                          \
    {                                                                                                                      \
        sizeof(impmem_plan_features), 1, 0, 0, 0, 0, 0, 0, IMPMEM_DTYPE_DEFAULT, IMPMEM_DTYPE_DEFAULT,                     \
            IMPMEM_DTYPE_DEFAULT, IMPMEM_CONV_NEEDED, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,                                                                               \
        {                                                                                                                  \
            {                                                                                                              \
                IMPMEM_DTYPE_DEFAULT, 0, 0, 0, 0                                                                           \
            }                                                                                                              \
        }                                                                                                                  \
    }

#ifdef __cplusplus
}
#endif
#endif
