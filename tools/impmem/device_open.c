/* device_open.c - opening and closing a device for a verb. */
#include "device_open.h"

#include <string.h>

#include "command.h"

static int complain_device(int ordinal, const impmem_error *why)
{
    command_complain("device %d: %s%s%s", ordinal, why->message[0] ? why->message : impmem_status_message(why->status),
                     why->hint[0] ? "; " : "", why->hint);
    return COMMAND_DEVICE;
}

int device_open(int ordinal, device_session *out)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    memset(out, 0, sizeof *out);
    impmem_cuda_device_options options = IMPMEM_CUDA_DEVICE_OPTIONS_INIT;
    options.ordinal = ordinal;
    impmem_status st = impmem_ledger_create(NULL, NULL, &out->ledger);
    if (!st) st = impmem_cuda_device_open(out->ledger, &options, &out->device, &why);
    if (st) {
        why.status = st;
        st = impmem_ledger_destroy(out->ledger, NULL);
        (void)st; /* an empty ledger */
        return complain_device(ordinal, &why);
    }
    int code = impmem__enter_device(out->device);
    if (!code) code = SESSION_ASK(out, stream_create, &out->stream);
    if (!code) code = SESSION_ASK(out, module_load, &out->module, impmem__kernels);
    if (!code) code = SESSION_ASK(out, module_function, &out->sum, out->module, IMPMEM__KERNEL_SUM);
    if (!code) return COMMAND_DONE;
    command_complain("device %d: no stream or no kernels (code %d)", ordinal, code);
    code = device_close(out);
    (void)code;
    return COMMAND_DEVICE;
}

int device_close(device_session *session)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    int ignored = 0;
    if (session->stream) ignored |= SESSION_ASK(session, stream_wait_host, session->stream);
    if (session->module) ignored |= SESSION_ASK(session, module_unload, session->module);
    if (session->stream) ignored |= SESSION_ASK(session, stream_destroy, session->stream);
    if (ignored) impmem__swallow(session->device);
    impmem__leave_device(session->device);
    impmem_status st = impmem_cuda_device_close(&session->device, &why);
    if (!st) st = impmem_ledger_destroy(session->ledger, &why);
    if (!st) return COMMAND_DONE;
    command_complain("the device could not be closed: %s", why.message[0] ? why.message : impmem_status_message(st));
    return COMMAND_NO;
}

uint64_t device_used_bytes(device_session *session)
{
    uint64_t free_bytes = 0, total = 0;
    return impmem_cuda_memory(session->device, &free_bytes, &total, NULL) ? 0 : total - free_bytes;
}
