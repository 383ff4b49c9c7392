/* The table where the build has no CUDA toolkit: there is no driver, and everything else of the room says so in one line. */
#include "core/internal.h"
#include "cuda/driver.h"

impmem_status impmem__driver_fill(impmem__driver *driver, impmem_error *why)
{
    (void)driver;
    return impmem__error_set(why, IMPMEM_ERR_NO_DRIVER, "CUDA", "this build has no CUDA part");
}

void impmem__driver_empty(impmem__driver *driver)
{
    (void)driver;
}
