/* Unit tests of unwind/unwind and unwind/snapshot: stacks of a made-up interpreter of every minor
 * version, at rest, moving, broken. More than 600 lines, because all cases stand on one scene of
 * made-up threads, and most on the same few helpers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/memory.h"
#include "os/task.h"
#include "support/fake_python.h"
#include "unwind/unwind.h"

enum { MEMORY = 8 << 20, TEXT_BYTES = 1 << 14, FRAMES = 64 };

static pyr_code_deaths deaths; /* none died */

typedef struct scene {
    fake_python python;
    pyr_addr interpreter;
    pyr_symbols *symbols;
    pyr_unwinder *unwinder;
    pyr_addr root, caller, callee, generator, inner; /* code objects of 10 units each */
} scene;

static void scene_set(scene *self, unsigned minor, unsigned max_frames, size_t memory)
{
    memset(self, 0, sizeof *self);
    assert_true(fake_python_init(&self->python, PYR_TESTS_FOLDER, minor, memory));
    fake_python *python = &self->python;
    self->interpreter = fake_interpreter(python);
    self->symbols = pyr_symbols_new();
    self->unwinder = pyr_unwinder_new(&python->reader, &python->layout, python->code_type, &deaths,
                                      NULL, self->symbols, max_frames);
    assert_non_null(self->unwinder);
    self->root = fake_code(python, "root", "/app/main.py", 100, 10, NULL);
    self->caller = fake_code(python, "caller", "/app/main.py", 200, 10, NULL);
    self->callee = fake_code(python, "callee", "/app/main.py", 300, 10, NULL);
    self->generator = fake_code(python, "generator", "/app/main.py", 400, 10, NULL);
    self->inner = fake_code(python, "inner", "/app/main.py", 500, 10, NULL);
}

static void scene_clear(scene *self)
{
    pyr_unwinder_free(self->unwinder);
    pyr_symbols_release(self->symbols);
    fake_python_fini(&self->python);
}

static pyr_thread_ref ref_of(const scene *self, const fake_thread *thread)
{
    const pyr_layout *layout = &self->python.layout;
    return (pyr_thread_ref){
        .state = thread->state,
        .interpreter = self->interpreter,
        .gil = fake_gil_of(&self->python, self->interpreter),
        .native_id = fake_get(&self->python, thread->state + layout->thread_native_id),
        .unique_id = fake_get(&self->python, thread->state + layout->thread_unique_id),
    };
}

/* What a visit saw, kept beyond it. */
typedef struct seen {
    const scene *scene;
    pyr_visit visit;
    unsigned done;
    char text[TEXT_BYTES]; /* "callee:305 caller:203 ..." */
} seen;

static void note(void *context, const pyr_visit *visit)
{
    seen *self = context;
    self->visit = *visit;
    self->done++;
    self->text[0] = 0;
    size_t used = 0;
    for (uint32_t i = 0; visit->status == PYR_OK && i < visit->count; i++) {
        pyr_function function = pyr_symbols_get(self->scene->symbols, visit->frames[i].function);
        int length = snprintf(self->text + used, sizeof self->text - used, "%s%s:%u", i ? " " : "",
                              pyr_symbols_text(self->scene->symbols, function.name, NULL),
                              visit->frames[i].line);
        assert_true(length > 0 && (size_t)length < sizeof self->text - used);
        used += (size_t)length;
    }
}

static const seen *visit_ref(scene *self, const pyr_thread_ref *ref, pyr_stack_plan *plan)
{
    static seen result;
    result.scene = self;
    result.done = 0;
    pyr_visit visit = {.ref = ref, .plan = plan};
    (void)!pyr_unwinder_visit(self->unwinder, NULL, NULL, &visit, 1, note, &result);
    assert_int_equal(result.done, 1);
    return &result;
}

static const seen *visit_thread(scene *self, const fake_thread *thread, pyr_stack_plan *plan)
{
    pyr_thread_ref ref = ref_of(self, thread);
    return visit_ref(self, &ref, plan);
}

static void assert_stack(scene *self, const fake_thread *thread, const char *expected)
{
    pyr_stack_plan plan = {0};
    const seen *result = visit_thread(self, thread, &plan);
    assert_int_equal(result->visit.status, PYR_OK);
    assert_string_equal(result->text, expected);
    assert_true(result->visit.rooted);
    assert_int_equal(result->visit.omitted, 0);
    pyr_stack_plan_fini(&plan);
}

/* Runs a test body for each minor version. */
static void for_each_minor(unsigned max_frames, void (*body)(scene *self))
{
    size_t before = pyr_memory_in_use();
    for (unsigned minor = FAKE_FIRST_MINOR; minor < FAKE_FIRST_MINOR + FAKE_MINORS; minor++) {
        scene self;
        scene_set(&self, minor, max_frames, MEMORY);
        body(&self);
        scene_clear(&self);
    }
    assert_int_equal(pyr_memory_in_use(), before);
}

/* -------------------------------------------------------------------------------- at rest ---- */

