/*
 * Row 51: time stamps are forbidden, by prctl or by a system call that no library makes, for a
 * while and for a thread.
 */
#include "torture.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static NOINLINE void without_stamps(void)
{
    for (int i = 0; i < 2000; i++)
        spin(20000);
}

static void *in_thread(void *argument)
{
    without_stamps();
    ssize_t written = write(-1, "", 1); /* may wait, and is measured with -e wall */
    (void)written;
    return argument;
}

static void run_thread(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0);
    in_thread(NULL);
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(void)
{
    int how = 0;
    burn_ms(20);
    CHECK(prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0);
    run_thread();
    CHECK(prctl(PR_GET_TSC, &how, 0, 0, 0) == 0 && how == PR_TSC_SIGSEGV);
    CHECK(prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0) == 0);
    burn_ms(20);
    long status;
    __asm__ volatile("syscall"
                     : "=a"(status)
                     : "a"(SYS_prctl), "D"(PR_SET_TSC), "S"(PR_TSC_SIGSEGV)
                     : "rcx", "r11", "memory");
    CHECK(status == 0);
    run_thread();
    CHECK(prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0) == 0);
    return torture_end();
}
