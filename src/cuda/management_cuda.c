/* The driver's management library, opened at run time if it is there: it alone can tell what a device held before this
 * process had a context on it.
 */
#define _GNU_SOURCE
#include "cuda/management.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { AT_INIT = IMPMEM__MANAGEMENT_SYMBOL, AT_SHUTDOWN, AT_HANDLE, AT_MEMORY, AT_PROCESSES, N_PLACES };
_Static_assert((int)N_PLACES <= (int)IMPMEM__DRIVER_SYMBOLS, "the table has a place for every symbol");

/* The parts of its interface that are used, as that library lays them out. */
typedef struct nvml_memory {
    unsigned version;
    unsigned long long total, reserved, free, used;
} nvml_memory;
typedef struct nvml_process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
} nvml_process;
typedef int (*nvml_plain_fn)(void);
typedef int (*nvml_handle_fn)(const char *identity, void **out);
typedef int (*nvml_memory_fn)(void *device, nvml_memory *out);
typedef int (*nvml_processes_fn)(void *device, unsigned *count, nvml_process *out);
enum { NVML_MEMORY_VERSION = (int)(sizeof(nvml_memory) | 2u << 24), NVML_MOST_PROCESSES = 64 };

static int managed_memory(impmem__driver *d, const unsigned char identity[16], uint64_t *out_used, uint64_t *out_others)
{
    char text[48];
    const unsigned char *u = identity;
    (void)snprintf(text, sizeof text, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
                   u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
    void *device = NULL;
    nvml_memory memory;
    memset(&memory, 0, sizeof memory);
    memory.version = NVML_MEMORY_VERSION;
    if (((nvml_handle_fn)d->symbol[AT_HANDLE])(text, &device)) return IMPMEM__CODE_NOT_SUPPORTED;
    if (((nvml_memory_fn)d->symbol[AT_MEMORY])(device, &memory)) return IMPMEM__CODE_NOT_PERMITTED;
    *out_used = memory.used;
    *out_others = 0;
    nvml_process process[NVML_MOST_PROCESSES];
    unsigned n = NVML_MOST_PROCESSES;
    if (d->symbol[AT_PROCESSES] && ((nvml_processes_fn)d->symbol[AT_PROCESSES])(device, &n, process) == 0) {
        for (unsigned i = 0; i < n && i < NVML_MOST_PROCESSES; i++) {
            /* A process of another container is listed without its bytes, as all ones. */
            if (process[i].pid != (unsigned)getpid() && process[i].used != ~0ull) *out_others += process[i].used;
        }
    }
    return IMPMEM__CODE_OK;
}

void impmem__management_fill(impmem__driver *d)
{
    d->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!d->library) return;
    static const char *const names[] = {"nvmlInit_v2", "nvmlShutdown", "nvmlDeviceGetHandleByUUID",
                                        "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetComputeRunningProcesses_v3"};
    for (int i = 0; i < 5; i++) {
        void *symbol = dlsym(d->library, names[i]);
        memcpy(&d->symbol[IMPMEM__MANAGEMENT_SYMBOL + i], &symbol, sizeof symbol);
    }
    bool usable = d->symbol[AT_INIT] && d->symbol[AT_SHUTDOWN] && d->symbol[AT_HANDLE] && d->symbol[AT_MEMORY];
    if (usable && ((nvml_plain_fn)d->symbol[AT_INIT])() == 0) {
        d->managed_memory = managed_memory;
        return;
    }
    (void)dlclose(d->library);
    d->library = NULL;
}

void impmem__management_empty(impmem__driver *d)
{
    if (!d->library) return;
    (void)((nvml_plain_fn)d->symbol[AT_SHUTDOWN])();
    (void)dlclose(d->library);
    d->library = NULL;
}
