/* Trackers: which one a backend has, and the one for AddressSanitizer. */
#include "impmem/track.h"

#include <string.h>

#include "backend/internal.h"

impmem_status impmem_backend_track(impmem_backend *backend, const impmem_track *track)
{
    if (!backend || !track || (track->size == 0 && track->version == 0)) return IMPMEM_ERR_INVALID_ARGUMENT;
    impmem_status st = impmem__options_check(track->size, track->version, sizeof *track, 1);
    if (st) return st;
    impmem__lock(backend->ledger);
    if (backend->live_regions) st = IMPMEM_ERR_BUSY;
    else if (backend->track.size) st = IMPMEM_ERR_STATE;
    else backend->track = *track;
    impmem__unlock(backend->ledger);
    return st;
}

#if defined(__SANITIZE_ADDRESS__)
#define HAVE_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAVE_ADDRESS_SANITIZER 1
#endif
#endif

#ifdef HAVE_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>

/* `self` is not used: the poison map is the state. Regions whose tails were never committed are poisoned too, which costs
 * shadow memory and no memory of theirs. */
static void asan_open(void *self, uint64_t region, void *base, uint64_t bytes, const char *name)
{
    (void)self;
    (void)region;
    (void)name;
    __asan_poison_memory_region(base, (size_t)bytes);
}

static void asan_take(void *self, uint64_t region, void *address, uint64_t bytes, const char *name)
{
    (void)self;
    (void)region;
    (void)name;
    __asan_unpoison_memory_region(address, (size_t)bytes);
}

static void asan_close(void *self, uint64_t region, void *base, uint64_t bytes)
{
    (void)self;
    (void)region;
    __asan_unpoison_memory_region(base, (size_t)bytes);
}

static void asan_drop(void *self, uint64_t region, void *address, uint64_t bytes)
{
    (void)self;
    (void)region;
    __asan_poison_memory_region(address, (size_t)bytes);
}
#endif

impmem_status impmem_track_address_sanitizer(impmem_track *out)
{
    if (!out) return IMPMEM_ERR_INVALID_ARGUMENT;
#ifdef HAVE_ADDRESS_SANITIZER
    const impmem_track track = {sizeof track, 1, asan_open, asan_close, asan_take, asan_drop, asan_drop, NULL, NULL};
    *out = track;
    return IMPMEM_OK;
#else
    return IMPMEM_ERR_UNSUPPORTED;
#endif
}
