/* Plans and failures as text and JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <jansson.h>

#include "impmem/plan_report.h"
#include "unit/plan/shapes.h"

static char text[65536];
static impmem_plan plan;
static impmem_plan_failure failure;
static refused_case refused;
static dense_case fitting;

typedef impmem_status (*plan_writer)(const impmem_plan *plan, impmem_write_fn write, void *context);
typedef impmem_status (*failure_writer)(const impmem_plan_failure *failure, impmem_write_fn write, void *context);

static impmem_text_buffer buffer(void)
{
    text[0] = 0;
    return (impmem_text_buffer){text, sizeof text, 0};
}

static void refuse(const impmem_plan_input *in)
{
    plan = (impmem_plan)IMPMEM_PLAN_INIT;
    failure = (impmem_plan_failure)IMPMEM_PLAN_FAILURE_INIT;
    assert_int_not_equal(impmem_plan_memory(in, &plan, &failure), IMPMEM_OK);
}

static void fit(const impmem_plan_input *in)
{
    plan = (impmem_plan)IMPMEM_PLAN_INIT;
    assert_int_equal(impmem_plan_memory(in, &plan, NULL), IMPMEM_OK);
}

static int start(void **state)
{
    (void)state;
    refused_case_init(&refused);
    dense_case_init(&fitting, 16384);
    return 0;
}

static void assert_has(const char *part)
{
    if (!strstr(text, part)) fail_msg("\"%s\" is not in:\n%s", part, text);
}

static void assert_lacks(const char *part)
{
    if (strstr(text, part)) fail_msg("\"%s\" is in:\n%s", part, text);
}

static void assert_in_order(const char *first, const char *second)
{
    assert_has(first);
    assert_has(second);
    assert_true(strstr(text, first) < strstr(text, second));
}

static void no_line_ends_in_a_space(void)
{
    for (const char *p = text; (p = strchr(p, '\n')) != NULL; p++) assert_true(p == text || p[-1] != ' ');
}

static void a_refusal_shows_its_arithmetic_and_what_to_change(void **state)
{
    (void)state;
    refuse(&refused.in);
    impmem_text_buffer out = buffer();
    assert_int_equal(impmem_plan_failure_write(&failure, impmem_write_buffer, &out), IMPMEM_ERR_DOES_NOT_FIT);
    assert_int_equal(strncmp(text, "does not fit: over by 3345.0 MiB of 32607.0\n\n", 45), 0);
    static const char *const lines[] = {
        "    weights                     15467.0 ", "    KV cache                    12288.0 ",
        "    library reserve              3900.0 ", "    decode cache and scales      1800.0",
        "    device context               1680.0 ", "    executor scratch              507.0",
        "    engine-persistent             310.0",  "    total                       35952.0\n"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) assert_has(lines[i]);
    for (size_t i = 1; i < sizeof lines / sizeof lines[0]; i++) assert_in_order(lines[i - 1], lines[i]);
    assert_in_order("total                       35952.0", "needs on the host");
    assert_in_order("needs on the host", "host tables");
    assert_has("KV holds 5 sequences at 4096 tokens (1280 blocks of 16 tokens)");
    assert_has("  change one of                       frees MiB\n");
    assert_has("    --kv-dtype fp8                       6144.0    (f16 -> fp8)\n");
    assert_has("    --max-batch 5                        4608.0    (8 -> 5)\n");
    assert_has("    --max-seq-len 2976                   3360.0    (4096 -> 2976)\n");
    assert_has("    --budget 35952MiB                   +3345.0    (32607MiB -> 35952MiB)\n");
    assert_in_order("--max-batch 5", "--max-seq-len 2976");
    assert_in_order("--promised-kv-tokens 23840", "--budget");
    no_line_ends_in_a_space();
}

static void a_plan_shows_its_lines_and_what_kv_holds(void **state)
{
    (void)state;
    fitting.demand[1].flags = IMPMEM_LINE_ESTIMATED;
    fit(&fitting.in);
    impmem_text_buffer out = buffer();
    assert_int_equal(impmem_plan_write(&plan, impmem_write_buffer, &out), IMPMEM_OK);
    assert_int_equal(strncmp(text, "fits: 16384.0 MiB of 16384.0, 0.0 to spare\n", 43), 0);
    assert_in_order("    KV cache                     4108.5 ", "    weights                      4076.0 ");
    assert_in_order("    persistent                    397.0   [estimated]\n", "    scratch                        64.0\n");
    assert_has("    decode cache                 2158.0   [optional]\n");
    assert_has("    total                       16384.0\n");
    assert_has("while loading, without KV: 12275.0"); /* 10117 + 2158 */
    assert_has("KV holds 7 sequences at 4096 tokens (1826 blocks of 16 tokens)\n");
    assert_has("fewer than the batch of 8");
    assert_in_order("    total                       16384.0\n", "  host   ");
    no_line_ends_in_a_space();
}

