/*
 * Starts a command with something taken away: "as BYTES" and "nofile N" and "fsize BYTES" are
 * limits, "noperf" makes perf_event_open fail with EACCES (as perf_event_paranoid 3 does), "shm
 * BYTES" mounts a small /dev/shm and /tmp in a namespace of its own.
 */
#include "torture.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static int no_perf(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int small_shm(const char *bytes)
{
    char options[64];
    snprintf(options, sizeof options, "size=%s", bytes);
    return unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
           mount("tmpfs", "/dev/shm", "tmpfs", 0, options);
}

int main(int argc, char **argv)
{
    int status = 0, used = 1;
    if (argc > 2 && strcmp(argv[1], "noperf") == 0) {
        status = no_perf();
    } else if (argc > 3) {
        rlim_t value = strtoull(argv[2], NULL, 10);
        struct rlimit limit = {value, value};
        used = 2;
        if (strcmp(argv[1], "shm") == 0)
            status = small_shm(argv[2]);
        else
            status = setrlimit(strcmp(argv[1], "as") == 0       ? RLIMIT_AS
                               : strcmp(argv[1], "nofile") == 0 ? RLIMIT_NOFILE
                                                                : RLIMIT_FSIZE,
                               &limit);
    }
    if (status) {
        perror(argv[1]);
        return 125;
    }
    execvp(argv[used + 1], argv + used + 1);
    perror(argv[used + 1]);
    return 126;
}
