/* Opening the store's file, its schema, and SQLite's results as statuses; see the header.
 *
 * Stateless. WAL with synchronous=FULL: a commit that returned is on disk, and a process that dies
 * at any moment leaves a file that opens. Free pages go back to the file system in steps
 * (auto_vacuum = incremental), so that retention gives space back without a rewrite.
 *
 * Three kinds of large values, all made in this folder: chunks of a book (book.c), sums of a
 * profile (block.c), and its single samples (detail.c).
 */
#include "store/database.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUSY_MS = 10000 };
#define APPLICATION_ID "1348031064" /* "PYRX": tells a store from other SQLite files */

static const char SCHEMA[] =
    "CREATE TABLE series(id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, service TEXT NOT NULL,"
    " labels BLOB NOT NULL, first_ns INTEGER NOT NULL, last_ns INTEGER NOT NULL);"
    "CREATE INDEX series_by_service ON series(service, last_ns);"
    "CREATE TABLE book(id INTEGER PRIMARY KEY, service TEXT NOT NULL, day INTEGER NOT NULL,"
    " is_full INTEGER NOT NULL DEFAULT 0);"
    "CREATE INDEX book_by_day ON book(service, day);"
    "CREATE TABLE chunk(book INTEGER NOT NULL, number INTEGER NOT NULL, data BLOB NOT NULL,"
    " PRIMARY KEY(book, number));"
    /* level, rolled: see level.h and PYR_ROLLED_NOT. */
    "CREATE TABLE profile(id INTEGER PRIMARY KEY, series INTEGER NOT NULL, book INTEGER NOT NULL,"
    " level INTEGER NOT NULL, rolled INTEGER NOT NULL, start_ns INTEGER NOT NULL,"
    " end_ns INTEGER NOT NULL, samples INTEGER NOT NULL, bytes INTEGER NOT NULL, key BLOB,"
    " block BLOB NOT NULL);"
    "CREATE UNIQUE INDEX profile_by_key ON profile(key) WHERE key IS NOT NULL;"
    "CREATE INDEX profile_by_time ON profile(series, level, start_ns, rolled, book);"
    "CREATE INDEX profile_by_age ON profile(start_ns);"
    "CREATE INDEX profile_to_roll ON profile(level, start_ns, series, book) WHERE rolled = 0;"
    "CREATE INDEX profile_by_book ON profile(book);"
    "CREATE TABLE extra(profile INTEGER PRIMARY KEY, detail BLOB, document BLOB);"
    "CREATE TABLE pin(id INTEGER PRIMARY KEY, note TEXT NOT NULL, made_ns INTEGER NOT NULL);"
    "CREATE TABLE pinned(profile INTEGER NOT NULL, pin INTEGER NOT NULL,"
    " PRIMARY KEY(profile, pin)) WITHOUT ROWID;"
    "CREATE INDEX pinned_by_pin ON pinned(pin);";

/* MIGRATIONS[n] leads from version n + 1 to n + 2. */
static const char *const MIGRATIONS[PYR_STORE_SCHEMA] = {
    "", /* the same tables: blocks and details may be of a format that version 1 cannot read */
    "DROP INDEX profile_to_roll;" /* sums of days; details that version 2 cannot read */
    "CREATE INDEX profile_to_roll ON profile(level, start_ns, series, book) WHERE rolled = 0;",
};

pyr_status pyr_database_status(int code)
{
    switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return PYR_OK;
    case SQLITE_NOMEM:
        return PYR_ENOMEM;
    case SQLITE_FULL:
        return PYR_ENOSPC;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return PYR_EBUSY;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return PYR_EPERM;
    case SQLITE_CANTOPEN:
        return PYR_ENOENT;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_CONSTRAINT:
        return PYR_EBAD;
    case SQLITE_TOOBIG:
        return PYR_ETOOBIG;
    default:
        return PYR_EIO;
    }
}

pyr_status pyr_database_run(sqlite3 *database, const char *sql)
{
    return pyr_database_status(sqlite3_exec(database, sql, NULL, NULL, NULL));
}

pyr_status pyr_database_prepare(sqlite3 *database, const char *sql, sqlite3_stmt **statement)
{
    return pyr_database_status(
        sqlite3_prepare_v3(database, sql, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL));
}

pyr_status pyr_database_step(sqlite3_stmt *statement)
{
    int code = sqlite3_step(statement);
    return code == SQLITE_DONE ? PYR_ENOENT : pyr_database_status(code);
}

pyr_status pyr_database_finish(sqlite3_stmt *statement)
{
    pyr_status status = pyr_database_status(sqlite3_step(statement));
    (void)sqlite3_reset(statement);
    (void)sqlite3_clear_bindings(statement);
    return status;
}

pyr_status pyr_database_number(sqlite3 *database, const char *sql, int64_t *number)
{
    sqlite3_stmt *statement = NULL;
    pyr_status status = pyr_database_prepare(database, sql, &statement);
    if (status == PYR_OK) {
        status = pyr_database_step(statement);
    }
    if (status == PYR_OK) {
        *number = sqlite3_column_int64(statement, 0);
    }
    (void)sqlite3_finalize(statement);
    return status;
}

void pyr_database_close(sqlite3 *database)
{
    (void)sqlite3_close_v2(database);
}

