/* The extension pyrometer._native: the session of this process as a few functions for Python.
 *
 * Checks arguments, converts results, and lets the GIL go around every wait. Owns the callable that
 * Python left to be told of log lines. It must never let an error of the profiler reach the
 * program: what fails is a log line. More than 600 lines, because each function that Python sees
 * stands here, with its row in the table, and little else.
 */
#include <Python.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "exception_hook.h"
#include "gc_hook.h"
#include "greenlet_lock_hook.h"
#include "heap_hooks.h"
#include "hooks.h"
#include "import_hook.h"
#include "labels.h"
#include "lock_hook.h"
#include "pending.h"
#include "process_lock_hook.h"
#include "selfcheck.h"
#include "session/control.h"
#include "session/process.h"
#include "spawn_hook.h"
#include "task_lock_hook.h"

enum { LINE_BYTES = 1024, VERSION_BYTES = 64, LIBRARY_PATHS_BYTES = 1 << 15 };

/* os.fork warns when the process has more than one thread, ours included, from the version on that
 * also brought this slot. */
#ifdef Py_mod_multiple_interpreters
#define FORK_WARNS_OF_THREADS
enum { LONG_HOOKS_NS = 10000000 }; /* of others after a fork, which may take longer */
#endif

/* The interpreter's root; its type is CPython's own business. */
extern struct pyruntimestate _PyRuntime;

static char executable[PYR_LIMIT_PATH_BYTES];
static char python_version[VERSION_BYTES];
static char stdlib[PYR_LIMIT_PATH_BYTES];
static char program[PYR_LIMIT_PATH_BYTES];
static char library_paths[LIBRARY_PATHS_BYTES];
static char parent_runtime_id[PYR_LIMIT_RUNTIME_ID];

/* ------------------------------------------------------------------------- lines for the log */

static PyObject *listener; /* guarded by the GIL; called with no arguments */

static int call_listener(void *unused)
{
    (void)unused;
    if (listener != NULL) {
        PyObject *result = PyObject_CallNoArgs(listener);
        if (result == NULL && PyErr_ExceptionMatches(PyExc_Exception)) {
            PyErr_Clear();
        }
        Py_XDECREF(result);
    }
    /* An interrupt that came meanwhile is the program's. */
    return PyErr_Occurred() != NULL ? -1 : 0;
}

/* On the scheduler's thread, without the GIL: the main thread calls the listener when it next runs
 * bytecode. */
static void announce_lines(void)
{
    (void)pyr_pending_add(call_listener);
}

/* Locks of modules that the program may import later. */
static void follow_imports(void)
{
    if (PyInterpreterState_Get() == PyInterpreterState_Main()) {
        bool wait_for_tasks = pyr_task_lock_hook_follow();
        bool wait_for_processes = pyr_process_lock_hook_follow();
        bool wait_for_greenlets = pyr_greenlet_lock_hook_follow();
        pyr_import_hook_follow(wait_for_tasks || wait_for_processes || wait_for_greenlets,
                               follow_imports);
    }
}

/* Hooks in Python itself follow what the collectors do. */
static void follow_hooks(void)
{
    pyr_lock_hook_follow();
    follow_imports();
    pyr_gc_hook_follow();
    pyr_exception_hook_follow(); /* last: the others may raise and catch */
}

static int follow_start(void *unused)
{
    (void)unused;
    follow_hooks();
    return 0;
}

static void announce_start(void)
{
    (void)pyr_pending_add(follow_start);
}

