/* The fake backend: what a device does to memory, without a device.
 *
 * Every region is a `block` in one list of live ones; released blocks of real memory move to a quarantine ring, poisoned.
 * The fake's own blocks are simulation, not product: they come from the C library and are charged to no line.
 *
 * Real memory of a growable region: all of it is mapped without access; commit opens it for reading and writing, decommit
 * poisons it and leaves it readable, so that a stray write faults and a stray read finds 0xDE. Granules below a page
 * can't be protected one by one and stay open throughout.
 */
#define _GNU_SOURCE
#include "impmem/fake.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/internal.h"

#define POISON 0xDE
#define QUARANTINE 16u
#define DEFAULT_GRANULE (2 * IMPMEM_MIB)
#define MIN_GRANULE 256u
/* Address-only backends hand out addresses that no process has: each its own 2^44 bytes, far above user space. */
#define ADDRESS_SPACE_BITS 44u

typedef struct block {
    struct block *next;
    unsigned char *base;
    uint64_t bytes;
    void *mapping; /* NULL for address-only */
    size_t mapping_bytes;
    uint64_t held; /* physical bytes */
    size_t block_bytes;
    bool growable;
    uint64_t words;       /* of each bit map below; 0 for a fixed block */
    uint64_t *poisoned;   /* bit i: granule i was poisoned and not committed since */
    uint64_t committed[]; /* bit i: granule i is committed; then the words of `poisoned` */
} block;

/* Counts down to a failure. */
typedef struct trap {
    uint64_t left; /* calls until it springs; 0 = not armed */
    impmem_fail_mode mode;
    impmem_status status;
    bool sprung;
} trap;

struct impmem_fake {
    pthread_mutex_t lock;
    impmem_fake_options options;
    size_t page;
    block *live;
    block *quarantine[QUARANTINE];
    uint64_t released; /* ever; the next one goes to quarantine[released % QUARANTINE] */
    uint64_t held;
    uint64_t reserved;
    uint64_t next_address;
    uint64_t calls;
    trap take;
    trap give;
};

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static void *fake_memory(uint64_t bytes)
{
    impmem_allocator plain = impmem_default_allocator();
    return impmem__allocate_zeroed(&plain, bytes, IMPMEM__TABLE_ALIGNMENT);
}

static void fake_release(void *memory, uint64_t bytes)
{
    impmem_allocator plain = impmem_default_allocator();
    impmem__release(&plain, memory, bytes);
}

static void free_block(block *b)
{
    if (!b) return;
    if (b->mapping) (void)munmap(b->mapping, b->mapping_bytes);
    fake_release(b, b->block_bytes);
}

static block *find_block(impmem_fake *fake, const void *base)
{
    block *b = fake->live;
    while (b && b->base != base) b = b->next;
    return b;
}

static uint64_t granules_of(const impmem_fake *fake, uint64_t bytes)
{
    return bytes / fake->options.granule_bytes;
}

static bool bit_at(const uint64_t *bits, uint64_t i)
{
    return (bits[i / 64] >> (i % 64) & 1u) != 0;
}

static void put_bits(uint64_t *bits, uint64_t first, uint64_t end, bool value)
{
    for (uint64_t i = first; i < end; i++) {
        uint64_t bit = (uint64_t)1 << (i % 64);
        if (value) bits[i / 64] |= bit;
        else bits[i / 64] &= ~bit;
    }
}

/* Real memory, aligned by mapping more than is needed. False: refused. */
static bool map_block(const impmem_fake *fake, block *b, uint64_t alignment)
{
    uint64_t bytes;
    if (impmem_add(&bytes, b->bytes, alignment) || impmem_align_up(&bytes, bytes, fake->page) || bytes > SIZE_MAX)
        return false;
    bool protect = b->growable && fake->options.granule_bytes % fake->page == 0;
    int access = protect ? PROT_NONE : PROT_READ | PROT_WRITE;
    void *mapping = mmap(NULL, (size_t)bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) return false;
    b->mapping = mapping;
    b->mapping_bytes = (size_t)bytes;
    b->base = (unsigned char *)mapping + (size_t)(-(uintptr_t)mapping & (alignment - 1));
    return true;
}

