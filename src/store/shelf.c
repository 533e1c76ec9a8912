/* Books in memory while they are written; see the header.
 *
 * Owns a bounded list of books, least recently used ones go first. A book whose transaction failed
 * must not be written to again from memory: its numbers may not be in the file.
 */
#include "store/shelf.h"

#include <string.h>

#include "base/memory.h"
#include "store/database.h"

enum { BOOKS = 64, MEMORY = 48 << 20, NAME_BYTES = 1100 };

typedef struct held {
    pyr_book *book; /* NULL = free */
    int64_t id, day;
    char service[NAME_BYTES];
    bool is_open; /* takes profiles */
    int64_t last; /* number of its last chunk */
    pyr_book_counts written;
    uint64_t used;
} held;

struct pyr_shelf {
    sqlite3 *database;
    pyr_packer *packer;
    held places[BOOKS];
    uint64_t clock;
};

pyr_shelf *pyr_shelf_new(sqlite3 *database, pyr_packer *packer)
{
    pyr_shelf *shelf = pyr_memory_new(1, sizeof *shelf);
    if (shelf != NULL) {
        shelf->database = database;
        shelf->packer = packer;
    }
    return shelf;
}

static void clear(held *place)
{
    pyr_book_free(place->book);
    place->book = NULL;
}

void pyr_shelf_free(pyr_shelf *shelf)
{
    if (shelf != NULL) {
        pyr_shelf_settle(shelf, false);
        pyr_memory_free(shelf);
    }
}

static bool has_news(const held *place)
{
    pyr_book_counts now = pyr_book_count(place->book);
    return memcmp(&now, &place->written, sizeof now) != 0;
}

static held *oldest(pyr_shelf *shelf)
{
    held *found = NULL;
    for (size_t at = 0; at < BOOKS; at++) {
        held *place = &shelf->places[at];
        if (place->book != NULL && !has_news(place) &&
            (found == NULL || place->used < found->used)) {
            found = place;
        }
    }
    return found;
}

void pyr_shelf_settle(pyr_shelf *shelf, bool good)
{
    size_t bytes = 0;
    size_t count = 0;
    for (size_t at = 0; at < BOOKS; at++) {
        held *place = &shelf->places[at];
        if (place->book != NULL && !good) {
            clear(place);
        } else if (place->book != NULL) {
            bytes += pyr_book_bytes(place->book);
            count++;
        }
    }
    for (; count > 1 && bytes > MEMORY; count--) {
        held *place = oldest(shelf);
        if (place == NULL) {
            return;
        }
        bytes -= pyr_book_bytes(place->book);
        clear(place);
    }
}

static held *free_place(pyr_shelf *shelf)
{
    for (size_t at = 0; at < BOOKS; at++) {
        if (shelf->places[at].book == NULL) {
            return &shelf->places[at];
        }
    }
    held *place = oldest(shelf);
    if (place == NULL) { /* all have news: write them first */
        if (pyr_shelf_write(shelf) != PYR_OK) {
            return NULL;
        }
        place = oldest(shelf);
    }
    clear(place);
    return place;
}

pyr_status pyr_shelf_load(sqlite3 *database, pyr_packer *packer, int64_t id, pyr_book *book,
                          int64_t *last)
{
    sqlite3_stmt *chunks = NULL;
    pyr_status status = pyr_database_prepare(
        database, "SELECT number, data FROM chunk WHERE book=?1 AND number>?2 ORDER BY number",
        &chunks);
    if (status == PYR_OK) {
        (void)sqlite3_bind_int64(chunks, 1, id);
        (void)sqlite3_bind_int64(chunks, 2, *last);
    }
    while (status == PYR_OK) {
        status = pyr_database_step(chunks);
        if (status == PYR_OK) {
            status = pyr_book_read(book, packer, sqlite3_column_blob(chunks, 1),
                                   (size_t)sqlite3_column_bytes(chunks, 1));
            *last = sqlite3_column_int64(chunks, 0);
        }
    }
    (void)sqlite3_finalize(chunks);
    return status == PYR_ENOENT ? PYR_OK : status;
}

static pyr_status load(pyr_shelf *shelf, int64_t id, const char *service, int64_t day, bool is_open,
                       held **result)
{
    held *place = free_place(shelf);
    if (place == NULL) {
        return PYR_EIO;
    }
    place->book = pyr_book_new(true);
    if (place->book == NULL) {
        return PYR_ENOMEM;
    }
    place->id = id;
    place->day = day;
    place->is_open = is_open;
    place->last = 0;
    place->used = ++shelf->clock;
    memcpy(place->service, service, strlen(service) + 1);
    pyr_status status =
        pyr_shelf_load(shelf->database, shelf->packer, id, place->book, &place->last);
    if (status != PYR_OK) {
        clear(place);
        return status;
    }
    place->written = pyr_book_count(place->book);
    *result = place;
    return PYR_OK;
}

static pyr_status make(pyr_shelf *shelf, const char *service, int64_t day, int64_t *id)
{
    sqlite3_stmt *insert = NULL;
    pyr_status status = pyr_database_prepare(
        shelf->database, "INSERT INTO book(service, day) VALUES(?1, ?2)", &insert);
    if (status == PYR_OK) {
        (void)sqlite3_bind_text(insert, 1, service, -1, SQLITE_STATIC);
        (void)sqlite3_bind_int64(insert, 2, day);
        status = pyr_database_finish(insert);
        *id = sqlite3_last_insert_rowid(shelf->database);
    }
    (void)sqlite3_finalize(insert);
    return status;
}

