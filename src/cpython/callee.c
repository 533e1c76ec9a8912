/* From a frame that stands at a call to the name of what it calls.
 *
 * Finding is arithmetic on the copied frame: where the compiler puts the callee among the call's
 * operands, a table by version. Naming follows a few pointers of the callee: its type's name tells
 * what kind of object it is (only static types, and only with an object size that fits), then the
 * parts of the name are read. Every pointer may be stale and every text garbage; what does not look
 * like a name gives no name.
 *
 * Owns nothing. Any thread, one at a time per batch. It never takes references, never runs Python,
 * never guesses: see callee.h on what a name proves.
 */
#include "cpython/callee.h"

#include <string.h>

#include "base/load.h"
#include "base/utf8.h"
#include "cpython/objects.h"

enum {
    WORD = sizeof(pyr_addr),
    TEXT_BYTES = 128, /* the longest part of a name; the joined name is cut to its buffer */
    PAGE_BYTES = 4096,
};

/* tp_flags (Include/object.h): part of the stable ABI since 3.2. */
static const uint64_t TYPE_IS_HEAP = UINT64_C(1) << 9;
static const uint64_t TYPE_IS_READY = UINT64_C(1) << 12;
static const uint64_t TYPE_IS_TYPE = UINT64_C(1) << 31;

/* ------------------------------------------------------------------------------- finding ---- */

/* How many words below the top of the stack the callee lies; 0: this version has no such call. */
static uint32_t callee_distance(pyr_call_shape shape, const pyr_site *site)
{
    switch (site->kind) {
    case PYR_SITE_CALL:
        return site->oparg + 2;
    case PYR_SITE_CALL_KW:
        return shape == PYR_CALL_311 ? 0 : site->oparg + 3;
    case PYR_SITE_CALL_EX:
        return shape == PYR_CALL_311   ? 2 + (site->oparg & 1)
               : shape == PYR_CALL_313 ? 3 + (site->oparg & 1)
                                       : 4;
    case PYR_SITE_ENTER:
        return shape == PYR_CALL_314 ? 0 : 1;
    case PYR_SITE_EXIT:
        return shape == PYR_CALL_314 ? 5 : 4;
    case PYR_SITE_NONE:
    case PYR_SITE_OTHER:
    case PYR_SITE_HIDDEN:
        break;
    }
    return 0;
}

bool pyr_callee_is_proved(const pyr_layout *layout)
{
    return layout->call_shape == PYR_CALL_314;
}

pyr_status pyr_callee_find(const pyr_layout *layout, const uint8_t *frame, size_t frame_length,
                           const pyr_site *site, uint32_t nlocalsplus, pyr_addr frame_addr,
                           pyr_addr *callee)
{
    uint32_t distance = callee_distance(layout->call_shape, site);
    if (distance == 0 || distance > site->depth) {
        return PYR_EBAD;
    }
    size_t top = layout->frame_locals + ((size_t)nlocalsplus + site->depth) * WORD;
    if (frame_length < top) {
        return PYR_EPARTIAL;
    }
    if (layout->call_shape == PYR_CALL_314) {
        pyr_addr stored = pyr_load_addr(frame, layout->frame_stackpointer);
        pyr_addr last = pyr_load_addr(frame, top - WORD);
        /* While the arguments are dropped the pointer stays, but they become NULL, the last first,
         * and the result lies where the callee was already. */
        bool has_arguments =
            site->kind == PYR_SITE_CALL_KW || (site->kind == PYR_SITE_CALL && site->oparg > 0);
        if (stored != frame_addr + top ||
            (has_arguments && (last & ~(pyr_addr)layout->code_tag_mask) == 0)) {
            return PYR_ENOENT;
        }
    }
    pyr_addr word = pyr_load_addr(frame, top - (size_t)distance * WORD);
    if (word == 0 && site->kind == PYR_SITE_CALL && layout->call_shape == PYR_CALL_311) {
        /* A NULL pushed before the callable says that there is no self. */
        word = pyr_load_addr(frame, top - (size_t)(distance - 1) * WORD);
    }
    *callee = word & ~(pyr_addr)layout->code_tag_mask;
    return *callee == 0 ? PYR_ENOENT : PYR_OK;
}

