/* What other engines take for KV and recurrent state. Expected figures are logged ones, or arithmetic of the published rules. */
#include "unit/plan/profile_engine_world.h"

/* ---- llama.cpp ------------------------------------------------------------------------------------------------------ */

static void a_full_layer_has_a_cell_a_token_padded_to_256(void **state)
{
    (void)state;
    uniform(48, 4, 128);
    args.n_ctx = 4096;
    predict(IMPMEM_ENGINE_IK_LLAMA_CPP);
    assert_int_equal(value("cells"), 4096);
    assert_int_equal(value("kv_total"), 384 * IMPMEM_MIB); /* as logged for Qwen3-30B-A3B */
    assert_int_equal(value("kv_k"), 192 * IMPMEM_MIB);
    assert_int_equal(value("kv_v"), 192 * IMPMEM_MIB);
    assert_int_equal(layers_of("kv_total"), 48);
    args.n_ctx = 4097;
    predict(IMPMEM_ENGINE_LLAMA_CPP);
    assert_int_equal(value("cells"), 4352);
    assert_int_equal(value("kv_total"), UINT64_C(4352) * 48 * 4 * 256 * 2);
    assert_null(impmem_engine_profile_find(&profile, "kv_swa"));
    assert_null(impmem_engine_profile_find(&profile, "recurrent_total"));
    assert_int_equal(value("total"), value("kv_total"));
}

static void no_context_means_the_trained_one(void **state)
{
    (void)state;
    uniform(2, 1, 64);
    predict(IMPMEM_ENGINE_LLAMA_CPP);
    assert_int_equal(value("cells"), 32768);
    shape.trained_context = 0;
    refused(IMPMEM_ENGINE_LLAMA_CPP, IMPMEM_ERR_BAD_VALUE, "n_ctx", "trained context");
}

static void k_and_v_are_typed_apart(void **state)
{
    (void)state;
    uniform(94, 4, 128);
    args.n_ctx = 8192;
    args.kv_dtype_k = IMPMEM_DTYPE_Q8_0;
    predict(IMPMEM_ENGINE_IK_LLAMA_CPP);
    assert_int_equal(value("kv_k"), 799 * IMPMEM_MIB / 2); /* 399.5 and 752 MiB were logged for Qwen3-235B-A22B */
    assert_int_equal(value("kv_v"), 752 * IMPMEM_MIB);
}

static void a_window_layer_keeps_window_times_slots_plus_the_batch(void **state)
{
    (void)state;
    windows(24, 2, 128, 8, 64);
    args.n_ctx = 131072;
    /* cells as logged for gpt-oss-20b at n_ubatch 512 and 2048 */
    static const struct {
        uint32_t n_ubatch, n_seq, cells;
    } seen[] = {{0, 0, 768}, {512, 1, 768}, {2048, 1, 2304}, {512, 8, 1536}};
    for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++) {
        args.n_ubatch = seen[i].n_ubatch;
        args.n_seq = seen[i].n_seq;
        predict(IMPMEM_ENGINE_LLAMA_CPP);
        assert_int_equal(value("cells_swa"), seen[i].cells);
        assert_int_equal(value("kv_swa"), UINT64_C(12) * 8 * 128 * 2 * seen[i].cells);
        assert_int_equal(value("kv_full"), 3072 * IMPMEM_MIB);
        assert_int_equal(layers_of("kv_swa"), 12);
        assert_int_equal(value("kv_total"), value("kv_full") + value("kv_swa"));
    }
}

static void a_window_never_takes_more_than_the_context(void **state)
{
    (void)state;
    windows(26, 2, 4096, 4, 256);
    args.n_ctx = 8192;
    args.n_seq = 4; /* 4 x 4096 + 512 > 8192; logged as 416 MiB each for gemma-2-2b */
    predict(IMPMEM_ENGINE_LLAMA_CPP);
    assert_int_equal(value("cells_swa"), 8192);
    assert_int_equal(value("kv_swa"), 416 * IMPMEM_MIB);
    assert_int_equal(value("kv_full"), 416 * IMPMEM_MIB);
}

