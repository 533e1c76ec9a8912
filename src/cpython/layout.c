/* Layouts: where every field that we read stands in the interpreter at hand.
 *
 * The generated table of a minor version (layout_tables.c) is the start. From 3.13 on the
 * interpreter publishes a table of its own (layout_published.h names its words); `rules` says how
 * our fields follow from it: a word, plus a distance for neighbours that nobody publishes.
 * Published facts win over generated ones, so that a build with other options is still read
 * rightly; what is not published comes from the generated table.
 *
 * Everything is validated once, here: nothing later asks again. Owns nothing but what it returns;
 * any thread; reads only through the reader and never follows more than a few pointers.
 */
#include "cpython/layout.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "cpython/layout_published.h"
#include "cpython/layout_tables.h"

enum {
    LAST_MINOR = PYR_LAYOUT_FIRST_MINOR + PYR_LAYOUT_TABLES - 1,
    VERSION_TEXT_BYTES = 32,
    RELEASE_LEVEL_FINAL = 0xf,
};

/* ------------------------------------------------------------------------------ the rules ---- */

/* The structs that fields lie in: a maximum for every build that is thinkable, and the published
 * size where there is one. */
enum holder {
    NOT_AN_OFFSET,
    IN_RUNTIME,
    IN_INTERP,
    IN_GIL,
    IN_THREAD,
    IN_FRAME,
    IN_CODE,
    IN_TYPE,
    IN_HEAP_TYPE,
    IN_TUPLE,
    IN_DICT,
    IN_LONG,
    IN_BYTES,
    IN_UNICODE,
    IN_GEN,
    IN_OBJECT,
    IN_SMALL, /* any other */
    HOLDERS
};

static const struct holder_size {
    uint32_t maximum;
    uint8_t word;
} holders[HOLDERS] = {
    [NOT_AN_OFFSET] = {4096, W_NONE},
    [IN_RUNTIME] = {1 << 22, W_RUNTIME_SIZE},
    [IN_INTERP] = {1 << 20, W_INTERP_SIZE},
    [IN_GIL] = {512, W_NONE},
    [IN_THREAD] = {4096, W_THREAD_SIZE},
    [IN_FRAME] = {256, W_FRAME_SIZE},
    [IN_CODE] = {512, W_CODE_SIZE},
    [IN_TYPE] = {1024, W_TYPE_SIZE},
    [IN_HEAP_TYPE] = {2048, W_HEAP_TYPE_SIZE},
    [IN_TUPLE] = {48, W_TUPLE_SIZE},
    [IN_DICT] = {64, W_DICT_SIZE},
    [IN_LONG] = {64, W_LONG_SIZE},
    [IN_BYTES] = {48, W_BYTES_SIZE},
    [IN_UNICODE] = {96, W_UNICODE_SIZE},
    [IN_GEN] = {512, W_GEN_SIZE},
    [IN_OBJECT] = {32, W_NONE},
    [IN_SMALL] = {64, W_NONE},
};

enum field {
#define FIELD_INDEX(name) F_##name,
    PYR_LAYOUT_FIELDS(FIELD_INDEX)
#undef FIELD_INDEX
        FIELDS
};

static const struct field_entry {
    const char *name;
    size_t place; /* of the offset within pyr_layout */
} fields[FIELDS] = {
#define FIELD_ENTRY(name) {#name, offsetof(pyr_layout, name)},
    PYR_LAYOUT_FIELDS(FIELD_ENTRY)
#undef FIELD_ENTRY
};

/* One rule a field: the struct that it lies in, its width (which is its alignment too), and, where
 * it can be had from a published table, the word and the distance from there. */
