/* What keeps the store small and fast: sums of hours, retention, merging of chunks, pins, deletion,
 * and the check of everything. See store.h.
 *
 * A sum of an hour (level 1) is one more row of a series, made of its profiles of that hour, which
 * are marked as being in it. A query takes the sum where it wants the whole hour, else the
 * profiles. Late profiles are not in a sum, so they count by themselves until they are summed too.
 * Every step is one transaction; the caller holds the connection.
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

enum { CHUNKS = 48, VACUUM_PAGES = 2000, ROUNDS = 100000 };

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

/* -------------------------------------------------------------------------------- rolling ---- */

typedef struct rolling {
    int64_t series, book, hour;
    pyr_sums sums;
    pyr_block block;
    pyr_buffer ids; /* int64_t: profiles that are in the sums */
    int64_t bytes;
    size_t samples;
    bool has_sums;
} rolling;

static pyr_status add_block(pyr_store *store, rolling *r)
{
    size_t types = r->block.type_count;
    int64_t *values = pyr_memory_new(r->block.count * types + 1, sizeof *values);
    double *squares = pyr_memory_new(r->block.count * types + 1, sizeof *squares);
    pyr_status status = values != NULL && squares != NULL ? PYR_OK : PYR_ENOMEM;
    for (size_t type = 0; type < types && status == PYR_OK; type++) {
        status = pyr_block_values(&r->block, store->packer, type);
        const int64_t *value = (const int64_t *)(const void *)r->block.values.data;
        const double *square = (const double *)(const void *)r->block.squares.data;
        for (size_t row = 0; row < r->block.count && status == PYR_OK; row++) {
            values[row * types + type] = value[row];
            squares[row * types + type] = square[row];
        }
        status = status == PYR_ENOENT ? PYR_OK : status;
    }
    const uint32_t *stacks = (const uint32_t *)(const void *)r->block.stacks.data;
    const uint32_t *lists = (const uint32_t *)(const void *)r->block.lists.data;
    for (size_t row = 0; row < r->block.count && status == PYR_OK; row++) {
        size_t place = 0;
        status = pyr_sums_add(&r->sums, stacks[row], lists[row], &values[row * types],
                              &squares[row * types], &place);
    }
    pyr_memory_free(values);
    pyr_memory_free(squares);
    return status;
}

static pyr_status add_profile(pyr_store *store, rolling *r, const pyr_book *book,
                              sqlite3_stmt *profile)
{
    int64_t id = sqlite3_column_int64(profile, 0);
    pyr_status status =
        pyr_block_read(&r->block, book, store->packer, sqlite3_column_blob(profile, 3),
                       (size_t)sqlite3_column_bytes(profile, 3));
    if (status == PYR_OK && !r->has_sums) {
        status = pyr_sums_init(&r->sums, r->block.types, r->block.type_count);
        r->has_sums = true;
    }
    if (status != PYR_OK || r->block.types != r->sums.types) {
        return status; /* of other types: the next round's */
    }
    status = add_block(store, r);
    if (status == PYR_OK) {
        status = pyr_buffer_append(&r->ids, &id, sizeof id);
        r->samples += (size_t)sqlite3_column_int64(profile, 1);
        r->bytes += sqlite3_column_int64(profile, 2);
    }
    return status;
}

static pyr_status add_hour(pyr_store *store, rolling *r, const pyr_book *book)
{
    sqlite3_stmt *profiles = NULL;
    pyr_status status = pyr_database_prepare(
        store->database,
        "SELECT id, samples, bytes, block FROM profile WHERE series=?1 AND book=?2"
        " AND level=0 AND rolled=0 AND start_ns>=?3 AND start_ns<?4 ORDER BY start_ns",
        &profiles);
    if (status == PYR_OK) {
        (void)sqlite3_bind_int64(profiles, 1, r->series);
        (void)sqlite3_bind_int64(profiles, 2, r->book);
        (void)sqlite3_bind_int64(profiles, 3, r->hour * PYR_HOUR_NS);
        (void)sqlite3_bind_int64(profiles, 4, (r->hour + 1) * PYR_HOUR_NS);
    }
    while (status == PYR_OK) {
        status = pyr_database_step(profiles);
        if (status == PYR_OK) {
            status = add_profile(store, r, book, profiles);
        }
    }
    (void)sqlite3_finalize(profiles);
    return status == PYR_ENOENT ? PYR_OK : status;
}

static pyr_status mark(pyr_store *store, const rolling *r, int rolled)
{
    sqlite3_stmt *update = NULL;
    pyr_status status =
        pyr_database_prepare(store->database, "UPDATE profile SET rolled=?2 WHERE id=?1", &update);
    for (size_t at = 0; at < r->ids.length / sizeof(int64_t) && status == PYR_OK; at++) {
        int64_t id = 0;
        memcpy(&id, r->ids.data + at * sizeof id, sizeof id);
        (void)sqlite3_bind_int64(update, 1, id);
        (void)sqlite3_bind_int(update, 2, rolled);
        status = pyr_database_finish(update);
    }
    (void)sqlite3_finalize(update);
    return status;
}

