/* Element types: names, and what a row of elements takes. */
#include "impmem/dtype.h"

#include "core/word.h"
#include "impmem/bytes.h"

typedef struct dtype_row {
    const char *name;
    uint32_t block_elements;
    uint32_t block_bytes;
    uint32_t scale_bytes; /* per head and token, when used as KV */
} dtype_row;

static const dtype_row table[IMPMEM_N_DTYPES] = {
#define ROW(name, value, text, elements, bytes, scale) [value] = {text, elements, bytes, scale},
    IMPMEM_DTYPE_MAP(ROW)
#undef ROW
};

/* DEFAULT reads as f16; NULL when out of range. */
static const dtype_row *row_of(impmem_dtype dtype)
{
    if (dtype == IMPMEM_DTYPE_DEFAULT) dtype = IMPMEM_DTYPE_F16;
    uint32_t index = (uint32_t)dtype;
    return index < IMPMEM_N_DTYPES ? &table[index] : NULL;
}

const char *impmem_dtype_name(impmem_dtype dtype)
{
    const dtype_row *row = row_of(dtype);
    return row ? row->name : "?";
}

impmem_status impmem_dtype_parse(const char *text, impmem_dtype *out)
{
    static const struct {
        const char *text;
        impmem_dtype dtype;
    } alias[] = {{"fp16", IMPMEM_DTYPE_F16},
                 {"e4m3", IMPMEM_DTYPE_FP8_E4M3},
                 {"fp8_e4m3", IMPMEM_DTYPE_FP8_E4M3},
                 {"e5m2", IMPMEM_DTYPE_FP8_E5M2}};
    if (!text || !out) return IMPMEM_ERR_INVALID_ARGUMENT;
    for (uint32_t i = 1; i < IMPMEM_N_DTYPES; i++) {
        if (!impmem__same_word(text, table[i].name)) continue;
        *out = (impmem_dtype)i;
        return IMPMEM_OK;
    }
    for (size_t i = 0; i < sizeof alias / sizeof alias[0]; i++) {
        if (!impmem__same_word(text, alias[i].text)) continue;
        *out = alias[i].dtype;
        return IMPMEM_OK;
    }
    return IMPMEM_ERR_BAD_VALUE;
}

impmem_status impmem_dtype_row_bytes(impmem_dtype dtype, uint64_t elements, uint64_t *out_bytes)
{
    if (!out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    const dtype_row *row = row_of(dtype);
    if (!row || elements % row->block_elements != 0) return IMPMEM_ERR_BAD_VALUE;
    return impmem_mul(out_bytes, elements / row->block_elements, row->block_bytes);
}

uint32_t impmem_dtype_scale_bytes(impmem_dtype dtype)
{
    const dtype_row *row = row_of(dtype);
    return row ? row->scale_bytes : 0;
}
