/* A consumer of the installed cuBLASLt archive: the workspace ladder over an arena with room for its lowest rung. */
#include <impmem/cublaslt.h>

static impmem_status take(void *context, uint64_t bytes, void **out)
{
    if (bytes > UINT64_C(2) << 20) return IMPMEM_ERR_EXHAUSTED;
    *out = context;
    return IMPMEM_OK;
}

int main(void)
{
    char memory = 0;
    void *workspace = NULL;
    uint64_t bytes = 0;
    if (impmem_cublaslt_take_workspace(take, &memory, UINT64_C(100) << 20, &workspace, &bytes)) return 1;
    if (workspace != &memory || bytes != UINT64_C(2) << 20) return 2;
    impmem_cublaslt *lt = NULL;
    if (impmem_cublaslt_open(NULL, NULL, &lt, NULL) != IMPMEM_ERR_INVALID_ARGUMENT || lt) return 3;
    return 0;
}
