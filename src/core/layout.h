/* core/layout.h - bytes of the fixed parts of the library's own host tables. control.c adds them up for the planner; the
 * files that lay the structs out assert that they fit, so that neither can change alone. All in bytes.
 */
#ifndef IMPMEM__CORE_LAYOUT_H
#define IMPMEM__CORE_LAYOUT_H

#define IMPMEM__TABLE_ALIGNMENT 64u /* every table and every object starts on a cache line */

#define IMPMEM__LEDGER_HEADER_BYTES 8192u
#define IMPMEM__LEDGER_LINE_BYTES 192u
#define IMPMEM__JOURNAL_RECORD_BYTES 56u
#define IMPMEM__JOURNAL_DEFAULT_RECORDS 4096u

#define IMPMEM__BACKEND_BYTES 512u
#define IMPMEM__REGION_HEADER_BYTES 256u
#define IMPMEM__REGION_SHARE_BYTES 32u

#define IMPMEM__ARENA_HEADER_BYTES 256u
#define IMPMEM__ARENA_SHARE_BYTES 24u

#define IMPMEM__PINNED_BYTES 128u  /* the object, not the memory */
#define IMPMEM__STAGING_BYTES 128u /* the object, not the memory */

#define IMPMEM__SCRATCH_BYTES 1216u

#define IMPMEM__BLOCK_POOL_HEADER_BYTES 384u
#define IMPMEM__BLOCK_POOL_SLOT_BYTES 32u /* one per block and one per extra reference */
#define IMPMEM__BLOCK_POOL_BLOCK_BYTES 8u

#define IMPMEM__KV_HEADER_BYTES 2048u
#define IMPMEM__KV_SEQUENCE_BYTES 192u
#define IMPMEM__KV_REF_BYTES 16u     /* one position of one sequence in one group, */
#define IMPMEM__KV_ID_BYTES 4u       /* with the block's id beside it */
#define IMPMEM__KV_CHAIN_BYTES 8u    /* one position of one sequence, where there is a prefix cache */
#define IMPMEM__KV_ENTRY_BYTES 64u   /* one cached block, its tokens apart */
#define IMPMEM__KV_ROOT_BYTES 552u   /* one namespace */
#define IMPMEM__KV_CACHED_ROOTS 256u /* most namespaces that cached blocks may belong to at once */
#define IMPMEM__KV_MAX_ROWS 0x7ffffffeu

#define IMPMEM__ENGINE_SLOT_BYTES 16u      /* one sequence's reference in one pool of state */
#define IMPMEM__ENGINE_OBJECT_BYTES 49152u /* holds a whole impmem_plan */

#endif
