/* Features of `impmem plan`: each flag adds its own lines, of sizes reckoned here; what contradicts is refused; levers about features
 * work when pasted. */
#define _GNU_SOURCE
#include "unit/command/plan_answers.h"
#include "unit/model/model_test.h"

#include "impmem/features.h"
#include "impmem/plan.h"

/* Figures of the test model. */
enum { D = 4096, LAYERS = 32, HEADS = 32, KV_HEADS = 8, HEAD = 128, FF = 14336, VOCAB = 128256 };

static uint64_t up256(uint64_t x)
{
    return (x + 255) / 256 * 256;
}

/* Plans the test model with room to spare; the plan's object, and the answer's root to be given back. */
static const json_t *plan_with(json_t **root, const char *const *flags)
{
    question_line q = {.n = 0};
    const char *const words[] = {"plan", test_model(), "--budget", "80GiB", "--json"};
    for (size_t i = 0; i < 5; i++) ask_more(&q, words[i]);
    for (size_t i = 0; flags[i]; i++) ask_more(&q, flags[i]);
    run_vector(NULL, q.argument);
    assert_answer(0);
    *root = output_json();
    return member_of(*root, "plan");
}
#define PLAN_WITH(root, ...) plan_with(root, (const char *const[]){__VA_ARGS__, NULL})

static void one_feature_adds_its_own_line_and_changes_no_other(void **state)
{
    (void)state;
    static const struct {
        const char *flag, *value;
        uint64_t id, bytes;
    } features[] = {
        {"--headroom", "700MiB", IMPMEM_LINE_HEADROOM, 700 * MIB},
        {"--communication", "300MiB", IMPMEM_LINE_COMMUNICATION, 300 * MIB},
        {"--lora", "6:48MiB", IMPMEM_LINE_LORA, 6 * 48 * MIB},
        /* Equal graphs share the pool of the first. */
        {"--graphs", "36:512MiB:4MiB", IMPMEM_LINE_GRAPHS, (512 + 36 * 4) * MIB},
        {"--graphs", "36:512MiB", IMPMEM_LINE_GRAPHS, 512 * MIB},
        /* 4096 rows in 16 and in 32 bits. */
        {"--logprobs", NULL, IMPMEM_LINE_PROMPT_LOGPROBS, UINT64_C(4096) * VOCAB * 6},
        /* Every projection and the head; two bytes each, one, and 9/16. */
        {"--weight-cache", "bf16", IMPMEM_LINE_WEIGHT_CACHE, UINT64_C(7504658432) * 2},
        {"--weight-cache", "fp8", IMPMEM_LINE_WEIGHT_CACHE, UINT64_C(7504658432)},
        {"--weight-cache", "nvfp4", IMPMEM_LINE_WEIGHT_CACHE, UINT64_C(7504658432) / 16 * 9},
        {"--weight-cache", "nvfp4:optional", IMPMEM_LINE_WEIGHT_CACHE_OPTIONAL, UINT64_C(7504658432) / 16 * 9},
    };
    const uint64_t attention = (uint64_t)D * (2 * HEADS * HEAD + 2 * KV_HEADS * HEAD);
    assert_int_equal(LAYERS * (attention + 3 * (uint64_t)D * FF) + (uint64_t)D * VOCAB, UINT64_C(7504658432));
    json_t *plain_root, *root;
    const json_t *plain = PLAN_WITH(&plain_root, "--max-batch", "2");
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        const json_t *plan = PLAN_WITH(&root, "--max-batch", "2", features[i].flag, features[i].value);
        assert_line(plan, features[i].id, features[i].bytes);
        assert_no_line(plain, features[i].id);
        size_t l;
        json_t *line;
        json_array_foreach(member_of(plain, "lines"), l, line)
        {
            /* Rounding and the library's own tables go with what there is. */
            const uint64_t id = integer_of(line, "id");
            const int rounding = id >= IMPMEM_LINE_ROUNDING && id < IMPMEM_LINE_ROUNDING + 32;
            if (id != IMPMEM_LINE_HOST_CONTROL && !rounding) assert_line(plan, id, integer_of(line, "bytes"));
        }
        json_decref(root);
    }
    json_decref(plain_root);
}