static void optional_lines_say_what_they_did_not_get(void **state)
{
    (void)state;
    fitting.in.budget_bytes = 12800 * MIB;
    fit(&fitting.in);
    impmem_text_buffer out = buffer();
    assert_int_equal(impmem_plan_write(&plan, impmem_write_buffer, &out), IMPMEM_OK);
    assert_has("    decode cache                  379.0   [optional, in part: asked 2158.0]\n");
    fitting.in.budget_bytes = (10117 + 2304) * MIB;
    fit(&fitting.in);
    out = buffer();
    assert_int_equal(impmem_plan_write(&plan, impmem_write_buffer, &out), IMPMEM_OK);
    assert_has("    decode cache                    0.0   [optional, dropped: asked 2158.0]\n");
}

static void every_kind_of_line_is_marked_as_what_it_is(void **state)
{
    (void)state;
    window_layers(&fitting.shape, 0, 18, 1024);
    impmem_demand d[] = {demand(3000, IMPMEM_TIER_MODEL, IMPMEM_LINE_TRANSIENT, 5 * MIB, "repacking"),
                         demand(3001, IMPMEM_TIER_PINNED, 0, 7 * MIB, "host spill"),
                         demand(3002, IMPMEM_TIER_STAGING, 0, 3 * MIB, "load staging")};
    fitting.in.demand = d;
    fitting.in.n_demands = 3;
    fitting.in.charges_estimated = 1;
    fit(&fitting.in);
    impmem_text_buffer out = buffer();
    assert_int_equal(impmem_plan_write(&plan, impmem_write_buffer, &out), IMPMEM_OK);
    assert_has("    repacking                       5.0   [while loading only]\n");
    assert_has("    device context               1680.0   a default, not measured on this device [estimated]\n");
    assert_in_order("  host   ", "    host spill                      7.0   [page-locked]\n");
    assert_in_order("host spill", "    load staging                    3.0\n");
    /* (1024 + 4096) / 16 + 1 blocks are more than a sequence's 256. */
    assert_has("KV holds 8 sequences at 4096 tokens (2048 blocks of 16 tokens, and window of 1024: 2048)\n");
    assert_lacks("fewer than the batch");
    no_line_ends_in_a_space();
}

static void a_model_without_kv_says_so(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 36; i++) fitting.shape.layer[i].kind = IMPMEM_LAYER_NO_ATTENTION;
    fit(&fitting.in);
    impmem_text_buffer out = buffer();
    assert_int_equal(impmem_plan_write(&plan, impmem_write_buffer, &out), IMPMEM_OK);
    assert_has("\n  KV: none\n");
    fitting.in.budget_bytes = 1;
    refuse(&fitting.in);
    out = buffer();
    assert_int_equal(impmem_plan_failure_write(&failure, impmem_write_buffer, &out), IMPMEM_ERR_DOES_NOT_FIT);
    assert_has("\n  KV: none\n");
}

static void a_refusal_without_levers_and_one_of_host_memory_say_so(void **state)
{
    (void)state;
    fitting.demand[1] = demand(2002, IMPMEM_TIER_PINNED, 0, 400 * MIB, "host spill");
    fitting.in.pinned_budget_bytes = 100 * MIB;
    refuse(&fitting.in);
    impmem_text_buffer out = buffer();
    assert_int_equal(impmem_plan_failure_write(&failure, impmem_write_buffer, &out), IMPMEM_ERR_DOES_NOT_FIT);
    assert_has("does not fit: over by 300.0 MiB of 100.0 (pinned host memory)\n");
    assert_has("no single change makes it fit\n");
}

