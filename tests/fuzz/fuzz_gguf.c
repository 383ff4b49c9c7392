/* GGUF headers from memory. */
#include "fuzz/fuzz.h"

#include "impmem/shape.h"
#include "model/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_model *model = calloc(1, sizeof *model);
    if (!model) return 0;
    model->shape.size = sizeof model->shape;
    model->shape.version = 1;
    impmem_status st = impmem__gguf_read_memory(data, size, model, &why);
    if (st) fuzz_check_refusal(st, &why);
    else
        fuzz_require(impmem_shape_check(&model->shape, &why) == IMPMEM_OK, "a shape that was read passes its check",
                     why.message);
    /* The same bytes as the projector of a model without a tower. */
    memset(model, 0, sizeof *model);
    model->shape.size = sizeof model->shape;
    model->shape.version = 1;
    st = impmem__gguf_read_projector_memory(data, size, model, &why);
    if (st) fuzz_check_refusal(st, &why);
    fuzz_require(st ? model->shape.vision_weight_bytes == 0 : model->shape.vision_weight_bytes < size,
                 "a tower's bytes are inside the file", "");
    impmem_model_destroy(model);
    return 0;
}

typedef struct writer {
    uint8_t *at;
    size_t n;
    size_t room;
} writer;

static void put(writer *w, const void *from, size_t n)
{
    if (w->n + n <= w->room) memcpy(w->at + w->n, from, n);
    w->n += n;
}

static void put_le(writer *w, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)(value >> (8 * i) & 0xff);
        put(w, &byte, 1);
    }
}

static void put_text(writer *w, const char *text)
{
    put_le(w, strlen(text), 8);
    put(w, text, strlen(text));
}

static void key_u32(writer *w, const char *arch, const char *name, uint32_t value)
{
    char full[96];
    (void)snprintf(full, sizeof full, "%s%s", arch, name);
    put_text(w, full);
    put_le(w, 4, 4);
    put_le(w, value, 4);
}

static void key_array(writer *w, const char *arch, const char *name, uint32_t type, size_t width, uint32_t n)
{
    char full[96];
    (void)snprintf(full, sizeof full, "%s%s", arch, name);
    put_text(w, full);
    put_le(w, 9, 4);
    put_le(w, type, 4);
    put_le(w, n, 8);
    for (uint32_t i = 0; i < n; i++) put_le(w, type == 7 ? i % 2 : 2, width);
}

size_t fuzz_seed(size_t index, uint8_t *to, size_t room)
{
    static const char *const archs[] = {"llama",    "gemma3",     "gemma3n",   "gemma4",  "deepseek2", "llama4",
                                        "qwen3moe", "phi3",       "deci",      "mamba2",  "jamba",     "qwen35moe",
                                        "lfm2",     "nemotron_h", "falcon-h1", "glm-dsa", "mllama",    "clip"};
    if (index >= sizeof archs / sizeof *archs) return 0;
    const char *arch = archs[index];
    writer w = {to, 0, room};
    put(&w, "GGUF", 4);
    put_le(&w, 3, 4);
    put_le(&w, 2, 8);
    put_le(&w, 32, 8);
    put_text(&w, "general.architecture");
    put_le(&w, 8, 4);
    put_text(&w, arch);
    key_u32(&w, arch, ".block_count", 6);
    key_u32(&w, arch, ".embedding_length", 64);
    key_u32(&w, arch, ".feed_forward_length", 128);
    key_u32(&w, arch, ".attention.head_count", 4);
    key_array(&w, arch, ".attention.head_count_kv", 4, 4, 6);
    key_u32(&w, arch, ".attention.key_length", 16);
    key_u32(&w, arch, ".attention.value_length", 16);
    key_u32(&w, arch, ".attention.sliding_window", 32);
    key_array(&w, arch, ".attention.sliding_window_pattern", 7, 1, 6);
    key_u32(&w, arch, ".attention.shared_kv_layers", 2);
    key_u32(&w, arch, ".attention.kv_lora_rank", 32);
    key_u32(&w, arch, ".rope.dimension_count", 8);
    key_u32(&w, arch, ".expert_count", 4);
    key_u32(&w, arch, ".expert_used_count", 2);
    key_u32(&w, arch, ".context_length", 2048);
    key_u32(&w, arch, ".full_attention_interval", 2);
    key_u32(&w, arch, ".ssm.conv_kernel", 4);
    key_u32(&w, arch, ".ssm.inner_size", 128);
    key_u32(&w, arch, ".ssm.state_size", 16);
    key_u32(&w, arch, ".ssm.group_count", 2);
    key_u32(&w, arch, ".ssm.time_step_rank", 8);
    key_u32(&w, arch, ".shortconv.l_cache", 3);
    key_u32(&w, arch, ".attention.indexer.key_length", 16);
    key_array(&w, arch, ".attention.cross_attention_layers", 4, 4, 2);
    key_u32(&w, arch, ".vision.image_size", 56);
    key_u32(&w, arch, ".vision.patch_size", 14);
    key_u32(&w, arch, ".vision.embedding_length", 32);
    key_u32(&w, arch, ".vision.block_count", 2);
    key_u32(&w, arch, ".vision.attention.head_count", 4);
    key_u32(&w, arch, ".vision.spatial_merge_size", 2);
    put_text(&w, "tokenizer.ggml.tokens");
    put_le(&w, 9, 4);
    put_le(&w, 8, 4);
    put_le(&w, 3, 8);
    for (int i = 0; i < 3; i++) put_text(&w, "tok");
    put_text(&w, "token_embd.weight");
    put_le(&w, 2, 4);
    put_le(&w, 64, 8);
    put_le(&w, 3, 8);
    put_le(&w, 1, 4);
    put_le(&w, 0, 8);
    put_text(&w, "blk.0.ffn_up.weight");
    put_le(&w, 2, 4);
    put_le(&w, 256, 8);
    put_le(&w, 2, 8);
    put_le(&w, 12, 4);
    put_le(&w, 384, 8);
    while (w.n % 32) put_le(&w, 0, 1);
    for (int i = 0; i < 384 + 288; i++) put_le(&w, 0, 1);
    return w.n <= room ? w.n : 0;
}
