/* Unit tests of cpython/callee: frames and objects built in this test's own memory, read as those
 * of a target are. The layout is made up, so that a hard-coded offset would show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <sys/mman.h>

#include "cpython/callee.h"

enum { LOCALS = 3, SLOTS = 16, PAGE = 4096, HEAP = 1 << 9, READY = 1 << 12 };

/* A text with room behind it: names are read in one piece, beyond their end, which address
 * sanitizers take amiss though the kernel does it. */
#define NAME(text) ((const char[144]){text})

static const uint64_t IS_TYPE = UINT64_C(1) << 31;

typedef struct frame {
    uint64_t stackpointer;
    uint64_t unused;
    uint64_t slots[LOCALS + SLOTS]; /* localsplus, then the stack */
} frame;

typedef struct type {
    uint64_t references;
    const struct type *type;
    uint64_t padding;
    const char *name;
    uint64_t basicsize;
    uint64_t flags;
    uint64_t call;
} type;

typedef struct object {
    uint64_t references;
    const type *type;
    const void *fields[5];
} object;

typedef struct method {
    uint64_t unused;
    const char *name;
} method;

typedef struct text {
    uint64_t references;
    const type *type;
    uint64_t length;
    uint64_t hash;
    uint64_t state;
    char characters[64];
} text;

static const type metatype = {1, &metatype, 0, NAME("type"), 800, READY | IS_TYPE, 1};
static const type function_type = {1,  &metatype, 0, NAME("builtin_function_or_method"),
                                   56, READY,     1};
static const type descriptor_type = {1, &metatype, 0, NAME("method_descriptor"), 56, READY, 1};
static const type wrapper_type = {1, &metatype, 0, NAME("method-wrapper"), 32, READY, 1};
static const type python_type = {1, &metatype, 0, NAME("function"), 160, READY, 1};
static const type bound_type = {1, &metatype, 0, NAME("method"), 48, READY, 1};
static const type lock_type = {1, &metatype, 0, NAME("_thread.lock"), 40, READY | HEAP, 0};
static const type list_type = {1, &metatype, 0, NAME("list"), 40, READY, 0};
static const type partial_type = {1, &metatype, 0, NAME("functools.partial"), 72, READY | HEAP, 1};
static const type class_type = {1, &metatype, 0, NAME("Order"), 40, READY | HEAP, 1};
static const type float_type = {1, &metatype, 0, NAME("float"), 24, READY, 0};
static const type str_type = {1, &metatype, 0, NAME("str"), 64, READY | 1 << 28, 0};

static pyr_layout layout;
static pyr_reader *reader;
static pyr_batch *batch;

static pyr_addr addr_of(const void *data)
{
    return (pyr_addr)data;
}

static void layout_set(pyr_call_shape shape)
{
    memset(&layout, 0xff, sizeof(layout));
    layout.version = 0x030d00f0;
    layout.minor = 13;
    layout.call_shape = shape;
    layout.code_tag_mask = shape == PYR_CALL_314 ? 3 : 0;
    layout.frame_locals = offsetof(frame, slots);
    layout.frame_stackpointer = offsetof(frame, stackpointer);
    layout.object_type = offsetof(object, type);
    layout.type_name = offsetof(type, name);
    layout.type_basicsize = offsetof(type, basicsize);
    layout.type_flags = offsetof(type, flags);
    layout.type_call = offsetof(type, call);
    layout.cfunction_def = offsetof(object, fields[0]);
    layout.cfunction_self = offsetof(object, fields[1]);
    layout.cfunction_module = offsetof(object, fields[2]);
    layout.methoddef_name = offsetof(method, name);
    layout.descr_type = offsetof(object, fields[0]);
    layout.descr_name = offsetof(object, fields[1]);
    layout.bound_function = offsetof(object, fields[0]);
    layout.unicode_length = offsetof(text, length);
    layout.unicode_state = offsetof(text, state);
    layout.unicode_ascii = offsetof(text, characters);
    layout.unicode_compact = offsetof(text, characters) + 16;
}

