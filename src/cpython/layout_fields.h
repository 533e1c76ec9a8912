/* The body of pyr_layout: private to cpython/ and unwind/.
 *
 * One X-macro names every remote field that is read. Offsets are bytes from the start of the
 * struct named by the prefix; PYR_FIELD_ABSENT where the version has none. Which cell was proved
 * by which test: versions.md.
 */
#ifndef PYR_CPYTHON_LAYOUT_FIELDS_H
#define PYR_CPYTHON_LAYOUT_FIELDS_H

#include <stdint.h>

#define PYR_FIELD_ABSENT UINT32_MAX

#define PYR_LAYOUT_FIELDS(X)                                                                       \
    X(runtime_finalizing) /* _PyRuntimeState: the thread that finalizes, 0 before */               \
    X(runtime_interpreters_head)                                                                   \
    X(interp_id)                                                                                   \
    X(interp_next)                                                                                 \
    X(interp_threads_head)                                                                         \
    X(interp_threads_next_id) /* threads.next_unique_id: grows with each new thread state */       \
    X(interp_ceval_gil)       /* 3.12+: pointer to the GIL; 3.11: absent, see gil_runtime */       \
    X(interp_modules)         /* dict: sys.modules */                                              \
    X(interp_gc_collecting)   /* int, non-zero during a collection */                              \
    X(gil_runtime)            /* 3.11: the GIL inside _PyRuntimeState */                           \
    X(gil_locked)             /* int, in struct _gil_runtime_state */                              \
    X(gil_holder)             /* thread state that took it last */                                 \
    X(gil_cond)               /* what waiters wait on; the mutexes follow it */                    \
    X(gil_size)               /* size of the struct, not an offset */                              \
    X(thread_next)            /* PyThreadState */                                                  \
    X(thread_interp)                                                                               \
    X(thread_frame)         /* current frame; through thread_cframe where that is present */       \
    X(thread_cframe)        /* 3.11, 3.12: pointer to the cframe */                                \
    X(thread_ident)         /* pthread id */                                                       \
    X(thread_native_id)     /* kernel id */                                                        \
    X(thread_unique_id)     /* PyThreadState.id: never reused */                                   \
    X(thread_chunk)         /* data-stack chunk in use */                                          \
    X(thread_chunk_top)     /* first free word of it */                                            \
    X(thread_holds_gil)     /* 3.14+: int */                                                       \
    X(thread_gil_requested) /* 3.15: int */                                                        \
    X(thread_exc_info)      /* exception stack: the innermost entry */                             \
    X(thread_context)                                                                              \
    X(thread_size) /* bytes to copy to have all thread_ fields; not an offset */                   \
    X(cframe_frame)                                                                                \
    X(chunk_previous) /* _PyStackChunk */                                                          \
    X(chunk_size)     /* bytes of the whole chunk */                                               \
    X(chunk_top)      /* words in use; only kept for chunks that are not current */                \
    X(chunk_data)                                                                                  \
    X(frame_previous) /* _PyInterpreterFrame */                                                    \
    X(frame_code)                                                                                  \
    X(frame_instr)                                                                                 \
    X(frame_owner)        /* char */                                                               \
    X(frame_is_entry)     /* 3.11: bool */                                                         \
    X(frame_locals)       /* localsplus */                                                         \
    X(frame_stackpointer) /* 3.14+ */                                                              \
    X(err_value)          /* _PyErr_StackItem */                                                   \
    X(err_previous)                                                                                \
    X(code_units) /* ob_size: number of 2-byte units */                                            \
    X(code_filename)                                                                               \
    X(code_name)                                                                                   \
    X(code_qualname)                                                                               \
    X(code_linetable)                                                                              \
    X(code_exceptiontable)                                                                         \
    X(code_firstlineno)    /* int */                                                               \
    X(code_nlocalsplus)    /* int */                                                               \
    X(code_stacksize)      /* int */                                                               \
    X(code_firsttraceable) /* int, unit index */                                                   \
    X(code_bytecode)       /* co_code_adaptive */                                                  \
    X(object_type)         /* PyObject.ob_type */                                                  \
    X(var_size)            /* PyVarObject.ob_size */                                               \
    X(type_name)           /* char *tp_name */                                                     \
    X(type_flags)          /* unsigned long tp_flags */                                            \
    X(type_basicsize)                                                                              \
    X(type_dict)        /* tp_dict; heap types only (3.12+ keeps others elsewhere) */              \
    X(type_call)        /* tp_call */                                                              \
    X(type_module)      /* heap types: ht_module */                                                \
    X(type_qualname)    /* heap types: ht_qualname */                                              \
    X(type_cached_keys) /* heap types: ht_cached_keys */                                           \
    X(unicode_length)                                                                              \
    X(unicode_state)                                                                               \
    X(unicode_ascii)   /* characters of a compact ASCII string */                                  \
    X(unicode_compact) /* characters of another compact string */                                  \
    X(bytes_data)                                                                                  \
    X(long_tag) /* lv_tag (3.12+) or ob_size (3.11) */                                             \
    X(long_digits)                                                                                 \
    X(dict_used)                                                                                   \
    X(dict_keys)                                                                                   \
    X(dict_values)                                                                                 \
    X(keys_log2_size) /* PyDictKeysObject, all u8 */                                               \
    X(keys_log2_index_bytes)                                                                       \
    X(keys_kind) /* 0 general (hash,key,value), 1 unicode (key,value), 2 split */                  \
    X(keys_usable)                                                                                 \
    X(keys_nentries)                                                                               \
    X(keys_indices)                                                                                \
    X(values_items) /* first value in PyDictValues */                                              \
    X(module_dict)                                                                                 \
    X(cfunction_def) /* PyCFunctionObject */                                                       \
    X(cfunction_self)                                                                              \
    X(cfunction_module)                                                                            \
    X(methoddef_name)                                                                              \
    X(descr_type) /* PyDescrObject */                                                              \
    X(descr_name)                                                                                  \
    X(method_descr_def)                                                                            \
    X(bound_function) /* PyMethodObject.im_func */                                                 \
    X(gen_frame)      /* generator object: its frame */

