/* What fuzz targets and their replay share. */
#ifndef IMPMEM_TESTS_FUZZ_H
#define IMPMEM_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "impmem/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Seed `index` of the target into `to`; its size, or 0 beyond the last. */
size_t fuzz_seed(size_t index, uint8_t *to, size_t room);

/* A promise that held for no input stops the program: a fuzzer takes that for a crash. */
static inline void fuzz_require(int holds, const char *promise, const char *message)
{
    if (holds) return;
    fprintf(stderr, "broken promise: %s (%s)\n", promise, message);
    abort();
}

/* A refusal is one of the reader's codes, with one printable line. */
static inline void fuzz_check_refusal(impmem_status st, const impmem_error *why)
{
    int known = st == IMPMEM_ERR_TRUNCATED || st == IMPMEM_ERR_BAD_FORMAT || st == IMPMEM_ERR_BAD_VALUE ||
                st == IMPMEM_ERR_MISSING_KEY || st == IMPMEM_ERR_UNKNOWN_ARCHITECTURE || st == IMPMEM_ERR_TOO_LARGE;
    fuzz_require(known, "a refusal has a reader's status", why->message);
    fuzz_require(why->status == st, "the error repeats the status", why->message);
    fuzz_require(why->message[0] != '\0', "a refusal says why", why->message);
    for (const char *c = why->message; *c; c++) {
        fuzz_require((unsigned char)*c >= 0x20 && (unsigned char)*c < 0x7f, "a message is printable ASCII", "");
    }
}

#endif
