/* impmem/plan.h, as the header promises it. */
#define _GNU_SOURCE
#include "support/engine_house.h"

static impmem_plan plan, again;
static impmem_plan_failure no, no_again;

static void fresh(void)
{
    plan = again = (impmem_plan)IMPMEM_PLAN_INIT;
    no = no_again = (impmem_plan_failure)IMPMEM_PLAN_FAILURE_INIT;
}

static uint32_t number(const char *value)
{
    return (uint32_t)strtoul(value, NULL, 10);
}

/* "f16", or "f16,fp8" for K and V apart. */
static void paste_dtype(impmem_plan_input *in, char *value)
{
    char *v = strchr(value, ',');
    if (v) *v++ = '\0';
    OK(impmem_dtype_parse(value, &in->kv_dtype_k));
    OK(impmem_dtype_parse(v ? v : value, &in->kv_dtype_v));
}

/* What pasting the flags into a command line means. */
static void paste(impmem_plan_input *in, const char *flags)
{
    char text[128], *rest = NULL;
    assert_true(strlen(flags) < sizeof text);
    strcpy(text, flags);
    for (char *name = strtok_r(text, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        char *value = strtok_r(NULL, " ", &rest);
        assert_non_null(value);
        if (!strcmp(name, "--max-seq-len")) in->max_seq_tokens = number(value);
        else if (!strcmp(name, "--max-batch")) in->max_batch = number(value);
        else if (!strcmp(name, "--prefill-tokens")) in->prefill_tokens = number(value);
        else if (!strcmp(name, "--promised-kv-tokens")) in->promised_kv_tokens = number(value);
        else if (!strcmp(name, "--block-size")) in->block_tokens = number(value);
        else if (!strcmp(name, "--budget")) OK(impmem_parse_bytes(value, &in->budget_bytes));
        else if (!strcmp(name, "--kv-dtype")) paste_dtype(in, value);
        else fail_msg("no such flag: %s", name);
    }
}

static const impmem_lever *find_lever(impmem_lever_kind kind)
{
    for (uint32_t i = 0; i < no.n_levers; i++)
        if (no.lever[i].kind == kind) return &no.lever[i];
    return NULL;
}

static void the_known_refusal_and_its_levers_hold_when_they_are_pasted(void **state)
{
    (void)state;
    refused_case k;
    refused_case_init(&k);
    fresh();
    FAILS(impmem_plan_memory(&k.in, &plan, &no), IMPMEM_ERR_DOES_NOT_FIT);
    assert_int_equal(no.why.status, IMPMEM_ERR_DOES_NOT_FIT);
    assert_int_equal(no.requested_bytes, (15467 + 1800 + 12288 + 507 + 310 + 1680 + 3900) * MIB);
    assert_int_equal(no.requested_bytes, 35952 * MIB);
    assert_int_equal(no.over_bytes, 3345 * MIB);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < no.n_lines; i++)
        if (no.line[i].account == IMPMEM_ACCOUNT_DEVICE) sum += no.line[i].bytes;
    assert_int_equal(sum, no.requested_bytes);
    const impmem_lever *context = find_lever(IMPMEM_LEVER_CONTEXT), *batch = find_lever(IMPMEM_LEVER_BATCH),
                       *dtype = find_lever(IMPMEM_LEVER_KV_DTYPE);
    assert_true(context && batch && dtype);
    assert_int_equal(context->to, 2976);
    assert_int_equal(context->frees_bytes, (4096 - 2976) * 3 * MIB);
    assert_int_equal(batch->to, 5); /* 6 would free 3072 and not fit */
    assert_int_equal(batch->frees_bytes, 3 * 4096 * MIB * 3 / 8);
    assert_int_equal(dtype->frees_bytes, 12288 * MIB / 2);
    for (uint32_t i = 0; i < no.n_levers; i++) {
        impmem_plan_input changed = k.in;
        paste(&changed, no.lever[i].flag);
        again = (impmem_plan)IMPMEM_PLAN_INIT;
        if (impmem_plan_memory(&changed, &again, &no_again)) fail_msg("%s: %s", no.lever[i].flag, no_again.why.message);
        assert_int_equal(again.total_bytes[IMPMEM_ACCOUNT_DEVICE], no.lever[i].total_bytes);
        assert_true(again.total_bytes[IMPMEM_ACCOUNT_DEVICE] <= changed.budget_bytes);
        if (no.lever[i].kind != IMPMEM_LEVER_BUDGET && no.lever[i].kind != IMPMEM_LEVER_PROMISE)
            assert_int_equal(no.requested_bytes - no.lever[i].frees_bytes, again.total_bytes[IMPMEM_ACCOUNT_DEVICE]);
        if (i > 0 && no.lever[i].kind != IMPMEM_LEVER_BUDGET && no.lever[i - 1].kind != IMPMEM_LEVER_BUDGET)
            assert_true(no.lever[i].frees_bytes <= no.lever[i - 1].frees_bytes);
    }
    impmem_plan_input six = k.in;
    six.max_batch = 6;
    FAILS(impmem_plan_memory_only(&six, &again, &no_again), IMPMEM_ERR_DOES_NOT_FIT);
    assert_int_equal(no_again.over_bytes, (3345 - 3072) * MIB);
}