static PyObject *listen(PyObject *module, PyObject *callable)
{
    (void)module;
    PyObject *before = listener;
    listener = callable == Py_None ? NULL : Py_NewRef(callable);
    pyr_pending_set_open(listener != NULL);
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

static PyObject *steerer; /* guarded by the GIL; called with the words of a request */

static void take_text(PyObject *object, char *text, size_t size);

/* With the GIL. What is wrong, or "". */
static void call_steerer(const char *const *words, size_t count, char *error, size_t error_size)
{
    snprintf(error, error_size, "the program is ending");
    PyObject *list = steerer != NULL ? PyList_New((Py_ssize_t)count) : NULL;
    for (size_t index = 0; list != NULL && index < count; index++) {
        PyObject *word =
            PyUnicode_DecodeUTF8(words[index], (Py_ssize_t)strlen(words[index]), "surrogateescape");
        if (word == NULL) {
            Py_CLEAR(list);
        } else {
            PyList_SET_ITEM(list, (Py_ssize_t)index, word);
        }
    }
    PyObject *result = list != NULL ? PyObject_CallOneArg(steerer, list) : NULL;
    if (result != NULL) {
        take_text(result, error, error_size);
    } else if (PyErr_Occurred() != NULL) {
        snprintf(error, error_size, "it failed with an error of Python");
        PyErr_Clear();
    }
    Py_XDECREF(result);
    Py_XDECREF(list);
}

/* On the control thread, without the GIL. */
static pyr_status control(const char *const *words, size_t count, char *error, size_t error_size)
{
    snprintf(error, error_size, "the program is ending");
    if (!pyr_pending_is_open()) {
        return PYR_ECLOSED;
    }
    PyGILState_STATE state = PyGILState_Ensure();
    call_steerer(words, count, error, error_size);
    PyGILState_Release(state);
    announce_lines(); /* not on this thread: others would see it among the program's */
    return error[0] == '\0' ? PYR_OK : PYR_EINVAL;
}

static PyObject *steer(PyObject *module, PyObject *callable)
{
    (void)module;
    Py_XSETREF(steerer, callable == Py_None ? NULL : Py_NewRef(callable));
    Py_RETURN_NONE;
}

static PyObject *check_setting(PyObject *module, PyObject *text)
{
    (void)module;
    char word[PYR_CONTROL_REQUEST_BYTES], why[PYR_CONTROL_ERROR_BYTES] = "";
    take_text(text, word, sizeof word);
    (void)pyr_control_check(word, why, sizeof why);
    return PyUnicode_DecodeUTF8(why, (Py_ssize_t)strlen(why), "replace");
}

static PyObject *log_take(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    pyr_log_level level;
    char text[PYR_LOG_TEXT_BYTES];
    PyObject *lines = PyList_New(0);
    while (lines != NULL && pyr_log_take(&level, text, sizeof text)) {
        PyObject *line = Py_BuildValue("(is)", (int)level, text);
        if (line == NULL || PyList_Append(lines, line) != 0) {
            Py_CLEAR(lines);
        }
        Py_XDECREF(line);
    }
    return lines;
}

/* ------------------------------------------------------------------------------ start, stop */

static void warn(void *context, const char *text)
{
    (void)context;
    pyr_log_add(PYR_LOG_WARNING, "%s", text);
}

/* The bytes of a text, which may stand for ones that are no UTF-8, as in the names of files. NULL:
 * it has a zero or something that stands for no bytes at all. */
static PyObject *bytes_of(PyObject *text)
{
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape");
    if (bytes != NULL && strlen(PyBytes_AS_STRING(bytes)) != (size_t)PyBytes_GET_SIZE(bytes)) {
        Py_CLEAR(bytes);
    }
    PyErr_Clear();
    return bytes;
}

/* Settings from a dict (name -> text). */
static void read_dict(PyObject *dict, const char *source, pyr_settings *settings)
{
    const pyr_settings_warn to_log = {warn, NULL};
    PyObject *key = NULL;
    PyObject *value = NULL;
    Py_ssize_t position = 0;
    while (PyDict_Next(dict, &position, &key, &value)) {
        PyObject *name = bytes_of(key);
        PyObject *text = bytes_of(value);
        if (name != NULL && text != NULL) {
            pyr_settings_set_named(settings, PyBytes_AS_STRING(name), PyBytes_AS_STRING(text),
                                   source, to_log);
        } else {
            pyr_log_add(PYR_LOG_WARNING, "%s %s: it is ignored, it is no text", source,
                        name != NULL ? PyBytes_AS_STRING(name) : "");
        }
        Py_XDECREF(name);
        Py_XDECREF(text);
    }
}

/* From the weakest source to the strongest: file, environment, keyword arguments. */
static void read_settings(PyObject *arguments, PyObject *file, pyr_settings *settings)
{
    const pyr_settings_warn to_log = {warn, NULL};
    pyr_settings_init(settings);
    read_dict(file, PYR_SETTINGS_FILE, settings);
    pyr_settings_read(settings, environ, to_log);
    read_dict(arguments, "argument", settings);
    if (pyr_settings_bool(settings, PYR_SETTING_ENABLED)) {
        pyr_settings_warn_of_effects(settings, to_log);
    }
}

/* Copies a text object; "" for anything else. */
static void take_text(PyObject *object, char *text, size_t size)
{
    Py_ssize_t length = 0;
    const char *bytes =
        object != NULL && PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, &length) : NULL;
    PyErr_Clear(); /* lone surrogates have no UTF-8 */
    text[0] = '\0';
    if (bytes != NULL && (size_t)length < size && strlen(bytes) == (size_t)length) {
        memcpy(text, bytes, (size_t)length + 1);
    }
}

