/* Text tables.
 *
 * Owns copies of all cells, in one buffer. One thread. Column widths count screen columns, not
 * bytes, so names in any script line up. The last column is never padded.
 */
#include "cli/table.h"

#include <stdint.h>
#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "cli/display.h"

enum { TABLE_BYTES_MAXIMUM = 1 << 28, COLUMN_GAP = 2 };

typedef struct cell {
    size_t start, length, width;
} cell;

struct pyr_table {
    const pyr_table_column *columns;
    size_t column_count;
    size_t *widths;
    pyr_buffer text;
    pyr_buffer cells;  /* of cell */
    pyr_buffer styles; /* one byte a row */
};

pyr_table *pyr_table_new(const pyr_table_column *columns, size_t count)
{
    pyr_table *table = pyr_memory_new(1, sizeof *table);
    if (table == NULL) {
        return NULL;
    }
    table->columns = columns;
    table->column_count = count;
    table->widths = pyr_memory_new(count, sizeof *table->widths);
    pyr_buffer_init(&table->text, TABLE_BYTES_MAXIMUM);
    pyr_buffer_init(&table->cells, TABLE_BYTES_MAXIMUM);
    pyr_buffer_init(&table->styles, TABLE_BYTES_MAXIMUM);
    if (table->widths == NULL) {
        pyr_table_free(table);
        return NULL;
    }
    for (size_t column = 0; column < count; column++) {
        table->widths[column] =
            pyr_display_width(columns[column].title, strlen(columns[column].title));
    }
    return table;
}

void pyr_table_free(pyr_table *table)
{
    if (table != NULL) {
        pyr_memory_free(table->widths);
        pyr_buffer_fini(&table->text);
        pyr_buffer_fini(&table->cells);
        pyr_buffer_fini(&table->styles);
        pyr_memory_free(table);
    }
}

static size_t cell_count(const pyr_table *table)
{
    return table->cells.length / sizeof(cell);
}

void pyr_table_add(pyr_table *table, const char *text, size_t length)
{
    size_t column = cell_count(table) % table->column_count;
    if (column == 0) {
        pyr_buffer_append(&table->styles, &(uint8_t){PYR_TABLE_PLAIN}, 1);
    }
    cell added = {.start = table->text.length};
    added.width = pyr_display_clean(&table->text, text, length);
    added.length = table->text.length - added.start;
    pyr_buffer_append(&table->cells, &added, sizeof added);
    if (added.width > table->widths[column]) {
        table->widths[column] = added.width;
    }
}

void pyr_table_add_text(pyr_table *table, const char *text)
{
    pyr_table_add(table, text, strlen(text));
}

void pyr_table_style_row(pyr_table *table, pyr_table_style style)
{
    if (table->styles.length > 0) {
        table->styles.data[table->styles.length - 1] = (uint8_t)style;
    }
}

/* Prints a cell after `*pending` spaces, and leaves those behind it pending: no line ends in
 * spaces. */
static void print_cell(const pyr_table *table, size_t column, const char *text, size_t length,
                       size_t width, int *pending, FILE *out)
{
    int padding = (int)(table->widths[column] - width);
    bool right = table->columns[column].right;
    if (length > 0) {
        fprintf(out, "%*s", *pending + (right ? padding : 0), "");
        fwrite(text, 1, length, out);
        *pending = 0;
    }
    *pending += COLUMN_GAP + (right && length > 0 ? 0 : padding);
}

pyr_status pyr_table_print(const pyr_table *table, FILE *out)
{
    static const char *const START[] = {"", "\033[2m", "\033[31m", "\033[32m"};
    if (table->text.status != PYR_OK || table->cells.status != PYR_OK ||
        table->styles.status != PYR_OK) {
        return PYR_ENOMEM;
    }
    bool colour = pyr_display_colour(fileno(out));
    int pending = 0;
    fputs(colour ? "\033[1m" : "", out);
    for (size_t column = 0; column < table->column_count; column++) {
        const char *title = table->columns[column].title;
        size_t length = strlen(title);
        print_cell(table, column, title, length, pyr_display_width(title, length), &pending, out);
    }
    fprintf(out, "%s\n", colour ? "\033[0m" : "");
    for (size_t row = 0; row < table->styles.length; row++) {
        const char *start = colour ? START[table->styles.data[row]] : "";
        pending = 0;
        fputs(start, out);
        for (size_t column = 0; column < table->column_count; column++) {
            cell shown;
            memcpy(&shown, table->cells.data + (row * table->column_count + column) * sizeof shown,
                   sizeof shown);
            print_cell(table, column, (const char *)table->text.data + shown.start, shown.length,
                       shown.width, &pending, out);
        }
        fprintf(out, "%s\n", start[0] != '\0' ? "\033[0m" : "");
    }
    return PYR_OK;
}
