/* Unit tests of cpython/context: tries of every shape, made by hand in our own memory; what moves
 * or lies gives no label, and never more than what fits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "cpython/context.h"
#include "cpython/layout_fields.h"
#include "model/sample.h"

enum { WORDS = 80, TYPE_AT = 8, NAME_AT = 24 };

static const pyr_layout layout = {.object_type = TYPE_AT, .type_name = NAME_AT};

typedef struct object {
    uint64_t words[WORDS];
} object;

/* A context, a trie, nodes, and two sets. */
typedef struct scene {
    object types[5]; /* of bitmap, array and collision nodes, sets, and something else */
    object context, trie, nodes[10], set, other;
    uint64_t variable;
    pyr_label_source source;
    pyr_context_kinds kinds;
    pyr_context_path path;
    pyr_label_set found;
} scene;

enum { BITMAP, ARRAY, COLLISION, SET, STRANGE };

static const char TEXT[] = "route\x1F/cart\x1Etenant\x1F"
                           "7";

static void make(scene *self, object *made, int type)
{
    memset(made, 0, sizeof *made);
    made->words[1] = (uint64_t)(uintptr_t)&self->types[type];
}

static void make_set(scene *self, object *made, const char *text)
{
    uint32_t length = (uint32_t)strlen(text);
    uint64_t hash = pyr_hash_bytes(text, length, self->source.seed);
    make(self, made, SET);
    memcpy((char *)made + PYR_LABEL_SET_HASH_AT, &hash, sizeof hash);
    memcpy((char *)made + PYR_LABEL_SET_LENGTH_AT, &length, sizeof length);
    memcpy((char *)made + PYR_LABEL_SET_TEXT_AT, text, length);
}

static void put_bits(object *node, uint32_t bits)
{
    memcpy((char *)node + 24, &bits, sizeof bits);
}

static void put_pair(object *node, unsigned index, const void *key, const void *value)
{
    node->words[4 + 2 * index] = (uint64_t)(uintptr_t)key;
    node->words[5 + 2 * index] = (uint64_t)(uintptr_t)value;
}

static void begin(scene *self, uint32_t hash)
{
    static const char *const names[] = {"hamt_bitmap_node", "hamt_array_node",
                                        "hamt_collision_node", "LabelSet", "NoneType of old"};
    memset(self, 0, sizeof *self);
    for (int i = 0; i < 5; i++) {
        self->types[i].words[NAME_AT / 8] = (uint64_t)(uintptr_t)names[i];
    }
    self->source.seed = 42;
    self->source.hash = hash;
    self->source.set_type = (pyr_addr)&self->types[SET];
    atomic_store(&self->source.variable, (pyr_addr)&self->variable);
    make(self, &self->context, STRANGE);
    make(self, &self->trie, STRANGE);
    self->context.words[3] = (uint64_t)(uintptr_t)&self->trie;
    self->trie.words[2] = (uint64_t)(uintptr_t)&self->nodes[0];
    make_set(self, &self->set, TEXT);
}

static pyr_status walk(scene *self)
{
    return pyr_context_walk(&layout, &self->source, &self->kinds, (pyr_addr)&self->context,
                            &pyr_context_own_memory, &self->path, &self->found);
}

static pyr_status check(scene *self, pyr_label_set *set)
{
    const uint8_t *copies[PYR_CONTEXT_STEPS];
    for (int i = 0; i < self->path.count; i++) {
        copies[i] = (const uint8_t *)self->path.steps[i].addr;
    }
    return pyr_context_path_check(&layout, &self->source, &self->kinds, (pyr_addr)&self->context,
                                  &self->path, copies, set);
}

/* The walk finds the set, and so does the check of its path. */
static void assert_found(scene *self, const object *set)
{
    char text[PYR_LABEL_SET_BYTES];
    pyr_label_set again;
    assert_int_equal(walk(self), PYR_OK);
    assert_int_equal(self->found.addr, (pyr_addr)set);
    assert_int_equal(check(self, &again), PYR_OK);
    assert_int_equal(again.addr, (pyr_addr)set);
    if (set) {
        assert_int_equal(pyr_label_set_text(&self->source, &again, &pyr_context_own_memory, text),
                         PYR_OK);
        assert_int_equal(again.length, strlen(TEXT));
        assert_memory_equal(text, TEXT, again.length);
    }
}

