/* Every model file of the shared data: planned with the cache that its config implies, or refused by name. The same
 * list is in docs/models.md. The KV figures were computed from the configs by hand-written formulas, not by this
 * library. */
#define _GNU_SOURCE
#include "unit/model/model_test.h"

#include <dirent.h>
#include <math.h>
#include <jansson.h>

typedef struct verdict {
    const char *file;
    impmem_status status;
    const char *words;
    uint64_t kv_bytes; /* of one token in every layer that stores, f16 */
    uint32_t full, windows, window_tokens;
} verdict;

static const verdict models[] = {
    {"CodeLlama-34b-Instruct.config.json", IMPMEM_OK, NULL, 196608, 48, 0, 0},
    {"DeepSeek-V2-Lite.config.json", IMPMEM_OK, NULL, 31104, 27, 0, 0},
    {"DeepSeek-V3.1-NVFP4.hf_quant_config.json", IMPMEM_ERR_MISSING_KEY, "'model_type'", 0, 0, 0, 0},
    {"DeepSeek-V3.2.config.json", IMPMEM_OK, NULL, 70272, 61, 0, 0},
    {"DeepSeek-V3.config.json", IMPMEM_OK, NULL, 70272, 61, 0, 0},
    {"Devstral-Small-2507.config.json", IMPMEM_OK, NULL, 163840, 40, 0, 0},
    {"GLM-4.5-Air.facts.json", IMPMEM_OK, NULL, 188416, 46, 0, 0},
    {"GLM-5.config.json", IMPMEM_OK, NULL, 89856, 78, 0, 0},
    {"Gemma-4-31B-IT-NVFP4.config.json", IMPMEM_OK, NULL, 901120, 10, 50, 1024},
    {"Jamba-v0.1.facts.json", IMPMEM_OK, NULL, 16384, 4, 0, 0},
    {"Kimi-K2-Instruct.config.json", IMPMEM_OK, NULL, 70272, 61, 0, 0},
    {"LFM2-1.2B.config.json", IMPMEM_OK, NULL, 12288, 6, 0, 0},
    {"Llama-2-7b-hf.config.json", IMPMEM_OK, NULL, 524288, 32, 0, 0},
    {"Llama-3.1-405B.config.json", IMPMEM_OK, NULL, 516096, 126, 0, 0},
    {"Llama-3.1-70B.config.json", IMPMEM_OK, NULL, 327680, 80, 0, 0},
    {"Llama-3.1-8B-Instruct-bnb8.config.json", IMPMEM_OK, NULL, 131072, 32, 0, 0},
    {"Llama-3.1-8B.config.json", IMPMEM_OK, NULL, 131072, 32, 0, 0},
    {"Llama-3.2-11B-Vision.config.json", IMPMEM_OK, NULL, 131072, 32, 0, 0},
    {"Llama-3.2-1B.config.json", IMPMEM_OK, NULL, 32768, 16, 0, 0},
    {"Llama-3.2-3B.config.json", IMPMEM_OK, NULL, 114688, 28, 0, 0},
    {"Llama-4-Maverick-17B-128E.config.json", IMPMEM_OK, NULL, 196608, 12, 36, 8192},
    {"Llama-4-Scout-17B-16E.config.json", IMPMEM_OK, NULL, 196608, 12, 36, 8192},
    {"Mistral-7B-v0.1.config.json", IMPMEM_OK, NULL, 131072, 0, 32, 4096},
    {"Mistral-Nemo-Instruct-2407.config.json", IMPMEM_OK, NULL, 163840, 40, 0, 0},
    {"Mixtral-8x22B-v0.1.config.json", IMPMEM_OK, NULL, 229376, 56, 0, 0},
    {"Mixtral-8x7B-v0.1.config.json", IMPMEM_OK, NULL, 131072, 32, 0, 0},
    {"Nemotron-3-Nano-30B-A3B-BF16.config.json", IMPMEM_OK, NULL, 6144, 6, 0, 0},
    {"Nemotron-H-56B-Base-8K.config.json", IMPMEM_OK, NULL, 40960, 10, 0, 0},
    {"Olmo-3.1-32B-Instruct.config.json", IMPMEM_OK, NULL, 262144, 16, 48, 4096},
    {"Phi-3-mini-128k-instruct.config.json", IMPMEM_OK, NULL, 393216, 0, 32, 262144},
    {"Phi-3-mini-4k-SLERP.config.json", IMPMEM_OK, NULL, 393216, 0, 32, 2047},
    {"Phi-3.5-MoE-instruct.config.json", IMPMEM_OK, NULL, 131072, 0, 32, 131072},
    {"Qwen2.5-0.5B.config.json", IMPMEM_OK, NULL, 12288, 24, 0, 0},
    {"Qwen2.5-7B.config.json", IMPMEM_OK, NULL, 57344, 28, 0, 0},
    {"Qwen2.5-VL-7B-Instruct.config.json", IMPMEM_OK, NULL, 57344, 28, 0, 0},
    {"Qwen3-0.6B.config.json", IMPMEM_OK, NULL, 114688, 28, 0, 0},
    {"Qwen3-14B-MLX-4bit.config.json", IMPMEM_OK, NULL, 163840, 40, 0, 0},
    {"Qwen3-14B.config.json", IMPMEM_OK, NULL, 163840, 40, 0, 0},
    {"Qwen3-235B-A22B.config.json", IMPMEM_OK, NULL, 192512, 94, 0, 0},
    {"Qwen3-30B-A3B.config.json", IMPMEM_OK, NULL, 98304, 48, 0, 0},
    {"Qwen3-32B-FP8.config.json", IMPMEM_OK, NULL, 262144, 64, 0, 0},
    {"Qwen3-32B.config.json", IMPMEM_OK, NULL, 262144, 64, 0, 0},
    {"Qwen3-4B.config.json", IMPMEM_OK, NULL, 147456, 36, 0, 0},
    {"Qwen3-8B-FP8.config.json", IMPMEM_OK, NULL, 147456, 36, 0, 0},
    {"Qwen3-8B.config.json", IMPMEM_OK, NULL, 147456, 36, 0, 0},
    {"Qwen3-Coder-30B-A3B-Instruct.config.json", IMPMEM_OK, NULL, 98304, 48, 0, 0},
    {"Qwen3-Next-80B-A3B-Instruct.facts.json", IMPMEM_OK, NULL, 24576, 12, 0, 0},
    {"Qwen3.5-18B-REAP-A3B.config.json", IMPMEM_OK, NULL, 20480, 10, 0, 0},
    {"Qwen3.5-27B.config.json", IMPMEM_OK, NULL, 65536, 16, 0, 0},
    {"Qwen3.5-35B-A3B.config.json", IMPMEM_OK, NULL, 20480, 10, 0, 0},
    {"Qwen3.6-27B-NVFP4.config.json", IMPMEM_OK, NULL, 65536, 16, 0, 0},
    {"Reflection-Llama-3.1-70B.config.json", IMPMEM_OK, NULL, 327680, 80, 0, 0},
    {"SmolLM-1.7B.config.json", IMPMEM_OK, NULL, 196608, 24, 0, 0},
    {"SmolLM3-3B.config.json", IMPMEM_OK, NULL, 73728, 36, 0, 0},
    {"WizardLM-2-8x22B.config.json", IMPMEM_OK, NULL, 229376, 56, 0, 0},
    {"Yi-34B.config.json", IMPMEM_OK, NULL, 245760, 60, 0, 0},
    {"command-r-v01-35B-trimmed.config.json", IMPMEM_OK, NULL, 1310720, 40, 0, 0},
    {"deepseek-vl2-tiny.config.json", IMPMEM_OK, NULL, 61440, 12, 0, 0},
    {"gemma-2-2b.config.json", IMPMEM_OK, NULL, 106496, 13, 13, 4096},
    {"gemma-2-9b.config.json", IMPMEM_OK, NULL, 344064, 21, 21, 4096},
    {"gemma-2b-it.config.json", IMPMEM_OK, NULL, 18432, 18, 0, 0},
    {"gemma-3-1b-it.config.json", IMPMEM_OK, NULL, 26624, 4, 22, 512},
    {"gemma-3-27b-it.config.json", IMPMEM_OK, NULL, 507904, 10, 52, 1024},
    {"gemma-3-4b-it.facts.json", IMPMEM_OK, NULL, 139264, 5, 29, 1024},
    {"gemma-3n-E4B-it.facts.json", IMPMEM_OK, NULL, 40960, 4, 16, 512},
    {"gemma-4-26B-A4B.config.json", IMPMEM_OK, NULL, 225280, 5, 25, 1024},
    {"gemma-7b.config.json", IMPMEM_OK, NULL, 458752, 28, 0, 0},
    {"glm-4-9b.config.json", IMPMEM_OK, NULL, 40960, 40, 0, 0},
    {"gpt-oss-120b.config.json", IMPMEM_OK, NULL, 73728, 18, 18, 128},
    {"gpt-oss-20b.config.json", IMPMEM_OK, NULL, 49152, 12, 12, 128},
    {"granite-3.1-1b-a400m-instruct.config.json", IMPMEM_OK, NULL, 49152, 24, 0, 0},
    {"granite-4.0-h-tiny.facts.json", IMPMEM_OK, NULL, 8192, 4, 0, 0},
    {"internlm2-7b.config.json", IMPMEM_OK, NULL, 131072, 32, 0, 0},
    {"mamba2-130m.facts.json", IMPMEM_OK, NULL, 0, 0, 0, 0},
    {"phi-4.config.json", IMPMEM_OK, NULL, 204800, 40, 0, 0},
};

