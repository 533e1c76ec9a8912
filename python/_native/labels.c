/* The program's labels: Labels (enter and leave), the sets that they put into a context variable,
 * and calls that carry a set to another thread.
 *
 * A set is immutable: its text, the hash of the text, what it was made from (`previous`, and the
 * labels `own` of the Labels with number `maker`). Leaving looks for the set that this Labels made
 * rather than keeping a token, so one Labels may be entered many times over, in many tasks at once,
 * and blocks that interleave (generators) end in any order. No type refers back to what it is
 * referred from, so none needs the garbage collector but Carried, which holds any callable.
 *
 * Everything runs with the GIL. The sampler reads sets without it: the head of a set is laid out as
 * cpython/context.h says, and is written before the set is in any context. What the program gives
 * never makes an error: what cannot be a label is left out. These are more than 600 lines, because
 * all three types know how a set is laid out, and nobody else should.
 */
#include "labels.h"

#include <stdbool.h>
#include <string.h>

#include "base/map.h"
#include "model/requests.h"
#include "model/sample.h"

enum { MOST_ABOVE = 1024 }; /* sets looked through for the one to leave */

typedef struct set_object {
    PyObject head;
    uint64_t hash;
    uint32_t length;
    char text[PYR_LABEL_SET_BYTES]; /* as far as length; the object is no longer than that */
} set_object;

_Static_assert(offsetof(set_object, hash) == PYR_LABEL_SET_HASH_AT, "read by the sampler");
_Static_assert(offsetof(set_object, length) == PYR_LABEL_SET_LENGTH_AT, "read by the sampler");
_Static_assert(offsetof(set_object, text) == PYR_LABEL_SET_TEXT_AT, "read by the sampler");

/* What stands behind a set's text, aligned: only we read it. */
typedef struct set_tail {
    PyObject *previous; /* a set, or NULL */
    PyObject *own;      /* bytes: text of the labels that were added */
    uint64_t maker;
    bool has_endpoint; /* a request is being served */
} set_tail;

typedef struct labels_object {
    PyObject head;
    uint64_t number;    /* of this Labels, never used again */
    PyObject *own;      /* bytes: as the text of a set, but an empty value takes a label away */
    PyObject *made;     /* the set made last, or NULL: most blocks are entered from one place */
    PyObject *made_for; /* the set that it was made from, or NULL */
    pyr_request_counter *requests; /* of the endpoint that it names; NULL = none, or it goes on */
} labels_object;

typedef struct carried_object {
    PyObject head;
    PyObject *function;
    PyObject *set;
} carried_object;

static pyr_label_source source;
static PyObject *variable; /* made once, kept for ever */
static uint64_t last_number;
static PyTypeObject set_type, labels_type, carried_type;

const pyr_label_source *pyr_labels_source(void)
{
    return &source;
}

/* ------------------------------------------------------------------------------------- texts */

/* One label of a text. */
typedef struct item {
    const char *key, *value;
    size_t key_length, value_length;
} item;

/* The next label, or false at the end. */
static bool next_item(const char **at, const char *end, item *found)
{
    if (*at >= end) {
        return false;
    }
    const char *stop = memchr(*at, PYR_LABEL_RECORD, (size_t)(end - *at));
    stop = stop != NULL ? stop : end;
    const char *unit = memchr(*at, PYR_LABEL_UNIT, (size_t)(stop - *at));
    unit = unit != NULL ? unit : stop;
    *found = (item){*at, unit < stop ? unit + 1 : stop, (size_t)(unit - *at),
                    (size_t)(unit < stop ? stop - unit - 1 : 0)};
    *at = stop + 1;
    return true;
}

static int compare(const item *one, const item *two)
{
    size_t shorter = one->key_length < two->key_length ? one->key_length : two->key_length;
    int order = memcmp(one->key, two->key, shorter);
    return order != 0 ? order
                      : (one->key_length > two->key_length) - (one->key_length < two->key_length);
}

static void append(char text[PYR_LABEL_SET_BYTES], size_t *length, const item *label)
{
    if (*length > 0) {
        text[(*length)++] = PYR_LABEL_RECORD;
    }
    memcpy(text + *length, label->key, label->key_length);
    *length += label->key_length;
    text[(*length)++] = PYR_LABEL_UNIT;
    memcpy(text + *length, label->value, label->value_length);
    *length += label->value_length;
}

/* Both texts in one, by key; of equal keys that of `own` counts, and an empty one takes the label
 * away. With more labels than fit, those of `base` stay. */