/* Two layers of one KV head of 64: 2 x 16 x (64 + 64) x 2 = 8192 bytes a block. */
static const char *draft_model(void)
{
    static char path[160];
    if (!path[0])
        snprintf(path, sizeof path, "%s",
                 write_text("draft.json",
                            "{\"model_type\": \"llama\", \"hidden_size\": 512, \"intermediate_size\": 1024, "
                            "\"num_attention_heads\": 8, \"num_key_value_heads\": 1, \"num_hidden_layers\": 2, "
                            "\"vocab_size\": 128256, \"tie_word_embeddings\": true, \"torch_dtype\": "
                            "\"bfloat16\", \"max_position_embeddings\": 8192}"));
    return path;
}

static void a_draft_has_weights_kv_and_verification_until_it_is_turned_off(void **state)
{
    (void)state;
    json_t *root;
    const json_t *plan = PLAN_WITH(&root, "--max-batch", "2", "--draft", draft_model(), "--draft-tokens", "4");
    const uint64_t blocks = 2 * 8192 / 16, rows = 2 * (4 + 1);
    /* Per layer: q and o 512 x 512, k and v 64 x 512, three of the feed-forward, two norms; embedding and last norm. */
    const uint64_t layer = 2 * 512 * 512 + 2 * 64 * 512 + 3 * 512 * 1024 + 2 * 512;
    assert_line(plan, IMPMEM_LINE_DRAFT_WEIGHTS, up256(2 * (2 * layer + UINT64_C(128256) * 512 + 512)));
    assert_line(plan, IMPMEM_LINE_KV_SIDE, blocks * 8192);
    assert_line(plan, IMPMEM_LINE_VERIFY, up256(rows * VOCAB * 4) + up256(rows * D * 2) + 2 * up256(rows * 4));
    json_decref(root);

    plan = PLAN_WITH(&root, "--draft", draft_model(), "--draft-tokens", "4", "--no-draft");
    assert_no_line(plan, IMPMEM_LINE_DRAFT_WEIGHTS);
    assert_no_line(plan, IMPMEM_LINE_VERIFY);
    json_decref(root);
}

/* 896 pixels in patches of 14, 4 x 4 of which become a token: 256 tokens. Tensors of 320 bytes. */
static const char *projector(void)
{
    static char path[160];
    static const uint64_t matrix[] = {32, 4}, vector[] = {8};
    if (path[0]) return path;
    gguf g;
    memset(&g, 0, sizeof g);
    key_text(&g, "general.architecture", "clip");
    key_text(&g, "clip.projector_type", "gemma3");
    key_u32(&g, "clip.vision.image_size", 896);
    key_u32(&g, "clip.vision.patch_size", 14);
    key_u32(&g, "clip.vision.embedding_length", 1152);
    key_u32(&g, "clip.vision.block_count", 27);
    key_u32(&g, "clip.vision.attention.head_count", 16);
    tensor(&g, "v.patch_embd.weight", 2, matrix, 1, 256);
    tensor(&g, "v.post_ln.weight", 1, vector, 0, 32);
    bytes b = finish(&g);
    snprintf(path, sizeof path, "%s", write_bytes("mmproj.gguf", b.at, b.n));
    drop(&b);
    return path;
}

static void a_projector_has_weights_pixels_and_embeddings_until_it_is_turned_off(void **state)
{
    (void)state;
    json_t *root;
    const json_t *plan = PLAN_WITH(&root, "--mmproj", projector(), "--images", "3");
    assert_line(plan, IMPMEM_LINE_VISION_WEIGHTS, up256(256 + 32));
    assert_line(plan, IMPMEM_LINE_VISION_PIXELS, 3 * UINT64_C(896) * 896 * 3 * 2);
    assert_line(plan, IMPMEM_LINE_VISION_EMBEDDINGS, 3 * UINT64_C(256) * D * 2);
    json_decref(root);
    /* One image where the number is left open. */
    plan = PLAN_WITH(&root, "--mmproj", projector());
    assert_line(plan, IMPMEM_LINE_VISION_PIXELS, UINT64_C(896) * 896 * 3 * 2);
    json_decref(root);
    plan = PLAN_WITH(&root, "--mmproj", projector(), "--images", "3", "--no-vision");
    assert_no_line(plan, IMPMEM_LINE_VISION_WEIGHTS);
    assert_no_line(plan, IMPMEM_LINE_VISION_PIXELS);
    json_decref(root);
}

