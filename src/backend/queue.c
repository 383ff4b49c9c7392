/* The front of every queue: checks, tickets, and the counter that tells what is done. */
#include "impmem/queue.h"

#include "backend/internal.h"
#include "backend/queue_internal.h"

#define SUBJECT "queue"

impmem_status impmem_queue_create(impmem_ledger *ledger, const impmem_queue_ops *ops, void *self, const uint64_t *counter,
                                  impmem_line_id control_line, impmem_queue **out, impmem_error *why)
{
    if (!ledger || !ops || !counter || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT,
                                 "no ledger, vtable, counter or place for the result");
    impmem_status st = ops->size == 0 && ops->version == 0 ? IMPMEM_ERR_INVALID_ARGUMENT
                                                           : impmem__options_check(ops->size, ops->version, sizeof *ops, 1);
    if (st)
        return impmem__error_set(why, st, SUBJECT, "the vtable's size %u or version %u is not one of this library",
                                 ops->size, ops->version);
    if (!ops->fill || !ops->copy || !ops->copy_blocks || !ops->signal || !ops->after || !ops->wait || !ops->destroy)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "a queue needs every function of its vtable");
    impmem_line_id line = control_line ? control_line : IMPMEM_LINE_HOST_CONTROL;
    void *memory = NULL;
    st = impmem_ledger_host_allocate(ledger, line, IMPMEM_TAG_HOST_CONTROL, sizeof(impmem_queue), &memory, why);
    if (st) return st;
    impmem_queue *queue = memory;
    queue->ops = *ops;
    queue->self = self;
    queue->counter = counter;
    queue->ledger = ledger;
    queue->control_line = line;
    *out = queue;
    return IMPMEM_OK;
}

void impmem_queue_destroy(impmem_queue *queue)
{
    if (!queue) return;
    queue->ops.destroy(queue->self);
    impmem_ledger_host_free(queue->ledger, queue->control_line, IMPMEM_TAG_HOST_CONTROL, queue, sizeof *queue);
}

static impmem_status no_memory(impmem_error *why)
{
    return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT,
                             "no queue, or no address for bytes that were asked");
}

impmem_status impmem_queue_fill(impmem_queue *queue, void *to, uint8_t value, uint64_t bytes, impmem_error *why)
{
    if (!queue || (!to && bytes)) return no_memory(why);
    return bytes ? queue->ops.fill(queue->self, to, value, bytes, why) : IMPMEM_OK;
}

impmem_status impmem_queue_copy(impmem_queue *queue, void *to, const void *from, uint64_t bytes, impmem_error *why)
{
    if (!queue || ((!to || !from) && bytes)) return no_memory(why);
    return bytes ? queue->ops.copy(queue->self, to, from, bytes, why) : IMPMEM_OK;
}

impmem_status impmem_queue_copy_blocks(impmem_queue *queue, const impmem_block_copy *copies, uint32_t n, uint64_t bytes,
                                       impmem_error *why)
{
    if (!queue) return no_memory(why);
    if (n == 0 || bytes == 0) return IMPMEM_OK;
    if (!copies) return no_memory(why);
    for (uint32_t i = 0; i < n; i++) {
        if (!copies[i].to || !copies[i].from) return no_memory(why);
    }
    return queue->ops.copy_blocks(queue->self, copies, n, bytes, why);
}

impmem_status impmem_queue_signal(impmem_queue *queue, uint64_t *out_ticket, impmem_error *why)
{
    if (!queue || !out_ticket)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "no queue, or no place for the ticket");
    impmem_status st = queue->ops.signal(queue->self, queue->issued + 1, why);
    if (!st) *out_ticket = ++queue->issued;
    return st;
}

impmem_status impmem_queue_after(impmem_queue *queue, const impmem_queue *other, uint64_t ticket, impmem_error *why)
{
    if (!queue || !other || queue->ops.signal != other->ops.signal || ticket > other->issued)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "no such ticket, or a queue of another kind");
    if (impmem_queue_done(other, ticket)) return IMPMEM_OK;
    return queue->ops.after(queue->self, other->counter, ticket, why);
}

bool impmem_queue_done(const impmem_queue *queue, uint64_t ticket)
{
    return queue && impmem__queue_counter(queue->counter) >= ticket;
}

uint64_t impmem_queue_completed(const impmem_queue *queue)
{
    return queue ? impmem__queue_counter(queue->counter) : 0;
}

impmem_status impmem_queue_wait(impmem_queue *queue, uint64_t ticket, impmem_error *why)
{
    if (!queue || ticket > queue->issued)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT, "no queue, or a ticket that was not given out");
    return impmem_queue_done(queue, ticket) ? IMPMEM_OK : queue->ops.wait(queue->self, ticket, why);
}
