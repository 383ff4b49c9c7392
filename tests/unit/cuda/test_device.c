/* Opening, asking and closing a device. */
#include "world.h"
#include "impmem/control.h"

static void a_build_without_a_driver_says_so(void **state)
{
    (void)state;
    world w;
    impmem_cuda_device *device = NULL;
    uint32_t n = 77;
    memset(&w, 0, sizeof w);
    open_ledger(&w, UINT64_MAX);
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(impmem_cuda_device_count(&n, &why), IMPMEM_ERR_NO_DRIVER);
    assert_int_equal(n, 77);
    assert_int_equal(impmem_cuda_device_open(w.ledger, NULL, &device, &why), IMPMEM_ERR_NO_DRIVER);
    assert_null(device);
    assert_true(why.message[0] != '\0');
    assert_int_equal(impmem_cuda_device_count(NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_ledger_destroy(w.ledger, NULL), IMPMEM_OK);
}

static void the_facts_are_the_drivers(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    impmem_cuda_facts f;
    impmem_cuda_device_facts(w.device, &f);
    assert_string_equal(f.name, "test device 0");
    assert_string_equal(f.identity, "a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0");
    assert_int_equal(f.driver_version, 13000);
    assert_int_equal(f.runtime_version, 13000);
    assert_int_equal(f.compute_major, 9);
    assert_int_equal(f.compute_minor, 0);
    assert_int_equal(f.total_bytes, 1024 * IMPMEM_MIB);
    assert_int_equal(f.granule_bytes, 64 * IMPMEM_KIB);
    assert_int_equal(f.granule_recommended_bytes, 128 * IMPMEM_KIB);
    assert_true(f.virtual_memory && f.exportable && f.read_only_registration && !f.integrated);
    impmem_cuda_device_facts(NULL, &f);
    assert_string_equal(f.name, "");
    impmem_cuda_device_facts(w.device, NULL);
    close_world(&w);
}

/* A world before its ledger and its device. */
static void open_fake(world *w)
{
    memset(w, 0, sizeof *w);
    w->fake = calloc(1, sizeof *w->fake);
    assert_non_null(w->fake);
    fake_reset(w->fake);
}

static void context_and_neighbours_are_told_apart(void **state)
{
    (void)state;
    world w;
    open_fake(&w);
    w.fake->unseen = 30 * IMPMEM_MIB;
    open_ledger(&w, UINT64_MAX);
    assert_int_equal(impmem__cuda_device_open(w.ledger, NULL, &w.fake->table, &w.device, &w.why), IMPMEM_OK);
    impmem_cuda_standing s;
    assert_int_equal(impmem_cuda_standing_read(w.device, &s, &w.why), IMPMEM_OK);
    assert_true(s.context_measured);
    assert_int_equal(s.context_bytes, 100 * IMPMEM_MIB);
    assert_int_equal(s.neighbours_bytes, 30 * IMPMEM_MIB);
    assert_int_equal(s.residual_bytes, 0);

    /* A context that was there before can't be told from the neighbours. */
    impmem_cuda_device *second = NULL;
    assert_int_equal(impmem__cuda_device_open(w.ledger, NULL, &w.fake->table, &second, &w.why), IMPMEM_OK);
    assert_int_equal(impmem_cuda_standing_read(second, &s, &w.why), IMPMEM_OK);
    assert_false(s.context_measured);
    assert_int_equal(s.context_bytes, 0);
    assert_int_equal(s.neighbours_bytes, 130 * IMPMEM_MIB);
    assert_int_equal(impmem_cuda_device_close(&second, NULL), IMPMEM_OK);
    close_world(&w);
}

/* More free than there is, where nobody else holds anything: that measures no context of 0 bytes. */
static void a_reading_that_cannot_be_true_measures_no_context(void **state)
{
    (void)state;
    world w;
    open_fake(&w);
    w.fake->reported_free = 2 * w.fake->capacity;
    open_ledger(&w, UINT64_MAX);
    assert_int_equal(impmem__cuda_device_open(w.ledger, NULL, &w.fake->table, &w.device, &w.why), IMPMEM_OK);
    impmem_cuda_standing s;
    assert_int_equal(impmem_cuda_standing_read(w.device, &s, &w.why), IMPMEM_ERR_BAD_VALUE);
    w.fake->reported_free = 0;
    assert_int_equal(impmem_cuda_standing_read(w.device, &s, &w.why), IMPMEM_OK);
    assert_false(s.context_measured);
    close_world(&w);
}

typedef struct opening {
    world w;
    impmem_cuda_device *device;
} opening;

static impmem_status run_open(void *context)
{
    opening *o = context;
    return impmem__cuda_device_open(o->w.ledger, NULL, &o->w.fake->table, &o->device, &o->w.why);
}

static void undo_open(void *context)
{
    opening *o = context;
    assert_int_equal(impmem_cuda_device_close(&o->device, NULL), IMPMEM_OK);
    assert_null(o->device);
}

static void opening_fails_at_every_call_and_leaves_nothing(void **state)
{
    (void)state;
    opening o;
    memset(&o, 0, sizeof o);
    open_world(&o.w);
    sweep s = {o.w.fake, run_open, undo_open, &o, 999, true};
    assert_true(run_sweep(&s) >= 10);
    close_world(&o.w);
}

static void a_device_that_is_not_there_is_no_device(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    impmem_cuda_device *device = NULL;
    impmem_cuda_device_options o = IMPMEM_CUDA_DEVICE_OPTIONS_INIT;
    o.ordinal = 2;
    assert_int_equal(impmem__cuda_device_open(w.ledger, &o, &w.fake->table, &device, &w.why), IMPMEM_ERR_NO_DEVICE);
    o.ordinal = -1;
    assert_int_equal(impmem__cuda_device_open(w.ledger, &o, &w.fake->table, &device, &w.why), IMPMEM_ERR_NO_DEVICE);
    w.fake->devices = 0;
    assert_int_equal(impmem__cuda_device_open(w.ledger, NULL, &w.fake->table, &device, &w.why), IMPMEM_ERR_NO_DEVICE);
    fake_fail_call(w.fake, IMPMEM__CALL_device_count, 1, IMPMEM__CODE_OLD_DRIVER, false);
    assert_int_equal(impmem__cuda_device_open(w.ledger, NULL, &w.fake->table, &device, &w.why), IMPMEM_ERR_NO_DRIVER);
    assert_int_equal(w.why.driver_code, IMPMEM__CODE_OLD_DRIVER);
    assert_int_equal(w.fake->last_error, 0);
    close_world(&w);
}

static void senseless_openings_are_refused(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    impmem_cuda_device *device = NULL;
    impmem_cuda_device_options o = IMPMEM_CUDA_DEVICE_OPTIONS_INIT;
    assert_int_equal(impmem_cuda_device_open(NULL, &o, &device, &w.why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cuda_device_open(w.ledger, &o, NULL, &w.why), IMPMEM_ERR_INVALID_ARGUMENT);
    o.version = 2;
    assert_int_equal(impmem_cuda_device_open(w.ledger, &o, &device, &w.why), IMPMEM_ERR_VERSION);
    memset(&o, 0, sizeof o);
    assert_int_equal(impmem__cuda_device_open(w.ledger, &o, &w.fake->table, &device, &w.why), IMPMEM_OK);
    assert_int_equal(impmem_cuda_device_close(&device, NULL), IMPMEM_OK);
    assert_int_equal(impmem_cuda_device_close(&device, NULL), IMPMEM_OK);
    assert_int_equal(impmem_cuda_device_close(NULL, NULL), IMPMEM_OK);
    close_world(&w);
}

static void a_driver_that_lacks_a_needed_function_is_unsupported(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    impmem_cuda_device *device = NULL;
    impmem__driver table;
    memcpy(&table, &w.fake->table, sizeof table);
    table.context_push = NULL;
    snprintf(table.missing, sizeof table.missing, "cuCtxPushCurrent");
    assert_int_equal(impmem__cuda_device_open(w.ledger, NULL, &table, &device, &w.why), IMPMEM_ERR_UNSUPPORTED);
    assert_non_null(strstr(w.why.message, "cuCtxPushCurrent"));
    table.missing[0] = '\0';
    assert_int_equal(impmem__cuda_device_open(w.ledger, NULL, &table, &device, &w.why), IMPMEM_ERR_UNSUPPORTED);
    memcpy(&table, &w.fake->table, sizeof table);
    table.device_name = NULL;
    assert_int_equal(impmem__cuda_device_open(w.ledger, NULL, &table, &device, &w.why), IMPMEM_ERR_UNSUPPORTED);
    assert_int_equal(w.why.driver_code, IMPMEM__CODE_MISSING);
    close_world(&w);
}

static void a_granule_that_makes_no_sense_is_no_virtual_memory(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    impmem_cuda_device *device = NULL;
    w.fake->granule = 100;
    assert_int_equal(impmem__cuda_device_open(w.ledger, NULL, &w.fake->table, &device, &w.why), IMPMEM_OK);
    impmem_cuda_facts f;
    impmem_cuda_device_facts(device, &f);
    assert_false(f.virtual_memory || f.exportable);
    assert_int_equal(f.granule_bytes, 0);
    assert_int_equal(impmem_cuda_device_close(&device, NULL), IMPMEM_OK);
    w.fake->attribute_off = IMPMEM__ATTRIBUTE_VIRTUAL_MEMORY;
    assert_int_equal(impmem__cuda_device_open(w.ledger, NULL, &w.fake->table, &device, &w.why), IMPMEM_OK);
    impmem_cuda_device_facts(device, &f);
    assert_false(f.virtual_memory || f.exportable);
    assert_int_equal(impmem_cuda_device_close(&device, NULL), IMPMEM_OK);
    close_world(&w);
}

static void a_device_with_holders_stays_open(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    impmem_backend *backend = NULL;
    assert_int_equal(impmem_cuda_malloc_backend_create(w.device, NULL, &backend, &w.why), IMPMEM_OK);
    impmem_cuda_device *device = w.device;
    assert_int_equal(impmem_cuda_device_close(&device, &w.why), IMPMEM_ERR_LIVE_HOLDERS);
    assert_ptr_equal(device, w.device);
    assert_int_equal(impmem_backend_destroy(backend, NULL), IMPMEM_OK);
    static char page[4096];
    impmem_host_registration r = IMPMEM_HOST_REGISTRATION_NONE;
    assert_int_equal(impmem_cuda_register(w.device, page, sizeof page, NULL, &r, &w.why), IMPMEM_OK);
    assert_int_equal(impmem_cuda_device_close(&device, &w.why), IMPMEM_ERR_LIVE_HOLDERS);
    assert_int_equal(impmem_cuda_unregister(&r, NULL), IMPMEM_OK);
    close_world(&w);
}

static void readings_that_cannot_be_true_are_refused_by_name(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    uint64_t free_bytes = 1, total = 2;
    assert_int_equal(impmem_cuda_memory(w.device, &free_bytes, &total, &w.why), IMPMEM_OK);
    assert_int_equal(total, 1024 * IMPMEM_MIB);
    assert_int_equal(free_bytes, 924 * IMPMEM_MIB);
    /* 32,106 MiB in all and 55,372 MiB free: seen in the field. */
    w.fake->reported_total = 32106 * IMPMEM_MIB + 1;
    w.fake->reported_free = 55372 * IMPMEM_MIB;
    assert_int_equal(impmem_cuda_memory(w.device, &free_bytes, &total, &w.why), IMPMEM_ERR_BAD_VALUE);
    assert_string_equal(w.why.subject, "cudaMemGetInfo");
    assert_int_equal(free_bytes, 924 * IMPMEM_MIB);
    w.fake->reported_total = 1; /* reads 0 */
    w.fake->reported_free = 0;
    assert_int_equal(impmem_cuda_memory(w.device, &free_bytes, &total, &w.why), IMPMEM_ERR_BAD_VALUE);
    /* A slice of 1 GiB that is told the whole card's 141 GiB. */
    w.fake->reported_total = 141 * IMPMEM_GIB + 1;
    w.fake->reported_free = 140 * IMPMEM_GIB;
    assert_int_equal(impmem_cuda_memory(w.device, &free_bytes, &total, &w.why), IMPMEM_ERR_BAD_VALUE);
    w.fake->reported_total = w.fake->reported_free = 0;
    fake_fail_call(w.fake, IMPMEM__CALL_memory_info, 1, IMPMEM__CODE_NOT_PERMITTED, false);
    assert_int_equal(impmem_cuda_memory(w.device, &free_bytes, &total, &w.why), IMPMEM_ERR_UNSUPPORTED);
    assert_int_equal(w.fake->last_error, 0);
    fake_fail_call(w.fake, IMPMEM__CALL_context_push, 1, 999, false);
    assert_int_equal(impmem_cuda_memory(w.device, &free_bytes, &total, &w.why), IMPMEM_ERR_DRIVER);
    w.fake->last_error = 0;
    assert_int_equal(impmem_cuda_memory(NULL, &free_bytes, &total, &w.why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cuda_memory(w.device, NULL, &total, &w.why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cuda_memory(w.device, &free_bytes, NULL, &w.why), IMPMEM_ERR_INVALID_ARGUMENT);
    close_world(&w);
}

static void calls_are_counted_by_what_they_do(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    impmem_cuda_calls before, after;
    impmem_cuda_device_calls(w.device, &before);
    void *memory = NULL;
    impmem__driver *d = &w.device->driver;
    assert_int_equal(impmem__ask(d, malloc, &memory, (uint64_t)4096), 0);
    assert_int_equal(impmem__ask(d, free, memory), 0);
    impmem_cuda_device_calls(w.device, &after);
    assert_int_equal(after.acquire, before.acquire + 1);
    assert_int_equal(after.give_back, before.give_back + 1);
    assert_int_equal(after.map, before.map);
    assert_int_equal(after.other, before.other);
    impmem_cuda_device_calls(NULL, &after);
    assert_int_equal(after.other, 0);
    impmem_cuda_device_calls(w.device, NULL);
    w.fake->breach[0] = '\0'; /* the planted call was made on no device */
    close_world(&w);
}

static void codes_mean_what_they_mean(void **state)
{
    (void)state;
    static const struct {
        int code;
        impmem_status status;
    } rows[] = {{0, IMPMEM_OK},
                {2, IMPMEM_ERR_OUT_OF_PINNED_MEMORY},
                {35, IMPMEM_ERR_NO_DRIVER},
                {100, IMPMEM_ERR_NO_DEVICE},
                {101, IMPMEM_ERR_NO_DEVICE},
                {800, IMPMEM_ERR_UNSUPPORTED},
                {801, IMPMEM_ERR_UNSUPPORTED},
                {-1, IMPMEM_ERR_UNSUPPORTED},
                {900, IMPMEM_ERR_CAPTURING},
                {909, IMPMEM_ERR_CAPTURING},
                {910, IMPMEM_ERR_DRIVER},
                {899, IMPMEM_ERR_DRIVER},
                {1, IMPMEM_ERR_DRIVER}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(impmem__code_status(rows[i].code, IMPMEM_ERR_OUT_OF_PINNED_MEMORY), rows[i].status);
    assert_string_equal(impmem__call_name(IMPMEM__CALL_chunk_create), "chunk_create");
    assert_string_equal(impmem__call_name((impmem__call)-1), "?");
    assert_int_equal(impmem__call_kind_of(IMPMEM__CALL_chunk_create), IMPMEM__KIND_ACQUIRE);
    assert_int_equal(impmem__call_kind_of(IMPMEM__CALL_chunk_unmap), IMPMEM__KIND_MAP);
    assert_int_equal(impmem__call_kind_of((impmem__call)-1), IMPMEM__KIND_OTHER);
}

/* What objects really take of the control account is never above what the function says. */
static void control_bytes_cover_what_is_taken(void **state)
{
    (void)state;
    world w;
    open_fake(&w);
    open_ledger(&w, UINT64_MAX);
    uint64_t start = committed(&w, IMPMEM_ACCOUNT_PAGEABLE), fronts = 0, one = 0;
    assert_int_equal(impmem__cuda_device_open(w.ledger, NULL, &w.fake->table, &w.device, &w.why), IMPMEM_OK);
    impmem_cuda_vmm_options v = IMPMEM_CUDA_VMM_OPTIONS_INIT;
    v.chunk_bytes = 64 * IMPMEM_KIB;
    impmem_backend *backend[3] = {NULL, NULL, NULL};
    impmem_queue *queue = NULL;
    impmem_region *region[2] = {NULL, NULL};
    assert_int_equal(impmem_cuda_malloc_backend_create(w.device, NULL, &backend[0], NULL), IMPMEM_OK);
    assert_int_equal(impmem_cuda_vmm_backend_create(w.device, &v, &backend[1], NULL), IMPMEM_OK);
    assert_int_equal(impmem_cuda_pinned_backend_create(w.device, NULL, &backend[2], NULL), IMPMEM_OK);
    assert_int_equal(impmem_cuda_queue_create(w.device, NULL, &queue, NULL), IMPMEM_OK);
    for (int i = 0; i < 2; i++) {
        impmem_acquire_info info = IMPMEM_ACQUIRE_INFO_INIT;
        info.bytes = (uint64_t)(i + 1) * 33 * IMPMEM_MIB + 1;
        assert_int_equal(impmem_backend_reserve(backend[1], &info, &region[i], NULL), IMPMEM_OK);
        assert_int_equal(impmem_control_region_bytes(0, info.bytes, v.chunk_bytes, 1, &one), IMPMEM_OK);
        fronts += one;
    }
    assert_int_equal(impmem_control_backend_bytes(&one), IMPMEM_OK);
    fronts += 3 * one;
    impmem_cuda_control what = {v.chunk_bytes, 99 * IMPMEM_MIB + 2, 2, 2, 1};
    uint64_t said = 0, taken = committed(&w, IMPMEM_ACCOUNT_PAGEABLE) - start - fronts;
    assert_int_equal(impmem_cuda_control_bytes(&what, &said), IMPMEM_OK);
    assert_true(said >= taken);
    assert_true(said < taken + taken / 4);
    assert_int_equal(impmem_cuda_control_bytes(NULL, &said), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cuda_control_bytes(&what, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    what.reserved_bytes = UINT64_MAX;
    assert_int_equal(impmem_cuda_control_bytes(&what, &said), IMPMEM_ERR_OVERFLOW);
    for (int i = 0; i < 2; i++) assert_int_equal(impmem_backend_release(&region[i], NULL), IMPMEM_OK);
    impmem_queue_destroy(queue);
    for (int i = 0; i < 3; i++) assert_int_equal(impmem_backend_destroy(backend[i], NULL), IMPMEM_OK);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_build_without_a_driver_says_so),
        cmocka_unit_test(the_facts_are_the_drivers),
        cmocka_unit_test(context_and_neighbours_are_told_apart),
        cmocka_unit_test(a_reading_that_cannot_be_true_measures_no_context),
        cmocka_unit_test(opening_fails_at_every_call_and_leaves_nothing),
        cmocka_unit_test(a_device_that_is_not_there_is_no_device),
        cmocka_unit_test(senseless_openings_are_refused),
        cmocka_unit_test(a_driver_that_lacks_a_needed_function_is_unsupported),
        cmocka_unit_test(a_granule_that_makes_no_sense_is_no_virtual_memory),
        cmocka_unit_test(a_device_with_holders_stays_open),
        cmocka_unit_test(readings_that_cannot_be_true_are_refused_by_name),
        cmocka_unit_test(calls_are_counted_by_what_they_do),
        cmocka_unit_test(codes_mean_what_they_mean),
        cmocka_unit_test(control_bytes_cover_what_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
