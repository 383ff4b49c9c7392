/* The virtual-memory backend: transactions, call order, kept chunks, export. */
#include "world.h"
#include "impmem/conformance.h"
#include "owning.h"

enum { CHUNK = 128 * 1024 };

typedef struct vm {
    world w;
    impmem_backend *backend;
    impmem_region *region;
} vm;

static void open_vm(vm *v, const impmem_cuda_vmm_options *options)
{
    memset(v, 0, sizeof *v);
    open_world(&v->w);
    impmem_cuda_vmm_options o = IMPMEM_CUDA_VMM_OPTIONS_INIT;
    if (options) o = *options;
    o.chunk_bytes = CHUNK;
    assert_int_equal(impmem_cuda_vmm_backend_create(v->w.device, &o, &v->backend, &v->w.why), IMPMEM_OK);
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = 64 * CHUNK;
    info.tag = IMPMEM_TAG_KV_BLOCKS;
    info.line = LINE_POOL;
    assert_int_equal(impmem_backend_reserve(v->backend, &info, &v->region, &v->w.why), IMPMEM_OK);
}

static void close_vm(vm *v)
{
    assert_int_equal(impmem_backend_release(&v->region, NULL), IMPMEM_OK);
    assert_int_equal(impmem_backend_destroy(v->backend, NULL), IMPMEM_OK);
    close_world(&v->w);
}

static impmem_cuda_vmm_stats stats_of(const vm *v)
{
    impmem_cuda_vmm_stats s;
    assert_int_equal(impmem_cuda_vmm_query(v->backend, &s), IMPMEM_OK);
    return s;
}

/* ---- the one suite --------------------------------------------------------------------------------------------------- */

