/* Raised exceptions, seen through sys.monitoring (PEP 669).
 *
 * Callbacks in C under a tool id that nobody uses. The event RAISE comes in each frame that an
 * exception passes through; the first one, where its traceback has one entry, is the raise. RERAISE
 * comes where a handler lets it go on: an `except` that does not match, the end of a `with` or a
 * `finally`, a bare `raise`. Owns the tool id while the collector runs. Callbacks run in any thread
 * that raises, with the GIL: they count, and for a sampled raise they hand plain data to
 * collect/exception.c. They run no Python code and leave the error indicator alone.
 */
#include "exception_hook.h"

#include <Python.h>

#include <opcode.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/log.h"
#include "collect/exception.h"
#include "cpython/exception_table.h"

enum { TYPE_BYTES = 512, HOOK_TEXT_BYTES = 64, UNIT_BYTES = 2 };

/* The version that brought sys.monitoring also brought this slot; no macro of its own says so. */
#ifdef Py_mod_multiple_interpreters

/* 0 to 2 are for debuggers, coverage and profilers; 3 and 4 are what programs take that want one.
 * 5 is meant for optimizers, of which there are none: there we are in nobody's way. */
static const int tool_ids[] = {5, 3, 4};
static const char tool_name[] = "pyrometer";

static int tool_id = -1;     /* ours while the hook is in place; guarded by the GIL */
static PyObject *module_key; /* "__module__", interned */
static char hook_text[HOOK_TEXT_BYTES];

static bool is_in_try(PyObject *code, PyObject *offset)
{
    if (!PyCode_Check(code) || !PyLong_Check(offset)) {
        return false;
    }
    const PyObject *table = ((PyCodeObject *)code)->co_exceptiontable;
    long at = PyLong_AsLong(offset); /* a small number: cannot fail */
    return table != NULL && PyBytes_Check(table) && at >= 0 &&
           pyr_exception_table_covers((const uint8_t *)PyBytes_AS_STRING(table),
                                      (size_t)PyBytes_GET_SIZE(table),
                                      (uint32_t)((unsigned long)at / UNIT_BYTES));
}

/* What a str has as UTF-8, if it needs no conversion. */
static size_t put_text(char *to, size_t used, size_t size, PyObject *text)
{
    if (text == NULL || !PyUnicode_Check(text) || !PyUnicode_IS_COMPACT_ASCII(text)) {
        return used;
    }
    size_t length = (size_t)PyUnicode_GET_LENGTH(text);
    if (length > size - used) {
        length = size - used;
    }
    memcpy(to + used, PyUnicode_DATA(text), length);
    return used + length;
}

static size_t name_type(PyTypeObject *type, char *name, size_t size)
{
    size_t used = 0;
    if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) {
        PyObject *module = type->tp_dict != NULL && module_key != NULL
                               ? PyDict_GetItemWithError(type->tp_dict, module_key)
                               : NULL;
        if (module != NULL && PyUnicode_Check(module) &&
            PyUnicode_CompareWithASCIIString(module, "builtins") != 0) {
            used = put_text(name, used, size - 1, module);
            if (used > 0) {
                name[used++] = '.';
            }
        }
        size_t qualified = put_text(name, used, size, ((PyHeapTypeObject *)type)->ht_qualname);
        if (qualified > used) {
            return qualified;
        }
    }
    size_t length = strnlen(type->tp_name, size - used);
    memcpy(name + used, type->tp_name, length);
    return used + length;
}

/* The first text among the arguments: asking the exception for its own would run its code. */
static const char *message_of(PyObject *exception, size_t *length)
{
    const PyObject *arguments = ((PyBaseExceptionObject *)exception)->args;
    for (Py_ssize_t i = 0;
         arguments != NULL && PyTuple_Check(arguments) && i < PyTuple_GET_SIZE(arguments); i++) {
        PyObject *text = PyTuple_GET_ITEM(arguments, i);
        if (PyUnicode_CheckExact(text)) {
            Py_ssize_t bytes = 0;
            const char *message = PyUnicode_AsUTF8AndSize(text, &bytes);
            PyErr_Clear(); /* lone surrogates have no UTF-8 */
            *length = (size_t)bytes;
            return message;
        }
    }
    return NULL;
}

