/* Layers with a state of fixed size per sequence: which they are, whether they attend too, and how large the state is.
 * GGUF marks a layer without attention by a KV head count of 0; Hugging Face configs have a list, a pattern of letters
 * or a period. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/internal.h"

#define MOST ((uint32_t)INT32_MAX)
#define MOST_HEADS 65535u

static bool is(const impmem__reading *reading, impmem_recurrent_kind kind)
{
    return reading->arch->recurrent == (uint8_t)kind;
}

bool impmem__recurrent_word(const char *word)
{
    static const char *const words[] = {"linear_attention", "mamba", "mamba2", "conv"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(word, words[i]) == 0) return true;
    }
    return false;
}

/* ---- which layers ---- */

static impmem_status bad_list(const impmem__reading *reading, const char *name, uint64_t index, const impmem__value *found,
                              const char *expected)
{
    char what[80];
    impmem__describe(found, what, sizeof what);
    return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                          "key '%s[%" PRIu64 "]': found %s, expected %s", name, index, what, expected);
}

static impmem_status bad_length(const impmem__reading *reading, const char *name, uint64_t found)
{
    return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                          "key '%s': found %" PRIu64 " entries, expected one for each of %u layers", name, found,
                          reading->facts.layers);
}

static char letter_of(bool state, bool attends, bool experts)
{
    if (state) return 'M';
    if (attends) return '*';
    if (experts) return 'E';
    return '-';
}

/* One word a layer. */
static impmem_status by_words(impmem__reading *reading, const char *name, const impmem__value *list)
{
    impmem__facts *facts = &reading->facts;
    const bool parts = reading->arch->mix == IMPMEM__MIX_PATTERN;
    if (list->count != facts->layers) return bad_length(reading, name, list->count);
    for (uint32_t i = 0; i < facts->layers; i++) {
        impmem__value item;
        reading->keys.item(list, i, &item);
        const char *word = item.kind == IMPMEM__TEXT ? item.text : "";
        const bool attends = strcmp(word, "attention") == 0 || strcmp(word, "full_attention") == 0 ||
                             strcmp(word, "sliding_attention") == 0;
        const bool mlp = parts && strcmp(word, "mlp") == 0, moe = parts && strcmp(word, "moe") == 0;
        facts->recurrent[i] = impmem__recurrent_word(word);
        if (!facts->recurrent[i] && !attends && !mlp && !moe)
            return bad_list(reading, name, i, &item,
                            parts ? "\"mamba\", \"attention\", \"mlp\" or \"moe\"" : "a kind of attention or of state");
        if (parts) facts->part[i] = letter_of(facts->recurrent[i], attends, moe);
        if (!attends) facts->kv_heads[i] = 0;
    }
    return IMPMEM_OK;
}

/* M a state, * attention, - a feed-forward part, E experts. */
static impmem_status by_letters(impmem__reading *reading, const char *name, const impmem__value *pattern)
{
    impmem__facts *facts = &reading->facts;
    const char *letter = pattern->text;
    if (strlen(letter) != facts->layers) return bad_length(reading, name, strlen(letter));
    for (uint32_t i = 0; i < facts->layers; i++) {
        if (!strchr("M*-E", letter[i])) {
            return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                                  "key '%s': found '%c' for layer %u, expected M, *, - or E", name, letter[i], i);
        }
        facts->part[i] = letter[i];
        facts->recurrent[i] = letter[i] == 'M';
        if (letter[i] != '*') facts->kv_heads[i] = 0;
    }
    return IMPMEM_OK;
}

/* The indices of the layers that attend. */
static impmem_status by_indices(impmem__reading *reading, const char *name, const impmem__value *list)
{
    impmem__facts *facts = &reading->facts;
    memset(facts->recurrent, 1, facts->layers);
    for (uint64_t i = 0; i < list->count; i++) {
        uint32_t layer = 0;
        impmem_status st = impmem__layer_index(reading, name, list, i, &layer);
        if (st) return st;
        facts->recurrent[layer] = 0;
    }
    for (uint32_t i = 0; i < facts->layers; i++) {
        if (facts->recurrent[i]) facts->kv_heads[i] = 0;
    }
    return IMPMEM_OK;
}

static void by_period(impmem__facts *facts, uint32_t period, uint32_t offset)
{
    for (uint32_t i = 0; i < facts->layers; i++) {
        facts->recurrent[i] = i % period != offset;
        if (facts->recurrent[i]) facts->kv_heads[i] = 0;
    }
}

