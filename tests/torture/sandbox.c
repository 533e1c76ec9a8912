/* Runs a program in which some system calls fail, as a container's seccomp profile makes them:
 *
 *     sandbox ERRNO CALL[,CALL...] [--] PROGRAM [ARGUMENT ...]
 *
 * ERRNO is EPERM, ENOSYS or EAGAIN; CALL one of the table below. "thread" fails the making of
 * threads but not of processes. For tests; x86-64 and aarch64.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_RULES = 128 };

static const struct {
    const char *name;
    int number;
} CALLS[] = {
    {"process_vm_readv", SYS_process_vm_readv},
    {"process_vm_writev", SYS_process_vm_writev},
    {"sched_setattr", SYS_sched_setattr},
    {"madvise", SYS_madvise},
    {"renameat2", SYS_renameat2},
    {"getrandom", SYS_getrandom},
    {"clock_getres", SYS_clock_getres},
};

static struct sock_filter rules[MOST_RULES];
static unsigned short count;

static void add(unsigned short code, unsigned value, unsigned char yes, unsigned char no)
{
    if (count == MOST_RULES) {
        fprintf(stderr, "too many calls\n");
        exit(125);
    }
    rules[count++] = (struct sock_filter)BPF_JUMP(code, value, yes, no);
}

static void refuse(unsigned number, unsigned error)
{
    add(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
    add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error, 0, 0);
}

static void refuse_threads(unsigned error)
{
    /* What a thread is stands in memory with clone3, so libc is made to use clone. */
    refuse(SYS_clone3, ENOSYS);
    add(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4);
    add(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]), 0, 0);
    add(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1);
    add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error, 0, 0);
    add(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
}

static void refuse_named(const char *name, unsigned error)
{
    if (strcmp(name, "thread") == 0) {
        refuse_threads(error);
        return;
    }
    for (size_t i = 0; i < sizeof CALLS / sizeof CALLS[0]; i++) {
        if (strcmp(name, CALLS[i].name) == 0) {
            refuse((unsigned)CALLS[i].number, error);
            return;
        }
    }
    fprintf(stderr, "unknown call %s\n", name);
    exit(125);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: sandbox ERRNO CALL[,CALL...] PROGRAM [ARGUMENT ...]\n");
        return 125;
    }
    unsigned error = strcmp(argv[1], "ENOSYS") == 0   ? ENOSYS
                     : strcmp(argv[1], "EAGAIN") == 0 ? EAGAIN
                                                      : EPERM;
    add(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
    char *rest = argv[2];
    for (char *name = strsep(&rest, ","); name != NULL; name = strsep(&rest, ",")) {
        refuse_named(name, error);
    }
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    const struct sock_fprog program = {.len = count, .filter = rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("seccomp");
        return 125;
    }
    int first = strcmp(argv[3], "--") == 0 ? 4 : 3;
    execvp(argv[first], argv + first);
    perror(argv[first]);
    return 127;
}