static void full_size_windows_and_ik_llama_save_nothing(void **state)
{
    (void)state;
    windows(62, 6, 1024, 16, 128);
    args.n_ctx = 131072;
    predict(IMPMEM_ENGINE_IK_LLAMA_CPP);
    assert_int_equal(value("kv_total"), 63488 * IMPMEM_MIB); /* as logged for Gemma-3-27B */
    assert_null(impmem_engine_profile_find(&profile, "kv_swa"));
    args.swa_full = 1;
    predict(IMPMEM_ENGINE_LLAMA_CPP);
    assert_int_equal(value("kv_total"), 63488 * IMPMEM_MIB);
    assert_int_equal(value("cells_swa"), 131072);
}

static void latent_attention_keeps_one_row_and_no_v(void **state)
{
    (void)state;
    latent(61, 128);
    args.n_ctx = 32768;
    predict(IMPMEM_ENGINE_IK_LLAMA_CPP);
    assert_int_equal(value("kv_total"), 2196 * IMPMEM_MIB); /* as logged for DeepSeek-V3 */
    assert_null(impmem_engine_profile_find(&profile, "kv_v"));
    args.no_flash_attn = 1; /* a transposed f16 copy of the rank more */
    predict(IMPMEM_ENGINE_LLAMA_CPP);
    assert_int_equal(value("kv_v"), UINT64_C(61) * 512 * 2 * 32768);
    assert_int_equal(value("kv_k"), 2196 * IMPMEM_MIB);
}

static void expanded_latent_attention_keeps_heads(void **state)
{
    (void)state;
    latent(27, 16);
    args.n_ctx = 512;
    args.mla_expanded = 1;
    predict(IMPMEM_ENGINE_IK_LLAMA_CPP);
    assert_int_equal(value("kv_k"), 81 * IMPMEM_MIB); /* as logged for DeepSeek-Coder-V2-Lite */
    assert_int_equal(value("kv_v"), 54 * IMPMEM_MIB);
    shape.layer[3].latent_v_dim = 0;
    refused(IMPMEM_ENGINE_LLAMA_CPP, IMPMEM_ERR_BAD_VALUE, "layer[3]", "mla=latent");
    args.mla_expanded = 0;
    args.no_flash_attn = 1;
    shape.layer[4].latent_rank = 0;
    refused(IMPMEM_ENGINE_LLAMA_CPP, IMPMEM_ERR_BAD_VALUE, "layer[4]", "flash_attn=1");
}

static void the_output_layer_counts_in_a_split(void **state)
{
    (void)state;
    latent(61, 128);
    args.n_ctx = 61440;
    args.kv_dtype_k = IMPMEM_DTYPE_Q8_0;
    args.n_devices = 2;
    predict(IMPMEM_ENGINE_IK_LLAMA_CPP);
    assert_int_equal(layers_of("kv_device_0"), 31);
    assert_int_equal(layers_of("kv_device_1"), 30);
    const uint64_t layer = UINT64_C(612) * 61440; /* 18 blocks of 34 bytes */
    assert_int_equal(value("kv_device_0"), 31 * layer);
    assert_int_equal(value("kv_device_1"), 30 * layer);
    assert_int_equal(value("kv_total"), 61 * layer);
    args.quantised_padding = 1;
    predict(IMPMEM_ENGINE_IK_LLAMA_CPP);
    assert_int_equal(value("kv_device_0"), 31 * (layer + 512));
    assert_int_equal(value("kv_device_1"), 30 * (layer + 512));
    assert_int_equal(value("kv_total"), 61 * layer);
}

static void rows_of_whole_512_elements_are_not_padded(void **state)
{
    (void)state;
    uniform(8, 4, 128);
    args.kv_dtype_k = args.kv_dtype_v = IMPMEM_DTYPE_Q8_0;
    args.n_devices = 1;
    args.quantised_padding = 1;
    predict(IMPMEM_ENGINE_LLAMA_CPP);
    assert_int_equal(value("kv_device_0"), value("kv_total"));
    uniform(8, 2, 128); /* 256 elements short of 512: 272 bytes, up to 384 = 3 x 128, for K and for V */
    predict(IMPMEM_ENGINE_LLAMA_CPP);
    assert_int_equal(value("kv_device_0"), value("kv_total") + UINT64_C(8) * 2 * 384);
}

