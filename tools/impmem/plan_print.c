/* plan_print.c - the answers of `impmem plan`: the library's reports, with what they were made from above and the outcome of
 * --open below. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "core/json.h"
#include "impmem/bytes.h"
#include "impmem/plan_report.h"
#include "plan_verb.h"

void plan_print_clean(const char *text)
{
    for (const char *c = text; *c; c++) {
        unsigned char byte = (unsigned char)*c;
        if (byte < 0x20 || byte == 0x7f) printf("\\x%02x", byte);
        else putchar(byte);
    }
}

static const char *source_name(impmem_source source)
{
    switch (source) {
    case IMPMEM_SOURCE_READ: return "read";
    case IMPMEM_SOURCE_ESTIMATED: return "estimated";
    case IMPMEM_SOURCE_UNKNOWN: break;
    }
    return "unknown";
}

static bool budget_above_device(const plan_question *question)
{
    uint64_t total = question->profile->total_bytes;
    return total > 0 && question->flags->budget_bytes > total;
}

void plan_print_head(const plan_question *question)
{
    const impmem_model_shape *shape = impmem_model_shape_of(question->model);
    printf("model   ");
    plan_print_clean(shape->name[0] ? shape->name : question->flags->model_path);
    printf(", architecture ");
    plan_print_clean(shape->architecture[0] ? shape->architecture : "not stated");
    printf(", %s\n", impmem_model_format(question->model));
    for (uint32_t i = 0; impmem_model_note(question->model, i); i++) {
        printf("        estimated: ");
        plan_print_clean(impmem_model_note(question->model, i));
        printf("\n");
    }
    printf("device  ");
    plan_print_clean(question->profile->name);
    printf(question->profile->estimated ? ", estimated: " : ", ");
    plan_print_clean(question->profile->source[0] ? question->profile->source : "source not stated");
    printf("\n");
    if (budget_above_device(question)) {
        char budget[32];
        char total[32];
        printf("        note: the budget of %s is above the %s that the device has\n",
               impmem_format_mib(question->flags->budget_bytes, budget, sizeof budget),
               impmem_format_mib(question->profile->total_bytes, total, sizeof total));
    }
    if (shape->trained_context > 0 && question->flags->max_seq_tokens > shape->trained_context)
        printf("        note: the context of %" PRIu32 " is beyond the %" PRIu32 " tokens that the model was trained on\n",
               question->flags->max_seq_tokens, shape->trained_context);
    printf("\n");
}

static void print_opening(const impmem_plan *plan, const plan_opening *opening)
{
    printf("\nopened on a fake device (addresses only), journal against plan\n");
    if (opening->compared) {
        int width = 4;
        for (uint32_t i = 0; i < plan->n_lines; i++)
            if ((int)strlen(plan->line[i].name) > width) width = (int)strlen(plan->line[i].name);
        printf("  %-*s  %15s  %15s  equal\n", width, "line", "planned bytes", "journal bytes");
        for (uint32_t i = 0; i < plan->n_lines; i++) {
            printf("  ");
            plan_print_clean(plan->line[i].name);
            printf("%*s  %15" PRIu64 "  %15" PRIu64 "  %s\n", width - (int)strlen(plan->line[i].name), "",
                   plan->line[i].bytes, opening->row[i].journal_bytes, opening->row[i].equal ? "yes" : "NO");
        }
        printf("  %" PRIu32 " of %" PRIu32 " lines equal, %" PRIu64 " bytes unplanned\n", opening->n_equal, plan->n_lines,
               opening->unplanned_bytes);
    }
    if (opening->failed_step) {
        const impmem_error *why = &opening->why;
        printf("  FAILED at %s: ", opening->failed_step);
        plan_print_clean(why->message[0] ? why->message : impmem_status_message(why->status));
        printf("\n");
    } else {
        printf("  served with %" PRIu64 " acquisitions\n", opening->serving_acquisitions);
    }
    printf("  closed, live bytes left: device %" PRIu64 ", pinned %" PRIu64 ", pageable %" PRIu64 "\n",
           opening->live_bytes[IMPMEM_ACCOUNT_DEVICE], opening->live_bytes[IMPMEM_ACCOUNT_PINNED],
           opening->live_bytes[IMPMEM_ACCOUNT_PAGEABLE]);
}

impmem_status plan_print_text(const plan_question *question, const impmem_plan *plan, const impmem_plan_failure *failure,
                              const plan_opening *opening, const impmem_plan_input *explained)
{
    plan_print_head(question);
    if (failure) {
        /* The failure's own status comes back when the writing went well. */
        impmem_status st = impmem_plan_failure_write(failure, impmem_write_file, stdout);
        if (st != failure->why.status) return st;
        if (!explained) return IMPMEM_OK;
        impmem_plan pictured;
        plan_to_explain(failure, &pictured);
        printf("\na(x) is x rounded up to 256, up(x) to the granule\n");
        return impmem_plan_write_explained(explained, &pictured, impmem_write_file, stdout);
    }
    impmem_status st = impmem_plan_write(plan, impmem_write_file, stdout);
    if (!st && explained) {
        printf("\na(x) is x rounded up to 256, up(x) to the granule\n");
        st = impmem_plan_write_explained(explained, plan, impmem_write_file, stdout);
    }
    if (!st && opening) print_opening(plan, opening);
    return st;
}

