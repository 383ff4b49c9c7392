/* GGUF keys into layers: per-layer arrays read whole, windows, latent attention, dual geometry, sharing, and the
 * headers of 39 real files. */
#define _GNU_SOURCE
#include "unit/model/model_test.h"

static gguf arch_of(const char *arch, uint32_t layers, uint32_t hidden, uint32_t heads)
{
    gguf g;
    memset(&g, 0, sizeof g);
    char name[96];
    key_text(&g, "general.architecture", arch);
    (void)snprintf(name, sizeof name, "%s.block_count", arch);
    key_u32(&g, name, layers);
    (void)snprintf(name, sizeof name, "%s.embedding_length", arch);
    key_u32(&g, name, hidden);
    (void)snprintf(name, sizeof name, "%s.vocab_size", arch);
    key_u32(&g, name, 1000);
    (void)snprintf(name, sizeof name, "%s.feed_forward_length", arch);
    key_u32(&g, name, hidden * 4);
    if (heads) {
        (void)snprintf(name, sizeof name, "%s.attention.head_count", arch);
        key_u32(&g, name, heads);
    }
    return g;
}

static void a_plain_file_gives_every_layer_the_same_geometry(void **state)
{
    (void)state;
    gguf g;
    plain_llama(&g, 3);
    key_text(&g, "general.name", "A name");
    impmem_model *model = read_bytes(finish(&g));
    const impmem_model_shape *s = impmem_model_shape_of(model);
    assert_string_equal(s->name, "A name");
    assert_string_equal(s->architecture, "llama");
    assert_string_equal(impmem_model_format(model), "gguf v3");
    assert_int_equal(s->d_model, 64);
    assert_int_equal(s->n_heads, 4);
    assert_int_equal(s->head_dim, 64 / 4);
    assert_int_equal(s->feed_forward, 128);
    assert_int_equal(s->vocab, 100);
    assert_int_equal(s->trained_context, 2048);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(s->layer[i].kind, IMPMEM_LAYER_FULL);
        assert_int_equal(s->layer[i].kv_heads, 2);
        assert_int_equal(s->layer[i].k_dim, 16);
        assert_int_equal(s->layer[i].v_dim, 16);
    }
    assert_true(has_note(model, "hidden size 64 / 4 heads = 16"));
    impmem_model_destroy(model);
}

static void per_layer_head_counts_are_read_whole_and_zero_means_no_attention(void **state)
{
    (void)state;
    /* the pattern that a reader of element 0 takes for a model without any cache */
    static const uint32_t kv[] = {0, 0, 8, 0, 4, 8};
    gguf g = arch_of("deci", 6, 256, 0);
    static const uint32_t heads[] = {0, 16, 16, 0, 16, 16};
    key_array_u32(&g, "deci.attention.head_count", heads, 6);
    key_array_u32(&g, "deci.attention.head_count_kv", kv, 6);
    key_u32(&g, "deci.attention.key_length", 64);
    key_u32(&g, "deci.attention.value_length", 32);
    impmem_model *model = read_bytes(finish(&g));
    const impmem_model_shape *s = impmem_model_shape_of(model);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(s->layer[i].kind, kv[i] ? IMPMEM_LAYER_FULL : IMPMEM_LAYER_NO_ATTENTION);
        assert_int_equal(s->layer[i].kv_heads, kv[i]);
        if (kv[i]) assert_int_equal(s->layer[i].v_dim, 32);
    }
    assert_int_equal(s->n_heads, 16);
    impmem_model_destroy(model);
}

static void a_per_layer_array_of_another_length_is_refused(void **state)
{
    (void)state;
    static const uint32_t kv[] = {2, 2, 2, 2};
    for (uint64_t n = 0; n <= 4; n++) {
        if (n == 3) continue;
        gguf g = arch_of("llama", 3, 64, 4);
        key_array_u32(&g, "llama.attention.head_count_kv", kv, n);
        expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "or one such entry a layer", UINT64_MAX);
    }
}

