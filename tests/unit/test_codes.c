/* Unit tests of unwind/codes: names, lines, validity, what is broken. */
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
#include "support/fake_python.h"
#include "unwind/codes.h"

enum { MEMORY = 1 << 20, UNITS = 10 };

static pyr_code_deaths deaths;

typedef struct scene {
    fake_python python;
    pyr_symbols *symbols;
    pyr_codes *codes;
} scene;

static void for_each_minor(const pyr_code_deaths *hook, void (*body)(scene *self))
{
    size_t before = pyr_memory_in_use();
    for (unsigned minor = FAKE_FIRST_MINOR; minor < FAKE_FIRST_MINOR + FAKE_MINORS; minor++) {
        scene self;
        assert_true(fake_python_init(&self.python, PYR_TESTS_FOLDER, minor, MEMORY));
        self.symbols = pyr_symbols_new();
        self.codes = pyr_codes_new(&self.python.reader, &self.python.layout, self.python.code_type,
                                   hook, self.symbols);
        assert_non_null(self.codes);
        pyr_codes_new_tick(self.codes);
        body(&self);
        pyr_codes_free(self.codes);
        pyr_symbols_release(self.symbols);
        fake_python_fini(&self.python);
    }
    assert_int_equal(pyr_memory_in_use(), before);
}

static pyr_addr unit_addr(const scene *self, pyr_addr code, uint32_t unit)
{
    return code + self->python.layout.code_bytecode + 2UL * unit;
}

/* "name file:line" of a frame at `instr`, or the name of the status. */
static const char *describe(scene *self, pyr_addr addr, pyr_addr instr)
{
    static char text[PYR_LIMIT_NAME_BYTES + PYR_LIMIT_PATH_BYTES + 32];
    const pyr_code *code;
    pyr_status status = pyr_codes_resolve(self->codes, addr, &code);
    if (status != PYR_OK) {
        return pyr_status_name(status);
    }
    pyr_frame frame = pyr_code_frame(code, instr);
    pyr_function function = pyr_symbols_get(self->symbols, frame.function);
    (void)snprintf(text, sizeof text, "%s %s:%u",
                   pyr_symbols_text(self->symbols, function.name, NULL),
                   pyr_symbols_text(self->symbols, function.file, NULL), frame.line);
    return text;
}

static const char *describe_unit(scene *self, pyr_addr addr, uint32_t unit)
{
    return describe(self, addr, unit_addr(self, addr, unit));
}

static void lines(scene *self)
{
    pyr_addr code = fake_code(&self->python, "Class.method", "/app/a.py", 50, UNITS, NULL);
    assert_string_equal(describe_unit(self, code, 0), "Class.method /app/a.py:50");
    assert_string_equal(describe_unit(self, code, 9), "Class.method /app/a.py:59");
    /* Before the first instruction, behind the last, anywhere: the first line stands for it. */
    assert_string_equal(describe(self, code, unit_addr(self, code, 0) - 2),
                        "Class.method /app/a.py:50");
    assert_string_equal(describe_unit(self, code, UNITS), "Class.method /app/a.py:50");
    assert_string_equal(describe(self, code, 0), "Class.method /app/a.py:50");
    assert_string_equal(describe(self, code, UINTPTR_MAX), "Class.method /app/a.py:50");
    const pyr_code *resolved;
    assert_int_equal(pyr_codes_resolve(self->codes, code, &resolved), PYR_OK);
    assert_int_equal(pyr_code_unit(resolved, unit_addr(self, code, 3)), 3);
    assert_int_equal(pyr_code_unit(resolved, unit_addr(self, code, 0) - 2), -1);
    assert_int_equal(pyr_code_nlocalsplus(resolved), 0);
}

static void test_lines(void **state)
{
    (void)state;
    for_each_minor(&deaths, lines);
    for_each_minor(NULL, lines);
}

