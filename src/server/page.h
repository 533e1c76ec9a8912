/* What a browser is given (ui/dist), built into the program: the page, and the one script that it
 * loads when its call graph is looked at. */
#ifndef PYR_SERVER_PAGE_H
#define PYR_SERVER_PAGE_H

#include <stddef.h>

/* Static storage, not ended by NUL. */
const void *pyr_page_bytes(size_t *length);
const void *pyr_page_graphviz(size_t *length);

/* The page's Content-Security-Policy. The page's own, in its head, is stricter: it names its script
 * and style by their hashes. 'self' and WebAssembly are for the script above: what else is served
 * from here is no script, and says so. Static storage. */
const char *pyr_page_policy(void);

#endif
