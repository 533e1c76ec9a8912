/* The flame graph page, built into the program. */
#ifndef PYR_CLI_PAGE_H
#define PYR_CLI_PAGE_H

#include <stddef.h>

/* The page up to the place of the profile, and from there on. Static storage, not ended by NUL.
 * *after is NULL when the page has no such place: the build is broken. */
void pyr_page_parts(const char **before, size_t *before_length, const char **after,
                    size_t *after_length);

#endif
