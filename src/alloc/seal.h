/* seal.h - the number that a bump allocator stamps into the spans that it mints.
 *
 * The upper 32 bits count the allocator's epochs (resets of an arena, pushes of a scratch stack); the lower 32 are a digest
 * of epoch, address, length and a key that only this allocator has. So a check tells a span that was edited or made up (the
 * digest is wrong: forged) from one whose epoch is over (stale). It guards against mistakes, not against an attacker.
 */
#ifndef IMPMEM_ALLOC_SEAL_H
#define IMPMEM_ALLOC_SEAL_H

#include <stdint.h>

/* A bijection that spreads every input bit over the word (the finishing step of SplitMix64, Steele et al. 2014). */
static inline uint64_t impmem__spread(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The digest is the upper half of two products, in which every bit below has had a part. */
static inline uint64_t impmem__seal(uint64_t key, uint64_t epoch, const void *data, uint64_t bytes)
{
    uint64_t place = ((uint64_t)(uintptr_t)data ^ key) * 0xbf58476d1ce4e5b9u;
    uint64_t extent = (bytes ^ epoch << 32) * 0x94d049bb133111ebu;
    return epoch << 32 | (place + extent) >> 32;
}

/* The whole epoch of a seal, given the newest one: the upper bits are those that make it the newest not after `newest`. */
static inline uint64_t impmem__seal_epoch(uint64_t seal, uint64_t newest)
{
    uint64_t epoch = (newest & ~(uint64_t)UINT32_MAX) | seal >> 32;
    return epoch > newest ? epoch - ((uint64_t)1 << 32) : epoch;
}

#endif