static const struct rule {
    uint8_t holder;
    uint8_t width;
    uint8_t word;
    int8_t distance;
} rules[FIELDS] = {
    [F_runtime_finalizing] = {IN_RUNTIME, 8, W_RUNTIME_FINALIZING, 0},
    [F_runtime_interpreters_head] = {IN_RUNTIME, 8, W_RUNTIME_INTERPRETERS, 0},
    [F_interp_id] = {IN_INTERP, 8, W_INTERP_ID, 0},
    [F_interp_next] = {IN_INTERP, 8, W_INTERP_NEXT, 0},
    [F_interp_threads_head] = {IN_INTERP, 8, W_INTERP_THREADS, 0},
    [F_interp_threads_next_id] = {IN_INTERP, 8, W_INTERP_THREADS, -8},
    [F_interp_ceval_gil] = {IN_INTERP, 8, W_INTERP_CEVAL_GIL, 0},
    [F_interp_modules] = {IN_INTERP, 8, W_INTERP_MODULES, 0},
    [F_interp_gc_collecting] = {IN_INTERP, 4, W_GC_COLLECTING, 0},
    [F_gil_runtime] = {IN_RUNTIME, 8, W_NONE, 0},
    [F_gil_locked] = {IN_GIL, 4, W_GIL_LOCKED, 0},
    [F_gil_holder] = {IN_GIL, 8, W_GIL_HOLDER, 0},
    [F_gil_cond] = {IN_GIL, 8, W_GIL_LOCKED, 16},
    [F_gil_size] = {NOT_AN_OFFSET, 8, W_NONE, 0},
    [F_thread_next] = {IN_THREAD, 8, W_THREAD_NEXT, 0},
    [F_thread_interp] = {IN_THREAD, 8, W_THREAD_INTERP, 0},
    [F_thread_frame] = {IN_THREAD, 8, W_THREAD_FRAME, 0},
    [F_thread_cframe] = {IN_THREAD, 8, W_NONE, 0},
    [F_thread_ident] = {IN_THREAD, 8, W_THREAD_IDENT, 0},
    [F_thread_native_id] = {IN_THREAD, 8, W_THREAD_NATIVE_ID, 0},
    [F_thread_unique_id] = {IN_THREAD, 8, W_THREAD_CHUNK, -8},
    [F_thread_chunk] = {IN_THREAD, 8, W_THREAD_CHUNK, 0},
    [F_thread_chunk_top] = {IN_THREAD, 8, W_THREAD_CHUNK, 8},
    [F_thread_holds_gil] = {IN_THREAD, 4, W_THREAD_STATUS, 4},
    [F_thread_gil_requested] = {IN_THREAD, 4, W_THREAD_GIL_REQUESTED, 0},
    [F_thread_exc_info] = {IN_THREAD, 8, W_THREAD_NATIVE_ID, -40},
    [F_thread_context] = {IN_THREAD, 8, W_THREAD_NATIVE_ID, 48},
    [F_thread_size] = {NOT_AN_OFFSET, 8, W_NONE, 0},
    [F_cframe_frame] = {IN_SMALL, 8, W_NONE, 0},
    [F_chunk_previous] = {IN_SMALL, 8, W_NONE, 0},
    [F_chunk_size] = {IN_SMALL, 8, W_NONE, 0},
    [F_chunk_top] = {IN_SMALL, 8, W_NONE, 0},
    [F_chunk_data] = {IN_SMALL, 8, W_NONE, 0},
    [F_frame_previous] = {IN_FRAME, 8, W_FRAME_PREVIOUS, 0},
    [F_frame_code] = {IN_FRAME, 8, W_FRAME_CODE, 0},
    [F_frame_instr] = {IN_FRAME, 8, W_FRAME_INSTR, 0},
    [F_frame_owner] = {IN_FRAME, 1, W_FRAME_OWNER, 0},
    [F_frame_is_entry] = {IN_FRAME, 1, W_NONE, 0},
    [F_frame_locals] = {IN_FRAME, 8, W_FRAME_LOCALS, 0},
    [F_frame_stackpointer] = {IN_FRAME, 8, W_FRAME_STACKPOINTER, 0},
    [F_err_value] = {IN_SMALL, 8, W_ERR_VALUE, 0},
    [F_err_previous] = {IN_SMALL, 8, W_ERR_VALUE, 8},
    [F_code_units] = {IN_CODE, 8, W_TUPLE_LENGTH, 0},
    [F_code_filename] = {IN_CODE, 8, W_CODE_FILENAME, 0},
    [F_code_name] = {IN_CODE, 8, W_CODE_NAME, 0},
    [F_code_qualname] = {IN_CODE, 8, W_CODE_QUALNAME, 0},
    [F_code_linetable] = {IN_CODE, 8, W_CODE_LINETABLE, 0},
    [F_code_exceptiontable] = {IN_CODE, 8, W_CODE_ARGCOUNT, -12},
    [F_code_firstlineno] = {IN_CODE, 4, W_CODE_FIRSTLINENO, 0},
    [F_code_nlocalsplus] = {IN_CODE, 4, W_CODE_FIRSTLINENO, 4},
    [F_code_stacksize] = {IN_CODE, 4, W_CODE_FIRSTLINENO, -4},
    [F_code_firsttraceable] = {IN_CODE, 4, W_CODE_BYTECODE, -16},
    [F_code_bytecode] = {IN_CODE, 2, W_CODE_BYTECODE, 0},
    [F_object_type] = {IN_OBJECT, 8, W_OBJECT_TYPE, 0},
    [F_var_size] = {IN_TUPLE, 8, W_TUPLE_LENGTH, 0},
    [F_type_name] = {IN_TYPE, 8, W_TYPE_NAME, 0},
    [F_type_flags] = {IN_TYPE, 8, W_TYPE_FLAGS, 0},
    [F_type_basicsize] = {IN_TYPE, 8, W_TYPE_NAME, 8},
    [F_type_dict] = {IN_TYPE, 8, W_TYPE_FLAGS, 96},
    [F_type_call] = {IN_TYPE, 8, W_TYPE_FLAGS, -40},
    [F_type_module] = {IN_HEAP_TYPE, 8, W_HEAP_TYPE_KEYS, 8},
    [F_type_qualname] = {IN_HEAP_TYPE, 8, W_HEAP_TYPE_KEYS, -8},
    [F_type_cached_keys] = {IN_HEAP_TYPE, 8, W_HEAP_TYPE_KEYS, 0},
    [F_unicode_length] = {IN_UNICODE, 8, W_UNICODE_LENGTH, 0},
    [F_unicode_state] = {IN_UNICODE, 4, W_UNICODE_STATE, 0},
    [F_unicode_ascii] = {IN_UNICODE, 1, W_UNICODE_ASCII, 0},
    [F_unicode_compact] = {IN_UNICODE, 1, W_UNICODE_ASCII, 16},
    [F_bytes_data] = {IN_BYTES, 1, W_BYTES_DATA, 0},
    [F_long_tag] = {IN_LONG, 8, W_LONG_TAG, 0},
    [F_long_digits] = {IN_LONG, 4, W_LONG_DIGITS, 0},
    [F_dict_used] = {IN_DICT, 8, W_DICT_KEYS, -16},
    [F_dict_keys] = {IN_DICT, 8, W_DICT_KEYS, 0},
    [F_dict_values] = {IN_DICT, 8, W_DICT_VALUES, 0},
    [F_keys_log2_size] = {IN_SMALL, 1, W_NONE, 0},
    [F_keys_log2_index_bytes] = {IN_SMALL, 1, W_NONE, 0},
    [F_keys_kind] = {IN_SMALL, 1, W_NONE, 0},
    [F_keys_usable] = {IN_SMALL, 8, W_NONE, 0},
    [F_keys_nentries] = {IN_SMALL, 8, W_NONE, 0},
    [F_keys_indices] = {IN_SMALL, 1, W_NONE, 0},
    [F_values_items] = {IN_SMALL, 8, W_NONE, 0},
    [F_module_dict] = {IN_SMALL, 8, W_NONE, 0},
    [F_cfunction_def] = {IN_SMALL, 8, W_NONE, 0},
    [F_cfunction_self] = {IN_SMALL, 8, W_NONE, 0},
    [F_cfunction_module] = {IN_SMALL, 8, W_NONE, 0},
    [F_methoddef_name] = {IN_SMALL, 8, W_NONE, 0},
    [F_descr_type] = {IN_SMALL, 8, W_NONE, 0},
    [F_descr_name] = {IN_SMALL, 8, W_NONE, 0},
    [F_method_descr_def] = {IN_SMALL, 8, W_NONE, 0},
    [F_bound_function] = {IN_SMALL, 8, W_NONE, 0},
    [F_gen_frame] = {IN_GEN, 8, W_GEN_FRAME, 0},
};

