/* Sums of hours and days; see store_state.h.
 *
 * A sum of an hour is one more row of a series, made of its profiles of that hour, which are marked
 * as being in it; a sum of a day is made of those of hours in the same way. A query takes the sum
 * where it wants the whole span, else its parts. Late profiles are not in a sum, so they count by
 * themselves until they are summed too. The caller holds the connection.
 */
#include <string.h>

#include "base/memory.h"
#include "store/block.h"
#include "store/database.h"
#include "store/store_state.h"

enum { SUM_BYTES = 32 << 20 }; /* of a sum while it is made: what has more stays as it is */

typedef struct rolling {
    pyr_level level; /* of the sum; its parts are of the one below */
    int64_t series, book;
    int64_t start_ns, end_ns;
    int64_t settled; /* the last profile that may be a part */
    pyr_sums sums;
    pyr_block block;
    pyr_buffer ids; /* int64_t: of the parts that are in the sums */
    int64_t bytes, covered_ns;
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

static pyr_status add_part(pyr_store *store, rolling *r, const pyr_book *book, sqlite3_stmt *part)
{
    int64_t id = sqlite3_column_int64(part, 0);
    pyr_status status = pyr_block_read(&r->block, book, store->packer, sqlite3_column_blob(part, 4),
                                       (size_t)sqlite3_column_bytes(part, 4));
    if (status == PYR_OK && !r->has_sums) {
        status = pyr_sums_init(&r->sums, r->block.types, r->block.type_count);
        r->has_sums = true;
    }
    if (status != PYR_OK || r->block.types != r->sums.types) {
        return status; /* of other types: the next round's */
    }
    status = add_block(store, r);
    if (status == PYR_OK && r->sums.values.length + r->sums.squares.length > SUM_BYTES) {
        status = PYR_ETOOBIG;
    }
    if (status == PYR_OK) {
        status = pyr_buffer_append(&r->ids, &id, sizeof id);
        r->samples += (size_t)sqlite3_column_int64(part, 1);
        r->bytes += sqlite3_column_int64(part, 2);
        if (__builtin_add_overflow(r->covered_ns, sqlite3_column_int64(part, 3), &r->covered_ns)) {
            status = PYR_ETOOBIG;
        }
    }
    return status;
}

#define PARTS                                                                                      \
    "series=?1 AND book=?2 AND level=?3 AND rolled=0 AND start_ns>=?4 AND start_ns<?5"             \
    " AND (level>0 OR id<=?6)"

static void bind_parts(sqlite3_stmt *statement, const rolling *r)
{
    (void)sqlite3_bind_int64(statement, 1, r->series);
    (void)sqlite3_bind_int64(statement, 2, r->book);
    (void)sqlite3_bind_int(statement, 3, (int)r->level - 1);
    (void)sqlite3_bind_int64(statement, 4, r->start_ns);
    (void)sqlite3_bind_int64(statement, 5, r->end_ns);
    (void)sqlite3_bind_int64(statement, 6, r->settled);
}

static pyr_status add_parts(pyr_store *store, rolling *r, const pyr_book *book)
{
    sqlite3_stmt *parts = NULL;
    pyr_status status = pyr_database_prepare(
        store->database,
        "SELECT id, samples, bytes, end_ns-start_ns, block FROM profile WHERE " PARTS
        " ORDER BY start_ns",
        &parts);
    if (status == PYR_OK) {
        bind_parts(parts, r);
    }
    while (status == PYR_OK) {
        status = pyr_database_step(parts);
        if (status == PYR_OK) {
            status = add_part(store, r, book, parts);
        }
    }
    (void)sqlite3_finalize(parts);
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

/* A sum ends when what its profiles cover, added up, has passed: a process may have lived for a
 * minute of its hour. The topmost level is never a part. */
static pyr_status insert_sum(pyr_store *store, const rolling *r)
{
    pyr_buffer block;
    pyr_buffer order;
    sqlite3_stmt *add = NULL;
    int64_t end_ns = 0;
    if (__builtin_add_overflow(r->start_ns, r->covered_ns, &end_ns)) {
        return PYR_ETOOBIG;
    }
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
            " block) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            &add);
    }
    if (status == PYR_OK) {
        bool is_part = r->level < PYR_LEVEL_DAY;
        (void)sqlite3_bind_int64(add, 1, r->series);
        (void)sqlite3_bind_int64(add, 2, r->book);
        (void)sqlite3_bind_int(add, 3, (int)r->level);
        (void)sqlite3_bind_int(add, 4, is_part ? PYR_ROLLED_NOT : PYR_ROLLED_NEVER);
        (void)sqlite3_bind_int64(add, 5, r->start_ns);
        (void)sqlite3_bind_int64(add, 6, end_ns);
        (void)sqlite3_bind_int64(add, 7, (int64_t)r->samples);
        (void)sqlite3_bind_int64(add, 8, r->bytes);
        (void)sqlite3_bind_blob64(add, 9, block.data, block.length, SQLITE_STATIC);
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
        status = add_parts(store, r, book);
    }
    bool several = r->ids.length > sizeof(int64_t);
    if (status == PYR_OK && several) {
        status = insert_sum(store, r);
    }
    return status == PYR_OK ? mark(store, r, several ? PYR_ROLLED_IN_SUM : PYR_ROLLED_NEVER)
                            : status;
}

/* Leaves the parts as they are: a value is damaged, or the sum would be too large. */
static pyr_status leave(pyr_store *store, void *context)
{
    sqlite3_stmt *update = NULL;
    pyr_status status =
        pyr_database_prepare(store->database, "UPDATE profile SET rolled=2 WHERE " PARTS, &update);
    if (status == PYR_OK) {
        bind_parts(update, context);
        status = pyr_database_finish(update);
    }
    (void)sqlite3_finalize(update);
    return status;
}

pyr_status pyr_store_sum_up(pyr_store *store, pyr_level level, int64_t now_ns, int64_t settled)
{
    int64_t span_ns = pyr_level_ns(level);
    rolling r = {.level = level, .settled = settled};
    sqlite3_stmt *next = NULL;
    pyr_status status =
        pyr_database_prepare(store->database,
                             "SELECT series, book, start_ns FROM profile INDEXED BY profile_to_roll"
                             " WHERE level=?1 AND rolled=0 AND start_ns<?2 AND (level>0 OR id<=?3)"
                             " ORDER BY start_ns LIMIT 1",
                             &next);
    if (status == PYR_OK) {
        (void)sqlite3_bind_int(next, 1, (int)level - 1);
        (void)sqlite3_bind_int64(next, 2, (now_ns - level * PYR_HOUR_NS) / span_ns * span_ns);
        (void)sqlite3_bind_int64(next, 3, settled);
        status = pyr_database_step(next);
    }
    if (status == PYR_OK) {
        r.series = sqlite3_column_int64(next, 0);
        r.book = sqlite3_column_int64(next, 1);
        r.start_ns = sqlite3_column_int64(next, 2) / span_ns * span_ns;
        r.end_ns = r.start_ns + span_ns;
    }
    (void)sqlite3_finalize(next);
    if (status != PYR_OK) {
        return status;
    }
    pyr_block_init(&r.block);
    pyr_buffer_init(&r.ids, PYR_PACK_SECTION_BYTES);
    status = pyr_store_transact(store, roll, &r);
    if (status == PYR_EBAD || status == PYR_ETOOBIG) {
        status = pyr_store_transact(store, leave, &r);
    }
    pyr_block_fini(&r.block);
    pyr_buffer_fini(&r.ids);
    if (r.has_sums) {
        pyr_sums_fini(&r.sums);
    }
    return status;
}
