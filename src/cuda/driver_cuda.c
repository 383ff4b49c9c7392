/* The table as the CUDA toolkit fills it: the one file that calls runtime and driver. Functions of the driver come through
 * the runtime's entry points, so that a program that holds this file starts, and answers, where there is no driver at all.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/internal.h"
#include "cuda/driver.h"
#include "cuda/management.h"
#include "cuda/nvtx.h"

/* X(name behind "cu", version of the interface). Without the prefix, since the headers rename functions by macros. */
#define SYMBOL_MAP(X)                                                                                                      \
    X(DeviceGetAttribute, 2000)                                                                                            \
    X(DeviceGetName, 2000)                                                                                                 \
    X(DeviceGetUuid, 11040)                                                                                                \
    X(DeviceTotalMem, 3020)                                                                                                \
    X(DevicePrimaryCtxGetState, 7000)                                                                                      \
    X(DevicePrimaryCtxRetain, 7000)                                                                                        \
    X(DevicePrimaryCtxRelease, 11000)                                                                                      \
    X(CtxPushCurrent, 4000)                                                                                                \
    X(CtxPopCurrent, 4000)                                                                                                 \
    X(MemGetAllocationGranularity, 10020)                                                                                  \
    X(MemAddressReserve, 10020)                                                                                            \
    X(MemAddressFree, 10020)                                                                                               \
    X(MemCreate, 10020)                                                                                                    \
    X(MemRelease, 10020)                                                                                                   \
    X(MemMap, 10020)                                                                                                       \
    X(MemUnmap, 10020)                                                                                                     \
    X(MemSetAccess, 10020)                                                                                                 \
    X(MemGetAccess, 10020)                                                                                                 \
    X(MemExportToShareableHandle, 10020)                                                                                   \
    X(StreamWriteValue64, 11070)                                                                                           \
    X(StreamWaitValue64, 11070)                                                                                            \
    X(ModuleLoadData, 2000)                                                                                                \
    X(ModuleUnload, 2000)                                                                                                  \
    X(ModuleGetFunction, 2000)                                                                                             \
    X(LaunchKernel, 4000)

enum {
#define PLACE(name, version) AT_##name,
    SYMBOL_MAP(PLACE)
#undef PLACE
        N_PLACES
};
_Static_assert((int)N_PLACES <= (int)IMPMEM__MANAGEMENT_SYMBOL, "the table has a place for every symbol");

#define CALL(d, name, version) ((PFN_cu##name##_v##version)(d)->symbol[AT_##name])

