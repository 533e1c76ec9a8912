/* A tiny made-up interpreter: thread states, data stacks, frames, code objects and texts, laid out
 * as a real minor version lays them out, in memory that only its reader can reach. Tests change the
 * memory at will, also between two spans of one read. One thread at a time. */
#ifndef PYR_SUPPORT_FAKE_PYTHON_H
#define PYR_SUPPORT_FAKE_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpython/layout_fields.h"
#include "reader/kind.h"

enum { FAKE_MINORS = 5, FAKE_FIRST_MINOR = 11 };

typedef struct fake_python {
    pyr_reader reader; /* first: this is a reader */
    pyr_layout layout;
    uint8_t *memory; /* everything lies here; addresses begin at FAKE_BASE */
    size_t size, used;
    pyr_addr runtime, code_type;
    pyr_addr gil;     /* of the last interpreter that was made */
    uint64_t spans;   /* read so far */
    uint64_t calls;   /* of transfer */
    uint64_t refusal; /* errno of every transfer; 0 = none */
    /* Called before each span is copied; may change memory. */
    void (*before_span)(struct fake_python *python, pyr_addr addr, size_t length);
    void *context; /* of before_span */
} fake_python;

#define FAKE_BASE ((pyr_addr)0x7f1200000000)

/* A thread and what its data stack is filled to. */
typedef struct fake_thread {
    pyr_addr state, frame, chunk, top, chunk_end;
    pyr_addr link;   /* cframe, where the version has one */
    bool from_c;     /* 3.11: the next frame is an entry from C */
    uint64_t locals; /* words of locals that frames get; set by tests */
    uint64_t chunks; /* bytes of the chunks to come; set by tests */
} fake_thread;

typedef enum fake_place {
    FAKE_ON_STACK,  /* frame of a function */
    FAKE_GENERATOR, /* outside the data stack, owned by a generator */
} fake_place;

/* An interpreter of the given minor with `size` bytes of memory and no thread; the layout comes
 * from the image recorded of that minor. False: no memory, or no image. */
bool fake_python_init(fake_python *python, const char *tests_folder, unsigned minor, size_t size);
void fake_python_fini(fake_python *python);

/* `bytes` zero bytes, 16-aligned. Aborts when the memory is full: make it larger. */
pyr_addr fake_alloc(fake_python *python, size_t bytes);

/* Reading and writing of its memory; aborts outside of it. */
uint8_t *fake_at(const fake_python *python, pyr_addr addr, size_t length);
void fake_put(fake_python *python, pyr_addr addr, uint64_t value);
void fake_put32(fake_python *python, pyr_addr addr, uint32_t value);
void fake_put8(fake_python *python, pyr_addr addr, uint8_t value);
uint64_t fake_get(const fake_python *python, pyr_addr addr);

/* Objects. A code object of `units` code units, unit i on line `first_line` + i, all NOP but what
 * `bytecode` (units * 2 bytes, NULL = none) says. */
pyr_addr fake_text(fake_python *python, const char *ascii);
pyr_addr fake_bytes(fake_python *python, const void *data, size_t length);
pyr_addr fake_code(fake_python *python, const char *qualname, const char *file, int first_line,
                   uint32_t units, const uint8_t *bytecode);
pyr_addr fake_type(fake_python *python, const char *name, uint64_t basicsize);

/* A new interpreter in front of the list, with a GIL of its own where the version can have one. */
pyr_addr fake_interpreter(fake_python *python);
pyr_addr fake_gil_of(const fake_python *python, pyr_addr interpreter);

/* A new thread in front of its interpreter's list. */
fake_thread fake_thread_new(fake_python *python, pyr_addr interpreter, uint64_t native_id);
void fake_thread_unlink(fake_python *python, pyr_addr interpreter, const fake_thread *thread);

/* The thread enters the interpreter from C: what hidden frame or flag the version has for it. */
void fake_enter(fake_python *python, fake_thread *thread);

/* Calls: a new current frame that stands at unit `unit`. Its address. */
pyr_addr fake_call(fake_python *python, fake_thread *thread, pyr_addr code, uint32_t unit,
                   fake_place place);

/* Sets where a frame stands. */
void fake_goto(fake_python *python, pyr_addr frame, pyr_addr code, uint32_t unit);

/* Makes a frame look as a running one does, or as one that has called: the first keeps no depth of
 * its stack, up to 3.13. fake_call and fake_set_current do it for their frames. */
void fake_set_running(fake_python *python, pyr_addr frame, bool running);

/* Makes `frame` the current one (0: none), and the data stack end at `top` (0: leave it). */
void fake_set_current(fake_python *python, fake_thread *thread, pyr_addr frame, pyr_addr top);

/* The thread (0: nobody) takes the GIL. */
void fake_take_gil(fake_python *python, pyr_addr gil, pyr_addr state);

#endif
