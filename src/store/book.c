/* Symbols and stacks of a service's day; see the header.
 *
 * Owns five tables, all of which give equal things one number. Four are interned bytes; the nodes
 * of the stack tree, the only table that a query walks, are a plain array with a map beside it that
 * only writers have. A chunk is the new part of each table in turn, in one compressed section, with
 * references as differences where neighbours are near.
 */
#include "store/book.h"

#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "pprof/intern.h"

enum { CHUNK_FORMAT = 1 };

struct pyr_book {
    pyr_intern *strings, *functions, *frames, *lists;
    pyr_buffer nodes; /* pyr_book_node */
    pyr_map *by_node; /* parent and frame -> number; NULL for readers */
    size_t text_bytes;
};

pyr_book *pyr_book_new(bool writes)
{
    pyr_book *book = pyr_memory_new(1, sizeof *book);
    if (book == NULL) {
        return NULL;
    }
    book->strings = pyr_intern_new(PYR_BOOK_STRINGS, PYR_BOOK_STRING_BYTES);
    book->functions =
        pyr_intern_new(PYR_BOOK_FUNCTIONS, PYR_BOOK_FUNCTIONS * sizeof(pyr_book_function));
    book->frames = pyr_intern_new(PYR_BOOK_FRAMES, PYR_BOOK_FRAMES * sizeof(pyr_book_frame));
    book->lists = pyr_intern_new(PYR_BOOK_LISTS, PYR_BOOK_LIST_BYTES);
    pyr_buffer_init(&book->nodes, PYR_BOOK_NODES * sizeof(pyr_book_node));
    book->by_node = writes ? pyr_map_new(PYR_BOOK_NODES) : NULL;
    uint32_t first = 0;
    if (book->strings == NULL || book->functions == NULL || book->frames == NULL ||
        book->lists == NULL || (writes && book->by_node == NULL) ||
        pyr_book_string(book, "", 0, &first) != PYR_OK ||
        pyr_book_list_add(book, NULL, 0, &first) != PYR_OK) {
        pyr_book_free(book);
        return NULL;
    }
    return book;
}

void pyr_book_free(pyr_book *book)
{
    if (book != NULL) {
        pyr_intern_free(book->strings);
        pyr_intern_free(book->functions);
        pyr_intern_free(book->frames);
        pyr_intern_free(book->lists);
        pyr_buffer_fini(&book->nodes);
        pyr_map_free(book->by_node);
        pyr_memory_free(book);
    }
}

static pyr_status add(pyr_intern *intern, const void *bytes, size_t length, uint32_t *number)
{
    uint64_t index = 0;
    pyr_status status = pyr_intern_add(intern, bytes, length, &index);
    *number = (uint32_t)index;
    return status;
}

pyr_status pyr_book_string(pyr_book *book, const char *text, size_t length, uint32_t *number)
{
    size_t before = pyr_intern_count(book->strings);
    pyr_status status = add(book->strings, text, length, number);
    book->text_bytes += status == PYR_OK && *number == before ? length : 0;
    return status;
}

pyr_status pyr_book_function_add(pyr_book *book, const pyr_book_function *function,
                                 uint32_t *number)
{
    return add(book->functions, function, sizeof *function, number);
}

pyr_status pyr_book_frame_add(pyr_book *book, const pyr_book_frame *frame, uint32_t *number)
{
    return add(book->frames, frame, sizeof *frame, number);
}

pyr_status pyr_book_list_add(pyr_book *book, const pyr_book_pair *pairs, size_t count,
                             uint32_t *number)
{
    static const pyr_book_pair none;
    if (count > PYR_BOOK_LIST_PAIRS) {
        return PYR_EINVAL;
    }
    return add(book->lists, count > 0 ? pairs : &none, count * sizeof *pairs, number);
}

static pyr_status append_node(pyr_book *book, uint32_t parent, uint32_t frame, uint32_t *number)
{
    const pyr_book_node node = {parent, frame};
    if (book->nodes.length >= PYR_BOOK_NODES * sizeof node) {
        return PYR_ETOOBIG;
    }
    pyr_status status = pyr_buffer_append(&book->nodes, &node, sizeof node);
    *number = (uint32_t)(book->nodes.length / sizeof node);
    if (status == PYR_OK && book->by_node != NULL) {
        status = pyr_map_put(book->by_node, (uint64_t)parent << 32 | frame, *number);
        if (status != PYR_OK) {
            book->nodes.length -= sizeof node;
        }
    }
    return status;
}

