/* impmem/engine.h - one engine's memory on one device: a plan in, tiers out. Floor 4, implemented in src/engine.
 *
 *   impmem_ledger *ledger; impmem_backend *fixed, *grow; impmem_engine *mem;
 *   impmem_lines lines = impmem_plan_lines(&plan);
 *   TRY(impmem_ledger_create(&lines, NULL, &ledger));
 *   TRY(impmem_fake_backend_create(ledger, NULL, &fixed, NULL, &why));
 *   TRY(impmem_engine_open(ledger, &plan, &(impmem_engine_backends){ .fixed = fixed }, &mem, &why));
 *   impmem_model_span weights;
 *   TRY(impmem_engine_take_model(mem, IMPMEM_LINE_WEIGHTS, bytes, 256, &weights));
 *   TRY(impmem_engine_end_loading(mem, &why));     transient memory goes, KV opens: warm up, capture graphs
 *   TRY(impmem_engine_begin_serving(mem, &why));   from here on zero acquisitions, and it is counted
 *   ... impmem_engine_admit, impmem_kv_append, impmem_kv_publish, impmem_engine_release ...
 *   TRY(impmem_engine_drain(mem));                 no more admissions; wait for impmem_engine_is_idle
 *   TRY(impmem_engine_close(&mem, &why));
 *
 * One owner thread.
 */
#ifndef IMPMEM_ENGINE_H
#define IMPMEM_ENGINE_H

#include "impmem/arena.h"
#include "impmem/backend.h"
#include "impmem/block_pool.h"
#include "impmem/kv.h"
#include "impmem/pinned.h"
#include "impmem/plan.h"
#include "impmem/scratch.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct impmem_engine impmem_engine;

typedef struct impmem_engine_backends {
    impmem_backend *fixed;  /* every tier that does not grow; required */
    impmem_backend *grow;   /* KV pools when the plan lets them grow; NULL = fixed, whole pools at open */
    impmem_backend *pinned; /* required when the plan has pinned lines */
} impmem_engine_backends;

/* Copies the plan. In plan order: charges, T2, T1, transient arena, scratch, KV pools, pinned. When the plan has transient
 * lines the KV pools wait for impmem_engine_end_loading, since they reuse that memory. Opening that fails at any step leaves
 * nothing behind. INVALID_ARGUMENT (a backend of another ledger, a granule that is no divisor of the plan's, no pinned
 * backend), PHASE_ORDER (ledger not Loading), and what backends return. */
IMPMEM_NODISCARD impmem_status impmem_engine_open(impmem_ledger *ledger, const impmem_plan *plan,
                                                  const impmem_engine_backends *backends, impmem_engine **out,
                                                  impmem_error *why);
/* Loading -> Planning. Releases the transient arena (its spans go stale), opens KV if it waited. On failure the engine is still
 * Loading and whole, except that the transient arena is gone; CAPTURING leaves that one too. */
IMPMEM_NODISCARD impmem_status impmem_engine_end_loading(impmem_engine *engine, impmem_error *why);
/* -> Serving; ends loading first when still Loading. */
IMPMEM_NODISCARD impmem_status impmem_engine_begin_serving(impmem_engine *engine, impmem_error *why);
/* NULL is fine. LIVE_HOLDERS while sequences live, scratch marks are open or slots of state are held or promised, BUSY while
 * a grower is open over a KV region, CAPTURING: nothing is closed. Cached blocks are dropped. When a backend can't give something back, its status, and STALE once for a
 * pinned line that somebody else closed: call again, what is left is closed then. */
IMPMEM_NODISCARD impmem_status impmem_engine_close(impmem_engine **engine, impmem_error *why);

IMPMEM_NODISCARD impmem_status impmem_engine_take_model(impmem_engine *engine, impmem_line_id line, uint64_t bytes,
                                                        uint64_t alignment, impmem_model_span *out);
IMPMEM_NODISCARD impmem_status impmem_engine_take(impmem_engine *engine, impmem_line_id line, uint64_t bytes,
                                                  uint64_t alignment, impmem_engine_span *out);