static void order(scene *self)
{
    fake_python *python = &self->python;
    fake_thread thread = fake_thread_new(python, self->interpreter, 7);
    fake_enter(python, &thread);
    (void)fake_call(python, &thread, self->root, 1, FAKE_ON_STACK);
    (void)fake_call(python, &thread, self->caller, 2, FAKE_ON_STACK);
    assert_stack(self, &thread, "caller:202 root:101");
    /* a coroutine that awaits another one, which calls a function */
    (void)fake_call(python, &thread, self->generator, 3, FAKE_GENERATOR);
    (void)fake_call(python, &thread, self->inner, 4, FAKE_GENERATOR);
    assert_stack(self, &thread, "inner:504 generator:403 caller:202 root:101");
    (void)fake_call(python, &thread, self->callee, 5, FAKE_ON_STACK);
    assert_stack(self, &thread, "callee:305 inner:504 generator:403 caller:202 root:101");
    /* C code calls back: nothing of it shows */
    fake_enter(python, &thread);
    (void)fake_call(python, &thread, self->caller, 9, FAKE_ON_STACK);
    assert_stack(self, &thread,
                 "caller:209 callee:305 inner:504 generator:403 caller:202 root:101");
}

static void test_order(void **state)
{
    (void)state;
    for_each_minor(FRAMES, order);
}

static void no_frames(scene *self)
{
    fake_thread thread = fake_thread_new(&self->python, self->interpreter, 7);
    pyr_stack_plan plan = {0};
    const seen *result = visit_thread(self, &thread, &plan);
    assert_int_equal(result->visit.status, PYR_OK);
    assert_int_equal(result->visit.count, 0);
    pyr_stack_plan_fini(&plan);
}

static void test_no_frames(void **state)
{
    (void)state;
    for_each_minor(FRAMES, no_frames);
}

/* A generator has no caller while it is about to run, and after its yield: not a whole stack. */
static void generator_without_caller(scene *self)
{
    fake_python *python = &self->python;
    fake_thread thread = fake_thread_new(python, self->interpreter, 7);
    thread.from_c = true; /* 3.11 leaves the flag of an earlier entry standing */
    (void)fake_call(python, &thread, self->generator, 3, FAKE_GENERATOR);
    pyr_stack_plan plan = {0};
    const seen *result = visit_thread(self, &thread, &plan);
    assert_int_equal(result->visit.status, PYR_ETORN);
    assert_int_equal(result->visit.tries, PYR_LIMIT_TRIES);
    pyr_stack_plan_fini(&plan);
}

static void test_generator_without_caller(void **state)
{
    (void)state;
    for_each_minor(FRAMES, generator_without_caller);
}

/* The plan of the first visit serves the second: one try, one call. */
static void plan_is_kept(scene *self)
{
    fake_python *python = &self->python;
    fake_thread thread = fake_thread_new(python, self->interpreter, 7);
    fake_enter(python, &thread);
    (void)fake_call(python, &thread, self->root, 1, FAKE_ON_STACK);
    (void)fake_call(python, &thread, self->generator, 1, FAKE_GENERATOR);
    pyr_addr frame = fake_call(python, &thread, self->callee, 1, FAKE_ON_STACK);
    pyr_stack_plan plan = {0};
    assert_int_equal(visit_thread(self, &thread, &plan)->visit.learned, 1);
    uint64_t calls = python->calls;
    fake_goto(python, frame, self->callee, 7);
    const seen *result = visit_thread(self, &thread, &plan);
    assert_string_equal(result->text, "callee:307 generator:401 root:101");
    assert_int_equal(result->visit.learned, 0);
    assert_int_equal(result->visit.tries, 1);
    assert_int_equal(python->calls - calls, 1);
    /* One call deeper, into the bytes copied beyond the top: still no learning. */
    (void)fake_call(python, &thread, self->inner, 2, FAKE_ON_STACK);
    result = visit_thread(self, &thread, &plan);
    assert_string_equal(result->text, "inner:502 callee:307 generator:401 root:101");
    assert_int_equal(result->visit.learned, 0);
    pyr_unwind_stats stats;
    pyr_unwinder_stats(self->unwinder, &stats);
    assert_int_equal(stats.visits, 3);
    assert_int_equal(stats.tries, 4);
    assert_int_equal(stats.learned, 1);
    assert_int_equal(stats.torn + stats.no_root + stats.unreadable + stats.stale, 0);
    pyr_stack_plan_fini(&plan);
}

static void test_plan_is_kept(void **state)
{
    (void)state;
    for_each_minor(FRAMES, plan_is_kept);
}

