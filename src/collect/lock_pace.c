/* The pace of lock samples; see the header. No state but the caller's. */
#include "collect/lock_pace.h"

enum {
    ROUND = 32, /* samples of the cheapest */
    MOST_STRETCH = 24,
    SLACK_KEPT = 16, /* a sixteenth of the slack goes with each sample */
};

static const int64_t ROUND_NS = 32000000; /* a round in less is too many */
/* Of the cheapest samples; these are 4 ms apart at most, in the mean. */
static const int64_t SLACK_NS = 20000000;

void pyr_lock_pace_begin(pyr_lock_pace *pace, int64_t now_ns)
{
    pace->paced_ns = now_ns;
    atomic_store(&pace->last_ns, now_ns);
}

/* How far samples are apart follows from what all of a round cost, not the last one: where some
 * stacks are deep, they stay far apart also after a cheap one. */
static void follow(pyr_lock_pace *pace, uint32_t cost)
{
    int64_t own_ns = SLACK_NS * cost;
    int64_t slack_ns = atomic_load(&pace->slack_ns);
    slack_ns -= slack_ns / SLACK_KEPT;
    atomic_store(&pace->slack_ns, slack_ns > own_ns ? slack_ns : own_ns);
}

void pyr_lock_pace_sampled(pyr_lock_pace *pace, int64_t now_ns, uint32_t cost)
{
    int64_t took_ns = now_ns - pace->paced_ns;
    atomic_store(&pace->last_ns, now_ns);
    follow(pace, cost);
    pace->paced += cost;
    if (took_ns > 4 * ROUND_NS && pace->stretch > 0) {
        pace->stretch--; /* at once: holds of slow programs must not be scaled by much */
    } else if (pace->paced < ROUND) {
        return;
    } else if (took_ns < ROUND_NS && pace->stretch < MOST_STRETCH) {
        pace->stretch++;
    }
    pace->paced = 0;
    pace->paced_ns = now_ns;
}

bool pyr_lock_pace_is_rare(pyr_lock_pace *pace, int64_t now_ns)
{
    return pace->stretch > 0 &&
           now_ns - atomic_load(&pace->last_ns) >= atomic_load(&pace->slack_ns);
}

void pyr_lock_pace_restart(pyr_lock_pace *pace, int64_t now_ns)
{
    pace->stretch = pace->paced = 0;
    pace->paced_ns = now_ns;
}
