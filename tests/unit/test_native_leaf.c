/* Unit tests of unwind/native_leaf through the unwinder: the C function being called is the leaf
 * where it is proved, and no name is given where it is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "support/fake_python.h"
#include "unwind/unwind.h"

enum { MEMORY = 4 << 20, FRAMES = 8, UNITS = 14, READY = 1 << 12 };

static pyr_code_deaths deaths;

/* callable(argument), as each minor compiles it: units of opcode and oparg, the rest caches. */
static const struct {
    uint8_t bytecode[2 * UNITS];
    uint32_t call;          /* unit of the call */
    uint8_t null, callable; /* places on the stack; the argument is the third */
} programs[FAKE_MINORS] = {
    {{151, 0, 2, 0, 100, 0, 100, 1, 166, 1, 0, 0, 171, 1, 0, 0, 0, 0, 0, 0, 0, 0, 83}, 6, 0, 1},
    {{151, 0, 2, 0, 100, 0, 100, 1, 171, 1, 0, 0, 0, 0, 0, 0, 83}, 4, 0, 1},
    {{149, 0, 83, 0, 34, 0, 83, 1, 53, 1, 0, 0, 0, 0, 0, 0, 36}, 4, 1, 0},
    {{128, 0, 82, 0, 33, 0, 82, 1, 52, 1, 0, 0, 0, 0, 0, 0, 35}, 4, 1, 0},
    {{128, 0, 0, 0, 81, 0, 31, 0, 81, 1, 50, 1, 0, 0, 0, 0, 0, 0, 33}, 5, 1, 0},
};

typedef struct scene {
    fake_python python;
    pyr_symbols *symbols;
    pyr_unwinder *unwinder;
    fake_thread thread;
    pyr_thread_ref ref;
    pyr_stack_plan plan;
    pyr_addr code, frame, str_type, function_type, sleep, other;
    uint32_t call;
} scene;

static pyr_addr text_of(scene *self, const char *text)
{
    pyr_addr made = fake_text(&self->python, text);
    fake_put(&self->python, made + self->python.layout.object_type, self->str_type);
    return made;
}

static pyr_addr function_of(scene *self, const char *name, const char *module)
{
    fake_python *python = &self->python;
    const pyr_layout *layout = &python->layout;
    pyr_addr function = fake_alloc(python, 64), method = fake_alloc(python, 64);
    pyr_addr text = fake_alloc(python, 160);
    memcpy(fake_at(python, text, strlen(name)), name, strlen(name));
    fake_put(python, method + layout->methoddef_name, text);
    fake_put(python, function + layout->object_type, self->function_type);
    fake_put(python, function + layout->cfunction_def, method);
    fake_put(python, function + layout->cfunction_module, text_of(self, module));
    return function;
}

/* Puts a reference on the value stack of the frame. */
static void put_value(scene *self, uint32_t place, pyr_addr object)
{
    const pyr_layout *layout = &self->python.layout;
    bool tagged = layout->code_tag_mask != 0 && object != 0;
    fake_put(&self->python, self->frame + layout->frame_locals + 8UL * place, object + tagged);
}