/* Recursion over many chunks; exactly the frames asked for, and a count of the others. */
static void recursion(scene *self)
{
    fake_python *python = &self->python;
    fake_thread thread = fake_thread_new(python, self->interpreter, 7);
    thread.chunks = 4096;
    fake_enter(python, &thread);
    for (unsigned depth = 1; depth <= 300; depth++) {
        (void)fake_call(python, &thread, depth == 1 ? self->root : self->caller, 1, FAKE_ON_STACK);
        if (depth != 63 && depth != 64 && depth != 65 && depth != 300) {
            continue;
        }
        pyr_stack_plan plan = {0};
        const seen *result = visit_thread(self, &thread, &plan);
        assert_int_equal(result->visit.status, PYR_OK);
        assert_int_equal(result->visit.count, depth < FRAMES ? depth : FRAMES);
        assert_int_equal(result->visit.omitted, depth < FRAMES ? 0 : depth - FRAMES);
        assert_true(result->visit.rooted);
        assert_int_equal(plan.deep, false);
        if (depth == 300) {
            assert_true(plan.piece_count > 3);
        }
        pyr_stack_plan_fini(&plan);
    }
}

static void test_recursion(void **state)
{
    (void)state;
    for_each_minor(FRAMES, recursion);
}

/* Deeper than what is copied: its upper end, marked as cut. */
static void deeper_than_copied(scene *self)
{
    fake_python *python = &self->python;
    fake_thread thread = fake_thread_new(python, self->interpreter, 7);
    thread.locals = 500;
    fake_enter(python, &thread);
    (void)fake_call(python, &thread, self->root, 1, FAKE_ON_STACK);
    for (unsigned depth = 0; depth < 1500; depth++) {
        (void)fake_call(python, &thread, self->caller, 2, FAKE_ON_STACK);
    }
    pyr_stack_plan plan = {0};
    for (int visits = 0; visits < 2; visits++) {
        const seen *result = visit_thread(self, &thread, &plan);
        assert_int_equal(result->visit.status, PYR_OK);
        assert_int_equal(result->visit.count, FRAMES);
        assert_false(result->visit.rooted);
        assert_true(result->visit.omitted > 0);
        assert_true(plan.deep);
        assert_int_equal(result->visit.tries, visits == 0 ? 2 : 1);
    }
    pyr_stack_plan_fini(&plan);
}

static void test_deeper_than_copied(void **state)
{
    (void)state;
    for_each_minor(FRAMES, deeper_than_copied);
}

/* More frames outside the data stack than are copied: nested generators, and recursion through C,
 * which leaves an entry frame on the C stack for each level. */
static void many_outside(scene *self)
{
    fake_python *python = &self->python;
    for (int through_c = 0; through_c < 2; through_c++) {
        fake_thread thread = fake_thread_new(python, self->interpreter, 7);
        fake_enter(python, &thread);
        (void)fake_call(python, &thread, self->root, 1, FAKE_ON_STACK);
        for (unsigned depth = 0; depth < 900; depth++) {
            if (through_c) {
                fake_enter(python, &thread);
            }
            (void)fake_call(python, &thread, self->generator, 2,
                            through_c ? FAKE_ON_STACK : FAKE_GENERATOR);
        }
        pyr_stack_plan plan = {0};
        for (int visits = 0; visits < 2; visits++) {
            const seen *result = visit_thread(self, &thread, &plan);
            assert_int_equal(result->visit.status, PYR_OK);
            assert_memory_equal(result->text, "generator:402 generator:402 ", 28);
            assert_true(result->visit.count + result->visit.omitted >= 400);
            if (result->visit.rooted) {
                assert_int_equal(result->visit.count + result->visit.omitted, 901);
            } else {
                assert_true(result->visit.omitted > 0);
            }
        }
        /* ... and when it came back, all is seen again. */
        fake_set_current(python, &thread, 0, thread.chunk + python->layout.chunk_data);
        fake_enter(python, &thread);
        (void)fake_call(python, &thread, self->root, 1, FAKE_ON_STACK);
        const seen *result = visit_thread(self, &thread, &plan);
        assert_string_equal(result->text, "root:101");
        assert_true(result->visit.rooted);
        pyr_stack_plan_fini(&plan);
    }
}

static void test_many_outside(void **state)
{
    (void)state;
    for_each_minor(FRAMES, many_outside);
    for_each_minor(PYR_LIMIT_FRAMES, many_outside);
}

/* --------------------------------------------------------------------- GIL and exceptions ---- */

static pyr_addr changed_gil;
static uint64_t change_at;

static void switch_gil_twice(fake_python *python, pyr_addr addr, size_t length)
{
    (void)addr;
    (void)length;
    if (python->spans == change_at) {
        pyr_addr holder = fake_get(python, changed_gil + python->layout.gil_holder);
        fake_take_gil(python, changed_gil, holder + 64);
        fake_take_gil(python, changed_gil, holder);
    }
}