static void a_split_follows_its_weights(void **state)
{
    (void)state;
    uniform(40, 64, 128);
    args.n_ctx = 4096;
    args.n_devices = 2;
    args.split[0] = 12;
    args.split[1] = 29;
    predict(IMPMEM_ENGINE_LLAMA_CPP);
    assert_int_equal(value("kv_device_0"), 1536 * IMPMEM_MIB); /* as logged for command-r */
    assert_int_equal(value("kv_device_1"), 3584 * IMPMEM_MIB);
    args.n_devices = 3;
    args.split[0] = 0;
    args.split[1] = 1;
    args.split[2] = 0;
    predict(IMPMEM_ENGINE_LLAMA_CPP);
    assert_int_equal(layers_of("kv_device_0"), 0);
    assert_int_equal(layers_of("kv_device_1"), 40);
    assert_int_equal(layers_of("kv_device_2"), 0);
}

static void recurrent_state_is_f32_a_slot_and_a_drafted_token(void **state)
{
    (void)state;
    hybrid(64, 4, 48);
    args.n_ctx = 262144;
    args.n_seq = 3;
    predict(IMPMEM_ENGINE_LLAMA_CPP);
    /* 16.88 and 432.00 MiB were logged */
    assert_int_equal(value("recurrent_conv"), UINT64_C(3) * 48 * 3 * 10240 * 4);
    assert_int_equal(value("recurrent_state"), 432 * IMPMEM_MIB);
    assert_int_equal(value("recurrent_total"), value("recurrent_conv") + value("recurrent_state"));
    assert_int_equal(value("state_cells"), 3);
    assert_int_equal(value("kv_total"), 16384 * IMPMEM_MIB);
    assert_int_equal(value("total"), value("kv_total") + value("recurrent_total"));
    args.n_seq = 1;
    args.draft_tokens = 6;
    shape.draft_layers = 1;
    args.n_devices = 1;
    predict(IMPMEM_ENGINE_LLAMA_CPP);
    assert_int_equal(value("recurrent_total"),
                     UINT64_C(7) * 48 * 4 * (3 * 10240 + 48 * 128 * 128)); /* 1047.38 MiB logged */
    assert_int_equal(value("kv_mtp_draft"), 1024 * IMPMEM_MIB);
    assert_int_equal(value("recurrent_device_0"), value("recurrent_total"));
    assert_int_equal(value("total"), value("kv_total") + value("kv_mtp_draft") + value("recurrent_total"));
}

static void a_mamba_layer_keeps_convolution_and_state(void **state)
{
    (void)state;
    uniform(2, 8, 128);
    const uint32_t d_inner = 8192, d_state = 16, d_conv = 4;
    shape.layer[0] = (impmem_layer_shape){.kind = IMPMEM_LAYER_NO_ATTENTION,
                                          .recurrent = IMPMEM_RECURRENT_MAMBA,
                                          .conv_kernel = d_conv,
                                          .conv_channels = d_inner,
                                          .state_elements = (uint64_t)d_inner * d_state};
    predict(IMPMEM_ENGINE_LLAMA_CPP);
    assert_int_equal(value("recurrent_total"), (d_conv - 1 + d_state) * d_inner * 4);
    shape.layer[0].conv_kernel = 0;
    refused(IMPMEM_ENGINE_LLAMA_CPP, IMPMEM_ERR_BAD_VALUE, "layer[0].conv_kernel", "conv_kernel is 0");
}

