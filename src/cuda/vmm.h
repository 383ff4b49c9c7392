/* cuda/vmm.h - the virtual-memory backend's tables, shared by vmm_backend.c (regions) and vmm_chunks.c (chunks).
 *
 * A reservation is a row of chunks of one size. A chunk is mapped or not; its handle is kept while it is mapped, so
 * unmapping it frees nothing until the handle is released too. One mutex per backend guards the tables; driver calls are
 * made under it, since two commits of one backend must not both count the same kept chunk.
 */
#ifndef IMPMEM__CUDA_VMM_H
#define IMPMEM__CUDA_VMM_H

#include "cuda/internal.h"

#define IMPMEM__VMM_DESCRIPTORS 64u
#define IMPMEM__VMM_KEPT 256u

typedef struct impmem__vmm_region {
    struct impmem__vmm_region *next;
    char *base;
    uint64_t bytes;
    uint64_t object_bytes;
    uint64_t n_chunks;
    uint64_t *handle;      /* of chunk i; meaningful where mapped */
    unsigned char *mapped; /* 1: chunk i is mapped */
} impmem__vmm_region;

typedef struct impmem__vmm_descriptor {
    int descriptor;
    bool open;
    const char *base; /* of the region */
    uint64_t chunk;
} impmem__vmm_descriptor;

typedef struct impmem__vmm {
    impmem_cuda_device *device;
    impmem_line_id control_line;
    uint64_t chunk_bytes;
    uint64_t keep_bytes;
    bool exportable;
    bool verify_access;
    uint32_t n_devices; /* the device itself first */
    int devices[1 + IMPMEM_CUDA_MAX_PEERS];
    impmem__cap cap;
    bool has_lock;

    pthread_mutex_t lock; /* what follows */
    impmem__vmm_region *regions;
    uint64_t kept[IMPMEM__VMM_KEPT];
    uint32_t n_kept;
    uint32_t n_stuck; /* of the kept ones: the driver refused to release them */
    uint64_t n_lost;  /* refused, and no room to remember them */
    impmem__vmm_descriptor descriptor[IMPMEM__VMM_DESCRIPTORS];
    impmem_cuda_vmm_stats stats;
} impmem__vmm;

/* All with the lock held and the device current. Counts are in chunks. */

/* Backs chunks [first, first + n): all of them or none. Returns a code; *out_step says what was being done. */
int impmem__vmm_back(impmem__vmm *vmm, impmem__vmm_region *region, uint64_t first, uint64_t n, const char **out_step);
/* Takes chunks [first, first + n), all mapped, away: all or none. */
int impmem__vmm_unback(impmem__vmm *vmm, impmem__vmm_region *region, uint64_t first, uint64_t n);
/* Releases kept chunks until at most `keep_bytes` are left. */
void impmem__vmm_drop_kept(impmem__vmm *vmm, uint64_t keep_bytes);
/* Closes the descriptors of chunks [first, first + n) of the region. */
void impmem__vmm_close_descriptors(impmem__vmm *vmm, const impmem__vmm_region *region, uint64_t first, uint64_t n);

#endif
