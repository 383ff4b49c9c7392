/* The driver is never called here, but its address is handed on. */
extern int cudaFree(void *memory);
int (*planted_address(void))(void *);

int (*planted_address(void))(void *)
{
    return cudaFree;
}
