/* Which layers keep only a window of the context, and how long it is. Explicit per-layer lists win over the
 * architecture's rule; null means off. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/internal.h"

#define MOST ((uint32_t)INT32_MAX)

static void all_but_every(impmem__facts *facts, uint32_t period)
{
    for (uint32_t i = 0; i < facts->layers; i++) facts->windowed[i] = (i + 1) % period != 0;
}

/* The window's length: *on is false when it is off. A published default is used only where the key is missing
 * altogether. */
static impmem_status read_length(impmem__reading *reading, impmem__field field, bool *on)
{
    impmem__facts *facts = &reading->facts;
    bool found = false;
    char name[128];
    impmem_status st = impmem__field_u32(reading, field, reading->keys.gguf ? 0 : 1, MOST, &facts->window, &found);
    if (st) return st;
    *on = found && facts->window > 0;
    if (found || impmem__field_is_null(reading, field) || reading->arch->default_window == 0) return IMPMEM_OK;
    facts->window = reading->arch->default_window;
    *on = true;
    impmem__note(reading->model, "%s: missing, %u is the published default of %s",
                 impmem__field_name(reading, field, name, sizeof name), facts->window, reading->arch->name);
    return IMPMEM_OK;
}

/* layer_types of newer Hugging Face configs. */
static impmem_status read_layer_types(impmem__reading *reading, const impmem__value *list, bool *chunked, bool *any)
{
    impmem__facts *facts = &reading->facts;
    if (list->kind != IMPMEM__ARRAY || list->count != facts->layers) {
        char what[80];
        impmem__describe(list, what, sizeof what);
        return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                              "key 'layer_types': found %s, expected an array of "
                              "%u, one entry a layer",
                              what, facts->layers);
    }
    for (uint32_t i = 0; i < facts->layers; i++) {
        impmem__value item;
        reading->keys.item(list, i, &item);
        const char *type = item.kind == IMPMEM__TEXT ? item.text : "";
        if (strcmp(type, "sliding_attention") == 0 || strcmp(type, "chunked_attention") == 0) {
            facts->windowed[i] = 1;
            *any = true;
            if (type[0] == 'c') *chunked = true;
        } else if (strcmp(type, "full_attention") != 0 && strcmp(type, "attention") != 0 &&
                   !(reading->arch->recurrent && impmem__recurrent_word(type))) {
            char what[80];
            impmem__describe(&item, what, sizeof what);
            return impmem__refuse(
                &reading->diag, IMPMEM_ERR_UNKNOWN_ARCHITECTURE, IMPMEM__NO_OFFSET,
                "key 'layer_types[%u]': found %s, "
                "expected full_attention, sliding_attention or chunked_attention: other kinds of layer are not "
                "planned by this version",
                i, what);
        }
    }
    return IMPMEM_OK;
}

/* A period, or one bool a layer. */
static impmem_status read_pattern(impmem__reading *reading)
{
    impmem__facts *facts = &reading->facts;
    impmem__value value;
    char name[128];
    impmem__field_find(reading, IMPMEM__F_WINDOW_PATTERN, &value, name, sizeof name);
    if (value.kind == IMPMEM__ARRAY) {
        bool bad = value.count != facts->layers;
        for (uint32_t i = 0; i < facts->layers && !bad; i++) {
            impmem__value item;
            reading->keys.item(&value, i, &item);
            bad = item.kind != IMPMEM__BOOL && item.kind != IMPMEM__INT;
            facts->windowed[i] = item.integer != 0;
        }
        if (!bad) return IMPMEM_OK;
        return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, reading->keys.gguf ? value.offset : IMPMEM__NO_OFFSET,
                              "key '%s': found an array of %" PRIu64 ", expected one bool for each of %u layers", name,
                              value.count, facts->layers);
    }
    uint32_t period = reading->arch->period;
    bool found = false;
    impmem_status st = impmem__field_u32(reading, IMPMEM__F_WINDOW_PATTERN, 1, IMPMEM_MAX_LAYERS, &period, &found);
    if (st) return st;
    if (!found) {
        impmem__note(reading->model, "%s: missing, %u is the published default of %s: every %u. layer is full", name,
                     period, reading->arch->name, period);
    }
    all_but_every(facts, period);
    return IMPMEM_OK;
}

