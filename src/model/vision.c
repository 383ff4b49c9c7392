/* The vision tower that a config describes: its geometry, the tokens of one image, and its parameters, matrix by matrix
 * for the towers that are known. Another one is counted as a plain vision transformer, and noted. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "impmem/bytes.h"
#include "model/hf.h"

#define MOST 65535u

typedef struct tower {
    uint32_t width, layers, heads, feed_forward, patch, image, merge, temporal, channels, out;
    uint32_t positions; /* 0 = one a patch */
    uint32_t taps;      /* mergers of their own for inner layers */
    uint64_t tokens;    /* stated, or derived; of one image */
    uint64_t parameters;
    bool overflow;
} tower;

typedef struct look {
    impmem__reading *reading;
    const json_t *root;
    const json_t *config;
} look;

/* ---- keys ---- */

/* The first of up to three names that is there, from 1 to `max`. Absent leaves *out alone. */
static impmem_status number(const look *l, const json_t *object, const char *where, const char *const name[3], uint32_t max,
                            uint32_t *out)
{
    for (size_t i = 0; i < 3 && name[i]; i++) {
        const json_t *value = json_object_get(object, name[i]);
        if (!value || json_is_null(value)) continue;
        const json_int_t n = json_is_integer(value) ? json_integer_value(value) : 0;
        if (n >= 1 && n <= (json_int_t)max) {
            *out = (uint32_t)n;
            return IMPMEM_OK;
        }
        return impmem__refuse(&l->reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                              "key '%s%s': found %s %" JSON_INTEGER_FORMAT ", expected an integer from 1 to %u", where,
                              name[i], json_is_integer(value) ? "the integer" : "no integer,", n, max);
    }
    return IMPMEM_OK;
}

static impmem_status own(const look *l, const char *const name[3], uint32_t max, uint32_t *out)
{
    return number(l, l->config, "vision_config.", name, max, out);
}

static bool type_has(const look *l, const char *word)
{
    const char *inner = json_string_value(json_object_get(l->config, "model_type"));
    const char *outer = json_string_value(json_object_get(l->root, "model_type"));
    return (inner && strstr(inner, word)) || (outer && strstr(outer, word));
}

static double real_of(const json_t *object, const char *name, double otherwise)
{
    const json_t *value = json_object_get(object, name);
    const double number = json_is_number(value) ? json_number_value(value) : otherwise;
    return number > 0 && number <= 4096 ? number : otherwise;
}

static impmem_status read_figures(const look *l, tower *t)
{
    const bool qwen2 = type_has(l, "qwen2_vl");
    static const char *const width[3] = {"hidden_size", "width", NULL}, *const embed[3] = {"embed_dim", NULL, NULL};
    impmem_status st = own(l, qwen2 ? embed : width, MOST, &t->width);
    if (!st) st = own(l, (const char *const[3]){"num_hidden_layers", "depth", "layers"}, IMPMEM_MAX_LAYERS, &t->layers);
    if (!st) st = own(l, (const char *const[3]){"num_attention_heads", "num_heads", "attention_heads"}, MOST, &t->heads);
    if (!st) st = own(l, (const char *const[3]){"intermediate_size", NULL, NULL}, MOST, &t->feed_forward);
    if (!st) st = own(l, (const char *const[3]){"patch_size", NULL, NULL}, 4096, &t->patch);
    if (!st) st = own(l, (const char *const[3]){"image_size", NULL, NULL}, MOST, &t->image);
    if (!st) st = own(l, (const char *const[3]){"spatial_merge_size", NULL, NULL}, 64, &t->merge);
    if (!st) st = own(l, (const char *const[3]){"temporal_patch_size", NULL, NULL}, 64, &t->temporal);
    if (!st) st = own(l, (const char *const[3]){"in_channels", "in_chans", "num_channels"}, 64, &t->channels);
    if (!st) st = own(l, (const char *const[3]){"num_position_embeddings", NULL, NULL}, 1u << 24, &t->positions);
    if (!st) st = own(l, (const char *const[3]){"out_hidden_size", NULL, NULL}, MOST, &t->out);
    if (!st) st = number(l, l->root, "", (const char *const[3]){"spatial_merge_size", NULL, NULL}, 64, &t->merge);
    if (st) return st;
    if (t->feed_forward == 0) {
        const double wide = t->width * real_of(l->config, "mlp_ratio", 4);
        t->feed_forward = wide > MOST ? MOST : (uint32_t)wide;
    }
    const json_t *taps = json_object_get(l->config, "deepstack_visual_indexes");
    t->taps = json_array_size(taps) > 64 ? 64 : (uint32_t)json_array_size(taps);
    return IMPMEM_OK;
}

