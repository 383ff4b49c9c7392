/* The trace reader: both formats, where a malformed line is blamed, and the tokens behind block ids. */
#define _GNU_SOURCE
#include "command_run.h"

#include <inttypes.h>

#include "../../../tools/impmem/trace.c"
#include "../../../tools/impmem/trace_azure.c"
#include "../../../tools/impmem/trace_mooncake.c"
#include "../../../tools/impmem/trace_read.c"

#define AZURE "TIMESTAMP,ContextTokens,GeneratedTokens\n"
#define S_NS UINT64_C(1000000000)

static trace loaded;

static void load_text(const char *name, const char *text, uint32_t block_tokens)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_status st = trace_load(write_text(name, text), block_tokens, &loaded, &why);
    if (st) print_error("%s: %s\n", why.subject, why.message);
    assert_int_equal(st, IMPMEM_OK);
}

static void a_mooncake_request_is_read_whole(void **state)
{
    (void)state;
    load_text(
        "m.jsonl",
        "{\"timestamp\": 7, \"input_length\": 1025, \"output_length\": 3, \"hash_ids\": [5, 0, 9223372036854775807]}\n"
        "{\"extra\": {\"a\": [1]}, \"hash_ids\": [], \"output_length\": 0, \"input_length\": 0, \"timestamp\": 7.5}\n",
        0);
    assert_int_equal(loaded.format, TRACE_MOONCAKE);
    assert_int_equal(loaded.block_tokens, 512);
    assert_int_equal(loaded.n_requests, 2);
    assert_int_equal(loaded.n_ids, 3);
    assert_int_equal(loaded.input_tokens, 1025);
    assert_int_equal(loaded.output_tokens, 3);
    assert_int_equal(loaded.requests[0].time_ns, 7000000);
    assert_int_equal(loaded.requests[0].input_tokens, 1025);
    assert_int_equal(loaded.requests[0].output_tokens, 3);
    assert_int_equal(loaded.requests[0].first_id, 0);
    assert_int_equal(loaded.requests[0].n_ids, 3);
    assert_true(loaded.ids[0] == 5 && loaded.ids[1] == 0 && loaded.ids[2] == (uint64_t)INT64_MAX);
    assert_int_equal(loaded.requests[1].time_ns, 7500000);
    assert_int_equal(loaded.requests[1].first_id, 3);
    assert_int_equal(loaded.requests[1].n_ids, 0);
    trace_free(&loaded);
}

static void nanosecond_times_and_prompts_whose_remainder_has_no_id_are_read(void **state)
{
    (void)state;
    load_text("ns.jsonl",
              "{\"arrival_time_ns\": 46926808, \"input_length\": 39, \"output_length\": 1, \"hash_ids\": [1, 2]}", 16);
    assert_int_equal(loaded.block_tokens, 16);
    assert_int_equal(loaded.requests[0].time_ns, 46926808);
    assert_int_equal(loaded.requests[0].n_ids, 2);
    trace_free(&loaded);
}

static void azure_times_count_from_the_first_request(void **state)
{
    (void)state;
    load_text("a.csv",
              AZURE "2023-12-31 23:59:59.5000000,512,44\n"
                    "2024-01-01 00:00:00,513,1\n"
                    "2024-02-28 00:00:00.000000001,0,0\n"
                    "2024-03-01 00:00:00.25+00:00,1,4294967295\n",
              0);
    assert_int_equal(loaded.format, TRACE_AZURE);
    assert_int_equal(loaded.n_requests, 4);
    assert_int_equal(loaded.requests[0].time_ns, 0);
    assert_int_equal(loaded.requests[1].time_ns, S_NS / 2);
    /* Days of January 31 and of February 27; 2024 has a 29th of February, so 2 days lie between the last two. */
    uint64_t february_28 = (31 + 27) * UINT64_C(86400) * S_NS + S_NS / 2;
    assert_int_equal(loaded.requests[2].time_ns, february_28 + 1);
    assert_int_equal(loaded.requests[3].time_ns, february_28 + 2 * UINT64_C(86400) * S_NS + S_NS / 4);
    assert_int_equal(loaded.output_tokens, UINT64_C(45) + UINT32_MAX);
    trace_free(&loaded);
}

