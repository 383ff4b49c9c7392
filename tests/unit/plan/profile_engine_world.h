/* A model, arguments and the profile predicted of them, for the tests of other engines' rules. Included once a test program. */
#ifndef TESTS_PLAN_PROFILE_ENGINE_WORLD_H
#define TESTS_PLAN_PROFILE_ENGINE_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "impmem/bytes.h"
#include "impmem/engine_profile.h"

static impmem_model_shape shape;
static impmem_engine_profile profile;
static impmem_engine_profile_args args;

static inline int fresh(void **state)
{
    (void)state;
    memset(&shape, 0, sizeof shape);
    shape.size = sizeof shape;
    shape.version = 1;
    memset(&profile, 0, sizeof profile);
    memset(&args, 0, sizeof args); /* a zeroed struct is version 1 with defaults */
    return 0;
}

static inline void uniform(uint32_t layers, uint32_t heads, uint32_t dim)
{
    assert_int_equal(impmem_shape_uniform_attention(&shape, layers, heads, dim, dim), IMPMEM_OK);
    shape.trained_context = 32768;
}

/* Layers that attend to a window but for every period-th. */
static inline void windows(uint32_t layers, uint32_t period, uint32_t window, uint32_t heads, uint32_t dim)
{
    uniform(layers, heads, dim);
    for (uint32_t i = 0; i < layers; i++) {
        if ((i + 1) % period == 0) continue;
        shape.layer[i].kind = IMPMEM_LAYER_WINDOW;
        shape.layer[i].window_tokens = window;
    }
}

/* A gated delta net on all but every fourth layer: 16 key heads, `value_heads` value heads, all of 128, convolution over 4. */
static inline void hybrid(uint32_t layers, uint32_t kv_heads, uint32_t value_heads)
{
    uniform(layers, kv_heads, 256);
    for (uint32_t i = 0; i < layers; i++) {
        if ((i + 1) % 4 == 0) continue;
        shape.layer[i] = (impmem_layer_shape){.kind = IMPMEM_LAYER_NO_ATTENTION,
                                              .recurrent = IMPMEM_RECURRENT_DELTA_NET,
                                              .conv_kernel = 4,
                                              .conv_channels = (2 * 16 + value_heads) * 128,
                                              .state_elements = (uint64_t)value_heads * 128 * 128};
    }
}

static inline void latent(uint32_t layers, uint32_t heads)
{
    shape.n_layers = layers;
    shape.n_heads = heads;
    shape.head_dim = 192;
    shape.trained_context = 163840;
    for (uint32_t i = 0; i < layers; i++)
        shape.layer[i] = (impmem_layer_shape){
            .kind = IMPMEM_LAYER_LATENT, .kv_heads = 1, .k_dim = 576, .latent_rank = 512, .latent_v_dim = 128};
}

static inline void predict(impmem_engine_kind kind)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_status st = impmem_engine_profile_predict(kind, &shape, &args, &profile, &why);
    if (st) fail_msg("%s: %s", impmem_status_name(st), why.message);
    assert_int_equal(profile.size, sizeof profile);
    assert_int_equal(profile.version, 1);
    for (uint32_t i = 0; i < profile.n_lines; i++) {
        assert_true(profile.line[i].name[0] && profile.line[i].how[0]);
        assert_ptr_equal(impmem_engine_profile_find(&profile, profile.line[i].name), &profile.line[i]);
    }
}

static inline uint64_t value(const char *name)
{
    const impmem_engine_profile_line *line = impmem_engine_profile_find(&profile, name);
    if (!line) fail_msg("no line %s", name);
    return line->value;
}

static inline uint32_t layers_of(const char *name)
{
    const impmem_engine_profile_line *line = impmem_engine_profile_find(&profile, name);
    if (!line) fail_msg("no line %s", name);
    return line->layers;
}

/* Refused, with the subject, words of the message, one line, and nothing written. */
static inline void refused(impmem_engine_kind kind, impmem_status status, const char *subject, const char *words)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    static impmem_engine_profile before;
    memset(&profile, 0x5a, sizeof profile);
    before = profile;
    impmem_status st = impmem_engine_profile_predict(kind, &shape, &args, &profile, &why);
    if (st != status || strcmp(why.subject, subject) != 0 || !strstr(why.message, words))
        fail_msg("found %s, %s: %s", impmem_status_name(st), why.subject, why.message);
    assert_null(strchr(why.message, '\n'));
    assert_memory_equal(&profile, &before, sizeof profile);
    assert_int_equal(impmem_engine_profile_predict(kind, &shape, &args, &profile, NULL), status);
}

#endif
