/* staging.c - T5a: ordinary host memory that must be gone before the phase leaves Loading. */
#include "impmem/staging.h"

#include <string.h>

#include "alloc/internal.h"
#include "impmem/control.h"

#define SUBJECT "staging"

struct impmem_staging {
    impmem__staging_link link;
    impmem_ledger *ledger;
    void *data;
    uint64_t bytes;
    impmem_line_id line;
};

_Static_assert(sizeof(struct impmem_staging) <= IMPMEM__STAGING_BYTES, "impmem_control_staging_bytes counts this object");

/* Unwinds whatever of the staging is open. */
static void destroy(impmem_staging *staging)
{
    impmem_ledger *ledger = staging->ledger;
    impmem_ledger_host_free(ledger, staging->line, IMPMEM_TAG_HOST_STAGING, staging->data, staging->bytes);
    impmem__object_give(ledger, impmem_control_staging_bytes, staging);
}

impmem_status impmem_staging_open(impmem_ledger *ledger, const char *name, impmem_line_id line, uint64_t bytes,
                                  impmem_staging **out, impmem_error *why)
{
    if (!ledger || !name || !bytes || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, SUBJECT,
                                 "ledger, name and out must not be NULL, nor bytes 0");
    if (impmem_ledger_phase(ledger) != IMPMEM_PHASE_LOADING)
        return impmem__error_set(why, IMPMEM_ERR_PHASE_ORDER, name, "staging memory is for loading; the phase is %s",
                                 impmem_phase_name(impmem_ledger_phase(ledger)));
    void *memory = NULL;
    impmem_status st = impmem__object_take(ledger, impmem_control_staging_bytes, &memory, why);
    if (st) return st;
    impmem_staging *staging = memory;
    staging->ledger = ledger;
    staging->line = line;
    staging->bytes = bytes;
    strncpy(staging->link.name, name, sizeof staging->link.name - 1);

    st = impmem_ledger_host_allocate(ledger, line, IMPMEM_TAG_HOST_STAGING, bytes, &staging->data, why);
    if (!st) {
        /* The phase may have moved on in another thread meanwhile. */
        st = impmem__ledger_staging_add(ledger, &staging->link);
        if (st) st = impmem__error_set(why, st, name, "staging memory is for loading, which has just ended");
    }
    if (st) {
        destroy(staging);
        return st;
    }
    *out = staging;
    return IMPMEM_OK;
}

void impmem_staging_close(impmem_staging **handle)
{
    if (!handle || !*handle) return;
    impmem_staging *staging = *handle;
    *handle = NULL;
    impmem__ledger_staging_remove(staging->ledger, &staging->link);
    destroy(staging);
}

void *impmem_staging_data(const impmem_staging *staging)
{
    return staging ? staging->data : NULL;
}

uint64_t impmem_staging_bytes(const impmem_staging *staging)
{
    return staging ? staging->bytes : 0;
}