/* Code without a usable line table has its first line; a negative one is none. */
static void no_lines(scene *self)
{
    fake_python *python = &self->python;
    const pyr_layout *layout = &python->layout;
    pyr_addr none = fake_code(python, "none", "/app/a.py", 50, UNITS, NULL);
    fake_put(python, none + layout->code_linetable, fake_bytes(python, NULL, 0));
    assert_string_equal(describe_unit(self, none, 3), "none /app/a.py:50");
    pyr_addr cut = fake_code(python, "cut", "/app/a.py", 50, UNITS, NULL);
    fake_put(python, cut + layout->code_linetable, fake_bytes(python, "\xe8", 1));
    assert_string_equal(describe_unit(self, cut, 3), "cut /app/a.py:50");
    pyr_addr wild = fake_code(python, "wild", "<string>", -3, UNITS, NULL);
    fake_put(python, wild + layout->code_linetable, 8);
    assert_string_equal(describe_unit(self, wild, 3), "wild <string>:0");
    pyr_addr huge = fake_code(python, "huge", "/app/a.py", 50, UNITS, NULL);
    pyr_addr table = fake_get(python, huge + layout->code_linetable);
    fake_put(python, table + layout->var_size, UINT64_MAX / 2);
    assert_string_equal(describe_unit(self, huge, 3), "huge /app/a.py:50");
    /* A long one is read in full. */
    pyr_addr large = fake_code(python, "large", "/app/a.py", 50, 5000, NULL);
    assert_string_equal(describe_unit(self, large, 4999), "large /app/a.py:5049");
}

static void test_no_lines(void **state)
{
    (void)state;
    for_each_minor(&deaths, no_lines);
}

