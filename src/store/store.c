/* The thread that writes, and the way of an upload to the disk; see the header.
 *
 * Uploads wait in a list. The thread takes as many as there are (up to a bound of bytes), writes
 * them in one transaction, and only when that is on disk tells each: so sixteen senders share one
 * fsync. Between batches it does upkeep in short steps. Whoever else changes the store (pins,
 * deletes) takes the lock of the connection between two batches.
 */
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/memory.h"
#include "os/claim.h"
#include "os/os.h"
#include "store/block.h"
#include "store/database.h"
#include "store/detail.h"
#include "store/store_state.h"
#include "store/sums.h"

enum {
    WAITING = 4096,
    WAITING_BYTES = 64 << 20,
    BATCH = 256,
    BATCH_BYTES = 16 << 20,
    EXTRA_BYTES = 1 << 28,
    UPKEEP_S = 30,
};

static const int64_t SECOND_NS = 1000000000;

/* ------------------------------------------------------------------------------ writing ---- */

typedef struct parts { /* of one profile, encoded */
    pyr_buffer block, detail, document, places, order;
    pyr_sums sums;
    int64_t book;
} parts;

static void parts_init(parts *p)
{
    memset(p, 0, sizeof *p);
    pyr_buffer_init(&p->block, EXTRA_BYTES);
    pyr_buffer_init(&p->detail, EXTRA_BYTES);
    pyr_buffer_init(&p->document, EXTRA_BYTES);
    pyr_buffer_init(&p->places, EXTRA_BYTES);
    pyr_buffer_init(&p->order, EXTRA_BYTES);
}

static void parts_fini(parts *p)
{
    pyr_buffer_fini(&p->block);
    pyr_buffer_fini(&p->detail);
    pyr_buffer_fini(&p->document);
    pyr_buffer_fini(&p->places);
    pyr_buffer_fini(&p->order);
    pyr_sums_fini(&p->sums);
}

/* Rows of samples count in the order in which the block has them. */
static pyr_status reorder(parts *p)
{
    uint32_t *rows = pyr_memory_new(p->sums.count + 1, sizeof *rows);
    const uint32_t *order = (const uint32_t *)(const void *)p->order.data;
    pyr_sums_place *places = (pyr_sums_place *)(void *)p->places.data;
    if (rows == NULL) {
        return PYR_ENOMEM;
    }
    for (size_t at = 0; at < p->sums.count; at++) {
        rows[order[at]] = (uint32_t)at;
    }
    for (size_t sample = 0; sample < p->places.length / sizeof *places; sample++) {
        places[sample].row = rows[places[sample].row];
    }
    pyr_memory_free(rows);
    return PYR_OK;
}

static pyr_status encode_into(pyr_store *store, const pyr_upload *upload, pyr_book *book, parts *p)
{
    pyr_status status = pyr_sums_of_profile(&p->sums, upload->profile, book, &p->places);
    if (status == PYR_OK) {
        status = pyr_block_order(&p->sums, &p->order);
    }
    if (status == PYR_OK) {
        status = reorder(p);
    }
    if (status == PYR_OK) {
        status = pyr_block_write(&p->sums, (const uint32_t *)(const void *)p->order.data,
                                 store->packer, &p->block);
    }
    if (status == PYR_OK) {
        status = pyr_detail_write(
            upload->profile, (const pyr_sums_place *)(const void *)p->places.data, &p->sums,
            (const uint32_t *)(const void *)p->order.data, book, store->packer, &p->detail);
    }
    return status;
}

static pyr_status encode(pyr_store *store, const pyr_upload *upload, parts *p)
{
    const char *service = pyr_labels_get(upload->labels, "service");
    int64_t day = upload->start_ns / PYR_DAY_NS;
    pyr_book *book = NULL;
    pyr_status status = pyr_shelf_find(store->shelf, service, day, false, &book, &p->book);
    if (status == PYR_OK) {
        status = encode_into(store, upload, book, p);
    }
    if (status == PYR_ETOOBIG) { /* the book is full: once more with an empty one */
        parts_fini(p);
        parts_init(p);
        status = pyr_shelf_find(store->shelf, service, day, true, &book, &p->book);
        if (status == PYR_OK) {
            status = encode_into(store, upload, book, p);
        }
    }
    if (status == PYR_OK && upload->document != NULL) {
        pyr_pack_section(store->packer, upload->document, upload->document_length, &p->document);
        status = p->document.status;
    }
    return status;
}

