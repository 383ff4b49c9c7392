/* impmem/cuda.h - one CUDA device: backends over cudaMalloc, virtual memory and pinned host memory, a queue over a stream.
 * Floor 2, implemented in src/cuda. The header needs no CUDA header; libimpmem_cuda.a brings the static runtime.
 *
 *   impmem_cuda_device_options o = IMPMEM_CUDA_DEVICE_OPTIONS_INIT;
 *   impmem_cuda_device *device; impmem_backend *fixed, *grow;
 *   if (impmem_cuda_device_open(ledger, &o, &device, &why)) ...            NO_DRIVER, NO_DEVICE: say so and go on without
 *   impmem_cuda_malloc_backend_create(device, NULL, &fixed, &why);
 *   impmem_cuda_vmm_options v = IMPMEM_CUDA_VMM_OPTIONS_INIT;
 *   v.chunk_bytes = plan.granule_bytes;
 *   impmem_cuda_vmm_backend_create(device, &v, &grow, &why);               UNSUPPORTED: this device or driver can't
 *   ... impmem_engine_open with the two ...
 *   impmem_backend_destroy(grow, &why); impmem_backend_destroy(fixed, &why);
 *   impmem_cuda_device_close(&device, &why);
 *
 * Several devices, and several of one device, may be open in one process. The library makes its device current around its
 * own calls and puts back what was current before. It never touches a device that it was not given, and leaves no error
 * behind in the runtime: every expected failure is taken out of cudaGetLastError. Thread-safe unless said otherwise.
 *
 * Host tables come through the ledger, on the `control_line` of each object: impmem_cuda_control_bytes tells how much.
 */
#ifndef IMPMEM_CUDA_H
#define IMPMEM_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "impmem/backend.h"
#include "impmem/queue.h"
#include "impmem/residency.h"
#include "impmem/track.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct impmem_cuda_device impmem_cuda_device;

/* ---- the device ------------------------------------------------------------------------------------------------------ */

typedef struct impmem_cuda_device_options {
    uint32_t size;
    uint32_t version;            /* 1 */
    int32_t ordinal;             /* as the CUDA runtime counts, from 0 */
    impmem_line_id control_line; /* plan line of host tables; 0 = IMPMEM_LINE_HOST_CONTROL */
} impmem_cuda_device_options;
#define IMPMEM_CUDA_DEVICE_OPTIONS_INIT                                                                                    \
    {                                                                                                                      \
        sizeof(impmem_cuda_device_options), 1, 0, 0                                                                        \
    }

/* How many devices there are. NO_DRIVER when there is no driver or it is older than the runtime; 0 devices is NO_DEVICE. */
IMPMEM_NODISCARD impmem_status impmem_cuda_device_count(uint32_t *out, impmem_error *why);

/* Retains the device's primary context: the first open of a process creates it, which takes hundreds of MiB of device
 * memory (impmem_cuda_standing_read tells). NO_DRIVER, NO_DEVICE (ordinal out of range), UNSUPPORTED (the driver lacks a
 * function; named), DRIVER, VERSION, INVALID_ARGUMENT, and what impmem_ledger_host_allocate returns. */
IMPMEM_NODISCARD impmem_status impmem_cuda_device_open(impmem_ledger *ledger, const impmem_cuda_device_options *options,
                                                       impmem_cuda_device **out, impmem_error *why);
/* NULL is fine. LIVE_HOLDERS, and nothing is closed, while backends, queues or registrations of it live. */
IMPMEM_NODISCARD impmem_status impmem_cuda_device_close(impmem_cuda_device **device, impmem_error *why);

typedef struct impmem_cuda_facts {
    char name[64];
    char identity[40]; /* UUID, hexadecimal */
    int32_t ordinal;
    int32_t driver_version; /* 13000 = 13.0 */
    int32_t runtime_version;
    uint32_t compute_major, compute_minor;
    uint64_t total_bytes;   /* of the device or of its partition */
    uint64_t granule_bytes; /* of virtual memory; 0 where it is not supported */
    uint64_t granule_recommended_bytes;
    bool virtual_memory;
    bool exportable;             /* chunks can be exported as file descriptors */
    bool read_only_registration; /* host memory that may only be read can be registered */
    bool integrated;             /* device memory is host memory */
} impmem_cuda_facts;
void impmem_cuda_device_facts(const impmem_cuda_device *device, impmem_cuda_facts *out);