/* Pairs of fields of which the first ends before the second begins: readers copy a struct up to the
 * second and take the first from the copy. */
static const struct order {
    uint8_t first, second;
} orders[] = {
    {F_object_type, F_var_size},
    {F_var_size, F_bytes_data},
    {F_long_tag, F_long_digits},
    {F_unicode_length, F_unicode_ascii},
    {F_unicode_state, F_unicode_ascii},
    {F_unicode_ascii, F_unicode_compact},
    {F_object_type, F_unicode_length},
    {F_dict_used, F_dict_values},
    {F_dict_keys, F_dict_values},
    {F_keys_log2_size, F_keys_indices},
    {F_keys_log2_index_bytes, F_keys_indices},
    {F_keys_kind, F_keys_indices},
    {F_keys_usable, F_keys_indices},
    {F_keys_nentries, F_keys_indices},
    {F_frame_previous, F_frame_locals},
    {F_frame_code, F_frame_locals},
    {F_frame_instr, F_frame_locals},
    {F_frame_owner, F_frame_locals},
    {F_frame_is_entry, F_frame_locals},
    {F_frame_stackpointer, F_frame_locals},
    {F_gil_locked, F_gil_cond},
    {F_gil_holder, F_gil_cond},
    {F_chunk_previous, F_chunk_data},
    {F_chunk_size, F_chunk_data},
    {F_chunk_top, F_chunk_data},
    {F_err_value, F_err_previous},
};

