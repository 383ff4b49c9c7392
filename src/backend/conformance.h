/* backend/conformance.h - what the files of the conformance suite share.
 *
 * A check gets a fresh ledger and backend. Regions that it opens lie in suite.region, so that it may return at the first
 * disappointment: the runner releases them, and then demands that nothing is left.
 */
#ifndef IMPMEM__BACKEND_CONFORMANCE_H
#define IMPMEM__BACKEND_CONFORMANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "impmem/conformance.h"

#define IMPMEM__SUITE_REGIONS 8u
#define IMPMEM__SUITE_LINE ((impmem_line_id)IMPMEM_LINE_USER)

typedef struct impmem__suite {
    const impmem_conformance_options *options;
    impmem_backend_properties properties;
    uint64_t granule;
    uint64_t bytes; /* what a check may hold at once: a multiple of the granule, at least 8 granules */
    impmem_ledger *ledger;
    impmem_backend *backend;
    impmem_backend *second;
    impmem_region *region[IMPMEM__SUITE_REGIONS];
    char detail[256];
} impmem__suite;

enum {
    IMPMEM__NEEDS_GROWTH = 1u << 0,
    IMPMEM__NEEDS_DATA = 1u << 1,
    IMPMEM__NEEDS_CAPACITY = 1u << 2,  /* a known one, of 2 to 64 times `bytes` */
    IMPMEM__NEEDS_OWN_BUDGET = 1u << 3 /* an account that holds no control memory */
};

typedef struct impmem__check {
    const char *name;
    uint32_t needs;
    uint64_t budget_granules; /* of the backend's account; 0 = no limit */
    bool (*run)(impmem__suite *suite);
} impmem__check;

/* Both end with an entry without name. */
extern const impmem__check impmem__fixed_checks[];
extern const impmem__check impmem__growth_checks[];

/* Writes the detail; false, for `return impmem__fail(...)`. */
bool impmem__fail(impmem__suite *suite, const char *fmt, ...) IMPMEM_PRINTF(2, 3);

/* Opens region slot `i`. */
impmem_status impmem__suite_acquire(impmem__suite *suite, uint32_t i, uint64_t bytes, uint64_t alignment);
impmem_status impmem__suite_reserve(impmem__suite *suite, uint32_t i, uint64_t bytes, uint64_t alignment);
/* So many rounds of taking and giving back `bytes` that the device is empty before the last if a round keeps anything;
 * fewer where the capacity isn't known and it couldn't be seen. */
uint32_t impmem__suite_rounds(const impmem__suite *suite);
/* Committed bytes of the backend's account. */
uint64_t impmem__suite_held(const impmem__suite *suite);
/* The journal's balance equals the committed bytes of every account. False with a detail otherwise. */
bool impmem__suite_balanced(impmem__suite *suite);
/* Writes `value` over the range; then, or alone, reads all of it back. False with a detail when it is not there. */
bool impmem__suite_write(impmem__suite *suite, const impmem_region *region, uint64_t offset, uint64_t bytes, int value);
bool impmem__suite_holds(impmem__suite *suite, const impmem_region *region, uint64_t offset, uint64_t bytes, int value);

#define IMPMEM__EXPECT(suite, condition, ...)                                                                              \
    do {                                                                                                                   \
        if (!(condition)) return impmem__fail((suite), __VA_ARGS__);                                                       \
    } while (0)
/* `call` must return `status`. */
#define IMPMEM__EXPECT_STATUS(suite, call, status)                                                                         \
    do {                                                                                                                   \
        impmem_status got_ = (call);                                                                                       \
        if (got_ != (status))                                                                                              \
            return impmem__fail((suite), "%s: expected %s, got %s", #call, impmem_status_name(status),                     \
                                impmem_status_name(got_));                                                                 \
    } while (0)

#endif
