/* tests/property/random.h - a small generator whose runs can be repeated from their seed (xorshift64*, Vigna 2016). */
#ifndef TESTS_PROPERTY_RANDOM_H
#define TESTS_PROPERTY_RANDOM_H

#include <stdint.h>

typedef struct random_source {
    uint64_t state;
} random_source;

static inline random_source random_from(uint64_t seed)
{
    return (random_source){seed * 0x9e3779b97f4a7c15u + 1};
}

static inline uint64_t random_next(random_source *r)
{
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return r->state * 0x2545f4914f6cdd1du;
}

/* 0 .. n-1; n > 0. */
static inline uint64_t random_below(random_source *r, uint64_t n)
{
    return (random_next(r) >> 11) % n;
}

#endif
