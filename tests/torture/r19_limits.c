/*
 * Row 19: the program takes away from itself what a guest might need, as the argument says, and
 * goes on: "seccomp" (a filter that kills at every system call that is not on a short list),
 * "files" (no descriptor is left), "memory" (no address space is left), "stack" and "processes".
 */
#include "torture.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static NOINLINE void with_filter(void)
{
    burn_ms(300);
}

static NOINLINE void without_files(void)
{
    burn_ms(200);
}

static NOINLINE void without_memory(void)
{
    burn_ms(200);
}

static NOINLINE void *in_thread(void *argument)
{
    burn_ms(100);
    return argument;
}

#define ALLOW(number)                                                                              \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void seccomp(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_write),
        ALLOW(SYS_clock_gettime),
        ALLOW(SYS_exit_group),
        ALLOW(SYS_rt_sigreturn),
        ALLOW(SYS_rt_sigprocmask),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    printf("ready\n");
    fflush(stdout);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    with_filter();
    static const char text[] = "alive\n";
    ssize_t written = write(1, text, sizeof text - 1);
    _exit(written != sizeof text - 1);
}

static void run_thread(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void files(void)
{
    struct rlimit few = {16, 16};
    int opened = 0;
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    while (open("/dev/null", O_RDONLY) >= 0)
        opened++;
    printf("opened %d, then %d\n", opened, errno == EMFILE);
    without_files();
    run_thread();
    for (int fd = 3; fd < 16; fd++)
        close(fd);
    run_thread();
}

static void memory(void)
{
    struct rlimit small = {512 << 20, 512 << 20};
    int status = setrlimit(RLIMIT_AS, &small);
    size_t blocks = 0;
    CHECK(status == 0);
    while (blocks < 100 && mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                                -1, 0) != MAP_FAILED)
        blocks++;
    printf("memory ends: %s\n", blocks < 100 ? "yes" : "no");
    without_memory();
    void *some = malloc(1000);
    CHECK(some != NULL);
    free(some);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    burn_ms(30);
    if (strcmp(what, "seccomp") == 0)
        seccomp();
    else if (strcmp(what, "files") == 0)
        files();
    else
        memory();
    return torture_end();
}