static const verdict ggufs[] = {
    {"ggml-vocab-baichuan.gguf", IMPMEM_OK, NULL, 32 * 2 * 2 * 4096, 32, 0, 0},
    {"ggml-vocab-bert-bge.gguf", IMPMEM_ERR_UNKNOWN_ARCHITECTURE, "an encoder", 0, 0, 0, 0},
    {"ggml-vocab-deepseek-coder.gguf", IMPMEM_OK, NULL, 32 * 2 * 2 * 4096, 32, 0, 0},
    {"ggml-vocab-falcon.gguf", IMPMEM_OK, NULL, 32 * 2 * 2 * 64, 32, 0, 0},
    {"ggml-vocab-gpt-2.gguf", IMPMEM_OK, NULL, 12 * 2 * 2 * 768, 12, 0, 0},
    {"ggml-vocab-llama-spm.gguf", IMPMEM_OK, NULL, 32 * 2 * 2 * 4096, 32, 0, 0},
    {"ggml-vocab-phi-3.gguf", IMPMEM_OK, NULL, 32 * 2 * 2 * 3072, 32, 0, 0},
    {"microk-tiny.gguf", IMPMEM_ERR_TRUNCATED, "the tensor count at byte 8: found 10", 0, 0, 0, 0},
    {"weight-inspect-empty.gguf", IMPMEM_ERR_MISSING_KEY, "'llama.block_count'", 0, 0, 0, 0},
    {"weight-inspect-tiny.gguf", IMPMEM_ERR_TRUNCATED, "the file ends at byte 122, expected 32896", 0, 0, 0, 0},
};

