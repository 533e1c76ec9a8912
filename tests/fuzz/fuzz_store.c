/* Fuzzes src/store's readers: whatever bytes a damaged store holds, reading them ends, and what is
 * accepted refers to nothing outside its book. The first byte says which of the three it is. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/block.h"
#include "store/book.h"
#include "store/detail.h"
#include "store/sums.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A book with some of everything, for blocks and details to refer to. */
static pyr_book *make_book(void)
{
    pyr_book *book = pyr_book_new(true);
    uint32_t number = 0;
    const pyr_book_pair types[2] = {{1, 2}, {3, 4}};
    for (char name[] = "a"; book != NULL && name[0] <= 'j'; name[0]++) {
        const pyr_book_function function = {1, 2, name[0]};
        if (pyr_book_string(book, name, 1, &number) != PYR_OK ||
            pyr_book_function_add(book, &function, &number) != PYR_OK) {
            abort();
        }
        const pyr_book_frame frame = {number, 7};
        uint32_t made = 0;
        if (pyr_book_frame_add(book, &frame, &made) != PYR_OK ||
            pyr_book_stack_add(book, made, made, &number) != PYR_OK) {
            abort();
        }
    }
    if (book == NULL || pyr_book_list_add(book, types, 2, &number) != PYR_OK) {
        abort();
    }
    return book;
}

static void check_book(const pyr_book *book)
{
    pyr_book_counts counts = pyr_book_count(book);
    for (uint32_t stack = 1; stack <= counts.nodes; stack++) {
        pyr_book_node node = pyr_book_node_at(book, stack);
        if (node.parent >= stack || node.frame >= counts.frames) {
            abort();
        }
    }
    for (uint32_t frame = 0; frame < counts.frames; frame++) {
        pyr_book_frame at = pyr_book_frame_at(book, frame);
        pyr_book_function function = {0};
        if (at.function >= counts.functions) {
            abort();
        }
        function = pyr_book_function_at(book, at.function);
        if (function.name >= counts.strings || function.file >= counts.strings) {
            abort();
        }
    }
}

static void check_block(pyr_block *block, const pyr_book *book, pyr_packer *packer)
{
    pyr_book_counts counts = pyr_book_count(book);
    const uint32_t *stacks = (const uint32_t *)(const void *)block->stacks.data;
    const uint32_t *lists = (const uint32_t *)(const void *)block->lists.data;
    for (size_t row = 0; row < block->count; row++) {
        if (stacks[row] > counts.nodes || lists[row] >= counts.lists) {
            abort();
        }
    }
    for (size_t type = 0; type < block->type_count; type++) {
        (void)!pyr_block_values(block, packer, type);
    }
}

/* What details belong to: a row for each of five stacks, with values of both types. */
static bool read_five_rows(pyr_block *block, const pyr_book *book, pyr_packer *packer)
{
    static const uint32_t order[] = {0, 1, 2, 3, 4};
    static pyr_buffer bytes; /* made once */
    if (bytes.length == 0) {
        pyr_sums sums;
        bool good = pyr_sums_init(&sums, 1, 2) == PYR_OK;
        for (uint32_t stack = 1; stack <= 5; stack++) {
            const int64_t values[] = {stack, stack % 2 == 0 ? -1000 * (int64_t)stack : 0};
            const double squares[] = {-1, 7};
            size_t row = 0;
            good = good && pyr_sums_add(&sums, stack, 0, values, squares, &row) == PYR_OK;
        }
        pyr_buffer_init(&bytes, 1 << 16);
        if (!good || pyr_block_write(&sums, order, packer, &bytes) != PYR_OK) {
            abort();
        }
        pyr_sums_fini(&sums);
    }
    return pyr_block_read(block, book, packer, bytes.data, bytes.length) == PYR_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    pyr_packer *packer = pyr_packer_new();
    pyr_book *book = data[0] % 3 == 0 ? pyr_book_new(false) : make_book();
    pyr_block block;
    pyr_detail detail;
    pyr_block_init(&block);
    pyr_detail_init(&detail);
    if (data[0] % 3 == 0) {
        if (pyr_book_read(book, packer, data + 1, size - 1) == PYR_OK) {
            check_book(book);
        }
    } else if (data[0] % 3 == 1) {
        int64_t total = 0;
        bool opens = pyr_block_open(&block, book, data + 1, size - 1) == PYR_OK;
        for (size_t type = 0; opens && type < block.type_count; type++) {
            (void)!pyr_block_total(&block, packer, type, &total);
        }
        if (pyr_block_read(&block, book, packer, data + 1, size - 1) == PYR_OK) {
            check_block(&block, book, packer);
        }
    } else if (read_five_rows(&block, book, packer) &&
               pyr_detail_read(&detail, book, &block, packer, data + 1, size - 1) == PYR_OK) {
        const uint32_t *rows = (const uint32_t *)(const void *)detail.rows.data;
        for (size_t at = 0; at < detail.count; at++) {
            if (rows[at] >= 5) {
                abort();
            }
        }
    }
    pyr_block_fini(&block);
    pyr_detail_fini(&detail);
    pyr_book_free(book);
    pyr_packer_free(packer);
    return 0;
}
