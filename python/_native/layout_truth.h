/* The true offset of every layout field, from the real headers of the interpreter that this is
 * compiled for. Included by selfcheck.c, which compares them with what was discovered, and by
 * tools/gen_layout.c, which prints them for the checked-in tables.
 *
 * PYR_LAYOUT_TRUTH(X): X(field of cpython/layout_fields.h, expression). Where a version has no such
 * field, the expression is UINT32_MAX. Two fields are no offsets and are not listed: gil_size and
 * thread_size.
 */
#ifndef PYR_NATIVE_LAYOUT_TRUTH_H
#define PYR_NATIVE_LAYOUT_TRUTH_H

#define Py_BUILD_CORE 1
#include <Python.h>

#include <internal/pycore_code.h>
#include <internal/pycore_dict.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_gil.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_moduleobject.h>
#include <internal/pycore_runtime.h>

#include <stddef.h>
#include <stdint.h>

#if PY_VERSION_HEX < 0x030c0000
#define TRUTH_INTERP_GIL UINT32_MAX
#define TRUTH_RUNTIME_GIL offsetof(_PyRuntimeState, ceval.gil)
#define TRUTH_MODULES offsetof(PyInterpreterState, modules)
#define TRUTH_IS_ENTRY offsetof(_PyInterpreterFrame, is_entry)
#define TRUTH_CODE offsetof(_PyInterpreterFrame, f_code)
#define TRUTH_LONG_TAG offsetof(PyLongObject, ob_base.ob_size)
#define TRUTH_LONG_DIGITS offsetof(PyLongObject, ob_digit)
#else
#define TRUTH_INTERP_GIL offsetof(PyInterpreterState, ceval.gil)
#define TRUTH_RUNTIME_GIL UINT32_MAX
#define TRUTH_MODULES offsetof(PyInterpreterState, imports.modules)
#define TRUTH_IS_ENTRY UINT32_MAX
#define TRUTH_LONG_TAG offsetof(PyLongObject, long_value.lv_tag)
#define TRUTH_LONG_DIGITS offsetof(PyLongObject, long_value.ob_digit)
#if PY_VERSION_HEX < 0x030d0000
#define TRUTH_CODE offsetof(_PyInterpreterFrame, f_code)
#else
#define TRUTH_CODE offsetof(_PyInterpreterFrame, f_executable)
#endif
#endif

#if PY_VERSION_HEX < 0x030d0000
#define TRUTH_INSTR offsetof(_PyInterpreterFrame, prev_instr)
#define TRUTH_CFRAME offsetof(PyThreadState, cframe)
#define TRUTH_CFRAME_FRAME offsetof(_PyCFrame, current_frame)
#define TRUTH_FRAME UINT32_MAX
#else
#define TRUTH_INSTR offsetof(_PyInterpreterFrame, instr_ptr)
#define TRUTH_CFRAME UINT32_MAX
#define TRUTH_CFRAME_FRAME UINT32_MAX
#define TRUTH_FRAME offsetof(PyThreadState, current_frame)
#endif

#if PY_VERSION_HEX < 0x030e0000
#define TRUTH_STACKPOINTER UINT32_MAX
#define TRUTH_HOLDS_GIL UINT32_MAX
#else
#define TRUTH_STACKPOINTER offsetof(_PyInterpreterFrame, stackpointer)
#define TRUTH_HOLDS_GIL offsetof(PyThreadState, holds_gil)
#endif

#if PY_VERSION_HEX < 0x030f0000
#define TRUTH_GIL_REQUESTED UINT32_MAX
#else
#define TRUTH_GIL_REQUESTED offsetof(PyThreadState, gil_requested)
#endif

