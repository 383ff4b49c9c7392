/* What must not compile. Each case is one macro; without any the file is the positive control, which must compile. Compiled
 * as C11 and as C++17, by gcc and by clang; the diagnostics that each must print are in CMakeLists.txt.
 */
#include "impmem/arena.h"
#include "impmem/block_pool.h"
#include "impmem/pinned.h"
#include "impmem/scratch.h"
#include "impmem/span.h"

IMPMEM_SPAN_OF(float);
IMPMEM_SPAN_OF(int);

typedef struct slots {
    impmem_model_span weights;
    impmem_engine_span workspace;
    impmem_stable_span any;
} slots;

typedef struct givens {
    impmem_device_span device;
    impmem_model_span model;
    impmem_engine_span engine;
    impmem_scratch_span scratch;
    impmem_block_span block;
    impmem_pinned_span pinned;
    impmem_float_span floats;
    impmem_block_pool *pool;
    impmem_block_ref ref;
    void *pointer;
} givens;

void launch(impmem_stable_span q);
void upload(impmem_pinned_span from);
void add(impmem_int_span to);
void use(givens *g, slots *s);

void use(givens *g, slots *s)
{
    s->weights = g->model;
    s->workspace = g->engine;
    s->any = impmem_stable(g->scratch);
    launch(impmem_stable(g->block));
    launch(impmem_stable(s->any));
    upload(g->pinned);
    g->device = impmem_device_from_stable(impmem_stable(g->model));
    if (impmem_block_drop(g->pool, &g->ref)) return;
#if defined CASE_DEVICE_SPAN_IS_NOT_STABLE
    launch(g->device);
#elif defined CASE_POINTER_IS_NOT_STABLE
    launch(g->pointer);
#elif defined CASE_TIER_SPAN_IS_WIDENED_ON_PURPOSE_ONLY
    launch(g->model);
#elif defined CASE_MODEL_SPAN_IS_NO_ENGINE_SPAN
    s->workspace = g->model;
#elif defined CASE_SCRATCH_SPAN_IS_NO_MODEL_SPAN
    s->weights = g->scratch;
#elif defined CASE_BLOCK_SPAN_IS_NO_PINNED_SPAN
    upload(g->block);
#elif defined CASE_STABLE_SPAN_DOES_NOT_NARROW
    s->weights = s->any;
#elif defined CASE_ELEMENT_TYPES_STAY_APART
    add(g->floats);
#elif defined CASE_CAST_DOES_NOT_FORGE
    s->any = (impmem_stable_span)g->device;
#elif defined CASE_WIDENING_DOES_NOT_FORGE
    launch(impmem_stable(g->device));
#elif defined CASE_STATUS_IS_NOT_IGNORED
    impmem_block_drop(g->pool, &g->ref);
#endif
}
