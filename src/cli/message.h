/* What the program says on standard error: one line a message, prefixed "pyrometer: ". */
#ifndef PYR_CLI_MESSAGE_H
#define PYR_CLI_MESSAGE_H

#include <stdbool.h>

/* Exit codes of every subcommand. */
enum {
    PYR_EXIT_GOOD = 0,
    PYR_EXIT_FINDING = 1, /* diff --fail-on or doctor found something */
    PYR_EXIT_WRONG = 2,   /* wrong use, or input or output that failed */
};

/* Prints what happened and what to do, and returns PYR_EXIT_WRONG, so that a caller can
 * `return pyr_message_wrong(...)`. Control characters of quoted names are made visible. */
int pyr_message_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints something worth knowing that is no failure. */
void pyr_message_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "out of memory" as pyr_message_wrong. */
int pyr_message_no_memory(void);

/* Shows how far a long work is, on a terminal only and not before one second has passed since
 * pyr_message_progress_start; pyr_message_progress_end wipes the line. */
void pyr_message_progress_start(void);
void pyr_message_progress(const char *what, unsigned long done, unsigned long all);
void pyr_message_progress_end(void);

/* Shows at once, on a terminal only, what will take long; wiped like progress. */
void pyr_message_working(const char *what);

#endif