static void test_hash(void **state)
{
    (void)state;
    assert_int_equal(pyr_context_hash(0), 0);
    assert_int_equal(pyr_context_hash((int64_t)0x123456789ABCDEF0), 0x12345678U ^ 0x9ABCDEF0U);
    assert_int_equal(pyr_context_hash((int64_t)0xFFFFFFFF00000000U), UINT32_MAX - 1);
}

/* Bitmap nodes: the place of a pair is the number of bits below its own. */
static void test_bitmap(void **state)
{
    (void)state;
    scene self;
    for (unsigned slot = 0; slot < 32; slot++) {
        for (unsigned below = 0; below < 4; below++) {
            begin(&self, slot);
            make(&self, &self.nodes[0], BITMAP);
            uint32_t bits = UINT32_C(1) << slot;
            unsigned index = 0;
            for (unsigned bit = 0; bit < slot && index < below; bit++, index++) {
                bits |= UINT32_C(1) << bit;
                put_pair(&self.nodes[0], index, &self, &self.other);
            }
            put_bits(&self.nodes[0], bits);
            put_pair(&self.nodes[0], index, &self.variable, &self.set);
            assert_found(&self, &self.set);
            assert_int_equal(self.path.count, 4);
            /* The slot is another variable's, or nobody's. */
            put_pair(&self.nodes[0], index, &self, &self.set);
            assert_found(&self, NULL);
            put_bits(&self.nodes[0], bits & ~(UINT32_C(1) << slot));
            assert_found(&self, NULL);
        }
    }
}

/* Levels: five bits of the hash each, arrays and bitmaps in turn, a collision behind the last. */
static void test_levels(void **state)
{
    (void)state;
    scene self;
    const uint32_t hash = 0xD6A5C3B7;
    for (unsigned levels = 1; levels <= 8; levels++) {
        begin(&self, hash);
        for (unsigned level = 0; level < levels; level++) {
            object *node = &self.nodes[level];
            bool last = level + 1 == levels;
            unsigned slot = level < 7 ? hash >> 5 * level & 31 : 0;
            if (level == 7) {
                make(&self, node, COLLISION);
                node->words[2] = 4; /* two pairs */
                put_pair(node, 0, &self, &self.other);
                put_pair(node, 1, &self.variable, &self.set);
            } else if (level % 2 && !last) {
                make(&self, node, ARRAY);
                node->words[2 + slot] = (uint64_t)(uintptr_t)&self.nodes[level + 1];
            } else {
                make(&self, node, BITMAP);
                put_bits(node, UINT32_C(1) << slot);
                put_pair(node, 0, last ? &self.variable : NULL,
                         last ? (void *)&self.set : (void *)&self.nodes[level + 1]);
            }
        }
        assert_found(&self, &self.set);
        assert_int_equal(self.path.count, levels + 3);
    }
}

static void test_no_labels(void **state)
{
    (void)state;
    scene self;
    begin(&self, 1);
    assert_int_equal(pyr_context_walk(&layout, &self.source, &self.kinds, 0,
                                      &pyr_context_own_memory, &self.path, &self.found),
                     PYR_OK);
    assert_int_equal(self.found.addr, 0);
    assert_int_equal(self.path.count, 0);
    make(&self, &self.nodes[0], ARRAY);
    assert_found(&self, NULL); /* an empty place of an array */
    make(&self, &self.nodes[0], BITMAP);
    put_bits(&self.nodes[0], 2);
    put_pair(&self.nodes[0], 0, &self.variable, &self.other);
    make(&self, &self.other, STRANGE); /* the value is None */
    assert_found(&self, NULL);
    make_set(&self, &self.other, "");
    assert_found(&self, NULL);
    assert_false(pyr_label_source_is_used(NULL));
    assert_true(pyr_label_source_is_used(&self.source));
    atomic_store(&self.source.variable, 0);
    assert_false(pyr_label_source_is_used(&self.source));
}

