/* Unit tests of unwind/own_stack: stacks of a made-up interpreter of every minor version, put where
 * its addresses lead, since own stacks are followed where they lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "support/fake_python.h"
#include "unwind/own_stack.h"

enum { MEMORY = 4 << 20, TEXT_BYTES = 1 << 12, UNITS = 10, MANY = 4000, MOST_OF_CHANGES = 24 };

static pyr_code_deaths deaths;

typedef struct scene {
    fake_python python;
    pyr_addr interpreter;
    fake_thread thread;
    pyr_symbols *symbols;
    pyr_own_stacks *stacks;
    void *real; /* the interpreter's memory, at its addresses */
} scene;

static void scene_set(scene *self, unsigned minor, const pyr_code_deaths *hook, unsigned max_frames)
{
    memset(self, 0, sizeof *self);
    assert_true(fake_python_init(&self->python, PYR_TESTS_FOLDER, minor, MEMORY));
    self->interpreter = fake_interpreter(&self->python);
    self->thread = fake_thread_new(&self->python, self->interpreter, 7);
    self->symbols = pyr_symbols_new();
    self->stacks = pyr_own_stacks_new(&self->python.layout, self->python.code_type, hook,
                                      self->symbols, max_frames);
    assert_non_null(self->stacks);
    self->real = mmap((void *)FAKE_BASE, MEMORY, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    assert_ptr_equal(self->real, (void *)FAKE_BASE);
}

static void scene_clear(scene *self)
{
    assert_int_equal(munmap(self->real, MEMORY), 0);
    pyr_own_stacks_free(self->stacks);
    pyr_symbols_release(self->symbols);
    fake_python_fini(&self->python);
}

static void for_each_minor(const pyr_code_deaths *hook, unsigned max_frames,
                           void (*body)(scene *self))
{
    size_t before = pyr_memory_in_use();
    for (unsigned minor = FAKE_FIRST_MINOR; minor < FAKE_FIRST_MINOR + FAKE_MINORS; minor++) {
        scene self;
        scene_set(&self, minor, hook, max_frames);
        body(&self);
        scene_clear(&self);
    }
    assert_int_equal(pyr_memory_in_use(), before);
}

static pyr_addr code(scene *self, const char *name, int first_line)
{
    return fake_code(&self->python, name, "/app/main.py", first_line, UNITS, NULL);
}

/* The frame runs another code object. */
static void run(scene *self, pyr_addr frame, pyr_addr other, uint32_t unit)
{
    fake_put(&self->python, frame + self->python.layout.frame_code, other);
    fake_goto(&self->python, frame, other, unit);
}

static pyr_status walk(scene *self, pyr_own_stack *stack)
{
    memcpy(self->real, self->python.memory, self->python.used);
    return pyr_own_stack_walk(self->stacks, self->thread.state, stack);
}

/* "callee:305 caller:203" of a stack that must be there. */
static const char *walked(scene *self, pyr_own_stack *stack)
{
    static char text[TEXT_BYTES];
    size_t used = 0;
    text[0] = '\0';
    assert_int_equal(walk(self, stack), PYR_OK);
    assert_ptr_equal(stack->symbols, self->symbols);
    for (uint32_t i = 0; i < stack->count; i++) {
        pyr_function function = pyr_symbols_get(self->symbols, stack->frames[i].function);
        int length =
            snprintf(text + used, sizeof text - used, "%s%s:%u", i ? " " : "",
                     pyr_symbols_text(self->symbols, function.name, NULL), stack->frames[i].line);
        assert_true(length > 0 && (size_t)length < sizeof text - used);
        used += (size_t)length;
    }
    return text;
}

static void stacks(scene *self)
{
    pyr_own_stack stack;
    assert_string_equal(walked(self, &stack), "<no Python frame>:0");
    fake_enter(&self->python, &self->thread);
    (void)fake_call(&self->python, &self->thread, code(self, "root", 100), 1, FAKE_ON_STACK);
    (void)fake_call(&self->python, &self->thread, code(self, "caller", 200), 2, FAKE_ON_STACK);
    fake_enter(&self->python, &self->thread);
    (void)fake_call(&self->python, &self->thread, code(self, "gen", 300), 3, FAKE_GENERATOR);
    pyr_addr inner = code(self, "inner", 400);
    pyr_addr frame = fake_call(&self->python, &self->thread, inner, 4, FAKE_ON_STACK);
    assert_string_equal(walked(self, &stack), "inner:404 gen:303 caller:202 root:101");
    assert_int_equal(stack.omitted, 0);
    assert_int_equal(stack.thread_native_id, 7);
    assert_int_equal(
        stack.thread_id,
        fake_get(&self->python, self->thread.state + self->python.layout.thread_ident));
    pyr_function function = pyr_symbols_get(self->symbols, stack.frames[0].function);
    assert_string_equal(pyr_symbols_text(self->symbols, function.file, NULL), "/app/main.py");
    assert_int_equal(function.first_line, 400);

    bool has_caller;
    pyr_own_stack leaf;
    assert_int_equal(pyr_own_stack_leaf(self->stacks, self->thread.state, &leaf, &has_caller),
                     PYR_OK);
    assert_int_equal(leaf.count, 1);
    assert_int_equal(leaf.frames[0].function, stack.frames[0].function);
    assert_int_equal(leaf.frames[0].line, 404);
    assert_true(has_caller);

    /* The same functions at other lines, and again: now from the table. */
    fake_goto(&self->python, frame, inner, 8);
    assert_string_equal(walked(self, &stack), "inner:408 gen:303 caller:202 root:101");
    assert_string_equal(walked(self, &stack), "inner:408 gen:303 caller:202 root:101");

    /* A frame that has not come to its first instruction is no frame yet; a generator's is. */
    fake_put32(&self->python, inner + self->python.layout.code_firsttraceable, 9);
    pyr_code_deaths_note(&deaths, inner); /* that is another code object now */
    assert_string_equal(walked(self, &stack), "gen:303 caller:202 root:101");
    pyr_own_stack_stats stats;
    pyr_own_stacks_stats(self->stacks, &stats);
    assert_int_equal(stats.walks, 6);
    assert_int_equal(stats.frames, 17);
    assert_int_equal(stats.unnamed, 0);
}

static void test_stacks(void **state)
{
    (void)state;
    for_each_minor(&deaths, 64, stacks);
    for_each_minor(NULL, 64, stacks);
}

static void deep(scene *self)
{
    pyr_own_stack stack;
    fake_enter(&self->python, &self->thread);
    pyr_addr again = code(self, "again", 100);
    for (int i = 0; i < 1000; i++) {
        (void)fake_call(&self->python, &self->thread, again, 5, FAKE_ON_STACK);
    }
    assert_string_equal(walked(self, &stack), "again:105 again:105 again:105");
    assert_int_equal(stack.omitted, 997);
    /* A ring, which no interpreter makes, ends. */
    pyr_addr frame =
        fake_call(&self->python, &self->thread, code(self, "ring", 1), 0, FAKE_ON_STACK);
    fake_put(&self->python, frame + self->python.layout.frame_previous, frame);
    assert_string_equal(walked(self, &stack), "ring:1 ring:1 ring:1");
}

static void test_deep(void **state)
{
    (void)state;
    for_each_minor(&deaths, 3, deep);
}

/* A name holds until a code object dies in its place, and not longer. */
static void reuse(scene *self)
{
    pyr_own_stack stack;
    fake_enter(&self->python, &self->thread);
    pyr_addr reused = code(self, "first", 100);
    (void)fake_call(&self->python, &self->thread, reused, 5, FAKE_ON_STACK);
    assert_string_equal(walked(self, &stack), "first:105");
    fake_put(&self->python, reused + self->python.layout.code_qualname,
             fake_text(&self->python, "second"));
    assert_string_equal(walked(self, &stack), "first:105");
    pyr_code_deaths_note(&deaths, reused);
    assert_string_equal(walked(self, &stack), "second:105");
    assert_string_equal(walked(self, &stack), "second:105");
}

static void test_reuse(void **state)
{
    (void)state;
    for_each_minor(&deaths, 64, reuse);
}

/* Without the hook on deaths nothing is remembered. */
static void forgetful(scene *self)
{
    pyr_own_stack stack;
    fake_enter(&self->python, &self->thread);
    pyr_addr reused = code(self, "first", 100);
    (void)fake_call(&self->python, &self->thread, reused, 5, FAKE_ON_STACK);
    assert_string_equal(walked(self, &stack), "first:105");
    fake_put(&self->python, reused + self->python.layout.code_qualname,
             fake_text(&self->python, "second"));
    assert_string_equal(walked(self, &stack), "second:105");
}

static void test_forgetful(void **state)
{
    (void)state;
    for_each_minor(NULL, 64, forgetful);
}

/* More new names than there is room for: some frames go without, and say so, until tended. */
static void no_room(scene *self)
{
    pyr_own_stack stack;
    pyr_own_stack_stats stats = {0};
    int made = 0;
    fake_enter(&self->python, &self->thread);
    pyr_addr frame = fake_call(&self->python, &self->thread, code(self, "f", 1), 0, FAKE_ON_STACK);
    char name[32], expected[64];
    for (; made < MANY && stats.unnamed == 0; made++) {
        assert_false(pyr_own_stacks_want_room(self->stacks));
        (void)snprintf(name, sizeof name, "f%d", made);
        run(self, frame, code(self, name, 1), 0);
        (void)walked(self, &stack);
        pyr_own_stacks_stats(self->stacks, &stats);
    }
    assert_in_range(made, 2, MANY - 1);
    assert_true(pyr_own_stacks_want_room(self->stacks));
    assert_string_equal(walked(self, &stack), "<name not known>:0");
    assert_int_equal(pyr_own_stack_string(self->stacks, &stack, "no room either", 14), 0);
    pyr_own_stacks_tend(self->stacks);
    assert_false(pyr_own_stacks_want_room(self->stacks));
    (void)snprintf(expected, sizeof expected, "%s:1", name);
    assert_string_equal(walked(self, &stack), expected);
    assert_int_equal(pyr_symbols_overflows(self->symbols), 0);
}

static void test_no_room(void **state)
{
    (void)state;
    for_each_minor(&deaths, 64, no_room);
}

enum { CODES = 12, DEPTH = 40, STEPS = 600 };

/* Calls, returns, jumps, code objects that die and two threads in turn: what is known of the walk
 * before never shows in the next. */
static void changes(scene *self)
{
    pyr_own_stack stack, plain;
    pyr_addr codes[CODES], frames[2][DEPTH];
    uint32_t depths[2] = {0, 0};
    char name[32];
    fake_thread threads[2] = {self->thread, fake_thread_new(&self->python, self->interpreter, 8)};
    pyr_own_stacks *forgetful = pyr_own_stacks_new(&self->python.layout, self->python.code_type,
                                                   NULL, self->symbols, MOST_OF_CHANGES);
    assert_non_null(forgetful);
    for (int i = 0; i < CODES; i++) {
        (void)snprintf(name, sizeof name, "first%d", i);
        codes[i] = code(self, name, 100 * i);
    }
    /* One is never shown. */
    fake_put32(&self->python, codes[0] + self->python.layout.code_firsttraceable, UNITS);
    fake_enter(&self->python, &threads[0]);
    fake_enter(&self->python, &threads[1]);
    uint64_t random = 1;
    for (int i = 0; i < STEPS; i++) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        uint32_t choice = (uint32_t)(random >> 60), at = (uint32_t)(random >> 40) % CODES,
                 unit = (uint32_t)(random >> 50) % UNITS, which = (uint32_t)(random >> 35) & 1;
        uint32_t *depth = &depths[which];
        if (choice < 8 && *depth < DEPTH) {
            frames[which][(*depth)++] =
                fake_call(&self->python, &threads[which], codes[at], unit, FAKE_ON_STACK);
        } else if (choice < 12 && *depth > 1) {
            *depth -= 1 + choice % 2 * (*depth > 2);
            fake_set_current(&self->python, &threads[which], frames[which][*depth - 1], 0);
        } else if (choice < 14 && *depth > 0) {
            run(self, frames[which][*depth - 1], codes[at], unit);
        } else if (choice == 14) {
            (void)snprintf(name, sizeof name, "second%d", i);
            fake_put(&self->python, codes[at] + self->python.layout.code_qualname,
                     fake_text(&self->python, name));
            pyr_code_deaths_note(&deaths, codes[at]);
        }
        self->thread = threads[which];
        pyr_own_stacks_tend(self->stacks);
        assert_int_equal(walk(self, &stack), PYR_OK);
        assert_int_equal(pyr_own_stack_walk(forgetful, self->thread.state, &plain), PYR_OK);
        assert_int_equal(stack.count, plain.count);
        assert_int_equal(stack.omitted, plain.omitted);
        assert_memory_equal(stack.frames, plain.frames, plain.count * sizeof plain.frames[0]);
    }
    pyr_own_stacks_free(forgetful);
}

