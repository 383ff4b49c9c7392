/* header_dump.h - GGUF files out of header-dumps.tsv: the metadata of real files as their loaders logged it, without tensors. */
#ifndef TESTS_SUPPORT_HEADER_DUMP_H
#define TESTS_SUPPORT_HEADER_DUMP_H

#include "unit/model/model_test.h"

/* Scalars as logged; the arrays of tokens in their length, which is the vocabulary; nothing else, since it was cut short. */
static inline void header_dump_key(gguf *g, const char *name, const char *type, const char *value)
{
    unsigned n = 0;
    if (strncmp(name, "split.", 6) == 0 || strcmp(value, "(elided)") == 0) {
        if (strcmp(name, "tokenizer.ggml.tokens") != 0 || sscanf(type, "arr[str,%u]", &n) != 1) return;
        key(g, name, ARRAY);
        put_le(&g->keys, STRING, 4);
        put_le(&g->keys, n, 8);
        for (unsigned i = 0; i < n; i++) put_text(&g->keys, "");
        return;
    }
    if (strcmp(type, "str") == 0) {
        key_text(g, name, value);
    } else if (strcmp(type, "f32") == 0) {
        float real = strtof(value, NULL);
        key(g, name, F32);
        put(&g->keys, &real, sizeof real);
    } else if (strcmp(type, "u32") == 0 || strcmp(type, "u16") == 0 || strcmp(type, "i32") == 0) {
        key_u32(g, name, (uint32_t)strtoul(value, NULL, 10));
    }
}

/* Writes dump `number` of the table at `table` to `path`; how many keys it had. */
static inline unsigned header_dump_write(const char *table, unsigned number, const char *path)
{
    FILE *file = fopen(table, "r");
    assert_non_null(file);
    gguf g;
    memset(&g, 0, sizeof g);
    static char line[1 << 16];
    unsigned keys = 0;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] == '#' || strtoul(line, NULL, 10) != number) continue;
        char *field[5] = {NULL};
        char *at = line;
        for (int i = 0; i < 5 && at; i++) {
            field[i] = at;
            at = i < 4 ? strchr(at, '\t') : NULL;
            if (at) *at++ = '\0';
        }
        if (!field[4]) continue;
        header_dump_key(&g, field[2], field[3], field[4]);
        keys++;
    }
    (void)fclose(file);
    bytes b = finish(&g);
    write_file(path, b.at, b.n);
    drop(&b);
    return keys;
}

#endif