/* sys.path, parted by line ends; what does not fit is left out. */
static void take_library_paths(void)
{
    PyObject *paths = PySys_GetObject("path");
    size_t used = 0;
    library_paths[0] = '\0';
    for (Py_ssize_t index = 0;
         paths != NULL && PyList_Check(paths) && index < PyList_GET_SIZE(paths); index++) {
        char path[PYR_LIMIT_PATH_BYTES];
        take_text(PyList_GET_ITEM(paths, index), path, sizeof path);
        size_t length = strlen(path);
        if (length > 0 && used + length + 2 <= sizeof library_paths && !strchr(path, '\n')) {
            memcpy(library_paths + used, path, length);
            used += length;
            memcpy(library_paths + used++, "\n", 2);
        }
    }
}

/* The item of a list in sys that follows `before` ("" = the first). */
static void take_argument(const char *list_name, const char *before, char *text, size_t size)
{
    PyObject *list = PySys_GetObject(list_name);
    bool is_next = before[0] == '\0';
    text[0] = '\0';
    for (Py_ssize_t index = 0; list != NULL && PyList_Check(list) && index < PyList_GET_SIZE(list);
         index++) {
        char item[PYR_LIMIT_PATH_BYTES];
        take_text(PyList_GET_ITEM(list, index), item, sizeof item);
        if (is_next) {
            snprintf(text, size, "%s", item);
            return;
        }
        is_next = strcmp(item, before) == 0;
    }
}

/* What a parent says by its hook on spawns; anything but a runtime id is nothing. */
static void take_parent(void)
{
    const char *parent = getenv(PYR_PARENT_VARIABLE);
    if (parent != NULL && strlen(parent) == sizeof parent_runtime_id - 1 &&
        strspn(parent, "0123456789abcdef-") == strlen(parent)) {
        memcpy(parent_runtime_id, parent, sizeof parent_runtime_id);
    }
}

/* In the child of a fork that CPython was not told of, whose only thread this is: it has the thread
 * id that it had, and another one of the kernel's. PyOS_AfterFork_Child would do much more, which
 * the program has not asked for. */
static void adopt_fork(void)
{
    for (PyInterpreterState *one = PyInterpreterState_Head(); one != NULL;
         one = PyInterpreterState_Next(one)) {
        for (PyThreadState *thread = PyInterpreterState_ThreadHead(one); thread != NULL;
             thread = PyThreadState_Next(thread)) {
            if (thread->thread_id == PyThread_get_thread_ident()) {
                thread->native_thread_id = PyThread_get_thread_native_id();
            }
        }
    }
}

static pyr_host this_host(void)
{
    take_text(PySys_GetObject("_stdlib_dir"), stdlib, sizeof stdlib);
    take_library_paths();
    take_argument("argv", "", program, sizeof program);
    /* With -m, argv says only that until the module has been found. */
    bool is_module = strcmp(program, "-m") == 0;
    if (is_module) {
        take_argument("orig_argv", "-m", program, sizeof program);
    }

    ssize_t length = readlink("/proc/self/exe", executable, sizeof executable - 1);
    executable[length > 0 ? length : 0] = '\0';
    size_t version_length = strcspn(Py_GetVersion(), " ");
    if (version_length >= sizeof python_version) {
        version_length = sizeof python_version - 1;
    }
    memcpy(python_version, Py_GetVersion(), version_length);
    python_version[version_length] = '\0';
    take_parent();
    pyr_hooks_watch_exit();
    pyr_hooks_watch_signal();
    return (pyr_host){
        .runtime = (pyr_addr)&_PyRuntime,
        .version = (uint32_t)Py_Version,
        .code_type = (pyr_addr)&PyCode_Type,
        .code_deaths = pyr_hooks_install(),
        .labels = pyr_labels_source(),
        .executable = length > 0 ? executable : NULL,
        .python = python_version,
        .stdlib = stdlib,
        .library_paths = library_paths,
        .parent_runtime_id = parent_runtime_id,
        .program = program,
        .is_module = is_module,
        .tells_of_raises = pyr_exception_hook_is_possible(),
        .adopt_fork = dlsym(RTLD_DEFAULT, "uwsgi_setup") != NULL ? adopt_fork : NULL,
        .selfcheck = pyr_selfcheck,
        .memory = &pyr_heap_hooks,
        .control = control,
        .announce_lines = announce_lines,
        .announce_start = announce_start,
    };
}