static void scene_set(scene *self, unsigned minor)
{
    memset(self, 0, sizeof *self);
    unsigned index = minor - FAKE_FIRST_MINOR;
    fake_python *python = &self->python;
    assert_true(fake_python_init(python, PYR_TESTS_FOLDER, minor, MEMORY));
    const pyr_layout *layout = &python->layout;
    pyr_addr interpreter = fake_interpreter(python);
    self->symbols = pyr_symbols_new();
    self->unwinder = pyr_unwinder_new(&python->reader, layout, python->code_type, &deaths, NULL,
                                      self->symbols, FRAMES);
    self->str_type = fake_type(python, "str", 64);
    fake_put(python, self->str_type + layout->type_flags, READY | 1 << 28);
    self->function_type = fake_type(python, "builtin_function_or_method", 56);
    fake_put(python, self->function_type + layout->type_call, 1);
    self->sleep = function_of(self, "sleep", "time");
    self->other = function_of(self, "other", "time");
    self->code = fake_code(python, "work", "/app/main.py", 10, UNITS, programs[index].bytecode);
    self->call = programs[index].call;
    self->thread = fake_thread_new(python, interpreter, 7);
    fake_enter(python, &self->thread);
    self->frame = fake_call(python, &self->thread, self->code, self->call, FAKE_ON_STACK);
    put_value(self, programs[index].null, 0);
    put_value(self, programs[index].callable, self->sleep);
    put_value(self, 2, self->str_type); /* any object */
    if (layout->frame_stackpointer != PYR_FIELD_ABSENT) {
        fake_put(python, self->frame + layout->frame_stackpointer,
                 self->frame + layout->frame_locals + 8 * 3);
    }
    self->ref = (pyr_thread_ref){.state = self->thread.state,
                                 .interpreter = interpreter,
                                 .gil = python->gil,
                                 .native_id = 7,
                                 .unique_id = 1};
}

static void scene_clear(scene *self)
{
    pyr_stack_plan_fini(&self->plan);
    pyr_unwinder_free(self->unwinder);
    pyr_symbols_release(self->symbols);
    fake_python_fini(&self->python);
}

typedef struct seen {
    const scene *scene;
    pyr_visit visit;
    const char *leaf, *leaf_file; /* of the first frame */
} seen;

static void note(void *context, const pyr_visit *visit)
{
    seen *self = context;
    self->visit = *visit;
    self->leaf = self->leaf_file = "";
    if (visit->status == PYR_OK && visit->count > 0) {
        const pyr_symbols *symbols = self->scene->symbols;
        pyr_function function = pyr_symbols_get(symbols, visit->frames[0].function);
        self->leaf = pyr_symbols_text(symbols, function.name, NULL);
        self->leaf_file = pyr_symbols_text(symbols, function.file, NULL);
    }
}

static seen visit(scene *self)
{
    seen result = {.scene = self};
    pyr_visit one = {.ref = &self->ref, .plan = &self->plan};
    (void)!pyr_unwinder_visit(self->unwinder, NULL, NULL, &one, 1, note, &result);
    return result;
}

static void for_each_minor(void (*body)(scene *self))
{
    size_t before = pyr_memory_in_use();
    for (unsigned minor = FAKE_FIRST_MINOR; minor < FAKE_FIRST_MINOR + FAKE_MINORS; minor++) {
        scene self;
        scene_set(&self, minor);
        body(&self);
        scene_clear(&self);
    }
    assert_int_equal(pyr_memory_in_use(), before);
}

static void named(scene *self)
{
    seen result = visit(self);
    assert_int_equal(result.visit.status, PYR_OK);
    assert_string_equal(result.leaf, "time.sleep");
    assert_string_equal(result.leaf_file, "<native>");
    assert_string_equal(result.visit.native, "time.sleep");
    assert_int_equal(result.visit.count, 2);
    assert_int_equal(result.visit.leaf_kind, PYR_SITE_CALL);
    uint64_t calls = self->python.calls;
    assert_string_equal(visit(self).leaf, "time.sleep");
    assert_int_equal(self->python.calls - calls, 2); /* the stack, and the callee once more */
    /* At another instruction it calls nothing. */
    fake_goto(&self->python, self->frame, self->code, 0);
    result = visit(self);
    assert_string_equal(result.leaf, "work");
    assert_null(result.visit.native);
    assert_int_equal(result.visit.leaf_kind, PYR_SITE_NONE);
}

static void test_named(void **state)
{
    (void)state;
    for_each_minor(named);
}