static CUdeviceptr address(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

/* ---- devices --------------------------------------------------------------------------------------------------------- */

static int device_count(impmem__driver *d, int *out)
{
    (void)d;
    return (int)cudaGetDeviceCount(out);
}

static int driver_version(impmem__driver *d, int *out)
{
    (void)d;
    return (int)cudaDriverGetVersion(out);
}

static int runtime_version(impmem__driver *d, int *out)
{
    (void)d;
    return (int)cudaRuntimeGetVersion(out);
}

static int last_error(impmem__driver *d, int *out)
{
    (void)d;
    *out = (int)cudaGetLastError();
    return 0;
}

static int device_attribute(impmem__driver *d, int *out, int which, int device)
{
    return (int)CALL(d, DeviceGetAttribute, 2000)(out, (CUdevice_attribute)which, device);
}

static int device_name(impmem__driver *d, char *out, int bytes, int device)
{
    return (int)CALL(d, DeviceGetName, 2000)(out, bytes, device);
}

static int device_identity(impmem__driver *d, unsigned char out[16], int device)
{
    CUuuid uuid;
    int code = (int)CALL(d, DeviceGetUuid, 11040)(&uuid, device);
    if (!code) memcpy(out, uuid.bytes, sizeof uuid.bytes);
    return code;
}

static int device_total(impmem__driver *d, uint64_t *out, int device)
{
    size_t bytes = 0;
    int code = (int)CALL(d, DeviceTotalMem, 3020)(&bytes, device);
    if (!code) *out = bytes;
    return code;
}

static int context_active(impmem__driver *d, int *out, int device)
{
    unsigned flags = 0;
    return (int)CALL(d, DevicePrimaryCtxGetState, 7000)(device, &flags, out);
}

static int context_retain(impmem__driver *d, void **out, int device)
{
    CUcontext context = NULL;
    int code = (int)CALL(d, DevicePrimaryCtxRetain, 7000)(&context, device);
    if (!code) *out = context;
    return code;
}

static int context_release(impmem__driver *d, int device)
{
    return (int)CALL(d, DevicePrimaryCtxRelease, 11000)(device);
}

static int context_push(impmem__driver *d, void *context)
{
    return (int)CALL(d, CtxPushCurrent, 4000)(context);
}

static int context_pop(impmem__driver *d, void **out)
{
    CUcontext context = NULL;
    int code = (int)CALL(d, CtxPopCurrent, 4000)(&context);
    *out = context;
    return code;
}

static int memory_info(impmem__driver *d, uint64_t *out_free, uint64_t *out_total)
{
    (void)d;
    size_t free_bytes = 0, total = 0;
    int code = (int)cudaMemGetInfo(&free_bytes, &total);
    if (code) return code;
    *out_free = free_bytes;
    *out_total = total;
    return code;
}

/* ---- memory ---------------------------------------------------------------------------------------------------------- */

static int device_malloc(impmem__driver *d, void **out, uint64_t bytes)
{
    (void)d;
    return (int)cudaMalloc(out, (size_t)bytes);
}

static int device_free(impmem__driver *d, void *memory)
{
    (void)d;
    return (int)cudaFree(memory);
}

static int malloc_async(impmem__driver *d, void **out, uint64_t bytes, void *stream)
{
    (void)d;
    return (int)cudaMallocAsync(out, (size_t)bytes, stream);
}

static int free_async(impmem__driver *d, void *memory, void *stream)
{
    (void)d;
    return (int)cudaFreeAsync(memory, stream);
}

static int async_keep_all(impmem__driver *d, int device)
{
    (void)d;
    cudaMemPool_t pool = NULL;
    uint64_t all = UINT64_MAX;
    int code = (int)cudaDeviceGetDefaultMemPool(&pool, device);
    return code ? code : (int)cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all);
}

static int host_alloc(impmem__driver *d, void **out, uint64_t bytes, unsigned flags)
{
    (void)d;
    return (int)cudaHostAlloc(out, (size_t)bytes, flags);
}

static int host_free(impmem__driver *d, void *memory)
{
    (void)d;
    return (int)cudaFreeHost(memory);
}

static int host_register(impmem__driver *d, void *memory, uint64_t bytes, unsigned flags)
{
    (void)d;
    return (int)cudaHostRegister(memory, (size_t)bytes, flags);
}

static int host_unregister(impmem__driver *d, void *memory)
{
    (void)d;
    return (int)cudaHostUnregister(memory);
}

static int host_address(impmem__driver *d, void **out, void *host)
{
    (void)d;
    return (int)cudaHostGetDevicePointer(out, host, 0);
}

/* ---- virtual memory -------------------------------------------------------------------------------------------------- */

static CUmemAllocationProp properties(const impmem__chunk_place *place)
{
    CUmemAllocationProp p;
    memset(&p, 0, sizeof p);
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = place->numa_node >= 0 ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_DEVICE;
    p.location.id = place->numa_node >= 0 ? place->numa_node : place->device;
    p.requestedHandleTypes = place->exportable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
    return p;
}

static int granularity(impmem__driver *d, uint64_t *out, const impmem__chunk_place *place, int recommended)
{
    CUmemAllocationProp p = properties(place);
    size_t bytes = 0;
    CUmemAllocationGranularity_flags which = recommended ? CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
                                                         : CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    int code = (int)CALL(d, MemGetAllocationGranularity, 10020)(&bytes, &p, which);
    if (!code) *out = bytes;
    return code;
}

static int address_reserve(impmem__driver *d, void **out, uint64_t bytes, uint64_t alignment)
{
    CUdeviceptr base = 0;
    int code = (int)CALL(d, MemAddressReserve, 10020)(&base, (size_t)bytes, (size_t)alignment, 0, 0);
    if (!code) *out = (void *)(uintptr_t)base;
    return code;
}

