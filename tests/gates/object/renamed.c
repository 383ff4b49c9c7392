/* A driver call under a name of one's own, which a text search for the driver's names misses at the call. */
extern int cuMemAlloc_v2(unsigned long long *out, unsigned long bytes);
#define TAKE cuMemAlloc_v2
int planted_renamed(unsigned long long *out);

int planted_renamed(unsigned long long *out)
{
    return TAKE(out, 4096);
}
