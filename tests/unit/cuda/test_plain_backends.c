/* cudaMalloc and page-locked host memory. */
#include "world.h"
#include "impmem/conformance.h"
#include "impmem/pinned.h"
#include "owning.h"

/* ---- the one suite --------------------------------------------------------------------------------------------------- */

typedef struct suite {
    fake_driver fake;
    impmem_cuda_device *device; /* one per check: the suite brings a ledger with each */
    impmem_status (*create)(impmem_cuda_device *device, impmem_backend **out, impmem_error *why);
} suite;

static void report(void *context, const char *check, bool passed, const char *detail)
{
    (void)context;
    if (!passed) print_error("%s: %s\n", check, detail);
}

static impmem_status create_owning(void *context, impmem_ledger *ledger, impmem_backend **out, impmem_error *why)
{
    suite *s = context;
    impmem_cuda_device *device = NULL;
    impmem_backend *inner = NULL;
    assert_int_equal(impmem__cuda_device_open(ledger, NULL, &s->fake.table, &device, why), IMPMEM_OK);
    assert_int_equal(s->create(device, &inner, why), IMPMEM_OK);
    return own_device(ledger, device, inner, out, why);
}

static impmem_status make_malloc(impmem_cuda_device *device, impmem_backend **out, impmem_error *why)
{
    impmem_cuda_malloc_options o = IMPMEM_CUDA_MALLOC_OPTIONS_INIT;
    o.capacity_bytes = 64 * IMPMEM_MIB;
    return impmem_cuda_malloc_backend_create(device, &o, out, why);
}

static impmem_status make_pinned(impmem_cuda_device *device, impmem_backend **out, impmem_error *why)
{
    impmem_cuda_pinned_options o = IMPMEM_CUDA_PINNED_OPTIONS_INIT;
    o.capacity_bytes = 128 * IMPMEM_KIB;
    return impmem_cuda_pinned_backend_create(device, &o, out, why);
}

static impmem_status make_pinned_on_node(impmem_cuda_device *device, impmem_backend **out, impmem_error *why)
{
    impmem_cuda_pinned_options o = IMPMEM_CUDA_PINNED_OPTIONS_INIT;
    o.capacity_bytes = 2 * IMPMEM_MIB;
    o.numa_node = 0;
    return impmem_cuda_pinned_backend_create(device, &o, out, why);
}

static impmem_status fill(void *context, void *address, int value, uint64_t bytes)
{
    (void)context;
    memset(address, value, bytes);
    return IMPMEM_OK;
}

static impmem_status read_back(void *context, void *to, const void *from, uint64_t bytes)
{
    (void)context;
    memcpy(to, from, bytes);
    return IMPMEM_OK;
}

static void conforms(impmem_status (*create)(impmem_cuda_device *, impmem_backend **, impmem_error *), uint64_t bytes)
{
    suite *s = calloc(1, sizeof *s);
    assert_non_null(s);
    fake_reset(&s->fake);
    s->create = create;
    impmem_conformance_options o = IMPMEM_CONFORMANCE_OPTIONS_INIT;
    o.create = create_owning;
    o.context = s;
    o.bytes = bytes;
    o.fill = fill;
    o.read = read_back;
    o.report = report;
    impmem_conformance_result r;
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(impmem_backend_conformance(&o, &r, &why), IMPMEM_OK);
    assert_int_equal(r.failed, 0);
    assert_true(r.checks >= 14);
    assert_int_equal(fake_used(&s->fake), 0);
    assert_int_equal(s->fake.depth, 0);
    assert_int_equal(s->fake.last_error, 0);
    assert_string_equal(s->fake.breach, "");
    free(s);
}

static void the_malloc_backend_conforms(void **state)
{
    (void)state;
    conforms(make_malloc, 16 * IMPMEM_MIB);
}

static void the_pinned_backend_conforms(void **state)
{
    (void)state;
    conforms(make_pinned, 32 * IMPMEM_KIB);
}

static void pinned_memory_of_a_node_conforms(void **state)
{
    (void)state;
    conforms(make_pinned_on_node, 512 * IMPMEM_KIB);
}

/* ---- failures -------------------------------------------------------------------------------------------------------- */

typedef struct holder {
    world w;
    impmem_backend *backend;
    impmem_region *region;
} holder;

static impmem_status run_acquire(void *context)
{
    holder *h = context;
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = 2 * IMPMEM_MIB;
    return impmem_backend_acquire(h->backend, &info, &h->region, &h->w.why);
}

static void undo_acquire(void *context)
{
    holder *h = context;
    assert_int_equal(impmem_backend_release(&h->region, NULL), IMPMEM_OK);
}

static void open_holder(holder *h, impmem_status (*create)(impmem_cuda_device *, impmem_backend **, impmem_error *))
{
    memset(h, 0, sizeof *h);
    open_world(&h->w);
    assert_int_equal(create(h->w.device, &h->backend, &h->w.why), IMPMEM_OK);
}