static void check_planned(const char *path, const verdict *v)
{
    impmem_model *model = read_path(path);
    const impmem_model_shape *s = impmem_model_shape_of(model);
    uint64_t kv = 0;
    uint32_t full = 0, windows = 0, tokens = 0;
    for (uint32_t i = 0; i < s->n_layers; i++) {
        const impmem_layer_shape *layer = &s->layer[i];
        if (layer->kind == IMPMEM_LAYER_NO_ATTENTION || layer->kind == IMPMEM_LAYER_SHARED ||
            layer->kind == IMPMEM_LAYER_CROSS)
            continue;
        kv += UINT64_C(2) * layer->kv_heads * (layer->k_dim + layer->v_dim);
        if (layer->kind == IMPMEM_LAYER_WINDOW) {
            windows++;
            tokens = layer->window_tokens;
        } else {
            full++;
        }
    }
    if (kv != v->kv_bytes || full != v->full || windows != v->windows || tokens != v->window_tokens) {
        fail_msg("%s: found %llu bytes a token, %u full, %u windows of %u", v->file, (unsigned long long)kv, full, windows,
                 tokens);
    }
    assert_true(s->name[0] != '\0');
    assert_true(s->d_model > 0 && s->vocab > 0);
    assert_true(kv == 0 || (s->n_heads > 0 && s->head_dim > 0));
    impmem_model_destroy(model);
}

/* Every file of `directory` that ends like `end` is in the table, and every row of the table is there. */
static void walk(const char *below, const char *end, const verdict *table, size_t n)
{
    char directory[700];
    if (!shared_path(directory, sizeof directory, below)) skip();
    DIR *dir = opendir(directory);
    assert_non_null(dir);
    size_t seen = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        size_t length = strlen(entry->d_name);
        if (length < strlen(end) || strcmp(entry->d_name + length - strlen(end), end) != 0) continue;
        const verdict *v = NULL;
        for (size_t i = 0; i < n; i++) {
            if (strcmp(table[i].file, entry->d_name) == 0) v = &table[i];
        }
        if (!v) fail_msg("%s has no verdict", entry->d_name);
        char path[1000];
        (void)snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (v->status) expect_path_refused(path, v->status, v->words);
        else check_planned(path, v);
        seen++;
    }
    (void)closedir(dir);
    assert_int_equal(seen, n);
}

static void every_config_plans_or_is_refused_by_name(void **state)
{
    (void)state;
    walk("data/models", ".json", models, sizeof models / sizeof *models);
}

static void every_gguf_plans_or_is_refused_by_name(void **state)
{
    (void)state;
    walk("data/gguf", ".gguf", ggufs, sizeof ggufs / sizeof *ggufs);
}

/* What layers keep beside the KV of the context, from each config's own figures: (kernel - 1) x channels and the state of
 * a recurrent layer, the indexer's key, an image's tokens. */