static void gil(scene *self)
{
    fake_python *python = &self->python;
    const pyr_layout *layout = &python->layout;
    fake_thread thread = fake_thread_new(python, self->interpreter, 7);
    fake_enter(python, &thread);
    (void)fake_call(python, &thread, self->root, 1, FAKE_ON_STACK);
    pyr_stack_plan plan = {0};
    const seen *result = visit_thread(self, &thread, &plan);
    assert_false(result->visit.holds_gil);
    assert_true(result->visit.gil_free);
    fake_take_gil(python, python->gil, thread.state);
    result = visit_thread(self, &thread, &plan);
    assert_true(result->visit.holds_gil);
    assert_false(result->visit.gil_free);
    /* Given away and taken again between the two copies: no proof. */
    changed_gil = python->gil;
    change_at = python->spans + 3;
    python->before_span = switch_gil_twice;
    result = visit_thread(self, &thread, &plan);
    python->before_span = NULL;
    assert_int_equal(result->visit.status, PYR_OK);
    assert_false(result->visit.holds_gil);
    assert_false(result->visit.gil_free);
    fake_take_gil(python, python->gil, thread.state + 64);
    result = visit_thread(self, &thread, &plan);
    assert_false(result->visit.holds_gil);
    assert_false(result->visit.gil_free);
    assert_false(result->visit.gil_requested);
    if (layout->thread_gil_requested != PYR_FIELD_ABSENT) {
        fake_put32(python, thread.state + layout->thread_gil_requested, 1);
        assert_true(visit_thread(self, &thread, &plan)->visit.gil_requested);
    }
    /* A thread of which the GIL is not known never holds it. */
    pyr_thread_ref ref = ref_of(self, &thread);
    ref.gil = 0;
    result = visit_ref(self, &ref, &plan);
    assert_int_equal(result->visit.status, PYR_OK);
    assert_false(result->visit.holds_gil || result->visit.gil_free);
    pyr_stack_plan_fini(&plan);
}

static void test_gil(void **state)
{
    (void)state;
    for_each_minor(FRAMES, gil);
}

/* The kernel's word on the CPU comes with the stack, where thread ids lead to it. */
static void cpu(scene *self)
{
    fake_python *python = &self->python;
    fake_thread thread = fake_thread_new(python, self->interpreter, 7);
    fake_enter(python, &thread);
    (void)fake_call(python, &thread, self->root, 1, FAKE_ON_STACK);
    pyr_stack_plan plan = {0};
    pyr_thread_ref ref = ref_of(self, &thread);
    assert_int_equal(visit_ref(self, &ref, &plan)->visit.cpu, -1);
    pyr_addr where = fake_alloc(python, 8);
    fake_put32(python, where, 5);
    int64_t offset = pyr_os_task_cpu_offset();
    ref.ident = (uint64_t)((int64_t)where - offset);
    assert_int_equal(visit_ref(self, &ref, &plan)->visit.cpu, offset != 0 ? 5 : -1);
    ref.ident = 8; /* leads nowhere */
    const seen *result = visit_ref(self, &ref, &plan);
    assert_int_equal(result->visit.status, PYR_OK);
    assert_int_equal(result->visit.cpu, -1);
    pyr_stack_plan_fini(&plan);
}

static void test_cpu(void **state)
{
    (void)state;
    for_each_minor(FRAMES, cpu);
}

static void exception(scene *self)
{
    fake_python *python = &self->python;
    const pyr_layout *layout = &python->layout;
    fake_thread thread = fake_thread_new(python, self->interpreter, 7);
    fake_enter(python, &thread);
    (void)fake_call(python, &thread, self->root, 1, FAKE_ON_STACK);
    pyr_stack_plan plan = {0};
    assert_int_equal(visit_thread(self, &thread, &plan)->visit.exception, 0);
    pyr_addr error = fake_alloc(python, 64);
    fake_put(python, error + layout->object_type, fake_type(python, "ValueError", 64));
    pyr_addr item = fake_get(python, thread.state + layout->thread_exc_info);
    fake_put(python, item + layout->err_value, error);
    const seen *result = visit_thread(self, &thread, &plan);
    assert_string_equal(pyr_symbols_text(self->symbols, result->visit.exception, NULL),
                        "ValueError");
    /* In a generator that handles nothing itself. */
    pyr_addr above = fake_alloc(python, 16);
    fake_put(python, above + layout->err_previous, item);
    fake_put(python, thread.state + layout->thread_exc_info, above);
    result = visit_thread(self, &thread, &plan);
    assert_string_equal(pyr_symbols_text(self->symbols, result->visit.exception, NULL),
                        "ValueError");
    /* Lists without end, and nonsense. */
    fake_put(python, item + layout->err_value, 0);
    fake_put(python, item + layout->err_previous, above);
    result = visit_thread(self, &thread, &plan);
    assert_int_equal(result->visit.status, PYR_OK);
    assert_int_equal(result->visit.exception, 0);
    fake_put(python, thread.state + layout->thread_exc_info, 0x10);
    result = visit_thread(self, &thread, &plan);
    assert_int_equal(result->visit.status, PYR_OK);
    assert_int_equal(result->visit.exception, 0);
    pyr_stack_plan_fini(&plan);
}

static void test_exception(void **state)
{
    (void)state;
    for_each_minor(FRAMES, exception);
}

