/* The runner of the conformance suite, and the helpers of its checks. */
#include "backend/conformance.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/internal.h"

#define DEFAULT_GRANULES 32u
#define MIN_GRANULES 8u
#define CHUNK 4096u

bool impmem__fail(impmem__suite *suite, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(suite->detail, sizeof suite->detail, fmt, args);
    va_end(args);
    return false;
}

static impmem_acquire_info info_of(uint64_t bytes, uint64_t alignment)
{
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = bytes;
    info.alignment = alignment;
    info.line = IMPMEM__SUITE_LINE;
    return info;
}

impmem_status impmem__suite_acquire(impmem__suite *suite, uint32_t i, uint64_t bytes, uint64_t alignment)
{
    impmem_acquire_info info = info_of(bytes, alignment);
    return impmem_backend_acquire(suite->backend, &info, &suite->region[i], NULL);
}

impmem_status impmem__suite_reserve(impmem__suite *suite, uint32_t i, uint64_t bytes, uint64_t alignment)
{
    impmem_acquire_info info = info_of(bytes, alignment);
    return impmem_backend_reserve(suite->backend, &info, &suite->region[i], NULL);
}

static bool capacity_is_small(const impmem__suite *suite)
{
    uint64_t capacity = suite->properties.capacity_bytes, times = capacity / suite->bytes;
    return capacity != UINT64_MAX && times >= 2 && times <= 64;
}

uint32_t impmem__suite_rounds(const impmem__suite *suite)
{
    return capacity_is_small(suite) ? 2 * (uint32_t)(suite->properties.capacity_bytes / suite->bytes) + 2 : 6;
}

uint64_t impmem__suite_held(const impmem__suite *suite)
{
    impmem_usage usage;
    impmem_ledger_account_usage(suite->ledger, suite->properties.account, &usage);
    return usage.committed_bytes;
}

bool impmem__suite_balanced(impmem__suite *suite)
{
    for (unsigned a = 0; a < IMPMEM_N_ACCOUNTS; a++) {
        impmem_usage usage;
        impmem_ledger_account_usage(suite->ledger, (impmem_account)a, &usage);
        uint64_t balance = impmem_ledger_journal_balance(suite->ledger, (impmem_account)a);
        IMPMEM__EXPECT(suite, balance == usage.committed_bytes, "the journal says %llu bytes of %s memory, the books %llu",
                       (unsigned long long)balance, impmem_account_name((impmem_account)a),
                       (unsigned long long)usage.committed_bytes);
    }
    return true;
}

/* ---- data -------------------------------------------------------------------------------------------------------- */

static impmem_status fill(const impmem__suite *suite, void *address, int value, uint64_t bytes)
{
    if (suite->options->fill) return suite->options->fill(suite->options->context, address, value, bytes);
    memset(address, value, (size_t)bytes);
    return IMPMEM_OK;
}

static impmem_status read_back(const impmem__suite *suite, void *to_host, const void *from, uint64_t bytes)
{
    if (suite->options->read) return suite->options->read(suite->options->context, to_host, from, bytes);
    memcpy(to_host, from, (size_t)bytes);
    return IMPMEM_OK;
}

bool impmem__suite_write(impmem__suite *suite, const impmem_region *region, uint64_t offset, uint64_t bytes, int value)
{
    IMPMEM__EXPECT_STATUS(suite, fill(suite, (unsigned char *)impmem_region_base(region) + offset, value, bytes),
                          IMPMEM_OK);
    return impmem__suite_holds(suite, region, offset, bytes, value);
}

bool impmem__suite_holds(impmem__suite *suite, const impmem_region *region, uint64_t offset, uint64_t bytes, int value)
{
    unsigned char chunk[CHUNK];
    const unsigned char *base = impmem_region_base(region);
    for (uint64_t done = 0; done < bytes;) {
        uint64_t n = bytes - done < CHUNK ? bytes - done : CHUNK;
        IMPMEM__EXPECT_STATUS(suite, read_back(suite, chunk, base + offset + done, n), IMPMEM_OK);
        /* A first byte that is right and a chunk that equals itself one byte on: all of it is right. */
        bool right = chunk[0] == (unsigned char)value && memcmp(chunk, chunk + 1, (size_t)n - 1) == 0;
        for (uint64_t i = 0; i < n && !right; i++) {
            IMPMEM__EXPECT(suite, chunk[i] == (unsigned char)value,
                           "byte %llu of the region holds 0x%02x, 0x%02x was written",
                           (unsigned long long)(offset + done + i), chunk[i], (unsigned)value & 0xFFu);
        }
        done += n;
    }
    return true;
}

/* ---- the runner -------------------------------------------------------------------------------------------------- */