typedef enum pyr_boundary {
    PYR_BOUNDARY_ENTRY_FLAG, /* 3.11: no extra frames, the entry frame carries a flag */
    PYR_BOUNDARY_OWNER,      /* later: frames whose owner is at least boundary_owner are hidden */
} pyr_boundary;

/* How a C function being called is found on the value stack (cpython/callee.c). */
typedef enum pyr_call_shape {
    PYR_CALL_311, /* 3.11 and 3.12 */
    PYR_CALL_313,
    PYR_CALL_314, /* stack references are tagged, stackpointer confirms the call */
} pyr_call_shape;

/* Where an instance keeps its attributes. */
typedef enum pyr_instance_shape {
    PYR_INSTANCE_311, /* values pointer 4 words and dict pointer 3 words before the object */
    PYR_INSTANCE_312, /* one tagged word 3 words before the object */
    PYR_INSTANCE_313, /* dict pointer 3 words before, else values inline behind the object */
} pyr_instance_shape;

typedef struct pyr_layout {
    uint32_t version;      /* PY_VERSION_HEX */
    uint8_t minor;         /* 11 ... 15: chooses opcode tables (cpython/bytecode.c) */
    uint8_t code_tag_mask; /* low bits to clear in a code slot or stack reference */
    uint8_t boundary_owner;
    uint8_t instr_is_next; /* 0: prev_instr (3.11, 3.12), 1: instr_ptr */
    pyr_boundary boundary;
    pyr_call_shape call_shape;
    pyr_instance_shape instance_shape;
#define PYR_LAYOUT_FIELD(name) uint32_t name;
    PYR_LAYOUT_FIELDS(PYR_LAYOUT_FIELD)
#undef PYR_LAYOUT_FIELD
} pyr_layout;

/* Where the current frame is found: on old versions the thread state points to a link in the C
 * stack, which points to the frame. True where there is such a link. */
static inline int pyr_layout_has_frame_link(const pyr_layout *layout)
{
    return layout->thread_cframe != PYR_FIELD_ABSENT;
}

/* Offset of the pointer to the link in the thread state, and of the frame pointer in the link. */
static inline uint32_t pyr_layout_frame_link(const pyr_layout *layout)
{
    return layout->thread_cframe;
}

static inline uint32_t pyr_layout_link_frame(const pyr_layout *layout)
{
    return layout->cframe_frame;
}

/* A frame's depth of stack, where it is kept as a number right behind the instruction (up to 3.13,
 * int): below zero while the frame runs, not so while it has called a frame of bytecode, and after
 * its end. PYR_FIELD_ABSENT on later versions. Held by python/_native/selfcheck.c. */
static inline uint32_t pyr_layout_frame_depth(const pyr_layout *layout)
{
    return layout->minor <= 13 ? layout->frame_instr + 8 : PYR_FIELD_ABSENT;
}

#endif