static void renew(scene *self)
{
    fake_python *python = &self->python;
    fake_thread thread = fake_thread_new(python, self->interpreter, 7);
    fake_enter(python, &thread);
    (void)fake_call(python, &thread, self->root, 1, FAKE_ON_STACK);
    assert_stack(self, &thread, "root:101");
    pyr_symbols_release(self->symbols);
    self->symbols = pyr_symbols_new();
    (void)pyr_symbols_function(self->symbols, "other", 5, "", 0, 1);
    pyr_unwinder_renew(self->unwinder, self->symbols);
    assert_stack(self, &thread, "root:101");
    pyr_frame made = pyr_unwinder_synthetic(self->unwinder, "<made>");
    pyr_function function = pyr_symbols_get(self->symbols, made.function);
    assert_string_equal(pyr_symbols_text(self->symbols, function.name, NULL), "<made>");
}

static void test_renew(void **state)
{
    (void)state;
    for_each_minor(FRAMES, renew);
}

/* --------------------------------------------------------------------------------- moving ---- */

/* A program that runs while it is read, one store at a time: root calls caller at its unit 1 and
 * callee at its unit 2; either calls inner at its unit 3; for a generator, inner is one. */
typedef struct program {
    fake_thread *thread;
    const scene *scene;
    uint64_t random;
    unsigned at; /* step */
    pyr_addr root_frame, low, high;
    pyr_addr generator_frame; /* 0: inner is a function */
} program;

static uint64_t next_random(uint64_t *random)
{
    *random = *random * 6364136223846793005U + 1442695040888963407U;
    return *random >> 33;
}

/* The stores that make a frame and that make it current, each a step of its own. */
static void push_step(program *self, fake_python *python, unsigned step, pyr_addr frame,
                      pyr_addr previous, pyr_addr code, bool generator)
{
    const pyr_layout *layout = &python->layout;
    switch (step) {
    case 0:
        fake_put(python, frame + layout->frame_code, code);
        fake_put8(python, frame + layout->frame_owner, generator);
        break;
    case 1:
        fake_goto(python, frame, code, 3);
        break;
    case 2:
        fake_put(python, frame + layout->frame_previous, previous);
        break;
    default:
        fake_set_current(python, self->thread, frame,
                         generator ? 0 : frame + layout->frame_locals + 64);
    }
}

static void program_step(program *self, fake_python *python)
{
    const scene *codes = self->scene;
    unsigned half = self->at / 14, step = self->at % 14;
    pyr_addr code = half ? codes->callee : codes->caller;
    pyr_addr high = self->generator_frame ? self->generator_frame : self->high;
    if (step == 0) {
        fake_goto(python, self->root_frame, codes->root, half ? 2 : 1);
    } else if (step < 5) {
        push_step(self, python, step - 1, self->low, self->root_frame, code, false);
    } else if (step < 9) {
        push_step(self, python, step - 5, high, self->low, codes->inner,
                  self->generator_frame != 0);
    } else if (step == 9) { /* inner works for a while, then returns */
        if (next_random(&self->random) % 8 != 0) {
            return;
        }
        fake_set_current(python, self->thread, self->low, self->high);
    } else if (step == 10 && self->generator_frame) {
        fake_put(python, high + python->layout.frame_previous, 0);
    } else if (step == 11) {
        fake_goto(python, self->low, code, 5);
    } else if (step == 12) {
        fake_set_current(python, self->thread, self->root_frame, self->low);
    }
    self->at = (self->at + 1) % 28;
}

static void run_program(fake_python *python, pyr_addr addr, size_t length)
{
    (void)addr;
    (void)length;
    program *self = python->context;
    uint64_t steps = next_random(&self->random) % 8;
    for (uint64_t i = steps < 6 ? 0 : steps - 5; i > 0; i--) {
        program_step(self, python);
    }
}

