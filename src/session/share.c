/* Shares of processes; see the header. Stateless; any thread. */
#include "session/share.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/map.h"
#include "os/os.h"

enum { HOST_BYTES = 256 };

bool pyr_share_includes(double pct, const char *host, int64_t pid, uint64_t birth)
{
    /* A fixed seed: two looks at one process agree. */
    uint64_t hash = pyr_hash_bytes(host, strlen(host), 0);
    hash = pyr_hash_u64((uint64_t)pid, hash);
    hash = pyr_hash_u64(birth, hash);
    return (double)(hash >> 11) * 0x1p-53 * 100 < pct;
}

bool pyr_share_includes_this(double pct)
{
    char host[HOST_BYTES] = ""; /* in a pod, its name */
    if (pct >= 100) {
        return true;
    }
    if (gethostname(host, sizeof host - 1) != 0) {
        host[0] = '\0';
    }
    return pyr_share_includes(pct, host, getpid(), pyr_os_process_birth());
}
