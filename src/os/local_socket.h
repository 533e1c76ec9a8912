/* Sockets between processes of one machine, by names that need no file (Linux's abstract ones).
 *
 * A name dies with the last descriptor of its socket: nothing is left behind by a process that was
 * killed. Anybody may connect to such a name, so both sides ask the kernel who the other one is.
 * Descriptors are close-on-exec and have high numbers: a program's own files are numbered as they
 * would be without us. Any thread; calls wait as said, none raises a signal.
 */
#ifndef PYR_OS_LOCAL_SOCKET_H
#define PYR_OS_LOCAL_SOCKET_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"

enum { PYR_LIMIT_SOCKET_NAME = 96 };

/* Who a process is to others, whatever namespaces it lives in: its pid, as itself sees it, and the
 * namespace of that. */
typedef struct pyr_local_process {
    int64_t pid;
    uint64_t pid_namespace; /* 0: not known */
} pyr_local_process;

/* The calling process, or the one that the caller knows as `pid`. PYR_ENOENT: there is none. */
PYR_MUST_USE pyr_status pyr_local_process_self(pyr_local_process *process);
PYR_MUST_USE pyr_status pyr_local_process_find(int64_t pid, pyr_local_process *process);

/* Where the other side is: its user, and its pid as the caller sees it (0: in another namespace).
 */
typedef struct pyr_local_peer {
    int64_t pid;
    uint64_t user;
} pyr_local_peer;

/* A listening socket. `identity` tells it from another file that gets its number after a program
 * has closed all it does not know. */
typedef struct pyr_local_listener {
    int descriptor; /* -1 = none */
    uint64_t device, identity;
} pyr_local_listener;

/* Makes room for a high number in the kernel's table of descriptors: best done by a process that
 * has one thread, since with several the kernel waits for all CPUs (10 ms and more), once. */
void pyr_local_make_room(void);

/* PYR_EEXIST: the name is taken; PYR_EPERM, PYR_EIO. */
PYR_MUST_USE pyr_status pyr_local_listen(const char *name, pyr_local_listener *listener);

/* Whether the descriptor still is that socket. Hook safe. */
PYR_HOOK_SAFE int pyr_local_listener_is_open(const pyr_local_listener *listener);

/* Closes it, if it still is that socket. Hook safe: the child of a fork closes its copy. */
PYR_HOOK_SAFE void pyr_local_listener_close(pyr_local_listener *listener);

/* Waits, for ever, until somebody connects. PYR_ECLOSED: the socket is gone; PYR_EIO: this once it
 * did not work. */
PYR_MUST_USE pyr_status pyr_local_accept(const pyr_local_listener *listener, int *connection,
                                         pyr_local_peer *peer);

/* Connects. PYR_ENOENT: nobody listens; PYR_EPERM, PYR_EBUSY, PYR_EIO. */
PYR_MUST_USE pyr_status pyr_local_connect(const char *name, int *connection, pyr_local_peer *peer);

/* Gives up waiting on the connection after `timeout_ns`, in each single read or write. */
void pyr_local_set_timeout(int connection, int64_t timeout_ns);

/* Sends all, and says that no more will come. PYR_EBUSY: timeout; PYR_EIO. */
PYR_MUST_USE pyr_status pyr_local_send(int connection, const void *bytes, size_t length);

/* Appends all that the other side sends, to its end. PYR_ETOOBIG: more than `out` holds; PYR_EBUSY:
 * timeout; PYR_EIO, PYR_ENOMEM. */
PYR_MUST_USE pyr_status pyr_local_receive(int connection, pyr_buffer *out);

PYR_HOOK_SAFE void pyr_local_close(int connection);

/* Enters the network namespace of another process, for the calling thread: names are looked up
 * there. PYR_OK also where it is the same. PYR_EPERM. */
PYR_MUST_USE pyr_status pyr_local_enter_network(int64_t pid);

#endif
