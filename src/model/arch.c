/* The architectures, a row each: what they are called in GGUF and in Hugging Face configs, which layers have a window,
 * what their keys leave unsaid. Adding an architecture is adding its row. Defaults are those that the architecture's
 * own published configuration class states; using one is reported as a note. */
#include <string.h>

#include "model/internal.h"

#define TIED IMPMEM__A_TIED
#define KVH IMPMEM__A_KV_IS_HEADS
#define QKVB IMPMEM__A_QKV_BIAS
#define OUTB IMPMEM__A_OUT_BIAS
#define QKN IMPMEM__A_QK_NORM
#define QKW IMPMEM__A_QK_NORM_WIDE
#define NB IMPMEM__A_NORM_BIAS
#define PLAIN IMPMEM__A_PLAIN_MLP
#define MLPB IMPMEM__A_MLP_BIAS
#define EFF IMPMEM__A_EXPERT_IS_FF
#define RB IMPMEM__A_ROUTER_BIAS
#define SGATE IMPMEM__A_SHARED_GATE
#define EB IMPMEM__A_EXPERT_BIAS
#define SINKS IMPMEM__A_SINKS
#define POST IMPMEM__A_POST_NORM
#define MLA IMPMEM__A_MLA
#define DUAL IMPMEM__A_DUAL
#define SKV IMPMEM__A_SHARED_KV
#define POS IMPMEM__A_POSITIONS
#define PLI IMPMEM__A_PER_LAYER_INPUT
#define SEFF IMPMEM__A_SHARED_EXPERT_FF
#define GATEQ IMPMEM__A_GATED_QUERY
#define INDEX IMPMEM__A_INDEXER
#define NOFF IMPMEM__A_NO_FEED_FORWARD

#define W_ALL IMPMEM__WINDOW_ALL
#define W_FLAG IMPMEM__WINDOW_BY_FLAG
#define W_PERIOD IMPMEM__WINDOW_PERIODIC
#define W_CHUNKS IMPMEM__WINDOW_CHUNKS

#define S_MAMBA IMPMEM_RECURRENT_MAMBA
#define S_MAMBA2 IMPMEM_RECURRENT_MAMBA2
#define S_DELTA IMPMEM_RECURRENT_DELTA_NET
#define S_CONV IMPMEM_RECURRENT_SHORT_CONV

#define NO(what) "recurrent layers (" what ") are not planned by this version"
#define ENCODER "an encoder keeps no key/value cache, there is nothing to plan"
#define CROSS "cross-attention layers keep keys and values of another sequence, which is not planned by this version"
#define SHARED_BLOCK "a transformer block that several layers share, with adapters, is not planned by this version"
#define OTHER_KEYS "its configuration class is not published with the format's library: read its GGUF"