/* Calls made to runtime and driver through the room since open, by what they do to memory. */
typedef struct impmem_cuda_calls {
    uint64_t acquire;   /* cudaMalloc, cudaHostAlloc, cudaHostRegister, cuMemCreate, cuMemAddressReserve ... */
    uint64_t map;       /* cuMemMap, cuMemSetAccess, cuMemUnmap */
    uint64_t give_back; /* cudaFree, cudaFreeHost, cudaHostUnregister, cuMemRelease, cuMemAddressFree ... */
    uint64_t other;
} impmem_cuda_calls;
void impmem_cuda_device_calls(const impmem_cuda_device *device, impmem_cuda_calls *out);

/* Free and total bytes as the device tells them. A reading that can't be true is refused by name: BAD_VALUE when free >
 * total, total is 0, or the total is larger than the device's own (a partition told the whole card's figures); UNSUPPORTED
 * when the driver gives no permission. */
IMPMEM_NODISCARD impmem_status impmem_cuda_memory(impmem_cuda_device *device, uint64_t *out_free, uint64_t *out_total,
                                                  impmem_error *why);

/* ---- backends -------------------------------------------------------------------------------------------------------- */

typedef struct impmem_cuda_malloc_options {
    uint32_t size;
    uint32_t version;        /* 1 */
    uint64_t capacity_bytes; /* never hold more; 0 = whatever the device has */
} impmem_cuda_malloc_options;
#define IMPMEM_CUDA_MALLOC_OPTIONS_INIT                                                                                    \
    {                                                                                                                      \
        sizeof(impmem_cuda_malloc_options), 1, 0                                                                           \
    }

/* Fixed regions from cudaMalloc, 2 MiB granule. cudaFree waits for the device: release before serving or after it.
 * Alignments above 2 MiB are INVALID_ARGUMENT at acquire. */
IMPMEM_NODISCARD impmem_status impmem_cuda_malloc_backend_create(impmem_cuda_device *device,
                                                                 const impmem_cuda_malloc_options *options,
                                                                 impmem_backend **out, impmem_error *why);

#define IMPMEM_CUDA_MAX_PEERS 16u

typedef struct impmem_cuda_vmm_options {
    uint32_t size;
    uint32_t version;     /* 1 */
    uint64_t chunk_bytes; /* the backend's granule: one physical allocation. A multiple of the device's granule; 0 = 64 MiB.
                                   * For an engine: the plan's granule_bytes, so that the two divide */
    uint64_t capacity_bytes;     /* never hold more; 0 = whatever the device has */
    uint64_t keep_bytes;         /* decommitted chunks kept for the next commit instead of freed; they count as held by the
                                   * device but on no account: keep 0 unless growth must be fast */
    const int32_t *peers;        /* ordinals of other devices that may read and write, granted with every commit */
    uint32_t n_peers;            /* up to IMPMEM_CUDA_MAX_PEERS */
    bool exportable;             /* chunks can be exported (impmem_cuda_export) */
    bool verify_access;          /* read access back after every commit; always on in builds without NDEBUG */
    impmem_line_id control_line; /* of the chunk tables; 0 = IMPMEM_LINE_HOST_CONTROL */
} impmem_cuda_vmm_options;
#define IMPMEM_CUDA_VMM_OPTIONS_INIT                                                                                       \
    {                                                                                                                      \
        sizeof(impmem_cuda_vmm_options), 1, 0, 0, 0, NULL, 0, false, false, 0                                              \
    }

/* Growable regions: addresses reserved once, chunks created and mapped by commit, unmapped and released by decommit.
 * Creating, mapping and granting access are one transaction: a commit that fails leaves nothing of its own behind.
 * UNSUPPORTED where device, driver or flag (export) is missing; INVALID_ARGUMENT for a chunk that is no multiple of the
 * device's granule. */
IMPMEM_NODISCARD impmem_status impmem_cuda_vmm_backend_create(impmem_cuda_device *device,
                                                              const impmem_cuda_vmm_options *options, impmem_backend **out,
                                                              impmem_error *why);

/* A growable backend if this device can reserve `reserve_bytes` of addresses, else one over cudaMalloc: *out_growable says
 * which, and `why` says why not although IMPMEM_OK is returned. */