static void an_input_that_is_no_plan_is_one_line(void **state)
{
    (void)state;
    fitting.in.block_tokens = 24;
    refuse(&fitting.in);
    impmem_text_buffer out = buffer();
    assert_int_equal(impmem_plan_failure_write(&failure, impmem_write_buffer, &out), IMPMEM_ERR_BAD_VALUE);
    assert_string_equal(text, "can't be planned: block_tokens is 24, expected a multiple of 16 from 16 to 256\n");
}

static json_t *parsed(void)
{
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!root) fail_msg("line %d: %s in:\n%s", error.line, error.text, text);
    return root;
}

static uint64_t number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value)) fail_msg("%s is no integer", key);
    return (uint64_t)json_integer_value(value);
}

static void a_plan_reads_back_from_its_json(void **state)
{
    (void)state;
    window_layers(&fitting.shape, 0, 18, 1024);
    strcpy(fitting.demand[1].name, "a \"quoted\"\n\x01 name");
    fit(&fitting.in);
    impmem_text_buffer out = buffer();
    assert_int_equal(impmem_plan_write_json(&plan, impmem_write_buffer, &out), IMPMEM_OK);
    json_t *root = parsed();
    assert_int_equal(number(root, "schema"), 1);
    assert_true(json_is_true(json_object_get(root, "fits")));
    assert_int_equal(number(json_object_get(root, "budget_bytes"), "device"), 16384 * MIB);
    assert_true(json_is_null(json_object_get(json_object_get(root, "budget_bytes"), "pinned")));
    assert_int_equal(number(json_object_get(root, "total_bytes"), "device"), plan.total_bytes[IMPMEM_ACCOUNT_DEVICE]);
    assert_string_equal(json_string_value(json_object_get(root, "kv_dtype_k")), "f16");
    const json_t *lines = json_object_get(root, "lines"), *regions = json_object_get(root, "regions");
    assert_int_equal(json_array_size(lines), plan.n_lines);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < plan.n_lines; i++) {
        const json_t *line = json_array_get(lines, i);
        assert_int_equal(number(line, "id"), plan.line[i].id);
        assert_string_equal(json_string_value(json_object_get(line, "name")), plan.line[i].name);
        assert_string_equal(json_string_value(json_object_get(line, "how")), plan.line[i].how);
        assert_int_equal(json_is_null(json_object_get(line, "region")), plan.line[i].region == UINT32_MAX);
        if (strcmp(json_string_value(json_object_get(line, "account")), "device") == 0) sum += number(line, "bytes");
        assert_int_equal(json_is_true(json_object_get(line, "optional")), plan.line[i].id == 2001);
    }
    assert_true(sum == plan.total_bytes[IMPMEM_ACCOUNT_DEVICE]);
    assert_int_equal(json_array_size(regions), plan.n_regions);
    const json_t *groups = json_object_get(root, "kv_groups");
    assert_int_equal(json_array_size(groups), 2);
    assert_true(json_is_null(json_object_get(json_array_get(groups, 0), "window_tokens")));
    assert_int_equal(number(json_array_get(groups, 1), "window_tokens"), 1024);
    assert_int_equal(number(json_array_get(groups, 1), "blocks"), plan.kv_group[1].blocks);
    json_decref(root);
}

static void a_refusal_reads_back_from_its_json(void **state)
{
    (void)state;
    refuse(&refused.in);
    impmem_text_buffer out = buffer();
    assert_int_equal(impmem_plan_failure_write_json(&failure, impmem_write_buffer, &out), IMPMEM_ERR_DOES_NOT_FIT);
    json_t *root = parsed();
    assert_true(json_is_false(json_object_get(root, "fits")));
    assert_string_equal(json_string_value(json_object_get(root, "status")), "IMPMEM_ERR_DOES_NOT_FIT");
    assert_string_equal(json_string_value(json_object_get(root, "account")), "device");
    assert_int_equal(number(root, "over_bytes"), 3345 * MIB);
    const json_t *levers = json_object_get(root, "levers");
    assert_int_equal(json_array_size(levers), 7);
    assert_string_equal(json_string_value(json_object_get(json_array_get(levers, 0), "flag")), "--kv-dtype fp8");
    assert_int_equal(number(json_array_get(levers, 0), "frees_bytes"), 6144 * MIB);
    assert_string_equal(json_string_value(json_object_get(json_array_get(levers, 6), "kind")), "budget");
    assert_int_equal(number(json_array_get(levers, 6), "adds_bytes"), 3345 * MIB);
    assert_true(json_is_null(json_object_get(json_array_get(levers, 0), "second")));
    assert_int_equal(json_array_size(json_object_get(root, "conflict")), 0);
    assert_int_equal(json_array_size(json_object_get(root, "lines")), failure.n_lines);
    json_decref(root);
    refused.in.block_tokens = 24;
    refuse(&refused.in);
    out = buffer();
    assert_int_equal(impmem_plan_failure_write_json(&failure, impmem_write_buffer, &out), IMPMEM_ERR_BAD_VALUE);
    root = parsed();
    assert_string_equal(json_string_value(json_object_get(root, "subject")), "block_tokens");
    assert_null(json_object_get(root, "lines"));
    json_decref(root);
}

