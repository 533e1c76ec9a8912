/* What keeps the store small: retention, merging of chunks, pins, deletion, and the check of
 * everything; sums are made in sum_up.c. See store.h. Every step is one transaction; the caller
 * holds the connection.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "store/block.h"
#include "store/database.h"
#include "store/detail.h"
#include "store/store.h"
#include "store/store_state.h"

enum { CHUNKS = 48, VACUUM_PAGES = 4000, ROUNDS = 100000 };

#define PINNED "(SELECT profile FROM pinned)"

typedef struct removal {
    const int64_t *series; /* NULL = all */
    size_t count;
    int64_t from_ns, until_ns, removed;
} removal;

static pyr_status run_on(pyr_store *store, const char *sql, int64_t series, const removal *r,
                         int64_t *changed)
{
    sqlite3_stmt *statement = NULL;
    pyr_status status = pyr_database_prepare(store->database, sql, &statement);
    if (status == PYR_OK) {
        (void)sqlite3_bind_int64(statement, 1, r->from_ns);
        (void)sqlite3_bind_int64(statement, 2, r->until_ns);
        (void)sqlite3_bind_int64(statement, 3, series);
        status = pyr_database_finish(statement);
    }
    if (status == PYR_OK && changed != NULL) {
        *changed += sqlite3_changes64(store->database);
    }
    (void)sqlite3_finalize(statement);
    return status;
}

/* ------------------------------------------------------------------------------ removing ---- */

/* Profiles that stay beside ones that go are no more in any sum. Their hours are summed anew; those
 * of a day are not: with retention the next of them would go within the hour. */
static pyr_status remove_of(pyr_store *store, removal *r, int64_t series)
{
#define THESE "start_ns>=?1 AND start_ns<?2 AND (?3=0 OR series=?3)"
#define SPANS(NS)                                                                                  \
    "start_ns>=?1/" NS "*" NS " AND start_ns<(?2-1)/" NS "*" NS "+" NS " AND (?3=0 OR series=?3)"
#define HOURS SPANS("3600000000000")
#define DAYS SPANS("86400000000000")
    static const char *const STEPS[] = {
        "DELETE FROM extra WHERE profile IN (SELECT id FROM profile WHERE level=0 AND " THESE
        " AND id NOT IN " PINNED ")",
        "DELETE FROM profile WHERE level=2 AND " DAYS,
        "UPDATE profile SET rolled=2 WHERE level=1 AND rolled=1 AND " DAYS,
        "DELETE FROM profile WHERE level=1 AND " HOURS,
        "UPDATE profile SET rolled=0 WHERE level=0 AND rolled=1 AND " HOURS,
    };
    pyr_status status = PYR_OK;
    for (size_t at = 0; at < sizeof STEPS / sizeof STEPS[0] && status == PYR_OK; at++) {
        status = run_on(store, STEPS[at], series, r, NULL);
    }
    return status == PYR_OK
               ? run_on(store,
                        "DELETE FROM profile WHERE level=0 AND " THESE " AND id NOT IN " PINNED,
                        series, r, &r->removed)
               : status;
}

static pyr_status remove_all(pyr_store *store, void *context)
{
    removal *r = context;
    pyr_status status = r->series == NULL ? remove_of(store, r, 0) : PYR_OK;
    for (size_t at = 0; r->series != NULL && at < r->count && status == PYR_OK; at++) {
        status = remove_of(store, r, r->series[at]);
    }
    if (status == PYR_OK) {
        status = pyr_database_run(store->database,
                                  "DELETE FROM series WHERE NOT EXISTS"
                                  " (SELECT 1 FROM profile WHERE profile.series=series.id);"
                                  "DELETE FROM book WHERE NOT EXISTS"
                                  " (SELECT 1 FROM profile WHERE profile.book=book.id);"
                                  "DELETE FROM chunk WHERE book NOT IN (SELECT id FROM book)");
    }
    return status;
}

static pyr_status remove_range(pyr_store *store, removal *r)
{
    pyr_status status = pyr_store_transact(store, remove_all, r);
    pyr_shelf_settle(store->shelf, false); /* books may be gone; all is written */
    if (status == PYR_OK) {
        pyr_lock_acquire(&store->queue);
        store->figures.removed += (uint64_t)r->removed;
        pyr_lock_release(&store->queue);
    }
    return status;
}

static pyr_status oldest_hour(pyr_store *store, int64_t *hour)
{
    int64_t start = 0;
    pyr_status status =
        pyr_database_number(store->database,
                            "SELECT start_ns FROM profile WHERE level=0 AND id NOT IN " PINNED
                            " ORDER BY start_ns LIMIT 1",
                            &start);
    *hour = start / PYR_HOUR_NS;
    return status;
}

static int64_t used_bytes(pyr_store *store)
{
    int64_t pages = 0;
    int64_t unused = 0;
    int64_t size = 0;
    bool good = pyr_database_number(store->database, "PRAGMA page_count", &pages) == PYR_OK &&
                pyr_database_number(store->database, "PRAGMA freelist_count", &unused) == PYR_OK &&
                pyr_database_number(store->database, "PRAGMA page_size", &size) == PYR_OK;
    return good ? (pages - unused) * size : 0;
}