static pyr_status insert_hour(pyr_store *store, const rolling *r)
{
    pyr_buffer block;
    pyr_buffer order;
    sqlite3_stmt *add = NULL;
    pyr_buffer_init(&block, PYR_PACK_SECTION_BYTES);
    pyr_buffer_init(&order, PYR_PACK_SECTION_BYTES);
    pyr_status status = pyr_block_order(&r->sums, &order);
    if (status == PYR_OK) {
        status = pyr_block_write(&r->sums, (const uint32_t *)(const void *)order.data,
                                 store->packer, &block);
    }
    if (status == PYR_OK) {
        status = pyr_database_prepare(
            store->database,
            "INSERT INTO profile(series, book, level, rolled, start_ns, end_ns, samples, bytes,"
            " block) VALUES(?1, ?2, 1, 0, ?3, ?4, ?5, ?6, ?7)",
            &add);
    }
    if (status == PYR_OK) {
        (void)sqlite3_bind_int64(add, 1, r->series);
        (void)sqlite3_bind_int64(add, 2, r->book);
        (void)sqlite3_bind_int64(add, 3, r->hour * PYR_HOUR_NS);
        (void)sqlite3_bind_int64(add, 4, (r->hour + 1) * PYR_HOUR_NS);
        (void)sqlite3_bind_int64(add, 5, (int64_t)r->samples);
        (void)sqlite3_bind_int64(add, 6, r->bytes);
        (void)sqlite3_bind_blob64(add, 7, block.data, block.length, SQLITE_STATIC);
        status = pyr_database_finish(add);
    }
    (void)sqlite3_finalize(add);
    pyr_buffer_fini(&block);
    pyr_buffer_fini(&order);
    return status;
}

static pyr_status roll(pyr_store *store, void *context)
{
    rolling *r = context;
    pyr_book *book = NULL;
    pyr_status status = pyr_shelf_get(store->shelf, r->book, &book);
    if (status == PYR_OK) {
        status = add_hour(store, r, book);
    }
    bool several = r->ids.length > sizeof(int64_t);
    if (status == PYR_OK && several) {
        status = insert_hour(store, r);
    }
    return status == PYR_OK ? mark(store, r, several ? PYR_ROLLED_IN_HOUR : PYR_ROLLED_NEVER)
                            : status;
}

/* Sums one hour of one series that ended an hour ago or earlier. PYR_ENOENT: there is none. */
static pyr_status roll_next(pyr_store *store, int64_t now_ns)
{
    rolling r = {0};
    sqlite3_stmt *next = NULL;
    pyr_status status = pyr_database_prepare(
        store->database,
        "SELECT series, book, start_ns/?2 FROM profile INDEXED BY profile_to_roll"
        " WHERE level=0 AND rolled=0 AND start_ns<?1 LIMIT 1",
        &next);
    if (status == PYR_OK) {
        (void)sqlite3_bind_int64(next, 1, (now_ns / PYR_HOUR_NS - 1) * PYR_HOUR_NS);
        (void)sqlite3_bind_int64(next, 2, PYR_HOUR_NS);
        status = pyr_database_step(next);
    }
    if (status == PYR_OK) {
        r.series = sqlite3_column_int64(next, 0);
        r.book = sqlite3_column_int64(next, 1);
        r.hour = sqlite3_column_int64(next, 2);
    }
    (void)sqlite3_finalize(next);
    if (status != PYR_OK) {
        return status;
    }
    pyr_block_init(&r.block);
    pyr_buffer_init(&r.ids, PYR_PACK_SECTION_BYTES);
    status = pyr_store_transact(store, roll, &r);
    if (status == PYR_EBAD) { /* a damaged value: its hour stays as it is */
        const removal hour = {.from_ns = r.hour * PYR_HOUR_NS,
                              .until_ns = (r.hour + 1) * PYR_HOUR_NS};
        status = run_on(store,
                        "UPDATE profile SET rolled=2 WHERE level=0 AND rolled=0 AND start_ns>=?1"
                        " AND start_ns<?2 AND series=?3",
                        r.series, &hour, NULL);
    }
    pyr_block_fini(&r.block);
    pyr_buffer_fini(&r.ids);
    if (r.has_sums) {
        pyr_sums_fini(&r.sums);
    }
    return status;
}

/* ------------------------------------------------------------------------------ removing ---- */

/* Profiles that stay beside ones that go are no more in any sum. */
static pyr_status remove_of(pyr_store *store, removal *r, int64_t series)
{
#define THESE "start_ns>=?1 AND start_ns<?2 AND (?3=0 OR series=?3)"
#define HOURS                                                                                      \
    "start_ns>=?1/3600000000000*3600000000000 AND start_ns<(?2+3599999999999)/3600000000000*"      \
    "3600000000000 AND (?3=0 OR series=?3)"
    static const char *const STEPS[] = {
        "DELETE FROM extra WHERE profile IN (SELECT id FROM profile WHERE level=0 AND " THESE
        " AND id NOT IN " PINNED ")",
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

pyr_status pyr_store_upkeep_step(pyr_store *store, int64_t now_ns, bool *more)
{
    pyr_status status = retire_next(store, now_ns);
    *more = status == PYR_OK;
    if (status == PYR_ENOENT) {
        status = roll_next(store, now_ns);
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
        status = pyr_store_upkeep_step(store, now_ns, &more);
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