/* A tower among the model's own weights: 56 pixels, 4 tokens an image, beside a language model 64 wide. */
#define WITH_TOWER                                                                                                         \
    "{\"model_type\": \"gemma3\", \"torch_dtype\": \"bfloat16\", \"text_config\": {\"model_type\": \"gemma3_text\", "      \
    "\"hidden_size\": 64, \"intermediate_size\": 128, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "            \
    "\"head_dim\": 16, \"num_hidden_layers\": 6, \"sliding_window\": 512, \"sliding_window_pattern\": 6, "                 \
    "\"vocab_size\": 1000, \"max_position_embeddings\": 4096}, \"vision_config\": {\"model_type\": "                       \
    "\"siglip_vision_model\", \"hidden_size\": 32, \"intermediate_size\": 64, \"num_hidden_layers\": 2, "                  \
    "\"num_attention_heads\": 2, \"image_size\": 56, \"patch_size\": 14}, \"mm_tokens_per_image\": 4}"

static void a_tower_inside_the_model_is_left_out_with_no_vision(void **state)
{
    (void)state;
    const char *model = write_text("tower.json", WITH_TOWER);
    run("plan", model, "--budget", "8GiB", "--json", "--images", "2");
    assert_answer(0);
    json_t *root = output_json();
    const json_t *plan = member_of(root, "plan");
    size_t n = 0;
    const uint64_t with = bytes_of_ids(plan, IMPMEM_LINE_WEIGHTS, IMPMEM_LINE_WEIGHTS + 1, &n);
    assert_line(plan, IMPMEM_LINE_VISION_PIXELS, 2 * 56 * 56 * 3 * 2);
    assert_line(plan, IMPMEM_LINE_VISION_EMBEDDINGS, 2 * 4 * 64 * 2);
    assert_no_line(plan, IMPMEM_LINE_VISION_WEIGHTS);
    json_decref(root);
    run("plan", model, "--budget", "8GiB", "--json", "--images", "2", "--no-vision");
    assert_answer(0);
    root = output_json();
    plan = member_of(root, "plan");
    assert_no_line(plan, IMPMEM_LINE_VISION_PIXELS);
    /* Two layers of attention, 4 x 32 x 32, and feed-forward, 2 x 32 x 64, at least. */
    assert_true(bytes_of_ids(plan, IMPMEM_LINE_WEIGHTS, IMPMEM_LINE_WEIGHTS + 1, &n) + 2 * 2 * 8192 <= with);
    json_decref(root);
    run("plan", model, "--budget", "8GiB", "--mmproj", projector());
    assert_one_line_error(3);
    assert_holds(result.err, "mmproj.gguf");
}

/* Four layers of Mamba, 64 wide, expanded to 128: convolution 128 x 3 columns, state 128 x 16. */
#define MAMBA                                                                                                              \
    "{\"model_type\": \"mamba\", \"hidden_size\": 64, \"num_hidden_layers\": 4, \"vocab_size\": 1000, \"torch_dtype\": "   \
    "\"bfloat16\", \"state_size\": 16, \"expand\": 2, \"conv_kernel\": 4, \"max_position_embeddings\": 4096}"

static uint64_t state_bytes(const char *flag, const char *value, uint64_t id)
{
    const char *model = write_text("mamba.json", MAMBA);
    run("plan", model, "--budget", "8GiB", "--workspaces", "none", "--max-batch", "2", "--granule", "256", "--json", flag,
        value);
    assert_answer(0);
    json_t *root = output_json();
    size_t n = 0;
    uint64_t found = bytes_of_ids(member_of(root, "plan"), id, id + 1, &n);
    assert_int_equal(n, 1);
    json_decref(root);
    return found;
}