static void test_changes(void **state)
{
    (void)state;
    for_each_minor(&deaths, MOST_OF_CHANGES, changes);
}

static void busy(scene *self)
{
    pyr_own_stack stack;
    pyr_own_stack_stats stats;
    fake_enter(&self->python, &self->thread);
    (void)fake_call(&self->python, &self->thread, code(self, "f", 1), 0, FAKE_ON_STACK);
    pyr_own_stacks_prefork(self->stacks); /* holds the lock */
    assert_int_equal(walk(self, &stack), PYR_EBUSY);
    assert_int_equal(stack.count, 0);
    assert_int_equal(pyr_own_stack_string(self->stacks, &stack, "label", 5), 0);
    pyr_own_stacks_postfork_parent(self->stacks);
    pyr_own_stacks_prefork(self->stacks);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        pyr_own_stacks_postfork_child(self->stacks);
        _exit(strcmp(walked(self, &stack), "f:1") == 0 ? 0 : 1);
    }
    pyr_own_stacks_postfork_parent(self->stacks);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_string_equal(walked(self, &stack), "f:1");
    pyr_own_stacks_stats(self->stacks, &stats);
    assert_int_equal(stats.busy, 1);
    assert_int_equal(stats.walks, 1);
}

static void test_busy(void **state)
{
    (void)state;
    for_each_minor(&deaths, 64, busy);
}

