/* cuda/driver.h - everything that the room asks of the CUDA runtime, the driver, the management library and NVTX, as one
 * table.
 *
 * src/cuda calls nothing of CUDA but through this table. driver_cuda.c fills it from the toolkit; tests fill it with a
 * driver made of counters that fails on demand, so the whole room is tested where there is neither device nor toolkit. The
 * types are plain numbers and pointers: no CUDA header is needed to compile the room.
 *
 * Every function returns a code of the runtime or the driver, whose numbers agree where the room looks at them; 0 is
 * success.
 */
#ifndef IMPMEM__CUDA_DRIVER_H
#define IMPMEM__CUDA_DRIVER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "impmem/cuda.h"

/* Codes that the room looks at; runtime and driver use the same numbers for them. */
enum {
    IMPMEM__CODE_OK = 0,
    IMPMEM__CODE_INVALID_VALUE = 1,
    IMPMEM__CODE_OUT_OF_MEMORY = 2,
    IMPMEM__CODE_OLD_DRIVER = 35,
    IMPMEM__CODE_NO_DEVICE = 100,
    IMPMEM__CODE_INVALID_DEVICE = 101,
    IMPMEM__CODE_NOT_READY = 600,
    IMPMEM__CODE_REGISTERED_ALREADY = 712,
    IMPMEM__CODE_NOT_PERMITTED = 800,
    IMPMEM__CODE_NOT_SUPPORTED = 801,
    IMPMEM__CODE_CAPTURE_FIRST = 900, /* .. 909: what can't be done while a stream is captured */
    IMPMEM__CODE_CAPTURE_LAST = 909,
    IMPMEM__CODE_MISSING = -1 /* the room's own: this driver has no such function */
};

/* Device attributes that the room reads, by the driver's numbers. */
enum {
    IMPMEM__ATTRIBUTE_INTEGRATED = 18,
    IMPMEM__ATTRIBUTE_COMPUTE_MAJOR = 75,
    IMPMEM__ATTRIBUTE_COMPUTE_MINOR = 76,
    IMPMEM__ATTRIBUTE_VIRTUAL_MEMORY = 102,
    IMPMEM__ATTRIBUTE_EXPORT_DESCRIPTOR = 103,
    IMPMEM__ATTRIBUTE_READ_ONLY_REGISTER = 113
};

enum {
    IMPMEM__HOST_PORTABLE = 1,
    IMPMEM__HOST_MAPPED = 2,
    IMPMEM__HOST_WRITE_COMBINED = 4,
    IMPMEM__REGISTER_READ_ONLY = 8
};

/* Where a chunk's physical memory comes from, and who gets access. */
typedef struct impmem__chunk_place {
    int device;
    int numa_node; /* >= 0: host memory of that node instead */
    int exportable;
} impmem__chunk_place;

typedef struct impmem__driver impmem__driver;

