/* The heap sampler; see the headers.
 *
 * Owns the tables of live blocks and of sites, for the life of the process: a hook may be in the
 * middle of them whenever a profiler stops. `lock` guards all but the counters; a hook only tries
 * it, for a moment, and gives its sample up if it is held. What a sample uses of the session
 * (names, the layout behind them) it uses under the lock, and only while `is_active`: so a stop,
 * which takes the lock, leaves nobody inside. Hooks must never allocate, wait, or touch Python's
 * objects.
 */
#include "collect/heap_sampler.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/memory.h"
#include "collect/heap_account.h"
#include "collect/heap_pace.h"
#include "collect/memory_host.h"
#include "collect/native_names.h"
#include "os/os.h"
#include "os/task.h"
#include "unwind/own_stack.h"

enum {
    LOCK_TRIES = 64,
    SITES_AT_ONCE = 64,       /* visited before the lock is let go for a moment */
    ARENA_BLOCK = 512,        /* bytes: larger blocks are malloc's */
    MAPPED_BLOCK = 128 << 10, /* bytes: smaller ones have no mapping of their own */
};

/* Between a stop and the next start hooks go on counting; the lapse of memory that exponential
 * distances have makes the first sample after a start as good as any. */
static const double IDLE_DISTANCE = 1 << 20;
static const int64_t AGES_NS[PYR_HEAP_AGES] = {60000000000, 600000000000, 3600000000000, INT64_MAX};

_Thread_local pyr_heap_own pyr_heap_mine __attribute__((tls_model("initial-exec")));

static struct {
    pyr_lock lock;
    const void *owner; /* by lock, as what follows; NULL = nobody */
    pyr_collect_context context;
    pyr_native_stacks *native_stacks;
    pyr_heap_sites *sites;
    pyr_heap_live *live;
    pyr_heap_pace pace;
    pyr_own_stack stack; /* scratch, as the frames */
    pyr_frame frames[PYR_LIMIT_FRAMES];
    uint64_t random;
    uint64_t events;
    pyr_heap_errors errors; /* of its live parts, those of the last look */
    atomic_bool is_active;
    _Atomic uint32_t epoch; /* of starts */
    _Atomic uint64_t missed, unseen_frees;
    _Atomic double distance;  /* of the pace, for draws */
    _Atomic uint64_t threads; /* seeds given out */
    uint64_t seed;
} sampler = {.lock = PYR_LOCK_INIT(PYR_LOCK_MEMORY), .distance = PYR_HEAP_FIRST, .seed = 1};

/* ----------------------------------------------------------------------------------- hooks ---- */

static void draw(pyr_heap_own *mine, double distance)
{
    mine->distance = distance;
    mine->left = mine->drawn = pyr_heap_draw(&mine->random, distance);
    mine->count = 0;
}

/* The first allocation of a thread: it is not due yet, perhaps. */
static void begin(pyr_heap_own *mine, size_t size)
{
    uint64_t number = atomic_fetch_add_explicit(&sampler.threads, 1, memory_order_relaxed);
    mine->random = pyr_hash_u64(number, sampler.seed) | 1;
    mine->epoch = atomic_load_explicit(&sampler.epoch, memory_order_relaxed);
    draw(mine, atomic_load_explicit(&sampler.distance, memory_order_relaxed));
    mine->left -= (int64_t)size;
    mine->count = 1;
}

static bool try_for_a_while(void)
{
    for (int tries = 0; tries < LOCK_TRIES; tries++) {
        if (pyr_lock_try(&sampler.lock)) {
            return true;
        }
    }
    return false;
}

/* Where a sample comes from. */
typedef struct origin {
    pyr_heap_domain domain;
    uintptr_t caller; /* C code, 0 = Python's own */
} origin;

/* Puts the caller, and those of its own that are C code, on top of the stack. Returns how many
 * frames there are. */
static uint32_t put_callers(uintptr_t caller, const pyr_own_stack *stack, uint32_t *omitted)
{
    uintptr_t addresses[PYR_NATIVE_STACK_FRAMES] = {caller};
    uint32_t native = 1;
    if (sampler.native_stacks != NULL) {
        native = pyr_native_stack_walk(sampler.native_stacks, caller, addresses);
    }
    uint32_t most = PYR_LIMIT_FRAMES - native;
    uint32_t count = stack->count < most ? stack->count : most;
    *omitted = stack->omitted + (stack->count - count);
    for (uint32_t at = 0; at < native; at++) {
        sampler.frames[at] = pyr_native_frame(addresses[at]);
    }
    memcpy(&sampler.frames[native], stack->frames, count * sizeof stack->frames[0]);
    return native + count;
}