static void azure_prompts_share_no_block(void **state)
{
    (void)state;
    load_text("a.csv", AZURE "2023-11-16 18:15:46,512,1\n2023-11-16 18:15:46,513,1\n2023-11-16 18:15:46,0,1\n", 0);
    assert_int_equal(loaded.requests[0].n_ids, 1);
    assert_int_equal(loaded.requests[1].n_ids, 2);
    assert_int_equal(loaded.requests[2].n_ids, 0);
    for (uint64_t i = 0; i < loaded.n_ids; i++) {
        assert_true(loaded.ids[i] >= TRACE_OWN_ID);
        for (uint64_t k = 0; k < i; k++) assert_true(loaded.ids[i] != loaded.ids[k]);
    }
    trace_free(&loaded);
}

static void line_ends_blank_lines_and_a_byte_order_mark_change_nothing(void **state)
{
    (void)state;
    load_text("a.csv", "\xEF\xBB\xBF\r\n" AZURE "2023-11-16 18:15:46,5,6\r\n\n", 0);
    assert_int_equal(loaded.n_requests, 1);
    assert_int_equal(loaded.output_tokens, 6);
    trace_free(&loaded);
    load_text("m.csv", /* the name says CSV, the content doesn't */
              "\xEF\xBB\xBF{\"timestamp\":0,\"input_length\":1,\"output_length\":2,\"hash_ids\":[3]} \r\n \t\r\n\n"
              "{\"timestamp\":0,\"input_length\":1,\"output_length\":2,\"hash_ids\":[4]}",
              0);
    assert_int_equal(loaded.n_requests, 2);
    assert_int_equal(loaded.ids[1], 4);
    trace_free(&loaded);
}

/* Longer than any buffer that the reader begins with. */
static void a_long_line_is_read(void **state)
{
    (void)state;
    enum { IDS = 60000 };
    char *text = malloc(IDS * 8 + 128);
    assert_non_null(text);
    size_t n = (size_t)sprintf(text, "{\"timestamp\":0,\"input_length\":%u,\"output_length\":0,\"hash_ids\":[", IDS * 512u);
    for (unsigned i = 0; i < IDS; i++) n += (size_t)sprintf(text + n, "%s%u", i ? "," : "", i);
    strcpy(text + n, "]}\n");
    load_text("long.jsonl", text, 0);
    assert_int_equal(loaded.n_ids, IDS);
    for (uint64_t i = 0; i < IDS; i++) assert_int_equal(loaded.ids[i], i);
    trace_free(&loaded);
    free(text);
}

static void a_line_without_end_is_refused_and_not_held(void **state)
{
    (void)state;
    const char *path = test_path("endless.jsonl");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fputc('{', file), '{');
    assert_int_equal(fclose(file), 0);
    assert_int_equal(truncate(path, (off_t)TRACE_MAX_LINE_BYTES + 1), 0);
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(trace_load(path, 0, &loaded, &why), IMPMEM_ERR_TOO_LARGE);
    assert_holds(why.message, "16777216 bytes");
}

static void blame(const char *text, impmem_status status, unsigned line, const char *const *parts)
{
    char subject[200];
    const char *path = write_text("bad", text);
    snprintf(subject, sizeof subject, "%s:%u", path, line);
    trace untouched;
    memset(&untouched, 0x5a, sizeof untouched);
    trace t = untouched;
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_status st = trace_load(path, 0, &t, &why);
    if (st != status || strcmp(subject, why.subject) != 0) print_error("%s -> %s: %s\n", text, why.subject, why.message);
    assert_int_equal(st, status);
    assert_string_equal(why.subject, subject);
    for (; *parts; parts++) assert_holds(why.message, *parts);
    assert_memory_equal(&t, &untouched, sizeof t);
}

#define BLAME(text, status, line, ...) blame(text, IMPMEM_ERR_##status, line, (const char *const[]){__VA_ARGS__, NULL})
#define GOOD "{\"timestamp\":9,\"input_length\":1,\"output_length\":2,\"hash_ids\":[3]}\n"
#define LINE(timestamp, input, output, ids)                                                                                \
    "{\"timestamp\":" timestamp ",\"input_length\":" input ",\"output_length\":" output ",\"hash_ids\":" ids "}\n"