static impmem_status create_owning(void *context, impmem_ledger *ledger, impmem_backend **out, impmem_error *why)
{
    fake_driver *f = context;
    impmem_cuda_device *device = NULL;
    impmem_backend *inner = NULL;
    impmem_cuda_vmm_options v = IMPMEM_CUDA_VMM_OPTIONS_INIT;
    v.chunk_bytes = CHUNK;
    v.capacity_bytes = 64 * CHUNK;
    assert_int_equal(impmem__cuda_device_open(ledger, NULL, &f->table, &device, why), IMPMEM_OK);
    assert_int_equal(impmem_cuda_vmm_backend_create(device, &v, &inner, why), IMPMEM_OK);
    return own_device(ledger, device, inner, out, why);
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

static void report(void *context, const char *check, bool passed, const char *detail)
{
    (void)context;
    if (!passed) print_error("%s: %s\n", check, detail);
}

static void the_backend_conforms(void **state)
{
    (void)state;
    fake_driver *f = calloc(1, sizeof *f);
    assert_non_null(f);
    fake_reset(f);
    impmem_conformance_options o = IMPMEM_CONFORMANCE_OPTIONS_INIT;
    o.create = create_owning;
    o.context = f;
    o.bytes = 16 * CHUNK;
    o.fill = fill;
    o.read = read_back;
    o.report = report;
    impmem_conformance_result r;
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(impmem_backend_conformance(&o, &r, &why), IMPMEM_OK);
    assert_int_equal(r.failed, 0);
    assert_true(r.checks >= 30);
    assert_int_equal(fake_used(f), 0);
    assert_int_equal(f->depth, 0);
    assert_string_equal(f->breach, "");
    free(f);
}

/* ---- transactions ---------------------------------------------------------------------------------------------------- */

static impmem_status run_grow(void *context)
{
    vm *v = context;
    return impmem_region_commit_range(v->region, 4 * CHUNK, 4 * CHUNK, NULL, &v->w.why);
}

static void undo_grow(void *context)
{
    vm *v = context;
    assert_int_equal(impmem_region_decommit_range(v->region, 4 * CHUNK, 4 * CHUNK, NULL, NULL), IMPMEM_OK);
}

static void a_commit_fails_at_every_call_and_leaves_nothing(void **state)
{
    (void)state;
    impmem_cuda_vmm_options o = IMPMEM_CUDA_VMM_OPTIONS_INIT;
    o.verify_access = true;
    vm v;
    open_vm(&v, &o);
    assert_int_equal(impmem_region_commit(v.region, 2 * CHUNK, NULL, NULL), IMPMEM_OK);
    memset(impmem_region_base(v.region), 0x5a, 2 * CHUNK);
    sweep s = {v.w.fake, run_grow, undo_grow, &v, IMPMEM__CODE_OUT_OF_MEMORY, true};
    /* make current, 4 x (create, map), grant, 4 x read back */
    assert_int_equal(run_sweep(&s), 1 + 8 + 1 + 4);
    assert_int_equal(committed(&v.w, IMPMEM_ACCOUNT_DEVICE), 2 * CHUNK);
    assert_int_equal(stats_of(&v).held_bytes, 2 * CHUNK);
    assert_int_equal(stats_of(&v).stuck_bytes, 0);
    for (size_t i = 0; i < 2 * CHUNK; i++) assert_int_equal(((unsigned char *)impmem_region_base(v.region))[i], 0x5a);
    close_vm(&v);
}

/* When even undoing fails, nothing is claimed to be committed, and everything comes back once the driver works again. */
static void a_commit_whose_undo_fails_too_recovers(void **state)
{
    (void)state;
    impmem_cuda_vmm_options o = IMPMEM_CUDA_VMM_OPTIONS_INIT;
    o.verify_access = true;
    for (uint64_t n = 2; n <= 14; n++) {
        vm v;
        open_vm(&v, &o);
        fake_fail(v.w.fake, n, 999, true);
        uint64_t got = 1;
        assert_int_equal(impmem_region_commit(v.region, 4 * CHUNK, &got, &v.w.why), IMPMEM_ERR_DRIVER);
        assert_int_equal(got, 0);
        fake_heal(v.w.fake);
        assert_int_equal(committed(&v.w, IMPMEM_ACCOUNT_DEVICE), 0);
        assert_int_equal(impmem_region_commit(v.region, 4 * CHUNK, &got, &v.w.why), IMPMEM_OK);
        assert_int_equal(got, 4 * CHUNK);
        fake_state s = fake_snapshot(v.w.fake);
        assert_int_equal(s.mapped, 4 * CHUNK);
        assert_int_equal(s.accessible, 4 * CHUNK);
        close_vm(&v);
    }
}

static void a_full_device_is_told_with_its_code(void **state)
{
    (void)state;
    vm v;
    open_vm(&v, NULL);
    v.w.fake->capacity = 100 * IMPMEM_MIB + 3 * CHUNK; /* the context and three chunks */
    uint64_t got = 1;
    assert_int_equal(impmem_region_commit(v.region, 4 * CHUNK, &got, &v.w.why), IMPMEM_ERR_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(got, 0);
    assert_int_equal(v.w.why.driver_code, IMPMEM__CODE_OUT_OF_MEMORY);
    assert_int_equal(v.w.why.asked_bytes, 4 * CHUNK);
    assert_int_equal(fake_used(v.w.fake), 100 * IMPMEM_MIB);
    assert_int_equal(impmem_region_commit(v.region, 3 * CHUNK, NULL, NULL), IMPMEM_OK);
    close_vm(&v);
}

static void a_decommit_is_all_or_nothing(void **state)
{
    (void)state;
    vm v;
    open_vm(&v, NULL);
    assert_int_equal(impmem_region_commit(v.region, 8 * CHUNK, NULL, NULL), IMPMEM_OK);
    fake_state held = fake_snapshot(v.w.fake);
    static const impmem__call calls[] = {IMPMEM__CALL_context_push, IMPMEM__CALL_chunk_unmap};
    for (int i = 0; i < 2; i++) {
        fake_fail_call(v.w.fake, calls[i], 1, 999, false);
        assert_int_equal(impmem_region_decommit_range(v.region, CHUNK, 4 * CHUNK, NULL, NULL), IMPMEM_ERR_DRIVER);
        assert_same_state(fake_snapshot(v.w.fake), held);
        assert_int_equal(committed(&v.w, IMPMEM_ACCOUNT_DEVICE), 8 * CHUNK);
    }
    /* A handle that the driver won't take back is not lost: it is counted, used by the next commit, or released later. */
    fake_fail_call(v.w.fake, IMPMEM__CALL_chunk_release, 1, 999, true);
    assert_int_equal(impmem_region_decommit_range(v.region, CHUNK, 4 * CHUNK, NULL, NULL), IMPMEM_OK);
    assert_int_equal(stats_of(&v).stuck_bytes, 4 * CHUNK);
    assert_int_equal(stats_of(&v).held_bytes, 4 * CHUNK);
    fake_heal(v.w.fake);
    assert_int_equal(impmem_region_commit_range(v.region, CHUNK, CHUNK, NULL, NULL), IMPMEM_OK);
    assert_int_equal(stats_of(&v).chunks_created, 8);
    assert_int_equal(stats_of(&v).chunks_reused, 1);
    assert_int_equal(impmem_cuda_vmm_trim(v.backend, 0), IMPMEM_OK);
    assert_int_equal(stats_of(&v).stuck_bytes, 0);
    assert_int_equal(fake_used(v.w.fake), 100 * IMPMEM_MIB + 5 * CHUNK);
    close_vm(&v);
}

static void a_release_that_fails_can_be_tried_again(void **state)
{
    (void)state;
    static const impmem__call calls[] = {IMPMEM__CALL_context_push, IMPMEM__CALL_chunk_unmap, IMPMEM__CALL_address_free};
    for (int i = 0; i < 3; i++) {
        vm v;
        open_vm(&v, NULL);
        assert_int_equal(impmem_region_commit_range(v.region, CHUNK, 2 * CHUNK, NULL, NULL), IMPMEM_OK);
        assert_int_equal(impmem_region_commit_range(v.region, 5 * CHUNK, CHUNK, NULL, NULL), IMPMEM_OK);
        fake_fail_call(v.w.fake, calls[i], 1, 999, false);
        assert_int_equal(impmem_backend_release(&v.region, NULL), IMPMEM_ERR_DRIVER);
        assert_non_null(v.region);
        fake_heal(v.w.fake);
        close_vm(&v);
    }
}

/* ---- order of calls -------------------------------------------------------------------------------------------------- */

static void calls_come_in_the_order_that_the_driver_needs(void **state)
{
    (void)state;
    vm v;
    open_vm(&v, NULL);
    v.w.fake->n_log = 0;
    assert_int_equal(impmem_region_commit(v.region, 2 * CHUNK, NULL, NULL), IMPMEM_OK);
    assert_int_equal(impmem_region_commit(v.region, 0, NULL, NULL), IMPMEM_OK);
    assert_int_equal(impmem_backend_release(&v.region, NULL), IMPMEM_OK);
    static const impmem__call expected[] = {
        IMPMEM__CALL_context_push,  IMPMEM__CALL_chunk_create, IMPMEM__CALL_chunk_map,    IMPMEM__CALL_chunk_create,
        IMPMEM__CALL_chunk_map,     IMPMEM__CALL_set_access,   IMPMEM__CALL_get_access,   IMPMEM__CALL_get_access,
        IMPMEM__CALL_context_pop,   IMPMEM__CALL_context_push, IMPMEM__CALL_chunk_unmap,  IMPMEM__CALL_chunk_release,
        IMPMEM__CALL_chunk_release, IMPMEM__CALL_context_pop,  IMPMEM__CALL_context_push, IMPMEM__CALL_address_free,
        IMPMEM__CALL_context_pop};
    uint32_t at = 0;
    bool verified = fake_count(v.w.fake, IMPMEM__CALL_get_access) > 0; /* a build without NDEBUG reads access back */
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        if (!verified && expected[i] == IMPMEM__CALL_get_access) continue;
        assert_true(at < v.w.fake->n_log);
        assert_string_equal(impmem__call_name(v.w.fake->log[at].call), impmem__call_name(expected[i]));
        at++;
    }
    assert_int_equal(at, v.w.fake->n_log);
    assert_int_equal(impmem_backend_destroy(v.backend, NULL), IMPMEM_OK);
    close_world(&v.w);
}

static void every_listed_device_gets_access(void **state)
{
    (void)state;
    const int32_t peers[] = {1};
    impmem_cuda_vmm_options o = IMPMEM_CUDA_VMM_OPTIONS_INIT;
    o.peers = peers;
    o.n_peers = 1;
    o.verify_access = true;
    vm v;
    open_vm(&v, &o);
    for (uint64_t target = CHUNK; target <= 5 * CHUNK; target += CHUNK) {
        assert_int_equal(impmem_region_commit(v.region, target, NULL, NULL), IMPMEM_OK);
        uint64_t chunks = 0;
        for (int i = 0; i < FAKE_MAX; i++) {
            if (!v.w.fake->chunk[i].mapped_at) continue;
            chunks++;
            assert_int_equal(v.w.fake->chunk[i].access, 3); /* devices 0 and 1 */
        }
        assert_int_equal(chunks, target / CHUNK);
    }
    v.w.fake->no_access = true;
    fake_state held = fake_snapshot(v.w.fake);
    assert_int_equal(impmem_region_commit(v.region, 6 * CHUNK, NULL, &v.w.why), IMPMEM_ERR_UNSUPPORTED);
    assert_same_state(fake_snapshot(v.w.fake), held);
    close_vm(&v);
}

/* ---- reservations ---------------------------------------------------------------------------------------------------- */

static void a_refused_reservation_is_typed_and_has_a_way_out(void **state)
{
    (void)state;
    vm v;
    open_vm(&v, NULL);
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    impmem_region *region = NULL;
    info.bytes = 8192 * IMPMEM_MIB; /* more than the fake's 4 GiB of addresses */
    assert_int_equal(impmem_backend_reserve(v.backend, &info, &region, &v.w.why), IMPMEM_ERR_OUT_OF_ADDRESS_SPACE);
    assert_true(v.w.why.hint[0] != '\0');
    assert_null(region);

    impmem_cuda_vmm_options o = IMPMEM_CUDA_VMM_OPTIONS_INIT;
    o.chunk_bytes = CHUNK;
    impmem_backend *backend = NULL;
    bool growable = true;
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(impmem_cuda_growing_backend_create(v.w.device, &o, 8192 * IMPMEM_MIB, &backend, &growable, &why),
                     IMPMEM_OK);
    assert_false(growable);
    assert_int_equal(why.status, IMPMEM_ERR_OUT_OF_ADDRESS_SPACE);
    impmem_backend_properties p;
    impmem_backend_query(backend, &p);
    assert_string_equal(p.name, "cudaMalloc");
    assert_int_equal(impmem_backend_destroy(backend, NULL), IMPMEM_OK);
    assert_int_equal(impmem_cuda_growing_backend_create(v.w.device, &o, 16 * CHUNK, &backend, &growable, &why), IMPMEM_OK);
    assert_true(growable);
    assert_int_equal(impmem_backend_destroy(backend, NULL), IMPMEM_OK);
    o.chunk_bytes = CHUNK + 1;
    assert_int_equal(impmem_cuda_growing_backend_create(v.w.device, &o, 16 * CHUNK, &backend, &growable, &why),
                     IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cuda_growing_backend_create(v.w.device, &o, 0, &backend, &growable, &why),
                     IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cuda_growing_backend_create(NULL, &o, 1, &backend, &growable, &why),
                     IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cuda_growing_backend_create(v.w.device, NULL, UINT64_MAX, &backend, &growable, NULL),
                     IMPMEM_OK);
    assert_false(growable);
    assert_int_equal(impmem_backend_destroy(backend, NULL), IMPMEM_OK);
    fake_fail_call(v.w.fake, IMPMEM__CALL_context_push, 1, 999, false);
    assert_int_equal(impmem_cuda_growing_backend_create(v.w.device, NULL, CHUNK, &backend, &growable, &why),
                     IMPMEM_ERR_DRIVER);
    fake_heal(v.w.fake);
    close_vm(&v);
}

/* The alignment that is asked, then the driver's own. */
static void a_reservation_falls_back_to_the_drivers_alignment(void **state)
{
    (void)state;
    vm v;
    open_vm(&v, NULL);
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    impmem_region *region = NULL;
    info.bytes = CHUNK;
    fake_fail_call(v.w.fake, IMPMEM__CALL_address_reserve, 1, 999, false);
    assert_int_equal(impmem_backend_reserve(v.backend, &info, &region, NULL), IMPMEM_OK);
    assert_int_equal(impmem_backend_release(&region, NULL), IMPMEM_OK);
    info.alignment = 2 * IMPMEM_MIB; /* above the granule: no smaller one will do */
    fake_fail_call(v.w.fake, IMPMEM__CALL_address_reserve, 1, 999, false);
    assert_int_equal(impmem_backend_reserve(v.backend, &info, &region, NULL), IMPMEM_ERR_OUT_OF_ADDRESS_SPACE);
    fake_fail_call(v.w.fake, IMPMEM__CALL_address_reserve, 1, IMPMEM__CODE_CAPTURE_FIRST, true);
    assert_int_equal(impmem_backend_reserve(v.backend, &info, &region, NULL), IMPMEM_ERR_CAPTURING);
    fake_fail_call(v.w.fake, IMPMEM__CALL_chunk_create, 1, 2, false);
    assert_int_equal(impmem_backend_acquire(v.backend, &info, &region, NULL), IMPMEM_ERR_OUT_OF_DEVICE_MEMORY);
    fake_heal(v.w.fake);
    assert_int_equal(impmem_backend_acquire(v.backend, &info, &region, NULL), IMPMEM_OK);
    assert_int_equal(impmem_backend_release(&region, NULL), IMPMEM_OK);
    close_vm(&v);
}

static void kept_chunks_spare_the_next_commit_its_creation(void **state)
{
    (void)state;
    impmem_cuda_vmm_options o = IMPMEM_CUDA_VMM_OPTIONS_INIT;
    o.keep_bytes = 3 * CHUNK;
    vm v;
    open_vm(&v, &o);
    assert_int_equal(impmem_region_commit(v.region, 5 * CHUNK, NULL, NULL), IMPMEM_OK);
    assert_int_equal(impmem_region_commit(v.region, 0, NULL, NULL), IMPMEM_OK);
    assert_int_equal(stats_of(&v).kept_bytes, 3 * CHUNK);
    assert_int_equal(committed(&v.w, IMPMEM_ACCOUNT_DEVICE), 0);
    assert_int_equal(impmem_region_commit(v.region, 4 * CHUNK, NULL, NULL), IMPMEM_OK);
    assert_int_equal(stats_of(&v).chunks_created, 6);
    assert_int_equal(stats_of(&v).chunks_reused, 3);
    assert_int_equal(impmem_region_commit(v.region, 0, NULL, NULL), IMPMEM_OK);
    assert_int_equal(impmem_cuda_vmm_trim(v.backend, CHUNK), IMPMEM_OK);
    assert_int_equal(stats_of(&v).kept_bytes, CHUNK);
    fake_fail_call(v.w.fake, IMPMEM__CALL_context_push, 1, 999, false);
    assert_int_equal(impmem_cuda_vmm_trim(v.backend, 0), IMPMEM_ERR_DRIVER);
    assert_int_equal(impmem_cuda_vmm_trim(NULL, 0), IMPMEM_ERR_INVALID_ARGUMENT);
    fake_heal(v.w.fake);
    close_vm(&v);
}

/* More chunks that can't be released than the table of kept ones remembers: they are counted, and the region still goes. */
static void chunks_beyond_memory_are_counted_as_stuck(void **state)
{
    (void)state;
    enum { MANY = 300 };
    vm v;
    open_vm(&v, NULL);
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    impmem_region *region = NULL;
    info.bytes = (uint64_t)MANY * CHUNK;
    assert_int_equal(impmem_backend_acquire(v.backend, &info, &region, NULL), IMPMEM_OK);
    fake_fail_call(v.w.fake, IMPMEM__CALL_chunk_release, 1, 999, true);
    assert_int_equal(impmem_backend_release(&region, NULL), IMPMEM_OK);
    assert_int_equal(stats_of(&v).stuck_bytes, (uint64_t)MANY * CHUNK);
    fake_heal(v.w.fake);
    assert_int_equal(impmem_cuda_vmm_trim(v.backend, 0), IMPMEM_OK);
    assert_int_equal(stats_of(&v).stuck_bytes, (uint64_t)(MANY - 256) * CHUNK);
    for (int i = 0; i < FAKE_MAX; i++) memset(&v.w.fake->chunk[i], 0, sizeof v.w.fake->chunk[i]); /* the process ends */
    close_vm(&v);
}

/* ---- export ---------------------------------------------------------------------------------------------------------- */

static void descriptors_are_closed_with_what_they_export(void **state)
{
    (void)state;
    impmem_cuda_vmm_options o = IMPMEM_CUDA_VMM_OPTIONS_INIT;
    o.exportable = true;
    vm v;
    open_vm(&v, &o);
    int d[4] = {0};
    assert_int_equal(impmem_region_commit(v.region, 4 * CHUNK, NULL, NULL), IMPMEM_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(impmem_cuda_export(v.region, (uint64_t)i * CHUNK + 5, &d[i], NULL), IMPMEM_OK);
    assert_int_equal(stats_of(&v).live_descriptors, 4);
    assert_int_equal(impmem_cuda_export_close(v.region, d[0]), IMPMEM_OK);
    assert_int_equal(impmem_cuda_export_close(v.region, d[0]), IMPMEM_ERR_NOT_FOUND);
    assert_int_equal(impmem_region_commit(v.region, 2 * CHUNK, NULL, NULL), IMPMEM_OK);
    assert_int_equal(stats_of(&v).live_descriptors, 1);
    assert_int_equal(impmem_cuda_export(v.region, 3 * CHUNK, &d[0], NULL), IMPMEM_ERR_STATE);
    assert_int_equal(impmem_cuda_export(v.region, 1000 * CHUNK, &d[0], NULL), IMPMEM_ERR_STATE);
    fake_fail_call(v.w.fake, IMPMEM__CALL_chunk_export, 1, 999, false);
    assert_int_equal(impmem_cuda_export(v.region, 0, &d[0], NULL), IMPMEM_ERR_DRIVER);
    fake_heal(v.w.fake);
    int many = 0;
    impmem_status st = IMPMEM_OK;
    while (!st) {
        st = impmem_cuda_export(v.region, 0, &d[0], NULL);
        many += !st;
    }
    assert_int_equal(st, IMPMEM_ERR_EXHAUSTED);
    assert_int_equal(many, 63);
    assert_int_equal(impmem_cuda_export(NULL, 0, &d[0], NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cuda_export(v.region, 0, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cuda_export_close(NULL, 0), IMPMEM_ERR_INVALID_ARGUMENT);
    close_vm(&v); /* the fake counts open descriptors: none may be left */
}

static void memory_that_can_not_be_exported_says_so_before_the_driver_is_asked(void **state)
{
    (void)state;
    vm v;
    open_vm(&v, NULL);
    int d = 0;
    assert_int_equal(impmem_region_commit(v.region, CHUNK, NULL, NULL), IMPMEM_OK);
    assert_int_equal(impmem_cuda_export(v.region, 0, &d, &v.w.why), IMPMEM_ERR_UNSUPPORTED);
    assert_true(v.w.why.hint[0] != '\0');
    impmem_backend *plain = NULL;
    impmem_region *region = NULL;
    impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
    info.bytes = 1;
    assert_int_equal(impmem_cuda_malloc_backend_create(v.w.device, NULL, &plain, NULL), IMPMEM_OK);
    assert_int_equal(impmem_backend_acquire(plain, &info, &region, NULL), IMPMEM_OK);
    assert_int_equal(impmem_cuda_export(region, 0, &d, &v.w.why), IMPMEM_ERR_UNSUPPORTED);
    assert_int_equal(impmem_cuda_export_close(region, 3), IMPMEM_ERR_NOT_FOUND);
    assert_int_equal(fake_count(v.w.fake, IMPMEM__CALL_chunk_export), 0);
    impmem_cuda_vmm_stats s;
    assert_int_equal(impmem_cuda_vmm_query(plain, &s), IMPMEM_ERR_FOREIGN);
    assert_int_equal(impmem_cuda_vmm_trim(plain, 0), IMPMEM_ERR_FOREIGN);
    assert_int_equal(impmem_cuda_vmm_query(NULL, &s), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cuda_vmm_query(plain, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_backend_release(&region, NULL), IMPMEM_OK);
    assert_int_equal(impmem_backend_destroy(plain, NULL), IMPMEM_OK);
    close_vm(&v);
}

static void senseless_options_are_refused(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    impmem_backend *backend = NULL;
    const impmem_cuda_vmm_options good = IMPMEM_CUDA_VMM_OPTIONS_INIT;
    const int32_t self[] = {0}, below[] = {-1};
    impmem_cuda_vmm_options o = good;
    assert_int_equal(impmem_cuda_vmm_backend_create(NULL, &o, &backend, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cuda_vmm_backend_create(w.device, &o, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    o.version = 2;
    assert_int_equal(impmem_cuda_vmm_backend_create(w.device, &o, &backend, NULL), IMPMEM_ERR_VERSION);
    o = good;
    o.chunk_bytes = 65537;
    assert_int_equal(impmem_cuda_vmm_backend_create(w.device, &o, &backend, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    o = good;
    o.n_peers = 17;
    o.peers = self;
    assert_int_equal(impmem_cuda_vmm_backend_create(w.device, &o, &backend, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    o.n_peers = 1;
    assert_int_equal(impmem_cuda_vmm_backend_create(w.device, &o, &backend, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    o.peers = below;
    assert_int_equal(impmem_cuda_vmm_backend_create(w.device, &o, &backend, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    o.peers = NULL;
    assert_int_equal(impmem_cuda_vmm_backend_create(w.device, &o, &backend, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    w.device->facts.exportable = false;
    o = good;
    o.exportable = true;
    assert_int_equal(impmem_cuda_vmm_backend_create(w.device, &o, &backend, NULL), IMPMEM_ERR_UNSUPPORTED);
    w.device->facts.virtual_memory = false;
    assert_int_equal(impmem_cuda_vmm_backend_create(w.device, NULL, &backend, NULL), IMPMEM_ERR_UNSUPPORTED);
    assert_null(backend);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_backend_conforms),
        cmocka_unit_test(a_commit_fails_at_every_call_and_leaves_nothing),
        cmocka_unit_test(a_commit_whose_undo_fails_too_recovers),
        cmocka_unit_test(a_full_device_is_told_with_its_code),
        cmocka_unit_test(a_decommit_is_all_or_nothing),
        cmocka_unit_test(a_release_that_fails_can_be_tried_again),
        cmocka_unit_test(calls_come_in_the_order_that_the_driver_needs),
        cmocka_unit_test(every_listed_device_gets_access),
        cmocka_unit_test(a_refused_reservation_is_typed_and_has_a_way_out),
        cmocka_unit_test(a_reservation_falls_back_to_the_drivers_alignment),
        cmocka_unit_test(kept_chunks_spare_the_next_commit_its_creation),
        cmocka_unit_test(chunks_beyond_memory_are_counted_as_stuck),
        cmocka_unit_test(descriptors_are_closed_with_what_they_export),
        cmocka_unit_test(memory_that_can_not_be_exported_says_so_before_the_driver_is_asked),
        cmocka_unit_test(senseless_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
