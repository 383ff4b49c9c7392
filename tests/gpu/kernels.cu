// Kernels of the GPU tests. tools/gen-kernels.sh compiles this to PTX text and writes it into tests/gpu/kernels_ptx.h.
#include <stdint.h>

struct pair {
    const uint32_t *a;
    const uint32_t *b;
};

// Counts words that differ. One block of threads a pair.
extern "C" __global__ void __launch_bounds__(256) test_compare(const pair *pairs, uint64_t words, unsigned long long *differences)
{
    const pair p = pairs[blockIdx.x];
    unsigned long long n = 0;
    for (uint64_t i = threadIdx.x; i < words; i += blockDim.x) n += p.a[i] != p.b[i];
    if (n) atomicAdd(differences, n);
}

// Word i of the range becomes seed * 2654435761 + i.
extern "C" __global__ void __launch_bounds__(256) test_pattern(uint32_t *to, uint64_t words, uint32_t seed)
{
    uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += stride)
        to[i] = seed * 2654435761u + (uint32_t)i;
}

// One byte.
extern "C" __global__ void test_poke(char *at, int value)
{
    *at = (char)value;
}

// Keeps one block of threads busy for about this many clock ticks.
extern "C" __global__ void test_spin(long long ticks)
{
    long long start = clock64();
    while (clock64() - start < ticks) {}
}
