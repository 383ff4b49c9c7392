/* The journal's ring and its file. */
#define _GNU_SOURCE
#include "helpers.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define G ((uint64_t)4096)

static impmem_ledger *small_ledger(uint32_t records, uint64_t *time)
{
    impmem_ledger_options o = IMPMEM_LEDGER_OPTIONS_INIT;
    o.journal_records = records;
    o.clock_ns = counting_clock;
    o.clock_context = time;
    return make_ledger(UINT64_MAX, &o);
}

static void operations_have_names_and_signs(void **state)
{
    (void)state;
#define EXPECT_OP(name, value, text, sign)                                                                                 \
    assert_string_equal(impmem_journal_op_name((impmem_journal_op)(value)), text);                                         \
    assert_int_equal(impmem_journal_op_sign((impmem_journal_op)(value)), sign);
    IMPMEM_JOURNAL_OP_MAP(EXPECT_OP)
    assert_string_equal(impmem_journal_op_name((impmem_journal_op)0), "?");
    assert_int_equal(impmem_journal_op_sign((impmem_journal_op)99), 0);
}

static void dropped_records_live_on_in_the_opening_balances(void **state)
{
    (void)state;
    uint64_t time = 0;
    for (uint32_t capacity = 1; capacity <= 9; capacity++) {
        impmem_ledger *ledger = small_ledger(capacity, &time);
        impmem_backend *backend = make_fake(ledger, G, true, NULL);
        impmem_region *region[3] = {NULL, NULL, NULL};
        for (unsigned i = 0; i < 60; i++) {
            unsigned slot = i * 7 % 3;
            impmem_acquire_info info = want((1 + i % 4) * G, i % 5 ? LINE_A : IMPMEM_NO_LINE, IMPMEM_TAG_KV_BLOCKS);
            if (region[slot]) OK(impmem_backend_release(&region[slot], NULL));
            else if (i % 2) OK(impmem_backend_acquire(backend, &info, &region[slot], NULL));
            else {
                OK(impmem_backend_reserve(backend, &info, &region[slot], NULL));
                OK(impmem_region_commit(region[slot], G, NULL, NULL));
            }
            assert_balanced(ledger);
            uint64_t unplanned = impmem_ledger_journal_line_balance(ledger, IMPMEM_NO_LINE);
            assert_true(unplanned == impmem_ledger_unplanned_bytes(ledger));
            uint64_t first = impmem_ledger_journal_first(ledger), end = impmem_ledger_journal_end(ledger);
            assert_true(end - first <= capacity && impmem_ledger_journal_dropped(ledger) == first);
            for (uint64_t at = first; at < end; at++) {
                impmem_journal_record record;
                OK(impmem_ledger_journal_read(ledger, at, &record));
                assert_true(record.sequence == at);
            }
        }
        impmem_journal_record record;
        uint64_t first = impmem_ledger_journal_first(ledger);
        FAILS(impmem_ledger_journal_read(ledger, first - 1, &record), IMPMEM_ERR_NOT_FOUND);
        FAILS(impmem_ledger_journal_read(ledger, impmem_ledger_journal_end(ledger), &record), IMPMEM_ERR_NOT_FOUND);
        FAILS(impmem_ledger_journal_read(NULL, 0, &record), IMPMEM_ERR_INVALID_ARGUMENT);
        FAILS(impmem_ledger_journal_read(ledger, first, NULL), IMPMEM_ERR_INVALID_ARGUMENT);
        assert_true(impmem_ledger_journal_balance(ledger, IMPMEM_N_ACCOUNTS) == 0);
        for (int i = 0; i < 3; i++) OK(impmem_backend_release(&region[i], NULL));
        destroy_all(backend, ledger);
    }
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

typedef struct paper {
    char path[64];
    char text[65536];
    size_t length;
} paper;

static void make_paper(paper *p)
{
    strcpy(p->path, "/tmp/impmem_journal_XXXXXX");
    int fd = mkstemp(p->path);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
}

static void put_text(const paper *p, const char *text, size_t n)
{
    FILE *file = fopen(p->path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

/* `body` with the checksum line that belongs to it. */
static void put_sealed(const paper *p, const char *body)
{
    char text[65600];
    int n = snprintf(text, sizeof text, "%schecksum xxh3-64 %016llx\n", body,
                     (unsigned long long)XXH3_64bits(body, strlen(body)));
    assert_true(n > 0 && (size_t)n < sizeof text);
    put_text(p, text, (size_t)n);
}

static void write_journal(const impmem_ledger *ledger, paper *p)
{
    impmem_text_buffer buffer = {p->text, sizeof p->text, 0};
    OK(impmem_ledger_journal_write(ledger, impmem_write_buffer, &buffer));
    p->length = buffer.length;
    put_text(p, p->text, p->length);
}

typedef struct reading {
    const impmem_ledger *ledger;
    uint64_t records;
    uint64_t stop_at;
} reading;

static impmem_status compare(void *context, const impmem_journal_record *record)
{
    reading *r = context;
    impmem_journal_record original;
    if (++r->records == r->stop_at) return IMPMEM_ERR_CAPACITY;
    if (!r->ledger) return IMPMEM_OK;
    OK(impmem_ledger_journal_read(r->ledger, record->sequence, &original));
    assert_memory_equal(record, &original, sizeof original);
    return IMPMEM_OK;
}

/* A ledger with every kind of record in it; `records` bounds the ring. */
static impmem_ledger *busy_ledger(uint32_t records, uint64_t *time)
{
    impmem_ledger *ledger = small_ledger(records, time);
    impmem_fake *fake;
    impmem_backend *backend = make_fake(ledger, G, true, &fake);
    impmem_acquire_info info = want(8 * G, LINE_A, IMPMEM_TAG_KV_BLOCKS);
    impmem_region *a = NULL, *b = NULL;
    OK(impmem_ledger_charge(ledger, LINE_CHARGE, 1000, NULL));
    OK(impmem_backend_acquire(backend, &info, &a, NULL));
    OK(impmem_backend_reserve(backend, &info, &b, NULL));
    OK(impmem_region_commit(b, 5 * G, NULL, NULL));
    impmem_fake_fail_nth(fake, 1, IMPMEM_ERR_OUT_OF_DEVICE_MEMORY, IMPMEM_FAIL_ONCE);
    FAILS(impmem_region_commit(b, 6 * G, NULL, NULL), IMPMEM_ERR_OUT_OF_DEVICE_MEMORY);
    OK(impmem_region_commit(b, G, NULL, NULL));
    OK(impmem_ledger_set_phase(ledger, IMPMEM_PHASE_SERVING, NULL));
    OK(impmem_ledger_replan_begin(ledger, "swap to \"small\"\n"));
    OK(impmem_backend_release(&b, NULL));
    OK(impmem_ledger_replan_end(ledger, NULL));
    OK(impmem_ledger_uncharge(ledger, LINE_CHARGE, 400));
    OK(impmem_backend_release(&a, NULL));
    OK(impmem_backend_destroy(backend, NULL));
    return ledger;
}

static void a_journal_file_reads_back_as_it_was(void **state)
{
    (void)state;
    static const uint32_t rings[] = {4096, 7, 1};
    paper *p = calloc(1, sizeof *p);
    assert_non_null(p);
    make_paper(p);
    for (int i = 0; i < 3; i++) {
        uint64_t time = 0;
        impmem_ledger *ledger = busy_ledger(rings[i], &time);
        impmem_journal_summary sum;
        reading r = {ledger, 0, 0};
        write_journal(ledger, p);
        OK(impmem_journal_read_file(p->path, compare, &r, &sum, NULL));
        assert_true(sum.dropped == impmem_ledger_journal_first(ledger));
        assert_true(sum.records == impmem_ledger_journal_end(ledger) - sum.dropped && r.records == sum.records);
        for (unsigned a = 0; a < IMPMEM_N_ACCOUNTS; a++) {
            assert_true(sum.closing_bytes[a] == committed_of(ledger, (impmem_account)a));
            if (sum.dropped == 0) assert_true(sum.opening_bytes[a] == 0);
        }
        OK(impmem_journal_read_file(p->path, NULL, NULL, &sum, NULL));
        if (i == 0) assert_non_null(strstr(p->text, "\"swap to \\\"small\\\"\\n\""));
        OK(impmem_ledger_destroy(ledger, NULL));
    }
    assert_int_equal(unlink(p->path), 0);
    free(p);
}

static void every_cut_is_a_truncation_and_every_flipped_byte_is_caught(void **state)
{
    (void)state;
    uint64_t time = 0;
    impmem_ledger *ledger = busy_ledger(12, &time);
    impmem_journal_summary sum;
    paper *p = calloc(1, sizeof *p);
    assert_non_null(p);
    make_paper(p);
    write_journal(ledger, p);
    for (size_t n = 0; n < p->length; n++) {
        reading r = {NULL, 0, 0};
        impmem_error why = IMPMEM_ERROR_INIT;
        put_text(p, p->text, n);
        memset(&sum, 0x55, sizeof sum);
        FAILS(impmem_journal_read_file(p->path, compare, &r, &sum, &why), IMPMEM_ERR_TRUNCATED);
        assert_int_equal(r.records, 0);
        assert_true(sum.records == 0x5555555555555555u); /* not written */
        assert_string_equal(why.subject, p->path);
        assert_non_null(strstr(why.message, p->path));
    }
    for (size_t n = 0; n < p->length; n++) {
        char original = p->text[n];
        reading r = {NULL, 0, 0};
        bool digit = original >= '0' && original <= '9';
        int changed = digit ? '0' + (original - '0' + 1) % 10 : original ^ 1;
        p->text[n] = (char)changed;
        put_text(p, p->text, p->length);
        impmem_status st = impmem_journal_read_file(p->path, compare, &r, &sum, NULL);
        bool in_checksum_word = n >= p->length - strlen("checksum xxh3-64 0123456789abcdef\n");
        if (digit && !in_checksum_word) assert_int_equal(st, IMPMEM_ERR_BAD_VALUE);
        else assert_true(st == IMPMEM_ERR_BAD_VALUE || st == IMPMEM_ERR_BAD_FORMAT || st == IMPMEM_ERR_TRUNCATED);
        assert_int_equal(r.records, 0); /* nothing of a damaged file is handed on */
        p->text[n] = original;
    }
    assert_int_equal(unlink(p->path), 0);
    free(p);
    OK(impmem_ledger_destroy(ledger, NULL));
}

#define HEAD "impmem-journal 1\nopening device 10\nopening pinned 0\nopening pageable 5\n"
#define LINES "opening-line - 5\nopening-line 3 10\n"
#define REC(seq, op, bytes) seq " 1 " op " loading device other 3 0 0x0 " bytes " 0 0\n"

typedef struct bad_file {
    const char *body;
    impmem_status status;
    const char *place; /* in the message, after the path */
} bad_file;

static void well_sealed_nonsense_is_refused_at_its_line(void **state)
{
    (void)state;
    static const bad_file files[] = {
        {HEAD LINES "records 4 6\n" REC("4", "acquire", "7") REC("5", "release", "17"), IMPMEM_OK, ""},
        {HEAD LINES "records 4 4\n", IMPMEM_OK, ""},
        {HEAD LINES "records 4 6\n" REC("4", "acquire", "7") REC("6", "acquire", "7"), IMPMEM_ERR_BAD_VALUE, ":9: "},
        {HEAD LINES "records 4 6\n" REC("4", "acquire", "7"), IMPMEM_ERR_BAD_VALUE, ":9: "},
        {HEAD LINES "records 4 5\n" REC("4", "acquire", "7") REC("5", "acquire", "7"), IMPMEM_ERR_BAD_VALUE, ":9: "},
        {HEAD LINES "records 4 5\n" REC("4", "release", "11"), IMPMEM_ERR_BAD_VALUE, ":8: "},
        {HEAD LINES "records 4 5\n" REC("4", "acquire", "18446744073709551610"), IMPMEM_ERR_BAD_VALUE, ":8: "},
        {HEAD LINES "records 4 3\n", IMPMEM_ERR_BAD_VALUE, ":7: "},
        {HEAD "records 4 4\n", IMPMEM_ERR_BAD_VALUE, ":5: "},
        {HEAD LINES "opening-line 4 18446744073709551615\nrecords 4 4\n", IMPMEM_ERR_BAD_VALUE, ":7: "},
        {"impmem-journal 2\n", IMPMEM_ERR_BAD_VALUE, ":1: "},
        {"impmem-journal x\n", IMPMEM_ERR_BAD_FORMAT, ":1: "},
        {"impmem-journal 1 1\n", IMPMEM_ERR_BAD_FORMAT, ":1: "},
        {"something else\n", IMPMEM_ERR_BAD_FORMAT, ":1: "},
        {"impmem-journal 1\nopening pinned 1\n", IMPMEM_ERR_BAD_FORMAT, ":2: "},
        {"impmem-journal 1\nopening device x\n", IMPMEM_ERR_BAD_FORMAT, ":2: "},
        {"impmem-journal 1\nopening device 18446744073709551616\n", IMPMEM_ERR_BAD_FORMAT, ":2: "},
        {"impmem-journal 1\nrecords 0 0\n", IMPMEM_ERR_BAD_FORMAT, ":2: "},
        {"impmem-journal 1\n", IMPMEM_ERR_BAD_FORMAT, ":2: "},
        {"impmem-journal 1\nopening device 18446744073709551615\nopening pinned 1\n", IMPMEM_ERR_BAD_VALUE, ":3: "},
        {HEAD "opening-line x 3\n", IMPMEM_ERR_BAD_FORMAT, ":5: "},
        {HEAD "opening-line 4294967295 3\n", IMPMEM_ERR_BAD_FORMAT, ":5: "},
        {HEAD LINES "records 4\n", IMPMEM_ERR_BAD_FORMAT, ":7: "},
        {HEAD LINES "nonsense\n", IMPMEM_ERR_BAD_FORMAT, ":7: "},
        {HEAD LINES "records 4 5\n\n", IMPMEM_ERR_BAD_FORMAT, ":8: "},
        {HEAD LINES "records 4 5\n4 1 acquired loading device other 3 0 0x0 7 0 0\n", IMPMEM_ERR_BAD_FORMAT, ":8: "},
        {HEAD LINES "records 4 5\n4 1 acquire cooking device other 3 0 0x0 7 0 0\n", IMPMEM_ERR_BAD_FORMAT, ":8: "},
        {HEAD LINES "records 4 5\n4 1 acquire loading moon other 3 0 0x0 7 0 0\n", IMPMEM_ERR_BAD_FORMAT, ":8: "},
        {HEAD LINES "records 4 5\n4 1 acquire loading device none 3 0 0x0 7 0 0\n", IMPMEM_ERR_BAD_FORMAT, ":8: "},
        {HEAD LINES "records 4 5\n4 1 acquire loading device other 3 0 12 7 0 0\n", IMPMEM_ERR_BAD_FORMAT, ":8: "},
        {HEAD LINES "records 4 5\n4 1 acquire loading device other 3 0 0x0 7 -1 0\n", IMPMEM_ERR_BAD_FORMAT, ":8: "},
        {HEAD LINES "records 4 5\n4 1 acquire loading device other 3 0 0x0 7 0 4294967296\n", IMPMEM_ERR_BAD_FORMAT,
         ":8: "},
        {HEAD LINES "records 4 5\n4 1 acquire loading device other 3 0 0x0 7 0 0 \"why\"\n", IMPMEM_ERR_BAD_FORMAT, ":8: "},
        {HEAD LINES "records 4 5\n4 1 phase loading device other - 0 0x0 2 0 1 \"why\"\n", IMPMEM_OK, ""},
        {HEAD LINES "records 4 5\n4 1 acquire\n", IMPMEM_ERR_BAD_FORMAT, ":8: "},
    };
    paper *p = calloc(1, sizeof *p);
    assert_non_null(p);
    make_paper(p);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        impmem_journal_summary sum;
        impmem_error why = IMPMEM_ERROR_INIT;
        put_sealed(p, files[i].body);
        impmem_status st = impmem_journal_read_file(p->path, NULL, NULL, &sum, &why);
        if (st != files[i].status) print_message("file %zu: %s\n", i, why.message);
        assert_int_equal(st, files[i].status);
        if (st) {
            char place[96];
            (void)snprintf(place, sizeof place, "%s%s", p->path, files[i].place);
            if (strncmp(why.message, place, strlen(place)) != 0) print_message("file %zu: %s\n", i, why.message);
            assert_int_equal(strncmp(why.message, place, strlen(place)), 0);
            assert_true(why.offset < 1000);
        }
        if (i == 0)
            assert_true(sum.closing_bytes[0] == 0 && sum.closing_bytes[2] == 5 && sum.records == 2 && sum.dropped == 4);
    }
    assert_int_equal(unlink(p->path), 0);
    free(p);
}

static void files_that_are_no_journals_are_told_apart(void **state)
{
    (void)state;
    impmem_journal_summary sum;
    impmem_error why = IMPMEM_ERROR_INIT;
    paper *p = calloc(1, sizeof *p);
    assert_non_null(p);
    make_paper(p);
    FAILS(impmem_journal_read_file(NULL, NULL, NULL, &sum, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_journal_read_file(p->path, NULL, NULL, NULL, &why), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_journal_read_file("/nonexistent/journal", NULL, NULL, &sum, &why), IMPMEM_ERR_IO);
    assert_true(why.driver_code != 0);
    FAILS(impmem_journal_read_file("/tmp", NULL, NULL, &sum, &why), IMPMEM_ERR_IO); /* a directory */
    memset(p->text, 'x', 5000);
    put_text(p, p->text, 5000);
    FAILS(impmem_journal_read_file(p->path, NULL, NULL, &sum, &why), IMPMEM_ERR_BAD_FORMAT);
    memcpy(p->text, "impmem-journal 1\n", 17);
    put_text(p, p->text, 5000); /* a line longer than any record */
    FAILS(impmem_journal_read_file(p->path, NULL, NULL, &sum, &why), IMPMEM_ERR_BAD_FORMAT);
    put_text(p, "impmem-journal 1\nab\0cd\nef\n", 26);
    FAILS(impmem_journal_read_file(p->path, NULL, NULL, &sum, &why), IMPMEM_ERR_BAD_FORMAT);
    put_sealed(p, HEAD LINES "records 0 0\n");
    FILE *file = fopen(p->path, "ab");
    assert_non_null(file);
    assert_true(fputs("more\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    FAILS(impmem_journal_read_file(p->path, NULL, NULL, &sum, &why), IMPMEM_ERR_BAD_FORMAT);
    reading r = {NULL, 0, 2};
    put_sealed(p, HEAD LINES "records 4 7\n" REC("4", "acquire", "1") REC("5", "acquire", "1") REC("6", "acquire", "1"));
    FAILS(impmem_journal_read_file(p->path, compare, &r, &sum, &why), IMPMEM_ERR_CAPACITY); /* the callback's own */
    assert_int_equal(r.records, 2);
    assert_int_equal(unlink(p->path), 0);
    free(p);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

typedef struct meddler {
    impmem_ledger *ledger;
    unsigned after;   /* writes until it meddles */
    unsigned charges; /* how many records it then adds */
    unsigned calls;
} meddler;

/* A write function that journals something itself: the ledger's lock must be free, and the ring moves on. */
static impmem_status meddle(void *context, const char *text, size_t n)
{
    meddler *m = context;
    (void)text;
    (void)n;
    if (m->calls++ != m->after) return IMPMEM_OK;
    for (unsigned i = 0; i < m->charges; i++) OK(impmem_ledger_charge(m->ledger, LINE_CHARGE, 1, NULL));
    return IMPMEM_OK;
}

static impmem_status refuse(void *context, const char *text, size_t n)
{
    (void)text;
    (void)n;
    return (*(unsigned *)context)-- == 0 ? IMPMEM_ERR_IO : IMPMEM_OK;
}

/* A full ring of 40: records are copied out 32 at a time, after a header of at least six lines. */
static void a_ring_that_drops_what_was_promised_is_busy(void **state)
{
    (void)state;
    uint64_t time = 0;
    impmem_ledger *ledger = small_ledger(40, &time);
    for (int i = 0; i < 60; i++) OK(impmem_ledger_charge(ledger, LINE_CHARGE, 1, NULL));
    meddler in_the_header = {ledger, 0, 1, 0}, a_little = {ledger, 20, 8, 0}, too_much = {ledger, 20, 33, 0};
    FAILS(impmem_ledger_journal_write(ledger, meddle, &in_the_header), IMPMEM_ERR_BUSY);
    OK(impmem_ledger_journal_write(ledger, meddle, &a_little)); /* what is still to come is still there */
    FAILS(impmem_ledger_journal_write(ledger, meddle, &too_much), IMPMEM_ERR_BUSY);
    FAILS(impmem_ledger_journal_write(NULL, meddle, &a_little), IMPMEM_ERR_INVALID_ARGUMENT);
    FAILS(impmem_ledger_journal_write(ledger, NULL, &a_little), IMPMEM_ERR_INVALID_ARGUMENT);
    OK(impmem_ledger_destroy(ledger, NULL));
}

static void the_write_functions_error_is_handed_on(void **state)
{
    (void)state;
    uint64_t time = 0;
    impmem_ledger *ledger = busy_ledger(64, &time);
    unsigned writes = 0;
    for (;; writes++) {
        unsigned left = writes;
        impmem_status st = impmem_ledger_journal_write(ledger, refuse, &left);
        if (st == IMPMEM_OK) break;
        assert_int_equal(st, IMPMEM_ERR_IO);
    }
    assert_true(writes > 20); /* it was refused at every single write before it succeeded */
    OK(impmem_ledger_destroy(ledger, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_have_names_and_signs),
        cmocka_unit_test(dropped_records_live_on_in_the_opening_balances),
        cmocka_unit_test(a_journal_file_reads_back_as_it_was),
        cmocka_unit_test(every_cut_is_a_truncation_and_every_flipped_byte_is_caught),
        cmocka_unit_test(well_sealed_nonsense_is_refused_at_its_line),
        cmocka_unit_test(files_that_are_no_journals_are_told_apart),
        cmocka_unit_test(a_ring_that_drops_what_was_promised_is_busy),
        cmocka_unit_test(the_write_functions_error_is_handed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
