/* Names and texts of status codes. Pure; any thread. */
#include "base/status.h"

#include <errno.h>

const char *pyr_status_name(pyr_status status)
{
    switch (status) {
#define PYR_STATUS_NAME(name, value, text)                                                         \
    case PYR_##name:                                                                               \
        return #name;
        PYR_STATUS_MAP(PYR_STATUS_NAME)
#undef PYR_STATUS_NAME
    }
    return "UNKNOWN";
}

const char *pyr_status_text(pyr_status status)
{
    switch (status) {
#define PYR_STATUS_TEXT(name, value, text)                                                         \
    case PYR_##name:                                                                               \
        return text;
        PYR_STATUS_MAP(PYR_STATUS_TEXT)
#undef PYR_STATUS_TEXT
    }
    return "unknown error";
}

pyr_status pyr_status_from_errno(int error)
{
    switch (error) {
    case 0:
        return PYR_OK;
    case ENOMEM:
        return PYR_ENOMEM;
    case EINVAL:
        return PYR_EINVAL;
    case EFAULT:
        return PYR_EFAULT;
    case ENOSYS:
    case EOPNOTSUPP:
        return PYR_ENOTSUP;
    case EPERM:
    case EACCES:
    case EROFS:
        return PYR_EPERM;
    case ENOENT:
    case ESRCH:
    case ENOTDIR:
        return PYR_ENOENT;
    case EEXIST:
        return PYR_EEXIST;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return PYR_ENOSPC;
    case EBUSY:
    case EAGAIN:
        return PYR_EBUSY;
    default:
        return PYR_EIO;
    }
}
