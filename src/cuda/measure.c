/* What of the device's memory is not ours: context, library reserve, neighbours, and a residual with its sign. */
#include <stdio.h>
#include <string.h>

#include "cuda/internal.h"

uint64_t impmem__own_bytes(const impmem_ledger *ledger)
{
    impmem_usage usage;
    impmem_ledger_account_usage(ledger, IMPMEM_ACCOUNT_DEVICE, &usage);
    impmem__lock(ledger);
    uint64_t charged = 0;
    for (uint32_t i = 0; i < ledger->n_lines; i++) {
        if (ledger->line[i].account == IMPMEM_ACCOUNT_DEVICE) charged += ledger->line[i].charged;
    }
    impmem__unlock(ledger);
    return usage.committed_bytes > charged ? usage.committed_bytes - charged : 0;
}

/* a - b - ..., where the true figure may be below zero. */
static int64_t difference(uint64_t a, uint64_t b)
{
    return a >= b ? (int64_t)(a - b) : -(int64_t)(b - a);
}

/* With the lock held. Four readings tell as much as all of them: the rule looks at extremes only. */
static impmem_cuda_residual_kind note_residual(impmem_cuda_device *device, const impmem_cuda_standing *s)
{
    const impmem_cuda_residual_reading now = {s->free_bytes, s->residual_bytes};
    impmem_cuda_residual_reading *e = device->extreme;
    bool first = device->n_extremes == 0;
    if (first || now.free_bytes < e[0].free_bytes) e[0] = now;
    if (first || now.free_bytes > e[1].free_bytes) e[1] = now;
    if (first || now.residual_bytes < e[2].residual_bytes) e[2] = now;
    if (first || now.residual_bytes > e[3].residual_bytes) e[3] = now;
    device->n_extremes = 4;
    device->gauges.residual_bytes = now.residual_bytes;
    device->gauges.residual_kind = impmem_cuda_classify_residual(e, device->n_extremes);
    return device->gauges.residual_kind;
}

impmem_status impmem_cuda_standing_read(impmem_cuda_device *device, impmem_cuda_standing *out, impmem_error *why)
{
    if (!device || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "CUDA", "no device, or no place for the result");
    uint64_t free_bytes = 0, total = 0;
    impmem_status st = impmem__read_memory(device, &free_bytes, &total, why);
    if (st) return st;
    impmem_cuda_standing s;
    memset(&s, 0, sizeof s);
    s.total_bytes = total;
    s.free_bytes = free_bytes;
    s.used_bytes = total - free_bytes;
    s.own_bytes = impmem__own_bytes(device->ledger);
    (void)pthread_mutex_lock(&device->lock);
    s.context_bytes = device->context_bytes;
    s.neighbours_bytes = device->neighbours_bytes;
    s.context_measured = device->context_measured;
    s.library_bytes = device->library_bytes;
    s.residual_bytes = difference(s.used_bytes, s.own_bytes) - (int64_t)s.context_bytes - (int64_t)s.neighbours_bytes -
                       (int64_t)s.library_bytes;
    s.residual_kind = note_residual(device, &s);
    (void)pthread_mutex_unlock(&device->lock);
    *out = s;
    return IMPMEM_OK;
}

impmem_status impmem_cuda_measure_begin(impmem_cuda_device *device, impmem_error *why)
{
    if (!device) return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "CUDA", "no device");
    uint64_t free_bytes = 0, total = 0;
    impmem_status st = impmem__read_memory(device, &free_bytes, &total, why);
    if (st) return st;
    uint64_t own = impmem__own_bytes(device->ledger);
    (void)pthread_mutex_lock(&device->lock);
    device->measuring = true;
    device->measure_used = total - free_bytes;
    device->measure_own = own;
    (void)pthread_mutex_unlock(&device->lock);
    return IMPMEM_OK;
}

impmem_status impmem_cuda_measure_end(impmem_cuda_device *device, uint64_t *out_library_bytes, impmem_error *why)
{
    if (!device || !out_library_bytes)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "CUDA", "no device, or no place for the result");
    uint64_t free_bytes = 0, total = 0;
    impmem_status st = impmem__read_memory(device, &free_bytes, &total, why);
    if (st) return st;
    uint64_t own = impmem__own_bytes(device->ledger);
    (void)pthread_mutex_lock(&device->lock);
    if (device->measuring) {
        int64_t rose = difference(total - free_bytes, device->measure_used) - difference(own, device->measure_own);
        device->library_bytes = rose > 0 ? (uint64_t)rose : 0;
        device->measuring = false;
        device->n_extremes = 0; /* what was residual may be library now: earlier readings mean something else */
        *out_library_bytes = device->library_bytes;
    } else {
        st = IMPMEM_ERR_STATE;
    }
    (void)pthread_mutex_unlock(&device->lock);
    return st ? impmem__error_set(why, st, "CUDA", "measuring was not begun") : IMPMEM_OK;
}