static void renewal(scene *self)
{
    pyr_own_stack old, stack;
    fake_enter(&self->python, &self->thread);
    (void)fake_call(&self->python, &self->thread, code(self, "f", 1), 0, FAKE_ON_STACK);
    assert_string_equal(walked(self, &old), "f:1");
    uint32_t label = pyr_own_stack_string(self->stacks, &old, "label", 5);
    assert_string_equal(pyr_symbols_text(self->symbols, label, NULL), "label");
    pyr_symbols *next = pyr_symbols_new();
    pyr_own_stacks_renew(self->stacks, next);
    assert_int_equal(pyr_own_stack_string(self->stacks, &old, "label", 5), 0);
    pyr_symbols_release(self->symbols);
    self->symbols = next;
    assert_string_equal(walked(self, &stack), "f:1");
    label = pyr_own_stack_string(self->stacks, &stack, "label", 5);
    assert_string_equal(pyr_symbols_text(self->symbols, label, NULL), "label");
}

static void test_renewal(void **state)
{
    (void)state;
    for_each_minor(&deaths, 64, renewal);
}

static const char *thread_name(scene *self)
{
    pyr_own_stack stack;
    pyr_label labels[PYR_OWN_STACK_LABELS];
    (void)walked(self, &stack);
    assert_int_equal(pyr_own_stack_labels(&stack, labels), 3);
    assert_int_equal(labels[0].number, stack.thread_id);
    assert_int_equal(labels[1].number, 7);
    assert_int_equal(labels[2].key, PYR_LABEL_THREAD_NAME);
    return pyr_symbols_text(self->symbols, labels[2].text, NULL);
}

