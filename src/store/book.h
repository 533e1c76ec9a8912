/* A book: the symbols and stacks that the profiles of one service and day share. Private to store/
 * but for reading, which query/ does.
 *
 * Strings, functions, frames, stacks (as nodes of a prefix tree) and lists (label sets, lists of
 * sample types) each have a number; profiles consist of numbers. Tables only grow, so a commit
 * writes what is new as one chunk. One thread at a time; a book that only is read may be read by
 * any number.
 */
#ifndef PYR_STORE_BOOK_H
#define PYR_STORE_BOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "store/pack.h"

typedef struct pyr_book pyr_book;

typedef struct pyr_book_function {
    uint32_t name, file; /* strings */
    int64_t start_line;
} pyr_book_function;

typedef struct pyr_book_frame {
    uint32_t function;
    uint32_t line; /* 0 = unknown */
} pyr_book_frame;

/* Node n - 1 of the tree is stack n: a frame below the stack `parent`. Stack 0 is the empty one. */
typedef struct pyr_book_node {
    uint32_t parent;
    uint32_t frame;
} pyr_book_node;

typedef struct pyr_book_pair { /* of a label set: two strings; of a list of types: type and unit */
    uint32_t key, value;
} pyr_book_pair;

/* Most of each; more makes the next book of the day. */
enum {
    PYR_BOOK_STRINGS = 1 << 18,
    PYR_BOOK_STRING_BYTES = 1 << 24,
    PYR_BOOK_FUNCTIONS = 1 << 17,
    PYR_BOOK_FRAMES = 1 << 18,
    PYR_BOOK_NODES = 1 << 18,
    PYR_BOOK_LISTS = 1 << 16,
    PYR_BOOK_LIST_BYTES = 1 << 23,
    PYR_BOOK_LIST_PAIRS = 64,
};

/* An empty book. Writers need to find stacks by their frames; readers do without that index. */
pyr_book *pyr_book_new(bool writes);
void pyr_book_free(pyr_book *book);

/* Numbers for things, new ones for new things. PYR_ETOOBIG: the book is full; PYR_ENOMEM. */
PYR_MUST_USE pyr_status pyr_book_string(pyr_book *book, const char *text, size_t length,
                                        uint32_t *number);
PYR_MUST_USE pyr_status pyr_book_function_add(pyr_book *book, const pyr_book_function *function,
                                              uint32_t *number);
PYR_MUST_USE pyr_status pyr_book_frame_add(pyr_book *book, const pyr_book_frame *frame,
                                           uint32_t *number);
PYR_MUST_USE pyr_status pyr_book_stack_add(pyr_book *book, uint32_t parent, uint32_t frame,
                                           uint32_t *number);
PYR_MUST_USE pyr_status pyr_book_list_add(pyr_book *book, const pyr_book_pair *pairs, size_t count,
                                          uint32_t *number);

/* What a number stands for; it must exist (see counts). Texts end with no NUL. */
const char *pyr_book_text(const pyr_book *book, uint32_t number, size_t *length);
pyr_book_function pyr_book_function_at(const pyr_book *book, uint32_t number);
pyr_book_frame pyr_book_frame_at(const pyr_book *book, uint32_t number);
pyr_book_node pyr_book_node_at(const pyr_book *book, uint32_t stack);
size_t pyr_book_list_at(const pyr_book *book, uint32_t number,
                        pyr_book_pair pairs[PYR_BOOK_LIST_PAIRS]);

typedef struct pyr_book_counts {
    size_t strings, functions, frames, nodes, lists;
} pyr_book_counts;

pyr_book_counts pyr_book_count(const pyr_book *book);

/* Bytes of memory, about. */
size_t pyr_book_bytes(const pyr_book *book);

/* Appends what is new since `from` as a chunk. */
PYR_MUST_USE pyr_status pyr_book_write(const pyr_book *book, pyr_book_counts from,
                                       pyr_packer *packer, pyr_buffer *out);

/* Adds a chunk, the next in order. PYR_EBAD: damaged. */
PYR_MUST_USE pyr_status pyr_book_read(pyr_book *book, pyr_packer *packer, const void *bytes,
                                      size_t length);

#endif
