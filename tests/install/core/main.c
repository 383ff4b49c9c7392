/* A consumer of the installed core archive: one arena over a fake backend, then everything given back. Returns the number of
 * the first step that went wrong. */
#include <impmem/impmem.h>

#include <string.h>

int main(void)
{
    if (strcmp(impmem_version(), IMPMEM_VERSION_STRING) != 0) return 1;

    impmem_ledger *ledger = NULL;
    if (impmem_ledger_create(NULL, NULL, &ledger)) return 2;

    impmem_fake_options options = IMPMEM_FAKE_OPTIONS_INIT;
    options.capacity_bytes = 16 * IMPMEM_MIB;
    impmem_backend *backend = NULL;
    if (impmem_fake_backend_create(ledger, &options, &backend, NULL, NULL)) return 3;

    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = 4 * IMPMEM_MIB;
    impmem_region *region = NULL;
    if (impmem_backend_acquire(backend, &info, &region, NULL)) return 4;

    impmem_arena *arena = NULL;
    if (impmem_arena_open(region, IMPMEM_TIER_ENGINE, &arena, NULL)) return 5;
    impmem_engine_span span;
    if (impmem_arena_take_engine(arena, IMPMEM_NO_LINE, IMPMEM_MIB, 0, &span)) return 6;
    if (impmem_arena_take_engine(arena, IMPMEM_NO_LINE, 4 * IMPMEM_MIB, 0, &span) != IMPMEM_ERR_EXHAUSTED) return 7;

    impmem_arena_close(&arena);
    if (impmem_backend_release(&region, NULL)) return 8;
    if (impmem_backend_destroy(backend, NULL)) return 9;
    if (impmem_ledger_destroy(ledger, NULL)) return 10;
    return 0;
}