/* ------------------------------------------------------------------------------- reading ---- */

typedef struct probe {
    pyr_reader *reader;
    pyr_batch *batch;
    const pyr_layout *layout;
} probe;

enum { OBJECT_BYTES = 6 * WORD }; /* what a PyCFunction or a descriptor has at least */

typedef struct object_head {
    uint8_t bytes[OBJECT_BYTES];
} object_head;

typedef struct type_facts {
    uint64_t flags;
    uint64_t basicsize;
    pyr_addr call;
    char name[TEXT_BYTES]; /* tp_name */
} type_facts;

static pyr_addr word_at(const object_head *object, uint32_t offset)
{
    return offset <= OBJECT_BYTES - WORD ? pyr_load_addr(object->bytes, offset) : 0;
}

/* Adds the word at `addr` + `offset` to the batch. */
static int word_add(const probe *self, pyr_addr addr, uint32_t offset)
{
    return offset == PYR_FIELD_ABSENT ? -1 : pyr_batch_add(self->batch, addr + offset, WORD);
}

/* The word of span `index`, or 0 where it could not be read. */
static pyr_addr word_get(const probe *self, int index)
{
    const uint8_t *bytes = pyr_batch_get(self->batch, index);
    return bytes == NULL ? 0 : pyr_load_addr(bytes, 0);
}

/* True for what can be a part of a name: not empty, valid UTF-8, no control characters. */
static bool is_name(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f) {
            return false;
        }
    }
    return length > 0 && pyr_utf8_valid(text, length) == length;
}

/* Reads a NUL-terminated name of at most TEXT_BYTES - 1 bytes. The part beyond a page's end is
 * asked for apart, since the next page may not exist. */
static bool text_read(const probe *self, pyr_addr addr, char out[TEXT_BYTES])
{
    size_t there = PAGE_BYTES - addr % PAGE_BYTES;
    there = there < TEXT_BYTES ? there : TEXT_BYTES;
    pyr_batch_clear(self->batch);
    int head = pyr_batch_add(self->batch, addr, there);
    int tail = pyr_batch_add(self->batch, addr + there, TEXT_BYTES - there); /* -1 if empty */
    pyr_reader_read_batch(self->reader, self->batch);
    const uint8_t *bytes = pyr_batch_get(self->batch, head);
    if (bytes == NULL) {
        return false;
    }
    memcpy(out, bytes, there);
    bytes = pyr_batch_get(self->batch, tail);
    if (bytes != NULL) {
        memcpy(out + there, bytes, TEXT_BYTES - there);
        there = TEXT_BYTES;
    }
    size_t length = strnlen(out, there);
    return length < there && is_name(out, length);
}

/* Reads the type object at `addr`. False for what cannot be one. */
static bool type_read(const probe *self, pyr_addr addr, type_facts *type)
{
    const pyr_layout *layout = self->layout;
    pyr_batch_clear(self->batch);
    int name = word_add(self, addr, layout->type_name);
    int flags = word_add(self, addr, layout->type_flags);
    int basicsize = word_add(self, addr, layout->type_basicsize);
    int call = word_add(self, addr, layout->type_call);
    pyr_reader_read_batch(self->reader, self->batch);
    pyr_addr text = word_get(self, name);
    type->flags = word_get(self, flags);
    type->basicsize = word_get(self, basicsize);
    type->call = word_get(self, call);
    return (type->flags & TYPE_IS_READY) != 0 && text_read(self, text, type->name);
}

/* True when C code made the type: no class statement runs behind its slots. C's heap types carry
 * their module in tp_name ("_thread.lock"; CPython deprecates others), classes never do. */
static bool type_is_native(const type_facts *type)
{
    return (type->flags & TYPE_IS_HEAP) == 0 || strchr(type->name, '.') != NULL;
}

