/* The size of weights: stated by an index or by safetensors headers, else estimated to the byte from geometry and
 * format. */
#define _GNU_SOURCE
#include "unit/model/model_test.h"

#define LLAMA_8B                                                                                                           \
    "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"intermediate_size\": 14336, \"num_hidden_layers\": 32, "         \
    "\"vocab_size\": 128256, \"num_attention_heads\": 32, \"num_key_value_heads\": 8"

static void expect_bytes(const char *config, uint64_t expected, uint64_t largest)
{
    impmem_model *model = read_json(config);
    assert_int_equal(impmem_model_shape_of(model)->weight_source, IMPMEM_SOURCE_ESTIMATED);
    assert_int_equal(impmem_model_shape_of(model)->weight_bytes, expected);
    if (largest) assert_int_equal(impmem_model_shape_of(model)->largest_weight_elements, largest);
    impmem_model_destroy(model);
}

/* Of a Llama 8B: elements of the projections, of embedding plus head, of the norms. */
#define LINEAR (UINT64_C(32) * (2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 14336 * 4096))
#define OUTER (UINT64_C(2) * 128256 * 4096)
#define NORMS (UINT64_C(65) * 4096)

static void parameters_of_published_models_are_counted_exactly(void **state)
{
    (void)state;
    /* parameter counts as their publishers state them */
    expect_bytes(LLAMA_8B ", \"torch_dtype\": \"bfloat16\"}", UINT64_C(8030261248) * 2, UINT64_C(14336) * 4096);
    expect_bytes(LLAMA_8B ", \"torch_dtype\": \"float32\"}", UINT64_C(8030261248) * 4, 0);
    expect_bytes(
        "{\"model_type\": \"qwen3\", \"hidden_size\": 4096, \"intermediate_size\": 12288, \"num_hidden_layers\": 36, "
        "\"vocab_size\": 151936, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"head_dim\": 128, "
        "\"torch_dtype\": \"bfloat16\"}",
        UINT64_C(8190735360) * 2, 0);
    expect_bytes(
        "{\"model_type\": \"mixtral\", \"hidden_size\": 4096, \"intermediate_size\": 14336, \"num_hidden_layers\": 32, "
        "\"vocab_size\": 32000, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"num_local_experts\": 8, "
        "\"num_experts_per_tok\": 2, \"dtype\": \"float16\"}",
        UINT64_C(46702792704) * 2, 0);
    expect_bytes("{\"model_type\": \"gpt2\", \"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12, \"n_inner\": null, "
                 "\"vocab_size\": 50257, \"n_positions\": 1024, \"torch_dtype\": \"float32\"}",
                 UINT64_C(124439808) * 4, 0);
}

