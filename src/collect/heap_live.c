/* Live sampled blocks; see the header.
 *
 * Each address has two buckets of eight places (one cache line each), so a table that is at most
 * half full has room for it. A place holds an address; an address with the lowest bit set (taken,
 * its block is being resized); TAKEN (freed, to be swept); or EMPTY. Addresses are compared and
 * exchanged atomically; all else is guarded by the owner's lock, but for the block of a taken
 * place, which nobody changes. Owns reserved address space, which is never given back.
 */
#include "collect/heap_live.h"

#include "base/map.h"
#include "base/memory.h"
#include "collect/heap_estimate.h"
#include "os/os.h"

enum {
    WAYS = 8,
    PLACES = 2 * PYR_HEAP_LIVE,
    BUCKETS = PLACES / WAYS,
    EMPTY = 0,
    TAKEN = 1,
    RESIZING = 1, /* or'ed to an address */
    FULL_COUNT = UINT8_MAX,
    SWEPT_AT_ONCE = 2, /* buckets swept for each block added */
    ROOM = PYR_HEAP_LIVE / 4,
};

_Static_assert((BUCKETS & (BUCKETS - 1)) == 0, "a power of two");

_Atomic uint64_t pyr_heap_filter[PYR_HEAP_FILTER_WORDS];

static const double FIRST_DISTANCE = 1; /* blocks are thinned only when there are too many */

typedef struct record {
    pyr_heap_block block;
    uintptr_t address; /* also when the place was taken */
} record;

typedef struct places {
    _Atomic uintptr_t addresses[PLACES];
    record records[PLACES];
    uint8_t counts[PYR_HEAP_FILTER_BITS]; /* places behind each bit; FULL_COUNT: too many to know */
} places;

struct pyr_heap_live {
    pyr_heap_live_owner owner;
    places *places;
    double distance; /* by the owner's lock, as what follows */
    uint32_t next_bucket;
    uint64_t misplaced;
    atomic_size_t count;
};

pyr_heap_live *pyr_heap_live_new(pyr_heap_live_owner owner)
{
    pyr_heap_live *live = pyr_memory_new(1, sizeof *live);
    if (!live) {
        return NULL;
    }
    live->owner = owner;
    live->distance = FIRST_DISTANCE;
    live->places = pyr_os_reserve(sizeof *live->places);
    if (!live->places) {
        pyr_memory_free(live);
        return NULL;
    }
    return live;
}

/* ------------------------------------------------------------------------------ by address ---- */

static size_t bucket_of(uintptr_t address, int which)
{
    uint64_t hash = (uint64_t)(address >> 4) * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(which == 0 ? hash >> 40 : hash >> 16) & (BUCKETS - 1);
}

static int64_t take_from(pyr_heap_live *live, size_t bucket, uintptr_t address)
{
    for (size_t way = 0; way < WAYS; way++) {
        _Atomic uintptr_t *place = &live->places->addresses[bucket * WAYS + way];
        uintptr_t found = atomic_load_explicit(place, memory_order_relaxed);
        if (found == address &&
            atomic_compare_exchange_strong_explicit(place, &found, address | RESIZING,
                                                    memory_order_acquire, memory_order_relaxed)) {
            return (int64_t)(bucket * WAYS + way);
        }
    }
    return -1;
}

int64_t pyr_heap_live_take(pyr_heap_live *live, uintptr_t address)
{
    if (address == EMPTY) {
        return -1;
    }
    int64_t place = take_from(live, bucket_of(address, 0), address);
    return place >= 0 ? place : take_from(live, bucket_of(address, 1), address);
}

void pyr_heap_live_drop(pyr_heap_live *live, int64_t place, uintptr_t address)
{
    /* Whoever cleared or thinned the table meanwhile has forgotten the block already. */
    uintptr_t expected = address | RESIZING;
    if (atomic_compare_exchange_strong_explicit(&live->places->addresses[place], &expected, TAKEN,
                                                memory_order_release, memory_order_relaxed)) {
        atomic_fetch_sub_explicit(&live->count, 1, memory_order_relaxed);
    }
}

void pyr_heap_live_restore(pyr_heap_live *live, int64_t place, uintptr_t address)
{
    uintptr_t expected = address | RESIZING;
    (void)atomic_compare_exchange_strong_explicit(&live->places->addresses[place], &expected,
                                                  address, memory_order_release,
                                                  memory_order_relaxed);
}

