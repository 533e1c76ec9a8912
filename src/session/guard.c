/* The guard; see the header. Owns the page and its file. Records of others are hostile bytes: they
 * are copied, and only compared. The folder is a tmpfs, where the memory of a page that was written
 * once cannot be refused later: a mapping of a file elsewhere might raise SIGBUS. */
#include "session/guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/memory.h"
#include "os/claim.h"
#include "os/os.h"

enum { COLLECTORS = 16, NAME_BYTES = 24, PAGE_BYTES = 4096, FILES = 4096 };
enum { CHANCE = 20 }; /* of more sudden ends than so many, one within is no collector's doing */
enum { MOST_ENDS = 1 << 20, STALE = 6 }; /* halved so often, a count says nothing */

static const char MARK[16] = "PYRGUARD1";
static const char TALLY_MARK[16] = "PYRTALLY1", TALLY_NAME[] = "ends.";
static const uint64_t PROGRAM_SEED = 0x67756172;
static const int64_t COUNTS_NS = INT64_C(600000000000); /* how long an unclean end is remembered */
static const int64_t FORGOTTEN_NS = INT64_C(86400000000000); /* that of a program not seen again */

typedef struct row {
    char name[NAME_BYTES];
    _Atomic uint32_t inside; /* threads in the collector's code */
    uint32_t unused;
} row;

typedef struct record { /* what the file holds, in this machine's own bytes */
    char mark[16];
    char build[32]; /* of pyrometer: another one may have mended it */
    uint64_t program, space;
    int64_t pid;
    uint64_t
        judged; /* somebody has found its process gone, and so its time is that of the finding */
    row rows[COLLECTORS];
} record;

/* How processes of one program ended that ended suddenly, with a collector on: a child that leaves
 * by _exit, or is killed, does so at random moments, and a few of those are within. Halved every
 * ten minutes. Who writes it at the same time as another may lose a count. */
typedef struct tally {
    char mark[16];
    char build[32];
    uint64_t program;
    int64_t began_ns; /* of these ten minutes, realtime */
    struct ends {
        char name[NAME_BYTES];
        uint32_t within, elsewhere;
    } rows[COLLECTORS];
} tally;

/* One place for all guards of a process, for ever: hooks of the program's threads may hold a
 * counter while their session is freed. */
static _Atomic(record *) home;
static _Atomic(const pyr_guard *) tenant; /* the guard that opened last, if it is not closed */

struct pyr_guard {
    record
        *page; /* = home: shared with the file while the guard is open, else this process's own */
    char path[PYR_LIMIT_PATH_BYTES];
    char folder[PYR_LIMIT_PATH_BYTES - 64];
    atomic_bool ended;
    tally ends; /* of the program that was asked for last; at the end, of this one */
    char ends_path[PYR_LIMIT_PATH_BYTES]; /* its file. Not on a stack, which may be small */
    record found[COLLECTORS];             /* of those that ended within */
    int64_t found_age_ns[COLLECTORS];     /* since somebody found it */
    size_t found_count;
    size_t looked;
};

static void describe(record *own, const pyr_identity *identity, const char *program)
{
    char folder[PYR_LIMIT_PATH_BYTES] = "";
    (void)!pyr_os_working_folder(folder, sizeof folder);
    memcpy(own->mark, MARK, sizeof own->mark);
    snprintf(own->build, sizeof own->build, "%s", PYR_VERSION);
    own->program = pyr_hash_bytes(program, strlen(program),
                                  pyr_hash_bytes(folder, strlen(folder), PROGRAM_SEED));
    own->space = pyr_os_inode("/proc/self/ns/pid");
    own->pid = identity->pid;
}

/* Below 0: a hook that began under the session before this one has left since. */
static bool is_inside(const row *one)
{
    return (int32_t)atomic_load(&one->inside) > 0;
}

static bool is_unclean(const record *one)
{
    bool inside = false;
    for (size_t index = 0; index < COLLECTORS; index++) {
        inside |= is_inside(&one->rows[index]);
    }
    return inside;
}

