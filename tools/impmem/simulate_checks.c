/* simulate_checks.c - what must be true when a served hour is over. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "simulate.h"

const char *simulate_check_key(simulate_check check)
{
    static const char *const key[SIMULATE_N_CHECKS] = {
#define KEY(name, key, text) key,
        SIMULATE_CHECK_MAP(KEY)
#undef KEY
    };
    return key[check];
}

const char *simulate_check_text(simulate_check check)
{
    static const char *const text[SIMULATE_N_CHECKS] = {
#define TEXT(name, key, text) text,
        SIMULATE_CHECK_MAP(TEXT)
#undef TEXT
    };
    return text[check];
}

void simulate_fail(simulate_result *result, simulate_check check, const char *fmt, ...)
{
    simulate_verdict *verdict = &result->verdict[check];
    if (verdict->failed) return;
    verdict->failed = true;
    va_list arguments;
    va_start(arguments, fmt);
    vsnprintf(verdict->detail, sizeof verdict->detail, fmt, arguments);
    va_end(arguments);
}

bool simulate_good(const simulate_result *result)
{
    for (uint32_t i = 0; i < SIMULATE_N_CHECKS; i++)
        if (result->verdict[i].failed) return false;
    return true;
}

static void query_pool(const simulate_world *world, uint32_t group, impmem_block_pool_stats *out)
{
    impmem_block_pool_query(impmem_engine_kv_pool(world->engine, group), out);
}

void simulate_walk(const simulate_world *world, simulate_result *result)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    if (impmem_kv_check(world->kv, &why)) simulate_fail(result, SIMULATE_CHECK_KV_TABLES, "%s", why.message);
    for (uint32_t g = 0; g < world->plan->n_kv_groups; g++)
        if (impmem_block_pool_check(impmem_engine_kv_pool(world->engine, g), &why))
            simulate_fail(result, SIMULATE_CHECK_POOL_TABLES, "pool %" PRIu32 ": %s", g, why.message);
    for (uint32_t i = 0; i < world->plan->n_state_pools; i++)
        if (impmem_block_pool_check(impmem_engine_state_pool(world->engine, i), &why))
            simulate_fail(result, SIMULATE_CHECK_POOL_TABLES, "pool of state %" PRIu32 ": %s", i, why.message);
}

/* The pool's own counts by holder against what the KV manager says of group 0; the other groups are not cached. */
static void judge_blocks(const simulate_world *world, simulate_result *result)
{
    for (uint32_t g = 0; g < world->plan->n_kv_groups; g++) {
        impmem_block_pool_stats pool;
        query_pool(world, g, &pool);
        result->pool[g] = (simulate_pool){pool.total_blocks, pool.live_peak_blocks};
        uint64_t cached = g ? 0 : result->kv.cached_blocks;
        uint64_t in_sequences = pool.references_by[IMPMEM_HOLDER_SEQUENCE];
        if (pool.free_blocks + pool.live_blocks != pool.total_blocks)
            simulate_fail(result, SIMULATE_CHECK_CONSERVATION,
                          "pool %" PRIu32 ": %" PRIu64 " free + %" PRIu64 " live, %" PRIu64 " in all", g, pool.free_blocks,
                          pool.live_blocks, pool.total_blocks);
        if (cached != pool.references_by[IMPMEM_HOLDER_CACHE] || cached + in_sequences != pool.live_blocks)
            simulate_fail(result, SIMULATE_CHECK_CONSERVATION,
                          "pool %" PRIu32 ": %" PRIu64 " cached + %" PRIu64 " in sequences, %" PRIu64 " live", g, cached,
                          in_sequences, pool.live_blocks);
        uint64_t uncached = pool.live_blocks - pool.references_by[IMPMEM_HOLDER_CACHE];
        if (uncached != world->base_live_blocks[g])
            simulate_fail(result, SIMULATE_CHECK_BASELINE,
                          "pool %" PRIu32 ": %" PRIu64 " blocks live outside the cache, %" PRIu64 " after loading", g,
                          uncached, world->base_live_blocks[g]);
    }
}

