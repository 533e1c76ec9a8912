/* A file that a command writes, or standard output. */
#ifndef PYR_CLI_OUTPUT_H
#define PYR_CLI_OUTPUT_H

#include <stdio.h>

typedef struct pyr_output {
    FILE *file;
    const char *path; /* NULL = standard output */
} pyr_output;

/* Opens `path` for writing; "-" or NULL is standard output. Returns PYR_EXIT_GOOD, or
 * PYR_EXIT_WRONG after one line about what is wrong. */
int pyr_output_open(pyr_output *output, const char *path);

/* Flushes and closes. A file that could not be written whole is removed. Returns `code`, or
 * PYR_EXIT_WRONG after one line about what is wrong. */
int pyr_output_close(pyr_output *output, int code);

#endif