/* Lines with IMPMEM_LINE_TRANSIENT: gone at the end of loading. */
IMPMEM_NODISCARD impmem_status impmem_engine_take_transient(impmem_engine *engine, impmem_line_id line, uint64_t bytes,
                                                            uint64_t alignment, impmem_engine_span *out);

/* ---- requests ------------------------------------------------------------------------------------------------------------ */

/* Reserves prompt + max_new_tokens over every resource that a sequence needs (the blocks of all KV groups, a sequence slot, a
 * slot of each pool of per-sequence state), all or nothing, and holds it until release. *admission as impmem_kv_admit writes it.
 *   NEVER_FITS  can never be served by this engine: refuse the request for good
 *   CAPACITY    does not fit now: queue it
 *   STATE       draining, or KV is not open yet; UNSUPPORTED: the plan has no KV */
IMPMEM_NODISCARD impmem_status impmem_engine_admit(impmem_engine *engine, const impmem_kv_request *request,
                                                   impmem_sequence *out, impmem_kv_admission *admission, impmem_error *why);
/* Whether a request of so many tokens can ever be admitted: without its tokens, without side effects, while draining too.
 * As impmem_kv_servable; STATE: KV is not open yet (impmem_plan_servable answers from the plan); UNSUPPORTED: the plan has
 * no KV. */
IMPMEM_NODISCARD impmem_status impmem_engine_servable(const impmem_engine *engine, uint64_t prompt_tokens,
                                                      uint64_t max_new_tokens, impmem_kv_admission *admission,
                                                      impmem_error *why);
/* Done, cancelled, failed: one path, exactly once. Zeroes *sequence; none is IMPMEM_OK; STALE changes nothing. */
IMPMEM_NODISCARD impmem_status impmem_engine_release(impmem_engine *engine, impmem_sequence *sequence);
/* From here on admission answers STATE; running sequences go on. `resume` undoes it. */
IMPMEM_NODISCARD impmem_status impmem_engine_drain(impmem_engine *engine);
IMPMEM_NODISCARD impmem_status impmem_engine_resume(impmem_engine *engine);
/* Where the sequence's slot of state pool `index` lies. NOT_FOUND: no such pool, or one of rollback copies or snapshots, which are
 * their owner's to take; STALE. */
IMPMEM_NODISCARD impmem_status impmem_engine_state_slot(const impmem_engine *engine, impmem_sequence sequence,
                                                        uint32_t index, impmem_block_span *out);
bool impmem_engine_is_idle(const impmem_engine *engine);  /* no sequence lives and no scratch mark is open */
impmem_kv *impmem_engine_kv(const impmem_engine *engine); /* NULL: no KV, or not open yet */

impmem_ledger *impmem_engine_ledger(const impmem_engine *engine);
const impmem_plan *impmem_engine_plan(const impmem_engine *engine);
impmem_scratch *impmem_engine_scratch(impmem_engine *engine); /* NULL: the plan has none */
/* To look at: the KV manager owns what is in it. NULL: no such group, or not open yet. */
const impmem_block_pool *impmem_engine_kv_pool(const impmem_engine *engine, uint32_t group);
/* The memory under that pool, for a grower (impmem/grower.h) to commit ahead. NULL when it does not grow, too. */
impmem_region *impmem_engine_kv_region(const impmem_engine *engine, uint32_t group);
/* Slots of state by the plan's state_pool index, for their owner to take and drop; the memory beside KV blocks by kv_side index,
 * addressed by the blocks' ids. NULL: no such pool, or not open yet. */
impmem_block_pool *impmem_engine_state_pool(const impmem_engine *engine, uint32_t index);
impmem_region *impmem_engine_kv_side(const impmem_engine *engine, uint32_t index);
impmem_pinned impmem_engine_pinned(const impmem_engine *engine, impmem_line_id line); /* none handle: no such line */

#ifdef __cplusplus
}
#endif
#endif
