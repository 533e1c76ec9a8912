/* Reading; see the header.
 *
 * Owns a read-only connection and a few books. A book that still grows is brought up to date when
 * it is used again, by the chunks that it has not read yet. A scan first lists profiles by an index
 * (twenty bytes each), then reads them in the order in which they lie in the file, book by book, so
 * that one book is in memory at a time however long the range.
 */
#include "store/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/map.h"
#include "base/memory.h"
#include "store/database.h"
#include "store/shelf.h"
#include "store/store_state.h"

enum { BOOKS = 8, BOOK_MEMORY = 24 << 20, ENTRIES_BYTES = 1 << 28 };

typedef struct held {
    pyr_book *book;
    int64_t id, last; /* number of the last chunk that was read */
    uint64_t used, checked;
} held;

struct pyr_view {
    sqlite3 *database;
    pyr_packer *packer;
    sqlite3_stmt *list, *get, *head, *extra;
    pyr_block block;
    held places[BOOKS];
    uint64_t clock, moment; /* moment: counts begins, so that a book is brought up to date once */
};

typedef struct listed { /* of the list of a scan */
    int64_t book, profile;
} listed;

void pyr_view_close(pyr_view *view)
{
    if (view != NULL) {
        for (size_t at = 0; at < BOOKS; at++) {
            pyr_book_free(view->places[at].book);
        }
        (void)sqlite3_finalize(view->list);
        (void)sqlite3_finalize(view->get);
        (void)sqlite3_finalize(view->head);
        (void)sqlite3_finalize(view->extra);
        pyr_block_fini(&view->block);
        pyr_packer_free(view->packer);
        pyr_database_close(view->database);
        pyr_memory_free(view);
    }
}

static pyr_status prepare(pyr_view *view)
{
    pyr_status status = pyr_database_prepare(
        view->database,
        "SELECT book, id FROM profile WHERE series=?1 AND level=?2 AND start_ns>=?3"
        " AND start_ns<?4 AND (?5=0 OR rolled<>1)",
        &view->list);
    if (status == PYR_OK) {
        status = pyr_database_prepare(view->database,
                                      "SELECT series, start_ns, end_ns, level, samples, bytes,"
                                      " book, block FROM profile WHERE id=?1",
                                      &view->get);
    }
    if (status == PYR_OK) {
        status = pyr_database_prepare(
            view->database, "SELECT substr(block, 1, 16) FROM profile WHERE id=?1", &view->head);
    }
    if (status == PYR_OK) {
        status = pyr_database_prepare(
            view->database, "SELECT detail, document FROM extra WHERE profile=?1", &view->extra);
    }
    return status;
}

pyr_status pyr_view_open(const char *folder, pyr_view **result, char *why, size_t why_size)
{
    char path[PYR_LIMIT_PATH_BYTES];
    *result = NULL;
    snprintf(path, sizeof path, "%s/pyrometer.db", folder);
    pyr_view *view = pyr_memory_new(1, sizeof *view);
    if (view == NULL) {
        snprintf(why, why_size, "out of memory");
        return PYR_ENOMEM;
    }
    pyr_block_init(&view->block);
    view->packer = pyr_packer_new();
    pyr_status status = view->packer != NULL
                            ? pyr_database_open(path, false, &view->database, why, why_size)
                            : PYR_ENOMEM;
    if (status == PYR_OK) {
        status = prepare(view);
        if (status != PYR_OK) {
            snprintf(why, why_size, "%s cannot be read: %s", path, sqlite3_errmsg(view->database));
        }
    }
    if (status != PYR_OK) {
        pyr_view_close(view);
        return status;
    }
    *result = view;
    return PYR_OK;
}

pyr_status pyr_view_begin(pyr_view *view)
{
    view->moment++;
    return pyr_database_run(view->database, "BEGIN");
}