static pyr_status find_open(pyr_shelf *shelf, const char *service, int64_t day, int64_t *id)
{
    sqlite3_stmt *select = NULL;
    pyr_status status = pyr_database_prepare(
        shelf->database,
        "SELECT id FROM book WHERE service=?1 AND day=?2 AND is_full=0 ORDER BY id DESC LIMIT 1",
        &select);
    if (status == PYR_OK) {
        (void)sqlite3_bind_text(select, 1, service, -1, SQLITE_STATIC);
        (void)sqlite3_bind_int64(select, 2, day);
        status = pyr_database_step(select);
        *id = status == PYR_OK ? sqlite3_column_int64(select, 0) : 0;
    }
    (void)sqlite3_finalize(select);
    return status;
}

static pyr_status close_book(pyr_shelf *shelf, held *place)
{
    sqlite3_stmt *update = NULL;
    pyr_status status =
        pyr_database_prepare(shelf->database, "UPDATE book SET is_full=1 WHERE id=?1", &update);
    if (status == PYR_OK) {
        (void)sqlite3_bind_int64(update, 1, place->id);
        status = pyr_database_finish(update);
    }
    (void)sqlite3_finalize(update);
    place->is_open = false;
    return status;
}

pyr_status pyr_shelf_find(pyr_shelf *shelf, const char *service, int64_t day, bool fresh,
                          pyr_book **book, int64_t *id)
{
    held *found = NULL;
    for (size_t at = 0; at < BOOKS && found == NULL; at++) {
        held *place = &shelf->places[at];
        if (place->book != NULL && place->is_open && place->day == day &&
            strcmp(place->service, service) == 0) {
            found = place;
        }
    }
    pyr_status status = PYR_OK;
    if (found != NULL && fresh) {
        status = close_book(shelf, found);
        found = NULL;
    }
    int64_t number = 0;
    if (status == PYR_OK && found == NULL) {
        status = fresh ? PYR_ENOENT : find_open(shelf, service, day, &number);
        if (status == PYR_ENOENT) {
            status = make(shelf, service, day, &number);
        }
        if (status == PYR_OK) {
            status = load(shelf, number, service, day, true, &found);
        }
    }
    if (status == PYR_OK) {
        found->used = ++shelf->clock;
        *book = found->book;
        *id = found->id;
    }
    return status;
}

static pyr_status get(pyr_shelf *shelf, int64_t id, held **result)
{
    for (size_t at = 0; at < BOOKS; at++) {
        held *place = &shelf->places[at];
        if (place->book != NULL && place->id == id) {
            place->used = ++shelf->clock;
            *result = place;
            return PYR_OK;
        }
    }
    return load(shelf, id, "", INT64_MIN, false, result);
}

pyr_status pyr_shelf_get(pyr_shelf *shelf, int64_t id, pyr_book **book)
{
    held *place = NULL;
    pyr_status status = get(shelf, id, &place);
    *book = status == PYR_OK ? place->book : NULL;
    return status;
}

static pyr_status write_chunk(pyr_shelf *shelf, const held *place, pyr_book_counts from,
                              int64_t number)
{
    sqlite3_stmt *insert = NULL;
    pyr_buffer chunk;
    pyr_buffer_init(&chunk, PYR_PACK_SECTION_BYTES);
    pyr_status status = pyr_book_write(place->book, from, shelf->packer, &chunk);
    if (status == PYR_OK) {
        status = pyr_database_prepare(
            shelf->database, "INSERT INTO chunk(book, number, data) VALUES(?1, ?2, ?3)", &insert);
    }
    if (status == PYR_OK) {
        (void)sqlite3_bind_int64(insert, 1, place->id);
        (void)sqlite3_bind_int64(insert, 2, number);
        (void)sqlite3_bind_blob64(insert, 3, chunk.data, chunk.length, SQLITE_STATIC);
        status = pyr_database_finish(insert);
    }
    (void)sqlite3_finalize(insert);
    pyr_buffer_fini(&chunk);
    return status;
}

pyr_status pyr_shelf_write(pyr_shelf *shelf)
{
    pyr_status status = PYR_OK;
    for (size_t at = 0; at < BOOKS && status == PYR_OK; at++) {
        held *place = &shelf->places[at];
        if (place->book == NULL || !has_news(place)) {
            continue;
        }
        status = write_chunk(shelf, place, place->written, place->last + 1);
        if (status == PYR_OK) {
            place->last++;
            place->written = pyr_book_count(place->book);
        }
    }
    return status;
}

pyr_status pyr_shelf_merge_chunks(pyr_shelf *shelf, int64_t id)
{
    held *place = NULL;
    sqlite3_stmt *delete = NULL;
    pyr_status status = get(shelf, id, &place);
    if (status == PYR_OK) {
        status = pyr_database_prepare(shelf->database, "DELETE FROM chunk WHERE book=?1", &delete);
    }
    if (status == PYR_OK) {
        (void)sqlite3_bind_int64(delete, 1, id);
        status = pyr_database_finish(delete);
    }
    (void)sqlite3_finalize(delete);
    pyr_book *empty = status == PYR_OK ? pyr_book_new(false) : NULL;
    if (status == PYR_OK) {
        status = empty != NULL ? write_chunk(shelf, place, pyr_book_count(empty), place->last + 1)
                               : PYR_ENOMEM;
    }
    pyr_book_free(empty);
    if (status == PYR_OK) {
        place->last++;
        place->written = pyr_book_count(place->book);
    }
    return status;
}