static void layers_keep_the_states_indices_and_images_that_their_config_implies(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        uint32_t recurrent, conv_columns, channels;
        uint64_t elements;
        uint32_t index, cross, cross_tokens, draft;
    } kept[] = {
        {"Jamba-v0.1.facts.json", 28, 3, 2 * 4096, UINT64_C(8192) * 16, 0, 0, 0, 0},
        {"LFM2-1.2B.config.json", 10, 2, 2048, 0, 0, 0, 0, 0},
        {"Nemotron-3-Nano-30B-A3B-BF16.config.json", 23, 3, 64 * 64 + 2 * 8 * 128, UINT64_C(64) * 64 * 128, 0, 0, 0, 0},
        {"Nemotron-H-56B-Base-8K.config.json", 54, 3, 256 * 64 + 2 * 8 * 256, UINT64_C(256) * 64 * 256, 0, 0, 0, 0},
        {"Qwen3-Next-80B-A3B-Instruct.facts.json", 36, 3, 2 * 16 * 128 + 32 * 128, UINT64_C(32) * 128 * 128, 0, 0, 0, 0},
        {"Qwen3.5-18B-REAP-A3B.config.json", 30, 3, 2 * 16 * 128 + 32 * 128, UINT64_C(32) * 128 * 128, 0, 0, 0, 1},
        {"Qwen3.5-27B.config.json", 48, 3, 2 * 16 * 128 + 48 * 128, UINT64_C(48) * 128 * 128, 0, 0, 0, 1},
        {"Qwen3.5-35B-A3B.config.json", 30, 3, 2 * 16 * 128 + 32 * 128, UINT64_C(32) * 128 * 128, 0, 0, 0, 1},
        {"Qwen3.6-27B-NVFP4.config.json", 48, 3, 2 * 16 * 128 + 48 * 128, UINT64_C(48) * 128 * 128, 0, 0, 0, 1},
        {"granite-4.0-h-tiny.facts.json", 36, 3, 3072 + 2 * 128, UINT64_C(3072) * 128, 0, 0, 0, 0},
        {"mamba2-130m.facts.json", 24, 3, 1536 + 2 * 128, UINT64_C(1536) * 128, 0, 0, 0, 0},
        {"DeepSeek-V3.2.config.json", 0, 0, 0, 0, 61 * 128, 0, 0, 1},
        {"GLM-5.config.json", 0, 0, 0, 0, 78 * 128, 0, 0, 1},
        {"DeepSeek-V3.config.json", 0, 0, 0, 0, 0, 0, 0, 1},
        {"Llama-3.2-11B-Vision.config.json", 0, 0, 0, 0, 0, 8, 4 * (40 * 40 + 1), 0},
    };
    for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) {
        char below[300], path[700];
        (void)snprintf(below, sizeof below, "data/models/%s", kept[k].file);
        if (!shared_path(path, sizeof path, below)) skip();
        impmem_model *model = read_path(path);
        const impmem_model_shape *s = impmem_model_shape_of(model);
        uint32_t recurrent = 0, index = 0, cross = 0;
        for (uint32_t i = 0; i < s->n_layers; i++) {
            const impmem_layer_shape *layer = &s->layer[i];
            index += layer->index_dim;
            if (layer->kind == IMPMEM_LAYER_CROSS) {
                cross++;
                assert_int_equal(layer->cross_tokens, kept[k].cross_tokens);
                assert_int_equal(layer->kv_heads * (layer->k_dim + layer->v_dim), 8 * 2 * 128);
            }
            if (layer->recurrent == IMPMEM_RECURRENT_NONE) continue;
            recurrent++;
            assert_int_equal(layer->conv_kernel, kept[k].conv_columns + 1);
            assert_int_equal(layer->conv_channels, kept[k].channels);
            assert_int_equal(layer->state_elements, kept[k].elements);
            assert_int_equal(layer->kind, IMPMEM_LAYER_NO_ATTENTION);
        }
        if (recurrent != kept[k].recurrent || index != kept[k].index || cross != kept[k].cross ||
            s->draft_layers != kept[k].draft) {
            fail_msg("%s: %u states, %u index elements, %u image layers, %u draft layers", kept[k].file, recurrent, index,
                     cross, s->draft_layers);
        }
        impmem_model_destroy(model);
    }
}

/* The value column of row `id` of the measured table, in MiB. */
static double measured(const char *table, const char *id)
{
    const char *at = strstr(table, id);
    assert_non_null(at);
    for (int comma = 0; comma < 11; comma++) {
        at = strchr(at, ',');
        assert_non_null(at);
        at++;
    }
    return strtod(at, NULL);
}

