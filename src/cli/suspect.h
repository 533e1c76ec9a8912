/* Another process as /proc shows it, for who asks why it has no profile. */
#ifndef PYR_CLI_SUSPECT_H
#define PYR_CLI_SUSPECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { PYR_LIMIT_SUSPECT_VARIABLES = 2048 };

typedef struct pyr_suspect {
    char *environment[PYR_LIMIT_SUSPECT_VARIABLES + 1]; /* at its start, ended by NULL */
    char *environment_text;                             /* owned; what those point into */
    char executable[256];
    char folder[64];      /* its working folder, by a name below /proc */
    char others[256];     /* other profilers whose code is mapped: "ddtrace, memray" */
    bool has_core;        /* our extension is mapped */
    bool is_running;      /* our threads are there */
    bool seccomp_filters; /* a filter of system calls is on */
} pyr_suspect;

/* Reads all of it, in storage of any content. On failure errno says why. */
PYR_MUST_USE pyr_status pyr_suspect_open(pyr_suspect *suspect, int64_t pid);

/* One that was never opened, all zero, is fine. */
void pyr_suspect_close(pyr_suspect *suspect);

#endif
