/* Growth of allocation sites; see the header and docs/design/0009-leaks.md.
 *
 * Owns a table of sites by the hash of their stacks, each with a ring of live bytes; the times of
 * the windows are the same for all. Never allocates but in new.
 */
#include "collect/heap_trend.h"

#include <math.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"

enum {
    SLOTS = 2 * PYR_HEAP_TRENDS,
    RING = PYR_HEAP_TREND_WINDOWS,
    GONE_WINDOWS = 3, /* without anything alive */
    THIRDS = 3,
};

static const int64_t SOON_NS = 500000000;
/* In standard errors of a normal distribution: 1 in 10,000 is wrong by chance. */
static const double SURE = 3.72;
/* The last third must grow by itself, and not much slower than the first one. */
static const double STILL = 1.0;
static const double SLOWER = 0.7, SLOWER_SURE = 1.28;

typedef struct entry {
    uint64_t key; /* 0 = free */
    pyr_frame leaf, caller;
    double bytes, variance; /* of this look */
    double by_age[PYR_LEAK_AGES];
    uint32_t count; /* windows in the ring */
    uint32_t gone;
    double ring[RING]; /* of window w: w % RING */
} entry;

struct pyr_heap_trends {
    uint64_t seed;
    uint64_t windows; /* ended so far */
    int64_t times_ns[RING];
    size_t count;
    entry entries[SLOTS];
};

pyr_heap_trends *pyr_heap_trends_new(void)
{
    pyr_heap_trends *trends = pyr_memory_new(1, sizeof *trends);
    if (trends) {
        trends->seed = pyr_hash_seed();
    }
    return trends;
}

void pyr_heap_trends_free(pyr_heap_trends *trends)
{
    pyr_memory_free(trends);
}

void pyr_heap_trends_clear(pyr_heap_trends *trends)
{
    memset(trends->entries, 0, sizeof trends->entries);
    trends->windows = 0;
    trends->count = 0;
}

/* ----------------------------------------------------------------------------------- looks ---- */

void pyr_heap_trends_begin(pyr_heap_trends *trends)
{
    for (size_t at = 0; at < SLOTS; at++) {
        entry *one = &trends->entries[at];
        one->bytes = one->variance = 0;
        memset(one->by_age, 0, sizeof one->by_age);
    }
}

/* The slot of a key, or the free one where it belongs: probing ends, since half are free. */
static entry *find(pyr_heap_trends *trends, uint64_t key)
{
    size_t at = key % SLOTS;
    while (trends->entries[at].key != 0 && trends->entries[at].key != key) {
        at = (at + 1) % SLOTS;
    }
    return &trends->entries[at];
}

/* Who called the leaf: of C code the line of Python that led there, if there is one. */
static pyr_frame caller_of(const pyr_heap_part *part)
{
    uint32_t at = 1;
    while (at < part->frame_count && part->frames[at].line == 0) {
        at++;
    }
    at = at < part->frame_count ? at : 1;
    return at < part->frame_count ? part->frames[at] : (pyr_frame){0};
}

void pyr_heap_trends_add(pyr_heap_trends *trends, const pyr_heap_part *part)
{
    if (!(part->bytes > 0)) {
        return;
    }
    uint64_t key = pyr_hash_bytes(part->frames, part->frame_count * sizeof part->frames[0],
                                  trends->seed + part->omitted) |
                   1;
    entry *found = find(trends, key);
    if (found->key == 0) {
        if (trends->count >= PYR_HEAP_TRENDS) {
            return; /* room comes as others go: see end */
        }
        trends->count++;
        *found = (entry){.key = key};
        found->leaf = part->frame_count > 0 ? part->frames[0] : (pyr_frame){0};
        found->caller = caller_of(part);
    }
    found->bytes += part->bytes;
    found->variance += part->variance;
    for (size_t age = 0; age < PYR_LEAK_AGES; age++) {
        found->by_age[age] += part->by_age[age];
    }
}

/* Takes an entry out, and moves up those behind it that probed past it. */
static void take_out(pyr_heap_trends *trends, size_t at)
{
    trends->entries[at].key = 0;
    trends->count--;
    for (size_t next = (at + 1) % SLOTS; trends->entries[next].key != 0;
         next = (next + 1) % SLOTS) {
        entry moved = trends->entries[next];
        trends->entries[next].key = 0;
        *find(trends, moved.key) = moved;
    }
}

/* With a nearly full table, the smaller half of what has little history goes. */
static void make_room(pyr_heap_trends *trends)
{
    double sum = 0;
    for (size_t at = 0; at < SLOTS; at++) {
        sum += trends->entries[at].key != 0 ? trends->entries[at].bytes : 0;
    }
    double mean = sum / (double)trends->count;
    for (size_t at = 0; at < SLOTS && trends->count > PYR_HEAP_TRENDS / 2;) {
        const entry *one = &trends->entries[at];
        if (one->key != 0 && one->bytes < mean / 8) {
            take_out(trends, at); /* another one may stand here now */
        } else {
            at++;
        }
    }
}

