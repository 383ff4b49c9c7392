/* The name that a per-thread default stream gives a call. */
extern int cudaMallocAsync_ptsz(void **out, unsigned long bytes, void *stream);
int planted_per_thread(void **out);

int planted_per_thread(void **out)
{
    return cudaMallocAsync_ptsz(out, 4096, 0);
}
