/* What the tests of the headers' promises share. They know the public headers only, nothing of what implements them. */
#ifndef TESTS_UNIT_CONTRACT_H
#define TESTS_UNIT_CONTRACT_H

#include "support/world.h"

enum { GRANULE = 4096 };

static inline uint64_t device_bytes(const impmem_ledger *ledger)
{
    return committed_of(ledger, IMPMEM_ACCOUNT_DEVICE);
}

static inline impmem_acquire_info ask(uint64_t bytes, impmem_line_id line)
{
    return want(bytes, line, IMPMEM_TAG_ENGINE_PERSISTENT);
}

#endif
