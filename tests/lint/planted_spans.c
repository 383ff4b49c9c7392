/* clang-format off */
/* Planted violations for tools/lint/span_literals.py --self-test. Every marked line must be reported, no other line may be.
 * It is read by the lint only, never compiled into a test.
 */
#include "impmem/block_pool.h"
#include "impmem/span.h"

typedef impmem_stable_span launch_view;
#define WEIGHTS impmem_model_span

static impmem_stable_span from_pointer(void *p)
{
    return (impmem_stable_span){p, 1, 2, 3}; /* caught */
}

static void forge(impmem_stable_span *s, impmem_model_span *m, impmem_block_ref *ref, void *p)
{
    impmem_stable_span positional = {p, 64, 1, 1}; /* caught */
    impmem_stable_span named = { /* caught */
        .data_ = p, /* caught */
        .bytes_ = 64, /* caught */
    };
    impmem_engine_span nested = {{p, 64, 1, 1}}; /* caught */
    const impmem_scratch_span many[2] = {{{p, 64, 1, 1}}, {{p, 64, 1, 1}}}; /* caught */
    impmem_pinned_span first = {0}, second = {{p, 1, 1, 1}}; /* caught */
    launch_view renamed = {p, 1, 1, 1}; /* caught */
    WEIGHTS hidden = {{p, 1, 1, 1}}; /* caught */
    *s = (launch_view){p, 1, 1, 1}; /* caught */
    s->data_ = p; /* caught */
    s->bytes_ += 16; /* caught */
    (*s).region_ = 4; /* caught */
    m->span_.generation_ = 9; /* caught */
    m->span_ = *s; /* caught */
    s -> /* a comment in between */ generation_ = 1; /* caught */
    ++s->generation_; /* caught */
    s->generation_--; /* caught */
    uint64_t *through = &m->span_.bytes_; /* caught */
    *ref = (impmem_block_ref){1, 2, 3}; /* caught */
    ref->slot_ = 7; /* caught */
    ref[0].pool_ ^= 7; /* caught */
}

static uint64_t honest(impmem_stable_span s, impmem_device_span d, void *p)
{
    /* s.data_ = p; in a comment, and in a string: */
    const char *text = "s.data_ = p; (impmem_stable_span){p, 1, 2, 3}";
    impmem_device_span movable = {p, 64};
    impmem_device_span literal = (impmem_device_span){p, 64};
    impmem_stable_span none = {0};
    impmem_model_span nothing = {{0}};
    impmem_block_ref empty = IMPMEM_BLOCK_REF_NONE;
    impmem_stable_span copy = s;
    movable.data = d.data;
    if (s.data_ == p && copy.bytes_ >= 64 && none.region_ <= s.region_) return s.generation_ & nothing.span_.bytes_;
    return text ? literal.bytes + empty.slot_ : 0;
}
