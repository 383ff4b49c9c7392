/* Memory that llama.cpp, ik_llama.cpp, vLLM and SGLang reported, row by row against `impmem plan MODEL --engine`: the table is
 * printed, and every row for KV, recurrent state, blocks and tokens is matched or named here with the reason why it can't be.
 *
 * A row's own columns and notes become the engine's arguments. The model is the config or the header of that model, or of a
 * sibling with the same geometry; where the data holds none, a config of the row's own columns. */
#define _GNU_SOURCE
#include "unit/command/command_run.h"

#include <math.h>

#include "impmem/engine_profile.h"
#include "support/header_dump.h"

enum { COLUMNS = 14, MAX_ROWS = 512 };
enum { ID, SOURCE, ENGINE, MODEL, LAYERS, KV_HEADS, HEAD_DIM, KV_DTYPE, CTX, BATCH, COMPONENT, VALUE, UNIT, NOTES };

typedef struct row {
    char text[1024];
    const char *column[COLUMNS];
} row;

static row rows[MAX_ROWS];
static size_t n_rows;
static char shared[600];

/* ---- the table ------------------------------------------------------------------------------------------------------ */

/* One CSV line in place; quotes hold commas, never quotes. */
static void split_row(row *r)
{
    char *at = r->text;
    for (int i = 0; i < COLUMNS; i++) {
        bool quoted = *at == '"';
        if (quoted) at++;
        r->column[i] = at;
        char *end = quoted ? strchr(at, '"') : at + strcspn(at, ",");
        assert_non_null(end);
        char next = quoted ? end[1] : *end;
        if (i + 1 < COLUMNS && next != ',') fail_msg("a row of %d columns: %s", i + 1, r->column[0]);
        if (i + 1 == COLUMNS && next != '\0') fail_msg("row %s: more than %d columns", r->column[0], COLUMNS);
        *end = '\0';
        at = quoted ? end + 2 : end + 1;
    }
}

static void read_table(void)
{
    char path[700];
    (void)snprintf(path, sizeof path, "%s/data/memory/measured.csv", shared);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char line[1024];
    assert_non_null(fgets(line, sizeof line, file));
    assert_int_equal(strncmp(line, "id,source,engine,model,n_layers,kv_heads,head_dim,kv_dtype,ctx,batch,component,", 78),
                     0);
    while (fgets(line, sizeof line, file)) {
        assert_true(n_rows < MAX_ROWS && strchr(line, '\n'));
        line[strcspn(line, "\r\n")] = '\0';
        (void)snprintf(rows[n_rows].text, sizeof rows[n_rows].text, "%s", line);
        split_row(&rows[n_rows++]);
    }
    (void)fclose(file);
}

static int has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* ---- models --------------------------------------------------------------------------------------------------------- */