static impmem_status make_ledger(const impmem__suite *suite, uint64_t budget, impmem_ledger **out)
{
    impmem_line lines[2];
    memset(lines, 0, sizeof lines);
    lines[0].id = IMPMEM__SUITE_LINE;
    lines[0].tier = IMPMEM_TIER_POOL;
    lines[0].account = suite->properties.account;
    lines[0].bytes = UINT64_MAX / 4;
    memcpy(lines[0].name, "conformance", sizeof "conformance");
    lines[1].id = IMPMEM_LINE_HOST_CONTROL;
    lines[1].tier = IMPMEM_TIER_CONTROL;
    lines[1].account = IMPMEM_ACCOUNT_PAGEABLE;
    lines[1].tag = IMPMEM_TAG_HOST_CONTROL;
    lines[1].bytes = UINT64_MAX / 4;
    memcpy(lines[1].name, "host control", sizeof "host control");
    impmem_lines view = {lines, 2, {UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    view.budget_bytes[suite->properties.account] = budget;
    impmem_ledger_options options = IMPMEM_LEDGER_OPTIONS_INIT;
    options.journal_records = 64;
    options.serving = IMPMEM_SERVING_REFUSE;
    options.seed = 1;
    return impmem_ledger_create(&view, &options, out);
}

/* Gives back whatever the check left open, and insists that the backend and the ledger can go. */
static bool clean_up(impmem__suite *suite, bool passed)
{
    char first_detail[sizeof suite->detail];
    memcpy(first_detail, suite->detail, sizeof first_detail);
    while (impmem_ledger_capture_end(suite->ledger) == IMPMEM_OK) {}
    bool clean = true;
    for (uint32_t i = 0; i < IMPMEM__SUITE_REGIONS; i++) {
        impmem_status st = impmem_backend_release(&suite->region[i], NULL);
        if (!st) continue;
        clean = impmem__fail(suite, "a region could not be released: %s", impmem_status_name(st));
        (void)impmem_first_error(
            st, impmem_backend_release(&suite->region[i], NULL)); /* so that the rest can go, if possible */
    }
    if (clean && !impmem__suite_balanced(suite)) clean = false;
    impmem_status first = impmem_backend_destroy(suite->backend, NULL);
    impmem_status second = impmem_backend_destroy(suite->second, NULL);
    impmem_status last = impmem_ledger_destroy(suite->ledger, NULL);
    impmem_status st = impmem_first_error(first, impmem_first_error(second, last));
    if (clean && st) clean = impmem__fail(suite, "something was left behind: %s", impmem_status_name(st));
    if (!passed) memcpy(suite->detail, first_detail, sizeof first_detail);
    suite->ledger = NULL;
    suite->backend = NULL;
    suite->second = NULL;
    memset(suite->region, 0, sizeof suite->region);
    return passed && clean;
}

static impmem_status open_check(impmem__suite *suite, const impmem__check *check, impmem_error *why)
{
    uint64_t budget = check->budget_granules ? check->budget_granules * suite->granule : UINT64_MAX;
    suite->detail[0] = '\0';
    impmem_status st = make_ledger(suite, budget, &suite->ledger);
    if (st) return impmem__error_set(why, st, check->name, "no ledger for the check: %s", impmem_status_message(st));
    st = suite->options->create(suite->options->context, suite->ledger, &suite->backend, why);
    if (st) {
        st = impmem_first_error(st, impmem_ledger_destroy(suite->ledger, NULL));
        suite->ledger = NULL;
    }
    return st;
}

static bool is_runnable(const impmem__suite *suite, uint32_t needs)
{
    const impmem_backend_properties *p = &suite->properties;
    bool data = p->host_accessible || (suite->options->fill && suite->options->read);
    if ((needs & IMPMEM__NEEDS_GROWTH) && !p->growable) return false;
    if ((needs & IMPMEM__NEEDS_DATA) && !data) return false;
    if ((needs & IMPMEM__NEEDS_CAPACITY) && !capacity_is_small(suite)) return false;
    return !(needs & IMPMEM__NEEDS_OWN_BUDGET) || p->account != IMPMEM_ACCOUNT_PAGEABLE;
}

static impmem_status run_checks(impmem__suite *suite, const impmem__check *checks, impmem_conformance_result *result,
                                impmem_error *why)
{
    for (const impmem__check *check = checks; check->name; check++) {
        if (!is_runnable(suite, check->needs)) {
            result->skipped++;
            continue;
        }
        impmem_status st = open_check(suite, check, why);
        if (st) return st;
        bool passed = clean_up(suite, check->run(suite));
        result->checks++;
        result->failed += !passed;
        if (suite->options->report) suite->options->report(suite->options->context, check->name, passed, suite->detail);
    }
    return IMPMEM_OK;
}

/* One backend on a ledger of its own, only to ask it what it is. */
static impmem_status learn_properties(impmem__suite *suite, impmem_error *why)
{
    impmem__check probe = {"properties", 0, 0, NULL};
    impmem_status st = open_check(suite, &probe, why);
    if (st) return st;
    impmem_backend_query(suite->backend, &suite->properties);
    st = impmem_backend_destroy(suite->backend, why);
    st = impmem_first_error(st, impmem_ledger_destroy(suite->ledger, st ? NULL : why));
    suite->backend = NULL;
    suite->ledger = NULL;
    suite->granule = suite->properties.granule_bytes;
    return st;
}

impmem_status impmem_backend_conformance(const impmem_conformance_options *options, impmem_conformance_result *out,
                                         impmem_error *why)
{
    if (!options || !out || !options->create)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "conformance", "no options, no create or no result");
    impmem_status st = impmem__options_check(options->size, options->version, sizeof *options, 1);
    if (st) return impmem__error_set(why, st, "conformance", "options of another version or size");
    impmem__suite suite;
    memset(&suite, 0, sizeof suite);
    suite.options = options;
    st = learn_properties(&suite, why);
    if (st) return st;
    uint64_t granules = options->bytes ? options->bytes / suite.granule : DEFAULT_GRANULES;
    if (granules < MIN_GRANULES)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "bytes", "the suite needs %u granules of %llu bytes",
                                 MIN_GRANULES, (unsigned long long)suite.granule);
    if (impmem_mul(&suite.bytes, granules, suite.granule))
        return impmem__error_set(why, IMPMEM_ERR_OVERFLOW, "bytes", "the granule is too large");
    impmem_conformance_result result = {0, 0, 0};
    st = run_checks(&suite, impmem__fixed_checks, &result, why);
    if (!st) st = run_checks(&suite, impmem__growth_checks, &result, why);
    if (!st) *out = result;
    return st;
}
