/* The generated layouts, one a minor version; private to cpython/layout.c and its tests. */
#ifndef PYR_CPYTHON_LAYOUT_TABLES_H
#define PYR_CPYTHON_LAYOUT_TABLES_H

#include "cpython/layout_fields.h"

enum { PYR_LAYOUT_FIRST_MINOR = 11, PYR_LAYOUT_TABLES = 5 };

/* Only `minor` and the offsets are filled in; not gil_size and thread_size, which are derived. */
extern const pyr_layout pyr_layout_tables[PYR_LAYOUT_TABLES];

#endif