static int set_up(void **state)
{
    (void)state;
    batch = pyr_batch_new(PAGE);
    return batch != NULL && pyr_reader_open_self(&reader) == PYR_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    pyr_reader_close(reader);
    pyr_batch_free(batch);
    return 0;
}

static text text_of(const char *characters)
{
    text made = {.references = 1, .type = &str_type, .length = strlen(characters)};
    /* 1 byte a character, compact, ASCII: bits 2 to 6 of the state, up to 3.13 */
    made.state = 1 << 2 | 1 << 5 | 1 << 6;
    memcpy(made.characters, characters, made.length);
    return made;
}

/* ------------------------------------------------------------------------------- finding ---- */

/* Finds with `depth` values on the stack, the i-th from below being 0x1000 * (i + 1). */
static pyr_status find(pyr_call_shape shape, pyr_site_kind kind, uint32_t depth, uint32_t oparg,
                       uint32_t null_at, pyr_addr *callee)
{
    layout_set(shape);
    frame made = {0};
    for (uint32_t i = 0; i < depth && i < SLOTS; i++) {
        made.slots[LOCALS + i] = i == null_at ? 0 : 0x1000 * (i + 1) + (shape == PYR_CALL_314);
    }
    pyr_addr remote = 0x7f0000001000;
    made.stackpointer = remote + layout.frame_locals + 8 * (LOCALS + depth);
    pyr_site site = {kind, depth, oparg};
    return pyr_callee_find(&layout, (const uint8_t *)&made, sizeof(made), &site, LOCALS, remote,
                           callee);
}

static void assert_found(pyr_call_shape shape, pyr_site_kind kind, uint32_t depth, uint32_t oparg,
                         uint32_t null_at, uint32_t expected_index)
{
    pyr_addr callee = 0;
    assert_int_equal(find(shape, kind, depth, oparg, null_at, &callee), PYR_OK);
    assert_int_equal(callee, 0x1000 * (expected_index + 1));
}

static void test_where_the_callee_lies(void **state)
{
    (void)state;
    enum { NOWHERE = 99 };
    /* Six values on the stack. 3.11: [method or NULL, self or callable, arguments] */
    assert_found(PYR_CALL_311, PYR_SITE_CALL, 6, 2, NOWHERE, 2);
    assert_found(PYR_CALL_311, PYR_SITE_CALL, 6, 2, 2, 3);
    assert_found(PYR_CALL_311, PYR_SITE_CALL_EX, 6, 0, NOWHERE, 4);
    assert_found(PYR_CALL_311, PYR_SITE_CALL_EX, 6, 1, NOWHERE, 3);
    assert_found(PYR_CALL_311, PYR_SITE_ENTER, 6, 0, NOWHERE, 5);
    assert_found(PYR_CALL_311, PYR_SITE_EXIT, 6, 0, NOWHERE, 2);
    /* 3.13: [callable, self or NULL, arguments, keyword names] */
    assert_found(PYR_CALL_313, PYR_SITE_CALL, 6, 2, 3, 2);
    assert_found(PYR_CALL_313, PYR_SITE_CALL_KW, 6, 2, 2, 1);
    assert_found(PYR_CALL_313, PYR_SITE_CALL_EX, 6, 0, NOWHERE, 3);
    assert_found(PYR_CALL_313, PYR_SITE_CALL_EX, 6, 1, NOWHERE, 2);
    assert_found(PYR_CALL_313, PYR_SITE_ENTER, 6, 0, NOWHERE, 5);
    assert_found(PYR_CALL_313, PYR_SITE_EXIT, 6, 0, NOWHERE, 2);
    /* 3.14: the same, tagged; keyword arguments or NULL on top of f(*args); [exit, self, ...] */
    assert_found(PYR_CALL_314, PYR_SITE_CALL, 6, 2, 3, 2);
    assert_found(PYR_CALL_314, PYR_SITE_CALL_KW, 6, 2, 2, 1);
    assert_found(PYR_CALL_314, PYR_SITE_CALL_EX, 6, 1, 5, 2);
    assert_found(PYR_CALL_314, PYR_SITE_EXIT, 6, 0, NOWHERE, 1);
    pyr_addr callee;
    assert_int_equal(find(PYR_CALL_311, PYR_SITE_CALL_KW, 6, 2, 99, &callee), PYR_EBAD);
    assert_int_equal(find(PYR_CALL_314, PYR_SITE_ENTER, 6, 0, 99, &callee), PYR_EBAD);
    assert_int_equal(find(PYR_CALL_313, PYR_SITE_OTHER, 6, 0, 99, &callee), PYR_EBAD);
    assert_int_equal(find(PYR_CALL_313, PYR_SITE_CALL, 3, 2, 99, &callee), PYR_EBAD);
    assert_int_equal(find(PYR_CALL_313, PYR_SITE_CALL, 6, UINT32_MAX - 1, 99, &callee), PYR_EBAD);
    assert_int_equal(find(PYR_CALL_313, PYR_SITE_CALL, SLOTS + 1, 2, 99, &callee), PYR_EPARTIAL);
    assert_int_equal(find(PYR_CALL_313, PYR_SITE_CALL, 6, 2, 2, &callee), PYR_ENOENT);
}