/* Recurrent state as llama.cpp reported it: f32, one cell a sequence slot, 1 + draft tokens copies. */
static void recurrent_state_is_what_an_engine_reported(void **state)
{
    (void)state;
    static const struct {
        const char *conv, *matrix, *total; /* ids of rows, or NULL */
        const char *file;                  /* NULL: the geometry that the row's notes state */
        uint32_t copies;
    } rows[] = {{"v140,", "v141,", "v139,", "Qwen3.5-27B.config.json", 3},
                {NULL, NULL, "v144,", "Qwen3.6-27B-NVFP4.config.json", 7},
                {"v152,", "v153,", "v151,", NULL, 4},
                {"v155,", "v156,", "v154,", "Qwen3.5-35B-A3B.config.json", 4}};
    static const char nine[] =
        "{\"model_type\": \"qwen3_5_text\", \"hidden_size\": 4096, \"intermediate_size\": 12288, \"num_hidden_layers\": "
        "32, "
        "\"num_attention_heads\": 16, \"num_key_value_heads\": 4, \"head_dim\": 256, \"vocab_size\": 248320, "
        "\"full_attention_interval\": 4, \"linear_conv_kernel_dim\": 4, \"linear_num_key_heads\": 16, "
        "\"linear_num_value_heads\": 32, \"linear_key_head_dim\": 128, \"linear_value_head_dim\": 128}";
    const double half_unit = 0.005 + 1e-9; /* of the second decimal: 16.875 was printed as 16.88 */
    char path[700];
    if (!shared_path(path, sizeof path, "data/memory/measured.csv")) skip();
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *table = calloc(1, 1 << 20);
    assert_non_null(table);
    assert_true(fread(table, 1, (1 << 20) - 1, file) > 10000);
    (void)fclose(file);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        char below[300];
        (void)snprintf(below, sizeof below, "data/models/%s", rows[k].file ? rows[k].file : "Qwen3.5-27B.config.json");
        if (!shared_path(path, sizeof path, below)) skip();
        impmem_model *model = rows[k].file ? read_path(path) : read_json(nine);
        const impmem_model_shape *s = impmem_model_shape_of(model);
        double conv = 0, matrix = 0;
        for (uint32_t i = 0; i < s->n_layers; i++) {
            if (!s->layer[i].recurrent) continue;
            conv += 4.0 * (s->layer[i].conv_kernel - 1) * s->layer[i].conv_channels * rows[k].copies / 1048576;
            matrix += 4.0 * (double)s->layer[i].state_elements * rows[k].copies / 1048576;
        }
        if (rows[k].conv) assert_true(fabs(conv - measured(table, rows[k].conv)) <= half_unit);
        if (rows[k].matrix) assert_true(fabs(matrix - measured(table, rows[k].matrix)) <= half_unit);
        assert_true(fabs(conv + matrix - measured(table, rows[k].total)) <= half_unit);
        impmem_model_destroy(model);
    }
    free(table);
}

/* ---- sizes ---- */

static void link_into(const char *dir, const char *name, const char *below)
{
    char target[700], path[800];
    assert_true(shared_path(target, sizeof target, below));
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    char *real = realpath(target, NULL);
    assert_non_null(real);
    assert_int_equal(symlink(real, path), 0);
    free(real);
}

/* metadata.total_size of published indexes; what the geometry implies is the same to the byte, but for 224 bytes of
 * markers in the bitsandbytes one, which the estimate counts as well. */
static void a_published_index_gives_its_total_and_the_estimate_meets_it_to_the_byte(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        uint64_t total;
        uint64_t tensors;
    } indexed[] = {{"Devstral-Small-2507", UINT64_C(47144806400), 363},
                   {"Llama-3.1-8B-Instruct-bnb8", UINT64_C(9086705888), 739},
                   {"Phi-3-mini-4k-SLERP", UINT64_C(7642159104), 195},
                   {"Qwen3-14B-MLX-4bit", UINT64_C(8307783680), 1007},
                   {"Reflection-Llama-3.1-70B", UINT64_C(282215219200), 723},
                   {"SmolLM3-3B", UINT64_C(6150197248), 326},
                   {"WizardLM-2-8x22B", UINT64_C(281241268224), 1739},
                   {"gemma-2b-it", UINT64_C(5012344832), 164}};
    char probe[700];
    if (!shared_path(probe, sizeof probe, "data/models/index")) skip();
    for (size_t i = 0; i < sizeof indexed / sizeof *indexed; i++) {
        char below[300], dir[700];
        (void)snprintf(dir, sizeof dir, "%s", scratch_path(indexed[i].model));
        assert_int_equal(mkdir(dir, 0700), 0);
        (void)snprintf(below, sizeof below, "data/models/%s.config.json", indexed[i].model);
        link_into(dir, "config.json", below);
        impmem_model *model = read_path(dir);
        assert_int_equal(impmem_model_shape_of(model)->weight_source, IMPMEM_SOURCE_ESTIMATED);
        assert_int_equal(impmem_model_shape_of(model)->weight_bytes, indexed[i].total);
        impmem_model_destroy(model);
        (void)snprintf(below, sizeof below, "data/models/index/%s.model.safetensors.index.json", indexed[i].model);
        link_into(dir, "model.safetensors.index.json", below);
        model = read_path(dir);
        assert_int_equal(impmem_model_shape_of(model)->weight_source, IMPMEM_SOURCE_READ);
        assert_int_equal(impmem_model_shape_of(model)->weight_bytes, indexed[i].total);
        assert_int_equal(impmem_model_shape_of(model)->n_tensors, indexed[i].tensors);
        assert_false(has_note(model, "the geometry implies"));
        impmem_model_destroy(model);
    }
}