/* X(name, kind, parameters behind the table). Kind: what the call does to memory. */
#define IMPMEM__DRIVER_MAP(X)                                                                                              \
    X(device_count, OTHER, (impmem__driver * d, int *out))                                                                 \
    X(driver_version, OTHER, (impmem__driver * d, int *out))                                                               \
    X(runtime_version, OTHER, (impmem__driver * d, int *out))                                                              \
    X(last_error, OTHER, (impmem__driver * d, int *out)) /* takes it out */                                                \
    X(device_attribute, OTHER, (impmem__driver * d, int *out, int attribute, int device))                                  \
    X(device_name, OTHER, (impmem__driver * d, char *out, int bytes, int device))                                          \
    X(device_identity, OTHER, (impmem__driver * d, unsigned char out[16], int device))                                     \
    X(device_total, OTHER, (impmem__driver * d, uint64_t * out, int device))                                               \
    X(context_active, OTHER, (impmem__driver * d, int *out, int device))                                                   \
    X(context_retain, OTHER, (impmem__driver * d, void **out, int device))                                                 \
    X(context_release, OTHER, (impmem__driver * d, int device))                                                            \
    X(context_push, OTHER, (impmem__driver * d, void *context))                                                            \
    X(context_pop, OTHER, (impmem__driver * d, void **out))                                                                \
    X(memory_info, OTHER, (impmem__driver * d, uint64_t * out_free, uint64_t * out_total))                                 \
    X(managed_memory, OTHER,                                                                                               \
      (impmem__driver * d, const unsigned char identity[16], uint64_t *out_used, uint64_t *out_others))                    \
    X(malloc, ACQUIRE, (impmem__driver * d, void **out, uint64_t bytes))                                                   \
    X(free, GIVE_BACK, (impmem__driver * d, void *memory))                                                                 \
    X(malloc_async, ACQUIRE, (impmem__driver * d, void **out, uint64_t bytes, void *stream))                               \
    X(free_async, GIVE_BACK, (impmem__driver * d, void *memory, void *stream))                                             \
    X(async_keep_all, OTHER, (impmem__driver * d, int device))                                                             \
    X(host_alloc, ACQUIRE, (impmem__driver * d, void **out, uint64_t bytes, unsigned flags))                               \
    X(host_free, GIVE_BACK, (impmem__driver * d, void *memory))                                                            \
    X(host_register, ACQUIRE, (impmem__driver * d, void *memory, uint64_t bytes, unsigned flags))                          \
    X(host_unregister, GIVE_BACK, (impmem__driver * d, void *memory))                                                      \
    X(host_address, OTHER, (impmem__driver * d, void **out, void *host))                                                   \
    X(granularity, OTHER, (impmem__driver * d, uint64_t * out, const impmem__chunk_place *place, int recommended))         \
    X(address_reserve, ACQUIRE, (impmem__driver * d, void **out, uint64_t bytes, uint64_t alignment))                      \
    X(address_free, GIVE_BACK, (impmem__driver * d, void *base, uint64_t bytes))                                           \
    X(chunk_create, ACQUIRE, (impmem__driver * d, uint64_t * out, uint64_t bytes, const impmem__chunk_place *place))       \
    X(chunk_release, GIVE_BACK, (impmem__driver * d, uint64_t chunk))                                                      \
    X(chunk_map, MAP, (impmem__driver * d, void *at, uint64_t bytes, uint64_t chunk))                                      \
    X(chunk_unmap, MAP, (impmem__driver * d, void *at, uint64_t bytes))                                                    \
    X(set_access, MAP, (impmem__driver * d, void *at, uint64_t bytes, const int *devices, uint32_t n, int numa_node))      \
    X(get_access, OTHER, (impmem__driver * d, uint64_t * out, void *at, int device))                                       \
    X(chunk_export, OTHER, (impmem__driver * d, int *out, uint64_t chunk))                                                 \
    X(descriptor_close, OTHER, (impmem__driver * d, int descriptor))                                                       \
    X(stream_create, OTHER, (impmem__driver * d, void **out))                                                              \
    X(stream_destroy, OTHER, (impmem__driver * d, void *stream))                                                           \
    X(stream_wait_host, OTHER, (impmem__driver * d, void *stream))                                                         \
    X(stream_query, OTHER, (impmem__driver * d, void *stream))                                                             \
    X(stream_write, OTHER, (impmem__driver * d, void *stream, const void *at, uint64_t value))                             \
    X(stream_wait_value, OTHER, (impmem__driver * d, void *stream, const void *at, uint64_t value))                        \
    X(fill_async, OTHER, (impmem__driver * d, void *to, uint8_t value, uint64_t bytes, void *stream))                      \
    X(copy_async, OTHER, (impmem__driver * d, void *to, const void *from, uint64_t bytes, void *stream))                   \
    X(copy_batch, OTHER,                                                                                                   \
      (impmem__driver * d, void *const *to, const void *const *from, const size_t *bytes, uint32_t n, void *stream))       \
    X(module_load, OTHER, (impmem__driver * d, void **out, const char *image))                                             \
    X(module_unload, OTHER, (impmem__driver * d, void *module))                                                            \
    X(module_function, OTHER, (impmem__driver * d, void **out, void *module, const char *name))                            \
    X(launch, OTHER, (impmem__driver * d, void *function, uint32_t grid, uint32_t block, void *stream, void **parameters)) \
    X(capture_begin, OTHER, (impmem__driver * d, void *stream))                                                            \
    X(capture_end, OTHER, (impmem__driver * d, void *stream, void **out_graph))                                            \
    X(graph_instantiate, OTHER, (impmem__driver * d, void **out, void *graph))                                             \
    X(graph_launch, OTHER, (impmem__driver * d, void *executable, void *stream))                                           \
    X(graph_destroy, OTHER, (impmem__driver * d, void *graph, void *executable))                                           \
    X(event_create, OTHER, (impmem__driver * d, void **out))                                                               \
    X(event_destroy, OTHER, (impmem__driver * d, void *event))                                                             \
    X(event_record, OTHER, (impmem__driver * d, void *event, void *stream))                                                \
    X(event_elapsed, OTHER, (impmem__driver * d, double *out_seconds, void *from, void *to)) /* waits for `to` */          \
    X(nvtx_heap, OTHER, (impmem__driver * d, void **out, void *base, uint64_t bytes, const char *name))                    \
    X(nvtx_heap_end, OTHER, (impmem__driver * d, void *heap))                                                              \
    X(nvtx_take, OTHER, (impmem__driver * d, void *heap, void *address, uint64_t bytes, const char *name))                 \
    X(nvtx_drop, OTHER, (impmem__driver * d, void *const *addresses, uint32_t n))

