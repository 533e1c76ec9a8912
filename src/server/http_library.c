/* Finds libmicrohttpd and its functions; see the header. Owns the table of functions. */
#include "server/http_library.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

pyr_http_library pyr_mhd;

static bool find_functions(void *library)
{
    void *symbol = NULL;
#define FIND(name)                                                                                 \
    symbol = dlsym(library, "MHD_" #name);                                                         \
    if (symbol == NULL) {                                                                          \
        return false;                                                                              \
    }                                                                                              \
    memcpy(&pyr_mhd.name, &symbol, sizeof symbol);
    PYR_HTTP_FUNCTIONS(FIND)
#undef FIND
    return true;
}

pyr_status pyr_http_library_load(char *why, size_t why_size)
{
    if (pyr_mhd.start_daemon != NULL && pyr_mhd.is_feature_supported != NULL) {
        return PYR_OK;
    }
    void *library = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL);
    if (library != NULL && find_functions(library)) {
        return PYR_OK;
    }
    memset(&pyr_mhd, 0, sizeof pyr_mhd);
    snprintf(why, why_size,
             "libmicrohttpd.so.12 (0.9.71 or newer) is needed to serve: install libmicrohttpd12 "
             "(Debian, Ubuntu), libmicrohttpd (Fedora, Alpine)");
    return PYR_ENOTSUP;
}
