/* What a browser is given, put into the program by the assembler; see the header.
 *
 * Owns read-only bytes. PYR_SERVED_FOLDER comes from the build, which also rebuilds this file when
 * what is in there changes.
 */
#include "server/page.h"

#define EMBED(NAME, FILE)                                                                          \
    __asm__(".section .rodata\n"                                                                   \
            ".local " #NAME "_start\n"                                                             \
            ".local " #NAME "_end\n" #NAME "_start:\n"                                             \
            ".incbin \"" PYR_SERVED_FOLDER "/" FILE "\"\n" #NAME "_end:\n"                         \
            ".byte 0\n"                                                                            \
            ".previous\n");                                                                        \
    extern const char NAME##_start[] __attribute__((visibility("hidden")));                        \
    extern const char NAME##_end[] __attribute__((visibility("hidden")))

EMBED(served_page, "server.html");
EMBED(served_graphviz, "graphviz.js");

const void *pyr_page_bytes(size_t *length)
{
    *length = (size_t)(served_page_end - served_page_start);
    return served_page_start;
}

const void *pyr_page_graphviz(size_t *length)
{
    *length = (size_t)(served_graphviz_end - served_graphviz_start);
    return served_graphviz_start;
}

const char *pyr_page_policy(void)
{
    return "default-src 'none'; script-src 'unsafe-inline' 'self' 'wasm-unsafe-eval'; style-src "
           "'unsafe-inline'; "
           "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
           "frame-ancestors 'none'";
}