/* ---- parameters ---- */

/* count matrices of a x b. */
static void plus(tower *t, uint64_t count, uint64_t a, uint64_t b)
{
    uint64_t n = 0;
    if (impmem_mul(&n, a, b) || impmem_mul(&n, n, count) || impmem_add(&t->parameters, t->parameters, n))
        t->overflow = true;
}

static uint64_t patches(const tower *t)
{
    const uint64_t side = t->patch ? t->image / t->patch : 0;
    return side * side;
}

static void patch_embedding(tower *t, uint64_t extra)
{
    plus(t, (uint64_t)t->channels * t->temporal, (uint64_t)t->patch * t->patch, t->width);
    plus(t, extra, 1, t->width);
}

/* `biases` of attention and MLP, `norms` vectors a layer; a gated MLP has three matrices. */
static void blocks(tower *t, uint64_t layers, bool attention_bias, bool mlp_bias, bool gated, uint64_t norms)
{
    const uint64_t w = t->width, f = t->feed_forward, in = gated ? 2 : 1;
    plus(t, layers * 4, w, w);
    plus(t, layers * (in + 1), w, f);
    plus(t, layers, norms + (attention_bias ? 4 : 0) + (mlp_bias ? 1 : 0), w);
    if (mlp_bias) plus(t, layers, in, f);
}

/* Patches merged to one token: a norm, then two matrices with biases. */
static void merger(tower *t, uint64_t norm)
{
    const uint64_t wide = (uint64_t)t->width * t->merge * t->merge;
    plus(t, 1, 1, norm);
    plus(t, 1, wide, wide);
    plus(t, 1, t->out, wide);
    plus(t, 1, 1, wide + t->out);
}

static void count_qwen3(tower *t)
{
    const uint64_t wide = (uint64_t)t->width * t->merge * t->merge;
    patch_embedding(t, UINT64_C(1) + t->positions);
    blocks(t, t->layers, true, true, false, 4);
    merger(t, 2 * (uint64_t)t->width);
    for (uint32_t i = 0; i < t->taps; i++) merger(t, 2 * wide);
}

static void count_qwen2(tower *t, bool second_and_a_half)
{
    patch_embedding(t, 0);
    blocks(t, t->layers, true, true, second_and_a_half, second_and_a_half ? 2 : 4);
    merger(t, (second_and_a_half ? 1 : 2) * (uint64_t)t->width);
}

static void count_siglip(tower *t)
{
    patch_embedding(t, 1 + patches(t) + 2);
    blocks(t, t->layers, true, true, false, 4);
    plus(t, 1, t->out, t->width);
    plus(t, 1, 1, t->width);
}

/* Local and global layers; tiles have positions of their own, looked up by the image's aspect ratio. */
static void count_mllama(tower *t, uint64_t global, uint64_t tiles, uint64_t ratios, uint64_t kept)
{
    const uint64_t w = t->width, rows = patches(t) + 1;
    patch_embedding(t, 1 + rows + 4);
    plus(t, (ratios + 1) * tiles, rows, w);
    plus(t, 2 * (ratios + 1), tiles, w);
    plus(t, 1, 1, 3 + 2 * global); /* gates */
    blocks(t, t->layers + global, false, true, false, 4);
    plus(t, kept + 1, t->out, w);
    plus(t, 1, 1, t->out);
}

