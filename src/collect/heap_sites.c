/* Allocation sites; see the header.
 *
 * Sites and threads stand in arrays and are found by hash; the free ones are linked. Site 0 and
 * thread 0 are for what has no room. Owns the tree of stacks. Never allocates but in new and renew.
 */
#include "collect/heap_sites.h"

#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "os/os.h"

enum {
    SITE_BUCKETS = PYR_HEAP_SITES,
    THREAD_BUCKETS = PYR_HEAP_THREADS,
    IDLE_WINDOWS = 2,
};

static const char FULL[] = "<table of allocation sites full>";

typedef struct space {
    pyr_heap_site sites[PYR_HEAP_SITES];
    uint32_t site_buckets[SITE_BUCKETS];
    pyr_heap_thread threads[PYR_HEAP_THREADS];
    uint32_t thread_buckets[THREAD_BUCKETS];
} space;

struct pyr_heap_sites {
    pyr_heap_stacks *stacks;
    space *space;
    uint64_t seed;
    uint32_t sites_used, sites_free, sites_count; /* as of nodes in heap_stacks.c */
    uint32_t threads_used, threads_free;
    uint32_t full; /* function: the stack of site 0 */
    uint64_t overflows;
};

pyr_heap_sites *pyr_heap_sites_new(void)
{
    pyr_heap_sites *sites = pyr_memory_new(1, sizeof *sites);
    if (!sites) {
        return NULL;
    }
    sites->seed = pyr_hash_seed();
    sites->sites_used = sites->threads_used = 1;
    sites->stacks = pyr_heap_stacks_new();
    sites->space = pyr_os_reserve(sizeof *sites->space);
    if (!sites->stacks || !sites->space) {
        pyr_heap_sites_free(sites);
        return NULL;
    }
    return sites;
}

void pyr_heap_sites_free(pyr_heap_sites *sites)
{
    if (sites) {
        if (sites->space) {
            pyr_os_release(sites->space, sizeof *sites->space);
        }
        pyr_heap_stacks_free(sites->stacks);
        pyr_memory_free(sites);
    }
}

void pyr_heap_sites_name(pyr_heap_sites *sites, pyr_symbols *symbols)
{
    sites->full = pyr_symbols_function(symbols, FULL, sizeof FULL - 1, "", 0, 0);
}

/* --------------------------------------------------------------------------------- threads ---- */

static uint32_t *thread_bucket(const pyr_heap_sites *sites, uint64_t ident, uint64_t native_id)
{
    return &sites->space->thread_buckets[pyr_hash_u64(ident ^ native_id << 40, sites->seed) %
                                         THREAD_BUCKETS];
}

static uint32_t find_thread(pyr_heap_sites *sites, const pyr_heap_thread *wanted)
{
    pyr_heap_thread *threads = sites->space->threads;
    uint32_t *bucket = thread_bucket(sites, wanted->ident, wanted->native_id);
    if (wanted->ident == 0 && wanted->native_id == 0) {
        return 0;
    }
    for (uint32_t at = *bucket; at != 0; at = threads[at].next) {
        if (threads[at].ident == wanted->ident && threads[at].native_id == wanted->native_id) {
            threads[at].name = threads[at].is_named ? threads[at].name : wanted->name;
            return at;
        }
    }
    uint32_t made = sites->threads_free;
    if (made != 0) {
        sites->threads_free = threads[made].next;
    } else if (sites->threads_used < PYR_HEAP_THREADS) {
        made = sites->threads_used++;
    } else {
        sites->overflows++;
        return 0;
    }
    threads[made] = *wanted;
    threads[made].held = 0;
    threads[made].next = *bucket;
    *bucket = made;
    return made;
}

static void release_thread(pyr_heap_sites *sites, uint32_t at)
{
    pyr_heap_thread *threads = sites->space->threads;
    if (at == 0 || --threads[at].held > 0) {
        return;
    }
    uint32_t *link = thread_bucket(sites, threads[at].ident, threads[at].native_id);
    while (*link != at) {
        link = &threads[*link].next;
    }
    *link = threads[at].next;
    threads[at] = (pyr_heap_thread){.next = sites->threads_free};
    sites->threads_free = at;
}

pyr_heap_thread *pyr_heap_sites_thread(pyr_heap_sites *sites, uint32_t thread)
{
    pyr_heap_thread *found = &sites->space->threads[thread];
    return thread != 0 && found->held > 0 ? found : NULL;
}

uint32_t pyr_heap_sites_threads_end(const pyr_heap_sites *sites)
{
    return sites->threads_used;
}

/* ----------------------------------------------------------------------------------- sites ---- */

static uint32_t *site_bucket(const pyr_heap_sites *sites, const pyr_heap_site *site)
{
    uint64_t key = (uint64_t)site->stack << 32 | site->thread << 4 | site->domain;
    return &sites->space
                ->site_buckets[pyr_hash_u64(key, sites->seed + site->labels) % SITE_BUCKETS];
}

/* The site, made where it is new; it takes over one hold of the stack. */
static uint32_t get_site(pyr_heap_sites *sites, const pyr_heap_site *wanted)
{
    pyr_heap_site *all = sites->space->sites;
    uint32_t *bucket = site_bucket(sites, wanted);
    for (uint32_t at = *bucket; at != 0; at = all[at].next) {
        if (all[at].stack == wanted->stack && all[at].thread == wanted->thread &&
            all[at].labels == wanted->labels && all[at].domain == wanted->domain) {
            pyr_heap_stacks_release(sites->stacks, wanted->stack);
            return at;
        }
    }
    uint32_t made = sites->sites_free;
    if (made != 0) {
        sites->sites_free = all[made].next;
    } else if (sites->sites_used < PYR_HEAP_SITES) {
        made = sites->sites_used++;
    } else {
        return 0;
    }
    all[made] = *wanted;
    all[made].next = *bucket;
    sites->space->threads[wanted->thread].held++;
    *bucket = made;
    sites->sites_count++;
    return made;
}

