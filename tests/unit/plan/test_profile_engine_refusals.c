/* What the rules of other engines do not cover, and values that they do not take: refused by name. */
#include "unit/plan/profile_engine_world.h"

static void what_has_no_rule_is_refused(void **state)
{
    (void)state;
    uniform(4, 8, 128);
    shape.layer[2].index_dim = 128;
    refused(IMPMEM_ENGINE_VLLM, IMPMEM_ERR_UNSUPPORTED, "layer[2]", "indexer");
    uniform(4, 8, 128);
    shape.layer[3].kind = IMPMEM_LAYER_CROSS;
    shape.layer[3].cross_tokens = 100;
    refused(IMPMEM_ENGINE_LLAMA_CPP, IMPMEM_ERR_UNSUPPORTED, "layer[3]", "cross-attention");
    uniform(4, 8, 128);
    for (uint32_t i = 0; i < 4; i++) shape.layer[i].kind = IMPMEM_LAYER_NO_ATTENTION;
    refused(IMPMEM_ENGINE_VLLM, IMPMEM_ERR_UNSUPPORTED, "layers", "no layer keeps KV");
    refused(IMPMEM_ENGINE_SGLANG, IMPMEM_ERR_UNSUPPORTED, "layers", "no layer keeps KV");
    predict(IMPMEM_ENGINE_LLAMA_CPP);
    assert_int_equal(value("total"), 0);
    uniform(17, 8, 128);
    for (uint32_t i = 0; i < 17; i++) shape.layer[i].kv_heads = i + 1;
    refused(IMPMEM_ENGINE_VLLM, IMPMEM_ERR_UNSUPPORTED, "layer[16]", "more than 16 kinds");
}

static void an_argument_of_another_engine_is_refused(void **state)
{
    (void)state;
    uniform(4, 8, 128);
    const impmem_engine_kind llama = IMPMEM_ENGINE_LLAMA_CPP, vllm = IMPMEM_ENGINE_VLLM, sglang = IMPMEM_ENGINE_SGLANG;
    const struct {
        uint32_t *field;
        impmem_engine_kind kind;
        const char *name;
    } foreign[] = {{&args.n_ubatch, vllm, "n_ubatch"},
                   {&args.n_seq, sglang, "n_seq"},
                   {&args.mla_expanded, vllm, "mla"},
                   {&args.no_flash_attn, vllm, "flash_attn"},
                   {&args.swa_full, sglang, "swa_full"},
                   {&args.quantised_padding, vllm, "cuda"},
                   {&args.n_devices, vllm, "split"},
                   {&args.tp, llama, "tp"},
                   {&args.block_tokens, sglang, "block_size"},
                   {&args.prefill_tokens, llama, "max_num_batched_tokens"},
                   {&args.capacity_by_group, sglang, "capacity"},
                   {&args.draft_tokens, sglang, "draft"}};
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        *foreign[i].field = 1;
        refused(foreign[i].kind, IMPMEM_ERR_BAD_VALUE, foreign[i].name, "no such option");
        *foreign[i].field = 0;
    }
    args.pool_bytes = 1;
    refused(llama, IMPMEM_ERR_BAD_VALUE, "pool", "no such option");
    args.pool_units = 1;
    refused(vllm, IMPMEM_ERR_BAD_VALUE, "pool", "twice");
    args.pool_bytes = 0;
    refused(llama, IMPMEM_ERR_BAD_VALUE, "tokens", "no such option");
    args.pool_units = 0;
    args.swap_bytes = 1;
    refused(sglang, IMPMEM_ERR_BAD_VALUE, "swap", "no such option");
}

static void a_type_that_the_engine_lacks_is_refused(void **state)
{
    (void)state;
    uniform(4, 8, 128);
    args.kv_dtype_k = IMPMEM_DTYPE_FP8_E4M3;
    refused(IMPMEM_ENGINE_LLAMA_CPP, IMPMEM_ERR_BAD_VALUE, "type_k", "fp8");
    args.kv_dtype_k = IMPMEM_DTYPE_Q8_0;
    refused(IMPMEM_ENGINE_VLLM, IMPMEM_ERR_BAD_VALUE, "type_k", "q8_0");
    args.kv_dtype_k = IMPMEM_DTYPE_F32;
    refused(IMPMEM_ENGINE_SGLANG, IMPMEM_ERR_BAD_VALUE, "type_k", "f32");
    predict(IMPMEM_ENGINE_VLLM);
    args.kv_dtype_v = IMPMEM_DTYPE_F16;
    refused(IMPMEM_ENGINE_VLLM, IMPMEM_ERR_BAD_VALUE, "type_v", "one type");
    args.kv_dtype_v = IMPMEM_DTYPE_NVFP4;
    refused(IMPMEM_ENGINE_VLLM, IMPMEM_ERR_BAD_VALUE, "type_v", "nvfp4");
    args.kv_dtype_v = (impmem_dtype)4711;
    refused(IMPMEM_ENGINE_LLAMA_CPP, IMPMEM_ERR_BAD_VALUE, "type_v", "?");
    args.kv_dtype_k = args.kv_dtype_v = IMPMEM_DTYPE_Q4_0;
    args.no_flash_attn = 1;
    refused(IMPMEM_ENGINE_LLAMA_CPP, IMPMEM_ERR_BAD_VALUE, "type_v", "without flash attention");
    args.no_flash_attn = 0;
    uniform(4, 1, 80); /* 80 is no multiple of 32 */
    refused(IMPMEM_ENGINE_LLAMA_CPP, IMPMEM_ERR_BAD_VALUE, "layer[0]", "80 elements of K");
}