static void contradictory_and_absurd_head_counts_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t heads, kv;
        const char *words;
    } bad[] = {{4, 8, "found 4 query heads for 8 KV heads, expected no more"},
               {4, 3, "found 4 query heads for 3 KV heads"},
               {0, 2, "found 0 query heads"},
               {4, 0, "found 0 for every layer"},
               {70000, 2, "expected an integer from 0 to 65535"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gguf g = arch_of("llama", 3, 64, 0);
        key_u32(&g, "llama.attention.head_count", bad[i].heads);
        key_u32(&g, "llama.attention.head_count_kv", bad[i].kv);
        expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, bad[i].words, UINT64_MAX);
    }
}

static void a_layer_count_beyond_the_bound_or_zero_is_refused(void **state)
{
    (void)state;
    gguf g = arch_of("llama", IMPMEM_MAX_LAYERS + 1, 64, 4);
    expect_refused(finish(&g), IMPMEM_ERR_TOO_LARGE, "found 513, expected at most 512", UINT64_MAX);
    g = arch_of("llama", UINT32_MAX, 64, 4);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "'llama.block_count' at byte", UINT64_MAX);
    g = arch_of("llama", 0, 64, 4);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "found 0", UINT64_MAX);
}

static void a_missing_key_is_named_and_never_taken_from_an_unrelated_one(void **state)
{
    (void)state;
    gguf g = arch_of("llama", 22, 2048, 0); /* 22 layers, no head count: the head count is not 22 */
    expect_refused(finish(&g), IMPMEM_ERR_MISSING_KEY, "'llama.attention.head_count'", UINT64_MAX);
    memset(&g, 0, sizeof g);
    key_text(&g, "general.architecture", "qwen3");
    expect_refused(finish(&g), IMPMEM_ERR_MISSING_KEY, "'qwen3.block_count'", UINT64_MAX);
    key_text(&g, "general.architecture", "llama");
    key_u32(&g, "llama.block_count", 2);
    expect_refused(finish(&g), IMPMEM_ERR_MISSING_KEY, "'llama.embedding_length'", UINT64_MAX);
    key_text(&g, "general.architecture", "llama");
    key_u32(&g, "llama.block_count", 2);
    key_u32(&g, "llama.embedding_length", 64);
    expect_refused(finish(&g), IMPMEM_ERR_MISSING_KEY, "'llama.vocab_size'", UINT64_MAX);
    g = arch_of("gemma3n", 10, 64, 4);
    key_u32(&g, "gemma3n.attention.sliding_window", 512);
    expect_refused(finish(&g), IMPMEM_ERR_MISSING_KEY, "'gemma3n.attention.shared_kv_layers'", UINT64_MAX);
    g = arch_of("deepseek2", 2, 64, 4);
    expect_refused(finish(&g), IMPMEM_ERR_MISSING_KEY, "'deepseek2.attention.kv_lora_rank'", UINT64_MAX);
}

static void a_head_dimension_is_never_rounded(void **state)
{
    (void)state;
    gguf g = arch_of("llama", 2, 65, 4);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "65 is no multiple of 4 heads", UINT64_MAX);
}

static uint32_t windows(const impmem_model_shape *s, uint32_t *tokens)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_layers; i++) {
        if (s->layer[i].kind != IMPMEM_LAYER_WINDOW) continue;
        *tokens = s->layer[i].window_tokens;
        n++;
    }
    return n;
}