/* The first row whose text begins the model's name counts. `file` NULL: dump number `dump`. */
static const struct {
    const char *model;
    const char *source; /* part of the row's source, or "" */
    unsigned dump;
    const char *file;
} models[] = {
    {"DeepSeek-Coder-V2-Lite-Instruct", "", 17, NULL},
    {"DeepSeek-R1-0528", "", 9, NULL},
    {"DeepSeek-R1", "PR #259", 10, NULL},
    {"DeepSeek-R1", "", 12, NULL},
    {"DeepSeek-V3-0324", "", 16, NULL},
    {"Kimi-K2-Instruct", "", 19, NULL},
    {"Gemma-3-27B-It", "", 24, NULL},
    {"GLM-Z1-Rumination-32B-0414", "", 4, NULL},
    {"GLM-Z1-32B-0414", "", 26, NULL},
    {"Llama-2-13", "", 27, NULL},
    {"Qwen3-32B", "", 32, NULL},
    {"Qwen3-235B-A22B", "issue #389", 37, NULL},
    {"Qwen3-235B-A22B", "issue #629", 35, NULL},
    {"Qwen3-235B-A22B", "discussion #357", 33, NULL},
    {"Qwen3-235B-A22B", "", 0, "Qwen3-235B-A22B.config.json"},
    {"Qwen3-30B-A3B", "ik_llama", 36, NULL},
    {"Qwen3-30B-A3B", "", 0, "Qwen3-30B-A3B.config.json"},
    {"48-layer Qwen3 MoE", "", 0, "Qwen3-30B-A3B.config.json"},
    {"gpt-oss-20b", "", 0, "gpt-oss-20b.config.json"},
    {"gemma-2-2b", "", 0, "gemma-2-2b.config.json"},
    {"Qwen2.5-7B-Instruct", "", 0, "Qwen2.5-7B.config.json"},
    {"Qwen3.5-35B-A3B", "", 0, "Qwen3.5-35B-A3B.config.json"},
    {"Qwen3.6-35B-A3B", "", 0, "Qwen3.5-35B-A3B.config.json"},
    {"Qwen3.6-27B", "", 0, "Qwen3.5-27B.config.json"},
    {"Qwen3.x-27B", "", 0, "Qwen3.5-27B.config.json"},
    {"Qwen3.8-27B", "", 0, "Qwen3.5-27B.config.json"},
    {"command-r-v01-35B", "", 0, "command-r-v01-35B-trimmed.config.json"},
    {"Llama-3.1-8B", "", 0, "Llama-3.1-8B.config.json"},
    {"Gemma-4-31B", "", 0, "Gemma-4-31B-IT-NVFP4.config.json"},
    {"QwQ-32B / Qwen2.5-32B", "", 0, "Qwen3-32B.config.json"}, /* 64 layers, 8 KV heads of 128, as theirs */
};

static unsigned number_of(const row *r, int column)
{
    char *end;
    unsigned long value = strtoul(r->column[column], &end, 10);
    if (*end || end == r->column[column]) fail_msg("row %s: \"%s\" is no number", r->column[ID], r->column[column]);
    return (unsigned)value;
}

/* The pattern of layers, every period-th of them full: {"a", "a", ..., "full_attention", ...}. */
static void layer_types(char *to, size_t size, const char *other, unsigned layers, unsigned period)
{
    size_t used = 0;
    for (unsigned i = 0; i < layers; i++)
        used += (size_t)snprintf(to + used, size - used, "%s\"%s\"", i ? ", " : "",
                                 (i + 1) % period == 0 ? "full_attention" : other);
    assert_true(used < size);
}

/* "full A / sliding B" */
static void two_numbers(const char *text, unsigned *full, unsigned *sliding)
{
    assert_int_equal(sscanf(text, "full %u / sliding %u", full, sliding), 2);
}

static const char *config_of_gemma4(const row *r)
{
    unsigned layers = number_of(r, LAYERS), heads_full, heads, dim_full, dim, window, full, sliding;
    two_numbers(r->column[KV_HEADS], &heads_full, &heads);
    two_numbers(r->column[HEAD_DIM], &dim_full, &dim);
    assert_int_equal(sscanf(r->column[NOTES], "window %u", &window), 1);
    const char *counts = strstr(r->column[NOTES], "8 full");
    assert_non_null(counts);
    assert_int_equal(sscanf(counts, "%u full + %u sliding", &full, &sliding), 2);
    assert_int_equal(full + sliding, layers);
    char types[4096], text[8192];
    layer_types(types, sizeof types, "sliding_attention", layers, layers / full);
    (void)snprintf(
        text, sizeof text,
        "{\"model_type\": \"gemma4_text\", \"num_hidden_layers\": %u, \"num_attention_heads\": 16, \"hidden_size\": 3840, "
        "\"intermediate_size\": 15360, \"vocab_size\": 262144, \"max_position_embeddings\": 131072, "
        "\"num_key_value_heads\": %u, \"num_global_key_value_heads\": %u, \"head_dim\": %u, \"global_head_dim\": %u, "
        "\"sliding_window\": %u, \"layer_types\": [%s], \"num_kv_shared_layers\": 0, \"attention_k_eq_v\": true, "
        "\"torch_dtype\": \"bfloat16\"}",
        layers, heads, heads_full, dim, dim_full, window, types);
    return write_text("gemma4.json", text);
}

