/* libmicrohttpd, opened by its name when a server starts: see CMakeLists.txt for why it is not
 * linked. Private to server/. Loaded once a process, never unloaded; the thread that starts it. */
#ifndef PYR_SERVER_HTTP_LIBRARY_H
#define PYR_SERVER_HTTP_LIBRARY_H

#include <microhttpd.h>
#include <stddef.h>

#include "base/status.h"

#define PYR_HTTP_FUNCTIONS(X)                                                                      \
    X(start_daemon)                                                                                \
    X(quiesce_daemon)                                                                              \
    X(stop_daemon)                                                                                 \
    X(create_response_from_buffer)                                                                 \
    X(create_response_from_buffer_with_free_callback_cls)                                          \
    X(add_response_header)                                                                         \
    X(queue_response)                                                                              \
    X(destroy_response)                                                                            \
    X(suspend_connection)                                                                          \
    X(resume_connection)                                                                           \
    X(lookup_connection_value)                                                                     \
    X(get_connection_values)                                                                       \
    X(get_connection_info)                                                                         \
    X(is_feature_supported)

/* The functions, without their prefix. */
typedef struct pyr_http_library {
#define PYR_HTTP_FIELD(name) __typeof__(&MHD_##name) name;
    PYR_HTTP_FUNCTIONS(PYR_HTTP_FIELD)
#undef PYR_HTTP_FIELD
} pyr_http_library;

extern pyr_http_library pyr_mhd;

/* PYR_ENOTSUP: it is not there; `why` says what to install. */
PYR_MUST_USE pyr_status pyr_http_library_load(char *why, size_t why_size);

#endif