static void values_out_of_range_are_refused(void **state)
{
    (void)state;
    uniform(4, 8, 128);
    args.mla_expanded = 2;
    refused(IMPMEM_ENGINE_LLAMA_CPP, IMPMEM_ERR_BAD_VALUE, "mla", "0 or 1");
    args.mla_expanded = 0;
    args.n_devices = 17;
    refused(IMPMEM_ENGINE_LLAMA_CPP, IMPMEM_ERR_BAD_VALUE, "split", "at most 16");
    args.n_devices = 1;
    args.split[1] = 1;
    refused(IMPMEM_ENGINE_LLAMA_CPP, IMPMEM_ERR_BAD_VALUE, "split", "as many weights");
    args.split[1] = 0;
    args.split[0] = UINT64_MAX;
    refused(IMPMEM_ENGINE_LLAMA_CPP, IMPMEM_ERR_BAD_VALUE, "split", "add up");
    memset(&args, 0, sizeof args);
    args.block_tokens = 17;
    refused(IMPMEM_ENGINE_VLLM, IMPMEM_ERR_BAD_VALUE, "block_size", "multiple of 16");
    args.block_tokens = 0;
    shape.draft_layers = UINT32_MAX;
    refused(IMPMEM_ENGINE_VLLM, IMPMEM_ERR_BAD_VALUE, "draft_layers", "at most 512");
    hybrid(4, 4, 48);
    shape.draft_layers = 0;
    args.tp = 12; /* a multiple of 4, but 10240 channels don't divide */
    refused(IMPMEM_ENGINE_VLLM, IMPMEM_ERR_BAD_VALUE, "tp", "10240 channels");
}

static void more_than_64_bits_is_an_error_of_every_engine(void **state)
{
    (void)state;
    uniform(4, UINT32_MAX, UINT32_MAX);
    args.n_ctx = UINT32_MAX;
    refused(IMPMEM_ENGINE_LLAMA_CPP, IMPMEM_ERR_OVERFLOW, "args", "64 bits");
    refused(IMPMEM_ENGINE_VLLM, IMPMEM_ERR_OVERFLOW, "args", "64 bits");
    refused(IMPMEM_ENGINE_SGLANG, IMPMEM_ERR_OVERFLOW, "args", "64 bits");
    hybrid(8, 4, 48);
    shape.layer[0].state_elements = UINT64_MAX;
    refused(IMPMEM_ENGINE_LLAMA_CPP, IMPMEM_ERR_OVERFLOW, "args", "64 bits");
    refused(IMPMEM_ENGINE_VLLM, IMPMEM_ERR_OVERFLOW, "args", "64 bits");
    uniform(4, 8, 128);
    args.pool_units = UINT64_MAX;
    refused(IMPMEM_ENGINE_VLLM, IMPMEM_ERR_OVERFLOW, "args", "64 bits");
    refused(IMPMEM_ENGINE_SGLANG, IMPMEM_ERR_OVERFLOW, "args", "64 bits");
}

static void bad_calls_are_refused(void **state)
{
    (void)state;
    uniform(4, 8, 128);
    impmem_error why = IMPMEM_ERROR_INIT;
    const impmem_engine_kind kind = IMPMEM_ENGINE_VLLM;
    assert_int_equal(impmem_engine_profile_predict(kind, NULL, &args, &profile, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_engine_profile_predict(kind, &shape, NULL, &profile, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_engine_profile_predict(kind, &shape, &args, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    refused((impmem_engine_kind)0, IMPMEM_ERR_INVALID_ARGUMENT, "kind", "0 is no engine");
    refused((impmem_engine_kind)5, IMPMEM_ERR_INVALID_ARGUMENT, "kind", "5 is no engine");
    args.size = sizeof args;
    args.version = 2;
    refused(kind, IMPMEM_ERR_VERSION, "args", "version 2");
    args.version = 1;
    args.size = 4;
    refused(kind, IMPMEM_ERR_INVALID_ARGUMENT, "args", "4 bytes");
    args = (impmem_engine_profile_args)IMPMEM_ENGINE_PROFILE_ARGS_INIT;
    predict(kind);
    shape.n_layers = 0;
    refused(kind, IMPMEM_ERR_BAD_VALUE, "n_layers", "0");
    assert_null(impmem_engine_profile_find(NULL, "total"));
    assert_null(impmem_engine_profile_find(&profile, NULL));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, fresh)
    const struct CMUnitTest tests[] = {TEST(what_has_no_rule_is_refused),
                                       TEST(an_argument_of_another_engine_is_refused),
                                       TEST(a_type_that_the_engine_lacks_is_refused),
                                       TEST(values_out_of_range_are_refused),
                                       TEST(more_than_64_bits_is_an_error_of_every_engine),
                                       TEST(bad_calls_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