static PyObject *start(PyObject *module, PyObject *dicts)
{
    (void)module;
    PyObject *arguments = NULL;
    PyObject *file = NULL;
    pyr_settings settings;
    char line[LINE_BYTES] = "";
    pyr_status status = PYR_ECLOSED;
    if (!PyArg_ParseTuple(dicts, "O!O!:start", &PyDict_Type, &arguments, &PyDict_Type, &file)) {
        return NULL;
    }
    read_settings(arguments, file, &settings);
    if (pyr_settings_bool(&settings, PYR_SETTING_ENABLED)) {
        const pyr_host host = this_host();
        status = pyr_process_start(&settings, &host, line, sizeof line);
        if (status == PYR_EEXIST) {
            pyr_log_add(PYR_LOG_ERROR, "%s; this start changes nothing", line);
        } else if (status == PYR_ELEFTOUT) {
            pyr_log_add(PYR_LOG_INFO, "pyrometer is off: %s", line);
        } else if (status != PYR_OK) {
            pyr_log_add(PYR_LOG_WARNING, "pyrometer is off: %s", line);
        }
    }
    pyr_settings_fini(&settings);
    follow_hooks();
    if (status != PYR_OK) {
        Py_RETURN_NONE;
    }
    return PyUnicode_DecodeUTF8(line, (Py_ssize_t)strlen(line), "replace");
}

