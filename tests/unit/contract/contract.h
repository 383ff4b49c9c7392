/* What the tests of the headers' promises share. They know the public headers only, nothing of what implements them. */
#ifndef TESTS_UNIT_CONTRACT_H
#define TESTS_UNIT_CONTRACT_H

#include "support/world.h"

/* A call that takes `&why` refuses with `expected`, says so in `why`, and says it in words. */
#define REFUSED(call, expected)                                                                                                  \
    do {                                                                                                                         \
        why = (impmem_error)IMPMEM_ERROR_INIT;                                                                                   \
        assert_int_equal((call), (expected));                                                                                    \
        assert_int_equal(why.status, (expected));                                                                                \
        assert_true(why.message[0] != '\0');                                                                                     \
        assert_non_null(memchr(why.message, 0, sizeof why.message));                                                             \
    } while (0)

#define FAILS(call, expected) assert_int_equal((call), (expected))

enum { GRANULE = 4096 };

/* Every account's and line's balance, replayed from the journal, is what the books say. */
static inline void assert_journal_agrees(const impmem_ledger *ledger)
{
    for (unsigned a = 0; a < IMPMEM_N_ACCOUNTS; a++) {
        impmem_usage usage;
        impmem_ledger_account_usage(ledger, (impmem_account)a, &usage);
        assert_true(impmem_ledger_journal_balance(ledger, (impmem_account)a) == usage.committed_bytes);
    }
}

static inline uint64_t device_bytes(const impmem_ledger *ledger)
{
    impmem_usage usage;
    impmem_ledger_account_usage(ledger, IMPMEM_ACCOUNT_DEVICE, &usage);
    return usage.committed_bytes;
}

static inline impmem_acquire_info ask(uint64_t bytes, impmem_line_id line)
{
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = bytes;
    info.line = line;
    info.tag = IMPMEM_TAG_ENGINE_PERSISTENT;
    return info;
}

#endif
