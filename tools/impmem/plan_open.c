/* plan_open.c - `impmem plan --open`: lives the whole life of an engine on a fake device, and holds its journal against the plan.
 *
 * The fake device hands out addresses that nobody may touch, so a plan of any size opens on any machine. It has exactly the
 * budget less the charges: an engine that took a byte more than planned would be refused.
 */
#include <string.h>

#include "impmem/control.h"
#include "impmem/engine.h"
#include "impmem/fake.h"
#include "impmem/journal.h"
#include "impmem/staging.h"
#include "plan_verb.h"

typedef struct opened {
    impmem_ledger *ledger;
    impmem_backend *device;
    impmem_backend *growing; /* a plan pays for one, whether or not its pools grow */
    impmem_backend *pinned;
    impmem_engine *engine;
    impmem_staging *staging[IMPMEM_PLAN_MAX_LINES];
    uint32_t n_staging;    /* open now */
    uint32_t n_staged;     /* opened at all */
    uint64_t ledger_bytes; /* pageable bytes of the ledger's own tables */
} opened;

static bool stop_at(plan_opening *out, const char *step)
{
    out->failed_step = step;
    return false;
}

static uint64_t device_capacity(const impmem_plan *plan)
{
    uint64_t charges = 0;
    for (uint32_t i = 0; i < plan->n_lines; i++)
        if (plan->line[i].tier == IMPMEM_TIER_CHARGE && plan->line[i].account == IMPMEM_ACCOUNT_DEVICE)
            charges += plan->line[i].bytes;
    return plan->budget_bytes[IMPMEM_ACCOUNT_DEVICE] - charges;
}

static bool create_devices(const impmem_plan *plan, opened *o, plan_opening *out)
{
    impmem_lines lines = impmem_plan_lines(plan);
    impmem_ledger_options ledger_options = IMPMEM_LEDGER_OPTIONS_INIT;
    ledger_options.journal_records = plan->journal_records;
    impmem_status st = impmem_ledger_create(&lines, &ledger_options, &o->ledger);
    if (st) {
        out->why.status = st;
        return stop_at(out, "creating the ledger");
    }
    impmem_usage own;
    impmem_ledger_account_usage(o->ledger, IMPMEM_ACCOUNT_PAGEABLE, &own);
    o->ledger_bytes = own.committed_bytes;

    impmem_fake_options device = IMPMEM_FAKE_OPTIONS_INIT;
    device.backing = IMPMEM_FAKE_ADDRESS_ONLY;
    device.capacity_bytes = device_capacity(plan);
    device.granule_bytes = plan->granule_bytes;
    if (impmem_fake_backend_create(o->ledger, &device, &o->device, NULL, &out->why))
        return stop_at(out, "creating the device");
    impmem_fake_options growing = device;
    growing.growable = true;
    if (impmem_fake_backend_create(o->ledger, &growing, &o->growing, NULL, &out->why))
        return stop_at(out, "creating the growing device");

    bool wants_pinned = false;
    for (uint32_t r = 0; r < plan->n_regions; r++) wants_pinned |= plan->region[r].account == IMPMEM_ACCOUNT_PINNED;
    if (!wants_pinned) return true;
    impmem_fake_options pinned = device;
    pinned.capacity_bytes = 0;
    pinned.account = IMPMEM_ACCOUNT_PINNED;
    if (impmem_fake_backend_create(o->ledger, &pinned, &o->pinned, NULL, &out->why))
        return stop_at(out, "creating the pinned memory");
    return true;
}

/* Load-only host memory is taken by whoever loads the weights, which is us here. */
static bool stage(const impmem_plan *plan, opened *o, plan_opening *out)
{
    for (uint32_t i = 0; i < plan->n_lines; i++) {
        const impmem_line *line = &plan->line[i];
        if (line->tier != IMPMEM_TIER_STAGING || line->bytes == 0) continue;
        if (impmem_staging_open(o->ledger, line->name, line->id, line->bytes, &o->staging[o->n_staging], &out->why))
            return stop_at(out, "taking the staging memory");
        o->n_staging++;
        o->n_staged++;
    }
    return true;
}