/* Reads a str object that is a name. */
static bool str_read(const probe *self, pyr_addr addr, char out[TEXT_BYTES])
{
    size_t length;
    return pyr_object_text(self->reader, self->layout, addr, out, TEXT_BYTES, &length) == PYR_OK &&
           is_name(out, length);
}

/* -------------------------------------------------------------------------------- naming ---- */

/* Sets the name to `owner`.`name`; owner "builtins" or "" is left out. */
static void name_set(pyr_callee *out, const char *owner, const char *name, bool is_stable)
{
    char joined[2 * TEXT_BYTES];
    size_t length = 0;
    if (owner[0] != '\0' && strcmp(owner, "builtins") != 0) {
        length = strlen(owner);
        memcpy(joined, owner, length);
        joined[length++] = '.';
    }
    size_t name_length = strlen(name);
    memcpy(joined + length, name, name_length);
    out->length =
        (uint32_t)pyr_utf8_repair(joined, length + name_length, out->name, sizeof(out->name));
    out->kind = PYR_CALLEE_NATIVE;
    out->is_stable = is_stable;
}

/* A C function: of a module ("time.sleep"), or bound to an object ("_thread.lock.acquire") or to a
 * type ("dict.fromkeys"). */
static void function_name(const probe *self, const object_head *object, pyr_callee *out)
{
    const pyr_layout *layout = self->layout;
    pyr_addr receiver = word_at(object, layout->cfunction_self);
    pyr_addr name_addr;
    char name[TEXT_BYTES];
    if (pyr_reader_read_addr(self->reader,
                             word_at(object, layout->cfunction_def) + layout->methoddef_name,
                             &name_addr) != PYR_OK ||
        !text_read(self, name_addr, name)) {
        return;
    }
    pyr_addr module = word_at(object, layout->cfunction_module);
    if (module != 0 || receiver == 0) {
        char owner[TEXT_BYTES];
        name_set(out, str_read(self, module, owner) ? owner : "", name, true);
        return;
    }
    pyr_addr type_addr;
    type_facts type;
    if (pyr_reader_read_addr(self->reader, receiver + layout->object_type, &type_addr) == PYR_OK &&
        type_read(self, type_addr, &type) &&
        ((type.flags & TYPE_IS_TYPE) == 0 || type_read(self, receiver, &type))) {
        name_set(out, type.name, name, type_is_native(&type));
    }
}

/* A method of a type that is not bound: "list.sort". */
static void descriptor_name(const probe *self, const object_head *object, pyr_callee *out)
{
    type_facts type;
    char name[TEXT_BYTES];
    if (type_read(self, word_at(object, self->layout->descr_type), &type) &&
        str_read(self, word_at(object, self->layout->descr_name), name)) {
        name_set(out, type.name, name, type_is_native(&type));
    }
}

enum callable { FUNCTION, DESCRIPTOR, WRAPPER, PYTHON_FUNCTION, BOUND_METHOD, OTHER_CALLABLE };

/* Callables are told by the name of their static type, and by how many words they have at least:
 * a second opinion. */
static enum callable callable_kind(const type_facts *type)
{
    static const struct {
        const char *name;
        enum callable kind;
        uint8_t words;
    } known[] = {
        {"builtin_function_or_method", FUNCTION, 6},
        {"builtin_method", FUNCTION, 6},
        {"method_descriptor", DESCRIPTOR, 6},
        {"classmethod_descriptor", DESCRIPTOR, 6},
        {"wrapper_descriptor", DESCRIPTOR, 6},
        {"method-wrapper", WRAPPER, 4},
        {"function", PYTHON_FUNCTION, 6},
        {"method", BOUND_METHOD, 4},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if ((type->flags & TYPE_IS_HEAP) == 0 && strcmp(known[i].name, type->name) == 0 &&
            type->basicsize >= (uint64_t)known[i].words * WORD && type->basicsize < PAGE_BYTES) {
            return known[i].kind;
        }
    }
    return OTHER_CALLABLE;
}

