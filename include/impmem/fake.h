/* impmem/fake.h - a backend without a device: real host memory or addresses only, with faults on demand.
 * Floor 1, implemented by src/backend/fake.c.
 *
 *   impmem_fake_options o = IMPMEM_FAKE_OPTIONS_INIT;
 *   o.capacity_bytes = 24 * IMPMEM_GIB; o.growable = true; o.backing = IMPMEM_FAKE_ADDRESS_ONLY;
 *   impmem_backend *backend; impmem_fake *fake;
 *   impmem_fake_backend_create(ledger, &o, &backend, &fake, &why);
 *   impmem_fake_fail_nth(fake, 3, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, IMPMEM_FAIL_ONCE);
 */
#ifndef IMPMEM_FAKE_H
#define IMPMEM_FAKE_H

#include "impmem/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct impmem_fake impmem_fake; /* lives as long as its backend */

typedef enum impmem_fake_backing {
    IMPMEM_FAKE_HOST_MEMORY = 0, /* real memory; filled with 0xDE on release and decommit */
    IMPMEM_FAKE_ADDRESS_ONLY = 1 /* distinct addresses that nobody may touch: a 140 GiB plan opens on a laptop */
} impmem_fake_backing;

typedef struct impmem_fake_options {
    uint32_t size;
    uint32_t version;             /* 1 */
    uint64_t capacity_bytes;      /* 0 = unlimited; over it OUT_OF_DEVICE_MEMORY (or OUT_OF_PINNED_MEMORY) */
    uint64_t address_space_bytes; /* 0 = unlimited; a reservation above is OUT_OF_ADDRESS_SPACE */
    uint64_t granule_bytes;       /* 0 = 2 MiB; a power of two >= 256 */
    bool growable;
    impmem_fake_backing backing;
    impmem_account account; /* DEVICE by default; PINNED makes a fake for impmem/pinned.h */
} impmem_fake_options;
#define IMPMEM_FAKE_OPTIONS_INIT                                                                                           \
    {                                                                                                                      \
        sizeof(impmem_fake_options), 1, 0, 0, 0, false, IMPMEM_FAKE_HOST_MEMORY, IMPMEM_ACCOUNT_DEVICE                     \
    }

/* `out_fake` may be NULL. */
IMPMEM_NODISCARD impmem_status impmem_fake_backend_create(impmem_ledger *ledger, const impmem_fake_options *options,
                                                          impmem_backend **out, impmem_fake **out_fake, impmem_error *why);

typedef enum impmem_fail_mode { IMPMEM_FAIL_ONCE = 0, IMPMEM_FAIL_FROM_THEN_ON = 1 } impmem_fail_mode;

/* The n-th (1 = the next) acquire, reserve or commit call that reaches the fake fails with `status`; n 0 disarms. A commit
 * that fails this way first achieves the granules before the failing half: floor(length/2) rounded down to the granule. */
void impmem_fake_fail_nth(impmem_fake *fake, uint64_t n, impmem_status status, impmem_fail_mode mode);
/* The n-th decommit or release call fails with IMPMEM_ERR_DRIVER. */
void impmem_fake_fail_nth_release(impmem_fake *fake, uint64_t n, impmem_fail_mode mode);
uint64_t impmem_fake_calls(const impmem_fake *fake);      /* acquire, reserve and commit calls so far */
uint64_t impmem_fake_held_bytes(const impmem_fake *fake); /* physical bytes now */

/* The last 16 released regions are kept, poisoned, instead of freed: true when `n` bytes at `address` lie in one of them or
 * in a decommitted range and all hold 0xDE. False for address-only backing. */
bool impmem_fake_is_poisoned(const impmem_fake *fake, const void *address, uint64_t n);

#ifdef __cplusplus
}
#endif
#endif
