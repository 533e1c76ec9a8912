/* Values of the target: strings, bytes, integers, types, attributes.
 *
 * Each function reads a few spans of the object and gives plain data. Objects may die while they
 * are read: results are bounded and well-formed, but whether they are true is for the caller to
 * prove (read the reference again). Any thread, one at a time per batch; not hook safe only where
 * a batch is asked for.
 */
#ifndef PYR_CPYTHON_OBJECTS_H
#define PYR_CPYTHON_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpython/layout.h"
#include "reader/reader.h"

enum { PYR_INSTANCE_BEFORE = 4 * sizeof(pyr_addr) };

/* What the head of a str object says. */
typedef struct pyr_text {
    size_t length;   /* characters */
    uint32_t offset; /* of the characters in the object; 0: unicode_compact holds their address */
    uint8_t kind;    /* bytes a character: 1, 2 or 4 */
    bool is_ascii;
} pyr_text;

/* Pure: reads the head, layout->unicode_ascii bytes. PYR_EBAD: no plausible str. Source: CPython's
 * cpython/unicodeobject.h. */
PYR_HOOK_SAFE PYR_MUST_USE pyr_status pyr_text_describe(const pyr_layout *layout,
                                                        const uint8_t *head, pyr_text *text);

/* Pure: `count` characters as NUL-terminated UTF-8, cut before the character that does not fit
 * `size` (at least 1). NUL, surrogates and what is no character become U+FFFD. Bytes written
 * without the NUL. */
PYR_HOOK_SAFE size_t pyr_text_decode(const uint8_t *characters, size_t count, uint8_t kind,
                                     char *out, size_t size);

/* Pure: a Python int of up to 63 bits, from its first layout->long_digits + 12 bytes (of which the
 * digits in use must be there). PYR_ETOOBIG beyond that. */
PYR_MUST_USE pyr_status pyr_int_decode(const pyr_layout *layout, const uint8_t *bytes,
                                       uint64_t *magnitude, bool *is_negative);

/* The str at `addr`, as pyr_text_decode does. *length may be NULL. PYR_EFAULT, PYR_EBAD. */
PYR_MUST_USE pyr_status pyr_object_text(pyr_reader *reader, const pyr_layout *layout, pyr_addr addr,
                                        char *out, size_t size, size_t *length);

/* The bytes object at `addr`. PYR_ETOOBIG: longer than `capacity`; *length tells how long (bounded
 * by PYR_LIMIT_BYTECODE_BYTES, beyond that PYR_EBAD). PYR_EFAULT. */
PYR_MUST_USE pyr_status pyr_object_bytes(pyr_reader *reader, const pyr_layout *layout,
                                         pyr_addr addr, uint8_t *out, size_t capacity,
                                         size_t *length);

/* True when `type` is str or a subclass of it. */
bool pyr_type_is_str(pyr_reader *reader, const pyr_layout *layout, pyr_addr type);

/* The type of the object at `addr`. PYR_EFAULT. */
PYR_MUST_USE pyr_status pyr_object_type(pyr_reader *reader, const pyr_layout *layout, pyr_addr addr,
                                        pyr_addr *type);

/* The name of the type at `type`: "ValueError", "json.decoder.JSONDecodeError", "__main__.Outer.C":
 * module and qualified name, "builtins." omitted; the bare name where the module cannot be found.
 * NUL-terminated UTF-8. The batch is cleared and used (64 KiB). PYR_EFAULT, PYR_EBAD. */
PYR_MUST_USE pyr_status pyr_object_type_name(pyr_reader *reader, pyr_batch *batch,
                                             const pyr_layout *layout, pyr_addr type, char *out,
                                             size_t size, size_t *length);

/* Pure: where an instance keeps its attributes, from the PYR_INSTANCE_BEFORE bytes before the
 * object and its type's tp_flags and tp_basicsize: the dict object in *dict, or, if that is 0, the
 * first value in *values (the keys are those cached in the type). PYR_ENOENT: it has none yet;
 * PYR_ENOTSUP: its type has no managed dictionary. */
PYR_MUST_USE pyr_status pyr_instance_locate(const pyr_layout *layout, pyr_addr object,
                                            const uint8_t before[PYR_INSTANCE_BEFORE],
                                            uint64_t flags, uint64_t basicsize, pyr_addr *dict,
                                            pyr_addr *values);

/* The attribute `name` (ASCII) in the instance's own dictionary or values. PYR_ENOENT: none (what
 * its class has does not count); PYR_ENOTSUP: instances of this type have no managed dictionary;
 * PYR_EFAULT, PYR_EBAD. The batch is cleared and used (64 KiB). */
PYR_MUST_USE pyr_status pyr_object_attribute(pyr_reader *reader, pyr_batch *batch,
                                             const pyr_layout *layout, pyr_addr object,
                                             const char *name, pyr_addr *value);

/* The name of the type of the exception being handled, from the innermost entry of a thread's
 * exception stack (what thread_exc_info points to): entries that handle nothing, as those of
 * generators, are passed over. PYR_ENOENT: none is being handled. PYR_EFAULT, PYR_EBAD. */
PYR_MUST_USE pyr_status pyr_object_exception_type(pyr_reader *reader, pyr_batch *batch,
                                                  const pyr_layout *layout, pyr_addr exc_info,
                                                  char *out, size_t size, size_t *length);

#endif