/* Required keys are there, and no key is that the schema doesn't know; nested objects and arrays likewise. */
static void follows(const json_t *schema, const json_t *definitions, const json_t *value, const char *where)
{
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    if (ref) schema = json_object_get(definitions, strrchr(ref, '/') + 1);
    assert_non_null(schema);
    if (json_is_array(value)) {
        size_t i;
        json_t *item;
        json_array_foreach(value, i, item) follows(json_object_get(schema, "items"), definitions, item, where);
        return;
    }
    if (!json_is_object(value)) return;
    const json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required");
    size_t i;
    json_t *name;
    const char *key;
    json_t *part;
    if (required) {
        json_array_foreach(required, i, name)
        {
            if (!json_object_get(value, json_string_value(name))) fail_msg("%s lacks %s", where, json_string_value(name));
        }
    }
    void *at = json_object_iter((json_t *)(uintptr_t)value);
    for (; at; at = json_object_iter_next((json_t *)(uintptr_t)value, at)) {
        key = json_object_iter_key(at);
        part = json_object_iter_value(at);
        const json_t *known = json_object_get(properties, key);
        if (!known) fail_msg("%s has the key %s that the schema doesn't know", where, key);
        follows(known, definitions, part, key);
    }
}

static void follow_plan(const json_t *definitions)
{
    impmem_text_buffer out = buffer();
    assert_int_equal(impmem_plan_write_json(&plan, impmem_write_buffer, &out), IMPMEM_OK);
    json_t *root = parsed();
    follows(json_object_get(definitions, "plan"), definitions, root, "the plan");
    json_decref(root);
}

static void follow_failure(const json_t *definitions)
{
    impmem_text_buffer out = buffer();
    assert_int_equal(impmem_plan_failure_write_json(&failure, impmem_write_buffer, &out), IMPMEM_ERR_DOES_NOT_FIT);
    json_t *root = parsed();
    follows(json_object_get(definitions, "failure"), definitions, root, "the failure");
    json_decref(root);
}

/* A draft, scales apart, state, reserved blocks: all that a plan can hold beside the plain lines. */
static impmem_plan_features rich;

static void make_rich(void)
{
    rich = (impmem_plan_features)IMPMEM_PLAN_FEATURES_INIT;
    rich.draft_tokens = 2;
    rich.null_blocks = 1;
    rich.key_bounds = 1;
    rich.kernel_offset_bits = 31;
    fitting.shape.draft_layers = 1;
    fitting.shape.layer[0] = (impmem_layer_shape){.kind = IMPMEM_LAYER_NO_ATTENTION,
                                                  .recurrent = IMPMEM_RECURRENT_MAMBA,
                                                  .conv_kernel = 4,
                                                  .conv_channels = 64,
                                                  .state_elements = 1024};
    fitting.in.features = &rich;
    fitting.in.max_batch = 512;
}

static void both_objects_follow_the_documented_schema(void **state)
{
    (void)state;
    json_error_t error;
    json_t *schema = json_load_file(IMPMEM_SOURCE_DIR "/docs/plan-schema.json", JSON_REJECT_DUPLICATES, &error);
    if (!schema) fail_msg("docs/plan-schema.json, line %d: %s", error.line, error.text);
    const json_t *definitions = json_object_get(schema, "$defs");
    fit(&fitting.in);
    follow_plan(definitions);
    make_rich();
    fit(&fitting.in);
    assert_true(plan.n_kv_sides == 2 && plan.n_state_pools == 2);
    follow_plan(definitions);
    refuse(&refused.in);
    follow_failure(definitions);
    refused.in.budget_bytes = MIB;
    refuse(&refused.in);
    assert_true(failure.n_conflict > 0);
    follow_failure(definitions);
    json_decref(schema);
}