static void windows_follow_the_architectures_period_unless_the_file_has_a_pattern(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        uint32_t period; /* every period-th layer is full */
    } periodic[] = {{"gemma2", 2}, {"gemma3", 6}, {"gpt-oss", 2}, {"cohere2", 4}, {"olmo2", 4}};
    for (size_t a = 0; a < sizeof periodic / sizeof *periodic; a++) {
        gguf g = arch_of(periodic[a].arch, 24, 64, 4);
        char name[96];
        (void)snprintf(name, sizeof name, "%s.attention.sliding_window", periodic[a].arch);
        key_u32(&g, name, 100);
        impmem_model *model = read_bytes(finish(&g));
        const impmem_model_shape *s = impmem_model_shape_of(model);
        for (uint32_t i = 0; i < 24; i++) {
            bool full = (i + 1) % periodic[a].period == 0;
            assert_int_equal(s->layer[i].kind, full ? IMPMEM_LAYER_FULL : IMPMEM_LAYER_WINDOW);
            assert_int_equal(s->layer[i].window_tokens, full ? 0 : 100);
        }
        assert_true(has_note(model, "sliding_window_pattern: missing"));
        impmem_model_destroy(model);
        g = arch_of(periodic[a].arch, 24, 64, 4);
        key_u32(&g, name, 100);
        (void)snprintf(name, sizeof name, "%s.attention.sliding_window_pattern", periodic[a].arch);
        key_u32(&g, name, 3);
        model = read_bytes(finish(&g));
        uint32_t tokens = 0;
        assert_int_equal(windows(impmem_model_shape_of(model), &tokens), 16);
        impmem_model_destroy(model);
    }
}

static void a_pattern_of_bools_is_taken_layer_by_layer(void **state)
{
    (void)state;
    static const uint8_t pattern[] = {1, 0, 0, 1, 1};
    gguf g = arch_of("gemma3", 5, 64, 4);
    key_u32(&g, "gemma3.attention.sliding_window", 100);
    key_array_bool(&g, "gemma3.attention.sliding_window_pattern", pattern, 5);
    impmem_model *model = read_bytes(finish(&g));
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(impmem_model_shape_of(model)->layer[i].kind, pattern[i] ? IMPMEM_LAYER_WINDOW : IMPMEM_LAYER_FULL);
    }
    assert_int_equal(impmem_model_shape_of(model)->post_norm_f32, 1);
    impmem_model_destroy(model);
    g = arch_of("gemma3", 5, 64, 4);
    key_u32(&g, "gemma3.attention.sliding_window", 100);
    key_array_bool(&g, "gemma3.attention.sliding_window_pattern", pattern, 4);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "expected one bool for each of 5 layers", UINT64_MAX);
}

static void a_window_of_zero_is_off_and_one_that_the_architecture_ignores_is_noted(void **state)
{
    (void)state;
    gguf g = arch_of("phi3", 4, 64, 4);
    key_u32(&g, "phi3.attention.sliding_window", 0);
    impmem_model *model = read_bytes(finish(&g));
    uint32_t tokens = 0;
    assert_int_equal(windows(impmem_model_shape_of(model), &tokens), 0);
    impmem_model_destroy(model);
    g = arch_of("phi3", 4, 64, 4);
    key_u32(&g, "phi3.attention.sliding_window", 2047);
    model = read_bytes(finish(&g));
    assert_int_equal(windows(impmem_model_shape_of(model), &tokens), 4);
    assert_int_equal(tokens, 2047);
    impmem_model_destroy(model);
    g = arch_of("llama", 4, 64, 4);
    key_u32(&g, "llama.attention.sliding_window", 4096);
    model = read_bytes(finish(&g));
    assert_int_equal(windows(impmem_model_shape_of(model), &tokens), 0);
    assert_true(has_note(model, "4096 is not used by llama"));
    impmem_model_destroy(model);
}

static void llama_4_attends_in_chunks_on_all_but_every_fourth_layer(void **state)
{
    (void)state;
    gguf g = arch_of("llama4", 8, 64, 4);
    key_u32(&g, "llama4.attention.key_length", 16);
    key_u32(&g, "llama4.attention.value_length", 16);
    impmem_model *model = read_bytes(finish(&g));
    uint32_t tokens = 0;
    assert_int_equal(windows(impmem_model_shape_of(model), &tokens), 6);
    assert_int_equal(tokens, 8192);
    assert_int_equal(impmem_model_shape_of(model)->layer[3].kind, IMPMEM_LAYER_FULL);
    assert_true(has_note(model, "8192 is the published default"));
    impmem_model_destroy(model);
}

