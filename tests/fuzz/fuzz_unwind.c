/* Fuzzes the list of threads and the unwinder on made-up interpreters whose memory changes while it
 * is read.
 *
 * Input: a minor version, a length and so many bytes of a program that makes threads and frames;
 * the rest are stores of 8 bytes each: before which span, where, what. Unlike lies about recorded
 * memory (fuzz_image), these stay, as those of a running program do.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/fake_python.h"
#include "unwind/threads.h"
#include "unwind/unwind.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY = 1 << 19, THREADS = 8, STEPS = 96, STORES = 64, STORE_BYTES = 8, CODES = 4 };

/* Instead of libc's: waiting for a thread that does not run would take most of the time. */
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *duration,
                    struct timespec *left)
{
    (void)clock;
    (void)flags;
    (void)duration;
    (void)left;
    return 0;
}

typedef struct store {
    uint16_t span;  /* before the n-th of the run */
    uint16_t place; /* word, counted from the first thread state */
    uint8_t kind;
    uint8_t value[3];
} store;

typedef struct scene {
    fake_python python;
    pyr_addr first; /* where stores go to */
    store stores[STORES];
    size_t store_count;
    pyr_addr codes[CODES];
    size_t done, max_frames;
    const pyr_symbols *symbols;
} scene;

static void apply(fake_python *python, const store *what, pyr_addr first)
{
    size_t words = (FAKE_BASE + python->used - first) / 8;
    pyr_addr place = first + 8 * (what->place % words);
    uint64_t word = fake_get(python, place);
    uint32_t value =
        what->value[0] | (uint32_t)what->value[1] << 8 | (uint32_t)what->value[2] << 16;
    switch (what->kind % 6) {
    case 0:
        word = value;
        break;
    case 1:
        word = UINT64_MAX - value;
        break;
    case 2: /* another place, or beside it */
        word = first + (uint64_t)value % (8 * words);
        break;
    case 3:
        word ^= (uint64_t)what->value[0] << (8 * (what->value[1] % 8));
        break;
    case 4:
        word += (uint64_t)(int8_t)what->value[0] * 8;
        break;
    default:
        word = fake_get(python, first + 8 * (value % words));
        break;
    }
    fake_put(python, place, word);
}

static void change(fake_python *python, pyr_addr addr, size_t length)
{
    (void)addr;
    (void)length;
    scene *self = python->context;
    for (size_t i = 0; i < self->store_count; i++) {
        if (self->stores[i].span == (uint16_t)python->spans) {
            apply(python, &self->stores[i], self->first);
        }
    }
}

/* Makes threads and frames as the program says. */
static void build(scene *self, const uint8_t *program, size_t length)
{
    fake_python *python = &self->python;
    pyr_addr interpreter = fake_interpreter(python);
    for (int i = 0; i < CODES; i++) {
        self->codes[i] = fake_code(python, "f", "/app/f.py", 10 * i + 1, 6, NULL);
    }
    fake_thread thread = fake_thread_new(python, interpreter, 1);
    self->first = thread.state;
    size_t threads = 1, interpreters = 1;
    for (size_t i = 0; i < length && i < STEPS; i++) {
        pyr_addr code = self->codes[program[i] >> 3 & 3];
        uint32_t unit = program[i] >> 5;
        switch (program[i] & 7) {
        case 0:
        case 1:
        case 2:
            (void)fake_call(python, &thread, code, unit, FAKE_ON_STACK);
            break;
        case 3:
            (void)fake_call(python, &thread, code, unit, FAKE_GENERATOR);
            break;
        case 4:
            fake_enter(python, &thread);
            break;
        case 5:
            fake_take_gil(python, python->gil, thread.state);
            break;
        case 6:
            if (threads < THREADS) {
                thread = fake_thread_new(python, interpreter, ++threads);
                thread.chunks = 512 + 64U * program[i];
            }
            break;
        default:
            if (interpreters < 3) {
                interpreter = fake_interpreter(python);
                interpreters++;
            }
        }
    }
}

static void note(void *context, const pyr_visit *visit)
{
    scene *self = context;
    self->done++;
    if (visit->status != PYR_OK) {
        return;
    }
    if (visit->count > self->max_frames) {
        abort();
    }
    for (uint32_t i = 0; i < visit->count; i++) {
        pyr_function function = pyr_symbols_get(self->symbols, visit->frames[i].function);
        size_t length;
        const char *name = pyr_symbols_text(self->symbols, function.name, &length);
        if (strlen(name) != length) {
            abort();
        }
    }
}

static void run(scene *self)
{
    fake_python *python = &self->python;
    static pyr_code_deaths deaths;
    pyr_symbols *symbols = pyr_symbols_new();
    pyr_threads *threads = pyr_threads_new(&python->reader, &python->layout, python->runtime);
    pyr_unwinder *unwinder = pyr_unwinder_new(&python->reader, &python->layout, python->code_type,
                                              &deaths, NULL, symbols, (unsigned)self->max_frames);
    if (!symbols || !threads || !unwinder) {
        abort();
    }
    self->symbols = symbols;
    pyr_stack_plan plans[THREADS] = {{0}};
    for (int tick = 0; tick < 3; tick++) {
        bool changed;
        if (pyr_threads_look(threads, &changed) != PYR_OK ||
            pyr_threads_update(threads) != PYR_OK) {
            continue;
        }
        pyr_visit visits[THREADS];
        size_t count = pyr_threads_count(threads);
        count = count < THREADS ? count : THREADS;
        for (size_t i = 0; i < count; i++) {
            /* Plans may be those of other threads, as after the reuse of a state. */
            visits[i] = (pyr_visit){.ref = pyr_threads_get(threads, i), .plan = &plans[i]};
        }
        self->done = 0;
        (void)!pyr_unwinder_visit(unwinder, NULL, NULL, visits, count, note, self);
        if (self->done != count) {
            abort();
        }
    }
    for (size_t i = 0; i < THREADS; i++) {
        pyr_stack_plan_fini(&plans[i]);
    }
    pyr_unwinder_free(unwinder);
    pyr_threads_free(threads);
    pyr_symbols_release(symbols);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static scene self;
    if (size < 2) {
        return 0;
    }
    unsigned minor = FAKE_FIRST_MINOR + data[0] % FAKE_MINORS;
    size_t length = data[1] < size - 2 ? data[1] : size - 2;
    memset(&self, 0, sizeof self);
    self.max_frames = data[0] >= 128 ? 4 : 64;
    if (!fake_python_init(&self.python, PYR_TESTS_FOLDER, minor, MEMORY)) {
        abort();
    }
    build(&self, data + 2, length);
    size_t rest = size - 2 - length;
    self.store_count = rest / STORE_BYTES < STORES ? rest / STORE_BYTES : STORES;
    memcpy(self.stores, data + 2 + length, self.store_count * STORE_BYTES);
    self.python.before_span = change;
    self.python.context = &self;
    run(&self);
    fake_python_fini(&self.python);
    return 0;
}
