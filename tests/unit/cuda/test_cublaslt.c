/* The workspace ladder, planned shapes, and measuring cuBLASLt, over a library made for the test. */
#include "world.h"

#include "cuda/cublaslt.h"

typedef struct fake_blas {
    impmem__blas table;
    fake_driver *driver;
    int create_code, matmul_code;
    int handles, matmuls;
    uint64_t workspace_bytes;
    uint64_t reserve; /* what a first matmul makes the library take */
} fake_blas;

static fake_blas *the(impmem__blas *b)
{
    return b->library;
}

static int b_create(impmem__blas *b, void **out)
{
    if (the(b)->create_code) return the(b)->create_code;
    the(b)->handles++;
    *out = the(b);
    return 0;
}
static int b_destroy(impmem__blas *b, void *handle)
{
    (void)handle;
    the(b)->handles--;
    return 0;
}
static int b_matmul(impmem__blas *b, void *handle, const impmem_matmul_shape *shape, const void *x, const void *y, void *z,
                    void *workspace, uint64_t workspace_bytes, void *stream)
{
    (void)handle, (void)shape, (void)x, (void)y, (void)z, (void)workspace, (void)stream;
    if (the(b)->matmul_code) return the(b)->matmul_code;
    the(b)->matmuls++;
    the(b)->workspace_bytes = workspace_bytes;
    if (the(b)->driver) the(b)->driver->unseen = the(b)->reserve;
    return 0;
}
static uint64_t b_version(impmem__blas *b)
{
    (void)b;
    return 130105;
}

static void make_blas(fake_blas *f, fake_driver *driver)
{
    memset(f, 0, sizeof *f);
    f->table = (impmem__blas){
        .create = b_create, .destroy = b_destroy, .matmul = b_matmul, .version = b_version, .library = f};
    f->driver = driver;
}

/* ---- the ladder ------------------------------------------------------------------------------------------------------ */

typedef struct arena {
    uint64_t room;
    uint64_t asked[8];
    int n;
    impmem_status refusal;
} arena;

static impmem_status take(void *context, uint64_t bytes, void **out)
{
    arena *a = context;
    a->asked[a->n++] = bytes;
    if (bytes > a->room) return a->refusal;
    *out = a;
    return IMPMEM_OK;
}