static void close_holder(holder *h)
{
    assert_int_equal(impmem_backend_destroy(h->backend, NULL), IMPMEM_OK);
    close_world(&h->w);
}

static void acquiring_fails_at_every_call_and_leaves_nothing(void **state)
{
    (void)state;
    static impmem_status (*const create[])(impmem_cuda_device *, impmem_backend **, impmem_error *) = {make_malloc, NULL,
                                                                                                       NULL};
    holder h;
    open_holder(&h, create[0]);
    sweep s = {h.w.fake, run_acquire, undo_acquire, &h, IMPMEM__CODE_OUT_OF_MEMORY, false};
    assert_int_equal(run_sweep(&s), 2); /* make current, allocate */
    assert_int_equal(committed(&h.w, IMPMEM_ACCOUNT_DEVICE), 0);
    close_holder(&h);
}

static impmem_status make_pinned_8m(impmem_cuda_device *device, impmem_backend **out, impmem_error *why)
{
    return impmem_cuda_pinned_backend_create(device, NULL, out, why);
}

static impmem_status make_node_8m(impmem_cuda_device *device, impmem_backend **out, impmem_error *why)
{
    impmem_cuda_pinned_options o = IMPMEM_CUDA_PINNED_OPTIONS_INIT;
    o.numa_node = 0;
    o.mapped = true;
    return impmem_cuda_pinned_backend_create(device, &o, out, why);
}

static void pinning_fails_at_every_call_and_leaves_nothing(void **state)
{
    (void)state;
    holder h;
    open_holder(&h, make_pinned_8m);
    sweep s = {h.w.fake, run_acquire, undo_acquire, &h, IMPMEM__CODE_OUT_OF_MEMORY, false};
    assert_int_equal(run_sweep(&s), 2);
    close_holder(&h);
    open_holder(&h, make_node_8m);
    s.fake = h.w.fake;
    s.once_only = true;
    assert_int_equal(run_sweep(&s), 6); /* make current, reserve, create, map, grant, let the handle go */
    close_holder(&h);
}

static void a_refused_pin_is_never_a_full_device(void **state)
{
    (void)state;
    static const int codes[] = {IMPMEM__CODE_OUT_OF_MEMORY, IMPMEM__CODE_INVALID_VALUE, IMPMEM__CODE_NOT_SUPPORTED, 999,
                                304};
    holder h;
    open_holder(&h, make_pinned_8m);
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        fake_fail_call(h.w.fake, IMPMEM__CALL_host_alloc, 1, codes[i], false);
        assert_int_equal(run_acquire(&h), IMPMEM_ERR_OUT_OF_PINNED_MEMORY);
        assert_int_equal(h.w.why.driver_code, codes[i]);
        assert_int_equal(h.w.fake->last_error, 0);
    }
    fake_fail_call(h.w.fake, IMPMEM__CALL_host_alloc, 1, IMPMEM__CODE_CAPTURE_FIRST, false);
    assert_int_equal(run_acquire(&h), IMPMEM_ERR_CAPTURING);
    impmem_pinned owner = IMPMEM_PINNED_NONE;
    bool pageable = false;
    fake_fail_call(h.w.fake, IMPMEM__CALL_host_alloc, 1, IMPMEM__CODE_OUT_OF_MEMORY, false);
    assert_int_equal(impmem_pinned_open_or_pageable(h.backend, LINE_PINNED, 4096, &owner, &pageable, NULL), IMPMEM_OK);
    assert_true(pageable);
    assert_int_equal(impmem_ledger_pinned_degradations(h.w.ledger), 1);
    assert_int_equal(impmem_pinned_close(&owner), IMPMEM_OK);
    close_holder(&h);
}

static void a_release_that_fails_keeps_the_region(void **state)
{
    (void)state;
    static const impmem__call give_back[] = {IMPMEM__CALL_free, IMPMEM__CALL_host_free, IMPMEM__CALL_chunk_unmap};
    static impmem_status (*const create[])(impmem_cuda_device *, impmem_backend **,
                                           impmem_error *) = {make_malloc, make_pinned_8m, make_node_8m};
    for (int i = 0; i < 3; i++) {
        holder h;
        open_holder(&h, create[i]);
        assert_int_equal(run_acquire(&h), IMPMEM_OK);
        fake_state held = fake_snapshot(h.w.fake);
        fake_fail_call(h.w.fake, give_back[i], 1, 999, false);
        assert_int_equal(impmem_backend_release(&h.region, NULL), IMPMEM_ERR_DRIVER);
        assert_non_null(h.region);
        assert_same_state(fake_snapshot(h.w.fake), held);
        fake_fail_call(h.w.fake, IMPMEM__CALL_context_push, 1, 999, false);
        assert_int_equal(impmem_backend_release(&h.region, NULL), IMPMEM_ERR_DRIVER);
        fake_heal(h.w.fake);
        undo_acquire(&h);
        close_holder(&h);
    }
}