/* Removes one hour that is too old, or the oldest where the file is too large. */
static pyr_status retire_next(pyr_store *store, int64_t now_ns)
{
    int64_t hour = 0;
    pyr_status status = oldest_hour(store, &hour);
    if (status != PYR_OK) {
        return status;
    }
    removal r = {.from_ns = hour * PYR_HOUR_NS, .until_ns = (hour + 1) * PYR_HOUR_NS};
    const pyr_store_options *options = &store->options;
    bool too_old = options->keep_ns > 0 && r.until_ns <= now_ns - options->keep_ns;
    bool too_large = options->keep_bytes > 0 && used_bytes(store) > options->keep_bytes;
    return too_old || too_large ? remove_range(store, &r) : PYR_ENOENT;
}

/* Makes the chunks of a book of an earlier day one. */
static pyr_status merge_book(pyr_store *store, void *context)
{
    return pyr_shelf_merge_chunks(store->shelf, *(const int64_t *)context);
}

static pyr_status merge_next(pyr_store *store, int64_t now_ns, int least)
{
    char sql[256];
    int64_t book = 0;
    snprintf(sql, sizeof sql,
             "SELECT id FROM book WHERE day<%" PRId64
             " AND (SELECT count(*) FROM chunk WHERE chunk.book=book.id)>%d LIMIT 1",
             now_ns / PYR_DAY_NS, least);
    pyr_status status = pyr_database_number(store->database, sql, &book);
    return status == PYR_OK ? pyr_store_transact(store, merge_book, &book) : status;
}

static pyr_status give_back(pyr_store *store, bool *more)
{
    int64_t unused = 0;
    char sql[64];
    pyr_status status = pyr_database_number(store->database, "PRAGMA freelist_count", &unused);
    if (status == PYR_OK && unused > VACUUM_PAGES) {
        snprintf(sql, sizeof sql, "PRAGMA incremental_vacuum(%d)", VACUUM_PAGES);
        status = pyr_database_run(store->database, sql);
        *more = true;
    }
    return status;
}

pyr_status pyr_store_upkeep_step(pyr_store *store, int64_t now_ns, int64_t settled, bool *more)
{
    pyr_status status = retire_next(store, now_ns);
    *more = status == PYR_OK;
    if (status == PYR_ENOENT) {
        status = pyr_store_sum_up(store, PYR_LEVEL_HOUR, now_ns, settled);
        status =
            status == PYR_ENOENT ? pyr_store_sum_up(store, PYR_LEVEL_DAY, now_ns, settled) : status;
        *more = status == PYR_OK;
        pyr_lock_acquire(&store->queue);
        store->figures.rolled += status == PYR_OK;
        pyr_lock_release(&store->queue);
    }
    if (status == PYR_ENOENT) {
        status = merge_next(store, now_ns, CHUNKS);
        *more = status == PYR_OK;
    }
    return status == PYR_OK || status == PYR_ENOENT ? give_back(store, more) : status;
}

pyr_status pyr_store_upkeep(pyr_store *store, bool compact)
{
    pyr_status status = PYR_OK;
    bool more = true;
    pyr_lock_acquire(&store->connection);
    int64_t now_ns = pyr_clock_realtime_ns();
    for (int round = 0; round < ROUNDS && more && status == PYR_OK; round++) {
        status = pyr_store_upkeep_step(store, now_ns, INT64_MAX, &more);
    }
    for (int round = 0; round < ROUNDS && compact && status == PYR_OK; round++) {
        status = merge_next(store, now_ns, 1);
    }
    status = status == PYR_ENOENT ? PYR_OK : status;
    if (status == PYR_OK && compact) {
        status = pyr_database_run(store->database, "VACUUM;PRAGMA wal_checkpoint(TRUNCATE)");
    }
    pyr_lock_release(&store->connection);
    return status;
}

pyr_status pyr_store_delete(pyr_store *store, const int64_t *series, size_t count, int64_t from_ns,
                            int64_t until_ns, int64_t *removed)
{
    removal r = {.series = series, .count = count, .from_ns = from_ns, .until_ns = until_ns};
    pyr_lock_acquire(&store->connection);
    pyr_status status = remove_range(store, &r);
    pyr_lock_release(&store->connection);
    *removed = r.removed;
    return status;
}

/* ------------------------------------------------------------------------------- pinning ---- */

typedef struct pinning {
    removal range;
    const char *note;
    int64_t pin;
} pinning;

static pyr_status pin(pyr_store *store, void *context)
{
    pinning *p = context;
    sqlite3_stmt *insert = NULL;
    pyr_status status = pyr_database_prepare(
        store->database, "INSERT INTO pin(note, made_ns) VALUES(?1, ?2)", &insert);
    if (status == PYR_OK) {
        (void)sqlite3_bind_text(insert, 1, p->note, -1, SQLITE_STATIC);
        (void)sqlite3_bind_int64(insert, 2, pyr_clock_realtime_ns());
        status = pyr_database_finish(insert);
        p->pin = sqlite3_last_insert_rowid(store->database);
    }
    (void)sqlite3_finalize(insert);
    char sql[256];
    snprintf(sql, sizeof sql,
             "INSERT INTO pinned(profile, pin) SELECT id, %" PRId64
             " FROM profile WHERE level=0 AND start_ns>=?1 AND start_ns<?2 AND series=?3",
             p->pin);
    for (size_t at = 0; at < p->range.count && status == PYR_OK; at++) {
        status = run_on(store, sql, p->range.series[at], &p->range, &p->range.removed);
    }
    return status;
}

