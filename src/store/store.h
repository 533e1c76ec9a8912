/* The store: profiles on disk, written by one thread, read through views (view.h).
 *
 * A folder with one SQLite file. Uploads are handed over by any thread and written together, as
 * many as wait (group commit); each is told when it is on disk. One process writes at a time: it
 * holds a lock file that its death releases. Nothing here is SQLite's: another engine is another
 * implementation of this header and of view.h.
 */
#ifndef PYR_STORE_STORE_H
#define PYR_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "pprof/profile.h"
#include "store/labels.h"

typedef struct pyr_store pyr_store;

typedef struct pyr_upload pyr_upload;

/* One profile on its way to the disk. Made by the caller, and lent to the store from put until
 * `done`, which may free it. */
struct pyr_upload {
    const pyr_labels *labels; /* has "service" */
    const pyr_profile *profile;
    int64_t start_ns, end_ns; /* Unix time */
    size_t bytes;             /* as it came */
    const void *document;     /* the window's document (JSON), or NULL */
    size_t document_length;
    uint64_t key[2]; /* of what was sent: the same again is the same upload; see pyr_upload_key */
    /* Called once, on the store's thread: PYR_OK: on disk. PYR_EEXIST: it was there before.
     * PYR_ETOOBIG, PYR_EINVAL: this profile cannot be kept. PYR_ENOSPC, PYR_EIO ...: it was not
     * written. Must not wait. */
    void (*done)(pyr_upload *upload, pyr_status status);
    void *context;
    pyr_upload *next; /* private to the store */
};

typedef struct pyr_store_options {
    const char *folder;
    int64_t keep_ns;    /* profiles older than this go; 0 = never */
    int64_t keep_bytes; /* the oldest go while the file is larger; 0 = no limit */
    bool upkeep;        /* make sums of hours and days, and let old profiles go, while it is open */
} pyr_store_options;

typedef struct pyr_store_figures { /* since the store was opened */
    uint64_t accepted, again, refused, failed;
    uint64_t commits, bytes; /* bytes: as they came */
    uint64_t waiting;        /* uploads now */
    uint64_t rolled, removed;
    int64_t file_bytes;
    bool is_broken; /* the last commit failed */
} pyr_store_figures;

/* Opens the store of a folder, which is made. PYR_EBUSY: another process writes it; PYR_EVERSION:
 * made by a newer one; PYR_ENOMEM ...; `why` has a sentence then. */
PYR_MUST_USE pyr_status pyr_store_open(const pyr_store_options *options, pyr_store **store,
                                       char *why, size_t why_size);

/* Writes what waits, and closes. NULL is fine. */
void pyr_store_close(pyr_store *store);

/* Hands an upload over. PYR_EBUSY: too much waits; `done` is not called then. Any thread. */
PYR_MUST_USE pyr_status pyr_store_put(pyr_store *store, pyr_upload *upload);

/* Figures of now. Any thread. */
pyr_store_figures pyr_store_look(pyr_store *store);

/* Sets the key of an upload: of its labels, times and these bytes. Pure. PYR_ENOMEM. */
PYR_MUST_USE pyr_status pyr_upload_key(pyr_upload *upload, const void *bytes, size_t length);

/* Does one round of upkeep now, on a store that no thread upkeeps: old profiles go, hours are
 * summed. Then, if `compact`, chunks are merged and the file is made as small as it gets. */
PYR_MUST_USE pyr_status pyr_store_upkeep(pyr_store *store, bool compact);

/* Pins the profiles of these series in [from, until): retention leaves them. *pinned: how many. */
PYR_MUST_USE pyr_status pyr_store_pin(pyr_store *store, const int64_t *series, size_t count,
                                      int64_t from_ns, int64_t until_ns, const char *note,
                                      int64_t *pin, int64_t *pinned);
PYR_MUST_USE pyr_status pyr_store_unpin(pyr_store *store, int64_t pin);

/* Removes the profiles of these series in [from, until), but pinned ones. *removed: how many. */
PYR_MUST_USE pyr_status pyr_store_delete(pyr_store *store, const int64_t *series, size_t count,
                                         int64_t from_ns, int64_t until_ns, int64_t *removed);

/* Checks the file and every value in it; a problem gives PYR_EBAD and a sentence. */
PYR_MUST_USE pyr_status pyr_store_check(pyr_store *store, int64_t *profiles, char *why,
                                        size_t why_size);

#endif
