/* plan_devices.h - a ledger and fake devices that a plan opens on.
 *
 * The fake device hands out addresses that nobody may touch, so a plan of any size opens on any machine. It has exactly the
 * budget less the charges: an engine that took a byte more than planned would be refused.
 *
 *   plan_devices devices = {0};
 *   const char *step = plan_devices_open(&plan, &options, &devices, &why);   NULL, or what failed
 *   ... impmem_engine_open(devices.ledger, &plan, &devices.backends, ...) ...
 *   plan_devices_close(&devices, left, &why);                                also of a half-open one
 */
#ifndef IMPMEM_COMMAND_PLAN_DEVICES_H
#define IMPMEM_COMMAND_PLAN_DEVICES_H

#include "impmem/engine.h"
#include "impmem/staging.h"

typedef struct plan_devices {
    impmem_ledger *ledger;
    /* `grow` is there whether or not the pools grow: a plan pays for it. `pinned` is NULL when the plan has no such line. */
    impmem_engine_backends backends;
    uint64_t ledger_bytes; /* pageable bytes of the ledger's own tables */
    impmem_staging *staging[IMPMEM_PLAN_MAX_LINES];
    uint32_t n_staging; /* open now */
} plan_devices;

/* Fills a zeroed *out. The journal's size is the plan's, whatever `options` says. NULL, or the step that failed, with `why`
 * filled: what is open then is for plan_devices_close. */
const char *plan_devices_open(const impmem_plan *plan, const impmem_ledger_options *options, plan_devices *out,
                              impmem_error *why);
/* Load-only host memory is taken by whoever loads the weights, which is the command here: before the engine opens. */
IMPMEM_NODISCARD impmem_status plan_devices_stage(plan_devices *devices, const impmem_plan *plan, impmem_error *why);
void plan_devices_unstage(plan_devices *devices);
/* Closes what is open. left_bytes[account]: what was still committed before, the ledger's own tables not counted; 0 without a
 * ledger. The first failure, with the rest closed as far as it can be. */
impmem_status plan_devices_close(plan_devices *devices, uint64_t *left_bytes, impmem_error *why);

#endif