static void count_pixtral(tower *t)
{
    const uint64_t w = t->width;
    patch_embedding(t, 2);
    blocks(t, t->layers, false, false, true, 2);
    plus(t, (uint64_t)t->merge * t->merge, w, w);
    plus(t, 1, t->out, w);
    plus(t, 1, t->out, t->out);
}

static void count_gemma4(tower *t, uint64_t positions, uint64_t head_dim)
{
    patch_embedding(t, 2 * positions + 2);
    blocks(t, t->layers, false, false, true, 4);
    plus(t, t->layers, 2, head_dim);
    plus(t, 1, t->out, t->width);
}

static void count_llama4(tower *t, uint64_t inner, uint64_t outer, uint64_t given)
{
    patch_embedding(t, 1 + patches(t) + 1 + 4);
    blocks(t, t->layers, true, true, false, 4);
    plus(t, 1, t->feed_forward, inner);
    plus(t, 1, inner, outer);
    plus(t, 1, given, t->out);
}

static void count_plain(tower *t)
{
    patch_embedding(t, 1 + (t->positions ? t->positions : patches(t)) + 2);
    blocks(t, t->layers, true, true, false, 4);
    plus(t, 1, t->out, t->width);
    plus(t, 1, t->out, t->out);
}

/* ---- images ---- */

/* The side of the smallest square that holds `area`. */
static uint32_t root_of(uint64_t area)
{
    uint32_t side = 0;
    while (side < MOST && (uint64_t)side * side < area) side++;
    return side;
}

/* The square image that is cut into so many tiles. */
static uint32_t tiled_side(uint32_t tile, uint32_t tiles)
{
    const uint64_t side = (uint64_t)tile * root_of(tiles);
    return side > MOST ? MOST : (uint32_t)side;
}

/* Mllama: every tile's patches and its class token are kept, whatever the image. */
static impmem_status mllama(const look *l, tower *t)
{
    uint32_t tiles = 0, global = 0;
    impmem_status st = own(l, (const char *const[3]){"max_num_tiles", NULL, NULL}, 1024, &tiles);
    if (!st) st = own(l, (const char *const[3]){"num_global_layers", NULL, NULL}, IMPMEM_MAX_LAYERS, &global);
    if (st) return st;
    if (t->image == 0 || t->patch == 0 || tiles == 0) {
        return impmem__refuse(&l->reading->diag, IMPMEM_ERR_MISSING_KEY, IMPMEM__NO_OFFSET,
                              "key 'vision_config.%s': found nothing, expected it, to count the tokens attended to",
                              t->image == 0   ? "image_size"
                              : t->patch == 0 ? "patch_size"
                                              : "max_num_tiles");
    }
    t->tokens = tiles * (patches(t) + 1);
    const size_t ratios = json_array_size(json_object_get(l->config, "supported_aspect_ratios"));
    const size_t kept = json_array_size(json_object_get(l->config, "intermediate_layers_indices"));
    count_mllama(t, global, tiles, ratios > 1024 ? 1024 : ratios, kept > IMPMEM_MAX_LAYERS ? IMPMEM_MAX_LAYERS : kept);
    t->image = tiled_side(t->image, tiles);
    return IMPMEM_OK;
}

static impmem_status gemma4(const look *l, tower *t)
{
    uint32_t positions = 0, head_dim = 0, pool = 1;
    impmem_status st = own(l, (const char *const[3]){"position_embedding_size", NULL, NULL}, 1u << 24, &positions);
    if (!st) st = own(l, (const char *const[3]){"head_dim", NULL, NULL}, MOST, &head_dim);
    if (!st) st = own(l, (const char *const[3]){"pooling_kernel_size", NULL, NULL}, 64, &pool);
    if (st) return st;
    count_gemma4(t, positions, head_dim);
    if (t->image == 0 && t->tokens > 0 && t->patch > 0) {
        /* Images keep their proportions: the square that the stated tokens cover, in whole pooled patches. */
        const uint64_t side = (uint64_t)root_of(t->tokens) * pool * t->patch;
        t->image = side > MOST ? MOST : (uint32_t)side;
    }
    return IMPMEM_OK;
}

