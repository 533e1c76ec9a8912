/* What a lock is called: the attribute or variable that holds it, where it is taken.
 *
 * Only sampled events ask, in the thread that takes the lock, whose frames stand still. Looked at
 * are the local variables of the function that takes it, the globals it names, and of these objects
 * the attributes that its code names: "pool.py:42:Pool._lock", where the line is that of the
 * class's
 * __init__, or the function's for its own variable. Of a lock that the standard library has in an
 * object, the object is looked for in the callers.
 *
 * Attributes are read as the interpreter has them in the object: what would run code of the program
 * (properties, __getattr__) is left alone. Everything is bounded.
 */
#include "lock_name.h"

#include <Python.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/ending.h"

enum {
    MOST_LOCALS = 32,
    MOST_NAMES = 32,
    MOST_READS = 24, /* attributes looked at in one frame */
    MISSES = 2,      /* frames of the program in which nothing is found */
    INT_TAG = 3,     /* of a slot with a number in it, where slots are tagged */
};

typedef struct search {
    const PyObject *target;
    int reads; /* left */
    char *text;
    size_t size, length;
} search;

static const char *text_of(PyObject *string)
{
    return string != NULL && PyUnicode_Check(string) && PyUnicode_IS_COMPACT_ASCII(string)
               ? (const char *)PyUnicode_DATA(string)
               : "?";
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static const char *file_of(const PyCodeObject *code)
{
    return text_of(code->co_filename);
}

/* The standard library's own classes around locks. */
static bool is_of_locks(const PyCodeObject *code)
{
    static const char *const ends[] = {"/threading.py",
                                       "/queue.py",
                                       "/asyncio/locks.py",
                                       "/asyncio/queues.py",
                                       "/gevent/thread.py",
                                       "/gevent/lock.py",
                                       "/eventlet/semaphore.py",
                                       "/multiprocessing/synchronize.py",
                                       "/multiprocessing/queues.py"};
    const char *file = file_of(code);
    size_t length = strlen(file);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        if (pyr_ends_with(file, length, ends[i])) {
            return true;
        }
    }
    return false;
}

static void say(search *to, const char *file, int line, const char *owner, const char *name)
{
    int bytes = snprintf(to->text, to->size, "%s:%d:%s%s%s", base_of(file), line, owner,
                         owner[0] != '\0' ? "." : "", name);
    to->length = bytes > 0 && (size_t)bytes < to->size ? (size_t)bytes : 0;
}

/* Where the attributes of a class, or of all objects of one, stand. */
static PyTypeObject *class_of(PyObject *object)
{
    return PyType_Check(object) ? (PyTypeObject *)object : Py_TYPE(object);
}

/* Whether attributes of the object may be locks, and can be read without running code: not those of
 * numbers, texts, lists and modules. */
