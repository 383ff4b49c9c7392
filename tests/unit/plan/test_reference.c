/* The reference engine's demands and the shipped device profiles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "impmem/explain.h"
#include "unit/plan/shapes.h"

static impmem_demand list[16];
static uint32_t n;

static uint64_t size_of(const char *name, uint32_t tokens, uint32_t batch)
{
    impmem_load load = {tokens, batch, 4096};
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(list[i].name, name) != 0) continue;
        uint64_t bytes = list[i].bytes;
        if (list[i].size) assert_int_equal(list[i].size(list[i].context, &load, &bytes), IMPMEM_OK);
        return bytes;
    }
    fail_msg("no demand named %s", name);
    return 0;
}

static void reference_demands_are_the_measured_ones(void **state)
{
    (void)state;
    impmem_model_shape *s = malloc(sizeof *s);
    assert_non_null(s);
    dense_shape(s);
    assert_int_equal(impmem_reference_demands(s, list, 16, &n), IMPMEM_OK);
    assert_int_equal(n, 7);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(list[i].flags, IMPMEM_LINE_ESTIMATED);
        assert_int_equal(list[i].tier, i + 1 < n ? IMPMEM_TIER_ENGINE : IMPMEM_TIER_SCRATCH);
        assert_true(list[i].id >= IMPMEM_LINE_REFERENCE);
        assert_int_not_equal(list[i].how[0], 0);
    }
    assert_int_equal((size_of("executor workspaces", 4096, 8) * 1000 + MIB / 2) / MIB, 396574);
    assert_int_equal(size_of("GEMM workspace", 4096, 8), 64 * MIB);
    assert_int_equal(size_of("GEMM tuning buffer", 4096, 8), 32 * MIB);
    assert_int_equal(size_of("token sampling", 4096, 1), 16 * 66052);
    assert_int_equal(size_of("token sampling", 4096, 32), 64 * 66052);
    /* Measured: 85.5 MiB for rows of 9728, 23.625 for 896 tokens of 12288, 108.0 for 4096 of them. */
    assert_int_equal(size_of("quantised input rows", 4096, 8), MIB * 171 / 2);
    s->feed_forward = 12288;
    assert_int_equal(size_of("quantised input rows", 896, 8), MIB * 23625 / 1000);
    assert_int_equal(size_of("quantised input rows", 4096, 8), 108 * MIB);
    s->feed_forward = 9728;
    assert_int_equal(size_of("split attention", 160, 9), 9 * 32 * 10 * 130 * 4 + 256);
    assert_int_equal(size_of("split attention", 4096, 1), 8 * 32 * 128 * 130 * 4 + 256);
    /* 8 rows of 3 x 2560 two-byte and 151,936 four-byte elements, then 8 x (3 x 9728 + 2560) x 2. */
    assert_int_equal(size_of("forward scratch", 4096, 8), 8 * (3 * 2560 * 2 + 151936 * 4) + 8 * (3 * 9728 + 2560) * 2);
    experts_shape(s);
    assert_int_equal(impmem_reference_demands(s, list, 16, &n), IMPMEM_OK);
    assert_int_equal(n, 9);
    assert_int_equal(size_of("grouped GEMM", 4096, 8), 2 * MIB);
    assert_int_equal(size_of("expert tables", 4096, 8),
                     3 * 128 * 8 + 3 * 128 * 4 + 4 + 129 * 8 + 2 * 128 * 8 + 128 * 4 + 2 * 128 * 8 + 11 * 256);
    post_norm_shape(s);
    assert_int_equal(impmem_reference_demands(s, list, 16, &n), IMPMEM_OK);
    assert_int_equal(size_of("forward scratch", 4096, 1), 3 * 2560 * 2 + 262208 * 4 + 2560 * 4 + 3 * 10240 * 2 + 2560 * 2);
    free(s);
}