void pyr_view_end(pyr_view *view)
{
    (void)sqlite3_reset(view->list);
    (void)sqlite3_reset(view->get);
    (void)sqlite3_reset(view->head);
    (void)sqlite3_reset(view->extra);
    if (!sqlite3_get_autocommit(view->database)) {
        (void)sqlite3_exec(view->database, "ROLLBACK", NULL, NULL, NULL);
    }
}

pyr_status pyr_view_each_series(pyr_view *view, const char *service, int64_t from_ns,
                                int64_t until_ns,
                                pyr_status (*visit)(void *context, const pyr_view_series *series),
                                void *context)
{
    sqlite3_stmt *select = NULL;
    pyr_status status = pyr_database_prepare(
        view->database,
        "SELECT id, service, labels, first_ns, last_ns FROM series WHERE last_ns>=?1 AND"
        " first_ns<?2 AND (?3 IS NULL OR service=?3) ORDER BY id",
        &select);
    if (status == PYR_OK) {
        (void)sqlite3_bind_int64(select, 1, from_ns);
        (void)sqlite3_bind_int64(select, 2, until_ns);
        if (service != NULL) {
            (void)sqlite3_bind_text(select, 3, service, -1, SQLITE_STATIC);
        }
    }
    while (status == PYR_OK) {
        status = pyr_database_step(select);
        if (status != PYR_OK) {
            break;
        }
        const pyr_view_series series = {
            .id = sqlite3_column_int64(select, 0),
            .service = (const char *)sqlite3_column_text(select, 1),
            .labels = sqlite3_column_blob(select, 2),
            .labels_length = (size_t)sqlite3_column_bytes(select, 2),
            .first_ns = sqlite3_column_int64(select, 3),
            .last_ns = sqlite3_column_int64(select, 4),
        };
        status = visit(context, &series);
    }
    (void)sqlite3_finalize(select);
    return status == PYR_ENOENT ? PYR_OK : status;
}

/* --------------------------------------------------------------------------------- books ---- */

static void make_room(pyr_view *view)
{
    for (;;) {
        size_t bytes = 0;
        size_t count = 0;
        held *oldest = NULL;
        for (size_t at = 0; at < BOOKS; at++) {
            held *place = &view->places[at];
            if (place->book != NULL) {
                bytes += pyr_book_bytes(place->book);
                count++;
                oldest = oldest == NULL || place->used < oldest->used ? place : oldest;
            }
        }
        if (oldest == NULL || (count < BOOKS && bytes <= BOOK_MEMORY)) {
            return;
        }
        pyr_book_free(oldest->book);
        *oldest = (held){0};
    }
}

static held *find_place(pyr_view *view, int64_t id)
{
    held *unused = NULL;
    for (size_t at = 0; at < BOOKS; at++) {
        if (view->places[at].book != NULL && view->places[at].id == id) {
            return &view->places[at];
        }
        unused = view->places[at].book == NULL ? &view->places[at] : unused;
    }
    if (unused == NULL) {
        make_room(view);
        return find_place(view, id);
    }
    return unused;
}

static pyr_status read_book(pyr_view *view, held *place, int64_t id)
{
    if (place->book == NULL) {
        make_room(view);
        place->book = pyr_book_new(false);
        place->id = id;
        place->last = 0;
        place->checked = 0;
        if (place->book == NULL) {
            return PYR_ENOMEM;
        }
    }
    if (place->checked == view->moment) {
        return PYR_OK;
    }
    place->checked = view->moment;
    return pyr_shelf_load(view->database, view->packer, id, place->book, &place->last);
}

static pyr_status find_book(pyr_view *view, int64_t id, const pyr_book **book)
{
    held *place = find_place(view, id);
    bool is_cached = place->book != NULL;
    pyr_status status = read_book(view, place, id);
    /* Its chunks may have been merged into one since: read it anew. */
    for (int round = 0; round < 2 && status != PYR_OK; round++) {
        pyr_book_free(place->book);
        place->book = NULL;
        if (status == PYR_EBAD && is_cached && round == 0) {
            status = read_book(view, place, id);
        }
    }
    place->used = ++view->clock;
    *book = place->book;
    return status;
}