static void recurrent_state_has_the_type_and_the_snapshots_asked_for(void **state)
{
    (void)state;
    const uint64_t conv = up256(128 * 3 * 4), wide = up256(128 * 16 * 4), narrow = up256(128 * 16 * 2);
    const uint64_t slot = 4 * (conv + wide);
    assert_int_equal(state_bytes("--state-dtype", "f32", IMPMEM_LINE_STATE), 2 * slot);
    assert_int_equal(state_bytes("--state-dtype", "bf16", IMPMEM_LINE_STATE), 2 * 4 * (conv + narrow));
    /* Whole slots within the size: 100000 / 38912 are two. */
    assert_int_equal(slot, 38912);
    assert_int_equal(state_bytes("--snapshots", "100000", IMPMEM_LINE_STATE + 1), 2 * slot);
}

static void batches_that_must_fit_replace_the_whole_batch(void **state)
{
    (void)state;
    /* Weights and 600 blocks: eight full sequences are 4096, so the whole batch doesn't fit. */
    char budget[32];
    snprintf(budget, sizeof budget, "%llu", (unsigned long long)((TEST_WEIGHT_GRANULES + 600) * GRANULE));
    run("plan", test_model(), "--budget", budget, BARE, "--max-batch", "8");
    assert_answer(1);
    /* 8 x 1000 tokens are 8 x 63 blocks; one sequence of 8192 is 512: both are within 600. */
    run("plan", test_model(), "--budget", budget, BARE, "--max-batch", "8", "--must-fit", "8x1000", "--typical", "8x1000");
    assert_answer(0);
    run("plan", test_model(), "--budget", budget, BARE, "--max-batch", "8", "--must-fit", "1x8192", "--must-fit", "8x1200");
    assert_answer(0);
    /* 8 x 76 = 608 are not. */
    run("plan", test_model(), "--budget", budget, BARE, "--max-batch", "8", "--must-fit", "1x8192", "--must-fit", "8x1201");
    assert_answer(1);
}

typedef struct refusal {
    const char *flag, *value; /* value NULL: a flag that takes none */
    const char *flag2, *value2;
    const char *names, *expects;
} refusal;