static size_t merge(const char *base, size_t base_length, const char *own, size_t own_length,
                    char text[PYR_LABEL_SET_BYTES])
{
    const char *base_end = base + base_length, *own_end = own + own_length;
    item one, two;
    size_t length = 0, room = PYR_LABEL_SET_LABELS;
    for (const char *at = base; next_item(&at, base_end, &one) && room > 0;) {
        room--;
    }
    bool has_one = next_item(&base, base_end, &one), has_two = next_item(&own, own_end, &two);
    while (has_one || has_two) {
        int order = !has_one ? 1 : !has_two ? -1 : compare(&one, &two);
        if (order < 0) {
            append(text, &length, &one);
        } else if (two.value_length > 0 && (order == 0 || room > 0)) {
            append(text, &length, &two);
            room -= order != 0;
        }
        has_one = order <= 0 ? next_item(&base, base_end, &one) : has_one;
        has_two = order >= 0 ? next_item(&own, own_end, &two) : has_two;
    }
    return length;
}

/* The label `endpoint` of a text; with an empty value where there is none. */
static item find_endpoint(const char *text, size_t length)
{
    static const char KEY[] = "endpoint";
    const char *end = text + length;
    item label;
    while (next_item(&text, end, &label)) {
        if (label.key_length == sizeof KEY - 1 && memcmp(label.key, KEY, sizeof KEY - 1) == 0) {
            return label;
        }
    }
    return (item){0};
}

/* -------------------------------------------------------------------------------------- sets */

static size_t tail_at(uint32_t length)
{
    size_t end = PYR_LABEL_SET_TEXT_AT + length;
    return (end + sizeof(uint64_t) - 1) & ~(sizeof(uint64_t) - 1);
}

static set_tail *tail_of(PyObject *set)
{
    return (set_tail *)(void *)((char *)set + tail_at(((set_object *)set)->length));
}

/* The set that follows from `previous` (borrowed, or NULL) by the labels `own`. NULL: no memory. */
static PyObject *make_set(PyObject *previous, PyObject *own, uint64_t maker)
{
    char text[PYR_LABEL_SET_BYTES];
    const set_object *base = (const set_object *)previous;
    size_t length = merge(base != NULL ? base->text : "", base != NULL ? base->length : 0,
                          PyBytes_AS_STRING(own), (size_t)PyBytes_GET_SIZE(own), text);
    set_object *made = PyObject_Malloc(tail_at((uint32_t)length) + sizeof(set_tail));
    if (made == NULL) {
        return PyErr_NoMemory();
    }
    made->hash = pyr_hash_bytes(text, length, source.seed);
    made->length = (uint32_t)length;
    memcpy(made->text, text, length);
    *tail_of((PyObject *)made) = (set_tail){Py_XNewRef(previous), Py_NewRef(own), maker,
                                            find_endpoint(text, length).value_length > 0};
    return PyObject_Init((PyObject *)made, &set_type);
}

/* In a loop, not by recursion: blocks may be nested deeply. */
static void set_dealloc(PyObject *set)
{
    while (set != NULL) {
        set_tail tail = *tail_of(set);
        PyObject_Free(set);
        Py_DECREF(tail.own);
        set = NULL;
        if (tail.previous != NULL && Py_REFCNT(tail.previous) == 1) {
            set = tail.previous;
        } else {
            Py_XDECREF(tail.previous);
        }
    }
}

static PyObject *set_text(PyObject *set)
{
    return PyUnicode_DecodeUTF8(((set_object *)set)->text, ((set_object *)set)->length, "replace");
}

static PyTypeObject set_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pyrometer._native.LabelSet",
    .tp_basicsize = PYR_LABEL_SET_TEXT_AT,
    .tp_dealloc = set_dealloc,
    .tp_repr = set_text,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "Labels in force.",
};

/* The set in force, a new reference in *set, or NULL there: none. False: an error is set. */
static bool get_current(PyObject **set)
{
    *set = NULL;
    if (PyContextVar_Get(variable, NULL, set) != 0) {
        return false;
    }
    if (*set != NULL && !Py_IS_TYPE(*set, &set_type)) {
        Py_CLEAR(*set);
    }
    return true;
}

/* Makes a set, or none (NULL), the one in force. */
static bool set_current(PyObject *set)
{
    PyObject *token = PyContextVar_Set(variable, set != NULL ? set : Py_None);
    Py_XDECREF(token);
    if (token != NULL && atomic_load_explicit(&source.variable, memory_order_relaxed) == 0) {
        atomic_store_explicit(&source.variable, (pyr_addr)variable, memory_order_release);
    }
    return token != NULL;
}