static pyr_status make_schema(sqlite3 *database)
{
    char version[64];
    snprintf(version, sizeof version, "PRAGMA user_version=%d", PYR_STORE_SCHEMA);
    pyr_status status = pyr_database_run(database, "BEGIN IMMEDIATE");
    if (status == PYR_OK) {
        status = pyr_database_run(database, SCHEMA);
    }
    if (status == PYR_OK) {
        status = pyr_database_run(database, "PRAGMA application_id=" APPLICATION_ID);
    }
    if (status == PYR_OK) {
        status = pyr_database_run(database, version);
    }
    if (status == PYR_OK) {
        status = pyr_database_run(database, "COMMIT");
    }
    if (status != PYR_OK) {
        (void)sqlite3_exec(database, "ROLLBACK", NULL, NULL, NULL);
    }
    return status;
}

static pyr_status migrate(sqlite3 *database, int64_t version)
{
    pyr_status status = PYR_OK;
    for (; status == PYR_OK && version < PYR_STORE_SCHEMA; version++) {
        char step[64];
        snprintf(step, sizeof step, "PRAGMA user_version=%" PRId64, version + 1);
        status = pyr_database_run(database, "BEGIN IMMEDIATE");
        if (status == PYR_OK) {
            status = pyr_database_run(database, MIGRATIONS[version - 1]);
        }
        if (status == PYR_OK) {
            status = pyr_database_run(database, step);
        }
        if (status == PYR_OK) {
            status = pyr_database_run(database, "COMMIT");
        }
        if (status != PYR_OK) {
            (void)sqlite3_exec(database, "ROLLBACK", NULL, NULL, NULL);
        }
    }
    return status;
}

/* Looks without changing a byte: a file of a newer version, or of somebody else, stays as it is.
 * PYR_ENOENT: it is empty. */
static pyr_status check_schema(sqlite3 *database, const char *path, int64_t *version, char *why,
                               size_t why_size)
{
    int64_t application = 0;
    int64_t tables = 0;
    pyr_status status = pyr_database_number(database, "PRAGMA user_version", version);
    if (status == PYR_OK) {
        status = pyr_database_number(database, "PRAGMA application_id", &application);
    }
    if (status == PYR_OK) {
        status = pyr_database_number(database, "SELECT count(*) FROM sqlite_master", &tables);
    }
    if (status != PYR_OK) {
        snprintf(why, why_size, "%s cannot be opened: %s", path, sqlite3_errmsg(database));
        return status == PYR_ENOENT ? PYR_EIO : status;
    }
    if (tables == 0 && *version == 0) {
        snprintf(why, why_size, "%s is empty", path);
        return PYR_ENOENT;
    }
    if (application != strtoll(APPLICATION_ID, NULL, 10) || *version < 1) {
        snprintf(why, why_size, "%s is an SQLite file, but no store of Pyrometer", path);
        return PYR_EBAD;
    }
    if (*version > PYR_STORE_SCHEMA) {
        snprintf(why, why_size,
                 "%s was made by a newer Pyrometer (schema %" PRId64 ", this one knows up to %d): "
                 "use that one, or another folder",
                 path, *version, PYR_STORE_SCHEMA);
        return PYR_EVERSION;
    }
    return PYR_OK;
}

static pyr_status prepare_to_write(sqlite3 *database, const char *path, bool is_empty,
                                   int64_t version, char *why, size_t why_size)
{
    /* Both have an effect before the first table is made only. Smaller pages, because a value's
     * last bytes leave half of a page unused, twice a profile: docs/design/0010 has the figures. */
    pyr_status status =
        is_empty
            ? pyr_database_run(database, "PRAGMA page_size=2048;PRAGMA auto_vacuum=INCREMENTAL")
            : PYR_OK;
    if (status == PYR_OK) {
        status = pyr_database_run(database, "PRAGMA journal_mode=WAL;PRAGMA synchronous=FULL;"
                                            "PRAGMA cache_size=-16384;PRAGMA temp_store=MEMORY;"
                                            "PRAGMA wal_autocheckpoint=4000;"
                                            "PRAGMA journal_size_limit=16777216");
    }
    if (status == PYR_OK) {
        status = is_empty ? make_schema(database) : migrate(database, version);
    }
    if (status != PYR_OK) {
        snprintf(why, why_size, "%s cannot be written: %s", path, sqlite3_errmsg(database));
    }
    return status;
}

pyr_status pyr_database_open(const char *path, bool writes, sqlite3 **database, char *why,
                             size_t why_size)
{
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;
    flags |= writes ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    int64_t version = 0;
    *database = NULL;
    sqlite3 *opened = NULL;
    pyr_status status = pyr_database_status(sqlite3_open_v2(path, &opened, flags, NULL));
    if (status != PYR_OK) {
        snprintf(why, why_size, "%s cannot be opened: %s", path,
                 opened != NULL ? sqlite3_errmsg(opened) : pyr_status_text(status));
        pyr_database_close(opened);
        return status;
    }
    (void)sqlite3_busy_timeout(opened, BUSY_MS);
    (void)sqlite3_extended_result_codes(opened, 1);
    status = check_schema(opened, path, &version, why, why_size);
    if (writes && sqlite3_db_readonly(opened, "main") == 1) {
        snprintf(why, why_size, "%s cannot be written: it is read-only", path);
        status = PYR_EPERM;
    } else if (writes && (status == PYR_OK || status == PYR_ENOENT)) {
        status = prepare_to_write(opened, path, status == PYR_ENOENT, version, why, why_size);
    } else if (status == PYR_OK) {
        status = pyr_database_run(opened, "PRAGMA query_only=1;PRAGMA cache_size=-8192;"
                                          "PRAGMA temp_store=MEMORY;PRAGMA trusted_schema=0");
    }
    if (status != PYR_OK) {
        pyr_database_close(opened);
        return status;
    }
    *database = opened;
    return PYR_OK;
}