IMPMEM_NODISCARD impmem_status impmem_cuda_growing_backend_create(impmem_cuda_device *device,
                                                                  const impmem_cuda_vmm_options *options,
                                                                  uint64_t reserve_bytes, impmem_backend **out,
                                                                  bool *out_growable, impmem_error *why);

typedef struct impmem_cuda_vmm_stats {
    uint64_t held_bytes;       /* physical, mapped chunks */
    uint64_t kept_bytes;       /* physical, unmapped, waiting for the next commit */
    uint64_t stuck_bytes;      /* physical, that the driver refused to take back; tried again later */
    uint64_t reserved_bytes;   /* addresses */
    uint64_t chunks_created;   /* ever */
    uint64_t chunks_reused;    /* ever, from the kept ones */
    uint64_t live_descriptors; /* exported and not closed */
} impmem_cuda_vmm_stats;
/* FOREIGN: not a backend of impmem_cuda_vmm_backend_create. */
IMPMEM_NODISCARD impmem_status impmem_cuda_vmm_query(const impmem_backend *backend, impmem_cuda_vmm_stats *out);
/* Frees kept chunks down to `keep_bytes`. FOREIGN, CAPTURING is not checked: not while a graph is captured. */
IMPMEM_NODISCARD impmem_status impmem_cuda_vmm_trim(impmem_backend *backend, uint64_t keep_bytes);

/* A file descriptor of the chunk that holds `offset` of a committed region, for another process. The region owns it: it is
 * closed by impmem_cuda_export_close, by decommitting the chunk and by releasing the region, since an open descriptor keeps
 * the memory. UNSUPPORTED: not a virtual-memory region, or not opened exportable; nothing reaches the driver. STATE: not
 * committed there. EXHAUSTED: 64 descriptors are open. */
IMPMEM_NODISCARD impmem_status impmem_cuda_export(impmem_region *region, uint64_t offset, int *out_descriptor,
                                                  impmem_error *why);
IMPMEM_NODISCARD impmem_status impmem_cuda_export_close(impmem_region *region, int descriptor); /* NOT_FOUND */

/* ---- host memory ----------------------------------------------------------------------------------------------------- */

typedef struct impmem_cuda_pinned_options {
    uint32_t size;
    uint32_t version;            /* 1 */
    uint64_t capacity_bytes;     /* never hold more; 0 = whatever the system gives */
    bool mapped;                 /* the device can reach it at the address of impmem_cuda_device_address */
    bool write_combined;         /* faster for the device to read, very slow for the CPU to read */
    int32_t numa_node;           /* host node of the memory; -1 = wherever. Needs virtual memory and implies mapped */
    impmem_line_id control_line; /* 0 = IMPMEM_LINE_HOST_CONTROL */
} impmem_cuda_pinned_options;
#define IMPMEM_CUDA_PINNED_OPTIONS_INIT                                                                                    \
    {                                                                                                                      \
        sizeof(impmem_cuda_pinned_options), 1, 0, false, false, -1, 0                                                      \
    }

/* For impmem/pinned.h, whose owners are move-only handles. Refusal is OUT_OF_PINNED_MEMORY, whatever the driver calls
 * it. */
IMPMEM_NODISCARD impmem_status impmem_cuda_pinned_backend_create(impmem_cuda_device *device,
                                                                 const impmem_cuda_pinned_options *options,
                                                                 impmem_backend **out, impmem_error *why);
/* The device's address of mapped or registered host memory. NOT_FOUND: the device knows none. */
IMPMEM_NODISCARD impmem_status impmem_cuda_device_address(impmem_cuda_device *device, void *host, void **out,
                                                          impmem_error *why);

typedef enum impmem_registration_mode {
    IMPMEM_REGISTRATION_NONE = 0,
    IMPMEM_REGISTRATION_WRITABLE = 1,  /* page-locked */
    IMPMEM_REGISTRATION_READ_ONLY = 2, /* page-locked, the device may only read */
    IMPMEM_REGISTRATION_PAGEABLE = 3   /* refused: copy through a buffer of your own */
} impmem_registration_mode;

/* One owner's page-locking of memory that the library did not allocate. Plain handle: closing zeroes it, a copy goes
 * stale. */
typedef struct impmem_host_registration {
    impmem_cuda_device *device_;
    uint64_t number_;
} impmem_host_registration;
#define IMPMEM_HOST_REGISTRATION_NONE                                                                                      \
    {                                                                                                                      \
        NULL, 0                                                                                                            \
    }

