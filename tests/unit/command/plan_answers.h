/* plan_answers.h - what the tests of plans through the command share: lines of an answer, levers, a device that takes nothing. */
#ifndef TESTS_PLAN_ANSWERS_H
#define TESTS_PLAN_ANSWERS_H

#include "unit/command/command_run.h"

#define MIB ((uint64_t)1 << 20)
#define GRANULE (2 * MIB)
/* Llama-3.1-8B's published 8,030,261,248 parameters at two bytes each, in whole granules. */
#define TEST_WEIGHT_BYTES (2 * UINT64_C(8030261248))
#define TEST_WEIGHT_GRANULES ((TEST_WEIGHT_BYTES + GRANULE - 1) / GRANULE)

static inline const char *test_model(void)
{
    static char path[160];
    if (!path[0]) snprintf(path, sizeof path, "%s", write_model("model.json", 8192));
    return path;
}

/* No charges: then a plan without workspaces is weights and KV. */
static inline const char *bare_device(void)
{
    static char path[160];
    if (!path[0])
        snprintf(path, sizeof path, "%s",
                 write_text("bare-device.json", "{\"name\": \"bare\", \"context_bytes\": 0, \"library_reserve_bytes\": 0, "
                                                "\"granule_bytes\": 2097152}"));
    return path;
}
#define BARE "--workspaces", "none", "--device-profile", bare_device()

static inline const json_t *member_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!value) print_error("no key %s in: %s\n", key, result.out);
    assert_non_null(value);
    return value;
}

static inline uint64_t integer_of(const json_t *object, const char *key)
{
    const json_t *value = member_of(object, key);
    assert_true(json_is_integer(value));
    return (uint64_t)json_integer_value(value);
}

static inline const char *text_of(const json_t *object, const char *key)
{
    const json_t *value = member_of(object, key);
    assert_true(json_is_string(value));
    return json_string_value(value);
}

/* Bytes of the lines first <= id < end of a plan or a failure; *out_n: how many there are. */
static inline uint64_t bytes_of_ids(const json_t *plan, uint64_t first, uint64_t end, size_t *out_n)
{
    uint64_t sum = 0;
    size_t i;
    json_t *line;
    *out_n = 0;
    json_array_foreach(member_of(plan, "lines"), i, line)
    {
        uint64_t id = integer_of(line, "id");
        if (id < first || id >= end) continue;
        sum += integer_of(line, "bytes");
        ++*out_n;
    }
    return sum;
}

/* There is exactly one such line, of that many bytes. */
static inline void assert_line(const json_t *plan, uint64_t id, uint64_t bytes)
{
    size_t n = 0;
    uint64_t found = bytes_of_ids(plan, id, id + 1, &n);
    if (n != 1 || found != bytes) print_error("line %llu of: %s\n", (unsigned long long)id, result.out);
    assert_int_equal(n, 1);
    assert_int_equal(found, bytes);
}

static inline void assert_no_line(const json_t *plan, uint64_t id)
{
    size_t n = 0;
    assert_int_equal(bytes_of_ids(plan, id, id + 1, &n), 0);
    assert_int_equal(n, 0);
}

/* Arguments that grow: a question, then its levers behind it. */
typedef struct question_line {
    const char *argument[RUN_MAX_ARGUMENTS];
    size_t n;
} question_line;

static inline void ask_more(question_line *q, const char *argument)
{
    assert_true(q->n + 1 < RUN_MAX_ARGUMENTS);
    q->argument[q->n++] = argument;
    q->argument[q->n] = NULL;
}

/* Asks `q` as JSON, which must be refused, then with each lever pasted behind it, which must fit. Bit k of *out_kinds: there was
 * a lever of kinds[k]; bit 31: there was a pair. */
static inline void assert_levers_work(const question_line *q, const char *const *kinds, uint32_t *out_kinds)
{
    question_line asked = *q;
    ask_more(&asked, "--json");
    run_vector(NULL, asked.argument);
    assert_answer(1);
    json_t *root = output_json();
    const json_t *levers = member_of(member_of(root, "failure"), "levers");
    assert_true(json_array_size(levers) > 0);
    size_t i;
    json_t *lever;
    json_array_foreach(levers, i, lever)
    {
        question_line pasted = *q;
        char flags[128];
        snprintf(flags, sizeof flags, "%s", text_of(lever, "flag"));
        for (char *part = strtok(flags, " "); part; part = strtok(NULL, " ")) ask_more(&pasted, part);
        run_vector(NULL, pasted.argument);
        if (result.code) print_error("%s does not help: %s\n", text_of(lever, "flag"), result.out);
        assert_answer(0);
        for (uint32_t k = 0; kinds[k]; k++)
            if (strcmp(kinds[k], text_of(lever, "kind")) == 0) *out_kinds |= 1u << k;
        if (!json_is_null(member_of(lever, "second"))) *out_kinds |= 1u << 31;
    }
    json_decref(root);
}

#endif