static void reference_demands_say_how_many_they_are(void **state)
{
    (void)state;
    impmem_model_shape *s = malloc(sizeof *s);
    assert_non_null(s);
    dense_shape(s);
    memset(list, 0xa5, sizeof list);
    impmem_demand before = list[3];
    assert_int_equal(impmem_reference_demands(s, list, 3, &n), IMPMEM_ERR_EXHAUSTED);
    assert_int_equal(n, 7);
    assert_memory_equal(&list[3], &before, sizeof before);
    assert_int_equal(impmem_reference_demands(s, NULL, 0, &n), IMPMEM_ERR_EXHAUSTED);
    assert_int_equal(n, 7);
    assert_int_equal(impmem_reference_demands(s, NULL, 7, &n), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_reference_demands(NULL, list, 16, &n), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_reference_demands(s, list, 16, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
    free(s);
}

static void reference_demands_plan_as_they_are(void **state)
{
    (void)state;
    dense_case c;
    dense_case_init(&c, 32607);
    assert_int_equal(impmem_reference_demands(&c.shape, list, 16, &n), IMPMEM_OK);
    c.in.demand = list;
    c.in.n_demands = n;
    impmem_plan *plan = calloc(1, sizeof *plan);
    assert_non_null(plan);
    assert_int_equal(impmem_plan_memory(&c.in, plan, NULL), IMPMEM_OK);
    for (uint32_t i = 0; i < n; i++) {
        const impmem_line *line = impmem_plan_find_line(plan, list[i].id);
        assert_non_null(line);
        uint64_t bytes = size_of(list[i].name, 4096, 8);
        assert_true(line->bytes == (bytes + 255) / 256 * 256);
        assert_int_equal(line->flags, IMPMEM_LINE_ESTIMATED);
    }
    free(plan);
}

static uint64_t operand_of(const impmem_explanation *e, const char *name)
{
    for (uint32_t i = 0; i < e->n_operands; i++)
        if (strncmp(e->operand[i].name, name, strlen(name)) == 0) return e->operand[i].value;
    fail_msg("%s has no operand %s", e->formula, name);
    return 0;
}

static uint64_t a(uint64_t x)
{
    return (x + 255) / 256 * 256;
}

/* The formula that is shown, with the operands that are shown, is the line. */
static void reference_lines_are_explained_by_their_own_operands(void **state)
{
    (void)state;
    dense_case c;
    dense_case_init(&c, 65536);
    impmem_plan *plan = calloc(1, sizeof *plan);
    assert_non_null(plan);
    for (uint32_t kind = 0; kind < 3; kind++) {
        if (kind == 1) experts_shape(&c.shape);
        if (kind == 2) post_norm_shape(&c.shape);
        assert_int_equal(impmem_reference_demands(&c.shape, list, 16, &n), IMPMEM_OK);
        c.in.demand = list;
        c.in.n_demands = n;
        assert_int_equal(impmem_plan_memory(&c.in, plan, NULL), IMPMEM_OK);
        for (uint32_t i = 0; i < n; i++) {
            impmem_explanation e;
            assert_int_equal(impmem_plan_explain(&c.in, plan, list[i].id, &e, NULL), IMPMEM_OK);
            assert_true(e.n_operands > 0 || !list[i].size); /* a size that depends on anything shows on what */
            uint64_t bytes = e.bytes;
            if (strncmp(e.formula, "3 a(T d 2)", 10) == 0) {
                const uint64_t rows = operand_of(&e, "L"), tokens = operand_of(&e, "T");
                bytes = 3 * a(tokens * operand_of(&e, "d") * 2) + a(rows * operand_of(&e, "vocab") * 4) +
                        operand_of(&e, "part") + operand_of(&e, "norms") + a(2 * operand_of(&e, "weight")) +
                        a(rows * operand_of(&e, "heads") * 32 * (2 + operand_of(&e, "head_dim")) * 4) + 16384 * rows +
                        operand_of(&e, "margin");
            } else if (strncmp(e.formula, "batch x", 7) == 0) {
                const uint64_t d = kind == 2 ? 10 : 6;
                bytes = operand_of(&e, "batch") * (d * operand_of(&e, "d") + 4 * operand_of(&e, "vocab")) +
                        operand_of(&e, "part");
            } else if (strncmp(e.formula, "tokens x", 8) == 0) {
                bytes = operand_of(&e, "tokens") * ((operand_of(&e, "row") + 31) / 32) * 72;
            } else if (strncmp(e.formula, "rows x heads", 12) == 0) {
                const uint64_t splits = (operand_of(&e, "tokens") + 15) / 16;
                bytes = operand_of(&e, "rows") * operand_of(&e, "heads") * (splits < 128 ? splits : 128) *
                            (2 + operand_of(&e, "head_dim")) * 4 +
                        256;
            } else if (strncmp(e.formula, "2 x rows", 8) == 0) {
                bytes = 2 * operand_of(&e, "rows") * 66052;
            } else if (strncmp(e.formula, "80 x experts", 12) == 0) {
                bytes = 80 * operand_of(&e, "experts") + 12 + 11 * 256;
            } else {
                assert_null(list[i].size);
            }
            assert_true(a(bytes) == e.bytes);
        }
    }
    free(plan);
}

static void profiles_are_found_by_index_and_by_name(void **state)
{
    (void)state;
    const impmem_device_profile *first = impmem_device_profile_at(0);
    assert_non_null(first);
    assert_string_equal(first->name, "default");
    assert_int_equal(first->estimated, 1);
    uint32_t count = 0;
    for (const impmem_device_profile *p; (p = impmem_device_profile_at(count)) != NULL; count++) {
        assert_int_equal(p->size, sizeof *p);
        assert_int_equal(p->version, 1);
        assert_non_null(memchr(p->name, 0, sizeof p->name));
        assert_non_null(memchr(p->source, 0, sizeof p->source));
        assert_int_not_equal(p->source[0], 0);
        assert_ptr_equal(impmem_device_profile_find(p->name), p);
        assert_true(p->context_bytes > 0 && p->granule_bytes == 2 * MIB);
    }
    assert_int_equal(count, 3);
    assert_null(impmem_device_profile_at(UINT32_MAX));
    const impmem_device_profile *h200 = impmem_device_profile_find("H200");
    assert_non_null(h200);
    assert_true(h200->total_bytes == 143156 * MIB);
    assert_true(h200->context_bytes == 527 * MIB);
    const impmem_device_profile *rtx = impmem_device_profile_find("rtx-5090-WSL2");
    assert_non_null(rtx);
    assert_true(rtx->total_bytes == 32607 * MIB);
    assert_int_equal(rtx->context_bytes, (16796 * MIB + 9) / 10); /* 1679.6 MiB */
    assert_null(impmem_device_profile_find("h20"));
    assert_null(impmem_device_profile_find("h2000"));
    assert_null(impmem_device_profile_find(""));
    assert_null(impmem_device_profile_find(NULL));
}

static void a_profile_sets_the_charges_and_the_granule_only(void **state)
{
    (void)state;
    impmem_plan_input in = IMPMEM_PLAN_INPUT_INIT, expected = in;
    impmem_plan_input_use_profile(&in, NULL);
    assert_memory_equal(&in, &expected, sizeof in);
    impmem_plan_input_use_profile(NULL, impmem_device_profile_at(0));
    impmem_device_profile p = IMPMEM_DEVICE_PROFILE_INIT;
    p.total_bytes = 1;
    p.context_bytes = expected.context_bytes = 2;
    p.library_reserve_bytes = expected.library_reserve_bytes = 3;
    p.granule_bytes = expected.granule_bytes = 4096;
    p.estimated = 7;
    expected.charges_estimated = 1;
    impmem_plan_input_use_profile(&in, &p);
    assert_memory_equal(&in, &expected, sizeof in);
    p.estimated = expected.charges_estimated = 0;
    impmem_plan_input_use_profile(&in, &p);
    assert_memory_equal(&in, &expected, sizeof in);
}

static void default_charges_are_marked_as_estimated(void **state)
{
    (void)state;
    dense_case c;
    dense_case_init(&c, 32607);
    impmem_plan *plan = calloc(1, sizeof *plan);
    assert_non_null(plan);
    assert_int_equal(impmem_plan_memory(&c.in, plan, NULL), IMPMEM_OK);
    assert_int_equal(impmem_plan_find_line(plan, IMPMEM_LINE_CONTEXT)->flags, 0);
    impmem_plan_input_use_profile(&c.in, impmem_device_profile_at(0));
    c.shape.weight_source = IMPMEM_SOURCE_ESTIMATED;
    assert_int_equal(impmem_plan_memory(&c.in, plan, NULL), IMPMEM_OK);
    assert_int_equal(impmem_plan_find_line(plan, IMPMEM_LINE_CONTEXT)->flags, IMPMEM_LINE_ESTIMATED);
    assert_int_equal(impmem_plan_find_line(plan, IMPMEM_LINE_LIBRARY)->flags, IMPMEM_LINE_ESTIMATED);
    assert_int_equal(impmem_plan_find_line(plan, IMPMEM_LINE_WEIGHTS)->flags, IMPMEM_LINE_ESTIMATED);
    free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_demands_are_the_measured_ones),
        cmocka_unit_test(reference_demands_say_how_many_they_are),
        cmocka_unit_test(reference_demands_plan_as_they_are),
        cmocka_unit_test(reference_lines_are_explained_by_their_own_operands),
        cmocka_unit_test(profiles_are_found_by_index_and_by_name),
        cmocka_unit_test(a_profile_sets_the_charges_and_the_granule_only),
        cmocka_unit_test(default_charges_are_marked_as_estimated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
