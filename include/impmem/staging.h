/* impmem/staging.h - T5a: host memory that lives during loading only. Floor 2, implemented by src/alloc/staging.c.
 *
 *   impmem_staging *staging;
 *   impmem_staging_open(ledger, "weight upload", line, bytes, &staging, &why);
 *   ... read the file into impmem_staging_data(staging), copy it up ...
 *   impmem_staging_close(&staging);
 *
 * Opening outside the Loading phase is IMPMEM_ERR_PHASE_ORDER. One that survives loading makes impmem_ledger_set_phase fail
 * with IMPMEM_ERR_STAGING_LIVE, naming it. Ordinary memory through the ledger's host allocator, pageable account.
 */
#ifndef IMPMEM_STAGING_H
#define IMPMEM_STAGING_H

#include "impmem/ledger.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct impmem_staging impmem_staging;

/* `name` is copied, up to 39 bytes. bytes > 0. PHASE_ORDER, INVALID_ARGUMENT, and what impmem_ledger_host_allocate
 * returns. */
IMPMEM_NODISCARD impmem_status impmem_staging_open(impmem_ledger *ledger, const char *name, impmem_line_id line,
                                                   uint64_t bytes, impmem_staging **out, impmem_error *why);
void impmem_staging_close(impmem_staging **staging); /* NULL is fine */
void *impmem_staging_data(const impmem_staging *staging);
uint64_t impmem_staging_bytes(const impmem_staging *staging);

#ifdef __cplusplus
}
#endif
#endif