static const char *config_of_qwen35(const row *r)
{
    unsigned layers = number_of(r, LAYERS), key, value, key_dim, value_dim, conv;
    const char *heads = strstr(r->column[NOTES], "linear heads ");
    assert_non_null(heads);
    assert_int_equal(
        sscanf(heads, "linear heads %u key, %u value, %u/%u, conv %u", &key, &value, &key_dim, &value_dim, &conv), 5);
    char types[4096], text[8192];
    layer_types(types, sizeof types, "linear_attention", layers, 4);
    (void)snprintf(
        text, sizeof text,
        "{\"model_type\": \"qwen3_5_text\", \"num_hidden_layers\": %u, \"num_attention_heads\": 16, \"hidden_size\": 4096, "
        "\"intermediate_size\": 12288, \"vocab_size\": 248320, \"max_position_embeddings\": 262144, "
        "\"num_key_value_heads\": %u, \"head_dim\": %u, \"layer_types\": [%s], \"full_attention_interval\": 4, "
        "\"linear_num_key_heads\": %u, \"linear_num_value_heads\": %u, \"linear_key_head_dim\": %u, "
        "\"linear_value_head_dim\": %u, \"linear_conv_kernel_dim\": %u, \"attn_output_gate\": true, "
        "\"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\"}",
        layers, number_of(r, KV_HEADS), number_of(r, HEAD_DIM), types, key, value, key_dim, value_dim, conv);
    return write_text("qwen35.json", text);
}

/* The file that tells the geometry of a row's model. */
static void model_path(const row *r, char *to, size_t size)
{
    if (has_prefix(r->column[MODEL], "gemma-4-12B")) {
        (void)snprintf(to, size, "%s", config_of_gemma4(r));
        return;
    }
    if (has_prefix(r->column[MODEL], "Qwen3.5-9B")) {
        (void)snprintf(to, size, "%s", config_of_qwen35(r));
        return;
    }
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        if (!has_prefix(r->column[MODEL], models[i].model) || !strstr(r->column[SOURCE], models[i].source)) continue;
        if (models[i].file) {
            (void)snprintf(to, size, "%s/data/models/%s", shared, models[i].file);
            return;
        }
        char table[700], name[32];
        (void)snprintf(table, sizeof table, "%s/data/gguf/header-dumps.tsv", shared);
        (void)snprintf(name, sizeof name, "dump-%u.gguf", models[i].dump);
        (void)snprintf(to, size, "%s", test_path(name));
        if (access(to, R_OK) != 0) assert_true(header_dump_write(table, models[i].dump, to) > 0);
        return;
    }
    fail_msg("row %s: no file tells the geometry of %s", r->column[ID], r->column[MODEL]);
}

/* ---- a row's arguments ---------------------------------------------------------------------------------------------- */

/* What the row itself doesn't say. Counts of blocks and tokens are those of the same log; where it prints none, the one count
 * whose pool and whose capacity both print as reported. */
static const struct {
    const char *ids;
    const char *more;
} beside[] = {
    {"v025 v026 v027 v111 v112", "split=1:1"},
    /* layers by device, as noted: 12, and 28 with the output layer */
    {"v158 v159", "split=12:29"},
    {"v165 v169", "blocks=1952"},
    {"v173 v174", "tokens=367404"},
    {"v176 v177 v178", "blocks=299"},
    {"v179 v180", "blocks=424"},
    {"v184 v185 v186", "blocks=17449,max_num_batched_tokens=4096"},
    /* an older version: whole blocks of each of four groups */
    {"v188", "capacity=group,blocks=1016"},
    {"v192", "blocks=2588"},
    {"v193 v195", "blocks=8192,block_size=64"},
    {"v194", "block_size=64"},
    {"v197 v198", "tokens=122420"},
    {"v204 v205", "tokens=46611"},
    {"v209", "swap=4GiB"},
};

