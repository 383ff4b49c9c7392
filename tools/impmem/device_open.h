/* device_open.h - what the verbs that look at a device share: a ledger without a plan, the device, and a stream. */
#ifndef IMPMEM_COMMAND_DEVICE_OPEN_H
#define IMPMEM_COMMAND_DEVICE_OPEN_H

#include "cuda/internal.h"

typedef struct device_session {
    impmem_ledger *ledger;
    impmem_cuda_device *device;
    void *stream;
    void *module; /* the library's own kernels */
    void *sum;    /* IMPMEM__KERNEL_SUM */
} device_session;

/* COMMAND_DONE, or what to leave with after a complaint: COMMAND_DEVICE where there is no such device or driver. The device
 * is current on this thread until device_close. */
int device_open(int ordinal, device_session *out);
/* COMMAND_NO, with a complaint, when something was left on the device. */
int device_close(device_session *session);

/* Used bytes of the device; 0 when it can't be read. */
uint64_t device_used_bytes(device_session *session);

#define SESSION_ASK(s, ...) impmem__ask(&(s)->device->driver, __VA_ARGS__)

#endif
