/* flags.c - strict flag values, and argp with one-line errors. */
#include "flags.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "impmem/bytes.h"

/* What the error handler must know of the parse that is under way: argp's one input pointer is the verb's own. */
typedef struct parse_context {
    const struct argp *argp;
    const char *name;
} parse_context;

static parse_context current; /* one parse at a time: a command line is read once, by one thread */

static const struct argp_option *option_named(const char *text)
{
    size_t n = strcspn(text, "=");
    const struct argp_option *abbreviated = NULL;
    for (const struct argp_option *o = current.argp->options; o->name || o->doc; o++) { /* group heads have a doc only */
        if (!o->name || strncmp(o->name, text, n)) continue;
        if (o->name[n] == '\0') return o;
        if (abbreviated) return NULL;
        abbreviated = o;
    }
    return abbreviated;
}

/* getopt has met something that it can't take, and has moved past it. */
static _Noreturn void refuse_option(const struct argp_state *state)
{
    const char *text = "";
    if (state->next > 0 && state->next - 1 < state->argc) text = state->argv[state->next - 1];
    if (text[0] != '-' && state->next < state->argc) text = state->argv[state->next];
    const struct argp_option *option = strncmp(text, "--", 2) == 0 ? option_named(text + 2) : NULL;
    if (option && option->arg) command_bad_usage("%s: needs a value: --%s %s", text, option->name, option->arg);
    if (option && strchr(text, '=')) command_bad_usage("%s: --%s takes no value", text, option->name);
    command_bad_usage("%s: no such flag (%s --help lists them)", text, current.name);
}

error_t flags_common(int key, struct argp_state *state)
{
    if (key == FLAGS_HELP_KEY) {
        char name[64]; /* argp wants it writable */
        snprintf(name, sizeof name, "%s", current.name);
        argp_help(current.argp, stdout, ARGP_HELP_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC, name);
        exit(command_finish_output(COMMAND_DONE));
    }
    if (key == ARGP_KEY_ERROR) refuse_option(state);
    return ARGP_ERR_UNKNOWN;
}

void flags_parse(const struct argp *argp, const char *name, int argc, char **argv, unsigned flags, void *input)
{
    current.argp = argp;
    current.name = name;
    error_t failed = argp_parse(argp, argc, argv, flags | ARGP_NO_HELP | ARGP_NO_ERRS, NULL, input);
    if (failed) command_bad_usage("%s: the command line could not be read: %s", name, strerror(failed));
}

uint64_t flags_integer(const char *flag, const char *text, uint64_t low, uint64_t high)
{
    uint64_t value = 0;
    bool good = text[0] != '\0';
    for (const char *c = text; good && *c; c++) {
        uint64_t digit = (uint64_t)(*c - '0');
        good = *c >= '0' && *c <= '9' && value <= (UINT64_MAX - digit) / 10;
        if (good) value = value * 10 + digit;
    }
    if (!good || value < low || value > high)
        command_bad_usage("%s: \"%s\" is no whole number from %" PRIu64 " to %" PRIu64, flag, text, low, high);
    return value;
}

uint32_t flags_integer32(const char *flag, const char *text, uint32_t low, uint32_t high)
{
    return (uint32_t)flags_integer(flag, text, low, high);
}

uint64_t flags_bytes(const char *flag, const char *text)
{
    uint64_t bytes = 0;
    if (impmem_parse_bytes(text, &bytes))
        command_bad_usage("%s: \"%s\" is no size; expected bytes below 2^64 or a size such as 24GiB, 512MiB, 1.5GiB, 64KiB",
                          flag, text);
    return bytes;
}

static const char *dtype_names(char *buffer, size_t capacity)
{
    size_t used = 0;
    buffer[0] = '\0';
#define NAME(name, value, text, elements, bytes, scale)                                                                    \
    if (used < capacity) used += (size_t)snprintf(buffer + used, capacity - used, "%s" text, used ? " " : "");
    IMPMEM_DTYPE_MAP(NAME)
#undef NAME
    return buffer;
}

static bool parse_dtype_part(const char *text, size_t n, impmem_dtype *out)
{
    char name[32];
    if (n == 0 || n >= sizeof name) return false;
    memcpy(name, text, n);
    name[n] = '\0';
    return impmem_dtype_parse(name, out) == IMPMEM_OK;
}

void flags_kv_dtype(const char *flag, const char *text, impmem_dtype *k, impmem_dtype *v)
{
    const char *comma = strchr(text, ',');
    size_t k_length = comma ? (size_t)(comma - text) : strlen(text);
    const char *v_text = comma ? comma + 1 : text;
    impmem_dtype first = IMPMEM_DTYPE_DEFAULT;
    impmem_dtype second = IMPMEM_DTYPE_DEFAULT;
    if (!parse_dtype_part(text, k_length, &first) || !parse_dtype_part(v_text, strlen(v_text), &second)) {
        char names[256];
        command_bad_usage("%s: \"%s\" is no element type; expected T or K,V with %s", flag, text,
                          dtype_names(names, sizeof names));
    }
    *k = first;
    *v = second;
}

void flags_demand_line(const char *flag, const char *text, flags_line *out)
{
    static const impmem_tier allowed[] = {IMPMEM_TIER_MODEL,   IMPMEM_TIER_ENGINE, IMPMEM_TIER_SCRATCH,
                                          IMPMEM_TIER_STAGING, IMPMEM_TIER_PINNED, IMPMEM_TIER_CHARGE};
    const char *equals = strchr(text, '=');
    const char *colon = equals ? strchr(equals, ':') : NULL;
    if (!colon) command_bad_usage("%s: \"%s\" is not NAME=TIER:BYTES, for example vision=engine:256MiB", flag, text);
    size_t name_length = (size_t)(equals - text);
    if (name_length == 0 || name_length >= sizeof out->name)
        command_bad_usage("%s: \"%s\": a name has 1 to %zu bytes", flag, text, sizeof out->name - 1);
    memcpy(out->name, text, name_length);
    out->name[name_length] = '\0';
    size_t tier_length = (size_t)(colon - equals - 1);
    bool known = false;
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0] && !known; i++) {
        const char *name = impmem_tier_name(allowed[i]);
        known = strlen(name) == tier_length && strncmp(name, equals + 1, tier_length) == 0;
        if (known) out->tier = allowed[i];
    }
    if (!known)
        command_bad_usage("%s: \"%s\": no such tier; expected model, engine, scratch, staging, pinned or charge", flag,
                          text);
    out->bytes = flags_bytes(flag, colon + 1);
    if (out->bytes == 0) command_bad_usage("%s: \"%s\": a line of 0 bytes says nothing; expected 1 or more", flag, text);
}