static void published_parameter_counts_are_met_exactly(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        uint64_t parameters; /* as the model's publisher states them */
        uint32_t bytes;
    } counted[] = {{"Llama-3.1-8B", UINT64_C(8030261248), 2},
                   {"Llama-3.2-1B", UINT64_C(1235814400), 2},
                   {"Llama-3.1-405B", UINT64_C(405853388800), 2},
                   {"Llama-2-7b-hf", UINT64_C(6738415616), 2},
                   {"Qwen3-8B", UINT64_C(8190735360), 2},
                   {"Qwen3-30B-A3B", UINT64_C(30532122624), 2},
                   {"Qwen3-235B-A22B", UINT64_C(235093634560), 2},
                   {"Qwen2.5-7B", UINT64_C(7615616512), 2},
                   {"Qwen2.5-0.5B", UINT64_C(494032768), 2},
                   {"Mixtral-8x7B-v0.1", UINT64_C(46702792704), 2},
                   {"gemma-3-1b-it", UINT64_C(999885952), 2},
                   {"gemma-2-2b", UINT64_C(2614341888), 4},
                   {"Phi-3.5-MoE-instruct", UINT64_C(41873153344), 2},
                   {"granite-3.1-1b-a400m-instruct", UINT64_C(1334628352), 2},
                   {"phi-4", UINT64_C(14659507200), 2},
                   {"command-r-v01-35B-trimmed", UINT64_C(34980831232), 2},
                   {"glm-4-9b", UINT64_C(9399951360), 2},
                   {"Llama-3.2-11B-Vision", UINT64_C(10670220835), 2},
                   {"Qwen2.5-VL-7B-Instruct", UINT64_C(8292166656), 2},
                   {"gemma-3-4b-it", UINT64_C(4300079472), 2},
                   {"gemma-3-27b-it", UINT64_C(27432406640), 2}};
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        char below[300], path[700];
        const char *kind = strcmp(counted[i].model, "gemma-3-4b-it") == 0 ? "facts" : "config";
        (void)snprintf(below, sizeof below, "data/models/%s.%s.json", counted[i].model, kind);
        if (!shared_path(path, sizeof path, below)) skip();
        impmem_model *model = read_path(path);
        if (impmem_model_shape_of(model)->weight_bytes != counted[i].parameters * counted[i].bytes) {
            fail_msg("%s: found %llu bytes", counted[i].model,
                     (unsigned long long)impmem_model_shape_of(model)->weight_bytes);
        }
        impmem_model_destroy(model);
    }
}