static void a_malformed_mooncake_line_names_line_key_found_and_expected(void **state)
{
    (void)state;
    BLAME(GOOD "{\"timestamp\":9,\n", BAD_FORMAT, 2, "found \"{\"timestamp\":9,\"", "expected one JSON object");
    BLAME(GOOD "[1]\n", BAD_VALUE, 2, "found an array", "expected one JSON object");
    BLAME(GOOD GOOD "{} {}\n", BAD_FORMAT, 3, "expected one JSON object");
    BLAME("{\"timestamp\":1,\"timestamp\":1}", BAD_FORMAT, 1, "duplicate");
    BLAME("{\"input_length\":1}", MISSING_KEY, 1, "timestamp: found no such key", "milliseconds", "arrival_time_ns");
    BLAME(LINE("-1", "1", "1", "[1]"), BAD_VALUE, 1, "timestamp: found -1", "from 0 to 9e12");
    BLAME(LINE("9.1e12", "1", "1", "[1]"), BAD_VALUE, 1, "timestamp: found 9.1e12");
    BLAME(LINE("\"0\"", "1", "1", "[1]"), BAD_VALUE, 1, "timestamp: found \"0\"");
    BLAME("{\"arrival_time_ns\":1.5}", BAD_VALUE, 1, "arrival_time_ns: found 1.5",
          "expected a whole number of nanoseconds");
    BLAME("{\"arrival_time_ns\":-2}", BAD_VALUE, 1, "arrival_time_ns: found -2");
    BLAME("\n{\"timestamp\":1}", MISSING_KEY, 2, "input_length: found no such key", "expected a whole number of tokens");
    BLAME(LINE("0", "null", "1", "[1]"), BAD_VALUE, 1, "input_length: found null");
    BLAME(LINE("0", "-1", "1", "[1]"), BAD_VALUE, 1, "input_length: found -1");
    BLAME(LINE("0", "4294967296", "1", "[1]"), BAD_VALUE, 1, "input_length: found 4294967296", "to 4294967295");
    BLAME(LINE("0", "1", "1.0", "[1]"), BAD_VALUE, 1, "output_length: found 1.0", "whole number");
    BLAME(LINE("0", "1", "{}", "[1]"), BAD_VALUE, 1, "output_length: found an object");
    BLAME("{\"timestamp\":1,\"input_length\":1,\"output_length\":1}", MISSING_KEY, 1, "hash_ids: found no such key",
          "array");
    BLAME(LINE("0", "1", "1", "true"), BAD_VALUE, 1, "hash_ids: found true", "expected an array");
    BLAME(LINE("0", "1", "1", "false"), BAD_VALUE, 1, "hash_ids: found false");
    BLAME(LINE("0", "1025", "1", "[1]"), BAD_VALUE, 1, "hash_ids: found 1 ids", "expected 3", "512 tokens",
          "--trace-block-tokens");
    BLAME(LINE("0", "513", "1", "[1,2,3]"), BAD_VALUE, 1, "hash_ids: found 3 ids", "expected 2");
    BLAME(LINE("0", "1024", "1", "[1,-2]"), BAD_VALUE, 1, "hash_ids[1]: found -2", "from 0 to 9223372036854775807");
    BLAME(LINE("0", "1024", "1", "[1.5,2]"), BAD_VALUE, 1, "hash_ids[0]: found 1.5");
    BLAME(LINE("0", "512", "1", "[9223372036854775808]"), BAD_FORMAT, 1, "too big integer");
    BLAME(GOOD LINE("8", "1", "1", "[1]"), BAD_VALUE, 2, "timestamp: found a time 1000000 ns before", "in order of time");
}