/* What a minor version does differently that is no offset. */
static const struct traits {
    uint8_t code_tag_mask, boundary_owner, instr_is_next;
    pyr_boundary boundary;
    pyr_call_shape call_shape;
    pyr_instance_shape instance_shape;
} traits[PYR_LAYOUT_TABLES] = {
    {0, 0, 0, PYR_BOUNDARY_ENTRY_FLAG, PYR_CALL_311, PYR_INSTANCE_311},
    {0, 3, 0, PYR_BOUNDARY_OWNER, PYR_CALL_311, PYR_INSTANCE_312},
    {0, 3, 1, PYR_BOUNDARY_OWNER, PYR_CALL_313, PYR_INSTANCE_313},
    {3, 3, 1, PYR_BOUNDARY_OWNER, PYR_CALL_314, PYR_INSTANCE_313},
    {3, 3, 1, PYR_BOUNDARY_OWNER, PYR_CALL_314, PYR_INSTANCE_313},
};

/* ----------------------------------------------------------------------------------- code ---- */

static pyr_status refuse(pyr_status status, char *why, size_t why_size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static pyr_status refuse(pyr_status status, char *why, size_t why_size, const char *format, ...)
{
    if (why && why_size > 0) {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(why, why_size, format, arguments);
        va_end(arguments);
    }
    return status;
}

/* The value of a field within a layout. */
static uint32_t get(const pyr_layout *layout, size_t field)
{
    uint32_t value;
    memcpy(&value, (const char *)layout + fields[field].place, sizeof value);
    return value;
}

static void set(pyr_layout *layout, size_t field, uint32_t value)
{
    memcpy((char *)layout + fields[field].place, &value, sizeof value);
}

/* "3.15.0b2" */
static void format_version(uint32_t version, char text[VERSION_TEXT_BYTES])
{
    unsigned level = version >> 4 & 0xf;
    const char *name = level == 0xa ? "a" : level == 0xb ? "b" : level == 0xc ? "rc" : "?";
    int length = snprintf(text, VERSION_TEXT_BYTES, "%u.%u.%u", version >> 24 & 0xff,
                          version >> 16 & 0xff, version >> 8 & 0xff);
    if (level != RELEASE_LEVEL_FINAL) {
        (void)snprintf(text + length, VERSION_TEXT_BYTES - (size_t)length, "%s%u", name,
                       version & 0xf);
    }
}

/* Starts a layout from the generated table and the traits of `version`. */
static pyr_status start(pyr_layout *layout, uint32_t version, char *why, size_t why_size)
{
    char text[VERSION_TEXT_BYTES];
    unsigned minor = version >> 16 & 0xff;
    format_version(version, text);
    if (version >> 24 != 3 || minor < PYR_LAYOUT_FIRST_MINOR || minor > LAST_MINOR) {
        return refuse(PYR_EVERSION, why, why_size,
                      "Python %s is not supported: this version of Pyrometer knows CPython 3.%d to "
                      "3.%d",
                      text, PYR_LAYOUT_FIRST_MINOR, LAST_MINOR);
    }
    if ((version >> 4 & 0xf) != RELEASE_LEVEL_FINAL) {
        return refuse(PYR_EVERSION, why, why_size,
                      "Python %s is not supported: it is a pre-release, and only final releases of "
                      "CPython 3.%u are known",
                      text, minor);
    }
    const struct traits *own = &traits[minor - PYR_LAYOUT_FIRST_MINOR];
    *layout = pyr_layout_tables[minor - PYR_LAYOUT_FIRST_MINOR];
    layout->version = version;
    layout->code_tag_mask = own->code_tag_mask;
    layout->boundary_owner = own->boundary_owner;
    layout->instr_is_next = own->instr_is_next;
    layout->boundary = own->boundary;
    layout->call_shape = own->call_shape;
    layout->instance_shape = own->instance_shape;
    return PYR_OK;
}

/* Fills in the two sizes, which follow from the offsets. */
static void derive_sizes(pyr_layout *layout)
{
    uint32_t end = 0;
    for (size_t i = 0; i < FIELDS; i++) {
        uint32_t offset = get(layout, i);
        if (rules[i].holder == IN_THREAD && offset != PYR_FIELD_ABSENT &&
            offset + rules[i].width > end) {
            end = offset + rules[i].width;
        }
    }
    layout->thread_size = (end + 7) & ~UINT32_C(7);
    /* Two condition variables, each with its mutex behind it, end the struct. */
    layout->gil_size =
        layout->gil_cond + 2 * (uint32_t)(sizeof(pthread_cond_t) + sizeof(pthread_mutex_t));
}

pyr_status pyr_layout_check(const pyr_layout *layout, char *why, size_t why_size)
{
    if (layout->minor < PYR_LAYOUT_FIRST_MINOR || layout->minor > LAST_MINOR) {
        return refuse(PYR_EBAD, why, why_size, "layout field minor: %u", layout->minor);
    }
    const pyr_layout *table = &pyr_layout_tables[layout->minor - PYR_LAYOUT_FIRST_MINOR];
    for (size_t i = 0; i < FIELDS; i++) {
        uint32_t offset = get(layout, i);
        uint32_t maximum = holders[rules[i].holder].maximum;
        bool absent = offset == PYR_FIELD_ABSENT;
        bool should_be_absent = get(table, i) == PYR_FIELD_ABSENT;
        if (absent != should_be_absent ||
            (!absent && (offset > maximum - rules[i].width || offset % rules[i].width != 0))) {
            return refuse(PYR_EBAD, why, why_size,
                          "the interpreter's layout is not plausible: field %s at offset %u",
                          fields[i].name, offset);
        }
    }
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        uint32_t first = get(layout, orders[i].first);
        if (first != PYR_FIELD_ABSENT &&
            first + rules[orders[i].first].width > get(layout, orders[i].second)) {
            return refuse(PYR_EBAD, why, why_size,
                          "the interpreter's layout is not plausible: field %s lies behind %s",
                          fields[orders[i].first].name, fields[orders[i].second].name);
        }
    }
    return PYR_OK;
}

