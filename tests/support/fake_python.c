/* The made-up interpreter; see the header. Tests only, one thread. Aborts on misuse: a test that
 * writes beyond its memory is wrong. */
#include "support/fake_python.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/load.h"
#include "base/memory.h"
#include "cpython/layout.h"
#include "reader/image.h"
#include "support/image_stacks.h"

enum {
    RUNTIME_BYTES = 4096,
    INTERPRETER_BYTES = 8192,
    GIL_ROOM = 512,
    CHUNK_BYTES = 16384,
    CHUNK_HEADER_BYTES = 24,
    OWNED_BY_GENERATOR = 1,
    OWNED_BY_C_STACK = 3,
};

static const char *const versions[FAKE_MINORS] = {"3.11.7", "3.12.1", "3.13.0", "3.14.8", "3.15.0"};
static const uint8_t nops[FAKE_MINORS] = {9, 9, 30, 27, 25};

/* -------------------------------------------------------------------------------- memory ---- */

static ssize_t transfer(pyr_reader *reader, const struct iovec *spans, size_t count,
                        const struct iovec *destination)
{
    fake_python *python = (fake_python *)reader;
    uint8_t *out = destination->iov_base;
    size_t total = 0;
    python->calls++;
    if (python->refusal != 0) {
        errno = (int)python->refusal;
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        pyr_addr addr = (pyr_addr)spans[i].iov_base;
        size_t length = spans[i].iov_len;
        python->spans++;
        if (python->before_span) {
            python->before_span(python, addr, length);
        }
        size_t offset = addr - FAKE_BASE; /* wraps below: then it is too large */
        size_t there = offset < python->size ? python->size - offset : 0;
        size_t done = length < there ? length : there;
        if (done > 0) {
            memcpy(out + total, python->memory + offset, done);
        }
        total += done;
        if (done < length) {
            break;
        }
    }
    if (total == 0) {
        errno = EFAULT;
        return -1;
    }
    return (ssize_t)total;
}

static const char *method(const pyr_reader *reader)
{
    (void)reader;
    return "fake";
}

static void close_nothing(pyr_reader *reader)
{
    (void)reader;
}

static const pyr_reader_kind fake_kind = {transfer, method, NULL, close_nothing};

/* The layout that discovery finds in the recorded interpreter of that minor; kept. */
static const pyr_layout *recorded_layout(const char *tests_folder, unsigned index)
{
    static pyr_layout layouts[FAKE_MINORS];
    static bool known[FAKE_MINORS];
    if (known[index]) {
        return &layouts[index];
    }
    char path[512], why[200];
    size_t length;
    (void)snprintf(path, sizeof path, "%s/images/%s.img", tests_folder, versions[index]);
    uint8_t *image = image_file_read(path, &length);
    pyr_image_facts facts;
    pyr_reader *reader = NULL;
    const pyr_layout *found = NULL;
    if (image && pyr_image_read_facts(image, length, &facts) == PYR_OK &&
        pyr_reader_open_image(image, length, &reader) == PYR_OK &&
        pyr_layout_discover(reader, facts.runtime, facts.version, &found, why, sizeof why) ==
            PYR_OK) {
        layouts[index] = *found;
        known[index] = true;
    }
    pyr_layout_free(found);
    pyr_reader_close(reader);
    pyr_memory_free(image);
    return known[index] ? &layouts[index] : NULL;
}

bool fake_python_init(fake_python *python, const char *tests_folder, unsigned minor, size_t size)
{
    *python = (fake_python){.reader = {&fake_kind}, .size = size};
    const pyr_layout *layout = recorded_layout(tests_folder, minor - FAKE_FIRST_MINOR);
    python->memory = pyr_memory_new(size, 1);
    if (!layout || !python->memory) {
        pyr_memory_free(python->memory);
        return false;
    }
    python->layout = *layout;
    python->runtime = fake_alloc(python, RUNTIME_BYTES);
    python->code_type = fake_type(python, "code", 0);
    return true;
}

void fake_python_fini(fake_python *python)
{
    pyr_memory_free(python->memory);
    python->memory = NULL;
}

