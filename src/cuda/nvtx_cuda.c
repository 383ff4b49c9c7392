/* NVTX memory annotations: the calls that compute-sanitizer listens to. With no tool attached each returns at once. */
#include "cuda/nvtx.h"

#include <string.h>

#if __has_include(<nvtx3/nvToolsExtMem.h>)
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtMem.h>

/* Names that the tool takes: 1 to 49 printable characters. */
static void message(const char *name, uint32_t *type, nvtxMessageValue_t *value)
{
    size_t n = name ? strlen(name) : 0;
    if (n == 0 || n > 49) return;
    *type = NVTX_MESSAGE_TYPE_ASCII;
    value->ascii = name;
}

static int heap(impmem__driver *d, void **out, void *base, uint64_t bytes, const char *name)
{
    (void)d;
    nvtxMemVirtualRangeDesc_t range = {(size_t)bytes, base};
    nvtxMemHeapDesc_t desc;
    memset(&desc, 0, sizeof desc);
    desc.extCompatID = NVTX_EXT_COMPATID_MEM;
    desc.structSize = sizeof desc;
    desc.usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
    desc.type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    desc.typeSpecificDescSize = sizeof range;
    desc.typeSpecificDesc = &range;
    message(name, &desc.messageType, &desc.message);
    nvtxMemHeapHandle_t handle = nvtxMemHeapRegister(NULL, &desc);
    if (!handle || handle == NVTX_MEM_HEAP_HANDLE_NO_TOOL) return IMPMEM__CODE_NOT_SUPPORTED;
    *out = handle;
    return IMPMEM__CODE_OK;
}

static int heap_end(impmem__driver *d, void *handle)
{
    (void)d;
    nvtxMemHeapUnregister(NULL, handle);
    return IMPMEM__CODE_OK;
}

static int take(impmem__driver *d, void *handle, void *address, uint64_t bytes, const char *name)
{
    (void)d;
    nvtxMemVirtualRangeDesc_t range = {(size_t)bytes, address};
    nvtxMemRegionHandle_t region = NULL;
    nvtxMemRegionsRegisterBatch_t batch;
    memset(&batch, 0, sizeof batch);
    batch.extCompatID = NVTX_EXT_COMPATID_MEM;
    batch.structSize = sizeof batch;
    batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    batch.heap = handle;
    batch.regionCount = 1;
    batch.regionDescElementSize = sizeof range;
    batch.regionDescElements = &range;
    batch.regionHandleElementsOut = &region;
    nvtxMemRegionsRegister(NULL, &batch);

    nvtxMemRegionNameDesc_t element;
    memset(&element, 0, sizeof element);
    element.regionRefType = NVTX_MEM_REGION_REF_TYPE_POINTER;
    element.region.pointer = address;
    message(name, &element.nameType, &element.name);
    nvtxMemRegionsNameBatch_t names;
    memset(&names, 0, sizeof names);
    names.extCompatID = NVTX_EXT_COMPATID_MEM;
    names.structSize = sizeof names;
    names.regionCount = 1;
    names.regionElementSize = sizeof element;
    names.regionElements = &element;
    if (element.nameType) nvtxMemRegionsName(NULL, &names);
    return IMPMEM__CODE_OK;
}

static int drop(impmem__driver *d, void *const *addresses, uint32_t n)
{
    (void)d;
    enum { AT_ONCE = 64 };
    nvtxMemRegionRef_t refs[AT_ONCE];
    for (uint32_t done = 0; done < n;) {
        uint32_t count = n - done < AT_ONCE ? n - done : AT_ONCE;
        memset(refs, 0, sizeof refs);
        for (uint32_t i = 0; i < count; i++) refs[i].pointer = addresses[done + i];
        nvtxMemRegionsUnregisterBatch_t batch;
        memset(&batch, 0, sizeof batch);
        batch.extCompatID = NVTX_EXT_COMPATID_MEM;
        batch.structSize = sizeof batch;
        batch.refType = NVTX_MEM_REGION_REF_TYPE_POINTER;
        batch.refCount = count;
        batch.refElementSize = sizeof refs[0];
        batch.refElements = refs;
        nvtxMemRegionsUnregister(NULL, &batch);
        done += count;
    }
    return IMPMEM__CODE_OK;
}

void impmem__nvtx_fill(impmem__driver *driver)
{
    driver->nvtx_heap = heap;
    driver->nvtx_heap_end = heap_end;
    driver->nvtx_take = take;
    driver->nvtx_drop = drop;
}
#else
void impmem__nvtx_fill(impmem__driver *driver)
{
    (void)driver;
}
#endif