/* --------------------------------------------------------------------------------- scans ---- */

static pyr_status list(pyr_view *view, int64_t series, pyr_level level, int64_t from_ns,
                       int64_t until_ns, bool in_no_sum, pyr_buffer *entries)
{
    if (from_ns >= until_ns) {
        return PYR_OK;
    }
    (void)sqlite3_bind_int64(view->list, 1, series);
    (void)sqlite3_bind_int(view->list, 2, (int)level);
    (void)sqlite3_bind_int64(view->list, 3, from_ns);
    (void)sqlite3_bind_int64(view->list, 4, until_ns);
    (void)sqlite3_bind_int(view->list, 5, in_no_sum);
    pyr_status status = PYR_OK;
    while (status == PYR_OK) {
        status = pyr_database_step(view->list);
        if (status == PYR_OK) {
            const listed entry = {sqlite3_column_int64(view->list, 0),
                                  sqlite3_column_int64(view->list, 1)};
            status = pyr_buffer_append(entries, &entry, sizeof entry);
        }
    }
    (void)sqlite3_reset(view->list);
    return status == PYR_ENOENT ? PYR_OK : status;
}

static int64_t floor_span(int64_t time_ns, int64_t span_ns)
{
    int64_t rest = time_ns % span_ns;
    return time_ns - (rest < 0 ? rest + span_ns : rest);
}

/* Sums of whole spans, what is in no sum of these, and by lower levels what is before and after. */
static pyr_status list_series(pyr_view *view, int64_t series, int64_t from_ns, int64_t until_ns,
                              pyr_level coarsest, pyr_buffer *entries)
{
    int64_t span_ns = pyr_level_ns(coarsest);
    if (coarsest == PYR_LEVEL_PROFILE) {
        return list(view, series, coarsest, from_ns, until_ns, false, entries);
    }
    if (from_ns >= until_ns || (uint64_t)until_ns - (uint64_t)from_ns < (uint64_t)span_ns) {
        return list_series(view, series, from_ns, until_ns, coarsest - 1, entries);
    }
    int64_t first_ns = floor_span(from_ns, span_ns);
    first_ns += first_ns < from_ns ? span_ns : 0;
    int64_t end_ns = floor_span(until_ns, span_ns);
    pyr_status status = list_series(view, series, from_ns, first_ns, coarsest - 1, entries);
    for (pyr_level level = PYR_LEVEL_PROFILE; level <= coarsest && status == PYR_OK; level++) {
        status = list(view, series, level, first_ns, end_ns, level < coarsest, entries);
    }
    return status == PYR_OK ? list_series(view, series, end_ns, until_ns, coarsest - 1, entries)
                            : status;
}

static int compare_entries(const void *a, const void *b)
{
    const listed *left = a;
    const listed *right = b;
    return left->book != right->book
               ? (left->book < right->book ? -1 : 1)
               : (left->profile > right->profile) - (left->profile < right->profile);
}

static pyr_status visit_profile(pyr_view *view, int64_t profile, bool for_totals,
                                pyr_view_visit visit, void *context)
{
    sqlite3_stmt *get = view->get;
    (void)sqlite3_bind_int64(get, 1, profile);
    pyr_status status = pyr_database_step(get);
    if (status == PYR_OK) {
        pyr_view_row row = {
            .profile = profile,
            .series = sqlite3_column_int64(get, 0),
            .start_ns = sqlite3_column_int64(get, 1),
            .end_ns = sqlite3_column_int64(get, 2),
            .level = (pyr_level)sqlite3_column_int64(get, 3),
            .samples = (size_t)sqlite3_column_int64(get, 4),
            .bytes = sqlite3_column_int64(get, 5),
            .book_id = sqlite3_column_int64(get, 6),
            .block = &view->block,
            .packer = view->packer,
        };
        status = find_book(view, row.book_id, &row.book);
        if (status == PYR_OK) {
            const void *bytes = sqlite3_column_blob(get, 7);
            size_t length = (size_t)sqlite3_column_bytes(get, 7);
            status = for_totals
                         ? pyr_block_open(&view->block, row.book, bytes, length)
                         : pyr_block_read(&view->block, row.book, view->packer, bytes, length);
        }
        if (status == PYR_OK) {
            status = visit(context, &row);
        }
    }
    (void)sqlite3_reset(get);
    return status;
}

