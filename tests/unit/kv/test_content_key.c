/* Content keys. The pinned digests were computed by another program, Python's xxhash package, from the encoding in docs/kv.md. */
#include "kv_test.h"

static impmem_content_key key(const impmem_content_key *parent, const impmem_kv_namespace *n, const uint32_t *t,
                              uint32_t count)
{
    impmem_content_key k;
    assert_int_equal(impmem_content_key_of(parent, n, t, count, &k), IMPMEM_OK);
    return k;
}

static void assert_key(impmem_content_key k, const char *hex)
{
    static const char digit[] = "0123456789abcdef";
    char text[49];
    for (int i = 0; i < 24; i++) {
        text[2 * i] = digit[k.bytes[i] >> 4];
        text[2 * i + 1] = digit[k.bytes[i] & 15];
    }
    text[48] = 0;
    assert_string_equal(text, hex);
}

static void keys_are_those_of_another_implementation(void **state)
{
    (void)state;
    uint32_t tokens[1000];
    write_tokens(tokens, 32, 0);
    impmem_content_key first = key(NULL, NULL, tokens, 16);
    assert_key(first, "01000000000000008b0b783f097ef724f6e5d680fd167b2c");
    assert_key(key(&first, NULL, tokens + 16, 16), "010000000000000024a2a68773f13fac6f0b591bdd336f05");
    const impmem_kv_namespace n = {"tenant-7", 8, "lora:a1", 7};
    const uint32_t edge[4] = {UINT32_MAX, 0, 1, 2};
    assert_key(key(NULL, &n, edge, 4), "0100000000000000d0de8854cd0f172d2aebed539be4d47e");
    for (uint32_t i = 0; i < 1000; i++) tokens[i] = i * 2654435761u;
    assert_key(key(NULL, NULL, tokens, 1000), "0100000000000000091895e380fa9e069d50c557f9489758");
}

static int same_key(impmem_content_key a, impmem_content_key b)
{
    return !memcmp(a.bytes, b.bytes, sizeof a.bytes);
}

static void equal_bytes_in_different_fields_never_match(void **state)
{
    (void)state;
    const uint32_t t[4] = {1, 2, 3, 4};
    const impmem_kv_namespace tenant = {"SALT", 4, NULL, 0}, adapter = {NULL, 0, "SALT", 4};
    const impmem_kv_namespace split = {"SA", 2, "LT", 2}, other = {"SAL", 3, "T", 1};
    assert_false(same_key(key(NULL, &tenant, t, 4), key(NULL, &adapter, t, 4)));
    assert_false(same_key(key(NULL, &split, t, 4), key(NULL, &other, t, 4)));
    assert_false(same_key(key(NULL, &tenant, t, 4), key(NULL, NULL, t, 4)));
}

static void a_parent_changes_the_key_and_says_the_namespace(void **state)
{
    (void)state;
    const uint32_t t[4] = {1, 2, 3, 4};
    const impmem_kv_namespace a = {"a", 1, NULL, 0}, b = {"b", 1, NULL, 0};
    impmem_content_key under_a = key(NULL, &a, t, 4), under_b = key(NULL, &b, t, 4);
    assert_false(same_key(key(&under_a, NULL, t, 4), key(&under_b, NULL, t, 4)));
    assert_false(same_key(key(&under_a, NULL, t, 4), under_a));
    assert_true(same_key(key(&under_a, &a, t, 4), key(&under_a, &b, t, 4)));
}

static void wrong_arguments_are_refused_and_nothing_is_written(void **state)
{
    (void)state;
    const uint32_t t[4] = {1, 2, 3, 4};
    impmem_content_key out, before, parent = key(NULL, NULL, t, 4);
    memset(&out, 0x5a, sizeof out);
    before = out;
    unsigned char longest[257] = {0};
    const impmem_kv_namespace too_long = {longest, 257, NULL, 0}, null_field = {NULL, 0, NULL, 1},
                              fits = {longest, 256, longest, 256};
    assert_int_equal(impmem_content_key_of(NULL, NULL, NULL, 4, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_content_key_of(NULL, NULL, t, 0, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_content_key_of(NULL, NULL, t, 4, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_content_key_of(NULL, &too_long, t, 4, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_content_key_of(NULL, &null_field, t, 4, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    parent.bytes[0] = 2;
    assert_int_equal(impmem_content_key_of(&parent, NULL, t, 4, &out), IMPMEM_ERR_VERSION);
    parent.bytes[0] = 0;
    assert_int_equal(impmem_content_key_of(&parent, NULL, t, 4, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    parent.bytes[0] = 1;
    parent.bytes[7] = 1;
    assert_int_equal(impmem_content_key_of(&parent, NULL, t, 4, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_true(same_key(out, before));
    assert_int_equal(impmem_content_key_of(NULL, &fits, t, 4, &out), IMPMEM_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_those_of_another_implementation),
        cmocka_unit_test(equal_bytes_in_different_fields_never_match),
        cmocka_unit_test(a_parent_changes_the_key_and_says_the_namespace),
        cmocka_unit_test(wrong_arguments_are_refused_and_nothing_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