/* Replaces what is published, each within the struct's published size. */
static pyr_status apply_rules(pyr_layout *layout, const uint64_t words[W_COUNT], char *why,
                              size_t why_size)
{
    for (size_t i = 0; i < FIELDS; i++) {
        const struct rule *rule = &rules[i];
        if (rule->word == W_NONE || words[rule->word] == PYR_WORD_ABSENT ||
            get(layout, i) == PYR_FIELD_ABSENT) {
            continue;
        }
        uint64_t offset = words[rule->word] + (uint64_t)rule->distance; /* may wrap: refused */
        uint64_t size = holders[rule->holder].maximum;
        uint8_t size_word = holders[rule->holder].word;
        if (size_word != W_NONE && words[size_word] < size) {
            size = words[size_word];
        }
        if (size < rule->width || offset > size - rule->width) {
            return refuse(PYR_EBAD, why, why_size,
                          "the interpreter's published offsets are not plausible: field %s lies "
                          "outside its struct of %llu bytes",
                          fields[i].name, (unsigned long long)size);
        }
        set(layout, i, (uint32_t)offset);
    }
    return PYR_OK;
}

pyr_status pyr_layout_from_bytes(const uint8_t *table, size_t length, uint32_t version,
                                 pyr_layout *layout, char *why, size_t why_size)
{
    pyr_status status = start(layout, version, why, why_size);
    if (status != PYR_OK) {
        return status;
    }
    uint64_t words[W_COUNT];
    size_t bad;
    status = pyr_published_read(table, length, layout->minor, words, &bad);
    if (status != PYR_OK && bad == SIZE_MAX) {
        return refuse(status, why, why_size, "the interpreter publishes no offsets");
    }
    if (status != PYR_OK) {
        return refuse(status, why, why_size,
                      "the interpreter's published offsets are not plausible: word %zu", bad);
    }
    if (words[W_VERSION] != version) {
        char text[VERSION_TEXT_BYTES];
        format_version((uint32_t)words[W_VERSION], text);
        return refuse(PYR_EVERSION, why, why_size,
                      "the interpreter's published offsets are for another version, %s", text);
    }
    if (words[W_FREE_THREADED] != 0) {
        return refuse(PYR_EVERSION, why, why_size,
                      "free-threaded builds of Python are not supported yet");
    }
    status = apply_rules(layout, words, why, why_size);
    if (status != PYR_OK) {
        return status;
    }
    derive_sizes(layout);
    return pyr_layout_check(layout, why, why_size);
}