static impmem_status llama4(const look *l, tower *t)
{
    uint32_t inner = 0, outer = 0, given = 0;
    impmem_status st = own(l, (const char *const[3]){"projector_input_dim", NULL, NULL}, MOST, &inner);
    if (!st) st = own(l, (const char *const[3]){"projector_output_dim", NULL, NULL}, MOST, &outer);
    if (!st) st = own(l, (const char *const[3]){"vision_output_dim", NULL, NULL}, MOST, &given);
    if (!st) count_llama4(t, inner, outer, given);
    return st;
}

/* Towers that take any size: the learned grid, else what the published processor allows at most. */
static void qwen_image(const look *l, tower *t)
{
    if (t->image > 0) return;
    if (t->positions > 0) {
        t->image = root_of(t->positions) * t->patch;
        impmem__note(l->reading->model,
                     "vision: image side of %u from the grid of %u positions; larger images interpolate it", t->image,
                     t->positions);
        return;
    }
    t->image = 3584;
    impmem__note(l->reading->model, "vision: image side of 3584, the published processor's 12845056 pixels");
}

static impmem_status by_family(const look *l, tower *t)
{
    const bool qwen3 = type_has(l, "qwen3"), qwen2 = type_has(l, "qwen2_vl"), qwen25 = type_has(l, "qwen2_5_vl");
    if (type_has(l, "mllama")) return mllama(l, t);
    if (type_has(l, "gemma4")) return gemma4(l, t);
    if (type_has(l, "llama4")) return llama4(l, t);
    if (qwen3 || qwen2 || qwen25) {
        qwen_image(l, t);
        if (qwen3) count_qwen3(t);
        else count_qwen2(t, qwen25);
    } else if (type_has(l, "pixtral")) {
        count_pixtral(t);
    } else if (type_has(l, "gemma3") && type_has(l, "siglip")) {
        count_siglip(t);
    } else {
        if (t->image == 0 && type_has(l, "deepseek_vl_v2")) {
            t->image = 384;
            t->merge = 2;
            impmem__note(l->reading->model, "vision: image side missing, 384 is the published default of deepseek_vl_v2");
        }
        count_plain(t);
        impmem__note(l->reading->model, "vision: counted as a plain vision transformer with a projector of two matrices");
    }
    return IMPMEM_OK;
}

/* What the tower itself works on: the patches of the image, however few tokens become of them. */
static uint32_t whole_patches(const tower *t)
{
    const uint64_t n = patches(t) > t->tokens ? patches(t) : t->tokens;
    return n > INT32_MAX ? (uint32_t)INT32_MAX : (uint32_t)n;
}

static void count_tokens(const look *l, tower *t)
{
    if (t->tokens > 0 || t->patch == 0) return;
    const uint64_t side = (t->image / t->patch + t->merge - 1) / t->merge;
    double ratio = real_of(l->config, "pixel_shuffle_ratio", real_of(l->root, "downsample_ratio", 1));
    if (ratio > 1) ratio = 1;
    t->tokens = (uint64_t)((double)(side * side) * ratio * ratio);
}