static pyr_status find_series(pyr_store *store, const pyr_upload *upload, int64_t *series)
{
    pyr_buffer labels;
    pyr_buffer_init(&labels, 1 << 20);
    pyr_status status = pyr_labels_write(upload->labels, &labels);
    const uint64_t key[2] = {pyr_hash_bytes(labels.data, labels.length, 1),
                             pyr_hash_bytes(labels.data, labels.length, 2)};
    if (status == PYR_OK) {
        (void)sqlite3_bind_blob(store->find_series, 1, key, sizeof key, SQLITE_STATIC);
        status = pyr_database_step(store->find_series);
        *series = status == PYR_OK ? sqlite3_column_int64(store->find_series, 0) : 0;
        (void)sqlite3_reset(store->find_series);
    }
    if (status == PYR_OK) {
        (void)sqlite3_bind_int64(store->touch_series, 1, *series);
        (void)sqlite3_bind_int64(store->touch_series, 2, upload->start_ns);
        (void)sqlite3_bind_int64(store->touch_series, 3, upload->end_ns);
        status = pyr_database_finish(store->touch_series);
    } else if (status == PYR_ENOENT) {
        (void)sqlite3_bind_blob(store->add_series, 1, key, sizeof key, SQLITE_STATIC);
        (void)sqlite3_bind_text(store->add_series, 2, pyr_labels_get(upload->labels, "service"), -1,
                                SQLITE_STATIC);
        (void)sqlite3_bind_blob64(store->add_series, 3, labels.data, labels.length, SQLITE_STATIC);
        (void)sqlite3_bind_int64(store->add_series, 4, upload->start_ns);
        (void)sqlite3_bind_int64(store->add_series, 5, upload->end_ns);
        status = pyr_database_finish(store->add_series);
        *series = sqlite3_last_insert_rowid(store->database);
    }
    pyr_buffer_fini(&labels);
    return status;
}

static void bind_blob(sqlite3_stmt *statement, int column, const pyr_buffer *buffer)
{
    if (buffer->length > 0) {
        (void)sqlite3_bind_blob64(statement, column, buffer->data, buffer->length, SQLITE_STATIC);
    }
}

static pyr_status insert(pyr_store *store, const pyr_upload *upload, const parts *p, int64_t series)
{
    sqlite3_stmt *add = store->add_profile;
    (void)sqlite3_bind_int64(add, 1, series);
    (void)sqlite3_bind_int64(add, 2, p->book);
    (void)sqlite3_bind_int64(add, 3, upload->start_ns);
    (void)sqlite3_bind_int64(add, 4, upload->end_ns);
    (void)sqlite3_bind_int64(add, 5, (int64_t)p->sums.samples);
    (void)sqlite3_bind_int64(add, 6, (int64_t)upload->bytes);
    (void)sqlite3_bind_blob(add, 7, upload->key, sizeof upload->key, SQLITE_STATIC);
    bind_blob(add, 8, &p->block);
    pyr_status status = pyr_database_finish(add);
    if (status == PYR_OK && (p->detail.length > 0 || p->document.length > 0)) {
        (void)sqlite3_bind_int64(store->add_extra, 1, sqlite3_last_insert_rowid(store->database));
        bind_blob(store->add_extra, 2, &p->detail);
        bind_blob(store->add_extra, 3, &p->document);
        status = pyr_database_finish(store->add_extra);
    }
    return status;
}

/* PYR_EEXIST, PYR_EINVAL and PYR_ETOOBIG concern this upload alone. */
static pyr_status write_one(pyr_store *store, const pyr_upload *upload)
{
    (void)sqlite3_bind_blob(store->find_key, 1, upload->key, sizeof upload->key, SQLITE_STATIC);
    pyr_status status = pyr_database_step(store->find_key);
    (void)sqlite3_reset(store->find_key);
    if (status != PYR_ENOENT) {
        return status == PYR_OK ? PYR_EEXIST : status;
    }
    parts p;
    int64_t series = 0;
    parts_init(&p);
    status = encode(store, upload, &p);
    if (status == PYR_OK) {
        status = find_series(store, upload, &series);
    }
    if (status == PYR_OK) {
        status = insert(store, upload, &p, series);
    }
    parts_fini(&p);
    return status;
}

