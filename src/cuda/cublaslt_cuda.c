/* The table of cuBLASLt as the library itself fills it, opened at run time: nothing links against it. */
#define _GNU_SOURCE
#include <cublasLt.h>
#include <dlfcn.h>
#include <string.h>

#include "cuda/cublaslt.h"

/* X(name): every function that is used. */
#define SYMBOL_MAP(X)                                                                                                      \
    X(cublasLtGetVersion)                                                                                                  \
    X(cublasLtCreate)                                                                                                      \
    X(cublasLtDestroy)                                                                                                     \
    X(cublasLtMatmul)                                                                                                      \
    X(cublasLtMatmulDescCreate)                                                                                            \
    X(cublasLtMatmulDescDestroy)                                                                                           \
    X(cublasLtMatrixLayoutCreate)                                                                                          \
    X(cublasLtMatrixLayoutDestroy)                                                                                         \
    X(cublasLtMatmulPreferenceCreate)                                                                                      \
    X(cublasLtMatmulPreferenceDestroy)                                                                                     \
    X(cublasLtMatmulPreferenceSetAttribute)                                                                                \
    X(cublasLtMatmulAlgoGetHeuristic)

enum {
#define PLACE(name) AT_##name,
    SYMBOL_MAP(PLACE)
#undef PLACE
        N_PLACES
};
_Static_assert((int)N_PLACES <= 16, "the table has a place for every symbol");

/* The declared type of a function of the library, without a reference to it. */
#define CALL(b, name) ((__typeof__(&name))(b)->symbol[AT_##name])

static int create(impmem__blas *b, void **out)
{
    cublasLtHandle_t handle = NULL;
    int code = (int)CALL(b, cublasLtCreate)(&handle);
    if (!code) *out = handle;
    return code;
}

static int destroy(impmem__blas *b, void *handle)
{
    return (int)CALL(b, cublasLtDestroy)(handle);
}

static uint64_t version(impmem__blas *b)
{
    return (uint64_t)CALL(b, cublasLtGetVersion)();
}

/* What one matmul needs; each NULL until it is made. */
typedef struct description {
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulPreference_t preference;
} description;

static int describe(impmem__blas *t, const impmem_matmul_shape *s, uint64_t workspace_bytes, description *d)
{
    int code = (int)CALL(t, cublasLtMatmulDescCreate)(&d->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (!code) code = (int)CALL(t, cublasLtMatrixLayoutCreate)(&d->a, CUDA_R_16F, s->m, s->k, (int64_t)s->m);
    if (!code) code = (int)CALL(t, cublasLtMatrixLayoutCreate)(&d->b, CUDA_R_16F, s->k, s->n, (int64_t)s->k);
    if (!code) code = (int)CALL(t, cublasLtMatrixLayoutCreate)(&d->c, CUDA_R_16F, s->m, s->n, (int64_t)s->m);
    if (!code) code = (int)CALL(t, cublasLtMatmulPreferenceCreate)(&d->preference);
    if (!code)
        code = (int)CALL(t, cublasLtMatmulPreferenceSetAttribute)(d->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                                  &workspace_bytes, sizeof workspace_bytes);
    return code;
}

static void forget(impmem__blas *t, description *d)
{
    if (d->preference) (void)CALL(t, cublasLtMatmulPreferenceDestroy)(d->preference);
    if (d->c) (void)CALL(t, cublasLtMatrixLayoutDestroy)(d->c);
    if (d->b) (void)CALL(t, cublasLtMatrixLayoutDestroy)(d->b);
    if (d->a) (void)CALL(t, cublasLtMatrixLayoutDestroy)(d->a);
    if (d->operation) (void)CALL(t, cublasLtMatmulDescDestroy)(d->operation);
}

static int matmul(impmem__blas *t, void *handle, const impmem_matmul_shape *shape, const void *x, const void *y, void *z,
                  void *workspace, uint64_t workspace_bytes, void *stream)
{
    description d;
    memset(&d, 0, sizeof d);
    cublasLtMatmulHeuristicResult_t best;
    memset(&best, 0, sizeof best);
    int found = 0;
    int code = describe(t, shape, workspace_bytes, &d);
    if (!code)
        code = (int)CALL(t, cublasLtMatmulAlgoGetHeuristic)(handle, d.operation, d.a, d.b, d.c, d.c, d.preference, 1, &best,
                                                            &found);
    if (!code && found == 0) code = IMPMEM__BLAS_NO_ALGORITHM;
    const float one = 1.0f, none = 0.0f;
    if (!code)
        code = (int)CALL(t, cublasLtMatmul)(handle, d.operation, &one, x, d.a, y, d.b, &none, z, d.c, z, d.c, &best.algo,
                                            workspace, (size_t)workspace_bytes, stream);
    forget(t, &d);
    return code;
}

impmem_status impmem__blas_fill(impmem__blas *blas, impmem_error *why)
{
    static const char *const libraries[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
    static const char *const names[] = {
#define NAME(name) #name,
        SYMBOL_MAP(NAME)
#undef NAME
    };
    memset(blas, 0, sizeof *blas);
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0] && !blas->library; i++)
        blas->library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    if (!blas->library)
        return impmem__error_set(why, IMPMEM_ERR_UNSUPPORTED, "cuBLASLt", "the library is not on this machine");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *symbol = dlsym(blas->library, names[i]);
        if (!symbol) {
            impmem__blas_empty(blas);
            return impmem__error_set(why, IMPMEM_ERR_UNSUPPORTED, "cuBLASLt", "the library lacks %s", names[i]);
        }
        memcpy(&blas->symbol[i], &symbol, sizeof symbol);
    }
    blas->create = create;
    blas->destroy = destroy;
    blas->matmul = matmul;
    blas->version = version;
    return IMPMEM_OK;
}

void impmem__blas_empty(impmem__blas *blas)
{
    /* Never unmapped: the library keeps threads and state of the driver's that outlive a handle. */
    blas->library = NULL;
}
