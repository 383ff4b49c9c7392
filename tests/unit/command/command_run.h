/* command_run.h - runs the impmem command and keeps what it said; model files for it to read. */
#ifndef TESTS_COMMAND_RUN_H
#define TESTS_COMMAND_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

enum { RUN_MAX_ARGUMENTS = 48, RUN_OUTPUT_BYTES = 1 << 18 };

typedef struct command_result {
    int code; /* exit code, or -1 for a death by signal */
    char out[RUN_OUTPUT_BYTES];
    char err[RUN_OUTPUT_BYTES];
} command_result;

static command_result result; /* of the last run */

static inline void read_back(FILE *file, char *text)
{
    rewind(file);
    size_t n = fread(text, 1, RUN_OUTPUT_BYTES - 1, file);
    assert_true(n < RUN_OUTPUT_BYTES - 1);
    text[n] = '\0';
    fclose(file);
}

/* Arguments up to NULL, without the command's own name. `out_path` NULL: standard output is kept. */
static inline void run_vector(const char *out_path, const char *const *arguments)
{
    char *argv[RUN_MAX_ARGUMENTS + 2];
    size_t n = 0;
    argv[n++] = strdup("impmem");
    for (; arguments[n - 1]; n++) {
        assert_true(n < RUN_MAX_ARGUMENTS);
        argv[n] = strdup(arguments[n - 1]);
    }
    argv[n] = NULL;
    FILE *out = out_path ? fopen(out_path, "w+") : tmpfile();
    FILE *err = tmpfile();
    assert_non_null(out);
    assert_non_null(err);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (dup2(fileno(out), 1) < 0 || dup2(fileno(err), 2) < 0) _exit(126);
        execv(IMPMEM_COMMAND, argv);
        _exit(127);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (out_path) {
        fclose(out);
        result.out[0] = '\0';
    } else {
        read_back(out, result.out);
    }
    read_back(err, result.err);
    while (n > 0) free(argv[--n]);
}

#define run(...) run_vector(NULL, (const char *const[]){__VA_ARGS__, NULL})

/* "one line on standard error, nothing else anywhere" */
static inline void assert_one_line_error(int code)
{
    if (result.code != code) print_error("stderr: %s\n", result.err);
    assert_int_equal(result.code, code);
    assert_string_equal(result.out, "");
    assert_int_equal(strncmp(result.err, "impmem: ", 8), 0);
    const char *end = strchr(result.err, '\n');
    assert_non_null(end);
    assert_string_equal(end, "\n");
}

static inline void assert_holds(const char *text, const char *part)
{
    if (!strstr(text, part)) print_error("\"%s\" is missing in: %s\n", part, text);
    assert_non_null(strstr(text, part));
}

static inline void assert_answer(int code)
{
    if (result.code != code || result.err[0]) print_error("exit %d, stderr: %s\n", result.code, result.err);
    assert_int_equal(result.code, code);
    assert_string_equal(result.err, "");
}

/* The one JSON object of standard output. */
static inline json_t *output_json(void)
{
    json_error_t where;
    json_t *root = json_loads(result.out, JSON_REJECT_DUPLICATES, &where);
    if (!root) print_error("line %d: %s in: %s\n", where.line, where.text, result.out);
    assert_non_null(root);
    assert_true(json_is_object(root));
    return root;
}

/* ---- files ---------------------------------------------------------------------------------------------------------- */

static char test_folder[64];

static inline int make_test_folder(void **state)
{
    (void)state;
    snprintf(test_folder, sizeof test_folder, "/tmp/impmem-command-XXXXXX");
    return mkdtemp(test_folder) ? 0 : -1;
}

static inline int remove_test_folder(void **state)
{
    (void)state;
    char shell[128];
    snprintf(shell, sizeof shell, "rm -rf '%s'", test_folder);
    return system(shell);
}

/* Path of `name` in the test's folder; four may be in use at once. */
static inline const char *test_path(const char *name)
{
    static char path[4][160];
    static unsigned next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", test_folder, name);
    return p;
}

static inline const char *write_bytes(const char *name, const void *bytes, size_t n)
{
    const char *path = test_path(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
    return path;
}

static inline const char *write_text(const char *name, const char *text)
{
    return write_bytes(name, text, strlen(text));
}

/* A dense model with grouped queries: 32 layers, 8 KV heads of 128. KV of a token at f16: 32 x 8 x (128 + 128) x 2 = 131072. */
#define TEST_KV_BYTES_PER_TOKEN ((uint64_t)131072)
#define TEST_MODEL_FIELDS                                                                                                  \
    "\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_size\": 4096, "                        \
    "\"intermediate_size\": 14336, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"num_hidden_layers\": 32, "   \
    "\"vocab_size\": 128256, \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\", \"rms_norm_eps\": 1e-05"

/* trained_context 0: the file doesn't tell. */
static inline const char *write_model(const char *name, unsigned trained_context)
{
    char text[1024];
    if (trained_context)
        snprintf(text, sizeof text, "{%s, \"max_position_embeddings\": %u}", TEST_MODEL_FIELDS, trained_context);
    else snprintf(text, sizeof text, "{%s}", TEST_MODEL_FIELDS);
    return write_text(name, text);
}

#endif
