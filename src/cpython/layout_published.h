/* The table of offsets that CPython 3.13 and later publish at the head of _PyRuntime, by the names
 * of its words. Private to cpython/layout.c, which is why the names are short. */
#ifndef PYR_CPYTHON_LAYOUT_PUBLISHED_H
#define PYR_CPYTHON_LAYOUT_PUBLISHED_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Words of published tables that are used; W_OTHER are not. */
typedef enum pyr_published_word {
    W_NONE,
    W_OTHER,
    W_COOKIE,
    W_VERSION,
    W_FREE_THREADED,
    W_RUNTIME_SIZE,
    W_RUNTIME_FINALIZING,
    W_RUNTIME_INTERPRETERS,
    W_INTERP_SIZE,
    W_INTERP_ID,
    W_INTERP_NEXT,
    W_INTERP_THREADS,
    W_INTERP_GC,
    W_INTERP_MODULES,
    W_INTERP_CEVAL_GIL,
    W_INTERP_GIL,
    W_GIL_LOCKED,
    W_GIL_HOLDER,
    W_THREAD_SIZE,
    W_THREAD_NEXT,
    W_THREAD_INTERP,
    W_THREAD_FRAME,
    W_THREAD_IDENT,
    W_THREAD_NATIVE_ID,
    W_THREAD_CHUNK,
    W_THREAD_STATUS,
    W_THREAD_GIL_REQUESTED,
    W_FRAME_SIZE,
    W_FRAME_PREVIOUS,
    W_FRAME_CODE,
    W_FRAME_INSTR,
    W_FRAME_LOCALS,
    W_FRAME_OWNER,
    W_FRAME_STACKPOINTER,
    W_ERR_VALUE,
    W_CODE_SIZE,
    W_CODE_FILENAME,
    W_CODE_NAME,
    W_CODE_QUALNAME,
    W_CODE_LINETABLE,
    W_CODE_FIRSTLINENO,
    W_CODE_ARGCOUNT,
    W_CODE_BYTECODE,
    W_OBJECT_TYPE,
    W_TYPE_SIZE,
    W_TYPE_NAME,
    W_TYPE_FLAGS,
    W_HEAP_TYPE_SIZE,
    W_HEAP_TYPE_KEYS,
    W_TUPLE_SIZE,
    W_TUPLE_LENGTH,
    W_DICT_SIZE,
    W_DICT_KEYS,
    W_DICT_VALUES,
    W_LONG_SIZE,
    W_LONG_TAG,
    W_LONG_DIGITS,
    W_BYTES_SIZE,
    W_BYTES_DATA,
    W_UNICODE_SIZE,
    W_UNICODE_STATE,
    W_UNICODE_LENGTH,
    W_UNICODE_ASCII,
    W_GC_COLLECTING,
    W_GEN_SIZE,
    W_GEN_FRAME,
    W_COUNT
} pyr_published_word;

#define PYR_WORD_ABSENT UINT64_MAX /* this version does not publish it */

enum { PYR_PUBLISHED_BYTES = 1024 }; /* no table is longer */

/* Bytes of the table that minor version `minor` publishes; 0 where it publishes none. */
size_t pyr_published_size(unsigned minor);

/* Pure: the version that the head of a table names, as PY_VERSION_HEX; 0 when it is no table. */
uint32_t pyr_published_version(const uint8_t *table, size_t length);

/* Pure: gives each word of a table its name. Offsets within the GIL become relative to its struct,
 * that of the collector's flag relative to the interpreter. PYR_EBAD with the index of the word at
 * fault in *bad (SIZE_MAX: too short, or no table at all). */
PYR_MUST_USE pyr_status pyr_published_read(const uint8_t *table, size_t length, unsigned minor,
                                           uint64_t words[W_COUNT], size_t *bad);

#endif
