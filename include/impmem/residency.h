/* impmem/residency.h - is device memory where it should be? Floor 2, implemented by src/cuda/residency.c.
 *
 *   impmem_residency_reading reading;
 *   impmem_cuda_residency_probe(device, base, bytes, NULL, &reading, &why);
 *   if (reading.verdict == IMPMEM_RESIDENCY_SPILLED) warn(...);          slow, not wrong: never a refusal
 *
 * Some platforms keep an allocation "successful" by moving it to host memory. Only speed tells: copies inside a spilled
 * pool run at the bus's pace. The probe times copies over the pool, and over a small reference that is resident for
 * certain.
 */
#ifndef IMPMEM_RESIDENCY_H
#define IMPMEM_RESIDENCY_H

#include <stdint.h>

#include "impmem/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum impmem_residency {
    IMPMEM_RESIDENCY_UNKNOWN = 0, /* too little memory to tell from a cache, or no sane timing */
    IMPMEM_RESIDENCY_RESIDENT = 1,
    IMPMEM_RESIDENCY_SPILLED = 2
} impmem_residency;
const char *impmem_residency_name(impmem_residency verdict); /* "unknown", "resident", "spilled"; "?" */

/* Bytes a second, reads and writes both counted. 0 for reference: unknown. */
typedef struct impmem_residency_reading {
    uint64_t pool_bytes_per_s;
    uint64_t reference_bytes_per_s;
    uint64_t span_bytes; /* of the pool that was copied over */
    impmem_residency verdict;
} impmem_residency_reading;

/* Pure. Spilled: less than half of the reference; where there is none, less than 500 GB/s. A span of less than 128 MiB can
 * lie in a cache: UNKNOWN. So is a rate of 0. */
impmem_residency impmem_residency_classify(uint64_t pool_bytes_per_s, uint64_t reference_bytes_per_s, uint64_t span_bytes);

#ifdef __cplusplus
}
#endif
#endif
