/* plan_devices.c - a ledger and fake devices that a plan opens on. */
#include "plan_devices.h"

#include <string.h>

#include "impmem/fake.h"

static uint64_t device_capacity(const impmem_plan *plan)
{
    uint64_t charges = 0;
    for (uint32_t i = 0; i < plan->n_lines; i++)
        if (plan->line[i].tier == IMPMEM_TIER_CHARGE && plan->line[i].account == IMPMEM_ACCOUNT_DEVICE)
            charges += plan->line[i].bytes;
    return plan->budget_bytes[IMPMEM_ACCOUNT_DEVICE] - charges;
}

static bool wants_pinned(const impmem_plan *plan)
{
    for (uint32_t r = 0; r < plan->n_regions; r++)
        if (plan->region[r].account == IMPMEM_ACCOUNT_PINNED) return true;
    return false;
}

const char *plan_devices_open(const impmem_plan *plan, const impmem_ledger_options *options, plan_devices *out,
                              impmem_error *why)
{
    impmem_lines lines = impmem_plan_lines(plan);
    impmem_ledger_options ledger_options = *options;
    ledger_options.journal_records = plan->journal_records;
    impmem_status st = impmem_ledger_create(&lines, &ledger_options, &out->ledger);
    if (st) {
        why->status = st;
        return "creating the ledger";
    }
    impmem_usage own;
    impmem_ledger_account_usage(out->ledger, IMPMEM_ACCOUNT_PAGEABLE, &own);
    out->ledger_bytes = own.committed_bytes;

    impmem_fake_options device = IMPMEM_FAKE_OPTIONS_INIT;
    device.backing = IMPMEM_FAKE_ADDRESS_ONLY;
    device.capacity_bytes = device_capacity(plan);
    device.granule_bytes = plan->granule_bytes;
    if (impmem_fake_backend_create(out->ledger, &device, &out->backends.fixed, NULL, why)) return "creating the device";
    impmem_fake_options growing = device;
    growing.growable = true;
    if (impmem_fake_backend_create(out->ledger, &growing, &out->backends.grow, NULL, why))
        return "creating the growing device";
    if (!wants_pinned(plan)) return NULL;
    impmem_fake_options pinned = device;
    pinned.capacity_bytes = 0;
    pinned.account = IMPMEM_ACCOUNT_PINNED;
    if (impmem_fake_backend_create(out->ledger, &pinned, &out->backends.pinned, NULL, why))
        return "creating the pinned memory";
    return NULL;
}

impmem_status plan_devices_stage(plan_devices *devices, const impmem_plan *plan, impmem_error *why)
{
    for (uint32_t i = 0; i < plan->n_lines; i++) {
        const impmem_line *line = &plan->line[i];
        if (line->tier != IMPMEM_TIER_STAGING || line->bytes == 0) continue;
        impmem_status st = impmem_staging_open(devices->ledger, line->name, line->id, line->bytes,
                                               &devices->staging[devices->n_staging], why);
        if (st) return st;
        devices->n_staging++;
    }
    return IMPMEM_OK;
}

void plan_devices_unstage(plan_devices *devices)
{
    while (devices->n_staging > 0) impmem_staging_close(&devices->staging[--devices->n_staging]);
}

/* What is gone is forgotten, so that closing can be tried again. */
static impmem_status close_backend(impmem_backend **backend, impmem_error *why)
{
    impmem_status st = impmem_backend_destroy(*backend, why);
    if (!st) *backend = NULL;
    return st;
}

impmem_status plan_devices_close(plan_devices *devices, uint64_t *left_bytes, impmem_error *why)
{
    memset(left_bytes, 0, IMPMEM_N_ACCOUNTS * sizeof *left_bytes);
    plan_devices_unstage(devices);
    impmem_status st = close_backend(&devices->backends.fixed, why);
    st = impmem_first_error(st, close_backend(&devices->backends.grow, st ? NULL : why));
    st = impmem_first_error(st, close_backend(&devices->backends.pinned, st ? NULL : why));
    if (!devices->ledger) return st;
    for (uint32_t account = 0; account < IMPMEM_N_ACCOUNTS; account++) {
        impmem_usage usage;
        impmem_ledger_account_usage(devices->ledger, (impmem_account)account, &usage);
        left_bytes[account] = usage.committed_bytes;
    }
    left_bytes[IMPMEM_ACCOUNT_PAGEABLE] -= devices->ledger_bytes;
    impmem_status gone = impmem_ledger_destroy(devices->ledger, st ? NULL : why);
    if (!gone) devices->ledger = NULL;
    return impmem_first_error(st, gone);
}