static void test_whether_a_call_is_in_progress(void **state)
{
    (void)state;
    pyr_addr callee;
    /* The last argument has been dropped: the call has ended. */
    assert_int_equal(find(PYR_CALL_314, PYR_SITE_CALL, 6, 2, 5, &callee), PYR_ENOENT);
    assert_int_equal(find(PYR_CALL_314, PYR_SITE_CALL_KW, 6, 2, 5, &callee), PYR_ENOENT);
    /* The stored stack pointer is another one. */
    frame made = {.stackpointer = 0x5000};
    pyr_site site = {PYR_SITE_CALL, 6, 2};
    assert_int_equal(pyr_callee_find(&layout, (const uint8_t *)&made, sizeof(made), &site, LOCALS,
                                     0x7f0000001000, &callee),
                     PYR_ENOENT);
    assert_true(pyr_callee_is_proved(&layout));
    layout_set(PYR_CALL_313);
    assert_false(pyr_callee_is_proved(&layout));
}

/* -------------------------------------------------------------------------------- naming ---- */

static pyr_callee named(const void *callee)
{
    pyr_callee out;
    layout_set(PYR_CALL_313);
    assert_int_equal(pyr_callee_name(reader, batch, &layout, addr_of(callee), &out), PYR_OK);
    assert_int_equal(strlen(out.name), out.length);
    return out;
}

static void assert_named(const void *callee, const char *name, pyr_site_form form, bool is_stable)
{
    pyr_callee out = named(callee);
    assert_int_equal(out.kind, PYR_CALLEE_NATIVE);
    assert_string_equal(out.name, name);
    assert_int_equal(out.form, form);
    assert_int_equal(out.is_stable, is_stable);
}

static void assert_not_native(const void *callee, pyr_callee_kind kind)
{
    pyr_callee out = named(callee);
    assert_int_equal(out.kind, kind);
    assert_string_equal(out.name, "");
    assert_false(out.is_stable);
}

static void test_functions(void **state)
{
    (void)state;
    const method sleep = {0, NAME("sleep")};
    const method sorted = {0, NAME("sorted")};
    const method acquire = {0, NAME("acquire")};
    const method fromkeys = {0, NAME("fromkeys")};
    const text time = text_of("time");
    const text builtins = text_of("builtins");
    const object lock = {1, &lock_type, {0}};
    const object order = {1, &class_type, {0}};
    assert_named(&(object){1, &function_type, {&sleep, &lock, &time}}, "time.sleep",
                 PYR_FORM_FUNCTION, true);
    assert_named(&(object){1, &function_type, {&sorted, &lock, &builtins}}, "sorted",
                 PYR_FORM_FUNCTION, true);
    assert_named(&(object){1, &function_type, {&sleep, NULL, NULL}}, "sleep", PYR_FORM_FUNCTION,
                 true);
    assert_named(&(object){1, &function_type, {&acquire, &lock, NULL}}, "_thread.lock.acquire",
                 PYR_FORM_FUNCTION, true);
    assert_named(&(object){1, &function_type, {&acquire, &order, NULL}}, "Order.acquire",
                 PYR_FORM_FUNCTION, false);
    assert_named(&(object){1, &function_type, {&fromkeys, &list_type, NULL}}, "list.fromkeys",
                 PYR_FORM_FUNCTION, true);
}

