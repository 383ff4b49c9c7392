/* The table's own words: names, kinds, and what codes mean. */
#include "cuda/driver.h"

#include "core/internal.h"

impmem__call_kind impmem__call_kind_of(impmem__call call)
{
    static const impmem__call_kind kinds[IMPMEM__N_CALLS] = {
#define KIND(name, kind, parameters) [IMPMEM__CALL_##name] = IMPMEM__KIND_##kind,
        IMPMEM__DRIVER_MAP(KIND)
#undef KIND
    };
    return (unsigned)call < IMPMEM__N_CALLS ? kinds[call] : IMPMEM__KIND_OTHER;
}

const char *impmem__call_name(impmem__call call)
{
    static const char *const names[IMPMEM__N_CALLS] = {
#define NAME(name, kind, parameters) [IMPMEM__CALL_##name] = #name,
        IMPMEM__DRIVER_MAP(NAME)
#undef NAME
    };
    return (unsigned)call < IMPMEM__N_CALLS ? names[call] : "?";
}

impmem_status impmem__code_status(int code, impmem_status full)
{
    if (code >= IMPMEM__CODE_CAPTURE_FIRST && code <= IMPMEM__CODE_CAPTURE_LAST) return IMPMEM_ERR_CAPTURING;
    switch (code) {
    case IMPMEM__CODE_OK: return IMPMEM_OK;
    case IMPMEM__CODE_OUT_OF_MEMORY: return full;
    case IMPMEM__CODE_OLD_DRIVER: return IMPMEM_ERR_NO_DRIVER;
    case IMPMEM__CODE_NO_DEVICE:
    case IMPMEM__CODE_INVALID_DEVICE: return IMPMEM_ERR_NO_DEVICE;
    case IMPMEM__CODE_NOT_PERMITTED:
    case IMPMEM__CODE_NOT_SUPPORTED:
    case IMPMEM__CODE_MISSING: return IMPMEM_ERR_UNSUPPORTED;
    default: return IMPMEM_ERR_DRIVER;
    }
}

impmem_status impmem__code_error(impmem_error *why, int code, impmem_status full, const char *what)
{
    impmem_status st = impmem__code_status(code, full);
    if (code == IMPMEM__CODE_MISSING) impmem__error_set(why, st, "CUDA", "%s: this driver has no such function", what);
    else impmem__error_set(why, st, "CUDA", "%s: %s (code %d)", what, impmem_status_message(st), code);
    impmem__error_driver(why, code);
    return st;
}
