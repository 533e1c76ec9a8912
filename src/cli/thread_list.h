/* The threads of a profile, told apart by name and native id. */
#ifndef PYR_CLI_THREAD_LIST_H
#define PYR_CLI_THREAD_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "pprof/profile.h"

typedef struct pyr_thread {
    uint32_t name;     /* string; 0 = samples without a thread name */
    int64_t native_id; /* 0 = unknown */
} pyr_thread;

typedef struct pyr_thread_list {
    pyr_thread *list;
    size_t count;
    uint32_t *of_sample; /* sample -> index in list */
} pyr_thread_list;

PYR_MUST_USE pyr_status pyr_thread_list_init(pyr_thread_list *threads, const pyr_profile *profile);
void pyr_thread_list_fini(pyr_thread_list *threads);

/* Its name for people: "worker-1 (4711)"; `profile` as above. Never more than `size` bytes. */
void pyr_thread_list_title(const pyr_profile *profile, const pyr_thread *thread, char *text,
                           size_t size);

#endif
