/* Runs a fuzz target over its seeds, the files of a folder, and a fixed run of mutations of both: the same inputs on
 * every machine, so that what a fuzzer once found stays found without one. Usage: PROGRAM [FOLDER]. */
#define _GNU_SOURCE
#include <dirent.h>
#include <sys/stat.h>

#include "fuzz/fuzz.h"

#define ROOM ((size_t)1 << 16)
#define MUTATIONS 2000u

static uint64_t random_state = UINT64_C(0x1234567812345678);

/* splitmix64 */
static uint64_t next_random(void)
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static size_t below(size_t n)
{
    return n ? (size_t)(next_random() % n) : 0;
}

static void overwrite(uint8_t *at, size_t n, size_t width)
{
    static const uint64_t values[] = {0,
                                      1,
                                      2,
                                      3,
                                      31,
                                      32,
                                      33,
                                      127,
                                      128,
                                      255,
                                      256,
                                      512,
                                      513,
                                      65535,
                                      65536,
                                      INT32_MAX,
                                      UINT64_C(1) << 31,
                                      UINT32_MAX,
                                      UINT64_C(1) << 32,
                                      INT64_MAX,
                                      UINT64_C(1) << 63,
                                      UINT64_MAX};
    if (n < width) return;
    uint8_t *to = at + below(n - width + 1);
    uint64_t value = values[below(sizeof values / sizeof *values)];
    for (size_t i = 0; i < width; i++) to[i] = (uint8_t)(value >> (8 * i) & 0xff);
}

static size_t mutate(uint8_t *at, size_t n)
{
    for (size_t rounds = 1 + below(3); rounds > 0 && n > 0; rounds--) {
        size_t from = below(n), length = 1 + below(16);
        switch (below(7)) {
        case 0: at[from] ^= (uint8_t)(1u << below(8)); break;
        case 1: at[from] = (uint8_t)next_random(); break;
        case 2: overwrite(at, n, 4); break;
        case 3: overwrite(at, n, 8); break;
        case 4: n = from; break;
        case 5: /* a piece cut out */
            if (from + length > n) length = n - from;
            memmove(at + from, at + from + length, n - from - length);
            n -= length;
            break;
        default: /* a piece copied elsewhere */
            if (n + length > ROOM || from + length > n) break;
            memmove(at + from + length, at + from, n - from);
            n += length;
            break;
        }
    }
    return n;
}

/* From a copy of exactly its size, so that a sanitizer sees a read beyond it. */
static void run(const uint8_t *data, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy) return;
    if (n) memcpy(copy, data, n);
    (void)LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static void run_with_mutations(const uint8_t *data, size_t n, uint8_t *work)
{
    run(data, n);
    for (unsigned i = 0; i < MUTATIONS; i++) {
        memcpy(work, data, n);
        run(work, mutate(work, n));
    }
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static unsigned run_folder(const char *folder, uint8_t *data, uint8_t *work)
{
    struct dirent **entry = NULL;
    int n = scandir(folder, &entry, is_visible, alphasort);
    unsigned files = 0;
    for (int i = 0; i < n; i++) {
        char path[1024];
        (void)snprintf(path, sizeof path, "%.700s/%s", folder, entry[i]->d_name);
        free(entry[i]);
        FILE *file = fopen(path, "rb");
        if (!file) continue;
        size_t size = fread(data, 1, ROOM, file);
        (void)fclose(file);
        run_with_mutations(data, size, work);
        files++;
    }
    free(entry);
    return files;
}

int main(int argc, char **argv)
{
    uint8_t *data = malloc(ROOM), *work = malloc(ROOM);
    if (!data || !work) return 1;
    unsigned inputs = 0;
    for (size_t i = 0;; i++, inputs++) {
        size_t n = fuzz_seed(i, data, ROOM);
        if (n == 0) break;
        run_with_mutations(data, n, work);
    }
    if (argc > 1) inputs += run_folder(argv[1], data, work);
    free(data);
    free(work);
    printf("%u inputs, %u mutations each\n", inputs, MUTATIONS);
    return inputs ? 0 : 1;
}
