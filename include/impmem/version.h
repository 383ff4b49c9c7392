/* impmem/version.h - semantic version of the headers; impmem_version() tells the library's. */
#ifndef IMPMEM_VERSION_H
#define IMPMEM_VERSION_H

#define IMPMEM_VERSION_MAJOR 0
#define IMPMEM_VERSION_MINOR 1
#define IMPMEM_VERSION_PATCH 0
#define IMPMEM_VERSION_STRING "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/* IMPMEM_VERSION_STRING of the linked library; static storage, any thread. */
const char *impmem_version(void);

#ifdef __cplusplus
}
#endif
#endif