pyr_addr fake_alloc(fake_python *python, size_t bytes)
{
    size_t at = python->used;
    bytes = (bytes + 15) & ~(size_t)15;
    if (bytes > python->size - at) {
        (void)fprintf(stderr, "fake_python: out of memory\n");
        abort();
    }
    python->used += bytes;
    return FAKE_BASE + at;
}

uint8_t *fake_at(const fake_python *python, pyr_addr addr, size_t length)
{
    size_t offset = addr - FAKE_BASE;
    if (offset > python->size || length > python->size - offset) {
        (void)fprintf(stderr, "fake_python: no memory at %#lx\n", (unsigned long)addr);
        abort();
    }
    return python->memory + offset;
}

void fake_put(fake_python *python, pyr_addr addr, uint64_t value)
{
    memcpy(fake_at(python, addr, sizeof value), &value, sizeof value);
}

void fake_put32(fake_python *python, pyr_addr addr, uint32_t value)
{
    memcpy(fake_at(python, addr, sizeof value), &value, sizeof value);
}

void fake_put8(fake_python *python, pyr_addr addr, uint8_t value)
{
    *fake_at(python, addr, 1) = value;
}

uint64_t fake_get(const fake_python *python, pyr_addr addr)
{
    return pyr_load_u64(fake_at(python, addr, 8), 0);
}

/* ------------------------------------------------------------------------------- objects ---- */

pyr_addr fake_text(fake_python *python, const char *ascii)
{
    enum { ONE_BYTE = 1 << 2, COMPACT = 1 << 5, ASCII = 1 << 6 };
    size_t length = strlen(ascii);
    pyr_addr text = fake_alloc(python, python->layout.unicode_ascii + length + 1);
    fake_put(python, text + python->layout.unicode_length, length);
    fake_put32(python, text + python->layout.unicode_state, ONE_BYTE | COMPACT | ASCII);
    memcpy(fake_at(python, text + python->layout.unicode_ascii, length), ascii, length);
    return text;
}

pyr_addr fake_bytes(fake_python *python, const void *data, size_t length)
{
    pyr_addr object = fake_alloc(python, python->layout.bytes_data + length + 1);
    fake_put(python, object + python->layout.var_size, length);
    if (length > 0) {
        memcpy(fake_at(python, object + python->layout.bytes_data, length), data, length);
    }
    return object;
}

/* Entries without columns, one a unit: the first stays on the first line, each other adds one. */
static pyr_addr make_line_table(fake_python *python, uint32_t units)
{
    enum { NO_COLUMNS = 0xE8, PLUS_ONE = 2 };
    pyr_addr table = fake_bytes(python, NULL, 0);
    pyr_addr data = table + python->layout.bytes_data;
    if (units > 0) {
        (void)fake_alloc(python, 2UL * units);
    }
    for (uint32_t i = 0; i < units; i++) {
        fake_put8(python, data + 2 * i, NO_COLUMNS);
        fake_put8(python, data + 2 * i + 1, i == 0 ? 0 : PLUS_ONE);
    }
    fake_put(python, table + python->layout.var_size, 2UL * units);
    return table;
}

pyr_addr fake_code(fake_python *python, const char *qualname, const char *file, int first_line,
                   uint32_t units, const uint8_t *bytecode)
{
    const pyr_layout *layout = &python->layout;
    pyr_addr code = fake_alloc(python, layout->code_bytecode + 2UL * units);
    fake_put(python, code + layout->object_type, python->code_type);
    fake_put(python, code + layout->code_units, units);
    fake_put(python, code + layout->code_qualname, fake_text(python, qualname));
    fake_put(python, code + layout->code_filename, fake_text(python, file));
    fake_put(python, code + layout->code_linetable, make_line_table(python, units));
    fake_put(python, code + layout->code_exceptiontable, fake_bytes(python, NULL, 0));
    fake_put32(python, code + layout->code_firstlineno, (uint32_t)first_line);
    fake_put32(python, code + layout->code_nlocalsplus, 0);
    fake_put32(python, code + layout->code_stacksize, 8);
    for (uint32_t i = 0; i < units; i++) {
        uint8_t nop[2] = {nops[layout->minor - FAKE_FIRST_MINOR], 0};
        memcpy(fake_at(python, code + layout->code_bytecode + 2UL * i, 2),
               bytecode ? bytecode + 2UL * i : nop, 2);
    }
    return code;
}