/* Models of state layers whose exact count is not to hand: matrix by matrix, and near what the publisher rounds it to. */
static void the_parameters_of_state_layers_are_those_of_their_matrices(void **state)
{
    (void)state;
    /* Mamba-2, hidden 768, inner 1536 in 24 heads, one group of 128: projections, convolution with bias, decay, skip and
     * step, two norms; tied embedding. */
    const uint64_t two = 768 * (2 * 1536 + 2 * 128 + 24) + 1536 * 768 + 5 * (1536 + 256) + 3 * 24 + 1536 + 768;
    const uint64_t mamba2 = 50288 * 768 + 768 + 24 * two;
    /* Jamba, hidden 4096, inner 8192, state 16, step of rank 256 with norms of it, B and C. */
    const uint64_t d = 4096, n = 8192, mixed = 256 + 2 * 16, mlp = 3 * d * 14336;
    const uint64_t one = d * 2 * n + 5 * n + n * mixed + 256 * n + n + 16 * n + n + n * d + mixed;
    const uint64_t attention = 2 * d * d + 2 * d * 1024;
    const uint64_t jamba = 2 * 65536 * d + d + 32 * 2 * d + 28 * one + 4 * attention + 16 * mlp + 16 * 16 * (d + mlp);
    /* LFM2, hidden 2048, 10 convolutions of 3 columns, 6 attentions with norms of Q and K, feed-forward of 8192. */
    const uint64_t w = 2048, lfm2 = 65536 * w + w + 16 * (2 * w + 3 * w * 8192) + 10 * (4 * w * w + 3 * w) +
                                    6 * (2 * w * w + 2 * w * 512 + 2 * 64);
    /* Granite 4 tiny, hidden 1536, inner 3072 in 48 heads, 64 experts of 512 and a shared one of 1024 in every layer. */
    const uint64_t h = 1536, gm = h * (2 * 3072 + 256 + 48) + 3072 * h + 5 * (3072 + 256) + 3 * 48 + 3072;
    const uint64_t granite = 100352 * h + h + 40 * (2 * h + 64 * h + 64 * 3 * h * 512 + 3 * h * 1024) + 36 * gm +
                             4 * (2 * h * h + 2 * h * 512);
    const struct {
        const char *file;
        uint64_t parameters, published, within;
        uint32_t bytes;
    } counted[] = {{"mamba2-130m.facts.json", mamba2, UINT64_C(130000000), UINT64_C(2000000), 4},
                   {"Jamba-v0.1.facts.json", jamba, UINT64_C(52000000000), UINT64_C(500000000), 2},
                   {"LFM2-1.2B.config.json", lfm2, UINT64_C(1170000000), UINT64_C(5000000), 2},
                   {"granite-4.0-h-tiny.facts.json", granite, UINT64_C(7000000000), UINT64_C(100000000), 2}};
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        char below[300], path[700];
        (void)snprintf(below, sizeof below, "data/models/%s", counted[i].file);
        if (!shared_path(path, sizeof path, below)) skip();
        impmem_model *model = read_path(path);
        const uint64_t found = impmem_model_shape_of(model)->weight_bytes / counted[i].bytes;
        assert_int_equal(found, counted[i].parameters);
        assert_true(found + counted[i].within >= counted[i].published && found <= counted[i].published + counted[i].within);
        impmem_model_destroy(model);
    }
}

/* Cards of builds that hold the tower in 16 bits and no prediction layer. What they are above the estimate is two bytes
 * for each element of a few vectors, which such builds keep in f32: the decay of every head of a state, the correction
 * of every expert. */
static void the_cards_of_hybrid_and_sparse_models_are_met_but_for_vectors_in_f32(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        uint32_t bits;
        uint64_t stored;
        uint64_t vectors; /* elements that take two bytes more */
    } cards[] = {{"Qwen3.5-27B", 4, UINT64_C(16054266848), 48 * 48},
                 {"Qwen3.5-27B", 8, UINT64_C(29500943328), 48 * 48},
                 {"Qwen3.5-35B-A3B", 8, UINT64_C(37721130592), 30 * 32},
                 {"GLM-5", 0, UINT64_C(1487822475264), 75 * 256},
                 {"Nemotron-3-Nano-30B-A3B-BF16", 0, UINT64_C(63155889408), 23 * (64 + 128)}};
    for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
        char below[300], path[700];
        (void)snprintf(below, sizeof below, "data/models/%s.config.json", cards[i].model);
        if (!shared_path(path, sizeof path, below)) skip();
        json_t *config = json_load_file(path, 0, NULL);
        assert_non_null(config);
        if (cards[i].bits) {
            assert_int_equal(json_object_set_new(config, "quantization",
                                                 json_pack("{s:i, s:i}", "bits", (int)cards[i].bits, "group_size", 64)),
                             0);
        }
        json_t *text = json_object_get(config, "text_config") ? json_object_get(config, "text_config") : config;
        (void)json_object_del(text, "mtp_num_hidden_layers");
        (void)json_object_del(text, "num_nextn_predict_layers");
        char *dumped = json_dumps(config, 0);
        impmem_model *model = read_json(dumped);
        assert_int_equal(impmem_model_shape_of(model)->weight_bytes + 2 * cards[i].vectors, cards[i].stored);
        assert_int_equal(impmem_model_shape_of(model)->draft_layers, 0);
        impmem_model_destroy(model);
        free(dumped);
        json_decref(config);
    }
}