static void latent_attention_stores_one_row_whatever_the_head_counts_say(void **state)
{
    (void)state;
    /* the old layout says 128 KV heads of 192, the new one 1 of 576; both store 512 + 64 a token */
    for (int old = 0; old < 2; old++) {
        gguf g = arch_of("deepseek2", 4, 7168, 128);
        key_u32(&g, "deepseek2.attention.head_count_kv", old ? 128 : 1);
        key_u32(&g, "deepseek2.attention.kv_lora_rank", 512);
        key_u32(&g, "deepseek2.rope.dimension_count", 64);
        key_u32(&g, "deepseek2.attention.key_length", old ? 192 : 576);
        if (!old) key_u32(&g, "deepseek2.attention.key_length_mla", 192);
        key_u32(&g, "deepseek2.attention.value_length", old ? 128 : 512);
        if (!old) key_u32(&g, "deepseek2.attention.value_length_mla", 128);
        impmem_model *model = read_bytes(finish(&g));
        const impmem_model_shape *s = impmem_model_shape_of(model);
        assert_int_equal(s->head_dim, 192);
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(s->layer[i].kind, IMPMEM_LAYER_LATENT);
            assert_int_equal(s->layer[i].kv_heads, 1);
            assert_int_equal(s->layer[i].k_dim, 512 + 64);
            assert_int_equal(s->layer[i].v_dim, 0);
            assert_int_equal(s->layer[i].latent_rank, 512);
            assert_int_equal(s->layer[i].latent_v_dim, 128);
        }
        impmem_model_destroy(model);
    }
}

static void gemma_4_has_two_geometries(void **state)
{
    (void)state;
    static const uint8_t pattern[] = {1, 1, 1, 1, 1, 0};
    static const uint32_t kv[] = {8, 8, 8, 8, 8, 1};
    gguf g = arch_of("gemma4", 6, 3840, 16);
    key_array_u32(&g, "gemma4.attention.head_count_kv", kv, 6);
    key_u32(&g, "gemma4.attention.key_length", 512);
    key_u32(&g, "gemma4.attention.value_length", 512);
    key_u32(&g, "gemma4.attention.key_length_swa", 256);
    key_u32(&g, "gemma4.attention.value_length_swa", 256);
    key_u32(&g, "gemma4.attention.sliding_window", 1024);
    key_array_bool(&g, "gemma4.attention.sliding_window_pattern", pattern, 6);
    impmem_model *model = read_bytes(finish(&g));
    const impmem_model_shape *s = impmem_model_shape_of(model);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(s->layer[i].kv_heads, kv[i]);
        assert_int_equal(s->layer[i].k_dim, pattern[i] ? 256 : 512);
        assert_int_equal(s->layer[i].v_dim, pattern[i] ? 256 : 512);
    }
    impmem_model_destroy(model);
}

static void sharing_layers_point_at_the_last_layer_of_their_kind(void **state)
{
    (void)state;
    gguf g = arch_of("gemma3n", 15, 64, 4);
    key_u32(&g, "gemma3n.attention.sliding_window", 512);
    key_u32(&g, "gemma3n.attention.shared_kv_layers", 5);
    impmem_model *model = read_bytes(finish(&g));
    const impmem_model_shape *s = impmem_model_shape_of(model);
    for (uint32_t i = 10; i < 15; i++) {
        assert_int_equal(s->layer[i].kind, IMPMEM_LAYER_SHARED);
        assert_int_equal(s->layer[i].shared_with, i == 14 ? 9 : 8); /* full layers are 4, 9 and 14 */
    }
    impmem_model_destroy(model);
    g = arch_of("gemma3n", 15, 64, 4);
    key_u32(&g, "gemma3n.attention.sliding_window", 512);
    key_u32(&g, "gemma3n.attention.shared_kv_layers", 15);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "found 15 of 15, expected fewer", UINT64_MAX);
    g = arch_of("gemma3n", 15, 64, 4);
    key_u32(&g, "gemma3n.attention.sliding_window", 512);
    key_u32(&g, "gemma3n.attention.shared_kv_layers", 12);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "layer 4 shares KV: found no earlier layer of its kind among 3",
                   UINT64_MAX);
}

