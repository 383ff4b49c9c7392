/* Safetensors headers from memory. */
#include "fuzz/fuzz.h"

#include "model/hf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem__diag diag = {"memory", &why};
    impmem__source *source = calloc(1, sizeof *source);
    if (!source) return 0;
    impmem__source_memory(source, data, size);
    impmem__stated stated = {0};
    impmem_status st = impmem__safetensors_parse(source, &diag, &stated);
    if (st) fuzz_check_refusal(st, &why);
    else fuzz_require(stated.bytes < size && stated.vision_bytes <= stated.bytes, "tensors are inside the file", "");
    free(source);
    return 0;
}

size_t fuzz_seed(size_t index, uint8_t *to, size_t room)
{
    static const char text[] = "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"BF16\",\"shape\":[2,3],"
                               "\"data_offsets\":[0,12]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]}}";
    size_t n = sizeof text - 1;
    if (index > 0 || room < 8 + n + 16) return 0;
    memset(to, 0, 8 + n + 16);
    to[0] = (uint8_t)n;
    memcpy(to + 8, text, n);
    return 8 + n + 16;
}