/* The site of the calling thread's stack; false: its names are of a table that is not ours any
 * more, or not yet. Under the lock. */
static bool find_site(origin from, pyr_heap_own *mine, uint32_t *site)
{
    pyr_own_stack *stack = &sampler.stack;
    bool has_gil = from.domain == PYR_HEAP_OBJ || from.domain == PYR_HEAP_MEM;
    pyr_addr state = sampler.context.memory_host->thread_state(has_gil);
    pyr_collector_enter(&sampler.context);
    pyr_status walked = pyr_own_stack_walk(sampler.context.own_stacks, state, stack);
    pyr_collector_leave(&sampler.context);
    if (walked != PYR_OK || stack->symbols != sampler.context.symbols) {
        return false;
    }
    if (stack->thread_native_id == 0) {
        if (mine->native_id == 0) {
            mine->native_id = (uint64_t)gettid();
        }
        stack->thread_id = (uint64_t)pthread_self();
        stack->thread_native_id = mine->native_id;
    }
    const pyr_heap_thread thread = {
        .ident = stack->thread_id,
        .native_id = stack->thread_native_id,
        .name = stack->thread_name,
    };
    const pyr_frame *frames = stack->frames;
    uint32_t count = stack->count, omitted = stack->omitted;
    if (from.caller != 0) {
        if (state == 0) {
            stack->count = 0; /* C code alone, to the end of the thread */
        }
        count = put_callers(from.caller, stack, &omitted);
        frames = sampler.frames;
    }
    *site = pyr_heap_sites_find(sampler.sites, frames, count, omitted, &thread, from.domain,
                                stack->labels);
    return true;
}

/* Under the lock, while active. */
static bool record(origin from, uintptr_t address, double size, pyr_heap_own *mine)
{
    uint32_t at;
    int64_t now_ns = pyr_clock_monotonic_ns();
    bool is_found = find_site(from, mine, &at);
    sampler.events++;
    pyr_heap_pace_event(&sampler.pace, now_ns, pyr_own_stack_cost(&sampler.stack));
    atomic_store_explicit(&sampler.distance, sampler.pace.distance, memory_order_relaxed);
    if (!is_found) {
        return false;
    }
    double bytes_before = (double)(mine->drawn - mine->left) - size;
    pyr_heap_weight weight =
        pyr_heap_weigh(&mine->account, size, mine->distance, bytes_before, (double)mine->count - 1);
    sampler.errors.sampled += weight.variance_bytes;
    sampler.errors.totals += mine->account.variance - mine->told_variance;
    mine->told_variance = mine->account.variance;
    pyr_heap_site *site = pyr_heap_sites_get(sampler.sites, at);
    site->alloc_bytes += weight.bytes;
    site->alloc_count += weight.count;
    if (sampler.context.heap_enabled) {
        const pyr_heap_block block = {
            .size = size,
            .bytes = weight.bytes,
            .count = weight.count,
            .sampled = mine->distance,
            .distance = mine->distance,
            .born_ns = now_ns,
            .site = at,
        };
        if (pyr_heap_live_add(sampler.live, address, block, &sampler.random)) {
            pyr_heap_sites_hold(sampler.sites, at);
        }
    }
    return true;
}