static impmem_status print_model_json(const plan_question *question)
{
    const impmem_model_shape *shape = impmem_model_shape_of(question->model);
    impmem__json json;
    impmem__json_init(&json, impmem_write_file, stdout, 0);
    impmem__json_object_begin(&json);
    impmem__json_field_string(&json, "path", question->flags->model_path);
    impmem__json_field_string(&json, "name", shape->name);
    impmem__json_field_string(&json, "architecture", shape->architecture);
    impmem__json_field_string(&json, "format", impmem_model_format(question->model));
    impmem__json_field_u64(&json, "trained_context", shape->trained_context);
    impmem__json_field_u64(&json, "weight_bytes", shape->weight_bytes);
    impmem__json_field_string(&json, "weight_source", source_name(shape->weight_source));
    impmem__json_key(&json, "notes");
    impmem__json_array_begin(&json);
    for (uint32_t i = 0; impmem_model_note(question->model, i); i++)
        impmem__json_string(&json, impmem_model_note(question->model, i));
    impmem__json_array_end(&json);
    impmem__json_object_end(&json);
    return impmem__json_finish(&json);
}

static impmem_status print_device_json(const plan_question *question)
{
    const impmem_device_profile *profile = question->profile;
    impmem__json json;
    impmem__json_init(&json, impmem_write_file, stdout, 0);
    impmem__json_object_begin(&json);
    impmem__json_field_string(&json, "name", profile->name);
    impmem__json_field_string(&json, "source", profile->source);
    impmem__json_field_bool(&json, "estimated", profile->estimated != 0);
    impmem__json_field_u64(&json, "total_bytes", profile->total_bytes);
    impmem__json_field_u64(&json, "context_bytes", profile->context_bytes);
    impmem__json_field_u64(&json, "library_reserve_bytes", profile->library_reserve_bytes);
    impmem__json_field_u64(&json, "granule_bytes", profile->granule_bytes);
    impmem__json_field_bool(&json, "budget_above_total", budget_above_device(question));
    impmem__json_object_end(&json);
    return impmem__json_finish(&json);
}

static impmem_status print_opening_json(const impmem_plan *plan, const plan_opening *opening)
{
    impmem__json json;
    impmem__json_init(&json, impmem_write_file, stdout, 0);
    impmem__json_object_begin(&json);
    impmem__json_field_bool(&json, "good", opening->good);
    impmem__json_key(&json, "failed_step");
    impmem__json_string(&json, opening->failed_step);
    impmem__json_key(&json, "failure");
    if (opening->failed_step)
        impmem__json_string(&json,
                            opening->why.message[0] ? opening->why.message : impmem_status_message(opening->why.status));
    else impmem__json_null(&json);
    impmem__json_key(&json, "lines");
    impmem__json_array_begin(&json);
    for (uint32_t i = 0; opening->compared && i < plan->n_lines; i++) {
        impmem__json_object_begin(&json);
        impmem__json_field_u64(&json, "id", plan->line[i].id);
        impmem__json_field_string(&json, "name", plan->line[i].name);
        impmem__json_field_u64(&json, "planned_bytes", plan->line[i].bytes);
        impmem__json_field_u64(&json, "journal_bytes", opening->row[i].journal_bytes);
        impmem__json_field_bool(&json, "equal", opening->row[i].equal);
        impmem__json_object_end(&json);
    }
    impmem__json_array_end(&json);
    impmem__json_field_u64(&json, "unplanned_bytes", opening->unplanned_bytes);
    impmem__json_field_u64(&json, "serving_acquisitions", opening->serving_acquisitions);
    impmem__json_key(&json, "live_bytes");
    impmem__json_object_begin(&json);
    for (uint32_t account = 0; account < IMPMEM_N_ACCOUNTS; account++)
        impmem__json_field_u64(&json, impmem_account_name((impmem_account)account), opening->live_bytes[account]);
    impmem__json_object_end(&json);
    impmem__json_object_end(&json);
    return impmem__json_finish(&json);
}

impmem_status plan_print_head_json(const plan_question *question)
{
    printf("\"model\": ");
    impmem_status st = print_model_json(question);
    printf(",\n\"device\": ");
    return st ? st : print_device_json(question);
}

/* One object out of parts that are written by their owners. */
impmem_status plan_print_json(const plan_question *question, const impmem_plan *plan, const impmem_plan_failure *failure,
                              const plan_opening *opening, const impmem_plan_input *explained)
{
    printf("{\"fits\": %s,\n", failure ? "false" : "true");
    impmem_status st = plan_print_head_json(question);
    printf(",\n\"%s\": ", failure ? "failure" : "plan");
    if (!st && failure) {
        st = impmem_plan_failure_write_json(failure, impmem_write_file, stdout);
        if (st == failure->why.status) st = IMPMEM_OK;
    } else if (!st) {
        st = impmem_plan_write_json(plan, impmem_write_file, stdout);
    }
    if (explained) {
        impmem_plan pictured;
        if (failure) plan_to_explain(failure, &pictured);
        printf(",\n\"explanations\": ");
        if (!st) st = plan_json_explained(explained, failure ? &pictured : plan);
    }
    if (opening) {
        printf(",\n\"opening\": ");
        if (!st) st = print_opening_json(plan, opening);
    }
    printf("}\n");
    return st;
}

int plan_print_failure(const plan_prepared *prepared, const impmem_plan_failure *failure)
{
    const plan_question *question = &prepared->question;
    const impmem_plan_input *explained = question->flags->explain ? &prepared->input : NULL;
    impmem_status written = (question->flags->json ? plan_print_json : plan_print_text)(question, NULL, failure, NULL,
                                                                                        explained);
    return command_finish_answer(written, COMMAND_NO);
}