/* full_attention_interval, or Jamba's attn_layer_period and attn_layer_offset. */
static impmem_status read_period(impmem__reading *reading)
{
    const impmem__arch *arch = reading->arch;
    uint32_t period = arch->period, offset = 0;
    bool found = false, interval = false;
    char name[128];
    impmem_status st = impmem__field_u32(reading, IMPMEM__F_INTERVAL, 1, IMPMEM_MAX_LAYERS, &period, &interval);
    if (!st && !interval && !reading->keys.gguf)
        st = impmem__key_u32(reading, "attn_layer_period", 1, IMPMEM_MAX_LAYERS, &period, &found);
    if (!st && found) st = impmem__key_u32(reading, "attn_layer_offset", 0, period - 1, &offset, &found);
    if (st) return st;
    if (found) {
        by_period(&reading->facts, period, offset);
        return IMPMEM_OK;
    }
    if (!interval && !is(reading, IMPMEM_RECURRENT_DELTA_NET)) {
        return impmem__refuse(&reading->diag, IMPMEM_ERR_MISSING_KEY, IMPMEM__NO_OFFSET,
                              "which layers attend: found %s, expected it for architecture '%s'",
                              reading->keys.gguf
                                  ? "KV heads in every layer"
                                  : "no layer_types, layers_block_type, list of layers, or period with offset",
                              reading->model->shape.architecture);
    }
    if (!interval) {
        impmem__note(reading->model, "%s: missing, %u is the published default of %s",
                     impmem__field_name(reading, IMPMEM__F_INTERVAL, name, sizeof name), period, arch->name);
    }
    by_period(&reading->facts, period, period - 1);
    return IMPMEM_OK;
}

/* A KV head count of 0; where a layer is one part only, a feed-forward width of 0 too. */
static impmem_status by_zeros(impmem__reading *reading, bool *any)
{
    impmem__facts *facts = &reading->facts;
    bool found = false;
    const bool parts = reading->arch->mix == IMPMEM__MIX_PATTERN;
    impmem_status st = IMPMEM_OK;
    if (parts) st = impmem__field_layers(reading, IMPMEM__F_FEED_FORWARD, 0, MOST, facts->ff, &found);
    if (st) return st;
    bool mixed = false;
    for (uint32_t i = 0; i < facts->layers; i++) mixed = mixed || facts->ff[i] != facts->ff[0];
    for (uint32_t i = 0; i < facts->layers; i++) {
        *any = *any || facts->kv_heads[i] == 0;
        facts->recurrent[i] = facts->kv_heads[i] == 0 && !(parts && mixed && facts->ff[i] > 0);
        if (parts && mixed) facts->part[i] = letter_of(facts->recurrent[i], facts->kv_heads[i] > 0, false);
    }
    return IMPMEM_OK;
}

static impmem_status read_listed(impmem__reading *reading)
{
    static const char *const words[] = {"layer_types", "layers_block_type"};
    static const char *const indices[] = {"full_attn_idxs", "attn_layer_indices"};
    bool any = false;
    impmem__value value;
    if (reading->keys.gguf) {
        impmem_status st = by_zeros(reading, &any);
        return st || any ? st : read_period(reading);
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        reading->keys.find(reading->keys.self, words[i], &value);
        if (value.kind == IMPMEM__ARRAY) return by_words(reading, words[i], &value);
    }
    reading->keys.find(reading->keys.self, "hybrid_override_pattern", &value);
    if (value.kind == IMPMEM__TEXT) return by_letters(reading, "hybrid_override_pattern", &value);
    for (size_t i = 0; i < sizeof indices / sizeof *indices; i++) {
        reading->keys.find(reading->keys.self, indices[i], &value);
        if (value.kind == IMPMEM__ARRAY) return by_indices(reading, indices[i], &value);
    }
    if (reading->arch->mix != IMPMEM__MIX_PATTERN) return read_period(reading);
    return impmem__refuse(&reading->diag, IMPMEM_ERR_MISSING_KEY, IMPMEM__NO_OFFSET,
                          "key 'hybrid_override_pattern': found nothing, expected one letter for each of %u layers",
                          reading->facts.layers);
}

/* ---- how large ---- */

static impmem_status required(impmem__reading *reading, const char *name, uint32_t *out)
{
    bool found = false;
    impmem_status st = impmem__key_u32(reading, name, 1, MOST_HEADS, out, &found);
    if (st || found) return st;
    return impmem__refuse(&reading->diag, IMPMEM_ERR_MISSING_KEY, IMPMEM__NO_OFFSET,
                          "key '%s%s': found nothing, expected it for architecture '%s'",
                          reading->keys.gguf ? reading->keys.prefix : "", name, reading->model->shape.architecture);
}