static void sample(origin from, uintptr_t address, size_t size)
{
    pyr_heap_own *mine = &pyr_heap_mine;
    if (mine->distance == 0) {
        begin(mine, size);
    }
    if (mine->left >= 0) {
        return; /* not due after all, or an allocation inside of this one was sampled meanwhile */
    }
    int error = errno;
    double weighed = size > 0 ? (double)size : 1;
    bool is_active = atomic_load_explicit(&sampler.is_active, memory_order_relaxed);
    uint32_t epoch = atomic_load_explicit(&sampler.epoch, memory_order_relaxed);
    bool is_first = mine->epoch != epoch;
    if (is_first) {
        /* What was allocated before the start is nobody's. */
        mine->account = (pyr_heap_account){0};
        mine->told_variance = 0;
        mine->drawn = mine->left + (int64_t)size;
        mine->count = 1;
        mine->native_id = 0;
        mine->epoch = epoch;
    }
    if (is_active) {
        bool is_recorded = false;
        if (try_for_a_while()) {
            if (atomic_load_explicit(&sampler.is_active, memory_order_relaxed)) {
                pyr_collector_enter(&sampler.context);
                is_recorded = record(from, address, weighed, mine);
                pyr_collector_leave(&sampler.context);
            }
            pyr_lock_release(&sampler.lock);
        }
        if (!is_recorded) {
            atomic_fetch_add_explicit(&sampler.missed, 1, memory_order_relaxed);
            pyr_heap_miss(&mine->account, weighed, mine->distance,
                          (double)(mine->drawn - mine->left) - weighed, (double)mine->count - 1);
        }
    }
    if (is_first || !is_active) {
        mine->account = (pyr_heap_account){0};
        mine->told_variance = 0;
    }
    draw(mine,
         is_active ? atomic_load_explicit(&sampler.distance, memory_order_relaxed) : IDLE_DISTANCE);
    errno = error;
}

void pyr_heap_sample(pyr_heap_domain domain, uintptr_t address, size_t size)
{
    sample((origin){.domain = domain}, address, size);
}

void pyr_heap_sample_native(uintptr_t address, size_t size, uintptr_t caller)
{
    sample((origin){.domain = PYR_HEAP_NATIVE, .caller = caller}, address, size);
}

void pyr_heap_undo(size_t size)
{
    pyr_heap_mine.left += (int64_t)size;
    pyr_heap_mine.count--;
}

/* The block of a taken place is gone. The place is swept at once if nobody is in the way: its
 * address is often the next block's. */
static void drop(int64_t place, uintptr_t address)
{
    pyr_heap_live_drop(sampler.live, place, address);
    if (pyr_lock_try(&sampler.lock)) {
        pyr_heap_live_sweep_place(sampler.live, place);
        pyr_lock_release(&sampler.lock);
    }
}

static bool take_and_drop(uintptr_t address)
{
    int64_t place = sampler.live != NULL ? pyr_heap_live_take(sampler.live, address) : -1;
    if (place >= 0) {
        drop(place, address);
    }
    return place >= 0;
}

void pyr_heap_freed(uintptr_t address)
{
    (void)take_and_drop(address);
}

void pyr_heap_cut(uintptr_t address, size_t size)
{
    int64_t place = sampler.live != NULL ? pyr_heap_live_take(sampler.live, address) : -1;
    if (place < 0) {
        return;
    }
    pyr_heap_block block = pyr_heap_live_block(sampler.live, place);
    double left = block.size - (double)size;
    if (left <= 0 || !pyr_lock_try(&sampler.lock)) {
        drop(place, address);
        return;
    }
    block.bytes *= left / block.size;
    block.size = left;
    if (pyr_heap_live_add(sampler.live, address + size, block, &sampler.random)) {
        pyr_heap_sites_hold(sampler.sites, block.site);
    }
    pyr_heap_live_drop(sampler.live, place, address);
    pyr_heap_live_sweep_place(sampler.live, place);
    pyr_lock_release(&sampler.lock);
}

void pyr_heap_reused(uintptr_t address)
{
    if (take_and_drop(address)) {
        atomic_fetch_add_explicit(&sampler.unseen_frees, 1, memory_order_relaxed);
    }
}

int64_t pyr_heap_resizing(uintptr_t address)
{
    return sampler.live != NULL ? pyr_heap_live_take(sampler.live, address) : -1;
}

void pyr_heap_resized(int64_t place, uintptr_t address, bool moved)
{
    if (place >= 0 && moved) {
        drop(place, address);
    } else if (place >= 0) {
        pyr_heap_live_restore(sampler.live, place, address);
    }
}

/* ------------------------------------------------------------------------------------ life ---- */

static void release_site(void *unused, uint32_t site)
{
    (void)unused;
    pyr_heap_sites_release(sampler.sites, site);
}

/* Under the lock. */
static void forget_all(bool alone)
{
    pyr_heap_live_clear(sampler.live, alone);
    pyr_heap_sites_clear(sampler.sites);
    atomic_fetch_add(&sampler.epoch, 1);
}

