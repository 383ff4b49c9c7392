// The room's kernels. tools/gen-kernels.sh compiles this to PTX text and writes it into src/cuda/kernels.c.
#include <stdint.h>

struct pair {
    const char *from;
    char *to;
};

static const uint32_t threads = 256;
static const uint64_t piece = 65536; // bytes that one block of threads copies

// grid: n * ceil(bytes / piece) blocks of 256 threads.
extern "C" __global__ void __launch_bounds__(256) impmem_copy_blocks(const pair *pairs, uint64_t bytes)
{
    uint64_t pieces = (bytes + piece - 1) / piece;
    const pair p = pairs[blockIdx.x / pieces];
    uint64_t begin = blockIdx.x % pieces * piece;
    uint64_t length = bytes - begin < piece ? bytes - begin : piece;
    const char *from = p.from + begin;
    char *to = p.to + begin;
    uint64_t done = 0;
    if (((uintptr_t)from | (uintptr_t)to) % 16 == 0) {
        const uint4 *f = (const uint4 *)from;
        uint4 *t = (uint4 *)to;
        uint64_t whole = length / 16;
        uint64_t i = threadIdx.x;
        for (; i + 7 * threads < whole; i += 8 * threads) {
            uint4 v[8];
#pragma unroll
            for (int k = 0; k < 8; k++) v[k] = __ldcs(f + i + k * threads);
#pragma unroll
            for (int k = 0; k < 8; k++) __stcs(t + i + k * threads, v[k]);
        }
        for (; i < whole; i += threads) t[i] = f[i];
        done = whole * 16;
    }
    for (uint64_t i = done + threadIdx.x; i < length; i += threads) to[i] = from[i];
}

// Adds every word, rotated by its place, to *out: words that swap places change the sum.
extern "C" __global__ void __launch_bounds__(256) impmem_sum(const uint32_t *words, uint64_t n, unsigned long long *out)
{
    unsigned long long sum = 0;
    uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
        sum += (unsigned long long)words[i] * (2 * (i & 0xffff) + 1);
    atomicAdd(out, sum);
}