/* -------------------------------------------------------------------------- under the lock ---- */

static void set_bit(pyr_heap_live *live, uintptr_t address)
{
    size_t bit = pyr_heap_filter_bit(address);
    _Atomic uint64_t *word = &pyr_heap_filter[bit / 64];
    if (live->places->counts[bit] < FULL_COUNT) {
        live->places->counts[bit]++;
    }
    uint64_t bits = atomic_load_explicit(word, memory_order_relaxed);
    atomic_store_explicit(word, bits | UINT64_C(1) << (bit % 64), memory_order_relaxed);
}

static void clear_bit(pyr_heap_live *live, uintptr_t address)
{
    size_t bit = pyr_heap_filter_bit(address);
    _Atomic uint64_t *word = &pyr_heap_filter[bit / 64];
    uint8_t *count = &live->places->counts[bit];
    if (*count<FULL_COUNT && * count> 0 && --*count == 0) {
        uint64_t bits = atomic_load_explicit(word, memory_order_relaxed);
        atomic_store_explicit(word, bits & ~(UINT64_C(1) << (bit % 64)), memory_order_relaxed);
    }
}

void pyr_heap_live_sweep_place(pyr_heap_live *live, int64_t place)
{
    _Atomic uintptr_t *address = &live->places->addresses[place];
    record *found = &live->places->records[place];
    if (atomic_load_explicit(address, memory_order_acquire) == TAKEN) {
        clear_bit(live, found->address);
        live->owner.release(live->owner.context, found->block.site);
        atomic_store_explicit(address, EMPTY, memory_order_relaxed);
    }
}

static void sweep_bucket(pyr_heap_live *live, size_t bucket)
{
    for (size_t place = bucket * WAYS; place < (bucket + 1) * WAYS; place++) {
        if (atomic_load_explicit(&live->places->addresses[place], memory_order_relaxed) == TAKEN) {
            pyr_heap_live_sweep_place(live, (int64_t)place);
        }
    }
}

void pyr_heap_live_sweep(pyr_heap_live *live)
{
    for (size_t bucket = 0; bucket < BUCKETS; bucket++) {
        sweep_bucket(live, bucket);
    }
}

/* Forgets a block that is alive; false: somebody freed it just now. */
static bool forget(pyr_heap_live *live, size_t place)
{
    _Atomic uintptr_t *address = &live->places->addresses[place];
    uintptr_t found = atomic_load_explicit(address, memory_order_relaxed);
    while (found > TAKEN) {
        if (atomic_compare_exchange_weak_explicit(address, &found, TAKEN, memory_order_acquire,
                                                  memory_order_relaxed)) {
            atomic_fetch_sub_explicit(&live->count, 1, memory_order_relaxed);
            return true;
        }
    }
    return false;
}

/* Doubles the distance until there is room. A block stays with the chance that makes it one sampled
 * at the new distance. Chances are summed up along the table, whose order is that of a hash, and a
 * block stays where the sum passes a whole number: so as many stay as should. */
static void thin(pyr_heap_live *live, uint64_t *random)
{
    while (atomic_load(&live->count) > PYR_HEAP_LIVE / 4 * 3 && live->distance < 0x1p60) {
        double sum = pyr_heap_uniform(random);
        live->distance *= 2;
        for (size_t place = 0; place < PLACES; place++) {
            pyr_heap_block *block = &live->places->records[place].block;
            uintptr_t address =
                atomic_load_explicit(&live->places->addresses[place], memory_order_acquire);
            if (address <= TAKEN || block->distance >= live->distance) {
                continue;
            }
            double stays = pyr_heap_chance(block->size, live->distance) /
                           pyr_heap_chance(block->size, block->distance);
            sum += stays;
            if (sum >= 1) {
                sum -= 1;
                block->bytes /= stays;
                block->count /= stays;
                block->distance = live->distance;
            } else {
                (void)forget(live, place);
            }
        }
    }
    pyr_heap_live_sweep(live);
}