/* What a figure is called: models of Mamba layers alone, models of one part a layer and the others differ. */
static const char *called(const impmem__reading *reading, const char *alone, const char *parts, const char *others)
{
    if (reading->arch->mix == IMPMEM__MIX_ALL) return alone;
    return reading->arch->mix == IMPMEM__MIX_PATTERN ? parts : others;
}

/* conv_channels = inner + 2 x groups x columns of the state. */
static impmem_status fill_state(impmem__reading *reading, uint32_t groups, uint32_t columns)
{
    impmem__facts *facts = &reading->facts;
    const uint64_t channels = facts->inner + UINT64_C(2) * groups * columns;
    if (channels > MOST) {
        return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                              "recurrent state: found %" PRIu64 " channels of the convolution, expected at most %u",
                              channels, MOST);
    }
    facts->conv_channels = (uint32_t)channels;
    facts->state_elements = (uint64_t)facts->inner * facts->state;
    return IMPMEM_OK;
}

static impmem_status product(const impmem__reading *reading, const char *what, uint64_t a, uint64_t b, uint32_t *out)
{
    if (a * b > MOST) {
        return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                              "recurrent state: found %" PRIu64 " x %" PRIu64 " %s, expected a product of at most %u", a, b,
                              what, MOST);
    }
    *out = (uint32_t)(a * b);
    return IMPMEM_OK;
}

static bool is_auto(const impmem__reading *reading, impmem__field field)
{
    impmem__value value;
    char name[128];
    impmem__field_find(reading, field, &value, name, sizeof name);
    return value.kind == IMPMEM__TEXT && strcmp(value.text, "auto") == 0;
}

/* The heads of Mamba-2: the model that has no others calls them num_heads and head_dim. */
static impmem_status read_state_heads(impmem__reading *reading)
{
    impmem__facts *facts = &reading->facts;
    const bool only = reading->arch->mix == IMPMEM__MIX_ALL && !reading->keys.gguf;
    bool found = false;
    impmem_status st = only ? impmem__key_u32(reading, "num_heads", 1, MOST_HEADS, &facts->state_heads, &found)
                            : impmem__field_u32(reading, IMPMEM__F_STATE_HEADS, 1, MOST_HEADS, &facts->state_heads, &found);
    if (st || !found || reading->keys.gguf) return st;
    if (only) return impmem__key_u32(reading, "head_dim", 1, MOST_HEADS, &facts->state_head_dim, NULL);
    if (is_auto(reading, IMPMEM__F_STATE_HEAD_DIM)) return IMPMEM_OK;
    return impmem__field_u32(reading, IMPMEM__F_STATE_HEAD_DIM, 1, MOST_HEADS, &facts->state_head_dim, NULL);
}

/* The rows of the state: stated, heads x their dimension, or a multiple of the hidden size. */
static impmem_status read_inner(impmem__reading *reading)
{
    impmem__facts *facts = &reading->facts;
    bool found = false;
    if (reading->keys.gguf) return impmem__field_required(reading, IMPMEM__F_INNER, 1, MOST, &facts->inner);
    impmem_status st = impmem__field_u32(reading, IMPMEM__F_INNER, 1, MOST, &facts->inner, &found);
    if (!st && !found && reading->arch->mix == IMPMEM__MIX_ALL && is(reading, IMPMEM_RECURRENT_MAMBA))
        st = impmem__key_u32(reading, "intermediate_size", 1, MOST, &facts->inner, &found);
    if (st) return st;
    if (!found && facts->state_heads > 0 && facts->state_head_dim > 0)
        return product(reading, "heads x head dimension", facts->state_heads, facts->state_head_dim, &facts->inner);
    uint32_t expand = 0;
    if (!found) st = required(reading, called(reading, "expand", "expand", "mamba_expand"), &expand);
    if (!st && !found) st = product(reading, "hidden size x expansion", facts->hidden, expand, &facts->inner);
    return st;
}

static impmem_status check_state_heads(const impmem__reading *reading)
{
    const impmem__facts *facts = &reading->facts;
    const uint64_t heads = facts->state_heads, dim = facts->state_head_dim;
    if (heads == 0 || (dim ? heads * dim == facts->inner : facts->inner % heads == 0)) return IMPMEM_OK;
    return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                          "recurrent state: found %u rows for %" PRIu64 " heads of %" PRIu64 ", expected as many as those",
                          facts->inner, heads, dim);
}