static void pools_beside_kv_and_reserved_blocks_are_told(void **state)
{
    (void)state;
    make_rich();
    fit(&fitting.in);
    impmem_text_buffer out = buffer();
    assert_int_equal(impmem_plan_write(&plan, impmem_write_buffer, &out), IMPMEM_OK);
    assert_has("KV cache of the draft");
    assert_has("KV key bounds");
    assert_has("recurrent state to roll back");
    assert_has("  recurrent state: 512 slots of 0.0 MiB\n"); /* 3 x 64 x 4 + 1024 x 4 = 4864 B */
    assert_has("of each pool 1 blocks are null, spare or fenced");
    /* 512 x 256 + 1 blocks asked for, 65,536 reached. */
    assert_has("65537 more blocks were asked for than the kernels' offsets reach");
    no_line_ends_in_a_space();
}

static void two_changes_together_are_one_flag_line(void **state)
{
    (void)state;
    /* 100 MiB beside 23664; 20 MiB of state a sequence leave room for one of 13 blocks of 6 MiB, or for less of more. */
    for (uint32_t i = 0; i < 8; i++) {
        refused.shape.layer[i].recurrent = IMPMEM_RECURRENT_SHORT_CONV;
        refused.shape.layer[i].conv_kernel = 2;
        refused.shape.layer[i].conv_channels = 2621440 / 4;
    }
    refused.in.budget_bytes = (23664 + 100) * MIB;
    refuse(&refused.in);
    impmem_text_buffer out = buffer();
    assert_int_equal(impmem_plan_failure_write(&failure, impmem_write_buffer, &out), IMPMEM_ERR_DOES_NOT_FIT);
    assert_has("    --max-batch 1 --max-seq-len 208 ");
    assert_has("(8 -> 1, 4096 -> 208)");
    assert_in_order("--max-batch 1", "--budget");
    assert_lacks("no smaller load is enough");
    no_line_ends_in_a_space();
}

