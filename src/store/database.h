/* One connection to the store's SQLite file. Private to store/.
 *
 * One thread at a time. A connection that writes makes or migrates the schema; others only read.
 */
#ifndef PYR_STORE_DATABASE_H
#define PYR_STORE_DATABASE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { PYR_STORE_SCHEMA = 3 }; /* of this build; PRAGMA user_version */

/* Opens the file, which a writing connection makes when it is not there. PYR_EVERSION: a newer
 * build made it; PYR_EBAD: it is no store, or damaged; PYR_ENOSPC, PYR_EPERM, PYR_ENOENT, PYR_EIO.
 * `why` has a sentence for a person then. */
PYR_MUST_USE pyr_status pyr_database_open(const char *path, bool writes, sqlite3 **database,
                                          char *why, size_t why_size);

/* Closes; NULL is fine. All statements must be finalised. */
void pyr_database_close(sqlite3 *database);

/* Runs statements without results. */
PYR_MUST_USE pyr_status pyr_database_run(sqlite3 *database, const char *sql);

/* Prepares a statement that is kept. */
PYR_MUST_USE pyr_status pyr_database_prepare(sqlite3 *database, const char *sql,
                                             sqlite3_stmt **statement);

/* Steps: PYR_OK with a row, PYR_ENOENT when there is none (left). */
PYR_MUST_USE pyr_status pyr_database_step(sqlite3_stmt *statement);

/* Steps a statement without results, and resets it. */
PYR_MUST_USE pyr_status pyr_database_finish(sqlite3_stmt *statement);

/* The number that a query gives in its first row and column. */
PYR_MUST_USE pyr_status pyr_database_number(sqlite3 *database, const char *sql, int64_t *number);

/* The closest status of a result code of SQLite. */
pyr_status pyr_database_status(int code);

#endif