static void sample(PyObject *exception, PyObject *code, PyObject *offset)
{
    char name[TYPE_BYTES];
    pyr_raise raise = {
        .thread_state = (pyr_addr)PyThreadState_Get(),
        .exception = (pyr_addr)exception,
        .type = name,
        .type_length = name_type(Py_TYPE(exception), name, sizeof name),
        .is_in_try = is_in_try(code, offset),
    };
    if (pyr_exception_wants_messages()) {
        raise.message = message_of(exception, &raise.message_length);
    }
    pyr_exception_sample(&raise);
    pyr_exception_tend();
}

/* What ends loops and generators is no news. */
static bool is_control_flow(PyObject *exception)
{
    const PyObject *type = (PyObject *)Py_TYPE(exception);
    return type == PyExc_StopIteration || type == PyExc_GeneratorExit ||
           type == PyExc_StopAsyncIteration;
}

/* Whether the instruction is an import. What a monitoring tool put over instructions is not seen
 * here. Only asked of the few exceptions that imports raise: it copies the code. */
static bool is_import(PyObject *code, PyObject *offset)
{
    PyObject *bytes =
        PyCode_Check(code) && PyLong_Check(offset) ? PyCode_GetCode((PyCodeObject *)code) : NULL;
    bool found = false;
    if (bytes != NULL && PyBytes_Check(bytes)) {
        const uint8_t *codes = (const uint8_t *)PyBytes_AS_STRING(bytes);
        Py_ssize_t at = PyLong_AsSsize_t(offset); /* a small number: cannot fail */
        Py_ssize_t size = PyBytes_GET_SIZE(bytes);
        while (at >= 0 && at < size && codes[at] == EXTENDED_ARG) {
            at += UNIT_BYTES;
        }
        found = at >= 0 && at < size && codes[at] == IMPORT_NAME;
    }
    PyErr_Clear(); /* no memory */
    Py_XDECREF(bytes);
    return found;
}

/* An import that fails is raised in importlib, whose frames CPython takes out of the traceback at
 * the `import`: it looks new there once more. What C code itself raises there has no name. */
static bool comes_from_importlib(PyObject *exception, PyObject *code, PyObject *offset)
{
    const PyObject *type = (PyObject *)Py_TYPE(exception);
    return (type == PyExc_ModuleNotFoundError || type == PyExc_ImportError) &&
           ((PyImportErrorObject *)exception)->name != NULL && is_import(code, offset);
}

/* RAISE: (code, instruction_offset, exception). */
static PyObject *on_raise(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count != 3 || !PyExceptionInstance_Check(arguments[2])) {
        Py_RETURN_NONE;
    }
    PyObject *exception = arguments[2];
    const PyObject *traceback = ((PyBaseExceptionObject *)exception)->traceback;
    bool is_first =
        (traceback == NULL || ((const PyTracebackObject *)traceback)->tb_next == NULL) &&
        !comes_from_importlib(exception, arguments[0], arguments[1]);
    if (pyr_exception_is_pending(exception)) {
        if (is_first) {
            pyr_exception_forget();
        } else {
            pyr_exception_pass((pyr_addr)PyThreadState_Get(), exception,
                               is_in_try(arguments[0], arguments[1]));
        }
    }
    if (is_first && !is_control_flow(exception) && pyr_exception_count()) {
        sample(exception, arguments[0], arguments[1]);
    }
    Py_RETURN_NONE;
}

/* RERAISE: the same. */
static PyObject *on_reraise(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count == 3 && pyr_exception_is_pending(arguments[2])) {
        pyr_exception_pass((pyr_addr)PyThreadState_Get(), arguments[2],
                           is_in_try(arguments[0], arguments[1]));
    }
    Py_RETURN_NONE;
}

typedef struct event_row {
    const char *name; /* in sys.monitoring.events */
    PyMethodDef callback;
} event_row;