/* The next aligned address, with a granule of nothing behind it so that one region's end is not another's start. */
static bool bump_block(impmem_fake *fake, block *b, uint64_t alignment)
{
    uint64_t base, end;
    if (impmem_align_up(&base, fake->next_address, alignment) || impmem_add(&end, base, b->bytes) ||
        impmem_add(&end, end, fake->options.granule_bytes))
        return false;
    fake->next_address = end;
    b->base = (unsigned char *)(uintptr_t)base;
    return true;
}

static block *make_block(impmem_fake *fake, uint64_t bytes, uint64_t alignment, bool growable)
{
    uint64_t words = growable ? (granules_of(fake, bytes) + 63) / 64 : 0;
    uint64_t block_bytes;
    if (impmem_mul(&block_bytes, words, 2 * sizeof(uint64_t)) || impmem_add(&block_bytes, block_bytes, sizeof(block)))
        return NULL;
    block *b = fake_memory(block_bytes);
    if (!b) return NULL;
    b->block_bytes = (size_t)block_bytes;
    b->bytes = bytes;
    b->growable = growable;
    b->words = words;
    b->poisoned = b->committed + words;
    bool placed = fake->options.backing == IMPMEM_FAKE_ADDRESS_ONLY ? bump_block(fake, b, alignment)
                                                                    : map_block(fake, b, alignment);
    if (!placed) {
        free_block(b);
        return NULL;
    }
    b->next = fake->live;
    fake->live = b;
    return b;
}

