/* plan_observed.c - `impmem plan MODEL --observed FILE`: the plan beside what an engine was measured to take. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "command.h"
#include "core/json.h"
#include "impmem/bytes.h"
#include "impmem/ledger.h"
#include "observed.h"
#include "plan_verb.h"

/* A plan line, a measured one, or both. */
typedef struct row {
    const char *name;
    const impmem_line *planned;    /* NULL: unplanned */
    const observed_line *measured; /* NULL: missing */
    bool off;                      /* by more than the tolerance */
} row;

typedef struct comparison {
    uint32_t n;
    uint32_t n_off, n_missing, n_unplanned;
    row row[IMPMEM_PLAN_MAX_LINES + OBSERVED_MAX_LINES];
    uint64_t planned_bytes,
        measured_bytes; /* of steady device lines that were measured; unplanned ones were planned as 0 */
    bool total_off;
    char unplanned_id[OBSERVED_MAX_LINES][16]; /* "line 42", for those that have no name */
} comparison;

/* Whether |planned - measured| is more than that many hundredths of a percent of planned; of 0, any difference is. */
static bool is_off(uint64_t planned, uint64_t measured, uint32_t hundredths)
{
    uint64_t gap = planned > measured ? planned - measured : measured - planned;
    long double allowed = (long double)planned * hundredths / 10000.0L;
    return (long double)gap > allowed;
}

static const observed_line *find_measured(const observed *seen, const impmem_line *line)
{
    for (uint32_t i = 0; i < seen->n; i++) {
        const observed_line *o = &seen->line[i];
        if (o->id != IMPMEM_NO_LINE ? o->id == line->id : strcasecmp(o->name, line->name) == 0) return o;
    }
    return NULL;
}

static bool is_planned(const comparison *c, const observed_line *measured)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (c->row[i].measured == measured) return true;
    return false;
}

/* Saturates: 256 lines of 64 bits each may be more than 64 bits hold. */
static void sum(uint64_t *total, uint64_t bytes)
{
    if (impmem_add(total, *total, bytes)) *total = UINT64_MAX;
}

static uint64_t larger_side(const row *r)
{
    const uint64_t planned = r->planned ? r->planned->bytes : 0, measured = r->measured ? r->measured->bytes : 0;
    return planned > measured ? planned : measured;
}

/* Largest first, by whichever side is larger; equal ones stay in plan order. */
static void sort_rows(comparison *c)
{
    for (uint32_t i = 1; i < c->n; i++) {
        const row r = c->row[i];
        uint32_t at = i;
        for (; at > 0 && larger_side(&c->row[at - 1]) < larger_side(&r); at--) c->row[at] = c->row[at - 1];
        c->row[at] = r;
    }
}

static void compare(const impmem_plan *plan, const observed *seen, uint32_t hundredths, comparison *c)
{
    for (uint32_t i = 0; i < plan->n_lines; i++) {
        const impmem_line *line = &plan->line[i];
        const observed_line *measured = find_measured(seen, line);
        const bool counted = line->account == IMPMEM_ACCOUNT_DEVICE && !(line->flags & IMPMEM_LINE_TRANSIENT);
        if (!measured && !counted) continue; /* host tables of this library: no other engine has them */
        row *r = &c->row[c->n++];
        *r = (row){line->name, line, measured, false};
        if (!measured) {
            c->n_missing++;
            continue;
        }
        if (counted) {
            sum(&c->planned_bytes, line->bytes);
            sum(&c->measured_bytes, measured->bytes);
        }
        r->off = is_off(line->bytes, measured->bytes, hundredths);
        c->n_off += r->off;
    }
    for (uint32_t i = 0; i < seen->n; i++) {
        const observed_line *o = &seen->line[i];
        if (is_planned(c, o)) continue;
        const char *name = o->name;
        if (o->id != IMPMEM_NO_LINE) {
            snprintf(c->unplanned_id[i], sizeof c->unplanned_id[i], "line %" PRIu32, o->id);
            name = c->unplanned_id[i];
        }
        c->row[c->n++] = (row){name, NULL, o, false};
        c->n_unplanned++;
        sum(&c->measured_bytes, o->bytes);
    }
    c->total_off = is_off(c->planned_bytes, c->measured_bytes, hundredths);
    sort_rows(c);
}

static double percent(uint64_t planned, uint64_t measured)
{
    return 100.0 * ((double)measured - (double)planned) / (double)planned;
}

/* "+1048576" */
static const char *signed_bytes(uint64_t planned, uint64_t measured, char buffer[32])
{
    const bool more = measured > planned;
    snprintf(buffer, 32, "%s%" PRIu64,
             more                 ? "+"
             : measured < planned ? "-"
                                  : "",
             more ? measured - planned : planned - measured);
    return buffer;
}

static void print_figures(uint64_t planned, uint64_t measured, const char *note)
{
    char gap[32];
    printf("  %16" PRIu64 "  %16" PRIu64 "  %16s", planned, measured, signed_bytes(planned, measured, gap));
    if (planned) printf("  %+8.2f%%", percent(planned, measured));
    else printf("  %9s", "-");
    printf("%s%s\n", note[0] ? "  " : "", note);
}

