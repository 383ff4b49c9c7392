/* impmem/span.h - views of memory, with what is promised about them in the type. Floor 2, implemented by src/alloc/span.c.
 *
 *   void launch_attention(impmem_stable_span q, impmem_stable_span out, void *stream);
 *   launch_attention(impmem_stable(q), impmem_stable(out), stream);      q, out: impmem_scratch_span
 *
 * A device span may move: it is any pointer and a length. A stable span's address is promised until its allocator is reset,
 * popped or closed; only the tier allocators (arena, scratch, block pool, pinned) mint one, and nothing turns a device span
 * or a raw pointer into one. Passing the wrong kind does not compile, in C11 and C++17, on gcc and clang.
 * Members whose names end in an underscore are private: reading them is a mistake, writing them is caught by
 * impmem_span_check and refused by the project's lint.
 */
#ifndef IMPMEM_SPAN_H
#define IMPMEM_SPAN_H

#include <stdbool.h>
#include <stdint.h>

#include "impmem/ledger.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct impmem_device_span {
    void *data;
    uint64_t bytes;
} impmem_device_span;

typedef struct impmem_stable_span {
    void *data_;
    uint64_t bytes_;
    uint64_t region_;     /* region id in the ledger */
    uint64_t generation_; /* the allocator's seal of this one view */
} impmem_stable_span;

/* clang-format off */
/* Stable spans with their tier in the type: one can't be stored where another belongs. */
typedef struct impmem_model_span { impmem_stable_span span_; } impmem_model_span;     /* T1: until the model is unloaded */
typedef struct impmem_engine_span { impmem_stable_span span_; } impmem_engine_span;   /* T2: until the engine closes */
typedef struct impmem_scratch_span { impmem_stable_span span_; } impmem_scratch_span; /* T4: until its mark is popped */
typedef struct impmem_block_span { impmem_stable_span span_; } impmem_block_span;     /* T3: until its ref is dropped */
typedef struct impmem_pinned_span { impmem_stable_span span_; } impmem_pinned_span;   /* T5b: until its owner is freed */

static inline impmem_stable_span impmem_stable_from_model(impmem_model_span s) { return s.span_; }
static inline impmem_stable_span impmem_stable_from_engine(impmem_engine_span s) { return s.span_; }
static inline impmem_stable_span impmem_stable_from_scratch(impmem_scratch_span s) { return s.span_; }
static inline impmem_stable_span impmem_stable_from_block(impmem_block_span s) { return s.span_; }
static inline impmem_stable_span impmem_stable_from_pinned(impmem_pinned_span s) { return s.span_; }
static inline impmem_stable_span impmem_stable_itself(impmem_stable_span s) { return s; }

static inline void *impmem_stable_data(impmem_stable_span s) { return s.data_; }
static inline uint64_t impmem_stable_bytes(impmem_stable_span s) { return s.bytes_; }
/* clang-format on */
/* Widening: always right. There is no way back. */
static inline impmem_device_span impmem_device_from_stable(impmem_stable_span s)
{
    impmem_device_span d;
    d.data = s.data_;
    d.bytes = s.bytes_;
    return d;
}

#if defined(__GNUC__) || defined(__clang__)
#define IMPMEM_UNUSED_ __attribute__((unused))
#else
#define IMPMEM_UNUSED_
#endif
#ifdef __cplusplus
#define IMPMEM_ALIGNOF_(T) alignof(T)
#else
#define IMPMEM_ALIGNOF_(T) _Alignof(T)
#endif

/* clang-format off */
/* IMPMEM_SPAN_OF(float) declares impmem_float_span (struct), impmem_float_span_from(stable, &out) (INVALID_ARGUMENT when
 * the bytes are no multiple of sizeof(float) or the address is not aligned to _Alignof(float)), _stable (the way back),
 * _data and _count. */
#define IMPMEM_SPAN_OF(T)                                                                                             \
    typedef struct impmem_##T##_span { impmem_stable_span span_; } impmem_##T##_span;                                 \
    IMPMEM_UNUSED_ static inline IMPMEM_NODISCARD impmem_status impmem_##T##_span_from(impmem_stable_span s,          \
                                                                                       impmem_##T##_span *out)        \
    {                                                                                                                 \
        if (!out || s.bytes_ % sizeof(T) || (uintptr_t)s.data_ % IMPMEM_ALIGNOF_(T))                                  \
            return IMPMEM_ERR_INVALID_ARGUMENT;                                                                       \
        out->span_ = s;                                                                                               \
        return IMPMEM_OK;                                                                                             \
    }                                                                                                                 \
    IMPMEM_UNUSED_ static inline impmem_stable_span impmem_##T##_span_stable(impmem_##T##_span s) { return s.span_; } \
    IMPMEM_UNUSED_ static inline T *impmem_##T##_span_data(impmem_##T##_span s) { return (T *)s.span_.data_; }        \
    IMPMEM_UNUSED_ static inline uint64_t impmem_##T##_span_count(impmem_##T##_span s)                                \
    {                                                                                                                 \
        return s.span_.bytes_ / sizeof(T);                                                                            \
    }                                                                                                                 \
    struct impmem_##T##_span_needs_a_semicolon
/* clang-format on */

/* IMPMEM_OK while the span is what its allocator handed out and still holds. STALE: reset, popped or dropped since, or its
 * region was released. FORGED: no such region, not a view that the region's allocator minted, or edited since (address,
 * length, region or seal); also a span of an allocator that was closed while its region lives on. Asks the allocator, so it
 * belongs to the thread that owns that one; takes a lock: for debug launches and tests. */
IMPMEM_NODISCARD impmem_status impmem_span_check(const impmem_ledger *ledger, impmem_stable_span span);

#ifdef __cplusplus
}
#endif

/* impmem_stable(x): widens any tier span to impmem_stable_span. An element span has its own impmem_T_span_stable. */
/* clang-format off */
#ifdef __cplusplus
static inline impmem_stable_span impmem_stable(impmem_model_span s) { return s.span_; }
static inline impmem_stable_span impmem_stable(impmem_engine_span s) { return s.span_; }
static inline impmem_stable_span impmem_stable(impmem_scratch_span s) { return s.span_; }
static inline impmem_stable_span impmem_stable(impmem_block_span s) { return s.span_; }
static inline impmem_stable_span impmem_stable(impmem_pinned_span s) { return s.span_; }
static inline impmem_stable_span impmem_stable(impmem_stable_span s) { return s; }
#else
#define impmem_stable(x)                                                                                              \
    _Generic((x), impmem_model_span: impmem_stable_from_model, impmem_engine_span: impmem_stable_from_engine,         \
             impmem_scratch_span: impmem_stable_from_scratch, impmem_block_span: impmem_stable_from_block,            \
             impmem_pinned_span: impmem_stable_from_pinned, impmem_stable_span: impmem_stable_itself)(x)
#endif
/* clang-format on */
#endif
