/* The queue of log lines; see the header.
 *
 * A ring of fixed lines and a small table of what was said lately, both guarded by one lock that is
 * held for a copy only. Formatting happens outside of it. Never allocates, never writes to a file:
 * the profiler has no business on the program's standard error.
 */
#include "base/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/utf8.h"

enum { RECENT_LINES = 32 };

static const int64_t REPEAT_AFTER_NS = INT64_C(60) * 1000000000;

typedef struct line {
    pyr_log_level level;
    char text[PYR_LOG_TEXT_BYTES];
} line;

/* What was said lately; `meaning` 0 = free. */
typedef struct recent {
    uint64_t meaning;
    int64_t said_ns;
    uint64_t repeats; /* of this meaning since it was said */
} recent;

static pyr_lock lock = PYR_LOCK_INIT(PYR_LOCK_LOG);
static line lines[PYR_LIMIT_LOG_LINES]; /* guarded by lock, as all below */
static size_t first_line, line_count;
static recent recents[RECENT_LINES];
static uint64_t dropped, dropped_told;

/* Hash of a text without its digits: "file 17" and "file 18" say the same. */
static uint64_t hash_meaning(const char *text)
{
    char letters[PYR_LOG_TEXT_BYTES];
    size_t length = 0;
    for (; *text; text++) {
        if (*text < '0' || *text > '9') {
            letters[length++] = *text;
        }
    }
    uint64_t hash = pyr_hash_bytes(letters, length, 0);
    return hash ? hash : 1;
}

/* The row of `meaning`, else the one said longest ago, made free. */
static recent *find_recent(uint64_t meaning)
{
    recent *oldest = &recents[0];
    for (size_t i = 0; i < RECENT_LINES; i++) {
        if (recents[i].meaning == meaning) {
            return &recents[i];
        }
        if (recents[i].said_ns < oldest->said_ns) {
            oldest = &recents[i];
        }
    }
    *oldest = (recent){0};
    return oldest;
}

/* Under the lock; `repeats`: how often it was said since it was queued. False: no room. */
static bool queue(pyr_log_level level, const char *text, uint64_t repeats)
{
    if (line_count == PYR_LIMIT_LOG_LINES) {
        dropped++;
        return false;
    }
    line *next = &lines[(first_line + line_count++) % PYR_LIMIT_LOG_LINES];
    next->level = level;
    if (repeats > 0) {
        snprintf(next->text, sizeof next->text, "(%" PRIu64 " times more) %.*s", repeats,
                 PYR_LOG_TEXT_BYTES - 40, text);
    } else {
        snprintf(next->text, sizeof next->text, "%s", text);
    }
    return true;
}

void pyr_log_add(pyr_log_level level, const char *format, ...)
{
    char raw[PYR_LOG_TEXT_BYTES];
    char text[PYR_LOG_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int formatted = vsnprintf(raw, sizeof raw, format, arguments);
    va_end(arguments);
    if (formatted < 0) {
        return;
    }
    pyr_utf8_repair(raw, strlen(raw), text, sizeof text);
    uint64_t meaning = hash_meaning(text);
    int64_t now_ns = pyr_clock_monotonic_ns();

    pyr_lock_acquire(&lock);
    recent *said = find_recent(meaning);
    if (said->meaning == meaning && now_ns - said->said_ns < REPEAT_AFTER_NS) {
        said->repeats++;
    } else if (queue(level, text, said->repeats)) {
        *said = (recent){.meaning = meaning, .said_ns = now_ns};
    }
    pyr_lock_release(&lock);
}

void pyr_log_add_anyway(pyr_log_level level, const char *line_text)
{
    char text[PYR_LOG_TEXT_BYTES];
    pyr_utf8_repair(line_text, strlen(line_text), text, sizeof text);
    pyr_lock_acquire(&lock);
    (void)queue(level, text, 0);
    pyr_lock_release(&lock);
}

int pyr_log_take(pyr_log_level *level, char *text, size_t size)
{
    line taken = {.text = ""};
    int found = 1;
    pyr_lock_acquire(&lock);
    if (line_count > 0) {
        taken = lines[first_line];
        first_line = (first_line + 1) % PYR_LIMIT_LOG_LINES;
        line_count--;
    } else if (dropped > dropped_told) {
        taken.level = PYR_LOG_WARNING;
        snprintf(taken.text, sizeof taken.text,
                 "%" PRIu64 " log lines were dropped because too many waited",
                 dropped - dropped_told);
        dropped_told = dropped;
    } else {
        found = 0;
    }
    pyr_lock_release(&lock);
    if (found) {
        *level = taken.level;
        pyr_utf8_repair(taken.text, strlen(taken.text), text, size);
    }
    return found;
}

size_t pyr_log_waiting(void)
{
    pyr_lock_acquire(&lock);
    size_t count = line_count;
    pyr_lock_release(&lock);
    return count;
}

uint64_t pyr_log_dropped(void)
{
    pyr_lock_acquire(&lock);
    uint64_t count = dropped;
    pyr_lock_release(&lock);
    return count;
}

void pyr_log_fork_child(void)
{
    pyr_lock_fork_child(&lock);
    first_line = line_count = 0;
    dropped = dropped_told = 0;
    memset(recents, 0, sizeof recents);
}
