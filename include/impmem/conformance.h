/* impmem/conformance.h - the one suite that every backend must pass. Floor 1, implemented by src/backend/conformance*.c.
 *
 *   impmem_conformance_options o = IMPMEM_CONFORMANCE_OPTIONS_INIT;
 *   o.create = make_my_backend; o.report = print_check;
 *   impmem_conformance_result result;
 *   impmem_status st = impmem_backend_conformance(&o, &result, &why);
 *   if (!st && result.failed == 0) ...                                   it conforms
 *
 * For authors of a backend: call it from a test. It is part of the installed library and of no other dependency. What a
 * backend does when memory runs out, and whether decommitted memory comes back, can only be seen on one whose
 * capacity_bytes is known and small: run the suite a second time over such a one (a capacity of 2 to 64 times `bytes`).
 */
#ifndef IMPMEM_CONFORMANCE_H
#define IMPMEM_CONFORMANCE_H

#include "impmem/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct impmem_conformance_options {
    uint32_t size;
    uint32_t version; /* 1 */
    /* Makes a fresh backend of the kind under test on `ledger`; destroyed by the suite. Called once to learn the
     * properties, and once or twice per check. */
    impmem_status (*create)(void *context, impmem_ledger *ledger, impmem_backend **out, impmem_error *why);
    void *context;
    uint64_t bytes; /* how much memory a check may hold at once; 0 = 32 granules */
    /* How the suite reads and writes the memory; NULL = memcpy/memset when host_accessible, else data checks are
     * skipped. */
    impmem_status (*fill)(void *context, void *address, int value, uint64_t bytes);
    impmem_status (*read)(void *context, void *to_host, const void *from, uint64_t bytes);
    /* One call per check; `detail` says what was expected and found when it failed. NULL = silent. */
    void (*report)(void *context, const char *check, bool passed, const char *detail);
} impmem_conformance_options;
#define IMPMEM_CONFORMANCE_OPTIONS_INIT                                                                                    \
    {                                                                                                                      \
        sizeof(impmem_conformance_options), 1, NULL, NULL, 0, NULL, NULL, NULL                                             \
    }

typedef struct impmem_conformance_result {
    uint32_t checks;
    uint32_t failed;
    uint32_t skipped; /* not growable, data not reachable, capacity unknown; `checks` counts only those that ran */
} impmem_conformance_result;

/* IMPMEM_OK when the suite ran, whatever it found: look at out->failed. */
IMPMEM_NODISCARD impmem_status impmem_backend_conformance(const impmem_conformance_options *options,
                                                          impmem_conformance_result *out, impmem_error *why);

#ifdef __cplusplus
}
#endif
#endif
