/* How a checkpoint stores its weights: torch_dtype and the many shapes of quantization_config. Used for estimates only,
 * so an unknown method falls back to the unquantized dtype, an upper bound, and says so. */
#include <stdio.h>
#include <string.h>

#include "model/hf.h"

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static uint32_t number_of(const json_t *object, const char *key, uint32_t otherwise)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value)) return otherwise;
    json_int_t n = json_integer_value(value);
    return n < 0 || n > 65536 ? otherwise : (uint32_t)n;
}

static const json_t *either(const json_t *text, const json_t *root, const char *key)
{
    const json_t *value = json_object_get(text, key);
    return value && !json_is_null(value) ? value : json_object_get(root, key);
}

static uint32_t dtype_bits(impmem__reading *reading, const json_t *root, const json_t *text)
{
    static const struct {
        const char *name;
        uint32_t bits;
    } known[] = {{"float32", 32}, {"float16", 16},      {"bfloat16", 16},
                 {"float64", 64}, {"float8_e4m3fn", 8}, {"float8_e5m2", 8}};
    const char *name = json_string_value(either(text, root, "torch_dtype"));
    if (!name) name = json_string_value(either(text, root, "dtype"));
    for (size_t i = 0; name && i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, name) == 0) return known[i].bits;
    }
    impmem__note(reading->model, "weights: torch_dtype is %s, two bytes an element assumed", name ? "unknown" : "missing");
    return 16;
}

static void set_linear(impmem__storage *storage, impmem__format format)
{
    storage->part[IMPMEM__PART_ATTENTION] = format;
    storage->part[IMPMEM__PART_MLP] = format;
    storage->part[IMPMEM__PART_EXPERT] = format;
    storage->part[IMPMEM__PART_STATE] = format;
}

/* Attention modules named in a list of modules that were left alone. */
static bool leaves_attention(const json_t *config)
{
    static const char *const keys[] = {"ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        size_t i;
        json_t *entry;
        json_array_foreach(json_object_get(config, keys[k]), i, entry)
        {
            const char *name = json_string_value(entry);
            if (name && strstr(name, "self_attn")) return true;
        }
    }
    return false;
}

static impmem__format fp8(const json_t *config)
{
    const json_t *block = json_object_get(config, "weight_block_size");
    impmem__format format = {.bits = 8, .packed = 1};
    json_int_t rows = json_integer_value(json_array_get(block, 0)), columns = json_integer_value(json_array_get(block, 1));
    if (rows > 0 && columns > 0 && rows <= 65536 && columns <= 65536) {
        format.block_rows = (uint32_t)rows;
        format.block_columns = (uint32_t)columns;
    } else {
        format.matrix_bytes = 4;
    }
    return format;
}

static bool bitsandbytes(const json_t *config, impmem__format *format)
{
    bool four = json_is_true(json_object_get(config, "load_in_4bit")) ||
                json_is_true(json_object_get(config, "_load_in_4bit"));
    bool eight = json_is_true(json_object_get(config, "load_in_8bit")) ||
                 json_is_true(json_object_get(config, "_load_in_8bit"));
    bool twice = json_is_true(json_object_get(config, "bnb_4bit_use_double_quant"));
    if (four) *format = (impmem__format){.bits = 4, .group = 64, .group_bits = twice ? 8 : 32, .packed = 2};
    else if (eight) *format = (impmem__format){.bits = 8, .row_bytes = 4, .matrix_bytes = 1, .packed = 1};
    return four || eight;
}

/* Integers in groups, as AWQ, GPTQ and pack-quantized checkpoints keep them: a 16-bit scale and a zero point a group. */
static bool grouped(const json_t *config, uint32_t column_bytes, bool zeros, impmem__format *format)
{
    uint32_t bits = number_of(config, "bits", number_of(config, "w_bit", number_of(config, "num_bits", 0)));
    uint32_t group = number_of(config, "group_size", number_of(config, "q_group_size", 0));
    if (bits == 0 || bits > 16) return false;
    *format = (impmem__format){.bits = bits,
                               .group = group,
                               .group_bits = 16 + (zeros ? bits : 0),
                               .column_bytes = column_bytes,
                               .packed = 32 / bits};
    if (group == 0) format->row_bytes = 2 + (zeros ? 1 : 0);
    return true;
}

static const impmem__format nvfp4 = {.bits = 4, .group = 16, .group_bits = 8, .matrix_bytes = 8, .packed = 2};
static const impmem__format mxfp4 = {.bits = 4, .group = 32, .group_bits = 8, .packed = 2};

static bool by_algorithm(const char *name, impmem__format *format)
{
    if (strcmp(name, "NVFP4") == 0) *format = nvfp4;
    else if (strcmp(name, "FP8") == 0) *format = (impmem__format){.bits = 8, .matrix_bytes = 8, .packed = 1};
    else return false;
    return true;
}

static bool group_format(const json_t *weights, impmem__format *format)
{
    uint32_t bits = number_of(weights, "num_bits", 0);
    bool real = strcmp(text_of(weights, "type"), "float") == 0;
    if (bits == 4 && real) *format = number_of(weights, "group_size", 16) == 32 ? mxfp4 : nvfp4;
    else if (bits == 8 && real) *format = (impmem__format){.bits = 8, .row_bytes = 2, .packed = 1};
    else return grouped(weights, 0, false, format);
    return true;
}

/* compressed-tensors: the first group that says how wide its weights are. */
static bool by_groups(const json_t *config, impmem__format *format)
{
    const char *name;
    json_t *entry;
    json_object_foreach(json_object_get(config, "config_groups"), name, entry)
    {
        if (group_format(json_object_get(entry, "weights"), format)) return true;
    }
    return false;
}