/* ------------------------------------------------------------------------------------ Labels */

/* Copies a text as a key or value: cut at a character, control characters become spaces. */
static size_t copy_text(char *to, size_t most, PyObject *text)
{
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "replace");
    if (bytes == NULL) {
        PyErr_Clear();
        return 0;
    }
    size_t length = (size_t)PyBytes_GET_SIZE(bytes);
    const char *from = PyBytes_AS_STRING(bytes);
    if (length > most) {
        for (length = most; length > 0 && ((unsigned char)from[length] & 0xC0) == 0x80;) {
            length--;
        }
    }
    for (size_t i = 0; i < length; i++) {
        to[i] = (unsigned char)from[i] < ' ' || from[i] == 0x7F ? ' ' : from[i];
    }
    Py_DECREF(bytes);
    return length;
}

/* Whether the profiler itself has a label of this name. */
static bool is_ours(const char *key, size_t length)
{
    for (int label = 0; label < PYR_LABEL_KEYS; label++) {
        const char *name = pyr_label_name((pyr_label_key)label);
        if (strlen(name) == length && memcmp(name, key, length) == 0) {
            return true;
        }
    }
    return false;
}

/* One keyword as the text of a label: at most PYR_LABEL_SET_KEY_BYTES and _VALUE_BYTES, which
 * `text` has room for. Bytes, 0 = it cannot be one. */
static size_t write_label(PyObject *key, PyObject *value, char *text)
{
    static const char OTHER[] = "label.";
    size_t length = PyUnicode_Check(key) ? copy_text(text, PYR_LABEL_SET_KEY_BYTES, key) : 0;
    if (length == 0) {
        return 0;
    }
    if (is_ours(text, length) && length + sizeof OTHER - 1 <= PYR_LABEL_SET_KEY_BYTES) {
        memmove(text + sizeof OTHER - 1, text, length);
        memcpy(text, OTHER, sizeof OTHER - 1);
        length += sizeof OTHER - 1;
    }
    text[length++] = PYR_LABEL_UNIT;
    if (value == Py_None) {
        return length; /* no such label within the block */
    }
    PyObject *shown = PyObject_Str(value);
    if (shown == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_Exception)) {
            return 0; /* an interrupt is the program's */
        }
        PyErr_Clear();
        return 0;
    }
    length += copy_text(text + length, PYR_LABEL_SET_VALUE_BYTES, shown);
    Py_DECREF(shown);
    return length;
}

/* The text of the keywords, sorted; NULL with an error. */
static PyObject *write_labels(PyObject *keywords)
{
    enum { LABEL_BYTES = PYR_LABEL_SET_KEY_BYTES + PYR_LABEL_SET_VALUE_BYTES + 1 };
    char text[PYR_LABEL_SET_BYTES], other[PYR_LABEL_SET_BYTES], label[LABEL_BYTES];
    size_t length = 0, count = 0;
    PyObject *key = NULL, *value = NULL;
    Py_ssize_t position = 0;
    /* A copy: str() of a value may run anything. */
    PyObject *pairs = keywords != NULL ? PyDict_Copy(keywords) : PyDict_New();
    while (pairs != NULL && count < PYR_LABEL_SET_LABELS &&
           PyDict_Next(pairs, &position, &key, &value)) {
        size_t bytes = write_label(key, value, label);
        if (PyErr_Occurred() != NULL) {
            Py_CLEAR(pairs);
        } else if (bytes > 0) {
            /* In its place among the others: by hand, because merge takes labels away. */
            const char *at = text;
            item added, known;
            const char *start = label;
            size_t written = 0;
            bool placed = !next_item(&start, label + bytes, &added);
            while (next_item(&at, text + length, &known)) {
                int order = compare(&added, &known);
                if (!placed && order <= 0) {
                    append(other, &written, &added);
                    placed = true;
                }
                if (order != 0) {
                    append(other, &written, &known);
                }
            }
            if (!placed) {
                append(other, &written, &added);
            }
            memcpy(text, other, written);
            length = written;
            count++;
        }
    }
    PyObject *bytes = pairs != NULL ? PyBytes_FromStringAndSize(text, (Py_ssize_t)length) : NULL;
    Py_XDECREF(pairs);
    return bytes;
}

