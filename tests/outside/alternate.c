/* All of its time is in `hot`, below a signal handler on an alternate stack. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static volatile unsigned sum;

__attribute__((noinline)) unsigned hot(unsigned x, long n)
{
    for (long i = 0; i < n; i++)
        x = x * 1103515245u + 12345u;
    return x;
}

__attribute__((noinline)) static void handler(int number)
{
    sum += hot((unsigned)number, 200000000);
}

__attribute__((noinline)) static void outer(void)
{
    raise(SIGUSR1);
    sum++;
}

int main(int argc, char **argv)
{
    static char low[1 << 16]; /* far from the stack, or nearer to it */
    size_t bytes = 1 << 16;
    char *near = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t other = {.ss_sp = argc > 1 ? low : near, .ss_size = bytes};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    (void)argv;
    sigaltstack(&other, NULL);
    sigaction(SIGUSR1, &action, NULL);
    outer();
    printf("%u\n", sum);
    return 0;
}