pyr_status pyr_store_pin(pyr_store *store, const int64_t *series, size_t count, int64_t from_ns,
                         int64_t until_ns, const char *note, int64_t *made, int64_t *pinned)
{
    pinning p = {
        .range = {.series = series, .count = count, .from_ns = from_ns, .until_ns = until_ns},
        .note = note};
    pyr_lock_acquire(&store->connection);
    pyr_status status = pyr_store_transact(store, pin, &p);
    pyr_lock_release(&store->connection);
    *made = p.pin;
    *pinned = p.range.removed;
    return status;
}

static pyr_status unpin(pyr_store *store, void *context)
{
    char sql[160];
    int64_t known = 0;
    int64_t number = *(const int64_t *)context;
    snprintf(sql, sizeof sql, "SELECT id FROM pin WHERE id=%" PRId64, number);
    pyr_status status = pyr_database_number(store->database, sql, &known);
    snprintf(sql, sizeof sql,
             "DELETE FROM pinned WHERE pin=%" PRId64 ";DELETE FROM pin WHERE id=%" PRId64, number,
             number);
    return status == PYR_OK ? pyr_database_run(store->database, sql) : status;
}

pyr_status pyr_store_unpin(pyr_store *store, int64_t number)
{
    pyr_lock_acquire(&store->connection);
    pyr_status status = pyr_store_transact(store, unpin, &number);
    pyr_lock_release(&store->connection);
    return status;
}

/* ------------------------------------------------------------------------------ checking ---- */

static pyr_status check_profile(pyr_store *store, pyr_block *block, const pyr_book *book,
                                sqlite3_stmt *profile)
{
    pyr_status status = pyr_block_read(block, book, store->packer, sqlite3_column_blob(profile, 2),
                                       (size_t)sqlite3_column_bytes(profile, 2));
    for (size_t type = 0; status == PYR_OK && type < block->type_count; type++) {
        status = pyr_block_values(block, store->packer, type);
        status = status == PYR_ENOENT ? PYR_OK : status;
    }
    if (status == PYR_OK && sqlite3_column_bytes(profile, 3) > 0) {
        pyr_detail detail;
        pyr_detail_init(&detail);
        status =
            pyr_detail_read(&detail, book, block, store->packer, sqlite3_column_blob(profile, 3),
                            (size_t)sqlite3_column_bytes(profile, 3));
        pyr_detail_fini(&detail);
    }
    return status;
}

static pyr_status check_values(pyr_store *store, int64_t *profiles, char *why, size_t why_size)
{
    sqlite3_stmt *all = NULL;
    pyr_block block;
    pyr_block_init(&block);
    *profiles = 0;
    pyr_status status = pyr_database_prepare(
        store->database,
        "SELECT id, book, block, detail, level FROM profile LEFT JOIN extra ON extra.profile=id"
        " ORDER BY book",
        &all);
    while (status == PYR_OK) {
        pyr_book *book = NULL;
        status = pyr_database_step(all);
        if (status != PYR_OK) {
            break;
        }
        status = pyr_shelf_get(store->shelf, sqlite3_column_int64(all, 1), &book);
        if (status == PYR_OK) {
            status = check_profile(store, &block, book, all);
        }
        if (status != PYR_OK) {
            snprintf(why, why_size, "profile %" PRId64 " of book %" PRId64 " is damaged",
                     (int64_t)sqlite3_column_int64(all, 0), (int64_t)sqlite3_column_int64(all, 1));
        }
        *profiles += sqlite3_column_int64(all, 4) == 0;
    }
    (void)sqlite3_finalize(all);
    pyr_block_fini(&block);
    return status == PYR_ENOENT ? PYR_OK : status;
}

pyr_status pyr_store_check(pyr_store *store, int64_t *profiles, char *why, size_t why_size)
{
    sqlite3_stmt *integrity = NULL;
    pyr_lock_acquire(&store->connection);
    snprintf(why, why_size, "the file cannot be read");
    pyr_status status =
        pyr_database_prepare(store->database, "PRAGMA integrity_check(1)", &integrity);
    if (status == PYR_OK) {
        status = pyr_database_step(integrity);
    }
    if (status == PYR_OK) {
        const char *text = (const char *)sqlite3_column_text(integrity, 0);
        if (text == NULL || strcmp(text, "ok") != 0) {
            snprintf(why, why_size, "the file is damaged: %s", text != NULL ? text : "unreadable");
            status = PYR_EBAD;
        }
    }
    (void)sqlite3_finalize(integrity);
    if (status == PYR_OK) {
        status = check_values(store, profiles, why, why_size);
    }
    pyr_lock_release(&store->connection);
    return status;
}