static void the_ladder_goes_down_until_the_arena_gives(void **state)
{
    (void)state;
    static const struct {
        uint64_t planned, room, got;
        int tries;
    } rows[] = {{100, 100, 100, 1}, {100, 64, 64, 2}, {100, 40, 32, 3}, {100, 31, 8, 4}, {100, 2, 2, 5},
                {0, 70, 64, 1},     {64, 63, 32, 2},  {40, 33, 32, 2},  {8, 7, 2, 2},    {1, 1, 1, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        arena a = {rows[i].room * IMPMEM_MIB, {0}, 0, i % 2 ? IMPMEM_ERR_EXHAUSTED : IMPMEM_ERR_LINE_EXCEEDED};
        void *memory = NULL;
        uint64_t bytes = 0;
        assert_int_equal(impmem_cublaslt_take_workspace(take, &a, rows[i].planned * IMPMEM_MIB, &memory, &bytes),
                         IMPMEM_OK);
        assert_int_equal(bytes, rows[i].got * IMPMEM_MIB);
        assert_ptr_equal(memory, &a);
        assert_int_equal(a.n, rows[i].tries);
    }
    arena none = {IMPMEM_MIB, {0}, 0, IMPMEM_ERR_EXHAUSTED};
    void *memory = NULL;
    uint64_t bytes = 7;
    assert_int_equal(impmem_cublaslt_take_workspace(take, &none, 0, &memory, &bytes), IMPMEM_ERR_EXHAUSTED);
    assert_int_equal(none.n, 4);
    assert_int_equal(bytes, 7);
    none = (arena){0, {0}, 0, IMPMEM_ERR_STATE};
    assert_int_equal(impmem_cublaslt_take_workspace(take, &none, 0, &memory, &bytes), IMPMEM_ERR_STATE);
    assert_int_equal(none.n, 1);
    assert_int_equal(impmem_cublaslt_take_workspace(NULL, &none, 0, &memory, &bytes), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cublaslt_take_workspace(take, &none, 0, NULL, &bytes), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cublaslt_take_workspace(take, &none, 0, &memory, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
}

/* ---- matmuls --------------------------------------------------------------------------------------------------------- */

static _Alignas(256) char workspace[1024];

static void shapes_beyond_the_plan_fail_cleanly(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    fake_blas f;
    make_blas(&f, NULL);
    impmem_cublaslt *lt = NULL;
    impmem_cublaslt_options o = IMPMEM_CUBLASLT_OPTIONS_INIT;
    o.workspace = workspace;
    o.workspace_bytes = sizeof workspace;
    o.max_m = 10;
    o.max_n = 20;
    assert_int_equal(impmem__cublaslt_open(w.device, &o, &f.table, &lt, &w.why), IMPMEM_OK);
    assert_int_equal(impmem_cublaslt_version(lt), 130105);
    char a[1], b[1], c[1];
    impmem_matmul_shape s = {10, 20, 1000000};
    assert_int_equal(impmem_cublaslt_matmul(lt, &s, a, b, c, NULL, &w.why), IMPMEM_OK);
    assert_int_equal(f.workspace_bytes, sizeof workspace);
    s.m = 11;
    assert_int_equal(impmem_cublaslt_matmul(lt, &s, a, b, c, NULL, &w.why), IMPMEM_ERR_LINE_EXCEEDED);
    s.m = 10;
    s.n = 21;
    assert_int_equal(impmem_cublaslt_matmul(lt, &s, a, b, c, NULL, &w.why), IMPMEM_ERR_LINE_EXCEEDED);
    assert_int_equal(f.matmuls, 1);
    s.n = 20;
    f.matmul_code = IMPMEM__BLAS_NO_ALGORITHM;
    assert_int_equal(impmem_cublaslt_matmul(lt, &s, a, b, c, NULL, &w.why), IMPMEM_ERR_UNSUPPORTED);
    f.matmul_code = 13;
    assert_int_equal(impmem_cublaslt_matmul(lt, &s, a, b, c, NULL, &w.why), IMPMEM_ERR_DRIVER);
    assert_int_equal(w.why.driver_code, 13);
    fake_fail_call(w.fake, IMPMEM__CALL_context_push, 1, 999, false);
    assert_int_equal(impmem_cublaslt_matmul(lt, &s, a, b, c, NULL, &w.why), IMPMEM_ERR_DRIVER);
    assert_int_equal(impmem_cublaslt_matmul(NULL, &s, a, b, c, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cublaslt_matmul(lt, NULL, a, b, c, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cublaslt_matmul(lt, &s, NULL, b, c, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cublaslt_matmul(lt, &s, a, NULL, c, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cublaslt_matmul(lt, &s, a, b, NULL, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    s.k = 0;
    assert_int_equal(impmem_cublaslt_matmul(lt, &s, a, b, c, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    impmem_cublaslt_close(lt);
    impmem_cublaslt_close(NULL);
    assert_int_equal(impmem_cublaslt_version(NULL), 0);
    assert_int_equal(f.handles, 0);
    close_world(&w);
}

static void opening_that_fails_leaves_nothing(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    fake_blas f;
    make_blas(&f, NULL);
    impmem_cublaslt *lt = NULL;
    impmem_cublaslt_options o = IMPMEM_CUBLASLT_OPTIONS_INIT;
    f.create_code = 3;
    assert_int_equal(impmem__cublaslt_open(w.device, &o, &f.table, &lt, &w.why), IMPMEM_ERR_DRIVER);
    fake_fail_call(w.fake, IMPMEM__CALL_context_push, 1, 999, false);
    assert_int_equal(impmem__cublaslt_open(w.device, &o, &f.table, &lt, &w.why), IMPMEM_ERR_DRIVER);
    fake_heal(w.fake);
    assert_int_equal(impmem_cublaslt_open(w.device, NULL, &lt, &w.why), IMPMEM_ERR_UNSUPPORTED); /* this build has none */
    o.version = 2;
    assert_int_equal(impmem__cublaslt_open(w.device, &o, &f.table, &lt, &w.why), IMPMEM_ERR_VERSION);
    o.version = 1;
    o.workspace = workspace;
    assert_int_equal(impmem__cublaslt_open(w.device, &o, &f.table, &lt, &w.why), IMPMEM_ERR_INVALID_ARGUMENT);
    o.workspace_bytes = 16;
    o.workspace = workspace + 1;
    assert_int_equal(impmem__cublaslt_open(w.device, &o, &f.table, &lt, &w.why), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cublaslt_open(NULL, &o, &lt, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cublaslt_open(w.device, &o, NULL, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_null(lt);
    assert_int_equal(f.handles, 0);
    close_world(&w);
}

/* ---- measuring ------------------------------------------------------------------------------------------------------- */

static int g_capture_begin(impmem__driver *d, void *stream)
{
    FAKE_ENTER(capture_begin, stream, 0);
    return 0;
}
static int g_capture_end(impmem__driver *d, void *stream, void **out)
{
    FAKE_ENTER(capture_end, stream, 0);
    f->graphs++;
    *out = &f->graphs;
    return 0;
}
static int g_instantiate(impmem__driver *d, void **out, void *graph)
{
    FAKE_ENTER(graph_instantiate, graph, 0);
    *out = graph;
    return 0;
}
static int g_launch(impmem__driver *d, void *executable, void *stream)
{
    FAKE_ENTER(graph_launch, executable, 0);
    (void)stream;
    return 0;
}
static int g_destroy(impmem__driver *d, void *graph, void *executable)
{
    ((fake_driver *)d->library)->graphs--;
    FAKE_ENTER(graph_destroy, graph, 0);
    (void)executable;
    return 0;
}

typedef struct measuring {
    world w;
    fake_blas blas;
    uint64_t bytes;
} measuring;

static impmem_status run_measure(void *context)
{
    measuring *m = context;
    m->w.fake->unseen = 0;
    impmem_status st = impmem__cublaslt_measure(m->w.device, &m->blas.table, &m->bytes, NULL, 0, &m->w.why);
    m->w.fake->unseen = 0;
    return st;
}

static void undo_measure(void *context)
{
    (void)context;
}

static void what_the_library_took_over_its_start_is_its_reserve(void **state)
{
    (void)state;
    measuring m;
    memset(&m, 0, sizeof m);
    open_world(&m.w);
    make_blas(&m.blas, m.w.fake);
    m.blas.reserve = 70 * IMPMEM_MIB;
    m.w.fake->seconds_per_byte = 1e-12;
    impmem__driver *d = &m.w.device->driver;
    d->capture_begin = g_capture_begin;
    d->capture_end = g_capture_end;
    d->graph_instantiate = g_instantiate;
    d->graph_launch = g_launch;
    d->graph_destroy = g_destroy;
    char libraries[64] = "";
    uint64_t bytes = 0;
    assert_int_equal(impmem__cublaslt_measure(m.w.device, &m.blas.table, &bytes, libraries, sizeof libraries, &m.w.why),
                     IMPMEM_OK);
    assert_int_equal(bytes, 70 * IMPMEM_MIB);
    assert_string_equal(libraries, "cublasLt 13.1.5");
    assert_true(m.blas.matmuls >= 8); /* bare and captured */
    assert_int_equal(m.blas.handles, 0);
    m.w.fake->unseen = 0;
    sweep s = {m.w.fake, run_measure, undo_measure, &m, IMPMEM__CODE_OUT_OF_MEMORY, true};
    assert_true(run_sweep(&s) >= 15);
    assert_int_equal(m.w.fake->graphs, 0);
    assert_int_equal(m.blas.handles, 0);
    m.blas.matmul_code = 7;
    assert_int_equal(run_measure(&m), IMPMEM_ERR_DRIVER);
    assert_int_equal(impmem_cublaslt_measure(m.w.device, &bytes, NULL, 0, &m.w.why), IMPMEM_ERR_UNSUPPORTED);
    assert_int_equal(impmem_cublaslt_measure(NULL, &bytes, NULL, 0, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_cublaslt_measure(m.w.device, NULL, NULL, 0, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    close_world(&m.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ladder_goes_down_until_the_arena_gives),
        cmocka_unit_test(shapes_beyond_the_plan_fail_cleanly),
        cmocka_unit_test(opening_that_fails_leaves_nothing),
        cmocka_unit_test(what_the_library_took_over_its_start_is_its_reserve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
