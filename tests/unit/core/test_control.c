/* Sizes of the library's own tables, and the host allocator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/internal.h"
#include "core/layout.h"
#include "impmem/allocator.h"
#include "impmem/control.h"

static uint64_t up64(uint64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static void a_ledger_is_its_header_its_lines_and_its_ring(void **state)
{
    (void)state;
    uint64_t bytes;
    assert_int_equal(impmem_control_ledger_bytes(3, 10, &bytes), IMPMEM_OK);
    assert_true(bytes == IMPMEM__LEDGER_HEADER_BYTES + up64(3 * IMPMEM__LEDGER_LINE_BYTES) + up64(10 * 56));
    uint64_t by_default, spelled_out;
    assert_int_equal(impmem_control_ledger_bytes(3, 0, &by_default), IMPMEM_OK);
    assert_int_equal(impmem_control_ledger_bytes(3, 4096, &spelled_out), IMPMEM_OK);
    assert_true(by_default == spelled_out);
    assert_int_equal(impmem_control_ledger_bytes(UINT32_MAX, UINT32_MAX, &bytes), IMPMEM_OK);
    assert_int_equal(impmem_control_ledger_bytes(1, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
}

static void a_growable_region_pays_one_bit_a_granule(void **state)
{
    (void)state;
    uint64_t fixed, growable, shares;
    assert_int_equal(impmem_control_region_bytes(0, 1 << 20, 4096, 0, &fixed), IMPMEM_OK);
    assert_true(fixed == 256 + up64(32));
    assert_int_equal(impmem_control_region_bytes(0, 4096ull * 1000, 4096, 1, &growable), IMPMEM_OK);
    assert_true(growable == fixed + up64((1000 + 63) / 64 * 8));
    assert_int_equal(impmem_control_region_bytes(5, 4096, 4096, 0, &shares), IMPMEM_OK);
    assert_true(shares == 256 + up64(5 * 32));
    assert_int_equal(impmem_control_region_bytes(0, 4096, 0, 1, &fixed), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_control_region_bytes(0, 4096, 4096, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
}

static void the_other_tables_have_sizes_too(void **state)
{
    (void)state;
    uint64_t bytes;
    assert_int_equal(impmem_control_backend_bytes(&bytes), IMPMEM_OK);
    assert_true(bytes == IMPMEM__BACKEND_BYTES);
    assert_int_equal(impmem_control_scratch_bytes(&bytes), IMPMEM_OK);
    assert_true(bytes == IMPMEM__SCRATCH_BYTES);
    assert_int_equal(impmem_control_arena_bytes(0, &bytes), IMPMEM_OK);
    assert_true(bytes >= IMPMEM__ARENA_HEADER_BYTES);
    assert_int_equal(impmem_control_backend_bytes(NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_control_scratch_bytes(NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_control_arena_bytes(1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_control_block_pool_bytes(1, 1, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_control_block_pool_bytes(0, 1, &bytes), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_control_block_pool_bytes(UINT32_MAX, 2, &bytes), IMPMEM_ERR_OVERFLOW);
}

static void the_default_allocator_aligns_and_zeroes(void **state)
{
    (void)state;
    impmem_allocator allocator = impmem_default_allocator();
    static const size_t alignments[] = {16, 64, 256, 4096, 65536};
    for (size_t i = 0; i < sizeof alignments / sizeof alignments[0]; i++) {
        for (size_t bytes = 1; bytes < 100000; bytes *= 7) {
            unsigned char *memory = impmem__allocate_zeroed(&allocator, bytes, alignments[i]);
            assert_non_null(memory);
            assert_int_equal((uintptr_t)memory % alignments[i], 0);
            for (size_t at = 0; at < bytes; at++) assert_int_equal(memory[at], 0);
            memset(memory, 0xAB, bytes);
            impmem__release(&allocator, memory, bytes);
        }
    }
    assert_null(impmem__allocate_zeroed(&allocator, 0, 16));
    assert_null(allocator.allocate(allocator.context, 16, 48)); /* no power of two */
    assert_null(impmem__allocate_zeroed(&allocator, UINT64_MAX, 64));
    impmem__release(&allocator, NULL, 0);
    allocator.release(allocator.context, NULL, 0);
}

static void *dirty_allocate(void *context, size_t bytes, size_t alignment)
{
    ++*(int *)context;
    void *memory = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (memory) memset(memory, 0x77, bytes);
    return memory;
}

static void plain_release(void *context, void *memory, size_t bytes)
{
    (void)bytes;
    --*(int *)context;
    free(memory);
}

static void a_callers_allocator_is_used_and_its_memory_zeroed(void **state)
{
    (void)state;
    int live = 0;
    impmem_allocator given = {dirty_allocate, plain_release, &live}, resolved;
    assert_int_equal(impmem__allocator_resolve(given, &resolved), IMPMEM_OK);
    unsigned char *memory = impmem__allocate_zeroed(&resolved, 100, 64);
    assert_non_null(memory);
    assert_int_equal(live, 1);
    for (size_t at = 0; at < 100; at++) assert_int_equal(memory[at], 0);
    impmem__release(&resolved, memory, 100);
    assert_int_equal(live, 0);
}

static void half_an_allocator_is_refused(void **state)
{
    (void)state;
    impmem_allocator resolved, half = {dirty_allocate, NULL, NULL}, other = {NULL, plain_release, NULL},
                               none = {NULL, NULL, NULL};
    assert_int_equal(impmem__allocator_resolve(half, &resolved), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem__allocator_resolve(other, &resolved), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem__allocator_resolve(none, &resolved), IMPMEM_OK);
    assert_non_null(resolved.allocate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ledger_is_its_header_its_lines_and_its_ring),
        cmocka_unit_test(a_growable_region_pays_one_bit_a_granule),
        cmocka_unit_test(the_other_tables_have_sizes_too),
        cmocka_unit_test(the_default_allocator_aligns_and_zeroes),
        cmocka_unit_test(a_callers_allocator_is_used_and_its_memory_zeroed),
        cmocka_unit_test(half_an_allocator_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