typedef enum impmem__call_kind {
    IMPMEM__KIND_OTHER,
    IMPMEM__KIND_ACQUIRE,
    IMPMEM__KIND_MAP,
    IMPMEM__KIND_GIVE_BACK,
    IMPMEM__N_KINDS
} impmem__call_kind;

typedef enum impmem__call {
#define IMPMEM__DRIVER_ENUM(name, kind, parameters) IMPMEM__CALL_##name,
    IMPMEM__DRIVER_MAP(IMPMEM__DRIVER_ENUM)
#undef IMPMEM__DRIVER_ENUM
        IMPMEM__N_CALLS
} impmem__call;

enum { IMPMEM__DRIVER_SYMBOLS = 48 };

struct impmem__driver {
#define IMPMEM__DRIVER_FIELD(name, kind, parameters) int(*name) parameters;
    IMPMEM__DRIVER_MAP(IMPMEM__DRIVER_FIELD)
#undef IMPMEM__DRIVER_FIELD
    _Atomic uint64_t calls[IMPMEM__N_CALLS];      /* made through impmem__ask */
    void (*symbol[IMPMEM__DRIVER_SYMBOLS])(void); /* driver_cuda.c's: entry points of the driver itself */
    void *library;    /* the filler's own; driver_cuda.c: the management library, NULL = not there */
    char missing[40]; /* the first function that the driver lacks, "" = none */
};

/* impmem__ask(d, malloc, &memory, bytes): calls and counts. A function that is not there is IMPMEM__CODE_MISSING. */
#define impmem__ask(d, name, ...)                                                                                          \
    (atomic_fetch_add_explicit(&(d)->calls[IMPMEM__CALL_##name], 1, memory_order_relaxed),                                 \
     (d)->name ? (d)->name((d), __VA_ARGS__) : IMPMEM__CODE_MISSING)

/* Fills the table of a zeroed struct. IMPMEM_ERR_NO_DRIVER where this build or this machine has none. */
impmem_status impmem__driver_fill(impmem__driver *driver, impmem_error *why);
/* Closes what filling opened. A zeroed struct is fine. */
void impmem__driver_empty(impmem__driver *driver);

impmem__call_kind impmem__call_kind_of(impmem__call call);
const char *impmem__call_name(impmem__call call);

/* What a code means. `full` is what IMPMEM__CODE_OUT_OF_MEMORY becomes: it is the caller who knows which memory was asked
 * for. */
impmem_status impmem__code_status(int code, impmem_status full);
/* impmem__error_set with "what: code N" and the driver's code; returns the status. */
impmem_status impmem__code_error(impmem_error *why, int code, impmem_status full, const char *what);

#endif