static void layers_without_kv_of_their_own_take_none(void **state)
{
    (void)state;
    uniform(4, 2, 64);
    shape.layer[2].kind = IMPMEM_LAYER_NO_ATTENTION;
    shape.layer[3] = (impmem_layer_shape){.kind = IMPMEM_LAYER_SHARED, .shared_with = 1};
    args.n_ctx = 256;
    predict(IMPMEM_ENGINE_LLAMA_CPP);
    assert_int_equal(value("kv_total"), 2 * 256 * 2 * 128 * 2);
    assert_int_equal(layers_of("kv_total"), 2);
    predict(IMPMEM_ENGINE_VLLM);
    assert_int_equal(value("block_bytes"), 2 * 16 * 2 * 128 * 2);
    predict(IMPMEM_ENGINE_SGLANG);
    assert_int_equal(value("token_bytes"), 2 * 2 * 128 * 2);
}

/* ---- vLLM ----------------------------------------------------------------------------------------------------------- */

static void a_plain_model_has_a_page_of_every_layer_in_a_block(void **state)
{
    (void)state;
    uniform(32, 8, 128);
    args.n_ctx = 20000;
    args.pool_units = 1952;
    predict(IMPMEM_ENGINE_VLLM);
    assert_int_equal(value("block_bytes"), 16 * 131072);
    assert_int_equal(value("kv_total"), UINT64_C(1952) * 16 * 131072); /* 3.81 GiB, 1952 blocks, 1.56x were printed */
    assert_int_equal(value("kv_max_tokens"), 31232);
    assert_int_equal(value("request_blocks"), 1250);
    assert_int_equal(value("max_concurrency"), 1561600);
    args.pool_units = 0;
    args.pool_bytes = UINT64_C(1952) * 16 * 131072 + 16 * 131072 - 1;
    predict(IMPMEM_ENGINE_VLLM);
    assert_int_equal(value("kv_blocks"), 1952);
    args.pool_bytes = 0;
    predict(IMPMEM_ENGINE_VLLM);
    assert_null(impmem_engine_profile_find(&profile, "kv_blocks"));
    assert_int_equal(value("request_bytes"), UINT64_C(1250) * 16 * 131072);
}

static void kv_heads_are_split_or_replicated(void **state)
{
    (void)state;
    uniform(10, 4, 128);
    static const struct {
        uint32_t tp, heads;
    } seen[] = {{1, 4}, {2, 2}, {4, 1}, {8, 1}, {16, 1}};
    for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++) {
        args.tp = seen[i].tp;
        predict(IMPMEM_ENGINE_VLLM);
        assert_int_equal(value("kv_heads_per_rank"), seen[i].heads);
        assert_int_equal(value("page_bytes"), 16 * seen[i].heads * 256 * 2);
        predict(IMPMEM_ENGINE_SGLANG);
        assert_int_equal(value("token_bytes"), 10 * seen[i].heads * 256 * 2);
    }
    args.tp = 3;
    refused(IMPMEM_ENGINE_VLLM, IMPMEM_ERR_BAD_VALUE, "tp", "tp is 3");
    refused(IMPMEM_ENGINE_SGLANG, IMPMEM_ERR_BAD_VALUE, "tp", "4 KV heads");
}

static void fp8_has_no_scale_and_int8_four_bytes(void **state)
{
    (void)state;
    uniform(1, 8, 128);
    args.kv_dtype_k = IMPMEM_DTYPE_FP8_E4M3;
    predict(IMPMEM_ENGINE_VLLM);
    assert_int_equal(value("page_bytes"), 16 * 8 * 256);
    args.kv_dtype_k = IMPMEM_DTYPE_INT8;
    predict(IMPMEM_ENGINE_VLLM);
    assert_int_equal(value("page_bytes"), 16 * 8 * (256 + 2 * 4));
    latent(2, 16);
    refused(IMPMEM_ENGINE_VLLM, IMPMEM_ERR_UNSUPPORTED, "layer[0]", "latent");
}