static PyObject *labels_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    if (PyTuple_GET_SIZE(arguments) > 0) {
        PyErr_SetString(PyExc_TypeError, "labels are keywords: labels(route=\"/cart\")");
        return NULL;
    }
    PyObject *own = write_labels(keywords);
    labels_object *made = own != NULL ? (labels_object *)type->tp_alloc(type, 0) : NULL;
    if (made == NULL) {
        Py_XDECREF(own);
        return NULL;
    }
    made->number = ++last_number;
    made->own = own;
    item endpoint = find_endpoint(PyBytes_AS_STRING(own), (size_t)PyBytes_GET_SIZE(own));
    if (endpoint.value_length > 0) {
        made->requests = pyr_requests_counter(endpoint.value, endpoint.value_length);
    }
    return (PyObject *)made;
}

/* The same labels for what goes on: a generator that is entered again is no further request. */
static PyObject *labels_again(PyObject *self, PyObject *unused)
{
    labels_object *made = (labels_object *)labels_type.tp_alloc(&labels_type, 0);
    (void)unused;
    if (made != NULL) {
        made->number = ++last_number;
        made->own = Py_NewRef(((labels_object *)self)->own);
    }
    return (PyObject *)made;
}

static void labels_dealloc(PyObject *self)
{
    labels_object *labels = (labels_object *)self;
    Py_CLEAR(labels->own);
    Py_CLEAR(labels->made);
    Py_CLEAR(labels->made_for);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *labels_enter(PyObject *self, PyObject *unused)
{
    labels_object *labels = (labels_object *)self;
    PyObject *current = NULL;
    (void)unused;
    if (!get_current(&current)) {
        return NULL;
    }
    if (labels->made == NULL || labels->made_for != current) {
        PyObject *made = make_set(current, labels->own, labels->number);
        if (made == NULL) {
            Py_XDECREF(current);
            return NULL;
        }
        Py_XSETREF(labels->made, made);
        Py_XSETREF(labels->made_for, Py_XNewRef(current));
    }
    bool is_request =
        labels->requests != NULL && (current == NULL || !tail_of(current)->has_endpoint);
    Py_XDECREF(current);
    PyObject *set = Py_NewRef(labels->made);
    bool done = set_current(set);
    Py_DECREF(set);
    if (done && is_request) {
        pyr_requests_add(labels->requests);
    }
    return done ? Py_NewRef(self) : NULL;
}

/* `current` without the topmost set of `maker`: those above it are made again. A new reference in
 * *rest, or NULL there: none is left. False: an error is set. */
static bool take_out(PyObject *current, uint64_t maker, PyObject **rest)
{
    PyObject *above[MOST_ABOVE];
    size_t count = 0;
    PyObject *at = current;
    while (at != NULL && tail_of(at)->maker != maker && count < MOST_ABOVE) {
        above[count++] = at;
        at = tail_of(at)->previous;
    }
    if (at == NULL || tail_of(at)->maker != maker) {
        *rest = Py_XNewRef(current); /* entered in another context, or long ended */
        return true;
    }
    *rest = Py_XNewRef(tail_of(at)->previous);
    while (count > 0) {
        const set_tail *tail = tail_of(above[--count]);
        PyObject *made = make_set(*rest, tail->own, tail->maker);
        Py_XSETREF(*rest, made);
        if (made == NULL) {
            return false;
        }
    }
    return true;
}

static PyObject *labels_exit(PyObject *self, PyObject *const *unused, Py_ssize_t count)
{
    labels_object *labels = (labels_object *)self;
    PyObject *current = NULL, *rest = NULL;
    (void)unused;
    (void)count;
    if (!get_current(&current)) {
        return NULL;
    }
    bool done = take_out(current, labels->number, &rest);
    if (done && rest != current) {
        done = set_current(rest);
    }
    Py_XDECREF(current);
    Py_XDECREF(rest);
    return done ? Py_NewRef(Py_None) : NULL;
}

static PyMethodDef labels_methods[] = {
    {"__enter__", labels_enter, METH_NOARGS, "From here on these labels are in force."},
    {"_again", labels_again, METH_NOARGS, "The same labels for what was entered before."},
    {"__exit__", (PyCFunction)(void (*)(void))labels_exit, METH_FASTCALL, "They end here."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject labels_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pyrometer._native.Labels",
    .tp_basicsize = sizeof(labels_object),
    .tp_new = labels_new,
    .tp_dealloc = labels_dealloc,
    .tp_methods = labels_methods,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "Labels for what the program does within a block.",
};

/* ----------------------------------------------------------------------------------- Carried */

static PyObject *carried_call(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    carried_object *carried = (carried_object *)self;
    PyObject *before = NULL;
    if (!get_current(&before) || !set_current(carried->set)) {
        Py_XDECREF(before);
        return NULL;
    }
    PyObject *result = PyObject_Call(carried->function, arguments, keywords);
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (!set_current(before)) {
        PyErr_Clear(); /* no memory: the labels stay until the next ones */
    }
    PyErr_Restore(type, value, traceback);
    Py_XDECREF(before);
    return result;
}

static int carried_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((carried_object *)self)->function);
    return 0;
}