static void unstage(opened *o)
{
    while (o->n_staging > 0) impmem_staging_close(&o->staging[--o->n_staging]);
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
 * are planned as all that are ever made, those of the load included; the objects that hold staged memory are the loader's. */
static void judge(const impmem_line *line, uint64_t taken, uint64_t given, uint64_t loader_bytes, plan_opening_row *row)
{
    bool passing = (line->flags & IMPMEM_LINE_TRANSIENT) || line->tier == IMPMEM_TIER_STAGING;
    row->journal_bytes = passing ? taken : taken - given;
    if (line->tier == IMPMEM_TIER_CONTROL) row->journal_bytes = taken - loader_bytes;
    row->equal = row->journal_bytes == line->bytes && (!passing || given == taken);
}

static bool compare(const impmem_plan *plan, const opened *o, plan_opening *out)
{
    if (impmem_ledger_journal_dropped(o->ledger) > 0) return stop_at(out, "reading the whole journal");
    uint64_t loader_bytes = 0;
    out->why.status = impmem_control_staging_bytes(&loader_bytes);
    if (out->why.status) return stop_at(out, "sizing the loader's objects");
    loader_bytes *= o->n_staged;
    journal_sum sum;
    memset(&sum, 0, sizeof sum);
    for (uint64_t i = impmem_ledger_journal_first(o->ledger); i < impmem_ledger_journal_end(o->ledger); i++) {
        impmem_journal_record record;
        out->why.status = impmem_ledger_journal_read(o->ledger, i, &record);
        if (out->why.status) return stop_at(out, "reading the journal");
        add_record(plan, &record, &sum);
    }
    out->unplanned_bytes = sum.unplanned;
    for (uint32_t i = 0; i < plan->n_lines; i++) {
        judge(&plan->line[i], sum.taken[i], sum.given[i], loader_bytes, &out->row[i]);
        out->n_equal += out->row[i].equal;
    }
    out->compared = true;
    return true;
}

static bool live_through(const impmem_plan *plan, opened *o, plan_opening *out)
{
    impmem_engine_backends backends = {o->device, o->growing, o->pinned};
    if (!stage(plan, o, out)) return false;
    if (impmem_engine_open(o->ledger, plan, &backends, &o->engine, &out->why)) return stop_at(out, "opening the engine");
    unstage(o);
    if (impmem_engine_end_loading(o->engine, &out->why)) return stop_at(out, "ending the load");
    if (!compare(plan, o, out)) return false;
    if (impmem_engine_begin_serving(o->engine, &out->why)) return stop_at(out, "beginning to serve");
    out->serving_acquisitions = impmem_ledger_serving_acquisitions(o->ledger);
    if (impmem_engine_close(&o->engine, &out->why)) return stop_at(out, "closing the engine");
    return true;
}

/* Closes what is still open of a life that was cut short, then everything else. `whole` tells whether to judge the outcome. */
static void tear_down(opened *o, plan_opening *out, bool whole)
{
    impmem_error *why = whole ? &out->why : NULL;
    unstage(o);
    bool gone = impmem_engine_close(&o->engine, why) == IMPMEM_OK;
    gone = impmem_backend_destroy(o->device, why) == IMPMEM_OK && gone;
    gone = impmem_backend_destroy(o->growing, why) == IMPMEM_OK && gone;
    gone = impmem_backend_destroy(o->pinned, why) == IMPMEM_OK && gone;
    if (o->ledger) {
        for (uint32_t account = 0; account < IMPMEM_N_ACCOUNTS; account++) {
            impmem_usage usage;
            impmem_ledger_account_usage(o->ledger, (impmem_account)account, &usage);
            out->live_bytes[account] = usage.committed_bytes;
        }
        out->live_bytes[IMPMEM_ACCOUNT_PAGEABLE] -= o->ledger_bytes;
        gone = impmem_ledger_destroy(o->ledger, why) == IMPMEM_OK && gone;
    }
    if (whole && !gone) out->failed_step = "giving everything back";
}

void plan_open_on_fake(const impmem_plan *plan, plan_opening *out)
{
    static const impmem_error no_error = IMPMEM_ERROR_INIT;
    memset(out, 0, sizeof *out);
    out->why = no_error;
    opened o;
    memset(&o, 0, sizeof o);
    bool whole = create_devices(plan, &o, out) && live_through(plan, &o, out);
    tear_down(&o, out, whole);
    uint64_t left = 0;
    for (uint32_t account = 0; account < IMPMEM_N_ACCOUNTS; account++) left |= out->live_bytes[account];
    out->good = !out->failed_step && out->compared && out->n_equal == plan->n_lines && !out->unplanned_bytes &&
                !out->serving_acquisitions && !left;
}