#define PYR_LAYOUT_TRUTH(X)                                                                        \
    X(runtime_finalizing, offsetof(_PyRuntimeState, _finalizing))                                  \
    X(runtime_interpreters_head, offsetof(_PyRuntimeState, interpreters.head))                     \
    X(interp_id, offsetof(PyInterpreterState, id))                                                 \
    X(interp_next, offsetof(PyInterpreterState, next))                                             \
    X(interp_threads_head, offsetof(PyInterpreterState, threads.head))                             \
    X(interp_threads_next_id, offsetof(PyInterpreterState, threads.next_unique_id))                \
    X(interp_ceval_gil, TRUTH_INTERP_GIL)                                                          \
    X(interp_modules, TRUTH_MODULES)                                                               \
    X(interp_gc_collecting, offsetof(PyInterpreterState, gc.collecting))                           \
    X(gil_runtime, TRUTH_RUNTIME_GIL)                                                              \
    X(gil_locked, offsetof(struct _gil_runtime_state, locked))                                     \
    X(gil_holder, offsetof(struct _gil_runtime_state, last_holder))                                \
    X(gil_cond, offsetof(struct _gil_runtime_state, cond))                                         \
    X(thread_next, offsetof(PyThreadState, next))                                                  \
    X(thread_interp, offsetof(PyThreadState, interp))                                              \
    X(thread_frame, TRUTH_FRAME)                                                                   \
    X(thread_cframe, TRUTH_CFRAME)                                                                 \
    X(thread_ident, offsetof(PyThreadState, thread_id))                                            \
    X(thread_native_id, offsetof(PyThreadState, native_thread_id))                                 \
    X(thread_unique_id, offsetof(PyThreadState, id))                                               \
    X(thread_chunk, offsetof(PyThreadState, datastack_chunk))                                      \
    X(thread_chunk_top, offsetof(PyThreadState, datastack_top))                                    \
    X(thread_holds_gil, TRUTH_HOLDS_GIL)                                                           \
    X(thread_gil_requested, TRUTH_GIL_REQUESTED)                                                   \
    X(thread_exc_info, offsetof(PyThreadState, exc_info))                                          \
    X(thread_context, offsetof(PyThreadState, context))                                            \
    X(cframe_frame, TRUTH_CFRAME_FRAME)                                                            \
    X(chunk_previous, offsetof(_PyStackChunk, previous))                                           \
    X(chunk_size, offsetof(_PyStackChunk, size))                                                   \
    X(chunk_top, offsetof(_PyStackChunk, top))                                                     \
    X(chunk_data, offsetof(_PyStackChunk, data))                                                   \
    X(frame_previous, offsetof(_PyInterpreterFrame, previous))                                     \
    X(frame_code, TRUTH_CODE)                                                                      \
    X(frame_instr, TRUTH_INSTR)                                                                    \
    X(frame_owner, offsetof(_PyInterpreterFrame, owner))                                           \
    X(frame_is_entry, TRUTH_IS_ENTRY)                                                              \
    X(frame_locals, offsetof(_PyInterpreterFrame, localsplus))                                     \
    X(frame_stackpointer, TRUTH_STACKPOINTER)                                                      \
    X(err_value, offsetof(_PyErr_StackItem, exc_value))                                            \
    X(err_previous, offsetof(_PyErr_StackItem, previous_item))                                     \
    X(code_units, offsetof(PyCodeObject, ob_base.ob_size))                                         \
    X(code_filename, offsetof(PyCodeObject, co_filename))                                          \
    X(code_name, offsetof(PyCodeObject, co_name))                                                  \
    X(code_qualname, offsetof(PyCodeObject, co_qualname))                                          \
    X(code_linetable, offsetof(PyCodeObject, co_linetable))                                        \
    X(code_exceptiontable, offsetof(PyCodeObject, co_exceptiontable))                              \
    X(code_firstlineno, offsetof(PyCodeObject, co_firstlineno))                                    \
    X(code_nlocalsplus, offsetof(PyCodeObject, co_nlocalsplus))                                    \
    X(code_stacksize, offsetof(PyCodeObject, co_stacksize))                                        \
    X(code_firsttraceable, offsetof(PyCodeObject, _co_firsttraceable))                             \
    X(code_bytecode, offsetof(PyCodeObject, co_code_adaptive))                                     \
    X(object_type, offsetof(PyObject, ob_type))                                                    \
    X(var_size, offsetof(PyVarObject, ob_size))                                                    \
    X(type_name, offsetof(PyTypeObject, tp_name))                                                  \
    X(type_flags, offsetof(PyTypeObject, tp_flags))                                                \
    X(type_basicsize, offsetof(PyTypeObject, tp_basicsize))                                        \
    X(type_dict, offsetof(PyTypeObject, tp_dict))                                                  \
    X(type_call, offsetof(PyTypeObject, tp_call))                                                  \
    X(type_module, offsetof(PyHeapTypeObject, ht_module))                                          \
    X(type_qualname, offsetof(PyHeapTypeObject, ht_qualname))                                      \
    X(type_cached_keys, offsetof(PyHeapTypeObject, ht_cached_keys))                                \
    X(unicode_length, offsetof(PyASCIIObject, length))                                             \
    X(unicode_state, offsetof(PyASCIIObject, state))                                               \
    X(unicode_ascii, sizeof(PyASCIIObject))                                                        \
    X(unicode_compact, sizeof(PyCompactUnicodeObject))                                             \
    X(bytes_data, offsetof(PyBytesObject, ob_sval))                                                \
    X(long_tag, TRUTH_LONG_TAG)                                                                    \
    X(long_digits, TRUTH_LONG_DIGITS)                                                              \
    X(dict_used, offsetof(PyDictObject, ma_used))                                                  \
    X(dict_keys, offsetof(PyDictObject, ma_keys))                                                  \
    X(dict_values, offsetof(PyDictObject, ma_values))                                              \
    X(keys_log2_size, offsetof(struct _dictkeysobject, dk_log2_size))                              \
    X(keys_log2_index_bytes, offsetof(struct _dictkeysobject, dk_log2_index_bytes))                \
    X(keys_kind, offsetof(struct _dictkeysobject, dk_kind))                                        \
    X(keys_usable, offsetof(struct _dictkeysobject, dk_usable))                                    \
    X(keys_nentries, offsetof(struct _dictkeysobject, dk_nentries))                                \
    X(keys_indices, offsetof(struct _dictkeysobject, dk_indices))                                  \
    X(values_items, offsetof(struct _dictvalues, values))                                          \
    X(module_dict, offsetof(PyModuleObject, md_dict))                                              \
    X(cfunction_def, offsetof(PyCFunctionObject, m_ml))                                            \
    X(cfunction_self, offsetof(PyCFunctionObject, m_self))                                         \
    X(cfunction_module, offsetof(PyCFunctionObject, m_module))                                     \
    X(methoddef_name, offsetof(PyMethodDef, ml_name))                                              \
    X(descr_type, offsetof(PyDescrObject, d_type))                                                 \
    X(descr_name, offsetof(PyDescrObject, d_name))                                                 \
    X(method_descr_def, offsetof(PyMethodDescrObject, d_method))                                   \
    X(bound_function, offsetof(PyMethodObject, im_func))                                           \
    X(gen_frame, offsetof(PyGenObject, gi_iframe))

#if PY_VERSION_HEX < 0x030e0000
/* What pyr_layout_frame_depth says. */
_Static_assert(offsetof(_PyInterpreterFrame, stacktop) == TRUTH_INSTR + 8 &&
                   sizeof(((_PyInterpreterFrame *)0)->stacktop) == 4,
               "the depth of a frame's stack does not stand behind its instruction");
#endif

#endif