/* Llama 4: layers with rotary positions attend inside their chunk, those without to everything. */
static impmem_status read_no_rope(impmem__reading *reading)
{
    impmem__facts *facts = &reading->facts;
    impmem__value value;
    reading->keys.find(reading->keys.self, "no_rope_layers", &value);
    if (value.kind == IMPMEM__ARRAY && value.count > 0) {
        bool bad = value.count != facts->layers;
        for (uint32_t i = 0; i < facts->layers && !bad; i++) {
            impmem__value item;
            reading->keys.item(&value, i, &item);
            bad = item.kind != IMPMEM__INT || item.integer < 0 || item.integer > 1;
            facts->windowed[i] = item.integer == 1;
        }
        if (!bad) return IMPMEM_OK;
        return impmem__refuse(&reading->diag, IMPMEM_ERR_BAD_VALUE, IMPMEM__NO_OFFSET,
                              "key 'no_rope_layers': found an array of %" PRIu64 ", expected 0 or 1 for each of %u layers",
                              value.count, facts->layers);
    }
    uint32_t period = reading->arch->period;
    bool found = false;
    impmem_status st = impmem__key_u32(reading, "no_rope_layer_interval", 1, IMPMEM_MAX_LAYERS, &period, &found);
    if (st) return st;
    if (!found) {
        impmem__note(reading->model,
                     "no_rope_layers: missing, every %u. layer attends to everything by the published default of %s",
                     period, reading->arch->name);
    }
    all_but_every(facts, period);
    return IMPMEM_OK;
}

static impmem_status read_by_flag(impmem__reading *reading)
{
    impmem__facts *facts = &reading->facts;
    bool use = false, on = false, found = false;
    impmem_status st = impmem__key_bool(reading, "use_sliding_window", &use, NULL);
    if (st || !use) return st;
    st = read_length(reading, IMPMEM__F_WINDOW, &on);
    if (st || !on) return st;
    uint32_t from = 0;
    st = impmem__key_u32(reading, "max_window_layers", 0, MOST, &from, &found);
    if (st) return st;
    if (!found) {
        return impmem__refuse(&reading->diag, IMPMEM_ERR_MISSING_KEY, IMPMEM__NO_OFFSET,
                              "key 'max_window_layers': found nothing, expected "
                              "it beside use_sliding_window true");
    }
    for (uint32_t i = from; i < facts->layers; i++) facts->windowed[i] = 1;
    return IMPMEM_OK;
}

static impmem_status read_by_types(impmem__reading *reading, const impmem__value *list)
{
    bool chunked = false, any = false, on = false;
    impmem_status st = read_layer_types(reading, list, &chunked, &any);
    if (st || !any) return st;
    impmem__field field = chunked ? IMPMEM__F_CHUNK : IMPMEM__F_WINDOW;
    st = read_length(reading, field, &on);
    if (st || on) return st;
    return impmem__missing(reading, field);
}

static impmem_status read_by_rule(impmem__reading *reading)
{
    impmem__facts *facts = &reading->facts;
    bool on = false, found = false;
    impmem_status st = IMPMEM_OK;
    switch ((impmem__window_rule)reading->arch->window) {
    case IMPMEM__WINDOW_NONE: {
        uint32_t unused = 0;
        st = impmem__field_u32(reading, IMPMEM__F_WINDOW, 0, MOST, &unused, &found);
        if (!st && found && unused > 0) {
            impmem__note(reading->model, "sliding_window: %u is not used by %s, every layer is planned as full attention",
                         unused, reading->arch->name);
        }
        return st;
    }
    case IMPMEM__WINDOW_ALL:
        st = read_length(reading, IMPMEM__F_WINDOW, &on);
        for (uint32_t i = 0; i < facts->layers && on; i++) facts->windowed[i] = 1;
        return st;
    case IMPMEM__WINDOW_BY_FLAG: return read_by_flag(reading);
    case IMPMEM__WINDOW_PERIODIC:
        st = read_length(reading, IMPMEM__F_WINDOW, &on);
        if (!st && on) st = read_pattern(reading);
        return st;
    case IMPMEM__WINDOW_CHUNKS:
        st = read_length(reading, IMPMEM__F_CHUNK, &on);
        if (!st && on) st = read_no_rope(reading);
        return st;
    }
    return IMPMEM_OK;
}

impmem_status impmem__windows_read(impmem__reading *reading)
{
    impmem__facts *facts = &reading->facts;
    impmem__value list;
    memset(&list, 0, sizeof list);
    if (!reading->keys.gguf) reading->keys.find(reading->keys.self, "layer_types", &list);
    impmem_status st = list.kind == IMPMEM__ABSENT ? read_by_rule(reading) : read_by_types(reading, &list);
    if (st) return st;
    bool any = false;
    for (uint32_t i = 0; i < facts->layers; i++) any = any || facts->windowed[i];
    if (any && facts->context > 0 && facts->window >= facts->context) {
        impmem__note(reading->model,
                     "sliding_window: %u is no shorter than the trained context, %u: it cuts nothing within it",
                     facts->window, facts->context);
    }
    return IMPMEM_OK;
}
