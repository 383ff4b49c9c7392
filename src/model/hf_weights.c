/* The size that a directory states for its weights: the total of model.safetensors.index.json, or the headers of its
 * safetensors files. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "impmem/bytes.h"
#include "model/hf.h"

static const char index_name[] = "model.safetensors.index.json";

static char *join(const char *directory, const char *name)
{
    size_t bytes = strlen(directory) + strlen(name) + 2;
    char *path = impmem__take(bytes);
    if (path) (void)snprintf(path, bytes, "%s/%s", directory, name);
    return path;
}

/* Some writers put the total down as 1.6e10. */
static impmem_status read_total(const json_t *value, const impmem__diag *diag, uint64_t *out)
{
    if (json_is_integer(value) && json_integer_value(value) > 0) {
        *out = (uint64_t)json_integer_value(value);
        return IMPMEM_OK;
    }
    double real = json_is_real(value) ? json_real_value(value) : 0;
    if (real > 0 && real < 9007199254740992.0 && real == (double)(uint64_t)real) {
        *out = (uint64_t)real;
        return IMPMEM_OK;
    }
    return impmem__refuse(diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                          "key 'metadata.total_size': found %s, expected a byte count above 0",
                          json_is_number(value) ? "a number out of range" : "no number");
}

static bool any_of(const char *name, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strstr(name, words[i])) return true;
    }
    return false;
}

void impmem__stated_name(impmem__stated *stated, const char *name, uint64_t bytes)
{
    static const char *const vision[] = {"visual.",       "vision_tower.", "vision_model.",          "vision_encoder.",
                                         "embed_vision.", "vision_embed",  "multi_modal_projector.", "mm_projector."};
    stated->tensors++;
    if (any_of(name, vision, sizeof vision / sizeof *vision)) {
        stated->vision_tensors++;
        if (impmem_add(&stated->vision_bytes, stated->vision_bytes, bytes)) stated->vision_bytes = 0;
        return;
    }
    const char *block = strstr(name, "layers.");
    bool draft = strncmp(name, "mtp.", 4) == 0 || strstr(name, ".mtp.") != NULL;
    if (block && !draft && stated->layers > 0 && !strstr(name, "audio"))
        draft = strtoul(block + 7, NULL, 10) >= stated->layers;
    if (draft) stated->draft_tensors++;
}

static impmem_status read_index(const char *path, impmem_error *why, impmem__stated *stated)
{
    impmem__diag diag = {path, why};
    json_t *root = NULL;
    impmem_status st = impmem__json_file(&diag, IMPMEM__HF_MAX_INDEX, &root);
    if (st) return st;
    json_t *map = json_object_get(root, "weight_map");
    const json_t *total = json_object_get(json_object_get(root, "metadata"), "total_size");
    if (!json_is_object(map)) {
        st = impmem__refuse(&diag, IMPMEM_ERR_MISSING_KEY, IMPMEM__NO_OFFSET,
                            "key 'weight_map': found nothing, expected an object");
    } else if (total && !json_is_null(total)) {
        const char *name;
        json_t *file;
        st = read_total(total, &diag, &stated->bytes);
        json_object_foreach(map, name, file) impmem__stated_name(stated, name, 0);
        if (!st) stated->format = "safetensors index";
    }
    json_decref(root);
    return st;
}

/* model.safetensors and model-00001-of-00004.safetensors; adapters and duplicates of other layouts stay out. */
static bool is_weights(const char *name)
{
    size_t n = strlen(name);
    static const char end[] = ".safetensors";
    return n > sizeof end - 1 && strcmp(name + n - (sizeof end - 1), end) == 0 && strncmp(name, "model", 5) == 0;
}

static int keep_weights(const struct dirent *entry)
{
    return is_weights(entry->d_name);
}

static impmem_status add_header(const char *directory, const char *name, impmem_error *why, impmem__stated *stated)
{
    impmem__diag diag = {directory, why};
    char *path = join(directory, name);
    if (!path) return impmem__no_memory(&diag, "a path");
    impmem_status st = impmem__safetensors_read(path, why, stated);
    impmem__give(path);
    return st;
}

/* In the order of their names, so that the first bad one is the same on every machine. */
static impmem_status read_headers(const char *directory, impmem_error *why, impmem__stated *stated)
{
    impmem__diag diag = {directory, why};
    struct dirent **entry = NULL;
    int n = scandir(directory, &entry, keep_weights, alphasort);
    if (n < 0) { return impmem__refuse_errno(&diag, "can't be listed", errno); }
    impmem_status st = IMPMEM_OK;
    if (n > (int)IMPMEM__HF_MAX_FILES) {
        st = impmem__refuse(&diag, IMPMEM_ERR_TOO_LARGE, IMPMEM__NO_OFFSET,
                            "found %d safetensors files, expected at most %u", n, IMPMEM__HF_MAX_FILES);
    }
    for (int i = 0; i < n; i++) {
        if (!st) st = add_header(directory, entry[i]->d_name, why, stated);
        impmem__give_system(entry[i]);
    }
    impmem__give_system(entry);
    if (!st && n > 0) stated->format = "safetensors";
    return st;
}

impmem_status impmem__weights_stated(const char *directory, impmem_error *why, impmem__stated *stated)
{
    impmem__diag diag = {directory, why};
    char *path = join(directory, index_name);
    if (!path) return impmem__no_memory(&diag, "a path");
    struct stat info;
    impmem_status st = IMPMEM_OK;
    if (lstat(path, &info) == 0) st = read_index(path, why, stated);
    impmem__give(path);
    return st || stated->format ? st : read_headers(directory, why, stated);
}