pyr_status pyr_heap_open(const void *owner, const pyr_collect_context *context,
                         pyr_native_stacks *native_stacks)
{
    pyr_status status = PYR_OK;
    pyr_lock_acquire(&sampler.lock);
    if (sampler.sites == NULL) {
        sampler.sites = pyr_heap_sites_new();
    }
    if (sampler.live == NULL) {
        sampler.live = pyr_heap_live_new((pyr_heap_live_owner){.release = release_site});
    }
    if (sampler.sites == NULL || sampler.live == NULL) {
        status = PYR_ENOMEM;
    } else {
        forget_all(false);
        sampler.owner = owner;
        sampler.context = *context;
        sampler.native_stacks = native_stacks;
        sampler.seed = pyr_hash_seed();
        sampler.random = pyr_hash_seed() | 1;
        sampler.events = 0;
        atomic_store(&sampler.missed, 0);
        atomic_store(&sampler.unseen_frees, 0);
        pyr_heap_sites_name(sampler.sites, context->symbols);
    }
    pyr_lock_release(&sampler.lock);
    return status;
}

void pyr_heap_start(const void *owner)
{
    double quota_cores = pyr_os_cpu_quota();
    pyr_lock_acquire(&sampler.lock);
    if (sampler.owner == owner) {
        pyr_heap_pace_init(&sampler.pace, sampler.context.heap_sample_bytes, quota_cores,
                           pyr_clock_monotonic_ns());
        atomic_store(&sampler.distance, sampler.pace.distance);
        atomic_fetch_add(&sampler.epoch, 1);
        sampler.errors = (pyr_heap_errors){0};
        atomic_store(&sampler.is_active, true);
    }
    pyr_lock_release(&sampler.lock);
}

void pyr_heap_stop(const void *owner)
{
    pyr_lock_acquire(&sampler.lock);
    if (sampler.owner == owner) {
        atomic_store(&sampler.is_active, false);
    }
    pyr_lock_release(&sampler.lock);
}

void pyr_heap_close(const void *owner)
{
    pyr_lock_acquire(&sampler.lock);
    if (sampler.owner == owner) {
        atomic_store(&sampler.is_active, false);
        forget_all(false);
        sampler.owner = NULL;
    }
    pyr_lock_release(&sampler.lock);
}

void pyr_heap_forget_live(void)
{
    pyr_lock_acquire(&sampler.lock);
    if (sampler.live != NULL) {
        pyr_heap_live_clear(sampler.live, false);
        pyr_heap_sites_release_all(sampler.sites);
    }
    pyr_lock_release(&sampler.lock);
}

/* -------------------------------------------------------------------------- what was found ---- */

typedef struct look {
    int64_t now_ns;
} look;

static void add_block(void *context, const pyr_heap_block *block)
{
    const look *at = context;
    pyr_heap_site *site = pyr_heap_sites_get(sampler.sites, block->site);
    double chance = pyr_heap_chance(block->size, block->distance);
    size_t age = 0;
    while (at->now_ns - block->born_ns >= AGES_NS[age] && age + 1 < PYR_HEAP_AGES) {
        age++;
    }
    site->live_bytes += block->bytes;
    site->live_count += block->count;
    site->live_variance += (1 - chance) * (block->size / chance) * (block->size / chance);
    site->live_by_age[age] += block->bytes;
    pyr_heap_errors_add(&sampler.errors, block->size, block->sampled, block->distance);
    bool is_pymallocs = site->domain == PYR_HEAP_OBJ || site->domain == PYR_HEAP_MEM;
    site->live_small += block->size <= ARENA_BLOCK && is_pymallocs ? block->bytes : 0;
}

/* A block of C code that is in no mapping any more was freed unseen. */
static bool is_unmapped(void *unused, uintptr_t address, const pyr_heap_block *block)
{
    (void)unused;
    return block->size >= MAPPED_BLOCK &&
           pyr_heap_sites_get(sampler.sites, block->site)->domain == PYR_HEAP_NATIVE &&
           pyr_os_is_unmapped((const void *)address);
}