static PyObject *stop(PyObject *module, PyObject *flush)
{
    (void)module;
    int is_flush = PyObject_IsTrue(flush);
    if (is_flush < 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS pyr_process_stop(is_flush != 0);
    Py_END_ALLOW_THREADS follow_hooks();
    Py_RETURN_NONE;
}

static PyObject *flush(PyObject *module, PyObject *timeout)
{
    (void)module;
    double seconds = PyFloat_AsDouble(timeout);
    if (seconds == -1.0 && PyErr_Occurred()) {
        return NULL;
    }
    if (!(seconds >= 0 && seconds <= 1e6)) {
        return PyErr_Format(PyExc_ValueError, "a timeout is from 0 to 1e6 seconds");
    }
    pyr_status status;
    Py_BEGIN_ALLOW_THREADS status = pyr_process_flush((int64_t)(seconds * 1e9));
    Py_END_ALLOW_THREADS return PyBool_FromLong(status == PYR_OK);
}

static PyObject *resume(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    pyr_process_resume(); /* which starts later; until then hooks find their collectors off */
    Py_RETURN_NONE;
}

static PyObject *follow_spawns(PyObject *module, PyObject *folder)
{
    (void)module;
    char *path = PyBytes_AsString(folder);
    if (path == NULL) {
        return NULL;
    }
    pyr_spawn_hook_install(path);
    Py_RETURN_NONE;
}

#ifdef FORK_WARNS_OF_THREADS

/* Guarded by the GIL, of the last fork: how many more calls of Python code its caller could have
 * nested, and until when the end of it is waited for. */
static int left_at_fork;
static int64_t fork_end_ns;

static PyObject *pause_threads(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    left_at_fork = PyThreadState_Get()->py_recursion_remaining;
    pyr_process_pause();
    Py_RETURN_NONE;
}

/* Within a hook of somebody else (logging has one) os.fork is not over yet: later, then. */
static int unpause(void *unused)
{
    (void)unused;
    bool is_within_fork = PyThreadState_Get()->py_recursion_remaining < left_at_fork &&
                          pyr_clock_monotonic_ns() < fork_end_ns;
    if (!is_within_fork || !pyr_pending_add(unpause)) {
        pyr_process_unpause();
    }
    return 0;
}

/* Some versions count threads only after all hooks. A pending call runs as soon as os.fork is back
 * in the main thread, which is the only thread there is. */
static PyObject *unpause_threads(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    fork_end_ns = pyr_clock_monotonic_ns() + LONG_HOOKS_NS;
    if (!pyr_pending_add(unpause)) {
        pyr_process_unpause();
    }
    Py_RETURN_NONE;
}

#endif

/* ---------------------------------------------------------------------------------- status */

static PyObject *fact_value(const pyr_fact *fact)
{
    switch (fact->kind) {
    case PYR_FACT_INTEGER:
        return PyLong_FromLongLong(fact->integer);
    case PYR_FACT_REAL:
        return PyFloat_FromDouble(fact->real);
    default:
        return PyUnicode_DecodeUTF8(fact->text, (Py_ssize_t)strlen(fact->text), "replace");
    }
}

/* The dict of the section, borrowed; made when new. */
static PyObject *section_of(PyObject *sections, const char *name)
{
    PyObject *key = PyUnicode_FromString(name);
    PyObject *fresh = key != NULL ? PyDict_New() : NULL;
    PyObject *section = fresh != NULL ? PyDict_SetDefault(sections, key, fresh) : NULL;
    Py_XDECREF(fresh);
    Py_XDECREF(key);
    return section;
}

static PyObject *facts_to_dict(const pyr_facts *facts)
{
    PyObject *sections = PyDict_New();
    for (size_t index = 0; sections != NULL && index < facts->count; index++) {
        const pyr_fact *fact = &facts->rows[index];
        PyObject *section = section_of(sections, fact->section);
        PyObject *value = section != NULL ? fact_value(fact) : NULL;
        if (value == NULL || PyDict_SetItemString(section, fact->key, value) != 0) {
            Py_CLEAR(sections);
        }
        Py_XDECREF(value);
    }
    return sections;
}

static PyObject *status(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *result = NULL;
    pyr_facts *facts = pyr_memory_new(1, sizeof *facts);
    if (facts == NULL) {
        return PyErr_NoMemory();
    }
    (void)pyr_process_facts(facts);
    result = facts_to_dict(facts);
    pyr_memory_free(facts);
    return result;
}

/* ---------------------------------------------------------------------------------- module */

static PyMethodDef methods[] = {
    {"start", start, METH_VARARGS,
     "start(arguments: dict[str, str], file: dict[str, str]) -> str | None\n\nThe start line, or "
     "None: it is off."},
    {"stop", stop, METH_O, "stop(flush: bool) -> None\n\nStops it; the last window is delivered."},
    {"flush", flush, METH_O, "flush(timeout: float) -> bool\n\nDelivers the current window now."},
    {"status", status, METH_NOARGS,
     "status() -> dict[str, dict[str, int | float | str]]\n\nWithout \"identity\" when nothing "
     "runs."},
    {"resume", resume, METH_NOARGS,
     "resume() -> None\n\nIn the child of a fork: profiles it if its parent was profiled."},
#ifdef FORK_WARNS_OF_THREADS
    {"pause", pause_threads, METH_NOARGS,
     "pause() -> None\n\nBefore a fork: ends our threads if they are the only others."},
    {"unpause", unpause_threads, METH_NOARGS, "unpause() -> None\n\nAfter it: begins them again."},
#endif
    {"follow_spawns", follow_spawns, METH_O,
     "follow_spawns(folder: bytes) -> None\n\nProfiles what multiprocessing spawns."},
    {"listen", listen, METH_O,
     "listen(callable | None) -> None\n\nCalled in the main thread when log lines wait."},
    {"steer", steer, METH_O,
     "steer(callable | None) -> None\n\nCalled with what is asked from outside: start, stop, set."},
    {"check_setting", check_setting, METH_O,
     "check_setting(text: str) -> str\n\nWhat keeps NAME=VALUE from being set now, or \"\"."},
    {"log_take", log_take, METH_NOARGS,
     "log_take() -> list[tuple[int, str]]\n\nThe log lines that wait: level and text."},
    {NULL, NULL, 0, NULL},
};

/* There is one profiler a process. A sub-interpreter may not even have the module: its end would
 * stop the profiler, and leave us with a listener that is gone. */
static int execute(PyObject *module)
{
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "only the main interpreter can start it");
        return -1;
    }
    return pyr_labels_add(module) != 0 ? -1
                                       : PyModule_AddStringConstant(module, "version", PYR_VERSION);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)(uintptr_t)execute},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_USED},
#endif
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "pyrometer._native",
    .m_doc = "The core of Pyrometer in this process.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__native(void);

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