/* Counts that are predicted from the size of the pool. That is printed with few digits, so the count lies between those of the
 * smallest and the largest pool that print the same. */
static const struct {
    const char *id;
    double pool, half; /* GiB */
} pools[] = {
    {"v166", 3.81, 0.005}, {"v172", 16.46, 0.01},                      /* K 8.23 + V 8.23 */
    {"v191", 5.05, 0.005}, {"v194", 48.0, 0.05},  {"v196", 11.2, 0.1}, /* K 5.6 + V 5.6 */
    {"v203", 2.84, 0.01},                                              /* K 1.42 + V 1.42 */
};

/* Rows that no rule can match. docs/engine-profiles.md says the same. */
static const struct {
    const char *id;
    const char *reason;
} unmatched[] = {
    {"v170", "8.11 GiB hold 180,935 tokens of 48,128 bytes; 178,880 were printed beside it"},
    {"v171", "178,880 tokens of 48,128 bytes take 8.018 GiB; 8.11 GiB were printed beside it"},
    {"v189",
     "2.27 x 262,144 tokens are 595,067; 207,264 were printed beside it, and the draft model's groups are not told"},
    {"v208", "neither the size of the pool nor the memory it came from was printed"},
};

static int in_list(const char *list, const char *id)
{
    return strstr(list, id) != NULL;
}

typedef struct arguments {
    char text[256];
    size_t used;
} arguments;

__attribute__((format(printf, 2, 3))) static void say(arguments *a, const char *fmt, ...)
{
    va_list list;
    if (a->used) a->text[a->used++] = ',';
    va_start(list, fmt);
    a->used += (size_t)vsnprintf(a->text + a->used, sizeof a->text - a->used, fmt, list);
    va_end(list);
    assert_true(a->used + 1 < sizeof a->text);
}

/* "KEY N" anywhere in the notes. */
static bool noted(const row *r, const char *pattern, unsigned *out)
{
    char word[32];
    (void)snprintf(word, sizeof word, "%.*s", (int)strcspn(pattern, "%"), pattern);
    for (const char *at = r->column[NOTES]; (at = strstr(at, word)) != NULL; at++)
        if (sscanf(at, pattern, out) == 1) return true;
    return false;
}

static void say_types(const row *r, arguments *a)
{
    char k[32], v[32], type[32];
    const char *text = r->column[KV_DTYPE];
    if (strcmp(text, "f32 state") == 0) return;
    if (sscanf(text, "K %31s / V %31s", k, v) == 2) {
        say(a, "type_k=%s,type_v=%s", k, v);
        return;
    }
    assert_int_equal(sscanf(text, "%31s", type), 1);
    say(a, "kv_type=%s", type);
}

static bool is_llama(const row *r)
{
    return strstr(r->column[ENGINE], "llama.cpp") != NULL;
}

static void say_llama(const row *r, arguments *a)
{
    unsigned n;
    char *end;
    unsigned long batch = strtoul(r->column[BATCH], &end, 10);
    if (batch > 0 && *end == '\0') say(a, "n_seq=%lu", batch);
    if (noted(r, "n_ubatch %u", &n)) say(a, "n_ubatch=%u", n);
    if (noted(r, "flash_attn %u", &n)) say(a, "flash_attn=%u", n);
    if (noted(r, "mla mode %u", &n) && n == 0) say(a, "mla=expanded");
    if (strstr(r->column[COMPONENT], "CUDA")) say(a, "cuda=1");
    if (noted(r, "MTP n_max %u", &n)) say(a, "draft=%u", n);
}

static void say_paged(const row *r, arguments *a)
{
    unsigned n;
    if (noted(r, "TP %u", &n)) say(a, "tp=%u", n);
    if (noted(r, "MTP %u draft", &n) || noted(r, "DFlash %u draft", &n)) say(a, "draft=%u", n);
}