static void explained_lines_show_formula_and_operands(void **state)
{
    (void)state;
    make_rich();
    rich.logit_rows = 8;
    fit(&fitting.in);
    impmem_text_buffer out = buffer();
    assert_int_equal(impmem_plan_write_explained(&fitting.in, &plan, impmem_write_buffer, &out), IMPMEM_OK);
    assert_has("logits: 4.6 MiB, 4861952 bytes\n    rows x vocab x 4\n        rows "); /* 8 x 151,936 x 4 */
    for (uint32_t i = 0; i < plan.n_lines; i++) assert_has(plan.line[i].name);
    no_line_ends_in_a_space();
    assert_int_equal(impmem_plan_write_explained(NULL, &plan, impmem_write_buffer, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_plan_write_explained(&fitting.in, NULL, impmem_write_buffer, &out),
                     IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_plan_write_explained(&fitting.in, &plan, NULL, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    fitting.in.block_tokens = 24;
    assert_int_equal(impmem_plan_write_explained(&fitting.in, &plan, impmem_write_buffer, &out), IMPMEM_ERR_BAD_VALUE);
}

static void a_difference_shows_the_largest_change_first(void **state)
{
    (void)state;
    static impmem_plan first;
    fit(&fitting.in);
    first = plan;
    fitting.in.budget_bytes = 32607 * MIB;
    fitting.in.context_bytes += 10 * MIB;
    fit(&fitting.in);
    impmem_text_buffer out = buffer();
    assert_int_equal(impmem_plan_write_difference(&first, &plan, impmem_write_buffer, &out), IMPMEM_OK);
    /* 1826 blocks of 2.25 MiB before, 2048 after. */
    assert_has("    KV cache                               4108.5       4608.0       +499.5\n");
    assert_in_order("    KV cache ", "    device context ");
    assert_has("+10.0");
    assert_lacks("weights");
    assert_in_order("device context", "total, device");
    impmem_text_buffer back = buffer();
    assert_int_equal(impmem_plan_write_difference(&plan, &first, impmem_write_buffer, &back), IMPMEM_OK);
    assert_has("-499.5");
    assert_int_equal(impmem_plan_write_difference(NULL, &plan, impmem_write_buffer, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_plan_write_difference(&plan, NULL, impmem_write_buffer, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_plan_write_difference(&plan, &plan, NULL, &out), IMPMEM_ERR_INVALID_ARGUMENT);
}

static void ranks_are_rows_with_what_is_stranded(void **state)
{
    (void)state;
    static impmem_plan plans[2];
    impmem_rank ranks[2];
    impmem_ranks_summary sum;
    impmem_layout layout = IMPMEM_LAYOUT_INIT;
    uint64_t budgets[] = {32607 * MIB, 16384 * MIB};
    layout.pp = 2;
    layout.budget_bytes = budgets;
    rich = (impmem_plan_features)IMPMEM_PLAN_FEATURES_INIT;
    rich.communication_bytes = 2000 * MIB;
    fitting.in.features = &rich;
    fitting.in.max_batch = 64;
    assert_int_equal(impmem_plan_ranks(&fitting.in, &layout, plans, ranks, 2, &sum, NULL), IMPMEM_OK);
    impmem_text_buffer out = buffer();
    assert_int_equal(impmem_plan_write_ranks(plans, ranks, &sum, impmem_write_buffer, &out), IMPMEM_OK);
    assert_has("  0      0      0 to 17            2038.0");
    assert_has("  1      1      18 to 35           2038.0");
    /* Rank 1: 16384 - 1680 - 3900 - 2000 - 397 - 64 - 2038 - 2158 = 4147 MiB, blocks of 1.125. */
    assert_has("  3686 blocks on every rank; rank 1 has no room for more\n");
    assert_lacks("the same KV heads");
    /* 16 ranks of a stage for 8 heads, and room to spare: the load ends the blocks, no rank does. */
    static impmem_plan many[16];
    impmem_rank places[16];
    layout = (impmem_layout)IMPMEM_LAYOUT_INIT;
    layout.tp = 16;
    fitting.in.max_batch = 1;
    assert_int_equal(impmem_plan_ranks(&fitting.in, &layout, many, places, 16, &sum, NULL), IMPMEM_OK);
    impmem_text_buffer second = buffer();
    assert_int_equal(impmem_plan_write_ranks(many, places, &sum, impmem_write_buffer, &second), IMPMEM_OK);
    assert_has("  256 blocks on every rank: all that the load asks for\n");
    assert_lacks("no room for more");
    assert_has("  ranks 0 to 15: the same KV heads are held 2 times\n");
    assert_int_equal(impmem_plan_write_ranks(NULL, ranks, &sum, impmem_write_buffer, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_plan_write_ranks(plans, NULL, &sum, impmem_write_buffer, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_plan_write_ranks(plans, ranks, NULL, impmem_write_buffer, &out), IMPMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(impmem_plan_write_ranks(plans, ranks, &sum, NULL, &out), IMPMEM_ERR_INVALID_ARGUMENT);
}

static void what_conflicts_is_named_with_the_gap(void **state)
{
    (void)state;
    /* Weights 15467 + context 1680 + libraries 3900 ...: 23664 without KV, and one block of the smallest type. */
    refused.in.budget_bytes = 18000 * MIB;
    refuse(&refused.in);
    impmem_text_buffer out = buffer();
    assert_int_equal(impmem_plan_failure_write(&failure, impmem_write_buffer, &out), IMPMEM_ERR_DOES_NOT_FIT);
    assert_has("no smaller load is enough: the least needs 23666.0 MiB, 5666.0 too much. Too much together:");
    assert_in_order("Too much together", "--budget");
    assert_in_order("    weights ", "    library reserve ");
    assert_int_equal(failure.n_conflict, 2); /* 15467 + 3900 */
    no_line_ends_in_a_space();
}

typedef struct limited {
    uint32_t left; /* writes that succeed */
} limited;

static impmem_status write_limited(void *context, const char *part, size_t length)
{
    (void)part;
    (void)length;
    limited *l = context;
    if (l->left == 0) return IMPMEM_ERR_IO;
    l->left--;
    return IMPMEM_OK;
}

/* Fails at every write in turn until all succeed; returns how many there were. */
static uint32_t fail_each(plan_writer of_plan, failure_writer of_failure, impmem_status done)
{
    for (uint32_t n = 0;; n++) {
        limited l = {n};
        impmem_status st = of_plan ? of_plan(&plan, write_limited, &l) : of_failure(&failure, write_limited, &l);
        if (st == done && l.left == 0) {
            /* The last write must have counted too. */
            limited more = {n + 1};
            st = of_plan ? of_plan(&plan, write_limited, &more) : of_failure(&failure, write_limited, &more);
            if (st == done && more.left == 1) return n;
        }
        assert_int_equal(st, IMPMEM_ERR_IO);
        assert_true(n < 100000);
    }
}

static void a_write_that_fails_is_handed_on_wherever_it_happens(void **state)
{
    (void)state;
    fit(&fitting.in);
    assert_true(fail_each(impmem_plan_write, NULL, IMPMEM_OK) > 5);
    assert_true(fail_each(impmem_plan_write_json, NULL, IMPMEM_OK) > 50);
    refuse(&refused.in);
    assert_true(fail_each(NULL, impmem_plan_failure_write, IMPMEM_ERR_DOES_NOT_FIT) > 5);
    assert_true(fail_each(NULL, impmem_plan_failure_write_json, IMPMEM_ERR_DOES_NOT_FIT) > 50);
    refused.in.block_tokens = 24;
    refuse(&refused.in);
    assert_int_equal(fail_each(NULL, impmem_plan_failure_write, IMPMEM_ERR_BAD_VALUE), 1);
}

static void missing_arguments_and_failures_that_are_none_are_refused(void **state)
{
    (void)state;
    fit(&fitting.in);
    refuse(&refused.in);
    impmem_text_buffer out = buffer();
    static const plan_writer of_plan[] = {impmem_plan_write, impmem_plan_write_json};
    static const failure_writer of_failure[] = {impmem_plan_failure_write, impmem_plan_failure_write_json};
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(of_plan[i](NULL, impmem_write_buffer, &out), IMPMEM_ERR_INVALID_ARGUMENT);
        assert_int_equal(of_plan[i](&plan, NULL, &out), IMPMEM_ERR_INVALID_ARGUMENT);
        assert_int_equal(of_failure[i](NULL, impmem_write_buffer, &out), IMPMEM_ERR_INVALID_ARGUMENT);
        assert_int_equal(of_failure[i](&failure, NULL, &out), IMPMEM_ERR_INVALID_ARGUMENT);
        impmem_plan_failure *none = calloc(1, sizeof *none);
        assert_non_null(none);
        assert_int_equal(of_failure[i](none, impmem_write_buffer, &out), IMPMEM_ERR_INVALID_ARGUMENT);
        free(none);
    }
    assert_int_equal(out.length, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_refusal_shows_its_arithmetic_and_what_to_change, start),
        cmocka_unit_test_setup(a_plan_shows_its_lines_and_what_kv_holds, start),
        cmocka_unit_test_setup(optional_lines_say_what_they_did_not_get, start),
        cmocka_unit_test_setup(every_kind_of_line_is_marked_as_what_it_is, start),
        cmocka_unit_test_setup(a_model_without_kv_says_so, start),
        cmocka_unit_test_setup(a_refusal_without_levers_and_one_of_host_memory_say_so, start),
        cmocka_unit_test_setup(an_input_that_is_no_plan_is_one_line, start),
        cmocka_unit_test_setup(a_plan_reads_back_from_its_json, start),
        cmocka_unit_test_setup(a_refusal_reads_back_from_its_json, start),
        cmocka_unit_test_setup(both_objects_follow_the_documented_schema, start),
        cmocka_unit_test_setup(pools_beside_kv_and_reserved_blocks_are_told, start),
        cmocka_unit_test_setup(two_changes_together_are_one_flag_line, start),
        cmocka_unit_test_setup(what_conflicts_is_named_with_the_gap, start),
        cmocka_unit_test_setup(explained_lines_show_formula_and_operands, start),
        cmocka_unit_test_setup(a_difference_shows_the_largest_change_first, start),
        cmocka_unit_test_setup(ranks_are_rows_with_what_is_stranded, start),
        cmocka_unit_test_setup(a_write_that_fails_is_handed_on_wherever_it_happens, start),
        cmocka_unit_test_setup(missing_arguments_and_failures_that_are_none_are_refused, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