static void poison(const impmem_fake *fake, block *b, uint64_t offset, uint64_t length)
{
    if (b->growable) put_bits(b->poisoned, granules_of(fake, offset), granules_of(fake, offset + length), true);
    if (!b->mapping) return;
    memset(b->base + offset, POISON, (size_t)length);
    if (b->growable && fake->options.granule_bytes % fake->page == 0)
        (void)mprotect(b->base + offset, (size_t)length, PROT_READ);
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

static bool springs(trap *t)
{
    if (t->left == 0) return t->sprung && t->mode == IMPMEM_FAIL_FROM_THEN_ON;
    t->sprung = --t->left == 0;
    return t->sprung;
}

static void arm(trap *t, uint64_t n, impmem_status status, impmem_fail_mode mode)
{
    t->left = n;
    t->mode = mode;
    t->status = status;
    t->sprung = false;
}

static impmem_status injected(const impmem_fake *fake, const char *what, uint64_t bytes, impmem_error *why)
{
    impmem_status st = impmem__error_set(why, fake->take.status, "fake", "injected failure of %s of %llu bytes", what,
                                         (unsigned long long)bytes);
    impmem__error_bytes(why, bytes, 0);
    return st;
}

static impmem_status out_of_memory(const impmem_fake *fake, uint64_t bytes, impmem_error *why)
{
    impmem_status code = fake->options.account == IMPMEM_ACCOUNT_PINNED ? IMPMEM_ERR_OUT_OF_PINNED_MEMORY
                                                                        : IMPMEM_ERR_OUT_OF_DEVICE_MEMORY;
    uint64_t left = fake->options.capacity_bytes - fake->held;
    impmem_status st = impmem__error_set(why, code, "fake", "%llu bytes asked, %llu of the capacity of %llu left",
                                         (unsigned long long)bytes, (unsigned long long)left,
                                         (unsigned long long)fake->options.capacity_bytes);
    impmem__error_bytes(why, bytes, left);
    return st;
}

static bool over_capacity(const impmem_fake *fake, uint64_t bytes)
{
    return bytes > fake->options.capacity_bytes - fake->held;
}

/* ---- the vtable -------------------------------------------------------------------------------------------------- */

static impmem_status acquire_locked(impmem_fake *fake, uint64_t bytes, uint64_t alignment, void **out_base,
                                    impmem_error *why)
{
    fake->calls++;
    if (springs(&fake->take)) return injected(fake, "acquire", bytes, why);
    if (over_capacity(fake, bytes)) return out_of_memory(fake, bytes, why);
    block *b = make_block(fake, bytes, alignment, false);
    if (!b)
        return impmem__error_set(why, IMPMEM_ERR_OUT_OF_HOST_MEMORY, "fake", "the system refused to map %llu bytes",
                                 (unsigned long long)bytes);
    b->held = bytes;
    fake->held += bytes;
    *out_base = b->base;
    return IMPMEM_OK;
}

static impmem_status fake_acquire(void *self, uint64_t bytes, uint64_t alignment, void **out_base, impmem_error *why)
{
    impmem_fake *fake = self;
    (void)pthread_mutex_lock(&fake->lock);
    impmem_status st = acquire_locked(fake, bytes, alignment, out_base, why);
    (void)pthread_mutex_unlock(&fake->lock);
    return st;
}

static impmem_status reserve_locked(impmem_fake *fake, uint64_t bytes, uint64_t alignment, void **out_base,
                                    impmem_error *why)
{
    fake->calls++;
    if (springs(&fake->take)) return injected(fake, "reserve", bytes, why);
    uint64_t left = fake->options.address_space_bytes - fake->reserved;
    block *b = bytes <= left ? make_block(fake, bytes, alignment, true) : NULL;
    if (!b) {
        impmem_status st = impmem__error_set(why, IMPMEM_ERR_OUT_OF_ADDRESS_SPACE, "fake",
                                             "%llu bytes of address space asked, %llu left", (unsigned long long)bytes,
                                             (unsigned long long)left);
        impmem__error_bytes(why, bytes, left);
        return st;
    }
    fake->reserved += bytes;
    *out_base = b->base;
    return IMPMEM_OK;
}

static impmem_status fake_reserve(void *self, uint64_t bytes, uint64_t alignment, void **out_base, impmem_error *why)
{
    impmem_fake *fake = self;
    (void)pthread_mutex_lock(&fake->lock);
    impmem_status st = reserve_locked(fake, bytes, alignment, out_base, why);
    (void)pthread_mutex_unlock(&fake->lock);
    return st;
}

static void release_block(impmem_fake *fake, block *b)
{
    for (block **at = &fake->live; *at; at = &(*at)->next) {
        if (*at == b) {
            *at = b->next;
            break;
        }
    }
    fake->held -= b->held;
    if (b->growable) fake->reserved -= b->bytes;
    if (!b->mapping) {
        free_block(b);
        return;
    }
    if (!b->growable) poison(fake, b, 0, b->bytes);
    uint64_t granule = fake->options.granule_bytes;
    for (uint64_t i = 0; b->growable && i < granules_of(fake, b->bytes); i++) {
        if (bit_at(b->committed, i)) poison(fake, b, i * granule, granule);
    }
    block **slot = &fake->quarantine[fake->released++ % QUARANTINE];
    free_block(*slot);
    *slot = b;
}

static impmem_status fake_release_region(void *self, void *base, uint64_t bytes)
{
    impmem_fake *fake = self;
    impmem_status st = IMPMEM_OK;
    (void)pthread_mutex_lock(&fake->lock);
    block *b = find_block(fake, base);
    if (springs(&fake->give)) st = IMPMEM_ERR_DRIVER;
    else if (!b || b->bytes != bytes) st = IMPMEM_ERR_INVALID_ARGUMENT;
    else release_block(fake, b);
    (void)pthread_mutex_unlock(&fake->lock);
    return st;
}

/* Opens [offset, offset+length) of the block. False: the system refused. */
static bool back_range(impmem_fake *fake, block *b, uint64_t offset, uint64_t length)
{
    if (b->mapping && length && fake->options.granule_bytes % fake->page == 0 &&
        mprotect(b->base + offset, (size_t)length, PROT_READ | PROT_WRITE) != 0)
        return false;
    uint64_t first = granules_of(fake, offset), end = granules_of(fake, offset + length);
    put_bits(b->committed, first, end, true);
    put_bits(b->poisoned, first, end, false);
    b->held += length;
    fake->held += length;
    return true;
}

static impmem_status commit_locked(impmem_fake *fake, void *base, uint64_t offset, uint64_t length, uint64_t *achieved,
                                   impmem_error *why)
{
    fake->calls++;
    *achieved = 0;
    block *b = find_block(fake, base);
    if (!b || !b->growable)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "fake", "no reservation starts there");
    bool fails = springs(&fake->take);
    uint64_t half = length / 2 / fake->options.granule_bytes * fake->options.granule_bytes;
    uint64_t wanted = fails ? half : length;
    if (over_capacity(fake, wanted)) return out_of_memory(fake, wanted, why);
    if (!back_range(fake, b, offset, wanted))
        return impmem__error_set(why, IMPMEM_ERR_OUT_OF_HOST_MEMORY, "fake", "the system refused to open the range");
    *achieved = wanted;
    return fails ? injected(fake, "commit", length, why) : IMPMEM_OK;
}