static void test_methods_and_types(void **state)
{
    (void)state;
    const text sort = text_of("sort");
    const object descriptor = {1, &descriptor_type, {&list_type, &sort, NULL, NULL}};
    assert_named(&descriptor, "list.sort", PYR_FORM_DESCRIPTOR, true);
    assert_named(&(object){1, &wrapper_type, {&descriptor}}, "list.sort", PYR_FORM_ANY, false);
    assert_named(&(object){1, &bound_type, {&descriptor}}, "list.sort", PYR_FORM_ANY, false);
    assert_named(&list_type, "list", PYR_FORM_CLASS, true);
    assert_named(&class_type, "Order", PYR_FORM_CLASS, false);
    assert_named(&metatype, "type", PYR_FORM_TYPE, true);
    assert_named(&(object){1, &partial_type, {0}}, "functools.partial", PYR_FORM_ANY, true);
}

static void test_what_is_not_native(void **state)
{
    (void)state;
    const object function = {1, &python_type, {0}};
    const object number = {1, &float_type, {0}};
    const object order = {1, &class_type, {0}};
    assert_not_native(&function, PYR_CALLEE_PYTHON);
    assert_not_native(&(object){1, &bound_type, {&function}}, PYR_CALLEE_PYTHON);
    assert_not_native(&number, PYR_CALLEE_UNKNOWN);
    assert_not_native(&order, PYR_CALLEE_UNKNOWN); /* __call__ of a Python class */
    assert_not_native(&(object){1, &bound_type, {&class_type}}, PYR_CALLEE_UNKNOWN);
}

static void test_garbage(void **state)
{
    (void)state;
    uint8_t *pages =
        mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + PAGE, PAGE, PROT_NONE), 0);
    pyr_callee out;
    const pyr_addr bad[] = {0, 1, 8, addr_of(pages + PAGE), addr_of(pages + PAGE - 8), UINTPTR_MAX};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(pyr_callee_name(reader, batch, &layout, bad[i], &out), PYR_EFAULT);
        assert_int_equal(out.kind, PYR_CALLEE_UNKNOWN);
        assert_int_equal(pyr_callee_name_enter(reader, batch, &layout, bad[i], &out), PYR_EFAULT);
    }
    /* A name that ends with the last readable byte is read; one that has no end is none. */
    memset(pages, 'x', PAGE);
    memcpy(pages + PAGE - 6, "sleep", 6);
    const method at_edge = {0, (const char *)pages + PAGE - 6};
    assert_named(&(object){1, &function_type, {&at_edge, NULL, NULL}}, "sleep", PYR_FORM_FUNCTION,
                 true);
    pages[PAGE - 1] = 'x';
    assert_not_native(&(object){1, &function_type, {&at_edge, NULL, NULL}}, PYR_CALLEE_UNKNOWN);
    const method endless = {0, (const char *)pages};
    assert_not_native(&(object){1, &function_type, {&endless, NULL, NULL}}, PYR_CALLEE_UNKNOWN);
    const method control = {0, NAME("sl\x01p")};
    assert_not_native(&(object){1, &function_type, {&control, NULL, NULL}}, PYR_CALLEE_UNKNOWN);
    const method not_utf8 = {0, NAME("sl\xff\xfep")};
    assert_not_native(&(object){1, &function_type, {&not_utf8, NULL, NULL}}, PYR_CALLEE_UNKNOWN);
    assert_not_native(&(object){1, &function_type, {pages + PAGE, NULL, NULL}}, PYR_CALLEE_UNKNOWN);
    /* A type that cannot be one: not ready, or of another size than its name promises. */
    const type unready = {1, &metatype, 0, NAME("builtin_function_or_method"), 56, 0, 1};
    assert_int_equal(
        pyr_callee_name(reader, batch, &layout, addr_of(&(object){1, &unready, {&at_edge}}), &out),
        PYR_EFAULT);
    const method sleep = {0, NAME("sleep")};
    const type small = {1, &metatype, 0, NAME("builtin_function_or_method"), 16, READY | HEAP, 1};
    assert_not_native(&(object){1, &small, {&sleep, NULL, NULL}}, PYR_CALLEE_UNKNOWN);
    munmap(pages, 2 * PAGE);
}