/* A layout is right only if it leads from the runtime to an interpreter and to a thread that points
 * back to it. Interpreters in the making have no thread yet, hence the loop. */
static pyr_status prove(pyr_reader *reader, pyr_addr runtime, const pyr_layout *layout, char *why,
                        size_t why_size)
{
    pyr_addr interp = 0;
    if (pyr_reader_read_addr(reader, runtime + layout->runtime_interpreters_head, &interp) !=
        PYR_OK) {
        return refuse(PYR_EFAULT, why, why_size, "the interpreter's memory could not be read");
    }
    for (int i = 0; i < PYR_LIMIT_INTERPRETERS && interp != 0; i++) {
        pyr_addr thread, back;
        if (pyr_reader_read_addr(reader, interp + layout->interp_threads_head, &thread) == PYR_OK &&
            pyr_reader_read_addr(reader, thread + layout->thread_interp, &back) == PYR_OK &&
            back == interp) {
            return PYR_OK;
        }
        if (pyr_reader_read_addr(reader, interp + layout->interp_next, &interp) != PYR_OK) {
            break;
        }
    }
    return refuse(PYR_EBAD, why, why_size,
                  "no thread was found in the interpreter: its layout is unknown, or it is not "
                  "running");
}

pyr_status pyr_layout_discover(pyr_reader *reader, pyr_addr runtime, uint32_t version,
                               const pyr_layout **layout, char *why, size_t why_size)
{
    uint8_t table[PYR_PUBLISHED_BYTES];
    pyr_layout *found = pyr_memory_new(1, sizeof *found);
    if (!found) {
        return refuse(PYR_ENOMEM, why, why_size, "out of memory");
    }
    pyr_status status = start(found, version, why, why_size);
    if (status != PYR_OK) {
        goto out;
    }
    size_t length = pyr_published_size(found->minor);
    if (length == 0) {
        derive_sizes(found);
        status = pyr_layout_check(found, why, why_size);
    } else if (pyr_reader_read(reader, runtime, table, length) == PYR_OK) {
        status = pyr_layout_from_bytes(table, length, version, found, why, why_size);
    } else {
        status = refuse(PYR_EFAULT, why, why_size, "the interpreter's memory could not be read");
    }
    if (status == PYR_OK) {
        status = prove(reader, runtime, found, why, why_size);
    }
out:
    if (status != PYR_OK) {
        pyr_memory_free(found);
        return status;
    }
    *layout = found;
    return PYR_OK;
}

void pyr_layout_free(const pyr_layout *layout)
{
    pyr_memory_free((void *)(uintptr_t)layout);
}

uint32_t pyr_layout_version(const pyr_layout *layout)
{
    return layout->version;
}

const char *pyr_layout_field(const pyr_layout *layout, size_t index, uint32_t *offset)
{
    if (index >= FIELDS) {
        return NULL;
    }
    *offset = get(layout, index);
    return fields[index].name;
}

pyr_status pyr_layout_describe(const pyr_layout *layout, pyr_buffer *out)
{
    char text[VERSION_TEXT_BYTES];
    format_version(layout->version, text);
    (void)pyr_buffer_format(out, "layout of Python %s\n", text);
    for (size_t i = 0; i < FIELDS; i++) {
        uint32_t offset = get(layout, i);
        if (offset == PYR_FIELD_ABSENT) {
            (void)pyr_buffer_format(out, "%s -\n", fields[i].name);
        } else {
            (void)pyr_buffer_format(out, "%s %u\n", fields[i].name, offset);
        }
    }
    return out->status; /* sticky */
}
