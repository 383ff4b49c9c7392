/* cuda/internal.h - what the files of the driver room share: the device object and how to reach the driver through it. */
#ifndef IMPMEM__CUDA_INTERNAL_H
#define IMPMEM__CUDA_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "backend/internal.h"
#include "core/internal.h"
#include "cuda/driver.h"
#include "impmem/bytes.h"

#define IMPMEM__CUDA_GRANULE (2 * IMPMEM_MIB) /* what cudaMalloc itself rounds to */
#define IMPMEM__CUDA_PINNED_GRANULE 4096u
#define IMPMEM__CUDA_REGISTRATIONS 256u
#define IMPMEM__CUDA_DEFAULT_CHUNK (64 * IMPMEM_MIB)

typedef struct impmem__registration {
    uint64_t number; /* 0 = free */
    void *memory;
    uint64_t bytes;
    uint64_t charged;
    impmem_line_id line;
    impmem_registration_mode mode;
    int64_t codes[2];
} impmem__registration;

struct impmem_cuda_device {
    impmem__driver driver;
    impmem_ledger *ledger;
    impmem_line_id control_line;
    int ordinal;
    void *context; /* NULL: not retained */
    unsigned char identity[16];
    impmem_cuda_facts facts;
    _Atomic uint32_t users; /* backends and queues */
    bool has_lock;

    pthread_mutex_t lock; /* what follows */
    impmem__registration registration[IMPMEM__CUDA_REGISTRATIONS];
    uint64_t last_registration;
    uint64_t registered_bytes;

    uint64_t context_bytes;
    uint64_t neighbours_bytes;
    bool context_measured;
    bool measuring;
    uint64_t measure_used;
    uint64_t measure_own;
    uint64_t library_bytes;
    impmem_cuda_gauges gauges;
    uint32_t n_extremes;
    impmem_cuda_residual_reading extreme[4]; /* with the least and the most free, the lowest and the highest residual */
};

/* The device's context becomes current, and what was current comes back. Both are cheap; every operation stands between
 * them. */
int impmem__enter_device(impmem_cuda_device *device);
void impmem__leave_device(impmem_cuda_device *device);
/* After a call of the runtime failed: takes the error out, so that the user's next check doesn't find it. */
void impmem__swallow(impmem_cuda_device *device);

/* Host memory of the room on a control line; 0 as a line = IMPMEM_LINE_HOST_CONTROL. */
impmem_status impmem__cuda_take_host(impmem_ledger *ledger, impmem_line_id line, uint64_t bytes, void **out,
                                     impmem_error *why);
void impmem__cuda_give_host(impmem_ledger *ledger, impmem_line_id line, void *memory, uint64_t bytes);

/* Over a table that the caller filled: what impmem_cuda_device_open does with the real one. */
impmem_status impmem__cuda_device_open(impmem_ledger *ledger, const impmem_cuda_device_options *options,
                                       const impmem__driver *table, impmem_cuda_device **out, impmem_error *why);

/* The device's used bytes, checked for sanity. */
impmem_status impmem__read_memory(impmem_cuda_device *device, uint64_t *out_free, uint64_t *out_total, impmem_error *why);
/* Device bytes that this ledger's backends hold: the account without its charges. */
uint64_t impmem__own_bytes(const impmem_ledger *ledger);

/* Bytes that a backend holds against the most it may. */
typedef struct impmem__cap {
    _Atomic uint64_t held;
    uint64_t most;
} impmem__cap;
static inline bool impmem__cap_take(impmem__cap *cap, uint64_t bytes)
{
    uint64_t held = atomic_load_explicit(&cap->held, memory_order_relaxed);
    do {
        if (held > cap->most || bytes > cap->most - held) return false;
    } while (!atomic_compare_exchange_weak_explicit(&cap->held, &held, held + bytes, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}
static inline void impmem__cap_give(impmem__cap *cap, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&cap->held, bytes, memory_order_relaxed);
}
/* The error of a cap that is reached. */
impmem_status impmem__cap_error(const impmem__cap *cap, impmem_status st, const char *subject, uint64_t bytes,
                                impmem_error *why);

/* The image with the room's kernels, and their names. */
extern const char impmem__kernels[];
#define IMPMEM__KERNEL_COPY "impmem_copy_blocks"
#define IMPMEM__KERNEL_SUM "impmem_sum"

/* Object bytes that impmem_cuda_control_bytes counts. */
uint64_t impmem__malloc_backend_bytes(void);
uint64_t impmem__vmm_backend_bytes(void);
uint64_t impmem__pinned_backend_bytes(void);
uint64_t impmem__cuda_queue_bytes(void);
impmem_status impmem__vmm_region_bytes(uint64_t reserved_bytes, uint64_t chunk_bytes, uint64_t *out_bytes);

#endif
