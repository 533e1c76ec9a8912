/* The settings that apply here, or to another process, as the profiler would read them, and what is
 * wrong with them. */
#ifndef PYR_CLI_APPLIED_H
#define PYR_CLI_APPLIED_H

#include <stdbool.h>
#include <stddef.h>

#include "session/settings.h"

enum { PYR_LIMIT_PROBLEMS = 32, PYR_LIMIT_PROBLEM_BYTES = 512 };

typedef struct pyr_applied {
    pyr_settings settings;
    char problems[PYR_LIMIT_PROBLEMS][PYR_LIMIT_PROBLEM_BYTES]; /* more are left out */
    size_t problem_count;
    /* What only Python can know; all "" when the program was not started through its entry. */
    bool has_entry;
    char python[64];  /* "3.13.0" */
    char core[256];   /* why the core does not load in that Python */
    char others[256]; /* other profilers that it has installed: "ddtrace 4.16.0, ..." */
} pyr_applied;

/* Reads them from `environment`, in storage of any content. Of the file (CONFIG_FILE) and of Python
 * the package's entry tells in the variable PYROMETER_ENTRY of our own environment. */
void pyr_applied_read(pyr_applied *applied, char *const *environment);
void pyr_applied_fini(pyr_applied *applied);

/* Where the value comes from: a variable, "config file", "default". */
const char *pyr_applied_source(const pyr_applied *applied, pyr_setting_id id);

#endif