static void a_malformed_azure_row_names_line_column_found_and_expected(void **state)
{
    (void)state;
    BLAME(AZURE "2023-11-16 18:15:46,1\n", BAD_FORMAT, 2, "found 2 columns", "expected 3");
    BLAME(AZURE "2023-11-16 18:15:46,1,2,3\n", BAD_FORMAT, 2, "found 4 columns");
    static const char *const bad_time[] = {
        "",
        "2023-11-16",
        "2023-11-16T18:15:46",
        "2023-11-16 18:15",
        "23-11-16 18:15:46",
        "2023-13-16 18:15:46",
        "2023-00-16 18:15:46",
        "2023-02-29 18:15:46",
        "2100-02-29 18:15:46",
        "2023-11-31 18:15:46",
        "2023-11-00 18:15:46",
        "2023-11-16 24:15:46",
        "2023-11-16 18:60:46",
        "2023-11-16 18:15:60",
        "2023-11-16 18:15:46.",
        "2023-11-16 18:15:46.0123456789",
        "2023-11-16 18:15:46+01:00",
        "2023-11-16 18:15:46 ",
        "1969-12-31 23:59:59",
        "2201-01-01 00:00:00",
    };
    for (size_t i = 0; i < sizeof bad_time / sizeof bad_time[0]; i++) {
        char text[160], found[80];
        snprintf(text, sizeof text, AZURE "%s,1,2\n", bad_time[i]);
        snprintf(found, sizeof found, "TIMESTAMP: found \"%s\"", bad_time[i]);
        BLAME(text, BAD_VALUE, 2, found, "expected a time such as 2023-11-16 18:15:46");
    }
    BLAME(AZURE "2023-11-16 18:15:46,1,2\n2023-11-16 18:15:46,-1,2\n", BAD_VALUE, 3, "ContextTokens: found \"-1\"",
          "expected a whole number of tokens from 0 to 4294967295");
    BLAME(AZURE "2023-11-16 18:15:46,4294967296,2\n", BAD_VALUE, 2, "ContextTokens: found \"4294967296\"");
    BLAME(AZURE "2023-11-16 18:15:46,,2\n", BAD_VALUE, 2, "ContextTokens: found \"\"");
    BLAME(AZURE "2023-11-16 18:15:46,1, 2\n", BAD_VALUE, 2, "GeneratedTokens: found \" 2\"");
    BLAME(AZURE "2023-11-16 18:15:46,1,00000000002\n", BAD_VALUE, 2, "GeneratedTokens: found \"00000000002\"");
    BLAME(AZURE "2023-11-16 18:15:46,1,2\n2023-11-16 18:15:45.999999999,1,2\n", BAD_VALUE, 3,
          "TIMESTAMP: found a time 1 ns before");
}

static void a_file_that_is_no_trace_says_what_was_expected(void **state)
{
    (void)state;
    BLAME("", TRUNCATED, 1, "found the end of the file", "expected a request");
    BLAME("\n \n", TRUNCATED, 3, "found the end of the file");
    BLAME(AZURE, TRUNCATED, 2, "found the end of the file");
    BLAME("num_prefill_tokens,num_decode_tokens\n1,2\n", BAD_FORMAT, 1, "found \"num_prefill_tokens",
          "expected a JSON object", "TIMESTAMP,ContextTokens,GeneratedTokens");
    BLAME("TIMESTAMP,ContextTokens\n", BAD_FORMAT, 1, "found \"TIMESTAMP,ContextTokens\"");
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(trace_load(test_path("nowhere"), 0, &loaded, &why), IMPMEM_ERR_IO);
    assert_string_equal(why.subject, test_path("nowhere"));
    assert_int_equal(trace_load(test_folder, 0, &loaded, &why), IMPMEM_ERR_IO);
    assert_holds(why.message, "reading failed");
}

static void a_path_too_long_for_the_subject_leaves_the_line_in_the_message(void **state)
{
    (void)state;
    char name[81];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(trace_load(write_text(name, GOOD "[]\n"), 0, &loaded, &why), IMPMEM_ERR_BAD_VALUE);
    assert_int_equal(strncmp(why.message, "line 2: ", 8), 0);
}

static void the_reader_streams_what_load_collects(void **state)
{
    (void)state;
    const char *path = write_text("m.jsonl", GOOD LINE("9", "600", "5", "[3,4]"));
    trace_reader *reader = NULL;
    impmem_error why = IMPMEM_ERROR_INIT;
    assert_int_equal(trace_reader_open(path, 0, &reader, &why), IMPMEM_OK);
    assert_int_equal(trace_reader_format(reader), TRACE_MOONCAKE);
    trace_record record;
    bool more = false;
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(trace_reader_next(reader, &record, &more, &why), IMPMEM_OK);
        assert_true(more);
        assert_int_equal(record.n_ids, r + 1);
        assert_int_equal(record.ids[r], 3 + r);
    }
    for (int again = 0; again < 2; again++) { /* the end stays the end */
        more = true;
        assert_int_equal(trace_reader_next(reader, &record, &more, &why), IMPMEM_OK);
        assert_false(more);
    }
    trace_reader_close(reader);
    trace_reader_close(NULL);
}

