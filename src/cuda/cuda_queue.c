/* A queue over a stream. Its counter is written by the stream itself into page-locked host memory, so "done?" is a load.
 *
 * Batches by the kernel read their pairs from a ring of page-locked memory: a pair may be overwritten once the kernel that
 * read it has run, which a second counter, written behind every batch, tells.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <string.h>
#include <time.h>

#include "backend/queue_internal.h"
#include "cuda/internal.h"
#include "impmem/control.h"

#define SUBJECT "CUDA queue"
#define DEFAULT_BATCH 4096u
#define PIECE_BYTES 65536u /* what one block of the copy kernel moves; as in kernels/blocks.cu */
#define THREADS 256u

/* Page-locked, device-visible. Each counter on a line of its own; the pairs follow. */
typedef struct shared_part {
    uint64_t done; /* tickets */
    uint64_t pad_a[7];
    uint64_t sent; /* pairs that kernels have read */
    uint64_t pad_b[7];
    impmem_block_copy pair[];
} shared_part;

typedef struct cuda_queue {
    impmem_cuda_device *device;
    impmem_line_id control_line;
    uint64_t bytes; /* of this object with its tables */
    void *stream;
    bool own_stream;
    impmem_cuda_copy_way way;
    uint32_t batch;
    impmem_backend *backend;
    impmem_region *region;
    shared_part *shared;  /* as the host sees it */
    char *shared_address; /* as the device sees it */
    uint64_t pairs;       /* ever handed to kernels; the ring's next place is pairs % batch */
    void *module;
    void *kernel;
    void **to; /* for batched calls */
    const void **from;
    size_t *each;
} cuda_queue;

static uint64_t table_bytes(uint32_t batch)
{
    return (uint64_t)batch * (2 * sizeof(void *) + sizeof(size_t));
}

/* The object with its tables for a default batch, the front object, and what its pinned region takes. */
uint64_t impmem__cuda_queue_bytes(void)
{
    uint64_t region = 0, backend = 0;
    impmem_status st = impmem_control_region_bytes(0, IMPMEM_GIB, IMPMEM__CUDA_PINNED_GRANULE, 0, &region);
    st = impmem_first_error(st, impmem_control_backend_bytes(&backend));
    (void)st; /* neither can fail for these arguments */
    return sizeof(cuda_queue) + table_bytes(DEFAULT_BATCH) + sizeof(impmem_queue) + region + backend;
}

impmem_status impmem_cuda_queue_pinned_bytes(uint32_t batch, uint64_t *out_bytes)
{
    if (!out_bytes) return IMPMEM_ERR_INVALID_ARGUMENT;
    uint64_t bytes = sizeof(shared_part) + (uint64_t)(batch ? batch : DEFAULT_BATCH) * sizeof(impmem_block_copy);
    return impmem_align_up(out_bytes, bytes, IMPMEM__CUDA_PINNED_GRANULE);
}

static impmem_status failed(cuda_queue *q, impmem_error *why, int code, const char *what)
{
    impmem__swallow(q->device);
    return impmem__code_error(why, code, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, what);
}

/* ---- work ------------------------------------------------------------------------------------------------------------ */

static impmem_status queue_fill(void *self, void *to, uint8_t value, uint64_t bytes, impmem_error *why)
{
    cuda_queue *q = self;
    int code = impmem__enter_device(q->device);
    if (code) return failed(q, why, code, "making the device's context current");
    code = impmem__ask(&q->device->driver, fill_async, to, value, bytes, q->stream);
    impmem_status st = code ? failed(q, why, code, "putting a fill into a stream") : IMPMEM_OK;
    impmem__leave_device(q->device);
    return st;
}

static impmem_status queue_copy(void *self, void *to, const void *from, uint64_t bytes, impmem_error *why)
{
    cuda_queue *q = self;
    int code = impmem__enter_device(q->device);
    if (code) return failed(q, why, code, "making the device's context current");
    code = impmem__ask(&q->device->driver, copy_async, to, from, bytes, q->stream);
    impmem_status st = code ? failed(q, why, code, "putting a copy into a stream") : IMPMEM_OK;
    impmem__leave_device(q->device);
    return st;
}