/* With as many frames as are wanted, the native leaf takes the place of the last one. */
static void full_stack(scene *self)
{
    fake_python *python = &self->python;
    fake_set_current(python, &self->thread, 0, 0);
    fake_enter(python, &self->thread);
    for (int depth = 0; depth < FRAMES - 1; depth++) {
        (void)fake_call(python, &self->thread, self->code, 0, FAKE_ON_STACK);
    }
    fake_put(python, self->frame + python->layout.frame_previous, self->thread.frame);
    if (python->layout.boundary == PYR_BOUNDARY_ENTRY_FLAG) {
        fake_put8(python, self->frame + python->layout.frame_is_entry, 0);
    }
    fake_set_running(python, self->thread.frame, false);
    fake_set_current(python, &self->thread, self->frame, 0);
    seen result = visit(self);
    assert_int_equal(result.visit.status, PYR_OK);
    assert_string_equal(result.leaf, "time.sleep");
    assert_int_equal(result.visit.count, FRAMES);
    assert_int_equal(result.visit.omitted, 1);
}

static void test_full_stack(void **state)
{
    (void)state;
    for_each_minor(full_stack);
}

/* The call ends before the n-th span that is read, and its callee becomes another function: that
 * one's name is never given for this call. */
static uint64_t ends_at;

static void end_call(fake_python *python, pyr_addr addr, size_t length)
{
    (void)addr;
    (void)length;
    const scene *self = python->context;
    if (python->spans == ends_at) {
        fake_goto(python, self->frame, self->code, 0);
        memcpy(fake_at(python, self->sleep, 64), fake_at(python, self->other, 64), 64);
    }
}

static void ends_while_read(scene *self)
{
    fake_python *python = &self->python;
    uint8_t before[64];
    memcpy(before, fake_at(python, self->sleep, 64), 64);
    python->context = self;
    unsigned with_name = 0, without = 0;
    for (uint64_t nth = 1; nth < 120; nth++) {
        /* Without what earlier rounds remember. */
        pyr_unwinder_renew(self->unwinder, self->symbols);
        memcpy(fake_at(python, self->sleep, 64), before, 64);
        fake_goto(python, self->frame, self->code, self->call);
        ends_at = python->spans + nth;
        python->before_span = end_call;
        seen result = visit(self);
        python->before_span = NULL;
        assert_int_equal(result.visit.status, PYR_OK);
        if (result.visit.native) {
            assert_string_equal(result.visit.native, "time.sleep");
            with_name++;
        } else {
            without++;
        }
    }
    assert_true(with_name > 10 && without > 10);
}

static void test_ends_while_read(void **state)
{
    (void)state;
    for_each_minor(ends_while_read);
}

static void broken(scene *self)
{
    fake_python *python = &self->python;
    const pyr_layout *layout = &python->layout;
    unsigned index = layout->minor - FAKE_FIRST_MINOR;
    const pyr_addr wild[] = {8,          FAKE_BASE,  FAKE_BASE + MEMORY - 8, UINT64_C(1) << 63,
                             self->code, self->frame};
    for (size_t i = 0; i < sizeof wild / sizeof wild[0]; i++) {
        put_value(self, programs[index].callable, wild[i]);
        seen result = visit(self);
        assert_int_equal(result.visit.status, PYR_OK);
        assert_string_equal(result.leaf, "work");
        assert_null(result.visit.native);
    }
    put_value(self, programs[index].callable, self->sleep);
    assert_string_equal(visit(self).leaf, "time.sleep");
    /* Every word of the function, and of what it leads to. */
    const pyr_addr places[] = {
        self->sleep + layout->object_type, self->sleep + layout->cfunction_def,
        self->function_type + layout->type_name, self->function_type + layout->type_flags};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        uint64_t before = fake_get(python, places[i]);
        for (size_t value = 0; value < 4; value++) {
            pyr_unwinder_renew(self->unwinder, self->symbols);
            fake_put(python, places[i], wild[value]);
            seen result = visit(self);
            assert_int_equal(result.visit.status, PYR_OK);
            assert_null(result.visit.native);
        }
        fake_put(python, places[i], before);
    }
}

static void test_broken(void **state)
{
    (void)state;
    for_each_minor(broken);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_named),
        cmocka_unit_test(test_full_stack),
        cmocka_unit_test(test_ends_while_read),
        cmocka_unit_test(test_broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
