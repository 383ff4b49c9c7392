/* Hugging Face configs from memory. */
#include "fuzz/fuzz.h"

#include "impmem/shape.h"
#include "model/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_model *model = calloc(1, sizeof *model);
    if (!model) return 0;
    model->shape.size = sizeof model->shape;
    model->shape.version = 1;
    impmem_status st = impmem__hf_read_text((const char *)data, size, "memory", model, &why);
    if (st) fuzz_check_refusal(st, &why);
    else
        fuzz_require(impmem_shape_check(&model->shape, &why) == IMPMEM_OK, "a shape that was read passes its check",
                     why.message);
    impmem_model_destroy(model);
    return 0;
}

size_t fuzz_seed(size_t index, uint8_t *to, size_t room)
{
    static const char *const seeds[] = {
        "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":128,\"num_hidden_layers\":4,\"vocab_size\":99,"
        "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"rope_scaling\":{\"factor\":[Infinity,-Infinity,NaN,1.5e3]},"
        "\"torch_dtype\":\"bfloat16\",\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":128}}",
        "{\"model_type\":\"gemma3\",\"text_config\":{\"model_type\":\"gemma3_text\",\"hidden_size\":64,\"intermediate_"
        "size\":128,"
        "\"num_hidden_layers\":6,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"sliding_window\":32,"
        "\"layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"sliding_attention\","
        "\"sliding_attention\",\"full_attention\"]},\"vision_config\":{}}",
        "{\"model_type\":\"deepseek_v3\",\"hidden_size\":64,\"intermediate_size\":128,\"num_hidden_layers\":4,\"vocab_"
        "size\":99,"
        "\"num_attention_heads\":4,\"kv_lora_rank\":32,\"qk_rope_head_dim\":8,\"qk_nope_head_dim\":8,\"v_head_dim\":8,"
        "\"q_lora_rank\":null,\"n_routed_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,"
        "\"first_k_dense_replace\":1,\"mlp_only_layers\":[1,2],\"quantization_config\":{\"quant_method\":\"fp8\","
        "\"weight_block_size\":[128,128]}}",
        "{\"model_type\":\"gemma3n\",\"text_config\":{\"model_type\":\"gemma3n_text\",\"hidden_size\":64,"
        "\"intermediate_size\":[128,128,128,128],\"num_hidden_layers\":4,\"vocab_size\":99,\"num_attention_heads\":4,"
        "\"num_key_value_heads\":2,\"sliding_window\":32,\"num_kv_shared_layers\":2,\"sliding_window_pattern\":2,"
        "\"hidden_size_per_layer_input\":16}}",
        "{\"model_type\":\"llama4_text\",\"hidden_size\":64,\"intermediate_size\":128,\"intermediate_size_mlp\":256,"
        "\"num_hidden_layers\":4,\"vocab_size\":99,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
        "\"attention_chunk_size\":16,\"no_rope_layers\":[1,1,1,0],\"num_local_experts\":4,\"num_experts_per_tok\":1,"
        "\"interleave_moe_layer_step\":2,\"quantization\":{\"bits\":4,\"group_size\":64}}",
    };
    if (index >= sizeof seeds / sizeof *seeds) return 0;
    size_t n = strlen(seeds[index]);
    if (n > room) return 0;
    memcpy(to, seeds[index], n);
    return n;
}