static bool concerns_one(pyr_status status)
{
    return status == PYR_OK || status == PYR_EEXIST || status == PYR_EINVAL ||
           status == PYR_ETOOBIG;
}

pyr_status pyr_store_transact(pyr_store *store, pyr_status (*step)(pyr_store *store, void *context),
                              void *context)
{
    pyr_status status = pyr_database_run(store->database, "BEGIN IMMEDIATE");
    if (status != PYR_OK) {
        return status;
    }
    status = step(store, context);
    if (status == PYR_OK) {
        status = pyr_shelf_write(store->shelf);
    }
    if (status == PYR_OK) {
        status = pyr_database_run(store->database, "COMMIT");
    }
    if (status != PYR_OK && !sqlite3_get_autocommit(store->database)) {
        (void)sqlite3_exec(store->database, "ROLLBACK", NULL, NULL, NULL);
    }
    pyr_shelf_settle(store->shelf, status == PYR_OK);
    return status;
}

typedef struct upload_batch {
    pyr_upload *uploads[BATCH];
    pyr_status statuses[BATCH];
    size_t count;
} upload_batch;

static pyr_status write_batch(pyr_store *store, void *context)
{
    upload_batch *all = context;
    for (size_t at = 0; at < all->count; at++) {
        all->statuses[at] = write_one(store, all->uploads[at]);
        if (!concerns_one(all->statuses[at])) {
            return all->statuses[at];
        }
    }
    return PYR_OK;
}

static void count_batch(pyr_store *store, const upload_batch *all, pyr_status status)
{
    pyr_lock_acquire(&store->queue);
    pyr_store_figures *figures = &store->figures;
    figures->commits += status == PYR_OK;
    figures->is_broken = status != PYR_OK;
    for (size_t at = 0; at < all->count; at++) {
        figures->accepted += all->statuses[at] == PYR_OK;
        figures->bytes += all->statuses[at] == PYR_OK ? all->uploads[at]->bytes : 0;
        figures->again += all->statuses[at] == PYR_EEXIST;
        figures->refused += all->statuses[at] == PYR_EINVAL || all->statuses[at] == PYR_ETOOBIG;
        figures->failed += !concerns_one(all->statuses[at]);
        store->waiting_bytes -= all->uploads[at]->bytes;
    }
    store->waiting -= all->count;
    pyr_lock_release(&store->queue);
}

static void take_batch(pyr_store *store, upload_batch *all)
{
    size_t bytes = 0;
    all->count = 0;
    while (store->first != NULL && all->count < BATCH &&
           (all->count == 0 || bytes + store->first->bytes <= BATCH_BYTES)) {
        pyr_upload *upload = store->first;
        bytes += upload->bytes;
        all->uploads[all->count++] = upload;
        store->first = upload->next;
        if (store->first == NULL) {
            store->last = &store->first;
        }
    }
}

static void run_batch(pyr_store *store, upload_batch *all)
{
    pyr_lock_acquire(&store->connection);
    pyr_status status = pyr_store_transact(store, write_batch, all);
    pyr_lock_release(&store->connection);
    for (size_t at = 0; at < all->count && status != PYR_OK; at++) {
        all->statuses[at] = status;
    }
    count_batch(store, all, status);
    for (size_t at = 0; at < all->count; at++) {
        all->uploads[at]->done(all->uploads[at], all->statuses[at]);
    }
}

static void measure(pyr_store *store)
{
    int64_t pages = 0;
    int64_t size = 0;
    if (pyr_database_number(store->database, "PRAGMA page_count", &pages) == PYR_OK &&
        pyr_database_number(store->database, "PRAGMA page_size", &size) == PYR_OK) {
        pyr_lock_acquire(&store->queue);
        store->figures.file_bytes = pages * size;
        pyr_lock_release(&store->queue);
    }
}

/* Waits for an upload, at most until `until_ns` (monotonic). False: stop. */
static bool wait_for_work(pyr_store *store, int64_t until_ns, upload_batch *all)
{
    pyr_lock_acquire(&store->queue);
    while (store->first == NULL && !store->stops && pyr_clock_monotonic_ns() < until_ns) {
        struct timespec deadline = {until_ns / SECOND_NS, until_ns % SECOND_NS};
        (void)pthread_cond_timedwait(&store->arrived, &store->queue.mutex, &deadline);
    }
    take_batch(store, all);
    bool goes_on = all->count > 0 || !store->stops;
    pyr_lock_release(&store->queue);
    return goes_on;
}

