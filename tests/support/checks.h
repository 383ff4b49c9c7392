/* tests/support/checks.h - cmocka, and what nearly every test of the library says. */
#ifndef TESTS_SUPPORT_CHECKS_H
#define TESTS_SUPPORT_CHECKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "impmem/backend.h"
#include "impmem/bytes.h"
#include "impmem/ledger.h"

#define OK(call) assert_int_equal((call), IMPMEM_OK)
#define FAILS(call, expected) assert_int_equal((call), (expected))

/* A call that takes `&why` refuses with `expected`, says so in `why`, and says it in words. */
#define REFUSED(call, expected)                                                                                            \
    do {                                                                                                                   \
        why = (impmem_error)IMPMEM_ERROR_INIT;                                                                             \
        assert_int_equal((call), (expected));                                                                              \
        assert_int_equal(why.status, (expected));                                                                          \
        assert_true(why.message[0] != '\0');                                                                               \
        assert_non_null(memchr(why.message, 0, sizeof why.message));                                                       \
    } while (0)

static inline impmem_line line_of(impmem_line_id id, impmem_account account, impmem_tag tag, uint64_t bytes,
                                  const char *name)
{
    impmem_line line;
    memset(&line, 0, sizeof line);
    line.id = id;
    line.account = account;
    line.tag = tag;
    line.bytes = line.demand_bytes = bytes;
    strncpy(line.name, name, sizeof line.name - 1);
    return line;
}

static inline impmem_acquire_info want(uint64_t bytes, impmem_line_id line, impmem_tag tag)
{
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = bytes;
    info.line = line;
    info.tag = tag;
    return info;
}

static inline uint64_t committed_of(const impmem_ledger *ledger, impmem_account account)
{
    impmem_usage usage;
    impmem_ledger_account_usage(ledger, account, &usage);
    return usage.committed_bytes;
}

/* Every account's balance, replayed from the journal, is what the books say. */
static inline void assert_journal_agrees(const impmem_ledger *ledger)
{
    for (unsigned a = 0; a < IMPMEM_N_ACCOUNTS; a++)
        assert_true(impmem_ledger_journal_balance(ledger, (impmem_account)a) == committed_of(ledger, (impmem_account)a));
}

#endif