pyr_addr fake_type(fake_python *python, const char *name, uint64_t basicsize)
{
    enum { TYPE_BYTES = 1024, NAME_ROOM = 160, READY = 1 << 12 };
    pyr_addr type = fake_alloc(python, TYPE_BYTES);
    pyr_addr text = fake_alloc(python, NAME_ROOM);
    memcpy(fake_at(python, text, strlen(name)), name, strlen(name));
    fake_put(python, type + python->layout.object_type, type);
    fake_put(python, type + python->layout.type_name, text);
    fake_put(python, type + python->layout.type_flags, READY);
    fake_put(python, type + python->layout.type_basicsize, basicsize);
    return type;
}

/* --------------------------------------------------------------- interpreters and threads ---- */

pyr_addr fake_gil_of(const fake_python *python, pyr_addr interpreter)
{
    return python->layout.interp_ceval_gil == PYR_FIELD_ABSENT
               ? python->runtime + python->layout.gil_runtime
               : fake_get(python, interpreter + python->layout.interp_ceval_gil);
}

pyr_addr fake_interpreter(fake_python *python)
{
    const pyr_layout *layout = &python->layout;
    pyr_addr interpreter = fake_alloc(python, INTERPRETER_BYTES);
    pyr_addr head = python->runtime + layout->runtime_interpreters_head;
    fake_put(python, interpreter + layout->interp_next, fake_get(python, head));
    fake_put(python, head, interpreter);
    if (layout->interp_ceval_gil != PYR_FIELD_ABSENT) {
        fake_put(python, interpreter + layout->interp_ceval_gil, fake_alloc(python, GIL_ROOM));
    }
    python->gil = fake_gil_of(python, interpreter);
    return interpreter;
}

static void new_chunk(fake_python *python, fake_thread *thread, size_t bytes)
{
    const pyr_layout *layout = &python->layout;
    pyr_addr chunk = fake_alloc(python, bytes);
    if (thread->chunk != 0) {
        fake_put(python, thread->chunk + layout->chunk_top,
                 (thread->top - thread->chunk - layout->chunk_data) / 8);
    }
    fake_put(python, chunk + layout->chunk_previous, thread->chunk);
    fake_put(python, chunk + layout->chunk_size, bytes);
    thread->chunk = chunk;
    thread->top = chunk + layout->chunk_data;
    thread->chunk_end = chunk + bytes;
    fake_put(python, thread->state + layout->thread_chunk, chunk);
    fake_put(python, thread->state + layout->thread_chunk_top, thread->top);
}

fake_thread fake_thread_new(fake_python *python, pyr_addr interpreter, uint64_t native_id)
{
    const pyr_layout *layout = &python->layout;
    fake_thread thread = {
        .state = fake_alloc(python, layout->thread_size), .locals = 4, .chunks = CHUNK_BYTES};
    pyr_addr head = interpreter + layout->interp_threads_head;
    uint64_t id = fake_get(python, interpreter + layout->interp_threads_next_id) + 1;
    fake_put(python, interpreter + layout->interp_threads_next_id, id);
    fake_put(python, thread.state + layout->thread_unique_id, id);
    fake_put(python, thread.state + layout->thread_interp, interpreter);
    fake_put(python, thread.state + layout->thread_native_id, native_id);
    fake_put(python, thread.state + layout->thread_ident, 0x7000000 + native_id);
    fake_put(python, thread.state + layout->thread_exc_info, fake_alloc(python, 16));
    if (pyr_layout_has_frame_link(layout)) {
        thread.link = fake_alloc(python, 64);
        fake_put(python, thread.state + pyr_layout_frame_link(layout), thread.link);
    }
    new_chunk(python, &thread, thread.chunks);
    fake_put(python, thread.state + layout->thread_next, fake_get(python, head));
    fake_put(python, head, thread.state);
    return thread;
}