static void load_tally(pyr_guard *guard, const record *of)
{
    tally *ends = &guard->ends;
    int64_t now_ns = pyr_clock_realtime_ns();
    pyr_buffer bytes;
    pyr_buffer_init(&bytes, PAGE_BYTES);
    snprintf(guard->ends_path, sizeof guard->ends_path, "%s/%s%016" PRIx64, guard->folder,
             TALLY_NAME, of->program);
    memset(ends, 0, sizeof *ends);
    if (pyr_os_file_read(guard->ends_path, &bytes) == PYR_OK && bytes.length == sizeof *ends) {
        memcpy(ends, bytes.data, sizeof *ends);
    }
    pyr_buffer_fini(&bytes);
    if (memcmp(ends->mark, TALLY_MARK, sizeof ends->mark) != 0 ||
        memcmp(ends->build, of->build, sizeof ends->build) != 0 || ends->program != of->program ||
        ends->began_ns > now_ns) {
        memset(ends, 0, sizeof *ends);
        ends->program = of->program;
        ends->began_ns = now_ns;
        memcpy(ends->mark, TALLY_MARK, sizeof ends->mark);
        memcpy(ends->build, of->build, sizeof ends->build);
    }
    int64_t periods = (now_ns - ends->began_ns) / COUNTS_NS;
    int halvings = periods < 31 ? (int)periods : 31;
    for (size_t index = 0; index < COLLECTORS; index++) {
        struct ends *each = &ends->rows[index];
        each->name[NAME_BYTES - 1] = '\0';
        each->within >>= halvings;
        each->elsewhere >>= halvings;
    }
    ends->began_ns += periods * COUNTS_NS;
}

static struct ends *ends_of(tally *ends, const char *collector)
{
    for (size_t index = 0; index < COLLECTORS; index++) {
        struct ends *each = &ends->rows[index];
        if (each->name[0] == '\0') {
            snprintf(each->name, sizeof each->name, "%.*s", NAME_BYTES - 1, collector);
        }
        if (strncmp(each->name, collector, NAME_BYTES - 1) == 0) {
            return each;
        }
    }
    return NULL;
}

static void count_end(pyr_guard *guard, const record *one)
{
    load_tally(guard, one);
    for (size_t index = 0; index < COLLECTORS && one->rows[index].name[0] != '\0'; index++) {
        struct ends *each = ends_of(&guard->ends, one->rows[index].name);
        uint32_t *count = each == NULL                   ? NULL
                          : is_inside(&one->rows[index]) ? &each->within
                                                         : &each->elsewhere;
        if (count != NULL && *count < MOST_ENDS) {
            ++*count;
        }
    }
    (void)!pyr_os_file_write(guard->ends_path, &guard->ends, sizeof guard->ends);
}

/* A record whose process is gone: kept while it counts, else removed. */
static void judge(pyr_guard *guard, const char *path, record *one)
{
    int64_t age_ns = pyr_clock_realtime_ns() - pyr_os_modified_ns(path);
    bool same = memcmp(one->build, guard->page->build, sizeof one->build) == 0 &&
                one->program == guard->page->program;
    /* A clean one goes, whoever finds it; the others are left to their own program. */
    if (!is_unclean(one) || (same && !one->judged)) {
        count_end(guard, one);
    }
    if (!is_unclean(one) || (!same && age_ns > FORGOTTEN_NS)) {
        pyr_os_file_remove(path);
        return;
    }
    if (!same) {
        return;
    }
    if (!one->judged) {
        one->judged = 1; /* which also sets the file's time */
        (void)!pyr_os_file_write_at(path, 0, one, sizeof *one);
        age_ns = 0;
    } else if (age_ns > COUNTS_NS) {
        pyr_os_file_remove(path);
        return;
    }
    if (guard->found_count < COLLECTORS) {
        guard->found_age_ns[guard->found_count] = age_ns > 0 ? age_ns : 0;
        memcpy(&guard->found[guard->found_count++], one, sizeof *one);
    }
}

static int look(void *context, const pyr_os_file *file)
{
    pyr_guard *guard = context;
    char path[PYR_LIMIT_PATH_BYTES];
    record one;
    pyr_buffer bytes;
    pyr_buffer_init(&bytes, PAGE_BYTES);
    snprintf(path, sizeof path, "%s/%.60s", guard->folder, file->name);
    if (strncmp(file->name, TALLY_NAME, sizeof TALLY_NAME - 1) == 0) {
        if (pyr_clock_realtime_ns() - pyr_os_modified_ns(path) > STALE * COUNTS_NS) {
            pyr_os_file_remove(path);
        }
        return ++guard->looked == FILES;
    }
    if (pyr_os_file_read(path, &bytes) == PYR_OK && bytes.length == PAGE_BYTES) {
        memcpy(&one, bytes.data, sizeof one);
        bool known = memcmp(one.mark, guard->page->mark, sizeof one.mark) == 0 &&
                     one.space == guard->page->space;
        if (known && pyr_os_process_is_gone(one.pid)) {
            judge(guard, path, &one);
        }
    }
    pyr_buffer_fini(&bytes);
    return ++guard->looked == FILES;
}

