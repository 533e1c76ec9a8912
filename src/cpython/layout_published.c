/* What the words of a published table mean, for each minor version that publishes one.
 *
 * The tables change their shape between minor versions (groups are put in between), and each word
 * is 8 bytes. Sources: struct _Py_DebugOffsets in pycore_runtime.h (3.13) and
 * pycore_debug_offsets.h (later). A shape lists the words in order, one group of that struct below
 * the other; words that nothing here uses are W_OTHER. Pure, constant data, any thread.
 */
#include "cpython/layout_published.h"

#include <stdbool.h>
#include <string.h>

enum { FIRST_MINOR = 13, WORD_BYTES = 8, MAXIMUM_WORD = 1 << 24 /* of an offset or size */ };

/* clang-format off */
static const uint8_t shape_313[] = {
    /* head */
    W_COOKIE, W_VERSION, W_FREE_THREADED,
    /* runtime */
    W_RUNTIME_SIZE, W_RUNTIME_FINALIZING, W_RUNTIME_INTERPRETERS,
    /* interpreter */
    W_INTERP_SIZE, W_INTERP_ID, W_INTERP_NEXT, W_INTERP_THREADS, W_INTERP_GC, W_INTERP_MODULES,
    W_OTHER, W_OTHER, W_INTERP_CEVAL_GIL, W_INTERP_GIL, W_OTHER, W_GIL_LOCKED, W_GIL_HOLDER,
    /* thread */
    W_THREAD_SIZE, W_OTHER, W_THREAD_NEXT, W_THREAD_INTERP, W_THREAD_FRAME, W_THREAD_IDENT,
    W_THREAD_NATIVE_ID, W_THREAD_CHUNK, W_THREAD_STATUS,
    /* frame */
    W_FRAME_SIZE, W_FRAME_PREVIOUS, W_FRAME_CODE, W_FRAME_INSTR, W_FRAME_LOCALS, W_FRAME_OWNER,
    /* code */
    W_CODE_SIZE, W_CODE_FILENAME, W_CODE_NAME, W_CODE_QUALNAME, W_CODE_LINETABLE,
    W_CODE_FIRSTLINENO, W_CODE_ARGCOUNT, W_OTHER, W_OTHER, W_CODE_BYTECODE,
    /* object */
    W_OTHER, W_OBJECT_TYPE,
    /* type */
    W_TYPE_SIZE, W_TYPE_NAME, W_OTHER, W_TYPE_FLAGS,
    /* tuple */
    W_TUPLE_SIZE, W_OTHER, W_TUPLE_LENGTH,
    /* list */
    W_OTHER, W_OTHER, W_OTHER,
    /* dict */
    W_DICT_SIZE, W_DICT_KEYS, W_DICT_VALUES,
    /* float */
    W_OTHER, W_OTHER,
    /* int */
    W_LONG_SIZE, W_LONG_TAG, W_LONG_DIGITS,
    /* bytes */
    W_BYTES_SIZE, W_OTHER, W_BYTES_DATA,
    /* str */
    W_UNICODE_SIZE, W_UNICODE_STATE, W_UNICODE_LENGTH, W_UNICODE_ASCII,
    /* gc */
    W_OTHER, W_GC_COLLECTING,
};

