/* Fuzz target of src/pprof: bytes into a profile, and what is accepted through everything else.
 *
 * What the parser accepts must be consistent enough for merge, diff and the writer, and what is
 * written must be accepted again and mean as many samples.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "pprof/diff.h"
#include "pprof/merge.h"
#include "pprof/parser.h"
#include "pprof/write.h"

enum { MAX = 1 << 22 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
    if (!condition) {
        abort();
    }
}

static pyr_profile *parse(const uint8_t *data, size_t size, size_t max)
{
    pyr_profile *profile;
    pyr_parse_error error;
    pyr_status status = pyr_profile_parse(data, size, max, &profile, &error);
    must((status == PYR_OK) == (profile != NULL) && (status == PYR_OK) == (error.what == NULL));
    return profile;
}

/* Of all samples, those that they share counted for each. */
static size_t count_frames(const pyr_profile *profile)
{
    size_t count = 0;
    for (size_t i = 0; i < profile->sample_count; i++) {
        const pyr_profile_sample *sample = &profile->samples[i];
        must(sample->frame_start + (size_t)sample->frame_count <= profile->stack_frame_count);
        count += sample->frame_count;
    }
    return count;
}

static void check_write(const pyr_profile *profile)
{
    pyr_buffer out;
    pyr_buffer_init(&out, (size_t)1 << 30);
    must(pyr_profile_write(profile, PYR_PPROF_RAW, &out) == PYR_OK);
    pyr_profile *again = parse(out.data, out.length, out.maximum);
    must(again && again->sample_count == profile->sample_count &&
         count_frames(again) == count_frames(profile) &&
         again->label_count == profile->label_count);
    pyr_profile_free(again);
    pyr_buffer_fini(&out);
}

static void check_diff(const pyr_profile *before, const pyr_profile *after)
{
    const pyr_diff_options options = {.correction = PYR_DIFF_FALSE_RATE};
    pyr_diff *diff;
    pyr_status status = pyr_diff_new(before, after, &options, &diff);
    must(status == PYR_OK || status == PYR_ENOENT);
    pyr_diff_free(diff);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pyr_profile *profile = parse(data, size, MAX);
    if (!profile) {
        return 0;
    }
    check_write(profile);
    const pyr_profile *const twice[] = {profile, profile};
    pyr_profile *merged;
    must(pyr_profile_merge(twice, 2, (pyr_merge_timestamps)(size & 1), &merged) == PYR_OK);
    must(merged->sample_count <= profile->sample_count);
    check_write(merged);
    check_diff(profile, merged);
    pyr_profile_free(merged);
    pyr_profile_free(profile);
    return 0;
}