static void the_block_grows_until_its_page_holds_a_state(void **state)
{
    (void)state;
    /* block sizes as printed */
    static const struct {
        uint32_t layers, kv_heads, value_heads, tp, draft, block, bytes;
    } seen[] = {
        {64, 4, 48, 1, 0, 1568, 1}, {64, 4, 48, 2, 3, 1600, 1}, {64, 4, 48, 4, 5, 816, 2}, {40, 2, 32, 1, 0, 2096, 1}};
    for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++) {
        fresh(NULL);
        hybrid(seen[i].layers, seen[i].kv_heads, seen[i].value_heads);
        args.tp = seen[i].tp;
        args.draft_tokens = seen[i].draft;
        args.kv_dtype_k = seen[i].bytes == 1 ? IMPMEM_DTYPE_FP8_E5M2 : IMPMEM_DTYPE_BF16;
        predict(IMPMEM_ENGINE_VLLM);
        assert_int_equal(value("block_tokens"), seen[i].block);
        uint64_t state_bytes = (uint64_t)(3 + seen[i].draft) * (32 + seen[i].value_heads) * 128 / seen[i].tp * 2 +
                               (uint64_t)seen[i].value_heads * 128 * 128 / seen[i].tp * 4;
        assert_int_equal(value("state_page_bytes"), state_bytes);
        uint64_t page = (uint64_t)seen[i].block * (seen[i].kv_heads / seen[i].tp) * 512 * seen[i].bytes;
        assert_int_equal(value("page_bytes"), page);
        assert_int_equal(value("page_padding"), (page - state_bytes) * 1000000 / state_bytes);
    }
}

static void a_hybrid_request_takes_two_states_a_group_and_a_drafted_token(void **state)
{
    (void)state;
    hybrid(40, 2, 32);
    args.kv_dtype_k = IMPMEM_DTYPE_FP8_E4M3;
    args.n_ctx = 131072;
    args.pool_units = 299;
    predict(IMPMEM_ENGINE_VLLM);
    assert_int_equal(value("groups"), 4);
    assert_int_equal(value("request_blocks"), 63 + 3 * 2);
    assert_int_equal(value("kv_max_tokens"), 567978); /* as printed */
    fresh(NULL);
    hybrid(64, 4, 48);
    shape.draft_layers = 1; /* 17 full layers, 48 recurrent ones in three groups of up to 17 */
    args.kv_dtype_k = IMPMEM_DTYPE_FP8_E5M2;
    args.n_ctx = 262144;
    args.tp = 2;
    args.draft_tokens = 3;
    args.pool_units = 424;
    predict(IMPMEM_ENGINE_VLLM);
    assert_int_equal(value("request_blocks"), 164 + 3 * 5);
    assert_int_equal(value("kv_max_tokens"), 620944); /* as printed */
    assert_int_equal(value("block_bytes"), value("page_bytes") * 17);
    args.capacity_by_group = 1;
    predict(IMPMEM_ENGINE_VLLM);
    assert_int_equal(value("kv_max_tokens"), 424 / 4 * 1600);
}

static void pages_of_unlike_groups_are_padded_to_the_larger(void **state)
{
    (void)state;
    windows(60, 6, 1024, 16, 256);
    for (uint32_t i = 5; i < 60; i += 6) {
        shape.layer[i].kv_heads = 4;
        shape.layer[i].k_dim = shape.layer[i].v_dim = 512;
    }
    args.kv_dtype_k = IMPMEM_DTYPE_INT8;
    args.n_ctx = 262144;
    args.tp = 2;
    args.prefill_tokens = 4096;
    args.pool_units = 17449;
    predict(IMPMEM_ENGINE_VLLM);
    assert_int_equal(value("block_tokens"), 32);
    assert_int_equal(value("block_tokens_swa"), 16);
    assert_int_equal(value("page_bytes"), 16 * 8 * (512 + 8));
    assert_int_equal(value("groups"), 6);
    assert_int_equal(value("request_blocks"), 8192 + 5 * (320 + 1)); /* ceil((1023 + 4096) / 16) = 320 */
    assert_int_equal(value("kv_max_tokens"), 466892);                /* as printed, beside 10.82 GiB */
    assert_int_equal(value("kv_total"), UINT64_C(17449) * 66560 * 10);
}

static void a_window_group_never_takes_more_than_the_context(void **state)
{
    (void)state;
    windows(24, 2, 128, 8, 64);
    args.n_ctx = 64;
    predict(IMPMEM_ENGINE_VLLM);
    assert_int_equal(value("request_blocks"), 4 + 4 + 1);
}