pyr_status pyr_book_stack_add(pyr_book *book, uint32_t parent, uint32_t frame, uint32_t *number)
{
    uint64_t known = 0;
    if (pyr_map_get(book->by_node, (uint64_t)parent << 32 | frame, &known)) {
        *number = (uint32_t)known;
        return PYR_OK;
    }
    return append_node(book, parent, frame, number);
}

const char *pyr_book_text(const pyr_book *book, uint32_t number, size_t *length)
{
    return pyr_intern_get(book->strings, number, length);
}

pyr_book_function pyr_book_function_at(const pyr_book *book, uint32_t number)
{
    pyr_book_function function;
    size_t length = 0;
    memcpy(&function, pyr_intern_get(book->functions, number, &length), sizeof function);
    return function;
}

pyr_book_frame pyr_book_frame_at(const pyr_book *book, uint32_t number)
{
    pyr_book_frame frame;
    size_t length = 0;
    memcpy(&frame, pyr_intern_get(book->frames, number, &length), sizeof frame);
    return frame;
}

pyr_book_node pyr_book_node_at(const pyr_book *book, uint32_t stack)
{
    pyr_book_node node;
    memcpy(&node, book->nodes.data + (stack - 1) * sizeof node, sizeof node);
    return node;
}

size_t pyr_book_list_at(const pyr_book *book, uint32_t number,
                        pyr_book_pair pairs[PYR_BOOK_LIST_PAIRS])
{
    size_t length = 0;
    const void *bytes = pyr_intern_get(book->lists, number, &length);
    memcpy(pairs, bytes, length);
    return length / sizeof *pairs;
}

pyr_book_counts pyr_book_count(const pyr_book *book)
{
    return (pyr_book_counts){
        .strings = pyr_intern_count(book->strings),
        .functions = pyr_intern_count(book->functions),
        .frames = pyr_intern_count(book->frames),
        .nodes = book->nodes.length / sizeof(pyr_book_node),
        .lists = pyr_intern_count(book->lists),
    };
}

size_t pyr_book_bytes(const pyr_book *book)
{
    pyr_book_counts counts = pyr_book_count(book);
    size_t index = book->by_node != NULL ? 64 : 8; /* bytes of the map and the array */
    return sizeof *book + 2 * book->text_bytes + 64 * counts.strings + 80 * counts.functions +
           64 * counts.frames + index * counts.nodes + 128 * counts.lists;
}

/* ------------------------------------------------------------------------------- chunks ---- */

static void write_strings(const pyr_book *book, size_t from, size_t to, pyr_buffer *out)
{
    for (size_t number = from; number < to; number++) {
        size_t length = 0;
        const char *text = pyr_book_text(book, (uint32_t)number, &length);
        pyr_wire_append_varint(out, length);
        (void)pyr_buffer_append(out, text, length);
    }
}

static void write_symbols(const pyr_book *book, pyr_book_counts from, pyr_book_counts to,
                          pyr_buffer *out)
{
    uint32_t file = 0;
    for (size_t number = from.functions; number < to.functions; number++) {
        pyr_book_function function = pyr_book_function_at(book, (uint32_t)number);
        pyr_wire_append_varint(out, function.name);
        pyr_pack_signed(out, (int64_t)function.file - file);
        pyr_pack_signed(out, function.start_line);
        file = function.file;
    }
    uint32_t before = 0;
    for (size_t number = from.frames; number < to.frames; number++) {
        pyr_book_frame frame = pyr_book_frame_at(book, (uint32_t)number);
        pyr_pack_signed(out, (int64_t)frame.function - before);
        pyr_wire_append_varint(out, frame.line);
        before = frame.function;
    }
}

