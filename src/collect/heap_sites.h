/* Allocation sites: what was allocated in this window, and what is alive, by stack, thread, domain
 * of the allocator and labels of the program.
 *
 * A site lives while a live block holds it or something was allocated in this window or the last.
 * Bounded: what finds no room stands on site 0, whose stack says so. All memory is reserved at
 * creation. One owner, under its lock; adding and releasing are hook safe.
 */
#ifndef PYR_COLLECT_HEAP_SITES_H
#define PYR_COLLECT_HEAP_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "collect/heap_stacks.h"
#include "model/facts.h"

enum {
#ifdef PYR_HOSTILE
    PYR_HEAP_SITES = 1 << 8,
    PYR_HEAP_THREADS = 1 << 4,
#else
    PYR_HEAP_SITES = 1 << 14,
    PYR_HEAP_THREADS = 1 << 11,
#endif
};

/* Domains of CPython's allocators, as the label `allocator domain` names them. */
typedef enum pyr_heap_domain {
    PYR_HEAP_OBJ,
    PYR_HEAP_MEM,
    PYR_HEAP_RAW,
    PYR_HEAP_NATIVE,
    PYR_HEAP_DOMAINS
} pyr_heap_domain;

enum { PYR_HEAP_AGES = PYR_LEAK_AGES }; /* of live bytes: below 1, 10, 60 minutes, and above */

/* A thread of samples. */
typedef struct pyr_heap_thread {
    uint64_t ident, native_id; /* pthread id, kernel id; 0 = not known */
    uint32_t name;             /* string of the symbol table, 0 = not known */
    bool is_named;             /* the name is from the registry of threads */
    uint32_t held;             /* sites of it */
    uint32_t next;             /* in its bucket */
} pyr_heap_thread;

typedef struct pyr_heap_site {
    uint32_t stack;
    uint32_t thread; /* index of a thread, 0 = none */
    uint32_t labels; /* string: the program's label set, 0 = none */
    uint8_t domain;
    uint8_t idle;  /* windows in which nothing was allocated */
    uint32_t held; /* live blocks */
    uint32_t next; /* in its bucket, or of the free ones */
    bool used;
    double alloc_bytes, alloc_count; /* in this window */
    double live_bytes, live_count;   /* the owner's, from one look at the live blocks */
    double live_variance;
    double live_small; /* of the bytes, those of blocks that pymalloc keeps in its arenas */
    double live_by_age[PYR_HEAP_AGES];
} pyr_heap_site;

typedef struct pyr_heap_sites pyr_heap_sites;

/* NULL: no memory. */
pyr_heap_sites *pyr_heap_sites_new(void);
void pyr_heap_sites_free(pyr_heap_sites *sites);

/* Gives site 0 its name, in `symbols`. */
void pyr_heap_sites_name(pyr_heap_sites *sites, pyr_symbols *symbols);

/* The site of a stack (leaf first) in a thread and a domain, under a set of labels (string, 0 =
 * none); 0: no room, counted. */
PYR_HOOK_SAFE uint32_t pyr_heap_sites_find(pyr_heap_sites *sites, const pyr_frame *frames,
                                           uint32_t count, uint32_t omitted,
                                           const pyr_heap_thread *thread, pyr_heap_domain domain,
                                           uint32_t labels);

/* A site by its index. */
PYR_HOOK_SAFE pyr_heap_site *pyr_heap_sites_get(pyr_heap_sites *sites, uint32_t site);

/* A live block holds a site, or holds it no more. */
PYR_HOOK_SAFE void pyr_heap_sites_hold(pyr_heap_sites *sites, uint32_t site);
PYR_HOOK_SAFE void pyr_heap_sites_release(pyr_heap_sites *sites, uint32_t site);

/* No live block holds any site. */
void pyr_heap_sites_release_all(pyr_heap_sites *sites);

/* The stack of a site. */
uint32_t pyr_heap_sites_stack(const pyr_heap_sites *sites, const pyr_heap_site *site,
                              pyr_frame frames[PYR_LIMIT_FRAMES], uint32_t *omitted);

/* The thread of a site; NULL: not known. */
pyr_heap_thread *pyr_heap_sites_thread(pyr_heap_sites *sites, uint32_t thread);

/* Indices of sites and threads in use are below these. */
uint32_t pyr_heap_sites_end(const pyr_heap_sites *sites);
uint32_t pyr_heap_sites_threads_end(const pyr_heap_sites *sites);

/* Ends the window of one site: what was allocated is 0 again, and an idle one that nobody holds
 * goes away. */
PYR_HOOK_SAFE void pyr_heap_sites_end_window(pyr_heap_sites *sites, uint32_t site);

/* Takes all names from one table to another. */
void pyr_heap_sites_renew(pyr_heap_sites *sites, const pyr_symbols *from, pyr_symbols *to);

/* Forgets everything, gives the memory back. Site 0 keeps its name. */
PYR_HOOK_SAFE void pyr_heap_sites_clear(pyr_heap_sites *sites);

size_t pyr_heap_sites_count(const pyr_heap_sites *sites);

/* Memory of all tables, those of stacks too, if every page of them is touched: constant. */
size_t pyr_heap_sites_memory(void);

/* How often something found no room, so far. */
uint64_t pyr_heap_sites_overflows(const pyr_heap_sites *sites);

#endif