/* Groups that list their modules by name: each part takes the format of the group that names it. False where no group
 * does, and nothing was set. */
static bool by_targets(const json_t *config, impmem__storage *storage)
{
    static const struct {
        const char *word;
        impmem__part part;
    } words[] = {{".experts.", IMPMEM__PART_EXPERT},      {".mlp.", IMPMEM__PART_MLP},
                 {".self_attn.", IMPMEM__PART_ATTENTION}, {".linear_attn.", IMPMEM__PART_STATE},
                 {".mamba.", IMPMEM__PART_STATE},         {"lm_head", IMPMEM__PART_HEAD}};
    bool any = false;
    const char *name;
    json_t *entry;
    json_object_foreach(json_object_get(config, "config_groups"), name, entry)
    {
        impmem__format format;
        if (!group_format(json_object_get(entry, "weights"), &format)) continue;
        size_t i;
        json_t *target;
        json_array_foreach(json_object_get(entry, "targets"), i, target)
        {
            const char *module = json_string_value(target);
            for (size_t k = 0; module && k < sizeof words / sizeof *words; k++) {
                if (!strstr(module, words[k].word)) continue;
                storage->part[words[k].part] = format;
                any = true;
                break;
            }
        }
    }
    return any;
}

static bool read_method(const json_t *config, impmem__format *format)
{
    const char *method = text_of(config, "quant_method");
    const char *algorithm = text_of(config, "quant_algo");
    if (strcmp(method, "fp8") == 0) *format = fp8(config);
    else if (strcmp(method, "fbgemm_fp8") == 0) *format = (impmem__format){.bits = 8, .row_bytes = 4, .packed = 1};
    else if (strcmp(method, "bitsandbytes") == 0) return bitsandbytes(config, format);
    else if (strcmp(method, "awq") == 0) return grouped(config, 0, true, format);
    else if (strcmp(method, "gptq") == 0) return grouped(config, 4, true, format);
    else if (strcmp(method, "compressed-tensors") == 0) return by_groups(config, format);
    else return by_algorithm(algorithm, format) || (strcmp(method, "modelopt") == 0 && by_groups(config, format));
    return true;
}

/* MLX writes bits and group_size without a method, and quantizes embeddings and head too: a 16-bit scale and bias a
 * group. */
static bool mlx(const json_t *config, impmem__storage *storage)
{
    uint32_t bits = number_of(config, "bits", 0), group = number_of(config, "group_size", 0);
    if (text_of(config, "quant_method")[0] || bits == 0 || bits > 16 || group == 0) return false;
    bool fp4 = strcmp(text_of(config, "mode"), "mxfp4") == 0;
    impmem__format format = {.bits = bits, .group = group, .group_bits = fp4 ? 8 : 32, .packed = 32 / bits};
    for (uint32_t i = 0; i < IMPMEM__PART_COUNT; i++) storage->part[i] = format;
    return true;
}

/* Widths and group sizes that no method has; -1 is a group of the whole row. */
static impmem_status check_config(const impmem__reading *reading, const json_t *config)
{
    static const struct {
        const char *key;
        json_int_t min, max;
        const char *expected;
    } known[] = {{"bits", 1, 64, "an integer from 1 to 64"},
                 {"w_bit", 1, 64, "an integer from 1 to 64"},
                 {"group_size", -1, 65536, "an integer from -1 to 65536"},
                 {"q_group_size", -1, 65536, "an integer from -1 to 65536"}};
    if (config && !json_is_null(config) && !json_is_object(config))
        return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                              "key 'quantization_config': found no object, expected one");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const json_t *value = json_object_get(config, known[i].key);
        if (!value || json_is_null(value)) continue;
        const json_int_t n = json_is_integer(value) ? json_integer_value(value) : known[i].min - 1;
        if (n >= known[i].min && n <= known[i].max) continue;
        char what[32] = "no integer";
        if (json_is_integer(value)) snprintf(what, sizeof what, "%lld", (long long)n);
        return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                              "key 'quantization_config.%s': found %s, expected %s", known[i].key, what, known[i].expected);
    }
    return IMPMEM_OK;
}

impmem_status impmem__storage_read(impmem__reading *reading, const json_t *root, const json_t *text, const json_t *extra,
                                   impmem__storage *out)
{
    uint32_t bits = dtype_bits(reading, root, text);
    impmem__format plain = {.bits = bits, .packed = 1};
    out->vector_bytes = bits / 8;
    for (uint32_t i = 0; i < IMPMEM__PART_COUNT; i++) out->part[i] = plain;
    const json_t *config = either(text, root, "quantization_config");
    impmem_status st = check_config(reading, config);
    if (st) return st;
    if (!json_is_object(config)) config = either(text, root, "quantization");
    if (!json_is_object(config)) config = json_object_get(extra, "quantization");
    if (!json_is_object(config) || mlx(config, out)) return IMPMEM_OK;
    if (strcmp(text_of(config, "quant_method"), "mxfp4") == 0) {
        out->part[IMPMEM__PART_EXPERT] = mxfp4;
        return IMPMEM_OK;
    }
    if (by_targets(config, out)) return IMPMEM_OK;
    impmem__format format;
    if (!read_method(config, &format)) {
        impmem__note(reading->model,
                     "weights: quantization '%.40s' is not known, the unquantized dtype is assumed (an upper bound)",
                     text_of(config, "quant_method")[0] ? text_of(config, "quant_method") : text_of(config, "quant_algo"));
        return IMPMEM_OK;
    }
    set_linear(out, format);
    if (leaves_attention(config)) out->part[IMPMEM__PART_ATTENTION] = plain;
    return IMPMEM_OK;
}
