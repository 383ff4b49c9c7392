/* impmem/track.h - telling a memory checker what is inside a region. Floor 1, implemented by src/backend/track*.c.
 *
 *   impmem_track tracker;
 *   if (impmem_cuda_track_nvtx(device, &tracker, &why) == IMPMEM_OK)     or impmem_track_address_sanitizer(&tracker)
 *       impmem_backend_track(backend, &tracker);
 *   ... from here on every arena take, scratch take and block of this backend is an allocation to the checker ...
 *
 * To a checker a region is one big allocation, and running over the end of a take inside of it is no error. A tracker is
 * told of every take and drop, so the checker can tell the parts apart. For debugging: without a tracker the hot paths test
 * one pointer.
 */
#ifndef IMPMEM_TRACK_H
#define IMPMEM_TRACK_H

#include <stdint.h>

#include "impmem/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Called by the owner thread of the tier allocator over the region, and from impmem_backend_track's backend only. `name` is
 * the region's tag. Functions may be NULL. None may fail: a tracker that can't follow stops telling. */
typedef struct impmem_track {
    uint32_t size;
    uint32_t version; /* 1 */
    void (*open)(void *self, uint64_t region, void *base, uint64_t bytes,
                 const char *name); /* an allocator opened over it */
    void (*close)(void *self, uint64_t region, void *base, uint64_t bytes);
    void (*take)(void *self, uint64_t region, void *address, uint64_t bytes, const char *name);
    void (*drop)(void *self, uint64_t region, void *address, uint64_t bytes);   /* one take goes */
    void (*rewind)(void *self, uint64_t region, void *address, uint64_t bytes); /* every take in the range goes */
    void (*destroy)(void *self);                                                /* with the backend */
    void *self;
} impmem_track;
#define IMPMEM_TRACK_INIT                                                                                                  \
    {                                                                                                                      \
        sizeof(impmem_track), 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL                                                  \
    }

/* Copies `track`, which the backend destroys. BUSY while the backend has live regions; STATE when it has a tracker already;
 * VERSION, INVALID_ARGUMENT. */
IMPMEM_NODISCARD impmem_status impmem_backend_track(impmem_backend *backend, const impmem_track *track);

/* Poisons what is not taken, for backends whose memory the CPU can reach. UNSUPPORTED in a build without
 * AddressSanitizer. */
IMPMEM_NODISCARD impmem_status impmem_track_address_sanitizer(impmem_track *out);

#ifdef __cplusplus
}
#endif
#endif
