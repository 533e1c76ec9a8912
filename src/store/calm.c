/* A time of day that does not jump ahead; see the header. Owns nothing, waits for nothing. */
#include "store/calm.h"

static const int64_t JUMP_NS = INT64_C(3600000000000);
static const int64_t BELIEVED_NS = INT64_C(86400000000000);

int64_t pyr_calm_now(pyr_calm *calm, int64_t realtime_ns, int64_t monotonic_ns)
{
    int64_t offset = realtime_ns - monotonic_ns;
    bool jumped = calm->is_set && offset > calm->offset_ns + JUMP_NS;
    if (jumped && calm->doubtful_ns == 0) {
        calm->doubtful_ns = monotonic_ns;
    }
    if (!jumped || monotonic_ns - calm->doubtful_ns > BELIEVED_NS) {
        calm->is_set = true;
        calm->offset_ns = offset;
        calm->doubtful_ns = 0;
    }
    return monotonic_ns + calm->offset_ns;
}
