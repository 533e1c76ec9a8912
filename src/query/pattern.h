/* A regular expression that a user wrote: in a command's option, or in a question to the server.
 *
 * PCRE2's syntax (pcre2pattern(3)). What it costs is bounded, so that a pattern from the network
 * cannot take the server's time or memory: compiling by PCRE2's own limit of a pattern's compiled
 * size, matching by MATCH_STEPS and MATCH_HEAP_KIB a text. A pattern that reached a limit once
 * matches nothing from then on and says so (pyr_pattern_gave_up): its answer would not be true.
 * One thread at a time.
 */
#ifndef PYR_QUERY_PATTERN_H
#define PYR_QUERY_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct pyr_pattern pyr_pattern;

/* Compiles `text`; it matches anywhere in a text, or where `whole`, whole texts only. PYR_EINVAL
 * with `why` where it is no pattern; PYR_ENOMEM. Freed by pyr_pattern_free. */
PYR_MUST_USE pyr_status pyr_pattern_new(const char *text, bool whole, pyr_pattern **pattern,
                                        char *why, size_t why_size);
void pyr_pattern_free(pyr_pattern *pattern);

/* Whether it matches. Bytes that are no UTF-8 match nothing but do no harm. */
bool pyr_pattern_matches(pyr_pattern *pattern, const char *text, size_t length);

/* Whether matching reached a limit. */
bool pyr_pattern_gave_up(const pyr_pattern *pattern);

#endif