static bool is_readable(PyObject *object)
{
    const PyTypeObject *class = class_of(object);
    return (class->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 &&
           (PyType_Check(object) || class->tp_getattro == PyObject_GenericGetAttr);
}

/* The value of an attribute that lies in the object, which is readable, or in its class; a new
 * reference, NULL = it has none that can be read without running code. */
static PyObject *attribute_of(PyObject *object, PyObject *name)
{
    PyObject *in_class = _PyType_Lookup(class_of(object), name); /* borrowed */
    if (PyType_Check(object)) {
        return Py_XNewRef(in_class);
    }
    if (in_class != NULL && Py_TYPE(in_class)->tp_descr_get != NULL &&
        !Py_IS_TYPE(in_class, &PyMemberDescr_Type)) {
        return NULL;
    }
    PyObject *value = PyObject_GenericGetAttr(object, name);
    PyErr_Clear();
    return value;
}

static PyObject *name_at(const PyObject *names, Py_ssize_t index)
{
    return PyTuple_GET_ITEM(names, index);
}

static Py_ssize_t names_of(const PyCodeObject *code)
{
    Py_ssize_t count = code->co_names != NULL && PyTuple_Check(code->co_names)
                           ? PyTuple_GET_SIZE(code->co_names)
                           : 0;
    return count < MOST_NAMES ? count : MOST_NAMES;
}

/* Says that an object, or a class, has the target in an attribute. The class is where __init__ is.
 */
static void say_attribute(search *to, const PyCodeObject *code, PyObject *object, PyObject *name)
{
    PyTypeObject *type = class_of(object);
    const char *dot = strrchr(type->tp_name, '.');
    PyObject *init_name = PyUnicode_FromString("__init__");
    PyObject *init = init_name != NULL ? _PyType_Lookup(type, init_name) : NULL;
    PyErr_Clear();
    Py_XDECREF(init_name);
    int line = 0;
    if (init != NULL && PyFunction_Check(init)) {
        code = (const PyCodeObject *)PyFunction_GET_CODE(init);
        line = code->co_firstlineno;
    }
    say(to, file_of(code), line, dot != NULL ? dot + 1 : type->tp_name, text_of(name));
}

/* Whether an attribute of the object is the target; then it is said. */
static bool look_into(search *to, const PyCodeObject *code, PyObject *object)
{
    if (object == NULL || !is_readable(object)) {
        return false; /* costs none of the reads */
    }
    for (Py_ssize_t i = 0; i < names_of(code) && to->reads > 0; i++) {
        to->reads--;
        PyObject *value = attribute_of(object, name_at(code->co_names, i));
        bool is_it = value != NULL && value == to->target;
        Py_XDECREF(value); /* the object has it still */
        if (is_it) {
            say_attribute(to, code, object, name_at(code->co_names, i));
            return true;
        }
    }
    return false;
}

/* A local variable; borrowed, NULL = it has no value. */
static PyObject *local_of(const pyr_own_frame *frame, const PyCodeObject *code, int index)
{
    uintptr_t word;
    memcpy(&word, (const char *)frame->locals + (size_t)index * sizeof word, sizeof word);
    if (frame->tag_mask != 0 && (word & INT_TAG) == INT_TAG) {
        return NULL;
    }
    PyObject *value = (PyObject *)(word & ~(uintptr_t)frame->tag_mask);
    if (value != NULL && Py_IS_TYPE(value, &PyCell_Type) && index >= code->co_argcount) {
        value = PyCell_GET(value);
    }
    return value;
}

static uintptr_t word_before(const pyr_own_frame *frame, size_t words)
{
    uintptr_t word;
    memcpy(&word, (const char *)frame->locals - words * sizeof word, sizeof word);
    return word;
}

/* How many words before its local variables a frame has its globals: found by looking at the
 * topmost one, whose globals CPython tells. At the level of a module a later word is the same. 0:
 * unknown. */
static size_t find_globals(const pyr_own_frame *leaf)
{
    const PyObject *globals = PyEval_GetGlobals();
    size_t found = 0;
    size_t head = (leaf->locals - leaf->start) / sizeof(uintptr_t); /* before that is another's */
    for (size_t words = 1; globals != NULL && words <= head; words++) {
        found = word_before(leaf, words) == (uintptr_t)globals ? words : found;
    }
    return found;
}

/* In the program's own code. */
static bool look_at_frame(search *to, const pyr_own_frame *frame, PyObject *globals)
{
    const PyCodeObject *code = (const PyCodeObject *)frame->code;
    int locals = code->co_nlocalsplus < MOST_LOCALS ? code->co_nlocalsplus : MOST_LOCALS;
    to->reads = MOST_READS;
    for (int i = 0; i < locals; i++) {
        if (local_of(frame, code, i) == to->target) {
            say(to, file_of(code), code->co_firstlineno, "",
                text_of(name_at(code->co_localsplusnames, i)));
            return true;
        }
    }
    for (int i = 0; i < locals; i++) {
        if (look_into(to, code, local_of(frame, code, i))) {
            return true;
        }
    }
    for (Py_ssize_t i = 0; globals != NULL && PyDict_CheckExact(globals) && i < names_of(code);
         i++) {
        PyObject *value = PyDict_GetItemWithError(globals, name_at(code->co_names, i));
        if (value == NULL) {
            PyErr_Clear();
            continue;
        }
        if (value == to->target) {
            say(to, file_of(code), 0, "", text_of(name_at(code->co_names, i)));
            return true;
        }
        if (look_into(to, code, value)) {
            return true;
        }
    }
    return false;
}

/* In the standard library's code: whether `self` has the target, which then is looked for itself.
 */
static void look_at_library(search *to, const pyr_own_frame *frame)
{
    const PyCodeObject *code = (const PyCodeObject *)frame->code;
    PyObject *self = code->co_argcount > 0 ? local_of(frame, code, 0) : NULL;
    to->reads = MOST_READS;
    if (self != NULL && self != to->target && look_into(to, code, self)) {
        to->target = self;
    }
}

size_t pyr_lock_name_find(const void *lock, const pyr_own_frame *frames, uint32_t count, char *text,
                          size_t size)
{
    search to = {.target = lock, .text = text, .size = size};
    PyObject *type, *value, *traceback; /* an acquisition may have been interrupted */
    PyErr_Fetch(&type, &value, &traceback);
    /* An allocation may collect garbage (3.11), and so run the program's code in here. */
    bool collects = PyGC_Disable();
    size_t globals_at = count > 0 ? find_globals(&frames[0]) : 0;
    int misses = 0;
    for (uint32_t i = 0; i < count && misses < MISSES; i++) {
        const PyCodeObject *code = (const PyCodeObject *)frames[i].code;
        if (is_of_locks(code)) {
            look_at_library(&to, &frames[i]);
        } else {
            PyObject *globals =
                globals_at != 0 ? (PyObject *)word_before(&frames[i], globals_at) : NULL;
            if (look_at_frame(&to, &frames[i], globals)) {
                break;
            }
            misses++;
        }
    }
    if (collects) {
        PyGC_Enable();
    }
    PyErr_Restore(type, value, traceback);
    return to.length;
}