uint32_t pyr_heap_sites_find(pyr_heap_sites *sites, const pyr_frame *frames, uint32_t count,
                             uint32_t omitted, const pyr_heap_thread *thread,
                             pyr_heap_domain domain, uint32_t labels)
{
    uint32_t stack = pyr_heap_stacks_hold(sites->stacks, frames, count, omitted);
    if (stack == 0) {
        sites->overflows++;
        return 0;
    }
    uint32_t owner = find_thread(sites, thread);
    sites->space->threads[owner].held++; /* so that the end of a site does not free it */
    const pyr_heap_site wanted = {
        .stack = stack, .thread = owner, .labels = labels, .domain = (uint8_t)domain, .used = true};
    uint32_t site = get_site(sites, &wanted);
    if (site == 0) {
        sites->overflows++;
        pyr_heap_stacks_release(sites->stacks, stack);
    }
    release_thread(sites, owner);
    return site;
}

pyr_heap_site *pyr_heap_sites_get(pyr_heap_sites *sites, uint32_t site)
{
    return &sites->space->sites[site];
}

void pyr_heap_sites_hold(pyr_heap_sites *sites, uint32_t site)
{
    sites->space->sites[site].held++;
}

void pyr_heap_sites_release(pyr_heap_sites *sites, uint32_t site)
{
    if (sites->space->sites[site].held > 0) {
        sites->space->sites[site].held--;
    }
}

void pyr_heap_sites_release_all(pyr_heap_sites *sites)
{
    for (uint32_t at = 0; at < sites->sites_used; at++) {
        sites->space->sites[at].held = 0;
    }
}

uint32_t pyr_heap_sites_stack(const pyr_heap_sites *sites, const pyr_heap_site *site,
                              pyr_frame frames[PYR_LIMIT_FRAMES], uint32_t *omitted)
{
    if (site == &sites->space->sites[0]) {
        *omitted = 0;
        frames[0] = (pyr_frame){.function = sites->full};
        return 1;
    }
    return pyr_heap_stacks_get(sites->stacks, site->stack, frames, omitted);
}

uint32_t pyr_heap_sites_end(const pyr_heap_sites *sites)
{
    return sites->sites_used;
}

static void free_site(pyr_heap_sites *sites, uint32_t at)
{
    pyr_heap_site *all = sites->space->sites;
    uint32_t *link = site_bucket(sites, &all[at]);
    while (*link != at) {
        link = &all[*link].next;
    }
    *link = all[at].next;
    pyr_heap_stacks_release(sites->stacks, all[at].stack);
    release_thread(sites, all[at].thread);
    all[at] = (pyr_heap_site){.next = sites->sites_free};
    sites->sites_free = at;
    sites->sites_count--;
}

void pyr_heap_sites_end_window(pyr_heap_sites *sites, uint32_t at)
{
    pyr_heap_site *site = &sites->space->sites[at];
    site->idle = (uint8_t)(site->alloc_count > 0       ? 0
                           : site->idle < IDLE_WINDOWS ? site->idle + 1
                                                       : IDLE_WINDOWS);
    site->alloc_bytes = site->alloc_count = 0;
    if (at != 0 && site->used && site->held == 0 && site->idle == IDLE_WINDOWS) {
        free_site(sites, at);
    }
}

static uint32_t renamed(const pyr_symbols *from, pyr_symbols *to, uint32_t string)
{
    size_t length;
    const char *text = pyr_symbols_text(from, string, &length);
    return pyr_symbols_string(to, text, length);
}

void pyr_heap_sites_renew(pyr_heap_sites *sites, const pyr_symbols *from, pyr_symbols *to)
{
    pyr_heap_stacks_renew(sites->stacks, from, to);
    pyr_heap_sites_name(sites, to);
    for (uint32_t at = 1; at < sites->threads_used; at++) {
        sites->space->threads[at].name = renamed(from, to, sites->space->threads[at].name);
    }
    memset(sites->space->site_buckets, 0, sizeof sites->space->site_buckets);
    for (uint32_t at = 1; at < sites->sites_used; at++) {
        pyr_heap_site *site = &sites->space->sites[at];
        if (site->used) {
            site->labels = renamed(from, to, site->labels);
            site->next = *site_bucket(sites, site);
            *site_bucket(sites, site) = at;
        }
    }
}

void pyr_heap_sites_clear(pyr_heap_sites *sites)
{
    pyr_heap_stacks_clear(sites->stacks);
    pyr_os_discard(sites->space, sizeof *sites->space);
    sites->sites_used = sites->threads_used = 1;
    sites->sites_free = sites->threads_free = sites->sites_count = 0;
}

size_t pyr_heap_sites_memory(void)
{
    return sizeof(space) + pyr_heap_stacks_memory();
}

size_t pyr_heap_sites_count(const pyr_heap_sites *sites)
{
    return sites->sites_count;
}

uint64_t pyr_heap_sites_overflows(const pyr_heap_sites *sites)
{
    return sites->overflows;
}
