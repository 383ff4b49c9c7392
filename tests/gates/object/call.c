/* A driver call through a declaration of one's own: no CUDA header, no include to refuse. */
extern int cudaMalloc(void **out, unsigned long bytes);
int planted_call(void **out);

int planted_call(void **out)
{
    return cudaMalloc(out, 4096) + cudaMalloc(out, 8192);
}