static bool is_possible(const char *text)
{
    static const char *const possible[] = {
        "root:101",
        "root:102",
        "caller:200 root:101", /* its first instruction is not stored yet */
        "callee:300 root:102",
        "caller:203 root:101",
        "caller:205 root:101",
        "callee:303 root:102",
        "callee:305 root:102",
        "inner:503 caller:203 root:101",
        "inner:503 callee:303 root:102",
    };
    for (size_t i = 0; i < sizeof possible / sizeof possible[0]; i++) {
        if (strcmp(text, possible[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void run_alternating(scene *self, bool with_generator)
{
    fake_python *python = &self->python;
    fake_thread thread = fake_thread_new(python, self->interpreter, 7);
    fake_enter(python, &thread);
    program run = {.thread = &thread, .scene = self, .random = 42};
    run.root_frame = fake_call(python, &thread, self->root, 1, FAKE_ON_STACK);
    run.low = thread.top;
    run.high = run.low + python->layout.frame_locals + 64;
    if (with_generator) {
        run.generator_frame = fake_alloc(python, 256);
    }
    pyr_stack_plan plan = {0};
    python->before_span = run_program;
    python->context = &run;
    static const char changing[] = "<changing frames>:0 ";
    unsigned good = 0, with_inner = 0, with_callers = 0, tried = 0;
    while (good < 600 && tried < 6000) {
        const seen *result = visit_thread(self, &thread, &plan);
        tried++;
        if (result->visit.status == PYR_OK) {
            good++;
            bool callers_only = strncmp(result->text, changing, sizeof changing - 1) == 0;
            const char *text = result->text + (callers_only ? sizeof changing - 1 : 0);
            with_callers += callers_only;
            with_inner += !callers_only && strncmp(text, "inner", 5) == 0;
            if (!is_possible(text)) {
                fail_msg("an impossible stack: %s", result->text);
            }
        } else {
            assert_int_equal(result->visit.status, PYR_ETORN);
        }
    }
    python->before_span = NULL;
    assert_int_equal(good, 600);
    assert_true(with_inner > 20 && with_callers > 20);
    pyr_unwind_stats stats;
    pyr_unwinder_stats(self->unwinder, &stats);
    assert_true(stats.changing >= with_callers);
    assert_true(stats.tries > stats.visits); /* it did move under us */
    pyr_stack_plan_fini(&plan);
}

static void alternating(scene *self)
{
    run_alternating(self, false);
    run_alternating(self, true);
}

static void test_alternating_calls(void **state)
{
    (void)state;
    for_each_minor(FRAMES, alternating);
}

/* --------------------------------------------------------------------------------- broken ---- */

static void cycles(scene *self)
{
    fake_python *python = &self->python;
    const pyr_layout *layout = &python->layout;
    fake_thread thread = fake_thread_new(python, self->interpreter, 7);
    fake_enter(python, &thread);
    pyr_addr low = fake_call(python, &thread, self->root, 1, FAKE_ON_STACK);
    pyr_addr high = fake_call(python, &thread, self->caller, 1, FAKE_ON_STACK);
    pyr_addr outside = fake_call(python, &thread, self->generator, 1, FAKE_GENERATOR);
    pyr_addr ends[] = {low, high, outside};
    for (size_t i = 0; i < 3; i++) {
        pyr_stack_plan plan = {0};
        fake_put(python, low + layout->frame_previous, ends[i]);
        const seen *result = visit_thread(self, &thread, &plan);
        assert_int_not_equal(result->visit.status, PYR_OK);
        pyr_stack_plan_fini(&plan);
    }
    pyr_addr chunk = fake_get(python, thread.state + layout->thread_chunk);
    fake_put(python, low + layout->frame_previous, 0);
    fake_put(python, chunk + layout->chunk_previous, chunk);
    pyr_stack_plan plan = {0};
    (void)visit_thread(self, &thread, &plan);
    assert_true(plan.piece_count <= PYR_LIMIT_CHUNKS);
    pyr_stack_plan_fini(&plan);
}

static void test_cycles(void **state)
{
    (void)state;
    for_each_minor(FRAMES, cycles);
}

/* Every word that a stack is made of is replaced by every kind of nonsense: whatever comes out is
 * bounded, and made of names that were read. */
static void damage(scene *self)
{
    fake_python *python = &self->python;
    fake_thread thread = fake_thread_new(python, self->interpreter, 7);
    fake_enter(python, &thread);
    (void)fake_call(python, &thread, self->root, 1, FAKE_ON_STACK);
    (void)fake_call(python, &thread, self->generator, 1, FAKE_GENERATOR);
    (void)fake_call(python, &thread, self->callee, 1, FAKE_ON_STACK);
    pyr_thread_ref ref = ref_of(self, &thread);
    /* All that was made since the thread. */
    pyr_addr end = FAKE_BASE + python->used;
    const uint64_t values[] = {
        0, 1, 8, UINT64_MAX, UINT64_C(1) << 63, FAKE_BASE, end, FAKE_BASE + MEMORY - 4};
    for (pyr_addr place = thread.state; place < end; place += 8) {
        uint64_t before = fake_get(python, place);
        if (before == 0 && place > thread.state + python->layout.thread_size + 512 &&
            place % 64 != 0) {
            continue; /* the unused data stack: a part of it will do */
        }
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
            pyr_stack_plan plan = {0};
            fake_put(python, place, values[i]);
            const seen *result = visit_ref(self, &ref, &plan);
            if (result->visit.status == PYR_OK) {
                assert_true(result->visit.count <= FRAMES);
            }
            fake_put(python, place, before);
            /* A plan that was learned from nonsense does no lasting harm. */
            if (i == 0 && place % 128 == 0) {
                result = visit_ref(self, &ref, &plan);
                assert_string_equal(result->text, "callee:301 generator:401 root:101");
            }
            pyr_stack_plan_fini(&plan);
        }
    }
}

static void test_damage(void **state)
{
    (void)state;
    for_each_minor(FRAMES, damage);
}

static void dead_threads(scene *self)
{
    fake_python *python = &self->python;
    const pyr_layout *layout = &python->layout;
    fake_thread thread = fake_thread_new(python, self->interpreter, 7);
    fake_enter(python, &thread);
    (void)fake_call(python, &thread, self->root, 1, FAKE_ON_STACK);
    pyr_thread_ref ref = ref_of(self, &thread);
    pyr_stack_plan plan = {0};
    assert_int_equal(visit_ref(self, &ref, &plan)->visit.status, PYR_OK);
    /* Another thread at the same address. */
    fake_put(python, thread.state + layout->thread_unique_id, 999);
    assert_int_equal(visit_ref(self, &ref, &plan)->visit.status, PYR_ENOENT);
    fake_put(python, thread.state + layout->thread_unique_id, ref.unique_id);
    fake_put(python, thread.state + layout->thread_native_id, 8);
    assert_int_equal(visit_ref(self, &ref, &plan)->visit.status, PYR_ENOENT);
    fake_put(python, thread.state + layout->thread_native_id, 7);
    assert_int_equal(visit_ref(self, &ref, &plan)->visit.status, PYR_OK);
    fake_thread_unlink(python, self->interpreter, &thread);
    assert_int_equal(visit_ref(self, &ref, &plan)->visit.status, PYR_ENOENT);
    ref.state = FAKE_BASE + MEMORY; /* its memory is gone */
    assert_int_equal(visit_ref(self, &ref, &plan)->visit.status, PYR_ENOENT);
    ref.state = UINTPTR_MAX;
    const seen *result = visit_ref(self, &ref, &plan);
    assert_int_equal(result->visit.status, PYR_ENOENT);
    assert_int_equal(result->visit.tries, 1);
    pyr_stack_plan_fini(&plan);
}

static void test_dead_threads(void **state)
{
    (void)state;
    for_each_minor(FRAMES, dead_threads);
}

static void reading_forbidden(scene *self)
{
    fake_python *python = &self->python;
    fake_thread thread = fake_thread_new(python, self->interpreter, 7);
    fake_enter(python, &thread);
    (void)fake_call(python, &thread, self->root, 1, FAKE_ON_STACK);
    pyr_stack_plan plan = {0};
    assert_int_equal(visit_thread(self, &thread, &plan)->visit.status, PYR_OK);
    python->refusal = 3; /* ESRCH: the process is gone */
    pyr_thread_ref ref = ref_of(self, &thread);
    assert_int_equal(visit_ref(self, &ref, &plan)->visit.status, PYR_ENOENT);
    pyr_stack_plan_fini(&plan);
}

static void test_reading_forbidden(void **state)
{
    (void)state;
    for_each_minor(FRAMES, reading_forbidden);
}

/* ----------------------------------------------------------------------------------- many ---- */

enum { MANY = 600 };

typedef struct many {
    scene *scene;
    unsigned visits[MANY];
    unsigned good;
} many;

static void note_one_of_many(void *context, const pyr_visit *visit)
{
    many *self = context;
    size_t index = (size_t)(uintptr_t)visit->owner;
    self->visits[index]++;
    assert_int_equal(visit->status, PYR_OK);
    assert_int_equal(visit->ref->native_id, 1000 + index);
    assert_int_equal(visit->count, 2);
    pyr_function leaf = pyr_symbols_get(self->scene->symbols, visit->frames[0].function);
    const char *expected = index % 2 ? "caller" : "callee";
    assert_string_equal(pyr_symbols_text(self->scene->symbols, leaf.name, NULL), expected);
    assert_int_equal(visit->frames[0].line, (index % 2 ? 200 : 300) + index % 10);
    self->good++;
}

/* More threads than spans of a batch: each once, with its own stack, in few calls. */
static void many_threads(scene *self)
{
    static fake_thread threads[MANY];
    static pyr_thread_ref refs[MANY];
    static pyr_stack_plan plans[MANY];
    static pyr_visit visits[MANY];
    fake_python *python = &self->python;
    memset(plans, 0, sizeof plans);
    for (size_t i = 0; i < MANY; i++) {
        threads[i] = (fake_thread){0};
        threads[i] = fake_thread_new(python, self->interpreter, 1000 + i);
        fake_enter(python, &threads[i]);
        (void)fake_call(python, &threads[i], self->root, 1, FAKE_ON_STACK);
        (void)fake_call(python, &threads[i], i % 2 ? self->caller : self->callee,
                        (uint32_t)(i % 10), FAKE_ON_STACK);
        refs[i] = ref_of(self, &threads[i]);
    }
    for (int round = 0; round < 2; round++) {
        many result = {.scene = self};
        uint64_t calls = python->calls;
        for (size_t i = 0; i < MANY; i++) {
            visits[i] = (pyr_visit){.ref = &refs[i], .plan = &plans[i], .owner = (void *)i};
        }
        (void)!pyr_unwinder_visit(self->unwinder, NULL, NULL, visits, MANY, note_one_of_many,
                                  &result);
        assert_int_equal(result.good, MANY);
        for (size_t i = 0; i < MANY; i++) {
            assert_int_equal(result.visits[i], 1);
        }
        if (round == 1) { /* at most 22 spans a thread */
            assert_true(python->calls - calls <= MANY / (PYR_LIMIT_SPANS / 22) + 1);
        }
    }
    for (size_t i = 0; i < MANY; i++) {
        pyr_stack_plan_fini(&plans[i]);
    }
}

static void test_many_threads(void **state)
{
    (void)state;
    for (unsigned minor = FAKE_FIRST_MINOR; minor < FAKE_FIRST_MINOR + FAKE_MINORS; minor++) {
        scene self;
        scene_set(&self, minor, FRAMES, 4 * MEMORY);
        many_threads(&self);
        scene_clear(&self);
    }
}

/* --------------------------------------------------------------------------------- failing ---- */

static size_t failing_span;

/* From this span on, nothing of the process can be read. */
static void fail_span(fake_python *python, pyr_addr addr, size_t length)
{
    (void)addr;
    (void)length;
    if (python->spans >= failing_span) {
        python->size = 0;
    }
}

static void failing_visits(scene *self)
{
    enum { TURNS = 5000 };
    fake_python *python = &self->python;
    fake_thread thread = fake_thread_new(python, self->interpreter, 7);
    thread.chunks = 512;
    fake_enter(python, &thread);
    (void)fake_call(python, &thread, self->root, 1, FAKE_ON_STACK);
    for (unsigned depth = 0; depth < 20; depth++) {
        (void)fake_call(python, &thread, self->generator, 1, FAKE_GENERATOR);
        (void)fake_call(python, &thread, self->callee, 1, FAKE_ON_STACK);
    }
    pyr_thread_ref ref = ref_of(self, &thread);
    size_t before = python->spans, whole = python->size;
    pyr_stack_plan plan = {0};
    assert_int_equal(visit_ref(self, &ref, &plan)->visit.count, 41);
    pyr_stack_plan_fini(&plan);
    size_t spans = python->spans - before, held = pyr_memory_in_use();
    unsigned failed = 0;
    python->before_span = fail_span;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        failing_span = python->spans + 1 + turn % spans;
        failed += visit_ref(self, &ref, &plan)->visit.count != 41;
        python->size = whole;
        pyr_stack_plan_fini(&plan);
        plan = (pyr_stack_plan){0};
    }
    python->before_span = NULL;
    assert_true(failed > TURNS / 2);
    assert_int_equal(pyr_memory_in_use(), held);
    assert_int_equal(visit_ref(self, &ref, &plan)->visit.count, 41);
    pyr_stack_plan_fini(&plan);
}

/* Whatever step fails, nothing of the visit is kept. */
static void test_br_044_visits_that_fail_leave_nothing(void **state)
{
    (void)state;
    for_each_minor(FRAMES, failing_visits);
}

/* ------------------------------------------------------------------------------ allocation ---- */

static void allocation_failures(scene *self)
{
    fake_python *python = &self->python;
    fake_thread thread = fake_thread_new(python, self->interpreter, 7);
    thread.chunks = 512;
    fake_enter(python, &thread);
    (void)fake_call(python, &thread, self->root, 1, FAKE_ON_STACK);
    for (unsigned depth = 0; depth < 20; depth++) {
        (void)fake_call(python, &thread, self->generator, 1, FAKE_GENERATOR);
        (void)fake_call(python, &thread, self->callee, 1, FAKE_ON_STACK);
    }
    size_t before = pyr_memory_in_use();
    unsigned failed_new = 0, failed_visit = 0;
    for (size_t nth = 1;; nth++) {
        pyr_memory_fail_at(nth);
        pyr_unwinder *unwinder = pyr_unwinder_new(
            &python->reader, &python->layout, python->code_type, NULL, NULL, self->symbols, FRAMES);
        if (!unwinder) {
            failed_new++;
            assert_true(pyr_memory_has_failed());
            assert_int_equal(pyr_memory_in_use(), before);
            continue;
        }
        pyr_unwinder *usual = self->unwinder;
        self->unwinder = unwinder;
        pyr_stack_plan plan = {0};
        const seen *result = visit_thread(self, &thread, &plan);
        bool failed = pyr_memory_has_failed();
        pyr_memory_fail_at(0);
        if (result->visit.status != PYR_OK) {
            assert_true(failed);
            assert_int_equal(result->visit.status, PYR_ENOMEM);
            failed_visit++;
        }
        /* The next visit has what it needs, and the plan is whole. */
        result = visit_thread(self, &thread, &plan);
        assert_int_equal(result->visit.status, PYR_OK);
        assert_int_equal(result->visit.count, 41);
        assert_true(result->visit.rooted);
        pyr_stack_plan_fini(&plan);
        pyr_unwinder_free(unwinder);
        self->unwinder = usual;
        if (!failed) {
            break;
        }
    }
    assert_true(failed_new >= 4);
    assert_true(failed_visit >= 4);
}

static void test_allocation_failures(void **state)
{
    (void)state;
    for_each_minor(FRAMES, allocation_failures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_no_frames),
        cmocka_unit_test(test_generator_without_caller),
        cmocka_unit_test(test_plan_is_kept),
        cmocka_unit_test(test_recursion),
        cmocka_unit_test(test_deeper_than_copied),
        cmocka_unit_test(test_many_outside),
        cmocka_unit_test(test_gil),
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_exception),
        cmocka_unit_test(test_renew),
        cmocka_unit_test(test_alternating_calls),
        cmocka_unit_test(test_cycles),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_dead_threads),
        cmocka_unit_test(test_reading_forbidden),
        cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_br_044_visits_that_fail_leave_nothing),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
