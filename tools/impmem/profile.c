/* profile.c - device profiles from the shipped table or from a JSON file. */
#define _GNU_SOURCE
#include "profile.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "command.h"

enum { MAX_FILE_BYTES = 64 * 1024 };

typedef enum key_kind { KEY_TEXT, KEY_BYTES, KEY_GRANULE, KEY_FLAG } key_kind;

typedef struct profile_key {
    const char *name;
    key_kind kind;
    bool required;
    size_t offset;     /* of the field in impmem_device_profile */
    size_t text_bytes; /* KEY_TEXT: room in the field */
} profile_key;

#define FIELD(member) offsetof(impmem_device_profile, member)
#define TEXT(member) FIELD(member), sizeof(((impmem_device_profile *)NULL)->member)
static const profile_key keys[] = {
    {"name", KEY_TEXT, true, TEXT(name)},
    {"source", KEY_TEXT, false, TEXT(source)},
    {"total_bytes", KEY_BYTES, false, FIELD(total_bytes), 0},
    {"context_bytes", KEY_BYTES, true, FIELD(context_bytes), 0},
    {"library_reserve_bytes", KEY_BYTES, true, FIELD(library_reserve_bytes), 0},
    {"granule_bytes", KEY_GRANULE, true, FIELD(granule_bytes), 0},
    {"estimated", KEY_FLAG, false, FIELD(estimated), 0},
};
#undef TEXT
#undef FIELD
enum { N_KEYS = sizeof keys / sizeof keys[0] };

static const profile_key *find_key(const char *name)
{
    for (size_t i = 0; i < N_KEYS; i++)
        if (strcmp(keys[i].name, name) == 0) return &keys[i];
    return NULL;
}

static int set_text(const char *path, const profile_key *key, const json_t *value, char *field)
{
    const char *text = json_string_value(value);
    if (!text || json_string_length(value) >= key->text_bytes || (key->required && !text[0])) {
        command_complain("%s: key %s: expected a text of %s%zu bytes or fewer", path, key->name,
                         key->required ? "1 to " : "", key->text_bytes - 1);
        return COMMAND_FILE;
    }
    memcpy(field, text, strlen(text) + 1);
    return COMMAND_DONE;
}

static int set_bytes(const char *path, const profile_key *key, const json_t *value, uint64_t *field)
{
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
    if (number < 0) {
        command_complain("%s: key %s: expected a whole number of bytes from 0 to %" PRId64, path, key->name, INT64_MAX);
        return COMMAND_FILE;
    }
    uint64_t bytes = (uint64_t)number;
    if (key->kind == KEY_GRANULE && (bytes < 256 || bytes & (bytes - 1))) {
        command_complain("%s: key %s: %" PRIu64 " is no granule; expected a power of two from 256 on", path, key->name,
                         bytes);
        return COMMAND_FILE;
    }
    *field = bytes;
    return COMMAND_DONE;
}

static int set_field(const char *path, const profile_key *key, const json_t *value, impmem_device_profile *out)
{
    void *field = (char *)out + key->offset;
    switch (key->kind) {
    case KEY_TEXT: return set_text(path, key, value, field);
    case KEY_BYTES:
    case KEY_GRANULE: return set_bytes(path, key, value, field);
    case KEY_FLAG: break;
    }
    if (!json_is_boolean(value)) {
        command_complain("%s: key %s: expected true or false", path, key->name);
        return COMMAND_FILE;
    }
    *(uint32_t *)field = json_is_true(value) ? 1 : 0;
    return COMMAND_DONE;
}

static int from_json(const char *path, json_t *root, impmem_device_profile *out)
{
    if (!json_is_object(root)) {
        command_complain("%s: the file holds no JSON object; expected {\"name\": ..., \"context_bytes\": ...}", path);
        return COMMAND_FILE;
    }
    impmem_device_profile profile = IMPMEM_DEVICE_PROFILE_INIT;
    const char *name;
    json_t *value;
    json_object_foreach(root, name, value)
    {
        const profile_key *key = find_key(name);
        if (!key) {
            command_complain(
                "%s: key %s: unknown; expected name, source, total_bytes, context_bytes, library_reserve_bytes, "
                "granule_bytes, estimated",
                path, name);
            return COMMAND_FILE;
        }
        int code = set_field(path, key, value, &profile);
        if (code) return code;
    }
    for (size_t i = 0; i < N_KEYS; i++)
        if (keys[i].required && !json_object_get(root, keys[i].name)) {
            command_complain("%s: key %s: missing; a device profile must state it", path, keys[i].name);
            return COMMAND_FILE;
        }
    *out = profile;
    return COMMAND_DONE;
}

static int from_file(const char *path, impmem_device_profile *out)
{
    struct stat info;
    if (stat(path, &info)) {
        command_complain("%s: %s; expected a device profile", path, strerror(errno));
        return COMMAND_FILE;
    }
    if (!S_ISREG(info.st_mode) || info.st_size > MAX_FILE_BYTES) {
        command_complain("%s: expected a device profile, a regular file of at most %d bytes", path, MAX_FILE_BYTES);
        return COMMAND_FILE;
    }
    json_error_t where;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
    if (!root) {
        command_complain("%s: line %d, column %d: %s; expected a JSON object", path, where.line, where.column, where.text);
        return COMMAND_FILE;
    }
    int code = from_json(path, root, out);
    json_decref(root);
    return code;
}

int profile_load(const char *name_or_path, impmem_device_profile *out)
{
    const impmem_device_profile *known = impmem_device_profile_find(name_or_path);
    if (known) {
        *out = *known;
        return COMMAND_DONE;
    }
    struct stat info;
    if (strchr(name_or_path, '/') || stat(name_or_path, &info) == 0) return from_file(name_or_path, out);
    char names[512] = "";
    size_t used = 0;
    for (uint32_t i = 0; used < sizeof names && (known = impmem_device_profile_at(i)) != NULL; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", known->name);
    command_complain("--device-profile: \"%s\" is neither a file nor a known device; expected %s", name_or_path, names);
    return COMMAND_USAGE;
}
