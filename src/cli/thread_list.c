/* The threads of a profile.
 *
 * Owns its arrays. One thread. Profiles of other tools may name no threads: their samples are all
 * of one thread without a name.
 */
#include "cli/thread_list.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/memory.h"
#include "cli/pairs.h"

static int64_t number_label(const pyr_profile *profile, const pyr_profile_sample *sample,
                            const char *key)
{
    const pyr_profile_label *label = pyr_profile_find_label(profile, sample, key);
    return label != NULL && label->text == 0 ? label->number : 0;
}

static pyr_thread thread_of(const pyr_profile *profile, const pyr_profile_sample *sample)
{
    const pyr_profile_label *name = pyr_profile_find_label(profile, sample, "thread name");
    int64_t id = number_label(profile, sample, "thread native id");
    return (pyr_thread){
        .name = name != NULL ? name->text : 0,
        .native_id = id != 0 ? id : number_label(profile, sample, "thread id"),
    };
}

pyr_status pyr_thread_list_init(pyr_thread_list *threads, const pyr_profile *profile)
{
    pyr_status status = PYR_ENOMEM;
    pyr_pairs *ids = pyr_pairs_new();
    pyr_pairs *named = pyr_pairs_new();
    *threads = (pyr_thread_list){
        .of_sample = pyr_memory_new(profile->sample_count + 1, sizeof *threads->of_sample)};
    if (ids == NULL || named == NULL || threads->of_sample == NULL) {
        goto out;
    }
    for (size_t index = 0; index < profile->sample_count; index++) {
        pyr_thread thread = thread_of(profile, &profile->samples[index]);
        uint64_t bits = (uint64_t)thread.native_id;
        uint32_t id = 0;
        status = pyr_pairs_add(ids, (uint32_t)(bits >> 32), (uint32_t)bits, &id);
        if (status == PYR_OK) {
            status = pyr_pairs_add(named, thread.name, id, &threads->of_sample[index]);
        }
        if (status != PYR_OK) {
            goto out;
        }
    }
    threads->count = pyr_pairs_count(named);
    threads->list = pyr_memory_new(threads->count + 1, sizeof *threads->list);
    if (threads->list == NULL) {
        status = PYR_ENOMEM;
        goto out;
    }
    for (size_t index = 0; index < threads->count; index++) {
        pyr_pair pair = pyr_pairs_at(named, index);
        pyr_pair id = pyr_pairs_at(ids, pair.second);
        threads->list[index] = (pyr_thread){
            .name = pair.first,
            .native_id = (int64_t)((uint64_t)id.first << 32 | id.second),
        };
    }
    status = PYR_OK;
out:
    if (status != PYR_OK) {
        pyr_thread_list_fini(threads);
    }
    pyr_pairs_free(ids);
    pyr_pairs_free(named);
    return status;
}

void pyr_thread_list_fini(pyr_thread_list *threads)
{
    pyr_memory_free(threads->list);
    pyr_memory_free(threads->of_sample);
    *threads = (pyr_thread_list){0};
}

void pyr_thread_list_title(const pyr_profile *profile, const pyr_thread *thread, char *text,
                           size_t size)
{
    const char *name = thread->name != 0 ? profile->strings[thread->name].data : "all threads";
    if (thread->native_id != 0) {
        snprintf(text, size, "%.200s (%" PRId64 ")", thread->name != 0 ? name : "thread",
                 thread->native_id);
    } else {
        snprintf(text, size, "%.200s", name);
    }
}