static void write_trees(const pyr_book *book, pyr_book_counts from, pyr_book_counts to,
                        pyr_buffer *out)
{
    uint32_t frame = 0;
    for (size_t number = from.nodes; number < to.nodes; number++) {
        /* Most nodes stand below the one before, which is stack `number`. */
        pyr_book_node node = pyr_book_node_at(book, (uint32_t)number + 1);
        pyr_wire_append_varint(out, number - node.parent);
        pyr_pack_signed(out, (int64_t)node.frame - frame);
        frame = node.frame;
    }
    for (size_t number = from.lists; number < to.lists; number++) {
        pyr_book_pair pairs[PYR_BOOK_LIST_PAIRS];
        size_t count = pyr_book_list_at(book, (uint32_t)number, pairs);
        pyr_wire_append_varint(out, count);
        for (size_t at = 0; at < count; at++) {
            pyr_wire_append_varint(out, pairs[at].key);
            pyr_wire_append_varint(out, pairs[at].value);
        }
    }
}

pyr_status pyr_book_write(const pyr_book *book, pyr_book_counts from, pyr_packer *packer,
                          pyr_buffer *out)
{
    pyr_book_counts to = pyr_book_count(book);
    pyr_buffer plain;
    pyr_buffer_init(&plain, PYR_PACK_SECTION_BYTES - 1);
    pyr_wire_append_varint(&plain, CHUNK_FORMAT);
    pyr_wire_append_varint(&plain, to.strings - from.strings);
    pyr_wire_append_varint(&plain, to.functions - from.functions);
    pyr_wire_append_varint(&plain, to.frames - from.frames);
    pyr_wire_append_varint(&plain, to.nodes - from.nodes);
    pyr_wire_append_varint(&plain, to.lists - from.lists);
    write_strings(book, from.strings, to.strings, &plain);
    write_symbols(book, from, to, &plain);
    write_trees(book, from, to, &plain);
    if (plain.status == PYR_OK) {
        pyr_pack_section(packer, plain.data, plain.length, out);
    }
    pyr_status status = plain.status != PYR_OK ? plain.status : out->status;
    pyr_buffer_fini(&plain);
    return status;
}

/* A thing of a chunk must be new: else a number would be left out. */
static pyr_status expect(pyr_status status, uint32_t number, size_t expected)
{
    return status == PYR_OK && number != expected ? PYR_EBAD : status;
}

static pyr_status read_strings(pyr_book *book, pyr_wire_reader *reader, uint64_t count)
{
    pyr_status status = PYR_OK;
    for (uint64_t left = count; left > 0 && status == PYR_OK; left--) {
        uint64_t length = 0;
        uint32_t number = 0;
        size_t expected = pyr_intern_count(book->strings);
        status = pyr_pack_read_below(reader, (uint64_t)(reader->end - reader->at) + 1, &length);
        if (status == PYR_OK && length > (uint64_t)(reader->end - reader->at)) {
            status = PYR_EPARTIAL;
        }
        if (status == PYR_OK) {
            status = pyr_book_string(book, (const char *)reader->at, (size_t)length, &number);
            reader->at += length;
            status = expect(status, number, expected);
        }
    }
    return status;
}

static pyr_status read_functions(pyr_book *book, pyr_wire_reader *reader, uint64_t count)
{
    size_t strings = pyr_intern_count(book->strings);
    int64_t file = 0;
    pyr_status status = PYR_OK;
    for (uint64_t left = count; left > 0 && status == PYR_OK; left--) {
        uint64_t name = 0;
        int64_t step = 0;
        int64_t line = 0;
        uint32_t number = 0;
        size_t expected = pyr_intern_count(book->functions);
        status = pyr_pack_read_below(reader, strings, &name);
        if (status == PYR_OK) {
            status = pyr_pack_read_signed(reader, &step);
        }
        if (status == PYR_OK) {
            status = pyr_pack_read_signed(reader, &line);
        }
        if (status != PYR_OK) {
            return status;
        }
        if (step < -file || step >= (int64_t)strings - file) {
            return PYR_EBAD;
        }
        file += step;
        const pyr_book_function function = {(uint32_t)name, (uint32_t)file, line};
        status = pyr_book_function_add(book, &function, &number);
        status = expect(status, number, expected);
    }
    return status;
}