static uint64_t read_counter(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

/* Waits until *counter >= value. A stream that has ended without reaching it, or has failed, will not reach it. */
static int wait_for(cuda_queue *q, const uint64_t *counter, uint64_t value)
{
    enum { SPINS = 4096, ASK_EVERY = 64 };
    for (uint64_t turn = 0; read_counter(counter) < value; turn++) {
        if (turn % ASK_EVERY == ASK_EVERY - 1) {
            int code = impmem__ask(&q->device->driver, stream_query, q->stream);
            if (code != IMPMEM__CODE_OK && code != IMPMEM__CODE_NOT_READY) return code;
            if (code == IMPMEM__CODE_NOT_READY) impmem__swallow(q->device);
            else if (read_counter(counter) < value) return IMPMEM__CODE_INVALID_VALUE;
        }
        if (turn > SPINS) {
            const struct timespec t = {0, 20000};
            (void)nanosleep(&t, NULL);
        } else {
            (void)sched_yield();
        }
    }
    return IMPMEM__CODE_OK;
}

/* Up to `batch` pairs, as they lie in the ring without wrapping. */
static int copy_by_kernel(cuda_queue *q, const impmem_block_copy *copies, uint32_t n, uint64_t bytes)
{
    impmem__driver *d = &q->device->driver;
    uint64_t pieces = (bytes + PIECE_BYTES - 1) / PIECE_BYTES;
    enum { MAX_GRID = 0x7fffffff };
    for (uint32_t sent = 0; sent < n;) {
        uint32_t place = (uint32_t)(q->pairs % q->batch);
        uint64_t part = n - sent;
        if (part > q->batch - place) part = q->batch - place;
        if (part > MAX_GRID / pieces) part = MAX_GRID / pieces;
        if (part == 0) return IMPMEM__CODE_INVALID_VALUE; /* a block of more than 128 TiB */
        /* The places are free when all but the newest batch - part pairs have been read. */
        uint64_t after = q->pairs + part;
        int code = after > q->batch ? wait_for(q, &q->shared->sent, after - q->batch) : IMPMEM__CODE_OK;
        if (code) return code;
        memcpy(&q->shared->pair[place], copies + sent, (size_t)part * sizeof *copies);
        void *pairs = q->shared_address + offsetof(shared_part, pair) + (size_t)place * sizeof *copies;
        void *parameters[] = {&pairs, &bytes};
        code = impmem__ask(d, launch, q->kernel, (uint32_t)(part * pieces), THREADS, q->stream, parameters);
        if (code) return code;
        q->pairs = after;
        code = impmem__ask(d, stream_write, q->stream, q->shared_address + offsetof(shared_part, sent), after);
        if (code) return code;
        sent += (uint32_t)part;
    }
    return IMPMEM__CODE_OK;
}

static int copy_by_batch(cuda_queue *q, const impmem_block_copy *copies, uint32_t n, uint64_t bytes)
{
    for (uint32_t sent = 0; sent < n;) {
        uint32_t part = n - sent < q->batch ? n - sent : q->batch;
        for (uint32_t i = 0; i < part; i++) {
            q->to[i] = copies[sent + i].to;
            q->from[i] = copies[sent + i].from;
            q->each[i] = (size_t)bytes;
        }
        int code = impmem__ask(&q->device->driver, copy_batch, q->to, q->from, q->each, part, q->stream);
        if (code) return code;
        sent += part;
    }
    return IMPMEM__CODE_OK;
}

static int copy_one_by_one(cuda_queue *q, const impmem_block_copy *copies, uint32_t n, uint64_t bytes)
{
    int code = IMPMEM__CODE_OK;
    for (uint32_t i = 0; i < n && !code; i++)
        code = impmem__ask(&q->device->driver, copy_async, copies[i].to, copies[i].from, bytes, q->stream);
    return code;
}

static impmem_status queue_copy_blocks(void *self, const impmem_block_copy *copies, uint32_t n, uint64_t bytes,
                                       impmem_error *why)
{
    cuda_queue *q = self;
    int code = impmem__enter_device(q->device);
    if (code) return failed(q, why, code, "making the device's context current");
    if (q->way == IMPMEM_CUDA_COPY_KERNEL) code = copy_by_kernel(q, copies, n, bytes);
    else if (q->way == IMPMEM_CUDA_COPY_BATCH) code = copy_by_batch(q, copies, n, bytes);
    else code = copy_one_by_one(q, copies, n, bytes);
    impmem_status st = code ? failed(q, why, code, "putting a batch of copies into a stream") : IMPMEM_OK;
    impmem__leave_device(q->device);
    return st;
}

static impmem_status queue_signal(void *self, uint64_t ticket, impmem_error *why)
{
    cuda_queue *q = self;
    int code = impmem__enter_device(q->device);
    if (code) return failed(q, why, code, "making the device's context current");
    code = impmem__ask(&q->device->driver, stream_write, q->stream, q->shared_address + offsetof(shared_part, done),
                       ticket);
    impmem_status st = code ? failed(q, why, code, "putting a signal into a stream") : IMPMEM_OK;
    impmem__leave_device(q->device);
    return st;
}

/* The other queue's counter is host memory that every context can reach at its own address. */
static impmem_status queue_after(void *self, const uint64_t *counter, uint64_t ticket, impmem_error *why)
{
    cuda_queue *q = self;
    void *there = NULL;
    int code = impmem__enter_device(q->device);
    if (code) return failed(q, why, code, "making the device's context current");
    code = impmem__ask(&q->device->driver, host_address, &there, (void *)(uintptr_t)counter);
    if (!code) code = impmem__ask(&q->device->driver, stream_wait_value, q->stream, there, ticket);
    impmem_status st = code ? failed(q, why, code, "making a stream wait for another") : IMPMEM_OK;
    impmem__leave_device(q->device);
    return st;
}

static impmem_status queue_wait(void *self, uint64_t ticket, impmem_error *why)
{
    cuda_queue *q = self;
    int code = impmem__enter_device(q->device);
    if (code) return failed(q, why, code, "making the device's context current");
    code = wait_for(q, &q->shared->done, ticket);
    impmem_status st = code ? failed(q, why, code, "waiting for a stream") : IMPMEM_OK;
    impmem__leave_device(q->device);
    return st;
}

/* ---- life ------------------------------------------------------------------------------------------------------------ */

static void queue_destroy(void *self)
{
    cuda_queue *q = self;
    impmem_cuda_device *device = q->device;
    impmem__driver *d = &device->driver;
    int ignored = 0;
    if (impmem__enter_device(device) == IMPMEM__CODE_OK) {
        if (q->stream) ignored |= impmem__ask(d, stream_wait_host, q->stream);
        if (q->module) ignored |= impmem__ask(d, module_unload, q->module);
        if (q->stream && q->own_stream) ignored |= impmem__ask(d, stream_destroy, q->stream);
        if (ignored) impmem__swallow(device);
        impmem__leave_device(device);
    }
    impmem_status st = impmem_backend_release(&q->region, NULL);
    st = impmem_first_error(st, impmem_backend_destroy(q->backend, NULL));
    (void)st; /* nobody is left to tell; what stays is on the ledger */
    impmem__cuda_give_host(device->ledger, q->control_line, q, q->bytes);
    atomic_fetch_sub_explicit(&device->users, 1, memory_order_release);
}

static impmem_status open_shared(cuda_queue *q, const impmem_cuda_queue_options *o, impmem_error *why)
{
    impmem_cuda_pinned_options p = IMPMEM_CUDA_PINNED_OPTIONS_INIT;
    p.mapped = true;
    p.control_line = o->control_line;
    impmem_status st = impmem_cuda_pinned_backend_create(q->device, &p, &q->backend, why);
    if (st) return st;
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.tag = IMPMEM_TAG_HOST_PINNED;
    info.line = o->pinned_line ? o->pinned_line : IMPMEM_NO_LINE;
    st = impmem_cuda_queue_pinned_bytes(q->batch, &info.bytes);
    if (!st) st = impmem_backend_acquire(q->backend, &info, &q->region, why);
    if (st) return st;
    q->shared = impmem_region_base(q->region);
    memset(q->shared, 0, sizeof *q->shared);
    void *address = NULL;
    st = impmem_cuda_device_address(q->device, q->shared, &address, why);
    if (!st) q->shared_address = address;
    return st;
}

/* The kernel, unless another way is asked for; AUTO goes on to the next way when one can't be had. With the device
 * current. */
static impmem_status choose_way(cuda_queue *q, impmem_cuda_copy_way asked, impmem_error *why)
{
    impmem__driver *d = &q->device->driver;
    int code = IMPMEM__CODE_OK;
    q->way = IMPMEM_CUDA_COPY_SINGLE;
    if (asked == IMPMEM_CUDA_COPY_AUTO || asked == IMPMEM_CUDA_COPY_KERNEL) {
        code = impmem__ask(d, module_load, &q->module, impmem__kernels);
        if (!code) code = impmem__ask(d, module_function, &q->kernel, q->module, IMPMEM__KERNEL_COPY);
        if (!code) q->way = IMPMEM_CUDA_COPY_KERNEL;
        else if (asked == IMPMEM_CUDA_COPY_KERNEL)
            return impmem__error_set(why, IMPMEM_ERR_UNSUPPORTED, SUBJECT, "the copy kernel can't be loaded (code %d)",
                                     code);
    }
    if (q->way == IMPMEM_CUDA_COPY_SINGLE && asked != IMPMEM_CUDA_COPY_SINGLE) {
        if (d->copy_batch) q->way = IMPMEM_CUDA_COPY_BATCH;
        else if (asked == IMPMEM_CUDA_COPY_BATCH)
            return impmem__error_set(why, IMPMEM_ERR_UNSUPPORTED, SUBJECT, "this runtime has no batched copies");
    }
    return IMPMEM_OK;
}

static impmem_status open_stream(cuda_queue *q, const impmem_cuda_queue_options *o, impmem_error *why)
{
    if (!q->device->driver.stream_write || !q->device->driver.stream_wait_value)
        return impmem__error_set(why, IMPMEM_ERR_UNSUPPORTED, SUBJECT, "the driver can't write values from a stream");
    int code = impmem__enter_device(q->device);
    if (code) return failed(q, why, code, "making the device's context current");
    impmem_status st = IMPMEM_OK;
    q->stream = o->stream;
    if (!q->stream) {
        code = impmem__ask(&q->device->driver, stream_create, &q->stream);
        if (code) st = failed(q, why, code, "creating a stream");
        else q->own_stream = true;
    }
    if (!st) st = choose_way(q, o->copy, why);
    impmem__leave_device(q->device);
    return st;
}

impmem_status impmem_cuda_queue_create(impmem_cuda_device *device, const impmem_cuda_queue_options *options,
                                       impmem_queue **out, impmem_error *why)
{
    const impmem_cuda_queue_options defaults = IMPMEM_CUDA_QUEUE_OPTIONS_INIT;
    if (!options) options = &defaults;
    if (!device || !out || (unsigned)options->copy > IMPMEM_CUDA_COPY_SINGLE)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT,
                                 "no device, no such way of copying, or no place");
    impmem_status st = impmem__options_check(options->size, options->version, sizeof *options, 1);
    if (st)
        return impmem__error_set(why, st, "queue options", "size %u or version %u is not one of this library",
                                 options->size, options->version);
    uint32_t batch = options->batch ? options->batch : DEFAULT_BATCH;
    uint64_t bytes = sizeof(cuda_queue) + table_bytes(batch);
    void *memory = NULL;
    st = impmem__cuda_take_host(device->ledger, options->control_line, bytes, &memory, why);
    if (st) return st;
    cuda_queue *q = memory;
    q->device = device;
    q->control_line = options->control_line;
    q->bytes = bytes;
    q->batch = batch;
    q->to = (void **)(void *)(q + 1);
    q->from = (const void **)(void *)(q->to + batch);
    q->each = (size_t *)(void *)(q->from + batch);
    atomic_fetch_add_explicit(&device->users, 1, memory_order_relaxed);
    st = open_shared(q, options, why);
    if (!st) st = open_stream(q, options, why);
    const impmem_queue_ops ops = {sizeof ops,   1,           queue_fill, queue_copy,   queue_copy_blocks,
                                  queue_signal, queue_after, queue_wait, queue_destroy};
    if (!st) st = impmem_queue_create(device->ledger, &ops, q, &q->shared->done, options->control_line, out, why);
    if (st) queue_destroy(q);
    return st;
}

static const cuda_queue *cuda_of(const impmem_queue *queue)
{
    return queue && queue->ops.signal == queue_signal ? queue->self : NULL;
}

impmem_cuda_copy_way impmem_cuda_queue_copy_way(const impmem_queue *queue)
{
    const cuda_queue *q = cuda_of(queue);
    return q ? q->way : IMPMEM_CUDA_COPY_AUTO;
}

void *impmem_cuda_queue_stream(const impmem_queue *queue)
{
    const cuda_queue *q = cuda_of(queue);
    return q ? q->stream : NULL;
}