static void quantized_formats_take_their_scales(void **state)
{
    (void)state;
    uint64_t plain = (OUTER + NORMS) * 2;
    uint64_t rows = UINT64_C(32) * (4096 + 1024 + 1024 + 4096 + 14336 + 14336 + 4096);
    uint64_t columns = UINT64_C(32) * (6 * 4096 + 14336);
    uint64_t matrices = UINT64_C(32) * 7;
#define WITH(q) LLAMA_8B ", \"torch_dtype\": \"bfloat16\", \"quantization_config\": " q "}"
    expect_bytes(WITH("{\"quant_method\": \"fp8\", \"weight_block_size\": [128, 128]}"),
                 plain + LINEAR + LINEAR / (128 * 128) * 4, 0);
    expect_bytes(WITH("{\"quant_method\": \"fp8\"}"), plain + LINEAR + matrices * 4, 0);
    expect_bytes(WITH("{\"quant_method\": \"fbgemm_fp8\"}"), plain + LINEAR + rows * 4, 0);
    expect_bytes(WITH("{\"quant_method\": \"bitsandbytes\", \"load_in_8bit\": true}"), plain + LINEAR + rows * 4 + matrices,
                 0);
    expect_bytes(WITH("{\"quant_method\": \"bitsandbytes\", \"load_in_4bit\": true}"), plain + LINEAR / 2 + LINEAR / 64 * 4,
                 UINT64_C(14336) * 4096 / 2);
    expect_bytes(WITH("{\"quant_method\": \"bitsandbytes\", \"load_in_4bit\": true, \"bnb_4bit_use_double_quant\": true}"),
                 plain + LINEAR / 2 + LINEAR / 64, 0);
    /* a 16-bit scale and a 4-bit zero point for 128 columns */
    expect_bytes(WITH("{\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": 128}"),
                 plain + LINEAR / 2 + LINEAR / 128 * 20 / 8, 0);
    expect_bytes(WITH("{\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 128}"),
                 plain + LINEAR / 2 + LINEAR / 128 * 20 / 8 + columns * 4, 0);
    expect_bytes(WITH("{\"quant_method\": \"modelopt\", \"quant_algo\": \"NVFP4\"}"),
                 plain + LINEAR / 2 + LINEAR / 16 + matrices * 8, 0);
    expect_bytes(WITH("{\"quant_method\": \"modelopt\", \"quant_algo\": \"FP8\"}"), plain + LINEAR + matrices * 8, 0);
    uint64_t attention = UINT64_C(32) * (2 * 4096 * 4096 + 2 * 1024 * 4096), mlp = LINEAR - attention;
    expect_bytes(
        WITH("{\"quant_method\": \"modelopt\", \"quant_algo\": \"NVFP4\", \"ignore\": [\"model.layers.0.self_attn*\"]}"),
        plain + attention * 2 + mlp / 2 + mlp / 16 + UINT64_C(32) * 3 * 8, 0);
    expect_bytes(WITH("{\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"g\": {\"weights\": "
                      "{\"num_bits\": 4, \"type\": \"int\", \"group_size\": 128}}}}"),
                 plain + LINEAR / 2 + LINEAR / 128 * 2, 0);
    expect_bytes(WITH("{\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"g\": {\"weights\": "
                      "{\"num_bits\": 8, \"type\": \"float\"}}}}"),
                 plain + LINEAR + rows * 2, 0);
    /* MLX quantizes embeddings and head too: a 16-bit scale and bias for 64 columns */
    expect_bytes(WITH("{\"group_size\": 64, \"bits\": 4}"), (LINEAR + OUTER) / 2 + (LINEAR + OUTER) / 64 * 4 + NORMS * 2,
                 0);
    static const char *const useless[] = {WITH("{\"quant_method\": \"awq\"}"),
                                          WITH("{\"quant_method\": \"compressed-tensors\", \"config_groups\": {}}"),
                                          WITH("{\"quant_method\": \"modelopt\", \"quant_algo\": \"W4A8\"}")};
    for (size_t i = 0; i < sizeof useless / sizeof *useless; i++) expect_bytes(useless[i], UINT64_C(8030261248) * 2, 0);
    impmem_model *model = read_json(WITH("{\"quant_method\": \"unheard-of\"}"));
    assert_int_equal(impmem_model_shape_of(model)->weight_bytes, UINT64_C(8030261248) * 2);
    assert_true(has_note(model, "'unheard-of' is not known"));
    assert_true(has_note(model, "an upper bound"));
    impmem_model_destroy(model);
}

static void a_quantization_that_no_method_has_is_refused_by_key(void **state)
{
    (void)state;
    expect_json_refused(WITH("3"), IMPMEM_ERR_BAD_VALUE, "'quantization_config': found no object");
    expect_json_refused(WITH("{\"quant_method\": \"gptq\", \"bits\": 99}"), IMPMEM_ERR_BAD_VALUE,
                        "'quantization_config.bits': found 99, expected");
    expect_json_refused(WITH("{\"quant_method\": \"gptq\", \"bits\": -4}"), IMPMEM_ERR_BAD_VALUE, "found -4, expected");
    expect_json_refused(WITH("{\"quant_method\": \"awq\", \"w_bit\": 4.5}"), IMPMEM_ERR_BAD_VALUE, "found no integer");
    expect_json_refused(WITH("{\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": -2}"), IMPMEM_ERR_BAD_VALUE,
                        "'quantization_config.group_size': found -2");
    expect_json_refused(LLAMA_8B ", \"tie_word_embeddings\": 3}", IMPMEM_ERR_BAD_VALUE, "'tie_word_embeddings'");
}

