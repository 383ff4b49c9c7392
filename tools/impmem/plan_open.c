/* plan_open.c - `impmem plan --open`: lives the whole life of an engine on a fake device, and holds its journal against the plan.
 */
#include <string.h>

#include "impmem/engine.h"
#include "impmem/journal.h"
#include "plan_devices.h"
#include "plan_verb.h"

typedef struct opened {
    plan_devices devices;
    impmem_engine *engine;
} opened;

static bool stop_at(plan_opening *out, const char *step)
{
    out->failed_step = step;
    return false;
}

/* Bytes that the journal adds to each line, and what of them it took back; unknown lines add up apart. */
typedef struct journal_sum {
    uint64_t taken[IMPMEM_PLAN_MAX_LINES];
    uint64_t given[IMPMEM_PLAN_MAX_LINES];
    uint64_t unplanned;
} journal_sum;

static uint32_t line_index(const impmem_plan *plan, impmem_line_id id)
{
    for (uint32_t i = 0; i < plan->n_lines; i++)
        if (plan->line[i].id == id) return i;
    return UINT32_MAX;
}

static void add_record(const impmem_plan *plan, const impmem_journal_record *record, journal_sum *sum)
{
    int sign = impmem_journal_op_sign((impmem_journal_op)record->op);
    if (sign == 0) return;
    uint32_t i = line_index(plan, record->line);
    if (i == UINT32_MAX) sum->unplanned += sign > 0 ? record->bytes : 0;
    else if (sign > 0) sum->taken[i] += record->bytes;
    else sum->given[i] += record->bytes;
}

/* What the journal holds against one line. Lines that live through loading only must have come and gone whole. The host tables
 * are planned as all that are ever made, those of the load and the objects that hold staged memory included. */
static void judge(const impmem_line *line, uint64_t taken, uint64_t given, plan_opening_row *row)
{
    bool passing = (line->flags & IMPMEM_LINE_TRANSIENT) || line->tier == IMPMEM_TIER_STAGING;
    row->journal_bytes = passing ? taken : taken - given;
    if (line->tier == IMPMEM_TIER_CONTROL) row->journal_bytes = taken;
    row->equal = row->journal_bytes == line->bytes && (!passing || given == taken);
}

static bool compare(const impmem_plan *plan, const opened *o, plan_opening *out)
{
    const impmem_ledger *ledger = o->devices.ledger;
    if (impmem_ledger_journal_dropped(ledger) > 0) return stop_at(out, "reading the whole journal");
    journal_sum sum;
    memset(&sum, 0, sizeof sum);
    for (uint64_t i = impmem_ledger_journal_first(ledger); i < impmem_ledger_journal_end(ledger); i++) {
        impmem_journal_record record;
        out->why.status = impmem_ledger_journal_read(ledger, i, &record);
        if (out->why.status) return stop_at(out, "reading the journal");
        add_record(plan, &record, &sum);
    }
    out->unplanned_bytes = sum.unplanned;
    for (uint32_t i = 0; i < plan->n_lines; i++) {
        judge(&plan->line[i], sum.taken[i], sum.given[i], &out->row[i]);
        out->n_equal += out->row[i].equal;
    }
    out->compared = true;
    return true;
}

static bool live_through(const impmem_plan *plan, opened *o, plan_opening *out)
{
    impmem_ledger *ledger = o->devices.ledger;
    if (plan_devices_stage(&o->devices, plan, &out->why)) return stop_at(out, "taking the staging memory");
    if (impmem_engine_open(ledger, plan, &o->devices.backends, &o->engine, &out->why))
        return stop_at(out, "opening the engine");
    plan_devices_unstage(&o->devices);
    if (impmem_engine_end_loading(o->engine, &out->why)) return stop_at(out, "ending the load");
    if (!compare(plan, o, out)) return false;
    if (impmem_engine_begin_serving(o->engine, &out->why)) return stop_at(out, "beginning to serve");
    out->serving_acquisitions = impmem_ledger_serving_acquisitions(ledger);
    if (impmem_engine_close(&o->engine, &out->why)) return stop_at(out, "closing the engine");
    return true;
}

/* Closes what is still open of a life that was cut short, then everything else. `whole` tells whether to judge the outcome. */
static void tear_down(opened *o, plan_opening *out, bool whole)
{
    impmem_error *why = whole ? &out->why : NULL;
    plan_devices_unstage(&o->devices);
    bool gone = impmem_engine_close(&o->engine, why) == IMPMEM_OK;
    gone = plan_devices_close(&o->devices, out->live_bytes, why) == IMPMEM_OK && gone;
    if (whole && !gone) out->failed_step = "giving everything back";
}

void plan_open_on_fake(const impmem_plan *plan, plan_opening *out)
{
    static const impmem_error no_error = IMPMEM_ERROR_INIT;
    memset(out, 0, sizeof *out);
    out->why = no_error;
    opened o;
    memset(&o, 0, sizeof o);
    impmem_ledger_options options = IMPMEM_LEDGER_OPTIONS_INIT;
    const char *step = plan_devices_open(plan, &options, &o.devices, &out->why);
    bool whole = step ? stop_at(out, step) : live_through(plan, &o, out);
    tear_down(&o, out, whole);
    uint64_t left = 0;
    for (uint32_t account = 0; account < IMPMEM_N_ACCOUNTS; account++) left |= out->live_bytes[account];
    out->good = !out->failed_step && out->compared && out->n_equal == plan->n_lines && !out->unplanned_bytes &&
                !out->serving_acquisitions && !left;
}
