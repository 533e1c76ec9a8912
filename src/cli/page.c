/* The flame graph page (ui/dist/flamegraph.html), put into the program by the assembler.
 *
 * Owns read-only bytes. PYR_PAGE_FILE, its path, comes from the build, which also rebuilds this
 * file when the page changes. The page has a marker where the profile goes.
 */
#include "cli/page.h"

#include <string.h>

__asm__(".section .rodata\n"
        ".local page_start\n"
        ".local page_end\n"
        "page_start:\n"
        ".incbin \"" PYR_PAGE_FILE "\"\n"
        "page_end:\n"
        ".byte 0\n"
        ".previous\n");

extern const char page_start[] __attribute__((visibility("hidden")));
extern const char page_end[] __attribute__((visibility("hidden")));

void pyr_page_parts(const char **before, size_t *before_length, const char **after,
                    size_t *after_length)
{
    static const char MARKER[] = "/*PROFILE*/null";
    size_t length = (size_t)(page_end - page_start);
    const char *marker = memmem(page_start, length, MARKER, sizeof MARKER - 1);
    *before = page_start;
    *before_length = marker != NULL ? (size_t)(marker - page_start) : length;
    *after = marker != NULL ? marker + sizeof MARKER - 1 : NULL;
    *after_length = marker != NULL ? length - *before_length - (sizeof MARKER - 1) : 0;
}