impmem_status impmem__vision_read(impmem__reading *reading, const json_t *root, const json_t *text,
                                  uint64_t *out_parameters)
{
    const look l = {reading, root, json_object_get(root, "vision_config")};
    impmem_model_shape *shape = &reading->model->shape;
    *out_parameters = 0;
    if (!json_is_object(l.config)) return IMPMEM_OK;
    tower t = {.merge = 1, .temporal = 1, .channels = 3};
    impmem_status st = read_figures(&l, &t);
    if (st) return st;
    if (t.width == 0 || t.layers == 0 || t.patch == 0) {
        impmem__note(reading->model, "vision: vision_config states no %s: the tower is not in the figures",
                     t.width == 0    ? "width"
                     : t.layers == 0 ? "layers"
                                     : "patch size");
        return IMPMEM_OK;
    }
    uint32_t stated = 0, hidden = 0;
    st = number(&l, root, "", (const char *const[3]){"mm_tokens_per_image", "vision_soft_tokens_per_image", NULL}, 1u << 24,
                &stated);
    if (!st) st = number(&l, text, "", (const char *const[3]){"hidden_size", NULL, NULL}, INT32_MAX, &hidden);
    t.tokens = stated;
    if (t.out == 0 || type_has(&l, "qwen2_vl")) t.out = hidden;
    if (!st) st = by_family(&l, &t);
    if (st) return st;
    count_tokens(&l, &t);
    if (t.overflow || t.tokens > INT32_MAX) {
        return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                              "vision_config: found %s, expected a tower of a size",
                              t.overflow ? "parameters beyond 2^64" : "more than 2^31 tokens an image");
    }
    shape->vision_image_size = t.image;
    shape->vision_tokens = (uint32_t)t.tokens;
    shape->vision_patches = whole_patches(&t);
    shape->vision_layers = t.layers;
    shape->vision_d_model = t.width;
    shape->vision_heads = t.heads;
    *out_parameters = t.parameters;
    return IMPMEM_OK;
}

/* ---- layers that attend to the image ---- */

static impmem_status list_cross(impmem__reading *reading, const char *name)
{
    impmem__facts *facts = &reading->facts;
    impmem__value list;
    reading->keys.find(reading->keys.self, name, &list);
    if (list.kind != IMPMEM__ARRAY) {
        return impmem__refuse(&reading->diag, IMPMEM_ERR_MISSING_KEY, IMPMEM__NO_OFFSET,
                              "key '%s%s': found no array, expected the layers that attend to an image",
                              reading->keys.gguf ? reading->keys.prefix : "", name);
    }
    for (uint64_t i = 0; i < list.count; i++) {
        uint32_t layer = 0;
        impmem_status st = impmem__layer_index(reading, name, &list, i, &layer);
        if (st) return st;
        facts->cross[layer] = 1;
    }
    return IMPMEM_OK;
}

impmem_status impmem__cross_read(impmem__reading *reading)
{
    impmem__facts *facts = &reading->facts;
    impmem_model_shape *shape = &reading->model->shape;
    impmem_status st = list_cross(reading,
                                  reading->keys.gguf ? ".attention.cross_attention_layers" : "cross_attention_layers");
    if (!st && reading->keys.gguf) {
        uint32_t image = 0, patch = 0, tiles = 4;
        bool found = false;
        st = impmem__key_u32(reading, ".vision.image_size", 1, MOST, &image, &found);
        if (!st) st = impmem__key_u32(reading, ".vision.patch_size", 1, MOST, &patch, &found);
        if (!st) st = impmem__key_u32(reading, ".vision.max_num_tiles", 1, 1024, &tiles, NULL);
        if (!st && image > 0 && patch > 0) {
            const uint64_t side = image / patch, tokens = tiles * (side * side + 1);
            shape->vision_image_size = tiled_side(image, tiles);
            shape->vision_tokens = tokens > INT32_MAX ? 0 : (uint32_t)tokens;
            shape->vision_patches = shape->vision_tokens;
        }
    }
    if (st) return st;
    facts->cross_tokens = shape->vision_tokens;
    if (facts->cross_tokens > 0) return IMPMEM_OK;
    return impmem__refuse(&reading->diag, IMPMEM_ERR_MISSING_KEY, IMPMEM__NO_OFFSET,
                          "%s: found nothing, expected the image's size, to count the tokens attended to",
                          reading->keys.gguf ? "keys of the vision tower" : "key 'vision_config'");
}
