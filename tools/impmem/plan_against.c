/* plan_against.c - `impmem plan A --against B`: two plans line by line. B is a model, planned with the same flags, or what --json
 * wrote of an earlier plan. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "command.h"
#include "core/json.h"
#include "impmem/bytes.h"
#include "impmem/plan_report.h"
#include "plan_verb.h"

enum { MAX_FILE_BYTES = 8 << 20 };

typedef struct side {
    const char *path;
    bool fits;
    uint64_t over_bytes; /* when it doesn't */
    impmem_plan plan;    /* or what a failure has of one */
} side;

static int complain_key(const char *path, size_t line, const char *key, const char *expected)
{
    if (line == SIZE_MAX) command_complain("%s: key %s: expected %s", path, key, expected);
    else command_complain("%s: lines[%zu]: key %s: expected %s", path, line, key, expected);
    return COMMAND_FILE;
}

static bool read_u64(const json_t *object, const char *key, uint64_t *out)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static int read_line(const char *path, size_t index, const json_t *object, impmem_line *out)
{
    uint64_t id = 0;
    if (!read_u64(object, "id", &id) || id > UINT32_MAX)
        return complain_key(path, index, "id", "a line id, a whole number of 32 bits");
    out->id = (impmem_line_id)id;
    const char *name = json_string_value(json_object_get(object, "name"));
    if (!name || !name[0] || strlen(name) >= sizeof out->name)
        return complain_key(path, index, "name", "a text of 1 to 39 bytes");
    memcpy(out->name, name, strlen(name) + 1);
    if (!read_u64(object, "bytes", &out->bytes)) return complain_key(path, index, "bytes", "a whole number of bytes");
    const char *account = json_string_value(json_object_get(object, "account"));
    uint32_t a = 0;
    while (a < IMPMEM_N_ACCOUNTS && (!account || strcmp(account, impmem_account_name((impmem_account)a)))) a++;
    if (a == IMPMEM_N_ACCOUNTS) return complain_key(path, index, "account", "device, pinned or pageable");
    out->account = (impmem_account)a;
    if (json_is_true(json_object_get(object, "transient"))) out->flags |= IMPMEM_LINE_TRANSIENT;
    return COMMAND_DONE;
}

static int read_lines(const char *path, const json_t *object, impmem_plan *out)
{
    const json_t *lines = json_object_get(object, "lines");
    size_t n = json_array_size(lines);
    if (!json_is_array(lines) || n == 0 || n > IMPMEM_PLAN_MAX_LINES)
        return complain_key(path, SIZE_MAX, "lines", "an array of 1 to 128 lines");
    for (size_t i = 0; i < n; i++) {
        impmem_line *line = &out->line[i];
        int code = read_line(path, i, json_array_get(lines, i), line);
        if (code) return code;
        uint64_t *total = &out->total_bytes[line->account];
        if (!(line->flags & IMPMEM_LINE_TRANSIENT) && impmem_add(total, *total, line->bytes))
            return complain_key(path, i, "bytes", "sums below 2^64");
    }
    out->n_lines = (uint32_t)n;
    return COMMAND_DONE;
}

/* A file of --json: {"fits": ..., "plan" or "failure": {"lines": [...]}}, or the object of a plan itself. */
static int read_json(const char *path, const json_t *root, side *out)
{
    const json_t *part = json_object_get(root, "plan");
    const json_t *failure = json_object_get(root, "failure");
    if (!part) part = failure ? failure : root;
    out->plan = (impmem_plan)IMPMEM_PLAN_INIT;
    out->fits = !json_is_false(json_object_get(root, "fits"));
    if (!out->fits && !read_u64(part, "over_bytes", &out->over_bytes))
        return complain_key(path, SIZE_MAX, "over_bytes", "a whole number of bytes, since the plan doesn't fit");
    return read_lines(path, part, &out->plan);
}

/* A JSON object that says whether it fits is a plan; everything else is for the model reader. NULL: no plan's file. */
static json_t *load_plan_file(const char *path)
{
    struct stat info;
    json_error_t where;
    if (stat(path, &info) || !S_ISREG(info.st_mode) || info.st_size > MAX_FILE_BYTES) return NULL;
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    int first = getc(file);
    while (first == ' ' || first == '\n' || first == '\r' || first == '\t') first = getc(file);
    (void)fclose(file); /* only read from */
    if (first != '{') return NULL;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
    if (root && json_is_boolean(json_object_get(root, "fits"))) return root;
    json_decref(root);
    return NULL;
}