static void arguments_of(const row *r, arguments *a)
{
    unsigned long ctx = strtoul(r->column[CTX], NULL, 10);
    memset(a, 0, sizeof *a);
    if (ctx > 0) say(a, "n_ctx=%lu", ctx);
    say_types(r, a);
    if (is_llama(r)) say_llama(r, a);
    else say_paged(r, a);
    for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++)
        if (in_list(beside[i].ids, r->column[ID])) say(a, "%s", beside[i].more);
}

/* ---- predictions ---------------------------------------------------------------------------------------------------- */

static const char *line_of(const row *r)
{
    static const struct {
        const char *component, *line;
    } names[] = {{"kv_total", "kv_total"},
                 {"kv_k", "kv_k"},
                 {"kv_v", "kv_v"},
                 {"kv_k_per_rank", "kv_k"},
                 {"kv_v_per_rank", "kv_v"},
                 {"kv_pool", "kv_total"},
                 {"kv_pool_per_rank", "kv_total"},
                 {"kv_full_total", "kv_full"},
                 {"kv_swa_total", "kv_swa"},
                 {"kv_swa_raw_total", "kv_swa"},
                 {"kv_buffer_CUDA0", "kv_device_0"},
                 {"kv_buffer_CUDA1", "kv_device_1"},
                 {"kv_mtp_draft", "kv_mtp_draft"},
                 {"recurrent_state_total", "recurrent_total"},
                 {"recurrent_conv_R", "recurrent_conv"},
                 {"recurrent_ssm_S", "recurrent_state"},
                 {"kv_blocks", "kv_blocks"},
                 {"kv_max_tokens", "kv_max_tokens"},
                 {"max_concurrency", "max_concurrency"},
                 {"attention_block_tokens", "block_tokens"},
                 {"mamba_page_padding", "page_padding"},
                 {"cpu_swap_blocks", "cpu_swap_blocks"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(r->column[COMPONENT], names[i].component) == 0) return names[i].line;
    return NULL;
}

/* Weights, scratch and what is left of a device are no part of an engine profile. */
static bool out_of_scope(const row *r)
{
    static const char *const prefixes[] = {"weights", "compute_buffer",    "device_used",
                                           "free_",   "peak_torch_memory", "non_torch_memory"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (has_prefix(r->column[COMPONENT], prefixes[i])) return true;
    return false;
}

static double in_unit(const row *r, double value)
{
    const char *unit = r->column[UNIT];
    if (strcmp(unit, "MiB") == 0) return value / 1048576;
    if (strcmp(unit, "GiB") == 0) return value / 1073741824;
    if (strcmp(unit, "percent") == 0) return value * 100;
    assert_true(strcmp(unit, "tokens") == 0 || has_prefix(unit, "blocks") || strcmp(unit, "x") == 0);
    return value;
}

/* By the library, for a shape that no reader makes. */
static double ask_of_shape(const row *r, const impmem_model_shape *shape, const char *args)
{
    static impmem_engine_profile profile;
    impmem_engine_profile_args a = IMPMEM_ENGINE_PROFILE_ARGS_INIT;
    impmem_engine_kind kind = is_llama(r) ? IMPMEM_ENGINE_LLAMA_CPP : IMPMEM_ENGINE_VLLM;
    assert_int_equal(impmem_engine_profile_parse_args(kind, args, &a, NULL), IMPMEM_OK);
    impmem_error why = IMPMEM_ERROR_INIT;
    if (impmem_engine_profile_predict(kind, shape, &a, &profile, &why)) fail_msg("row %s: %s", r->column[ID], why.message);
    const impmem_engine_profile_line *line = impmem_engine_profile_find(&profile, line_of(r));
    if (!line) fail_msg("row %s: no line %s", r->column[ID], line_of(r));
    return in_unit(r, (double)line->value / (line->unit == IMPMEM_ENGINE_UNIT_MILLIONTHS ? 1e6 : 1));
}

/* 43 layers of one latent row each over a window. The window, 128, is not in the row; the logged 4352 cells are
 * pad256(128 + 4096). */
static double ask_deepseek_v4(const row *r, const char *args)
{
    static impmem_model_shape shape = IMPMEM_MODEL_SHAPE_INIT;
    shape.n_layers = number_of(r, LAYERS);
    for (uint32_t i = 0; i < shape.n_layers; i++)
        shape.layer[i] = (impmem_layer_shape){
            .kind = IMPMEM_LAYER_WINDOW, .kv_heads = 1, .k_dim = number_of(r, HEAD_DIM), .window_tokens = 128};
    return ask_of_shape(r, &shape, args);
}

static uint32_t config_number(const json_t *config, const char *name)
{
    const json_t *value = json_object_get(config, name);
    if (!json_is_integer(value)) fail_msg("the config has no integer %s", name);
    return (uint32_t)json_integer_value(value);
}

/* A gated delta net, from the keys of its config. */
static void shape_of_delta_net(const char *path, impmem_model_shape *shape)
{
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    const json_t *text = json_object_get(root, "text_config") ? json_object_get(root, "text_config") : root;
    const uint32_t key = config_number(text, "linear_num_key_heads") * config_number(text, "linear_key_head_dim");
    const uint32_t value = config_number(text, "linear_num_value_heads") * config_number(text, "linear_value_head_dim");
    static const impmem_model_shape fresh = IMPMEM_MODEL_SHAPE_INIT;
    *shape = fresh;
    shape->n_layers = config_number(text, "num_hidden_layers");
    shape->trained_context = config_number(text, "max_position_embeddings");
    if (json_object_get(text, "mtp_num_hidden_layers")) shape->draft_layers = config_number(text, "mtp_num_hidden_layers");
    for (uint32_t i = 0; i < shape->n_layers; i++) {
        const char *type = json_string_value(json_array_get(json_object_get(text, "layer_types"), i));
        uint32_t dim = config_number(text, "head_dim");
        if (strcmp(type, "full_attention") == 0)
            shape->layer[i] = (impmem_layer_shape){.kind = IMPMEM_LAYER_FULL,
                                                   .kv_heads = config_number(text, "num_key_value_heads"),
                                                   .k_dim = dim,
                                                   .v_dim = dim};
        else
            shape->layer[i] = (impmem_layer_shape){.recurrent = IMPMEM_RECURRENT_DELTA_NET,
                                                   .conv_kernel = config_number(text, "linear_conv_kernel_dim"),
                                                   .conv_channels = 2 * key + value,
                                                   .state_elements = (uint64_t)value *
                                                                     config_number(text, "linear_key_head_dim")};
    }
    json_decref(root);
}

static double ask(const row *r, const char *args)
{
    char path[700];
    model_path(r, path, sizeof path);
    const char *engine = is_llama(r) ? r->column[ENGINE] : strcmp(r->column[ENGINE], "SGLang") == 0 ? "sglang" : "vllm";
    run("plan", path, "--engine", engine, "--engine-args", args, "--json");
    if (result.code == 3 && strstr(result.err, "gated delta net")) {
        static impmem_model_shape shape;
        shape_of_delta_net(path, &shape);
        return ask_of_shape(r, &shape, args);
    }
    if (result.code) fail_msg("row %s, %s: %s", r->column[ID], args, result.err);
    assert_answer(0);
    json_t *root = output_json();
    json_t *lines = json_object_get(root, "lines"), *line;
    size_t i;
    double value = NAN;
    json_array_foreach(lines, i, line)
    {
        if (strcmp(json_string_value(json_object_get(line, "name")), line_of(r)) == 0)
            value = json_number_value(json_object_get(line, "value"));
    }
    json_decref(root);
    if (isnan(value)) fail_msg("row %s: no line %s", r->column[ID], line_of(r));
    return in_unit(r, value);
}

static double half_unit(const char *printed)
{
    const char *dot = strchr(printed, '.');
    return dot ? 0.5 * pow(10, -(double)strlen(dot + 1)) : 0.5;
}

static const char *verdict(const char *printed, double predicted)
{
    double reported = strtod(printed, NULL), difference = fabs(predicted - reported);
    if (difference <= 1e-9 * reported) return "exact";
    if (difference <= half_unit(printed) * (1 + 1e-9) && half_unit(printed) < 0.5 + 1e-9) return "to the printed digit";
    if (difference <= 1e-3 * reported) return "within 0.1 %";
    return NULL;
}

/* A count from a pool that is printed with few digits. */
static const char *verdict_of_pool(const row *r, double pool, double half, double *middle)
{
    double count[3];
    for (int i = 0; i < 3; i++) {
        arguments a;
        arguments_of(r, &a);
        say(&a, "pool_bytes=%.0f", (pool + (i - 1) * half) * 1073741824);
        count[i] = ask(r, a.text);
    }
    double reported = strtod(r->column[VALUE], NULL);
    *middle = count[1];
    assert_true(count[0] <= count[1] && count[1] <= count[2]);
    return count[0] <= reported && reported <= count[2] ? "in the pool's printed digits" : NULL;
}

static const char *reason_of(const row *r)
{
    for (size_t i = 0; i < sizeof unmatched / sizeof unmatched[0]; i++)
        if (strcmp(unmatched[i].id, r->column[ID]) == 0) return unmatched[i].reason;
    return NULL;
}

static const char *judge(const row *r, double *predicted)
{
    for (size_t i = 0; i < sizeof pools / sizeof pools[0]; i++)
        if (strcmp(pools[i].id, r->column[ID]) == 0) return verdict_of_pool(r, pools[i].pool, pools[i].half, predicted);
    arguments a;
    arguments_of(r, &a);
    *predicted = has_prefix(r->column[MODEL], "DeepSeek-V4") ? ask_deepseek_v4(r, a.text) : ask(r, a.text);
    return verdict(r->column[VALUE], *predicted);
}

static int make_folders(void **state)
{
    return make_test_folder(state) || scratch_open(state);
}

static int remove_folders(void **state)
{
    return remove_test_folder(state) || scratch_close(state);
}

static void every_measured_row_is_matched_or_named_with_a_reason(void **state)
{
    (void)state;
    if (!shared_path(shared, sizeof shared, "")) skip();
    read_table();
    unsigned matched = 0, missed = 0, named = 0, outside = 0;
    print_message("%-5s %-12s %-34.34s %-22s %12s %12s %-9s %s\n", "row", "engine", "model", "component", "reported",
                  "predicted", "unit", "verdict");
    for (size_t i = 0; i < n_rows; i++) {
        const row *r = &rows[i];
        char predicted[32] = "-";
        const char *says = reason_of(r);
        if (out_of_scope(r)) {
            says = "not predicted";
            outside++;
        } else if (says) {
            named++;
        } else {
            if (!line_of(r)) fail_msg("row %s: no line is like %s", r->column[ID], r->column[COMPONENT]);
            double value = 0;
            says = judge(r, &value);
            (void)snprintf(predicted, sizeof predicted, "%.4f", value);
            if (says) matched++;
            else missed++;
        }
        print_message("%-5s %-12s %-34.34s %-22s %12s %12s %-9.9s %s\n", r->column[ID], r->column[ENGINE], r->column[MODEL],
                      r->column[COMPONENT], r->column[VALUE], predicted, r->column[UNIT], says ? says : "DIFFERS");
    }
    print_message("%zu rows: %u matched, %u explained, %u not predicted, %u differ\n", n_rows, matched, named, outside,
                  missed);
    assert_int_equal(missed, 0);
    assert_true(matched > 0);
    assert_int_equal(named, sizeof unmatched / sizeof unmatched[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_measured_row_is_matched_or_named_with_a_reason)};
    return cmocka_run_group_tests(tests, make_folders, remove_folders);
}