static int carried_clear(PyObject *self)
{
    Py_CLEAR(((carried_object *)self)->function);
    return 0;
}

static void carried_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    carried_clear(self);
    Py_XDECREF(((carried_object *)self)->set);
    PyObject_GC_Del(self);
}

static PyObject *carried_repr(PyObject *self)
{
    return PyObject_Repr(((carried_object *)self)->function);
}

static PyTypeObject carried_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pyrometer._native.Carried",
    .tp_basicsize = sizeof(carried_object),
    .tp_dealloc = carried_dealloc,
    .tp_repr = carried_repr,
    .tp_call = carried_call,
    .tp_traverse = carried_traverse,
    .tp_clear = carried_clear,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "A callable that runs under the labels of where it was made.",
};

static PyObject *labels_carry(PyObject *module, PyObject *function)
{
    PyObject *current = NULL;
    (void)module;
    if (!get_current(&current)) {
        return NULL;
    }
    if (current == NULL || !PyCallable_Check(function)) {
        Py_XDECREF(current);
        return Py_NewRef(function);
    }
    carried_object *made = PyObject_GC_New(carried_object, &carried_type);
    if (made == NULL) {
        Py_DECREF(current);
        return NULL;
    }
    made->function = Py_NewRef(function);
    made->set = current;
    PyObject_GC_Track(made);
    return (PyObject *)made;
}

static PyObject *labels_drop(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *current = NULL;
    if (!get_current(&current) || (current != NULL && !set_current(NULL))) {
        Py_XDECREF(current);
        return NULL;
    }
    Py_XDECREF(current);
    Py_RETURN_NONE;
}

static PyObject *labels_current(PyObject *module, PyObject *unused)
{
    PyObject *current = NULL;
    (void)module;
    (void)unused;
    PyObject *result = get_current(&current) ? PyDict_New() : NULL;
    const set_object *set = (const set_object *)current;
    const char *at = set != NULL ? set->text : NULL;
    item label;
    while (result != NULL && set != NULL && next_item(&at, set->text + set->length, &label)) {
        PyObject *key = PyUnicode_DecodeUTF8(label.key, (Py_ssize_t)label.key_length, "replace");
        PyObject *value =
            PyUnicode_DecodeUTF8(label.value, (Py_ssize_t)label.value_length, "replace");
        if (key == NULL || value == NULL || PyDict_SetItem(result, key, value) != 0) {
            Py_CLEAR(result);
        }
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    Py_XDECREF(current);
    return result;
}

static PyMethodDef functions[] = {
    {"labels_carry", labels_carry, METH_O,
     "labels_carry(function) -> callable\n\nThe function under the labels in force now."},
    {"labels_current", labels_current, METH_NOARGS,
     "labels_current() -> dict[str, str]\n\nThe labels in force."},
    {"labels_drop", labels_drop, METH_NOARGS,
     "labels_drop() -> None\n\nEnds all labels of this context."},
    {NULL, NULL, 0, NULL},
};

int pyr_labels_add(PyObject *module)
{
    if (variable == NULL) {
        if (PyType_Ready(&set_type) != 0 || PyType_Ready(&labels_type) != 0 ||
            PyType_Ready(&carried_type) != 0) {
            return -1;
        }
        PyObject *made = PyContextVar_New("pyrometer.labels", NULL);
        Py_hash_t hash = made != NULL ? PyObject_Hash(made) : -1;
        if (hash == -1) {
            Py_XDECREF(made);
            return -1;
        }
        source.set_type = (pyr_addr)&set_type;
        source.seed = pyr_hash_seed();
        source.hash = pyr_context_hash(hash);
        variable = made;
    }
    return PyModule_AddFunctions(module, functions) != 0
               ? -1
               : PyModule_AddObjectRef(module, "Labels", (PyObject *)&labels_type);
}
