/* A consumer of the installed CUDA archive: without a driver it links, runs and says so. */
#include <impmem/cuda.h>

int main(void)
{
    uint32_t n = 0;
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_status st = impmem_cuda_device_count(&n, &why);
    if (st && st != IMPMEM_ERR_NO_DRIVER && st != IMPMEM_ERR_NO_DEVICE) return 1;
    if (st && why.message[0] == '\0') return 2;
    if (!st && n == 0) return 3;
    const impmem_cuda_control what = {64 << 20, UINT64_C(1) << 34, 1, 1, 1};
    uint64_t bytes = 0;
    if (impmem_cuda_control_bytes(&what, &bytes) || bytes == 0) return 4;
    if (impmem_residency_classify(200000000000u, 0, 1u << 30) != IMPMEM_RESIDENCY_SPILLED) return 5;
    return 0;
}