/* An index that names no prediction layer, for a config that promises one: the files count. */
static void an_index_without_prediction_layers_has_none(void **state)
{
    (void)state;
    const uint64_t total = UINT64_C(37087995136);
    /* A layer with full attention and experts, and a projection of two inputs with three norms. */
    const uint64_t d = 2048, heads = 16, kv = 2, dim = 256, experts = 128, width = 512;
    const uint64_t draft = 2 * (3 * heads * dim * d + 2 * kv * dim * d + 2 * dim + 2 * d + experts * d +
                                (experts + 1) * 3 * d * width + d + 2 * d * d + 3 * d);
    char probe[700];
    if (!shared_path(probe, sizeof probe, "data/models/index")) skip();
    char dir[700];
    (void)snprintf(dir, sizeof dir, "%s", scratch_path("reap"));
    assert_int_equal(mkdir(dir, 0700), 0);
    link_into(dir, "config.json", "data/models/Qwen3.5-18B-REAP-A3B.config.json");
    impmem_model *model = read_path(dir);
    assert_int_equal(impmem_model_shape_of(model)->weight_bytes, total + draft);
    assert_int_equal(impmem_model_shape_of(model)->draft_layers, 1);
    assert_true(has_note(model, "of the estimate are 1 multi-token-prediction layers"));
    impmem_model_destroy(model);
    link_into(dir, "model.safetensors.index.json", "data/models/index/Qwen3.5-18B-REAP-A3B.model.safetensors.index.json");
    model = read_path(dir);
    assert_int_equal(impmem_model_shape_of(model)->weight_bytes, total);
    assert_int_equal(impmem_model_shape_of(model)->draft_layers, 0);
    assert_int_equal(impmem_model_shape_of(model)->n_tensors, 15973);
    /* Parts are given only where the geometry meets the total. */
    assert_int_equal(impmem_model_shape_of(model)->output_bytes, 2 * UINT64_C(248320) * 2048);
    assert_false(has_note(model, "the geometry implies"));
    impmem_model_destroy(model);
}

/* Sizes that a distributor's cards state for MLX builds. The three given to the byte are met to the byte; the others
 * were rounded by their authors (GB written as GiB among them), always upwards: the estimate is at most the card and at
 * least 90 % of it. */
static void the_cards_of_a_distributor_are_met_within_their_rounding(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        uint32_t bits; /* 0 = as it is */
        uint64_t stored;
        int exact;
    } cards[] = {{"Llama-3.1-70B", 0, UINT64_C(141107412992), 1}, {"Llama-3.1-70B", 4, UINT64_C(39688355840), 1},
                 {"Llama-3.1-70B", 8, UINT64_C(74964549632), 1},  {"Llama-3.1-8B", 4, UINT64_C(4637851648), 0},
                 {"Llama-3.1-8B", 8, UINT64_C(8954839040), 0},    {"Llama-3.2-1B", 4, UINT64_C(729808896), 0},
                 {"Llama-3.2-3B", 8, UINT64_C(3501195264), 0},    {"Qwen3-30B-A3B", 4, UINT64_C(17612931072), 0},
                 {"Qwen3-0.6B", 4, UINT64_C(342884352), 0},       {"Qwen3-235B-A22B", 8, UINT64_C(268435456000), 0}};
    for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
        char below[300], path[700];
        (void)snprintf(below, sizeof below, "data/models/%s.config.json", cards[i].model);
        if (!shared_path(path, sizeof path, below)) skip();
        json_t *config = json_load_file(path, 0, NULL);
        assert_non_null(config);
        if (cards[i].bits) {
            assert_int_equal(json_object_set_new(config, "quantization",
                                                 json_pack("{s:i, s:i}", "bits", (int)cards[i].bits, "group_size", 64)),
                             0);
        }
        char *text = json_dumps(config, 0);
        impmem_model *model = read_json(text);
        uint64_t bytes_found = impmem_model_shape_of(model)->weight_bytes;
        if (cards[i].exact) assert_int_equal(bytes_found, cards[i].stored);
        assert_true(bytes_found <= cards[i].stored && bytes_found >= cards[i].stored / 10 * 9);
        impmem_model_destroy(model);
        free(text);
        json_decref(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_config_plans_or_is_refused_by_name),
        cmocka_unit_test(every_gguf_plans_or_is_refused_by_name),
        cmocka_unit_test(a_published_index_gives_its_total_and_the_estimate_meets_it_to_the_byte),
        cmocka_unit_test(layers_keep_the_states_indices_and_images_that_their_config_implies),
        cmocka_unit_test(recurrent_state_is_what_an_engine_reported),
        cmocka_unit_test(published_parameter_counts_are_met_exactly),
        cmocka_unit_test(the_parameters_of_state_layers_are_those_of_their_matrices),
        cmocka_unit_test(the_cards_of_hybrid_and_sparse_models_are_met_but_for_vectors_in_f32),
        cmocka_unit_test(an_index_without_prediction_layers_has_none),
        cmocka_unit_test(the_cards_of_a_distributor_are_met_within_their_rounding),
    };
    return cmocka_run_group_tests_name("model.shared_models", tests, scratch_open, scratch_close);
}
