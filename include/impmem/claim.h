/* impmem/claim.h - taking over several resources: reserve all, then commit all or undo all. Floor 2, src/alloc/claim.c.
 *
 *   impmem_claim claim = IMPMEM_CLAIM_INIT;
 *   impmem_status st = impmem_claim_add(&claim, impmem_block_pool_resource(global_blocks), 40);
 *   if (!st) st = impmem_claim_add(&claim, impmem_block_pool_resource(window_blocks), 9);
 *   if (st) impmem_claim_undo(&claim); else impmem_claim_commit(&claim);
 *
 * A failing add undoes nothing by itself: the claim still holds what was added before, until undo or commit. One owner
 * thread. Plain data, no heap.
 */
#ifndef IMPMEM_CLAIM_H
#define IMPMEM_CLAIM_H

#include <stdint.h>

#include "impmem/block_pool.h"
#include "impmem/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define IMPMEM_CLAIM_MAX_PARTS 16u

/* Anything that can promise an amount: blocks, state slots, graph slots. `reserve` may refuse (CAPACITY); `commit` turns
 * the promise into the holder's own and `undo` gives it back: neither may fail. commit NULL = the promise itself is what
 * is held. */
typedef struct impmem_resource {
    impmem_status (*reserve)(void *self, uint64_t amount);
    void (*commit)(void *self, uint64_t amount);
    void (*undo)(void *self, uint64_t amount);
    void *self;
    const char *name; /* for messages; static storage */
} impmem_resource;

/* clang-format off */
typedef struct impmem_claim {
    uint32_t n_parts_;
    uint32_t state_; /* 0 open, 1 committed, 2 undone */
    struct { impmem_resource resource; uint64_t amount; } part_[IMPMEM_CLAIM_MAX_PARTS];
} impmem_claim;
#define IMPMEM_CLAIM_INIT { 0, 0, { { { NULL, NULL, NULL, NULL, NULL }, 0 } } }
/* clang-format on */

/* What `reserve` returned; EXHAUSTED above 16 parts; STATE after commit or undo; INVALID_ARGUMENT without reserve or undo.
 * Amount 0 is IMPMEM_OK and adds nothing. */
IMPMEM_NODISCARD impmem_status impmem_claim_add(impmem_claim *claim, impmem_resource resource, uint64_t amount);
IMPMEM_NODISCARD impmem_status impmem_claim_commit(impmem_claim *claim); /* STATE: not open */
/* In reverse order. Undoing twice, or after commit, is IMPMEM_ERR_STATE and changes nothing. */
IMPMEM_NODISCARD impmem_status impmem_claim_undo(impmem_claim *claim);

/* Free blocks of a pool: reserve = impmem_block_pool_reserve; commit leaves them reserved for
 * impmem_block_take_reserved. */
impmem_resource impmem_block_pool_resource(impmem_block_pool *pool);

#ifdef __cplusplus
}
#endif
#endif