static void print_text(const plan_prepared *prepared, const comparison *c)
{
    const uint32_t hundredths = prepared->question.flags->tolerance_hundredths;
    int width = 24;
    for (uint32_t i = 0; i < c->n; i++)
        if ((int)strlen(c->row[i].name) > width) width = (int)strlen(c->row[i].name);
    plan_print_head(&prepared->question);
    printf("  %-*s  %16s  %16s  %16s  %9s\n", width, "line", "planned bytes", "measured bytes", "difference", "percent");
    for (uint32_t i = 0; i < c->n; i++) {
        const row *r = &c->row[i];
        printf("  ");
        plan_print_clean(r->name);
        printf("%*s", width - (int)strlen(r->name), "");
        if (!r->measured)
            printf("  %16" PRIu64 "  %16s  %16s  %9s  missing: not measured\n", r->planned->bytes, "-", "", "");
        else if (!r->planned) printf("  %16s  %16" PRIu64 "  %16s  %9s  unplanned\n", "-", r->measured->bytes, "", "");
        else print_figures(r->planned->bytes, r->measured->bytes, r->off ? "OFF" : "");
    }
    printf("  %-*s", width, "total of the measured");
    print_figures(c->planned_bytes, c->measured_bytes, c->total_off ? "OFF" : "");
    printf("\n  lines off by more than %" PRIu32 ".%02" PRIu32 "%%: %" PRIu32 ", missing: %" PRIu32 ", unplanned: %" PRIu32
           "; the total is %s\n",
           hundredths / 100, hundredths % 100, c->n_off, c->n_missing, c->n_unplanned, c->total_off ? "off" : "within it");
}

static void json_side(impmem__json *json, const char *key, bool there, uint64_t bytes)
{
    impmem__json_key(json, key);
    if (there) impmem__json_u64(json, bytes);
    else impmem__json_null(json);
}

static void json_difference(impmem__json *json, bool both, uint64_t planned, uint64_t measured)
{
    impmem__json_key(json, "difference_bytes");
    if (both) impmem__json_i64(json, (int64_t)(measured - planned));
    else impmem__json_null(json);
    impmem__json_key(json, "difference_percent");
    if (both && planned) impmem__json_double(json, percent(planned, measured));
    else impmem__json_null(json);
}

static impmem_status print_json(const plan_prepared *prepared, const comparison *c)
{
    impmem__json json;
    impmem__json_init(&json, impmem_write_file, stdout, 2);
    impmem__json_object_begin(&json);
    impmem__json_field_bool(&json, "within", c->n_off == 0 && !c->total_off);
    impmem__json_field_string(&json, "model", prepared->question.flags->model_path);
    impmem__json_field_string(&json, "observed", prepared->question.flags->observed);
    impmem__json_field_double(&json, "tolerance_percent", prepared->question.flags->tolerance_hundredths / 100.0);
    impmem__json_field_u64(&json, "off", c->n_off);
    impmem__json_field_u64(&json, "missing", c->n_missing);
    impmem__json_field_u64(&json, "unplanned", c->n_unplanned);
    impmem__json_key(&json, "lines");
    impmem__json_array_begin(&json);
    for (uint32_t i = 0; i < c->n; i++) {
        const row *r = &c->row[i];
        const uint64_t planned = r->planned ? r->planned->bytes : 0;
        const uint64_t measured = r->measured ? r->measured->bytes : 0;
        impmem__json_object_begin(&json);
        impmem__json_field_string(&json, "name", r->name);
        json_side(&json, "id", r->planned != NULL, r->planned ? r->planned->id : 0);
        json_side(&json, "planned_bytes", r->planned != NULL, planned);
        json_side(&json, "measured_bytes", r->measured != NULL, measured);
        json_difference(&json, r->planned && r->measured, planned, measured);
        impmem__json_field_bool(&json, "off", r->off);
        impmem__json_object_end(&json);
    }
    impmem__json_array_end(&json);
    impmem__json_key(&json, "total");
    impmem__json_object_begin(&json);
    impmem__json_field_u64(&json, "planned_bytes", c->planned_bytes);
    impmem__json_field_u64(&json, "measured_bytes", c->measured_bytes);
    json_difference(&json, true, c->planned_bytes, c->measured_bytes);
    impmem__json_field_bool(&json, "off", c->total_off);
    impmem__json_object_end(&json);
    impmem__json_object_end(&json);
    impmem_status st = impmem__json_finish(&json);
    return st ? st : impmem_write_file(stdout, "\n", 1);
}

int plan_observed(const plan_prepared *prepared)
{
    const plan_flags *flags = prepared->question.flags;
    impmem_plan plan = IMPMEM_PLAN_INIT;
    impmem_plan_failure failure = IMPMEM_PLAN_FAILURE_INIT;
    observed seen;
    comparison c;
    memset(&c, 0, sizeof c);
    int code = observed_read(flags->observed, &seen);
    if (code) return code;
    impmem_status st = impmem_plan_memory(&prepared->input, &plan, &failure);
    if (st == IMPMEM_ERR_DOES_NOT_FIT) return plan_print_failure(prepared, &failure);
    if (st) return plan_refuse_input(prepared, &failure.why);
    compare(&plan, &seen, flags->tolerance_hundredths, &c);
    if (flags->json) st = print_json(prepared, &c);
    else print_text(prepared, &c);
    return command_finish_answer(st, c.n_off == 0 && !c.total_off ? COMMAND_DONE : COMMAND_NO);
}
