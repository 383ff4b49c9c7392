/* backend/queue_internal.h - the front object of a queue, for the files that implement kinds of queues. */
#ifndef IMPMEM__BACKEND_QUEUE_INTERNAL_H
#define IMPMEM__BACKEND_QUEUE_INTERNAL_H

#include "impmem/queue.h"

struct impmem_queue {
    impmem_queue_ops ops;
    void *self;
    const uint64_t *counter; /* written by the device or another thread; read with acquire */
    uint64_t issued;         /* the last ticket */
    impmem_ledger *ledger;
    impmem_line_id control_line;
};

static inline uint64_t impmem__queue_counter(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

#endif