pyr_guard *pyr_guard_open(const char *folder, const pyr_identity *identity, const char *program)
{
    if (program[0] == '\0' || program[0] == '-') {
        return NULL; /* python -c: one such program has nothing to do with another */
    }
    pyr_guard *made = pyr_memory_new(1, sizeof *made);
    uint8_t *first = pyr_memory_new(1, PAGE_BYTES);
    pyr_guard *guard = NULL;
    if (made == NULL || first == NULL) {
        goto out;
    }
    if (folder != NULL) {
        snprintf(made->folder, sizeof made->folder, "%s", folder);
    } else {
        snprintf(made->folder, sizeof made->folder, "/dev/shm/pyrometer-guard-%" PRIu64,
                 pyr_os_user());
    }
    snprintf(made->path, sizeof made->path, "%s/%" PRId64 ".%" PRId64, made->folder, identity->pid,
             identity->start_ns / 1000);
    describe((record *)(void *)first, identity, program);
    if (!pyr_os_is_memory("/dev/shm") || pyr_os_folder_make_private(made->folder) != PYR_OK ||
        pyr_os_file_write(made->path, first, PAGE_BYTES) != PYR_OK) {
        goto out;
    }
    if (atomic_load(&home) == NULL) {
        atomic_store(&home, pyr_os_reserve(PAGE_BYTES));
    }
    made->page = atomic_load(&home);
    if (made->page == NULL || pyr_os_file_map(made->path, made->page, PAGE_BYTES) != PYR_OK) {
        pyr_os_file_remove(made->path);
        goto out;
    }
    (void)!pyr_os_folder_each(made->folder, "", look, made);
    load_tally(made, made->page);
    guard = made;
    made = NULL;
    atomic_store(&tenant, guard);
out:
    pyr_memory_free(made);
    pyr_memory_free(first);
    return guard;
}

static bool ended_in(const record *one, const char *collector)
{
    for (size_t at = 0; at < COLLECTORS; at++) {
        if (strncmp(one->rows[at].name, collector, NAME_BYTES) == 0 && is_inside(&one->rows[at])) {
            return true;
        }
    }
    return false;
}

int64_t pyr_guard_holds(const pyr_guard *guard, const char *collector, char *why, size_t why_size)
{
    int64_t until_ns = 0;
    uint32_t within = 0, elsewhere = 0;
    for (size_t index = 0; guard != NULL && index < COLLECTORS; index++) {
        if (strncmp(guard->ends.rows[index].name, collector, NAME_BYTES - 1) == 0) {
            within = guard->ends.rows[index].within;
            elsewhere = guard->ends.rows[index].elsewhere;
        }
    }
    if ((within > 0 ? within : 1) <= elsewhere / CHANCE) {
        return 0;
    }
    for (size_t index = 0; guard != NULL && index < guard->found_count; index++) {
        const record *one = &guard->found[index];
        int64_t left_ns = COUNTS_NS - guard->found_age_ns[index];
        if (ended_in(one, collector) && pyr_clock_monotonic_ns() + left_ns > until_ns) {
            until_ns = pyr_clock_monotonic_ns() + left_ns;
            snprintf(why, why_size, "the process %" PRId64 " of this program ended in its code",
                     one->pid);
        }
    }
    return until_ns;
}

_Atomic uint32_t *pyr_guard_counter(pyr_guard *guard, const char *collector)
{
    if (guard == NULL || strlen(collector) >= NAME_BYTES) {
        return NULL;
    }
    for (size_t index = 0; index < COLLECTORS; index++) {
        row *one = &guard->page->rows[index];
        if (one->name[0] == '\0') {
            memcpy(one->name, collector, strlen(collector) + 1);
        }
        if (strncmp(one->name, collector, NAME_BYTES) == 0) {
            return &one->inside;
        }
    }
    return NULL;
}

void pyr_guard_end(pyr_guard *guard)
{
    if (guard != NULL && !atomic_exchange(&guard->ended, true)) {
        pyr_os_file_remove(guard->path);
    }
}

void pyr_guard_close(pyr_guard *guard)
{
    const pyr_guard *expected = guard;
    if (guard != NULL) {
        if (atomic_compare_exchange_strong(&tenant, &expected, NULL)) {
            pyr_os_make_own(guard->page, PAGE_BYTES);
        }
        pyr_memory_free(guard);
    }
}

void pyr_guard_fork_child(pyr_guard *guard)
{
    if (guard != NULL) {
        atomic_store(&guard->ended, true); /* the file is its parent's */
        pyr_os_make_own(guard->page, PAGE_BYTES);
    }
}