void fake_thread_unlink(fake_python *python, pyr_addr interpreter, const fake_thread *thread)
{
    pyr_addr place = interpreter + python->layout.interp_threads_head;
    while (fake_get(python, place) != thread->state) {
        place = fake_get(python, place) + python->layout.thread_next;
    }
    fake_put(python, place, fake_get(python, thread->state + python->layout.thread_next));
    /* As a state that was freed and given to something else. */
    memset(fake_at(python, thread->state, python->layout.thread_size), 0xDD,
           python->layout.thread_size);
}

void fake_set_running(fake_python *python, pyr_addr frame, bool running)
{
    const pyr_layout *layout = &python->layout;
    uint32_t depth = pyr_layout_frame_depth(layout);
    if (depth != PYR_FIELD_ABSENT) {
        fake_put32(python, frame + depth, running ? UINT32_MAX : 1);
    } else if (fake_get(python, frame + layout->frame_stackpointer) == 0) {
        fake_put(python, frame + layout->frame_stackpointer, frame + layout->frame_locals + 8);
    }
}

void fake_set_current(fake_python *python, fake_thread *thread, pyr_addr frame, pyr_addr top)
{
    const pyr_layout *layout = &python->layout;
    thread->frame = frame;
    if (frame != 0) {
        fake_set_running(python, frame, true);
    }
    fake_put(python,
             pyr_layout_has_frame_link(layout) ? thread->link + pyr_layout_link_frame(layout)
                                               : thread->state + layout->thread_frame,
             frame);
    if (top != 0) {
        thread->top = top;
        fake_put(python, thread->state + layout->thread_chunk_top, top);
    }
}

void fake_goto(fake_python *python, pyr_addr frame, pyr_addr code, uint32_t unit)
{
    fake_put(python, frame + python->layout.frame_instr,
             code + python->layout.code_bytecode + 2UL * unit);
}

void fake_enter(fake_python *python, fake_thread *thread)
{
    const pyr_layout *layout = &python->layout;
    thread->from_c = true;
    if (layout->boundary == PYR_BOUNDARY_OWNER) {
        pyr_addr entry = fake_alloc(python, layout->frame_locals + 8);
        fake_put(python, entry + layout->frame_previous, thread->frame);
        fake_put8(python, entry + layout->frame_owner, OWNED_BY_C_STACK);
        fake_set_current(python, thread, entry, 0);
    }
}

pyr_addr fake_call(fake_python *python, fake_thread *thread, pyr_addr code, uint32_t unit,
                   fake_place place)
{
    const pyr_layout *layout = &python->layout;
    size_t bytes = (layout->frame_locals + 8 * thread->locals + 7) & ~(size_t)7;
    pyr_addr frame, top = 0;
    if (place == FAKE_GENERATOR) {
        frame = fake_alloc(python, bytes);
    } else {
        if (bytes > thread->chunk_end - thread->top) {
            size_t needed = bytes + CHUNK_HEADER_BYTES;
            new_chunk(python, thread, needed > thread->chunks ? needed : thread->chunks);
        }
        frame = thread->top;
        top = frame + bytes;
    }
    fake_put(python, frame + layout->frame_previous, thread->frame);
    fake_put(python, frame + layout->frame_code, code);
    fake_put8(python, frame + layout->frame_owner,
              place == FAKE_GENERATOR ? OWNED_BY_GENERATOR : 0);
    if (layout->boundary == PYR_BOUNDARY_ENTRY_FLAG) {
        fake_put8(python, frame + layout->frame_is_entry, thread->from_c);
    }
    fake_goto(python, frame, code, unit);
    if (thread->frame != 0 && !thread->from_c) {
        fake_set_running(python, thread->frame, false);
    }
    thread->from_c = false;
    fake_set_current(python, thread, frame, top);
    return frame;
}

void fake_take_gil(fake_python *python, pyr_addr gil, pyr_addr state)
{
    const pyr_layout *layout = &python->layout;
    fake_put32(python, gil + layout->gil_locked, state != 0);
    if (state != 0) {
        fake_put(python, gil + layout->gil_holder, state);
        fake_put(python, gil + layout->gil_locked + 8,
                 fake_get(python, gil + layout->gil_locked + 8) + 1);
    }
}