static event_row events[] = {
    {"RAISE", {"on_raise", (PyCFunction)(void (*)(void))on_raise, METH_FASTCALL, NULL}},
    {"RERAISE", {"on_reraise", (PyCFunction)(void (*)(void))on_reraise, METH_FASTCALL, NULL}},
};
enum { EVENTS = sizeof events / sizeof events[0] };

/* Takes a free tool id; -1: none, or an error, which is cleared. */
static int take_tool(PyObject *monitoring)
{
    for (size_t i = 0; i < sizeof tool_ids / sizeof tool_ids[0]; i++) {
        PyObject *owner = PyObject_CallMethod(monitoring, "get_tool", "i", tool_ids[i]);
        bool is_free = owner == Py_None;
        Py_XDECREF(owner);
        if (is_free) {
            PyObject *done =
                PyObject_CallMethod(monitoring, "use_tool_id", "is", tool_ids[i], tool_name);
            Py_XDECREF(done);
            if (done != NULL) {
                return tool_ids[i];
            }
        }
        PyErr_Clear();
    }
    return -1;
}

/* Registers the callbacks, or nothing, and switches their events. False: an error is set. */
static bool switch_events(PyObject *monitoring, int id, bool on)
{
    PyObject *names = PyObject_GetAttrString(monitoring, "events");
    long set = 0;
    bool good = names != NULL;
    for (size_t i = 0; i < EVENTS && good; i++) {
        PyObject *event = PyObject_GetAttrString(names, events[i].name);
        PyObject *function = on ? PyCFunction_New(&events[i].callback, NULL) : Py_NewRef(Py_None);
        PyObject *before =
            event != NULL && function != NULL
                ? PyObject_CallMethod(monitoring, "register_callback", "iOO", id, event, function)
                : NULL;
        good = before != NULL;
        set |= good && on ? PyLong_AsLong(event) : 0;
        Py_XDECREF(before);
        Py_XDECREF(function);
        Py_XDECREF(event);
    }
    PyObject *done = good ? PyObject_CallMethod(monitoring, "set_events", "il", id, set) : NULL;
    Py_XDECREF(done);
    Py_XDECREF(names);
    return done != NULL;
}

static void give_tool_back(PyObject *monitoring, int id)
{
    PyObject *done = PyObject_CallMethod(monitoring, "free_tool_id", "i", id);
    Py_XDECREF(done);
    PyErr_Clear();
}

static void install(PyObject *monitoring)
{
    if (module_key == NULL) {
        module_key = PyUnicode_InternFromString("__module__");
    }
    int id = take_tool(monitoring);
    if (id < 0) {
        pyr_exception_note_hook("sys.monitoring has no free tool id");
        pyr_log_add(PYR_LOG_WARNING,
                    "exceptions are not profiled: every tool id of sys.monitoring is in use");
        return;
    }
    if (switch_events(monitoring, id, true)) {
        tool_id = id;
        (void)snprintf(hook_text, sizeof hook_text, "sys.monitoring, tool %d", id);
        pyr_exception_note_hook(hook_text);
    } else {
        PyErr_Clear();
        give_tool_back(monitoring, id);
        pyr_exception_note_hook("sys.monitoring refused the hook");
    }
}

bool pyr_exception_hook_is_possible(void)
{
    return true;
}

static void follow(void)
{
    bool wanted = pyr_exception_is_on();
    if (wanted == (tool_id >= 0)) {
        return;
    }
    PyObject *monitoring = PySys_GetObject("monitoring"); /* borrowed */
    if (monitoring == NULL) {
        pyr_exception_note_hook("this Python has no sys.monitoring");
        return;
    }
    Py_INCREF(monitoring);
    if (wanted) {
        install(monitoring);
    } else {
        int id = tool_id;
        tool_id = -1;
        (void)switch_events(monitoring, id, false);
        PyErr_Clear();
        give_tool_back(monitoring, id);
        pyr_exception_note_hook("none");
    }
    Py_DECREF(monitoring);
}

#else

bool pyr_exception_hook_is_possible(void)
{
    return false;
}

static void follow(void)
{
}

#endif

void pyr_exception_hook_follow(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    follow();
    PyErr_Restore(type, value, traceback);
}