static void judge_states(const simulate_world *world, simulate_result *result)
{
    for (uint32_t i = 0; i < world->plan->n_state_pools; i++) {
        impmem_block_pool_stats pool;
        impmem_block_pool_query(impmem_engine_state_pool(world->engine, i), &pool);
        if (pool.free_blocks + pool.live_blocks != pool.total_blocks)
            simulate_fail(result, SIMULATE_CHECK_CONSERVATION,
                          "pool of state %" PRIu32 ": %" PRIu64 " free + %" PRIu64 " live, %" PRIu64 " in all", i,
                          pool.free_blocks, pool.live_blocks, pool.total_blocks);
        if (pool.live_blocks != world->base_live_slots[i])
            simulate_fail(result, SIMULATE_CHECK_BASELINE,
                          "pool of state %" PRIu32 ": %" PRIu64 " slots live, %" PRIu64 " after loading", i,
                          pool.live_blocks, world->base_live_slots[i]);
    }
}

static void judge_lines(const simulate_world *world, simulate_result *result)
{
    const impmem_ledger *ledger = world->devices.ledger;
    for (uint32_t i = 0; i < world->plan->n_lines; i++) {
        const impmem_line *line = &world->plan->line[i];
        impmem_usage usage;
        if (impmem_ledger_line_usage(ledger, line->id, &usage)) {
            simulate_fail(result, SIMULATE_CHECK_UNPLANNED, "the ledger has no line %" PRIu32, line->id);
            continue;
        }
        result->line[i] = (simulate_line){line->bytes, usage.committed_peak_bytes, usage.live_peak_bytes};
        uint64_t peak = usage.committed_peak_bytes > usage.live_peak_bytes ? usage.committed_peak_bytes
                                                                           : usage.live_peak_bytes;
        if (line->account != IMPMEM_ACCOUNT_PAGEABLE && peak > line->bytes)
            simulate_fail(result, SIMULATE_CHECK_PEAKS, "%s: %" PRIu64 " bytes at the peak, %" PRIu64 " planned",
                          line->name, peak, line->bytes);
    }
    uint64_t unplanned = impmem_ledger_unplanned_bytes(ledger);
    if (unplanned) simulate_fail(result, SIMULATE_CHECK_UNPLANNED, "%" PRIu64 " bytes", unplanned);
}

static void judge_journal(const simulate_world *world, simulate_result *result)
{
    const impmem_ledger *ledger = world->devices.ledger;
    for (uint32_t account = 0; account < IMPMEM_N_ACCOUNTS; account++) {
        impmem_usage usage;
        impmem_ledger_account_usage(ledger, (impmem_account)account, &usage);
        uint64_t balance = impmem_ledger_journal_balance(ledger, (impmem_account)account);
        if (balance != usage.committed_bytes)
            simulate_fail(result, SIMULATE_CHECK_JOURNAL, "%s: balance %" PRIu64 ", committed %" PRIu64 " bytes",
                          impmem_account_name((impmem_account)account), balance, usage.committed_bytes);
    }
    for (uint32_t tag = 0; tag < IMPMEM_N_TAGS; tag++) {
        uint64_t n = impmem_ledger_serving_acquisitions_of(ledger, (impmem_tag)tag);
        result->serving_acquisitions[tag] = n;
        if (n) simulate_fail(result, SIMULATE_CHECK_SERVING, "%" PRIu64 " of tag %s", n, impmem_tag_name((impmem_tag)tag));
    }
    result->serving_commits = impmem_ledger_serving_commits(ledger);
}

void simulate_judge(const simulate_world *world, simulate_result *result)
{
    if (!impmem_engine_is_idle(world->engine))
        simulate_fail(result, SIMULATE_CHECK_ANSWERED, "the engine is not idle after draining");
    impmem_kv_query(world->kv, &result->kv);
    result->no_reuse = impmem_kv_reuse_unsupported(world->kv);
    judge_blocks(world, result);
    judge_states(world, result);
    judge_lines(world, result);
    judge_journal(world, result);
    simulate_walk(world, result);
}