/* Reads the object and its type. */
static bool object_read(const probe *self, pyr_addr addr, object_head *object, type_facts *type)
{
    return pyr_reader_read(self->reader, addr, object->bytes, OBJECT_BYTES) == PYR_OK &&
           type_read(self, word_at(object, self->layout->object_type), type);
}

static void callee_begin(pyr_callee *out)
{
    out->kind = PYR_CALLEE_UNKNOWN;
    out->form = PYR_FORM_ANY;
    out->is_stable = false;
    out->length = 0;
    out->name[0] = '\0';
}

pyr_status pyr_callee_name(pyr_reader *reader, pyr_batch *batch, const pyr_layout *layout,
                           pyr_addr callee, pyr_callee *out)
{
    const probe self = {reader, batch, layout};
    object_head object;
    type_facts type;
    callee_begin(out);
    if (!object_read(&self, callee, &object, &type)) {
        return PYR_EFAULT;
    }
    enum callable kind = callable_kind(&type);
    bool is_wrapped = kind == BOUND_METHOD || kind == WRAPPER;
    if (is_wrapped) {
        /* What they wrap is the first field behind the header in both, and names the call. */
        uint32_t first = kind == BOUND_METHOD ? layout->bound_function : layout->descr_type;
        if (!object_read(&self, word_at(&object, first), &object, &type)) {
            return PYR_EFAULT;
        }
        kind = callable_kind(&type);
    }
    switch (kind) {
    case FUNCTION:
        out->form = PYR_FORM_FUNCTION;
        function_name(&self, &object, out);
        break;
    case DESCRIPTOR:
        out->form = PYR_FORM_DESCRIPTOR;
        descriptor_name(&self, &object, out);
        break;
    case PYTHON_FUNCTION:
        out->kind = PYR_CALLEE_PYTHON;
        break;
    case WRAPPER:
    case BOUND_METHOD:
        break;
    case OTHER_CALLABLE:
        if ((type.flags & TYPE_IS_TYPE) != 0) {
            if (!is_wrapped && type_read(&self, callee, &type)) {
                bool is_static = (type.flags & TYPE_IS_HEAP) == 0;
                bool is_type = is_static && strcmp(type.name, "type") == 0;
                out->form = is_type ? PYR_FORM_TYPE : PYR_FORM_CLASS;
                name_set(out, "", type.name, is_static);
            }
        } else if (type.call != 0 && type_is_native(&type)) {
            name_set(out, "", type.name, true);
        }
        break;
    }
    if (is_wrapped) {
        out->is_stable = false; /* the wrapper's words do not say what the wrapped is now */
        out->form = PYR_FORM_ANY;
    }
    return PYR_OK;
}

bool pyr_callee_fits(unsigned minor, uint8_t opcode, const pyr_callee *callee)
{
    pyr_site_form form = pyr_bytecode_form(minor, opcode);
    return callee->kind != PYR_CALLEE_NATIVE || form == PYR_FORM_ANY || form == callee->form ||
           (form == PYR_FORM_CLASS && callee->form == PYR_FORM_TYPE);
}

pyr_status pyr_callee_name_enter(pyr_reader *reader, pyr_batch *batch, const pyr_layout *layout,
                                 pyr_addr object_addr, pyr_callee *out)
{
    const probe self = {reader, batch, layout};
    object_head object;
    type_facts type;
    callee_begin(out);
    if (!object_read(&self, object_addr, &object, &type)) {
        return PYR_EFAULT;
    }
    enum callable kind = callable_kind(&type);
    if (kind == FUNCTION) {
        /* 3.11 has put the bound __exit__ in the manager's place by now: name after its self. */
        pyr_addr manager = word_at(&object, layout->cfunction_self);
        if (!object_read(&self, manager, &object, &type)) {
            return PYR_EFAULT;
        }
        name_set(out, type.name, "__enter__", false);
    } else if (kind == BOUND_METHOD || kind == PYTHON_FUNCTION) {
        out->kind = PYR_CALLEE_PYTHON;
    } else if (kind == OTHER_CALLABLE && type_is_native(&type)) {
        name_set(out, type.name, "__enter__", true);
    }
    return PYR_OK;
}