typedef struct impmem_registration_options {
    uint32_t size;
    uint32_t version;    /* 1 */
    impmem_line_id line; /* pinned plan line that is charged; IMPMEM_NO_LINE = none */
    uint64_t cap_bytes;  /* all registrations of the device together; 0 = no cap. Above it OUT_OF_PINNED_MEMORY */
    bool read_only;      /* the pages can't be written (a read-only map of a file) */
    bool or_pageable;    /* a refusal by the driver degrades: IMPMEM_OK, mode PAGEABLE, counted in the ledger */
} impmem_registration_options;
#define IMPMEM_REGISTRATION_OPTIONS_INIT                                                                                   \
    {                                                                                                                      \
        sizeof(impmem_registration_options), 1, IMPMEM_NO_LINE, 0, false, false                                            \
    }

/* Read-only memory is tried with the read-only flag where the device has it, then without. BUSY: the range, or a part, is
 * registered already through this device. OUT_OF_PINNED_MEMORY, BUDGET_EXCEEDED, UNPLANNED (no such line),
 * INVALID_ARGUMENT. Up to 256 at once (EXHAUSTED). */
IMPMEM_NODISCARD impmem_status impmem_cuda_register(impmem_cuda_device *device, void *memory, uint64_t bytes,
                                                    const impmem_registration_options *options,
                                                    impmem_host_registration *out, impmem_error *why);
/* None is fine. STALE: closed already, nothing happens. */
IMPMEM_NODISCARD impmem_status impmem_cuda_unregister(impmem_host_registration *registration, impmem_error *why);
impmem_registration_mode impmem_cuda_registration_mode(impmem_host_registration registration); /* NONE when none or stale */
/* The driver's codes of the read-only and the plain attempt; 0 = not tried or good. STALE. */
IMPMEM_NODISCARD impmem_status impmem_cuda_registration_codes(impmem_host_registration registration, int64_t out_codes[2]);

/* ---- queue ----------------------------------------------------------------------------------------------------------- */

typedef enum impmem_cuda_copy_way {
    IMPMEM_CUDA_COPY_AUTO = 0,   /* kernel, else batch, else one by one */
    IMPMEM_CUDA_COPY_KERNEL = 1, /* one kernel launch per batch */
    IMPMEM_CUDA_COPY_BATCH = 2,  /* one cudaMemcpyBatchAsync per batch */
    IMPMEM_CUDA_COPY_SINGLE = 3  /* a cudaMemcpyAsync per block */
} impmem_cuda_copy_way;

typedef struct impmem_cuda_queue_options {
    uint32_t size;
    uint32_t version; /* 1 */
    void *stream;     /* a cudaStream_t of the caller, which outlives the queue; NULL = one of the queue's own */
    uint32_t batch;   /* copies that can be on their way at once; 0 = 4096. A larger batch is sent in parts */
    impmem_cuda_copy_way copy;
    impmem_line_id pinned_line;  /* of its page-locked memory, impmem_cuda_queue_pinned_bytes(batch); 0 = unplanned */
    impmem_line_id control_line; /* 0 = IMPMEM_LINE_HOST_CONTROL */
} impmem_cuda_queue_options;
#define IMPMEM_CUDA_QUEUE_OPTIONS_INIT                                                                                     \
    {                                                                                                                      \
        sizeof(impmem_cuda_queue_options), 1, NULL, 0, IMPMEM_CUDA_COPY_AUTO, 0, 0                                         \
    }

/* Over a stream. Its counter and its tables of copies are page-locked host memory, acquired here. UNSUPPORTED: the asked
 * way of copying, or writing values from a stream, is not there. Not for use inside a capture: work that is replayed needs
 * addresses that stay. */
IMPMEM_NODISCARD impmem_status impmem_cuda_queue_create(impmem_cuda_device *device,
                                                        const impmem_cuda_queue_options *options, impmem_queue **out,
                                                        impmem_error *why);
/* Page-locked bytes that a queue takes, a multiple of the pinned backend's 4 KiB granule. */
IMPMEM_NODISCARD impmem_status impmem_cuda_queue_pinned_bytes(uint32_t batch, uint64_t *out_bytes);
/* How the queue copies batches; AUTO for a queue of another kind. */
impmem_cuda_copy_way impmem_cuda_queue_copy_way(const impmem_queue *queue);
void *impmem_cuda_queue_stream(const impmem_queue *queue); /* the cudaStream_t; NULL for a queue of another kind */