static const refusal refusals[] = {
    {"--draft-tokens", "0", NULL, NULL, "--draft-tokens: \"0\"", "from 1 to 1024"},
    {"--draft-tokens", "1025", NULL, NULL, "--draft-tokens: \"1025\"", "from 1 to 1024"},
    {"--images", "0", NULL, NULL, "--images: \"0\"", "from 1 to 4096"},
    {"--images", "-1", NULL, NULL, "--images: \"-1\"", "from 1 to 4096"},
    {"--lora", "8", NULL, NULL, "--lora: \"8\"", "SLOTS:SIZE"},
    {"--lora", "0:1MiB", NULL, NULL, "--lora: \"0\"", "from 1 to 65536"},
    {"--lora", "8:0", NULL, NULL, "--lora: \"0\"", "1 byte or more"},
    {"--lora", "8:1MB", NULL, NULL, "--lora: \"1MB\"", "24GiB"},
    {"--graphs", "8", NULL, NULL, "--graphs: \"8\"", "N:SIZE[:EXEC]"},
    {"--graphs", "4097:1MiB", NULL, NULL, "--graphs: \"4097\"", "from 1 to 4096"},
    {"--graphs", "8:0:0", NULL, NULL, "--graphs: \"8:0:0\"", "1 byte or more"},
    {"--graphs", "8:1MiB:x", NULL, NULL, "--graphs: \"x\"", "24GiB"},
    {"--weight-cache", "q4_0", NULL, NULL, "--weight-cache: \"q4_0\"", "f16, bf16, fp8, int8 or nvfp4"},
    {"--weight-cache", "fp8:maybe", NULL, NULL, "--weight-cache: \"fp8:maybe\"", ":optional"},
    {"--weight-cache", "fp8", "--weight-cache", "fp8:optional", "--weight-cache: \"fp8:optional\"", "one of a type"},
    {"--state-dtype", "fp8", NULL, NULL, "--state-dtype: \"fp8\"", "f32, bf16 or f16"},
    {"--snapshots", "0", NULL, NULL, "--snapshots: \"0\"", "1 byte or more"},
    {"--headroom", "lots", NULL, NULL, "--headroom: \"lots\"", "24GiB"},
    {"--communication", "0", NULL, NULL, "--communication: \"0\"", "1 byte or more"},
    {"--devices", "65", NULL, NULL, "--devices: \"65\"", "from 1 to 64"},
    {"--must-fit", "4", NULL, NULL, "--must-fit: \"4\"", "BxL"},
    {"--must-fit", "0x4", NULL, NULL, "--must-fit: \"0\"", "from 1 to 1048576"},
    {"--must-fit", "4x0", NULL, NULL, "--must-fit: \"0\"", "from 1 to 2147483647"},
    {"--typical", "4xx4", NULL, NULL, "--typical: \"x4\"", "from 1 to 2147483647"},
    /* What contradicts. */
    {"--draft", "draft.json", NULL, NULL, "--draft: \"draft.json\"", "--draft-tokens K"},
    {"--draft-tokens", "4", NULL, NULL, "--draft-tokens: 4", "--draft MODEL"},
    {"--images", "2", NULL, NULL, "--images: 2", "--mmproj FILE"},
    {"--graphs-accepted", NULL, NULL, NULL, "--graphs-accepted", "--graphs N:SIZE"},
    {"--graphs", "8:60GiB", NULL, NULL, "--graphs: graph memory of 61440.0 MiB is more than half", "81920.0 MiB"},
    {"--devices", "2", NULL, NULL, "--devices: 2", "--communication SIZE"},
    {"--state-dtype", "f16", NULL, NULL, "--state-dtype", "recurrent state"},
    {"--snapshots", "1GiB", NULL, NULL, "--snapshots", "recurrent state"},
    {"--must-fit", "2x8192", NULL, NULL, "--must-fit: batch 0: 2 sequences of 8192", "max_batch 1"},
    {"--typical", "1x8193", NULL, NULL, "--typical", "max_seq_tokens"},
};

static void a_bad_or_contradictory_flag_is_one_line_that_names_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const refusal *r = &refusals[i];
        question_line q = {.n = 0};
        const char *const words[] = {"plan", test_model(), "--budget", "80GiB", r->flag};
        for (size_t w = 0; w < 5; w++) ask_more(&q, words[w]);
        if (r->value) ask_more(&q, r->value);
        if (r->flag2) ask_more(&q, r->flag2);
        if (r->value2) ask_more(&q, r->value2);
        run_vector(NULL, q.argument);
        assert_one_line_error(2);
        assert_holds(result.err, r->names);
        assert_holds(result.err, r->expects);
    }
    run("plan", test_model(), "--budget", "80GiB", "--graphs", "8:60GiB", "--graphs-accepted", "--max-seq-len", "16");
    assert_answer(0);
}

static void too_many_of_a_repeated_flag_are_refused(void **state)
{
    (void)state;
    question_line q = {.n = 0};
    const char *const words[] = {"plan", test_model(), "--budget", "80GiB"};
    for (size_t i = 0; i < 4; i++) ask_more(&q, words[i]);
    for (int i = 0; i < 17; i++) {
        ask_more(&q, "--must-fit");
        ask_more(&q, "1x16");
    }
    run_vector(NULL, q.argument);
    assert_one_line_error(2);
    assert_holds(result.err, "--must-fit: \"1x16\" is one too many; expected at most 16");
}

static void files_of_features_are_named_when_they_are_bad(void **state)
{
    (void)state;
    const char *bad = write_text("bad.json", "{\"model_type\": \"frobnicator\"}");
    run("plan", test_model(), "--budget", "80GiB", "--draft", bad, "--draft-tokens", "2");
    assert_one_line_error(3);
    assert_holds(result.err, bad);
    run("plan", test_model(), "--budget", "80GiB", "--draft", test_path("absent.gguf"), "--draft-tokens", "2");
    assert_one_line_error(3);
    assert_holds(result.err, "absent.gguf");
    run("plan", test_model(), "--budget", "80GiB", "--mmproj", bad);
    assert_one_line_error(3);
    assert_holds(result.err, bad);
    run("plan", test_model(), "--budget", "80GiB", "--mmproj", test_path("absent.gguf"));
    assert_one_line_error(3);
    assert_holds(result.err, "absent.gguf");
}