static void the_budget_decides_to_the_byte(void **state)
{
    (void)state;
    refused_case k;
    refused_case_init(&k);
    k.in.budget_bytes = 35952 * MIB;
    fresh();
    OK(impmem_plan_memory(&k.in, &plan, &no));
    assert_int_equal(plan.total_bytes[IMPMEM_ACCOUNT_DEVICE], 35952 * MIB);
    k.in.budget_bytes--;
    FAILS(impmem_plan_memory(&k.in, &again, &no), IMPMEM_ERR_DOES_NOT_FIT);
    assert_int_equal(no.over_bytes, 1);
    const impmem_lever *budget = find_lever(IMPMEM_LEVER_BUDGET);
    assert_non_null(budget);
    assert_int_equal(budget->to, 35952 * MIB);
    assert_int_equal(budget->frees_bytes, 1);
    k.in.budget_bytes = UINT64_MAX;
    OK(impmem_plan_memory(&k.in, &again, &no));
    assert_int_equal(again.total_bytes[IMPMEM_ACCOUNT_DEVICE], 35952 * MIB);
    k.in.budget_bytes = 0;
    FAILS(impmem_plan_memory(&k.in, &again, &no), IMPMEM_ERR_DOES_NOT_FIT);
    assert_int_equal(no.over_bytes, 35952 * MIB);
    for (uint32_t i = 0; i < no.n_levers; i++) {
        impmem_plan_input changed = k.in;
        paste(&changed, no.lever[i].flag);
        OK(impmem_plan_memory_only(&changed, &again, NULL));
    }
}

static void only_one_of_plan_and_failure_is_written(void **state)
{
    (void)state;
    refused_case k;
    static impmem_plan plan_before;
    static impmem_plan_failure no_before;
    refused_case_init(&k);
    fresh();
    plan_before = plan;
    no_before = no;
    FAILS(impmem_plan_memory(&k.in, &plan, &no), IMPMEM_ERR_DOES_NOT_FIT);
    assert_memory_equal(&plan, &plan_before, sizeof plan);
    FAILS(impmem_plan_memory(&k.in, &plan, NULL), IMPMEM_ERR_DOES_NOT_FIT);
    assert_memory_equal(&plan, &plan_before, sizeof plan);
    fresh();
    k.in.budget_bytes = 64 * IMPMEM_GIB;
    OK(impmem_plan_memory(&k.in, &plan, &no));
    assert_memory_equal(&no, &no_before, sizeof no);
    /* From _INIT, from zeros and with or without levers: the same bytes. */
    memset(&again, 0, sizeof again);
    OK(impmem_plan_memory_only(&k.in, &again, NULL));
    assert_memory_equal(&plan, &again, sizeof plan);
}

static impmem_status refuse(const void *context, const impmem_load *load, uint64_t *out_bytes)
{
    (void)context;
    (void)load;
    (void)out_bytes;
    return IMPMEM_ERR_UNSUPPORTED;
}

static void what_cannot_be_planned_is_refused_with_its_field(void **state)
{
    (void)state;
    refused_case k;
    refused_case_init(&k);
    fresh();
    FAILS(impmem_plan_memory(NULL, &plan, &no), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(no.why.status, IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_plan_memory(&k.in, NULL, &no), IMPMEM_ERR_INVALID_ARGUMENT);
    k.in.version = 2;
    FAILS(impmem_plan_memory(&k.in, &plan, &no), IMPMEM_ERR_VERSION);
    assert_int_equal(no.why.status, IMPMEM_ERR_VERSION);
    refused_case_init(&k);
    k.in.model = NULL;
    FAILS(impmem_plan_memory(&k.in, &plan, &no), IMPMEM_ERR_INVALID_ARGUMENT);
    refused_case_init(&k);
    k.shape.weight_bytes = UINT64_MAX;
    FAILS(impmem_plan_memory(&k.in, &plan, &no), IMPMEM_ERR_OVERFLOW);
    assert_true(no.why.subject[0] != '\0');
    refused_case_init(&k);
    k.in.context_bytes = k.in.library_reserve_bytes = UINT64_MAX / 2 + 1; /* the sum wraps to 0 */
    FAILS(impmem_plan_memory(&k.in, &plan, &no), IMPMEM_ERR_OVERFLOW);
    refused_case_init(&k);
    k.demand[1].size = refuse;
    FAILS(impmem_plan_memory(&k.in, &plan, &no), IMPMEM_ERR_UNSUPPORTED);
    assert_int_equal(no.why.line, 2002);
    const uint32_t blocks[] = {1, 8, 15, 17, 24, 272, UINT32_MAX};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        refused_case_init(&k);
        k.in.block_tokens = blocks[i];
        FAILS(impmem_plan_memory(&k.in, &plan, &no), IMPMEM_ERR_BAD_VALUE);
        assert_non_null(strstr(no.why.subject, "block_tokens"));
    }
    refused_case_init(&k);
    k.demand[2].id = 2001;
    FAILS(impmem_plan_memory(&k.in, &plan, &no), IMPMEM_ERR_BAD_VALUE);
    refused_case_init(&k);
    k.in.n_demands = IMPMEM_PLAN_MAX_DEMANDS + 1;
    assert_true(impmem_plan_memory(&k.in, &plan, &no) != IMPMEM_OK);
    const impmem_plan init = IMPMEM_PLAN_INIT;
    assert_memory_equal(&plan, &init, sizeof plan);
    assert_null(impmem_plan_find_line(&init, IMPMEM_LINE_WEIGHTS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_known_refusal_and_its_levers_hold_when_they_are_pasted),
        cmocka_unit_test(the_budget_decides_to_the_byte),
        cmocka_unit_test(only_one_of_plan_and_failure_is_written),
        cmocka_unit_test(what_cannot_be_planned_is_refused_with_its_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