static void names_of_threads(scene *self)
{
    uint64_t ident = 7; /* of the kernel */
    assert_string_equal(thread_name(self), "");
    uint32_t name = pyr_symbols_string(self->symbols, "worker", 6);
    pyr_own_stacks_name_thread(self->stacks, ident, self->symbols, name);
    assert_string_equal(thread_name(self), "worker");
    /* Many others do not hide it for long, and names of an old table are none. */
    for (uint64_t other = 8; other < 5000; other++) {
        pyr_own_stacks_name_thread(self->stacks, other, self->symbols, name);
    }
    pyr_own_stacks_name_thread(self->stacks, ident, self->symbols, name);
    assert_string_equal(thread_name(self), "worker");
    pyr_own_stacks_name_thread(self->stacks, ident, NULL, 0);
    assert_string_equal(thread_name(self), "worker");
}

static void test_names_of_threads(void **state)
{
    (void)state;
    for_each_minor(&deaths, 64, names_of_threads);
}

/* What a version may leave in a frame's code slot, and texts that are none. */
static void odd(scene *self)
{
    const pyr_layout *layout = &self->python.layout;
    pyr_own_stack stack;
    fake_enter(&self->python, &self->thread);
    (void)fake_call(&self->python, &self->thread, code(self, "f", 1), 0, FAKE_ON_STACK);
    pyr_addr frame = fake_call(&self->python, &self->thread, code(self, "g", 1), 0, FAKE_ON_STACK);
    fake_put(&self->python, frame + layout->frame_code, 0);
    assert_string_equal(walked(self, &stack), "f:1");
    fake_put(&self->python, frame + layout->frame_code, fake_text(&self->python, "no code"));
    assert_string_equal(walked(self, &stack), "f:1");
    pyr_addr nameless = code(self, "h", 7);
    fake_put(&self->python, nameless + layout->code_qualname, 0);
    fake_put(&self->python,
             fake_get(&self->python, nameless + layout->code_linetable) + layout->var_size,
             UINT64_MAX / 2);
    run(self, frame, nameless, 3);
    assert_string_equal(walked(self, &stack), ":7 f:1");
    memcpy(self->real, self->python.memory, self->python.used);
    assert_int_equal(pyr_own_stack_walk(self->stacks, 0, &stack), PYR_OK);
    assert_int_equal(stack.count, 1); /* "<no Python frame>" */
    bool has_caller;
    assert_int_equal(pyr_own_stack_leaf(self->stacks, 0, &stack, &has_caller), PYR_OK);
    assert_int_equal(stack.count, 0);
}

static void test_odd(void **state)
{
    (void)state;
    for_each_minor(&deaths, 64, odd);
}

static void test_each_allocation_fails_once(void **state)
{
    (void)state;
    size_t before = pyr_memory_in_use();
    pyr_symbols *symbols = pyr_symbols_new();
    pyr_layout layout = {0};
    int failed = 1;
    for (size_t nth = 1; failed; nth++) {
        pyr_memory_fail_at(nth);
        pyr_own_stacks *made = pyr_own_stacks_new(&layout, 0, NULL, symbols, 64);
        failed = pyr_memory_has_failed();
        assert_true(made != NULL || failed);
        pyr_own_stacks_free(made);
    }
    pyr_memory_fail_at(0);
    pyr_own_stacks_free(NULL);
    pyr_symbols_release(symbols);
    assert_int_equal(pyr_memory_in_use(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stacks),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_reuse),
        cmocka_unit_test(test_forgetful),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_busy),
        cmocka_unit_test(test_renewal),
        cmocka_unit_test(test_odd),
        cmocka_unit_test(test_names_of_threads),
        cmocka_unit_test(test_each_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