static const uint8_t shape_314[] = {
    /* head */
    W_COOKIE, W_VERSION, W_FREE_THREADED,
    /* runtime */
    W_RUNTIME_SIZE, W_RUNTIME_FINALIZING, W_RUNTIME_INTERPRETERS,
    /* interpreter */
    W_INTERP_SIZE, W_INTERP_ID, W_INTERP_NEXT, W_INTERP_THREADS, W_OTHER, W_INTERP_GC,
    W_INTERP_MODULES, W_OTHER, W_OTHER, W_INTERP_CEVAL_GIL, W_INTERP_GIL, W_OTHER, W_GIL_LOCKED,
    W_GIL_HOLDER, W_OTHER, W_OTHER,
    /* thread */
    W_THREAD_SIZE, W_OTHER, W_THREAD_NEXT, W_THREAD_INTERP, W_THREAD_FRAME, W_THREAD_IDENT,
    W_THREAD_NATIVE_ID, W_THREAD_CHUNK, W_THREAD_STATUS,
    /* frame */
    W_FRAME_SIZE, W_FRAME_PREVIOUS, W_FRAME_CODE, W_FRAME_INSTR, W_FRAME_LOCALS, W_FRAME_OWNER,
    W_FRAME_STACKPOINTER, W_OTHER,
    /* code */
    W_CODE_SIZE, W_CODE_FILENAME, W_CODE_NAME, W_CODE_QUALNAME, W_CODE_LINETABLE,
    W_CODE_FIRSTLINENO, W_CODE_ARGCOUNT, W_OTHER, W_OTHER, W_CODE_BYTECODE, W_OTHER,
    /* object */
    W_OTHER, W_OBJECT_TYPE,
    /* type */
    W_TYPE_SIZE, W_TYPE_NAME, W_OTHER, W_TYPE_FLAGS,
    /* tuple */
    W_TUPLE_SIZE, W_OTHER, W_TUPLE_LENGTH,
    /* list */
    W_OTHER, W_OTHER, W_OTHER,
    /* set */
    W_OTHER, W_OTHER, W_OTHER, W_OTHER,
    /* dict */
    W_DICT_SIZE, W_DICT_KEYS, W_DICT_VALUES,
    /* float */
    W_OTHER, W_OTHER,
    /* int */
    W_LONG_SIZE, W_LONG_TAG, W_LONG_DIGITS,
    /* bytes */
    W_BYTES_SIZE, W_OTHER, W_BYTES_DATA,
    /* str */
    W_UNICODE_SIZE, W_UNICODE_STATE, W_UNICODE_LENGTH, W_UNICODE_ASCII,
    /* gc */
    W_OTHER, W_GC_COLLECTING,
    /* generator */
    W_GEN_SIZE, W_OTHER, W_GEN_FRAME, W_OTHER,
    /* llist */
    W_OTHER, W_OTHER,
    /* debugger */
    W_OTHER, W_OTHER, W_OTHER, W_OTHER, W_OTHER, W_OTHER,
};

static const uint8_t shape_315[] = {
    /* head */
    W_COOKIE, W_VERSION, W_FREE_THREADED,
    /* runtime */
    W_RUNTIME_SIZE, W_RUNTIME_FINALIZING, W_RUNTIME_INTERPRETERS,
    /* interpreter */
    W_INTERP_SIZE, W_INTERP_ID, W_INTERP_NEXT, W_INTERP_THREADS, W_OTHER, W_INTERP_GC,
    W_INTERP_MODULES, W_OTHER, W_OTHER, W_INTERP_CEVAL_GIL, W_INTERP_GIL, W_OTHER, W_GIL_LOCKED,
    W_GIL_HOLDER, W_OTHER, W_OTHER,
    /* thread */
    W_THREAD_SIZE, W_OTHER, W_THREAD_NEXT, W_THREAD_INTERP, W_THREAD_FRAME, W_OTHER, W_OTHER,
    W_OTHER, W_THREAD_IDENT, W_THREAD_NATIVE_ID, W_THREAD_CHUNK, W_THREAD_STATUS, W_OTHER,
    W_THREAD_GIL_REQUESTED, W_OTHER, W_OTHER,
    /* err_item */
    W_ERR_VALUE,
    /* frame */
    W_FRAME_SIZE, W_FRAME_PREVIOUS, W_FRAME_CODE, W_FRAME_INSTR, W_FRAME_LOCALS, W_FRAME_OWNER,
    W_FRAME_STACKPOINTER, W_OTHER,
    /* code */
    W_CODE_SIZE, W_CODE_FILENAME, W_CODE_NAME, W_CODE_QUALNAME, W_CODE_LINETABLE,
    W_CODE_FIRSTLINENO, W_CODE_ARGCOUNT, W_OTHER, W_OTHER, W_CODE_BYTECODE, W_OTHER,
    /* object */
    W_OTHER, W_OBJECT_TYPE,
    /* type */
    W_TYPE_SIZE, W_TYPE_NAME, W_OTHER, W_TYPE_FLAGS, W_OTHER, W_OTHER,
    /* heap_type */
    W_HEAP_TYPE_SIZE, W_HEAP_TYPE_KEYS,
    /* tuple */
    W_TUPLE_SIZE, W_OTHER, W_TUPLE_LENGTH,
    /* list */
    W_OTHER, W_OTHER, W_OTHER,
    /* set */
    W_OTHER, W_OTHER, W_OTHER, W_OTHER,
    /* dict */
    W_DICT_SIZE, W_DICT_KEYS, W_DICT_VALUES,
    /* float */
    W_OTHER, W_OTHER,
    /* int */
    W_LONG_SIZE, W_LONG_TAG, W_LONG_DIGITS,
    /* bytes */
    W_BYTES_SIZE, W_OTHER, W_BYTES_DATA,
    /* str */
    W_UNICODE_SIZE, W_UNICODE_STATE, W_UNICODE_LENGTH, W_UNICODE_ASCII, W_OTHER,
    /* gc */
    W_OTHER, W_GC_COLLECTING, W_OTHER, W_OTHER, W_OTHER,
    /* generator */
    W_GEN_SIZE, W_OTHER, W_GEN_FRAME, W_OTHER,
    /* llist */
    W_OTHER, W_OTHER,
    /* debugger */
    W_OTHER, W_OTHER, W_OTHER, W_OTHER, W_OTHER, W_OTHER,
};

