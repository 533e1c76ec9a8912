/* Reading the store: a view has a connection of its own and the books that it read last. Any number
 * of views beside one writer; one thread at a time each. */
#ifndef PYR_STORE_VIEW_H
#define PYR_STORE_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "store/block.h"
#include "store/book.h"
#include "store/detail.h"
#include "store/level.h"
#include "store/pack.h"

typedef struct pyr_view pyr_view;

/* Opens the store of a folder for reading. `why` has a sentence when that fails. */
PYR_MUST_USE pyr_status pyr_view_open(const char *folder, pyr_view **view, char *why,
                                      size_t why_size);
void pyr_view_close(pyr_view *view);

/* From begin to end a view shows one moment of the store. PYR_EBUSY, PYR_EIO. */
PYR_MUST_USE pyr_status pyr_view_begin(pyr_view *view);
void pyr_view_end(pyr_view *view);

typedef struct pyr_view_series {
    int64_t id;
    const char *service;
    const char *labels; /* see pyr_labels_next */
    size_t labels_length;
    int64_t first_ns, last_ns; /* of its profiles: first start, last end */
} pyr_view_series;

/* Calls `visit` for each series that may have profiles in [from, until), of one service or, with
 * NULL, of all; texts are lent for the call. Ends early when it returns another status than PYR_OK,
 * with that. Between begin and end. */
PYR_MUST_USE pyr_status pyr_view_each_series(
    pyr_view *view, const char *service, int64_t from_ns, int64_t until_ns,
    pyr_status (*visit)(void *context, const pyr_view_series *series), void *context);

typedef struct pyr_view_row {
    int64_t profile, series;
    int64_t start_ns, end_ns;
    pyr_level level; /* sums: end_ns - start_ns is what their profiles cover, added up */
    size_t samples;
    int64_t bytes; /* as received */
    int64_t book_id;
    const pyr_book *book;
    pyr_block *block; /* keys are read; ask pyr_block_values for values, with `packer` */
    pyr_packer *packer;
} pyr_view_row;

typedef pyr_status (*pyr_view_visit)(void *context, const pyr_view_row *row);

/* Calls `visit` for the profiles of these series that start in [from, until), each once, book by
 * book; sums of up to the level `coarsest` stand for their profiles. Damaged ones are left out and
 * counted in *damaged. Between begin and end. */
PYR_MUST_USE pyr_status pyr_view_scan(pyr_view *view, const int64_t *series, size_t count,
                                      int64_t from_ns, int64_t until_ns, pyr_level coarsest,
                                      pyr_view_visit visit, void *context, size_t *damaged);

/* The same for whom totals are enough: stacks and lists of blocks are not read, which is most of
 * the work; of values there is pyr_block_total. */
PYR_MUST_USE pyr_status pyr_view_scan_totals(pyr_view *view, const int64_t *series, size_t count,
                                             int64_t from_ns, int64_t until_ns, pyr_level coarsest,
                                             pyr_view_visit visit, void *context, size_t *damaged);

/* Calls `visit` for each different list of types (of `book`) that those profiles have: much less
 * work than a scan, since no block is uncompressed. */
PYR_MUST_USE pyr_status pyr_view_each_types(
    pyr_view *view, const int64_t *series, size_t count, int64_t from_ns, int64_t until_ns,
    pyr_status (*visit)(void *context, const pyr_book *book, uint32_t types), void *context);

/* One profile by its number. PYR_ENOENT. */
PYR_MUST_USE pyr_status pyr_view_profile(pyr_view *view, int64_t profile, pyr_view_visit visit,
                                         void *context);

/* Its single samples; PYR_ENOENT: the sums say all. Fini either way. */
PYR_MUST_USE pyr_status pyr_view_detail(pyr_view *view, const pyr_view_row *row,
                                        pyr_detail *detail);

/* Appends its document (JSON); PYR_ENOENT: it has none. */
PYR_MUST_USE pyr_status pyr_view_document(pyr_view *view, int64_t profile, pyr_buffer *out);

typedef struct pyr_view_pin {
    int64_t id, made_ns, profiles;
    const char *note;
} pyr_view_pin;

PYR_MUST_USE pyr_status pyr_view_each_pin(
    pyr_view *view, pyr_status (*visit)(void *context, const pyr_view_pin *pin), void *context);

#endif
