/*
 * Forks while its measurement is paused: the child is paused, too, until it says that it goes on.
 * What is to be measured and what not is said by the functions' names. With an argument, another
 * thread holds the dynamic linker's lock at that time, which the child then never gets.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <calltrail.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OUT __attribute__((noinline, noclone))

static int in_callback[2], go_on[2];
static volatile int burnt;

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

OUT static void burn(void)
{
    for (double end = cpu_s() + 0.05; cpu_s() < end;)
        ;
}

OUT static void counted(void)
{
    burn();
    burnt++;
}

OUT static void not_counted(void)
{
    burn();
    burnt += 2; /* or the two become one */
}

static int hold_lock(struct dl_phdr_info *info, size_t bytes, void *unused)
{
    char byte = 0;
    (void)info;
    (void)bytes;
    (void)unused;
    return write(in_callback[1], &byte, 1) != 1 || read(go_on[0], &byte, 1) != 1 ? 2 : 1;
}

static void *hold(void *unused)
{
    dl_iterate_phdr(hold_lock, unused);
    return unused;
}

static void in_child(void)
{
    not_counted();
    ct_pause();
    not_counted();
    ct_resume();
    counted();
}

int main(int argc, char **argv)
{
    pthread_t holder;
    char byte = 0;
    int status = -1;
    (void)argv;
    ct_resume(); /* looked up before it matters */
    counted();
    ct_pause();
    if (argc > 1 &&
        (pipe(in_callback) != 0 || pipe(go_on) != 0 ||
         pthread_create(&holder, NULL, hold, NULL) != 0 || read(in_callback[0], &byte, 1) != 1))
        return 1;
    pid_t child = fork();
    if (child == 0) {
        in_child();
        _exit(7);
    }
    if (argc > 1 && (write(go_on[1], &byte, 1) != 1 || pthread_join(holder, NULL) != 0))
        return 1;
    waitpid(child, &status, 0);
    not_counted();
    ct_resume();
    counted();
    printf("%#x\n", (unsigned)status);
    return 0;
}
