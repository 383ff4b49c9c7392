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
        "{\"model_type\":\"qwen3_5\",\"text_config\":{\"model_type\":\"qwen3_5_text\",\"hidden_size\":64,\"intermediate_"
        "size\":128,"
        "\"num_hidden_layers\":4,\"vocab_size\":99,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16,"
        "\"linear_num_key_heads\":2,\"linear_num_value_heads\":4,\"linear_key_head_dim\":8,\"linear_value_head_dim\":8,"
        "\"linear_conv_kernel_dim\":4,\"mtp_num_hidden_layers\":1,\"full_attention_interval\":2},\"vision_config\":{"
        "\"depth\":2,\"hidden_size\":32,\"num_heads\":4,\"num_position_embeddings\":16,\"patch_size\":4,"
        "\"spatial_merge_size\":2,\"deepstack_visual_indexes\":[0]},\"quantization_config\":{\"config_groups\":{\"a\":{"
        "\"weights\":{\"num_bits\":8,\"type\":\"float\"},\"targets\":[\"x.mlp.y\",\"lm_head\"]}}}}",
        "{\"model_type\":\"nemotron_h\",\"hidden_size\":64,\"intermediate_size\":128,\"num_hidden_layers\":4,\"vocab_"
        "size\":99,"
        "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"hybrid_override_pattern\":\"M-*E\",\"mamba_num_heads\":4,"
        "\"mamba_head_dim\":8,\"ssm_state_size\":16,\"n_groups\":2,\"conv_kernel\":4,\"expand\":2,\"n_routed_experts\":4,"
        "\"num_experts_per_tok\":2,\"moe_intermediate_size\":32}",
        "{\"model_type\":\"jamba\",\"hidden_size\":64,\"intermediate_size\":128,\"num_hidden_layers\":4,\"vocab_size\":99,"
        "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"attn_layer_period\":2,\"attn_layer_offset\":1,"
        "\"mamba_d_state\":16,\"mamba_d_conv\":4,\"mamba_expand\":2,\"mamba_dt_rank\":\"auto\",\"expert_layer_period\":2,"
        "\"expert_layer_offset\":1,\"num_experts\":4,\"num_experts_per_tok\":2}",
        "{\"model_type\":\"mllama\",\"text_config\":{\"model_type\":\"mllama_text_model\",\"hidden_size\":64,"
        "\"intermediate_size\":128,\"num_hidden_layers\":4,\"vocab_size\":99,\"num_attention_heads\":4,"
        "\"num_key_value_heads\":2,\"cross_attention_layers\":[1,3]},\"vision_config\":{\"hidden_size\":32,"
        "\"num_hidden_layers\":2,\"num_global_layers\":1,\"attention_heads\":4,\"patch_size\":4,\"image_size\":16,"
        "\"max_num_tiles\":4,\"supported_aspect_ratios\":[[1,1]],\"intermediate_layers_indices\":[1]}}",
        "{\"model_type\":\"lfm2\",\"hidden_size\":64,\"block_ff_dim\":96,\"block_auto_adjust_ff_dim\":true,"
        "\"block_ffn_dim_multiplier\":1.0,\"num_hidden_layers\":3,\"vocab_size\":99,\"num_attention_heads\":4,"
        "\"num_key_value_heads\":2,\"conv_L_cache\":3,\"full_attn_idxs\":[1]}",
    };
    if (index >= sizeof seeds / sizeof *seeds) return 0;
    size_t n = strlen(seeds[index]);
    if (n > room) return 0;
    memcpy(to, seeds[index], n);
    return n;
}
