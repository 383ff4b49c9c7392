/* Names and messages of the status codes. */
#include "impmem/status.h"

const char *impmem_status_name(impmem_status status)
{
    switch (status) {
#define STATUS_NAME(name, value, message)                                                                                  \
    case IMPMEM_##name: return "IMPMEM_" #name;
        IMPMEM_STATUS_MAP(STATUS_NAME)
#undef STATUS_NAME
    }
    return "IMPMEM_ERR_UNKNOWN";
}

const char *impmem_status_message(impmem_status status)
{
    switch (status) {
#define STATUS_MESSAGE(name, value, message)                                                                               \
    case IMPMEM_##name: return message;
        IMPMEM_STATUS_MAP(STATUS_MESSAGE)
#undef STATUS_MESSAGE
    }
    return "unknown status";
}

impmem_status impmem_first_error(impmem_status a, impmem_status b)
{
    return a != IMPMEM_OK ? a : b;
}
