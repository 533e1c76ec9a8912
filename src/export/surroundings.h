/* Where a process runs, as far as files and variables tell: container, Kubernetes, git. Read on the
 * exporter's thread, at the first upload; nothing here waits or runs a program. */
#ifndef PYR_EXPORT_SURROUNDINGS_H
#define PYR_EXPORT_SURROUNDINGS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { PYR_LIMIT_CONTAINER_ID = 80, PYR_LIMIT_GIT_BYTES = 256, PYR_LIMIT_KUBERNETES_BYTES = 256 };

/* Pure: the container's id in the text of /proc/PID/cgroup: 64 hexadecimal digits, a UUID, or that
 * of an ECS task (32 digits and a number); "" where there is none. As the Datadog Agent finds it.
 */
void pyr_container_id(const char *cgroup, char id[PYR_LIMIT_CONTAINER_ID]);

/* Pure: the path of the process in the hierarchy that the inode is taken of: that of version 2
 * (`0::/path`), else of the memory controller; PYR_ENOENT. Its folder below /sys/fs/cgroup. */
PYR_MUST_USE pyr_status pyr_cgroup_folder(const char *cgroup, char *folder, size_t size);

/* Of this process: "ci-<container id>", or "in-<inode of its cgroup>" where the id is hidden by a
 * namespace, or "" outside of containers; `container` gets the id, or "". */
void pyr_entity_id(char container[PYR_LIMIT_CONTAINER_ID], char entity[PYR_LIMIT_CONTAINER_ID]);

typedef struct pyr_kubernetes {
    char pod[PYR_LIMIT_KUBERNETES_BYTES];
    char name_space[PYR_LIMIT_KUBERNETES_BYTES];
    char node[PYR_LIMIT_KUBERNETES_BYTES];
} pyr_kubernetes;

/* What Kubernetes gave this process: all "" elsewhere. Where no variable says it, the pod is the
 * host name, which Kubernetes makes so, and the namespace that of the service account. `host` is
 * this machine's name. Called at open: it asks the environment. */
void pyr_kubernetes_find(const char *host, pyr_kubernetes *kubernetes);

typedef struct pyr_git {
    char repository_url[PYR_LIMIT_GIT_BYTES]; /* without user and password */
    char commit_sha[PYR_LIMIT_GIT_BYTES];
} pyr_git;

/* The checkout that `folder` lies in: HEAD's commit, and the address of the remote "origin". Each
 * is
 * "" where it is not found. Reads .git, a few small files. */
void pyr_git_find(const char *folder, pyr_git *git);

/* Pure: copies a repository's address without the user and password in it. */
void pyr_git_clean_url(const char *url, char *clean, size_t size);

#endif
