/* The tracker that tells compute-sanitizer: a heap per tier, a region per take.
 *
 * The tool drops regions by their address and not by range, so the addresses of what is alive are kept here, per heap and
 * in order of taking; a rewind or a reset looks from the newest back. A debugging aid: a drop of an old block looks through
 * all of them.
 */
#include <string.h>

#include "cuda/internal.h"

#define MAX_HEAPS 64u

typedef struct heap_entry {
    uint64_t region; /* 0 = free */
    void *handle;
} heap_entry;

typedef struct live_take {
    uint64_t region;
    void *address;
} live_take;

typedef struct nvtx_tracker {
    impmem_cuda_device *device;
    impmem_line_id control_line;
    uint64_t bytes; /* of this object with its table */
    uint32_t capacity;
    bool has_lock;
    pthread_mutex_t lock; /* tiers of several owner threads may share a backend */
    bool told_of_overflow;
    heap_entry heap[MAX_HEAPS];
    uint32_t n;
    live_take live[];
} nvtx_tracker;

static heap_entry *find_heap(nvtx_tracker *t, uint64_t region)
{
    for (uint32_t i = 0; i < MAX_HEAPS; i++) {
        if (t->heap[i].region == region) return &t->heap[i];
    }
    return NULL;
}

static void open_heap(void *self, uint64_t region, void *base, uint64_t bytes, const char *name)
{
    nvtx_tracker *t = self;
    (void)pthread_mutex_lock(&t->lock);
    heap_entry *h = find_heap(t, 0);
    void *handle = NULL;
    /* Refused where no tool listens, or where the tool does not take this kind of memory: then there is nothing to tell. */
    if (h && impmem__ask(&t->device->driver, nvtx_heap, &handle, base, bytes, name) == IMPMEM__CODE_OK) {
        h->region = region;
        h->handle = handle;
    }
    (void)pthread_mutex_unlock(&t->lock);
}

/* Takes the takes of `region` in [address, address + bytes) out of the table, telling the tool. With the lock held. */
static void forget(nvtx_tracker *t, uint64_t region, void *address, uint64_t bytes)
{
    enum { AT_ONCE = 64 };
    void *gone[AT_ONCE];
    uint32_t n_gone = 0, kept = 0;
    uintptr_t begin = (uintptr_t)address;
    for (uint32_t i = 0; i < t->n; i++) {
        uintptr_t at = (uintptr_t)t->live[i].address;
        if (t->live[i].region != region || at < begin || at - begin >= bytes) {
            t->live[kept++] = t->live[i];
            continue;
        }
        gone[n_gone++] = t->live[i].address;
        if (n_gone < AT_ONCE) continue;
        int ignored = impmem__ask(&t->device->driver, nvtx_drop, gone, n_gone);
        (void)ignored;
        n_gone = 0;
    }
    t->n = kept;
    if (!n_gone) return;
    int ignored = impmem__ask(&t->device->driver, nvtx_drop, gone, n_gone);
    (void)ignored;
}

static void close_heap(void *self, uint64_t region, void *base, uint64_t bytes)
{
    nvtx_tracker *t = self;
    (void)pthread_mutex_lock(&t->lock);
    heap_entry *h = find_heap(t, region);
    if (h) {
        forget(t, region, base, bytes);
        int ignored = impmem__ask(&t->device->driver, nvtx_heap_end, h->handle);
        (void)ignored;
        h->region = 0;
    }
    (void)pthread_mutex_unlock(&t->lock);
}

static void take(void *self, uint64_t region, void *address, uint64_t bytes, const char *name)
{
    nvtx_tracker *t = self;
    bool overflow = false;
    (void)pthread_mutex_lock(&t->lock);
    heap_entry *h = find_heap(t, region);
    if (h && t->n < t->capacity) {
        int code = impmem__ask(&t->device->driver, nvtx_take, h->handle, address, bytes, name);
        if (!code) t->live[t->n++] = (live_take){region, address};
    } else if (h && !t->told_of_overflow) {
        t->told_of_overflow = true;
        overflow = true;
    }
    (void)pthread_mutex_unlock(&t->lock);
    if (overflow)
        impmem__ledger_log(t->device->ledger,
                           "annotations: more than %u takes are alive; further ones look like overruns to the tool",
                           t->capacity);
}

static void drop(void *self, uint64_t region, void *address, uint64_t bytes)
{
    nvtx_tracker *t = self;
    (void)pthread_mutex_lock(&t->lock);
    if (find_heap(t, region)) forget(t, region, address, bytes);
    (void)pthread_mutex_unlock(&t->lock);
}

static void destroy(void *self)
{
    nvtx_tracker *t = self;
    impmem_cuda_device *device = t->device;
    if (t->has_lock) (void)pthread_mutex_destroy(&t->lock);
    impmem__cuda_give_host(device->ledger, t->control_line, t, t->bytes);
    atomic_fetch_sub_explicit(&device->users, 1, memory_order_release);
}

impmem_status impmem_cuda_track_nvtx(impmem_cuda_device *device, uint32_t max_takes, impmem_line_id control_line,
                                     impmem_track *out, impmem_error *why)
{
    if (!device || !out || !max_takes)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "annotations",
                                 "no device, 0 takes or no place for the result");
    const impmem__driver *d = &device->driver;
    if (!d->nvtx_heap || !d->nvtx_heap_end || !d->nvtx_take || !d->nvtx_drop)
        return impmem__error_set(why, IMPMEM_ERR_UNSUPPORTED, "annotations", "this build has no memory annotations");
    uint64_t bytes = 0;
    void *memory = NULL;
    impmem_status st = impmem_mul(&bytes, max_takes, sizeof(live_take));
    if (!st) st = impmem_add(&bytes, bytes, sizeof(nvtx_tracker));
    if (!st) st = impmem__cuda_take_host(device->ledger, control_line, bytes, &memory, why);
    if (st) return st;
    nvtx_tracker *t = memory;
    t->device = device;
    t->control_line = control_line;
    t->bytes = bytes;
    t->capacity = max_takes;
    atomic_fetch_add_explicit(&device->users, 1, memory_order_relaxed);
    t->has_lock = pthread_mutex_init(&t->lock, NULL) == 0;
    if (!t->has_lock) {
        destroy(t);
        return impmem__error_set(why, IMPMEM_ERR_OUT_OF_HOST_MEMORY, "annotations", "no mutex for the tracker");
    }
    const impmem_track track = {sizeof track, 1, open_heap, close_heap, take, drop, drop, destroy, t};
    *out = track;
    return IMPMEM_OK;
}