static void nearly_equal_kinds_share_the_larger_group(void **state)
{
    (void)state;
    windows(9, 2, 128, 1, 64); /* 5 windows, 4 full: a quarter more, so groups of 4 */
    predict(IMPMEM_ENGINE_VLLM);
    assert_int_equal(value("groups"), 3);
    assert_int_equal(layers_of("block_bytes"), 4);
    windows(11, 2, 128, 1, 64); /* 6 and 5: less than a quarter more, so groups of 6 */
    predict(IMPMEM_ENGINE_VLLM);
    assert_int_equal(value("groups"), 2);
    assert_int_equal(layers_of("block_bytes"), 6);
}

static void swap_holds_whole_blocks(void **state)
{
    (void)state;
    uniform(40, 40, 128);
    args.swap_bytes = 4 * IMPMEM_GIB;
    predict(IMPMEM_ENGINE_VLLM);
    assert_int_equal(value("cpu_swap_blocks"), 327); /* as printed for Llama-2-13b */
}

/* ---- SGLang --------------------------------------------------------------------------------------------------------- */

static void sglang_has_a_slot_a_token(void **state)
{
    (void)state;
    uniform(94, 4, 128);
    args.tp = 4;
    args.pool_units = 367404;
    predict(IMPMEM_ENGINE_SGLANG);
    assert_int_equal(value("kv_k"), UINT64_C(367404) * 94 * 128 * 2); /* 8.23 GiB printed */
    assert_int_equal(value("kv_v"), value("kv_k"));
    assert_int_equal(value("kv_total"), 2 * value("kv_k"));
    args.pool_units = 0;
    args.pool_bytes = UINT64_C(1000) * 94 * 128 * 4 + 1;
    predict(IMPMEM_ENGINE_SGLANG);
    assert_int_equal(value("kv_max_tokens"), 1000);
    args.pool_bytes = 0;
    args.n_ctx = 77;
    predict(IMPMEM_ENGINE_SGLANG);
    assert_int_equal(value("kv_max_tokens"), 77);
    hybrid(4, 4, 48);
    refused(IMPMEM_ENGINE_SGLANG, IMPMEM_ERR_UNSUPPORTED, "layer[0]", "recurrent");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, fresh)
    const struct CMUnitTest tests[] = {TEST(a_full_layer_has_a_cell_a_token_padded_to_256),
                                       TEST(no_context_means_the_trained_one),
                                       TEST(k_and_v_are_typed_apart),
                                       TEST(a_window_layer_keeps_window_times_slots_plus_the_batch),
                                       TEST(a_window_never_takes_more_than_the_context),
                                       TEST(full_size_windows_and_ik_llama_save_nothing),
                                       TEST(latent_attention_keeps_one_row_and_no_v),
                                       TEST(expanded_latent_attention_keeps_heads),
                                       TEST(the_output_layer_counts_in_a_split),
                                       TEST(rows_of_whole_512_elements_are_not_padded),
                                       TEST(a_split_follows_its_weights),
                                       TEST(recurrent_state_is_f32_a_slot_and_a_drafted_token),
                                       TEST(a_mamba_layer_keeps_convolution_and_state),
                                       TEST(layers_without_kv_of_their_own_take_none),
                                       TEST(a_plain_model_has_a_page_of_every_layer_in_a_block),
                                       TEST(kv_heads_are_split_or_replicated),
                                       TEST(fp8_has_no_scale_and_int8_four_bytes),
                                       TEST(the_block_grows_until_its_page_holds_a_state),
                                       TEST(a_hybrid_request_takes_two_states_a_group_and_a_drafted_token),
                                       TEST(pages_of_unlike_groups_are_padded_to_the_larger),
                                       TEST(a_window_group_never_takes_more_than_the_context),
                                       TEST(nearly_equal_kinds_share_the_larger_group),
                                       TEST(swap_holds_whole_blocks),
                                       TEST(sglang_has_a_slot_a_token)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
