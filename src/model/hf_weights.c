/* The size that a directory states for its weights: the total of model.safetensors.index.json, or the headers of its
 * safetensors files. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
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

static impmem_status read_index(const char *path, impmem_error *why, uint64_t *out_bytes, uint64_t *out_tensors,
                                bool *found)
{
    impmem__diag diag = {path, why};
    json_t *root = NULL;
    impmem_status st = impmem__json_file(&diag, IMPMEM__HF_MAX_INDEX, &root);
    if (st) return st;
    const json_t *map = json_object_get(root, "weight_map");
    const json_t *total = json_object_get(json_object_get(root, "metadata"), "total_size");
    if (!json_is_object(map)) {
        st = impmem__refuse(&diag, IMPMEM_ERR_MISSING_KEY, IMPMEM__NO_OFFSET,
                            "key 'weight_map': found nothing, expected an object");
    } else if (total && !json_is_null(total)) {
        st = read_total(total, &diag, out_bytes);
        *found = !st;
        *out_tensors = json_object_size(map);
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

static impmem_status add_header(const char *directory, const char *name, impmem_error *why, uint64_t *bytes,
                                uint64_t *tensors)
{
    impmem__diag diag = {directory, why};
    char *path = join(directory, name);
    if (!path) return impmem__no_memory(&diag, "a path");
    uint64_t b = 0, t = 0;
    impmem_status st = impmem__safetensors_read(path, why, &b, &t);
    impmem__give(path);
    if (st) return st;
    *tensors += t;
    if (!impmem_add(bytes, *bytes, b)) return IMPMEM_OK;
    return impmem__refuse(&diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET, "safetensors files: found more than 2^64 bytes");
}

/* In the order of their names, so that the first bad one is the same on every machine. */
static impmem_status read_headers(const char *directory, impmem_error *why, uint64_t *out_bytes, uint64_t *out_tensors,
                                  bool *found)
{
    impmem__diag diag = {directory, why};
    struct dirent **entry = NULL;
    int n = scandir(directory, &entry, keep_weights, alphasort);
    if (n < 0) { return impmem__refuse_errno(&diag, "can't be listed", errno); }
    uint64_t bytes = 0, tensors = 0;
    impmem_status st = IMPMEM_OK;
    if (n > (int)IMPMEM__HF_MAX_FILES) {
        st = impmem__refuse(&diag, IMPMEM_ERR_TOO_LARGE, IMPMEM__NO_OFFSET,
                            "found %d safetensors files, expected at most %u", n, IMPMEM__HF_MAX_FILES);
    }
    for (int i = 0; i < n; i++) {
        if (!st) st = add_header(directory, entry[i]->d_name, why, &bytes, &tensors);
        impmem__give_system(entry[i]);
    }
    impmem__give_system(entry);
    *found = !st && n > 0;
    if (!*found) return st;
    *out_bytes = bytes;
    *out_tensors = tensors;
    return IMPMEM_OK;
}

impmem_status impmem__weights_stated(const char *directory, impmem_error *why, uint64_t *out_bytes, uint64_t *out_tensors,
                                     const char **out_format, bool *found)
{
    impmem__diag diag = {directory, why};
    *found = false;
    char *path = join(directory, index_name);
    if (!path) return impmem__no_memory(&diag, "a path");
    struct stat info;
    impmem_status st = IMPMEM_OK;
    if (lstat(path, &info) == 0) st = read_index(path, why, out_bytes, out_tensors, found);
    impmem__give(path);
    if (st || *found) {
        *out_format = "safetensors index";
        return st;
    }
    *out_format = "safetensors";
    return read_headers(directory, why, out_bytes, out_tensors, found);
}
