/* impmem/queue.h - ordered device work: fill, batched copy, signal, wait. Floor 1, implemented by src/backend/queue*.c.
 *
 *   impmem_queue *queue;
 *   impmem_fake_queue_create(ledger, NULL, &queue, &why);           or impmem_cuda_queue_create of impmem/cuda.h
 *   uint64_t ticket;
 *   impmem_queue_copy_blocks(queue, pairs, n, block_bytes);
 *   impmem_queue_signal(queue, &ticket);
 *   ... later, once a step: if (impmem_queue_done(queue, ticket)) the blocks may be reused ...
 *   impmem_queue_destroy(queue);
 *
 * What is put in runs in that order, later. A ticket is done when everything that was put in before it has run: the queue's
 * counter, a 64-bit number in host memory that the device writes, has reached it. So asking "done?" is one load.
 *
 * One thread puts work in; impmem_queue_done and impmem_queue_completed may be called from any.
 */
#ifndef IMPMEM_QUEUE_H
#define IMPMEM_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "impmem/ledger.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct impmem_queue impmem_queue;

/* One copy of a batch. The ranges of a batch may not overlap each other. */
typedef struct impmem_block_copy {
    const void *from;
    void *to;
} impmem_block_copy;

/* What an implementation fills. Arguments reach it checked. Called by one thread at a time. */
typedef struct impmem_queue_ops {
    uint32_t size;
    uint32_t version; /* 1 */
    impmem_status (*fill)(void *self, void *to, uint8_t value, uint64_t bytes, impmem_error *why);
    impmem_status (*copy)(void *self, void *to, const void *from, uint64_t bytes, impmem_error *why);
    impmem_status (*copy_blocks)(void *self, const impmem_block_copy *copies, uint32_t n, uint64_t bytes,
                                 impmem_error *why);
    /* The counter becomes `ticket` when everything before has run, and all of it is visible then. */
    impmem_status (*signal)(void *self, uint64_t ticket, impmem_error *why);
    /* What follows runs only once *counter >= ticket; `counter` belongs to a queue of the same kind. */
    impmem_status (*after)(void *self, const uint64_t *counter, uint64_t ticket, impmem_error *why);
    /* Returns when the counter has reached `ticket`. */
    impmem_status (*wait)(void *self, uint64_t ticket, impmem_error *why);
    /* Returns when all work has run, and frees `self`. */
    void (*destroy)(void *self);
} impmem_queue_ops;

/* For authors of a queue. Copies `ops`; `counter` is what the device writes, 0 at first, and lives until ops->destroy. The
 * object is host control memory of `control_line` (0 = IMPMEM_LINE_HOST_CONTROL). On failure `self` stays the caller's.
 * INVALID_ARGUMENT (a missing function), VERSION, and what impmem_ledger_host_allocate returns. */
IMPMEM_NODISCARD impmem_status impmem_queue_create(impmem_ledger *ledger, const impmem_queue_ops *ops, void *self,
                                                   const uint64_t *counter, impmem_line_id control_line, impmem_queue **out,
                                                   impmem_error *why);
/* Waits for all work. NULL is fine. */
void impmem_queue_destroy(impmem_queue *queue);

/* Each puts one piece of work in. INVALID_ARGUMENT: NULL where bytes > 0. 0 bytes or 0 copies are IMPMEM_OK and do nothing.
 * Otherwise what the kind of queue returns: EXHAUSTED, DRIVER. On failure nothing was put in. */
IMPMEM_NODISCARD impmem_status impmem_queue_fill(impmem_queue *queue, void *to, uint8_t value, uint64_t bytes,
                                                 impmem_error *why);
IMPMEM_NODISCARD impmem_status impmem_queue_copy(impmem_queue *queue, void *to, const void *from, uint64_t bytes,
                                                 impmem_error *why);
/* `n` copies of `bytes` each, as one piece of work. `copies` is read before the call returns. */
IMPMEM_NODISCARD impmem_status impmem_queue_copy_blocks(impmem_queue *queue, const impmem_block_copy *copies, uint32_t n,
                                                        uint64_t bytes, impmem_error *why);
/* *out_ticket: 1, 2, 3 ... */
IMPMEM_NODISCARD impmem_status impmem_queue_signal(impmem_queue *queue, uint64_t *out_ticket, impmem_error *why);
/* What is put in from here on runs after `ticket` of the other queue is done, without the host waiting. INVALID_ARGUMENT:
 * the other queue is of another kind, or has not given that ticket out. The other queue must outlive what waits for it. */
IMPMEM_NODISCARD impmem_status impmem_queue_after(impmem_queue *queue, const impmem_queue *other, uint64_t ticket,
                                                  impmem_error *why);

/* One load. Ticket 0 is always done. What the work wrote is visible to the caller when this says true. */
bool impmem_queue_done(const impmem_queue *queue, uint64_t ticket);
uint64_t impmem_queue_completed(const impmem_queue *queue); /* the last ticket that is done */
/* The host waits. INVALID_ARGUMENT: a ticket that was not given out. STATE: a fake without a thread, whose work waits for a
 * queue that nobody runs meanwhile. */
IMPMEM_NODISCARD impmem_status impmem_queue_wait(impmem_queue *queue, uint64_t ticket, impmem_error *why);

/* ---- without a device ------------------------------------------------------------------------------------------------ */

typedef struct impmem_fake_queue_options {
    uint32_t size;
    uint32_t version;  /* 1 */
    uint32_t capacity; /* pieces of work that can be waiting; 0 = 64. When full, the oldest runs first */
    uint32_t batch;    /* the most copies in one batch; 0 = 1024 (EXHAUSTED above) */
    uint64_t delay_ns; /* 0: work runs in impmem_fake_queue_run and in waits only. Else a thread runs each piece when it
                            * has been waiting for this long */
} impmem_fake_queue_options;
#define IMPMEM_FAKE_QUEUE_OPTIONS_INIT                                                                                     \
    {                                                                                                                      \
        sizeof(impmem_fake_queue_options), 1, 0, 0, 0                                                                      \
    }

/* Work on host memory that really is late: copies read their source when they run, not when they are put in, so a block
 * that is reused too early shows on a CPU. Errors: INVALID_ARGUMENT, VERSION, OVERFLOW (capacity times batch),
 * OUT_OF_HOST_MEMORY. */
IMPMEM_NODISCARD impmem_status impmem_fake_queue_create(impmem_ledger *ledger, const impmem_fake_queue_options *options,
                                                        impmem_queue **out, impmem_error *why);
/* Runs up to `n` pieces that are ready; returns how many ran. 0 for a queue of another kind or with a thread. */
uint32_t impmem_fake_queue_run(impmem_queue *queue, uint32_t n);
uint32_t impmem_fake_queue_waiting(const impmem_queue *queue);
/* The n-th (1 = the next) piece that is put in is refused with `status`, once; n 0 disarms. */
void impmem_fake_queue_fail_nth(impmem_queue *queue, uint64_t n, impmem_status status);

#ifdef __cplusplus
}
#endif
#endif
