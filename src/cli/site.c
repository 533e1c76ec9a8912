/* Places of samples; see the header. Owns nothing; one thread. */
#include "cli/site.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/ending.h"

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static const char *file_of(const pyr_profile *profile, uint32_t frame)
{
    return profile->strings[profile->functions[profile->frames[frame].function].file].data;
}

static bool is_native(const char *file)
{
    return strcmp(file, "<native>") == 0;
}

static bool is_of_locks(const char *file)
{
    static const char *const NAMES[] = {
        "/threading.py",
        "/queue.py",
        "/_weakrefset.py",
        "/asyncio/locks.py",
        "/asyncio/queues.py",
        "/asyncio/mixins.py",
        "/gevent/thread.py",
        "/gevent/lock.py",
        "/eventlet/semaphore.py",
        "/multiprocessing/synchronize.py",
        "/multiprocessing/queues.py",
    };
    size_t length = strlen(file);
    for (size_t index = 0; index < sizeof NAMES / sizeof NAMES[0]; index++) {
        if (pyr_ends_with(file, length, NAMES[index])) {
            return true;
        }
    }
    return is_native(file);
}

uint32_t pyr_site_frame(const pyr_profile *profile, const pyr_profile_sample *sample)
{
    for (uint32_t index = 0; index < sample->frame_count; index++) {
        uint32_t frame = profile->stack_frames[sample->frame_start + index];
        if (!is_native(file_of(profile, frame)) || index + 1 == sample->frame_count) {
            return frame;
        }
    }
    return UINT32_MAX;
}

uint32_t pyr_site_user_frame(const pyr_profile *profile, const pyr_profile_sample *sample)
{
    for (uint32_t index = 0; index < sample->frame_count; index++) {
        uint32_t frame = profile->stack_frames[sample->frame_start + index];
        if (!is_of_locks(file_of(profile, frame))) {
            return frame;
        }
    }
    return pyr_site_frame(profile, sample);
}

void pyr_site_frame_text(const pyr_profile *profile, uint32_t frame, char text[PYR_SITE_BYTES])
{
    if (frame == UINT32_MAX) {
        snprintf(text, PYR_SITE_BYTES, "(no stack)");
        return;
    }
    const pyr_profile_frame *at = &profile->frames[frame];
    const char *name = profile->strings[profile->functions[at->function].name].data;
    const char *file = base_of(file_of(profile, frame));
    if (file[0] == '\0') {
        snprintf(text, PYR_SITE_BYTES, "%s", name);
    } else if (at->line > 0) {
        snprintf(text, PYR_SITE_BYTES, "%s:%" PRId64 ":%s", file, at->line, name);
    } else {
        snprintf(text, PYR_SITE_BYTES, "%s:%s", file, name);
    }
}

void pyr_site_text(const pyr_profile *profile, const pyr_profile_sample *sample,
                   char text[PYR_SITE_BYTES])
{
    pyr_site_frame_text(profile, pyr_site_frame(profile, sample), text);
}