static pyr_status read_frames(pyr_book *book, pyr_wire_reader *reader, uint64_t count)
{
    size_t functions = pyr_intern_count(book->functions);
    int64_t function = 0;
    pyr_status status = PYR_OK;
    for (uint64_t left = count; left > 0 && status == PYR_OK; left--) {
        int64_t step = 0;
        uint64_t line = 0;
        uint32_t number = 0;
        size_t expected = pyr_intern_count(book->frames);
        status = pyr_pack_read_signed(reader, &step);
        if (status == PYR_OK) {
            status = pyr_pack_read_below(reader, (uint64_t)UINT32_MAX + 1, &line);
        }
        if (status != PYR_OK) {
            return status;
        }
        if (step < -function || step >= (int64_t)functions - function) {
            return PYR_EBAD;
        }
        function += step;
        const pyr_book_frame frame = {(uint32_t)function, (uint32_t)line};
        status = pyr_book_frame_add(book, &frame, &number);
        status = expect(status, number, expected);
    }
    return status;
}

static pyr_status read_nodes(pyr_book *book, pyr_wire_reader *reader, uint64_t count)
{
    size_t frames = pyr_intern_count(book->frames);
    int64_t frame = 0;
    pyr_status status = PYR_OK;
    for (uint64_t left = count; left > 0 && status == PYR_OK; left--) {
        size_t above = book->nodes.length / sizeof(pyr_book_node);
        uint64_t back = 0;
        int64_t step = 0;
        uint32_t number = 0;
        status = pyr_pack_read_below(reader, above + 1, &back);
        if (status == PYR_OK) {
            status = pyr_pack_read_signed(reader, &step);
        }
        if (status != PYR_OK) {
            return status;
        }
        if (step < -frame || step >= (int64_t)frames - frame) {
            return PYR_EBAD;
        }
        frame += step;
        status = append_node(book, (uint32_t)(above - back), (uint32_t)frame, &number);
    }
    return status;
}

static pyr_status read_lists(pyr_book *book, pyr_wire_reader *reader, uint64_t count)
{
    size_t strings = pyr_intern_count(book->strings);
    pyr_status status = PYR_OK;
    for (uint64_t left = count; left > 0 && status == PYR_OK; left--) {
        pyr_book_pair pairs[PYR_BOOK_LIST_PAIRS];
        uint64_t length = 0;
        uint32_t number = 0;
        size_t expected = pyr_intern_count(book->lists);
        status = pyr_pack_read_below(reader, PYR_BOOK_LIST_PAIRS + 1, &length);
        for (uint64_t at = 0; at < length && status == PYR_OK; at++) {
            uint64_t key = 0;
            uint64_t value = 0;
            status = pyr_pack_read_below(reader, strings, &key);
            if (status == PYR_OK) {
                status = pyr_pack_read_below(reader, strings, &value);
            }
            pairs[at] = (pyr_book_pair){(uint32_t)key, (uint32_t)value};
        }
        if (status == PYR_OK) {
            status = pyr_book_list_add(book, pairs, (size_t)length, &number);
            status = expect(status, number, expected);
        }
    }
    return status;
}

pyr_status pyr_book_read(pyr_book *book, pyr_packer *packer, const void *bytes, size_t length)
{
    pyr_wire_reader outer = {bytes, (const uint8_t *)bytes + length};
    pyr_buffer plain;
    pyr_buffer_init(&plain, PYR_PACK_SECTION_BYTES);
    pyr_status status = pyr_pack_read(packer, &outer, &plain);
    pyr_wire_reader reader = {plain.data, plain.data + plain.length};
    uint64_t numbers[6] = {0};
    for (size_t at = 0; at < 6 && status == PYR_OK; at++) {
        status = pyr_wire_varint(&reader, &numbers[at]);
    }
    if (status == PYR_OK && numbers[0] != CHUNK_FORMAT) {
        status = PYR_EBAD;
    }
    if (status == PYR_OK) {
        status = read_strings(book, &reader, numbers[1]);
    }
    if (status == PYR_OK) {
        status = read_functions(book, &reader, numbers[2]);
    }
    if (status == PYR_OK) {
        status = read_frames(book, &reader, numbers[3]);
    }
    if (status == PYR_OK) {
        status = read_nodes(book, &reader, numbers[4]);
    }
    if (status == PYR_OK) {
        status = read_lists(book, &reader, numbers[5]);
    }
    pyr_buffer_fini(&plain);
    /* Too many things, or the end of the bytes in the middle: no chunk of ours is so. */
    return status == PYR_OK || status == PYR_ENOMEM ? status : PYR_EBAD;
}
