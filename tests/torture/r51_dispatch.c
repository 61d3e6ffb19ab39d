/*
 * Row 51: system calls that become signals to the thread itself (PR_SET_SYSCALL_USER_DISPATCH), as
 * emulators of other systems have them: all that are not made in libc's code, as long as a byte
 * says so. Its handler answers for the kernel; it does not expect any but the program's own.
 */
#include "torture.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

enum { ANSWER = 4242, ROUNDS = 100 };

static volatile char selector; /* 1: they are signals */
static volatile int own, others;

static void on_call(int number, siginfo_t *info, void *context)
{
    (void)number;
    selector = 0;
    if (info->si_syscall == SYS_getpid)
        own++;
    else
        others++;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = ANSWER;
    selector = 1;
}

static long raw_getpid(void)
{
    long answer;
    __asm__ volatile("syscall" : "=a"(answer) : "0"(SYS_getpid) : "rcx", "r11", "memory");
    return answer;
}

/* libc's code, from its first page of it to its last. */
static unsigned long find_libc(unsigned long *bytes)
{
    unsigned long start = 0, from, to;
    char line[512];
    FILE *file = fopen("/proc/self/maps", "re");
    while (file && fgets(line, sizeof line, file))
        if (strstr(line, "/libc.so.6") && strstr(line, " r-xp ") &&
            sscanf(line, "%lx-%lx", &from, &to) == 2) {
            start = start ? start : from;
            *bytes = to - start;
        }
    if (file)
        fclose(file);
    return start;
}

static NOINLINE void *in_thread(void *unused)
{
    burn_ms(50);
    return unused;
}

int main(void)
{
    unsigned long bytes = 0, libc = find_libc(&bytes);
    struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO};
    pthread_t thread;
    burn_ms(50);
    CHECK(sigaction(SIGSYS, &action, NULL) == 0);
    CHECK(prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, libc, bytes, &selector) == 0);
    selector = 1;
    for (int i = 0; i < ROUNDS; i++) {
        spin(200000);
        if (raw_getpid() != ANSWER)
            break;
    }
    selector = 0;
    CHECK(own == ROUNDS);
    CHECK(others == 0);
    CHECK(prctl(PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0) == 0);
    CHECK(raw_getpid() == getpid());
    CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return torture_end();
}
