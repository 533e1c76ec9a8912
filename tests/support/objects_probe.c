/* A shared library for check_objects.py: reads objects of its own process by the production code.
 * Loaded through ctypes, which releases the GIL around each call, as a sampler would find it. */
#include <string.h>

#include "base/memory.h"
#include "cpython/layout_fields.h"
#include "cpython/objects.h"
#include "cpython/thread_names.h"

#define PROBE_EXPORT __attribute__((visibility("default")))

typedef struct probe {
    pyr_reader *reader;
    pyr_batch *batch;
    const pyr_layout *layout;
    pyr_thread_names *names;
    pyr_addr interp; /* the main one */
} probe;

PROBE_EXPORT probe *objects_open(uint64_t runtime, uint32_t version, char *why, size_t why_size);
PROBE_EXPORT void objects_close(probe *self);
PROBE_EXPORT int objects_text(probe *self, uint64_t object, char *out, size_t size);
PROBE_EXPORT int objects_bytes(probe *self, uint64_t object, uint8_t *out, size_t size,
                               size_t *length);
PROBE_EXPORT int objects_int(probe *self, uint64_t object, uint64_t *magnitude);
PROBE_EXPORT int objects_type_name(probe *self, uint64_t type, char *out, size_t size);
PROBE_EXPORT int objects_attribute(probe *self, uint64_t object, const char *name, uint64_t *value);
PROBE_EXPORT int objects_refresh(probe *self);
PROBE_EXPORT int objects_refresh_at(probe *self, uint64_t interp);
PROBE_EXPORT size_t objects_count(probe *self);
PROBE_EXPORT const char *objects_name(probe *self, uint64_t ident);
PROBE_EXPORT int objects_exception(probe *self, uint64_t ident, char *out, size_t size);

probe *objects_open(uint64_t runtime, uint32_t version, char *why, size_t why_size)
{
    probe *self = pyr_memory_new(1, sizeof *self);
    if (!self || pyr_reader_open_self(&self->reader) != PYR_OK ||
        pyr_layout_discover(self->reader, runtime, version, &self->layout, why, why_size) !=
            PYR_OK) {
        return NULL;
    }
    self->batch = pyr_batch_new(1 << 16);
    self->names = pyr_thread_names_new(self->reader, self->layout);
    pyr_addr interp;
    pyr_status status = pyr_reader_read_addr(
        self->reader, runtime + self->layout->runtime_interpreters_head, &interp);
    while (status == PYR_OK && interp != 0) { /* the main interpreter is the last */
        self->interp = interp;
        status = pyr_reader_read_addr(self->reader, interp + self->layout->interp_next, &interp);
    }
    return self->batch && self->names ? self : NULL;
}

void objects_close(probe *self)
{
    pyr_thread_names_free(self->names);
    pyr_batch_free(self->batch);
    pyr_layout_free(self->layout);
    pyr_reader_close(self->reader);
    pyr_memory_free(self);
}

int objects_text(probe *self, uint64_t object, char *out, size_t size)
{
    return pyr_object_text(self->reader, self->layout, object, out, size, NULL);
}

int objects_bytes(probe *self, uint64_t object, uint8_t *out, size_t size, size_t *length)
{
    return pyr_object_bytes(self->reader, self->layout, object, out, size, length);
}

int objects_int(probe *self, uint64_t object, uint64_t *magnitude)
{
    uint8_t bytes[64] = {0};
    bool is_negative;
    pyr_status status = pyr_reader_read(self->reader, object, bytes, self->layout->long_digits + 8);
    if (status == PYR_OK) {
        status = pyr_int_decode(self->layout, bytes, magnitude, &is_negative);
    }
    return status == PYR_OK ? is_negative : status;
}

int objects_type_name(probe *self, uint64_t type, char *out, size_t size)
{
    size_t length;
    return pyr_object_type_name(self->reader, self->batch, self->layout, type, out, size, &length);
}

int objects_attribute(probe *self, uint64_t object, const char *name, uint64_t *value)
{
    pyr_addr found = 0;
    pyr_status status =
        pyr_object_attribute(self->reader, self->batch, self->layout, object, name, &found);
    *value = found;
    return status;
}

int objects_refresh(probe *self)
{
    return pyr_thread_names_refresh(self->names, self->interp);
}

int objects_refresh_at(probe *self, uint64_t interp)
{
    return pyr_thread_names_refresh(self->names, interp);
}

size_t objects_count(probe *self)
{
    return pyr_thread_names_count(self->names);
}

const char *objects_name(probe *self, uint64_t ident)
{
    size_t length;
    const char *name = pyr_thread_names_get(self->names, ident, &length);
    return name && strlen(name) == length ? name : NULL;
}

int objects_exception(probe *self, uint64_t ident, char *out, size_t size)
{
    pyr_addr thread = 0, exc_info;
    uint64_t seen;
    size_t length;
    pyr_status status = pyr_reader_read_addr(
        self->reader, self->interp + self->layout->interp_threads_head, &thread);
    for (int i = 0; i < PYR_LIMIT_THREADS && status == PYR_OK && thread != 0; i++) {
        status =
            pyr_reader_read(self->reader, thread + self->layout->thread_ident, &seen, sizeof seen);
        if (status == PYR_OK && seen == ident) {
            status = pyr_reader_read_addr(self->reader, thread + self->layout->thread_exc_info,
                                          &exc_info);
            return status == PYR_OK
                       ? pyr_object_exception_type(self->reader, self->batch, self->layout,
                                                   exc_info, out, size, &length)
                       : status;
        }
        if (status == PYR_OK) {
            status =
                pyr_reader_read_addr(self->reader, thread + self->layout->thread_next, &thread);
        }
    }
    return PYR_EFAULT;
}