static void weights_beyond_64_bits_are_refused(void **state)
{
    (void)state;
    expect_json_refused("{\"model_type\": \"llama\", \"hidden_size\": 2147483647, \"intermediate_size\": 2147483647, "
                        "\"num_hidden_layers\": 512, \"vocab_size\": 2147483647, \"num_attention_heads\": 1, "
                        "\"num_key_value_heads\": 1, \"head_dim\": 65535}",
                        IMPMEM_ERR_BAD_VALUE, "beyond 2^64");
}

/* ---- directories ---- */

static const char small[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 256, \"num_hidden_layers\": 4, "
    "\"vocab_size\": 1000, \"num_attention_heads\": 4, \"torch_dtype\": \"bfloat16\"}";

static const char *fresh_dir(const char *name)
{
    const char *path = scratch_path(name);
    assert_int_equal(mkdir(path, 0700), 0);
    return path;
}

static const char *in_dir(const char *dir, const char *name)
{
    static char path[2][900];
    static unsigned next;
    char *to = path[next++ % 2];
    (void)snprintf(to, sizeof path[0], "%s/%s", dir, name);
    return to;
}

static void put_file(const char *dir, const char *name, const char *text)
{
    write_file(in_dir(dir, name), text, strlen(text));
}

static void an_index_states_the_size(void **state)
{
    (void)state;
    const char *dir = fresh_dir("my-model");
    put_file(dir, "config.json", small);
    put_file(dir, "model.safetensors.index.json",
             "{\"metadata\": {\"total_size\": 123456}, \"weight_map\": {\"a\": \"f\", \"b\": \"f\"}}");
    impmem_model *model = read_path(dir);
    const impmem_model_shape *s = impmem_model_shape_of(model);
    assert_string_equal(s->name, "my-model");
    assert_string_equal(impmem_model_format(model), "safetensors index");
    assert_int_equal(s->weight_bytes, 123456);
    assert_int_equal(s->weight_source, IMPMEM_SOURCE_READ);
    assert_int_equal(s->n_tensors, 2);
    assert_int_equal(s->embedding_bytes, 0); /* the geometry does not fit the stated size, so its parts are not claimed */
    assert_true(has_note(model, "the files state 123456 bytes, the geometry implies"));
    impmem_model_destroy(model);
    put_file(dir, "model.safetensors.index.json", "{\"metadata\": {\"total_size\": 1.6e10}, \"weight_map\": {}}");
    model = read_path(dir);
    assert_int_equal(impmem_model_shape_of(model)->weight_bytes, UINT64_C(16000000000));
    impmem_model_destroy(model);
}

static void a_stated_size_that_the_geometry_meets_gives_its_parts(void **state)
{
    (void)state;
    const char *dir = fresh_dir("parts");
    put_file(dir, "config.json",
             "{\"model_type\": \"qwen3\", \"hidden_size\": 64, \"intermediate_size\": 256, \"num_hidden_layers\": 1, "
             "\"vocab_size\": 1000, \"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"head_dim\": 16, "
             "\"torch_dtype\": \"bfloat16\", \"tie_word_embeddings\": true, \"num_nextn_predict_layers\": 1}");
    const uint64_t layer = 4 * 64 * 64 + 3 * 64 * 256 + 2 * 64 + 2 * 16, draft = layer + 2 * 64 * 64 + 3 * 64;
    uint64_t total = 2 * (1000 * 64 + layer + 64 + draft);
    char text[160];
    (void)snprintf(text, sizeof text, "{\"metadata\": {\"total_size\": %u}, \"weight_map\": {\"mtp.fc.weight\": \"a\"}}",
                   (unsigned)total);
    put_file(dir, "model.safetensors.index.json", text);
    impmem_model *model = read_path(dir);
    assert_int_equal(impmem_model_shape_of(model)->weight_source, IMPMEM_SOURCE_READ);
    assert_int_equal(impmem_model_shape_of(model)->embedding_bytes, 2 * 1000 * 64);
    assert_int_equal(impmem_model_shape_of(model)->output_bytes, 0);
    assert_int_equal(impmem_model_shape_of(model)->tied_embeddings, 1);
    assert_int_equal(impmem_model_shape_of(model)->draft_layers, 1);
    assert_false(has_note(model, "the geometry implies"));
    impmem_model_destroy(model);
    /* A block beyond the last layer is one too; without such a name there is none, whatever the config says. */
    put_file(dir, "model.safetensors.index.json",
             "{\"metadata\": {\"total_size\": 1000}, \"weight_map\": {\"model.layers.1.eh_proj.weight\": \"a\"}}");
    model = read_path(dir);
    assert_int_equal(impmem_model_shape_of(model)->draft_layers, 1);
    impmem_model_destroy(model);
    (void)snprintf(text, sizeof text, "{\"metadata\": {\"total_size\": %u}, \"weight_map\": {\"model.layers.0.a\": \"a\"}}",
                   (unsigned)(total - 2 * draft));
    put_file(dir, "model.safetensors.index.json", text);
    model = read_path(dir);
    assert_int_equal(impmem_model_shape_of(model)->draft_layers, 0);
    assert_false(has_note(model, "the geometry implies"));
    impmem_model_destroy(model);
}

/* A group of modules that are named takes its own format; what no group names keeps the dtype. */
static void groups_that_name_their_modules_are_counted_apart(void **state)
{
    (void)state;
    impmem_model *model = read_json(
        "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 256, \"num_hidden_layers\": 1, "
        "\"vocab_size\": 1000, \"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"torch_dtype\": \"bfloat16\", "
        "\"quantization_config\": {\"quant_method\": \"modelopt\", \"config_groups\": {\"group_0\": {\"weights\": "
        "{\"num_bits\": 8, \"type\": \"float\"}, \"targets\": [\"model.layers.0.self_attn.q_proj\"]}, \"group_1\": "
        "{\"weights\": {\"num_bits\": 4, \"type\": \"float\", \"group_size\": 16}, \"targets\": "
        "[\"model.layers.0.mlp.up_proj\", \"lm_head\"]}}}}");
    const uint64_t plain = 2 * (1000 * 64 + 3 * 64), attention = 4 * (64 * 64 + 2 * 64);
    const uint64_t four = 3 * (64 * 256 / 2 + 64 * 256 / 16 + 8) + 1000 * 64 / 2 + 1000 * 64 / 16 + 8;
    assert_int_equal(impmem_model_shape_of(model)->weight_bytes, plain + attention + four);
    impmem_model_destroy(model);
}

static void an_audio_tower_is_noted_and_left_out(void **state)
{
    (void)state;
    static const char text[] = "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 256, "
                               "\"num_hidden_layers\": 1, \"vocab_size\": 1000, \"num_attention_heads\": 4%s}";
    uint64_t weights[2];
    for (int audio = 0; audio < 2; audio++) {
        char config[400];
        (void)snprintf(config, sizeof config, text, audio ? ", \"audio_config\": {\"hidden_size\": 8}" : "");
        impmem_model *model = read_json(config);
        weights[audio] = impmem_model_shape_of(model)->weight_bytes;
        assert_int_equal(has_note(model, "the audio tower is not in the estimate"), audio);
        impmem_model_destroy(model);
    }
    assert_int_equal(weights[0], weights[1]);
}

/* Names and bytes in safetensors headers tell the tower apart. */
static void a_tower_in_the_files_is_counted_by_its_own_tensors(void **state)
{
    (void)state;
    const char *dir = fresh_dir("tower");
    put_file(dir, "config.json",
             "{\"model_type\": \"gemma3\", \"mm_tokens_per_image\": 4, \"text_config\": {\"model_type\": \"gemma3_text\", "
             "\"hidden_size\": 64, \"intermediate_size\": 128, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
             "\"num_key_value_heads\": 2, \"sliding_window\": 8, \"vocab_size\": 100}, \"vision_config\": {\"model_type\": "
             "\"siglip_vision_model\", \"hidden_size\": 32, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, "
             "\"intermediate_size\": 48, \"patch_size\": 4, \"image_size\": 16}, \"torch_dtype\": \"float32\"}");
    bytes b = {NULL, 0, 0};
    put_text(&b, "{\"vision_tower.a\": {\"dtype\": \"U8\", \"shape\": [40], \"data_offsets\": [0, 40]}, "
                 "\"multi_modal_projector.b\": {\"dtype\": \"U8\", \"shape\": [2], \"data_offsets\": [40, 42]}, "
                 "\"model.layers.0.c\": {\"dtype\": \"U8\", \"shape\": [8], \"data_offsets\": [42, 50]}}");
    put_zeros(&b, 50);
    char path[800];
    (void)snprintf(path, sizeof path, "%s/model.safetensors", dir);
    write_file(path, b.at, b.n);
    drop(&b);
    impmem_model *model = read_path(dir);
    assert_int_equal(impmem_model_shape_of(model)->weight_bytes, 50);
    assert_int_equal(impmem_model_shape_of(model)->vision_weight_bytes, 42);
    assert_int_equal(impmem_model_shape_of(model)->vision_apart, 0);
    assert_int_equal(impmem_model_shape_of(model)->vision_tokens, 4);
    impmem_model_destroy(model);
    /* The text part alone: the files hold no tower. */
    put_text(&b, "{\"model.layers.0.c\": {\"dtype\": \"U8\", \"shape\": [8], \"data_offsets\": [0, 8]}}");
    put_zeros(&b, 8);
    write_file(path, b.at, b.n);
    drop(&b);
    model = read_path(dir);
    assert_int_equal(impmem_model_shape_of(model)->vision_weight_bytes, 0);
    assert_true(has_note(model, "the files hold no tower"));
    impmem_model_destroy(model);
}

static void an_index_that_states_nonsense_is_refused(void **state)
{
    (void)state;
    const char *dir = fresh_dir("bad-index");
    put_file(dir, "config.json", small);
    static const char *const totals[] = {"-1", "0", "\"5\"", "1.5", "1e300", "true", "[]"};
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++) {
        char text[160];
        (void)snprintf(text, sizeof text, "{\"metadata\": {\"total_size\": %s}, \"weight_map\": {}}", totals[i]);
        put_file(dir, "model.safetensors.index.json", text);
        expect_path_refused(dir, IMPMEM_ERR_BAD_VALUE, "'metadata.total_size'");
    }
    put_file(dir, "model.safetensors.index.json", "{\"metadata\": {\"total_size\": 5}}");
    expect_path_refused(dir, IMPMEM_ERR_MISSING_KEY, "'weight_map'");
    put_file(dir, "model.safetensors.index.json", "{");
    expect_path_refused(dir, IMPMEM_ERR_TRUNCATED, "JSON");
    put_file(dir, "model.safetensors.index.json", "{\"metadata\": null, \"weight_map\": {}}");
    impmem_model *model = read_path(dir); /* states nothing, and there are no files: estimated */
    assert_int_equal(impmem_model_shape_of(model)->weight_source, IMPMEM_SOURCE_ESTIMATED);
    impmem_model_destroy(model);
}

