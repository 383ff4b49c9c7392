/* plan_cards.c - `impmem plan MODEL --cards`: what each known device could serve in its whole memory. */
#include <inttypes.h>
#include <stdio.h>

#include "command.h"
#include "core/json.h"
#include "impmem/bytes.h"
#include "impmem/plan_search.h"
#include "plan_verb.h"

/* The largest of one kind on one card; 0: nothing fits. */
typedef struct largest {
    uint64_t value;
    impmem_fit_limit limit;
} largest;

typedef struct card {
    const impmem_device_profile *profile;
    largest context, batch;
} card;

/* False: the input is nonsense, as *failure says. */
static bool find(const impmem_plan_input *input, impmem_fit_what what, largest *out, impmem_plan_failure *failure)
{
    *failure = (impmem_plan_failure)IMPMEM_PLAN_FAILURE_INIT;
    *out = (largest){0, IMPMEM_FIT_BY_MEMORY};
    impmem_status st = impmem_plan_fit(input, what, &out->value, &out->limit, failure);
    return st == IMPMEM_OK || st == IMPMEM_ERR_DOES_NOT_FIT;
}

static void print_largest(const largest *found, int limit_width)
{
    if (found->value) printf("  %24" PRIu64 "  %-*s", found->value, limit_width, plan_fit_limit_text(found->limit));
    else printf("  %24s  %-*s", "-", limit_width, "does not fit");
}

static void print_text(const plan_prepared *prepared, const card *cards, uint32_t n, uint32_t batch, uint32_t context)
{
    const impmem_model_shape *shape = impmem_model_shape_of(prepared->model);
    char mib[32], batch_head[48], context_head[48];
    printf("model   ");
    plan_print_clean(shape->name[0] ? shape->name : prepared->question.flags->model_path);
    printf(", architecture ");
    plan_print_clean(shape->architecture[0] ? shape->architecture : "not stated");
    printf(", %s\n\n", impmem_model_format(prepared->model));
    snprintf(context_head, sizeof context_head, "context at batch %" PRIu32, batch);
    snprintf(batch_head, sizeof batch_head, "batch at %" PRIu32 " tokens", context);
    printf("  %-20s  %14s  %24s  %-14s  %24s  %s\n", "card", "memory", context_head, "limited by", batch_head,
           "limited by");
    for (uint32_t i = 0; i < n; i++) {
        printf("  %-20s  %14s", cards[i].profile->name, impmem_format_mib(cards[i].profile->total_bytes, mib, sizeof mib));
        print_largest(&cards[i].context, 14);
        print_largest(&cards[i].batch, 0);
        printf("\n");
    }
    printf("\n  each in the card's whole memory; what the device itself takes: see docs/planning.md, Device charges\n");
}

static void json_largest(impmem__json *json, const char *key, const largest *found, const char *value_key)
{
    impmem__json_key(json, key);
    if (!found->value) {
        impmem__json_null(json);
        return;
    }
    impmem__json_object_begin(json);
    impmem__json_field_u64(json, value_key, found->value);
    impmem__json_field_string(json, "limited_by", plan_fit_limit_text(found->limit));
    impmem__json_object_end(json);
}

static impmem_status print_json(const plan_prepared *prepared, const card *cards, uint32_t n, uint32_t batch,
                                uint32_t context)
{
    impmem__json json;
    impmem__json_init(&json, impmem_write_file, stdout, 2);
    impmem__json_object_begin(&json);
    impmem__json_field_string(&json, "model", prepared->question.flags->model_path);
    impmem__json_field_u64(&json, "at_batch", batch);
    impmem__json_field_u64(&json, "at_seq_len", context);
    impmem__json_key(&json, "cards");
    impmem__json_array_begin(&json);
    for (uint32_t i = 0; i < n; i++) {
        impmem__json_object_begin(&json);
        impmem__json_field_string(&json, "name", cards[i].profile->name);
        impmem__json_field_u64(&json, "total_bytes", cards[i].profile->total_bytes);
        impmem__json_field_bool(&json, "estimated", cards[i].profile->estimated != 0);
        json_largest(&json, "context", &cards[i].context, "max_seq_len");
        json_largest(&json, "batch", &cards[i].batch, "max_batch");
        impmem__json_object_end(&json);
    }
    impmem__json_array_end(&json);
    impmem__json_object_end(&json);
    impmem_status st = impmem__json_finish(&json);
    return st ? st : impmem_write_file(stdout, "\n", 1);
}

int plan_cards(const plan_prepared *prepared)
{
    const plan_flags *flags = prepared->question.flags;
    enum { MOST_CARDS = 64 };
    card cards[MOST_CARDS];
    uint32_t n = 0;
    bool any = false;
    impmem_plan_failure failure;
    const impmem_device_profile *profile;
    for (uint32_t i = 0; n < MOST_CARDS && (profile = impmem_device_profile_at(i)) != NULL; i++) {
        if (profile->total_bytes == 0) continue; /* the default is no card */
        impmem_plan_input input = prepared->input;
        impmem_plan_features features = prepared->features;
        impmem_plan_input_use_profile(&input, profile);
        if (flags->granule_bytes) input.granule_bytes = flags->granule_bytes;
        input.budget_bytes = features.device_total_bytes = profile->total_bytes;
        input.features = &features;
        card *c = &cards[n++];
        c->profile = profile;
        if (!find(&input, IMPMEM_FIT_CONTEXT, &c->context, &failure) ||
            !find(&input, IMPMEM_FIT_BATCH, &c->batch, &failure))
            return plan_refuse_input(prepared, &failure.why);
        any = any || c->context.value || c->batch.value;
    }
    const uint32_t batch = flags->max_batch ? flags->max_batch : 1;
    const uint32_t context = flags->max_seq_tokens ? flags->max_seq_tokens
                                                   : impmem_model_shape_of(prepared->model)->trained_context;
    impmem_status st = IMPMEM_OK;
    if (flags->json) st = print_json(prepared, cards, n, batch, context);
    else print_text(prepared, cards, n, batch, context);
    return command_finish_answer(st, any ? COMMAND_DONE : COMMAND_NO);
}