/* ---- planning the room's own host tables ----------------------------------------------------------------------------- */

/* Host control bytes, never less than what is taken: of a device; of a virtual-memory backend plus `n_regions` regions that
 * reserve `reserved_bytes` together in chunks of `chunk_bytes` (0: no such backend); of `n_plain` cudaMalloc and pinned
 * backends; of `n_queues` queues of `batch` copies. Put them on a line of tier CONTROL and give its id to the options
 * above. Pure; OVERFLOW, INVALID_ARGUMENT. */
typedef struct impmem_cuda_control {
    uint64_t chunk_bytes;
    uint64_t reserved_bytes;
    uint32_t n_regions;
    uint32_t n_plain;
    uint32_t n_queues;
} impmem_cuda_control;
IMPMEM_NODISCARD impmem_status impmem_cuda_control_bytes(const impmem_cuda_control *what, uint64_t *out_bytes);

/* ---- residency ------------------------------------------------------------------------------------------------------- */

/* Copies the first half of [base, base + bytes), at most 256 MiB, onto the second, again and again for about 0.1 s after a
 * warm-up, and does the same over `reference_bytes` of `reference` (NULL = no reference). The memory's content is lost: for
 * a pool that holds nothing yet. The verdict is kept in the device's gauges, and spilled memory is told to the ledger's log:
 * IMPMEM_OK all the same. Any thread, not while capturing. INVALID_ARGUMENT, DRIVER. */
IMPMEM_NODISCARD impmem_status impmem_cuda_residency_probe(impmem_cuda_device *device, void *base, uint64_t bytes,
                                                           void *reference, uint64_t reference_bytes,
                                                           impmem_residency_reading *out, impmem_error *why);

/* ---- annotations ----------------------------------------------------------------------------------------------------- */

/* Tells compute-sanitizer about every take through NVTX. The tool honours it for cudaMalloc memory only, so
 * debug over that backend. UNSUPPORTED: built without the annotation headers. `max_takes`: the most that are alive at once;
 * beyond it a take is not told, and the ledger's log says so. The host table is on `control_line` (0 =
 * IMPMEM_LINE_HOST_CONTROL). With no tool attached nothing is kept and every call returns at once. */
IMPMEM_NODISCARD impmem_status impmem_cuda_track_nvtx(impmem_cuda_device *device, uint32_t max_takes,
                                                      impmem_line_id control_line, impmem_track *out, impmem_error *why);

/* ---- measuring what is not ours -------------------------------------------------------------------------------------- */

/* What kind of thing a residual is. A cache takes what it finds: its size follows free memory, and charging it as a constant
 * would be wrong. Another process that came or went meanwhile looks the same. */
typedef enum impmem_cuda_residual_kind {
    IMPMEM_CUDA_RESIDUAL_UNKNOWN = 0,  /* fewer than two readings, or free memory hardly moved */
    IMPMEM_CUDA_RESIDUAL_CONSTANT = 1, /* charge it */
    IMPMEM_CUDA_RESIDUAL_CACHE = 2     /* report it as an untracked cache */
} impmem_cuda_residual_kind;

typedef struct impmem_cuda_standing {
    uint64_t total_bytes;
    uint64_t free_bytes;
    uint64_t used_bytes;       /* total - free */
    uint64_t own_bytes;        /* what this ledger's device account holds, charges left out */
    uint64_t context_bytes;    /* as measured when the device was opened */
    uint64_t neighbours_bytes; /* other processes, and what the driver had taken before; as of opening */
    bool context_measured;     /* false: the context was there before, and its bytes are in neighbours_bytes */
    uint64_t library_bytes;    /* claimed during the last impmem_cuda_measure_end */
    int64_t residual_bytes;    /* used - own - context - neighbours - library: negative = counted twice */
    impmem_cuda_residual_kind residual_kind; /* from this reading and those since the last impmem_cuda_measure_end */
} impmem_cuda_standing;
IMPMEM_NODISCARD impmem_status impmem_cuda_standing_read(impmem_cuda_device *device, impmem_cuda_standing *out,
                                                         impmem_error *why);

/* Around everything that makes libraries claim memory: handles, a first matmul, a first graph. What the used bytes rose by
 * beyond what the ledger acquired is the library reserve. `end` without `begin` is STATE; a negative difference counts as
 * 0. */