/* clang-format on */

static const struct shape {
    const uint8_t *words;
    size_t count;
} shapes[] = {
    {shape_313, sizeof shape_313},
    {shape_314, sizeof shape_314},
    {shape_315, sizeof shape_315},
};

_Static_assert(sizeof shape_313 == 73, "3.13 publishes 73 words");
_Static_assert(sizeof shape_314 == 95, "3.14 publishes 95 words");
_Static_assert(sizeof shape_315 == 111, "3.15 publishes 111 words");

static const struct shape *find_shape(unsigned minor)
{
    size_t count = sizeof shapes / sizeof shapes[0];
    return minor >= FIRST_MINOR && minor - FIRST_MINOR < count ? &shapes[minor - FIRST_MINOR]
                                                               : NULL;
}

size_t pyr_published_size(unsigned minor)
{
    const struct shape *shape = find_shape(minor);
    return shape ? shape->count * WORD_BYTES : 0;
}

/* What every table begins with. */
static bool has_cookie(const uint8_t *table, size_t length)
{
    return length >= WORD_BYTES && memcmp(table, "xdebugpy", WORD_BYTES) == 0;
}

uint32_t pyr_published_version(const uint8_t *table, size_t length)
{
    uint64_t version = 0;
    if (has_cookie(table, length) && length >= 2 * WORD_BYTES) {
        memcpy(&version, table + WORD_BYTES, WORD_BYTES);
    }
    return version <= UINT32_MAX ? (uint32_t)version : 0;
}

pyr_status pyr_published_read(const uint8_t *table, size_t length, unsigned minor,
                              uint64_t words[W_COUNT], size_t *bad)
{
    const struct shape *shape = find_shape(minor);
    *bad = SIZE_MAX;
    if (!shape || length < shape->count * WORD_BYTES || !has_cookie(table, length)) {
        return PYR_EBAD;
    }
    for (size_t i = 0; i < W_COUNT; i++) {
        words[i] = PYR_WORD_ABSENT;
    }
    for (size_t i = 0; i < shape->count; i++) {
        pyr_published_word name = shape->words[i];
        memcpy(&words[name], table + i * WORD_BYTES, WORD_BYTES);
        if (name > W_FREE_THREADED && words[name] > MAXIMUM_WORD) {
            *bad = i;
            return PYR_EBAD;
        }
    }
    words[W_GIL_LOCKED] -= words[W_INTERP_GIL]; /* may wrap: no offset of a struct is that large */
    words[W_GIL_HOLDER] -= words[W_INTERP_GIL];
    words[W_GC_COLLECTING] += words[W_INTERP_GC];
    return PYR_OK;
}
