/* Every allocation refused in turn, the reader's own and the JSON parser's: a typed error each time, nothing written,
 * nothing kept. */
#define _GNU_SOURCE
#include "unit/model/model_test.h"

#include <jansson.h>

#include "model/internal.h"

/* These four stand in for src/model/memory.c, whose object the linker then leaves out. */
static uint64_t countdown; /* the allocation to refuse, from 1; 0 = none */
static uint64_t live;

static int refused(void)
{
    return countdown > 0 && --countdown == 0;
}

void *impmem__take(uint64_t size)
{
    if (refused()) return NULL;
    void *memory = calloc(1, size ? (size_t)size : 1);
    live += memory != NULL;
    return memory;
}

void *impmem__grow(void *memory, uint64_t size)
{
    if (refused()) return NULL;
    void *grown = realloc(memory, (size_t)size);
    live += grown != NULL && memory == NULL;
    return grown;
}

void impmem__give(void *memory)
{
    live -= memory != NULL;
    free(memory);
}

void impmem__give_system(void *memory)
{
    free(memory);
}

static void sweep(const char *path)
{
    uint64_t k = 1;
    for (;; k++) {
        impmem_error why = IMPMEM_ERROR_INIT;
        impmem_model *model = NULL;
        live = 0;
        countdown = k;
        impmem_status st = impmem_model_read(path, &model, &why);
        uint64_t rest = countdown;
        countdown = 0;
        if (!st) {
            assert_true(rest > 0); /* it succeeded because nothing was refused */
            impmem_model_destroy(model);
            break;
        }
        if (st != IMPMEM_ERR_OUT_OF_HOST_MEMORY)
            fail_msg("step %u: %s %s", (unsigned)k, impmem_status_name(st), why.message);
        assert_null(model);
        assert_true(why.message[0] != '\0');
        assert_int_equal(live, 0);
    }
    assert_int_equal(live, 0);
    assert_true(k > 5);
}

static void a_gguf_set_survives_every_refused_allocation(void **state)
{
    (void)state;
    static const uint64_t row[] = {256};
    for (uint32_t part = 0; part < 2; part++) {
        gguf g;
        if (part == 0) plain_llama(&g, 2);
        else memset(&g, 0, sizeof g);
        key_u32(&g, "split.no", part);
        key_u32(&g, "split.count", 2);
        key_u32(&g, "split.tensors.count", 600);
        static const uint32_t list[] = {1, 2, 3};
        key_array_u32(&g, "list", list, 3);
        for (uint32_t i = 0; i < 300; i++) { /* more than the first room for names */
            char name[32];
            (void)snprintf(name, sizeof name, "t%u.%u", part, i);
            tensor(&g, name, 1, row, 0, 1024);
        }
        bytes b = finish(&g);
        write_file(scratch_path(part == 0 ? "m-00001-of-00002.gguf" : "m-00002-of-00002.gguf"), b.at, b.n);
        drop(&b);
    }
    sweep(scratch_path("m-00001-of-00002.gguf"));
}

static void a_projector_survives_every_refused_allocation(void **state)
{
    (void)state;
    static const uint64_t row[] = {8};
    gguf g;
    plain_llama(&g, 2);
    bytes b = finish(&g);
    write_file(scratch_path("model.gguf"), b.at, b.n);
    drop(&b);
    memset(&g, 0, sizeof g);
    key_text(&g, "general.architecture", "clip");
    key_u32(&g, "clip.vision.image_size", 28);
    key_u32(&g, "clip.vision.patch_size", 14);
    key_u32(&g, "clip.vision.embedding_length", 32);
    key_u32(&g, "clip.vision.block_count", 2);
    key_u32(&g, "clip.vision.attention.head_count", 4);
    tensor(&g, "v.post_ln.weight", 1, row, 0, 32);
    b = finish(&g);
    write_file(scratch_path("mmproj.gguf"), b.at, b.n);
    drop(&b);
    for (uint64_t k = 1;; k++) {
        impmem_error why = IMPMEM_ERROR_INIT;
        impmem_model *model = NULL;
        countdown = 0;
        assert_int_equal(impmem_model_read(scratch_path("model.gguf"), &model, &why), IMPMEM_OK);
        const uint64_t held = live;
        countdown = k;
        impmem_status st = impmem_model_read_projector(scratch_path("mmproj.gguf"), model, &why);
        const uint64_t rest = countdown;
        countdown = 0;
        assert_int_equal(live, held);
        assert_int_equal(impmem_model_shape_of(model)->vision_weight_bytes, st ? 0 : 32);
        impmem_model_destroy(model);
        if (!st) {
            assert_true(rest > 0 && k > 5);
            break;
        }
        assert_int_equal(st, IMPMEM_ERR_OUT_OF_HOST_MEMORY);
    }
}

static const char config[] =
    "{\"model_type\": \"qwen3\", \"hidden_size\": 64, \"intermediate_size\": 256, \"head_dim\": 16, "
    "\"num_hidden_layers\": 4, \"vocab_size\": 1000, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": 2, \"rope\": [1.5, \"text\", {\"a\": null}]}";

static void write_directory(const char *dir)
{
    char path[800];
    assert_int_equal(mkdir(dir, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/config.json", dir);
    write_file(path, config, sizeof config - 1);
    (void)snprintf(path, sizeof path, "%s/hf_quant_config.json", dir);
    write_file(path, "{\"quantization\": {\"quant_algo\": \"FP8\"}}", 39);
    (void)snprintf(path, sizeof path, "%s/model.safetensors", dir);
    bytes b = {NULL, 0, 0};
    put_text(&b, "{\"a\": {\"dtype\": \"U8\", \"shape\": [4], \"data_offsets\": [0, 4]}}");
    put_zeros(&b, 4);
    write_file(path, b.at, b.n);
    drop(&b);
}

static void a_directory_survives_every_refused_allocation(void **state)
{
    (void)state;
    const char *dir = scratch_path("a-model");
    write_directory(dir);
    sweep(dir);
}

/* ---- jansson ---- */

static uint64_t json_countdown;

static void *json_take(size_t bytes_asked)
{
    if (json_countdown > 0 && --json_countdown == 0) return NULL;
    return malloc(bytes_asked);
}

/* jansson takes some refusals for bad text, so the status may be that of a malformed file. A wrong success it isn't. */
static void a_directory_survives_a_json_parser_without_memory(void **state)
{
    (void)state;
    const char *dir = scratch_path("b-model");
    write_directory(dir);
    uint32_t failures = 0;
    for (uint64_t k = 1;; k++) {
        impmem_error why = IMPMEM_ERROR_INIT;
        impmem_model *model = NULL;
        json_set_alloc_funcs(json_take, free);
        json_countdown = k;
        impmem_status st = impmem_model_read(dir, &model, &why);
        uint64_t rest = json_countdown;
        json_countdown = 0;
        json_set_alloc_funcs(malloc, free);
        if (st) {
            assert_null(model);
            assert_int_equal(why.status, st);
            failures++;
            continue;
        }
        assert_int_equal(impmem_model_shape_of(model)->d_model, 64);
        assert_int_equal(impmem_model_shape_of(model)->weight_bytes, 4);
        impmem_model_destroy(model);
        if (rest > 0) break;
    }
    assert_true(failures > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gguf_set_survives_every_refused_allocation),
        cmocka_unit_test(a_projector_survives_every_refused_allocation),
        cmocka_unit_test(a_directory_survives_every_refused_allocation),
        cmocka_unit_test(a_directory_survives_a_json_parser_without_memory),
    };
    return cmocka_run_group_tests_name("model.memory", tests, scratch_open, scratch_close);
}
