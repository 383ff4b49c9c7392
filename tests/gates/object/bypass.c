/* Any symbol at all, looked up by text. */
extern void *dlsym(void *handle, const char *name);
void *planted_bypass(void);

void *planted_bypass(void)
{
    return dlsym(0, "cuMemAlloc_v2");
}
