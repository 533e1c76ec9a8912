/* The room for holds; see the header. No state but the caller's. */
#include "collect/hold_estimate.h"

#include "base/map.h"

enum {
    RECENT = 32,        /* samples that tell how many locks are in use */
    LOCKS_A_HOLDER = 2, /* at a time */
};

static const int64_t MOST_NS = 1000000000; /* kept for each lock in use */

void pyr_hold_room_clear(pyr_hold_room *room, int64_t now_ns)
{
    atomic_store(&room->left_ns, 0);
    room->last_ns = now_ns;
}

static uint64_t bit_of(uintptr_t identity)
{
    return UINT64_C(1) << (pyr_hash_u64(identity, 0) & 63);
}

/* How many different ones there were; some share a bit. */
static int64_t different(const uint64_t bits[2])
{
    int64_t set = __builtin_popcountll(bits[0] | bits[1]);
    return set + set * set / 128;
}

/* Locks that were held at a time lately, at most. */
static int64_t parallel(const pyr_hold_room *room)
{
    int64_t locks = different(room->locks);
    int64_t most = LOCKS_A_HOLDER * different(room->holders);
    return locks < most ? locks : most;
}

static void note(pyr_hold_room *room, uintptr_t lock, uintptr_t holder)
{
    if (room->seen++ == RECENT) {
        room->locks[1] = room->locks[0];
        room->holders[1] = room->holders[0];
        room->locks[0] = room->holders[0] = 0;
        room->seen = 1;
    }
    room->locks[0] |= bit_of(lock);
    room->holders[0] |= bit_of(holder);
}

void pyr_hold_room_add(pyr_hold_room *room, int64_t now_ns, int64_t weight, uintptr_t lock,
                       uintptr_t holder)
{
    int64_t took_ns = now_ns - room->last_ns;
    room->last_ns = now_ns;
    if (weight > 1 && took_ns > 0) {
        int64_t most_ns = MOST_NS * parallel(room);
        int64_t more_ns = took_ns < MOST_NS ? took_ns * parallel(room) : most_ns;
        int64_t left_ns = atomic_fetch_add(&room->left_ns, more_ns) + more_ns;
        if (left_ns > most_ns) {
            atomic_fetch_sub(&room->left_ns, left_ns - most_ns);
        }
    }
    note(room, lock, holder);
}

int64_t pyr_hold_room_take(pyr_hold_room *room, int64_t hold_ns, int64_t weight)
{
    if (weight <= 1) {
        return hold_ns;
    }
    int64_t wanted_ns = hold_ns < INT64_MAX / weight ? hold_ns * weight : INT64_MAX;
    int64_t left_ns = atomic_load(&room->left_ns);
    int64_t taken_ns, then_ns;
    do {
        int64_t most_ns = left_ns > hold_ns ? left_ns : hold_ns; /* its own it has lasted */
        taken_ns = wanted_ns < most_ns ? wanted_ns : most_ns;
        then_ns = left_ns - taken_ns > -hold_ns ? left_ns - taken_ns : -hold_ns;
    } while (!atomic_compare_exchange_weak(&room->left_ns, &left_ns, then_ns));
    return taken_ns;
}