static const impmem__arch rows[] = {
    /* dense and mixture-of-experts transformers whose layers all attend to everything */
    {.name = "llama", .gguf = "llama", .hf = "llama", .flags = KVH},
    {.name = "deci", .gguf = "deci", .hf = ""},
    {.name = "baichuan", .gguf = "baichuan", .hf = "baichuan", .flags = KVH},
    {.name = "bitnet", .gguf = "bitnet bitnet-b1.58 bitnet-25", .hf = "bitnet"},
    {.name = "gemma", .gguf = "gemma", .hf = "gemma", .flags = TIED, .head_dim = 256},
    {.name = "internlm2", .gguf = "internlm2", .hf = "internlm2 internlm3"},
    {.name = "chatglm", .gguf = "chatglm", .hf = "chatglm", .flags = IMPMEM__A_GROUPED_MQ},
    {.name = "glm", .gguf = "", .hf = "glm", .flags = QKVB, .head_dim = 128},
    {.name = "glm4", .gguf = "glm4", .hf = "glm4", .norms = 4, .head_dim = 128},
    {.name = "glm4_moe", .gguf = "glm4moe", .hf = "glm4_moe glm4v_moe glm4v_moe_text", .flags = RB, .head_dim = 128},
    {.name = "granite", .gguf = "granite", .hf = "granite", .flags = KVH},
    {.name = "granitemoe", .gguf = "granitemoe", .hf = "granitemoe", .flags = KVH | EFF},
    {.name = "cohere", .gguf = "command-r", .hf = "cohere", .flags = TIED | KVH, .norms = 1},
    {.name = "olmo2", .gguf = "", .hf = "olmo2", .flags = QKW | KVH},
    {.name = "olmoe", .gguf = "olmoe", .hf = "olmoe", .flags = QKW | KVH | EFF},
    {.name = "falcon", .gguf = "falcon", .hf = "falcon", .flags = TIED | PLAIN | NB | IMPMEM__A_FALCON, .norms = 1},
    {.name = "gpt2", .gguf = "gpt2", .hf = "gpt2", .flags = TIED | KVH | QKVB | OUTB | NB | PLAIN | MLPB | POS},
    {.name = "phi2", .gguf = "phi2", .hf = "phi", .flags = KVH | QKVB | OUTB | NB | PLAIN | MLPB, .norms = 1},
    {.name = "exaone", .gguf = "exaone", .hf = "exaone", .flags = KVH},
    {.name = "deepseek", .gguf = "deepseek", .hf = "deepseek"},
    {.name = "minimax_m2", .gguf = "minimax-m2", .hf = "minimax_m2", .flags = QKW | EFF | RB},

    /* a window that a flag switches on */
    {.name = "qwen2",
     .gguf = "qwen2 qwen2vl",
     .hf = "qwen2 qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text",
     .flags = QKVB,
     .window = W_FLAG},
    {.name = "qwen2moe", .gguf = "qwen2moe", .hf = "qwen2_moe", .flags = QKVB | SGATE, .window = W_FLAG},
    {.name = "qwen3",
     .gguf = "qwen3 qwen3vl",
     .hf = "qwen3 qwen3_vl qwen3_vl_text",
     .flags = QKN,
     .window = W_FLAG,
     .head_dim = 128},
    {.name = "qwen3moe",
     .gguf = "qwen3moe qwen3vlmoe",
     .hf = "qwen3_moe qwen3_vl_moe qwen3_vl_moe_text",
     .flags = QKN,
     .window = W_FLAG,
     .head_dim = 128},
    {.name = "smollm3", .gguf = "smollm3", .hf = "smollm3", .flags = TIED, .window = W_FLAG},

    /* the same window on every layer */
    {.name = "mistral", .gguf = "mistral3", .hf = "mistral mistral3 ministral", .window = W_ALL},
    {.name = "mixtral", .gguf = "", .hf = "mixtral", .flags = EFF, .window = W_ALL},
    {.name = "phi3", .gguf = "phi3", .hf = "phi3 phi3_v", .flags = KVH, .window = W_ALL},
    {.name = "phimoe", .gguf = "phimoe", .hf = "phimoe", .flags = EFF | NB, .window = W_ALL},
    {.name = "starcoder2",
     .gguf = "starcoder2",
     .hf = "starcoder2",
     .flags = TIED | QKVB | OUTB | NB | PLAIN | MLPB,
     .window = W_ALL},

    /* windows on all but every period-th layer */
    {.name = "gemma2",
     .gguf = "gemma2",
     .hf = "gemma2",
     .flags = TIED | POST,
     .window = W_PERIOD,
     .period = 2,
     .norms = 4,
     .head_dim = 256,
     .default_window = 4096},
    {.name = "gemma3",
     .gguf = "gemma3",
     .hf = "gemma3 gemma3_text",
     .flags = TIED | QKN | POST,
     .window = W_PERIOD,
     .period = 6,
     .norms = 4,
     .head_dim = 256,
     .default_window = 4096,
     .default_vocab = 262208,
     .default_context = 131072},
    {.name = "gemma3n",
     .gguf = "gemma3n",
     .hf = "gemma3n gemma3n_text",
     .flags = TIED | QKN | POST | SKV | PLI,
     .window = W_PERIOD,
     .period = 5,
     .norms = 4,
     .head_dim = 256,
     .default_window = 512},
    {.name = "gemma4",
     .gguf = "gemma4",
     .hf = "gemma4 gemma4_text",
     .flags = TIED | QKN | POST | DUAL | SKV,
     .window = W_PERIOD,
     .period = 6,
     .norms = 4,
     .head_dim = 256},
    {.name = "gpt_oss",
     .gguf = "gpt-oss",
     .hf = "gpt_oss",
     .flags = EFF | RB | EB | SINKS,
     .window = W_PERIOD,
     .period = 2,
     .head_dim = 64,
     .default_window = 128},
    {.name = "cohere2",
     .gguf = "cohere2",
     .hf = "cohere2",
     .flags = TIED | KVH,
     .window = W_PERIOD,
     .period = 4,
     .norms = 1,
     .default_window = 4096},
    {.name = "olmo3", .gguf = "olmo2", .hf = "olmo3", .flags = QKW | KVH, .window = W_PERIOD, .period = 4},
    {.name = "exaone4", .gguf = "exaone4", .hf = "exaone4", .flags = QKN, .window = W_PERIOD, .period = 4},
    {.name = "llama4",
     .gguf = "llama4",
     .hf = "llama4 llama4_text",
     .flags = EFF | SEFF,
     .window = W_CHUNKS,
     .period = 4,
     .head_dim = 128,
     .default_window = 8192},

    /* latent attention */
    {.name = "deepseek2", .gguf = "deepseek2", .hf = "deepseek_v2 deepseek_v3 kimi_k2 glm4_moe_lite", .flags = MLA},

    /* latent attention that an indexer makes sparse: it keeps a key of its own a token */
    {.name = "deepseek_v32", .gguf = "deepseek32", .hf = "deepseek_v32", .flags = MLA | INDEX | RB},
    {.name = "glm_moe_dsa", .gguf = "glm-dsa", .hf = "glm_moe_dsa", .flags = MLA | INDEX | RB},

    /* layers that attend to an image */
    {.name = "mllama", .gguf = "mllama", .hf = "mllama mllama_text_model", .flags = IMPMEM__A_CROSS},

    /* a state in every layer */
    {.name = "mamba",
     .gguf = "mamba",
     .hf = "mamba falcon_mamba",
     .flags = TIED | NOFF,
     .norms = 1,
     .recurrent = S_MAMBA,
     .mix = IMPMEM__MIX_ALL},
    {.name = "mamba2",
     .gguf = "mamba2",
     .hf = "mamba2",
     .flags = TIED | NOFF,
     .norms = 1,
     .recurrent = S_MAMBA2,
     .mix = IMPMEM__MIX_ALL},
    {.name = "falcon_h1",
     .gguf = "falcon-h1",
     .hf = "falcon_h1",
     .flags = IMPMEM__A_STATE_NO_NORM,
     .recurrent = S_MAMBA2,
     .mix = IMPMEM__MIX_BOTH},

    /* a state in the layers that don't attend */
    {.name = "jamba",
     .gguf = "jamba",
     .hf = "jamba",
     .flags = EFF | IMPMEM__A_STATE_NORMS,
     .period = 8,
     .recurrent = S_MAMBA,
     .mix = IMPMEM__MIX_LISTED},
    {.name = "plamo2", .gguf = "plamo2", .hf = "", .recurrent = S_MAMBA, .mix = IMPMEM__MIX_LISTED},
    {.name = "bamba", .gguf = "", .hf = "bamba", .recurrent = S_MAMBA2, .mix = IMPMEM__MIX_LISTED},
    {.name = "granitehybrid",
     .gguf = "granitehybrid",
     .hf = "granitemoehybrid",
     .flags = TIED | KVH | EFF,
     .recurrent = S_MAMBA2,
     .mix = IMPMEM__MIX_LISTED,
     .default_experts_used = 2},
    {.name = "nemotron_h",
     .gguf = "nemotron_h nemotron_h_moe",
     .hf = "nemotron_h",
     .flags = PLAIN | RB,
     .norms = 1,
     .recurrent = S_MAMBA2,
     .mix = IMPMEM__MIX_PATTERN},
    {.name = "qwen3next",
     .gguf = "qwen3next",
     .hf = "qwen3_next",
     .flags = QKN | SGATE | GATEQ | IMPMEM__A_FUSED_STATE,
     .period = 4,
     .head_dim = 256,
     .recurrent = S_DELTA,
     .mix = IMPMEM__MIX_LISTED},
    {.name = "qwen35",
     .gguf = "qwen35 qwen35moe",
     .hf = "qwen3_5 qwen3_5_text qwen3_5_moe qwen3_5_moe_text",
     .flags = QKN | SGATE | GATEQ,
     .period = 4,
     .head_dim = 256,
     .recurrent = S_DELTA,
     .mix = IMPMEM__MIX_LISTED},
    {.name = "lfm2",
     .gguf = "lfm2 lfm2moe",
     .hf = "lfm2 lfm2_moe lfm2_vl",
     .flags = TIED | QKN | RB,
     .recurrent = S_CONV,
     .mix = IMPMEM__MIX_LISTED},

    /* refused, with the true reason */
    {.name = "rwkv", .gguf = "rwkv6 rwkv7 rwkv6qwen2 arwkv7", .hf = "rwkv rwkv5 rwkv6 rwkv7", .refusal = NO("rwkv")},
    {.name = "zamba", .gguf = "", .hf = "zamba zamba2", .refusal = SHARED_BLOCK},
    {.name = "plamo2_config", .gguf = "", .hf = "plamo2", .refusal = OTHER_KEYS},
    {.name = "recurrent_gemma", .gguf = "", .hf = "recurrent_gemma", .refusal = NO("gated linear recurrence")},
    {.name = "minimax", .gguf = "", .hf = "minimax minimax_text_01 minimax_m1", .refusal = NO("lightning attention")},
    {.name = "kimi_linear", .gguf = "kimi-linear", .hf = "kimi_linear", .refusal = NO("kimi delta attention")},
    {.name = "t5", .gguf = "t5", .hf = "t5 mt5 umt5 bart whisper", .refusal = CROSS},
    {.name = "t5encoder", .gguf = "t5encoder", .hf = "", .refusal = ENCODER},
    {.name = "bert",
     .gguf = "bert nomic-bert nomic-bert-moe jina-bert-v2 jina-bert-v3 neo-bert modern-bert",
     .hf = "bert roberta xlm-roberta distilbert nomic_bert modernbert",
     .refusal = ENCODER},
    {.name = "clip", .gguf = "clip", .hf = "clip siglip siglip_vision_model", .refusal = ENCODER},
};

/* `word` among the words of `list`. */
static int has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    if (n == 0 || strchr(word, ' ')) return 0;
    for (const char *at = list; (at = strstr(at, word)) != NULL; at++) {
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0')) return 1;
    }
    return 0;
}

const impmem__arch *impmem__arch_of_gguf(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (has_word(rows[i].gguf, name)) return &rows[i];
    }
    return NULL;
}

const impmem__arch *impmem__arch_of_hf(const char *model_type)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (has_word(rows[i].hf, model_type)) return &rows[i];
    }
    return NULL;
}

const impmem__arch *impmem__arch_row(uint32_t index)
{
    return index < sizeof rows / sizeof *rows ? &rows[index] : NULL;
}
