/* The spool; see the header.
 *
 * A name is `<time>-<pid>-<random>.<target>.request`: nanoseconds of Unix time in 20 digits, so
 * that names sort by age; a random number, because containers may share a folder and their pids;
 * the target as a hash. A file is written under a hidden name and then renamed. Its owner while it
 * is being sent is whoever holds a record lock on it (os/claim.h), which ends with the process.
 *
 * Owns its texts and the list of one round through the folder; others change it meanwhile, so that
 * a name in the list promises nothing.
 */
#include "export/spool.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/ending.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/memory.h"
#include "os/claim.h"
#include "os/os.h"

#define SUFFIX ".request"
#define UNFINISHED_PREFIX ".request-"

enum {
    LISTED = 1 << 14, /* files looked at in one round; the next round sees the rest */
    KEPT = 3 << 12,   /* requests; fewer, so that a round sees all there are */
    HASH_DIGITS = 16,
    TIME_DIGITS = 20,
    ENTRY_BYTES = 64 << 20,
    PATH_BYTES = PYR_LIMIT_PATH_BYTES + PYR_SPOOL_NAME_BYTES + 2,
};

static const int64_t UNFINISHED_NS = INT64_C(3600000000000); /* no writer takes so long */
static const uint64_t TARGET_SEED = 0x70797270; /* any, but the same in all processes */

typedef struct listed {
    char name[PYR_SPOOL_NAME_BYTES];
    int64_t bytes;
} listed;

typedef struct listing {
    const char *folder;
    const char *ending; /* only these; NULL = of all targets */
    int64_t now_ns;
    listed *files;
    size_t count;
} listing;

struct pyr_spool {
    char folder[PYR_LIMIT_PATH_BYTES];
    char ending[HASH_DIGITS + sizeof "." SUFFIX]; /* ".<target>.request" */
    int64_t max_bytes, max_age_ns;
    listing round; /* what pyr_spool_next goes through */
    size_t next;   /* of it */
};

/* ------------------------------------------------------------------------------------ names */

static bool is_digits(const char *text, size_t count)
{
    return strspn(text, "0123456789") >= count;
}

/* Time of a request by its name; -1: no name of ours. */
static int64_t time_of(const char *name)
{
    size_t length = strlen(name);
    if (length >= PYR_SPOOL_NAME_BYTES || length <= TIME_DIGITS + strlen(SUFFIX) ||
        !is_digits(name, TIME_DIGITS) || name[TIME_DIGITS] != '-' ||
        strcmp(name + length - strlen(SUFFIX), SUFFIX) != 0) {
        return -1;
    }
    return strtoll(name, NULL, 10);
}

static void make_path(const char *folder, const char *name, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/%s", folder, name);
}

/* ---------------------------------------------------------------------------------- listing */

static int list_file(void *context, const pyr_os_file *file)
{
    listing *list = context;
    if (list->ending == NULL &&
        strncmp(file->name, UNFINISHED_PREFIX, strlen(UNFINISHED_PREFIX)) == 0) {
        if (file->modified_ns < list->now_ns - UNFINISHED_NS) {
            char path[PATH_BYTES];
            make_path(list->folder, file->name, path);
            pyr_os_file_remove(path);
        }
        return 0;
    }
    if (time_of(file->name) < 0 ||
        (list->ending != NULL && !pyr_ends_with(file->name, strlen(file->name), list->ending))) {
        return 0;
    }
    listed *one = &list->files[list->count++];
    snprintf(one->name, sizeof one->name, "%s", file->name);
    one->bytes = file->bytes;
    return list->count == LISTED;
}

static int compare(const void *left, const void *right)
{
    return strcmp(((const listed *)left)->name, ((const listed *)right)->name);
}

/* The requests of a target, or of all, oldest first. The caller frees files. */
static pyr_status make_list(const pyr_spool *spool, const char *ending, listing *list)
{
    *list = (listing){
        .folder = spool->folder,
        .ending = ending,
        .now_ns = pyr_clock_realtime_ns(),
    };
    /* An empty or absent folder, the usual case, costs no memory. */
    if (!pyr_os_folder_is_own(spool->folder)) {
        return PYR_ENOENT;
    }
    list->files = pyr_memory_new(LISTED, sizeof *list->files);
    if (list->files == NULL) {
        return PYR_ENOMEM;
    }
    pyr_status status = pyr_os_folder_each(spool->folder, "", list_file, list);
    if (status != PYR_OK) {
        pyr_memory_free(list->files);
        list->files = NULL;
        return status;
    }
    qsort(list->files, list->count, sizeof *list->files, compare);
    return PYR_OK;
}

/* ------------------------------------------------------------------------------- interface */

pyr_spool *pyr_spool_new(const char *folder, const char *target, int64_t max_bytes,
                         int64_t max_age_ns)
{
    pyr_spool *spool = pyr_memory_new(1, sizeof *spool);
    if (spool != NULL) {
        snprintf(spool->folder, sizeof spool->folder, "%s", folder);
        snprintf(spool->ending, sizeof spool->ending, ".%0*" PRIx64 SUFFIX, (int)HASH_DIGITS,
                 pyr_hash_bytes(target, strlen(target), TARGET_SEED));
        spool->max_bytes = max_bytes;
        spool->max_age_ns = max_age_ns;
    }
    return spool;
}

