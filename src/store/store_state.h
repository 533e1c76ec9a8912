/* What the parts of the store share. Private to store/. */
#ifndef PYR_STORE_STORE_STATE_H
#define PYR_STORE_STORE_STATE_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/lock.h"
#include "store/calm.h"
#include "store/level.h"
#include "store/pack.h"
#include "store/shelf.h"
#include "store/store.h"

enum { /* profile.rolled */
       PYR_ROLLED_NOT = 0,
       PYR_ROLLED_IN_SUM = 1, /* of the level above */
       PYR_ROLLED_NEVER = 2,  /* alone in its span, or not to be summed: read as it is */
};

struct pyr_store {
    pyr_store_options options;
    int claim;
    sqlite3 *database; /* guarded by `connection`, as are packer, shelf and statements */
    pyr_packer *packer;
    pyr_shelf *shelf;
    sqlite3_stmt *find_key, *find_series, *add_series, *touch_series, *add_profile, *add_extra;
    pyr_lock connection;
    pyr_lock queue;
    pthread_cond_t arrived;    /* of `queue` */
    pyr_upload *first, **last; /* guarded by `queue`, as is what follows */
    size_t waiting, waiting_bytes;
    bool stops;
    pyr_store_figures figures;
    pyr_calm calm;        /* of the thread */
    int64_t last_at_open; /* profile */
    bool has_thread;
    pthread_t thread;
};

/* Runs `step` in a transaction of the connection, which the caller holds; rolled back when it
 * fails. */
PYR_MUST_USE pyr_status pyr_store_transact(pyr_store *store,
                                           pyr_status (*step)(pyr_store *store, void *context),
                                           void *context);

/* Makes one sum of a series, in one transaction: an hour's an hour after its end or later, a day's
 * an hour after that. `settled`: see below. PYR_ENOENT: there is none to make. */
PYR_MUST_USE pyr_status pyr_store_sum_up(pyr_store *store, pyr_level level, int64_t now_ns,
                                         int64_t settled);

/* One bounded step of upkeep; *more: another one would find work. Profiles above `settled` are not
 * summed yet: where old ones are sent one after the other, a sum is made of many. The caller holds
 * the connection. */
PYR_MUST_USE pyr_status pyr_store_upkeep_step(pyr_store *store, int64_t now_ns, int64_t settled,
                                              bool *more);

#endif