/* The profiles of a scan, book by book. Entries: fini either way. */
static pyr_status list_all(pyr_view *view, const int64_t *series, size_t count, int64_t from_ns,
                           int64_t until_ns, pyr_level coarsest, pyr_buffer *entries)
{
    pyr_status status = PYR_OK;
    pyr_buffer_init(entries, ENTRIES_BYTES);
    for (size_t at = 0; at < count && status == PYR_OK; at++) {
        status = list_series(view, series[at], from_ns, until_ns, coarsest, entries);
    }
    if (status == PYR_OK && entries->length > sizeof(listed)) {
        qsort(entries->data, entries->length / sizeof(listed), sizeof(listed), compare_entries);
    }
    return status;
}

static pyr_status scan(pyr_view *view, const int64_t *series, size_t count, int64_t from_ns,
                       int64_t until_ns, pyr_level coarsest, bool for_totals, pyr_view_visit visit,
                       void *context, size_t *damaged)
{
    pyr_buffer entries;
    pyr_status status = list_all(view, series, count, from_ns, until_ns, coarsest, &entries);
    const listed *all = (const listed *)(const void *)entries.data;
    *damaged = 0;
    for (size_t at = 0; at < entries.length / sizeof *all && status == PYR_OK; at++) {
        status = visit_profile(view, all[at].profile, for_totals, visit, context);
        if (status == PYR_EBAD) {
            (*damaged)++;
            status = PYR_OK;
        }
    }
    pyr_buffer_fini(&entries);
    return status;
}

pyr_status pyr_view_scan(pyr_view *view, const int64_t *series, size_t count, int64_t from_ns,
                         int64_t until_ns, pyr_level coarsest, pyr_view_visit visit, void *context,
                         size_t *damaged)
{
    return scan(view, series, count, from_ns, until_ns, coarsest, false, visit, context, damaged);
}

pyr_status pyr_view_scan_totals(pyr_view *view, const int64_t *series, size_t count,
                                int64_t from_ns, int64_t until_ns, pyr_level coarsest,
                                pyr_view_visit visit, void *context, size_t *damaged)
{
    return scan(view, series, count, from_ns, until_ns, coarsest, true, visit, context, damaged);
}

static pyr_status read_types(pyr_view *view, int64_t profile, uint32_t *types)
{
    (void)sqlite3_bind_int64(view->head, 1, profile);
    pyr_status status = pyr_database_step(view->head);
    if (status == PYR_OK) {
        status = pyr_block_types(sqlite3_column_blob(view->head, 0),
                                 (size_t)sqlite3_column_bytes(view->head, 0), types);
    }
    (void)sqlite3_reset(view->head);
    return status;
}