static void test_long_names_are_cut(void **state)
{
    (void)state;
    char long_name[128];
    memset(long_name, 'n', sizeof(long_name));
    long_name[127] = '\0';
    char long_type[128];
    memset(long_type, 't', sizeof(long_type));
    long_type[127] = '\0';
    const type owner = {1, &metatype, 0, long_type, 40, READY, 0};
    const object self = {1, &owner, {0}};
    const method def = {0, long_name};
    pyr_callee out = named(&(object){1, &function_type, {&def, &self, NULL}});
    assert_int_equal(out.length, PYR_CALLEE_NAME_BYTES - 1);
    assert_int_equal(out.name[126], 't');
    assert_int_equal(out.name[127], '.');
    assert_int_equal(out.name[128], 'n');
}

static void test_enter(void **state)
{
    (void)state;
    layout_set(PYR_CALL_313);
    pyr_callee out;
    const object lock = {1, &lock_type, {0}};
    const object order = {1, &class_type, {0}};
    const object function = {1, &python_type, {0}};
    const method exit = {0, NAME("__exit__")};
    const object bound_exit = {1, &function_type, {&exit, &lock, NULL}};
    assert_int_equal(pyr_callee_name_enter(reader, batch, &layout, addr_of(&lock), &out), PYR_OK);
    assert_string_equal(out.name, "_thread.lock.__enter__");
    assert_int_equal(pyr_callee_name_enter(reader, batch, &layout, addr_of(&bound_exit), &out),
                     PYR_OK);
    assert_string_equal(out.name, "_thread.lock.__enter__");
    assert_int_equal(pyr_callee_name_enter(reader, batch, &layout, addr_of(&order), &out), PYR_OK);
    assert_int_equal(out.kind, PYR_CALLEE_UNKNOWN);
    assert_int_equal(pyr_callee_name_enter(reader, batch, &layout,
                                           addr_of(&(object){1, &bound_type, {&function}}), &out),
                     PYR_OK);
    assert_int_equal(out.kind, PYR_CALLEE_PYTHON);
}

static void test_fits(void **state)
{
    (void)state;
    enum { CALL = 53, CALL_BUILTIN_CLASS = 165, CALL_BUILTIN_FAST = 166, CALL_TYPE_1 = 181 };
    pyr_callee callee = {.kind = PYR_CALLEE_NATIVE, .form = PYR_FORM_FUNCTION};
    assert_true(pyr_callee_fits(13, CALL, &callee));
    assert_true(pyr_callee_fits(13, CALL_BUILTIN_FAST, &callee));
    assert_false(pyr_callee_fits(13, CALL_BUILTIN_CLASS, &callee));
    callee.form = PYR_FORM_CLASS;
    assert_false(pyr_callee_fits(13, CALL_TYPE_1, &callee));
    assert_true(pyr_callee_fits(13, CALL_BUILTIN_CLASS, &callee));
    callee.form = PYR_FORM_TYPE;
    assert_true(pyr_callee_fits(13, CALL_TYPE_1, &callee));
    assert_true(pyr_callee_fits(13, CALL_BUILTIN_CLASS, &callee));
    callee = (pyr_callee){.kind = PYR_CALLEE_PYTHON};
    assert_true(pyr_callee_fits(13, CALL_BUILTIN_CLASS, &callee));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_the_callee_lies),
        cmocka_unit_test(test_whether_a_call_is_in_progress),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_methods_and_types),
        cmocka_unit_test(test_what_is_not_native),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_long_names_are_cut),
        cmocka_unit_test(test_enter),
        cmocka_unit_test(test_fits),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
