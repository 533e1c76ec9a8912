/* Memory accounts; see the header. Owns nothing.
 *
 *     rss = files + malloc's own + arenas + the rest
 *
 * "malloc's own" is what malloc took from the kernel, in use or free; arenas are mapped beside it.
 * The rest is what was mapped by other ways (extensions, stacks, other allocators; arenas of before
 * the start where CPython does not tell of them) less what malloc or arenas hold without having
 * touched it: it may be below 0.
 *
 * What is free in arenas is what is known not to be in use: blocks of before the start count as
 * alive, because nobody saw them freed.
 */
#include "collect/memory_account.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

enum { SPARED = 2000 }; /* how much longer malloc is left alone than it took to answer */

/* Resident bytes, and those of files among them. */
static bool read_resident(int64_t *resident, int64_t *files)
{
    FILE *statm = fopen("/proc/self/statm", "re");
    long long pages = 0, shared = 0;
    bool good = statm != NULL && fscanf(statm, "%*s %lld %lld", &pages, &shared) == 2;
    if (statm != NULL) {
        fclose(statm);
    }
    int64_t page_bytes = sysconf(_SC_PAGESIZE);
    *resident = pages * page_bytes;
    *files = shared * page_bytes;
    return good;
}

static void add(pyr_facts *facts, const char *key, int64_t bytes)
{
    pyr_facts_add_integer(facts, "memory", key, bytes);
}

static void ask_malloc(pyr_malloc_answer *answer)
{
    int64_t now_ns = pyr_clock_monotonic_ns();
    if (answer->at_ns != 0 && now_ns - answer->at_ns < SPARED * answer->took_ns) {
        return;
    }
    struct mallinfo2 says = mallinfo2();
    *answer = (pyr_malloc_answer){
        .at_ns = now_ns,
        .took_ns = pyr_clock_monotonic_ns() - now_ns,
        .taken = (int64_t)(says.arena + says.hblkhd),
        .used = (int64_t)(says.uordblks + says.hblkhd),
        .free = (int64_t)says.fordblks,
    };
}

void pyr_memory_account(const pyr_memory_known *known, bool may_wait, pyr_malloc_answer *answer,
                        pyr_facts *facts)
{
    int64_t resident, files;
    if (may_wait) {
        ask_malloc(answer);
    }
    bool has_answer = answer->at_ns != 0;
    const pyr_arenas *arenas = &known->arenas;
    add(facts, "python_live_bytes", (int64_t)known->python_live);
    if (known->native_live >= 0) {
        add(facts, "native_live_bytes", (int64_t)known->native_live);
    }
    if (has_answer) {
        add(facts, "malloc_taken_bytes", answer->taken);
        add(facts, "malloc_used_bytes", answer->used);
        add(facts, "malloc_free_bytes", answer->free);
        add(facts, "malloc_age_ms", (pyr_clock_monotonic_ns() - answer->at_ns) / 1000000);
    }
    int64_t old = arenas->used_at_start > 0 ? arenas->used_at_start : 0;
    int64_t unused = arenas->now - old - (int64_t)known->small_live;
    add(facts, "arenas_bytes", arenas->now);
    add(facts, "arenas_free_bytes", unused > 0 ? unused : 0);
    if (arenas->at_start >= 0) {
        add(facts, "arenas_at_start_bytes", arenas->at_start);
    }
    if (read_resident(&resident, &files)) {
        add(facts, "rss_bytes", resident);
        add(facts, "rss_files_bytes", files);
        if (has_answer) {
            add(facts, "unexplained_bytes", resident - files - answer->taken - arenas->now);
        }
    }
}