void pyr_heap_trends_end(pyr_heap_trends *trends, int64_t now_ns)
{
    bool again =
        trends->windows > 0 && now_ns - trends->times_ns[(trends->windows - 1) % RING] < SOON_NS;
    if (!again) {
        trends->windows++;
    }
    size_t place = (trends->windows - 1) % RING;
    trends->times_ns[place] = now_ns;
    for (size_t at = 0; at < SLOTS;) {
        entry *one = &trends->entries[at];
        if (one->key == 0) {
            at++;
            continue;
        }
        one->ring[place] = one->bytes;
        one->count += !again || one->count == 0;
        one->count = one->count < RING ? one->count : RING;
        one->gone = one->bytes > 0 ? 0 : one->gone + 1;
        if (one->gone >= GONE_WINDOWS) {
            take_out(trends, at);
        } else {
            at++;
        }
    }
    if (trends->count >= PYR_HEAP_TRENDS * 7 / 8) {
        make_room(trends);
    }
}

/* ------------------------------------------------------------------------------- judgement ---- */

/* A normal deviate as improbable as Student's t with so many degrees of freedom (Wallace). */
static double deviate(double t, double freedom)
{
    double z = (8 * freedom + 1) / (8 * freedom + 3) * sqrt(freedom * log1p(t * t / freedom));
    return t < 0 ? -z : z;
}

typedef struct steps { /* from window to window */
    double change[RING], seconds[RING];
    size_t count;
} steps;

static double rate(const steps *all, size_t from, size_t to, double *seconds)
{
    double change = 0;
    *seconds = 0;
    for (size_t i = from; i < to; i++) {
        change += all->change[i];
        *seconds += all->seconds[i];
    }
    return change / *seconds;
}

static void judge(const pyr_heap_trends *trends, const entry *one, pyr_heap_trend *trend)
{
    steps all = {.count = 0};
    *trend = (pyr_heap_trend){
        .leaf = one->leaf,
        .caller = one->caller,
        .bytes = one->bytes,
        .variance = one->variance,
        .windows = one->count,
    };
    memcpy(trend->by_age, one->by_age, sizeof trend->by_age);
    if (one->count < PYR_HEAP_TREND_LEAST) {
        return;
    }
    for (uint64_t window = trends->windows - one->count + 1; window < trends->windows; window++) {
        size_t before = (size_t)(window - 1) % RING;
        size_t place = (size_t)window % RING;
        all.change[all.count] = one->ring[place] - one->ring[before];
        all.seconds[all.count] = (double)(trends->times_ns[place] - trends->times_ns[before]) / 1e9;
        all.count++;
    }
    double seconds, first_seconds, last_seconds, squares = 0;
    double n = (double)all.count;
    trend->growth = rate(&all, 0, all.count, &seconds);
    for (size_t i = 0; i < all.count; i++) {
        /* The spread of what a second brings, so that windows of any length may be mixed. */
        squares += pow(all.change[i] - trend->growth * all.seconds[i], 2) / all.seconds[i];
    }
    double spread = sqrt(squares / (n - 1)); /* of the change in one second */
    trend->growth_error = spread / sqrt(seconds);
    double first = rate(&all, 0, all.count / THIRDS, &first_seconds);
    double last = rate(&all, all.count - all.count / THIRDS, all.count, &last_seconds);
    double sure = trend->growth_error > 0 ? deviate(trend->growth / trend->growth_error, n - 1)
                  : trend->growth > 0     ? HUGE_VAL
                                          : 0;
    trend->confidence = 0.5 * erfc(-sure / sqrt(2));
    double last_error = spread / sqrt(last_seconds);
    double first_error = SLOWER * spread / sqrt(first_seconds);
    trend->is_suspect = sure > SURE && last > STILL * last_error &&
                        last - SLOWER * first > -SLOWER_SURE * hypot(last_error, first_error);
}

/* What it grows by at least. */
static double surely(const pyr_heap_trend *trend)
{
    return trend->growth - 2 * trend->growth_error;
}

static bool is_before(const pyr_heap_trend *one, const pyr_heap_trend *other)
{
    return one->is_suspect != other->is_suspect ? one->is_suspect : surely(one) > surely(other);
}

size_t pyr_heap_trends_rank(const pyr_heap_trends *trends, pyr_heap_trend *ranked, size_t most)
{
    size_t count = 0;
    for (size_t at = 0; at < SLOTS; at++) {
        pyr_heap_trend trend;
        if (trends->entries[at].key == 0) {
            continue;
        }
        judge(trends, &trends->entries[at], &trend);
        size_t place = count;
        while (place > 0 && is_before(&trend, &ranked[place - 1])) {
            place--;
        }
        if (place < most) {
            count += count < most;
            memmove(&ranked[place + 1], &ranked[place], (count - 1 - place) * sizeof *ranked);
            ranked[place] = trend;
        }
    }
    return count;
}