pyr_status pyr_view_each_types(
    pyr_view *view, const int64_t *series, size_t count, int64_t from_ns, int64_t until_ns,
    pyr_status (*visit)(void *context, const pyr_book *book, uint32_t types), void *context)
{
    pyr_buffer entries;
    pyr_status status = list_all(view, series, count, from_ns, until_ns, PYR_LEVEL_DAY, &entries);
    const listed *all = (const listed *)(const void *)entries.data;
    pyr_map *seen = pyr_map_new(PYR_BOOK_LISTS); /* of one book */
    status = seen != NULL ? status : PYR_ENOMEM;
    for (size_t at = 0; at < entries.length / sizeof *all && status == PYR_OK; at++) {
        uint32_t types = 0;
        uint64_t known = 0;
        if (at > 0 && all[at].book != all[at - 1].book) {
            pyr_map_clear(seen);
        }
        status = read_types(view, all[at].profile, &types);
        if (status == PYR_OK && !pyr_map_get(seen, types, &known)) {
            const pyr_book *book = NULL;
            status = find_book(view, all[at].book, &book);
            if (status == PYR_OK) {
                status =
                    types < pyr_book_count(book).lists ? visit(context, book, types) : PYR_EBAD;
            }
            if (status == PYR_OK) {
                status = pyr_map_put(seen, types, 1);
            }
        }
        status = status == PYR_EBAD ? PYR_OK : status; /* a scan counts it */
    }
    pyr_map_free(seen);
    pyr_buffer_fini(&entries);
    return status;
}

pyr_status pyr_view_profile(pyr_view *view, int64_t profile, pyr_view_visit visit, void *context)
{
    return visit_profile(view, profile, false, visit, context);
}

pyr_status pyr_view_detail(pyr_view *view, const pyr_view_row *row, pyr_detail *detail)
{
    pyr_detail_init(detail);
    (void)sqlite3_bind_int64(view->extra, 1, row->profile);
    pyr_status status = pyr_database_step(view->extra);
    if (status == PYR_OK && sqlite3_column_bytes(view->extra, 0) == 0) {
        status = PYR_ENOENT;
    }
    if (status == PYR_OK) {
        status = pyr_detail_read(detail, row->book, row->block, view->packer,
                                 sqlite3_column_blob(view->extra, 0),
                                 (size_t)sqlite3_column_bytes(view->extra, 0));
    }
    (void)sqlite3_reset(view->extra);
    return status;
}

pyr_status pyr_view_document(pyr_view *view, int64_t profile, pyr_buffer *out)
{
    pyr_buffer plain;
    pyr_buffer_init(&plain, PYR_PACK_SECTION_BYTES);
    (void)sqlite3_bind_int64(view->extra, 1, profile);
    pyr_status status = pyr_database_step(view->extra);
    if (status == PYR_OK && sqlite3_column_bytes(view->extra, 1) == 0) {
        status = PYR_ENOENT;
    }
    if (status == PYR_OK) {
        const uint8_t *bytes = sqlite3_column_blob(view->extra, 1);
        pyr_wire_reader reader = {bytes, bytes + sqlite3_column_bytes(view->extra, 1)};
        status = pyr_pack_read(view->packer, &reader, &plain);
    }
    if (status == PYR_OK) {
        status = pyr_buffer_append(out, plain.data, plain.length);
    }
    (void)sqlite3_reset(view->extra);
    pyr_buffer_fini(&plain);
    return status;
}

pyr_status pyr_view_each_pin(pyr_view *view,
                             pyr_status (*visit)(void *context, const pyr_view_pin *pin),
                             void *context)
{
    sqlite3_stmt *select = NULL;
    pyr_status status = pyr_database_prepare(
        view->database,
        "SELECT id, made_ns, (SELECT count(*) FROM pinned WHERE pinned.pin=pin.id), note FROM pin"
        " ORDER BY id",
        &select);
    while (status == PYR_OK) {
        status = pyr_database_step(select);
        if (status == PYR_OK) {
            const pyr_view_pin pin = {
                .id = sqlite3_column_int64(select, 0),
                .made_ns = sqlite3_column_int64(select, 1),
                .profiles = sqlite3_column_int64(select, 2),
                .note = (const char *)sqlite3_column_text(select, 3),
            };
            status = visit(context, &pin);
        }
    }
    (void)sqlite3_finalize(select);
    return status == PYR_ENOENT ? PYR_OK : status;
}
