/* Self and total of each function, line, file or package of what was gathered; and what of a
 * difference between two of them is more than noise (docs/design/0002-differences.md). */
#ifndef PYR_QUERY_COSTS_H
#define PYR_QUERY_COSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "query/gather.h"

typedef enum pyr_cost_group {
    PYR_COST_FUNCTION, /* name and file */
    PYR_COST_LINE,
    PYR_COST_FILE,
    PYR_COST_PACKAGE,
} pyr_cost_group;

typedef struct pyr_cost {
    const char *name, *file; /* borrowed from the profile, or static; not ended by NUL */
    size_t name_length, file_length;
    int64_t line;
    int64_t self, total;
    double self_square, total_square; /* variances; negative = unknown */
} pyr_cost;

typedef struct pyr_cost_table {
    pyr_cost *list; /* largest total first, or self */
    size_t count;
    int64_t whole;
    double whole_square;
} pyr_cost_table;

/* Adds up type number `type` of the profile. PYR_ENOMEM. */
PYR_MUST_USE pyr_status pyr_cost_table_init(pyr_cost_table *table, const pyr_gathered *gathered,
                                            size_t type, pyr_cost_group group);
void pyr_cost_table_fini(pyr_cost_table *table);
void pyr_cost_table_sort(pyr_cost_table *table, bool by_self);

typedef struct pyr_change { /* in units a second of one process, or plain where not known */
    double before, after, change, margin, doubt; /* margin, doubt: NAN = unknown */
    bool is_significant;                         /* after Benjamini and Hochberg's correction */
} pyr_change;

typedef struct pyr_comparison_row {
    const pyr_cost *before, *after; /* NULL: not there */
    pyr_change self, total;
} pyr_comparison_row;

typedef struct pyr_comparison {
    pyr_comparison_row *list; /* largest change of total first */
    size_t count;
    pyr_change whole;
} pyr_comparison;

/* Compares tables, which must stay. `before_seconds`, `after_seconds`: what values are divided by.
 */
PYR_MUST_USE pyr_status pyr_comparison_init(pyr_comparison *comparison,
                                            const pyr_cost_table *before, double before_seconds,
                                            const pyr_cost_table *after, double after_seconds);
void pyr_comparison_fini(pyr_comparison *comparison);

#endif