void pyr_spool_free(pyr_spool *spool)
{
    if (spool != NULL) {
        pyr_memory_free(spool->round.files);
    }
    pyr_memory_free(spool);
}

const char *pyr_spool_folder(const pyr_spool *spool)
{
    return spool->folder;
}

size_t pyr_spool_prune(pyr_spool *spool)
{
    listing list;
    size_t removed = 0;
    if (make_list(spool, NULL, &list) != PYR_OK) {
        return 0;
    }
    int64_t bytes = 0;
    size_t kept = 0;
    for (size_t index = list.count; index-- > 0;) { /* from the youngest on */
        const listed *one = &list.files[index];
        bytes += one->bytes;
        if (bytes <= spool->max_bytes && kept < KEPT &&
            time_of(one->name) >= list.now_ns - spool->max_age_ns) {
            kept++;
            continue;
        }
        char path[PATH_BYTES];
        int claim = -1;
        make_path(spool->folder, one->name, path);
        /* One that is being sent just now is not ours to remove. */
        if (pyr_os_file_claim(path, NULL, &claim) == PYR_OK) {
            removed += pyr_os_file_remove(path) == PYR_OK &&
                       pyr_ends_with(one->name, strlen(one->name), spool->ending);
            pyr_os_file_release(claim);
        }
    }
    pyr_memory_free(list.files);
    return removed;
}

pyr_status pyr_spool_add(pyr_spool *spool, int64_t time_ns, const void *head, size_t head_length,
                         const void *body, size_t body_length, char name[PYR_SPOOL_NAME_BYTES])
{
    char hidden[PATH_BYTES], path[PATH_BYTES];
    pyr_buffer content;
    if (head_length + body_length > ENTRY_BYTES ||
        (int64_t)(head_length + body_length) > spool->max_bytes) {
        return PYR_ETOOBIG;
    }
    pyr_status status = pyr_os_folder_make_private(spool->folder);
    if (status != PYR_OK) {
        return status;
    }
    uint64_t number = pyr_hash_seed();
    snprintf(name, PYR_SPOOL_NAME_BYTES, UNFINISHED_PREFIX "%" PRIx64, number);
    make_path(spool->folder, name, hidden);
    snprintf(name, PYR_SPOOL_NAME_BYTES, "%0*" PRId64 "-%" PRId64 "-%016" PRIx64 "%s",
             (int)TIME_DIGITS, time_ns > 0 ? time_ns : 0, pyr_os_process(), number, spool->ending);
    make_path(spool->folder, name, path);
    pyr_buffer_init(&content, ENTRY_BYTES);
    pyr_buffer_append(&content, head, head_length);
    status = pyr_buffer_append(&content, body, body_length);
    if (status == PYR_OK) {
        status = pyr_os_file_write(hidden, content.data, content.length);
    }
    pyr_buffer_fini(&content);
    if (status == PYR_OK) {
        status = pyr_os_file_publish(hidden, path);
        if (status != PYR_OK) {
            pyr_os_file_remove(hidden);
        }
    }
    return status;
}

/* Claims the file and reads it. */
static pyr_status take(const pyr_spool *spool, const char *name, pyr_spool_entry *entry)
{
    char path[PATH_BYTES];
    make_path(spool->folder, name, path);
    pyr_buffer_init(&entry->content, ENTRY_BYTES);
    pyr_status status = pyr_os_file_claim(path, &entry->content, &entry->claim);
    if (status != PYR_OK) {
        pyr_buffer_fini(&entry->content);
    }
    return status;
}

/* Looks at the folder anew for a first request; the list then serves for those after it, since
 * thousands may wait. */
pyr_status pyr_spool_next(pyr_spool *spool, pyr_spool_entry *entry)
{
    if (entry->name[0] == '\0') {
        pyr_memory_free(spool->round.files);
        spool->next = 0;
        pyr_status status = make_list(spool, spool->ending, &spool->round);
        if (status != PYR_OK) {
            spool->round = (listing){0};
            return status == PYR_ENOMEM ? status : PYR_ENOENT;
        }
    }
    while (spool->next < spool->round.count) {
        const char *name = spool->round.files[spool->next++].name;
        if (strcmp(name, entry->name) > 0 && take(spool, name, entry) == PYR_OK) {
            snprintf(entry->name, sizeof entry->name, "%s", name);
            return PYR_OK;
        }
    }
    return PYR_ENOENT;
}

void pyr_spool_end(pyr_spool *spool, pyr_spool_entry *entry, int done)
{
    char path[PATH_BYTES];
    if (done) {
        make_path(spool->folder, entry->name, path);
        pyr_os_file_remove(path);
    }
    pyr_os_file_release(entry->claim);
    pyr_buffer_fini(&entry->content);
}

void pyr_spool_forget(pyr_spool *spool, const char *name)
{
    char path[PATH_BYTES];
    make_path(spool->folder, name, path);
    pyr_os_file_remove(path);
}