/* What changed since the path was learned is told from what did not. */
static void test_changes(void **state)
{
    (void)state;
    scene self;
    pyr_label_set set;
    begin(&self, 1);
    make(&self, &self.nodes[0], BITMAP);
    make(&self, &self.nodes[1], BITMAP);
    put_bits(&self.nodes[0], 2);
    put_bits(&self.nodes[1], 2);
    put_pair(&self.nodes[0], 0, &self.variable, &self.set);
    put_pair(&self.nodes[1], 0, &self.variable, &self.other);
    make_set(&self, &self.other,
             "a\x1F"
             "b");
    assert_found(&self, &self.set);
    self.trie.words[2] = (uint64_t)(uintptr_t)&self.nodes[1];
    assert_int_equal(check(&self, &set), PYR_EPARTIAL);
    self.trie.words[2] = (uint64_t)(uintptr_t)&self.nodes[0];
    assert_int_equal(check(&self, &set), PYR_OK);
    put_pair(&self.nodes[0], 0, &self.variable, &self.other);
    assert_int_equal(check(&self, &set), PYR_EPARTIAL);
    put_pair(&self.nodes[0], 0, NULL, &self.nodes[1]); /* the path goes on, but was not copied */
    assert_int_equal(check(&self, &set), PYR_EPARTIAL);
    put_pair(&self.nodes[0], 0, &self.variable, &self.set);
    put_bits(&self.nodes[0], 3); /* the pair moved up, beyond what was copied */
    assert_int_equal(check(&self, &set), PYR_EPARTIAL);
    put_bits(&self.nodes[0], 2);
    self.path.count = 0;
    assert_int_equal(check(&self, &set), PYR_EPARTIAL);
    /* A set that became another one: its hash and its text do not agree. */
    char text[PYR_LABEL_SET_BYTES];
    assert_found(&self, &self.set);
    ((char *)&self.set)[PYR_LABEL_SET_TEXT_AT] = 'R';
    assert_int_equal(pyr_label_set_text(&self.source, &self.found, &pyr_context_own_memory, text),
                     PYR_EBAD);
}

/* Nodes of no known type, circles, lengths that cannot be. */
static void test_lies(void **state)
{
    (void)state;
    scene self;
    begin(&self, 1);
    make(&self, &self.nodes[0], STRANGE);
    assert_int_equal(walk(&self), PYR_EBAD);
    self.nodes[0].words[1] = 0;
    assert_int_equal(walk(&self), PYR_EBAD);
    self.context.words[3] = 0;
    assert_int_equal(walk(&self), PYR_EBAD);
    begin(&self, 0);
    make(&self, &self.nodes[0], ARRAY); /* its own child */
    self.nodes[0].words[2] = (uint64_t)(uintptr_t)&self.nodes[0];
    assert_int_equal(walk(&self), PYR_EBAD);
    begin(&self, 1);
    make(&self, &self.nodes[0], COLLISION);
    self.nodes[0].words[2] = UINT64_MAX; /* pairs */
    assert_int_equal(walk(&self), PYR_OK);
    assert_int_equal(self.found.addr, 0);
    make(&self, &self.nodes[0], BITMAP);
    put_bits(&self.nodes[0], 2);
    put_pair(&self.nodes[0], 0, &self.variable, &self.set);
    const uint32_t lengths[] = {PYR_LABEL_SET_BYTES + 1, UINT32_MAX};
    for (size_t i = 0; i < 2; i++) {
        memcpy((char *)&self.set + PYR_LABEL_SET_LENGTH_AT, &lengths[i], sizeof lengths[i]);
        assert_int_equal(walk(&self), PYR_EBAD);
    }
    self.found = (pyr_label_set){.addr = (pyr_addr)&self.set, .length = UINT32_MAX};
    char text[PYR_LABEL_SET_BYTES];
    assert_int_equal(pyr_label_set_text(&self.source, &self.found, &pyr_context_own_memory, text),
                     PYR_EFAULT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash),    cmocka_unit_test(test_bitmap),
        cmocka_unit_test(test_levels),  cmocka_unit_test(test_no_labels),
        cmocka_unit_test(test_changes), cmocka_unit_test(test_lies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