static bytes safetensors(const char *header, size_t data)
{
    bytes b = {NULL, 0, 0};
    put_text(&b, header); /* a u64 length and the text: the same prefix */
    put_zeros(&b, data);
    return b;
}

static void put_safetensors(const char *dir, const char *name, const char *header, size_t data)
{
    bytes b = safetensors(header, data);
    write_file(in_dir(dir, name), b.at, b.n);
    drop(&b);
}

static void safetensors_headers_are_added_up(void **state)
{
    (void)state;
    const char *dir = fresh_dir("headers");
    put_file(dir, "config.json", small);
    put_safetensors(dir, "model-00001-of-00002.safetensors",
                    "{\"__metadata__\": {\"format\": \"pt\"}, \"a\": {\"dtype\": \"BF16\", \"shape\": [2, 3], "
                    "\"data_offsets\": [0, 12]}, "
                    "\"b\": {\"dtype\": \"F32\", \"shape\": [], \"data_offsets\": [12, 16]}}",
                    16);
    put_safetensors(dir, "model-00002-of-00002.safetensors",
                    "{\"c\": {\"dtype\": \"F4\", \"shape\": [4], \"data_offsets\": [0, 2]}, "
                    "\"d\": {\"dtype\": \"I64\", \"shape\": [0, 7], \"data_offsets\": [2, 2]}}",
                    2);
    put_safetensors(dir, "adapter_model.safetensors", "not looked at", 0);
    impmem_model *model = read_path(dir);
    assert_string_equal(impmem_model_format(model), "safetensors");
    assert_int_equal(impmem_model_shape_of(model)->weight_bytes, 18);
    assert_int_equal(impmem_model_shape_of(model)->n_tensors, 4);
    impmem_model_destroy(model);
}

