/* The program's labels: the types behind pyrometer.labels, and where the sampler finds them. */
#ifndef PYR_NATIVE_LABELS_H
#define PYR_NATIVE_LABELS_H

#include <Python.h>

#include "cpython/context.h"

/* Makes the context variable and adds the types to the module. 0, or -1 with an error set. */
int pyr_labels_add(PyObject *module);

/* Where label sets are; borrowed for ever. */
const pyr_label_source *pyr_labels_source(void);

#endif
