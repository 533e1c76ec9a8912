/* Messages on standard error.
 *
 * Owns the state of the one progress line. Called from the program's only thread. Never writes to
 * standard output, which belongs to results.
 */
#include "cli/message.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

enum { MESSAGE_BYTES = 8192, PROGRESS_AFTER_NS = 1000000000, PROGRESS_EVERY_NS = 200000000 };

static int64_t progress_next_ns;
static bool progress_shown;

void pyr_message_progress_end(void)
{
    if (progress_shown) {
        fputs("\r\033[K", stderr);
        progress_shown = false;
    }
}

/* Names in messages come from files and file names: a control character must not reach a
 * terminal. Bytes of UTF-8 above 0x7f pass. */
static void print_line(const char *format, va_list values)
{
    char text[MESSAGE_BYTES];
    int length = vsnprintf(text, sizeof text, format, values);
    if (length < 0) {
        return;
    }
    for (char *at = text; *at != '\0'; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7f) {
            *at = '?';
        }
    }
    pyr_message_progress_end();
    fprintf(stderr, "pyrometer: %s\n", text);
}

int pyr_message_wrong(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    print_line(format, values);
    va_end(values);
    return PYR_EXIT_WRONG;
}

void pyr_message_note(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    print_line(format, values);
    va_end(values);
}

int pyr_message_no_memory(void)
{
    return pyr_message_wrong("out of memory; try fewer or smaller profiles at a time");
}

void pyr_message_progress_start(void)
{
    progress_next_ns = pyr_clock_monotonic_ns() + PROGRESS_AFTER_NS;
}

void pyr_message_progress(const char *what, unsigned long done, unsigned long all)
{
    int64_t now = pyr_clock_monotonic_ns();
    if (now < progress_next_ns || isatty(STDERR_FILENO) != 1) {
        return;
    }
    progress_next_ns = now + PROGRESS_EVERY_NS;
    progress_shown = true;
    fprintf(stderr, "\r\033[K%s %lu of %lu", what, done, all);
    fflush(stderr);
}

void pyr_message_working(const char *what)
{
    if (isatty(STDERR_FILENO) == 1) {
        progress_shown = true;
        fprintf(stderr, "\r\033[K%s", what);
        fflush(stderr);
    }
}