/* An empty place of the emptier bucket, or -1. */
static int64_t find_place(pyr_heap_live *live, uintptr_t address)
{
    int64_t best = -1;
    int most_free = 0;
    for (int which = 0; which < 2; which++) {
        size_t bucket = bucket_of(address, which);
        int64_t place = -1;
        int free_places = 0;
        sweep_bucket(live, bucket);
        for (size_t way = 0; way < WAYS; way++) {
            if (atomic_load_explicit(&live->places->addresses[bucket * WAYS + way],
                                     memory_order_relaxed) == EMPTY) {
                place = (int64_t)(bucket * WAYS + way);
                free_places++;
            }
        }
        if (free_places > most_free) {
            most_free = free_places;
            best = place;
        }
    }
    return best;
}

bool pyr_heap_live_add(pyr_heap_live *live, uintptr_t address, pyr_heap_block block,
                       uint64_t *random)
{
    for (int turn = 0; turn < SWEPT_AT_ONCE; turn++) {
        sweep_bucket(live, live->next_bucket++ % BUCKETS);
    }
    /* A block whose end nobody saw (it went by a way around the hooks) and whose address is now
     * this one's. */
    int64_t stale = pyr_heap_filter_has(address) ? pyr_heap_live_take(live, address) : -1;
    if (stale >= 0) {
        pyr_heap_live_drop(live, stale, address);
    }
    size_t count = atomic_load_explicit(&live->count, memory_order_relaxed);
    if (count >= PYR_HEAP_LIVE) {
        thin(live, random);
    } else if (count < ROOM && live->distance > FIRST_DISTANCE) {
        live->distance /= 2;
    }
    if (live->distance > block.distance) {
        double stays = pyr_heap_chance(block.size, live->distance) /
                       pyr_heap_chance(block.size, block.distance);
        if (pyr_heap_uniform(random) >= stays) {
            return false;
        }
        block.bytes /= stays;
        block.count /= stays;
        block.distance = live->distance;
    }
    int64_t place = find_place(live, address);
    if (place < 0) {
        live->misplaced++;
        return false;
    }
    live->places->records[place] = (record){.block = block, .address = address};
    set_bit(live, address);
    atomic_fetch_add_explicit(&live->count, 1, memory_order_relaxed);
    atomic_store_explicit(&live->places->addresses[place], address, memory_order_release);
    return true;
}

pyr_heap_block pyr_heap_live_block(const pyr_heap_live *live, int64_t place)
{
    return live->places->records[place].block;
}

size_t pyr_heap_live_drop_if(pyr_heap_live *live,
                             bool (*is_gone)(void *context, uintptr_t address,
                                             const pyr_heap_block *block),
                             void *context)
{
    size_t dropped = 0;
    for (size_t place = 0; place < PLACES; place++) {
        uintptr_t address =
            atomic_load_explicit(&live->places->addresses[place], memory_order_acquire);
        if (address > TAKEN && (address & RESIZING) == 0 &&
            is_gone(context, address, &live->places->records[place].block)) {
            dropped += forget(live, place);
        }
    }
    return dropped;
}

void pyr_heap_live_each(pyr_heap_live *live,
                        void (*visit)(void *context, const pyr_heap_block *block), void *context)
{
    for (size_t place = 0; place < PLACES; place++) {
        if (atomic_load_explicit(&live->places->addresses[place], memory_order_acquire) > TAKEN) {
            visit(context, &live->places->records[place].block);
        }
    }
}

void pyr_heap_live_clear(pyr_heap_live *live, bool alone)
{
    for (size_t word = 0; word < PYR_HEAP_FILTER_WORDS; word++) {
        if (atomic_load_explicit(&pyr_heap_filter[word], memory_order_relaxed) != 0) {
            atomic_store_explicit(&pyr_heap_filter[word], 0, memory_order_relaxed);
        }
    }
    /* Each block is counted off by whoever takes it: us, or a free at this moment. */
    for (size_t place = 0; place < PLACES && !alone; place++) {
        (void)forget(live, place);
    }
    pyr_os_discard(live->places, sizeof *live->places);
    live->distance = FIRST_DISTANCE;
    if (alone) {
        atomic_store(&live->count, 0);
    }
}

size_t pyr_heap_live_count(const pyr_heap_live *live)
{
    return atomic_load_explicit(&((pyr_heap_live *)(uintptr_t)live)->count, memory_order_relaxed);
}

double pyr_heap_live_distance(const pyr_heap_live *live)
{
    return live->distance;
}

size_t pyr_heap_live_memory(void)
{
    return sizeof(places) + sizeof pyr_heap_filter;
}

uint64_t pyr_heap_live_misplaced(const pyr_heap_live *live)
{
    return live->misplaced;
}