static impmem_status fake_commit(void *self, void *base, uint64_t offset, uint64_t length, uint64_t *achieved,
                                 impmem_error *why)
{
    impmem_fake *fake = self;
    (void)pthread_mutex_lock(&fake->lock);
    impmem_status st = commit_locked(fake, base, offset, length, achieved, why);
    (void)pthread_mutex_unlock(&fake->lock);
    return st;
}

static impmem_status decommit_locked(impmem_fake *fake, void *base, uint64_t offset, uint64_t length)
{
    block *b = find_block(fake, base);
    if (springs(&fake->give)) return IMPMEM_ERR_DRIVER;
    if (!b || !b->growable) return IMPMEM_ERR_INVALID_ARGUMENT;
    poison(fake, b, offset, length);
    put_bits(b->committed, granules_of(fake, offset), granules_of(fake, offset + length), false);
    b->held -= length;
    fake->held -= length;
    return IMPMEM_OK;
}

static impmem_status fake_decommit(void *self, void *base, uint64_t offset, uint64_t length)
{
    impmem_fake *fake = self;
    (void)pthread_mutex_lock(&fake->lock);
    impmem_status st = decommit_locked(fake, base, offset, length);
    (void)pthread_mutex_unlock(&fake->lock);
    return st;
}

static impmem_status fake_query(void *self, impmem_backend_properties *out)
{
    const impmem_fake *fake = self;
    out->granule_bytes = fake->options.granule_bytes;
    out->capacity_bytes = fake->options.capacity_bytes;
    out->growable = fake->options.growable;
    out->host_accessible = fake->options.backing == IMPMEM_FAKE_HOST_MEMORY;
    out->account = fake->options.account;
    memcpy(out->name, "fake", sizeof "fake");
    return IMPMEM_OK;
}

static void fake_destroy(void *self)
{
    impmem_fake *fake = self;
    while (fake->live) {
        block *b = fake->live;
        fake->live = b->next;
        free_block(b);
    }
    for (uint32_t i = 0; i < QUARANTINE; i++) free_block(fake->quarantine[i]);
    (void)pthread_mutex_destroy(&fake->lock);
    fake_release(fake, sizeof *fake);
}

/* ---- creation ---------------------------------------------------------------------------------------------------- */

static impmem_status check_options(const impmem_fake_options *o, impmem_error *why)
{
    impmem_status st = impmem__options_check(o->size, o->version, sizeof *o, 1);
    if (st)
        return impmem__error_set(why, st, "fake options", "size %u or version %u is not one of this library", o->size,
                                 o->version);
    uint64_t granule = o->granule_bytes;
    if (granule != 0 && (granule < MIN_GRANULE || (granule & (granule - 1))))
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "granule_bytes",
                                 "%llu is not a power of two of at least %u", (unsigned long long)granule, MIN_GRANULE);
    if ((unsigned)o->backing > IMPMEM_FAKE_ADDRESS_ONLY || (unsigned)o->account >= IMPMEM_N_ACCOUNTS)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "fake options", "no such backing or account");
    return IMPMEM_OK;
}

