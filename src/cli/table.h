/* A text table: columns as wide as their widest cell on the screen. */
#ifndef PYR_CLI_TABLE_H
#define PYR_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/status.h"

typedef struct pyr_table pyr_table;

typedef struct pyr_table_column {
    const char *title;
    bool right; /* aligned to the right: numbers */
} pyr_table_column;

typedef enum pyr_table_style {
    PYR_TABLE_PLAIN,
    PYR_TABLE_DIM,
    PYR_TABLE_WORSE,  /* red */
    PYR_TABLE_BETTER, /* green */
} pyr_table_style;

/* A table with these columns (borrowed). NULL: no memory. */
pyr_table *pyr_table_new(const pyr_table_column *columns, size_t count);
void pyr_table_free(pyr_table *table);

/* Adds the next cell, row by row; the text is cleaned and copied. Errors stick until print. */
void pyr_table_add(pyr_table *table, const char *text, size_t length);
void pyr_table_add_text(pyr_table *table, const char *text);

/* Style of the row whose cells were added last. Seen on a terminal only. */
void pyr_table_style_row(pyr_table *table, pyr_table_style style);

/* Prints title line and rows. */
PYR_MUST_USE pyr_status pyr_table_print(const pyr_table *table, FILE *out);

#endif