/* Sums up the live blocks of each site. Under the lock. */
static void look_at_live(void)
{
    look now = {.now_ns = pyr_clock_monotonic_ns()};
    for (uint32_t at = 0; at < pyr_heap_sites_end(sampler.sites); at++) {
        pyr_heap_site *site = pyr_heap_sites_get(sampler.sites, at);
        site->live_bytes = site->live_count = site->live_variance = site->live_small = 0;
        for (size_t age = 0; age < PYR_HEAP_AGES; age++) {
            site->live_by_age[age] = 0;
        }
    }
    sampler.errors.live = sampler.errors.thinned = 0;
    atomic_fetch_add(&sampler.unseen_frees, pyr_heap_live_drop_if(sampler.live, is_unmapped, NULL));
    pyr_heap_live_sweep(sampler.live);
    pyr_heap_live_each(sampler.live, add_block, &now);
    pyr_heap_pace_rest(&sampler.pace, now.now_ns);
    atomic_store(&sampler.distance, sampler.pace.distance);
}

static void visit_site(uint32_t at, bool ends, void (*visit)(void *context, pyr_heap_visit *found),
                       void *context, pyr_frame *frames)
{
    pyr_heap_site *site = pyr_heap_sites_get(sampler.sites, at);
    if (site->alloc_count > 0 || site->live_count > 0) {
        pyr_heap_visit found = {.frames = frames, .site = site};
        found.frame_count = pyr_heap_sites_stack(sampler.sites, site, frames, &found.omitted);
        found.thread = pyr_heap_sites_thread(sampler.sites, site->thread);
        visit(context, &found);
    }
    if (ends) {
        pyr_heap_sites_end_window(sampler.sites, at);
    }
}

void pyr_heap_each(const void *owner, bool ends,
                   void (*visit)(void *context, pyr_heap_visit *found), void *context)
{
    pyr_frame frames[PYR_LIMIT_FRAMES];
    pyr_lock_acquire(&sampler.lock);
    if (sampler.owner == owner) {
        look_at_live();
    }
    for (uint32_t at = 0; sampler.owner == owner && at < pyr_heap_sites_end(sampler.sites); at++) {
        visit_site(at, ends, visit, context, frames);
        if (at % SITES_AT_ONCE == SITES_AT_ONCE - 1) {
            pyr_lock_release(&sampler.lock);
            pyr_lock_acquire(&sampler.lock);
        }
    }
    pyr_lock_release(&sampler.lock);
}

void pyr_heap_each_thread(const void *owner, void (*name)(void *context, pyr_heap_thread *thread),
                          void *context)
{
    pyr_lock_acquire(&sampler.lock);
    for (uint32_t at = 1; sampler.owner == owner && at < pyr_heap_sites_threads_end(sampler.sites);
         at++) {
        pyr_heap_thread *thread = pyr_heap_sites_thread(sampler.sites, at);
        if (thread != NULL) {
            name(context, thread);
        }
    }
    pyr_lock_release(&sampler.lock);
}

void pyr_heap_renew(const void *owner, pyr_symbols *symbols)
{
    pyr_lock_acquire(&sampler.lock);
    if (sampler.owner == owner) {
        pyr_heap_sites_renew(sampler.sites, sampler.context.symbols, symbols);
        sampler.context.symbols = symbols;
    }
    pyr_lock_release(&sampler.lock);
}

void pyr_heap_get_stats(pyr_heap_stats *stats)
{
    pyr_lock_acquire(&sampler.lock);
    *stats = (pyr_heap_stats){
        .events = sampler.events,
        .missed = atomic_load(&sampler.missed),
        .misplaced = pyr_heap_live_misplaced(sampler.live),
        .unseen_frees = atomic_load(&sampler.unseen_frees),
        .overflows = pyr_heap_sites_overflows(sampler.sites),
        .distance = sampler.pace.distance,
        .live_distance = pyr_heap_live_distance(sampler.live),
        .live_variance = pyr_heap_live_variance(&sampler.errors),
        .live = pyr_heap_live_count(sampler.live),
        .sites = pyr_heap_sites_count(sampler.sites),
        .is_pushed = sampler.pace.is_pushed,
    };
    pyr_lock_release(&sampler.lock);
}

/* ------------------------------------------------------------------------------------ fork ---- */

void pyr_heap_prefork(void)
{
    pyr_lock_acquire(&sampler.lock);
}

void pyr_heap_postfork_parent(void)
{
    pyr_lock_release(&sampler.lock);
}

void pyr_heap_postfork_child(void)
{
    pyr_lock_fork_child(&sampler.lock);
    atomic_store(&sampler.is_active, false);
    sampler.owner = NULL;
    pyr_heap_mine.nested = 0;
    pyr_heap_mine.counted = 0;
    if (sampler.live != NULL && sampler.sites != NULL) {
        forget_all(true);
    }
}