static void extra_prediction_blocks_keep_no_cache(void **state)
{
    (void)state;
    gguf g = arch_of("glm4moe", 47, 64, 4);
    key_u32(&g, "glm4moe.nextn_predict_layers", 1);
    impmem_model *model = read_bytes(finish(&g));
    assert_int_equal(impmem_model_shape_of(model)->n_layers, 46);
    assert_int_equal(impmem_model_shape_of(model)->draft_layers, 1);
    impmem_model_destroy(model);
    g = arch_of("glm4moe", 2, 64, 4);
    key_u32(&g, "glm4moe.nextn_predict_layers", 2);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "found 2 of 2 layers, expected fewer", UINT64_MAX);
}

static void experts_are_read_and_contradictions_refused(void **state)
{
    (void)state;
    gguf g = arch_of("qwen3moe", 2, 64, 4);
    key_u32(&g, "qwen3moe.expert_count", 8);
    key_u32(&g, "qwen3moe.expert_used_count", 2);
    key_u32(&g, "qwen3moe.expert_feed_forward_length", 96);
    impmem_model *model = read_bytes(finish(&g));
    const impmem_model_shape *s = impmem_model_shape_of(model);
    assert_int_equal(s->n_experts, 8);
    assert_int_equal(s->experts_per_token, 2);
    assert_int_equal(s->expert_feed_forward, 96);
    assert_int_equal(s->feed_forward, 0);
    impmem_model_destroy(model);
    g = arch_of("qwen3moe", 2, 64, 4);
    key_u32(&g, "qwen3moe.expert_count", 8);
    key_u32(&g, "qwen3moe.expert_used_count", 9);
    expect_refused(finish(&g), IMPMEM_ERR_BAD_VALUE, "found 9 of 8 experts", UINT64_MAX);
    g = arch_of("qwen3moe", 2, 64, 4);
    key_u32(&g, "qwen3moe.expert_count", 8);
    expect_refused(finish(&g), IMPMEM_ERR_MISSING_KEY, "'qwen3moe.expert_used_count'", UINT64_MAX);
    /* the first dense layers keep the plain width */
    g = arch_of("deepseek2", 4, 64, 4);
    key_u32(&g, "deepseek2.attention.kv_lora_rank", 32);
    key_u32(&g, "deepseek2.rope.dimension_count", 8);
    key_u32(&g, "deepseek2.expert_count", 8);
    key_u32(&g, "deepseek2.expert_used_count", 2);
    key_u32(&g, "deepseek2.expert_feed_forward_length", 96);
    key_u32(&g, "deepseek2.leading_dense_block_count", 1);
    model = read_bytes(finish(&g));
    assert_int_equal(impmem_model_shape_of(model)->feed_forward, 256);
    impmem_model_destroy(model);
}