/* The caller holds the connection. */
static int64_t last_profile(pyr_store *store)
{
    int64_t last = 0;
    pyr_status status =
        pyr_database_number(store->database, "SELECT coalesce(max(id), 0) FROM profile", &last);
    return status == PYR_OK ? last : 0;
}

static void *run(void *context)
{
    pyr_store *store = context;
    upload_batch all;
    bool more = false;
    int64_t settled = 0; /* last profile when upkeep began the time before */
    int64_t last = store->last_at_open;
    int64_t upkeep_ns = pyr_clock_monotonic_ns() + SECOND_NS;
    (void)pyr_calm_now(&store->calm, pyr_clock_realtime_ns(), pyr_clock_monotonic_ns());
    while (wait_for_work(store, upkeep_ns, &all)) {
        if (all.count > 0) {
            run_batch(store, &all);
        }
        if (pyr_clock_monotonic_ns() >= upkeep_ns) {
            int64_t now_ns =
                pyr_calm_now(&store->calm, pyr_clock_realtime_ns(), pyr_clock_monotonic_ns());
            pyr_lock_acquire(&store->connection);
            if (!more) {
                settled = last;
                last = last_profile(store);
            }
            if (store->options.upkeep &&
                pyr_store_upkeep_step(store, now_ns, settled, &more) != PYR_OK) {
                more = false; /* again later; a lasting fault shows in the next upload */
            }
            measure(store);
            pyr_lock_release(&store->connection);
            upkeep_ns = pyr_clock_monotonic_ns() + (more ? SECOND_NS / 50 : UPKEEP_S * SECOND_NS);
        }
    }
    return NULL;
}

pyr_status pyr_store_put(pyr_store *store, pyr_upload *upload)
{
    pyr_lock_acquire(&store->queue);
    bool fits = !store->stops && store->waiting < WAITING &&
                (store->waiting == 0 || store->waiting_bytes + upload->bytes <= WAITING_BYTES);
    if (fits) {
        upload->next = NULL;
        *store->last = upload;
        store->last = &upload->next;
        store->waiting++;
        store->waiting_bytes += upload->bytes;
        (void)pthread_cond_signal(&store->arrived);
    }
    pyr_lock_release(&store->queue);
    return fits ? PYR_OK : PYR_EBUSY;
}

pyr_store_figures pyr_store_look(pyr_store *store)
{
    pyr_lock_acquire(&store->queue);
    pyr_store_figures figures = store->figures;
    figures.waiting = store->waiting;
    pyr_lock_release(&store->queue);
    return figures;
}

pyr_status pyr_upload_key(pyr_upload *upload, const void *bytes, size_t length)
{
    pyr_buffer labels;
    pyr_buffer_init(&labels, 1 << 20);
    pyr_status status = pyr_labels_write(upload->labels, &labels);
    for (uint64_t half = 0; half < 2 && status == PYR_OK; half++) {
        uint64_t hash = pyr_hash_bytes(labels.data, labels.length, half + 1);
        hash = pyr_hash_u64((uint64_t)upload->start_ns, hash);
        hash = pyr_hash_u64((uint64_t)upload->end_ns, hash);
        upload->key[half] = pyr_hash_bytes(bytes, length, hash);
    }
    pyr_buffer_fini(&labels);
    return status;
}

/* -------------------------------------------------------------------------- open, close ---- */

static pyr_status prepare_all(pyr_store *store)
{
    const struct {
        sqlite3_stmt **statement;
        const char *sql;
    } all[] = {
        {&store->find_key, "SELECT 1 FROM profile WHERE key=?1"},
        {&store->find_series, "SELECT id FROM series WHERE key=?1"},
        {&store->add_series, "INSERT INTO series(key, service, labels, first_ns, last_ns)"
                             " VALUES(?1, ?2, ?3, ?4, ?5)"},
        {&store->touch_series, "UPDATE series SET first_ns=min(first_ns, ?2),"
                               " last_ns=max(last_ns, ?3) WHERE id=?1"},
        {&store->add_profile, "INSERT INTO profile(series, book, level, rolled, start_ns, end_ns,"
                              " samples, bytes, key, block)"
                              " VALUES(?1, ?2, 0, 0, ?3, ?4, ?5, ?6, ?7, ?8)"},
        {&store->add_extra, "INSERT INTO extra(profile, detail, document) VALUES(?1, ?2, ?3)"},
    };
    pyr_status status = PYR_OK;
    for (size_t at = 0; at < sizeof all / sizeof all[0] && status == PYR_OK; at++) {
        status = pyr_database_prepare(store->database, all[at].sql, all[at].statement);
    }
    return status;
}