static void the_first_two_tokens_of_a_block_are_its_id(void **state)
{
    (void)state;
    static const uint64_t ids[] = {0, 1, 182789, UINT64_C(1) << 32, UINT64_C(0x123456789abcdef0), UINT64_MAX};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        assert_true(((uint64_t)trace_block_token(ids[i], 1) << 32 | trace_block_token(ids[i], 0)) == ids[i]);
}

/* 512 tokens of 1000 blocks: were the hash a function of j alone, or of the id alone, a whole column or row would be equal.
 * */
static void the_other_tokens_depend_on_block_and_position(void **state)
{
    (void)state;
    unsigned same_as_neighbour = 0, same_as_next = 0;
    for (uint64_t id = 0; id < 1000; id++)
        for (uint32_t j = 2; j < 512; j++) {
            uint32_t token = trace_block_token(id, j);
            assert_int_equal(token, trace_block_token(id, j));
            same_as_neighbour += token == trace_block_token(id + 1, j);
            same_as_next += token == trace_block_token(id, j + 1);
        }
    /* Of 510,000 pairs of random 32-bit words, 0.0001 are equal in the mean. */
    assert_true(same_as_neighbour <= 2);
    assert_true(same_as_next <= 2);
}

static void a_prompt_is_its_blocks_in_order_and_then_a_text_of_its_own(void **state)
{
    (void)state;
    load_text("m.jsonl",
              "{\"timestamp\":0,\"input_length\":11,\"output_length\":0,\"hash_ids\":[7,8]}\n"
              "{\"timestamp\":0,\"input_length\":11,\"output_length\":0,\"hash_ids\":[7,9,10]}\n"
              "{\"timestamp\":0,\"input_length\":11,\"output_length\":0,\"hash_ids\":[7,8]}\n",
              4);
    uint32_t token[3][11];
    for (uint32_t r = 0; r < 3; r++) trace_prompt_tokens(&loaded, r, token[r], 11);
    for (uint32_t j = 0; j < 4; j++) {
        assert_int_equal(token[0][j], trace_block_token(7, j));
        assert_int_equal(token[0][4 + j], trace_block_token(8, j));
        assert_int_equal(token[1][4 + j], trace_block_token(9, j));
    }
    for (uint32_t j = 0; j < 3; j++) assert_int_equal(token[1][8 + j], trace_block_token(10, j));
    assert_memory_equal(token[0], token[2], 8 * sizeof token[0][0]);
    assert_memory_not_equal(token[0] + 8, token[2] + 8, 3 * sizeof token[0][0]);
    uint32_t part[5] = {0, 0, 0, 0, 77};
    trace_prompt_tokens(&loaded, 0, part, 4);
    assert_memory_equal(part, token[0], 4 * sizeof part[0]);
    assert_int_equal(part[4], 77);
    trace_free(&loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mooncake_request_is_read_whole),
        cmocka_unit_test(nanosecond_times_and_prompts_whose_remainder_has_no_id_are_read),
        cmocka_unit_test(azure_times_count_from_the_first_request),
        cmocka_unit_test(azure_prompts_share_no_block),
        cmocka_unit_test(line_ends_blank_lines_and_a_byte_order_mark_change_nothing),
        cmocka_unit_test(a_long_line_is_read),
        cmocka_unit_test(a_line_without_end_is_refused_and_not_held),
        cmocka_unit_test(a_malformed_mooncake_line_names_line_key_found_and_expected),
        cmocka_unit_test(a_malformed_azure_row_names_line_column_found_and_expected),
        cmocka_unit_test(a_file_that_is_no_trace_says_what_was_expected),
        cmocka_unit_test(a_path_too_long_for_the_subject_leaves_the_line_in_the_message),
        cmocka_unit_test(the_reader_streams_what_load_collects),
        cmocka_unit_test(the_first_two_tokens_of_a_block_are_its_id),
        cmocka_unit_test(the_other_tokens_depend_on_block_and_position),
        cmocka_unit_test(a_prompt_is_its_blocks_in_order_and_then_a_text_of_its_own),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