static void refused_architectures_give_their_true_reason(void **state)
{
    (void)state;
    static const struct {
        const char *arch, *words;
    } refused[] = {{"rwkv7", "recurrent layers (rwkv)"},
                   {"kimi-linear", "recurrent layers (kimi delta attention)"},
                   {"bert", "an encoder"},
                   {"clip", "an encoder"},
                   {"t5", "cross-attention"},
                   {"fantasy", "found no rule for its cache"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        gguf g = arch_of(refused[i].arch, 2, 64, 4);
        expect_refused(finish(&g), IMPMEM_ERR_UNKNOWN_ARCHITECTURE, refused[i].words, UINT64_MAX);
    }
    gguf g = arch_of("fantasy", 2, 64, 0);
    expect_refused(finish(&g), IMPMEM_ERR_UNKNOWN_ARCHITECTURE,
                   "it lacks: fantasy.attention.head_count, fantasy.attention.head_count_kv", UINT64_MAX);
}

/* ---- headers of real files ---- */

typedef struct dump {
    gguf g;
    char arch[64];
    uint32_t layers, hidden, heads, kv, key_length, value_length, lora, rope, window;
    uint32_t kv_list[IMPMEM_MAX_LAYERS];
    int has_list;
} dump;

/* "[8, 8, 8, 0, ... ]" cut off after some entries: the rest repeat the last, for want of them. */
static void parse_list(const char *text, uint32_t *to, uint32_t n)
{
    uint32_t last = 0, i = 0;
    for (const char *at = text + 1; i < n && *at >= '0' && *at <= '9'; i++) {
        char *end;
        last = (uint32_t)strtoul(at, &end, 10);
        if (*end != ',') break; /* a number that the cut went through */
        to[i] = last;
        at = end + 2;
    }
    for (; i < n; i++) to[i] = to[i - 1];
}

static void note_figure(dump *d, const char *name, uint32_t value)
{
    const char *dot = strchr(name, '.');
    const char *tail = dot ? dot : name;
    const struct {
        const char *name;
        uint32_t *to;
    } figures[] = {{".block_count", &d->layers},
                   {".embedding_length", &d->hidden},
                   {".attention.head_count", &d->heads},
                   {".attention.head_count_kv", &d->kv},
                   {".attention.key_length", &d->key_length},
                   {".attention.value_length", &d->value_length},
                   {".attention.kv_lora_rank", &d->lora},
                   {".rope.dimension_count", &d->rope},
                   {".attention.sliding_window", &d->window}};
    /* the architecture's own name may hold a dot */
    for (; tail; tail = strchr(tail + 1, '.')) {
        for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
            if (strcmp(tail, figures[i].name) == 0) *figures[i].to = value;
        }
    }
}

static void add_dump_key(dump *d, const char *name, const char *type, const char *value)
{
    unsigned n = 0;
    if (strncmp(name, "split.", 6) == 0) return; /* one file stands for the set */
    if (strcmp(type, "str") == 0) {
        key_text(&d->g, name, value);
        if (strcmp(name, "general.architecture") == 0) (void)snprintf(d->arch, sizeof d->arch, "%s", value);
    } else if (strcmp(type, "bool") == 0) {
        key(&d->g, name, BOOL);
        put_le(&d->g.keys, strcmp(value, "true") == 0, 1);
    } else if (strcmp(type, "f32") == 0) {
        key(&d->g, name, F32);
        float real = strtof(value, NULL);
        put(&d->g.keys, &real, 4);
    } else if (sscanf(type, "arr[str,%u]", &n) == 1) {
        key(&d->g, name, ARRAY);
        put_le(&d->g.keys, STRING, 4);
        put_le(&d->g.keys, n, 8);
        for (unsigned i = 0; i < n; i++) put_text(&d->g.keys, "");
    } else if (sscanf(type, "arr[i32,%u]", &n) == 1) {
        uint32_t list[IMPMEM_MAX_LAYERS] = {0};
        if (n > IMPMEM_MAX_LAYERS) return;
        parse_list(value, list, n);
        key_array_u32(&d->g, name, list, n);
        if (strstr(name, ".head_count_kv")) {
            memcpy(d->kv_list, list, sizeof list);
            d->has_list = 1;
        }
        if (strstr(name, ".attention.head_count") && !strstr(name, "_kv")) d->heads = list[0];
    } else if (type[0] == 'u' || type[0] == 'i') {
        uint32_t number = (uint32_t)strtoul(value, NULL, 10);
        key_u32(&d->g, name, number);
        note_figure(d, name, number);
    }
}