static pyr_status claim_folder(pyr_store *store, char *why, size_t why_size)
{
    char path[PYR_LIMIT_PATH_BYTES];
    const char *folder = store->options.folder;
    if (snprintf(path, sizeof path, "%s/pyrometer.lock", folder) >= (int)sizeof path - 16) {
        snprintf(why, why_size, "the path of the folder is too long");
        return PYR_EINVAL;
    }
    pyr_status status = pyr_os_folder_make(folder);
    if (status == PYR_OK) {
        status = pyr_os_file_write(path, "", 0);
        status = status == PYR_EEXIST ? PYR_OK : status;
    }
    if (status != PYR_OK) {
        snprintf(why, why_size, "%s cannot be written: %s", folder, pyr_status_text(status));
        return status;
    }
    status = pyr_os_file_claim(path, NULL, &store->claim);
    if (status == PYR_EBUSY) {
        snprintf(why, why_size,
                 "another pyrometer writes the store in %s: stop it, or choose another folder",
                 folder);
    } else if (status != PYR_OK) {
        snprintf(why, why_size, "%s cannot be written: %s", folder, pyr_status_text(status));
    }
    return status;
}

static pyr_status open_all(pyr_store *store, char *why, size_t why_size)
{
    char path[PYR_LIMIT_PATH_BYTES];
    snprintf(path, sizeof path, "%s/pyrometer.db", store->options.folder);
    pyr_status status = claim_folder(store, why, why_size);
    if (status == PYR_OK) {
        status = pyr_database_open(path, true, &store->database, why, why_size);
    }
    if (status != PYR_OK) {
        return status;
    }
    store->packer = pyr_packer_new();
    store->shelf = pyr_shelf_new(store->database, store->packer);
    status = store->packer != NULL && store->shelf != NULL ? prepare_all(store) : PYR_ENOMEM;
    if (status == PYR_OK) {
        measure(store);
        store->last_at_open = last_profile(store);
        status = pyr_os_thread_start(&store->thread, "pyr-store", run, store);
        store->has_thread = status == PYR_OK;
    }
    if (status != PYR_OK) {
        snprintf(why, why_size, "the store in %s cannot be opened: %s", store->options.folder,
                 pyr_status_text(status));
    }
    return status;
}

pyr_status pyr_store_open(const pyr_store_options *options, pyr_store **result, char *why,
                          size_t why_size)
{
    pyr_store *store = pyr_memory_new(1, sizeof *store);
    pthread_condattr_t attributes;
    *result = NULL;
    if (store == NULL) {
        snprintf(why, why_size, "out of memory");
        return PYR_ENOMEM;
    }
    store->options = *options;
    store->claim = -1;
    store->last = &store->first;
    pyr_lock_init(&store->connection, PYR_LOCK_STORE);
    pyr_lock_init(&store->queue, PYR_LOCK_UPLOADS);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&store->arrived, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    pyr_status status = open_all(store, why, why_size);
    if (status != PYR_OK) {
        pyr_store_close(store);
        return status;
    }
    *result = store;
    return PYR_OK;
}

void pyr_store_close(pyr_store *store)
{
    if (store == NULL) {
        return;
    }
    if (store->has_thread) {
        pyr_lock_acquire(&store->queue);
        store->stops = true;
        (void)pthread_cond_signal(&store->arrived);
        pyr_lock_release(&store->queue);
        (void)pthread_join(store->thread, NULL);
    }
    sqlite3_stmt *const statements[] = {store->find_key,     store->find_series, store->add_series,
                                        store->touch_series, store->add_profile, store->add_extra};
    for (size_t at = 0; at < sizeof statements / sizeof statements[0]; at++) {
        (void)sqlite3_finalize(statements[at]);
    }
    pyr_shelf_free(store->shelf);
    pyr_packer_free(store->packer);
    pyr_database_close(store->database);
    if (store->claim >= 0) {
        pyr_os_file_release(store->claim);
    }
    (void)pthread_cond_destroy(&store->arrived);
    pyr_lock_fini(&store->connection);
    pyr_lock_fini(&store->queue);
    pyr_memory_free(store);
}
