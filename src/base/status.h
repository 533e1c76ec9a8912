/* Status codes: 0 is good, negative is bad, results travel through out-parameters.
 *
 * One X-macro list gives the enum, the names and the texts, so they cannot drift apart (after
 * libuv's UV_ERRNO_MAP). Codes are stable: never reuse a number.
 */
#ifndef PYR_BASE_STATUS_H
#define PYR_BASE_STATUS_H

#define PYR_MUST_USE __attribute__((warn_unused_result))

/* Marks a function callable from an allocator hook, a signal handler or a fork child: it
 * allocates nothing, waits for nothing, logs nothing and calls only functions so marked. */
#define PYR_HOOK_SAFE

#define PYR_STATUS_MAP(X)                                                                          \
    X(OK, 0, "no error")                                                                           \
    X(ENOMEM, -1, "out of memory")                                                                 \
    X(EINVAL, -2, "invalid argument")                                                              \
    X(ETOOBIG, -3, "a size limit was reached")                                                     \
    X(EFAULT, -4, "memory of the target could not be read")                                        \
    X(EBAD, -5, "malformed data")                                                                  \
    X(EPARTIAL, -6, "data ends too early")                                                         \
    X(ENOTSUP, -7, "not supported here")                                                           \
    X(EPERM, -8, "not permitted")                                                                  \
    X(ENOENT, -9, "not found")                                                                     \
    X(EEXIST, -10, "exists already")                                                               \
    X(EIO, -11, "input or output failed")                                                          \
    X(ENOSPC, -12, "no space left")                                                                \
    X(EBUSY, -13, "busy")                                                                          \
    X(ETORN, -14, "the data changed while it was read")                                            \
    X(EVERSION, -15, "unsupported version")                                                        \
    X(ECLOSED, -16, "closed")                                                                      \
    X(ETHREAD, -17, "a thread could not be started")                                               \
    X(EKEPT, -18, "kept to be sent later")                                                         \
    X(EREFUSED, -19, "refused by the receiver")                                                    \
    X(ELEFTOUT, -20, "left out by a setting")                                                      \
    X(ECOSTLY, -21, "a pattern takes too many steps to match")

typedef enum pyr_status {
#define PYR_STATUS_ENUM(name, value, text) PYR_##name = (value),
    PYR_STATUS_MAP(PYR_STATUS_ENUM)
#undef PYR_STATUS_ENUM
} pyr_status;

/* "ENOMEM", or "UNKNOWN". Static storage. */
const char *pyr_status_name(pyr_status status);

/* One sentence fragment in English, or "unknown error". Static storage. */
const char *pyr_status_text(pyr_status status);

/* The closest code for an errno value (errno 0 gives PYR_OK). */
PYR_HOOK_SAFE pyr_status pyr_status_from_errno(int error);

#endif