static void check_dump(dump *d, int number)
{
    assert_true(d->layers > 0);
    impmem_model *model = read_bytes(finish(&d->g));
    const impmem_model_shape *s = impmem_model_shape_of(model);
    if (s->n_layers != d->layers || s->d_model != d->hidden || s->n_heads != d->heads) {
        fail_msg("dump %d (%s): %u layers of %u with %u heads", number, d->arch, s->n_layers, s->d_model, s->n_heads);
    }
    uint32_t period = strcmp(d->arch, "gemma3") == 0 ? 6 : 0;
    for (uint32_t i = 0; i < d->layers; i++) {
        const impmem_layer_shape *layer = &s->layer[i];
        if (d->lora) {
            assert_int_equal(layer->kind, IMPMEM_LAYER_LATENT);
            assert_int_equal(layer->k_dim, d->lora + d->rope);
            continue;
        }
        uint32_t kv = d->has_list ? d->kv_list[i] : d->kv;
        assert_int_equal(layer->kv_heads, kv);
        if (kv == 0) {
            assert_int_equal(layer->kind, IMPMEM_LAYER_NO_ATTENTION);
            continue;
        }
        assert_int_equal(layer->k_dim, d->key_length ? d->key_length : d->hidden / d->heads);
        assert_int_equal(layer->v_dim, d->value_length ? d->value_length : d->hidden / d->heads);
        bool window = period && (i + 1) % period != 0;
        assert_int_equal(layer->kind, window ? IMPMEM_LAYER_WINDOW : IMPMEM_LAYER_FULL);
        assert_int_equal(layer->window_tokens, window ? d->window : 0);
    }
    impmem_model_destroy(model);
}

static void headers_of_39_real_files_read_to_the_geometry_that_they_state(void **state)
{
    (void)state;
    char path[700];
    if (!shared_path(path, sizeof path, "data/gguf/header-dumps.tsv")) skip();
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *line = NULL;
    size_t room = 0;
    int current = 0, read = 0;
    dump *d = calloc(1, sizeof *d);
    assert_non_null(d);
    for (ssize_t n; (n = getline(&line, &room, file)) >= 0;) {
        if (n < 3 || line[0] == '#') continue;
        line[strcspn(line, "\r\n")] = '\0';
        char *field[5] = {line, NULL, NULL, NULL, NULL};
        for (int i = 1; i < 5 && field[i - 1]; i++) {
            field[i] = strchr(field[i - 1], '\t');
            if (field[i]) *field[i]++ = '\0';
        }
        if (!field[4]) continue;
        int number = (int)strtol(field[0], NULL, 10);
        if (current && number != current) {
            check_dump(d, current);
            read++;
            memset(d, 0, sizeof *d);
        }
        current = number;
        add_dump_key(d, field[2], field[3], field[4]);
    }
    check_dump(d, current);
    read++;
    free(d);
    free(line);
    (void)fclose(file);
    assert_int_equal(read, 39);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_file_gives_every_layer_the_same_geometry),
        cmocka_unit_test(per_layer_head_counts_are_read_whole_and_zero_means_no_attention),
        cmocka_unit_test(a_per_layer_array_of_another_length_is_refused),
        cmocka_unit_test(contradictory_and_absurd_head_counts_are_refused),
        cmocka_unit_test(a_layer_count_beyond_the_bound_or_zero_is_refused),
        cmocka_unit_test(a_missing_key_is_named_and_never_taken_from_an_unrelated_one),
        cmocka_unit_test(a_head_dimension_is_never_rounded),
        cmocka_unit_test(windows_follow_the_architectures_period_unless_the_file_has_a_pattern),
        cmocka_unit_test(a_pattern_of_bools_is_taken_layer_by_layer),
        cmocka_unit_test(a_window_of_zero_is_off_and_one_that_the_architecture_ignores_is_noted),
        cmocka_unit_test(llama_4_attends_in_chunks_on_all_but_every_fourth_layer),
        cmocka_unit_test(latent_attention_stores_one_row_whatever_the_head_counts_say),
        cmocka_unit_test(gemma_4_has_two_geometries),
        cmocka_unit_test(sharing_layers_point_at_the_last_layer_of_their_kind),
        cmocka_unit_test(extra_prediction_blocks_keep_no_cache),
        cmocka_unit_test(experts_are_read_and_contradictions_refused),
        cmocka_unit_test(refused_architectures_give_their_true_reason),
        cmocka_unit_test(headers_of_39_real_files_read_to_the_geometry_that_they_state),
    };
    return cmocka_run_group_tests_name("model.gguf_shapes", tests, scratch_open, scratch_close);
}