static void levers_of_features_and_pairs_work_when_they_are_pasted(void **state)
{
    (void)state;
    static const char *const kinds[] = {"context", "batch",  "kv_dtype", "v_dtype", "k_dtype", "prefill", "promise",
                                        "block",   "budget", "draft",    "vision",  "tp",      NULL};
    const char *const questions[][16] = {
        {"--budget", "20300MiB", "--max-seq-len", "4096", "--draft", draft_model(), "--draft-tokens", "64", "--max-batch",
         "4", NULL},
        {"--budget", "18000MiB", "--max-seq-len", "1024", "--mmproj", projector(), "--images", "64", NULL},
        {"--budget", "12GiB", "--max-seq-len", "4096", "--devices", "4", "--communication", "256MiB", NULL},
        {"--budget", "18GiB", "--max-seq-len", "8192", "--max-batch", "64", NULL},
        {"--budget", "20GiB", "--max-seq-len", "8192", "--max-batch", "3", NULL},
        {"--budget", "19GiB", "--max-seq-len", "8192", "--prefill-tokens", "8192", NULL},
        /* Neither a shorter context nor a shorter prefill is enough alone. */
        {"--budget", "18GiB", "--max-seq-len", "32768", "--prefill-tokens", "32768", NULL},
        {"--budget", "18GiB", "--max-seq-len", "32768", "--max-batch", "3", "--kv-dtype", "f16", NULL},
        {"--budget", "20400MiB", "--max-seq-len", "4100", "--max-batch", "4", "--block-size", "256", NULL},
    };
    uint32_t seen = 0;
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        question_line q = {.n = 0};
        ask_more(&q, "plan");
        ask_more(&q, test_model());
        for (size_t w = 0; questions[i][w]; w++) ask_more(&q, questions[i][w]);
        assert_levers_work(&q, kinds, &seen);
    }
    for (uint32_t k = 0; kinds[k]; k++) {
        if (!(seen & (1u << k))) print_error("no question was answered with the lever %s\n", kinds[k]);
        assert_true(seen & (1u << k));
    }
    assert_true(seen & (1u << 31)); /* a pair */
}

static void features_open_on_the_fake_device_as_planned(void **state)
{
    (void)state;
    run("plan", test_model(), "--budget", "48GiB", "--open", "--json", "--draft", draft_model(), "--draft-tokens", "4",
        "--mmproj", projector(), "--lora", "4:16MiB", "--graphs", "8:64MiB:1MiB", "--logprobs", "--weight-cache",
        "nvfp4:optional", "--headroom", "1GiB");
    assert_answer(0);
    json_t *root = output_json();
    assert_true(json_is_true(member_of(member_of(root, "opening"), "good")));
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_feature_adds_its_own_line_and_changes_no_other),
        cmocka_unit_test(a_draft_has_weights_kv_and_verification_until_it_is_turned_off),
        cmocka_unit_test(a_projector_has_weights_pixels_and_embeddings_until_it_is_turned_off),
        cmocka_unit_test(a_tower_inside_the_model_is_left_out_with_no_vision),
        cmocka_unit_test(recurrent_state_has_the_type_and_the_snapshots_asked_for),
        cmocka_unit_test(batches_that_must_fit_replace_the_whole_batch),
        cmocka_unit_test(a_bad_or_contradictory_flag_is_one_line_that_names_it),
        cmocka_unit_test(too_many_of_a_repeated_flag_are_refused),
        cmocka_unit_test(files_of_features_are_named_when_they_are_bad),
        cmocka_unit_test(levers_of_features_and_pairs_work_when_they_are_pasted),
        cmocka_unit_test(features_open_on_the_fake_device_as_planned),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
