/* fake_tables.h - what the driver made of tables keeps: its tables, its log of calls, its rules and its orders to fail. */
#ifndef TEST_CUDA_FAKE_TABLES_H
#define TEST_CUDA_FAKE_TABLES_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/internal.h"

#pragma GCC diagnostic ignored "-Wunused-function" /* each test file uses a part of this */

enum { FAKE_MAX = 512, FAKE_DEVICES = 2, FAKE_LOG = 4096 };

typedef struct fake_event {
    impmem__call call;
    uintptr_t at;
    uint64_t bytes;
} fake_event;

typedef struct fake_chunk {
    uint64_t handle; /* 0 = free */
    uint64_t bytes;
    bool released;
    uintptr_t mapped_at; /* 0 = not mapped */
    unsigned access;     /* bit d: device d; bit 31: the host */
} fake_chunk;

typedef struct fake_range {
    uintptr_t at; /* 0 = free */
    uint64_t bytes;
    void *block; /* what free() takes */
} fake_range;

typedef struct fake_driver {
    impmem__driver table;
    pthread_mutex_t lock;
    /* orders */
    uint64_t fail_nth; /* counted over all calls that can fail, from 1; 0 = none */
    impmem__call fail_call;
    uint64_t fail_call_nth; /* of that function; 0 = none */
    int fail_code;
    bool fail_for_good;
    uint64_t capacity;
    uint64_t address_space;
    uint64_t granule;
    uint64_t device_total, reported_free, reported_total; /* 0: what is true */
    uint64_t unseen;                                      /* bytes that others hold */
    int devices;
    int attribute_off; /* this attribute reads 0; -1 = none */
    bool no_access;    /* granted access reads back as none */
    bool stalled;
    bool tool;               /* annotations are listened to */
    double seconds_per_byte; /* above 0: copies and fills take time and move nothing */
    /* state */
    uint64_t seen, seen_of_call;
    bool sprung;
    int last_error;
    int contexts[FAKE_DEVICES];
    int depth; /* contexts pushed and not popped */
    uint64_t context_bytes;
    uint64_t next_handle;
    fake_chunk chunk[FAKE_MAX];
    fake_range reservation[64], memory[FAKE_MAX], host[64], registered[300];
    int descriptors, streams, events, modules, graphs, heaps, takes;
    uint64_t copied;
    char breach[160]; /* the first broken rule, "" = none */
    fake_event log[FAKE_LOG];
    uint32_t n_log;
} fake_driver;

/* ---- inside ---------------------------------------------------------------------------------------------------------- */

static void fake_breach(fake_driver *f, const char *what)
{
    if (!f->breach[0]) snprintf(f->breach, sizeof f->breach, "%s", what);
}

/* Only functions of the runtime leave their failure in the runtime's last error. */
static bool fake_is_runtime(impmem__call call)
{
    static const impmem__call runtime[] = {
        IMPMEM__CALL_device_count,    IMPMEM__CALL_driver_version,   IMPMEM__CALL_runtime_version,
        IMPMEM__CALL_memory_info,     IMPMEM__CALL_malloc,           IMPMEM__CALL_free,
        IMPMEM__CALL_host_alloc,      IMPMEM__CALL_host_free,        IMPMEM__CALL_host_register,
        IMPMEM__CALL_host_unregister, IMPMEM__CALL_host_address,     IMPMEM__CALL_stream_create,
        IMPMEM__CALL_stream_destroy,  IMPMEM__CALL_stream_wait_host, IMPMEM__CALL_stream_query,
        IMPMEM__CALL_fill_async,      IMPMEM__CALL_copy_async,       IMPMEM__CALL_copy_batch,
        IMPMEM__CALL_event_create,    IMPMEM__CALL_event_destroy,    IMPMEM__CALL_event_record,
        IMPMEM__CALL_event_elapsed};
    for (size_t i = 0; i < sizeof runtime / sizeof runtime[0]; i++)
        if (runtime[i] == call) return true;
    return false;
}

static int fake_enter(fake_driver *f, impmem__call call, const void *at, uint64_t bytes)
{
    (void)pthread_mutex_lock(&f->lock);
    if (f->n_log < FAKE_LOG) f->log[f->n_log++] = (fake_event){call, (uintptr_t)at, bytes};
    bool may_fail = call != IMPMEM__CALL_last_error && call != IMPMEM__CALL_context_pop &&
                    call != IMPMEM__CALL_device_attribute && call != IMPMEM__CALL_context_active &&
                    call != IMPMEM__CALL_managed_memory && call != IMPMEM__CALL_stream_query;
    bool fails = false;
    if (may_fail && f->fail_nth) {
        f->seen++;
        fails = f->seen == f->fail_nth || (f->fail_for_good && f->seen > f->fail_nth);
    }
    if (f->fail_call_nth && call == f->fail_call) {
        f->seen_of_call++;
        fails = f->seen_of_call == f->fail_call_nth || (f->fail_for_good && f->seen_of_call > f->fail_call_nth);
    }
    if (fails) {
        f->sprung = true;
        if (fake_is_runtime(call)) f->last_error = f->fail_code;
    }
    (void)pthread_mutex_unlock(&f->lock);
    return fails ? f->fail_code : 0;
}

static fake_driver *fake_lock(impmem__driver *d)
{
    fake_driver *f = d->library;
    (void)pthread_mutex_lock(&f->lock);
    return f;
}

static void fake_unlock(fake_driver **f)
{
    (void)pthread_mutex_unlock(&(*f)->lock);
}

/* Every function holds the driver's lock to its end, whichever way it leaves. */
#define FAKE_ENTER(name, at, bytes)                                                                                        \
    __attribute__((cleanup(fake_unlock))) fake_driver *f = fake_lock(d);                                                   \
    int code_ = fake_enter(f, IMPMEM__CALL_##name, at, bytes);                                                             \
    if (code_) return code_

static uint64_t fake_used(const fake_driver *f)
{
    uint64_t used = f->unseen;
    for (int i = 0; i < FAKE_MAX; i++) {
        if (f->chunk[i].handle) used += f->chunk[i].bytes;
        if (f->memory[i].at) used += f->memory[i].bytes;
    }
    for (int i = 0; i < FAKE_DEVICES; i++) used += f->contexts[i] ? f->context_bytes : 0;
    return used;
}

static fake_range *fake_find(fake_range *table, int n, uintptr_t at)
{
    for (int i = 0; i < n; i++)
        if (table[i].at == at) return &table[i];
    return NULL;
}

static int fake_error(fake_driver *f, int code)
{
    f->last_error = code;
    return code;
}

static int fake_take(fake_driver *f, fake_range *table, int n, void **out, uint64_t bytes, bool device)
{
    if (device && bytes > f->capacity - fake_used(f)) return fake_error(f, IMPMEM__CODE_OUT_OF_MEMORY);
    fake_range *r = fake_find(table, n, 0);
    void *block = r ? aligned_alloc(2097152, (bytes + 2097151) / 2097152 * 2097152) : NULL;
    if (!block) return fake_error(f, IMPMEM__CODE_OUT_OF_MEMORY);
    *r = (fake_range){(uintptr_t)block, bytes, block};
    *out = block;
    return 0;
}

static int fake_give(fake_driver *f, fake_range *table, int n, const void *at)
{
    fake_range *r = at ? fake_find(table, n, (uintptr_t)at) : NULL;
    if (!r) {
        fake_breach(f, "freed what is not there");
        return fake_error(f, IMPMEM__CODE_INVALID_VALUE);
    }
    free(r->block);
    memset(r, 0, sizeof *r);
    return 0;
}

#endif