impmem_status impmem_fake_backend_create(impmem_ledger *ledger, const impmem_fake_options *options, impmem_backend **out,
                                         impmem_fake **out_fake, impmem_error *why)
{
    const impmem_fake_options defaults = IMPMEM_FAKE_OPTIONS_INIT;
    if (!options) options = &defaults;
    if (!ledger || !out)
        return impmem__error_set(why, IMPMEM_ERR_INVALID_ARGUMENT, "fake", "no ledger, or no place for the result");
    impmem_status st = check_options(options, why);
    if (st) return st;
    impmem_fake *fake = fake_memory(sizeof *fake);
    if (!fake) return impmem__error_set(why, IMPMEM_ERR_OUT_OF_HOST_MEMORY, "fake", "no host memory for the fake itself");
    if (pthread_mutex_init(&fake->lock, NULL) != 0) {
        fake_release(fake, sizeof *fake);
        return impmem__error_set(why, IMPMEM_ERR_OUT_OF_HOST_MEMORY, "fake", "no mutex for the fake");
    }
    fake->options = *options;
    fake->page = (size_t)sysconf(_SC_PAGESIZE);
    if (fake->options.capacity_bytes == 0) fake->options.capacity_bytes = UINT64_MAX;
    if (fake->options.address_space_bytes == 0) fake->options.address_space_bytes = UINT64_MAX;
    if (fake->options.granule_bytes == 0) fake->options.granule_bytes = DEFAULT_GRANULE;
    fake->next_address = (uint64_t)(1 + impmem__ledger_pool_id(ledger) % 0xFFFF) << ADDRESS_SPACE_BITS;
    impmem_backend_ops ops = {.size = sizeof ops,
                              .version = 1,
                              .acquire = fake_acquire,
                              .release = fake_release_region,
                              .query = fake_query,
                              .destroy = fake_destroy};
    if (options->growable) {
        ops.reserve = fake_reserve;
        ops.commit = fake_commit;
        ops.decommit = fake_decommit;
    }
    st = impmem_backend_create(ledger, &ops, fake, out, why);
    if (st) {
        fake_destroy(fake);
        return st;
    }
    if (out_fake) *out_fake = fake;
    return IMPMEM_OK;
}

/* ---- control ----------------------------------------------------------------------------------------------------- */

void impmem_fake_fail_nth(impmem_fake *fake, uint64_t n, impmem_status status, impmem_fail_mode mode)
{
    (void)pthread_mutex_lock(&fake->lock);
    arm(&fake->take, n, status, mode);
    (void)pthread_mutex_unlock(&fake->lock);
}

void impmem_fake_fail_nth_release(impmem_fake *fake, uint64_t n, impmem_fail_mode mode)
{
    (void)pthread_mutex_lock(&fake->lock);
    arm(&fake->give, n, IMPMEM_ERR_DRIVER, mode);
    (void)pthread_mutex_unlock(&fake->lock);
}

/* Queries may come from const owners: the lock is reached through the address alone. */
static uint64_t read_locked(const impmem_fake *fake, const uint64_t *field)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&fake->lock;
    (void)pthread_mutex_lock(lock);
    uint64_t value = *field;
    (void)pthread_mutex_unlock(lock);
    return value;
}

uint64_t impmem_fake_calls(const impmem_fake *fake)
{
    return read_locked(fake, &fake->calls);
}

uint64_t impmem_fake_held_bytes(const impmem_fake *fake)
{
    return read_locked(fake, &fake->held);
}

static bool lies_in(const block *b, const void *address, uint64_t n, uint64_t *out_offset)
{
    uintptr_t at = (uintptr_t)address, base = (uintptr_t)b->base;
    if (at < base || at - base > b->bytes || n > b->bytes - (at - base)) return false;
    *out_offset = at - base;
    return true;
}

static bool all_poison(const unsigned char *at, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        if (at[i] != POISON) return false;
    }
    return true;
}

/* `n` > 0 bytes of one block. Granules that were never committed can't be read, so their bits are asked first. */
static bool poisoned_in(const impmem_fake *fake, const block *b, uint64_t offset, uint64_t n, bool released)
{
    if (!b->growable) return released && all_poison(b->base + offset, n);
    uint64_t granule = fake->options.granule_bytes;
    for (uint64_t i = offset / granule; i <= (offset + n - 1) / granule; i++) {
        if (!bit_at(b->poisoned, i)) return false;
    }
    return all_poison(b->base + offset, n);
}

static bool is_poisoned_locked(const impmem_fake *fake, const void *address, uint64_t n)
{
    uint64_t offset;
    for (const block *b = fake->live; b; b = b->next) {
        if (lies_in(b, address, n, &offset)) return poisoned_in(fake, b, offset, n, false);
    }
    for (uint32_t i = 0; i < QUARANTINE; i++) {
        const block *b = fake->quarantine[i];
        if (b && lies_in(b, address, n, &offset)) return poisoned_in(fake, b, offset, n, true);
    }
    return false;
}

bool impmem_fake_is_poisoned(const impmem_fake *fake, const void *address, uint64_t n)
{
    if (n == 0 || fake->options.backing == IMPMEM_FAKE_ADDRESS_ONLY) return false;
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&fake->lock;
    (void)pthread_mutex_lock(lock);
    bool poisoned = is_poisoned_locked(fake, address, n);
    (void)pthread_mutex_unlock(lock);
    return poisoned;
}