IMPMEM_NODISCARD impmem_status impmem_cuda_measure_begin(impmem_cuda_device *device, impmem_error *why);
IMPMEM_NODISCARD impmem_status impmem_cuda_measure_end(impmem_cuda_device *device, uint64_t *out_library_bytes,
                                                       impmem_error *why);

/* Of what was assumed and what came: pure. Diverges when they differ by more than a tenth of the larger and 16 MiB. */
typedef struct impmem_cuda_self_check {
    uint64_t assumed_bytes;
    uint64_t actual_bytes;
    int64_t difference_bytes; /* actual - assumed */
    double ratio;             /* actual / assumed; 0 when nothing was assumed */
    bool diverges;
} impmem_cuda_self_check;
impmem_cuda_self_check impmem_cuda_check_charge(uint64_t assumed_bytes, uint64_t actual_bytes);

/* At boot, after the first forward pass: what libraries really took, against the plan's charge for them. That is all that is
 * on the device beside our own, the context and the neighbours. Counted in the gauges, and told to the ledger's log when the
 * two diverge: IMPMEM_OK all the same. What impmem_cuda_standing_read returns. */
IMPMEM_NODISCARD impmem_status impmem_cuda_check_library(impmem_cuda_device *device, uint64_t assumed_bytes,
                                                         impmem_cuda_self_check *out, impmem_error *why);

/* For a metrics endpoint: what the checks of this device found. Any thread. */
typedef struct impmem_cuda_gauges {
    uint64_t checks;                    /* impmem_cuda_check_library, those that could read the device */
    uint64_t divergences;               /* of them, that diverged */
    impmem_cuda_self_check check;       /* the last */
    uint64_t residency_probes;          /* impmem_cuda_residency_probe, those that could time */
    uint64_t spills;                    /* of them, that found spilled memory */
    impmem_residency_reading residency; /* the last */
    impmem_cuda_residual_kind residual_kind;
    int64_t residual_bytes; /* of the last impmem_cuda_standing_read; of an untracked cache when the kind says so */
} impmem_cuda_gauges;
void impmem_cuda_gauges_read(impmem_cuda_device *device, impmem_cuda_gauges *out);

/* The kind of residual, from readings at different amounts of free memory. Pure. */
typedef struct impmem_cuda_residual_reading {
    uint64_t free_bytes;
    int64_t residual_bytes;
} impmem_cuda_residual_reading;
impmem_cuda_residual_kind impmem_cuda_classify_residual(const impmem_cuda_residual_reading *readings, uint32_t n);

/* ---- remembering measurements ---------------------------------------------------------------------------------------- */

/* What a measurement holds for. Text without control characters; anything else is INVALID_ARGUMENT. */
typedef struct impmem_cuda_measure_key {
    char device[104]; /* name and identity */
    char driver[24];
    char runtime[24];
    char libraries[64]; /* "cublasLt 13.1.0" */
    char model[72];     /* fingerprint of the model, or "" */
} impmem_cuda_measure_key;
void impmem_cuda_measure_key_set(const impmem_cuda_device *device, const char *libraries, const char *model,
                                 impmem_cuda_measure_key *out);

typedef struct impmem_cuda_measured {
    uint64_t context_bytes;
    uint64_t library_bytes;
} impmem_cuda_measured;
/* NOT_FOUND: no file, or not in it. BAD_FORMAT with the line's number. */
IMPMEM_NODISCARD impmem_status impmem_cuda_recall(const char *path, const impmem_cuda_measure_key *key,
                                                  impmem_cuda_measured *out, impmem_error *why);
/* Adds or replaces the key's line; other lines stay. The file is replaced as a whole, or not at all: IO leaves the old one.
 * For the caller an IO error here is a warning: the measurement itself is good. */
IMPMEM_NODISCARD impmem_status impmem_cuda_remember(const char *path, const impmem_cuda_measure_key *key,
                                                    const impmem_cuda_measured *measured, impmem_error *why);
/* Which figure to use: a pinned one (not UINT64_MAX) wins, then a remembered one (`remembered` not NULL), then the
 * measured. */
uint64_t impmem_cuda_choose_library_bytes(uint64_t pinned_bytes, const impmem_cuda_measured *remembered,
                                          uint64_t measured_bytes);

#ifdef __cplusplus
}
#endif
#endif