static int address_free(impmem__driver *d, void *base, uint64_t bytes)
{
    return (int)CALL(d, MemAddressFree, 10020)(address(base), (size_t)bytes);
}

static int chunk_create(impmem__driver *d, uint64_t *out, uint64_t bytes, const impmem__chunk_place *place)
{
    CUmemAllocationProp p = properties(place);
    CUmemGenericAllocationHandle handle = 0;
    int code = (int)CALL(d, MemCreate, 10020)(&handle, (size_t)bytes, &p, 0);
    if (!code) *out = handle;
    return code;
}

static int chunk_release(impmem__driver *d, uint64_t chunk)
{
    return (int)CALL(d, MemRelease, 10020)(chunk);
}

static int chunk_map(impmem__driver *d, void *at, uint64_t bytes, uint64_t chunk)
{
    return (int)CALL(d, MemMap, 10020)(address(at), (size_t)bytes, 0, chunk, 0);
}

static int chunk_unmap(impmem__driver *d, void *at, uint64_t bytes)
{
    return (int)CALL(d, MemUnmap, 10020)(address(at), (size_t)bytes);
}

static int set_access(impmem__driver *d, void *at, uint64_t bytes, const int *devices, uint32_t n, int numa_node)
{
    CUmemAccessDesc access[2 + IMPMEM_CUDA_MAX_PEERS];
    memset(access, 0, sizeof access);
    if (n > 1 + IMPMEM_CUDA_MAX_PEERS) return IMPMEM__CODE_INVALID_VALUE;
    uint32_t count = 0;
    for (; count < n; count++) {
        access[count].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        access[count].location.id = devices[count];
        access[count].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    if (numa_node >= 0) {
        access[count].location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
        access[count].location.id = numa_node;
        access[count++].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    return (int)CALL(d, MemSetAccess, 10020)(address(at), (size_t)bytes, access, count);
}

static int get_access(impmem__driver *d, uint64_t *out, void *at, int device)
{
    CUmemLocation location;
    memset(&location, 0, sizeof location);
    location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    location.id = device;
    unsigned long long flags = 0;
    int code = (int)CALL(d, MemGetAccess, 10020)(&flags, &location, address(at));
    if (!code) *out = flags;
    return code;
}

static int chunk_export(impmem__driver *d, int *out, uint64_t chunk)
{
    return (int)CALL(d, MemExportToShareableHandle, 10020)(out, chunk, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

static int descriptor_close(impmem__driver *d, int descriptor)
{
    (void)d;
    return close(descriptor) == 0 ? IMPMEM__CODE_OK : IMPMEM__CODE_INVALID_VALUE;
}

/* ---- streams --------------------------------------------------------------------------------------------------------- */

static int stream_create(impmem__driver *d, void **out)
{
    (void)d;
    cudaStream_t stream = NULL;
    int code = (int)cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (!code) *out = stream;
    return code;
}

static int stream_destroy(impmem__driver *d, void *stream)
{
    (void)d;
    return (int)cudaStreamDestroy(stream);
}

static int stream_wait_host(impmem__driver *d, void *stream)
{
    (void)d;
    return (int)cudaStreamSynchronize(stream);
}

static int stream_query(impmem__driver *d, void *stream)
{
    (void)d;
    return (int)cudaStreamQuery(stream);
}

static int stream_write(impmem__driver *d, void *stream, const void *at, uint64_t value)
{
    return (int)CALL(d, StreamWriteValue64, 11070)(stream, address(at), value, CU_STREAM_WRITE_VALUE_DEFAULT);
}

static int stream_wait_value(impmem__driver *d, void *stream, const void *at, uint64_t value)
{
    return (int)CALL(d, StreamWaitValue64, 11070)(stream, address(at), value, CU_STREAM_WAIT_VALUE_GEQ);
}

static int fill_async(impmem__driver *d, void *to, uint8_t value, uint64_t bytes, void *stream)
{
    (void)d;
    return (int)cudaMemsetAsync(to, value, (size_t)bytes, stream);
}

static int copy_async(impmem__driver *d, void *to, const void *from, uint64_t bytes, void *stream)
{
    (void)d;
    return (int)cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDefault, stream);
}

#if CUDART_VERSION >= 12080
static int copy_batch(impmem__driver *d, void *const *to, const void *const *from, const size_t *bytes, uint32_t n,
                      void *stream)
{
    (void)d;
    struct cudaMemcpyAttributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    size_t first = 0;
#if CUDART_VERSION >= 13000
    return (int)cudaMemcpyBatchAsync(to, from, bytes, n, &attributes, &first, 1, stream);
#else
    size_t failed = 0;
    return (int)cudaMemcpyBatchAsync((void **)(uintptr_t)to, (void **)(uintptr_t)from, (size_t *)(uintptr_t)bytes, n,
                                     &attributes, &first, 1, &failed, stream);
#endif
}
#endif

/* ---- kernels, graphs, events ----------------------------------------------------------------------------------------- */

static int module_load(impmem__driver *d, void **out, const char *image)
{
    CUmodule module = NULL;
    int code = (int)CALL(d, ModuleLoadData, 2000)(&module, image);
    if (!code) *out = module;
    return code;
}

static int module_unload(impmem__driver *d, void *module)
{
    return (int)CALL(d, ModuleUnload, 2000)(module);
}

static int module_function(impmem__driver *d, void **out, void *module, const char *name)
{
    CUfunction function = NULL;
    int code = (int)CALL(d, ModuleGetFunction, 2000)(&function, module, name);
    if (!code) *out = function;
    return code;
}

static int launch(impmem__driver *d, void *function, uint32_t grid, uint32_t block, void *stream, void **parameters)
{
    return (int)CALL(d, LaunchKernel, 4000)(function, grid, 1, 1, block, 1, 1, 0, stream, parameters, NULL);
}

static int capture_begin(impmem__driver *d, void *stream)
{
    (void)d;
    return (int)cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
}

static int capture_end(impmem__driver *d, void *stream, void **out_graph)
{
    (void)d;
    cudaGraph_t graph = NULL;
    int code = (int)cudaStreamEndCapture(stream, &graph);
    if (!code) *out_graph = graph;
    return code;
}

static int graph_instantiate(impmem__driver *d, void **out, void *graph)
{
    (void)d;
    cudaGraphExec_t executable = NULL;
    int code = (int)cudaGraphInstantiateWithFlags(&executable, graph, 0);
    if (!code) *out = executable;
    return code;
}

static int graph_launch(impmem__driver *d, void *executable, void *stream)
{
    (void)d;
    return (int)cudaGraphLaunch(executable, stream);
}

static int graph_destroy(impmem__driver *d, void *graph, void *executable)
{
    (void)d;
    int code = executable ? (int)cudaGraphExecDestroy(executable) : 0;
    int second = graph ? (int)cudaGraphDestroy(graph) : 0;
    return code ? code : second;
}

static int event_create(impmem__driver *d, void **out)
{
    (void)d;
    cudaEvent_t event = NULL;
    int code = (int)cudaEventCreate(&event);
    if (!code) *out = event;
    return code;
}

static int event_destroy(impmem__driver *d, void *event)
{
    (void)d;
    return (int)cudaEventDestroy(event);
}

static int event_record(impmem__driver *d, void *event, void *stream)
{
    (void)d;
    return (int)cudaEventRecord(event, stream);
}

static int event_elapsed(impmem__driver *d, double *out_seconds, void *from, void *to)
{
    (void)d;
    float milliseconds = 0;
    int code = (int)cudaEventSynchronize(to);
    if (!code) code = (int)cudaEventElapsedTime(&milliseconds, from, to);
    if (!code) *out_seconds = (double)milliseconds / 1000.0;
    return code;
}

/* ---- filling --------------------------------------------------------------------------------------------------------- */

static void fill_runtime(impmem__driver *d)
{
    d->device_count = device_count;
    d->driver_version = driver_version;
    d->runtime_version = runtime_version;
    d->last_error = last_error;
    d->memory_info = memory_info;
    d->malloc = device_malloc;
    d->free = device_free;
    d->malloc_async = malloc_async;
    d->free_async = free_async;
    d->async_keep_all = async_keep_all;
    d->host_alloc = host_alloc;
    d->host_free = host_free;
    d->host_register = host_register;
    d->host_unregister = host_unregister;
    d->host_address = host_address;
    d->descriptor_close = descriptor_close;
    d->stream_create = stream_create;
    d->stream_destroy = stream_destroy;
    d->stream_wait_host = stream_wait_host;
    d->stream_query = stream_query;
    d->fill_async = fill_async;
    d->copy_async = copy_async;
#if CUDART_VERSION >= 12080
    d->copy_batch = copy_batch;
#endif
    d->capture_begin = capture_begin;
    d->capture_end = capture_end;
    d->graph_instantiate = graph_instantiate;
    d->graph_launch = graph_launch;
    d->graph_destroy = graph_destroy;
    d->event_create = event_create;
    d->event_destroy = event_destroy;
    d->event_record = event_record;
    d->event_elapsed = event_elapsed;
}

/* A function of the table is there when its symbol is. */
static void fill_driver(impmem__driver *d)
{
#define TAKE(function, name)                                                                                               \
    if (d->symbol[AT_##name]) d->function = function
    TAKE(device_attribute, DeviceGetAttribute);
    TAKE(device_name, DeviceGetName);
    TAKE(device_identity, DeviceGetUuid);
    TAKE(device_total, DeviceTotalMem);
    TAKE(context_active, DevicePrimaryCtxGetState);
    TAKE(context_retain, DevicePrimaryCtxRetain);
    TAKE(context_release, DevicePrimaryCtxRelease);
    TAKE(context_push, CtxPushCurrent);
    TAKE(context_pop, CtxPopCurrent);
    TAKE(granularity, MemGetAllocationGranularity);
    TAKE(address_reserve, MemAddressReserve);
    TAKE(address_free, MemAddressFree);
    TAKE(chunk_create, MemCreate);
    TAKE(chunk_release, MemRelease);
    TAKE(chunk_map, MemMap);
    TAKE(chunk_unmap, MemUnmap);
    TAKE(set_access, MemSetAccess);
    TAKE(get_access, MemGetAccess);
    TAKE(chunk_export, MemExportToShareableHandle);
    TAKE(stream_write, StreamWriteValue64);
    TAKE(stream_wait_value, StreamWaitValue64);
    TAKE(module_load, ModuleLoadData);
    TAKE(module_unload, ModuleUnload);
    TAKE(module_function, ModuleGetFunction);
    TAKE(launch, LaunchKernel);
#undef TAKE
}

impmem_status impmem__driver_fill(impmem__driver *driver, impmem_error *why)
{
    static const struct {
        const char *name;
        unsigned version;
    } symbols[] = {
#define NAME(name, version) {"cu" #name, version},
        SYMBOL_MAP(NAME)
#undef NAME
    };
    fill_runtime(driver);
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *entry = NULL;
        enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
        cudaError_t code = cudaGetDriverEntryPointByVersion(symbols[i].name, &entry, symbols[i].version, cudaEnableDefault,
                                                            &found);
        if (code != cudaSuccess) (void)cudaGetLastError();
        if (code == cudaErrorInsufficientDriver || code == cudaErrorNoDevice || code == cudaErrorInitializationError)
            return impmem__code_error(why, (int)code, IMPMEM_ERR_DRIVER, "looking for the driver");
        if (code == cudaSuccess && found == cudaDriverEntryPointSuccess && entry)
            memcpy(&driver->symbol[i], &entry, sizeof entry);
        else if (!driver->missing[0]) (void)snprintf(driver->missing, sizeof driver->missing, "%s", symbols[i].name);
    }
    fill_driver(driver);
    impmem__management_fill(driver);
    impmem__nvtx_fill(driver);
    return IMPMEM_OK;
}

void impmem__driver_empty(impmem__driver *driver)
{
    impmem__management_empty(driver);
}
