/* Which slots are exchanged, by what they hold: this program's own slot of a function. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "os/imports.h"

static const char *const names[] = {"reallocarray"};

typedef void *(*function)(void *block, size_t count, size_t each);

/* The loader stores an address here, as in other slots. */
static volatile function slot = reallocarray, another = reallocarray;

static void *stub(void *block, size_t count, size_t each)
{
    (void)count;
    (void)each;
    return block;
}

static struct {
    uintptr_t of; /* a slot that holds this */
    int count;
    bool is_data;
} asked;

static uintptr_t choose(void *context, size_t name, uintptr_t held, bool is_data)
{
    (void)context;
    (void)name;
    if (held == asked.of) {
        asked.count++;
        asked.is_data |= is_data;
    }
    return held;
}

static void ask(uintptr_t of, uintptr_t usual)
{
    static pyr_imports imports;
    const pyr_imports_wanted wanted = {
        .names = names, .count = 1, .definer = "malloc", .choose = choose, .usual = &usual};
    asked.of = of;
    asked.count = 0;
    asked.is_data = false;
    pyr_imports_clear(&imports);
    pyr_imports_exchange(&imports, &wanted);
    assert_int_equal(imports.exchanged, 0);
}

static void a_bound_slot(void **unused)
{
    uintptr_t held = (uintptr_t)slot;
    (void)unused;
    ask(held, held);
    assert_true(asked.count > 0 && asked.is_data);
}

/* As one of lazy binding, which holds a stub of its object. */
static void an_unbound_slot(void **unused)
{
    function bound = slot;
    (void)unused;
    slot = another = stub;
    ask((uintptr_t)bound, (uintptr_t)bound);
    int with_usual = asked.count;
    /* In a program that is not relocated, a function's address may be that of its own stub: a hook
     * that passed on to it would come back to itself. */
    ask((uintptr_t)stub, (uintptr_t)stub);
    int with_own = asked.count;
    slot = another = bound;
    assert_true(with_usual > 0);
    assert_int_equal(with_own, 0);
}

/* Where one slot holds another function than usual, so may those that are not bound yet. */
static void an_unbound_slot_beside_others(void **unused)
{
    function bound = slot;
    (void)unused;
    slot = stub;
    another = (function)(uintptr_t)calloc;
    ask((uintptr_t)bound, (uintptr_t)bound);
    slot = another = bound;
    assert_int_equal(asked.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bound_slot),
        cmocka_unit_test(an_unbound_slot),
        cmocka_unit_test(an_unbound_slot_beside_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