static int plan_side(const plan_prepared *prepared, side *out)
{
    impmem_plan_failure failure = IMPMEM_PLAN_FAILURE_INIT;
    out->plan = (impmem_plan)IMPMEM_PLAN_INIT;
    impmem_status st = impmem_plan_memory_only(&prepared->input, &out->plan, &failure);
    out->fits = st == IMPMEM_OK;
    if (out->fits) return COMMAND_DONE;
    if (st != IMPMEM_ERR_DOES_NOT_FIT) return plan_refuse_input(prepared, &failure.why);
    plan_of_failure(&failure, &out->plan);
    out->over_bytes = failure.over_bytes;
    return COMMAND_DONE;
}

static int read_other(const plan_flags *flags, side *out)
{
    json_t *root = load_plan_file(flags->against);
    if (root) {
        int code = read_json(flags->against, root, out);
        json_decref(root);
        return code;
    }
    plan_flags changed = *flags;
    changed.model_path = flags->against;
    plan_prepared prepared;
    int code = plan_prepare(&changed, &prepared);
    if (code) return code;
    code = plan_side(&prepared, out);
    plan_prepared_close(&prepared);
    return code;
}

static void print_side(const char *label, const side *s)
{
    char over[32];
    printf("%s  ", label);
    plan_print_clean(s->path);
    if (!s->fits) printf(", does not fit: over by %s", impmem_format_mib(s->over_bytes, over, sizeof over));
    printf("\n");
}

static impmem_status print_text(const side *a, const side *b)
{
    print_side("first ", a);
    print_side("second", b);
    printf("\n");
    return impmem_plan_write_difference(&a->plan, &b->plan, impmem_write_file, stdout);
}

static void json_side(impmem__json *json, const char *key, const side *s)
{
    impmem__json_key(json, key);
    impmem__json_object_begin(json);
    impmem__json_field_string(json, "path", s->path);
    impmem__json_field_bool(json, "fits", s->fits);
    for (uint32_t a = 0; a < IMPMEM_N_ACCOUNTS; a++) {
        char name[48];
        snprintf(name, sizeof name, "%s_total_bytes", impmem_account_name((impmem_account)a));
        impmem__json_field_u64(json, name, s->plan.total_bytes[a]);
    }
    impmem__json_object_end(json);
}

static void json_bytes(impmem__json *json, const char *key, bool there, uint64_t bytes)
{
    impmem__json_key(json, key);
    if (there) impmem__json_u64(json, bytes);
    else impmem__json_null(json);
}

static impmem_status print_json(const side *a, const side *b, const impmem_plan_diff_row *rows, uint32_t n)
{
    impmem__json json;
    impmem__json_init(&json, impmem_write_file, stdout, 2);
    impmem__json_object_begin(&json);
    json_side(&json, "a", a);
    json_side(&json, "b", b);
    impmem__json_key(&json, "lines");
    impmem__json_array_begin(&json);
    for (uint32_t i = 0; i < n; i++) {
        impmem__json_object_begin(&json);
        impmem__json_field_u64(&json, "id", rows[i].id);
        impmem__json_field_string(&json, "name", rows[i].name);
        impmem__json_field_string(&json, "account", impmem_account_name(rows[i].account));
        json_bytes(&json, "a_bytes", rows[i].in_a, rows[i].a_bytes);
        json_bytes(&json, "b_bytes", rows[i].in_b, rows[i].b_bytes);
        impmem__json_field_i64(&json, "difference_bytes", (int64_t)(rows[i].b_bytes - rows[i].a_bytes));
        impmem__json_object_end(&json);
    }
    impmem__json_array_end(&json);
    impmem__json_object_end(&json);
    impmem_status st = impmem__json_finish(&json);
    return st ? st : impmem_write_file(stdout, "\n", 1);
}

int plan_against(const plan_prepared *prepared)
{
    const plan_flags *flags = prepared->question.flags;
    impmem_plan_diff_row rows[2 * IMPMEM_PLAN_MAX_LINES];
    side a = {.path = flags->model_path};
    side b = {.path = flags->against};
    uint32_t n = 0;
    int code = plan_side(prepared, &a);
    if (!code) code = read_other(flags, &b);
    if (code) return code;
    impmem_status st = impmem_plan_diff(&a.plan, &b.plan, rows, 2 * IMPMEM_PLAN_MAX_LINES, &n);
    if (st) {
        command_complain("plan: the two can't be compared: %s", impmem_status_message(st));
        return COMMAND_USAGE;
    }
    st = flags->json ? print_json(&a, &b, rows, n) : print_text(&a, &b);
    return command_finish_answer(st, a.fits && b.fits ? COMMAND_DONE : COMMAND_NO);
}