static impmem_status read_mamba(impmem__reading *reading)
{
    impmem__facts *facts = &reading->facts;
    const bool second = is(reading, IMPMEM_RECURRENT_MAMBA2);
    const char *state = reading->keys.gguf ? ".ssm.state_size"
                                           : called(reading, "state_size", "ssm_state_size", "mamba_d_state");
    bool found = false;
    char name[128];
    impmem_status st = required(reading, state, &facts->state);
    if (!st && second) st = read_state_heads(reading);
    if (!st) st = read_inner(reading);
    if (!st) st = check_state_heads(reading);
    if (!st && (second || reading->keys.gguf))
        st = impmem__field_u32(reading, IMPMEM__F_GROUPS, second ? 1 : 0, MOST_HEADS, &facts->groups, &found);
    if (st) return st;
    if (second && !found) {
        if (reading->keys.gguf) return impmem__missing(reading, IMPMEM__F_GROUPS);
        facts->groups = 1;
        impmem__note(reading->model, "%s: missing, 1 is the published default of %s",
                     impmem__field_name(reading, IMPMEM__F_GROUPS, name, sizeof name), reading->arch->name);
    }
    if (!second && !reading->keys.gguf) {
        facts->rank = facts->hidden / 16 + (facts->hidden % 16 != 0);
        if (!is_auto(reading, IMPMEM__F_RANK)) st = impmem__field_u32(reading, IMPMEM__F_RANK, 1, MOST, &facts->rank, NULL);
    }
    return st ? st : fill_state(reading, facts->groups, facts->state);
}

/* Gated delta net: value heads of a matrix each, key dimension x value dimension, and convolved queries, keys, values. */
static impmem_status read_delta_net(impmem__reading *reading)
{
    impmem__facts *facts = &reading->facts;
    if (reading->keys.gguf) {
        impmem_status st = impmem__field_required(reading, IMPMEM__F_INNER, 1, MOST, &facts->inner);
        if (!st) st = required(reading, ".ssm.state_size", &facts->state);
        if (!st) st = required(reading, ".ssm.group_count", &facts->groups);
        return st ? st : fill_state(reading, facts->groups, facts->state);
    }
    impmem_status st = required(reading, "linear_num_key_heads", &facts->groups);
    if (!st) st = required(reading, "linear_key_head_dim", &facts->state);
    if (!st) st = required(reading, "linear_num_value_heads", &facts->state_heads);
    if (!st) st = required(reading, "linear_value_head_dim", &facts->state_head_dim);
    if (st) return st;
    if (facts->state_heads % facts->groups) {
        return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                              "key 'linear_num_value_heads': found %u for %u key heads, expected a multiple",
                              facts->state_heads, facts->groups);
    }
    st = product(reading, "value heads x their dimension", facts->state_heads, facts->state_head_dim, &facts->inner);
    return st ? st : fill_state(reading, facts->groups, facts->state);
}

static impmem_status read_size(impmem__reading *reading)
{
    impmem__facts *facts = &reading->facts;
    const bool conv = is(reading, IMPMEM_RECURRENT_SHORT_CONV), net = is(reading, IMPMEM_RECURRENT_DELTA_NET);
    const char *kernel = reading->keys.gguf ? (conv ? ".shortconv.l_cache" : ".ssm.conv_kernel")
                         : conv             ? "conv_L_cache"
                         : net              ? "linear_conv_kernel_dim"
                                            : called(reading, "conv_kernel", "conv_kernel", "mamba_d_conv");
    impmem_status st = required(reading, kernel, &facts->conv_kernel);
    if (conv) facts->conv_channels = facts->hidden;
    if (st || conv) return st;
    return net ? read_delta_net(reading) : read_mamba(reading);
}

impmem_status impmem__recurrent_read(impmem__reading *reading)
{
    impmem__facts *facts = &reading->facts;
    impmem_status st = IMPMEM_OK;
    switch ((impmem__mix)reading->arch->mix) {
    case IMPMEM__MIX_NONE: return IMPMEM_OK;
    case IMPMEM__MIX_ALL:
        memset(facts->kv_heads, 0, facts->layers * sizeof *facts->kv_heads);
        memset(facts->recurrent, 1, facts->layers);
        break;
    case IMPMEM__MIX_BOTH: memset(facts->recurrent, 1, facts->layers); break;
    case IMPMEM__MIX_LISTED:
    case IMPMEM__MIX_PATTERN: st = read_listed(reading); break;
    }
    bool any = false;
    for (uint32_t i = 0; i < facts->layers && !st; i++) any = any || facts->recurrent[i];
    return st || !any ? st : read_size(reading);
}
