/* The name that was probably meant by a misspelled one. Pure, any thread, not hook safe. */
#ifndef PYR_BASE_NEAREST_H
#define PYR_BASE_NEAREST_H

#include <stddef.h>

/* The name nearest to `word` of those that are near enough to have been meant, or NULL. `name_at`
 * gives the names by index; a NULL name is passed over. */
const char *pyr_nearest(const char *word, size_t count,
                        const char *(*name_at)(const void *names, size_t index), const void *names);

#endif