impmem_status impmem_cuda_check_library(impmem_cuda_device *device, uint64_t assumed_bytes, impmem_cuda_self_check *out,
                                        impmem_error *why)
{
    if (!out) return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "CUDA", "no place for the result");
    impmem_cuda_standing s;
    memset(&s, 0, sizeof s);
    impmem_status st = impmem_cuda_standing_read(device, &s, why);
    if (st) return st;
    int64_t actual = (int64_t)s.library_bytes + s.residual_bytes;
    impmem_cuda_self_check c = impmem_cuda_check_charge(assumed_bytes, actual > 0 ? (uint64_t)actual : 0);
    (void)pthread_mutex_lock(&device->lock);
    device->gauges.checks++;
    device->gauges.divergences += c.diverges;
    device->gauges.check = c;
    (void)pthread_mutex_unlock(&device->lock);
    if (c.diverges)
        impmem__ledger_log(device->ledger, "library reserve: %llu bytes were assumed, %llu are taken: measure it again",
                           (unsigned long long)c.assumed_bytes, (unsigned long long)c.actual_bytes);
    *out = c;
    return IMPMEM_OK;
}

void impmem_cuda_gauges_read(impmem_cuda_device *device, impmem_cuda_gauges *out)
{
    if (!out) return;
    memset(out, 0, sizeof *out);
    if (!device) return;
    (void)pthread_mutex_lock(&device->lock);
    *out = device->gauges;
    (void)pthread_mutex_unlock(&device->lock);
}

/* ---- judging, all pure ----------------------------------------------------------------------------------------------- */

impmem_cuda_self_check impmem_cuda_check_charge(uint64_t assumed_bytes, uint64_t actual_bytes)
{
    impmem_cuda_self_check c;
    c.assumed_bytes = assumed_bytes;
    c.actual_bytes = actual_bytes;
    c.difference_bytes = difference(actual_bytes, assumed_bytes);
    c.ratio = assumed_bytes ? (double)actual_bytes / (double)assumed_bytes : 0.0;
    uint64_t larger = assumed_bytes > actual_bytes ? assumed_bytes : actual_bytes;
    uint64_t apart = assumed_bytes > actual_bytes ? assumed_bytes - actual_bytes : actual_bytes - assumed_bytes;
    c.diverges = apart > larger / 10 && apart > 16 * IMPMEM_MIB;
    return c;
}

/* Free memory must have moved by this much for a reading to say anything, and a residual that follows it by a tenth is a
 * cache. */
#define LEAST_MOVE (256 * IMPMEM_MIB)

impmem_cuda_residual_kind impmem_cuda_classify_residual(const impmem_cuda_residual_reading *readings, uint32_t n)
{
    if (!readings || n < 2) return IMPMEM_CUDA_RESIDUAL_UNKNOWN;
    const impmem_cuda_residual_reading *least = &readings[0], *most = &readings[0];
    for (uint32_t i = 1; i < n; i++) {
        if (readings[i].free_bytes < least->free_bytes) least = &readings[i];
        if (readings[i].free_bytes > most->free_bytes) most = &readings[i];
    }
    uint64_t moved = most->free_bytes - least->free_bytes;
    if (moved < LEAST_MOVE) return IMPMEM_CUDA_RESIDUAL_UNKNOWN;
    int64_t lowest = readings[0].residual_bytes, highest = readings[0].residual_bytes;
    for (uint32_t i = 1; i < n; i++) {
        if (readings[i].residual_bytes < lowest) lowest = readings[i].residual_bytes;
        if (readings[i].residual_bytes > highest) highest = readings[i].residual_bytes;
    }
    uint64_t spread = (uint64_t)highest - (uint64_t)lowest; /* right for any two signed numbers */
    return spread >= moved / 10 && spread > 16 * IMPMEM_MIB ? IMPMEM_CUDA_RESIDUAL_CACHE : IMPMEM_CUDA_RESIDUAL_CONSTANT;
}

uint64_t impmem_cuda_choose_library_bytes(uint64_t pinned_bytes, const impmem_cuda_measured *remembered,
                                          uint64_t measured_bytes)
{
    if (pinned_bytes != UINT64_MAX) return pinned_bytes;
    return remembered ? remembered->library_bytes : measured_bytes;
}

/* ---- keys ------------------------------------------------------------------------------------------------------------ */

void impmem_cuda_measure_key_set(const impmem_cuda_device *device, const char *libraries, const char *model,
                                 impmem_cuda_measure_key *out)
{
    if (!out) return;
    memset(out, 0, sizeof *out);
    if (device) {
        const impmem_cuda_facts *f = &device->facts;
        (void)snprintf(out->device, sizeof out->device, "%s %s", f->name, f->identity);
        (void)snprintf(out->driver, sizeof out->driver, "%d", f->driver_version);
        (void)snprintf(out->runtime, sizeof out->runtime, "%d", f->runtime_version);
    }
    (void)snprintf(out->libraries, sizeof out->libraries, "%s", libraries ? libraries : "");
    (void)snprintf(out->model, sizeof out->model, "%s", model ? model : "");
}