static void broken(scene *self)
{
    fake_python *python = &self->python;
    const pyr_layout *layout = &python->layout;
    assert_string_equal(describe(self, 8, 0), "EFAULT");
    assert_string_equal(describe(self, UINTPTR_MAX - 8, 0), "EFAULT");
    assert_string_equal(describe(self, FAKE_BASE + MEMORY - 16, 0), "EFAULT");
    pyr_addr code = fake_code(python, "f", "/app/a.py", 50, UNITS, NULL);
    const struct {
        pyr_addr place;
        uint64_t value;
        const char *expected;
    } rows[] = {
        {code + layout->object_type, FAKE_BASE, "EBAD"},
        {code + layout->code_qualname, 0, "EFAULT"},
        {code + layout->code_qualname, FAKE_BASE + MEMORY - 4, "EFAULT"},
        {code + layout->code_filename, UINT64_MAX, "EFAULT"},
        {code + layout->code_units, UINT64_MAX, "EBAD"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t before = fake_get(python, rows[i].place);
        fake_put(python, rows[i].place, rows[i].value);
        assert_string_equal(describe_unit(self, code, 1), rows[i].expected);
        fake_put(python, rows[i].place, before);
    }
    /* A failure is not remembered. */
    assert_string_equal(describe_unit(self, code, 1), "f /app/a.py:51");
}

static void test_broken(void **state)
{
    (void)state;
    for_each_minor(&deaths, broken);
}

/* ------------------------------------------------------------------------------- validity ---- */

/* Another code object at the same address. */
static void replace(scene *self, pyr_addr code, const char *name)
{
    fake_put(&self->python, code + self->python.layout.code_qualname,
             fake_text(&self->python, name));
}

static void with_hook(scene *self)
{
    fake_python *python = &self->python;
    pyr_addr code = fake_code(python, "old", "/app/a.py", 50, UNITS, NULL);
    assert_string_equal(describe_unit(self, code, 0), "old /app/a.py:50");
    uint64_t calls = python->calls;
    pyr_codes_new_tick(self->codes);
    assert_string_equal(describe_unit(self, code, 1), "old /app/a.py:51");
    assert_int_equal(python->calls, calls); /* remembered */
    /* It dies, and another is born there. In the tick of the death no name is sure. */
    pyr_code_deaths_note(&deaths, code);
    replace(self, code, "new");
    assert_string_equal(describe_unit(self, code, 0), "ETORN");
    pyr_codes_new_tick(self->codes);
    assert_string_equal(describe_unit(self, code, 0), "new /app/a.py:50");
    /* One that dies while it is read may leave anything: the stack is looked at again. */
    pyr_code_deaths_note(&deaths, code);
    fake_put(python, code + python->layout.code_qualname, 0x10);
    assert_string_equal(describe_unit(self, code, 0), "ETORN");
    pyr_codes_new_tick(self->codes);
    assert_string_equal(describe_unit(self, code, 0), "EFAULT");
    replace(self, code, "new");
    assert_string_equal(describe_unit(self, code, 0), "new /app/a.py:50");
    /* The death of one with another slot changes nothing. */
    pyr_addr elsewhere = code + 16;
    while (pyr_code_deaths_slot(elsewhere) == pyr_code_deaths_slot(code)) {
        elsewhere += 16;
    }
    pyr_code_deaths_note(&deaths, elsewhere);
    calls = python->calls;
    assert_string_equal(describe_unit(self, code, 0), "new /app/a.py:50");
    assert_int_equal(python->calls, calls);
}

static void test_with_hook(void **state)
{
    (void)state;
    for_each_minor(&deaths, with_hook);
}

static void without_hook(scene *self)
{
    pyr_addr code = fake_code(&self->python, "old", "/app/a.py", 50, UNITS, NULL);
    assert_string_equal(describe_unit(self, code, 0), "old /app/a.py:50");
    replace(self, code, "new");
    assert_string_equal(describe_unit(self, code, 0), "old /app/a.py:50"); /* the same tick */
    pyr_codes_new_tick(self->codes);
    assert_string_equal(describe_unit(self, code, 0), "new /app/a.py:50");
}

static void test_without_hook(void **state)
{
    (void)state;
    for_each_minor(NULL, without_hook);
}

/* A program in which code objects come and go at one address while names are read: a name that is
 * given was that of an object that lived there in this tick, and all of it is of one object. */
typedef struct churning {
    scene *scene;
    pyr_addr code;
    pyr_addr names[2], files[2];
    uint64_t random;
    unsigned lives; /* which of the two, or dead while a half of it is there */
    unsigned step;
} churning;

static void churn(fake_python *python, pyr_addr addr, size_t length)
{
    (void)addr;
    (void)length;
    churning *self = python->context;
    self->random = self->random * 6364136223846793005U + 1442695040888963407U;
    if (self->random >> 60 > 2) {
        return;
    }
    switch (self->step++ % 3) {
    case 0:
        pyr_code_deaths_note(&deaths, self->code);
        self->lives = 2;
        break;
    case 1:
        fake_put(python, self->code + python->layout.code_qualname,
                 self->names[self->step / 3 % 2]);
        break;
    default:
        fake_put(python, self->code + python->layout.code_filename,
                 self->files[(self->step - 1) / 3 % 2]);
        self->lives = (self->step - 1) / 3 % 2;
    }
}

static void coming_and_going(scene *self)
{
    fake_python *python = &self->python;
    churning run = {.scene = self, .random = 3};
    run.code = fake_code(python, "f0", "/app/0.py", 50, UNITS, NULL);
    for (int i = 0; i < 2; i++) {
        run.names[i] = fake_text(python, i ? "f1" : "f0");
        run.files[i] = fake_text(python, i ? "/app/1.py" : "/app/0.py");
    }
    python->context = &run;
    unsigned given[2] = {0}, torn = 0;
    for (int i = 0; i < 3000; i++) {
        python->before_span = NULL;
        churn(python, 0, 0); /* also between ticks */
        if (run.lives == 2) {
            continue; /* nothing is on the stack there */
        }
        pyr_codes_new_tick(self->codes);
        unsigned alive = run.lives;
        python->before_span = churn;
        const char *text = describe_unit(self, run.code, 0);
        if (strcmp(text, "ETORN") == 0) {
            torn++;
            continue;
        }
        given[alive]++;
        assert_string_equal(text, alive ? "f1 /app/1.py:50" : "f0 /app/0.py:50");
    }
    python->before_span = NULL;
    assert_true(given[0] > 50 && given[1] > 50 && torn > 50);
}

static void test_coming_and_going(void **state)
{
    (void)state;
    for_each_minor(&deaths, coming_and_going);
}

/* --------------------------------------------------------------------------------- bounds ---- */

/* More code objects than are remembered: emptied, and all names still right. */
static void test_overflow(void **state)
{
    (void)state;
    enum { COUNT = PYR_LIMIT_CODES + 100 };
    scene self;
    assert_true(fake_python_init(&self.python, PYR_TESTS_FOLDER, 12, 32 << 20));
    fake_python *python = &self.python;
    const pyr_layout *layout = &python->layout;
    self.symbols = pyr_symbols_new();
    self.codes = pyr_codes_new(&python->reader, layout, python->code_type, &deaths, self.symbols);
    pyr_codes_new_tick(self.codes);
    pyr_codes_stamp since = pyr_codes_now(self.codes);
    assert_true(pyr_codes_hold(self.codes, since));
    pyr_addr first = fake_code(python, "f", "/app/a.py", 50, 0, NULL);
    size_t bytes = layout->code_bytecode;
    for (size_t i = 0; i < COUNT; i++) {
        pyr_addr copy = i == 0 ? first : fake_alloc(python, bytes);
        memcpy(fake_at(python, copy, bytes), fake_at(python, first, bytes), bytes);
        assert_string_equal(describe(&self, copy, 0), "f /app/a.py:50");
    }
    assert_false(pyr_codes_hold(self.codes, since));
    pyr_codes_free(self.codes);
    pyr_symbols_release(self.symbols);
    fake_python_fini(python);
}

/* A stamp holds until a code object dies, wherever that one lies. */
static void stamps(scene *self)
{
    pyr_codes_stamp since = pyr_codes_now(self->codes);
    assert_false(pyr_codes_hold(self->codes, (pyr_codes_stamp){0}));
    assert_true(pyr_codes_hold(self->codes, since));
    pyr_code_deaths_note(&deaths, 0x1000);
    assert_false(pyr_codes_hold(self->codes, since));
    pyr_codes_new_tick(self->codes);
    assert_true(pyr_codes_hold(self->codes, pyr_codes_now(self->codes)));
}

static void test_stamps(void **state)
{
    (void)state;
    for_each_minor(&deaths, stamps);
    fake_python python; /* from outside nobody tells of deaths: no moment holds */
    assert_true(fake_python_init(&python, PYR_TESTS_FOLDER, 13, 1 << 20));
    pyr_symbols *symbols = pyr_symbols_new();
    pyr_codes *codes = pyr_codes_new(&python.reader, &python.layout, 0, NULL, symbols);
    pyr_codes_new_tick(codes);
    assert_false(pyr_codes_hold(codes, pyr_codes_now(codes)));
    pyr_codes_free(codes);
    pyr_symbols_release(symbols);
    fake_python_fini(&python);
}

static void renew(scene *self)
{
    pyr_addr code = fake_code(&self->python, "f", "/app/a.py", 50, UNITS, NULL);
    assert_string_equal(describe_unit(self, code, 0), "f /app/a.py:50");
    pyr_symbols_release(self->symbols);
    self->symbols = pyr_symbols_new();
    (void)pyr_symbols_function(self->symbols, "other", 5, "", 0, 1);
    pyr_codes_stamp since = pyr_codes_now(self->codes);
    assert_true(pyr_codes_hold(self->codes, since));
    pyr_codes_renew(self->codes, self->symbols);
    assert_false(pyr_codes_hold(self->codes, since));
    assert_string_equal(describe_unit(self, code, 0), "f /app/a.py:50");
}

static void test_renew(void **state)
{
    (void)state;
    for_each_minor(&deaths, renew);
}

static void allocation_failures(scene *self)
{
    fake_python *python = &self->python;
    pyr_addr large = fake_code(python, "large", "/app/a.py", 50, 5000, NULL);
    const pyr_code *code;
    pyr_codes *usual = self->codes;
    unsigned failures = 0;
    size_t before = pyr_memory_in_use();
    for (size_t nth = 1;; nth++) {
        pyr_memory_fail_at(nth);
        self->codes = pyr_codes_new(&python->reader, &python->layout, python->code_type, &deaths,
                                    self->symbols);
        bool failed = pyr_memory_has_failed();
        if (self->codes) {
            pyr_codes_new_tick(self->codes);
            pyr_status status = pyr_codes_resolve(self->codes, large, &code);
            if (status == PYR_OK) {
                (void)pyr_codes_sites(self->codes, code);
            }
            failed = pyr_memory_has_failed();
            pyr_memory_fail_at(0);
            assert_true(status == PYR_OK || (failed && status == PYR_ENOMEM));
            assert_string_equal(describe_unit(self, large, 0), "large /app/a.py:50");
        }
        pyr_codes_free(self->codes);
        self->codes = usual;
        failures += failed;
        if (!failed) {
            break;
        }
        assert_true(pyr_memory_in_use() <= before + 65536); /* symbols may have grown */
    }
    assert_true(failures >= 6);
}

static void test_allocation_failures(void **state)
{
    (void)state;
    for_each_minor(&deaths, allocation_failures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),        cmocka_unit_test(test_no_lines),
        cmocka_unit_test(test_broken),       cmocka_unit_test(test_with_hook),
        cmocka_unit_test(test_without_hook), cmocka_unit_test(test_coming_and_going),
        cmocka_unit_test(test_overflow),     cmocka_unit_test(test_stamps),
        cmocka_unit_test(test_renew),        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
