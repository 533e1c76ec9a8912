/* The books that are being written: found by service and day, kept in memory while they are used.
 * Private to store/; the thread that writes. */
#ifndef PYR_STORE_SHELF_H
#define PYR_STORE_SHELF_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "store/book.h"
#include "store/pack.h"

typedef struct pyr_shelf pyr_shelf;

/* Borrows the connection and the packer. NULL: no memory. */
pyr_shelf *pyr_shelf_new(sqlite3 *database, pyr_packer *packer);
void pyr_shelf_free(pyr_shelf *shelf);

/* The book of a service and day (of Unix time) that still takes profiles, made or loaded if need
 * be; `fresh` asks for a new one, because the last was full. Lent until the next call; inside a
 * transaction. */
PYR_MUST_USE pyr_status pyr_shelf_find(pyr_shelf *shelf, const char *service, int64_t day,
                                       bool fresh, pyr_book **book, int64_t *id);

/* A book by its id, whatever its state. */
PYR_MUST_USE pyr_status pyr_shelf_get(pyr_shelf *shelf, int64_t id, pyr_book **book);

/* Writes what is new in all books. Before the transaction ends. */
PYR_MUST_USE pyr_status pyr_shelf_write(pyr_shelf *shelf);

/* After the transaction: the books stay, within the bound of memory; or all go, because it failed
 * and what they have may not be in the file. */
void pyr_shelf_settle(pyr_shelf *shelf, bool good);

/* Makes the many small chunks of a book one. Inside a transaction. */
PYR_MUST_USE pyr_status pyr_shelf_merge_chunks(pyr_shelf *shelf, int64_t id);

/* Adds the chunks of book `id` with numbers above *last to `book`; *last becomes the last one. */
PYR_MUST_USE pyr_status pyr_shelf_load(sqlite3 *database, pyr_packer *packer, int64_t id,
                                       pyr_book *book, int64_t *last);

#endif
