/* The engines' arguments in text: what is read, and what is refused with key, value and expectation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "impmem/bytes.h"
#include "impmem/engine_profile.h"

static const impmem_engine_kind llama = IMPMEM_ENGINE_LLAMA_CPP, vllm = IMPMEM_ENGINE_VLLM, sglang = IMPMEM_ENGINE_SGLANG;

static impmem_engine_profile_args parse(impmem_engine_kind kind, const char *text)
{
    impmem_engine_profile_args args = IMPMEM_ENGINE_PROFILE_ARGS_INIT;
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_status st = impmem_engine_profile_parse_args(kind, text, &args, &why);
    if (st) fail_msg("%s: %s", text, why.message);
    return args;
}

static void refused(impmem_engine_kind kind, const char *text, const char *key, const char *words)
{
    impmem_engine_profile_args args = IMPMEM_ENGINE_PROFILE_ARGS_INIT, before = args;
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_status st = impmem_engine_profile_parse_args(kind, text, &args, &why);
    if (st != IMPMEM_ERR_BAD_VALUE || strcmp(why.subject, key) != 0 || !strstr(why.message, words) ||
        !strstr(why.message, "expected"))
        fail_msg("%s: found %s, %s: %s", text, impmem_status_name(st), why.subject, why.message);
    assert_memory_equal(&args, &before, sizeof args);
    assert_int_equal(impmem_engine_profile_parse_args(kind, text, &args, NULL), IMPMEM_ERR_BAD_VALUE);
}

static void every_key_of_llama_cpp_is_read(void **state)
{
    (void)state;
    impmem_engine_profile_args a = parse(llama,
                                         "n_ctx=16384,n_ubatch=2048,n_seq=4,type_k=q8_0,type_v=f16,draft=6,mla=expanded,"
                                         "flash_attn=0,swa_full=1,cuda=1,split=12:0:29");
    assert_int_equal(a.n_ctx, 16384);
    assert_int_equal(a.n_ubatch, 2048);
    assert_int_equal(a.n_seq, 4);
    assert_int_equal(a.kv_dtype_k, IMPMEM_DTYPE_Q8_0);
    assert_int_equal(a.kv_dtype_v, IMPMEM_DTYPE_F16);
    assert_int_equal(a.draft_tokens, 6);
    assert_int_equal(a.mla_expanded, 1);
    assert_int_equal(a.no_flash_attn, 1);
    assert_int_equal(a.swa_full, 1);
    assert_int_equal(a.quantised_padding, 1);
    assert_int_equal(a.n_devices, 3);
    assert_int_equal(a.split[0], 12);
    assert_int_equal(a.split[1], 0);
    assert_int_equal(a.split[2], 29);
}

static void every_key_of_vllm_and_sglang_is_read(void **state)
{
    (void)state;
    impmem_engine_profile_args a = parse(vllm, "n_ctx=1,tp=8,kv_type=fp8,pool_bytes=1.5GiB,block_size=64,"
                                               "max_num_batched_tokens=8192,capacity=group,swap=4GiB,draft=0");
    assert_int_equal(a.tp, 8);
    assert_int_equal(a.kv_dtype_k, IMPMEM_DTYPE_FP8_E4M3);
    assert_int_equal(a.kv_dtype_v, IMPMEM_DTYPE_FP8_E4M3);
    assert_int_equal(a.pool_bytes, 3 * IMPMEM_GIB / 2);
    assert_int_equal(a.block_tokens, 64);
    assert_int_equal(a.prefill_tokens, 8192);
    assert_int_equal(a.capacity_by_group, 1);
    assert_int_equal(a.swap_bytes, 4 * IMPMEM_GIB);
    assert_int_equal(parse(vllm, "blocks=1125899906842624").pool_units, UINT64_C(1) << 50);
    assert_int_equal(parse(vllm, "capacity=request").capacity_by_group, 0);
    a = parse(sglang, "tokens=367404,tp=4,kv_type=bf16");
    assert_int_equal(a.pool_units, 367404);
    assert_int_equal(a.tp, 4);
}

static void what_the_text_leaves_out_stays(void **state)
{
    (void)state;
    impmem_engine_profile_args args = IMPMEM_ENGINE_PROFILE_ARGS_INIT;
    args.n_seq = 7;
    assert_int_equal(impmem_engine_profile_parse_args(llama, "n_ctx=512", &args, NULL), IMPMEM_OK);
    assert_int_equal(args.n_seq, 7);
    assert_int_equal(args.n_ctx, 512);
    assert_int_equal(impmem_engine_profile_parse_args(llama, "", &args, NULL), IMPMEM_OK);
    assert_int_equal(args.n_ctx, 512);
}

static void a_bad_value_names_key_value_and_expectation(void **state)
{
    (void)state;
    static const char *const counts[] = {"n_ctx=",    "n_ctx=0",  "n_ctx=-1",         "n_ctx=4k",
                                         "n_ctx=1.5", "n_ctx= 1", "n_ctx=2147483648", "n_ctx=18446744073709551617",
                                         "n_ctx=nan"};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        refused(llama, counts[i], "n_ctx", "1 to 2147483647");
        refused(vllm, counts[i], "n_ctx", counts[i] + 6);
    }
    refused(llama, "draft=65537", "draft", "0 to 65536");
    refused(llama, "type_k=q9", "type_k", "\"q9\"");
    refused(llama, "type_v=", "type_v", "element type");
    refused(vllm, "kv_type=f17", "kv_type", "element type");
    refused(llama, "mla=both", "mla", "latent or expanded");
    refused(llama, "flash_attn=2", "flash_attn", "0 or 1");
    refused(llama, "swa_full=yes", "swa_full", "0 or 1");
    refused(vllm, "capacity=2", "capacity", "request or group");
    refused(vllm, "pool_bytes=10GB", "pool_bytes", "a size above 0");
    refused(vllm, "pool_bytes=0", "pool_bytes", "a size above 0");
    refused(vllm, "blocks=1125899906842625", "blocks", "2^50");
    refused(llama, "split=", "split", "weights");
    refused(llama, "split=1::1", "split", "weights");
    refused(llama, "split=1:", "split", "weights");
    refused(llama, "split=0:0", "split", "weights");
    refused(llama, "split=1000001", "split", "1000000");
    refused(llama, "split=1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1", "split", "16 devices");
    char longest[256];
    memset(longest, '1', sizeof longest);
    memcpy(longest, "pool_bytes=", 11);
    longest[sizeof longest - 1] = '\0';
    refused(vllm, longest, "pool_bytes", "a shorter value");
}

static void a_bad_key_names_those_that_the_engine_has(void **state)
{
    (void)state;
    refused(llama, "tp=2", "tp", "n_ubatch");
    refused(vllm, "n_ubatch=512", "n_ubatch", "max_num_batched_tokens");
    refused(sglang, "blocks=2", "blocks", "tokens");
    refused(vllm, "N_CTX=2", "N_CTX", "n_ctx");
    refused(vllm, "n_ctx=2,n_ctx=3", "n_ctx", "it once");
    refused(vllm, "n_ctx", "n_ctx", "KEY=VALUE");
    refused(vllm, "=5", "argument", "KEY=VALUE");
    refused(vllm, ",n_ctx=5", "argument", "KEY=VALUE");
    refused(vllm, "n_ctx=5,,tp=2", "argument", "KEY=VALUE");
    refused(vllm, "n_ctx=5,", "argument", "KEY=VALUE");
    refused(vllm, "a_key_that_is_much_longer_than_any_key_that_there_is=1", "a_key_that_is_much_longer_than_any_key_",
            "no argument of vllm");
}

static void bad_calls_are_refused(void **state)
{
    (void)state;
    impmem_engine_profile_args args = IMPMEM_ENGINE_PROFILE_ARGS_INIT;
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(impmem_engine_profile_parse_args(vllm, NULL, &args, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_engine_profile_parse_args(vllm, "", NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_engine_profile_parse_args((impmem_engine_kind)9, "", &args, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    args.version = 2;
    assert_int_equal(impmem_engine_profile_parse_args(vllm, "", &args, &why), IMPMEM_ERR_VERSION);
    args.version = 0;
    assert_int_equal(impmem_engine_profile_parse_args(vllm, "", &args, &why), IMPMEM_ERR_INVALID_ARGUMENT);
}

static void engines_and_units_have_names(void **state)
{
    (void)state;
    impmem_engine_kind kind = vllm;
    static const char *const names[] = {"llama.cpp", "ik_llama.cpp", "vllm", "sglang"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(impmem_engine_kind_parse(names[i], &kind), IMPMEM_OK);
        assert_int_equal(kind, i + 1);
        assert_string_equal(impmem_engine_kind_name(kind), names[i]);
    }
    assert_int_equal(impmem_engine_kind_parse("vLLM", &kind), IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(impmem_engine_kind_parse("", &kind), IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(impmem_engine_kind_parse(NULL, &kind), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_engine_kind_parse("vllm", NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(kind, sglang);
    assert_string_equal(impmem_engine_kind_name((impmem_engine_kind)0), "?");
    assert_string_equal(impmem_engine_kind_name((impmem_engine_kind)-1), "?");
    static const char *const units[] = {"bytes", "tokens", "cells", "blocks", "ratio", "count", "?"};
    for (int i = 0; i < 7; i++) assert_string_equal(impmem_engine_unit_name((impmem_engine_unit)i), units[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_key_of_llama_cpp_is_read),
                                       cmocka_unit_test(every_key_of_vllm_and_sglang_is_read),
                                       cmocka_unit_test(what_the_text_leaves_out_stays),
                                       cmocka_unit_test(a_bad_value_names_key_value_and_expectation),
                                       cmocka_unit_test(a_bad_key_names_those_that_the_engine_has),
                                       cmocka_unit_test(bad_calls_are_refused),
                                       cmocka_unit_test(engines_and_units_have_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
