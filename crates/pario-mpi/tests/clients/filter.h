/*
 * Filters of system calls, like those of containers: a call that is refused fails with EPERM, for
 * the rest of the process's life.
 */
#ifndef FILTER_H
#define FILTER_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

/* Refuses system calls; the list ends with -1. */
UNUSED static void refuse(const long *calls) {
    struct sock_filter rules[32];
    unsigned short count = 0;
    rules[count++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (; *calls >= 0; calls++) {
        rules[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)*calls, 0, 1);
        rules[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    }
    rules[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {.len = count, .filter = rules};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0, "the filter is refused");
}

/* What containers refuse without CAP_SYS_PTRACE. */
UNUSED static void refuse_process_memory(void) {
    refuse((long[]){SYS_process_vm_readv, SYS_process_vm_writev, SYS_ptrace, SYS_pidfd_getfd, -1});
}

#endif