static void safetensors_headers_that_lie_are_refused(void **state)
{
    (void)state;
    const char *dir = fresh_dir("liars");
    put_file(dir, "config.json", small);
    static const struct {
        const char *header;
        size_t data;
        impmem_status status;
        const char *words;
    } bad[] = {
        {"{\"a\": {\"dtype\": \"BF17\", \"shape\": [2], \"data_offsets\": [0, 4]}}", 4, IMPMEM_ERR_BAD_VALUE,
         "found dtype BF17"},
        {"{\"a\": {\"shape\": [2], \"data_offsets\": [0, 4]}}", 4, IMPMEM_ERR_BAD_VALUE, "found dtype nothing"},
        {"{\"a\": {\"dtype\": \"BF16\", \"data_offsets\": [0, 4]}}", 4, IMPMEM_ERR_BAD_VALUE, "found no shape"},
        {"{\"a\": {\"dtype\": \"BF16\", \"shape\": [-2], \"data_offsets\": [0, 4]}}", 4, IMPMEM_ERR_BAD_VALUE, "no count"},
        {"{\"a\": {\"dtype\": \"BF16\", \"shape\": [4294967296, 4294967296], \"data_offsets\": [0, 4]}}", 4,
         IMPMEM_ERR_BAD_VALUE, "beyond 2^64"},
        {"{\"a\": {\"dtype\": \"BF16\", \"shape\": [2], \"data_offsets\": [0]}}", 4, IMPMEM_ERR_BAD_VALUE,
         "no data_offsets"},
        {"{\"a\": {\"dtype\": \"BF16\", \"shape\": [2], \"data_offsets\": [4, 0]}}", 4, IMPMEM_ERR_BAD_VALUE,
         "[4, 0], expected 4 bytes"},
        {"{\"a\": {\"dtype\": \"BF16\", \"shape\": [2], \"data_offsets\": [0, 8]}}", 8, IMPMEM_ERR_BAD_VALUE,
         "expected 4 bytes"},
        {"{\"a\": {\"dtype\": \"BF16\", \"shape\": [2], \"data_offsets\": [0, 4]}}", 3, IMPMEM_ERR_TRUNCATED,
         "the 3 bytes after"},
        {"{\"a\": {\"dtype\": \"BF16\", \"shape\": [2], \"data_offsets\": [0, 4]}}", 5, IMPMEM_ERR_BAD_FORMAT,
         "found 4 bytes in all"},
        {"{\"a\": {\"dtype\": \"BF16\", \"shape\": [2], \"data_offsets\": [0, 4]}, \"b\": {\"dtype\": \"BF16\", \"shape\": "
         "[2], "
         "\"data_offsets\": [0, 4]}}",
         4, IMPMEM_ERR_BAD_VALUE, "found 8 bytes in all, expected the 4"},
        {"[]", 0, IMPMEM_ERR_BAD_FORMAT, "found no '{'"},
        {"", 0, IMPMEM_ERR_BAD_FORMAT, "found no '{'"},
        {"{\"a\": ", 0, IMPMEM_ERR_TRUNCATED, "JSON"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_safetensors(dir, "model.safetensors", bad[i].header, bad[i].data);
        expect_path_refused(dir, bad[i].status, bad[i].words);
    }
    bytes b = {NULL, 0, 0};
    put_le(&b, 100000001, 8);
    write_file(in_dir(dir, "model.safetensors"), b.at, b.n);
    expect_path_refused(dir, IMPMEM_ERR_TOO_LARGE, "header length at byte 0");
    b.n = 0;
    put_le(&b, 1000, 8);
    write_file(in_dir(dir, "model.safetensors"), b.at, b.n);
    expect_path_refused(dir, IMPMEM_ERR_TRUNCATED, "found 1000");
    drop(&b);
}

static void every_cut_of_a_safetensors_file_is_refused(void **state)
{
    (void)state;
    const char *dir = fresh_dir("cuts");
    put_file(dir, "config.json", small);
    bytes b = safetensors("{\"a\": {\"dtype\": \"BF16\", \"shape\": [2, 3], \"data_offsets\": [0, 12]}}", 12);
    const char *path = in_dir(dir, "model.safetensors");
    for (size_t n = 0; n < b.n; n++) {
        write_file(path, b.at, n);
        expect_path_refused(dir, IMPMEM_ERR_TRUNCATED, "");
    }
    drop(&b);
}

static void a_quantization_file_beside_the_config_counts(void **state)
{
    (void)state;
    const char *dir = fresh_dir("modelopt");
    put_file(dir, "config.json", LLAMA_8B ", \"torch_dtype\": \"bfloat16\"}");
    put_file(dir, "hf_quant_config.json",
             "{\"quantization\": {\"quant_algo\": \"NVFP4\", \"group_size\": 16, \"exclude_modules\": [\"lm_head\"]}}");
    impmem_model *model = read_path(dir);
    assert_int_equal(impmem_model_shape_of(model)->weight_bytes,
                     (OUTER + NORMS) * 2 + LINEAR / 2 + LINEAR / 16 + UINT64_C(32) * 7 * 8);
    impmem_model_destroy(model);
    put_file(dir, "hf_quant_config.json", "{");
    expect_path_refused(dir, IMPMEM_ERR_TRUNCATED, "JSON");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_of_published_models_are_counted_exactly),
        cmocka_unit_test(quantized_formats_take_their_scales),
        cmocka_unit_test(a_quantization_that_no_method_has_is_refused_by_key),
        cmocka_unit_test(weights_beyond_64_bits_are_refused),
        cmocka_unit_test(an_index_states_the_size),
        cmocka_unit_test(a_stated_size_that_the_geometry_meets_gives_its_parts),
        cmocka_unit_test(groups_that_name_their_modules_are_counted_apart),
        cmocka_unit_test(an_audio_tower_is_noted_and_left_out),
        cmocka_unit_test(a_tower_in_the_files_is_counted_by_its_own_tensors),
        cmocka_unit_test(an_index_that_states_nonsense_is_refused),
        cmocka_unit_test(safetensors_headers_are_added_up),
        cmocka_unit_test(safetensors_headers_that_lie_are_refused),
        cmocka_unit_test(every_cut_of_a_safetensors_file_is_refused),
        cmocka_unit_test(a_quantization_file_beside_the_config_counts),
    };
    return cmocka_run_group_tests_name("model.hf_weights", tests, scratch_open, scratch_close);
}
