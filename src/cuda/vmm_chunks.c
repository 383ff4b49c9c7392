/* Chunks of physical memory under reserved addresses: create, map, grant; unmap, release. */
#include "cuda/vmm.h"

static char *at(const impmem__vmm *vmm, const impmem__vmm_region *region, uint64_t chunk)
{
    return region->base + chunk * vmm->chunk_bytes;
}

/* ---- handles --------------------------------------------------------------------------------------------------------- */

static void settle_kept(impmem__vmm *vmm)
{
    vmm->stats.kept_bytes = (uint64_t)(vmm->n_kept - vmm->n_stuck) * vmm->chunk_bytes;
    vmm->stats.stuck_bytes = (vmm->n_stuck + vmm->n_lost) * vmm->chunk_bytes;
}

static int get_chunk(impmem__vmm *vmm, uint64_t *out)
{
    if (vmm->n_kept) {
        *out = vmm->kept[--vmm->n_kept];
        if (vmm->n_stuck > vmm->n_kept) vmm->n_stuck = vmm->n_kept;
        vmm->stats.chunks_reused++;
        settle_kept(vmm);
        return IMPMEM__CODE_OK;
    }
    const impmem__chunk_place place = {vmm->device->ordinal, -1, vmm->exportable};
    int code = impmem__ask(&vmm->device->driver, chunk_create, out, vmm->chunk_bytes, &place);
    if (!code) vmm->stats.chunks_created++;
    return code;
}

void impmem__vmm_drop_kept(impmem__vmm *vmm, uint64_t keep_bytes)
{
    uint32_t stuck = 0;
    while (vmm->n_kept > stuck && (uint64_t)vmm->n_kept * vmm->chunk_bytes > keep_bytes) {
        uint64_t chunk = vmm->kept[--vmm->n_kept];
        if (impmem__ask(&vmm->device->driver, chunk_release, chunk) == IMPMEM__CODE_OK) continue;
        /* It can't be taken back now. Kept at the bottom: a later commit may use it, a later drop tries again. */
        vmm->kept[vmm->n_kept] = vmm->kept[stuck];
        vmm->kept[stuck++] = chunk;
        vmm->n_kept++;
    }
    vmm->n_stuck = stuck;
    settle_kept(vmm);
}

/* An unmapped chunk goes to the kept ones, then those go down to what is to be kept. */
static void put_chunk(impmem__vmm *vmm, uint64_t chunk)
{
    if (vmm->n_kept == IMPMEM__VMM_KEPT) {
        /* A refusal with a full table leaves nowhere to remember the chunk: it is lost until the process ends, and
         * counted. */
        if (impmem__ask(&vmm->device->driver, chunk_release, chunk)) vmm->n_lost++;
    } else {
        vmm->kept[vmm->n_kept++] = chunk;
    }
    settle_kept(vmm);
}

/* ---- mapping --------------------------------------------------------------------------------------------------------- */

static int verify_access(impmem__vmm *vmm, const impmem__vmm_region *region, uint64_t first, uint64_t n)
{
    enum { READ_AND_WRITE = 3 };
    for (uint64_t i = first; i < first + n; i++) {
        for (uint32_t k = 0; k < vmm->n_devices; k++) {
            uint64_t flags = 0;
            int code = impmem__ask(&vmm->device->driver, get_access, &flags, at(vmm, region, i), vmm->devices[k]);
            if (code) return code;
            if (flags != READ_AND_WRITE) return IMPMEM__CODE_NOT_PERMITTED;
        }
    }
    return IMPMEM__CODE_OK;
}

/* Puts one chunk under addresses. */
static int map_one(impmem__vmm *vmm, impmem__vmm_region *region, uint64_t chunk, const char **out_step)
{
    *out_step = "creating a chunk of device memory";
    int code = get_chunk(vmm, &region->handle[chunk]);
    if (code) return code;
    *out_step = "mapping a chunk of device memory";
    code = impmem__ask(&vmm->device->driver, chunk_map, at(vmm, region, chunk), vmm->chunk_bytes, region->handle[chunk]);
    if (code) put_chunk(vmm, region->handle[chunk]);
    else region->mapped[chunk] = 1;
    return code;
}

/* Unmaps one by one what a failed commit had mapped. What can't be unmapped stays in the table as mapped, and is found
 * there by the next commit of the place or by the release of the region. */
static void undo(impmem__vmm *vmm, impmem__vmm_region *region, uint64_t first, uint64_t end)
{
    for (uint64_t i = end; i > first; i--) {
        uint64_t chunk = i - 1;
        if (impmem__ask(&vmm->device->driver, chunk_unmap, at(vmm, region, chunk), vmm->chunk_bytes)) continue;
        region->mapped[chunk] = 0;
        put_chunk(vmm, region->handle[chunk]);
    }
}

int impmem__vmm_back(impmem__vmm *vmm, impmem__vmm_region *region, uint64_t first, uint64_t n, const char **out_step)
{
    int code = IMPMEM__CODE_OK;
    uint64_t i = first;
    for (; i < first + n; i++) {
        if (region->mapped[i]) continue; /* left by an undo that could not finish */
        code = map_one(vmm, region, i, out_step);
        if (code) break;
    }
    if (!code) {
        *out_step = "granting access to device memory";
        code = impmem__ask(&vmm->device->driver, set_access, at(vmm, region, first), n * vmm->chunk_bytes, vmm->devices,
                           vmm->n_devices, -1);
        if (!code && vmm->verify_access) {
            *out_step = "reading back the access to device memory";
            code = verify_access(vmm, region, first, n);
        }
    }
    if (code) {
        undo(vmm, region, first, i);
        impmem__vmm_drop_kept(vmm, vmm->keep_bytes);
        return code;
    }
    vmm->stats.held_bytes += n * vmm->chunk_bytes;
    return code;
}

int impmem__vmm_unback(impmem__vmm *vmm, impmem__vmm_region *region, uint64_t first, uint64_t n)
{
    /* One call for all: it unmaps every chunk or none. */
    int code = impmem__ask(&vmm->device->driver, chunk_unmap, at(vmm, region, first), n * vmm->chunk_bytes);
    if (code) return code;
    impmem__vmm_close_descriptors(vmm, region, first, n);
    for (uint64_t i = first; i < first + n; i++) {
        region->mapped[i] = 0;
        put_chunk(vmm, region->handle[i]);
        if ((uint64_t)vmm->n_kept * vmm->chunk_bytes > vmm->keep_bytes) impmem__vmm_drop_kept(vmm, vmm->keep_bytes);
    }
    vmm->stats.held_bytes -= n * vmm->chunk_bytes;
    return code;
}

void impmem__vmm_close_descriptors(impmem__vmm *vmm, const impmem__vmm_region *region, uint64_t first, uint64_t n)
{
    for (uint32_t i = 0; i < IMPMEM__VMM_DESCRIPTORS; i++) {
        impmem__vmm_descriptor *d = &vmm->descriptor[i];
        if (!d->open || d->base != region->base || d->chunk < first || d->chunk >= first + n) continue;
        int ignored = impmem__ask(&vmm->device->driver, descriptor_close, d->descriptor);
        (void)ignored;
        d->open = false;
        vmm->stats.live_descriptors--;
    }
}
