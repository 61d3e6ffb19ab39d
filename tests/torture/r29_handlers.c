/*
 * Handlers that interrupt the program wherever it is, and then take long, making calls of their
 * own: most samples find the program in a handler, and below it whatever it has interrupted. The
 * chain of calls is the same each time: walks through it must be complete, and no frame a guess.
 */
#include "torture.h"

#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

enum { HANDLERS = 200, PERIOD_US = 500 };

static volatile unsigned long sink;
static volatile sig_atomic_t handlers;

__attribute__((noinline)) static void leaf(unsigned long n)
{
    sink += n;
}

__attribute__((noinline)) static void middle(void (*through)(unsigned long), unsigned long n)
{
    leaf(n);
    through(n);
    sink++;
}

__attribute__((noinline)) static void outer(unsigned long n)
{
    middle(leaf, n);
    middle(leaf, n + 1);
    sink++;
}

__attribute__((noinline)) static void handle_long(void)
{
    for (unsigned long n = 0; n < 100000; n++)
        middle(leaf, n);
}

static void arm(void)
{
    struct itimerval once = {.it_value = {.tv_usec = PERIOD_US}};
    setitimer(ITIMER_REAL, &once, NULL);
}

static void on_alarm(int number)
{
    (void)number;
    handle_long();
    handlers++;
    arm();
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    arm();
    for (unsigned long n = 0; handlers < HANDLERS; n++)
        outer(n);
    puts("done");
    return 0;
}