static void flags_reach_the_driver(void **state)
{
    (void)state;
    holder h;
    memset(&h, 0, sizeof h);
    open_world(&h.w);
    impmem_cuda_pinned_options o = IMPMEM_CUDA_PINNED_OPTIONS_INIT;
    o.mapped = o.write_combined = true;
    assert_int_equal(impmem_cuda_pinned_backend_create(h.w.device, &o, &h.backend, NULL), IMPMEM_OK);
    assert_int_equal(run_acquire(&h), IMPMEM_OK);
    uint64_t flags = 0;
    for (uint32_t i = 0; i < h.w.fake->n_log; i++)
        if (h.w.fake->log[i].call == IMPMEM__CALL_host_alloc) flags = h.w.fake->log[i].bytes;
    assert_int_equal(flags, 1 | 2 | 4); /* portable, mapped, write-combined */
    void *address = NULL;
    assert_int_equal(impmem_cuda_device_address(h.w.device, impmem_region_base(h.region), &address, NULL), IMPMEM_OK);
    assert_ptr_equal(address, impmem_region_base(h.region));
    fake_fail_call(h.w.fake, IMPMEM__CALL_host_address, 1, IMPMEM__CODE_INVALID_VALUE, false);
    assert_int_equal(impmem_cuda_device_address(h.w.device, &o, &address, NULL), IMPMEM_ERR_NOT_FOUND);
    fake_fail_call(h.w.fake, IMPMEM__CALL_host_address, 1, 999, false);
    assert_int_equal(impmem_cuda_device_address(h.w.device, &o, &address, NULL), IMPMEM_ERR_DRIVER);
    assert_int_equal(impmem_cuda_device_address(NULL, &o, &address, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cuda_device_address(h.w.device, NULL, &address, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cuda_device_address(h.w.device, &o, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    fake_heal(h.w.fake);
    undo_acquire(&h);
    close_holder(&h);
}

static void senseless_backends_are_refused(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    impmem_backend *backend = NULL;
    impmem_cuda_malloc_options m = IMPMEM_CUDA_MALLOC_OPTIONS_INIT;
    impmem_cuda_pinned_options p = IMPMEM_CUDA_PINNED_OPTIONS_INIT;
    assert_int_equal(impmem_cuda_malloc_backend_create(NULL, &m, &backend, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cuda_malloc_backend_create(w.device, &m, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cuda_pinned_backend_create(NULL, &p, &backend, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cuda_pinned_backend_create(w.device, &p, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    m.version = p.version = 2;
    assert_int_equal(impmem_cuda_malloc_backend_create(w.device, &m, &backend, NULL), IMPMEM_ERR_VERSION);
    assert_int_equal(impmem_cuda_pinned_backend_create(w.device, &p, &backend, NULL), IMPMEM_ERR_VERSION);
    p.version = 1;
    p.numa_node = 0;
    fake_fail_call(w.fake, IMPMEM__CALL_granularity, 1, IMPMEM__CODE_INVALID_VALUE, false);
    assert_int_equal(impmem_cuda_pinned_backend_create(w.device, &p, &backend, NULL), IMPMEM_ERR_UNSUPPORTED);
    assert_null(backend);
    memset(&p, 0, sizeof p); /* defaults, not node 0 */
    assert_int_equal(impmem_cuda_pinned_backend_create(w.device, &p, &backend, NULL), IMPMEM_OK);
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    impmem_region *region = NULL;
    info.bytes = 1;
    info.alignment = 4 * IMPMEM_MIB;
    assert_int_equal(impmem_backend_acquire(backend, &info, &region, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_backend_destroy(backend, NULL), IMPMEM_OK);
    assert_int_equal(impmem_cuda_malloc_backend_create(w.device, NULL, &backend, NULL), IMPMEM_OK);
    assert_int_equal(impmem_backend_acquire(backend, &info, &region, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_backend_destroy(backend, NULL), IMPMEM_OK);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_malloc_backend_conforms),
        cmocka_unit_test(the_pinned_backend_conforms),
        cmocka_unit_test(pinned_memory_of_a_node_conforms),
        cmocka_unit_test(acquiring_fails_at_every_call_and_leaves_nothing),
        cmocka_unit_test(pinning_fails_at_every_call_and_leaves_nothing),
        cmocka_unit_test(a_refused_pin_is_never_a_full_device),
        cmocka_unit_test(a_release_that_fails_keeps_the_region),
        cmocka_unit_test(flags_reach_the_driver),
        cmocka_unit_test(senseless_backends_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
